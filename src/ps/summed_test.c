/* SPDX-License-Identifier: Apache-2.0 */
/* summed_test.c - which switch a table's generation has, and where datagrams go. Switches, homes and the kernel's
 * random bytes are played. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "core/sparse/wire_sparse.h"
#include "ps/internal.h"

enum { TABLES = 2, WORKERS = 2, CALLS_MAX = 8 };

static const uint64_t ms_ns = 1000000;
static const struct link_address at_7 = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7 },
					  .port = 7 };
static const struct link_address at_8 = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 8 },
					  .port = 8 };

static struct {
	struct ps_server server;
	struct ps_table table[TABLES];
	struct server_sparse sums[TABLES];
	struct ps_worker worker[TABLES][WORKERS + 1]; /* the last is none: nobody may look */
	struct ps_conn conn;
	/* What is played. */
	uint64_t now_ns;
	bool is_drained, is_spent, is_stuck, is_random_out;
	int add_error;
	uint16_t taken;      /* indices below this one are other tables' */
	uint64_t turn_ns[3]; /* home of each table, engine */
	/* What is noted. */
	uint8_t random;      /* the last byte that was given */
	size_t random_bytes; /* most in one call */
	struct engine_sparse_table added;
	uint8_t added_nonces[WORKERS + 1][WIRE_NONCE_BYTES];
	struct link_address bound_at;
	uint32_t adds, removes, names, drains, asks, switches, flushes, hellos, welcomes;
	uint32_t to_switch, to_home[TABLES], knocked[TABLES], turns;
	uint16_t index, bound;
	uint64_t instance, generation;
	struct link_address at, worker_at;
	uint16_t worker_known, switched[CALLS_MAX];
	uint8_t out[2048];
	enum ps_level level;
	uint32_t lines;
	char line[512];
} test;

static uint32_t table_idx(const struct home_sparse *home)
{
	for (uint32_t i = 0; i < TABLES; i++)
		if ((const void *)home == (const void *)&test.table[i])
			return i;
	fail_msg("no such table");
	return 0;
}

int __wrap_engine_sparse_add(struct engine_sparse *engine, const struct engine_sparse_table *table);
int __wrap_engine_sparse_remove(struct engine_sparse *engine, uint16_t index);
int __wrap_engine_sparse_bind(struct engine_sparse *engine, uint16_t index, uint16_t worker,
			      const struct link_address *address);
int __wrap_engine_sparse_name(struct engine_sparse *engine, uint16_t index, uint64_t generation);
bool __wrap_engine_sparse_hello(struct engine_sparse *engine, const struct link_address *peer,
				const struct wire *hello, const uint8_t *nonce);
void __wrap_engine_sparse_serve(struct engine_sparse *engine, const struct link_address *peer,
				const uint8_t *at, uint32_t bytes);
uint64_t __wrap_engine_sparse_turn(struct engine_sparse *engine);
const struct switch_sparse *__wrap_engine_sparse_state(const struct engine_sparse *engine,
						       uint16_t index);
void __wrap_home_sparse_drain(struct home_sparse *home);
void __wrap_home_sparse_instance(struct home_sparse *home, uint64_t instance, uint16_t index,
				 const struct link_address *at_switch);
void __wrap_home_sparse_worker(struct home_sparse *home, uint16_t worker,
			       const struct link_address *at_worker);
void __wrap_home_sparse_serve(struct home_sparse *home, const struct link_address *peer,
			      const uint8_t *at, uint32_t bytes);
uint64_t __wrap_home_sparse_turn(struct home_sparse *home);
const struct server_sparse *__wrap_home_sparse_server(const struct home_sparse *home);
bool __wrap_server_sparse_is_drained(const struct server_sparse *server);
bool __wrap_server_sparse_is_spent(const struct server_sparse *server);
bool __wrap_ps_table_is_stuck(const struct ps_table *table);
void __wrap_ps_aggregator_ask(struct ps_server *server, struct ps_hosted *hosted);
void __wrap_ps_serve_switch(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker);
__attribute__((format(printf, 4, 5))) void __wrap_ps_log(const struct ps_server *server,
							 enum ps_level level, struct ps_about about,
							 const char *format, ...);
