/* SPDX-License-Identifier: Apache-2.0 */
/* record_test.c - records as record.h has them: their bytes, what is wrong with one that is none, what a file has,
 * and which steps a table takes. */
#include "ps/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { WORKERS = 3, WINDOW = 4, DIM = 2, PLACES = 12 };

static const struct sparse_table shape = { .workers = WORKERS, .window = WINDOW, .dim = DIM };
static char error[PS_ERROR_MAX];

/* ---- bytes ---- */

static void bytes__grow_and_keep_what_was_put(void **unused)
{
	static uint8_t block[20000];
	struct bytes bytes = { 0 };

	(void)unused;
	for (uint32_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 7 + i / 256);
	bytes_put(&bytes, block, 4096);
	assert_int_equal(bytes.room, 4096);
	bytes_put(&bytes, NULL, 0);
	assert_int_equal(bytes.count, 4096);
	bytes_put32(&bytes, 0x04030201);
	assert_int_equal(bytes.room, 8192);
	bytes_put64(&bytes, 0x0c0b0a0908070605);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(bytes.at[4096 + i], i + 1);
	assert_memory_equal(bytes.at, block, 4096);
	bytes_put(&bytes, block, sizeof(block));
	assert_int_equal(bytes.count, 4096 + 12 + 20000);
	assert_int_equal(bytes.room, 32768);
	assert_memory_equal(bytes.at + 4108, block, sizeof(block));
	assert_false(bytes.is_short);
	bytes_fini(&bytes);
	assert_null(bytes.at);
	assert_int_equal(bytes.count + bytes.room, 0);
}

/* ---- files of records ---- */

/* R-KV-25. Its checksums were computed elsewhere. */
static void record__is_as_the_protocol_has_it(void **unused)
{
	static const uint8_t want[] = { 3, 0,    0,    0,    0xf3, 0xd3, 0xde, 0x5f, 16,
					0, 0,    0,    'a',  'b',  'c',  0,    0,    0,
					0, 0x68, 0x58, 0x23, 0xb2, 11,   0,    0,    0 };
	struct bytes out = { 0 };

	(void)unused;
	record_frame(&out, RECORD_TABLE, (const uint8_t *)"abc", 3);
	record_frame(&out, 11, NULL, 0);
	assert_int_equal(out.count, sizeof(want));
	assert_memory_equal(out.at, want, sizeof(want));
	bytes_fini(&out);
}

static void number_frame(struct bytes *out, uint32_t type, uint64_t number)
{
	uint8_t body[8];

	sparse_body_put64(body, number);
	record_frame(out, type, body, sizeof(body));
}

struct taken {
	uint32_t count, types[8];
	uint64_t bytes;
	uint32_t refused; /* the type */
};

static int take(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes, char said[])
{
	struct taken *taken = arg;

	(void)body;
	taken->types[taken->count++] = type;
	taken->bytes += bytes;
	snprintf(said, PS_ERROR_MAX, "type %u", type);
	return type == taken->refused ? -1 : 0;
}

/* A TABLE of 3 bytes, a WHOLE, a BARRIER. */
enum { AT_WHOLE = 15, AT_BARRIER = 35, ALL = 55 };

static struct bytes file_of_three(void)
{
	struct bytes out = { 0 };

	record_frame(&out, RECORD_TABLE, (const uint8_t *)"abc", 3);
	number_frame(&out, RECORD_WHOLE, AT_WHOLE);
	number_frame(&out, RECORD_BARRIER, 1);
	assert_int_equal(out.count, ALL);
	return out;
}

static void assert_scanned(const struct bytes *file, size_t bytes, size_t whole, uint32_t taken,
			   const char *why)
{
	struct taken seen = { 0 };
	const char *its = "";
	size_t its_whole = 0;

	assert_int_equal(record_scan("F", file->at, bytes, take, &seen, &its_whole, &its, error),
			 0);
	assert_int_equal(its_whole, whole);
	assert_int_equal(seen.count, taken);
	if (why)
		assert_string_equal(its, why);
	else
		assert_null(its);
}

