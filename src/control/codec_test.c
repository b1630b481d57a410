/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "control/codec.h"
#include "tests/random.h"

enum { MUTATIONS_MS = 1500, BYTES_MAX = 1 << 16 };

static struct codec codec;
static void example_join(struct control_join *join)
{
	*join = (struct control_join){
		.version_min = 1,
		.version_max = 2,
		.size = 256,
		.rank = 255,
		.kind = CONTROL_SWITCH,
		.workers = 4,
		.pid = 4000000000,
		.mtu = 9000,
		.timeout_ms = 300000,
		.list_hash = 0xfedcba9876543210,
		.life = 1,
		.is_launched = 1,
		.program = 0x0123456789abcdef,
		.boot = 2,
		.process = UINT64_MAX,
		.local_size = 8,
		.mode = CONTROL_LATENCY,
		.latency_slots = 65536,
		.latency_window = 32768,
	};
	strcpy(join->job, "run/\xc3\xa9");
	strcpy(join->host, "node-1");
	strcpy(join->key, "secret");
	strcpy(join->list, "10.0.0.1:7171,[fd00::2]:7272");
}

static const struct control_member example_members[2] = {
	{ .rank = 0, .pid = 4000000000, .host = "node-0" },
	{ .rank = 255, .pid = 7, .host = "node-1" },
};

static void example_grant(struct control_grant *grant)
{
	grant->life = 0x8000000000000001;
	grant->workers = 256;
	grant->heartbeat_ms = 10000;
	grant->version = 1;
	grant->size = 256;
	grant->shards_count = 2;
	for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
		grant->nonce[i] = (uint8_t)(i * 17);
	for (uint32_t i = 0; i < 2; i++)
		grant->shards[i] = (struct control_shard){
			.ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
			.port = 65535,
			.job = 1023,
			.child = 255,
			.slots = 65536,
			.generation = UINT32_MAX,
			.window = 65536,
			.lanes = 16368,
			.run = 64,
			.lane_ops = 15,
			.is_big_endian = 1,
			.trailer = 16,
		};
	grant->shards[1].ip[10] = 0;
}

static void example_opinfo(struct control_opinfo *info, struct control_op ops[2])
{
	memset(ops, 0, 2 * sizeof(*ops));
	ops[0] = (struct control_op){
		.number = 5,
		.count = 1ull << 40,
		.kind = 3,
		.type = 7,
		.op = 4,
		.root = 9,
		.stream = MAP_BULK,
	};
	strcpy(ops[0].name, "grad");
	ops[1].number = 6;
	*info = (struct control_opinfo){
		.round = 7,
		.ops_count = 2,
		.has_more = 1,
		.submitted = 8,
		.oldest = 5,
		.process = 0x8000000000000001,
		.entries = UINT64_MAX,
		.threads = 65,
		.blocked = 64,
		.waits = 6,
		.is_warn = 1,
		.ops = ops,
	};
}

/* One message of each type with something in every field; of tables: codec_tables_test.c. */
static void example(enum control_type type, struct control_message *message,
		    struct control_op ops[2])
{
	memset(message, 0, sizeof(*message));
	message->type = type;
	if (type == CONTROL_JOIN) {
		example_join(&message->join);
	} else if (type == CONTROL_GRANT) {
		example_grant(&message->grant);
	} else if (type == CONTROL_DENY || type == CONTROL_ABORT) {
		message->end.cause = CONTROL_MISMATCH;
		message->end.rank = 3;
		message->end.is_ending = 1;
		strcpy(message->end.text, "rank 3 said \"5\"");
	} else if (type == CONTROL_READY) {
		message->lanes.lanes = 360;
	} else if (type == CONTROL_START) {
		message->start.lanes = 360;
		message->start.members = example_members;
		message->start.members_count = 2;
	} else if (type == CONTROL_PING || type == CONTROL_PONG) {
		message->ping.serial = UINT32_MAX;
	} else if (type == CONTROL_PROGRESS) {
		strcpy(message->progress.text, "waiting for rank 1");
	} else if (type == CONTROL_STALL) {
		message->stall.number = INT64_MAX;
		message->stall.waited_ms = UINT32_MAX;
		message->stall.still_ms = UINT32_MAX;
		message->stall.is_expired = 1;
	} else if (type == CONTROL_WAITING) {
		message->waiting.number = 17;
		message->waiting.waited_ms = 61000;
		message->waiting.missing_count = 3;
		message->waiting.listed_count = 2;
		message->waiting.missing[1] = 255;
		strcpy(message->waiting.text, "operation 17 waits for ranks 0, 254-255");
	} else if (type == CONTROL_QUERY) {
		message->query.round = 7;
		message->query.from = 1ull << 40;
	} else if (type == CONTROL_OPINFO) {
		example_opinfo(&message->opinfo, ops);
	} else if (type == CONTROL_LEAVE) {
		message->leave.submitted = 12;
	}
}

