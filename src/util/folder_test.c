/* SPDX-License-Identifier: Apache-2.0 */
/* folder_test.c - which folders are written to the disk, and what comes of one that is not. */
#include "util/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What was opened, in this order; and which is refused. */
static char opened[256];
static const char *refused;
static int open_error, sync_error;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	strcat(strcat(opened, *opened ? " " : ""), path);
	if (!refused || strcmp(path, refused) != 0)
		return __real_open64("/dev/null", flags & ~O_DIRECTORY);
	errno = open_error;
	return -1;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	(void)fd;
	errno = sync_error;
	return sync_error ? -1 : 0;
}

/* The least that is not in use. */
static int descriptor(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static void folder_is(int (*sync)(const char *path), const char *path, int result,
		      const char *expected)
{
	int fd = descriptor();

	opened[0] = '\0';
	assert_int_equal(sync(path), result);
	assert_string_equal(opened, expected);
	assert_int_equal(descriptor(), fd); /* it leaves none open */
}

static void refuse(const char *path, int error)
{
	refused = path;
	open_error = error;
}

static void folders__are_what_a_path_says(void **state)
{
	(void)state;
	refuse(NULL, 0);
	folder_is(folder_sync, "/usr/lib/file", 0, "/usr/lib");
	folder_is(folder_sync, "/file", 0, "/");
	folder_is(folder_sync, "file", 0, ".");
	folder_is(folder_sync, "a/file", 0, "a");
	folder_is(folder_sync_above, "/usr/lib/file", 0, "/usr /");
	folder_is(folder_sync_above, "/file", 0, "");
	folder_is(folder_sync_above, "/no/such/file", ENOENT, "");
}

static void folders__are_written_by_who_has_no_standard_input(void **state)
{
	int input = dup(STDIN_FILENO);

	(void)state;
	close(STDIN_FILENO);
	assert_int_equal(descriptor(), STDIN_FILENO);
	errno = EIO;
	folder_is(folder_sync, "/file", 0, "/");
	if (input >= 0) {
		assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
		close(input);
	}
}

static void folders__that_may_not_be_read_are_passed_over_on_the_way_up(void **state)
{
	static const int errors[] = { EACCES, EPERM };

	(void)state;
	for (int i = 0; i < 2; i++) {
		refuse("/usr", errors[i]);
		folder_is(folder_sync_above, "/usr/lib/file", 0, "/usr /");
		folder_is(folder_sync, "/usr/file", errors[i], "/usr");
		refuse("/", errors[i]);
		folder_is(folder_sync_above, "/usr/lib/file", 0, "/usr /");
	}
	refuse("/usr", EIO);
	folder_is(folder_sync_above, "/usr/lib/file", EIO, "/usr");
	refuse(NULL, 0);
}

static void folders__of_file_systems_without_a_disk_are_good(void **state)
{
	(void)state;
	sync_error = EINVAL;
	folder_is(folder_sync_above, "/usr/lib/file", 0, "/usr /");
	sync_error = EIO;
	folder_is(folder_sync_above, "/usr/lib/file", EIO, "/usr");
	folder_is(folder_sync, "/usr/file", EIO, "/usr");
	sync_error = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders__are_what_a_path_says),
		cmocka_unit_test(folders__are_written_by_who_has_no_standard_input),
		cmocka_unit_test(folders__that_may_not_be_read_are_passed_over_on_the_way_up),
		cmocka_unit_test(folders__of_file_systems_without_a_disk_are_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
