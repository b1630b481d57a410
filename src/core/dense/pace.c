/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - see pace.h. Rules R-PACE-1 to R-PACE-9, and R-PACE-11, of docs/protocol.md. */
#include "core/dense/pace.h"

enum { RING_RTOS = 4, HELLO_RTOS = 3, PATIENCE = 2 };

static struct pace_slot *slot_at(const struct pace *pace, uint32_t shard, uint32_t slot)
{
	return &pace->slot[(uint64_t)shard * pace->slots + slot];
}

/* The lists of a shard: doubly linked through its slots. */

static struct pace_list_ends *ends_of(struct pace_shard *shard, const struct pace_slot *slot)
{
	return slot->list == PACE_RING ? &shard->ring : &shard->flight[slot->stream].ends;
}

static void list_remove(struct pace *pace, uint32_t shard, struct pace_slot *slot)
{
	struct pace_list_ends *ends;

	if (slot->list == PACE_NONE)
		return;
	ends = ends_of(&pace->shards[shard], slot);
	if (slot->prev == PACE_END)
		ends->head = slot->next;
	else
		slot_at(pace, shard, slot->prev)->next = slot->next;
	if (slot->next == PACE_END)
		ends->tail = slot->prev;
	else
		slot_at(pace, shard, slot->next)->prev = slot->prev;
	ends->count--;
	slot->list = PACE_NONE;
}

static void list_append(struct pace *pace, uint32_t shard, uint32_t index, enum pace_list list)
{
	struct pace_slot *slot = slot_at(pace, shard, index);
	struct pace_list_ends *ends;

	CORE_ASSERT(slot->list == PACE_NONE);
	slot->list = (uint8_t)list;
	ends = ends_of(&pace->shards[shard], slot);
	slot->next = PACE_END;
	slot->prev = ends->tail;
	if (ends->tail == PACE_END)
		ends->head = index;
	else
		slot_at(pace, shard, ends->tail)->next = index;
	ends->tail = index;
	ends->count++;
}

void pace_init(struct pace *pace, const struct map *map, uint32_t slots, uint32_t window,
	       struct pace_shard *shards, struct pace_slot *slot)
{
	static const struct pace_list_ends empty = { PACE_END, PACE_END, 0 };

	*pace = (struct pace){
		.map = *map, .slots = slots, .shards = shards, .slot = slot, .ring_ns = PACE_NEVER
	};
	for (uint32_t i = 0; i < map->shards; i++) {
		shards[i] =
			(struct pace_shard){ .ring = empty,
					     .flight = { { .ends = empty }, { .ends = empty } } };
		pace_window(pace, i, MAP_EXPRESS, window);
		pace_window(pace, i, MAP_BULK, window);
	}
	for (uint64_t i = 0; i < (uint64_t)map->shards * slots; i++) {
		bool is_bulk = i % slots >= map->base[MAP_BULK];

		slot[i] = (struct pace_slot){ .stream = is_bulk ? MAP_BULK : MAP_EXPRESS };
	}
}

/* R-PACE-9: not more than the pool. */
void pace_window(struct pace *pace, uint32_t shard, enum map_stream stream, uint32_t window)
{
	uint32_t pool = pace->map.pool[stream];

	CORE_ASSERT(window);
	pace->shards[shard].window[stream] = window < pool ? window : pool;
	if (stream == MAP_BULK)
		pace->shards[shard].follow.most = 0;
}

/* R-WIN-1 */
void pace_follow(struct pace *pace)
{
	for (uint32_t shard = 0; shard < pace->map.shards; shard++)
		window_init(&pace->shards[shard].follow, pace->shards[shard].window[MAP_BULK]);
}

bool pace_has_room(const struct pace *pace, uint32_t shard, enum map_stream stream)
{
	const struct pace_shard *at = &pace->shards[shard];

	return at->in_flight[stream] < at->window[stream];
}

