/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What golden packets cannot say of the switch program: random packets against a slow model, any
 * order of arrival, all sizes of jobs, memory. Argument: the seed.
 */
#include "tests/random.h"

#include "core/dense/switch_fixture.h"

/*
 * The scene: one job, some slots, each in both forms. The sums of a slot lie in memory of just
 * their size, and so does each packet: asan sees what goes astray.
 */
struct scene {
	struct switch_job job;
	struct {
		struct switch_slot *slot;
		int32_t *sum;
		struct model_slot model;
	} slots[SLOTS];
	uint32_t seen[SWITCH_VERDICT_COUNT];
};

static void scene_open(struct scene *scene, uint64_t number)
{
	struct switch_job *job = &scene->job;

	memset(scene, 0, sizeof(*scene));
	rng_init(&rng, seed, number);
	draw_job(job);
	job->index = (uint16_t)random_below(1024);
	job->has_parent = random_below(2) != 0;
	job->parent_job = (uint16_t)random_below(1024);
	job->parent_child = (uint16_t)random_below(256);
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct model_slot *model = &scene->slots[i].model;

		scene->slots[i].slot = calloc(1, sizeof(struct switch_slot));
		scene->slots[i].sum = calloc(2u * job->lanes, sizeof(int32_t));
		if (random_below(2))
			continue; /* as new: no packet has touched it */
		model_slot_new(job, model, job->generation);
		model->phase = 0u - random_below(6);
		switch_slot_reset(job, scene->slots[i].slot, job->generation);
		scene->slots[i].slot->phase = model->phase;
	}
}

static void scene_close(struct scene *scene)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		free(scene->slots[i].slot);
		free(scene->slots[i].sum);
	}
}

static uint16_t draw_exponent(void)
{
	uint32_t x = random_below(20);

	if (x < 2)
		return x ? 0 : WIRE_EXPONENT_UNKNOWN;
	return (uint16_t)(x < 12 ? random_below(255) : random_below(2047)); /* of a float64, too */
}

static uint8_t draw_kind(void)
{
	return (uint8_t)(random_below(4) | random_below(4) << 2);
}

static uint16_t draw_lanes(uint32_t lanes_max, uint8_t flags)
{
	if (flags % 4 == WIRE_EXPONENT)
		return 0;
	return (uint16_t)(4 * random_below(lanes_max / 4 + 1));
}

static uint16_t draw_missing(struct scene *scene, const struct model_slot *model)
{
	uint32_t children = scene->job.children, child = random_below(children);

	while (model->in[child])
		child = (child + 1) % children;
	return (uint16_t)child;
}

/* A packet that brings its slot on. True if it is the parent's. */
static bool draw_helpful(struct scene *scene, const struct model_slot *model, struct wire *packet)
{
	const struct model_copy *copy = &model->copy[model->phase % 2];
	bool is_new = model->generation != scene->job.generation;

	packet->type = WIRE_UPDATE;
	packet->seq = model->phase;
	if (!is_new && model_everybody(&scene->job, model) && !model->final) {
		packet->type = random_below(4) ? WIRE_RESULT : WIRE_NEED;
		packet->tag = copy->tag;
		packet->flags = (uint8_t)copy->flags;
		packet->lanes = packet->type == WIRE_NEED ? 0 : (uint16_t)copy->lanes;
		packet->child = random_below(2) ? scene->job.parent_child
						: (uint16_t)random_below(300);
		return true;
	}
	if (is_new || model_everybody(&scene->job, model)) {
		packet->seq = is_new ? 1 : model->phase + 1;
		packet->child = (uint16_t)random_below(scene->job.children);
		packet->flags = draw_kind();
		packet->lanes = draw_lanes(scene->job.lanes, packet->flags);
		packet->tag = random_below(3);
	} else {
		packet->child = draw_missing(scene, model);
		packet->flags = copy->flags % 16;
		packet->tag = copy->tag;
		packet->lanes = (uint16_t)copy->lanes;
		if (packet->flags >> 2 == WIRE_ADD_SHORT ||
		    (packet->flags >> 2 == WIRE_TAKE && !copy->lanes))
			packet->lanes = draw_lanes(scene->job.lanes, packet->flags);
		else if (packet->flags >> 2 == WIRE_TAKE)
			packet->lanes = 0;
	}
	packet->flags |= (uint8_t)(random_below(8) ? 0 : random_below(8) << 5);
	packet->flags |= random_below(2) ? WIRE_BARE : 0;
	return false;
}

