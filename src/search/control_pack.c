/* SPDX-License-Identifier: Apache-2.0 */
/* control_pack.c - states of control.h's model as bfs.h keeps them; see control_world.h. */
#include "search/control_world.h"

#include <assert.h>
#include <string.h>

enum { WORD = sizeof(uint64_t) };

/* Nothing but zeros is ever there: whole words of `bytes` at `at`. */
static void leave_out(struct world *world, bool is_in[], const void *at, size_t bytes)
{
	size_t offset = (size_t)((const uint8_t *)at - (const uint8_t *)&world->state);

	for (size_t i = (offset + WORD - 1) / WORD; i < (offset + bytes) / WORD; i++)
		is_in[i] = false;
}

static void leave_out_seat(struct world *world, bool is_in[], struct seat *seat)
{
	uint32_t shards = world->config->shards;

	leave_out(world, is_in, seat->member.port + shards,
		  (MAP_SHARDS_MAX - shards) * sizeof(seat->member.port[0]));
}

/* Hosts are "host0", lists of aggregators are told apart by their hashes. */
static void leave_out_peer(struct world *world, bool is_in[], struct admission_peer *peer)
{
	leave_out(world, is_in, peer->host + HOST, sizeof(peer->host) - HOST);
	leave_out(world, is_in, peer->list, sizeof(peer->list));
}

static void leave_out_job(struct world *world, bool is_in[], uint32_t index)
{
	struct job *job = &world->state.job[index];
	size_t bytes = admission_bytes(&world->admission[index]);

	for (uint32_t k = world->config->shards; k < CONTROL_SHARDS; k++)
		leave_out(world, is_in, &job->shard[k], sizeof(job->shard[k]));
	world_select(world, index);
	for (uint32_t i = 0; i < world_peers_count(world); i++)
		leave_out_peer(world, is_in, world_peer(world, i));
	for (uint32_t i = 0; i < GROUPS; i++)
		leave_out(world, is_in, world_group(world, i)->name, CONTROL_OP_NAME_BYTES);
	leave_out(world, is_in, (const uint8_t *)job->admission + bytes,
		  sizeof(job->admission) - bytes);
}

void pack_begin(struct world *world)
{
	bool is_in[sizeof(world->state) / WORD];
	size_t words = (offsetof(struct state, job) + world->jobs * sizeof(struct job)) / WORD;
	struct state *state = &world->state;
	struct span *spans = world->spans;

	memset(is_in, true, sizeof(is_in));
	for (uint32_t s = 0; s < SEATS; s++) {
		if (s >= world->seats)
			leave_out(world, is_in, &state->seat[s], sizeof(state->seat[s]));
		else
			leave_out_seat(world, is_in, &state->seat[s]);
	}
	for (uint32_t job = 0; job < world->jobs; job++)
		leave_out_job(world, is_in, job);
	world->spans_count = 0;
	world->packed_bytes = 0;
	for (size_t i = 0; i < words; i++) {
		world->packed_bytes += is_in[i] * WORD;
		if (i && is_in[i] == is_in[i - 1]) {
			spans[world->spans_count - 1].bytes += WORD;
			continue;
		}
		assert(world->spans_count < SPANS_MAX);
		spans[world->spans_count++] = (struct span){ WORD, is_in[i] };
	}
}

void pack(const struct world *world, const struct state *state, uint8_t *packed)
{
	static const uint8_t zeros[sizeof(struct seat)];
	const uint8_t *at = (const uint8_t *)state;

	for (uint32_t i = 0; i < world->spans_count; i++) {
		const struct span *span = &world->spans[i];

		if (span->is_in) {
			memcpy(packed, at, span->bytes);
			packed += span->bytes;
		} else {
			for (size_t done = 0; done < span->bytes; done += sizeof(zeros)) {
				size_t left = span->bytes - done;

				assert(!memcmp(at + done, zeros,
					       left < sizeof(zeros) ? left : sizeof(zeros)));
			}
		}
		at += span->bytes;
	}
}

void unpack(const struct world *world, const uint8_t *packed, struct state *state)
{
	uint8_t *at = (uint8_t *)state;

	for (uint32_t i = 0; i < world->spans_count; i++) {
		const struct span *span = &world->spans[i];

		if (span->is_in) {
			memcpy(at, packed, span->bytes);
			packed += span->bytes;
		}
		at += span->bytes;
	}
}
