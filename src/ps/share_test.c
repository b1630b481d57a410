/* SPDX-License-Identifier: Apache-2.0 */
/* share_test.c - which of how many servers this is: what lists and folders say otherwise is refused by name. R-KV-22. */
#include "ps/server_fixture.h"

static uint8_t identity[KV_IDENTITY_BYTES];

static int open_as(uint16_t worker, uint64_t incarnation, uint16_t index, uint16_t count,
		   const uint8_t *who, bool is_used)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = { .type = KV_OPEN,
				   .name = "t",
				   .dim = DIM,
				   .server = index,
				   .servers = count,
				   .is_used = is_used };
	int fd = connect_one();

	if (who)
		memcpy(open.identity, who, sizeof(open.identity));
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	return fd;
}

static int opened(uint16_t worker, uint64_t incarnation, uint16_t index, uint16_t count,
		  const uint8_t *who)
{
	int fd = open_as(worker, incarnation, index, count, who, false);

	hear(fd, KV_OPENED);
	assert_int_equal(said.server, index);
	assert_int_equal(said.servers, count);
	if (who)
		assert_memory_equal(said.identity, who, sizeof(identity));
	return fd;
}

static void gone(int fd)
{
	close(fd);
	usleep(50000); /* the server sees it */
}

static void again(void)
{
	end(NULL);
	assert_int_equal(begin(NULL), 0);
}

static void server__first_open_says_which_server_it_is(void **unused)
{
	static const uint8_t none[KV_IDENTITY_BYTES];
	int fd = opened(0, 1, 0, 2, NULL), other;

	(void)unused;
	assert_memory_not_equal(said.identity, none, sizeof(none));
	assert_false(said.is_used);
	memcpy(identity, said.identity, sizeof(identity));
	assert_string_equal(said.text + strlen(said.text) - strlen(" seed 0"), " seed 0");
	other = opened(1, 1, 0, 2, NULL);
	assert_memory_equal(said.identity, identity, sizeof(identity));
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	close(fd);
	close(other);
	again();
	fd = opened(0, 2, 0, 2, NULL);
	assert_true(said.is_used);
	assert_memory_equal(said.identity, identity, sizeof(identity));
	close(fd);
}

static void server__other_place_is_refused_while_somebody_is_there(void **unused)
{
	int fd = opened(0, 1, 0, 2, NULL), other;

	(void)unused;
	other = open_as(1, 1, 1, 2, identity, false);
	hear_no(other, KV_REFUSED_MISMATCH,
		"of worker 1 (H, pid 77) this is number 2 of 2; in that of worker 0 (H, pid 77) "
		"it was number 1 of 2");
	close(other);
	other = open_as(1, 1, 0, 1, NULL, false);
	hear_no(other, KV_REFUSED_MISMATCH, "this is number 1 of 1; in that of worker 0");
	close(other);
	gone(fd);
	/* Nobody had done anything: a list that was wrong may be put right. */
	fd = opened(1, 2, 1, 2, identity);
	gone(fd);
	again();
	fd = opened(1, 3, 1, 2, identity);
	close(fd);
}

/* Each of these is what a worker says, or leaves, when all its servers have opened the table. */
static void server__other_place_is_refused_once_it_was_used(void **unused)
{
	for (unsigned how = 0; how < 4; how++) {
		int fd;

		if (how) {
			end(NULL);
			options_begin();
			assert_int_equal(begin(NULL), 0);
		}
		fd = opened(0, 1, 1, 3, identity);
		if (how == 0) {
			batch_say(fd, 1, 5, 3);
			hear(fd, KV_DONE);
		} else if (how == 1) {
			pull_say(fd, 0, 0);
			hear(fd, KV_PULLED);
		} else if (how == 2) {
			barrier_say(fd, 1);
			barrier_say(fd, 1);
			gone(fd);
			again();
		} else {
			leave(fd);
			fd = -1;
		}
		if (how != 2 && fd >= 0)
			gone(fd);
		if (how == 3)
			again();
		fd = open_as(1, 2, 0, 3, NULL, false);
		hear_no(fd, KV_REFUSED_MISMATCH,
			"number 1 of 3; when the table was made it was number 2 of 3");
		close(fd);
		fd = open_as(1, 2, 1, 2, identity, false);
		hear_no(fd, KV_REFUSED_MISMATCH, "number 2 of 2;");
		close(fd);
		fd = opened(1, 2, 1, 3, identity);
		close(fd);
	}
	(void)unused;
}

