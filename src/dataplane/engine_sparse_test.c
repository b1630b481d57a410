/* SPDX-License-Identifier: Apache-2.0 */
/* What an aggregator does with the packets of sparse mode, and when it sends a flush: claims. What becomes of whole
 * networks of them is the simulator's (tally sim --sparse). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/layout_sparse.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/fake_link.h"
#include "util/rng.h"

enum { WORKERS = 2, RANKS = 700, INDEX = 3, MAP = 4, INSTANCE = 9, OUT_MAX = 400, STRANGER = 99 };
enum { PAIRS = 10 };       /* of a full push */
enum { TABLES_MAX = 7 };   /* odd: no room is left behind them */
enum { ONE = 0x3f800000 }; /* as a float32 */

/* One CUT, and, if all ranks are touched, a hundred FLUSHes of seven ranks each. */
static const struct sparse_table shape = { .ranks = RANKS,
					   .index = INDEX,
					   .workers = WORKERS,
					   .window = 2,
					   .dim = 1,
					   .bytes = 128 };

static struct fake_link net;
static struct {
	struct link_address peer[OUT_MAX];
	struct sparse packet[OUT_MAX];
	uint32_t count;
} fake;
static struct engine_sparse *engine;
static uint32_t ranks;     /* of the table */
static uint8_t values;     /* of the table: enum sparse_values */
static uint32_t registers; /* of the chip that is counted for; 0: none */

static void packet_note(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	assert_true(fake.count < OUT_MAX);
	fake.peer[fake.count] = *peer;
	assert_int_equal(sparse_check(at, bytes, &fake.packet[fake.count]), WIRE_OK);
	fake.count++;
}

static struct link_address address_of(uint16_t worker)
{
	return (struct link_address){ .ip = { [15] = (uint8_t)(worker + 1) }, .port = 7000 };
}

/* The packet, with as many ranks as it has pairs, those after its predecessor's and at the end the first, or a body of zeros; what comes of it
 * is in fake. */
static uint64_t give(uint16_t from, struct sparse packet)
{
	struct link_address peer = address_of(from);
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };
	uint32_t bytes = sparse_bytes(&packet);

	sparse_put(at, &packet);
	if (packet.kind == SPARSE_SETUP)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, INSTANCE);
	for (uint32_t i = 0; i < packet.count && packet.kind == SPARSE_PUSH; i++) {
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 8 * i,
				  ((uint32_t)(packet.number - 1) * packet.count + i) % ranks);
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 8 * i + 4,
				  values == SPARSE_LNS ? ONE : i + 1);
	}
	fake.count = 0;
	engine_sparse_serve(engine, &peer, at, bytes);
	return engine_sparse_turn(engine);
}

static struct sparse header_of(enum sparse_kind kind, uint64_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = INDEX,
				.worker = SPARSE_SERVER,
				.generation = 1,
				.number = number,
				.map = MAP };
}

static struct sparse push_of(uint16_t worker, uint64_t seq)
{
	struct sparse packet = header_of(SPARSE_PUSH, seq);

	packet.worker = worker;
	packet.width = 1;
	packet.count = 3;
	return packet;
}

/* What the server would say of a flush of so many ranks of which these parts have come: the first 64. */
static uint64_t have(uint64_t epoch, uint32_t touched, uint64_t bits)
{
	struct sparse packet = header_of(SPARSE_HAVE, epoch);
	struct link_address peer = address_of(SPARSE_SERVER);
	uint8_t at[SPARSE_HEADER_BYTES + 8];

	packet.parts = sparse_flush_parts(&shape, touched);
	packet.count = packet.width = 1;
	sparse_put(at, &packet);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, bits);
	fake.count = 0;
	engine_sparse_serve(engine, &peer, at, sizeof(at));
	return engine_sparse_turn(engine);
}

