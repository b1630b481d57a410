/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - a sentence about an error, as all of this room tells it. */
#ifndef PS_FAIL_H
#define PS_FAIL_H

enum { PS_ERROR_MAX = 768, PS_NAME_MAX = 64 };

/* Writes the sentence. -1, for whoever returns that. */
__attribute__((format(printf, 2, 3))) int ps_fail(char error[PS_ERROR_MAX], const char *format,
						  ...);

#endif
