/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/weave_ops.h"

static const struct weave_ops *const tables[] = {
	&weave_scalar,
};

const struct weave_ops *const *weave_ops_all(size_t *count)
{
	*count = 1;
	return tables;
}
