/* SPDX-License-Identifier: Apache-2.0 */
/* refuse_test.c - what tally_kv_* refuses, and what a server of this process (kv_fixture.h) refuses it. */
#include "kvlib/kv_fixture.h"

static void kv__bad_arguments_are_named(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 9);
	struct tally_kv *kv = open_of(fake->address, 0), *none = NULL;
	struct tally_kv_options options = options_of(fake->address, 0);
	uint64_t key[] = { 4, 9, 9 }, unsorted[] = { 4, 9, 8 }, timestamp;
	float value[3 * FAKE_DIM] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	char many[65 * 7 + 1];
	int done = 0;

	(void)state;
	failed(tally_kv_push(kv, key, value, 3, NULL), TALLY_ERR_ARGUMENT, "keys[2] is 9 after 9");
	failed(tally_kv_pull(kv, unsorted, value, 3, NULL), TALLY_ERR_ARGUMENT,
	       "keys[2] is 8 after 9");
	value[4] = NAN;
	failed(tally_kv_push(kv, key, value, 2, NULL), TALLY_ERR_ARGUMENT,
	       "values[4], of key 9, is NaN");
	value[4] = -INFINITY;
	failed(tally_kv_pushpull(kv, key, value, value, 2, NULL), TALLY_ERR_ARGUMENT,
	       "values[4], of key 9, is infinite");
	value[4] = 0;
	failed(tally_kv_push(kv, NULL, value, 2, NULL), TALLY_ERR_ARGUMENT, "keys is NULL");
	failed(tally_kv_push(kv, key, value, UINT32_MAX, NULL), TALLY_ERR_ARGUMENT,
	       "4294967295 keys of dim 3 are more than one call takes");
	failed(tally_kv_push(kv, key, NULL, 2, NULL), TALLY_ERR_ARGUMENT, "values is NULL");
	failed(tally_kv_pull(kv, key, NULL, 2, NULL), TALLY_ERR_ARGUMENT, "values is NULL");
	failed(tally_kv_pushpull(kv, unsorted, value, value, 3, NULL), TALLY_ERR_ARGUMENT,
	       "keys[2] is 8 after 9");
	failed(tally_kv_push(NULL, key, value, 2, NULL), TALLY_ERR_ARGUMENT, "kv is NULL");
	failed(tally_kv_wait(kv, 99, -1), TALLY_ERR_ARGUMENT, "no operation 99");
	failed(tally_kv_test(kv, 99, &done), TALLY_ERR_ARGUMENT, "no operation 99");
	assert_int_equal(done, 0);                        /* what is not there is not complete */
	ok(tally_kv_push(kv, key, value, 2, &timestamp)); /* it goes on */
	assert_true(timestamp == 1);
	ok(tally_kv_close(kv));

	failed(tally_kv_open(&none, "words", 0, &options), TALLY_ERR_ARGUMENT, "dim 0");
	failed(tally_kv_open(&none, "words", 65, &options), TALLY_ERR_ARGUMENT,
	       "dim 65 is not in 1 to 64");
	failed(tally_kv_open(&none, "", 1, &options), TALLY_ERR_ARGUMENT, "a table's name");
	failed(tally_kv_open(&none, "my table", 1, &options), TALLY_ERR_ARGUMENT,
	       "letters, digits");
	options.flags = TALLY_KV_COPIES << 1;
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_UNSUPPORTED,
	       "options->flags 0x2: there is none but 0x1");
	options = options_of(fake->address, 2);
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT, "rank 2");
	options.size = sizeof(options) + 1;
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT,
	       "TALLY_KV_OPTIONS_INIT sets it");
	options.size = sizeof(options.size) - 1;
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT,
	       "TALLY_KV_OPTIONS_INIT sets it");
	options = options_of("127.0.0.1:99999", 0);
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT, "not host:port");
	options.servers = "0.0.0.0:7272";
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT,
	       "server 0 of \"0.0.0.0:7272\" is every address and no host's");
	options = options_of(NULL, 0);
	unsetenv("TALLY_SERVERS");
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT, "TALLY_SERVERS");
	for (int i = 0; i < 65; i++)
		snprintf(many + 7 * i, sizeof(many) - 7 * (size_t)i, "a:7001%s", i < 64 ? "," : "");
	options.servers = many;
	failed(tally_kv_open(&none, "words", 1, &options), TALLY_ERR_ARGUMENT,
	       "65 servers, at most 64");
	assert_null(none);
	assert_int_equal(tally_kv_close(NULL), TALLY_OK);
	fake_end(fake);
}

