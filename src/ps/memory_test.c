/* SPDX-License-Identifier: Apache-2.0 */
/* memory_test.c - what happens when there is no memory: who asks is told, what there was stays, and whoever goes gives
 * all back, descriptors too. Each allocation fails once, in its turn. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "ps/table_fixture.h"

#include "ps/conn.h"
#include "ps/server.h"

enum { ENOUGH = 1000 }; /* allocations of anything that is tried here */

static atomic_int taken, fails_in; /* pieces; 0: none fails, else the so-manieth from now */

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_aligned_alloc(size_t to, size_t bytes);
void __wrap_free(void *at);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_aligned_alloc(size_t to, size_t bytes);
void __real_free(void *at);

static bool fails(void)
{
	if (fails_in <= 0 || --fails_in)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	void *at = fails() ? NULL : __real_malloc(bytes);

	taken += at != NULL;
	return at;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	void *at = fails() ? NULL : __real_calloc(count, bytes);

	taken += at != NULL;
	return at;
}

void *__wrap_realloc(void *at, size_t bytes)
{
	void *more = fails() ? NULL : __real_realloc(at, bytes);

	taken += !at && more;
	return more;
}

void *__wrap_aligned_alloc(size_t to, size_t bytes)
{
	void *at = fails() ? NULL : __real_aligned_alloc(to, bytes);

	taken += at != NULL;
	return at;
}

void __wrap_free(void *at)
{
	taken -= at != NULL;
	__real_free(at);
}

/* The next descriptor that is free. */
static int next_fd(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD, 3);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static int taken_before, fd_before;

static int setup(void **state)
{
	(void)state;
	fails_in = 0;
	taken_before = taken;
	fd_before = next_fd();
	return 0;
}

static void assert_all_is_back(void)
{
	fails_in = 0;
	assert_int_equal(taken, taken_before);
	assert_int_equal(next_fd(), fd_before);
}

/* A path that the C library has made for the writer is not counted. */
static void map_of(uint32_t version, uint64_t first_key)
{
	int before = taken;

	map_make(version, first_key);
	taken = before;
}

/* ---- rows, sums, connections ---- */

static void store__without_memory_stays_as_it_is(void **state)
{
	struct store_options options = { .dim = 2, .state = 1 };
	struct store *store = NULL;

	(void)state;
	for (int i = 1; i <= 3; i++) {
		fails_in = i;
		assert_int_equal(store_open(&store, &options), -ENOMEM);
		assert_null(store);
		assert_all_is_back();
	}
	assert_int_equal(store_open(&store, &options), 0);
	assert_int_equal(store_reserve(store, 1), 0);
	store_get(store, 77)[0] = 5;
	for (uint64_t rows = 2000; rows < 300000; rows *= 3) {
		int result = -ENOMEM;

		for (int i = 1; i < ENOUGH && result == -ENOMEM; i++) {
			fails_in = i;
			result = store_reserve(store, rows);
			assert_true(store_find(store, 77)[0] == 5);
			assert_null(store_find(store, 78));
			assert_int_equal(store_rows(store), 1);
		}
		assert_int_equal(result, 0);
	}
	fails_in = 0;
	store_close(store);
	store_close(NULL);
	assert_all_is_back();
}

static void stage__without_memory_stays_as_it_is(void **state)
{
	static const float values[2] = { 1, 2 };
	struct stage *stage = NULL;
	struct bytes body = { 0 };
	float gradient[2];
	const char *why = "none";

	(void)state;
	for (int i = 1; i <= 4; i++) {
		fails_in = i;
		assert_int_equal(stage_open(&stage, 2, 1), -ENOMEM);
		assert_null(stage);
		assert_all_is_back();
	}
	assert_int_equal(stage_open(&stage, 2, 1), 0);
	for (uint64_t keys = 1; keys < 10000; keys += 3333) {
		int result = -ENOMEM;

		for (int i = 1; i < ENOUGH && result == -ENOMEM; i++) {
			fails_in = i;
			result = stage_reserve(stage, keys);
			assert_int_equal(stage_count(stage), keys / 3333);
			if (keys > 1)
				assert_int_equal(stage_gradient(stage, 0, gradient), 1);
		}
		assert_int_equal(result, 0);
		fails_in = 0;
		stage_add_floats(stage, keys, values);
	}
	stage_save(stage, 0, &body);
	stage_close(stage);
	assert_int_equal(stage_open(&stage, 2, 1), 0);
	fails_in = 1;
	why = stage_load(stage, body.at, (uint32_t)body.count);
	assert_string_equal(why, "out of memory for the sums of a step");
	assert_int_equal(stage_count(stage), 0);
	stage_close(stage);
	stage_close(NULL);
	bytes_fini(&body);
	assert_null(body.at);
	assert_all_is_back();
}

