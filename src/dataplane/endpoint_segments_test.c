/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_segments_test.c - endpoints of which a vector lies in several buffers, or has parts of several workers. */
#include "dataplane/endpoint_fixture.h"

#include <sys/mman.h>

/* ---- a vector in several buffers ---- */

enum { PIECES = 40, PIECE_MAX = 40, VECTOR = PIECES * PIECE_MAX };

/* A vector, and the same in pieces that lie apart and backwards in memory. */
struct pieces {
	uint32_t whole[VECTOR];
	uint32_t from[VECTOR + PIECES], to[VECTOR + PIECES];
	struct endpoint_segment segments[PIECES];
	uint32_t count;
};

static void pieces_cut(struct pieces *pieces, const uint32_t *counts, bool is_in_place)
{
	size_t at = VECTOR + PIECES;
	uint64_t first = 0;

	pieces->count = 0;
	memset(pieces->to, 0x5a, sizeof(pieces->to));
	for (uint32_t i = 0; i < PIECES; i++) {
		at -= counts[i] + 1;
		if (counts[i])
			pieces->segments[pieces->count++] =
				(struct endpoint_segment){ first, counts[i], pieces->from + at,
							   is_in_place ? pieces->from + at
								       : pieces->to + at };
		memcpy(pieces->from + at, pieces->whole + first, counts[i] * sizeof(uint32_t));
		first += counts[i];
	}
}

static void pieces_check(const struct pieces *pieces)
{
	for (uint32_t i = 0; i < pieces->count; i++) {
		const struct endpoint_segment *segment = &pieces->segments[i];

		assert_memory_equal(segment->destination, pieces->whole + segment->first,
				    segment->count * sizeof(uint32_t));
	}
}

/* Floats of all kinds, or integers of which some need a DETAIL round. */
static uint32_t any_element(struct rng *rng, enum lanes_type type)
{
	uint32_t bits = (uint32_t)rng_next(rng);

	if (type == LANES_FLOAT32 && (bits >> 23 & 0xff) == 0xff)
		return rng_below(rng, 64) ? 0x3f800000 : bits;
	return type == LANES_INT32 && rng_below(rng, 8) ? bits >> 5 : bits;
}

static void sums_in_pieces(enum lanes_type type, bool is_in_place, uint64_t seed)
{
	static struct pieces pieces[3];
	uint32_t counts[PIECES];
	struct net *net = net_open(3, 4, seed);
	uint64_t count = 0;

	for (uint32_t i = 0; i < PIECES; i++) {
		counts[i] = rng_below(&net->rng, 3) ? rng_below(&net->rng, PIECE_MAX) : i % 3;
		count += counts[i];
	}
	for (uint32_t w = 0; w < 3; w++) {
		struct endpoint_op op;

		for (uint64_t i = 0; i < count; i++)
			pieces[w].whole[i] = any_element(&net->rng, type);
		pieces_cut(&pieces[w], counts, is_in_place);
		op = op_of_type(type, 0, NULL, count);
		op.segments = pieces[w].segments;
		op.segments_count = pieces[w].count;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
		op = op_of_type(type, 1, pieces[w].whole, count);
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 2, 60));
	for (uint32_t w = 0; w < 3; w++)
		pieces_check(&pieces[w]);
	net_close(net);
}

static void endpoint__sums_pieces_as_if_they_were_one_vector(void **state)
{
	uint64_t seed = seed_of_run();

	(void)state;
	for (uint32_t i = 0; i < 24; i++)
		sums_in_pieces(i & 1 ? LANES_INT32 : LANES_FLOAT32, i & 2, seed + i);
}

/* Each piece for one worker alone, which keeps its own lanes of it (R-WK-15): the same bits as where all want all. */
static void sums_for_one(enum lanes_type type, enum lanes_op what, bool is_in_place, uint64_t seed)
{
	static uint32_t all[3][VECTOR], one[3][VECTOR], out[3][VECTOR];
	struct endpoint_segment segments[3][PIECES];
	struct net *net = net_open(3, 4, seed);
	uint32_t owner[PIECES];
	uint64_t count = 0;

	memset(out, 0, sizeof(out));
	for (uint32_t i = 0; i < PIECES; i++) {
		uint32_t part = 1 + rng_below(&net->rng, rng_below(&net->rng, 2) ? 3 : PIECE_MAX);

		owner[i] = rng_below(&net->rng, 3);
		for (uint32_t w = 0; w < 3; w++)
			segments[w][i] = (struct endpoint_segment){
				count, part, one[w] + count,
				w == owner[i] ? (is_in_place ? one[w] : out[w]) + count : NULL
			};
		count += part;
	}
	for (uint32_t w = 0; w < 3; w++) {
		struct endpoint_op op = op_of_type(type, 0, all[w], count);

		for (uint64_t i = 0; i < count; i++)
			one[w][i] = all[w][i] = any_element(&net->rng, type);
		op.op = what;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
		op = op_of_type(type, 1, NULL, count);
		op.op = what;
		op.segments = segments[w];
		op.segments_count = PIECES;
		op.is_for_one = true;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 2, 60));
	for (uint32_t i = 0; i < PIECES; i++) {
		const struct endpoint_segment *at = &segments[owner[i]][i];

		assert_memory_equal(at->destination, all[0] + at->first,
				    at->count * sizeof(all[0][0]));
	}
	net_close(net);
}