static int begin_with(uint32_t ranks_count, uint64_t pairs_max)
{
	struct engine_sparse_options options = { .link = &net.link,
						 .tables_max = TABLES_MAX,
						 .registers = registers };
	struct engine_sparse_table table = { .shape = shape,
					     .instance = INSTANCE,
					     .pairs_max = pairs_max };
	struct sparse setup = header_of(SPARSE_SETUP, 1);

	table.shape.ranks = ranks = ranks_count;
	table.shape.values = values;
	memset(&fake, 0, sizeof(fake));
	fake_link_init(&net, 1000 * 1000 * 1000, packet_note);
	engine = engine_sparse_open(&options);
	if (!engine || engine_sparse_add(engine, &table))
		return 1;
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct link_address address = address_of(i);

		engine_sparse_bind(engine, INDEX, i, &address);
	}
	struct link_address address = address_of(SPARSE_SERVER);

	engine_sparse_bind(engine, INDEX, SPARSE_SERVER, &address);
	setup.worker = 0;
	setup.parts = 1;
	setup.count = WORKERS;
	setup.width = shape.window;
	give(SPARSE_SERVER, setup);
	assert_int_equal(fake.count, 0); /* R-SP-15: nobody has named it yet */
	assert_int_equal(engine_sparse_name(engine, INDEX, setup.generation), 0);
	give(SPARSE_SERVER, setup);
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.packet[0].kind, SPARSE_READY);
	return 0;
}

static int begin(void **state)
{
	(void)state;
	return begin_with(RANKS, RANKS);
}

static int end(void **state)
{
	(void)state;
	engine_sparse_close(engine);
	return 0;
}

/* R-SP-5 */
static void whoever_sends_for_another_is_not_heard(void **state)
{
	const struct engine_sparse_stats *stats = engine_sparse_stats(engine);
	struct sparse push = push_of(0, 1), ask = header_of(SPARSE_ASK, 0);

	(void)state;
	give(STRANGER, push);
	give(1, push);
	assert_int_equal(fake.count, 0);
	assert_int_equal(stats->wrong_address, 2);
	ask.worker = 1;
	give(0, ask);
	give(0, header_of(SPARSE_COMMITTED, 1));
	assert_int_equal(stats->wrong_address, 4);
	assert_int_equal(engine_sparse_state(engine, INDEX)->pairs, 0);
	give(0, push);
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.packet[0].kind, SPARSE_ACK);
	assert_int_equal(engine_sparse_state(engine, INDEX)->pairs, 3);
	push.table++;
	give(0, push);
	assert_int_equal(stats->unknown_table, 1);
}

/* R-SP-5, R-WIRE-8 */
static void a_nonce_binds_an_address_and_a_later_hello_moves_it(void **state)
{
	static const uint8_t nonces[WORKERS + 1][WIRE_NONCE_BYTES] = { "worker 0", "worker 1",
								       "the server" };
	const struct engine_sparse_stats *stats = engine_sparse_stats(engine);
	struct engine_sparse_table table = { .shape = shape, .instance = 5, .nonces = nonces };
	struct wire hello = {
		.type = WIRE_HELLO, .job = 6, .child = 1, .seq = 7, .lanes = WIRE_HELLO_LANES
	};
	struct link_address first = address_of(1), second = address_of(STRANGER);

	(void)state;
	table.shape.index = 6;
	assert_int_equal(engine_sparse_add(engine, &table), 0);
	assert_false(engine_sparse_hello(engine, &first, &hello, nonces[0]));
	assert_true(engine_sparse_hello(engine, &first, &hello, nonces[1]));
	assert_true(engine_sparse_hello(engine, &first, &hello, nonces[1])); /* a copy */
	assert_false(engine_sparse_hello(engine, &second, &hello, nonces[1]));
	hello.seq--;
	assert_false(engine_sparse_hello(engine, &second, &hello, nonces[1]));
	hello.seq += 2;
	assert_true(engine_sparse_hello(engine, &second, &hello, nonces[1]));
	assert_int_equal(stats->wrong_nonce, 3);
	hello.seq--; /* overtaken: nobody is told */
	assert_true(engine_sparse_hello(engine, &second, &hello, nonces[1]));
	assert_int_equal(stats->overtaken, 1);
	assert_false(engine_sparse_hello(engine, &first, &hello, nonces[1]));
	assert_false(engine_sparse_hello(engine, &second, &hello, nonces[0]));
	hello.seq -= 16;
	assert_false(engine_sparse_hello(engine, &second, &hello, nonces[1]));
	assert_int_equal(stats->overtaken, 1);
	assert_int_equal(stats->wrong_nonce, 6);
	hello.child = SPARSE_SERVER;
	assert_true(engine_sparse_hello(engine, &first, &hello, nonces[WORKERS]));
	hello.child = WORKERS;
	assert_false(engine_sparse_hello(engine, &first, &hello, nonces[WORKERS]));
	hello.job = INDEX; /* bound by hand: it has no nonces */
	hello.child = 0;
	assert_false(engine_sparse_hello(engine, &first, &hello, nonces[0]));
}

