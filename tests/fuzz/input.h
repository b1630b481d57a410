/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - what every *_fuzz.c shares: reading the fuzzer's bytes as small choices, and claims. An input
 * that is used up gives zeros, so every prefix of an input is an input.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's entry; replay.c calls it for every file of the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define FUZZ_CHECK(claim)                                                                   \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
			abort();                                                            \
		}                                                                           \
	} while (0)

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

static inline uint16_t fuzz_u16(struct fuzz_input *input)
{
	uint32_t low = fuzz_u8(input);

	return (uint16_t)(low | (uint32_t)fuzz_u8(input) << 8);
}

static inline uint32_t fuzz_u32(struct fuzz_input *input)
{
	uint32_t low = fuzz_u16(input);

	return low | (uint32_t)fuzz_u16(input) << 16;
}

static inline uint64_t fuzz_u64(struct fuzz_input *input)
{
	uint64_t low = fuzz_u32(input);

	return low | (uint64_t)fuzz_u32(input) << 32;
}

/* Up to `max` bytes of the input, fewer if there are no more. */
static inline size_t fuzz_bytes(struct fuzz_input *input, void *to, size_t max)
{
	size_t bytes = input->left < max ? input->left : max;

	if (bytes)
		memcpy(to, input->at, bytes);
	input->at += bytes;
	input->left -= bytes;
	return bytes;
}

/* A file of the input, in memory of just its size; NULL: there is no input. Its bytes 12 to 15 are a checksum of all
 * behind, little-endian; an input whose first byte is odd has one that fits, so that what lies behind that check is
 * reached. `crc` is zlib's crc32; `least`: a shorter file has none. */
static inline uint8_t *fuzz_file(const uint8_t *data, size_t *bytes, size_t least,
				 unsigned long (*crc)(unsigned long, const unsigned char *,
						      unsigned))
{
	uint8_t *file;

	if (!*bytes)
		return NULL;
	--*bytes;
	file = malloc(*bytes ? *bytes : 1);
	FUZZ_CHECK(file);
	memcpy(file, data + 1, *bytes);
	if (data[0] & 1 && *bytes >= least) {
		unsigned long sum = crc(0, file + 16, (unsigned)(*bytes - 16));

		for (uint32_t i = 0; i < 4; i++)
			file[12 + i] = (uint8_t)(sum >> 8 * i);
	}
	return file;
}

/* A stream of numbers from one byte: small ones, the ends of the range, and anything. */
static inline uint32_t fuzz_next(uint32_t *state)
{
	static const uint32_t odd[] = { 0, 1, UINT32_MAX, INT32_MAX, 0x80000000u };
	uint32_t x = *state = *state * 1664525u + 1013904223u;

	return x >> 30 ? x ^ x >> 16 : odd[(x >> 16) % (sizeof(odd) / sizeof(odd[0]))];
}

#endif
