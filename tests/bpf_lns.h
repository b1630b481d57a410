/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* bpf_lns.h - what lns.bpf.c does in the kernel, and bpf_lns_test.c here. */
#ifndef TESTS_BPF_LNS_H
#define TESTS_BPF_LNS_H

#include "core/sparse/lns.h"

enum { BPF_LNS_PAIRS = 32 };

struct bpf_lns_pair {
	uint32_t a, b; /* words, of any bits; then their sum, and that as a float */
	uint32_t x, y; /* floats, of any bits; then the words, */
	uint32_t sum;  /* and their sum as a float */
};

struct bpf_lns {
	struct bpf_lns_pair pair[BPF_LNS_PAIRS];
};

CORE_INLINE void bpf_lns_step(const struct lns_tables *tables, struct bpf_lns_pair *pair,
			      uint32_t *flags)
{
	pair->a = lns_add(tables, pair->a, pair->b, flags);
	pair->b = lns_float(tables, pair->a);
	pair->x = lns_word(tables, pair->x, flags);
	pair->y = lns_word(tables, pair->y, flags);
	pair->sum = lns_float(tables, lns_add(tables, pair->x, pair->y, flags));
}

#endif
