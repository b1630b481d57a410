/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fashion.c - data-parallel training with tally: a perceptron (784-256-128-10) learns Fashion-MNIST.
 *
 *     tally run -n 4 -- ./fashion                       ranks on this machine
 *     TALLY_AGGREGATOR=10.0.0.1 mpirun ./fashion        ranks on several, one tallyd
 *
 * What makes it parallel is little: all ranks start from the same parameters, each takes its share of
 * every batch, and the gradients are added up over all ranks before the step (look for tally_). Since
 * the sum has the same bits on all ranks, so have the parameters, for ever: the hash at the end shows it.
 * With any number of ranks it computes the same as with one, but for rounding.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tally.h>
#include <zlib.h>

enum {
	PIXELS = 784,
	CLASSES = 10,
	LAYERS = 3,
	WIDTH_MAX = PIXELS,
	TRAIN_IMAGES = 60000,
	TEST_IMAGES = 10000,
	TEST_BATCH = 250,
	BATCH_MAX = 4096,
};

#define SOFTNESS 0.25f

static const int width[LAYERS + 1] = { PIXELS, 256, 128, CLASSES };

/* Two versions of the loops that take the time, where the compiler can: for any processor, and AVX2. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define FAST __attribute__((target_clones("default", "avx2")))
#else
#define FAST
#endif

static struct settings {
	const char *data, *gradients;
	int epochs, batch, images, steps;
	float rate;
	uint64_t seed;
	bool is_json;
} settings = {
	.data = "/usr/share/datasets/fashion-mnist",
	.epochs = 8,
	.batch = 256,
	.images = TRAIN_IMAGES,
	.rate = 0.1f,
	.seed = 1,
};

static struct tally_comm *comm;
static uint32_t rank, ranks;

/* ---- small things ---- */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "fashion: rank %u: %s: %s\n", rank, what, why);
	exit(1);
}

/* The library's text says which rank on which host did what. */
static void check(int result, const char *what)
{
	if (result)
		die(what, tally_get_last_error(comm));
}

