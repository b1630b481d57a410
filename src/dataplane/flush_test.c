/* SPDX-License-Identifier: Apache-2.0 */
/* flush_test.c - which part of a flush goes out when: R-SP-11, R-SP-34. */
#include "dataplane/flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PARTS = 70, MS = RTO_MS };

static const uint64_t begin_ns = 7000 * (uint64_t)MS;
static uint64_t had[2];
static struct flush flush;

/* Parts of half the window's bytes: two of them may be on their way. */
static int setup(void **state)
{
	const struct sparse_table table = { .bytes = FLUSH_WINDOW_BYTES / 2 };

	(void)state;
	memset(had, 0xff, sizeof(had));
	flush_init(&flush, &table, had);
	flush_begin(&flush, PARTS, begin_ns);
	return 0;
}

static void expect_next(uint64_t now_ns, uint32_t part, bool is_again)
{
	uint32_t is_part;
	bool is;

	assert_true(flush_next(&flush, now_ns, &is_part, &is));
	assert_int_equal(is_part, part);
	assert_int_equal(is, is_again);
}

static void expect_none(uint64_t now_ns)
{
	uint32_t part;
	bool is_again;

	assert_false(flush_next(&flush, now_ns, &part, &is_again));
}

/* The server has these of the 64 parts from `first` on. */
static void have(uint32_t first, uint64_t bits, uint64_t now_ns)
{
	const struct sparse packet = { .kind = SPARSE_HAVE, .count = 1, .part = first, .width = 1 };
	uint8_t bytes[256] = { 0 };

	sparse_body_put64(bytes + sparse_items_at(SPARSE_HAVE), bits);
	flush_have(&flush, &packet, bytes, now_ns);
}

static void flush__has_a_window_on_its_way(void **state)
{
	(void)state;
	expect_next(begin_ns, 0, false);
	assert_int_equal(flush_due(&flush), begin_ns + RTO_FIRST_NS);
	expect_next(begin_ns + 3, 1, false);
	expect_none(begin_ns + 4);
	assert_int_equal(flush_due(&flush), begin_ns + RTO_FIRST_NS);
	have(0, 1, begin_ns + 10 * MS);
	expect_next(begin_ns + 10 * MS, 2, false);
	expect_none(begin_ns + 10 * MS);
}

static void flush__part_that_runs_out_goes_again(void **state)
{
	const uint64_t out_ns = begin_ns + RTO_FIRST_NS;

	(void)state;
	expect_next(begin_ns, 0, false);
	expect_next(begin_ns + 5, 1, false);
	expect_none(out_ns - 1);
	expect_next(out_ns, 0, true);
	assert_int_equal(flush_due(&flush), begin_ns + 5 + 2 * RTO_FIRST_NS);
	/* An answer to what was sent twice says nothing of the time that it took. */
	have(0, 1, out_ns + MS);
	assert_int_equal(flush.rto.srtt_ns, 0);
	have(0, 2, out_ns + MS);
	assert_int_equal(flush.rto.srtt_ns, RTO_FIRST_NS + MS - 5);
}

static void flush__that_nobody_commits_goes_again_as_a_whole(void **state)
{
	uint64_t now_ns = begin_ns + 20 * MS, again_ns = now_ns + RTO_BACKOFF_NS;

	(void)state;
	expect_next(begin_ns, 0, false);
	have(0, UINT64_MAX, now_ns);
	for (uint32_t part = 64; part < PARTS; part++) {
		expect_next(now_ns, part, false);
		have(64, UINT64_C(1) << (part - 64), now_ns);
	}
	expect_none(again_ns - 1);
	assert_int_equal(flush_due(&flush), again_ns);
	expect_next(again_ns, 0, true);
	expect_next(again_ns, 1, true);
	/* The next flush is no repetition. */
	flush_end(&flush, again_ns + MS);
	flush_begin(&flush, 1, again_ns + 2 * MS);
	expect_next(again_ns + 2 * MS, 0, false);
}

static void flush__pieces_of_other_numbers_are_of_no_use(void **state)
{
	(void)state;
	have(1, UINT64_MAX, begin_ns);
	have(128, UINT64_MAX, begin_ns);
	expect_next(begin_ns, 0, false);
	have(64, 1, begin_ns + MS);
	expect_next(begin_ns + MS, 1, false);
}

static void flush__have_may_be_of_several_pieces(void **state)
{
	const struct sparse packet = { .kind = SPARSE_HAVE, .count = 1, .width = 2 };
	uint8_t bytes[256] = { 0 }, *numbers = bytes + sparse_items_at(SPARSE_HAVE);

	(void)state;
	sparse_body_put64(numbers, UINT64_MAX);
	sparse_body_put64(numbers + SPARSE_NUMBER_BYTES, UINT64_MAX << 2 | 1);
	flush_have(&flush, &packet, bytes, begin_ns);
	expect_next(begin_ns, 65, false);
	expect_none(begin_ns);
}

/* A small one has no other answer than that it is committed. */
static void flush__end_of_one_that_was_sent_once_is_a_sample(void **state)
{
	(void)state;
	flush_begin(&flush, 2, begin_ns);
	expect_next(begin_ns, 0, false);
	flush_end(&flush, begin_ns + 5 * MS);
	assert_int_equal(flush.rto.srtt_ns, 0); /* not all of it had been sent */
	flush_begin(&flush, 2, begin_ns);
	expect_next(begin_ns, 0, false);
	expect_next(begin_ns + 2 * MS, 1, false);
	flush_end(&flush, begin_ns + 5 * MS);
	assert_int_equal(flush.rto.srtt_ns, 3 * MS);
}

/* As many parts as make 64 KiB, and 64 at most. */
static void flush__window_is_of_bytes_and_of_parts(void **state)
{
	static const struct {
		uint16_t bytes;
		uint32_t window;
	} tables[] = { { 60, 64 }, { 1023, 64 }, { 1025, 63 }, { 8192, 8 } };
	static uint64_t many[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const struct sparse_table table = { .bytes = tables[i].bytes };

		flush_init(&flush, &table, many);
		flush_begin(&flush, 200, begin_ns);
		for (uint32_t part = 0; part < tables[i].window; part++)
			expect_next(begin_ns, part, false);
		expect_none(begin_ns);
	}
	assert_int_equal(flush_bytes(0), 0);
	assert_int_equal(flush_bytes(1), 8);
	assert_int_equal(flush_bytes(64), 8);
	assert_int_equal(flush_bytes(65), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(flush__has_a_window_on_its_way, setup),
		cmocka_unit_test_setup(flush__part_that_runs_out_goes_again, setup),
		cmocka_unit_test_setup(flush__that_nobody_commits_goes_again_as_a_whole, setup),
		cmocka_unit_test_setup(flush__pieces_of_other_numbers_are_of_no_use, setup),
		cmocka_unit_test_setup(flush__have_may_be_of_several_pieces, setup),
		cmocka_unit_test_setup(flush__end_of_one_that_was_sent_once_is_a_sample, setup),
		cmocka_unit_test(flush__window_is_of_bytes_and_of_parts),
	};

	return cmocka_run_group_tests_name("dataplane-flush", tests, NULL, NULL);
}
