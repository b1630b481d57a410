/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_fuzz.h - what all fuzz targets that send packets share: a packet as bytes, its lanes made of one
 * byte of the input.
 */
#ifndef CORE_WIRE_FUZZ_H
#define CORE_WIRE_FUZZ_H

#include "core/shared/wire.h"
#include "tests/fuzz/input.h"

/* A packet with lanes made of one byte; its bytes. */
static inline uint32_t fuzz_packet_put(uint8_t *at, const struct wire *packet, uint8_t lanes)
{
	uint32_t state = lanes;

	wire_put(at, packet);
	for (uint32_t i = 0; i < packet->lanes; i++) {
		uint32_t lane = fuzz_next(&state);

		memcpy(at + WIRE_HEADER_BYTES + i * sizeof(lane), &lane, sizeof(lane));
	}
	return wire_bytes(packet->lanes);
}

#endif
