/* SPDX-License-Identifier: Apache-2.0 */
/* tables_worker.c - a process of simulated tables of keys: does what core/kv/worker_kv.h says, as src/kvlib does; its user
 * pushes and pulls in steps, and leaves. */
#include "sim/tables_world.h"

#include <stdlib.h>

static const uint8_t identity[WORKER_KV_IDENTITY_BYTES] = { 1 };

static void say(struct tables_world *world, uint32_t p, uint32_t s, struct tables_message message)
{
	struct tables_process *process = &world->process[p];

	if (!process->part[s].conn)
		return;
	tables_up(world, process->part[s].conn - 1, message);
	worker_kv_said(&process->kv->server[s], world->now_ns);
}

static void hang_up(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_part *part = &world->process[p].part[s];

	if (!part->conn)
		return;
	world->conn[part->conn - 1].near = false;
	tables_up(world, part->conn - 1, (struct tables_message){ .type = TABLES_END });
	part->conn = 0;
	part->lost_ns = world->now_ns;
}

/* ---- what is said ---- */

static void batches_say(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_part *part = &world->process[p].part[s];
	struct worker_kv_server *server = &world->process[p].kv->server[s];

	while (part->unsaid < part->made && part->unsaid - part->freed < world->scenario->room &&
	       worker_kv_batch_due(server)) {
		say(world, p, s,
		    (struct tables_message){ .type = TABLES_BATCH,
					     .number = part->number[part->unsaid],
					     .value = part->value[part->unsaid] });
		part->unsaid++;
		worker_kv_batch_said(server);
	}
}

static void pull_say(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_part *part = &world->process[p].part[s];

	if (!part->pull || part->is_pull_said ||
	    !worker_kv_may_pull(&world->process[p].kv->server[s]))
		return;
	part->is_pull_said = true;
	say(world, p, s, (struct tables_message){ .type = TABLES_PULL, .number = part->pull });
}

static void barrier_say(struct tables_world *world, uint32_t p, uint32_t s)
{
	say(world, p, s,
	    (struct tables_message){ .type = TABLES_BARRIER,
				     .number = world->process[p].kv->server[s].barrier_said });
}

/* R-KV-12 */
static void all_again(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_part *part = &world->process[p].part[s];

	part->unsaid = part->freed;
	part->is_pull_said = false;
	batches_say(world, p, s);
	pull_say(world, p, s);
	if (worker_kv_barrier_due(&world->process[p].kv->server[s]))
		barrier_say(world, p, s);
}

/* ---- what is to be done ---- */

static void attempt(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_process *process = &world->process[p];
	uint32_t c = world->conns;

	tables_attempt_judge(world, p, s);
	if (c == TABLES_CONNS) {
		tables_fail(world, "there is no end of connections");
		return;
	}
	world->conns++;
	world->report->connections++;
	world->conn[c] = (struct tables_conn){ .process = p,
					       .server = (uint8_t)s,
					       .near = true,
					       .near_heard_ns = world->now_ns,
					       .near_said_ns = world->now_ns };
	process->part[s].conn = c + 1;
	tables_up(world, c, (struct tables_message){ .type = TABLES_CONNECT });
	worker_kv_connected(&process->kv->server[s]);
	say(world, p, s, (struct tables_message){ .type = TABLES_HELLO });
}

/* Whoever started it starts another one. */
static void fails(struct tables_world *world, uint32_t p)
{
	tables_process_dies(world, p, false);
	world->process[p].has_failed = true;
}

static void over(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_process *process = &world->process[p];
	bool are_all = true;

	hang_up(world, p, s);
	for (uint32_t i = 0; i < world->scenario->servers; i++)
		are_all &= worker_kv_is_over(&process->kv->server[i]);
	if (!are_all)
		return;
	if (tables_process_has_left(world, p))
		process->is_dead = true;
	else
		fails(world, p);
	tables_progress(world);
}

static void freed(struct tables_world *world, uint32_t p, uint32_t s)
{
	struct tables_part *part = &world->process[p].part[s];

	while (part->freed < part->made &&
	       part->number[part->freed] <= world->process[p].kv->server[s].batch_done) {
		part->freed++;
		world->report->batches++;
	}
	if (part->unsaid < part->freed)
		part->unsaid = part->freed;
	tables_freed_judge(world, p, s);
}

