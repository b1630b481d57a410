/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - see numbers.h. */
#include "search/numbers.h"

#include <string.h>

#include "core/dense/misfit.h"
#include "core/shared/hash.h"
#include "core/shared/quant.h"
#include "search/slow_numbers.h"
#include "search/texts.h"
#include "util/rng.h"

enum { ELEMENTS = 64, ROWS = 64 };

static struct rng rng;

/* ---- draws ---- */

static uint32_t draw_workers(void)
{
	static const uint32_t bounds[] = { 1,  2,  3,  4,   5,   7,   8,     9,     15,
					   16, 17, 33, 128, 255, 256, 32768, 32769, 65535 };

	if (rng_chance(&rng, 300000))
		return (uint32_t)rng_log(&rng, 1, 65535);
	return bounds[rng_below(&rng, sizeof(bounds) / sizeof(*bounds))];
}

/* Around 2^(exponent - 127), near the ends of the range, or what is no number. */
static uint32_t draw_float(uint32_t exponent)
{
	static const uint32_t special[] = { 0,          0x80000000, 1,          0x80000001,
					    0x7fffff,   0x807fffff, 0x800000,   0x7f7fffff,
					    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
					    0xffc00001, 0x7f800001 };
	uint32_t bits = rng_u32(&rng) & 0x807fffff, down = rng_below(&rng, 40);

	switch (rng_below(&rng, 8)) {
	case 0:
		return special[rng_below(&rng, sizeof(special) / sizeof(*special))];
	case 1:
		return rng_u32(&rng);
	case 2: /* all but the first bits are 0 or 1: halves, and what is just beside them */
		bits &= 0x80000000 | 0x7fffffu << rng_below(&rng, 23);
		bits |= rng_below(&rng, 2) ? 0x7fffffu >> rng_below(&rng, 24) : 0;
		break;
	case 3: /* the largest of its power: what a bound clamps */
		bits |= 0x7ffff0;
		down = 0;
		break;
	default:
		break;
	}
	return bits | (exponent > down ? exponent - down : 0) << 23;
}

static int32_t draw_int(int32_t bound)
{
	switch (rng_below(&rng, 8)) {
	case 0:
		return (int32_t)((uint32_t)bound + rng_below(&rng, 3) - 1);
	case 1:
		return (int32_t)(0u - (uint32_t)bound + rng_below(&rng, 3) - 1);
	case 2:
		return rng_below(&rng, 2) ? INT32_MAX : INT32_MIN;
	case 3:
		return (int32_t)rng_below(&rng, 5) - 2;
	default:
		return (int32_t)(rng_u32(&rng) >> rng_below(&rng, 31)) *
		       (rng_below(&rng, 2) ? 1 : -1);
	}
}

/* ---- quant.h ---- */

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static const char *floats_differ(void)
{
	uint32_t workers = draw_workers(), count = rng_below(&rng, ELEMENTS + 1), exponent = 0;
	uint32_t about = rng_below(&rng, 4) ? rng_below(&rng, 255) : rng_below(&rng, 4), most = 0;
	float src[ELEMENTS], dst[ELEMENTS];
	struct quant_scale scale;
	int32_t lane[ELEMENTS];
	bool is_nonfinite = false, is_avg = rng_below(&rng, 2);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bits = draw_float(about), own = slow_exponent(bits);

		src[i] = float_of(bits);
		most = own > most ? own : most;
		is_nonfinite |= (bits >> 23 & 255) == 255;
	}
	if (quant_scalar.exponent_f32(src, count) != most)
		return "R-NUM-1: the exponent of a chunk is another one";
	exponent = rng_below(&rng, 3) ? most : about; /* another rank's may be larger; or smaller */
	quant_scale(&scale, workers, exponent);
	if (quant_scalar.pack_f32(lane, src, count, &scale) != (is_nonfinite ? WIRE_NONFINITE : 0))
		return "R-NUM-4: NONFINITE is said of what is finite, or not of what is not";
	for (uint32_t i = 0; i < count; i++)
		if (lane[i] != slow_lane(bits_of(src[i]), workers, exponent))
			return "R-NUM-2: an element makes another lane";
	for (uint32_t i = 0; i < count && rng_below(&rng, 2); i++)
		lane[i] = draw_int(INT32_MAX);
	quant_scalar.unpack_f32(dst, lane, count, &scale, is_avg);
	for (uint32_t i = 0; i < count; i++)
		if (bits_of(dst[i]) != slow_result(lane[i], workers, exponent, is_avg))
			return "R-NUM-3: a sum makes another result";
	return NULL;
}

