/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lent.c - see lent.h. A treap: ordered by where intervals begin, a heap by a hash of where their nodes
 * lie, which is as good as chance.
 */
#include "lib/lent.h"
#include "core/shared/splitmix.h"

#include <assert.h>
#include <stddef.h>

static uint64_t weight(const struct lent *node)
{
	return splitmix64((uintptr_t)node);
}

/* Nodes that begin at one place are told apart by where they lie. */
static bool is_before(const struct lent *a, const struct lent *b)
{
	return a->first < b->first || (a->first == b->first && (uintptr_t)a < (uintptr_t)b);
}

static void update(struct lent *node)
{
	node->end_max = node->end;
	if (node->left && node->left->end_max > node->end_max)
		node->end_max = node->left->end_max;
	if (node->right && node->right->end_max > node->end_max)
		node->end_max = node->right->end_max;
}

/* What is before `key`, and what is not. */
static void split(struct lent *tree, const struct lent *key, struct lent **low, struct lent **high)
{
	if (!tree) {
		*low = *high = NULL;
	} else if (is_before(tree, key)) {
		split(tree->right, key, &tree->right, high);
		*low = tree;
		update(tree);
	} else {
		split(tree->left, key, low, &tree->left);
		*high = tree;
		update(tree);
	}
}

/* All of `low` is before all of `high`. */
static struct lent *merge(struct lent *low, struct lent *high)
{
	if (!low || !high)
		return low ? low : high;
	if (weight(low) > weight(high)) {
		low->right = merge(low->right, high);
		update(low);
		return low;
	}
	high->left = merge(low, high->left);
	update(high);
	return high;
}

static struct lent *inserted(struct lent *tree, struct lent *node)
{
	if (!tree || weight(node) > weight(tree)) {
		split(tree, node, &node->left, &node->right);
		update(node);
		return node;
	}
	if (is_before(node, tree))
		tree->left = inserted(tree->left, node);
	else
		tree->right = inserted(tree->right, node);
	update(tree);
	return tree;
}

static struct lent *removed(struct lent *tree, struct lent *node)
{
	assert(tree);
	if (tree == node)
		return merge(node->left, node->right);
	if (is_before(node, tree))
		tree->left = removed(tree->left, node);
	else
		tree->right = removed(tree->right, node);
	update(tree);
	return tree;
}

void lent_insert(struct lent **root, struct lent *node)
{
	assert(node->first < node->end);
	*root = inserted(*root, node);
}

void lent_remove(struct lent **root, struct lent *node)
{
	*root = removed(*root, node);
}

const struct lent *lent_find(const struct lent *root, uintptr_t first, uintptr_t end)
{
	const struct lent *at = root;

	/* If something on the left reaches beyond `first` and still nothing there overlaps, then all that
	 * is on the right begins after `end` as well. */
	while (at && !(at->first < end && first < at->end))
		at = at->left && at->left->end_max > first ? at->left : at->right;
	return at;
}
