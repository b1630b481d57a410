/* SPDX-License-Identifier: Apache-2.0 */
/* A server with durability=checkpoint that is back: docs/protocol.md, R-SP-33, R-KV-20. */
#include <dirent.h>

#include "ps/server_fixture.h"

enum { WINDOW = 4, SAID_BYTES = 1024 };

static void files_remove(void)
{
	DIR *all = opendir(folder);
	const struct dirent *entry;
	char path[400];

	assert_non_null(all);
	while ((entry = readdir(all)))
		if (!strncmp(entry->d_name, "t.", 2)) {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			unlink(path);
		}
	closedir(all);
}

static char left_said[SAID_BYTES];

static void on_line(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	if (strstr(line, "have left"))
		snprintf(left_said, sizeof(left_said), "%s", line);
	on_log(arg, level, about, line);
}

static int setup_checkpoint(void **state)
{
	files_remove();
	options_begin();
	options.log = on_line;
	*left_said = 0;
	table.table.durability = PS_CHECKPOINT;
	return begin(state);
}

static int teardown(void **state)
{
	end(state);
	files_remove();
	return 0;
}

static void orderly(void)
{
	end(NULL);
	assert_int_equal(begin(NULL), 0);
}

/* As if it were killed now: with the log that it has, and without the checkpoint that an orderly end writes. */
static void crash(uint64_t number)
{
	static char bytes[1 << 16];
	char path[64];
	size_t count;
	FILE *file;

	snprintf(path, sizeof(path), "%s/t.%u.log", folder, (unsigned)number);
	file = fopen(path, "r");
	assert_non_null(file);
	count = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	end(NULL);
	files_remove();
	file = fopen(path, "w");
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(begin(NULL), 0);
}

static void done(int fd, uint64_t number, float value)
{
	batch_say(fd, number, 5, value);
	hear(fd, KV_DONE);
	assert_int_equal(said.number, number);
}

static void report_say(int fd, uint64_t number, uint16_t window)
{
	say(fd, &(struct kv_message){ .type = KV_REPORT, .window = window, .number = number });
}

static void row_is(int fd, float five)
{
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	assert_true(said.value[0] == five);
}

static void server__back_from_its_checkpoint_takes_nothing_before_a_report(void **state)
{
	int fd = open_one(0, 7), other = open_one(1, 8);
	uint64_t generation = said.generation;

	(void)state;
	assert_false(said.must_report);
	done(fd, 1, 100);
	done(fd, 2, 100);
	done(fd, 3, 100);
	close(fd);
	close(other);
	crash(0);
	fd = open_one(0, 7);
	assert_true(said.must_report);
	assert_true(said.is_known);
	assert_int_equal(said.number, 1);
	assert_true(said.generation > generation);
	batch_say(fd, 4, 5, 1);
	hear_no(fd, KV_REFUSED_MESSAGE, "batch 4 of worker 0");
	report_say(fd, 3, WINDOW);
	done(fd, 3, 100); /* it is answered, for it was said to be in, and is not added */
	done(fd, 4, 1);
	row_is(fd, 1);
	report_say(fd, 3, WINDOW);
	hear_no(fd, KV_REFUSED_MESSAGE, "the report of worker 0");
	hear_end(fd);
	other = open_one(1, 8);
	assert_true(said.must_report);
	report_say(other, 0, WINDOW + 1);
	hear_no(other, KV_REFUSED_MESSAGE, "the report of worker 1");
	hear_end(other);
	/* In place of the one that was there: it has nothing to say of that. */
	other = open_one(1, 9);
	assert_false(said.must_report);
	close(other);
}

static void server__report_of_a_table_that_is_not_open_ends_the_connection(void **state)
{
	struct kv_message hello = hello_of(0, 7);
	int fd = connect_one();

	(void)state;
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	report_say(fd, 0, WINDOW);
	hear_no(fd, KV_REFUSED_MESSAGE, "REPORT of worker 0");
	hear_end(fd);
}

static void server__orderly_end_loses_nothing(void **state)
{
	int fd = open_one(0, 7);

	(void)state;
	done(fd, 1, 100);
	done(fd, 2, 100);
	close(fd);
	orderly();
	fd = open_one(0, 7);
	assert_true(said.must_report);
	assert_int_equal(said.number, 3);
	report_say(fd, 2, WINDOW);
	done(fd, 3, 1);
	row_is(fd, 201);
	close(fd);
}

/* Who has left is not waited for, and barriers stay passed; who has not come back is not waited for beyond its time. */
static void server__who_is_not_there_holds_nobody_up(void **state)
{
	int fd = open_one(0, 7), other = open_one(1, 8);
	uint64_t generation;

	(void)state;
	barrier_say(fd, 1);
	barrier_say(other, 1);
	barrier_hear(fd, 1);
	barrier_hear(other, 1);
	leave(other);
	barrier_say(fd, 2);
	barrier_hear(fd, 2);
	close(fd);
	crash(0);
	fd = open_one(0, 7);
	assert_int_equal(said.barrier, 2);
	generation = said.generation;
	report_say(fd, 0, WINDOW);
	barrier_say(fd, 3); /* nobody else is there */
	barrier_hear(fd, 3);
	assert_int_equal(said.generation, generation);
	close(fd);
}

