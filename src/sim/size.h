/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.h - `tally sim --topology`: how long one allreduce takes on a network that is not bought yet. The
 * shipped endpoints and switch programs exchange every packet; made up are cables (rate, propagation,
 * queues, loss) and clocks. Not modelled: the processors' time for a packet. A packet carries 4 numbers
 * and weighs on the wire what --lanes weigh, so that thousands of workers fit one process.
 */
#ifndef SIM_SIZE_H
#define SIM_SIZE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SIZE_LEVELS_MAX = 4,
	SIZE_WORKERS_MAX = 60000,
	SIZE_LANES_CARRIED = 4,
	SIZE_POINTS_MAX = 64, /* values of one option */
	SIZE_LOOKS_MAX = 4096,
};

/* One moment of a run: what waits at a switch's hub, at the one where that is most, and how much workers have in flight at most. */
struct size_look {
	uint64_t at_ns, in_bytes, out_bytes;
	double window; /* the mean */
};

struct size_options {
	uint32_t children
		[SIZE_LEVELS_MAX]; /* of a switch, from the root down; the last ones are workers */
	uint32_t levels;
	uint64_t link_bps, uplink_bps; /* a worker's cable; a switch's to its parent */
	uint64_t hub_bps;     /* all cables of a switch together; 0: as much as they carry */
	uint64_t delay_ns;    /* propagation of one cable */
	uint64_t poll_ns;     /* a worker looks at what has arrived after up to so much */
	uint64_t pause_ns;    /* in every 100 ms worker 0 does nothing for so long */
	uint64_t queue_bytes; /* in front of each cable that leaves a switch */
	uint64_t message_bytes, slots, window, lanes, run;
	double loss; /* of each packet on each cable */
	uint64_t seed;
	bool is_fixed; /* windows stay as they are */
};

struct size_report {
	uint64_t tat_ns;   /* from the call to the last rank's result */
	uint64_t ideal_ns; /* the packets of one worker, back to back on its cable */
	uint64_t chunks, workers, switches;
	uint64_t packets, lost, updates, resent, probes;
	uint64_t switch_bytes; /* of slots, in each switch */
	uint32_t window;       /* as used */
	uint64_t queue_bytes;  /* the most that waited at a hub, in one direction */
	struct size_look look[SIZE_LOOKS_MAX];
	uint32_t looks;
	double cpu_seconds;
	char failure[160]; /* empty: every result at every rank is right */
};

/* Shows how far it is, now and then; may be NULL. */
typedef void size_progress(uint64_t done, uint64_t all);

uint64_t size_workers(const struct size_options *options);
uint64_t size_switches(const struct size_options *options);
void size_run(const struct size_options *options, struct size_report *report,
	      size_progress *progress);

/* size_options.c: 0, or the exit status after a message. One option may have several values with commas
 * between them: *points of them, what it is called in *swept and, for the axis, its unit; else 1 and NULL. */
struct size_request {
	struct size_options option[SIZE_POINTS_MAX];
	double x[SIZE_POINTS_MAX]; /* the values of the option that has several */
	uint32_t points;
	const char *swept, *swept_unit, *plot_path, *queue_plot_path;
	bool is_json;
};
int size_read(int argc, char **argv, struct size_request *request);
void size_help(const char *name);

/* size_plot.c: draws TAT over the swept option. False after a message. */
bool size_plot_check(const char *name, const struct size_request *request);
bool size_plot(const char *name, const struct size_request *request,
	       const struct size_report *reports);
/* Draws the last run's queue and windows over time. */
bool size_plot_queue(const char *name, const struct size_request *request,
		     const struct size_report *report);

/* The exit status. */
int size_main(int argc, char **argv);

#endif
