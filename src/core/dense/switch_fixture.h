/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_fixture.h - for the tests of both switch programs: random jobs and packets, held against a slow
 * model. Included once in a program, after tests/random.h.
 */
#ifndef CORE_SWITCH_FIXTURE_H
#define CORE_SWITCH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/dense/switch_model.h"

enum {
	LANES = MODEL_LANES, /* most lanes of a job here; packets may have 8 more */
	SLOTS = 3,
	SCENES = 80,
	PACKETS = 3000, /* per scene */
};

static void draw_job(struct switch_job *job)
{
	static const uint16_t children[] = { 1, 2, 3, 5, 8, 64, 65, 256 };

	switch_job_fill(job, children[random_below(8)]);
	job->generation = random_below(2) ? 0xfffffffd : 1 + random_below(100);
	job->lanes = (uint16_t)(4 + 4 * random_below(LANES / 4));
	job->slots = SLOTS;
	job->enabled = 1;
}

/* Now and then a restart; sometimes disabled for a while. */
static void draw_restart(struct switch_job *job)
{
	if (!random_below(600)) {
		job->generation += job->generation == 0xffffffff ? 2 : 1;
		job->enabled = random_below(4) != 0;
	} else if (!job->enabled && !random_below(20)) {
		job->enabled = 1;
	}
}

/* Of just its size: asan sees what goes astray. The caller frees it. */
static uint32_t *draw_body(uint32_t lanes)
{
	uint32_t *lane = malloc(lanes * sizeof(*lane));

	for (uint32_t i = 0; i < lanes; i++)
		lane[i] = random_below(4) ? rng_u32(&rng) : random_below(3) - 1;
	return lane;
}

static void verdict_is_same(enum switch_verdict verdict, const struct model_out *out,
			    const char *when)
{
	if (verdict != model_verdict(out))
		fail_msg("%s: verdict %d, the model's is %d (seed %#llx)", when, verdict,
			 model_verdict(out), (unsigned long long)seed);
}

static void slot_is_same(bool is_same, const char *when)
{
	if (!is_same)
		fail_msg("%s: the slot is not as in the model (seed %#llx)", when,
			 (unsigned long long)seed);
}

static void sent_is_same(const struct wire *packet, const int32_t *sum, const struct model_out *out,
			 uint32_t index, const char *when)
{
	if (!model_sent_is(out, index, packet, sum))
		fail_msg("%s: the answer is not the model's (seed %#llx)", when,
			 (unsigned long long)seed);
}

#endif
