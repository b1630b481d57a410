/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c - see membership.h. */
#include "lib/seat.h"

#include <stdio.h>
#include <string.h>

#include "core/shared/rto.h"
#include "lib/paths.h"

enum { MESSAGES = 64 /* in one turn */ };

static const uint64_t ns_per_s = 1000000000;

static void members_do(struct tally_comm *comm, struct codec *codec,
		       const struct member_event *event)
{
	for (uint32_t i = 0; i < comm->membership->seats_count; i++) {
		struct seat *seat = &comm->membership->seats[i];
		struct member_event copy = *event;

		if (!seat_is_over(seat))
			membership_do(comm, seat, codec, &copy);
	}
}

/* The primary has granted: the others are asked, with its life and what is left of the time. */
static void others_begin(struct tally_comm *comm, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	uint64_t gone_ns = now_ns - membership->begun_ns;

	for (uint32_t i = 1; i < membership->seats_count; i++) {
		struct seat *seat = &membership->seats[i];

		seat->is_begun = true;
		seat->join.life = comm->life;
		if (gone_ns < seat->config.gather_ns)
			seat->config.gather_ns -= gone_ns;
		seat->tick_ns = now_ns;
	}
}

static bool are_all_granted(const struct membership *membership)
{
	for (uint32_t i = 0; i < membership->seats_count; i++)
		if (!membership->seats[i].is_granted)
			return false;
	return true;
}

/* Opens the endpoint to all shards; then every machine gets its GRANT. */
static void all_granted(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	struct paths_grant grants[MEMBERSHIP_AGGREGATORS_MAX];
	struct member_event event = { .type = MEMBER_MESSAGE, .now_ns = now_ns };
	char text[CONTROL_TEXT_BYTES];
	uint32_t shards = 0;
	uint16_t lanes = 0;
	int error;

	for (uint32_t i = 0; i < membership->seats_count; i++) {
		struct seat *seat = &membership->seats[i];

		grants[i] = (struct paths_grant){ seat->conn, &seat->grant };
		seat->shards_first = shards;
		seat->shards_count = seat->grant.shards_count;
		shards += seat->shards_count;
	}
	error = paths_open(comm, grants, membership->seats_count, &lanes, text);
	if (error) {
		event.type = MEMBER_ERROR;
		event.cause = error == TALLY_ERR_NO_MEMORY ? CONTROL_NO_MEMORY : CONTROL_SYSTEM;
		event.text = text;
		members_do(comm, codec, &event);
		return;
	}
	for (uint32_t i = 0; i < membership->seats_count; i++) {
		struct seat *seat = &membership->seats[i];
		struct control_message message = { .type = CONTROL_GRANT, .grant = seat->grant };
		struct member_event granted = { .type = MEMBER_MESSAGE,
						.now_ns = now_ns,
						.message = &message,
						.lanes = lanes };

		seat->config.is_v6 = paths_is_v6(comm);
		if (!seat_is_over(seat))
			membership_do(comm, seat, codec, &granted);
	}
}

/* All are there: this rank has come only to say that it has failed. */
static void failure_tell(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			 uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_ERROR,
				      .now_ns = now_ns,
				      .cause = CONTROL_SYSTEM,
				      .text = comm->boot.failure };

	membership_do(comm, seat, codec, &event);
}

static void message_came(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			 const struct control_message *message, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	struct member_event event = { .type = MEMBER_MESSAGE,
				      .now_ns = now_ns,
				      .message = message };

	if (message->type != CONTROL_GRANT || seat->member.state != MEMBER_JOINING ||
	    seat->is_granted) {
		membership_do(comm, seat, codec, &event);
		return;
	}
	seat->grant = message->grant;
	seat->is_granted = true;
	if (seat == &membership->seats[0]) {
		comm->life = message->grant.life;
		if (comm->boot.failure[0]) {
			failure_tell(comm, seat, codec, now_ns);
			return;
		}
		others_begin(comm, now_ns);
	}
	if (are_all_granted(membership))
		all_granted(comm, codec, now_ns);
}

/* The connection has come to its end. */
static void connection_ended(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			     uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_CLOSED, .now_ns = now_ns };
	char text[CONTROL_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", conn_text(seat->conn));
	event.text = text[0] ? text : NULL;
	if (seat->member.state == MEMBER_CONNECT)
		event.type = MEMBER_REFUSED;
	seat_drop(seat);
	if (seat->is_ending)
		return;
	membership_do(comm, seat, codec, &event);
}

static void connection_read(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			    uint64_t now_ns)
{
	struct control_message message;

	for (uint32_t i = 0; seat->conn && i < MESSAGES; i++) {
		struct member_event event = { .type = MEMBER_CONNECTED, .now_ns = now_ns };

		switch (conn_read(seat->conn, now_ns, codec, &message)) {
		case CONN_NONE:
			return;
		case CONN_CONNECTED:
			membership_do(comm, seat, codec, &event);
			break;
		case CONN_MESSAGE:
			message_came(comm, seat, codec, &message, now_ns);
			break;
		case CONN_EOF:
		case CONN_ERROR:
			connection_ended(comm, seat, codec, now_ns);
			return;
		}
	}
}

