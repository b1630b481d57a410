/* SPDX-License-Identifier: Apache-2.0 */
/* torture.c - see torture.h. */
#include "torture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ports.h"

enum { OPTIONS_MAX = 16, STILL_S = 300 };

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

bool child_wait(pid_t pid, double until_s, int *status)
{
	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);

		if (got == pid || (got < 0 && errno == ECHILD))
			return true;
		if (now_s() > until_s)
			return false;
		usleep(2000);
	}
}

bool child_wait_moving(pid_t pid, struct daemon *daemon, uint64_t (*moved)(void), int *status)
{
	double since_s = now_s();
	uint64_t last = moved();

	while (!child_wait(pid, now_s() + 1, status)) {
		uint64_t now = moved();

		daemon_listen(daemon);
		if (now != last)
			since_s = now_s();
		last = now;
		if (now_s() < since_s + STILL_S)
			continue;
		kill(pid, SIGKILL);
		waitpid(pid, status, 0);
		return false;
	}
	return true;
}

/* ---- the daemon ---- */

bool torture_is_v6(void)
{
	const char *family = getenv("TORTURE_FAMILY");

	return family && !strcmp(family, "6");
}

/* As it stands before ":port". */
static const char *loopback(void)
{
	return torture_is_v6() ? "[::1]" : "127.0.0.1";
}

bool torture_lacks_family(void)
{
	if (!torture_is_v6() || !access("/proc/net/if_inet6", F_OK))
		return false;
	printf("SKIP: this host has no IPv6\n");
	return true;
}

static void daemon_main(const char *program, uint16_t port, int log_fd, const char *const *more)
{
	char listen[32];
	const char *words[OPTIONS_MAX] = { program, "--listen", listen, "--receive-buffer", "4M" };

	for (uint32_t i = 5; more && *more && i < OPTIONS_MAX - 1; i++)
		words[i] = *more++;
	snprintf(listen, sizeof(listen), "%s:%u", loopback(), port);
	dup2(log_fd, STDERR_FILENO);
	execv(program, (char *const *)words);
	_exit(127);
}

/* Reads what there is into the log; false: the daemon has ended. */
static bool log_read(struct daemon *daemon, int timeout_ms)
{
	struct pollfd wait = { .fd = daemon->log_fd, .events = POLLIN };
	ssize_t got;

	if (poll(&wait, 1, timeout_ms) <= 0)
		return true;
	if (daemon->log_used > sizeof(daemon->log) / 2) { /* nobody wants the oldest lines */
		daemon->log_used -= sizeof(daemon->log) / 4;
		memmove(daemon->log, daemon->log + sizeof(daemon->log) / 4, daemon->log_used);
	}
	got = read(daemon->log_fd, daemon->log + daemon->log_used,
		   sizeof(daemon->log) - 1 - daemon->log_used);
	if (got <= 0)
		return false;
	daemon->log_used += (size_t)got;
	daemon->log[daemon->log_used] = 0;
	return true;
}

void daemon_listen(struct daemon *daemon)
{
	struct pollfd wait = { .fd = daemon->log_fd, .events = POLLIN };

	while (poll(&wait, 1, 0) > 0 && log_read(daemon, 0)) {
	}
}

/* What follows `words` in a whole line of the log; NULL: nothing so in `patience_s`. */
static const char *log_find(struct daemon *daemon, const char *words, double patience_s)
{
	double until_s = now_s() + patience_s;

	do {
		const char *at = strstr(daemon->log, words);

		if (at && strchr(at, '\n'))
			return at + strlen(words);
	} while (log_read(daemon, 50) && now_s() < until_s);
	return NULL;
}

bool daemon_start(struct daemon *daemon, const char *program, uint16_t port)
{
	return daemon_start_with(daemon, program, port, NULL);
}

bool daemon_start_with(struct daemon *daemon, const char *program, uint16_t port,
		       const char *const *more)
{
	char ready[32];
	const char *at;
	int fds[2];

	if (!port)
		port = port_free(torture_is_v6());
	if (!port) {
		fprintf(stderr, "no port of loopback is free for %s: see tests/e2e/ports.h\n",
			program);
		return false;
	}
	if (pipe2(fds, O_CLOEXEC))
		return false;
	*daemon = (struct daemon){ .program = program, .log_fd = fds[0] };
	daemon->pid = fork_bound();
	if (daemon->pid == 0)
		daemon_main(program, port, fds[1], more);
	close(fds[1]);
	snprintf(ready, sizeof(ready), "ready on %s:", loopback());
	at = log_find(daemon, ready, 30);
	if (!at) {
		fprintf(stderr, "%s is not ready: %s\n", program, daemon->log);
		return false;
	}
	daemon->port = (uint16_t)atoi(at);
	snprintf(daemon->address, sizeof(daemon->address), "%s:%u", loopback(), daemon->port);
	return true;
}

