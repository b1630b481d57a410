/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.p4 - what a pass finds out about a packet, and the words for it. */

/* Which pass: R-CHIP-3. AGAIN: where a pass says half of a sum, the second half of an answer. */
const bit<8> PASS_FIRST = 0;
const bit<8> PASS_LAST = 1;
const bit<8> PASS_AGAIN = 2;

const bit<8> SHAPE_UPDATE = 1;
const bit<8> SHAPE_PROBE = 2;
const bit<8> SHAPE_ACK = 3;
const bit<8> SHAPE_HELLO = 4;
const bit<8> SHAPE_OTHER = 5;
const bit<8> SHAPE_BARE = 6; /* RESULT with BARE */

/* BOTH_SAID's and SAID's answers; 0: nobody asked. Four bits, as a chip's ALU writes so many and no more. */
const bit<4> SAID_NONE = 1;
const bit<4> SAID_ONE = 2;
const bit<4> SAID_OTHER = 4;
const bit<4> SAID_BOTH = 8;

/* What comes: an UPDATE that may be a life's first, another one, a PROBE of a life's first round, another one, a last
 * pass, the second half of an answer. */
const bit<8> WAY_FIRST = 1;
const bit<8> WAY_UPDATE = 2;
const bit<8> WAY_ASKS = 3;
const bit<8> WAY_PROBE = 4;
const bit<8> WAY_LAST = 5;
const bit<8> WAY_AGAIN = 6;
const bit<8> WAY_ACK = 7;
const bit<8> WAY_ACK_LAST = 8;
const bit<8> WAY_EARLY = 9;

/* Where the packet stands towards the slot, besides SAID_: of another life. */
const bit<4> STANDS_FIRST = 3;
const bit<4> STANDS_ASKS = 5;
const bit<4> STANDS_STRANGE = 6;

const bit<8> STEP_ASSIGN = 1;
const bit<8> STEP_ADD = 2;
const bit<8> STEP_MAX = 3;
const bit<8> STEP_READ = 4;
const bit<8> STEP_ADD_SHORT = 5; /* what is not there is 0: as ADD */

const bit<8> DEED_LOOK = 0;
const bit<8> DEED_OPEN = 1;
const bit<8> DEED_PUT = 2;

/* What egress makes of it. */
const bit<8> SAY_NOTHING = 0;
const bit<8> SAY_RESULT = 1;
const bit<8> SAY_ALL = 2; /* the same, to all children */
const bit<8> SAY_HELD = 3;
const bit<8> SAY_NEED = 4;
const bit<8> SAY_CONFIRM = 5;
const bit<8> SAY_CONFIRM_ALL = 6;
const bit<8> SAY_TELL = 7; /* R-CHIP-8 */
const bit<8> SAY_HELLO = 8;

struct metadata_t {
    @field_list(1)
    bit<8> pass;
    bit<8> goes; /* the pass that it goes round for, or PASS_FIRST */
    bit<8> ours;
    bit<8> known;
    bit<8> bound;
    bit<8> shape;
    bit<8> fault; /* R-WIRE-7 */
    bit<8> verdict;
    bit<4> same_life;
    bit<8> way;
    bit<4> stands;
    bit<8> opens;
    bit<4> tag_said;
    bit<4> kind_said;
    bit<4> fits;
    bit<4> left_said;
    bit<8> combine; /* STEP_ADD, STEP_ADD_SHORT or STEP_MAX */
    bit<8> step;    /* what is done to the sums */
    bit<8> deed;    /* and to the copy's other words */
    bit<8> kind;
    bit<8> sticky;
    bit<8> next;
    bit<8> acks; /* 1: the job is of the acknowledged form, R-LAT-2 */
    bit<4> unsaid_said;
    bit<8> color; /* R-CHIP-8: 0, there is room */
    bit<16> own;
    bit<16> like; /* how many lanes fit */
    bit<16> replica;
    bit<16> length;
    bit<16> at; /* the slot */
    bit<16> of; /* its copy */
    bit<16> group;
    bit<16> length_gap;
    bit<16> rest; /* the length, but for lanes */
    bit<16> lanes_bytes;
    bit<16> ip_gap;
    bit<16> child_gap;
    bit<16> slot_gap;
    bit<16> lanes_gap;
    bit<32> life_gap;
    bit<32> child; /* its bit */
    bit<32> full;
    bit<32> others;
    bit<32> unsaid;
    bit<32> bare;
    bit<32> missing; /* its bit, if it was missing */
    bit<32> before;  /* the seq before */
    bit<32> free;    /* the round that is to be free, if the packet fits */
    bit<32> phase;
    bit<32> ahead;
}
