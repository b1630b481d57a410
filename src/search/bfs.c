/* SPDX-License-Identifier: Apache-2.0 */
/* bfs.c - see bfs.h. */
#include "search/bfs.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/seen.h"

enum { TEXT_BYTES = 1024, ROOM_FIRST = 1 << 16, WORD = sizeof(uint64_t), MASK_WORDS = 64 };

/* How a state was reached; its index is the state's number. */
struct step {
	uint32_t parent, move;
};

/* A move that is not BFS_MAY, between two states. */
struct edge {
	uint32_t from, to;
};

/* States of one depth, packed one after the other: of every 64 words first which are not 0, then those. */
struct level {
	uint64_t *words;
	size_t words_count, words_room;
	uint32_t *numbers;
	size_t count, room;
};

struct bfs {
	const struct bfs_model *model;
	struct seen seen;
	struct step *path;
	uint64_t count, path_room, moves;
	struct level front, next;
	struct edge *edges; /* only with is_end */
	size_t edges_count, edges_room;
	uint32_t parent;         /* of the state that is being expanded */
	bool is_moving;          /* it has a move that is not BFS_MAY */
	const char *violation;   /* the first */
	uint32_t violation_move; /* from `violation_parent` */
	uint32_t violation_parent;
	bool is_telling; /* repeating a trace: looks for one move */
	uint32_t wanted_move;
	bool is_found;
	uint8_t *found;
	char text[TEXT_BYTES], found_text[TEXT_BYTES];
};

static void *grow(void *memory, size_t count, size_t bytes)
{
	void *more = realloc(memory, count * bytes);

	if (!more) {
		fprintf(stderr, "search: out of memory (%zu bytes)\n", count * bytes);
		exit(1);
	}
	return more;
}

static size_t packed_words_max(size_t bytes)
{
	size_t words = (bytes + WORD - 1) / WORD;

	return words + (words + MASK_WORDS - 1) / MASK_WORDS;
}

/* How many words at `to` are written. */
static size_t pack(const uint8_t *state, size_t bytes, uint64_t *to)
{
	size_t count = 0, mask_at = 0;

	for (size_t i = 0; i * WORD < bytes; i++) {
		size_t rest = bytes - i * WORD;
		uint64_t word = 0;

		if (i % MASK_WORDS == 0) {
			mask_at = count++;
			to[mask_at] = 0;
		}
		memcpy(&word, state + i * WORD, rest < WORD ? rest : WORD);
		if (!word)
			continue;
		to[mask_at] |= 1ull << i % MASK_WORDS;
		to[count++] = word;
	}
	return count;
}

/* How many words at `from` were read. */
static size_t unpack(const uint64_t *from, uint8_t *state, size_t bytes)
{
	size_t count = 0;
	uint64_t mask = 0;

	memset(state, 0, bytes);
	for (size_t i = 0; i * WORD < bytes; i++, mask >>= 1) {
		size_t rest = bytes - i * WORD;

		if (i % MASK_WORDS == 0)
			mask = from[count++];
		if (mask & 1)
			memcpy(state + i * WORD, &from[count++], rest < WORD ? rest : WORD);
	}
	return count;
}

static void remember(struct bfs *bfs, const void *state, uint32_t parent, uint32_t move)
{
	size_t bytes = bfs->model->state_bytes;
	struct level *next = &bfs->next;

	if (bfs->count == bfs->path_room) {
		bfs->path_room = bfs->path_room ? 2 * bfs->path_room : ROOM_FIRST;
		bfs->path = grow(bfs->path, bfs->path_room, sizeof(*bfs->path));
	}
	if (next->count == next->room) {
		next->room = next->room ? 2 * next->room : 1024;
		next->numbers = grow(next->numbers, next->room, sizeof(*next->numbers));
	}
	if (next->words_count + packed_words_max(bytes) > next->words_room) {
		next->words_room = 2 * next->words_room + packed_words_max(bytes);
		next->words = grow(next->words, next->words_room, WORD);
	}
	next->words_count += pack(state, bytes, next->words + next->words_count);
	next->numbers[next->count++] = (uint32_t)bfs->count;
	bfs->path[bfs->count++] = (struct step){ parent, move };
}

static void note_violation(struct bfs *bfs, const char *violation, uint32_t parent, uint32_t move)
{
	if (bfs->violation)
		return;
	bfs->violation = violation;
	bfs->violation_parent = parent;
	bfs->violation_move = move;
}

