/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/checkpoint.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/skip.h"

enum { OLD_BYTES = 5000, NEW_BYTES = 300000, KILLS = 40 };

static char folder[] = "/tmp/tally-checkpoint-XXXXXX";
static char path[64], partial[80], error[GLM_ERROR_MAX];
static uint8_t old[OLD_BYTES], new[NEW_BYTES];

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/state", folder);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	for (size_t i = 0; i < NEW_BYTES; i++)
		new[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(old, 'o', sizeof(old));
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	unlink(path);
	unlink(partial);
	return rmdir(folder);
}

static void expect_state(const void *want, size_t want_bytes)
{
	void *state = NULL;
	size_t bytes = 0;

	if (checkpoint_read(path, &state, &bytes, error))
		fail_msg("%s", error);
	assert_int_equal(bytes, want_bytes);
	assert_memory_equal(state, want, want_bytes);
	free(state);
}

static void expect_refused(const void *file, size_t bytes, const char *why)
{
	const uint8_t *state;
	size_t state_bytes;

	assert_int_equal(checkpoint_parse("F", file, bytes, &state, &state_bytes, error), -1);
	if (!strstr(error, why) || strncmp(error, "F: ", 3) != 0)
		fail_msg("\"%s\" is not \"F: ... %s\"", error, why);
}

/* The bytes of the file. */
static uint8_t *file_bytes(size_t *bytes)
{
	FILE *file = fopen(path, "r");
	uint8_t *at = malloc(NEW_BYTES + CHECKPOINT_HEADER_BYTES + 1);

	assert_non_null(file);
	assert_non_null(at);
	*bytes = fread(at, 1, NEW_BYTES + CHECKPOINT_HEADER_BYTES, file);
	fclose(file);
	return at;
}

static void checkpoint__comes_back_as_it_was(void **state)
{
	(void)state;
	assert_int_equal(checkpoint_write(path, old, OLD_BYTES, error), 0);
	expect_state(old, OLD_BYTES);
	assert_int_equal(checkpoint_write(path, new, NEW_BYTES, error), 0);
	expect_state(new, NEW_BYTES);
	assert_int_equal(checkpoint_write(path, new, 0, error), 0);
	expect_state(new, 0);
	assert_int_equal(access(partial, F_OK), -1);
}

/* What an older tally has written is read: the bytes of a file, computed by hand. */
static void checkpoint__has_the_bytes_that_it_had_ever(void **state)
{
	static const uint8_t kept[] = { 't', 'a', 'l', 'l', 'y', 0, 255 };
	static const uint8_t want[CHECKPOINT_HEADER_BYTES] = {
		't',  'a',  'l',  'l',  'y', 'g', 'l', 'm', 1, 0, 0, 0,
		0x9f, 0x4a, 0x4d, 0xcc, 7,   0,   0,   0,   0, 0, 0, 0,
	};
	size_t bytes;
	uint8_t *file;

	(void)state;
	assert_int_equal(checkpoint_write(path, kept, sizeof(kept), error), 0);
	file = file_bytes(&bytes);
	assert_int_equal(bytes, sizeof(want) + sizeof(kept));
	assert_memory_equal(file, want, sizeof(want));
	assert_memory_equal(file + sizeof(want), kept, sizeof(kept));
	free(file);
}

static void checkpoint__no_prefix_of_a_file_is_one(void **state)
{
	size_t bytes;
	uint8_t *file;

	(void)state;
	assert_int_equal(checkpoint_write(path, old, 100, error), 0);
	file = file_bytes(&bytes);
	assert_int_equal(bytes, CHECKPOINT_HEADER_BYTES + 100);
	for (size_t i = 0; i < bytes; i++)
		expect_refused(file, i, i < 8 ? "no checkpoint" : "truncated");
	expect_refused(file, bytes + 1, "behind its end");
	free(file);
}

static void checkpoint__a_changed_byte_is_found(void **state)
{
	size_t bytes;
	uint8_t *file;

	(void)state;
	assert_int_equal(checkpoint_write(path, old, 100, error), 0);
	file = file_bytes(&bytes);
	for (size_t i = 0; i < bytes; i++) {
		file[i] ^= 0x10;
		expect_refused(file, bytes,
			       i < 8    ? "no checkpoint of tally glm"
			       : i < 12 ? "a checkpoint of version"
			       : i < 16 ? "damaged"
			       : i < 24 ? "bytes of state"
					: "damaged");
		file[i] ^= 0x10;
	}
	free(file);
}

static void checkpoint__another_version_is_named(void **state)
{
	size_t bytes;
	uint8_t *file;

	(void)state;
	assert_int_equal(checkpoint_write(path, old, 100, error), 0);
	file = file_bytes(&bytes);
	file[8] = 0;
	expect_refused(file, bytes, "a checkpoint of version 0; this program has version 1");
	free(file);
}

