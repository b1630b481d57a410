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
 * gradients: look for tally_. The optimizers are the servers'. It is asynchronous: while one batch is computed the
 * next one's parameters are on their way, and nobody waits for another worker before the end of an epoch; so two
 * runs differ a little. Servers with map=FILE of `tally hot` have the hot features summed by a switch.
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/ctr.h"

struct settings want = { .epochs = 3, .batch = 100, .seed = 1, .size = 1 };

enum {
	FACTORS = 8,
	UNDER_WAY = 4,    /* batches whose gradients are not committed yet */
	TEST_ROWS = 1000, /* at once */
	BAR_COLUMNS = 30,
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- batches ---- */

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
	size_t at_room;
	float *w, *w_gradient, *v, *v_gradient;
	uint64_t w_pull, v_pull, w_push, v_push;
};

static int by_key(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
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

static void batch_free(struct batch *batch)
{
	free(batch->key);
	free(batch->at);
	free(batch->w);
	free(batch->w_gradient);
	free(batch->v);
	free(batch->v_gradient);
}

/* Says which parameters it needs, and has them come. */
static void batch_begin(struct batch *batch, struct model *model, const struct rows *rows,
			const size_t *row, size_t count)
{
	size_t features = 0, kept = 0;

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
	qsort(batch->key, features, sizeof(*batch->key), by_key);
	for (size_t i = 0; i < features; i++)
		if (!i || batch->key[i] != batch->key[i - 1])
			batch->key[kept++] = batch->key[i];
	batch->keys = kept;
	features = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = rows->begin[row[i]]; k < rows->begin[row[i] + 1]; k++) {
			const uint64_t *found = bsearch(&rows->key[k], batch->key, kept,
							sizeof(*batch->key), by_key);

			batch->at[features++] = (uint32_t)(found - batch->key);
		}
	}
	table_pull(&model->w, batch->key, batch->w, kept, &batch->w_pull);
	if (want.factors) /* the bias has none */
		table_pull(&model->v, batch->key + 1, batch->v + FACTORS, kept - 1, &batch->v_pull);
}

/* The score of a row; sums: of factors times x. */
static double score_of(const struct batch *batch, const uint32_t *at, const float *x,
		       size_t features, double *sums)
{
	double score = 0, squares = 0;

	for (size_t i = 0; i < features; i++)
		score += (double)(batch->w[at[i]] * x[i]);
	if (!want.factors)
		return score;
	memset(sums, 0, FACTORS * sizeof(*sums));
	for (size_t i = 1; i < features; i++) {
		for (uint32_t k = 0; k < FACTORS; k++) {
			double part = (double)(batch->v[at[i] * FACTORS + k] * x[i]);

			sums[k] += part;
			squares += part * part;
		}
	}
	for (uint32_t k = 0; k < FACTORS; k++)
		score += 0.5 * sums[k] * sums[k];
	return score - 0.5 * squares;
}

