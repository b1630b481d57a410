/* SPDX-License-Identifier: Apache-2.0 */
/* member_walk.c - see member_walk.h. */
#include "search/member_walk.h"

#include <stdio.h>
#include <string.h>

#include "search/slow_member.h"
#include "search/texts.h"
#include "search/walk.h"
#include "util/rng.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

enum { NAME_BYTES = 640, QUIET = 60 };

/* What a member's life is like. */
enum mood {
	MOOD_ORDERLY, /* it comes, runs and leaves */
	MOOD_ABSENT,  /* nobody takes its connection */
	MOOD_DEAF,    /* it hears little */
	MOOD_LATE,    /* operations have deadlines */
	MOOD_ODD,     /* it is told what does not fit */
	MOODS
};

struct state {
	struct rng rng;
	uint64_t now_ns, numbers;
	uint32_t quiet;  /* so many steps only the clock goes on */
	bool is_beating; /* ... and the aggregator's HEARTBEATs */
	bool is_connecting;
	enum mood mood;
	struct member_config config;
	struct control_join join;
	char aggregator[NAME_BYTES];
	struct member member;
	struct slow_member slow;
};

static struct state *now; /* the walk that steps */

static uint32_t draw(uint32_t below)
{
	return rng_below(&now->rng, below);
}

static bool is_over_for(const struct slow_member *slow)
{
	return slow->state == MEMBER_FAILED || slow->state == MEMBER_LEFT;
}

/* Often about as long as can be. */
static void draw_text(char *text, size_t max)
{
	size_t wanted = draw(6) ? draw(30) : CONTROL_TEXT_BYTES - 90 + draw(100);

	texts_draw(&now->rng, text, wanted, max);
}

/* ---- a life ---- */

static uint64_t drawn_time(const uint64_t *bounds_ns, uint32_t count)
{
	uint64_t time_ns = bounds_ns[draw(count)];

	switch (draw(4)) {
	case 0:
		return time_ns + 1;
	case 1:
		return time_ns ? time_ns - 1 : 0;
	default:
		return time_ns;
	}
}

static void draw_config(void)
{
	static const uint64_t gather[] = { 300 * SECOND_NS,    20 * SECOND_NS,
					   6 * SECOND_NS,      3 * SECOND_NS,
					   SECOND_NS,          2500 * MS_NS,
					   50 * MS_NS,         0,
					   UINT32_MAX * MS_NS, (UINT64_C(1) << 32) * MS_NS,
					   UINT64_C(1) << 60 };
	static const uint64_t connect[] = { 30 * SECOND_NS, SECOND_NS, 4500 * MS_NS, 10 * MS_NS,
					    0 };
	static const uint64_t beat[] = { 10 * SECOND_NS, SECOND_NS,        100 * MS_NS,
					 999 * MS_NS,    3600 * SECOND_NS, 11 * SECOND_NS };
	struct member_config *of = &now->config;

	*of = (struct member_config)MEMBER_CONFIG_DEFAULT;
	of->aggregator = now->aggregator;
	of->join = &now->join;
	of->is_v6 = draw(2);
	of->is_local = !draw(3);
	if (draw(4))
		of->gather_ns = drawn_time(gather, draw(3) ? 7 : 11);
	if (draw(3))
		of->connect_ns = drawn_time(connect, 5);
	if (draw(2))
		of->heartbeat_ns = drawn_time(beat, 6);
	strcpy(now->aggregator, "10.0.0.1:7171");
	if (!draw(8))
		draw_text(now->aggregator, sizeof(now->aggregator));
}

static void draw_join(void)
{
	struct control_join *join = &now->join;

	memset(join, 0, sizeof(*join));
	join->version_min = 1;
	join->version_max = 1 + (uint16_t)draw(3);
	join->size = (uint16_t)(1 + draw(CONTROL_MEMBERS_MAX));
	join->rank = (uint16_t)draw(join->size);
	join->mode = draw(2) ? CONTROL_DENSE : CONTROL_LATENCY;
	join->latency_slots = draw(100);
	join->latency_window = draw(100);
	join->workers = 1;
	join->pid = rng_u32(&now->rng);
	join->mtu = draw(10000);
	join->timeout_ms = draw(2) ? 0 : rng_u32(&now->rng);
	join->list_hash = rng_next(&now->rng);
	join->life = rng_next(&now->rng);
	join->program = rng_next(&now->rng);
	join->boot = rng_next(&now->rng);
	join->process = rng_next(&now->rng);
	join->local_size = (uint16_t)draw(300);
	join->is_launched = (uint8_t)draw(2);
	snprintf(join->job, sizeof(join->job), "job %u", draw(1000));
	snprintf(join->host, sizeof(join->host), "host %u", draw(1000));
	snprintf(join->key, sizeof(join->key), "key %u", draw(1000));
	snprintf(join->list, sizeof(join->list), "list %u", draw(1000));
}

