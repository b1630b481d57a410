/* SPDX-License-Identifier: Apache-2.0 */
/* member_walk.c - see walks.h. */
#include "search/walks.h"

#include <stdio.h>
#include <string.h>

#include "core/job/member.h"
#include "search/record.h"
#include "search/record_message.h"
#include "search/slow.h"
#include "search/texts.h"
#include "util/rng.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

#define CONFIG(name) RECORD_FIELD(struct member_config, name)
#define EVENT(name) RECORD_FIELD(struct member_event, name)
#define ACTION(name) RECORD_FIELD(struct member_action, name)
#define ACTIONS(name) RECORD_FIELD(struct member_actions, name)
#define MEMBER(name) RECORD_FIELD(struct member, name)

enum { NAME_BYTES = 640, QUIET = 60 };

/* clang-format off */
static const struct record_field config_fields[] = {
	CONFIG(is_v6), CONFIG(is_local), CONFIG(connect_ns), CONFIG(gather_ns), CONFIG(heartbeat_ns), { 0 }
};
static const struct record_field event_fields[] = {
	EVENT(type), EVENT(now_ns), EVENT(number), EVENT(waited_ms), EVENT(still_ms), EVENT(shard),
	EVENT(lanes), EVENT(cause), EVENT(is_done), { 0 }
};
static const struct record_field action_fields[] = {
	ACTION(type), ACTION(shard), ACTION(lanes), ACTION(serial), ACTION(number), { 0 }
};
static const struct record_field member_fields[] = {
	MEMBER(state), MEMBER(cause), MEMBER(cause_rank), MEMBER(is_joined), MEMBER(is_again),
	MEMBER(heard_ns), MEMBER(spoke_ns), MEMBER(since_ns), MEMBER(expired), { 0 }
};
static const struct record_field actions_fields[] = {
	ACTIONS(cause), ACTIONS(cause_rank), ACTIONS(has_progress), ACTIONS(has_waiting),
	ACTIONS(wake_ns), ACTIONS(text), { 0 }
};
/* clang-format on */

/* What a member's life is like. */
enum mood {
	MOOD_ORDERLY, /* it comes, runs and leaves */
	MOOD_ABSENT,  /* nobody takes its connection */
	MOOD_DEAF,    /* it hears little */
	MOOD_LATE,    /* operations have deadlines */
	MOOD_ODD,     /* it is told what does not fit */
	MOODS
};

static struct rng rng;
static uint64_t now_ns, wake_ns, numbers;
static uint32_t steps, alone; /* alone: so many steps only the clock goes on */
static bool is_beating;       /* ... and the aggregator's HEARTBEATs */
static bool is_connecting;
static enum mood mood;
static struct member_config config;
static struct control_join join;
static char aggregator[NAME_BYTES];
static struct member member;

static uint32_t draw(uint32_t below)
{
	return rng_below(&rng, below);
}

static bool is_over(void)
{
	return member.state == MEMBER_FAILED || member.state == MEMBER_LEFT;
}

/* Often about as long as can be. */
static void draw_text(char *text, size_t max)
{
	size_t wanted = draw(6) ? draw(30) : CONTROL_TEXT_BYTES - 90 + draw(100);

	texts_draw(&rng, text, wanted, max);
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
	struct member_config *of = &config;

	*of = (struct member_config)MEMBER_CONFIG_DEFAULT;
	of->aggregator = aggregator;
	of->join = &join;
	of->is_v6 = draw(2);
	of->is_local = !draw(3);
	if (draw(4))
		of->gather_ns = drawn_time(gather, draw(3) ? 7 : 11);
	if (draw(3))
		of->connect_ns = drawn_time(connect, 5);
	if (draw(2))
		of->heartbeat_ns = drawn_time(beat, 6);
	strcpy(aggregator, "10.0.0.1:7171");
	if (!draw(8))
		draw_text(aggregator, sizeof(aggregator));
}

