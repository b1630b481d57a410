/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c - the command. Time is real here only to say how fast it went: processor time, per process.
 */
#include "sim/sim.h"

#include "sim/sim_state.h"
#include "sim/size.h"
#include "sim/sparse.h"
#include "util/opt.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BULK_PERCENT_MIN =
		30, /* of all chunks, in a run of many seeds: else it tests the wrong thing */
	BULK_SEEDS_MIN = 200,
	FAILURES_SHOWN = 5, /* with their diagrams */
	BAR = 40,
	BAR_MS = 200,
	LIST_MAX = 4096,
	LINE_BYTES = 256,  /* of a list */
	PACKETS_MIN = 100, /* of a run */
	PACKETS_MAX = 1000000,
	HEAP_KEPT_BYTES = 32 << 20,
};

/* --- what is running, for the message of a crash --- */

static volatile sig_atomic_t is_running;
static char crash_text[192];

static void on_crash(int number)
{
	if (is_running && write(STDERR_FILENO, crash_text, strlen(crash_text)) < 0)
		_exit(SIM_EXIT_VIOLATED);
	signal(number, SIG_DFL);
	raise(number);
}

static void crash_watch(const struct sim *sim, const struct sim_job *job)
{
	char text[96];

	sim_job_text(job, text);
	snprintf(crash_text, sizeof(crash_text),
		 "\nFAILED seed %" PRIu64 ": crashed; repeat: %s%s\n", job->seed, sim->name, text);
	is_running = 1;
}

/* --- running --- */

static uint64_t jobs_count(const struct sim *sim)
{
	return sim->list ? sim->list_count : sim->last - sim->first + 1;
}

static struct sim_job job_at(const struct sim *sim, uint64_t i)
{
	struct sim_job job = { .seed = sim->first + i,
			       .packets_max = sim->packets_max,
			       .patience_ms = sim->patience_ms,
			       .rules = sim->rules };

	if (sim->list)
		return sim->list[i];
	job.kind = sim->kind == SIM_EVERY ? (enum scenario_kind)(job.seed % SCENARIO_COUNT)
					  : (enum scenario_kind)sim->kind;
	return job;
}

static void failure_print(const struct sim *sim, const struct sim_job *job,
			  const struct scenario *scenario, const struct run_report *report)
{
	char text[256], command[96];

	if (sim->is_shortest)
		return;
	scenario_describe(scenario, text);
	sim_job_text(job, command);
	printf("FAILED seed %" PRIu64
	       ": %s\n  %s\n  repeat: %s%s\n  smaller: the same with --shrink\n",
	       job->seed, report->failure, text, sim->name, command);
	fflush(stdout);
}

static void part_add(struct sim_part *part, uint64_t seed, const struct run_report *report)
{
	if (report->stall_ns > part->sum.stall_ns)
		part->stall_seed = seed;
	run_report_add(&part->sum, report);
	part->runs++;
	part->violations += report->is_failed;
}

static void seed_run(const struct sim *sim, const struct sim_job *job, struct sim_tally *tally)
{
	struct scenario scenario;
	struct run_report report;
	char text[256];

	sim_job_draw(job, sim->has_edits ? &sim->edits : NULL, &scenario);
	crash_watch(sim, job);
	if (sim->is_verbose) {
		scenario_describe(&scenario, text);
		printf("seed %" PRIu64 ": %s\n", job->seed, text);
		fflush(stdout);
	}
	bool is_shown = !sim->is_shortest && tally->all.violations < FAILURES_SHOWN;
	run_scenario(&scenario, &report, NULL);
	if (report.is_failed && is_shown) /* once more, drawn */
		run_scenario(&scenario, &report, stdout);
	is_running = 0;
	if (sim->is_verbose)
		printf("  %" PRIu64 " packets in %.3f s (stall %.3f s), %" PRIu64 " lost, %" PRIu64
		       " of %" PRIu64 " UPDATEs sent again, digest %016" PRIx64 "\n",
		       report.packets, (double)report.virtual_ns / 1e9,
		       (double)report.stall_ns / 1e9, report.lost, report.resent, report.updates,
		       report.digest);
	part_add(&tally->all, job->seed, &report);
	part_add(&tally->of[scenario.kind], job->seed, &report);
	if (!report.is_failed)
		return;
	if (tally->all.violations == 1)
		tally->first_seed = job->seed;
	if (!tally->shortest_packets || report.packets < tally->shortest_packets) {
		tally->shortest = *job;
		tally->shortest_packets = report.packets;
	}
	failure_print(sim, job, &scenario, &report);
}

