/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - FNV-1a, 64 bits (Fowler, Noll, Vo): the one hash of this tree, for names, lists and descriptions.
 * Begin with HASH_BEGIN, go on with what the last call returned. Not for secrets: whoever wants two of one
 * hash finds them.
 */
#ifndef CORE_HASH_H
#define CORE_HASH_H

#include "core/shared/env.h"

#define HASH_BEGIN 0xcbf29ce484222325ull

static inline uint64_t hash_byte(uint64_t hash, uint8_t byte)
{
	return (hash ^ byte) * 0x100000001b3ull;
}

static inline uint64_t hash_bytes(uint64_t hash, const void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash = hash_byte(hash, ((const uint8_t *)at)[i]);
	return hash;
}

/* Without its NUL. */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = hash_byte(hash, (uint8_t)*text);
	return hash;
}

/* The low `bytes` bytes, at most 8, of the value, the lowest first. Most numbers end in zeros, which only multiply. */
static inline uint64_t hash_number(uint64_t hash, uint64_t value, uint32_t bytes)
{
	/* hash_byte of so many of them is times this. */
	static const uint64_t zeros[] = {
		0x1ull,
		0x100000001b3ull,
		0x366000002e329ull,
		0x8a97b0004e7feabull,
		0x9ffaac085635bc91ull,
		0xcaee32a7d4f6a63ull,
		0xdc966432edf1c639ull,
		0xc5527b8a51d3d2dbull,
		0x1efac7090aef4a21ull,
	};

	for (; value && bytes; bytes--, value >>= 8)
		hash = hash_byte(hash, (uint8_t)value);
	return hash * zeros[bytes];
}

#endif
