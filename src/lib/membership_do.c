/* SPDX-License-Identifier: Apache-2.0 */
/* membership_do.c - what a seat's machine says is to be done: see seat.h. */
#include "lib/seat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/text.h"
#include "lib/paths.h"
#include "lib/present.h"
#include "util/commit.h"

enum {
	TRY_MS = 3000,   /* one attempt to connect */
	ABSENT_S = 5,    /* of attempts, until the first and only line about them */
	LATE_MS = 30000, /* of an operation that not all have called, until the only line at WARN */
	WHERE_BYTES = 512, /* of a text, about aggregators */
};

static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

/* *next is what follows; true if there is one. A name's addresses take turns. */
static bool connect_begin(struct tally_comm *comm, struct seat *seat, struct member_event *next)
{
	char why[REPORT_TEXT_MAX];
	int error;

	seat_drop(seat);
	seat->is_ending = false;
	if (seat->attempts++) {
		conn_address_next(&seat->address);
		(void)paths_from(&comm->boot, &seat->address, why, sizeof(why));
		seat->join.mtu = paths_mtu(&seat->address);
	}
	error = conn_connect(&seat->conn, &seat->address, next->now_ns, TRY_MS * ns_per_ms);
	if (!error) {
		atomic_store(&seat->fd, conn_fd(seat->conn));
		return false;
	}
	next->type = MEMBER_REFUSED;
	next->text = strerror(-error);
	if (error == -EMFILE || error == -ENFILE || error == -ENOMEM) {
		next->type = MEMBER_ERROR; /* what this process lacks, waiting does not bring */
		next->cause = CONTROL_SYSTEM;
	}
	return true;
}

/* How a connection ended is connection_read's to tell; but a message for which there was no memory would
 * be waited for by the other side. */
static bool message_send(struct membership *membership, struct seat *seat, struct codec *codec,
			 struct member_event *next)
{
	if (conn_send(seat->conn, codec, &membership->message) != -ENOMEM)
		return false;
	next->type = MEMBER_ERROR;
	next->cause = CONTROL_NO_MEMORY;
	next->text = "out of memory for a message to the aggregator";
	return true;
}

static bool opinfo_send(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			const struct member_action *action, struct member_event *next)
{
	struct membership *membership = comm->membership;
	struct control_op *ops = malloc(CONTROL_OPS_MAX * sizeof(*ops));
	bool has_next;
	struct control_opinfo info = { .round = action->serial, .ops = ops };

	present_say(&info);
	comm_lock(comm);
	info.is_warn = comm->boot.is_crossed_warn;
	info.blocked = work_blocked(comm, &info.waits);
	info.submitted = comm->next_number;
	info.oldest = comm->outstanding.first ? comm->outstanding.first->op.number
					      : comm->next_number;
	for (struct tally_work *work = comm->outstanding.first; work; work = work->next) {
		if (work->op.number < action->number)
			continue;
		if (!ops || info.ops_count == CONTROL_OPS_MAX) {
			info.has_more = 1;
			break;
		}
		ops[info.ops_count++] = work->op;
	}
	comm_unlock(comm);
	membership->message.type = CONTROL_OPINFO;
	membership->message.opinfo = info;
	has_next = message_send(membership, seat, codec, next);
	free(ops);
	return has_next;
}

/* At INFO a process says once what it has got: rank 0 for all, unless the ranks differ in it. */
static void banner(const struct tally_comm *comm)
{
	static atomic_bool is_said;
	const struct bootstrap *boot = &comm->boot;
	bool is_first = (comm->who.rank == 0 || boot->interface[0]) && !comm->pair_of &&
			!atomic_exchange(&is_said, true);
	struct endpoint_stats stats;

	endpoint_stats(comm->endpoint, &stats);
	report_log(&comm->who, is_first ? TALLY_LOG_INFO : TALLY_LOG_DEBUG,
		   "tally " TALLY_VERSION
		   "%s: %u ranks, aggregator %s%s%s, %u %s, %u lanes, window "
		   "%u of %u slots, run %u",
		   *TALLY_COMMIT ? " (commit " TALLY_COMMIT ")" : "", comm->who.size,
		   comm->membership->seats_count > 1 ? boot->aggregator
						     : comm->membership->seats[0].address.text,
		   boot->interface[0] ? ", from " : "", boot->interface, comm->shards,
		   comm->shards == 1 ? "shard" : "shards", comm->lanes, stats.window, comm->slots,
		   comm->run);
}

