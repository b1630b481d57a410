/* SPDX-License-Identifier: Apache-2.0 */
/* restart_test.c - reload.c, gather.c and spent.c: another map, a restart without a log, the last generations: what is
 * asked, done and logged, word for word. R-SP-1, R-SP-32, R-SP-33. All around them is played. */
#include <errno.h>

#include "ps/lines_fixture.h"

enum { WORKERS = 3 };

static const uint64_t s_ns = 1000000000;

static struct {
	struct ps_server server;
	struct ps_table table;
	struct server_sparse sums;
	struct server_sparse_worker state[WORKERS];
	struct ps_worker worker[WORKERS];
	struct server_kv_worker its[WORKERS];
	struct ps_conn conn[WORKERS];
	/* What is played. */
	int trouble, map_result, remap_result, checkpoint_result;
	bool is_others, is_refused, begins;
	uint64_t memory_used, loses;
	/* What was done. */
	char calls[256], refusal[KV_TEXT_BYTES];
	enum kv_refusal refused;
	enum kv_type about;
} test;

#define PLAYED(type, name, ...)          \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static void note(const char *word)
{
	assert_true(strlen(test.calls) + strlen(word) + 2 < sizeof(test.calls));
	strcat(strcat(test.calls, *test.calls ? " " : ""), word);
}

