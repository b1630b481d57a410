/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency mode's switch: random packets against a slow model, the largest job, what a dense switch does
 * with ACK. Argument: the seed.
 */
#include "core/latency/switch_latency_model.h"
#include "tests/random.h"

#include "core/dense/switch_fixture.h"

/* One job, some slots, each in both forms. The sums lie in memory of just their size, and so does each
 * packet: asan sees what goes astray. */
struct scene {
	struct switch_job job;
	struct {
		struct switch_latency_slot *slot;
		int32_t *sum;
		struct latency_model model;
	} slots[SLOTS];
	uint32_t seen[SWITCH_VERDICT_COUNT], answers[WIRE_TYPE_END];
};

static void scene_open(struct scene *scene, uint64_t number)
{
	struct switch_job *job = &scene->job;

	memset(scene, 0, sizeof(*scene));
	rng_init(&rng, seed, number);
	draw_job(job);
	job->mode = random_below(3) ? SWITCH_LATENCY_ACKNOWLEDGED : SWITCH_LATENCY;
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct latency_model *model = &scene->slots[i].model;

		scene->slots[i].slot = calloc(1, sizeof(struct switch_latency_slot));
		scene->slots[i].sum = calloc(job->lanes, sizeof(int32_t));
		if (random_below(2))
			continue; /* as new: no packet has touched it */
		latency_model_new(job, model, job->generation);
		model->round = 0u - random_below(6);
		memset(scene->slots[i].slot, 0xa5,
		       sizeof(*scene->slots[i].slot)); /* an old life's */
		switch_latency_slot_reset(job, scene->slots[i].slot, job->generation);
		scene->slots[i].slot->round = model->round;
	}
}

static void scene_close(struct scene *scene)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		free(scene->slots[i].slot);
		free(scene->slots[i].sum);
	}
}

/* A child that is not in the set; any if all are. */
static uint16_t draw_missing(struct scene *scene, const bool *set)
{
	uint32_t children = scene->job.children, child = random_below(children);

	for (uint32_t i = 0; i < children && set[child]; i++)
		child = (child + 1) % children;
	return (uint16_t)child;
}

/* A packet that brings its slot on. */
static void draw_helpful(struct scene *scene, const struct latency_model *model,
			 struct wire *packet)
{
	const struct switch_job *job = &scene->job;
	bool is_acknowledged = job->mode == SWITCH_LATENCY_ACKNOWLEDGED;
	bool is_new = model->generation != job->generation;

	packet->type = WIRE_UPDATE;
	packet->seq = model->round;
	packet->tag = model->tag;
	if (!is_new && !latency_model_all(job, model->in)) {
		packet->child = draw_missing(scene, model->in);
		packet->lanes = (uint16_t)model->lanes;
	} else if (!is_new && is_acknowledged && !latency_model_all(job, model->has_acked)) {
		packet->type = WIRE_ACK;
		packet->child = draw_missing(scene, model->has_acked);
	} else {
		packet->seq = is_new ? 1 : model->round + 1;
		packet->child = (uint16_t)random_below(job->children);
		packet->lanes = (uint16_t)(4 * random_below(job->lanes / 4 + 1u));
		packet->tag = random_below(3);
	}
	if (!random_below(8))
		packet->flags = (uint8_t)(random_below(8) << 5);
}

/* Any packet, more or less like one that might come. */
static void draw_wild(struct scene *scene, const struct latency_model *model, struct wire *packet)
{
	static const uint8_t types[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_ACK, WIRE_ACK };

	packet->type = types[random_below(4)];
	if (!random_below(30))
		packet->type = (uint8_t)(1 + random_below(7));
	packet->seq = model->round + random_below(7) - 3;
	if (!random_below(20))
		packet->seq = random_below(2) ? 1 : rng_u32(&rng);
	if (!random_below(10))
		packet->generation += random_below(4) - 2;
	packet->child = (uint16_t)random_below(scene->job.children + (random_below(20) ? 0u : 3u));
	if (!random_below(30))
		packet->slot = (uint16_t)(SLOTS + random_below(3));
	packet->tag = random_below(5) ? model->tag : random_below(3);
	packet->flags = (uint8_t)(random_below(8) << 5);
	if (!random_below(10))
		packet->flags |= (uint8_t)random_below(32);
	if (packet->type == WIRE_UPDATE || packet->type == WIRE_RESULT)
		packet->lanes = random_below(4)
					? (uint16_t)model->lanes
					: (uint16_t)(4 * random_below(scene->job.lanes / 4 + 3u));
}

static void states_are_same(const struct scene *scene, uint32_t index, const char *when)
{
	const struct switch_latency_slot *slot = scene->slots[index].slot;
	const struct latency_model *model = &scene->slots[index].model;
	bool is_same = slot->generation == model->generation && slot->round == model->round &&
		       slot->tag == model->tag && slot->lanes == model->lanes &&
		       slot->flags == model->flags && slot->last == model->last;

	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
		is_same &= switch_set_has(slot->sum_bitmap, i) == model->in[i] &&
			   switch_set_has(slot->ack_bitmap, i) == model->has_acked[i];
	is_same &= !memcmp(scene->slots[index].sum, model->sum, scene->job.lanes * sizeof(int32_t));
	slot_is_same(is_same, when);
}