/* START's, one for every rank: what it did not say of one stays zero. */
static struct control_member *members_copy(const struct tally_comm *comm,
					   const struct control_start *start)
{
	struct control_member *members = calloc(comm->who.size, sizeof(*members));

	for (uint32_t rank = 0; members && rank < comm->who.size; rank++)
		members[rank].rank = (uint16_t)rank;
	for (uint32_t i = 0; members && i < start->members_count; i++)
		if (start->members[i].rank < comm->who.size)
			members[start->members[i].rank] = start->members[i];
	return members;
}

/* Operations may go when all have said START, with the least of their lanes: which is the same on all
 * ranks, for every START is. */
static bool start(struct tally_comm *comm, struct seat *seat, const struct member_event *event,
		  const struct member_action *action, struct member_event *next)
{
	struct membership *membership = comm->membership;
	uint32_t lanes = WIRE_LANES_MAX;
	int error;

	if (!comm->members) {
		struct control_member *members = members_copy(comm, &event->message->start);

		comm_lock(comm);
		comm->members = members;
		comm_unlock(comm);
	}
	seat->lanes = action->lanes;
	for (uint32_t i = 0; i < membership->seats_count; i++)
		lanes = membership->seats[i].lanes < lanes ? membership->seats[i].lanes : lanes;
	if (comm->members && !lanes)
		return false; /* of one that has not */
	comm_lock(comm);
	error = comm->members ? endpoint_start(comm->endpoint, (uint16_t)lanes) : -ENOMEM;
	if (!error) {
		comm->lanes = lanes;
		if (comm->state == COMM_JOINING) /* a pair may have been given up */
			comm->state = COMM_RUNNING;
		banner(comm);
		if (comm->enter_held)
			comm->enter_held(comm);
		wake_waiters(comm);
	}
	comm_unlock(comm);
	if (!error)
		return false;
	next->type = MEMBER_ERROR;
	next->cause = error == -ENOMEM ? CONTROL_NO_MEMORY : CONTROL_INTERNAL;
	next->text = error == -ENOMEM ? "out of memory for the slots"
				      : "START with impossible lanes";
	return true;
}

/* Who waits for others may wait elsewhere than they do. */
static void where_add(const struct tally_comm *comm, const struct seat *seat,
		      char text[CONTROL_TEXT_BYTES + WHERE_BYTES])
{
	size_t used = strlen(text), room = CONTROL_TEXT_BYTES + WHERE_BYTES - used;

	if (!comm->boot.is_local && comm->membership->seats_count == 1)
		snprintf(text + used, room, "; this rank waited at the aggregator %s",
			 seat->address.text);
	else if (!comm->boot.is_local)
		snprintf(text + used, room,
			 "; this rank waited at the aggregator %s of the list %s: all must be "
			 "given the same list",
			 seat->address.text, comm->boot.aggregator);
	used = strlen(text);
	if (comm->boot.is_launched && !comm->boot.is_alone && !comm->join_life) /* R-CT-24 */
		snprintf(text + used, CONTROL_TEXT_BYTES + WHERE_BYTES - used,
			 "; ranks with another command line wait apart, for the name is the "
			 "launcher's: if they are one job, set one TALLY_JOB for all");
}

/* The first that fails is the cause, here and, if they have not heard of it yet, at the others. */
static void failed(struct tally_comm *comm, struct seat *seat, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	const struct member_actions *actions = &seat->actions;
	char text[CONTROL_TEXT_BYTES + WHERE_BYTES];
	bool is_unreached = comm->boot.is_local && !seat->member.is_joined &&
			    !seat->member.is_again;

	if (membership->has_failed)
		return;
	membership->has_failed = true;
	snprintf(text, sizeof(text), "%s%s%s", actions->text,
		 is_unreached
			 ? "; if the ranks are on several hosts, set TALLY_AGGREGATOR=host:port"
			 : "",
		 is_unreached && comm->boot.is_launched
			 ? "; if two programs have this launch, give each its TALLY_JOB"
			 : "");
	if (actions->cause == CONTROL_TIMEOUT && seat->member.is_joined && !seat->is_granted &&
	    seat == membership->seats)
		where_add(comm, seat, text);
	/* First: the program may end as soon as it knows, and the other ranks are to hear why. */
	for (uint32_t i = 0; i < membership->seats_count; i++) {
		struct seat *other = &membership->seats[i];
		struct member_event event = { .type = MEMBER_ERROR,
					      .now_ns = now_ns,
					      .cause = (enum control_cause)actions->cause,
					      .text = actions->text };

		if (other != seat && !seat_is_over(other))
			membership_do(comm, other, codec, &event);
	}
	comm_lock(comm);
	comm_break(comm, result_of_cause((enum control_cause)actions->cause), text);
	comm_unlock(comm);
}

