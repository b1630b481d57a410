/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip.h - a switch that sums instead of the daemon: tallyd --engine p4. Its program serves all packets of jobs by itself,
 * and hands on HELLO, and UPDATEs that control is to be told of (R-SW-7, R-SW-13). An engine that is given one adds up
 * nothing: it binds children, and writes what the chip has to know of jobs. All calls come from the engine's thread. None
 * waits for longer than 5 s, however often it has to ask the switch. chip_bmv2.c is one.
 */
#ifndef DATAPLANE_CHIP_H
#define DATAPLANE_CHIP_H

#include "core/dense/switch.h"
#include "dataplane/link.h"

struct chip;

enum { CHIP_ERROR_BYTES = 480, CHIP_MAC_BYTES = 6 };

/* What its program was made for: R-CHIP-6. */
struct chip_profile {
	bool is_latency;                 /* it serves latency mode, both forms; else dense mode */
	uint32_t children, lanes, slots; /* of a job; of a packet; of all jobs together */
};

/* Where packets of a child come in. */
struct chip_way {
	uint16_t port; /* of the chip */
	uint8_t mac[CHIP_MAC_BYTES];
};

/* What the chip has served of a job by itself, as struct engine_job_stats counts. */
struct chip_served {
	uint64_t updates, again, results;
};

/* What has happened to the chip: chip->error says it. */
enum chip_news {
	CHIP_NO_NEWS,
	CHIP_WORD, /* worth a line of the log */
	CHIP_LOST, /* all jobs that it had are over */
};

/* Opens the one at `address` (ADDR or ADDR:PORT of its control), for packets to `local`. 0, or a negative errno with a
 * sentence. */
typedef int chip_open_fn(struct chip **chip, const char *address, const struct link_address *local,
			 char error[CHIP_ERROR_BYTES]);

/* All that return an int: 0, or a negative errno and chip->error. */
struct chip_ops {
	/* Room for the job's slots, new ones, on no address yet. -ENOSPC: it has not so many left. */
	int (*add)(struct chip *chip, const struct switch_job *job);
	/* It serves the job from now on, in this generation, which no slot holds. */
	int (*set)(struct chip *chip, const struct switch_job *job);
	/* As if it had never been there, even if the switch does not hear that before it is back. */
	void (*remove)(struct chip *chip, uint32_t job);
	/* From now on the child is at this address, and there alone. */
	int (*bind)(struct chip *chip, uint32_t job, uint32_t child,
		    const struct link_address *address, const struct chip_way *way);
	/* How many packets it has served, by verdict, of all jobs. */
	void (*counts)(struct chip *chip, uint64_t verdict[SWITCH_VERDICT_COUNT]);
	void (*served)(struct chip *chip, uint32_t job, struct chip_served *served);
	/* Is it there, and as we have left it? To be asked now and then, until there is no news. */
	enum chip_news (*look)(struct chip *chip);
	void (*close)(struct chip *chip);
};

/* Every chip begins with this. */
struct chip {
	const struct chip_ops *ops;
	struct chip_profile profile;
	char error[CHIP_ERROR_BYTES];
};

#endif
