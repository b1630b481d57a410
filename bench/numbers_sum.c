/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_sum.c - see numbers_sum.h. */
#include "bench/numbers_sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/hash.h"
#include "core/shared/lanes.h"

enum { EXPONENT_MIN = -125, HALF_RANKS_MAX = 16 };

const char *const way_names[WAYS] = { "float32", "apart",    "exact", "half",
				      "float16", "bfloat16", "ring" };

/* How a way travels, and what a float32 becomes before it does. */
static const struct {
	int dtype;
	uint32_t flags;
	enum lanes_form form;
	const struct ieee_form *ieee;
} ways[WAYS] = {
	[WAY_WHOLE] = { TALLY_FLOAT32, TALLY_OP_STRICT, LANES_STRICT, &ieee_form_32 },
	[WAY_APART] = { TALLY_FLOAT32, TALLY_OP_STRICT, LANES_STRICT, &ieee_form_32 },
	[WAY_EXACT] = { TALLY_FLOAT32, TALLY_OP_EXACT, LANES_EXACT, &ieee_form_32 },
	[WAY_HALF] = { TALLY_FLOAT32, TALLY_OP_HALF, LANES_HALF, &ieee_form_32 },
	[WAY_FLOAT16] = { TALLY_FLOAT16, 0, LANES_FREE, &ieee_form_16 },
	[WAY_BFLOAT16] = { TALLY_BFLOAT16, 0, LANES_FREE, &ieee_form_b16 },
};

void sums_check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "numbers: %s: %s\n", what, tally_get_last_error(NULL));
	exit(1);
}

/* --- floats of 16 bits --- */

static uint16_t narrow(const struct ieee_form *form, float x)
{
	struct wide wide = { .words = 1 };
	struct ieee_parts parts;
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	parts = ieee_split(&ieee_form_32, bits);
	if (parts.class == IEEE_NAN)
		return (uint16_t)ieee_nan(form);
	if (parts.class == IEEE_INFINITE)
		return (uint16_t)ieee_infinity(form, parts.is_negative);
	wide.is_negative = parts.is_negative;
	wide.word[0] = parts.fraction;
	return (uint16_t)ieee_join(form, &wide, parts.power);
}

static float widen(const struct ieee_form *form, uint16_t bits)
{
	struct ieee_parts parts = ieee_split(form, bits);
	double magnitude = ldexp((double)parts.fraction, parts.power);

	if (parts.class != IEEE_FINITE)
		magnitude = parts.class == IEEE_NAN ? (double)NAN : (double)INFINITY;
	return (float)(parts.is_negative ? -magnitude : magnitude);
}

/* What a rank brings of an element, this way. */
static double brought(const struct sums *sums, enum way way, int rank, size_t i)
{
	float x = sums->set->own[rank][i];
	const struct ieee_form *form = ways[way].ieee;

	return (double)(form == &ieee_form_32 ? x : widen(form, narrow(form, x)));
}

/* --- the sums --- */

static void tally_sum(struct sums *sums, enum way way, size_t first, size_t count,
		      struct tally_comm *comm)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	const float *own = sums->set->own[tally_comm_rank(comm)] + first;
	float *sum = sums->sum[way] + first;
	const struct ieee_form *form = ways[way].ieee;
	struct tally_work *work;
	uint16_t *halves;

	options.flags = ways[way].flags;
	if (ways[way].dtype == TALLY_FLOAT32) {
		sums_check(tally_iallreduce(own, sum, count, TALLY_FLOAT32, TALLY_SUM, comm,
					    &options, &work),
			   way_names[way]);
		sums_check(tally_wait(&work, -1), way_names[way]);
		return;
	}
	halves = memory_get(count, sizeof(*halves));
	for (size_t i = 0; i < count; i++)
		halves[i] = narrow(form, own[i]);
	sums_check(tally_allreduce(halves, halves, count, ways[way].dtype, TALLY_SUM, comm),
		   way_names[way]);
	for (size_t i = 0; i < count; i++)
		sum[i] = widen(form, halves[i]);
	free(halves);
}

