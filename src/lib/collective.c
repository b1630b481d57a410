/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.c - reduce, broadcast, gather and their kin: an allreduce's vector of which a rank does not send, or does
 * not want, every element. Segments say so; what is not added up is in parts (R-WK-13).
 */
#include <stdio.h>

#include "core/shared/hash.h"
#include "lib/operation.h"
#include "lib/types.h"

/* How much of a side a rank has: the elements of its own part, or of all parts. */
enum much { ONE, ALL };

static const struct {
	enum much send, recv;
	bool has_root, root_sends, root_receives; /* and nobody else does */
	bool others_receive;                      /* and the root does not */
	bool is_sum;
} kinds[CONTROL_OP_KIND_END] = {
	[CONTROL_OP_REDUCE] = { ONE, ONE, .has_root = true, .root_receives = true, .is_sum = true },
	[CONTROL_OP_BROADCAST] = { ONE, ONE, .has_root = true, .root_sends = true },
	[CONTROL_OP_ALLGATHER] = { .send = ONE, .recv = ALL },
	[CONTROL_OP_REDUCE_SCATTER] = { .send = ALL, .recv = ONE, .is_sum = true },
	[CONTROL_OP_GATHER] = { ONE, ALL, .has_root = true, .root_receives = true },
	[CONTROL_OP_SCATTER] = { ALL, ONE, .has_root = true, .root_sends = true },
	[CONTROL_OP_ALLTOALL] = { .send = ALL, .recv = ALL },
	[CONTROL_OP_SEND] = { ONE, ONE, .has_root = true, .root_sends = true,
			      .others_receive = true },
};

static bool is_sender(const struct tally_comm *comm, const struct request *request)
{
	return !kinds[request->kind].root_sends || comm->who.rank == request->root;
}

static bool is_receiver(const struct tally_comm *comm, const struct request *request)
{
	if (kinds[request->kind].others_receive)
		return comm->who.rank != request->root;
	return !kinds[request->kind].root_receives || comm->who.rank == request->root;
}

static const size_t *counts_of(const struct request *request)
{
	return request->options ? request->options->counts : NULL;
}

static uint64_t count_of(const struct request *request, uint32_t rank)
{
	const size_t *counts = counts_of(request);

	return counts ? counts[rank] : request->buffers[0].count;
}

/* Alltoall: elements that go from rank i to rank j. */
static uint64_t cell_of(const struct tally_comm *comm, const struct request *request, uint32_t i,
			uint32_t j)
{
	return counts_of(request) ? count_of(request, i * comm->who.size + j)
				  : request->buffers[0].count;
}

static const size_t *displs_of(const struct request *request)
{
	return request->options ? request->options->displs : NULL;
}

/* Where the rank's part begins in memory that has all parts; `before` elements are in the parts before it. */
static uint64_t begin_of(const struct request *request, uint32_t rank, uint64_t before)
{
	const size_t *displs = displs_of(request);

	return displs ? displs[rank] : before;
}

/* How many of them there are. */
static uint32_t counts_number(const struct tally_comm *comm, const struct request *request)
{
	return request->kind == CONTROL_OP_ALLTOALL ? comm->who.size * comm->who.size
						    : comm->who.size;
}

static uint32_t displs_number(const struct tally_comm *comm, const struct request *request)
{
	return request->kind == CONTROL_OP_ALLTOALL ? 2 * comm->who.size : comm->who.size;
}

/* ---- what is refused ---- */

const char *extent_name(const struct request *request, size_t idx, const char *side, char text[48])
{
	if (request->is_multi)
		snprintf(text, 48, "buffers[%zu].%s", idx, side);
	else
		snprintf(text, 48, "%s", side);
	return text;
}