uint64_t __wrap_ps_now(const struct ps_server *server);
void __wrap_table_client_name(struct table_client *client, uint64_t generation);
bool __wrap_knock_serve(struct knock *knock, const struct link_address *peer, const uint8_t *at,
			uint32_t bytes);
uint8_t *__wrap_outbox_put(struct outbox *outbox, const struct link_address *peer, uint32_t bytes);
void __wrap_outbox_flush(struct outbox *outbox);
ssize_t __wrap_getrandom(void *at, size_t bytes, unsigned flags);

int __wrap_engine_sparse_add(struct engine_sparse *engine, const struct engine_sparse_table *table)
{
	assert_null(engine);
	test.adds++;
	test.added = *table;
	memcpy(test.added_nonces, table->nonces, sizeof(test.added_nonces));
	return test.add_error;
}

int __wrap_engine_sparse_remove(struct engine_sparse *engine, uint16_t index)
{
	assert_null(engine);
	test.removes++;
	test.index = index;
	return 0;
}

int __wrap_engine_sparse_bind(struct engine_sparse *engine, uint16_t index, uint16_t worker,
			      const struct link_address *address)
{
	assert_null(engine);
	assert_int_equal(worker, SPARSE_SERVER);
	test.bound = index;
	test.bound_at = *address;
	return 0;
}

int __wrap_engine_sparse_name(struct engine_sparse *engine, uint16_t index, uint64_t generation)
{
	assert_null(engine);
	assert_int_equal(index, test.index);
	test.names++;
	test.generation = generation;
	return 0;
}

bool __wrap_engine_sparse_hello(struct engine_sparse *engine, const struct link_address *peer,
				const struct wire *hello, const uint8_t *nonce)
{
	assert_null(engine);
	assert_ptr_equal(peer, &at_7);
	assert_int_equal(nonce[0], 0xa0);
	test.index = hello->job;
	test.hellos++;
	return true;
}

void __wrap_engine_sparse_serve(struct engine_sparse *engine, const struct link_address *peer,
				const uint8_t *at, uint32_t bytes)
{
	assert_null(engine);
	assert_non_null(peer);
	assert_true(bytes > 0 && at[0] == SPARSE_FIRST_BYTE);
	test.to_switch++;
}

uint64_t __wrap_engine_sparse_turn(struct engine_sparse *engine)
{
	assert_null(engine);
	assert_int_equal(test.flushes, 1); /* what goes to the switch inside has left */
	return test.turn_ns[2];
}

const struct switch_sparse *__wrap_engine_sparse_state(const struct engine_sparse *engine,
						       uint16_t index)
{
	static struct switch_sparse *const some = (struct switch_sparse *)(void *)&test;

	assert_null(engine);
	return index < test.taken ? some : NULL;
}

void __wrap_home_sparse_drain(struct home_sparse *home)
{
	assert_int_equal(table_idx(home), 0);
	test.drains++;
}

void __wrap_home_sparse_instance(struct home_sparse *home, uint64_t instance, uint16_t index,
				 const struct link_address *at_switch)
{
	assert_int_equal(table_idx(home), 0);
	test.instance = instance;
	test.index = index;
	test.at = *at_switch;
}

void __wrap_home_sparse_worker(struct home_sparse *home, uint16_t worker,
			       const struct link_address *at_worker)
{
	assert_int_equal(table_idx(home), 0);
	test.worker_known = worker;
	test.worker_at = *at_worker;
}

void __wrap_home_sparse_serve(struct home_sparse *home, const struct link_address *peer,
			      const uint8_t *at, uint32_t bytes)
{
	assert_non_null(peer);
	assert_true(bytes > 0 && at[0] == SPARSE_FIRST_BYTE);
	test.to_home[table_idx(home)]++;
}

