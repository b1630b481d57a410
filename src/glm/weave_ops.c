/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/weave_ops.h"

static const struct weave_ops *const tables[] = {
	&weave_scalar,
#ifdef __x86_64__
	&weave_avx2,
	&weave_avx512,
#endif
};

const struct weave_ops *const *weave_ops_all(size_t *count)
{
	*count = 1;
#ifdef __x86_64__
	__builtin_cpu_init(); /* we may be called before the constructor that does it */
	if (__builtin_cpu_supports("avx2"))
		*count = 2;
	if (*count == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		*count = 3;
#endif
	return tables;
}

const struct weave_ops *weave_ops_best(void)
{
	size_t count;
	const struct weave_ops *const *all = weave_ops_all(&count);

	return all[count - 1];
}
