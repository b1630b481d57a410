/* SPDX-License-Identifier: Apache-2.0 */
#include "control/codec_table.h"

#include "core/sparse/layout_sparse.h"
#include "core/sparse/table_sparse.h"

#define PLACE(struct_name, member) \
	offsetof(struct struct_name, member), sizeof(((struct struct_name *)NULL)->member)

/* clang-format off */
#define MESSAGE(member) PLACE(control_message, member)
#define SHARD(member) PLACE(control_shard, member)
#define OP(member) PLACE(control_op, member)
#define MEMBER(member) PLACE(control_member, member)

/* R-CT-4: the keys of each type; then those of what is in a list. */
static const struct codec_field join_fields[] = {
	{ "version_min", NUMBER, MESSAGE(join.version_min), 1, UINT16_MAX, 0, 0 },
	{ "version_max", NUMBER, MESSAGE(join.version_max), 1, UINT16_MAX, 0, 0 },
	{ "job", STRING, MESSAGE(join.job), 2, CONTROL_JOB_BYTES, 0, 0 },
	{ "key", STRING, MESSAGE(join.key), 1, CONTROL_KEY_BYTES, 1, 0 },
	{ "size", NUMBER, MESSAGE(join.size), 1, UINT16_MAX, 0, 0 },
	{ "rank", NUMBER, MESSAGE(join.rank), 0, UINT16_MAX - 1, 0, 0 },
	{ "kind", MEMBER_KIND, MESSAGE(join.kind), 0, 0, 1, CONTROL_WORKER },
	{ "mode", MEMBER_MODE, MESSAGE(join.mode), 0, 0, 1, CONTROL_DENSE },
	{ "latency_slots", NUMBER, MESSAGE(join.latency_slots), 0, CONTROL_LATENCY_SLOTS_MAX, 1, 0 },
	{ "latency_window", NUMBER, MESSAGE(join.latency_window), 0, CONTROL_LATENCY_SLOTS_MAX, 1, 0 },
	{ "workers", NUMBER, MESSAGE(join.workers), 1, UINT16_MAX, 1, 1 },
	{ "host", STRING, MESSAGE(join.host), 1, CONTROL_HOST_BYTES, 0, 0 },
	{ "pid", NUMBER, MESSAGE(join.pid), 0, UINT32_MAX, 1, 0 },
	{ "mtu", NUMBER, MESSAGE(join.mtu), 0, UINT32_MAX, 1, 0 },
	{ "timeout_ms", NUMBER, MESSAGE(join.timeout_ms), 0, UINT32_MAX, 1, 0 },
	{ "list_hash", HEX, MESSAGE(join.list_hash), 0, UINT64_MAX, 0, 0 },
	{ "list", STRING, MESSAGE(join.list), 1, CONTROL_LIST_BYTES, 1, 0 },
	{ "life", HEX, MESSAGE(join.life), 0, UINT64_MAX, 1, 0 },
	{ "launched", BOOLEAN, MESSAGE(join.is_launched), 0, 1, 1, 0 },
	{ "program", HEX, MESSAGE(join.program), 0, UINT64_MAX, 1, 0 },
	{ "boot", HEX, MESSAGE(join.boot), 0, UINT64_MAX, 1, 0 },
	{ "process", HEX, MESSAGE(join.process), 0, UINT64_MAX, 1, 0 },
	{ "local_size", NUMBER, MESSAGE(join.local_size), 0, UINT16_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field grant_fields[] = {
	{ "life", HEX, MESSAGE(grant.life), 0, UINT64_MAX, 0, 0 },
	{ "workers", NUMBER, MESSAGE(grant.workers), 1, UINT16_MAX, 0, 0 },
	{ "heartbeat_ms", NUMBER, MESSAGE(grant.heartbeat_ms), CONTROL_HEARTBEAT_MS_MIN, CONTROL_HEARTBEAT_MS_MAX, 0, 0 },
	{ "version", NUMBER, MESSAGE(grant.version), 1, UINT16_MAX, 0, 0 },
	{ "size", NUMBER, MESSAGE(grant.size), 1, UINT16_MAX, 0, 0 },
	{ "nonce", NONCE, MESSAGE(grant.nonce), 0, 0, 0, 0 },
	{ 0 },
};
static const struct codec_field shard_fields[] = {
	{ "address", IP, SHARD(ip), 0, 0, 1, 0 },
	{ "port", NUMBER, SHARD(port), 1, UINT16_MAX, 0, 0 },
	{ "job", NUMBER, SHARD(job), 0, UINT16_MAX, 0, 0 },
	{ "generation", NUMBER, SHARD(generation), 1, UINT32_MAX, 0, 0 },
	{ "child", NUMBER, SHARD(child), 0, UINT16_MAX, 0, 0 },
	{ "slots", NUMBER, SHARD(slots), 1, CONTROL_LATENCY_SLOTS_MAX, 0, 0 },
	{ "window", NUMBER, SHARD(window), 1, CONTROL_LATENCY_SLOTS_MAX, 0, 0 },
	{ "lanes", NUMBER, SHARD(lanes), WIRE_LANES_STEP, WIRE_LANES_MAX, 0, 0 },
	{ "run", NUMBER, SHARD(run), 1, MAP_RUN_MAX, 0, 0 },
	{ "lane_ops", NUMBER, SHARD(lane_ops), 1, UINT8_MAX, 0, 0 },
	{ "big_endian", BOOLEAN, SHARD(is_big_endian), 0, 1, 1, 0 },
	{ "trailer", NUMBER, SHARD(trailer), 0, UINT8_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field end_fields[] = {
	{ "cause", CAUSE, MESSAGE(end.cause), 0, 0, 0, 0 },
	{ "rank", NUMBER, MESSAGE(end.rank), 0, CONTROL_RANK_NONE, 1, CONTROL_RANK_NONE },
	{ "ending", BOOLEAN, MESSAGE(end.is_ending), 0, 1, 1, 0 },
	{ "text", STRING, MESSAGE(end.text), 1, CONTROL_TEXT_BYTES, 0, 0 },
	{ 0 },
};
static const struct codec_field lanes_fields[] = {
	{ "lanes", NUMBER, MESSAGE(lanes.lanes), WIRE_LANES_STEP, WIRE_LANES_MAX, 0, 0 },
	{ 0 },
};
static const struct codec_field start_fields[] = {
	{ "lanes", NUMBER, MESSAGE(start.lanes), WIRE_LANES_STEP, WIRE_LANES_MAX, 0, 0 },
	{ 0 },
};
static const struct codec_field member_fields[] = {
	{ "rank", NUMBER, MEMBER(rank), 0, CONTROL_MEMBERS_MAX - 1, 0, 0 },
	{ "host", STRING, MEMBER(host), 1, CONTROL_HOST_BYTES, 0, 0 },
	{ "pid", NUMBER, MEMBER(pid), 0, UINT32_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field ping_fields[] = {
	{ "serial", NUMBER, MESSAGE(ping.serial), 0, UINT32_MAX, 0, 0 },
	{ 0 },
};
static const struct codec_field progress_fields[] = {
	{ "text", STRING, MESSAGE(progress.text), 1, CONTROL_TEXT_BYTES, 0, 0 },
	{ 0 },
};
static const struct codec_field stall_fields[] = {
	{ "number", NUMBER, MESSAGE(stall.number), 0, INT64_MAX, 0, 0 },
	{ "waited_ms", NUMBER, MESSAGE(stall.waited_ms), 0, UINT32_MAX, 1, 0 },
	{ "still_ms", NUMBER, MESSAGE(stall.still_ms), 0, UINT32_MAX, 1, 0 },
	{ "expired", BOOLEAN, MESSAGE(stall.is_expired), 0, 1, 1, 0 },
	{ 0 },
};
static const struct codec_field waiting_fields[] = {
	{ "number", NUMBER, MESSAGE(waiting.number), 0, INT64_MAX, 0, 0 },
	{ "waited_ms", NUMBER, MESSAGE(waiting.waited_ms), 0, UINT32_MAX, 0, 0 },
	{ "missing_count", NUMBER, MESSAGE(waiting.missing_count), 0, CONTROL_MEMBERS_MAX, 0, 0 },
	{ "text", STRING, MESSAGE(waiting.text), 1, CONTROL_TEXT_BYTES, 0, 0 },
	{ 0 },
};
static const struct codec_field query_fields[] = {
	{ "round", NUMBER, MESSAGE(query.round), 0, UINT32_MAX, 0, 0 },
	{ "from", NUMBER, MESSAGE(query.from), 0, INT64_MAX, 0, 0 },
	{ 0 },
};
static const struct codec_field opinfo_fields[] = {
	{ "round", NUMBER, MESSAGE(opinfo.round), 0, UINT32_MAX, 0, 0 },
	{ "submitted", NUMBER, MESSAGE(opinfo.submitted), 0, INT64_MAX, 0, 0 },
	{ "oldest", NUMBER, MESSAGE(opinfo.oldest), 0, INT64_MAX, 0, 0 },
	{ "more", BOOLEAN, MESSAGE(opinfo.has_more), 0, 1, 1, 0 },
	{ "process", HEX, MESSAGE(opinfo.process), 0, UINT64_MAX, 1, 0 },
	{ "entries", HEX, MESSAGE(opinfo.entries), 0, UINT64_MAX, 1, 0 },
	{ "threads", NUMBER, MESSAGE(opinfo.threads), 0, UINT32_MAX, 1, 0 },
	{ "blocked", NUMBER, MESSAGE(opinfo.blocked), 0, UINT32_MAX, 1, 0 },
	{ "waits", NUMBER, MESSAGE(opinfo.waits), 0, INT64_MAX, 1, 0 },
	{ "crossed_warn", BOOLEAN, MESSAGE(opinfo.is_warn), 0, 1, 1, 0 },
	{ 0 },
};
static const struct codec_field op_fields[] = {
	{ "number", NUMBER, OP(number), 0, INT64_MAX - 1, 0, 0 }, /* QUERY may ask from the next on */
	{ "count", NUMBER, OP(count), 0, INT64_MAX, 0, 0 },
	{ "kind", NUMBER, OP(kind), 0, UINT32_MAX, 0, 0 },
	{ "type", NUMBER, OP(type), 0, UINT32_MAX, 0, 0 },
	{ "op", NUMBER, OP(op), 0, UINT32_MAX, 0, 0 },
	{ "root", NUMBER, OP(root), 0, UINT32_MAX, 0, 0 },
	{ "stream", NUMBER, OP(stream), 0, MAP_STREAMS - 1, 0, 0 },
	{ "name", STRING, OP(name), 1, CONTROL_OP_NAME_BYTES, 1, 0 },
	{ 0 },
};
static const struct codec_field leave_fields[] = {
	{ "submitted", NUMBER, MESSAGE(leave.submitted), 0, INT64_MAX, 0, 0 },
	{ 0 },
};
static const struct codec_field table_open_fields[] = {
	{ "version_min", NUMBER, MESSAGE(table_open.version_min), 1, UINT16_MAX, 0, 0 },
	{ "version_max", NUMBER, MESSAGE(table_open.version_max), 1, UINT16_MAX, 0, 0 },
	{ "job", STRING, MESSAGE(table_open.job), 2, CONTROL_JOB_BYTES, 0, 0 },
	{ "table", STRING, MESSAGE(table_open.table), 2, CONTROL_JOB_BYTES, 0, 0 },
	{ "key", STRING, MESSAGE(table_open.key), 1, CONTROL_KEY_BYTES, 1, 0 },
	{ "host", STRING, MESSAGE(table_open.host), 1, CONTROL_HOST_BYTES, 0, 0 },
	{ "pid", NUMBER, MESSAGE(table_open.pid), 0, UINT32_MAX, 1, 0 },
	{ "ranks", NUMBER, MESSAGE(table_open.ranks), 1, CONTROL_RANKS_MAX, 0, 0 },
	{ "workers", NUMBER, MESSAGE(table_open.workers), 1, CONTROL_MEMBERS_MAX, 0, 0 },
	{ "window", NUMBER, MESSAGE(table_open.window), 1, SPARSE_WINDOW_MAX, 0, 0 },
	{ "dim", NUMBER, MESSAGE(table_open.dim), 1, SPARSE_DIM_MAX, 0, 0 },
	{ "bytes", NUMBER, MESSAGE(table_open.bytes), 1, SPARSE_BYTES_MAX, 0, 0 },
	{ "stepped", BOOLEAN, MESSAGE(table_open.is_stepped), 0, 1, 1, 0 },
	{ "values", NUMBER, MESSAGE(table_open.values), 0, SPARSE_VALUES_END - 1, 1, 0 },
	{ "pairs_max", NUMBER, MESSAGE(table_open.pairs_max), 0, INT64_MAX, 1, 0 },
	{ "age_us", NUMBER, MESSAGE(table_open.age_us), 0, UINT32_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field table_grant_fields[] = {
	{ "version", NUMBER, MESSAGE(table_grant.version), 1, UINT16_MAX, 0, 0 },
	{ "address", IP, MESSAGE(table_grant.ip), 0, 0, 1, 0 },
	{ "port", NUMBER, MESSAGE(table_grant.port), 1, UINT16_MAX, 0, 0 },
	{ "index", NUMBER, MESSAGE(table_grant.index), 0, UINT16_MAX, 0, 0 },
	{ "instance", HEX, MESSAGE(table_grant.instance), 0, UINT64_MAX, 0, 0 },
	{ "heartbeat_ms", NUMBER, MESSAGE(table_grant.heartbeat_ms), CONTROL_HEARTBEAT_MS_MIN, CONTROL_HEARTBEAT_MS_MAX, 0, 0 },
	{ "memory", NUMBER, MESSAGE(table_grant.memory), 0, INT64_MAX, 1, 0 },
	{ "registers", NUMBER, MESSAGE(table_grant.registers), 0, LAYOUT_REGISTERS_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field table_beat_fields[] = {
	{ "serial", NUMBER, MESSAGE(table_beat.serial), 0, UINT32_MAX, 0, 0 },
	{ "index", NUMBER, MESSAGE(table_beat.index), 0, UINT16_MAX, 1, 0 },
	{ "instance", HEX, MESSAGE(table_beat.instance), 0, UINT64_MAX, 1, 0 },
	{ "generation", HEX, MESSAGE(table_beat.generation), 0, UINT64_MAX, 1, 0 },
	{ "memory_used", NUMBER, MESSAGE(table_beat.memory_used), 0, INT64_MAX, 1, 0 },
	{ "memory_max", NUMBER, MESSAGE(table_beat.memory_max), 0, INT64_MAX, 1, 0 },
	{ "parts", NUMBER, MESSAGE(table_beat.parts), 0, INT64_MAX, 1, 0 },
	{ 0 },
};
static const struct codec_field missing_field = { "missing", NUMBER, 0, sizeof(uint16_t), 0, CONTROL_MEMBERS_MAX - 1, 0, 0 };
static const struct codec_field nonce_field = { "nonces", NONCE, 0, WIRE_NONCE_BYTES, 0, 0, 0, 0 };
static const struct codec_field no_fields[] = { { 0 } };

#define COUNT(member) offsetof(struct control_message, member)
#define HELD(member) .at = offsetof(struct control_message, member)
#define LENT(member, place) HELD(member), .is_lent = true, .lent = offsetof(struct codec, place)
static const struct codec_list shards_list = {
	"shards", shard_fields, sizeof(struct control_shard), COUNT(grant.shards_count),
	HELD(grant.shards), .min = 1, .max = MAP_SHARDS_MAX };
static const struct codec_list members_list = {
	"members", member_fields, sizeof(struct control_member), COUNT(start.members_count),
	LENT(start.members, members), .max = CONTROL_MEMBERS_MAX };
static const struct codec_list missing_list = {
	"missing", &missing_field, sizeof(uint16_t), COUNT(waiting.listed_count),
	HELD(waiting.missing), .is_plain = true, .max = CONTROL_MISSING_MAX };
static const struct codec_list ops_list = {
	"ops", op_fields, sizeof(struct control_op), COUNT(opinfo.ops_count),
	LENT(opinfo.ops, ops), .max = CONTROL_OPS_MAX };
static const struct codec_list nonces_list = {
	"nonces", &nonce_field, WIRE_NONCE_BYTES, COUNT(table_grant.nonces_count),
	LENT(table_grant.nonces, nonces), .is_plain = true, .min = 2, .max = CONTROL_NONCES_MAX };

/* R-CT-3 */
const struct codec_type codec_types[CONTROL_TYPE_END] = {
	[CONTROL_NOTHING]   = { "", no_fields, NULL },
	[CONTROL_JOIN]      = { "JOIN", join_fields, NULL },
	[CONTROL_GRANT]     = { "GRANT", grant_fields, &shards_list },
	[CONTROL_DENY]      = { "DENIED", end_fields, NULL },
	[CONTROL_READY]     = { "READY", lanes_fields, NULL },
	[CONTROL_START]     = { "START", start_fields, &members_list },
	[CONTROL_HEARTBEAT] = { "HEARTBEAT", no_fields, NULL },
	[CONTROL_PING]      = { "PING", ping_fields, NULL },
	[CONTROL_PONG]      = { "PONG", ping_fields, NULL },
	[CONTROL_PROGRESS]  = { "PROGRESS", progress_fields, NULL },
	[CONTROL_STALL]     = { "STALL", stall_fields, NULL },
	[CONTROL_WAITING]   = { "WAITING", waiting_fields, &missing_list },
	[CONTROL_QUERY]     = { "QUERY", query_fields, NULL },
	[CONTROL_OPINFO]    = { "OPINFO", opinfo_fields, &ops_list },
	[CONTROL_ABORT]     = { "ABORT", end_fields, NULL },
	[CONTROL_LEAVE]     = { "LEAVE", leave_fields, NULL },
	[CONTROL_LEFT]      = { "LEFT", no_fields, NULL },
	[CONTROL_TABLE_OPEN]  = { "TABLE_OPEN", table_open_fields, NULL },
	[CONTROL_TABLE_GRANT] = { "TABLE_GRANT", table_grant_fields, &nonces_list },
	[CONTROL_TABLE_BEAT]  = { "TABLE_BEAT", table_beat_fields, NULL },
	[CONTROL_TABLE_CLOSE] = { "TABLE_CLOSE", no_fields, NULL },
};
const char *const codec_causes[CONTROL_CAUSE_END] = {
	[CONTROL_OK]          = "ok",
	[CONTROL_REMOTE]      = "remote",
	[CONTROL_MISMATCH]    = "mismatch",
	[CONTROL_ABORTED]     = "aborted",
	[CONTROL_TIMEOUT]     = "timeout",
	[CONTROL_INTERNAL]    = "internal",
	[CONTROL_DENIED]      = "denied",
	[CONTROL_VERSION_BAD] = "version",
	[CONTROL_NO_RESOURCE] = "no_resource",
	[CONTROL_NO_MEMORY]   = "no_memory",
	[CONTROL_SYSTEM]      = "system",
};
const char *const codec_words[CODEC_KIND_END][2] = {
	[MEMBER_KIND] = { [CONTROL_WORKER] = "worker", [CONTROL_SWITCH] = "switch" },
	[MEMBER_MODE] = { [CONTROL_DENSE] = "dense", [CONTROL_LATENCY] = "latency" },
};
/* clang-format on */
