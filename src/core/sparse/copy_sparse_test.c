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

#include "core/sparse/copy_sparse.h"
#include "core/sparse/server_sparse.h"
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

/* With so many fences. */
static uint64_t generation_of(uint64_t fences)
{
	return fences ? fences << SPARSE_RANDOM_BITS | (0xfeed0000 + 77 * fences) : 0;
}

static uint32_t value_of(uint64_t generation, uint64_t epoch, uint32_t rank, uint32_t k)
{
	return (uint32_t)(generation * 2654435761u + epoch * 40503u + rank * 97u + k);
}

static int begin(void **state)
{
	restart_random(state);
	assert_int_equal(copy_sparse_parts_max(&table), PARTS);
	copy_sparse_init(&copy, &table, generation_of(1), 1, &memory);
	return 0;
}

/* Bit i of `touched` is rank i: as many parts has its BCAST. */
static uint32_t parts_of(uint32_t touched)
{
	return copy_sparse_parts(&table, (uint32_t)__builtin_popcount(touched));
}

/* Part `part` of an epoch that touches some ranks, as R-SP-31 has it, by hand. */
static bool give(uint64_t generation, uint64_t epoch, uint32_t part, uint32_t touched)
{
	uint8_t at[BYTES], *item = at + SPARSE_HEADER_BYTES;
	struct sparse packet = { .kind = SPARSE_BCAST,
				 .table = table.index,
				 .generation = generation_of(generation),
				 .number = epoch,
				 .part = part,
				 .parts = parts_of(touched),
				 .width = DIM };

	for (uint32_t rank = 0, i = 0; rank < RANKS; rank++) {
		if (!(touched >> rank & 1) || i++ / 3 != part)
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
	for (uint32_t part = 0; part < parts_of(touched); part++)
		assert_true(give(generation, epoch, part, touched));
}

static void pulled(uint32_t rank, uint64_t generation, uint64_t epoch)
{
	uint32_t got[DIM];

	for (uint32_t k = 0; k < DIM; k++)
		got[k] = value_of(generation, epoch, rank, k);
	copy_sparse_pulled(&copy, rank, generation_of(generation), epoch, got);
}

static bool is_usable(uint32_t rank, uint64_t bound)
{
	return copy_sparse_value(&copy, rank, bound) != NULL;
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
	give(1, 1, 0, 0x7f);
	give(1, 1, 2, 0x7f);
	give(1, 1, 2, 0x7f);
	assert_int_equal(copy.fresh, 0);
	give_all(1, 2, 1);
	assert_int_equal(copy.fresh, 0); /* of epoch 1 a part is missing */
	assert_true(has_value(0, 1, 2));
	assert_false(is_usable(0, 1));
	assert_true(is_usable(0, 2));
	assert_ptr_equal(copy_sparse_value(&copy, 0, 2), value);
	give(1, 1, 1, 0x7f);
	assert_int_equal(copy.fresh, 2);
	assert_true(is_usable(0, 0) && is_usable(6, 0));
	give_all(1, 3, 0); /* touches nothing, and has a part */
	assert_int_equal(copy.fresh, 3);
	assert_true(is_usable(0, 0));
}

static void what_never_came_is_not_used_and_what_was_pulled_is(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	assert_true(is_usable(0, 0) && !is_usable(1, 9));
	pulled(1, 1, 1);
	assert_true(is_usable(1, 0));
	give_all(1, 2, 4);
	assert_true(is_usable(1, 0) && has_value(1, 1, 1));
	pulled(3, 1, 3); /* knows of an epoch that has not come */
	assert_false(is_usable(1, 0) || is_usable(3, 0));
	give_all(1, 3, 2);
	assert_true(is_usable(1, 0) && has_value(1, 1, 3) && has_value(3, 1, 3));
	pulled(1, 1, 2); /* late */
	assert_true(has_value(1, 1, 3));
}

static void what_comes_late_changes_no_value(void **state)
{
	(void)state;
	give(1, 4, 0, 3);
	give(1, 3, 0, 7);
	assert_true(has_value(0, 1, 4) && has_value(1, 1, 4) && has_value(2, 1, 3));
	give(2, 6, 0, 1); /* not its generation yet, */
	assert_true(has_value(0, 1, 4));
	copy_sparse_resume(&copy, generation_of(2), 3);
	give(2, 3, 0, 1); /* and that counts first */
	assert_true(has_value(0, 2, 3));
	give(1, 6, 0, 1);
	assert_true(has_value(0, 2, 3));
}

static void a_commit_without_its_bcast_makes_it_stale(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	assert_true(is_usable(0, 0));
	copy_sparse_told(&copy, generation_of(1), 3);
	assert_false(is_usable(0, 1));
	assert_true(is_usable(0, 2));
	give_all(1, 3, 2);
	assert_false(is_usable(1, 0)); /* 2 may be late */
	give_all(1, 2, 2);
	assert_true(is_usable(0, 0) && is_usable(1, 0));
}

/* Nothing is asked for again: what was as of an older epoch has to be pulled. */
static void a_bcast_that_is_lost_moves_the_base(void **state)
{
	(void)state;
	give_all(1, 1, 3);
	give_all(1, 3, 2);
	give_all(1, 4, 0);
	copy_sparse_told(&copy, generation_of(1), 1 + COPY_SPARSE_AHEAD);
	assert_int_equal(copy.base, 0);
	give_all(1, 2 + COPY_SPARSE_AHEAD, 0);
	assert_int_equal(copy.base, 2);
	assert_int_equal(copy.fresh, 4);
	assert_false(is_usable(0, COPY_SPARSE_AHEAD)); /* epoch 2 may have touched it */
	assert_true(is_usable(1, COPY_SPARSE_AHEAD));
	give_all(1, 1 + COPY_SPARSE_AHEAD, 0);
	assert_true(is_usable(1, 0));
	pulled(0, 1, 6);
	assert_true(is_usable(0, 0));
}

static void who_waits_no_more_has_what_is_as_of_the_newest(void **state)
{
	(void)state;
	give_all(1, 1, 3);
	copy_sparse_give_up(&copy); /* nothing is missing */
	assert_true(is_usable(0, 0));
	copy_sparse_told(&copy, generation_of(1), 2);
	pulled(1, 1, 2);
	assert_false(is_usable(0, 0) || is_usable(1, 0));
	copy_sparse_give_up(&copy);
	assert_true(!is_usable(0, 9) && is_usable(1, 0));
	give_all(1, 2, 1); /* after all */
	assert_true(is_usable(0, 0) && has_value(0, 1, 2));
}

static void a_fence_keeps_what_the_server_has_kept(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give_all(1, 2, 2);
	copy_sparse_resume(&copy, generation_of(2), 3);
	assert_true(is_usable(0, 0) && is_usable(1, 0));
	give_all(2, 3, 1);
	assert_true(is_usable(0, 0) && has_value(0, 2, 3));
	copy_sparse_resume(&copy, generation_of(3), 6); /* 4 and 5 never came, */
	assert_false(is_usable(0, 9) || is_usable(1, 9));
	assert_false(give(2, 4, 0, 1)); /* and do not any more */
	assert_false(give(2, 5, 0, 1));
	assert_false(is_usable(0, 9));
	give_all(3, 6, 1);
	assert_true(is_usable(0, 0));
}

static void a_higher_generation_that_was_heard_of_is_waited_for(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	assert_false(give(2, 9, 0, 1)); /* anybody could say it: only TCP tells of one */
	assert_true(is_usable(0, 0));
	copy_sparse_told(&copy, generation_of(2), 1);
	assert_false(is_usable(0, 9));
	copy_sparse_resume(&copy, generation_of(2), 2);
	assert_true(is_usable(0, 0));
	pulled(1, 3, 1); /* over TCP, before RESUME: not kept */
	assert_false(is_usable(0, 9) || is_usable(1, 9));
	copy_sparse_resume(&copy, generation_of(3), 2);
	assert_true(is_usable(0, 0) && !is_usable(1, 9));
}

/* R-KV-9. */
static void what_a_batch_may_have_changed_is_not_used(void **state)
{
	(void)state;
	give_all(1, 1, 3);
	pulled(2, 1, 1);
	copy_sparse_past(&copy, 1);
	assert_false(is_usable(0, 9) || is_usable(1, 9) || is_usable(2, 9));
	give_all(1, 2, 1);
	assert_true(is_usable(0, 0) && !is_usable(1, 9));
	pulled(1, 1, 2);
	assert_true(is_usable(1, 0));
	copy_sparse_past(&copy, 1); /* an older word */
	assert_true(is_usable(0, 0));
}

static void a_server_that_went_back_takes_all_values_with_it(void **state)
{
	(void)state;
	give_all(1, 1, 3);
	give_all(1, 2, 1);
	copy_sparse_resume(&copy, generation_of(2), 2);
	assert_false(is_usable(0, 9) || is_usable(1, 9));
	give_all(2, 2, 2);
	assert_true(is_usable(1, 0) &&
		    !is_usable(0, 9)); /* rank 0 has a value that nobody has given */
}

/* Epoch 2 has not come whole, but one value of it has. */
static void one_value_of_a_lost_epoch_is_enough(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give(1, 2, 0, 0x7e);
	assert_int_equal(copy.fresh, 1);
	copy_sparse_resume(&copy, generation_of(2), 2);
	assert_false(is_usable(0, 9) || is_usable(1, 9));
}

/* Generation 2 may have begun below 3, and gone on. */
static void a_generation_that_it_never_heard_of_takes_all_values_with_it(void **state)
{
	(void)state;
	give_all(1, 1, 1);
	give_all(1, 2, 1);
	copy_sparse_resume(&copy, generation_of(3), 3);
	assert_false(is_usable(0, 9));
	pulled(0, 3, 2);
	assert_true(is_usable(0, 0));
}

/* What an epoch's place had before is nothing to it. */
static void epochs_may_have_more_and_fewer_parts(void **state)
{
	(void)state;
	for (uint64_t epoch = 1; epoch <= 4ul * COPY_SPARSE_AHEAD; epoch++)
		give_all(1, epoch, epoch / COPY_SPARSE_AHEAD % 2 ? 0x7f : 1);
	assert_int_equal(copy.fresh, 4ul * COPY_SPARSE_AHEAD);
}

static void what_is_not_of_the_table_is_refused(void **state)
{
	uint8_t at[BYTES] = { 0 }, wide[2 * BYTES] = { 0 };
	struct sparse sound = { .kind = SPARSE_BCAST,
				.table = table.index,
				.generation = generation_of(1),
				.number = 1,
				.part = 1,
				.parts = 2,
				.count = 2,
				.width = DIM };
	struct sparse wrong[8], packet = sound;

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		wrong[i] = sound;
	wrong[0].table++;
	wrong[1].parts = PARTS + 1;
	wrong[2].part = 0; /* it would be full */
	wrong[3].count = 0;
	wrong[4].number = 0;
	wrong[5].generation = 0;
	wrong[6].width--;
	wrong[7].count = 4;
	sparse_body_put32(at + SPARSE_HEADER_BYTES, 3);
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, 5);
	for (uint32_t i = 0; i < 8; i++)
		assert_false(copy_sparse_take(&copy, &wrong[i], at));
	/* A datagram may be larger than the table's are, with more ranks than a part has. */
	wrong[7].part = 0;
	for (uint32_t i = 0; i < 4; i++)
		sparse_body_put32(wide + SPARSE_HEADER_BYTES + (size_t)12 * i, i);
	assert_false(copy_sparse_take(&copy, &wrong[7], wide));
	for (uint32_t rank = 2; rank < RANKS + 2; rank++) {
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, rank);
		if (rank <= 3 || rank >= RANKS) /* before it, twice, or none */
			assert_false(copy_sparse_take(&copy, &packet, at));
	}
	assert_int_equal(tag[3].epoch, 0);
	assert_int_equal(copy.newest, 0);
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 12, 5);
	assert_true(copy_sparse_take(&copy, &packet, at));
	assert_int_equal(tag[5].epoch, 1);
	packet.parts = packet.part + 2; /* another number than the first part's */
	packet.count = 3;
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 24, 6);
	assert_false(copy_sparse_take(&copy, &packet, at));
	assert_int_equal(tag[6].epoch, 0);
}

