/* SPDX-License-Identifier: Apache-2.0 */
/* daemons.c - see daemons.h. */
#include "tests/e2e/daemons.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files/hot_map.h"
#include "tests/e2e/ports.h"

enum { POLL_MS = 2, SAID_BYTES = 1 << 18 };

static const char *test_name = "a test";
static char folder[64], map_path[80];
static struct daemon *daemons[DAEMONS_MAX]; /* that have been started */
static uint32_t daemon_count, lives;
static bool is_child;

/* ---- the test ---- */

void test_begin(const char *name)
{
	test_name = name;
	snprintf(folder, sizeof(folder), "/tmp/tally-%s-XXXXXX", name);
	if (!mkdtemp(folder))
		test_fail("%s: %s", folder, strerror(errno));
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
}

/* Servers are started after those that sum for them, and end before. */
int test_end(bool is_well)
{
	char command[96];

	for (uint32_t i = daemon_count; i-- > 0;)
		if (daemons[i]->pid)
			daemon_end(daemons[i], SIGTERM);
	if (!is_well) {
		fprintf(stderr, "%s: FAILED; what the daemons said is in %s\n", test_name, folder);
		return 1;
	}
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) != 0;
}

void test_fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", test_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	if (is_child)
		_exit(1);
	for (uint32_t i = 0; i < daemon_count; i++)
		if (daemons[i]->pid)
			daemon_end(daemons[i], SIGKILL);
	fprintf(stderr, "%s: FAILED; what the daemons said is in %s\n", test_name, folder);
	exit(1);
}

const char *test_folder(void)
{
	return folder;
}

void *test_shared(size_t bytes)
{
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		test_fail("mmap: %s", strerror(errno));
	return shared;
}

const char *test_map(uint32_t version, uint64_t *key, uint32_t keys)
{
	struct hot_map map = { .version = version, .keys = keys, .key = key };
	char error[FILES_ERROR_MAX];

	if (hot_map_write(map_path, &map, error))
		test_fail("%s", error);
	return map_path;
}

/* ---- time ---- */

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

void sleep_us(uint32_t us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

/* ---- workers ---- */

/* The parent may have ended before the kernel was told whom the child shall not outlive. */
pid_t child(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		test_fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	is_child = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	return 0;
}

void workers_start(pid_t *pid, uint32_t count, void (*run)(uint32_t idx))
{
	for (uint32_t i = 0; i < count; i++) {
		pid[i] = child();
		if (pid[i])
			continue;
		run(i);
		_exit(1);
	}
}

static bool has_ended_well(pid_t *pid, uint32_t count, pid_t ended, int status)
{
	uint32_t i = 0;

	for (uint32_t k = 0; k < daemon_count; k++) {
		if (daemons[k]->pid != ended)
			continue;
		daemons[k]->pid = 0;
		fprintf(stderr, "%s: a daemon has ended by itself: %s\n", test_name,
			daemons[k]->log);
		return false;
	}
	while (i < count && pid[i] != ended)
		i++;
	if (i == count)
		test_fail("a child that nobody knows has ended");
	pid[i] = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return true;
	fprintf(stderr, "%s: worker %u has failed\n", test_name, i);
	return false;
}

static uint32_t workers_left(const pid_t *pid, uint32_t count)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		left += pid[i] != 0;
	return left;
}

bool workers_join(pid_t *pid, uint32_t count, uint64_t until_ms)
{
	bool is_well = true;

	while (workers_left(pid, count) && is_well) {
		int status = 0;
		pid_t ended = waitpid(-1, &status, WNOHANG);

		if (ended > 0) {
			is_well = has_ended_well(pid, count, ended, status);
		} else if (now_ms() >= until_ms) {
			fprintf(stderr, "%s: %u workers hang\n", test_name,
				workers_left(pid, count));
			is_well = false;
		} else {
			sleep_ms(POLL_MS);
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!pid[i])
			continue;
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
		pid[i] = 0;
	}
	return is_well;
}

/* ---- daemons ---- */

/* Its lines go to a file. */
static void daemon_main(const struct daemon *daemon, const char *const *arguments)
{
	int fd = open(daemon->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0)
		test_fail("%s: %s", daemon->log, strerror(errno));
	dup2(fd, STDERR_FILENO);
	execv(arguments[0], (char *const *)(uintptr_t)arguments);
	_exit(127);
}

static void daemon_know(struct daemon *daemon)
{
	for (uint32_t i = 0; i < daemon_count; i++)
		if (daemons[i] == daemon)
			return;
	if (daemon_count == DAEMONS_MAX)
		test_fail("more than %d daemons", DAEMONS_MAX);
	daemons[daemon_count++] = daemon;
}

/* All of this life, as far as SAID_BYTES reach; valid until the next call. */
static char *log_read(const struct daemon *daemon)
{
	static char text[SAID_BYTES];
	FILE *file = fopen(daemon->log, "r");
	size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[bytes] = 0;
	return text;
}

void daemon_start(struct daemon *daemon, const char *const *arguments, uint64_t until_ms)
{
	const char *address;

	daemon_know(daemon);
	snprintf(daemon->log, sizeof(daemon->log), "%s/out.%u", folder, lives++);
	daemon->pid = child();
	if (!daemon->pid)
		daemon_main(daemon, arguments);
	while (!(address = daemon_said(daemon, "ready on "))) {
		if (waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid) {
			daemon->pid = 0;
			test_fail("%s has ended instead of being ready:\n%s", arguments[0],
				  log_read(daemon));
		}
		if (now_ms() > until_ms)
			test_fail("%s does not become ready:\n%s", arguments[0], log_read(daemon));
		sleep_ms(POLL_MS);
	}
	snprintf(daemon->address, sizeof(daemon->address), "%s", address);
}

void daemon_end(struct daemon *daemon, int signal_number)
{
	assert(daemon->pid > 0); /* 0 would be everybody */
	kill(daemon->pid, signal_number);
	waitpid(daemon->pid, NULL, 0);
	daemon->pid = 0;
}

const char *daemon_said(const struct daemon *daemon, const char *what)
{
	char *text = log_read(daemon), *last = NULL;

	for (char *at = text; (at = strstr(at, what)) && strchr(at, '\n');) {
		at += strlen(what);
		last = at;
	}
	if (last)
		last[strcspn(last, ", \n")] = 0;
	return last;
}

const char *daemon_address(struct daemon *daemon)
{
	const char *family = getenv("RANKS_FAMILY");
	bool is_v6 = family && !strcmp(family, "6");
	uint16_t port;

	if (*daemon->address)
		return daemon->address;
	port = port_free(is_v6);
	if (!port)
		test_fail("no port of loopback is free for a daemon: see tests/e2e/ports.h");
	snprintf(daemon->address, sizeof(daemon->address), "%s:%u", is_v6 ? "[::1]" : "127.0.0.1",
		 port);
	return daemon->address;
}
