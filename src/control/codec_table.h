/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_table.h - the keys of every message, their types and ranges. Included by codec.c and codec_table.c
 * alone.
 */
#ifndef CONTROL_CODEC_TABLE_H
#define CONTROL_CODEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "control/codec.h"

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

/* A list: its elements are objects, or plain values of one field. */
struct codec_list {
	const char *key;
	const struct codec_field *fields; /* of an element */
	size_t stride, count_at;          /* of the count in the message: 16 bits */
	size_t at;                        /* of the array there, or of a pointer to it: */
	size_t lent;                      /* ... which decode puts into struct codec, here */
	size_t min, max;
	bool is_lent, is_plain;
};

struct codec_type {
	const char *name;
	const struct codec_field *fields; /* ended by one without a key */
	const struct codec_list *list;    /* NULL: it has none */
};

extern const struct codec_type codec_types[CONTROL_TYPE_END];
extern const char *const codec_causes[CONTROL_CAUSE_END];
extern const char *const codec_words[CODEC_KIND_END][2]; /* MEMBER_KIND, MEMBER_MODE */

#endif
