/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4_say.h - what a switch is given and what must come of it, a line of JSON for each packet: tests/p4_play.py plays it
 * against a P4 program. Included once in a program.
 */
#ifndef TESTS_P4_SAY_H
#define TESTS_P4_SAY_H

#include <stdio.h>

#include "core/latency/switch_latency.h"

/* A slot of either mode, and its sums: the copies are `stride` lanes apart. */
struct p4_slot {
	const struct switch_slot *dense;
	const struct switch_latency_slot *latency;
	const int32_t *sum;
	uint32_t stride;
};

/* Of what is sent. `lanes` are little-endian, as on the wire (R-WIRE-6). */
static void say_datagram(const char *name, const uint8_t *header, uint32_t header_bytes,
			 const int32_t *lane, uint32_t lanes_bytes)
{
	printf(",\"%s\":\"", name);
	for (uint32_t i = 0; i < header_bytes; i++)
		printf("%02x", header[i]);
	for (uint32_t i = 0; i < lanes_bytes; i++)
		printf("%02x",
		       (uint32_t)lane[i / WIRE_LANE_BYTES] >> 8 * (i % WIRE_LANE_BYTES) & 0xff);
	printf("\"");
}

static void say_packet(const char *name, const struct wire *wire, const int32_t *lane)
{
	uint8_t header[WIRE_HEADER_BYTES];

	wire_put(header, wire);
	say_datagram(name, header, sizeof(header), lane, wire->lanes * WIRE_LANE_BYTES);
}

static void say_sum(const int32_t *sum, uint32_t lanes)
{
	printf(",\"sum\":[");
	for (uint32_t i = 0; i < lanes; i++)
		printf("%s%d", i ? "," : "", sum[i]);
	printf("]");
}

static void say_latency(const struct p4_slot *at)
{
	const struct switch_latency_slot *slot = at->latency;

	printf("{\"generation\":%u,\"round\":%u,\"set\":%u,\"acked\":%u,\"tag\":%u,\"flags\":%u,"
	       "\"last\":%u",
	       slot->generation, slot->round, (uint32_t)slot->sum_bitmap[0],
	       (uint32_t)slot->ack_bitmap[0], slot->tag, slot->flags, slot->last);
	say_sum(at->sum, slot->lanes);
	printf("}");
}

static void say_dense(const struct p4_slot *at)
{
	const struct switch_slot *slot = at->dense;

	printf("{\"generation\":%u,\"phase\":%u,\"final\":%u,\"set\":%u,\"bare\":%u,\"copies\":[",
	       slot->generation, slot->phase, slot->final, (uint32_t)slot->bitmap[0],
	       (uint32_t)slot->bare[0]);
	for (uint32_t i = 0; i < 2; i++) {
		const struct switch_copy *copy = &slot->copy[i];

		printf("%s{\"tag\":%u,\"flags\":%u,\"exponent\":%u,\"last\":%u", i ? "," : "",
		       copy->tag, copy->flags, copy->exponent, copy->last);
		say_sum(at->sum + i * at->stride, copy->lanes);
		printf("}");
	}
	printf("]}");
}

static void say_slot(const char *name, const struct switch_job *job, const struct p4_slot *at)
{
	printf(",\"%s\":", name);
	if (job->mode == SWITCH_DENSE)
		say_dense(at);
	else
		say_latency(at);
}

static void say_job(const struct switch_job *job)
{
	printf(",\"job\":{\"index\":%u,\"generation\":%u,\"enabled\":%u,\"children\":%u,\"slots\":%"
	       "u,\"lanes\":%u,"
	       "\"mode\":%u}",
	       job->index, job->generation, job->enabled, job->children, job->slots, job->lanes,
	       job->mode);
}

#endif