/* Clocks, numbers and the serials of HELLOs start anywhere, often where 32 bits or the sign end. */
static void life_begins(void)
{
	static const uint64_t clocks[] = { 0,
					   1000 * SECOND_NS,
					   UINT32_MAX - 50 * MS_NS,
					   (UINT64_C(1) << 40) - SECOND_NS,
					   (UINT64_C(1) << 62) - SECOND_NS,
					   (UINT64_C(1) << 63) - SECOND_NS };
	static const uint64_t numbers[] = { 0, 7, UINT32_MAX - 1, INT64_MAX - 2 };
	static const uint32_t serials[] = { 0, UINT16_MAX - 20, INT32_MAX - 20, UINT32_MAX - 20 };

	now->mood = draw(MOODS);
	now->now_ns = clocks[draw(6)] + draw(1000);
	now->numbers = numbers[draw(4)];
	now->quiet = 0;
	now->is_connecting = false;
	draw_config();
	draw_join();
	memset(&now->member, 0xff, sizeof(now->member));
	member_init(&now->member, &now->config);
	slow_member_init(&now->slow, &now->config);
	now->member.serial = now->slow.serial = serials[draw(4)];
}

static void begin(void *own, uint32_t number)
{
	now = own;
	rng_init(&now->rng, 1, number);
	life_begins();
}

/* ---- a step ---- */

static void tell(struct bfs *bfs, const struct member_event *event,
		 const struct member_actions *actions)
{
	static const char *const names[] = { "connected", "refused", "message", "closed",
					     "welcome",   "stalled", "expired", "finalize",
					     "abort",     "error",   "tick" };

	if (!bfs_is_telling(bfs))
		return;
	bfs_say(bfs, "%llu ns: %s", (unsigned long long)now->now_ns, names[event->type]);
	if (event->message)
		bfs_say(bfs, " %u", event->message->type);
	if (event->number)
		bfs_say(bfs, " #%llu", (unsigned long long)event->number);
	if (event->shard || event->lanes)
		bfs_say(bfs, " shard %u lanes %u", event->shard, event->lanes);
	for (uint32_t i = 0; i < actions->count && i < 8; i++)
		bfs_say(bfs, " %c%u", "csholxlf"[actions->list[i].type],
			actions -> list[i].message);
	bfs_say(bfs, " %s, wake %llu", member_state_name(now->member.state),
		(unsigned long long)actions->wake_ns);
}

static const char *event_happens(struct bfs *bfs, struct member_event event)
{
	static struct member_actions actions;

	event.now_ns = now->now_ns;
	/* Whatever the memory held. */
	memset(&actions, walk_step() % 2 ? 0xff : 1, sizeof(actions));
	member_step(&now->member, &now->config, &event, &actions);
	tell(bfs, &event, &actions);
	for (uint32_t i = 0; i < actions.count; i++) {
		if (actions.list[i].type == MEMBER_DO_CONNECT && now->is_connecting)
			return "two attempts at once";
		now->is_connecting |= actions.list[i].type == MEMBER_DO_CONNECT;
	}
	if (event.type == MEMBER_CONNECTED || event.type == MEMBER_REFUSED ||
	    event.type == MEMBER_CLOSED)
		now->is_connecting = false;
	return slow_member_step(&now->slow, &now->config, &event, &now->member, &actions);
}

/* ---- the clock ---- */

