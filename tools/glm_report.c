/* SPDX-License-Identifier: Apache-2.0 */
/* glm_report.c - what tally glm train shows: a table or JSON on stdout, progress on stderr. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tally.h"
#include "tools/glm.h"
#include "util/clock.h"
#include "util/utf8.h"

enum { BAR_WIDTH = 24, BAR_MS = 100, TEXT_MAX = 4096 };

/* ---- JSON ---- */

void glm_json_text(const char *name, const char *text)
{
	char clean[TEXT_MAX];

	printf(",\"%s\":\"", name);
	for (const char *at = utf8_copy(clean, sizeof(clean), text); *at; at++) {
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if ((unsigned char)*at < ' ')
			printf("\\u%04x", (unsigned char)*at);
		else
			putchar(*at);
	}
	putchar('"');
}

void glm_json_number(const char *name, double number)
{
	if (isfinite(number))
		printf(",\"%s\":%.9g", name, number);
	else
		printf(",\"%s\":null", name);
}

void glm_json_score(const char *prefix, const struct score *score)
{
	static const char *const names[] = { "loss", "accuracy", "auc", "mse" };
	const double numbers[] = { score->loss, score->accuracy, score->auc, score->mse };
	char name[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
		glm_json_number(name, numbers[i]);
	}
}

static void json_epoch(uint32_t number, const struct glm_epoch *epoch)
{
	printf("{\"epoch\":%u", number);
	glm_json_score("", &epoch->score);
	if (epoch->test.rows)
		glm_json_score("test_", &epoch->test);
	glm_json_number("rate", epoch->rate);
	glm_json_number("train_s", epoch->train_s);
	puts("}");
}

static void json_end(const struct glm_report *report, const struct glm_curve *curve, uint32_t micro,
		     bool is_flat)
{
	const struct glm_request *request = report->request;
	const struct glm_data *data = report->data;
	char wire[WIRE_TEXT_MAX];

	printf("{\"command\":\"glm train\",\"version\":\"%s\"", tally_get_version_text());
	glm_json_text("file", request->file);
	printf(",\"rows\":%" PRIu64 ",\"features\":%" PRIu64 ",\"nonzeros\":%" PRIu64
	       ",\"classes\":%u,\"ranks\":%u,\"threads\":%" PRIu64,
	       data->rows, data->features, data->nonzeros, data->classes_count,
	       report->exchange->ranks, request->threads);
	glm_json_text("comm", report->exchange->name);
	printf(",\"parallel\":\"%s\"",
	       request->options.parallel == GLM_DATA_PARALLEL ? "data" : "model");
	printf(",\"wire\":\"%s\",\"loss_name\":\"%s\",", wire_text(&request->options.wire, wire),
	       loss_names[request->options.loss]);
	printf("\"layout\":\"%s\",\"bits\":", glm_layout_names[report->layout]);
	if (request->options.bits)
		printf("%u,", request->options.bits);
	else
		printf("null,");
	printf("\"bytes_read_per_epoch\":%" PRIu64 ",\"dense_float32_bytes_per_epoch\":%" PRIu64,
	       report->bytes_read, report->bytes_dense);
	glm_json_number("l1", request->options.l1);
	glm_json_number("l2", request->options.l2);
	printf(",\"batch\":%u,\"micro_batch\":%u,\"seed\":%" PRIu64
	       ",\"epochs\":%u,\"resumed_epochs\":%u,\"stopped_early\":%s",
	       request->options.batch, micro, request->options.seed, curve->count,
	       report->epochs_before, is_flat ? "true" : "false");
	if (curve->count) {
		const struct glm_epoch *last = &curve->epoch[curve->count - 1];

		glm_json_score("", &last->score);
		if (last->test.rows)
			glm_json_score("test_", &last->test);
		glm_json_number("train_s", last->train_s);
	}
	glm_json_number("minibatch_us", report->parts.whole_us);
	glm_json_number("compute_us", report->parts.compute_us);
	glm_json_number("exchange_us", report->parts.exchange_us);
	if (request->model)
		glm_json_text("model", request->model);
	else
		printf(",\"model\":null");
	puts("}");
}

/* ---- the table ---- */

