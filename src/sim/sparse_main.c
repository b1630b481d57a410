/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_main.c - what a seed of sparse mode chooses, and the command `tally sim --sparse`, which plays its tables over TCP
 * as well: tables.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/sim_state.h"
#include "sim/sparse.h"
#include "sim/tables.h"
#include "util/opt.h"

#define MS 1000000ull

static void weather_draw(struct rng *rng, struct net_weather *weather)
{
	*weather = (struct net_weather){ .reorder_ns = (uint32_t)rng_log(rng, 1000, 5 * MS),
					 .jitter_ns = (uint32_t)rng_log(rng, 100, MS) };
	if (rng_below(rng, 4))
		weather->loss = (uint32_t)rng_log(rng, 100, 150000);
	if (rng_below(rng, 2))
		weather->reorder = (uint32_t)rng_log(rng, 100, 200000);
	if (rng_below(rng, 2))
		weather->duplicate = (uint32_t)rng_log(rng, 100, 100000);
}

static void host_draw(struct rng *rng, struct net_host *host)
{
	struct net_line line = {
		.ps_per_byte = (uint32_t)rng_log(rng, 80, 800000), /* 10 Mbit/s to 100 Gbit/s */
		.queue_bytes = (uint32_t)rng_log(rng, 20000, 1 << 20),
		.delay_ns = (uint32_t)rng_log(rng, 500, MS),
	};

	*host = (struct net_host){ .out = line,
				   .in = line,
				   .poll_ns = (uint32_t)rng_log(rng, 100, 200000),
				   .inbox_bytes = (uint32_t)rng_log(rng, 50000, 1 << 20),
				   .gro = 500000 };
}

void sparse_scenario_draw(struct sparse_scenario *scenario, uint64_t seed)
{
	struct sparse_table *table = &scenario->table;
	uint32_t least;
	struct rng rng;

	*scenario = (struct sparse_scenario){ .seed = seed };
	rng_init(&rng, seed, 4711);
	table->workers = (uint16_t)(1 + rng_below(&rng, SPARSE_WORKERS_MAX));
	table->window = (uint16_t)rng_log(&rng, 1, 32);
	table->dim = (uint16_t)rng_log(&rng, 1, 8);
	table->ranks = (uint32_t)rng_log(&rng, 1, 400);
	least = SPARSE_HEADER_BYTES + SPARSE_NUMBER_BYTES + sparse_row_bytes(table->window);
	if (least < SPARSE_HEADER_BYTES + sparse_sum_bytes(table->dim))
		least = SPARSE_HEADER_BYTES + sparse_sum_bytes(table->dim);
	table->bytes = (uint16_t)rng_between(&rng, least, 600);
	scenario->pushes = (uint32_t)rng_log(&rng, 1, 300);
	scenario->batches = rng_below(&rng, 3) ? rng_below(&rng, 40) : 0;
	scenario->kept_max = (uint32_t)(table->window * (1 + rng_below(&rng, 6)));
	scenario->pairs_max = rng_below(&rng, 3) ? rng_log(&rng, 1, 5000) : 0;
	scenario->age_ns = rng_below(&rng, 2) ? rng_log(&rng, 10000, 50 * MS) : 0;
	scenario->patience_ns = rng_log(&rng, 1, 100 * MS);
	scenario->disk_ns = rng_log(&rng, 1, 20 * MS);
	scenario->strikes = rng_below(&rng, 4) ? rng_below(&rng, 7) : 0;
	scenario->bound_ns = 30000 * MS;
	scenario->has_copies = rng_below(&rng, 2);
	weather_draw(&rng, &scenario->weather);
	host_draw(&rng, &scenario->host);
	scenario->has_stranger = rng_below(&rng, 2);
}

void sparse_scenario_describe(const struct sparse_scenario *scenario, char text[256])
{
	const struct sparse_table *table = &scenario->table;

	snprintf(text, 256,
		 "%u workers, window %u, %u ranks of %u values in %u bytes, %u pushes and %u "
		 "batches each, %u kept, %u strikes, disk %.1f ms, loss %.2f %%%s%s",
		 table->workers, table->window, table->ranks, table->dim, table->bytes,
		 scenario->pushes, scenario->batches, scenario->kept_max, scenario->strikes,
		 (double)scenario->disk_ns / 1e6, scenario->weather.loss / 1e4,
		 scenario->has_copies ? ", copies" : "",
		 scenario->has_stranger ? ", a stranger" : "");
}

