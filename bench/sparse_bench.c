/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_bench.c - one worker of bench/sparse.sh: pushes a stream of whole numbers of both signs and pulls the rows
 * back, or sums the same updates as dense vectors; then worker 0 compares all that is there with sums made without
 * tally. Who and where: TALLY_RANK, TALLY_SIZE, TALLY_SERVERS or TALLY_AGGREGATOR. A line of JSON on stdout; 1 if a
 * sum is wrong.
 *
 * A batch has `batch` different keys: a stream's keys are drawn (Zipf), or are those of every size'th row of a file,
 * until there are so many; each update is 1 or -1, and a key that comes again adds up, as a mini-batch's gradients
 * do. A worker makes `distinct` batches beforehand, and pushes them again and again. A row has `dim` values: the first is
 * that update, the others are multiples of it that differ, of both signs.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "files/hot_map.h"
#include "hot/keys.h"
#include "hot/zipf.h"
#include "tally_kv.h"
#include "util/rng.h"

enum {
	DENSITY = 100,  /* values of a dense vector for each pair */
	DEPTH_MAX = 64, /* batches under way */
	DIM_MAX = 64,
	BAR_COLUMNS = 32, /* of the progress bar */
	BAR_NS = 200000000,
	ROWS_IDLE = 1000000, /* rows without a key in them: the file has none */
};

static struct {
	uint32_t rank, size, batch, batches, distinct, depth, keys, seed, dim;
	double zipf;
	const char *file, *table, *map, *mark, *label;
	bool is_dense, is_push_only, is_pushpull, has_copies;
} want = { .size = 1,
	   .batch = 10000,
	   .batches = 100,
	   .distinct = 20,
	   .depth = 4,
	   .keys = 1000000,
	   .seed = 1,
	   .dim = 1,
	   .zipf = 1.1,
	   .table = "bench",
	   .label = "" };

/* A worker's batches, one behind the other. */
struct stream {
	uint64_t *key;
	float *value;     /* of each key: dim */
	uint64_t updates; /* before keys of a batch were put together */
};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "sparse_bench: worker %u: ", want.rank);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void check(int result, const char *what)
{
	if (result)
		die("%s: %s", what, tally_get_last_error(NULL));
}

