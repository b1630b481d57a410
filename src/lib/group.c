/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - see group.h. */
#include "lib/group.h"

#include "core/shared/hash.h"

static _Thread_local struct {
	unsigned depth;
	struct work_list works;
} group;

int tally_group_start(void)
{
	group.depth++;
	return TALLY_OK;
}

struct work_list group_end(void)
{
	struct work_list works = { 0 };

	if (--group.depth)
		return works;
	works = group.works;
	group.works = (struct work_list){ 0 };
	return works;
}

bool group_is_open(void)
{
	return group.depth > 0;
}

void group_add(struct tally_work *work)
{
	atomic_store(&work->state, WORK_GATHERED);
	work->comm->gathered++;
	work_append(&group.works, work);
}

unsigned group_suspend(void)
{
	unsigned depth = group.depth;

	group.depth = 0;
	return depth;
}

void group_resume(unsigned depth)
{
	group.depth = depth;
}

/* ---- fingerprints ---- */

/* Never 0, which stands for a plain operation. */
static uint32_t fingerprint(uint64_t hash)
{
	uint32_t half = (uint32_t)(hash ^ hash >> 32);

	return half ? half : 1;
}

uint32_t group_list_hash(const struct tally_buffer *buffers, size_t n)
{
	uint64_t hash = HASH_BEGIN;

	if (n < 2)
		return 0;
	for (size_t i = 0; i < n; i++)
		hash = hash_number(hash, buffers[i].count, 8);
	return fingerprint(hash);
}

uint32_t group_members_hash(const struct tally_work *first)
{
	uint64_t hash = HASH_BEGIN;

	for (const struct tally_work *work = first; work; work = work->next) {
		hash = hash_number(hash, work->op.count, 8);
		hash = hash_number(hash, work->op.root, 8);
		hash = hash_byte(hash_text(hash, work->op.name), 0);
	}
	return fingerprint(hash);
}
