/* SPDX-License-Identifier: Apache-2.0 */
/* pace_walk.c - see pace_walk.h. */
#include "search/pace_walk.h"

#include <assert.h>
#include <string.h>

#include "search/slow_pace.h"
#include "search/walk.h"
#include "util/rng.h"

#define US_NS UINT64_C(1000)
#define MS_NS (1000 * US_NS)
#define SECOND_NS (1000 * MS_NS)

enum { SLOTS = SLOW_PACE_SHARDS * SLOW_PACE_SLOTS, PROBES = 128, ORDERS = SLOW_PACE_ORDERS - 256 };

/* What kind of a path a walk is on. */
enum mood {
	MOOD_MIXED,
	MOOD_HELD,   /* most are held, and rings become long */
	MOOD_SILENT, /* hardly anything comes back */
	MOOD_PROMPT, /* results come, few in order */
	MOODS
};

struct state {
	struct rng rng;
	uint64_t now_ns;
	uint32_t walk;
	struct pace pace; /* without its pointers */
	struct pace_shard shards[SLOW_PACE_SHARDS];
	struct pace_slot slot[SLOTS];
	uint64_t burst_ns;        /* of pace_latency */
	uint32_t burst, punctual; /* punctual: firings one after the other without any jitter */
	struct slow_pace slow;
};

/* The shipped one with its pointers, while it steps. */
static struct pace_latency shipped;
static struct state *now; /* the walk that steps */
static const struct pace_walk_config *config;

static struct pace *pace_load(void)
{
	shipped.pace = now->pace;
	shipped.pace.shards = config->is_latency ? &shipped.shard : now->shards;
	shipped.pace.slot = now->slot;
	shipped.shard = now->shards[0];
	shipped.burst_ns = now->burst_ns;
	shipped.burst = now->burst;
	return &shipped.pace;
}

static void pace_save(void)
{
	if (config->is_latency)
		now->shards[0] = shipped.shard;
	now->pace = shipped.pace;
	now->pace.shards = NULL;
	now->pace.slot = NULL;
	now->burst_ns = shipped.burst_ns;
	now->burst = shipped.burst;
}

static void begin(void *own, uint32_t walk)
{
	/* UPDATEs and PROBEs have been before: a narrower or a signed number would end soon. */
	static const uint32_t bits[] = { 0, 8, 16, 31, 32, 48 };
	struct pace_shard *shards;
	struct map map;

	now = own;
	shards = config->is_latency ? &shipped.shard : now->shards;
	memset(&shipped, 0, sizeof(shipped));
	rng_init(&now->rng, 1, walk);
	now->walk = walk;
	now->now_ns = rng_log(&now->rng, SECOND_NS, 1000 * SECOND_NS);
	if (!map_init(&map, config->shards, config->slots, 1))
		assert(0);
	if (config->is_latency)
		pace_latency_init(&shipped, config->slots, now->slot);
	else
		pace_init(&shipped.pace, &map, config->slots, config->slots, now->shards,
			  now->slot);
	now->slow.shards = config->shards;
	now->slow.slots = config->slots;
	now->slow.is_latency = config->is_latency;
	for (uint32_t shard = 0; shard < config->shards; shard++) {
		uint32_t *window = now->slow.shard[shard].window;

		window[MAP_BULK] = config->is_latency ? config->slots : map.pool[MAP_BULK];
		window[MAP_EXPRESS] = config->is_latency ? config->slots : map.pool[MAP_EXPRESS];
		/* Attempts are counted from anywhere: 0 says that there was none. */
		now->slow.shard[shard].numbers = walk % 2 ? UINT32_MAX - rng_below(&now->rng, 30)
							  : 0;
		shards[shard].attempts = now->slow.shard[shard].numbers;
		shards[shard].order = (1ull << bits[walk / 2 % 6]) - 1;
		if (shards[shard].order) /* some before the end, and some behind it */
			shards[shard].order -= rng_below(&now->rng, 200);
		for (uint32_t i = 0; i < config->slots; i++)
			now->slow.slot[shard][i].is_bulk = config->is_latency ||
							   i >= map.base[MAP_BULK];
	}
	pace_save();
}

/* ---- what happens ---- */

static uint32_t draw_waiting(uint32_t shard, bool is_waiting)
{
	uint32_t at = rng_below(&now->rng, config->slots);

	for (uint32_t i = 0; i < config->slots; i++, at++)
		if (now->slow.slot[shard][at % config->slots].is_waiting == is_waiting)
			return at % config->slots;
	return config->slots;
}

static void heard(uint32_t shard)
{
	pace_heard(&shipped.pace, shard, now->now_ns);
	now->slow.shard[shard].heard_ns = now->now_ns;
}

static void send(struct bfs *bfs, uint32_t shard)
{
	uint32_t slot = draw_waiting(shard, false);

	if (slot == config->slots)
		return;
	bfs_say(bfs, "slot %u of shard %u is sent", slot, shard);
	if (config->is_latency)
		pace_latency_sent(&shipped, slot, now->now_ns);
	else
		pace_sent(&shipped.pace, shard, slot, now->now_ns, false);
	slow_pace_sent(&now->slow, shard, slot, now->now_ns, false);
}

