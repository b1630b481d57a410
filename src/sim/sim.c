/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c - the command. Time is real here only to say how fast it went: processor time, per process.
 */
#include "sim/sim.h"

#include "sim/run.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	EXIT_VIOLATED = 1,
	EXIT_USAGE = 2,
	JOBS_MAX = 256,
	BULK_PERCENT_MIN =
		30, /* of all chunks, in a run of many seeds: else it tests the wrong thing */
	BULK_SEEDS_MIN = 200,
	FAILURES_SHOWN = 5, /* with their diagrams */
	BAR = 40,
	LIST_MAX = 4096,
	LINE_BYTES = 256, /* of a list */
};

struct job {
	uint64_t seed;
	enum scenario_kind kind;
};

struct sim {
	const char *name;
	uint64_t first, last; /* seeds; of a list the least and the largest */
	enum scenario_kind kind;
	const char *list_path;
	struct job *list;
	uint32_t list_count;
	uint32_t jobs;
	bool is_verbose, is_json, is_shortest;
};

/* What one process did. */
struct tally {
	struct run_report sum;
	uint64_t runs, violations;
	uint64_t runs_of[SCENARIO_COUNT], violations_of[SCENARIO_COUNT];
	uint64_t first_seed; /* that failed */
	uint64_t stall_seed; /* that waited longest for progress */
	struct job shortest; /* of those that failed, the one with the fewest packets */
	uint64_t shortest_packets;
	double cpu_seconds;
};

/* --- what is running, for the message of a crash --- */

static volatile sig_atomic_t is_running;
static char crash_text[128];

static void on_crash(int number)
{
	if (is_running && write(STDERR_FILENO, crash_text, strlen(crash_text)) < 0)
		_exit(EXIT_VIOLATED);
	signal(number, SIG_DFL);
	raise(number);
}

static void crash_watch(const struct sim *sim, uint64_t seed, enum scenario_kind kind)
{
	bool is_any = sim->kind == SCENARIO_ANY && !sim->list;

	snprintf(crash_text, sizeof(crash_text),
		 "\nFAILED seed %" PRIu64 ": crashed; repeat: %s --seed %" PRIu64 "%s%s\n", seed,
		 sim->name, seed, is_any ? "" : " --scenario ", is_any ? "" : scenario_name(kind));
	is_running = 1;
}

/* --- running --- */

static uint64_t jobs_count(const struct sim *sim)
{
	return sim->list ? sim->list_count : sim->last - sim->first + 1;
}

static struct job job_at(const struct sim *sim, uint64_t i)
{
	if (sim->list)
		return sim->list[i];
	return (struct job){ .seed = sim->first + i, .kind = sim->kind };
}

static void failure_print(const struct sim *sim, const struct job *job,
			  const struct scenario *scenario, const struct run_report *report)
{
	char text[256];

	if (sim->is_shortest)
		return;
	scenario_describe(scenario, text);
	printf("FAILED seed %" PRIu64 ": %s\n  %s\n  repeat: %s --seed %" PRIu64 "%s%s\n",
	       job->seed, report->failure, text, sim->name, job->seed,
	       job->kind == SCENARIO_ANY ? "" : " --scenario ",
	       job->kind == SCENARIO_ANY ? "" : scenario_name(job->kind));
	fflush(stdout);
}

static void seed_run(const struct sim *sim, const struct job *job, struct tally *tally)
{
	struct scenario scenario;
	struct run_report report;
	char text[256];

	scenario_draw(&scenario, job->seed, job->kind);
	crash_watch(sim, job->seed, scenario.kind);
	if (sim->is_verbose) {
		scenario_describe(&scenario, text);
		printf("seed %" PRIu64 ": %s\n", job->seed, text);
		fflush(stdout);
	}
	bool is_shown = !sim->is_shortest && tally->violations < FAILURES_SHOWN;
	run_scenario(&scenario, &report, is_shown ? stdout : NULL);
	is_running = 0;
	if (sim->is_verbose)
		printf("  %" PRIu64 " packets in %.3f s (stall %.3f s), %" PRIu64 " lost, %" PRIu64
		       " of %" PRIu64 " UPDATEs sent again, digest %016" PRIx64 "\n",
		       report.packets, (double)report.virtual_ns / 1e9,
		       (double)report.stall_ns / 1e9, report.lost, report.resent, report.updates,
		       report.digest);
	if (report.stall_ns > tally->sum.stall_ns)
		tally->stall_seed = job->seed;
	run_report_add(&tally->sum, &report);
	tally->runs++;
	tally->runs_of[scenario.kind]++;
	if (!report.is_failed)
		return;
	if (!tally->violations++)
		tally->first_seed = job->seed;
	tally->violations_of[scenario.kind]++;
	if (!tally->shortest_packets || report.packets < tally->shortest_packets) {
		tally->shortest = *job;
		tally->shortest_packets = report.packets;
	}
	failure_print(sim, job, &scenario, &report);
}

