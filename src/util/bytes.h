/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - numbers in files: little-endian, of 1 to 8 bytes, at any alignment. */
#ifndef UTIL_BYTES_H
#define UTIL_BYTES_H

#include <stdint.h>

static inline void bytes_put(uint8_t *at, uint64_t number, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(number >> 8 * i);
}

static inline uint64_t bytes_get(const uint8_t *at, uint32_t bytes)
{
	uint64_t number = 0;

	for (uint32_t i = 0; i < bytes; i++)
		number |= (uint64_t)at[i] << 8 * i;
	return number;
}

#endif