int extent_check(const struct report_who *who, const struct request *request,
		 const struct extent *extent)
{
	uint32_t align = lanes_bytes(type_of((uint32_t)request->dtype).lanes);
	uint64_t bytes = extent->count * type_bytes((uint32_t)request->dtype);
	/* An end that wraps round is below its beginning, and would meet nothing. */
	bool is_wrapped = (uintptr_t)extent->at > UINTPTR_MAX - bytes;
	bool is_aligned = ((uintptr_t)extent->at & (align - 1)) == 0;
	char name[48];

	if (!extent->count || (extent->at && is_aligned && !is_wrapped))
		return TALLY_OK;
	extent_name(request, extent->idx, extent->side, name);
	if (!extent->at)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: %s is NULL, count %llu",
				    request->call, name, (unsigned long long)extent->count);
	if (!is_aligned)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: %s %p is not aligned to %u bytes",
				    request->call, name, extent->at, align);
	return report_error(who, TALLY_ERR_ARGUMENT,
			    "%s: %s %p with count %llu ends above the highest address",
			    request->call, name, extent->at, (unsigned long long)extent->count);
}

static int counts_check(const struct tally_comm *comm, const struct request *request)
{
	const uint64_t most = (uint64_t)1 << COLLECTIVE_COUNT_BITS;
	uint32_t size = comm->who.size, number = counts_number(comm, request);
	uint32_t begins = displs_of(request) ? displs_number(comm, request) : 0;
	uint64_t sum = request->buffers[0].count;
	bool has_counts = counts_of(request);

	/* An alltoall of one rank has one count, and two displacements. */
	for (uint32_t i = 0; i < (has_counts ? number : 1) || i < begins; i++) {
		uint64_t count = i < number ? count_of(request, i) : 0;
		uint64_t begin = i < begins ? begin_of(request, i, 0) : 0;

		if (count > most || begin > most)
			return report_error(
				&comm->who, TALLY_ERR_ARGUMENT,
				"%s: the count or displacement of rank %u is above 2^%d",
				request->call, i % size, COLLECTIVE_COUNT_BITS);
		sum = i ? sum + count : count;
		if (has_counts && sum > most)
			break;
	}
	if (has_counts ? sum > most : sum > most / number)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s: the counts of all ranks are above 2^%d together",
				    request->call, COLLECTIVE_COUNT_BITS);
	return TALLY_OK;
}

/* What options->counts has for this rank. */
static uint64_t mine_of(const struct tally_comm *comm, const struct request *request)
{
	uint64_t sum = 0;

	if (request->kind != CONTROL_OP_ALLTOALL)
		return count_of(request, comm->who.rank);
	for (uint32_t j = 0; j < comm->who.size; j++)
		sum += cell_of(comm, request, comm->who.rank, j);
	return sum;
}

static int options_check(const struct tally_comm *comm, const struct request *request)
{
	uint32_t number = counts_number(comm, request);
	uint32_t pair = kinds[request->kind].is_sum ? type_pair(request->op) : 1;
	const size_t *counts = counts_of(request);

	if (!counts && displs_of(request))
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s: options->displs is set, and options->counts is not",
				    request->call);
	if (counts && mine_of(comm, request) != request->buffers[0].count)
		return report_error(
			&comm->who, TALLY_ERR_ARGUMENT,
			"%s: count is %zu, and options->counts has %llu for this rank, %u",
			request->call, request->buffers[0].count,
			(unsigned long long)mine_of(comm, request), comm->who.rank);
	for (uint32_t i = 0; counts && pair > 1 && i < number; i++)
		if (counts[i] % pair)
			return report_error(&comm->who, TALLY_ERR_ARGUMENT,
					    "%s: op %s: options->counts[%u] is odd: elements come "
					    "in pairs",
					    request->call, report_ops[request->op], i);
	return TALLY_OK;
}

/* Of alltoall: the part for or from rank r, and where it begins; `before` elements are in the parts before it. */
static uint64_t cell_count(const struct tally_comm *comm, const struct request *request,
			   bool is_recv, uint32_t r)
{
	return is_recv ? cell_of(comm, request, r, comm->who.rank)
		       : cell_of(comm, request, comm->who.rank, r);
}

static uint64_t cell_begin(const struct tally_comm *comm, const struct request *request,
			   bool is_recv, uint32_t r, uint64_t before)
{
	return begin_of(request, is_recv ? comm->who.size + r : r, before);
}