static void result(struct bfs *bfs, uint32_t shard)
{
	uint32_t slot = draw_waiting(shard, true);
	bool is_last = rng_chance(&now->rng, 400000);

	if (slot == config->slots)
		return;
	bfs_say(bfs, "slot %u of shard %u has its result%s", slot, shard,
		is_last ? ", and was the last" : "");
	heard(shard);
	if (config->is_latency)
		pace_latency_answered(&shipped, slot, now->now_ns, is_last);
	else
		pace_result(&shipped.pace, shard, slot, now->now_ns, is_last);
	slow_pace_result(&now->slow, shard, slot, now->now_ns, is_last);
}

/* HELD, or NEED and the copy that is asked for. */
static void ask(struct bfs *bfs, uint32_t shard, bool is_held)
{
	uint32_t slot = draw_waiting(shard, true);
	uint32_t echo;

	if (slot == config->slots || (config->is_latency && !is_held))
		return;
	echo = now->slow.slot[shard][slot].number;
	if (rng_chance(&now->rng, 200000)) /* of an older PROBE, or none */
		echo = echo && rng_chance(&now->rng, 500000) ? echo - 1 : 0;
	bfs_say(bfs, "slot %u of shard %u hears %s[%u]", slot, shard, is_held ? "HELD" : "NEED",
		echo);
	heard(shard);
	slow_pace_asked(&now->slow, shard, slot, now->now_ns, echo, is_held);
	if (config->is_latency) {
		pace_latency_held(&shipped, slot, now->now_ns);
	} else if (is_held) {
		pace_held(&shipped.pace, shard, slot, now->now_ns, echo);
	} else {
		pace_need(&shipped.pace, shard, slot, now->now_ns, echo);
		pace_sent(&shipped.pace, shard, slot, now->now_ns, true);
		slow_pace_sent(&now->slow, shard, slot, now->now_ns, true);
	}
}

static void others(struct bfs *bfs, uint32_t shard)
{
	enum map_stream stream = (enum map_stream)rng_below(&now->rng, MAP_STREAMS);
	uint32_t window = 1 + rng_below(&now->rng, config->slots);
	uint32_t pool = now->pace.map.pool[stream];
	bool is_slow = now->walk % 16 == 5; /* more than 2^32 ns */
	uint64_t rtt_ns = rng_log(&now->rng, 1, is_slow ? 20 * SECOND_NS : 50 * MS_NS) - 1;

	switch (rng_below(&now->rng, 3)) {
	case 0:
		bfs_say(bfs, "WELCOME of shard %u after %llu ns", shard,
			(unsigned long long)rtt_ns);
		heard(shard);
		pace_sample(&shipped.pace, shard, rtt_ns);
		slow_pace_sample(&now->slow, shard, rtt_ns);
		break;
	case 1:
		if (config->is_latency)
			break;
		bfs_say(bfs, "shard %u has a window of %u", shard, window);
		pace_window(&shipped.pace, shard, stream, window);
		now->slow.shard[shard].window[stream] = window < pool ? window : pool;
		break;
	default:
		bfs_say(bfs, "something comes of shard %u", shard);
		heard(shard);
		break;
	}
}

static const char *poll(struct bfs *bfs)
{
	struct pace_probe got[PROBES], want[PROBES];
	uint32_t max = rng_chance(&now->rng, 300000) ? 1 + rng_below(&now->rng, 4) : PROBES;
	uint32_t got_count, want_count, firings = now->slow.firings, slots[PROBES];
	const char *wrong;

	if (config->is_latency) {
		got_count = pace_latency_poll(&shipped, now->now_ns, slots, max);
		for (uint32_t i = 0; i < got_count; i++)
			got[i] = (struct pace_probe){ .slot = slots[i] };
	} else {
		got_count = pace_poll(&shipped.pace, now->now_ns, got, max);
	}
	wrong = slow_pace_poll(&now->slow, now->now_ns, shipped.pace.ring_ns, want, &want_count,
			       max);
	bfs_say(bfs, "%u PROBEs of %u that are due", got_count, want_count);
	if (got_count != want_count)
		return "R-PACE-3, R-PACE-7: another number of PROBEs than the rules say";
	for (uint32_t i = 0; i < got_count && !wrong; i++) {
		if (got[i].shard != want[i].shard || got[i].slot != want[i].slot)
			wrong = "R-PACE-3, R-PACE-7: another slot's turn, by the rules";
		if (!config->is_latency && got[i].attempt != want[i].attempt)
			wrong = "R-PACE-1: an attempt has another number";
	}
	if (now->slow.firings == firings)
		return wrong;
	now->punctual = now->slow.ring_ns == now->now_ns + now->slow.interval_ns ? now->punctual + 1
										 : 0;
	return wrong || now->punctual < 8
		       ? wrong
		       : "R-PACE-7: firings are no shorter apart at random, ever";
}

