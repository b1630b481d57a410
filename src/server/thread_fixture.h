/* SPDX-License-Identifier: Apache-2.0 */
/* thread_fixture.h - for tests: a thread is not made, but seen. Needs -Wl,--wrap=pthread_create,--wrap=pthread_setname_np;
 * included once in a program. */
#ifndef SERVER_THREAD_FIXTURE_H
#define SERVER_THREAD_FIXTURE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

static struct {
	int result; /* of pthread_create */
	void *(*begin)(void *);
	void *arg;
	bool are_blocked; /* all signals, while the thread was made */
	char name[16];
} thread_seen;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*begin)(void *),
			  void *arg);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*begin)(void *),
			  void *arg)
{
	sigset_t mask;

	(void)attr;
	*thread = 0;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	thread_seen.are_blocked = sigismember(&mask, SIGTERM) == 1 &&
				  sigismember(&mask, SIGUSR1) == 1;
	thread_seen.begin = begin;
	thread_seen.arg = arg;
	return thread_seen.result;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	snprintf(thread_seen.name, sizeof(thread_seen.name), "%s", name);
	return 0;
}

#endif
