/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - the TALLY_* variables from where they may be set: the environment wins over ~/.tally.conf,
 * which wins over /etc/tally.conf. The files hold lines of KEY=VALUE (util/conf.h) with the variables
 * that are the same for all ranks; anything else in them is refused by file, line and what was read.
 */
#ifndef LIB_CONFIG_H
#define LIB_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/bootstrap.h"
#include "util/conf.h"

enum { CONFIG_KEYS = 13, CONFIG_PATH_MAX = 255 };

enum config_file_idx { CONFIG_ETC, CONFIG_HOME, CONFIG_FILES };

struct config_value {
	char text[CONF_VALUE_MAX + 1];
	uint32_t line;
	uint32_t file; /* enum config_file_idx */
};

struct config_file {
	char path[CONFIG_PATH_MAX + 1]; /* "": there is no such place */
	bool is_there;
	bool is_open; /* everybody may read it */
};

struct config {
	bootstrap_get_fn env;
	void *env_arg;
	struct config_file files[CONFIG_FILES];
	struct config_value values[CONFIG_KEYS]; /* text "": not in a file */
};

/* Reads the files; `home` may be NULL, and a file that is not there is fine. TALLY_OK, or
 * TALLY_ERR_ARGUMENT with `text`; the environment counts in any case. */
int config_load(struct config *config, const char *etc, const char *home, bootstrap_get_fn env,
		void *env_arg, char text[BOOTSTRAP_TEXT_MAX]);
/* The process's own: /etc/tally.conf, $HOME/.tally.conf, getenv. */
int config_load_process(struct config *config, char text[BOOTSTRAP_TEXT_MAX]);

/* A bootstrap_get_fn, its arg the config: a variable's value from the first place that sets it, or NULL.
 * TALLY_KEY and TALLY_KEY_FILE are one question: the first place that has either answers both. */
const char *config_get(const char *name, void *config);

/* Adds to an error's text where the variables that it names come from, if that was a file. */
void config_blame(const struct config *config, char text[BOOTSTRAP_TEXT_MAX]);

/* A file with a key in it that everybody may read; NULL: none. */
const char *config_open_key(const struct config *config);

/* The words of TALLY_LOG, by level; and the level that a word means, in any case; -1: none. */
extern const char *const config_levels[TALLY_LOG_DEBUG + 1];
int config_level(const char *word);

/* ---- config_bootstrap.c ---- */

/* All of bootstrap.h for this process: bootstrap_env if is_env (else job, size, rank and source are
 * filled in), then bootstrap_finish. TALLY_OK, or a result with `text`, which names files and lines. */
int config_bootstrap(struct bootstrap *boot, const struct tally_options *options, bool is_env,
		     char text[BOOTSTRAP_TEXT_MAX]);
/* The same for a worker of tables. size 0: bootstrap_env, else size, rank and source are filled in, and bootstrap_name
 * finds the job. `job` is the name that the program gives, NULL or "" if none: it wins over TALLY_JOB. */
int config_worker(struct bootstrap *boot, const struct tally_options *options, const char *job,
		  char text[BOOTSTRAP_TEXT_MAX]);

#endif