static void emit_told(struct bfs *bfs, const void *next, uint32_t move)
{
	if (move == bfs->wanted_move && !bfs->is_found) {
		bfs->is_found = true;
		memcpy(bfs->found, next, bfs->model->state_bytes);
		memcpy(bfs->found_text, bfs->text, sizeof(bfs->text));
	}
	bfs->text[0] = '\0';
}

static void remember_edge(struct bfs *bfs, uint32_t to)
{
	bfs->is_moving = true;
	if (!bfs->model->is_end)
		return;
	if (bfs->edges_count == bfs->edges_room) {
		bfs->edges_room = bfs->edges_room ? 2 * bfs->edges_room : ROOM_FIRST;
		bfs->edges = grow(bfs->edges, bfs->edges_room, sizeof(*bfs->edges));
	}
	bfs->edges[bfs->edges_count++] = (struct edge){ bfs->parent, to };
}

void bfs_emit(struct bfs *bfs, const void *next, uint32_t move, const char *violation)
{
	uint32_t number;

	if (bfs->is_telling) {
		emit_told(bfs, next, move);
		return;
	}
	bfs->moves++;
	if (violation)
		note_violation(bfs, violation, bfs->parent, move);
	number = seen_put(&bfs->seen, next, bfs->model->state_bytes);
	if (!(move & BFS_MAY))
		remember_edge(bfs, number);
	if (number != bfs->count)
		return;
	violation = bfs->model->check(bfs->model->config, next);
	if (violation)
		note_violation(bfs, violation, bfs->parent, move);
	remember(bfs, next, bfs->parent, move);
}

bool bfs_is_telling(const struct bfs *bfs)
{
	return bfs->is_telling;
}

void bfs_forget(struct bfs *bfs)
{
	bfs->text[0] = '\0';
}

void bfs_say(struct bfs *bfs, const char *format, ...)
{
	size_t used = strlen(bfs->text);
	va_list list;

	if (!bfs->is_telling)
		return;
	va_start(list, format);
	vsnprintf(bfs->text + used, sizeof(bfs->text) - used, format, list);
	va_end(list);
}

/* Repeats the moves from the first state to the violation and prints each. */
static uint32_t tell(struct bfs *bfs, FILE *out)
{
	uint32_t steps = 1;
	uint32_t *moves;
	uint8_t *state = grow(NULL, 1, bfs->model->state_bytes);

	for (uint32_t i = bfs->violation_parent; i; i = bfs->path[i].parent)
		steps++;
	moves = grow(NULL, steps, sizeof(*moves));
	moves[steps - 1] = bfs->violation_move;
	for (uint32_t i = bfs->violation_parent, at = steps - 1; i; i = bfs->path[i].parent)
		moves[--at] = bfs->path[i].move;
	bfs->is_telling = true;
	bfs->found = grow(NULL, 1, bfs->model->state_bytes);
	memset(state, 0, bfs->model->state_bytes);
	bfs->model->init(bfs->model->config, state);
	for (uint32_t i = 0; i < steps && out; i++) {
		bfs->wanted_move = moves[i];
		bfs->is_found = false;
		bfs->text[0] = '\0';
		bfs->model->expand(bfs->model->config, state, bfs);
		assert(bfs->is_found);
		fprintf(out, "  %2u. %s\n", i + 1, bfs->found_text);
		memcpy(state, bfs->found, bfs->model->state_bytes);
	}
	if (out)
		fprintf(out, "      ^^^ %s\n", bfs->violation);
	free(moves);
	free(state);
	return steps;
}

/* Of the processor: other programs on the machine do not count. */
static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void say_progress(const struct bfs *bfs, uint32_t depth, double *last)
{
	double now = seconds_now();

	if (now - *last < 1)
		return;
	*last = now;
	fprintf(stderr, "\r  %llu states, depth %u, front %zu   ", (unsigned long long)bfs->count,
		depth, bfs->front.count);
}

/* Takes states out, again and again: those that nothing which is left leads to (is_up), or that lead to
 * nothing which is left. After both, what stays lies on circles, or between two. */
