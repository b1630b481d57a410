/* SPDX-License-Identifier: Apache-2.0 */
/* admission.p4 - inside of a program's ingress: what control writes and reads, R-WIRE-7 and R-SW-1. */
    COUNTERS(verdicts, 16)
    COUNTERS(faults, 8)
    LAYER

    action set_job(bit<32> generation, bit<32> full, bit<16> children, bit<32> slots, bit<16> lanes,
                   bit<32> base, bit<16> group) {
        meta.known = 1;
        meta.life_gap = hdr.tally.generation ^ generation;
        meta.child_gap = children |-| hdr.tally.child;
        meta.slot_gap = SLOTS_ABOVE(slots, hdr.tally.slot);
        meta.lanes_gap = lanes - hdr.tally.lanes; /* negative: too many */
        meta.at = hdr.tally.slot + base[15:0];
        meta.others = full;
        meta.group = group;
    }
    table jobs { key = { hdr.tally.job: exact; } actions = { set_job; NoAction; } size = 1024; }
    action mine() { meta.ours = 1; }
    table here { key = { hdr.ipv4.to: exact; hdr.udp.to: exact; } actions = { mine; NoAction; } size = 16; }
    /* R-WIRE-8: what HELLO has bound. */
    action bound() { meta.bound = 1; }
    table addresses {
        key = { hdr.tally.job: exact; hdr.tally.child: exact; hdr.ipv4.from: exact; hdr.udp.from: exact; }
        actions = { bound; NoAction; }
        size = ADDRESSES;
    }
    action bit_of(bit<32> child) {
        meta.child = child;
        meta.lanes_bytes = hdr.tally.lanes << 2;
    }
    action rest_is() { meta.rest = hdr.udp.length - meta.lanes_bytes; }
    table rest_of { actions = { rest_is; } const default_action = rest_is(); }
    table bits {
        key = { hdr.tally.child: exact; }
        actions = { bit_of; }
        const default_action = bit_of(0);
        size = 32;
        const entries = { BIT_ENTRIES }
    }

    /* R-WIRE-7, in the order of its table; lengths are judged by admit and refusals. */
    action is_of(bit<8> shape) {
        meta.shape = shape;
        meta.fault = WIRE_FAULT_LENGTH;
    }
    action is_no(bit<8> fault) {
        meta.shape = 0;
        meta.fault = fault;
    }
    table shapes {
        key = {
            hdr.tally.version: ternary;
            hdr.tally.type: ternary;
            hdr.tally.flags: ternary;
            hdr.tally.lanes: ternary;
        }
        actions = { is_of; is_no; }
        const default_action = is_no(WIRE_FAULT_VERSION);
        size = 32;
        const entries = {
            (WIRE_VERSION, 0, _, _): is_no(WIRE_FAULT_TYPE);
            (WIRE_VERSION, 10 &&& 14, _, _): is_no(WIRE_FAULT_TYPE);
            (WIRE_VERSION, 12 &&& 12, _, _): is_no(WIRE_FAULT_TYPE);
            /* more than WIRE_LANES_MAX, which is 0x3ff0 */
            (WIRE_VERSION, _, _, 0x8000 &&& 0x8000): is_no(WIRE_FAULT_LANES);
            (WIRE_VERSION, _, _, 0x4000 &&& 0x4000): is_no(WIRE_FAULT_LANES);
            (WIRE_VERSION, _, _, 0x3ff4 &&& 0x3ff4): is_no(WIRE_FAULT_LANES);
            (WIRE_VERSION, _, _, 0x3ff8 &&& 0x3ff8): is_no(WIRE_FAULT_LANES);
            UPDATE_SHAPES
            (WIRE_VERSION, WIRE_PROBE, _, 0): is_of(SHAPE_PROBE);
            (WIRE_VERSION, WIRE_ACK, _, 0): is_of(SHAPE_ACK);
            (WIRE_VERSION, WIRE_RESULT, 17 &&& 19, 0): is_of(SHAPE_BARE); /* EXPONENT and BARE */
            (WIRE_VERSION, WIRE_RESULT, WIRE_EXPONENT &&& WIRE_ROUND_MASK, 0): is_of(SHAPE_OTHER);
            (WIRE_VERSION, WIRE_RESULT, WIRE_EXPONENT &&& WIRE_ROUND_MASK, _): is_no(WIRE_FAULT_LANES);
            (WIRE_VERSION, WIRE_RESULT, WIRE_BARE &&& WIRE_BARE, 0 &&& 3): is_of(SHAPE_BARE);
            (WIRE_VERSION, WIRE_RESULT, _, 0 &&& 3): is_of(SHAPE_OTHER);
            (WIRE_VERSION, WIRE_HELLO &&& 14, _, 0): is_no(WIRE_FAULT_LANES); /* and WELCOME */
            (WIRE_VERSION, WIRE_HELLO &&& 14, _, 4): is_no(WIRE_FAULT_LANES);
            (WIRE_VERSION, WIRE_HELLO, _, 0 &&& 3): is_of(SHAPE_HELLO);
            (WIRE_VERSION, WIRE_WELCOME, _, 0 &&& 3): is_of(SHAPE_OTHER);
            (WIRE_VERSION, _, _, 0): is_of(SHAPE_OTHER);
            (WIRE_VERSION, _, _, _): is_no(WIRE_FAULT_LANES);
        }
    }

    /* R-SW-1 in its order. Rows judge the first check that fails: those behind it are any. */
    action refuse(bit<8> verdict) {
        meta.verdict = verdict;
        meta.fault = WIRE_OK;
    }
    action flag() { meta.fault = WIRE_FAULT_FLAGS; }
    table refusals {
        key = {
            meta.shape: ternary;
            meta.rest: ternary;
            meta.ip_gap: ternary;
            meta.known: ternary;
            meta.life_gap: ternary;
            meta.child_gap: ternary;
            meta.slot_gap: ternary;
            meta.lanes_gap: ternary;
            meta.acks: ternary;
        }
        actions = { refuse; flag; NoAction; }
        size = 16;
        const default_action = NoAction();
        const entries = {
            (0, _, _, _, _, _, _, _, _): NoAction();
            (SHAPE_BARE, 32, 20, _, _, _, _, _, _): flag();
            (SHAPE_OTHER, 32, 20, _, _, _, _, _, _): refuse(SWITCH_DROP_TYPE);
            (SHAPE_HELLO, 32, 20, _, _, _, _, _, _): refuse(SWITCH_ABSORB);
            (SHAPE_ACK, 32, 20, _, _, _, _, _, 0): refuse(SWITCH_DROP_TYPE); /* R-LAT-2 */
            REFUSED_SHAPES
            (_, 32, 20, 0, _, _, _, _, _): refuse(SWITCH_DROP_JOB);
            (_, 32, 20, _, 0, 0, _, _, _): refuse(SWITCH_DROP_CHILD);
            (_, 32, 20, _, 0, _, 0, _, _): refuse(SWITCH_DROP_SLOT);
            (_, 32, 20, _, 0, _, _, 0 &&& 0x8000, _): refuse(SWITCH_DROP_ADDRESS);
            (_, 32, 20, _, 0, _, _, _, _): refuse(SWITCH_DROP_LANES);
            (_, 32, 20, _, _, _, _, _, _): refuse(SWITCH_DROP_GENERATION);
        }
    }
