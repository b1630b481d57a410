/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c - see membership.h. */
#include "lib/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/conn.h"
#include "core/member.h"
#include "core/text.h"
#include "dataplane/link_udp.h"
#include "lib/background.h"
#include "lib/local.h"
#include "lib/paths.h"
#include "util/commit.h"

enum {
	TRY_MS = 3000, /* one attempt to connect */
	LOOK_MS = 250, /* how often the oldest operation is looked at */
	STALL_MS = 500,
	ALIVE_MS = 2500, /* a heartbeat is never longer in coming */
	REVIVE_MS = 300, /* who has been stopped, and says so by TCP first, will be heard by UDP */
	STALL_AGAIN_MS = 1000,
	MESSAGES = 64, /* in one turn */
};

static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

/* The oldest operation, and how far it was when it last got on. */
struct patience {
	uint64_t number, done;
	uint64_t since_ns; /* since when it is so */
	uint64_t said_ns;
};

/* The deadline that was last said to be over. */
struct expiry {
	uint64_t number, again_ns;
};

struct membership {
	struct conn_address address;
	struct conn *conn;
	uint32_t attempts; /* to connect */
	atomic_int fd;     /* conn's, for a forked child; -1 */
	bool is_ending;    /* the end of the connection is no event any more */
	struct member member;
	struct member_config config;
	struct member_actions actions;
	struct control_join join;
	struct control_message message; /* to be sent */
	struct patience patience;
	struct expiry expiry;
	uint64_t look_ns, tick_ns;
};

static void member_do(struct tally_comm *comm, struct codec *codec, struct member_event *event);

static void drop(struct membership *membership)
{
	atomic_store(&membership->fd, -1);
	conn_close(membership->conn);
	membership->conn = NULL;
}

/* ---- open ---- */

static uint64_t list_hash(const char *list)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *list; list++)
		hash = (hash ^ (uint8_t)*list) * 0x100000001b3;
	return hash;
}

static void join_fill(const struct tally_comm *comm, struct membership *membership)
{
	struct control_join *join = &membership->join;

	*join = (struct control_join){ .version_min = CONTROL_VERSION,
				       .version_max = CONTROL_VERSION,
				       .size = (uint16_t)comm->who.size,
				       .rank = (uint16_t)comm->who.rank,
				       .kind = CONTROL_WORKER,
				       .workers = 1,
				       .pid = (uint32_t)getpid(),
				       .mtu = paths_mtu(&membership->address),
				       .mode = comm->latency_slots ? CONTROL_LATENCY
								   : CONTROL_DENSE,
				       .latency_slots = comm->latency_slots,
				       .latency_window = comm->latency_window,
				       .list_hash = list_hash(comm->boot.aggregator),
				       .life = comm->parent_life };
	memcpy(join->key, comm->key, sizeof(comm->key));
	memcpy(join->job, comm->who.job, sizeof(comm->who.job));
	memcpy(join->host, comm->who.host, CONTROL_HOST_BYTES - 1);
}

int membership_open(struct tally_comm *comm)
{
	struct membership *membership = calloc(1, sizeof(*membership));
	char local[LOCAL_NAME_BYTES + 1];
	const char *text = comm->boot.aggregator;
	char why[REPORT_TEXT_MAX];
	int error;

	if (!membership)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "tally_comm_init: out of memory");
	if (comm->boot.is_local) {
		local[0] = '@';
		local_name(comm->local_job, local + 1);
		text = local;
	}
	error = conn_resolve(text, CONTROL_PORT, &membership->address);
	if (error) {
		free(membership);
		return report_error(&comm->who,
				    error == -EINVAL ? TALLY_ERR_ARGUMENT : TALLY_ERR_SYSTEM,
				    error == -EINVAL ? "aggregator %s is not host:port"
				    : error == -EAGAIN
					    ? "aggregator %s: the name service does not answer"
					    : "aggregator %s: there is no such host",
				    text);
	}
	if (!paths_from(&comm->boot, &membership->address, why, sizeof(why))) {
		free(membership);
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s (to reach the aggregator %s)", why, text);
	}
	if (comm->boot.is_local)
		snprintf(membership->address.text, sizeof(membership->address.text),
			 "rank 0 on %s (local mode)", comm->who.host);
	join_fill(comm, membership);
	membership->config = (struct member_config)MEMBER_CONFIG_DEFAULT;
	membership->config.aggregator = membership->address.text;
	membership->config.join = &membership->join;
	membership->config.gather_ns = comm->boot.init_timeout_s * ns_per_s;
	if (membership->config.connect_ns > comm->boot.init_timeout_s * ns_per_s)
		membership->config.connect_ns = comm->boot.init_timeout_s * ns_per_s;
	atomic_store(&membership->fd, -1);
	membership->patience.number = UINT64_MAX;
	member_init(&membership->member, &membership->config);
	comm->membership = membership;
	return TALLY_OK;
}

