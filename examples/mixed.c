/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.c - mixed precision with tally: gradients travel as float16, and dynamic loss scaling keeps them in its range.
 *
 *     tally run -n 4 -- mixed           each rank prints which steps were skipped
 *     mixed --reference 4               the same training in one process, in float32 and without tally
 *
 * The loss is multiplied by a scale, so that small gradients do not become 0 in float16. If one is too large then, it is an
 * infinity, and so is its average, on all ranks: tally brings infinities and NaNs as such. So each rank looks at its own
 * result, all ranks skip the same steps, and halve the scale. After STEADY_STEPS good steps it doubles.
 *
 * The data are made up: a small network learns what another one says of random numbers, some of them far out. There is
 * no function in it that machines round differently, so it has the same bits everywhere.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tally.h>

enum {
	INPUTS = 32,
	HIDDEN = 64,
	BATCH = 64, /* over all ranks */
	STEPS = 600,
	STEADY_STEPS = 25,
	TEST_SAMPLES = 512,
	FAR_OUT_EVERY = 96, /* samples */

	/* Where parameters lie: weights [hidden][inputs], biases, weights of the output, its bias. */
	BIASES = HIDDEN * INPUTS,
	OUTPUT = BIASES + HIDDEN,
	PARAMETERS = OUTPUT + HIDDEN + 1,
};

static const float rate = 0.05f, far_out = 6, scale_first = 65536;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "mixed: %s: %s\n", what, why);
	exit(1);
}

static void check(int result, const char *what)
{
	if (result)
		die(what, tally_get_last_error(NULL));
}

/* ---- float16, rounded to nearest even ---- */

