/* SPDX-License-Identifier: Apache-2.0 */
/* Workers by hand, over TCP, against a server in a thread: what they are answered, and what they are refused with. */
#include "dataplane/engine_sparse.h"
#include "ps/hurry_fixture.h"
#include "ps/server_fixture.h"

static void refused_hello(const struct kv_message *hello, enum kv_refusal refusal, const char *part)
{
	int fd = connect_one();

	say(fd, hello);
	hear_no(fd, refusal, part);
	assert_int_equal(said.about, KV_NOTHING);
	hear_end(fd);
}

static void server__strangers_are_refused_by_name(void **unused)
{
	struct kv_message hello = hello_of(0, 1);
	int fd;

	(void)unused;
	strcpy(hello.secret, "secreu");
	refused_hello(&hello, KV_REFUSED_DENIED, "worker 0 (H, pid 77) has another key");
	strcpy(hello.secret, "secret and more");
	refused_hello(&hello, KV_REFUSED_DENIED, "another key");
	hello.secret[0] = 0;
	refused_hello(&hello, KV_REFUSED_DENIED, "another key");
	hello = hello_of(0, 1);
	strcpy(hello.job, "K");
	refused_hello(&hello, KV_REFUSED_MISMATCH, "is of job K with 2 workers");
	hello = hello_of(0, 1);
	hello.workers = 3;
	refused_hello(&hello, KV_REFUSED_MISMATCH, "with 3 workers");
	hello = (struct kv_message){ .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	refused_hello(&hello, KV_REFUSED_MESSAGE, "HELLO comes first");
	hello = (struct kv_message){ .type = KV_LEAVE };
	refused_hello(&hello, KV_REFUSED_MESSAGE, "HELLO comes first");
	fd = connect_one();
	assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	hear_no(fd, KV_REFUSED_MESSAGE, "no messages of tally");
	hear_end(fd);
}

static void server__tables_are_opened_as_they_are(void **unused)
{
	struct kv_message open = { .type = KV_OPEN, .name = "u", .servers = 1, .dim = DIM };
	int fd = open_one(0, 1);

	(void)unused;
	assert_string_equal(said.name, "t");
	assert_int_equal(said.dim, DIM);
	assert_int_equal(sparse_fences(said.generation), 1);
	assert_int_equal(said.number, 1);
	assert_false(said.is_known);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_UNKNOWN, "asks for a table u, which is not here");
	assert_int_equal(said.about, KV_OPEN);
	open = (struct kv_message){ .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM + 1 };
	say(fd, &open);
	hear_no(fd, KV_REFUSED_MISMATCH, "table t has dim 2; worker 0 (H, pid 77) has opened it");
	close(fd);
}

static void server__batches_count_once_and_are_pulled(void **unused)
{
	int fd = open_one(0, 1);

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	assert_int_equal(said.number, 1);
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	batch_say(fd, 3, 5, 100);
	hear_no(fd, KV_REFUSED_MESSAGE, "batch 3 of worker 0 (H, pid 77); 2 is next");
	assert_int_equal(said.about, KV_BATCH);
	assert_int_equal(said.number, 3);
	batch_say(fd, 2, 6, -7);
	hear(fd, KV_DONE);
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	assert_int_equal(said.count, 2);
	assert_true(said.value[0] == 3 && said.value[1] == -3);
	assert_true(said.value[2] == -7 && said.value[3] == 7);
	close(fd);
}

static void server__later_incarnation_takes_the_place(void **unused)
{
	struct kv_message hello = hello_of(0, 2),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int first = open_one(0, 3), second, fd;

	(void)unused;
	batch_say(first, 1, 5, 1);
	hear(first, KV_DONE);
	second = open_one(0, 4);
	assert_int_equal(sparse_fences(said.generation), 2);
	assert_int_equal(said.number, 1);
	hear_no(first, KV_REFUSED_SUPERSEDED, "worker 0 has another connection now");
	hear_end(first);
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_SUPERSEDED, "a later incarnation of worker 0 has come");
	/* Which one is the worker's secret: who says just that is taken for it. */
	assert_string_equal(said.text, "table t: a later incarnation of worker 0 has come");
	hear_end(fd);
	/* The same one, once more: it goes on. */
	batch_say(second, 1, 5, 1);
	hear(second, KV_DONE);
	close(second);
	second = open_one(0, 4);
	assert_true(said.is_known);
	assert_int_equal(said.number, 2);
	close(second);
}