static void record__what_is_none_is_told_by_what_is_wrong(void **unused)
{
	static const char in_header[] = "it ends inside of a record's header",
			  inside[] = "it ends inside of a record",
			  length[] = "a record has a length that none has",
			  checksum[] = "the checksum of a record does not fit",
			  moved[] = "something was put in before, or is missing";
	struct bytes file = file_of_three();

	(void)unused;
	assert_scanned(&file, 0, 0, 0, NULL);
	assert_scanned(&file, ALL, ALL, 2, NULL); /* WHOLE is for nobody */
	assert_scanned(&file, AT_WHOLE, AT_WHOLE, 1, NULL);
	assert_scanned(&file, AT_WHOLE + 11, AT_WHOLE, 1, in_header);
	assert_scanned(&file, AT_WHOLE + 12, AT_WHOLE, 1, inside);
	assert_scanned(&file, AT_BARRIER - 1, AT_WHOLE, 1, inside);
	assert_scanned(&file, ALL - 1, AT_BARRIER, 1, inside);
	sparse_body_put32(file.at + AT_BARRIER, RECORD_BODY_MAX);
	assert_scanned(&file, ALL, AT_BARRIER, 1, inside);
	sparse_body_put32(file.at + AT_BARRIER, RECORD_BODY_MAX + 1);
	assert_scanned(&file, ALL, AT_BARRIER, 1, length);
	sparse_body_put32(file.at + AT_BARRIER, 8);
	file.at[ALL - 1] ^= 0x80;
	assert_scanned(&file, ALL, AT_BARRIER, 1, checksum);
	file.at[ALL - 1] ^= 0x80;
	file.at[AT_BARRIER + 8] ^= 1; /* the type is in it, too */
	assert_scanned(&file, ALL, AT_BARRIER, 1, checksum);
	file.at[AT_BARRIER + 8] ^= 1;
	/* A WHOLE that says another place. */
	file.count = AT_WHOLE;
	number_frame(&file, RECORD_WHOLE, AT_WHOLE + 1);
	assert_scanned(&file, ALL, AT_WHOLE, 1, moved);
	file.count = AT_WHOLE;
	number_frame(&file, RECORD_LEFT, AT_WHOLE + 1); /* no WHOLE */
	assert_scanned(&file, ALL, ALL, 3, NULL);
	bytes_fini(&file);
}

static void record__that_does_not_fit_is_named_with_its_place(void **unused)
{
	struct bytes file = file_of_three();
	struct taken seen = { .refused = RECORD_BARRIER };
	const char *why;
	size_t whole;

	(void)unused;
	assert_int_equal(record_scan("F", file.at, ALL, take, &seen, &whole, &why, error), -1);
	assert_string_equal(error, "F: at byte 35: type 17");
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.types[0], RECORD_TABLE);
	assert_int_equal(seen.types[1], RECORD_BARRIER);
	assert_int_equal(seen.bytes, 11);
	bytes_fini(&file);
}

static void record__of_a_file_that_was_whole_is_found_wherever_it_stands(void **unused)
{
	struct bytes file = { 0 };

	(void)unused;
	bytes_put(&file, "xyz", 3);
	number_frame(&file, RECORD_BARRIER, 8);
	number_frame(&file, RECORD_WHOLE, 99);
	bytes_put(&file, "x", 1);
	assert_true(record_was_whole(file.at, file.count, 0));
	assert_true(record_was_whole(file.at, file.count - 1, 0));
	assert_true(record_was_whole(file.at, file.count, 23));
	assert_false(record_was_whole(file.at, file.count, 24));
	assert_false(record_was_whole(file.at, file.count - 2, 0));
	file.at[file.count - 2] ^= 1;
	assert_false(record_was_whole(file.at, file.count, 0));
	bytes_fini(&file);
}

/* ---- what a file has ---- */

