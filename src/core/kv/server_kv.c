/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv.c - see server_kv.h. Who comes, who goes; server_kv_step.c, below it, has the barriers. */
#include "core/kv/server_kv.h"

static const uint64_t AHEAD_NS = 3600000000000; /* R-KV-6: an hour */
static const uint64_t SPENT_EACH_NS = 1000000000;

static uint16_t workers_of(const struct server_kv *kv)
{
	return kv->sparse->table->workers;
}

static const struct server_sparse_worker *sparse_of(const struct server_kv *kv, uint16_t worker)
{
	return &kv->sparse->memory.worker[worker];
}

void server_kv_init(struct server_kv *kv, const struct server_sparse *sparse,
		    struct server_kv_worker *worker, bool is_sync)
{
	*kv = (struct server_kv){ .sparse = sparse, .worker = worker, .is_sync = is_sync };
}

/* ---- what is on the disk ---- */

bool server_kv_is_member(const struct server_kv *kv, uint16_t worker)
{
	return kv->worker[worker].joined > kv->worker[worker].left;
}

void server_kv_replay(struct server_kv *kv, enum server_kv_record record, uint64_t number)
{
	switch (record) {
	case SERVER_KV_JOINED:
		kv->worker[number].joined = ++kv->moves;
		break;
	case SERVER_KV_HAS_LEFT:
		kv->worker[number].left = ++kv->moves;
		break;
	case SERVER_KV_PASSED:
		kv->barrier = number;
		break;
	case SERVER_KV_VOIDED:
		for (uint16_t i = 0; i < workers_of(kv); i++)
			if (server_kv_is_member(kv, i))
				kv->worker[i].left = ++kv->moves;
		break;
	}
}

static void step_void(struct server_kv *kv, struct server_kv_actions *actions)
{
	server_kv_replay(kv, SERVER_KV_VOIDED, 0);
	server_kv_act(actions, SERVER_KV_DO_VOID, 0);
}

/* ---- OPEN ---- */

/* R-KV-6: else one word would be the last that this worker could ever say, after restarts too. What comes late on a
 * connection that a process has given up must not end the one that it has now. */
enum server_kv_verdict server_kv_is_due(const struct server_kv *kv,
					const struct server_kv_event *open)
{
	uint64_t had = sparse_of(kv, open->worker)->incarnation;

	if (open->incarnation < had)
		return SERVER_KV_LOWER;
	if (open->incarnation == had && kv->worker[open->worker].link > open->link)
		return SERVER_KV_TAKEN;
	if (open->incarnation > open->wall_ns + AHEAD_NS && open->incarnation - had > 1)
		return SERVER_KV_AHEAD;
	return open->disk == SERVER_KV_DELETED ? SERVER_KV_NO_DISK : SERVER_KV_YES;
}

/* In place of another, and its OPEN begins a generation. */
static bool is_in_place(const struct server_kv *kv, const struct server_kv_event *open)
{
	return open->incarnation > sparse_of(kv, open->worker)->incarnation &&
	       server_sparse_is_replaced(kv->sparse, open->worker);
}

/* As long as it can be borne: who pulls its rows has to come first. R-KV-6: at one a second, the fences last for half a
 * year. */
static enum server_kv_verdict fence_of(const struct server_kv *kv,
				       const struct server_kv_event *open)
{
	if (!is_in_place(kv, open))
		return SERVER_KV_YES;
	if (sparse_fences_left(kv->sparse->generation) <= SPARSE_FENCES_LAST)
		return SERVER_KV_SPENT;
	return kv->spends_ns > open->now_ns + SERVER_KV_AT_ONCE * SPENT_EACH_NS ? SERVER_KV_SOON
										: SERVER_KV_YES;
}

/* Another one that is here, and waits otherwise than this one would: R-KV-15. As many as there are workers: none. */
static uint16_t who_differs(const struct server_kv *kv, const struct server_kv_event *open)
{
	uint16_t i;

	for (i = 0; i < workers_of(kv); i++) {
		const struct server_kv_worker *it = &kv->worker[i];

		if (i != open->worker && it->link &&
		    (it->mode != open->mode || it->staleness != open->staleness))
			break;
	}
	return i;
}