/* The server's BCAST is what `give` makes by hand. */
static void a_server_tells_the_ranks_that_an_epoch_touched(void **state)
{
	static const uint32_t ranks[] = { 1, 3, 5, 6 };
	uint64_t cut[1], staged[1], touched[RANKS] = { 0 };
	int64_t sum[RANKS * DIM];
	uint8_t has[16], at[BYTES];
	struct server_sparse_worker worker[1];
	struct server_sparse_memory lent = { cut, staged, sum, touched, has, worker };
	uint32_t values[4 * DIM];
	struct server_sparse_touched what = { ranks, values, 4 };
	struct server_sparse server;
	struct sparse packet = { 0 };

	(void)state;
	assert_true(sparse_flush_parts_max(&table) <= sizeof(has));
	server_sparse_init(&server, &table, 1, &lent);
	server.generation = 1;
	server.expected = 3; /* epoch 2 was applied, */
	touched[1] = touched[3] = touched[5] = touched[6] = 2;
	touched[2] = 1;
	copy_sparse_init(&copy, &table, 1, 2, &memory);
	for (uint32_t i = 0; i < 4 * DIM; i++)
		values[i] = value_of(1, 2, ranks[i / DIM], i % DIM);
	for (uint32_t part = 0; part < 2; part++) {
		uint32_t bytes = server_sparse_bcast(&server, part, &what, at);

		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_int_equal(packet.count, part ? 1 : 3);
		assert_int_equal(packet.parts, 2);
		assert_int_equal(packet.number, 2);
		assert_true(copy_sparse_take(&copy, &packet, at));
	}
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_int_equal(is_usable(rank, 0), touched[rank] == 2);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(has_value(ranks[i], 1, 2));
	server.expected = 4; /* an empty one */
	what.count = 0;
	assert_int_equal(sparse_check(at, server_sparse_bcast(&server, 0, &what, at), &packet),
			 WIRE_OK);
	assert_true(copy_sparse_take(&copy, &packet, at));
	assert_int_equal(copy.fresh, 3);
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

static void pull(uint64_t g, uint32_t rank)
{
	const struct history *of = &history[g];
	uint64_t last = touched_last(of, of->count, rank);
	uint32_t got[DIM];

	for (uint32_t k = 0; k < DIM; k++)
		got[k] = last ? value_of(of->epoch[last].generation, last, rank, k) : 0;
	copy_sparse_pulled(&copy, rank, generation_of(g), of->count, got);
}

/* Every value that may be used is one that the server had, and as new as it says. How many there are. */
static uint32_t copy_is_true(void)
{
	const struct history *of = &history[sparse_fences(copy.generation)];
	uint32_t usable = 0;

	assert_true(copy.base <= copy.fresh && copy.fresh <= of->count);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		const uint32_t *has = copy_sparse_value(&copy, rank, UINT64_MAX);
		uint64_t last;

		if (!has)
			continue;
		usable++;
		assert_true(tag[rank].epoch >= touched_last(of, copy.fresh, rank));
		assert_true(tag[rank].epoch <= of->count);
		last = touched_last(of, tag[rank].epoch, rank);
		for (uint32_t k = 0; k < DIM; k++)
			assert_int_equal(has[k],
					 last ? value_of(of->epoch[last].generation, last, rank, k)
					      : 0);
	}
	return usable;
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
	for (uint32_t part = 0; part < parts_of(of->epoch[of->count].touched); part++)
		if (random_below(12))
			fly(g, of->count, part);
	return g;
}

