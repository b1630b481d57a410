/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.c - a rank of the interop test, by libtally: rank HOST:PORT JOB RANK SIZE PLAN OUT
 *
 * It does what PLAN says (plan.txt), checks each sum by itself, and writes all of them to OUT. Exit
 * status: 0 fine; 1 a wrong sum; 2 the job failed, a line on stderr says how.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"

enum { STARTED_MAX = 16, RANKS_MAX = 16, LINE_BYTES = 128, WORD_BYTES = 16 };

struct operation {
	uint32_t number;
	bool is_float, is_avg;
	char values[WORD_BYTES], name[WORD_BYTES];
	size_t count;
	void *mine, *result;
	struct tally_work *work;
};

static struct tally_comm *comm;
static uint32_t self, size;
static uint32_t lanes; /* elements per packet */

static uint32_t mix(uint32_t rank, uint32_t operation, uint32_t i)
{
	uint32_t x = (rank + 1) * 0x9e3779b9u ^ operation * 0xc2b2ae35u ^ i * 0x85ebca6bu;

	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* The same number as value() in rank.py; every one is exact in its type. */
static double value(const struct operation *operation, uint32_t rank, uint32_t i)
{
	const double odd[4] = { HUGE_VAL, -HUGE_VAL, (double)NAN, 1.0 };
	const char *values = operation->values;
	uint32_t x = mix(rank, operation->number, i);
	int32_t whole = (int32_t)x;

	if (!strcmp(values, "small"))
		return whole >> 6;
	if (!strcmp(values, "large"))
		return i % 7 ? whole : x >> 8 & 1 ? INT32_MAX : INT32_MIN;
	if (!strcmp(values, "zero"))
		return 0;
	if (!strcmp(values, "odd") && i % 61 == 0)
		return odd[x >> 8 & 3];
	if (!strcmp(values, "wide"))
		return ldexp(whole >> 8, (int)(x % 61) - 54);
	if (!strcmp(values, "tiny"))
		return ldexp(whole >> 8, -149);
	if (!strcmp(values, "huge"))
		return ldexp(whole >> 8, 104);
	return ldexp(whole >> 8, -24);
}

static void fill(struct operation *operation)
{
	operation->mine = calloc(operation->count + 1, 4);
	operation->result = calloc(operation->count + 1, 4);
	if (!operation->mine || !operation->result)
		exit(3);
	for (uint32_t i = 0; i < operation->count; i++) {
		if (operation->is_float)
			((float *)operation->mine)[i] = (float)value(operation, self, i);
		else
			((int32_t *)operation->mine)[i] = (int32_t)value(operation, self, i);
	}
}

static bool is_sum_int32(const struct operation *operation, uint32_t i)
{
	int64_t sum = 0;

	for (uint32_t rank = 0; rank < size; rank++)
		sum += (int64_t)value(operation, rank, i);
	if (operation->is_avg)
		sum /= size;
	sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
	return ((int32_t *)operation->result)[i] == sum;
}

/* The error that the rules allow in the packet with element i. */
static double error_of(const struct operation *operation, uint32_t i)
{
	double largest = 0;
	uint32_t log2_up = 0;
	int exponent;

	for (size_t at = i / lanes * lanes; at < operation->count && at / lanes == i / lanes;
	     at++) {
		for (uint32_t rank = 0; rank < size; rank++) {
			double x = fabs(value(operation, rank, (uint32_t)at));

			largest = isfinite(x) && x > largest ? x : largest;
		}
	}
	while (1u << log2_up < size)
		log2_up++;
	frexp(largest, &exponent);
	return size * ldexp(1, exponent - 31 + (int)log2_up);
}

/* A sum of infinities and NaNs is what their sum in double is; others lie within the error. */
static bool is_sum_float32(const struct operation *operation, uint32_t i, double error)
{
	double got = (double)((float *)operation->result)[i], sum = 0, odd = 0;

	for (uint32_t rank = 0; rank < size; rank++) {
		double x = value(operation, rank, i);

		sum += x;
		odd += isfinite(x) ? 0 : x;
	}
	sum /= operation->is_avg ? size : 1;
	if (isnan(sum))
		return isnan(got);
	if (isinf(odd))
		return got == odd;
	if (fabs(sum) > 3.4028235e38)
		return got == copysign(HUGE_VAL, sum);
	return fabs(got - sum) <= error + ldexp(fabs(sum), -24) + ldexp(1, -150);
}

static void check(const struct operation *operation)
{
	double error = 0;
	bool is_good = true;

	for (uint32_t i = 0; i < operation->count && is_good; i++) {
		if (operation->is_float && i % lanes == 0)
			error = error_of(operation, i);
		is_good = operation->is_float ? is_sum_float32(operation, i, error)
					      : is_sum_int32(operation, i);
		if (!is_good) {
			fprintf(stderr, "rank %u: operation %u: element %u is wrong\n", self,
				operation->number, i);
			exit(1);
		}
	}
}

/* The end, with what tally says, if it says that something is wrong. */
static void need(int result)
{
	if (!result)
		return;
	fprintf(stderr, "rank %u: %s: %s\n", self, tally_strerror(result),
		tally_get_last_error(comm));
	tally_comm_destroy(comm);
	exit(2);
}

static void start(struct operation *operation)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;

	options.name = strcmp(operation->name, "-") != 0 ? operation->name : NULL;
	fill(operation);
	need(tally_iallreduce(operation->mine, operation->result, operation->count,
			      operation->is_float ? TALLY_FLOAT32 : TALLY_INT32,
			      operation->is_avg ? TALLY_AVG : TALLY_SUM, comm, &options,
			      &operation->work));
}

