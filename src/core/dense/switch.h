/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch.h - the switch program, written once. Restricted C: inline functions, loops bounded by
 * constants, integers only; no calls out, no allocation, no globals. The same text is compiled
 * into the daemon, the simulator, the search and the XDP object. docs/protocol.md, R-SW-1 to
 * R-SW-14.
 *
 * A slot sums one round at a time, seq 1, 2, 3, ... over all tensors. It has two copies: copy (seq
 * & 1) collects the round `phase`; the other, the shadow, still answers for phase - 1, and is
 * always final. A child sends seq only after it has accepted seq - 1, so two copies are enough, on
 * any network that may lose, double, reorder and delay.
 *
 * A tree node is a switch whose job has a parent: what it completes it sends up as an UPDATE, and
 * what the parent answers it hands down.
 */
#ifndef CORE_SWITCH_H
#define CORE_SWITCH_H

#include "core/shared/wire.h"

/* The most lanes that a build of this program sums: 360 for the XDP object. */
#ifndef SWITCH_LANES_MAX
#define SWITCH_LANES_MAX WIRE_LANES_MAX
#endif

enum {
	SWITCH_CHILDREN_MAX = 256,
	SWITCH_JOBS_MAX = 1024,
	SWITCH_BITMAP_WORDS = SWITCH_CHILDREN_MAX / 64,
	SWITCH_FLAGS_KEPT = WIRE_KIND_MASK |
			    WIRE_STICKY_MASK, /* of a round: not the packet's own */
};

/* Which machine serves a job: this file's, or one of the two forms of switch_latency.h. */
enum switch_mode { SWITCH_DENSE, SWITCH_LATENCY, SWITCH_LATENCY_ACKNOWLEDGED };

/* What the engine is told of a job; constant while the job is enabled. */
struct switch_job {
	uint32_t generation; /* 0: no such job */
	uint32_t slots;      /* valid slots are 0..slots-1 */
	uint16_t index;      /* of this job at this switch: goes into what the children get */
	uint16_t children;   /* 1..SWITCH_CHILDREN_MAX */
	uint16_t lanes;      /* START's: the most that an UPDATE may carry */
	uint8_t enabled;
	uint8_t mode; /* enum switch_mode: the engine asks the machine that it names */
	uint8_t has_parent;
	uint8_t reserved[3];
	uint16_t parent_job;                /* the job's index at the parent */
	uint16_t parent_child;              /* this node's child index at the parent */
	uint64_t full[SWITCH_BITMAP_WORDS]; /* one bit per child: see switch_job_fill */
};

/* What belongs to one round; a RESULT answers with the fields of its own copy (R-SW-3). */
struct switch_copy {
	uint32_t tag;
	uint16_t lanes;
	uint16_t exponent;
	uint16_t last; /* the child that contributed last */
	uint8_t flags; /* bits 0-3 of the round, sticky bits OR-ed */
	uint8_t reserved;
};

struct switch_slot {
	uint32_t generation; /* 0 in a new slot: fits no packet */
	uint32_t phase;      /* the round that collects, or is complete */
	uint32_t final;      /* the copy of `phase` holds the result over all workers */
	uint32_t reserved;
	uint64_t bitmap[SWITCH_BITMAP_WORDS]; /* children whose UPDATE of `phase` is in the sum */
	uint64_t bare[SWITCH_BITMAP_WORDS];   /* those of them that want no lanes back (R-SW-15) */
	struct switch_copy copy[2];
};

/* What is to be done with a packet. For the answering verdicts *packet has become the header of the
 * answer; its lanes, if packet->lanes is not 0, are those of its copy. */
enum switch_verdict {
	SWITCH_ABSORB,    /* added: nothing to send */
	SWITCH_REPLY,     /* RESULT, HELD or NEED to the sender alone */
	SWITCH_MULTICAST, /* RESULT to every child; a header will do for those in `bare` */
	SWITCH_UP,        /* UPDATE to the parent */
	SWITCH_HELD_UP,   /* HELD to the sender and PROBE (switch_probe_up) to the parent */
	SWITCH_MISMATCH,  /* the sender's round is another one than its siblings'; slot untouched */
	SWITCH_DROP,      /* this and all that follow: drop and count by reason */
	SWITCH_DROP_TYPE = SWITCH_DROP,
	SWITCH_DROP_JOB,        /* unknown or disabled */
	SWITCH_DROP_GENERATION, /* of another life of the job */
	SWITCH_DROP_CHILD,      /* index out of range */
	SWITCH_DROP_SLOT,       /* index out of range */
	SWITCH_DROP_LANES,      /* more than START's */
	SWITCH_DROP_ADDRESS,    /* not from the address bound to that child (the engine's check) */
	SWITCH_DROP_STALE, /* a round that nobody waits for any more, or a slot of an older life */
	SWITCH_DROP_ALARM, /* a worker is broken, or the packet is more than 2^31 rounds late */
	SWITCH_VERDICT_COUNT
};