static void *take(size_t count, size_t bytes)
{
	void *at = calloc(count ? count : 1, bytes);

	if (!at)
		die("out of memory");
	return at;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* ---- sums by key ---- */

struct sums {
	uint64_t *key;
	int64_t *sum;
	bool *is_there;
	size_t room, count; /* room: a power of two */
};

static void sums_init(struct sums *sums, size_t room)
{
	*sums = (struct sums){ .room = 1024 };
	while (sums->room < room)
		sums->room *= 2;
	sums->key = take(sums->room, sizeof(*sums->key));
	sums->sum = take(sums->room, sizeof(*sums->sum));
	sums->is_there = take(sums->room, sizeof(*sums->is_there));
}

static void sums_fini(struct sums *sums)
{
	free(sums->key);
	free(sums->sum);
	free(sums->is_there);
}

static void sums_add(struct sums *sums, uint64_t key, int64_t value)
{
	size_t at = hash_number(HASH_BEGIN, key, sizeof(key)) & (sums->room - 1);

	while (sums->is_there[at] && sums->key[at] != key)
		at = (at + 1) & (sums->room - 1);
	if (!sums->is_there[at]) {
		struct sums old = *sums;

		if (sums->count * 2 >= sums->room) {
			sums_init(sums, 2 * old.room);
			for (size_t i = 0; i < old.room; i++)
				if (old.is_there[i])
					sums_add(sums, old.key[i], old.sum[i]);
			sums_fini(&old);
			sums_add(sums, key, value);
			return;
		}
		sums->is_there[at] = true;
		sums->key[at] = key;
		sums->count++;
	}
	sums->sum[at] += value;
}

struct pair {
	uint64_t key;
	int64_t sum;
};

static int by_key(const void *a, const void *b)
{
	const struct pair *one = a, *other = b;

	return one->key < other->key ? -1 : one->key > other->key;
}

/* All of them by key, and none any more; the caller's. */
static struct pair *sums_take(struct sums *sums, size_t *count)
{
	struct pair *pair = take(sums->count, sizeof(*pair));

	*count = 0;
	for (size_t i = 0; i < sums->room; i++)
		if (sums->is_there[i])
			pair[(*count)++] = (struct pair){ sums->key[i], sums->sum[i] };
	qsort(pair, *count, sizeof(*pair), by_key);
	memset(sums->is_there, 0, sums->room * sizeof(*sums->is_there));
	memset(sums->sum, 0, sums->room * sizeof(*sums->sum));
	sums->count = 0;
	return pair;
}

/* ---- streams ---- */

/* What a row's value in `column` is of its first one: small, or a float would not hold the sum. */
static int64_t multiple_of(size_t column)
{
	return (column % 2 ? -1 : 1) * (int64_t)(column % 8 + 1);
}

/* Where keys come from: one worker's. */
struct source_of_keys {
	uint32_t rank;
	struct zipf zipf;
	struct keys *keys; /* NULL: Zipf */
	uint64_t row;
};

static void file_open(struct source_of_keys *from)
{
	const struct keys_options options = { .format = KEYS_AUTO };
	char error[FILES_ERROR_MAX];

	if (keys_open(&from->keys, want.file, &options, error))
		die("%s", error);
}

/* Some of the next keys; the file begins again at its end. */
static size_t keys_more(struct source_of_keys *from, const uint64_t **key)
{
	static uint64_t drawn[64];
	struct keys_row row;

	if (!want.file) {
		zipf_next(&from->zipf, drawn, sizeof(drawn) / sizeof(*drawn));
		*key = drawn;
		return sizeof(drawn) / sizeof(*drawn);
	}
	for (uint32_t i = 0; i < ROWS_IDLE; i++) {
		int result = keys_next(from->keys, &row);

		if (result < 0)
			die("%s", keys_error(from->keys));
		if (!result) {
			keys_close(from->keys);
			file_open(from);
			continue;
		}
		if (from->row++ % want.size == from->rank && row.count) {
			*key = row.key;
			return row.count;
		}
	}
	die("%s has no rows of worker %u", want.file, from->rank);
}

static void batch_make(struct source_of_keys *from, struct rng *rng, struct sums *sums,
		       struct stream *stream, uint32_t index)
{
	uint64_t *key = stream->key + (size_t)index * want.batch;
	float *value = stream->value + (size_t)index * want.batch * want.dim;
	uint64_t before = stream->updates;
	struct pair *pair;
	size_t count;

	while (sums->count < want.batch) {
		const uint64_t *some;
		size_t many = keys_more(from, &some);

		for (size_t i = 0; i < many && sums->count < want.batch; i++, stream->updates++)
			sums_add(sums, some[i], rng_below(rng, 2) ? 1 : -1);
		if (stream->updates - before > 10000ull * want.batch)
			die("%u different keys do not come", want.batch);
	}
	pair = sums_take(sums, &count);
	for (uint32_t i = 0; i < want.batch; i++) {
		key[i] = pair[i].key;
		for (uint32_t k = 0; k < want.dim; k++)
			*value++ = (float)(pair[i].sum * multiple_of(k));
	}
	free(pair);
}

static void stream_make(struct stream *stream, uint32_t rank)
{
	struct source_of_keys from = { .rank = rank };
	struct sums sums;
	struct rng rng;

	rng_init(&rng, want.seed, 1000 + rank);
	if (want.file)
		file_open(&from);
	else if (zipf_init(&from.zipf, want.zipf, want.keys, want.seed * 1000003ull + rank))
		die("out of memory");
	stream->key = take((size_t)want.distinct * want.batch, sizeof(*stream->key));
	stream->value = take((size_t)want.distinct * want.batch * want.dim, sizeof(*stream->value));
	stream->updates = 0;
	sums_init(&sums, 4ul * want.batch);
	for (uint32_t i = 0; i < want.distinct; i++)
		batch_make(&from, &rng, &sums, stream, i);
	sums_fini(&sums);
	if (want.file)
		keys_close(from.keys);
	else
		zipf_fini(&from.zipf);
}

static void stream_free(struct stream *stream)
{
	free(stream->key);
	free(stream->value);
}

/* How often this one of the distinct batches is pushed. */
static uint32_t times_of(uint32_t index)
{
	return want.batches / want.distinct + (index < want.batches % want.distinct);
}

/* What all workers have pushed, without tally. */
static struct pair *reference_make(size_t *count)
{
	struct sums sums;
	struct pair *pair;

	sums_init(&sums, 1 << 20);
	for (uint32_t rank = 0; rank < want.size; rank++) {
		struct stream stream;

		stream_make(&stream, rank);
		for (size_t i = 0; i < (size_t)want.distinct * want.batch; i++)
			sums_add(&sums, stream.key[i],
				 (int64_t)stream.value[i * want.dim] *
					 times_of((uint32_t)(i / want.batch)));
		stream_free(&stream);
	}
	pair = sums_take(&sums, count);
	sums_fini(&sums);
	return pair;
}

/* ---- what is seen meanwhile ---- */

static void mark(const char *when)
{
	char command[4096];

	if (want.rank || !want.mark)
		return;
	if (snprintf(command, sizeof(command), "%s %s", want.mark, when) >= (int)sizeof(command) ||
	    system(command)) /* NOLINT: the words are our own script's */
		die("%s %s has failed", want.mark, when);
}

static void progress(uint32_t done, uint64_t begin_ns)
{
	static uint64_t shown_ns;
	uint64_t time_ns = now_ns();
	char bar[BAR_COLUMNS + 1];
	uint32_t full = (uint32_t)((uint64_t)done * BAR_COLUMNS / want.batches);

	if (want.rank || !isatty(STDERR_FILENO) ||
	    (time_ns - shown_ns < BAR_NS && done < want.batches))
		return;
	shown_ns = time_ns;
	memset(bar, '.', BAR_COLUMNS);
	memset(bar, '#', full);
	bar[BAR_COLUMNS] = 0;
	fprintf(stderr, "\r%-16s [%s] %3u %%  %8.0f pairs/s%s", want.label, bar,
		done * 100 / want.batches,
		(double)done * want.batch * want.size / ((double)(time_ns - begin_ns + 1) * 1e-9),
		done == want.batches ? "\r\033[K" : "");
}

static void report(const struct stream *stream, double seconds, double cpu, size_t verified)
{
	struct hot_map map;
	char error[FILES_ERROR_MAX];
	uint64_t hot = 0;

	if (want.map) {
		if (hot_map_read(want.map, &map, error))
			die("%s", error);
		for (size_t i = 0; i < (size_t)want.distinct * want.batch; i++)
			hot += hot_map_rank(&map, stream->key[i]) != HOT_MAP_COLD;
		hot_map_fini(&map);
	}
	printf("{\"rank\":%u,\"seconds\":%.6f,\"cpu_s\":%.6f,\"pairs\":%" PRIu64
	       ",\"updates_per_pair\":%.4f,\"hot_share\":%.4f,\"verified_keys\":%zu}\n",
	       want.rank, seconds, cpu, (uint64_t)want.batches * want.batch,
	       (double)stream->updates / ((double)want.distinct * want.batch),
	       (double)hot / ((double)want.distinct * want.batch), verified);
}

/* ---- a table of keys ---- */

static void rows_pull(struct tally_kv *kv, const struct pair *pair, size_t count, float *value)
{
	uint64_t *key = take(count, sizeof(*key)), timestamp;

	for (size_t i = 0; i < count; i++)
		key[i] = pair[i].key;
	check(tally_kv_pull(kv, key, value, count, &timestamp), "pull");
	check(tally_kv_wait(kv, timestamp, -1), "pull");
	free(key);
}

static void table_verify(struct tally_kv *kv, const struct pair *pair, size_t count)
{
	float *value = take(count * want.dim, sizeof(*value));
	size_t wrong = 0, first = 0;

	rows_pull(kv, pair, count, value);
	for (size_t i = count * want.dim; i-- > 0;) {
		if (value[i] == (float)(pair[i / want.dim].sum * multiple_of(i % want.dim)))
			continue;
		wrong++;
		first = i;
	}
	if (wrong)
		die("WRONG SUMS: %zu of %zu; value %zu of key %" PRIu64
		    " is %.9g, and should be %" PRId64,
		    wrong, count * want.dim, first % want.dim, pair[first / want.dim].key,
		    (double)value[first],
		    pair[first / want.dim].sum * multiple_of(first % want.dim));
	free(value);
}

static void batch_begin(struct tally_kv *kv, const struct stream *stream, uint32_t number,
			float *pulled, uint64_t *timestamp)
{
	size_t at = (size_t)(number % want.distinct) * want.batch;
	const uint64_t *key = stream->key + at;
	const float *value = stream->value + at * want.dim;

	if (want.is_pushpull) {
		check(tally_kv_pushpull(kv, key, value, pulled, want.batch, timestamp), "pushpull");
		return;
	}
	check(tally_kv_push(kv, key, value, want.batch, NULL), "push");
	if (!want.is_push_only)
		check(tally_kv_pull(kv, key, pulled, want.batch, timestamp), "pull");
}

/* Pushes a batch and pulls its rows, with `depth` pulls under way. Pushes are not waited for, which would end an epoch of
 * hot keys each time: the library bounds how many there are, and the barrier at the end has all of them. */
static void table_push(struct tally_kv *kv, const struct stream *stream, float *pulled,
		       uint64_t begin_ns)
{
	uint64_t pull[DEPTH_MAX] = { 0 };

	for (uint32_t i = 0; i < want.batches + want.depth; i++) {
		uint32_t slot = i % want.depth;

		if (i >= want.depth) {
			if (!want.is_push_only)
				check(tally_kv_wait(kv, pull[slot], -1), "pull");
			progress(i - want.depth + 1, begin_ns);
		}
		if (i < want.batches)
			batch_begin(kv, stream, i, pulled + (size_t)slot * want.batch * want.dim,
				    &pull[slot]);
	}
}

static void table_run(const struct stream *stream)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	float *pulled = take((size_t)want.depth * want.batch * want.dim, sizeof(*pulled));
	size_t count = 0;
	struct pair *pair;
	struct tally_kv *kv;
	uint64_t begin_ns, end_ns;
	double cpu;

	options.workers = want.size;
	options.worker = want.rank;
	options.flags = want.has_copies ? TALLY_KV_COPIES : 0;
	check(tally_kv_open(&kv, want.table, want.dim, &options), "open");
	check(tally_kv_barrier(kv), "barrier");
	mark("begin");
	check(tally_kv_barrier(kv), "barrier");
	cpu = cpu_s();
	begin_ns = now_ns();
	table_push(kv, stream, pulled, begin_ns);
	check(tally_kv_barrier(kv), "barrier");
	end_ns = now_ns();
	cpu = cpu_s() - cpu;
	mark("end");
	check(tally_kv_barrier(kv), "barrier");
	if (!want.rank) {
		pair = reference_make(&count);
		table_verify(kv, pair, count);
		free(pair);
	}
	report(stream, (double)(end_ns - begin_ns) * 1e-9, cpu, count);
	check(tally_kv_close(kv), "close");
	free(pulled);
}

