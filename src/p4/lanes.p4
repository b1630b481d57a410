/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.p4 - what is done to all lanes of a packet, in words that a program's actions consist of. */

#if HALVES
#define SUMS \
    SUM(0, a, 4) SUM(0, b, 4) SUM(0, c, 4) SUM(0, d, 4) SUM(1, a, 5) SUM(1, b, 5) SUM(1, c, 5) SUM(1, d, 5) \
    SUM(2, a, 6) SUM(2, b, 6) SUM(2, c, 6) SUM(2, d, 6) SUM(3, a, 7) SUM(3, b, 7) SUM(3, c, 7) SUM(3, d, 7)
#define EACH_SUM(do) do(0) do(1) do(2) do(3)
/* Two lanes in a pass: y becomes what the first sum is, or x what the second is. */
#define SUM_WORDS(name, x, y) \
    PAIR(name, SUMS_SIZE) \
    PAIR_ASKING(name, name##_to_assign, 32, value.lo = y; value.hi = x; said = value.lo;) \
    PAIR_ASKING(name, name##_to_add, 32, value.lo = value.lo + y; value.hi = value.hi + x; said = value.lo;) \
    PAIR_ASKING(name, name##_to_max, 32, value.lo = LARGER(value.lo, y); value.hi = LARGER(value.hi, x); \
        said = value.lo;) \
    PAIR_ASKING(name, name##_to_read, 32, said = value.hi;) \
    action name##_assign() { ASK(name##_to_assign, INDEX, y) } \
    action name##_add() { ASK(name##_to_add, INDEX, y) } \
    action name##_max() { ASK(name##_to_max, INDEX, y) } \
    action name##_read() { ASK(name##_to_read, INDEX, x) }
#else
#define SUMS_OF(i) SUM(i, a, i) SUM(i, b, i) SUM(i, c, i) SUM(i, d, i)
#define SUMS EACH_BLOCK(SUMS_OF)
#define EACH_SUM(do) EACH_BLOCK(do)
#define SUM_WORDS(name, x, y) \
    WORD(32, name, SUMS_SIZE) \
    TELLING(32, name, name##_to_assign, value = x;) \
    TELLING(32, name, name##_to_add, value = value + x;) \
    TELLING(32, name, name##_to_max, value = LARGER(value, x);) \
    ASKING(32, name, name##_to_read, 32, said = value;) \
    action name##_assign() { TELL(name##_to_assign, INDEX) } \
    action name##_add() { TELL(name##_to_add, INDEX) } \
    action name##_max() { TELL(name##_to_max, INDEX) } \
    action name##_read() { ASK(name##_to_read, INDEX, x) }
#endif
#define SUM_STEP(i) sum_##i##_a_step.apply(); sum_##i##_b_step.apply(); sum_##i##_c_step.apply(); sum_##i##_d_step.apply();
/* R-CHIP-2: assigned, added, the larger one; an answer reads. */
#define SUM(i, field, j) \
    SUM_WORDS(sum_##i##_##field, hdr.lanes[i].field, hdr.lanes[j].field) \
    table sum_##i##_##field##_step { \
        key = { meta.step: exact; } \
        actions = { sum_##i##_##field##_assign; sum_##i##_##field##_add; sum_##i##_##field##_max; \
            sum_##i##_##field##_read; NoAction; } \
        const default_action = NoAction(); \
        size = 8; \
        const entries = { \
            STEP_ASSIGN: sum_##i##_##field##_assign(); \
            STEP_ADD: sum_##i##_##field##_add(); \
            STEP_ADD_SHORT: sum_##i##_##field##_add(); \
            STEP_MAX: sum_##i##_##field##_max(); \
            STEP_READ: sum_##i##_##field##_read(); \
        } \
    }
/* R-CHIP-2: from block i on nothing has come. */
#define BLOCK_IS(i, number) hdr.lanes[i].a = number; hdr.lanes[i].b = number; hdr.lanes[i].c = number; hdr.lanes[i].d = number;
#define ZERO_BLOCK(i) BLOCK_IS(i, 0)
#define FILL(i, number) hdr.lanes[i].setValid(); BLOCK_IS(i, number)
#if LANES == 32
#define FILL_7(number) FILL(7, number)
#define FILL_6(number) FILL(6, number) FILL_7(number)
#define FILL_5(number) FILL(5, number) FILL_6(number)
#define FILL_4(number) FILL(4, number) FILL_5(number)
#define FILL_3(number) FILL(3, number) FILL_4(number)
#define FILL_2(number) FILL(2, number) FILL_3(number)
#define EACH_FILL(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7)
#else
#define FILL_2(number)
#define EACH_FILL(do) do(0) do(1)
#endif
#define FILL_1(number) FILL(1, number) FILL_2(number)
#define FILL_0(number) FILL(0, number) FILL_1(number)
#define FILLER(i) action zero_##i() { FILL_##i(0) } action least_##i() { FILL_##i(0x80000000) }
#define FILLS(i) zero_##i; least_##i;
#define FILL_ENTRIES(i) (4 * i, 2): least_##i(); (4 * i, _): zero_##i();
#define FILLERS \
    EACH_FILL(FILLER) \
    table fillers { \
        key = { hdr.tally.lanes: ternary; hdr.tally.flags[3:2]: ternary @name("operation"); } \
        actions = { EACH_FILL(FILLS) NoAction; } \
        const default_action = NoAction(); \
        size = 32; \
        const entries = { EACH_FILL(FILL_ENTRIES) } \
    }

/* What is beyond a RESULT's lanes does not travel. */
#if LANES == 32
#define CUT_7 hdr.lanes[7].setInvalid();
#define CUT_6 hdr.lanes[6].setInvalid(); CUT_7
#define CUT_5 hdr.lanes[5].setInvalid(); CUT_6
#define CUT_4 hdr.lanes[4].setInvalid(); CUT_5
#define CUT_3 hdr.lanes[3].setInvalid(); CUT_4
#define CUT_2 hdr.lanes[2].setInvalid(); CUT_3
#define CUT_ACTIONS action keep_8() { CUT_2 } action keep_12() { CUT_3 } action keep_16() { CUT_4 } \
    action keep_20() { CUT_5 } action keep_24() { CUT_6 } action keep_28() { CUT_7 }
#define CUTS keep_8; keep_12; keep_16; keep_20; keep_24; keep_28;
#define CUT_ENTRIES(say, copy) \
    (say, copy, _, 4): keep_4(); (say, copy, _, 8): keep_8(); (say, copy, _, 12): keep_12(); (say, copy, _, 16): keep_16(); \
    (say, copy, _, 20): keep_20(); (say, copy, _, 24): keep_24(); (say, copy, _, 28): keep_28(); \
    (say, copy, _, 32): NoAction();
#else
#define CUT_2
#define CUT_ACTIONS
#define CUTS
#define CUT_ENTRIES(say, copy) (say, copy, _, 4): keep_4(); (say, copy, _, 8): NoAction();
#endif
#define CUT_1 hdr.lanes[1].setInvalid(); CUT_2
#define CUT_0 hdr.lanes[0].setInvalid(); CUT_1

/* A child's bit. */
#define BIT_ENTRIES \
    0: bit_of(1 << 0); 1: bit_of(1 << 1); 2: bit_of(1 << 2); 3: bit_of(1 << 3); \
    4: bit_of(1 << 4); 5: bit_of(1 << 5); 6: bit_of(1 << 6); 7: bit_of(1 << 7); \
    8: bit_of(1 << 8); 9: bit_of(1 << 9); 10: bit_of(1 << 10); 11: bit_of(1 << 11); \
    12: bit_of(1 << 12); 13: bit_of(1 << 13); 14: bit_of(1 << 14); 15: bit_of(1 << 15); \
    16: bit_of(1 << 16); 17: bit_of(1 << 17); 18: bit_of(1 << 18); 19: bit_of(1 << 19); \
    20: bit_of(1 << 20); 21: bit_of(1 << 21); 22: bit_of(1 << 22); 23: bit_of(1 << 23); \
    24: bit_of(1 << 24); 25: bit_of(1 << 25); 26: bit_of(1 << 26); 27: bit_of(1 << 27); \
    28: bit_of(1 << 28); 29: bit_of(1 << 29); 30: bit_of(1 << 30); 31: bit_of(1 << 31);
