/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_latency_fuzz.c - packets of any kind to a worker in latency mode, with timers at any time. A
 * RESULT is stored if and only if it is the answer to what was sent last in its slot, once; operations
 * complete in their order, each after its result; what is sent belongs to the window.
 */
#include "core/latency/worker_latency.h"

#include "core/shared/map.h"
#include "tests/fuzz/input.h"

enum { SLOTS_MAX = 8, OPS_MAX = 16, LANES = 8, GENERATION = 7, JOB = 5, CHILD = 1, STEPS_MAX = 64 };

static struct {
	struct worker_latency worker;
	struct worker_latency_slot slot[SLOTS_MAX];
	struct worker_latency_op_state ops[OPS_MAX];
	uint32_t count[OPS_MAX];                   /* of operation k, at k mod OPS_MAX */
	bool is_stored[OPS_MAX];                   /* likewise */
	bool is_due[SLOTS_MAX];                    /* an UPDATE was sent, no result has come */
	bool is_acked[SLOTS_MAX];                  /* an ACK was sent, no CONFIRM has come */
	uint64_t k[SLOTS_MAX];                     /* the operation that uses it, */
	uint32_t tag[SLOTS_MAX], lanes[SLOTS_MAX]; /* and how it was sent */
	uint64_t submitted, started, done;
} test;

static uint64_t hash_of(uint64_t k)
{
	return k * 0x9e3779b97f4a7c15ull + test.count[k % OPS_MAX];
}

static void header_check(const struct worker_latency_actions *actions, enum wire_type type,
			 uint64_t k)
{
	const struct wire *header = &actions->header;

	FUZZ_CHECK(header->type == type);
	FUZZ_CHECK(header->generation == GENERATION);
	FUZZ_CHECK(header->job == JOB);
	FUZZ_CHECK(header->child == CHILD);
	FUZZ_CHECK(header->slot == k % test.worker.slots);
	FUZZ_CHECK(header->slot == actions->slot);
	FUZZ_CHECK(header->seq == (uint32_t)(k / test.worker.slots + 1));
	FUZZ_CHECK(header->tag == test.tag[header->slot]);
	FUZZ_CHECK(header->lanes == (type == WIRE_UPDATE ? test.lanes[header->slot] : 0));
}

static void done_check(const struct worker_latency_actions *actions)
{
	if (!actions->done)
		return;
	FUZZ_CHECK(actions->done_first == test.done);
	for (uint32_t i = 0; i < actions->done; i++, test.done++) {
		FUZZ_CHECK(test.done < test.started);
		FUZZ_CHECK(test.is_stored[test.done % OPS_MAX]);
	}
}

static void submit(struct fuzz_input *input)
{
	uint32_t count = fuzz_u8(input) % (LANES + 1u);
	struct worker_latency_op op = { .count = count, .cookie = test.submitted };
	struct worker_latency_event event = { .type = WORKER_LATENCY_SUBMIT, .op = &op };
	struct worker_latency_actions actions;

	if (!worker_latency_has_room(&test.worker))
		return;
	test.count[test.submitted % OPS_MAX] = count;
	test.is_stored[test.submitted % OPS_MAX] = false;
	op.hash = hash_of(test.submitted++);
	worker_latency_step(&test.worker, &event, &actions);
}

static void start(void)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_START };
	struct worker_latency_actions actions;
	uint32_t slot;

	if (!worker_latency_may_start(&test.worker, &slot))
		return;
	FUZZ_CHECK(test.started < test.submitted);
	FUZZ_CHECK(test.started - test.done < test.worker.window);
	FUZZ_CHECK(slot == test.started % test.worker.slots);
	FUZZ_CHECK(!test.is_due[slot] && !test.is_acked[slot]);
	worker_latency_step(&test.worker, &event, &actions);
	FUZZ_CHECK(actions.build);
	FUZZ_CHECK(actions.op == test.started);
	test.tag[slot] = map_tag(hash_of(test.started), 0);
	test.lanes[slot] = (test.count[test.started % OPS_MAX] + 3) / 4 * 4;
	header_check(&actions, WIRE_UPDATE, test.started);
	test.is_due[slot] = true;
	test.k[slot] = test.started++;
}

static void resend(uint32_t slot)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_RESEND, .slot = slot };
	struct worker_latency_actions actions;

	if (!test.is_due[slot] && !test.is_acked[slot])
		return;
	worker_latency_step(&test.worker, &event, &actions);
	FUZZ_CHECK(actions.resend == test.is_due[slot]);
	FUZZ_CHECK(actions.ack == test.is_acked[slot]);
	if (actions.ack)
		header_check(&actions, WIRE_ACK, test.k[slot]);
}

