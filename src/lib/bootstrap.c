/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.c - see bootstrap.h. */
#include "lib/bootstrap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ablate.h"

enum { TIMEOUT_S_MAX = 86400 }; /* to come: a day, far from the wrap of 32 bits of milliseconds */

/* What one launcher calls its variables. */
struct launcher {
	const char *source;
	const char *rank, *size, *local_rank, *local_size;
};

/* clang-format off */
static const struct launcher launchers[] = {
	{ "TALLY_*",  "TALLY_RANK", "TALLY_SIZE", "TALLY_LOCAL_RANK", "TALLY_LOCAL_SIZE" },
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
};
/* clang-format on */

struct reader {
	bootstrap_get_fn get;
	void *arg;
	char *text; /* BOOTSTRAP_TEXT_MAX */
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct reader *reader, int result,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->text, BOOTSTRAP_TEXT_MAX, format, args);
	va_end(args);
	return result;
}

/* An empty variable counts as one that is not set: that is how shells unset them in one line. */
static const char *value_of(const struct reader *reader, const char *name)
{
	const char *value = reader->get(name, reader->arg);

	return value && *value ? value : NULL;
}

static const char *shown(const char *value)
{
	return value ? value : "(not set)";
}

/* Plain decimal digits, so that neither "-1" nor "4 " nor "0x4" becomes a number. */
static int number_read(const struct reader *reader, const char *name, const char *value,
		       uint32_t *number)
{
	uint64_t sum = 0;

	for (const char *at = value; *at; at++) {
		if (*at < '0' || *at > '9' || sum > UINT32_MAX / 10)
			return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s is not a number of ranks",
				      name, value);
		sum = sum * 10 + (uint64_t)(*at - '0');
	}
	if (sum > UINT32_MAX)
		return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s is not a number of ranks", name,
			      value);
	*number = (uint32_t)sum;
	return TALLY_OK;
}

static int local_read(struct bootstrap *boot, const struct reader *reader,
		      const struct launcher *launcher)
{
	const char *rank_text = value_of(reader, launcher->local_rank);
	const char *size_text = value_of(reader, launcher->local_size);
	uint32_t rank = 0, size = 0;
	int result;

	if (rank_text) {
		result = number_read(reader, launcher->local_rank, rank_text, &rank);
		if (result)
			return result;
		if (rank >= boot->size)
			return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s but %s=%u",
				      launcher->local_rank, rank_text, launcher->size, boot->size);
	}
	if (size_text) {
		result = number_read(reader, launcher->local_size, size_text, &size);
		if (result)
			return result;
		if (size == 0 || size > boot->size)
			return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s but %s=%u",
				      launcher->local_size, size_text, launcher->size, boot->size);
		if (rank_text && rank >= size)
			return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s but %s=%s",
				      launcher->local_rank, rank_text, launcher->local_size,
				      size_text);
	}
	boot->local_size = size;
	return TALLY_OK;
}

/* *is_there: the launcher has set something; then the result counts. */
static int launcher_read(struct bootstrap *boot, const struct reader *reader,
			 const struct launcher *launcher, bool *is_there)
{
	const char *rank = value_of(reader, launcher->rank);
	const char *size = value_of(reader, launcher->size);
	const char *local_rank = value_of(reader, launcher->local_rank);
	const char *local_size = value_of(reader, launcher->local_size);
	int result;

	*is_there = rank || size || local_rank || local_size;
	if (!*is_there)
		return TALLY_OK;
	if ((!rank || !size) && !TAKEN_OUT(BOOTSTRAP_HALF))
		return refuse(reader, TALLY_ERR_ARGUMENT,
			      "half of a launcher's variables: %s=%s %s=%s %s=%s %s=%s",
			      launcher->rank, shown(rank), launcher->size, shown(size),
			      launcher->local_rank, shown(local_rank), launcher->local_size,
			      shown(local_size));
	result = rank ? number_read(reader, launcher->rank, rank, &boot->rank) : TALLY_OK;
	if (!result && size)
		result = number_read(reader, launcher->size, size, &boot->size);
	if (result)
		return result;
	if (boot->rank >= boot->size && !TAKEN_OUT(BOOTSTRAP_RANK))
		return refuse(reader, TALLY_ERR_ARGUMENT, "%s=%s but %s=%s", launcher->rank, rank,
			      launcher->size, size);
	boot->source = launcher->source;
	return local_read(boot, reader, launcher);
}

