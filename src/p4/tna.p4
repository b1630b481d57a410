/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tna.p4 - the layer below the programs for TNA, Tofino 1's architecture. What goes round is recirculated, with answer_t
 * in front. With many lanes a register has two, and says one of them in a pass: an answer's second half is read in its
 * last pass.
 */
#include <core.p4>
#include <tna.p4>

#include "headers.p4"
#include "metadata.p4"

/* The port of the pipe that leads back into it, and control's. */
#ifndef RECIRCULATE
#define RECIRCULATE 68
#endif
#ifndef CPU_PORT
#define CPU_PORT 64
#endif
/* Of children, in all jobs: more take another stage. */
#ifndef ADDRESSES
#define ADDRESSES 8192
#endif
const bit<16> FLOOD_GROUP = 1;
const bit<16> FLOOD_REPLICA = 0x4000;

#define HALVES (LANES == 32)

struct pair_t {
    bit<32> lo;
    bit<32> hi;
}

/* Registers of one number and of two. */
#define WORD(bits, name, size) Register<bit<bits>, bit<16>>(size) name;
#define PAIR(name, size) Register<pair_t, bit<16>>(size) name;
/* What a pass does to one: `value` is what it holds, `said` the answer. */
#define TELLING(bits, name, does, ...) \
    RegisterAction<bit<bits>, bit<16>, bit<8>>(name) does = { void apply(inout bit<bits> value) { __VA_ARGS__ } };
#define ASKING(bits, name, does, said_bits, ...) \
    RegisterAction<bit<bits>, bit<16>, bit<said_bits>>(name) does = { \
        void apply(inout bit<bits> value, out bit<said_bits> said) { __VA_ARGS__ } \
    };
#define PAIR_TELLING(name, does, ...) \
    RegisterAction<pair_t, bit<16>, bit<8>>(name) does = { void apply(inout pair_t value) { __VA_ARGS__ } };
#define PAIR_ASKING(name, does, said_bits, ...) \
    RegisterAction<pair_t, bit<16>, bit<said_bits>>(name) does = { \
        void apply(inout pair_t value, out bit<said_bits> said) { __VA_ARGS__ } \
    };
#define TELL(does, at) does.execute(at);
#define ASK(does, at, said) said = does.execute(at);
/* Which of two conditions hold: the chip's answer has one bit for each of the four cases. */
#define BOTH_SAID(one, other) this.predicate(one, other)
#define SAID(one) this.predicate(one)
#define LARGER_UNSIGNED(a, b) max(a, b)
/* 0: the job has no such slot. It has 65,535 at most. */
#define SLOTS_ABOVE(slots, slot) (slots[15:0] |-| slot)
#define LARGER(a, b) (bit<32>)max((int<32>)(a), (int<32>)(b))

/* R-SW-15 allows it: a RESULT to all has lanes. */
#define BARES
#define BARES_STEP
#define BARE_SENT

#define COUNTERS(name, size) Counter<bit<64>, bit<8>>(size, CounterType_t.PACKETS) name;
#define COUNT(name, index) name.count(index);

#define INGRESS(name) \
    control name(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic, \
        in ingress_intrinsic_metadata_from_parser_t from_parser, \
        inout ingress_intrinsic_metadata_for_deparser_t to_deparser, \
        inout ingress_intrinsic_metadata_for_tm_t to_manager)
#define EGRESS(name) \
    control name(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t intrinsic, \
        in egress_intrinsic_metadata_from_parser_t from_parser, \
        inout egress_intrinsic_metadata_for_deparser_t to_deparser, \
        inout egress_intrinsic_metadata_for_output_port_t to_port)
/* A frame goes to all ports until control has said where the MAC is. */
#define LAYER \
    action to_port(PortId_t port) { to_manager.ucast_egress_port = port; } \
    action to_all() { to_manager.mcast_grp_a = FLOOD_GROUP; } \
    table hosts { \
        key = { hdr.ethernet.to: exact; } \
        actions = { to_port; to_all; } \
        const default_action = to_all(); \
        size = 1024; \
    }
#define FORWARD hosts.apply();
#define TO_CONTROL to_manager.ucast_egress_port = CPU_PORT;
#define DROP to_deparser.drop_ctl = 1;
#define GO_ROUND \
    to_manager.ucast_egress_port = RECIRCULATE; \
    to_manager.bypass_egress = 1;
#define GOES_ROUND
#define SEND_BACK to_manager.ucast_egress_port = hdr.answer.port;
#define SEND_ALL(group) to_manager.mcast_grp_a = group;
#define TOLD_LANES
#define TOLD_ENTRIES
/* The parser drops what lacks lanes. */
#define TAKE_ERROR meta.ip_gap = hdr.ipv4.length - hdr.udp.length;
/* R-CHIP-8: what is control's is so much from each port. */
#define EGRESS_LAYER \
    Meter<bit<9>>(512, MeterType_t.PACKETS) rate; \
    action measure() { meta.color = rate.execute(hdr.answer.port); }
#define LIMIT \
    if (hdr.answer.say == SAY_TELL || hdr.answer.say == SAY_HELLO) { \
        measure(); \
        if (meta.color != 0) { to_deparser.drop_ctl = 1; } \
    }
#define LOSE
#define LOSE_IN
#define SERVED
#define SERVED_ALL
#define PORT_IN intrinsic.ingress_port
#define REPLICA intrinsic.egress_rid
#define PORT_OUT intrinsic.egress_port
/* In a later pass it has the answer's. */
#define HAS_OWN_LANES meta.pass == PASS_FIRST
#define STRIP hdr.answer.setInvalid();

parser tally_parser(packet_in packet, out headers_t hdr, out metadata_t meta,
                    out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            RECIRCULATE: again;
            default: first;
        }
    }
#include "states.p4"
}

control tally_ingress_deparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                               in ingress_intrinsic_metadata_for_deparser_t to_deparser) {
    apply { packet.emit(hdr); }
}

/* No lanes: they go through as they are. */
parser tally_egress_parser(packet_in packet, out headers_t hdr, out metadata_t meta,
                           out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(hdr.answer);
        transition select(hdr.answer.say) {
            SAY_NOTHING: accept;
            default: headers;
        }
    }
    state headers {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.tally);
        transition accept;
    }
}

control tally_egress_deparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                              in egress_intrinsic_metadata_for_deparser_t to_deparser) {
    Checksum() checksum;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({ hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.from, hdr.ipv4.to });
        }
        packet.emit(hdr);
    }
}

#define SWITCH \
    Pipeline(tally_parser(), switch_ingress(), tally_ingress_deparser(), tally_egress_parser(), switch_egress(), \
        tally_egress_deparser()) pipe; \
    @pa_auto_init_metadata Switch(pipe) main; /* what no table has set is 0 */