void membership_close(struct tally_comm *comm)
{
	if (!comm->membership)
		return;
	drop(comm->membership);
	free(comm->membership);
	comm->membership = NULL;
}

void membership_forget(const struct tally_comm *comm)
{
	int fd = comm->membership ? atomic_load(&comm->membership->fd) : -1;

	if (fd >= 0 && !TAKEN_OUT(FORK_CLOSE))
		close(fd);
}

/* ---- actions ---- */

/* *next is what follows; true if there is one. A name's addresses take turns. */
static bool connect_begin(struct tally_comm *comm, struct member_event *next)
{
	struct membership *membership = comm->membership;
	char why[REPORT_TEXT_MAX];
	int error;

	drop(membership);
	if (membership->attempts++) {
		conn_address_next(&membership->address);
		(void)paths_from(&comm->boot, &membership->address, why, sizeof(why));
		membership->join.mtu = paths_mtu(&membership->address);
	}
	error = conn_connect(&membership->conn, &membership->address, next->now_ns,
			     TRY_MS * ns_per_ms);
	if (!error) {
		atomic_store(&membership->fd, conn_fd(membership->conn));
		return false;
	}
	next->type = MEMBER_REFUSED;
	next->text = strerror(-error);
	return true;
}

/* How a connection ended is connection_read's to tell; but a message for which there was no memory would
 * be waited for by the other side. */
static bool message_send(struct membership *membership, struct codec *codec,
			 struct member_event *next)
{
	if (conn_send(membership->conn, codec, &membership->message) != -ENOMEM ||
	    TAKEN_OUT(SEND_MEMORY))
		return false;
	next->type = MEMBER_ERROR;
	next->cause = CONTROL_NO_MEMORY;
	next->text = "out of memory for a message to the aggregator";
	return true;
}

static bool opinfo_send(struct tally_comm *comm, struct codec *codec,
			const struct member_action *action, struct member_event *next)
{
	struct membership *membership = comm->membership;
	struct control_op *ops = malloc(CONTROL_OPS_MAX * sizeof(*ops));
	bool has_next;
	struct control_opinfo info = { .round = action->serial, .ops = ops };

	comm_lock(comm);
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
	has_next = message_send(membership, codec, next);
	free(ops);
	return has_next;
}