static void table_open(const struct glm_report *report)
{
	const struct glm_options *options = &report->request->options;
	const struct glm_data *data = report->data;
	bool is_regression = !data->classes_count;
	char wire[WIRE_TEXT_MAX], rate[32] = "auto", bits[32] = "float32";

	if (options->rate > 0)
		snprintf(rate, sizeof(rate), "%g", options->rate);
	if (options->bits)
		snprintf(bits, sizeof(bits), "%u bit%s", options->bits,
			 options->bits == 1 ? "" : "s");
	printf("# tally %s glm train %s: %" PRIu64 " rows, %" PRIu64 " features, %" PRIu64
	       " non-zeros, ",
	       tally_get_version_text(), report->request->file, data->rows, data->features,
	       data->nonzeros);
	if (is_regression)
		printf("labels are numbers\n");
	else
		printf("%u classes\n", data->classes_count);
	printf("# %s, l1 %g, l2 %g, batch %u, rate %s, seed %" PRIu64
	       "; values %s (%s); %u rank%s, %" PRIu64 " thread%s each, comm %s, wire %s\n",
	       loss_names[options->loss], options->l1, options->l2, options->batch, rate,
	       options->seed, bits, glm_layout_names[report->layout], report->exchange->ranks,
	       report->exchange->ranks == 1 ? "" : "s", report->request->threads,
	       report->request->threads == 1 ? "" : "s", report->exchange->name,
	       wire_text(&options->wire, wire));
	printf("# %5s %10s %9s", "epoch", "loss", is_regression ? "mse" : "accuracy");
	if (!is_regression)
		printf(" %8s", "AUC");
	if (report->request->test) {
		printf(" %10s %9s", "test loss", is_regression ? "mse" : "accuracy");
		if (!is_regression)
			printf(" %8s", "AUC");
	}
	printf(" %10s %9s\n", "rate", "seconds");
	fflush(stdout);
}

static void table_score(const struct score *score)
{
	printf(" %10.6f", score->loss);
	if (isnan(score->accuracy)) {
		printf(" %9.6g", score->mse);
		return;
	}
	printf(" %9.4f", score->accuracy);
	if (isnan(score->auc))
		printf(" %8s", "-");
	else
		printf(" %8.4f", score->auc);
}

static void table_epoch(uint32_t number, const struct glm_epoch *epoch)
{
	printf("%7u", number);
	table_score(&epoch->score);
	if (epoch->test.rows)
		table_score(&epoch->test);
	printf(" %10.3g %9.3f\n", epoch->rate, epoch->train_s);
}

/* ---- the whole ---- */

void glm_report_open(struct glm_report *report)
{
	if (!report->request->is_json)
		table_open(report);
}

void glm_report_epoch(struct glm_report *report, uint32_t number, const struct glm_epoch *epoch)
{
	glm_report_progress_end(report);
	report->loss = epoch->score.loss;
	if (report->request->is_json)
		json_epoch(number, epoch);
	else
		table_epoch(number, epoch);
	fflush(stdout);
}

void glm_report_end(struct glm_report *report, const struct glm_curve *curve, uint32_t micro,
		    bool is_flat)
{
	glm_report_progress_end(report);
	if (report->request->is_json) {
		json_end(report, curve, micro, is_flat);
		return;
	}
	if (is_flat)
		printf("# the loss has not become smaller in %" PRIu64 " epochs: stopped\n",
		       report->request->early_stop);
	if (report->request->model)
		printf("# model: %s\n", report->request->model);
}

static void bar_show(struct glm_report *report, const char *what, double done, const char *rest)
{
	int filled = (int)(done * BAR_WIDTH);

	fprintf(stderr, "%s  [%.*s%*s] %3.0f %%%s\033[K\r", what, filled,
		"########################", BAR_WIDTH - filled, "", done * 100, rest);
	fflush(stderr);
	report->progress_ms = clock_ms();
}

void glm_report_progress(struct glm_report *report, uint32_t number, uint64_t rows_done,
			 uint64_t rows)
{
	int64_t now = clock_ms();
	double spent_s, rate;
	char what[48], rest[96], loss[32] = "";

	if (!rows_done || !report->begin_ms)
		report->begin_ms = now;
	if (!report->has_progress || now - report->progress_ms < BAR_MS || !rows)
		return;
	spent_s = (double)(now - report->begin_ms) / 1000;
	rate = spent_s > 0 ? (double)rows_done / spent_s : 0;
	snprintf(what, sizeof(what), "epoch %u/%" PRIu64, number, report->request->epochs);
	if (!isnan(report->loss))
		snprintf(loss, sizeof(loss), "  loss %.6f", report->loss);
	if (rate > 0)
		snprintf(rest, sizeof(rest), "%s  %.0f rows/s  %.0f s left", loss, rate,
			 ((double)(report->request->epochs - number + 1) * (double)rows -
			  (double)rows_done) /
				 rate);
	else
		snprintf(rest, sizeof(rest), "%s", loss);
	bar_show(report, what, (double)rows_done / (double)rows, rest);
}

void glm_report_loading(struct glm_report *report, uint64_t bytes_done, uint64_t bytes)
{
	if (!report->has_progress || !bytes || bytes_done > bytes ||
	    clock_ms() - report->progress_ms < BAR_MS)
		return;
	bar_show(report, "reading", (double)bytes_done / (double)bytes, "");
}

void glm_report_progress_end(struct glm_report *report)
{
	if (report->has_progress && report->progress_ms)
		fputs("\033[K\r", stderr);
	report->progress_ms = 0;
	report->begin_ms = 0;
}