static void draw_join(void)
{
	memset(&join, 0, sizeof(join));
	join.version_min = 1;
	join.version_max = 1 + (uint16_t)draw(3);
	join.size = (uint16_t)(1 + draw(CONTROL_MEMBERS_MAX));
	join.rank = (uint16_t)draw(join.size);
	join.mode = draw(2) ? CONTROL_DENSE : CONTROL_LATENCY;
	join.latency_slots = draw(100);
	join.latency_window = draw(100);
	join.workers = 1;
	join.pid = rng_u32(&rng);
	join.mtu = draw(10000);
	join.timeout_ms = draw(2) ? 0 : rng_u32(&rng);
	join.list_hash = rng_next(&rng);
	join.life = rng_next(&rng);
	join.program = rng_next(&rng);
	join.boot = rng_next(&rng);
	join.process = rng_next(&rng);
	join.local_size = (uint16_t)draw(300);
	join.is_launched = (uint8_t)draw(2);
	snprintf(join.job, sizeof(join.job), "job %u", draw(1000));
	snprintf(join.host, sizeof(join.host), "host %u", draw(1000));
	snprintf(join.key, sizeof(join.key), "key %u", draw(1000));
	snprintf(join.list, sizeof(join.list), "list %u", draw(1000));
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
	static const uint64_t firsts[] = { 0, 7, UINT32_MAX - 1, INT64_MAX - 2 };
	static const uint32_t serials[] = { 0, UINT16_MAX - 20, INT32_MAX - 20, UINT32_MAX - 20 };
	static struct control_message own = { .type = CONTROL_JOIN };

	mood = draw(MOODS);
	now_ns = clocks[draw(6)] + draw(1000);
	numbers = firsts[draw(4)];
	alone = 0;
	is_connecting = false;
	draw_config();
	draw_join();
	memset(&member, 0xff, sizeof(member));
	member_init(&member, &config);
	member.serial = serials[draw(4)];
	wake_ns = UINT64_MAX;
	own.join = join;
	record("member");
	record_fields(&config, config_fields);
	record_also(" %u", member.serial);
	record_text(aggregator);
	record_message(&own);
}

/* ---- a step ---- */

/* What is not said goes into one line, as far as it comes at once: HELLOs are many. */
static void record_actions(const struct member_actions *actions)
{
	static struct control_message sent;
	bool is_doing = false;

	for (uint32_t i = 0; i < actions->count; i++) {
		const struct member_action *action = &actions->list[i];

		is_connecting |= action->type == MEMBER_DO_CONNECT;
		if (action->type == MEMBER_SEND) {
			member_message(&config, actions, action, &sent);
			record("sends");
			record_message(&sent);
		} else {
			if (!is_doing)
				record("does");
			record_also(" ;");
			record_fields(action, action_fields);
		}
		is_doing = action->type != MEMBER_SEND;
	}
}

static void event_happens(struct member_event event)
{
	static struct member_actions actions;

	event.now_ns = now_ns;
	/* Whatever the memory held. */
	memset(&actions, steps % 2 ? 0xff : 1, sizeof(actions));
	record("meets");
	record_fields(&event, event_fields);
	record_text(event.text);
	if (event.message)
		record_message(event.message);
	member_step(&member, &config, &event, &actions);
	is_connecting &= event.type != MEMBER_CONNECTED && event.type != MEMBER_REFUSED &&
			 event.type != MEMBER_CLOSED;
	record_actions(&actions);
	record("did");
	record_fields(&member, member_fields);
	record_fields(&actions, actions_fields);
	record_text(member_state_name(member.state));
	wake_ns = actions.wake_ns;
}

/* ---- the clock ---- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When something may be due. */
static uint64_t alarm(uint32_t which)
{
	switch (is_over() ? UINT32_MAX : which) {
	case 0:
		return member.state == MEMBER_CONNECT ? member.retry_ns : UINT64_MAX;
	case 1:
		return member.since_ns + config.connect_ns + 5 * SECOND_NS;
	case 2:
		return member.begun_ns + config.gather_ns + 500 * MS_NS;
	case 3:
		return member.beat_ns + smaller(member.heartbeat_ns / 5, 2 * SECOND_NS);
	case 4:
		return member.hello_ns + 100 * MS_NS;
	case 5:
		return member.is_expired ? member.expired_ns + 2 * SECOND_NS : UINT64_MAX;
	default:
		return UINT64_MAX;
	}
}

/* When a TICK may find that the aggregator is silent; when one is so late that this process has slept. */
static uint64_t silent_at(void)
{
	uint64_t limit_ns =
		member.heartbeat_ns + 2 * smaller(member.heartbeat_ns / 5, 2 * SECOND_NS);

	return smaller(member.heard_ns + limit_ns, member.spoke_ns + 3 * limit_ns);
}

static uint64_t slept_at(void)
{
	return member.tick_ns + member.heartbeat_ns / 4;
}

/* Up to where something is to happen, or right before, or right after. */
static uint64_t drawn_bound(void)
{
	uint64_t bound_ns = alarm(draw(6));
	uint32_t which = draw(8);

	if (which == 0)
		bound_ns = silent_at();
	else if (which == 1)
		bound_ns = slept_at();
	else if (which < 6)
		bound_ns = wake_ns;
	if (bound_ns == UINT64_MAX)
		return now_ns + draw(300) * MS_NS;
	return bound_ns + draw(4) / 2 - !draw(6);
}

