/* SPDX-License-Identifier: Apache-2.0 */
/* disk_test.c - a log and a checkpoint on a disk, and beside a child, that do otherwise than one hopes: half writes,
 * interruptions, errors of each call. What the kernel says is played, as often as a test asks for it. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>

#include "ps/table_fixture.h"

enum { FILE_BYTES = 10000, CALLS_MAX = 16 };

/* The next so many calls of each kind: an errno; or, below 0, so many bytes at most, -1000 none. */
static struct {
	int write, pwrite, pread, truncate, datasync, sync, rename, fork, wait;
	bool is_orphan, child_dies;
	uint32_t writes; /* of pwrite: where and how many */
	uint64_t at[CALLS_MAX], bytes[CALLS_MAX];
	bool is_noted;
} disk;

/* How long the disk has for each fdatasync, and how many it was asked for. */
static struct {
	atomic_uint ms, begun, done;
} slow;

#define REAL(type, name, ...)            \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* Whether this call is played, and *bytes of it. */
static bool fails(int *play, size_t *bytes)
{
	int is = *play;

	*play = 0;
	if (is > 0)
		errno = is;
	else if (is == -1000)
		*bytes = 0;
	else if (is < 0 && (size_t)-is < *bytes)
		*bytes = (size_t)-is;
	return is > 0;
}

REAL(ssize_t, write, int fd, const void *at, size_t bytes)
{
	if (fails(&disk.write, &bytes))
		return -1;
	return bytes ? __real_write(fd, at, bytes) : 0;
}

REAL(ssize_t, pwrite64, int fd, const void *from, size_t bytes, off_t at)
{
	if (fails(&disk.pwrite, &bytes))
		return -1;
	if (disk.is_noted) {
		assert_true(disk.writes < CALLS_MAX);
		disk.at[disk.writes] = (uint64_t)at;
		disk.bytes[disk.writes++] = bytes;
	}
	return bytes ? __real_pwrite64(fd, from, bytes, at) : 0;
}

REAL(ssize_t, pread64, int fd, void *to, size_t bytes, off_t at)
{
	if (fails(&disk.pread, &bytes))
		return -1;
	return bytes ? __real_pread64(fd, to, bytes, at) : 0;
}

#define FAILS(name, play, ...)                     \
	do {                                       \
		size_t none = 0;                   \
		if (fails(&disk.play, &none))      \
			return -1;                 \
		return __real_##name(__VA_ARGS__); \
	} while (0)

REAL(int, ftruncate64, int fd, off_t bytes)
{
	FAILS(ftruncate64, truncate, fd, bytes);
}

REAL(int, fdatasync, int fd)
{
	size_t none = 0;
	int result;

	if (fails(&disk.datasync, &none))
		return -1;
	atomic_fetch_add(&slow.begun, 1);
	usleep(1000 * atomic_load(&slow.ms));
	result = __real_fdatasync(fd);
	atomic_fetch_add(&slow.done, 1);
	return result;
}

REAL(int, fsync, int fd)
{
	FAILS(fsync, sync, fd);
}

REAL(int, rename, const char *from, const char *to)
{
	FAILS(rename, rename, from, to);
}

REAL(pid_t, waitpid, pid_t pid, int *status, int flags)
{
	FAILS(waitpid, wait, pid, status, flags);
}

REAL(pid_t, getppid, void)
{
	return disk.is_orphan ? 1 : __real_getppid();
}

REAL(pid_t, fork, void)
{
	size_t none = 0;
	pid_t child;

	if (fails(&disk.fork, &none))
		return -1;
	child = __real_fork();
	if (!child && disk.child_dies)
		raise(SIGKILL);
	return child;
}

static int next_fd(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD, 3);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static int setup(void **state)
{
	(void)state;
	memset(&disk, 0, sizeof(disk));
	return 0;
}

/* ---- a log that goes on ---- */

static uint8_t was[FILE_BYTES];

static void file_make(const char *path)
{
	FILE *file = fopen(path, "w");

	for (uint32_t i = 0; i < FILE_BYTES; i++)
		was[i] = (uint8_t)(i % 251);
	assert_non_null(file);
	assert_int_equal(fwrite(was, 1, FILE_BYTES, file), FILE_BYTES);
	fputs("half a record", file);
	fclose(file);
}

static void file_is_as_it_was(const char *path)
{
	static uint8_t is[2 * FILE_BYTES];
	FILE *file = fopen(path, "r");

	assert_int_equal(fread(is, 1, sizeof(is), file), FILE_BYTES);
	fclose(file);
	assert_memory_equal(is, was, FILE_BYTES);
}