/* Up to where something is to happen, or right before, or right after. */
static uint64_t drawn_bound(void)
{
	const struct slow_member *slow = &now->slow;
	uint64_t bound_ns = slow->alarm[draw(SLOW_ALARMS)];
	uint32_t which = draw(8);

	if (which == 0)
		bound_ns = slow_member_silent_at(slow);
	else if (which == 1)
		bound_ns = slow_member_slept_at(slow);
	else if (which < 6)
		for (uint32_t i = 0; i < SLOW_ALARMS; i++)
			bound_ns = slow->alarm[i] < bound_ns ? slow->alarm[i] : bound_ns;
	if (bound_ns == UINT64_MAX)
		return now->now_ns + draw(300) * MS_NS;
	return bound_ns + draw(4) / 2 - !draw(6);
}

/* Nobody sleeps: often enough, and not beyond what is next. */
static uint64_t next_look(void)
{
	const struct slow_member *slow = &now->slow;
	uint64_t next_ns = slow_member_slept_at(slow) - 1;

	if (!now->is_beating && slow_member_silent_at(slow) < next_ns)
		next_ns = slow_member_silent_at(slow) - !draw(3);
	for (uint32_t i = 0; i < SLOW_ALARMS; i++)
		if (slow->alarm[i] < next_ns)
			next_ns = slow->alarm[i] - (!draw(8) && slow->alarm[i] > now->now_ns + 1);
	return next_ns;
}

static void time_goes_to(uint64_t next_ns)
{
	if (next_ns > now->now_ns)
		now->now_ns = next_ns;
}

static const char *tick(struct bfs *bfs)
{
	struct member_event event = { .type = MEMBER_TICK };

	if (now->slow.over_number && now->slow.alarm[SLOW_VERDICT] != UINT64_MAX)
		event.is_done = !draw(8);
	else
		event.is_done = draw(2);
	return event_happens(bfs, event);
}

static const char *time_passes(struct bfs *bfs)
{
	uint32_t how = draw(10);

	if (!draw(30)) {
		now->quiet = 1 + draw(QUIET);
		now->is_beating = draw(2);
	}
	if (how < 6)
		time_goes_to(drawn_bound());
	else if (how < 8)
		now->now_ns += draw(300) * MS_NS + draw(1000);
	else if (how < 9 && now->mood != MOOD_ORDERLY)
		now->now_ns += draw(40) * SECOND_NS;
	return tick(bfs);
}

/* ---- what the aggregator says ---- */

static uint64_t drawn_number(void)
{
	if (!draw(20))
		return rng_next(&now->rng);
	return draw(3) ? now->slow.over_number : now->numbers + draw(3);
}

static uint16_t drawn_lanes(void)
{
	static const uint16_t lanes[] = { 360, 1440, 16368, 4, 5, 8, 12, 2236, 7, 11 };

	return draw(12) ? lanes[draw(draw(3) ? 3 : 10)] : (uint16_t)(4 + draw(WIRE_LANES_MAX - 3));
}

static void draw_grant(struct control_grant *grant)
{
	static const uint16_t counts[] = { 1, 2, 3, 4, MAP_SHARDS_MAX - 1, MAP_SHARDS_MAX, 33, 32 };
	static const uint32_t beats_ms[] = { 10000, 100, 10001, 1000, 3600000, 333 };

	grant->life = rng_next(&now->rng);
	grant->heartbeat_ms = draw(2) ? 10000 : beats_ms[draw(6)];
	grant->version = 1;
	grant->size = now->join.size;
	grant->workers = now->join.size;
	grant->shards_count = counts[draw(draw(4) ? 4 : 8)];
	for (uint32_t i = 0; i < grant->shards_count; i++) {
		grant->shards[i].port = (uint16_t)(1 + draw(UINT16_MAX));
		grant->shards[i].lanes = draw(6) ? 1440 : drawn_lanes();
	}
}

static void draw_start(struct control_start *start)
{
	uint32_t lanes = now->slow.lanes;

	switch (draw(20)) {
	case 0:
		lanes += 4;
		break;
	case 1:
		lanes -= 1 + draw(3);
		break;
	case 2:
		lanes = 4;
		break;
	case 3:
		lanes = 0;
		break;
	case 4:
		lanes = draw(8);
		break;
	case 5:
		lanes = drawn_lanes();
		break;
	case 6:
	case 7:
		lanes -= lanes > 4 ? 4 : 0;
		break;
	default:
		break;
	}
	start->lanes = (uint16_t)lanes;
}