static void *allocate(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		die("memory", strerror(errno));
	return memory;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* splitmix64: the same numbers on all ranks and machines. */
static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* ---- data ---- */

struct images {
	int count;
	uint8_t *pixels; /* PIXELS each */
	uint8_t *labels;
};

/* An idx file: a header of big-endian words, then bytes. */
static uint8_t *idx_read(const char *name, size_t header, size_t bytes)
{
	uint8_t *memory = allocate(header + bytes, 1);
	char path[4096];
	gzFile file;

	snprintf(path, sizeof(path), "%s/%s", settings.data, name);
	file = gzopen(path, "rb");
	if (!file)
		die(path, "not there: install dataset-fashion-mnist, or say --data DIR");
	if (gzread(file, memory, (unsigned)(header + bytes)) != (int)(header + bytes))
		die(path, "too short, or not gzip");
	gzclose(file);
	memmove(memory, memory + header, bytes);
	return memory;
}

static struct images images_read(const char *prefix, int count)
{
	struct images images = { .count = count };
	char name[64];

	snprintf(name, sizeof(name), "%s-images-idx3-ubyte.gz", prefix);
	images.pixels = idx_read(name, 16, (size_t)count * PIXELS);
	snprintf(name, sizeof(name), "%s-labels-idx1-ubyte.gz", prefix);
	images.labels = idx_read(name, 8, (size_t)count);
	for (int i = 0; i < count; i++)
		if (images.labels[i] >= CLASSES)
			die(name, "a label above 9");
	return images;
}

/* ---- the network ---- */

/* All parameters lie in one buffer, layer after layer, and so do all gradients. */
struct layer {
	size_t offset, count; /* of the parameters: weights [in][out], then biases [out] */
	float *weights, *biases;
	float *gradient, *gradient_biases;
	float *velocity;
	float *weights_turned; /* [out][in], for the way back */
	float *out, *delta;    /* [sample][out]: what comes out, and the loss's gradient by it */
};

struct network {
	size_t count;
	float *parameters, *gradients, *velocities;
	struct layer layer[LAYERS];
	float *input; /* [sample][PIXELS] */
};

static void network_open(struct network *network, int samples_max)
{
	uint64_t state = settings.seed;

	for (int l = 0; l < LAYERS; l++) {
		network->layer[l].offset = network->count;
		network->layer[l].count = (size_t)(width[l] + 1) * (size_t)width[l + 1];
		network->count += network->layer[l].count;
	}
	network->parameters = allocate(network->count, sizeof(float));
	network->gradients = allocate(network->count, sizeof(float));
	network->velocities = allocate(network->count, sizeof(float));
	network->input = allocate((size_t)samples_max * PIXELS, sizeof(float));
	for (int l = 0; l < LAYERS; l++) {
		struct layer *layer = &network->layer[l];
		size_t in = (size_t)width[l], out = (size_t)width[l + 1];
		float range = sqrtf(6.0f / (float)in); /* He's initialisation */

		layer->weights = network->parameters + layer->offset;
		layer->biases = layer->weights + in * out;
		layer->gradient = network->gradients + layer->offset;
		layer->gradient_biases = layer->gradient + in * out;
		layer->velocity = network->velocities + layer->offset;
		layer->weights_turned = allocate(in * out, sizeof(float));
		layer->out = allocate((size_t)samples_max * out, sizeof(float));
		layer->delta = allocate((size_t)samples_max * out, sizeof(float));
		for (size_t i = 0; i < in * out; i++) {
			float unit = (float)(random_next(&state) >> 40) * 0x1p-23f - 1;

			layer->weights[i] = unit * range;
		}
	}
}

/* c += a * b, a of rows x inner, b of inner x columns; a(i, p) is a[i * a_row + p * a_column], so that a
 * may be turned. Four rows of b at once, from a part of b that stays in the cache; what is all zero, as
 * the borders of images are, is left out. */
FAST static void multiply(float *restrict c, const float *restrict a, size_t a_row, size_t a_column,
			  const float *restrict b, size_t rows, size_t inner, size_t columns)
{
	enum { PART = 32 };

	for (size_t part = 0; part < inner; part += PART) {
		size_t end = part + PART < inner ? part + PART : inner;

		for (size_t i = 0; i < rows; i++) {
			const float *x = a + i * a_row;
			float *sum = c + i * columns;
			size_t p = part;

			for (; p + 4 <= end; p += 4) {
				const float x0 = x[p * a_column], x1 = x[(p + 1) * a_column];
				const float x2 = x[(p + 2) * a_column], x3 = x[(p + 3) * a_column];
				const float *b0 = b + p * columns, *b1 = b0 + columns;
				const float *b2 = b1 + columns, *b3 = b2 + columns;

				if (x0 == 0 && x1 == 0 && x2 == 0 && x3 == 0)
					continue;
				for (size_t j = 0; j < columns; j++)
					sum[j] += x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
			}
			for (; p < end; p++)
				for (size_t j = 0; j < columns; j++)
					sum[j] += x[p * a_column] * b[p * columns + j];
		}
	}
}

/* A rectifier without a corner. With max(0, x) the last bit of x can decide whether a unit learns from
 * an image, and runs whose sums are rounded differently part; with this one they stay together. */
static inline float rectify(float x)
{
	return 0.5f * (x + sqrtf(x * x + SOFTNESS));
}

/* From what came out. */
static inline float rectify_slope(float y)
{
	return y * y / (y * y + SOFTNESS / 4);
}

/* The images that `order` names go in; the last layer's `out` becomes each class's score. */
static void forward(struct network *network, const struct images *images, const uint32_t *order,
		    int samples)
{
	const float *in = network->input;

	for (int s = 0; s < samples; s++)
		for (int i = 0; i < PIXELS; i++)
			network->input[s * PIXELS + i] =
				(float)images->pixels[order[s] * PIXELS + (uint32_t)i] / 255;
	for (int l = 0; l < LAYERS; l++) {
		struct layer *layer = &network->layer[l];
		size_t out = (size_t)width[l + 1], count = (size_t)samples * out;

		for (int s = 0; s < samples; s++)
			memcpy(layer->out + (size_t)s * out, layer->biases, out * sizeof(float));
		multiply(layer->out, in, (size_t)width[l], 1, layer->weights, (size_t)samples,
			 (size_t)width[l], out);
		for (size_t i = 0; l < LAYERS - 1 && i < count; i++)
			layer->out[i] = rectify(layer->out[i]);
		in = layer->out;
	}
}

/* Softmax and cross entropy: the sum of the losses; the last layer's delta, divided by `batch`. */
static double loss(struct network *network, const struct images *images, const uint32_t *order,
		   int samples, int batch)
{
	struct layer *last = &network->layer[LAYERS - 1];
	double sum = 0;

	for (int s = 0; s < samples; s++) {
		const float *score = last->out + s * CLASSES;
		float *delta = last->delta + s * CLASSES;
		int label = images->labels[order[s]];
		double top = (double)score[0], total = 0;

		for (int k = 1; k < CLASSES; k++)
			top = fmax(top, (double)score[k]);
		for (int k = 0; k < CLASSES; k++)
			total += exp((double)score[k] - top);
		for (int k = 0; k < CLASSES; k++)
			delta[k] = (float)((exp((double)score[k] - top) / total - (k == label)) /
					   batch);
		sum += log(total) - ((double)score[label] - top);
	}
	return sum;
}

/* Gradients of one layer from its delta, and the delta of the layer before it. */
static void backward(struct network *network, int l, int samples)
{
	struct layer *layer = &network->layer[l], *before = l ? &network->layer[l - 1] : NULL;
	const float *in = l ? before->out : network->input;
	size_t inputs = (size_t)width[l], outputs = (size_t)width[l + 1];

	memset(layer->gradient, 0, layer->count * sizeof(float));
	multiply(layer->gradient, in, 1, inputs, layer->delta, inputs, (size_t)samples, outputs);
	for (int s = 0; s < samples; s++)
		for (size_t j = 0; j < outputs; j++)
			layer->gradient_biases[j] += layer->delta[(size_t)s * outputs + j];
	if (!l)
		return;
	for (size_t i = 0; i < inputs; i++)
		for (size_t j = 0; j < outputs; j++)
			layer->weights_turned[j * inputs + i] = layer->weights[i * outputs + j];
	memset(before->delta, 0, (size_t)samples * inputs * sizeof(float));
	multiply(before->delta, layer->delta, outputs, 1, layer->weights_turned, (size_t)samples,
		 outputs, inputs);
	for (size_t i = 0; i < (size_t)samples * inputs; i++)
		before->delta[i] *= rectify_slope(before->out[i]);
}

FAST static void descend(struct layer *layer, float rate)
{
	float *restrict weights = layer->weights, *restrict velocity = layer->velocity;
	const float *restrict gradient = layer->gradient;

	for (size_t i = 0; i < layer->count; i++) {
		velocity[i] = 0.9f * velocity[i] + gradient[i];
		weights[i] -= rate * velocity[i];
	}
}

/* ---- training ---- */

static FILE *file_open(const char *path, const char *mode)
{
	FILE *file = fopen(path, mode);

	if (!file)
		die(path, strerror(errno));
	return file;
}

/* Where the tensors of recorded gradients end, in the order of the way back. */
static void record_tensors(void)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/fashion_tensors.csv", settings.gradients);
	file = file_open(path, "w");
	fprintf(file, "index,layer_name,shape,elements\n");
	for (int l = LAYERS - 1, i = 0; l >= 0; l--, i += 2)
		fprintf(file, "%d,layer%d.weight,%dx%d,%d\n%d,layer%d.bias,%d,%d\n", i, l + 1,
			width[l], width[l + 1], width[l] * width[l + 1], i + 1, l + 1, width[l + 1],
			width[l + 1]);
	if (fclose(file))
		die(path, strerror(errno));
}

