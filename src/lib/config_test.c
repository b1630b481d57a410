/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/config.h"
#include "lib/report.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { VARIABLES_MAX = 6, PATH_BYTES = 64 };

/* ---- what cannot be read ---- */

static struct {
	long error;      /* of a load; 0: as the kernel says */
	bool has_folder; /* this process may look into it */
	char folder[64]; /* that was asked about; "": none was */
} refusal;

static bool is_out_of_memory;

static uint32_t wiped; /* bytes */

void __real_explicit_bzero(void *at, size_t bytes);
void __wrap_explicit_bzero(void *at, size_t bytes);

void __wrap_explicit_bzero(void *at, size_t bytes)
{
	wiped += (uint32_t)bytes;
	__real_explicit_bzero(at, bytes);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return is_out_of_memory ? NULL : __real_malloc(bytes);
}

long __real_conf_load(const char *path, char *data, size_t room, uint32_t *mode);
long __wrap_conf_load(const char *path, char *data, size_t room, uint32_t *mode);
int __wrap_access(const char *path, int how);

long __wrap_conf_load(const char *path, char *data, size_t room, uint32_t *mode)
{
	return refusal.error ? refusal.error : __real_conf_load(path, data, room, mode);
}

int __wrap_access(const char *path, int how)
{
	assert_int_equal(how, X_OK);
	snprintf(refusal.folder, sizeof(refusal.folder), "%s", path);
	return refusal.has_folder ? 0 : -1;
}

/* ---- files of the test's ---- */

struct places {
	char etc[PATH_BYTES], home[PATH_BYTES];
	const char *env[VARIABLES_MAX]; /* "NAME=value" */
};

static const char *env_get(const char *name, void *arg)
{
	const char *const *env = arg;
	size_t length = strlen(name);

	for (size_t i = 0; i < VARIABLES_MAX && env[i]; i++)
		if (!strncmp(env[i], name, length) && env[i][length] == '=')
			return env[i] + length + 1;
	return NULL;
}

static void file_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

static int setup(void **state)
{
	struct places *places = calloc(1, sizeof(*places));
	char folder[] = "/tmp/tally-config-XXXXXX";

	assert_non_null(places);
	assert_non_null(mkdtemp(folder));
	snprintf(places->etc, sizeof(places->etc), "%s/etc", folder);
	snprintf(places->home, sizeof(places->home), "%s/home", folder);
	*state = places;
	return 0;
}

static int teardown(void **state)
{
	struct places *places = *state;

	unlink(places->etc);
	unlink(places->home);
	*strrchr(places->etc, '/') = '\0';
	rmdir(places->etc);
	free(places);
	return 0;
}

static int load(struct config *config, struct places *places, char text[BOOTSTRAP_TEXT_MAX])
{
	text[0] = '\0';
	return config_load(config, places->etc, places->home, env_get, places->env, text);
}

static void config__the_environment_wins_over_home_and_home_over_etc(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	file_write(places->etc, "# site\nTALLY_AGGREGATOR=etc:1\nTALLY_LOG=info\n"
				"TALLY_DEADLINE_S=5\n");
	file_write(places->home, "TALLY_AGGREGATOR = home:2\nTALLY_DEADLINE_S=6\n");
	places->env[0] = "TALLY_DEADLINE_S=7";
	places->env[1] = "TALLY_LOG=";
	places->env[2] = "TALLY_RANK=3";
	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_string_equal(config_get("TALLY_AGGREGATOR", &config), "home:2");
	assert_string_equal(config_get("TALLY_LOG", &config), "info"); /* empty is not set */
	assert_string_equal(config_get("TALLY_DEADLINE_S", &config), "7");
	assert_string_equal(config_get("TALLY_RANK", &config), "3");
	assert_null(config_get("TALLY_IFNAME", &config));
	assert_null(config_get("TALLY_SIZE", &config));
}

static void config__no_files_are_fine(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_null(config_get("TALLY_AGGREGATOR", &config));
	assert_int_equal(config_load(&config, NULL, NULL, env_get, places->env, text), TALLY_OK);
	assert_false(config.files[CONFIG_ETC].is_there);
}