/* Of all that failed the one with the shortest trace, and its trace. */
static void shortest_show(struct sim *sim, const struct tally *tally)
{
	struct tally again = { .runs = 0 };

	sim->is_shortest = false;
	if (tally->violations)
		seed_run(sim, &tally->shortest, &again);
}

static void bar_draw(const struct sim *sim, const struct tally *tally, uint64_t done)
{
	uint64_t all = jobs_count(sim);
	int filled = (int)(done * BAR / all);

	fprintf(stderr,
		"\r[%.*s%*s] %" PRIu64 "/%" PRIu64 " runs, %.1f M packets, %" PRIu64 " failed ",
		filled, "########################################", BAR - filled, "", done, all,
		(double)tally->sum.packets / 1e6, tally->violations);
	if (done == all)
		fprintf(stderr, "\n");
}

/* Every `step`-th run from `first` on. */
static void part_run(const struct sim *sim, uint64_t first, uint64_t step, struct tally *tally)
{
	bool has_bar = isatty(STDERR_FILENO) && !sim->is_verbose && first == 0;
	uint64_t all = jobs_count(sim);
	clock_t begin = clock();

	for (uint64_t i = first; i < all; i += step) {
		struct job job = job_at(sim, i);

		seed_run(sim, &job, tally);
		if (has_bar)
			bar_draw(sim, tally, i + step < all ? i + 1 : all);
	}
	tally->cpu_seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void tally_add(struct tally *sum, const struct tally *other)
{
	if (other->sum.stall_ns > sum->sum.stall_ns)
		sum->stall_seed = other->stall_seed;
	run_report_add(&sum->sum, &other->sum);
	sum->runs += other->runs;
	if (other->violations && (!sum->violations || other->first_seed < sum->first_seed))
		sum->first_seed = other->first_seed;
	if (other->violations &&
	    (!sum->violations || other->shortest_packets < sum->shortest_packets)) {
		sum->shortest = other->shortest;
		sum->shortest_packets = other->shortest_packets;
	}
	sum->violations += other->violations;
	sum->cpu_seconds += other->cpu_seconds;
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++) {
		sum->runs_of[kind] += other->runs_of[kind];
		sum->violations_of[kind] += other->violations_of[kind];
	}
}

/* 0, with where its report will come from; or an errno. */
static int part_start(const struct sim *sim, uint32_t part, int *from)
{
	struct tally tally = { .runs = 0 };
	int ends[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(ends))
		return errno;
	pid = fork();
	if (pid == 0) {
		part_run(sim, part, sim->jobs, &tally);
		fflush(stdout);
		_exit(write(ends[1], &tally, sizeof(tally)) != sizeof(tally));
	}
	int error = pid < 0 ? errno : 0;
	close(ends[1]);
	*from = ends[0];
	if (error)
		close(ends[0]);
	return error;
}

/* A process for each part; what they did comes back through pipes. False: not all of them came to their end. */
static bool parts_run(const struct sim *sim, struct tally *sum)
{
	int from[JOBS_MAX];
	uint32_t started = 0;
	bool is_whole = true;

	for (int error; is_whole && started < sim->jobs; started += is_whole) {
		error = part_start(sim, started, &from[started]);
		if (!error)
			continue;
		fprintf(stderr, "%s: process %u of %u: %s\n", sim->name, started + 1, sim->jobs,
			strerror(error));
		is_whole = false;
	}
	for (uint32_t i = 0; i < started; i++) {
		struct tally tally;

		if (read(from[i], &tally, sizeof(tally)) == sizeof(tally))
			tally_add(sum, &tally);
		else
			is_whole = false;
		close(from[i]);
	}
	for (int status; wait(&status) > 0;)
		is_whole = is_whole && !status;
	return is_whole;
}