static void ring_sum(struct sums *sums)
{
	const struct set *set = sums->set;
	size_t size = (size_t)set->ranks;

	for (size_t part = 0; part < size; part++) {
		for (size_t i = set->count * part / size; i < set->count * (part + 1) / size; i++) {
			float sum = set->own[part][i];

			for (size_t step = 1; step < size; step++)
				sum += set->own[(part + step) % size][i];
			sums->sum[WAY_RING][i] = sum;
		}
	}
}

static void truth_sum(struct sums *sums)
{
	for (size_t i = 0; i < sums->set->count; i++)
		for (int rank = 0; rank < sums->set->ranks; rank++)
			sums->truth[i] += (double)sums->set->own[rank][i];
}

/* --- bounds: docs/numbers.md, R-NUM-3, R-NUM-11, R-NUM-13 --- */

/* Below 2^this are all magnitudes of these elements, of all ranks. */
static int32_t exponent_of(const struct sums *sums, enum way way, size_t first, size_t end)
{
	double most = 0;
	int exponent;

	for (int rank = 0; rank < sums->set->ranks; rank++)
		for (size_t i = first; i < end; i++)
			most = fmax(most, fabs(brought(sums, way, rank, i)));
	frexp(most, &exponent);
	return most > 0 && exponent > EXPONENT_MIN ? exponent : EXPONENT_MIN;
}

/* Half a unit in a result's last place. */
static double half_unit(const struct ieee_form *form, double result)
{
	int32_t least = -ieee_shift(form);
	int exponent;

	frexp(result, &exponent);
	exponent -= 1 + form->fraction;
	return ldexp(0.5, result != 0 && exponent > least ? exponent : least);
}

static double error_over(const struct sums *sums, enum way way, size_t i, double bound)
{
	double is = 0, sum = (double)sums->sum[way][i];

	for (int rank = 0; rank < sums->set->ranks; rank++)
		is += brought(sums, way, rank, i);
	return fabs(sum - is) / (bound + half_unit(ways[way].ieee, sum));
}

/* Packet by packet, as the operation of these elements is cut. */
static void bounds_look(struct sums *sums, enum way way, size_t first, size_t count)
{
	const struct lanes_call call = { .type = (enum lanes_type)ways[way].dtype,
					 .op = LANES_SUM,
					 .form = ways[way].form,
					 .count = count,
					 .workers = (uint32_t)sums->set->ranks,
					 .lanes = sums->lanes };
	uint32_t log2 = wide_log2(call.workers);
	struct lanes lanes;
	size_t full;

	if (!lanes_choose(&lanes, &call, &quant_scalar))
		sums_check(TALLY_ERR_INTERNAL, "lanes");
	full = map_full(lanes.shape, sums->lanes);
	for (size_t done = first; done < first + count; done += full) {
		size_t end = done + full < first + count ? done + full : first + count;
		int32_t exponent = exponent_of(sums, way, done, end);
		int32_t bits = lanes.shape.elements == 2 ? 15 : 31;
		double bound = lanes.is_exact
				       ? 0
				       : ldexp(sums->set->ranks, exponent + (int32_t)log2 - bits);

		for (size_t i = done; i < end; i++) {
			sums->over[way] = fmax(sums->over[way], error_over(sums, way, i, bound));
			sums->exponent[way][i] = exponent;
		}
	}
}

/* --- all of it --- */

static bool is_done(const struct sums *sums, enum way way)
{
	return way != WAY_RING && (way != WAY_HALF || sums->set->ranks <= HALF_RANKS_MAX);
}

static void way_sum(struct sums *sums, enum way way, struct tally_comm *comm)
{
	const struct tensor all = { "", 0, sums->set->count };
	const struct tensor *tensors = way == WAY_APART ? sums->set->tensor : &all;
	size_t count = way == WAY_APART ? sums->set->tensors : 1;

	for (size_t i = 0; i < count; i++) {
		tally_sum(sums, way, tensors[i].first, tensors[i].count, comm);
		if (sums->set->ranks > 1 && tally_comm_rank(comm) == 0)
			bounds_look(sums, way, tensors[i].first, tensors[i].count);
	}
}

