/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom.h - memory that runs out when told: malloc and its kin of the whole process, glibc's underneath.
 * Linking oom.c is what does it. Not under a sanitizer, which has its own.
 */
#ifndef TESTS_E2E_OOM_H
#define TESTS_E2E_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* From now on the n-th allocation of this process (1: the next) fails, and with is_lasting all that
 * follow; 0: none does. */
void oom_arm(uint64_t n, bool is_lasting);
/* Allocations since oom_arm. */
uint64_t oom_count(void);

#endif