/* ---- the same as dense vectors ---- */

static void dense_verify(const int64_t *total, size_t elements)
{
	int64_t *expected = take(elements, sizeof(*expected));
	size_t count, wrong = 0, first = 0;
	struct pair *pair = reference_make(&count);

	for (size_t i = 0; i < count; i++)
		expected[pair[i].key % elements] += pair[i].sum;
	for (size_t i = elements; i-- > 0;) {
		if (total[i] == expected[i])
			continue;
		wrong++;
		first = i;
	}
	if (wrong)
		die("WRONG SUMS: %zu of %zu; element %zu has %" PRId64 ", and should have %" PRId64,
		    wrong, elements, first, total[first], expected[first]);
	free(pair);
	free(expected);
}

static void dense_run(const struct stream *stream)
{
	size_t elements = (size_t)want.batch * DENSITY;
	int32_t *vector = take(elements, sizeof(*vector));
	int64_t *total = take(elements, sizeof(*total));
	struct tally_comm *comm;
	uint64_t begin_ns, end_ns;
	double cpu;

	check(tally_comm_init(&comm, "sparse", want.size, want.rank, NULL), "init");
	check(tally_barrier(comm), "barrier");
	mark("begin");
	check(tally_barrier(comm), "barrier");
	cpu = cpu_s();
	begin_ns = now_ns();
	for (uint32_t i = 0; i < want.batches; i++) {
		size_t at = (size_t)(i % want.distinct) * want.batch;

		memset(vector, 0, elements * sizeof(*vector));
		for (uint32_t k = 0; k < want.batch; k++)
			vector[stream->key[at + k] % elements] += (int32_t)stream->value[at + k];
		check(tally_allreduce(vector, vector, elements, TALLY_INT32, TALLY_SUM, comm),
		      "allreduce");
		for (size_t k = 0; k < elements; k++)
			total[k] += vector[k];
		progress(i + 1, begin_ns);
	}
	check(tally_barrier(comm), "barrier");
	end_ns = now_ns();
	cpu = cpu_s() - cpu;
	mark("end");
	check(tally_barrier(comm), "barrier");
	if (!want.rank)
		dense_verify(total, elements);
	report(stream, (double)(end_ns - begin_ns) * 1e-9, cpu, want.rank ? 0 : elements);
	tally_comm_destroy(comm);
	free(total);
	free(vector);
}

