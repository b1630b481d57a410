/* SPDX-License-Identifier: Apache-2.0 */
/* A table with few generations left, or none: docs/protocol.md, R-SP-1. */
#include <stdatomic.h>
#include <sys/stat.h>

#include "ps/aggregator_fixture.h"
#include "ps/server_fixture.h"

#include "files/hot_map.h"
#include "ps/internal.h"
#include "ps/table.h"

enum { WAIT_MS = 20000, HOT = 3 };

static char map_path[] = "/tmp/tally-spent-map-XXXXXX";
static atomic_uint refused_map, at_end, gone, here, used_up; /* lines that say so */

static void on_line(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	(void)arg;
	(void)about;
	(void)level;
	at_end += strstr(line, "nothing hot is summed any more") != NULL;
	gone += strstr(line, "its switch has gone") != NULL;
	here += strstr(line, "is summed here") != NULL;
	used_up += strstr(line, "its generations are used up: ") != NULL;
	refused_map += strstr(line, "its generations are used up: ") &&
		       strstr(line, "version 1 of the map goes on");
}

static void wait_until(const atomic_uint *count, unsigned want)
{
	for (int i = 0; i < WAIT_MS && *count < want; i++)
		usleep(1000);
	assert_true(*count >= want);
}

static void on_change(void *arg)
{
	(void)arg;
}

static void file_write(unsigned number, const struct bytes *bytes)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/t.%u.log", folder, number);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes->at, 1, bytes->count, file), bytes->count);
	assert_int_equal(fclose(file), 0);
}

static void folder_clear(void)
{
	char path[64];

	logs_remove();
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/t.%u.checkpoint", folder, i);
		unlink(path);
	}
}

/* The words of the table, and a fence after which so many are left. *next: the words alone. */
static void logs_make(uint64_t left, struct bytes *log, struct bytes *next)
{
	struct ps_table_options made = table.table;
	struct server_sparse_record fence = {
		.kind = SERVER_SPARSE_FENCE,
		.map = 1,
		.generation = (SPARSE_FENCES_MAX - left) << SPARSE_RANDOM_BITS | 0xfeed
	};
	struct outbox outbox = { 0 };
	struct bytes body = { 0 };
	struct ps_table *words;
	char error[PS_ERROR_MAX];

	folder_clear();
	made.workers = WORKERS;
	made.changed = on_change;
	assert_int_equal(ps_table_open(&words, &made, &outbox, error), 0);
	ps_table_words(words, log);
	ps_table_words(words, next);
	record_step_put(&body, &fence, &words->shape, NULL, 0);
	record_frame(log, SERVER_SPARSE_FENCE, body.at, (uint32_t)body.count);
	ps_table_close(words);
	folder_clear();
	bytes_fini(&body);
}

/* The start's own fence is one of them. */
static void late(uint64_t left)
{
	struct bytes log = { 0 }, next = { 0 };

	logs_make(left, &log, &next);
	file_write(0, &log);
	bytes_fini(&log);
	bytes_fini(&next);
}

static int options_make(void **state)
{
	(void)state;
	options_begin();
	options.log = on_line;
	refused_map = at_end = gone = here = used_up = 0;
	map_write(map_path, 1, HOT);
	return 0;
}

static void open_refused(uint16_t worker, uint64_t incarnation)
{
	struct kv_message hello = hello_of(worker, incarnation),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = connect_one();
	char part[96];

	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_UNSUPPORTED, "table t: its generations are used up: ");
	snprintf(part, sizeof(part), "nobody comes in place of worker %u any more", worker);
	assert_non_null(strstr(said.text, part));
	assert_non_null(strstr(said.text, "begin a table of another name"));
	assert_int_equal(said.about, KV_OPEN);
	close(fd);
}

