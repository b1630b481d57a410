/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skip.h - for tests of cmocka that cannot run here: they say why, as scripts/testlog.py reads it, and it counts them.
 * Included after cmocka.h.
 */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H

/* For want of what Debian has, or a kernel grants. */
#define SKIP(what)                                 \
	do {                                       \
		print_message("SKIP: %s\n", what); \
		skip();                            \
	} while (0)

/* For want of what no package brings. */
#define SKIP_NOT_HERE(what)                            \
	do {                                           \
		print_message("NOT HERE: %s\n", what); \
		skip();                                \
	} while (0)

#endif