static bool is_recorded(int step)
{
	if (settings.steps)
		return step < settings.steps;
	return !step || step == 10 || step == 100 || step == 1000;
}

/* What this rank brings to a sum, for bench/numbers: its part of the gradients of steps 0, 10, 100 and 1,000. */
static void record(const struct layer *layer, int step, bool is_first)
{
	char path[4096];
	FILE *file;

	if (!settings.gradients || !is_recorded(step))
		return;
	if (!rank && !step && is_first)
		record_tensors();
	snprintf(path, sizeof(path), "%s/fashion_s%d_w%u.f32", settings.gradients, step, rank);
	file = file_open(path, is_first ? "wb" : "ab");
	if (fwrite(layer->gradient, sizeof(float), layer->count, file) != layer->count ||
	    fclose(file))
		die(path, "cannot be written");
}

/* One batch: its loss (this rank's share), and in *waited the seconds spent waiting for the others. The
 * last layer's gradients travel while those of the layers before it are computed. */
static double step(struct network *network, const struct images *images, const uint32_t *order,
		   int batch, float rate, double *waited)
{
	static int number;
	struct tally_work *work[LAYERS] = { NULL };
	int begin = (int)((int64_t)batch * rank / ranks);
	int samples = (int)((int64_t)batch * (rank + 1) / ranks) - begin;
	double sum;

	forward(network, images, order + begin, samples);
	sum = loss(network, images, order + begin, samples, batch);
	for (int l = LAYERS - 1; l >= 0; l--) {
		struct layer *layer = &network->layer[l];

		backward(network, l, samples);
		record(layer, number, l == LAYERS - 1);
		check(tally_iallreduce(layer->gradient, layer->gradient, layer->count,
				       TALLY_FLOAT32, TALLY_SUM, comm, NULL, &work[l]),
		      "gradients");
	}
	for (int l = LAYERS - 1; l >= 0; l--) {
		double begin_wait = now();

		check(tally_wait(&work[l], -1), "gradients");
		*waited += now() - begin_wait;
		descend(&network->layer[l], rate);
	}
	number++;
	return sum;
}