enum server_kv_verdict server_kv_may_open(const struct server_kv *kv,
					  const struct server_kv_event *open, uint16_t *other)
{
	uint64_t had = sparse_of(kv, open->worker)->incarnation;
	enum server_kv_verdict fence = fence_of(kv, open);
	bool is_sync = open->mode == SERVER_KV_SYNC;

	if (fence != SERVER_KV_YES)
		return fence;
	/* Nothing that would be recorded is taken any more: memory has an end. */
	if (open->incarnation > had && open->disk == SERVER_KV_STUCK)
		return SERVER_KV_NO_DISK;
	if (is_sync != kv->is_sync)
		return SERVER_KV_OTHER_MODE;
	*other = who_differs(kv, open);
	if (*other < workers_of(kv))
		return SERVER_KV_DIFFERS;
	/* R-KV-16 */
	if (is_sync && open->incarnation == had && !server_kv_is_member(kv, open->worker))
		return SERVER_KV_OVER;
	return open->incarnation > had && had ? SERVER_KV_DRAIN : SERVER_KV_YES;
}

/* R-KV-11: a barrier that a dead run's worker has come to must not let the next run through. Who replaces one that has
 * not left may be the first of a new run, and then the connections of the others may be dead too, and not yet seen. */
static void others_doubt(struct server_kv *kv, const struct server_kv_event *open)
{
	bool is_replaced = server_kv_is_member(kv, open->worker);

	for (uint16_t i = 0; i < workers_of(kv); i++) {
		struct server_kv_worker *it = &kv->worker[i];

		if (!it->link || it->is_lost)
			server_kv_forget(kv, it);
		else if (is_replaced && i != open->worker && it->barrier > kv->barrier)
			it->doubt_ns = open->now_ns;
	}
}

/* R-KV-16: what the dead one has pushed in its step cannot be told from what others have. */
static void run_end(struct server_kv *kv, uint16_t worker, struct server_kv_actions *actions)
{
	for (uint16_t i = 0; i < workers_of(kv); i++) {
		struct server_kv_worker *it = &kv->worker[i];
		struct server_kv_action *action;

		it->barrier = 0;
		it->doubt_ns = 0;
		it->gone_ns = 0;
		if (i == worker || !it->link)
			continue;
		it->link = 0;
		it->is_waiting = false;
		action = server_kv_act(actions, SERVER_KV_DO_CLOSE, i);
		action->verdict = SERVER_KV_ANEW;
		action->other = worker;
	}
}

static void join(struct server_kv *kv, const struct server_kv_event *open)
{
	struct server_kv_worker *worker = &kv->worker[open->worker];

	if (is_in_place(kv, open)) {
		if (kv->spends_ns < open->now_ns)
			kv->spends_ns = open->now_ns;
		kv->spends_ns += SPENT_EACH_NS;
	}
	worker->barrier = 0;
	worker->answered = 0;
	worker->doubt_ns = 0;
	worker->joined_ns = open->now_ns;
	others_doubt(kv, open);
}

/* R-KV-6. What it had before is not listened to any more. */
static void take(struct server_kv *kv, const struct server_kv_event *open,
		 struct server_kv_actions *actions)
{
	struct server_kv_worker *worker = &kv->worker[open->worker];
	struct server_kv_action *action = server_kv_act(actions, SERVER_KV_DO_TAKE, open->worker);

	CORE_ASSERT(open->link);
	if (worker->link && worker->link != open->link)
		action->verdict = SERVER_KV_TAKEN;
	if (worker->doubt_ns)
		server_kv_forget(kv, worker);
	worker->link = open->link;
	worker->mode = open->mode;
	worker->staleness = open->staleness;
	worker->is_waiting = false;
	worker->is_lost = false;
	worker->is_ending = false;
	worker->gone_ns = 0;
}

static void open_it(struct server_kv *kv, const struct server_kv_event *open,
		    struct server_kv_actions *actions)
{
	bool joins = open->incarnation > sparse_of(kv, open->worker)->incarnation;
	bool ends = joins && kv->is_sync && server_kv_is_member(kv, open->worker);

	if (joins)
		join(kv, open);
	if (ends)
		step_void(kv, actions);
	if (joins)
		server_kv_act(actions, SERVER_KV_DO_JOIN, open->worker);
	take(kv, open, actions);
	if (ends)
		run_end(kv, open->worker, actions);
}

/* ---- and the ends ---- */

static void end(struct server_kv *kv, const struct server_kv_event *event)
{
	struct server_kv_worker *worker = &kv->worker[event->worker];

	if (worker->doubt_ns)
		server_kv_forget(kv, worker);
	worker->link = 0;
	worker->is_lost = false;
	worker->is_ending = false;
	worker->is_waiting = false;
	worker->gone_ns = server_kv_is_member(kv, event->worker) ? event->now_ns : 0;
}

/* R-KV-13. Nobody may be left to end the step: what it has is no whole one then. But whoever left before may have waited
 * for this one alone, and then the step is made. */
static void leave(struct server_kv *kv, const struct server_kv_event *event,
		  struct server_kv_actions *actions)
{
	uint64_t passed = kv->barrier;

