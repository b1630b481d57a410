/* SPDX-License-Identifier: Apache-2.0 */
/* step_test.c - tally_kv_step and tally_kv_on_done: what waits for other workers, and who is told what is complete. */
#include "kvlib/kv_fixture.h"

enum { WAIT_MS = 100 }; /* what must not happen has so long to happen */

static struct fake *fake;
static struct tally_kv *one, *other;
static float value[FAKE_DIM] = { 1, -2, 3 };
static const uint64_t cold = 1, hot = 6; /* hot ones are multiples of 6 */

static struct tally_kv *open_in(uint32_t worker, uint32_t mode, uint32_t staleness)
{
	struct tally_kv_options options = options_of(fake->address, worker);
	struct tally_kv *kv = NULL;

	options.mode = mode;
	options.staleness = staleness;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	return kv;
}

static void begin(uint32_t mode, uint32_t staleness)
{
	fake = fake_begin(FAKE_HOT, 31);
	fake->is_stepped = mode == TALLY_KV_SYNC;
	one = open_in(0, mode, staleness);
	other = open_in(1, mode, staleness);
}

static void end(void)
{
	ok(tally_kv_close(one));
	ok(tally_kv_close(other));
	fake_end(fake);
}

static uint64_t count_of(const uint64_t *what)
{
	uint64_t count;

	pthread_mutex_lock(&fake->lock);
	count = *what;
	pthread_mutex_unlock(&fake->lock);
	return count;
}

/* ---- steps ---- */

static void kv__step_holds_back_what_comes_after_it(void **state)
{
	uint64_t step, pull, push, batches;
	float row[FAKE_DIM] = { 0 };

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	ok(tally_kv_push(one, &cold, value, 1, NULL));
	ok(tally_kv_push(one, &hot, value, 1, NULL));
	ok(tally_kv_step(one, &step));
	ok(tally_kv_pull(one, &cold, row, 1, &pull));
	ok(tally_kv_push(one, &cold, value, 1, &push));
	assert_int_equal(tally_kv_wait(one, step, WAIT_MS), TALLY_IN_PROGRESS);
	assert_int_equal(tally_kv_wait(one, pull, WAIT_MS), TALLY_IN_PROGRESS);
	for (int i = 0;
	     i < 20000 && (fake_row(fake, FAKE_DIM * 6) != 1 || !count_of(&fake->batches)); i++)
		usleep(1000);
	batches = count_of(&fake->batches);
	assert_int_equal(batches, 1); /* the first push is in, */
	assert_true(fake_row(fake, FAKE_DIM * 6) == 1);
	assert_int_equal(count_of(&fake->pulls),
			 0); /* and nothing has been said of what comes after */
	ok(tally_kv_step(other, NULL));
	ok(tally_kv_wait(one, step, -1));
	ok(tally_kv_wait(one, pull, -1));
	ok(tally_kv_wait(one, push, -1));
	assert_true(row[0] == 1);
	/* The next one is another one. */
	ok(tally_kv_step(one, &step));
	assert_int_equal(tally_kv_wait(one, step, WAIT_MS), TALLY_IN_PROGRESS);
	ok(tally_kv_step(other, NULL));
	ok(tally_kv_wait(one, step, -1));
	end();
}

static void kv__step_outlives_the_server(void **state)
{
	uint64_t step, pull;
	float row[FAKE_DIM];

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	ok(tally_kv_push(one, &cold, value, 1, NULL));
	ok(tally_kv_step(one, &step));
	ok(tally_kv_pull(one, &cold, row, 1, &pull));
	assert_int_equal(tally_kv_wait(one, step, WAIT_MS), TALLY_IN_PROGRESS);
	fake_restart(fake);
	ok(tally_kv_step(other, NULL));
	ok(tally_kv_wait(one, pull, -1));
	assert_true(row[1] == -2);
	end();
}