static void assert_equal(const struct control_message *a, const struct control_message *b)
{
	assert_int_equal(a->type, b->type);
	if (a->type == CONTROL_START) {
		assert_int_equal(a->start.lanes, b->start.lanes);
		assert_int_equal(a->start.members_count, b->start.members_count);
		if (a->start.members_count)
			assert_memory_equal(a->start.members, b->start.members,
					    a->start.members_count * sizeof(*a->start.members));
		return;
	}
	if (a->type != CONTROL_OPINFO) {
		assert_memory_equal(a, b, sizeof(*a));
		return;
	}
	assert_int_equal(a->opinfo.round, b->opinfo.round);
	assert_int_equal(a->opinfo.ops_count, b->opinfo.ops_count);
	assert_int_equal(a->opinfo.has_more, b->opinfo.has_more);
	assert_true(a->opinfo.submitted == b->opinfo.submitted);
	assert_true(a->opinfo.oldest == b->opinfo.oldest);
	assert_true(a->opinfo.process == b->opinfo.process);
	assert_true(a->opinfo.entries == b->opinfo.entries);
	assert_int_equal(a->opinfo.threads, b->opinfo.threads);
	assert_int_equal(a->opinfo.blocked, b->opinfo.blocked);
	assert_true(a->opinfo.waits == b->opinfo.waits);
	assert_int_equal(a->opinfo.is_warn, b->opinfo.is_warn);
	if (a->opinfo.ops_count)
		assert_memory_equal(a->opinfo.ops, b->opinfo.ops,
				    a->opinfo.ops_count * sizeof(struct control_op));
}

static int decode_text(const char *json, struct control_message *message)
{
	return codec_decode(&codec, (const uint8_t *)json, strlen(json), message);
}

static void assert_refused(const char *json, const char *error)
{
	struct control_message message;

	assert_int_equal(decode_text(json, &message), -EINVAL);
	assert_string_equal(codec.error, error);
}

static void codec__every_message_survives_the_wire(void **state)
{
	(void)state;
	struct control_message message, back;
	struct control_op ops[2];
	uint8_t *frame;
	size_t bytes;

	for (uint32_t type = CONTROL_JOIN; type < CONTROL_TABLE_OPEN; type++) {
		example(type, &message, ops);
		assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
		assert_int_equal(wire_get32(frame), bytes - CODEC_LENGTH_BYTES);
		assert_int_equal(codec_decode(&codec, frame + CODEC_LENGTH_BYTES,
					      bytes - CODEC_LENGTH_BYTES, &back),
				 0);
		assert_equal(&message, &back);
		free(frame);
	}
}

/* R-CT-4 */
static void codec__missing_keys_are_named(void **state)
{
	(void)state;
	assert_refused("{}", "no key \"type\"");
	assert_refused("[]", "not a JSON object");
	assert_refused("{\"type\":\"HELLO\"}", "no message of type \"HELLO\"");
	assert_refused("{\"type\":\"PING\"}", "PING: no key \"serial\"");
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0}",
		       "OPINFO: no key \"ops\"");
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,"
		       "\"ops\":[{\"number\":0}]}",
		       "OPINFO: no key \"count\"");
}