/* A name that is one run's and no other's, from what the launcher tells; "" if it tells nothing. */
static void job_of_launcher(const struct bootstrap *boot, const struct reader *reader,
			    char job[BOOTSTRAP_TEXT_MAX])
{
	const char *name = NULL, *port = NULL, *restart = NULL;

	job[0] = '\0';
	if (!strcmp(boot->source, "torchrun")) {
		name = value_of(reader, "TORCHELASTIC_RUN_ID");
		restart = value_of(reader, "TORCHELASTIC_RESTART_COUNT");
		if (!name || !strcmp(name, "none")) { /* torchrun's word for "no run id" */
			name = value_of(reader, "MASTER_ADDR");
			port = value_of(reader, "MASTER_PORT");
		}
	} else if (!strcmp(boot->source, "Open MPI")) {
		name = value_of(reader, "PMIX_NAMESPACE");
		if (!name)
			name = value_of(reader, "OMPI_MCA_ess_base_jobid");
	}
	if (name)
		snprintf(job, BOOTSTRAP_TEXT_MAX, "%s%s%s%s%s", name, port ? ":" : "",
			 port ? port : "", restart ? "." : "", restart ? restart : "");
}

static int job_read(struct bootstrap *boot, const struct reader *reader)
{
	const char *named = value_of(reader, "TALLY_JOB");
	char job[BOOTSTRAP_TEXT_MAX];

	if (named)
		snprintf(job, sizeof(job), "%s", named);
	else
		job_of_launcher(boot, reader, job);
	if (!job[0])
		return refuse(
			reader, TALLY_ERR_ARGUMENT,
			"the job has no name: set TALLY_JOB to the same on all ranks (%s says rank "
			"%u of %u, but no name)",
			boot->source, boot->rank, boot->size);
	if (strlen(job) > BOOTSTRAP_JOB_MAX)
		return refuse(reader, TALLY_ERR_ARGUMENT, "job: a name has 1 to %d bytes, not %zu",
			      BOOTSTRAP_JOB_MAX, strlen(job));
	strcpy(boot->job, job);
	return TALLY_OK;
}

int bootstrap_env(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		  char text[BOOTSTRAP_TEXT_MAX])
{
	const struct reader reader = { get, arg, text };

	*boot = (struct bootstrap){ 0 };
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		bool is_there;
		int result = launcher_read(boot, &reader, &launchers[i], &is_there);

		if (result)
			return result;
		if (is_there)
			return job_read(boot, &reader);
	}
	return refuse(
		&reader, TALLY_ERR_ARGUMENT,
		"no launcher's variables are set: start with tally run, torchrun or mpirun, or set "
		"TALLY_RANK, TALLY_SIZE and TALLY_JOB");
}

static int timeout_read(struct bootstrap *boot, const struct tally_options *options,
			const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_INIT_TIMEOUT_S");
	int result;

	boot->init_timeout_s = BOOTSTRAP_TIMEOUT_S;
	if (options && options->init_timeout_s) {
		boot->init_timeout_s = options->init_timeout_s;
		if (boot->init_timeout_s > TIMEOUT_S_MAX)
			return refuse(reader, TALLY_ERR_ARGUMENT,
				      "options->init_timeout_s %u is above %d",
				      boot->init_timeout_s, TIMEOUT_S_MAX);
	} else if (value) {
		result = number_read(reader, "TALLY_INIT_TIMEOUT_S", value, &boot->init_timeout_s);
		if (result || !boot->init_timeout_s || boot->init_timeout_s > TIMEOUT_S_MAX)
			return refuse(reader, TALLY_ERR_ARGUMENT,
				      "TALLY_INIT_TIMEOUT_S=%s is not in 1 to %d seconds", value,
				      TIMEOUT_S_MAX);
	}
	return TALLY_OK;
}

