/* SPDX-License-Identifier: Apache-2.0 */
#include "util/thread.h"

#include <signal.h>

int thread_create(pthread_t *thread, void *(*main)(void *), void *arg)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
