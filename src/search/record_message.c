/* SPDX-License-Identifier: Apache-2.0 */
/* record_message.c - see record_message.h. */
#include "search/record_message.h"

#include "search/record.h"

#define JOIN(name) RECORD_FIELD(struct control_message, join.name)
#define GRANT(name) RECORD_FIELD(struct control_message, grant.name)
#define END(name) RECORD_FIELD(struct control_message, end.name)
#define STALL(name) RECORD_FIELD(struct control_message, stall.name)
#define WAITING(name) RECORD_FIELD(struct control_message, waiting.name)
#define OPINFO(name) RECORD_FIELD(struct control_message, opinfo.name)
#define OF(name) RECORD_FIELD(struct control_message, name)

/* clang-format off */
static const struct record_field fields[CONTROL_TYPE_END][24] = {
	[CONTROL_JOIN] = {
		JOIN(version_min), JOIN(version_max), JOIN(size), JOIN(rank), JOIN(kind), JOIN(mode),
		JOIN(latency_slots), JOIN(latency_window), JOIN(workers), JOIN(pid), JOIN(mtu),
		JOIN(timeout_ms), JOIN(list_hash), JOIN(life), JOIN(program), JOIN(boot),
		JOIN(process), JOIN(local_size), JOIN(is_launched),
		JOIN(job), JOIN(host), JOIN(key), JOIN(list) },
	[CONTROL_GRANT] = {
		GRANT(life), GRANT(workers), GRANT(heartbeat_ms), GRANT(version), GRANT(size) },
	[CONTROL_DENY] = { END(cause), END(rank), END(is_ending), END(text) },
	[CONTROL_READY] = { OF(lanes.lanes) },
	[CONTROL_START] = { OF(start.lanes) },
	[CONTROL_PING] = { OF(ping.serial) },
	[CONTROL_PONG] = { OF(ping.serial) },
	[CONTROL_PROGRESS] = { OF(progress.text) },
	[CONTROL_STALL] = { STALL(number), STALL(waited_ms), STALL(still_ms), STALL(is_expired) },
	[CONTROL_WAITING] = {
		WAITING(number), WAITING(waited_ms), WAITING(missing_count), WAITING(listed_count),
		WAITING(text) },
	[CONTROL_QUERY] = { OF(query.round), OF(query.from) },
	[CONTROL_OPINFO] = { OPINFO(round), OPINFO(submitted), OPINFO(oldest), OPINFO(has_more) },
	[CONTROL_ABORT] = { END(cause), END(rank), END(is_ending), END(text) },
	[CONTROL_LEAVE] = { OF(leave.submitted) },
};

static const struct record_field op_fields[] = {
	RECORD_FIELD(struct control_op, number), RECORD_FIELD(struct control_op, count),
	RECORD_FIELD(struct control_op, kind), RECORD_FIELD(struct control_op, type),
	RECORD_FIELD(struct control_op, op), RECORD_FIELD(struct control_op, root),
	RECORD_FIELD(struct control_op, stream), RECORD_FIELD(struct control_op, name), { 0 }
};
/* clang-format on */

static void record_members(const struct control_start *start)
{
	for (uint32_t i = 0; i < start->members_count; i++) {
		record_also(" ; %u %u", start->members[i].rank, start->members[i].pid);
		record_text(start->members[i].host);
	}
}

void record_message(const struct control_message *message)
{
	record_also(" ; %u", (unsigned)message->type);
	record_fields(message, fields[message->type]);
	switch (message->type) {
	case CONTROL_GRANT:
		record_bytes(message->grant.nonce, sizeof(message->grant.nonce));
		record_also(" ;");
		for (uint32_t i = 0; i < message->grant.shards_count; i++)
			record_also(" %u %u", message->grant.shards[i].port,
				    message->grant.shards[i].lanes);
		break;
	case CONTROL_START:
		record_members(&message->start);
		break;
	case CONTROL_WAITING:
		record_also(" ;");
		for (uint32_t i = 0; i < message->waiting.listed_count; i++)
			record_also(" %u", message->waiting.missing[i]);
		break;
	case CONTROL_OPINFO:
		for (uint32_t i = 0; i < message->opinfo.ops_count; i++) {
			record_also(" ;");
			record_fields(&message->opinfo.ops[i], op_fields);
		}
		break;
	default:
		break;
	}
}
