/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JOIN: who may be in, who waits, and who of two that claim one rank is alive. docs/protocol.md, R-CT-10 to
 * R-CT-12.
 */
#include "core/job/admission_turn.h"

static void grant(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission_enter(turn, ADMISSION_GRANTED);
	admission->life = turn->event->random ? turn->event->random : 1; /* 0 means none */
	admission->generation = turn->event->generation;
	CORE_ASSERT(admission->generation);
	admission_tell_shards(turn, ADMISSION_JOB_ADD);
	admission_forget_pulses(turn);
	admission_unfit_forget(turn);
	admission_log(turn, ADMISSION_LOG_INFO, "all %u ranks are here: generation %u",
		      admission->size, admission->generation);
}

/* Whoever was noted has heard of it, and begins anew when it comes again (R-CT-10). */
static void unfit_for_all(struct turn *turn, struct admission_peer *peer)
{
	struct text_ranks noted = turn->admission->unfit.ranks;

	admission_end_refused(turn, peer);
	for (uint32_t i = 0; i < sizeof(noted.word) / sizeof(*noted.word); i++)
		turn->admission->refused.ranks.word[i] |= noted.word[i];
}

static void unfit_refuse(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;

	if (admission->state > ADMISSION_GATHER) { /* what runs is not its business */
		admission_refuse(turn, peer);
		return;
	}
	admission_unfit_note(turn, peer->rank);
	if (admission->state == ADMISSION_GATHER && admission_unfit_is_hopeless(turn))
		unfit_for_all(turn, peer);
	else
		admission_refuse(turn, peer);
}

static void unfit_ends(struct turn *turn)
{
	if (!admission_unfit_is_hopeless(turn))
		return;
	admission_blame(turn, turn->admission->unfit.cause, CONTROL_RANK_NONE, "%s",
			admission_unfit(turn));
	unfit_for_all(turn, NULL);
}

static void place(struct turn *turn, const struct admission_peer *peer)
{
	struct admission_member *member = admission_member_at(turn, peer->rank);

	memset(member, 0, sizeof(*member));
	member->peer = *peer;
	member->peer.pulse = ADMISSION_UNASKED;
	member->presence = ADMISSION_JOINED;
	admission_log_peer(turn, peer, "has joined");
	if (admission_has(turn, ADMISSION_IS(ABSENT)))
		unfit_ends(turn);
	else
		grant(turn);
}

/* Two claim one rank: only their own answers tell which of them is a process and which a connection that
 * nobody has closed yet (R-CT-11). */
static void contend(struct turn *turn, struct admission_peer *waiter)
{
	struct admission_member *holder = admission_holder(turn, waiter);

	if (!holder)
		return;
	uint32_t serial = ++turn->admission->ping;
	struct admission_peer *both[] = { &holder->peer, waiter };
	for (uint32_t i = 0; i < 2; i++) {
		both[i]->pulse = ADMISSION_ASKED;
		both[i]->ping = serial;
		admission_send(turn, both[i], CONTROL_PING)->number = serial;
	}
}

static void wait_in_line(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;

	if (admission->waiters_count == turn->config->waiters_max) {
		admission_blame(turn, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
				"job \"%s\": %u processes wait for its name already",
				turn->config->job, admission->waiters_count);
		admission_refuse(turn, peer);
		return;
	}
	struct admission_peer *waiter = &admission_waiters(turn)[admission->waiters_count++];
	*waiter = *peer;
	waiter->pulse = ADMISSION_UNASKED;
	admission_log_peer(turn, peer, "waits: its rank or the job's name is in use");
	contend(turn, waiter);
}

/* What all of a life must have in common, besides the version: that is ours (R-CT-26). */
enum difference { SIZE, LIST, MODE, PLACE, ALIKE };

static enum difference difference(const struct admission_peer *a, const struct admission_peer *b)
{
	if (a->size != b->size)
		return SIZE;
	if (a->list_hash != b->list_hash)
		return LIST;
	if (a->mode != b->mode || a->latency_slots != b->latency_slots ||
	    a->latency_window != b->latency_window)
		return MODE;
	return admission_twin_is_elsewhere(a, b) ? PLACE : ALIKE;
}

