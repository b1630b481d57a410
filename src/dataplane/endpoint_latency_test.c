/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_latency_test.c - sums of endpoints in latency mode, both forms, whatever is lost: docs/protocol.md,
 * R-LAT-11 to R-LAT-18. */
#include "dataplane/endpoint_latency_fixture.h"

/* ---- a network that loses what it is told to ---- */

struct loss {
	enum wire_type type;
	uint32_t from, to; /* a child or TO_SWITCH */
	uint32_t left;     /* so many */
	uint32_t seen[WIRE_TYPE_END];
	uint32_t copies; /* of what was lost */
};

static bool is_lost_once(struct net *net, const struct wire *wire, uint32_t to)
{
	struct loss *loss = net->lost_arg;
	uint32_t from = to == TO_SWITCH ? wire->child : (uint32_t)TO_SWITCH;

	loss->seen[wire->type]++;
	if (wire->type != loss->type || to != loss->to || from != loss->from)
		return false;
	if (!loss->left) {
		loss->copies += (wire->flags & WIRE_RESENT) != 0;
		return false;
	}
	loss->left--;
	return true;
}

static void net_lose(struct net *net, struct loss *loss)
{
	net->is_lost = is_lost_once;
	net->lost_arg = loss;
}

/* ---- sums ---- */

static void sums(uint32_t form, uint32_t workers, uint32_t loss, uint64_t seed)
{
	struct net *net = net_open_as(workers, forms[form].slots, forms[form].window, loss, seed);

	submit_all(net, 0, OPS);
	assert_true(net_run(net, OPS, 60));
	assert_summed(net, 0, OPS);
	for (uint32_t w = 0; w < workers; w++) {
		struct endpoint_stats stats = stats_of(net, w);

		assert_int_equal(stats.updates_out, OPS);
		assert_int_equal(stats.results_in, OPS);
		if (!loss)
			assert_int_equal(stats.updates_resent, 0);
	}
	assert_int_equal(net->mismatches, 0);
	net_close(net);
}

static void latency__sums_in_both_forms(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < FORMS; form++)
		for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++)
			sums(form, workers, 0, 1);
}

static void latency__sums_in_both_forms_under_loss(void **state)
{
	uint64_t seed = seed_of_run();

	(void)state;
	for (uint32_t i = 0; i < 4 * FORMS; i++)
		sums(i % FORMS, 2 + i % 3, 10 + i, seed + i);
}

static void latency__keeps_what_the_link_has_no_room_for(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < FORMS; form++) {
		struct net *net =
			net_open_as(2, forms[form].slots, forms[form].window, 0, seed_of_run());

		for (uint32_t w = 0; w < 2; w++)
			net->links[w].link.ops = &narrow_ops;
		submit_all(net, 0, OPS);
		assert_true(net_run(net, OPS, 60));
		assert_summed(net, 0, OPS);
		net_close(net);
	}
}

static void latency__rounds_go_on_over_their_wrap(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < FORMS; form++) {
		struct net *net = net_open_as(3, forms[form].slots, forms[form].window, 0, 1);

		for (uint32_t w = 0; w < 3; w++)
			endpoint_rounds_begin(net->endpoints[w], UINT32_MAX - 1);
		for (uint32_t slot = 0; slot < forms[form].slots; slot++) {
			switch_latency_slot_reset(&net->job, &net->latency_slots[slot], GENERATION);
			net->latency_slots[slot].round = UINT32_MAX - 1;
		}
		submit_all(net, 0, OPS);
		assert_true(net_run(net, OPS, 60));
		assert_summed(net, 0, OPS);
		net_close(net);
	}
}

