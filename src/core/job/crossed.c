/* SPDX-License-Identifier: Apache-2.0 */
/* crossed.c - see crossed.h. */
#include "core/job/crossed.h"

size_t crossed_view_bytes(uint16_t size)
{
	return sizeof(struct crossed_view) + size * sizeof(struct crossed_member);
}

void crossed_view_init(struct crossed_view *view, uint16_t size)
{
	memset(view, 0, crossed_view_bytes(size));
	view->size = size;
}

/* ---- rounds ---- */

void crossed_ask(struct crossed_view *view, uint32_t round, uint16_t rank, uint64_t now_ns)
{
	if (rank >= view->size)
		return;
	if (round != view->round || !view->asked) {
		for (uint32_t i = 0; i < view->size; i++) {
			view->member[i].is_asked = 0;
			memset(&view->member[i].next, 0, sizeof(view->member[i].next));
		}
		view->round = round;
		view->next_ns = now_ns;
		view->asked = view->answered = 0;
	}
	if (view->member[rank].is_asked)
		return;
	view->member[rank].is_asked = 1;
	view->asked++;
}

static bool is_same(const struct crossed_said *a, const struct crossed_said *b)
{
	return a->is_there && a->process == b->process && a->threads == b->threads &&
	       a->entries == b->entries;
}

static void round_end(struct crossed_view *view, uint64_t now_ns)
{
	for (uint32_t i = 0; i < view->size; i++) {
		struct crossed_member *member = &view->member[i];

		if (!is_same(&member->said, &member->next))
			member->since_ns = now_ns;
		member->said = member->next;
	}
	view->asked_ns = view->next_ns;
	view->has_said = 1;
	view->asked = 0;
}

bool crossed_answer(struct crossed_view *view, uint16_t rank, const struct control_opinfo *info,
		    uint64_t now_ns)
{
	struct crossed_member *member;

	if (rank >= view->size || !view->asked || info->round != view->round)
		return false;
	member = &view->member[rank];
	if (!member->is_asked || member->next.is_there)
		return false;
	member->next = (struct crossed_said){
		.process = info->process,
		.entries = info->entries,
		.submitted = info->submitted,
		.waits = info->waits,
		.threads = info->threads,
		.blocked = info->blocked,
		.is_there = 1,
		.is_warn = info->is_warn,
	};
	if (++view->answered < view->asked)
		return false;
	round_end(view, now_ns);
	return true;
}

/* ---- a look ---- */

struct turn {
	struct crossed_look *look;
	struct crossed_view *const *views;
	uint32_t count;
	uint64_t now_ns;
};

static bool is_fresh(const struct crossed_view *view, uint64_t now_ns)
{
	return view && view->has_said && now_ns - view->asked_ns <= CROSSED_FRESH_NS;
}

static struct crossed_member *member_of(const struct turn *turn,
					const struct crossed_record *record)
{
	return &turn->views[record->view]->member[record->rank];
}

static uint64_t process_of(const struct turn *turn, uint32_t i)
{
	return member_of(turn, &turn->look->record[i])->said.process;
}

/* False: there are too many. */
static bool records_collect(const struct turn *turn)
{
	struct crossed_look *look = turn->look;

	look->count = look->work = look->found = 0;
	for (uint32_t v = 0; v < turn->count; v++) {
		const struct crossed_view *view = turn->views[v];

		for (uint16_t rank = 0; is_fresh(view, turn->now_ns) && rank < view->size; rank++) {
			const struct crossed_said *said = &view->member[rank].said;

			if (!said->is_there || !said->process)
				continue;
			look->found++;
			if (look->found > CROSSED_RECORDS_MAX)
				continue;
			look->record[look->count++] =
				(struct crossed_record){ .view = v, .rank = rank };
		}
	}
	return look->found <= CROSSED_RECORDS_MAX;
}

/* The one at `at`, of those before `end`, sinks to where it is larger than what is below it. */
static void heap_sink(const struct turn *turn, uint32_t at, uint32_t end)
{
	struct crossed_record *record = turn->look->record;

	for (uint32_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
		struct crossed_record other;

		if (child + 1 < end && process_of(turn, child + 1) > process_of(turn, child))
			child++;
		if (process_of(turn, child) <= process_of(turn, at))
			return;
		other = record[at];
		record[at] = record[child];
		record[child] = other;
		at = child;
	}
}

