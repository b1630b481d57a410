/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - see score.h. */
#include "glm/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct point {
	double activation;
	bool is_in; /* the row is of the class */
};

uint32_t score_vectors(uint32_t classes_count)
{
	return classes_count > 2 ? classes_count : 1;
}

uint32_t score_class(const double *activation, uint32_t classes_count)
{
	uint32_t best = 0;

	if (classes_count <= 2)
		return activation[0] > 0 ? 0 : 1;
	for (uint32_t c = 1; c < classes_count; c++)
		if (activation[c] > activation[best])
			best = c;
	return best;
}

static double row_loss(const struct score_labels *labels, double label, const double *activation)
{
	double sum = 0;

	if (!labels->classes_count)
		return loss(labels->loss, activation[0], label);
	for (uint32_t c = 0; c < score_vectors(labels->classes_count); c++)
		sum += loss(labels->loss, activation[c], label == labels->classes[c] ? 1 : -1);
	return sum;
}

static int points_compare(const void *left, const void *right)
{
	double a = ((const struct point *)left)->activation;
	double b = ((const struct point *)right)->activation;

	return (a > b) - (a < b);
}

/* The share of pairs, one row in the class and one that is not, in which the first has the larger activation
 * (Mann and Whitney's U). All counts are whole numbers, or halves of them, below 2^53. */
static double points_auc(struct point *points, uint64_t rows)
{
	uint64_t in = 0, out = 0;
	double pairs = 0;

	qsort(points, rows, sizeof(*points), points_compare);
	for (uint64_t i = 0, end; i < rows; i = end) { /* those that tie */
		uint64_t tie_in = 0, tie_out = 0;

		end = i;
		do {
			tie_in += points[end].is_in;
			tie_out += !points[end].is_in;
			end++;
		} while (end < rows && points[end].activation == points[i].activation);
		pairs += (double)tie_in * (double)out;
		pairs += (double)tie_in * (double)tie_out / 2;
		in += tie_in;
		out += tie_out;
	}
	return in && out ? pairs / ((double)in * (double)out) : (double)NAN;
}

static int auc_make(double *auc, const struct score_labels *labels, const double *label,
		    const double *activation, uint64_t rows)
{
	uint32_t vectors = score_vectors(labels->classes_count), known = 0;
	struct point *points = malloc(rows * sizeof(*points));
	double sum = 0;

	if (!points)
		return -1;
	for (uint32_t c = 0; c < vectors; c++) {
		double one;

		for (uint64_t i = 0; i < rows; i++)
			points[i] = (struct point){ activation[i * vectors + c],
						    label[i] == labels->classes[c] };
		one = points_auc(points, rows);
		if (isnan(one))
			continue;
		sum += one;
		known++;
	}
	free(points);
	*auc = known ? sum / known : (double)NAN;
	return 0;
}

int score_make(struct score *score, const struct score_labels *labels, const double *label,
	       const double *activation, uint64_t rows)
{
	uint32_t vectors = score_vectors(labels->classes_count);
	double losses = 0, squares = 0;
	uint64_t right = 0;

	*score = (struct score){ rows, (double)NAN, (double)NAN, (double)NAN, (double)NAN };
	if (!rows)
		return 0;
	for (uint64_t i = 0; i < rows; i++) {
		const double *a = activation + i * vectors;

		losses += row_loss(labels, label[i], a);
		if (labels->classes_count)
			right += labels->classes[score_class(a, labels->classes_count)] == label[i];
		else
			squares += (a[0] - label[i]) * (a[0] - label[i]);
	}
	score->loss = losses / (double)rows;
	if (!labels->classes_count) {
		score->mse = squares / (double)rows;
		return 0;
	}
	score->accuracy = (double)right / (double)rows;
	return auc_make(&score->auc, labels, label, activation, rows);
}