/* Of all that failed the one with the shortest trace, and its trace. */
static void shortest_show(struct sim *sim, const struct sim_tally *tally)
{
	struct sim_tally again = { .first_seed = 0 };

	sim->is_shortest = false;
	if (tally->all.violations)
		seed_run(sim, &tally->shortest, &again);
}

/* --- processes: each does its part, in memory that all see --- */

static void bar_draw(const struct sim *sim, const struct sim_tally *tallies)
{
	uint64_t all = jobs_count(sim), runs = 0, packets = 0, failed = 0;

	if (!isatty(STDERR_FILENO) || sim->is_verbose)
		return;
	for (uint32_t i = 0; i < sim->jobs; i++) {
		runs += tallies[i].all.runs;
		packets += tallies[i].all.sum.packets;
		failed += tallies[i].all.violations;
	}
	int filled = (int)(runs * BAR / all);

	fprintf(stderr,
		"\r[%.*s%*s] %" PRIu64 "/%" PRIu64 " runs, %.1f M packets, %" PRIu64 " failed ",
		filled, "########################################", BAR - filled, "", runs, all,
		(double)packets / 1e6, failed);
	if (runs == all)
		fprintf(stderr, "\n");
}

/* Every `step`-th run from `first` on. */
static void part_run(const struct sim *sim, uint64_t first, uint64_t step, struct sim_tally *tally)
{
	uint64_t all = jobs_count(sim);
	clock_t begin = clock();

	for (uint64_t i = first; i < all; i += step) {
		struct sim_job job = job_at(sim, i);

		seed_run(sim, &job, tally);
		tally->cpu_seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
		if (sim->jobs == 1)
			bar_draw(sim, tally);
	}
	tally->is_whole = true;
}

static void part_sum(struct sim_part *sum, const struct sim_part *other)
{
	if (other->sum.stall_ns > sum->sum.stall_ns)
		sum->stall_seed = other->stall_seed;
	run_report_add(&sum->sum, &other->sum);
	sum->runs += other->runs;
	sum->violations += other->violations;
}

static void tally_add(struct sim_tally *sum, const struct sim_tally *other)
{
	bool is_first = other->all.violations && !sum->all.violations;

	if (is_first || (other->all.violations && other->first_seed < sum->first_seed))
		sum->first_seed = other->first_seed;
	if (is_first ||
	    (other->all.violations && other->shortest_packets < sum->shortest_packets)) {
		sum->shortest = other->shortest;
		sum->shortest_packets = other->shortest_packets;
	}
	part_sum(&sum->all, &other->all);
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		part_sum(&sum->of[kind], &other->of[kind]);
	sum->cpu_seconds += other->cpu_seconds;
	sum->is_whole = sum->is_whole && other->is_whole;
}

static bool parts_begin(const struct sim *sim, struct sim_tally *tallies)
{
	for (uint32_t i = 0; i < sim->jobs; i++) {
		fflush(stdout);
		pid_t pid = sim_fork();
		if (pid < 0) {
			fprintf(stderr, "%s: process %u of %u: %s\n", sim->name, i + 1, sim->jobs,
				strerror(errno));
			return false;
		}
		if (pid == 0) {
			part_run(sim, i, sim->jobs, &tallies[i]);
			fflush(stdout);
			_exit(0);
		}
	}
	return true;
}

/* What they did; `is_whole` is false if one of them died. */
static void parts_run(const struct sim *sim, struct sim_tally *sum)
{
	size_t bytes = sim->jobs * sizeof(struct sim_tally);
	struct sim_tally *tallies =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec nap = { .tv_nsec = BAR_MS * 1000000L };

	if (tallies == MAP_FAILED)
		return;
	sum->is_whole = true;
	if (sim->jobs == 1)
		part_run(sim, 0, 1, tallies);
	else
		sum->is_whole = parts_begin(sim, tallies);
	for (pid_t pid = 0; pid >= 0 && sim->jobs > 1; pid = waitpid(-1, NULL, WNOHANG)) {
		bar_draw(sim, tallies);
		if (pid == 0)
			nanosleep(&nap, NULL);
	}
	for (uint32_t i = 0; i < sim->jobs; i++)
		tally_add(sum, &tallies[i]);
	munmap(tallies, bytes);
}

/* --- the command line --- */

static const char *seeds_take(struct opt_value *value)
{
	struct sim *sim = value->request;

	return sim_seeds_take(value, &sim->first, &sim->last);
}

