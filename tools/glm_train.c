/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_train.c - tally glm train: every rank loads its columns, all train, rank 0 scores, shows and writes. A rank
 * that fails where the others do not see it aborts the job, so that nobody waits for it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "files/aside.h"
#include "glm/checkpoint.h"
#include "glm/load.h"
#include "glm/model.h"
#include "lib/bootstrap.h"
#include "tools/command.h"
#include "tools/glm.h"
#include "util/clock.h"
#include "util/folder.h"
#include "util/plot.h"

struct run {
	struct glm_request request;
	struct exchange *exchange;
	struct glm_data data, test;
	struct glm_train *train;
	struct glm_curve curve; /* rank 0's */
	struct glm_report report;
	double *activation;
	double train_s;
	bool is_flat;
	bool is_late; /* the last checkpoint could not be written */
};

static bool is_first(const struct run *run)
{
	return run->exchange->rank == 0;
}

static int say(const char *text)
{
	fprintf(stderr, "tally glm train: %s\n", text);
	return -1;
}

/* What has gone wrong here alone: the others are told. */
static int give_up(struct run *run, const char *text)
{
	glm_report_progress_end(&run->report);
	run->exchange->ops->abort(run->exchange);
	return say(text);
}

/* What the trainer says, it says on all ranks. */
static int train_failed(struct run *run)
{
	glm_report_progress_end(&run->report);
	return say(glm_train_error(run->train));
}

/* Rank 0's word, to all. */
static int decide(struct run *run, bool *is_so)
{
	int32_t word = is_first(run) && *is_so;

	if (run->exchange->ops->sum(run->exchange, &word, 1))
		return say(run->exchange->error);
	*is_so = word != 0;
	return 0;
}

/* ---- before ---- */

static int agree(void *arg, struct exchange *exchange, char error[GLM_ERROR_MAX])
{
	return glm_request_agree(arg, exchange, error);
}

static int join_tally(struct exchange **exchange, struct glm_request *request,
		      char error[GLM_ERROR_MAX])
{
	bool is_model = request->options.parallel == GLM_MODEL_PARALLEL; /* gradients are large */
	const struct exchange_tally_options options = {
		.mode = is_model ? request->comm : EXCHANGE_DENSE,
		.agree = agree,
		.arg = request,
	};

	if (request->comm == EXCHANGE_MPI) {
		snprintf(error, GLM_ERROR_MAX, "--comm mpi: that is tally-glm-mpi, under mpirun");
		return -1;
	}
	snprintf(error, GLM_ERROR_MAX, "out of memory");
	return bootstrap_is_launched(bootstrap_getenv, NULL)
		       ? exchange_tally(exchange, &options, error)
		       : exchange_none(exchange);
}

static int job_join(struct run *run, glm_join_fn join)
{
	const struct glm_options *options = &run->request.options;
	char error[GLM_ERROR_MAX];

	if (join(&run->exchange, &run->request, error))
		return say(error);
	if (is_first(run) && options->parallel == GLM_MODEL_PARALLEL &&
	    run->request.comm == EXCHANGE_AUTO && !strcmp(run->exchange->name, "dense"))
		fprintf(stderr,
			"tally glm train: this aggregator gives us no latency mode, so all goes "
			"over dense mode\n");
	run->report = (struct glm_report){
		.request = &run->request,
		.data = &run->data,
		.exchange = run->exchange,
		.has_progress = is_first(run) &&
				(isatty(STDERR_FILENO) || getenv("TALLY_PROGRESS")),
		.loss = (double)NAN,
		.parts = { (double)NAN, (double)NAN, (double)NAN },
	};
	return 0;
}

/* Hours before it is written, a name that cannot be; and a folder that a power cut would take away is kept from now on. */
static int can_replace(struct run *run, const char *path)
{
	char error[GLM_ERROR_MAX];
	struct aside aside;
	int why;

	if (!path)
		return 0;
	if (aside_open(&aside, path, error))
		return give_up(run, error);
	aside_drop(&aside);
	why = folder_sync_above(aside.path);
	if (!why)
		return 0;
	snprintf(error, sizeof(error), "%.400s: its folder: %s", path, strerror(why));
	return give_up(run, error);
}

