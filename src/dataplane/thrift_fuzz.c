/* SPDX-License-Identifier: Apache-2.0 */
/* thrift_fuzz.c - any bytes as a switch's answer: nothing is read behind them, more bytes never make another answer of what
 * was one, and what is a list can be read as one. */
#include "dataplane/thrift.h"
#include "tests/fuzz/input.h"

static void read_list(const uint8_t *data, const struct thrift_answer *answer)
{
	struct thrift_in in = { .data = data, .bytes = answer->bytes, .used = answer->value };
	uint32_t count = thrift_take_list(&in, THRIFT_STRUCT);
	int16_t field;

	for (uint32_t i = 0; i < count && in.result == THRIFT_OK; i++) {
		enum thrift_type type;

		while ((type = thrift_take_field(&in, &field)))
			thrift_skip(&in, type);
	}
	FUZZ_CHECK(in.used <= answer->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct thrift_answer answer, shorter;
	enum thrift_result result = thrift_read(data, (uint32_t)bytes, &answer);

	FUZZ_CHECK(answer.bytes <= bytes);
	FUZZ_CHECK(strnlen(answer.text, sizeof(answer.text)) < sizeof(answer.text));
	if (result == THRIFT_OK) {
		FUZZ_CHECK(thrift_read(data, answer.bytes, &shorter) == THRIFT_OK);
		FUZZ_CHECK(shorter.bytes == answer.bytes && shorter.number == answer.number);
		if (answer.bytes)
			FUZZ_CHECK(thrift_read(data, answer.bytes - 1, &shorter) == THRIFT_MORE);
		if (answer.type == THRIFT_LIST)
			read_list(data, &answer);
	}
	return 0;
}