static void bytes__without_memory_are_short_and_keep_what_they_have(void **state)
{
	struct bytes bytes = { 0 };

	(void)state;
	bytes_put(&bytes, "ab", 2);
	fails_in = 1;
	bytes_put(&bytes, folder, 1); /* there is room */
	assert_false(bytes.is_short);
	bytes_put(&bytes, (char[8192]){ 0 }, 8192);
	assert_true(bytes.is_short);
	assert_int_equal(bytes.count, 3);
	bytes_fini(&bytes);
	assert_false(bytes.is_short);
	assert_all_is_back();
}

/* Who misses an answer asks again, on its next connection. */
static void conn__without_memory_is_gone(void **state)
{
	const struct kv_message message = { .type = KV_BARRIER, .number = 1 };
	const struct ps_table none = { .log = NULL };
	struct ps_conn *conn;
	int fds[2], result;

	(void)state;
	result = socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	assert_int_equal(result, 0);
	fails_in = 1;
	assert_null(ps_conn_open(fds[0], 1));
	conn = ps_conn_open(fds[0], 1);
	fails_in = 1;
	ps_conn_say(conn, &message);
	assert_true(conn->is_gone);
	assert_int_equal(conn->stream.out.end, 0);
	conn->is_gone = false;
	for (int i = 1; i <= 2; i++) {
		fails_in = i; /* the gate as well */
		ps_conn_hold(conn, &none, &message);
		assert_true(conn->is_gone);
		assert_int_equal(conn->held.end, 0);
		assert_int_equal(conn->gate_count, 0);
		conn->is_gone = false;
		free(conn->gate);
		conn->gate = NULL;
		conn->gate_room = 0;
	}
	ps_conn_hold(conn, &none, &message);
	fails_in = 1; /* what was held cannot leave */
	assert_true(ps_conn_write(conn, 2));
	assert_true(conn->is_gone);
	fails_in = 1;
	assert_int_equal(send(fds[1], "x", 1, 0), 1);
	assert_int_equal(kv_stream_read(&conn->stream), -ENOMEM);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_int_equal(buffer_bytes(&conn->stream.in), 1);
	conn->pull[0].key = malloc(8);
	conn->pull[1].key = malloc(8);
	conn->pull_count = 2;
	ps_conn_close(conn);
	close(fds[1]);
	assert_all_is_back();
}

/* ---- a table ---- */

static struct ps_table_options none_of(void)
{
	struct ps_table_options options = options_of(OPTIMISER_ADAM);

	options.durability = PS_NONE;
	options.folder = NULL;
	options.is_sync = true;
	return options;
}

static void table__without_memory_does_not_begin(void **state)
{
	struct ps_table_options options = none_of();
	struct ps_table *table = NULL;
	int result = -1, i;

	(void)state;
	for (i = 1; i < ENOUGH && result; i++) {
		fails_in = i;
		options.values = i % 2 ? SPARSE_LNS : SPARSE_FIXED;
		*error = 0;
		result = ps_table_open(&table, &options, &outbox, error);
		if (result) {
			assert_int_equal(result, -1);
			assert_null(table);
			if (!strstr(error, "table T: ") || !strstr(error, "memory"))
				fail_msg("%d: %s", i, error);
			assert_all_is_back();
		}
	}
	assert_true(i > 10);
	ps_table_close(table);
	ps_table_close(NULL);
	assert_all_is_back();
}

/* Rows: a chunk, their index; sums: the same. What was got stays. */
static void table__without_memory_refuses_a_batch_whole(void **state)
{
	static const int at[] = { 1, 2, 2, 2 };
	static uint64_t keys[2000];
	static float values[2000 * DIM];
	struct ps_table_options options = none_of();
	struct ps_table *table = open_with(&options);

	(void)state;
	begin(table, 1);
	for (uint32_t k = 0; k < 2000; k++)
		keys[k] = 10000000 + k;
	for (uint32_t i = 0; i < 4; i++) {
		fails_in = at[i];
		assert_int_equal(ps_table_batch(table, 0, 1, 1, keys, values, 2000),
				 PS_BATCH_NO_MEMORY);
		assert_int_equal(fails_in, 0);
		assert_int_equal(stage_count(table->stage), 0);
		assert_int_equal(server_of(table)->memory.worker[0].next, 1);
	}
	assert_int_equal(ps_table_batch(table, 0, 1, 1, keys, values, 2000), PS_BATCH_TAKEN);
	assert_int_equal(stage_count(table->stage), 2000);
	assert_int_equal(store_rows(table->store), 2000 + HOT);
	ps_table_close(table);
	assert_all_is_back();
}