static void codec__wrong_types_and_ranges_are_named(void **state)
{
	(void)state;
	assert_refused("{\"type\":\"PING\",\"serial\":\"1\"}",
		       "PING: key \"serial\" is not a number from 0 to 4294967295");
	assert_refused("{\"type\":\"PING\",\"serial\":-1}",
		       "PING: key \"serial\" is not a number from 0 to 4294967295");
	assert_refused("{\"type\":\"PING\",\"serial\":4294967296}",
		       "PING: key \"serial\" is not a number from 0 to 4294967295");
	assert_refused("{\"type\":\"PING\",\"serial\":1.0}",
		       "PING: key \"serial\" is not a number from 0 to 4294967295");
	assert_refused("{\"type\":\"STALL\",\"number\":1,\"expired\":1}",
		       "STALL: key \"expired\" is neither true nor false");
	assert_refused("{\"type\":\"PROGRESS\",\"text\":5}",
		       "PROGRESS: key \"text\" is not a string");
	assert_refused("{\"type\":\"ABORT\",\"text\":\"\",\"cause\":7}",
		       "ABORT: key \"cause\" is not a string");
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,\"ops\":{}}",
		       "OPINFO: key \"ops\" is not an array");
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,\"ops\":[5]}",
		       "OPINFO: key \"ops\": not an object");
}

static const char join_start[] = "{\"type\":\"JOIN\",\"version_min\":1,\"version_max\":1,\"size\":"
				 "2,\"rank\":0,\"host\":\"a\",";

static void assert_join_refused(const char *rest, const char *error)
{
	char json[4096];

	snprintf(json, sizeof(json), "%s%s", join_start, rest);
	assert_refused(json, error);
}

static void codec__join_is_checked_field_by_field(void **state)
{
	(void)state;
	struct control_message message;
	char json[4096], name[400];

	snprintf(json, sizeof(json), "%s%s", join_start,
		 "\"job\":\"x\",\"list_hash\":\"0000000000000010\",\"news\":[1,{}]}");
	assert_int_equal(decode_text(json, &message), 0); /* unknown keys are ignored */
	assert_int_equal(message.join.workers, 1);
	assert_int_equal(message.join.kind, CONTROL_WORKER);
	assert_int_equal(message.join.list_hash, 16);
	assert_join_refused("\"list_hash\":\"0000000000000010\"}", "JOIN: no key \"job\"");
	assert_join_refused("\"job\":\"\",\"list_hash\":\"0000000000000010\"}",
			    "JOIN: key \"job\" has 0 bytes, not 1 to 255");
	memset(name, 'x', sizeof(name));
	name[300] = 0;
	snprintf(json, sizeof(json), "\"job\":\"%s\"}", name);
	assert_join_refused(json, "JOIN: key \"job\" has 300 bytes, not 1 to 255");
	assert_join_refused("\"job\":\"x\",\"list_hash\":\"10\"}",
			    "JOIN: key \"list_hash\" is not 16 hexadecimal digits");
	assert_int_equal(message.join.is_launched, 0); /* who says nothing of itself */
	assert_int_equal(message.join.program | message.join.boot | message.join.process, 0);
	assert_int_equal(message.join.local_size, 0);
	assert_join_refused("\"job\":\"x\",\"list_hash\":\"0000000000000010\",\"process\":\"7\"}",
			    "JOIN: key \"process\" is not 16 hexadecimal digits");
	assert_join_refused("\"job\":\"x\",\"list_hash\":\"0000000000000010\",\"launched\":1}",
			    "JOIN: key \"launched\" is neither true nor false");
	assert_join_refused("\"job\":\"x\",\"list_hash\":\"0000000000000010\","
			    "\"local_size\":65536}",
			    "JOIN: key \"local_size\" is not a number from 0 to 65535");
	assert_join_refused("\"job\":\"x\",\"kind\":\"router\"}",
			    "JOIN: key \"kind\" is neither worker nor switch");
	assert_join_refused("\"job\":\"x\",\"rank\":1}",
			    "not JSON: duplicate object key near '\"rank\"'");
	assert_join_refused("\"job\":\"a\\u0000b\"}", /* what follows a NUL would be hidden */
			    "not JSON: \\u0000 is not allowed without JSON_ALLOW_NUL near "
			    "'\"a\\u0000b\"'");
}