/* R-KV-15 */
static void kv__bounded_worker_is_so_many_steps_ahead(void **state)
{
	uint64_t step, pull;
	float row[FAKE_DIM];

	(void)state;
	begin(TALLY_KV_BOUNDED, 2);
	for (int i = 0; i < 2; i++) { /* nobody is waited for */
		ok(tally_kv_push(one, &hot, value, 1, NULL));
		ok(tally_kv_step(one, &step));
		ok(tally_kv_wait(one, step, -1));
		ok(tally_kv_pull(one, &cold, row, 1, &pull));
		ok(tally_kv_wait(one, pull, -1));
	}
	for (int i = 0; i < 3; i++) {
		ok(tally_kv_step(one, &step));
		ok(tally_kv_pull(one, &cold, row, 1, &pull));
		assert_int_equal(tally_kv_wait(one, pull, WAIT_MS), TALLY_IN_PROGRESS);
		ok(tally_kv_step(other, NULL));
		ok(tally_kv_wait(one, pull, -1));
		ok(tally_kv_wait(one, step, 0));
	}
	/* The other one is behind, and waits for nobody. */
	for (int i = 0; i < 4; i++) {
		ok(tally_kv_step(other, &step));
		ok(tally_kv_wait(other, step, -1));
	}
	for (int i = 0; i < 2; i++)
		ok(tally_kv_step(one, NULL));
	end();
}

static void *late_step(void *arg)
{
	usleep(WAIT_MS * 1000);
	ok(tally_kv_step(other, NULL));
	return arg;
}

/* Who sleeps is told of it, though the step that is passed then is the one before. */
static void kv__bounded_worker_goes_on_once_the_others_are_near(void **state)
{
	uint64_t step, begin_ns;
	pthread_t thread;

	(void)state;
	begin(TALLY_KV_BOUNDED, 1);
	ok(tally_kv_step(one, NULL));
	ok(tally_kv_step(one, &step));
	begin_ns = clock_ns();
	assert_int_equal(pthread_create(&thread, NULL, late_step, NULL), 0);
	ok(tally_kv_wait(one, step, 20000));
	assert_true(clock_ns() - begin_ns < 15000 * 1000000ull);
	pthread_join(thread, NULL);
	ok(tally_kv_step(other, NULL));
	end();
}

static void kv__asynchronous_step_waits_for_nobody(void **state)
{
	uint64_t step;

	(void)state;
	begin(TALLY_KV_ASYNC, 0);
	ok(tally_kv_push(one, &hot, value, 1, NULL));
	ok(tally_kv_push(one, &cold, value, 1, NULL));
	ok(tally_kv_step(one, &step));
	ok(tally_kv_wait(one, step, -1));
	assert_true(fake_row(fake, FAKE_DIM * 6) == 1);
	assert_true(fake_row(fake, FAKE_DIM * 1) == 1);
	end();
}

static void kv__modes_that_cannot_be_are_refused(void **state)
{
	struct tally_kv_options options;
	struct tally_kv *kv = NULL;
	static const struct {
		uint32_t mode, staleness, flags;
		const char *text;
	} cases[] = {
		{ 3, 0, 0, "none of TALLY_KV_ASYNC" },
		{ TALLY_KV_SYNC, 1, 0, "with TALLY_KV_BOUNDED alone" },
		{ TALLY_KV_ASYNC, 1, 0, "with TALLY_KV_BOUNDED alone" },
		{ TALLY_KV_BOUNDED, (1 << 20) + 1, 0, "above 2^20" },
		{ TALLY_KV_SYNC, 0, TALLY_KV_COPIES, "do not go together" },
	};

	(void)state;
	fake = fake_begin(0, 32);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		options = options_of(fake->address, 0);
		options.mode = cases[i].mode;
		options.staleness = cases[i].staleness;
		options.flags = cases[i].flags;
		failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_ARGUMENT,
		       cases[i].text);
	}
	/* A server that does not say so itself. */
	options = options_of(fake->address, 0);
	options.mode = TALLY_KV_SYNC;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_REMOTE, "another mode");
	fake_end(fake);
}

