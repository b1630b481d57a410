/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's copy of hot values: claims about single packets, and walks with epochs that are lost, late and doubled,
 * fences, and servers that go back. Argument: the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/copy_sparse.h"
#include "core/server_sparse.h"
#include "tests/random.h"

enum {
	RANKS = 7,
	DIM = 2,
	PARTS = 3, /* of 3 ranks */
	GENERATIONS = 10,
	EPOCHS = 90,
	FLYING = 24,
	BYTES = 80,
};

static const struct sparse_table table = { .ranks = RANKS,
					   .index = 4,
					   .workers = 1,
					   .window = 1,
					   .dim = DIM,
					   .bytes = BYTES };
static struct copy_sparse copy;
static struct copy_sparse_tag tag[RANKS];
static uint32_t value[RANKS * DIM];
static uint8_t has_part[COPY_SPARSE_AHEAD * PARTS];
static const struct copy_sparse_memory memory = { tag, value, has_part };

/* What a server applied, as each generation knows it. */
static struct history {
	uint64_t count;
	struct {
		uint64_t generation;
		uint32_t touched; /* bit rank */
	} epoch[EPOCHS];
} history[GENERATIONS];

static uint32_t value_of(uint64_t generation, uint64_t epoch, uint32_t rank, uint32_t k)
{
	return (uint32_t)(generation * 2654435761u + epoch * 40503u + rank * 97u + k);
}

static int begin(void **state)
{
	restart_random(state);
	assert_int_equal(copy_sparse_parts(&table), PARTS);
	copy_sparse_init(&copy, &table, 1, 1, &memory);
	return 0;
}

/* Part `part` of an epoch that touches some ranks, as R-SP-31 has it, by hand. */
static bool give(uint64_t generation, uint64_t epoch, uint32_t part, uint32_t touched)
{
	uint8_t at[BYTES], *item = at + SPARSE_HEADER_BYTES;
	struct sparse packet = { .kind = SPARSE_BCAST,
				 .table = table.index,
				 .generation = generation,
				 .number = epoch,
				 .part = part,
				 .parts = PARTS,
				 .width = DIM };

	for (uint32_t rank = 3 * part; rank < RANKS && rank < 3 * part + 3; rank++) {
		if (!(touched >> rank & 1))
			continue;
		sparse_body_put32(item, rank);
		for (uint32_t k = 0; k < DIM; k++)
			sparse_body_put32(item + 4 + 4 * k, value_of(generation, epoch, rank, k));
		item += sparse_pair_bytes(DIM);
		packet.count++;
	}
	sparse_put(at, &packet);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	return copy_sparse_take(&copy, &packet, at);
}

static void give_all(uint64_t generation, uint64_t epoch, uint32_t touched)
{
	for (uint32_t part = 0; part < PARTS; part++)
		assert_true(give(generation, epoch, part, touched));
}

static bool has_value(uint32_t rank, uint64_t generation, uint64_t epoch)
{
	for (uint32_t k = 0; k < DIM; k++)
		if (value[rank * DIM + k] != value_of(generation, epoch, rank, k))
			return false;
	return true;
}

static void it_is_fresh_when_all_parts_of_all_epochs_have_come(void **state)
{
	(void)state;
	give(1, 1, 0, 1);
	give(1, 1, 2, 0);
	give(1, 1, 2, 0);
	assert_int_equal(copy.fresh, 0);
	give_all(1, 2, 1);
	assert_int_equal(copy.fresh, 0); /* of epoch 1 a part is missing */
	assert_true(has_value(0, 1, 2));
	assert_false(copy_sparse_is_within(&copy, 1));
	assert_true(copy_sparse_is_within(&copy, 2));
	give(1, 1, 1, 0);
	assert_int_equal(copy.fresh, 2);
	assert_true(copy_sparse_is_within(&copy, 0));
}

