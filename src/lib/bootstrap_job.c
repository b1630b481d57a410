/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap_job.c - the job's name, from what launchers set: one run's and no other's, the same on all ranks. What a
 * launcher has is not always that:
 *
 *   torchrun     TORCHELASTIC_RUN_ID, which may be an example's, with MASTER_ADDR and MASTER_PORT, which rank 0's agent
 *                tells all others, or, if the rendezvous is static, each is told by hand; without one these two alone,
 *                and "127.0.0.1" is every host's. Its restart count is no part: after one failure it differs between the
 *                hosts, and the next life of the name is the aggregator's to keep apart (R-CT-12, R-CT-17)
 *   Open MPI     16 bits of a hash, in Open MPI 5 (PRRTE) a host's name and a process id, which containers have alike;
 *                nothing else that a rank is given is the same on all hosts
 *   Slurm        job and step, which a requeued job has again, and another cluster as well; an array's tasks have
 *                jobs of their own
 *   Hydra        nothing
 *
 * A job that is all on one host has this host's digest in such a name.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "lib/bootstrap_read.h"
#include "lib/report.h"
#include "util/host_id.h"

static bool is_one_host(const struct bootstrap *boot)
{
	return boot->size == 1 || boot->local_size == boot->size;
}

static void host_add(char job[BOOTSTRAP_TEXT_MAX])
{
	char id[HOST_ID_BYTES], host[65];
	size_t used = strlen(job);

	host_id_read(id);
	report_host(host);
	snprintf(job + used, BOOTSTRAP_TEXT_MAX - used, "@%016llx",
		 (unsigned long long)hash_text(hash_text(HASH_BEGIN, id), host));
}

/* ---- torchrun ---- */

