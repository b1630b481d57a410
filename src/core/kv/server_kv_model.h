/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_kv_model.h - workers around server_kv.h, and a second reading of R-KV-11, R-KV-16 and R-KV-17 in few words, which
 * knows of nothing but events and actions: each barrier that is passed must be due, none may be due and not passed.
 * For the search (src/search/kv.c) and the fuzzer.
 */
#ifndef CORE_SERVER_KV_MODEL_H
#define CORE_SERVER_KV_MODEL_H

#include "core/kv/server_kv.h"

enum { SERVER_KV_MODEL_WORKERS = 4 };

/* What has become of a worker. */
struct server_kv_seen {
	uint64_t incarnation, link;
	uint64_t came; /* the last barrier that counts, unless */
	uint64_t
		doubt_ns; /* nothing was heard since then: then none above the last that was passed does */
	uint64_t joined, left; /* how many moves there had been */
	uint64_t asked;        /* its last barrier, if it has no answer; 0: it has */
	uint64_t joined_ns, gone_ns;
	bool is_lost;
	bool is_leaving; /* it has said so on this connection, and is not listened to any more */
	bool is_ending;  /* it hears nothing more there, either */
};

/* Flat but for pointers into itself: zeros where it is kept (server_kv_model_lay), and no padding that is not zero. */
struct server_kv_model {
	struct server_kv kv;
	struct server_sparse sparse;
	struct sparse_table table;
	struct server_sparse_worker state[SERVER_KV_MODEL_WORKERS];
	struct server_kv_worker worker[SERVER_KV_MODEL_WORKERS];
	struct server_kv_seen seen[SERVER_KV_MODEL_WORKERS];
	uint64_t now_ns, passed, moves;
	uint64_t wrong; /* the line here of the first claim that was not so; 0: none */
};

#define SERVER_KV_MODEL_CHECK(claim) ((void)(model->wrong || (claim) || (model->wrong = __LINE__)))

static inline bool model_is_member(const struct server_kv_seen *it)
{
	return it->joined > it->left;
}

static inline uint64_t model_counts(const struct server_kv_model *model,
				    const struct server_kv_seen *it)
{
	return it->doubt_ns && it->came > model->passed ? model->passed : it->came;
}

/* Since the other one has joined. */
static inline bool model_has_left(const struct server_kv_seen *it,
				  const struct server_kv_seen *waits)
{
	return !model_is_member(it) && it->left > waits->joined;
}

/* All whom it waits for have come so far. */
static inline uint64_t model_due_of(const struct server_kv_model *model,
				    const struct server_kv_seen *it)
{
	uint64_t due = model_counts(model, it);

	for (uint32_t i = 0; i < model->table.workers; i++) {
		const struct server_kv_seen *other = &model->seen[i];

		if (!model_has_left(other, it) && model_counts(model, other) < due)
			due = model_counts(model, other);
	}
	return due;
}

static inline void model_forget(const struct server_kv_model *model, struct server_kv_seen *it)
{
	it->doubt_ns = 0;
	if (it->came > model->passed)
		it->came = model->passed;
}

/* ---- actions ---- */

static inline void model_join(struct server_kv_model *model, uint32_t index)
{
	struct server_kv_seen *it = &model->seen[index];

	model->state[index].incarnation = it->incarnation;
	server_kv_replay(&model->kv, SERVER_KV_JOINED, index);
	it->joined = ++model->moves;
	it->joined_ns = model->now_ns;
	it->came = 0;
	it->asked = 0;
	it->doubt_ns = 0;
}

static inline void model_all_leave(struct server_kv_model *model)
{
	for (uint32_t i = 0; i < model->table.workers; i++)
		if (model_is_member(&model->seen[i]))
			model->seen[i].left = ++model->moves;
}

/* Some worker that waits must have been waiting for just that. */
static inline void model_pass(struct server_kv_model *model, uint64_t number)
{
	bool is_due = false;

	for (uint32_t i = 0; i < model->table.workers; i++)
		is_due |= model->seen[i].asked && model_due_of(model, &model->seen[i]) == number;
	SERVER_KV_MODEL_CHECK(number > model->passed);
	SERVER_KV_MODEL_CHECK(is_due);
	model->passed = number;
}

/* R-KV-17: 2 s and four heartbeats ago. */
static inline bool model_has_gone(const struct server_kv_model *model,
				  const struct server_kv_seen *it,
				  const struct server_kv_seen *waits)
{
	return !it->link && it->gone_ns > waits->joined_ns &&
	       model->now_ns > it->gone_ns + 6000000000 && it->came <= model->passed &&
	       model_is_member(it);
}