static struct log *log_of(const char *path, int want)
{
	struct log_options options = { .path = path,
				       .has = { .bytes = FILE_BYTES, .known = 1000 },
				       .changed = on_change };
	struct log *log = NULL;

	assert_int_equal(log_open(&log, &options, error), want);
	return log;
}

/* What one before us could not sync is written again, from the last byte that is known to be there. */
static void log__writes_its_end_again(void **state)
{
	char path[96];
	struct log *log;

	(void)state;
	name_of(0, "log", path);
	file_make(path);
	disk.is_noted = true;
	disk.pread = -100; /* half of what was asked for */
	log = log_of(path, 0);
	assert_int_equal(disk.writes, 4);
	assert_true(disk.at[0] == 1000 && disk.bytes[0] == 100);
	assert_true(disk.at[1] == 1100 && disk.bytes[1] == 4096);
	assert_true(disk.at[2] == 5196 && disk.bytes[2] == 4096);
	assert_true(disk.at[3] == 9292 && disk.bytes[3] == FILE_BYTES - 9292);
	file_is_as_it_was(path);
	log_close(log);
	file_make(path);
	disk.writes = 0;
	disk.pwrite = -7;
	log = log_of(path, 0);
	assert_int_equal(disk.writes, 4);
	assert_true(disk.at[1] == 1007 && disk.bytes[1] == 4096 - 7);
	file_is_as_it_was(path);
	log_close(log);
	file_make(path);
	disk.pwrite = EINTR;
	log = log_of(path, 0);
	file_is_as_it_was(path);
	log_close(log);
}

static void log__that_cannot_be_written_again_is_not_begun(void **state)
{
	static int *const play[] = { &disk.pread,    &disk.pread, &disk.pwrite,
				     &disk.truncate, &disk.sync,  &disk.pwrite };
	static const int is[] = { -1000, ENOMEM, ENOSPC, EROFS, EDQUOT, -1000 };
	static const int why[] = { EIO, ENOMEM, ENOSPC, EROFS, EDQUOT, EIO };
	char path[96], text[PS_ERROR_MAX];
	int fd = next_fd();

	(void)state;
	name_of(0, "log", path);
	for (uint32_t i = 0; i < 6; i++) {
		file_make(path);
		*play[i] = is[i];
		errno = EINTR; /* of a call long ago */
		assert_null(log_of(path, -1));
		snprintf(text, sizeof(text), "%s: %s", path, strerror(why[i]));
		assert_string_equal(error, text);
		assert_int_equal(next_fd(), fd);
		assert_int_equal(*play[i], 0);
	}
}

/* Also as the least of all, where a program has no stdin. */
static void log__that_cannot_be_read_is_named_and_closed(void **state)
{
	static const char *const kinds[] = { "log", "checkpoint" };
	struct ps_table_options options = options_of(OPTIMISER_SGD);
	struct ps_table *table = open_with(&options);
	char path[96], text[PS_ERROR_MAX];
	int kept;

	(void)state;
	ps_table_close(table);
	kept = dup(STDIN_FILENO);
	assert_true(kept >= 0);
	for (uint32_t i = 0; i < 2; i++) {
		name_of(i, kinds[i], path);
		if (i)
			file_make(path);
		snprintf(text, sizeof(text), "%s: %s", path, strerror(EROFS));
		close(STDIN_FILENO);
		disk.sync = EROFS;
		refused_with(&options, text);
		assert_int_equal(disk.sync, 0);
		assert_int_equal(dup(kept), STDIN_FILENO); /* which is free */
	}
	close(kept);
}

static void log__half_of_a_write_is_followed_by_the_rest(void **state)
{
	struct ps_table *table = open_as(OPTIMISER_SGD);
	struct ps_table *again;

	(void)state;
	settle(table);
	disk.is_noted = true;
	disk.pwrite = -5;
	ps_table_barrier(table, 7);
	settle(table);
	assert_int_equal(disk.writes, 2);
	assert_true(disk.bytes[0] == 5);
	assert_true(disk.at[1] == disk.at[0] + 5);
	disk.is_noted = false;
	disk.pwrite = EINTR;
	ps_table_barrier(table, 8);
	settle(table);
	ps_table_close(table);
	again = open_as(OPTIMISER_SGD);
	assert_int_equal(again->kv.barrier, 8);
	assert_string_equal(again->notice, "");
	ps_table_close(again);
}

