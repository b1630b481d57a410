/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - the kernel as the place where slots of latency mode live: packets that need no daemon are served before they
 * are one's of a socket, and what the kernel leaves to the daemon is stepped in the same slots. An engine that is given
 * one puts those jobs there that fit; all its calls come from the engine's thread. xdp/latency_tc.bpf.c is the other
 * side, hook_tc.c (tallyd --engine kernel) loads it. docs/protocol.md, R-LAT-10.
 */
#ifndef DATAPLANE_HOOK_H
#define DATAPLANE_HOOK_H

#include "core/latency/switch_latency.h"
#include "dataplane/link.h"

struct hook;

enum {
	HOOK_ERROR_BYTES = 256,
	HOOK_NAME_BYTES = 16, /* of a device */
	HOOK_LANES_MAX = 360, /* of a packet: 1500 bytes over IPv4 */
};

/* Opens one for the datagrams to `port` that come in by `devices`. 0, or a negative errno with a sentence. devices NULL:
 * none, and *hook is NULL; but what the dead have left goes. */
typedef int hook_open_fn(struct hook **hook, const char *devices, uint16_t port,
			 char error[HOOK_ERROR_BYTES]);

/* What the kernel has served of a job by itself since it was added, as struct engine_job_stats counts. */
struct hook_served {
	uint64_t updates, again, results;
};

/* What has happened to a device without us. */
struct hook_news {
	char device[HOOK_NAME_BYTES];
	int error; /* 0: packets had come past us, and do not any more; a negative errno: they do, and why */
};

struct hook_ops {
	/* Room for the job's slots, new ones. 0, or -ENOSPC: it is not one for here. */
	int (*add)(struct hook *hook, const struct switch_job *job);
	/* What the program knows of it from now on. False: it is not one for here in this life. */
	bool (*set)(struct hook *hook, const struct switch_job *job);
	/* As if it had never been there; one that is not, too. */
	void (*remove)(struct hook *hook, uint32_t job);
	void (*bind)(struct hook *hook, uint32_t job, uint32_t child,
		     const struct link_address *address);
	/* One packet that switch_latency_admit and the address have passed: its verdict; *packet and `sum` are the
	 * answer's, if it has one. */
	enum switch_verdict (*step)(struct hook *hook, struct wire *packet, const int32_t *lane,
				    int32_t *sum);
	void (*read)(struct hook *hook, uint32_t job, uint32_t slot,
		     struct switch_latency_slot *state);
	void (*write)(struct hook *hook, uint32_t job, uint32_t slot,
		      const struct switch_latency_slot *state);
	void (*served)(struct hook *hook, uint32_t job, struct hook_served *served);
	/* How many packets the kernel has served by itself, by verdict, of all jobs. */
	void (*counts)(struct hook *hook, uint64_t verdict[SWITCH_VERDICT_COUNT]);
	/* Do packets still come here? If not, that is mended if it can be. To be asked now and then, until it is false: there
	 * is no more to tell. */
	bool (*look)(struct hook *hook, struct hook_news *news);
	void (*close)(struct hook *hook);
};

/* Every hook begins with this. */
struct hook {
	const struct hook_ops *ops;
};

#endif
