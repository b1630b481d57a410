/* SPDX-License-Identifier: Apache-2.0 */
/* engine_jobs.c - the jobs of an engine, and its own life. */
#include "dataplane/engine_state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t memory_max_default = 1ull << 30;

static uint32_t stride_of(uint32_t lanes_max)
{
	return (lanes_max + ENGINE_LINE_LANES - 1u) / ENGINE_LINE_LANES * ENGINE_LINE_LANES;
}

static uint32_t copies_of(enum switch_mode mode)
{
	return mode == SWITCH_DENSE ? 2 : 1;
}

static uint64_t registers_of(enum switch_mode mode)
{
	return mode == SWITCH_DENSE ? sizeof(struct switch_slot)
				    : sizeof(struct switch_latency_slot);
}

uint64_t engine_slot_bytes(enum switch_mode mode, uint32_t lanes_max)
{
	return registers_of(mode) +
	       (uint64_t)copies_of(mode) * stride_of(lanes_max) * WIRE_LANE_BYTES;
}

static int job_memory_get(struct engine_soft *engine, struct job *job)
{
	uint64_t slots = job->program.slots;
	uint64_t slots_bytes = (slots * registers_of((enum switch_mode)job->program.mode) +
				ENGINE_LINE_BYTES - 1) /
			       ENGINE_LINE_BYTES * ENGINE_LINE_BYTES;
	uint64_t bytes = slots_bytes + slots * job->copies * job->stride * WIRE_LANE_BYTES;
	uint8_t *memory;
	void *sums;

	if (!account_take(&engine->account, bytes))
		return -ENOSPC;
	/* Zero until touched, and free until then. */
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		account_give(&engine->account, bytes);
		return -ENOMEM;
	}
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	sums = memory + slots_bytes;
	job->memory = memory;
	job->memory_bytes = bytes;
	if (engine_job_is_latency(job))
		job->latency_slots = job->memory;
	else
		job->slots = job->memory;
	job->sums = sums;
	return 0;
}

static void job_memory_put(struct engine_soft *engine, const struct job *job)
{
	account_give(&engine->account, job->memory_bytes);
	munmap(job->memory, job->memory_bytes);
}

static bool config_is_valid(const struct engine_job *config)
{
	return config->children && config->children <= SWITCH_CHILDREN_MAX && config->slots &&
	       config->slots <= SWITCH_LATENCY_SLOTS_MAX && config->lanes_max &&
	       config->lanes_max <= WIRE_LANES_MAX && config->mode <= SWITCH_LATENCY_ACKNOWLEDGED &&
	       (config->mode == SWITCH_DENSE || !config->has_parent);
}

int engine_job_add(struct engine_soft *engine, uint16_t idx, const struct engine_job *config)
{
	struct job *job;
	int error;

	if (!config_is_valid(config))
		return -EINVAL;
	if (idx >= engine->jobs_max)
		return -ENOSPC;
	if (engine->jobs[idx])
		return -EEXIST;
	job = calloc(1, sizeof(*job) + config->children * sizeof(job->children[0]));
	if (!job)
		return -ENOMEM;
	switch_job_fill(&job->program, config->children);
	job->program.generation = config->generation;
	job->program.index = idx;
	job->program.slots = config->slots;
	job->program.mode = config->mode;
	job->program.has_parent = config->has_parent;
	job->program.parent_job = config->parent_job;
	job->program.parent_child = config->parent_child;
	job->parent = config->parent;
	job->lanes_max = config->lanes_max;
	job->stride = stride_of(config->lanes_max);
	job->copies = copies_of((enum switch_mode)config->mode);
	job->has_nonces = config->nonces;
	for (uint32_t child = 0; config->nonces && child < config->children; child++)
		memcpy(job->children[child].at.nonce, config->nonces[child], WIRE_NONCE_BYTES);
	error = job_memory_get(engine, job);
	if (!error && engine->chip) {
		error = engine->chip->ops->add(engine->chip, &job->program);
		if (error)
			job_memory_put(engine, job);
	}
	if (error) {
		free(job);
		return error;
	}
	job->has_hook = engine->hook && engine_job_is_latency(job) &&
			!engine->hook->ops->add(engine->hook, &job->program);
	engine->jobs[idx] = job;
	if (config->has_parent)
		engine->nodes[engine->nodes_count++] = job;
	return 0;
}

/* Where the slot is. */
static struct switch_latency_slot latency_slot(const struct engine_soft *engine,
					       const struct job *job, uint32_t slot)
{
	struct switch_latency_slot state = job->latency_slots[slot];

	if (job->is_hooked)
		engine->hook->ops->read(engine->hook, job->program.index, slot, &state);
	return state;
}

/* Does a slot still hold something of this life? */
static bool is_held(const struct engine_soft *engine, const struct job *job, uint32_t generation)
{
	for (uint32_t slot = 0; slot < job->program.slots; slot++) {
		uint32_t its = engine_job_is_latency(job)
				       ? latency_slot(engine, job, slot).generation
				       : job->slots[slot].generation;

		if (its == generation)
			return true;
	}
	return false;
}

int engine_job_set(struct engine_soft *engine, uint16_t idx, uint32_t generation, uint16_t lanes,
		   bool enabled)
{
	struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	if (!generation || lanes % WIRE_LANES_STEP || lanes > job->lanes_max)
		return -EINVAL;
	if (generation != job->program.generation) {
		if (is_held(engine, job, generation))
			return -EINVAL;
		engine_events_forget(engine, job, false);
	}
	job->program.generation = generation;
	job->program.lanes = lanes;
	job->program.enabled = enabled;
	job->is_hooked = job->has_hook && engine->hook->ops->set(engine->hook, &job->program);
	return engine->chip ? engine->chip->ops->set(engine->chip, &job->program) : 0;
}