static void resume_draw(uint64_t g, const uint64_t *fences, uint64_t *back)
{
	uint64_t to = random_below(2) ? g : sparse_fences(copy.generation) + 1;

	*back += copy.fresh >= fences[to];
	copy_sparse_resume(&copy, generation_of(to), fences[to]);
}

static void arrive(void)
{
	uint32_t i = random_below(flying_count);

	give(flying[i].generation, flying[i].epoch, flying[i].part,
	     history[flying[i].generation].epoch[flying[i].epoch].touched);
	if (random_below(4))
		flying[i] = flying[--flying_count];
}

/* Nothing comes any more: what is pulled once may be used, and is what the server has. */
static void all_is_well_when_it_is_quiet(uint64_t g, const uint64_t *fences)
{
	if (sparse_fences(copy.generation) < g)
		copy_sparse_resume(&copy, generation_of(g), fences[g]);
	copy_sparse_told(&copy, generation_of(g), history[g].count);
	copy_sparse_give_up(&copy);
	assert_int_equal(copy.fresh, history[g].count);
	copy_is_true();
	for (uint32_t rank = 0; rank < RANKS; rank++)
		if (!is_usable(rank, 0))
			pull(g, rank);
	/* A server that went back to nothing has no epoch that a value could be as of. */
	assert_int_equal(copy_is_true(), history[g].count ? RANKS : 0);
}

