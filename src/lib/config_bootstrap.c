/* SPDX-License-Identifier: Apache-2.0 */
/* config_bootstrap.c - all of bootstrap.h for this process: see config.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/config.h"
#include "lib/report.h"

/* The process's own, to be given back by finish; NULL: there is no memory for it. */
static struct config *begin(int *result, char text[BOOTSTRAP_TEXT_MAX])
{
	struct config *config = malloc(sizeof(*config));

	(void)report_level(); /* it looks at stderr before anything is opened */
	*result = config ? config_load_process(config, text) : TALLY_ERR_ARGUMENT;
	if (!config)
		strcpy(text, "configuration: out of memory");
	return config;
}

static int finish(struct config *config, struct bootstrap *boot,
		  const struct tally_options *options, int result, char text[BOOTSTRAP_TEXT_MAX])
{
	const char *path;

	if (!config)
		return result;
	if (!result)
		result = bootstrap_finish(boot, options, config_get, config, text);
	if (result)
		config_blame(config, text);
	path = config_open_key(config);
	if (!result && path)
		bootstrap_warn(
			boot,
			"%.120s holds a key and may be read by everybody on this host: chmod o-r",
			path);
	explicit_bzero(config, sizeof(*config)); /* it may hold a key */
	free(config);
	return result;
}

int config_bootstrap(struct bootstrap *boot, const struct tally_options *options, bool is_env,
		     char text[BOOTSTRAP_TEXT_MAX])
{
	int result;
	struct config *config = begin(&result, text);

	if (!result && is_env)
		result = bootstrap_env(boot, config_get, config, text);
	return finish(config, boot, options, result, text);
}

/* A name that the program gives answers for TALLY_JOB. */
struct named {
	const char *job;
	struct config *config;
};

static const char *named_get(const char *name, void *arg)
{
	struct named *named = arg;

	return named->job && *named->job && !strcmp(name, "TALLY_JOB")
		       ? named->job
		       : config_get(name, named->config);
}

int config_worker(struct bootstrap *boot, const struct tally_options *options, const char *job,
		  char text[BOOTSTRAP_TEXT_MAX])
{
	int result;
	struct named named = { job, begin(&result, text) };

	if (!result)
		result = boot->size ? bootstrap_name(boot, named_get, &named, text)
				    : bootstrap_env(boot, named_get, &named, text);
	return finish(named.config, boot, options, result, text);
}
