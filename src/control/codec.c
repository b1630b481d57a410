/* SPDX-License-Identifier: Apache-2.0 */
#include "control/codec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	NUMBER,
	BOOLEAN,
	HEX,    /* 64 bits as 16 digits: JSON's numbers have 53 that are sure to arrive */
	NONCE,  /* WIRE_NONCE_BYTES as digits */
	STRING, /* min..max bytes with the NUL, max is the array's size */
	IP,     /* 16 bytes; "" is all zeros */
	CAUSE,
	MEMBER_KIND,
};

struct field {
	const char *key;
	enum kind kind;
	size_t offset, bytes;
	uint64_t min, max;
	bool is_optional;
	uint64_t fallback;
};

#define PLACE(struct_name, member) \
	offsetof(struct struct_name, member), sizeof(((struct struct_name *)NULL)->member)

/* clang-format off */
#define MESSAGE(member) PLACE(control_message, member)
#define SHARD(member) PLACE(control_shard, member)
#define OP(member) PLACE(control_op, member)

static const struct field join_fields[] = {
	{ "version_min", NUMBER, MESSAGE(join.version_min), 1, UINT16_MAX, 0, 0 },
	{ "version_max", NUMBER, MESSAGE(join.version_max), 1, UINT16_MAX, 0, 0 },
	{ "job", STRING, MESSAGE(join.job), 2, CONTROL_JOB_BYTES, 0, 0 },
	{ "key", STRING, MESSAGE(join.key), 1, CONTROL_KEY_BYTES, 1, 0 },
	{ "size", NUMBER, MESSAGE(join.size), 1, UINT16_MAX, 0, 0 },
	{ "rank", NUMBER, MESSAGE(join.rank), 0, UINT16_MAX - 1, 0, 0 },
	{ "kind", MEMBER_KIND, MESSAGE(join.kind), 0, 0, 1, CONTROL_WORKER },
	{ "workers", NUMBER, MESSAGE(join.workers), 1, UINT16_MAX, 1, 1 },
	{ "host", STRING, MESSAGE(join.host), 1, CONTROL_HOST_BYTES, 0, 0 },
	{ "pid", NUMBER, MESSAGE(join.pid), 0, UINT32_MAX, 1, 0 },
	{ "mtu", NUMBER, MESSAGE(join.mtu), 0, UINT32_MAX, 1, 0 },
	{ "timeout_ms", NUMBER, MESSAGE(join.timeout_ms), 0, UINT32_MAX, 1, 0 },
	{ "list_hash", HEX, MESSAGE(join.list_hash), 0, UINT64_MAX, 0, 0 },
	{ "life", HEX, MESSAGE(join.life), 0, UINT64_MAX, 1, 0 },
	{ 0 },
};
static const struct field grant_fields[] = {
	{ "life", HEX, MESSAGE(grant.life), 0, UINT64_MAX, 0, 0 },
	{ "workers", NUMBER, MESSAGE(grant.workers), 1, UINT16_MAX, 0, 0 },
	{ "heartbeat_ms", NUMBER, MESSAGE(grant.heartbeat_ms), 100, 3600000, 0, 0 },
	{ "version", NUMBER, MESSAGE(grant.version), 1, UINT16_MAX, 0, 0 },
	{ "size", NUMBER, MESSAGE(grant.size), 1, UINT16_MAX, 0, 0 },
	{ "nonce", NONCE, MESSAGE(grant.nonce), 0, 0, 0, 0 },
	{ 0 },
};
static const struct field shard_fields[] = {
	{ "address", IP, SHARD(ip), 0, 0, 1, 0 },
	{ "port", NUMBER, SHARD(port), 1, UINT16_MAX, 0, 0 },
	{ "job", NUMBER, SHARD(job), 0, UINT16_MAX, 0, 0 },
	{ "generation", NUMBER, SHARD(generation), 1, UINT32_MAX, 0, 0 },
	{ "child", NUMBER, SHARD(child), 0, UINT16_MAX, 0, 0 },
	{ "slots", NUMBER, SHARD(slots), 1, MAP_SLOTS_MAX, 0, 0 },
	{ "window", NUMBER, SHARD(window), 1, MAP_SLOTS_MAX, 0, 0 },
	{ "lanes", NUMBER, SHARD(lanes), WIRE_LANES_STEP, WIRE_LANES_MAX, 0, 0 },
	{ "run", NUMBER, SHARD(run), 1, MAP_RUN_MAX, 0, 0 },
	{ "lane_ops", NUMBER, SHARD(lane_ops), 1, UINT8_MAX, 0, 0 },
	{ "big_endian", BOOLEAN, SHARD(is_big_endian), 0, 1, 1, 0 },
	{ "trailer", NUMBER, SHARD(trailer), 0, UINT8_MAX, 1, 0 },
	{ 0 },
};
static const struct field end_fields[] = {
	{ "cause", CAUSE, MESSAGE(end.cause), 0, 0, 0, 0 },
	{ "rank", NUMBER, MESSAGE(end.rank), 0, CONTROL_RANK_NONE, 1, CONTROL_RANK_NONE },
	{ "text", STRING, MESSAGE(end.text), 1, CONTROL_TEXT_BYTES, 0, 0 },
	{ 0 },
};
static const struct field lanes_fields[] = {
	{ "lanes", NUMBER, MESSAGE(lanes.lanes), WIRE_LANES_STEP, WIRE_LANES_MAX, 0, 0 },
	{ 0 },
};
static const struct field ping_fields[] = {
	{ "serial", NUMBER, MESSAGE(ping.serial), 0, UINT32_MAX, 0, 0 },
	{ 0 },
};
static const struct field progress_fields[] = {
	{ "text", STRING, MESSAGE(progress.text), 1, CONTROL_TEXT_BYTES, 0, 0 },
	{ 0 },
};
static const struct field stall_fields[] = {
	{ "number", NUMBER, MESSAGE(stall.number), 0, INT64_MAX, 0, 0 },
	{ "expired", BOOLEAN, MESSAGE(stall.is_expired), 0, 1, 1, 0 },
	{ 0 },
};
static const struct field query_fields[] = {
	{ "round", NUMBER, MESSAGE(query.round), 0, UINT32_MAX, 0, 0 },
	{ "from", NUMBER, MESSAGE(query.from), 0, INT64_MAX, 0, 0 },
	{ 0 },
};
static const struct field opinfo_fields[] = {
	{ "round", NUMBER, MESSAGE(opinfo.round), 0, UINT32_MAX, 0, 0 },
	{ "submitted", NUMBER, MESSAGE(opinfo.submitted), 0, INT64_MAX, 0, 0 },
	{ "oldest", NUMBER, MESSAGE(opinfo.oldest), 0, INT64_MAX, 0, 0 },
	{ "more", BOOLEAN, MESSAGE(opinfo.has_more), 0, 1, 1, 0 },
	{ 0 },
};
static const struct field op_fields[] = {
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
static const struct field leave_fields[] = {
	{ "submitted", NUMBER, MESSAGE(leave.submitted), 0, INT64_MAX, 0, 0 },
	{ 0 },
};
static const struct field no_fields[] = { { 0 } };

static const struct {
	const char *name;
	const struct field *fields;
} messages[CONTROL_TYPE_END] = {
	[CONTROL_NOTHING]   = { "", no_fields },
	[CONTROL_JOIN]      = { "JOIN", join_fields },
	[CONTROL_GRANT]     = { "GRANT", grant_fields },
	[CONTROL_DENY]      = { "DENIED", end_fields },
	[CONTROL_READY]     = { "READY", lanes_fields },
	[CONTROL_START]     = { "START", lanes_fields },
	[CONTROL_HEARTBEAT] = { "HEARTBEAT", no_fields },
	[CONTROL_PING]      = { "PING", ping_fields },
	[CONTROL_PONG]      = { "PONG", ping_fields },
	[CONTROL_PROGRESS]  = { "PROGRESS", progress_fields },
	[CONTROL_STALL]     = { "STALL", stall_fields },
	[CONTROL_QUERY]     = { "QUERY", query_fields },
	[CONTROL_OPINFO]    = { "OPINFO", opinfo_fields },
	[CONTROL_ABORT]     = { "ABORT", end_fields },
	[CONTROL_LEAVE]     = { "LEAVE", leave_fields },
	[CONTROL_LEFT]      = { "LEFT", no_fields },
};
static const char *const causes[CONTROL_CAUSE_END] = {
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
/* clang-format on */

/* One message, one direction. */
struct job {
	struct codec *codec;
	const char *message; /* its name, for errors */
};

static int refuse(const struct job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct job *job, const char *format, ...)
{
	char *error = job->codec->error;
	int used = snprintf(error, CODEC_ERROR_BYTES, "%s%s", job->message,
			    job->message[0] ? ": " : "");
	va_list args;

	va_start(args, format);
	vsnprintf(error + used, CODEC_ERROR_BYTES - (size_t)used, format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- numbers of 1, 2, 4 or 8 bytes, wherever they are ---- */

static void store(void *at, size_t bytes, uint64_t value)
{
	uint8_t value8 = (uint8_t)value;
	uint16_t value16 = (uint16_t)value;
	uint32_t value32 = (uint32_t)value;

	if (bytes == 1)
		memcpy(at, &value8, 1);
	else if (bytes == 2)
		memcpy(at, &value16, 2);
	else if (bytes == 4)
		memcpy(at, &value32, 4);
	else
		memcpy(at, &value, 8);
}

static uint64_t load(const void *at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes); /* little-endian: env.h sees to it */
	return value;
}

/* ---- decode ---- */

static bool hex_digits(const char *text, size_t digits)
{
	return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int get_number(const struct job *job, const struct field *field, const json_t *json,
		      void *at)
{
	json_int_t value = json_integer_value(json);

	if (!json_is_integer(json) || value < 0 || (uint64_t)value < field->min ||
	    (uint64_t)value > field->max)
		return refuse(job, "key \"%s\" is not a number from %" PRIu64 " to %" PRIu64,
			      field->key, field->min, field->max);
	store(at, field->bytes, (uint64_t)value);
	return 0;
}

static int get_nonce(const struct job *job, const struct field *field, const char *text,
		     uint8_t *at)
{
	if (!hex_digits(text, 2 * field->bytes))
		return refuse(job, "key \"%s\" is not %zu hexadecimal digits", field->key,
			      2 * field->bytes);
	for (size_t i = 0; i < field->bytes; i++) {
		char pair[3] = { text[2 * i], text[2 * i + 1], 0 };
		at[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return 0;
}

static int get_ip(const struct job *job, const struct field *field, const char *text, uint8_t *at)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(at, 0, 16);
	if (!text[0])
		return 0;
	if (inet_pton(AF_INET6, text, at) == 1)
		return 0;
	if (inet_pton(AF_INET, text, at + 12) != 1)
		return refuse(job, "key \"%s\" is not an address", field->key);
	memcpy(at, mapped, sizeof(mapped));
	return 0;
}

/* A newer peer may know causes that we do not: an end is an end. */
static uint64_t cause_of(const char *text)
{
	for (uint32_t i = CONTROL_OK + 1; i < CONTROL_CAUSE_END; i++) {
		if (!strcmp(causes[i], text))
			return i;
	}
	return CONTROL_REMOTE;
}

static int get_text(const struct job *job, const struct field *field, const json_t *json,
		    uint8_t *at)
{
	const char *text = json_string_value(json);

	if (!text)
		return refuse(job, "key \"%s\" is not a string", field->key);
	if (field->kind == NONCE)
		return get_nonce(job, field, text, at);
	if (field->kind == IP)
		return get_ip(job, field, text, at);
	if (field->kind == HEX) {
		if (!hex_digits(text, 16))
			return refuse(job, "key \"%s\" is not 16 hexadecimal digits", field->key);
		store(at, field->bytes, strtoull(text, NULL, 16));
		return 0;
	}
	if (field->kind == CAUSE) {
		store(at, field->bytes, cause_of(text));
		return 0;
	}
	if (field->kind == MEMBER_KIND) {
		bool is_switch = !strcmp(text, "switch");
		if (!is_switch && strcmp(text, "worker") != 0)
			return refuse(job, "key \"%s\" is neither worker nor switch", field->key);
		store(at, field->bytes, is_switch ? CONTROL_SWITCH : CONTROL_WORKER);
		return 0;
	}
	size_t length = json_string_length(json);
	if (length + 1 < field->min || length + 1 > field->max)
		return refuse(job, "key \"%s\" has %zu bytes, not %" PRIu64 " to %" PRIu64,
			      field->key, length, field->min - 1, field->max - 1);
	memcpy(at, text, length);
	return 0;
}

static int get_fields(const struct job *job, const struct field *fields, const json_t *object,
		      uint8_t *at)
{
	for (const struct field *field = fields; field->key; field++) {
		const json_t *json = json_object_get(object, field->key);
		int error = 0;

		if (!json && !field->is_optional)
			return refuse(job, "no key \"%s\"", field->key);
		if (!json) {
			if (field->fallback)
				store(at + field->offset, field->bytes, field->fallback);
			continue;
		}
		if (field->kind == NUMBER)
			error = get_number(job, field, json, at + field->offset);
		else if (field->kind != BOOLEAN)
			error = get_text(job, field, json, at + field->offset);
		else if (json_is_boolean(json))
			store(at + field->offset, field->bytes, json_is_true(json));
		else
			error = refuse(job, "key \"%s\" is neither true nor false", field->key);
		if (error)
			return error;
	}
	return 0;
}

/* The elements of an array of objects, one after another. */
static int get_array(const struct job *job, const json_t *object, const char *key, size_t count_min,
		     size_t count_max, const struct field *fields, void *array, size_t stride,
		     uint16_t *count)
{
	const json_t *json = json_object_get(object, key);
	size_t size = json_array_size(json);

	if (!json_is_array(json))
		return refuse(job, json ? "key \"%s\" is not an array" : "no key \"%s\"", key);
	if (size < count_min || size > count_max)
		return refuse(job, "key \"%s\" has %zu elements, not %zu to %zu", key, size,
			      count_min, count_max);
	memset(array, 0, size * stride);
	for (size_t i = 0; i < size; i++) {
		const json_t *element = json_array_get(json, i);
		if (!json_is_object(element))
			return refuse(job, "key \"%s\": not an object", key);
		int error = get_fields(job, fields, element, (uint8_t *)array + i * stride);
		if (error)
			return error;
	}
	*count = (uint16_t)size;
	return 0;
}

static int check_ops(const struct job *job, const struct control_op *ops, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (ops[i].number <= ops[i - 1].number)
			return refuse(job, "key \"ops\": numbers do not ascend");
	}
	return 0;
}

static int get_ops(const struct job *job, const json_t *object, struct control_opinfo *info)
{
	struct control_op *ops = job->codec->ops;
	int error = get_array(job, object, "ops", 0, CONTROL_OPS_MAX, op_fields, ops, sizeof(*ops),
			      &info->ops_count);

	if (error)
		return error;
	info->ops = ops;
	return check_ops(job, ops, info->ops_count);
}

static int get_type(const struct job *job, const json_t *object, enum control_type *type)
{
	const char *name = json_string_value(json_object_get(object, "type"));

	if (!json_is_object(object))
		return refuse(job, "not a JSON object");
	if (!name)
		return refuse(job, "no key \"type\"");
	for (uint32_t i = CONTROL_JOIN; i < CONTROL_TYPE_END; i++) {
		if (!strcmp(messages[i].name, name)) {
			*type = i;
			return 0;
		}
	}
	return refuse(job, "no message of type \"%.32s\"", name);
}

static int get_message(struct job *job, const json_t *object, struct control_message *message)
{
	int error = get_type(job, object, &message->type);

	if (error)
		return error;
	job->message = messages[message->type].name;
	error = get_fields(job, messages[message->type].fields, object, (uint8_t *)message);
	if (!error && message->type == CONTROL_GRANT)
		error = get_array(job, object, "shards", 1, MAP_SHARDS_MAX, shard_fields,
				  message->grant.shards, sizeof(message->grant.shards[0]),
				  &message->grant.shards_count);
	if (!error && message->type == CONTROL_OPINFO)
		error = get_ops(job, object, &message->opinfo);
	return error;
}

int codec_decode(struct codec *codec, const uint8_t *json, size_t bytes,
		 struct control_message *message)
{
	struct job job = { codec, "" };
	struct control_message result;
	json_error_t json_error;

	if (bytes > CODEC_JSON_BYTES_MAX)
		return refuse(&job, "%zu bytes, at most %d", bytes, CODEC_JSON_BYTES_MAX);
	json_t *object = json_loadb((const char *)json, bytes, JSON_REJECT_DUPLICATES, &json_error);
	if (!object && json_error_code(&json_error) == json_error_out_of_memory)
		return -ENOMEM;
	if (!object)
		return refuse(&job, "not JSON: %s", json_error.text);
	memset(&result, 0, sizeof(result));
	int error = get_message(&job, object, &result);
	json_decref(object);
	if (!error)
		*message = result;
	return error;
}

/* ---- encode ---- */

/* The length of the character of UTF-8 at text, 0 if it is none. JSON can carry nothing else, but hosts
 * and operations may be called anything. */
static size_t utf8_bytes(const char *text)
{
	const uint8_t *byte = (const uint8_t *)text;
	size_t bytes = byte[0] < 0x80   ? 1
		       : byte[0] < 0xc2 ? 0
		       : byte[0] < 0xe0 ? 2
		       : byte[0] < 0xf0 ? 3
		       : byte[0] < 0xf5 ? 4
					: 0;

	for (size_t i = 1; i < bytes; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] >= 0xa0) ||
	    (byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] >= 0x90))
		return 0; /* overlong, a surrogate, beyond the last */
	return bytes;
}

static json_t *put_string(const char *text)
{
	char clean[CONTROL_TEXT_BYTES + 4];
	size_t used = 0;

	while (*text && used + 4 <= sizeof(clean)) {
		size_t bytes = utf8_bytes(text);
		if (bytes)
			memcpy(clean + used, text, bytes);
		else
			clean[used] = '?';
		used += bytes ? bytes : 1;
		text += bytes ? bytes : 1;
	}
	return json_stringn(clean, used);
}

static json_t *put_ip(const uint8_t *ip)
{
	static const uint8_t zeros[16], mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN] = "";

	if (!memcmp(ip, mapped, sizeof(mapped)))
		inet_ntop(AF_INET, ip + 12, text, sizeof(text));
	else if (memcmp(ip, zeros, sizeof(zeros)) != 0)
		inet_ntop(AF_INET6, ip, text, sizeof(text));
	return json_string(text);
}

