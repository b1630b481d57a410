/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bfs.h - visits every state that a model can reach, breadth first, so that the first trace to a
 * violation is a shortest one. Of a state that was met only its hash is kept (seen.h), and how it was reached; of the
 * two levels at the front what is not 0 as well. A trace is found again by repeating its moves.
 */
#ifndef SEARCH_BFS_H
#define SEARCH_BFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bfs;

struct bfs_model {
	size_t state_bytes; /* states are compared byte by byte: no padding that is not zero */
	const void *config; /* the model's own */
	void (*init)(const void *config, void *state);
	/* Calls bfs_emit for every move that is possible in `state`. */
	void (*expand)(const void *config, const void *state, struct bfs *bfs);
	/* NULL, or what is wrong with the state itself. */
	const char *(*check)(const void *config, const void *state);
	/* May it rest here? Where it may not, a move without BFS_MAY must be possible, and such moves must
	 * not go round in circles: so every run comes to rest, whatever order things happen in. NULL: the
	 * model's check sees to that itself. */
	bool (*is_end)(const void *config, const void *state);
	/* Instead of all these: says what happens, and record_run finds what is wrong (record.h). */
	void (*record)(const void *config);
};

/* In a move's number: it need not happen. A fault, or somebody's free choice. */
#define BFS_MAY 0x80000000u

struct bfs_result {
	uint64_t states, moves;
	uint32_t depth;
	const char *violation; /* NULL: none */
	uint32_t steps;        /* of the shortest trace to it */
	bool is_complete;      /* every reachable state was visited */
	double seconds;        /* of the processor */
};

/* states_max: stop there, is_complete false. trace: where a violation's trace is printed, may be NULL (a
 * FILE *). progress: says how far it is on stderr, once a second. */
struct bfs_result bfs_run(const struct bfs_model *model, uint64_t states_max, void *trace,
			  bool progress);

/* From expand: `next` is reached by `move`, a number that is unique among the state's moves. violation:
 * NULL, or what this step broke. */
void bfs_emit(struct bfs *bfs, const void *next, uint32_t move, const char *violation);

/* From expand: is a trace being printed? Then bfs_say adds to the text of the move that is emitted next. */
bool bfs_is_telling(const struct bfs *bfs);
/* The move that was told of is not emitted after all. */
void bfs_forget(struct bfs *bfs);
__attribute__((format(printf, 2, 3))) void bfs_say(struct bfs *bfs, const char *format, ...);

#endif