static bool have_all_left(const struct membership *membership)
{
	for (uint32_t i = 0; i < membership->seats_count; i++)
		if (membership->seats[i].member.state != MEMBER_LEFT)
			return false;
	return true;
}

/* True if an event follows: *next. */
static bool action_do(struct tally_comm *comm, struct seat *seat, struct codec *codec,
		      const struct member_event *event, const struct member_action *action,
		      struct member_event *next)
{
	struct membership *membership = comm->membership;

	switch ((enum member_action_type)action->type) {
	case MEMBER_DO_CONNECT:
		return connect_begin(comm, seat, next);
	case MEMBER_SEND:
		if (!seat->conn)
			break;
		member_message(&seat->config, &seat->actions, action, &membership->message);
		return message_send(membership, seat, codec, next);
	case MEMBER_HELLO:
		comm_lock(comm);
		if (comm->endpoint && !comm->is_driven)
			endpoint_hello(comm->endpoint, seat->shards_first + action->shard,
				       action->serial, action->lanes);
		comm_unlock(comm);
		break;
	case MEMBER_OPINFO:
		if (seat->conn)
			return opinfo_send(comm, seat, codec, action, next);
		break;
	case MEMBER_START:
		return start(comm, seat, event, action, next);
	case MEMBER_CLOSE:
		seat->is_ending = true;
		if (seat->conn)
			conn_last_words(seat->conn, next->now_ns);
		break;
	case MEMBER_IS_LEFT:
		if (!have_all_left(membership))
			break;
		comm_lock(comm);
		comm->state = COMM_LEFT;
		wake_waiters(comm);
		comm_unlock(comm);
		break;
	case MEMBER_FAIL:
		failed(comm, seat, codec, next->now_ns);
		break;
	}
	return false;
}

/* Numbers grow: of an operation that others have followed nothing new is to be said. */
static bool is_late_due(struct membership *membership, const struct control_waiting *said)
{
	if (!said->missing_count || said->waited_ms < LATE_MS ||
	    said->number < membership->late_next)
		return false;
	membership->late_next = said->number + 1;
	return true;
}

/* Somebody is late: kept for whoever asks. A rank that never calls is no failure, and nothing else tells of it. */
static void waiting(struct tally_comm *comm, const struct control_waiting *said)
{
	int level = is_late_due(comm->membership, said) ? TALLY_LOG_WARN : TALLY_LOG_DEBUG;
	char text[CONTROL_TEXT_BYTES];

	text_copy(text, sizeof(text), said->text); /* from elsewhere: one line, and no escapes */
	comm_lock(comm);
	comm->late = *said;
	memcpy(comm->late.text, text, sizeof(text));
	comm_unlock(comm);
	report_log(&comm->who, level, "%s", text);
}

/* Trying goes on: an aggregator may start after its job. */
static void absent(const struct tally_comm *comm, struct seat *seat,
		   const struct member_event *event)
{
	uint64_t gone_s = (event->now_ns - seat->member.since_ns) / ns_per_s;

	if (seat->member.state != MEMBER_CONNECT || gone_s < ABSENT_S || seat->is_absent_said)
		return;
	seat->is_absent_said = true;
	report_log(&comm->who, TALLY_LOG_WARN,
		   "no aggregator at %s for %llu s: %s; trying for %llu s in all",
		   seat->address.text, (unsigned long long)gone_s,
		   event->text ? event->text : "no answer",
		   (unsigned long long)(seat->config.connect_ns / ns_per_s));
}

void membership_do(struct tally_comm *comm, struct seat *seat, struct codec *codec,
		   struct member_event *event)
{
	struct member_actions *actions = &seat->actions;
	bool has_next;

	do {
		struct member_event next = { .now_ns = event->now_ns };

		has_next = false;
		if (event->type == MEMBER_REFUSED)
			absent(comm, seat, event);
		member_step(&seat->member, &seat->config, event, actions);
		if (actions->has_progress) /* whatever says what to set is for the user to see */
			report_log(&comm->who,
				   strstr(actions->text, "TALLY_JOB") ? TALLY_LOG_WARN
								      : TALLY_LOG_INFO,
				   "%s", actions->text);
		if (actions->has_waiting)
			waiting(comm, &event->message->waiting);
		for (uint32_t i = 0; i < actions->count; i++)
			has_next |= action_do(comm, seat, codec, event, &actions->list[i], &next);
		*event = next;
	} while (has_next);
}
