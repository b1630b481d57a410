/* SPDX-License-Identifier: Apache-2.0 */
/* bench_report.c - what tally bench shows: a table or JSON on stdout, progress on stderr. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/bench.h"
#include "tools/bench_data.h"
#include "util/clock.h"

enum { BAR_WIDTH = 30, BAR_MS = 100 };

const char *bench_dtype_name(int dtype)
{
	static const char *const names[] = {
		"int8",   "uint8",   "int32",   "uint32",  "int64",
		"uint64", "float16", "float32", "float64", "bfloat16"
	};

	return names[dtype];
}

/* As the kernel names it, without what JSON would have to escape. */
static void cpu_model(char *text, size_t bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(text, bytes, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		snprintf(text, bytes, "%s", value + 1 + strspn(value + 1, " \t"));
		text[strcspn(text, "\n\"\\")] = '\0';
		break;
	}
	if (file)
		fclose(file);
}

static void kernel_release(char *text, size_t bytes)
{
	struct utsname name;

	snprintf(text, bytes, "%s", uname(&name) ? "unknown" : name.release);
}

void report_open(struct bench_report *report)
{
	const struct bench_options *options = report->options;
	char cpu[128], kernel[128];

	report->has_progress = isatty(STDERR_FILENO) || getenv("TALLY_PROGRESS");
	if (options->is_json)
		return;
	cpu_model(cpu, sizeof(cpu));
	kernel_release(kernel, sizeof(kernel));
	printf("# tally %s bench %s %s, %u ranks, %s, seed %" PRIu64 "\n", tally_get_version_text(),
	       bench_kinds[options->kind], options->is_avg ? "avg" : "sum", report->ranks,
	       options->is_checked ? "verified" : "not verified", options->seed);
	if (options->latency_slots)
		printf("# latency mode\n");
	printf("# lanes %u, shards %u, slots %u, window %u, run %u; rank 0 on %s, %ld cores, Linux "
	       "%s\n",
	       report->stats.lanes, report->stats.shards, report->stats.slots, report->stats.window,
	       report->stats.run, cpu, sysconf(_SC_NPROCESSORS_ONLN), kernel);
	if (!options->random_count)
		printf("# %9s %10s %7s %9s %9s %9s %8s %7s %7s %7s %5s %7s %7s %7s %6s %7s %s\n"
		       "# %9s %10s %7s %9s %9s %9s %8s %7s %7s %7s %5s %7s %7s %7s %6s %7s\n",
		       "elements", "bytes", "dtype", "TAT", "p99", "p1", "rate", "algbw", "busbw",
		       "goodput", "wire", "resent", "probes", "exp", "window", "cpu", "verified",
		       "", "", "", "us", "us", "us", "Mel/s", "GB/s", "GB/s", "Gbit/s", "%",
		       "packets", "packets", "rounds", "", "s");
	fflush(stdout);
}

const char *const bench_wires[] = { "free", "half", "exact", "strict", NULL };

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* What follows from the counts. */
struct rates {
	double elements_per_s, algbw, busbw, wire;
};

/* Of n vectors, what ranks must send together: a rank keeps what it alone is to receive. */
static double sent_share(enum bench_kind kind, double n)
{
	switch (kind) {
	case BENCH_ALLREDUCE:
	case BENCH_SEND:
		return 1;
	case BENCH_BROADCAST:
	case BENCH_ALLGATHER:
		return 1 / n;
	case BENCH_GATHER:
	case BENCH_SCATTER:
		return (n - 1) / n / n;
	default:
		return (n - 1) / n;
	}
}

/* As nccl-tests has it: the share of the bytes that must pass through the busiest link. */
static double busbw_share(enum bench_kind kind, double n)
{
	if (kind == BENCH_ALLREDUCE)
		return 2 * (n - 1) / n;
	return kind <= BENCH_BROADCAST || kind == BENCH_SEND ? 1 : (n - 1) / n;
}

static struct rates rates_of(const struct bench_report *report, const struct bench_row *row)
{
	double packed = report->options->wire == DATA_HALF ? 2 : 1; /* elements in a lane */
	struct rates rates;
	double n = report->ranks;

	/* `elements` and `bytes_out` are of all ranks, the time is the slowest one's */
	rates.elements_per_s =
		ratio((double)row->all.elements / n, (double)row->all.timed_ns / 1e9);
	rates.algbw = rates.elements_per_s * (double)data_bytes(row->dtype) / 1e9;
	rates.busbw = rates.algbw * busbw_share(report->options->kind, n);
	rates.wire = ratio((double)(row->all.elements * data_bytes(row->dtype)) / packed *
				   sent_share(report->options->kind, n),
			   (double)row->all.bytes_out);
	return rates;
}

static const char *verdict(const struct bench_report *report, const struct bench_row *row)
{
	return !report->options->is_checked ? "-" : row->is_verified ? "yes" : "NO";
}