static void window_enter(struct pace_shard *shard, struct pace_slot *slot)
{
	shard->in_flight[slot->stream] += !slot->in_window;
	slot->in_window = 1;
}

static void window_leave(struct pace_shard *shard, struct pace_slot *slot)
{
	shard->in_flight[slot->stream] -= slot->in_window;
	slot->in_window = 0;
}

/* R-PACE-1: RFC 6298, one estimate per shard; a sample ends the back-off. */
void pace_sample(struct pace *pace, uint32_t shard, uint64_t rtt_ns)
{
	struct pace_shard *at = &pace->shards[shard];

	rto_estimate(&at->srtt_ns, &at->rttvar_ns, rtt_ns);
	at->backoff = 0;
	pace->stats.samples++;
}

static uint64_t rto_base(const struct pace_shard *shard)
{
	return rto_alone(shard->srtt_ns, shard->rttvar_ns);
}

uint64_t pace_rto(const struct pace *pace, uint32_t shard)
{
	const struct pace_shard *at = &pace->shards[shard];
	return rto_least(rto_base(at) << at->backoff, rto_most(rto_base(at), RTO_BACKOFF_NS));
}

/* R-PACE-11: will later results show what was lost of the pair (R-PACE-4)? */
static bool is_covered(const struct pace *pace, uint32_t shard, uint32_t stream)
{
	const struct pace_shard *at = &pace->shards[shard];

	return at->flight[stream].ends.count > PACE_GAP ||
	       (!pace_has_room(pace, shard, (enum map_stream)stream) && at->window[stream] > 1);
}

/* R-PACE-11: how long what is in flight of a pair may take. */
static uint64_t time_out(const struct pace *pace, uint32_t shard, uint32_t stream)
{
	uint64_t rto = pace_rto(pace, shard);

	if (stream != MAP_BULK || !is_covered(pace, shard, stream))
		return rto;
	return rto_most(rto, rto_least(PATIENCE * pace->shards[shard].longest_ns, RTO_BACKOFF_NS));
}

/* R-PACE-11: the longest of this span and the one before it. */
static void longest_learn(struct pace_shard *shard, uint64_t now_ns, uint64_t took_ns)
{
	if (now_ns - shard->span_ns >= PACE_SPAN_NS) {
		shard->longest_ns = shard->span_longest_ns;
		shard->span_longest_ns = 0;
		shard->span_ns = now_ns;
	}
	shard->span_longest_ns = rto_most(shard->span_longest_ns, took_ns);
	shard->longest_ns = rto_most(shard->longest_ns, took_ns);
}

/* R-PACE-3: since when the slot's time runs. */
static uint64_t waits_since(const struct pace *pace, const struct pace_shard *shard,
			    const struct pace_slot *slot)
{
	return pace->is_whole ? slot->attempt_ns : rto_most(slot->attempt_ns, shard->result_ns);
}

bool pace_is_idle(const struct pace_shard *shard)
{
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
		if (shard->flight[stream].ends.count)
			return false;
	return !shard->ring.count;
}

/* The ring's timer is one for the worker: the slowest shard sets its pace. */
static uint64_t ring_interval_first(const struct pace *pace)
{
	uint64_t rto = 0;

	for (uint32_t shard = 0; shard < pace->map.shards; shard++)
		if (pace->shards[shard].ring.count)
			rto = rto_most(rto, rto_base(&pace->shards[shard]));
	return rto_least(RING_RTOS * rto, PACE_RING_MAX_NS);
}

static uint32_t ring_count(const struct pace *pace)
{
	uint32_t count = 0;

	for (uint32_t shard = 0; shard < pace->map.shards; shard++)
		count += pace->shards[shard].ring.count;
	return count;
}

static void attempt(struct pace_shard *shard, struct pace_slot *slot, uint64_t now_ns)
{
	slot->attempt_ns = now_ns;
	slot->order = ++shard->order;
}

