/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home_sparse_fixture.h - for tests: a parameter server's side of a table, for which the switch, the workers and the log
 * are played, the clock and memory too (--wrap=calloc,--wrap=free). Included once in a program.
 */
#ifndef DATAPLANE_HOME_SPARSE_FIXTURE_H
#define DATAPLANE_HOME_SPARSE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/rto.h"
#include "dataplane/fake_link.h"
#include "dataplane/home_sparse.h"
#include "util/memory_fixture.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

enum {
	RANKS = 200,
	WORKERS = 2,
	INDEX = 4,
	MAP = 9,
	INSTANCE = 77,
	BYTES = 60, /* a row or a rank: two CUTs, then FLUSHes */
	PIECE = 128 /* parts that a HAVE tells of */,
	SENT_MAX = 512,
	PARTS = 5, /* of the flush that is played: three ranks */
};

static const uint64_t begin_ns = 5000 * (uint64_t)RTO_MS;
static const uint32_t touched[] = { 3, 0, RANKS - 1 };

static struct {
	struct fake_link link;
	struct outbox outbox;
	struct home_sparse *home;
	uint64_t random;
	/* what was recorded */
	uint32_t records;
	struct server_sparse_record last;
	/* what was sent since it was looked at */
	uint32_t count;
	struct {
		struct link_address to;
		struct sparse packet;
		uint8_t at[BYTES];
	} sent[SENT_MAX];
} t;

static const struct link_address at_switch = { .ip = { 1 }, .port = 7171 },
				 at_other = { .ip = { 1 }, .port = 7172 },
				 at_worker[WORKERS] = { { .ip = { 2 }, .port = 50 },
							{ .ip = { 3 }, .port = 50 } };

static void note(const struct link_address *peer, const uint8_t *packet, uint32_t bytes)
{
	assert_true(t.count < SENT_MAX);
	assert_in_range(bytes, SPARSE_HEADER_BYTES, BYTES);
	t.sent[t.count].to = *peer;
	memcpy(t.sent[t.count].at, packet, bytes);
	assert_int_equal(sparse_check(packet, bytes, &t.sent[t.count].packet), WIRE_OK);
	t.count++;
}

static uint64_t draw(void *arg)
{
	assert_ptr_equal(arg, &t);
	return t.random;
}

static void record(void *arg, const struct server_sparse_record *what)
{
	assert_ptr_equal(arg, &t);
	t.records++;
	t.last = *what;
	if (what->kind != SERVER_SPARSE_EPOCH)
		return;
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_int_equal(home_sparse_is_touched(t.home, rank),
				 rank == 0 || rank == 3 || rank == RANKS - 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(home_sparse_sum(t.home, touched[i])[0] == -1000 - (int64_t)i);
		assert_true(home_sparse_sum(t.home, touched[i])[1] == (int64_t)1 << (33 + i));
	}
	assert_int_equal(home_sparse_cut(t.home)[0], 10 * what->epoch);
	assert_int_equal(home_sparse_cut(t.home)[1], 10 * what->epoch + 1);
}

static void values(void *arg, uint32_t rank, uint32_t *value)
{
	assert_ptr_equal(arg, &t);
	value[0] = 7 * rank;
	value[1] = 7 * rank + 1;
}

static const struct home_sparse_options plain = { .outbox = &t.outbox,
						  .table = { .ranks = RANKS,
							     .index = INDEX,
							     .workers = WORKERS,
							     .window = 1,
							     .dim = 2,
							     .bytes = BYTES },
						  .map = MAP,
						  .record = record,
						  .random = draw,
						  .arg = &t };

static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	memory_count(0);
	fake_link_init(&t.link, begin_ns, note);
	t.random = 0xfeed;
	assert_int_equal(outbox_open(&t.outbox, &t.link.link), 0);
	assert_int_equal(home_sparse_open(&t.home, &plain), 0);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	home_sparse_close(t.home);
	outbox_close(&t.outbox);
	assert_int_equal(memory.held, 0);
	return 0;
}

static void reopen(const struct home_sparse_options *options)
{
	home_sparse_close(t.home);
	assert_int_equal(home_sparse_open(&t.home, options), 0);
}

static const struct server_sparse *server(void)
{
	return home_sparse_server(t.home);
}

static const struct home_sparse_stats *stats(void)
{
	return home_sparse_stats(t.home);
}

static void settle(void)
{
	home_sparse_durable(t.home, server()->recorded);
}

/* All that is due now, in sent[]. */
static uint64_t turn(void)
{
	uint64_t due_ns;

	t.count = 0;
	due_ns = home_sparse_turn(t.home);
	outbox_flush(&t.outbox);
	return due_ns;
}

/* How many of what was sent just now are of this kind; all to there. */
static uint32_t sent(enum sparse_kind kind, const struct link_address *to)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < t.count; i++) {
		if (t.sent[i].packet.kind != kind || !link_address_equal(&t.sent[i].to, to))
			continue;
		assert_int_equal(t.sent[i].packet.table, INDEX);
		assert_true(t.sent[i].packet.generation == server()->generation);
		count++;
	}
	return count;
}

/* ---- what comes ---- */

static void give(const struct link_address *from, const struct sparse *packet, uint8_t *at)
{
	sparse_put(at, packet);
	home_sparse_serve(t.home, from, at, sparse_bytes(packet));
}

static struct sparse header(enum sparse_kind kind, uint64_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = INDEX,
				.generation = server()->generation,
				.number = number };
}

/* Parts 0 and 1: the rows; then a rank each, whose sums are no short ones. */
static void give_part(const struct link_address *from, uint64_t epoch, uint32_t part)
{
	struct sparse packet = header(part < WORKERS ? SPARSE_CUT : SPARSE_FLUSH, epoch);
	uint8_t at[BYTES];

	packet.part = part;
	packet.parts = PARTS;
	packet.count = 1;
	packet.width = part < WORKERS ? 1 : 2;
	if (part < WORKERS) {
		packet.worker = (uint16_t)part;
		sparse_body_put64(at + SPARSE_HEADER_BYTES, 10 * epoch + part);
	} else {
		uint32_t i = part - WORKERS;

		sparse_body_put32(at + SPARSE_HEADER_BYTES, touched[i]);
		sparse_body_put64(at + SPARSE_HEADER_BYTES + 4, (uint64_t)(-1000 - (int64_t)i));
		sparse_body_put64(at + SPARSE_HEADER_BYTES + 12, 1ull << (33 + i));
	}
	give(from, &packet, at);
}

static void give_bare(const struct link_address *from, enum sparse_kind kind, uint16_t worker,
		      uint64_t number)
{
	struct sparse packet = header(kind, number);
	uint8_t at[BYTES] = { 0 };

	packet.worker = worker;
	if (kind == SPARSE_END)
		packet.count = packet.width = 1;
	give(from, &packet, at);
}

/* A switch that sums, two workers that go on. */
static void go(void)
{
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_instance(t.home, INSTANCE, INDEX, &at_switch);
	for (uint16_t i = 0; i < WORKERS; i++)
		home_sparse_worker(t.home, i, &at_worker[i]);
	settle();
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	for (uint16_t i = 0; i < WORKERS; i++)
		give_bare(&at_worker[i], SPARSE_RESUMED, i, 0);
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
}

static void counts_are(uint64_t parts, uint64_t dropped, uint64_t strangers, uint64_t generation)
{
	assert_int_equal(stats()->parts, parts);
	assert_int_equal(stats()->dropped, dropped);
	assert_int_equal(stats()->strangers, strangers);
	assert_int_equal(stats()->generation, generation);
}

#pragma GCC diagnostic pop

#endif
