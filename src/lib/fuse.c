/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse.c - tally_group_end. Every call of a group has become a work of its own; what is alike is fused into
 * one further work, which nobody holds, and whose completion completes its members.
 */
#include <string.h>

#include "lib/group.h"
#include "lib/operation.h"
#include "lib/types.h"

static bool is_alike(const struct tally_work *a, const struct tally_work *b)
{
	return a->comm == b->comm && a->op.kind == b->op.kind && a->op.type == b->op.type &&
	       a->op.op == b->op.op && a->stream == b->stream && a->reduce == b->reduce &&
	       a->reduce_ctx == b->reduce_ctx && a->op.kind == CONTROL_OP_ALLREDUCE;
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
		segment->first += fused->op.count * type_of_op(&member->op).elements;
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
					 .root = group_members_hash(members) };
	fused->reduce = members->reduce;
	fused->reduce_ctx = members->reduce_ctx;
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

int tally_group_end(void)
{
	struct work_list works;
	int first = TALLY_OK;

	if (!group_is_open())
		return report_error(NULL, TALLY_ERR_USAGE,
				    "tally_group_end without tally_group_start");
	works = group_end();
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
