/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - see group.h. Every call of a group has become a work of its own; what is alike is fused into
 * one further work, which nobody holds, and whose completion completes its members.
 */
#include "lib/group.h"

#include <string.h>

#include "core/shared/hash.h"
#include "lib/operation.h"

static _Thread_local struct {
	unsigned depth;
	struct work_list works;
} group;

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

static uint32_t members_hash(const struct tally_work *first)
{
	uint64_t hash = HASH_BEGIN;

	for (const struct tally_work *work = first; work; work = work->next) {
		hash = hash_number(hash, work->op.count, 8);
		hash = hash_number(hash, work->op.root, 8);
		hash = hash_byte(hash_text(hash, work->op.name), 0);
	}
	return fingerprint(hash);
}

/* ---- fusing ---- */

static bool is_alike(const struct tally_work *a, const struct tally_work *b)
{
	return a->comm == b->comm && a->op.kind == b->op.kind && a->op.type == b->op.type &&
	       a->op.op == b->op.op && a->stream == b->stream && a->op.kind != CONTROL_OP_BARRIER;
}

/* Elements that one operation has room for: in latency mode those of a packet. */
static uint64_t room_of(const struct tally_comm *comm)
{
	return comm->latency_slots ? comm->lanes : UINT64_MAX;
}

/* The first call and all that are alike and fit, in the order of the calls; linked by `next`. */
static struct tally_work *members_take(struct work_list *works)
{
	struct tally_work *first = works->first, *last = first, *next;
	uint64_t count = first->op.count, room = room_of(first->comm);

	work_remove(works, first);
	for (struct tally_work *work = works->first; work; work = next) {
		next = work->next;
		if (!is_alike(first, work))
			continue;
		count += work->op.count;
		if (count > room)
			break;
		work_remove(works, work);
		last->next = work;
		last = work;
	}
	return first;
}

static void segments_append(struct tally_work *fused, const struct tally_work *member)
{
	for (uint32_t i = 0; i < member->segments_count; i++) {
		struct endpoint_segment *segment = &fused->segments[fused->segments_count++];

		*segment = member->segments[i];
		segment->first += fused->op.count;
	}
	fused->op.count += member->op.count;
}

/* One work for all members; NULL: out of memory. Lock held. */
static struct tally_work *fuse(struct tally_comm *comm, struct tally_work *members)
{
	struct tally_work *fused = work_get(comm);
	size_t segments = 0;

	for (struct tally_work *work = members; work; work = work->next)
		segments += work->segments_count;
	if (!fused || !work_segments(fused, segments)) {
		if (fused)
			work_drop(comm, fused);
		return NULL;
	}
	fused->op = (struct control_op){ .kind = members->op.kind,
					 .type = members->op.type,
					 .op = members->op.op,
					 .root = members_hash(members) };
	fused->stream = members->stream;
	fused->is_detached = true;
	for (struct tally_work *work = members; work; work = work->next) {
		segments_append(fused, work);
		if (work->deadline_ms &&
		    (!fused->deadline_ms || work->deadline_ms < fused->deadline_ms))
			fused->deadline_ms = work->deadline_ms;
		if (!fused->op.name[0])
			strcpy(fused->op.name, work->op.name);
	}
	fused->members = members;
	return fused;
}

static void members_settle(struct tally_comm *comm, struct tally_work *members, int result)
{
	while (members) {
		struct tally_work *work = members;

		members = work->next;
		work->next = work->prev = NULL;
		work_settle(comm, work, result);
	}
}

/* is_more: others of this communicator follow. Lock held. */
static int members_enter(struct tally_comm *comm, struct tally_work *members, bool is_more)
{
	struct tally_work *fused = members->next ? fuse(comm, members) : members;
	int result;

	for (const struct tally_work *work = members; work; work = work->next)
		comm->gathered--;
	if (!fused)
		result = report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				      "tally_group_end: out of memory");
	else
		result = operation_enter(comm, fused, "tally_group_end");
	if (result) {
		if (fused && fused != members)
			work_drop(comm, fused);
		members_settle(comm, members, result);
	}
	if (is_more && !result)
		progress_gathered(comm);
	else
		progress_submitted(comm);
	return result;
}

int tally_group_start(void)
{
	group.depth++;
	return TALLY_OK;
}

int tally_group_end(void)
{
	struct work_list works = group.works;
	int first = TALLY_OK;

	if (!group.depth)
		return report_error(NULL, TALLY_ERR_USAGE,
				    "tally_group_end without tally_group_start");
	if (--group.depth)
		return TALLY_OK;
	group.works = (struct work_list){ 0 };
	while (works.first) {
		struct tally_work *members = members_take(&works);
		struct tally_comm *comm = members->comm;
		bool is_more = works.first && works.first->comm == comm;
		int result = comm_check(comm, "tally_group_end");

		if (!result) {
			comm_lock(comm);
			result = members_enter(comm, members, is_more);
			comm_unlock(comm);
		}
		first = first ? first : result;
	}
	return first;
}
