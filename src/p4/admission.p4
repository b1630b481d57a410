/* SPDX-License-Identifier: Apache-2.0 */
/* admission.p4 - inside of a program's ingress: what control writes and reads, and how a packet becomes its answer. */
    counter(32, CounterType.packets) verdicts;
    counter(8, CounterType.packets) faults;
    counter(4096, CounterType.packets) served; /* 4 of each job: UPDATEs, those that came again, complete rounds */
    register<bit<32>>(1) boot; /* control's: another after the switch has lost what control has written */
    shape() datagram;
    forward() forwarding;
    to_cpu() to_control;
    lose() losing;
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
        meta.is_answer = 1;
    }