static void server__folder_of_another_table_is_refused(void **unused)
{
	static const uint8_t other[KV_IDENTITY_BYTES] = { 9, 9 };
	int fd = opened(0, 1, 1, 2, identity);

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	close(fd);
	fd = open_as(1, 1, 1, 2, other, false);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"of another table of this name than what the first server");
	close(fd);
}

static int open_listed(uint16_t worker, uint64_t incarnation, const uint8_t *who, uint8_t list)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = {
		.type = KV_OPEN, .name = "t", .dim = DIM, .server = 0, .servers = 2
	};
	int fd = connect_one();

	memcpy(open.identity, who, sizeof(open.identity));
	memset(open.own, list, sizeof(open.own));
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	return fd;
}

/* It may have pushed to the others, and been killed before this one was asked for anything. */
static void server__list_is_for_ever_once_it_was_taken(void **unused)
{
	int fd = opened(0, 1, 0, 2, NULL);

	(void)unused;
	memcpy(identity, said.identity, sizeof(identity));
	gone(fd);
	fd = open_listed(0, 1, identity, 5);
	hear(fd, KV_OPENED);
	gone(fd);
	for (unsigned restarts = 0; restarts < 2; restarts++) {
		fd = open_as(1, 2, 0, 1, NULL, false);
		hear_no(fd, KV_REFUSED_MISMATCH,
			"number 1 of 1; when the table was made it was number 1 of 2");
		close(fd);
		fd = opened(1, 2, 0, 2, NULL);
		assert_true(said.is_used);
		gone(fd);
		fd = open_listed(1, 2, identity, 6);
		hear_no(fd, KV_REFUSED_MISMATCH, "than those that the table was made with");
		close(fd);
		again();
	}
}

/* The others are others: of each place there may be several that say they are it. */
static void server__other_servers_behind_the_first_are_refused(void **unused)
{
	int fd = opened(0, 1, 0, 2, NULL), other;

	(void)unused;
	memcpy(identity, said.identity, sizeof(identity));
	other = open_listed(1, 1, identity, 5);
	hear(other, KV_OPENED);
	close(fd);
	fd = open_listed(0, 1, identity, 6);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"of the servers 2 to 2 in the list (TALLY_SERVERS) of worker 0 (H, pid 77) one is "
		"another than those of worker 1");
	close(fd);
	batch_say(other, 1, 5, 3);
	hear(other, KV_DONE);
	close(other);
	again();
	fd = open_listed(0, 2, identity, 6);
	hear_no(fd, KV_REFUSED_MISMATCH, "than those that the table was made with, or has another");
	close(fd);
	fd = open_listed(0, 2, identity, 5);
	hear(fd, KV_OPENED);
	close(fd);
	end(NULL);
	options.adopt_count = 2;
	assert_int_equal(begin(NULL), 0);
	fd = open_listed(0, 3, identity, 6);
	hear(fd, KV_OPENED);
	close(fd);
}

/* One connection for each place in the list. */
static void server__same_server_twice_in_a_list_is_refused(void **unused)
{
	int fd = opened(0, 1, 0, 2, NULL), other;

	(void)unused;
	memcpy(identity, said.identity, sizeof(identity));
	other = open_as(0, 1, 1, 2, identity, false);
	hear_no(other, KV_REFUSED_MISMATCH, "this is number 2 of 2; in that of worker 0");
	close(other);
	close(fd);
}

static void server__folder_that_is_gone_is_named(void **unused)
{
	int fd = open_as(0, 1, 1, 2, identity, true);

	(void)unused;
	hear_no(fd, KV_REFUSED_MISMATCH, "number 2 of 2, has nothing of it, and others have");
	close(fd);
	end(NULL);
	options.adopt_index = 1;
	options.adopt_count = 2;
	assert_int_equal(begin(NULL), 0);
	fd = open_as(0, 1, 0, 2, NULL, false);
	hear_no(fd, KV_REFUSED_MISMATCH, "number 1 of 2; when the table was made it was number 2");
	close(fd);
	fd = open_as(0, 1, 1, 2, identity, true);
	hear(fd, KV_OPENED);
	assert_memory_equal(said.identity, identity, sizeof(identity));
	close(fd);
	again(); /* the same words again are no harm */
	fd = opened(0, 2, 1, 2, identity);
	close(fd);
}

