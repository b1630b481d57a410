/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - see rows.h. */
#include "search/rows.h"

#include <stddef.h>

const struct search_row *search_row(uint32_t i)
{
	const struct search_rows *const all[] = { &search_rows_control, &search_rows_data,
						  &search_rows_host,    &search_rows_kv,
						  &search_rows_latency, &search_rows_pace,
						  &search_rows_sparse };

	for (uint32_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		if (i < all[k]->count)
			return &all[k]->row[i];
		i -= all[k]->count;
	}
	return NULL;
}