static int outputs_check(struct run *run)
{
	const struct glm_request *request = &run->request;

	if (!is_first(run))
		return 0;
	if (can_replace(run, request->model) || can_replace(run, request->checkpoint))
		return -1;
	if (request->plot && !plot_check("tally glm train", request->plot, false))
		return give_up(run, "nothing has been trained");
	return 0;
}

static void loading(void *arg, uint64_t bytes_done, uint64_t bytes)
{
	struct run *run = arg;

	glm_report_loading(&run->report, bytes_done, bytes);
}

/* The hash says which values were trained with. */
static int values_scale(struct run *run, struct glm_data *data)
{
	double scale = run->request.scale;

	if (scale == 1)
		return 0;
	data->hash = hash_bytes(data->hash, &scale, sizeof(scale));
	for (uint32_t s = 0; s < data->shares_count; s++) {
		float *value = data->shares[s].value;
		uint64_t count = data->shares[s].start[data->rows];

		for (uint64_t i = 0; i < count; i++) {
			value[i] = (float)((double)value[i] * scale);
			if (!isfinite(value[i]))
				return give_up(run, "--scale: a value is beyond float32 with it");
		}
	}
	return 0;
}

static int file_load(struct run *run, const char *path, struct glm_data *data,
		     const struct glm_data *like)
{
	bool is_shared = run->request.options.parallel == GLM_MODEL_PARALLEL;
	struct glm_load_options options = {
		.rank = is_shared ? run->exchange->rank : 0,
		.ranks = is_shared ? run->exchange->ranks : 1,
		.threads = (uint32_t)run->request.threads,
		.columns = like ? &like->columns : NULL,
		.features = like ? like->features : 0,
		.is_regression = run->request.options.loss == GLM_LEAST_SQUARES,
		.classes_min = like ? 0 : 2,
		.progress = loading,
		.arg = run,
	};
	char error[GLM_ERROR_MAX];

	if (glm_load(data, path, &options, error))
		return give_up(run, error);
	glm_report_progress_end(&run->report);
	return values_scale(run, data);
}

/* liblinear's format has labels that are whole numbers. */
static int labels_check(struct run *run)
{
	char text[160];

	for (uint32_t c = 0; run->request.model && c < run->data.classes_count; c++) {
		double label = run->data.classes[c];

		if (label >= INT32_MIN && label <= INT32_MAX && label == (double)(int32_t)label)
			continue;
		snprintf(text, sizeof(text),
			 "label %g: a model has classes that are whole numbers (train without -m, "
			 "or "
			 "with --loss least-squares)",
			 label);
		return give_up(run, text);
	}
	return 0;
}

static int files_load(struct run *run)
{
	const struct glm_request *request = &run->request;
	char error[GLM_ERROR_MAX];
	uint64_t rows;

	if (file_load(run, request->file, &run->data, NULL) || labels_check(run))
		return -1;
	if (request->test && file_load(run, request->test, &run->test, &run->data))
		return -1;
	if (glm_load_agree(&run->data, run->exchange, error) ||
	    (request->test && glm_load_agree(&run->test, run->exchange, error)))
		return say(error);
	if (glm_train_open(&run->train, &run->data, &request->options, run->exchange, error))
		return say(error);
	run->report.layout = glm_train_layout(run->train);
	rows = run->data.rows > run->test.rows ? run->data.rows : run->test.rows;
	run->activation = malloc(rows * glm_train_classes(run->train) * sizeof(double));
	return run->activation ? 0 : give_up(run, "out of memory");
}

/* ---- checkpoints ---- */

/* The curve, then what the trainer has. */
static int checkpoint_save(struct run *run)
{
	size_t curve_bytes = glm_curve_bytes(run->curve.count), train_bytes;
	char error[GLM_ERROR_MAX] = "out of memory: no checkpoint";
	void *train_state;
	uint8_t *state;

	if (glm_train_save(run->train, &train_state, &train_bytes))
		return train_failed(run);
	if (!is_first(run))
		return 0;
	state = malloc(curve_bytes + train_bytes);
	run->is_late = !state;
	if (state) {
		glm_curve_pack(&run->curve, state);
		memcpy(state + curve_bytes, train_state, train_bytes);
		run->is_late = checkpoint_write(run->request.checkpoint, state,
						curve_bytes + train_bytes, error) != 0;
	}
	free(state);
	free(train_state);
	if (run->is_late) { /* what has been learnt is worth more than a reason to stop */
		glm_report_progress_end(&run->report);
		say(error);
	}
	return 0;
}