static void finish(struct operation *operation, FILE *out)
{
	need(tally_wait(&operation->work, -1));
	check(operation);
	if (fwrite(operation->result, 4, operation->count, out) != operation->count)
		exit(3);
	free(operation->mine);
	free(operation->result);
}

/* How many operations there were. */
static uint32_t run(FILE *plan, FILE *out)
{
	struct operation started[STARTED_MAX];
	uint32_t count = 0, number = 0;
	char line[LINE_BYTES], type[WORD_BYTES], op[WORD_BYTES];

	while (fgets(line, sizeof(line), plan)) {
		struct operation *next = &started[count % STARTED_MAX];

		if (line[0] == '#')
			continue;
		if (!strcmp(line, "wait\n")) {
			for (uint32_t i = 0; i < count; i++)
				finish(&started[i], out);
			count = 0;
			continue;
		}
		*next = (struct operation){ .number = number++ };
		if (count++ == STARTED_MAX ||
		    sscanf(line, "%15s %15s %zu %15s %15s", type, next->values, &next->count, op,
			   next->name) != 5)
			exit(3);
		next->is_float = !strcmp(type, "float32");
		next->is_avg = !strcmp(op, "avg");
		start(next);
	}
	return number;
}

int main(int argc, char **argv)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_stats stats = TALLY_STATS_INIT;
	FILE *plan, *out;
	uint32_t count;

	if (argc != 7)
		return 3;
	options.aggregator = argv[1];
	options.init_timeout_s = 20;
	self = (uint32_t)atoi(argv[3]);
	size = (uint32_t)atoi(argv[4]);
	plan = fopen(argv[5], "r");
	out = fopen(argv[6], "wb");
	if (!plan || !out || size > RANKS_MAX)
		return 3;
	need(tally_comm_init(&comm, argv[2], size, self, &options));
	need(tally_comm_get_stats(comm, &stats));
	lanes = (uint32_t)stats.lanes;
	count = run(plan, out);
	need(tally_comm_get_stats(comm, &stats));
	need(tally_comm_finalize(comm));
	tally_comm_destroy(comm);
	fclose(plan);
	if (fclose(out))
		return 3;
	printf("rank %u: C, %u operations, %" PRIu64 " packets, %" PRIu64 " probes, %" PRIu64
	       " resent, %" PRIu64 " exponent, %" PRIu64 " detail\n",
	       self, count, stats.packets_out, stats.probes, stats.packets_resent,
	       stats.exponent_rounds, stats.detail_rounds);
	return 0;
}
