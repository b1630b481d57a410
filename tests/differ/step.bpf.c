/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * step.bpf.c - step.h for the kernel: run on frames that are no network's (BPF_PROG_TEST_RUN), over maps
 * that the test has mapped. The action it returns is the result.
 */
#include "tests/differ/step.h"

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIFFER_JOBS);
	__type(key, __u32);
	__type(value, struct switch_job);
} jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIFFER_SLOTS_ALL);
	__type(key, __u32);
	__type(value, struct differ_slot);
} slots SEC(".maps");

CORE_INLINE const struct switch_job *differ_job(const struct differ_world *world, uint32_t index)
{
	(void)world;
	return bpf_map_lookup_elem(&jobs, &index);
}

CORE_INLINE struct differ_slot *differ_slot(const struct differ_world *world, uint32_t index)
{
	(void)world;
	return bpf_map_lookup_elem(&slots, &index);
}

SEC("xdp")
int tally_differ(struct xdp_md *ctx)
{
	return (int)differ_step(0, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
