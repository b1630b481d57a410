/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.c - see optimiser.h. */
#include "ps/optimiser.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

#include "util/rng.h"

enum { UNIFORMS_OF_NORMAL = 12 }; /* their sum has variance 1 */

const char *const optimiser_names[] = { "sum", "sgd", "momentum", "adagrad", "adam", "ftrl", NULL };
const char *const initial_names[] = { "zero", "uniform", "normal", NULL };

struct optimiser optimiser_default(enum optimiser_kind kind)
{
	struct optimiser usual = {
		.kind = kind,
		.rate = 0.01f,
		.momentum = 0.9f,
		.beta1 = 0.9f,
		.beta2 = 0.999f,
		.epsilon = kind == OPTIMISER_ADAM ? 1e-8f : 1e-10f,
		.beta = 1,
		.l1 = 0,
		.l2 = 0,
	};

	if (kind == OPTIMISER_ADAM)
		usual.rate = 0.001f;
	if (kind == OPTIMISER_FTRL)
		usual.rate = 0.1f;
	return usual;
}

uint32_t optimiser_state(const struct optimiser *optimiser, uint32_t dim)
{
	switch (optimiser->kind) {
	case OPTIMISER_MOMENTUM:
	case OPTIMISER_ADAGRAD:
		return dim;
	case OPTIMISER_ADAM:
		return 2 * dim + 2;
	case OPTIMISER_FTRL:
		return 2 * dim;
	default:
		return 0;
	}
}

/* ---- one step each; g is a sum of gradients ---- */

/* R-KV-19: 256 squares of such a gradient are as much as a float holds. */
static const float SQUARED_MAX = 0x1p60f;

static float at_most(float most, float x, bool *is_held)
{
	if (fabsf(x) <= most)
		return x;
	*is_held = true;
	return copysignf(most, x);
}

/* m, v: of dim each, then 1 - beta1^steps and 1 - beta2^steps. v is at most the largest square. */
static void adam(const struct optimiser *o, uint32_t dim, float *value, float *state,
		 const float *gradient, bool *is_held)
{
	float *m = state, *v = state + dim, *done = state + 2 * (size_t)dim;

	done[0] = o->beta1 * done[0] + (1 - o->beta1);
	done[1] = o->beta2 * done[1] + (1 - o->beta2);
	for (uint32_t i = 0; i < dim; i++) {
		float g = at_most(SQUARED_MAX, gradient[i], is_held), by;

		m[i] = o->beta1 * m[i] + (1 - o->beta1) * g;
		v[i] = o->beta2 * v[i] + (1 - o->beta2) * g * g;
		by = o->rate * (m[i] / done[0]) / (sqrtf(v[i] / done[1]) + o->epsilon);
		value[i] = at_most(FLT_MAX, value[i] - by, is_held);
	}
}

static float sign_of(float x)
{
	return x < 0 ? -1.0f : 1.0f;
}

/* z, n: of dim each. A key that begins with another value than 0 begins with the z that the rule gives that for. */
static void ftrl(const struct optimiser *o, uint32_t dim, float *value, float *state,
		 const float *gradient, bool *is_held)
{
	float *z = state, *n = state + dim;

	for (uint32_t i = 0; i < dim; i++) {
		float g = at_most(SQUARED_MAX, gradient[i], is_held), w = value[i];
		float sum = at_most(FLT_MAX, n[i] + g * g, is_held);
		float sigma = (sqrtf(sum) - sqrtf(n[i])) / o->rate;

		if (n[i] == 0 && z[i] == 0 && w != 0)
			z[i] = -w * (o->beta / o->rate + o->l2) - sign_of(w) * o->l1;
		z[i] = at_most(FLT_MAX, z[i] + (g - sigma * w), is_held);
		n[i] = sum;
		value[i] = 0;
		if (fabsf(z[i]) > o->l1)
			value[i] = -(z[i] - sign_of(z[i]) * o->l1) /
				   ((o->beta + sqrtf(sum)) / o->rate + o->l2);
		value[i] = at_most(FLT_MAX, value[i], is_held);
	}
}

static void others(const struct optimiser *o, uint32_t dim, float *value, float *state,
		   const float *gradient, bool *is_held)
{
	for (uint32_t i = 0; i < dim; i++) {
		float g = gradient[i], by;

		if (o->kind == OPTIMISER_SUM) {
			by = -g;
		} else if (o->kind == OPTIMISER_SGD) {
			by = o->rate * g;
		} else if (o->kind == OPTIMISER_MOMENTUM) {
			state[i] = at_most(FLT_MAX, o->momentum * state[i] + g, is_held);
			by = o->rate * state[i];
		} else { /* ADAGRAD */
			g = at_most(SQUARED_MAX, g, is_held);
			state[i] = at_most(FLT_MAX, state[i] + g * g, is_held);
			by = o->rate * g / (sqrtf(state[i]) + o->epsilon);
		}
		value[i] = at_most(FLT_MAX, value[i] - by, is_held);
	}
}

bool optimiser_step(const struct optimiser *o, uint32_t dim, float *value, float *state,
		    const float *gradient)
{
	bool is_held = false;

	if (o->kind == OPTIMISER_ADAM)
		adam(o, dim, value, state, gradient, &is_held);
	else if (o->kind == OPTIMISER_FTRL)
		ftrl(o, dim, value, state, gradient, &is_held);
	else
		others(o, dim, value, state, gradient, &is_held);
	return !is_held;
}

/* ---- how a key begins ---- */

/* In [0, 1): 24 bits, all that a float has. */
static float uniform(struct rng *rng)
{
	return (float)(rng_u32(rng) >> 8) * 0x1p-24f;
}

void initial_values(const struct initial *initial, uint64_t key, uint32_t dim, float *value)
{
	struct rng rng;

	rng_init(&rng, initial->seed, key);
	for (uint32_t i = 0; i < dim; i++) {
		float drawn = 0;

		if (initial->kind == INITIAL_UNIFORM)
			drawn = 2 * uniform(&rng) - 1;
		for (uint32_t k = 0; initial->kind == INITIAL_NORMAL && k < UNIFORMS_OF_NORMAL; k++)
			drawn += uniform(&rng) - 0.5f;
		value[i] = initial->scale * drawn;
	}
}
