/* SPDX-License-Identifier: Apache-2.0 */
/* codec_limits_test.c - messages at their limits and one beyond, texts that are almost UTF-8, and no memory. */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/codec.h"
#include "util/memory_fixture.h"

enum { PIECES_MAX = 1000 };

static struct codec codec;
static struct control_message message, back;
static char json[CODEC_JSON_BYTES_MAX + 2];

static int set_up(void **state)
{
	(void)state;
	memset(&codec, 0, sizeof(codec));
	memset(&message, 0, sizeof(message));
	memset(&back, 0, sizeof(back));
	json[0] = 0;
	return 0;
}

/* Adds to `json`. */
static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
	size_t used = strlen(json);
	va_list args;

	va_start(args, format);
	vsnprintf(json + used, sizeof(json) - used, format, args);
	va_end(args);
}

static int decode(void)
{
	return codec_decode(&codec, (const uint8_t *)json, strlen(json), &back);
}

static void assert_refused(const char *error)
{
	assert_int_equal(decode(), -EINVAL);
	assert_string_equal(codec.error, error);
	json[0] = 0;
}

static void assert_taken(void)
{
	assert_int_equal(decode(), 0);
	json[0] = 0;
}

static void assert_not_sent(const char *error)
{
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
	assert_string_equal(codec.error, error);
}

static void there_and_back(void)
{
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), 0);
	assert_int_equal(codec_decode(&codec, frame + CODEC_LENGTH_BYTES,
				      bytes - CODEC_LENGTH_BYTES, &back),
			 0);
	free(frame);
}

/* ---- bytes ---- */

static void codec__a_message_of_a_megabyte_is_read_and_none_longer(void **state)
{
	static const char ping[] = "{\"type\":\"PING\",\"serial\":7}";

	(void)state;
	memset(json, ' ', sizeof(json) - 1);
	memcpy(json, ping, sizeof(ping) - 1);
	json[CODEC_JSON_BYTES_MAX] = 0;
	assert_int_equal(decode(), 0);
	assert_int_equal(back.ping.serial, 7);
	json[CODEC_JSON_BYTES_MAX] = ' ';
	assert_refused("1048577 bytes, at most 1048576");
}

/* ---- counts ---- */

static void add_members(uint32_t count)
{
	add("{\"type\":\"START\",\"lanes\":4,\"members\":[");
	for (uint32_t rank = 0; rank < count; rank++)
		add("%s{\"rank\":%u,\"host\":\"h\"}", rank ? "," : "", rank);
	add("]}");
}

static void codec__start_names_up_to_256_members(void **state)
{
	(void)state;
	add_members(0);
	assert_taken();
	assert_int_equal(back.start.members_count, 0);
	add_members(CONTROL_MEMBERS_MAX);
	assert_taken();
	assert_int_equal(back.start.members_count, 256);
	add_members(CONTROL_MEMBERS_MAX + 1);
	assert_refused("START: key \"members\" has 257 elements, not 0 to 256");
}

static void add_op(uint32_t number)
{
	add("{\"number\":%u,\"count\":0,\"kind\":0,\"type\":0,\"op\":0,\"root\":0,\"stream\":0}",
	    number);
}

static void add_ops(uint32_t count)
{
	add("{\"type\":\"OPINFO\",\"round\":1,\"submitted\":1,\"oldest\":0,\"ops\":[");
	for (uint32_t i = 0; i < count; i++) {
		add("%s", i ? "," : "");
		add_op(i);
	}
	add("]}");
}

static void codec__opinfo_names_up_to_512_operations(void **state)
{
	static struct control_op ops[CONTROL_OPS_MAX + 1];

	(void)state;
	add_ops(0);
	assert_taken();
	assert_int_equal(back.opinfo.ops_count, 0);
	add_ops(CONTROL_OPS_MAX);
	assert_taken();
	assert_int_equal(back.opinfo.ops_count, 512);
	add_ops(CONTROL_OPS_MAX + 1);
	assert_refused("OPINFO: key \"ops\" has 513 elements, not 0 to 512");
	for (uint32_t i = 0; i <= CONTROL_OPS_MAX; i++)
		ops[i].number = i;
	message.type = CONTROL_OPINFO;
	message.opinfo.ops = ops;
	message.opinfo.ops_count = CONTROL_OPS_MAX + 1;
	assert_not_sent("OPINFO: key \"ops\" has 513 elements");
}

