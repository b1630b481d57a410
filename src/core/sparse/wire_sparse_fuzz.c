/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_sparse_fuzz.c - any bytes as a datagram of sparse mode, in memory of just their size. What passes has
 * a header that is written again as it came, and items that end where it ends.
 */
#include "core/sparse/wire_sparse.h"

#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *at = malloc(bytes ? bytes : 1), header[SPARSE_HEADER_BYTES];
	struct sparse packet;
	uint64_t body = 0;

	FUZZ_CHECK(at);
	if (bytes)
		memcpy(at, data, bytes);
	if (sparse_check(at, (uint32_t)bytes, &packet) == WIRE_OK) {
		uint32_t item = sparse_item_bytes(packet.kind, packet.width);

		FUZZ_CHECK(bytes == sparse_bytes(&packet) && bytes <= SPARSE_BYTES_MAX);
		FUZZ_CHECK(!sparse_has_parts(packet.kind) || packet.part < packet.parts);
		for (uint32_t i = 0; i < packet.count; i++)
			for (uint32_t k = 0; k < item; k += 4)
				body += sparse_body_get32(sparse_item(&packet, at, i) + k);
		FUZZ_CHECK(sparse_item(&packet, at, packet.count) == at + bytes);
		sparse_put(header, &packet);
		FUZZ_CHECK(!memcmp(header, at, sizeof(header)));
	}
	free(at);
	return (int)(body & 0); /* the fuzzer wants 0; the items have to be read */
}