/* By process. */
static void records_sort(const struct turn *turn)
{
	struct crossed_record *record = turn->look->record;

	for (uint32_t at = turn->look->count / 2; at-- > 0;)
		heap_sink(turn, at, turn->look->count);
	for (uint32_t end = turn->look->count; end-- > 1;) {
		struct crossed_record last = record[end];

		record[end] = record[0];
		record[0] = last;
		heap_sink(turn, 0, end);
	}
}

/* Behind the last record of the process whose first is at `first`. */
static uint32_t process_end(const struct turn *turn, uint32_t first)
{
	uint32_t end = first + 1;

	while (end < turn->look->count && !turn->look->record[end].is_first)
		end++;
	return end;
}

static void process_set(const struct turn *turn, uint32_t first, bool is_stuck)
{
	for (uint32_t i = first, end = process_end(turn, first); i < end; i++)
		turn->look->record[i].is_stuck = is_stuck;
}

/* As far as it says itself: all its threads wait, and nothing has moved while its ranks were asked. */
static bool is_all_blocked(const struct turn *turn, uint32_t first)
{
	const struct crossed_said *one = &member_of(turn, &turn->look->record[first])->said;
	uint64_t blocked = 0;

	for (uint32_t i = first, end = process_end(turn, first); i < end; i++) {
		const struct crossed_said *said = &member_of(turn, &turn->look->record[i])->said;

		if (said->threads != one->threads || said->entries != one->entries)
			return false;
		blocked += said->blocked;
	}
	return one->threads && blocked == one->threads;
}

static void processes_begin(const struct turn *turn)
{
	for (uint32_t i = 0; i < turn->look->count; i++)
		turn->look->record[i].is_first = !i ||
						 process_of(turn, i) != process_of(turn, i - 1);
	for (uint32_t i = 0; i < turn->look->count; i = process_end(turn, i))
		process_set(turn, i, is_all_blocked(turn, i));
}

/* Of each communicator: how many operations the stuck one has called that has called fewest. */
static void least_find(const struct turn *turn)
{
	struct crossed_look *look = turn->look;

	for (uint32_t i = 0; i < look->count; i++)
		turn->views[look->record[i].view]->least = UINT64_MAX;
	for (uint32_t i = 0; i < look->count; i++) {
		const struct crossed_said *said = &member_of(turn, &look->record[i])->said;
		struct crossed_view *view = turn->views[look->record[i].view];

		if (look->record[i].is_stuck && said->submitted < view->least)
			view->least = said->submitted;
	}
}

/* Each of its waits is for somebody who is stuck. Of several in one communicator the least number tells: whoever has not
 * called that has not called the others. */
static bool is_waiting_for_stuck(const struct turn *turn, uint32_t first)
{
	for (uint32_t i = first, end = process_end(turn, first); i < end; i++) {
		const struct crossed_record *record = &turn->look->record[i];
		const struct crossed_said *said = &member_of(turn, record)->said;

		if (!said->blocked)
			continue;
		if (said->waits >= said->submitted)
			return false;
		if (turn->views[record->view]->least > said->waits)
			return false;
	}
	return true;
}

/* Takes out whoever may go on, until nobody does. False: that is too much work. */
static bool stuck_shrink(const struct turn *turn)
{
	bool has_changed = true;

	while (has_changed) {
		has_changed = false;
		turn->look->work += turn->look->count;
		if (turn->look->work > CROSSED_WORK_MAX)
			return false;
		least_find(turn);
		for (uint32_t i = 0; i < turn->look->count; i = process_end(turn, i)) {
			if (!turn->look->record[i].is_stuck || is_waiting_for_stuck(turn, i))
				continue;
			process_set(turn, i, false);
			has_changed = true;
		}
	}
	return true;
}

/* Who has not said the same for so long may go on, as far as is known. */
static void recent_drop(const struct turn *turn, uint64_t confirm_ns)
{
	for (uint32_t i = 0; i < turn->look->count; i = process_end(turn, i)) {
		uint64_t since_ns = UINT64_MAX;

		for (uint32_t k = i, end = process_end(turn, i); k < end; k++) {
			uint64_t its_ns = member_of(turn, &turn->look->record[k])->since_ns;

			if (its_ns < since_ns)
				since_ns = its_ns;
		}
		if (turn->now_ns - since_ns < confirm_ns)
			process_set(turn, i, false);
	}
}

/* ---- a cycle of those that are stuck ---- */

static uint32_t first_stuck(const struct turn *turn)
{
	uint32_t i = 0;

	while (i < turn->look->count && !turn->look->record[i].is_stuck)
		i++;
	return i;
}