uint64_t __wrap_home_sparse_turn(struct home_sparse *home)
{
	test.turns++;
	return test.turn_ns[table_idx(home)];
}

const struct server_sparse *__wrap_home_sparse_server(const struct home_sparse *home)
{
	return &test.sums[table_idx(home)];
}

bool __wrap_server_sparse_is_drained(const struct server_sparse *server)
{
	assert_ptr_equal(server, &test.sums[0]);
	return test.is_drained;
}

bool __wrap_server_sparse_is_spent(const struct server_sparse *server)
{
	assert_ptr_equal(server, &test.sums[0]);
	return test.is_spent;
}

bool __wrap_ps_table_is_stuck(const struct ps_table *table)
{
	assert_non_null(table);
	return test.is_stuck;
}

void __wrap_ps_aggregator_ask(struct ps_server *server, struct ps_hosted *hosted)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(hosted, &test.server.hosted[0]);
	assert_int_equal(hosted->tried, 0);
	test.asks++;
}

void __wrap_ps_serve_switch(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(hosted, &server->hosted[0]);
	assert_true(test.switches < CALLS_MAX);
	test.switched[test.switches++] = worker;
}

void __wrap_ps_log(const struct ps_server *server, enum ps_level level, struct ps_about about,
		   const char *format, ...)
{
	va_list values;
	int named;

	assert_ptr_equal(server, &test.server);
	test.level = level;
	test.lines++;
	named = snprintf(test.line, sizeof(test.line), "table %s: ", about.table);
	va_start(values, format);
	vsnprintf(test.line + named, sizeof(test.line) - (size_t)named, format, values);
	va_end(values);
}

uint64_t __wrap_ps_now(const struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	return test.now_ns;
}

void __wrap_table_client_name(struct table_client *client, uint64_t generation)
{
	assert_ptr_equal(client, test.server.hosted[0].client);
	test.generation = generation;
}

bool __wrap_knock_serve(struct knock *knock, const struct link_address *peer, const uint8_t *at,
			uint32_t bytes)
{
	assert_non_null(peer);
	assert_non_null(at);
	assert_true(bytes >= WIRE_HEADER_BYTES);
	assert_true(knock < &test.server.hosted[TABLES].knock);
	for (uint32_t i = 0; i < TABLES; i++)
		test.knocked[i] += knock == &test.server.hosted[i].knock;
	return false;
}

uint8_t *__wrap_outbox_put(struct outbox *outbox, const struct link_address *peer, uint32_t bytes)
{
	assert_ptr_equal(outbox, &test.server.outbox);
	assert_true(link_address_equal(peer, &at_7));
	assert_true(bytes <= sizeof(test.out));
	test.welcomes++;
	return test.out;
}

void __wrap_outbox_flush(struct outbox *outbox)
{
	assert_ptr_equal(outbox, &test.server.outbox);
	test.flushes++;
}

ssize_t __wrap_getrandom(void *at, size_t bytes, unsigned flags)
{
	assert_int_equal(flags, 0);
	if (test.is_random_out)
		return -1;
	test.random_bytes = bytes > test.random_bytes ? bytes : test.random_bytes;
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = test.random += 2; /* even ones: an instance is made odd */
	return (ssize_t)bytes;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

/* Two tables of two workers; the first has 5 hot keys. */
static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.now_ns = 3000 * ms_ns;
	test.server.hosted_count = TABLES;
	test.server.self = at_8;
	test.server.options.drain_ns = 2000 * ms_ns;
	for (uint32_t i = 0; i < TABLES; i++) {
		test.table[i].home = (struct home_sparse *)(void *)&test.table[i];
		test.table[i].shape.workers = WORKERS;
		test.server.hosted[i].table = &test.table[i];
		test.server.hosted[i].worker = test.worker[i];
		test.worker[i][WORKERS].conn = &test.conn;
		strcpy(test.server.hosted[i].options.table.name, i ? "wide" : "emb");
	}
	test.table[0].map.keys = 5;
	test.sums[0].generation = 6ull << SPARSE_RANDOM_BITS | 99;
	hosted()->options.pairs_max = 1000;
	hosted()->options.age_us = 70;
	for (uint32_t i = 0; i < 3; i++)
		test.turn_ns[i] = UINT64_MAX;
	return 0;
}