static double loss_of(double score, bool is_click)
{
	double margin = is_click ? score : -score;

	return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

static void gradient_add(struct batch *batch, const uint32_t *at, const float *x, size_t features,
			 double error, const double *sums)
{
	for (size_t i = 0; i < features; i++)
		batch->w_gradient[at[i]] += (float)(error * (double)x[i]);
	for (size_t i = 1; i < features && want.factors; i++)
		for (uint32_t k = 0; k < FACTORS; k++)
			batch->v_gradient[at[i] * FACTORS + k] +=
				(float)(error * (double)x[i] *
					(sums[k] - (double)(batch->v[at[i] * FACTORS + k] * x[i])));
}

/* The loss of its rows with the parameters that have come. score: of each, or NULL; gradients are then made. */
static double batch_end(struct batch *batch, struct model *model, double *score)
{
	const struct rows *rows = batch->rows;
	const uint32_t *at = batch->at;
	double loss = 0, sums[FACTORS];

	table_wait(&model->w, batch->w_pull);
	if (want.factors)
		table_wait(&model->v, batch->v_pull);
	memset(batch->w_gradient, 0, batch->keys * sizeof(float));
	memset(batch->v_gradient, 0, batch->keys * FACTORS * sizeof(float));
	for (size_t i = 0; i < batch->count; i++) {
		size_t first = rows->begin[batch->row[i]];
		size_t features = rows->begin[batch->row[i] + 1] - first;
		bool is_click = rows->label[batch->row[i]] > 0;
		double one = score_of(batch, at, rows->x + first, features, sums);

		loss += loss_of(one, is_click);
		if (score)
			score[i] = one;
		else
			gradient_add(batch, at, rows->x + first, features,
				     1 / (1 + exp(-one)) - is_click, sums);
		at += features;
	}
	return loss;
}

static void batch_push(struct batch *batch, struct model *model)
{
	table_push(&model->w, batch->key, batch->w_gradient, batch->keys, &batch->w_push);
	if (want.factors)
		table_push(&model->v, batch->key + 1, batch->v_gradient + FACTORS, batch->keys - 1,
			   &batch->v_push);
}

/* ---- training ---- */

/* Of an epoch, of all workers. */
enum sum { SUM_LOSS, SUM_ROWS, SUM_PAIRS, SUM_HOT, SUM_BYTES, SUM_SECONDS, SUMS };

static void progress(uint32_t epoch, size_t done, size_t all, double loss, double seconds)
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

/* This worker's rows once, in an order that seed and epoch say. */
static void train(struct model *model, const struct rows *rows, uint32_t epoch, double *sums)
{
	struct batch batch[UNDER_WAY] = { 0 };
	size_t *row = memory(NULL, rows->count, sizeof(*row)), mine = 0, begun = 0, next = 0;
	uint64_t state = want.seed * 1000003 + epoch * 1009 + want.rank;
	double began_s = now_s(), shown_s = began_s;

	for (size_t i = want.rank; i < rows->count; i += want.size)
		row[mine++] = i;
	for (size_t i = mine; i > 1; i--) {
		size_t other = draw(&state) % i, kept = row[i - 1];

		row[i - 1] = row[other];
		row[other] = kept;
	}
	for (size_t done = 0, many = 0; done < mine; many++) {
		struct batch *now = &batch[many % UNDER_WAY];

		/* The next one's parameters come while this one is computed. */
		for (; next < many + 2 && begun < mine; next++) {
			struct batch *it = &batch[next % UNDER_WAY];
			size_t count = mine - begun < want.batch ? mine - begun : want.batch;

			table_wait(&model->w, it->w_push);
			table_wait(&model->v, it->v_push);
			batch_begin(it, model, rows, row + begun, count);
			begun += count;
		}
		sums[SUM_LOSS] += batch_end(now, model, NULL);
		batch_push(now, model);
		done += now->count;
		if (now_s() - shown_s > 0.2 || done == mine) {
			shown_s = now_s();
			progress(epoch, done, mine, sums[SUM_LOSS], shown_s - began_s);
		}
	}
	sums[SUM_ROWS] = (double)mine;
	for (uint32_t i = 0; i < UNDER_WAY; i++)
		batch_free(&batch[i]);
	free(row);
}

/* What a table has sent since the last call. */
static void traffic_add(const struct table *table, struct tally_kv_stats *before, double *sums)
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

static double evaluate(struct model *model, const struct rows *rows, double *auc)
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

static void report(uint32_t epoch, const double *sums, double test_loss, double auc)
{
	double seconds = sums[SUM_SECONDS] / want.size, pairs = sums[SUM_PAIRS];
	double loss = sums[SUM_LOSS] / sums[SUM_ROWS], hot = pairs > 0 ? sums[SUM_HOT] / pairs : 0;

	if (want.is_json)
		printf("{\"epoch\":%u,\"loss\":%.6f,\"test_loss\":%.6f,\"auc\":%.6f,\"rows\":%.0f,"
		       "\"seconds\":%.3f,\"pairs_per_s\":%.0f,\"hot_share\":%.4f,\"bytes\":%.0f}\n",
		       epoch, loss, test_loss, auc, sums[SUM_ROWS], seconds, pairs / seconds, hot,
		       sums[SUM_BYTES]);
	else
		printf("epoch %2u  log loss %.4f  test %.4f  AUC %.4f  %6.2f s", epoch, loss,
		       test_loss, auc, seconds);
	if (!want.is_json && !want.is_reference)
		printf("  %.0f pairs/s, %.1f %% of them summed on the way, %.1f MB",
		       pairs / seconds, 100 * hot, sums[SUM_BYTES] * 1e-6);
	if (!want.is_json)
		putchar('\n');
	fflush(stdout);
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

	table_open(&model.w, "ctr.w", 1);
	if (want.factors)
		table_open(&model.v, "ctr.v", FACTORS);
	if (!want.is_reference)
		table_open(&totals, "ctr.sums", SUMS);
	for (uint32_t epoch = 1; epoch <= want.epochs; epoch++) {
		double sums[SUMS] = { 0 }, test_loss, auc, began_s = now_s();

		train(&model, rows, epoch, sums);
		all_wait(&model, &totals); /* all that was pushed is committed */
		sums[SUM_SECONDS] = now_s() - began_s;
		traffic_add(&model.w, &w_before, sums);
		traffic_add(&model.v, &v_before, sums);
		share(&totals, epoch, sums);
		if (!want.rank) {
			test_loss = evaluate(&model, test, &auc);
			report(epoch, sums, test_loss, auc);
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
	"  --seed S       the order of rows (1)\n"
	"  --json         a line for each epoch\n"
	"The servers need these tables (tally-ps --table): "
	"ctr.w,dim=1,optimizer=ftrl,rate=0.1,l2=1\n"
	"ctr.sums,dim=6,optimizer=sum, and for --fm\n"
	"ctr.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05\n";

static void options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "test", required_argument, NULL, 't' },
		{ "fm", no_argument, NULL, 'f' },
		{ "epochs", required_argument, NULL, 'e' },
		{ "batch", required_argument, NULL, 'b' },
		{ "seed", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "reference", no_argument, NULL, 'r' },
		{ "generate", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (option == 't')
			want.test = optarg;
		else if (option == 'f')
			want.factors = FACTORS;
		else if (option == 'e')
			want.epochs = (uint32_t)number;
		else if (option == 'b')
			want.batch = (uint32_t)number;
		else if (option == 's')
			want.seed = number;
		else if (option == 'j')
			want.is_json = true;
		else if (option == 'r')
			want.is_reference = true;
		else if (option == 'g')
			want.generate = number;
		else
			exit(option == 'h' ? (fputs(usage, stdout), 0) : (fputs(usage, stderr), 2));
	}
	want.train = argv[optind];
	if (!want.batch || (!want.generate && optind + 1 != argc)) {
		fputs(usage, stderr);
		exit(2);
	}
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
	rows_read(&rows, want.train);
	if (want.test)
		rows_read(&test, want.test);
	else
		rows_hold_out(&rows, &test);
	run(&rows, &test);
	rows_free(&rows);
	rows_free(&test);
	return 0;
}
