/* SPDX-License-Identifier: Apache-2.0 */
/* load_long_test.c - a line that does not end is read in the memory that any line has. */
#include "glm/load.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "files/file_fixture.h"

static char error[GLM_ERROR_MAX];

#if defined(__SANITIZE_ADDRESS__)
static const bool is_sanitized = true;
#elif defined(__has_feature)
static const bool is_sanitized = __has_feature(thread_sanitizer) ||
				 __has_feature(address_sanitizer);
#else
static const bool is_sanitized = false;
#endif

enum { LONG_BYTES = 100000000, MEMORY_KB_MAX = 72 << 10 };

/* Writes until the reader has enough. */
static void long_line_write(int fd, bool is_row)
{
	static char block[1 << 16];
	size_t used = (size_t)sprintf(block, "1 1:1");
	uint32_t index = 1;

	for (uint64_t done = 0; done < LONG_BYTES; done += used, used = 0) {
		while (used < sizeof(block) - 32) {
			if (is_row)
				used += (size_t)sprintf(block + used, " %u:1", ++index);
			else
				block[used++] = ' ';
		}
		if (write(fd, block, used) != (ssize_t)used)
			break;
	}
	close(fd);
}

/* A reader in a process of its own, so that its memory can be told; its exit status, 0 if all is well. */
static int long_line_read(const char *path, const char *what)
{
	struct glm_load_options options = { 0 };
	struct rusage before, after;
	struct glm_data data;

	getrusage(RUSAGE_SELF, &before);
	if (glm_load(&data, path, &options, error)) {
		if (!what || !strstr(error, what))
			return 1;
	} else if (what || data.rows != 1) {
		return 2;
	}
	getrusage(RUSAGE_SELF, &after);
	glm_data_free(&data);
	if (is_sanitized) /* whose memory is not the reader's */
		return 0;
	return after.ru_maxrss - before.ru_maxrss > MEMORY_KB_MAX ? 3 : 0;
}

static void long_line(bool is_row, const char *what)
{
	const char *path = file_text("");
	int status, fd;
	pid_t pid;

	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(long_line_read(path, what));
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	long_line_write(fd, is_row);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(path); /* before anybody else opens it as a file */
	assert_int_equal(status, 0);
}

static void load__a_line_of_100_mb_does_not_take_100_mb_of_memory(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	long_line(true, ": a row of more than 4194304 features");
	long_line(false, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load__a_line_of_100_mb_does_not_take_100_mb_of_memory),
	};

	alarm(100); /* a pipe whose other end is gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
