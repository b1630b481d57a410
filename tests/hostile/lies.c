/* SPDX-License-Identifier: Apache-2.0 */
/* lies.c - what a member may lie about; see liar.h. */
#include <string.h>

#include "liar.h"

/* ---- about data: the third UPDATE is the first of which everything is known ---- */

static bool is_update(const struct wire *packet)
{
	return packet->type == WIRE_UPDATE;
}

static bool is_data(const struct wire *packet)
{
	return is_update(packet) && wire_round_of(packet->flags) == WIRE_DATA && packet->lanes;
}

static void more_lanes(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2 && packet->lanes < LIAR_LANES)
		packet->lanes += 4;
	liar_send(packet, lane);
}

static void fewer_lanes(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2 && packet->lanes > 4)
		packet->lanes -= 4;
	liar_send(packet, lane);
}

/* Of a few floats: a round in which what a packet lacks is 0, so the aggregator cannot know who has too many. */
static bool is_short(const struct wire *packet)
{
	return is_data(packet) && wire_op_of(packet->flags) == WIRE_ADD_SHORT;
}

static void zeros_of_a_short_round(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	if (is_short(packet))
		packet->lanes += 4;
	liar_send(packet, lane);
}

/* More than the elements have. */
static void short_round_too_long(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	if (is_short(packet))
		packet->lanes = LIAR_LANES;
	liar_send(packet, lane);
}

static void odd_lanes(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2)
		packet->lanes -= 1;
	liar_send(packet, lane);
}

static void too_many_lanes(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2)
		packet->lanes = LIAR_LANES + 4;
	liar_send(packet, lane);
}

static void lanes_of_another_length(struct wire *packet, int32_t *lane, uint32_t nth)
{
	uint8_t bytes[WIRE_HEADER_BYTES + LIAR_LANES * WIRE_LANE_BYTES];

	if (!is_data(packet) || nth <= 2) {
		liar_send(packet, lane);
		return;
	}
	wire_put(bytes, packet);
	memset(bytes + WIRE_HEADER_BYTES, 0, sizeof(bytes) - WIRE_HEADER_BYTES);
	liar_send_raw(bytes, wire_bytes(packet->lanes) - 5);
}

static void another_tag(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_update(packet) && nth > 2)
		packet->tag ^= 1;
	liar_send(packet, lane);
}

static void seq_jumps(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_update(packet) && nth > 2)
		packet->seq += 7;
	liar_send(packet, lane);
}

/* Besides the true ones: from far behind, far ahead and around the wrap. */
static void seqs_of_all_kinds(struct wire *packet, int32_t *lane, uint32_t nth)
{
	static const uint32_t off[] = {
		2, 3, 0x7fffffff, 0x80000000, 0x80000001, (uint32_t)-2, (uint32_t)-3, 1000
	};
	struct wire copy = *packet;

	for (uint32_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		copy.seq = packet->seq + off[i];
		copy.tag = nth;
		liar_send(&copy, lane);
	}
	liar_send(packet, lane);
}

static void again_with_other_data(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	liar_send(packet, lane);
	if (!is_data(packet))
		return;
	for (uint32_t i = 0; i < packet->lanes; i++)
		lane[i] ^= 0x55555555;
	liar_send(packet, lane);
	liar_send(packet, lane);
}

static void other_values(struct wire *packet, int32_t *lane, uint32_t nth)
{
	bool is_int32 = is_data(packet); /* floats are scaled to nearly all of 31 bits */

	(void)nth;
	for (uint32_t i = 0; i < packet->lanes; i++)
		is_int32 &= lane[i] >= -4096 && lane[i] <= 4096;
	for (uint32_t i = 0; is_int32 && i < packet->lanes; i++)
		lane[i] += 1000;
	liar_send(packet, lane);
}

static void another_round(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2)
		packet->flags = (packet->flags & (uint8_t)~WIRE_ROUND_MASK) | WIRE_DETAIL;
	liar_send(packet, lane);
}

static void another_lane_op(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2)
		packet->flags |= WIRE_MAX << WIRE_OP_SHIFT;
	liar_send(packet, lane);
}

static void guess_unasked(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (is_data(packet) && nth > 2)
		packet->flags |= WIRE_ROUND_MASK;
	liar_send(packet, lane);
}