/* ---- the command ---- */

struct asked {
	uint64_t first, last;
	bool is_sparse, are_tables, is_verbose, is_trace, is_json;
};

struct sum {
	struct sparse_report sparse;
	struct tables_report tables;
};

static void report_add(struct sparse_report *sum, const struct sparse_report *other)
{
	sum->packets += other->packets;
	sum->lost += other->lost;
	sum->pushes += other->pushes;
	sum->pushes_again += other->pushes_again;
	sum->parts += other->parts;
	sum->parts_again += other->parts_again;
	sum->epochs += other->epochs;
	sum->generations += other->generations;
	sum->switch_deaths += other->switch_deaths;
	sum->zombies += other->zombies;
	sum->zombie_acks += other->zombie_acks;
	sum->forged += other->forged;
	sum->server_deaths += other->server_deaths;
	sum->joins += other->joins;
	sum->batches += other->batches;
	sum->bcasts += other->bcasts;
	sum->copied += other->copied;
	sum->pulled += other->pulled;
	sum->virtual_ns += other->virtual_ns;
	if (other->stall_ns > sum->stall_ns)
		sum->stall_ns = other->stall_ns;
}

static void tables_add(struct tables_report *sum, const struct tables_report *other)
{
	sum->batches += other->batches;
	sum->barriers += other->barriers;
	sum->pulls += other->pulls;
	sum->connections += other->connections;
	sum->processes += other->processes;
	sum->server_deaths += other->server_deaths;
	sum->silences += other->silences;
	sum->refused += other->refused;
	sum->runs_over += other->runs_over;
	sum->virtual_ns += other->virtual_ns;
}

static void sparse_print(const struct sparse_report *sum, uint64_t runs)
{
	printf("\nruns          %" PRIu64 ", %" PRIu64 " generations\n", runs, sum->generations);
	printf("strikes       %" PRIu64 " switches died, %" PRIu64
	       " were fenced and lived on, %" PRIu64 " servers died, %" PRIu64
	       " workers began anew\n",
	       sum->switch_deaths, sum->zombies, sum->server_deaths, sum->joins);
	printf("the fenced    acknowledged %" PRIu64 " PUSHes\n", sum->zombie_acks);
	printf("strangers     sent %" PRIu64 " packets that nobody took\n", sum->forged);
	printf("epochs        %" PRIu64 " recorded; %" PRIu64 " cold batches\n", sum->epochs,
	       sum->batches);
	printf("packets       %" PRIu64 ", %.2f %% of them lost on the way\n", sum->packets,
	       sim_percent(sum->lost, sum->packets));
	printf("PUSHes        %" PRIu64 ", %.2f %% of them sent again\n", sum->pushes,
	       sim_percent(sum->pushes_again, sum->pushes));
	printf("flush parts   %" PRIu64 ", %.2f %% more sent again\n", sum->parts,
	       sim_percent(sum->parts_again, sum->parts));
	printf("copies        %" PRIu64 " parts of BCASTs, %" PRIu64 " values used, %" PRIu64
	       " pulled\n",
	       sum->bcasts, sum->copied, sum->pulled);
	printf("simulated     %.1f s, longest stall %.1f s\n", (double)sum->virtual_ns / 1e9,
	       (double)sum->stall_ns / 1e9);
}

static void tables_print(const struct tables_report *sum, uint64_t runs)
{
	printf("\ntables        %" PRIu64 ", %" PRIu64 " processes of workers, %" PRIu64
	       " connections\n",
	       runs, sum->processes, sum->connections);
	printf("strikes       %" PRIu64 " servers died, %" PRIu64 " sides heard nothing, %" PRIu64
	       " runs were over, %" PRIu64 " messages were refused\n",
	       sum->server_deaths, sum->silences, sum->runs_over, sum->refused);
	printf("done          %" PRIu64 " batches, %" PRIu64 " barriers, %" PRIu64 " pulls\n",
	       sum->batches, sum->barriers, sum->pulls);
	printf("simulated     %.1f s\n", (double)sum->virtual_ns / 1e9);
}