static void kv__synchronous_pushes_have_a_bound(void **state)
{
	float large[FAKE_DIM] = { 0, 0x1p46f, 0 };

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	failed(tally_kv_push(one, &cold, large, 1, NULL), TALLY_ERR_ARGUMENT,
	       "values[1], of key 1, is 7.03687e+13");
	large[1] = NAN;
	failed(tally_kv_push(one, &cold, large, 1, NULL), TALLY_ERR_ARGUMENT, "is NaN");
	ok(tally_kv_close(one));
	ok(tally_kv_close(other));
	fake_end(fake);
}

/* The others may take their time: a push behind a step is not late before it has begun. */
static void kv__push_behind_a_step_is_not_late(void **state)
{
	uint64_t step, push;

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	deadline_is(one, 300);
	pthread_mutex_lock(&one->lock);
	one->stall_ns = 0; /* or it would not look before the old deadline */
	pthread_mutex_unlock(&one->lock);
	ok(tally_kv_step(one, &step));
	ok(tally_kv_push(one, &cold, value, 1, &push));
	assert_int_equal(tally_kv_wait(one, push, 1500), TALLY_IN_PROGRESS);
	deadline_is(one, FAKE_DEADLINE_MS);
	ok(tally_kv_step(other, NULL));
	ok(tally_kv_wait(one, push, -1));
	end();
}

static void kv__step_that_waits_for_a_dead_worker_ends(void **state)
{
	uint64_t step;

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	fake_refuses(fake, KV_BARRIER, KV_REFUSED_GONE);
	ok(tally_kv_step(one, &step));
	failed(tally_kv_wait(one, step, -1), TALLY_ERR_REMOTE, "another worker has gone");
	failed(tally_kv_close(one), TALLY_ERR_REMOTE, "another worker has gone");
	ok(tally_kv_close(other));
	fake_end(fake);
}

/* ---- callbacks ---- */

struct told {
	atomic_int count, result;
	atomic_int waits, barriers, closes; /* what blocking calls have returned there */
	uint64_t timestamp;
	pthread_t thread;
	uint64_t next; /* an operation that it has begun */
	char text[256];
};

static void on_done(struct tally_kv *kv, uint64_t timestamp, int result, void *arg)
{
	struct told *told = arg;
	int done = 0;

	(void)kv;
	told->timestamp = timestamp;
	told->thread = pthread_self();
	snprintf(told->text, sizeof(told->text), "%s", result ? tally_get_last_error(NULL) : "");
	atomic_store(&told->result, result);
	if (!result) {
		assert_int_equal(tally_kv_test(kv, timestamp, &done), 0);
		assert_int_equal(done, 1);
	}
	atomic_fetch_add(&told->count, 1);
}

static void on_done_blocking(struct tally_kv *kv, uint64_t timestamp, int result, void *arg)
{
	struct told *told = arg;

	(void)result;
	atomic_store(&told->waits, tally_kv_wait(kv, timestamp, -1));
	atomic_store(&told->barriers, tally_kv_barrier(kv));
	atomic_store(&told->closes, tally_kv_close(kv));
	/* More than the queue has room for: it must not wait for that. */
	for (int i = 0; i < 2000; i++)
		ok(tally_kv_push(kv, &cold, value, 1, &told->next));
	atomic_fetch_add(&told->count, 1);
}

static void told_wait(struct told *told, int count)
{
	for (int i = 0; i < 20000 && atomic_load(&told->count) < count; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&told->count), count);
}