static void what_comes_late_changes_no_value(void **state)
{
	(void)state;
	give(1, 5, 0, 3);
	give(1, 4, 0, 7);
	assert_true(has_value(0, 1, 5) && has_value(1, 1, 5) && has_value(2, 1, 4));
	give(2, 6, 0, 1); /* not its generation yet, */
	assert_true(has_value(0, 1, 5));
	copy_sparse_resume(&copy, 2, 3);
	give(2, 3, 0, 1); /* and that counts first */
	assert_true(has_value(0, 2, 3));
	give(1, 6, 0, 1);
	assert_true(has_value(0, 2, 3));
	assert_int_equal(copy.fresh, 0);
}

static void a_commit_without_its_bcast_makes_it_stale(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	assert_true(copy_sparse_is_within(&copy, 0));
	copy_sparse_committed(&copy, 2, 9); /* not its generation */
	assert_true(copy_sparse_is_within(&copy, 0));
	copy_sparse_committed(&copy, 1, 3);
	assert_false(copy_sparse_is_within(&copy, 1));
	assert_false(copy_sparse_has_gap(&copy)); /* they may be late */
	copy_sparse_committed(&copy, 1, 2 + COPY_SPARSE_AHEAD);
	assert_true(copy_sparse_has_gap(&copy));
}

static void a_pull_closes_a_gap_and_what_came_behind_it_counts(void **state)
{
	uint32_t pulled[DIM];

	(void)state;
	give_all(1, 3, 2);
	assert_int_equal(copy.fresh, 0);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		for (uint32_t k = 0; k < DIM; k++)
			pulled[k] = value_of(1, 2, rank, k);
		copy_sparse_pulled(&copy, rank, 1, 2, pulled);
	}
	copy_sparse_pulled_all(&copy, 1, 2);
	assert_int_equal(copy.fresh, 3);
	assert_true(has_value(0, 1, 2) && has_value(1, 1, 3)); /* the pull is older there */
	copy_sparse_pulled_all(&copy, 1, 1);
	assert_int_equal(copy.fresh, 3);
}

static void a_fence_keeps_what_the_server_has_kept(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give_all(1, 2, 1);
	copy_sparse_resume(&copy, 2, 3);
	assert_int_equal(copy.fresh, 2);
	give_all(2, 3, 1);
	assert_int_equal(copy.fresh, 3);
	copy_sparse_resume(&copy, 3, 6); /* 4 and 5 never came */
	give_all(2, 4, 1);
	give_all(2, 5, 1);
	assert_int_equal(copy.fresh, 3);
	assert_true(copy_sparse_has_gap(&copy));
}

static void a_server_that_went_back_takes_freshness_with_it(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give_all(1, 2, 1);
	copy_sparse_resume(&copy, 2, 2);
	assert_int_equal(copy.fresh, 0);
	assert_true(copy_sparse_has_gap(&copy) || !copy_sparse_is_within(&copy, 0));
	give_all(2, 2, 0);
	assert_int_equal(copy.fresh, 0); /* rank 0 has a value that nobody has given */
}

/* Epoch 2 has not come whole, but one value of it has. */
static void one_value_of_a_lost_epoch_is_enough(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give(1, 2, 0, 2);
	assert_int_equal(copy.fresh, 1);
	copy_sparse_resume(&copy, 2, 2);
	assert_int_equal(copy.fresh, 0);
}

/* Generation 2 may have begun below 3, and gone on. */
static void a_generation_that_it_never_heard_of_takes_freshness_with_it(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give_all(1, 2, 1);
	copy_sparse_resume(&copy, 3, 7);
	assert_int_equal(copy.fresh, 0);
	assert_true(copy_sparse_has_gap(&copy));
	copy_sparse_pulled_all(&copy, 3, 6);
	assert_int_equal(copy.fresh, 6);
	assert_true(copy_sparse_is_within(&copy, 0));
}

