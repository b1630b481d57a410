/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h: which layout it is, and what it takes. */
#include "glm/layout.h"

#include <string.h>

#include "glm/weave.h"

static const char *const names[] = {
	[GLM_LAYOUT_AUTO] = "auto",
	[GLM_LAYOUT_CSR] = "csr",
	[GLM_LAYOUT_DENSE] = "dense",
	[GLM_LAYOUT_WEAVE] = "weave",
};

const char *glm_layout_name(enum glm_layout layout)
{
	return names[layout];
}

bool glm_layout_find(const char *name, enum glm_layout *layout)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		*layout = (enum glm_layout)i;
		return true;
	}
	return false;
}

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