static void ring_enter(struct pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns)
{
	list_append(pace, shard, index, PACE_RING);
	if (pace->ring_ns == PACE_NEVER) {
		pace->ring_interval_ns = ring_interval_first(pace);
		pace->ring_ns = now_ns + pace->ring_interval_ns;
	}
}

void pace_sent(struct pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns, bool is_copy)
{
	struct pace_shard *at = &pace->shards[shard];
	struct pace_slot *slot = slot_at(pace, shard, index);

	if (pace_is_idle(at))
		at->heard_ns = now_ns; /* silence counts from the first attempt on */
	slot->by_gap = 0;
	if (!is_copy)
		slot->attempt = slot->copies = 0;
	else if (slot->copies < UINT8_MAX)
		slot->copies++;
	list_remove(pace, shard, slot);
	attempt(at, slot, now_ns);
	if (slot->copies < PACE_COPIES)
		list_append(pace, shard, index, PACE_FLIGHT);
	else
		ring_enter(pace, shard, index, now_ns);
	window_enter(at, slot);
}

void pace_heard(struct pace *pace, uint32_t shard, uint64_t now_ns)
{
	pace->shards[shard].heard_ns = now_ns;
}

/* R-PACE-4: the PACE_GAP largest orders among slots whose only UPDATE was answered. */
static void late_insert(struct pace_shard *shard, uint64_t order)
{
	for (uint32_t i = 0; i < PACE_GAP; i++) {
		uint64_t other = shard->late[i];

		if (order <= other)
			continue;
		shard->late[i] = order;
		order = other;
	}
}

/* R-PACE-2: the round trip is no longer than `took_ns`, so the back-off need not be either. */
static void bound(struct pace_shard *shard, uint64_t took_ns)
{
	while (shard->backoff && took_ns < rto_base(shard) << (shard->backoff - 1))
		shard->backoff--;
}

/* R-WIN-4: what came after it is here, nobody is waited for, and the answer is no older than the question. */
static bool is_result_lost(const struct pace_shard *shard, const struct pace_slot *slot,
			   uint64_t now_ns)
{
	return slot->by_gap && slot->list != PACE_RING &&
	       now_ns - slot->attempt_ns >= shard->follow.base_ns;
}

/* R-WIN-6: a quarter of it may wait to go as one message (R-PACE-5). */
static bool is_full(const struct pace_shard *shard)
{
	uint32_t window = shard->window[MAP_BULK];

	return shard->in_flight[MAP_BULK] >= window - window / 4;
}

/* R-WIN-2, R-WIN-4: before the slot leaves the window. */
static void follow(struct pace_shard *shard, const struct pace_slot *slot, uint64_t now_ns,
		   bool is_once, bool is_last)
{
	struct window *window = &shard->follow;

	if (!window->most || slot->stream != MAP_BULK)
		return;
	if (is_once && is_last)
		window_sample(window, now_ns - slot->attempt_ns);
	if (is_result_lost(shard, slot, now_ns))
		window_lost(window);
	window_answer(window, now_ns, is_once ? slot->order : 0, shard->order, is_full(shard));
	shard->window[MAP_BULK] = window_packets(window);
}

void pace_result(struct pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns, bool is_last)
{
	struct pace_shard *at = &pace->shards[shard];
	struct pace_slot *slot = slot_at(pace, shard, index);
	bool is_once = !slot->copies && !slot->attempt; /* Karn's rule */

	follow(at, slot, now_ns, is_once, is_last);
	if (is_once) {
		/* Waiting for others is no round trip: only the last contributor measures one. */
		if (is_last)
			pace_sample(pace, shard, now_ns - slot->attempt_ns);
		else
			bound(at, now_ns - slot->attempt_ns);
		late_insert(at, slot->order);
		if (slot->stream == MAP_BULK)
			longest_learn(at, now_ns, now_ns - slot->attempt_ns);
	}
	at->result_ns = now_ns;
	list_remove(pace, shard, slot);
	window_leave(at, slot);
	if (ring_count(pace)) {
		/* R-PACE-7: progress shortens the interval and never postpones a firing. */
		pace->ring_interval_ns = ring_interval_first(pace);
		pace->ring_ns = rto_least(pace->ring_ns, now_ns + pace->ring_interval_ns);
	} else {
		pace->ring_ns = PACE_NEVER;
	}
}