/* Some ranks have an element that is no number: what all get. */
static const char *float_details_differ(void)
{
	uint32_t count = rng_below(&rng, ELEMENTS + 1), ranks = 1 + rng_below(&rng, 4);
	uint32_t plus[ELEMENTS] = { 0 }, minus[ELEMENTS] = { 0 };
	int32_t sum[ELEMENTS] = { 0 }, lane[ELEMENTS];
	float src[ELEMENTS], dst[ELEMENTS];

	for (uint32_t rank = 0; rank < ranks; rank++) {
		for (uint32_t i = 0; i < count; i++) {
			uint32_t bits = draw_float(127);
			bool is_special = (bits >> 23 & 255) == 255, is_nan = bits & 0x7fffff;

			src[i] = float_of(bits);
			plus[i] += is_special && (is_nan || !(bits >> 31));
			minus[i] += is_special && (is_nan || bits >> 31);
		}
		quant_detail_pack_f32(lane, src, count);
		for (uint32_t i = 0; i < count; i++)
			sum[i] += lane[i];
	}
	for (uint32_t i = 0; i < count; i++)
		dst[i] = (float)i;
	quant_detail_amend_f32(dst, sum, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t want = plus[i] && minus[i] ? 0x7fc00000
				: plus[i]           ? 0x7f800000
				: minus[i]          ? 0xff800000
						    : bits_of((float)i);

		if (bits_of(dst[i]) != want)
			return "R-NUM-4: what is no number is lost, or is another one";
	}
	return NULL;
}

static int32_t saturated(int64_t sum)
{
	return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}

static const char *ints_differ(void)
{
	uint32_t count = rng_below(&rng, ELEMENTS + 1), workers = draw_workers(), beyond = 0;
	int32_t src[ELEMENTS], lane[ELEMENTS], dst[ELEMENTS];
	int64_t bound = INT64_C(2147483647) / workers;
	bool is_avg = rng_below(&rng, 2);

	if (quant_bound(workers) != bound)
		return "R-NUM-5: another bound of an element";
	for (uint32_t i = 0; i < count; i++) {
		src[i] = draw_int((int32_t)bound);
		if (rng_below(&rng, 2) && (src[i] > bound || src[i] < -bound))
			src[i] = 0; /* or nearly every chunk has one */
		beyond += src[i] > bound || src[i] < -bound;
	}
	if (quant_scalar.pack_i32(lane, src, count, quant_bound(workers)) !=
	    (beyond ? WIRE_RANGE : 0))
		return "R-NUM-5: RANGE is said of what is in range, or not of what is not";
	if (count && memcmp(lane, src, count * sizeof(*lane)) != 0)
		return "R-NUM-5: an element is sent as another one";
	quant_scalar.unpack_i32(dst, lane, count, workers, is_avg);
	for (uint32_t i = 0; i < count; i++)
		if (dst[i] != (is_avg ? lane[i] / (int64_t)workers : lane[i]))
			return "R-NUM-6: a sum makes another result";
	return NULL;
}

