/* SPDX-License-Identifier: Apache-2.0 */
/* group_played_test.c - groups, and what operations are refused for, with a played endpoint: in whose words, and what is
 * left of them. */
#include <math.h>

#include "lib/played_fixture.h"

static int32_t x[16], y[16];

static struct tally_op_options options_of(const char *name, int stream, uint32_t deadline_ms)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;

	options.name = name;
	options.stream = stream;
	options.deadline_ms = deadline_ms;
	return options;
}

/* Of `count` elements from `at` on, in place. */
static struct tally_work *gather(uint32_t at, size_t count, const struct tally_op_options *options)
{
	struct tally_work *work = NULL;

	assert_int_equal(tally_iallreduce(x + at, x + at, count, TALLY_INT32, TALLY_SUM, &test.comm,
					  options, &work),
			 TALLY_OK);
	return work;
}

/* ---- groups ---- */

static void group__is_one_operation_of_all_that_is_alike(void **state)
{
	const struct tally_op_options named = options_of("loss", TALLY_STREAM_AUTO, 900),
				      other = options_of("else", TALLY_STREAM_AUTO, 700);
	struct tally_work *works[3];

	(void)state;
	assert_int_equal(tally_group_start(), TALLY_OK);
	assert_int_equal(tally_group_start(), TALLY_OK); /* one inside the other */
	works[0] = gather(0, 3, NULL);
	works[1] = gather(4, 2, &named);
	works[2] = gather(8, 5, &other);
	assert_int_equal(test.comm.gathered, 3);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(test.ops_count + test.begins + test.reminds, 0);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(test.comm.gathered, 0);
	assert_int_equal(test.ops_count, 1);
	assert_int_equal(test.ops[0].count, 10);
	assert_int_equal(test.ops[0].descriptor.count, 10);
	assert_string_equal(test.ops[0].descriptor.name, "loss");
	assert_int_equal(test.ops[0].segments_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_ptr_equal(test.ops[0].segments[i].source, x + 4 * i);
	assert_int_equal(test.ops[0].segments[1].first, 3);
	assert_int_equal(test.ops[0].segments[2].first, 5);
	assert_int_equal(test.begins, 1);
	assert_int_equal(atomic_load(&test.comm.deadline_ns), begin_ns + 700 * ms);
	is_done((struct tally_work *)test.ops[0].cookie);
	get_on();
	assert_int_equal(test.comm.completed, 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(works[i]->op.number, 0);
		assert_int_equal(atomic_load(&works[i]->state), WORK_COMPLETE);
	}
	assert_non_null(test.comm.free_works); /* the one of all is nobody's */
	assert_int_equal(tally_waitall(3, works, -1), TALLY_OK);
}

/* What differs goes by itself, in the order of the calls; the last is begun, with all before it. */
static void group__keeps_apart_what_differs(void **state)
{
	const struct tally_op_options bulk = options_of(NULL, TALLY_STREAM_BULK, 0);
	float f[2];
	struct tally_work *works[7];

	(void)state;
	assert_int_equal(tally_group_start(), TALLY_OK);
	works[0] = gather(0, 1, NULL);
	works[1] = gather(1, 1, &bulk);
	assert_int_equal(tally_ibarrier(&test.comm, NULL, &works[2]), TALLY_OK);
	assert_int_equal(tally_iallreduce(f, f, 1, TALLY_FLOAT32, TALLY_SUM, &test.comm, NULL,
					  &works[3]),
			 TALLY_OK);
	assert_int_equal(tally_iallreduce(y, y, 1, TALLY_INT32, TALLY_AVG, &test.comm, NULL,
					  &works[4]),
			 TALLY_OK);
	assert_int_equal(tally_ibarrier(&test.comm, NULL, &works[5]), TALLY_OK);
	works[6] = gather(2, 1, NULL);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(test.ops_count, 6);
	assert_int_equal(test.ops[0].count, 2); /* the first and the last */
	for (uint32_t i = 1; i < 6; i++)
		assert_ptr_equal((struct tally_work *)test.ops[i].cookie, works[i]);
	assert_int_equal(test.begins, 1);
	assert_int_equal(test.reminds, 6);
}

static uint32_t root_of(size_t first, size_t second, const char *name)
{
	const struct tally_op_options options = options_of(name, TALLY_STREAM_AUTO, 0);

	assert_int_equal(tally_group_start(), TALLY_OK);
	gather(0, first, NULL);
	gather(8, second, &options);
	assert_int_equal(tally_group_end(), TALLY_OK);
	is_done((struct tally_work *)test.ops[test.ops_count - 1].cookie);
	get_on();
	return test.ops[test.ops_count - 1].descriptor.root;
}

/* The aggregator compares it: ranks whose groups differ make different calls. */
static void group__has_a_fingerprint_of_its_counts_and_names(void **state)
{
	const struct tally_buffer some[] = { { x, x, 2 }, { y, y, 3 } };
	const struct tally_buffer others[] = { { x, x, 3 }, { y, y, 2 } };
	uint32_t root = root_of(2, 3, "a");

	(void)state;
	assert_int_equal(root, 0x88eb47ee); /* as every version says it */
	assert_int_equal(root_of(2, 3, "a"), root);
	assert_int_not_equal(root_of(3, 2, "a"), root);
	assert_int_not_equal(root_of(2, 3, "b"), root);
	assert_int_not_equal(root_of(2, 3, NULL), root);
	assert_int_equal(group_list_hash(some, 1), 0);
	assert_int_not_equal(group_list_hash(some, 2), 0);
	assert_int_not_equal(group_list_hash(some, 2), group_list_hash(others, 2));
}

static void group__of_latency_mode_is_as_many_operations_as_it_needs_packets(void **state)
{
	struct tally_work *works[4];

	(void)state;
	test.comm.latency_slots = 8;
	test.comm.lanes = 5;
	assert_int_equal(tally_group_start(), TALLY_OK);
	works[0] = gather(0, 2, NULL);
	works[1] = gather(2, 3, NULL);
	works[2] = gather(5, 1, NULL);
	works[3] = gather(6, 4, NULL);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(test.ops_count, 2);
	assert_int_equal(test.ops[0].count, 5);
	assert_int_equal(test.ops[1].count, 5);
	is_done((struct tally_work *)test.ops[0].cookie);
	is_done((struct tally_work *)test.ops[1].cookie);
	assert_int_equal(tally_waitall(4, works, -1), TALLY_OK);
}

static void group__that_cannot_start_gives_all_its_calls_the_reason(void **state)
{
	struct tally_work *works[2];

	for (uint32_t short_at = 0; short_at < 2; short_at++) {
		if (short_at) {
			teardown(state);
			setup(state);
		}
		assert_int_equal(tally_group_start(), TALLY_OK);
		works[0] = gather(0, 2, NULL);
		works[1] = gather(4, 2, NULL);
		test.short_at = test.mallocs + 1 + short_at; /* the work, or its segments */
		assert_int_equal(tally_group_end(), TALLY_ERR_NO_MEMORY);
		said("tally_group_end: out of memory");
		assert_int_equal(test.ops_count, 0);
		assert_int_equal(test.comm.gathered, 0);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(tally_wait(&works[i], -1), TALLY_ERR_NO_MEMORY);
		assert_string_equal(tally_get_last_error(NULL),
				    "tally_group_end has not started this operation, and said why");
	}
	assert_int_equal(tally_group_end(), TALLY_ERR_USAGE);
	said("tally_group_end without tally_group_start");
	test.comm.state = COMM_LEAVING;
	assert_int_equal(tally_group_start(), TALLY_OK);
	works[0] = gather(0, 2, NULL);
	works[1] = gather(4, 2, NULL);
	assert_int_equal(tally_group_end(), TALLY_ERR_USAGE);
	said("tally_group_end after tally_comm_finalize");
	assert_non_null(test.comm.free_works); /* the one of both is given back */
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(tally_wait(&works[i], -1), TALLY_ERR_USAGE);
	assert_int_equal(tally_group_start(), TALLY_OK);
	works[0] = gather(0, 2, NULL); /* alone */
	assert_int_equal(tally_group_end(), TALLY_ERR_USAGE);
	assert_null(test.comm.complete.first->next);
	assert_int_equal(tally_wait(&works[0], -1), TALLY_ERR_USAGE);
	assert_ptr_not_equal(test.comm.free_works->next, test.comm.free_works);
}

/* Whatever the group before it had. */
static void group__of_nothing_starts_nothing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(tally_group_start(), TALLY_OK);
		assert_int_equal(tally_group_end(), TALLY_OK);
	}
	assert_int_equal(test.ops_count, 0);
}

