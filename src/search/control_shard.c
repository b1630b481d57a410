/* SPDX-License-Identifier: Apache-2.0 */
/* control_shard.c - the shards of control.h's model, and operations; see control_world.h. */
#include "search/control_world.h"

#include <string.h>

void world_changed(struct world *world, uint32_t s)
{
	for (uint32_t other = 0; other < world->seats; other++)
		if (seat_is_second(world, seat_home(world, other)) ==
		    seat_is_second(world, seat_home(world, s)))
			world->state.seat[other].has_stalled = 0;
}

void world_ack_push(struct world *world, uint32_t shard, struct job_ack ack)
{
	struct job_ack *acks = world->state.job[world->at].shard[shard].acks;
	uint32_t count = 0;

	while (count < ACKS && acks[count].type)
		count++;
	if (count == ACKS)
		world_fail(world, "MODEL: a shard's queue of answers is too short");
	else
		acks[count] = ack;
}

bool world_is_owed(const struct world *world)
{
	for (uint32_t k = 0; k < world->config->shards; k++) {
		const struct shard *shard = &world->state.job[world->at].shard[k];

		if (shard->commands[0].type)
			return true;
		for (uint32_t i = 0; i < ACKS; i++)
			if (shard->acks[i].type >= ACK_OF)
				return true;
	}
	return false;
}

static void shard_execute(struct world *world, struct shard *shard,
			  const struct job_command *command)
{
	switch ((enum admission_command)(command->type - 1)) {
	case ADMISSION_JOB_ADD:
		if (shard->generation)
			world_fail(world, "SAFETY: a shard still holds the slots of another life");
		shard->generation = command->generation;
		memcpy(shard->who, command->who, sizeof(shard->who));
		break;
	case ADMISSION_JOB_SET:
		if (shard->generation == command->generation)
			shard->is_enabled = 1;
		break;
	case ADMISSION_JOB_REMOVE:
		shard->generation = 0;
		shard->is_enabled = 0;
		shard->has_told = 0;
		memset(shard->who, 0, sizeof(shard->who));
		memset(shard->first, 0, sizeof(shard->first));
		memset(shard->contributors, 0, sizeof(shard->contributors));
		break;
	}
}

void world_command(struct world *world, uint32_t index, bool has_failed)
{
	struct shard *shard = &world->state.job[world->at].shard[index];
	struct job_command command = shard->commands[0];

	memmove(shard->commands, shard->commands + 1, (COMMANDS - 1) * sizeof(command));
	memset(shard->commands + COMMANDS - 1, 0, sizeof(command));
	if (!has_failed)
		shard_execute(world, shard, &command);
	world_ack_push(world, index,
		       (struct job_ack){ .type = (uint8_t)(ACK_OF + command.type - 1),
					 .generation = command.generation,
					 .has_failed = has_failed });
}

static uint32_t shard_of(const struct world *world, uint32_t chunk)
{
	return chunk % CONTROL_OPS % world->config->shards;
}

/* A chunk's first operation decides: the same number, described alike, or MISMATCH. */
static bool is_alike(const struct world *world, uint32_t s, uint32_t first, uint32_t op)
{
	return strlen(seat_program(world, first)) > op &&
	       op_chunk(world, first, op) == op_chunk(world, s, op) &&
	       seat_program(world, first)[op] == seat_program(world, s)[op];
}

/* Its UPDATE, or a PROBE that asks for it again, arrives and changes something. */
bool world_may_add(const struct world *world, uint32_t s, uint32_t op)
{
	uint32_t chunk = op_chunk(world, s, op), rank = world->process[s]->rank;
	const struct shard *shard =
		&world->state.job[seat_job(world, s)].shard[shard_of(world, chunk)];
	const struct seat *seat = &world->state.seat[s];

	if (op >= world->state.seat[seat_home(world, s)].submitted || !shard->is_enabled ||
	    shard->generation != seat->generation || shard->who[rank] != s + 1 ||
	    shard->contributors[chunk] >> rank & 1 || seat->is_mute)
		return false;
	return !shard->first[chunk] || !shard->has_told ||
	       is_alike(world, s, shard->first[chunk] - 1u, op);
}

void world_add(struct world *world, uint32_t s, uint32_t op)
{
	uint32_t chunk = op_chunk(world, s, op), index = shard_of(world, chunk);
	world_select(world, seat_job(world, s));
	struct shard *shard = &world->state.job[world->at].shard[index];
	uint32_t rank = world->process[s]->rank;

	if (shard->first[chunk] && !is_alike(world, s, shard->first[chunk] - 1u, op)) {
		shard->has_told = 1;
		world_ack_push(world, index,
			       (struct job_ack){ .type = ACK_MISMATCH, .rank = (uint8_t)rank });
		return;
	}
	if (!shard->first[chunk])
		shard->first[chunk] = (uint8_t)(s + 1);
	shard->contributors[chunk] |= (uint8_t)(1u << rank);
	world_changed(world, s);
	for (uint32_t i = 0; i < CONTROL_RANKS; i++)
		if (shard->who[i] && !(shard->contributors[chunk] >> i & 1))
			return;
	for (uint32_t i = 0; i < CONTROL_RANKS; i++)
		if (shard->who[i])
			world->state.seat[shard->who[i] - 1].results |= (uint8_t)(1u << chunk);
}