static void latency__sums_a_vector_in_several_buffers(void **state)
{
	struct net *net = net_open_as(2, 8, 4, 0, 1);
	int32_t in[2][2][8], out[2][2][8];
	struct endpoint_segment segments[2][2];

	(void)state;
	memset(out, 0x5a, sizeof(out));
	for (uint32_t w = 0; w < 2; w++) {
		struct endpoint_op op = op_of_type(LANES_INT32, 0, NULL, 8);

		for (uint32_t i = 0; i < 8; i++) {
			in[w][0][i] = value_of(w, 0, i);
			in[w][1][i] = value_of(w, 1, i);
		}
		segments[w][0] = (struct endpoint_segment){ 0, 3, in[w][0], out[w][0] };
		segments[w][1] = (struct endpoint_segment){ 3, 5, in[w][1], out[w][1] };
		op.segments = segments[w];
		op.segments_count = 2;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 1, 10));
	for (uint32_t w = 0; w < 2; w++)
		for (uint32_t part = 0; part < 2; part++)
			for (uint32_t i = 0; i < 8; i++)
				assert_int_equal(out[w][part][i],
						 i < (part ? 5 : 3) ? value_of(0, part, i) +
									      value_of(1, part, i)
								    : 0x5a5a5a5a);
	net_close(net);
}

/* ---- packets ---- */

/* Operations of one worker; the first of the packets that its endpoint then sends. */
static void ops_send(struct net *net, const uint32_t *ops, uint32_t count, struct packet *first)
{
	for (uint32_t i = 0; i < count; i++) {
		struct endpoint_op call = call_of(0, ops[i]);

		assert_int_equal(endpoint_submit(net->endpoints[0], &call), 0);
	}
	assert_true(endpoint_poll(net->endpoints[0]));
	assert_int_equal(net->to_switch.count, count);
	*first = net->to_switch.packets[net->to_switch.head];
}

static void latency__lanes_behind_the_last_element_are_zero(void **state)
{
	static const uint32_t full = 8, short_one = 10;
	struct net *net = net_open_as(1, 1, 1, 0, 2); /* even: lanes are little-endian */
	struct packet packet;
	int32_t lane[4];

	(void)state;
	ops_send(net, &full, 1, &packet); /* in the same slot before */
	assert_int_equal(packet.bytes, wire_bytes(8));
	while (!stats_of(net, 0).results_in || net->to_switch.count)
		net_step(net);
	while (endpoint_next(net->endpoints[0]) != PACE_NEVER) /* CONFIRM */
		net_step(net);
	ops_send(net, &short_one, 1, &packet);
	assert_int_equal(packet.bytes, wire_bytes(4));
	memcpy(lane, packet.data + WIRE_HEADER_BYTES, sizeof(lane));
	assert_int_equal(lane[0], value_of(0, short_one, 0));
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(lane[i], 0);
	net_close(net);
}

static void latency__barriers_go_as_one_message(void **state)
{
	static const uint32_t barriers[] = { 0, 9, 18, 27 };
	struct net *net = net_open_as(1, 8, 4, 0, 1);
	struct packet packet;

	(void)state;
	ops_send(net, barriers, 4, &packet);
	assert_int_equal(packet.bytes, WIRE_HEADER_BYTES);
	assert_int_equal(net->links[0].frames, 1);
	net_close(net);
}

/* ---- what is lost ---- */

static void latency__lost_update_is_sent_again(void **state)
{
	struct loss loss = { .type = WIRE_UPDATE, .from = 0, .to = TO_SWITCH, .left = 3 };
	struct net *net = net_open_as(2, 8, 4, 0, 1);

	(void)state;
	net_lose(net, &loss);
	submit_all(net, 7, 1);
	assert_true(net_run(net, 1, 1));
	assert_summed(net, 7, 1);
	assert_int_equal(stats_of(net, 0).updates_out, 1);
	assert_int_equal(stats_of(net, 0).updates_resent, 3);
	assert_int_equal(loss.copies, 1); /* the first that got through is marked as one */
	/* Meanwhile child 1 has asked, too, and was told that its own is there. */
	assert_true(stats_of(net, 1).updates_resent > 0);
	assert_true(stats_of(net, 1).held_in > 0);
	assert_int_equal(stats_of(net, 1).results_in, 1);
	assert_int_equal(loss.seen[WIRE_ACK], 0);
	assert_int_equal(loss.seen[WIRE_CONFIRM], 0);
	net_close(net);
}

