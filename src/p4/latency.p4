/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.p4 - core/latency/switch_latency.h for a chip: R-LAT-1 to R-LAT-9, both forms. What completes a round, and in
 * the acknowledged form what acknowledges it whole, goes round once more (R-CHIP-3, R-CHIP-11).
 */
#ifndef SLOTS
#define SLOTS 16384
#endif
#define SUMS_SIZE SLOTS
#include "v1model.p4"

/* What has become of a slot's round. */
const bit<16> COLLECTS = 0;
const bit<16> FINAL = 1;
const bit<16> FREE = 2; /* all have acknowledged it */

control switch_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#include "admission.p4"
    register<bit<64>>(SLOTS) rounds; /* life 16, state 16, round 32 */
    register<bit<32>>(SLOTS) tags;
    register<bit<16>>(SLOTS) counts; /* of lanes */
    register<bit<64>>(SLOTS) sets;   /* life 16, seq 16, children 32: R-CHIP-1 */
    register<bit<64>>(SLOTS) acks;   /* the same, of those that have acknowledged */
    register<bit<24>>(SLOTS) rests;  /* sticky 8, last 16 */
    EACH_BLOCK(SUMS)

    /* R-LAT-2: the jobs of the acknowledged form. */
    table acknowledged { key = { hdr.tally.job: exact; } actions = { mine; NoAction; } size = 1024; }

    apply {
        bool is_acknowledged = acknowledged.apply().hit;
        bool is_ack = hdr.tally.type == WIRE_ACK;
        bool is_update = hdr.tally.type == WIRE_UPDATE && hdr.tally.flags & (WIRE_KIND_MASK | WIRE_BARE) == 0;
        act_t act = act_t.COLLECT;
        bool goes_round = false;
        bool completes = false;
        bit<64> word;
        bit<32> tag;
        bit<64> set;
        bit<64> acked;
        bit<24> rest;

        ADMIT(is_update || (is_ack && is_acknowledged)) /* R-LAT-4 */

        bit<32> at = job.base + (bit<32>)hdr.tally.slot;
        bit<32> of = at;
        bit<32> child = (bit<32>)1 << (bit<8>)hdr.tally.child;

        /* Generation (by its life), state and round: R-LAT-5, R-LAT-6, R-LAT-8, R-CHIP-3. */
        rounds.read(word, at);
        bit<32> ahead = hdr.tally.seq - word[31:0];
        bit<16> state = word[47:32];
        if (word[63:48] != job.life) {
            if (is_ack || hdr.tally.seq != 1 || meta.round == 1) DROP(SWITCH_DROP_STALE)
            act = act_t.OPEN;
        } else if (meta.round == 1) {
            if (ahead != 0) DROP(SWITCH_DROP_STALE)
            act = is_ack ? act_t.CONFIRM : act_t.ANSWER;
            completes = state == (is_ack ? FINAL : COLLECTS);
            if (completes) { word[47:32] = is_ack ? FREE : FINAL; }
        } else if (ahead == 0) {
            if (is_ack && state == COLLECTS) TELL(SWITCH_DROP_ALARM, WIRE_CHILD_OTHER)
            act = is_ack ? act_t.ACK : act_t.COLLECT;
        } else if (ahead == 1) {
            if (is_ack || state == COLLECTS || (is_acknowledged && state != FREE)) TELL(SWITCH_DROP_ALARM, WIRE_CHILD_OTHER)
            act = act_t.OPEN;
        } else if (ahead[31:31] == 0) TELL(SWITCH_DROP_ALARM, WIRE_CHILD_OTHER)
        else {
            if (!is_ack) DROP(SWITCH_DROP_STALE)
            act = act_t.CONFIRM;
        }
        if (act == act_t.OPEN) { word = job.life ++ COLLECTS ++ hdr.tally.seq; }
        rounds.write(at, word);

        /* Tag and lanes: does it fit? R-LAT-7 */
        tags.read(tag, at);
        counts.read(meta.copy_lanes, at);
        bool fits = tag == hdr.tally.tag && meta.copy_lanes == hdr.tally.lanes;

        /* The sets: R-LAT-7, R-LAT-8, R-CHIP-1 */
        bit<32> name = job.life ++ hdr.tally.seq[15:0];
        sets.read(set, at);
        acks.read(acked, at);
        rests.read(rest, at);
        if (set[63:32] != name) { set = name ++ 32w0; }
        if (acked[63:32] != name) { acked = name ++ 32w0; }
        if (act == act_t.COLLECT) {
            if (set[31:0] & child != 0) {
                act = state == COLLECTS ? act_t.HELD : act_t.ANSWER;
                goes_round = state == COLLECTS && set[31:0] == job.full;
            } else if (!fits) TELL(SWITCH_MISMATCH, rest[15:0])
        } else if (act == act_t.ACK) {
            if (acked[31:0] & child != 0) { act = state == FREE ? act_t.CONFIRM : act_t.HELD; }
            acked[31:0] = acked[31:0] | child;
            goes_round = state != FREE && acked[31:0] == job.full;
            acks.write(at, acked);
        }
        if (act == act_t.OPEN || act == act_t.COLLECT) {
            set[31:0] = set[31:0] | child;
            goes_round = set[31:0] == job.full;
            bit<8> sticky = hdr.tally.flags & WIRE_STICKY_MASK;
            if (act == act_t.COLLECT) { sticky = sticky | rest[23:16]; }
            meta.copy_lanes = hdr.tally.lanes;
            sets.write(at, set);
            tags.write(at, hdr.tally.tag);
            counts.write(at, hdr.tally.lanes);
            rests.write(at, sticky ++ hdr.tally.child);
        }

        /* The sums */
        bool is_max = false;
        bit<32> none = 0;
        bit<32> lane;
        bit<32> sum;
        bool has_lane;
        EACH_BLOCK(BLOCK)

        /* R-LAT-3 */
        if (act == act_t.OPEN || act == act_t.COLLECT || act == act_t.ACK) {
            if (!goes_round) { verdicts.count((bit<32>)SWITCH_ABSORB); }
            mark_to_drop(standard);
        } else {
            if (!goes_round) { verdicts.count(completes ? (bit<32>)SWITCH_MULTICAST : (bit<32>)SWITCH_REPLY); }
            if (act == act_t.ANSWER) {
                answer(WIRE_RESULT, rest[23:16], 0, meta.copy_lanes, tag);
                hdr.tally.child = rest[15:0];
                meta.bare = 0;
            } else {
                answer(act == act_t.HELD ? WIRE_HELD : WIRE_CONFIRM, 0, 0, 0, is_ack ? hdr.tally.tag : 0);
                meta.bare = 0xffffffff;
            }
            if (completes) {
                standard.mcast_grp = job.group;
                if (!is_ack) { served.count(served_at + 2); }
            }
        }
        if (goes_round) {
            meta.round = 1;
            resubmit_preserving_field_list(1);
        }
    }
}

V1Switch(switch_parser(), switch_verify(), switch_ingress(), switch_egress(), switch_checksum(), switch_deparser()) main;
