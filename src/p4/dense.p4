/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.p4 - core/dense/switch.h for a chip, by way of chip.h: R-SW-1 to R-SW-15 at a root, R-CHIP-1 to R-CHIP-4. One
 * text for two architectures. Each register is used once in a pass, in the order in which a chip's stages have them; a
 * pass through them is one step, as no packet overtakes another between two stages (R-SW-14).
 */
#ifndef SLOTS
#define SLOTS 8192
#endif
#define SUMS_SIZE 2 * SLOTS /* R-SW-3 */
#define INDEX meta.of

#define HAS_BARES
#ifdef __TARGET_TOFINO__
#include "tna.p4"
#else
#include "v1model.p4"
#endif
#include "lanes.p4"
#define REFUSED_SHAPES
#define UPDATE_SHAPES \
            (WIRE_VERSION, WIRE_UPDATE, WIRE_EXPONENT &&& WIRE_ROUND_MASK, 0): is_of(SHAPE_UPDATE); \
            (WIRE_VERSION, WIRE_UPDATE, WIRE_EXPONENT &&& WIRE_ROUND_MASK, _): is_no(WIRE_FAULT_LANES); \
            (WIRE_VERSION, WIRE_UPDATE, _, 0 &&& 3): is_of(SHAPE_UPDATE);

