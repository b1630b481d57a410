/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_sparse_life_test.c - what a worker of sparse mode says to whom: its pushes, when it asks for a commit, and how
 * it goes on with another switch, server or map: claims. Both are played here, and the clock is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/rto.h"
#include "dataplane/endpoint_sparse.h"
#include "dataplane/fake_link.h"
#include "util/memory_fixture.h"

enum {
	RANKS = 20,
	INDEX = 3,
	WORKER = 1,
	WINDOW = 2,
	KEPT = 8,
	DIM = 2,
	BYTES = 128,
	PAIR_BYTES = 12,
	MAP = 4,
	SENT_MAX = 64,
	MS = RTO_MS,
};

static const uint64_t begin_ns = 1000ull * MS, patience_ns = 500ull * MS;
static const struct link_address at_switch = { .ip = { 1 }, .port = 1 },
				 at_server = { .ip = { 2 }, .port = 2 },
				 at_other = { .ip = { 3 }, .port = 3 };

static struct {
	struct fake_link link;
	struct outbox outbox;
	struct endpoint_sparse *endpoint;
	uint32_t count;
	struct {
		struct link_address to;
		struct sparse packet;
		uint8_t at[BYTES];
	} sent[SENT_MAX];
} t;

static void note(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	assert_true(t.count < SENT_MAX);
	assert_in_range(bytes, SPARSE_HEADER_BYTES, BYTES);
	t.sent[t.count].to = *peer;
	memcpy(t.sent[t.count].at, at, bytes);
	assert_int_equal(sparse_check(at, bytes, &t.sent[t.count].packet), WIRE_OK);
	t.count++;
}

static struct endpoint_sparse_options options_of(bool has_copy)
{
	return (struct endpoint_sparse_options){ .outbox = &t.outbox,
						 .table = { .ranks = RANKS,
							    .index = INDEX,
							    .workers = 2,
							    .window = WINDOW,
							    .dim = DIM,
							    .bytes = BYTES },
						 .at_switch = at_switch,
						 .at_server = at_server,
						 .generation = 1,
						 .expected = 1,
						 .patience_ns = patience_ns,
						 .map = MAP,
						 .kept_max = KEPT,
						 .worker = WORKER,
						 .has_copy = has_copy };
}

static void begin_as(bool has_copy)
{
	const struct endpoint_sparse_options options = options_of(has_copy);

	memset(&t, 0, sizeof(t));
	memory_count(0);
	fake_link_init(&t.link, begin_ns, note);
	assert_int_equal(outbox_open(&t.outbox, &t.link.link), 0);
	assert_int_equal(endpoint_sparse_open(&t.endpoint, &options), 0);
}

static int begin(void **state)
{
	(void)state;
	begin_as(false);
	return 0;
}

static int begin_with_copy(void **state)
{
	(void)state;
	begin_as(true);
	return 0;
}

static int end(void **state)
{
	(void)state;
	endpoint_sparse_close(t.endpoint);
	outbox_close(&t.outbox);
	assert_int_equal(memory.held, 0);
	return 0;
}

static const struct endpoint_sparse_stats *stats(void)
{
	return endpoint_sparse_stats(t.endpoint);
}

/* What goes out from now on is in sent[]; when it is to be called again. */
static uint64_t turn(void)
{
	uint64_t due_ns;

	t.count = 0;
	due_ns = endpoint_sparse_turn(t.endpoint);
	outbox_flush(&t.outbox);
	return due_ns;
}

/* A push of so many pairs, all bytes of which are its seq's. */
static uint64_t push(uint16_t flags, uint16_t count)
{
	uint8_t pairs[BYTES];

	memset(pairs, (int)endpoint_sparse_worker(t.endpoint)->next, sizeof(pairs));
	return endpoint_sparse_push(t.endpoint, flags, count, pairs);
}

static struct sparse header(enum sparse_kind kind, uint64_t generation, uint64_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = endpoint_sparse_worker(t.endpoint)->table->index,
				.worker = WORKER,
				.generation = generation,
				.number = number,
				.map = MAP };
}

