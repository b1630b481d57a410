/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - see wire.h. The lanes of one kind lie side by side. */
#include "glm/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	LANES_WIDE = 3,
	LOW_BITS = 22, /* and as many in the middle */
	NARROW_BITS = 31,
	FRACTION_MAX = 30,
};

static const double unit = 1.0 / 4294967296.0; /* 2^-WIRE_FRACTION */

bool wire_parse(const char *text, struct glm_wire *wire)
{
	unsigned whole, fraction;
	char canonical[WIRE_TEXT_MAX];

	if (!strcmp(text, "fixed64")) {
		*wire = (struct glm_wire){ .is_narrow = false };
		return true;
	}
	if (sscanf(text, "q%2u.%2u", &whole, &fraction) != 2 || fraction > FRACTION_MAX ||
	    whole + fraction != NARROW_BITS)
		return false;
	snprintf(canonical, sizeof(canonical), "q%u.%u", whole, fraction);
	if (strcmp(text, canonical) != 0) /* blanks, zeros in front, more behind */
		return false;
	*wire = (struct glm_wire){ .is_narrow = true, .fraction = (uint8_t)fraction };
	return true;
}

const char *wire_text(const struct glm_wire *wire, char text[WIRE_TEXT_MAX])
{
	if (wire->is_narrow)
		snprintf(text, WIRE_TEXT_MAX, "q%d.%d", NARROW_BITS - wire->fraction,
			 wire->fraction);
	else
		snprintf(text, WIRE_TEXT_MAX, "fixed64");
	return text;
}

static uint32_t lanes_per(const struct glm_wire *wire)
{
	return wire->is_narrow ? 1 : LANES_WIDE;
}

uint32_t wire_lanes(const struct glm_wire *wire, uint32_t activations)
{
	return activations * lanes_per(wire) + 1;
}

uint32_t wire_fit(const struct glm_wire *wire, uint32_t lanes)
{
	return lanes ? (lanes - 1) / lanes_per(wire) : 0;
}

/* What every rank's lane may be, so that no sum of them leaves int32. */
static int64_t narrow_bound(uint32_t ranks)
{
	return INT32_MAX / ranks;
}

double wire_limit(const struct glm_wire *wire, uint32_t ranks)
{
	if (!wire->is_narrow)
		return 1 << WIRE_LIMIT_LOG2;
	return (double)narrow_bound(ranks) / (double)(1u << wire->fraction);
}

static bool pack_wide(const int64_t *parts, uint32_t count, int32_t *lanes)
{
	const uint64_t mask = (1u << LOW_BITS) - 1;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t bits = (uint64_t)parts[i];

		lanes[i] = (int32_t)(bits & mask);
		lanes[count + i] = (int32_t)(bits >> LOW_BITS & mask);
		lanes[2 * count + i] = (int32_t)(parts[i] >> 2 * LOW_BITS);
	}
	return true;
}

/* To the nearest, halves upwards. */
static bool pack_narrow(const struct glm_wire *wire, uint32_t ranks, const int64_t *parts,
			uint32_t count, int32_t *lanes)
{
	const int64_t bound = narrow_bound(ranks);
	const int shift = WIRE_FRACTION - wire->fraction;
	bool fits = true;

	for (uint32_t i = 0; i < count; i++) {
		int64_t rounded = ((parts[i] >> (shift - 1)) + 1) >> 1;
		bool is_inside = rounded >= -bound && rounded <= bound;

		fits &= is_inside;
		lanes[i] = is_inside ? (int32_t)rounded : 0;
	}
	return fits;
}

void wire_pack(const struct glm_wire *wire, uint32_t ranks, const int64_t *parts, uint32_t count,
	       bool is_saturated, int32_t *lanes)
{
	bool fits = wire->is_narrow ? pack_narrow(wire, ranks, parts, count, lanes)
				    : pack_wide(parts, count, lanes);

	lanes[wire_lanes(wire, count) - 1] = is_saturated || !fits;
}

static bool unpack_wide(const int32_t *lanes, uint32_t count, double *sums)
{
	const int64_t limit = (int64_t)1 << (WIRE_FRACTION + WIRE_LIMIT_LOG2);
	const int64_t high_limit = (limit >> 2 * LOW_BITS) + WIRE_RANKS_MAX + 1;
	bool fits = true;

	for (uint32_t i = 0; i < count; i++) {
		int64_t low = lanes[i], middle = lanes[count + i], high = lanes[2 * count + i];
		bool is_inside = high > -high_limit && high < high_limit;
		int64_t sum = is_inside ? low + middle * (1 << LOW_BITS) +
						  high * ((int64_t)1 << 2 * LOW_BITS)
					: 0;

		fits &= is_inside && sum > -limit && sum < limit;
		sums[i] = (double)sum * unit;
	}
	return fits;
}

bool wire_unpack(const struct glm_wire *wire, const int32_t *lanes, uint32_t count, double *sums)
{
	bool fits = lanes[wire_lanes(wire, count) - 1] == 0;

	if (!wire->is_narrow)
		return unpack_wide(lanes, count, sums) && fits;
	for (uint32_t i = 0; i < count; i++)
		sums[i] = (double)lanes[i] / (double)(1u << wire->fraction);
	return fits;
}