static void config__a_file_may_be_empty(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	file_write(places->etc, "");
	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_string_equal(text, "");
	assert_true(config.files[CONFIG_ETC].is_there);
	assert_null(config_get("TALLY_AGGREGATOR", &config));
}

static void config__without_memory_is_refused(void **state)
{
	struct places *places = *state;
	struct bootstrap boot = { .job = "j", .size = 1, .source = "arguments" };
	char text[BOOTSTRAP_TEXT_MAX] = "", why[BOOTSTRAP_TEXT_MAX];
	struct config config;
	int result;

	(void)report_level(); /* it reads them, too, once */
	is_out_of_memory = true;
	result = load(&config, places, text);
	is_out_of_memory = false;
	assert_int_equal(result, TALLY_ERR_ARGUMENT);
	snprintf(why, sizeof(why), "%s: out of memory", places->etc);
	assert_string_equal(text, why);
	is_out_of_memory = true;
	result = config_bootstrap(&boot, NULL, false, text);
	is_out_of_memory = false;
	assert_int_equal(result, TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "configuration: out of memory");
}

/* clang-format off */
static const struct { const char *lines, *words[3]; } bad[] = {
	{ "# one\nTALLY_AGREGATOR=a\n", { "/home:2: ", "TALLY_AGREGATOR", "no such variable" } },
	{ "PATH=/bin\n", { "/home:1: ", "PATH", "no such variable" } },
	{ "TALLY_RANK=1\n", { ":1: ", "TALLY_RANK", "environment" } },
	{ "TALLY_JOB=a\n", { ":1: ", "TALLY_JOB", "environment" } },
	{ "\n\nTALLY_LOG info\n", { ":3: ", "not KEY=VALUE", "TALLY_LOG info" } },
	{ "TALLY_IFNAME=a\nTALLY_IFNAME=b\n", { ":2: ", "TALLY_IFNAME", "line 1" } },
	{ "TALLY_IFNAME=\n", { ":1: ", "TALLY_IFNAME", "no value" } },
	{ "TALLY_LOG=loud\n", { ":1: ", "TALLY_LOG=loud", "debug" } },
	{ "TALLY_LOG_JSON=yes\n", { ":1: ", "TALLY_LOG_JSON=yes", "0 or 1" } },
};
/* clang-format on */

static void config__a_bad_line_is_refused_with_file_and_line(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	file_write(places->etc, "TALLY_AGGREGATOR=good\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		file_write(places->home, bad[i].lines);
		if (load(&config, places, text) != TALLY_ERR_ARGUMENT)
			fail_msg("taken: %s", bad[i].lines);
		for (size_t k = 0; k < 3; k++)
			if (!strstr(text, bad[i].words[k]))
				fail_msg("\"%s\" does not say %s", text, bad[i].words[k]);
	}
}

/* A host's own file would give all jobs of it one name. */
static void config__one_job_s_own_is_refused_in_the_host_s_file(void **state)
{
	static const char *const own[] = { "TALLY_JOB=j\n", "TALLY_RANK=0\n", "TALLY_SIZE=2\n" };
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX], line[PATH_BYTES + 32];
	struct config config;

	snprintf(line, sizeof(line), "%s:1: TALLY_", places->etc);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		file_write(places->etc, own[i]);
		assert_int_equal(load(&config, places, text), TALLY_ERR_ARGUMENT);
		assert_non_null(strstr(text, line));
		assert_non_null(strstr(text, "one rank's or one job's"));
	}
}

static void config__what_cannot_be_read_is_refused(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	assert_int_equal(config_load(&config, "/tmp", NULL, env_get, places->env, text),
			 TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(text, "/tmp: cannot be read: Is a directory"));
}

