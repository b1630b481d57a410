/* SPDX-License-Identifier: Apache-2.0 */
/* Workers by hand, over TCP, against a server in a thread: what comes of memory, disks and time that have an end, and of
 * another map. */
#include "dataplane/engine_sparse.h"
#include "ps/hurry_fixture.h"
#include "ps/server_fixture.h"

static void server__memory_bound_is_named_and_the_table_goes_on(void **unused)
{
	uint64_t keys[2000], number = 1;
	static float values[2000 * DIM];
	struct kv_message batch = {
		.type = KV_BATCH, .dim = DIM, .count = 2000, .key = keys, .value = values
	};
	int fd = open_one(0, 1);

	(void)unused;
	for (;; number++) {
		assert_true(number < 100);
		for (uint64_t i = 0; i < 2000; i++)
			keys[i] = number * 10000 + i;
		batch.number = number;
		say(fd, &batch);
		hear_any(fd);
		if (said.type == KV_ERROR)
			break;
		assert_int_equal(said.type, KV_DONE);
	}
	assert_int_equal(said.refusal, KV_REFUSED_MEMORY);
	assert_non_null(strstr(said.text, "no room for a batch of 2000 keys of worker 0"));
	batch_say(fd, number, 10000, 1); /* a key that is there */
	hear(fd, KV_DONE);
	close(fd);
}

/* R-KV-9 */
static void server__full_disk_is_named_and_nothing_acknowledged(void **unused)
{
	struct rlimit size;
	int fd = open_one(0, 1);
	uint64_t number = 2;

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = 1; /* nothing more at all */
	setrlimit(RLIMIT_FSIZE, &size);
	batch_say(fd, number++, 5, 3);
	assert_true(is_quiet(fd));
	for (int i = 0; i < 100; i++) {
		batch_say(fd, number, 5, 100);
		if (!is_quiet(fd))
			break;
		number++; /* taken, and not acknowledged: the disk has not said no yet */
	}
	hear_no(fd, KV_REFUSED_DISK, "the server cannot write its log: File too large");
	log_wait("0 table t: its log cannot be written: File too large: nothing more is "
		 "acknowledged "
		 "until it can\n");
	assert_int_equal(log_count("can be written again"), 0);
	batch_say(fd, 2, 5, 3); /* it was taken: its answer waits for the disk */
	assert_true(is_quiet(fd));
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	log_wait("1 table t: its log can be written again\n");
	assert_int_equal(log_count("cannot be written"), 1);
	for (uint64_t i = 2; i < number; i++) {
		hear(fd, KV_DONE);
		assert_int_equal(said.number, i);
	}
	hear(fd, KV_DONE);
	assert_int_equal(said.number, 2);
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	assert_true(said.value[0] == 6 + 100 * (float)(number - 3));
	close(fd);
}

static void disk_fill(bool is_full)
{
	struct rlimit size;

	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = is_full ? 1 : RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
}

static void barrier_hear_disk(int fd, uint64_t number)
{
	hear_no(fd, KV_REFUSED_DISK, "table t: the server cannot write its log: File too large");
	assert_int_equal(said.about, KV_BARRIER);
	assert_int_equal(said.number, number);
}

