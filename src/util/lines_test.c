/* SPDX-License-Identifier: Apache-2.0 */
#include "util/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT_MS = 500, TEXT_BYTES = 1 << 21 };

static const char *line = "a line of a log that somebody should read, but does not\n";
static char text[TEXT_BYTES];

/* If not 0, what the clock says: it stands still but for those who wait, and they do so in vain. */
static uint64_t played_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!played_ns)
		return __real_clock_gettime(clock, now);
	now->tv_sec = (time_t)(played_ns / 1000000000);
	now->tv_nsec = (long)(played_ns % 1000000000);
	return 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!played_ns)
		return __real_poll(fds, count, timeout_ms);
	played_ns += (uint64_t)timeout_ms * 1000000;
	return 0;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Lines until one is dropped; how many have found room. */
static unsigned fill(struct lines *lines, int fd)
{
	unsigned count = 0;

	while (!lines_put(lines, fd, line, strlen(line), 1))
		assert_true(++count < 1000000);
	return count;
}

static size_t drain(int fd)
{
	size_t bytes = 0;
	ssize_t got;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((got = read(fd, text + bytes, sizeof(text) - 1 - bytes)) > 0)
		bytes += (size_t)got;
	text[bytes] = '\0';
	return bytes;
}

/* Nobody waits, nothing is lost but what was counted, and no line is broken in two. */
static void reader_stops(const int end[2])
{
	struct lines lines = { 0 };
	int flags = fcntl(end[1], F_GETFL);
	uint64_t begun_ms = clock_ms(), from_ms;
	unsigned count = fill(&lines, end[1]);

	from_ms = clock_ms();
	assert_true(from_ms - begun_ms >= LINES_WAIT_MS - 1); /* the first has waited for room */
	for (int i = 0; i < 100; i++)
		assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), -EAGAIN);
	assert_true(clock_ms() - from_ms < PROMPT_MS);
	assert_int_equal(fcntl(end[1], F_GETFL), flags);
	drain(end[0]);
	for (unsigned i = 0; i < count; i++)
		assert_memory_equal(text + i * strlen(line), line, strlen(line));
	assert_int_equal(lines_dropped(&lines), 101);
	assert_int_equal(lines_dropped(&lines), 0);
	assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), 0);
	drain(end[0]);
	assert_non_null(strstr(text, line));
	close(end[0]);
	close(end[1]);
}

static void lines__of_a_full_pipe_are_dropped_and_counted(void **state)
{
	int end[2];

	(void)state;
	assert_int_equal(pipe(end), 0);
	reader_stops(end);
}

static void lines__of_a_full_socket_are_dropped_and_counted(void **state)
{
	int end[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
	reader_stops(end);
}

static void lines__wait_for_room_no_longer_than_is_said(void **state)
{
	struct lines lines = { 0 }, others = { 0 };
	int end[2];

	(void)state;
	assert_int_equal(pipe(end), 0);
	fill(&lines, end[1]);
	played_ns = 7000000000;
	assert_int_equal(lines_put(&others, end[1], line, strlen(line), 1), -EAGAIN);
	assert_int_equal(played_ns, 7000000000 + LINES_WAIT_MS * 1000000ull);
	played_ns = 0;
	close(end[0]);
	close(end[1]);
}

static void lines__longer_than_a_pipe_are_cut_and_end_before_the_next(void **state)
{
	enum { LONG_BYTES = 1 << 20 };
	static char longest[LONG_BYTES];
	struct lines lines = { 0 };
	size_t bytes;
	int end[2];

	(void)state;
	assert_int_equal(pipe(end), 0);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\n';
	assert_int_equal(lines_put(&lines, end[1], longest, sizeof(longest), 1), -EAGAIN);
	bytes = drain(end[0]);
	assert_true(bytes > 0);
	assert_true(bytes < sizeof(longest));
	assert_int_equal(text[bytes - 1], 'x');
	assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), 0);
	bytes = drain(end[0]);
	assert_int_equal(text[0], '\n');
	assert_string_equal(text + 1, line);
	close(end[0]);
	close(end[1]);
}