static void what_may_be_used_is_as_new_as_the_copy_says(void **state)
{
	uint64_t usable = 0, pulls = 0, back = 0;

	for (uint32_t walk = 0; walk < 300; walk++) {
		uint64_t g = 1, fences[GENERATIONS] = { 0, 1 };

		begin(state);
		rng_init(&rng, seed, walk + 1);
		memset(history, 0, sizeof(history));
		flying_count = 0;
		for (uint32_t turn = 0; turn < 600; turn++) {
			uint32_t what = random_below(10);
			uint64_t before = g;

			if (what < 2) {
				g = server_turn(g);
				if (g > before)
					fences[g] = history[g].count + 1;
			} else if (what < 9 && flying_count) {
				arrive();
			} else if (sparse_fences(copy.generation) < g && random_below(2)) {
				resume_draw(g, fences, &back);
			} else if (!random_below(8)) {
				copy_sparse_give_up(&copy);
			} else {
				pulls++;
				pull(g, random_below(RANKS));
			}
			usable += copy_is_true();
		}
		all_is_well_when_it_is_quiet(g, fences);
	}
	print_message("%u values that might be used, %u pulls, %u times a server went back\n",
		      (unsigned)usable, (unsigned)pulls, (unsigned)back);
	assert_true(usable > 100000 && pulls > 3000 && back > 30);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_fresh_when_all_parts_of_all_epochs_have_come, begin),
		cmocka_unit_test_setup(what_never_came_is_not_used_and_what_was_pulled_is, begin),
		cmocka_unit_test_setup(what_comes_late_changes_no_value, begin),
		cmocka_unit_test_setup(a_commit_without_its_bcast_makes_it_stale, begin),
		cmocka_unit_test_setup(a_bcast_that_is_lost_moves_the_base, begin),
		cmocka_unit_test_setup(who_waits_no_more_has_what_is_as_of_the_newest, begin),
		cmocka_unit_test_setup(a_fence_keeps_what_the_server_has_kept, begin),
		cmocka_unit_test_setup(a_higher_generation_that_was_heard_of_is_waited_for, begin),
		cmocka_unit_test_setup(what_a_batch_may_have_changed_is_not_used, begin),
		cmocka_unit_test_setup(a_server_that_went_back_takes_all_values_with_it, begin),
		cmocka_unit_test_setup(one_value_of_a_lost_epoch_is_enough, begin),
		cmocka_unit_test_setup(a_generation_that_it_never_heard_of_takes_all_values_with_it,
				       begin),
		cmocka_unit_test_setup(epochs_may_have_more_and_fewer_parts, begin),
		cmocka_unit_test_setup(what_is_not_of_the_table_is_refused, begin),
		cmocka_unit_test_setup(a_server_tells_the_ranks_that_an_epoch_touched, begin),
		cmocka_unit_test(what_may_be_used_is_as_new_as_the_copy_says),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
