/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv.c - see worker_kv.h. */
#include "core/kv/worker_kv.h"

#include "core/shared/hash.h"
#include "core/shared/rto.h"

static const uint64_t RETRY_NS = 50000000, RETRY_NS_MAX = 1000000000;
static const uint64_t ANSWER_NS = 5000000000; /* until WELCOME says how often it speaks */
static const uint64_t ns_per_ms = 1000000;

struct turn {
	struct worker_kv *kv;
	struct worker_kv_server *server;
	uint64_t now_ns;
	struct worker_kv_actions *actions;
};

#define TO(state) (1u << WORKER_KV_##state)
#define ENDS (TO(LEFT) | TO(UNTOLD) | TO(BROKEN))

/* clang-format off */
static const uint32_t may_enter[WORKER_KV_STATE_COUNT] = {
	[WORKER_KV_IDLE]    = TO(CONNECT) | TO(UNTOLD) | TO(BROKEN),
	[WORKER_KV_CONNECT] = TO(HELLO)   | TO(IDLE) | TO(UNTOLD) | TO(BROKEN),
	[WORKER_KV_HELLO]   = TO(OPENING) | TO(IDLE) | ENDS,
	[WORKER_KV_OPENING] = TO(MAPPING) | TO(OPEN) | TO(IDLE) | ENDS,
	[WORKER_KV_MAPPING] = TO(MAPPING) | TO(OPEN) | TO(IDLE) | ENDS,
	[WORKER_KV_OPEN]    = TO(MAPPING) | TO(OPEN) | TO(LEAVING) | TO(IDLE) | ENDS, /* opened again: R-KV-22 */
	[WORKER_KV_LEAVING] = TO(IDLE) | ENDS,
	[WORKER_KV_LEFT]    = 0,
	[WORKER_KV_UNTOLD]  = 0,
	[WORKER_KV_BROKEN]  = 0,
};
/* clang-format on */

static void enter(struct worker_kv_server *server, enum worker_kv_state next)
{
	CORE_ASSERT(may_enter[server->state] & 1u << next);
	server->state = (uint8_t)next;
}

static struct turn turn_begin(struct worker_kv *kv, uint32_t idx, uint64_t now_ns,
			      struct worker_kv_actions *actions)
{
	*actions = (struct worker_kv_actions){ 0 };
	return (struct turn){ kv, &kv->server[idx], now_ns, actions };
}

size_t worker_kv_bytes(uint32_t servers)
{
	return sizeof(struct worker_kv) + servers * sizeof(struct worker_kv_server);
}

void worker_kv_init(struct worker_kv *kv, const struct worker_kv_config *config, uint64_t now_ns)
{
	memset(kv, 0, worker_kv_bytes(config->servers));
	kv->config = *config;
	for (uint32_t s = 0; s < config->servers; s++) {
		kv->server[s].down_ns = now_ns;
		kv->server[s].batch_next = 1;
	}
}

/* ---- ends ---- */

static void fail(struct turn *turn, enum worker_kv_fault fault)
{
	turn->actions->todo |= WORKER_KV_FAIL;
	turn->actions->fault = fault;
	enter(turn->server, WORKER_KV_BROKEN);
}

static void over(struct turn *turn, enum worker_kv_state state)
{
	turn->actions->todo |= WORKER_KV_OVER;
	enter(turn->server, state);
}

static void lose(struct turn *turn, enum worker_kv_lost lost)
{
	struct worker_kv_server *server = turn->server;
	bool was_greeting = server->state == WORKER_KV_CONNECT || server->state == WORKER_KV_HELLO;

	turn->actions->todo |= WORKER_KV_CLOSE;
	turn->actions->lost = lost;
	if (worker_kv_is_up(server))
		turn->actions->todo |= WORKER_KV_WARN;
	/* Else it only seemed to be back. */
	if (worker_kv_is_up(server) && server->was_answered)
		server->down_ns = turn->now_ns;
	if (was_greeting && (lost == WORKER_KV_ENDED || lost == WORKER_KV_SILENT))
		turn->actions->todo |= WORKER_KV_NEXT_ADDRESS;
	server->retry_wait_ns = rto_most(server->retry_wait_ns, RETRY_NS);
	server->retry_ns = turn->now_ns + server->retry_wait_ns;
	server->retry_wait_ns = rto_least(2 * server->retry_wait_ns, RETRY_NS_MAX);
	enter(server, WORKER_KV_IDLE);
}