/* With the row, if it has one; what comes of it at once is in sent[]. */
static void give(struct sparse packet, uint64_t even, uint64_t odd)
{
	uint8_t at[BYTES] = { 0 };

	if (packet.kind == SPARSE_COMMITTED || packet.kind == SPARSE_RESUME) {
		packet.count = 1;
		packet.width = WINDOW;
		sparse_body_put64(at + SPARSE_HEADER_BYTES, even);
		sparse_body_put64(at + SPARSE_HEADER_BYTES + SPARSE_NUMBER_BYTES, odd);
	}
	sparse_put(at, &packet);
	t.count = 0;
	endpoint_sparse_serve(t.endpoint, at, sparse_bytes(&packet));
	outbox_flush(&t.outbox);
}

static void ack(uint64_t seq)
{
	give(header(SPARSE_ACK, endpoint_sparse_worker(t.endpoint)->generation, seq), 0, 0);
}

static void expect_push(uint32_t at, const struct link_address *to, uint64_t seq, uint16_t count)
{
	const struct sparse *packet = &t.sent[at].packet;

	assert_true(at < t.count);
	assert_true(link_address_equal(&t.sent[at].to, to));
	assert_int_equal(packet->kind, SPARSE_PUSH);
	assert_int_equal(packet->number, seq);
	assert_int_equal(packet->worker, WORKER);
	assert_int_equal(packet->count, count);
	assert_int_equal(packet->width, DIM);
	for (uint32_t i = 0; i < count * PAIR_BYTES; i++)
		assert_int_equal(t.sent[at].at[SPARSE_HEADER_BYTES + i], seq);
}

/* ---- opening ---- */

static void stream__of_what_cannot_be_is_none(void **state)
{
	struct endpoint_sparse_options options = options_of(true);
	struct endpoint_sparse *endpoint = NULL;
	uint32_t asked;

	(void)state;
	options.worker = 2;
	assert_int_equal(endpoint_sparse_open(&endpoint, &options), -EINVAL);
	options = options_of(true);
	options.kept_max = WINDOW - 1;
	assert_int_equal(endpoint_sparse_open(&endpoint, &options), -EINVAL);
	options = options_of(true);
	options.table.dim = 0;
	assert_int_equal(endpoint_sparse_open(&endpoint, &options), -EINVAL);
	/* The stream, three kinds of memory of pushes, three of the copy. */
	options = options_of(true);
	for (asked = 1; asked < 50; asked++) {
		memory.asked = 0;
		memory.missing = asked;
		if (!endpoint_sparse_open(&endpoint, &options))
			break;
		assert_null(endpoint);
	}
	memory.missing = 0;
	assert_int_equal(asked, 8);
	endpoint_sparse_close(endpoint);
	options.kept_max = WINDOW;
	assert_int_equal(endpoint_sparse_open(&endpoint, &options), 0);
	endpoint_sparse_close(endpoint);
	endpoint_sparse_close(NULL);
}

/* ---- pushes ---- */

static void pushes__go_to_the_switch_as_they_were_given(void **state)
{
	(void)state;
	assert_int_equal(endpoint_sparse_pairs_max(t.endpoint), (BYTES - 40) / PAIR_BYTES);
	assert_int_equal(push(SPARSE_SATURATED, 2), 1);
	assert_int_equal(push(0, 7), 2);
	assert_int_equal(push(SPARSE_NONFINITE, 1), 3);
	assert_true(turn() == begin_ns + RTO_FIRST_NS);
	assert_int_equal(t.count, 2); /* a window of them */
	expect_push(0, &at_switch, 1, 2);
	expect_push(1, &at_switch, 2, 7);
	assert_int_equal(t.sent[0].packet.flags, SPARSE_SATURATED);
	assert_int_equal(t.sent[1].packet.flags, 0);
	assert_int_equal(t.sent[0].packet.table, INDEX);
	assert_int_equal(t.sent[0].packet.map, MAP);
	assert_int_equal(t.sent[0].packet.generation, 1);
	assert_int_equal(stats()->pushes, 2);
	ack(1);
	turn();
	assert_int_equal(t.count, 1);
	expect_push(0, &at_switch, 3, 1);
	assert_int_equal(t.sent[0].packet.flags, SPARSE_NONFINITE);
	assert_int_equal(stats()->pushes, 3);
	assert_int_equal(stats()->pushes_again, 0);
}

