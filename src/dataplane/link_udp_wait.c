/* SPDX-License-Identifier: Apache-2.0 */
/* link_udp_wait.c - waiting for packets, for room to send, and for whoever wakes. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "dataplane/link_udp_state.h"
#include "util/clock.h"

enum { MUCH_NS = 2000000 /* without a large message: no more of them are waited for */ };

short link_udp_events(const struct link *link)
{
	return ((const struct udp *)link)->wants_room ? POLLIN | POLLOUT : POLLIN;
}

static bool wake_take(struct udp *udp)
{
	uint64_t count;

	if (!atomic_load(&udp->is_woken)) /* cheaper than an exchange, which is rarely needed */
		return false;
	atomic_exchange(&udp->is_woken, false);
	/* A wake that comes between these two lines is told by the eventfd alone: see udp_block. */
	if (read(udp->wake, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	return true;
}

void link_udp_wake(struct link *link)
{
	struct udp *udp = udp_of(link);
	uint64_t one = 1;

	if (atomic_exchange(&udp->is_woken, true))
		return; /* somebody else has, and nobody has seen it yet */
	if (write(udp->wake, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

/* What has come is taken for the next recv: a recvmmsg that finds nothing costs half a poll, one that does saves it. */
static bool has_come(struct udp *udp)
{
	struct pollfd either = { .fd = udp->socket, .events = link_udp_events(&udp->link) };
	int got;

	if (udp->in_error || udp->in_at < udp->in_count)
		return true;
	if (udp->wants_room)
		return poll(&either, 1, 0) > 0;
	got = link_udp_take(udp, udp->frames_max);
	udp->in_error = got < 0 ? got : 0;
	udp->is_drained = false;
	return got != 0;
}

static enum link_wait udp_block(struct udp *udp, uint64_t now_ns, uint64_t until_ns)
{
	struct pollfd fds[2] = { { .fd = udp->socket, .events = link_udp_events(&udp->link) },
				 { .fd = udp->wake, .events = POLLIN } };
	uint64_t wait_ns = until_ns - now_ns;
	struct timespec wait = clock_timespec(wait_ns);
	uint64_t count;

	if (ppoll(fds, 2, &wait, NULL) <= 0)
		return LINK_TIME;
	if (fds[1].revents) {
		atomic_store(&udp->is_woken, false);
		if (read(udp->wake, &count, sizeof(count)) < 0)
			assert(errno == EAGAIN || errno == EINTR);
		return LINK_WOKEN;
	}
	return LINK_READABLE;
}

/* LINK_GUESS: it seems to be much. */
static enum link_load load_of(struct udp *udp, uint64_t now_ns)
{
	if (udp->has_much)
		udp->much_until_ns = now_ns + MUCH_NS;
	udp->has_much = false;
	if (udp->link.load == LINK_GUESS && now_ns >= udp->much_until_ns)
		return LINK_LITTLE;
	return udp->link.load;
}

enum link_wait link_udp_wait(struct link *link, uint64_t until_ns)
{
	struct udp *udp = udp_of(link);
	bool is_drained = udp->is_drained && !udp->wants_room;
	struct polling *polling = NULL;
	uint64_t now = 0, start;
	enum link_wait why;

	udp->is_drained = false;
	while (true) {
		if (wake_take(udp))
			return LINK_WOKEN;
		if (!is_drained && has_come(udp)) {
			if (polling) /* else it has not yielded, and needs no clock */
				polling_paid(polling, clock_ns());
			return LINK_READABLE;
		}
		is_drained = false;
		if (until_ns)
			now = clock_ns();
		if (now >= until_ns)
			return LINK_TIME;
		if (!polling) {
			polling = &udp->polling[load_of(udp, now)];
			polling_begin(polling);
		}
		if (!polling_again(polling, now))
			break;
		sched_yield();
	}
	start = now;
	do { /* again after a signal, or when the sleep was too short */
		why = udp_block(udp, now, until_ns);
		now = clock_ns();
	} while (why == LINK_TIME && now < until_ns);
	polling_slept(polling, now - start, why != LINK_TIME);
	return why;
}
