/* SPDX-License-Identifier: Apache-2.0 */
/* host_id_test.c - run as root it makes namespaces, else user namespaces; where there are none it says so. */
#include "util/host_id.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/skip.h"

static bool has_no_proc, has_half;

/* Of a file that fails when a part of its line has been read. */
static ssize_t half_read(void *arg, char *at, size_t bytes)
{
	bool *is_read = arg;

	if (*is_read || bytes < 4) {
		errno = EIO;
		return -1;
	}
	*is_read = true;
	memcpy(at, "half", 4);
	return 4;
}

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	static bool is_read;

	is_read = false;
	if (has_half)
		return fopencookie(&is_read, "r", (cookie_io_functions_t){ .read = half_read });
	return has_no_proc ? NULL : __real_fopen64(path, mode);
}

struct ids {
	char boot[HOST_BOOT_BYTES], id[HOST_ID_BYTES];
};

static void ids_read(struct ids *ids)
{
	memset(ids, 0, sizeof(*ids));
	host_boot_id(ids->boot);
	host_id_read(ids->id);
}

static void child(int fd, int flags)
{
	struct ids ids;

	if (unshare(flags) && unshare(flags | CLONE_NEWUSER))
		_exit(77);
	ids_read(&ids);
	_exit(write(fd, &ids, sizeof(ids)) != (ssize_t)sizeof(ids));
}

/* What a process of other namespaces reads; false: the kernel does not let us make any. */
static int elsewhere(struct ids *ids, int flags)
{
	int pipes[2], status;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child(pipes[1], flags);
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 0)
		assert_int_equal(read(pipes[0], ids, sizeof(*ids)), sizeof(*ids));
	else
		assert_int_equal(WEXITSTATUS(status), 77);
	close(pipes[0]);
	return WEXITSTATUS(status) == 0;
}

static void host_id__is_the_same_in_all_processes_of_a_host(void **state)
{
	struct ids mine, its;

	(void)state;
	ids_read(&mine);
	assert_int_equal(strlen(mine.boot), 36);
	assert_int_equal(strncmp(mine.id, mine.boot, 36), 0);
	assert_true(elsewhere(&its, 0));
	assert_memory_equal(&mine, &its, sizeof(mine));
}

static void host_id__another_network_namespace_is_another_host_of_one_boot(void **state)
{
	struct ids mine, its;

	(void)state;
	ids_read(&mine);
	if (!elsewhere(&its, CLONE_NEWNET))
		SKIP("the kernel refuses a namespace");
	assert_string_equal(mine.boot, its.boot);
	assert_string_not_equal(mine.id, its.id);
}

static void host_id__without_proc_has_no_boot(void **state)
{
	struct ids mine;

	(void)state;
	has_no_proc = true;
	ids_read(&mine);
	has_no_proc = false;
	assert_string_equal(mine.boot, "");
	assert_int_equal(mine.id[0], '/');
}

static void host_id__that_cannot_be_read_is_no_boot(void **state)
{
	struct ids mine;

	(void)state;
	has_half = true;
	ids_read(&mine);
	has_half = false;
	assert_string_equal(mine.boot, "");
	assert_int_equal(mine.id[0], '/');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_id__is_the_same_in_all_processes_of_a_host),
		cmocka_unit_test(host_id__another_network_namespace_is_another_host_of_one_boot),
		cmocka_unit_test(host_id__without_proc_has_no_boot),
		cmocka_unit_test(host_id__that_cannot_be_read_is_no_boot),
	};

	return cmocka_run_group_tests_name("util-host-id", tests, NULL, NULL);
}