static json_t *put_field(const struct field *field, const uint8_t *at)
{
	char digits[2 * 16 + 1];
	uint64_t value;

	switch (field->kind) {
	case NUMBER:
		return json_integer((json_int_t)load(at, field->bytes));
	case BOOLEAN:
		return json_boolean(load(at, field->bytes));
	case HEX:
		snprintf(digits, sizeof(digits), "%016" PRIx64, load(at, field->bytes));
		return json_string(digits);
	case NONCE:
		for (size_t i = 0; i < field->bytes; i++)
			snprintf(digits + 2 * i, 3, "%02x", at[i]);
		return json_string(digits);
	case STRING:
		return put_string((const char *)at);
	case IP:
		return put_ip(at);
	case CAUSE:
		value = load(at, field->bytes);
		return json_string(causes[value < CONTROL_CAUSE_END ? value : CONTROL_INTERNAL]);
	case MEMBER_KIND:
		return json_string(load(at, field->bytes) ? "switch" : "worker");
	}
	return NULL;
}

static int check_field(const struct job *job, const struct field *field, const uint8_t *at)
{
	uint64_t value = field->kind == NUMBER   ? load(at, field->bytes)
			 : field->kind == STRING ? strnlen((const char *)at, field->bytes) + 1
						 : field->min;

	if (value < field->min || value > field->max)
		return refuse(job, "key \"%s\" is %" PRIu64 ", not %" PRIu64 " to %" PRIu64,
			      field->key, value, field->min, field->max);
	return 0;
}

