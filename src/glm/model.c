/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - a model, and how it is written; model_read.c has the other way. */
#include "glm/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "files/aside.h"

enum { WORD_MAX = 32 }; /* "-1.1754943508222875e-38 ", a label, a key */

uint32_t model_vectors(const struct model *model)
{
	return model->classes > 2 ? model->classes : 1;
}

uint64_t model_lines(const struct model *model)
{
	return model->features + (model->bias >= 0);
}

void model_free(struct model *model)
{
	free(model->weight);
	model->weight = NULL;
}

/* clang-format off */
static const struct {
	const char *name;
	enum glm_loss loss;
	bool is_l1, is_written;
} solvers[] = {
	{ "L2R_LR",              GLM_LOGISTIC,      false, true },
	{ "L1R_LR",              GLM_LOGISTIC,      true,  true },
	{ "L2R_LR_DUAL",         GLM_LOGISTIC,      false, false },
	{ "L2R_L2LOSS_SVC",      GLM_SQUARED_HINGE, false, true },
	{ "L1R_L2LOSS_SVC",      GLM_SQUARED_HINGE, true,  true },
	{ "L2R_L2LOSS_SVC_DUAL", GLM_SQUARED_HINGE, false, false },
	{ "L2R_L1LOSS_SVC_DUAL", GLM_HINGE,         false, true },
	{ "L2R_L2LOSS_SVR",      GLM_LEAST_SQUARES,       false, true },
	{ "L2R_L2LOSS_SVR_DUAL", GLM_LEAST_SQUARES,       false, false },
};
/* clang-format on */

enum { SOLVERS = sizeof(solvers) / sizeof(solvers[0]) };

const char *model_solver(enum glm_loss loss, bool is_l1)
{
	const char *name = NULL;

	for (size_t i = 0; i < SOLVERS; i++) /* liblinear has no name for some with L1 */
		if (solvers[i].loss == loss && solvers[i].is_written &&
		    (!name || solvers[i].is_l1 == is_l1))
			name = solvers[i].name;
	return name;
}

bool model_solver_find(const char *name, struct model *model)
{
	for (size_t i = 0; i < SOLVERS; i++) {
		if (strcmp(solvers[i].name, name) != 0)
			continue;
		model->loss = solvers[i].loss;
		model->is_l1 = solvers[i].is_l1;
		return true;
	}
	return false;
}

/* As long as a header or a line of weights can be. */
struct line {
	char text[(GLM_CLASSES_MAX + 4) * WORD_MAX];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line, const char *format,
							   ...)
{
	va_list arguments;

	va_start(arguments, format);
	line->used += (size_t)vsnprintf(line->text + line->used, sizeof(line->text) - line->used,
					format, arguments);
	va_end(arguments);
}

static void header_make(struct line *line, const struct model *model)
{
	line_add(line, "solver_type %s\nnr_class %u\n", model_solver(model->loss, model->is_l1),
		 model->classes ? model->classes : 2);
	if (model->classes) {
		line_add(line, "label");
		for (uint32_t c = 0; c < model->classes; c++)
			line_add(line, " %" PRId32, model->label[c]);
		line_add(line, "\n");
	}
	line_add(line, "nr_feature %" PRIu64 "\nbias %.17g\nw\n", model->features,
		 model->bias < 0 ? -1 : model->bias);
}

int model_write(const char *path, const struct model *model, char error[GLM_ERROR_MAX])
{
	uint32_t vectors = model_vectors(model);
	const float *weight = model->weight;
	struct line line = { .used = 0 };
	struct aside aside;
	bool is_going;

	if (aside_open(&aside, path, error))
		return -1;
	header_make(&line, model);
	is_going = aside_write(&aside, line.text, line.used);
	for (uint64_t i = 0; i < model_lines(model) && is_going; i++) {
		line.used = 0;
		for (uint32_t c = 0; c < vectors; c++, weight++) {
			if (*weight == 0 && !signbit(*weight)) /* most of them, after L1 */
				line_add(&line, "0 ");
			else
				line_add(&line, "%.17g ", (double)*weight);
		}
		line_add(&line, "\n");
		is_going = aside_write(&aside, line.text, line.used);
	}
	return aside_commit(&aside, error);
}