/* Who is known goes on, and so does the table, however often its server begins anew. */
static void spent__table_takes_nobody_in_place_of_another(void **state)
{
	int fd;

	late(SPARSE_FENCES_LAST + 2);
	assert_int_equal(begin(state), 0);
	close(open_one(0, 1));
	close(open_one(0, 2)); /* the last that is not spared */
	for (uint64_t life = 1; life <= 2; life++) {
		open_refused(0, 3);
		fd = open_one(0, 2);
		assert_true(said.is_known);
		assert_int_equal(said.number, life);
		assert_int_equal(sparse_fences(said.generation),
				 SPARSE_FENCES_MAX - SPARSE_FENCES_LAST + life - 1);
		batch_say(fd, life, 5, -3);
		hear(fd, KV_DONE);
		pull_say(fd, 0, 0);
		hear(fd, KV_PULLED);
		assert_true(said.value[0] == (float)life * -3 && said.value[1] == -said.value[0]);
		close(fd);
		close(open_one(1, 1)); /* the first needs no fence */
		end(state);
		assert_int_equal(begin(state), 0);
	}
	end(state);
}

/* Of worker 0; NULL: it has come, else what it hears. */
static const char *comes(uint64_t incarnation, char text[KV_TEXT_BYTES])
{
	struct kv_message hello = hello_of(0, incarnation),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = connect_one();

	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_any(fd);
	snprintf(text, KV_TEXT_BYTES, "%s", said.text);
	assert_true(said.type == KV_OPENED || said.refusal == KV_REFUSED_BUSY);
	close(fd);
	return said.type == KV_OPENED ? NULL : text;
}

/* So nobody walks them to their end: R-KV-6. */
static void spent__who_come_in_place_of_others_are_not_too_many_at_once(void **state)
{
	uint64_t *spends_ns, s_ns = 1000000000;
	char text[KV_TEXT_BYTES];

	assert_int_equal(begin(state), 0);
	spends_ns = &server->hosted[0]
			     .table->kv.spends_ns; /* it is not looked at before somebody comes */
	assert_null(comes(1, text));
	assert_int_equal(*spends_ns, 0); /* the first of its place spends none */
	*spends_ns = ps_now(server) + 65600 * s_ns;
	assert_non_null(comes(2, text));
	assert_non_null(strstr(text, "table t: workers come in place of others too fast: one a "));
	assert_null(comes(1, text)); /* one that is known goes on */
	close(open_one(1, 1));
	*spends_ns = ps_now(server) + 65500 * s_ns;
	assert_null(comes(2, text));
	assert_true(*spends_ns > ps_now(server) + 65490 * s_ns);
	*spends_ns = 1;
	assert_null(comes(3, text));
	assert_true(*spends_ns > ps_now(server)); /* what was saved up is no more than that */
	assert_true(*spends_ns <= ps_now(server) + s_ns);
	end(state);
}

/* Not the one who is refused, but who is here says what the table is to him. */
static void spent__who_is_refused_changes_no_mode(void **state)
{
	struct kv_message hello = hello_of(0, 2), open = { .type = KV_OPEN,
							   .name = "t",
							   .servers = 1,
							   .dim = DIM,
							   .mode = KV_BOUNDED,
							   .staleness = 3 };
	int here_fd, fd;

	late(SPARSE_FENCES_LAST + 1);
	assert_int_equal(begin(state), 0);
	here_fd = open_one(0, 1);
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_UNSUPPORTED, "table t: its generations are used up: ");
	close(fd);
	close(open_one(1, 1));
	close(here_fd);
	end(state);
}

/* Until then it says so, and who pulls its rows may come. */
static void spent__table_says_so_and_goes_on(void **state)
{
	late(SPARSE_FENCES_SPARE + 2);
	assert_int_equal(begin(state), 0);
	close(open_one(0, 1));
	assert_int_equal(used_up, 0);
	close(open_one(0, 2));
	wait_until(&used_up, 1);
	close(open_one(0, 3));
	wait_until(&used_up, 2);
	end(state);
}

static void spent__table_keeps_its_map(void **state)
{
	table.table.map = map_path;
	late(SPARSE_FENCES_SPARE + 1);
	assert_int_equal(begin(state), 0);
	map_write(map_path, 2, HOT);
	ps_server_ask(server, PS_RELOAD);
	wait_until(&refused_map, 1);
	end(state);
}

