/* SPDX-License-Identifier: Apache-2.0 */
/* rows_control.c - control.h's rows. */
#include "search/rows.h"

#include "core/job/control.h"
#include "search/control.h"

#define CAUSE(name) (1u << CONTROL_##name)
enum {
	/* Somebody may never come; then the time to gather is over. */
	LOST = CAUSE(REMOTE) | CAUSE(TIMEOUT),
};
#define TWO                               \
	.processes = 2, .shards = 1,      \
	.process = {                      \
		{ .rank = 0, .size = 2 }, \
		{ .rank = 1, .size = 2 }, \
	}
#define THREE                             \
	.processes = 3, .shards = 1,      \
	.process = {                      \
		{ .rank = 0, .size = 3 }, \
		{ .rank = 1, .size = 3 }, \
		{ .rank = 2, .size = 3 }, \
	}
/* Rank 0 comes again. */
#define TWO_LIVES                                     \
	.processes = 3, .shards = 1,                  \
	.process = {                                  \
		{ .rank = 0, .size = 2 },             \
		{ .rank = 1, .size = 2 },             \
		{ .rank = 0, .size = 2, .after = 1 }, \
	}
/* Who claims a seat that another one has, or had, may be denied it. */
#define CLAIMS .may = { [FAULT_KILL] = 1 }, .causes = LOST | CAUSE(DENIED)

