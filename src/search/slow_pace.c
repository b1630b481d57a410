/* SPDX-License-Identifier: Apache-2.0 */
/* slow_pace.c - see slow_pace.h. */
#include "search/slow_pace.h"

#define MS_NS UINT64_C(1000000)

enum { NOBODY = UINT32_MAX };

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a < b ? b : a;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return b < a ? b : a;
}

/* ---- who waits ---- */

static uint32_t waiting(const struct slow_pace *pace, uint32_t shard, bool is_held)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pace->slots; i++)
		count += pace->slot[shard][i].is_waiting && pace->slot[shard][i].is_held == is_held;
	return count;
}

static uint32_t first(const struct slow_pace *pace, uint32_t shard, bool is_held)
{
	uint32_t found = NOBODY;

	for (uint32_t i = 0; i < pace->slots; i++)
		if (pace->slot[shard][i].is_waiting && pace->slot[shard][i].is_held == is_held &&
		    (found == NOBODY || pace->slot[shard][i].rank < pace->slot[shard][found].rank))
			found = i;
	return found;
}

static bool is_anybody_held(const struct slow_pace *pace)
{
	for (uint32_t shard = 0; shard < pace->shards; shard++)
		if (waiting(pace, shard, true))
			return true;
	return false;
}

bool slow_pace_has_room(const struct slow_pace *pace, uint32_t shard, enum map_stream stream)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pace->slots; i++)
		count += pace->slot[shard][i].is_in_window &&
			 pace->slot[shard][i].is_bulk == (stream == MAP_BULK);
	return count < pace->shard[shard].window[stream];
}

/* ---- R-PACE-1, R-PACE-2 ---- */

/* By so many eighths or quarters of the way from `from` to `to`, downwards where it is none. */
static uint64_t part_of_way(uint64_t from, uint64_t to, int64_t parts)
{
	int64_t way = (int64_t)(to - from);
	int64_t step = way / parts - (way % parts < 0);

	return from + (uint64_t)step;
}

void slow_pace_sample(struct slow_pace *pace, uint32_t shard, uint64_t rtt_ns)
{
	struct slow_pace_shard *at = &pace->shard[shard];

	if (at->srtt_ns == 0) {
		at->srtt_ns = rtt_ns;
		at->rttvar_ns = rtt_ns / 2;
	} else {
		int64_t off = (int64_t)(at->srtt_ns - rtt_ns);

		at->rttvar_ns = part_of_way(at->rttvar_ns, (uint64_t)(off < 0 ? -off : off), 4);
		at->srtt_ns = part_of_way(at->srtt_ns, rtt_ns, 8);
	}
	if (at->srtt_ns == 0) /* that would say "none yet" */
		at->srtt_ns = 1;
	at->doublings = 0;
	pace->samples++;
}

static uint64_t rto_bare(const struct slow_pace_shard *at)
{
	uint64_t rto = at->srtt_ns + at->rttvar_ns * 4;

	if (!at->srtt_ns)
		return 100 * MS_NS;
	return smaller(larger(larger(rto, at->srtt_ns * 2), MS_NS), 2000 * MS_NS);
}

uint64_t slow_pace_rto(const struct slow_pace *pace, uint32_t shard)
{
	const struct slow_pace_shard *at = &pace->shard[shard];
	uint64_t rto = rto_bare(at), most = larger(rto, 250 * MS_NS);

	for (uint32_t i = 0; i < at->doublings && rto < most; i++)
		rto = smaller(rto * 2, most);
	return rto;
}

/* ---- what comes and goes ---- */

static uint64_t interval_first(const struct slow_pace *pace)
{
	uint64_t interval = 0;

	for (uint32_t shard = 0; shard < pace->shards; shard++)
		if (waiting(pace, shard, true))
			interval = larger(interval, 4 * rto_bare(&pace->shard[shard]));
	return smaller(interval, 250 * MS_NS);
}