static inline void model_act(struct server_kv_model *model, const struct server_kv_action *action)
{
	struct server_kv_seen *it = &model->seen[action->worker];

	switch ((enum server_kv_action_type)action->type) {
	case SERVER_KV_DO_PASS:
		model_pass(model, action->number);
		break;
	case SERVER_KV_DO_LEAVE:
		it->left = ++model->moves;
		break;
	case SERVER_KV_DO_VOID:
		model_all_leave(model);
		break;
	case SERVER_KV_DO_JOIN:
		model_join(model, action->worker);
		break;
	case SERVER_KV_DO_ANSWER:
		SERVER_KV_MODEL_CHECK(it->link && it->asked);
		SERVER_KV_MODEL_CHECK(action->number <= it->asked &&
				      action->number <= model->passed);
		if (action->number == it->asked)
			it->asked = 0;
		break;
	case SERVER_KV_DO_REFUSE:
		SERVER_KV_MODEL_CHECK(it->link && (it->is_lost || it->asked == action->number));
		SERVER_KV_MODEL_CHECK(!it->is_ending || action->verdict != SERVER_KV_NO_DISK);
		if (action->verdict != SERVER_KV_NO_DISK)
			SERVER_KV_MODEL_CHECK(
				model_has_gone(model, &model->seen[action->other], it));
		if (action->verdict == SERVER_KV_NO_DISK)
			model_forget(model, it);
		it->asked = 0;
		break;
	case SERVER_KV_DO_CLOSE:
		SERVER_KV_MODEL_CHECK(model->kv.is_sync && it->link);
		it->link = 0;
		it->asked = 0;
		break;
	case SERVER_KV_DO_TAKE:
	case SERVER_KV_DO_MISS:
		break;
	}
}

/* ---- events ---- */

/* Pointers are set, or taken away. */
static inline void server_kv_model_lay(struct server_kv_model *model, bool is_used)
{
	model->kv.sparse = is_used ? &model->sparse : NULL;
	model->kv.worker = is_used ? model->worker : NULL;
	model->sparse.table = is_used ? &model->table : NULL;
	model->sparse.memory.worker = is_used ? model->state : NULL;
}

static inline void server_kv_model_init(struct server_kv_model *model, uint16_t workers,
					bool is_sync)
{
	memset(model, 0, sizeof(*model));
	model->now_ns = 1000000000;
	model->table.workers = workers;
	model->sparse.generation = 1;
	model->sparse.expected = 1;
	model->kv.is_sync = is_sync;
	model->kv.heartbeat_ns = 1000000000;
}

static inline struct server_kv_event model_event(const struct server_kv_model *model,
						 enum server_kv_event_type type, uint16_t worker)
{
	return (struct server_kv_event){
		.type = type, .worker = worker, .now_ns = model->now_ns, .wall_ns = model->now_ns
	};
}

static inline void model_step(struct server_kv_model *model, const struct server_kv_event *event)
{
	struct server_kv_actions actions;
	bool has_passed = false;

	server_kv_step(&model->kv, event, &actions);
	for (uint32_t i = 0; i < actions.count; i++) {
		has_passed |= actions.list[i].type == SERVER_KV_DO_PASS;
		SERVER_KV_MODEL_CHECK(!has_passed || actions.list[i].type != SERVER_KV_DO_VOID);
		model_act(model, &actions.list[i]);
	}
	SERVER_KV_MODEL_CHECK(model->kv.barrier == model->passed);
}

static inline void model_others_doubt(struct server_kv_model *model,
				      const struct server_kv_seen *joins)
{
	for (uint32_t i = 0; i < model->table.workers; i++) {
		struct server_kv_seen *it = &model->seen[i];

		if (!it->link || it->is_lost)
			model_forget(model, it);
		else if (it != joins && model_is_member(joins) && it->came > model->passed)
			it->doubt_ns = model->now_ns;
	}
}

