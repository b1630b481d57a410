/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_data.c - see bench_data.h. The loops are written for the compiler to vectorise: on x86 each
 * exists twice, for every processor and for those with AVX2.
 */
#include "tools/bench_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUESS_BITS = 3 }; /* R-WK-18: a guess that fits may be so much too high */

/* n results against n exact sums; bound: what quantising may add. */
struct verify {
	const void *result;
	const double *sum;
	const int64_t *sum_int;
	size_t count;
	double divisor, bound;
};

/* ---- the loops ---- */

#if defined(__x86_64__)
#define LOOP static inline __attribute__((always_inline))
/* NAME##_any and NAME##_avx2 of the loop NAME##_body, and NAME, which chooses. */
#define LOOP_BOTH(type, name, parameters, arguments)                          \
	static type name##_any parameters                                     \
	{                                                                     \
		return name##_body arguments;                                 \
	}                                                                     \
	__attribute__((target("avx2"))) static type name##_avx2 parameters    \
	{                                                                     \
		return name##_body arguments;                                 \
	}                                                                     \
	static type name parameters                                           \
	{                                                                     \
		return __builtin_cpu_supports("avx2") ? name##_avx2 arguments \
						      : name##_any arguments; \
	}
#else
#define LOOP static inline
#define LOOP_BOTH(type, name, parameters, arguments) \
	static type name parameters                  \
	{                                            \
		return name##_body arguments;        \
	}
#endif

LOOP void make_int_body(int32_t *out, struct block block, uint32_t from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		out[i] = element(block, from + i);
}
LOOP_BOTH(void, make_int, (int32_t * out, struct block block, uint32_t from, uint32_t count),
	  (out, block, from, count))

LOOP void make_float_body(float *out, struct block block, uint32_t from, uint32_t count)
{
	float scale = (float)block.scale;

	for (uint32_t i = 0; i < count; i++)
		out[i] = (float)element(block, from + i) * scale;
}
LOOP_BOTH(void, make_float, (float *out, struct block block, uint32_t from, uint32_t count),
	  (out, block, from, count))

LOOP void add_int_body(int64_t *sum, struct block block, uint32_t from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		sum[i] += element(block, from + i);
}
LOOP_BOTH(void, add_int, (int64_t * sum, struct block block, uint32_t from, uint32_t count),
	  (sum, block, from, count))

/* The largest magnitude, before scaling. */
LOOP int32_t add_float_body(double *sum, struct block block, uint32_t from, uint32_t count)
{
	int32_t top = 0;

	for (uint32_t i = 0; i < count; i++) {
		int32_t x = element(block, from + i), magnitude = x < 0 ? -x : x;

		sum[i] += (double)x * block.scale; /* exact: 24 bits and a power of two */
		top = magnitude > top ? magnitude : top;
	}
	return top;
}
LOOP_BOTH(int32_t, add_float, (double *sum, struct block block, uint32_t from, uint32_t count),
	  (sum, block, from, count))

/* Half a unit in the last place: of the power of two at or below the magnitude, 2^-24. */
static inline double half_ulp(float value)
{
	uint32_t bits;
	float power;

	memcpy(&bits, &value, sizeof(bits));
	bits &= 0x7f800000;
	memcpy(&power, &bits, sizeof(power));
	return (double)power * 0x1p-24 + 0x1p-150;
}

LOOP uint32_t wrong_float_body(const struct verify *verify)
{
	const float *got = verify->result;
	const double *sum = verify->sum;
	double divisor = verify->divisor, bound = verify->bound;
	uint32_t wrong = 0;

	for (size_t i = 0; i < verify->count; i++) {
		double error = fabs((double)got[i] - sum[i] / divisor);

		/* so that a NaN is wrong, and an infinity, whose own ulp is infinite */
		wrong += !((error <= bound + half_ulp(got[i])) & (error < HUGE_VAL));
	}
	return wrong;
}
LOOP_BOTH(uint32_t, wrong_float, (const struct verify *verify), (verify))

static inline int64_t want_int(int64_t sum, int64_t divisor)
{
	int64_t want = sum / divisor; /* avg truncates toward zero */

	return want > INT32_MAX ? INT32_MAX : want < INT32_MIN ? INT32_MIN : want;
}

LOOP uint32_t wrong_int_body(const struct verify *verify)
{
	const int32_t *got = verify->result;
	const int64_t *sum = verify->sum_int;
	int64_t divisor = (int64_t)verify->divisor;
	uint32_t wrong = 0;

	if (divisor == 1) {
		for (size_t i = 0; i < verify->count; i++)
			wrong += got[i] != want_int(sum[i], 1);
		return wrong;
	}
	for (size_t i = 0; i < verify->count; i++)
		wrong += got[i] != want_int(sum[i], divisor);
	return wrong;
}
LOOP_BOTH(uint32_t, wrong_int, (const struct verify *verify), (verify))

LOOP uint64_t digest_body(const uint32_t *bits, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (uint64_t)bits[i] * ((uint32_t)i * 2u + 0x9e3779b1u);
	return sum;
}
LOOP_BOTH(uint64_t, digest, (const uint32_t *bits, size_t count), (bits, count))