static const char *seed_take(struct opt_value *value)
{
	struct sim *sim = value->request;

	if (!opt_number(value->text, 0, UINT64_MAX, &sim->first))
		return "a number";
	sim->last = sim->first;
	return NULL;
}

static const char *scenario_take(struct opt_value *value)
{
	struct sim *sim = value->request;
	bool is_every = !strcmp(value->text, "every");

	sim->kind = is_every ? (uint32_t)SIM_EVERY : scenario_find(value->text);
	return sim->kind == SCENARIO_COUNT ? "there is no such scenario" : NULL;
}

static const char *edits_take(struct opt_value *value)
{
	struct sim *sim = value->request;

	sim->has_edits = edits_read(&sim->edits, value->text);
	return sim->has_edits ? NULL : "NAME=NUMBER, with commas between them";
}

/* A line of a list. */
static const char *line_read(struct sim *sim, char *line)
{
	struct sim_job job = { .kind = SCENARIO_ANY };
	char *word, *at = NULL;
	uint64_t packets;

	line[strcspn(line, "#\n")] = '\0';
	word = strtok_r(line, " \t", &at);
	if (!word)
		return NULL;
	if (!opt_number(word, 0, UINT64_MAX, &job.seed))
		return "a line is SEED [SCENARIO [PACKETS]], and the seed a number";
	word = strtok_r(NULL, " \t", &at);
	if (word) {
		job.kind = scenario_find(word);
		if (job.kind == SCENARIO_COUNT)
			return "there is no such scenario";
	}
	word = word ? strtok_r(NULL, " \t", &at) : NULL;
	if (word && !opt_number(word, PACKETS_MIN, PACKETS_MAX, &packets))
		return "a line is SEED [SCENARIO [PACKETS]], and these from 100 to 1000000";
	if (word)
		job.packets_max = (uint32_t)packets;
	if (word && strtok_r(NULL, " \t", &at))
		return "a line is SEED [SCENARIO [PACKETS]], and no more";
	if (sim->list_count == LIST_MAX)
		return "more than 4096 seeds";
	if (!sim->list_count || job.seed < sim->first)
		sim->first = job.seed;
	if (!sim->list_count || job.seed > sim->last)
		sim->last = job.seed;
	sim->list[sim->list_count++] = job;
	return NULL;
}

static const char *lines_read(struct sim *sim, FILE *file, uint32_t *number)
{
	const char *why = NULL;
	char line[LINE_BYTES];

	while (!why && fgets(line, sizeof(line), file)) {
		++*number;
		if (!*line)
			why = "this is no text";
		else if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			why = "a line of more than 254 bytes";
		else
			why = line_read(sim, line);
	}
	if (why)
		return why;
	*number = 0;
	return ferror(file) ? strerror(errno) : sim->list_count ? NULL : "there is no seed in it";
}

static bool list_read(struct sim *sim)
{
	FILE *file = fopen(sim->list_path, "r");
	uint32_t number = 0;
	char where[16] = "";
	const char *why;

	sim->list = calloc(LIST_MAX, sizeof(*sim->list));
	why = !file || !sim->list ? strerror(errno) : lines_read(sim, file, &number);
	if (file)
		fclose(file);
	if (!why)
		return true;
	if (number)
		snprintf(where, sizeof(where), ":%u", number);
	fprintf(stderr, "%s: --list %s%s: %s\n", sim->name, sim->list_path, where, why);
	return false;
}

#define AT(field) OPT_FIELD(struct sim, field)
/* clang-format off */
static const struct opt table[] = {
	{ "seeds", OPT_CALL, .call = seeds_take },
	{ "seed", OPT_CALL, .call = seed_take, .same = "seeds" },
	{ "list", OPT_TEXT, AT(list_path), .takes = "the name of a file" },
	{ "jobs", OPT_NUMBER, AT(jobs), .min = 1, .max = SIM_PROCESSES_MAX },
	{ "scenario", OPT_CALL, .call = scenario_take },
	{ "packets", OPT_NUMBER, AT(packets_max), .min = PACKETS_MIN, .max = PACKETS_MAX },
	{ "patience", OPT_NUMBER, AT(patience_ms), .min = 1, .max = 1000000, .takes = "milliseconds from 1 to 1000000" },
	{ "rules", OPT_CHOICE, AT(rules), .names = sim_rules_names, .takes = "ours, switchml or p4sgd" },
	{ "with", OPT_CALL, .call = edits_take },
	{ "shrink", OPT_FLAG, AT(is_shrunk) },
	{ "shortest", OPT_FLAG, AT(is_shortest) },
	{ "verbose", OPT_FLAG, AT(is_verbose) },
	{ "json", OPT_FLAG, AT(is_json) },
};
/* clang-format on */