/* R-KV-6: nobody can say the last number that there is. */
static void server__incarnation_far_ahead_is_refused(void **unused)
{
	struct kv_message open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	struct kv_message hello;
	struct timespec wall;
	uint64_t now_ns, hour_ns = 3600000000000;
	uint64_t ahead[3];
	int fd;

	(void)unused;
	clock_gettime(CLOCK_REALTIME, &wall);
	now_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
	ahead[0] = UINT64_MAX;
	ahead[1] = UINT64_MAX / 2;
	ahead[2] = now_ns + hour_ns + hour_ns / 10;
	close(open_one(0, 3));
	for (uint32_t i = 0; i < 3; i++) {
		hello = hello_of(0, ahead[i]);
		fd = connect_one();
		say(fd, &hello);
		hear(fd, KV_WELCOME);
		say(fd, &open);
		hear_no(fd, KV_REFUSED_MISMATCH, "h ahead of this server's clock: set the clocks");
		hear_end(fd);
	}
	close(open_one(0, 4));
	close(open_one(0, now_ns));
	close(open_one(0, now_ns + hour_ns - hour_ns / 10));
	close(open_one(0, now_ns + hour_ns - hour_ns / 10 + 1));
	/* Whose clock is right is told why he has to wait, and for how long: 54 min, less what this took. */
	hello = hello_of(0, now_ns + 1);
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear_no(fd, KV_REFUSED_SUPERSEDED,
		" s ahead of this server's clock: set the clocks of all hosts");
	assert_in_range(atoi(strstr(said.text, "that one is ") + strlen("that one is ")), 2000,
			3240 + 1);
	hear_end(fd);
}

/* R-KV-10 */
static void server__pull_waits_for_what_it_asks_for(void **unused)
{
	int waits = open_one(0, 1), other = open_one(1, 1);

	(void)unused;
	pull_say(waits, said.generation, 1);
	assert_true(is_quiet(waits));
	/* Who replaces worker 1 begins a generation, which is above. */
	close(other);
	other = open_one(1, 2);
	hear(waits, KV_PULLED);
	assert_int_equal(sparse_fences(said.generation), 2);
	assert_int_equal(said.number, 9);
	close(waits);
	close(other);
}

/* R-KV-11 */
static void server__barrier_is_passed_by_all_or_none(void **unused)
{
	struct kv_message barrier = { .type = KV_BARRIER, .number = 1 };
	int first = open_one(0, 1), second = open_one(1, 1);

	(void)unused;
	say(first, &barrier);
	assert_true(is_quiet(first));
	say(second, &barrier);
	hear(first, KV_BARRIER);
	assert_int_equal(said.number, 1);
	hear(second, KV_BARRIER);
	/* One that was passed stays so, over a restart too. */
	close(first);
	close(second);
	end(NULL);
	assert_int_equal(begin(NULL), 0);
	first = open_one(0, 1);
	assert_true(said.is_known);
	say(first, &barrier);
	hear(first, KV_BARRIER);
	close(first);
}

/* R-KV-11 */
static void server__second_run_has_barriers_of_its_own(void **unused)
{
	int first = open_one(0, 1), second = open_one(1, 1);

	(void)unused;
	assert_int_equal(said.barrier, 0);
	for (uint64_t number = 1; number <= 3; number++) {
		barrier_say(first, number);
		barrier_say(second, number);
		barrier_hear(first, number);
		barrier_hear(second, number);
	}
	leave(first);
	leave(second);
	for (int life = 0; life < 2; life++) {
		/* The other one's LEAVE was of the run before: it is waited for. */
		first = open_one(0, 2);
		assert_int_equal(said.barrier, 3);
		barrier_say(first, 4);
		assert_true(is_quiet(first));
		if (life)
			break;
		close(first);
		end(NULL);
		assert_int_equal(begin(NULL), 0);
	}
	second = open_one(1, 2);
	assert_int_equal(said.barrier, 3);
	barrier_say(second, 4);
	barrier_hear(first, 4);
	barrier_hear(second, 4);
	close(first);
	close(second);
}

/* R-KV-11: both are killed while one waits in a barrier. */
static void server__barrier_of_a_dead_run_lets_nobody_through(void **unused)
{
	int first = open_one(0, 1), second = open_one(1, 1);

	(void)unused;
	barrier_say(second, 1);
	assert_true(is_quiet(second));
	close(second);
	close(first);
	log_wait("worker 0 (H, pid 77) has gone, and may come back");
	log_wait("worker 1 (H, pid 77) has gone, and may come back");
	first = open_one(0, 2);
	barrier_say(first, 1);
	assert_true(is_quiet(first));
	second = open_one(1, 2);
	barrier_say(second, 1);
	say(first, &(struct kv_message){ .type = KV_ALIVE });
	barrier_hear(first, 1);
	barrier_hear(second, 1);
	close(first);
	close(second);
}