/* switch_job_fill sets the full mask of a job of `children` children. */
CORE_INLINE void switch_job_fill(struct switch_job *job, uint32_t children)
{
	job->children = (uint16_t)children;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++) {
		uint32_t below = word * 64;
		uint32_t bits = children > below ? children - below : 0;
		job->full[word] = bits >= 64 ? ~0ull : (1ull << bits) - 1;
	}
}

/* Which half of a slot's sums an answer's lanes come from. */
CORE_INLINE uint32_t switch_copy_of(uint32_t seq)
{
	return seq & 1;
}

/* Sets of children: SWITCH_BITMAP_WORDS words. The modulo changes nothing for an admitted child; it
 * is the bound that the verifier sees. */
CORE_INLINE int switch_set_has(const uint64_t *set, uint32_t child)
{
	return (int)(set[child / 64 % SWITCH_BITMAP_WORDS] >> (child % 64) & 1);
}

CORE_INLINE void switch_set_put(uint64_t *set, uint32_t child)
{
	set[child / 64 % SWITCH_BITMAP_WORDS] |= 1ull << (child % 64);
}

CORE_INLINE int switch_set_is_full(const struct switch_job *job, const uint64_t *set)
{
	uint64_t missing = 0;

	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		missing |= job->full[word] & ~set[word];
	return missing == 0;
}

CORE_INLINE int switch_bitmap_has(const struct switch_slot *slot, uint32_t child)
{
	return switch_set_has(slot->bitmap, child);
}

/* The packet's child is in. */
CORE_INLINE void switch_child_in(struct switch_slot *slot, const struct wire *packet)
{
	switch_set_put(slot->bitmap, packet->child);
	if (packet->flags & WIRE_BARE)
		switch_set_put(slot->bare, packet->child);
}

CORE_INLINE int switch_bitmap_full(const struct switch_job *job, const struct switch_slot *slot)
{
	return switch_set_is_full(job, slot->bitmap);
}

/* A copy's lanes are assigned by a phase's first packet and combined by the others. Two loops with
 * nothing else in them: compilers make vectors of them, the verifier a straight line. */
CORE_INLINE void switch_assign(int32_t *sum, const int32_t *lane, uint32_t lanes, const void *end)
{
	if (lanes > SWITCH_LANES_MAX)
		lanes = SWITCH_LANES_MAX;
	for (uint32_t i = 0; i < lanes && CORE_IN_REACH(lane + i, end); i++)
		sum[i] = lane[i];
}

/* R-NUM-7: integers, so in whatever order they come. */
CORE_INLINE void switch_add(int32_t *sum, const int32_t *lane, uint32_t lanes, const void *end)
{
	if (lanes > SWITCH_LANES_MAX)
		lanes = SWITCH_LANES_MAX;
	for (uint32_t i = 0; i < lanes && CORE_IN_REACH(lane + i, end); i++)
		sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane[i]);
}

CORE_INLINE void switch_max(int32_t *sum, const int32_t *lane, uint32_t lanes, const void *end)
{
	if (lanes > SWITCH_LANES_MAX)
		lanes = SWITCH_LANES_MAX;
	for (uint32_t i = 0; i < lanes && CORE_IN_REACH(lane + i, end); i++)
		sum[i] = lane[i] > sum[i] ? lane[i] : sum[i];
}

/* To sums that have fewer lanes, `had`. Without a branch for each lane: the verifier would follow them all. */
CORE_INLINE void switch_extend(int32_t *sum, uint32_t had, const int32_t *lane, uint32_t lanes,
			       const void *end)
{
	if (lanes > SWITCH_LANES_MAX)
		lanes = SWITCH_LANES_MAX;
	for (uint32_t i = 0; i < lanes && CORE_IN_REACH(lane + i, end); i++) {
		uint32_t kept = 0u - ((i - had) >> 31); /* all bits, or none */

		sum[i] = (int32_t)(((uint32_t)sum[i] & kept) + (uint32_t)lane[i]);
	}
}