/* R-SP-17 */
static void pushes__are_kept_until_they_are_committed(void **state)
{
	uint16_t *count;

	(void)state;
	for (uint64_t seq = 1; seq <= KEPT; seq++)
		assert_int_equal(push(0, (uint16_t)(seq % 7)), seq);
	assert_int_equal(push(0, 1), 0);
	turn();
	ack(1);
	assert_int_equal(push(0, 1), 0);
	assert_false(endpoint_sparse_is_committed(t.endpoint, 1));
	give(header(SPARSE_COMMITTED, 1, 1), 0, 1);
	assert_true(endpoint_sparse_is_committed(t.endpoint, 1));
	assert_false(endpoint_sparse_is_committed(t.endpoint, 2));
	assert_null(endpoint_sparse_kept(t.endpoint, 1, &count));
	assert_int_equal(push(0, 3), KEPT + 1); /* in the place of the first */
	assert_int_equal(push(0, 3), 0);
	assert_int_equal(endpoint_sparse_kept(t.endpoint, KEPT + 1, &count)[5], KEPT + 1);
	assert_int_equal(*count, 3);
	assert_int_equal(endpoint_sparse_kept(t.endpoint, KEPT, &count)[5], KEPT);
	assert_int_equal(*count, KEPT % 7);
}

/* Karn: to what was sent twice an answer says nothing of the time that it takes. */
static void pushes__sent_again_are_no_sample(void **state)
{
	(void)state;
	push(0, 1);
	turn();
	t.link.now_ns += RTO_FIRST_NS;
	assert_true(turn() == t.link.now_ns + 2 * RTO_FIRST_NS);
	expect_push(0, &at_switch, 1, 1);
	assert_int_equal(stats()->pushes_again, 1);
	t.link.now_ns += 7 * MS;
	ack(1);
	push(0, 1);
	assert_true(turn() == t.link.now_ns + 2 * RTO_FIRST_NS);
	t.link.now_ns += 20 * MS;
	ack(2);
	push(0, 1);
	assert_true(turn() == t.link.now_ns + 60 * MS); /* R-PACE-2: 20 ms and 4 times 10 ms */
	assert_int_equal(stats()->pushes, 4);
}

/* ---- R-SP-20: commits are asked for ---- */

static void expect_ask(uint64_t asks)
{
	assert_int_equal(t.count, 1);
	assert_true(link_address_equal(&t.sent[0].to, &at_switch));
	assert_int_equal(t.sent[0].packet.kind, SPARSE_ASK);
	assert_int_equal(t.sent[0].packet.worker, WORKER);
	assert_int_equal(stats()->asks, asks);
}

static void ask__comes_when_the_patience_is_over_and_again(void **state)
{
	(void)state;
	push(0, 1);
	turn();
	t.link.now_ns += 10 * MS;
	ack(1);
	assert_true(turn() == begin_ns + patience_ns);
	t.link.now_ns = begin_ns + patience_ns - 1;
	turn();
	assert_int_equal(t.count, 0);
	t.link.now_ns++;
	for (uint64_t asks = 1; asks <= 7; asks++) {
		uint64_t wait_ns = asks <= 4 ? 30 * MS : RTO_BACKOFF_NS;

		assert_true(turn() == t.link.now_ns + wait_ns);
		expect_ask(asks);
		t.link.now_ns += wait_ns - 1;
		turn();
		assert_int_equal(t.count, 0);
		t.link.now_ns++;
	}
	give(header(SPARSE_COMMITTED, 1, 1), 0, 1);
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
	/* The next one is waited for from its own begin, and asked for quickly at first. */
	push(0, 1);
	turn();
	t.link.now_ns += 10 * MS;
	ack(2);
	assert_true(turn() == t.link.now_ns - 10 * MS + patience_ns);
	t.link.now_ns += patience_ns - 10 * MS;
	assert_true(turn() == t.link.now_ns + 25 * MS); /* the way is as long as it was */
	expect_ask(8);
}