static void sample_echo(struct pace *pace, uint32_t shard, const struct pace_slot *slot,
			uint64_t now_ns, uint32_t echo)
{
	if (echo && echo == slot->attempt)
		pace_sample(pace, shard, now_ns - slot->attempt_ns);
}

void pace_held(struct pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns, uint32_t echo)
{
	struct pace_slot *slot = slot_at(pace, shard, index);

	sample_echo(pace, shard, slot, now_ns, echo);
	if (slot->list != PACE_FLIGHT)
		return;
	list_remove(pace, shard, slot);
	window_leave(&pace->shards[shard], slot);
	ring_enter(pace, shard, index, now_ns); /* R-WK-4: the result may be lost, too */
}

void pace_need(struct pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns, uint32_t echo)
{
	struct pace_slot *slot = slot_at(pace, shard, index);

	sample_echo(pace, shard, slot, now_ns, echo);
	pace->shards[shard].need_ns = now_ns;
	if (echo && echo == slot->attempt && slot->stream == MAP_BULK)
		window_lost(&pace->shards[shard].follow);
}

/* R-PACE-3: no NEED has said since the slot's last attempt that something was lost. */
static bool is_in_doubt(const struct pace *pace, const struct pace_shard *shard,
			const struct pace_slot *slot)
{
	return !pace->is_whole && shard->need_ns <= slot->attempt_ns;
}

/* The head of a list is probed: its attempt is the newest, it goes to the tail (R-PACE-7: without
 * rotation a tree may wait for ever) and, unless it has run out in doubt, no longer counts against the window
 * (R-PACE-5). */
static void probe_head(struct pace *pace, uint32_t shard, const struct pace_list_ends *ends,
		       uint64_t now_ns, struct pace_probe *probe)
{
	struct pace_shard *at = &pace->shards[shard];
	uint32_t index = ends->head;
	struct pace_slot *slot = slot_at(pace, shard, index);
	enum pace_list list = (enum pace_list)slot->list;

	if (list == PACE_RING || slot->by_gap || !is_in_doubt(pace, at, slot))
		window_leave(at, slot);
	attempt(at, slot, now_ns);
	slot->attempt = ++at->attempts ? at->attempts : ++at->attempts; /* 0 says "no attempt" */
	list_remove(pace, shard, slot);
	list_append(pace, shard, index, list);
	*probe = (struct pace_probe){ .shard = shard, .slot = index, .attempt = slot->attempt };
}

/* R-PACE-4: a round trip, and up to 1 ms in which whoever has lost the packet may mend it alone. */
static uint64_t gap_ns(const struct pace_shard *shard)
{
	return shard->srtt_ns + rto_least(shard->srtt_ns, RTO_MIN_NS);
}

/* R-PACE-4: results of three later slots have come, and so much time has passed since the last attempt. */
static bool is_gap(const struct pace_shard *shard, const struct pace_slot *slot, uint64_t now_ns)
{
	return shard->srtt_ns && shard->late[PACE_GAP - 1] > slot->order &&
	       now_ns - slot->attempt_ns >= gap_ns(shard);
}

static void back_off(struct pace *pace, uint32_t shard, uint64_t now_ns)
{
	struct pace_shard *at = &pace->shards[shard];

	if (at->backoff >= RTO_BACKOFF_MAX || now_ns - at->backoff_ns < pace_rto(pace, shard))
		return; /* a whole window that runs out at once is one event */
	at->backoff++;
	at->backoff_ns = now_ns;
}

/* R-PACE-3: may another slot of a pair in doubt be probed? Most likely nothing is lost. Its thread has not had the
 * processor: it will find all that was sent, and should not find as many PROBEs. Or its answers wait in a queue, and
 * every PROBE of a complete sum draws another one into it. */