static void codec__waiting_lists_up_to_32_ranks(void **state)
{
	(void)state;
	message.type = CONTROL_WAITING;
	message.waiting.missing_count = message.waiting.listed_count = CONTROL_MISSING_MAX;
	for (uint16_t i = 0; i < CONTROL_MISSING_MAX; i++)
		message.waiting.missing[i] =
			(uint16_t)(CONTROL_MEMBERS_MAX - CONTROL_MISSING_MAX + i);
	there_and_back();
	assert_memory_equal(&back.waiting, &message.waiting, sizeof(back.waiting));
	message.waiting.missing[CONTROL_MISSING_MAX - 1] = CONTROL_MEMBERS_MAX;
	assert_not_sent("WAITING: key \"missing\": not ranks that ascend");
}

static void make_grant(uint16_t shards)
{
	message.type = CONTROL_GRANT;
	message.grant = (struct control_grant){ .workers = 1,
						.heartbeat_ms = CONTROL_HEARTBEAT_MS_MAX,
						.version = 1,
						.size = 1,
						.shards_count = shards };
	for (uint32_t i = 0; i < MAP_SHARDS_MAX; i++)
		message.grant.shards[i] = (struct control_shard){ .port = (uint16_t)(i + 1),
								  .generation = UINT32_MAX - i,
								  .slots = 1,
								  .window = 1,
								  .lanes = WIRE_LANES_STEP,
								  .run = 1,
								  .lane_ops = 1 };
}

static void codec__a_grant_has_1_to_64_shards(void **state)
{
	(void)state;
	make_grant(1);
	there_and_back();
	assert_int_equal(back.grant.shards_count, 1);
	make_grant(MAP_SHARDS_MAX);
	there_and_back();
	assert_memory_equal(&back.grant, &message.grant, sizeof(back.grant));
	make_grant(0);
	assert_not_sent("GRANT: key \"shards\" has 0 elements");
	make_grant(MAP_SHARDS_MAX + 1);
	assert_not_sent("GRANT: key \"shards\" has 65 elements");
}

static void codec__a_table_grant_has_up_to_257_nonces(void **state)
{
	static uint8_t nonces[CONTROL_NONCES_MAX + 1][WIRE_NONCE_BYTES];

	(void)state;
	memset(nonces, 0xa7, sizeof(nonces));
	message.type = CONTROL_TABLE_GRANT;
	message.table_grant =
		(struct control_table_grant){ .port = 1,
					      .version = 1,
					      .nonces_count = CONTROL_NONCES_MAX,
					      .heartbeat_ms = CONTROL_HEARTBEAT_MS_MAX,
					      .instance = 1,
					      .nonces = nonces };
	strcpy(codec.error, "of the last failure");
	there_and_back();
	assert_memory_equal(back.table_grant.nonces, nonces, CONTROL_NONCES_MAX * WIRE_NONCE_BYTES);
	assert_string_equal(codec.error, "of the last failure"); /* it is right behind them */
	message.table_grant.nonces_count++;
	assert_not_sent("TABLE_GRANT: key \"nonces\" has 258 elements");
	add("{\"type\":\"TABLE_GRANT\",\"version\":1,\"port\":1,\"index\":0,\"heartbeat_ms\":%d,"
	    "\"instance\":\"0000000000000001\",\"nonces\":[",
	    CONTROL_HEARTBEAT_MS_MAX);
	for (uint32_t i = 0; i <= CONTROL_NONCES_MAX; i++)
		add("%s\"000102030405060708090a0b0c0d0e0f\"", i ? "," : "");
	add("]}");
	assert_refused("TABLE_GRANT: key \"nonces\" has 258 elements, not 2 to 257");
}

/* ---- values ---- */

static const char join_start[] =
	"{\"type\":\"JOIN\",\"version_min\":1,\"version_max\":1,\"size\":2,"
	"\"rank\":0,\"host\":\"a\",\"job\":\"x\",";

static void codec__an_almost_hexadecimal_number_is_none(void **state)
{
	static const char *const numbers[] = { "000000000000000g", "0000000000000001g",
					       "000000000000000A", "00000000000000010", "" };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		add("%s\"list_hash\":\"%s\"}", join_start, numbers[i]);
		assert_refused("JOIN: key \"list_hash\" is not 16 hexadecimal digits");
	}
}