static const uint32_t types[] = { RECORD_WHOLE,        RECORD_TABLE,       SERVER_SPARSE_EPOCH,
				  SERVER_SPARSE_BATCH, RECORD_SHARE,       SERVER_SPARSE_BATCH,
				  RECORD_WHOLE,        SERVER_SPARSE_FENCE };
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static void record__of_a_file_bytes_records_batches_and_epochs_are_counted(void **unused)
{
	struct bytes file = { 0 };
	struct record_sum sum;
	uLong headers = 0;
	size_t ends[TYPES];

	(void)unused;
	for (uint32_t i = 0; i < TYPES; i++) {
		record_frame(&file, types[i], (const uint8_t *)"01234567", i);
		headers = crc32(headers, file.at + file.count - i - RECORD_HEADER_BYTES,
				RECORD_HEADER_BYTES);
		ends[i] = file.count;
	}
	sum = record_sum_of(file.at, file.count);
	assert_int_equal(sum.bytes, 12 * 8 + 28);
	assert_int_equal(sum.records, 6);
	assert_int_equal(sum.batches, 2);
	assert_int_equal(sum.epochs, 1);
	assert_int_equal(sum.known, ends[5]); /* where the last WHOLE stands */
	assert_int_equal(sum.sum, headers);
	sum = record_sum_of(file.at, ends[2]);
	assert_int_equal(sum.bytes, ends[2]);
	assert_int_equal(sum.records, 2);
	assert_int_equal(sum.batches, 0);
	assert_int_equal(sum.epochs, 1);
	assert_int_equal(sum.known, 0);
	bytes_fini(&file);
}

/* One of each, with a byte between: those of no type that there is count for nothing. */
static void record__of_a_damaged_file_those_that_are_there_are_found(void **unused)
{
	static const uint32_t none[] = { 0, 5, 15, RECORD_SHARE + 1, 1u << 20 };
	struct bytes file = { 0 };
	struct record_sum sum;

	(void)unused;
	for (uint32_t i = 0; i < 5; i++) {
		record_frame(&file, none[i], (const uint8_t *)"0123", i);
		bytes_put(&file, "!", 1);
	}
	sum = record_sum_found(file.at, file.count, 0);
	assert_int_equal(sum.records, 0);
	for (uint32_t i = 0; i < TYPES; i++) {
		bytes_put(&file, "!", 1);
		record_frame(&file, types[i], (const uint8_t *)"01234567", TYPES - 1 - i);
	}
	sum = record_sum_found(file.at, file.count, 0);
	assert_int_equal(sum.records, 6);
	assert_int_equal(sum.batches, 2);
	assert_int_equal(sum.epochs, 1);
	assert_int_equal(sum.bytes, 0);
	assert_int_equal(sum.sum, 0);
	sum = record_sum_found(file.at, file.count - 1, 0); /* the last has no body */
	assert_int_equal(sum.records, 5);
	sum = record_sum_found(file.at, file.count, file.count - 12);
	assert_int_equal(sum.records, 1);
	sum = record_sum_found(file.at, file.count, file.count - 11);
	assert_int_equal(sum.records, 0);
	bytes_fini(&file);
}

static void record__before_has_its_numbers_in_their_places(void **unused)
{
	const struct record_sum sum = { .bytes = 0x1112131415161718,
					.records = 0x2122232425262728,
					.batches = 0x3132333435363738,
					.epochs = 0x4142434445464748,
					.known = 5,
					.sum = 0x61626364 };
	uint8_t body[RECORD_BEFORE_BYTES];
	struct record_sum back;
	uint64_t number = 0;

	(void)unused;
	record_before_put(body, 0x0102030405060708, &sum);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(body[i], i / 8 * 16 + 8 - i % 8);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(body[40 + i], 0x64 - i);
	back = record_before_get(body, &number);
	assert_true(number == 0x0102030405060708);
	assert_true(back.bytes == sum.bytes);
	assert_true(back.records == sum.records);
	assert_true(back.batches == sum.batches);
	assert_true(back.epochs == sum.epochs);
	assert_int_equal(back.sum, sum.sum);
	assert_int_equal(back.known, 0);
}

/* ---- steps ---- */

static const struct server_sparse_record a_batch = { .kind = SERVER_SPARSE_BATCH,
						     .map = 0x01020304,
						     .generation = 0x1112131415161718,
						     .incarnation = 0x2122232425262728,
						     .batch = 0x3132333435363738,
						     .worker = WORKERS - 1,
						     .flags = 0x4142 };

