/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_predict.c - tally glm predict and evaluate: a file's rows go through a model one by one, as
 * liblinear-predict has it: products and sums in double, features that the model does not have count for
 * nothing. Under a launcher rank 0 does it; there is nothing to share but the reading.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/aside.h"
#include "files/libsvm.h"
#include "glm/model.h"
#include "lib/bootstrap.h"
#include "tools/command.h"
#include "tools/glm.h"
#include "util/opt.h"

static const char predict_help[] =
	"tally glm predict - a label for each row of a file\n"
	"\n"
	"usage: tally glm predict FILE -m MODEL [-o OUT]\n"
	"\n"
	"  tally glm predict a9a.t -m a9a.model -o a9a.labels\n"
	"\n"
	"FILE is as for tally glm train; its labels are read but do not matter. MODEL may also be "
	"of\n"
	"liblinear-train. For a regression the prediction is a number.\n"
	"\n"
	"  -m, --model FILE    the model\n"
	"  -o, --output FILE   a line per row; the file is replaced whole or not at all (stdout)\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line.\n";

static const char evaluate_help[] =
	"tally glm evaluate - how good a model is\n"
	"\n"
	"usage: tally glm evaluate FILE -m MODEL [--json]\n"
	"\n"
	"  tally glm evaluate a9a.t -m a9a.model\n"
	"\n"
	"FILE is as for tally glm train. MODEL may also be of liblinear-train.\n"
	"\n"
	"  -m, --model FILE    the model\n"
	"  --json              print one JSON object\n"
	"  --help, --version\n"
	"\n"
	"loss is the mean over the rows, without l1 and l2. In AUC ties count half; for more than "
	"two\n"
	"classes it is the mean of each class against the rest.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line.\n";

struct request {
	const struct opt_command *command;
	const char *file, *model, *output;
	bool is_json;
};

/* Activations and labels of all rows, as far as they are wanted. */
struct rows {
	double *label, *activation;
	uint64_t count, room;
};

/* ---- the command line ---- */

#define AT(field) OPT_FIELD(struct request, field)
static const struct opt predict_table[] = {
	{ "model", OPT_TEXT, 'm', AT(model), .takes = "the name of a file" },
	{ "output", OPT_TEXT, 'o', AT(output), .takes = "the name of a file" },
};
static const struct opt_command predict = { .name = "tally glm predict",
					    .help = predict_help,
					    .table = predict_table,
					    .count = OPT_COUNT(predict_table) };
static const struct opt evaluate_table[] = {
	{ "model", OPT_TEXT, 'm', AT(model), .takes = "the name of a file" },
	{ "json", OPT_FLAG, AT(is_json) },
};
static const struct opt_command evaluate = { .name = "tally glm evaluate",
					     .help = evaluate_help,
					     .table = evaluate_table,
					     .count = OPT_COUNT(evaluate_table) };