void sums_open(struct sums *sums, const struct set *set, struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	*sums = (struct sums){ .set = set };
	sums_check(tally_comm_get_stats(comm, &stats), "stats");
	sums->lanes = stats.lanes;
	sums->truth = memory_get(set->count, sizeof(double));
	for (enum way way = 0; way < WAYS; way++) {
		sums->sum[way] = memory_get(set->count, sizeof(float));
		sums->exponent[way] = memory_get(set->count, sizeof(int32_t));
		if (is_done(sums, way))
			way_sum(sums, way, comm);
	}
	ring_sum(sums);
	truth_sum(sums);
	for (size_t i = 0; i < set->count && !is_done(sums, WAY_HALF); i++)
		sums->sum[WAY_HALF][i] = NAN;
}

void sums_close(struct sums *sums)
{
	for (enum way way = 0; way < WAYS; way++) {
		free(sums->sum[way]);
		free(sums->exponent[way]);
	}
	free(sums->truth);
}

/* int32 sums are exact. */
bool sums_agree(const struct sums *sums, struct tally_comm *comm)
{
	uint64_t hash = HASH_BEGIN;
	int32_t mine, all, others;

	for (enum way way = 0; way < WAY_RING; way++)
		hash = hash_bytes(hash, sums->sum[way], sums->set->count * sizeof(float));
	mine = (int32_t)(hash >> 42); /* 22 bits, of 256 ranks */
	sums_check(tally_allreduce(&mine, &all, 1, TALLY_INT32, TALLY_SUM, comm), "hashes");
	mine = all != mine * sums->set->ranks;
	sums_check(tally_allreduce(&mine, &others, 1, TALLY_INT32, TALLY_SUM, comm), "hashes");
	return !others;
}

bool sums_are_own(const struct sums *sums)
{
	size_t bytes = sums->set->count * sizeof(float);

	return !memcmp(sums->sum[WAY_WHOLE], sums->set->own[0], bytes) &&
	       !memcmp(sums->sum[WAY_HALF], sums->set->own[0], bytes) &&
	       !memcmp(sums->sum[WAY_EXACT], sums->set->own[0], bytes);
}

/* --- how good they are --- */

struct quality quality_of(const struct sums *sums, enum way way, const struct tensor *tensor)
{
	struct quality quality = { 0 };
	double signal = 0, noise = 0;

	for (size_t i = tensor->first; i < tensor->first + tensor->count; i++) {
		double is = sums->truth[i], error = (double)sums->sum[way][i] - is;

		signal += is * is;
		noise += error * error;
		quality.zeros += sums->sum[way][i] == 0 && is != 0;
	}
	quality.db = noise == 0 ? (double)INFINITY : 10 * log10(signal / noise);
	return quality;
}

double quality_below(const struct sums *sums, const struct tensor *tensor)
{
	double largest = 0, signal = 0;

	for (size_t i = tensor->first; i < tensor->first + tensor->count; i++) {
		largest += ldexp(1, 2 * sums->exponent[WAY_WHOLE][i]);
		signal += sums->truth[i] * sums->truth[i];
	}
	return 0.5 * log2(largest / signal);
}

static void way_bins_add(struct bins *bins, const struct sums *sums, enum way way)
{
	const int32_t *exponents = sums->exponent[way == WAY_RING ? WAY_WHOLE : way];

	for (size_t i = 0; i < sums->set->count; i++) {
		double error, most = 0;
		int k;

		for (int rank = 0; rank < sums->set->ranks; rank++)
			most = fmax(most, fabs((double)sums->set->own[rank][i]));
		frexp(most, &k);
		k = exponents[i] - k;
		if (most == 0 || k < 0 || k >= BINS)
			continue;
		error = ((double)sums->sum[way][i] - sums->truth[i]) / most;
		bins->count[way][k]++;
		bins->squares[way][k] += error * error;
	}
}

void bins_add(struct bins *bins, const struct sums *sums)
{
	for (enum way way = 0; way < WAYS; way++)
		way_bins_add(bins, sums, way);
}

double bins_bits(const struct bins *bins, enum way way, int k)
{
	return -0.5 * log2(bins->squares[way][k] / (double)bins->count[way][k]);
}