static void draw_end(struct control_end *end)
{
	end->cause = (uint16_t)draw(CONTROL_CAUSE_END);
	end->rank = (uint16_t)(draw(3) ? draw(300) : CONTROL_RANK_NONE - draw(2));
	end->is_ending = !draw(2);
	draw_text(end->text, sizeof(end->text));
}

static const char *aggregator_says(struct bfs *bfs, enum control_type type)
{
	static struct control_message message;
	struct member_event event = { .type = MEMBER_MESSAGE, .message = &message };

	memset(&message, 0, sizeof(message));
	message.type = type;
	switch (type) {
	case CONTROL_GRANT:
		draw_grant(&message.grant);
		event.lanes = draw(3) ? 360 : draw(20) ? drawn_lanes() : (uint16_t)draw(9);
		break;
	case CONTROL_START:
		draw_start(&message.start);
		break;
	case CONTROL_DENY:
	case CONTROL_ABORT:
		draw_end(&message.end);
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message.ping.serial = draw(4) ? rng_u32(&now->rng) : draw(2) - 1;
		break;
	case CONTROL_PROGRESS:
		draw_text(message.progress.text, sizeof(message.progress.text));
		break;
	case CONTROL_QUERY:
		message.query.round = draw(2) ? rng_u32(&now->rng) : draw(2) - 1;
		message.query.from = drawn_number();
		break;
	case CONTROL_WAITING:
		message.waiting.number = drawn_number();
		message.waiting.waited_ms = rng_u32(&now->rng);
		message.waiting.missing_count = (uint16_t)(draw(2) ? 0 : draw(3));
		break;
	default:
		break;
	}
	return event_happens(bfs, event);
}

static const char *something_is_said(struct bfs *bfs)
{
	static const enum control_type running[] = { CONTROL_QUERY, CONTROL_WAITING, CONTROL_PING,
						     CONTROL_HEARTBEAT };
	static const enum control_type any[] = { CONTROL_PING, CONTROL_PROGRESS, CONTROL_HEARTBEAT,
						 CONTROL_PONG };
	bool is_running = now->slow.state == MEMBER_RUN || now->slow.state == MEMBER_LEAVING;

	if (!draw(now->mood == MOOD_ODD ? 8 : 200))
		return aggregator_says(bfs, (enum control_type)draw(CONTROL_TYPE_END));
	if (!draw(now->mood == MOOD_ODD ? 20 : 200))
		return aggregator_says(bfs, draw(2) ? CONTROL_ABORT : CONTROL_DENY);
	return aggregator_says(bfs, is_running && draw(4) ? running[draw(4)] : any[draw(4)]);
}

/* ---- what shards answer, and what happens here ---- */

static const char *shard_answers(struct bfs *bfs)
{
	const struct slow_member *slow = &now->slow;
	uint32_t full = slow_member_hello_lanes(slow), shard = 0;
	struct member_event event = { .type = MEMBER_WELCOME };

	while (shard + 1 < slow->shards && slow->shard[shard].is_bound)
		shard++;
	if (!draw(3) && slow->shards)
		shard = draw(slow->shards);
	if (!draw(20))
		shard = slow->shards + draw(3);
	if (!draw(50))
		shard = draw(UINT16_MAX + 1);
	event.shard = (uint16_t)shard;
	event.lanes = (uint16_t)full;
	if (!draw(now->mood == MOOD_DEAF ? 2 : 8))
		event.lanes = (uint16_t)(draw(2) ? WIRE_HELLO_LANES : full - 1 - draw(4));
	else if (!draw(8))
		event.lanes = (uint16_t)(full + draw(8));
	return event_happens(bfs, event);
}

static const char *operation_waits(struct bfs *bfs)
{
	struct member_event event = { .type = MEMBER_STALLED, .number = drawn_number() };

	if (draw(now->mood == MOOD_LATE ? 3 : 2))
		event.type = MEMBER_EXPIRED;
	event.waited_ms = draw(2) ? draw(100000) : rng_u32(&now->rng);
	event.still_ms = draw(2) ? draw(100000) : rng_u32(&now->rng);
	return event_happens(bfs, event);
}

