/* SPDX-License-Identifier: Apache-2.0 */
/* pace_walk.c - see walks.h. */
#include "search/walks.h"

#include <assert.h>
#include <string.h>

#include "core/latency/pace_latency.h"
#include "search/record.h"
#include "util/rng.h"

#define US_NS UINT64_C(1000)
#define MS_NS (1000 * US_NS)
#define SECOND_NS (1000 * MS_NS)

enum { SHARDS = 2, SLOTS = 208 /* of a shard */, PROBES = 128 };

/* What kind of a path a walk is on. */
enum mood {
	MOOD_MIXED,
	MOOD_HELD,   /* most are held, and rings become long */
	MOOD_SILENT, /* hardly anything comes back */
	MOOD_PROMPT, /* results come, few in order */
	MOODS
};

static const struct pace_walk_config *config;
static struct rng rng;
static uint64_t now_ns;
static uint32_t walk;
static struct pace_latency shipped; /* of dense mode only its pace */
static struct pace *const pace = &shipped.pace;
static struct pace_shard shards[SHARDS];
static struct pace_slot slots[SHARDS * SLOTS];
static bool is_waiting[SHARDS][SLOTS];
static uint32_t attempt[SHARDS][SLOTS]; /* of the last PROBE */

static void begin(void)
{
	/* UPDATEs and PROBEs have been before: a narrower or a signed number would end soon. */
	static const uint32_t bits[] = { 0, 8, 16, 31, 32, 48 };
	uint32_t numbers[SHARDS] = { 0 };
	struct map map;

	memset(&shipped, 0, sizeof(shipped));
	memset(shards, 0, sizeof(shards));
	memset(slots, 0, sizeof(slots));
	memset(is_waiting, 0, sizeof(is_waiting));
	memset(attempt, 0, sizeof(attempt));
	rng_init(&rng, 1, walk);
	now_ns = rng_log(&rng, SECOND_NS, 1000 * SECOND_NS);
	if (!map_init(&map, config->shards, config->slots, 1))
		assert(0);
	if (config->is_latency)
		pace_latency_init(&shipped, config->slots, slots);
	else
		pace_init(pace, &map, config->slots, config->slots, shards, slots);
	for (uint32_t shard = 0; shard < config->shards; shard++) {
		/* Attempts are counted from anywhere: 0 says that there was none. */
		numbers[shard] = walk % 2 ? UINT32_MAX - rng_below(&rng, 30) : 0;
		pace->shards[shard].attempts = numbers[shard];
		pace->shards[shard].order = (1ull << bits[walk / 2 % 6]) - 1;
		if (pace->shards[shard].order) /* some before the end, and some behind it */
			pace->shards[shard].order -= rng_below(&rng, 200);
	}
	record("pace %u %u %u %u ; %u %u ; %u %u", config->shards, config->slots,
	       config->is_latency, map.base[MAP_BULK], map.pool[MAP_EXPRESS], map.pool[MAP_BULK],
	       numbers[0], numbers[1]);
	if (config->is_following) {
		pace_follow(pace);
		record("follow %llu", (unsigned long long)now_ns);
	}
}

/* ---- what happens ---- */

#define EVENT(word, format, ...) \
	record(word " %llu " format, (unsigned long long)now_ns, __VA_ARGS__)

static uint32_t draw_waiting(uint32_t shard, bool is_wanted)
{
	uint32_t at = rng_below(&rng, config->slots);

	for (uint32_t i = 0; i < config->slots; i++, at++)
		if (is_waiting[shard][at % config->slots] == is_wanted)
			return at % config->slots;
	return config->slots;
}

static void send(uint32_t shard)
{
	uint32_t slot = draw_waiting(shard, false);

	if (slot == config->slots)
		return;
	EVENT("sent", "%u %u", shard, slot);
	is_waiting[shard][slot] = true;
	attempt[shard][slot] = 0;
	if (config->is_latency)
		pace_latency_sent(&shipped, slot, now_ns);
	else
		pace_sent(pace, shard, slot, now_ns, false);
}

static void result(uint32_t shard)
{
	uint32_t slot = draw_waiting(shard, true);
	bool is_last = rng_chance(&rng, 400000);

	if (slot == config->slots)
		return;
	EVENT("result", "%u %u %u", shard, slot, is_last);
	is_waiting[shard][slot] = false;
	pace_heard(pace, shard, now_ns);
	if (config->is_latency)
		pace_latency_answered(&shipped, slot, now_ns, is_last);
	else
		pace_result(pace, shard, slot, now_ns, is_last);
}

/* HELD, or NEED and the copy that is asked for. */
static void ask(uint32_t shard, bool is_held)
{
	uint32_t slot = draw_waiting(shard, true), echo;

	if (slot == config->slots || (config->is_latency && !is_held))
		return;
	echo = attempt[shard][slot];
	if (rng_chance(&rng, 200000)) /* of an older PROBE, or none */
		echo = echo && rng_chance(&rng, 500000) ? echo - 1 : 0;
	EVENT("asked", "%u %u %u %u", shard, slot, echo, is_held);
	pace_heard(pace, shard, now_ns);
	if (config->is_latency) {
		pace_latency_held(&shipped, slot, now_ns);
	} else if (is_held) {
		pace_held(pace, shard, slot, now_ns, echo);
	} else {
		pace_need(pace, shard, slot, now_ns, echo);
		pace_sent(pace, shard, slot, now_ns, true);
	}
}