/* Its REPORT begins a generation, for the others have a switch already. */
static void server__late_report_is_taken(void **state)
{
	int fd = open_one(0, 7), other = open_one(1, 8);
	uint64_t generation;

	(void)state;
	done(other, 1, 100);
	close(fd);
	close(other);
	options.heartbeat_ms = 250; /* so it is waited for 3 s, and given up after 2 s of silence */
	crash(0);
	fd = open_one(0, 7);
	generation = said.generation;
	report_say(fd, 0, WINDOW);
	for (int i = 0; i < 400 && generation == said.generation; i++) {
		usleep(50000);
		other = open_one(1, 8);
		assert_true(said.must_report);
		if (i * 50 > 3500)
			report_say(other, 1, WINDOW);
		row_is(other, 0); /* it is not read before the report is */
		close(other);
	}
	assert_int_equal(sparse_fences(said.generation), sparse_fences(generation) + 1);
	close(fd);
}

/* They are not there to say what they had been told: that it is lost is said all the same, and once. */
static void server__says_that_who_has_left_has_lost(void **state)
{
	int fd = open_one(0, 7), other = open_one(1, 8);

	(void)state;
	done(fd, 1, 100);
	leave(fd);
	close(other);
	other = open_one(1, 9);
	done(other, 1, 100);
	leave(other);
	fd = open_one(0, 10); /* is answered when what was recorded before is in the log */
	assert_string_equal(left_said, "");
	close(fd);
	crash(0);
	assert_non_null(strstr(left_said, "table t: 3 workers have left since the checkpoint"));
	*left_said = 0;
	close(open_one(0, 11));
	orderly();
	assert_string_equal(left_said, "");
}

/* Who comes in place of one that had left begins a generation: also in the turn in which the last report comes. */
static void server__newcomer_beside_the_last_report_has_one_switch(void **state)
{
	struct kv_message hello = hello_of(1, 9);
	struct kv_message open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = open_one(0, 7), other = open_one(1, 8);
	uint64_t generation;

	(void)state;
	leave(other);
	close(fd);
	fd = open_one(0, 8); /* is answered when what was recorded before is in the log */
	close(fd);
	crash(0);
	fd = open_one(0, 8);
	generation = said.generation;
	other = connect_one();
	say(other, &hello);
	hear(other, KV_WELCOME);
	usleep(20000); /* or OPEN may be served first */
	log_takes_ms = 300;
	ps_server_ask(server, PS_REPORT);
	usleep(100000); /* in that line: what comes now is served in one turn */
	report_say(fd, 0, WINDOW);
	say(other, &open);
	hear(other, KV_OPENED);
	/* On a slow machine it is after all: then it joins while the server gathers, and needs no generation. */
	assert_in_range(sparse_fences(said.generation), sparse_fences(generation),
			sparse_fences(generation) + 1);
	done(fd, 1, 1);
	done(other, 1, 2);
	row_is(fd, 3);
	close(fd);
	close(other);
}

/* While it waits for its workers no generation may begin, of another map either. */
static void server__map_waits_for_the_reports(void **state)
{
	char path[64];
	uint64_t generation;
	int fd, other;

	(void)state;
	end(NULL);
	files_remove();
	snprintf(path, sizeof(path), "%s/map", folder);
	map_write(path, 1, 3);
	table.table.map = path;
	assert_int_equal(begin(NULL), 0);
	fd = open_one(0, 7);
	other = open_one(1, 8);
	close(fd);
	close(other);
	crash(0);
	fd = open_one(0, 7);
	generation = said.generation;
	hear(fd, KV_MAP);
	report_say(fd, 0, WINDOW);
	map_write(path, 2, 5);
	ps_server_ask(server, PS_RELOAD);
	assert_true(is_quiet(fd));
	other = open_one(1, 8);
	assert_int_equal(said.map, 1);
	report_say(other, 0, WINDOW);
	hear(fd, KV_SWITCH);
	assert_int_equal(said.generation, generation);
	hear(other, KV_MAP);
	hear(other, KV_SWITCH);
	ps_server_ask(server, PS_RELOAD);
	map_hear(fd, 2, 5, sparse_fences(generation) + 1);
	map_hear(other, 2, 5, sparse_fences(generation) + 1);
	close(fd);
	close(other);
	crash(0); /* the map is in the log */
	fd = open_one(0, 7);
	assert_int_equal(said.map, 2);
	assert_true(said.must_report);
	close(fd);
	unlink(path);
}

/* Another durability is another table. */
static void server__other_durability_is_refused(void **state)
{
	char error[PS_ERROR_MAX];

	(void)state;
	end(NULL);
	table.table.durability = PS_LOG;
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_non_null(strstr(error, "made as \"tally-ps 1 table t durability checkpoint dim 2"));
	table.table.durability = PS_CHECKPOINT;
	assert_int_equal(begin(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			server__back_from_its_checkpoint_takes_nothing_before_a_report,
			setup_checkpoint, teardown),
		cmocka_unit_test_setup_teardown(
			server__report_of_a_table_that_is_not_open_ends_the_connection,
			setup_checkpoint, teardown),
		cmocka_unit_test_setup_teardown(server__orderly_end_loses_nothing, setup_checkpoint,
						teardown),
		cmocka_unit_test_setup_teardown(server__who_is_not_there_holds_nobody_up,
						setup_checkpoint, teardown),
		cmocka_unit_test_setup_teardown(server__late_report_is_taken, setup_checkpoint,
						teardown),
		cmocka_unit_test_setup_teardown(server__says_that_who_has_left_has_lost,
						setup_checkpoint, teardown),
		cmocka_unit_test_setup_teardown(
			server__newcomer_beside_the_last_report_has_one_switch, setup_checkpoint,
			teardown),
		cmocka_unit_test_setup_teardown(server__map_waits_for_the_reports, setup_checkpoint,
						teardown),
		cmocka_unit_test_setup_teardown(server__other_durability_is_refused,
						setup_checkpoint, teardown),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