/* R-SW-1 after the type: whom a child's packet is for. 0, or a SWITCH_DROP_*. */
CORE_INLINE enum switch_verdict switch_admit_edge(const struct switch_job *job,
						  const struct wire *packet)
{
	if (!job->generation || !job->enabled)
		return SWITCH_DROP_JOB;
	if (packet->generation != job->generation)
		return SWITCH_DROP_GENERATION;
	if (packet->child >= job->children)
		return SWITCH_DROP_CHILD;
	if (packet->slot >= job->slots)
		return SWITCH_DROP_SLOT;
	if (packet->lanes > job->lanes)
		return SWITCH_DROP_LANES;
	return SWITCH_ABSORB;
}

/* R-SW-1: the checks that need no slot, in the protocol's order. 0, or a SWITCH_DROP_*. The address
 * is the engine's to check, after the child index. */
CORE_INLINE enum switch_verdict switch_admit(const struct switch_job *job,
					     const struct wire *packet)
{
	if (packet->type != WIRE_UPDATE && packet->type != WIRE_PROBE)
		return SWITCH_DROP_TYPE;
	return switch_admit_edge(job, packet);
}

/* switch_answer turns *packet into the RESULT that copy `fields` of its slot holds. */
CORE_INLINE void switch_answer(const struct switch_slot *slot, uint32_t copy, struct wire *packet)
{
	const struct switch_copy *fields = &slot->copy[copy & 1];

	packet->type = WIRE_RESULT;
	packet->flags = fields->flags;
	packet->child = fields->last;
	packet->exponent = fields->exponent;
	packet->lanes = fields->lanes;
	packet->tag = fields->tag;
}

/* R-SW-15: to one child, which says whether it wants lanes. */
CORE_INLINE enum switch_verdict switch_reply(const struct switch_slot *slot, uint32_t copy,
					     struct wire *packet)
{
	int is_bare = packet->flags & WIRE_BARE;

	switch_answer(slot, copy, packet);
	if (is_bare)
		packet->lanes = 0;
	return SWITCH_REPLY;
}

/* R-SW-12: HELD and NEED are headers; a PROBE's attempt number goes back in tag, an UPDATE made
 * no attempt. */
CORE_INLINE enum switch_verdict switch_say(enum wire_type type, struct wire *packet)
{
	if (packet->type != WIRE_PROBE)
		packet->tag = 0;
	packet->type = (uint8_t)type;
	packet->flags = 0;
	packet->exponent = 0;
	packet->lanes = 0;
	return SWITCH_REPLY;
}

/* R-SW-10: switch_probe_up makes of a HELD (verdict SWITCH_HELD_UP) the PROBE for the parent. */
CORE_INLINE void switch_probe_up(const struct switch_job *job, struct wire *packet)
{
	packet->type = WIRE_PROBE;
	packet->flags = 0;
	packet->job = job->parent_job;
	packet->child = job->parent_child;
	packet->exponent = 0;
	packet->lanes = 0;
	packet->tag = 0;
}

/* R-SW-15: can a node do without the lanes of its parent's RESULT? */
CORE_INLINE int switch_is_bare(const struct switch_job *job, const struct switch_slot *slot)
{
	const struct switch_copy *copy = &slot->copy[switch_copy_of(slot->phase)];

	return (wire_op_of(copy->flags) == WIRE_TAKE && copy->lanes) ||
	       switch_set_is_full(job, slot->bare);
}

/* The partial of a complete node, as an UPDATE to its parent. */
CORE_INLINE enum switch_verdict switch_up(const struct switch_job *job,
					  const struct switch_slot *slot, struct wire *packet,
					  uint8_t resent)
{
	switch_answer(slot, switch_copy_of(slot->phase), packet);
	packet->type = WIRE_UPDATE;
	packet->flags |= resent;
	if (switch_is_bare(job, slot))
		packet->flags |= WIRE_BARE;
	packet->job = job->parent_job;
	packet->child = job->parent_child;
	return SWITCH_UP;
}

/* R-SW-9: is everybody in? Then the root has the result, and a tree node a partial for its
 * parent. */
CORE_INLINE enum switch_verdict switch_complete(const struct switch_job *job,
						struct switch_slot *slot, struct wire *packet)
{
	if (!switch_bitmap_full(job, slot))
		return SWITCH_ABSORB;
	if (job->has_parent)
		return switch_up(job, slot, packet, 0);
	slot->final = 1;
	switch_answer(slot, switch_copy_of(slot->phase), packet);
	return SWITCH_MULTICAST;
}

/* R-SW-5: the first UPDATE of the next phase. Every field of the copy is assigned, none is combined
 * with what an older round left there. */