static void others(uint32_t shard)
{
	enum map_stream stream = (enum map_stream)rng_below(&rng, MAP_STREAMS);
	uint32_t window = 1 + rng_below(&rng, config->slots);
	bool is_slow = walk % 16 == 5; /* more than 2^32 ns */
	uint64_t rtt_ns = rng_log(&rng, 1, is_slow ? 20 * SECOND_NS : 50 * MS_NS) - 1;

	switch (rng_below(&rng, 3)) {
	case 0: /* WELCOME */
		EVENT("sample", "%u %llu", shard, (unsigned long long)rtt_ns);
		pace_heard(pace, shard, now_ns);
		pace_sample(pace, shard, rtt_ns);
		break;
	case 1:
		if (config->is_latency || (config->is_following && walk % 4))
			break;
		EVENT("window", "%u %u %u", shard, stream == MAP_BULK, window);
		pace_window(pace, shard, stream, window);
		break;
	default:
		EVENT("heard", "%u", shard);
		pace_heard(pace, shard, now_ns);
		break;
	}
}

static void poll(void)
{
	uint32_t max = rng_chance(&rng, 300000) ? 1 + rng_below(&rng, 4) : PROBES, count;
	struct pace_probe probes[PROBES];
	uint32_t latency[PROBES];

	if (config->is_latency) {
		count = pace_latency_poll(&shipped, now_ns, latency, max);
		for (uint32_t i = 0; i < count; i++)
			probes[i] = (struct pace_probe){ .slot = latency[i] };
	} else {
		count = pace_poll(pace, now_ns, probes, max);
	}
	EVENT("poll", "%u %llu ;", max, (unsigned long long)pace->ring_ns);
	for (uint32_t i = 0; i < count; i++) {
		record_also(" %u %u %u", probes[i].shard, probes[i].slot, probes[i].attempt);
		attempt[probes[i].shard][probes[i].slot] = probes[i].attempt;
	}
}

/* ---- what it says ---- */

static uint64_t next_ns(void)
{
	return config->is_latency ? pace_latency_next(&shipped, now_ns) : pace_next(pace, now_ns);
}

static void look(void)
{
	const struct pace_shard *all = pace->shards;

	EVENT("look", "; %llu %llu", (unsigned long long)next_ns(),
	      (unsigned long long)pace->stats.samples);
	for (uint32_t shard = 0; shard < config->shards; shard++) {
		record_also(" %llu %llu", (unsigned long long)pace_rto(pace, shard),
			    (unsigned long long)pace->shards[shard].srtt_ns);
		if (!config->is_latency)
			record_also(" %u %u", pace_has_room(pace, shard, MAP_EXPRESS),
				    pace_has_room(pace, shard, MAP_BULK));
		if (config->is_following) {
			/* R-WIN-1: who has nothing in flight may always send. */
			assert(all[shard].window[MAP_BULK] >= 1);
			record_also(" %u", all[shard].window[MAP_BULK]);
		}
	}
}

/* Often just when something is due, or just before; not for longer than a path may sleep, or round trips
 * would grow for ever. */
static uint64_t draw_span(void)
{
	uint64_t next = next_ns(), rto = pace_rto(pace, rng_below(&rng, config->shards));

	switch (rng_below(&rng, 8)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return next == PACE_NEVER ? rto : next - now_ns;
	case 3:
		return next == PACE_NEVER || next == now_ns ? 1 : next - 1 - now_ns;
	case 4:
		return rto;
	case 5:
		return rng_log(&rng, 1, 300 * MS_NS);
	default:
		return rng_log(&rng, 1, 100 * US_NS);
	}
}

static void step(void)
{
	/* Of 16: sent, result, HELD, NEED; the rest polls, and other things. */
	static const uint32_t share[MOODS][4] = {
		[MOOD_MIXED] = { 4, 3, 2, 1 },
		[MOOD_HELD] = { 5, 1, 5, 0 },
		[MOOD_SILENT] = { 11, 1, 0, 0 },
		[MOOD_PROMPT] = { 5, 5, 0, 1 },
	};
	const uint32_t *mine = share[walk % MOODS];
	uint64_t span_ns = draw_span();
	uint32_t shard = rng_below(&rng, config->shards), draw = rng_below(&rng, 16);

	now_ns += span_ns < SECOND_NS ? span_ns : SECOND_NS;
	if (draw < mine[0])
		send(shard);
	else if (draw < mine[0] + mine[1])
		result(shard);
	else if (draw < mine[0] + mine[1] + mine[2])
		ask(shard, true);
	else if (draw < mine[0] + mine[1] + mine[2] + mine[3])
		ask(shard, false);
	else if (draw == 15)
		others(shard);
	else if (draw == 14)
		EVENT("hello", "%u %u", shard, pace_hello_due(pace, shard, now_ns));
	else
		poll();
	look();
}

static void pace_record(const void *config_at)
{
	config = config_at;
	assert(config->shards <= SHARDS);
	assert(config->slots <= SLOTS);
	for (walk = 0; walk < config->walks && !record_is_over(); walk++) {
		record("walk %u", walk);
		begin();
		for (uint32_t i = 0; i < config->steps && !record_is_over(); i++)
			step();
	}
}

void pace_walk_model(struct bfs_model *model, const void *config_at)
{
	*model = (struct bfs_model){ .config = config_at, .record = pace_record };
}
