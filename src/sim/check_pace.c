/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check_pace.h"

/* Is the round a chunk's first for sure? Only those wait for the window. */
static bool is_first_round(const struct worker *worker, enum map_stream stream,
			   const struct worker_slot *slot)
{
	const struct worker_op_state *op =
		&worker->stream[stream].ops[slot->op & (worker->ops_max - 1)];

	return wire_round_of(slot->flags) == WIRE_EXPONENT ||
	       (wire_round_of(slot->flags) == WIRE_DATA && !op->op.is_scaled);
}

static bool is_plain(const struct pace_slot *slot)
{
	return slot->in_window && !slot->copies && !slot->attempt;
}

/* Those in flight that went out before the newest first round, and were neither probed nor sent again: they
 * were in the window when that one entered it. */
static bool is_beyond_window(const struct worker *worker, const struct pace *pace, uint32_t shard,
			     enum map_stream stream, uint64_t order)
{
	const struct pace_slot *at = &pace->slot[(size_t)shard * pace->slots];
	const struct worker_slot *slot = &worker->slot[(size_t)shard * pace->slots];
	uint64_t newest = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < pace->slots; i++)
		if (at[i].stream == stream && is_plain(&at[i]) && at[i].order > newest &&
		    is_first_round(worker, stream, &slot[i]))
			newest = at[i].order;
	for (uint32_t i = 0; i < pace->slots; i++)
		count += at[i].stream == stream && is_plain(&at[i]) && at[i].order <= newest;
	return newest > order && count > pace->shards[shard].window[stream];
}

static const char *slot_wrong(const struct worker_slot *slot, const struct pace_slot *at)
{
	bool is_waiting = slot->state == WORKER_OUTSTANDING;

	if (!is_waiting && (at->list != PACE_NONE || at->in_window))
		return "R-PACE-5: a slot without a round has a timer, or is in flight";
	if (at->list == PACE_RING && at->in_window && at->copies < PACE_COPIES)
		return "R-PACE-5: what is held counts as in flight";
	return NULL;
}

/* A window that becomes smaller lets those stay that are out. */
static void note_windows(struct check_pace *check, const struct pace *pace)
{
	for (uint32_t shard = 0; shard < pace->map.shards; shard++) {
		const struct pace_shard *at = &pace->shards[shard];

		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++) {
			if (check->window[shard][stream] != at->window[stream])
				check->order[shard][stream] = at->order;
			check->window[shard][stream] = at->window[stream];
		}
	}
}

static const char *slots_wrong(const struct worker *worker, const struct pace *pace, uint32_t shard,
			       uint32_t *slot_at)
{
	const struct pace_shard *at = &pace->shards[shard];
	uint32_t in_flight[MAP_STREAMS] = { 0 }, lists[PACE_RING + 1] = { 0 };

	for (uint32_t i = 0; i < pace->slots; i++) {
		const struct pace_slot *slot = &pace->slot[(size_t)shard * pace->slots + i];
		const char *wrong =
			slot_wrong(&worker->slot[(size_t)shard * pace->slots + i], slot);

		*slot_at = i;
		if (wrong)
			return wrong;
		in_flight[slot->stream] += slot->in_window;
		lists[slot->list]++;
	}
	if (lists[PACE_FLIGHT] != at->flight[0].ends.count + at->flight[1].ends.count ||
	    lists[PACE_RING] != at->ring.count)
		return "R-PACE-3: a list does not have the slots that wait";
	if (lists[PACE_RING] && pace->ring_ns == PACE_NEVER)
		return "R-PACE-7: slots are held and no timer runs";
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
		if (in_flight[stream] != at->in_flight[stream])
			return "R-PACE-5: another number counts as in flight";
	return NULL;
}

/* R-PACE-2, computed again: with every back-off that there may be. */
static bool is_rto_wrong(const struct pace *pace, uint32_t shard)
{
	const struct pace_shard *at = &pace->shards[shard];
	uint64_t rto = pace_rto(pace, shard), least = 2 * at->srtt_ns, most = RTO_BACKOFF_NS;

	if (least < RTO_MIN_NS)
		least = RTO_MIN_NS;
	if (least > RTO_MAX_NS)
		least = RTO_MAX_NS;
	if (most < at->srtt_ns + 4 * at->rttvar_ns)
		most = at->srtt_ns + 4 * at->rttvar_ns;
	if (most < least)
		most = least;
	if (most > RTO_MAX_NS)
		most = RTO_MAX_NS;
	return rto < least || rto > most;
}

const char *check_pace(struct check_pace *check, const struct worker *worker,
		       const struct pace *pace, uint32_t *shard, uint32_t *slot)
{
	const char *wrong;

	note_windows(check, pace);
	if (check->calls++ % CHECK_PACE_EACH)
		return NULL;
	for (*shard = 0; *shard < pace->map.shards; ++*shard) {
		wrong = slots_wrong(worker, pace, *shard, slot);
		if (wrong)
			return wrong;
		if (is_rto_wrong(pace, *shard))
			return "R-PACE-2: a time-out out of its bounds";
		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			if (is_beyond_window(worker, pace, *shard, (enum map_stream)stream,
					     check->order[*shard][stream]))
				return "R-PACE-5: a first round goes out beyond the window";
	}
	return NULL;
}