static int put_fields(const struct job *job, const struct field *fields, const void *at,
		      json_t *object)
{
	for (const struct field *field = fields; field->key; field++) {
		const uint8_t *place = (const uint8_t *)at + field->offset;
		int error = check_field(job, field, place);
		if (error)
			return error;
		if (json_object_set_new(object, field->key, put_field(field, place)))
			return -ENOMEM;
	}
	return 0;
}

static int put_array(const struct job *job, json_t *object, const char *key,
		     const struct field *fields, const void *array, size_t stride, size_t count)
{
	json_t *json = json_array();

	if (json_object_set_new(object, key, json))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		json_t *element = json_object();
		if (json_array_append_new(json, element))
			return -ENOMEM;
		int error = put_fields(job, fields, (const uint8_t *)array + i * stride, element);
		if (error)
			return error;
	}
	return 0;
}

static int put_message(const struct job *job, const struct control_message *message, json_t *object)
{
	int error = put_fields(job, messages[message->type].fields, message, object);

	if (error)
		return error;
	if (json_object_set_new(object, "type", json_string(job->message)))
		return -ENOMEM;
	if (message->type == CONTROL_GRANT) {
		uint32_t count = message->grant.shards_count;
		if (count < 1 || count > MAP_SHARDS_MAX)
			return refuse(job, "key \"shards\" has %u elements", count);
		return put_array(job, object, "shards", shard_fields, message->grant.shards,
				 sizeof(message->grant.shards[0]), count);
	}
	if (message->type == CONTROL_OPINFO) {
		uint32_t count = message->opinfo.ops_count;
		if (count > CONTROL_OPS_MAX)
			return refuse(job, "key \"ops\" has %u elements", count);
		error = check_ops(job, message->opinfo.ops, count);
		if (error)
			return error;
		return put_array(job, object, "ops", op_fields, message->opinfo.ops,
				 sizeof(message->opinfo.ops[0]), count);
	}
	return 0;
}