/* Nobody sleeps: often enough, and not beyond what is next. */
static uint64_t next_look(void)
{
	uint64_t next_ns = slept_at() - 1;

	if (!is_beating && silent_at() < next_ns)
		next_ns = silent_at() - !draw(3);
	if (wake_ns < next_ns)
		next_ns = wake_ns - (!draw(8) && wake_ns > now_ns + 1);
	return next_ns;
}

static void time_goes_to(uint64_t next_ns)
{
	if (next_ns > now_ns)
		now_ns = next_ns;
}

static void tick(void)
{
	struct member_event event = { .type = MEMBER_TICK };

	event.is_done = member.expired && member.is_expired ? !draw(8) : draw(2);
	event_happens(event);
}

static void time_passes(void)
{
	uint32_t how = draw(10);

	if (!draw(30)) {
		alone = 1 + draw(QUIET);
		is_beating = draw(2);
	}
	if (how < 6)
		time_goes_to(drawn_bound());
	else if (how < 8)
		now_ns += draw(300) * MS_NS + draw(1000);
	else if (how < 9 && mood != MOOD_ORDERLY)
		now_ns += draw(40) * SECOND_NS;
	tick();
}

/* ---- what the aggregator says ---- */

static uint64_t drawn_number(void)
{
	if (!draw(20))
		return rng_next(&rng);
	return draw(3) ? member.expired : numbers + draw(3);
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

	grant->life = rng_next(&rng);
	grant->heartbeat_ms = draw(2) ? 10000 : beats_ms[draw(6)];
	grant->version = 1;
	grant->size = join.size;
	grant->workers = join.size;
	grant->shards_count = counts[draw(draw(4) ? 4 : 8)];
	for (uint32_t i = 0; i < grant->shards_count; i++) {
		grant->shards[i].port = (uint16_t)(1 + draw(UINT16_MAX));
		grant->shards[i].lanes = draw(6) ? 1440 : drawn_lanes();
	}
}

static void draw_start(struct control_start *start)
{
	uint32_t lanes = member.lanes;

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

static void aggregator_says(enum control_type type)
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
		message.ping.serial = draw(4) ? rng_u32(&rng) : draw(2) - 1;
		break;
	case CONTROL_PROGRESS:
		draw_text(message.progress.text, sizeof(message.progress.text));
		break;
	case CONTROL_QUERY:
		message.query.round = draw(2) ? rng_u32(&rng) : draw(2) - 1;
		message.query.from = drawn_number();
		break;
	case CONTROL_WAITING:
		message.waiting.number = drawn_number();
		message.waiting.waited_ms = rng_u32(&rng);
		message.waiting.missing_count = (uint16_t)(draw(2) ? 0 : draw(3));
		break;
	default:
		break;
	}
	event_happens(event);
}

static void something_is_said(void)
{
	static const enum control_type running[] = { CONTROL_QUERY, CONTROL_WAITING, CONTROL_PING,
						     CONTROL_HEARTBEAT };
	static const enum control_type any[] = { CONTROL_PING, CONTROL_PROGRESS, CONTROL_HEARTBEAT,
						 CONTROL_PONG };
	bool is_running = member.state == MEMBER_RUN || member.state == MEMBER_LEAVING;

	if (!draw(mood == MOOD_ODD ? 8 : 200))
		aggregator_says((enum control_type)draw(CONTROL_TYPE_END));
	else if (!draw(mood == MOOD_ODD ? 20 : 200))
		aggregator_says(draw(2) ? CONTROL_ABORT : CONTROL_DENY);
	else
		aggregator_says(is_running && draw(4) ? running[draw(4)] : any[draw(4)]);
}

/* ---- what shards answer, and what happens here ---- */

static void shard_answers(void)
{
	uint32_t full = member.lanes > WIRE_HELLO_LANES ? member.lanes : WIRE_HELLO_LANES;
	uint32_t shard = 0;
	struct member_event event = { .type = MEMBER_WELCOME };

	while (shard + 1 < member.shards && member.welcomed >> shard & 1)
		shard++;
	if (!draw(3) && member.shards)
		shard = draw(member.shards);
	if (!draw(20))
		shard = member.shards + draw(3);
	if (!draw(50))
		shard = draw(UINT16_MAX + 1);
	event.shard = (uint16_t)shard;
	event.lanes = (uint16_t)full;
	if (!draw(mood == MOOD_DEAF ? 2 : 8))
		event.lanes = (uint16_t)(draw(2) ? WIRE_HELLO_LANES : full - 1 - draw(4));
	else if (!draw(8))
		event.lanes = (uint16_t)(full + draw(8));
	event_happens(event);
}

static void operation_waits(void)
{
	struct member_event event = { .type = MEMBER_STALLED, .number = drawn_number() };

	if (draw(mood == MOOD_LATE ? 3 : 2))
		event.type = MEMBER_EXPIRED;
	event.waited_ms = draw(2) ? draw(100000) : rng_u32(&rng);
	event.still_ms = draw(2) ? draw(100000) : rng_u32(&rng);
	event_happens(event);
}

