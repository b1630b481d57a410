/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - see config.h. */
#include "lib/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const config_levels[] = {
	[TALLY_LOG_ERROR] = "error",
	[TALLY_LOG_WARN] = "warn",
	[TALLY_LOG_INFO] = "info",
	[TALLY_LOG_DEBUG] = "debug",
};

/* What is the same on all ranks, sorted. */
static const char *const keys[] = {
	"TALLY_AGGREGATOR", "TALLY_CROSSED",        "TALLY_DEADLINE_S",
	"TALLY_IFNAME",     "TALLY_INIT_TIMEOUT_S", "TALLY_KEY",
	"TALLY_KEY_FILE",   "TALLY_LOCAL",          "TALLY_LOG",
	"TALLY_LOG_JSON",   "TALLY_SAME_BITS",      "TALLY_TIMELINE",
	"TALLY_WINDOW",
};
_Static_assert(sizeof(keys) / sizeof(keys[0]) == CONFIG_KEYS, "a value for each");

/* What is one rank's or one job's. */
static const char *const own_keys[] = { "TALLY_JOB",        "TALLY_RANK",       "TALLY_SIZE",
					"TALLY_LOCAL_RANK", "TALLY_LOCAL_SIZE", "TALLY_SERVERS",
					"TALLY_RUN" };

static int key_find(const char *name)
{
	for (int i = 0; i < CONFIG_KEYS; i++)
		if (!strcmp(keys[i], name))
			return i;
	return -1;
}

static bool is_own_key(const char *name)
{
	for (size_t i = 0; i < sizeof(own_keys) / sizeof(own_keys[0]); i++)
		if (!strcmp(own_keys[i], name))
			return true;
	return false;
}

__attribute__((format(printf, 4, 5))) static int
refuse(char text[BOOTSTRAP_TEXT_MAX], const char *path, uint32_t line, const char *format, ...)
{
	va_list args;
	int used = line ? snprintf(text, BOOTSTRAP_TEXT_MAX, "%s:%u: ", path, line)
			: snprintf(text, BOOTSTRAP_TEXT_MAX, "%s: ", path);

	va_start(args, format);
	vsnprintf(text + used, BOOTSTRAP_TEXT_MAX - (size_t)used, format, args);
	va_end(args);
	return TALLY_ERR_ARGUMENT;
}

int config_level(const char *word)
{
	for (int level = TALLY_LOG_ERROR; level <= TALLY_LOG_DEBUG; level++)
		if (!strcasecmp(word, config_levels[level]))
			return level;
	return -1;
}

/* Log levels are read where nothing may fail (report.c): here is where a wrong one is refused. */
static const char *log_refuse(const char *key, const char *value)
{
	if (!strcmp(key, "TALLY_LOG") && config_level(value) < 0)
		return "not error, warn, info or debug";
	if (!strcmp(key, "TALLY_LOG_JSON") && strcmp(value, "0") && strcmp(value, "1"))
		return "not 0 or 1";
	return NULL;
}

/* One line that is a pair. */
static int pair_take(struct config *config, uint32_t file, const struct conf_pair *pair,
		     uint32_t line, char text[BOOTSTRAP_TEXT_MAX])
{
	const char *path = config->files[file].path, *why;
	int key = key_find(pair->key);
	struct config_value *value;

	if (is_own_key(pair->key))
		return refuse(text, path, line,
			      "%s: is one rank's or one job's, and belongs into the environment",
			      pair->key);
	if (key < 0)
		return refuse(text, path, line, "%s: there is no such variable (tally(7))",
			      pair->key);
	value = &config->values[key];
	if (value->line && value->file == file)
		return refuse(text, path, line, "%s: a second time, the first is in line %u",
			      pair->key, value->line);
	if (!pair->value[0])
		return refuse(text, path, line, "%s: has no value", pair->key);
	why = log_refuse(pair->key, pair->value);
	if (why)
		return refuse(text, path, line, "%s=%.40s is %s", pair->key, pair->value, why);
	strcpy(value->text, pair->value);
	value->line = line;
	value->file = file;
	return TALLY_OK;
}

static int lines_take(struct config *config, uint32_t file, const char *data, size_t bytes,
		      char text[BOOTSTRAP_TEXT_MAX])
{
	enum conf_result got;
	struct conf_pair pair;
	struct conf conf;
	int result = TALLY_OK;

	conf_init(&conf, data, bytes);
	while (!result && (got = conf_next(&conf, &pair)) != CONF_END) {
		if (got == CONF_PAIR)
			result = pair_take(config, file, &pair, conf.line, text);
		else
			result = refuse(text, config->files[file].path, conf.line, "%s: %s",
					pair.why, pair.shown);
	}
	return result;
}

