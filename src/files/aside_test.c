/* SPDX-License-Identifier: Apache-2.0 */
/* aside_test.c - a file that takes another one's place, or does not: whatever happens nothing is left beside it. */
#include "files/aside.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tally-aside-XXXXXX";
static char path[PATH_MAX], partial[PATH_MAX + 16], error[FILES_ERROR_MAX];

/* Instead of the C library's. */
static int sync_error;
static bool is_folder_bad; /* only folders' sync fails */

int fsync(int fd)
{
	struct stat is;

	assert_int_equal(fstat(fd, &is), 0);
	errno = sync_error;
	return sync_error && (!is_folder_bad || S_ISDIR(is.st_mode)) ? -1 : 0;
}

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	unlink(path);
	unlink(partial);
	return rmdir(folder);
}

static void write_all(const char *text)
{
	struct aside aside;

	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_int_equal(access(partial, F_OK), 0);
	assert_true(aside_write(&aside, text, strlen(text)));
	assert_int_equal(aside_commit(&aside, error), 0);
	assert_null(aside.file);
	assert_int_equal(access(partial, F_OK), -1);
}

static void expect_file(const char *want)
{
	char text[100] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_int_equal(fread(text, 1, sizeof(text) - 1, file), strlen(want));
	fclose(file);
	assert_string_equal(text, want);
}

static void aside__is_there_when_it_is_whole(void **state)
{
	struct aside aside;

	(void)state;
	write_all("old");
	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_true(aside_write(&aside, "ne", 2));
	assert_true(aside_write(&aside, "w", 1));
	expect_file("old");
	assert_int_equal(aside_commit(&aside, error), 0);
	expect_file("new");
}

static void aside__that_is_dropped_was_never_there(void **state)
{
	struct aside aside;

	(void)state;
	write_all("old");
	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_true(aside_write(&aside, "new", 3));
	aside_drop(&aside);
	assert_null(aside.file);
	assert_int_equal(access(partial, F_OK), -1);
	aside_drop(&aside);
	expect_file("old");
}

/* Somebody has put a folder there meanwhile. */
static void aside__that_cannot_take_the_place_is_gone(void **state)
{
	struct aside aside;

	(void)state;
	unlink(path);
	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_true(aside_write(&aside, "new", 3));
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(aside_commit(&aside, error), -1);
	assert_memory_equal(error, path, strlen(path));
	assert_non_null(strstr(error, ": Is a directory"));
	assert_null(aside.file);
	assert_int_equal(access(partial, F_OK), -1);
	assert_int_equal(aside_open(&aside, path, error), -1);
	assert_non_null(strstr(error, "not a regular file: it cannot be replaced"));
	assert_int_equal(rmdir(path), 0);
}

static void aside__that_may_not_be_on_the_disk_is_gone(void **state)
{
	struct aside aside;

	(void)state;
	write_all("old");
	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_true(aside_write(&aside, "new", 3));
	sync_error = EIO;
	assert_int_equal(aside_commit(&aside, error), -1);
	sync_error = 0;
	assert_non_null(strstr(error, "/file: Input/output error"));
	assert_int_equal(access(partial, F_OK), -1);
	expect_file("old");
}

static void aside__whose_folder_may_not_be_on_the_disk_is_an_error(void **state)
{
	struct aside aside;

	(void)state;
	write_all("old");
	assert_int_equal(aside_open(&aside, path, error), 0);
	assert_true(aside_write(&aside, "new", 3));
	sync_error = EIO;
	is_folder_bad = true;
	assert_int_equal(aside_commit(&aside, error), -1);
	sync_error = 0;
	is_folder_bad = false;
	assert_non_null(strstr(error, "/file: written, but its folder cannot be synced"));
	assert_int_equal(access(partial, F_OK), -1);
	expect_file("new");
}

/* Nor is a link followed that lies where the new one is written. */
static void aside__is_no_link(void **state)
{
	struct aside aside;

	(void)state;
	write_all("old");
	assert_int_equal(symlink("file", partial), 0);
	assert_int_equal(aside_open(&aside, path, error), -1);
	assert_memory_equal(error, partial, strlen(partial));
	expect_file("old");
	assert_int_equal(unlink(partial), 0);
}

/* A name that is long enough for itself, and not for what is written beside it. */
static void aside__has_to_have_room_for_its_name(void **state)
{
	char *name = malloc(2 * PATH_MAX);
	size_t used;
	struct aside aside;

	(void)state;
	assert_non_null(name);
	memcpy(name, folder, strlen(folder));
	used = strlen(folder);
	while (used < sizeof(aside.partial) - 8) {
		name[used++] = '/';
		name[used++] = '.';
	}
	memcpy(name + used, "/f", 3);
	assert_int_equal(aside_open(&aside, name, error), -1);
	assert_non_null(strstr(error, ": File name too long"));
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aside__is_there_when_it_is_whole),
		cmocka_unit_test(aside__that_is_dropped_was_never_there),
		cmocka_unit_test(aside__that_cannot_take_the_place_is_gone),
		cmocka_unit_test(aside__that_may_not_be_on_the_disk_is_gone),
		cmocka_unit_test(aside__whose_folder_may_not_be_on_the_disk_is_an_error),
		cmocka_unit_test(aside__is_no_link),
		cmocka_unit_test(aside__has_to_have_room_for_its_name),
	};

	return cmocka_run_group_tests_name("files-aside", tests, folder_make, folder_remove);
}
