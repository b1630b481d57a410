/* SPDX-License-Identifier: Apache-2.0 */
/* work_played_test.c - operations, handles and groups of a communicator whose endpoint, clock and memory are played. */
#include "lib/played_fixture.h"

static void dones_ignore(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
}

/* ---- from a call to the endpoint ---- */

static void describe__says_kind_count_type_and_operation(void **state)
{
	static const char *const types[] = {
		"int8",       "uint8",      "int32",   "uint32",    "int64",
		"uint64",     "float16",    "float32", "float64",   "bfloat16",
		"float8e4m3", "float8e5m2", "bool",    "complex64", "complex128",
	};
	static const char *const ops[] = {
		"sum",  "prod", "max", "min",  "avg",    "band",   "bor",
		"bxor", "land", "lor", "lxor", "minloc", "maxloc", "user"
	};
	struct control_op op = { .kind = CONTROL_OP_ALLREDUCE, .count = 7 };
	char text[96], wanted[96];

	(void)state;
	for (op.type = 0; op.type < 15; op.type++)
		for (op.op = 0; op.op < 14; op.op++) {
			snprintf(wanted, sizeof(wanted), "allreduce of 7 %s, %s", types[op.type],
				 ops[op.op]);
			assert_string_equal(report_op(&op, text), wanted);
		}
	op.kind = CONTROL_OP_BARRIER;
	assert_string_equal(report_op(&op, text), "barrier");
	op = (struct control_op){ .kind = CONTROL_OP_REDUCE_SCATTER, .count = 7 };
	assert_string_equal(report_op(&op, text), "reduce_scatter of 7 int8, sum");
	op = (struct control_op){ .kind = CONTROL_OP_ALLTOALL, .count = 7, .type = 8 };
	assert_string_equal(report_op(&op, text), "alltoall of 7 float64");
}

static void submit__hands_the_endpoint_what_the_call_has_said(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	float x[4] = { 0 }, y[4], z[2];
	const struct tally_buffer buffers[] = { { x, y, 4 }, { NULL, NULL, 0 }, { z, z, 2 } };
	struct tally_work *works[2];

	(void)state;
	test.comm.next_number = 40;
	options.name = "loss";
	options.stream = TALLY_STREAM_BULK;
	assert_int_equal(tally_iallreduce(x, y, 3, TALLY_FLOAT32, TALLY_AVG, &test.comm, &options,
					  &works[0]),
			 TALLY_OK);
	assert_int_equal(test.ops_count, 1);
	assert_int_equal(test.ops[0].descriptor.number, 40);
	assert_int_equal(test.ops[0].descriptor.kind, CONTROL_OP_ALLREDUCE);
	assert_int_equal(test.ops[0].descriptor.type, TALLY_FLOAT32);
	assert_int_equal(test.ops[0].descriptor.op, TALLY_AVG);
	assert_int_equal(test.ops[0].descriptor.root, 0);
	assert_int_equal(test.ops[0].descriptor.count, 3);
	assert_ptr_equal(test.ops[0].source, x);
	assert_ptr_equal(test.ops[0].destination, y);
	assert_int_equal(test.ops[0].segments_count, 0);
	assert_int_equal(test.ops[0].count, 3);
	assert_int_equal(test.ops[0].type, LANES_FLOAT32);
	assert_int_equal(test.ops[0].op, LANES_AVG);
	assert_int_equal(test.ops[0].stream, MAP_BULK);
	assert_ptr_equal(test.ops[0].is_out_of_range, &works[0]->is_out_of_range);
	assert_null(test.ops[0].first_ns); /* nobody keeps a timeline */
	assert_int_equal(atomic_load(&works[0]->state), WORK_SUBMITTED);
	assert_string_equal(works[0]->op.name, "loss");
	is_done(works[0]);
	get_on();
	assert_int_equal(tally_iallreduce_multi(buffers, 3, TALLY_FLOAT32, TALLY_SUM, &test.comm,
						NULL, &works[1]),
			 TALLY_OK);
	assert_int_equal(test.ops[1].descriptor.number, 41);
	assert_int_not_equal(test.ops[1].descriptor.root, 0);
	assert_int_equal(test.ops[1].count, 6);
	assert_int_equal(test.ops[1].segments_count, 2); /* what is empty is none */
	assert_int_equal(test.ops[1].segments[1].first, 4);
	assert_int_equal(test.ops[1].segments[1].count, 2);
	assert_ptr_equal(test.ops[1].segments[1].source, z);
	assert_int_equal(test.ops[1].op, LANES_SUM);
	assert_int_equal(test.ops[1].stream, MAP_EXPRESS);
	assert_int_equal(test.ops[1].place->row, 1);
	assert_int_equal(test.begins, 2);
	is_done(works[1]);
	test.frees = 0;
	assert_int_equal(tally_wait(&works[1], -1), TALLY_OK);
	assert_int_equal(test.frees, 2); /* what its list of buffers took; the work is kept */
	assert_int_equal(tally_wait(&works[0], -1), TALLY_OK);
	assert_int_equal(test.frees, 2);
}

