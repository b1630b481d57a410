/* SPDX-License-Identifier: Apache-2.0 */
/* glm.h - what the parts of `tally glm` share: its commands, what train is asked to do, what it shows. */
#ifndef TOOLS_GLM_H
#define TOOLS_GLM_H

#include <stdbool.h>
#include <stdint.h>

#include "glm/exchange_tally.h"
#include "glm/score.h"
#include "glm/train.h"
#include "util/opt.h"

int glm_train_main(int argc, char **argv);
int glm_predict_main(int argc, char **argv);
int glm_evaluate_main(int argc, char **argv);
int glm_convert_main(int argc, char **argv);

/* ---- what train is asked to do ---- */

struct glm_request {
	const char *file;
	const char *model, *test, *checkpoint, *plot; /* NULL: none */
	struct glm_options options;
	enum exchange_mode comm;
	double scale; /* of all values */
	uint64_t epochs, threads, checkpoint_every;
	uint64_t early_stop; /* epochs without a smaller loss; 0: never */
	bool is_resumed, is_json;
};

extern const struct opt_command glm_train_command;

/* -1: go on; else the exit status, and all has been said. */
int glm_request_parse(struct glm_request *request, int argc, char **argv);

/* Whether all ranks were asked for the same, and were not, which option it is: 0, or -1 and the same sentence on all
 * of them. What rank 0 alone writes need not be given to the others: their requests then say what rank 0's does.
 * All ranks call it, before anything that depends on a request. */
int glm_request_agree(struct glm_request *request, struct exchange *exchange,
		      char error[GLM_ERROR_MAX]);

/* Joins the ranks of a job, and has them agree. 0 and *exchange, or -1 and why. */
typedef int (*glm_join_fn)(struct exchange **exchange, struct glm_request *request,
			   char error[GLM_ERROR_MAX]);
/* All of tally glm train, over an exchange of the caller's choice; the exit status. */
int glm_train_run(int argc, char **argv, glm_join_fn join);

/* ---- what happened ---- */

/* After an epoch. */
struct glm_epoch {
	struct score score, test; /* test.rows 0: no such file */
	double rate;              /* of the first mini-batch after it */
	double train_s;           /* since the beginning, scoring not counted */
};

struct glm_curve {
	struct glm_epoch *epoch; /* [count] */
	uint32_t count, room;
};

/* -1: no memory. */
int glm_curve_add(struct glm_curve *curve, const struct glm_epoch *epoch);
void glm_curve_free(struct glm_curve *curve);

/* The loss that --early-stop looks at did not become smaller in the last `epochs` epochs, by a ten-thousandth
 * of what it was. */
bool glm_curve_is_flat(const struct glm_curve *curve, uint64_t epochs);

/* A curve as bytes, for a checkpoint: of a fixed size per epoch, little endian. */
size_t glm_curve_bytes(uint32_t count);
void glm_curve_pack(const struct glm_curve *curve, uint8_t *to);
/* 0; -1: these are none, or no memory. *used: how many of them. */
int glm_curve_unpack(struct glm_curve *curve, const uint8_t *from, size_t bytes, size_t *used);

/* ---- a drawing ---- */

bool glm_plot(const char *path, const char *title, const struct glm_curve *curve);

/* ---- what is shown: a table or JSON on stdout, progress on stderr. Rank 0's. ---- */

struct glm_report {
	const struct glm_request *request;
	const struct glm_data *data;
	const struct exchange *exchange;
	uint32_t epochs_before; /* of the run that this one goes on with */
	enum glm_layout layout;
	/* Of one of this run's epochs, and of it with dense float32. */
	uint64_t bytes_read, bytes_dense;
	bool has_progress;
	int64_t progress_ms, begin_ms; /* last shown, of this epoch's begin */
	double loss;                   /* after the last epoch; NaN: there was none */
	struct glm_parts parts;        /* NaN: not measured */
};

void glm_report_open(struct glm_report *report);
void glm_report_epoch(struct glm_report *report, uint32_t number, const struct glm_epoch *epoch);
void glm_report_end(struct glm_report *report, const struct glm_curve *curve, uint32_t micro,
		    bool is_flat);
/* `number` is the epoch's, from 1. */
void glm_report_progress(struct glm_report *report, uint32_t number, uint64_t rows_done,
			 uint64_t rows);
void glm_report_loading(struct glm_report *report, uint64_t bytes_done, uint64_t bytes);
void glm_report_progress_end(struct glm_report *report);

/* Members of a JSON object behind another: ,"name":"text", of any bytes. */
void glm_json_text(const char *name, const char *text);
/* ,"name":number, or null for what is not finite. */
void glm_json_number(const char *name, double number);
/* loss, accuracy, auc and mse, each with the prefix. */
void glm_json_score(const char *prefix, const struct score *score);

#endif
