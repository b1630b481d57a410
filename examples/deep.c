/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deep.c - both tiers of a sparse model in one job: embeddings on servers, a tower of dense layers on every worker.
 *
 *     examples/deep.sh                                  all of it on this machine, and compared with one process
 *
 *     tally-ps --workers 4 --dir d --table deep.w,dim=1,optimizer=ftrl,rate=0.1,l2=1 \
 *         --table deep.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05 &
 *     TALLY_SERVERS=127.0.0.1 tally run -n 4 -- deep train.libsvm
 *
 * The first tier is sparse: of each feature a weight and an embedding of 8 numbers, pulled from the servers and pushed
 * to them, as ctr.c does it, without waiting for other workers. The second is dense: what the embeddings of a row come to
 * (their sum, and the sum of their products two by two) goes through two hidden layers, and their score is added
 * to that of the weights. All workers have the same tower: it begins with the same numbers, and each step takes one sum
 * of all workers' gradients (tally_allreduce), the same bits everywhere; so the tower stays the same, which is checked.
 * The sum is on its way while the embeddings' gradients are pushed.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ctr.h"

struct settings want = { .epochs = 3, .batch = 400, .factors = FACTORS, .seed = 1, .size = 1 };

enum {
	TEXT_BYTES = 128,
	INPUTS = 2 * FACTORS,
	HIDDEN = 32,
	HIDDEN_MAX = 1024,
};

static uint32_t hidden = HIDDEN;
static struct tally_comm *comm; /* NULL: the reference */

/* ---- the tower ---- */

static const float ADAM_RATE = 0.003f, ADAM_FIRST = 0.9f, ADAM_SECOND = 0.999f;
static const float ADAM_EPSILON = 1e-8f;

/* From `inputs` numbers to `outputs`: weights [out][in], then a bias of each. */
struct layer {
	uint32_t inputs, outputs;
	float *weight, *gradient, *in, *out, *delta; /* delta: the loss's gradient by in */
};

enum { LAYERS = 3 };

static struct tower {
	size_t count; /* of parameters, layer after layer in one vector */
	float *parameter, *gradient, *first, *second;
	uint32_t steps;
	struct layer layer[LAYERS];
	double sum[FACTORS]; /* of the row that was scored last: its embeddings times x */
} tower;

static float *floats(size_t count)
{
	float *at = calloc(count, sizeof(*at));

	if (!at)
		die("out of memory");
	return at;
}

static void tower_open(void)
{
	const uint32_t width[LAYERS + 1] = { INPUTS, hidden, hidden, 1 };
	uint64_t state = want.seed; /* the same on all workers */
	float *out = floats(INPUTS), *parameter, *gradient;

	for (int i = 0; i < LAYERS; i++)
		tower.count += (size_t)width[i + 1] * (width[i] + 1);
	tower.parameter = parameter = floats(tower.count);
	tower.gradient = gradient = floats(tower.count);
	tower.first = floats(tower.count);
	tower.second = floats(tower.count);
	for (int i = 0; i < LAYERS; i++) {
		struct layer *layer = &tower.layer[i];
		size_t weights = (size_t)width[i] * width[i + 1];
		double range = sqrt(6.0 / width[i]); /* He's initialisation */

		*layer = (struct layer){ width[i], width[i + 1], parameter, gradient,
					 out,      NULL,         NULL };
		layer->out = out = floats(width[i + 1]);
		layer->delta = floats(width[i]);
		for (size_t k = 0; k < weights; k++)
			parameter[k] = (float)(range * (2 * uniform(&state) - 1));
		parameter += weights + width[i + 1];
		gradient += weights + width[i + 1];
	}
}

static void tower_close(void)
{
	free(tower.layer[0].in);
	for (int i = 0; i < LAYERS; i++) {
		free(tower.layer[i].out);
		free(tower.layer[i].delta);
	}
	free(tower.parameter);
	free(tower.gradient);
	free(tower.first);
	free(tower.second);
}

static void layer_forward(struct layer *layer, bool is_rectified)
{
	const float *weight = layer->weight,
		    *bias = weight + (size_t)layer->inputs * layer->outputs;

	for (uint32_t o = 0; o < layer->outputs; o++, weight += layer->inputs) {
		float sum = bias[o];

		for (uint32_t i = 0; i < layer->inputs; i++)
			sum += weight[i] * layer->in[i];
		layer->out[o] = is_rectified && sum < 0 ? 0 : sum;
	}
}

/* delta_out: the loss's gradient by what comes out; what is rectified away has none. */
static void layer_backward(struct layer *layer, const float *delta_out, bool is_rectified)
{
	size_t weights = (size_t)layer->inputs * layer->outputs;

	memset(layer->delta, 0, layer->inputs * sizeof(float));
	for (uint32_t o = 0; o < layer->outputs; o++) {
		const float *weight = layer->weight + (size_t)o * layer->inputs;
		float *gradient = layer->gradient + (size_t)o * layer->inputs, delta = delta_out[o];

		if (is_rectified && layer->out[o] <= 0)
			continue;
		for (uint32_t i = 0; i < layer->inputs; i++) {
			gradient[i] += delta * layer->in[i];
			layer->delta[i] += delta * weight[i];
		}
		layer->gradient[weights + o] += delta;
	}
}

