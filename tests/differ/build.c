/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - step.h in user space, as the function DIFFER_BUILD: one object for each compiler and option. */
#include "tests/differ/differ.h"
#include "tests/differ/step.h"

CORE_INLINE const struct switch_job *differ_job(const struct differ_world *world, uint32_t index)
{
	return index < DIFFER_JOBS ? &world->jobs[index] : NULL;
}

CORE_INLINE struct differ_slot *differ_slot(const struct differ_world *world, uint32_t index)
{
	return index < DIFFER_SLOTS_ALL ? &world->slots[index] : NULL;
}

uint32_t DIFFER_BUILD(struct differ_world *world, struct differ_frame *frame, uint32_t bytes)
{
	return differ_step(world, frame, (const uint8_t *)frame + bytes);
}
