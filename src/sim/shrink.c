/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shrink.c - from a run that fails to a small one that fails in the same way. It tries one respect after
 * the other (edit.h), the least value first; another course of chance where the seed's own does not fail
 * any more; and keeps what fails with no more packets. A run that crashes fails, too: each has a process
 * of its own.
 */
#include "sim/sim_state.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CHANCES = 6, /* courses of events that are tried of each */
	RUNS_MAX = 2000,
	SAME_LETTERS = 14, /* of the text of a failure, numbers aside */
};

struct shrink {
	const struct sim_job *job;
	struct run_report *shared; /* a process's answer */
	struct run_report best;
	struct edits edits;
	uint32_t runs;
};

static void scenario_make(const struct shrink *shrink, const struct edits *edits,
			  struct scenario *scenario)
{
	sim_job_draw(shrink->job, edits, scenario);
}

/* Where a crash is a failure without a text. */
static bool run_apart(struct shrink *shrink, const struct edits *edits)
{
	struct scenario scenario;
	int status;

	shrink->runs++;
	scenario_make(shrink, edits, &scenario);
	fflush(stdout);
	*shrink->shared = (struct run_report){ .is_failed = true, .failure = "crashed" };
	pid_t pid = sim_fork();
	if (pid < 0)
		return false;
	if (pid == 0) {
		struct run_report report;

		(void)!freopen("/dev/null", "w", stderr);
		run_scenario(&scenario, &report, NULL);
		*shrink->shared = report;
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && shrink->shared->is_failed;
}

static const char *letter_next(const char *text)
{
	while (*text && (isdigit((unsigned char)*text) || isspace((unsigned char)*text)))
		text++;
	return text;
}

static bool is_same(const char *a, const char *b)
{
	for (uint32_t i = 0; i < SAME_LETTERS; i++, a++, b++) {
		a = letter_next(a);
		b = letter_next(b);
		if (*a != *b)
			return false;
		if (!*a)
			return true;
	}
	return true;
}

/* Does it fail so, too, and with no more packets? Then it is the best so far. */
static bool attempt(struct shrink *shrink, struct edits edits)
{
	uint64_t own = edits.chance;

	for (uint32_t i = 0; i < CHANCES && shrink->runs < RUNS_MAX; i++) {
		edits.chance = i == 0 ? own : own == i - 1 ? CHANCES : i - 1;
		if (!run_apart(shrink, &edits) ||
		    !is_same(shrink->shared->failure, shrink->best.failure) ||
		    shrink->shared->packets > shrink->best.packets)
			continue;
		shrink->best = *shrink->shared;
		shrink->edits = edits;
		return true;
	}
	return false;
}

/* The least value with which it fails still, near enough: halves of what is left. */
static bool edit_shrink(struct shrink *shrink, enum edit edit)
{
	uint64_t least = edit_least(edit);
	struct scenario scenario;
	bool is_smaller = false;

	scenario_make(shrink, &shrink->edits, &scenario);
	uint64_t now = edit_now(&scenario, edit);
	if (edit == EDIT_last && now > shrink->best.packets)
		now = shrink->best.packets;
	for (uint64_t value = least; value < now && now != EDIT_NONE;
	     value = value + (now - value + 1) / 2) {
		struct edits edits = shrink->edits;

		edits.value[edit] = value;
		if (attempt(shrink, edits)) {
			is_smaller = true;
			break;
		}
	}
	return is_smaller;
}

/* What chance may strike begins later: the other way round, the largest value wins. */
static void spare(struct shrink *shrink)
{
	for (uint64_t step = shrink->best.packets / 2; step; step /= 2) {
		struct edits edits = shrink->edits;

		edits.value[EDIT_spared] =
			step +
			(edits.value[EDIT_spared] == EDIT_NONE ? 0 : edits.value[EDIT_spared]);
		if (run_apart(shrink, &edits) &&
		    is_same(shrink->shared->failure, shrink->best.failure)) {
			shrink->best = *shrink->shared;
			shrink->edits = edits;
		}
	}
}

static void show(const struct sim *sim, const struct shrink *shrink)
{
	struct scenario scenario;
	struct run_report report;
	char options[96], with[EDITS_TEXT], text[256];

	scenario_make(shrink, &shrink->edits, &scenario);
	if (strcmp(shrink->best.failure, "crashed") != 0)
		run_scenario(&scenario, &report, stdout);
	scenario_describe(&scenario, text);
	sim_job_text(shrink->job, options);
	edits_text(&shrink->edits, with);
	printf("FAILED seed %" PRIu64 ": %s\n  %s\n  %" PRIu64 " packets, after %u runs\n"
	       "  repeat: %s%s%s%s\n",
	       shrink->job->seed, shrink->best.failure, text, shrink->best.packets, shrink->runs,
	       sim->name, options, *with ? " --with " : "", with);
}

int sim_shrink(const struct sim *sim, const struct sim_job *job)
{
	struct shrink shrink = { .job = job, .edits = sim->edits };
	bool has_bar = isatty(STDERR_FILENO);
	bool is_smaller = true;

	shrink.shared = mmap(NULL, sizeof(*shrink.shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shrink.shared == MAP_FAILED)
		return SIM_EXIT_VIOLATED;
	if (!run_apart(&shrink, &shrink.edits)) {
		printf("seed %" PRIu64 " does not fail: there is nothing to shrink\n", job->seed);
		munmap(shrink.shared, sizeof(*shrink.shared));
		return 0;
	}
	shrink.best = *shrink.shared;
	printf("seed %" PRIu64 ": %s, %" PRIu64 " packets\n", job->seed, shrink.best.failure,
	       shrink.best.packets);
	while (is_smaller && shrink.runs < RUNS_MAX) {
		is_smaller = false;
		for (uint32_t edit = 0; edit < EDIT_spared; edit++) {
			is_smaller |= edit_shrink(&shrink, (enum edit)edit);
			if (has_bar)
				fprintf(stderr, "\r%u runs, %" PRIu64 " packets ", shrink.runs,
					shrink.best.packets);
		}
	}
	spare(&shrink);
	if (has_bar)
		fprintf(stderr, "\n");
	show(sim, &shrink);
	munmap(shrink.shared, sizeof(*shrink.shared));
	return SIM_EXIT_VIOLATED;
}