/* Any packet, more or less like one that might come. True if it is the parent's. */
static bool draw_wild(struct scene *scene, const struct model_slot *model, struct wire *packet)
{
	static const uint8_t from_child[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_UPDATE, WIRE_PROBE };
	static const uint8_t from_parent[] = { WIRE_RESULT, WIRE_RESULT, WIRE_NEED, WIRE_HELD };
	bool is_parents = !random_below(5);
	const struct model_copy *copy;

	packet->type = (is_parents ? from_parent : from_child)[random_below(4)];
	if (!random_below(30))
		packet->type = (uint8_t)(1 + random_below(7));
	packet->seq = random_below(20) ? model->phase + random_below(7) - 3 : rng_u32(&rng);
	if (!random_below(20))
		packet->seq = 1;
	copy = &model->copy[packet->seq % 2];
	if (!random_below(10))
		packet->generation += random_below(4) - 2;
	packet->child = (uint16_t)random_below(scene->job.children + (random_below(20) ? 0u : 3u));
	if (!random_below(30))
		packet->slot = (uint16_t)(SLOTS + random_below(3));
	packet->tag = random_below(5) ? copy->tag : random_below(3);
	packet->flags = random_below(4) ? (uint8_t)copy->flags : draw_kind();
	packet->flags |= (uint8_t)(random_below(4) << 5);
	if (packet->type == WIRE_UPDATE || packet->type == WIRE_RESULT)
		packet->lanes = random_below(4) && packet->flags % 4 != WIRE_EXPONENT
					? (uint16_t)copy->lanes
					: draw_lanes(scene->job.lanes + 8u, packet->flags);
	if (!random_below(5))
		packet->lanes = 0;
	return is_parents;
}

static void states_are_same(const struct scene *scene, uint32_t index, const char *when)
{
	const struct switch_slot *slot = scene->slots[index].slot;
	const struct model_slot *model = &scene->slots[index].model;
	bool is_same = slot->generation == model->generation && slot->phase == model->phase &&
		       slot->final == model->final;

	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
		is_same &= switch_bitmap_has(slot, i) == model->in[i] &&
			   switch_set_has(slot->bare, i) == model->bare[i];
	for (uint32_t v = 0; v < 2; v++) {
		const struct switch_copy *copy = &slot->copy[v];
		const struct model_copy *want = &model->copy[v];

		is_same &= copy->tag == want->tag && copy->lanes == want->lanes &&
			   copy->flags == want->flags && copy->exponent == want->exponent &&
			   copy->last == want->last;
		is_same &= !memcmp(scene->slots[index].sum + v * scene->job.lanes, want->sum,
				   scene->job.lanes * sizeof(int32_t));
	}
	slot_is_same(is_same, when);
}

/* One packet through both; they must agree in all that can be seen. */
static void packet_agrees(struct scene *scene, struct wire packet, bool is_parents,
			  const char *when)
{
	uint32_t index = packet.slot % SLOTS, lanes = packet.lanes;
	struct switch_slot *slot = scene->slots[index].slot;
	int32_t *sum = scene->slots[index].sum;
	uint32_t *lane = draw_body(lanes);
	struct model_out out = { 0 };
	enum switch_verdict verdict;

	(is_parents ? model_from_parent : model_from_child)(&scene->job, &scene->slots[index].model,
							    &packet, lane, &out);
	verdict = (is_parents ? switch_admit_from_parent : switch_admit)(&scene->job, &packet);
	if (!verdict)
		verdict = (is_parents ? switch_from_parent
				      : switch_step)(&scene->job, slot, sum, scene->job.lanes,
						     &packet, (int32_t *)lane, lane + lanes);
	free(lane);
	verdict_is_same(verdict, &out, when);
	states_are_same(scene, index, when);
	if (out.count)
		sent_is_same(&packet, sum + packet.seq % 2 * scene->job.lanes, &out, 0, when);
	if (out.count == 2) {
		switch_probe_up(&scene->job, &packet);
		sent_is_same(&packet, sum, &out, 1, when);
	}
	scene->seen[verdict]++;
}