INGRESS(switch_ingress) {
#include "admission.p4"
    /* Which life a slot is of, which round is final there, and which is collected: that one, or the next. */
    WORD(32, lives, SLOTS)
    PAIR(rounds, SLOTS)
    WORD(32, phases, SLOTS) /* rounds' second again, for packets that are neither of this round nor of the next */
    /* Of each copy: */
    WORD(32, copies, 2 * SLOTS) /* its life: R-SW-2, R-SW-3 */
    WORD(32, tags, 2 * SLOTS)
    WORD(8, kinds, 2 * SLOTS)
    WORD(16, widths, 2 * SLOTS)
    /* Who is missing: the set of R-CHIP-1, from its other side. What opens a round assigns it. */
    WORD(32, missing, SLOTS)
    WORD(32, left, SLOTS) /* the same: one says whether this child is, the other how many */
    WORD(16, owns, 2 * SLOTS) /* the exponent's parts: R-WIRE-10 */
    WORD(8, nexts, 2 * SLOTS)
    WORD(16, lasts, 2 * SLOTS)
    WORD(8, stickies, 2 * SLOTS)
    BARES
    SUMS

    ASKING(32, lives, life_first, 4, said = SAID(value == hdr.tally.generation); value = hdr.tally.generation;)
    ASKING(32, lives, life_look, 4, said = SAID(value == hdr.tally.generation);)
    PAIR_TELLING(rounds, round_first, value.lo = 0; value.hi = 1;)
    PAIR_ASKING(rounds, round_next, 4,
        said = BOTH_SAID(value.lo == meta.before, value.hi == meta.before);
        if (value.lo == meta.before && value.hi == meta.before) { value.hi = value.hi + 1; })
    PAIR_ASKING(rounds, round_look, 4, said = BOTH_SAID(value.lo == meta.before, value.hi == meta.before);)
    PAIR_ASKING(rounds, round_last, 4,
        said = BOTH_SAID(value.lo == meta.before, value.hi == hdr.tally.seq);
        if (value.lo == meta.before && value.hi == hdr.tally.seq) { value.lo = value.lo + 1; })
    TELLING(32, phases, phase_put, value = hdr.tally.seq;)
    ASKING(32, phases, phase_look, 32, said = value;)
    TELLING(32, copies, copy_put, value = hdr.tally.generation;)
    ASKING(32, copies, copy_look, 4, said = SAID(value == hdr.tally.generation);)
    TELLING(32, tags, tag_put, value = hdr.tally.tag;)
    ASKING(32, tags, tag_fits, 4, said = SAID(value == hdr.tally.tag);)
    ASKING(32, tags, tag_look, 32, said = value;)
    TELLING(8, kinds, kind_put, value = meta.kind;)
    ASKING(8, kinds, kind_fits, 4, said = SAID(value == meta.kind);)
    ASKING(8, kinds, kind_look, 8, said = value;)
    TELLING(16, widths, width_put, value = hdr.tally.lanes;)
    ASKING(16, widths, width_fits, 4, said = BOTH_SAID(value == 0, value == meta.like);
        if (value == 0) { value = hdr.tally.lanes; })
    TELLING(16, widths, width_longer, value = LARGER_UNSIGNED(value, hdr.tally.lanes);)
    ASKING(16, widths, width_look, 16, said = value;)
    TELLING(32, missing, missing_first, value = meta.others;)
    ASKING(32, missing, missing_put, 32, said = value & meta.child; value = value & ~meta.child;)
    ASKING(32, missing, missing_look, 32, said = value & meta.child;)
    TELLING(32, left, left_first, value = meta.others;)
    ASKING(32, left, left_put, 4, said = BOTH_SAID(value == 0, value == meta.child); value = value & ~meta.child;)
    ASKING(32, left, left_look, 4, said = BOTH_SAID(value == 0, value == meta.child);)
    TELLING(16, owns, own_first, value = meta.own;)
    TELLING(16, owns, own_put, value = LARGER_UNSIGNED(value, meta.own);)
    ASKING(16, owns, own_look, 16, said = value;)
    TELLING(8, nexts, next_first, value = meta.next;)
    TELLING(8, nexts, next_put, value = LARGER_UNSIGNED(value, meta.next);)
    ASKING(8, nexts, next_look, 8, said = value;)
    TELLING(16, lasts, last_put, value = hdr.tally.child;)
    ASKING(16, lasts, last_look, 16, said = value;)
    TELLING(8, stickies, sticky_first, value = meta.sticky;)
    TELLING(8, stickies, sticky_put, value = value | meta.sticky;)
    ASKING(8, stickies, sticky_look, 8, said = value;)

    /* What the round's kind says of a packet: how lanes are combined, how many fit, what stands where there is none. */
    action combines(bit<8> how) {
        meta.combine = how;
        meta.like = hdr.tally.lanes;
    }
    action takes() { /* R-SW-7: with no lanes, only */
        meta.combine = STEP_ADD;
        meta.like = 0xffff;
    }
    table operations {
        key = { hdr.tally.flags[3:2]: exact @name("operation"); }
        actions = { combines; takes; }
        size = 4;
        const default_action = takes();
        const entries = {
            0: combines(STEP_ADD);
            1: combines(STEP_ADD_SHORT);
            2: combines(STEP_MAX);
        }
    }

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
        }
        actions = { let_in_first; let_in; NoAction; }
        size = 16;
        const default_action = NoAction();
        const entries = {
            (0, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, _, _, _, _, _, 0, _, _, _, _): NoAction();
            (_, _, _, _, _, _, _, 0, _, _, _): NoAction();
            (_, _, _, _, 1, 0, _, _, 0 &&& 0x8000, _, PASS_LAST): let_in(WAY_LAST);
            (_, _, _, _, 1, 0, _, _, 0 &&& 0x8000, _, PASS_AGAIN): let_in(WAY_AGAIN);
            (_, SHAPE_UPDATE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, 1, _): let_in_first();
            (_, SHAPE_UPDATE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, _, _): let_in(WAY_UPDATE);
            (_, SHAPE_PROBE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, 1, _): let_in(WAY_ASKS);
            (_, SHAPE_PROBE, 0, 20, 1, 0, _, _, 0 &&& 0x8000, _, _): let_in(WAY_PROBE);
        }
    }

    /* The round: R-SW-2, R-SW-4, R-SW-5, R-SW-13, R-CHIP-3 */
    action rounds_first() {
        meta.stands = STANDS_FIRST;
        TELL(round_first, meta.at)
    }
    action stands(bit<4> so) { meta.stands = so; }
    action rounds_next() { ASK(round_next, meta.at, meta.stands) }
    action rounds_look() { ASK(round_look, meta.at, meta.stands) }
    action rounds_last() { ASK(round_last, meta.at, meta.stands) }
    table rounds_step {
        key = { meta.same_life: exact; meta.way: exact; }
        actions = { rounds_first; rounds_next; rounds_look; rounds_last; stands; NoAction; }
        size = 16;
        const default_action = stands(STANDS_STRANGE);
        const entries = {
            (SAID_NONE, WAY_FIRST): rounds_first();
            (SAID_NONE, WAY_ASKS): stands(STANDS_ASKS);
            (SAID_ONE, WAY_FIRST): rounds_next();
            (SAID_ONE, WAY_UPDATE): rounds_next();
            (SAID_ONE, WAY_ASKS): rounds_look();
            (SAID_ONE, WAY_PROBE): rounds_look();
            (SAID_ONE, WAY_AGAIN): rounds_look();
            (SAID_ONE, WAY_LAST): rounds_last();
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
    action copies_put() { TELL(copy_put, meta.of) }
    action copies_look() { ASK(copy_look, meta.of, hdr.answer.copy) }
    table copies_step { actions = { copies_put; copies_look; NoAction; } BY_ROUND(copies_put(), copies_look(), copies_look()) }
    action tags_put() { TELL(tag_put, meta.of) }
    action tags_fit() { ASK(tag_fits, meta.of, meta.tag_said) }
    action tags_look() { ASK(tag_look, meta.of, hdr.answer.tag) }
    table tags_step { actions = { tags_put; tags_fit; tags_look; NoAction; } BY_ROUND(tags_put(), tags_fit(), tags_look()) }
    action kinds_put() { TELL(kind_put, meta.of) }
    action kinds_fit() { ASK(kind_fits, meta.of, meta.kind_said) }
    action kinds_look() { ASK(kind_look, meta.of, hdr.answer.kind) }
    table kinds_step { actions = { kinds_put; kinds_fit; kinds_look; NoAction; } BY_ROUND(kinds_put(), kinds_fit(), kinds_look()) }

    /* How many lanes: R-SW-7, R-SW-8. What fits is SAID_ONE or more. */
    action widths_put() { TELL(width_put, meta.of) }
    action widths_fit() { ASK(width_fits, meta.of, meta.fits) }
    action widths_longer() { meta.fits = SAID_ONE; TELL(width_longer, meta.of) }
    action widths_none() { meta.fits = SAID_ONE; ASK(width_look, meta.of, hdr.answer.width) }
    action widths_look() { meta.fits = SAID_NONE; ASK(width_look, meta.of, hdr.answer.width) }
    table widths_step {
        key = {
            meta.opens: ternary;
            meta.tag_said: ternary;
            meta.kind_said: ternary;
            meta.combine: ternary;
            hdr.tally.lanes: ternary;
        }
        actions = { widths_put; widths_fit; widths_longer; widths_none; widths_look; NoAction; }
        size = 8;
        const default_action = NoAction();
        const entries = {
            (1, _, _, _, _): widths_put();
            (_, SAID_ONE, SAID_ONE, _, 0): widths_none();
            (_, SAID_ONE, SAID_ONE, STEP_ADD_SHORT, _): widths_longer();
            (_, SAID_ONE, SAID_ONE, _, _): widths_fit();
            (_, _, _, _, _): widths_look();
        }
    }

    /* The set: R-SW-6, R-SW-8 */
#define BY_FIT(first, put, look) \
        key = { meta.opens: ternary; meta.fits: ternary; } \
        size = 8; \
        const default_action = NoAction(); \
        const entries = { \
            (1, _): first; \
            (_, SAID_NONE): look; \
            (_, _): put; \
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

    /* What becomes of it. `goes` is the pass that it goes round for, or PASS_FIRST. */
    action opens(bit<8> goes) {
        meta.verdict = SWITCH_ABSORB;
        meta.step = STEP_ASSIGN;
        meta.deed = DEED_OPEN;
        meta.goes = goes;
    }
    action absorbs(bit<8> goes) {
        meta.verdict = SWITCH_ABSORB;
        meta.step = meta.combine;
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
    table decide {
        key = {
            meta.way: ternary;
            meta.stands: ternary;
            meta.ahead: ternary;
            meta.missing: ternary;
            meta.left_said: ternary;
            meta.fits: ternary;
            meta.others: ternary;
        }
        actions = { opens; absorbs; sends; says; goes_round; drops; tells; }
        size = 32;
        const default_action = drops(SWITCH_DROP_STALE);
        const entries = {
            /* R-SW-2, R-SW-5, R-SW-9: a job of one child is complete at once */
            (_, STANDS_FIRST, _, _, _, _, 0): opens(PASS_LAST);
            (_, STANDS_FIRST, _, _, _, _, _): opens(PASS_FIRST);
            (_, STANDS_ASKS, _, _, _, _, _): says(SAY_NEED);
            (_, STANDS_STRANGE, _, _, _, _, _): drops(SWITCH_DROP_STALE);
            /* R-CHIP-3 */
            (WAY_LAST, SAID_BOTH, _, _, _, _, _): sends(SWITCH_MULTICAST, SAY_ALL);
            (WAY_LAST, SAID_OTHER, _, _, _, _, _): sends(SWITCH_REPLY, SAY_RESULT);
            (WAY_LAST, _, _, _, _, _, _): drops(SWITCH_DROP_STALE);
            /* the next round: R-SW-5, R-SW-12 */
            (WAY_ASKS, SAID_BOTH, _, _, _, _, _): says(SAY_NEED);
            (WAY_PROBE, SAID_BOTH, _, _, _, _, _): says(SAY_NEED);
            (WAY_ASKS, SAID_OTHER, _, _, _, _, _): says(SAY_NEED);
            (WAY_PROBE, SAID_OTHER, _, _, _, _, _): says(SAY_NEED);
            (_, SAID_BOTH, _, _, _, _, 0): opens(PASS_LAST);
            (_, SAID_BOTH, _, _, _, _, _): opens(PASS_FIRST);
            (_, SAID_OTHER, _, _, _, _, _): tells(SWITCH_DROP_ALARM);
            /* this round, which is not final: R-SW-6 to R-SW-9 */
            (_, SAID_ONE, _, 0, SAID_ONE, _, _): goes_round(PASS_LAST);
            (_, SAID_ONE, _, 0, _, _, _): says(SAY_HELD);
            (WAY_ASKS, SAID_ONE, _, _, _, _, _): says(SAY_NEED);
            (WAY_PROBE, SAID_ONE, _, _, _, _, _): says(SAY_NEED);
            (_, SAID_ONE, _, _, _, SAID_NONE, _): tells(SWITCH_MISMATCH);
            (_, SAID_ONE, _, _, SAID_OTHER, _, _): absorbs(PASS_LAST);
            (_, SAID_ONE, _, _, _, _, _): absorbs(PASS_FIRST);
            /* a final one: this, or that before (R-SW-4) */
#if HALVES
            (WAY_AGAIN, _, 0, _, _, _, _): sends(SWITCH_REPLY, SAY_RESULT);
            (WAY_AGAIN, _, 0xffffffff, _, _, _, _): sends(SWITCH_REPLY, SAY_RESULT);
#endif
            (_, _, 0, _, _, _, _): ANSWERS;
            (_, _, 0xffffffff, _, _, _, _): ANSWERS;
            /* R-SW-13 */
            (_, _, 0 &&& 0x80000000, _, _, _, _): tells(SWITCH_DROP_ALARM);
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
    action owns_first() { TELL(own_first, meta.of) }
    action owns_put() { TELL(own_put, meta.of) }
    action owns_look() { ASK(own_look, meta.of, hdr.answer.own) }
    table owns_step { actions = { owns_first; owns_put; owns_look; NoAction; } BY_DEED(owns_first(), owns_put(), owns_look()) }
    action nexts_first() { TELL(next_first, meta.of) }
    action nexts_put() { TELL(next_put, meta.of) }
    action nexts_look() { ASK(next_look, meta.of, hdr.answer.next) }
    table nexts_step { actions = { nexts_first; nexts_put; nexts_look; NoAction; } BY_DEED(nexts_first(), nexts_put(), nexts_look()) }
    action lasts_put() { TELL(last_put, meta.of) }
    action lasts_look() { ASK(last_look, meta.of, hdr.answer.last) }
    table lasts_step { actions = { lasts_put; lasts_look; NoAction; } BY_DEED(lasts_put(), lasts_put(), lasts_look()) }
    action stickies_first() { TELL(sticky_first, meta.of) }
    action stickies_put() { TELL(sticky_put, meta.of) }
    action stickies_look() { ASK(sticky_look, meta.of, hdr.answer.sticky) }
    table stickies_step {
        actions = { stickies_first; stickies_put; stickies_look; NoAction; }
        BY_DEED(stickies_first(), stickies_put(), stickies_look())
    }
#include "finish.p4"

    apply {
        TAKE_ERROR
        meta.kind = hdr.tally.flags & WIRE_KIND_MASK;
        meta.sticky = hdr.tally.flags & WIRE_STICKY_MASK;
        meta.before = hdr.tally.seq - 1;
        meta.own = hdr.tally.exponent;
        meta.next = 0;
        if (hdr.tally.flags & WIRE_ROUND_MASK == WIRE_GUESS) { /* R-WIRE-10 */
            meta.own = (bit<16>)hdr.tally.exponent[15:8];
            meta.next = hdr.tally.exponent[7:0];
        }
        BEGIN
        LOSE_IN
        operations.apply();
        meta.others = meta.others ^ meta.child;
        meta.of = meta.at[14:0] ++ hdr.tally.seq[0:0];

        /* An answer has lanes, whoever asked; so has what goes round. */
        if (meta.ours == 1 && HAS_OWN_LANES && (meta.shape == SHAPE_UPDATE || meta.shape == SHAPE_PROBE)) { fillers.apply(); }
        admit.apply();
        SERVED
        if (meta.same_life == 0) { refusals.apply(); }
        else {
            rounds_step.apply();
            phases_step.apply();
            copies_step.apply();
            tags_step.apply();
            kinds_step.apply();
            meta.ahead = hdr.tally.seq - meta.phase;
            widths_step.apply();
            missing_step.apply();
            left_step.apply();
            decide.apply();
            owns_step.apply();
            nexts_step.apply();
            lasts_step.apply();
            stickies_step.apply();
            BARES_STEP
            EACH_SUM(SUM_STEP)
        }
        FINISH
    }
}

#include "egress.p4"

SWITCH