/* All add a DETAIL round, in which nobody has anything to add. */
static void sticky_without_cause(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	if (is_data(packet))
		packet->flags |= WIRE_NONFINITE | WIRE_RANGE;
	liar_send(packet, lane);
}

static void exponent_send(struct wire *packet, int32_t *lane, uint16_t exponent)
{
	if (is_update(packet) && wire_round_of(packet->flags) == WIRE_EXPONENT)
		packet->exponent = exponent;
	liar_send(packet, lane);
}

static void exponent_zero(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	exponent_send(packet, lane, 0);
}

static void exponent_largest(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	exponent_send(packet, lane, 254);
}

static void exponent_above_254(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	exponent_send(packet, lane, 0x7fff);
}

static void exponent_unknown(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	exponent_send(packet, lane, WIRE_EXPONENT_UNKNOWN);
}

/* Of the next chunk: then it has an EXPONENT round, and that is all. */
static void ahead_unknown(struct wire *packet, int32_t *lane, uint32_t nth)
{
	(void)nth;
	if (is_data(packet))
		packet->exponent = WIRE_EXPONENT_UNKNOWN;
	liar_send(packet, lane);
}

static void slots_beyond(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire copy = *packet;

	(void)nth;
	copy.slot = 0xffff;
	liar_send(&copy, lane);
	copy.slot = 0x7fff;
	liar_send(&copy, lane);
	liar_send(packet, lane);
}

/* A slot's first round, begun by the liar alone, before anybody has got there. */
static void slot_not_its_turn(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire copy = *packet;

	liar_send(packet, lane);
	if (!is_update(packet) || nth > 1)
		return;
	for (copy.slot = packet->slot + 1; copy.slot < packet->slot + 4u; copy.slot++) {
		copy.seq = 1;
		copy.tag = 4711;
		liar_send(&copy, lane);
	}
}

static void childs_of_others(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire copy = *packet;

	(void)nth;
	for (copy.child = 0; copy.child < 300; copy.child++)
		if (copy.child != packet->child)
			liar_send(&copy, lane);
	liar_send(packet, lane);
}

static void detail_out_of_turn(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire copy = *packet;

	(void)nth;
	liar_send(packet, lane);
	copy.flags = WIRE_DETAIL;
	copy.seq++;
	if (is_data(packet))
		liar_send(&copy, lane);
}

/* HELLOs for the others, with a nonce that is not theirs, and one's own packets from another socket. */
static void hello_for_others(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire hello = *packet;
	int32_t body[WIRE_HELLO_LANES] = { 1, 2, 3, 4 };

	(void)nth;
	hello.type = WIRE_HELLO;
	hello.flags = 0;
	hello.lanes = WIRE_HELLO_LANES;
	for (hello.child = 0; hello.child < 2; hello.child++) {
		hello.seq = 1u << 30;
		liar_send(&hello, body);
		liar_send_elsewhere(&hello, body);
	}
	if (packet->type != WIRE_HELLO) /* which would bind the liar to where it does not listen */
		liar_send_elsewhere(packet, lane);
	liar_send(packet, lane);
}

static void results_of_its_own(struct wire *packet, int32_t *lane, uint32_t nth)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_NEED,    WIRE_HELD,
					 WIRE_ACK,    WIRE_CONFIRM, WIRE_WELCOME };
	struct wire copy = *packet;

	(void)nth;
	for (uint32_t i = 0; i < sizeof(types); i++) {
		copy.type = types[i];
		copy.lanes = types[i] == WIRE_RESULT    ? packet->lanes
			     : types[i] == WIRE_WELCOME ? WIRE_HELLO_LANES
							: 0;
		liar_send(&copy, lane);
	}
	liar_send(packet, lane);
}

/* ---- about data in latency mode: the third UPDATE is operation 2's ---- */

/* The next round of the slot before, of whose last round it alone can know that it is complete. */
static void round_too_early(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire early = *packet;

	(void)nth;
	liar_send(packet, lane);
	if (!is_update(packet) || packet->slot != DEAF_SLOT + 1)
		return;
	early.slot = DEAF_SLOT;
	early.seq = packet->seq + 1;
	liar_send(&early, lane);
}

static void acks_unasked(struct wire *packet, int32_t *lane, uint32_t nth)
{
	struct wire ack = *packet;

	(void)nth;
	ack.type = WIRE_ACK;
	ack.lanes = 0;
	for (ack.seq = packet->seq - 2; ack.seq != packet->seq + 3; ack.seq++)
		liar_send(&ack, lane);
	liar_send(packet, lane);
}

