/* SPDX-License-Identifier: Apache-2.0 */
/* kv_lost_test.c - tally_kv_* and servers that do not answer, or not as they should: what is said of them, and when. */
#include "lib/kv_fixture.h"

static void kv__server_that_is_not_there_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 11);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;
	char address[64];
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	options.deadline_ms = 2000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	strcpy(address, fake->address);
	fake_end(fake);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	assert_int_equal(tally_kv_wait(kv, timestamp, 0), TALLY_IN_PROGRESS);
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, address);
	failed(tally_kv_barrier(kv), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	kv = NULL;
	options.servers = address;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_SYSTEM,
	       "Connection refused");
	assert_null(kv);
}

static void kv__server_that_says_nothing_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 12);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	options.deadline_ms = 2000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock);
	fake->is_silent = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	fake_end(fake);
}

/* It is back again and again, and answers nothing. */
static void kv__server_that_ends_at_each_pull_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(0, 19);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM];

	(void)state;
	options.deadline_ms = 1000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock);
	fake->ends_at_pull = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, 20000), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	fake_end(fake);
}

/* What other operations do is no sign of this one. */
static void kv__push_that_nothing_comes_of_is_named_while_pulls_go_on(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 20);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };
	int result = 0;

	(void)state;
	options.deadline_ms = 1000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_BATCH;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_push(kv, &key, value, 1, NULL));
	for (uint32_t i = 0; i < 400 && !result; i++) {
		result = tally_kv_pull(kv, &key, value, 1, &timestamp);
		if (!result)
			result = tally_kv_wait(kv, timestamp, -1);
		usleep(20000);
	}
	failed(result, TALLY_ERR_TIMEOUT, "nothing has come of operation 1 on table words for 1 s");
	failed(tally_kv_close(kv), TALLY_ERR_TIMEOUT, "nothing has come of operation 1");
	fake_end(fake);
}

/* By hand, for that takes a name with two addresses: the first one's host takes the connection, and says nothing. */
static void kv__silent_address_is_left_for_the_next(void **state)
{
	struct tally_kv *kv = calloc(1, sizeof(*kv) + sizeof(kv->server[0]));
	struct kv_server *server = &kv->server[0];
	struct conn_address silent, other;
	int silent_fd, other_fd;

	(void)state;
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &silent), 0);
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &other), 0);
	silent_fd = conn_listen(&silent);
	other_fd = conn_listen(&other);
	assert_true(silent_fd >= 0 && other_fd >= 0);
	kv->servers = kv->workers = 1;
	kv->incarnation = 1;
	strcpy(kv->who.job, "test");
	kv->now_ns = kv_clock_ns();
	kv->deadline_ns = 60000000000;
	kv_server_init(server, kv, 0);
	server->at = silent;
	server->at.others[0] = other.socket;
	server->at.others_count = 1;
	kv_server_turn(server);
	assert_int_equal(server->state, KV_CONNECTING);
	kv->now_ns += 6000000000;
	kv_server_turn(server);
	assert_int_equal(server->state, KV_DOWN);
	assert_memory_equal(&server->at.socket, &other.socket, other.bytes);
	kv_server_fini(server);
	free(kv);
	close(silent_fd);
	close(other_fd);
}

/* Its first WELCOME comes when a later HELLO has been said, and so does each. */
static void kv__path_that_is_slower_than_the_hellos_opens(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 21);
	struct tally_kv *kv;
	uint64_t key = 6, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->hello_ns = 400000000;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, 10000));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static void kv__server_that_has_forgotten_is_no_server(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 13);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->forgets = true;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	if (!tally_kv_push(kv, &key, value, 1, &timestamp))
		failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
		       "does not know this worker any more");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "does not know this worker any more");
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__server_that_is_not_there_is_named_in_time),
		cmocka_unit_test(kv__server_that_says_nothing_is_named_in_time),
		cmocka_unit_test(kv__server_that_ends_at_each_pull_is_named_in_time),
		cmocka_unit_test(kv__push_that_nothing_comes_of_is_named_while_pulls_go_on),
		cmocka_unit_test(kv__silent_address_is_left_for_the_next),
		cmocka_unit_test(kv__path_that_is_slower_than_the_hellos_opens),
		cmocka_unit_test(kv__server_that_has_forgotten_is_no_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
