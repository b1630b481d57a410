/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.p4 - core/dense/switch.h for a chip, by way of chip.h: R-SW-1 to R-SW-15 at a root, R-CHIP-1 to R-CHIP-4.
 */
#ifndef SLOTS
#define SLOTS 8192
#endif
#define SUMS_SIZE 2 * SLOTS /* R-SW-3 */
#include "v1model.p4"

control switch_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#include "admission.p4"
    register<bit<64>>(SLOTS) phases;    /* life 16, final 16, phase 32 */
    register<bit<32>>(2 * SLOTS) tags;
    register<bit<40>>(2 * SLOTS) kinds; /* life 16, flags 8, lanes 16: of a copy (R-SW-3) */
    register<bit<64>>(SLOTS) sets;      /* life 16, seq 16, children 32: R-CHIP-1 */
    register<bit<64>>(SLOTS) bares;     /* the same, of those that want no lanes */
    register<bit<40>>(2 * SLOTS) rests; /* sticky 8, last 16, exponent 16 */
    EACH_BLOCK(SUMS)

    apply {
        bool is_probe = hdr.tally.type == WIRE_PROBE;
        bool is_update = hdr.tally.type == WIRE_UPDATE;
        act_t act = act_t.COLLECT;
        bit<8> kind = hdr.tally.flags & WIRE_KIND_MASK;
        bit<1> asks_bare = hdr.tally.flags[4:4];
        bit<32> tag;
        bit<40> copy_kind;
        bit<40> rest;
        bit<64> word;
        bit<64> set;
        bit<64> bare;

        ADMIT(is_update || is_probe)

        bit<32> at = job.base + (bit<32>)hdr.tally.slot;
        bit<32> of = at << 1 | (bit<32>)hdr.tally.seq[0:0];
        bit<32> child = (bit<32>)1 << (bit<8>)hdr.tally.child;

        /* Generation (by its life), final and phase: R-SW-2, R-SW-4, R-SW-5, R-SW-13, R-CHIP-3. */
        phases.read(word, at);
        bit<32> ahead = hdr.tally.seq - word[31:0];
        bool is_final = word[32:32] == 1;
        if (word[63:48] != job.life) {
            if (hdr.tally.seq != 1 || meta.round == 1) DROP(SWITCH_DROP_STALE)
            act = is_probe ? act_t.NEED : act_t.OPEN;
        } else if (meta.round == 1 && ahead != 0) DROP(SWITCH_DROP_STALE)
        else if (ahead == 0) {
            act = meta.round == 1 ? act_t.ANSWER : act_t.COLLECT;
            if (meta.round == 1) { word[32:32] = 1; }
        } else if (ahead == 1) {
            if (!is_probe && !is_final) TELL(SWITCH_DROP_ALARM, WIRE_CHILD_OTHER)
            act = is_probe ? act_t.NEED : act_t.OPEN;
        } else if (ahead == 0xffffffff) { act = act_t.ANSWER; }
        else if (ahead[31:31] == 0) TELL(SWITCH_DROP_ALARM, WIRE_CHILD_OTHER)
        else DROP(SWITCH_DROP_STALE)
        bool completes = meta.round == 1 && !is_final;
        if (act == act_t.OPEN) { word = job.life ++ 16w0 ++ hdr.tally.seq; }
        phases.write(at, word);

        /* Tag, flags and lanes of the copy: does it fit? R-SW-7 */
        tags.read(tag, of);
        kinds.read(copy_kind, of);
        rests.read(rest, of);
        if (copy_kind[39:24] != job.life) { tag = 0; copy_kind = 0; rest = 0; } /* R-SW-2: an empty copy */
        meta.copy_lanes = copy_kind[15:0];
        bit<8> op = kind >> (bit<8>)WIRE_OP_SHIFT;
        bool fits = tag == hdr.tally.tag && copy_kind[23:16] == kind &&
            (hdr.tally.lanes == 0 || meta.copy_lanes == 0 ||
             (op != WIRE_TAKE && (op == WIRE_ADD_SHORT || hdr.tally.lanes == meta.copy_lanes)));

        /* The set, R-SW-6, R-SW-8, R-CHIP-1 */
        sets.read(set, at);
        bares.read(bare, at);
        bit<32> name = job.life ++ hdr.tally.seq[15:0];
        if (set[63:32] != name) { set = name ++ 32w0; }
        if (bare[63:32] != name) { bare = name ++ 32w0; }
        bool goes_round = false;
        if (act == act_t.COLLECT) {
            if (set[31:0] & child != 0) {
                act = is_final ? act_t.ANSWER : act_t.HELD;
                goes_round = !is_final && set[31:0] == job.full;
            } else if (is_probe) { act = act_t.NEED; }
            else if (!fits) TELL(SWITCH_MISMATCH, rest[31:16])
        }
        if (act == act_t.OPEN || act == act_t.COLLECT) {
            set[31:0] = set[31:0] | child;
            if (asks_bare == 1) { bare[31:0] = bare[31:0] | child; }
            sets.write(at, set);
            bares.write(at, bare);
            goes_round = set[31:0] == job.full;
            bit<16> exponent = hdr.tally.exponent;
            bit<8> sticky = hdr.tally.flags & WIRE_STICKY_MASK;
            if (act == act_t.OPEN) { meta.copy_lanes = hdr.tally.lanes; }
            else {
                if (hdr.tally.lanes > meta.copy_lanes) { meta.copy_lanes = hdr.tally.lanes; }
                sticky = sticky | rest[39:32];
                if (kind & WIRE_ROUND_MASK == 3) { /* GUESS: each byte, R-WIRE-10 */
                    if (rest[15:8] > exponent[15:8]) { exponent[15:8] = rest[15:8]; }
                    if (rest[7:0] > exponent[7:0]) { exponent[7:0] = rest[7:0]; }
                } else if (rest[15:0] > exponent) { exponent = rest[15:0]; }
            }
            tags.write(of, hdr.tally.tag);
            kinds.write(of, job.life ++ kind ++ meta.copy_lanes);
            rests.write(of, sticky ++ hdr.tally.child ++ exponent);
        }

        /* The sums */
        bool is_max = op == WIRE_MAX;
        bit<32> none = is_max ? 32w0x80000000 : 0;
        bit<32> lane;
        bit<32> sum;
        bool has_lane;
        EACH_BLOCK(BLOCK)

        /* R-SW-9, R-CHIP-3: what completes, or finds it complete and not final, goes round. */
        if (act == act_t.OPEN || act == act_t.COLLECT) {
            if (!goes_round) { verdicts.count((bit<32>)SWITCH_ABSORB); }
            mark_to_drop(standard);
        } else if (act == act_t.ANSWER) {
            verdicts.count(completes ? (bit<32>)SWITCH_MULTICAST : (bit<32>)SWITCH_REPLY);
            answer(WIRE_RESULT, copy_kind[23:16] | rest[39:32], rest[15:0], meta.copy_lanes, tag);
            hdr.tally.child = rest[31:16];
            meta.bare = bare[31:0];
            if (completes) { standard.mcast_grp = job.group; served.count(served_at + 2); }
            else { meta.bare = (bit<32>)asks_bare; } /* R-SW-15 */
        } else { /* R-SW-12 */
            if (!goes_round) { verdicts.count((bit<32>)SWITCH_REPLY); }
            meta.copy_lanes = 0;
            answer(act == act_t.NEED ? WIRE_NEED : WIRE_HELD, 0, 0, 0, is_probe ? hdr.tally.tag : 0);
            meta.bare = 1;
        }
        if (goes_round) {
            meta.round = 1;
            resubmit_preserving_field_list(1);
        }
    }
}

V1Switch(switch_parser(), switch_verify(), switch_ingress(), switch_egress(), switch_checksum(), switch_deparser()) main;