static void table__without_memory_keeps_its_map(void **state)
{
	struct ps_table_options options = none_of();
	struct ps_table *table = open_with(&options);
	struct hot_map map = { .keys = 0 };
	int result = -1, i;

	(void)state;
	begin(table, 1);
	map_of(2, hot_key(0) + 1);
	for (i = 1; i < ENOUGH && result; i++) {
		fails_in = i;
		result = ps_table_map_read(table, &map, error);
		if (result && !strstr(error, "memory"))
			fail_msg("%s", error);
	}
	result = -1;
	for (i = 1; i < ENOUGH && result < 0; i++) {
		fails_in = i;
		result = ps_table_remap(table, &map, error);
		if (result == 1)
			break;
		assert_string_equal(error, "table T: out of memory for its map");
		assert_int_equal(table->map.version, 1);
		assert_int_equal(table->shape.ranks, HOT);
		assert_int_equal(map.version, 2);
	}
	assert_true(i > 3);
	assert_int_equal(table->map.version, 2);
	assert_null(map.key); /* it is the table's */
	hot_map_fini(&map);
	ps_table_close(table);
	assert_all_is_back();
}

/* All that a table does in its life. */
static void table__gives_all_back(void **state)
{
	struct ps_table_options options = options_of(OPTIMISER_SGD);
	struct hot_map map = { .keys = 0 };
	struct ps_table *table;
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (int life = 0; life < 3; life++) {
		map_of((uint32_t)life + 1, hot_key(0) + (uint64_t)life);
		table = open_with(&options);
		ps_table_share(table, &(struct server_kv_share){ .count = 1 });
		begin(table, 1 + (uint64_t)life);
		settle(table);
		if (life) /* who came in place of others has begun a generation */
			home_sparse_instance(table->home, 2, 0, &at_switch);
		epoch(table, &rng);
		assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
		assert_int_equal(ps_table_save(table, error), 0);
		map_of((uint32_t)life + 2, hot_key(0) + (uint64_t)life + 1);
		assert_int_equal(ps_table_map_read(table, &map, error), 0);
		assert_int_equal(ps_table_remap(table, &map, error), 1);
		assert_int_equal(ps_table_end(table, error), 0);
		ps_table_close(table);
		assert_all_is_back();
	}
}

static void table__of_another_map_gives_it_back(void **state)
{
	struct ps_table_options options = none_of();
	struct ps_table *table = open_with(&options);
	struct hot_map map = { 0 };
	int before = taken;

	(void)state;
	table->options.map_table = 1;
	assert_int_equal(ps_table_map_read(table, &map, error), -1);
	assert_non_null(strstr(error, "the map of table 0, not of table 1"));
	assert_int_equal(taken, before);
	ps_table_close(table);
	assert_all_is_back();
}

/* It would look whole, and have lost what had no room in memory. */
static void checkpoint__without_memory_is_none(void **state)
{
	static const float values[2 * DIM] = { 1, 2, 3, 4 };
	static const uint64_t keys[2] = { 1, 2 };
	struct ps_table_options options = none_of();
	struct ps_table *table = open_with(&options);
	int result = ENOMEM, i;
	char path[96];

	(void)state;
	begin(table, 1);
	ps_table_share(table, &(struct server_kv_share){ .count = 1 });
	assert_int_equal(ps_table_batch(table, 0, 1, 1, keys, values, 2), PS_BATCH_TAKEN);
	name_of(7, "checkpoint", path);
	for (i = 1; i < ENOUGH && result; i++) {
		int before = taken;

		fails_in = i;
		result = ps_table_write(table, path);
		assert_int_equal(taken, before);
		if (!result)
			break;
		assert_int_equal(result, ENOMEM);
		assert_false(is_there(7, "checkpoint") || is_there(7, "checkpoint.partial"));
	}
	fails_in = 0;
	assert_true(i > 9);
	assert_true(is_there(7, "checkpoint"));
	ps_table_close(table);
	unlink(path);
	assert_all_is_back();
}