/* The share of all test images, each rank looking at some of them, that is recognised. */
static double accuracy(struct network *network, const struct images *images)
{
	const float *scores = network->layer[LAYERS - 1].out;
	uint32_t order[TEST_BATCH];
	int32_t right = 0;

	for (int batch = (int)rank; batch < images->count / TEST_BATCH; batch += (int)ranks) {
		for (int s = 0; s < TEST_BATCH; s++)
			order[s] = (uint32_t)(batch * TEST_BATCH + s);
		forward(network, images, order, TEST_BATCH);
		for (int s = 0; s < TEST_BATCH; s++) {
			int best = 0;

			for (int k = 1; k < CLASSES; k++)
				if (scores[s * CLASSES + k] > scores[s * CLASSES + best])
					best = k;
			right += best == images->labels[order[s]];
		}
	}
	check(tally_allreduce(&right, &right, 1, TALLY_INT32, TALLY_SUM, comm), "accuracy");
	return (double)right / images->count;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t other = (uint32_t)(random_next(&seed) % (i + 1)), kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
}

/* On stderr, and only where somebody looks: a terminal, or tally run's. */
static void progress(int epoch, double done)
{
	static double last;
	int filled = (int)(done * 30);

	if (rank || !(isatty(STDERR_FILENO) || getenv("TALLY_PROGRESS")))
		return;
	if (done >= 1) {
		fprintf(stderr, "\033[K\r");
	} else if (now() - last > 0.1) {
		last = now();
		fprintf(stderr, "epoch %d/%d [%.*s%*s] %3.0f %%\033[K\r", epoch + 1,
			settings.epochs, filled, "##############################", 30 - filled, "",
			done * 100);
	}
}

/* What one epoch showed. */
struct epoch {
	double loss, accuracy, seconds, waited;
	double sent, ring; /* bytes per rank: UDP payload; what a ring would send */
};