static void act(struct tables_world *world, uint32_t p, uint32_t s,
		const struct worker_kv_actions *actions, uint8_t refusal)
{
	struct tables_process *process = &world->process[p];
	uint8_t list[WORKER_KV_IDENTITY_BYTES];

	if (actions->todo & WORKER_KV_FAIL) {
		tables_fault_judge(world, p, s, actions->fault, refusal);
		if (process->left_ns) /* the others are told nevertheless */
			over(world, p, s);
		else
			fails(world, p);
		return;
	}
	if (actions->todo & WORKER_KV_CLOSE) {
		tables_lost_judge(world, p, s, actions->lost);
		hang_up(world, p, s);
	}
	if (actions->todo & WORKER_KV_ATTEMPT)
		attempt(world, p, s);
	if (actions->todo & WORKER_KV_SAY_OPEN) {
		(void)worker_kv_open(process->kv, s, list);
		say(world, p, s, (struct tables_message){ .type = TABLES_OPEN });
	}
	if (actions->todo & WORKER_KV_FREE)
		freed(world, p, s);
	if (actions->todo & WORKER_KV_AGAIN)
		all_again(world, p, s);
	if (actions->todo & WORKER_KV_PASSED)
		tables_passed_judge(world, p, s);
	if (actions->todo & WORKER_KV_SAY_ALIVE)
		say(world, p, s, (struct tables_message){ .type = TABLES_ALIVE });
	if (actions->todo & WORKER_KV_SAY_LEAVE)
		say(world, p, s, (struct tables_message){ .type = TABLES_LEAVE });
	if (actions->todo & WORKER_KV_OVER) {
		tables_over_judge(world, p, s);
		over(world, p, s);
	}
}

/* ---- its user ---- */

static void think(struct tables_world *world, uint32_t p)
{
	world->process[p].is_thinking = true;
	tables_event_in(world, rng_log(&world->rng, 1000, 200 * MS),
			(struct tables_event){ .what = TABLES_CALLS, .whom = p });
}

/* Are all batches and pulls of this step answered? */
static bool is_complete(const struct tables_world *world, const struct tables_process *process)
{
	for (uint32_t s = 0; s < world->scenario->servers; s++)
		if (process->part[s].freed < process->part[s].made || process->part[s].pull)
			return false;
	return true;
}

static void pairs(struct tables_world *world, uint32_t p)
{
	struct tables_process *process = &world->process[p];
	uint32_t s = rng_below(&world->rng, world->scenario->servers);
	struct tables_part *part = &process->part[s];

	if (!rng_below(&world->rng, 3) && !part->pull) {
		part->pull = ++process->pulls;
		part->pull_made = part->made;
		part->is_pull_said = false;
	}
	process->batches_left--;
	part->number[part->made] = worker_kv_batch(&process->kv->server[s]);
	part->value[part->made++] = rng_next(&world->rng);
	batches_say(world, p, s);
}

static void step_end(struct tables_world *world, uint32_t p)
{
	struct tables_process *process = &world->process[p];

	process->steps++;
	process->asked = worker_kv_barrier_number(process->kv);
	process->is_through = false;
	if (!process->first)
		process->first = process->asked;
	process->batches_left = rng_below(&world->rng, world->scenario->batches + 1);
	for (uint32_t s = 0; s < world->scenario->servers; s++) {
		process->part[s].made_at[process->steps] = process->part[s].made;
		if (worker_kv_barrier(&process->kv->server[s], process->asked))
			barrier_say(world, p, s);
	}
}

/* R-KV-15. An asynchronous worker waits for its barrier because it asks. */
static bool may_go_on(const struct tables_world *world, const struct tables_process *process)
{
	bool is_last = process->steps == world->scenario->steps;

	if (!process->asked)
		return true;
	if (is_last || world->scenario->mode == WORKER_KV_ASYNC)
		return worker_kv_passed(process->kv) >= process->asked;
	return worker_kv_step_is_open(process->kv, process->asked);
}

static void user_does(struct tables_world *world, uint32_t p)
{
	struct tables_process *process = &world->process[p];

	for (uint32_t s = 0; s < world->scenario->servers; s++)
		if (!process->kv->server[s].was_open)
			return;
	if (process->left_ns || !may_go_on(world, process))
		return;
	if (process->asked && !process->is_through) {
		process->is_through = true;
		tables_gate_judge(world, p);
	}
	if (process->steps == world->scenario->steps) {
		process->left_ns = world->now_ns;
		worker_kv_leave(process->kv, world->now_ns);
	} else if (process->batches_left) {
		pairs(world, p);
	} else if (is_complete(world, process)) {
		step_end(world, p);
	} else {
		return;
	}
	think(world, p);
}

/* ---- its life ---- */