static void kv__callbacks_say_what_is_complete(void **state)
{
	struct told push = { 0 }, pull = { 0 }, again = { 0 }, step = { 0 };
	uint64_t timestamp, pulled;
	float row[FAKE_DIM];

	(void)state;
	begin(TALLY_KV_SYNC, 0);
	ok(tally_kv_push(one, &hot, value, 1, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done, &push));
	ok(tally_kv_pull(one, &cold, row, 1, &pulled));
	ok(tally_kv_on_done(one, pulled, on_done, &pull));
	told_wait(&pull, 1);
	assert_true(pull.timestamp == pulled);
	told_wait(&push, 1);
	assert_true(push.timestamp == timestamp);
	assert_int_equal(atomic_load(&push.result), 0);
	assert_false(pthread_equal(push.thread, pthread_self()));
	assert_true(fake_row(fake, FAKE_DIM * 6) == 1);
	ok(tally_kv_on_done(one, timestamp, on_done, &again)); /* long complete */
	told_wait(&again, 1);
	failed(tally_kv_on_done(one, 99, on_done, &again), TALLY_ERR_ARGUMENT, "no operation 99");
	failed(tally_kv_on_done(one, 0, on_done, &again), TALLY_ERR_ARGUMENT, "no operation 0");
	failed(tally_kv_on_done(one, 1, NULL, &again), TALLY_ERR_ARGUMENT, "fn is NULL");
	ok(tally_kv_step(one, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done, &step));
	usleep(WAIT_MS * 1000);
	assert_int_equal(atomic_load(&step.count), 0);
	ok(tally_kv_step(other, NULL));
	told_wait(&step, 1);
	end();
	assert_int_equal(atomic_load(&push.count) + atomic_load(&again.count), 2);
}

static void on_done_another(struct tally_kv *kv, uint64_t timestamp, int result, void *arg)
{
	struct told *told = arg;

	(void)timestamp;
	ok(result);
	ok(tally_kv_push(kv, &cold, value, 1, &told->next));
	ok(tally_kv_on_done(kv, told->next, on_done, told));
}

/* The server says nothing by itself that would wake the table's thread. */
static void kv__what_a_callback_begins_goes_on_at_once(void **state)
{
	const uint32_t heartbeat_ms = fake_heartbeat_ms;
	struct told told = { 0 };
	uint64_t timestamp;

	(void)state;
	fake_heartbeat_ms = 120000;
	fake = fake_begin(0, 32);
	pthread_mutex_lock(&fake->lock);
	fake->is_quiet = true;
	pthread_mutex_unlock(&fake->lock);
	one = open_of(fake->address, 0);
	ok(tally_kv_push(one, &cold, value, 1, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done_another, &told));
	told_wait(&told, 1);
	ok(tally_kv_close(one));
	fake_end(fake);
	fake_heartbeat_ms = heartbeat_ms;
}

static void kv__callback_that_would_wait_is_told_so(void **state)
{
	struct told told = { 0 };
	uint64_t timestamp;

	(void)state;
	begin(TALLY_KV_ASYNC, 0);
	ok(tally_kv_push(one, &cold, value, 1, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done_blocking, &told));
	told_wait(&told, 1);
	assert_int_equal(atomic_load(&told.waits), TALLY_ERR_USAGE);
	assert_int_equal(atomic_load(&told.barriers), TALLY_ERR_USAGE);
	assert_int_equal(atomic_load(&told.closes), TALLY_ERR_USAGE);
	ok(tally_kv_wait(one, told.next, -1));
	assert_true(fake_row(fake, FAKE_DIM) == 2001);
	end();
}

