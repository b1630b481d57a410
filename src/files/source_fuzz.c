/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_fuzz.c - any bytes as a file, plain or packed. However they come in and are asked for, what comes out
 * is the same, and so is whether it ends well; an error names the file. What comes out of a small file may be
 * endless, so some of it is enough.
 */
#include "files/source.h"

#include "core/shared/hash.h"
#include "files/bytes_fixture.h"
#include "tests/fuzz/input.h"

enum { OUT_MAX = 1 << 20 };

struct outcome {
	uint64_t bytes, hash, is_bad;
};

static struct outcome unpacked(const uint8_t *data, size_t bytes, size_t in_step, size_t out_step)
{
	static uint8_t out[1 << 16];
	struct outcome outcome = { .hash = HASH_BEGIN };
	struct bytes from = { data, bytes, in_step };
	char error[FILES_ERROR_MAX];
	struct source *source;
	ssize_t got = 0;

	FUZZ_CHECK(out_step <= sizeof(out));
	FUZZ_CHECK(!source_open_read(&source, "f", bytes_read, &from, error));
	while (outcome.bytes < OUT_MAX) {
		size_t wanted = OUT_MAX - outcome.bytes < out_step ? OUT_MAX - outcome.bytes
								   : out_step;

		got = source_read(source, out, wanted);
		if (got <= 0)
			break;
		FUZZ_CHECK((size_t)got <= wanted);
		outcome.bytes += (size_t)got;
		outcome.hash = hash_bytes(outcome.hash, out, (size_t)got);
	}
	FUZZ_CHECK(source_position(source) <= bytes);
	if (got < 0) {
		FUZZ_CHECK(!strncmp(source_error(source), "f: ", 3));
		FUZZ_CHECK(source_read(source, out, 1) == -1);
		outcome.is_bad = 1;
	} else if (!got) {
		FUZZ_CHECK(source_position(source) == bytes);
	}
	source_close(source);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct outcome whole, parts;

	if (bytes < 2)
		return 0;
	whole = unpacked(data + 2, bytes - 2, bytes, 1 << 16);
	parts = unpacked(data + 2, bytes - 2, 1u + data[0], 1u + 16u * data[1]);
	/* Before an error an unpacker may give more or less of what was good: nobody uses it. And who has enough
	 * may have been told of the error behind it, or not. */
	if (whole.bytes > OUT_MAX / 2 || parts.bytes > OUT_MAX / 2)
		return 0;
	if (whole.is_bad || parts.is_bad)
		FUZZ_CHECK(whole.is_bad == parts.is_bad);
	else
		FUZZ_CHECK(!memcmp(&whole, &parts, sizeof(whole)));
	return 0;
}
