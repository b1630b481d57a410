/* SPDX-License-Identifier: Apache-2.0 */
/* polling.c - see polling.h. */
#include "dataplane/polling.h"

enum {
	LEAST = 1,
	/* A yield that is back so soon has kept nobody from working, or somebody who waits as well. Of these, as many as
	 * go into QUICK_ALL_NS. */
	QUICK_NS = 10000,
	QUICK_ALL_NS = 1000000,
	/* Who had the processor for so long is no peer that waits for packets. With such a neighbour one who sleeps is
	 * woken at once, one who yields when his turn comes. */
	LONG_NS = 1000000,
	SHY_MOST = 63,
	PAYS_NS = 100000, /* a sleep shorter than this would have been better polled through */
	/* Of POLLING_SHORT. At 1 Gbit/s a worker waits for some 300 us at a time, and of single waits every third is short;
	 * where processors are the limit nearly all are. */
	SHORT_NS = 200000,
	SHORTS = 4,
	LONGS = 2, /* so many that were not: the path is what is waited for, and nobody's processor */
};

void polling_init(struct polling *polling, uint32_t most, enum polling_rule rule)
{
	*polling = (struct polling){ .most = most, .count = most, .rule = rule };
}

void polling_begin(struct polling *polling)
{
	polling->last_ns = 0;
	polling->left = polling->shy ? 0 : polling->count;
	polling->shy -= polling->shy > 0;
}

static void grow_shy(struct polling *polling)
{
	polling->shy_next = 2 * polling->shy_next + 1;
	if (polling->shy_next > SHY_MOST)
		polling->shy_next = SHY_MOST;
	polling->shy = polling->shy_next;
	polling->left = 0;
}

/* For how long from now on. */
static uint64_t quick_ns(const struct polling *polling)
{
	switch (polling->rule) {
	case POLLING_LONG:
		return (uint64_t)QUICK_ALL_NS * polling->count / polling->most;
	case POLLING_SHORT:
		return polling->shorts < SHORTS ? 0 : SHORT_NS;
	case POLLING_NEVER:
		break;
	}
	return 0;
}

bool polling_again(struct polling *polling, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - polling->last_ns;

	if (!polling->left)
		return false;
	if (!polling->last_ns) {
		if (polling->rule == POLLING_SHORT && polling->longs >= LONGS)
			return false;
		polling->begun_ns = now_ns;
		polling->quick_until_ns = now_ns + quick_ns(polling);
	} else if (took_ns >= LONG_NS) {
		grow_shy(polling);
	} else if (took_ns >= QUICK_NS) {
		polling->left--;
	} else if (now_ns >= polling->quick_until_ns) {
		polling->left = polling->rule == POLLING_LONG ? polling->left - 1 : 0;
	}
	polling->last_ns = now_ns;
	return polling->left;
}

static void adapt(struct polling *polling, bool has_paid)
{
	if (!has_paid)
		polling->count /= 2;
	else if (polling->count < polling->most / 2)
		polling->count *= 2;
	else
		polling->count = polling->most;
	if (polling->count < LEAST && polling->most >= LEAST)
		polling->count = LEAST;
}

static void waited(struct polling *polling, uint64_t ns)
{
	if (ns >= SHORT_NS) {
		polling->shorts = 0;
		polling->longs += polling->longs < LONGS;
	} else {
		polling->longs = 0;
		polling->shorts += polling->shorts < SHORTS;
	}
}

void polling_paid(struct polling *polling, uint64_t now_ns)
{
	if (!polling->last_ns)
		return;
	waited(polling, now_ns - polling->begun_ns);
	if (now_ns - polling->last_ns >= LONG_NS) {
		grow_shy(polling);
		return;
	}
	polling->shy_next = 0;
	adapt(polling, true);
}

void polling_slept(struct polling *polling, uint64_t slept_ns, bool has_come)
{
	uint64_t yielded_ns = polling->last_ns ? polling->last_ns - polling->begun_ns : 0;

	waited(polling, yielded_ns + slept_ns);
	if (has_come && slept_ns < PAYS_NS)
		polling->count = polling->most;
	else
		adapt(polling, false);
}
