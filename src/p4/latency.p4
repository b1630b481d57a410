/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.p4 - core/latency/switch_latency.h for a chip: R-LAT-1 to R-LAT-9, both forms. What completes a round, and in
 * the acknowledged form what acknowledges it whole, goes round once more (R-CHIP-3, R-CHIP-11).
 */
#ifndef SLOTS
#define SLOTS 16384
#endif
#define SUMS_SIZE SLOTS
#define INDEX meta.at

#ifdef __TARGET_TOFINO__
#include "tna.p4"
#else
#include "v1model.p4"
#endif
#include "lanes.p4"
/* R-LAT-4: nobody asks a switch of this mode. */
#define REFUSED_SHAPES (SHAPE_PROBE, 32, 20, _, _, _, _, _, _): refuse(SWITCH_DROP_TYPE);
#define UPDATE_SHAPES \
            (WIRE_VERSION, WIRE_UPDATE, WIRE_EXPONENT &&& WIRE_ROUND_MASK, 0): is_of(SHAPE_OTHER); \
            (WIRE_VERSION, WIRE_UPDATE, WIRE_EXPONENT &&& WIRE_ROUND_MASK, _): is_no(WIRE_FAULT_LANES); \
            (WIRE_VERSION, WIRE_UPDATE, 0 &&& 31, 0 &&& 3): is_of(SHAPE_UPDATE); \
            (WIRE_VERSION, WIRE_UPDATE, _, 0 &&& 3): is_of(SHAPE_OTHER);

