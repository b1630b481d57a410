/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/config.h"

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
	places->env[0] = "TALLY_DEADLINE_S=later"; /* now it is not the file's */
	assert_int_equal(bootstrap_finish(&boot, NULL, config_get, &config, text),
			 TALLY_ERR_ARGUMENT);
	config_blame(&config, text);
	assert_null(strstr(text, places->etc));
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
		cmocka_unit_test_setup_teardown(config__a_bad_line_is_refused_with_file_and_line,
						setup, teardown),
		cmocka_unit_test_setup_teardown(config__one_job_s_own_is_refused_in_the_host_s_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(config__what_cannot_be_read_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__a_wrong_value_is_blamed_on_its_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config__a_key_or_a_key_file_whichever_comes_first,
						setup, teardown),
	};

	return cmocka_run_group_tests_name("lib-config", tests, NULL, NULL);
}