void worker_kv_lost(struct worker_kv *kv, uint32_t idx, uint64_t now_ns, enum worker_kv_lost lost,
		    struct worker_kv_actions *actions)
{
	struct turn turn = turn_begin(kv, idx, now_ns, actions);

	if (worker_kv_is_there(turn.server))
		lose(&turn, lost);
}

void worker_kv_broken(struct worker_kv_server *server)
{
	if (!worker_kv_is_over(server))
		enter(server, WORKER_KV_BROKEN);
}

void worker_kv_leave(struct worker_kv *kv, uint64_t now_ns)
{
	kv->leave_ns = now_ns;
}

/* ---- R-KV-22 ---- */

static bool are_all_open(const struct worker_kv *kv)
{
	for (uint32_t s = 0; s < kv->config.servers; s++)
		if (!kv->server[s].was_open)
			return false;
	return true;
}

/* Not before the first of them has said which table this is. */
static bool may_connect(const struct worker_kv *kv, uint32_t idx)
{
	return !idx || kv->server->was_open;
}

bool worker_kv_may_ask_again(const struct worker_kv *kv)
{
	return kv->server->state == WORKER_KV_OPEN && !kv->server->has_list &&
	       kv->config.servers > 1 && are_all_open(kv);
}

/* Of the others' own identities, in their order. */
static void list_put(const struct worker_kv *kv, uint8_t list[WORKER_KV_IDENTITY_BYTES])
{
	uint64_t one = HASH_BEGIN, other = ~one;

	for (uint32_t s = 1; s < kv->config.servers; s++) {
		one = hash_bytes(one, kv->server[s].own, WORKER_KV_IDENTITY_BYTES);
		other = hash_bytes(other, kv->server[s].own, WORKER_KV_IDENTITY_BYTES);
	}
	sparse_body_put64(list, one);
	sparse_body_put64(list + 8, other);
}

bool worker_kv_open(struct worker_kv *kv, uint32_t idx, uint8_t list[WORKER_KV_IDENTITY_BYTES])
{
	struct worker_kv_server *server = &kv->server[idx];

	memset(list, 0, WORKER_KV_IDENTITY_BYTES);
	server->has_list = !idx && kv->config.servers > 1 && are_all_open(kv);
	if (server->has_list)
		list_put(kv, list);
	return kv->server->was_used || server->was_open;
}

/* Is it the server that the list means, and the one of before? */
static enum worker_kv_fault place_fault(const struct turn *turn,
					const struct worker_kv_message *opened)
{
	const struct worker_kv *kv = turn->kv;
	const struct worker_kv_server *server = turn->server;
	bool knows = server != kv->server || server->was_open;

	if (opened->server != server - kv->server || opened->servers != kv->config.servers ||
	    (knows && memcmp(opened->identity, kv->identity, sizeof(kv->identity)) != 0))
		return WORKER_KV_MISPLACED;
	if (server->was_open && (!opened->is_made_as_before ||
				 memcmp(opened->own, server->own, sizeof(server->own)) != 0))
		return WORKER_KV_RENEWED;
	if (server != kv->server && !opened->is_made_as_first)
		return WORKER_KV_UNLIKE;
	return WORKER_KV_FINE;
}

static void place_take(struct turn *turn, const struct worker_kv_message *opened)
{
	struct worker_kv *kv = turn->kv;
	struct worker_kv_server *server = turn->server;

	kv->is_whole |= kv->config.servers == 1 || server->has_list;
	if (server->was_open)
		return;
	memcpy(server->own, opened->own, sizeof(server->own));
	memcpy(kv->identity, opened->identity, sizeof(kv->identity));
	server->was_used = opened->is_used;
	for (uint32_t s = 1; s < kv->config.servers && server == kv->server; s++)
		kv->server[s].down_ns = turn->now_ns; /* they could not be asked before */
}