/* ---- flags ---- */

static uint32_t number_of(const char *name, const char *text, uint32_t least)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < least || value > UINT32_MAX / 2) {
		fprintf(stderr, "sparse_bench: --%s %s: a number, at least %u\n", name, text,
			least);
		exit(2);
	}
	return (uint32_t)value;
}

/* clang-format off */
static const struct option flags[] = {
	{ "batch", required_argument, NULL, 'b' },
	{ "batches", required_argument, NULL, 'n' },
	{ "distinct", required_argument, NULL, 'd' },
	{ "depth", required_argument, NULL, 'p' },
	{ "keys", required_argument, NULL, 'k' },
	{ "seed", required_argument, NULL, 's' },
	{ "zipf", required_argument, NULL, 'z' },
	{ "file", required_argument, NULL, 'f' },
	{ "table", required_argument, NULL, 't' },
	{ "map", required_argument, NULL, 'm' },
	{ "mark", required_argument, NULL, 'c' },
	{ "label", required_argument, NULL, 'l' },
	{ "dense", no_argument, NULL, 'D' },
	{ "copies", no_argument, NULL, 'C' },
	{ "push-only", no_argument, NULL, 'P' },
	{ "pushpull", no_argument, NULL, 'B' },
	{ "dim", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

static bool flag_take(int flag, const char *name)
{
	switch (flag) {
	case 'b':
		want.batch = number_of(name, optarg, 1);
		break;
	case 'n':
		want.batches = number_of(name, optarg, 1);
		break;
	case 'd':
		want.distinct = number_of(name, optarg, 1);
		break;
	case 'p':
		want.depth = number_of(name, optarg, 1);
		break;
	case 'k':
		want.keys = number_of(name, optarg, 1);
		break;
	case 's':
		want.seed = number_of(name, optarg, 0);
		break;
	case 'z':
		want.zipf = atof(optarg);
		break;
	case 'f':
		want.file = optarg;
		break;
	case 't':
		want.table = optarg;
		break;
	case 'm':
		want.map = optarg;
		break;
	case 'c':
		want.mark = optarg;
		break;
	case 'l':
		want.label = optarg;
		break;
	case 'C':
		want.has_copies = true;
		break;
	case 'P':
		want.is_push_only = true;
		break;
	case 'B':
		want.is_pushpull = true;
		break;
	case 'w':
		want.dim = number_of(name, optarg, 1);
		break;
	case 'D':
		want.is_dense = true;
		break;
	default:
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("TALLY_RANK"), *size = getenv("TALLY_SIZE");
	struct stream stream;
	int flag, index = 0;

	while ((flag = getopt_long(argc, argv, "", flags, &index)) != -1)
		if (!flag_take(flag, flags[index].name))
			return 2;
	want.rank = rank ? number_of("TALLY_RANK", rank, 0) : 0;
	want.size = size ? number_of("TALLY_SIZE", size, 1) : 1;
	if (optind < argc || want.depth > DEPTH_MAX || want.dim > DIM_MAX ||
	    want.rank >= want.size || (want.is_dense && want.dim > 1)) {
		fprintf(stderr, "sparse_bench: see bench/sparse.sh\n");
		return 2;
	}
	if (want.distinct > want.batches)
		want.distinct = want.batches;
	stream_make(&stream, want.rank);
	if (want.is_dense)
		dense_run(&stream);
	else
		table_run(&stream);
	stream_free(&stream);
	return 0;
}