static void codec__a_word_is_one_of_two(void **state)
{
	(void)state;
	add("%s\"list_hash\":\"0000000000000001\",\"kind\":\"worker\",\"mode\":\"dense\"}",
	    join_start);
	assert_taken();
	assert_int_equal(back.join.kind, CONTROL_WORKER);
	assert_int_equal(back.join.mode, CONTROL_DENSE);
	/* one beyond, and less */
	add("%s\"kind\":\"workes\"}", join_start);
	assert_refused("JOIN: key \"kind\" is neither worker nor switch");
	add("%s\"kind\":\"worke\"}", join_start);
	assert_refused("JOIN: key \"kind\" is neither worker nor switch");
}

static void codec__a_window_may_be_as_large_as_its_slots(void **state)
{
	(void)state;
	add("%s\"list_hash\":\"0000000000000001\",\"mode\":\"latency\",\"latency_slots\":8,"
	    "\"latency_window\":8}",
	    join_start);
	assert_taken();
	assert_int_equal(back.join.latency_window, 8);
	add("%s\"list_hash\":\"0000000000000001\",\"mode\":\"latency\",\"latency_slots\":8}",
	    join_start);
	assert_refused("JOIN: key \"latency_window\" is 0, not 1 to 8");
}

static void codec__a_cause_that_is_none_is_internal(void **state)
{
	static const uint16_t causes[][2] = {
		{ CONTROL_SYSTEM, CONTROL_SYSTEM },
		{ CONTROL_CAUSE_END, CONTROL_INTERNAL },
		{ UINT16_MAX, CONTROL_INTERNAL },
	};

	(void)state;
	message.type = CONTROL_ABORT;
	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
		message.end.cause = causes[i][0];
		there_and_back();
		assert_int_equal(back.end.cause, causes[i][1]);
	}
}

static void codec__nothing_is_left_of_the_message_before(void **state)
{
	static struct control_op ops[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		ops[i].number = i;
		strcpy(ops[i].name, "gradients");
	}
	message.type = CONTROL_OPINFO;
	message.opinfo.ops = ops;
	message.opinfo.ops_count = 3;
	there_and_back();
	memset(ops[0].name + 1, 0, sizeof(ops[0].name) - 1);
	memset(ops[1].name, 0, sizeof(ops[1].name));
	memset(ops[2].name + 3, 0, sizeof(ops[2].name) - 3);
	there_and_back();
	assert_memory_equal(back.opinfo.ops, ops, sizeof(ops));
	add_ops(3); /* which have no names */
	assert_taken();
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(back.opinfo.ops[i].name, "");
}

static void codec__the_loopback_is_an_address_like_others(void **state)
{
	(void)state;
	make_grant(2);
	message.grant.shards[0].ip[15] = 1;
	message.grant.shards[1].ip[0] = 1;
	there_and_back();
	for (uint32_t i = 0; i < 2; i++)
		assert_memory_equal(&back.grant.shards[i], &message.grant.shards[i],
				    sizeof(back.grant.shards[i]));
}

/* ---- texts ---- */

/* The first and the last character of each length and of what is left out, and their neighbours. */
static void codec__texts_are_utf8_or_question_marks(void **state)
{
	static const char *const texts[][2] = {
		{ "\x01\x7f", "\x01\x7f" },
		{ "\x80", "?" },
		{ "\xc1\xbf", "??" },
		{ "\xc2\x80", "\xc2\x80" },
		{ "\xc2\xc0", "??" },
		{ "\xc2\x7f", "?\x7f" },
		{ "\xdf\xbf", "\xdf\xbf" },
		{ "\xe0\x9f\xbf", "???" },
		{ "\xe0\xa0\x80", "\xe0\xa0\x80" },
		{ "\xe1\x80\x80", "\xe1\x80\x80" },
		{ "\xe1\x80", "??" },
		{ "\xe1\x80z", "??z" },
		{ "\xed\x9f\xbf", "\xed\x9f\xbf" },
		{ "\xed\xa0\x80", "???" },
		{ "\xee\x80\x80", "\xee\x80\x80" },
		{ "\xef\xbf\xbf", "\xef\xbf\xbf" },
		{ "\xf0\x8f\xbf\xbf", "????" },
		{ "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
		{ "\xf1\x80\x80\x80", "\xf1\x80\x80\x80" },
		{ "\xf1\x80\x80", "???" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "\xf4\x90\x80\x80", "????" },
		{ "\xf5\x80\x80\x80", "????" },
	};

	(void)state;
	message.type = CONTROL_PROGRESS;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		strcpy(message.progress.text, texts[i][0]);
		there_and_back();
		assert_string_equal(back.progress.text, texts[i][1]);
	}
}

/* ---- memory ---- */