/* ---- operations ---- */

static bool is_float(const struct data_op *op)
{
	return op->dtype == TALLY_FLOAT32;
}

static bool is_other(const struct data_op *op)
{
	return op->dtype != TALLY_FLOAT32 && op->dtype != TALLY_INT32;
}

void data_fill(const struct data_op *op, uint32_t rank, void *out)
{
	if (is_other(op)) {
		data_other_fill(op, rank, out);
		return;
	}
	for (size_t at = 0; at < op->count; at += BLOCK) {
		struct block block = block_of(op, rank, at / BLOCK);
		uint32_t count = block_piece(at, op->count);

		if (is_float(op))
			make_float((float *)out + at, block, 0, count);
		else
			make_int((int32_t *)out + at, block, 0, count);
	}
}

/* tally.h: N * 2^(E-126) / 2^(31 - ceil(log2 N)), E the biased exponent of the largest magnitude, or 3 more if it may be
 * guessed; with 15 in place of 31 in 16 bits; N multiples of what a fixed scale has; or nothing. */
static double bound_of(const struct data_op *op, double top)
{
	int exponent;

	if (op->scale > 0) {
		frexp(op->scale, &exponent);
		return ldexp((double)op->ranks, 1 - exponent);
	}
	if (top == 0 || op->wire == DATA_EXACT)
		return 0;
	frexp(top, &exponent); /* top < 2^exponent, that is E - 126 */
	if (op->wire == DATA_FREE)
		exponent += GUESS_BITS;
	exponent -= op->wire == DATA_HALF ? 15 : 31;
	return ldexp((double)op->ranks, exponent + (int)block_log2(op->ranks));
}

/* The exact sums of elements [at, at + count), and the largest magnitude among what is added up. */
static double chunk_sum(const struct data_op *op, size_t at, size_t count, double *sum,
			int64_t *sum_int)
{
	double top = 0;

	memset(sum, 0, count * sizeof(*sum));
	memset(sum_int, 0, count * sizeof(*sum_int));
	for (uint32_t rank = 0; rank < op->ranks; rank++) {
		size_t done = 0;

		while (done < count) {
			uint32_t piece = block_piece(at + done, at + count);
			uint32_t from = (uint32_t)((at + done) % BLOCK);
			struct block block = block_of(op, rank, (at + done) / BLOCK);

			if (is_float(op))
				top = fmax(top,
					   block.scale * add_float(sum + done, block, from, piece));
			else
				add_int(sum_int + done, block, from, piece);
			done += piece;
		}
	}
	return top;
}

static void first_wrong(const struct data_op *op, const struct verify *chunk, size_t at,
			struct data_verdict *verdict)
{
	for (size_t i = 0; i < chunk->count; i++) {
		struct verify one = *chunk;

		one.result = (const uint32_t *)chunk->result + i;
		one.sum += i;
		one.sum_int += i;
		one.count = 1;
		if (!(is_float(op) ? wrong_float(&one) : wrong_int(&one)))
			continue;
		verdict->index = at + i;
		verdict->bound = 0;
		if (is_float(op)) {
			verdict->got = (double)*(const float *)one.result;
			verdict->want = *one.sum / one.divisor;
			verdict->bound = one.bound + half_ulp(*(const float *)one.result);
		} else {
			verdict->got = *(const int32_t *)one.result;
			verdict->want = (double)want_int(*one.sum_int, (int64_t)one.divisor);
		}
		return;
	}
}

bool data_verify(const struct data_op *op, uint32_t lanes, const void *result,
		 struct data_verdict *verdict)
{
	uint32_t in_a_lane = op->wire == DATA_HALF ? 2 : 1;
	double *sum = malloc((size_t)in_a_lane * lanes * (sizeof(double) + sizeof(int64_t)));
	int64_t *sum_int = (void *)(sum + (size_t)in_a_lane * lanes);
	size_t bytes = op->count * data_bytes(op->dtype);

	if (!sum)
		return false;
	*verdict = (struct data_verdict){ .digest = digest(result, bytes / 4) };
	if (is_other(op)) {
		free(sum);
		return data_other_verify(op, lanes, result, verdict);
	}
	lanes *= in_a_lane;
	for (size_t at = 0; at < op->count; at += lanes) {
		size_t count = op->count - at < lanes ? op->count - at : lanes;
		double top = chunk_sum(op, at, count, sum, sum_int);
		double divisor = op->is_avg ? op->ranks : 1;
		struct verify chunk = {
			.result = (const uint32_t *)result + at,
			.sum = sum,
			.sum_int = sum_int,
			.count = count,
			.divisor = divisor,
			.bound = bound_of(op, top) / divisor,
		};
		uint32_t wrong = is_float(op) ? wrong_float(&chunk) : wrong_int(&chunk);

		if (wrong && !verdict->wrong)
			first_wrong(op, &chunk, at, verdict);
		verdict->wrong += wrong;
	}
	free(sum);
	return true;
}
