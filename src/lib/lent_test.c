/* SPDX-License-Identifier: Apache-2.0 */
/* lent_test.c - the tree against a look at every interval there is. */
#include "lib/lent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/rng.h"

enum { NODES = 400, STEPS = 40000 };

static bool overlaps(const struct lent *node, uintptr_t first, uintptr_t end)
{
	return node->first < end && first < node->end;
}

/* `count` intervals of at most `length` in so much space. */
static void many_try(uint32_t count, uint32_t space, uint32_t length, uint32_t steps)
{
	static struct lent nodes[NODES];
	const char *text = getenv("TALLY_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20260102, hits = 0;
	struct lent *root = NULL;
	struct rng rng;

	memset(nodes, 0, sizeof(nodes));
	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);
	rng_init(&rng, seed, 0);
	for (uint32_t step = 0; step < steps; step++) {
		struct lent *node = &nodes[rng_below(&rng, count)];
		uintptr_t first = rng_below(&rng, space);
		uintptr_t end = first + 1 + rng_below(&rng, length);
		const struct lent *found = lent_find(root, first, end);
		bool is_there = false;

		for (uint32_t i = 0; i < count; i++)
			is_there |= nodes[i].end && overlaps(&nodes[i], first, end);
		assert_true(is_there == (found != NULL));
		assert_true(!found || (found->end && overlaps(found, first, end)));
		hits += is_there;
		if (node->end) {
			lent_remove(&root, node);
			node->first = node->end = 0;
		} else if (rng_below(&rng, 3)) { /* sparse enough for misses */
			*node = (struct lent){ .first = first, .end = end };
			lent_insert(&root, node);
		}
	}
	assert_true(hits > steps / 10);
	assert_true(hits < steps - steps / 100);
}

/* Close together, few and long ones, and far apart. */
static void lent__finds_what_a_look_at_all_finds(void **state)
{
	(void)state;
	many_try(NODES, 3000, 30, STEPS);
	many_try(24, 1000, 100, STEPS);
	many_try(NODES, 60000, 300, STEPS);
	many_try(8, 100, 20, STEPS);
}

/* The stack that a recursion would need in a list: 100,000 intervals in order, then gone in order. */
static void lent__stays_shallow_whatever_the_order(void **state)
{
	enum { MANY = 100000 };
	struct lent *nodes = calloc(MANY, sizeof(*nodes)), *root = NULL;
	uint32_t depth = 0;

	(void)state;
	assert_non_null(nodes);
	for (uintptr_t i = 0; i < MANY; i++) {
		nodes[i].first = 16 * i;
		nodes[i].end = 16 * i + 8;
		lent_insert(&root, &nodes[i]);
	}
	for (const struct lent *at = root; at; at = at->right)
		depth++;
	assert_in_range(depth, 1, 100);
	assert_ptr_equal(lent_find(root, 16 * 777 + 7, 16 * 777 + 16), &nodes[777]);
	assert_null(lent_find(root, 16 * 777 + 8, 16 * 777 + 16));
	for (uint32_t i = 0; i < MANY; i++)
		lent_remove(&root, &nodes[i]);
	assert_null(root);
	free(nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lent__finds_what_a_look_at_all_finds),
		cmocka_unit_test(lent__stays_shallow_whatever_the_order),
	};

	return cmocka_run_group_tests_name("lib-lent", tests, NULL, NULL);
}