/* Where the process of a member that is stuck begins. */
static uint32_t process_find(const struct turn *turn, uint64_t process)
{
	uint32_t from = 0, end = turn->look->count;

	while (from < end) {
		uint32_t middle = from + (end - from) / 2;

		if (process_of(turn, middle) < process)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/* For whom the process at *at waits, in the first of its ranks that does; *at becomes that one's. */
static struct crossed_edge edge_take(const struct turn *turn, uint32_t *at)
{
	const struct crossed_record *record = &turn->look->record[*at];
	const struct crossed_view *view;
	struct crossed_edge edge = { 0 };

	while (!member_of(turn, record)->said.blocked)
		record++;
	view = turn->views[record->view];
	edge = (struct crossed_edge){ .view = record->view,
				      .rank = record->rank,
				      .number = member_of(turn, record)->said.waits };
	for (uint16_t rank = 0; rank < view->size; rank++) {
		const struct crossed_said *said = &view->member[rank].said;
		uint32_t other;

		if (!said->is_there || !said->process || said->submitted > edge.number)
			continue;
		other = process_find(turn, said->process);
		if (!turn->look->record[other].is_stuck)
			continue;
		edge.missing = rank;
		*at = other;
		return edge;
	}
	CORE_ASSERT(false); /* who waits for nobody that is stuck was taken out */
	return edge;
}

static bool says_warn(const struct turn *turn, uint32_t first)
{
	for (uint32_t i = first, end = process_end(turn, first); i < end; i++)
		if (member_of(turn, &turn->look->record[i])->said.is_warn)
			return true;
	return false;
}

static void cycle_find(const struct turn *turn, struct crossed_cycle *cycle)
{
	uint32_t at = first_stuck(turn), begin;

	/* Whoever follows for as many steps as there are processes is in a cycle. */
	for (uint32_t i = 0; i < turn->look->count; i++)
		(void)edge_take(turn, &at);
	begin = at;
	*cycle = (struct crossed_cycle){ 0 };
	do {
		uint32_t first = at;
		struct crossed_edge edge = edge_take(turn, &at);

		turn->views[edge.view]->is_crossed = 1;
		cycle->is_warn |= says_warn(turn, first);
		cycle->token += member_of(turn, &turn->look->record[first])->said.entries;
		if (cycle->edges_count < CROSSED_EDGES_MAX)
			cycle->edges[cycle->edges_count] = edge;
		cycle->edges_count++;
	} while (at != begin);
}

bool crossed_find(struct crossed_look *look, struct crossed_view *const *views, uint32_t count,
		  uint64_t now_ns, uint64_t confirm_ns, struct crossed_cycle *cycle)
{
	const struct turn turn = { look, views, count, now_ns };

	for (uint32_t v = 0; v < count; v++)
		if (views[v])
			views[v]->is_crossed = 0;
	look->has_given_up = !records_collect(&turn);
	if (look->has_given_up)
		return false;
	records_sort(&turn);
	processes_begin(&turn);
	recent_drop(&turn, confirm_ns > CROSSED_FRESH_NS ? confirm_ns : CROSSED_FRESH_NS);
	look->has_given_up = !stuck_shrink(&turn);
	if (look->has_given_up || first_stuck(&turn) == look->count)
		return false;
	cycle_find(&turn, cycle);
	return true;
}

/* ---- a chain: R-CT-48 ---- */

static bool find_missing(const struct crossed_view *view, uint64_t number, uint16_t *missing)
{
	for (uint16_t rank = 0; rank < view->size; rank++) {
		const struct crossed_said *said = &view->member[rank].said;

		*missing = rank;
		if (said->is_there && said->submitted <= number)
			return true;
	}
	return false;
}

bool crossed_follow(struct crossed_view *const *views, uint32_t count, uint32_t of, uint16_t rank,
		    uint64_t now_ns, struct crossed_edge *edge)
{
	const struct crossed_said *its;

	if (of >= count || !is_fresh(views[of], now_ns) || rank >= views[of]->size)
		return false;
	its = &views[of]->member[rank].said;
	for (uint32_t v = 0; its->is_there && its->process && v < count; v++) {
		for (uint16_t i = 0; is_fresh(views[v], now_ns) && i < views[v]->size; i++) {
			const struct crossed_said *said = &views[v]->member[i].said;

			if (v == of || !said->is_there || said->process != its->process ||
			    said->entries != its->entries || !said->blocked ||
			    said->waits >= said->submitted)
				continue;
			*edge = (struct crossed_edge){ .view = v,
						       .rank = i,
						       .number = said->waits };
			if (find_missing(views[v], said->waits, &edge->missing))
				return true;
		}
	}
	return false;
}