static void log__that_cannot_be_synced_is_in_trouble(void **state)
{
	static const int is[] = { EIO, -1000, ENOSPC };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct ps_table *table = open_as(OPTIMISER_SGD);
		uint64_t position;

		settle(table);
		*(i ? &disk.pwrite : &disk.datasync) = is[i];
		ps_table_barrier(table, 7);
		position = ps_table_position(table);
		trouble_wait(table, is[i] == ENOSPC ? ENOSPC : EIO);
		assert_false(ps_table_is_durable(table, position));
		ps_table_close(table); /* it does not wait for the disk */
		files_remove(NULL);
	}
}

/* Else the next one would begin with a hole, as long as what is being written yet. */
static void log__next_file_waits_for_what_is_being_written(void **state)
{
	struct log_options options = { .changed = on_change };
	const uint8_t body[8] = { 1 };
	char first[96], second[96];
	struct record_sum before;
	uint64_t position;
	struct stat is;
	struct log *log;

	(void)state;
	name_of(0, "log", first);
	name_of(1, "log", second);
	options.path = first;
	assert_int_equal(log_open(&log, &options, error), 0);
	slow.ms = 300;
	slow.begun = slow.done = 0;
	(void)log_append(log, 1, 100, body, sizeof(body));
	for (int i = 0; i < 60000 && !slow.begun; i++)
		usleep(1000);
	assert_int_equal(log_turn(log, second, &before, error), 0);
	assert_int_equal(slow.done, 1);
	slow.ms = 0;
	position = log_append(log, 2, 101, body, sizeof(body));
	for (int i = 0; i < 60000 && log_state(log).position < position; i++)
		usleep(1000);
	log_close(log);
	assert_int_equal(before.bytes, RECORD_HEADER_BYTES + sizeof(body));
	assert_int_equal(stat(second, &is), 0);
	assert_int_equal(is.st_size, RECORD_HEADER_BYTES + sizeof(body) + RECORD_WHOLE_BYTES);
}

/* ---- checkpoints ---- */

static struct ps_table *table_of(enum ps_durability durability)
{
	struct ps_table_options options = options_of(OPTIMISER_ADAM);
	struct ps_table *table;
	struct rng rng;

	options.durability = durability;
	table = open_with(&options);
	rng_init(&rng, 3, 0);
	begin(table, 1);
	epoch(table, &rng);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	settle(table);
	return table;
}

static void checkpoint__is_whole_or_not_there(void **state)
{
	static int *const play[] = { &disk.write, &disk.write, &disk.sync, &disk.rename };
	static const int is[] = { -1000, ENOSPC, EDQUOT, EROFS };
	static const int why[] = { EIO, ENOSPC, EDQUOT, EROFS };
	struct ps_table *table = table_of(PS_LOG);
	int fd = next_fd();
	char path[96], longest[5000];

	(void)state;
	name_of(3, "checkpoint", path);
	for (uint32_t i = 0; i < 4; i++) {
		*play[i] = is[i];
		assert_int_equal(ps_table_write(table, path), why[i]);
		assert_false(is_there(3, "checkpoint") || is_there(3, "checkpoint.partial"));
		assert_int_equal(next_fd(), fd);
	}
	assert_int_equal(ps_table_write(table, "/nowhere/T.1.checkpoint"), ENOENT);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(ps_table_write(table, longest), ENAMETOOLONG);
	ps_table_close(table);
}

static uint32_t bytes_of(uint64_t number, uint8_t *at, uint32_t most)
{
	char path[96];
	FILE *file;
	size_t got;

	name_of(number, "checkpoint", path);
	file = fopen(path, "r");
	assert_non_null(file);
	got = fread(at, 1, most, file);
	fclose(file);
	return (uint32_t)got;
}

/* What a killed writer has left of one is written over; what only looks like one is none. */
static void checkpoint__takes_the_place_of_what_was_left(void **state)
{
	struct ps_table *table = table_of(PS_LOG);
	char path[96], partial[96];
	struct stat is, now;

	(void)state;
	name_of(3, "checkpoint", path);
	name_of(3, "checkpoint.partial", partial);
	assert_int_equal(ps_table_write(table, path), 0);
	assert_int_equal(stat(path, &is), 0);
	fclose(fopen(partial, "w"));
	assert_int_equal(truncate(partial, 100000), 0);
	assert_int_equal(ps_table_write(table, path), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_size, is.st_size);
	assert_int_equal(symlink("/dev/null", partial), 0);
	assert_int_equal(ps_table_write(table, path), ELOOP);
	unlink(partial);
	ps_table_close(table);
}

