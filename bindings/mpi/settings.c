/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - the environment. Of what has to be the same on all ranks, rank 0's counts: place.c. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/mpi/shim.h"

static struct settings here;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_on(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0") != 0;
}

static uint64_t bytes_of(const char *name)
{
	const char *value = getenv(name);
	unsigned long long bytes;
	char *end;

	if (!value || !*value)
		return UINT64_MAX;
	errno = 0;
	bytes = strtoull(value, &end, 10);
	if (!errno && !*end && *value >= '0' && *value <= '9')
		return bytes < UINT64_MAX ? bytes : UINT64_MAX - 1;
	report_say("%s=%s is no number of bytes: it counts as not set", name, value);
	return UINT64_MAX;
}

static void read_all(void)
{
	const char *report = getenv("TALLY_MPI_REPORT");

	here.min_bytes = bytes_of("TALLY_MPI_MIN_BYTES");
	here.is_all = is_on("TALLY_MPI_ALL");
	here.is_exact = is_on("TALLY_MPI_EXACT");
	here.is_required = is_on("TALLY_MPI_REQUIRE");
	here.is_ordered = is_on("TALLY_MPI_PERSISTENT");
	here.is_eager = is_on("TALLY_MPI_EAGER");
	if (is_on("TALLY_MPI_REPORT"))
		here.report = strcmp(report, "all") == 0 ? 2 : 1;
}

const struct settings *settings(void)
{
	pthread_once(&once, read_all);
	return &here;
}
