/* SPDX-License-Identifier: Apache-2.0 */
/* headers.p4 - the headers of a packet: R-WIRE-1, R-WIRE-2, R-WIRE-4, R-CHIP-12. */
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

/* What ingress has found: inside the chip only, from a pass to the next and to egress. */
header answer_t {
    bit<8> pass; /* what comes next: a PASS_ */
    bit<8> say;  /* a SAY_ */
    bit<7> unused_bits;
    bit<9> port; /* that the packet came from */
    bit<4> unused_more;
    bit<4> copy; /* SAID_ONE: the copy is of this life */
    bit<8> kind;
    bit<8> sticky;
    bit<8> next; /* the exponent's parts: R-WIRE-10 */
    bit<16> own;
    bit<16> width;
    bit<16> last;
    bit<8> verdict;
    bit<8> unused;
    bit<32> tag;
}

struct headers_t {
    answer_t answer;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    tally_t tally;
    lanes_t[LANE_BLOCKS] lanes;
}
