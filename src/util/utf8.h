/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h - texts for what takes nothing but UTF-8. Names of hosts and operations are whatever bytes they
 * are, and a text may have been cut inside of a character: JSON would not have them at all.
 */
#ifndef UTIL_UTF8_H
#define UTIL_UTF8_H

#include <stddef.h>

/* Copies a terminated text, cut to max - 1 bytes between two characters; what is not UTF-8 becomes '?', byte
 * for byte. `max` is at least 1. Returns `to`. */
char *utf8_copy(char *to, size_t max, const char *from);

/* What is a blank or no printable ASCII becomes '_', byte for byte: a name for what takes no other. Returns
 * `text`. */
char *utf8_to_word(char *text);

#endif
