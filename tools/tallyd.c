/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallyd.c - the aggregator as a daemon: lines of log and signals around src/server. docs/man/tallyd.8 says what it promises.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "dataplane/hook_tc.h"
#include "tools/tallyd_options.h"
#include "util/lines.h"
#include "util/utf8.h"

enum { LINE_BYTES = 1024 }; /* the server's longest */

static struct settings settings = TALLYD_SETTINGS;
static struct {
	int count;
	char **list;
} words; /* of the command line */

static struct server *running; /* for the signal handler */
static volatile sig_atomic_t signals_seen;
static struct lines lines;

/* --- log: to stderr and nowhere else --- */

static json_t *json_make(const char *level, const char *line)
{
	char text[LINE_BYTES];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return json_pack("{s:f, s:s, s:s}", "time", (double)now.tv_sec + (double)now.tv_nsec / 1e9,
			 "level", level, "text", utf8_copy(text, sizeof(text), line));
}

/* Who reads our lines may have stopped. That is no reason for jobs to end. */
static int log_json(const char *level, const char *line, unsigned count)
{
	json_t *object = json_make(level, line);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t bytes = text ? strlen(text) : 0;
	int result = 0;

	if (text) {
		text[bytes] = '\n'; /* in place of its end */
		result = lines_put(&lines, STDERR_FILENO, text, bytes + 1, count);
	}
	free(text);
	json_decref(object);
	return result;
}

static int log_text(const char *level, const char *line, unsigned count)
{
	char text[LINE_BYTES + 32];
	int bytes =
		snprintf(text, sizeof(text), "tallyd: %s%s%s\n", level, *level ? ": " : "", line);

	return lines_put(&lines, STDERR_FILENO, text, (size_t)bytes, count);
}

static int log_put(const char *level, const char *line, unsigned count)
{
	return settings.is_json ? log_json(level, line, count) : log_text(level, line, count);
}

/* False: there still is no room. */
static bool log_dropped(void)
{
	unsigned dropped = lines_dropped(&lines);
	char line[LINE_BYTES];

	if (!dropped)
		return true;
	snprintf(line, sizeof(line), "%u lines before this one were dropped: nobody read them",
		 dropped);
	return !log_put("warn", line, dropped);
}

static void log_all(const char *level, const char *line)
{
	if (log_dropped())
		(void)log_put(level, line, 1);
	else
		lines_drop(&lines);
}

static void log_line(void *arg, enum server_level level, const char *line)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	(void)arg;
	if (level > settings.level)
		return;
	log_all(names[level], line);
}

/* --- SIGHUP --- */

static void log_change(enum server_level level, const char *line)
{
	log_line(NULL, level, line);
}

/* What options say of themselves goes to stderr, which is this, for now. Nobody else writes there. */
static int read_files(struct settings *next, char *said, size_t bytes)
{
	FILE *true_stderr = stderr, *file = fmemopen(said, bytes, "w");
	int result;

	if (!file) {
		snprintf(said, bytes, "%s", strerror(errno));
		return EXIT_FAILED;
	}
	stderr = file;
	result = tallyd_options_again(next, words.count, words.list);
	stderr = true_stderr;
	fclose(file);
	return result;
}

static bool read_again(void *arg, struct server_options *options)
{
	static const char prefix[] = "tallyd: ";
	struct settings next = TALLYD_SETTINGS;
	char said[LINE_BYTES / 2] = "", line[LINE_BYTES];
	bool is_good = read_files(&next, said, sizeof(said)) < 0;

	(void)arg;
	if (is_good) {
		if (next.warning[0])
			log_line(NULL, SERVER_WARN, next.warning);
		tallyd_options_change(&settings, &next, log_change);
		options->key = settings.key;
		options->gather_ms = settings.server.gather_ms;
		options->drain_ms = settings.server.drain_ms;
	} else {
		said[strcspn(said, "\n")] = '\0';
		snprintf(line, sizeof(line), "all stays as it was: %s",
			 said + (strncmp(said, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
		log_line(NULL, SERVER_ERROR, line);
	}
	explicit_bzero(next.key, sizeof(next.key));
	return is_good;
}

/* --- life --- */

static void on_signal(int signal_number)
{
	(void)signal_number;
	if (signals_seen++)
		server_stop(running);
	else
		server_drain(running);
}

static void on_question(int signal_number)
{
	if (signal_number == SIGHUP)
		server_reload(running);
	else
		server_report(running);
}

/* Who asks for something before we are ready has to wait, and ends nothing. */
static void questions_mask(int how)
{
	sigset_t questions;

	sigemptyset(&questions);
	sigaddset(&questions, SIGUSR1);
	sigaddset(&questions, SIGHUP);
	sigprocmask(how, &questions, NULL);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGTERM);
	sigaddset(&action.sa_mask, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = on_question;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Whoever starts us without a stderr must not find our lines in one of our sockets. */
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

static void say_ready(const struct server *server)
{
	uint32_t shards = settings.server.shards ? settings.server.shards : 1;
	char address[SERVER_TEXT_BYTES], line[LINE_BYTES];

	snprintf(line, sizeof(line), "ready on %s, %u shard%s", server_address(server, address),
		 shards, shards == 1 ? "" : "s");
	log_all(settings.is_json ? "info" : "", line); /* whatever the level: scripts wait for it */
}

int main(int argc, char **argv)
{
	int result;

	questions_mask(SIG_BLOCK);
	fill_standard();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR2, SIG_IGN); /* tally-ps writes checkpoints; here is nothing to write */
	words.count = argc;
	words.list = argv;
	result = tallyd_options(&settings, argc, argv);
	if (result >= 0)
		return result;
	raise_limits();
	settings.server.log = log_line;
	settings.server.read_again = read_again;
	if (settings.is_kernel) {
		settings.server.hook_open = hook_tc_open;
		settings.server.hook_devices = settings.devices;
	}
	if (settings.warning[0])
		log_line(NULL, SERVER_WARN, settings.warning);
	if (server_open(&running, &settings.server))
		return EXIT_FAILED;
	catch_signals();
	questions_mask(SIG_UNBLOCK);
	say_ready(running);
	result = server_run(running);
	/* No handler may reach a server that is being freed. */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	server_close(running);
	(void)log_dropped();
	if (result < 0)
		return EXIT_FAILED;
	return result ? EXIT_KILLED : EXIT_DONE;
}