/* A step of Adam, the same on all workers: the sum of all rows' gradients comes in. */
static void tower_step(size_t rows)
{
	float grown_first, grown_second;

	tower.steps++;
	grown_first = 1 - powf(ADAM_FIRST, (float)tower.steps);
	grown_second = 1 - powf(ADAM_SECOND, (float)tower.steps);
	for (size_t i = 0; i < tower.count; i++) {
		float g = tower.gradient[i] / (float)rows;

		tower.first[i] += (1 - ADAM_FIRST) * (g - tower.first[i]);
		tower.second[i] += (1 - ADAM_SECOND) * (g * g - tower.second[i]);
		tower.parameter[i] -= ADAM_RATE * (tower.first[i] / grown_first) /
				      (sqrtf(tower.second[i] / grown_second) + ADAM_EPSILON);
	}
	memset(tower.gradient, 0, tower.count * sizeof(float));
}

/* ---- the model ---- */

double row_score(struct batch *batch, const uint32_t *at, const float *x, size_t features)
{
	float *sums = tower.layer[0].in, *products = sums + FACTORS;
	double score = 0, squares[FACTORS] = { 0 };

	memset(tower.sum, 0, sizeof(tower.sum));
	score += (double)(batch->w[at[0]] * x[0]);
	for (size_t i = 1; i < features; i++) {
		const float *v = batch->v + (size_t)at[i] * FACTORS;

		score += (double)(batch->w[at[i]] * x[i]);
		for (uint32_t k = 0; k < FACTORS; k++) {
			double part = (double)(v[k] * x[i]);

			tower.sum[k] += part;
			squares[k] += part * part;
		}
	}
	for (uint32_t k = 0; k < FACTORS; k++) {
		sums[k] = (float)tower.sum[k];
		products[k] = (float)(0.5 * (tower.sum[k] * tower.sum[k] - squares[k]));
	}
	for (int i = 0; i < LAYERS; i++)
		layer_forward(&tower.layer[i], i < LAYERS - 1);
	return score + (double)tower.layer[LAYERS - 1].out[0];
}

void row_learn(struct batch *batch, const uint32_t *at, const float *x, size_t features,
	       double error)
{
	const float *delta = tower.layer[0].delta, *by_products = delta + FACTORS;
	float by_score = (float)error;

	for (int i = LAYERS; i--;)
		layer_backward(&tower.layer[i],
			       i == LAYERS - 1 ? &by_score : tower.layer[i + 1].delta,
			       i < LAYERS - 1);
	for (size_t i = 0; i < features; i++)
		batch->w_gradient[at[i]] += (float)(error * (double)x[i]);
	for (size_t i = 1; i < features; i++) {
		const float *v = batch->v + (size_t)at[i] * FACTORS;
		float *gradient = batch->v_gradient + (size_t)at[i] * FACTORS;

		for (uint32_t k = 0; k < FACTORS; k++)
			gradient[k] += x[i] * (delta[k] + by_products[k] * ((float)tower.sum[k] -
									    v[k] * x[i]));
	}
}

/* ---- training ---- */

/* Rows that all workers together have in a step: each has every size'th row, and `batch` of them a step. */
static size_t rows_of_step(const struct rows *rows, size_t step, size_t batch)
{
	size_t all = 0;

	for (uint32_t rank = 0; rank < want.size; rank++) {
		size_t mine = (rows->count - rank + want.size - 1) / want.size;
		size_t left = mine > step * batch ? mine - step * batch : 0;

		all += left < batch ? left : batch;
	}
	return all;
}

/* This worker's rows once. All make as many steps, the last one with fewer rows, or none. */
static void train(struct model *model, const struct rows *rows, uint32_t epoch, double *sums)
{
	size_t many = want.batch / want.size ? want.batch / want.size : 1, all;
	struct feed feed;

	feed_begin(&feed, rows, epoch, many);
	for (size_t step = 0; (all = rows_of_step(rows, step, many)); step++) {
		struct batch *now = feed_take(&feed, model);
		struct tally_work *work = NULL;

		if (now)
			sums[SUM_LOSS] += batch_end(now, model, NULL);
		if (comm)
			check(tally_iallreduce(tower.gradient, tower.gradient, tower.count,
					       TALLY_FLOAT32, TALLY_SUM, comm, NULL, &work));
		if (now)
			batch_push(now, model);
		if (comm)
			check(tally_wait(&work, -1));
		tower_step(all);
		feed_show(&feed, epoch, sums[SUM_LOSS]);
	}
	sums[SUM_ROWS] = (double)feed.mine;
	feed_end(&feed);
}

/* Of all workers. One number an operation: each has an exponent of its own. */
static double share(double one)
{
	float number = (float)one;

	if (comm)
		check(tally_allreduce(&number, &number, 1, TALLY_FLOAT32, TALLY_SUM, comm));
	return (double)number;
}