static void scene_play(struct scene *scene, uint64_t number)
{
	char when[64];

	for (uint32_t i = 0; i < PACKETS; i++) {
		struct wire packet = { .generation = scene->job.generation };
		const struct model_slot *model;
		bool is_parents;

		snprintf(when, sizeof(when), "scene %u packet %u", (uint32_t)number, i);
		draw_restart(&scene->job);
		packet.generation = scene->job.generation;
		packet.slot = (uint16_t)random_below(SLOTS);
		packet.exponent = draw_exponent();
		model = &scene->slots[packet.slot].model;
		is_parents =
			(random_below(10) < 7 ? draw_helpful : draw_wild)(scene, model, &packet);
		packet.job = is_parents ? scene->job.parent_job : scene->job.index;
		packet_agrees(scene, packet, is_parents, when);
	}
}

static void random_packets_do_what_the_model_says(void **state)
{
	uint32_t seen[SWITCH_VERDICT_COUNT] = { 0 };
	struct scene scene;

	(void)state;
	for (uint64_t number = 0; number < SCENES; number++) {
		scene_open(&scene, number);
		scene_play(&scene, number);
		for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
			seen[i] += scene.seen[i];
		scene_close(&scene);
	}
	printf("%u packets; verdicts from ABSORB on:", SCENES * PACKETS);
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		printf(" %u", seen[i]);
		assert_true(seen[i] > 20 || i == SWITCH_DROP_ADDRESS);
	}
	printf("\n");
}

static void order_shuffle(uint16_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = random_below(i + 1);

		order[i] = order[other];
		order[other] = (uint16_t)i;
	}
}

/* The sum over the children of an ADD or MAX round, sent in a random order. */
static void round_play(const struct switch_job *job, uint8_t flags, int32_t *sum,
		       struct wire *result)
{
	struct switch_slot slot = { 0 };
	uint16_t order[SWITCH_CHILDREN_MAX];

	order_shuffle(order, job->children);
	for (uint32_t i = 0; i < job->children; i++) {
		struct rng of_child = { .state = order[i] };
		int32_t lane[LANES];
		enum switch_verdict verdict;

		for (uint32_t k = 0; k < LANES; k++)
			lane[k] = (int32_t)rng_next(&of_child);
		*result = (struct wire){ .type = WIRE_UPDATE,
					 .flags = flags | (uint8_t)(order[i] == 7 ? WIRE_RANGE : 0),
					 .generation = job->generation,
					 .seq = 1,
					 .child = order[i],
					 .exponent = (uint16_t)rng_next(&of_child),
					 .lanes = LANES };
		verdict = switch_step(job, &slot, sum, LANES, result, lane, lane + LANES);
		assert_int_equal(verdict,
				 i + 1u < job->children ? SWITCH_ABSORB : SWITCH_MULTICAST);
	}
	assert_int_equal(result->child, order[job->children - 1]);
}

static void a_result_does_not_depend_on_the_order_of_arrival(void **state)
{
	static const uint8_t operations[] = { WIRE_ADD, WIRE_ADD_SHORT, WIRE_MAX };
	struct switch_job job = { .generation = 1, .lanes = LANES, .slots = 1, .enabled = 1 };

	(void)state;
	rng_init(&rng, seed, 1000);
	for (uint32_t i = 0; i < 300; i++) {
		uint8_t flags = (uint8_t)(operations[i % 3] << WIRE_OP_SHIFT);
		int32_t sum[2][2 * LANES];
		struct wire result[2];

		switch_job_fill(&job, 1 + random_below(SWITCH_CHILDREN_MAX));
		for (uint32_t k = 0; k < 2; k++) {
			round_play(&job, flags, sum[k], &result[k]);
			result[k].child = 0;
		}
		assert_memory_equal(&result[0], &result[1], sizeof(result[0]));
		assert_memory_equal(sum[0] + LANES, sum[1] + LANES, LANES * sizeof(int32_t));
	}
}