static void something_rare(void)
{
	static const enum member_event_type types[] = { MEMBER_CONNECTED,  MEMBER_REFUSED,
							MEMBER_CLOSED,     MEMBER_FINALIZE,
							MEMBER_USER_ABORT, MEMBER_ERROR };
	static char text[NAME_BYTES];
	struct member_event event = { .type = types[draw(6)], .number = drawn_number() };
	/* The first step is a TICK, or its end; and one that connects has none that ends. */
	bool is_early = !member.is_begun &&
			(event.type < MEMBER_FINALIZE || event.type > MEMBER_ERROR);
	bool is_nothing = event.type == MEMBER_CONNECTED && !is_connecting &&
			  member.state == MEMBER_CONNECT;

	if (is_early || is_nothing) {
		tick();
		return;
	}
	draw_text(text, sizeof(text));
	if (event.type != MEMBER_FINALIZE && draw(2))
		event.text = text;
	event.cause = (enum control_cause)(1 + draw(CONTROL_CAUSE_END - 1));
	event_happens(event);
}

/* ---- what happens ---- */

static void attempt_ends(void)
{
	static char text[NAME_BYTES];
	struct member_event event = { .type = MEMBER_REFUSED };

	if (!is_connecting) {
		time_passes();
		return;
	}
	if (!draw(mood == MOOD_ABSENT ? 30 : 3))
		event.type = MEMBER_CONNECTED;
	draw_text(text, sizeof(text));
	if (draw(3))
		event.text = text;
	event_happens(event);
}

static void runs_on(void)
{
	struct member_event finalize = { .type = MEMBER_FINALIZE };

	if (draw(20)) {
		operation_waits();
		return;
	}
	finalize.number = drawn_number();
	event_happens(finalize);
}

static void leaves(void)
{
	if (!draw(8))
		aggregator_says(CONTROL_LEFT);
	else if (draw(6))
		operation_waits();
	else
		something_rare();
}

/* What this member waits for. */
static void goes_on(void)
{
	bool is_deaf = mood == MOOD_DEAF && draw(30);

	switch (member.state) {
	case MEMBER_CONNECT:
		attempt_ends();
		break;
	case MEMBER_JOINING:
		if (config.is_local && draw(2))
			aggregator_says(CONTROL_DENY);
		else if (is_deaf && draw(2))
			time_passes();
		else
			aggregator_says(CONTROL_GRANT);
		break;
	case MEMBER_HELLOING:
		is_deaf ? time_passes() : shard_answers();
		break;
	case MEMBER_READY:
		draw(3) ? time_passes() : aggregator_says(CONTROL_START);
		break;
	case MEMBER_RUN:
		runs_on();
		break;
	case MEMBER_LEAVING:
		leaves();
		break;
	default:
		something_rare();
		break;
	}
}

static void quiet(void)
{
	alone--;
	if (member.state == MEMBER_CONNECT && is_connecting && draw(2)) {
		attempt_ends();
	} else if (is_beating && member.is_joined && alone % 2) {
		aggregator_says(CONTROL_HEARTBEAT);
	} else {
		time_goes_to(next_look());
		tick();
	}
}

static void anything_happens(uint32_t what)
{
	if (!draw(4))
		now_ns += draw(4) ? draw(50) * MS_NS : draw(3);
	if (what < (member.state == MEMBER_HELLOING ? 80 : 40))
		goes_on();
	else if (what < 75)
		time_passes();
	else if (what < 96 && (member.is_joined || !draw(10)))
		something_is_said();
	else if (what < 96)
		goes_on();
	else if (what < 98)
		shard_answers();
	else if (draw(3))
		something_rare();
	else
		operation_waits();
}

static void step(void)
{
	uint32_t what = draw(100);

	steps++;
	if (is_over() && !draw(3))
		life_begins();
	if (!member.is_begun && !draw(50))
		something_rare();
	else if (!member.is_begun)
		tick();
	else if (alone)
		quiet();
	else
		anything_happens(what);
}

static void member_record(const void *config_at)
{
	const struct walk_config *of = config_at;
	uint32_t walks = slow_is_asked() ? of->walks : 0;

	record("walk of a member");
	for (uint32_t walk = 0; walk < walks && !record_is_over(); walk++) {
		record("walk %u", walk);
		rng_init(&rng, 1, walk);
		steps = 0;
		life_begins();
		for (uint32_t i = 0; i < of->steps && !record_is_over(); i++)
			step();
	}
}

void member_walk_model(struct bfs_model *model, const void *config_at)
{
	*model = (struct bfs_model){ .config = config_at, .record = member_record };
}
