// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* loss.bpf.c - drops a packet with probability LOSS / 2^32 on a device's ingress, behind the sender's
 * shaper. counters: [0] seen, [1] dropped. A super-packet is one decision: switch offloads off first. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

SEC("tc")
int loss(struct __sk_buff *packet)
{
	(void)packet;
	count(0);
	if (bpf_get_prandom_u32() >= LOSS)
		return TC_ACT_UNSPEC;
	count(1);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