static void packet_draw(struct fuzz_input *input, uint8_t what, struct wire *packet)
{
	static const uint8_t types[] = { WIRE_RESULT,  WIRE_RESULT, WIRE_CONFIRM, WIRE_HELD,
					 WIRE_CONFIRM, WIRE_RESULT, WIRE_UPDATE,  WIRE_NEED };
	uint32_t slot = (what >> 3 & 7) % test.worker.slots;
	uint8_t wrong = fuzz_u8(input);

	*packet = (struct wire){ .type = types[what & 7],
				 .job = JOB,
				 .generation = GENERATION,
				 .slot = (uint16_t)slot,
				 .seq = test.slot[slot].seq,
				 .tag = test.slot[slot].tag,
				 .child = wrong & 3 };
	if (packet->type == WIRE_RESULT)
		packet->lanes = test.slot[slot].lanes;
	packet->flags = wrong & 4 ? WIRE_RANGE : 0;
	if (wrong < 0x80)
		return;
	packet->generation += wrong & 1;
	packet->job += wrong >> 1 & 1;
	packet->seq += (wrong >> 2 & 3) - 1u;
	packet->tag ^= wrong & 0x10 ? fuzz_u32(input) : 0;
	if (wrong & 0x20)
		packet->slot = fuzz_u16(input);
	if (wrong & 0x40) {
		packet->flags = fuzz_u8(input);
		packet->lanes = fuzz_u8(input) % 5 * 4;
	}
}

/* R-LAT-13, once more. False: the packet must change nothing. */
static bool is_mine(const struct wire *packet)
{
	return packet->generation == GENERATION && packet->job == JOB &&
	       packet->slot < test.worker.slots &&
	       (test.is_due[packet->slot] || test.is_acked[packet->slot]) &&
	       packet->seq == (uint32_t)(test.k[packet->slot] / test.worker.slots + 1);
}

static bool give(struct fuzz_input *input, uint8_t what)
{
	struct worker_latency_actions actions;
	struct wire packet;
	struct worker_latency_event event = { .type = WORKER_LATENCY_PACKET, .packet = &packet };
	bool may_store, may_confirm, fits;
	uint32_t slot;

	packet_draw(input, what, &packet);
	may_store = is_mine(&packet) && packet.type == WIRE_RESULT && test.is_due[packet.slot];
	may_confirm = is_mine(&packet) && packet.type == WIRE_CONFIRM && test.is_acked[packet.slot];
	slot = packet.slot;
	fits = may_store && packet.tag == test.tag[slot] && packet.lanes == test.lanes[slot] &&
	       packet.flags % 32 == SWITCH_LATENCY_KIND;
	worker_latency_step(&test.worker, &event, &actions);
	FUZZ_CHECK(actions.store == fits);
	FUZZ_CHECK(actions.is_protocol_error == (may_store && !fits));
	FUZZ_CHECK(actions.is_answered == (fits || may_confirm));
	FUZZ_CHECK(!actions.build && !actions.resend);
	FUZZ_CHECK(!actions.is_held || (packet.type == WIRE_HELD && is_mine(&packet)));
	FUZZ_CHECK(actions.ack == (fits && test.worker.mode == SWITCH_LATENCY_ACKNOWLEDGED));
	if (fits) {
		FUZZ_CHECK(actions.op == test.k[slot]);
		FUZZ_CHECK(!test.is_stored[actions.op % OPS_MAX]);
		test.is_stored[actions.op % OPS_MAX] = true;
		test.is_due[slot] = false;
		test.is_acked[slot] = actions.ack;
		if (actions.ack)
			header_check(&actions, WIRE_ACK, test.k[slot]);
	}
	if (may_confirm)
		test.is_acked[slot] = false;
	done_check(&actions);
	return !actions.is_protocol_error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	uint8_t how = fuzz_u8(&input);
	uint32_t slots = 1 + how % SLOTS_MAX, window = 1 + (how >> 4) % slots;

	memset(&test, 0, sizeof(test));
	worker_latency_init(&test.worker, slots, window, LANES, OPS_MAX, test.slot, test.ops);
	test.worker.generation = GENERATION;
	test.worker.job = JOB;
	test.worker.child = CHILD;
	for (uint32_t i = 0; i < STEPS_MAX && input.left; i++) {
		uint8_t what = fuzz_u8(&input);

		if (what >= 0x40) {
			if (!give(&input, what))
				break;
		} else if (what & 1) {
			submit(&input);
			start();
		} else if (what & 2) {
			resend((what >> 2) % slots);
		} else {
			start();
		}
	}
	return 0;
}