/* A daemon with root's HOME has none of its own there. */
static void config__in_a_folder_that_is_not_ours_to_look_into_there_is_none(void **state)
{
	static const struct {
		long error;
		const char *path, *folder; /* that is asked about */
		bool has_folder, is_refused;
	} cases[] = {
		{ -ENOENT, "/root/x", "", false, false },
		{ -ENOTDIR, "/root/x", "", false, false },
		{ -EIO, "/root/x", "", false, true },
		{ -EACCES, "/root/.tally.conf", "/root", false, false },
		{ -EACCES, "/root/.tally.conf", "/root", true, true },
		{ -EACCES, "/a/b/c", "/a/b", false, false },
		{ -EACCES, "/conf", "", false, true }, /* there is no folder to blame */
		{ -EACCES, "conf", "", false, true },
	};
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result;

		refusal.error = cases[i].error;
		refusal.has_folder = cases[i].has_folder;
		refusal.folder[0] = text[0] = 0;
		result = config_load(&config, NULL, cases[i].path, env_get, places->env, text);
		refusal.error = 0;
		assert_int_equal(result, cases[i].is_refused ? TALLY_ERR_ARGUMENT : TALLY_OK);
		assert_string_equal(refusal.folder, cases[i].folder);
		assert_false(config.files[CONFIG_HOME].is_there);
		assert_true(!cases[i].is_refused || strstr(text, ": cannot be read: "));
	}
}

static void config__a_path_that_is_too_long_is_none(void **state)
{
	struct places *places = *state;
	char path[CONFIG_PATH_MAX + 2], text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = 0;
	refusal.error = -EIO; /* whoever reads it hears so */
	assert_int_equal(config_load(&config, NULL, path, env_get, places->env, text), TALLY_OK);
	path[CONFIG_PATH_MAX] = 0;
	assert_int_equal(config_load(&config, NULL, path, env_get, places->env, text),
			 TALLY_ERR_ARGUMENT);
	refusal.error = 0;
}

/* $HOME/.tally.conf, and the process's own environment. */
static void config__of_a_process_is_in_its_home(void **state)
{
	struct places *places = *state;
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct bootstrap boot;
	char text[BOOTSTRAP_TEXT_MAX], path[PATH_BYTES + 16], warning[PATH_BYTES + 128];
	struct config config;

	*strrchr(places->home, '/') = 0;
	snprintf(path, sizeof(path), "%s/.tally.conf", places->home);
	file_write(path, "TALLY_AGGREGATOR=home:7\nTALLY_DEADLINE_S=9\nTALLY_KEY=sesame\n");
	setenv("HOME", places->home, 1);
	setenv("TALLY_DEADLINE_S", "8", 1);
	assert_int_equal(config_load_process(&config, text), TALLY_OK);
	assert_string_equal(config.files[CONFIG_HOME].path, path);
	assert_string_equal(config_get("TALLY_AGGREGATOR", &config), "home:7");
	assert_string_equal(config_get("TALLY_DEADLINE_S", &config), "8");
	for (uint32_t i = 0; i < 2; i++) {
		boot = (struct bootstrap){ .job = "j", .size = 2, .source = "arguments" };
		wiped = 0;
		assert_int_equal(config_bootstrap(&boot, &options, false, text), TALLY_OK);
		assert_true(wiped >= sizeof(config)); /* it had the key */
		assert_string_equal(boot.aggregator, "home:7");
		assert_int_equal(boot.deadline_ms, 8000);
		assert_string_equal(boot.key, "sesame");
		snprintf(warning, sizeof(warning),
			 "%s holds a key and may be read by everybody on this host: chmod o-r",
			 path);
		assert_string_equal(boot.warning, i ? "" : warning);
		assert_int_equal(chmod(path, 0641), 0); /* who may run it may not read it */
	}
	setenv("TALLY_DEADLINE_S", "", 1); /* is as if it were not set */
	assert_int_equal(config_load_process(&config, text), TALLY_OK);
	assert_string_equal(config_get("TALLY_DEADLINE_S", &config), "9");
	setenv("HOME", "", 1);
	assert_int_equal(config_load_process(&config, text), TALLY_OK);
	assert_string_equal(config.files[CONFIG_HOME].path, "");
	assert_null(config_get("TALLY_DEADLINE_S", &config));
	file_write(path, "TALLY_DEADLINE_S=soon\n");
	assert_true(chmod(path, 0600) == 0 && !setenv("HOME", places->home, 1));
	boot = (struct bootstrap){ .job = "j", .size = 2, .source = "arguments" };
	options.aggregator = "there:1";
	assert_int_equal(config_bootstrap(&boot, &options, false, text), TALLY_ERR_ARGUMENT);
	snprintf(warning, sizeof(warning), " (TALLY_DEADLINE_S: %s:1)", path);
	assert_non_null(strstr(text, warning));
	unsetenv("TALLY_DEADLINE_S");
	unsetenv("HOME");
	unlink(path);
	strcat(places->home, "/home");
}