static void ask__comes_at_once_if_somebody_waits(void **state)
{
	(void)state;
	push(0, 1);
	turn();
	ack(1);
	turn();
	assert_int_equal(t.count, 0);
	endpoint_sparse_hurry(t.endpoint);
	turn();
	expect_ask(1);
	/* Nobody waits for what comes after that. */
	push(0, 1);
	turn();
	ack(2);
	give(header(SPARSE_COMMITTED, 1, 1), 0, 1);
	t.link.now_ns += 300 * MS;
	assert_true(turn() == begin_ns + patience_ns);
	assert_int_equal(t.count, 0);
}

static void ask__comes_when_half_of_the_memory_is_in_use(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < KEPT / 2; i++)
		push(0, 1);
	turn();
	assert_int_equal(t.count, WINDOW);
	push(0, 1);
	turn();
	expect_ask(1);
}

/* ---- another switch, another server ---- */

static void resume__sends_all_again_to_the_new_switch(void **state)
{
	(void)state;
	push(0, 1);
	push(0, 2);
	push(0, 3);
	turn();
	t.link.now_ns += 10 * MS;
	ack(1);
	turn();
	give(header(SPARSE_RESUME, 2, 5), 0, 1); /* nobody has named it */
	assert_int_equal(stats()->dropped, 1);
	assert_int_equal(t.count, 0);
	endpoint_sparse_switch(t.endpoint, INDEX + 1, &at_other, 2, MAP);
	endpoint_sparse_server(t.endpoint, &at_other);
	give(header(SPARSE_RESUME, 2, 5), 0, 1);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.sent[0].packet.kind, SPARSE_RESUMED);
	assert_int_equal(t.sent[0].packet.generation, 2);
	assert_int_equal(t.sent[0].packet.table, INDEX + 1);
	assert_true(link_address_equal(&t.sent[0].to, &at_other));
	assert_int_equal(stats()->resumes, 1);
	assert_true(endpoint_sparse_is_committed(t.endpoint, 1));
	assert_true(turn() == t.link.now_ns + RTO_FIRST_NS); /* of another way nothing is known */
	assert_int_equal(t.count, 2);
	expect_push(0, &at_other, 2, 2);
	expect_push(1, &at_other, 3, 3);
	assert_int_equal(t.sent[0].packet.table, INDEX + 1);
	assert_int_equal(t.sent[0].packet.generation, 2);
	give(header(SPARSE_RESUME, 2, 5), 0, 1); /* again: the answer was lost */
	assert_int_equal(t.count, 1);
	assert_int_equal(stats()->resumes, 1);
}

/* R-SP-32: ranks are of other keys then. */
static void resume__with_another_map_waits_for_it(void **state)
{
	struct sparse packet;

	(void)state;
	push(0, 1);
	turn();
	endpoint_sparse_switch(t.endpoint, INDEX, &at_switch, 2, MAP + 1);
	packet = header(SPARSE_RESUME, 2, 1);
	packet.map = MAP + 1;
	give(packet, 0, 0);
	assert_int_equal(t.count, 0);
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 2, 30), 0); /* that is not it */
	give(packet, 0, 0);
	assert_int_equal(t.count, 0);
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 1, 30), 0);
	packet.number = 0;
	give(packet, 0, 0);
	assert_int_equal(t.count, 0);
	packet.number = 1;
	assert_int_equal(endpoint_sparse_map(t.endpoint, 0, 0), 0); /* it is gone again */
	give(packet, 0, 0);
	assert_int_equal(t.count, 0);
	assert_int_equal(stats()->dropped, 0);
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 1, 30), 0);
	give(packet, 0, 0);
	assert_int_equal(t.count, 1);
	assert_int_equal(endpoint_sparse_worker(t.endpoint)->map, MAP + 1);
	assert_int_equal(endpoint_sparse_worker(t.endpoint)->table->ranks, 30);
	turn();
	assert_int_equal(t.sent[0].packet.map, MAP + 1);
}