/* R-KV-11: the hosts died, and their connections seem to be there. */
static void server__barrier_of_a_silent_connection_counts_once_it_is_heard(void **unused)
{
	int first = open_one(0, 1), second = open_one(1, 1), again;

	(void)unused;
	barrier_say(second, 1);
	assert_true(is_quiet(second));
	again = open_one(0, 2);
	hear_no(first, KV_REFUSED_SUPERSEDED, "worker 0 has another connection now");
	hear_end(first);
	barrier_say(again, 1);
	assert_true(is_quiet(again));
	/* It was there: another one has come to the run, in place of one that died. */
	say(second, &(struct kv_message){ .type = KV_ALIVE });
	barrier_hear(second, 1);
	barrier_hear(again, 1);
	/* And this time it is not. */
	barrier_say(second, 2);
	assert_true(is_quiet(second));
	first = open_one(0, 3);
	hear_no(again, KV_REFUSED_SUPERSEDED, "worker 0 has another connection now");
	hear_end(again);
	close(second);
	log_wait("worker 1 (H, pid 77) has gone, and may come back");
	barrier_say(first, 2);
	assert_true(is_quiet(first));
	/* The same one, that comes back: it says its barrier again. */
	second = open_one(1, 1);
	assert_true(is_quiet(first));
	barrier_say(second, 2);
	barrier_hear(second, 2);
	barrier_hear(first, 2);
	close(first);
	close(second);
}

/* R-KV-13, R-KV-11 */
static void server__who_has_left_is_not_waited_for(void **unused)
{
	int first = open_one(0, 1), second = open_one(1, 1);

	(void)unused;
	barrier_say(first, 1);
	assert_true(is_quiet(first));
	leave(second);
	barrier_hear(first, 1);
	/* Nor after a restart. */
	close(first);
	end(NULL);
	assert_int_equal(begin(NULL), 0);
	first = open_one(0, 1);
	assert_true(said.is_known);
	barrier_say(first, 2);
	barrier_hear(first, 2);
	/* A new one is, and one that only lost its connection, too. */
	second = open_one(1, 2);
	assert_int_equal(said.barrier, 2);
	close(second);
	barrier_say(first, 3);
	assert_true(is_quiet(first));
	second = open_one(1, 2);
	barrier_say(second, 3);
	barrier_hear(first, 3);
	close(first);
	close(second);
}

/* R-KV-13: who has not heard the answer says it again, and that is no LEAVE of the run that has begun since. */
static void server__leave_that_is_said_again_is_old(void **unused)
{
	int first, second = open_one(1, 1);

	(void)unused;
	leave(second);
	first = open_one(0, 2);
	barrier_say(first, 1);
	assert_true(is_quiet(first));
	second = open_one(1, 1);
	assert_true(said.is_known);
	leave(second);
	assert_true(is_quiet(first));
	second = open_one(1, 2);
	leave(second);
	barrier_hear(first, 1);
	close(first);
}

/* R-KV-13: of two tables on its connection it is the first that waits for its disk. */
static void server__leave_waits_for_the_disks_of_all_tables(void **unused)
{
	const struct kv_message open = { .type = KV_OPEN, .name = "u", .servers = 1, .dim = DIM };
	static struct ps_hosted_options both[2]; /* lent until the end */
	struct rlimit size;
	int fd;

	(void)unused;
	end(NULL);
	both[0] = both[1] = table;
	strcpy(both[1].table.name, "u");
	both[1].table.durability = PS_NONE;
	options.tables = both;
	options.table_count = 2;
	assert_int_equal(begin(NULL), 0);
	fd = open_one(1, 1);
	say(fd, &open);
	hear(fd, KV_OPENED);
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = 1;
	setrlimit(RLIMIT_FSIZE, &size);
	say(fd, &(struct kv_message){ .type = KV_LEAVE });
	log_wait("table t: its log cannot be written: File too large");
	assert_true(is_quiet(fd));
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	hear(fd, KV_LEAVE);
	hear_end(fd);
	log_wait("table t: worker 1 (H, pid 77) has left");
	log_wait("table u: worker 1 (H, pid 77) has left");
}

/* It may have been told of a higher one by another server of the table. */
static void server__higher_number_stands_for_all_below(void **unused)
{
	int first = open_one(0, 1), second = open_one(1, 1);

	(void)unused;
	barrier_say(first, 1);
	barrier_say(second, 2);
	barrier_hear(first, 1);
	assert_true(is_quiet(second));
	barrier_say(first, 2);
	barrier_hear(second, 2);
	barrier_hear(first, 2);
	close(first);
	close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(server__##name, setup, end)
		T(strangers_are_refused_by_name),
		T(tables_are_opened_as_they_are),
		T(batches_count_once_and_are_pulled),
		T(later_incarnation_takes_the_place),
		T(incarnation_far_ahead_is_refused),
		T(pull_waits_for_what_it_asks_for),
		T(barrier_is_passed_by_all_or_none),
		T(second_run_has_barriers_of_its_own),
		T(barrier_of_a_dead_run_lets_nobody_through),
		T(barrier_of_a_silent_connection_counts_once_it_is_heard),
		T(who_has_left_is_not_waited_for),
		T(leave_that_is_said_again_is_old),
		T(leave_waits_for_the_disks_of_all_tables),
		T(higher_number_stands_for_all_below),
#undef T
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