/* On a new connection; is_new: as another incarnation. False: it is not let in. */
static inline bool server_kv_model_open(struct server_kv_model *model, uint16_t worker, bool is_new)
{
	struct server_kv_seen *it = &model->seen[worker];
	struct server_kv_event open = model_event(model, SERVER_KV_TO_OPEN, worker);
	uint64_t incarnation = it->incarnation + is_new;
	bool ends = is_new && model->kv.is_sync && model_is_member(it);
	enum server_kv_verdict verdict;
	uint16_t other;

	open.incarnation = incarnation;
	open.mode = model->kv.is_sync ? SERVER_KV_SYNC : SERVER_KV_BOUNDED;
	open.link = it->link + 1;
	verdict = server_kv_is_due(&model->kv, &open);
	if (verdict == SERVER_KV_YES)
		verdict = server_kv_may_open(&model->kv, &open, &other);
	if (!incarnation || (verdict != SERVER_KV_YES && verdict != SERVER_KV_DRAIN))
		return false;
	if (is_new)
		model_others_doubt(model, it);
	else if (it->doubt_ns)
		model_forget(model, it);
	it->incarnation = incarnation;
	it->asked = 0;
	it->gone_ns = 0;
	model_step(model, &open);
	it->link = open.link;
	it->is_lost = false;
	it->is_leaving = it->is_ending = false;
	for (uint32_t i = 0; i < model->table.workers && ends; i++) {
		model->seen[i].came = 0;
		model->seen[i].doubt_ns = 0;
		model->seen[i].gone_ns = 0;
		SERVER_KV_MODEL_CHECK(model_is_member(&model->seen[i]) == (i == worker));
	}
	SERVER_KV_MODEL_CHECK(server_kv_has_open(&model->kv, worker, open.link));
	return true;
}

static inline void server_kv_model_barrier(struct server_kv_model *model, uint16_t worker,
					   uint64_t number, enum server_kv_disk disk)
{
	struct server_kv_seen *it = &model->seen[worker];
	struct server_kv_event event = model_event(model, SERVER_KV_BARRIER, worker);

	event.number = number;
	event.disk = disk;
	if (number <= model->passed || disk == SERVER_KV_WELL) {
		it->came = it->asked = number;
		it->doubt_ns = 0;
	}
	model_step(model, &event);
}

static inline void server_kv_model_lose(struct server_kv_model *model, uint16_t worker)
{
	struct server_kv_event event = model_event(model, SERVER_KV_LOST, worker);

	model_step(model, &event);
	model->seen[worker].is_lost = true;
}

static inline void server_kv_model_ends(struct server_kv_model *model, uint16_t worker)
{
	struct server_kv_event event = model_event(model, SERVER_KV_ENDS, worker);

	model_step(model, &event);
	model->seen[worker].is_leaving = model->seen[worker].is_ending = true;
}

static inline void server_kv_model_end(struct server_kv_model *model, uint16_t worker)
{
	struct server_kv_seen *it = &model->seen[worker];
	struct server_kv_event event = model_event(model, SERVER_KV_END, worker);

	model_step(model, &event);
	if (it->doubt_ns)
		model_forget(model, it);
	it->link = it->asked = 0;
	it->is_lost = it->is_ending = false;
	it->gone_ns = model_is_member(it) ? model->now_ns : 0;
}

static inline void server_kv_model_leave(struct server_kv_model *model, uint16_t worker)
{
	struct server_kv_event event = model_event(model, SERVER_KV_LEAVE, worker);

	event.number = model->kv.is_sync;
	model_step(model, &event);
	model->seen[worker].is_leaving = true;
}

/* Since it was in doubt. */
static inline void server_kv_model_heard(struct server_kv_model *model, uint16_t worker)
{
	struct server_kv_seen *it = &model->seen[worker];
	struct server_kv_event event = model_event(model, SERVER_KV_HEARD, worker);

	event.now_ns++;
	SERVER_KV_MODEL_CHECK(server_kv_doubts(&model->kv, worker) == (it->doubt_ns != 0));
	it->doubt_ns = 0;
	model_step(model, &event);
}

/* Nobody waits behind it for what was passed, for what could be, or for one that has gone long ago. */
static inline void server_kv_model_turn(struct server_kv_model *model, enum server_kv_disk disk)
{
	struct server_kv_event event = model_event(model, SERVER_KV_TIME, 0);

	event.disk = disk;
	model_step(model, &event);
	for (uint32_t i = 0; i < model->table.workers; i++) {
		const struct server_kv_seen *it = &model->seen[i];

		if (!it->asked || it->is_lost) /* it says that again on another connection */
			continue;
		SERVER_KV_MODEL_CHECK(disk == SERVER_KV_WELL || it->is_ending);
		SERVER_KV_MODEL_CHECK(model_due_of(model, it) <= model->passed);
		SERVER_KV_MODEL_CHECK(it->asked > model->passed);
		for (uint32_t k = 0; k < model->table.workers; k++)
			SERVER_KV_MODEL_CHECK(!model_has_gone(model, &model->seen[k], it));
	}
}

#endif
