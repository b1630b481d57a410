/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - see walks.h. */
#include "search/walks.h"

#include <string.h>

#include "core/shared/hash.h"
#include "core/shared/map.h"
#include "core/shared/quant.h"
#include "core/shared/wire.h"
#include "search/numbers_lanes.h"
#include "search/record.h"
#include "search/texts.h"
#include "util/rng.h"

enum { ELEMENTS = 64 };

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

static void record_floats(void)
{
	uint32_t workers = draw_workers(), count = rng_below(&rng, ELEMENTS + 1), most, sticky;
	uint32_t about = rng_below(&rng, 4) ? rng_below(&rng, 255) : rng_below(&rng, 4), exponent;
	float src[ELEMENTS], dst[ELEMENTS];
	struct quant_scale scale;
	int32_t lane[ELEMENTS], sum[ELEMENTS];
	bool is_avg = rng_below(&rng, 2);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bits = draw_float(about);

		memcpy(&src[i], &bits, sizeof(bits));
	}
	most = quant_scalar.exponent_f32(src, count);
	exponent = rng_below(&rng, 3) ? most : about; /* another rank's may be larger; or smaller */
	quant_scale(&scale, workers, exponent);
	sticky = quant_scalar.pack_f32(lane, src, count, &scale);
	for (uint32_t i = 0; i < count; i++)
		sum[i] = rng_below(&rng, 2) ? lane[i] : draw_int(INT32_MAX);
	quant_scalar.unpack_f32(dst, sum, count, &scale, is_avg);
	record("floats %u %u %u %u %u", workers, exponent, is_avg, most, sticky);
	record_list(src, count);
	record_list(lane, count);
	record_list(sum, count);
	record_list(dst, count);
}

/* Some ranks have an element that is no number: what all get. */
static void record_float_details(void)
{
	uint32_t count = rng_below(&rng, ELEMENTS + 1), ranks = 1 + rng_below(&rng, 4);
	int32_t sum[ELEMENTS] = { 0 }, lane[ELEMENTS];
	float src[ELEMENTS], dst[ELEMENTS];

	record("float_details");
	for (uint32_t rank = 0; rank < ranks; rank++) {
		for (uint32_t i = 0; i < count; i++) {
			uint32_t bits = draw_float(127);

			memcpy(&src[i], &bits, sizeof(bits));
		}
		quant_detail_pack_f32(lane, src, count);
		for (uint32_t i = 0; i < count; i++)
			sum[i] += lane[i];
		record_list(src, count);
		record_list(lane, count);
	}
	for (uint32_t i = 0; i < count; i++)
		dst[i] = (float)i;
	quant_detail_amend_f32(dst, sum, count);
	record_list(dst, count);
}

static void record_ints(void)
{
	uint32_t count = rng_below(&rng, ELEMENTS + 1), workers = draw_workers(), sticky;
	int32_t src[ELEMENTS], lane[ELEMENTS], dst[ELEMENTS], bound = quant_bound(workers);
	bool is_avg = rng_below(&rng, 2);

	for (uint32_t i = 0; i < count; i++) {
		src[i] = draw_int(bound);
		if (rng_below(&rng, 2) && (src[i] > bound || src[i] < -bound))
			src[i] = 0; /* or nearly every chunk has one */
	}
	sticky = quant_scalar.pack_i32(lane, src, count, bound);
	quant_scalar.unpack_i32(dst, lane, count, workers, is_avg);
	record("ints %u %u %d %u", workers, is_avg, bound, sticky);
	record_list(src, count);
	record_list(lane, count);
	record_list(dst, count);
}

/* A few kinds of ranks, each of them many times. */
static void record_int_details(void)
{
	uint32_t count = rng_below(&rng, 8) + 1, workers = 0, wrapped[8] = { 0 }, high[8] = { 0 };
	int32_t lane[8], dst[8], src[8];
	bool is_avg = rng_below(&rng, 2);
	uint64_t beyond;

	record("int_details %u", is_avg);
	for (uint32_t kind = 0; kind < 3; kind++) {
		uint32_t times = draw_workers() / 4 + 1;

		workers += times;
		for (uint32_t i = 0; i < count; i++)
			src[i] = draw_int(INT32_MAX);
		quant_detail_pack_i32(lane, src, count);
		for (uint32_t i = 0; i < count; i++) {
			high[i] += (uint32_t)lane[i] * times;
			wrapped[i] += (uint32_t)src[i] * times;
		}
		record_list(&times, 1);
		record_list(src, count);
		record_list(lane, count);
	}
	memcpy(lane, high, sizeof(lane));
	memcpy(dst, wrapped, sizeof(dst));
	beyond = quant_detail_amend_i32(dst, lane, count, workers, is_avg);
	record_list(dst, count);
	record_also(" ; %llu", (unsigned long long)beyond);
}

/* ---- map.h ---- */