/* R-SP-14 */
static void new_values_go_to_all_workers(void **state)
{
	struct sparse bcast = header_of(SPARSE_BCAST, 1);

	(void)state;
	bcast.width = 1;
	bcast.parts = 1;
	give(SPARSE_SERVER, bcast);
	assert_int_equal(fake.count, WORKERS);
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct link_address address = address_of(i);

		assert_true(link_address_equal(&fake.peer[i], &address));
		assert_int_equal(fake.packet[i].kind, SPARSE_BCAST);
	}
}

/* All ranks are touched, which closes an epoch: a window of parts, and no more until the server has some. */
static void a_flush_goes_as_fast_as_it_comes_and_again_when_it_is_lost(void **state)
{
	const uint32_t parts = 101;
	struct sparse push = push_of(0, 0);
	uint64_t due_ns = 0;

	(void)state;
	assert_int_equal(sparse_flush_parts_max(&shape), parts);
	push.count = PAIRS;
	while (push.number < RANKS / PAIRS) {
		push.number++;
		due_ns = give(0, push);
	}
	assert_int_equal(fake.count, 1 + 64);
	assert_int_equal(fake.packet[1].kind, SPARSE_CUT);
	assert_int_equal(fake.packet[2].kind, SPARSE_FLUSH_SHORT);
	assert_int_equal(fake.packet[2].count, 7);
	assert_int_equal(fake.packet[64].part, 63);
	assert_true(due_ns > net.now_ns);
	net.now_ns += 100000;
	have(1, RANKS, 0xffffffff); /* the first 32: the last 37 follow, as far as there is room */
	assert_int_equal(fake.count, 32);
	assert_int_equal(fake.packet[0].part, 64);
	net.now_ns += 100000;
	due_ns = have(1, RANKS, 0xfffffffffffffffe | 1);
	assert_int_equal(fake.count, parts - 96);
	/* A time-out asks with one part; the others go when it has been twice as long. */
	fake.count = 0;
	net.now_ns = due_ns;
	due_ns = engine_sparse_turn(engine);
	assert_int_equal(fake.count, 1);
	fake.count = 0;
	net.now_ns = due_ns + 100000;
	engine_sparse_turn(engine);
	assert_int_equal(fake.count, parts - 64 - 1);
	assert_int_equal(engine_sparse_stats(engine)->parts_first, parts);
	assert_int_equal(engine_sparse_stats(engine)->parts_again, parts - 64);
	give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, 1));
	assert_int_equal(fake.count, 0);
	assert_int_equal(engine_sparse_turn(engine), UINT64_MAX);
	assert_int_equal(engine_sparse_stats(engine)->flips, 1);
}

/* Of 700 ranks few are sent if few were touched; of the epoch after it fewer, and then none. */
static void a_flush_has_the_touched_ranks_alone(void **state)
{
	static const uint32_t counts[] = { PAIRS, 1, 0 };
	struct sparse push = push_of(0, 0);

	(void)state;
	for (uint32_t epoch = 1; epoch <= 3; epoch++) {
		uint32_t touched = counts[epoch - 1], parts = (touched + 6) / 7 + 1;

		push.number++;
		push.count = (uint16_t)touched;
		give(0, push);
		give(SPARSE_SERVER, header_of(SPARSE_ASK, 0));
		assert_int_equal(fake.count, parts);
		for (uint32_t part = 0; part < parts; part++) {
			assert_int_equal(fake.packet[part].parts, parts);
			assert_int_equal(fake.packet[part].part, part);
			assert_int_equal(fake.packet[part].kind,
					 part ? SPARSE_FLUSH_SHORT : SPARSE_CUT);
		}
		have(epoch, touched, 1);
		net.now_ns += 1000 * 1000 * 1000;
		fake.count = 0;
		engine_sparse_turn(engine);
		assert_int_equal(fake.count, parts == 1 ? 1 : parts - 1); /* what has not come */
		give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, epoch));
	}
}

