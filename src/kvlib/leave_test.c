/* SPDX-License-Identifier: Apache-2.0 */
/* leave_test.c - tally_kv_close and its servers: each knows that the worker has left, or the worker is told that one
 * does not (R-KV-13). */
#include "kvlib/kv_fixture.h"

static _Thread_local bool
	writes_slowly; /* and all that others do meanwhile comes before this thread's next step */

ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
	ssize_t written = __real_write(fd, bytes, count);

	if (writes_slowly)
		usleep(20000);
	return written;
}

static _Thread_local uint32_t frees; /* of this thread */

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at)
{
	frees += at != NULL;
	__real_free(at);
}

static uint64_t leaves_of(struct fake *fake)
{
	uint64_t leaves;

	pthread_mutex_lock(&fake->lock);
	leaves = fake->leaves;
	pthread_mutex_unlock(&fake->lock);
	return leaves;
}

/* The connection to it is down when this returns, and several more get nowhere. */
static void lose(struct fake *fake, struct tally_kv *kv)
{
	bool is_up;

	pthread_mutex_lock(&fake->lock);
	fake->hellos_busy = 3;
	fake->ends = true;
	pthread_mutex_unlock(&fake->lock);
	do {
		usleep(200);
		pthread_mutex_lock(&kv->lock);
		is_up = worker_kv_is_up(kv->server[0].core);
		pthread_mutex_unlock(&kv->lock);
	} while (is_up);
}

static void leave__waits_for_a_server_that_is_down(void **state)
{
	(void)state;
	for (uint32_t ranks = 0; ranks <= FAKE_HOT; ranks += FAKE_HOT) {
		struct fake *fake = fake_begin(ranks, 41 + ranks);
		struct tally_kv *kv = open_of(fake->address, 1);

		lose(fake, kv);
		ok(tally_kv_close(kv));
		assert_int_equal(leaves_of(fake), 1);
		assert_int_equal(fake->hellos_busy, 0);
		fake_end(fake);
	}
}

/* The end of a connection is no answer: a server that is killed ends it, too, and its disk may have nothing. */
static void leave__is_said_again_after_a_connection_that_ends_without_answer(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 42);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->leaves_lost = 2;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_close(kv));
	assert_int_equal(leaves_of(fake), 3);
	fake_end(fake);
}

static void leave__that_a_server_cannot_be_told_is_said_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 43), *other = fake_begin(0, 44);
	char address[64], both[130], because[160];
	struct tally_kv *kv;

	(void)state;
	strcpy(address, fake->address);
	snprintf(both, sizeof(both), "%s,%s", address, other->address);
	kv = open_of(both, 0);
	deadline_is(kv, 300);
	fake_end(fake);
	snprintf(because, sizeof(because), "server %s of table words has not answered in 0.3 s",
		 address);
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, because);
	assert_non_null(strstr(tally_get_last_error(NULL), "other workers may wait for it"));
	assert_int_equal(leaves_of(other), 1);
	fake_end(other);
}

static void leave__that_is_not_answered_is_said_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 45);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	deadline_is(kv, 300);
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_LEAVE;
	pthread_mutex_unlock(&fake->lock);
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "that this worker leaves: all that it did");
	assert_int_equal(leaves_of(fake), 0);
	fake_end(fake);
}

/* One that does not know the worker any more, or cannot write: what was promised may not be there. The others are told. */
static void leave__that_is_refused_is_an_error(void **state)
{
	static const struct {
		enum kv_refusal refusal;
		int result;
	} refused[] = { { KV_REFUSED_DENIED, TALLY_ERR_DENIED },
			{ KV_REFUSED_DISK, TALLY_ERR_REMOTE },
			{ KV_REFUSED_MISMATCH, TALLY_ERR_MISMATCH } };

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct fake *fake = fake_begin(FAKE_HOT, 48), *other = fake_begin(0, 49);
		char both[130], because[160];
		struct tally_kv *kv;

		snprintf(both, sizeof(both), "%s,%s", fake->address, other->address);
		snprintf(because, sizeof(because), "server %s refuses LEAVE", fake->address);
		kv = open_of(both, 0);
		fake_refuses(fake, KV_LEAVE, refused[i].refusal);
		failed(tally_kv_close(kv), refused[i].result, because);
		assert_int_equal(leaves_of(other), 1);
		fake_end(fake);
		fake_end(other);
	}
}

