/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lns_fuzz.c - the floats of packets into a sum of logarithms, and words that no sum is: whatever they are,
 * a sum is a word, a float is finite, and no table is left.
 */
#include "core/sparse/lns.h"
#include "tests/fuzz/input.h"

static void is_word(uint32_t word)
{
	FUZZ_CHECK(!word || (word & LNS_SOME && word < 2 * LNS_NEGATIVE));
	FUZZ_CHECK(!word || (int16_t)(word & LNS_LOG) >= LNS_LOG_MIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct lns_tables *tables; /* of just its size: what is read beyond is seen */
	struct fuzz_input input = { .at = data, .left = bytes };
	uint32_t sum = 0, flags = 0, before = 0, last = 0;

	if (!tables && (tables = malloc(sizeof(*tables))))
		lns_tables_make(tables);
	if (!tables)
		abort();
	while (input.left) {
		uint32_t bits = fuzz_u32(&input), back, wild = last ^ bits;
		uint32_t word = lns_word(tables, bits, &flags);

		is_word(word);
		FUZZ_CHECK(!(bits & 0x7f800000) ? !word : true);
		sum = lns_add(tables, sum, word, &flags);
		is_word(sum);
		FUZZ_CHECK((flags & before) == before);
		back = lns_float(tables, sum);
		FUZZ_CHECK((back >> 23 & 0xff) != 0xff);
		FUZZ_CHECK(lns_word(tables, back, &flags) == sum);
		before = flags;
		last = bits;

		/* Words as a stranger would have them. */
		back = lns_float(tables, lns_add(tables, wild, bits, &flags));
		FUZZ_CHECK((back >> 23 & 0xff) != 0xff);
		flags = before;
	}
	return 0;
}
