/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h: which layout it is, and what it takes. */
#include "glm/layout.h"

#include "glm/weave.h"

const char *const glm_layout_names[] = {
	[GLM_LAYOUT_AUTO] = "auto",   [GLM_LAYOUT_CSR] = "csr",      [GLM_LAYOUT_DENSE] = "dense",
	[GLM_LAYOUT_WEAVE] = "weave", [GLM_LAYOUT_WEAVE + 1] = NULL,
};

/* A value that is not 0 costs 8 bytes and a load from anywhere in CSR, any value 4 bytes in order if dense. */
enum glm_layout glm_layout_choose(enum glm_layout layout, uint32_t bits,
				  const struct glm_data *data)
{
	double values = (double)data->rows * (double)data->features;

	if (layout != GLM_LAYOUT_AUTO)
		return layout;
	if (bits)
		return GLM_LAYOUT_WEAVE;
	return 3 * (double)data->nonzeros > values ? GLM_LAYOUT_DENSE : GLM_LAYOUT_CSR;
}

uint64_t glm_layout_bytes(enum glm_layout layout, uint64_t rows, uint32_t columns)
{
	uint64_t bytes;

	if (layout == GLM_LAYOUT_WEAVE && columns <= WEAVE_FEATURES_MAX) {
		bytes = weave_bytes(rows, columns, WEAVE_BITS_MAX);
		return bytes ? bytes : UINT64_MAX;
	}
	if (layout != GLM_LAYOUT_DENSE)
		return 0;
	if (__builtin_mul_overflow(rows * sizeof(float), columns, &bytes) || bytes > PTRDIFF_MAX)
		return UINT64_MAX;
	return bytes;
}
