/* SPDX-License-Identifier: Apache-2.0 */
/* sip.c - see sip.h. */
#include "core/shared/sip.h"

enum { ROUNDS = 2, ROUNDS_END = 4, WORD_BYTES = 8 };

struct sip {
	uint64_t v[4];
};

static uint64_t turn(uint64_t value, uint32_t bits)
{
	return value << bits | value >> (64 - bits);
}

static uint64_t get64(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

static void mix(struct sip *sip, uint32_t rounds)
{
	uint64_t *v = sip->v;

	for (uint32_t i = 0; i < rounds; i++) {
		v[0] += v[1];
		v[1] = turn(v[1], 13) ^ v[0];
		v[0] = turn(v[0], 32);
		v[2] += v[3];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = turn(v[1], 17) ^ v[2];
		v[2] = turn(v[2], 32);
	}
}

static void take(struct sip *sip, uint64_t word)
{
	sip->v[3] ^= word;
	mix(sip, ROUNDS);
	sip->v[0] ^= word;
}

/* All of the bytes; the last word has what is left of them, and their number. */
static struct sip begin(const uint8_t key[SIP_KEY_BYTES], const uint8_t *at, uint32_t bytes)
{
	uint64_t low = get64(key, WORD_BYTES), high = get64(key + WORD_BYTES, WORD_BYTES);
	struct sip sip = { { low ^ 0x736f6d6570736575ull, high ^ 0x646f72616e646f6dull,
			     low ^ 0x6c7967656e657261ull, high ^ 0x7465646279746573ull } };
	uint32_t left = bytes;

	for (; left >= WORD_BYTES; left -= WORD_BYTES, at += WORD_BYTES)
		take(&sip, get64(at, WORD_BYTES));
	take(&sip, get64(at, left) | (uint64_t)(bytes & 0xff) << 56);
	return sip;
}

static uint64_t end(struct sip *sip)
{
	mix(sip, ROUNDS_END);
	return sip->v[0] ^ sip->v[1] ^ sip->v[2] ^ sip->v[3];
}

uint64_t sip64(const uint8_t key[SIP_KEY_BYTES], const uint8_t *at, uint32_t bytes)
{
	struct sip sip = begin(key, at, bytes);

	sip.v[2] ^= 0xff;
	return end(&sip);
}
