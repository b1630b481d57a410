/* SPDX-License-Identifier: Apache-2.0 */
/* When the new values of an epoch leave, and when they do not: claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/copy_sparse.h"
#include "dataplane/bcast.h"

enum { RANKS = 20000, PER_PART = 11, RECORD = 6 };

static const struct sparse_table table = { .ranks = RANKS,
					   .workers = 1,
					   .window = 1,
					   .dim = 1,
					   .bytes = 128 };
static struct server_sparse server;
static struct bcast bcast;
static uint64_t cut[1], staged[1], tag[RANKS];
static int64_t sum[RANKS];
static uint8_t has_part[RANKS];
static struct server_sparse_worker worker[1];

static void values(void *arg, uint32_t rank, uint32_t *value)
{
	assert_ptr_equal(arg, &server);
	*value = rank * 3;
}

static int begin(void **state)
{
	const struct server_sparse_memory memory = { cut, staged, sum, tag, has_part, worker };

	(void)state;
	assert_int_equal(copy_sparse_ranks_per_part(&table), PER_PART);
	server_sparse_init(&server, &table, 1, &memory);
	server.generation = 1;
	server.expected = 4;
	server.recorded = RECORD;
	return !bcast_open(&bcast, &table);
}

static int end(void **state)
{
	(void)state;
	bcast_close(&bcast);
	return 0;
}

/* Epoch 3 has touched so many ranks: each second one. */
static void make(uint32_t touched)
{
	memset(tag, 0, sizeof(tag));
	for (uint32_t i = 0; i < touched; i++)
		tag[2 * i] = 3;
	bcast_make(&bcast, &server, values, &server);
}

/* All that leave now, from part `first` on. */
static uint32_t take(uint32_t first, uint64_t now_ns, uint64_t *due_ns)
{
	const uint8_t *at;
	uint32_t bytes, count = 0;

	while ((at = bcast_next(&bcast, &server, now_ns, &bytes, due_ns))) {
		struct sparse packet = { 0 };

		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_int_equal(packet.number, 3);
		assert_int_equal(packet.part, first + count);
		for (uint32_t i = 0; i < packet.count; i++) {
			const uint8_t *item = sparse_item(&packet, at, i);

			assert_int_equal(sparse_body_get32(item), 2 * (packet.part * PER_PART + i));
			assert_int_equal(sparse_body_get32(item + 4), 3 * sparse_body_get32(item));
		}
		count++;
	}
	return count;
}

static void nothing_leaves_before_the_disk_has_it(void **state)
{
	uint64_t due_ns;

	(void)state;
	make(PER_PART + 1);
	server.durable = RECORD - 1;
	assert_int_equal(take(0, 5, &due_ns), 0);
	assert_int_equal(due_ns, UINT64_MAX);
	server.durable = RECORD;
	assert_int_equal(take(0, 5, &due_ns), 2);
	assert_int_equal(take(0, 5, &due_ns), 0);
	make(0); /* an empty epoch has a part, too */
	assert_int_equal(take(0, 5, &due_ns), 1);
}

static void a_large_epoch_leaves_in_bursts(void **state)
{
	const uint32_t burst = BCAST_BURST_BYTES / 128 + 1;
	uint64_t due_ns;

	(void)state;
	server.durable = RECORD;
	make(RANKS / 2);
	assert_int_equal(take(0, 1000, &due_ns), burst);
	assert_int_equal(due_ns, 1000 + BCAST_BURST_NS);
	assert_int_equal(take(burst, due_ns - 1, &due_ns), 0);
	assert_int_equal(take(burst, due_ns, &due_ns), (RANKS / 2 - 1) / PER_PART + 1 - burst);
}

static void what_is_too_large_or_too_slow_is_left_out(void **state)
{
	uint64_t due_ns;

	(void)state;
	server.durable = RECORD;
	make(RANKS / 2);
	take(0, 1000, &due_ns);
	make(3); /* the next one comes, and this one has not left: it does not any more */
	assert_int_equal(take(0, due_ns, &due_ns), 1);
	make(RANKS / 2);
	bcast_drop(&bcast);
	assert_int_equal(take(0, 1u << 30, &due_ns), 0);
	memset(tag, 0, sizeof(tag));
	for (uint32_t rank = 0; rank <= BCAST_PARTS_MAX * PER_PART; rank++) /* one too many */
		tag[rank] = 3;
	bcast_make(&bcast, &server, values, &server);
	assert_int_equal(take(0, 1u << 30, &due_ns), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_leaves_before_the_disk_has_it, begin, end),
		cmocka_unit_test_setup_teardown(a_large_epoch_leaves_in_bursts, begin, end),
		cmocka_unit_test_setup_teardown(what_is_too_large_or_too_slow_is_left_out, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
