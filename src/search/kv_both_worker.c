/* SPDX-License-Identifier: Apache-2.0 */
/* kv_both_worker.c - a worker's process of kv_both.h: does what core/kv/worker_kv.h says, as src/kvlib does. */
#include "search/kv_both_world.h"

static const uint8_t identity[WORKER_KV_IDENTITY_BYTES] = { 1 };

static void say(struct both_world *world, uint32_t p, uint8_t type, uint64_t number)
{
	struct both_process *process = &world->process[p];
	struct both_message message = { .type = type, .number = (uint8_t)number };

	if (process->conn)
		both_put(&world->conn[process->conn - 1].up, message);
}

static void batches_say(struct both_world *world, uint32_t p)
{
	struct worker_kv_server *server = both_kv(&world->process[p])->server;

	while (worker_kv_batch_due(server)) {
		worker_kv_batch_said(server);
		say(world, p, BOTH_BATCH, server->batch_said);
	}
}

static void again(struct both_world *world, uint32_t p)
{
	const struct worker_kv_server *server = both_kv(&world->process[p])->server;

	batches_say(world, p);
	if (worker_kv_barrier_due(server))
		say(world, p, BOTH_BARRIER, server->barrier_said);
}

static void hang_up(struct both_world *world, uint32_t p)
{
	struct both_process *process = &world->process[p];

	if (process->conn)
		both_conn_ends(&world->conn[process->conn - 1], true);
	process->conn = 0;
}

static void attempt(struct both_world *world, uint32_t p)
{
	uint64_t last = 0;
	uint8_t c = 0;

	for (uint32_t i = 0; i < BOTH_CONNS; i++)
		if (world->conn[i].link > last)
			last = world->conn[i].link;
	while (world->conn[c].link)
		c++;
	CORE_ASSERT(c < BOTH_CONNS);
	world->conn[c] = (struct both_conn){
		.link = last + 1, .process = (uint8_t)p, .near = true, .far = true
	};
	world->process[p].conn = (uint8_t)(c + 1);
	worker_kv_connected(both_kv(&world->process[p])->server);
	say(world, p, BOTH_HELLO, 0);
}

static void act(struct both_world *world, uint32_t p, const struct worker_kv_actions *actions,
		uint8_t refusal)
{
	struct worker_kv *kv = both_kv(&world->process[p]);
	uint8_t list[WORKER_KV_IDENTITY_BYTES];

	if (actions->todo & WORKER_KV_FAIL)
		both_fault_judge(world, p, actions->fault, refusal);
	if (actions->todo & (WORKER_KV_FAIL | WORKER_KV_CLOSE))
		hang_up(world, p);
	if (actions->todo & WORKER_KV_ATTEMPT)
		attempt(world, p);
	if (actions->todo & WORKER_KV_SAY_OPEN) {
		(void)worker_kv_open(kv, 0, list);
		say(world, p, BOTH_OPEN, 0);
	}
	if (actions->todo & WORKER_KV_AGAIN)
		again(world, p);
	if (actions->todo & WORKER_KV_PASSED)
		both_passed_judge(world, p);
	if (actions->todo & WORKER_KV_SAY_LEAVE)
		say(world, p, BOTH_LEAVE, 0);
	if (actions->todo & WORKER_KV_OVER) {
		both_over_judge(world, p);
		hang_up(world, p);
	}
}

/* Time stands still, but for one that is to connect. */
static void settle(struct both_world *world, uint32_t p)
{
	struct worker_kv *kv = both_kv(&world->process[p]);
	struct worker_kv_server *server = kv->server;
	struct worker_kv_actions actions;

	for (int i = 0; i < 2; i++) {
		server->down_ns = server->heard_ns = server->said_ns = BOTH_NOW_NS;
		server->heartbeat_ns = BOTH_BEAT_NS;
		server->retry_wait_ns = 0;
		server->retry_ns = server->state == WORKER_KV_IDLE ? BOTH_NOW_NS + 1 : 0;
		if (i)
			return;
		worker_kv_time(kv, 0, BOTH_NOW_NS, &actions);
		act(world, p, &actions, 0);
	}
}

void both_process_begin(const struct kv_both_config *config, struct both_world *world, uint32_t p)
{
	struct worker_kv_config of;

	memset(&of, 0, sizeof(of));
	of.deadline_ns = 1ull << 60;
	of.servers = of.dim = 1;
	of.mode = config->is_sync ? WORKER_KV_SYNC : WORKER_KV_BOUNDED;
	worker_kv_init(both_kv(&world->process[p]), &of, BOTH_NOW_NS);
	world->process[p].is_begun = true;
	settle(world, p);
}

void both_process_connects(struct both_world *world, uint32_t p)
{
	struct worker_kv_actions actions;

	worker_kv_time(both_kv(&world->process[p]), 0, BOTH_NOW_NS + 1, &actions);
	act(world, p, &actions, 0);
	settle(world, p);
}

void both_process_breaks(struct both_world *world, uint32_t p, bool is_killed)
{
	struct worker_kv_actions actions;

	if (is_killed) {
		hang_up(world, p);
		world->process[p].is_dead = true;
		return;
	}
	worker_kv_lost(both_kv(&world->process[p]), 0, BOTH_NOW_NS, WORKER_KV_ENDED, &actions);
	act(world, p, &actions, 0);
	settle(world, p);
}

void both_process_hears(struct both_world *world, uint32_t p)
{
	struct both_process *process = &world->process[p];
	struct both_message said = both_take(&world->conn[process->conn - 1].down);
	struct worker_kv *kv = both_kv(process);
	struct worker_kv_message message;
	struct worker_kv_actions actions;

	memset(&message, 0, sizeof(message));
	message.type = (enum worker_kv_type)said.type;
	message.version = WORKER_KV_VERSION;
	message.number = said.number;
	message.barrier = said.barrier;
	message.refusal = said.refusal;
	message.heartbeat_ms = 1000;
	message.generation = (uint64_t)said.fences << SPARSE_RANDOM_BITS;
	message.epoch = 1;
	message.identity = message.own = identity;
	message.shape.dim = 1;
	message.scale = 1;
	message.servers = 1;
	message.is_stepped = kv->config.mode == WORKER_KV_SYNC;
	message.is_known = said.is_known;
	message.is_named = message.is_made_as_first = message.is_made_as_before = true;
	worker_kv_message(kv, 0, BOTH_NOW_NS, &message, &actions);
	act(world, p, &actions, said.refusal);
	settle(world, p);
}

/* R-KV-15: a barrier is said when all before it is complete, and what comes after it waits for it. */
bool both_process_calls(const struct kv_both_config *config, struct both_world *world, uint32_t p)
{
	struct both_process *process = &world->process[p];
	struct worker_kv *kv = both_kv(process);
	struct worker_kv_server *server = kv->server;
	bool is_complete = server->batch_done + 1 == server->batch_next;

	if (!server->was_open || worker_kv_is_over(server) || kv->leave_ns ||
	    (process->asked && !worker_kv_step_is_open(kv, process->asked)))
		return false;
	if (process->steps < config->steps && process->batches < config->batches) {
		process->batches++;
		worker_kv_batch(server);
		batches_say(world, p);
	} else if (!is_complete) {
		return false;
	} else if (process->steps < config->steps) {
		process->steps++;
		process->batches = 0;
		process->asked = worker_kv_barrier_number(kv);
		if (worker_kv_barrier(server, process->asked))
			say(world, p, BOTH_BARRIER, process->asked);
	} else {
		worker_kv_leave(kv, BOTH_NOW_NS);
	}
	settle(world, p);
	return true;
}
