/* SPDX-License-Identifier: Apache-2.0 */
/* ctr_batch.c - batches of ctr.c and deep.c: which parameters they need, what was lost, how good scores are. */
#include "examples/ctr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	TEST_ROWS = 1000, /* at once */
	BAR_COLUMNS = 30,
};

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

size_t *rows_order(const struct rows *rows, uint32_t epoch, uint32_t rank, uint32_t size,
		   size_t *mine)
{
	size_t *row = memory(NULL, rows->count, sizeof(*row)), count = 0;
	uint64_t state = want.seed * 1000003 + epoch * 1009 + rank;

	for (size_t i = rank; i < rows->count; i += size)
		row[count++] = i;
	for (size_t i = count; i > 1; i--) {
		size_t other = draw(&state) % i, kept = row[i - 1];

		row[i - 1] = row[other];
		row[other] = kept;
	}
	*mine = count;
	return row;
}

static void batch_widen(struct batch *batch, size_t features)
{
	batch->room = features;
	batch->key = memory(batch->key, features, sizeof(*batch->key));
	batch->at = memory(batch->at, features, sizeof(*batch->at));
	batch->w = memory(batch->w, features, sizeof(float));
	batch->w_gradient = memory(batch->w_gradient, features, sizeof(float));
	batch->v = memory(batch->v, features, FACTORS * sizeof(float));
	batch->v_gradient = memory(batch->v_gradient, features, FACTORS * sizeof(float));
}

void batch_free(struct batch *batch)
{
	free(batch->key);
	free(batch->at);
	free(batch->w);
	free(batch->w_gradient);
	free(batch->v);
	free(batch->v_gradient);
}

void batch_begin(struct batch *batch, struct model *model, const struct rows *rows,
		 const size_t *row, size_t count)
{
	size_t features = 0;

	batch->rows = rows;
	batch->row = row;
	batch->count = count;
	for (size_t i = 0; i < count; i++)
		features += rows->begin[row[i] + 1] - rows->begin[row[i]];
	if (features > batch->room)
		batch_widen(batch, features);
	batch->features = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = rows->begin[row[i]]; k < rows->begin[row[i] + 1]; k++)
			batch->key[batch->features++] = rows->key[k];
	batch->keys = keys_sort(batch->key, features);
	features = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = rows->begin[row[i]]; k < rows->begin[row[i] + 1]; k++)
			batch->at[features++] =
				(uint32_t)keys_find(batch->key, batch->keys, rows->key[k]);
	table_pull(&model->w, batch->key, batch->w, batch->keys, &batch->w_pull);
	if (want.factors) /* the bias has none */
		table_pull(&model->v, batch->key + 1, batch->v + FACTORS, batch->keys - 1,
			   &batch->v_pull);
}