/* ---- OPENED ---- */

static enum worker_kv_fault shape_fault(const struct turn *turn,
					const struct worker_kv_message *opened)
{
	const struct worker_kv_config *config = &turn->kv->config;
	const struct worker_kv_server *server = turn->server;
	const struct sparse_table *shape = &opened->shape;

	if (!opened->is_named || shape->dim != config->dim)
		return WORKER_KV_OTHER_TABLE;
	if (opened->is_stepped != (config->mode == WORKER_KV_SYNC))
		return WORKER_KV_OTHER_MODE;
	if (shape->ranks && (!sparse_table_is_sound(shape) || !opened->map || !opened->generation ||
			     !opened->epoch || config->kept_packets < shape->window))
		return WORKER_KV_UNSOUND;
	if (!server->was_open)
		return WORKER_KV_FINE;
	if (!shape->ranks == server->has_hot || shape->window != server->shape.window ||
	    shape->bytes != server->shape.bytes || opened->scale != server->scale ||
	    shape->values != server->shape.values)
		return WORKER_KV_CHANGED;
	return opened->map < server->map.version ? WORKER_KV_OLDER_MAP : WORKER_KV_FINE;
}

/* R-KV-20. Its random bits are drawn anew: as many fences as before are enough to see it by. */
static bool went_back(const struct worker_kv_server *server, const struct worker_kv_message *opened)
{
	uint64_t told = server->generation_told;

	return (opened->generation != told &&
		sparse_fences(opened->generation) <= sparse_fences(told)) ||
	       (opened->must_report && opened->stream &&
		sparse_fences(opened->stream) >= sparse_fences(opened->generation));
}

/* Where this worker stands: what the server has of its batches. R-KV-6, R-KV-9. */
static enum worker_kv_fault standing_fault(const struct worker_kv_server *server,
					   const struct worker_kv_message *opened)
{
	if (server->was_open && !opened->is_known)
		return WORKER_KV_FORGOTTEN;
	if (opened->number > server->batch_next)
		return WORKER_KV_NEVER_SENT;
	if (opened->number <= server->batch_done && !opened->must_report)
		return WORKER_KV_LOST_DONE;
	return went_back(server, opened) ? WORKER_KV_WENT_BACK : WORKER_KV_FINE;
}

/* R-KV-9: `number` stands for all below. */
static void done(struct turn *turn, uint64_t number)
{
	struct worker_kv_server *server = turn->server;

	number = rto_least(number, server->batch_next - 1);
	if (number <= server->batch_done)
		return;
	server->batch_done = number;
	server->batch_said = rto_most(server->batch_said, number);
	turn->actions->todo |= WORKER_KV_FREE;
}

/* What has no answer is said again: R-KV-12. */
static void up(struct worker_kv_server *server, struct worker_kv_actions *actions)
{
	enter(server, WORKER_KV_OPEN);
	server->was_answered = false;
	server->batch_said = server->batch_done;
	actions->todo |= WORKER_KV_AGAIN;
}

static void opened(struct turn *turn, const struct worker_kv_message *said)
{
	struct worker_kv_server *server = turn->server;
	enum worker_kv_fault fault = shape_fault(turn, said);
	uint16_t index = server->shape.index; /* SWITCH's */

	if (!fault)
		fault = standing_fault(server, said);
	if (!fault)
		fault = place_fault(turn, said);
	if (fault) {
		fail(turn, fault);
		return;
	}
	place_take(turn, said);
	if (worker_kv_is_up(server) && server->was_answered)
		server->down_ns = turn->now_ns; /* asked again: it was up until now */
	server->is_asked_again = false;
	/* R-KV-11: all servers have opened the table before there is a barrier. */
	if (!server->was_open) {
		server->barrier_found = said->barrier;
		turn->kv->barrier_next = rto_most(turn->kv->barrier_next, said->barrier + 1);
	}
	server->was_open = true;
	server->number = said->table;
	server->has_hot = said->shape.ranks;
	server->map_opening = said->map;
	server->scale = said->scale;
	server->shape = said->shape;
	server->shape.index = index;
	server->generation_told = said->generation;
	done(turn, said->number - 1);
	turn->actions->todo |= WORKER_KV_PAST | WORKER_KV_TAKE;
	if (said->must_report)
		turn->actions->todo |= WORKER_KV_REPORT;
	if (server->has_hot)
		enter(server, WORKER_KV_MAPPING);
	else
		up(server, turn->actions);
}