CORE_INLINE enum switch_verdict switch_open(const struct switch_job *job, struct switch_slot *slot,
					    int32_t *sum, struct wire *packet, const int32_t *lane,
					    const void *end)
{
	struct switch_copy *copy = &slot->copy[switch_copy_of(packet->seq)];

	if (!switch_bitmap_full(job, slot) || !slot->final)
		return SWITCH_DROP_ALARM;
	slot->phase = packet->seq;
	slot->final = 0;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		slot->bitmap[word] = slot->bare[word] = 0;
	switch_child_in(slot, packet);
	copy->tag = packet->tag;
	copy->lanes = packet->lanes;
	copy->flags = packet->flags & SWITCH_FLAGS_KEPT;
	copy->exponent = packet->exponent;
	copy->last = packet->child;
	switch_assign(sum, lane, packet->lanes, end);
	return switch_complete(job, slot, packet);
}

/* R-SW-7: does this UPDATE belong to the round that its siblings opened? Who has nothing to say
 * sends no lanes, and in TAKE rounds all but one do. Lanes of ADD_SHORT end in zeros that did not travel. */
CORE_INLINE int switch_fits(const struct switch_copy *copy, const struct wire *packet)
{
	if (packet->tag != copy->tag || (packet->flags ^ copy->flags) & WIRE_KIND_MASK)
		return 0;
	if (!packet->lanes || !copy->lanes)
		return 1;
	if (wire_op_of(copy->flags) == WIRE_TAKE)
		return 0;
	return packet->lanes == copy->lanes || wire_op_of(copy->flags) == WIRE_ADD_SHORT;
}

/* R-SW-8: the larger one; in a GUESS round, of each byte. */
CORE_INLINE uint16_t switch_exponent(uint16_t a, uint16_t b, uint8_t flags)
{
	uint16_t own = wire_guess_own(a), next = wire_guess_next(a);

	if (wire_round_of(flags) != WIRE_GUESS)
		return a > b ? a : b;
	if (wire_guess_own(b) > own)
		own = wire_guess_own(b);
	if (wire_guess_next(b) > next)
		next = wire_guess_next(b);
	return wire_guess_field(own, next);
}

/* R-SW-8: another child's UPDATE of the phase that collects. */
CORE_INLINE enum switch_verdict switch_combine(const struct switch_job *job,
					       struct switch_slot *slot, int32_t *sum,
					       struct wire *packet, const int32_t *lane,
					       const void *end)
{
	struct switch_copy *copy = &slot->copy[switch_copy_of(packet->seq)];

	if (!switch_fits(copy, packet))
		return SWITCH_MISMATCH;
	switch_child_in(slot, packet);
	copy->flags |= packet->flags & WIRE_STICKY_MASK;
	copy->last = packet->child;
	copy->exponent = switch_exponent(copy->exponent, packet->exponent, copy->flags);
	if (packet->lanes > copy->lanes) { /* of ADD_SHORT, or the copy has none */
		switch_extend(sum, copy->lanes, lane, packet->lanes, end);
		copy->lanes = packet->lanes;
	} else if (wire_op_of(copy->flags) == WIRE_MAX) {
		switch_max(sum, lane, packet->lanes, end);
	} else {
		switch_add(sum, lane, packet->lanes, end);
	}
	return switch_complete(job, slot, packet);
}

/* R-SW-6: a copy of what is in the sum already. HELD says "wait"; if everybody below this node
 * is in and the answer from above is overdue, the last contributor's copy asks the parent
 * (R-SW-10). */
CORE_INLINE enum switch_verdict switch_known(const struct switch_job *job,
					     const struct switch_slot *slot, struct wire *packet)
{
	uint32_t copy = switch_copy_of(packet->seq);

	if (slot->final)
		return switch_reply(slot, copy, packet);
	switch_say(WIRE_HELD, packet);
	if (job->has_parent && switch_bitmap_full(job, slot) &&
	    slot->copy[copy].last == packet->child)
		return SWITCH_HELD_UP;
	return SWITCH_REPLY;
}

/* R-SW-2: a slot meets the first packet of a new life of its job. */
CORE_INLINE void switch_slot_reset(const struct switch_job *job, struct switch_slot *slot,
				   uint32_t generation)
{
	slot->generation = generation;
	slot->phase = 0;
	slot->final = 1;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++) {
		slot->bitmap[word] = job->full[word];
		slot->bare[word] = 0;
	}
	for (uint32_t copy = 0; copy < 2; copy++) {
		slot->copy[copy].tag = 0;
		slot->copy[copy].lanes = 0;
		slot->copy[copy].exponent = 0;
		slot->copy[copy].last = 0;
		slot->copy[copy].flags = 0;
	}
}