/* A full ring of one stream does not hold up the other; what waits goes in order. */
static void submit__waits_for_room_in_its_stream(void **state)
{
	struct tally_work *works[5];

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		works[i] = outstanding(i);
		works[i]->op.stream = i == 3 ? MAP_BULK : MAP_EXPRESS;
		atomic_store(&works[i]->state, WORK_WAITING);
		test.room = i == 3; /* only then is there any */
		work_place(&test.comm, works[i]);
		work_submit(&test.comm, works[i]);
	}
	assert_int_equal(test.ops_count, 1);
	assert_int_equal(test.ops[0].cookie, (uintptr_t)works[3]);
	assert_false(work_submit_waiting(&test.comm));
	test.room = 2;
	assert_true(work_submit_waiting(&test.comm));
	assert_int_equal(test.ops[1].cookie, (uintptr_t)works[0]);
	assert_int_equal(test.ops[2].cookie, (uintptr_t)works[1]);
	test.room = 9;
	assert_true(work_submit_waiting(&test.comm));
	assert_int_equal(test.ops_count, 5);
	assert_int_equal(test.ops[4].cookie, (uintptr_t)works[4]);
	assert_false(work_submit_waiting(&test.comm));
	for (uint32_t i = 0; i < 5; i++) /* R-WK-17: in the order of the calls */
		assert_int_equal(works[i]->place.row, i);
	assert_int_equal(test.ops[0].place->row, 3);
}

/* ---- results ---- */

static void complete__is_counted_if_it_went_well(void **state)
{
	static const int results[] = { TALLY_OK, TALLY_ERR_RANGE, TALLY_ERR_REMOTE, TALLY_OK };
	static const uint64_t numbers[] = { 5, 3, 8, 4 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct tally_work *work = outstanding(numbers[i]);

		work->op.count = 10;
		work_complete(&test.comm, work, results[i]);
		assert_int_equal(work->result, results[i]);
	}
	assert_int_equal(test.comm.completed, 3);
	assert_int_equal(test.comm.elements, 30);
	assert_int_equal(test.comm.last_complete, 6); /* of all, though others came later */
}

static void report__says_why_an_operation_has_failed(void **state)
{
	struct tally_work *work = outstanding(12);

	(void)state;
	work->op.kind = CONTROL_OP_ALLREDUCE;
	work->op.count = 3;
	assert_int_equal(work_report(&test.comm, work), TALLY_OK);
	work->result = TALLY_ERR_RANGE;
	assert_int_equal(work_report(&test.comm, work), TALLY_ERR_RANGE);
	said("operation #12, allreduce of 3 int32, sum: some rank's element is above 536870911, "
	     "(2^31 - 1) / 4 ranks: the sum might not fit. Nothing was stored, on any rank; the "
	     "communicator goes on");
	work->result = TALLY_ERR_NO_MEMORY;
	assert_int_equal(work_report(&test.comm, work), TALLY_ERR_NO_MEMORY);
	assert_string_equal(tally_get_last_error(NULL),
			    "tally_group_end has not started this operation, and said why");
	strcpy(test.comm.error_text, "it broke");
	atomic_store(&test.comm.error, TALLY_ERR_NO_MEMORY);
	assert_int_equal(work_report(&test.comm, work), TALLY_ERR_NO_MEMORY);
	assert_string_equal(tally_get_last_error(NULL), "it broke");
	assert_int_equal(test.log_lines, 1);
}

/* ---- handles ---- */