static void assert_calls(const char *words)
{
	assert_string_equal(test.calls, words);
	*test.calls = 0;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

PLAYED(int, ps_table_trouble, const struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	return test.trouble;
}

PLAYED(int, ps_table_map_read, const struct ps_table *table, struct hot_map *map,
       char error[PS_ERROR_MAX])
{
	assert_ptr_equal(table, &test.table);
	strcpy(error, "table emb: no such file");
	*map = (struct hot_map){ .version = 4, .keys = 20 };
	return test.map_result;
}

PLAYED(int, ps_table_remap, struct ps_table *table, struct hot_map *map, char error[PS_ERROR_MAX])
{
	note("remap");
	strcpy(error, "table emb: an old one");
	if (test.remap_result > 0)
		table->map = *map;
	return test.remap_result;
}

PLAYED(void, hot_map_fini, struct hot_map *map)
{
	assert_int_equal(map->keys, 20);
	note("fini");
}

PLAYED(bool, server_kv_share_is_others, const struct server_kv_share *share, const uint64_t *key,
       uint32_t keys)
{
	assert_ptr_equal(share, &test.table.share);
	assert_null(key);
	assert_int_equal(keys, 20);
	return test.is_others;
}

PLAYED(uint64_t, engine_sparse_memory_used, const struct engine_sparse *engine)
{
	assert_null(engine);
	return test.memory_used;
}

PLAYED(uint64_t, engine_sparse_table_bytes, const struct sparse_table *shape)
{
	return 10 * shape->ranks;
}

PLAYED(void, ps_serve_map, struct ps_hosted *of, struct ps_conn *conn)
{
	assert_ptr_equal(of, hosted());
	note(conn == &test.conn[0] ? "map0" : conn == &test.conn[1] ? "map1" : "map2");
}

PLAYED(void, ps_summed_begin, struct ps_server *server, struct ps_hosted *of)
{
	assert_true(server && of);
	note("begin");
}

PLAYED(const struct server_sparse *, home_sparse_server, const struct home_sparse *home)
{
	assert_ptr_equal(home, &test.table);
	return &test.sums;
}

PLAYED(bool, home_sparse_gather, struct home_sparse *home, uint32_t map)
{
	assert_ptr_equal(home, &test.table);
	assert_int_equal(map, 3);
	note("gather");
	return true;
}

PLAYED(void, home_sparse_missed, struct home_sparse *home, uint16_t worker)
{
	assert_ptr_equal(home, &test.table);
	note(worker == 0 ? "missed0" : worker == 1 ? "missed1" : "missed2");
	test.state[worker].is_missed = true;
	if (test.sums.unreported)
		test.sums.unreported--;
}

PLAYED(bool, home_sparse_report, struct home_sparse *home, uint16_t worker, uint64_t incarnation,
       uint64_t number, const uint64_t *row)
{
	assert_ptr_equal(home, &test.table);
	assert_int_equal(incarnation, 5);
	assert_int_equal(number, 17);
	assert_int_equal(row[3], 33);
	note(worker == 1 ? "report1" : "report");
	test.sums.lost += test.loses;
	test.sums.generation += test.begins;
	return !test.is_refused;
}

PLAYED(int, ps_table_checkpoint, struct ps_table *table, char error[PS_ERROR_MAX])
{
	assert_ptr_equal(table, &test.table);
	note("checkpoint");
	strcpy(error, "no child");
	return test.checkpoint_result;
}

__attribute__((format(printf, 5, 6))) void __wrap_ps_serve_refuse(struct ps_server *server,
								  struct ps_conn *conn,
								  const struct kv_message *what,
								  enum kv_refusal refusal,
								  const char *format, ...);

void __wrap_ps_serve_refuse(struct ps_server *server, struct ps_conn *conn,
			    const struct kv_message *what, enum kv_refusal refusal,
			    const char *format, ...)
{
	va_list values;

	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(conn, &test.conn[1]);
	test.refused = refusal;
	test.about = what ? what->type : KV_NOTHING;
	va_start(values, format);
	vsnprintf(test.refusal, sizeof(test.refusal), format, values);
	va_end(values);
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	heard.now_ns = 100000 * s_ns;
	test.server.options.switch_memory = 1000;
	test.table.home = (struct home_sparse *)(void *)&test.table;
	test.table.shape = (struct sparse_table){ .workers = WORKERS, .window = 4, .ranks = 10 };
	test.table.map = (struct hot_map){ .version = 3, .keys = 10 };
	strcpy(test.table.options.name, "emb");
	test.sums.generation = 5ull << SPARSE_RANDOM_BITS;
	test.sums.memory.worker = test.state;
	test.sums.table = &test.table.shape;
	server_kv_init(&test.table.kv, &test.sums, test.its, false);
	test.table.kv.heartbeat_ns = s_ns;
	hosted()->table = &test.table;
	hosted()->worker = test.worker;
	hosted()->options.table.map = "/map";
	strcpy(hosted()->options.table.name, "emb");
	for (uint16_t i = 0; i < WORKERS; i++) {
		test.conn[i].worker = i;
		test.conn[i].incarnation = 5;
		test.conn[i].is_welcome = true;
		test.its[i].joined = 1;
		strcpy(test.conn[i].who, "worker 1 (H, pid 7)");
	}
	return 0;
}

/* ---- another map ---- */

static void map__that_is_another_is_told_to_all(void **state)
{
	(void)state;
	test.remap_result = 1;
	test.worker[0].conn = &test.conn[0];
	test.worker[2].conn = &test.conn[2];
	ps_reload(&test.server, hosted());
	assert_calls("remap fini map0 map2 begin");
	assert_line(0, PS_INFO, "emb", "version 4 of its map from now on: 20 hot keys");
	assert_int_equal(heard.lines, 1);
	hosted()->options.table.map = NULL;
	ps_reload(&test.server, hosted());
	assert_calls("");
}

static void map__that_is_none_changes_nothing(void **state)
{
	(void)state;
	ps_reload(&test.server, hosted());
	assert_calls("remap fini");
	assert_line(0, PS_INFO, "emb", "version 3 of its map is the one that it has");
	test.remap_result = -1;
	ps_reload(&test.server, hosted());
	assert_calls("remap fini");
	assert_line(1, PS_ERROR, "emb", "table emb: an old one: version 3 of the map goes on");
	test.is_others = true;
	ps_reload(&test.server, hosted());
	assert_calls("fini");
	assert_line(2, PS_ERROR, "emb",
		    "table emb: the 20 keys of its map are all of another server: version 3 of the "
		    "map goes on");
	test.map_result = -1;
	ps_reload(&test.server, hosted());
	assert_calls("");
	assert_line(3, PS_ERROR, "emb", "table emb: no such file: version 3 of the map goes on");
	test.trouble = EIO;
	ps_reload(&test.server, hosted());
	assert_line(
		4, PS_ERROR, "emb",
		"table emb: its log cannot be written: Input/output error: version 3 of the map "
		"goes on");
	test.table.kv.is_gathering = true;
	ps_reload(&test.server, hosted());
	assert_line(5, PS_ERROR, "emb",
		    "version 3 of its map goes on: it waits for its workers after its restart: try "
		    "again");
	assert_calls("");
	assert_int_equal(heard.lines, 6);
}

static void map__needs_room_for_its_switch_inside(void **state)
{
	(void)state;
	test.memory_used = 800; /* and 200 */
	ps_reload(&test.server, hosted());
	assert_calls("remap fini");
	test.memory_used = 801;
	ps_reload(&test.server, hosted());
	assert_calls("fini");
	assert_line(
		1, PS_ERROR, "emb",
		"table emb: no switch for 20 hot keys: 1000 bytes are there for all tables that "
		"are summed here: version 3 of the map goes on");
	hosted()->is_inside = true; /* its own 100 are given back */
	ps_reload(&test.server, hosted());
	assert_calls("remap fini");
	test.memory_used = 901;
	ps_reload(&test.server, hosted());
	assert_calls("fini");
	assert_int_equal(test.table.shape.ranks, 10);
}

/* ---- a restart without a log ---- */

static void gather__waits_for_who_was_there(void **state)
{
	(void)state;
	test.its[1].left = 2;
	test.sums.unreported = 3;
	test.table.ended = 2;
	test.state[0].is_unreported = test.state[2].is_unreported = true;
	ps_gather_begin(&test.server, hosted());
	assert_calls("gather missed1");
	assert_line(0, PS_WARN, "emb",
		    "2 workers have left since the checkpoint, or begun anew: what they had pushed "
		    "after it is lost, and nobody is left to say how much");
	assert_line(1, PS_WARN, "emb",
		    "it was restarted from its checkpoint: nothing hot is summed until 2 workers "
		    "have said what they know");
	assert_true(test.table.kv.is_gathering);
	heard.now_ns += 6 * s_ns - 1;
	ps_gather_turn(&test.server, hosted());
	assert_int_equal(heard.lines, 2);
	heard.now_ns++;
	test.state[2].is_missed = true;
	ps_gather_turn(&test.server, hosted());
	assert_calls("missed0");
	assert_line(2, PS_WARN, "emb", "worker 0 has not come back: the others go on without it");
	assert_int_equal(heard.about[2].worker, 0);
	assert_int_equal(heard.lines, 3);
	assert_true(test.table.kv.is_gathering);
	test.sums.unreported = 0;
	ps_gather_turn(&test.server, hosted());
	assert_calls("begin checkpoint"); /* what was lost once is not to be lost again */
	assert_true(hosted()->saved_ns == heard.now_ns);
	assert_false(test.table.kv.is_gathering);
	ps_gather_turn(&test.server, hosted());
	assert_calls("");
}

static void gather__of_nobody_is_over_at_once(void **state)
{
	(void)state;
	ps_gather_begin(&test.server, hosted());
	assert_calls("gather begin");
	assert_int_equal(heard.lines, 0);
	test.sums.lost = 1;
	test.checkpoint_result = -1;
	test.table.kv.is_gathering = true;
	ps_gather_turn(&test.server, hosted());
	assert_calls("begin checkpoint");
	assert_line(0, PS_ERROR, "emb", "no child");
}

static void report(uint16_t window)
{
	struct kv_message said = { .type = KV_REPORT, .window = window, .number = 17 };

	said.row[3] = 33;
	ps_gather_report(&test.server, hosted(), &test.conn[1], &said);
}

static void report__says_what_is_lost(void **state)
{
	(void)state;
	test.sums.lost = 4;
	report(4);
	assert_calls("report1");
	assert_line(0, PS_INFO, "emb",
		    "0 pushes and batches of worker 1 (H, pid 7) are lost: they came after the "
		    "checkpoint");
	test.loses = 3;
	test.table.kv.is_gathering = true; /* it was the last one */
	report(4);
	assert_calls("report1 begin checkpoint");
	assert_line(1, PS_WARN, "emb",
		    "3 pushes and batches of worker 1 (H, pid 7) are lost: they came after the "
		    "checkpoint");
	assert_int_equal(heard.about[1].worker, 1);
	test.begins = true; /* nobody had waited for it */
	report(4);
	assert_calls("report1 begin");
	assert_false(*test.refusal);
}

static void report__that_cannot_be_ends_it(void **state)
{
	(void)state;
	report(5);
	assert_calls("");
	assert_int_equal(test.refused, KV_REFUSED_MESSAGE);
	assert_int_equal(test.about, KV_NOTHING);
	assert_string_equal(test.refusal, "table emb: the report of worker 1 (H, pid 7) cannot be, "
					  "or not now");
	test.is_refused = true;
	test.sums.generation = (SPARSE_FENCES_MAX - 1) << SPARSE_RANDOM_BITS; /* one is left */
	report(4);
	assert_calls("report1");
	assert_null(strstr(test.refusal, "used up"));
	test.sums.generation = UINT64_MAX;
	report(4);
	assert_calls("report1");
	assert_non_null(strstr(test.refusal, "cannot be, or not now: table emb: its generations "
					     "are used up: 16777215 of 16777215 fences were"));
	assert_int_equal(heard.lines, 0);
}

/* ---- the last generations ---- */

static void spent__is_said_with_what_helps(void **state)
{
	char error[PS_ERROR_MAX] = "";

	(void)state;
	test.sums.generation = (SPARSE_FENCES_MAX - SPARSE_FENCES_SPARE - 1) << SPARSE_RANDOM_BITS;
	ps_spent_say(&test.server, hosted());
	assert_int_equal(heard.lines, 0);
	test.sums.generation = (SPARSE_FENCES_MAX - 3) << SPARSE_RANDOM_BITS;
	ps_spent_say(&test.server, hosted());
	assert_line(
		0, PS_DEBUG, "emb",
		"table emb: its generations are used up: 16777212 of 16777215 fences were: pull "
		"what it has, and begin a table of another name, or in another folder");
	assert_int_equal(ps_table_spend(&test.table, 3, error), 0);
	assert_string_equal(error, "");
	assert_int_equal(ps_table_spend(&test.table, 4, error), -1);
	assert_string_equal(error, heard.line[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(map__that_is_another_is_told_to_all),   T(map__that_is_none_changes_nothing),
		T(map__needs_room_for_its_switch_inside), T(gather__waits_for_who_was_there),
		T(gather__of_nobody_is_over_at_once),     T(report__says_what_is_lost),
		T(report__that_cannot_be_ends_it),        T(spent__is_said_with_what_helps),
#undef T
	};

	return cmocka_run_group_tests_name("ps-restart", tests, NULL, NULL);
}
