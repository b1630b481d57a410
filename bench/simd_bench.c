/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast does each instruction set convert? First GB of elements per second of processor time, for one packet's
 * elements and for a run of packets, both in L2. Then quantising and dequantising float32 against memcpy of the same
 * bytes, from L2 to L2 and from DRAM into 64 KB, taken in turn: the medians' ratio, and what it has to be. Fails if one
 * is below that, or a result is not the scalar's. FACTOR (default 1) measures longer; TABLE is the only one measured
 * beside the scalar: so a machine can be judged by what a lesser one has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "simd/simd.h"

enum { COUNT_MAX = 16384, RUN_NS = 10000000, REPEATS = 5, TABLES_MAX = 8 };

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
	OP_EXPONENT_F16,
	OP_PACK_F16,
	OP_UNPACK_F16,
	OP_AVG_7_F16,
	OP_PACK_BF16,
	OP_UNPACK_BF16,
	OP_PACK_F16_ONE, /* a lane each */
	OP_UNPACK_F16_ONE,
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
	[OP_EXPONENT_F16] = "exponent_f16",
	[OP_PACK_F16] = "pack_f16",
	[OP_UNPACK_F16] = "unpack_f16",
	[OP_AVG_7_F16] = "avg_n7_f16",
	[OP_PACK_BF16] = "pack_bf16",
	[OP_UNPACK_BF16] = "unpack_bf16",
	[OP_PACK_F16_ONE] = "pack_f16_1",
	[OP_UNPACK_F16_ONE] = "unpack_f16_1",
};
/* clang-format on */

static float src[COUNT_MAX], tiny[COUNT_MAX], dst[COUNT_MAX];
static int32_t lane[COUNT_MAX], integers[COUNT_MAX];
static uint16_t halves[COUNT_MAX];
static struct quant_scale scale, scale_tiny, scale_7, scale_half, scale_half_7;
static volatile uint32_t sink;

static void op_run_half(const struct quant_ops *ops, enum op op, size_t count)
{
	enum quant_half type = op == OP_PACK_BF16 || op == OP_UNPACK_BF16 ? QUANT_BFLOAT16
									  : QUANT_FLOAT16;

	if (op == OP_EXPONENT_F16)
		sink = ops->exponent_half(halves, count, type);
	else if (op == OP_PACK_F16_ONE)
		sink = ops->pack_half(lane, halves, count, &scale, type);
	else if (op == OP_UNPACK_F16_ONE)
		ops->unpack_half(halves, lane, count, &scale, false, type);
	else if (op == OP_PACK_F16 || op == OP_PACK_BF16)
		sink = ops->pack_half(lane, halves, count, &scale_half, type);
	else
		ops->unpack_half(halves, lane, count, &scale_half_7, op == OP_AVG_7_F16, type);
}

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
		sink = ops->pack_f32(lane, tiny, count, &scale_tiny);
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
	default:
		op_run_half(ops, op, count);
		break;
	}
}

/* The processor's time of this thread: what else runs here takes none of it. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double op_measure(const struct quant_ops *ops, enum op op, size_t count, uint64_t run_ns)
{
	double best = 0, bytes = op >= OP_EXPONENT_F16 ? 2 : 4;

	for (int i = 0; i < REPEATS; i++) {
		uint64_t start = now_ns(), end = start, runs = 0;
		while (end - start < run_ns) {
			for (size_t done = 0; done < COUNT_MAX; done += count, runs++)
				op_run(ops, op, count);
			end = now_ns();
		}
		double rate = (double)(runs * count) * bytes / (double)(end - start);
		best = rate > best ? rate : best;
	}
	return best;
}

static void fill(void)
{
	uint64_t random = 1;

	quant_scale(&scale, 8, 127);
	quant_scale(&scale_7, 7, 127);
	quant_scale(&scale_tiny, 8, 20);
	quant_scale_half(&scale_half, 8, 127);
	quant_scale_half(&scale_half_7, 7, 127);
	for (size_t i = 0; i < COUNT_MAX; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		integers[i] = (int32_t)(uint32_t)(random >> 32) / 16;
		lane[i] = integers[i];
		src[i] = (float)integers[i] * 0x1p-28f;
		tiny[i] = src[i] * 0x1p-107f;
		halves[i] = (uint16_t)(random >> 40 & 0x83ff) | 0x3800;
	}
}

static void print_rates(const struct quant_ops *const *tables, size_t table_count, double factor)
{
	static const size_t counts[] = { 360, COUNT_MAX };

	printf("GB of elements per second, best of %d\n%-12s %9s", REPEATS, "op", "elements");
	for (size_t i = 0; i < table_count; i++)
		printf(" %8s", tables[i]->name);
	printf("\n");
	for (enum op op = 0; op < OP_COUNT; op++) {
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			fill();
			printf("%-12s %9zu", op_names[op], counts[i]);
			for (size_t j = 0; j < table_count; j++)
				printf(" %8.1f", op_measure(tables[j], op, counts[i],
							    (uint64_t)(RUN_NS * factor)));
			printf("\n");
		}
	}
}

/* ---- against memcpy ---- */