/* A step's beginning, and 8 bytes for each of the keys and values behind it. */
static struct bytes step_of(const struct server_sparse_record *what, uint32_t count, uint32_t rest)
{
	uint64_t cut[PLACES];
	struct bytes out = { 0 };

	for (uint32_t i = 0; i < PLACES; i++)
		cut[i] = 1000 + i;
	record_step_put(&out, what, &shape, cut, count);
	for (uint32_t i = 0; i < rest; i++)
		bytes_put64(&out, 70 + i);
	return out;
}

static void step__of_a_batch_comes_back_with_its_keys_and_values(void **unused)
{
	struct bytes body = step_of(&a_batch, 2, 2 + 2); /* 2 keys, 2 * 2 floats */
	struct record_step step;

	(void)unused;
	assert_int_equal(body.count, 76);
	assert_null(record_step_get(SERVER_SPARSE_BATCH, body.at, 76, &shape, &step));
	assert_int_equal(step.what.kind, SERVER_SPARSE_BATCH);
	assert_int_equal(step.what.map, a_batch.map);
	assert_true(step.what.generation == a_batch.generation);
	assert_true(step.what.incarnation == a_batch.incarnation);
	assert_int_equal(step.what.epoch, 0);
	assert_true(step.what.batch == a_batch.batch);
	assert_int_equal(step.what.worker, a_batch.worker);
	assert_int_equal(step.what.flags, a_batch.flags);
	assert_int_equal(step.places, 0);
	assert_int_equal(step.count, 2);
	assert_int_equal(step.dim, DIM);
	assert_ptr_equal(step.key, body.at + 44);
	assert_ptr_equal(step.value, body.at + 60);
	bytes_fini(&body);
}

static void step__of_an_epoch_comes_back_with_its_cut(void **unused)
{
	struct server_sparse_record what = a_batch;
	struct record_step step;
	struct bytes body;

	(void)unused;
	what.kind = SERVER_SPARSE_EPOCH;
	what.epoch = 5;
	what.worker = WORKERS; /* of no meaning */
	body = step_of(&what, 1, 1 + 2);
	assert_int_equal(body.count, 44 + 8 * (PLACES + 3));
	assert_null(
		record_step_get(SERVER_SPARSE_EPOCH, body.at, (uint32_t)body.count, &shape, &step));
	assert_int_equal(step.what.epoch, 5);
	assert_int_equal(step.what.incarnation, 0);
	assert_int_equal(step.places, PLACES);
	assert_int_equal(step.count, 1);
	assert_int_equal(sparse_body_get64(step.cut), 1000);
	assert_int_equal(sparse_body_get64(step.cut + 8 * (PLACES - 1)), 1000 + PLACES - 1);
	assert_int_equal(sparse_body_get64(step.key), 70);
	assert_int_equal(sparse_body_get64(step.value), 71);
	bytes_fini(&body);
	what.epoch = 0; /* nothing was applied yet */
	body = step_of(&what, 0, 0);
	assert_null(
		record_step_get(SERVER_SPARSE_EPOCH, body.at, (uint32_t)body.count, &shape, &step));
	bytes_fini(&body);
}