static bool is_loopback_v6(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_LOOPBACK(ip) || IN6_IS_ADDR_UNSPECIFIED(ip) ||
	       (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

/* What every host calls itself. */
static bool is_loopback(const char *address)
{
	static const char *const names[] = { "localhost",     "localhost.localdomain",
					     "localhost4",    "localhost4.localdomain4",
					     "localhost6",    "localhost6.localdomain6",
					     "ip6-localhost", "ip6-loopback" };
	const size_t letters = strlen(address), dot = letters && address[letters - 1] == '.';
	const size_t length = strcspn(address, "]%"), skipped = *address == '[';
	char bare[INET6_ADDRSTRLEN] = "";
	struct in_addr v4;
	struct in6_addr v6;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == letters - dot &&
		    !strncasecmp(address, names[i], letters - dot))
			return true;
	if (inet_aton(address, &v4))
		return ntohl(v4.s_addr) >> 24 == 127 || !v4.s_addr;
	if (length - skipped >= sizeof(bare))
		return false;
	memcpy(bare, address + skipped, length - skipped);
	return inet_pton(AF_INET6, bare, &v6) == 1 && is_loopback_v6(&v6);
}

/* Rank 0's host may be the only one that is told such a master. */
static void loopback_warn(struct bootstrap *boot, const char *address)
{
	if (boot->rank || is_one_host(boot))
		return;
	bootstrap_warn(boot,
		       "MASTER_ADDR=%.80s is a part of no job's name: hosts that are told another "
		       "do not meet this rank: then set TALLY_JOB to the same on all ranks",
		       address);
}

static int torchrun_job(struct bootstrap *boot, const struct reader *reader,
			char job[BOOTSTRAP_TEXT_MAX])
{
	const char *run = value_of(reader, "TORCHELASTIC_RUN_ID");
	const char *address = value_of(reader, "MASTER_ADDR");
	const char *port = value_of(reader, "MASTER_PORT");

	if (run && strcmp(run, "none") != 0) { /* torchrun's word for "no run id" */
		bool is_one = address && !is_loopback(address); /* every host calls itself that */

		if (address && !is_one)
			loopback_warn(boot, address);
		snprintf(job, BOOTSTRAP_TEXT_MAX, "%s%s%s%s%s", run, is_one ? "@" : "",
			 is_one ? address : "", port ? ":" : "", port ? port : "");
	} else if (address) {
		if (is_loopback(address) && !is_one_host(boot))
			return bootstrap_refuse(
				reader,
				"MASTER_ADDR=%.80s names no job of several hosts, for every host "
				"is "
				"that (WORLD_SIZE=%u LOCAL_WORLD_SIZE=%s): set TALLY_JOB to the "
				"same on all ranks",
				address, boot->size, shown(value_of(reader, "LOCAL_WORLD_SIZE")));
		snprintf(job, BOOTSTRAP_TEXT_MAX, "%s%s%s", address, port ? ":" : "",
			 port ? port : "");
	}
	if (job[0] && is_one_host(boot))
		host_add(job);
	return TALLY_OK;
}

/* ---- Open MPI, and whoever else starts by way of PMIx ---- */

static int few_bits_job(struct bootstrap *boot, const struct reader *reader, const char *first,
			const char *second, char job[BOOTSTRAP_TEXT_MAX])
{
	const char *name = value_of(reader, first);

	if (!name)
		name = value_of(reader, second);
	if (!name)
		return TALLY_OK;
	snprintf(job, BOOTSTRAP_TEXT_MAX, "%s", name);
	if (is_one_host(boot))
		host_add(job);
	else if (boot->rank == 0)
		bootstrap_warn(boot,
			       "mpirun's name of this job, %.40s, may be another job's as well: "
			       "mpirun -x TALLY_JOB=$(uuidgen) gives it one of its own",
			       name);
	return TALLY_OK;
}

/* ---- Slurm ---- */

static int slurm_job(const struct reader *reader, char job[BOOTSTRAP_TEXT_MAX])
{
	const char *id = value_of(reader, "SLURM_JOB_ID");
	const char *step = value_of(reader, "SLURM_STEP_ID");
	const char *cluster = value_of(reader, "SLURM_CLUSTER_NAME");
	const char *restart = value_of(reader, "SLURM_RESTART_COUNT");

	if (!id)
		return TALLY_OK;
	snprintf(job, BOOTSTRAP_TEXT_MAX, "slurm-%s%s%s%s%s%s%s", cluster ? cluster : "",
		 cluster ? "-" : "", id, step ? "." : "", step ? step : "", restart ? ".r" : "",
		 restart ? restart : "");
	return TALLY_OK;
}

/* ---- any ---- */

static int launcher_job(struct bootstrap *boot, const struct reader *reader,
			enum launcher_idx launcher, bool is_slurm_task,
			char job[BOOTSTRAP_TEXT_MAX])
{
	switch (launcher) {
	case LAUNCHER_TORCHRUN:
		return torchrun_job(boot, reader, job);
	case LAUNCHER_OPEN_MPI:
		return few_bits_job(boot, reader, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", job);
	case LAUNCHER_PMI:
		if (is_slurm_task)
			return slurm_job(reader, job);
		if (value_of(reader, "PMIX_RANK"))
			return few_bits_job(boot, reader, "PMIX_NAMESPACE", "PMI_JOBID", job);
		snprintf(job, BOOTSTRAP_TEXT_MAX, "%s",
			 value_of(reader, "PMI_JOBID") ? value_of(reader, "PMI_JOBID") : "");
		return TALLY_OK;
	case LAUNCHER_SLURM:
		return slurm_job(reader, job);
	case LAUNCHER_TALLY:
	case LAUNCHERS:
		break;
	}
	return TALLY_OK;
}

/* ---- tally run ---- */

/* TALLY_RUN is "PID:NAME": a name that tally run has made up, and the process that it has started for this rank. That
 * one is the only one of its number: no second program of the rank can be it. */
static void run_read(struct bootstrap *boot, const struct reader *reader, const char *named)
{
	const char *run = value_of(reader, "TALLY_RUN"), *name = run ? strchr(run, ':') : NULL;
	char pid[16];

	if (!name || !named || strcmp(name + 1, named) != 0)
		return;
	snprintf(pid, sizeof(pid), "%d:", (int)getpid());
	boot->is_launched = true;
	boot->is_alone = !strncmp(run, pid, strlen(pid));
}

int bootstrap_job(struct bootstrap *boot, const struct reader *reader, enum launcher_idx launcher,
		  bool is_slurm_task)
{
	const char *named = value_of(reader, "TALLY_JOB");
	char job[BOOTSTRAP_TEXT_MAX] = "";
	int result = TALLY_OK;

	boot->is_launched = !named;
	run_read(boot, reader, named);
	if (named)
		snprintf(job, sizeof(job), "%s", named);
	else
		result = launcher_job(boot, reader, launcher, is_slurm_task, job);
	if (result)
		return result;
	if (!job[0])
		return bootstrap_refuse(
			reader,
			"the job has no name: set TALLY_JOB to the same on all ranks (%s says rank "
			"%u of %u, but no name)",
			boot->source, boot->rank, boot->size);
	if (strlen(job) > BOOTSTRAP_JOB_MAX)
		return bootstrap_refuse(reader, "job: a name has 1 to %d bytes, not %zu",
					BOOTSTRAP_JOB_MAX, strlen(job));
	strcpy(boot->job, job);
	return TALLY_OK;
}
