/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thrift.h - Thrift's binary protocol, as far as bmv2's switches speak it: calls as bytes, and answers out of bytes that
 * anybody may have sent. Pure arithmetic on memory that the caller lends; bmv2.c is its user.
 */
#ifndef DATAPLANE_THRIFT_H
#define DATAPLANE_THRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum thrift_type {
	THRIFT_STOP = 0, /* ends the fields of a struct */
	THRIFT_BOOL = 2,
	THRIFT_BYTE = 3,
	THRIFT_DOUBLE = 4,
	THRIFT_I16 = 6,
	THRIFT_I32 = 8,
	THRIFT_I64 = 10,
	THRIFT_STRING = 11,
	THRIFT_STRUCT = 12,
	THRIFT_MAP = 13,
	THRIFT_SET = 14,
	THRIFT_LIST = 15
};

/* ---- a call ---- */

struct thrift_out {
	uint8_t *data;
	uint32_t room, used;
	bool is_full; /* something did not fit: it is no call */
};

/* The call of `method` (of "service:method") begins: its arguments follow, as fields, then thrift_end. */
void thrift_call(struct thrift_out *out, const char *method, int32_t serial);
/* A field of the innermost struct. A struct's own fields follow, then thrift_end; a list's elements follow, bare. */
void thrift_i32(struct thrift_out *out, int16_t field, int32_t value);
void thrift_i64(struct thrift_out *out, int16_t field, int64_t value);
void thrift_double(struct thrift_out *out, int16_t field, double value);
void thrift_bool(struct thrift_out *out, int16_t field, bool value);
void thrift_text(struct thrift_out *out, int16_t field, const char *text);
void thrift_bytes(struct thrift_out *out, int16_t field, const void *bytes, uint32_t count);
void thrift_struct(struct thrift_out *out, int16_t field);
void thrift_list(struct thrift_out *out, int16_t field, enum thrift_type of, uint32_t count);
/* A list's element: bytes. Those of a list of structs are their fields, then thrift_end. */
void thrift_element(struct thrift_out *out, const void *bytes, uint32_t count);
void thrift_end(struct thrift_out *out);

/* ---- an answer ---- */

enum thrift_result {
	THRIFT_OK,
	THRIFT_MORE, /* the bytes so far are the beginning of an answer */
	THRIFT_BAD   /* they are not */
};

struct thrift_in {
	const uint8_t *data;
	uint32_t bytes, used;
	enum thrift_result result; /* once it is not OK, nothing more is taken, and numbers are 0 */
};

/* 0 and the like behind the end. */
uint32_t thrift_take(struct thrift_in *in, uint32_t bytes); /* a number of 1 to 4 bytes */
int64_t thrift_take_i64(struct thrift_in *in);
/* Of a string: *count bytes, which are lent. */
const uint8_t *thrift_take_bytes(struct thrift_in *in, uint32_t *count);
/* The next field: its type, THRIFT_STOP behind the last. */
enum thrift_type thrift_take_field(struct thrift_in *in, int16_t *field);
/* Of a list: how many elements; BAD if they are not of this type. */
uint32_t thrift_take_list(struct thrift_in *in, enum thrift_type of);
/* Whatever it is. */
void thrift_skip(struct thrift_in *in, enum thrift_type type);

struct thrift_answer {
	int32_t serial;
	bool is_refused; /* the switch has not done it: */
	int32_t code;    /* of the method's own exception; 0: of none, */
	char text[128];  /* but the server's, in its words */
	uint32_t bytes;  /* of the answer, which is at the front of what was read */
	int64_t number;  /* what the method returns, if that is a number; */
	int64_t second;  /* if it is a struct, of its first two fields */
	uint32_t value;  /* where it begins, */
	uint32_t type;   /* of what type it is; THRIFT_STOP: there is none */
};

/* Reads the answer at the front of `bytes` bytes. */
enum thrift_result thrift_read(const uint8_t *data, uint32_t bytes, struct thrift_answer *answer);

#endif