static void sum_print(const struct sum *sum, uint64_t runs, uint64_t violations, double seconds)
{
	if (sum->sparse.generations)
		sparse_print(&sum->sparse, runs);
	tables_print(&sum->tables, runs);
	printf("\nprocessor     %.1f s\n", seconds);
	printf("violations    %" PRIu64 "\n", violations);
}

static void sum_json(const struct sum *all, uint64_t runs, uint64_t violations, double seconds)
{
	const struct sparse_report *sum = &all->sparse;
	const struct tables_report *tables = &all->tables;

	printf("{\"runs\":%" PRIu64 ",\"violations\":%" PRIu64 ",\"generations\":%" PRIu64
	       ",\"switch_deaths\":%" PRIu64 ",\"zombies\":%" PRIu64 ",\"zombie_acks\":%" PRIu64
	       ",\"server_deaths\":%" PRIu64 ",\"joins\":%" PRIu64 ",\"forged\":%" PRIu64,
	       runs, violations, sum->generations, sum->switch_deaths, sum->zombies,
	       sum->zombie_acks, sum->server_deaths, sum->joins, sum->forged);
	printf(",\"epochs\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"packets\":%" PRIu64
	       ",\"packets_lost\":%" PRIu64 ",\"pushes\":%" PRIu64 ",\"pushes_resent\":%" PRIu64
	       ",\"parts\":%" PRIu64 ",\"parts_resent\":%" PRIu64 ",\"bcasts\":%" PRIu64
	       ",\"copied\":%" PRIu64 ",\"pulled\":%" PRIu64,
	       sum->epochs, sum->batches, sum->packets, sum->lost, sum->pushes, sum->pushes_again,
	       sum->parts, sum->parts_again, sum->bcasts, sum->copied, sum->pulled);
	printf(",\"table_processes\":%" PRIu64 ",\"table_connections\":%" PRIu64
	       ",\"table_server_deaths\":%" PRIu64 ",\"table_batches\":%" PRIu64
	       ",\"table_barriers\":%" PRIu64 ",\"table_virtual_seconds\":%.3f",
	       tables->processes, tables->connections, tables->server_deaths, tables->batches,
	       tables->barriers, (double)tables->virtual_ns / 1e9);
	printf(",\"virtual_seconds\":%.3f,\"cpu_seconds\":%.3f,\"stall_seconds\":%.3f}\n",
	       (double)sum->virtual_ns / 1e9, seconds, (double)sum->stall_ns / 1e9);
}

static bool sparse_seed_run(const char *name, const struct asked *asked, uint64_t seed,
			    struct sparse_report *sum)
{
	struct sparse_scenario scenario;
	struct sparse_report report;
	char text[256];

	sparse_scenario_draw(&scenario, seed);
	sparse_scenario_describe(&scenario, text);
	if (asked->is_verbose)
		printf("seed %" PRIu64 ": %s\n", seed, text);
	sparse_scenario_run(&scenario, &report, asked->is_trace ? stdout : NULL);
	report_add(sum, &report);
	if (asked->is_verbose)
		printf("  %" PRIu64 " packets in %.3f s (stall %.3f s), digest %016" PRIx64 "\n",
		       report.packets, (double)report.virtual_ns / 1e9,
		       (double)report.stall_ns / 1e9, report.digest);
	if (report.is_failed)
		printf("FAILED seed %" PRIu64 ": %s\n  %s\n  repeat: %s --sparse --seed %" PRIu64
		       " --trace\n",
		       seed, report.failure, text, name, seed);
	return !report.is_failed;
}

static bool tables_seed_run(const char *name, const struct asked *asked, uint64_t seed,
			    struct tables_report *sum)
{
	struct tables_report report;
	char text[256];

