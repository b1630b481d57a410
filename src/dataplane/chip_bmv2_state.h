/* SPDX-License-Identifier: Apache-2.0 */
/* chip_bmv2_state.h - what chip_bmv2.c (the switch as a whole) and chip_bmv2_jobs.c (what is in it of jobs) share; nobody
 * else includes it. */
#ifndef DATAPLANE_CHIP_BMV2_STATE_H
#define DATAPLANE_CHIP_BMV2_STATE_H

#include "core/shared/wire.h"
#include "dataplane/bmv2.h"
#include "dataplane/chip_bmv2.h"
#include "util/clock.h"

enum {
	HOSTS = 256, /* whose MACs we have told the switch: others' frames go to all ports */
	CALLS_MS = 5000,
	NS_PER_MS = 1000000,
};

#define INGRESS "switch_ingress."
#define EGRESS "switch_egress."
#define VALUE(bytes, number) ((struct bmv2_value){ (number), (bytes) })
#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

struct host {
	uint8_t mac[CHIP_MAC_BYTES];
	uint16_t port;
	int32_t entry;
	uint32_t users; /* children, or this host; 0: the place is free */
};

struct child {
	bool is_bound;
	struct link_address at;
	struct chip_way way;
	int32_t address, answer, replica; /* handles */
	bool has_joined;                  /* its replica has, the job's group */
	struct host *host;                /* NULL: none, or there was no place for one */
};

struct job {
	struct switch_job program;
	uint32_t first; /* of its slots */
	bool is_going;  /* its end could not be told yet */
	int32_t entry, acknowledged, group;
	struct chip_served before; /* of the jobs that had this place */
	struct child child[CHIP_BMV2_CHILDREN];
};

enum state { UP, AWAY, LOST, TAKEN };

struct chip_bmv2 {
	struct chip chip;
	struct chip_ops ops;
	struct bmv2 bmv2;
	struct link_address control, local;
	uint8_t mac[CHIP_MAC_BYTES]; /* of local's device */
	enum state state;
	uint64_t away_ns;
	uint32_t boot; /* 0: what is there is not ours */
	struct job *jobs[CHIP_BMV2_JOBS];
	struct host hosts[HOSTS];
	uint64_t before[SWITCH_VERDICT_COUNT],
		last[SWITCH_VERDICT_COUNT]; /* counted: before it was set up; so far */
};

static inline struct chip_bmv2 *bmv2_of(struct chip *chip)
{
	return (struct chip_bmv2 *)chip;
}

/* Each operation begins so: all its calls together may wait for CALLS_MS, then the connection is over. */
static inline void chip_bmv2_begin(struct chip_bmv2 *chip)
{
	chip->bmv2.until_ns = clock_ns() + (uint64_t)CALLS_MS * NS_PER_MS;
}

static inline uint64_t ip_number(const struct link_address *address)
{
	return wire_get32(address->ip + 12);
}

/* What bmv2.h has said is the chip's word. */
int chip_bmv2_passed(struct chip_bmv2 *chip, int result);
void chip_bmv2_word(struct chip_bmv2 *chip, const char *what, const char *why);
int chip_bmv2_boot_read(struct chip_bmv2 *chip, uint32_t *boot);
/* Frames to this MAC go by this port; those to the MAC that *host was go to all ports, unless another has it. */
int chip_bmv2_host_put(struct chip_bmv2 *chip, struct host **host, const struct chip_way *way);
/* All that is in the switch of the job goes, in the order of R-SW-14. What could not be taken back is still in *job. */
int chip_bmv2_job_take(struct chip_bmv2 *chip, struct job *job);
/* The switch has none of them any more. */
void chip_bmv2_jobs_forget(struct chip_bmv2 *chip);
extern const struct chip_ops chip_bmv2_jobs; /* all but look and close */

#endif
