/* SPDX-License-Identifier: Apache-2.0 */
/* sim_job.c - one seed's run, before it runs: its number, its scenario, its options, its process. */
#include "sim/sim_state.h"
#include "util/opt.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MS_NS 1000000ull

const char *const sim_rules_names[] = { "ours", "switchml", "p4sgd", NULL };

const char *sim_seeds_take(struct opt_value *value, uint64_t *first, uint64_t *last)
{
	const char *text = value->text, *dots = strstr(text, "..");
	size_t length = dots ? (size_t)(dots - text) : strlen(text);
	char from[32] = "";

	if (length < sizeof(from))
		memcpy(from, text, length);
	if (!opt_number(from, 0, UINT64_MAX, first) ||
	    !opt_number(dots ? dots + 2 : from, *first, UINT64_MAX, last))
		return "A..B, two numbers, A at most B";
	return *last - *first < UINT32_MAX ? NULL : "more than 2^32 - 1 seeds";
}

void sim_job_draw(const struct sim_job *job, const struct edits *edits, struct scenario *scenario)
{
	scenario_draw_short(scenario, job->seed, job->kind, job->packets_max);
	if (edits)
		edits_apply(edits, scenario);
	if (job->patience_ms)
		scenario->bound_ns = job->patience_ms * MS_NS;
	scenario->rules = job->rules;
}

void sim_job_text(const struct sim_job *job, char text[96])
{
	int at = snprintf(text, 96, " --seed %" PRIu64, job->seed);

	if (job->kind != SCENARIO_ANY)
		at += snprintf(text + at, 96 - (size_t)at, " --scenario %s",
			       scenario_name(job->kind));
	if (job->packets_max)
		at += snprintf(text + at, 96 - (size_t)at, " --packets %u", job->packets_max);
	if (job->patience_ms)
		at += snprintf(text + at, 96 - (size_t)at, " --patience %u", job->patience_ms);
	if (job->rules)
		snprintf(text + at, 96 - (size_t)at, " --rules %s", sim_rules_names[job->rules]);
}

pid_t sim_fork(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}
