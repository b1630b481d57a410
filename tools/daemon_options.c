/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_options.c - see daemon.h. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "tools/command.h"
#include "tools/daemon.h"
#include "util/commit.h"
#include "util/conf.h"

static const struct daemon_place command_line;

/* What follows such a name may be a key, and keys are never shown. */
static bool speaks_of_key(const char *name)
{
	return strcasestr(name, "key") && strcmp(name, "key-file") != 0;
}

int daemon_refuse(const char *daemon, const struct daemon_place *place, const char *name,
		  const char *value, const char *why)
{
	if (speaks_of_key(name)) {
		value = "(not shown)";
		why = "no such option: a key is the one line of key-file's FILE";
	}
	if (place->file)
		fprintf(stderr, "%s: %s:%u: %s=%s: %s (%s --help)\n", daemon, place->file,
			place->line, name, value, why, daemon);
	else
		fprintf(stderr, "%s: --%s%s%s: %s (%s --help)\n", daemon, name, *value ? " " : "",
			value, why, daemon);
	return EXIT_USAGE;
}

int daemon_key(const char *daemon, const struct daemon_place *place, const char *path, char *key,
	       size_t bytes, char *warning, size_t warning_bytes)
{
	uint32_t mode = 0;
	int error = conf_load_key(path, key, bytes, &mode);

	if (error)
		return daemon_refuse(daemon, place, "key-file", path, conf_error_text(error));
	if (mode & S_IROTH)
		snprintf(warning, warning_bytes,
			 "key file %.300s may be read by everybody on this host: chmod o-r", path);
	return 0;
}

static const char *const levels[] = { "error", "warn", "info", "debug" };

int daemon_level(const char *name)
{
	for (int i = 0; i < (int)(sizeof(levels) / sizeof(*levels)); i++)
		if (!strcmp(name, levels[i]))
			return i;
	return -1;
}

const char *daemon_level_name(int level)
{
	return levels[level];
}

/* False: `name` has been here before. A name that there is none of is somebody else's to refuse. */
static bool is_first(const struct daemon_options *it, bool seen[DAEMON_OPTIONS_MAX],
		     const char *name)
{
	for (int i = 0; it->options[i].name; i++) {
		if (strcmp(it->options[i].name, name) != 0 || (it->many && !strcmp(it->many, name)))
			continue;
		if (seen[i])
			return false;
		seen[i] = true;
	}
	return true;
}

static bool is_setting(const struct daemon_options *it, const char *name)
{
	for (int i = 0; it->options[i].name; i++)
		if (!strcmp(it->options[i].name, name))
			return it->options[i].val == DAEMON_OPTION_SET;
	return false;
}

static int file_take(const struct daemon_options *it, const char *path, const char *data,
		     size_t bytes)
{
	bool seen[DAEMON_OPTIONS_MAX] = { false };
	enum conf_result got;
	struct conf_pair pair;
	struct conf conf;

	conf_init(&conf, data, bytes);
	while ((got = conf_next(&conf, &pair)) != CONF_END) {
		struct daemon_place place = { path, conf.line };
		int result;

		if (got == CONF_BAD) {
			fprintf(stderr, "%s: %s:%u: %s: %s (%s --help)\n", it->name, path,
				conf.line, pair.why, pair.shown, it->name);
			return EXIT_USAGE;
		}
		if (!is_setting(it, pair.key))
			return daemon_refuse(it->name, &place, pair.key, pair.value,
					     "no such option");
		if (!is_first(it, seen, pair.key))
			return daemon_refuse(it->name, &place, pair.key, pair.value,
					     "is in this file twice: take one out");
		result = it->set(it->settings, &place, pair.key, pair.value);
		if (result)
			return result;
	}
	return 0;
}

static int file_read(const struct daemon_options *it, const char *path)
{
	static char data[CONF_FILE_BYTES];
	long got = conf_load(path, data, sizeof(data), NULL);

	if (got < 0)
		return daemon_refuse(it->name, &command_line, "config", path, conf_error_text(got));
	return file_take(it, path, data, (size_t)got);
}

/* getopt would take --key for short for --key-file, and the key for a file that is not there. -1: go on. */
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
	return -1;
}

static int print(const struct daemon_options *it, bool is_help)
{
	fputs(is_help ? it->help : it->name, stdout);
	if (!is_help)
		fputs(*TALLY_COMMIT ? " " TALLY_VERSION " (commit " TALLY_COMMIT ")\n"
				    : " " TALLY_VERSION "\n",
		      stdout);
	if (!fflush(stdout))
		return EXIT_DONE;
	fprintf(stderr, "%s: ", it->name);
	perror("stdout");
	return EXIT_FAILED;
}

/* Twice over the command line: files first. -1: go on. */
static int parse(const struct daemon_options *it, int argc, char **argv, bool is_for_files)
{
	bool seen[DAEMON_OPTIONS_MAX] = { false };
	int index = 0, option, result = 0;

	optind = 1;
	opterr = is_for_files; /* complain once, getopt names the flag */
	while (!result && (option = getopt_long(argc, argv, "", it->options, &index)) != -1) {
		const char *name = it->options[index].name, *value = optarg ? optarg : "";

		if (option == '?') {
			fprintf(stderr, "%s --help says which there are\n", it->name);
			return EXIT_USAGE;
		}
		if (option == DAEMON_OPTION_HELP || option == DAEMON_OPTION_VERSION)
			return print(it, option == DAEMON_OPTION_HELP);
		if (!is_first(it, seen, name))
			result = daemon_refuse(it->name, &command_line, name, value,
					       "is given twice: take one out");
		else if (is_for_files && option == DAEMON_OPTION_CONFIG)
			result = file_read(it, value);
		else if (!is_for_files && option == DAEMON_OPTION_SET)
			result = it->set(it->settings, &command_line, name, value);
	}
	if (result)
		return result;
	if (optind < argc) {
		fprintf(stderr, "%s: %s: not an option (%s --help)\n", it->name, argv[optind],
			it->name);
		return EXIT_USAGE;
	}
	return -1;
}

int daemon_options_read(const struct daemon_options *it, int argc, char **argv)
{
	int result = refuse_key(it->name, argc, argv);

	if (result < 0)
		result = parse(it, argc, argv, true);
	return result < 0 ? parse(it, argc, argv, false) : result;
}