/* Arguments alone do not say where the others are: a job started so is taken to be on one host, and
 * local mode's error says what to set if it is not. */
static bool is_one_host(const struct bootstrap *boot)
{
	if (boot->size == 1)
		return true;
	if (boot->local_size)
		return boot->local_size == boot->size;
	return !strcmp(boot->source, "arguments");
}

static int aggregator_read(struct bootstrap *boot, const struct tally_options *options,
			   const struct reader *reader)
{
	const char *value = options && options->aggregator ? options->aggregator
							   : value_of(reader, "TALLY_AGGREGATOR");

	boot->aggregator[0] = '\0';
	boot->is_local = value ? !strcmp(value, "local") : is_one_host(boot);
	if (boot->is_local)
		return TALLY_OK;
	if (!value && boot->local_size)
		return refuse(
			reader, TALLY_ERR_ARGUMENT,
			"%u of %u ranks are on this host: set TALLY_AGGREGATOR=host:port to where "
			"tallyd runs",
			boot->local_size, boot->size);
	if (!value)
		return refuse(
			reader, TALLY_ERR_ARGUMENT,
			"no aggregator: set TALLY_AGGREGATOR=host:port to where tallyd runs, or "
			"TALLY_AGGREGATOR=local if all %u ranks are on this host",
			boot->size);
	if (strchr(value, ','))
		return refuse(reader, TALLY_ERR_UNSUPPORTED,
			      "aggregator %s: this version takes one address, not a list", value);
	if (!*value || strlen(value) >= sizeof(boot->aggregator))
		return refuse(reader, TALLY_ERR_ARGUMENT,
			      "aggregator: not host:port, and not local: \"%.80s\"", value);
	strcpy(boot->aggregator, value);
	return TALLY_OK;
}

/* The name goes into JSON, logs and a socket's name. */
static int job_check(const struct bootstrap *boot, const struct reader *reader)
{
	if (!boot->job[0])
		return refuse(reader, TALLY_ERR_ARGUMENT, "job: the name is empty");
	for (const char *at = boot->job; *at; at++) {
		if (*at < 0x21 || *at > 0x7e)
			return refuse(
				reader, TALLY_ERR_ARGUMENT,
				"job: a name has printable ASCII characters and no blanks; byte "
				"%zu is 0x%02x",
				(size_t)(at - boot->job), (unsigned char)*at);
	}
	return TALLY_OK;
}

int bootstrap_finish(struct bootstrap *boot, const struct tally_options *options,
		     bootstrap_get_fn get, void *arg, char text[BOOTSTRAP_TEXT_MAX])
{
	const struct reader reader = { get, arg, text };
	int result = job_check(boot, &reader);

	if (result)
		return result;
	if (boot->size < 1 || boot->size > BOOTSTRAP_SIZE_MAX)
		return refuse(&reader, TALLY_ERR_ARGUMENT, "size %u is not in 1 to %d", boot->size,
			      BOOTSTRAP_SIZE_MAX);
	if (boot->rank >= boot->size && !TAKEN_OUT(BOOTSTRAP_RANK))
		return refuse(&reader, TALLY_ERR_ARGUMENT, "rank %u is not below size %u",
			      boot->rank, boot->size);
	if (options && options->local_size) {
		if (options->local_size > boot->size)
			return refuse(&reader, TALLY_ERR_ARGUMENT,
				      "options->local_size %u is above size %u",
				      options->local_size, boot->size);
		boot->local_size = options->local_size;
	}
	result = timeout_read(boot, options, &reader);
	return result ? result : aggregator_read(boot, options, &reader);
}