static void codec__grant_is_checked_field_by_field(void **state)
{
	(void)state;
	struct control_message message;
	struct control_op ops[2];
	uint8_t *frame;
	size_t bytes;

	assert_refused("{\"type\":\"GRANT\",\"life\":\"0000000000000010\",\"workers\":2,"
		       "\"heartbeat_ms\":10000,\"version\":1,\"size\":2,\"nonce\":\"00\"}",
		       "GRANT: key \"nonce\" is not 32 hexadecimal digits");
	assert_refused("{\"type\":\"GRANT\",\"life\":\"0000000000000010\",\"workers\":2,"
		       "\"heartbeat_ms\":10000,\"version\":1,\"size\":2,"
		       "\"nonce\":\"000102030405060708090a0b0c0d0e0f\",\"shards\":[]}",
		       "GRANT: key \"shards\" has 0 elements, not 1 to 64");
	assert_refused("{\"type\":\"GRANT\",\"life\":\"0000000000000010\",\"workers\":2,"
		       "\"heartbeat_ms\":10000,\"version\":1,\"size\":2,"
		       "\"nonce\":\"000102030405060708090a0b0c0d0e0f\","
		       "\"shards\":[{\"address\":\"nowhere\"}]}",
		       "GRANT: key \"address\" is not an address");
	example(CONTROL_GRANT, &message, ops);
	message.grant.shards[1].port = 0;
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
	assert_string_equal(codec.error, "GRANT: key \"port\" is 0, not 1 to 65535");
}

static void assert_not_sent(const struct control_message *message, const char *error)
{
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, message, &frame, &bytes), -EINVAL);
	assert_string_equal(codec.error, error);
}

static void codec__a_mode_has_its_sizes_and_no_others(void **state)
{
	(void)state;
	static const char *const rest = "\"job\":\"x\",\"list_hash\":\"0000000000000010\",";
	struct control_message message;
	struct control_op ops[2];
	char json[1024];

	snprintf(json, sizeof(json), "%s\"mode\":\"sparse\"}", rest);
	assert_join_refused(json, "JOIN: key \"mode\" is neither dense nor latency");
	snprintf(json, sizeof(json), "%s\"mode\":\"latency\"}", rest);
	assert_join_refused(json, "JOIN: key \"latency_slots\" is 0, not 1 to 65536");
	snprintf(json, sizeof(json), "%s\"mode\":\"latency\",\"latency_slots\":65537}", rest);
	assert_join_refused(json, "JOIN: key \"latency_slots\" is not a number from 0 to 65536");
	snprintf(json, sizeof(json),
		 "%s\"mode\":\"latency\",\"latency_slots\":8,\"latency_window\":9}", rest);
	assert_join_refused(json, "JOIN: key \"latency_window\" is 9, not 1 to 8");
	snprintf(json, sizeof(json), "%s\"latency_slots\":8}", rest);
	assert_join_refused(json,
			    "JOIN: key \"latency_slots\" or \"latency_window\" in mode dense");
	example(CONTROL_JOIN, &message, ops);
	message.join.mode = CONTROL_DENSE;
	assert_not_sent(&message,
			"JOIN: key \"latency_slots\" or \"latency_window\" in mode dense");
}

