/* SPDX-License-Identifier: Apache-2.0 */
/* key.h - do two keys match? In constant time: how long it takes says nothing about where they differ. */
#ifndef CORE_KEY_H
#define CORE_KEY_H

#include "core/job/control.h"

/* Both have CONTROL_KEY_BYTES bytes, zeros after the NUL; all of them are looked at: volatile, so that no compiler
 * leaves the loop early. */
static inline bool key_matches(const char *a, const char *b)
{
	volatile uint8_t differs = 0;

	for (uint32_t i = 0; i < CONTROL_KEY_BYTES; i++)
		differs = (uint8_t)(differs | (uint8_t)(a[i] ^ b[i]));
	return !differs;
}

#endif