/* A few kinds of ranks, each of them many times. */
static const char *int_details_differ(void)
{
	uint32_t count = rng_below(&rng, 8) + 1, workers = 0, wrapped[8] = { 0 }, most = 0;
	int64_t exact[8] = { 0 }, highs[8] = { 0 };
	int32_t lane[8], dst[8], src[8];
	bool is_avg = rng_below(&rng, 2);
	uint64_t beyond = 0;

	for (uint32_t kind = 0; kind < 3; kind++) {
		uint32_t times = draw_workers() / 4 + 1;

		workers += times;
		for (uint32_t i = 0; i < count; i++)
			src[i] = draw_int(INT32_MAX);
		quant_detail_pack_i32(lane, src, count);
		for (uint32_t i = 0; i < count; i++) {
			exact[i] += (int64_t)src[i] * times;
			highs[i] += (int64_t)lane[i] * times;
			wrapped[i] += (uint32_t)src[i] * times;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		lane[i] = (int32_t)highs[i];
		dst[i] = (int32_t)wrapped[i];
		exact[i] = is_avg ? exact[i] / (int64_t)workers : exact[i];
		beyond += exact[i] != saturated(exact[i]);
	}
	most = (uint32_t)quant_detail_amend_i32(dst, lane, count, workers, is_avg);
	for (uint32_t i = 0; i < count; i++)
		if (dst[i] != saturated(exact[i]))
			return "R-NUM-6: a sum beyond 32 bits is another one";
	return most == beyond ? NULL : "R-NUM-6: another number of saturated sums";
}

/* ---- map.h ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static const char *place_differs(const struct map *map, uint32_t shards, uint32_t run,
				 uint32_t slots)
{
	enum map_stream stream = (enum map_stream)rng_below(&rng, MAP_STREAMS);
	uint64_t most = slots / 8 > 4 ? slots / 8 : 4, express = least(most, slots - run);
	uint64_t pool = stream == MAP_BULK ? (slots - express) / run * run : express;
	uint64_t c = rng_log(&rng, 1, (uint64_t)1 << 50) - 1, g, k;
	uint32_t mine = stream == MAP_BULK ? run : 1;
	struct map_place place;

	g = c / mine;
	k = g / shards * mine + c % mine;
	map_place(map, stream, c, &place);
	if (map->shards != shards || map->pool[stream] != pool || map->run[stream] != mine)
		return "R-MAP-2: a stream has another share of the slots";
	if (place.shard != g % shards || place.k != k ||
	    place.slot != (stream == MAP_BULK ? express : 0) + k % pool)
		return "R-MAP-3: a chunk has another place";
	if (map_chunk(map, stream, place.shard, place.k) != c)
		return "R-MAP-3: a place has another chunk";
	return NULL;
}

static const char *map_differs(void)
{
	uint32_t shards = (uint32_t)rng_log(&rng, 1, 66) - rng_chance(&rng, 50000);
	uint32_t run = (uint32_t)rng_log(&rng, 1, 66) - rng_chance(&rng, 50000);
	uint32_t slots = rng_below(&rng, 4) ? run + rng_below(&rng, 40)
					    : (uint32_t)rng_log(&rng, 1, 33000);
	bool is_fit = shards >= 1 && shards <= 64 && run >= 1 && run <= 64 && slots >= 4 + run &&
		      slots <= 32768;
	struct map map;

	if (map_init(&map, shards, slots, run) != is_fit)
		return "R-MAP-2: slots that fit are refused, or others are not";
	return is_fit ? place_differs(&map, shards, run, slots) : NULL;
}

static const char *chunks_differ(void)
{
	uint32_t lanes = 4 * (uint32_t)rng_log(&rng, 1, WIRE_LANES_MAX / 4);
	uint64_t most = rng_chance(&rng, 500000) ? 1000 : (uint64_t)1 << 48;
	uint64_t chunks = rng_log(&rng, 1, most), last, index;
	uint64_t count = chunks * lanes + rng_below(&rng, 3) - 1;

	if (rng_chance(&rng, 100000))
		count = rng_below(&rng, 3);
	chunks = count / lanes + (count % lanes != 0 || !count);
	last = count - (chunks - 1) * lanes;
	if (map_chunks(count, lanes) != chunks)
		return "R-MAP-5: an operation has another number of chunks";
	index = rng_between(&rng, 0, chunks - 1);
	if (map_chunk_elements(count, lanes, chunks - 1) != last ||
	    map_chunk_elements(count, lanes, index) != (index + 1 < chunks ? lanes : last))
		return "R-MAP-5: a chunk has another number of elements";
	return NULL;
}

static const char *tag_differs(void)
{
	static const char *const names[] = { "", "x", "gradients", "\xc3\xa9 \x7f" };
	struct map_descriptor descriptor = { .number = rng_next(&rng) >> rng_below(&rng, 64),
					     .kind = rng_u32(&rng) >> rng_below(&rng, 32),
					     .type = rng_u32(&rng) >> rng_below(&rng, 32),
					     .op = rng_u32(&rng) >> rng_below(&rng, 32),
					     .root = rng_u32(&rng) >> rng_below(&rng, 32),
					     .count = rng_next(&rng) >> rng_below(&rng, 64),
					     .name = names[rng_below(&rng, 4)] };
	uint64_t hash = slow_hash(&descriptor), index = rng_next(&rng) >> rng_below(&rng, 64);

	if (map_descriptor_hash(&descriptor) != hash)
		return "R-MAP-6: an operation has another hash";
	return map_tag(hash, index) == slow_tag(hash, index) ? NULL
							     : "R-MAP-6: a chunk has another tag";
}

/* ---- wire.h, misfit.h ---- */

static void draw_packet(uint8_t *at, uint32_t *bytes)
{
	static const uint16_t lanes[] = {
		0, 4, 8, 12, 1, 3, 7, 360, WIRE_LANES_MAX, WIRE_LANES_MAX + 4, 65532
	};
	uint32_t chosen = lanes[rng_below(&rng, sizeof(lanes) / sizeof(*lanes))];

	for (uint32_t i = 0; i < WIRE_HEADER_BYTES; i++)
		at[i] = (uint8_t)rng_u32(&rng);
	at[0] = (uint8_t)((rng_chance(&rng, 950000) ? WIRE_VERSION : rng_below(&rng, 16)) * 16 +
			  rng_below(&rng, rng_chance(&rng, 900000) ? 10 : 16));
	at[18] = (uint8_t)(chosen / 256);
	at[19] = (uint8_t)chosen;
	*bytes = 24 + 4 * chosen;
	if (rng_chance(&rng, 200000))
		*bytes = rng_below(&rng, 2) ? rng_below(&rng, 40) : *bytes + rng_below(&rng, 9) - 4;
}

static const char *packet_differs(void)
{
	uint8_t at[WIRE_HEADER_BYTES], again[WIRE_HEADER_BYTES];
	struct wire got = { 0 }, want = { 0 };
	enum wire_fault fault;
	uint32_t bytes;

	draw_packet(at, &bytes);
	fault = slow_wire(at, bytes, &want);
	if (wire_check(at, bytes, &got) != fault)
		return "R-WIRE-7: a packet is refused that is sound, or is not, or for another "
		       "reason";
	if (fault)
		return NULL;
	wire_put(again, &got);
	if (memcmp(&got, &want, sizeof(got)) != 0 || memcmp(at, again, sizeof(at)) != 0)
		return "R-WIRE-2: a header is read, or written, as another one";
	return NULL;
}

static const char *misfit_differs(void)
{
	static const uint8_t faults[WIRE_FAULT_COUNT] = {
		[WIRE_FAULT_VERSION] = MISFIT_VERSION, [WIRE_FAULT_TYPE] = MISFIT_TYPE,
		[WIRE_FAULT_LANES] = MISFIT_LANES,     [WIRE_FAULT_LENGTH] = MISFIT_LENGTH,
		[WIRE_FAULT_FLAGS] = MISFIT_FLAGS,
	};
	static const uint8_t verdicts[SWITCH_VERDICT_COUNT] = {
		[SWITCH_DROP_TYPE] = MISFIT_TYPE,        [SWITCH_DROP_SLOT] = MISFIT_SLOT,
		[SWITCH_DROP_LANES] = MISFIT_MORE_LANES, [SWITCH_MISMATCH] = MISFIT_DIFFERS,
		[SWITCH_DROP_ALARM] = MISFIT_AHEAD,
	};

	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		if (misfit_of_fault((enum wire_fault)i) != faults[i])
			return "R-CT-43: a packet of another kind of misfit";
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
		if (misfit_of_verdict((enum switch_verdict)i) != verdicts[i])
			return "R-CT-43: a verdict of another kind of misfit";
	return NULL;
}

static const char *text_differs(void)
{
	return texts_differ(&rng);
}

/* ---- the model ---- */

static const char *number_differs(uint32_t seed)
{
	static const char *(*const all[])(void) = {
		floats_differ,  float_details_differ, ints_differ, int_details_differ,
		map_differs,    chunks_differ,        tag_differs, packet_differs,
		misfit_differs, text_differs,
	};
	const char *wrong = NULL;

	rng_init(&rng, 1, seed);
	for (uint32_t i = 0; i < sizeof(all) / sizeof(*all) && !wrong; i++)
		wrong = all[i]();
	return wrong;
}

/* 0 is before the first; ROWS rows of them, so that a trace is short. */
static void numbers_expand(const void *config, const void *state, struct bfs *bfs)
{
	uint32_t at = *(const uint32_t *)state, all = *(const uint32_t *)config;

	for (uint32_t i = 1; i <= (at ? 1 : ROWS); i++) {
		uint32_t next = at ? at + ROWS : i;

		if (next > all)
			return;
		bfs_say(bfs, "arguments of seed %u", next);
		bfs_emit(bfs, &next, i, number_differs(next));
	}
}

static void numbers_begin(const void *config, void *state)
{
	(void)config;
	memset(state, 0, sizeof(uint32_t));
}

static const char *numbers_check(const void *config, const void *state)
{
	(void)config;
	(void)state;
	return NULL; /* what differs, a step says */
}

void numbers_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .state_bytes = sizeof(uint32_t),
				     .config = config,
				     .init = numbers_begin,
				     .expand = numbers_expand,
				     .check = numbers_check };
}
