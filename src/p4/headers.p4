/* SPDX-License-Identifier: Apache-2.0 */
/* headers.p4 - the headers of a packet and the parser's path: R-WIRE-1, R-WIRE-2, R-WIRE-4, R-CHIP-12. */
#include "constants.p4"

/* R-CHIP-6: lanes and slots are fixed when the program is compiled. EACH_BLOCK does a thing to each 4 lanes. */
#if defined(LANES) && LANES == 8
#define LANE_BLOCKS 2
#define EACH_BLOCK(do) do(0) do(1)
#else
#define LANES 32
#define LANE_BLOCKS 8
#define EACH_BLOCK(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7)
#endif

header ethernet_t {
    bit<48> to;
    bit<48> from;
    bit<16> type;
}

header ipv4_t {
    bit<8> version_ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> from;
    bit<32> to;
}

header udp_t {
    bit<16> from;
    bit<16> to;
    bit<16> length;
    bit<16> checksum;
}

header tally_t {
    bit<4> version;
    bit<4> type;
    bit<8> flags;
    bit<16> job;
    bit<32> generation;
    bit<32> seq;
    bit<16> slot;
    bit<16> child;
    bit<16> exponent;
    bit<16> lanes;
    bit<32> tag;
}

header lanes_t {
    bit<32> a;
    bit<32> b;
    bit<32> c;
    bit<32> d;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    tally_t tally;
    lanes_t[LANE_BLOCKS] lanes;
}

/* R-WIRE-7, in the order of its table: what is no packet is dropped and counted. */
control shape(in headers_t hdr, out bit<8> fault) {
    apply {
        bit<4> type = hdr.tally.type;
        bit<16> lanes = hdr.tally.lanes;
        bit<16> lanes_max = 0;
        bit<16> lanes_min = 0;

        if (type == WIRE_HELLO || type == WIRE_WELCOME) {
            lanes_max = (bit<16>)WIRE_LANES_MAX;
            lanes_min = (bit<16>)WIRE_HELLO_LANES;
        } else if ((type == WIRE_UPDATE || type == WIRE_RESULT) &&
                   hdr.tally.flags & WIRE_ROUND_MASK != WIRE_EXPONENT) {
            lanes_max = (bit<16>)WIRE_LANES_MAX;
        }
        if (!hdr.tally.isValid()) { fault = WIRE_FAULT_SHORT; }
        else if (hdr.tally.version != WIRE_VERSION) { fault = WIRE_FAULT_VERSION; }
        else if (type == 0 || type > WIRE_WELCOME) { fault = WIRE_FAULT_TYPE; }
        else if (lanes[1:0] != 0 || lanes > lanes_max || lanes < lanes_min) { fault = WIRE_FAULT_LANES; }
        else if (hdr.udp.length != (bit<16>)(WIRE_UDP_BYTES + WIRE_HEADER_BYTES) + (lanes << 2)) {
            fault = WIRE_FAULT_LENGTH;
        } else if (type == WIRE_RESULT && hdr.tally.flags & WIRE_BARE != 0) { fault = WIRE_FAULT_FLAGS; }
        else { fault = WIRE_OK; }
    }
}