/* One packet through both; they must agree in all that can be seen. */
static void packet_agrees(struct scene *scene, struct wire packet, const char *when)
{
	uint32_t index = packet.slot % SLOTS, lanes = packet.lanes;
	uint32_t *lane = draw_body(lanes);
	struct model_out out = { 0 };
	enum switch_verdict verdict;

	latency_model_take(&scene->job, &scene->slots[index].model, &packet, lane, &out);
	verdict = switch_latency_admit(&scene->job, &packet);
	if (!verdict)
		verdict = switch_latency_step(&scene->job, scene->slots[index].slot,
					      scene->slots[index].sum, &packet, (int32_t *)lane,
					      lane + lanes);
	free(lane);
	verdict_is_same(verdict, &out, when);
	states_are_same(scene, index, when);
	scene->seen[verdict]++;
	if (!out.count)
		return;
	scene->answers[packet.type]++;
	sent_is_same(&packet, scene->slots[index].sum, &out, 0, when);
}

static void scene_play(struct scene *scene, uint64_t number)
{
	char when[64];

	for (uint32_t i = 0; i < PACKETS; i++) {
		struct wire packet = { .slot = (uint16_t)random_below(SLOTS) };
		const struct latency_model *model = &scene->slots[packet.slot].model;

		snprintf(when, sizeof(when), "scene %u packet %u", (uint32_t)number, i);
		draw_restart(&scene->job);
		packet.generation = scene->job.generation;
		(random_below(10) < 7 ? draw_helpful : draw_wild)(scene, model, &packet);
		packet_agrees(scene, packet, when);
	}
}

static void random_packets_do_what_the_model_says(void **state)
{
	uint32_t seen[SWITCH_VERDICT_COUNT] = { 0 }, answers[WIRE_TYPE_END] = { 0 };
	struct scene scene;

	(void)state;
	for (uint64_t number = 0; number < SCENES; number++) {
		scene_open(&scene, number);
		scene_play(&scene, number);
		for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
			seen[i] += scene.seen[i];
		for (uint32_t i = 0; i < WIRE_TYPE_END; i++)
			answers[i] += scene.answers[i];
		scene_close(&scene);
	}
	printf("%u packets; verdicts from ABSORB on:", SCENES * PACKETS);
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		printf(" %u", seen[i]);
		if (i != SWITCH_UP && i != SWITCH_HELD_UP && i != SWITCH_DROP_ADDRESS)
			assert_true(seen[i] > 20);
	}
	printf("; RESULT %u, HELD %u, CONFIRM %u\n", answers[WIRE_RESULT], answers[WIRE_HELD],
	       answers[WIRE_CONFIRM]);
	assert_true(answers[WIRE_RESULT] > 20);
	assert_true(answers[WIRE_HELD] > 20);
	assert_true(answers[WIRE_CONFIRM] > 20);
}

/* R-LAT-2 */
static void the_form_follows_from_slots_and_window(void **state)
{
	(void)state;
	assert_int_equal(switch_latency_mode(1, 1), SWITCH_LATENCY_ACKNOWLEDGED);
	assert_int_equal(switch_latency_mode(2, 1), SWITCH_LATENCY);
	assert_int_equal(switch_latency_mode(3, 2), SWITCH_LATENCY_ACKNOWLEDGED);
	assert_int_equal(switch_latency_mode(4, 2), SWITCH_LATENCY);
	assert_int_equal(switch_latency_mode(65536, 32768), SWITCH_LATENCY);
	assert_int_equal(switch_latency_mode(65535, 32768), SWITCH_LATENCY_ACKNOWLEDGED);
	assert_int_equal(switch_latency_mode(65536, 65536), SWITCH_LATENCY_ACKNOWLEDGED);
}

static void the_last_of_65536_slots_is_served_and_256_children_make_it_full(void **state)
{
	struct switch_job job = { .generation = 1,
				  .slots = SWITCH_LATENCY_SLOTS_MAX,
				  .lanes = 4,
				  .mode = SWITCH_LATENCY,
				  .enabled = 1 };
	struct switch_latency_slot slot = { 0 };
	int32_t sum[4] = { 0 };

	(void)state;
	switch_job_fill(&job, SWITCH_CHILDREN_MAX);
	for (uint32_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		int32_t lane[4] = { (int32_t)child, -(int32_t)child, 1, -1000 };
		struct wire packet = { .type = WIRE_UPDATE,
				       .generation = 1,
				       .seq = 1,
				       .slot = UINT16_MAX,
				       .child = (uint16_t)child,
				       .lanes = 4 };

		assert_int_equal(switch_latency_admit(&job, &packet), 0);
		assert_int_equal(switch_latency_step(&job, &slot, sum, &packet, lane, lane + 4),
				 child == 255 ? SWITCH_MULTICAST : SWITCH_ABSORB);
	}
	assert_int_equal(sum[0], 32640);
	assert_int_equal(sum[1], -32640);
	assert_int_equal(sum[2], 256);
	assert_int_equal(sum[3], -256000);
}

static void a_dense_switch_drops_ack_and_confirm(void **state)
{
	struct switch_job job = { .generation = 1, .slots = 1, .lanes = 4, .enabled = 1 };

	(void)state;
	switch_job_fill(&job, 2);
	for (uint8_t type = WIRE_ACK; type <= WIRE_CONFIRM; type++) {
		struct wire packet = { .type = type, .generation = 1, .seq = 1 };

		assert_int_equal(switch_admit(&job, &packet), SWITCH_DROP_TYPE);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_packets_do_what_the_model_says),
		cmocka_unit_test(the_form_follows_from_slots_and_window),
		cmocka_unit_test(the_last_of_65536_slots_is_served_and_256_children_make_it_full),
		cmocka_unit_test(a_dense_switch_drops_ack_and_confirm),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