/* What tally_kv_open asks: the program's name for the job wins, and is looked at as any other. */
static void config__of_a_worker_takes_the_programs_name(void **state)
{
	static const struct {
		uint32_t size;     /* that the program says; 0: the environment does */
		const char *given; /* by the program */
		const char *env;   /* TALLY_JOB; "": not set */
		const char *job;   /* "": refused */
	} named[] = {
		{ 2, "given", "env", "given" },
		{ 2, NULL, "env", "env" },
		{ 2, "", "env", "env" },
		{ 2, NULL, "", "default" },
		{ 2, "two\nlines", "env", "" },
		{ 0, "given", "env", "given" },
		{ 0, NULL, "env", "env" },
		{ 0, "given", "", "given" },
		{ 0, NULL, "", "" },
		{ 0, "two\nlines", "env", "" },
	};
	struct tally_options options = TALLY_OPTIONS_INIT;
	char text[BOOTSTRAP_TEXT_MAX], large[BOOTSTRAP_JOB_MAX + 2];

	(void)state;
	options.aggregator = "there:1";
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		struct bootstrap boot = { .size = named[i].size, .rank = 1, .source = "arguments" };
		bool is_env = !named[i].size;

		assert_false(setenv("TALLY_JOB", named[i].env, 1));
		assert_false(is_env && (setenv("PMI_RANK", "1", 1) || setenv("PMI_SIZE", "2", 1)));
		assert_int_equal(config_worker(&boot, &options, named[i].given, text),
				 named[i].job[0] ? TALLY_OK : TALLY_ERR_ARGUMENT);
		if (named[i].job[0])
			assert_string_equal(boot.job, named[i].job);
		unsetenv("PMI_RANK");
		unsetenv("PMI_SIZE");
	}
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	for (uint32_t size = 0; size < 2; size++) {
		struct bootstrap boot = { .size = 2 * size, .source = "arguments" };

		assert_false(setenv("PMI_RANK", "1", 1) || setenv("PMI_SIZE", "2", 1));
		assert_int_equal(config_worker(&boot, &options, large, text), TALLY_ERR_ARGUMENT);
		assert_non_null(strstr(text, "1 to 200 bytes, not 201"));
		assert_int_equal(config_worker(&boot, &options, large + 1, text), TALLY_OK);
		assert_string_equal(boot.job, large + 1);
	}
	unsetenv("PMI_RANK");
	unsetenv("PMI_SIZE");
	unsetenv("TALLY_JOB");
}

static void config__a_wrong_value_is_blamed_on_its_file(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX], line[PATH_BYTES + 32];
	struct bootstrap boot = { .job = "j", .size = 1, .source = "arguments" };
	struct config config;

	file_write(places->etc, "TALLY_LOG=info\n\nTALLY_DEADLINE_S=soon\n");
	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_int_equal(bootstrap_finish(&boot, NULL, config_get, &config, text),
			 TALLY_ERR_ARGUMENT);
	config_blame(&config, text);
	snprintf(line, sizeof(line), "(TALLY_DEADLINE_S: %s:3)", places->etc);
	assert_non_null(strstr(text, "TALLY_DEADLINE_S=soon"));
	assert_non_null(strstr(text, line));
	assert_null(strstr(text, "TALLY_LOG"));
	strcpy(text, "TALLY_LOG_JSON, TALLY_LOGA and ZTALLY_LOG are others");
	config_blame(&config, text);
	assert_string_equal(text, "TALLY_LOG_JSON, TALLY_LOGA and ZTALLY_LOG are others");
	places->env[0] = "TALLY_DEADLINE_S=later"; /* now it is not the file's */
	assert_int_equal(bootstrap_finish(&boot, NULL, config_get, &config, text),
			 TALLY_ERR_ARGUMENT);
	config_blame(&config, text);
	assert_null(strstr(text, places->etc));
}

