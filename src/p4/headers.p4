/* SPDX-License-Identifier: Apache-2.0 */
/* headers.p4 - the headers of a packet and the parser's path: R-WIRE-1, R-WIRE-2, R-WIRE-4, R-WIRE-6. */
#include "constants.p4"

/* R-CHIP-6: lanes, children and slots are fixed when the program is compiled. */
#define LANE_BLOCKS 8
#define LANES 32
#define SLOTS 8192

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