static void expect_no_start(const char *part)
{
	char error[PS_ERROR_MAX];

	assert_int_equal(ps_server_open(&server, &options, error), -1);
	if (!strstr(error, part))
		fail_msg("\"%s\" does not say \"%s\"", error, part);
}

static void spent__table_without_a_generation_does_not_begin(void **state)
{
	static const enum ps_durability kinds[] = { PS_LOG, PS_CHECKPOINT };

	for (unsigned i = 0; i < 2; i++) {
		options_make(NULL);
		table.table.durability = kinds[i];
		late(0);
		expect_no_start(
			"table t: its generations are used up: 16777215 of 16777215 fences were");
		late(1);
		assert_int_equal(begin(state), 0);
		close(open_one(0, 1));
		open_refused(0, 2);
		end(state);
	}
}

/* It would need more fences than there are, so nothing is thrown away first. */
static void spent__table_accepts_no_loss(void **state)
{
	struct bytes log = { 0 }, next = { 0 };
	uint8_t body[RECORD_BEFORE_BYTES];
	struct record_sum sum;
	char path[64];

	(void)state;
	logs_make(WORKERS, &log, &next);
	sum = record_sum_of(log.at, log.count);
	sum.bytes += 100;
	record_before_put(body, 0, &sum);
	record_frame(&next, RECORD_BEFORE, body, sizeof(body));
	file_write(0, &log);
	file_write(1, &next);
	expect_no_start("--accept-loss");
	table.table.accepts_loss = true;
	expect_no_start("table t: its generations are used up");
	snprintf(path, sizeof(path), "%s/t.1.log", folder);
	assert_int_equal(access(path, F_OK), 0);
	bytes_fini(&log);
	bytes_fini(&next);
}

/* The switch inside sums, and costs no more fences: nobody else is asked. */
static void spent__table_is_summed_inside(void **state)
{
	played_begin();
	table.table.map = map_path;
	options.aggregator[0] = played.address;
	options.aggregator_count = 1;
	late(SPARSE_FENCES_SPARE);
	assert_int_equal(begin(state), 0);
	sleep(2); /* it would be asked again once a second */
	assert_int_equal(played.opens, 0);
	assert_int_equal(here, 1);
	end(state);
	played_end();
}

/* There is no room inside, and the last generation's switch goes: what is cold goes on. */
static void spent__last_switch_that_goes_ends_no_server(void **state)
{
	int fd;

	played_begin();
	table.table.map = map_path;
	options.aggregator[0] = played.address;
	options.aggregator_count = 1;
	options.switch_memory = 100;
	late(1);
	assert_int_equal(begin(state), 0);
	wait_until(&played.opens, 1);
	fd = open_one(0, 1);
	hear(fd, KV_MAP);
	played_end();
	wait_until(&at_end, 1);
	assert_int_equal(gone, 1);
	usleep(1500000);
	assert_int_equal(at_end, 1); /* once */
	close(fd);
	fd = open_one(0, 1);
	hear(fd, KV_MAP);
	batch_say(fd, 1, 5, -3);
	hear(fd, KV_DONE);
	close(fd);
	end(state);
}

static int files_make(void **state)
{
	int fd = mkstemp(map_path);

	return fd < 0 || close(fd) || folder_make(state);
}

static int files_remove(void **state)
{
	unlink(map_path);
	folder_clear();
	return folder_remove(state);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(spent__##name, options_make)
	const struct CMUnitTest tests[] = {
		T(table_takes_nobody_in_place_of_another),
		T(who_come_in_place_of_others_are_not_too_many_at_once),
		T(who_is_refused_changes_no_mode),
		T(table_says_so_and_goes_on),
		T(table_keeps_its_map),
		T(table_without_a_generation_does_not_begin),
		T(table_accepts_no_loss),
		T(table_is_summed_inside),
		T(last_switch_that_goes_ends_no_server),
	};

	return cmocka_run_group_tests(tests, files_make, files_remove);
}