/* Another has its place, or its run is over: it need not leave. */
static void leave__of_who_has_no_place_is_over(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 46), *other = fake_begin(0, 47);
	struct tally_kv *kv;
	char both[130];

	(void)state;
	snprintf(both, sizeof(both), "%s,%s", fake->address, other->address);
	kv = open_of(both, 0);
	fake_refuses(fake, KV_LEAVE, KV_REFUSED_SUPERSEDED);
	pthread_mutex_lock(&other->lock);
	other->leaves_lost = 1;
	pthread_mutex_unlock(&other->lock);
	ok(tally_kv_close(kv));
	assert_int_equal(leaves_of(other), 2);
	fake_end(fake);
	fake_end(other);
}

/* That is no server's fault. */
static void leave__without_memory_stays_an_error_of_the_table(void **state)
{
	struct fake *fake = fake_begin(0, 50);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	pthread_mutex_lock(&kv->lock);
	kv->server[0].is_ready = false;
	kv->error = TALLY_ERR_NO_MEMORY;
	kv_leave_turn(&kv->server[0]);
	assert_int_equal(kv->error, TALLY_ERR_NO_MEMORY);
	kv->error = 0;
	pthread_mutex_unlock(&kv->lock);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* Its thread sleeps without end. It is woken once, and must find then that it is to end. */
static void leave__of_a_table_with_an_error_ends_its_thread(void **state)
{
	struct fake *fake = fake_begin(0, 48);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 1, timestamp;
	float value[FAKE_DIM] = { 0 };
	bool is_asleep;

	(void)state;
	fake_refuses(fake, KV_BATCH, KV_REFUSED_DISK);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, "refuses BATCH");
	do {
		usleep(200);
		pthread_mutex_lock(&kv->lock);
		is_asleep = kv->is_asleep;
		pthread_mutex_unlock(&kv->lock);
	} while (!is_asleep);
	pthread_mutex_lock(&kv->lock);
	kv_break(kv, TALLY_ERR_INTERNAL, "this comes of the first");
	pthread_mutex_unlock(&kv->lock);
	alarm(20);
	writes_slowly = true;
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "refuses BATCH");
	writes_slowly = false;
	alarm(0);
	fake_end(fake);
}

static void never(struct tally_kv *kv, uint64_t timestamp, int result, void *arg)
{
	(void)kv;
	(void)timestamp;
	(void)result;
	(void)arg;
	fail_msg("told of what is not done");
}

/* A function may push once more, and ask to be told of it, when the table's thread is about to end. */
static void leave__gives_back_what_nobody_was_told(void **state)
{
	enum { NOTES = 3 };
	struct fake *fake = fake_begin(0, 51);
	struct tally_kv *kv = open_of(fake->address, 0);
	float value[FAKE_DIM] = { 0 };
	uint64_t key = 1, timestamp;

	(void)state;
	kv_thread_end(kv);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	for (int i = 0; i < NOTES; i++)
		ok(tally_kv_on_done(kv, timestamp, never, NULL));
	frees = 0;
	kv_notes_fini(kv);
	assert_int_equal(frees, NOTES);
	assert_null(kv->notes);
	kv->is_ending = false;
	assert_int_equal(kv_thread_begin(kv), 0);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leave__waits_for_a_server_that_is_down),
		cmocka_unit_test(leave__is_said_again_after_a_connection_that_ends_without_answer),
		cmocka_unit_test(leave__that_a_server_cannot_be_told_is_said_in_time),
		cmocka_unit_test(leave__that_is_not_answered_is_said_in_time),
		cmocka_unit_test(leave__that_is_refused_is_an_error),
		cmocka_unit_test(leave__of_who_has_no_place_is_over),
		cmocka_unit_test(leave__without_memory_stays_an_error_of_the_table),
		cmocka_unit_test(leave__of_a_table_with_an_error_ends_its_thread),
		cmocka_unit_test(leave__gives_back_what_nobody_was_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