/* The elements of a side, from its beginning to the last part's end. */
static uint64_t side_count(const struct tally_comm *comm, const struct request *request,
			   bool is_recv)
{
	enum much much = is_recv ? kinds[request->kind].recv : kinds[request->kind].send;
	bool is_cells = request->kind == CONTROL_OP_ALLTOALL;
	uint64_t before = 0, most = 0;

	if (much == ONE)
		return request->buffers[0].count;
	for (uint32_t r = 0; r < comm->who.size; r++) {
		uint64_t count = is_cells ? cell_count(comm, request, is_recv, r)
					  : count_of(request, r);
		uint64_t end = count + (is_cells ? cell_begin(comm, request, is_recv, r, before)
						 : begin_of(request, r, before));

		most = count && end > most ? end : most;
		before += count;
	}
	return most;
}

int collective_check(const struct tally_comm *comm, const struct request *request)
{
	const struct tally_buffer *buffer = &request->buffers[0];
	struct extent send = { "send", 0, buffer->send, 0 }, recv = { "recv", 0, buffer->recv, 0 };
	int result;

	if (kinds[request->kind].has_root && request->root >= comm->who.size)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s: root %u is not a rank of this communicator, which has %u",
				    request->call, request->root, comm->who.size);
	result = options_check(comm, request);
	if (!result)
		result = counts_check(comm, request);
	if (result)
		return result;
	if (is_sender(comm, request))
		send.count = side_count(comm, request, false);
	if (is_receiver(comm, request))
		recv.count = side_count(comm, request, true);
	result = extent_check(&comm->who, request, &send);
	return result ? result : extent_check(&comm->who, request, &recv);
}

/* ---- segments and parts ---- */

/* What lies `elements` further on; nothing if there is nothing. */
static uint8_t *behind(const void *at, uint64_t elements, uint32_t bytes)
{
	return at ? (uint8_t *)(uintptr_t)at + elements * bytes : NULL;
}

static bool continues(const void *before, uint64_t count, uint32_t bytes, const void *at)
{
	return before ? behind(before, count, bytes) == at : !at;
}

/* The vector's next `count` elements: where this rank has them, and where it wants them; NULL: it does not. */
static void piece(struct tally_work *work, uint64_t count, const void *source, void *destination)
{
	struct type type = type_of_op(&work->op);
	uint32_t bytes = lanes_bytes(type.lanes);
	struct endpoint_segment *last =
		work->segments_count ? &work->segments[work->segments_count - 1] : NULL;

	if (!count)
		return;
	if (last && continues(last->source, last->count, bytes, source) &&
	    continues(last->destination, last->count, bytes, destination))
		last->count += count * type.elements;
	else
		work->segments[work->segments_count++] =
			(struct endpoint_segment){ work->op.count * type.elements,
						   count * type.elements, source, destination };
	work->op.count += count;
}

/* The part that has just been put together ends here. */
static void part_end(struct tally_work *work, uint32_t part)
{
	work->ends[part] = work->op.count * type_of_op(&work->op).elements;
}

/* R-MAP-9: for whom the k-th part is of what rank i sends in an alltoall. Itself comes last. */
static uint32_t receiver_of(const struct tally_comm *comm, uint32_t i, uint32_t k)
{
	return (i + 1 + k) % comm->who.size;
}

/* What this rank has for each. */
static void row_note(const struct tally_comm *comm, struct tally_work *work,
		     const struct request *request, void *mine)
{
	uint32_t bytes = type_bytes((uint32_t)request->dtype), rank = comm->who.rank;
	uint64_t before = 0;

	for (uint32_t j = 0; j <= rank; j++)
		before += cell_count(comm, request, false, j);
	for (uint32_t k = 0; k < comm->who.size; k++) {
		uint32_t j = receiver_of(comm, rank, k);
		uint64_t count = cell_count(comm, request, false, j), begin;

		before = j ? before : 0;
		begin = cell_begin(comm, request, false, j, before);
		piece(work, count, behind(request->buffers[0].send, begin, bytes),
		      j == rank ? mine : NULL);
		before += count;
	}
}