static void step__that_no_table_of_this_shape_has_is_refused(void **unused)
{
	enum { EPOCH = SERVER_SPARSE_EPOCH, FENCE, JOIN, BATCH };
	static const char numbers[] = "a step with a number that none has",
			  counts[] = "a step whose length and counts disagree";
	static const struct {
		uint32_t type, as, count, rest, at, bytes; /* bytes at `at` become `value` */
		uint64_t value;
		int32_t more;
		const char *why; /* NULL: it is one */
	} wrong[] = {
		{ BATCH, 0, 1, 2, 0, 0, 0, 0, "a record of a type that there is not" },
		{ BATCH, 5, 1, 2, 0, 0, 0, 0, "a record of a type that there is not" },
		{ JOIN, JOIN, 0, 0, 0, 0, 0, 0, NULL },
		{ JOIN, JOIN, 0, 0, 0, 0, 0, -1, "a step that is too short" },
		{ BATCH, BATCH, 1, 2, 16, 4, DIM + 1, 0, "a step of another dim" },
		{ BATCH, BATCH, 1, 2, 36, 4, PLACES, 0,
		  "a step of another number of workers, or another window" },
		{ EPOCH, EPOCH, 0, 0, 36, 4, PLACES - 1, 0,
		  "a step of another number of workers, or another window" },
		{ BATCH, BATCH, 1, 2, 12, 2, WORKERS, 0, "a step of a worker that there is not" },
		{ FENCE, FENCE, 0, 0, 12, 2, WORKERS, 0, "a step of a worker that there is not" },
		{ JOIN, JOIN, 1, 2, 0, 0, 0, 0, "a fence, or a worker's coming, that has keys" },
		{ FENCE, FENCE, 1, 2, 0, 0, 0, 0, "a fence, or a worker's coming, that has keys" },
		{ BATCH, BATCH, 1, 2, 4, 8, 0, 0, "a step with a number of 0" },
		{ EPOCH, EPOCH, 0, 0, 4, 8, 0, 0, "a step with a number of 0" },
		{ JOIN, JOIN, 0, 0, 20, 8, 0, 0, "a step with a number of 0" },
		{ BATCH, BATCH, 1, 2, 20, 8, 0, 0, "a step with a number of 0" },
		{ FENCE, FENCE, 0, 0, 20, 8, 0, 0, NULL },
		{ BATCH, BATCH, 1, 2, 4, 8, UINT64_MAX, 0, numbers },
		{ BATCH, BATCH, 1, 2, 28, 8, UINT64_MAX, 0, numbers },
		{ EPOCH, EPOCH, 0, 0, 20, 8, UINT64_MAX, 0, numbers },
		{ BATCH, BATCH, 1, 2, 4, 8, UINT64_MAX - 1, 0, NULL },
		{ BATCH, BATCH, 1, 2, 0, 0, 0, 1, counts },
		{ BATCH, BATCH, 1, 2, 0, 0, 0, -1, counts },
		{ BATCH, BATCH, 2, 2, 0, 0, 0, 0, counts },
		{ EPOCH, EPOCH, 1, 2, 0, 0, 0, 0, counts }, /* its sums are of 8 bytes */
		{ EPOCH, EPOCH, 1, 3, 0, 0, 0, 0, NULL },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct server_sparse_record what = a_batch;
		struct record_step step;
		const char *why;
		struct bytes body;

		what.kind = (enum server_sparse_record_kind)wrong[i].type;
		what.epoch = 5;
		body = step_of(&what, wrong[i].count, wrong[i].rest + 1);
		for (uint32_t k = 0; k < wrong[i].bytes; k++)
			body.at[wrong[i].at + k] = (uint8_t)(wrong[i].value >> 8 * k);
		why = record_step_get(wrong[i].as, body.at,
				      (uint32_t)((int32_t)body.count - 8 + wrong[i].more), &shape,
				      &step);
		if (!wrong[i].why != !why || (why && strcmp(why, wrong[i].why) != 0))
			fail_msg("%zu: \"%s\", not \"%s\"", i, why ? why : "taken",
				 wrong[i].why ? wrong[i].why : "taken");
		bytes_fini(&body);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes__grow_and_keep_what_was_put),
		cmocka_unit_test(record__is_as_the_protocol_has_it),
		cmocka_unit_test(record__what_is_none_is_told_by_what_is_wrong),
		cmocka_unit_test(record__that_does_not_fit_is_named_with_its_place),
		cmocka_unit_test(record__of_a_file_that_was_whole_is_found_wherever_it_stands),
		cmocka_unit_test(record__of_a_file_bytes_records_batches_and_epochs_are_counted),
		cmocka_unit_test(record__of_a_damaged_file_those_that_are_there_are_found),
		cmocka_unit_test(record__before_has_its_numbers_in_their_places),
		cmocka_unit_test(step__of_a_batch_comes_back_with_its_keys_and_values),
		cmocka_unit_test(step__of_an_epoch_comes_back_with_its_cut),
		cmocka_unit_test(step__that_no_table_of_this_shape_has_is_refused),
	};

	return cmocka_run_group_tests_name("ps-record", tests, NULL, NULL);
}
