/* SPDX-License-Identifier: Apache-2.0 */
/* late.c - what takes too long: an operation without a result, a path that is gone, a deadline. See seat.h. */
#include "core/job/silence.h"
#include "lib/carrier.h"
#include "lib/paths.h"
#include "lib/seat.h"

enum {
	LOOK_MS = 250, /* how often the oldest operation is looked at */
	STALL_MS = 500,
	ALIVE_MS = 2500,   /* a heartbeat is never longer in coming */
	BLOCKED_MS = 5000, /* nothing by UDP: at least so long, */
	BLOCKED_MS_MAX = 10000,
	STALL_AGAIN_MS = 1000,
};

static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

/* Another thread's clock may be ahead of when this turn began. */
static uint32_t ms_between(uint64_t since_ns, uint64_t now_ns)
{
	uint64_t ms = now_ns > since_ns ? (now_ns - since_ns) / ns_per_ms : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Two HEARTBEATs are missing. */
static bool is_quiet(const struct seat *seat, uint64_t now_ns)
{
	return now_ns > seat->member.spoke_ns + 2 * silence_beat_ns(seat->member.heartbeat_ns);
}

/* An aggregator that is quiet may be stopped: then it is to be named for its silence (R-CT-9). But one that speaks
 * seldom, again and again, must not put off a standstill for ever. */
static bool explains(const struct seat *seat, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t limit_ns = SILENCE_UDP_ALONE * silence_ns(seat->member.heartbeat_ns);

	return seat_is_bound(seat) && is_quiet(seat, now_ns) && now_ns < since_ns + limit_ns;
}

/* For how long there was no result, and nothing that explains it. */
static uint32_t still_ms(const struct membership *membership, uint64_t progress_ns, uint64_t now_ns)
{
	uint64_t since_ns = membership->patience.since_ns;

	if (since_ns < progress_ns)
		since_ns = progress_ns;
	for (uint32_t i = 0; i < membership->seats_count; i++)
		if (explains(&membership->seats[i], since_ns, now_ns))
			return 0;
	return ms_between(since_ns, now_ns);
}

/* R-CT-55: STALL, when the oldest operation has had no result for a while; of which the event tells. */
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
		uint64_t progress_ns = endpoint_progress_ns(comm->endpoint);

		if (comm->host)
			done = host_progress(comm->host);
		else if (stream->head != stream->tail)
			done = stream->ops[stream->head & (worker->ops_max - 1)].done;
		event->number = oldest->op.number;
		event->waited_ms = ms_between(oldest->submitted_ns, now_ns);
		if (patience->number != event->number) {
			*patience =
				(struct patience){ event->number, done, oldest->submitted_ns, 0 };
			if (patience->since_ns < progress_ns)
				patience->since_ns = progress_ns;
		} else if (patience->done != done) {
			patience->done = done;
			patience->since_ns = now_ns;
		}
		event->still_ms = still_ms(comm->membership, progress_ns, now_ns);
		/* Another thread's clock may be ahead of when this turn began. */
		is_late = now_ns > patience->since_ns &&
			  (now_ns - patience->since_ns >= STALL_MS * ns_per_ms ||
			   (comm->host && host_is_odd(comm->host))) &&
			  now_ns - patience->said_ns >= STALL_AGAIN_MS * ns_per_ms;
	}
	comm_unlock(comm);
	if (is_late)
		patience->said_ns = now_ns;
	return is_late;
}

/* ---- an aggregator that TCP says nothing of ---- */

/* When the first HEARTBEAT comes again our own may still wait, for as long as it was silent. */
static bool is_knocked_at(struct seat *seat, uint64_t now_ns)
{
	if (is_quiet(seat, now_ns))
		seat->knock_until_ns = now_ns + (now_ns - seat->member.spoke_ns);
	return seat_is_bound(seat) && now_ns < seat->knock_until_ns;
}

/* R-CT-9: when a link is back TCP may wait for as long again. A HELLO does not; where a thread drives, the watch over
 * the path says it (R-PACE-10). */
static void look_at_silence(struct tally_comm *comm, struct codec *codec, struct seat *seat,
			    uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_WELCOME,
				      .now_ns = now_ns,
				      .lanes = WIRE_HELLO_LANES };
	bool is_knocked = is_knocked_at(seat, now_ns);
	uint64_t welcomed_ns = 0;

	comm_lock(comm);
	for (uint32_t i = 0; i < seat->shards_count && comm->endpoint && seat_is_bound(seat); i++) {
		uint32_t shard = seat->shards_first + i;

		if (welcomed_ns < endpoint_welcomed_ns(comm->endpoint, shard))
			welcomed_ns = endpoint_welcomed_ns(comm->endpoint, shard);
		if (is_knocked && !comm->is_driven)
			endpoint_knock(comm->endpoint, shard);
	}
	comm_unlock(comm);
	if (welcomed_ns <= seat->welcomed_ns)
		return;
	seat->welcomed_ns = welcomed_ns;
	membership_do(comm, seat, codec, &event);
}

static void look_at_silences(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	bool is_any = false;

	for (uint32_t i = 0; i < comm->membership->seats_count; i++)
		is_any |= is_knocked_at(&comm->membership->seats[i], now_ns);
	comm_lock(comm);
	comm->is_knocking = is_any;
	comm_unlock(comm);
	for (uint32_t i = 0; i < comm->membership->seats_count; i++)
		look_at_silence(comm, codec, &comm->membership->seats[i], now_ns);
}