static void hold(struct slow_pace *pace, struct slow_pace_slot *slot, uint64_t now_ns)
{
	slot->is_held = true;
	slot->rank = ++pace->ranks;
	if (pace->is_ringing)
		return;
	pace->is_ringing = true;
	pace->interval_ns = interval_first(pace);
	pace->ring_ns = now_ns + pace->interval_ns;
}

void slow_pace_sent(struct slow_pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns,
		    bool is_copy)
{
	struct slow_pace_slot *slot = &pace->slot[shard][index];
	struct slow_pace_shard *at = &pace->shard[shard];

	if (first(pace, shard, false) == NOBODY && first(pace, shard, true) == NOBODY)
		at->heard_ns = now_ns;
	if (!is_copy)
		slot->copies = slot->number = 0;
	else
		slot->copies++;
	slot->attempt_ns = now_ns;
	slot->order = ++at->orders;
	slot->is_in_window = slot->is_waiting = true;
	slot->is_held = false;
	slot->rank = ++pace->ranks;
	if (slot->copies >= 4) /* sent five times */
		hold(pace, slot, now_ns);
}

/* Whoever was last, the round trip is shorter than that: the fewest doublings that are longer. */
static void shorten(struct slow_pace_shard *at, uint64_t took_ns)
{
	uint32_t enough = 0;

	while (enough < at->doublings && rto_bare(at) * ((uint64_t)1 << enough) <= took_ns)
		enough++;
	at->doublings = enough;
}

void slow_pace_result(struct slow_pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns,
		      bool is_last)
{
	struct slow_pace_slot *slot = &pace->slot[shard][index];

	if (slot->copies == 0 && slot->number == 0) {
		if (is_last)
			slow_pace_sample(pace, shard, now_ns - slot->attempt_ns);
		else
			shorten(&pace->shard[shard], now_ns - slot->attempt_ns);
		pace->shard[shard].plain[slot->order / 8] |= (uint8_t)(1 << slot->order % 8);
	}
	slot->is_waiting = slot->is_held = slot->is_in_window = false;
	if (!is_anybody_held(pace)) {
		pace->is_ringing = false;
		return;
	}
	pace->interval_ns = interval_first(pace);
	pace->ring_ns = pace->is_ringing ? smaller(pace->ring_ns, now_ns + pace->interval_ns)
					 : now_ns + pace->interval_ns;
	pace->is_ringing = true;
}

void slow_pace_asked(struct slow_pace *pace, uint32_t shard, uint32_t index, uint64_t now_ns,
		     uint32_t echo, bool is_held)
{
	struct slow_pace_slot *slot = &pace->slot[shard][index];

	if (pace->is_latency ? slot->copies == 1 : echo && echo == slot->number)
		slow_pace_sample(pace, shard, now_ns - slot->attempt_ns);
	if (!is_held || slot->is_held)
		return;
	slot->is_in_window = false;
	hold(pace, slot, now_ns);
}

/* ---- R-PACE-3, R-PACE-4, R-PACE-7 ---- */

/* The results of three later ones have come. */
static bool is_overtaken(const struct slow_pace_shard *at, const struct slow_pace_slot *slot)
{
	uint32_t later = 0;

	for (uint32_t order = slot->order + 1; order <= at->orders; order++)
		later += at->plain[order / 8] >> order % 8 & 1;
	return at->srtt_ns && later >= 3;
}

static bool is_gap(const struct slow_pace_shard *at, const struct slow_pace_slot *slot,
		   uint64_t now_ns)
{
	return is_overtaken(at, slot) && now_ns >= slot->attempt_ns + at->srtt_ns;
}

static bool is_silent(const struct slow_pace *pace, uint32_t shard,
		      const struct slow_pace_slot *slot)
{
	/* Or it answers, and twice in a row not in time. */
	return !pace->is_latency && (pace->shard[shard].heard_ns <= slot->attempt_ns ||
				     pace->shard[shard].doublings >= 2);
}