static void prune(const struct bfs *bfs, bool is_up, uint8_t *is_out)
{
	uint32_t *degree = grow(NULL, bfs->count, sizeof(*degree));
	uint32_t *first = grow(NULL, bfs->count + 1, sizeof(*first));
	uint32_t *other = grow(NULL, bfs->edges_count + 1, sizeof(*other));
	uint32_t *queue = grow(NULL, bfs->count, sizeof(*queue));
	uint64_t head = 0, tail = 0;

	memset(degree, 0, bfs->count * sizeof(*degree));
	memset(first, 0, (bfs->count + 1) * sizeof(*first));
	for (size_t i = 0; i < bfs->edges_count; i++)
		first[(is_up ? bfs->edges[i].from : bfs->edges[i].to) + 1]++;
	for (uint64_t i = 0; i < bfs->count; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < bfs->edges_count; i++) {
		uint32_t at = is_up ? bfs->edges[i].from : bfs->edges[i].to;
		uint32_t to = is_up ? bfs->edges[i].to : bfs->edges[i].from;
		bool is_in = !is_out[at] && !is_out[to];

		other[first[at]++] = is_in ? to : UINT32_MAX; /* first[at] is now the next one's */
		degree[to] += is_in;
	}
	for (uint32_t i = 0; i < bfs->count; i++)
		if (!is_out[i] && !degree[i])
			queue[tail++] = i;
	while (head < tail) {
		uint32_t at = queue[head++];

		is_out[at] = 1;
		for (uint32_t i = at ? first[at - 1] : 0; i < first[at]; i++)
			if (other[i] != UINT32_MAX && !--degree[other[i]])
				queue[tail++] = other[i];
	}
	free(degree);
	free(first);
	free(other);
	free(queue);
}

static void find_circle(struct bfs *bfs)
{
	uint8_t *is_out = grow(NULL, bfs->count, 1);

	memset(is_out, 0, bfs->count);
	prune(bfs, true, is_out);
	prune(bfs, false, is_out);
	for (uint32_t i = 1; i < bfs->count && !bfs->violation; i++)
		if (!is_out[i])
			note_violation(bfs, "LIVENESS: from here it may go round in circles",
				       bfs->path[i].parent, bfs->path[i].move);
	free(is_out);
}

static void expand(struct bfs *bfs, const void *state)
{
	const struct bfs_model *model = bfs->model;
	const struct step *step;

	bfs->is_moving = false;
	model->expand(model->config, state, bfs);
	if (!model->is_end || bfs->is_moving || model->is_end(model->config, state))
		return;
	step = &bfs->path[bfs->parent];
	note_violation(bfs, "LIVENESS: it waits for ever", step->parent, step->move);
}

static void level_swap(struct bfs *bfs)
{
	struct level old = bfs->front;

	bfs->front = bfs->next;
	bfs->next = old;
	bfs->next.count = bfs->next.words_count = 0;
}

struct bfs_result bfs_run(const struct bfs_model *model, uint64_t states_max, void *trace,
			  bool progress)
{
	struct bfs bfs = { .model = model };
	struct bfs_result result = { .is_complete = true };
	double start = seconds_now(), last = start;
	uint8_t *state = grow(NULL, 1, model->state_bytes);
	const char *first; /* what is wrong with the first state */

	memset(state, 0, model->state_bytes);
	model->init(model->config, state);
	seen_put(&bfs.seen, state, model->state_bytes);
	remember(&bfs, state, 0, 0);
	first = model->check(model->config, state);
	while (bfs.next.count && !first && !bfs.violation && result.is_complete) {
		size_t at = 0;

		level_swap(&bfs);
		result.depth++;
		for (size_t i = 0; i < bfs.front.count && !bfs.violation; i++) {
			bfs.parent = bfs.front.numbers[i];
			at += unpack(bfs.front.words + at, state, model->state_bytes);
			expand(&bfs, state);
			if (progress)
				say_progress(&bfs, result.depth, &last);
			if (bfs.count > states_max) {
				result.is_complete = false;
				break;
			}
		}
	}
	if (model->is_end && !first && !bfs.violation && result.is_complete)
		find_circle(&bfs);
	if (progress && last > start)
		fprintf(stderr, "\r%60s\r", "");
	result.states = bfs.count;
	result.moves = bfs.moves;
	result.violation = first ? first : bfs.violation;
	result.seconds = seconds_now() - start;
	if (first) {
		result.is_complete = false;
		if (trace)
			fprintf(trace, "      ^^^ %s\n", first);
	}
	if (bfs.violation) {
		result.is_complete = false;
		result.steps = tell(&bfs, trace);
	}
	free(bfs.found);
	seen_forget(&bfs.seen);
	free(bfs.edges);
	free(bfs.path);
	free(bfs.front.words);
	free(bfs.front.numbers);
	free(bfs.next.words);
	free(bfs.next.numbers);
	free(state);
	return result;
}
