/* SPDX-License-Identifier: Apache-2.0 */
/* ctr.h - between the files of two examples: ctr.c and deep.c models and their training, ctr_options.c what
 * they are told, ctr_rows.c what is read or made, ctr_table.c tables on servers, or here for the reference, ctr_batch.c rows of a batch and their parameters. */
#ifndef EXAMPLES_CTR_H
#define EXAMPLES_CTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tally_kv.h>

enum {
	CTR_BIAS = 0, /* the key of what all rows have */
	FACTORS = 8,
};

struct settings {
	const char *train, *test;
	uint32_t epochs, batch, factors, rank, size;
	uint32_t ahead;           /* batches that are begun before this one's gradients are in */
	uint32_t mode, staleness; /* TALLY_KV_ASYNC, ... */
	uint32_t workers;         /* of the reference: whose mini-batches it makes; 0: its own */
	uint64_t seed, generate;
	bool is_json, is_reference, is_fm, is_sync;
	uint64_t *key; /* of the reference: what the rows have, ascending */
	size_t keys;
};
extern struct settings want;

__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);
void check(int result); /* of a call of tally */
void *memory(void *old, size_t count, size_t bytes);
uint64_t draw(uint64_t *state);  /* splitmix64 */
double uniform(uint64_t *state); /* 0 to below 1 */

/* ---- ctr_options.c ---- */

struct choice {
	const char *name;
	enum { CHOICE_FLAG, CHOICE_TEXT, CHOICE_U32, CHOICE_U64 } kind;
	void *at; /* bool, const char *, ... */
};

/* Those that all programs have, and `own`, to a name that is NULL; then TRAIN, which need not be there. Exits with the usage if that is
 * not how the program is used. */
void options_read(int argc, char **argv, const struct choice *own, const char *usage);
__attribute__((noreturn)) void options_refuse(const char *usage);

/* ---- ctr_rows.c ---- */

struct rows {
	size_t count, room;
	size_t *begin; /* count + 1: of the features */
	float *label;  /* 0 or 1 */
	size_t features, features_room;
	uint64_t *key;
	float *x;
};

/* Of want.train and want.test, LIBSVM files or Criteo's logs; without want.test every fifth row becomes a test's. With
 * want.is_reference it makes want.key. */
void rows_load(struct rows *rows, struct rows *test);
void rows_free(struct rows *rows);
/* Sorts keys, and keeps one of each; how many. */
size_t keys_sort(uint64_t *key, size_t count);
/* Where a key is that is one of these. */
size_t keys_find(const uint64_t *key, size_t count, uint64_t wanted);
/* Prints want.generate of them. 0, or 1 if that fails. */
int rows_generate(void);

/* ---- ctr_table.c ---- */

struct table {
	struct tally_kv *kv; /* NULL: here */
	uint32_t dim;
	size_t keys; /* here: ascending */
	const uint64_t *key;
	float *value, *state;
};

/* Of the reference they are all that the rows have, in want.key. */
void table_open(struct table *table, const char *name, uint32_t dim);
/* Its workers wait for each other as `want` says. */
void table_open_stepped(struct table *table, const char *name, uint32_t dim);
void table_close(struct table *table);
void table_pull(struct table *table, const uint64_t *key, float *value, size_t count,
		uint64_t *timestamp);
void table_push(struct table *table, const uint64_t *key, const float *gradient, size_t count,
		uint64_t *timestamp);
void table_wait(struct table *table, uint64_t timestamp);
void table_step(struct table *table); /* this worker's step is over */

/* ---- ctr_batch.c ---- */

struct model {
	struct table w, v; /* v: with --factors */
};

/* Rows of a batch, and the features that are in any of them. */
struct batch {
	const struct rows *rows;
	const size_t *row; /* which */
	size_t count, features;
	size_t keys, room;
	uint64_t *key; /* ascending, CTR_BIAS first */
	uint32_t *at;  /* of each feature of each row, in order: which of these keys */
	float *w, *w_gradient, *v, *v_gradient;
	uint64_t w_pull, v_pull, w_push, v_push;
};

/* The rows of worker `rank` of `size`, in an order that seed and epoch say; the caller's. */
size_t *rows_order(const struct rows *rows, uint32_t epoch, uint32_t rank, uint32_t size,
		   size_t *mine);
/* Says which parameters it needs, and has them come. */
void batch_begin(struct batch *batch, struct model *model, const struct rows *rows,
		 const size_t *row, size_t count);
/* The loss of its rows with the parameters that have come. score: of each, or NULL; gradients are then made. */
double batch_end(struct batch *batch, struct model *model, double *score);
void batch_push(struct batch *batch, struct model *model);
void batch_free(struct batch *batch);

/* The batches of this worker's rows in an epoch, one after the other. */
struct feed {
	const struct rows *rows;
	struct batch *batch; /* want.ahead + 1 */
	size_t *row, mine, many, begun, taken, next;
	double began_s, shown_s;
};

void feed_begin(struct feed *feed, const struct rows *rows, uint32_t epoch, size_t many);
/* NULL: there are no more. Parameters of this one and of the next want.ahead are on their way then: of batch n not before
 * the gradients of batch n - 1 - want.ahead are in. */
struct batch *feed_take(struct feed *feed, struct model *model);
/* What was taken is done: shows it. */
void feed_show(struct feed *feed, uint32_t epoch, double loss);
void feed_end(struct feed *feed);

/* Of an epoch, of all workers. */
enum sum { SUM_LOSS, SUM_ROWS, SUM_PAIRS, SUM_HOT, SUM_BYTES, SUM_SECONDS, SUMS };

double now_s(void);
void progress(uint32_t epoch, size_t done, size_t all, double loss, double seconds);
/* What a table has sent since the last call. */
void traffic_add(const struct table *table, struct tally_kv_stats *before, double *sums);
/* The loss of a row of test, and the chance that a click has a higher score than another row. */
double evaluate(struct model *model, const struct rows *test, double *auc);
/* A line of an epoch; test: loss and AUC. more: what the program adds, as JSON or as text. */
void report(uint32_t epoch, const double *sums, const double *test, const char *more);

/* ---- the model: the program's own ---- */

/* The score of a row whose features are keys at[i] of the batch and have the values x[i]. */
double row_score(struct batch *batch, const uint32_t *at, const float *x, size_t features);
/* Adds to the batch's gradients those of the row that was scored last; error: its chance of a click, less what came. */
void row_learn(struct batch *batch, const uint32_t *at, const float *x, size_t features,
	       double error);

#endif