	tables_describe(seed, text);
	if (asked->is_verbose)
		printf("seed %" PRIu64 ", its tables: %s\n", seed, text);
	tables_run(seed, &report, asked->is_trace ? stdout : NULL);
	tables_add(sum, &report);
	if (asked->is_verbose)
		printf("  %" PRIu64 " connections in %.3f s, digest %016" PRIx64 "\n",
		       report.connections, (double)report.virtual_ns / 1e9, report.digest);
	if (report.is_failed)
		printf("FAILED seed %" PRIu64
		       ", its tables: %s\n  %s\n  repeat: %s --sparse --tables "
		       "--seed %" PRIu64 " --trace\n",
		       seed, report.failure, text, name, seed);
	return !report.is_failed;
}

static const char help[] =
	"tally sim --sparse - sparse mode's shipped code over simulated networks\n"
	"\n"
	"usage: tally sim --sparse [--tables] [--seeds A..B | --seed S] [--verbose] [--trace] "
	"[--json]\n"
	"\n"
	"A seed chooses everything: up to 8 workers, the table, the faults of the network, a slow "
	"disk,\n"
	"and the failures. Switches die, or are fenced and live on; servers die and read their "
	"log;\n"
	"workers begin anew. At the end the server's sums must contain each push once. And every "
	"push\n"
	"that a worker took as committed must have been on the disk (docs/protocol.md, X1 to X6).\n"
	"\n"
	"Each seed also plays tables of keys over TCP, with up to 4 workers and 3 servers.\n"
	"Connections break, stall or fall silent; workers are killed and replaced; servers are "
	"killed\n"
	"and have what their disks have; disks are slow or full. All timers run on a simulated "
	"clock.\n"
	"Each batch must be applied once and in order, no barrier may pass early, nobody may wait\n"
	"for ever, and whoever has left must be gone (docs/protocol.md, R-KV-6 to R-KV-17).\n"
	"\n"
	"  --tables       these tables alone\n"
	"  --seeds A..B   all these seeds (default 1..100)\n"
	"  --seed S       one seed\n"
	"  --verbose      two lines for each run\n"
	"  --trace        a line for each packet or message\n"
	"  --json         the summary as one JSON object, on the last line\n"
	"\n"
	"Exit status: 0 no violation; 1 violations; 2 wrong command line.\n";

static const char *seeds_take(struct opt_value *value)
{
	struct asked *asked = value->request;

	return sim_seeds_take(value, &asked->first, &asked->last);
}

#define AT(field) OPT_FIELD(struct asked, field)
static const struct opt table[] = {
	{ "sparse", OPT_FLAG, AT(is_sparse) },
	{ "tables", OPT_FLAG, AT(are_tables) },
	{ "seeds", OPT_CALL, .call = seeds_take },
	{ "seed", OPT_CALL, .call = seeds_take, .same = "seeds" },
	{ "verbose", OPT_FLAG, AT(is_verbose) },
	{ "trace", OPT_FLAG, AT(is_trace) },
	{ "json", OPT_FLAG, AT(is_json) },
};

int sparse_main(int argc, char **argv)
{
	struct asked asked = { .first = 1, .last = 100 };
	struct sum sum = { .sparse = { .is_failed = false } };
	uint64_t violations = 0;
	clock_t begin = clock();
	const struct opt_command command = { .name = "tally sim --sparse",
					     .help = help,
					     .table = table,
					     .count = OPT_COUNT(table) };
	struct opt_line line;
	int status = opt_read(&command, &asked, argc, argv, &line);
	double seconds;

	if (status != OPT_GO_ON)
		return status;
	if (line.words)
		return opt_refuse(command.name, line.word[0], NULL,
				  "not an option: it takes options only");
	for (uint64_t i = 0; i <= asked.last - asked.first; i++) {
		if (isatty(STDERR_FILENO) && !asked.is_verbose)
			fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " runs ", i,
				asked.last - asked.first + 1);
		if (!asked.are_tables)
			violations +=
				!sparse_seed_run(argv[0], &asked, asked.first + i, &sum.sparse);
		violations += !tables_seed_run(argv[0], &asked, asked.first + i, &sum.tables);
	}
	seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
	(asked.is_json ? sum_json : sum_print)(&sum, asked.last - asked.first + 1, violations,
					       seconds);
	return violations ? SIM_EXIT_VIOLATED : 0;
}