static struct epoch epoch_run(struct network *network, const struct images *train,
			      const struct images *test, uint32_t *order, int number)
{
	struct tally_stats before = TALLY_STATS_INIT, after = TALLY_STATS_INIT;
	int batches = (train->count + settings.batch - 1) / settings.batch;
	struct epoch epoch = { 0 };
	double begin = now(), sum = 0;
	float mean;

	tally_comm_get_stats(comm, &before);
	shuffle(order, (uint32_t)train->count, settings.seed + 1000 + (uint64_t)number);
	for (int b = 0; b < batches; b++) {
		int left = train->count - b * settings.batch;
		int batch = left < settings.batch ? left : settings.batch;
		float done = (float)(number * batches + b) / (float)(settings.epochs * batches);

		sum += step(network, train, order + b * settings.batch, batch,
			    settings.rate * (1 - done), &epoch.waited);
		progress(number, (double)(b + 1) / batches);
	}
	epoch.seconds = now() - begin;
	tally_comm_get_stats(comm, &after);
	mean = (float)(sum / train->count);
	check(tally_allreduce(&mean, &mean, 1, TALLY_FLOAT32, TALLY_SUM, comm), "loss");
	epoch.loss = (double)mean;
	epoch.accuracy = accuracy(network, test);
	epoch.sent = (double)(after.bytes_out - before.bytes_out);
	epoch.ring = (double)network->count * 4 * batches * 2 * (ranks - 1) / ranks;
	return epoch;
}

/* FNV-1a of the parameters' bits, of every rank on every rank: each puts its own into a vector of zeros
 * and all are added up. true: they are all the same. */
static bool is_same_everywhere(const struct network *network, uint64_t *hash)
{
	const uint8_t *bytes = (const uint8_t *)network->parameters;
	int32_t *parts = allocate(4 * (size_t)ranks, sizeof(*parts));
	bool is_same = true;

	*hash = 0xcbf29ce484222325;
	for (size_t i = 0; i < network->count * sizeof(float); i++)
		*hash = (*hash ^ bytes[i]) * 0x100000001b3;
	for (int k = 0; k < 4; k++)
		parts[4 * rank + (uint32_t)k] = (int32_t)(*hash >> 16 * k & 0xffff);
	check(tally_allreduce(parts, parts, 4 * (size_t)ranks, TALLY_INT32, TALLY_SUM, comm),
	      "hashes");
	for (uint32_t i = 0; i < 4 * ranks; i++)
		is_same = is_same && parts[i] == (int32_t)(*hash >> 16 * (i % 4) & 0xffff);
	free(parts);
	return is_same;
}

/* ---- what is shown ---- */

static void print_epoch(const struct epoch *epoch, int number)
{
	double share = epoch->waited / epoch->seconds, rate = settings.images / epoch->seconds;

	if (rank)
		return;
	if (settings.is_json)
		printf("{\"epoch\":%d,\"ranks\":%u,\"loss\":%.6f,\"accuracy\":%.4f,\"samples_per_"
		       "s\":%.0f,"
		       "\"allreduce_share\":%.4f,\"bytes_sent\":%.0f,\"bytes_ring\":%.0f,"
		       "\"seconds\":%.3f}\n",
		       number + 1, ranks, epoch->loss, epoch->accuracy, rate, share, epoch->sent,
		       epoch->ring, epoch->seconds);
	else
		printf("%5d %9.5f %9.4f %10.0f %9.1f %% %9.1f MB %8.1f MB %8.2f\n", number + 1,
		       epoch->loss, epoch->accuracy, rate, share * 100, epoch->sent / 1e6,
		       epoch->ring / 1e6, epoch->seconds);
	fflush(stdout);
}

static void print_head(const struct network *network)
{
	if (rank || settings.is_json)
		return;
	printf("Fashion-MNIST, 784-256-128-10, %zu parameters, %u rank%s, batch %d, rate %g, seed "
	       "%llu\n",
	       network->count, ranks, ranks == 1 ? "" : "s", settings.batch, (double)settings.rate,
	       (unsigned long long)settings.seed);
	printf("epoch      loss  accuracy  samples/s  allreduce  sent/rank  a ring's  seconds\n");
	fflush(stdout);
}

static void print_result(const struct epoch *first, const struct epoch *last, double seconds,
			 uint64_t hash, bool is_same)
{
	if (rank)
		return;
	if (settings.is_json)
		printf("{\"result\":\"fashion\",\"ranks\":%u,\"accuracy\":%.4f,\"loss_epoch_1\":%."
		       "6f,"
		       "\"loss\":%.6f,\"seconds\":%.3f,\"parameters\":\"%016llx\",\"identical\":%s}"
		       "\n",
		       ranks, last->accuracy, first->loss, last->loss, seconds,
		       (unsigned long long)hash, is_same ? "true" : "false");
	else
		printf("result: ranks %u accuracy %.4f loss-epoch-1 %.6f seconds %.1f parameters "
		       "%016llx "
		       "%s\n",
		       ranks, last->accuracy, first->loss, seconds, (unsigned long long)hash,
		       is_same ? "identical-on-all-ranks" : "DIFFERENT-ON-SOME-RANK");
	fflush(stdout);
}

