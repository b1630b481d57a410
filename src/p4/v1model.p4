/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1model.p4 - what dense.p4 and latency.p4 have in common on v1model: the way of a packet around ingress, and how lanes
 * lie in registers. All state is in ingress, which has one thread in bmv2: so a packet does all of its pass at once
 * (R-SW-14, R-LAT-9). A program says SUMS_SIZE, the slots times copies.
 */
#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "forward.p4"

const bit<32> REPLICATED = 5;

/* What is done with a packet that was let in. */
enum bit<8> act_t {
    OPEN = 1,
    COLLECT = 2, /* of the round that is open */
    ANSWER = 3,
    NEED = 4,
    HELD = 5,
    ACK = 6,
    CONFIRM = 7
}

struct metadata_t {
    @field_list(1)
    bit<8> round; /* R-CHIP-3: this pass is its last */
    bit<1> is_answer;
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

parser switch_parser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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

#define SUM(block, field) register<bit<32>>(SUMS_SIZE) sum_##block##_##field
#define SUMS(block) SUM(block, a); SUM(block, b); SUM(block, c); SUM(block, d);
/* R-CHIP-2: assigned, added, the larger one; an answer reads. */
#define LANE(block, field) \
    sum_##block##_##field.read(sum, of); \
    lane = has_lane ? hdr.lanes[block].field : none; \
    if (act == act_t.OPEN) { sum = lane; } \
    else if (act == act_t.COLLECT) { \
        if (is_max) { if ((int<32>)lane > (int<32>)sum) { sum = lane; } } \
        else { sum = sum + lane; } \
    } \
    sum_##block##_##field.write(of, sum); \
    hdr.lanes[block].field = sum;
#define BLOCK(block) \
    has_lane = hdr.lanes[block].isValid(); \
    if (!has_lane) { hdr.lanes[block].setValid(); } \
    LANE(block, a) LANE(block, b) LANE(block, c) LANE(block, d) \
    if (meta.copy_lanes <= 4 * block) { hdr.lanes[block].setInvalid(); }
#define NO_LANES(block) hdr.lanes[block].setInvalid();
#define DROP(reason) { verdicts.count((bit<32>)reason); mark_to_drop(standard); return; }
/* R-CHIP-8: control is told, by the packet itself. */
#define TELL(reason, last) { \
    verdicts.count((bit<32>)reason); \
    hdr.tally.tag = (bit<32>)reason; \
    hdr.tally.exponent = last; \
    hdr.udp.checksum = 0; \
    to_control.apply(standard); \
    return; }

/* R-WIRE-7, and R-SW-1 in each pass (R-CHIP-4). Lanes that have not come are the parser's error. */
#define ADMIT(type_fits) \
    bit<8> fault; \
    if (!hdr.udp.isValid() || !here.apply().hit) { forwarding.apply(hdr, standard); return; } \
    datagram.apply(hdr, fault); \
    if (fault == WIRE_OK && (hdr.ipv4.length != hdr.udp.length + 20 || standard.parser_error != error.NoError)) { \
        fault = WIRE_FAULT_LENGTH; \
    } \
    if (fault != WIRE_OK) { faults.count((bit<32>)fault); mark_to_drop(standard); return; } \
    if (hdr.tally.type == WIRE_HELLO) { /* R-CHIP-9: it is control's, and says where it came in. */ \
        hdr.tally.slot = (bit<16>)standard.ingress_port; \
        hdr.tally.exponent = hdr.ethernet.from[47:32]; \
        hdr.tally.tag = hdr.ethernet.from[31:0]; \
        hdr.udp.checksum = 0; \
        to_control.apply(standard); \
        return; \
    } \
    bool is_lost = false; \
    if (meta.round == 0) { losing.apply(standard, is_lost); } \
    if (is_lost) { return; } \
    bool is_known = jobs.apply().hit; \
    if (!(type_fits)) DROP(SWITCH_DROP_TYPE) \
    if (!is_known) DROP(SWITCH_DROP_JOB) \
    if (hdr.tally.generation != job.generation) DROP(SWITCH_DROP_GENERATION) \
    if (hdr.tally.child >= job.children) DROP(SWITCH_DROP_CHILD) \
    if ((bit<32>)hdr.tally.slot >= job.slots) DROP(SWITCH_DROP_SLOT) \
    if (hdr.tally.lanes > job.lanes) DROP(SWITCH_DROP_LANES) \
    if (!addresses.apply().hit) DROP(SWITCH_DROP_ADDRESS) \
    bit<32> served_at = (bit<32>)hdr.tally.job << 2; \
    if (is_update && meta.round == 0) { \
        served.count(served_at); \
        if (hdr.tally.flags & WIRE_RESENT != 0) { served.count(served_at + 1); } \
    }

control switch_egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
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
    lose() losing;
    apply {
        bit<32> bare = meta.bare;
        bool is_lost;

        if (meta.is_answer == 0) {
            if (standard.egress_rid == FLOOD_REPLICA && standard.egress_port == standard.ingress_port) {
                mark_to_drop(standard);
            }
            return;
        }
        losing.apply(standard, is_lost);
        if (standard.instance_type == REPLICATED) {
            children.apply();
            bare = meta.bare >> (bit<8>)standard.egress_rid;
        }
        if (bare[0:0] == 1) { /* R-SW-15 */
            hdr.tally.lanes = 0;
            EACH_BLOCK(NO_LANES)
        }
        hdr.udp.length = 32 + (hdr.tally.lanes << 2);
        hdr.ipv4.length = hdr.udp.length + 20;
    }
}

control switch_verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control switch_checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.is_answer == 1, { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.from, hdr.ipv4.to }, hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control switch_deparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