/* At INFO a process says once what it has got: rank 0 for all, unless the ranks differ in it. */
static void banner(const struct tally_comm *comm)
{
	static atomic_bool is_said;
	const struct bootstrap *boot = &comm->boot;
	bool is_first = (comm->who.rank == 0 || boot->interface[0]) &&
			!atomic_exchange(&is_said, true);
	struct endpoint_stats stats;

	endpoint_stats(comm->endpoint, &stats);
	report_log(&comm->who, is_first ? TALLY_LOG_INFO : TALLY_LOG_DEBUG,
		   "tally " TALLY_VERSION
		   "%s: %u ranks, aggregator %s%s%s, %u %s, %u lanes, window "
		   "%u of %u slots, run %u",
		   *TALLY_COMMIT ? " (commit " TALLY_COMMIT ")" : "", comm->who.size,
		   comm->membership->address.text, boot->interface[0] ? ", from " : "",
		   boot->interface, comm->shards, comm->shards == 1 ? "shard" : "shards",
		   comm->lanes, stats.window, comm->slots, comm->run);
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

static bool start(struct tally_comm *comm, const struct member_event *event,
		  const struct member_action *action, struct member_event *next)
{
	struct control_member *members = members_copy(comm, &event->message->start);
	int error;

	comm_lock(comm);
	comm->members = members;
	error = members ? endpoint_start(comm->endpoint, action->lanes) : -ENOMEM;
	if (!error) {
		comm->lanes = action->lanes;
		comm->state = COMM_RUNNING;
		banner(comm);
		progress_notify(comm);
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

static void failed(struct tally_comm *comm)
{
	const struct member_actions *actions = &comm->membership->actions;
	char text[CONTROL_TEXT_BYTES + 96];
	bool is_unreached = comm->boot.is_local && !comm->membership->member.is_joined;

	snprintf(text, sizeof(text), "%s%s", actions->text,
		 is_unreached
			 ? "; if the ranks are on several hosts, set TALLY_AGGREGATOR=host:port"
			 : "");
	comm_lock(comm);
	comm_break(comm, result_of_cause((enum control_cause)actions->cause), text);
	comm_unlock(comm);
}

/* True if an event follows: *next. */
static bool action_do(struct tally_comm *comm, struct codec *codec,
		      const struct member_event *event, const struct member_action *action,
		      struct member_event *next)
{
	struct membership *membership = comm->membership;

	switch ((enum member_action_type)action->type) {
	case MEMBER_DO_CONNECT:
		return connect_begin(comm, next);
	case MEMBER_SEND:
		if (!membership->conn)
			break;
		member_message(&membership->member, &membership->config, &membership->actions,
			       action, &membership->message);
		return message_send(membership, codec, next);
	case MEMBER_HELLO:
		comm_lock(comm);
		if (comm->endpoint && !comm->is_driven)
			endpoint_hello(comm->endpoint, action->shard, action->serial,
				       action->lanes);
		comm_unlock(comm);
		break;
	case MEMBER_OPINFO:
		if (membership->conn)
			return opinfo_send(comm, codec, action, next);
		break;
	case MEMBER_START:
		return start(comm, event, action, next);
	case MEMBER_CLOSE:
		membership->is_ending = true;
		if (membership->conn)
			conn_last_words(membership->conn, next->now_ns);
		break;
	case MEMBER_IS_LEFT:
		comm_lock(comm);
		comm->state = COMM_LEFT;
		progress_notify(comm);
		comm_unlock(comm);
		break;
	case MEMBER_FAIL:
		failed(comm);
		break;
	}
	return false;
}

/* Somebody is late: kept for whoever asks. */
static void waiting(struct tally_comm *comm, const struct control_waiting *said)
{
	char text[CONTROL_TEXT_BYTES];

	text_copy(text, sizeof(text), said->text); /* from elsewhere: one line, and no escapes */
	comm_lock(comm);
	comm->late = *said;
	memcpy(comm->late.text, text, sizeof(text));
	comm_unlock(comm);
	report_log(&comm->who, TALLY_LOG_DEBUG, "%s", text);
}

static void member_do(struct tally_comm *comm, struct codec *codec, struct member_event *event)
{
	struct membership *membership = comm->membership;
	struct member_actions *actions = &membership->actions;
	bool has_next;

	do {
		struct member_event next = { .now_ns = event->now_ns };

		has_next = false;
		member_step(&membership->member, &membership->config, event, actions);
		if (actions->has_progress)
			report_log(&comm->who, TALLY_LOG_INFO, "%s", actions->text);
		if (actions->has_waiting)
			waiting(comm, &event->message->waiting);
		for (uint32_t i = 0; i < actions->count; i++)
			has_next |= action_do(comm, codec, event, &actions->list[i], &next);
		*event = next;
	} while (has_next);
}

/* ---- events ---- */

static void message_came(struct tally_comm *comm, struct codec *codec,
			 const struct control_message *message, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_MESSAGE,
				      .now_ns = now_ns,
				      .message = message };
	char text[CONTROL_TEXT_BYTES];

	if (message->type == CONTROL_GRANT && comm->membership->member.state == MEMBER_JOINING) {
		comm->life = message->grant.life;
		int error = paths_open(comm, comm->membership->conn, &message->grant, &event.lanes,
				       text);

		if (error) {
			event.type = MEMBER_ERROR;
			event.cause = error == TALLY_ERR_NO_MEMORY ? CONTROL_NO_MEMORY
								   : CONTROL_SYSTEM;
			event.text = text;
		}
	}
	member_do(comm, codec, &event);
}

/* The connection has come to its end. */
static void connection_ended(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	struct member_event event = { .type = MEMBER_CLOSED, .now_ns = now_ns };
	char text[CONTROL_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", conn_text(membership->conn));
	event.text = text[0] ? text : NULL;
	if (membership->member.state == MEMBER_CONNECT)
		event.type = MEMBER_REFUSED;
	drop(membership);
	if (membership->is_ending || TAKEN_OUT(AGGREGATOR_LOST))
		return;
	if (event.type == MEMBER_REFUSED && TAKEN_OUT(AGGREGATOR_ABSENT))
		return;
	member_do(comm, codec, &event);
}

static void connection_read(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	struct control_message message;

	for (uint32_t i = 0; membership->conn && i < MESSAGES; i++) {
		struct member_event event = { .type = MEMBER_CONNECTED, .now_ns = now_ns };

		switch (conn_read(membership->conn, now_ns, codec, &message)) {
		case CONN_NONE:
			return;
		case CONN_CONNECTED:
			member_do(comm, codec, &event);
			break;
		case CONN_MESSAGE:
			message_came(comm, codec, &message, now_ns);
			break;
		case CONN_EOF:
		case CONN_ERROR:
			connection_ended(comm, codec, now_ns);
			return;
		}
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
	for (uint32_t i = 0; i < count; i++) {
		struct member_event event = { .type = MEMBER_WELCOME,
					      .now_ns = now_ns,
					      .shard = (uint16_t)welcomes[i].shard,
					      .lanes = (uint16_t)welcomes[i].lanes };

		member_do(comm, codec, &event);
	}
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
		member_do(comm, codec, &error);
	if (wants_abort)
		member_do(comm, codec, &abort);
	if (wants_leave)
		member_do(comm, codec, &leave);
}

/* Another thread's clock may be ahead of when this turn began. */
static uint32_t ms_between(uint64_t since_ns, uint64_t now_ns)
{
	uint64_t ms = now_ns > since_ns ? (now_ns - since_ns) / ns_per_ms : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* R-CT-33: STALL, when the oldest operation has had no result for a while; of which the event tells. */
static bool is_stalled(struct tally_comm *comm, uint64_t now_ns, struct member_event *event)
{
	struct patience *patience = &comm->membership->patience;
	const struct tally_work *oldest;
	uint64_t done = 0;
	bool is_late = false;

	comm_lock(comm);
	oldest = comm->outstanding.first;
	if (oldest && !atomic_load(&comm->error)) {
		const struct worker *worker = endpoint_worker(comm->endpoint);
		const struct worker_stream *stream = &worker->stream[oldest->op.stream];

		if (stream->head != stream->tail)
			done = stream->ops[stream->head & (worker->ops_max - 1)].done;
		event->number = oldest->op.number;
		event->waited_ms = ms_between(oldest->submitted_ns, now_ns);
		if (patience->number != event->number) {
			uint64_t progress_ns = endpoint_progress_ns(comm->endpoint);

			*patience =
				(struct patience){ event->number, done, oldest->submitted_ns, 0 };
			if (patience->since_ns < progress_ns)
				patience->since_ns = progress_ns;
		} else if (patience->done != done) {
			patience->done = done;
			patience->since_ns = now_ns;
		}
		/* Another thread's clock may be ahead of when this turn began. */
		is_late = now_ns > patience->since_ns &&
			  now_ns - patience->since_ns >= STALL_MS * ns_per_ms &&
			  now_ns - patience->said_ns >= STALL_AGAIN_MS * ns_per_ms;
	}
	comm_unlock(comm);
	if (is_late)
		patience->said_ns = now_ns;
	return is_late;
}

/* A path that carries nothing any more; or no packets of full size, while it still answers short ones. If
 * it answers nothing, the aggregator must have been heard by TCP since: else it is dead, or stopped. */
static void look_at_paths(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	const struct member *member = &comm->membership->member;
	char text[CONTROL_TEXT_BYTES];
	struct member_event event = {
		.type = MEMBER_ERROR, .now_ns = now_ns, .cause = CONTROL_SYSTEM, .text = text
	};
	struct endpoint_path path;
	bool is_lost;

	comm_lock(comm);
	is_lost =
		endpoint_path_lost(comm->endpoint, now_ns, &path) &&
		(path.is_short_heard || (member->heard_ns > path.since_ns + ALIVE_MS * ns_per_ms &&
					 now_ns > member->heard_ns + REVIVE_MS * ns_per_ms));
	if (is_lost)
		paths_say_lost(comm, &path, text);
	comm_unlock(comm);
	if (is_lost)
		member_do(comm, codec, &event);
}

static void look(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_STALLED, .now_ns = now_ns };

	comm->membership->look_ns = now_ns + LOOK_MS * ns_per_ms;
	look_at_paths(comm, codec, now_ns);
	if (is_stalled(comm, now_ns, &event) && !TAKEN_OUT(STALL))
		member_do(comm, codec, &event);
}

void membership_deadline_set(struct tally_comm *comm, struct tally_work *work, uint32_t ms)
{
	work->deadline_ns = work->submitted_ns + ms * ns_per_ms;
	if (work->deadline_ns >= atomic_load(&comm->deadline_ns))
		return;
	atomic_store(&comm->deadline_ns, work->deadline_ns);
	background_kick(); /* it sleeps until a later one */
}

/* R-CT-38: of all whose deadline is over the oldest, each second anew: its round may find that it ended
 * well, or be about another one. */
static bool find_expired(struct tally_comm *comm, uint64_t now_ns, struct member_event *event)
{
	struct expiry *expiry = &comm->membership->expiry;
	uint64_t first_ns = UINT64_MAX;
	bool is_any = false, is_said = false;

	comm_lock(comm);
	for (struct tally_work *work = comm->outstanding.first; work; work = work->next) {
		if (work->deadline_ns > now_ns && work->deadline_ns < first_ns)
			first_ns = work->deadline_ns;
		if (!work->deadline_ns || work->deadline_ns > now_ns || is_any)
			continue;
		is_any = true;
		is_said = expiry->number == work->op.number && now_ns < expiry->again_ns;
		event->number = work->op.number;
		event->waited_ms = ms_between(work->submitted_ns, now_ns);
	}
	if (is_any && !is_said)
		*expiry = (struct expiry){ event->number, now_ns + ns_per_s };
	if (is_any && expiry->again_ns < first_ns)
		first_ns = expiry->again_ns;
	atomic_store(&comm->deadline_ns, first_ns);
	comm_unlock(comm);
	return is_any && !is_said;
}

static void expire(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_EXPIRED, .now_ns = now_ns };

	if (find_expired(comm, now_ns, &event))
		member_do(comm, codec, &event);
}

static void tick(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;
	struct member_event event = { .type = MEMBER_TICK, .now_ns = now_ns };

	comm_lock(comm);
	event.number = comm->outstanding.first ? comm->outstanding.first->op.number
					       : comm->next_number;
	comm_unlock(comm);
	member_do(comm, codec, &event);
	membership->tick_ns = now_ns + ns_per_s;
	if (membership->actions.wake_ns < membership->tick_ns)
		membership->tick_ns = membership->actions.wake_ns;
}

/* Nothing more will come of it: destroy may go on. */
static void over_check(struct tally_comm *comm)
{
	const struct membership *membership = comm->membership;
	bool is_over = !membership->conn && (membership->member.state == MEMBER_LEFT ||
					     membership->member.state == MEMBER_FAILED);

	if (is_over == comm->is_over)
		return;
	comm_lock(comm);
	comm->is_over = is_over;
	progress_notify(comm);
	comm_unlock(comm);
}

void membership_service(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct membership *membership = comm->membership;

	requests_do(comm, codec, now_ns);
	welcomes_read(comm, codec, now_ns);
	connection_read(comm, codec, now_ns);
	if (now_ns >= membership->look_ns && membership->member.state == MEMBER_RUN)
		look(comm, codec, now_ns);
	if (now_ns >= atomic_load(&comm->deadline_ns))
		expire(comm, codec, now_ns);
	if (now_ns >= membership->tick_ns || now_ns >= membership->actions.wake_ns)
		tick(comm, codec, now_ns);
	over_check(comm);
}

bool membership_poll(const struct tally_comm *comm, struct pollfd *poll)
{
	const struct conn *conn = comm->membership->conn;

	if (!conn)
		return false;
	*poll = (struct pollfd){ .fd = conn_fd(conn), .events = conn_events(conn) };
	return true;
}

uint64_t membership_deadline(const struct tally_comm *comm)
{
	const struct membership *membership = comm->membership;
	uint64_t first = membership->tick_ns;

	if (comm->is_over)
		return UINT64_MAX;
	if (membership->actions.wake_ns < first)
		first = membership->actions.wake_ns;
	if (membership->member.state == MEMBER_RUN && membership->look_ns < first)
		first = membership->look_ns;
	if (membership->conn && conn_deadline(membership->conn) < first)
		first = conn_deadline(membership->conn);
	if (atomic_load(&comm->deadline_ns) < first)
		first = atomic_load(&comm->deadline_ns);
	return first;
}