int engine_job_remove(struct engine_soft *engine, uint16_t idx)
{
	struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	for (uint32_t i = 0; i < engine->nodes_count; i++) {
		if (engine->nodes[i] == job)
			engine->nodes[i--] = engine->nodes[--engine->nodes_count];
	}
	if (job->has_hook)
		engine->hook->ops->remove(engine->hook, idx);
	if (engine->chip)
		engine->chip->ops->remove(engine->chip, idx);
	engine_events_forget(engine, job, true);
	job_memory_put(engine, job);
	free(job);
	engine->jobs[idx] = NULL;
	return 0;
}

struct engine_job_stats engine_job_stats(const struct engine_soft *engine, uint16_t idx)
{
	const struct job *job = engine_job_find(engine, idx);
	struct engine_job_stats stats = { 0 };
	struct hook_served served;
	struct chip_served chip;

	if (job)
		stats = job->stats;
	if (job && job->has_hook) {
		engine->hook->ops->served(engine->hook, idx, &served);
		stats.updates += served.updates;
		stats.again += served.again;
		stats.results += served.results;
		stats.hooked = served.updates;
	}
	if (job && engine->chip) {
		engine->chip->ops->served(engine->chip, idx, &chip);
		stats = (struct engine_job_stats){ .updates = chip.updates,
						   .again = chip.again,
						   .results = chip.results,
						   .hooked = chip.updates };
	}
	return stats;
}

int engine_child_bind(struct engine_soft *engine, uint16_t idx, uint16_t child,
		      const struct link_address *address)
{
	struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	if (child >= job->program.children)
		return -EINVAL;
	binding_set(&job->children[child].at, address);
	engine_child_bound(engine, job, child);
	return 0;
}

void engine_child_bound(struct engine_soft *engine, const struct job *job, uint16_t child)
{
	if (job->has_hook)
		engine->hook->ops->bind(engine->hook, job->program.index, child,
					&job->children[child].at.address);
}

int engine_rounds_begin(struct engine_soft *engine, uint16_t idx, uint32_t seq)
{
	struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	for (uint32_t slot = 0; slot < job->program.slots; slot++) {
		if (engine_job_is_latency(job)) {
			switch_latency_slot_reset(&job->program, &job->latency_slots[slot],
						  job->program.generation);
			job->latency_slots[slot].round = seq;
			if (job->is_hooked)
				engine->hook->ops->write(engine->hook, idx, slot,
							 &job->latency_slots[slot]);
			continue;
		}
		switch_slot_reset(&job->program, &job->slots[slot], job->program.generation);
		job->slots[slot].phase = seq;
	}
	return 0;
}

int engine_slot_read(const struct engine_soft *engine, uint16_t idx, uint16_t slot_index,
		     struct switch_slot *slot)
{
	const struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	if (slot_index >= job->program.slots || engine_job_is_latency(job))
		return -EINVAL;
	*slot = job->slots[slot_index];
	return 0;
}

int engine_latency_slot_read(const struct engine_soft *engine, uint16_t idx, uint16_t slot_index,
			     struct switch_latency_slot *slot)
{
	const struct job *job = engine_job_find(engine, idx);

	if (!job)
		return -ENOENT;
	if (slot_index >= job->program.slots || !engine_job_is_latency(job))
		return -EINVAL;
	*slot = latency_slot(engine, job, slot_index);
	return 0;
}

uint64_t engine_memory_used(const struct engine_soft *engine)
{
	return engine->account.used;
}

uint64_t engine_memory_max(const struct engine_soft *engine)
{
	return engine->account.max;
}

const struct engine_stats *engine_stats(struct engine_soft *engine)
{
	if (engine->hook)
		engine->hook->ops->counts(engine->hook, engine->stats.hooked);
	if (engine->chip)
		engine->chip->ops->counts(engine->chip, engine->stats.hooked);
	return &engine->stats;
}

/* ---- the engine ---- */

struct engine_soft *engine_open(const struct engine_options *options)
{
	struct engine_soft *engine = calloc(1, sizeof(*engine));

	assert(options->link);
	assert(options->jobs_max <= ENGINE_JOBS_LIMIT);
	if (!engine)
		return NULL;
	engine->link = options->link;
	engine->hook = options->hook;
	engine->chip = options->chip;
	engine->account.max = options->memory_max ? options->memory_max : memory_max_default;
	engine->jobs_max = options->jobs_max ? options->jobs_max : SWITCH_JOBS_MAX;
	engine->jobs = calloc(engine->jobs_max, sizeof(*engine->jobs));
	engine->nodes = calloc(engine->jobs_max, sizeof(*engine->nodes));
	engine->out_bytes =
		aligned_alloc(ENGINE_LINE_BYTES, (size_t)ENGINE_OUTS * ENGINE_OUT_BYTES);
	engine->due_ns = UINT64_MAX;
	if (options->tables_max)
		engine->sparse = engine_sparse_open(
			&(struct engine_sparse_options){ .link = options->link,
							 .tables_max = options->tables_max,
							 .account = &engine->account,
							 .registers = options->registers });
	if (!engine->jobs || !engine->nodes || !engine->out_bytes ||
	    (options->tables_max && !engine->sparse)) {
		engine_close(engine);
		return NULL;
	}
	return engine;
}

void engine_close(struct engine_soft *engine)
{
	if (!engine)
		return;
	for (uint32_t idx = 0; engine->jobs && idx < engine->jobs_max; idx++)
		(void)engine_job_remove(engine, (uint16_t)idx);
	engine_sparse_close(engine->sparse);
	free(engine->out_bytes);
	free(engine->nodes);
	free(engine->jobs);
	free(engine);
}