struct worker_kv_loss worker_kv_report(struct worker_kv_server *server, uint64_t number,
				       const uint64_t *opened, const uint64_t *row)
{
	uint64_t low = rto_most(number - 1, server->reported);
	struct worker_kv_loss loss = { 0 };

	loss.batches = server->batch_done > low ? server->batch_done - low : 0;
	for (uint32_t i = 0; i < server->shape.window; i++) {
		uint64_t had = rto_most(opened[i], server->reported_row[i]);

		loss.packets += sparse_lost_at(&server->shape, i, had, row[i]);
		server->reported_row[i] = row[i];
	}
	server->reported = server->batch_done;
	return loss;
}

/* ---- what else is heard ---- */

static void welcomed(struct turn *turn, const struct worker_kv_message *message)
{
	if (message->version != WORKER_KV_VERSION) {
		fail(turn, WORKER_KV_OTHER_VERSION);
		return;
	}
	turn->server->heartbeat_ns = (uint64_t)message->heartbeat_ms * ns_per_ms;
	turn->actions->todo |= WORKER_KV_TAKE | WORKER_KV_SAY_OPEN;
	enter(turn->server, WORKER_KV_OPENING);
}

/* R-KV-14. Only a pull can fail alone: all else is missed by what comes after it. */
static void refused(struct turn *turn, const struct worker_kv_message *message)
{
	/* R-KV-13: another has this worker's place, or the run is over. Then it need not leave. */
	if (turn->kv->leave_ns && message->refusal == WORKER_KV_REFUSED_SUPERSEDED)
		over(turn, WORKER_KV_LEFT);
	else if (message->refusal == WORKER_KV_REFUSED_BUSY)
		lose(turn, WORKER_KV_BUSY); /* it says: come again */
	else if (message->is_pull)
		turn->actions->todo |= WORKER_KV_TAKE;
	else
		fail(turn, WORKER_KV_REFUSED);
}

static void passed(struct turn *turn, const struct worker_kv_message *message)
{
	struct worker_kv_server *server = turn->server;

	if (message->number <= server->barrier_done || message->number > server->barrier_said)
		return;
	server->barrier_done = message->number;
	turn->actions->todo |= WORKER_KV_PAST | WORKER_KV_PASSED;
}

/* The one in force, or one to come. */
static struct worker_kv_map *map_of(struct worker_kv_server *server, uint32_t version)
{
	return version == server->map.version ? &server->map : &server->next;
}

static bool is_whole(struct worker_kv_server *server, uint32_t version)
{
	const struct worker_kv_map *map = map_of(server, version);

	return map->version == version && map->is_whole;
}

static void mapped(struct worker_kv_server *server, struct worker_kv_actions *actions)
{
	if (server->state == WORKER_KV_MAPPING && is_whole(server, server->map_opening))
		up(server, actions);
}

/* R-KV-8 */
static bool map_part(struct turn *turn, const struct worker_kv_message *message)
{
	struct worker_kv_server *server = turn->server;
	struct worker_kv_map *map = map_of(server, message->map);

	if (message->map < server->map.version || message->map < map->version)
		return false;
	if (message->map > map->version && message->first)
		return false;
	if (message->map > map->version) { /* the one before it does not come into force */
		*map = (struct worker_kv_map){ message->map, message->shape.ranks, 0, false };
		turn->actions->todo |= WORKER_KV_NEW_MAP;
	}
	if (message->shape.ranks != map->ranks)
		return false;
	if (!message->first)
		map->got = 0;
	if (message->first != map->got)
		return false;
	map->got += message->count;
	if (!map->is_whole)
		turn->actions->todo |= WORKER_KV_TAKE;
	mapped(server, turn->actions); /* after a reconnection the same keys come again */
	return true;
}

