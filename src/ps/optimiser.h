/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimiser.h - what a sum of gradients does to a key's values, and with which values a key begins. Pure, and the
 * same bits on every machine: a log is replayed by doing the same steps again.
 *
 *   value   dim floats, the parameters
 *   state   optimiser_state floats behind them, zeros at first, nobody else's business
 */
#ifndef PS_OPTIMISER_H
#define PS_OPTIMISER_H

#include <stdbool.h>
#include <stdint.h>

enum optimiser_kind {
	OPTIMISER_SUM, /* value += g: a table of counts; exact for whole numbers up to 2^24 */
	OPTIMISER_SGD,
	OPTIMISER_MOMENTUM,
	OPTIMISER_ADAGRAD,
	OPTIMISER_ADAM, /* its step count is the key's own: how often that was touched */
	OPTIMISER_FTRL, /* FTRL-Proximal, per coordinate */
	OPTIMISER_COUNT
};

struct optimiser {
	enum optimiser_kind kind;
	float rate;         /* all but SUM; FTRL's alpha */
	float momentum;     /* MOMENTUM */
	float beta1, beta2; /* ADAM */
	float epsilon;      /* ADAGRAD, ADAM */
	float beta, l1, l2; /* FTRL */
};

/* Of this kind, with the values that are usual for it. */
struct optimiser optimiser_default(enum optimiser_kind kind);
extern const char *const optimiser_names[]; /* "sum", "sgd", ..., NULL */

/* Floats of state for a key of dim values. */
uint32_t optimiser_state(const struct optimiser *optimiser, uint32_t dim);

/* One step, with the sum of the gradients that the epoch or the batch has brought for the key. False: some number was too
 * large, and the largest that there is room for was taken in its place (R-KV-19); all are finite in any case, if they were
 * before. Gradients may be infinite, but no NaN. */
bool optimiser_step(const struct optimiser *optimiser, uint32_t dim, float *value, float *state,
		    const float *gradient);

enum initial_kind { INITIAL_ZERO, INITIAL_UNIFORM, INITIAL_NORMAL, INITIAL_COUNT };

/* uniform: in [-scale, scale); normal: of standard deviation scale (twelve uniform ones, added up: no tail beyond
 * six of them). Both are made of seed and key alone, so who comes when is no matter. */
struct initial {
	enum initial_kind kind;
	float scale;
	uint64_t seed;
};

extern const char *const initial_names[]; /* "zero", "uniform", "normal", NULL */
void initial_values(const struct initial *initial, uint64_t key, uint32_t dim, float *value);

#endif