/* ---- about control ---- */

static struct control_message message_of(enum control_type type)
{
	struct control_message message;

	memset(&message, 0, sizeof(message));
	message.type = type;
	return message;
}

/* From the fourth UPDATE on, nothing: so that the others say STALL, and everybody is asked. */
static void nothing_more(struct wire *packet, int32_t *lane, uint32_t nth)
{
	if (!is_update(packet) || nth <= 3)
		liar_send(packet, lane);
}

static void stall_storm(void)
{
	struct control_message stall = message_of(CONTROL_STALL);

	for (uint32_t i = 0; i < 3000; i++) {
		stall.stall.number = i % 3 ? i : INT64_MAX;
		stall.stall.waited_ms = i * 1000;
		stall.stall.is_expired = 0;
		liar_say_now(&stall);
	}
}

static void ping_storm(void)
{
	struct control_message ping = message_of(CONTROL_PING);

	for (uint32_t i = 0; i < 3000; i++) {
		ping.type = i % 2 ? CONTROL_PING : CONTROL_PONG;
		ping.ping.serial = i;
		liar_say_now(&ping);
	}
}

static void answers_unasked(void)
{
	struct control_message info = message_of(CONTROL_OPINFO);
	static const struct control_op op = { .number = 3, .count = 77 };

	info.opinfo.ops = &op;
	info.opinfo.ops_count = 1;
	info.opinfo.submitted = 4;
	for (uint32_t i = 0; i < 1000; i++) {
		info.opinfo.round = i;
		liar_say_now(&info);
	}
}

/* Operations that it has not, and others than those that the others have. */
static void false_lists(const struct control_message *message)
{
	static struct control_op ops[3];
	struct control_message mine = *message;

	if (message->type == CONTROL_OPINFO) {
		for (uint32_t i = 0; i < 3; i++)
			ops[i] = (struct control_op){ .number = i, .count = 99, .type = 7 };
		mine.opinfo.ops = ops;
		mine.opinfo.ops_count = 3;
		mine.opinfo.oldest = 0;
		mine.opinfo.submitted = 3;
	}
	liar_say(&mine);
}

static void lists_of_nothing(const struct control_message *message)
{
	struct control_message mine = *message;

	if (message->type == CONTROL_OPINFO) {
		mine.opinfo.ops_count = 0;
		mine.opinfo.oldest = 0;
		mine.opinfo.submitted = 0;
	}
	liar_say(&mine);
}

/* There is always more to come. */
static void lists_without_end(const struct control_message *message)
{
	struct control_message mine = *message;

	if (message->type == CONTROL_OPINFO) {
		mine.opinfo.ops_count = 0;
		mine.opinfo.has_more = 1;
		mine.opinfo.submitted = INT64_MAX;
	}
	liar_say(&mine);
}

static void leave_when_asked(const struct control_message *message)
{
	struct control_message leave = message_of(CONTROL_LEAVE);

	leave.leave.submitted = 1;
	liar_say(message->type == CONTROL_OPINFO ? &leave : message);
}

static void ready_lanes_few(const struct control_message *message)
{
	struct control_message mine = *message;

	if (message->type == CONTROL_READY)
		mine.lanes.lanes = 4;
	liar_say(&mine);
}

static void ready_lanes_many(const struct control_message *message)
{
	struct control_message mine = *message;

	if (message->type == CONTROL_READY)
		mine.lanes.lanes = WIRE_LANES_MAX;
	liar_say(&mine);
}

static void ready_early(const struct control_message *message)
{
	struct control_message ready = message_of(CONTROL_READY);

	ready.lanes.lanes = 4;
	liar_say(message);
	if (message->type == CONTROL_JOIN)
		liar_say(&ready);
}

static void leave_early(const struct control_message *message)
{
	struct control_message leave = message_of(CONTROL_LEAVE);

	liar_say(message);
	if (message->type == CONTROL_READY)
		liar_say(&leave);
}

static void abort_with_escapes(const struct control_message *message)
{
	struct control_message end = message_of(CONTROL_ABORT);

	liar_say(message);
	if (message->type != CONTROL_READY)
		return;
	end.end.cause = CONTROL_REMOTE;
	end.end.rank = 0; /* somebody else's doing */
	strcpy(end.end.text, "\x1b[2J\x1b]0;owned\x07 twisted\r\ntallyd: info: all is well\x7f");
	liar_say(&end);
}

