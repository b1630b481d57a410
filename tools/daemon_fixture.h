/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_fixture.h - for tests of a daemon as scripts and service managers see it: words, streams, signals, exit status. */
#ifndef TOOLS_DAEMON_FIXTURE_H
#define TOOLS_DAEMON_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 12, TEXT_BYTES = 16384, PATIENCE_MS = 10000 };

static const char *program;

struct run {
	pid_t pid;
	int out, err;
	char out_text[TEXT_BYTES], err_text[TEXT_BYTES];
	int status;
};

/* words: flags separated by blanks. */
static void run_start(struct run *run, const char *words)
{
	char copy[512], *argv[ARGS_MAX + 2] = { (char *)(uintptr_t)program };
	int out[2], err[2], argc = 1;

	memset(run, 0, sizeof(*run));
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok(copy, " "); word && argc < ARGS_MAX; word = strtok(NULL, " "))
		argv[argc++] = word;
	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(err), 0);
	run->pid = fork();
	if (!run->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		signal(SIGCHLD, SIG_IGN);         /* as whoever starts a daemon may have it */
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
			close(fd);
		execv(program, argv);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	run->out = out[0];
	run->err = err[0];
}

/* Reads stderr until `words` are there. */
static void run_await(struct run *run, const char *words)
{
	struct pollfd wait = { .fd = run->err, .events = POLLIN };
	size_t used = strlen(run->err_text);

	while (!strstr(run->err_text, words)) {
		ssize_t got;

		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		got = read(run->err, run->err_text + used, TEXT_BYTES - 1 - used);
		assert_true(got > 0);
		used += (size_t)got;
	}
}

static void drain(int fd, char *text)
{
	size_t used = strlen(text);
	ssize_t got;

	while ((got = read(fd, text + used, TEXT_BYTES - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
}

static int run_end(struct run *run)
{
	drain(run->out, run->out_text);
	drain(run->err, run->err_text);
	assert_int_equal(waitpid(run->pid, &run->status, 0), run->pid);
	assert_true(WIFEXITED(run->status));
	return WEXITSTATUS(run->status);
}

static int run_all(struct run *run, const char *words)
{
	run_start(run, words);
	return run_end(run);
}

#endif
