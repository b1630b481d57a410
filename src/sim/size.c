/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - `tally sim --topology`: runs what was asked for, prints a row for each. */
#include "sim/size.h"

#include "sim/sim_state.h"

#include <inttypes.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BAR = 40, HEAP_KEPT_BYTES = 32 << 20 };

static void bar_draw(uint64_t done, uint64_t all)
{
	int filled = (int)(done * BAR / (all ? all : 1));

	fprintf(stderr, "\r[%.*s%*s] %" PRIu64 "/%" PRIu64 " chunks ", filled,
		"########################################", BAR - filled, "", done, all);
}

static void bar_clear(void)
{
	fprintf(stderr, "\r%*s\r", 2 * BAR, "");
}

static double memory_mb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static double goodput_bps(const struct size_options *options, const struct size_report *report)
{
	return 8e9 * (double)options->message_bytes / (double)report->tat_ns;
}

static void head_print(const struct size_request *request)
{
	const struct size_options *options = &request->option[0];

	printf("%" PRIu64 " workers, %" PRIu64
	       " switch%s in %u level%s, cables of %.3g Gbit/s; every "
	       "result was checked\n\n",
	       size_workers(options), size_switches(options),
	       size_switches(options) > 1 ? "es" : "", options->levels,
	       options->levels > 1 ? "s" : "", (double)options->link_bps / 1e9);
	printf("%10s %7s %7s %9s %12s %9s %10s %9s %9s %11s\n", "bytes", "slots", "window", "loss",
	       "TAT", "of line", "goodput", "resent", "probes", "a switch");
}

static void row_print(const struct size_options *options, const struct size_report *report)
{
	printf("%10" PRIu64 " %7" PRIu64
	       " %7u %7.3f %% %9.3f ms %7.1f %% %5.2f Gb/s %7.3f %% %9" PRIu64 " %8.2f MB\n",
	       options->message_bytes, options->slots, report->window, 100 * options->loss,
	       (double)report->tat_ns / 1e6,
	       100.0 * (double)report->ideal_ns / (double)report->tat_ns,
	       goodput_bps(options, report) / 1e9, sim_percent(report->resent, report->updates),
	       report->probes, (double)report->switch_bytes / 1e6);
}

static void object_print(const struct size_options *options, const struct size_report *report)
{
	printf("{\"workers\":%" PRIu64 ",\"switches\":%" PRIu64
	       ",\"levels\":%u,\"link_bps\":%" PRIu64 ",\"uplink_bps\":%" PRIu64
	       ",\"hub_bps\":%" PRIu64 ",\"delay_ns\":%" PRIu64 ",\"poll_ns\":%" PRIu64
	       ",\"pause_ns\":%" PRIu64 ",\"queue_bytes\":%" PRIu64,
	       report->workers, report->switches, options->levels, options->link_bps,
	       options->uplink_bps, options->hub_bps, options->delay_ns, options->poll_ns,
	       options->pause_ns, options->queue_bytes);
	printf(",\"message_bytes\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"window\":%u,\"run\":%" PRIu64
	       ",\"lanes\":%" PRIu64 ",\"loss\":%.9g,\"seed\":%" PRIu64,
	       options->message_bytes, options->slots, report->window, options->run, options->lanes,
	       options->loss, options->seed);
	printf(",\"tat_ns\":%" PRIu64 ",\"line_ns\":%" PRIu64
	       ",\"goodput_bps\":%.0f,\"updates\":%" PRIu64 ",\"updates_resent\":%" PRIu64
	       ",\"probes\":%" PRIu64 ",\"packets\":%" PRIu64 ",\"packets_lost\":%" PRIu64
	       ",\"switch_bytes\":%" PRIu64 ",\"queue_most_bytes\":%" PRIu64
	       ",\"cpu_seconds\":%.3f,\"memory_mb\":%.0f}\n",
	       report->tat_ns, report->ideal_ns, goodput_bps(options, report), report->updates,
	       report->resent, report->probes, report->packets, report->lost, report->switch_bytes,
	       report->queue_bytes, report->cpu_seconds, memory_mb());
}

int size_main(int argc, char **argv)
{
	static struct size_report reports[SIZE_POINTS_MAX];
	static struct size_request request;
	bool has_bar = isatty(STDERR_FILENO);
	uint64_t packets = 0;
	double seconds = 0;
	int error = size_read(argc, argv, &request);

	if (error)
		return error;
	mallopt(M_MMAP_THRESHOLD, HEAP_KEPT_BYTES);
	if (!request.is_json)
		head_print(&request);
	for (uint32_t i = 0; i < request.points; i++) {
		size_run(&request.option[i], &reports[i], has_bar ? bar_draw : NULL);
		if (has_bar)
			bar_clear();
		if (*reports[i].failure) {
			fprintf(stderr, "%s: FAILED: %s\n", argv[0], reports[i].failure);
			return SIM_EXIT_VIOLATED;
		}
		(request.is_json ? object_print : row_print)(&request.option[i], &reports[i]);
		fflush(stdout);
		packets += reports[i].packets;
		seconds += reports[i].cpu_seconds;
	}
	if (!request.is_json)
		printf("\n%.1f M packets in %.1f s of processor: %.2f M packets/s; %.0f MB of "
		       "memory\n",
		       (double)packets / 1e6, seconds, (double)packets / 1e6 / (seconds + 1e-9),
		       memory_mb());
	if (request.plot_path && !size_plot(argv[0], &request, reports))
		return SIM_EXIT_VIOLATED;
	if (request.queue_plot_path &&
	    !size_plot_queue(argv[0], &request, &reports[request.points - 1]))
		return SIM_EXIT_VIOLATED;
	return 0;
}
