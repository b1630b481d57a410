/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/optimiser.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "util/rng.h"

enum { DIM = 5, STEPS = 60, STATE_MAX = 2 * DIM + 2 };

/* The formulas as textbooks have them, in double. */
struct model {
	double w, m, v, z, n;
};

static void model_step(const struct optimiser *o, struct model *it, double g, int t)
{
	double sigma;

	switch (o->kind) {
	case OPTIMISER_SUM:
		it->w += g;
		break;
	case OPTIMISER_SGD:
		it->w -= (double)o->rate * g;
		break;
	case OPTIMISER_MOMENTUM:
		it->m = (double)o->momentum * it->m + g;
		it->w -= (double)o->rate * it->m;
		break;
	case OPTIMISER_ADAGRAD:
		it->n += g * g;
		it->w -= (double)o->rate * g / (sqrt(it->n) + (double)o->epsilon);
		break;
	case OPTIMISER_ADAM:
		it->m = (double)o->beta1 * it->m + (1 - (double)o->beta1) * g;
		it->v = (double)o->beta2 * it->v + (1 - (double)o->beta2) * g * g;
		it->w -= (double)o->rate * (it->m / (1 - pow((double)o->beta1, t))) /
			 (sqrt(it->v / (1 - pow((double)o->beta2, t))) + (double)o->epsilon);
		break;
	default: /* FTRL */
		sigma = (sqrt(it->n + g * g) - sqrt(it->n)) / (double)o->rate;
		it->z += g - sigma * it->w;
		it->n += g * g;
		it->w = fabs(it->z) <= (double)o->l1
				? 0
				: -(it->z - copysign((double)o->l1, it->z)) /
					  (((double)o->beta + sqrt(it->n)) / (double)o->rate +
					   (double)o->l2);
	}
}

static void optimiser__steps_are_those_of_the_textbook(void **unused)
{
	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct optimiser o = optimiser_default((enum optimiser_kind)kind);
		float value[DIM] = { 0 }, state[STATE_MAX] = { 0 }, gradient[DIM];
		struct model model[DIM] = { { 0 } };
		struct rng rng;

		o.l1 = 0.5f;
		o.l2 = 0.25f;
		o.epsilon = 0.125f;
		rng_init(&rng, 7, kind);
		assert_true(optimiser_state(&o, DIM) <= STATE_MAX);
		for (int t = 1; t <= STEPS; t++) {
			for (int i = 0; i < DIM; i++)
				gradient[i] = (float)rng_below(&rng, 2001) / 500 - 2;
			assert_true(optimiser_step(&o, DIM, value, state, gradient));
			for (int i = 0; i < DIM; i++) {
				model_step(&o, &model[i], (double)gradient[i], t);
				if (fabs((double)value[i] - model[i].w) >
				    1e-4 * (1 + fabs(model[i].w)))
					fail_msg("%s, step %d: %g, not %g", optimiser_names[o.kind],
						 t, (double)value[i], model[i].w);
			}
		}
	}
}

static void optimiser__state_stays_within_what_it_says(void **unused)
{
	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct optimiser o = optimiser_default((enum optimiser_kind)kind);
		float value[DIM] = { 1, -2, 3, -4, 5 }, state[STATE_MAX + 1] = { 0 },
		      gradient[DIM] = { 1, -1, 2, -2, 3 };
		uint32_t floats = optimiser_state(&o, DIM);

		state[floats] = 77;
		optimiser_step(&o, DIM, value, state, gradient);
		assert_true(state[floats] == 77);
	}
}

static void optimiser__ftrl_leaves_a_first_value_where_it_is(void **unused)
{
	struct optimiser o = optimiser_default(OPTIMISER_FTRL);
	float value[2] = { 0.5f, -0.25f }, state[4] = { 0 }, gradient[2] = { 0, 0 };

	(void)unused;
	o.l1 = 0.1f;
	o.l2 = 1;
	optimiser_step(&o, 2, value, state, gradient);
	assert_true(fabsf(value[0] - 0.5f) < 1e-6f);
	assert_true(fabsf(value[1] + 0.25f) < 1e-6f);
}

/* R-KV-19. Their squares, and sums of them, are more than a float holds. */
static void optimiser__large_gradients_leave_all_numbers_finite(void **unused)
{
	static const float large[] = { FLT_MAX, -FLT_MAX, 0x1p64f, -2e19f, INFINITY, -INFINITY, 1 };

	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct optimiser o = optimiser_default((enum optimiser_kind)kind);
		float value[DIM] = { 0 }, state[STATE_MAX] = { 0 }, gradient[DIM];
		uint32_t held = 0, count = sizeof(large) / sizeof(large[0]);

		for (uint32_t t = 0; t < 2000; t++) {
			for (uint32_t i = 0; i < DIM; i++)
				gradient[i] = large[t / (i + 1) % count];
			held += !optimiser_step(&o, DIM, value, state, gradient);
			for (uint32_t i = 0; i < DIM + optimiser_state(&o, DIM); i++)
				if (!isfinite(i < DIM ? value[i] : state[i - DIM]))
					fail_msg("%s: number %u after step %u",
						 optimiser_names[o.kind], i, t);
		}
		assert_true(held > 1000);
	}
}