/* --- reporting --- */

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void table_print(const struct tally *tally)
{
	const struct run_report *sum = &tally->sum;
	uint64_t chunks = sum->chunks_bulk + sum->chunks_express;

	printf("\n%-10s %8s %11s\n", "scenario", "runs", "violations");
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		if (tally->runs_of[kind])
			printf("%-10s %8" PRIu64 " %11" PRIu64 "\n",
			       scenario_name((enum scenario_kind)kind), tally->runs_of[kind],
			       tally->violations_of[kind]);
	printf("\nruns              %" PRIu64 " (%" PRIu64
	       " operations, %.1f M elements verified)\n",
	       tally->runs, sum->operations, (double)sum->elements / 1e6);
	printf("chunks            %" PRIu64 ", %.1f %% of them in the bulk stream\n", chunks,
	       percent(sum->chunks_bulk, chunks));
	printf("rounds            %" PRIu64 " EXPONENT, %" PRIu64 " DETAIL\n", sum->exponent_rounds,
	       sum->detail_rounds);
	printf("packets           %" PRIu64 ", %.2f %% of them lost on the way\n", sum->packets,
	       percent(sum->lost, sum->packets));
	printf("UPDATEs sent again %.2f %% (%" PRIu64 " of %" PRIu64 "); %" PRIu64 " PROBEs\n",
	       percent(sum->resent, sum->updates), sum->resent, sum->updates, sum->probes);
	printf("simulated         %.1f s of network in %.1f s of processor: %.2f M packets/s per "
	       "core\n",
	       (double)sum->virtual_ns / 1e9, tally->cpu_seconds,
	       (double)sum->packets / 1e6 / (tally->cpu_seconds + 1e-9));
	printf("longest stall     %.1f s (seed %" PRIu64 ")\n", (double)sum->stall_ns / 1e9,
	       tally->stall_seed);
	printf("violations        %" PRIu64 "\n", tally->violations);
}

static void json_print(const struct sim *sim, const struct tally *tally)
{
	const struct run_report *sum = &tally->sum;
	uint64_t chunks = sum->chunks_bulk + sum->chunks_express;

	printf("{\"first_seed\":%" PRIu64 ",\"last_seed\":%" PRIu64 ",\"runs\":%" PRIu64
	       ",\"violations\":%" PRIu64 ",\"operations\":%" PRIu64 ",\"elements\":%" PRIu64
	       ",\"chunks\":%" PRIu64 ",\"chunks_bulk\":%" PRIu64 ",\"bulk_percent\":%.2f",
	       sim->first, sim->last, tally->runs, tally->violations, sum->operations,
	       sum->elements, chunks, sum->chunks_bulk, percent(sum->chunks_bulk, chunks));
	printf(",\"exponent_rounds\":%" PRIu64 ",\"detail_rounds\":%" PRIu64 ",\"packets\":%" PRIu64
	       ",\"packets_lost\":%" PRIu64 ",\"updates\":%" PRIu64 ",\"updates_resent\":%" PRIu64
	       ",\"probes\":%" PRIu64 ",\"virtual_seconds\":%.3f,\"cpu_seconds\":%.3f"
	       ",\"packets_per_second\":%.0f}\n",
	       sum->exponent_rounds, sum->detail_rounds, sum->packets, sum->lost, sum->updates,
	       sum->resent, sum->probes, (double)sum->virtual_ns / 1e9, tally->cpu_seconds,
	       (double)sum->packets / (tally->cpu_seconds + 1e-9));
}

/* --- the command line --- */

static void help(const char *name)
{
	printf("%s - run the shipped protocol code over simulated networks\n\n"
	       "usage: %s [--seeds A..B | --seed S | --list FILE] [--scenario NAME] [--jobs N]\n"
	       "       [--shortest] [--verbose] [--json]\n\n"
	       "A seed chooses everything: 1 to 8 workers, one to three shards, flat or trees of\n"
	       "switches, packet size, slots, windows, the operations, when each rank calls them, "
	       "and\n"
	       "how bad the network is. The endpoints and switches are the ones that tally ships; "
	       "only\n"
	       "the network and the clock are made up, so a second of network takes no time of its "
	       "own,\n"
	       "and the same seed gives the same run, packet by packet, on every machine.\n\n"
	       "Every packet is held against a ledger of what the workers have sent, every step of "
	       "a\n"
	       "switch or worker against the invariants of docs/protocol.md, and every result "
	       "against\n"
	       "a sum made without tally. A violation prints the seed and the last packets of its "
	       "slot\n"
	       "as a sequence diagram.\n\n"
	       "  --seeds A..B     all these seeds (default 1..100)\n"
	       "  --seed S         one seed\n"
	       "  --list FILE      seeds from a file: `SEED [SCENARIO]` a line, # begins a "
	       "comment\n"
	       "  --scenario NAME  of this kind only; otherwise the seed chooses:\n",
	       name, name);
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		printf("                     %-9s %s\n", scenario_name((enum scenario_kind)kind),
		       scenario_about((enum scenario_kind)kind));
	printf("  --jobs N         N processes (default 1)\n"
	       "  --shortest       the trace of one failure: the one with the fewest packets\n"
	       "  --verbose        a line for each scenario and what it did\n"
	       "  --json           the summary as one JSON object, on the last line\n\n"
	       "  --help, --version\n\n"
	       "Exit status: 0 no violation; 1 violations, or too few chunks in the bulk stream "
	       "for a\n"
	       "test; 2 wrong command line or list.\n\n"
	       "examples:\n"
	       "  %s --seeds 1..2000             what `make sim` runs\n"
	       "  %s --seed 17 --verbose         one run again\n"
	       "  %s --scenario storm --jobs 4   a very bad network, on four cores\n",
	       name, name, name);
}

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

	if (!number_read(text, &rest, &jobs) || *rest || jobs < 1 || jobs > JOBS_MAX)
		return "a number from 1 to 256";
	sim->jobs = (uint32_t)jobs;
	return NULL;
}

