/* SPDX-License-Identifier: Apache-2.0 */
/* present.c - see present.h. */
#include "lib/present.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/job/control.h"
#include "util/clock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static _Thread_local bool is_here;
static _Thread_local unsigned calling_depth;
static atomic_uint threads, epoch;
static atomic_ullong entries, process;

/* Whoever could guess it could say it for us. */
static void process_draw(void)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != sizeof(drawn))
		drawn = clock_ns() * 0x9e3779b97f4a7c15ull ^ (uint32_t)getpid();
	atomic_store(&process, drawn);
}

static void thread_ends(void *value)
{
	(void)value;
	is_here = false;
	atomic_fetch_sub(&threads, 1);
	present_moved();
}

static void begin(void)
{
	has_key = !pthread_key_create(&key, thread_ends);
	process_draw();
}

/* Of a library that is unloaded nothing may be called when a thread ends. */
__attribute__((destructor)) static void unloaded(void)
{
	if (has_key)
		pthread_key_delete(key);
}

void present_inside(int more)
{
	calling_depth += (unsigned)more;
}

bool present_is_calling(void)
{
	return calling_depth > 0;
}

void present_here(void)
{
	if (is_here || present_is_calling())
		return;
	pthread_once(&once, begin);
	/* One whose end nobody tells counts for ever, and nothing is found: no harm. */
	is_here = true;
	if (has_key)
		(void)pthread_setspecific(key, &is_here);
	atomic_fetch_add(&threads, 1);
	present_moved();
}

void present_moved(void)
{
	atomic_fetch_add(&entries, 1);
}

void present_calls(int more)
{
	atomic_fetch_add(&threads, (unsigned)more);
	present_moved();
}

void present_say(struct control_opinfo *info)
{
	info->entries = atomic_load(&entries);
	info->process = atomic_load(&process);
	info->threads = atomic_load(&threads);
}

void present_forked(void)
{
	atomic_fetch_add(&epoch, 1);
	process_draw();
	atomic_store(&threads, is_here);
}

unsigned present_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_relaxed);
}