/* 0, or the exit status after a message. */
static int options_read(int argc, char **argv, struct sim *sim)
{
	static const char *const listed[] = { "seeds", "seed", "scenario", "packets" };
	const struct opt_command command = { .name = sim->name,
					     .table = table,
					     .count = OPT_COUNT(table) };
	struct opt_line line;
	int status = opt_read(&command, sim, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	for (size_t i = 0; sim->list_path && i < OPT_COUNT(listed); i++)
		if (opt_has(&command, &line, listed[i]))
			return opt_refuse(sim->name, "--list", sim->list_path,
					  "says seeds, scenarios and packets itself: leave out "
					  "--seeds, --seed, --scenario and --packets");
	if (line.words)
		return opt_refuse(sim->name, line.word[0], NULL,
				  "not an option: it takes options only");
	return 0;
}

static int verdict(const struct sim *sim, const struct sim_tally *tally)
{
	uint64_t chunks = tally->all.sum.chunks_bulk + tally->all.sum.chunks_express;
	FILE *file = sim->is_json ? stderr : stdout;

	if (!tally->is_whole)
		fprintf(file, "FAILED: not all processes came to their end: see above\n");
	if (tally->all.violations)
		fprintf(file, "FAILED: the first seed is %" PRIu64 "\n", tally->first_seed);
	if (!tally->is_whole || tally->all.violations)
		return SIM_EXIT_VIOLATED;
	if (tally->all.runs >= BULK_SEEDS_MIN && sim->kind == SCENARIO_ANY &&
	    sim_percent(tally->all.sum.chunks_bulk, chunks) < BULK_PERCENT_MIN) {
		fprintf(file, "FAILED: less than %d %% of the chunks are in the bulk stream\n",
			(int)BULK_PERCENT_MIN);
		return SIM_EXIT_VIOLATED;
	}
	return 0;
}

static bool has_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], word, strlen(word)))
			return true;
	return false;
}

int sim_main(int argc, char **argv)
{
	struct sim sim = {
		.name = argv[0], .first = 1, .last = 100, .kind = SCENARIO_ANY, .jobs = 1
	};
	bool is_size = has_word(argc, argv, "--topology");
	struct sim_tally tally = { .first_seed = 0 };
	int error;

	edits_init(&sim.edits);
	if (has_word(argc, argv, "--sparse"))
		return sparse_main(argc, argv);
	if (has_word(argc, argv, "--help") || has_word(argc, argv, "-h")) {
		(is_size ? size_help : sim_help)(sim.name);
		return 0;
	}
	if (is_size)
		return size_main(argc, argv);
	error = options_read(argc, argv, &sim);
	if (error)
		return error;
	if (sim.list_path && !list_read(&sim)) {
		free(sim.list);
		return SIM_EXIT_USAGE;
	}
	/* Every run takes and gives back some MB: to be kept, not fetched from the kernel page by page. */
	mallopt(M_MMAP_THRESHOLD, HEAP_KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	signal(SIGILL, on_crash);
	signal(SIGTRAP, on_crash);
	if (!sim.is_json && sim.list)
		printf("%u seeds of %s\n", sim.list_count, sim.list_path);
	else if (!sim.is_json)
		printf("seeds %" PRIu64 "..%" PRIu64 ", scenario %s\n", sim.first, sim.last,
		       sim.kind == SIM_EVERY ? "every"
					     : scenario_name((enum scenario_kind)sim.kind));
	fflush(stdout);
	if (sim.is_shrunk && jobs_count(&sim) != 1) {
		fprintf(stderr, "%s: --shrink is for one seed: --seed S\n", sim.name);
		free(sim.list);
		return SIM_EXIT_USAGE;
	}
	if (sim.is_shrunk) {
		struct sim_job job = job_at(&sim, 0);
		error = sim_shrink(&sim, &job);
		free(sim.list);
		return error;
	}
	parts_run(&sim, &tally);
	if (sim.is_shortest)
		shortest_show(&sim, &tally);
	if (sim.is_json)
		sim_json(&sim, &tally);
	else
		sim_table(&tally);
	error = verdict(&sim, &tally);
	free(sim.list);
	return error;
}
