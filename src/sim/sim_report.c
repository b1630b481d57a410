/* SPDX-License-Identifier: Apache-2.0 */
/* sim_report.c - what `tally sim` prints. */
#include "sim/sim_state.h"

#include <inttypes.h>

double sim_percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

void sim_table(const struct sim_tally *tally)
{
	const struct run_report *sum = &tally->all.sum;
	uint64_t chunks = sum->chunks_bulk + sum->chunks_express;

	printf("\n%-10s %8s %11s %11s %7s %7s %10s\n", "scenario", "runs", "violations", "packets",
	       "lost", "errors", "stall");
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++) {
		const struct sim_part *part = &tally->of[kind];

		if (part->runs)
			printf("%-10s %8" PRIu64 " %11" PRIu64 " %11" PRIu64 " %5.1f %% %7" PRIu64
			       " %8.1f s  seed %" PRIu64 "\n",
			       scenario_name((enum scenario_kind)kind), part->runs,
			       part->violations, part->sum.packets,
			       sim_percent(part->sum.lost, part->sum.packets), part->sum.errors,
			       (double)part->sum.stall_ns / 1e9, part->stall_seed);
	}
	printf("\nruns              %" PRIu64 " (%" PRIu64
	       " operations, %.1f M elements verified)\n",
	       tally->all.runs, sum->operations, (double)sum->elements / 1e6);
	printf("chunks            %" PRIu64 ", %.1f %% of them in the bulk stream\n", chunks,
	       sim_percent(sum->chunks_bulk, chunks));
	printf("rounds            %" PRIu64 " EXPONENT, %" PRIu64 " DETAIL\n", sum->exponent_rounds,
	       sum->detail_rounds);
	printf("packets           %" PRIu64 ", %.2f %% of them lost on the way\n", sum->packets,
	       sim_percent(sum->lost, sum->packets));
	printf("UPDATEs sent again %.2f %% (%" PRIu64 " of %" PRIu64 "); %" PRIu64 " PROBEs\n",
	       sim_percent(sum->resent, sum->updates), sum->resent, sum->updates, sum->probes);
	printf("simulated         %.1f s of network in %.1f s of processor: %.2f M packets/s per "
	       "core\n",
	       (double)sum->virtual_ns / 1e9, tally->cpu_seconds,
	       (double)sum->packets / 1e6 / (tally->cpu_seconds + 1e-9));
	printf("longest stall     %.1f s (seed %" PRIu64 ")\n", (double)sum->stall_ns / 1e9,
	       tally->all.stall_seed);
	printf("violations        %" PRIu64 "\n", tally->all.violations);
}

void sim_json(const struct sim *sim, const struct sim_tally *tally)
{
	const struct run_report *sum = &tally->all.sum;
	uint64_t chunks = sum->chunks_bulk + sum->chunks_express;

	printf("{\"first_seed\":%" PRIu64 ",\"last_seed\":%" PRIu64 ",\"runs\":%" PRIu64
	       ",\"violations\":%" PRIu64 ",\"operations\":%" PRIu64 ",\"elements\":%" PRIu64
	       ",\"chunks\":%" PRIu64 ",\"chunks_bulk\":%" PRIu64 ",\"bulk_percent\":%.2f",
	       sim->first, sim->last, tally->all.runs, tally->all.violations, sum->operations,
	       sum->elements, chunks, sum->chunks_bulk, sim_percent(sum->chunks_bulk, chunks));
	printf(",\"exponent_rounds\":%" PRIu64 ",\"detail_rounds\":%" PRIu64 ",\"packets\":%" PRIu64
	       ",\"packets_lost\":%" PRIu64 ",\"updates\":%" PRIu64 ",\"updates_resent\":%" PRIu64
	       ",\"probes\":%" PRIu64 ",\"virtual_seconds\":%.3f,\"cpu_seconds\":%.3f"
	       ",\"packets_per_second\":%.0f}\n",
	       sum->exponent_rounds, sum->detail_rounds, sum->packets, sum->lost, sum->updates,
	       sum->resent, sum->probes, (double)sum->virtual_ns / 1e9, tally->cpu_seconds,
	       (double)sum->packets / (tally->cpu_seconds + 1e-9));
}

void sim_help(const char *name)
{
	printf("%s - run the shipped protocol code over simulated networks\n\n"
	       "usage: %s [--seeds A..B | --seed S | --list FILE] [--scenario NAME] [--jobs N]\n"
	       "       [--packets N] [--patience MS] [--rules WHOSE] [--with LIST] [--shrink]\n"
	       "       [--shortest] [--verbose] [--json]\n"
	       "       %s --topology SHAPE ...  (see %s --topology 8 --help)\n"
	       "       %s --sparse [--seeds A..B] ...  (see %s --sparse --help)\n\n"
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
	       "  --list FILE      seeds from a file: `SEED [SCENARIO [PACKETS]]` a line, # begins "
	       "a "
	       "comment\n"
	       "  --scenario NAME  of this kind only; otherwise the seed chooses:\n",
	       name, name, name, name, name, name);
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		printf("                     %-9s %s\n", scenario_name((enum scenario_kind)kind),
		       scenario_about((enum scenario_kind)kind));
	printf("                     every     all of these in turn\n"
	       "  --jobs N         N processes (default 1)\n"
	       "  --packets N      runs of at most about N packets (default 24000)\n"
	       "  --patience MS    no longer without progress, while nothing strikes (default "
	       "20000 "
	       "or\n"
	       "                   more, by the scenario)\n"
	       "  --rules WHOSE    fifo, overtaken, small by a paper's rules, and not by ours:\n"
	       "                   switchml, p4sgd (docs/why.md)\n"
	       "  --shrink         makes the one seed's scenario as small as it fails with, and "
	       "prints\n"
	       "                   the command that shows it\n"
	       "  --with LIST      a scenario made smaller: workers=2,ops=1,... of\n");
	for (uint32_t edit = 0; edit < EDIT_COUNT; edit++)
		printf("                     %-9s %s\n", edit_name((enum edit)edit),
		       edit_about((enum edit)edit));
	printf("                     chance    another course of events\n"
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
	       "  %s --scenario storm --jobs 4   a very bad network, on four cores\n"
	       "  %s --scenario every --packets 2500 --jobs 2 --seeds 1..100000   what `make "
	       "sim-long` runs\n",
	       name, name, name, name);
}
