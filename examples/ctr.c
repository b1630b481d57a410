/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctr.c - will it be clicked? Logistic regression (FTRL), or a factorisation machine, with its parameters on servers.
 *
 *     examples/ctr.sh                                   all of it on this machine, and compared with one process
 *
 *     tally-ps --workers 4 --dir d --table ctr.w,dim=1,optimizer=ftrl,rate=0.1,l2=1 \
 *         --table ctr.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05 \
 *         --table ctr.sums,dim=6,optimizer=sum &
 *     TALLY_SERVERS=127.0.0.1 tally run -n 4 -- ctr train.libsvm
 *
 * A worker takes every size'th row. For each batch of rows it pulls the parameters of their features, and pushes their
 * gradients: look for tally_. The optimizers are the servers'. It is asynchronous: nobody waits for another worker before
 * the end of an epoch, so two runs differ a little, as much as two orders of rows do in one process. A worker pulls when its own last
 * gradients are in. With --ahead N the next N batches' parameters are on their way while one is computed: faster, and older by as much, and
 * sums of hot features by more, for what nobody waits for comes with the end of their epoch. With --staleness S no worker is more than S batches ahead of another; with --sync (and mode=sync
 * among the words of ctr.w and ctr.v) the batches of all workers are one step of the optimizer, and all runs are the
 * same. Servers with map=FILE of `tally hot` have the hot features summed by a switch.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ctr.h"

#define NEVER UINT32_MAX /* nobody waits for others */

struct settings want = { .epochs = 3, .batch = 100, .seed = 1, .size = 1, .staleness = NEVER };

/* Of factors times x, in the row that was scored last. */
static double factor_sum[FACTORS];

double row_score(struct batch *batch, const uint32_t *at, const float *x, size_t features)
{
	double score = 0, squares = 0;

	for (size_t i = 0; i < features; i++)
		score += (double)(batch->w[at[i]] * x[i]);
	if (!want.factors)
		return score;
	memset(factor_sum, 0, sizeof(factor_sum));
	for (size_t i = 1; i < features; i++) {
		for (uint32_t k = 0; k < FACTORS; k++) {
			double part = (double)(batch->v[at[i] * FACTORS + k] * x[i]);

			factor_sum[k] += part;
			squares += part * part;
		}
	}
	for (uint32_t k = 0; k < FACTORS; k++)
		score += 0.5 * factor_sum[k] * factor_sum[k];
	return score - 0.5 * squares;
}

void row_learn(struct batch *batch, const uint32_t *at, const float *x, size_t features,
	       double error)
{
	for (size_t i = 0; i < features; i++)
		batch->w_gradient[at[i]] += (float)(error * (double)x[i]);
	for (size_t i = 1; i < features && want.factors; i++)
		for (uint32_t k = 0; k < FACTORS; k++)
			batch->v_gradient[at[i] * FACTORS + k] +=
				(float)(error * (double)x[i] *
					(factor_sum[k] -
					 (double)(batch->v[at[i] * FACTORS + k] * x[i])));
}

/* ---- training ---- */

/* This worker's rows once. */
static void train(struct model *model, const struct rows *rows, uint32_t epoch, double *sums)
{
	struct batch *now;
	struct feed feed;

	feed_begin(&feed, rows, epoch, want.batch);
	while ((now = feed_take(&feed, model))) {
		sums[SUM_LOSS] += batch_end(now, model, NULL);
		batch_push(now, model);
		feed_show(&feed, epoch, sums[SUM_LOSS]);
	}
	sums[SUM_ROWS] = (double)feed.mine;
	feed_end(&feed);
}

/* Its rows once, in steps, as many on all workers: who has no row left for one has an empty step. The reference has all
 * workers' rows of a step in one batch. */
static void train_steps(struct model *model, const struct rows *rows, uint32_t epoch, double *sums)
{
	uint32_t size = want.workers ? want.workers : want.size, parts = want.workers ? size : 1;
	size_t share = (rows->count + size - 1) / size,
	       steps = (share + want.batch - 1) / want.batch;
	size_t **row = memory(NULL, parts, sizeof(*row)),
	       *mine = memory(NULL, parts, sizeof(*mine));
	size_t *now = memory(NULL, (size_t)parts * want.batch, sizeof(*now)), all = 0;
	struct batch batch = { 0 };
	double began_s = now_s();

	for (uint32_t part = 0; part < parts; part++) {
		row[part] = rows_order(rows, epoch, want.rank + part, size, &mine[part]);
		all += mine[part];
	}
	for (size_t step = 0; step < steps; step++) {
		size_t first = step * want.batch, count = 0;

		for (uint32_t part = 0; part < parts; part++)
			for (size_t i = first; i < first + want.batch && i < mine[part]; i++)
				now[count++] = row[part][i];
		if (count) {
			batch_begin(&batch, model, rows, now, count);
			sums[SUM_LOSS] += batch_end(&batch, model, NULL);
			batch_push(&batch, model);
		}
		table_step(&model->w);
		table_step(&model->v);
		sums[SUM_ROWS] += (double)count;
		progress(epoch, (size_t)sums[SUM_ROWS], all, sums[SUM_LOSS], now_s() - began_s);
	}
	batch_free(&batch);
	for (uint32_t part = 0; part < parts; part++)
		free(row[part]);
	free(row);
	free(mine);
	free(now);
}

