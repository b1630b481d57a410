/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - see window.h. Rules R-WIN-1 to R-WIN-6 of docs/protocol.md. */
#include "core/dense/window.h"

#include "core/shared/rto.h"

enum {
	LOSS_KEEPS = 7,   /* tenths, as TCP cubic */
	YIELD_TENTHS = 9, /* of what would just do */
	LOSS_PART = 2,    /* of the target: a queue that losses are of */
	BASE_PART = 8,    /* of the target: by so much the base may rise in a span */
};

void window_init(struct window *window, uint32_t most)
{
	*window = (struct window){ .most = most, .size = most * WINDOW_UNIT };
}

uint32_t window_packets(const struct window *window)
{
	return window->size / WINDOW_UNIT;
}

void window_sample(struct window *window, uint64_t took_ns)
{
	took_ns = rto_most(took_ns, 1);
	if (!window->quickest_ns || took_ns < window->quickest_ns)
		window->quickest_ns = took_ns;
	window->slowest_ns = rto_most(window->slowest_ns, took_ns);
}

void window_lost(struct window *window)
{
	window->is_lossy = true;
}

/* R-WIN-1 */
static void size_set(struct window *window, uint64_t size)
{
	uint64_t most = (uint64_t)window->most * WINDOW_UNIT;
	uint64_t least = rto_least((uint64_t)WINDOW_LEAST * WINDOW_UNIT, most);

	window->size = (uint32_t)rto_least(rto_most(size, least), most);
}

/* R-WIN-2: the quickest trip of this span or the last one; what is older is forgotten slowly. */
static void path_learn(struct window *window, uint64_t now_ns)
{
	uint64_t least = window->quickest_ns;

	if (now_ns - window->span_ns >= WINDOW_SPAN_NS) {
		if (window->span_least_ns)
			window->base_ns = rto_least(window->span_least_ns,
						    window->base_ns + WINDOW_TARGET_NS / BASE_PART);
		window->span_ns = now_ns;
		window->span_least_ns = 0;
	}
	if (!window->span_least_ns || least < window->span_least_ns)
		window->span_least_ns = least;
	if (!window->base_ns || least < window->base_ns)
		window->base_ns = least;
}

/* R-WIN-4: a loss counts where there is a queue. By chance, packets are lost in any. */
static bool is_overflow(struct window *window)
{
	if (window->mends) {
		window->mends--;
		return false;
	}
	return window->is_lossy &&
	       window->slowest_ns - window->base_ns > WINDOW_TARGET_NS / LOSS_PART;
}

/* R-WIN-5: others fill the queue, and would take all that is left to them. */
static void press(struct window *window, uint64_t now_ns)
{
	window->is_pressed = true;
	window->pressed_ns = now_ns;
	window->vain = 0;
	window->hoped_ns = 0;
	window->stats.presses++;
	size_set(window, rto_most(window->size, window->before));
}

/* R-WIN-3: what makes the queue longer than the target is given up, but at most half at once. */
static void yield(struct window *window, uint64_t now_ns, uint64_t queue_ns)
{
	uint64_t size = (uint64_t)window->size * WINDOW_TARGET_NS / queue_ns * YIELD_TENTHS / 10;

	if (window->hoped_ns && queue_ns <= window->hoped_ns)
		window->vain = 0;
	if (!window->vain)
		window->before = window->size;
	if (window->vain++ == WINDOW_YIELDS) {
		press(window, now_ns);
		return;
	}
	size = rto_most(size, window->size / 2);
	window->hoped_ns = queue_ns * (window->size + size) / 2 / window->size;
	window->queue_ns = 0; /* the next trip was under way before */
	window->stats.yields++;
	size_set(window, size);
}

/* The trip's verdict. One long queue may be this host's own pause: it takes two in a row. */
static void adjust(struct window *window, uint64_t now_ns)
{
	uint64_t queue_ns = window->quickest_ns - window->base_ns;
	bool is_pair = now_ns - window->queue_at_ns <= WINDOW_PAIR_NS + window->slowest_ns;
	uint64_t both_ns = is_pair ? rto_least(queue_ns, window->queue_ns) : 0;

	window->queue_ns = queue_ns;
	window->queue_at_ns = now_ns;
	if (window->is_pressed && now_ns - window->pressed_ns >= WINDOW_SPAN_NS)
		window->is_pressed = false; /* tried anew */
	if (is_overflow(window)) {
		window->stats.losses++;
		window->mends = WINDOW_MENDS;
		window->before = window->before * LOSS_KEEPS / 10; /* not undone by R-WIN-5 */
		size_set(window, (uint64_t)window->size * LOSS_KEEPS / 10);
		return;
	}
	if (!window->is_pressed && both_ns > WINDOW_TARGET_NS) {
		yield(window, now_ns, both_ns);
		return;
	}
	/* R-WIN-6 */
	if (queue_ns <= WINDOW_TARGET_NS)
		window->vain = 0;
	else if (!window->is_pressed)
		return;
	if (window->is_full)
		size_set(window, (uint64_t)window->size + WINDOW_GROWTH);
}

void window_answer(struct window *window, uint64_t now_ns, uint64_t order, uint64_t newest,
		   bool is_full)
{
	if (!window->most)
		return;
	window->is_full |= is_full;
	if (order <= window->trip_order)
		return;
	window->trip_order = newest;
	if (!window->quickest_ns)
		return;
	path_learn(window, now_ns);
	adjust(window, now_ns);
	window->quickest_ns = window->slowest_ns = 0;
	window->is_lossy = window->is_full = false;
}