static double loss_of(double score, bool is_click)
{
	double margin = is_click ? score : -score;

	return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

double batch_end(struct batch *batch, struct model *model, double *score)
{
	const struct rows *rows = batch->rows;
	const uint32_t *at = batch->at;
	double loss = 0;

	table_wait(&model->w, batch->w_pull);
	if (want.factors)
		table_wait(&model->v, batch->v_pull);
	memset(batch->w_gradient, 0, batch->keys * sizeof(float));
	memset(batch->v_gradient, 0, batch->keys * FACTORS * sizeof(float));
	for (size_t i = 0; i < batch->count; i++) {
		size_t first = rows->begin[batch->row[i]];
		size_t features = rows->begin[batch->row[i] + 1] - first;
		bool is_click = rows->label[batch->row[i]] > 0;
		double one = row_score(batch, at, rows->x + first, features);

		loss += loss_of(one, is_click);
		if (score)
			score[i] = one;
		else
			row_learn(batch, at, rows->x + first, features,
				  1 / (1 + exp(-one)) - is_click);
		at += features;
	}
	return loss;
}

void batch_push(struct batch *batch, struct model *model)
{
	table_push(&model->w, batch->key, batch->w_gradient, batch->keys, &batch->w_push);
	if (want.factors)
		table_push(&model->v, batch->key + 1, batch->v_gradient + FACTORS, batch->keys - 1,
			   &batch->v_push);
}

/* ---- one after the other ---- */

void feed_begin(struct feed *feed, const struct rows *rows, uint32_t epoch, size_t many)
{
	*feed = (struct feed){ .rows = rows, .many = many, .began_s = now_s() };
	feed->shown_s = feed->began_s;
	feed->row = rows_order(rows, epoch, want.rank, want.size, &feed->mine);
	feed->batch = calloc(want.ahead + 1ul, sizeof(*feed->batch));
	if (!feed->batch)
		die("out of memory");
}

struct batch *feed_take(struct feed *feed, struct model *model)
{
	size_t slots = want.ahead + 1ul, now = feed->taken;

	for (; feed->next < now + slots && feed->begun < feed->mine; feed->next++) {
		struct batch *batch = &feed->batch[feed->next % slots];
		size_t left = feed->mine - feed->begun,
		       count = left < feed->many ? left : feed->many;

		table_wait(&model->w, batch->w_push);
		table_wait(&model->v, batch->v_push);
		batch_begin(batch, model, feed->rows, feed->row + feed->begun, count);
		feed->begun += count;
	}
	if (now == feed->next)
		return NULL;
	feed->taken++;
	return &feed->batch[now % slots];
}

void feed_end(struct feed *feed)
{
	for (size_t i = 0; i <= want.ahead; i++)
		batch_free(&feed->batch[i]);
	free(feed->batch);
	free(feed->row);
}

/* ---- what is seen of it ---- */

void feed_show(struct feed *feed, uint32_t epoch, double loss)
{
	size_t done = feed->taken * feed->many;

	if (done > feed->mine)
		done = feed->mine;
	if (now_s() - feed->shown_s <= 0.2 && done < feed->mine)
		return;
	feed->shown_s = now_s();
	progress(epoch, done, feed->mine, loss, feed->shown_s - feed->began_s);
}

void progress(uint32_t epoch, size_t done, size_t all, double loss, double seconds)
{
	char bar[BAR_COLUMNS + 1];

	if (want.rank || !isatty(STDERR_FILENO))
		return;
	memset(bar, '.', BAR_COLUMNS);
	memset(bar, '#', done * BAR_COLUMNS / all);
	bar[BAR_COLUMNS] = 0;
	fprintf(stderr, "\repoch %2u [%s] %3zu %%  log loss %.4f  %.0f rows/s%s", epoch, bar,
		done * 100 / all, loss / (double)done, (double)done * want.size / seconds,
		done == all ? "\r\033[K" : "");
}

void traffic_add(const struct table *table, struct tally_kv_stats *before, double *sums)
{
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT;

	if (!table->kv)
		return;
	check(tally_kv_get_stats(table->kv, &stats));
	sums[SUM_PAIRS] += (double)(stats.pairs - before->pairs);
	sums[SUM_HOT] += (double)(stats.pairs_hot - before->pairs_hot);
	sums[SUM_BYTES] += (double)(stats.bytes_out - before->bytes_out) +
			   (double)(stats.bytes_in - before->bytes_in);
	*before = stats;
}

/* ---- how good it is ---- */

struct scored {
	double score;
	bool is_click;
};

static int by_score(const void *a, const void *b)
{
	const struct scored *one = a, *other = b;

	return one->score < other->score ? -1 : one->score > other->score;
}

/* The chance that a click has a higher score than another row; equal scores are half of one. */
static double auc_of(struct scored *scored, size_t count)
{
	double clicks = 0, others = 0, pairs = 0;

	qsort(scored, count, sizeof(*scored), by_score);
	for (size_t i = 0, end; i < count; i = end) {
		double clicks_here = 0, others_here = 0;

		for (end = i; end < count && !by_score(&scored[i], &scored[end]); end++) {
			clicks_here += scored[end].is_click;
			others_here += !scored[end].is_click;
		}
		pairs += clicks_here * (others + others_here / 2);
		clicks += clicks_here;
		others += others_here;
	}
	return clicks > 0 && others > 0 ? pairs / (clicks * others) : 0.5;
}

double evaluate(struct model *model, const struct rows *rows, double *auc)
{
	struct scored *scored = memory(NULL, rows->count, sizeof(*scored));
	struct batch batch = { 0 };
	size_t row[TEST_ROWS], count;
	double score[TEST_ROWS], loss = 0;

	for (size_t at = 0; at < rows->count; at += count) {
		count = rows->count - at < TEST_ROWS ? rows->count - at : TEST_ROWS;
		for (size_t i = 0; i < count; i++)
			row[i] = at + i;
		batch_begin(&batch, model, rows, row, count);
		loss += batch_end(&batch, model, score);
		for (size_t i = 0; i < count; i++)
			scored[at + i] = (struct scored){ score[i], rows->label[at + i] > 0 };
	}
	*auc = auc_of(scored, rows->count);
	batch_free(&batch);
	free(scored);
	return loss / (double)rows->count;
}

void report(uint32_t epoch, const double *sums, const double *test, const char *more)
{
	double seconds = sums[SUM_SECONDS] / want.size, pairs = sums[SUM_PAIRS];
	double loss = sums[SUM_LOSS] / sums[SUM_ROWS], hot = pairs > 0 ? sums[SUM_HOT] / pairs : 0;

	if (want.is_json)
		printf("{\"epoch\":%u,\"loss\":%.6f,\"test_loss\":%.6f,\"auc\":%.6f,\"rows\":%.0f,"
		       "\"seconds\":%.3f,\"pairs_per_s\":%.0f,\"hot_share\":%.4f,\"bytes\":%.0f%s}"
		       "\n",
		       epoch, loss, test[0], test[1], sums[SUM_ROWS], seconds, pairs / seconds, hot,
		       sums[SUM_BYTES], more);
	else
		printf("epoch %2u  log loss %.4f  test %.4f  AUC %.4f  %6.2f s", epoch, loss,
		       test[0], test[1], seconds);
	if (!want.is_json && !want.is_reference)
		printf("  %.0f pairs/s, %.1f %% of them summed on the way, %.1f MB%s",
		       pairs / seconds, 100 * hot, sums[SUM_BYTES] * 1e-6, more);
	if (!want.is_json)
		putchar('\n');
	fflush(stdout);
}
