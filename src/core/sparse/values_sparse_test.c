/* SPDX-License-Identifier: Apache-2.0 */
/* values_sparse_test.c - the switch of sparse mode whose banks have words (R-LNS-5): claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/switch_sparse.h"
#include "util/rng.h"

enum { RANKS = 7, DIM = 2, WINDOW = 4, WORKERS = 2, GENERATION = 1, MAP = 1, INSTANCE = 5 };

static const struct sparse_table table = { .ranks = RANKS,
					   .workers = WORKERS,
					   .window = WINDOW,
					   .dim = DIM,
					   .bytes = 192,
					   .values = SPARSE_LNS };
static struct lns_tables lns;
static struct switch_sparse state;
static struct switch_sparse_place place[WORKERS * WINDOW];
static uint64_t tag[2 * RANKS];
static int64_t sum[2 * RANKS * DIM];
static uint32_t list[2 * RANKS];
static const struct switch_sparse_memory memory = { place, tag, sum, list, &lns };
static uint8_t at[SPARSE_BYTES_MAX];

static int begin(void **unused)
{
	(void)unused;
	memset(place, 0, sizeof(place));
	memset(tag, 0, sizeof(tag));
	memset(sum, 0xa5, sizeof(sum)); /* of an older epoch */
	state = (struct switch_sparse){
		.instance = INSTANCE, .generation = GENERATION, .epoch = 3, .map = MAP
	};
	return 0;
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static enum switch_sparse_verdict push(uint64_t seq, uint32_t rank, const uint32_t bits[DIM])
{
	struct sparse packet = { .kind = SPARSE_PUSH,
				 .generation = GENERATION,
				 .number = seq,
				 .map = MAP,
				 .count = 1,
				 .width = DIM };

	sparse_put(at, &packet);
	sparse_body_put32(at + SPARSE_HEADER_BYTES, rank);
	for (uint32_t i = 0; i < DIM; i++)
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 4 + 4 * i, bits[i]);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	return switch_sparse_step(&table, &state, &memory, &packet, at);
}

static void a_bank_of_words_has_the_sums_of_the_tables_once_each(void **unused)
{
	uint32_t word[RANKS][DIM] = { 0 }, flags = 0;
	struct sparse packet;
	struct rng rng;

	(void)unused;
	rng_init(&rng, 1, 0);
	for (uint64_t seq = 1; seq <= 500; seq++) {
		uint32_t rank = rng_below(&rng, RANKS), bits[DIM];

		for (uint32_t i = 0; i < DIM; i++) {
			bits[i] = bits_of(((float)rng_below(&rng, 2001) - 1000) / 64);
			word[rank][i] = lns_add(&lns, word[rank][i],
						lns_word(&lns, bits[i], &flags), &flags);
		}
		assert_int_equal(push(seq, rank, bits), SWITCH_SPARSE_ADDED);
		assert_int_equal(push(seq, rank, bits), SWITCH_SPARSE_REPEAT);
	}
	assert_int_equal(flags, 0);
	switch_sparse_flip(&state);
	assert_int_equal(switch_sparse_part(&table, &state, &memory, 1, at),
			 SPARSE_HEADER_BYTES + RANKS * sparse_pair_bytes(DIM));
	sparse_get(at, &packet);
	assert_int_equal(packet.kind, SPARSE_FLUSH_SHORT);
	assert_int_equal(packet.flags, 0);
	for (uint32_t k = 0; k < RANKS; k++) {
		const uint8_t *item = sparse_item(&packet, at, k);

		for (uint32_t i = 0; i < DIM; i++)
			assert_int_equal(sparse_body_get32(item + 4 + 4 * i),
					 word[sparse_body_get32(item)][i]);
	}
}

static void what_is_no_number_or_too_large_is_said_by_its_epoch(void **unused)
{
	const uint32_t nan[DIM] = { 0x7fc00000, 0 }, large[DIM] = { 0x7f7fffff, 0 };

	(void)unused;
	assert_int_equal(push(1, 0, nan), SWITCH_SPARSE_ADDED);
	assert_int_equal(state.flags[1], SPARSE_NONFINITE);
	switch_sparse_flip(&state);
	assert_int_equal(push(2, 0, large), SWITCH_SPARSE_ADDED);
	assert_int_equal(state.flags[0], 0);
	assert_int_equal(push(3, 0, large), SWITCH_SPARSE_ADDED);
	assert_int_equal(state.flags[0], SPARSE_SATURATED);
}

static void values_are_integers_or_words(void **unused)
{
	struct sparse_table other = table;

	(void)unused;
	assert_true(sparse_table_is_sound(&other));
	other.values = SPARSE_VALUES_END;
	assert_false(sparse_table_is_sound(&other));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_bank_of_words_has_the_sums_of_the_tables_once_each, begin),
		cmocka_unit_test_setup(what_is_no_number_or_too_large_is_said_by_its_epoch, begin),
		cmocka_unit_test(values_are_integers_or_words),
	};

	lns_tables_make(&lns);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