/*
 * switch_step advances one slot by one UPDATE or PROBE that switch_admit has let in. A copy that comes late is
 * R-SW-4, one of this round R-SW-6, one that is older still R-SW-13.
 * `sum` holds the slot's two copies, `stride` lanes apart (stride >= job->lanes); `lane` are the
 * packet's lanes, `end` is the packet's end (read in eBPF only). The caller holds the slot's lock.
 */
CORE_INLINE enum switch_verdict switch_step(const struct switch_job *job, struct switch_slot *slot,
					    int32_t *sum, uint32_t stride, struct wire *packet,
					    const int32_t *lane, const void *end)
{
	int is_probe = packet->type == WIRE_PROBE;
	int32_t *copy_sum = sum + (switch_copy_of(packet->seq) ? stride : 0);
	int32_t ahead;

	if (slot->generation != packet->generation) {
		if (packet->seq != 1)
			return SWITCH_DROP_STALE;
		if (is_probe)
			return switch_say(WIRE_NEED, packet);
		switch_slot_reset(job, slot, packet->generation);
	}
	ahead = (int32_t)(packet->seq - slot->phase);
	if (ahead == 1) {
		if (is_probe)
			return switch_say(WIRE_NEED, packet);
		return switch_open(job, slot, copy_sum, packet, lane, end);
	}
	if (ahead == 0) {
		if (switch_bitmap_has(slot, packet->child))
			return switch_known(job, slot, packet);
		if (is_probe)
			return switch_say(WIRE_NEED, packet);
		return switch_combine(job, slot, copy_sum, packet, lane, end);
	}
	if (ahead == -1) /* R-SW-4: the shadow is always final */
		return switch_reply(slot, switch_copy_of(packet->seq), packet);
	/* R-SW-13 */
	return ahead > 0 ? SWITCH_DROP_ALARM : SWITCH_DROP_STALE;
}

/* R-SW-11: the checks of a packet from the parent that need no slot. 0, or a SWITCH_DROP_*. */
CORE_INLINE enum switch_verdict switch_admit_from_parent(const struct switch_job *job,
							 const struct wire *packet)
{
	if (packet->type != WIRE_RESULT && packet->type != WIRE_NEED && packet->type != WIRE_HELD)
		return SWITCH_DROP_TYPE;
	if (!job->generation || !job->enabled || !job->has_parent)
		return SWITCH_DROP_JOB;
	if (packet->generation != job->generation)
		return SWITCH_DROP_GENERATION;
	if (packet->slot >= job->slots)
		return SWITCH_DROP_SLOT;
	if (packet->lanes > job->lanes)
		return SWITCH_DROP_LANES;
	return SWITCH_ABSORB;
}

/*
 * switch_from_parent takes what came from the parent's bound address and passed
 * switch_admit_from_parent (R-SW-11). packet->job is still the parent's index; the answer carries
 * this switch's own. A HELD says that the parent has the partial: nothing to do.
 */
CORE_INLINE enum switch_verdict switch_from_parent(const struct switch_job *job,
						   struct switch_slot *slot, int32_t *sum,
						   uint32_t stride, struct wire *packet,
						   const int32_t *lane, const void *end)
{
	uint32_t copy = switch_copy_of(packet->seq);
	struct switch_copy *fields = &slot->copy[copy];
	enum switch_verdict refused = switch_admit_from_parent(job, packet);

	if (refused || packet->type == WIRE_HELD)
		return refused;
	if (packet->generation != slot->generation)
		return SWITCH_DROP_GENERATION;
	if (packet->seq != slot->phase || !switch_bitmap_full(job, slot) || slot->final)
		return SWITCH_DROP_STALE;
	if (packet->type == WIRE_NEED)
		return switch_up(job, slot, packet, WIRE_RESENT);
	fields->tag = packet->tag;
	if (packet->lanes || wire_op_of(packet->flags) != WIRE_TAKE ||
	    (packet->flags ^ fields->flags) & WIRE_KIND_MASK) /* else: it has them, or nobody */
		fields->lanes = packet->lanes;
	fields->flags = packet->flags & SWITCH_FLAGS_KEPT;
	fields->exponent = packet->exponent;
	if (packet->child != job->parent_child)
		fields->last = WIRE_CHILD_OTHER;
	switch_assign(sum + (copy ? stride : 0), lane, packet->lanes, end);
	slot->final = 1;
	switch_answer(slot, copy, packet);
	packet->job = job->index;
	return SWITCH_MULTICAST;
}

#endif