/* ---- all of it ---- */

static void all_wait(struct model *model, struct table *sums)
{
	struct table *tables[] = { &model->w, &model->v, sums };

	for (int i = 0; i < 3; i++)
		if (tables[i]->kv)
			check(tally_kv_barrier(tables[i]->kv));
}

/* Adds up what all workers know of an epoch: a table of sums does that, too. */
static void share(struct table *table, uint32_t epoch, double *sums)
{
	float mine[SUMS], all[SUMS];
	const uint64_t key = epoch;
	uint64_t timestamp;

	if (!table->kv)
		return;
	for (int i = 0; i < SUMS; i++)
		mine[i] = (float)sums[i];
	check(tally_kv_push(table->kv, &key, mine, 1, NULL));
	check(tally_kv_barrier(table->kv));
	check(tally_kv_pull(table->kv, &key, all, 1, &timestamp));
	check(tally_kv_wait(table->kv, timestamp, -1));
	for (int i = 0; i < SUMS; i++)
		sums[i] = (double)all[i];
}

static void run(const struct rows *rows, const struct rows *test)
{
	struct tally_kv_stats w_before = TALLY_KV_STATS_INIT, v_before = TALLY_KV_STATS_INIT;
	struct model model = { 0 };
	struct table totals = { 0 };

	table_open_stepped(&model.w, "ctr.w", 1);
	if (want.factors)
		table_open_stepped(&model.v, "ctr.v", FACTORS);
	if (!want.is_reference)
		table_open(&totals, "ctr.sums", SUMS);
	for (uint32_t epoch = 1; epoch <= want.epochs; epoch++) {
		double sums[SUMS] = { 0 }, scores[2], began_s = now_s();

		if (want.mode != TALLY_KV_ASYNC || want.workers)
			train_steps(&model, rows, epoch, sums);
		else
			train(&model, rows, epoch, sums);
		all_wait(&model, &totals); /* all that was pushed is committed */
		sums[SUM_SECONDS] = now_s() - began_s;
		traffic_add(&model.w, &w_before, sums);
		traffic_add(&model.v, &v_before, sums);
		share(&totals, epoch, sums);
		if (!want.rank) {
			scores[0] = evaluate(&model, test, &scores[1]);
			report(epoch, sums, scores, "");
		}
		all_wait(&model, &totals); /* nobody trains while worker 0 looks */
	}
	table_close(&model.w);
	table_close(&model.v);
	table_close(&totals);
}

static const char usage[] =
	"usage: [TALLY_SERVERS=...] tally run -n 4 -- ctr [OPTION...] TRAIN\n"
	"       ctr --reference [OPTION...] TRAIN     one process, without tally\n"
	"       ctr --generate ROWS [--seed S] > FILE\n"
	"\n"
	"TRAIN: LIBSVM, or Criteo's log (label, 13 numbers, 26 categories, tabs).\n"
	"  --test FILE    of the same kind (every fifth row of TRAIN)\n"
	"  --fm           a factorisation machine with 8 factors (logistic regression)\n"
	"  --epochs N     (3)\n"
	"  --batch N      rows (100)\n"
	"  --ahead N      pull the parameters of N batches before this one's gradients are in (0)\n"
	"  --seed S       the order of rows (1)\n"
	"  --json         a line for each epoch\n"
	"  --sync         all workers make each step together (tables with mode=sync)\n"
	"  --staleness S  no worker is more than S batches ahead\n"
	"  --workers N    with --reference: the mini-batches of N workers with --sync\n"
	"The servers need these tables (tally-ps --table): "
	"ctr.w,dim=1,optimizer=ftrl,rate=0.1,l2=1\n"
	"ctr.sums,dim=6,optimizer=sum, and for --fm\n"
	"ctr.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05\n";

static const struct choice choices[] = {
	{ "fm", CHOICE_FLAG, &want.is_fm },           { "sync", CHOICE_FLAG, &want.is_sync },
	{ "staleness", CHOICE_U32, &want.staleness }, { "workers", CHOICE_U32, &want.workers },
	{ "generate", CHOICE_U64, &want.generate },   { NULL, CHOICE_FLAG, NULL },
};

static void options(int argc, char **argv)
{
	options_read(argc, argv, choices, usage);
	if ((want.workers && !want.is_reference) || !want.generate != !!want.train)
		options_refuse(usage);
	want.factors = want.is_fm ? FACTORS : 0;
	if (want.is_sync)
		want.mode = TALLY_KV_SYNC;
	else if (want.staleness != NEVER)
		want.mode = TALLY_KV_BOUNDED;
	if (!want.is_reference && getenv("TALLY_SIZE") && getenv("TALLY_RANK")) {
		want.size = (uint32_t)atoi(getenv("TALLY_SIZE"));
		want.rank = (uint32_t)atoi(getenv("TALLY_RANK"));
	}
}

int main(int argc, char **argv)
{
	struct rows rows = { 0 }, test = { 0 };

	options(argc, argv);
	if (want.generate)
		return rows_generate();
	rows_load(&rows, &test);
	run(&rows, &test);
	rows_free(&rows);
	rows_free(&test);
	free(want.key);
	return 0;
}