void tables_process_turn(struct tables_world *world, uint32_t p)
{
	struct tables_process *process = &world->process[p];
	struct worker_kv_actions actions;
	uint64_t wake_ns = UINT64_MAX;

	if (!process->is_dead && !process->is_thinking)
		user_does(world, p);
	for (uint32_t s = 0; s < world->scenario->servers && !process->is_dead; s++) {
		worker_kv_time(process->kv, s, world->now_ns, &actions);
		act(world, p, s, &actions, 0);
		if (process->is_dead)
			break;
		batches_say(world, p, s);
		pull_say(world, p, s);
	}
	for (uint32_t s = 0; s < world->scenario->servers && !process->is_dead; s++)
		wake_ns = worker_kv_wake_ns(process->kv, s) < wake_ns
				  ? worker_kv_wake_ns(process->kv, s)
				  : wake_ns;
	if (process->is_dead || wake_ns == UINT64_MAX || wake_ns == process->wake_ns)
		return;
	process->wake_ns = wake_ns;
	wake_ns = wake_ns > world->now_ns ? wake_ns - world->now_ns : 0;
	tables_event_in(world, wake_ns + rng_log(&world->rng, 1, TABLES_LATE_NS),
			(struct tables_event){
				.what = TABLES_WAKES, .whom = p, .number = process->wake_ns });
}

void tables_process_calls(struct tables_world *world, uint32_t p)
{
	world->process[p].is_thinking = false;
	tables_process_turn(world, p);
}

void tables_process_begin(struct tables_world *world, uint32_t worker)
{
	const struct tables_scenario *scenario = world->scenario;
	const struct worker_kv_config config = { .deadline_ns = scenario->deadline_ns,
						 .staleness = scenario->staleness,
						 .servers = (uint16_t)scenario->servers,
						 .dim = 1,
						 .mode = scenario->mode };
	uint32_t p = world->processes;
	struct tables_process *process = &world->process[p];

	if (p == TABLES_LIVES) {
		tables_fail(world, "there is no end of processes");
		return;
	}
	world->processes++;
	world->report->processes++;
	world->latest[worker] = p + 1;
	*process = (struct tables_process){ .kv = tables_need(
						    malloc(worker_kv_bytes(scenario->servers))),
					    .incarnation = world->now_ns,
					    .worker = worker,
					    .began_ns = world->now_ns };
	process->batches_left = rng_below(&world->rng, scenario->batches + 1);
	for (uint32_t s = 0; s < scenario->servers; s++)
		process->part[s].answered_ns = world->now_ns;
	worker_kv_init(process->kv, &config, world->now_ns);
	tables_trace(world, "worker %u begins: process %u", worker, p);
	tables_process_turn(world, p);
}

void tables_process_dies(struct tables_world *world, uint32_t p, bool is_silent)
{
	struct tables_process *process = &world->process[p];

	for (uint32_t s = 0; s < world->scenario->servers; s++) {
		if (process->part[s].conn)
			world->conn[process->part[s].conn - 1].is_silent |= is_silent;
		hang_up(world, p, s);
	}
	process->is_dead = true;
	tables_trace(world, "process %u ends", p);
}

void tables_process_hears(struct tables_world *world, uint32_t c, const struct tables_message *said)
{
	struct tables_conn *conn = &world->conn[c];
	const struct tables_scenario *scenario = world->scenario;
	uint32_t p = conn->process, s = conn->server;
	struct tables_process *process = &world->process[p];
	const uint8_t own[WORKER_KV_IDENTITY_BYTES] = { (uint8_t)(s + 1) };
	const struct worker_kv_message message = {
		.type = (enum worker_kv_type)said->type,
		.version = WORKER_KV_VERSION,
		.refusal = said->refusal,
		.heartbeat_ms = (uint32_t)(scenario->heartbeat_ns / MS),
		.number = said->number,
		.generation = said->generation,
		.epoch = 1,
		.barrier = said->barrier,
		.identity = identity,
		.own = own,
		.shape = { .workers = (uint16_t)scenario->workers, .dim = 1 },
		.scale = 1,
		.server = (uint16_t)s,
		.servers = (uint16_t)scenario->servers,
		.is_stepped = scenario->mode == WORKER_KV_SYNC,
		.is_known = said->is_known,
		.is_named = true,
		.is_made_as_first = true,
		.is_made_as_before = true,
	};
	struct worker_kv_actions actions;

	if (!conn->near)
		return;
	if (said->type == TABLES_END) {
		worker_kv_lost(process->kv, s, world->now_ns, WORKER_KV_ENDED, &actions);
	} else {
		conn->near_heard_ns = world->now_ns;
		conn->is_told |= said->type == WORKER_KV_SAYS_WELCOME;
		conn->is_opened |= said->type == WORKER_KV_SAYS_OPENED;
		if (conn->is_opened && said->type >= WORKER_KV_SAYS_DONE &&
		    said->type != WORKER_KV_SAYS_ERROR)
			process->part[s].answered_ns = world->now_ns;
		if (said->type == WORKER_KV_SAYS_PULLED && said->number == process->part[s].pull) {
			tables_pulled_judge(world, p, s, said->seen);
			process->part[s].pull = 0;
		}
		worker_kv_message(process->kv, s, world->now_ns, &message, &actions);
	}
	act(world, p, s, &actions, said->refusal);
	if (!process->is_dead)
		tables_process_turn(world, p);
}