static void codec__members_of_start_ascend_and_are_bounded(void **state)
{
	(void)state;
	struct control_member *members = calloc(CONTROL_MEMBERS_MAX + 1, sizeof(*members));
	struct control_message message = { .type = CONTROL_START }, back;
	uint8_t *frame;
	size_t bytes;

	assert_non_null(members);
	for (uint16_t rank = 0; rank <= CONTROL_MEMBERS_MAX; rank++) {
		members[rank] = (struct control_member){ .rank = rank, .pid = UINT32_MAX - rank };
		memset(members[rank].host, 1, CONTROL_HOST_BYTES - 1); /* six bytes of JSON each */
	}
	message.start.lanes = 4;
	message.start.members = members;
	message.start.members_count = CONTROL_MEMBERS_MAX;
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
	assert_equal(&message, &back);
	free(frame);
	message.start.members_count = CONTROL_MEMBERS_MAX + 1;
	assert_not_sent(&message, "START: key \"members\" has 257 elements");
	message.start.members_count = 2;
	members[1].rank = 0;
	assert_not_sent(&message, "START: key \"members\": ranks do not ascend");
	assert_refused("{\"type\":\"START\",\"lanes\":4}", "START: no key \"members\"");
	assert_refused("{\"type\":\"START\",\"lanes\":4,\"members\":["
		       "{\"rank\":1,\"host\":\"a\"},{\"rank\":0,\"host\":\"b\"}]}",
		       "START: key \"members\": ranks do not ascend");
	assert_refused("{\"type\":\"START\",\"lanes\":4,\"members\":["
		       "{\"rank\":256,\"host\":\"a\"}]}",
		       "START: key \"rank\" is not a number from 0 to 255");
	free(members);
}

static void codec__missing_ranks_are_ranks_and_no_more_than_counted(void **state)
{
	(void)state;
	static const char head[] = "{\"type\":\"WAITING\",\"number\":1,\"waited_ms\":2,\"text\":"
				   "\"x\",\"missing_count\":";
	/* clang-format off */
	static const char *const cases[][2] = {
		{ "2}", "WAITING: no key \"missing\"" },
		{ "2,\"missing\":7}", "WAITING: key \"missing\" is not an array" },
		{ "2,\"missing\":[256]}", "WAITING: key \"missing\" is not a number from 0 to 255" },
		{ "2,\"missing\":[-1]}", "WAITING: key \"missing\" is not a number from 0 to 255" },
		{ "2,\"missing\":[\"1\"]}", "WAITING: key \"missing\" is not a number from 0 to 255" },
		{ "2,\"missing\":[3,3]}", "WAITING: key \"missing\": not ranks that ascend" },
		{ "1,\"missing\":[3,4]}",
		  "WAITING: key \"missing\" has 2 elements, more than missing_count 1" },
		{ "257,\"missing\":[]}",
		  "WAITING: key \"missing_count\" is not a number from 0 to 256" },
	};
	/* clang-format on */
	struct control_message message;
	struct control_op ops[2];
	char json[1024];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(json, sizeof(json), "%s%s", head, cases[i][0]);
		assert_refused(json, cases[i][1]);
	}
	snprintf(json, sizeof(json), "%s200,\"missing\":[0", head);
	for (uint32_t rank = 1; rank <= CONTROL_MISSING_MAX; rank++)
		snprintf(json + strlen(json), sizeof(json) - strlen(json), ",%u", rank);
	strcat(json, "]}");
	assert_refused(json, "WAITING: key \"missing\" has 33 elements, not 0 to 32");
	example(CONTROL_WAITING, &message, ops);
	message.waiting.listed_count = CONTROL_MISSING_MAX + 1;
	assert_not_sent(&message, "WAITING: key \"missing\" has 33 elements");
	message.waiting.listed_count = 2;
	message.waiting.missing[0] = 255;
	assert_not_sent(&message, "WAITING: key \"missing\": not ranks that ascend");
}

