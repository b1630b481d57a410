/* SPDX-License-Identifier: Apache-2.0 */
/* control_note.c - messages on their way in control.h's model; see control_world.h. */
#include "search/control_world.h"

#include <string.h>

/* ---- queues ---- */

uint32_t notes_count(const struct note *notes)
{
	uint32_t count = 0;

	while (count < QUEUE && notes[count].type)
		count++;
	return count;
}

void notes_push(struct world *world, struct note *notes, const struct note *note)
{
	uint32_t count = notes_count(notes);

	if (count == QUEUE)
		world_fail(world, "MODEL: a connection's queue is too short");
	else
		notes[count] = *note;
}

struct note notes_pop(struct note *notes)
{
	struct note head = notes[0];

	memmove(notes, notes + 1, (QUEUE - 1) * sizeof(*notes));
	memset(notes + QUEUE - 1, 0, sizeof(*notes));
	return head;
}

struct note note_of(const struct control_message *message)
{
	struct note note = { .type = (uint8_t)message->type };

	switch (message->type) {
	case CONTROL_DENY:
	case CONTROL_ABORT:
		note.cause = (uint8_t)message->end.cause;
		note.rank = message->end.rank;
		break;
	case CONTROL_GRANT:
		note.number = (uint32_t)message->grant.life;
		break;
	case CONTROL_READY:
		note.rank = message->lanes.lanes;
		break;
	case CONTROL_START:
		note.rank = message->start.lanes;
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		note.number = message->ping.serial;
		break;
	case CONTROL_STALL:
		note.number = (uint32_t)message->stall.number;
		note.cause = message->stall.is_expired;
		note.from = message->stall.still_ms;
		break;
	case CONTROL_WAITING:
		note.number = (uint32_t)message->waiting.number;
		note.rank = message->waiting.missing_count;
		break;
	case CONTROL_QUERY:
		note.number = message->query.round;
		note.from = (uint32_t)message->query.from;
		break;
	case CONTROL_LEAVE:
		note.rank = (uint16_t)message->leave.submitted;
		break;
	default:
		break;
	}
	return note;
}

/* ---- operations ---- */

const char *seat_program(const struct world *world, uint32_t s)
{
	const char *program = world->process[s]->program;

	return program ? program : "a";
}

static enum map_stream stream_of(char letter)
{
	return letter >= 'a' ? MAP_EXPRESS : MAP_BULK;
}

uint32_t op_chunk(const struct world *world, uint32_t s, uint32_t op)
{
	const char *program = seat_program(world, s);
	enum map_stream stream = stream_of(program[op]);
	uint32_t chunk = stream * CONTROL_OPS;

	for (uint32_t i = 0; i < op; i++)
		chunk += stream_of(program[i]) == stream;
	return chunk;
}

/* What a member lists: submitted, not done, `from` or later; of that the first, if it is cut. */
static uint16_t ops_list(const struct world *world, uint32_t s, const struct note *note,
			 struct control_op *ops, uint8_t *has_more)
{
	uint16_t count = 0;

	for (uint32_t i = note->from; i < note->rank; i++) {
		char letter = seat_program(world, s)[i];

		if (note->cause >> i & 1)
			continue;
		if (count && world->config->is_paged) {
			*has_more = 1;
			break;
		}
		memset(&ops[count], 0, sizeof(*ops));
		ops[count].number = i;
		ops[count].count = (uint64_t)letter;
		ops[count].stream = stream_of(letter);
		count++;
	}
	return count;
}

void message_of(const struct world *world, uint32_t s, const struct note *note,
		struct control_op *ops, struct control_message *message)
{
	memset(message, 0, sizeof(*message));
	message->type = note->type;
	switch (message->type) {
	case CONTROL_JOIN:
		message->join = world->join[s];
		if (seat_is_second(world, s))
			message->join.life = world->state.seat[seat_owner(world, s)].life;
		break;
	case CONTROL_DENY:
	case CONTROL_ABORT:
		message->end.cause = note->cause;
		message->end.rank = note->rank;
		break;
	case CONTROL_GRANT:
		message->grant.life = note->number;
		message->grant.heartbeat_ms =
			5000; /* another than the member was configured with */
		message->grant.shards_count = (uint16_t)world->config->shards;
		for (uint32_t k = 0; k < world->config->shards; k++)
			message->grant.shards[k].lanes = LANES;
		break;
	case CONTROL_READY:
		message->lanes.lanes = note->rank;
		break;
	case CONTROL_START:
		message->start.lanes = note->rank;
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message->ping.serial = note->number;
		break;
	case CONTROL_STALL:
		message->stall.number = note->number;
		message->stall.is_expired = note->cause;
		message->stall.still_ms = note->from;
		break;
	case CONTROL_WAITING:
		message->waiting.number = note->number;
		message->waiting.missing_count = note->rank;
		break;
	case CONTROL_QUERY:
		message->query.round = note->number;
		message->query.from = note->from;
		break;
	case CONTROL_OPINFO:
		message->opinfo.round = note->number;
		message->opinfo.submitted = note->rank;
		message->opinfo.oldest = note->rank;
		for (uint32_t i = note->rank; i--;)
			if (!(note->cause >> i & 1))
				message->opinfo.oldest = i;
		message->opinfo.ops = ops;
		message->opinfo.ops_count =
			ops_list(world, s, note, ops, &message->opinfo.has_more);
		break;
	case CONTROL_LEAVE:
		message->leave.submitted = note->rank;
		break;
	default:
		break;
	}
}