/* Of a text that is nearly full, with a place behind it that is nobody's. */
static void config__blame_is_cut_where_the_text_ends(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX], line[PATH_BYTES + 32];
	struct config config;
	struct {
		char text[BOOTSTRAP_TEXT_MAX], behind[PATH_BYTES + 32];
	} full;

	file_write(places->etc, "TALLY_LOG=info\n");
	assert_int_equal(load(&config, places, text), TALLY_OK);
	snprintf(line, sizeof(line), " (TALLY_LOG: %s:1)", places->etc);
	memset(&full, 'x', sizeof(full));
	memcpy(full.text, "TALLY_LOG ", strlen("TALLY_LOG "));
	full.text[BOOTSTRAP_TEXT_MAX - 11] = 0;
	config_blame(&config, full.text);
	assert_int_equal(strlen(full.text), BOOTSTRAP_TEXT_MAX - 1);
	assert_memory_equal(full.text + BOOTSTRAP_TEXT_MAX - 11, line, 10);
	for (size_t i = 0; i < sizeof(full.behind); i++)
		assert_int_equal(full.behind[i], 'x');
}

static void config__a_key_or_a_key_file_whichever_comes_first(void **state)
{
	struct places *places = *state;
	char text[BOOTSTRAP_TEXT_MAX];
	struct config config;

	file_write(places->etc, "TALLY_KEY_FILE=/etc/key\n");
	file_write(places->home, "TALLY_KEY=hunter2\n");
	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_string_equal(config_get("TALLY_KEY", &config), "hunter2");
	assert_null(config_get("TALLY_KEY_FILE", &config));
	assert_string_equal(config_open_key(&config), places->home);
	places->env[0] = "TALLY_KEY_FILE=/mine";
	assert_null(config_get("TALLY_KEY", &config));
	assert_string_equal(config_get("TALLY_KEY_FILE", &config), "/mine");
	assert_int_equal(chmod(places->home, 0600), 0);
	assert_int_equal(load(&config, places, text), TALLY_OK);
	assert_null(config_open_key(&config));
	file_write(places->home, "TALLY_KEY=hunter2\nTALLY_KEY hunter2\n");
	assert_int_equal(load(&config, places, text), TALLY_ERR_ARGUMENT);
	assert_null(strstr(text, "hunter2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			config__the_environment_wins_over_home_and_home_over_etc, setup, teardown),
		cmocka_unit_test_setup_teardown(config__no_files_are_fine, setup, teardown),
		cmocka_unit_test_setup_teardown(config__a_file_may_be_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(config__without_memory_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(config__a_bad_line_is_refused_with_file_and_line,
						setup, teardown),
		cmocka_unit_test_setup_teardown(config__one_job_s_own_is_refused_in_the_host_s_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(config__what_cannot_be_read_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			config__in_a_folder_that_is_not_ours_to_look_into_there_is_none, setup,
			teardown),
		cmocka_unit_test_setup_teardown(config__a_path_that_is_too_long_is_none, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__of_a_process_is_in_its_home, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__of_a_worker_takes_the_programs_name, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__a_wrong_value_is_blamed_on_its_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__blame_is_cut_where_the_text_ends, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__a_key_or_a_key_file_whichever_comes_first,
						setup, teardown),
	};

	return cmocka_run_group_tests_name("lib-config", tests, NULL, NULL);
}
