/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - see daemon.h. */
#include "tools/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { REQUESTS = 3, SIGNALS = 5 };
static const int signals[SIGNALS] = { SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT };

static sigset_t first_signals(int count)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < count; i++)
		sigaddset(&set, signals[i]);
	return set;
}

/* Whoever starts us without a stderr must not find our lines in one of our files or sockets. */
static void fill_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* A connection is a descriptor: as many as we are allowed to. */
static void raise_limits(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

void daemon_begin(void)
{
	const sigset_t requests = first_signals(REQUESTS);

	sigprocmask(SIG_BLOCK, &requests, NULL);
	signal(SIGPIPE, SIG_IGN);
	fill_standard();
	raise_limits();
}

void daemon_ready(void (*handler)(int), const char *address, uint32_t count, const char *of)
{
	const struct sigaction action = { .sa_handler = handler,
					  .sa_flags = SA_RESTART,
					  .sa_mask = first_signals(SIGNALS) };
	const sigset_t requests = first_signals(REQUESTS);
	char line[DAEMON_LINE_BYTES];

	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &action, NULL);
	sigprocmask(SIG_UNBLOCK, &requests, NULL);
	snprintf(line, sizeof(line), "ready on %s, %u %s%s", address, count, of,
		 count == 1 ? "" : "s");
	daemon_log("", line); /* whatever the level: scripts wait for it */
}

void daemon_end(void)
{
	for (int i = 0; i < SIGNALS; i++)
		signal(signals[i], i < REQUESTS ? SIG_IGN : SIG_DFL);
}