static void a_job_of_any_size_is_full_when_its_last_child_is_in(void **state)
{
	(void)state;
	for (uint32_t children = 1; children <= SWITCH_CHILDREN_MAX; children++) {
		struct switch_slot slot = { 0 };
		struct switch_job job;

		switch_job_fill(&job, children);
		assert_int_equal(job.children, children);
		for (uint32_t i = 0; i < children; i++) {
			assert_false(switch_bitmap_full(&job, &slot));
			assert_false(switch_bitmap_has(&slot, i));
			switch_set_put(slot.bitmap, i);
			assert_true(switch_bitmap_has(&slot, i));
		}
		assert_true(switch_bitmap_full(&job, &slot));
		for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
			assert_int_equal(job.full[i / 64] >> i % 64 & 1, i < children);
	}
}

/* No stride but the largest packet: asan, or malloc's own checks, see a lane too far. */
static void the_largest_packet_fits_its_copy(void **state)
{
	struct switch_job job = { .generation = 1, .slots = 1, .enabled = 1 };
	struct switch_slot slot = { 0 };
	size_t lanes = WIRE_LANES_MAX;
	int32_t *sum = calloc(2 * lanes, sizeof(*sum)), *lane = calloc(lanes, sizeof(*lane));

	(void)state;
	job.lanes = WIRE_LANES_MAX;
	switch_job_fill(&job, 2);
	for (size_t i = 0; i < lanes; i++)
		lane[i] = (int32_t)i;
	for (uint32_t i = 0; i < 8; i++) {
		struct wire packet = { .type = WIRE_UPDATE,
				       .generation = 1,
				       .seq = 1 + i / 2,
				       .child = i % 2,
				       .flags = (uint8_t)(i / 2 % 3 << WIRE_OP_SHIFT),
				       .lanes = WIRE_LANES_MAX };

		assert_int_equal(switch_admit(&job, &packet), 0);
		assert_int_equal(switch_step(&job, &slot, sum, WIRE_LANES_MAX, &packet, lane,
					     lane + lanes),
				 i % 2 ? SWITCH_MULTICAST : SWITCH_ABSORB);
		assert_int_equal(sum[(packet.seq % 2) * lanes + lanes - 1],
				 (i % 2 && i / 2 != 2 ? 2 : 1) * (int32_t)(lanes - 1));
	}
	free(sum);
	free(lane);
}

/* Its own child and job, and nothing of what the child had said. */
static void a_probe_up_says_which_round_and_nothing_else(void **state)
{
	struct switch_job job = { .parent_job = 0x1234, .parent_child = 0x5678 };
	struct wire packet;

	(void)state;
	memset(&packet, 0xff, sizeof(packet));
	packet.generation = 11;
	packet.seq = 12;
	packet.slot = 13;
	switch_probe_up(&job, &packet);
	assert_int_equal(packet.type, WIRE_PROBE);
	assert_int_equal(packet.flags, 0);
	assert_int_equal(packet.job, 0x1234);
	assert_int_equal(packet.child, 0x5678);
	assert_int_equal(packet.generation, 11);
	assert_int_equal(packet.seq, 12);
	assert_int_equal(packet.slot, 13);
	assert_int_equal(packet.exponent, 0);
	assert_int_equal(packet.lanes, 0);
	assert_int_equal(packet.tag, 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_packets_do_what_the_model_says),
		cmocka_unit_test(a_result_does_not_depend_on_the_order_of_arrival),
		cmocka_unit_test(a_job_of_any_size_is_full_when_its_last_child_is_in),
		cmocka_unit_test(the_largest_packet_fits_its_copy),
		cmocka_unit_test(a_probe_up_says_which_round_and_nothing_else),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
