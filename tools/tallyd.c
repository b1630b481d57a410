/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallyd.c - the aggregator as a daemon: lines of log and signals around src/server. docs/man/tallyd.8 says what it promises.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "dataplane/chip_bmv2.h"
#include "dataplane/hook_tc.h"
#include "tools/daemon.h"
#include "tools/tallyd_options.h"

static struct settings settings = TALLYD_SETTINGS;
static struct {
	int count;
	char **list;
} words; /* of the command line */

static struct server *running; /* for the signal handler */
static volatile sig_atomic_t signals_seen;

static void log_line(enum server_level level, const char *line)
{
	if (level <= settings.level)
		daemon_log(daemon_levels[level], line);
}

static void log_server(void *arg, enum server_level level, const struct server_about *about,
		       const char *line)
{
	(void)arg;
	if (level <= settings.level)
		daemon_log_about(daemon_levels[level],
				 &(struct daemon_about){
					 NULL, about->job,
					 about->rank == SERVER_RANK_NONE ? -1 : (int)about->rank },
				 line);
}

/* --- SIGHUP --- */

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
	char said[DAEMON_LINE_BYTES / 2] = "", line[DAEMON_LINE_BYTES];
	bool is_good = read_files(&next, said, sizeof(said)) < 0;

	(void)arg;
	/* An empty file is a slip more often than a wish, and it would let in whoever comes. */
	if (is_good && *settings.key && !*next.key) {
		snprintf(said, sizeof(said), "key-file: to ask for no key needs a restart");
		is_good = false;
	}
	if (is_good) {
		if (next.warning[0])
			log_line(SERVER_WARN, next.warning);
		tallyd_options_change(&settings, &next, log_line);
		options->key = settings.key;
		options->gather_ms = settings.server.gather_ms;
		options->drain_ms = settings.server.drain_ms;
	} else {
		said[strcspn(said, "\n")] = '\0';
		snprintf(line, sizeof(line), "all stays as it was: %s",
			 said + (strncmp(said, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
		log_line(SERVER_ERROR, line);
	}
	explicit_bzero(next.key, sizeof(next.key));
	return is_good;
}

/* --- life --- */

static void on_signal(int number)
{
	if (number == SIGHUP)
		server_reload(running);
	else if (number == SIGUSR1)
		server_report(running);
	else if (number == SIGUSR2)
		return; /* tally-ps writes checkpoints; here is nothing to write */
	else if (signals_seen++)
		server_stop(running);
	else
		server_drain(running);
}

int main(int argc, char **argv)
{
	char address[SERVER_TEXT_BYTES];
	uint32_t shards;
	int result;

	daemon_begin();
	words.count = argc;
	words.list = argv;
	result = tallyd_options(&settings, argc, argv);
	if (result >= 0)
		return result;
	daemon_log_open("tallyd", &settings.is_json);
	settings.server.log = log_server;
	settings.server.read_again = read_again;
	settings.server.hook_open = hook_tc_open;
	if (settings.engine == ENGINE_KERNEL)
		settings.server.hook_devices = settings.devices;
	if (settings.engine == ENGINE_P4) {
		settings.server.chip_open = chip_bmv2_open;
		settings.server.chip_address = settings.switch_at;
	}
	if (settings.warning[0])
		log_line(SERVER_WARN, settings.warning);
	if (server_open(&running, &settings.server))
		return EXIT_FAILED;
	shards = settings.server.shards ? settings.server.shards : 1;
	daemon_ready(on_signal, server_address(running, address), shards, "shard");
	result = server_run(running);
	daemon_end();
	server_close(running);
	daemon_log_end();
	if (result < 0)
		return EXIT_FAILED;
	return result ? EXIT_KILLED : EXIT_DONE;
}