/* Rank 0's part: *state is what the trainer gets, NULL: there is no checkpoint yet. */
static int checkpoint_find(struct run *run, void **file, const uint8_t **state, size_t *bytes)
{
	const char *path = run->request.checkpoint;
	char error[GLM_ERROR_MAX];
	size_t used;

	if (access(path, F_OK) && errno == ENOENT) {
		fprintf(stderr, "tally glm train: %s: not there yet: from the beginning\n", path);
		return 0;
	}
	if (checkpoint_read(path, file, bytes, error))
		return give_up(run, error);
	if (glm_curve_unpack(&run->curve, *file, *bytes, &used)) {
		snprintf(error, sizeof(error), "%.400s: not of this program", path);
		return give_up(run, error);
	}
	*state = (const uint8_t *)*file + used;
	*bytes -= used;
	return 0;
}

static int checkpoint_take(struct run *run)
{
	const uint8_t *state = NULL;
	void *file = NULL;
	size_t bytes = 0;
	bool is_there;
	int result;

	if (is_first(run) && checkpoint_find(run, &file, &state, &bytes)) {
		free(file);
		return -1;
	}
	is_there = state != NULL;
	result = decide(run, &is_there);
	if (!result && is_there) {
		result = glm_train_load(run->train, state, bytes);
		if (result) {
			if (is_first(run))
				say(run->request.checkpoint);
			train_failed(run);
		}
	}
	free(file);
	if (result || !is_there)
		return result;
	run->report.epochs_before = glm_train_epochs(run->train);
	if (run->curve.count) {
		run->train_s = run->curve.epoch[run->curve.count - 1].train_s;
		run->report.loss = run->curve.epoch[run->curve.count - 1].score.loss;
	}
	if (is_first(run) && run->curve.count != run->report.epochs_before)
		return give_up(run, "the checkpoint's curve and state are of different epochs");
	return 0;
}

/* ---- epochs ---- */

static void progress(void *arg, uint64_t rows_done, uint64_t rows)
{
	struct run *run = arg;

	glm_report_progress(&run->report, glm_train_epochs(run->train) + 1, rows_done, rows);
}

/* The model as it is, over a file. */
static int score_file(struct run *run, const struct glm_data *data, struct score *score)
{
	const struct score_labels labels = { run->request.options.loss, run->data.classes,
					     run->data.classes_count };

	if (glm_train_activations(run->train, data, run->activation))
		return train_failed(run);
	if (is_first(run) && score_make(score, &labels, data->label, run->activation, data->rows))
		return give_up(run, "out of memory");
	return 0;
}

static int epoch_run(struct run *run)
{
	struct glm_epoch epoch = { .rate = 0 };
	double begin = clock_s();

	if (glm_train_epoch(run->train, progress, run))
		return train_failed(run);
	run->train_s += clock_s() - begin;
	if (score_file(run, &run->data, &epoch.score) ||
	    (run->request.test && score_file(run, &run->test, &epoch.test)))
		return -1;
	if (!is_first(run))
		return 0;
	epoch.rate = glm_train_rate(run->train);
	epoch.train_s = run->train_s;
	if (glm_curve_add(&run->curve, &epoch))
		return give_up(run, "out of memory");
	glm_report_epoch(&run->report, run->curve.count, &epoch);
	return 0;
}

static bool is_checkpoint_due(const struct run *run)
{
	const struct glm_request *request = &run->request;
	uint32_t epochs = glm_train_epochs(run->train);

	return request->checkpoint && (epochs % request->checkpoint_every == 0 || run->is_flat ||
				       epochs == request->epochs);
}

static int is_flat_find(struct run *run)
{
	if (!run->request.early_stop)
		return 0;
	run->is_flat = glm_curve_is_flat(&run->curve, run->request.early_stop);
	return decide(run, &run->is_flat);
}

static int epochs_run(struct run *run)
{
	if (is_flat_find(run))
		return -1;
	while (glm_train_epochs(run->train) < run->request.epochs && !run->is_flat) {
		if (epoch_run(run) || is_flat_find(run))
			return -1;
		if (is_checkpoint_due(run) && checkpoint_save(run))
			return -1;
	}
	return 0;
}

