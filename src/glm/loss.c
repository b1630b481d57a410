/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - see loss.h. */
#include "glm/loss.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LOSSES = GLM_SQUARED_HINGE + 1 };

const char *const loss_names[LOSSES + 1] = {
	[GLM_LEAST_SQUARES] = "least-squares",
	[GLM_LOGISTIC] = "logistic",
	[GLM_HINGE] = "hinge",
	[GLM_SQUARED_HINGE] = "squared-hinge",
};

/* e^-x for x >= 0: 2^-k e^r, |r| <= ln(2) / 2. The C library's exp() differs in its last bit from one
 * processor to another, and all ranks must have the same. */
static double exp_minus(double x)
{
	static const double log2_e = 1.4426950408889634, x_max = 708;
	/* ln(2) in two parts, the first short enough for an exact product with k. */
	static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
	/* 1 / i!, from the 13th down. */
	static const double terms[] = { 1.0 / 6227020800,
					1.0 / 479001600,
					1.0 / 39916800,
					1.0 / 3628800,
					1.0 / 362880,
					1.0 / 40320,
					1.0 / 5040,
					1.0 / 720,
					1.0 / 120,
					1.0 / 24,
					1.0 / 6,
					1.0 / 2,
					1,
					1 };
	uint64_t bits;
	double k, r, sum = 0, power;

	if (!(x < x_max))
		return 0;
	k = (double)(int)(x * log2_e + 0.5);
	r = (k * ln2_high - x) + k * ln2_low;
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		sum = terms[i] + sum * r;
	bits = (uint64_t)(1023 - (int)k) << 52;
	memcpy(&power, &bits, sizeof(power));
	return sum * power;
}

double loss(enum glm_loss kind, double a, double y)
{
	double short_of = y * a < 1 ? 1 - y * a : 0;

	switch (kind) {
	case GLM_LEAST_SQUARES:
		return (a - y) * (a - y) / 2;
	case GLM_LOGISTIC:
		return (y * a < 0 ? -(y * a) : 0) + log1p(exp_minus(fabs(y * a)));
	case GLM_HINGE:
		return short_of;
	case GLM_SQUARED_HINGE:
		return short_of * short_of;
	}
	return 0;
}

double dloss(enum glm_loss kind, double a, double y)
{
	double e;

	switch (kind) {
	case GLM_LEAST_SQUARES:
		return a - y;
	case GLM_LOGISTIC:
		e = exp_minus(fabs(y * a));
		return -y * ((y * a > 0 ? e : 1) / (1 + e));
	case GLM_HINGE:
		return y * a < 1 ? -y : 0;
	case GLM_SQUARED_HINGE:
		return y * a < 1 ? -2 * y * (1 - y * a) : 0;
	}
	return 0;
}

double loss_smoothness(enum glm_loss kind)
{
	static const double smoothness[LOSSES] = {
		[GLM_LEAST_SQUARES] = 1,
		[GLM_LOGISTIC] = 0.25,
		[GLM_HINGE] = 1,
		[GLM_SQUARED_HINGE] = 2,
	};

	return smoothness[kind];
}
