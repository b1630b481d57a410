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

static const struct crossed_said *said_of(const struct turn *turn, uint32_t i)
{
	return &member_of(turn, &turn->look->record[i])->said;
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

/* By process, and then as they were found. */
static bool is_behind(const struct turn *turn, const struct crossed_record *a,
		      const struct crossed_record *b)
{
	uint64_t one = member_of(turn, a)->said.process, other = member_of(turn, b)->said.process;

	if (one != other)
		return one > other;
	return a->view != b->view ? a->view > b->view : a->rank > b->rank;
}

/* By insertion, at distances that shrink to 1. */
static void records_sort(const struct turn *turn)
{
	struct crossed_record *record = turn->look->record;
	uint32_t count = turn->look->count, gap = 1;

	while (gap < count / 3)
		gap = 3 * gap + 1;
	for (; gap; gap /= 3) {
		for (uint32_t i = gap; i < count; i++) {
			struct crossed_record moved = record[i];
			uint32_t at = i;

			for (; at >= gap && is_behind(turn, &record[at - gap], &moved); at -= gap)
				record[at] = record[at - gap];
			record[at] = moved;
		}
	}
}

/* One is stuck, as far as it says itself, if all its threads wait, nothing has moved while its ranks were asked, and it
 * has said the same for long enough. */
static void processes_begin(const struct turn *turn, uint64_t confirm_ns)
{
	struct crossed_look *look = turn->look;

	look->processes = 0;
	for (uint32_t i = 0; i < look->count; look->processes++) {
		struct crossed_process *process = &look->process[look->processes];
		const struct crossed_said *one = said_of(turn, i);
		bool is_same = true, is_recent = true;
		uint64_t blocked = 0;

		*process = (struct crossed_process){ .first = i };
		for (; i < look->count && said_of(turn, i)->process == one->process; i++) {
			const struct crossed_member *member = member_of(turn, &look->record[i]);

			is_same &= member->said.threads == one->threads &&
				   member->said.entries == one->entries;
			is_recent &= turn->now_ns - member->since_ns < confirm_ns;
			process->is_warn |= member->said.is_warn;
			blocked += member->said.blocked;
			look->record[i].process = (uint16_t)look->processes;
		}
		process->is_stuck = is_same && !is_recent && one->threads &&
				    blocked == one->threads;
	}
}

/* Of each communicator: how many operations the stuck one has called that has called fewest. */
static void least_find(const struct turn *turn)
{
	struct crossed_look *look = turn->look;

	for (uint32_t i = 0; i < look->count; i++)
		turn->views[look->record[i].view]->least = UINT64_MAX;
	for (uint32_t i = 0; i < look->count; i++) {
		struct crossed_view *view = turn->views[look->record[i].view];

		if (look->process[look->record[i].process].is_stuck &&
		    said_of(turn, i)->submitted < view->least)
			view->least = said_of(turn, i)->submitted;
	}
}

/* Does it wait for somebody who is stuck, or not at all? Of several waits in one communicator the least number tells:
 * whoever has not called that has not called the others. */
static bool is_waiting_for_stuck(const struct turn *turn, uint32_t i)
{
	const struct crossed_said *said = said_of(turn, i);

	return !said->blocked || (said->waits < said->submitted &&
				  turn->views[turn->look->record[i].view]->least <= said->waits);
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
		for (uint32_t i = 0; i < turn->look->count; i++) {
			uint8_t *is_stuck =
				&turn->look->process[turn->look->record[i].process].is_stuck;

			if (!*is_stuck || is_waiting_for_stuck(turn, i))
				continue;
			*is_stuck = false;
			has_changed = true;
		}
	}
	return true;
}

/* ---- a cycle of those that are stuck ---- */

static uint32_t first_stuck(const struct turn *turn)
{
	uint32_t at = 0;

	while (at < turn->look->processes && !turn->look->process[at].is_stuck)
		at++;
	return at;
}

static uint32_t process_find(const struct turn *turn, uint64_t process)
{
	uint32_t from = 0, end = turn->look->processes;

	while (from < end) {
		uint32_t middle = from + (end - from) / 2;

		if (said_of(turn, turn->look->process[middle].first)->process < process)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/* For whom the process *at waits, in the first of its ranks that does; *at becomes that one. */
static struct crossed_edge edge_take(const struct turn *turn, uint32_t *at)
{
	uint32_t i = turn->look->process[*at].first;
	const struct crossed_view *view;
	struct crossed_edge edge;

	while (!said_of(turn, i)->blocked)
		i++;
	view = turn->views[turn->look->record[i].view];
	edge = (struct crossed_edge){ .view = turn->look->record[i].view,
				      .rank = turn->look->record[i].rank,
				      .number = said_of(turn, i)->waits };
	for (uint16_t rank = 0; rank < view->size; rank++) {
		const struct crossed_said *said = &view->member[rank].said;
		uint32_t other;

		if (!said->is_there || !said->process || said->submitted > edge.number)
			continue;
		other = process_find(turn, said->process);
		if (!turn->look->process[other].is_stuck)
			continue;
		edge.missing = rank;
		*at = other;
		return edge;
	}
	CORE_ASSERT(false); /* who waits for nobody that is stuck was taken out */
	return edge;
}

static void cycle_find(const struct turn *turn, struct crossed_cycle *cycle)
{
	uint32_t at = first_stuck(turn), begin;

	/* Whoever follows for as many steps as there are processes is in a cycle. */
	for (uint32_t i = 0; i < turn->look->processes; i++)
		(void)edge_take(turn, &at);
	begin = at;
	*cycle = (struct crossed_cycle){ 0 };
	do {
		const struct crossed_process *process = &turn->look->process[at];
		struct crossed_edge edge = edge_take(turn, &at);

		turn->views[edge.view]->is_crossed = 1;
		cycle->is_warn |= process->is_warn;
		cycle->token += said_of(turn, process->first)->entries;
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
	processes_begin(&turn, confirm_ns > CROSSED_FRESH_NS ? confirm_ns : CROSSED_FRESH_NS);
	look->has_given_up = !stuck_shrink(&turn);
	if (look->has_given_up || first_stuck(&turn) == look->processes)
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
