/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_live.c - the pushes of layout_bench, made for a table of a job that runs (bench/layout.sh), whose tallyd says
 * what a chip had recirculated of them. First the map: ranks by heat, or with --random in random places, which are
 * random registers. Then one worker pushes, pulls all rows back and compares them with sums made here.
 *
 *     layout_live --map FILE [--random] [NUMBERS]     writes it
 *     layout_live [--lns] [NUMBERS]                   pushes to TALLY_SERVERS' table "layout"; 1: a sum is wrong
 *
 * --lns: of a table with values=lns, floats, all of one sign, whose sums may be off by 1 %.
 */
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "bench/layout_stream.h"
#include "files/hot_map.h"
#include "tally_kv.h"

static int map_write(const char *path, bool is_random)
{
	struct hot_map map = { .version = 1, .keys = (uint32_t)number[HOT] };
	char error[FILES_ERROR_MAX];
	int result;

	map.key = memory_get(map.keys, sizeof(*map.key));
	for (uint32_t rank = 0; rank < map.keys; rank++)
		map.key[is_random ? shuffled[rank] : rank] = key_of(rank);
	result = hot_map_write(path, &map, error);
	free(map.key);
	if (result)
		fprintf(stderr, "layout_live: %s\n", error);
	return result ? 1 : 0;
}

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "layout_live: %s: %s\n", what, tally_get_last_error(NULL));
	exit(1);
}

static bool is_lns;

/* What is pushed for a rank. */
static float value_of(uint32_t rank, uint32_t push)
{
	uint32_t some = (rank + push) % 9;

	if (is_lns)
		return (rank % 2 ? 1.0f : -1.0f) / (float)(1 + some);
	return (float)some - 4;
}

static bool is_right(float row, double sum)
{
	double off = is_lns ? fabs(sum) / 100 : 0;

	return fabs((double)row - sum) <= off;
}

static void pushes_make(struct tally_kv *kv, double *sum)
{
	size_t most = number[UPDATES];
	uint32_t *rank = memory_get(most, sizeof(*rank));
	uint64_t *key = memory_get(most, sizeof(*key));
	float *value = memory_get(most, sizeof(*value));

	for (uint32_t push = 1; push <= number[PUSHES]; push++) {
		uint32_t count = push_draw(rank, push);

		for (uint32_t i = 0; i < count; i++) {
			key[i] = key_of(rank[i]);
			value[i] = value_of(rank[i], push);
			sum[rank[i]] += (double)value[i];
		}
		check(tally_kv_push(kv, key, value, count, NULL), "push");
	}
	check(tally_kv_wait(kv, 0, -1), "wait");
	free(rank);
	free(key);
	free(value);
}

/* How many rows are not the sums of what was pushed. */
static uint32_t rows_compare(struct tally_kv *kv, const double *sum)
{
	uint32_t *rank = memory_get(number[HOT], sizeof(*rank)), wrong = 0;
	uint64_t *key = memory_get(number[HOT], sizeof(*key));
	float *row = memory_get(number[HOT], sizeof(*row));

	for (uint32_t i = 0; i < number[HOT]; i++)
		rank[i] = i;
	qsort(rank, number[HOT], sizeof(*rank), by_key);
	for (uint32_t i = 0; i < number[HOT]; i++)
		key[i] = key_of(rank[i]);
	check(tally_kv_pull(kv, key, row, (uint32_t)number[HOT], NULL), "pull");
	check(tally_kv_wait(kv, 0, -1), "wait");
	for (uint32_t i = 0; i < number[HOT]; i++)
		wrong += !is_right(row[i], sum[rank[i]]);
	free(rank);
	free(key);
	free(row);
	return wrong;
}

static int pushes_run(void)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv_stats stats = { .size = sizeof(stats) };
	struct tally_kv *kv = NULL;
	double *sum = memory_get(number[HOT], sizeof(*sum));
	uint32_t wrong;

	options.workers = 1;
	check(tally_kv_open(&kv, "layout", 1, &options), "open");
	pushes_make(kv, sum);
	wrong = rows_compare(kv, sum);
	check(tally_kv_get_stats(kv, &stats), "stats");
	check(tally_kv_close(kv), "close");
	printf("%" PRIu64 " pairs, %" PRIu64 " of them hot; %u of %" PRIu64 " rows are wrong\n",
	       stats.pairs, stats.pairs_hot, wrong, number[HOT]);
	free(sum);
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	enum { MAP = STREAM_OPTION_END, RANDOM, LNS };
	static const struct option options[] = {
		STREAM_OPTIONS,
		{ "map", required_argument, NULL, MAP },
		{ "random", no_argument, NULL, RANDOM },
		{ "lns", no_argument, NULL, LNS },
		{ NULL, 0, NULL, 0 },
	};
	const char *map = NULL;
	bool is_random = false, are_right = true;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == MAP)
			map = optarg;
		else if (option == RANDOM)
			is_random = true;
		else if (option == LNS)
			is_lns = true;
		else
			are_right &= stream_option(option, optarg);
	}
	if (!are_right || optind < argc || !stream_is_sound()) {
		fprintf(stderr,
			"usage: layout_live [--map FILE [--random]] [--lns] [--seed N] [--skew S] "
			"[--keys N] [--hot N] [--updates N]\n"
			"                   [--pushes N]: as layout_bench has them\n");
		return 2;
	}
	stream_open();
	return map ? map_write(map, is_random) : pushes_run();
}