static void words_of_the_aggregator(void)
{
	static const enum control_type types[] = {
		CONTROL_START, CONTROL_LEFT,     CONTROL_QUERY,
		CONTROL_PONG,  CONTROL_PROGRESS, CONTROL_WAITING
	};

	for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct control_message other = message_of(types[i]);

		if (other.type == CONTROL_START)
			other.start.lanes = 4;
		liar_say_now(&other);
	}
}

static void join_twice(const struct control_message *message)
{
	static struct control_message join;

	if (message->type == CONTROL_JOIN)
		join = *message;
	liar_say(message);
	if (message->type == CONTROL_READY) {
		join.join.rank = 0;
		liar_say(&join);
	}
}

static void no_json(const struct control_message *message)
{
	liar_say(message);
	if (message->type == CONTROL_READY)
		liar_say_raw("\0\0\0\x05nope!", 9);
}

static void a_frame_of_a_gigabyte(const struct control_message *message)
{
	liar_say(message);
	if (message->type == CONTROL_READY)
		liar_say_raw("\x40\0\0\0{", 5);
}

/* clang-format off */
const struct lie lies[] = {
	{ .name = "more_lanes", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = more_lanes },
	{ .name = "fewer_lanes", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = fewer_lanes },
	{ .name = "zeros_of_a_short_round", .end = LIE_HARMLESS, .is_few = true,
	  .packet = zeros_of_a_short_round },
	{ .name = "short_round_too_long", .end = LIE_NAMED, .is_few = true,
	  .word = "answered a round that was not asked", .packet = short_round_too_long },
	{ .name = "odd_lanes", .end = LIE_STALL, .is_named = true,
	  .word = "(a number of lanes that there is not)", .counter = " lanes", .packet = odd_lanes },
	{ .name = "too_many_lanes", .end = LIE_STALL, .is_named = true,
	  .word = "(more lanes than agreed)", .counter = "more lanes than agreed", .packet = too_many_lanes },
	{ .name = "lanes_of_another_length", .end = LIE_STALL, .is_named = true,
	  .word = "(another length than they say)", .counter = " length",
	  .packet = lanes_of_another_length },
	{ .name = "another_tag", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = another_tag },
	{ .name = "seq_jumps", .end = LIE_STALL, .is_named = true,
	  .word = "(rounds ahead of the others)", .counter = " alarm", .packet = seq_jumps },
	{ .name = "seqs_of_all_kinds", .end = LIE_HARMLESS, .counter = " stale",
	  .packet = seqs_of_all_kinds },
	{ .name = "again_with_other_data", .end = LIE_HARMLESS, .packet = again_with_other_data },
	{ .name = "other_values", .end = LIE_VOTE, .vote = 1000, .packet = other_values },
	{ .name = "another_round", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = another_round },
	{ .name = "another_lane_op", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = another_lane_op },
	{ .name = "guess_unasked", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = guess_unasked },
	{ .name = "sticky_without_cause", .end = LIE_HARMLESS, .packet = sticky_without_cause },
	{ .name = "exponent_zero", .end = LIE_HARMLESS, .packet = exponent_zero },
	{ .name = "exponent_largest", .end = LIE_VOTE, .votes_zero = true, .packet = exponent_largest },
	{ .name = "exponent_above_254", .end = LIE_VOTE, .votes_zero = true,
	  .packet = exponent_above_254 },
	{ .name = "exponent_unknown", .end = LIE_NAMED,
	  .word = "answered a round that was not asked", .packet = exponent_unknown },
	{ .name = "ahead_unknown", .end = LIE_HARMLESS, .packet = ahead_unknown },
	{ .name = "slots_beyond", .end = LIE_HARMLESS, .counter = " slot", .packet = slots_beyond },
	{ .name = "slot_not_its_turn", .end = LIE_NAMED, .is_named = true, .word = "differ", .packet = slot_not_its_turn },
	{ .name = "childs_of_others", .end = LIE_HARMLESS, .counter = " address",
	  .packet = childs_of_others },
	{ .name = "detail_out_of_turn", .end = LIE_HARMLESS, .packet = detail_out_of_turn },
	{ .name = "hello_for_others", .end = LIE_HARMLESS, .counter = "hello that binds nobody",
	  .packet = hello_for_others },
	{ .name = "results_of_its_own", .end = LIE_HARMLESS, .counter = "not for a switch",
	  .packet = results_of_its_own },
	{ .name = "latency_round_too_early", .end = LIE_STALL, .is_latency = true, .is_deaf = true,
	  .is_named = true, .word = "(rounds for which others had no result yet)",
	  .packet = round_too_early },
	{ .name = "latency_acks_unasked", .end = LIE_HARMLESS, .is_latency = true,
	  .counter = "not for a switch", .packet = acks_unasked },
	{ .name = "latency_another_tag", .end = LIE_NAMED, .is_latency = true, .is_named = true,
	  .word = "differ", .packet = another_tag },
	{ .name = "latency_fewer_lanes", .end = LIE_NAMED, .is_latency = true, .is_named = true,
	  .word = "differ", .packet = fewer_lanes },
	{ .name = "latency_too_many_lanes", .end = LIE_STALL, .is_latency = true, .is_named = true,
	  .word = "(more lanes than agreed)", .packet = too_many_lanes },
	{ .name = "latency_seq_jumps", .end = LIE_STALL, .is_latency = true, .is_named = true,
	  .word = "(rounds ahead of the others)", .packet = seq_jumps },
	{ .name = "latency_seqs_of_all_kinds", .end = LIE_HARMLESS, .is_latency = true,
	  .packet = seqs_of_all_kinds },
	{ .name = "latency_another_round", .end = LIE_STALL, .is_latency = true, .is_named = true,
	  .word = "(no packet for an aggregator)", .packet = another_round },
	{ .name = "latency_again_with_other_data", .end = LIE_HARMLESS, .is_latency = true,
	  .packet = again_with_other_data },
	{ .name = "latency_silent_data", .end = LIE_STALL, .is_latency = true,
	  .word = "the aggregator refused no packet of any rank", .packet = nothing_more },
	{ .name = "stall_storm", .end = LIE_HARMLESS, .started = stall_storm },
	{ .name = "ping_storm", .end = LIE_HARMLESS, .started = ping_storm },
	{ .name = "answers_unasked", .end = LIE_HARMLESS, .started = answers_unasked },
	{ .name = "silent_data", .end = LIE_STALL,
	  .word = "the aggregator refused no packet of any rank", .packet = nothing_more },
	{ .name = "false_lists", .end = LIE_NAMED, .word = "rank 2", .packet = nothing_more,
	  .control = false_lists },
	{ .name = "lists_of_nothing", .end = LIE_NAMED, .is_named = true,
	  .word = "says that it has called 0 operations", .packet = nothing_more,
	  .control = lists_of_nothing },
	{ .name = "lists_without_end", .end = LIE_STALL,
	  .word = "the aggregator refused no packet of any rank", .packet = nothing_more,
	  .control = lists_without_end },
	{ .name = "leave_when_asked", .end = LIE_NAMED, .word = "rank 2", .packet = nothing_more,
	  .control = leave_when_asked },
	{ .name = "ready_lanes_few", .end = LIE_HARMLESS, .control = ready_lanes_few },
	{ .name = "ready_lanes_many", .end = LIE_HARMLESS, .control = ready_lanes_many },
	/* Where the others are ready before its own HELLO is answered, START comes too early for it, and it ends. */
	{ .name = "ready_early", .end = LIE_EITHER, .word = "rank 2", .control = ready_early },
	{ .name = "leave_early", .end = LIE_NAMED, .word = "rank 2", .control = leave_early },
	{ .name = "abort_with_escapes", .end = LIE_NAMED, .word = "rank 2", .control = abort_with_escapes },
	{ .name = "words_of_the_aggregator", .end = LIE_HARMLESS, .started = words_of_the_aggregator },
	{ .name = "join_twice", .end = LIE_HARMLESS, .control = join_twice },
	{ .name = "no_json", .end = LIE_NAMED, .word = "rank 2", .control = no_json },
	{ .name = "a_frame_of_a_gigabyte", .end = LIE_NAMED, .word = "rank 2",
	  .control = a_frame_of_a_gigabyte },
};
/* clang-format on */
const size_t lies_count = sizeof(lies) / sizeof(lies[0]);
