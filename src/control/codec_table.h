/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_table.h - the keys of every message, their types and ranges. Included by codec.c and codec_table.c
 * alone.
 */
#ifndef CONTROL_CODEC_TABLE_H
#define CONTROL_CODEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/job/control.h"

enum codec_kind {
	NUMBER,
	BOOLEAN,
	HEX,    /* 64 bits as 16 digits: JSON's numbers have 53 that are sure to arrive */
	NONCE,  /* WIRE_NONCE_BYTES as digits */
	STRING, /* min..max bytes with the NUL, max is the array's size */
	IP,     /* 16 bytes; "" is all zeros */
	CAUSE,
	MEMBER_KIND, /* from here on one of codec_words, as its index */
	MEMBER_MODE,
	CODEC_KIND_END
};

struct codec_field {
	const char *key;
	enum codec_kind kind;
	size_t offset, bytes;
	uint64_t min, max;
	bool is_optional;
	uint64_t fallback;
};

struct codec_type {
	const char *name;
	const struct codec_field *fields; /* ended by one without a key */
};

extern const struct codec_type codec_types[CONTROL_TYPE_END];
extern const char *const codec_causes[CONTROL_CAUSE_END];
extern const char *const codec_words[CODEC_KIND_END][2]; /* MEMBER_KIND, MEMBER_MODE */
/* Elements of arrays: of GRANT, START, OPINFO. */
extern const struct codec_field codec_shard_fields[], codec_member_fields[], codec_op_fields[];
extern const struct codec_field codec_nonce_field;

#endif