/* A small flush is committed before anything is said of its parts: else a loss would always cost the first RTO. */
static void a_commit_says_how_long_a_flush_takes(void **state)
{
	struct sparse push = push_of(0, 0);
	uint64_t due_ns;

	(void)state;
	for (uint32_t epoch = 1; epoch <= 3; epoch++) {
		push.number++;
		give(0, push);
		due_ns = give(SPARSE_SERVER, header_of(SPARSE_ASK, 0));
		assert_int_equal(fake.count, 2);
		/* RFC 6298: 3 ms and four times half of it; then a quarter less of that each time. */
		assert_int_equal(due_ns - net.now_ns, epoch == 1   ? 100 * 1000 * 1000
						      : epoch == 2 ? 9 * 1000 * 1000
								   : 7500 * 1000);
		net.now_ns += 3 * 1000 * 1000;
		give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, epoch));
	}
	/* What was sent twice says nothing. */
	push.number++;
	give(0, push);
	due_ns = give(SPARSE_SERVER, header_of(SPARSE_ASK, 0));
	net.now_ns = due_ns;
	engine_sparse_turn(engine);
	net.now_ns += 1000 * 1000 * 1000;
	give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, 4));
	push.number++;
	give(0, push);
	due_ns = give(SPARSE_SERVER, header_of(SPARSE_ASK, 0));
	assert_true(due_ns - net.now_ns < 20 * 1000 * 1000);
}

/* The next push's flush begins. When it would be asked for again is what the samples so far have come to: some ms. */
static uint64_t flush_of_little(struct sparse *push)
{
	uint64_t due_ns;

	push->number++;
	give(0, *push);
	due_ns = give(SPARSE_SERVER, header_of(SPARSE_ASK, 0));
	assert_true(due_ns - net.now_ns < 20 * 1000 * 1000);
	return due_ns;
}

/* Karn: an answer to what went twice may be to either. The first flush's samples are 100 us; of what goes again after it
 * the answers come a second late, and are none. */
static void what_was_sent_again_is_no_sample(void **state)
{
	struct sparse push = push_of(0, 0);
	uint64_t due_ns;

	(void)state;
	push.count = PAIRS;
	while (push.number < RANKS / PAIRS) {
		push.number++;
		give(0, push);
	}
	net.now_ns += 100 * 1000;
	have(1, RANKS, UINT64_MAX); /* all that is out */
	give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, 1));
	/* One part runs out. */
	net.now_ns = flush_of_little(&push);
	engine_sparse_turn(engine);
	net.now_ns += 1000 * 1000 * 1000;
	have(2, PAIRS, 1);
	give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, 2));
	/* All have come, COMMITTED does not: all go again. */
	flush_of_little(&push);
	net.now_ns += 100 * 1000;
	due_ns = have(3, PAIRS, UINT64_MAX);
	net.now_ns = due_ns;
	fake.count = 0;
	engine_sparse_turn(engine);
	assert_int_equal(fake.count, 3);
	net.now_ns += 1000 * 1000 * 1000;
	have(3, PAIRS, UINT64_MAX);
	give(SPARSE_SERVER, header_of(SPARSE_COMMITTED, 3));
	flush_of_little(&push);
}

static void an_epoch_closes_when_it_is_old_enough(void **state)
{
	struct engine_sparse_table table = { .shape = shape, .instance = 5, .age_ns = 1000 };
	struct link_address server = address_of(SPARSE_SERVER), worker = address_of(0);
	struct sparse setup = header_of(SPARSE_SETUP, 1), push = push_of(0, 1);
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	(void)state;
	table.shape.index = setup.table = push.table = 6;
	assert_int_equal(engine_sparse_add(engine, &table), 0);
	engine_sparse_bind(engine, 6, 0, &worker);
	engine_sparse_bind(engine, 6, SPARSE_SERVER, &server);
	engine_sparse_name(engine, 6, setup.generation);
	setup.worker = 0;
	setup.parts = 1;
	setup.count = WORKERS;
	setup.width = shape.window;
	sparse_put(at, &setup);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, 5);
	engine_sparse_serve(engine, &server, at, sparse_bytes(&setup));
	assert_int_equal(engine_sparse_turn(engine), UINT64_MAX); /* an empty one never is */
	assert_int_equal(give(0, push), net.now_ns + 1000);
	net.now_ns += 600;
	push.number++;
	assert_int_equal(give(0, push), net.now_ns + 400); /* its oldest push is as old as before */
	net.now_ns += 399;
	engine_sparse_turn(engine);
	assert_int_equal(engine_sparse_stats(engine)->flips, 0);
	net.now_ns += 1;
	engine_sparse_turn(engine);
	assert_int_equal(engine_sparse_stats(engine)->flips, 1);
}