static struct pace_probe probe(struct slow_pace *pace, uint32_t shard, uint32_t index,
			       uint64_t now_ns)
{
	struct slow_pace_slot *slot = &pace->slot[shard][index];
	struct slow_pace_shard *at = &pace->shard[shard];

	if (slot->is_held || !is_silent(pace, shard, slot))
		slot->is_in_window = false;
	slot->attempt_ns = now_ns;
	slot->order = ++at->orders;
	if (++at->numbers == 0)
		at->numbers = 1;
	slot->number = at->numbers;
	slot->rank = ++pace->ranks;
	return (struct pace_probe){ .shard = shard, .slot = index, .attempt = slot->number };
}

/* A silent shard's share of PROBEs: false if it is used up. */
static bool silent_share(struct slow_pace *pace, uint32_t shard, uint64_t now_ns, uint64_t rto)
{
	struct slow_pace_shard *at = &pace->shard[shard];

	if (at->quiet_left == 0) {
		if (at->quiet_ns && now_ns < at->quiet_ns + rto)
			return false;
		at->quiet_ns = now_ns;
		at->quiet_left = (uint32_t)larger(8, (waiting(pace, shard, false) + 15) / 16);
	}
	at->quiet_left--;
	return true;
}

static uint32_t poll_flight(struct slow_pace *pace, uint32_t shard, uint64_t now_ns,
			    struct pace_probe *probes, uint32_t max)
{
	struct slow_pace_shard *at = &pace->shard[shard];
	uint64_t rto = slow_pace_rto(pace, shard);
	uint32_t count = 0;

	while (count < max) {
		uint32_t index = first(pace, shard, false);
		const struct slow_pace_slot *slot = &pace->slot[shard][index % SLOW_PACE_SLOTS];

		if (index == NOBODY)
			return count;
		if (!is_gap(at, slot, now_ns)) {
			if (now_ns < slot->attempt_ns + rto) {
				at->quiet_left = 0;
				return count;
			}
			if (is_silent(pace, shard, slot) && !silent_share(pace, shard, now_ns, rto))
				return count;
			/* Once in an RTO, as that is by now. */
			if (at->doublings < 16 &&
			    now_ns >= at->doubled_ns + slow_pace_rto(pace, shard)) {
				at->doublings++;
				at->doubled_ns = now_ns;
			}
		}
		probes[count++] = probe(pace, shard, index, now_ns);
	}
	return count;
}

static uint32_t poll_ring(struct slow_pace *pace, uint32_t shard, uint64_t now_ns,
			  struct pace_probe *probes, uint32_t max)
{
	struct slow_pace_shard *at = &pace->shard[shard];
	uint32_t count = 0;

	while (count < max) {
		uint32_t index = first(pace, shard, true);

		if (index == NOBODY)
			return count;
		if (now_ns < pace->slot[shard][index].attempt_ns + rto_bare(at))
			at->ring_left = 0; /* too early to ask again */
		if (!is_gap(at, &pace->slot[shard][index], now_ns)) {
			if (!at->ring_left)
				return count;
			at->ring_left--;
		}
		probes[count++] = probe(pace, shard, index, now_ns);
	}
	return count;
}

static bool has_common_divisor(uint32_t a, uint32_t b)
{
	for (uint32_t i = 2; i <= a && i <= b; i++)
		if (a % i == 0 && b % i == 0)
			return true;
	return false;
}

static uint32_t ring_part(uint32_t count, uint64_t interval_ns)
{
	uint32_t part = (uint32_t)larger((count + 15) / 16, interval_ns / (4 * MS_NS));

	if (count < 2)
		return count;
	while (part < count && has_common_divisor(count, part))
		part++;
	return part < count ? part : count - 1;
}

static const char *ring(struct slow_pace *pace, uint64_t now_ns, uint64_t ring_ns)
{
	uint64_t most = 250 * MS_NS;

	if (!pace->is_ringing || now_ns < pace->ring_ns)
		return NULL;
	pace->is_ringing = is_anybody_held(pace);
	if (!pace->is_ringing)
		return NULL;
	pace->firings++;
	for (uint32_t shard = 0; shard < pace->shards; shard++) {
		uint32_t count = waiting(pace, shard, true);

		pace->shard[shard].ring_left = ring_part(count, pace->interval_ns);
		if (count > 16)
			most = 64 * MS_NS;
	}
	pace->interval_ns = smaller(2 * pace->interval_ns, most);
	pace->ring_ns = ring_ns;
	if (ring_ns > now_ns + pace->interval_ns ||
	    ring_ns < now_ns + pace->interval_ns - pace->interval_ns / 4)
		return "R-PACE-7: the ring's next firing is too early, or too late";
	return NULL;
}

