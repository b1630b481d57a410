/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - who am I, in which job, and where is the aggregator: from arguments and from what
 * launchers put into the environment. A function of both, and of TALLY_KEY_FILE's file.
 */
#ifndef LIB_BOOTSTRAP_H
#define LIB_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/job/control.h"
#include "lib/interface.h"
#include "tally.h"

enum {
	BOOTSTRAP_JOB_MAX = 200,
	BOOTSTRAP_SIZE_MAX = 256, /* children of one switch */
	BOOTSTRAP_TIMEOUT_S = 300,
	BOOTSTRAP_TIMEOUT_S_MAX = 86400, /* a day, far from the wrap of 32 bits of milliseconds */
	BOOTSTRAP_PORT = 7171,
	BOOTSTRAP_TEXT_MAX = 512,
	BOOTSTRAP_TIMELINE_BYTES = 512,
};

struct bootstrap {
	char job[BOOTSTRAP_JOB_MAX + 1];
	uint64_t life; /* tells this job from others of its name: R-CT-21; 0: none */
	uint32_t size, rank;
	uint32_t local_size; /* ranks on this host; 0: not known */
	bool is_local;       /* rank 0 hosts the aggregator */
	bool is_udp;         /* ... and ranks that could share memory do not; */
	bool is_memory;      /* or they must */
	bool is_same_bits;   /* what shares memory gives the bits that UDP would; rank 0's counts */
	bool is_launched; /* `job` is what the launcher calls its run: the user has said no name */
	bool is_alone;    /* ... and no second program of this rank can be there */
	char aggregator[256]; /* "host[:port]"; "" if is_local */
	uint32_t init_timeout_s;
	uint32_t deadline_ms;    /* of every operation; 0: none */
	uint32_t window_packets; /* in flight, whatever the network does; 0: as it lets */
	bool is_crossed_warn;    /* ranks that wait for one another are warned of, and not ended */
	char key[CONTROL_KEY_BYTES]; /* for JOIN; "": none. Never in a log or an error */
	char timeline[BOOTSTRAP_TIMELINE_BYTES]; /* this rank's file; "": none */
	char ifname[256];                        /* TALLY_IFNAME; "": the kernel's routes decide */
	char interface[INTERFACE_TEXT_BYTES];    /* what it chose: "eth0 10.0.0.5"; "": nothing */
	uint8_t from[16]; /* its address, as struct link_address has them; zeros: any */
	char warning[BOOTSTRAP_TEXT_MAX]; /* to be said once: "" if there is none */
	/* What this rank has failed of: it joins only to tell the others; "": of nothing. */
	char failure[256];
	const char *source; /* "arguments", "TALLY_*", "torchrun", "Open MPI", "PMI", "Slurm" */
};

/* Adds to what is to be said once. */
__attribute__((format(printf, 2, 3))) void bootstrap_warn(struct bootstrap *boot,
							  const char *format, ...);

/* Returns a variable's value, or NULL. */
typedef const char *(*bootstrap_get_fn)(const char *name, void *arg);
/* The process's environment. */
const char *bootstrap_getenv(const char *name, void *unused);

/* Fills in job, size, rank and local_size from the first set that is there. TALLY_OK, or
 * TALLY_ERR_ARGUMENT with the names and values that were read in `text`. */
int bootstrap_env(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		  char text[BOOTSTRAP_TEXT_MAX]);

/* Fills in the job of a program that says size and rank itself: TALLY_JOB, else the name that a launcher gives whose
 * ranks are just these, else the Slurm job's, else "default": is_launched is false for these two. Such a launcher that
 * gives no name is refused: two of its jobs would be one. Results as above. */
int bootstrap_name(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		   char text[BOOTSTRAP_TEXT_MAX]);

/* Some launcher has set something, be it half: then bootstrap_env is who is asked. */
bool bootstrap_is_launched(bootstrap_get_fn get, void *arg);

/* Checks job, size and rank, and fills in the rest from options (may be NULL) and the environment.
 * TALLY_OK, TALLY_ERR_ARGUMENT, TALLY_ERR_UNSUPPORTED. */
int bootstrap_finish(struct bootstrap *boot, const struct tally_options *options,
		     bootstrap_get_fn get, void *arg, char text[BOOTSTRAP_TEXT_MAX]);

#endif