/* R-SP-9. Nobody has said how many pairs it has: so many that its flush is small beside them. */
static void an_epoch_lasts_until_its_flush_is_worth_it(void **state)
{
	static const uint32_t counts[] = { 4000, 700 };
	static const uint64_t pairs[] = { 20ull * 4000, 65540 };

	for (uint32_t i = 0; i < 2; i++) {
		struct sparse push = push_of(0, 0);

		assert_int_equal(begin_with(counts[i], 0), 0);
		push.count = PAIRS;
		for (uint64_t sum = PAIRS; sum <= pairs[i]; sum += PAIRS) {
			assert_int_equal(engine_sparse_stats(engine)->flips, 0);
			push.number++;
			give(0, push);
		}
		assert_int_equal(engine_sparse_stats(engine)->flips, 1);
		end(state);
	}
}

static void what_cannot_be_added_is_refused(void **state)
{
	struct engine_sparse_table table = { .shape = shape, .instance = 1 };
	uint64_t used = engine_sparse_memory_used(engine);

	(void)state;
	assert_int_equal(used, engine_sparse_table_bytes(&shape));
	assert_int_equal(engine_sparse_add(engine, &table), -EEXIST);
	table.shape.index = TABLES_MAX;
	assert_int_equal(engine_sparse_add(engine, &table), -ENOSPC);
	assert_int_equal(engine_sparse_remove(engine, TABLES_MAX), -ENOENT);
	table.shape.index = 1;
	table.shape.ranks = 1u << 28;
	assert_int_equal(engine_sparse_add(engine, &table), -ENOSPC);
	table.shape.ranks = 0;
	assert_int_equal(engine_sparse_add(engine, &table), -EINVAL);
	table.shape.ranks = 1;
	table.instance = 0;
	assert_int_equal(engine_sparse_add(engine, &table), -EINVAL);
	assert_int_equal(engine_sparse_memory_used(engine), used);
	assert_int_equal(engine_sparse_remove(engine, 1), -ENOENT);
	assert_int_equal(engine_sparse_remove(engine, INDEX), 0);
	assert_int_equal(engine_sparse_memory_used(engine), 0);
	assert_null(engine_sparse_state(engine, INDEX));
}

/* A chip's counters, made by comparing all pairs with all. */
static void count_slowly(const uint32_t *rank, uint32_t count, struct engine_sparse_stats *want)
{
	uint32_t further = 0, most = 1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t alike = 1;

		for (uint32_t k = 0; k < i; k++)
			alike += rank[k] % registers == rank[i] % registers;
		further += alike > 1;
		most = alike > most ? alike : most;
	}
	want->recirculations += further;
	want->recirculated += further > 0;
	want->passes_again += most - 1;
}

static void push_ranks(uint16_t worker, uint64_t seq, const uint32_t *rank, uint32_t count)
{
	struct link_address peer = address_of(worker);
	struct sparse push = push_of(worker, seq);
	uint8_t at[LAYOUT_BYTES] = { 0 };

	push.count = (uint16_t)count;
	sparse_put(at, &push);
	for (uint32_t i = 0; i < count; i++)
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 8 * i, rank[i]);
	engine_sparse_serve(engine, &peer, at, sparse_bytes(&push));
	engine_sparse_turn(engine);
	fake.count = 0;
}

static void a_chip_of_these_registers_would_have_recirculated_as_often(void **state)
{
	enum { PUSHES = 300, ROOM = (LAYOUT_BYTES - SPARSE_HEADER_BYTES) / 8 };
	static const uint32_t chips[] = { 1, 7, 8, 32, LAYOUT_REGISTERS_MAX };
	struct rng rng;

	rng_init(&rng, 1, 0);
	for (uint32_t chip = 0; chip < sizeof(chips) / sizeof(*chips); chip++) {
		const struct engine_sparse_stats *got;
		struct engine_sparse_stats want = { 0 };

		registers = chips[chip];
		assert_int_equal(begin_with(RANKS, 1 << 30), 0);
		for (uint64_t seq = 1; seq <= PUSHES; seq++) {
			uint32_t rank[ROOM], count = rng_below(&rng, ROOM + 1);

			for (uint32_t i = 0; i < count; i++)
				rank[i] = rng_below(&rng, RANKS);
			count_slowly(rank, count, &want);
			push_ranks(0, seq, rank, count);
			push_ranks(0, seq, rank, count); /* a repeat touches nothing */
		}
		got = engine_sparse_stats(engine);
		assert_int_equal(got->verdict[SWITCH_SPARSE_ADDED], PUSHES);
		assert_int_equal(got->recirculations, want.recirculations);
		assert_int_equal(got->recirculated, want.recirculated);
		assert_int_equal(got->passes_again, want.passes_again);
		assert_true(want.recirculated < PUSHES);
		assert_true(want.recirculated > 0);
		end(state);
	}
	registers = 0;
}

