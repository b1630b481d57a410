/* SPDX-License-Identifier: Apache-2.0 */
#include "control/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/codec_table.h"
#include "util/address.h"
#include "util/utf8.h"

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

/* ---- numbers of 1, 2, 4 or 8 bytes, wherever they are; little-endian: env.h sees to it ---- */

static void store(void *at, size_t bytes, uint64_t value)
{
	memcpy(at, &value, bytes);
}

static uint64_t load(const void *at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

/* ---- decode ---- */

static bool hex_digits(const char *text, size_t digits)
{
	return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int get_number(const struct job *job, const struct codec_field *field, const json_t *json,
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

static int get_nonce(const struct job *job, const struct codec_field *field, const char *text,
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

static int get_ip(const struct job *job, const struct codec_field *field, const char *text,
		  uint8_t *at)
{
	memset(at, 0, 16);
	if (text[0] && !address_from_text(text, at))
		return refuse(job, "key \"%s\" is not an address", field->key);
	return 0;
}

/* R-CT-7: a newer peer may know causes that we do not: an end is an end. */
static uint64_t cause_of(const char *text)
{
	for (uint32_t i = CONTROL_OK + 1; i < CONTROL_CAUSE_END; i++) {
		if (!strcmp(codec_causes[i], text))
			return i;
	}
	return CONTROL_REMOTE;
}

static int get_text(const struct job *job, const struct codec_field *field, const json_t *json,
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
	if (field->kind >= MEMBER_KIND) {
		const char *const *words = codec_words[field->kind];
		bool is_second = !strcmp(text, words[1]);
		if (!is_second && strcmp(text, words[0]) != 0)
			return refuse(job, "key \"%s\" is neither %s nor %s", field->key, words[0],
				      words[1]);
		store(at, field->bytes, is_second);
		return 0;
	}
	size_t length = json_string_length(json);
	if (length + 1 < field->min || length + 1 > field->max)
		return refuse(job, "key \"%s\" has %zu bytes, not %" PRIu64 " to %" PRIu64,
			      field->key, length, field->min - 1, field->max - 1);
	memcpy(at, text, length);
	return 0;
}

static int get_fields(const struct job *job, const struct codec_field *fields, const json_t *object,
		      uint8_t *at)
{
	for (const struct codec_field *field = fields; field->key; field++) {
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
		     size_t count_max, const struct codec_field *fields, void *array, size_t stride,
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
	int error = get_array(job, object, "ops", 0, CONTROL_OPS_MAX, codec_op_fields, ops,
			      sizeof(*ops), &info->ops_count);

	if (error)
		return error;
	info->ops = ops;
	return check_ops(job, ops, info->ops_count);
}

static int check_members(const struct job *job, const struct control_member *members, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (members[i].rank <= members[i - 1].rank)
			return refuse(job, "key \"members\": ranks do not ascend");
	}
	return 0;
}

static int get_members(const struct job *job, const json_t *object, struct control_start *start)
{
	struct control_member *members = job->codec->members;
	int error = get_array(job, object, "members", 0, CONTROL_MEMBERS_MAX, codec_member_fields,
			      members, sizeof(*members), &start->members_count);

	if (error)
		return error;
	start->members = members;
	return check_members(job, members, start->members_count);
}

static int check_missing(const struct job *job, const struct control_waiting *waiting)
{
	if (waiting->listed_count > waiting->missing_count)
		return refuse(job, "key \"missing\" has %u elements, more than missing_count %u",
			      waiting->listed_count, waiting->missing_count);
	for (size_t i = 0; i < waiting->listed_count; i++) {
		if (waiting->missing[i] >= CONTROL_MEMBERS_MAX ||
		    (i && waiting->missing[i] <= waiting->missing[i - 1]))
			return refuse(job, "key \"missing\": not ranks that ascend");
	}
	return 0;
}

static int get_missing(const struct job *job, const json_t *object, struct control_waiting *waiting)
{
	const json_t *json = json_object_get(object, "missing");
	size_t count = json_array_size(json);

	if (!json_is_array(json))
		return refuse(job, json ? "key \"%s\" is not an array" : "no key \"%s\"",
			      "missing");
	if (count > CONTROL_MISSING_MAX)
		return refuse(job, "key \"missing\" has %zu elements, not 0 to %d", count,
			      CONTROL_MISSING_MAX);
	for (size_t i = 0; i < count; i++) {
		const json_t *rank = json_array_get(json, i);
		json_int_t value = json_integer_value(rank);

		if (!json_is_integer(rank) || value < 0 || value >= CONTROL_MEMBERS_MAX)
			return refuse(job, "key \"missing\": not a rank");
		waiting->missing[i] = (uint16_t)value;
	}
	waiting->listed_count = (uint16_t)count;
	return check_missing(job, waiting);
}

static int check_instance(const struct job *job, const struct control_table_grant *grant)
{
	return grant->instance ? 0 : refuse(job, "key \"instance\" is 0");
}

static int get_nonces(const struct job *job, const json_t *object,
		      struct control_table_grant *grant)
{
	const char *key = codec_nonce_field.key;
	const json_t *json = json_object_get(object, key);
	size_t count = json_array_size(json);

	if (!json_is_array(json))
		return refuse(job, json ? "key \"%s\" is not an array" : "no key \"%s\"", key);
	if (count < 2 || count > CONTROL_NONCES_MAX)
		return refuse(job, "key \"%s\" has %zu elements, not 2 to %d", key, count,
			      CONTROL_NONCES_MAX);
	for (size_t i = 0; i < count; i++) {
		const json_t *nonce = json_array_get(json, i);
		int error = get_text(job, &codec_nonce_field, nonce, job->codec->nonces[i]);

		if (error)
			return error;
	}
	grant->nonces = (const uint8_t(*)[WIRE_NONCE_BYTES])job->codec->nonces;
	grant->nonces_count = (uint16_t)count;
	return check_instance(job, grant);
}

static int check_mode(const struct job *job, const struct control_join *join)
{
	if (join->mode == CONTROL_DENSE && (join->latency_slots || join->latency_window))
		return refuse(job, "key \"latency_slots\" or \"latency_window\" in mode dense");
	if (join->mode == CONTROL_LATENCY && !join->latency_slots)
		return refuse(job, "key \"latency_slots\" is 0, not 1 to %d",
			      CONTROL_LATENCY_SLOTS_MAX);
	if (join->mode == CONTROL_LATENCY &&
	    (!join->latency_window || join->latency_window > join->latency_slots))
		return refuse(job, "key \"latency_window\" is %u, not 1 to %u",
			      join->latency_window, join->latency_slots);
	return 0;
}

static int get_type(const struct job *job, const json_t *object, enum control_type *type)
{
	const char *name = json_string_value(json_object_get(object, "type"));

	if (!json_is_object(object))
		return refuse(job, "not a JSON object");
	if (!name)
		return refuse(job, "no key \"type\"");
	for (uint32_t i = CONTROL_JOIN; i < CONTROL_TYPE_END; i++) {
		if (!strcmp(codec_types[i].name, name)) {
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
	job->message = codec_types[message->type].name;
	error = get_fields(job, codec_types[message->type].fields, object, (uint8_t *)message);
	if (error)
		return error;
	switch (message->type) {
	case CONTROL_JOIN:
		return check_mode(job, &message->join);
	case CONTROL_GRANT:
		return get_array(job, object, "shards", 1, MAP_SHARDS_MAX, codec_shard_fields,
				 message->grant.shards, sizeof(message->grant.shards[0]),
				 &message->grant.shards_count);
	case CONTROL_START:
		return get_members(job, object, &message->start);
	case CONTROL_WAITING:
		return get_missing(job, object, &message->waiting);
	case CONTROL_OPINFO:
		return get_ops(job, object, &message->opinfo);
	case CONTROL_TABLE_GRANT:
		return get_nonces(job, object, &message->table_grant);
	default:
		return 0;
	}
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
	if (!object && !json_error.text[0])
		return -ENOMEM; /* jansson has a text for everything else */
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

/* JSON can carry nothing but UTF-8, but hosts and operations may be called anything. */
static json_t *put_string(const char *text)
{
	char clean[CONTROL_TEXT_BYTES];

	return json_string(utf8_copy(clean, sizeof(clean), text));
}

static json_t *put_ip(const uint8_t *ip)
{
	static const uint8_t zeros[16];
	char text[INET6_ADDRSTRLEN];

	return json_string(memcmp(ip, zeros, sizeof(zeros)) != 0 ? address_to_text(ip, text) : "");
}

static json_t *put_field(const struct codec_field *field, const uint8_t *at)
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
		return json_string(
			codec_causes[value < CONTROL_CAUSE_END ? value : CONTROL_INTERNAL]);
	case MEMBER_KIND:
	case MEMBER_MODE:
		return json_string(codec_words[field->kind][load(at, field->bytes) != 0]);
	case CODEC_KIND_END:
		break;
	}
	return NULL;
}

static int check_field(const struct job *job, const struct codec_field *field, const uint8_t *at)
{
	uint64_t value = field->kind == NUMBER   ? load(at, field->bytes)
			 : field->kind == STRING ? strnlen((const char *)at, field->bytes) + 1
						 : field->min;

	if (value < field->min || value > field->max)
		return refuse(job, "key \"%s\" is %" PRIu64 ", not %" PRIu64 " to %" PRIu64,
			      field->key, value, field->min, field->max);
	return 0;
}

static int put_fields(const struct job *job, const struct codec_field *fields, const void *at,
		      json_t *object)
{
	for (const struct codec_field *field = fields; field->key; field++) {
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
		     const struct codec_field *fields, const void *array, size_t stride,
		     size_t count)
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

static int put_shards(const struct job *job, const struct control_grant *grant, json_t *object)
{
	uint32_t count = grant->shards_count;

	if (count < 1 || count > MAP_SHARDS_MAX)
		return refuse(job, "key \"shards\" has %u elements", count);
	return put_array(job, object, "shards", codec_shard_fields, grant->shards,
			 sizeof(grant->shards[0]), count);
}

static int put_members(const struct job *job, const struct control_start *start, json_t *object)
{
	uint32_t count = start->members_count;

	if (count > CONTROL_MEMBERS_MAX)
		return refuse(job, "key \"members\" has %u elements", count);
	int error = check_members(job, start->members, count);
	if (error)
		return error;
	return put_array(job, object, "members", codec_member_fields, start->members,
			 sizeof(start->members[0]), count);
}

static int put_missing(const struct job *job, const struct control_waiting *waiting, json_t *object)
{
	json_t *json = json_array();

	if (json_object_set_new(object, "missing", json))
		return -ENOMEM;
	if (waiting->listed_count > CONTROL_MISSING_MAX)
		return refuse(job, "key \"missing\" has %u elements", waiting->listed_count);
	int error = check_missing(job, waiting);
	if (error)
		return error;
	for (uint32_t i = 0; i < waiting->listed_count; i++) {
		if (json_array_append_new(json, json_integer(waiting->missing[i])))
			return -ENOMEM;
	}
	return 0;
}

static int put_ops(const struct job *job, const struct control_opinfo *info, json_t *object)
{
	uint32_t count = info->ops_count;

	if (count > CONTROL_OPS_MAX)
		return refuse(job, "key \"ops\" has %u elements", count);
	int error = check_ops(job, info->ops, count);
	if (error)
		return error;
	return put_array(job, object, "ops", codec_op_fields, info->ops, sizeof(info->ops[0]),
			 count);
}

static int put_nonces(const struct job *job, const struct control_table_grant *grant,
		      json_t *object)
{
	json_t *json = json_array();

	if (json_object_set_new(object, codec_nonce_field.key, json))
		return -ENOMEM;
	if (grant->nonces_count < 2 || grant->nonces_count > CONTROL_NONCES_MAX)
		return refuse(job, "key \"%s\" has %u elements", codec_nonce_field.key,
			      grant->nonces_count);
	for (uint32_t i = 0; i < grant->nonces_count; i++)
		if (json_array_append_new(json, put_field(&codec_nonce_field, grant->nonces[i])))
			return -ENOMEM;
	return check_instance(job, grant);
}

static int put_message(const struct job *job, const struct control_message *message, json_t *object)
{
	int error = put_fields(job, codec_types[message->type].fields, message, object);

	if (error)
		return error;
	if (json_object_set_new(object, "type", json_string(job->message)))
		return -ENOMEM;
	switch (message->type) {
	case CONTROL_JOIN:
		return check_mode(job, &message->join);
	case CONTROL_GRANT:
		return put_shards(job, &message->grant, object);
	case CONTROL_START:
		return put_members(job, &message->start, object);
	case CONTROL_WAITING:
		return put_missing(job, &message->waiting, object);
	case CONTROL_OPINFO:
		return put_ops(job, &message->opinfo, object);
	case CONTROL_TABLE_GRANT:
		return put_nonces(job, &message->table_grant, object);
	default:
		return 0;
	}
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
	if (json_dumpb(object, (char *)made + CODEC_LENGTH_BYTES, length, JSON_COMPACT) != length) {
		free(made); /* or the heap's old bytes would be sent */
		return -ENOMEM;
	}
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
	job.message = codec_types[message->type].name;
	json_t *object = json_object();
	if (!object)
		return -ENOMEM;
	int error = put_message(&job, message, object);
	if (!error)
		error = dump(&job, object, frame, bytes);
	json_decref(object);
	return error;
}
