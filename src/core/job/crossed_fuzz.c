/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed_fuzz.c - rounds and answers of any kind, of members that say anything. It must never trap; what it finds
 * are edges of the views that it was given, each from where the last one ends.
 */
#include "core/job/crossed.h"
#include "tests/fuzz/input.h"

enum { VIEWS = 5, RANKS = 4, STEPS = 200 };

static struct {
	union {
		struct crossed_view view;
		uint8_t bytes[sizeof(struct crossed_view) + RANKS * sizeof(struct crossed_member)];
	} job[VIEWS];
	struct crossed_view *views[VIEWS];
	struct crossed_cycle cycle;
	uint64_t now_ns;
} test;

static struct crossed_look look;

static void cycle_check(void)
{
	const struct crossed_cycle *cycle = &test.cycle;
	uint64_t to = 0, begin = 0;

	FUZZ_CHECK(cycle->edges_count);
	for (uint32_t i = 0; i < cycle->edges_count && i < CROSSED_EDGES_MAX; i++) {
		const struct crossed_edge *edge = &cycle->edges[i];
		const struct crossed_view *view;
		const struct crossed_said *from;

		FUZZ_CHECK(edge->view < VIEWS);
		view = test.views[edge->view];
		FUZZ_CHECK(edge->rank < view->size && edge->missing < view->size);
		FUZZ_CHECK(view->is_crossed);
		from = &view->member[edge->rank].said;
		FUZZ_CHECK(from->process && from->blocked && from->waits == edge->number);
		FUZZ_CHECK(!i || from->process == to);
		begin = i ? begin : from->process;
		to = view->member[edge->missing].said.process;
		FUZZ_CHECK(view->member[edge->missing].said.submitted <= edge->number);
	}
	FUZZ_CHECK(cycle->edges_count > CROSSED_EDGES_MAX || to == begin);
}

static void step(struct fuzz_input *input)
{
	uint32_t how = fuzz_u8(input), at = fuzz_u8(input) % VIEWS, more = fuzz_u8(input);
	struct crossed_view *view = test.views[at];
	uint16_t rank = (uint16_t)(more % (RANKS + 1));
	struct control_opinfo info = { .round = how >> 6, .threads = 1 + (more >> 7) };
	struct crossed_edge edge;

	switch (how % 5) {
	case 0:
		crossed_ask(view, how >> 6, rank, test.now_ns);
		break;
	case 1:
	case 2:
		info.entries = fuzz_u8(input) % 3;
		info.submitted = fuzz_u8(input) % 4;
		info.waits = fuzz_u8(input) % 4;
		info.blocked = fuzz_u8(input) % 3;
		info.process = fuzz_u8(input) % 5;
		(void)crossed_answer(view, rank, &info, test.now_ns);
		break;
	case 3:
		test.now_ns += (uint64_t)fuzz_u8(input) * 100000000;
		break;
	case 4:
		if (crossed_find(&look, test.views, VIEWS, test.now_ns, more * 50000000ull,
				 &test.cycle))
			cycle_check();
		(void)crossed_follow(test.views, VIEWS, at, rank, test.now_ns, &edge);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	memset(&test, 0, sizeof(test));
	for (uint32_t i = 0; i < VIEWS; i++) {
		test.views[i] = &test.job[i].view;
		crossed_view_init(test.views[i], (uint16_t)(1 + fuzz_u8(&input) % RANKS));
	}
	for (uint32_t i = 0; i < STEPS && input.left; i++)
		step(&input);
	return 0;
}