/* R-LAT-16, R-LAT-7 */
static void latency__lost_result_is_asked_for_again_by_who_lacks_it(void **state)
{
	struct loss loss = { .type = WIRE_RESULT, .from = TO_SWITCH, .to = 1, .left = 2 };
	struct net *net = net_open_as(3, 8, 4, 0, 1);

	(void)state;
	net_lose(net, &loss);
	submit_all(net, 7, 1);
	assert_true(net_run(net, 1, 1));
	assert_summed(net, 7, 1);
	assert_int_equal(stats_of(net, 1).updates_resent, 2);
	assert_int_equal(stats_of(net, 1).results_in, 1);
	assert_int_equal(stats_of(net, 0).updates_resent, 0);
	assert_int_equal(stats_of(net, 2).updates_resent, 0);
	assert_int_equal(stats_of(net, 0).results_ignored, 0);
	net_close(net);
}

static void latency__self_acknowledging_form_sends_no_acks(void **state)
{
	struct loss loss = { .type = WIRE_TYPE_END };
	struct net *net = net_open_as(2, 8, 4, 0, 1);

	(void)state;
	net_lose(net, &loss);
	submit_all(net, 0, 40);
	assert_true(net_run(net, 40, 1));
	assert_int_equal(loss.seen[WIRE_UPDATE], 80);
	assert_int_equal(loss.seen[WIRE_RESULT], 80);
	assert_int_equal(loss.seen[WIRE_ACK], 0);
	assert_int_equal(loss.seen[WIRE_CONFIRM], 0);
	net_close(net);
}

static void latency__acknowledged_form_sends_one_ack_for_each_result(void **state)
{
	struct loss loss = { .type = WIRE_TYPE_END };
	struct net *net = net_open_as(2, 7, 4, 0, 1);

	(void)state;
	net_lose(net, &loss);
	submit_all(net, 0, 40);
	assert_true(net_run(net, 40, 1));
	for (uint32_t i = 0; i < 8; i++)
		net_step(net); /* the last CONFIRMs */
	assert_int_equal(loss.seen[WIRE_UPDATE], 80);
	assert_int_equal(loss.seen[WIRE_RESULT], 80);
	assert_int_equal(loss.seen[WIRE_ACK], 80);
	assert_int_equal(loss.seen[WIRE_CONFIRM], 80);
	for (uint32_t w = 0; w < 2; w++) /* nothing is on its way any more */
		assert_true(endpoint_next(net->endpoints[w]) == PACE_NEVER);
	net_close(net);
}

/* One slot: whatever holds it up holds up the next operation. */
static void latency__lost_ack_and_lost_confirm_are_made_up_for(void **state)
{
	struct loss losses[] = {
		{ .type = WIRE_ACK, .from = 0, .to = TO_SWITCH, .left = 2 },
		{ .type = WIRE_CONFIRM, .from = TO_SWITCH, .to = 0, .left = 2 },
	};

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct net *net = net_open_as(2, 1, 1, 0, 1);

		net_lose(net, &losses[i]);
		submit_all(net, 5, 2);
		assert_true(net_run(net, 1, 1));
		assert_int_equal(stats_of(net, 0).updates_out, 1); /* the slot waits for CONFIRM */
		assert_true(net_run(net, 1, 1));
		assert_int_equal(losses[i].left, 0);
		assert_summed(net, 5, 2);
		/* An ACK is no UPDATE: that was sent once. */
		assert_int_equal(losses[i].seen[WIRE_UPDATE],
				 4 + stats_of(net, 0).updates_resent +
					 stats_of(net, 1).updates_resent);
		assert_int_equal(stats_of(net, 0).updates_out, 2);
		if (losses[i].type == WIRE_ACK) {
			assert_true(losses[i].copies > 0); /* with RESENT */
			assert_true(stats_of(net, 1).held_in > 0);
		}
		net_close(net);
	}
}

