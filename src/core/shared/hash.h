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

/* The low `bytes` bytes of the value, the lowest first. */
static inline uint64_t hash_number(uint64_t hash, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		hash = hash_byte(hash, (uint8_t)(value >> 8 * i));
	return hash;
}

#endif
