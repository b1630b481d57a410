/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_options.c - see daemon.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "tools/daemon.h"
#include "util/conf.h"
#include "util/opt.h"

enum { EXIT_USAGE = 2 };

const char *const daemon_levels[] = { "error", "warn", "info", "debug", NULL };

const char *daemon_key(const char *path, char *key, size_t bytes, char *warning,
		       size_t warning_bytes)
{
	uint32_t mode = 0;
	int error = conf_load_key(path, key, bytes, &mode);

	if (error)
		return conf_error_text(error);
	if (mode & S_IROTH)
		snprintf(warning, warning_bytes,
			 "key file %.300s may be read by everybody on this host: chmod o-r", path);
	return NULL;
}

/* ---- the file ---- */

/* What follows such a name may be a key, and keys are never shown. */
static bool speaks_of_key(const char *name)
{
	return strcasestr(name, "key") && strcmp(name, "key-file") != 0;
}

static int line_refuse(const char *daemon, const char *path, uint32_t line,
		       const struct conf_pair *pair, const char *why)
{
	const char *value = pair->value;

	if (speaks_of_key(pair->key)) {
		value = "(not shown)";
		why = "no such option: a key is the one line of key-file's FILE";
	}
	fprintf(stderr, "%s: %s:%u: %s=%s: %s (%s --help)\n", daemon, path, line, pair->key, value,
		why, daemon);
	return EXIT_USAGE;
}

/* A setting of the file. NULL, or what is wrong. */
static const char *pair_take(const struct opt_command *command, const struct conf_pair *pair,
			     uint64_t *seen, struct opt_value *value)
{
	uint64_t bit;

	value->text = pair->value;
	value->opt = opt_find(command->table, command->count, pair->key);
	if (!value->opt)
		return "no such option";
	if (value->opt->not_in_file)
		return value->opt->not_in_file;
	bit = UINT64_C(1) << (value->opt - command->table);
	if (*seen & bit && !value->opt->is_many)
		return "is in this file twice: take one out";
	*seen |= bit;
	return opt_take(value);
}

static int file_read(const struct opt_command *command, void *settings, const char *path)
{
	static char data[CONF_FILE_BYTES];
	struct opt_value value = { .request = settings };
	long got = conf_load(path, data, sizeof(data), NULL);
	enum conf_result result;
	struct conf_pair pair;
	uint64_t seen = 0;
	struct conf conf;
	const char *why;

	if (got < 0)
		return opt_refuse(command->name, "--config", path, conf_error_text(got));
	conf_init(&conf, data, (size_t)got);
	while ((result = conf_next(&conf, &pair)) != CONF_END) {
		if (result == CONF_BAD) {
			fprintf(stderr, "%s: %s:%u: %s: %s (%s --help)\n", command->name, path,
				conf.line, pair.why, pair.shown, command->name);
			return EXIT_USAGE;
		}
		why = pair_take(command, &pair, &seen, &value);
		if (why)
			return line_refuse(command->name, path, conf.line, &pair, why);
	}
	return OPT_GO_ON;
}

/* ---- the command line: once for its file, once for the rest ---- */

struct pass {
	const struct opt_command *command;
	struct opt_value
		value;    /* of the daemon's own table; request NULL: --config alone is wanted */
	const char *path; /* of --config; NULL: none */
	struct opt table[OPT_MAX];
};

static const char *pass_take(struct opt_value *value)
{
	struct pass *pass = value->request;
	size_t index = (size_t)(value->opt - pass->table);

	if (index == pass->command->count) {
		pass->path = value->text;
		return NULL;
	}
	if (!pass->value.request)
		return NULL;
	pass->value.opt = &pass->command->table[index];
	pass->value.text = value->text;
	return opt_take(&pass->value);
}

static int pass_make(struct pass *pass, int argc, char **argv)
{
	struct opt_command command = *pass->command;
	struct opt_line line;
	int status;

	assert(command.count < OPT_MAX); /* one more is --config */
	for (size_t i = 0; i < command.count; i++) {
		pass->table[i] = command.table[i];
		pass->table[i].kind = opt_has_value(&command.table[i]) ? OPT_CALL : OPT_DO;
		pass->table[i].call = pass_take;
		pass->table[i].instead = NULL;
	}
	pass->table[command.count++] = (struct opt){ "config", OPT_CALL, .call = pass_take };
	command.table = pass->table;
	status = opt_read(&command, pass, argc, argv, &line);
	if (status == OPT_GO_ON && line.words)
		return opt_refuse(command.name, line.word[0], NULL, "not an option");
	return status;
}

/* getopt would take --key for short for --key-file, and the key for a file that is not there. */
static int refuse_key(const char *daemon, int argc, char **argv)
{
	static const char flag[] = "--key-file", start[] = "--k";

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		size_t length = strcspn(argv[i], "=");

		if (strncasecmp(argv[i], start, strlen(start)) != 0 ||
		    (length == strlen(flag) && !strncmp(argv[i], flag, length)))
			continue;
		fprintf(stderr,
			"%s: %.*s: no such option: a key is the one line of --key-file FILE "
			"(%s --help)\n",
			daemon, (int)length, argv[i], daemon);
		return EXIT_USAGE;
	}
	return OPT_GO_ON;
}

int daemon_options_read(const struct opt_command *command, void *settings, int argc, char **argv)
{
	struct pass pass = { .command = command };
	int status = refuse_key(command->name, argc, argv);

	if (status == OPT_GO_ON)
		status = pass_make(&pass, argc, argv);
	if (status == OPT_GO_ON && pass.path)
		status = file_read(command, settings, pass.path);
	pass.value.request = settings;
	return status == OPT_GO_ON ? pass_make(&pass, argc, argv) : status;
}
