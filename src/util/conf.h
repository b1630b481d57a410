/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - lines of KEY=VALUE, for configuration files.
 *
 * Blank lines and lines whose first character is # are nothing. Blanks around key and value do not
 * count, nor does a carriage return at a line's end. A key has letters, digits, - and _. A value is the
 * rest of its line as it stands: no quotes, no escapes, no comment behind it; it may be empty. Control
 * characters, a NUL among them, are refused, and so is what is longer than the limits here.
 */
#ifndef UTIL_CONF_H
#define UTIL_CONF_H

#include <stddef.h>
#include <stdint.h>

enum {
	CONF_KEY_MAX = 63,
	CONF_VALUE_MAX = 1023,
	CONF_SHOWN_MAX = 40,      /* of a bad line in a message */
	CONF_FILE_BYTES = 1 << 16 /* no configuration is larger */
};

struct conf {
	const char *at, *end; /* what is left; lent by the caller */
	uint32_t line;        /* of what was read last, from 1 */
};

struct conf_pair {
	char key[CONF_KEY_MAX + 1]; /* "" after CONF_BAD, unless the key was good */
	char value[CONF_VALUE_MAX + 1];
	const char *why; /* CONF_BAD: "not KEY=VALUE", ... */
	char shown[CONF_SHOWN_MAX +
		   4]; /* CONF_BAD: how the line begins, printable; a line that speaks
	                                   of a key is not shown */
};

enum conf_result {
	CONF_BAD =
		-1, /* this line is refused: pair->why, pair->shown, conf->line; one may read on */
	CONF_END = 0,
	CONF_PAIR = 1, /* pair->key and pair->value */
};

/* The bytes stay the caller's, and need no NUL at their end. */
void conf_init(struct conf *conf, const char *data, size_t bytes);

/* The next line that is something. Pure: no I/O, no allocation, no state but *conf's; every call uses up
 * at least one line. */
enum conf_result conf_next(struct conf *conf, struct conf_pair *pair);

/* A whole file into `data`: its bytes, or a negative errno; -EFBIG: more than fit, -EISDIR and -EINVAL:
 * not a regular file. *mode_out (may be NULL): st_mode, to see who may read it. */
long conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out);

/* A secret from a file of one line, for people and daemons alike: blanks and the newline at its end do
 * not count. 0, a negative errno of conf_load, or -EBADMSG: empty, not printable, of several lines, or
 * longer than key_bytes - 1. On failure key is "". What was read is never part of a message. */
int conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out);

/* What a negative result of these two means: "not a regular file"; else what strerror says. */
const char *conf_error_text(long error);

#endif