static void what_is_not_of_the_table_is_refused(void **state)
{
	uint8_t at[BYTES];
	struct sparse sound = { .kind = SPARSE_BCAST,
				.table = table.index,
				.generation = 1,
				.number = 1,
				.part = 1,
				.parts = PARTS,
				.count = 2,
				.width = DIM };
	struct sparse packet = sound;

	(void)state;
	memset(at, 0, sizeof(at));
	sparse_body_put32(at + SPARSE_HEADER_BYTES, 3);
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, 4);
	packet.table++;
	assert_false(copy_sparse_take(&copy, &packet, at));
	packet = sound;
	packet.parts++;
	assert_false(copy_sparse_take(&copy, &packet, at));
	packet = sound;
	packet.part = 0; /* ranks of part 1 */
	assert_false(copy_sparse_take(&copy, &packet, at));
	packet = sound;
	packet.number = 0;
	assert_false(copy_sparse_take(&copy, &packet, at));
	packet = sound;
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, 3); /* twice */
	assert_false(copy_sparse_take(&copy, &packet, at));
	assert_int_equal(tag[3].epoch, 0);
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, 5);
	assert_true(copy_sparse_take(&copy, &packet, at));
	assert_int_equal(tag[5].epoch, 1);
}

/* The server's BCAST is what `give` makes by hand. */
static void a_server_tells_the_ranks_that_an_epoch_touched(void **state)
{
	uint64_t cut[1], staged[1], touched[RANKS] = { 0 };
	int64_t sum[RANKS * DIM];
	uint8_t has[16], at[BYTES];
	struct server_sparse_worker worker[1];
	struct server_sparse_memory lent = { cut, staged, sum, touched, has, worker };
	uint32_t parameters[RANKS * DIM];
	struct server_sparse server;
	struct sparse packet = { 0 };

	(void)state;
	assert_true(sparse_flush_parts_max(&table) <= sizeof(has));
	server_sparse_init(&server, &table, 1, &lent);
	server.generation = 1;
	server.expected = 6; /* epoch 5 was applied, */
	touched[1] = touched[3] = touched[5] = 5;
	touched[2] = 4;
	for (uint32_t i = 0; i < RANKS * DIM; i++)
		parameters[i] = value_of(1, 5, i / DIM, i % DIM);
	for (uint32_t part = 0; part < PARTS; part++) {
		uint32_t bytes = server_sparse_bcast(&server, part, parameters, at);

		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_int_equal(packet.count, part == 0 ? 1 : part == 1 ? 2 : 0);
		assert_true(copy_sparse_take(&copy, &packet, at));
	}
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_int_equal(tag[rank].epoch, rank % 2 && rank < 6 ? 5 : 0);
	assert_true(has_value(1, 1, 5) && has_value(3, 1, 5) && has_value(5, 1, 5));
}

/* ---- walks ---- */

static struct {
	uint64_t generation, epoch;
	uint32_t part;
} flying[FLYING];
static uint32_t flying_count;

static void fly(uint64_t generation, uint64_t epoch, uint32_t part)
{
	uint32_t at = flying_count < FLYING ? flying_count++ : random_below(FLYING);

	flying[at].generation = generation;
	flying[at].epoch = epoch;
	flying[at].part = part;
}

/* The last epoch up to `epoch` that touches the rank; 0: none. */
static uint64_t touched_last(const struct history *of, uint64_t epoch, uint32_t rank)
{
	while (epoch && !(of->epoch[epoch].touched >> rank & 1))
		epoch--;
	return epoch;
}

static void pull(uint64_t g)
{
	const struct history *of = &history[g];
	uint32_t pulled[DIM];

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		uint64_t last = touched_last(of, of->count, rank);

		for (uint32_t k = 0; k < DIM; k++)
			pulled[k] = last ? value_of(of->epoch[last].generation, last, rank, k) : 0;
		copy_sparse_pulled(&copy, rank, g, of->count, pulled);
	}
	copy_sparse_pulled_all(&copy, g, of->count);
}