static void json_row(const struct bench_report *report, const struct bench_row *row)
{
	const struct bench_options *options = report->options;
	const struct bench_count *all = &row->all;
	struct rates rates = rates_of(report, row);
	char cpu[128], kernel[128];

	cpu_model(cpu, sizeof(cpu));
	kernel_release(kernel, sizeof(kernel));
	printf("{\"command\":\"bench %s\",\"version\":\"%s\",\"ranks\":%u,\"op\":\"%s\","
	       "\"scale\":%.17g,\"wire\":\"%s\",\"dtype\":\"%s\",",
	       bench_kinds[options->kind], tally_get_version_text(), report->ranks,
	       options->is_avg ? "avg" : "sum", options->scale, bench_wires[options->wire],
	       row->is_random && options->dtypes_count > 1 ? "both" : bench_dtype_name(row->dtype));
	if (row->is_random)
		printf("\"elements_min\":%" PRIu64 ",\"elements_max\":%" PRIu64 ",\"wall_s\":%.6f,",
		       options->random_min, options->random_max, (double)row->wall_ns / 1e9);
	else
		printf("\"elements\":%" PRIu64 ",\"bytes\":%" PRIu64 ",", row->count,
		       row->count * data_bytes(row->dtype));
	printf("\"operations\":%" PRIu64 ",\"elements_all\":%" PRIu64
	       ",\"timed_s\":%.9f,\"tat_us_median\":%.3f,\"tat_us_p99\":%.3f,\"tat_us_p1\":%.3f,"
	       "\"tat_us_min\":%.3f,",
	       all->operations / report->ranks, all->elements / report->ranks,
	       (double)all->timed_ns / 1e9, (double)all->median_ns / 1e3, (double)all->p99_ns / 1e3,
	       (double)all->p1_ns / 1e3, (double)all->min_ns / 1e3);
	printf("\"elements_per_s\":%.1f,\"algbw_gb_s\":%.6f,\"busbw_gb_s\":%.6f,"
	       "\"goodput_gbit_s\":%.6f,\"wire_share\":%.4f,",
	       rates.elements_per_s, rates.algbw, rates.busbw, rates.algbw * 8, rates.wire);
	printf("\"packets_resent\":%" PRIu64 ",\"probes\":%" PRIu64 ",\"exponent_rounds\":%" PRIu64
	       ",\"guess_rounds\":%" PRIu64 ",\"guesses_again\":%" PRIu64
	       ",\"detail_rounds\":%" PRIu64 ",",
	       all->packets_resent, all->probes, all->exponent_rounds, all->guess_rounds,
	       all->guesses_again, all->detail_rounds);
	printf("\"window_yields\":%" PRIu64 ",\"window_losses\":%" PRIu64
	       ",\"window_presses\":%" PRIu64 ",",
	       report->stats.window_yields, report->stats.window_losses,
	       report->stats.window_presses);
	printf("\"window\":%u,\"lanes\":%u,\"shards\":%u,\"inflight\":%" PRIu64
	       ",\"latency_slots\":%" PRIu64 ",\"cpu_s\":%.6f,",
	       report->stats.window, report->stats.lanes, report->stats.shards, options->inflight,
	       options->latency_slots, (double)all->cpu_us / 1e6);
	printf("\"watched_cpu_s\":%.6f,\"machine_busy_s\":%.3f,\"machine_stolen_s\":%.3f,",
	       (double)all->watched_ns / 1e9, (double)all->busy_ns / 1e9,
	       (double)all->stolen_ns / 1e9);
	printf("\"verified\":%s,\"seed\":%" PRIu64
	       ",\"cpu\":\"%s\",\"cores\":%ld,\"kernel\":\"%s\"}\n",
	       !options->is_checked ? "null"
	       : row->is_verified   ? "true"
				    : "false",
	       options->seed, cpu, sysconf(_SC_NPROCESSORS_ONLN), kernel);
}

static void random_row(const struct bench_report *report, const struct bench_row *row)
{
	const struct bench_options *options = report->options;
	const struct bench_count *all = &row->all;

	printf("%" PRIu64 " operations (%s) of %" PRIu64 " to %" PRIu64 " elements, %" PRIu64
	       " in all: %.3f s in them, %.3f s with making and checking data\n",
	       all->operations / report->ranks, bench_kinds[options->kind], options->random_min,
	       options->random_max, all->elements / report->ranks, (double)all->timed_ns / 1e9,
	       (double)row->wall_ns / 1e9);
	printf("resent %" PRIu64 ", probes %" PRIu64 ", exponent rounds %" PRIu64
	       ", cpu %.3f s, verified %s\n",
	       all->packets_resent, all->probes, all->exponent_rounds, (double)all->cpu_us / 1e6,
	       verdict(report, row));
}

static void table_row(const struct bench_report *report, const struct bench_row *row)
{
	const struct bench_count *all = &row->all;
	struct rates rates = rates_of(report, row);

	printf("%11" PRIu64 " %10" PRIu64 " %7s %9.1f %9.1f %9.1f %8.2f %7.3f %7.3f %7.3f %5.1f "
	       "%7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %6u %7.3f %s\n",
	       row->count, row->count * data_bytes(row->dtype), bench_dtype_name(row->dtype),
	       (double)all->median_ns / 1e3, (double)all->p99_ns / 1e3, (double)all->p1_ns / 1e3,
	       rates.elements_per_s / 1e6, rates.algbw, rates.busbw, rates.algbw * 8,
	       rates.wire * 100, all->packets_resent, all->probes, all->exponent_rounds,
	       report->stats.window, (double)all->cpu_us / 1e6, verdict(report, row));
}

void report_row(struct bench_report *report, const struct bench_row *row)
{
	report_progress_end(report);
	if (report->options->is_json)
		json_row(report, row);
	else if (row->is_random)
		random_row(report, row);
	else
		table_row(report, row);
	fflush(stdout);
}

/* ---- progress ---- */

void report_progress(struct bench_report *report, const char *what, uint64_t count, double done)
{
	int filled = (int)(done * BAR_WIDTH);
	int64_t now = clock_ms();

	if (!report->has_progress || now - report->progress_ms < BAR_MS)
		return;
	report->progress_ms = now;
	fprintf(stderr, "%s x %" PRIu64 "  [%.*s%*s] %3.0f %%\033[K\r", what, count, filled,
		"##############################", BAR_WIDTH - filled, "", done * 100);
	fflush(stderr);
}

void report_progress_end(struct bench_report *report)
{
	if (report->has_progress && report->progress_ms)
		fputs("\033[K\r", stderr);
	report->progress_ms = 0;
}
