/* SPDX-License-Identifier: Apache-2.0 */
/* train_layout.c - how the rows of a training lie in memory, and what it has read of them. */
#include <unistd.h>

#include "glm/train_state.h"
#include "glm/weave.h"

enum { PIECES = 4 }; /* of 64 bits, 16 in an int32: what all ranks have fits */

enum glm_layout glm_train_layout(const struct glm_train *train)
{
	return glm_layout_choose(train->options.layout, train->options.bits, train->data);
}

/* Of all of rank's shares; beside what CSR takes. */
static double layout_bytes(const struct glm_train *train, uint32_t rank)
{
	const struct glm_data *data = train->data;
	double bytes = 0;

	for (uint32_t i = 0; i < train->threads; i++)
		bytes += (double)glm_layout_bytes(
			glm_train_layout(train), data->rows,
			columns_count(&data->columns, rank * train->threads + i, data->features));
	return bytes;
}

bool train_layout_fits(const struct glm_train *train)
{
	double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

	return layout_bytes(train, train->exchange->rank) < memory;
}

int train_layout_refuse(struct glm_train *train, uint32_t rank)
{
	return train_fail(
		train,
		"rank %u: --layout %s takes %.4g GB for %llu rows of its columns, and there "
		"is less memory than that: --layout csr takes what is not 0 alone",
		rank, glm_layout_names[glm_train_layout(train)], layout_bytes(train, rank) / 1e9,
		(unsigned long long)train->data->rows);
}

/* What all ranks say alike. */
int train_layout_check(struct glm_train *train)
{
	const struct glm_options *options = &train->options;
	const struct glm_data *data = train->data;

	if (options->bits > WEAVE_BITS_MAX)
		return train_fail(train, "%u bits of a value: 1 to %d", options->bits,
				  WEAVE_BITS_MAX);
	if ((options->layout == GLM_LAYOUT_WEAVE && !options->bits) ||
	    (options->bits && glm_train_layout(train) != GLM_LAYOUT_WEAVE))
		return train_fail(train, "--layout weave and --bits go together");
	if (options->bits && options->parallel != GLM_MODEL_PARALLEL)
		return train_fail(train, "--bits trains model-parallel");
	for (uint32_t s = 0; options->bits && s < data->columns.shares; s++) {
		uint32_t columns = columns_count(&data->columns, s, data->features);

		if (columns > WEAVE_FEATURES_MAX)
			return train_fail(train,
					  "--bits: a thread's share has %u columns, and can have "
					  "%d: take more --threads or ranks",
					  columns, WEAVE_FEATURES_MAX);
	}
	return 0;
}

int train_layout_open(struct glm_train *train)
{
	for (uint32_t i = 0; i < train->threads; i++)
		if (glm_engine_lay(&train->engines[i], glm_train_layout(train), train->data->rows))
			return train_give_up(train, "out of memory");
	return 0;
}

int glm_train_bytes(struct glm_train *train, uint64_t *read, uint64_t *dense)
{
	uint64_t mine[2] = { 0, 0 }, all[2] = { 0, 0 };
	int32_t pieces[2 * PIECES];

	if (train->error[0])
		return -1;
	for (uint32_t i = 0; i < train->threads; i++) {
		const struct glm_engine *engine = &train->engines[i];

		mine[0] += engine->bytes_read;
		mine[1] += engine->rows_read * engine->share->columns * sizeof(float);
	}
	for (int i = 0; i < 2 * PIECES; i++)
		pieces[i] = (int32_t)(mine[i / PIECES] >> 16 * (i % PIECES) & 0xffff);
	if (train->exchange->ops->sum(train->exchange, pieces, 2 * PIECES))
		return train_fail_exchange(train);
	for (int i = 0; i < 2 * PIECES; i++)
		all[i / PIECES] += (uint64_t)pieces[i] << 16 * (i % PIECES);
	*read = all[0];
	*dense = all[1];
	return 0;
}