/* What it says, in a process of its own that has to end. */
static void ends_with(struct ps_table *table, void (*act)(struct ps_table *), const char *text)
{
	char said[256] = "";
	int fds[2], status, result = pipe(fds);
	pid_t child;

	assert_int_equal(result, 0);
	child = fork();
	if (!child) {
		dup2(fds[1], STDERR_FILENO);
		act(table);
		_exit(0);
	}
	close(fds[1]);
	for (size_t had = 0; had < sizeof(said) - 1;) {
		ssize_t got = read(fds[0], said + had, sizeof(said) - 1 - had);

		if (got <= 0)
			break;
		had += (size_t)got;
	}
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_string_equal(said, text);
}

static void record_act(struct ps_table *table)
{
	bytes_fini(&table->body);
	fails_in = 1;
	home_sparse_fence(table->home, table->map.version);
}

/* Of a table of its own: a log has a thread, whose locks a fork would copy as they happen to be. */
static void log_act(struct ps_table *none)
{
	struct ps_table_options options = options_of(OPTIMISER_SGD);
	struct ps_table *table = open_with(&options);

	(void)none;
	settle(table);
	fails_in = 1;
	for (uint64_t i = 0; i < 10000 && fails_in; i++)
		ps_table_barrier(table, 1 + i);
}

/* Half a record cannot stay, and what was applied cannot be told any more. */
static void table__without_memory_for_a_record_ends(void **state)
{
	struct ps_table_options options = none_of();
	struct ps_table *table = open_with(&options);

	(void)state;
	begin(table, 1);
	ends_with(table, record_act,
		  "tally-ps: out of memory for a record: what was applied cannot be kept\n");
	ps_table_close(table);
	ends_with(NULL, log_act,
		  "tally-ps: out of memory for the log: it ends here, before anything is said that "
		  "is not on the disk\n");
	assert_all_is_back();
}

static void log__without_memory_is_not_begun(void **state)
{
	struct log_options options = { .changed = on_change };
	struct log *log = NULL;
	char path[96], why[160];

	name_of(7, "log", path);
	options.path = path;
	fails_in = 1;
	assert_int_equal(log_open(&log, &options, error), -1);
	snprintf(why, sizeof(why), "%s: Cannot allocate memory", path);
	assert_string_equal(error, why);
	assert_null(log);
	assert_int_equal(log_open(&log, &options, error), 0);
	log_close(log);
	log_close(NULL);
	assert_all_is_back();
	options.path = "/nowhere/T.0.log";
	assert_int_equal(log_open(&log, &options, error), -1);
	assert_string_equal(error, "/nowhere/T.0.log: No such file or directory");
	assert_all_is_back();
	files_remove(state);
}

/* ---- a server ---- */

static int allocations; /* until a table was read, and begins */

static void on_log(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	(void)arg;
	(void)level;
	(void)about;
	if (strstr(line, "records read") && !allocations)
		allocations = ENOUGH - fails_in;
}

static void server__without_memory_does_not_begin(void **state)
{
	struct ps_hosted_options table = { .table = none_of() };
	struct ps_server_options options = { .listen = "127.0.0.1:0",
					     .job = "J",
					     .key = "",
					     .workers = WORKERS,
					     .tables = &table,
					     .table_count = 1,
					     .log = on_log };
	struct ps_server *server = NULL;

	(void)state;
	fails_in = ENOUGH;
	assert_int_equal(ps_server_open(&server, &options, error), 0);
	ps_server_close(server);
	ps_server_close(NULL);
	assert_all_is_back();
	assert_true(allocations > 10);
	server = NULL;
	for (int i = 1; i <= allocations; i++) {
		fails_in = i;
		*error = 0;
		assert_int_equal(ps_server_open(&server, &options, error), -1);
		if (!strstr(error, "memory"))
			fail_msg("%d: %s", i, error);
		assert_null(server);
		assert_all_is_back();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, files_remove)
		T(store__without_memory_stays_as_it_is),
		T(stage__without_memory_stays_as_it_is),
		T(bytes__without_memory_are_short_and_keep_what_they_have),
		T(conn__without_memory_is_gone),
		T(table__without_memory_does_not_begin),
		T(table__without_memory_refuses_a_batch_whole),
		T(table__without_memory_keeps_its_map),
		T(table__gives_all_back),
		T(table__of_another_map_gives_it_back),
		T(checkpoint__without_memory_is_none),
		T(table__without_memory_for_a_record_ends),
		T(log__without_memory_is_not_begun),
		T(server__without_memory_does_not_begin),
#undef T
	};

	return cmocka_run_group_tests_name("ps-memory", tests, folder_make, folder_remove);
}