/* A line of a list. */
static const char *line_read(struct sim *sim, char *line)
{
	struct job job = { .kind = SCENARIO_ANY };
	char *word, *at = NULL;
	const char *rest;

	line[strcspn(line, "#\n")] = '\0';
	word = strtok_r(line, " \t", &at);
	if (!word)
		return NULL;
	if (!number_read(word, &rest, &job.seed) || *rest)
		return "a line is SEED [SCENARIO], and the seed a number";
	word = strtok_r(NULL, " \t", &at);
	if (word) {
		job.kind = scenario_find(word);
		if (job.kind == SCENARIO_COUNT)
			return "there is no such scenario";
	}
	if (word && strtok_r(NULL, " \t", &at))
		return "a line is SEED [SCENARIO], and no more";
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

/* What a list has, seeds and scenarios, no other option says. */
static bool option_once(uint32_t *seen, int option)
{
	static const char groups[] = "scljSvJ";
	uint32_t bits = option == 'l' ? 7 : 1u << (strchr(groups, option) - groups);
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
		sim->kind = scenario_find(optarg);
		return sim->kind == SCENARIO_COUNT ? "there is no such scenario" : NULL;
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
			return EXIT_USAGE;
		}
		if (!option_once(&seen, option)) {
			fprintf(stderr,
				"%s: --%s a second time, or against an earlier option: which one "
				"counts?\n",
				sim->name, options[index].name);
			return EXIT_USAGE;
		}
		why = value_read(sim, &options[index]);
		if (why) {
			fprintf(stderr, "%s: --%s %s: %s (%s --help)\n", sim->name,
				options[index].name, optarg, why, sim->name);
			return EXIT_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "%s: %s: options only (%s --help)\n", sim->name, argv[optind], sim->name);
	return EXIT_USAGE;
}

static int verdict(const struct sim *sim, const struct tally *tally, bool is_whole)
{
	uint64_t chunks = tally->sum.chunks_bulk + tally->sum.chunks_express;
	FILE *file = sim->is_json ? stderr : stdout;

	if (!is_whole)
		fprintf(file, "FAILED: not all processes came to their end: see above\n");
	if (tally->violations)
		fprintf(file, "FAILED: the first seed is %" PRIu64 "\n", tally->first_seed);
	if (!is_whole || tally->violations)
		return EXIT_VIOLATED;
	if (tally->runs >= BULK_SEEDS_MIN && sim->kind == SCENARIO_ANY &&
	    percent(tally->sum.chunks_bulk, chunks) < BULK_PERCENT_MIN) {
		fprintf(file, "FAILED: less than %d %% of the chunks are in the bulk stream\n",
			(int)BULK_PERCENT_MIN);
		return EXIT_VIOLATED;
	}
	return 0;
}

int sim_main(int argc, char **argv)
{
	struct sim sim = {
		.name = argv[0], .first = 1, .last = 100, .kind = SCENARIO_ANY, .jobs = 1
	};
	struct tally tally = { .runs = 0 };
	bool is_whole = true;
	int error;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(sim.name);
			return 0;
		}
	error = options_read(argc, argv, &sim);
	if (error)
		return error;
	if (sim.list_path && !list_read(&sim)) {
		free(sim.list);
		return EXIT_USAGE;
	}
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	signal(SIGILL, on_crash);
	signal(SIGTRAP, on_crash);
	if (!sim.is_json && sim.list)
		printf("%u seeds of %s\n", sim.list_count, sim.list_path);
	else if (!sim.is_json)
		printf("seeds %" PRIu64 "..%" PRIu64 ", scenario %s\n", sim.first, sim.last,
		       scenario_name(sim.kind));
	fflush(stdout);
	if (sim.jobs > 1)
		is_whole = parts_run(&sim, &tally);
	else
		part_run(&sim, 0, 1, &tally);
	if (sim.is_shortest)
		shortest_show(&sim, &tally);
	if (sim.is_json)
		json_print(&sim, &tally);
	else
		table_print(&tally);
	error = verdict(&sim, &tally, is_whole);
	free(sim.list);
	return error;
}