/* ---- what it says ---- */

static const char *look(void)
{
	struct pace *pace = &shipped.pace;
	uint64_t next = config->is_latency ? pace_latency_next(&shipped, now->now_ns)
					   : pace_next(pace, now->now_ns);

	for (uint32_t shard = 0; shard < config->shards; shard++) {
		if (pace_rto(pace, shard) != slow_pace_rto(&now->slow, shard))
			return "R-PACE-1, R-PACE-2: another time-out than the rules say";
		if (pace->shards[shard].srtt_ns != now->slow.shard[shard].srtt_ns)
			return "R-PACE-1: another round trip than the rules say";
		for (uint32_t stream = 0; stream < MAP_STREAMS && !config->is_latency; stream++)
			if (pace_has_room(pace, shard, (enum map_stream)stream) !=
			    slow_pace_has_room(&now->slow, shard, (enum map_stream)stream))
				return "R-PACE-5: a window has room and should not, or should";
	}
	if (next != slow_pace_next(&now->slow, now->now_ns))
		return "R-PACE-2 to R-PACE-7: it would wake up too early, or too late";
	if (pace->stats.samples != now->slow.samples)
		return "R-PACE-1: a sample is taken that is none, or is not";
	return NULL;
}

static const char *hello(struct bfs *bfs, uint32_t shard)
{
	bool is_due = pace_hello_due(&shipped.pace, shard, now->now_ns);

	bfs_say(bfs, "shard %u: %s", shard, is_due ? "HELLO again" : "no HELLO");
	return is_due == slow_pace_hello_due(&now->slow, shard, now->now_ns)
		       ? NULL
		       : "R-PACE-8: HELLO again where it is not due, or not where it is";
}

/* Often just when something is due, or just before; not for longer than a path may sleep, or round trips
 * would grow for ever. */
static uint64_t draw_span(void)
{
	uint64_t next = slow_pace_next(&now->slow, now->now_ns);
	uint64_t rto = slow_pace_rto(&now->slow, rng_below(&now->rng, config->shards));

	switch (rng_below(&now->rng, 8)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return next == PACE_NEVER ? rto : next - now->now_ns;
	case 3:
		return next == PACE_NEVER || next == now->now_ns ? 1 : next - 1 - now->now_ns;
	case 4:
		return rto;
	case 5:
		return rng_log(&now->rng, 1, 300 * MS_NS);
	default:
		return rng_log(&now->rng, 1, 100 * US_NS);
	}
}

static void time_passes(void)
{
	uint64_t span_ns = draw_span();

	now->now_ns += span_ns < SECOND_NS ? span_ns : SECOND_NS;
}

static const char *step(struct bfs *bfs)
{
	/* Of 16: sent, result, HELD, NEED; the rest polls, and other things. */
	static const uint32_t share[MOODS][4] = {
		[MOOD_MIXED] = { 4, 3, 2, 1 },
		[MOOD_HELD] = { 5, 1, 5, 0 },
		[MOOD_SILENT] = { 11, 1, 0, 0 },
		[MOOD_PROMPT] = { 5, 5, 0, 1 },
	};
	const uint32_t *mine = share[now->walk % MOODS];
	uint32_t shard = rng_below(&now->rng, config->shards), draw = rng_below(&now->rng, 16);
	const char *wrong = NULL;

	time_passes();
	if (draw < mine[0])
		send(bfs, shard);
	else if (draw < mine[0] + mine[1])
		result(bfs, shard);
	else if (draw < mine[0] + mine[1] + mine[2])
		ask(bfs, shard, true);
	else if (draw < mine[0] + mine[1] + mine[2] + mine[3])
		ask(bfs, shard, false);
	else if (draw == 15)
		others(bfs, shard);
	else if (draw == 14)
		wrong = hello(bfs, shard);
	else
		wrong = poll(bfs);
	return wrong ? wrong : look();
}

/* ---- the model ---- */

static bool is_over(const void *own)
{
	const struct state *state = own;

	for (uint32_t shard = 0; shard < config->shards; shard++)
		if (state->slow.shard[shard].orders > ORDERS)
			return true;
	return false;
}

static const char *go_on(void *own, struct bfs *bfs)
{
	const char *wrong;

	now = own;
	pace_load();
	wrong = step(bfs);
	pace_save();
	bfs_say(bfs, " at %llu ns", (unsigned long long)now->now_ns);
	return wrong;
}

void pace_walk_model(struct bfs_model *model, const void *config_at)
{
	config = config_at;
	assert(config->shards <= SLOW_PACE_SHARDS);
	assert(config->slots <= SLOW_PACE_SLOTS);
	walk_model(model, &(struct walk){ .walks = config->walks,
					  .steps = config->steps,
					  .own_bytes = sizeof(struct state),
					  .begin = begin,
					  .step = go_on,
					  .is_over = is_over });
}