/* Not there, or in a home that is not ours to look into: a daemon with root's HOME. */
static bool is_absent(const char *path, long error)
{
	char folder[CONFIG_PATH_MAX + 1];
	char *slash;

	if (error == -ENOENT || error == -ENOTDIR)
		return true;
	if (error != -EACCES)
		return false;
	strcpy(folder, path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return false;
	*slash = '\0';
	return access(folder, X_OK) != 0;
}

static int file_take(struct config *config, uint32_t idx, const char *path,
		     char text[BOOTSTRAP_TEXT_MAX])
{
	struct config_file *file = &config->files[idx];
	uint32_t mode = 0;
	int result = TALLY_OK;
	char *data;
	long got;

	if (!path || strlen(path) > CONFIG_PATH_MAX)
		return TALLY_OK;
	strcpy(file->path, path);
	data = malloc(CONF_FILE_BYTES);
	if (!data)
		return refuse(text, path, 0, "out of memory");
	got = conf_load(path, data, CONF_FILE_BYTES, &mode);
	file->is_there = got >= 0;
	file->is_open = mode & S_IROTH;
	if (got >= 0)
		result = lines_take(config, idx, data, (size_t)got, text);
	else if (!is_absent(path, got))
		result = refuse(text, path, 0, "cannot be read: %s", conf_error_text(got));
	free(data);
	return result;
}

int config_load(struct config *config, const char *etc, const char *home, bootstrap_get_fn env,
		void *env_arg, char text[BOOTSTRAP_TEXT_MAX])
{
	int result;

	memset(config, 0, sizeof(*config));
	config->env = env;
	config->env_arg = env_arg;
	result = file_take(config, CONFIG_ETC, etc, text);
	return result ? result : file_take(config, CONFIG_HOME, home, text);
}

int config_load_process(struct config *config, char text[BOOTSTRAP_TEXT_MAX])
{
	const char *home = secure_getenv("HOME");
	char path[CONFIG_PATH_MAX + 1];
	int length = home && *home ? snprintf(path, sizeof(path), "%s/.tally.conf", home) : -1;

	return config_load(config, "/etc/tally.conf",
			   length > 0 && length < (int)sizeof(path) ? path : NULL, bootstrap_getenv,
			   NULL, text);
}

/* An empty variable is one that is not set. */
static const char *env_value(const struct config *config, const char *name)
{
	const char *value = config->env(name, config->env_arg);

	return value && *value ? value : NULL;
}

const char *config_get(const char *name, void *arg)
{
	const struct config *config = arg;
	const char *value = env_value(config, name), *twin = NULL;
	int key = value ? -1 : key_find(name);
	const struct config_value *other;

	if (key < 0 || !config->values[key].line)
		return value;
	if (!strcmp(name, "TALLY_KEY"))
		twin = "TALLY_KEY_FILE";
	else if (!strcmp(name, "TALLY_KEY_FILE"))
		twin = "TALLY_KEY";
	if (twin) {
		other = &config->values[key_find(twin)];
		if (env_value(config, twin) ||
		    (other->line && other->file > config->values[key].file))
			return NULL;
	}
	return config->values[key].text;
}

static bool is_word_character(char c)
{
	return (c >= 'A' && c <= 'Z') || c == '_';
}

/* TALLY_LOG is not in "TALLY_LOG_JSON=2". */
static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += length)
		if ((at == text || !is_word_character(at[-1])) && !is_word_character(at[length]))
			return true;
	return false;
}

void config_blame(const struct config *config, char text[BOOTSTRAP_TEXT_MAX])
{
	char said[BOOTSTRAP_TEXT_MAX];

	strcpy(said, text);
	for (int i = 0; i < CONFIG_KEYS; i++) {
		const struct config_value *value = &config->values[i];
		size_t used = strlen(text);

		if (value->line && has_word(said, keys[i]) && !env_value(config, keys[i]))
			snprintf(text + used, BOOTSTRAP_TEXT_MAX - used, " (%s: %s:%u)", keys[i],
				 config->files[value->file].path, value->line);
	}
}

const char *config_open_key(const struct config *config)
{
	const struct config_value *value = &config->values[key_find("TALLY_KEY")];

	return value->line && config->files[value->file].is_open ? config->files[value->file].path
								 : NULL;
}