static bool is_without_threads;

int __real_thread_create(pthread_t *thread, void *(*main)(void *), void *arg);
int __wrap_thread_create(pthread_t *thread, void *(*main)(void *), void *arg);

int __wrap_thread_create(pthread_t *thread, void *(*main)(void *), void *arg)
{
	return is_without_threads ? EAGAIN : __real_thread_create(thread, main, arg);
}

static void kv__open_without_a_thread_is_an_error_of_the_system(void **state)
{
	struct tally_kv_options options = options_of("127.0.0.1:7001", 0);
	struct tally_kv *kv = NULL;

	(void)state;
	is_without_threads = true;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_SYSTEM,
	       "tally_kv_open: cannot start a thread: Resource temporarily unavailable");
	is_without_threads = false;
	assert_null(kv);
}

static atomic_uint opens;

static void count_open(struct kv_message *opened)
{
	(void)opened;
	opens++;
}

static void kv__refusals_of_a_server_are_named(void **state)
{
	static const struct {
		enum kv_type about;
		enum kv_refusal refusal;
		int result;
	} cases[] = {
		{ KV_HELLO, KV_REFUSED_DENIED, TALLY_ERR_DENIED },
		{ KV_HELLO, KV_REFUSED_VERSION, TALLY_ERR_VERSION },
		{ KV_OPEN, KV_REFUSED_UNKNOWN, TALLY_ERR_ARGUMENT },
		{ KV_OPEN, KV_REFUSED_MISMATCH, TALLY_ERR_MISMATCH },
		{ KV_OPEN, KV_REFUSED_MEMORY, TALLY_ERR_NO_RESOURCE },
	};
	struct fake *fake = fake_begin(FAKE_HOT, 10);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;
	uint64_t key[] = { 1, 2 }, timestamp, later;
	float value[2 * FAKE_DIM] = { 0 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_refuses(fake, cases[i].about, cases[i].refusal);
		failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), cases[i].result,
		       "because the test says so");
		assert_non_null(strstr(tally_get_last_error(NULL), fake->address));
		assert_null(kv);
	}
	/* A pull fails alone, and says so once. The connection stays. */
	fake_refuses(fake, KV_NOTHING, KV_REFUSED_INTERNAL);
	kv = open_of(fake->address, 0);
	opens = 0;
	pthread_mutex_lock(&fake->lock);
	fake->opened = count_open;
	pthread_mutex_unlock(&fake->lock);
	fake_refuses(fake, KV_PULL, KV_REFUSED_MEMORY);
	ok(tally_kv_pull(kv, key, value, 2, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_NO_RESOURCE, "because the test says so");
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_pull(kv, key, value, 2, &timestamp)); /* fails first, and is asked last */
	ok(tally_kv_pull(kv, key, value, 2, &later));
	failed(tally_kv_wait(kv, later, -1), TALLY_ERR_NO_RESOURCE, "because the test says so");
	ok(tally_kv_wait(kv, later, -1));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_NO_RESOURCE, "because the test says so");
	ok(tally_kv_push(kv, key, value, 2, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	assert_int_equal(opens, 0);
	/* A batch that is refused is missed by all after it. */
	fake_refuses(fake, KV_BATCH, KV_REFUSED_DISK);
	ok(tally_kv_push(kv, key, value, 2, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, "refuses BATCH");
	failed(tally_kv_push(kv, key, value, 2, &timestamp), TALLY_ERR_REMOTE, "refuses BATCH");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "refuses BATCH");
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__bad_arguments_are_named),
		cmocka_unit_test(kv__open_without_a_thread_is_an_error_of_the_system),
		cmocka_unit_test(kv__refusals_of_a_server_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