static bool quiet_take(struct pace_flight *flight, uint64_t now_ns, uint64_t limit)
{
	if (!flight->quiet_due) {
		if (flight->quiet_ns && now_ns - flight->quiet_ns < limit)
			return false;
		flight->quiet_ns = now_ns;
		flight->quiet_due = (flight->ends.count + PACE_QUIET_PART - 1) / PACE_QUIET_PART;
		if (flight->quiet_due < PACE_QUIET_MIN)
			flight->quiet_due = PACE_QUIET_MIN;
	}
	flight->quiet_due--;
	return true;
}

/* Of what is in flight of a pair. */
static uint32_t poll_flight(struct pace *pace, uint32_t shard, uint32_t stream, uint64_t now_ns,
			    struct pace_probe *probes, uint32_t max)
{
	struct pace_shard *at = &pace->shards[shard];
	struct pace_flight *flight = &at->flight[stream];
	uint64_t limit = time_out(pace, shard, stream);
	uint32_t count = 0;

	while (count < max && flight->ends.count) {
		struct pace_slot *slot = slot_at(pace, shard, flight->ends.head);
		bool gap = is_gap(at, slot, now_ns);

		if (!gap && now_ns - waits_since(pace, at, slot) < limit) {
			flight->quiet_due = 0;
			break;
		}
		if (!gap && is_in_doubt(pace, at, slot) && !quiet_take(flight, now_ns, limit))
			break;
		if (!gap)
			back_off(pace, shard, now_ns);
		pace->stats.probes_gap += gap;
		pace->stats.probes_rto += !gap;
		slot->by_gap = gap;
		probe_head(pace, shard, &flight->ends, now_ns, &probes[count++]);
	}
	return count;
}

static uint32_t poll_ring(struct pace *pace, uint32_t shard, uint64_t now_ns,
			  struct pace_probe *probes, uint32_t max)
{
	struct pace_shard *at = &pace->shards[shard];
	uint32_t count = 0;

	while (count < max && at->ring.count) {
		const struct pace_slot *slot = slot_at(pace, shard, at->ring.head);
		bool gap = is_gap(at, slot, now_ns);

		/* R-PACE-7: nobody is asked for twice in an RTO. */
		if (now_ns - slot->attempt_ns < rto_base(at))
			at->ring_due = 0;
		if (!gap && !at->ring_due)
			break;
		if (!gap)
			at->ring_due--;
		pace->stats.probes_gap += gap;
		pace->stats.probes_ring += !gap;
		probe_head(pace, shard, &at->ring, now_ns, &probes[count++]);
	}
	return count;
}

/* What a firing after `interval_ns` probes: a sixteenth of the ring, or 250 a second if that is more. The
 * number has no divisor in common with the ring's: a queue on the way that is shorter than the burst
 * drops its end every time, so every slot must take its turn at every place in it. */