/* The first step of these is as long as the rate, however long the gradient; one that is bounded still is. */
static void optimiser__bounded_gradient_makes_a_usual_step(void **unused)
{
	static const enum optimiser_kind kinds[] = { OPTIMISER_ADAGRAD, OPTIMISER_ADAM,
						     OPTIMISER_FTRL };

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		struct optimiser o = optimiser_default(kinds[i]);
		float value[2] = { 0 }, state[6] = { 0 };
		const float gradient[2] = { 1e30f, 0x1p60f };

		assert_false(optimiser_step(&o, 2, value, state, gradient));
		assert_true(fabsf(value[0] + o.rate) < 1e-6f);
		assert_true(value[0] == value[1]);
	}
}

/* What docs and users rely on who name an optimiser alone. */
static void optimiser__begins_with_the_usual_numbers(void **unused)
{
	static const uint32_t states[OPTIMISER_COUNT] = { 0, 0, 3, 3, 8, 6 }; /* of dim 3 */

	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct optimiser o = optimiser_default((enum optimiser_kind)kind);
		bool is_adam = kind == OPTIMISER_ADAM;

		assert_int_equal(o.kind, kind);
		assert_true(o.rate == (is_adam ? 0.001f : kind == OPTIMISER_FTRL ? 0.1f : 0.01f));
		assert_true(o.momentum == 0.9f && o.beta1 == 0.9f && o.beta2 == 0.999f);
		assert_true(o.epsilon == (is_adam ? 1e-8f : 1e-10f));
		assert_true(o.beta == 1 && o.l1 == 0 && o.l2 == 0);
		assert_int_equal(optimiser_state(&o, 3), states[kind]);
	}
}

static void optimiser__names_are_all_there(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < OPTIMISER_COUNT; i++)
		assert_non_null(optimiser_names[i]);
	assert_null(optimiser_names[OPTIMISER_COUNT]);
	for (unsigned i = 0; i < INITIAL_COUNT; i++)
		assert_non_null(initial_names[i]);
	assert_null(initial_names[INITIAL_COUNT]);
}

static void initial__values_are_of_key_and_seed_alone(void **unused)
{
	struct initial a = { .kind = INITIAL_UNIFORM, .scale = 0.5f, .seed = 3 }, b = a;
	float first[DIM], again[DIM], other[DIM];

	(void)unused;
	initial_values(&a, 17, DIM, first);
	initial_values(&a, 18, DIM, other);
	initial_values(&a, 17, DIM, again);
	assert_memory_equal(first, again, sizeof(first));
	assert_memory_not_equal(first, other, sizeof(first));
	b.seed = 4;
	initial_values(&b, 17, DIM, other);
	assert_memory_not_equal(first, other, sizeof(first));
	a.kind = INITIAL_ZERO;
	initial_values(&a, 17, DIM, first);
	for (int i = 0; i < DIM; i++)
		assert_true(first[i] == 0);
}

static void initial__values_are_spread_as_they_should_be(void **unused)
{
	enum { KEYS = 20000 };
	struct initial uniform = { .kind = INITIAL_UNIFORM, .scale = 2, .seed = 5 };
	struct initial normal = { .kind = INITIAL_NORMAL, .scale = 3, .seed = 5 };
	double sum = 0, squares = 0, mean = 0;

	(void)unused;
	for (uint64_t key = 0; key < KEYS; key++) {
		float u, n;

		initial_values(&uniform, key, 1, &u);
		initial_values(&normal, key, 1, &n);
		assert_true(u >= -2 && u < 2);
		mean += (double)u;
		sum += (double)n;
		squares += (double)n * (double)n;
	}
	assert_true(fabs(mean / KEYS) < 0.05);
	assert_true(fabs(sum / KEYS) < 0.15);
	assert_true(fabs(sqrt(squares / KEYS) - 3) < 0.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(optimiser__steps_are_those_of_the_textbook),
		cmocka_unit_test(optimiser__state_stays_within_what_it_says),
		cmocka_unit_test(optimiser__ftrl_leaves_a_first_value_where_it_is),
		cmocka_unit_test(optimiser__large_gradients_leave_all_numbers_finite),
		cmocka_unit_test(optimiser__bounded_gradient_makes_a_usual_step),
		cmocka_unit_test(optimiser__begins_with_the_usual_numbers),
		cmocka_unit_test(optimiser__names_are_all_there),
		cmocka_unit_test(initial__values_are_of_key_and_seed_alone),
		cmocka_unit_test(initial__values_are_spread_as_they_should_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