/* R-KV-8 */
static bool switched(struct turn *turn, const struct worker_kv_message *message)
{
	struct worker_kv_server *server = turn->server;

	if (!server->has_hot)
		return false;
	if (message->generation < server->switch_generation)
		return true;
	if (!is_whole(server, message->map))
		return false;
	if (message->generation == server->switch_generation && message->is_same)
		return true; /* again, after a reconnection */
	server->switch_generation = server->generation_told = message->generation;
	server->shape.index = message->shape.index;
	turn->actions->todo |= WORKER_KV_TAKE;
	return true;
}

/* About the table, which is open there. False: it does not belong here. */
static bool tabled(struct turn *turn, const struct worker_kv_message *message)
{
	struct worker_kv_server *server = turn->server;

	if (server->state < WORKER_KV_MAPPING || message->table != server->number)
		return false;
	switch (message->type) {
	case WORKER_KV_SAYS_MAP:
		return map_part(turn, message);
	case WORKER_KV_SAYS_PULLED:
		turn->actions->todo |= WORKER_KV_TAKE;
		return true;
	case WORKER_KV_SAYS_SWITCH:
		return switched(turn, message);
	case WORKER_KV_SAYS_DONE:
		if (server->batch_done < server->batch_old)
			turn->actions->todo |= WORKER_KV_PAST;
		done(turn, message->number);
		return true;
	case WORKER_KV_SAYS_BARRIER:
		passed(turn, message);
		return true;
	default:
		return false;
	}
}

/* It does what a server does, so the next loss is a new one. */
static void answered(struct worker_kv_server *server, enum worker_kv_type type)
{
	if (!worker_kv_is_up(server) ||
	    !(type == WORKER_KV_SAYS_ALIVE || type == WORKER_KV_SAYS_DONE ||
	      type == WORKER_KV_SAYS_PULLED || type == WORKER_KV_SAYS_BARRIER))
		return;
	server->was_answered = true;
	server->retry_wait_ns = RETRY_NS;
}

void worker_kv_message(struct worker_kv *kv, uint32_t idx, uint64_t now_ns,
		       const struct worker_kv_message *message, struct worker_kv_actions *actions)
{
	struct turn turn = turn_begin(kv, idx, now_ns, actions);
	struct worker_kv_server *server = turn.server;
	enum worker_kv_state state = (enum worker_kv_state)server->state;

	CORE_ASSERT(worker_kv_is_there(server));
	server->heard_ns = now_ns;
	answered(server, message->type);
	if (message->type == WORKER_KV_SAYS_ALIVE)
		return;
	if (message->type == WORKER_KV_SAYS_ERROR)
		refused(&turn, message);
	else if (message->type == WORKER_KV_SAYS_WELCOME && state == WORKER_KV_HELLO)
		welcomed(&turn, message);
	else if (message->type == WORKER_KV_SAYS_LEAVE && state == WORKER_KV_LEAVING)
		over(&turn, WORKER_KV_LEFT);
	else if (message->type == WORKER_KV_SAYS_OPENED &&
		 (state == WORKER_KV_OPENING ||
		  (state == WORKER_KV_OPEN && server->is_asked_again)))
		opened(&turn, message);
	else if (!tabled(&turn, message))
		lose(&turn, WORKER_KV_UNFIT);
}

/* ---- time ---- */

/* Until when the caller bears that it is not up. */
static uint64_t given_up_ns(const struct worker_kv *kv, const struct worker_kv_server *server)
{
	if (kv->leave_ns)
		return kv->leave_ns + kv->config.deadline_ns;
	if (worker_kv_is_up(server))
		return UINT64_MAX;
	return server->down_ns + kv->config.deadline_ns;
}

static uint64_t silent_ns(const struct worker_kv_server *server)
{
	return server->heard_ns + WORKER_KV_HEARTBEATS_SILENT * server->heartbeat_ns;
}

static uint64_t alive_ns(const struct worker_kv_server *server)
{
	return server->said_ns + server->heartbeat_ns / 2;
}

