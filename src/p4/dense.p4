/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.p4 - core/dense/switch.h for a chip, by way of chip.h: R-SW-1 to R-SW-15 at a root, R-CHIP-1 to R-CHIP-4. For
 * v1model, whose ingress has one thread: so all registers are here, and a packet does all of its pass at once (R-SW-14).
 */
#include <core.p4>
#include <v1model.p4>

#include "headers.p4"

const bit<32> RESUBMITTED = 4;
const bit<32> REPLICATED = 5;

/* What is done with a packet that was let in. */
enum bit<8> act_t {
    DROP = 0,
    OPEN = 1,
    COLLECT = 2, /* of the round that is open */
    ANSWER = 3,
    NEED = 4,
    HELD = 5
}

struct metadata_t {
    @field_list(1)
    bit<8> round; /* R-CHIP-3: this pass is its last */
    bit<16> blocks;
    bit<32> bare;
    bit<16> copy_lanes;
}

struct job_t {
    bit<32> generation;
    bit<16> life;
    bit<32> full;
    bit<16> children;
    bit<32> slots;
    bit<16> lanes;
    bit<32> base;
    bit<16> group;
}

parser dense_parser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.protocol, hdr.ipv4.fragment & 0x3fff) {
            (0x45, 17, 0): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.length) {
            0 .. 31: accept; /* R-WIRE-7: SHORT */
            default: tally;
        }
    }
    state tally {
        packet.extract(hdr.tally);
        meta.blocks = hdr.tally.lanes >> 2;
        transition select(hdr.tally.lanes) {
            0 .. LANES: lanes;
            default: accept; /* more than any job here has: R-SW-1 */
        }
    }
    state lanes {
        transition select(meta.blocks) {
            0: accept;
            default: block;
        }
    }
    state block {
        packet.extract(hdr.lanes.next);
        meta.blocks = meta.blocks - 1;
        transition lanes;
    }
}

/* R-WIRE-6 */
#define SWAP(x) ((x)[7:0] ++ (x)[15:8] ++ (x)[23:16] ++ (x)[31:24])
#define SUM(block, field) register<bit<32>>(2 * SLOTS) sum_##block##_##field
#define SUMS(block) SUM(block, a); SUM(block, b); SUM(block, c); SUM(block, d)
/* R-CHIP-2: assigned, added, the larger one; an answer reads. */
#define LANE(block, field) \
    sum_##block##_##field.read(sum, of); \
    lane = has_lane ? SWAP(hdr.lanes[block].field) : none; \
    if (act == act_t.OPEN) { sum = lane; } \
    else if (act == act_t.COLLECT) { \
        if (is_max) { if ((int<32>)lane > (int<32>)sum) { sum = lane; } } \
        else { sum = sum + lane; } \
    } \
    sum_##block##_##field.write(of, sum); \
    hdr.lanes[block].field = SWAP(sum);
#define BLOCK(block) \
    has_lane = hdr.lanes[block].isValid(); \
    if (!has_lane) { hdr.lanes[block].setValid(); } \
    LANE(block, a) LANE(block, b) LANE(block, c) LANE(block, d) \
    if (meta.copy_lanes <= 4 * block) { hdr.lanes[block].setInvalid(); }
#define DROP(reason) { verdicts.count((bit<32>)reason); mark_to_drop(standard); return; }