static void report__says_what_was_committed_and_ends_the_generation(void **state)
{
	uint64_t row[WINDOW] = { 9, 9 };

	(void)state;
	push(0, 1);
	push(0, 1);
	push(0, 1);
	turn();
	ack(1);
	turn();
	give(header(SPARSE_COMMITTED, 1, 1), 0, 3);
	push(0, 1);
	endpoint_sparse_report(t.endpoint, 2, row);
	assert_int_equal(row[0], 0);
	assert_int_equal(row[1], 3);
	turn();
	assert_int_equal(endpoint_sparse_worker(t.endpoint)->sent, 4);
	ack(2);
	assert_false(endpoint_sparse_worker(t.endpoint)->push[2].is_acked);
}

/* R-SP-21 */
static void stream__ends_when_the_server_says_what_cannot_be(void **state)
{
	(void)state;
	push(0, 1);
	turn();
	assert_false(endpoint_sparse_is_broken(t.endpoint));
	give(header(SPARSE_COMMITTED, 1, 1), 2, 1);
	assert_true(endpoint_sparse_is_broken(t.endpoint));
	assert_int_equal(push(0, 1), 0);
	t.link.now_ns += 1000 * MS;
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
	give(header(SPARSE_COMMITTED, 1, 1), 0, 1);
	assert_false(endpoint_sparse_is_committed(t.endpoint, 1));
}

/* ---- the copy ---- */

/* A part of an epoch's BCAST: so many parts, of which the last has few ranks. */
static void give_bcast(uint64_t epoch, uint32_t part, uint32_t parts, uint32_t rank, uint32_t value)
{
	struct sparse packet = header(SPARSE_BCAST, 1, epoch);
	uint8_t at[BYTES] = { 0 };

	packet.worker = SPARSE_SERVER;
	packet.part = part;
	packet.parts = parts;
	packet.width = DIM;
	packet.count = part + 1 < parts ? (BYTES - 40) / PAIR_BYTES : 1;
	for (uint32_t i = 0; i < packet.count; i++) {
		sparse_body_put32(at + SPARSE_HEADER_BYTES + i * PAIR_BYTES, rank + i);
		sparse_body_put32(at + SPARSE_HEADER_BYTES + i * PAIR_BYTES + 4, value);
	}
	sparse_put(at, &packet);
	endpoint_sparse_serve(t.endpoint, at, sparse_bytes(&packet));
}

static void copy__has_what_was_broadcast_and_pulled(void **state)
{
	const struct copy_sparse *copy = endpoint_sparse_copy(t.endpoint);
	const uint32_t pulled[DIM] = { 70, 71 };

	(void)state;
	give_bcast(1, 0, 1, 5, 50);
	assert_int_equal(stats()->bcasts, 1);
	assert_int_equal(copy_sparse_value(copy, 5, 0)[0], 50);
	assert_null(copy_sparse_value(copy, 6, 0));
	endpoint_sparse_pulled(t.endpoint, 6, 1, 1, pulled);
	assert_memory_equal(copy_sparse_value(copy, 6, 0), pulled, sizeof(pulled));
	endpoint_sparse_told(t.endpoint, 1, 2); /* there is another epoch */
	assert_null(copy_sparse_value(copy, 5, 0));
	assert_int_equal(copy_sparse_value(copy, 5, 1)[0], 50);
	endpoint_sparse_past(t.endpoint, 1);
	assert_null(copy_sparse_value(copy, 5, 1));
	give_bcast(2, 1, 1, 5, 50); /* no such part */
	assert_int_equal(stats()->bcasts, 1);
	/* COMMITTED tells of an epoch, too. */
	give(header(SPARSE_COMMITTED, 1, 3), 0, 0);
	assert_int_equal(copy->newest, 3);
}

