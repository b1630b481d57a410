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

/* ---- what is wrong with a message, whichever way it goes ---- */

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

static int check_members(const struct job *job, const struct control_start *start)
{
	for (size_t i = 1; i < start->members_count; i++) {
		if (start->members[i].rank <= start->members[i - 1].rank)
			return refuse(job, "key \"members\": ranks do not ascend");
	}
	return 0;
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

static int check_ops(const struct job *job, const struct control_opinfo *info)
{
	for (size_t i = 1; i < info->ops_count; i++) {
		if (info->ops[i].number <= info->ops[i - 1].number)
			return refuse(job, "key \"ops\": numbers do not ascend");
	}
	return 0;
}

/* What no field says by itself. */
static int check_message(const struct job *job, const struct control_message *message)
{
	switch (message->type) {
	case CONTROL_JOIN:
		return check_mode(job, &message->join);
	case CONTROL_START:
		return check_members(job, &message->start);
	case CONTROL_WAITING:
		return check_missing(job, &message->waiting);
	case CONTROL_OPINFO:
		return check_ops(job, &message->opinfo);
	case CONTROL_TABLE_GRANT:
		return message->table_grant.instance ? 0 : refuse(job, "key \"instance\" is 0");
	default:
		return 0;
	}
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

static int get_value(const struct job *job, const struct codec_field *field, const json_t *json,
		     uint8_t *at)
{
	if (field->kind == NUMBER)
		return get_number(job, field, json, at);
	if (field->kind != BOOLEAN)
		return get_text(job, field, json, at);
	if (!json_is_boolean(json))
		return refuse(job, "key \"%s\" is neither true nor false", field->key);
	store(at, field->bytes, json_is_true(json));
	return 0;
}

static int get_fields(const struct job *job, const struct codec_field *fields, const json_t *object,
		      uint8_t *at)
{
	for (const struct codec_field *field = fields; field->key; field++) {
		const json_t *json = json_object_get(object, field->key);
		int error;

		if (!json && !field->is_optional)
			return refuse(job, "no key \"%s\"", field->key);
		if (!json) {
			if (field->fallback)
				store(at + field->offset, field->bytes, field->fallback);
			continue;
		}
		error = get_value(job, field, json, at + field->offset);
		if (error)
			return error;
	}
	return 0;
}

/* The elements of a list, one after another. */
static int get_list(const struct job *job, const struct codec_list *list, const json_t *object,
		    uint8_t *message)
{
	const json_t *json = json_object_get(object, list->key);
	size_t count = json_array_size(json);
	uint8_t *array = list->is_lent ? (uint8_t *)job->codec + list->lent : message + list->at;

	if (!json_is_array(json))
		return refuse(job, json ? "key \"%s\" is not an array" : "no key \"%s\"",
			      list->key);
	if (count < list->min || count > list->max)
		return refuse(job, "key \"%s\" has %zu elements, not %zu to %zu", list->key, count,
			      list->min, list->max);
	memset(array, 0, count * list->stride);
	for (size_t i = 0; i < count; i++) {
		const json_t *element = json_array_get(json, i);
		uint8_t *at = array + i * list->stride;
		int error;

		if (list->is_plain)
			error = get_value(job, list->fields, element, at);
		else if (json_is_object(element))
			error = get_fields(job, list->fields, element, at);
		else
			error = refuse(job, "key \"%s\": not an object", list->key);
		if (error)
			return error;
	}
	if (list->is_lent)
		memcpy(message + list->at, &array, sizeof(array));
	store(message + list->count_at, sizeof(uint16_t), count);
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
	const struct codec_type *type;
	int error = get_type(job, object, &message->type);

	if (error)
		return error;
	type = &codec_types[message->type];
	job->message = type->name;
	error = get_fields(job, type->fields, object, (uint8_t *)message);
	if (!error && type->list)
		error = get_list(job, type->list, object, (uint8_t *)message);
	return error ? error : check_message(job, message);
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

static int put_list(const struct job *job, const struct codec_list *list, const uint8_t *message,
		    json_t *object)
{
	const uint8_t *at = message + list->at;
	uint64_t count = load(message + list->count_at, sizeof(uint16_t));
	json_t *json = json_array();

	if (json_object_set_new(object, list->key, json))
		return -ENOMEM;
	if (list->is_lent)
		memcpy(&at, message + list->at, sizeof(at));
	for (; count; count--, at += list->stride) {
		json_t *element = list->is_plain ? put_field(list->fields, at) : json_object();
		int error;

		if (json_array_append_new(json, element))
			return -ENOMEM;
		error = list->is_plain ? 0 : put_fields(job, list->fields, at, element);
		if (error)
			return error;
	}
	return 0;
}

static int check_count(const struct job *job, const struct codec_list *list, const uint8_t *message)
{
	uint64_t count = load(message + list->count_at, sizeof(uint16_t));

	return count < list->min || count > list->max
		       ? refuse(job, "key \"%s\" has %" PRIu64 " elements", list->key, count)
		       : 0;
}

static int put_message(const struct job *job, const struct control_message *message, json_t *object)
{
	const struct codec_type *type = &codec_types[message->type];
	int error = put_fields(job, type->fields, message, object);

	if (!error && type->list)
		error = check_count(job, type->list, (const uint8_t *)message);
	if (!error)
		error = check_message(job, message);
	if (error)
		return error;
	if (json_object_set_new(object, "type", json_string(job->message)))
		return -ENOMEM;
	return type->list ? put_list(job, type->list, (const uint8_t *)message, object) : 0;
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