control dense_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(32, CounterType.packets) verdicts;
    counter(8, CounterType.packets) faults;
    register<bit<64>>(SLOTS) phases;    /* life 16, final 16, phase 32 */
    register<bit<32>>(2 * SLOTS) tags;
    register<bit<40>>(2 * SLOTS) kinds; /* life 16, flags 8, lanes 16: of a copy (R-SW-3) */
    register<bit<64>>(SLOTS) sets;      /* life 16, seq 16, children 32: R-CHIP-1 */
    register<bit<64>>(SLOTS) bares;     /* the same, of those that want no lanes */
    register<bit<40>>(2 * SLOTS) rests; /* sticky 8, last 16, exponent 16 */
    SUMS(0); SUMS(1); SUMS(2); SUMS(3); SUMS(4); SUMS(5); SUMS(6); SUMS(7);
    shape() datagram;
    job_t job;

    action set_job(bit<32> generation, bit<16> life, bit<32> full, bit<16> children, bit<32> slots,
                   bit<16> lanes, bit<32> base, bit<16> group) {
        job = { generation, life, full, children, slots, lanes, base, group };
    }
    action mine() {}
    table here { key = { hdr.ipv4.to: exact; hdr.udp.to: exact; } actions = { mine; NoAction; } }
    table jobs { key = { hdr.tally.job: exact; } actions = { set_job; NoAction; } size = 1024; }
    /* R-WIRE-8: what HELLO has bound. */
    table addresses {
        key = { hdr.tally.job: exact; hdr.tally.child: exact; hdr.ipv4.from: exact; hdr.udp.from: exact; }
        actions = { mine; NoAction; }
        size = 32768;
    }

    action answer(bit<4> type, bit<8> flags, bit<16> exponent, bit<16> lanes, bit<32> tag) {
        bit<48> mac = hdr.ethernet.to;
        bit<32> ip = hdr.ipv4.to;
        bit<16> port = hdr.udp.to;

        hdr.ethernet.to = hdr.ethernet.from;
        hdr.ethernet.from = mac;
        hdr.ipv4.to = hdr.ipv4.from;
        hdr.ipv4.from = ip;
        hdr.ipv4.ttl = 64;
        hdr.udp.to = hdr.udp.from;
        hdr.udp.from = port;
        hdr.udp.checksum = 0; /* R-CHIP-7 */
        hdr.tally.type = type;
        hdr.tally.flags = flags;
        hdr.tally.exponent = exponent;
        hdr.tally.lanes = lanes;
        hdr.tally.tag = tag;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        bool is_probe = hdr.tally.type == WIRE_PROBE;
        bool is_update = hdr.tally.type == WIRE_UPDATE;
        act_t act = act_t.DROP;
        bit<8> kind = hdr.tally.flags & WIRE_KIND_MASK;
        bit<1> asks_bare = hdr.tally.flags[4:4];
        bit<32> tag;
        bit<40> copy_kind;
        bit<40> rest;
        bit<64> word;
        bit<64> set;
        bit<64> bare;

        if (!hdr.udp.isValid() || !here.apply().hit) {
            mark_to_drop(standard);
            return;
        }
        /* R-WIRE-7. Lanes that have not come are the parser's error. */
        bit<8> fault;
        datagram.apply(hdr, fault);
        if (fault == WIRE_OK && (hdr.ipv4.length != hdr.udp.length + 20 || standard.parser_error != error.NoError)) {
            fault = WIRE_FAULT_LENGTH;
        }
        if (fault != WIRE_OK) {
            faults.count((bit<32>)fault);
            mark_to_drop(standard);
            return;
        }
        /* R-SW-1, in each pass (R-CHIP-4) */
        if (!is_update && !is_probe) DROP(SWITCH_DROP_TYPE)
        if (!jobs.apply().hit) DROP(SWITCH_DROP_JOB)
        if (hdr.tally.generation != job.generation) DROP(SWITCH_DROP_GENERATION)
        if (hdr.tally.child >= job.children) DROP(SWITCH_DROP_CHILD)
        if ((bit<32>)hdr.tally.slot >= job.slots) DROP(SWITCH_DROP_SLOT)
        if (hdr.tally.lanes > job.lanes) DROP(SWITCH_DROP_LANES)
        if (!addresses.apply().hit) DROP(SWITCH_DROP_ADDRESS)

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
            if (!is_probe && !is_final) DROP(SWITCH_DROP_ALARM)
            act = is_probe ? act_t.NEED : act_t.OPEN;
        } else if (ahead == 0xffffffff) { act = act_t.ANSWER; }
        else if (ahead[31:31] == 0) DROP(SWITCH_DROP_ALARM)
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
            else if (!fits) DROP(SWITCH_MISMATCH)
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
        BLOCK(0) BLOCK(1) BLOCK(2) BLOCK(3) BLOCK(4) BLOCK(5) BLOCK(6) BLOCK(7)

        /* R-SW-9, R-CHIP-3: what completes, or finds it complete and not final, goes round. */
        if (act == act_t.OPEN || act == act_t.COLLECT) {
            if (!goes_round) { verdicts.count((bit<32>)SWITCH_ABSORB); }
            mark_to_drop(standard);
        } else if (act == act_t.ANSWER) {
            verdicts.count(completes ? (bit<32>)SWITCH_MULTICAST : (bit<32>)SWITCH_REPLY);
            answer(WIRE_RESULT, copy_kind[23:16] | rest[39:32], rest[15:0], meta.copy_lanes, tag);
            hdr.tally.child = rest[31:16];
            meta.bare = bare[31:0];
            if (completes) { standard.mcast_grp = job.group; }
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

control dense_egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action to(bit<48> mac, bit<32> ip, bit<16> port) {
        hdr.ethernet.to = mac;
        hdr.ipv4.to = ip;
        hdr.udp.to = port;
    }
    table children {
        key = { hdr.tally.job: exact; standard.egress_rid: exact; }
        actions = { to; NoAction; }
        size = 32768;
    }
    apply {
        bit<32> bare = meta.bare;

        if (standard.instance_type == REPLICATED) {
            children.apply();
            bare = meta.bare >> (bit<8>)standard.egress_rid;
        }
        if (bare[0:0] == 1) { /* R-SW-15 */
            hdr.tally.lanes = 0;
            hdr.lanes[0].setInvalid(); hdr.lanes[1].setInvalid(); hdr.lanes[2].setInvalid();
            hdr.lanes[3].setInvalid(); hdr.lanes[4].setInvalid(); hdr.lanes[5].setInvalid();
            hdr.lanes[6].setInvalid(); hdr.lanes[7].setInvalid();
        }
        hdr.udp.length = 32 + (hdr.tally.lanes << 2);
        hdr.ipv4.length = hdr.udp.length + 20;
    }
}

control dense_verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control dense_checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.from, hdr.ipv4.to }, hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control dense_deparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(dense_parser(), dense_verify(), dense_ingress(), dense_egress(), dense_checksum(), dense_deparser()) main;