static void a_chip_takes_no_datagram_that_it_cannot_parse(void **state)
{
	enum { BYTES = SPARSE_HEADER_BYTES + 20 * 8 };
	struct engine_sparse_table table = { .shape = shape, .instance = 1 };
	struct sparse push = push_of(0, 1);

	registers = 8;
	assert_int_equal(begin_with(RANKS, RANKS), 0);
	table.shape.index = 1;
	table.shape.bytes = LAYOUT_BYTES + 1;
	assert_int_equal(engine_sparse_add(engine, &table), -EINVAL);
	table.shape.bytes = LAYOUT_BYTES;
	assert_int_equal(engine_sparse_add(engine, &table), 0);
	push.count = (BYTES - SPARSE_HEADER_BYTES) / 8;
	give(0, push);
	assert_int_equal(fake.count, 0);
	assert_int_equal(engine_sparse_stats(engine)->fault[WIRE_FAULT_LENGTH], 1);
	push.count--;
	give(0, push);
	assert_int_equal(fake.count, 1);
	assert_int_equal(engine_sparse_state(engine, INDEX)->pairs, 19);
	end(state);
	registers = 0;
}

/* R-LNS-1, R-LNS-5 */
static void a_table_of_floats_is_lent_what_adds_them_up(void **state)
{
	values = SPARSE_LNS;
	assert_int_equal(begin_with(RANKS, RANKS), 0);
	give(0, push_of(0, 1));
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.packet[0].kind, SPARSE_ACK);
	assert_int_equal(engine_sparse_state(engine, INDEX)->pairs, 3);
	end(state);
	values = SPARSE_FIXED;
}

static void there_is_room_for_1024_tables_if_nobody_says(void **state)
{
	struct engine_sparse_options options = { .link = &net.link };
	struct engine_sparse_table table = { .shape = shape, .instance = 1 };

	(void)state;
	fake_link_init(&net, 1000 * 1000 * 1000, packet_note);
	engine = engine_sparse_open(&options);
	assert_non_null(engine);
	table.shape.index = 1023;
	assert_int_equal(engine_sparse_add(engine, &table), 0);
	table.shape.index = 1024;
	assert_int_equal(engine_sparse_add(engine, &table), -ENOSPC);
	end(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whoever_sends_for_another_is_not_heard, begin, end),
		cmocka_unit_test_setup_teardown(a_nonce_binds_an_address_and_a_later_hello_moves_it,
						begin, end),
		cmocka_unit_test_setup_teardown(new_values_go_to_all_workers, begin, end),
		cmocka_unit_test_setup_teardown(
			a_flush_goes_as_fast_as_it_comes_and_again_when_it_is_lost, begin, end),
		cmocka_unit_test_setup_teardown(a_flush_has_the_touched_ranks_alone, begin, end),
		cmocka_unit_test_setup_teardown(a_commit_says_how_long_a_flush_takes, begin, end),
		cmocka_unit_test_setup_teardown(what_was_sent_again_is_no_sample, begin, end),
		cmocka_unit_test_setup_teardown(an_epoch_closes_when_it_is_old_enough, begin, end),
		cmocka_unit_test(an_epoch_lasts_until_its_flush_is_worth_it),
		cmocka_unit_test_setup_teardown(what_cannot_be_added_is_refused, begin, end),
		cmocka_unit_test(there_is_room_for_1024_tables_if_nobody_says),
		cmocka_unit_test(a_chip_of_these_registers_would_have_recirculated_as_often),
		cmocka_unit_test(a_chip_takes_no_datagram_that_it_cannot_parse),
		cmocka_unit_test(a_table_of_floats_is_lent_what_adds_them_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