/* Every value of a fresh copy is one that the server had, and as new as it says. */
static void copy_is_true(void)
{
	const struct history *of = &history[copy.generation];

	assert_true(copy.fresh <= of->count);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		uint64_t least = touched_last(of, copy.fresh, rank), last;

		if (!least)
			continue;
		assert_true(tag[rank].generation <= copy.generation);
		assert_true(tag[rank].epoch >= least);
		assert_true(tag[rank].epoch <= of->count);
		last = touched_last(of, tag[rank].epoch, rank);
		assert_true(has_value(rank, of->epoch[last].generation, last));
	}
}

static uint64_t server_turn(uint64_t g)
{
	struct history *of = &history[g];

	if (!random_below(40) && g + 1 < GENERATIONS) {
		history[g + 1] = *of;
		if (!random_below(3))
			history[g + 1].count -= random_below((uint32_t)of->count + 1);
		return g + 1;
	}
	if (of->count + 1 == EPOCHS)
		return g;
	of->count++;
	of->epoch[of->count].generation = g;
	of->epoch[of->count].touched = random_below(1u << RANKS);
	for (uint32_t part = 0; part < PARTS; part++)
		if (random_below(12))
			fly(g, of->count, part);
	return g;
}

static void a_fresh_copy_is_as_new_as_it_says(void **state)
{
	uint64_t fresh = 0, gaps = 0, back = 0;

	for (uint32_t walk = 0; walk < 300; walk++) {
		uint64_t g = 1, fences[GENERATIONS] = { 0 };

		begin(state);
		rng_init(&rng, seed, walk + 1);
		memset(history, 0, sizeof(history));
		flying_count = 0;
		for (uint32_t turn = 0; turn < 600; turn++) {
			uint32_t what = random_below(10), i;
			uint64_t before = g;

			if (what < 2) {
				g = server_turn(g);
				if (g > before)
					fences[g] = history[g].count + 1;
			} else if (what < 9 && flying_count) {
				i = random_below(flying_count);
				give(flying[i].generation, flying[i].epoch, flying[i].part,
				     history[flying[i].generation].epoch[flying[i].epoch].touched);
				if (random_below(4))
					flying[i] = flying[--flying_count];
			} else if (copy.generation < g) {
				uint64_t to = random_below(2) ? g : copy.generation + 1;

				back += copy.fresh >= fences[to];
				copy_sparse_resume(&copy, to, fences[to]);
			} else if (copy_sparse_has_gap(&copy)) {
				gaps++;
				pull(g);
			}
			copy_is_true();
		}
		fresh += copy.fresh;
	}
	print_message("fresh as of %u epochs, %u pulls, %u times a server went back\n",
		      (unsigned)fresh, (unsigned)gaps, (unsigned)back);
	assert_true(fresh > 3000 && gaps > 300 && back > 30);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_fresh_when_all_parts_of_all_epochs_have_come, begin),
		cmocka_unit_test_setup(what_comes_late_changes_no_value, begin),
		cmocka_unit_test_setup(a_commit_without_its_bcast_makes_it_stale, begin),
		cmocka_unit_test_setup(a_pull_closes_a_gap_and_what_came_behind_it_counts, begin),
		cmocka_unit_test_setup(a_fence_keeps_what_the_server_has_kept, begin),
		cmocka_unit_test_setup(a_server_that_went_back_takes_freshness_with_it, begin),
		cmocka_unit_test_setup(one_value_of_a_lost_epoch_is_enough, begin),
		cmocka_unit_test_setup(a_generation_that_it_never_heard_of_takes_freshness_with_it,
				       begin),
		cmocka_unit_test_setup(what_is_not_of_the_table_is_refused, begin),
		cmocka_unit_test_setup(a_server_tells_the_ranks_that_an_epoch_touched, begin),
		cmocka_unit_test(a_fresh_copy_is_as_new_as_it_says),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
