/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.h - reads the golden packets of tests/vectors. The text is described in
 * tests/vectors/README.md; what it does not allow is an error.
 */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

#include <stdbool.h>

#include "core/latency/switch_latency.h"

enum {
	VECTORS_STRIDE = 16, /* lanes of one copy in a case about a switch */
	VECTORS_NAME_MAX = 120,
	VECTORS_ERROR_MAX = 200,
};

struct vector_lanes {
	uint32_t count;
	int32_t *lane;
};

struct vector_packet {
	struct wire wire; /* .lanes is lanes.count */
	struct vector_lanes lanes;
};

struct vector_state {
	struct switch_slot slot;
	struct switch_latency_slot latency; /* for jobs of latency mode; their sums are sum[0] */
	int32_t sum[2][VECTORS_STRIDE];     /* lanes that no case names hold a pattern */
};

struct vector {
	struct vector *next;
	char name[VECTORS_NAME_MAX];
	bool is_shape; /* a datagram's shape; else a switch's step */
	/* shape */
	uint8_t *bytes;
	uint32_t bytes_count;
	enum wire_fault fault;
	/* switch */
	struct switch_job job;
	struct vector_state before, after;
	bool is_from_parent;
	enum switch_verdict verdict;
	struct vector_packet answer, probe_up;
	/* both */
	struct vector_packet packet;
};

/* vectors_parse appends the cases in `text` to *first, in their order. On an error it says in
 * `error` which line is wrong and why, and returns false. */
bool vectors_parse(const char *text, struct vector **first, char error[VECTORS_ERROR_MAX]);
void vectors_free(struct vector *first);

/* REPLY for SWITCH_REPLY and so on. */
const char *vectors_verdict_name(enum switch_verdict verdict);

#endif