/* R-KV-5 */
static void server__version_1_is_refused_by_name(void **unused)
{
	struct kv_message hello = hello_of(0, 1);
	int fd = connect_one();

	(void)unused;
	hello.version = 1;
	say(fd, &hello);
	hear_no(fd, KV_REFUSED_VERSION, "speaks version 1; this server speaks 4");
	hear_end(fd);
}

static void server__workers_of_two_jobs_are_refused(void **unused)
{
	struct kv_message hello = hello_of(1, 1),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd, other;

	(void)unused;
	end(NULL);
	options.job = "";
	assert_int_equal(begin(NULL), 0);
	fd = opened(0, 1, 0, 1, NULL);
	strcpy(hello.job, "K");
	other = connect_one();
	say(other, &hello);
	hear(other, KV_WELCOME);
	say(other, &open);
	hear_no(other, KV_REFUSED_MISMATCH,
		"table t: worker 1 (H, pid 77) is of job K; worker 0 (H, pid 77), which is here, "
		"is "
		"of job J");
	gone(fd);
	say(other, &open); /* the first one has ended */
	hear(other, KV_OPENED);
	fd = open_as(0, 2, 0, 1, NULL, false);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"is of job J; worker 1 (H, pid 77), which is here, is of job K");
	close(fd);
	close(other);
}

/* Its OPEN is not answered yet. */
static int open_program(uint16_t worker, uint64_t incarnation, uint64_t program)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = {
		.type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM, .program = program
	};
	int fd = connect_one();

	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	return fd;
}

/* R-KV-6: of whichever comes second nothing is taken; not even its place, for its incarnation is higher. */
static void server__two_programs_of_one_launch_are_refused(void **unused)
{
	static const uint64_t program[2] = { 5, 1ull << 63 | 5 };

	(void)unused;
	for (uint64_t first = 0; first < 2; first++) {
		int fd = open_program(0, 10 + first, program[first]), other;

		hear(fd, KV_OPENED);
		for (uint16_t worker = 0; worker < 2; worker++) {
			other = open_program(worker, 100 + 10 * first, program[!first]);
			hear_no(other, KV_REFUSED_MISMATCH,
				worker ? "table t: worker 1 (H, pid 77) and worker 0 (H, pid 77), "
					 "which is here, are of one launch (job J), but of two "
					 "command lines: give each program its own TALLY_JOB"
				       : "both the same TALLY_JOB");
			close(other);
		}
		batch_say(fd, 1, 5, first ? -3 : 3); /* it still has its place */
		hear(fd, KV_DONE);
		other = open_program(1, 20 + first, program[first]);
		hear(other, KV_OPENED);
		assert_int_equal(said.number, 1);
		close(other);
		gone(fd);
	}
}

static void server__program_comes_when_the_other_has_left(void **unused)
{
	struct kv_message open = {
		.type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM, .program = 6
	};
	int fd = open_program(0, 1, 5), other = open_program(1, 1, 6);

	(void)unused;
	hear(fd, KV_OPENED);
	hear_no(other, KV_REFUSED_MISMATCH, "of two command lines");
	leave(fd);
	say(other, &open);
	hear(other, KV_OPENED);
	open.program = 7; /* of its own connection it is no other one's */
	say(other, &open);
	hear(other, KV_OPENED);
	fd = open_program(0, 2, 5);
	hear_no(fd, KV_REFUSED_MISMATCH, "worker 1 (H, pid 77), which is here, are of one launch");
	close(fd);
	close(other);
}

/* Whoever was named, or does not know, says 0. */
static void server__program_that_is_not_said_is_no_other_one(void **unused)
{
	for (unsigned i = 0; i < 2; i++) {
		int fd = open_program(0, 1 + i, i ? 0 : 5), other;

		hear(fd, KV_OPENED);
		other = open_program(1, 1 + i, i ? 5 : 0);
		hear(other, KV_OPENED);
		gone(fd);
		gone(other);
	}
	(void)unused;
}

static char logged[8192];

