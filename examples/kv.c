/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.c - counts words with parameters on servers: each worker pushes how often it has seen each word of its lines, and
 * worker 0 says which were seen most. A word's key is its hash; a row has one value, its count.
 *
 *     tally-ps --workers 2 --dir /tmp/words --table words,dim=1,optimizer=sum &
 *     export TALLY_SERVERS=127.0.0.1 TALLY_JOB=words
 *     TALLY_SIZE=2 TALLY_RANK=0 kv README.md & TALLY_SIZE=2 TALLY_RANK=1 kv README.md
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally_kv.h"

enum { WORDS_MAX = 65536, WORD_BYTES = 32, SHOWN = 10 };

struct word {
	uint64_t key;
	float count;
	char text[WORD_BYTES];
};

static struct word words[WORDS_MAX];
static uint64_t keys[WORDS_MAX];
static float values[WORDS_MAX];

static void die(const char *what)
{
	fprintf(stderr, "kv: %s: %s\n", what, tally_get_last_error(NULL));
	exit(1);
}

static uint64_t hash(const char *text)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (; *text; text++)
		sum = (sum ^ (unsigned char)*text) * 0x100000001b3;
	return sum;
}

static int by_key(const void *a, const void *b)
{
	const struct word *one = a, *other = b;

	return one->key < other->key ? -1 : one->key > other->key;
}

static int by_count(const void *a, const void *b)
{
	const struct word *one = a, *other = b;

	return one->count > other->count ? -1 : one->count < other->count;
}

/* Every size'th word from the rank'th on is this worker's to count, but all learn all words. Each word once, by key. */
static size_t read_words(const char *path, uint32_t rank, uint32_t size)
{
	FILE *file = fopen(path, "r");
	char text[WORD_BYTES];
	size_t read = 0, kept = 0;

	if (!file) {
		perror(path);
		exit(1);
	}
	while (read < WORDS_MAX && fscanf(file, "%31s", text) == 1) {
		struct word *word = &words[read];

		for (char *c = text; *c; c++)
			*c = (char)tolower((unsigned char)*c);
		strcpy(word->text, text);
		word->key = hash(text);
		word->count = read++ % size == rank;
	}
	fclose(file);
	qsort(words, read, sizeof(words[0]), by_key);
	for (size_t i = 0; i < read; i++) {
		if (kept && words[kept - 1].key == words[i].key)
			words[kept - 1].count += words[i].count;
		else
			words[kept++] = words[i];
	}
	return kept;
}

int main(int argc, char **argv)
{
	const char *rank_text = getenv("TALLY_RANK"), *size_text = getenv("TALLY_SIZE");
	uint32_t rank = rank_text ? (uint32_t)atoi(rank_text) : 0;
	uint32_t size = size_text ? (uint32_t)atoi(size_text) : 1;
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv;
	size_t count;

	if (argc != 2 || !size || rank >= size) {
		fprintf(stderr, "usage: [TALLY_RANK=R TALLY_SIZE=N TALLY_JOB=NAME] kv FILE\n");
		return 2;
	}
	options.workers = size;
	options.worker = rank;
	count = read_words(argv[1], rank, size);
	for (size_t i = 0; i < count; i++) {
		keys[i] = words[i].key;
		values[i] = words[i].count;
	}
	if (tally_kv_open(&kv, "words", 1, &options))
		die("open");
	if (tally_kv_push(kv, keys, values, count, NULL))
		die("push");
	if (tally_kv_barrier(kv)) /* all workers' pushes are committed */
		die("barrier");
	if (rank == 0) {
		uint64_t timestamp;

		if (tally_kv_pull(kv, keys, values, count, &timestamp) ||
		    tally_kv_wait(kv, timestamp, -1))
			die("pull");
		for (size_t i = 0; i < count; i++)
			words[i].count = values[i];
		qsort(words, count, sizeof(words[0]), by_count);
		for (size_t i = 0; i < count && i < SHOWN; i++)
			printf("%8.0f %s\n", (double)words[i].count, words[i].text);
	}
	if (tally_kv_close(kv))
		die("close");
	return 0;
}
