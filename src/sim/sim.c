/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c - the command. Time is real here only to say how fast it went: processor time, per process.
 */
#include "sim/sim.h"

#include "sim/sim_state.h"
#include "sim/size.h"
#include "sim/sparse.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
	LINE_BYTES = 256, /* of a list */
	HEAP_KEPT_BYTES = 32 << 20,
};
#define MS_NS 1000000ull

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

static const char *const rules_names[] = { "ours", "switchml", "p4sgd" };

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
		snprintf(text + at, 96 - (size_t)at, " --rules %s", rules_names[job->rules]);
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

static bool number_read(const char *text, const char **end, uint64_t *number)
{
	char *rest;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &rest, 10);
	*end = rest;
	return !errno;
}

/* NULL, or what is wrong; so are those below. */
static const char *seeds_read(const char *text, struct sim *sim)
{
	static const char what[] = "A..B, two numbers, A at most B";
	const char *rest;

	if (!number_read(text, &rest, &sim->first))
		return what;
	sim->last = sim->first;
	if (!*rest)
		return NULL;
	if (strncmp(rest, "..", 2) != 0 || !number_read(rest + 2, &rest, &sim->last) || *rest ||
	    sim->last < sim->first)
		return what;
	return sim->last - sim->first < UINT32_MAX ? NULL : "more than 2^32 - 1 seeds";
}

static const char *seed_read(const char *text, struct sim *sim)
{
	const char *rest;

	if (!number_read(text, &rest, &sim->first) || *rest)
		return "a number";
	sim->last = sim->first;
	return NULL;
}

static const char *jobs_read(const char *text, struct sim *sim)
{
	const char *rest;
	uint64_t jobs;

	if (!number_read(text, &rest, &jobs) || *rest || jobs < 1 || jobs > SIM_PROCESSES_MAX)
		return "a number from 1 to 256";
	sim->jobs = (uint32_t)jobs;
	return NULL;
}

static const char *packets_read(const char *text, uint32_t *packets)
{
	uint64_t number;
	const char *rest;

	if (!number_read(text, &rest, &number) || *rest || number < 100 || number > 1000000)
		return "a number from 100 to 1000000";
	*packets = (uint32_t)number;
	return NULL;
}

static const char *patience_read(const char *text, uint32_t *patience_ms)
{
	uint64_t number;
	const char *rest;

	if (!number_read(text, &rest, &number) || *rest || number < 1 || number > 1000000)
		return "milliseconds from 1 to 1000000";
	*patience_ms = (uint32_t)number;
	return NULL;
}

/* A line of a list. */
static const char *line_read(struct sim *sim, char *line)
{
	struct sim_job job = { .kind = SCENARIO_ANY };
	char *word, *at = NULL;
	const char *rest;

	line[strcspn(line, "#\n")] = '\0';
	word = strtok_r(line, " \t", &at);
	if (!word)
		return NULL;
	if (!number_read(word, &rest, &job.seed) || *rest)
		return "a line is SEED [SCENARIO [PACKETS]], and the seed a number";
	word = strtok_r(NULL, " \t", &at);
	if (word) {
		job.kind = scenario_find(word);
		if (job.kind == SCENARIO_COUNT)
			return "there is no such scenario";
	}
	word = word ? strtok_r(NULL, " \t", &at) : NULL;
	if (word && packets_read(word, &job.packets_max))
		return "a line is SEED [SCENARIO [PACKETS]], and these from 100 to 1000000";
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

static const char *rules_read(const char *text, enum sim_rules *rules)
{
	for (uint32_t i = SIM_OURS; i <= SIM_P4SGD; i++)
		if (!strcmp(text, rules_names[i])) {
			*rules = (enum sim_rules)i;
			return NULL;
		}
	return "ours, switchml or p4sgd";
}

/* What a list has, seeds and scenarios, no other option says. */
static bool option_once(uint32_t *seen, int option)
{
	static const char groups[] = "scpljSvJwkPr";
	uint32_t bits = option == 'l' ? 15 : 1u << (strchr(groups, option) - groups);
	bool is_first = !(*seen & bits);

	*seen |= bits;
	return is_first;
}

static const char *value_read(struct sim *sim, const struct option *option)
{
	switch (option->val) {
	case 's':
		return strcmp(option->name, "seed") ? seeds_read(optarg, sim)
						    : seed_read(optarg, sim);
	case 'l':
		sim->list_path = optarg;
		return NULL;
	case 'j':
		return jobs_read(optarg, sim);
	case 'c':
		sim->kind = !strcmp(optarg, "every") ? (uint32_t)SIM_EVERY : scenario_find(optarg);
		return sim->kind == SCENARIO_COUNT ? "there is no such scenario" : NULL;
	case 'p':
		return packets_read(optarg, &sim->packets_max);
	case 'P':
		return patience_read(optarg, &sim->patience_ms);
	case 'r':
		return rules_read(optarg, &sim->rules);
	case 'w':
		sim->has_edits = edits_read(&sim->edits, optarg);
		return sim->has_edits ? NULL : "NAME=NUMBER, with commas between them";
	case 'k':
		sim->is_shrunk = true;
		return NULL;
	case 'S':
		sim->is_shortest = true;
		return NULL;
	case 'v':
		sim->is_verbose = true;
		return NULL;
	default:
		sim->is_json = true;
		return NULL;
	}
}

/* 0, or the exit status after a message. */
static int options_read(int argc, char **argv, struct sim *sim)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 's' },
		{ "list", required_argument, NULL, 'l' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "scenario", required_argument, NULL, 'c' },
		{ "packets", required_argument, NULL, 'p' },
		{ "patience", required_argument, NULL, 'P' },
		{ "rules", required_argument, NULL, 'r' },
		{ "with", required_argument, NULL, 'w' },
		{ "shrink", no_argument, NULL, 'k' },
		{ "shortest", no_argument, NULL, 'S' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "json", no_argument, NULL, 'J' },
		{ 0 },
	};
	int option, index = 0;
	uint32_t seen = 0;
	const char *why;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (option == '?') {
			fprintf(stderr, "%s: see --help\n", sim->name);
			return SIM_EXIT_USAGE;
		}
		if (!option_once(&seen, option)) {
			fprintf(stderr,
				"%s: --%s: is given twice, or contradicts an earlier option: "
				"take one out\n",
				sim->name, options[index].name);
			return SIM_EXIT_USAGE;
		}
		why = value_read(sim, &options[index]);
		if (why) {
			fprintf(stderr, "%s: --%s %s: %s (%s --help)\n", sim->name,
				options[index].name, optarg, why, sim->name);
			return SIM_EXIT_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "%s: %s: not an option: it takes options only (%s --help)\n", sim->name,
		argv[optind], sim->name);
	return SIM_EXIT_USAGE;
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