static void checkpoint__what_cannot_be_a_file_is_named(void **state)
{
	char other[96];
	void *at;
	size_t bytes;

	(void)state;
	assert_int_equal(checkpoint_read("/tmp/no/such", &at, &bytes, error), -1);
	assert_string_equal(error, "/tmp/no/such: No such file or directory");
	assert_int_equal(checkpoint_read(folder, &at, &bytes, error), -1);
	assert_non_null(strstr(error, "not a regular file"));
	assert_int_equal(checkpoint_write("/tmp/no/such", old, 1, error), -1);
	assert_non_null(strstr(error, "No such file or directory"));
	assert_int_equal(checkpoint_write("/dev/null", old, 1, error), -1);
	assert_non_null(strstr(error, "/dev/null: not a regular file"));
	assert_int_equal(access("/dev/null.partial", F_OK), -1);

	/* a link stays one, and its target is replaced */
	snprintf(other, sizeof(other), "%s/link", folder);
	assert_int_equal(checkpoint_write(path, old, OLD_BYTES, error), 0);
	assert_int_equal(symlink("state", other), 0);
	assert_int_equal(checkpoint_write(other, new, NEW_BYTES, error), 0);
	expect_state(new, NEW_BYTES);
	assert_int_equal(unlink(other), 0);
}

/* Runs fn in a child: its wait status. */
static int in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		fn();
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void limit_set(void)
{
	const struct rlimit limit = { NEW_BYTES / 2, NEW_BYTES / 2 };
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_FSIZE, &limit);
	setrlimit(RLIMIT_CORE, &none);
}

static void write_limited(void)
{
	signal(SIGXFSZ, SIG_IGN);
	limit_set();
	_exit(checkpoint_write(path, new, NEW_BYTES, error) == -1 && strstr(error, path) &&
			      access(partial, F_OK)
		      ? 0
		      : 1);
}

static void write_killed(void)
{
	signal(SIGXFSZ, SIG_DFL);
	limit_set();
	_exit(checkpoint_write(path, new, NEW_BYTES, error) ? 1 : 0);
}

static void checkpoint__a_full_disk_leaves_the_old_one(void **state)
{
	int status;

	(void)state;
	assert_int_equal(checkpoint_write(path, old, OLD_BYTES, error), 0);
	assert_int_equal(in_child(write_limited), 0);
	expect_state(old, OLD_BYTES);
	status = in_child(write_killed);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGXFSZ);
	expect_state(old, OLD_BYTES);
	/* and what the killed one has left is in nobody's way */
	assert_int_equal(checkpoint_write(path, new, NEW_BYTES, error), 0);
	expect_state(new, NEW_BYTES);
	assert_int_equal(access(partial, F_OK), -1);
}

/* A file system of 64 KiB. */
static void write_tiny(void)
{
	void *at;
	size_t bytes;

	if (mount("none", folder, "tmpfs", 0, "size=64k"))
		_exit(77);
	if (checkpoint_write(path, old, OLD_BYTES, error) ||
	    !checkpoint_write(path, new, NEW_BYTES, error) ||
	    !strstr(error, "No space left on device"))
		_exit(1);
	_exit(checkpoint_read(path, &at, &bytes, error) || bytes != OLD_BYTES ||
	      memcmp(at, old, bytes) != 0);
}

/* Its own mounts, so that nobody has to take one down. */
static void write_tiny_apart(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(77);
	write_tiny();
}

static void checkpoint__a_full_file_system_is_named(void **state)
{
	int status = in_child(write_tiny_apart);

	(void)state;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no mounts of its own (not root, or the kernel refuses them)");
	assert_int_equal(status, 0);
}

static void write_for_ever(void)
{
	for (;;) {
		if (checkpoint_write(path, old, OLD_BYTES, error) ||
		    checkpoint_write(path, new, NEW_BYTES, error))
			_exit(1);
	}
}

static void checkpoint__a_kill_at_any_moment_leaves_a_whole_one(void **state)
{
	unsigned seed = (unsigned)time(NULL), olds = 0;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	assert_int_equal(checkpoint_write(path, old, OLD_BYTES, error), 0);
	for (int i = 0; i < KILLS; i++) {
		pid_t pid = fork();
		void *at = NULL;
		size_t bytes = 0;
		int status;

		assert_true(pid >= 0);
		if (!pid)
			write_for_ever();
		usleep(1u << rand() % 17);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		if (checkpoint_read(path, &at, &bytes, error))
			fail_msg("%s", error);
		olds += bytes == OLD_BYTES;
		if (bytes == OLD_BYTES)
			assert_memory_equal(at, old, OLD_BYTES);
		else
			assert_int_equal(bytes, NEW_BYTES);
		if (bytes == NEW_BYTES)
			assert_memory_equal(at, new, NEW_BYTES);
		free(at);
	}
	print_message("%u of %d left the old one\n", olds, KILLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checkpoint__comes_back_as_it_was),
		cmocka_unit_test(checkpoint__has_the_bytes_that_it_had_ever),
		cmocka_unit_test(checkpoint__no_prefix_of_a_file_is_one),
		cmocka_unit_test(checkpoint__a_changed_byte_is_found),
		cmocka_unit_test(checkpoint__another_version_is_named),
		cmocka_unit_test(checkpoint__what_cannot_be_a_file_is_named),
		cmocka_unit_test(checkpoint__a_full_disk_leaves_the_old_one),
		cmocka_unit_test(checkpoint__a_full_file_system_is_named),
		cmocka_unit_test(checkpoint__a_kill_at_any_moment_leaves_a_whole_one),
	};

	return cmocka_run_group_tests_name("glm-checkpoint", tests, folder_make, folder_remove);
}