/* A hash of the tower; that all workers have the same one is what the sum of all hashes says. */
static uint32_t tower_check(void)
{
	const unsigned char *byte = (const unsigned char *)tower.parameter;
	uint32_t hash = 0x811c9dc5;
	int32_t part[2];

	for (size_t i = 0; i < tower.count * sizeof(float); i++)
		hash = (hash ^ byte[i]) * 0x01000193;
	part[0] = (int32_t)(hash >> 16);
	part[1] = (int32_t)(hash & 0xffff);
	if (comm)
		check(tally_allreduce(part, part, 2, TALLY_INT32, TALLY_SUM, comm));
	else
		return hash;
	if (part[0] != (int32_t)(want.size * (hash >> 16)) ||
	    part[1] != (int32_t)(want.size * (hash & 0xffff)))
		die("the tower of worker %u is not that of the others", want.rank);
	return hash;
}

/* UDP payload of the job's operations, both ways. */
static double dense_bytes(void)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	if (!comm)
		return 0;
	check(tally_comm_get_stats(comm, &stats));
	return (double)stats.bytes_out + (double)stats.bytes_in;
}

/* What ctr.c has not. */
static const char *tower_said(double dense, uint32_t hash, char text[TEXT_BYTES])
{
	if (want.is_json)
		snprintf(text, TEXT_BYTES,
			 ",\"dense_bytes\":%.0f,\"dense_parameters\":%zu,\"tower\":\"%08x\"", dense,
			 tower.count, hash);
	else
		snprintf(text, TEXT_BYTES, "; tower: %.1f MB, %08x", dense * 1e-6, hash);
	return text;
}

/* ---- all of it ---- */

static void all_wait(struct model *model)
{
	if (!comm)
		return;
	check(tally_kv_barrier(model->w.kv));
	check(tally_kv_barrier(model->v.kv));
}

static void run(const struct rows *rows, const struct rows *test)
{
	struct tally_kv_stats w_before = TALLY_KV_STATS_INIT, v_before = TALLY_KV_STATS_INIT;
	struct model model = { 0 };

	if (!want.is_reference) {
		check(tally_comm_init_env(&comm, NULL)); /* rank and size: the launcher's */
		want.rank = tally_comm_rank(comm);
		want.size = tally_comm_size(comm);
	}
	table_open(&model.w, "deep.w", 1);
	table_open(&model.v, "deep.v", FACTORS);
	tower_open();
	for (uint32_t epoch = 1; epoch <= want.epochs; epoch++) {
		double sums[SUMS] = { 0 }, scores[2], began_s = now_s(), dense = dense_bytes();
		char text[TEXT_BYTES];
		uint32_t hash;

		train(&model, rows, epoch, sums);
		all_wait(&model); /* all that was pushed is committed */
		sums[SUM_SECONDS] = now_s() - began_s;
		dense = share(dense_bytes() - dense);
		traffic_add(&model.w, &w_before, sums);
		traffic_add(&model.v, &v_before, sums);
		hash = tower_check();
		for (int i = 0; i < SUMS; i++)
			sums[i] = share(sums[i]);
		if (!want.rank) {
			scores[0] = evaluate(&model, test, &scores[1]);
			report(epoch, sums, scores, tower_said(dense, hash, text));
		}
		all_wait(&model); /* nobody trains while worker 0 looks */
	}
	table_close(&model.w);
	table_close(&model.v);
	tower_close();
	if (comm)
		check(tally_comm_finalize(comm));
	tally_comm_destroy(comm);
}

static const char usage[] =
	"usage: [TALLY_SERVERS=...] tally run -n 4 -- deep [OPTION...] TRAIN\n"
	"       deep --reference [OPTION...] TRAIN     one process, without tally\n"
	"\n"
	"TRAIN: LIBSVM, or Criteo's log (label, 13 numbers, 26 categories, tabs).\n"
	"  --test FILE    of the same kind (every fifth row of TRAIN)\n"
	"  --hidden N     units of each hidden layer (32)\n"
	"  --epochs N     (3)\n"
	"  --batch N      rows of a step, of all workers together (400)\n"
	"  --ahead N      pull the embeddings of N batches before this one's gradients are in (0)\n"
	"  --seed S       the order of rows, the tower's first numbers (1)\n"
	"  --json         a line for each epoch\n"
	"The servers need these tables (tally-ps --table): "
	"deep.w,dim=1,optimizer=ftrl,rate=0.1,l2=1\n"
	"deep.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05\n";

static const struct choice choices[] = {
	{ "hidden", CHOICE_U32, &hidden },
	{ NULL, CHOICE_FLAG, NULL },
};

int main(int argc, char **argv)
{
	struct rows rows = { 0 }, test = { 0 };

	options_read(argc, argv, choices, usage);
	if (!hidden || hidden > HIDDEN_MAX || !want.train)
		options_refuse(usage);
	rows_load(&rows, &test);
	run(&rows, &test);
	rows_free(&rows);
	rows_free(&test);
	free(want.key);
	return 0;
}
