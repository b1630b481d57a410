/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/key.h"

/* volatile: no compiler may leave the loop early. */
bool key_matches(const char *a, const char *b)
{
	volatile uint8_t differs = 0;

	for (uint32_t i = 0; i < CONTROL_KEY_BYTES; i++)
		differs = (uint8_t)(differs | (uint8_t)(a[i] ^ b[i]));
	return !differs;
}
