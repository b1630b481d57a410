/* SPDX-License-Identifier: Apache-2.0 */
/* load_agree.c - whether all ranks have read the same: each tells the others what it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/hash.h"
#include "core/shared/text.h"
#include "glm/exchange.h"
#include "glm/load.h"

/* What one rank says: numbers of 64 bits as two lanes each. */
struct said {
	uint64_t hash, rows;
	uint64_t split, shares;
};

enum { SAID_LANES = sizeof(struct said) / sizeof(int32_t) };

static struct said data_said(const struct glm_data *data)
{
	struct said said = { .hash = data->hash,
			     .rows = data->rows,
			     .shares = data->columns.shares };

	said.split = hash_number(HASH_BEGIN, data->features, 8);
	for (uint32_t i = 0; i <= data->columns.shares; i++)
		said.split = hash_number(said.split, data->columns.first[i], 4);
	return said;
}

static bool is_same(const struct said *one, const struct said *other, bool is_file)
{
	return is_file ? one->hash == other->hash && one->rows == other->rows
		       : one->split == other->split && one->shares == other->shares;
}

/* How many ranks say the same as this one. */
static uint32_t ranks_like(const struct said *said, uint32_t ranks, uint32_t rank, bool is_file)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ranks; i++)
		count += is_same(&said[i], &said[rank], is_file);
	return count;
}

/* What `rank` says, and with it all that say the same; these are then done. */
static void said_add(struct text *text, const struct said *said, uint32_t ranks, uint32_t rank,
		     bool is_file, bool *is_done, const char *before)
{
	struct text_ranks same = { { 0 } };
	bool is_first = !*before;

	for (uint32_t i = 0; i < ranks; i++) {
		if (!is_same(&said[i], &said[rank], is_file))
			continue;
		is_done[i] = true;
		text_ranks_put(&same, i);
	}
	text_add(text, "%s", before);
	text_add_ranks(text, &same);
	text_add(text, " %s ", text_ranks_count(&same) == 1 ? "has" : "have");
	if (is_file)
		text_add(text, "%s of %llu rows", is_first ? "one" : "another",
			 (unsigned long long)said[rank].rows);
	else
		text_add(text, "%s of %llu shares", is_first ? "one" : "another",
			 (unsigned long long)said[rank].shares);
}

/* Those that most ranks agree with first, the odd ones after them. */
static int differs(const struct said *said, uint32_t ranks, bool is_file, char error[GLM_ERROR_MAX])
{
	bool *is_done = calloc(ranks, sizeof(*is_done));
	uint32_t most = 0;
	struct text text;

	text_begin(&text, error, GLM_ERROR_MAX);
	text_add(&text,
		 is_file ? "the ranks' files differ" : "the ranks split the columns differently");
	for (uint32_t i = 1; i < ranks; i++) {
		if (ranks_like(said, ranks, i, is_file) > ranks_like(said, ranks, most, is_file))
			most = i;
	}
	if (is_done) {
		text_add(&text, ": ");
		said_add(&text, said, ranks, most, is_file, is_done, "");
		for (uint32_t i = 0; i < ranks; i++) {
			if (!is_done[i])
				said_add(&text, said, ranks, i, is_file, is_done, ", ");
		}
	}
	free(is_done);
	return -1;
}

int glm_load_agree(const struct glm_data *data, struct exchange *exchange,
		   char error[GLM_ERROR_MAX])
{
	uint32_t ranks = exchange->ranks;
	struct said *said = calloc(ranks, sizeof(*said));
	int result = 0;

	if (!said) {
		snprintf(error, GLM_ERROR_MAX, "out of memory");
		return -1;
	}
	said[exchange->rank] = data_said(data);
	if (exchange_gather(exchange, (int32_t *)said, SAID_LANES)) {
		memcpy(error, exchange->error, GLM_ERROR_MAX);
		result = -1;
	} else if (ranks_like(said, ranks, 0, true) < ranks) {
		result = differs(said, ranks, true, error);
	} else if (ranks_like(said, ranks, 0, false) < ranks) {
		result = differs(said, ranks, false, error);
	}
	free(said);
	return result;
}