static void attempt(struct turn *turn)
{
	struct worker_kv_server *server = turn->server;

	if (turn->now_ns < server->retry_ns)
		return;
	enter(server, WORKER_KV_CONNECT);
	server->heard_ns = server->said_ns = turn->now_ns;
	server->heartbeat_ns = ANSWER_NS / WORKER_KV_HEARTBEATS_SILENT;
	turn->actions->todo |= WORKER_KV_ATTEMPT;
}

void worker_kv_connected(struct worker_kv_server *server)
{
	enter(server, WORKER_KV_HELLO);
}

/* What is due on a connection. */
static void speak(struct turn *turn)
{
	struct worker_kv_server *server = turn->server;

	if (turn->now_ns >= silent_ns(server)) {
		lose(turn, WORKER_KV_SILENT);
		return;
	}
	if (turn->now_ns >= alive_ns(server))
		turn->actions->todo |= WORKER_KV_SAY_ALIVE;
	/* Before it would be of no table; and no OPENED may come behind it. */
	if (turn->kv->leave_ns && server->state == WORKER_KV_OPEN && !server->is_asked_again) {
		turn->actions->todo |= WORKER_KV_SAY_LEAVE;
		enter(server, WORKER_KV_LEAVING);
	}
	if (server == turn->kv->server && worker_kv_may_ask_again(turn->kv)) {
		server->is_asked_again = true;
		turn->actions->todo |= WORKER_KV_SAY_OPEN;
	}
}

void worker_kv_time(struct worker_kv *kv, uint32_t idx, uint64_t now_ns,
		    struct worker_kv_actions *actions)
{
	struct turn turn = turn_begin(kv, idx, now_ns, actions);
	struct worker_kv_server *server = turn.server;

	if (worker_kv_is_over(server))
		return;
	if (now_ns >= given_up_ns(kv, server)) {
		if (kv->leave_ns)
			over(&turn, WORKER_KV_UNTOLD);
		else
			fail(&turn, WORKER_KV_UNREACHED);
	} else if (worker_kv_is_there(server)) {
		speak(&turn);
	} else if (may_connect(kv, idx)) {
		attempt(&turn);
	}
}

uint64_t worker_kv_wake_ns(const struct worker_kv *kv, uint32_t idx)
{
	const struct worker_kv_server *server = &kv->server[idx];
	uint64_t due_ns = given_up_ns(kv, server);

	if (worker_kv_is_over(server))
		return UINT64_MAX;
	if (worker_kv_is_there(server))
		return rto_least(due_ns, rto_least(silent_ns(server), alive_ns(server)));
	return may_connect(kv, idx) ? rto_least(due_ns, server->retry_ns) : due_ns;
}

/* ---- maps ---- */

void worker_kv_mapped(struct worker_kv_server *server, uint32_t version,
		      struct worker_kv_actions *actions)
{
	*actions = (struct worker_kv_actions){ 0 };
	map_of(server, version)->is_whole = true;
	mapped(server, actions);
}

void worker_kv_adopted(struct worker_kv_server *server)
{
	server->map = server->next;
	server->next = (struct worker_kv_map){ 0 };
	server->shape.ranks = server->map.ranks;
}

void worker_kv_remapped(struct worker_kv_server *server, bool has_begun)
{
	server->was_remapped = true;
	server->batch_old = server->batch_next - !has_begun;
}

/* ---- barriers ---- */

uint64_t worker_kv_barrier_number(struct worker_kv *kv)
{
	if (!kv->barrier_first)
		kv->barrier_first = kv->barrier_next;
	return kv->barrier_next++;
}

uint64_t worker_kv_passed(const struct worker_kv *kv)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t s = 0; s < kv->config.servers; s++)
		least = rto_least(least, kv->server[s].barrier_done);
	return least;
}

bool worker_kv_step_is_open(const struct worker_kv *kv, uint64_t number)
{
	if (kv->config.mode == WORKER_KV_ASYNC)
		return true;
	/* This worker's first `staleness` steps wait for nobody. */
	if (number - kv->barrier_first < kv->config.staleness)
		return true;
	return worker_kv_passed(kv) >= number - kv->config.staleness;
}