static void test__says_what_is_missing(void **state)
{
	struct tally_work *none = NULL;
	int done = 0;

	(void)state;
	assert_int_equal(tally_test(NULL, &done), TALLY_ERR_ARGUMENT);
	said("tally_test: work is NULL");
	assert_int_equal(tally_test(&none, NULL), TALLY_ERR_ARGUMENT);
	said("tally_test: done is NULL");
	assert_int_equal(tally_wait(NULL, -1), TALLY_ERR_ARGUMENT);
	said("tally_wait: work is NULL");
	assert_int_equal(tally_waitall(1, NULL, -1), TALLY_ERR_ARGUMENT);
	said("tally_waitall: works is NULL");
	assert_int_equal(tally_waitall(0, NULL, -1), TALLY_OK);
	assert_int_equal(tally_work_on_done(NULL, dones_ignore, NULL), TALLY_ERR_ARGUMENT);
	said("tally_work_on_done: work is NULL");
	assert_int_equal(tally_work_on_done(outstanding(0), NULL, NULL), TALLY_ERR_ARGUMENT);
	said("tally_work_on_done: fn is NULL");
	assert_int_equal(tally_test(&none, &done), TALLY_OK);
	assert_int_equal(done, 1);
	assert_int_equal(tally_wait(&none, -1), TALLY_OK);
}

static void test__gives_the_result_and_takes_the_handle(void **state)
{
	struct tally_work *work = outstanding(0), *handle = work;
	int done = 7;

	(void)state;
	test.now_ns += 50 * us;
	assert_int_equal(tally_test(&handle, &done), TALLY_OK);
	assert_int_equal(done, 0);
	assert_ptr_equal(handle, work);
	assert_int_equal(test.polls, 1);
	assert_int_equal(test.comm.touched_ns, test.now_ns);
	is_done(work);
	work->is_out_of_range = true;
	assert_int_equal(tally_test(&handle, &done), TALLY_ERR_RANGE);
	assert_int_equal(done, 1);
	assert_null(handle);
	assert_ptr_equal(test.comm.free_works, work);
	assert_null(test.comm.complete.first);
}

/* A look drives only where it may, and a loop of looks lets others have the processor. */
static void test__in_a_loop_yields_and_drives_only_where_nobody_else_does(void **state)
{
	struct tally_work *handle = outstanding(0);
	int done;

	(void)state;
	test.now_ns += 20 * us;
	assert_int_equal(tally_test(&handle, &done), TALLY_OK);
	assert_int_equal(test.yields, 0);
	test.now_ns += 20 * us - 1;
	assert_int_equal(tally_test(&handle, &done), TALLY_OK);
	assert_int_equal(test.yields, 1);
	assert_int_equal(test.polls, 2);
	test.comm.is_driven = true;
	assert_int_equal(tally_wait(&handle, 0), TALLY_IN_PROGRESS);
	test.comm.is_driven = false;
	atomic_store(&test.comm.error, TALLY_ERR_REMOTE);
	assert_int_equal(tally_wait(&handle, 0), TALLY_IN_PROGRESS);
	assert_int_equal(test.polls, 2);
	assert_int_equal(test.yields, 1);
}

static void wait__takes_as_long_as_it_may(void **state)
{
	struct tally_work *handle = outstanding(0);

	(void)state;
	assert_int_equal(tally_wait(&handle, 25), TALLY_IN_PROGRESS);
	assert_int_equal(test.now_ns, begin_ns + 25 * ms);
	assert_non_null(handle);
	is_done(handle);
	assert_int_equal(tally_wait(&handle, -1), TALLY_OK);
	assert_null(handle);
	assert_int_equal(test.now_ns, begin_ns + 25 * ms);
}

/* The first failure is what is told, and what is late does not hide it. */
static void waitall__waits_for_all_and_tells_the_first_failure(void **state)
{
	struct tally_work *works[5] = { outstanding(0), NULL, outstanding(2), outstanding(3),
					outstanding(4) };

	(void)state;
	assert_int_equal(tally_waitall(5, works, 0), TALLY_IN_PROGRESS);
	assert_int_equal(test.now_ns, begin_ns);
	assert_int_equal(tally_waitall(5, works, 30), TALLY_IN_PROGRESS);
	assert_int_equal(test.now_ns, begin_ns + 30 * ms); /* for all of them together */
	is_done(works[2]);
	is_done(works[3]);
	works[3]->is_out_of_range = true;
	assert_int_equal(tally_waitall(5, works, 30), TALLY_ERR_RANGE);
	assert_non_null(works[0]);
	assert_null(works[2]);
	assert_null(works[3]);
	is_done(works[0]);
	is_done(works[4]);
	assert_int_equal(tally_waitall(5, works, -1), TALLY_OK);
	for (uint32_t i = 0; i < 5; i++)
		assert_null(works[i]);
}