static uint32_t stream_for(size_t count, int stream)
{
	const struct tally_op_options options = options_of(NULL, stream, 0);
	struct tally_work *work = gather(0, count, &options);

	is_done(work);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	return (uint32_t)test.ops[test.ops_count - 1].stream;
}

/* Nobody looks into these buffers. */
static void stream__is_what_the_call_says_or_its_size(void **state)
{
	const size_t most = (size_t)MAP_EXPRESS_CHUNKS * 360;

	(void)state;
	assert_int_equal(stream_for(most, TALLY_STREAM_AUTO), MAP_EXPRESS);
	assert_int_equal(stream_for(most + 1, TALLY_STREAM_AUTO), MAP_BULK);
	assert_int_equal(stream_for(most + 1, TALLY_STREAM_EXPRESS), MAP_EXPRESS);
	assert_int_equal(stream_for(1, TALLY_STREAM_BULK), MAP_BULK);
	assert_int_equal(stream_for(0, TALLY_STREAM_BULK), MAP_EXPRESS);
	test.comm.latency_slots = 1;
	assert_int_equal(stream_for(1, TALLY_STREAM_BULK), MAP_EXPRESS); /* it has no other */
}

/* ---- refusals ---- */

static int start(const void *send, void *recv, size_t count, int dtype, int op)
{
	struct tally_work *work = NULL;
	int result = tally_iallreduce(send, recv, count, dtype, op, &test.comm, NULL, &work);

	assert_true(!work || !result);
	return result;
}

