/* SPDX-License-Identifier: Apache-2.0 */
/* states.p4 - a parser's states from Ethernet on: what R-WIRE-7 and R-SW-1 judge. */
    state first {
        hdr.answer = { PASS_FIRST, SAY_NOTHING, 0, PORT_IN, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        transition ethernet;
    }
    /* It has all lanes. */
    state again {
        packet.extract(hdr.answer);
        meta.pass = hdr.answer.pass;
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.tally);
        transition whole;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.protocol, hdr.ipv4.fragment) {
            (0x45, 17, 0 &&& 0x3fff): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.length) {
            0 .. 31: accept; /* SHORT */
            default: tally;
        }
    }
    state tally {
        packet.extract(hdr.tally);
        transition select(hdr.udp.length, hdr.tally.lanes) {
            (32, 0): lanes_0;
            (48, 4): lanes_4; (64, 8): lanes_8;
#if LANES == 32
            (80, 12): lanes_12; (96, 16): lanes_16; (112, 20): lanes_20;
            (128, 24): lanes_24; (144, 28): lanes_28; (160, 32): lanes_32;
#endif
            default: accept; /* more lanes than any job here has, no multiple of 4, another length, or not ours */
        }
    }
#define LANES_4 packet.extract(hdr.lanes[0]);
#define LANES_8 LANES_4 packet.extract(hdr.lanes[1]);
#define LANES_12 LANES_8 packet.extract(hdr.lanes[2]);
#define LANES_16 LANES_12 packet.extract(hdr.lanes[3]);
#define LANES_20 LANES_16 packet.extract(hdr.lanes[4]);
#define LANES_24 LANES_20 packet.extract(hdr.lanes[5]);
#define LANES_28 LANES_24 packet.extract(hdr.lanes[6]);
#define LANES_32 LANES_28 packet.extract(hdr.lanes[7]);
#if LANES == 32
#define ALL_LANES lanes_32
#else
#define ALL_LANES lanes_8
#endif
    state lanes_0 { meta.length = 32; transition accept; }
    state lanes_4 { meta.length = 48; LANES_4 transition accept; }
    state lanes_8 { meta.length = 64; LANES_8 transition accept; }
#if LANES == 32
    state lanes_12 { meta.length = 80; LANES_12 transition accept; }
    state lanes_16 { meta.length = 96; LANES_16 transition accept; }
    state lanes_20 { meta.length = 112; LANES_20 transition accept; }
    state lanes_24 { meta.length = 128; LANES_24 transition accept; }
    state lanes_28 { meta.length = 144; LANES_28 transition accept; }
    state lanes_32 { meta.length = 160; LANES_32 transition accept; }
#endif
    state whole { transition ALL_LANES; }