static void endpoint__sums_for_one_worker_what_it_keeps_and_what_comes(void **state)
{
	static const enum lanes_op ops[] = { LANES_SUM, LANES_AVG, LANES_MAX };
	uint64_t seed = seed_of_run();

	(void)state;
	for (uint32_t i = 0; i < 36; i++)
		sums_for_one(i & 1 ? LANES_INT32 : LANES_FLOAT32, ops[i % 3], i & 2, seed + i);
}

/* ---- parts ---- */

enum { PARTS_WORKERS = 3, PARTS_BYTES = 8 * 3000 };

/* What each worker has is drawn; what it wants as well, but for worker 0, who wants all. */
static void parts_gathered(enum lanes_type type, bool is_for_one, uint64_t seed)
{
	static uint8_t all[PARTS_BYTES], mine[PARTS_WORKERS][PARTS_BYTES],
		out[PARTS_WORKERS][PARTS_BYTES];
	struct endpoint_segment segments[PARTS_WORKERS][PARTS_WORKERS];
	struct net *net = net_open(PARTS_WORKERS, 4, seed);
	uint32_t bytes = lanes_bytes(type);
	uint64_t ends[PARTS_WORKERS], count = 0;

	for (uint32_t p = 0; p < PARTS_WORKERS; p++) {
		uint64_t part = 1 + rng_below(&net->rng, rng_below(&net->rng, 2) ? 5 : 1000);
		uint32_t owner = rng_below(&net->rng, PARTS_WORKERS);
		uint8_t mask = rng_below(&net->rng, 3) ? 0xff : 0; /* zeros at the end: R-WK-16 */

		for (uint64_t i = count * bytes; i < (count + part) * bytes; i++)
			all[i] = mine[p][i] = (uint8_t)rng_next(&net->rng) & mask;
		for (uint32_t w = 0; w < PARTS_WORKERS; w++)
			segments[w][p] = (struct endpoint_segment){
				count, part, w == p ? mine[p] + count * bytes : NULL,
				(is_for_one ? w == owner : !w || rng_below(&net->rng, 2))
					? out[w] + count * bytes
					: NULL
			};
		ends[p] = count += part;
	}
	memset(out, 0, sizeof(out));
	for (uint32_t w = 0; w < PARTS_WORKERS; w++) {
		struct endpoint_op op = op_of_type(type, 0, NULL, count);

		op.op = LANES_COPY;
		op.segments = segments[w];
		op.segments_count = PARTS_WORKERS;
		op.ends = ends;
		op.parts = PARTS_WORKERS;
		op.mine = w;
		op.is_for_one = is_for_one;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 1, 60));
	for (uint32_t w = 0; w < PARTS_WORKERS; w++)
		for (uint64_t i = 0, p = 0; i < count; p += ++i == ends[p])
			for (uint32_t b = 0; b < bytes; b++)
				assert_int_equal(out[w][i * bytes + b], segments[w][p].destination
										? all[i * bytes + b]
										: 0);
	net_close(net);
}

static void endpoint__gathers_parts_byte_for_byte(void **state)
{
	static const enum lanes_type types[] = { LANES_INT8, LANES_FLOAT16, LANES_FLOAT32,
						 LANES_INT64 };
	uint64_t seed = seed_of_run();

	(void)state;
	for (uint32_t i = 0; i < 24; i++)
		parts_gathered(types[i % 4], i % 3 == 0, seed + i);
}

/* A vector that needs more than 32 bits to count: what lies beyond is found where it should be. */
static void segments__reach_beyond_32_bits(void **state)
{
	const uint64_t far = (1ull << 33) + 5;
	uint32_t *vast = mmap(NULL, far * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint32_t *near = vast + far - 4, last[4] = { 5, 6, 7, 8 }, scratch[8];
	struct endpoint_segment segments[] = { { 0, far, vast, vast }, { far, 4, last, last } };
	struct endpoint_op op = {
		.segments = segments, .segments_count = 2, .count = far + 4, .type = LANES_INT32
	};

	(void)state;
	assert_ptr_not_equal(vast, MAP_FAILED);
	memcpy(near, ((uint32_t[]){ 1, 2, 3, 4 }), 16);
	assert_ptr_equal(segments_read(&op, SEGMENTS_SOURCE, far - 4, 4, scratch), near);
	assert_ptr_equal(segments_read(&op, SEGMENTS_SOURCE, far, 4, scratch), last);
	assert_ptr_equal(segments_read(&op, SEGMENTS_SOURCE, far + 1, 3, scratch), last + 1);
	assert_ptr_equal(segments_read(&op, SEGMENTS_SOURCE, far - 2, 5, scratch), scratch);
	assert_memory_equal(scratch, ((uint32_t[]){ 3, 4, 5, 6, 7 }), 20);
	assert_ptr_equal(segments_write(&op, far - 1, 2, scratch), scratch);
	segments_written(&op, far - 1, 2, (uint32_t[]){ 40, 50 });
	assert_int_equal(near[3], 40);
	assert_int_equal(last[0], 50);
	munmap(vast, far * sizeof(uint32_t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoint__sums_pieces_as_if_they_were_one_vector),
		cmocka_unit_test(endpoint__sums_for_one_worker_what_it_keeps_and_what_comes),
		cmocka_unit_test(endpoint__gathers_parts_byte_for_byte),
		cmocka_unit_test(segments__reach_beyond_32_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