static const char *something_rare(struct bfs *bfs)
{
	static const enum member_event_type types[] = { MEMBER_CONNECTED,  MEMBER_REFUSED,
							MEMBER_CLOSED,     MEMBER_FINALIZE,
							MEMBER_USER_ABORT, MEMBER_ERROR };
	static char text[NAME_BYTES];
	struct member_event event = { .type = types[draw(6)], .number = drawn_number() };

	/* The first step is a TICK, or its end. */
	if (!now->slow.has_begun && (event.type < MEMBER_FINALIZE || event.type > MEMBER_ERROR))
		return tick(bfs);
	/* One that connects has none that ends. */
	if (event.type == MEMBER_CONNECTED && !now->is_connecting &&
	    now->slow.state == MEMBER_CONNECT)
		return tick(bfs);
	draw_text(text, sizeof(text));
	if (event.type != MEMBER_FINALIZE && draw(2))
		event.text = text;
	event.cause = (enum control_cause)(1 + draw(CONTROL_CAUSE_END - 1));
	return event_happens(bfs, event);
}

/* ---- what happens ---- */

static const char *attempt_ends(struct bfs *bfs)
{
	static char text[NAME_BYTES];
	struct member_event event = { .type = MEMBER_REFUSED };

	if (!now->is_connecting)
		return time_passes(bfs);
	if (!draw(now->mood == MOOD_ABSENT ? 30 : 3))
		event.type = MEMBER_CONNECTED;
	draw_text(text, sizeof(text));
	if (draw(3))
		event.text = text;
	return event_happens(bfs, event);
}

/* What this member waits for. */
static const char *goes_on(struct bfs *bfs)
{
	bool is_deaf = now->mood == MOOD_DEAF && draw(30);

	switch (now->slow.state) {
	case MEMBER_CONNECT:
		return attempt_ends(bfs);
	case MEMBER_JOINING:
		if (now->config.is_local && draw(2))
			return aggregator_says(bfs, CONTROL_DENY);
		return is_deaf && draw(2) ? time_passes(bfs) : aggregator_says(bfs, CONTROL_GRANT);
	case MEMBER_HELLOING:
		return is_deaf ? time_passes(bfs) : shard_answers(bfs);
	case MEMBER_READY:
		return draw(3) ? time_passes(bfs) : aggregator_says(bfs, CONTROL_START);
	case MEMBER_RUN:
		if (!draw(20))
			return event_happens(bfs,
					     (struct member_event){ .type = MEMBER_FINALIZE,
								    .number = drawn_number() });
		return operation_waits(bfs);
	case MEMBER_LEAVING:
		if (!draw(8))
			return aggregator_says(bfs, CONTROL_LEFT);
		return draw(6) ? operation_waits(bfs) : something_rare(bfs);
	default:
		return something_rare(bfs);
	}
}

static const char *quiet(struct bfs *bfs)
{
	now->quiet--;
	if (now->slow.state == MEMBER_CONNECT && now->is_connecting && draw(2))
		return attempt_ends(bfs);
	if (now->is_beating && now->slow.is_open && now->quiet % 2)
		return aggregator_says(bfs, CONTROL_HEARTBEAT);
	time_goes_to(next_look());
	return tick(bfs);
}

static const char *step(void *own, struct bfs *bfs)
{
	uint32_t what;

	now = own;
	what = draw(100);
	if (is_over_for(&now->slow) && !draw(3))
		life_begins();
	if (!now->slow.has_begun)
		return draw(50) ? tick(bfs) : something_rare(bfs);
	if (now->quiet)
		return quiet(bfs);
	if (!draw(4))
		now->now_ns += draw(4) ? draw(50) * MS_NS : draw(3);
	if (what < (now->slow.state == MEMBER_HELLOING ? 80 : 40))
		return goes_on(bfs);
	if (what < 75)
		return time_passes(bfs);
	if (what < 96)
		return now->slow.is_open || !draw(10) ? something_is_said(bfs) : goes_on(bfs);
	if (what < 98)
		return shard_answers(bfs);
	return draw(3) ? something_rare(bfs) : operation_waits(bfs);
}

void member_walk_model(struct bfs_model *model, const void *config_at)
{
	const struct walk_config *config = config_at;

	walk_model(model, &(struct walk){ .walks = slow_member_is_asked() ? config->walks : 0,
					  .steps = config->steps,
					  .own_bytes = sizeof(struct state),
					  .begin = begin,
					  .step = step });
}