/* R-KV-11: nobody waits for the disk without a word. */
static void server__full_disk_ends_barriers(void **unused)
{
	int fd = open_one(0, 1), other = open_one(1, 1);

	(void)unused;
	barrier_say(fd, 1);
	assert_true(is_quiet(fd)); /* that the table is used is a record of its own */
	disk_fill(true);
	batch_say(other, 1, 5, -3);
	log_wait("worker 0 (H, pid 77) is refused: table t: the server cannot write its log");
	barrier_hear_disk(fd, 1);
	barrier_say(fd, 1);
	barrier_hear_disk(fd, 1);
	disk_fill(false);
	hear(other, KV_DONE);
	barrier_say(other, 1);
	assert_true(is_quiet(other)); /* what was refused has changed nothing */
	barrier_say(fd, 1);
	barrier_hear(fd, 1);
	barrier_hear(other, 1);
	/* One that is passed, but for its record. */
	barrier_say(fd, 2);
	assert_true(is_quiet(fd));
	disk_fill(true);
	barrier_say(other, 2);
	assert_true(is_quiet(other));
	barrier_say(other, 2);
	assert_true(is_quiet(other) &&
		    is_quiet(fd)); /* R-KV-14: refused is what has changed nothing */
	disk_fill(false);
	barrier_hear(fd, 2);
	barrier_hear(other, 2);
	assert_true(is_quiet(fd)); /* it is answered once */
	close(fd);
	close(other);
}

/* Nothing will ever be acknowledged any more: who waits for that is told, and so is who comes. */
static void server__deleted_log_ends_what_waits_for_it(void **unused)
{
	struct kv_message hello = hello_of(1, 2),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = open_one(0, 1), idle = open_one(1, 1);

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	logs_remove();
	batch_say(fd, 2, 5, -7);
	do
		hear_no(fd, KV_REFUSED_DISK, "its file was deleted");
	while (said.about == KV_BATCH); /* it may have been seen before that came */
	assert_int_equal(said.about, KV_NOTHING);
	hear_end(fd);
	hear_no(idle, KV_REFUSED_DISK, "its file was deleted");
	hear_end(idle);
	log_wait("0 table t: its log cannot be written: its file was deleted: nothing more is "
		 "acknowledged, and its workers end: a copy of the folder, and a restart, are what "
		 "helps\n");
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_DISK, "its file was deleted");
	hear_end(fd);
}

static void server__log_that_is_stuck_is_named(void **unused)
{
	struct kv_message hello = hello_of(1, 2),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	struct rlimit size;
	int fd, other, leaver;

	(void)unused;
	end(NULL);
	table.table.log_waiting = 1;
	assert_int_equal(begin(NULL), 0);
	fd = open_one(0, 1);
	leaver = open_one(1, 1);
	/* That the table was used is a record of its own, which is on the disk then. */
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = 1;
	setrlimit(RLIMIT_FSIZE, &size);
	batch_say(fd, 1, 5, 3);
	assert_true(is_quiet(fd));
	say(leaver, &(struct kv_message){ .type = KV_LEAVE });
	assert_true(is_quiet(leaver)); /* R-KV-13: its record waits behind the batch's */
	barrier_say(fd, 1);
	hear_no(fd, KV_REFUSED_DISK, "table t: the server cannot write its log: File too large");
	assert_int_equal(said.about, KV_BARRIER);
	other = connect_one();
	say(other, &hello);
	hear(other, KV_WELCOME);
	say(other, &open);
	hear_no(other, KV_REFUSED_DISK, "too much waits for it already");
	close(other);
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	hear(fd, KV_DONE);
	hear(leaver, KV_LEAVE);
	hear_end(leaver);
	barrier_say(fd, 1);
	barrier_hear(fd, 1);
	close(fd);
}

/* What came while the server was busy counts, though it is read only then. */
static void server__long_turn_is_not_taken_for_silence(void **unused)
{
	enum { BEAT_MS = 100, TURN_MS = 1000 };
	int fd;

	(void)unused;
	end(NULL);
	options.heartbeat_ms = BEAT_MS;
	assert_int_equal(begin(NULL), 0);
	fd = open_one(0, 1);
	log_takes_ms = TURN_MS;
	ps_server_ask(server, PS_REPORT);
	for (int ms = 0; ms < TURN_MS + 2 * BEAT_MS; ms += BEAT_MS / 2) {
		say(fd, &(struct kv_message){ .type = KV_ALIVE });
		usleep(BEAT_MS / 2 * 1000);
	}
	assert_int_equal(log_takes_ms, 0);
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	close(fd);
}