static void keep_logged(void *arg, enum ps_level level, const struct ps_about *about,
			const char *line)
{
	(void)arg;
	(void)about;
	(void)level;
	if (strlen(logged) + strlen(line) + 2 < sizeof(logged))
		strcat(strcat(logged, line), "\n");
}

static int open_nameless(const char *job, uint16_t index, uint8_t list)
{
	struct kv_message hello = hello_of(1, 1);
	struct kv_message open = { .type = KV_OPEN,
				   .name = "t",
				   .dim = DIM,
				   .server = index,
				   .servers = 2,
				   .program = list == 1 ? 6 : 0,
				   .staleness = list == 9,
				   .mode = list == 9 ? KV_BOUNDED : KV_ASYNC };
	int fd = connect_one();

	*hello.secret = 0;
	strcpy(hello.job, job);
	strcpy(hello.host, "stranger");
	memcpy(open.identity, identity, sizeof(identity));
	if (list != 1 && list != 9)
		memset(open.own, list, sizeof(open.own));
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	return fd;
}

/* Whoever asks may be anybody: the number says enough to put a list right. */
static void server__without_a_key_others_are_numbers(void **unused)
{
	static const struct {
		const char *job;
		uint16_t index;
		uint8_t list; /* 1: none, and another program; 9: none, and another mode */
		const char *because;
	} kind[] = {
		{ "K", 0, 0, "is of job K; worker 0, which is here, is of another job:" },
		{ "J", 0, 1,
		  "worker 1 (stranger, pid 77) and worker 0, which is here, are of one" },
		{ "J", 1, 0, "this is number 2 of 2; in that of worker 0 it was number 1 of 2" },
		{ "J", 0, 6, "one is another than those of worker 0, or has another folder" },
		{ "J", 0, 9, "; worker 0, which is here, as asynchronous, staleness 0" },
	};
	struct kv_message hello = hello_of(0, 1);
	struct kv_message open = {
		.type = KV_OPEN, .name = "t", .dim = DIM, .server = 0, .servers = 2, .program = 5
	};
	int fd;

	(void)unused;
	end(NULL);
	options.key = options.job = "";
	options.log = keep_logged;
	*logged = 0;
	assert_int_equal(begin(NULL), 0);
	fd = connect_one();
	*hello.secret = 0;
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear(fd, KV_OPENED);
	memcpy(identity, said.identity, sizeof(identity));
	memset(open.own, 5, sizeof(open.own));
	memcpy(open.identity, identity, sizeof(identity));
	say(fd, &open);
	hear(fd, KV_OPENED);
	for (unsigned i = 0; i < sizeof(kind) / sizeof(*kind); i++) {
		int other = open_nameless(kind[i].job, kind[i].index, kind[i].list);

		hear_no(other, KV_REFUSED_MISMATCH, kind[i].because);
		assert_null(strstr(said.text, "(H"));
		assert_null(strstr(said.text, "of job J; worker 0"));
		close(other);
	}
	close(fd);
	end(NULL);
	if (!strstr(logged, "worker 0 (H, pid 77), of job J"))
		fail_msg("%s", logged);
	options.job = "J";
	assert_int_equal(begin(NULL), 0);
	fd = connect_one();
	strcpy(hello.job, "K");
	say(fd, &hello);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"of job K with 2 workers; this server is for another job with 2");
	close(fd);
}

/* FNV-1a of its bytes, as the rule says it. */
static uint32_t server_of(uint64_t key, uint32_t count)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (uint32_t i = 0; i < 8; i++)
		hash = (hash ^ (key >> 8 * i & 0xff)) * 0x100000001b3;
	return (uint32_t)(hash % count);
}

static void map_of(const char *path, uint32_t version, uint32_t number, uint32_t server_idx,
		   uint32_t count)
{
	uint64_t keys[64], key = 1;
	struct hot_map map = { .version = version, .table = number, .key = keys };
	char error[FILES_ERROR_MAX];

	for (; map.keys < count; key++)
		if (server_idx == 2 || server_of(key, 2) == server_idx)
			keys[map.keys++] = key;
	if (hot_map_write(path, &map, error))
		fail_msg("%s", error);
}