static const char *poll_all(struct slow_pace *pace, uint64_t now_ns, uint64_t ring_ns,
			    struct pace_probe *probes, uint32_t *count, uint32_t max)
{
	const char *wrong = ring(pace, now_ns, ring_ns);

	*count = 0;
	for (uint32_t i = 0; i < pace->shards; i++) {
		uint32_t shard = (pace->firings + i) % pace->shards;

		*count += poll_flight(pace, shard, now_ns, probes + *count, max - *count);
		*count += poll_ring(pace, shard, now_ns, probes + *count, max - *count);
	}
	return wrong;
}

/* R-LAT-18 */
static uint64_t part_ns(const struct slow_pace *pace)
{
	return slow_pace_rto(pace, 0) / 8;
}

const char *slow_pace_poll(struct slow_pace *pace, uint64_t now_ns, uint64_t ring_ns,
			   struct pace_probe *probes, uint32_t *count, uint32_t max)
{
	const char *wrong;

	if (!pace->is_latency)
		return poll_all(pace, now_ns, ring_ns, probes, count, max);
	if (now_ns >= pace->burst_ns + part_ns(pace)) {
		pace->burst_ns = now_ns;
		pace->burst = 0;
	}
	wrong = poll_all(pace, now_ns, ring_ns, probes, count,
			 (uint32_t)smaller(max, 64 - pace->burst));
	pace->burst += *count;
	for (uint32_t i = 0; i < *count; i++)
		pace->slot[0][probes[i].slot].copies++;
	return wrong;
}

/* ---- R-PACE-8, and when something is due ---- */

bool slow_pace_hello_due(struct slow_pace *pace, uint32_t shard, uint64_t now_ns)
{
	struct slow_pace_shard *at = &pace->shard[shard];
	bool is_due = waiting(pace, shard, false) + waiting(pace, shard, true) &&
		      now_ns >= at->heard_ns + 3 * rto_bare(at) &&
		      now_ns >= at->hello_ns + 250 * MS_NS;

	if (is_due)
		at->hello_ns = now_ns;
	return is_due;
}

static uint64_t shard_next(const struct slow_pace *pace, uint32_t shard)
{
	const struct slow_pace_shard *at = &pace->shard[shard];
	uint32_t out = first(pace, shard, false), held = first(pace, shard, true);
	uint64_t rto = slow_pace_rto(pace, shard), next = PACE_NEVER, due;

	if (out != NOBODY) {
		const struct slow_pace_slot *slot = &pace->slot[shard][out];

		due = slot->attempt_ns + rto;
		/* A silent shard's next share. */
		if (is_silent(pace, shard, slot) && at->quiet_ns && !at->quiet_left)
			due = larger(due, at->quiet_ns + rto);
		/* Silence does not make a gap wait. */
		if (is_overtaken(at, slot))
			due = smaller(due, slot->attempt_ns + at->srtt_ns);
		next = due;
	}
	if (held != NOBODY && is_overtaken(at, &pace->slot[shard][held]))
		next = smaller(next, pace->slot[shard][held].attempt_ns + at->srtt_ns);
	return next;
}

uint64_t slow_pace_next(const struct slow_pace *pace, uint64_t now_ns)
{
	uint64_t next = pace->is_ringing ? pace->ring_ns : PACE_NEVER;

	for (uint32_t shard = 0; shard < pace->shards; shard++)
		next = smaller(next, shard_next(pace, shard));
	next = larger(next, now_ns);
	if (!pace->is_latency || pace->burst < 64 || next == PACE_NEVER)
		return next;
	return larger(pace->burst_ns + part_ns(pace), now_ns);
}
