/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - what a wrong activation costs, and in which direction it is wrong. All in double, and with the same
 * bits on every machine but for loss() of the logistic one, which is shown and never trained with.
 */
#ifndef GLM_LOSS_H
#define GLM_LOSS_H

/* y is the label: a number for least squares, +1 or -1 else. */
enum glm_loss {
	GLM_LEAST_SQUARES, /* (a - y)^2 / 2 */
	GLM_LOGISTIC,      /* ln(1 + exp(-y a)) */
	GLM_HINGE,         /* max(0, 1 - y a) */
	GLM_SQUARED_HINGE, /* max(0, 1 - y a)^2 */
};

double loss(enum glm_loss kind, double a, double y);
/* Its slope in a; where the hinge has none, at y a = 1, it is 0. */
double dloss(enum glm_loss kind, double a, double y);
/* The most that the slope changes when a changes by 1; 1 for the hinge, whose slope jumps by that. */
double loss_smoothness(enum glm_loss kind);

/* Of each loss; NULL behind the last. */
extern const char *const loss_names[];

#endif