/* ---- paths ---- */

/* For how long has it been heard by TCP as often as it should? */
static uint64_t regular_for_ns(struct seat *seat, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t from_ns = seat->regular_ns > since_ns ? seat->regular_ns : since_ns;

	return seat->regular_ns && now_ns > from_ns ? now_ns - from_ns : 0;
}

static void look_at_tcp(struct seat *seat, uint64_t now_ns)
{
	if (now_ns > seat->member.spoke_ns + ALIVE_MS * ns_per_ms)
		seat->regular_ns = 0;
	else if (!seat->regular_ns)
		seat->regular_ns = now_ns;
}

/* It answers nothing. The aggregator must have been heard by TCP all the while: else it is dead, or stopped, or the link
 * was down, and is just back. So long, because on an overloaded host its shard's thread alone may get no processor for
 * seconds. */
static bool is_blocked(struct seat *seat, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t least_ns = seat->member.heartbeat_ns;

	if (least_ns < BLOCKED_MS * ns_per_ms)
		least_ns = BLOCKED_MS * ns_per_ms;
	if (least_ns > BLOCKED_MS_MAX * ns_per_ms)
		least_ns = BLOCKED_MS_MAX * ns_per_ms;
	return now_ns >= since_ns + least_ns &&
	       regular_for_ns(seat, since_ns, now_ns) >= ALIVE_MS * ns_per_ms;
}

/* A path that carries nothing any more; or no packets of full size, while it still answers short ones. */
static bool find_lost(struct tally_comm *comm, struct seat *seat, uint64_t now_ns,
		      struct endpoint_path *path)
{
	for (uint32_t i = 0; i < seat->shards_count; i++)
		if (endpoint_path_lost(comm->endpoint, seat->shards_first + i, now_ns, path) &&
		    (path->is_short_heard || is_blocked(seat, path->since_ns, now_ns)))
			return true;
	return false;
}

static void look_at_paths(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	char text[CONTROL_TEXT_BYTES];
	struct member_event event = {
		.type = MEMBER_ERROR, .now_ns = now_ns, .cause = CONTROL_SYSTEM, .text = text
	};
	struct endpoint_path path;
	struct seat *seat = NULL;

	comm_lock(comm);
	for (uint32_t i = 0; i < comm->membership->seats_count && !seat; i++)
		if (find_lost(comm, &comm->membership->seats[i], now_ns, &path))
			seat = &comm->membership->seats[i];
	if (seat)
		paths_say_lost(comm, &path, now_ns - path.since_ns, text);
	comm_unlock(comm);
	if (seat)
		membership_do(comm, seat, codec, &event);
}

void late_look(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_STALLED, .now_ns = now_ns };
	bool is_shared;

	comm_lock(comm);
	is_shared = comm->host;
	comm_unlock(comm);
	comm->membership->look_ns = now_ns + LOOK_MS * ns_per_ms;
	for (uint32_t i = 0; i < comm->membership->seats_count; i++)
		look_at_tcp(&comm->membership->seats[i], now_ns);
	if (!is_shared) /* else nothing comes by UDP */
		look_at_silences(comm, codec, now_ns);
	if (comm->membership->seats[0].member.state != MEMBER_RUN)
		return;
	if (!is_shared)
		look_at_paths(comm, codec, now_ns);
	if (is_stalled(comm, now_ns, &event))
		membership_do(comm, &comm->membership->seats[0], codec, &event);
}

/* A rank that never calls is no failure, and nothing else tells of it. */
static void lone_say(struct tally_comm *comm, uint64_t now_ns)
{
	report_log(comm_named(comm), TALLY_LOG_WARN, "rank %u has not called tally_%s for %u ms",
		   comm->peer, comm->who.rank ? "send" : "recv",
		   ms_between(comm->held.first->submitted_ns, now_ns));
	comm->lone_ns = UINT64_MAX;
}

/* A pair that is not whole: no round can be about it. When to look again. Lock held. */
static uint64_t held_expire(struct tally_comm *comm, uint64_t now_ns)
{
	uint64_t first_ns = comm->held.first ? comm->lone_ns : UINT64_MAX;

	if (first_ns <= now_ns) {
		lone_say(comm, now_ns);
		first_ns = UINT64_MAX;
	}
	for (struct tally_work *work = comm->held.first; work; work = work->next) {
		if (work->deadline_ns && work->deadline_ns <= now_ns) {
			comm_break_alone(comm);
			return UINT64_MAX;
		}
		if (work->deadline_ns && work->deadline_ns < first_ns)
			first_ns = work->deadline_ns;
	}
	return first_ns;
}

/* R-CT-56: of all whose deadline is over the oldest, each second anew: its round may find that it ended
 * well, or be about another one. */
static bool find_expired(struct tally_comm *comm, uint64_t now_ns, struct member_event *event)
{
	struct expiry *expiry = &comm->membership->expiry;
	uint64_t first_ns;
	bool is_any = false, is_said = false;

	comm_lock(comm);
	first_ns = held_expire(comm, now_ns);
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

void late_expire(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	struct member_event event = { .type = MEMBER_EXPIRED, .now_ns = now_ns };

	if (find_expired(comm, now_ns, &event))
		membership_do(comm, &comm->membership->seats[0], codec, &event);
}