static void line_is(enum ps_level level, const char *words)
{
	assert_int_equal(test.level, level);
	if (!strstr(test.line, words))
		fail_msg("no \"%s\" in: %s", words, test.line);
}

/* ---- the switch ---- */

static void inside__switch_is_the_tables_with_new_nonces(void **state)
{
	(void)state;
	test.worker[0][1].conn = &test.conn;
	test.now_ns = 4000 * ms_ns;
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(test.adds, 1);
	assert_int_equal(test.added.shape.workers, WORKERS);
	assert_int_equal(test.added.shape.index, PS_TABLES_MAX); /* behind the tables' own */
	assert_int_equal(test.added.pairs_max, 1000);
	assert_int_equal(test.added.age_ns, 70000);
	assert_int_equal(test.added.instance & 1, 1); /* never 0 */
	assert_true(test.added.instance == test.instance);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_memory_equal(test.worker[0][i].nonce, test.added_nonces[i],
				    WIRE_NONCE_BYTES);
	assert_memory_not_equal(test.added_nonces[0], test.added_nonces[1], WIRE_NONCE_BYTES);
	assert_memory_not_equal(test.added_nonces[1], test.added_nonces[2], WIRE_NONCE_BYTES);
	assert_int_equal(test.random_bytes, (WORKERS + 1) * WIRE_NONCE_BYTES);
	assert_memory_not_equal(test.worker[0][WORKERS].nonce, test.added_nonces[WORKERS],
				WIRE_NONCE_BYTES);
	assert_int_equal(test.bound, PS_TABLES_MAX);
	assert_true(link_address_equal(&test.bound_at, &at_8));
	assert_true(hosted()->is_inside);
	assert_true(hosted()->has_switch);
	assert_int_equal(hosted()->index, PS_TABLES_MAX);
	assert_true(link_address_equal(&hosted()->at_switch, &at_8));
	assert_true(hosted()->taken_ns == 4000 * ms_ns);
	assert_true(link_address_equal(&test.at, &at_8));
	assert_int_equal(test.names, 1);
	assert_true(test.generation == test.sums[0].generation);
	line_is(PS_INFO, "table emb: generation 6 is summed here, as table 64");
	assert_int_equal(test.switches, 1); /* the other worker is not connected */
	assert_int_equal(test.switched[0], 1);
}

static void inside__index_is_one_that_no_table_has(void **state)
{
	(void)state;
	test.taken = PS_TABLES_MAX + 3;
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(hosted()->index, PS_TABLES_MAX + 3);
	test.taken = 0;
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(hosted()->index, PS_TABLES_MAX + 4);
	test.server.index_next = 4094;
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(hosted()->index, 4095);
	ps_summed_inside(&test.server, hosted()); /* R-KV-7: there are 4,096 */
	assert_int_equal(hosted()->index, PS_TABLES_MAX);
}

/* It is tried again in each turn: the same reason is said once. */
static void inside__without_room_is_said_once(void **state)
{
	(void)state;
	test.add_error = -ENOSPC;
	ps_summed_inside(&test.server, hosted());
	line_is(PS_ERROR, "table emb: no switch for its 5 hot keys: No space left on device: "
			  "nothing hot is summed, until there is");
	assert_false(hosted()->has_switch || hosted()->is_inside);
	assert_true(test.instance == 0);
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(test.lines, 1);
	test.add_error = 0;
	test.is_random_out = true;
	ps_summed_inside(&test.server, hosted());
	assert_int_equal(test.adds, 2);
	line_is(PS_ERROR, "hot keys: Input/output error");
	test.is_random_out = false;
	ps_summed_inside(&test.server, hosted());
	assert_true(hosted()->has_switch);
	assert_int_equal(hosted()->no_room, 0);
}

