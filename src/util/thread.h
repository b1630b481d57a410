/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - threads of a library leave the program's signals alone. */
#ifndef UTIL_THREAD_H
#define UTIL_THREAD_H

#include <pthread.h>

/* As pthread_create: no signal is ever delivered to the thread. */
int thread_create(pthread_t *thread, void *(*main)(void *), void *arg);

#endif
