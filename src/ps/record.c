/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include "ps/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ROOM_FIRST = 4096 };

/* ---- bytes ---- */

void bytes_put(struct bytes *bytes, const void *what, size_t count)
{
	if (bytes->count + count > bytes->room) {
		size_t room = bytes->room ? bytes->room : ROOM_FIRST;
		uint8_t *more;

		while (room < bytes->count + count)
			room *= 2;
		more = realloc(bytes->at, room);
		if (!more) {
			bytes->is_short = true;
			return;
		}
		bytes->at = more;
		bytes->room = room;
	}
	if (count)
		memcpy(bytes->at + bytes->count, what, count);
	bytes->count += count;
}

void bytes_put32(struct bytes *bytes, uint32_t number)
{
	uint8_t at[4];

	sparse_body_put32(at, number);
	bytes_put(bytes, at, sizeof(at));
}

void bytes_put64(struct bytes *bytes, uint64_t number)
{
	uint8_t at[8];

	sparse_body_put64(at, number);
	bytes_put(bytes, at, sizeof(at));
}

void bytes_fini(struct bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct bytes){ 0 };
}

/* ---- files of records ---- */

static uint32_t sum_of(const uint8_t *length, const uint8_t *type, const uint8_t *body,
		       uint32_t bytes)
{
	uLong sum = crc32(crc32(0, length, 4), type, 4);

	return (uint32_t)(bytes ? crc32(sum, body, bytes) : sum);
}

void record_frame(struct bytes *out, uint32_t type, const uint8_t *body, uint32_t bytes)
{
	uint8_t header[RECORD_HEADER_BYTES];

	sparse_body_put32(header, bytes);
	sparse_body_put32(header + 8, type);
	sparse_body_put32(header + 4, sum_of(header, header + 8, body, bytes));
	bytes_put(out, header, sizeof(header));
	bytes_put(out, body, bytes);
}

/* R-KV-25. NULL: a whole record begins at `at`, which has `left` bytes. */
static const char *why_not(const uint8_t *at, size_t left)
{
	uint32_t bytes;

	if (left < RECORD_HEADER_BYTES)
		return "it ends inside of a record's header";
	bytes = sparse_body_get32(at);
	if (bytes > RECORD_BODY_MAX)
		return "a record has a length that none has";
	if (left - RECORD_HEADER_BYTES < bytes)
		return "it ends inside of a record";
	if (sparse_body_get32(at + 4) != sum_of(at, at + 8, at + RECORD_HEADER_BYTES, bytes))
		return "the checksum of a record does not fit";
	return NULL;
}

/* A whole RECORD_WHOLE that stands elsewhere than it says? */
static bool is_moved(const uint8_t *record, size_t at)
{
	return sparse_body_get32(record) == 8 && sparse_body_get32(record + 8) == RECORD_WHOLE &&
	       sparse_body_get64(record + RECORD_HEADER_BYTES) != at;
}

int record_scan(const char *name, const uint8_t *file, size_t bytes, record_take *take, void *arg,
		size_t *whole, const char **why, char error[PS_ERROR_MAX])
{
	size_t at = 0;

	*why = NULL;
	while (at < bytes) {
		uint32_t body_bytes, type;
		char said[PS_ERROR_MAX] = "";

		*why = why_not(file + at, bytes - at);
		if (!*why && is_moved(file + at, at))
			*why = "something was put in before, or is missing";
		if (*why)
			break;
		body_bytes = sparse_body_get32(file + at);
		type = sparse_body_get32(file + at + 8);
		if (type != RECORD_WHOLE &&
		    take(arg, type, file + at + RECORD_HEADER_BYTES, body_bytes, said))
			return ps_fail(error, "%.200s: at byte %zu: %.500s", name, at, said);
		at += RECORD_HEADER_BYTES + body_bytes;
	}
	*whole = at;
	return 0;
}

/* A crash leaves none behind a gap: the only write that it may have torn begins with it. Where it stands does not matter:
 * bytes that were put in, or are missing, have moved it. */
bool record_was_whole(const uint8_t *file, size_t bytes, size_t at)
{
	for (; at + RECORD_WHOLE_BYTES <= bytes; at++)
		if (sparse_body_get32(file + at) == 8 &&
		    sparse_body_get32(file + at + 8) == RECORD_WHOLE &&
		    !why_not(file + at, bytes - at))
			return true;
	return false;
}

/* ---- what a file has ---- */

static void type_count(struct record_sum *sum, uint32_t type)
{
	sum->records += type != RECORD_WHOLE;
	sum->batches += type == SERVER_SPARSE_BATCH;
	sum->epochs += type == SERVER_SPARSE_EPOCH;
}

void record_sum_add(struct record_sum *sum, const uint8_t *header)
{
	if (sparse_body_get32(header + 8) == RECORD_WHOLE)
		sum->known = sum->bytes;
	sum->bytes += RECORD_HEADER_BYTES + (uint64_t)sparse_body_get32(header);
	sum->sum = (uint32_t)crc32(sum->sum, header, RECORD_HEADER_BYTES);
	type_count(sum, sparse_body_get32(header + 8));
}

struct record_sum record_sum_of(const uint8_t *file, size_t bytes)
{
	struct record_sum sum = { 0 };