static void server__map_of_another_server_or_table_is_refused(void **unused)
{
	char path[64], error[PS_ERROR_MAX];
	int fd;

	(void)unused;
	snprintf(path, sizeof(path), "%s/map", folder);
	table.table.map = path;
	end(NULL);
	map_of(path, 1, 0, 0, 16);
	assert_int_equal(begin(NULL), 0);
	fd = open_as(0, 1, 1, 2, identity, false);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"the 16 keys of its map are all of another server than this, "
		"number 2 of 2");
	close(fd);
	fd = opened(0, 1, 0, 2, NULL);
	close(fd);
	for (uint32_t own = 1; own < 3; own++) { /* its own alone, or the whole table's */
		end(NULL);
		map_of(path, 1 + own, 0, own, 40);
		options_begin();
		table.table.map = path;
		assert_int_equal(begin(NULL), 0);
		fd = opened(0, 1, 1, 2, identity);
		close(fd);
	}
	end(NULL);
	map_of(path, 9, 7, 2, 16);
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	if (!strstr(error, "the map of table 7, not of table 0"))
		fail_msg("%s", error);
	table.table.map_table = 7;
	assert_int_equal(begin(NULL), 0);
	unlink(path);
}

/* As a log of the version before has it: a JOIN, and no share. */
static void old_folder_write(void)
{
	char path[64], error[PS_ERROR_MAX];
	uint8_t *file = malloc(1 << 16);
	size_t bytes, left = 0;
	FILE *log;

	snprintf(path, sizeof(path), "%s/t.0.log", folder);
	log = fopen(path, "rb");
	bytes = fread(file, 1, 1 << 16, log);
	fclose(log);
	for (size_t at = 0; at < bytes;) {
		size_t record = RECORD_HEADER_BYTES + sparse_body_get32(file + at);

		if (sparse_body_get32(file + at + 8) < RECORD_WHOLE) {
			memmove(file + left, file + at, record);
			left += record;
		}
		at += record;
	}
	log = fopen(path, "wb");
	assert_int_equal(fwrite(file, 1, left, log), left);
	fclose(log);
	free(file);
	snprintf(path, sizeof(path), "%s/t.1.log", folder); /* says what the first one had */
	unlink(path);
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	if (!strstr(error, "--adopt 0/1 if it is the only one"))
		fail_msg("%s", error);
}

static void server__old_folder_is_adopted_once(void **unused)
{
	char error[PS_ERROR_MAX];
	int fd = opened(0, 1, 0, 1, NULL);

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	close(fd);
	end(NULL);
	old_folder_write();
	options.adopt_count = 1;
	assert_int_equal(begin(NULL), 0);
	options.adopt_count = 0;
	again();
	fd = opened(0, 2, 0, 1, NULL);
	assert_true(said.is_used);
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	assert_true(said.value[0] == 3);
	close(fd);
	fd = open_as(0, 3, 0, 2, NULL, false);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"number 1 of 2; when the table was made it was number 1 of 1");
	close(fd);
	end(NULL);
	options.adopt_count = 2;
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	if (!strstr(error, "--adopt 0/2: its folder is that of number 1 of 1 servers (0/1)"))
		fail_msg("%s", error);
	options.adopt_count = 0;
	assert_int_equal(begin(NULL), 0);
}

static int setup_share(void **state)
{
	memset(identity, 7, sizeof(identity));
	return setup(state);
}

int main(void)
{
#define T(claim) cmocka_unit_test_setup_teardown(server__##claim, setup_share, end)
	const struct CMUnitTest tests[] = {
		T(first_open_says_which_server_it_is),
		T(other_place_is_refused_while_somebody_is_there),
		T(other_place_is_refused_once_it_was_used),
		T(folder_of_another_table_is_refused),
		T(list_is_for_ever_once_it_was_taken),
		T(other_servers_behind_the_first_are_refused),
		T(same_server_twice_in_a_list_is_refused),
		T(folder_that_is_gone_is_named),
		T(workers_of_two_jobs_are_refused),
		T(two_programs_of_one_launch_are_refused),
		T(program_comes_when_the_other_has_left),
		T(program_that_is_not_said_is_no_other_one),
		T(without_a_key_others_are_numbers),
		T(map_of_another_server_or_table_is_refused),
		T(version_1_is_refused_by_name),
		T(old_folder_is_adopted_once),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