/* "rank 2 on hostb says size 3" */
static void add_value(struct text *text, const struct admission_peer *peer, enum difference what)
{
	text_add(text, "rank %u on %s ", peer->rank, peer->host);
	if (what == SIZE)
		text_add(text, "says size %u", peer->size);
	else if (what == LIST && peer->list[0])
		text_add(text, "was given the aggregators %s", peer->list);
	else if (what == LIST)
		text_add(text, "was given a list of aggregators with hash %llu",
			 (unsigned long long)peer->list_hash);
	else if (what == MODE && peer->mode == CONTROL_LATENCY)
		text_add(text, "wants latency mode with %u slots and a window of %u",
			 peer->latency_slots, peer->latency_window);
	else if (what == MODE)
		text_add(text, "wants dense mode");
	else if (peer->local_size == peer->size) /* PLACE */
		text_add(text, "says that all %u ranks are on its host", peer->size);
	else
		text_add(text, "is on another host");
}

/* The text names both sides of the first difference. */
static bool differs(struct turn *turn, const struct admission_peer *peer)
{
	ADMISSION_EACH(turn, member) {
		const struct admission_peer *other = &member->peer;
		enum difference what = difference(peer, other);

		if (!admission_is_in(member) || what == ALIKE)
			continue;
		struct text text = admission_blame(turn, CONTROL_DENIED, CONTROL_RANK_NONE,
						   "job \"%s\": ", turn->config->job);
		add_value(&text, peer, what);
		text_add(&text, ", ");
		add_value(&text, other, what);
		if (what == PLACE)
			text_add(&text, ": if these are two jobs, give each its TALLY_JOB");
		return true;
	}
	return false;
}

enum { WORKERS_MAX = 65535 }; /* of a life: what the number formats take, and GRANT can say */

static bool is_ending(struct turn *turn)
{
	if (!turn->admission->is_terminating)
		return false;
	admission_end_blame(turn);
	return true;
}

/* What no life of this aggregator can have, whoever else is in it. */
static bool is_impossible(struct turn *turn, const struct admission_peer *peer)
{
	if (peer->size < 1 || peer->size > turn->config->members_max)
		admission_blame(turn, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
				"job \"%s\" of %u ranks: this aggregator takes 1 to %u",
				turn->config->job, peer->size, turn->config->members_max);
	else if (peer->rank >= peer->size)
		admission_blame(turn, CONTROL_DENIED, CONTROL_RANK_NONE,
				"rank %u on %s: there is no such rank in a job of %u", peer->rank,
				peer->host, peer->size);
	else if (peer->workers > WORKERS_MAX / peer->size)
		admission_blame(turn, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
				"rank %u on %s stands for %u workers, in a job of %u: at most %u",
				peer->rank, peer->host, peer->workers, peer->size,
				WORKERS_MAX / peer->size);
	else
		return false;
	return true;
}

/* The peer is a copy: it may become a member or wait (again). */
static void admit(struct turn *turn, struct admission_peer peer)
{
	struct admission *admission = turn->admission;

	if (is_ending(turn) || is_impossible(turn, &peer)) {
		admission_refuse(turn, &peer);
		return;
	}
	if (admission->state == ADMISSION_NONE && admission_end_refuse_again(turn, &peer))
		return;
	if (admission->state == ADMISSION_NONE) {
		admission_enter(turn, ADMISSION_GATHER);
		admission_unfit_begin(turn);
		admission->size = peer.size;
		admission->mode = peer.mode;
		admission->latency_slots = peer.latency_slots;
		admission->latency_window = peer.latency_window;
		admission->progress_ns = turn->event->now_ns;
	}
	if (admission->state != ADMISSION_GATHER) {
		wait_in_line(turn, &peer);
	} else if (differs(turn, &peer)) { /* waiting for the others cannot mend it */
		admission_end_refused(turn, &peer);
	} else if (admission_member_at(turn, peer.rank)->presence != ADMISSION_ABSENT) {
		wait_in_line(turn, &peer);
	} else {
		place(turn, &peer);
	}
}

void admission_join_read(struct turn *turn)
{
	const struct admission_event *event = turn->event;
	const struct control_join *said = &event->message->join;
	struct admission_peer peer;

	memset(&peer, 0, sizeof(peer));
	peer.heard_ns = peer.spoke_ns = event->now_ns;
	peer.joined_ns = event->now_ns;
	peer.list_hash = said->list_hash;
	peer.connection = event->connection;
	peer.pid = said->pid;
	peer.workers = said->workers;
	peer.timeout_ms = said->timeout_ms;
	peer.mode = said->mode;
	peer.latency_slots = said->latency_slots;
	peer.latency_window = said->latency_window;
	peer.size = said->size;
	peer.rank = said->rank;
	peer.program = said->program;
	peer.boot = said->boot;
	peer.process = said->process;
	peer.source = event->source;
	peer.local_size = said->local_size;
	peer.is_launched = said->is_launched;
	CORE_ASSERT(event->nonce);
	memcpy(peer.nonce, event->nonce, sizeof(peer.nonce));
	text_copy(peer.host, sizeof(peer.host), said->host);
	text_copy(peer.list, sizeof(peer.list), said->list);
	if (admission_unfit_is(turn, &peer, said)) { /* before anything else that it says */
		unfit_refuse(turn, &peer);
		return;
	}
	admission_unfit_drop(turn, peer.rank);
	admit(turn, peer);
}