static void install__at_an_aggregator_names_the_generation_there(void **state)
{
	(void)state;
	hosted()->client = (struct table_client *)(void *)&test.conn;
	hosted()->parts = 7;
	test.worker[0][0].conn = test.worker[0][1].conn = &test.conn;
	ps_summed_install(&test.server, hosted(), 0x55, 9, &at_7, "at agg:1");
	assert_true(test.generation == test.sums[0].generation);
	assert_int_equal(test.names, 0);
	assert_true(test.instance == 0x55);
	assert_int_equal(test.index, 9);
	assert_true(link_address_equal(&test.at, &at_7));
	assert_int_equal(hosted()->parts, 0);
	line_is(PS_INFO, "table emb: generation 6 is summed at agg:1, as table 9");
	assert_int_equal(test.switches, 2);
	test.table[0].map.keys = 0; /* nobody has anything to push */
	ps_summed_install(&test.server, hosted(), 0x57, 9, &at_7, "at agg:1");
	assert_int_equal(test.switches, 2);
}

static void begin__asks_aggregators_for_what_is_hot(void **state)
{
	(void)state;
	hosted()->tried = 3;
	hosted()->has_switch = hosted()->is_inside = hosted()->tired.is = true;
	hosted()->is_knocking = true;
	hosted()->drain_ns = 5;
	hosted()->index = 88;
	ps_summed_begin(&test.server, hosted());
	assert_false(hosted()->is_knocking);
	assert_int_equal(test.removes, 1);
	assert_int_equal(test.index, 88);
	assert_false(hosted()->has_switch || hosted()->is_inside || hosted()->tired.is);
	assert_true(hosted()->drain_ns == 0 && hosted()->tired.beats == 0);
	assert_int_equal(test.asks, 1);
	assert_int_equal(test.adds, 0);
	test.is_spent = true; /* the one inside never goes: it costs no more fences */
	ps_summed_begin(&test.server, hosted());
	assert_int_equal(test.removes, 1);
	assert_int_equal(test.adds, 1);
	assert_int_equal(test.asks, 1);
	test.add_error = -ENOSPC; /* then it is better than nothing */
	ps_summed_begin(&test.server, hosted());
	assert_int_equal(test.asks, 2);
	test.is_spent = false;
	test.add_error = 0;
	test.table[0].map.keys = 0;
	ps_summed_begin(&test.server, hosted());
	assert_true(hosted()->is_inside);
	test.add_error = -ENOSPC;
	ps_summed_begin(&test.server, hosted());
	assert_int_equal(test.asks, 2);
}

/* ---- R-SP-35 ---- */

static void drain__is_over_when_all_has_come_or_it_takes_too_long(void **state)
{
	(void)state;
	assert_true(ps_summed_is_drained(&test.server, hosted())); /* it has no switch */
	hosted()->has_switch = true;
	test.table[0].map.keys = 0;
	assert_true(ps_summed_is_drained(&test.server, hosted()));
	assert_int_equal(test.drains, 0);
	assert_false(hosted()->is_drain_asked);
	test.table[0].map.keys = 5;
	assert_false(ps_summed_is_drained(&test.server, hosted()));
	assert_true(hosted()->is_drain_asked);
	assert_int_equal(test.drains, 1);
	assert_true(hosted()->drain_ns == 3000 * ms_ns);
	test.now_ns = 5000 * ms_ns - 1;
	assert_false(ps_summed_is_drained(&test.server, hosted()));
	assert_int_equal(test.drains, 1);
	assert_int_equal(test.lines, 0);
	test.is_drained = true;
	assert_true(ps_summed_is_drained(&test.server, hosted()));
	assert_int_equal(test.lines, 0);
	test.is_drained = false;
	test.now_ns++;
	assert_true(ps_summed_is_drained(&test.server, hosted()));
	line_is(PS_WARN, "table emb: what its switch has did not come in 2000 ms: workers push it "
			 "again");
}