static int dump(const struct job *job, const json_t *object, uint8_t **frame, size_t *bytes)
{
	size_t length = json_dumpb(object, NULL, 0, JSON_COMPACT);

	if (!length)
		return -ENOMEM;
	if (length > CODEC_JSON_BYTES_MAX)
		return refuse(job, "%zu bytes, at most %d", length, CODEC_JSON_BYTES_MAX);
	uint8_t *made = malloc(CODEC_LENGTH_BYTES + length);
	if (!made)
		return -ENOMEM;
	wire_put32(made, (uint32_t)length);
	json_dumpb(object, (char *)made + CODEC_LENGTH_BYTES, length, JSON_COMPACT);
	*frame = made;
	*bytes = CODEC_LENGTH_BYTES + length;
	return 0;
}

int codec_encode(struct codec *codec, const struct control_message *message, uint8_t **frame,
		 size_t *bytes)
{
	struct job job = { codec, "" };

	if (message->type <= CONTROL_NOTHING || message->type >= CONTROL_TYPE_END)
		return refuse(&job, "no message of type %u", (unsigned)message->type);
	job.message = messages[message->type].name;
	json_t *object = json_object();
	if (!object)
		return -ENOMEM;
	int error = put_message(&job, message, object);
	if (!error)
		error = dump(&job, object, frame, bytes);
	json_decref(object);
	return error;
}
