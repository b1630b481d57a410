/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.c - see thrift.h. */
#include "dataplane/thrift.h"

#include <string.h>

enum {
	VERSION = 0x8001, /* in the upper half of a message's first word */
	CALL = 1,
	REPLY = 2,
	EXCEPTION = 3,
	DEPTH_MAX = 8,              /* structs and lists inside one another; bmv2 has 4 */
	STRING_BYTES_MAX = 1 << 16, /* of one string, */
	ELEMENTS_MAX = 1 << 14,     /* and of one list: more is no answer to what we ask */
};

/* ---- a call ---- */

static void put(struct thrift_out *out, const void *bytes, uint32_t count)
{
	if (out->is_full || count > out->room - out->used) {
		out->is_full = true;
		return;
	}
	if (count)
		memcpy(out->data + out->used, bytes, count);
	out->used += count;
}

static void put_number(struct thrift_out *out, uint64_t value, uint32_t bytes)
{
	uint8_t number[8];

	for (uint32_t i = 0; i < bytes; i++)
		number[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	put(out, number, bytes);
}

static void put_field(struct thrift_out *out, enum thrift_type type, int16_t field)
{
	put_number(out, type, 1);
	put_number(out, (uint16_t)field, 2);
}

void thrift_element(struct thrift_out *out, const void *bytes, uint32_t count)
{
	put_number(out, count, 4);
	put(out, bytes, count);
}

void thrift_call(struct thrift_out *out, const char *method, int32_t serial)
{
	put_number(out, (uint32_t)VERSION << 16 | CALL, 4);
	thrift_element(out, method, (uint32_t)strlen(method));
	put_number(out, (uint32_t)serial, 4);
}

void thrift_i32(struct thrift_out *out, int16_t field, int32_t value)
{
	put_field(out, THRIFT_I32, field);
	put_number(out, (uint32_t)value, 4);
}

void thrift_i64(struct thrift_out *out, int16_t field, int64_t value)
{
	put_field(out, THRIFT_I64, field);
	put_number(out, (uint64_t)value, 8);
}

void thrift_double(struct thrift_out *out, int16_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_field(out, THRIFT_DOUBLE, field);
	put_number(out, bits, 8);
}

void thrift_bool(struct thrift_out *out, int16_t field, bool value)
{
	put_field(out, THRIFT_BOOL, field);
	put_number(out, value, 1);
}

void thrift_bytes(struct thrift_out *out, int16_t field, const void *bytes, uint32_t count)
{
	put_field(out, THRIFT_STRING, field);
	thrift_element(out, bytes, count);
}

void thrift_text(struct thrift_out *out, int16_t field, const char *text)
{
	thrift_bytes(out, field, text, (uint32_t)strlen(text));
}

void thrift_struct(struct thrift_out *out, int16_t field)
{
	put_field(out, THRIFT_STRUCT, field);
}

void thrift_list(struct thrift_out *out, int16_t field, enum thrift_type of, uint32_t count)
{
	put_field(out, THRIFT_LIST, field);
	put_number(out, of, 1);
	put_number(out, count, 4);
}

void thrift_end(struct thrift_out *out)
{
	put_number(out, THRIFT_STOP, 1);
}

/* ---- an answer ---- */

static void bad(struct thrift_in *in)
{
	if (in->result == THRIFT_OK)
		in->result = THRIFT_BAD;
}

static const uint8_t *take(struct thrift_in *in, uint32_t bytes)
{
	const uint8_t *at = in->data + in->used;

	if (in->result != THRIFT_OK)
		return NULL;
	if (bytes > in->bytes - in->used) {
		in->result = THRIFT_MORE;
		return NULL;
	}
	in->used += bytes;
	return at;
}

static uint64_t take_number(struct thrift_in *in, uint32_t bytes)
{
	const uint8_t *at = take(in, bytes);
	uint64_t value = 0;

	for (uint32_t i = 0; at && i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

uint32_t thrift_take(struct thrift_in *in, uint32_t bytes)
{
	return (uint32_t)take_number(in, bytes);
}

int64_t thrift_take_i64(struct thrift_in *in)
{
	return (int64_t)take_number(in, 8);
}

const uint8_t *thrift_take_bytes(struct thrift_in *in, uint32_t *count)
{
	const uint8_t *at;

	*count = thrift_take(in, 4);
	if (*count > STRING_BYTES_MAX)
		bad(in);
	at = take(in, *count);
	if (!at)
		*count = 0;
	return at;
}

enum thrift_type thrift_take_field(struct thrift_in *in, int16_t *field)
{
	uint32_t type = thrift_take(in, 1);

	*field = type == THRIFT_STOP ? 0 : (int16_t)thrift_take(in, 2);
	return in->result == THRIFT_OK ? (enum thrift_type)type : THRIFT_STOP;
}

static uint32_t take_count(struct thrift_in *in)
{
	uint32_t count = thrift_take(in, 4);

	if (count > ELEMENTS_MAX)
		bad(in);
	return in->result == THRIFT_OK ? count : 0;
}

uint32_t thrift_take_list(struct thrift_in *in, enum thrift_type of)
{
	uint32_t type = thrift_take(in, 1), count = take_count(in);

	if (type != of && count) {
		bad(in);
		return 0;
	}
	return count;
}

static void skip(struct thrift_in *in, uint32_t type, uint32_t depth);

static void skip_fields(struct thrift_in *in, uint32_t depth)
{
	int16_t field;
	enum thrift_type type;

	while ((type = thrift_take_field(in, &field)))
		skip(in, type, depth);
}

/* Of lists and sets `key` is 0. */
static void skip_elements(struct thrift_in *in, uint32_t key, uint32_t value, uint32_t depth)
{
	uint32_t count = take_count(in);

	for (uint32_t i = 0; i < count && in->result == THRIFT_OK; i++) {
		if (key)
			skip(in, key, depth);
		skip(in, value, depth);
	}
}

static void skip(struct thrift_in *in, uint32_t type, uint32_t depth)
{
	uint32_t count, key;

	if (depth > DEPTH_MAX) {
		bad(in);
		return;
	}
	switch (type) {
	case THRIFT_BOOL:
	case THRIFT_BYTE:
		take(in, 1);
		break;
	case THRIFT_I16:
		take(in, 2);
		break;
	case THRIFT_I32:
		take(in, 4);
		break;
	case THRIFT_DOUBLE:
	case THRIFT_I64:
		take(in, 8);
		break;
	case THRIFT_STRING:
		thrift_take_bytes(in, &count);
		break;
	case THRIFT_STRUCT:
		skip_fields(in, depth + 1);
		break;
	case THRIFT_MAP:
		key = thrift_take(in, 1);
		count = thrift_take(in, 1);
		skip_elements(in, key, count, depth + 1);
		break;
	case THRIFT_SET:
	case THRIFT_LIST:
		skip_elements(in, 0, thrift_take(in, 1), depth + 1);
		break;
	default:
		bad(in);
	}
}

void thrift_skip(struct thrift_in *in, enum thrift_type type)
{
	skip(in, type, 0);
}

/* What can be read as a number; all else is passed over. */
static int64_t take_value(struct thrift_in *in, enum thrift_type type)
{
	switch (type) {
	case THRIFT_BOOL:
	case THRIFT_BYTE:
		return (int64_t)thrift_take(in, 1);
	case THRIFT_I16:
		return (int16_t)thrift_take(in, 2);
	case THRIFT_I32:
		return (int32_t)thrift_take(in, 4);
	case THRIFT_I64:
		return thrift_take_i64(in);
	default:
		thrift_skip(in, type);
		return 0;
	}
}

/* The numbers in the fields 1 and 2. */
static void take_pair(struct thrift_in *in, int64_t pair[2])
{
	enum thrift_type type;
	int16_t field;

	while ((type = thrift_take_field(in, &field))) {
		int64_t value = take_value(in, type);

		if (field == 1 || field == 2)
			pair[field - 1] = value;
	}
}

/* The server knows no such method, or could not read us. */
static void take_exception(struct thrift_in *in, struct thrift_answer *answer)
{
	enum thrift_type type;
	int16_t field;
	uint32_t count;

	answer->is_refused = true;
	while ((type = thrift_take_field(in, &field))) {
		if (field != 1 || type != THRIFT_STRING) {
			thrift_skip(in, type);
			continue;
		}
		const uint8_t *text = thrift_take_bytes(in, &count);

		if (count > sizeof(answer->text) - 1)
			count = sizeof(answer->text) - 1;
		for (uint32_t i = 0; i < count; i++) /* it may go to a terminal */
			answer->text[i] = text[i] >= ' ' && text[i] < 127 ? (char)text[i] : '?';
		answer->text[count] = '\0';
	}
}

/* Field 0 is what the method returns, any other what it throws: a struct whose field 1 is a code. */
static void take_reply(struct thrift_in *in, struct thrift_answer *answer)
{
	int64_t pair[2] = { 0, 0 };
	enum thrift_type type;
	int16_t field;

	while ((type = thrift_take_field(in, &field))) {
		if (field) {
			int64_t thrown[2] = { 0, 0 };

			if (type != THRIFT_STRUCT) {
				bad(in);
				return;
			}
			take_pair(in, thrown);
			answer->is_refused = true;
			answer->code = (int32_t)thrown[0];
			continue;
		}
		answer->type = type;
		answer->value = in->used;
		if (type == THRIFT_STRUCT)
			take_pair(in, pair);
		else
			pair[0] = take_value(in, type);
		answer->number = pair[0];
		answer->second = pair[1];
	}
}

enum thrift_result thrift_read(const uint8_t *data, uint32_t bytes, struct thrift_answer *answer)
{
	struct thrift_in in = { .data = data, .bytes = bytes };
	uint32_t first = thrift_take(&in, 4), kind = first & 0xff, count;

	*answer = (struct thrift_answer){ .type = THRIFT_STOP };
	if (in.result == THRIFT_OK &&
	    (first >> 16 != VERSION || (kind != REPLY && kind != EXCEPTION)))
		return THRIFT_BAD;
	thrift_take_bytes(&in, &count);
	answer->serial = (int32_t)thrift_take(&in, 4);
	if (kind == EXCEPTION)
		take_exception(&in, answer);
	else
		take_reply(&in, answer);
	answer->bytes = in.used;
	return in.result;
}