static void drain__is_another_one_when_nobody_has_asked_for_a_turn(void **state)
{
	(void)state;
	hosted()->has_switch = true;
	assert_true(ps_summed_turn(&test.server) == UINT64_MAX);
	test.flushes = 0;
	ps_summed_is_drained(&test.server, hosted());
	assert_true(ps_summed_turn(&test.server) == 5000 * ms_ns);
	test.flushes = 0;
	ps_summed_is_drained(&test.server, hosted());
	test.is_drained = true;
	test.now_ns = 3500 * ms_ns;
	assert_true(ps_summed_turn(&test.server) == 3500 * ms_ns);
	test.flushes = 0;
	assert_true(hosted()->drain_ns == 3000 * ms_ns);
	assert_true(ps_summed_turn(&test.server) == UINT64_MAX);
	assert_true(hosted()->drain_ns == 0);
	test.is_drained = false;
	ps_summed_is_drained(&test.server, hosted());
	assert_int_equal(test.drains, 2);
	assert_true(hosted()->drain_ns == 3500 * ms_ns);
}

static void turn__is_due_when_the_first_of_all_is(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		test.turn_ns[i] = 100 - i;
		test.flushes = test.turns = 0;
		assert_true(ps_summed_turn(&test.server) == 100 - i);
		assert_int_equal(test.turns, TABLES);
		assert_int_equal(test.flushes, 1);
	}
}

/* ---- datagrams ---- */

/* One of the shape that its kind has. */
static void say(uint8_t kind, uint16_t index, const struct link_address *from)
{
	bool is_bare = kind == SPARSE_ASK || kind == SPARSE_FLIP || kind == SPARSE_READY ||
		       kind == SPARSE_RESUMED;
	struct sparse packet = { .kind = kind,
				 .table = index,
				 .generation = 1,
				 .parts = 1,
				 .count = !is_bare,
				 .width = !is_bare };
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	sparse_put(at, &packet);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	ps_summed_serve(&test.server, from, at, sparse_bytes(&packet));
}

static void datagram__of_the_switch_is_its_tables(void **state)
{
	(void)state;
	hosted()->has_switch = true;
	hosted()->index = 70;
	hosted()->at_switch = at_8;
	test.server.hosted[1].has_switch = true;
	test.server.hosted[1].index = 71;
	say(SPARSE_READY, 70, &at_8);
	assert_int_equal(test.to_home[0], 1);
	assert_int_equal(hosted()->parts, 0);
	say(SPARSE_CUT, 70, &at_8);
	say(SPARSE_FLUSH, 70, &at_8);
	say(SPARSE_FLUSH_SHORT, 70, &at_8);
	assert_int_equal(test.to_home[0], 4);
	assert_int_equal(hosted()->parts, 3);
	say(SPARSE_CUT, 70, &at_7); /* home judges it */
	assert_int_equal(test.to_home[0], 5);
	assert_int_equal(hosted()->parts, 3);
	say(SPARSE_CUT, 72, &at_8);
	assert_int_equal(test.to_home[0] + test.to_home[1], 5);
	say(SPARSE_RESUMED, 71, &at_8);
	assert_int_equal(test.to_home[1], 1);
	test.is_stuck = true; /* parts that could not be recorded come again */
	say(SPARSE_CUT, 70, &at_8);
	assert_int_equal(test.to_home[0], 5);
	assert_int_equal(hosted()->parts, 4);
	say(SPARSE_READY, 70, &at_8);
	assert_int_equal(test.to_home[0], 6);
	hosted()->has_switch = false;
	say(SPARSE_READY, 70, &at_8);
	assert_int_equal(test.to_home[0], 6);
	assert_int_equal(test.to_switch, 0);
}

