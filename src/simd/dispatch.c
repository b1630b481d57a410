/* SPDX-License-Identifier: Apache-2.0 */
#include "simd/simd.h"

#include <stdatomic.h>

#include "simd/tables.h"

static const struct quant_ops *const tables[] = {
	&quant_scalar,
#ifdef __x86_64__
	&simd_avx2,
#endif
};

/* How many of the tables this processor runs: each needs what the one before it needs. */
static size_t tables_runnable(void)
{
#ifdef __x86_64__
	__builtin_cpu_init(); /* we may be called before the constructor that does it */
	return __builtin_cpu_supports("avx2") ? 2 : 1;
#else
	return 1;
#endif
}

const struct quant_ops *const *simd_all(size_t *count)
{
	*count = tables_runnable();
	return tables;
}

const struct quant_ops *simd_best(void)
{
	static _Atomic(const struct quant_ops *) best;
	const struct quant_ops *table = atomic_load_explicit(&best, memory_order_relaxed);

	/* Whoever asks at the same time finds the same one, and it never changes. */
	if (!table) {
		table = tables[tables_runnable() - 1];
		atomic_store_explicit(&best, table, memory_order_relaxed);
	}
	return table;
}
