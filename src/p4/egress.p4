/* SPDX-License-Identifier: Apache-2.0 */
/* egress.p4 - of what ingress has found, the answer to a child: R-SW-3, R-SW-12, R-SW-15. Needs no register. */

EGRESS(switch_egress) {
    /* To a child, from the address that it sends to (R-WIRE-8). */
    action to(bit<48> mac, bit<32> ip, bit<16> port) {
        hdr.ethernet.from = hdr.ethernet.to;
        hdr.ethernet.to = mac;
        hdr.ipv4.from = hdr.ipv4.to;
        hdr.ipv4.to = ip;
        hdr.udp.from = hdr.udp.to;
        hdr.udp.to = port;
        hdr.ipv4.ttl = 64;
    }
    action back() {
        bit<48> mac = hdr.ethernet.to;
        bit<32> ip = hdr.ipv4.to;
        bit<16> port = hdr.udp.to;

        hdr.ethernet.to = hdr.ethernet.from;
        hdr.ethernet.from = mac;
        hdr.ipv4.to = hdr.ipv4.from;
        hdr.ipv4.from = ip;
        hdr.udp.to = hdr.udp.from;
        hdr.udp.from = port;
        hdr.ipv4.ttl = 64;
    }
    table children {
        key = { hdr.tally.job: exact; meta.replica: exact; }
        actions = { to; NoAction; }
        size = ADDRESSES;
    }

    action result() {
        hdr.tally.type = WIRE_RESULT;
        hdr.tally.flags = hdr.answer.kind | hdr.answer.sticky;
        hdr.tally.exponent = hdr.answer.own;
        hdr.tally.lanes = hdr.answer.width;
        hdr.tally.child = hdr.answer.last;
        hdr.tally.tag = hdr.answer.tag;
    }
    action result_of_guess() { /* R-WIRE-10 */
        hdr.tally.type = WIRE_RESULT;
        hdr.tally.flags = hdr.answer.kind | hdr.answer.sticky;
        hdr.tally.exponent = hdr.answer.own[7:0] ++ hdr.answer.next;
        hdr.tally.lanes = hdr.answer.width;
        hdr.tally.child = hdr.answer.last;
        hdr.tally.tag = hdr.answer.tag;
    }
    action empty() { /* R-SW-2 */
        hdr.tally.type = WIRE_RESULT;
        hdr.tally.flags = 0;
        hdr.tally.exponent = 0;
        hdr.tally.lanes = 0;
        hdr.tally.child = 0;
        hdr.tally.tag = 0;
    }
    action short_answer(bit<4> type) { /* R-SW-12 */
        hdr.tally.type = type;
        hdr.tally.flags = 0;
        hdr.tally.exponent = 0;
        hdr.tally.lanes = 0;
    }
    action untagged(bit<4> type) {
        hdr.tally.type = type;
        hdr.tally.flags = 0;
        hdr.tally.exponent = 0;
        hdr.tally.lanes = 0;
        hdr.tally.tag = 0;
    }
    action told() { /* R-CHIP-8 */
        hdr.tally.tag = (bit<32>)hdr.answer.verdict;
        hdr.tally.exponent = hdr.answer.last;
        hdr.tally.lanes = hdr.answer.width;
    }
    action told_alarm() {
        hdr.tally.tag = (bit<32>)SWITCH_DROP_ALARM;
        hdr.tally.exponent = WIRE_CHILD_OTHER;
        hdr.tally.lanes = hdr.answer.width;
    }
    table answers {
        key = {
            hdr.answer.say: ternary;
            hdr.answer.copy: ternary;
            hdr.answer.kind: ternary;
            hdr.answer.verdict: ternary;
            hdr.tally.type: ternary;
        }
        actions = { result; result_of_guess; empty; short_answer; untagged; told; told_alarm; NoAction; }
        size = 16;
        const default_action = NoAction();
        const entries = {
            (SAY_RESULT, SAID_ONE, WIRE_GUESS &&& WIRE_ROUND_MASK, _, _): result_of_guess();
            (SAY_ALL, SAID_ONE, WIRE_GUESS &&& WIRE_ROUND_MASK, _, _): result_of_guess();
            (SAY_RESULT, SAID_ONE, _, _, _): result();
            (SAY_ALL, SAID_ONE, _, _, _): result();
            (SAY_RESULT, _, _, _, _): empty();
            (SAY_ALL, _, _, _, _): empty();
            (SAY_HELD, _, _, _, WIRE_UPDATE): untagged(WIRE_HELD);
            (SAY_HELD, _, _, _, _): short_answer(WIRE_HELD);
            (SAY_NEED, _, _, _, WIRE_UPDATE): untagged(WIRE_NEED);
            (SAY_NEED, _, _, _, _): short_answer(WIRE_NEED);
            (SAY_CONFIRM, _, _, _, _): short_answer(WIRE_CONFIRM);
            (SAY_CONFIRM_ALL, _, _, _, _): short_answer(WIRE_CONFIRM);
            (SAY_TELL, _, _, SWITCH_DROP_ALARM, _): told_alarm();
            (SAY_TELL, _, _, _, _): told();
        }
    }
    action length(bit<16> udp, bit<16> ip) {
        hdr.udp.length = udp;
        hdr.ipv4.length = ip;
        hdr.udp.checksum = 0; /* R-CHIP-7 */
    }
    table lengths {
        key = { hdr.tally.lanes: exact; }
        actions = { length; }
        const default_action = length(32, 52);
        size = 16;
        const entries = {
            4: length(48, 68); 8: length(64, 84); 12: length(80, 100); 16: length(96, 116);
            20: length(112, 132); 24: length(128, 148); 28: length(144, 164); 32: length(160, 180);
        }
    }
    EGRESS_LAYER

    apply {
        GOES_ROUND
        meta.replica = REPLICA;
        LIMIT
        if (hdr.answer.say == SAY_NOTHING) {
            if (meta.replica == FLOOD_REPLICA && PORT_OUT == hdr.answer.port) { DROP }
        } else if (hdr.answer.say != SAY_HELLO) {
            LOSE
            if (hdr.answer.say == SAY_ALL || hdr.answer.say == SAY_CONFIRM_ALL) { children.apply(); }
            else if (hdr.answer.say != SAY_TELL) { back(); }
            answers.apply();
            BARE_SENT
            lengths.apply();
        }
        STRIP
    }
}