static void datagram__to_a_switch_is_for_the_one_inside(void **state)
{
	static const uint8_t kinds[] = { SPARSE_PUSH,  SPARSE_ASK,   SPARSE_FLIP, SPARSE_COMMITTED,
					 SPARSE_BCAST, SPARSE_SETUP, SPARSE_HAVE };
	const uint8_t nonsense[] = { SPARSE_FIRST_BYTE, 77 };

	(void)state;
	hosted()->has_switch = true;
	hosted()->index = 70;
	for (uint32_t i = 0; i < sizeof(kinds); i++) {
		say(kinds[i], 70, &at_7);
		assert_int_equal(test.to_switch, 1 + i);
	}
	ps_summed_serve(&test.server, &at_7, nonsense, sizeof(nonsense)); /* it counts those */
	assert_int_equal(test.to_switch, 8);
	ps_summed_serve(&test.server, &at_7, nonsense, 0);
	assert_int_equal(test.to_switch, 8);
	assert_int_equal(test.to_home[0], 0);
}

static void wire(uint8_t type, uint16_t job, uint16_t child, uint32_t serial, uint8_t nonce)
{
	struct wire packet = {
		.type = type, .job = job, .child = child, .seq = serial, .lanes = WIRE_HELLO_LANES
	};
	uint8_t at[2048] = { 0 };

	wire_put(at, &packet);
	memset(at + WIRE_HEADER_BYTES, nonce, WIRE_NONCE_BYTES);
	ps_summed_serve(&test.server, &at_7, at, wire_bytes(WIRE_HELLO_LANES));
}

static void hello__binds_a_worker_that_has_opened_the_table(void **state)
{
	(void)state;
	memset(test.worker[0][1].binding.nonce, 0xa0, WIRE_NONCE_BYTES);
	wire(WIRE_HELLO, 0, 1, 5, 0xa0);
	assert_int_equal(hosted()->nonces_wrong, 1); /* it has not */
	test.worker[0][1].conn = &test.conn;
	wire(WIRE_HELLO, 0, 1, 5, 0xa1);
	assert_int_equal(hosted()->nonces_wrong, 2);
	wire(WIRE_HELLO, 0, WORKERS, 5, 0xa0); /* there is no such worker */
	assert_int_equal(hosted()->nonces_wrong, 2);
	assert_int_equal(test.welcomes, 0);
	wire(WIRE_HELLO, 0, 1, 5, 0xa0);
	assert_int_equal(test.welcomes, 1);
	assert_int_equal(test.worker_known, 1);
	assert_true(link_address_equal(&test.worker_at, &at_7));
	assert_int_equal(hosted()->nonces_wrong, 2);
	wire(WIRE_HELLO, 0, 1, 4, 0xa0); /* an old copy */
	assert_int_equal(hosted()->nonces_wrong, 3);
	assert_int_equal(test.hellos, 0);
	wire(WIRE_HELLO, TABLES, 1, 6, 0xa0); /* of a switch's index */
	assert_int_equal(test.hellos, 1);
	assert_int_equal(test.index, TABLES);
	assert_int_equal(test.welcomes, 1);
}

static void welcome__is_for_the_tables_that_knock(void **state)
{
	(void)state;
	test.server.hosted[1].is_knocking = test.server.hosted[TABLES].is_knocking = true;
	wire(WIRE_WELCOME, 3, 0, 5, 0);
	assert_int_equal(test.knocked[0], 0);
	assert_int_equal(test.knocked[1], 1);
	assert_int_equal(test.hellos + test.welcomes + test.to_switch, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(inside__switch_is_the_tables_with_new_nonces),
		T(inside__index_is_one_that_no_table_has),
		T(inside__without_room_is_said_once),
		T(install__at_an_aggregator_names_the_generation_there),
		T(begin__asks_aggregators_for_what_is_hot),
		T(drain__is_over_when_all_has_come_or_it_takes_too_long),
		T(drain__is_another_one_when_nobody_has_asked_for_a_turn),
		T(turn__is_due_when_the_first_of_all_is),
		T(datagram__of_the_switch_is_its_tables),
		T(datagram__to_a_switch_is_for_the_one_inside),
		T(hello__binds_a_worker_that_has_opened_the_table),
		T(welcome__is_for_the_tables_that_knock),
#undef T
	};

	return cmocka_run_group_tests_name("ps-summed", tests, NULL, NULL);
}
