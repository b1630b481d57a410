/* SPDX-License-Identifier: Apache-2.0 */
/* finish.p4 - inside of a program's ingress: what is done with a packet when its registers have been used. */
    FILLERS
    CUT_ACTIONS
    /* Lanes are of a RESULT, and of what v1model tells control. R-SW-2, R-SW-15 */
    action keep_0() {
        CUT_0
        hdr.answer.width = 0;
    }
    action keep_4() { CUT_1 }
    table cut {
        key = {
            hdr.answer.say: ternary;
            hdr.answer.copy: ternary;
            hdr.tally.flags: ternary;
            hdr.answer.width: ternary;
        }
        actions = { keep_0; keep_4; CUTS NoAction; }
        const default_action = keep_0();
        size = 32;
        const entries = {
            (SAY_RESULT, _, WIRE_BARE &&& WIRE_BARE, _): keep_0();
            CUT_ENTRIES(SAY_RESULT, SAID_ONE)
            CUT_ENTRIES(SAY_ALL, SAID_ONE)
            TOLD_ENTRIES
        }
    }
    action hello() { /* R-CHIP-9 */
        hdr.answer.say = SAY_HELLO;
        hdr.tally.slot = (bit<16>)hdr.answer.port;
        hdr.tally.exponent = hdr.ethernet.from[47:32];
        hdr.tally.tag = hdr.ethernet.from[31:0];
        hdr.udp.checksum = 0;
    }

#define BEGIN \
    meta.length_gap = hdr.udp.length - meta.length; \
    here.apply(); \
    if (hdr.tally.isValid()) { \
        shapes.apply(); \
        jobs.apply(); \
        addresses.apply(); \
        bits.apply(); \
    } else { meta.fault = WIRE_FAULT_SHORT; } \
    rest_of.apply();

#define FINISH \
    if (meta.ours == 0) { \
        FORWARD \
    } else if (meta.fault != WIRE_OK) { \
        COUNT(faults, meta.fault) \
        DROP \
    } else if (meta.shape == SHAPE_HELLO) { \
        hello(); \
        TO_CONTROL \
    } else if (meta.goes != PASS_FIRST) { \
        hdr.answer.pass = meta.goes; \
        GO_ROUND \
    } else { \
        COUNT(verdicts, meta.verdict) \
        SERVED_ALL \
        TOLD_LANES \
        cut.apply(); \
        if (hdr.answer.say == SAY_NOTHING) { DROP } \
        else if (hdr.answer.say == SAY_ALL || hdr.answer.say == SAY_CONFIRM_ALL) { SEND_ALL(meta.group) } \
        else if (hdr.answer.say == SAY_TELL) { TO_CONTROL } \
        else { SEND_BACK } \
    }