/* R-KV-12: for 8 heartbeats. */
static void server__who_says_nothing_is_given_up(void **unused)
{
	int fd;

	(void)unused;
	end(NULL);
	options.heartbeat_ms = 20;
	assert_int_equal(begin(NULL), 0);
	fd = connect_one();
	hear_end(fd);
}

/* The next server has a map of version 1 with three keys, at path, and worker 0 has got it. */
static int open_with_map(char path[64])
{
	int fd;

	end(NULL);
	snprintf(path, 64, "%s/map", folder);
	map_write(path, 1, 3);
	table.table.map = path;
	table.table.durability = PS_NONE;
	table.table.folder = NULL;
	assert_int_equal(begin(NULL), 0);
	fd = open_one(0, 1);
	map_hear(fd, 1, 3, 1);
	return fd;
}

/* R-KV-8. */
static void server__another_map_is_told_to_all_who_are_there(void **unused)
{
	char path[64];
	int here, later;

	(void)unused;
	here = open_with_map(path);
	ps_server_ask(server, PS_RELOAD); /* the same */
	assert_true(is_quiet(here));
	log_wait("2 table t: version 1 of its map is the one that it has\n");
	map_write(path, 2, 5);
	ps_server_ask(server, PS_RELOAD);
	map_hear(here, 2, 5, 2);
	log_wait("2 table t: version 2 of its map from now on: 5 hot keys\n");
	later = open_one(1, 1);
	assert_int_equal(said.map, 2);
	assert_int_equal(said.ranks, 5);
	map_hear(later, 2, 5, 2);
	map_write(path, 2, 4); /* other keys, and the same version */
	ps_server_ask(server, PS_RELOAD);
	assert_true(is_quiet(here) && is_quiet(later));
	log_wait(
		"0 table t: its map of version 2 has other keys than that of its log, version 2: a "
		"changed map needs a higher version: version 2 of the map goes on\n");
	batch_say(here, 1, 201, 3); /* a hot key */
	hear(here, KV_DONE);
	assert_int_equal(sparse_fences(said.generation), 2);
	map_write(path, 3, 1);
	ps_server_ask(server, PS_RELOAD);
	map_hear(here, 3, 1, 3);
	map_hear(later, 3, 1, 3);
	close(here);
	close(later);
	unlink(path);
}

/* No aggregator, and no room here. */
static void server__map_without_room_for_a_switch_is_refused(void **unused)
{
	char path[64], line[256];
	int fd;

	(void)unused;
	options.switch_memory = engine_sparse_table_bytes(&(struct sparse_table){
		.ranks = 3, .workers = WORKERS, .window = 4, .dim = DIM, .bytes = 1472 });
	fd = open_with_map(path);
	map_write(path, 2, 8);
	ps_server_ask(server, PS_RELOAD);
	assert_true(is_quiet(fd));
	snprintf(
		line, sizeof(line),
		"0 table t: no switch for 8 hot keys: %llu bytes are there for all tables that are "
		"summed here: version 1 of the map goes on\n",
		(unsigned long long)options.switch_memory);
	log_wait(line);
	map_write(path, 2, 2);
	ps_server_ask(server, PS_RELOAD);
	map_hear(fd, 2, 2, 2);
	map_write(path, 3, 3); /* there is just so much */
	ps_server_ask(server, PS_RELOAD);
	map_hear(fd, 3, 3, 3);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(server__##name, setup, end)
		T(memory_bound_is_named_and_the_table_goes_on),
		T(full_disk_is_named_and_nothing_acknowledged),
		T(full_disk_ends_barriers),
		T(deleted_log_ends_what_waits_for_it),
		T(log_that_is_stuck_is_named),
		T(long_turn_is_not_taken_for_silence),
		T(who_says_nothing_is_given_up),
		T(another_map_is_told_to_all_who_are_there),
		T(map_without_room_for_a_switch_is_refused),
#undef T
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
