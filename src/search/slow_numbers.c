/* SPDX-License-Identifier: Apache-2.0 */
/* slow_numbers.c - see slow_numbers.h. */
#include "search/slow_numbers.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* A finite float is mantissa * 2^power. */
static uint64_t mantissa_of(uint32_t bits, int *power)
{
	uint32_t exponent = bits >> 23 & 255;

	*power = exponent ? (int)exponent - 150 : -149;
	return (bits & 0x7fffff) | (exponent ? 0x800000u : 0);
}

static bool is_finite(uint32_t bits)
{
	return (bits >> 23 & 255) != 255;
}

uint32_t slow_exponent(uint32_t bits)
{
	if (!is_finite(bits) || !(bits << 1))
		return 0;
	return bits >> 23 & 255 ? bits >> 23 & 255 : 1;
}

static int shift_of(uint32_t workers, uint32_t exponent)
{
	int log2 = 0;

	while ((uint64_t)1 << log2 < workers)
		log2++;
	return 31 - log2 - ((int)exponent - 126);
}

/* value / 2^bits, to the nearest, to even if there are two; `rest`: a little more than value. */
static wide halve(wide value, int bits, bool rest)
{
	wide half, below;

	if (bits <= 0)
		return value << -bits;
	if (bits > 120)
		return 0;
	half = (wide)1 << (bits - 1);
	below = value & ((half << 1) - 1);
	value >>= bits;
	return value + (below > half || (below == half && (rest || value & 1)));
}

int32_t slow_lane(uint32_t bits, uint32_t workers, uint32_t exponent)
{
	int64_t bound = 2147483647 / (int64_t)workers, lane;
	uint64_t mantissa;
	int power;

	if (!is_finite(bits))
		return 0;
	mantissa = mantissa_of(bits, &power);
	power += shift_of(workers, exponent);
	if (!mantissa)
		return 0;
	lane = power > 32 ? bound : (int64_t)(uint64_t)halve(mantissa, -power, false);
	lane = lane < bound ? lane : bound;
	return (int32_t)(bits >> 31 ? -lane : lane);
}

uint32_t slow_result(int32_t sum, uint32_t workers, uint32_t exponent, bool is_avg)
{
	wide value = (wide)(uint64_t)(sum < 0 ? -(int64_t)sum : sum) << 64;
	int power = -64 - shift_of(workers, exponent), top = 127, drop;
	uint32_t sign = sum < 0 ? 0x80000000u : 0, mantissa;
	bool rest = false;

	if (!sum)
		return 0;
	if (is_avg) {
		rest = value % workers != 0;
		value /= workers;
	}
	while (!(value >> top & 1))
		top--;
	drop = top - 23; /* 24 bits are kept; below 2^-126 fewer */
	if (power + drop < -149)
		drop = -149 - power;
	mantissa = (uint32_t)halve(value, drop, rest);
	if (mantissa >> 24) {
		mantissa >>= 1;
		drop++;
	}
	if (!(mantissa >> 23))
		return sign | mantissa;
	if (power + drop + 150 > 254)
		return sign | 0x7f800000;
	return sign | (uint32_t)(power + drop + 150) << 23 | (mantissa & 0x7fffff);
}

/* FNV's prime is 2^40 + 2^8 + 0xb3. */
static uint64_t hashed(uint64_t hash, uint32_t byte)
{
	hash ^= byte;
	return (hash << 40) + (hash << 8) + hash * 0xb3;
}

static uint64_t hashed_number(uint64_t hash, uint64_t number, uint32_t bytes)
{
	for (; bytes; bytes--, number /= 256)
		hash = hashed(hash, (uint32_t)(number % 256));
	return hash;
}

uint64_t slow_hash(const struct map_descriptor *descriptor)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	hash = hashed_number(hash, descriptor->number, 8);
	hash = hashed_number(hash, descriptor->kind, 4);
	hash = hashed_number(hash, descriptor->type, 4);
	hash = hashed_number(hash, descriptor->op, 4);
	hash = hashed_number(hash, descriptor->count, 8);
	hash = hashed_number(hash, descriptor->root, 4);
	for (size_t i = 0; i < strlen(descriptor->name); i++)
		hash = hashed(hash, (uint8_t)descriptor->name[i]);
	return hash;
}

uint32_t slow_tag(uint64_t hash, uint64_t index)
{
	uint64_t x = hash + index + UINT64_C(0x9e3779b97f4a7c15);

	x ^= x / ((uint64_t)1 << 30);
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x / ((uint64_t)1 << 27);
	x *= UINT64_C(0x94d049bb133111eb);
	x ^= x / ((uint64_t)1 << 31);
	return (uint32_t)(x / ((uint64_t)1 << 32));
}

static uint32_t number_at(const uint8_t *at, uint32_t bytes)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < bytes; i++)
		number = number * 256 + at[i];
	return number;
}

enum wire_fault slow_wire(const uint8_t *at, uint32_t bytes, struct wire *packet)
{
	/* By type: may it carry lanes, and how many must it? */
	static const bool may[16] = { [1] = true, [3] = true, [8] = true, [9] = true };
	static const uint32_t must[16] = { [8] = 8, [9] = 8 };
	uint32_t type, round, lanes, most;

	if (bytes < 24)
		return WIRE_FAULT_SHORT;
	if (at[0] / 16 != WIRE_VERSION)
		return WIRE_FAULT_VERSION;
	type = at[0] % 16;
	if (type < 1 || type > 9)
		return WIRE_FAULT_TYPE;
	round = at[1] % 4;
	lanes = number_at(at + 18, 2);
	most = may[type] ? WIRE_LANES_MAX : 0;
	if ((type == 1 || type == 3) && round == 1)
		most = 0;
	if (lanes % 4 != 0 || lanes < must[type] || lanes > most)
		return WIRE_FAULT_LANES;
	if (bytes != 24 + 4 * lanes)
		return WIRE_FAULT_LENGTH;
	if ((type == 1 || type == 3) && (round == 3 || at[1] / 4 % 8 > 3))
		return WIRE_FAULT_FLAGS;
	*packet = (struct wire){ .type = (uint8_t)type,
				 .flags = at[1],
				 .job = (uint16_t)number_at(at + 2, 2),
				 .generation = number_at(at + 4, 4),
				 .seq = number_at(at + 8, 4),
				 .slot = (uint16_t)number_at(at + 12, 2),
				 .child = (uint16_t)number_at(at + 14, 2),
				 .exponent = (uint16_t)number_at(at + 16, 2),
				 .lanes = (uint16_t)lanes,
				 .tag = number_at(at + 20, 4) };
	return WIRE_OK;
}