static void record_map(void)
{
	uint32_t shards = (uint32_t)rng_log(&rng, 1, 66) - rng_chance(&rng, 50000);
	uint32_t run = (uint32_t)rng_log(&rng, 1, 66) - rng_chance(&rng, 50000);
	uint32_t slots = rng_below(&rng, 4) ? run + rng_below(&rng, 40)
					    : (uint32_t)rng_log(&rng, 1, 33000);
	enum map_stream stream = (enum map_stream)rng_below(&rng, MAP_STREAMS);
	uint64_t chunk = rng_log(&rng, 1, (uint64_t)1 << 50) - 1;
	struct map_place place;
	struct map map;

	record("map %u %u %u", shards, run, slots);
	if (!map_init(&map, shards, slots, run))
		return;
	map_place(&map, stream, chunk, &place);
	record_also(" ; %u %llu %u %u %u %u %llu %u %llu", stream == MAP_BULK,
		    (unsigned long long)chunk, map.shards, map.pool[stream], map.run[stream],
		    place.shard, (unsigned long long)place.k, place.slot,
		    (unsigned long long)map_chunk(&map, stream, place.shard, place.k));
}

static void record_chunks(void)
{
	uint32_t lanes = 4 * (uint32_t)rng_log(&rng, 1, WIRE_LANES_MAX / 4);
	uint64_t most = rng_chance(&rng, 500000) ? 1000 : (uint64_t)1 << 48;
	uint64_t count = rng_log(&rng, 1, most) * lanes + rng_below(&rng, 3) - 1, chunks, index;

	if (rng_chance(&rng, 100000))
		count = rng_below(&rng, 3);
	chunks = map_chunks(count, lanes);
	index = chunks ? rng_between(&rng, 0, chunks - 1) : 0;
	record("chunks %llu %u %llu %u %llu %u", (unsigned long long)count, lanes,
	       (unsigned long long)chunks, map_chunk_elements(count, lanes, chunks - 1),
	       (unsigned long long)index, map_chunk_elements(count, lanes, index));
}

static void record_tag(void)
{
	static const char *const names[] = { "", "x", "gradients", "\xc3\xa9 \x7f" };
	struct map_descriptor descriptor = { .number = rng_next(&rng) >> rng_below(&rng, 64),
					     .kind = rng_u32(&rng) >> rng_below(&rng, 32),
					     .type = rng_u32(&rng) >> rng_below(&rng, 32),
					     .op = rng_u32(&rng) >> rng_below(&rng, 32),
					     .root = rng_u32(&rng) >> rng_below(&rng, 32),
					     .count = rng_next(&rng) >> rng_below(&rng, 64),
					     .name = names[rng_below(&rng, 4)] };
	uint64_t hash = map_descriptor_hash(&descriptor);
	uint64_t index = rng_next(&rng) >> rng_below(&rng, 64);

	record("tag %llu %u %u %u %llu %u %llu %llu %u ;", (unsigned long long)descriptor.number,
	       descriptor.kind, descriptor.type, descriptor.op,
	       (unsigned long long)descriptor.count, descriptor.root, (unsigned long long)hash,
	       (unsigned long long)index, map_tag(hash, index));
	for (const char *at = descriptor.name; *at; at++)
		record_also(" %u", (unsigned char)*at);
}

/* ---- wire.h ---- */

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

static void record_header(const uint8_t *at)
{
	record_also(" ;");
	for (uint32_t i = 0; i < WIRE_HEADER_BYTES; i++)
		record_also(" %u", at[i]);
}

static void record_packet(void)
{
	uint8_t at[WIRE_HEADER_BYTES], again[WIRE_HEADER_BYTES];
	struct wire got = { 0 };
	enum wire_fault fault;
	uint32_t bytes;

	draw_packet(at, &bytes);
	fault = wire_check(at, bytes, &got);
	record("packet %u %u", bytes, (unsigned)fault);
	record_header(at);
	if (fault)
		return;
	wire_put(again, &got);
	record_header(again);
	record_also(" ; %u %u %u %u %u %u %u %u %u %u", got.type, got.flags, got.job,
		    got.generation, got.seq, got.slot, got.child, got.exponent, got.lanes, got.tag);
}

static void record_lanes(void)
{
	lanes_record(&rng);
	lanes_record(&rng);
}

static void record_texts(void)
{
	texts_record(&rng);
}

/* ---- the draws ---- */

static void numbers_record(const void *config)
{
	static void (*const all[])(void) = {
		record_floats, record_float_details, record_ints, record_int_details,
		record_map,    record_chunks,        record_tag,  record_packet,
		record_lanes,  record_texts,
	};

	for (uint32_t seed = 1; seed <= *(const uint32_t *)config && !record_is_over(); seed++) {
		rng_init(&rng, 1, seed);
		record("walk %u", seed);
		for (uint32_t i = 0; i < sizeof(all) / sizeof(*all); i++)
			all[i]();
	}
}

void numbers_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .config = config, .record = numbers_record };
}
