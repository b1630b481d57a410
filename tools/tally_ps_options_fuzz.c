/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally_ps_options_fuzz.c - any text as a --table, twice: what is taken is within its bounds, and named once; what is
 * not leaves a sentence.
 */
#include "tests/fuzz/input.h"
#include "tools/tally_ps_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct ps_settings settings;
	char error[PS_ERROR_MAX] = "", *text = malloc(bytes + 1);

	FUZZ_CHECK(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = 0;
	settings.server.table_count = 0;
	if (ps_options_table(&settings, text, error)) {
		FUZZ_CHECK(*error);
		FUZZ_CHECK(!settings.server.table_count);
	} else {
		const struct ps_table_options *table = &settings.tables[0].table;

		FUZZ_CHECK(settings.server.table_count == 1);
		FUZZ_CHECK(table->dim >= 1 && table->dim <= SPARSE_DIM_MAX);
		FUZZ_CHECK(table->window >= 1 && table->window <= SPARSE_WINDOW_MAX);
		const struct sparse_table shape = { .ranks = 1,
						    .workers = 1,
						    .window = table->window,
						    .dim = table->dim,
						    .bytes = table->bytes };

		FUZZ_CHECK(sparse_table_is_sound(&shape));
		FUZZ_CHECK((unsigned)settings.tables[0].packing < KV_PACKING_END);
		FUZZ_CHECK(table->unit > 0 && table->optimiser.rate > 0);
		FUZZ_CHECK(table->name[0] && table->name[0] != '.' && !strchr(table->name, '/'));
		FUZZ_CHECK(ps_options_table(&settings, text, error));
	}
	free(text);
	return 0;
}