static void codec__operations_must_ascend(void **state)
{
	(void)state;
	struct control_message message;
	struct control_op ops[2];
	uint8_t *frame;
	size_t bytes;

	example(CONTROL_OPINFO, &message, ops);
	ops[1].number = ops[0].number;
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
	assert_string_equal(codec.error, "OPINFO: key \"ops\": numbers do not ascend");
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,\"ops\":["
		       "{\"number\":1,\"count\":0,\"kind\":0,\"type\":0,\"op\":0,\"root\":0,"
		       "\"stream\":0},"
		       "{\"number\":0,\"count\":0,\"kind\":0,\"type\":0,\"op\":0,\"root\":0,"
		       "\"stream\":0}]}",
		       "OPINFO: key \"ops\": numbers do not ascend");
	/* The next QUERY would ask from a number on that none of ours can say. */
	assert_refused("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,\"ops\":["
		       "{\"number\":9223372036854775807,\"count\":0,\"kind\":0,\"type\":0,\"op\":0,"
		       "\"root\":0,\"stream\":0}]}",
		       "OPINFO: key \"number\" is not a number from 0 to 9223372036854775806");
}

static void codec__the_fullest_opinfo_fits(void **state)
{
	(void)state;
	struct control_op *ops = calloc(CONTROL_OPS_MAX, sizeof(*ops));
	struct control_message message = { .type = CONTROL_OPINFO };
	struct control_message back;
	uint8_t *frame;
	size_t bytes;

	assert_non_null(ops);
	for (uint32_t i = 0; i < CONTROL_OPS_MAX; i++) {
		ops[i] = (struct control_op){ .number = INT64_MAX - CONTROL_OPS_MAX + i,
					      .count = INT64_MAX,
					      .kind = UINT32_MAX,
					      .type = UINT32_MAX,
					      .op = UINT32_MAX,
					      .root = UINT32_MAX,
					      .stream = MAP_BULK };
		memset(ops[i].name, 1, CONTROL_OP_NAME_BYTES - 1); /* six bytes of JSON each */
	}
	message.opinfo.ops = ops;
	message.opinfo.ops_count = CONTROL_OPS_MAX;
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_true(bytes < CODEC_JSON_BYTES_MAX);
	assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
	assert_equal(&message, &back);
	free(frame);
	free(ops);
}

static void codec__unknown_causes_are_remote(void **state)
{
	(void)state;
	struct control_message message;

	assert_int_equal(decode_text("{\"type\":\"ABORT\",\"cause\":\"flood\",\"text\":\"x\"}",
				     &message),
			 0);
	assert_int_equal(message.end.cause, CONTROL_REMOTE);
	assert_int_equal(message.end.rank, CONTROL_RANK_NONE);
}

static void codec__names_that_are_not_utf8_are_sent_with_question_marks(void **state)
{
	(void)state;
	struct control_message message = { .type = CONTROL_PROGRESS }, back;
	uint8_t *frame;
	size_t bytes;

	strcpy(message.progress.text, "a\xff\xc3_\xed\xa0\x80 \xf0\x9f\x98\x80\xc3");
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
	assert_string_equal(back.progress.text, "a??_??? \xf0\x9f\x98\x80?");
	free(frame);
	memset(message.progress.text, 'x', CONTROL_TEXT_BYTES - 1);
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
	assert_equal(&message, &back);
	free(frame);
	memset(message.progress.text, 'x', CONTROL_TEXT_BYTES); /* not terminated */
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
}

static void codec__no_address_means_the_host_of_the_connection(void **state)
{
	(void)state;
	struct control_message message, back;
	struct control_op ops[2];
	uint8_t *frame;
	size_t bytes;

	example(CONTROL_GRANT, &message, ops);
	memset(message.grant.shards[0].ip, 0, 16);
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
	assert_equal(&message, &back);
	free(frame);
}

static void codec__types_that_do_not_exist_are_not_sent(void **state)
{
	(void)state;
	struct control_message message = { .type = CONTROL_TYPE_END };
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
	message.type = CONTROL_NOTHING;
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
}

static const char *const morsels[] = { "null",
				       "-1",
				       "1e400",
				       "\"\"",
				       "[]",
				       "{}",
				       "true",
				       "18446744073709551616",
				       "\\u0000",
				       "\"",
				       "[[[[",
				       "\xff",
				       "99999999999999999999",
				       ",",
				       "}",
				       "0.5" };

