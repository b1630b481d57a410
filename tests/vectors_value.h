/* SPDX-License-Identifier: Apache-2.0 */
/* vectors_value.h - reads what stands behind the = of a key=value in a golden packet. */
#ifndef TESTS_VECTORS_VALUE_H
#define TESTS_VECTORS_VALUE_H

#include "vectors.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct value_name {
	const char *text;
	uint32_t value;
};

enum value_kind {
	VALUE_U8,
	VALUE_U16,
	VALUE_U32,
	VALUE_FLAGS,
	VALUE_EXPONENT,
	VALUE_CHILD,
	VALUE_LANES,
	VALUE_MEMBERS,
	VALUE_MODE
};

struct value_key {
	const char *name;
	enum value_kind kind;
	void *at;
	bool is_needed;
	bool is_seen;
};

bool value_name_find(const struct value_name *names, size_t count, const char *text,
		     uint32_t *value);

/* value_parse writes to key->at what `text` says; false if that is no value of this kind. `job` says which
 * children there are. */
bool value_parse(const struct switch_job *job, const struct value_key *key, const char *text);

#endif