INGRESS(switch_ingress) {
#include "admission.p4"
    PAIR(lives, SLOTS)      /* which life a slot is of, and its last round that all have acknowledged */
    PAIR(rounds, SLOTS)     /* which round is final there, and which is collected: that one, or the next */
    WORD(32, phases, SLOTS) /* rounds' second again */
    WORD(32, tags, SLOTS)
    WORD(16, counts, SLOTS) /* of lanes */
    /* Who is missing, and whose ACK is: the sets of R-CHIP-1, from their other side. What opens a round assigns them. */
    WORD(32, missing, SLOTS)
    WORD(32, left, SLOTS)
    WORD(32, unsaid, SLOTS)
    WORD(32, unsaid_left, SLOTS)
    WORD(16, lasts, SLOTS)
    WORD(8, stickies, SLOTS)
    SUMS

    PAIR_ASKING(lives, life_first, 4,
        said = BOTH_SAID(value.lo == hdr.tally.generation, value.hi == meta.free);
        if (value.lo != hdr.tally.generation) { value.hi = 0; }
        value.lo = hdr.tally.generation;)
    PAIR_ASKING(lives, life_look, 4, said = BOTH_SAID(value.lo == hdr.tally.generation, value.hi == meta.free);)
    PAIR_ASKING(lives, life_free, 4,
        said = BOTH_SAID(value.lo == hdr.tally.generation, value.hi == meta.free);
        if (value.lo == hdr.tally.generation && value.hi == meta.free) { value.hi = value.hi + 1; })
    PAIR_TELLING(rounds, round_first, value.lo = 0; value.hi = 1;)
    PAIR_ASKING(rounds, round_next, 4,
        said = BOTH_SAID(value.lo == meta.before, value.hi == meta.before);
        if (value.lo == meta.before && value.hi == meta.before) { value.hi = value.hi + 1; })
    PAIR_ASKING(rounds, round_seen, 4, said = BOTH_SAID(value.lo == meta.before, value.hi == hdr.tally.seq);)
    PAIR_ASKING(rounds, round_last, 4,
        said = BOTH_SAID(value.lo == meta.before, value.hi == hdr.tally.seq);
        if (value.lo == meta.before && value.hi == hdr.tally.seq) { value.lo = value.lo + 1; })
    TELLING(32, phases, phase_put, value = hdr.tally.seq;)
    ASKING(32, phases, phase_look, 32, said = value;)
    TELLING(32, tags, tag_put, value = hdr.tally.tag;)
    ASKING(32, tags, tag_fits, 4, said = SAID(value == hdr.tally.tag);)
    ASKING(32, tags, tag_look, 32, said = value;)
    TELLING(16, counts, count_put, value = hdr.tally.lanes;)
    ASKING(16, counts, count_fits, 4, said = SAID(value == hdr.tally.lanes);)
    ASKING(16, counts, count_look, 16, said = value;)
    TELLING(32, missing, missing_first, value = meta.others;)
    ASKING(32, missing, missing_put, 32, said = value & meta.child; value = value & ~meta.child;)
    ASKING(32, missing, missing_look, 32, said = value & meta.child;)
    TELLING(32, left, left_first, value = meta.others;)
    ASKING(32, left, left_put, 4, said = BOTH_SAID(value == 0, value == meta.child); value = value & ~meta.child;)
    ASKING(32, left, left_look, 4, said = BOTH_SAID(value == 0, value == meta.child);)
    TELLING(32, unsaid, unsaid_first, value = meta.full;)
    ASKING(32, unsaid, unsaid_put, 32, said = value & meta.child; value = value & ~meta.child;)
    TELLING(32, unsaid_left, unsaid_left_first, value = meta.full;)
    ASKING(32, unsaid_left, unsaid_left_put, 4, said = BOTH_SAID(value == 0, value == meta.child);
        value = value & ~meta.child;)
    TELLING(16, lasts, last_put, value = hdr.tally.child;)
    ASKING(16, lasts, last_look, 16, said = value;)
    TELLING(8, stickies, sticky_first, value = meta.sticky;)
    TELLING(8, stickies, sticky_put, value = value | meta.sticky;)
    ASKING(8, stickies, sticky_look, 8, said = value;)

    /* R-LAT-2: the jobs of the acknowledged form. */
    action acks() { meta.acks = 1; }
    table acknowledged { key = { hdr.tally.job: exact; } actions = { acks; NoAction; } size = 1024; }

    /* R-SW-1, in each pass (R-CHIP-4): what is let in, and is the slot of its life? */
    action let_in_first() {
        meta.way = WAY_FIRST;
        meta.fault = WIRE_OK;
        ASK(life_first, meta.at, meta.same_life)
    }
    action let_in(bit<8> way) {
        meta.way = way;
        meta.fault = WIRE_OK;
        ASK(life_look, meta.at, meta.same_life)
    }
    action let_ack_in() {
        meta.way = WAY_ACK;
        meta.fault = WIRE_OK;
        ASK(life_look, meta.at, meta.same_life)
    }
    action let_last_ack_in() {
        meta.way = WAY_ACK_LAST;
        meta.fault = WIRE_OK;
        ASK(life_free, meta.at, meta.same_life)
    }
    table admit {
        key = {
            meta.ours: ternary;
            meta.shape: ternary;
            meta.length_gap: ternary;
            meta.ip_gap: ternary;
            meta.bound: ternary;
            meta.life_gap: ternary;
            meta.child_gap: ternary;
            meta.slot_gap: ternary;
            meta.lanes_gap: ternary;
            hdr.tally.seq: ternary;
            meta.pass: ternary;
            meta.acks: ternary;
        }
        actions = { let_in_first; let_in; let_ack_in; let_last_ack_in; NoAction; }
        size = 16;
        const default_action = NoAction();
        const entries = {
            (0, _, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, _, _, _, _, _, 0, _, _, _, _, _): NoAction();
            (_, _, _, _, _, _, _, 0, _, _, _, _): NoAction();
            (_, SHAPE_ACK, _, _, 1, 0, _, _, 0 &&& 0x8000, _, PASS_LAST, 1): let_last_ack_in();
            (_, SHAPE_UPDATE, _, _, 1, 0, _, _, 0 &&& 0x8000, _, PASS_LAST, _): let_in(WAY_LAST);
            (_, SHAPE_UPDATE, _, _, 1, 0, _, _, 0 &&& 0x8000, _, PASS_AGAIN, _): let_in(WAY_AGAIN);
            (_, SHAPE_ACK, 0, 20, 1, 0, _, _, 0 &&& 0x8000, _, _, 1): let_ack_in();
            (_, SHAPE_UPDATE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, 1, _, _): let_in_first();
            (_, SHAPE_UPDATE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, _, _, _): let_in(WAY_UPDATE);
        }
    }

    /* The round: R-LAT-5, R-LAT-6, R-LAT-8, R-CHIP-3 */
    action rounds_first() {
        meta.stands = STANDS_FIRST;
        TELL(round_first, meta.at)
    }
    action strange() { meta.stands = STANDS_STRANGE; }
    action rounds_next() { ASK(round_next, meta.at, meta.stands) }
    action rounds_early() {
        meta.way = WAY_EARLY;
        ASK(round_seen, meta.at, meta.stands)
    }
    action rounds_seen() { ASK(round_seen, meta.at, meta.stands) }
    action rounds_last() { ASK(round_last, meta.at, meta.stands) }
    table rounds_step {
        key = { meta.same_life: ternary; meta.way: ternary; meta.acks: ternary; }
        actions = { rounds_first; rounds_next; rounds_early; rounds_seen; rounds_last; strange; NoAction; }
        size = 16;
        const default_action = NoAction();
        const entries = {
            (SAID_NONE, WAY_FIRST, _): rounds_first();
            (SAID_OTHER, WAY_FIRST, _): rounds_first();
            (SAID_NONE, _, _): strange();
            (SAID_OTHER, _, _): strange();
            (_, WAY_LAST, _): rounds_last();
            (SAID_ONE, WAY_FIRST, 1): rounds_early();
            (SAID_ONE, WAY_UPDATE, 1): rounds_early();
            (_, WAY_FIRST, _): rounds_next();
            (_, WAY_UPDATE, _): rounds_next();
            (_, _, _): rounds_seen();
        }
    }

    /* The phase, and the copy: does it fit? R-SW-7 */
#define BY_ROUND(first, fits, other) \
        key = { meta.stands: ternary; meta.way: ternary; } \
        size = 8; \
        const default_action = NoAction(); \
        const entries = { \
            (STANDS_FIRST, _): first; \
            (SAID_BOTH, WAY_FIRST): first; \
            (SAID_BOTH, WAY_UPDATE): first; \
            (SAID_ONE, WAY_FIRST): fits; \
            (SAID_ONE, WAY_UPDATE): fits; \
            (_, _): other; \
        }
    action phases_put() { meta.opens = 1; TELL(phase_put, meta.at) }
    action phases_look() { ASK(phase_look, meta.at, meta.phase) }
    table phases_step { actions = { phases_put; phases_look; NoAction; } BY_ROUND(phases_put(), phases_look(), phases_look()) }
    action tags_put() { TELL(tag_put, meta.at) }
    action tags_fit() { ASK(tag_fits, meta.at, meta.tag_said) }
    action tags_look() { ASK(tag_look, meta.at, hdr.answer.tag) }
    table tags_step { actions = { tags_put; tags_fit; tags_look; NoAction; } BY_ROUND(tags_put(), tags_fit(), tags_look()) }
    action counts_put() { TELL(count_put, meta.at) }
    action counts_fit() { ASK(count_fits, meta.at, meta.fits) }
    action counts_look() { ASK(count_look, meta.at, hdr.answer.width) }
    table counts_step { actions = { counts_put; counts_fit; counts_look; NoAction; } BY_ROUND(counts_put(), counts_fit(), counts_look()) }

    /* The sets: R-LAT-7, R-LAT-8 */
#define BY_FIT(first, put, look) \
        key = { meta.stands: ternary; meta.way: ternary; meta.tag_said: ternary; meta.fits: ternary; } \
        size = 8; \
        const default_action = NoAction(); \
        const entries = { \
            (STANDS_FIRST, _, _, _): first; \
            (SAID_BOTH, WAY_FIRST, _, _): first; \
            (SAID_BOTH, WAY_UPDATE, _, _): first; \
            (SAID_ONE, _, SAID_ONE, SAID_ONE): put; \
            (_, _, _, _): look; \
        }
    action missing_assign() { TELL(missing_first, meta.at) }
    action missing_take() { ASK(missing_put, meta.at, meta.missing) }
    action missing_ask() { ASK(missing_look, meta.at, meta.missing) }
    table missing_step {
        actions = { missing_assign; missing_take; missing_ask; NoAction; }
        BY_FIT(missing_assign(), missing_take(), missing_ask())
    }
    action left_assign() { TELL(left_first, meta.at) }
    action left_take() { ASK(left_put, meta.at, meta.left_said) }
    action left_ask() { ASK(left_look, meta.at, meta.left_said) }
    table left_step { actions = { left_assign; left_take; left_ask; NoAction; } BY_FIT(left_assign(), left_take(), left_ask()) }

#define UNSAID_ENTRIES(first, take) (1, _, _, _): first; (_, WAY_ACK, SAID_OTHER, SAID_ONE): take;
    action unsaid_assign() { TELL(unsaid_first, meta.at) }
    action unsaid_take() { ASK(unsaid_put, meta.at, meta.unsaid) }
    table unsaid_step {
        key = { meta.opens: ternary; meta.way: ternary; meta.stands: ternary; meta.same_life: ternary; }
        actions = { unsaid_assign; unsaid_take; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = { UNSAID_ENTRIES(unsaid_assign(), unsaid_take()) }
    }
    action unsaid_left_assign() { TELL(unsaid_left_first, meta.at) }
    action unsaid_left_take() { ASK(unsaid_left_put, meta.at, meta.unsaid_said) }
    table unsaid_left_step {
        key = { meta.opens: ternary; meta.way: ternary; meta.stands: ternary; meta.same_life: ternary; }
        actions = { unsaid_left_assign; unsaid_left_take; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = { UNSAID_ENTRIES(unsaid_left_assign(), unsaid_left_take()) }
    }

    /* What becomes of it. `goes` is the pass that it goes round for, or PASS_FIRST. */
    action opens(bit<8> goes) {
        meta.verdict = SWITCH_ABSORB;
        meta.step = STEP_ASSIGN;
        meta.deed = DEED_OPEN;
        meta.goes = goes;
    }
    action absorbs(bit<8> goes) {
        meta.verdict = SWITCH_ABSORB;
        meta.step = STEP_ADD;
        meta.deed = DEED_PUT;
        meta.goes = goes;
    }
    action sends(bit<8> verdict, bit<8> say) {
        meta.verdict = verdict;
        hdr.answer.say = say;
        meta.step = STEP_READ;
    }
    action says(bit<8> say) {
        meta.verdict = SWITCH_REPLY;
        hdr.answer.say = say;
    }
    /* Where a pass says half of a sum, the first half comes along: nothing is added to it. */
    action goes_round(bit<8> goes) {
        meta.verdict = SWITCH_REPLY;
        meta.goes = goes;
#if HALVES
        meta.step = STEP_ADD;
        EACH_BLOCK(ZERO_BLOCK)
#endif
    }
    action drops(bit<8> verdict) { meta.verdict = verdict; }
    action tells(bit<8> verdict) {
        meta.verdict = verdict;
        hdr.answer.verdict = verdict;
        hdr.answer.say = SAY_TELL;
    }
#if HALVES
#define ANSWERS goes_round(PASS_AGAIN)
#else
#define ANSWERS sends(SWITCH_REPLY, SAY_RESULT)
#endif
    action absorbs_ack(bit<8> goes) {
        meta.verdict = SWITCH_ABSORB;
        meta.goes = goes;
    }
    action confirms_all() {
        meta.verdict = SWITCH_MULTICAST;
        hdr.answer.say = SAY_CONFIRM_ALL;
    }
    table decide {
        key = {
            meta.way: ternary;
            meta.stands: ternary;
            meta.same_life: ternary;
            meta.ahead: ternary;
            meta.missing: ternary;
            meta.left_said: ternary;
            meta.tag_said: ternary;
            meta.fits: ternary;
            meta.others: ternary;
            meta.unsaid: ternary;
            meta.unsaid_said: ternary;
        }
        actions = { opens; absorbs; absorbs_ack; confirms_all; sends; says; goes_round; drops; tells; }
        size = 48;
        const default_action = drops(SWITCH_DROP_STALE);
        const entries = {
            (_, STANDS_FIRST, _, _, _, _, _, _, 0, _, _): opens(PASS_LAST);
            (_, STANDS_FIRST, _, _, _, _, _, _, _, _, _): opens(PASS_FIRST);
            (_, STANDS_STRANGE, _, _, _, _, _, _, _, _, _): drops(SWITCH_DROP_STALE);
            /* R-CHIP-3, R-CHIP-11 */
            (WAY_LAST, SAID_BOTH, _, _, _, _, _, _, _, _, _): sends(SWITCH_MULTICAST, SAY_ALL);
            (WAY_LAST, SAID_OTHER, _, _, _, _, _, _, _, _, _): sends(SWITCH_REPLY, SAY_RESULT);
            (WAY_LAST, _, _, _, _, _, _, _, _, _, _): drops(SWITCH_DROP_STALE);
            (WAY_ACK_LAST, SAID_OTHER, SAID_BOTH, _, _, _, _, _, _, _, _): confirms_all();
            (WAY_ACK_LAST, SAID_OTHER, _, _, _, _, _, _, _, _, _): says(SAY_CONFIRM);
            (WAY_ACK_LAST, _, _, _, _, _, _, _, _, _, _): drops(SWITCH_DROP_STALE);
            /* R-LAT-8 */
            (WAY_ACK, _, SAID_BOTH, _, _, _, _, _, _, _, _): says(SAY_CONFIRM);
            (WAY_ACK, SAID_BOTH, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            (WAY_ACK, SAID_ONE, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            (WAY_ACK, SAID_OTHER, _, _, _, _, _, _, _, 0, SAID_ONE): goes_round(PASS_LAST);
            (WAY_ACK, SAID_OTHER, _, _, _, _, _, _, _, 0, _): says(SAY_HELD);
            (WAY_ACK, SAID_OTHER, _, _, _, _, _, _, _, _, SAID_OTHER): absorbs_ack(PASS_LAST);
            (WAY_ACK, SAID_OTHER, _, _, _, _, _, _, _, _, _): absorbs_ack(PASS_FIRST);
            (WAY_ACK, _, _, 0x80000000 &&& 0x80000000, _, _, _, _, _, _, _): says(SAY_CONFIRM);
            (WAY_ACK, _, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            /* the next round: R-LAT-6 */
            (WAY_EARLY, SAID_ONE, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            (WAY_FIRST, SAID_BOTH, _, _, _, _, _, _, 0, _, _): opens(PASS_LAST);
            (WAY_UPDATE, SAID_BOTH, _, _, _, _, _, _, 0, _, _): opens(PASS_LAST);
            (WAY_FIRST, SAID_BOTH, _, _, _, _, _, _, _, _, _): opens(PASS_FIRST);
            (WAY_UPDATE, SAID_BOTH, _, _, _, _, _, _, _, _, _): opens(PASS_FIRST);
            (WAY_FIRST, SAID_OTHER, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            (WAY_UPDATE, SAID_OTHER, _, _, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            /* this round, which is not final: R-LAT-7 */
            (_, SAID_ONE, _, _, 0, SAID_ONE, _, _, _, _, _): goes_round(PASS_LAST);
            (_, SAID_ONE, _, _, 0, _, _, _, _, _, _): says(SAY_HELD);
            (_, SAID_ONE, _, _, _, _, SAID_NONE, _, _, _, _): tells(SWITCH_MISMATCH);
            (_, SAID_ONE, _, _, _, _, _, SAID_NONE, _, _, _): tells(SWITCH_MISMATCH);
            (_, SAID_ONE, _, _, _, SAID_OTHER, _, _, _, _, _): absorbs(PASS_LAST);
            (_, SAID_ONE, _, _, _, _, _, _, _, _, _): absorbs(PASS_FIRST);
            /* a final one */
#if HALVES
            (WAY_AGAIN, _, _, 0, _, _, _, _, _, _, _): sends(SWITCH_REPLY, SAY_RESULT);
#endif
            (_, _, _, 0, _, _, _, _, _, _, _): ANSWERS;
            (_, _, _, 0 &&& 0x80000000, _, _, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
        }
    }

    /* Exponent, last, sticky flags: R-SW-8 */
#define BY_DEED(first, put, look) \
        key = { meta.deed: ternary; } \
        size = 4; \
        const default_action = NoAction(); \
        const entries = { \
            DEED_OPEN: first; \
            DEED_PUT: put; \
            _: look; \
        }
    action lasts_put() { TELL(last_put, meta.at) }
    action lasts_look() { ASK(last_look, meta.at, hdr.answer.last) }
    table lasts_step { actions = { lasts_put; lasts_look; NoAction; } BY_DEED(lasts_put(), lasts_put(), lasts_look()) }
    action stickies_first() { TELL(sticky_first, meta.at) }
    action stickies_put() { TELL(sticky_put, meta.at) }
    action stickies_look() { ASK(sticky_look, meta.at, hdr.answer.sticky) }
    table stickies_step {
        actions = { stickies_first; stickies_put; stickies_look; NoAction; }
        BY_DEED(stickies_first(), stickies_put(), stickies_look())
    }
#include "finish.p4"

    apply {
        TAKE_ERROR
        meta.sticky = hdr.tally.flags & WIRE_STICKY_MASK;
        meta.before = hdr.tally.seq - 1;
        if (hdr.tally.type == WIRE_ACK && meta.pass == PASS_FIRST) { meta.free = hdr.tally.seq; } /* it is free already */
        else { meta.free = hdr.tally.seq - 1; }
        hdr.answer.copy = SAID_ONE;
        hdr.answer.kind = 0;
        hdr.answer.own = 0;
        BEGIN
        LOSE_IN
        acknowledged.apply();
        meta.full = meta.others;
        meta.others = meta.others ^ meta.child;

        /* What goes round has lanes. */
        if (meta.ours == 1 && HAS_OWN_LANES && (meta.shape == SHAPE_UPDATE || meta.shape == SHAPE_ACK)) { fillers.apply(); }
        admit.apply();
        SERVED
        if (meta.same_life == 0) { refusals.apply(); }
        else {
            rounds_step.apply();
            phases_step.apply();
            tags_step.apply();
            counts_step.apply();
            meta.ahead = hdr.tally.seq - meta.phase;
            missing_step.apply();
            left_step.apply();
            unsaid_step.apply();
            unsaid_left_step.apply();
            decide.apply();
            lasts_step.apply();
            stickies_step.apply();
            EACH_SUM(SUM_STEP)
        }
        FINISH
    }
}

#include "egress.p4"

SWITCH
