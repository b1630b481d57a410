/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast does each instruction set convert? GB of elements (4 bytes each) per second, for one
 * packet's elements and for a run of packets, both in L2. Give a factor (default 1) to measure
 * longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "simd/simd.h"

enum { COUNT_MAX = 16384, RUN_NS = 30000000, REPEATS = 3 };

enum op {
	OP_EXPONENT,
	OP_PACK,
	OP_PACK_TINY, /* 2^shift is no float */
	OP_UNPACK,
	OP_UNPACK_TINY, /* results may be denormal */
	OP_AVG_8,
	OP_AVG_7,
	OP_PACK_I32,
	OP_UNPACK_I32,
	OP_AVG_7_I32,
	OP_COUNT
};

/* clang-format off */
static const char *const op_names[OP_COUNT] = {
	[OP_EXPONENT] = "exponent",
	[OP_PACK] = "pack",
	[OP_PACK_TINY] = "pack_tiny",
	[OP_UNPACK] = "unpack",
	[OP_UNPACK_TINY] = "unpack_tiny",
	[OP_AVG_8] = "avg_n8",
	[OP_AVG_7] = "avg_n7",
	[OP_PACK_I32] = "pack_i32",
	[OP_UNPACK_I32] = "unpack_i32",
	[OP_AVG_7_I32] = "avg_n7_i32",
};
/* clang-format on */

static float src[COUNT_MAX], dst[COUNT_MAX];
static int32_t lane[COUNT_MAX], integers[COUNT_MAX];
static struct quant_scale scale, scale_tiny, scale_7;
static volatile uint32_t sink;

static void op_run(const struct quant_ops *ops, enum op op, size_t count)
{
	switch (op) {
	case OP_EXPONENT:
		sink = ops->exponent_f32(src, count);
		break;
	case OP_PACK:
		sink = ops->pack_f32(lane, src, count, &scale);
		break;
	case OP_PACK_TINY:
		sink = ops->pack_f32(lane, src, count, &scale_tiny);
		break;
	case OP_UNPACK:
		ops->unpack_f32(dst, lane, count, &scale, false);
		break;
	case OP_UNPACK_TINY:
		ops->unpack_f32(dst, lane, count, &scale_tiny, false);
		break;
	case OP_AVG_8:
		ops->unpack_f32(dst, lane, count, &scale, true);
		break;
	case OP_AVG_7:
		ops->unpack_f32(dst, lane, count, &scale_7, true);
		break;
	case OP_PACK_I32:
		sink = ops->pack_i32(lane, integers, count, scale.bound);
		break;
	case OP_UNPACK_I32:
		ops->unpack_i32(integers, lane, count, 7, false);
		break;
	case OP_AVG_7_I32:
		ops->unpack_i32(integers, lane, count, 7, true);
		break;
	case OP_COUNT:
		break;
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double op_measure(const struct quant_ops *ops, enum op op, size_t count, uint64_t run_ns)
{
	double best = 0;

	for (int i = 0; i < REPEATS; i++) {
		uint64_t start = now_ns(), end = start, runs = 0;
		while (end - start < run_ns) {
			for (size_t done = 0; done < COUNT_MAX; done += count, runs++)
				op_run(ops, op, count);
			end = now_ns();
		}
		double rate = (double)(runs * count * sizeof(float)) / (double)(end - start);
		best = rate > best ? rate : best;
	}
	return best;
}

static void fill(void)
{
	uint64_t random = 1;

	quant_scale(&scale, 8, 127);
	quant_scale(&scale_7, 7, 127);
	quant_scale(&scale_tiny, 8, 1);
	for (size_t i = 0; i < COUNT_MAX; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		integers[i] = (int32_t)(uint32_t)(random >> 32) / 16;
		lane[i] = integers[i];
		src[i] = (float)integers[i] * 0x1p-28f;
	}
}

int main(int argc, char **argv)
{
	static const size_t counts[] = { 360, COUNT_MAX };
	char *end = NULL;
	double factor = argc > 1 ? strtod(argv[1], &end) : 1;
	uint64_t run_ns;
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);

	if (argc > 2 || (end && (*end || end == argv[1])) || !(factor > 0 && factor <= 1000)) {
		fprintf(stderr, "usage: simd_bench [FACTOR], above 0 and up to 1000\n");
		return 2;
	}
	run_ns = (uint64_t)(RUN_NS * factor);
	printf("GB of elements per second, best of %d\n%-12s %9s", REPEATS, "op", "elements");
	for (size_t i = 0; i < table_count; i++)
		printf(" %8s", tables[i]->name);
	printf("\n");
	for (enum op op = 0; op < OP_COUNT; op++) {
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			fill();
			printf("%-12s %9zu", op_names[op], counts[i]);
			for (size_t j = 0; j < table_count; j++)
				printf(" %8.1f", op_measure(tables[j], op, counts[i], run_ns));
			printf("\n");
		}
	}
	return 0;
}