static int told;

static void tell(struct tally_work *work, int result, void *arg)
{
	(void)work;
	assert_ptr_equal(arg, &told);
	told = result;
}

static void on_done__is_one_and_of_what_is_complete_runs_at_once(void **state)
{
	struct tally_work *late = outstanding(0), *early = outstanding(1);

	(void)state;
	told = -1;
	work_complete(&test.comm, late, TALLY_ERR_RANGE);
	assert_int_equal(tally_work_on_done(late, tell, &told), TALLY_OK);
	assert_int_equal(told, TALLY_ERR_RANGE);
	assert_int_equal(test.calls, 0);
	assert_int_equal(tally_work_on_done(early, tell, &told), TALLY_OK);
	assert_int_equal(test.calls, 1); /* R-CT-45: a function that waits */
	assert_int_equal(tally_work_on_done(early, tell, &told), TALLY_ERR_USAGE);
	said("tally_work_on_done: this work has one already");
	assert_int_equal(test.calls, 1);
	test.moved = 0;
	work_complete(&test.comm, early, TALLY_OK);
	assert_int_equal(atomic_load(&early->state), WORK_CALLING);
	assert_int_equal(test.moved, 1);
}

/* Before the handle is taken: its function is due first. */
static void test__runs_the_functions_that_are_due(void **state)
{
	struct tally_work *handle = outstanding(0), *other = outstanding(1);
	int done = 0;

	(void)state;
	told = -1;
	assert_int_equal(tally_work_on_done(other, tell, &told), TALLY_OK);
	is_done(other);
	assert_int_equal(tally_test(&handle, &done), TALLY_OK);
	assert_int_equal(done, 0);
	assert_int_equal(told, TALLY_OK);
	told = -1;
	assert_int_equal(tally_work_on_done(handle, tell, &told), TALLY_OK);
	is_done(handle);
	assert_int_equal(tally_test(&handle, &done), TALLY_OK);
	assert_int_equal(done, 1);
	assert_null(handle);
	assert_int_equal(told, TALLY_OK);
}

static void free__takes_the_handle_and_the_work_when_it_is_complete(void **state)
{
	struct tally_work *early = outstanding(0), *late = outstanding(1), *handle = early;

	(void)state;
	tally_work_free(NULL);
	tally_work_free(&handle);
	assert_null(handle);
	tally_work_free(&handle);
	assert_null(test.comm.free_works); /* its buffers are still lent */
	work_complete(&test.comm, early, TALLY_OK);
	assert_ptr_equal(test.comm.free_works, early);
	assert_null(test.comm.complete.first);
	work_complete(&test.comm, late, TALLY_OK);
	handle = late;
	tally_work_free(&handle);
	assert_null(handle);
	assert_ptr_equal(test.comm.free_works, late);
	assert_null(test.comm.complete.first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define INSIDE(name) cmocka_unit_test_setup_teardown(name, setup_locked, teardown_locked)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(describe__says_kind_count_type_and_operation),
		TEST(submit__hands_the_endpoint_what_the_call_has_said),
		INSIDE(submit__waits_for_room_in_its_stream),
		INSIDE(complete__is_counted_if_it_went_well),
		INSIDE(report__says_why_an_operation_has_failed),
		TEST(test__says_what_is_missing),
		TEST(test__gives_the_result_and_takes_the_handle),
		TEST(test__in_a_loop_yields_and_drives_only_where_nobody_else_does),
		TEST(wait__takes_as_long_as_it_may),
		TEST(waitall__waits_for_all_and_tells_the_first_failure),
		TEST(on_done__is_one_and_of_what_is_complete_runs_at_once),
		TEST(test__runs_the_functions_that_are_due),
		TEST(free__takes_the_handle_and_the_work_when_it_is_complete),
	};

	return cmocka_run_group_tests_name("lib-work-played", tests, NULL, NULL);
}