/* R-CT-24: it has come to another gathering, which was no good without this one. */
void admission_join_adopt(struct turn *turn)
{
	admit(turn, *turn->event->peer);
}

/* Can this waiter do anything but wait? */
static bool may_move(const struct turn *turn, const struct admission_peer *waiter)
{
	const struct admission *admission = turn->admission;

	if (admission->state == ADMISSION_NONE)
		return true;
	if (admission->state == ADMISSION_GATHER &&
	    (waiter->size != admission->size ||
	     admission_member_at(turn, waiter->rank)->presence == ADMISSION_ABSENT))
		return true;
	return waiter->pulse == ADMISSION_UNASKED && admission_holder(turn, waiter);
}

struct admission_peer *admission_join_next_waiter(const struct turn *turn)
{
	ADMISSION_EACH_WAITER(turn, waiter)
		if (may_move(turn, waiter))
			return waiter;
	return NULL;
}

/* One in a step, first come, first served. */
void admission_join_promote(struct turn *turn)
{
	struct admission_peer *waiter = admission_join_next_waiter(turn);

	if (!waiter)
		return;
	bool is_apart = turn->admission->state == ADMISSION_GATHER &&
			waiter->size != turn->admission->size;
	if (admission_holder(turn, waiter) && !is_apart) {
		contend(turn, waiter);
		return;
	}
	struct admission_peer peer = *waiter;
	admission_drop_waiter(turn, waiter);
	admit(turn, peer);
}

/* Who is refused by a job that runs is not in it: from another address, and where there is no key, it may be anybody
 * (R-CT-34). What several hear in one step is one text. */
static bool may_hear(const struct turn *turn)
{
	ADMISSION_EACH_WAITER(turn, waiter) {
		const struct admission_member *holder = admission_holder(turn, waiter);

		if (!turn->config->key && holder && holder->peer.source != waiter->source)
			return false;
	}
	return true;
}

static const char must_wait[] = "which is alive: the job runs, another of its name must wait";

/* Both who claim a rank have answered. While gathering nobody can say who is right: all go. */
static bool judge_claim(struct turn *turn, struct admission_peer *waiter, bool is_named)
{
	struct admission_member *holder = admission_holder(turn, waiter);
	const char *job = turn->config->job;

	if (!holder || holder->peer.pulse != ADMISSION_ANSWERED ||
	    waiter->pulse != ADMISSION_ANSWERED)
		return false;
	bool is_twin = admission_twin_is(turn, &holder->peer, waiter);
	bool are_both = turn->admission->state == ADMISSION_GATHER || is_twin;
	struct text text = admission_blame(turn, CONTROL_DENIED, CONTROL_RANK_NONE,
					   "job \"%s\": rank %u is held by ", job,
					   holder->peer.rank);
	if (are_both || is_named)
		text_add(&text, "process %u on %s, ", holder->peer.pid, holder->peer.host);
	else
		text_add(&text, "a process of another address (the aggregator's log names it), ");
	if (are_both)
		text_add(&text, "and process %u on %s claims it too; both are alive", waiter->pid,
			 waiter->host);
	else
		text_add(&text, "%s", must_wait);
	if (is_twin) {
		admission_twin_add(&text, &holder->peer, waiter);
		admission_end_twins(turn);
		return true;
	}
	if (are_both) {
		admission_end_refused(turn, NULL);
		return true;
	}
	struct admission_peer peer = *waiter;
	admission_drop_waiter(turn, waiter);
	admission_refuse(turn, &peer);
	admission_log(turn, ADMISSION_LOG_LIMITED,
		      "job \"%s\": rank %u is held by process %u on %s, %s", job, holder->peer.rank,
		      holder->peer.pid, holder->peer.host, must_wait);
	return true;
}

void admission_join_pong(struct turn *turn, struct admission_peer *peer)
{
	if (peer->pulse != ADMISSION_ASKED || turn->event->message->ping.serial != peer->ping)
		return;
	peer->pulse = ADMISSION_ANSWERED;
	bool is_named = may_hear(turn);

	for (uint32_t i = 0; i < turn->admission->waiters_count;)
		if (!judge_claim(turn, &admission_waiters(turn)[i], is_named))
			i++;
}
