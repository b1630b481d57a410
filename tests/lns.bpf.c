/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * lns.bpf.c - core/sparse/lns.h for the kernel: a frame is pairs of words {a, b} and of floats {x, y}, as
 * tests/bpf_lns.h says, and gets what becomes of them. The action it returns is the flags.
 */
#include "tests/bpf_lns.h"

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lns_tables);
} tables SEC(".maps");

SEC("xdp")
int tally_lns(struct xdp_md *ctx)
{
	struct bpf_lns *frame = (void *)(long)ctx->data;
	uint32_t first = 0, flags = 0;
	const struct lns_tables *found = bpf_map_lookup_elem(&tables, &first);

	if (!found || (void *)(frame + 1) > (void *)(long)ctx->data_end)
		return -1;
	for (uint32_t i = 0; i < BPF_LNS_PAIRS; i++)
		bpf_lns_step(found, &frame->pair[i], &flags);
	return (int)flags;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