/* OPT_GO_ON, or the exit status. */
static int request_parse(struct request *request, int argc, char **argv)
{
	const struct opt_command *command = request->command;
	struct opt_line line;
	int status = opt_read(command, request, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	if (!request->model)
		return opt_refuse(command->name, "-m", NULL, "missing: -m FILE is the model");
	if (!line.words)
		return opt_refuse(command->name, "FILE", NULL, "missing: give the file of rows");
	if (line.words > 1)
		return opt_refuse(command->name, line.word[1], NULL,
				  "is one file too many: give one");
	request->file = line.word[0];
	return OPT_GO_ON;
}

/* Of several ranks, the first one works. */
static bool is_idle(void)
{
	char text[BOOTSTRAP_TEXT_MAX];
	struct bootstrap boot = { .rank = 0 };

	return bootstrap_is_launched(bootstrap_getenv, NULL) &&
	       bootstrap_env(&boot, bootstrap_getenv, NULL, text) == TALLY_OK && boot.rank > 0;
}

/* ---- rows through a model ---- */

static int failed(const struct request *request, const char *text)
{
	fprintf(stderr, "%s: %s\n", request->command->name, text);
	return EXIT_FAILED;
}

static void row_activate(const struct model *model, const struct libsvm_row *row,
			 double *activation)
{
	uint32_t vectors = model_vectors(model);
	const float *weight = model->weight + model->features * vectors;

	for (uint32_t c = 0; c < vectors; c++)
		activation[c] = model->bias >= 0 ? (double)weight[c] * model->bias : 0;
	for (uint32_t i = 0; i < row->count && row->feature[i] < model->features; i++) {
		weight = model->weight + (uint64_t)row->feature[i] * vectors;
		for (uint32_t c = 0; c < vectors; c++)
			activation[c] += (double)weight[c] * (double)row->value[i];
	}
}

/* Calls fn for each row. 0, or the exit status. */
static int rows_each(const struct request *request, const struct model *model,
		     bool (*fn)(void *arg, const struct model *model, double label,
				const double *activation),
		     void *arg)
{
	double activation[GLM_CLASSES_MAX];
	char error[GLM_ERROR_MAX];
	struct libsvm_row row;
	struct source *source;
	struct libsvm *libsvm;
	bool is_going = true;
	int result;

	if (source_open(&source, request->file, error) || libsvm_open(&libsvm, source, error))
		return failed(request, error);
	while ((result = libsvm_next(libsvm, &row)) > 0 && is_going) {
		row_activate(model, &row, activation);
		is_going = fn(arg, model, row.label, activation);
	}
	if (result < 0)
		failed(request, libsvm_error(libsvm));
	libsvm_close(libsvm);
	return result < 0 || !is_going ? EXIT_FAILED : EXIT_DONE;
}

/* OPT_GO_ON, with a model, which the caller frees; or the exit status. */
static int begin(struct request *request, struct model *model, int argc, char **argv)
{
	int status = request_parse(request, argc, argv);
	char error[GLM_ERROR_MAX];

	if (status != OPT_GO_ON)
		return status;
	if (is_idle())
		return EXIT_DONE;
	return model_read(request->model, model, error) ? failed(request, error) : OPT_GO_ON;
}

/* ---- predict ---- */

/* arg: an aside; NULL: stdout. */
static bool label_print(void *arg, const struct model *model, double label,
			const double *activation)
{
	char line[40];
	int length;

	(void)label;
	if (model->classes)
		length = snprintf(line, sizeof(line), "%" PRId32 "\n",
				  model->label[score_class(activation, model->classes)]);
	else
		length = snprintf(line, sizeof(line), "%.17g\n", activation[0]);
	if (arg)
		return aside_write(arg, line, (size_t)length);
	return fputs(line, stdout) >= 0;
}

int glm_predict_main(int argc, char **argv)
{
	struct request request = { .command = &predict };
	struct model model = { .weight = NULL };
	int status = begin(&request, &model, argc, argv);
	char error[GLM_ERROR_MAX];
	struct aside aside;

	if (status != OPT_GO_ON)
		return status;
	if (request.output && aside_open(&aside, request.output, error)) {
		model_free(&model);
		return failed(&request, error);
	}
	status = rows_each(&request, &model, label_print, request.output ? &aside : NULL);
	model_free(&model);
	if (!request.output)
		return status;
	if (status && !aside.why) {
		aside_drop(&aside);
		return status;
	}
	return aside_commit(&aside, error) ? failed(&request, error) : EXIT_DONE;
}

/* ---- evaluate ---- */

static bool row_keep(void *arg, const struct model *model, double label, const double *activation)
{
	struct rows *rows = arg;
	uint32_t vectors = model_vectors(model);

	if (rows->count == rows->room) {
		uint64_t room = rows->room ? 2 * rows->room : 4096;
		double *labels = realloc(rows->label, room * sizeof(double));
		double *activations;

		if (labels)
			rows->label = labels;
		activations = labels ? realloc(rows->activation, room * vectors * sizeof(double))
				     : NULL;
		if (!activations) {
			fprintf(stderr, "tally glm evaluate: out of memory\n");
			return false;
		}
		rows->activation = activations;
		rows->room = room;
	}
	rows->label[rows->count] = label;
	memcpy(rows->activation + rows->count * vectors, activation, vectors * sizeof(double));
	rows->count++;
	return true;
}

static void score_print(const struct request *request, const struct model *model,
			const struct score *score)
{
	if (request->is_json) {
		printf("{\"command\":\"glm evaluate\"");
		glm_json_text("file", request->file);
		glm_json_text("model", request->model);
		printf(",\"rows\":%" PRIu64 ",\"loss_name\":\"%s\"", score->rows,
		       loss_names[model->loss]);
		glm_json_score("", score);
		puts("}");
		return;
	}
	printf("rows      %" PRIu64 "\nloss      %.6f (%s)\n", score->rows, score->loss,
	       loss_names[model->loss]);
	if (!model->classes)
		printf("mse       %.6g\n", score->mse);
	else
		printf("accuracy  %.6f\n", score->accuracy);
	if (!isnan(score->auc))
		printf("AUC       %.6f\n", score->auc);
}

static int file_score(const struct request *request, const struct model *model, struct rows *rows,
		      struct score *score)
{
	double classes[GLM_CLASSES_MAX];
	const struct score_labels labels = { model->loss, classes, model->classes };

	for (uint32_t c = 0; c < model->classes; c++)
		classes[c] = model->label[c];
	if (rows_each(request, model, row_keep, rows))
		return EXIT_FAILED;
	if (!rows->count) {
		fprintf(stderr, "tally glm evaluate: %s: no rows\n", request->file);
		return EXIT_FAILED;
	}
	if (score_make(score, &labels, rows->label, rows->activation, rows->count))
		return failed(request, "out of memory");
	return EXIT_DONE;
}

int glm_evaluate_main(int argc, char **argv)
{
	struct request request = { .command = &evaluate };
	struct model model = { .weight = NULL };
	int status = begin(&request, &model, argc, argv);
	struct rows rows = { .count = 0 };
	struct score score;

	if (status != OPT_GO_ON)
		return status;
	status = file_score(&request, &model, &rows, &score);
	if (!status)
		score_print(&request, &model, &score);
	free(rows.label);
	free(rows.activation);
	model_free(&model);
	return status;
}