static uint16_t half_of(float x)
{
	uint32_t bits, magnitude, sign;

	memcpy(&bits, &x, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	magnitude = bits & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return 0x7e00;       /* NaN */
	if (magnitude >= 0x477ff000) /* 65520 and above */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) /* 2^-14: multiples of 2^-24 */
		return (uint16_t)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
	return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static float float_of(uint16_t half)
{
	uint32_t bits = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
	float x;

	if ((half & 0x7c00) == 0x7c00)
		bits |= 0x7f800000;
	memcpy(&x, &bits, sizeof(x));
	return (half & 0x7c00) == 0x7c00 ? x : x * 0x1p112f;
}

/* ---- data and network ---- */

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static float random_unit(uint64_t *state) /* -1 to 1 */
{
	return (float)(random_next(state) >> 40) * 0x1p-23f - 1;
}

static void network_make(float *parameters, uint64_t seed)
{
	for (int i = 0; i < PARAMETERS; i++)
		parameters[i] = random_unit(&seed) * (i < BIASES ? 0.3f : 0.2f);
}

/* A sigmoid of -1 to 1. */
static float bend(float x)
{
	return x / sqrtf(1 + x * x);
}

static float bend_slope(float y)
{
	float rest = 1 - y * y;

	return rest * sqrtf(rest);
}

static float network_say(const float *parameters, const float *in, float *hidden)
{
	float out = parameters[OUTPUT + HIDDEN];

	for (int h = 0; h < HIDDEN; h++) {
		float sum = parameters[BIASES + h];

		for (int i = 0; i < INPUTS; i++)
			sum += parameters[h * INPUTS + i] * in[i];
		hidden[h] = bend(sum);
		out += parameters[OUTPUT + h] * hidden[h];
	}
	return out;
}

/* The number'th sample, and what is to be said of it. */
static float sample_make(const float *teacher, uint64_t number, float *in)
{
	uint64_t state = number * 1000003;
	float hidden[HIDDEN], size = random_next(&state) % FAR_OUT_EVERY ? 1 : far_out;

	for (int i = 0; i < INPUTS; i++)
		in[i] = size * random_unit(&state);
	return size * network_say(teacher, in, hidden);
}

/* What these samples add to the gradients of their mean loss, times the scale. */
static void samples_learn(const float *parameters, const float *teacher, uint64_t first,
			  uint32_t count, float scale, float *gradients)
{
	float in[INPUTS], hidden[HIDDEN];

	memset(gradients, 0, PARAMETERS * sizeof(*gradients));
	for (uint64_t number = first; number < first + count; number++) {
		float wanted = sample_make(teacher, number, in);
		float delta = (network_say(parameters, in, hidden) - wanted) * scale / (float)count;

		gradients[OUTPUT + HIDDEN] += delta;
		for (int h = 0; h < HIDDEN; h++) {
			float back = delta * parameters[OUTPUT + h] * bend_slope(hidden[h]);

			gradients[OUTPUT + h] += delta * hidden[h];
			gradients[BIASES + h] += back;
			for (int i = 0; i < INPUTS; i++)
				gradients[h * INPUTS + i] += back * in[i];
		}
	}
}

static double test_loss(const float *parameters, const float *teacher)
{
	float in[INPUTS], hidden[HIDDEN];
	double sum = 0;

	for (uint64_t number = 0; number < TEST_SAMPLES; number++) {
		float wanted = sample_make(teacher, number + (1ull << 40), in);
		double off = (double)(network_say(parameters, in, hidden) - wanted);

		sum += off * off / 2;
	}
	return sum / TEST_SAMPLES;
}

/* ---- the average of all ranks' gradients; false: a float16 cannot hold some of them ---- */

static struct tally_comm *comm; /* NULL: the reference */
static uint32_t rank, ranks;

struct training {
	float parameters[PARAMETERS], teacher[PARAMETERS];
	float gradients[PARAMETERS]; /* the average, times the scale */
	float scale;
	uint32_t steady,
		own; /* good steps since the scale changed; skipped ones with an overflow of this rank's */
	uint32_t skipped_count, skipped[STEPS];
};

static bool average_with_tally(struct training *training, uint32_t step)
{
	uint32_t share = BATCH / ranks;
	uint16_t halves[PARAMETERS];
	bool is_own = false, is_good = true;

	samples_learn(training->parameters, training->teacher,
		      (uint64_t)step * BATCH + rank * share, share, training->scale,
		      training->gradients);
	for (int i = 0; i < PARAMETERS; i++) {
		halves[i] = half_of(training->gradients[i]);
		is_own = is_own || !isfinite(float_of(halves[i]));
	}
	check(tally_allreduce(halves, halves, PARAMETERS, TALLY_FLOAT16, TALLY_AVG, comm),
	      "gradients");
	for (int i = 0; i < PARAMETERS; i++) {
		training->gradients[i] = float_of(halves[i]);
		is_good = is_good && isfinite(training->gradients[i]);
	}
	training->own += !is_good && is_own;
	return is_good;
}

/* The shares of all ranks, one after the other. */
static bool average_alone(struct training *training, uint32_t step)
{
	uint32_t share = BATCH / ranks;
	float sum[PARAMETERS] = { 0 };
	bool is_good = true;

	for (uint32_t other = 0; other < ranks; other++) {
		samples_learn(training->parameters, training->teacher,
			      (uint64_t)step * BATCH + other * share, share, training->scale,
			      training->gradients);
		for (int i = 0; i < PARAMETERS; i++) {
			is_good = is_good && fabsf(training->gradients[i]) < 65520;
			sum[i] += training->gradients[i];
		}
	}
	for (int i = 0; i < PARAMETERS; i++)
		training->gradients[i] = sum[i] / (float)ranks;
	return is_good;
}

/* ---- training ---- */

static void train_step(struct training *training, uint32_t step)
{
	bool is_good = comm ? average_with_tally(training, step) : average_alone(training, step);

	if (!is_good) {
		training->skipped[training->skipped_count++] = step;
		training->scale /= 2;
		training->steady = 0;
		return;
	}
	for (int i = 0; i < PARAMETERS; i++)
		training->parameters[i] -= rate * (training->gradients[i] / training->scale);
	if (++training->steady == STEADY_STEPS) {
		training->scale *= 2;
		training->steady = 0;
	}
}

/* FNV-1a of the parameters' bits. */
static uint64_t hash_of(const float *parameters)
{
	const uint8_t *bytes = (const uint8_t *)parameters;
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < PARAMETERS * sizeof(float); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

/* A line, at once: ranks share the output. */
static void show(const struct training *training, double loss_first)
{
	char list[STEPS * 8] = "";
	size_t length = 0;

	for (uint32_t i = 0; i < training->skipped_count; i++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%u",
					   i ? "," : "", training->skipped[i]);
	printf("%s %u skipped %s count %u own %u scale %g loss-first %.5f loss %.5f parameters "
	       "%016llx\n",
	       comm ? "rank" : "reference", rank, length ? list : "none", training->skipped_count,
	       training->own, (double)training->scale, loss_first,
	       test_loss(training->parameters, training->teacher),
	       (unsigned long long)hash_of(training->parameters));
	fflush(stdout);
}

static struct training training;

int main(int argc, char **argv)
{
	double loss_first;

	if (argc == 3 && !strcmp(argv[1], "--reference")) {
		ranks = (uint32_t)atoi(argv[2]);
	} else if (argc == 1) {
		check(tally_comm_init_env(&comm, NULL), "init");
		rank = tally_comm_rank(comm);
		ranks = tally_comm_size(comm);
	}
	if (!ranks || BATCH % ranks) {
		fprintf(stderr,
			"usage: tally run -n N -- mixed | mixed --reference N; N divides %d\n",
			BATCH);
		return 2;
	}
	network_make(training.teacher, 1);
	network_make(training.parameters, 2);
	training.scale = scale_first;
	loss_first = test_loss(training.parameters, training.teacher);
	for (uint32_t step = 0; step < STEPS; step++)
		train_step(&training, step);
	show(&training, loss_first);
	check(comm ? tally_comm_finalize(comm) : TALLY_OK, "finalize");
	tally_comm_destroy(comm);
	return 0;
}