/* ---- after ---- */

/* A weight for x is the one for x * scale, times scale. */
static int weights_unscale(struct model *model, double scale)
{
	uint64_t count = model->features * model_vectors(model);

	for (uint64_t i = 0; scale != 1 && i < count; i++) {
		model->weight[i] = (float)((double)model->weight[i] * scale);
		if (!isfinite(model->weight[i]))
			return -1;
	}
	return 0;
}

static int model_save(struct run *run)
{
	const struct glm_options *options = &run->request.options;
	struct model model = {
		.loss = options->loss,
		.is_l1 = options->l1 > 0,
		.classes = run->data.classes_count,
		.features = run->data.features,
		.bias = options->bias,
	};
	char error[GLM_ERROR_MAX];
	int result = 0;

	for (uint32_t c = 0; c < model.classes; c++)
		model.label[c] = (int32_t)run->data.classes[c];
	if (is_first(run)) {
		model.weight = malloc(model_lines(&model) * model_vectors(&model) * sizeof(float));
		if (!model.weight)
			return give_up(run, "out of memory");
	}
	if (glm_train_weights(run->train, model.weight))
		result = train_failed(run);
	else if (is_first(run) && weights_unscale(&model, run->request.scale))
		result = give_up(run, "--scale: a weight is beyond float32 with it");
	else if (is_first(run) && model_write(run->request.model, &model, error))
		result = give_up(run, error);
	model_free(&model);
	return result;
}

/* What an epoch reads. */
static int bytes_find(struct run *run)
{
	struct glm_report *report = &run->report;
	uint32_t epochs = glm_train_epochs(run->train) - report->epochs_before;

	if (glm_train_bytes(run->train, &report->bytes_read, &report->bytes_dense))
		return train_failed(run);
	report->bytes_read /= epochs ? epochs : 1;
	report->bytes_dense /= epochs ? epochs : 1;
	return 0;
}

/* What a pipeline hides is for those who look at numbers. */
static int parts_measure(struct run *run)
{
	const struct glm_request *request = &run->request;

	if (!request->is_json || run->exchange->ranks == 1 || !glm_train_micro(run->train) ||
	    request->options.parallel == GLM_DATA_PARALLEL)
		return 0;
	return glm_train_parts(run->train, &run->report.parts) ? train_failed(run) : 0;
}

static int results_write(struct run *run)
{
	const struct glm_request *request = &run->request;
	char title[512];

	if ((request->model && model_save(run)) || bytes_find(run) || parts_measure(run))
		return -1;
	if (!is_first(run))
		return 0;
	glm_report_end(&run->report, &run->curve, glm_train_micro(run->train), run->is_flat);
	snprintf(title, sizeof(title), "%s of %.400s", loss_names[request->options.loss],
		 request->file);
	for (char *at = title; *at; at++) /* a quote would end gnuplot's */
		*at = *at == '\'' || *at == '\\' || (unsigned char)*at < ' ' ? '?' : *at;
	if (request->plot && !glm_plot(request->plot, title, &run->curve))
		return -1;
	return run->is_late ? -1 : 0;
}

static int run_all(struct run *run)
{
	if (outputs_check(run) || files_load(run))
		return -1;
	if (run->request.is_resumed && checkpoint_take(run))
		return -1;
	if (is_first(run))
		glm_report_open(&run->report);
	if (epochs_run(run))
		return -1;
	return results_write(run);
}

int glm_train_run(int argc, char **argv, glm_join_fn join)
{
	static struct run run;
	int status = glm_request_parse(&run.request, argc, argv);

	if (status >= 0)
		return status;
	if (job_join(&run, join))
		return EXIT_FAILED;
	status = run_all(&run);
	run.exchange->ops->close(run.exchange);
	glm_train_close(run.train);
	glm_data_free(&run.test);
	glm_data_free(&run.data);
	glm_curve_free(&run.curve);
	free(run.activation);
	return status ? EXIT_FAILED : EXIT_DONE;
}

int glm_train_main(int argc, char **argv)
{
	return glm_train_run(argc, argv, join_tally);
}