static uint32_t ring_part(uint32_t count, uint64_t interval_ns)
{
	uint32_t part = (count + PACE_RING_PART - 1) / PACE_RING_PART;

	if (part < interval_ns / PACE_RING_PROBE_NS)
		part = (uint32_t)(interval_ns / PACE_RING_PROBE_NS);
	if (part >= count)
		return count > 1 ? count - 1 : count;
	for (;; part++) {
		uint32_t a = count, b = part;

		while (b) {
			uint32_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			return part;
	}
}

/* R-PACE-7: so many PROBEs a second as after 250 ms, but no more at once than a shallow queue takes. */
static uint64_t ring_interval_max(const struct pace *pace)
{
	for (uint32_t shard = 0; shard < pace->map.shards; shard++)
		if (pace->shards[shard].ring.count > PACE_RING_BURST)
			return PACE_RING_BURST * (uint64_t)PACE_RING_PROBE_NS;
	return PACE_RING_MAX_NS;
}

/* Up to a quarter of the interval, by the noise in the clock: workers that began to wait at the same
 * result would else meet in the same queue for ever. */
static uint64_t ring_jitter(const struct pace *pace, uint64_t now_ns)
{
	uint64_t noise = (now_ns * 0x9e3779b97f4a7c15) >> 32;

	return noise % (pace->ring_interval_ns / 4 + 1);
}

/* R-PACE-7: one timer for the ring; a firing probes a part of it, and the next comes later. */
static void ring_fire(struct pace *pace, uint64_t now_ns)
{
	if (now_ns < pace->ring_ns)
		return;
	if (!ring_count(pace)) {
		pace->ring_ns = PACE_NEVER;
		return;
	}
	for (uint32_t shard = 0; shard < pace->map.shards; shard++) {
		struct pace_shard *at = &pace->shards[shard];

		at->ring_due = ring_part(at->ring.count, pace->ring_interval_ns);
	}
	pace->turn++;
	pace->ring_interval_ns = rto_least(2 * pace->ring_interval_ns, ring_interval_max(pace));
	pace->ring_ns = now_ns + pace->ring_interval_ns - ring_jitter(pace, now_ns);
}

uint32_t pace_poll(struct pace *pace, uint64_t now_ns, struct pace_probe *probes, uint32_t max)
{
	uint32_t count = 0;

	ring_fire(pace, now_ns);
	for (uint32_t i = 0; i < pace->map.shards; i++) {
		uint32_t shard = (pace->turn + i) % pace->map.shards;

		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			count += poll_flight(pace, shard, stream, now_ns, probes + count,
					     max - count);
		count += poll_ring(pace, shard, now_ns, probes + count, max - count);
	}
	return count;
}

/* R-PACE-8 */
bool pace_hello_due(struct pace *pace, uint32_t shard, uint64_t now_ns)
{
	struct pace_shard *at = &pace->shards[shard];

	if (pace_is_idle(at))
		return false;
	if (now_ns - at->heard_ns < HELLO_RTOS * rto_base(at) ||
	    now_ns - at->hello_ns < PACE_HELLO_MIN_NS)
		return false;
	at->hello_ns = now_ns;
	return true;
}

/* When a list's head will be due for a gap, if nothing comes. */
static uint64_t gap_due(const struct pace *pace, uint32_t shard, const struct pace_list_ends *ends)
{
	const struct pace_shard *at = &pace->shards[shard];
	const struct pace_slot *slot;

	if (!ends->count)
		return PACE_NEVER;
	slot = slot_at(pace, shard, ends->head);
	return at->srtt_ns && at->late[PACE_GAP - 1] > slot->order ? slot->attempt_ns + gap_ns(at)
								   : PACE_NEVER;
}

/* When the head of what is in flight will be probed: in doubt it takes its turn, unless there is a gap. */
static uint64_t flight_due(const struct pace *pace, uint32_t shard, uint32_t stream)
{
	const struct pace_shard *at = &pace->shards[shard];
	const struct pace_flight *flight = &at->flight[stream];
	uint64_t limit = time_out(pace, shard, stream), due;
	const struct pace_slot *slot;

	if (!flight->ends.count)
		return PACE_NEVER;
	slot = slot_at(pace, shard, flight->ends.head);
	due = waits_since(pace, at, slot) + limit;
	if (flight->quiet_ns && !flight->quiet_due && is_in_doubt(pace, at, slot))
		due = rto_most(due, flight->quiet_ns + limit);
	return rto_least(due, gap_due(pace, shard, &flight->ends));
}

uint64_t pace_next(const struct pace *pace, uint64_t now_ns)
{
	uint64_t next = pace->ring_ns;

	for (uint32_t shard = 0; shard < pace->map.shards; shard++) {
		const struct pace_shard *at = &pace->shards[shard];

		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			next = rto_least(next, flight_due(pace, shard, stream));
		next = rto_least(next, gap_due(pace, shard, &at->ring));
	}
	return rto_most(next, now_ns);
}
