/* SPDX-License-Identifier: Apache-2.0 */
/* sleep.c - core/host/wait.h with the kernel: who publishes, who waits. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/state.h"
#include "simd/stream.h"
#include "util/clock.h"

enum {
	POLLS_MAX = 2000, /* about 50 us of looks */
	POLLS_FIRST = 256,
	POLLS_LEAST = 64,   /* below, it does not pay; */
	POLLS_RETRY = 64,   /* but one wait of so many tries again */
	YIELD_NS = 1000000, /* then a sleep, which costs its end some 15 us */
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static void bell_wake(struct host *host, uint32_t rank)
{
	syscall(SYS_futex, &host->words->bell[rank].rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void bell_wait(struct host *host, uint32_t rings, uint64_t until_ns)
{
	uint64_t now_ns = until_ns == UINT64_MAX ? 0 : clock_ns();
	struct timespec left;

	if (until_ns <= now_ns)
		return;
	left = clock_timespec(until_ns - now_ns);
	syscall(SYS_futex, &host->words->bell[host->rank].rings, FUTEX_WAIT, rings,
		until_ns == UINT64_MAX ? NULL : &left, NULL, 0);
}

void host_publish(struct host *host)
{
	struct wait_publish publish = { 0 };
	enum wait_next next;

	stream_end();
	while ((next = wait_publish_step(&publish, host->words, host->rank, host->phase)) !=
	       WAIT_OVER)
		if (next == WAIT_WAKE)
			bell_wake(host, publish.wake);
	host->phase++;
}

void host_wait_init(struct host *host)
{
	cpu_set_t mine;

	atomic_store(&host->awaited, WAIT_NOBODY);
	/* With fewer processors than ranks a look would keep one from working. */
	if (!sched_getaffinity(0, sizeof(mine), &mine) && (uint32_t)CPU_COUNT(&mine) >= host->ranks)
		host->polls_max = POLLS_MAX;
	host->polls = host->polls_max ? POLLS_FIRST : 0;
}

/* What is waited for; a submit of another thread may change it meanwhile, and then wakes. */
struct awaited {
	uint32_t rank, phase;
};

static bool is_over(struct host *host, struct awaited awaited)
{
	if (__atomic_load_n(&host->is_called, __ATOMIC_RELAXED))
		return true;
	return awaited.rank != WAIT_NOBODY &&
	       wait_look(wait_line(host->words, awaited.rank, awaited.phase), awaited.phase) !=
		       WAIT_NOT_YET;
}

/* As long as it has paid off lately. */
static bool poll_for(struct host *host, struct awaited awaited)
{
	uint32_t count = host->polls;

	if (count < POLLS_LEAST && host->polls_max && ++host->failures % POLLS_RETRY == 0)
		count = POLLS_FIRST;
	for (uint32_t i = 0; i < count; i++) {
		pause_cpu();
		if (!is_over(host, awaited))
			continue;
		if (host->polls < 4 * i + POLLS_LEAST)
			host->polls = 4 * i + POLLS_LEAST;
		if (host->polls > host->polls_max)
			host->polls = host->polls_max;
		return true;
	}
	host->polls /= 2;
	return false;
}

static bool yield_for(struct host *host, struct awaited awaited, uint64_t until_ns)
{
	uint64_t begun_ns = clock_ns(), now_ns = begun_ns;

	while (now_ns - begun_ns < YIELD_NS && now_ns < until_ns) {
		sched_yield();
		if (is_over(host, awaited))
			return true;
		now_ns = clock_ns();
	}
	return false;
}

void host_wait(struct host *host, uint64_t until_ns)
{
	const struct awaited awaited = { atomic_load(&host->awaited),
					 atomic_load(&host->awaited_phase) };
	struct wait_sleep sleep = { 0 };
	enum wait_next next;

	if (!is_over(host, awaited) && !poll_for(host, awaited) &&
	    !yield_for(host, awaited, until_ns))
		while ((next = wait_sleep_step(&sleep, host->words, host->rank, awaited.rank,
					       awaited.phase, &host->is_called)) != WAIT_OVER)
			if (next == WAIT_SLEEP)
				bell_wait(host, sleep.rings, until_ns);
	__atomic_store_n(&host->is_called, 0, __ATOMIC_SEQ_CST);
}

void host_wake(struct host *host)
{
	struct wait_call call = { 0 };
	enum wait_next next;

	while ((next = wait_call_step(&call, host->words, host->rank, &host->is_called)) !=
	       WAIT_OVER)
		if (next == WAIT_WAKE)
			bell_wake(host, host->rank);
}

void host_abort(struct host *host)
{
	struct wait_abort abort = { 0 };
	enum wait_next next;

	while ((next = wait_abort_step(&abort, host->words, host->ranks)) != WAIT_OVER)
		if (next == WAIT_WAKE)
			bell_wake(host, abort.wake);
}