/* What has not come after 50 ms does not. */
static void copy__does_not_wait_for_ever(void **state)
{
	const struct copy_sparse *copy = endpoint_sparse_copy(t.endpoint);

	(void)state;
	give_bcast(1, 1, 2, 9, 1);
	assert_true(turn() == UINT64_MAX || copy->newest != copy->fresh);
	assert_int_equal(copy->newest, 1);
	assert_int_equal(copy->fresh, 0);
	assert_true(turn() == begin_ns + 50 * MS);
	t.link.now_ns += 50 * MS - 1;
	assert_true(turn() == begin_ns + 50 * MS);
	assert_int_equal(copy->fresh, 0);
	t.link.now_ns++;
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(copy->fresh, 1);
	assert_int_equal(copy->base, 1);
	/* The next is waited for as long, also if an older one has come meanwhile. */
	t.link.now_ns += 7 * MS;
	give_bcast(2, 1, 2, 9, 1);
	give_bcast(3, 1, 2, 9, 1);
	assert_true(turn() == t.link.now_ns + 50 * MS);
	t.link.now_ns += 20 * MS;
	give_bcast(2, 0, 2, 1, 1);
	assert_int_equal(copy->fresh, 2);
	assert_true(turn() == t.link.now_ns + 50 * MS);
	give_bcast(3, 0, 2, 1, 1);
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(copy->base, 1);
}

static void copy__begins_anew_with_another_map(void **state)
{
	const struct copy_sparse *copy = endpoint_sparse_copy(t.endpoint);
	struct sparse packet;

	(void)state;
	give_bcast(1, 0, 1, 5, 50);
	endpoint_sparse_switch(t.endpoint, INDEX, &at_switch, 2, MAP + 1);
	assert_int_equal(copy->told, 2);
	memory.asked = 0;
	memory.missing = 2;
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 1, 40), -ENOMEM);
	memory.missing = 0;
	packet = header(SPARSE_RESUME, 2, 2);
	packet.map = MAP + 1;
	give(packet, 0, 0);
	assert_int_equal(t.count, 0);
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 1, 40), 0);
	assert_int_equal(endpoint_sparse_map(t.endpoint, MAP + 1, 40), 0);
	endpoint_sparse_told(t.endpoint, 3, 0); /* somebody knows more already */
	give(packet, 0, 0);
	assert_int_equal(t.count, 1);
	assert_null(copy_sparse_value(copy, 5, 9));
	assert_int_equal(copy->generation, 2);
	assert_int_equal(copy->told, 3);
	assert_int_equal(copy->fresh, 1);
	assert_int_equal(copy->table->ranks, 40);
}

static void copy__that_nobody_asked_for_is_none(void **state)
{
	const uint32_t pulled[DIM] = { 70, 71 };

	(void)state;
	assert_null(endpoint_sparse_copy(t.endpoint));
	give_bcast(1, 0, 1, 5, 50);
	assert_int_equal(stats()->bcasts, 0);
	endpoint_sparse_pulled(t.endpoint, 6, 1, 1, pulled);
	endpoint_sparse_told(t.endpoint, 1, 2);
	endpoint_sparse_past(t.endpoint, 1);
	assert_true(turn() == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define COPY(name) cmocka_unit_test_setup_teardown(name, begin_with_copy, end)
		TEST(stream__of_what_cannot_be_is_none),
		TEST(pushes__go_to_the_switch_as_they_were_given),
		TEST(pushes__are_kept_until_they_are_committed),
		TEST(pushes__sent_again_are_no_sample),
		TEST(ask__comes_when_the_patience_is_over_and_again),
		TEST(ask__comes_at_once_if_somebody_waits),
		TEST(ask__comes_when_half_of_the_memory_is_in_use),
		TEST(resume__sends_all_again_to_the_new_switch),
		TEST(resume__with_another_map_waits_for_it),
		TEST(report__says_what_was_committed_and_ends_the_generation),
		TEST(stream__ends_when_the_server_says_what_cannot_be),
		COPY(copy__has_what_was_broadcast_and_pulled),
		COPY(copy__does_not_wait_for_ever),
		COPY(copy__begins_anew_with_another_map),
		TEST(copy__that_nobody_asked_for_is_none),
#undef TEST
#undef COPY
	};

	return cmocka_run_group_tests_name("dataplane-endpoint-sparse-life", tests, NULL, NULL);
}