static void refusal__of_a_type_or_an_operation_names_it(void **state)
{
	(void)state;
	assert_int_equal(start(x, x, 1, -1, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: dtype -1: no such type");
	assert_int_equal(start(x, x, 1, 15, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: dtype 15: no such type");
	assert_int_equal(start(x, x, 1, TALLY_INT32, -1), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: op -1: no such operation");
	assert_int_equal(start(x, x, 1, TALLY_INT32, 14), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: op 14: no such operation");
	assert_int_equal(start(x, x, 1, TALLY_FLOAT64, TALLY_LAND), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: op land of float64: bits and truth values are for integers");
	assert_int_equal(start(x, x, 1, TALLY_FLOAT16, TALLY_BXOR), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: op bxor of float16: bits and truth values are for integers");
	assert_int_equal(test.ops_count, 0);
}

/* The communicator's wish, of what it can mean; an operation's own goes before. */
static void forms__of_a_communicator_are_those_of_its_float_sums(void **state)
{
	static const struct {
		uint32_t flags, own;
		int dtype, op;
		uint32_t form;
	} cases[] = {
		{ TALLY_EXACT, 0, TALLY_FLOAT32, TALLY_SUM, LANES_EXACT },
		{ TALLY_EXACT, 0, TALLY_BFLOAT16, TALLY_AVG, LANES_EXACT },
		{ TALLY_EXACT, 0, TALLY_FLOAT16, TALLY_AVG, LANES_EXACT },
		{ TALLY_EXACT, 0, TALLY_UINT64, TALLY_SUM, LANES_FREE },
		{ TALLY_EXACT, 0, TALLY_FLOAT32, TALLY_MAX, LANES_FREE },
		{ TALLY_EXACT, TALLY_OP_HALF, TALLY_FLOAT32, TALLY_SUM, LANES_HALF },
		{ TALLY_HALF, 0, TALLY_FLOAT32, TALLY_AVG, LANES_HALF },
		{ TALLY_HALF, 0, TALLY_FLOAT64, TALLY_SUM, LANES_FREE },
		{ TALLY_HALF, 0, TALLY_FLOAT32, TALLY_MIN, LANES_FREE },
		{ TALLY_HALF, TALLY_OP_EXACT, TALLY_FLOAT32, TALLY_SUM, LANES_EXACT },
		{ TALLY_HALF, TALLY_OP_MORE, TALLY_FLOAT32, TALLY_SUM, LANES_HALF },
		{ TALLY_STRICT, 0, TALLY_FLOAT32, TALLY_AVG, LANES_STRICT },
		{ TALLY_STRICT, 0, TALLY_FLOAT32, TALLY_MAX, LANES_FREE },
		{ TALLY_STRICT, 0, TALLY_FLOAT64, TALLY_SUM, LANES_FREE },
		{ TALLY_STRICT, TALLY_OP_EXACT, TALLY_FLOAT64, TALLY_SUM, LANES_EXACT },
		{ TALLY_HALF, TALLY_OP_STRICT, TALLY_FLOAT32, TALLY_SUM, LANES_STRICT },
		{ TALLY_EXACT, TALLY_OP_STRICT, TALLY_BFLOAT16, TALLY_SUM, LANES_EXACT },
		{ 0, TALLY_OP_STRICT, TALLY_INT32, TALLY_SUM, LANES_FREE },
	};
	static _Alignas(8) int32_t wide[sizeof(cases) / sizeof(*cases)][2];
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		test.comm.flags = cases[i].flags;
		options.flags = cases[i].own;
		assert_int_equal(tally_iallreduce(wide[i], wide[i], 1, cases[i].dtype, cases[i].op,
						  &test.comm, &options, &work),
				 TALLY_OK);
		assert_int_equal(test.ops[i].form, cases[i].form);
		assert_int_equal(test.ops[i].descriptor.type >> 8, cases[i].form);
	}
	test.comm.flags = 0;
}

/* Four ranks; what lies between two powers of two counts as the lower one. An operation's scale goes before a
 * communicator's form. */
static void scale__is_an_exponent_that_all_ranks_compare(void **state)
{
	static const struct {
		double scale;
		uint32_t exponent;
	} cases[] = { { 1, 155 },   { 0x1p20, 135 },  { 0x1.fffffp20, 135 },
		      { 0.5, 156 }, { 0x1.8p154, 1 }, { 0x1p-99, 254 } };
	static int32_t wide[sizeof(cases) / sizeof(*cases)][2];
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	(void)state;
	test.comm.flags = TALLY_HALF;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		options.scale = cases[i].scale;
		assert_int_equal(tally_iallreduce(wide[i], wide[i], 1, TALLY_FLOAT32, TALLY_AVG,
						  &test.comm, &options, &work),
				 TALLY_OK);
		assert_int_equal(test.ops[i].form, LANES_FIXED);
		assert_int_equal(test.ops[i].exponent, cases[i].exponent);
		assert_int_equal(test.ops[i].descriptor.type,
				 TALLY_FLOAT32 | LANES_FIXED << 8 | cases[i].exponent << 16);
	}
	test.comm.flags = 0;
}

static void refusal__of_a_scale_says_what_it_may_be(void **state)
{
	static const double wrong[] = { -1, (double)NAN, (double)INFINITY, 0x1p155,
					0x1.fffffp-100 };
	static const char *const shown[] = { "-1", "nan", "inf", "4.56719e+46", "1.57772e-30" };
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;
	char text[256];

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		options.scale = wrong[i];
		assert_int_equal(tally_iallreduce(x, x, 1, TALLY_FLOAT32, TALLY_SUM, &test.comm,
						  &options, &work),
				 TALLY_ERR_ARGUMENT);
		snprintf(text, sizeof(text),
			 "tally_iallreduce: options->scale is %s: with 4 ranks it is from 2^-99 to "
			 "2^154",
			 shown[i]);
		said(text);
	}
	options.scale = 1;
	assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_OK);
	for (uint32_t i = 0; i < 3; i++) {
		static const int dtypes[] = { TALLY_INT32, TALLY_FLOAT64, TALLY_FLOAT32 };
		static const int ops[] = { TALLY_SUM, TALLY_AVG, TALLY_MAX };

		assert_int_equal(tally_iallreduce(x, x, 1, dtypes[i], ops[i], &test.comm, &options,
						  &work),
				 TALLY_ERR_UNSUPPORTED);
		said("tally_iallreduce: options->scale is for sum and avg of float32");
	}
	assert_int_equal(tally_ibroadcast(x, x, 1, TALLY_FLOAT32, 0, &test.comm, &options, &work),
			 TALLY_ERR_UNSUPPORTED);
	said("tally_ibroadcast: options->scale is for sum and avg of float32");
	options.flags = TALLY_OP_EXACT;
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_FLOAT32, TALLY_SUM, &test.comm, &options,
					  &work),
			 TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: options->scale with TALLY_OP_HALF, TALLY_OP_EXACT or "
	     "TALLY_OP_STRICT: choose one");
}

/* At the limit it is taken. */
static void refusal__of_a_buffer_names_it(void **state)
{
	const size_t most = (size_t)1 << 45;
	struct tally_buffer buffers[] = { { NULL, NULL, 0 }, { x, x + 2, 3 } };
	struct tally_work *work;
	char text[256];

	(void)state;
	assert_int_equal(start(NULL, NULL, 0, TALLY_INT32, TALLY_SUM), TALLY_OK);
	assert_int_equal(start(NULL, x, 2, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: send is NULL, count 2");
	assert_int_equal(start(x, NULL, 2, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: recv is NULL, count 2");
	assert_int_equal(start(x, x, most + 1, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: count 35184372088833 is above 2^45");
	assert_int_equal(stream_for(most, TALLY_STREAM_AUTO), MAP_BULK);
	assert_int_equal(start(x, (char *)x + 2, 1, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	snprintf(text, sizeof(text), "tally_iallreduce: recv %p is not aligned to 4 bytes",
		 (void *)((char *)x + 2));
	said(text);
	assert_int_equal(tally_iallreduce_multi(buffers, 2, TALLY_INT32, TALLY_SUM, &test.comm,
						NULL, &work),
			 TALLY_ERR_ARGUMENT);
	snprintf(text, sizeof(text),
		 "tally_iallreduce_multi: buffers[1].send %p and buffers[1].recv %p overlap in 3 "
		 "elements: in place means send == recv",
		 (void *)x, (void *)(x + 2));
	said(text);
	assert_int_equal(start(x, x + 3, 3, TALLY_INT32, TALLY_SUM), TALLY_OK); /* they touch */
	assert_int_equal(start(y + 3, y, 3, TALLY_INT32, TALLY_SUM), TALLY_OK);
	assert_int_equal(tally_iallreduce_multi(NULL, 2, TALLY_INT32, TALLY_SUM, &test.comm, NULL,
						&work),
			 TALLY_ERR_ARGUMENT);
	said("tally_iallreduce_multi: buffers is NULL, n 2");
	assert_int_equal(tally_iallreduce_multi(buffers, (1 << 24) + 1, TALLY_INT32, TALLY_SUM,
						&test.comm, NULL, &work),
			 TALLY_ERR_ARGUMENT);
	said("tally_iallreduce_multi: n 16777217 is above 16777216");
	buffers[0] = buffers[1] = (struct tally_buffer){ (void *)8, (void *)8, most / 2 + 1 };
	assert_int_equal(tally_iallreduce_multi(buffers, 2, TALLY_INT32, TALLY_SUM, &test.comm,
						NULL, &work),
			 TALLY_ERR_ARGUMENT);
	said("tally_iallreduce_multi: the counts of all buffers are above 2^45 together");
}

static void refusal__of_options_names_them(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	char name[65], text[128];
	struct tally_work *work;

	(void)state;
	memset(name, 'n', 64);
	name[64] = '\0';
	options.size--;
	assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_ERR_ARGUMENT);
	snprintf(text, sizeof(text),
		 "tally_ibarrier: options->size is %zu, not %zu: set it with TALLY_OP_OPTIONS_INIT",
		 options.size, options.size + 1);
	said(text);
	options.size++;
	for (options.stream = -1; options.stream < 4; options.stream += 4) {
		assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_ERR_ARGUMENT);
		snprintf(text, sizeof(text), "tally_ibarrier: options->stream %d: no such stream",
			 options.stream);
		said(text);
	}
	options.stream = TALLY_STREAM_BULK;
	options.name = name;
	assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_ERR_ARGUMENT);
	said("tally_ibarrier: options->name has more than 63 bytes");
	name[63] = '\0';
	options.flags = 1u << 20;
	assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_ERR_UNSUPPORTED);
	said("tally_ibarrier: options->flags 0x100000: this version has TALLY_OP_MORE, "
	     "TALLY_OP_HALF, TALLY_OP_EXACT and TALLY_OP_STRICT");
	options.flags = TALLY_OP_HALF | TALLY_OP_EXACT;
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_FLOAT32, TALLY_SUM, &test.comm, &options,
					  &work),
			 TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: options->flags has more than one of TALLY_OP_HALF, TALLY_OP_EXACT "
	     "and TALLY_OP_STRICT: choose one");
	options.flags = TALLY_OP_HALF;
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_INT32, TALLY_SUM, &test.comm, &options,
					  &work),
			 TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: TALLY_OP_HALF with sum of int32: it is for sum and avg of float32");
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_FLOAT32, TALLY_MIN, &test.comm, &options,
					  &work),
			 TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: TALLY_OP_HALF with min of float32: it is for sum and avg of "
	     "float32");
	test.comm.who.size = 17;
	assert_int_equal(tally_iallreduce(x, x, 100, TALLY_FLOAT32, TALLY_SUM, &test.comm, &options,
					  &work),
			 TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: TALLY_OP_HALF is for up to 16 ranks, and these are 17");
	test.comm.who.size = 4;
	options.flags = TALLY_OP_MORE;
	assert_int_equal(tally_ibarrier(&test.comm, &options, NULL), TALLY_ERR_ARGUMENT);
	said("tally_ibarrier: work is NULL");
	assert_int_equal(test.ops_count, 0);
	assert_int_equal(tally_ibarrier(&test.comm, &options, &work), TALLY_OK);
	assert_string_equal(work->op.name, name);
	assert_int_equal(work->op.stream, MAP_EXPRESS); /* of nothing there is no choice */
	assert_int_equal(test.begins, 0);               /* it may wait for what follows */
	assert_int_equal(test.reminds, 1);
}

static void refusal__of_latency_mode_names_what_it_has_not(void **state)
{
	(void)state;
	test.comm.latency_slots = 4;
	test.comm.lanes = 5;
	assert_int_equal(start(x, x, 1, TALLY_FLOAT32, TALLY_SUM), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: dtype float32: latency mode has int32, as it is");
	assert_int_equal(start(x, x, 1, TALLY_UINT64, TALLY_SUM), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: dtype uint64: latency mode has int32, as it is");
	assert_int_equal(start(x, x, 1, TALLY_INT32, TALLY_MIN), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: op min: latency mode has sum and avg");
	assert_int_equal(start(x, x, 6, TALLY_INT32, TALLY_SUM), TALLY_ERR_UNSUPPORTED);
	said("tally_iallreduce: count 6: in latency mode an operation has to fit one packet, which "
	     "here holds 5 elements");
	assert_int_equal(test.comm.next_number, 0);
	assert_int_equal(start(x, x, 5, TALLY_INT32, TALLY_SUM), TALLY_OK);
	assert_int_equal(test.comm.next_number, 1);
}

/* What is refused has lent nothing and has no number. */
static void refusal__of_a_lent_buffer_names_who_has_it(void **state)
{
	struct tally_buffer twice[] = { { x, x, 2 }, { y, x + 1, 2 } };
	struct tally_work *work;
	char text[160];

	(void)state;
	test.comm.next_number = 9;
	assert_int_equal(tally_iallreduce_multi(twice, 2, TALLY_INT32, TALLY_SUM, &test.comm, NULL,
						&work),
			 TALLY_ERR_ARGUMENT);
	snprintf(text, sizeof(text),
		 "tally_iallreduce_multi: a recv buffer overlaps the recv buffer at %p of the same "
		 "operation",
		 (void *)x);
	said(text);
	assert_null(test.comm.lent_reads);
	assert_null(test.comm.lent_writes);
	assert_int_equal(start(x, y, 2, TALLY_INT32, TALLY_SUM), TALLY_OK);
	assert_int_equal(start(y + 1, y + 8, 2, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: send overlaps the recv buffer of operation #9, which is still lent "
	     "to it");
	assert_int_equal(start(x + 8, y + 1, 2, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: recv overlaps the recv buffer of operation #9, which is still lent "
	     "to it");
	assert_int_equal(start(x + 8, x + 1, 2, TALLY_INT32, TALLY_SUM), TALLY_ERR_ARGUMENT);
	said("tally_iallreduce: recv overlaps the send buffer of operation #9, which is still lent "
	     "to it");
	assert_int_equal(start(x + 1, y + 2, 2, TALLY_INT32, TALLY_SUM),
			 TALLY_OK); /* two readers */
	assert_int_equal(test.comm.next_number, 11);
}

static void refusal__after_the_end_or_without_memory_says_so(void **state)
{
	(void)state;
	test.short_at = test.mallocs + 1;
	assert_int_equal(start(x, x, 1, TALLY_INT32, TALLY_SUM), TALLY_ERR_NO_MEMORY);
	said("tally_iallreduce: out of memory");
	test.comm.state = COMM_LEAVING;
	assert_int_equal(start(x, x, 1, TALLY_INT32, TALLY_SUM), TALLY_ERR_USAGE);
	said("tally_iallreduce after tally_comm_finalize");
	assert_int_equal(tally_barrier(&test.comm), TALLY_ERR_USAGE);
	said("tally_barrier after tally_comm_finalize");
	strcpy(test.comm.error_text, "it broke");
	atomic_store(&test.comm.error, TALLY_ERR_REMOTE);
	assert_int_equal(tally_barrier(&test.comm), TALLY_ERR_REMOTE);
	assert_string_equal(tally_get_last_error(NULL), "it broke");
	assert_int_equal(test.ops_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(group__is_one_operation_of_all_that_is_alike),
		TEST(group__keeps_apart_what_differs),
		TEST(group__has_a_fingerprint_of_its_counts_and_names),
		TEST(group__of_latency_mode_is_as_many_operations_as_it_needs_packets),
		TEST(group__that_cannot_start_gives_all_its_calls_the_reason),
		TEST(group__of_nothing_starts_nothing),
		TEST(stream__is_what_the_call_says_or_its_size),
		TEST(refusal__of_a_type_or_an_operation_names_it),
		TEST(forms__of_a_communicator_are_those_of_its_float_sums),
		TEST(scale__is_an_exponent_that_all_ranks_compare),
		TEST(refusal__of_a_scale_says_what_it_may_be),
		TEST(refusal__of_a_buffer_names_it),
		TEST(refusal__of_options_names_them),
		TEST(refusal__of_latency_mode_names_what_it_has_not),
		TEST(refusal__of_a_lent_buffer_names_who_has_it),
		TEST(refusal__after_the_end_or_without_memory_says_so),
	};

	return cmocka_run_group_tests_name("lib-group-played", tests, NULL, NULL);
}
