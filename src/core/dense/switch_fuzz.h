/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_fuzz.h - what the fuzz targets of both switch programs share: a job, memory of just the right size,
 * and packets that are nearly right, seen from the slot that they are for. Included once in a program.
 */
#ifndef CORE_SWITCH_FUZZ_H
#define CORE_SWITCH_FUZZ_H

#include "core/dense/switch_model.h"
#include "core/shared/wire_fuzz.h"

enum { SLOTS = 2, PACKETS_MAX = 48 };

/* Kept, and zeroed each time. Of just its size: asan sees a lane too far. */
static int32_t *fuzz_sums(int32_t **sums, size_t lanes)
{
	if (!*sums)
		*sums = malloc(lanes * sizeof(**sums));
	FUZZ_CHECK(*sums);
	memset(*sums, 0, lanes * sizeof(**sums));
	return *sums;
}

/* The end of a block of the heap, kept: a datagram ends where it ends. */
static uint8_t *fuzz_block_end(size_t bytes)
{
	static uint8_t *block;

	if (!block)
		block = malloc(bytes);
	FUZZ_CHECK(block);
	return block + bytes;
}

static void fuzz_job(struct switch_job *job, uint32_t children, uint8_t how)
{
	memset(job, 0, sizeof(*job));
	switch_job_fill(job, children);
	job->enabled = (how >> 4 & 7) != 7;
	job->generation = how & 0x80 ? UINT32_MAX : 7;
	job->index = 3;
	job->slots = SLOTS;
}

struct fuzz_aim {
	uint8_t what, which, how;
};

static struct fuzz_aim fuzz_aim(struct fuzz_input *input)
{
	struct fuzz_aim aim;

	aim.what = fuzz_u8(input);
	aim.which = fuzz_u8(input);
	aim.how = fuzz_u8(input);
	return aim;
}

static uint16_t fuzz_aim_slot(const struct fuzz_aim *aim)
{
	return aim->which == 0xfd ? SLOTS : aim->what >> 3 & 1;
}

/* To a slot in whose model `round` is the present one; generation 0: the model is as new. */
static void fuzz_aim_at(struct fuzz_input *input, const struct fuzz_aim *aim,
			const struct switch_job *job, uint32_t generation, uint32_t round,
			struct wire *packet)
{
	packet->slot = fuzz_aim_slot(aim);
	packet->seq = (aim->what & 0xc0) == 0xc0 ? fuzz_u32(input)
		      : generation               ? round + (aim->what >> 6)
						 : 1;
	if (aim->what & 0x20)
		packet->seq -= 2;
	packet->generation = job->generation + (aim->which == 0xff) - (aim->which == 0xfe);
	packet->child = (uint16_t)(aim->which % (job->children + 1u));
	packet->job = job->index;
}

/* Any bytes at all; *bytes is how many, `max` at the most. */
static uint8_t *fuzz_datagram_any(struct fuzz_input *input, uint8_t *end, uint32_t max, uint8_t how,
				  uint32_t *bytes)
{
	*bytes = fuzz_u8(input) % (max + 1);
	memset(end - *bytes, how, *bytes);
	(void)fuzz_bytes(input, end - *bytes, *bytes);
	return end - *bytes;
}

static uint8_t *fuzz_datagram(uint8_t *end, const struct wire *packet, uint8_t how, uint32_t *bytes)
{
	uint8_t *at = end - wire_bytes(packet->lanes);

	*bytes = fuzz_packet_put(at, packet, how);
	return at;
}

/* What the model sends is what the switch made of *packet, and a packet indeed. */
static void fuzz_sent_agrees(const struct wire *packet, const int32_t *sum,
			     const struct model_out *out, uint32_t index)
{
	uint8_t header[WIRE_HEADER_BYTES];
	struct wire again;

	FUZZ_CHECK(model_sent_is(out, index, packet, sum));
	wire_put(header, packet);
	FUZZ_CHECK(wire_check(header, wire_bytes(packet->lanes), &again) == WIRE_OK);
}

#endif
