/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1model.p4 - the layer below the programs for v1model, bmv2's architecture. Its ingress has one thread, so all registers
 * are there (R-SW-14). What is done to a register is written so that a Tofino can do it as well: tna.p4.
 */
#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "metadata.p4"
#include "forward.p4"

const bit<32> REPLICATED = 5;
#define ADDRESSES 32768

/* A pass sees all of a register. With -DHALVES=1 it sees what a Tofino's does: what goes round is recirculated as it has
 * become, with answer_t in front, and a pass says half of a sum. So packets try that form as well. */
#ifndef HALVES
#define HALVES 0
#endif
const bit<32> RECIRCULATED = 4;

/* Registers of one number and of two. */
#define WORD(bits, name, size) register<bit<bits>>(size) name;
#define PAIR(name, size) register<bit<32>>(size) name##_lo; register<bit<32>>(size) name##_hi;
struct pair_t {
    bit<32> lo;
    bit<32> hi;
}
/* What a pass does to one: `value` is what it holds, `said` the answer. */
#define TELLING(bits, name, does, ...) \
    action does(in bit<16> at) { \
        bit<bits> value; \
        name.read(value, (bit<32>)at); \
        __VA_ARGS__ \
        name.write((bit<32>)at, value); \
    }
#define ASKING(bits, name, does, said_bits, ...) \
    action does(in bit<16> at, out bit<said_bits> said) { \
        bit<bits> value; \
        name.read(value, (bit<32>)at); \
        __VA_ARGS__ \
        name.write((bit<32>)at, value); \
    }
#define PAIR_USED(name, ...) \
        pair_t value; \
        name##_lo.read(value.lo, (bit<32>)at); \
        name##_hi.read(value.hi, (bit<32>)at); \
        __VA_ARGS__ \
        name##_lo.write((bit<32>)at, value.lo); \
        name##_hi.write((bit<32>)at, value.hi);
#define PAIR_TELLING(name, does, ...) action does(in bit<16> at) { PAIR_USED(name, __VA_ARGS__) }
#define PAIR_ASKING(name, does, said_bits, ...) \
    action does(in bit<16> at, out bit<said_bits> said) { PAIR_USED(name, __VA_ARGS__) }
#define TELL(does, at) does(at);
#define ASK(does, at, said) does(at, said);
/* Which of two conditions hold: a chip's answer has one bit for each of the four cases. */
#define BOTH_SAID(one, other) ((one) ? ((other) ? 4w8 : 4w2) : ((other) ? 4w4 : 4w1))
#define SAID(one) ((one) ? 4w2 : 4w1)
#define LARGER(a, b) ((int<32>)(a) > (int<32>)(b) ? (a) : (b))
#define LARGER_UNSIGNED(a, b) ((a) > (b) ? (a) : (b))
#define SLOTS_ABOVE(slots, slot) (slots > (bit<32>)slot ? 16w1 : 16w0)
/* R-SW-15: who wants no lanes. */
#ifdef HAS_BARES
#define BARES WORD(32, bares, SLOTS)
#define BARES_STEP { \
    bit<32> word; \
    bares.read(word, (bit<32>)meta.at); \
    meta.bare = meta.child; \
    if (hdr.tally.flags & WIRE_BARE == 0) { meta.bare = 0; } \
    if (meta.deed == DEED_OPEN) { bares.write((bit<32>)meta.at, meta.bare); } \
    else if (meta.deed == DEED_PUT) { bares.write((bit<32>)meta.at, word | meta.bare); } \
    else { meta.bare = word; } \
}
#define BARE_SENT \
    if (hdr.answer.say == SAY_ALL && (meta.bare >> (bit<8>)meta.replica)[0:0] == 1) { \
        hdr.tally.lanes = 0; \
        CUT_0 \
    }
#else
#define BARES
#define BARES_STEP
#define BARE_SENT
#endif

#define COUNTERS(name, size) counter(size, CounterType.packets) name;
#define COUNT(name, index) name.count((bit<32>)index);

#define INGRESS(name) \
    control name(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard)
#define EGRESS(name) INGRESS(name)
#define LAYER \
    counter(4096, CounterType.packets) served; /* 4 of each job: UPDATEs, those that came again, complete rounds */ \
    register<bit<32>>(1) boot; /* control's: another after the switch has lost what control has written */ \
    forward() forwarding; \
    to_cpu() to_control; \
    lose() losing;
#define FORWARD forwarding.apply(hdr, standard);
#define TO_CONTROL to_control.apply(standard);
#define DROP mark_to_drop(standard);
#if HALVES
#define GO_ROUND standard.egress_spec = standard.ingress_port;
#define GOES_ROUND if (meta.goes != PASS_FIRST) { recirculate_preserving_field_list(1); return; }
#else
#define GO_ROUND meta.pass = meta.goes; resubmit_preserving_field_list(1);
#define GOES_ROUND
#endif
#define SEND_BACK standard.egress_spec = hdr.answer.port; /* ingress_port is 0 in what was recirculated */
#define SEND_ALL(group) standard.mcast_grp = group;
#define TOLD_LANES if (hdr.answer.say == SAY_TELL) { hdr.answer.width = hdr.tally.lanes; }
#define TOLD_ENTRIES CUT_ENTRIES(SAY_TELL, _)
/* Lanes that have not come are the parser's error: R-WIRE-7. A packet that is lost on purpose is not ours. */
#define TAKE_ERROR \
    meta.ip_gap = hdr.ipv4.length - hdr.udp.length; \
    if (standard.parser_error != error.NoError) { meta.ip_gap = 0; }
/* How many UPDATEs of a job have come, how many of them again, and how many rounds were complete. */
#define SERVED \
    if (meta.way == WAY_FIRST || meta.way == WAY_UPDATE) { \
        served.count((bit<32>)hdr.tally.job << 2); \
        if (hdr.tally.flags & WIRE_RESENT != 0) { served.count(((bit<32>)hdr.tally.job << 2) + 1); } \
    }
#define SERVED_ALL if (hdr.answer.say == SAY_ALL) { served.count(((bit<32>)hdr.tally.job << 2) + 2); }
/* On the way in: what is a packet of a job, and has not gone round. */
#define LOSE_IN \
    if (meta.ours == 1 && meta.pass == PASS_FIRST && meta.shape != 0 && meta.shape != SHAPE_HELLO) { \
        bool is_lost; \
        losing.apply(standard, is_lost); \
        if (is_lost) { return; } \
    }
#define EGRESS_LAYER lose() losing;
#define LIMIT
#define LOSE \
    bool is_lost; \
    losing.apply(standard, is_lost);
#define PORT_IN standard.ingress_port
#define REPLICA standard.egress_rid
#define PORT_OUT standard.egress_port
/* Where it is not recirculated, each pass begins with the packet as it has come. */
#define HAS_OWN_LANES (HALVES == 0 || meta.pass == PASS_FIRST)
#define STRIP hdr.answer.setInvalid();

parser tally_parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.instance_type) {
            RECIRCULATED: again;
            default: first;
        }
    }
#include "states.p4"
}

control tally_verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control tally_checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.udp.isValid() && hdr.udp.checksum == 0, { hdr.ipv4.version_ihl,
            hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.from,
            hdr.ipv4.to }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control tally_deparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

#define SWITCH V1Switch(tally_parser(), tally_verify(), switch_ingress(), switch_egress(), tally_checksum(), \
    tally_deparser()) main;