enum {
	NEAR_BYTES = 160 << 10, /* twice that is more than an L1, and less than an L2 */
	NEAR_RUNS = 8,          /* for one sample */
	SAMPLES = 301,
	WINDOW_BYTES = 64 << 10,
	SLICE_BYTES = 4 << 20,
};
static const size_t far_bytes = (size_t)1 << 30; /* more than an L3 */

static struct place {
	const char *name;
	double demands[2]; /* quantise, dequantise */
	size_t bytes, window, runs;
} places[] = {
	{ "L2 to L2", { 0.75, 0.65 }, NEAR_BYTES, NEAR_BYTES, NEAR_RUNS },
	{ "DRAM to 64 KB", { 0.8, 0.65 }, SLICE_BYTES, WINDOW_BYTES, 1 },
};

static char *far, near[NEAR_BYTES], scalar[NEAR_BYTES];
static size_t far_at;

/* ops NULL: memcpy. All that is read from DRAM is read again only after far_bytes. */
static double sample(const struct place *place, const struct quant_ops *ops, bool is_back)
{
	const char *from = place->runs > 1 ? far : far + far_at;
	const void *window;
	uint64_t start;

	if (place->runs == 1)
		far_at = (far_at + place->bytes) % far_bytes;
	start = now_ns();
	for (size_t run = 0; run < place->runs; run++) {
		for (size_t at = 0; at < place->bytes; at += place->window) {
			window = from + at;
			if (!ops)
				memcpy(near, window, place->window);
			else if (is_back)
				ops->unpack_f32((float *)near, window, place->window / 4, &scale,
						false);
			else
				sink = ops->pack_f32((int32_t *)near, window, place->window / 4,
						     &scale);
			__asm__ __volatile__("" : : "r"(near) : "memory");
		}
	}
	return (double)(now_ns() - start);
}

static bool is_scalars(const struct place *place, const struct quant_ops *ops, bool is_back)
{
	size_t count = place->window / 4;
	const void *window = far;

	memset(near, 1, sizeof(near));
	if (is_back) {
		ops->unpack_f32((float *)near, window, count, &scale, false);
		quant_scalar.unpack_f32((float *)scalar, window, count, &scale, false);
	} else {
		ops->pack_f32((int32_t *)near, window, count, &scale);
		quant_scalar.pack_f32((int32_t *)scalar, window, count, &scale);
	}
	return !memcmp(near, scalar, place->window);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *samples)
{
	qsort(samples, SAMPLES, sizeof(*samples), by_size);
	return samples[SAMPLES / 2];
}

/* Returns how many are too slow or wrong. */
static int print_ratios(const struct quant_ops *const *tables, size_t table_count,
			const struct place *place, bool is_back)
{
	static double samples[TABLES_MAX][SAMPLES];
	double demand = place->demands[is_back], copy, ratio;
	int bad = 0;

	for (size_t i = 0; i < SAMPLES; i++)
		for (size_t t = 0; t < table_count; t++)
			samples[t][i] = sample(place, t ? tables[t] : NULL, is_back);
	copy = median(samples[0]);
	printf("%-13s %-10s memcpy %5.1f GB/s ", place->name, is_back ? "dequantise" : "quantise",
	       (double)(place->bytes * place->runs) / copy);
	for (size_t t = 1; t < table_count; t++) {
		bool is_right = is_scalars(place, tables[t], is_back);

		ratio = copy / median(samples[t]);
		bad += !is_right || ratio < demand;
		printf(" %s %.2f%s%s", tables[t]->name, ratio, ratio < demand ? " TOO SLOW" : "",
		       is_right ? "" : " WRONG");
	}
	printf("  (at least %.2f)\n", demand);
	return bad;
}

static int print_all_ratios(const struct quant_ops *const *tables, size_t table_count)
{
	int bad = 0;

	far = mmap(NULL, far_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (far == MAP_FAILED) {
		perror("simd_bench: mmap");
		return 1;
	}
	madvise(far, far_bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < far_bytes; i += sizeof(src))
		memcpy(far + i, src, sizeof(src));
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		for (int is_back = 0; is_back < 2; is_back++)
			bad += print_ratios(tables, table_count, &places[i], is_back);
	return bad;
}

int main(int argc, char **argv)
{
	char *end = NULL;
	double factor = argc > 1 ? strtod(argv[1], &end) : 1;
	const struct quant_ops *tables[TABLES_MAX] = { &quant_scalar };
	size_t all_count, count = 1;
	const struct quant_ops *const *all = simd_all(&all_count);

	if (argc > 3 || (end && (*end || end == argv[1])) || !(factor >= 0 && factor <= 1000)) {
		fprintf(stderr, "usage: simd_bench [FACTOR [TABLE]], 0 (ratios alone) to 1000\n");
		return 2;
	}
	for (size_t i = 1; i < all_count && count < TABLES_MAX; i++)
		if (argc < 3 || !strcmp(argv[2], all[i]->name))
			tables[count++] = all[i];
	if (argc == 3 && count == 1) {
		fprintf(stderr, "simd_bench: no table %s here\n", argv[2]);
		return 2;
	}
	fill();
	if (factor > 0)
		print_rates(tables, count, factor);
	fill();
	return print_all_ratios(tables, count) != 0;
}
