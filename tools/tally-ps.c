/* SPDX-License-Identifier: Apache-2.0 */
/* tally-ps.c - the parameter server as a daemon: lines of log and signals around src/ps. docs/man/tally-ps.8. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/daemon.h"
#include "tools/tally_ps_options.h"
#include "util/conf.h"

enum { LOCK_TRIES = 50, LOCK_TRY_US = 20000 };

static struct ps_settings settings = {
	.level = PS_INFO,
};

static struct ps_server *running; /* for the signal handlers */

static void log_line(enum ps_level level, const char *line)
{
	if (level <= settings.level)
		daemon_log(daemon_levels[level], line);
}

static void log_server(void *arg, enum ps_level level, const struct ps_about *about,
		       const char *line)
{
	(void)arg;
	if (level <= settings.level)
		daemon_log_about(daemon_levels[level],
				 &(struct daemon_about){ about->table, about->job, about->worker },
				 line);
}

/* SIGHUP. A file that says no key leaves the old one: never none. */
static void key_again(void *arg)
{
	char key[sizeof(settings.key)], line[PS_OPTION_BYTES + 128];
	int error;

	(void)arg;
	if (!*settings.key_file)
		return;
	error = conf_load_key(settings.key_file, key, sizeof(key), NULL);
	if (error) {
		snprintf(line, sizeof(line), "key file %s: %s: the key stays as it was",
			 settings.key_file, conf_error_text(error));
		log_line(PS_ERROR, line);
	} else if (strcmp(key, settings.key) != 0) {
		strcpy(settings.key, key);
		snprintf(line, sizeof(line),
			 "key file %s: another key: whoever connects from now on must know it",
			 settings.key_file);
		log_line(PS_INFO, line);
	}
	explicit_bzero(key, sizeof(key));
}

static void on_signal(int number)
{
	ps_server_ask(running, number == SIGUSR1   ? PS_REPORT
			       : number == SIGUSR2 ? PS_SAVE
			       : number == SIGHUP  ? PS_RELOAD
						   : PS_STOP);
}

/* Two of us in one folder would write the same logs. It is held until we end, however that is; a child of one that was
 * killed, which has just begun to write a checkpoint, may have it for a moment longer. */
static bool folder_take(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return true;
		usleep(LOCK_TRY_US);
	}
	fprintf(stderr, "tally-ps: %s: %s\n", folder,
		fd < 0 ? strerror(errno) : "another tally-ps has its tables there");
	if (fd >= 0)
		close(fd);
	return false;
}

int main(int argc, char **argv)
{
	char error[PS_ERROR_MAX], address[PS_TEXT_BYTES];
	int result;

	daemon_begin();
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored it hides how a checkpoint's writer ends */
	signal(SIGXFSZ, SIG_IGN); /* a limit of a file's size is told like a full disk */
	result = ps_options(&settings, argc, argv);
	if (result >= 0)
		return result;
	daemon_log_open("tally-ps", &settings.is_json);
	if (*settings.folder && !folder_take(settings.folder))
		return EXIT_FAILED;
	settings.server.log = log_server;
	settings.server.reload = key_again;
	if (*settings.warning)
		log_line(PS_WARN, settings.warning);
	if (ps_server_open(&running, &settings.server, error)) {
		daemon_log("error", error);
		return EXIT_FAILED;
	}
	daemon_ready(on_signal, ps_server_address(running, address), settings.server.table_count,
		     "table");
	result = ps_server_run(running);
	daemon_end();
	ps_server_close(running);
	daemon_log_end();
	return result ? EXIT_FAILED : EXIT_DONE;
}
