/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.p4 - what the switch does with packets that it does not serve: frames of others go where their MAC is, and what
 * is control's (HELLO, and what R-SW says that control is told) goes to the CPU port, where tallyd's host is.
 */
const bit<9> CPU_PORT = 64;
const bit<16> FLOOD_GROUP = 1;
const bit<16> FLOOD_REPLICA = 0x4000;
const bit<32> METER_GREEN = 0;

/* A frame goes to all ports until control has said where the MAC is. */
control forward(inout headers_t hdr, inout standard_metadata_t standard) {
    action to_port(bit<9> port) { standard.egress_spec = port; }
    action to_all() { standard.mcast_grp = FLOOD_GROUP; }
    table hosts {
        key = { hdr.ethernet.to: exact; }
        actions = { to_port; to_all; }
        default_action = to_all();
        size = 1024;
    }
    apply { hosts.apply(); }
}

/* So many from each port, and no more: the host behind the CPU port does other work as well. */
control to_cpu(inout standard_metadata_t standard) {
    meter(512, MeterType.packets) rate;
    counter(1, CounterType.packets) held_back;

    apply {
        bit<32> color;

        rate.execute_meter((bit<32>)standard.ingress_port, color);
        if (color != METER_GREEN) {
            held_back.count(0);
            mark_to_drop(standard);
        } else { standard.egress_spec = CPU_PORT; }
    }
}

/* Loses packets on purpose, so many of 65,536: what tally does about it can be tried on a network that loses none. */
control lose(inout standard_metadata_t standard, out bool is_lost) {
    register<bit<32>>(1) odds;
    counter(1, CounterType.packets) lost;

    apply {
        bit<32> limit;
        bit<32> dice;

        odds.read(limit, 0);
        random(dice, 0, 0xffff);
        is_lost = dice < limit;
        if (is_lost) {
            lost.count(0);
            mark_to_drop(standard);
        }
    }
}
