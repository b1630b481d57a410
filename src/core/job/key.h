/* SPDX-License-Identifier: Apache-2.0 */
/* key.h - do two keys match? In constant time: how long it takes says nothing about where they differ. */
#ifndef CORE_KEY_H
#define CORE_KEY_H

#include "core/job/control.h"

/* Both have CONTROL_KEY_BYTES bytes, zeros after the NUL; all of them are looked at. */
bool key_matches(const char *a, const char *b);

#endif