static void latency__results_complete_in_their_order_whatever_order_they_come_in(void **state)
{
	struct loss loss = { .type = WIRE_RESULT, .from = TO_SWITCH, .to = 0, .left = 1 };
	struct net *net = net_open_as(2, 6, 3, 0, 1);

	(void)state;
	net_lose(net, &loss); /* the first operation's */
	submit_all(net, 0, 9);
	for (uint32_t i = 0; i < 20 && stats_of(net, 0).results_in < 2; i++)
		net_step(net);
	assert_int_equal(stats_of(net, 0).results_in, 2);
	assert_int_equal(net->done[0], 0);
	assert_true(is_summed(net, 0, 1)); /* stored when it came */
	assert_true(is_summed(net, 0, 2));
	assert_int_equal(stats_of(net, 0).updates_out, 3); /* P without a result */
	for (uint32_t i = 0; i < 1000 && (net->done[0] < 9 || net->done[1] < 9); i++)
		net_step(net); /* sees to the order */
	assert_int_equal(net->done[0], 9);
	assert_summed(net, 0, 9);
	net_close(net);
}

/* ---- elements that are too large ---- */

static void latency__range_on_one_rank_refuses_the_sum_on_all(void **state)
{
	static const uint32_t workers[] = { 1, 2, 3 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		int64_t bound = INT32_MAX / (int64_t)workers[i];
		const int64_t odd[] = { bound, -bound, bound + 1, -bound - 1 };

		for (uint32_t k = 0; k < 4; k++) {
			struct net *net = net_open_as(workers[i], 4, 2, 0, 1);
			bool is_over = k >= 2 && odd[k] <= INT32_MAX;

			if (odd[k] > INT32_MAX) { /* one rank alone: no such number */
				net_close(net);
				continue;
			}
			submit_all(net, 7, 1);
			calls[workers[i] - 1].in[7][6] = (int32_t)odd[k];
			submit_all(net, 8, 1);
			assert_true(net_run(net, 2, 10));
			assert_summed(net, 8, 1); /* the next one is none the worse */
			for (uint32_t w = 0; w < workers[i]; w++) {
				int64_t sum = odd[k];

				for (uint32_t other = 0; other + 1 < workers[i]; other++)
					sum += value_of(other, 7, 6);
				assert_int_equal(calls[w].is_range[7], is_over);
				assert_false(calls[w].is_range[8]);
				assert_int_equal(calls[w].out[7][6], is_over ? -1 : sum);
				assert_int_equal(calls[w].out[7][0] == -1, is_over);
			}
			net_close(net);
		}
	}
}

/* ---- timelines ---- */

static void latency__first_packet_of_an_operation_is_told(void **state)
{
	struct loss loss = { .type = WIRE_UPDATE, .from = 0, .to = TO_SWITCH, .left = 2 };
	struct net *net = net_open_as(2, 2, 1, 0, 1);
	uint64_t start_ns = net->now_ns;

	(void)state;
	net_lose(net, &loss);
	submit_all(net, 7, 2);
	assert_true(net_run(net, 2, 10));
	for (uint32_t w = 0; w < 2; w++) {
		assert_true(calls[w].first_ns[7] == start_ns); /* not when it came again */
		assert_true(calls[w].first_ns[8] > start_ns);  /* P is 1 */
		assert_true(calls[w].first_ns[8] < net->now_ns);
	}
	net_close(net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(latency__sums_in_both_forms),
		cmocka_unit_test(latency__sums_in_both_forms_under_loss),
		cmocka_unit_test(latency__keeps_what_the_link_has_no_room_for),
		cmocka_unit_test(latency__rounds_go_on_over_their_wrap),
		cmocka_unit_test(latency__sums_a_vector_in_several_buffers),
		cmocka_unit_test(latency__lanes_behind_the_last_element_are_zero),
		cmocka_unit_test(latency__barriers_go_as_one_message),
		cmocka_unit_test(latency__lost_update_is_sent_again),
		cmocka_unit_test(latency__lost_result_is_asked_for_again_by_who_lacks_it),
		cmocka_unit_test(latency__self_acknowledging_form_sends_no_acks),
		cmocka_unit_test(latency__acknowledged_form_sends_one_ack_for_each_result),
		cmocka_unit_test(latency__lost_ack_and_lost_confirm_are_made_up_for),
		cmocka_unit_test(
			latency__results_complete_in_their_order_whatever_order_they_come_in),
		cmocka_unit_test(latency__range_on_one_rank_refuses_the_sum_on_all),
		cmocka_unit_test(latency__first_packet_of_an_operation_is_told),
	};

	return cmocka_run_group_tests_name("endpoint_latency", tests, NULL, NULL);
}