static void welcome(struct tally_comm *comm, struct codec *codec,
		    const struct endpoint_welcome *said, uint64_t now_ns)
{
	for (uint32_t i = 0; i < comm->membership->seats_count; i++) {
		struct seat *seat = &comm->membership->seats[i];
		struct member_event event = { .type = MEMBER_WELCOME,
					      .now_ns = now_ns,
					      .shard = (uint16_t)(said->shard - seat->shards_first),
					      .lanes = (uint16_t)said->lanes };

		if (said->shard >= seat->shards_first &&
		    said->shard < seat->shards_first + seat->shards_count)
			membership_do(comm, seat, codec, &event);
	}
}

static void welcomes_read(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct endpoint_welcome welcomes[16];
	uint32_t count = 0;

	comm_lock(comm);
	if (comm->endpoint && comm->state == COMM_JOINING)
		count = endpoint_welcomes(comm->endpoint, welcomes, 16);
	comm_unlock(comm);
	for (uint32_t i = 0; i < count; i++)
		welcome(comm, codec, &welcomes[i], now_ns);
}

/* What calling threads have asked for. */
static void requests_do(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct member_event abort = { .type = MEMBER_USER_ABORT, .now_ns = now_ns };
	struct member_event leave = { .type = MEMBER_FINALIZE, .now_ns = now_ns };
	struct member_event error = { .type = MEMBER_ERROR, .now_ns = now_ns };
	char text[CONTROL_TEXT_BYTES];
	bool wants_abort, wants_leave, wants_error;

	comm_lock(comm);
	wants_abort = comm->wants_abort;
	wants_leave = comm->wants_leave;
	wants_error = comm->wants_error;
	comm->wants_abort = comm->wants_leave = comm->wants_error = false;
	leave.number = comm->next_number;
	error.cause = comm->fault_cause;
	strcpy(text, comm->fault_text);
	error.text = text;
	comm_unlock(comm);
	if (wants_error)
		members_do(comm, codec, &error);
	if (wants_abort)
		members_do(comm, codec, &abort);
	if (wants_leave)
		members_do(comm, codec, &leave);
}

static void tick(struct tally_comm *comm, struct seat *seat, struct codec *codec, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_TICK, .now_ns = now_ns };

	event.is_done = true;
	comm_lock(comm);
	for (const struct tally_work *work = comm->outstanding.first; work; work = work->next)
		event.is_done &= work->op.number != seat->member.expired;
	comm_unlock(comm);
	membership_do(comm, seat, codec, &event);
	seat->tick_ns = now_ns + ns_per_s;
	if (seat->actions.wake_ns < seat->tick_ns)
		seat->tick_ns = seat->actions.wake_ns;
}

static void tick_all(struct tally_comm *comm, struct codec *codec, uint64_t now_ns, bool is_granted)
{
	for (uint32_t i = 0; i < comm->membership->seats_count; i++) {
		struct seat *seat = &comm->membership->seats[i];

		if (seat->is_begun && seat->is_granted == is_granted &&
		    (now_ns >= seat->tick_ns || now_ns >= seat->actions.wake_ns))
			tick(comm, seat, codec, now_ns);
	}
}

/* Nothing more will come of it: destroy may go on. */
static void over_check(struct tally_comm *comm)
{
	const struct membership *membership = comm->membership;
	bool is_over = true;

	for (uint32_t i = 0; i < membership->seats_count; i++)
		is_over &= !membership->seats[i].conn && seat_is_over(&membership->seats[i]) &&
			   (membership->seats[i].is_begun || membership->has_failed);
	if (is_over == comm->is_over)
		return;
	comm_lock(comm);
	comm->is_over = is_over;
	wake_waiters(comm);
	comm_unlock(comm);
}

void membership_service(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;

	if (!membership->begun_ns)
		membership->begun_ns = now_ns;
	requests_do(comm, codec, now_ns);
	welcomes_read(comm, codec, now_ns);
	for (uint32_t i = 0; i < membership->seats_count; i++)
		connection_read(comm, &membership->seats[i], codec, now_ns);
	if (now_ns >= membership->look_ns && seat_is_bound(&membership->seats[0]))
		late_look(comm, codec, now_ns);
	stray_look(comm, now_ns);
	if (now_ns >= atomic_load(&comm->deadline_ns))
		late_expire(comm, codec, now_ns);
	/* A GRANT that is held waits for those that have not granted: if the time is over, it is theirs. */
	tick_all(comm, codec, now_ns, false);
	tick_all(comm, codec, now_ns, true);
	over_check(comm);
}

uint32_t membership_poll(const struct tally_comm *comm, struct pollfd *polls)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < comm->membership->seats_count; i++) {
		const struct conn *conn = comm->membership->seats[i].conn;

		if (conn)
			polls[count++] =
				(struct pollfd){ .fd = conn_fd(conn), .events = conn_events(conn) };
	}
	return count;
}

uint64_t membership_deadline(const struct tally_comm *comm)
{
	const struct membership *membership = comm->membership;
	uint64_t first = atomic_load(&comm->deadline_ns);

	if (comm->is_over)
		return UINT64_MAX;
	for (uint32_t i = 0; i < membership->seats_count; i++) {
		const struct seat *seat = &membership->seats[i];

		if (seat->is_begun)
			first = rto_least(first, rto_least(seat->tick_ns, seat->actions.wake_ns));
		if (seat->conn)
			first = rto_least(first, conn_deadline(seat->conn));
	}
	return seat_is_bound(&membership->seats[0]) ? rto_least(first, membership->look_ns) : first;
}