/* ---- the program ---- */

static const char help[] =
	"fashion - data-parallel training with tally on Fashion-MNIST\n"
	"\n"
	"usage: tally run -n 4 -- fashion [OPTION...]\n"
	"\n"
	"  --epochs N    (8)       --batch N   images per step, over all ranks (256)\n"
	"  --lr RATE     (0.1, falling to 0)   --seed S    of parameters and order (1)\n"
	"  --images N    of the first N (60000)\n"
	"  --data DIR    (/usr/share/datasets/fashion-mnist)\n"
	"  --gradients DIR   record some steps' gradients there, for bench/numbers\n"
	"  --steps N     those of the first N steps, for bench/steps\n"
	"  --json        one object a line     --help\n"
	"\n"
	"allreduce: the share of the time that is spent waiting for gradients. sent/rank: bytes "
	"that\n"
	"each rank sends, beside the 2U(n-1)/n of a ring allreduce.\n";

static int number_of(const char *name, const char *text, int max)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 1 || number > max) {
		fprintf(stderr, "fashion: --%s %s: a number from 1 to %d\n", name, text, max);
		exit(2);
	}
	return (int)number;
}

static float rate_of(const char *text)
{
	char *end;
	float rate = strtof(text, &end);

	if (*end || end == text || !(rate > 0 && rate <= 100)) {
		fprintf(stderr, "fashion: --lr %s: a number above 0, up to 100\n", text);
		exit(2);
	}
	return rate;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "epochs", required_argument, NULL, 'e' },
		{ "batch", required_argument, NULL, 'b' },
		{ "images", required_argument, NULL, 'i' },
		{ "lr", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ "data", required_argument, NULL, 'd' },
		{ "gradients", required_argument, NULL, 'g' },
		{ "steps", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			exit(0);
		}
		if (option == 'e')
			settings.epochs = number_of("epochs", optarg, 10000);
		else if (option == 'b')
			settings.batch = number_of("batch", optarg, BATCH_MAX);
		else if (option == 'i')
			settings.images = number_of("images", optarg, TRAIN_IMAGES);
		else if (option == 's')
			settings.seed = (uint64_t)number_of("seed", optarg, INT32_MAX);
		else if (option == 'r')
			settings.rate = rate_of(optarg);
		else if (option == 'd')
			settings.data = optarg;
		else if (option == 'g')
			settings.gradients = optarg;
		else if (option == 'n')
			settings.steps = number_of("steps", optarg, INT32_MAX);
		else if (option == 'j')
			settings.is_json = true;
		else
			exit(2);
	}
	if (optind < argc) {
		fprintf(stderr, "fashion: %s: options only (fashion --help)\n", argv[optind]);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct epoch first = { 0 }, last = { 0 };
	struct network network = { 0 };
	struct images train, test;
	uint32_t *order;
	uint64_t hash;
	double begin;
	bool is_same;

	parse(argc, argv);
	check(tally_comm_init_env(&comm, NULL), "init");
	rank = tally_comm_rank(comm);
	ranks = tally_comm_size(comm);
	train = images_read("train", settings.images);
	test = images_read("t10k", TEST_IMAGES);
	network_open(&network, settings.batch > TEST_BATCH ? settings.batch : TEST_BATCH);
	order = allocate(TRAIN_IMAGES, sizeof(*order));
	print_head(&network);
	begin = now();
	for (int number = 0; number < settings.epochs; number++) {
		last = epoch_run(&network, &train, &test, order, number);
		if (!number)
			first = last;
		print_epoch(&last, number);
	}
	is_same = is_same_everywhere(&network, &hash);
	print_result(&first, &last, now() - begin, hash, is_same);
	check(tally_comm_finalize(comm), "finalize");
	tally_comm_destroy(comm);
	return is_same ? 0 : 1; /* what was allocated goes with the process */
}