/* What rank i has for each; this one wants its own part of it. */
static void other_row_note(const struct tally_comm *comm, struct tally_work *work,
			   const struct request *request, uint32_t i, void *mine)
{
	uint64_t side[2] = { 0 };
	bool is_behind = false;

	for (uint32_t k = 0; k < comm->who.size; k++) {
		uint32_t j = receiver_of(comm, i, k);

		if (j != comm->who.rank)
			side[is_behind] += cell_of(comm, request, i, j);
		is_behind |= j == comm->who.rank;
	}
	piece(work, side[0], NULL, NULL);
	piece(work, cell_of(comm, request, i, comm->who.rank), NULL, mine);
	piece(work, side[1], NULL, NULL);
}

static void rows_note(const struct tally_comm *comm, struct tally_work *work,
		      const struct request *request)
{
	uint32_t bytes = type_bytes((uint32_t)request->dtype);
	uint64_t before = 0;

	for (uint32_t i = 0; i < comm->who.size; i++) {
		void *mine = behind(request->buffers[0].recv,
				    cell_begin(comm, request, true, i, before), bytes);

		if (i == comm->who.rank)
			row_note(comm, work, request, mine);
		else
			other_row_note(comm, work, request, i, mine);
		before += cell_count(comm, request, true, i);
		part_end(work, i);
	}
}

static void pieces_note(const struct tally_comm *comm, struct tally_work *work,
			const struct request *request)
{
	uint32_t bytes = type_bytes((uint32_t)request->dtype);
	const struct tally_buffer *buffer = &request->buffers[0];
	const void *send = is_sender(comm, request) ? buffer->send : NULL;
	void *recv = is_receiver(comm, request) ? buffer->recv : NULL;
	bool has_all = kinds[request->kind].send == ALL,
	     wants_all = kinds[request->kind].recv == ALL;

	for (uint32_t r = 0; r < comm->who.size; r++) {
		uint64_t begin = begin_of(request, r, work->op.count);
		bool is_mine = r == comm->who.rank;

		piece(work, count_of(request, r),
		      has_all   ? behind(send, begin, bytes)
		      : is_mine ? send
				: NULL,
		      wants_all ? behind(recv, begin, bytes)
		      : is_mine ? recv
				: NULL);
		if (work->parts > 1)
			part_end(work, r);
	}
}

/* R-MAP-6 */
static uint32_t root_of(const struct tally_comm *comm, const struct request *request)
{
	uint64_t hash = hash_number(HASH_BEGIN, request->root, 8);

	if (!counts_of(request))
		return request->root;
	for (uint32_t i = 0; i < counts_number(comm, request); i++)
		hash = hash_number(hash, count_of(request, i), 8);
	return (uint32_t)(hash ^ hash >> 32) | CONTROL_OP_SIZES;
}

/* How many ranks have elements that nobody else has: R-WK-13's parts; 0: all have all. */
static uint32_t parts_of(const struct tally_comm *comm, const struct request *request)
{
	if (kinds[request->kind].is_sum)
		return 0;
	return kinds[request->kind].root_sends ? 1 : comm->who.size;
}

bool collective_note(struct tally_comm *comm, struct tally_work *work,
		     const struct request *request)
{
	const struct tally_buffer *buffer = &request->buffers[0];
	uint32_t size = comm->who.size, parts = parts_of(comm, request);
	bool is_one = kinds[request->kind].send == ONE && kinds[request->kind].recv == ONE;

	if (!work_segments(work, is_one                                 ? 1
				 : request->kind == CONTROL_OP_ALLTOALL ? 4 * (size_t)size
									: size) ||
	    (parts && !work_parts(work, parts)))
		return false;
	if (request->kind == CONTROL_OP_ALLTOALL)
		rows_note(comm, work, request);
	else if (is_one)
		piece(work, buffer->count, is_sender(comm, request) ? buffer->send : NULL,
		      is_receiver(comm, request) ? buffer->recv : NULL);
	else
		pieces_note(comm, work, request);
	if (parts == 1)
		part_end(work, 0);
	work->mine = parts > 1 ? comm->who.rank : is_sender(comm, request) ? 0 : 1;
	work->op.root = root_of(comm, request);
	return true;
}
