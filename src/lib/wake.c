/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c - see wake.h. */
#include "lib/wake.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/carrier.h"

static struct {
	int kick_fd, timer_fd;
	atomic_bool is_kicked;
	_Atomic uint64_t remind_ns; /* what timer_fd is set to; UINT64_MAX: it is not */
} wake = { .kick_fd = -1, .timer_fd = -1 };

void wake_waiters(struct tally_comm *comm)
{
	if (comm->sleepers)
		pthread_cond_broadcast(&comm->changed);
	if (comm->is_waiting)
		carrier_wake(comm);
}

void wake_background(void)
{
	const uint64_t one = 1;

	if (!atomic_exchange(&wake.is_kicked, true))
		(void)!write(wake.kick_fd, &one, sizeof(one));
}

static void timer_set(uint64_t at_ns)
{
	const struct itimerspec at = { .it_value = clock_timespec(at_ns) };

	timerfd_settime(wake.timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void wake_background_at(uint64_t at_ns)
{
	uint64_t set_ns = atomic_load(&wake.remind_ns);

	while (at_ns < set_ns)
		if (atomic_compare_exchange_weak(&wake.remind_ns, &set_ns, at_ns))
			break;
	if (at_ns >= set_ns)
		return;
	/* Again, if another has come in between with less: the timer must not stay at ours. */
	for (; at_ns != UINT64_MAX && at_ns != set_ns; at_ns = atomic_load(&wake.remind_ns)) {
		timer_set(at_ns);
		set_ns = at_ns;
	}
}

/* ---- the background thread's end ---- */

int wake_open(void)
{
	wake.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wake.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (wake.kick_fd < 0 || wake.timer_fd < 0)
		return errno;
	atomic_store(&wake.is_kicked, false);
	atomic_store(&wake.remind_ns, UINT64_MAX);
	return 0;
}

void wake_close(void)
{
	if (wake.kick_fd >= 0)
		close(wake.kick_fd);
	if (wake.timer_fd >= 0)
		close(wake.timer_fd);
	wake.kick_fd = wake.timer_fd = -1;
}

void wake_poll(struct pollfd polls[WAKE_POLLS])
{
	polls[0] = (struct pollfd){ .fd = wake.kick_fd, .events = POLLIN };
	polls[1] = (struct pollfd){ .fd = wake.timer_fd, .events = POLLIN };
}

/* In this order: who kicks after the store writes again, who kicked before is served now. */
void wake_take(const struct pollfd polls[WAKE_POLLS])
{
	uint64_t times;

	if (polls[0].revents) {
		(void)!read(wake.kick_fd, &times, sizeof(times));
		atomic_store(&wake.is_kicked, false);
	}
	if (polls[1].revents) {
		(void)!read(wake.timer_fd, &times, sizeof(times));
		atomic_store(&wake.remind_ns, UINT64_MAX);
	}
}