bool daemon_asks(struct daemon *daemon, struct holds *holds)
{
	const char *at;

	while (log_read(daemon, 0) && daemon->log_used) /* older answers are of no interest */
		daemon->log_used = 0;
	daemon->log_used = 0;
	daemon->log[0] = 0;
	kill(daemon->pid, SIGUSR1);
	at = log_find(daemon, "info: holds ", 20);
	return at && sscanf(at, "%u of %*u jobs, %u members, %u connections, %llu bytes",
			    &holds->jobs, &holds->members, &holds->connections, &holds->bytes) == 4;
}

bool daemon_is_empty(struct daemon *daemon, double patience_s, struct holds *holds)
{
	double until_s = now_s() + patience_s;

	do {
		if (!daemon_asks(daemon, holds)) {
			*holds = (struct holds){ .jobs = ~0u }; /* it does not even answer */
			return false;
		}
		if (!holds->jobs && !holds->members && !holds->connections && !holds->bytes)
			return true;
		usleep(5000);
	} while (now_s() < until_s);
	return false;
}

uint64_t daemon_rss_kib(const struct daemon *daemon)
{
	unsigned long long kib = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)daemon->pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static uint32_t descriptors_now(const struct daemon *daemon)
{
	uint32_t count = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)daemon->pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* The least of some looks: while it writes a line of log a daemon has one more. */
uint32_t daemon_descriptors(const struct daemon *daemon)
{
	uint32_t least = descriptors_now(daemon);

	for (uint32_t look = 0; look < 10; look++) {
		usleep(2000);
		uint32_t count = descriptors_now(daemon);
		least = count < least ? count : least;
	}
	return least;
}

void daemon_kill(struct daemon *daemon)
{
	int status;

	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, &status, 0);
	close(daemon->log_fd);
}

int daemon_end(struct daemon *daemon)
{
	int status = 0;

	kill(daemon->pid, SIGTERM);
	while (log_read(daemon, 1000) && !child_wait(daemon->pid, 0, &status))
		;
	if (!child_wait(daemon->pid, now_s() + 10, &status)) {
		daemon_kill(daemon);
		return 128 + SIGKILL;
	}
	close(daemon->log_fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- sums ---- */

/* Whole numbers below 2^14: a sum over 64 ranks is exact in float32, too. */
static int32_t input(uint32_t rank, size_t i, uint32_t seed)
{
	uint32_t x = (rank + 1) * 0x9e3779b9u ^ (uint32_t)i * 0x85ebca6bu ^ seed * 0xc2b2ae35u;

	x = (x ^ x >> 15) * 0x2c1b3c6du;
	return (int32_t)(x ^ x >> 13) >> 18;
}

static size_t count_of(uint32_t seed)
{
	struct rng rng;

	rng_init(&rng, seed, 1);
	return rng_below(&rng, 8) ? rng_log(&rng, 1, 20000) : rng_log(&rng, 20000, SUM_COUNT_MAX);
}

int sum_verified(struct tally_comm *comm, uint32_t seed, int32_t *buffer)
{
	uint32_t rank = tally_comm_rank(comm), size = tally_comm_size(comm);
	float *floats = (float *)buffer;
	size_t count = count_of(seed);
	bool is_float = seed % 2;
	int result;

	for (size_t i = 0; i < count; i++) {
		if (is_float)
			floats[i] = (float)input(rank, i, seed);
		else
			buffer[i] = input(rank, i, seed);
	}
	result = tally_allreduce(buffer, buffer, count, is_float ? TALLY_FLOAT32 : TALLY_INT32,
				 TALLY_SUM, comm);
	for (size_t i = 0; i < count && !result; i++) {
		int32_t sum = 0;

		for (uint32_t other = 0; other < size; other++)
			sum += input(other, i, seed);
		if (is_float ? floats[i] < (float)sum || floats[i] > (float)sum : buffer[i] != sum)
			return SUM_WRONG;
	}
	return result;
}

uint64_t argument(const char *name, const char *text, uint64_t min)
{
	uint64_t number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 0);
	if (*text >= '0' && *text <= '9' && !*end && !errno && number >= min)
		return number;
	fprintf(stderr, "%s %s: a whole number, at least %llu\n", name, text,
		(unsigned long long)min);
	exit(2);
}