	/* Said again. As news it would be taken by those who came since for a word of their own run. */
	if (!server_kv_is_member(kv, event->worker))
		return;
	server_kv_replay(kv, SERVER_KV_HAS_LEFT, event->worker);
	server_kv_act(actions, SERVER_KV_DO_LEAVE, event->worker);
	server_kv_look(kv, actions);
	for (uint16_t i = 0; i < workers_of(kv); i++)
		if (server_kv_is_member(kv, i))
			return;
	if (event->number && kv->barrier == passed)
		step_void(kv, actions);
}

/* ---- a restart ---- */

/* Who had joined, and has not left, is expected back. */
static void begin(struct server_kv *kv, uint64_t now_ns)
{
	for (uint16_t i = 0; i < workers_of(kv); i++)
		if (server_kv_is_member(kv, i))
			kv->worker[i].gone_ns = now_ns;
}

static void gather(struct server_kv *kv, uint64_t now_ns, struct server_kv_actions *actions)
{
	kv->is_gathering = true;
	kv->began_ns = now_ns;
	for (uint16_t i = 0; i < workers_of(kv); i++)
		if (!server_kv_is_member(kv, i))
			server_kv_act(actions, SERVER_KV_DO_MISS, i);
}

/* R-SP-33: have all reported, or is it too late? */
static void gathered(struct server_kv *kv, uint64_t now_ns, struct server_kv_actions *actions)
{
	uint32_t left = kv->sparse->unreported;

	if (!kv->is_gathering)
		return;
	for (uint16_t i = 0; i < workers_of(kv) && left; i++) {
		const struct server_sparse_worker *it = sparse_of(kv, i);

		if (!it->is_unreported || it->is_missed ||
		    now_ns < kv->began_ns + server_kv_grace_ns(kv))
			continue;
		server_kv_act(actions, SERVER_KV_DO_MISS, i);
		left--;
	}
	kv->is_gathering = left;
}

/* ---- what others see ---- */

bool server_kv_has_open(const struct server_kv *kv, uint16_t worker, uint64_t link)
{
	return link && kv->worker[worker].link == link;
}

uint16_t server_kv_is_here(const struct server_kv *kv, uint16_t worker, uint64_t link,
			   uint64_t incarnation)
{
	uint16_t i;

	for (i = 0; i < workers_of(kv); i++) {
		uint64_t its = kv->worker[i].link;

		/* The same process: its list has this server twice. */
		if (its &&
		    (i != worker || (its != link && incarnation == sparse_of(kv, i)->incarnation)))
			break;
	}
	return i;
}

bool server_kv_is_fresh(const struct server_kv *kv, uint64_t generation, uint64_t epoch)
{
	return kv->sparse->generation > generation ||
	       (kv->sparse->generation == generation && kv->sparse->expected > epoch);
}

enum server_kv_presence server_kv_presence(const struct server_kv *kv, uint16_t worker)
{
	const struct server_kv_worker *it = &kv->worker[worker];

	if (it->link) /* R-KV-20 */
		return sparse_of(kv, worker)->is_unreported ? SERVER_KV_REPORTING : SERVER_KV_OPEN;
	if (it->gone_ns)
		return SERVER_KV_GONE;
	return sparse_of(kv, worker)->incarnation ? SERVER_KV_LEFT : SERVER_KV_ABSENT;
}

void server_kv_step(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions)
{
	CORE_ASSERT(event->worker < workers_of(kv));
	actions->count = 0;
	actions->verdict = SERVER_KV_YES;
	switch (event->type) {
	case SERVER_KV_BEGIN:
		begin(kv, event->now_ns);
		break;
	case SERVER_KV_TO_OPEN:
		open_it(kv, event, actions);
		break;
	case SERVER_KV_LOST:
		kv->worker[event->worker].is_lost = true;
		break;
	case SERVER_KV_ENDS:
		kv->worker[event->worker].is_ending = true;
		break;
	case SERVER_KV_END:
		end(kv, event);
		break;
	case SERVER_KV_LEAVE:
		leave(kv, event, actions);
		break;
	case SERVER_KV_BARRIER:
		server_kv_come(kv, event, actions);
		break;
	case SERVER_KV_HEARD:
		server_kv_heard(kv, event);
		break;
	case SERVER_KV_TIME:
		server_kv_time(kv, event, actions);
		break;
	case SERVER_KV_GATHER_IT:
		gather(kv, event->now_ns, actions);
		break;
	case SERVER_KV_GATHERED:
		gathered(kv, event->now_ns, actions);
		break;
	}
}