/* Also when others have been dropped in between: whoever reads at last must not find two lines in one. */
static void lines__that_were_cut_end_before_the_next_that_finds_room(void **state)
{
	enum { LONG_BYTES = 1 << 20 };
	static char longest[LONG_BYTES];
	struct lines lines = { 0 };
	int end[2];

	(void)state;
	assert_int_equal(pipe(end), 0);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\n';
	assert_int_equal(lines_put(&lines, end[1], longest, sizeof(longest), 1), -EAGAIN);
	for (int i = 0; i < 2; i++)
		assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), -EAGAIN);
	drain(end[0]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), 0);
	drain(end[0]);
	assert_int_equal(text[0], '\n');
	assert_memory_equal(text + 1, line, strlen(line));
	assert_string_equal(text + 1 + strlen(line), line);
	close(end[0]);
	close(end[1]);
}

static void *reader_main(void *arg)
{
	ssize_t got;

	for (size_t bytes = 0; (got = read(*(int *)arg, text + bytes, TEXT_BYTES - bytes)) > 0;)
		bytes += (size_t)got;
	return NULL;
}

/* Not all of it in time, if the reader gets no processor. */
static void lines__longer_than_a_pipe_go_on_as_there_is_room(void **state)
{
	static char longest[1 << 18];
	struct lines lines = { 0 };
	size_t bytes = 0;
	pthread_t reader;
	int end[2], result;

	(void)state;
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = (char)('a' + i % 23);
	memset(text, 0, sizeof(text));
	assert_int_equal(pipe(end), 0);
	assert_int_equal(pthread_create(&reader, NULL, reader_main, &end[0]), 0);
	result = lines_put(&lines, end[1], longest, sizeof(longest), 1);
	close(end[1]);
	pthread_join(reader, NULL);
	bytes = strlen(text);
	assert_true(result == -EAGAIN || (!result && bytes == sizeof(longest)));
	assert_memory_equal(text, longest, bytes);
	close(end[0]);
}

/* Who keeps a pipe keeps its reader from the end of file. */
static void lines__keep_nothing_of_a_pipe_open(void **state)
{
	struct lines lines = { 0 };
	int end[2];

	(void)state;
	assert_int_equal(pipe(end), 0);
	assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), 0);
	close(end[1]);
	drain(end[0]);
	assert_string_equal(text, line);
	assert_int_equal(read(end[0], text, 1), 0);
	close(end[0]);
}

static void lines__that_nobody_will_read_are_no_success(void **state)
{
	struct lines lines = { 0 };
	int end[2];

	(void)state;
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	assert_int_equal(pipe(end), 0);
	close(end[0]);
	assert_int_equal(lines_put(&lines, end[1], line, strlen(line), 1), -EPIPE);
	close(end[1]);
}

static void lines__of_a_file_are_all_there(void **state)
{
	char path[] = "/tmp/lines-XXXXXX";
	struct lines lines = { 0 };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(lines_put(&lines, fd, line, strlen(line), 1), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 3 * strlen(line));
	assert_int_equal(lines_dropped(&lines), 0);
	close(fd);
	assert_int_equal(lines_put(&lines, fd, line, strlen(line), 1), -EBADF);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines__of_a_full_pipe_are_dropped_and_counted),
		cmocka_unit_test(lines__of_a_full_socket_are_dropped_and_counted),
		cmocka_unit_test(lines__wait_for_room_no_longer_than_is_said),
		cmocka_unit_test(lines__longer_than_a_pipe_are_cut_and_end_before_the_next),
		cmocka_unit_test(lines__that_were_cut_end_before_the_next_that_finds_room),
		cmocka_unit_test(lines__longer_than_a_pipe_go_on_as_there_is_room),
		cmocka_unit_test(lines__keep_nothing_of_a_pipe_open),
		cmocka_unit_test(lines__that_nobody_will_read_are_no_success),
		cmocka_unit_test(lines__of_a_file_are_all_there),
	};

	alarm(30); /* who waits after all */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
