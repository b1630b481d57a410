/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - activations as int32 lanes that ranks add up. An activation here is a fixed-point number with 32
 * fractional bits in an int64.
 *
 * fixed64: three lanes, 22 + 22 bits unsigned and 20 signed. The sum is exact, and so independent of how many
 * ranks made it; 511 ranks fit. qM.N, M + N = 31: one lane, rounded to 2^-N on each rank. After the activations
 * comes one lane that counts the ranks which had something that does not fit.
 */
#ifndef GLM_WIRE_H
#define GLM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WIRE_RANKS_MAX = 511,
	WIRE_FRACTION = 32,
	WIRE_LIMIT_LOG2 = 20, /* a sum is below 2^20 in size */
	WIRE_TEXT_MAX = 16,
};

struct glm_wire {
	bool is_narrow;   /* qM.N; false: fixed64 */
	uint8_t fraction; /* its N, 0 to 30 */
};

/* "fixed64", "q12.19". False: no such wire. */
bool wire_parse(const char *text, struct glm_wire *wire);
const char *wire_text(const struct glm_wire *wire, char text[WIRE_TEXT_MAX]);

/* Of a packet of so many activations. */
uint32_t wire_lanes(const struct glm_wire *wire, uint32_t activations);
/* How many activations fit so many lanes. */
uint32_t wire_fit(const struct glm_wire *wire, uint32_t lanes);
/* Above this in size no sum may be, nor one rank's part of it where the wire is narrow. */
double wire_limit(const struct glm_wire *wire, uint32_t ranks);

/* is_saturated: something was beyond already. */
void wire_pack(const struct glm_wire *wire, uint32_t ranks, const int64_t *parts, uint32_t count,
	       bool is_saturated, int32_t *lanes);
/* The sums as numbers; false if one is beyond, on all ranks alike. */
bool wire_unpack(const struct glm_wire *wire, const int32_t *lanes, uint32_t count, double *sums);

#endif
