/* SPDX-License-Identifier: Apache-2.0 */
/* header_test.c - tally_kv.h and tally.h alone, in whatever language: they compile, and the initialisers fit. */
#include "tally_kv.h"

int main(void)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_op_options op = TALLY_OP_OPTIONS_INIT;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_kv_options kv = TALLY_KV_OPTIONS_INIT;
	struct tally_buffer buffer;

	buffer.send = buffer.recv = &stats;
	buffer.count = 0;
	return options.size == sizeof(options) && op.size == sizeof(op) && kv.size == sizeof(kv) &&
			       stats.size == sizeof(stats) && buffer.send == buffer.recv
		       ? 0
		       : 1;
}