static void checkpoint__is_the_same_however_it_was_written(void **state)
{
	static const int is[] = { 0, -9, EINTR };
	static uint8_t first[1 << 16], next[1 << 16];
	struct ps_table *table = table_of(PS_LOG);
	uint32_t bytes = 0;
	char path[96];

	(void)state;
	name_of(3, "checkpoint", path);
	for (uint32_t i = 0; i < 3; i++) {
		disk.write = is[i];
		assert_int_equal(ps_table_write(table, path), 0);
		assert_false(is_there(3, "checkpoint.partial"));
		if (!i)
			bytes = bytes_of(3, first, sizeof(first));
		assert_int_equal(bytes_of(3, next, sizeof(next)), bytes);
		assert_memory_equal(first, next, bytes);
	}
	assert_true(bytes > 1000);
	ps_table_close(table);
}

static void failed_with(const char *why)
{
	char text[PS_ERROR_MAX];

	snprintf(text, sizeof(text), "table T: no checkpoint was written: %s", why);
	assert_string_equal(error, text);
}

static void writer__that_cannot_begin_or_dies_is_told(void **state)
{
	struct ps_table *table = table_of(PS_LOG);
	char path[96];

	(void)state;
	disk.fork = EAGAIN;
	assert_int_equal(ps_table_checkpoint(table, error), -1);
	failed_with("Resource temporarily unavailable");
	assert_int_equal(table->checkpoint, 0);
	assert_int_equal(ps_table_checkpoint_turn(table, error), 0); /* there is none */
	disk.child_dies = true;
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	assert_int_equal(ps_table_checkpoint(table, error), 0); /* one at a time */
	assert_int_equal(table->number, 2);
	name_of(2, "checkpoint.partial", path);
	fclose(fopen(path, "w"));
	checkpoint_wait(table, -1);
	failed_with("its writer was killed");
	assert_false(is_there(2, "checkpoint.partial"));
	assert_int_equal(table->checkpoint, 0);
	disk.child_dies = false;
	assert_true(is_there(0, "log") && is_there(1, "log")); /* the table rests on them */
	disk.wait = EINTR;
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, 1);
	assert_true(is_there(3, "checkpoint"));
	assert_false(is_there(0, "log") || is_there(1, "log") || is_there(2, "log"));
	disk.wait = ECHILD;
	table->checkpoint = 999999999;
	assert_int_equal(ps_table_checkpoint_turn(table, error), -1);
	failed_with("No child processes");
	assert_int_equal(table->checkpoint, 0);
	ps_table_close(table);
}

/* R-SP-33: what workers have been told is lost must not appear after all. */
static void writer__whose_server_is_gone_writes_none_without_a_log(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct ps_table *table = table_of(i ? PS_LOG : PS_CHECKPOINT);

		disk.is_orphan = true;
		assert_int_equal(ps_table_checkpoint(table, error), 0);
		checkpoint_wait(table, i ? 1 : -1);
		if (!i)
			failed_with("Owner died");
		assert_int_equal(is_there(1, "checkpoint"), i);
		disk.is_orphan = false;
		if (!i) {
			assert_int_equal(ps_table_checkpoint(table, error), 0);
			checkpoint_wait(table, 1);
		}
		ps_table_close(table);
		files_remove(state);
	}
}

static void save__that_fails_is_told(void **state)
{
	struct ps_table *table = table_of(PS_LOG);

	(void)state;
	disk.child_dies = true;
	assert_int_equal(ps_table_save(table, error), -1);
	failed_with("its writer was killed");
	disk.child_dies = false;
	disk.fork = ENOMEM;
	assert_int_equal(ps_table_save(table, error), -1);
	failed_with("Cannot allocate memory");
	assert_int_equal(ps_table_save(table, error), 0);
	assert_true(is_there(3, "checkpoint"));
	ps_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, files_remove)
		T(log__writes_its_end_again),
		T(log__that_cannot_be_written_again_is_not_begun),
		T(log__that_cannot_be_read_is_named_and_closed),
		T(log__half_of_a_write_is_followed_by_the_rest),
		T(log__that_cannot_be_synced_is_in_trouble),
		T(log__next_file_waits_for_what_is_being_written),
		T(checkpoint__is_whole_or_not_there),
		T(checkpoint__takes_the_place_of_what_was_left),
		T(checkpoint__is_the_same_however_it_was_written),
		T(writer__that_cannot_begin_or_dies_is_told),
		T(writer__whose_server_is_gone_writes_none_without_a_log),
		T(save__that_fails_is_told),
#undef T
	};

	return cmocka_run_group_tests_name("ps-disk", tests, folder_make, folder_remove);
}