/* Bytes change, go, come, are doubled, or become something else that JSON knows. */
static size_t mutate(uint8_t *json, size_t bytes)
{
	for (uint32_t n = 1 + random_below(4); n; n--) {
		size_t at = random_below((uint32_t)bytes);
		const char *morsel = morsels[random_below(sizeof(morsels) / sizeof(*morsels))];
		size_t length = strlen(morsel);
		size_t room = bytes - at;

		switch (random_below(5)) {
		case 0:
			json[at] ^= (uint8_t)(1u << random_below(8));
			break;
		case 1:
			memmove(json + at, json + at + 1, room - 1);
			bytes--;
			break;
		case 2:
			memcpy(json + at, morsel, length < room ? length : room);
			break;
		case 3:
			if (bytes + room > BYTES_MAX)
				break;
			memcpy(json + bytes, json + at, room);
			bytes += room;
			break;
		case 4:
			bytes = at + 1;
			break;
		}
		if (!bytes)
			return 0;
	}
	return bytes;
}

/* Whatever comes: no crash, an error with a text, or a message that can be sent on and means the same. */
static void codec__random_mutations_are_refused_or_understood(void **state)
{
	(void)state;
	static uint8_t json[BYTES_MAX];
	static struct control_member kept_members[CONTROL_MEMBERS_MAX];
	struct control_message message, back;
	struct control_op ops[2], kept[CONTROL_OPS_MAX];
	uint64_t tries = 0, accepted = 0;
	clock_t end = clock() + MUTATIONS_MS * (CLOCKS_PER_SEC / 1000);

	while (clock() < end) {
		uint8_t *frame;
		size_t bytes;

		tries++;
		example(CONTROL_JOIN + random_below(CONTROL_TABLE_OPEN - CONTROL_JOIN), &message,
			ops);
		assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
		bytes -= CODEC_LENGTH_BYTES;
		memcpy(json, frame + CODEC_LENGTH_BYTES, bytes);
		free(frame);
		bytes = mutate(json, bytes);
		codec.error[0] = 0;
		int error = codec_decode(&codec, json, bytes, &message);
		if (error) {
			assert_int_equal(error, -EINVAL);
			assert_true(codec.error[0]);
			continue;
		}
		accepted++;
		if (message.type == CONTROL_OPINFO) {
			memcpy(kept, codec.ops, sizeof(kept));
			message.opinfo.ops = kept;
		} else if (message.type == CONTROL_START) {
			memcpy(kept_members, codec.members, sizeof(kept_members));
			message.start.members = kept_members;
		}
		error = codec_encode(&codec, &message, &frame, &bytes);
		if (error)
			print_error("%s\n", codec.error);
		assert_int_equal(error, 0);
		assert_int_equal(codec_decode(&codec, frame + 4, bytes - 4, &back), 0);
		assert_equal(&message, &back);
		free(frame);
	}
	printf("%llu mutations, %llu understood\n", (unsigned long long)tries,
	       (unsigned long long)accepted);
	assert_true(accepted > 10);
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codec__every_message_survives_the_wire),
		cmocka_unit_test(codec__missing_keys_are_named),
		cmocka_unit_test(codec__wrong_types_and_ranges_are_named),
		cmocka_unit_test(codec__join_is_checked_field_by_field),
		cmocka_unit_test(codec__grant_is_checked_field_by_field),
		cmocka_unit_test(codec__a_mode_has_its_sizes_and_no_others),
		cmocka_unit_test(codec__members_of_start_ascend_and_are_bounded),
		cmocka_unit_test(codec__missing_ranks_are_ranks_and_no_more_than_counted),
		cmocka_unit_test(codec__operations_must_ascend),
		cmocka_unit_test(codec__the_fullest_opinfo_fits),
		cmocka_unit_test(codec__unknown_causes_are_remote),
		cmocka_unit_test(codec__names_that_are_not_utf8_are_sent_with_question_marks),
		cmocka_unit_test(codec__no_address_means_the_host_of_the_connection),
		cmocka_unit_test(codec__types_that_do_not_exist_are_not_sent),
		cmocka_unit_test(codec__random_mutations_are_refused_or_understood),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