/* Each piece of memory in turn is not there. What jansson, which misses some, says of it then is another matter. */
static void check_decoding(const uint8_t *frame, size_t bytes)
{
	unsigned said = 0;

	for (unsigned missing = 1;; missing++) {
		int error;

		assert_in_range(missing, 1, PIECES_MAX);
		memory_count(missing);
		error = codec_decode(&codec, frame + CODEC_LENGTH_BYTES, bytes - CODEC_LENGTH_BYTES,
				     &back);
		memory.is_counting = false;
		assert_int_equal(memory.held, 0);
		if (memory.asked < missing) { /* it was all there */
			assert_int_equal(error, 0);
			break;
		}
		said += error == -ENOMEM;
	}
	assert_true(said > 0);
}

static void check_memory(enum control_type type)
{
	uint8_t *frame, *whole;
	size_t bytes, whole_bytes;

	message.type = type;
	assert_int_equal(codec_encode(&codec, &message, &whole, &whole_bytes), 0);
	for (unsigned missing = 1;; missing++) {
		int error;

		assert_in_range(missing, 1, PIECES_MAX);
		memory_count(missing);
		error = codec_encode(&codec, &message, &frame, &bytes);
		memory.is_counting = false;
		assert_int_equal(memory.held, error ? 0 : 1);
		if (memory.asked < missing) { /* it was all there */
			assert_int_equal(error, 0);
			break;
		}
		assert_int_equal(error, -ENOMEM);
	}
	assert_int_equal(bytes, whole_bytes);
	assert_memory_equal(frame, whole, bytes);
	free(whole);
	check_decoding(frame, bytes);
	free(frame);
}

static void codec__no_memory_is_said_and_none_is_lost(void **state)
{
	static struct control_member members[2] = { { .rank = 1 }, { .rank = 2 } };
	static struct control_op ops[2] = { { .number = 1 }, { .number = 2 } };
	static const uint8_t nonces[2][WIRE_NONCE_BYTES] = { "worker", "server" };

	(void)state;
	make_grant(2);
	check_memory(CONTROL_GRANT);
	message.start =
		(struct control_start){ .lanes = 4, .members = members, .members_count = 2 };
	check_memory(CONTROL_START);
	message.waiting = (struct control_waiting){ .missing_count = 2,
						    .listed_count = 2,
						    .missing = { 1, 5 } };
	check_memory(CONTROL_WAITING);
	message.opinfo = (struct control_opinfo){ .ops = ops, .ops_count = 2 };
	check_memory(CONTROL_OPINFO);
	message.table_grant =
		(struct control_table_grant){ .port = 1,
					      .version = 1,
					      .nonces_count = 2,
					      .heartbeat_ms = CONTROL_HEARTBEAT_MS_MAX,
					      .instance = 1,
					      .nonces = nonces };
	check_memory(CONTROL_TABLE_GRANT);
}

static void codec__what_is_refused_costs_no_memory(void **state)
{
	uint8_t *frame;
	size_t bytes;

	(void)state;
	memory_count(0);
	add_members(CONTROL_MEMBERS_MAX + 1);
	assert_refused("START: key \"members\" has 257 elements, not 0 to 256");
	make_grant(0);
	assert_int_equal(codec_encode(&codec, &message, &frame, &bytes), -EINVAL);
	memory.is_counting = false;
	assert_int_equal(memory.held, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	static const struct CMUnitTest tests[] = {
		TEST(codec__a_message_of_a_megabyte_is_read_and_none_longer),
		TEST(codec__start_names_up_to_256_members),
		TEST(codec__opinfo_names_up_to_512_operations),
		TEST(codec__waiting_lists_up_to_32_ranks),
		TEST(codec__a_grant_has_1_to_64_shards),
		TEST(codec__a_table_grant_has_up_to_257_nonces),
		TEST(codec__an_almost_hexadecimal_number_is_none),
		TEST(codec__a_word_is_one_of_two),
		TEST(codec__a_window_may_be_as_large_as_its_slots),
		TEST(codec__a_cause_that_is_none_is_internal),
		TEST(codec__nothing_is_left_of_the_message_before),
		TEST(codec__the_loopback_is_an_address_like_others),
		TEST(codec__texts_are_utf8_or_question_marks),
		TEST(codec__no_memory_is_said_and_none_is_lost),
		TEST(codec__what_is_refused_costs_no_memory),
	};

	json_set_alloc_funcs(malloc, free); /* ours count, and jansson's own would not */
	return cmocka_run_group_tests_name("control-codec_limits", tests, NULL, NULL);
}