	while (sum.bytes < bytes)
		record_sum_add(&sum, file + sum.bytes);
	return sum;
}

struct record_sum record_sum_found(const uint8_t *file, size_t bytes, size_t at)
{
	struct record_sum sum = { 0 };

	while (at + RECORD_HEADER_BYTES <= bytes) {
		uint32_t type = sparse_body_get32(file + at + 8);
		bool is_type = (type >= SERVER_SPARSE_EPOCH && type <= SERVER_SPARSE_BATCH) ||
			       (type >= RECORD_TABLE && type <= RECORD_SHARE);

		if (!is_type || why_not(file + at, bytes - at)) {
			at++;
			continue;
		}
		type_count(&sum, type);
		at += RECORD_HEADER_BYTES + sparse_body_get32(file + at);
	}
	return sum;
}

void record_before_put(uint8_t body[RECORD_BEFORE_BYTES], uint64_t number,
		       const struct record_sum *sum)
{
	sparse_body_put64(body, number);
	sparse_body_put64(body + 8, sum->bytes);
	sparse_body_put64(body + 16, sum->records);
	sparse_body_put64(body + 24, sum->batches);
	sparse_body_put64(body + 32, sum->epochs);
	sparse_body_put32(body + 40, sum->sum);
}

struct record_sum record_before_get(const uint8_t body[RECORD_BEFORE_BYTES], uint64_t *number)
{
	*number = sparse_body_get64(body);
	return (struct record_sum){ .bytes = sparse_body_get64(body + 8),
				    .records = sparse_body_get64(body + 16),
				    .batches = sparse_body_get64(body + 24),
				    .epochs = sparse_body_get64(body + 32),
				    .sum = sparse_body_get32(body + 40) };
}

/* ---- steps ---- */

static uint64_t value_bytes(uint32_t type)
{
	return type == SERVER_SPARSE_EPOCH ? SPARSE_SUM_BYTES : sizeof(float);
}

const char *record_step_get(uint32_t type, const uint8_t *body, uint32_t bytes,
			    const struct sparse_table *table, struct record_step *step)
{
	uint64_t number, body_bytes;

	if (type < SERVER_SPARSE_EPOCH || type > SERVER_SPARSE_BATCH)
		return "a record of a type that there is not";
	if (bytes < RECORD_STEP_BYTES)
		return "a step that is too short";
	*step = (struct record_step){
		.what = { .kind = (enum server_sparse_record_kind)type,
			  .map = sparse_body_get32(body),
			  .generation = sparse_body_get64(body + 4),
			  .worker = (uint16_t)(body[12] | body[13] << 8),
			  .flags = (uint16_t)(body[14] | body[15] << 8),
			  .batch = sparse_body_get64(body + 28) },
		.dim = sparse_body_get32(body + 16),
		.places = sparse_body_get32(body + 36),
		.count = sparse_body_get32(body + 40),
	};
	number = sparse_body_get64(body + 20);
	if (type == SERVER_SPARSE_EPOCH)
		step->what.epoch = number;
	else
		step->what.incarnation = number;
	if (step->dim != table->dim)
		return "a step of another dim";
	if (step->places != (type == SERVER_SPARSE_EPOCH ? sparse_places(table) : 0))
		return "a step of another number of workers, or another window";
	if (type != SERVER_SPARSE_EPOCH && step->what.worker >= table->workers)
		return "a step of a worker that there is not";
	if (step->count && type != SERVER_SPARSE_EPOCH && type != SERVER_SPARSE_BATCH)
		return "a fence, or a worker's coming, that has keys";
	/* A checkpoint may have an EPOCH 0: nothing was applied yet, and reports have raised the cut. */
	if (!step->what.generation || (type >= SERVER_SPARSE_JOIN && !number))
		return "a step with a number of 0";
	if (step->what.generation == UINT64_MAX || step->what.batch == UINT64_MAX ||
	    step->what.epoch == UINT64_MAX)
		return "a step with a number that none has";
	body_bytes = RECORD_STEP_BYTES + 8ull * step->places +
		     step->count * (8 + value_bytes(type) * step->dim);
	if (body_bytes != bytes)
		return "a step whose length and counts disagree";
	step->cut = body + RECORD_STEP_BYTES;
	step->key = step->cut + 8ull * step->places;
	step->value = step->key + 8ull * step->count;
	return NULL;
}

void record_step_put(struct bytes *out, const struct server_sparse_record *what,
		     const struct sparse_table *table, const uint64_t *cut, uint32_t count)
{
	bool is_epoch = what->kind == SERVER_SPARSE_EPOCH;
	uint32_t places = is_epoch ? sparse_places(table) : 0;
	uint8_t small[4] = { (uint8_t)what->worker, (uint8_t)(what->worker >> 8),
			     (uint8_t)what->flags, (uint8_t)(what->flags >> 8) };

	bytes_put32(out, what->map);
	bytes_put64(out, what->generation);
	bytes_put(out, small, sizeof(small));
	bytes_put32(out, table->dim);
	bytes_put64(out, is_epoch ? what->epoch : what->incarnation);
	bytes_put64(out, what->batch);
	bytes_put32(out, places);
	bytes_put32(out, count);
	for (uint32_t i = 0; i < places; i++)
		bytes_put64(out, cut[i]);
}
