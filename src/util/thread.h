/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - threads of a library: they leave the program's signals alone, and wait by a clock that nobody sets. */
#ifndef UTIL_THREAD_H
#define UTIL_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "util/clock.h"

struct timespec clock_timespec(uint64_t ns);

/* As pthread_create and pthread_cond_init: no signal is ever delivered to the thread; pthread_cond_timedwait takes a time
 * of clock_ns. */
int thread_create(pthread_t *thread, void *(*main)(void *), void *arg);
void thread_cond_init(pthread_cond_t *cond);

#endif
