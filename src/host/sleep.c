/* SPDX-License-Identifier: Apache-2.0 */
/* sleep.c - core/host/wait.h with the kernel: who publishes, who waits. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/state.h"
#include "simd/stream.h"
#include "util/clock.h"

enum { YIELD_NS = 1000000 /* then a sleep, which costs its end some 15 us */ };

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
	bool may_poll = false;

	atomic_store(&host->awaited, WAIT_NOBODY);
	/* With fewer processors than ranks a look would keep one from working. */
	if (!sched_getaffinity(0, sizeof(mine), &mine) && (uint32_t)CPU_COUNT(&mine) >= host->ranks)
		may_poll = true;
	host->poll = poll_new(may_poll);
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

static bool poll_for(struct host *host, struct awaited awaited, uint32_t looks)
{
	for (uint32_t i = 0; i < looks; i++) {
		pause_cpu();
		if (is_over(host, awaited)) {
			poll_paid(&host->poll, i);
			return true;
		}
	}
	return false;
}

static bool yield_for(struct host *host, struct awaited awaited, uint64_t until_ns, bool has_polled)
{
	uint64_t begun_ns = clock_ns(), now_ns = begun_ns;

	for (uint32_t yields = 1; now_ns - begun_ns < YIELD_NS && now_ns < until_ns; yields++) {
		sched_yield();
		if (is_over(host, awaited)) {
			if (has_polled)
				poll_failed(&host->poll, yields);
			return true;
		}
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
	uint32_t looks;

	if (!is_over(host, awaited) && !poll_for(host, awaited, looks = poll_looks(&host->poll)) &&
	    !yield_for(host, awaited, until_ns, looks))
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