/* clang-format off */
static const struct control_config clean = {
	TWO, .causes = CAUSE(TIMEOUT),
};
static const struct control_config clean_shards = {
	.processes = 2, .shards = 2,
	.process = { { .rank = 0, .size = 2, .program = "aa" }, { .rank = 1, .size = 2, .program = "aa" } },
	.causes = CAUSE(TIMEOUT),
};
static const struct control_config clean_three = {
	THREE, .causes = CAUSE(TIMEOUT),
};
static const struct control_config killed = {
	TWO, .may = { [FAULT_KILL] = 2, [FAULT_ASK] = 2 }, .causes = LOST,
};
static const struct control_config killed_three = {
	THREE, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config cut = {
	TWO, .may = { [FAULT_CUT] = 1 }, .causes = LOST,
};
static const struct control_config stopped = {
	TWO, .may = { [FAULT_STOP] = 2 }, .causes = LOST,
};
static const struct control_config aborted = {
	TWO, .may = { [FAULT_ABORT] = 2 }, .causes = LOST | CAUSE(ABORTED),
};
static const struct control_config blocked = {
	TWO, .may = { [FAULT_BLOCK] = 1, [FAULT_REFUSE] = 1 },
	.causes = LOST | CAUSE(SYSTEM) | CAUSE(NO_RESOURCE),
};
static const struct control_config late = {
	TWO, .may = { [FAULT_LATE] = 1, [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config aggregator_killed = {
	TWO, .may = { [FAULT_AGG_KILL] = 1, [FAULT_AGG_START] = 1 },
	.causes = LOST | CAUSE(SYSTEM),
};
static const struct control_config aggregator_cut = {
	TWO, .may = { [FAULT_AGG_CUT] = 1, [FAULT_AGG_START] = 1 },
	.causes = LOST | CAUSE(SYSTEM),
};
static const struct control_config aggregator_stopped = {
	TWO, .may = { [FAULT_AGG_STOP] = 1 }, .causes = LOST,
};
static const struct control_config terminated = {
	TWO, .may = { [FAULT_TERM] = 1, [FAULT_LIMIT] = 1 },
	.causes = LOST | CAUSE(DENIED) | CAUSE(SYSTEM),
};
static const struct control_config again = {
	TWO_LIVES, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config again_cut = {
	TWO_LIVES, .may = { [FAULT_CUT] = 1 }, .causes = LOST,
};
static const struct control_config both_again = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 },
		     { .rank = 0, .size = 2, .after = 1 }, { .rank = 1, .size = 2, .after = 2 } },
	.may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config claimed = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 }, { .rank = 0, .size = 2 } },
	CLAIMS,
};
static const struct control_config claimed_by_two_programs = {
	.processes = 4, .shards = 1, .is_launched = true,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 },
		     { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config claimed_by_a_program_killed = {
	.processes = 3, .shards = 1, .is_launched = true,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 }, { .rank = 0, .size = 2 } },
	CLAIMS,
};
static const struct control_config claimed_thrice = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 3 }, { .rank = 0, .size = 3 }, { .rank = 0, .size = 3 },
		     { .rank = 1, .size = 3 } },
	CLAIMS,
};
static const struct control_config claimed_came_again = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 0, .size = 2 }, { .rank = 0, .size = 2, .after = 1 } },
	CLAIMS,
};
static const struct control_config sizes_claimed = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 1 }, { .rank = 0, .size = 2 }, { .rank = 0, .size = 3 } },
	CLAIMS,
};
static const struct control_config sizes_wait = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 1 }, { .rank = 0, .size = 2 }, { .rank = 2, .size = 3 } },
	CLAIMS,
};
static const struct control_config shards_killed = {
	.processes = 3, .shards = 2,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 }, { .rank = 0, .size = 2, .after = 1 } },
	.may = { [FAULT_KILL] = 1, [FAULT_REFUSE] = 1 },
	.causes = LOST | CAUSE(NO_RESOURCE),
};
static const struct control_config sizes = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 3 } },
	CLAIMS,
};
static const struct control_config lists = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2, .list = 1 },
		     { .rank = 1, .size = 2, .after = 2 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config windows = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 2, .slots = 4, .window = 2 },
		     { .rank = 1, .size = 2, .slots = 4, .window = 3 },
		     { .rank = 1, .size = 2, .slots = 4, .window = 2, .after = 2 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config latency_slots = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .slots = 4, .window = 2 },
		     { .rank = 1, .size = 2, .slots = 5, .window = 2 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config modes = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2, .slots = 4, .window = 2 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config local_sizes = {
	.processes = 2, .shards = 1, .is_local = true,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 3 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config key_wrong = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2, .key = 1 },
		     { .rank = 1, .size = 2, .after = 2 }, { .rank = 0, .size = 2, .after = 1 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config claimed_three = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 3 }, { .rank = 1, .size = 3 }, { .rank = 2, .size = 3 },
		     { .rank = 0, .size = 3 } },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config of_life = {
	THREE, .life = 1, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config of_life_cut = {
	TWO, .life = 1, .may = { [FAULT_CUT] = 1, [FAULT_ABORT] = 1 }, .causes = LOST | CAUSE(ABORTED),
};
static const struct control_config expired = {
	TWO, .may = { [FAULT_EXPIRE] = 1, [FAULT_STOP] = 1 }, .causes = LOST,
};
static const struct control_config expired_asked = {
	TWO, .may = { [FAULT_EXPIRE] = 1, [FAULT_ASK] = 1 }, .causes = LOST,
};
static const struct control_config expired_three = {
	THREE, .may = { [FAULT_EXPIRE] = 1, [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config expired_aggregator = {
	TWO, .may = { [FAULT_EXPIRE] = 1, [FAULT_AGG_STOP] = 1 }, .causes = LOST,
};
static const struct control_config expired_differ = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .program = "aA" }, { .rank = 1, .size = 2, .program = "Aa" } },
	.may = { [FAULT_EXPIRE] = 1 }, .causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config expired_paged = {
	.processes = 2, .shards = 1, .is_paged = true,
	.process = { { .rank = 0, .size = 2, .program = "aA" }, { .rank = 1, .size = 2, .program = "aA" } },
	.may = { [FAULT_EXPIRE] = 1 }, .causes = LOST,
};
static const struct control_config expired_cut = {
	.processes = 2, .shards = 1, .is_cut = true,
	.process = { { .rank = 0, .size = 2, .program = "aA" }, { .rank = 1, .size = 2, .program = "aA" } },
	.may = { [FAULT_EXPIRE] = 1 }, .causes = LOST,
};
static const struct control_config differ_paged = {
	.processes = 2, .shards = 1, .is_paged = true, .is_cut = true,
	.process = { { .rank = 0, .size = 2, .program = "aa" }, { .rank = 1, .size = 2, .program = "aA" } },
	.may = { [FAULT_EXPIRE] = 1 }, .causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config unheard = {
	.processes = 2, .shards = 2, .process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } },
	.may = { [FAULT_UNHEARD] = 2 }, .causes = CAUSE(TIMEOUT),
};
static const struct control_config differ = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .program = "ab" }, { .rank = 1, .size = 2, .program = "aa" } },
	.may = { [FAULT_ASK] = 2 }, .causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config differ_streams = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .program = "aA" }, { .rank = 1, .size = 2, .program = "Aa" } },
	.may = { [FAULT_ASK] = 2 }, .causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config differ_three = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 3 }, { .rank = 1, .size = 3 },
		     { .rank = 2, .size = 3, .program = "A" } },
	.causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config leaver = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .program = "aa" }, { .rank = 1, .size = 2, .program = "a" } },
	.may = { [FAULT_ASK] = 2 }, .causes = LOST,
};
static const struct control_config stopped_killed = {
	TWO, .may = { [FAULT_STOP] = 1, [FAULT_KILL] = 1, [FAULT_ASK] = 1 }, .causes = LOST,
};
static const struct control_config aggregator_stopped_cut = {
	TWO, .may = { [FAULT_AGG_STOP] = 1, [FAULT_CUT] = 1, [FAULT_ABORT] = 1 },
	.causes = LOST | CAUSE(ABORTED),
};
static const struct control_config again_aborted = {
	TWO_LIVES, .may = { [FAULT_ABORT] = 1, [FAULT_STOP] = 1 },
	.causes = LOST | CAUSE(ABORTED),
};
static const struct control_config again_terminated = {
	TWO_LIVES, .may = { [FAULT_KILL] = 1, [FAULT_TERM] = 1, [FAULT_LIMIT] = 1 },
	.causes = LOST | CAUSE(DENIED) | CAUSE(SYSTEM),
};
static const struct control_config claimed_again = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 }, { .rank = 0, .size = 2 },
		     { .rank = 0, .size = 2, .after = 1 } },
	.may = { [FAULT_KILL] = 2 },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config claimed_stopped = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 }, { .rank = 0, .size = 2 } },
	.may = { [FAULT_STOP] = 1, [FAULT_CUT] = 1 },
	.causes = LOST | CAUSE(DENIED),
};
static const struct control_config both_again_aggregator = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 },
		     { .rank = 0, .size = 2, .after = 1 }, { .rank = 1, .size = 2, .after = 2 } },
	.may = { [FAULT_AGG_KILL] = 1, [FAULT_AGG_START] = 1 },
	.causes = LOST | CAUSE(SYSTEM),
};
static const struct control_config three_stopped_cut = {
	THREE, .may = { [FAULT_STOP] = 1, [FAULT_CUT] = 1 }, .causes = LOST,
};
static const struct control_config differ_killed = {
	.processes = 2, .shards = 1,
	.process = { { .rank = 0, .size = 2, .program = "a" }, { .rank = 1, .size = 2, .program = "b" } },
	.may = { [FAULT_KILL] = 1, [FAULT_STOP] = 1, [FAULT_ASK] = 1 },
	.causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config differ_tie = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 3 }, { .rank = 1, .size = 3, .program = "A" },
		     { .rank = 2, .size = 3, .program = "b" } },
	.may = { [FAULT_ASK] = 1 }, .causes = LOST | CAUSE(MISMATCH),
};
static const struct control_config leaver_three = {
	.processes = 3, .shards = 1,
	.process = { { .rank = 0, .size = 3, .program = "aa" }, { .rank = 1, .size = 3, .program = "aa" },
		     { .rank = 2, .size = 3, .program = "a" } },
	.may = { [FAULT_ASK] = 1 }, .causes = LOST,
};
static const struct control_config sizes_again = {
	.processes = 4, .shards = 1,
	.process = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 },
		     { .rank = 2, .size = 3 }, { .rank = 0, .size = 2, .after = 1 } },
	CLAIMS,
};
static const struct control_config aggregators = {
	TWO, .second = SECOND_AGGREGATOR, .causes = CAUSE(TIMEOUT),
};
static const struct control_config aggregators_rank_killed = {
	TWO, .second = SECOND_AGGREGATOR, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config aggregators_three = {
	THREE, .second = SECOND_AGGREGATOR, .causes = CAUSE(TIMEOUT),
};
static const struct control_config aggregators_killed = {
	TWO, .second = SECOND_AGGREGATOR, .may = { [FAULT_AGG_KILL] = 1 },
	.causes = LOST | CAUSE(SYSTEM),
};
static const struct control_config aggregators_cut = {
	TWO, .second = SECOND_AGGREGATOR, .may = { [FAULT_AGG_CUT] = 1 },
	.causes = LOST | CAUSE(SYSTEM),
};
static const struct control_config aggregators_again = {
	TWO_LIVES, .second = SECOND_AGGREGATOR, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config aggregators_aborted = {
	TWO, .second = SECOND_AGGREGATOR, .may = { [FAULT_ABORT] = 1, [FAULT_STOP] = 1 },
	.causes = LOST | CAUSE(ABORTED),
};
static const struct control_config communicators = {
	TWO, .second = SECOND_COMMUNICATOR, .causes = CAUSE(TIMEOUT),
};
static const struct control_config communicators_killed = {
	TWO, .second = SECOND_COMMUNICATOR, .may = { [FAULT_KILL] = 1 }, .causes = LOST,
};
static const struct control_config communicators_aborted = {
	TWO, .second = SECOND_COMMUNICATOR, .may = { [FAULT_ABORT] = 1 },
	.causes = LOST | CAUSE(ABORTED),
};
static const struct control_config communicators_three = {
	THREE, .second = SECOND_COMMUNICATOR, .causes = CAUSE(TIMEOUT),
};
static const struct control_config mute = {
	TWO, .has_clock = true, .may = { [FAULT_MUTE] = 1, [FAULT_SECOND] = 2 }, .causes = LOST,
};
static const struct control_config misfit = {
	TWO, .has_clock = true, .may = { [FAULT_MISFIT] = 1, [FAULT_DUMB] = 1 }, .causes = LOST,
};
static const struct control_config patient = {
	TWO, .has_clock = true, .may = { [FAULT_STOP] = 1, [FAULT_SECOND] = 8 }, .causes = LOST,
};
/* clang-format on */

static const struct search_row rows[] = {
	{ "control: n=2", control_model, &clean, false },
	{ "control: n=2, 2 shards, 2 operations", control_model, &clean_shards, false },
	{ "control: n=3", control_model, &clean_three, false },
	{ "control: n=2, both are killed, STALL at any time", control_model, &killed, false },
	{ "control: n=3, one is killed", control_model, &killed_three, false },
	{ "control: n=2, one loses power", control_model, &cut, false },
	{ "control: n=2, stopped and continued, twice", control_model, &stopped, false },
	{ "control: n=2, users abort", control_model, &aborted, false },
	{ "control: n=2, no WELCOME, a shard without room", control_model, &blocked, false },
	{ "control: n=2, the time is over at any time, one is killed", control_model, &late,
	  false },
	{ "control: n=2, the aggregator is killed, started again", control_model,
	  &aggregator_killed, false },
	{ "control: n=2, the aggregator loses power, starts again", control_model, &aggregator_cut,
	  false },
	{ "control: n=2, the aggregator is stopped and continued", control_model,
	  &aggregator_stopped, false },
	{ "control: n=2, SIGTERM, its limit", control_model, &terminated, false },
	{ "control: n=2, rank 0 comes again, one is killed", control_model, &again, false },
	{ "control: n=2, rank 0 comes again, one loses power", control_model, &again_cut, false },
	{ "control: n=2, both come again, one is killed", control_model, &both_again, false },
	{ "control: n=2, two claim rank 0, one is killed", control_model, &claimed, false },
	{ "control: n=2, two programs of one launch", control_model, &claimed_by_two_programs,
	  false },
	{ "control: n=2, two programs of one launch claim rank 0, one is killed", control_model,
	  &claimed_by_a_program_killed, false },
	{ "control: n=3, three claim rank 0, one is killed", control_model, &claimed_thrice,
	  false },
	{ "control: n=2, two claim rank 0, it comes again, one is killed", control_model,
	  &claimed_came_again, false },
	{ "control: sizes 1 to 3 claim rank 0, one is killed", control_model, &sizes_claimed,
	  false },
	{ "control: sizes 1 to 3, a rank only the largest has, one is killed", control_model,
	  &sizes_wait, false },
	{ "control: n=2, 2 shards, one without room, one is killed", control_model, &shards_killed,
	  false },
	{ "control: n=2, sizes differ, one is killed", control_model, &sizes, false },
	{ "control: n=2, lists of aggregators differ, one corrects it", control_model, &lists,
	  false },
	{ "control: n=2, windows of latency mode differ, one corrects it", control_model, &windows,
	  false },
	{ "control: n=2, numbers of latency mode's slots differ", control_model, &latency_slots,
	  false },
	{ "control: n=2, one wants latency mode", control_model, &modes, false },
	{ "control: n=2, sizes differ, rank 0 is said to be the host", control_model, &local_sizes,
	  false },
	{ "control: n=2, rank 1 has another key, both come again", control_model, &key_wrong,
	  false },
	{ "control: n=3, two claim rank 0", control_model, &claimed_three, false },
	{ "control: n=3, of a life, one is killed", control_model, &of_life, false },
	{ "control: n=2, of a life, one loses power, an abort", control_model, &of_life_cut,
	  false },
	{ "control: n=2, a deadline, one is stopped", control_model, &expired, false },
	{ "control: n=2, a deadline, STALL at any time", control_model, &expired_asked, false },
	{ "control: n=3, a deadline, one is killed", control_model, &expired_three, true },
	{ "control: n=2, a deadline, the aggregator is stopped", control_model, &expired_aggregator,
	  false },
	{ "control: n=2, a deadline, streams differ", control_model, &expired_differ, false },
	{ "control: n=2, a deadline, lists of several pages", control_model, &expired_paged,
	  false },
	{ "control: n=2, a deadline, compared one at a time", control_model, &expired_cut, true },
	{ "control: n=2, a deadline, operation 1 differs, lists of several pages", control_model,
	  &differ_paged, false },
	{ "control: n=2, 2 shards, HELLO again", control_model, &unheard, false },
	{ "control: n=2, operation 1 differs, STALL at any time", control_model, &differ, false },
	{ "control: n=2, operations 0 and 1 differ in their streams", control_model,
	  &differ_streams, false },
	{ "control: n=3, operation 0 differs in its stream", control_model, &differ_three, false },
	{ "control: n=2, rank 1 leaves early", control_model, &leaver, false },
	{ "control: n=2, one stopped, one killed, STALL at any time", control_model,
	  &stopped_killed, false },
	{ "control: n=2, the aggregator stopped, one without power, an abort", control_model,
	  &aggregator_stopped_cut, false },
	{ "control: n=2, rank 0 comes again, an abort, one stopped", control_model, &again_aborted,
	  false },
	{ "control: n=2, rank 0 comes again, one killed, SIGTERM", control_model, &again_terminated,
	  false },
	{ "control: n=2, two claim rank 0, it comes again, two killed", control_model,
	  &claimed_again, true },
	{ "control: n=2, two claim rank 0, one stopped, one without power", control_model,
	  &claimed_stopped, true },
	{ "control: n=2, both come again, the aggregator is killed, started", control_model,
	  &both_again_aggregator, false },
	{ "control: n=3, one stopped, one without power", control_model, &three_stopped_cut,
	  false },
	{ "control: n=2, operation 0 differs, one stopped, one killed", control_model,
	  &differ_killed, false },
	{ "control: n=3, operation 0 differs everywhere", control_model, &differ_tie, false },
	{ "control: n=3, rank 2 leaves early", control_model, &leaver_three, false },
	{ "control: n=2, sizes differ, rank 0 comes again, one killed", control_model, &sizes_again,
	  false },
	{ "control: n=2, two aggregators", control_model, &aggregators, false },
	{ "control: n=2, two aggregators, one rank is killed", control_model,
	  &aggregators_rank_killed, false },
	{ "control: n=3, two aggregators", control_model, &aggregators_three, true },
	{ "control: n=2, two aggregators, one of them is killed", control_model,
	  &aggregators_killed, false },
	{ "control: n=2, two aggregators, one of them loses power", control_model, &aggregators_cut,
	  false },
	{ "control: n=2, two aggregators, rank 0 comes again, one is killed", control_model,
	  &aggregators_again, true },
	{ "control: n=2, two aggregators, an abort, one is stopped", control_model,
	  &aggregators_aborted, true },
	{ "control: n=2, two communicators", control_model, &communicators, false },
	{ "control: n=2, two communicators, one rank is killed", control_model,
	  &communicators_killed, false },
	{ "control: n=2, two communicators, one of them is aborted", control_model,
	  &communicators_aborted, false },
	{ "control: n=3, two communicators", control_model, &communicators_three, true },
	{ "control: n=2, a rank's packets get lost, nothing moves", control_model, &mute, false },
	{ "control: n=2, packets that do not fit, no answers, nothing moves", control_model,
	  &misfit, false },
	{ "control: n=2, seconds pass, one is stopped", control_model, &patient, true },
};
const struct search_rows search_rows_control = { rows, sizeof(rows) / sizeof(rows[0]) };
