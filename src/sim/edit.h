/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edit.h - makes a drawn scenario smaller in named respects: `--with workers=2,ops=1`. What is left out
 * stays as it was drawn, and no edit makes anything larger.
 */
#ifndef SIM_EDIT_H
#define SIM_EDIT_H

#include "sim/scenario.h"

/* X(name, the least that it can be, what it is), in the order in which a shrinker tries them */
/* clang-format off */
#define EDITS(X)                                                                       \
	X(jobs, 1, "jobs")                                                             \
	X(shards, 1, "shards")                                                         \
	X(levels, 1, "1: no tree, all workers at the root")                            \
	X(workers, 1, "workers")                                                       \
	X(ops, 1, "operations: the first so many")                                     \
	X(chunks, 1, "chunks of an operation at most")                                 \
	X(strikes, 0, "strikes: partitions, crashes, ...")                             \
	X(pauses, 0, "0: nothing pauses")                                              \
	X(windows, 0, "0: windows stay as they are")                                   \
	X(late, 0, "0: nobody calls late")                                             \
	X(hello, 0, "0: workers are bound by hand")                                    \
	X(seq, 0, "first round of every slot")                                         \
	X(run, 1, "packets in a message")                                              \
	X(lanes, 4, "numbers in a packet")                                             \
	X(slots, 5, "slots")                                                           \
	X(window, 1, "packets on their way")                                           \
	X(jitter, 0, "nanoseconds by which packets are late")                          \
	X(duplicate, 0, "parts per million")                                           \
	X(reorder, 0, "parts per million")                                             \
	X(loss, 0, "parts per million")                                                \
	X(hosts, 0, "0: every cable is fast, every queue long")                        \
	X(last, 0, "the last packet that chance may strike")                           \
	X(spared, 0, "so many of those before it are spared: the first of them")
/* clang-format on */

enum edit {
#define X(name, least, about) EDIT_##name,
	EDITS(X)
#undef X
		EDIT_COUNT,
};

#define EDIT_NONE UINT64_MAX

struct edits {
	uint64_t value[EDIT_COUNT]; /* EDIT_NONE: as drawn */
	uint64_t chance;            /* another course of events: 0 is the seed's own */
};

enum { EDITS_TEXT = 800 }; /* more than all of them with the longest numbers */

void edits_init(struct edits *edits);
/* "workers=2,ops=1,chance=3"; false: a name that there is not, or no number. */
bool edits_read(struct edits *edits, const char *text);
void edits_text(const struct edits *edits, char text[EDITS_TEXT]);
void edits_apply(const struct edits *edits, struct scenario *scenario);
/* What the scenario has of it, and the least that it may have. */
uint64_t edit_now(const struct scenario *scenario, enum edit edit);
uint64_t edit_least(enum edit edit);
const char *edit_name(enum edit edit);
const char *edit_about(enum edit edit);

#endif