static void kv__callbacks_are_told_of_failures(void **state)
{
	struct told first = { 0 }, second = { 0 }, broken = { 0 };
	uint64_t timestamp;
	float row[FAKE_DIM];

	(void)state;
	begin(TALLY_KV_ASYNC, 0);
	fake_refuses(fake, KV_PULL, KV_REFUSED_MEMORY);
	pthread_mutex_lock(&fake->lock); /* it answers when both have been asked for */
	ok(tally_kv_pull(one, &cold, row, 1, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done, &first));
	ok(tally_kv_on_done(one, timestamp, on_done, &second));
	pthread_mutex_unlock(&fake->lock);
	told_wait(&first, 1);
	told_wait(&second, 1);
	assert_int_equal(atomic_load(&first.result), TALLY_ERR_NO_RESOURCE);
	assert_non_null(strstr(first.text, "because the test says so"));
	assert_int_equal(atomic_load(&second.result), TALLY_ERR_NO_RESOURCE);
	ok(tally_kv_wait(one, timestamp, -1)); /* its error was told */
	fake_refuses(fake, KV_BATCH, KV_REFUSED_MEMORY);
	ok(tally_kv_push(one, &cold, value, 1, &timestamp));
	ok(tally_kv_on_done(one, timestamp, on_done, &broken));
	told_wait(&broken, 1);
	assert_int_equal(atomic_load(&broken.result), TALLY_ERR_NO_RESOURCE);
	failed(tally_kv_close(one), TALLY_ERR_NO_RESOURCE, "because the test says so");
	ok(tally_kv_close(other));
	fake_end(fake);
}

static char lines[4096];

static void line_keep(int level, const char *line, void *arg)
{
	(void)arg;
	if (level == TALLY_LOG_WARN)
		strncat(lines, line, sizeof(lines) - strlen(lines) - 1);
}

static void opened_with_barrier(struct kv_message *message)
{
	message->barrier = 41;
}

/* Two servers; with the barriers of an earlier run as they say. */
static void two_servers_open(void (*opened)(struct kv_message *message))
{
	struct fake *fakes[2] = { fake_begin(0, 37), fake_begin(0, 38) };
	struct tally_kv_options options;
	char servers[256];

	snprintf(servers, sizeof(servers), "%s,%s", fakes[0]->address, fakes[1]->address);
	fakes[0]->is_stepped = fakes[1]->is_stepped = true;
	fakes[1]->opened = opened;
	options = options_of(servers, 0);
	options.mode = TALLY_KV_SYNC;
	lines[0] = 0;
	ok(tally_set_log(TALLY_LOG_WARN, line_keep, NULL));
	ok(tally_kv_open(&one, "words", FAKE_DIM, &options));
	ok(tally_kv_close(one));
	ok(tally_set_log(0, NULL, NULL));
	fake_end(fakes[0]);
	fake_end(fakes[1]);
}

/* R-KV-16: servers know nothing of each other. */
static void kv__step_that_one_server_has_not_made_is_named(void **state)
{
	(void)state;
	two_servers_open(opened_with_barrier);
	assert_non_null(strstr(lines, "has made step 41 and server"));
	assert_non_null(strstr(lines, "no step after 0"));
	two_servers_open(NULL);
	assert_string_equal(lines, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__step_holds_back_what_comes_after_it),
		cmocka_unit_test(kv__step_outlives_the_server),
		cmocka_unit_test(kv__bounded_worker_is_so_many_steps_ahead),
		cmocka_unit_test(kv__bounded_worker_goes_on_once_the_others_are_near),
		cmocka_unit_test(kv__asynchronous_step_waits_for_nobody),
		cmocka_unit_test(kv__modes_that_cannot_be_are_refused),
		cmocka_unit_test(kv__synchronous_pushes_have_a_bound),
		cmocka_unit_test(kv__push_behind_a_step_is_not_late),
		cmocka_unit_test(kv__step_that_waits_for_a_dead_worker_ends),
		cmocka_unit_test(kv__callbacks_say_what_is_complete),
		cmocka_unit_test(kv__what_a_callback_begins_goes_on_at_once),
		cmocka_unit_test(kv__callback_that_would_wait_is_told_so),
		cmocka_unit_test(kv__callbacks_are_told_of_failures),
		cmocka_unit_test(kv__step_that_one_server_has_not_made_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
