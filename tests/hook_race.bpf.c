/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * hook_race.bpf.c - latency_tc.bpf.c beside a daemon that is faster: between the look at a job and the lock of its slot
 * it has given the job a new life, has taken it away, or has put it elsewhere. Which of these, `race` says.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

__u32 race; /* RACE_ of bpf_hook_test.c */

/* clang-format off */
#define bpf_spin_lock(lock)                \
	do {                               \
		job->job.generation += race == 1; \
		job->job.enabled &= race != 2;    \
		job->slot_base += race == 3;      \
		(bpf_spin_lock)(lock);     \
	} while (0)
/* clang-format on */

#include "dataplane/xdp/latency_tc.bpf.c"
