/* SPDX-License-Identifier: Apache-2.0 */
/* kv_test.c - tally_kv_* against a server of this process (kv_fixture.h): what counts, and how often. */
#include "kvlib/kv_draw.h"

enum { ROUNDS = 60 };

/* ---- what counts ---- */

struct worker {
	pthread_t thread;
	const char *servers;
	uint32_t idx;
	uint64_t seed;
	double *sum; /* what this worker has pushed */
	float *row;  /* what it has pulled in the end */
	atomic_bool is_through;
};

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct tally_kv *kv = open_of(worker->servers, worker->idx);
	static _Thread_local uint64_t key[DRAWN_MAX];
	static _Thread_local float value[DRAWN_MAX * FAKE_DIM], pulled[DRAWN_MAX * FAKE_DIM];
	struct rng rng;
	uint64_t timestamp;

	rng_init(&rng, worker->seed, worker->idx);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t count = keys_draw(&rng, key, value);

		if (round % 3)
			ok(tally_kv_push(kv, key, value, count, &timestamp));
		else
			ok(tally_kv_pushpull(kv, key, value, pulled, count, &timestamp));
		if (round % 3 == 0 || round % 7 == 0)
			ok(tally_kv_wait(kv, timestamp, -1));
		for (uint32_t i = 0; i < count * FAKE_DIM; i++)
			worker->sum[key[i / FAKE_DIM] * FAKE_DIM + i % FAKE_DIM] +=
				(double)value[i];
	}
	ok(tally_kv_barrier(kv));
	for (uint64_t k = 0; k < FAKE_KEYS; k += DRAWN_MAX) {
		uint32_t count = FAKE_KEYS - k < DRAWN_MAX ? (uint32_t)(FAKE_KEYS - k) : DRAWN_MAX;

		for (uint32_t i = 0; i < count; i++)
			key[i] = k + i;
		ok(tally_kv_pull(kv, key, worker->row + k * FAKE_DIM, count, NULL));
	}
	ok(tally_kv_wait(kv, 0, -1));
	ok(tally_kv_close(kv));
	atomic_store(&worker->is_through, true);
	return NULL;
}

/* Two workers; meanwhile `restarts` times a server is killed and comes back. */
static void sums_are_exact(struct fake **fakes, uint32_t count, uint32_t restarts, uint64_t seed)
{
	static double sum[FAKE_WORKERS][FAKE_KEYS * FAKE_DIM];
	static float row[FAKE_WORKERS][FAKE_KEYS * FAKE_DIM];
	struct worker worker[FAKE_WORKERS] = { 0 };
	char servers[160] = "";
	struct rng rng;
	uint64_t expected_of_none = 0, restarted = 0;

	rng_init(&rng, seed, 99);
	memset(sum, 0, sizeof(sum));
	for (uint32_t i = 0; i < count; i++)
		snprintf(servers + strlen(servers), sizeof(servers) - strlen(servers), "%s%s",
			 i ? "," : "", fakes[i]->address);
	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		worker[w].servers = servers;
		worker[w].idx = w;
		worker[w].seed = seed;
		worker[w].sum = sum[w];
		worker[w].row = row[w];
		assert_int_equal(pthread_create(&worker[w].thread, NULL, worker_main, &worker[w]),
				 0);
	}
	for (uint32_t i = 0; i < restarts && !atomic_load(&worker[0].is_through); i++) {
		usleep(10000 + rng_below(&rng, 60000));
		fake_restart(fakes[rng_below(&rng, count)]);
		restarted++;
	}
	for (uint32_t w = 0; w < FAKE_WORKERS; w++)
		pthread_join(worker[w].thread, NULL);
	for (uint32_t i = 0; i < FAKE_KEYS * FAKE_DIM; i++) {
		double got = 0, expected = sum[0][i] + sum[1][i];

		for (uint32_t f = 0; f < count; f++)
			got += (double)fake_row(fakes[f], i);
		for (uint32_t w = 0; w < FAKE_WORKERS; w++)
			if ((double)row[w][i] != expected)
				fail_msg("seed %llu: worker %u pulls %.0f of key %u and not %.0f",
					 (unsigned long long)seed, w, (double)row[w][i],
					 i / FAKE_DIM, expected);
		if (got != expected)
			fail_msg("seed %llu: key %u: %.0f and not %.0f", (unsigned long long)seed,
				 i / FAKE_DIM, got, expected);
		expected_of_none += expected == 0;
	}
	assert_true(expected_of_none < FAKE_KEYS * FAKE_DIM / 2); /* the test tests something */
	assert_true(!restarts || restarted);
	for (uint32_t f = 0; f < count; f++) {
		pthread_mutex_lock(&fakes[f]->lock);
		assert_true(fakes[f]->batches > 0);
		assert_true(!fakes[f]->ranks || fakes[f]->epochs > 0);
		pthread_mutex_unlock(&fakes[f]->lock);
	}
}

static void kv__hot_and_cold_sums_are_exact(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 1);

	(void)state;
	sums_are_exact(&fake, 1, 0, 1);
	fake_end(fake);
}

static void kv__cold_alone_is_exact_over_restarts(void **state)
{
	struct fake *fake = fake_begin(0, 2);

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->dones_lost = 5;
	pthread_mutex_unlock(&fake->lock);
	sums_are_exact(&fake, 1, 12, 2);
	fake_end(fake);
}

static void kv__nothing_is_lost_or_doubled_over_restarts_and_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 3; seed < 6; seed++) {
		struct fake *fake = fake_begin(FAKE_HOT, seed);

		fake_loses(fake, 50000);
		sums_are_exact(&fake, 1, 15, seed);
		fake_end(fake);
	}
}

/* With copies, too: what is complete is in what is pulled. */
static void kv__copies_are_right_over_restarts_and_loss(void **state)
{
	(void)state;
	flags = TALLY_KV_COPIES;
	for (uint64_t seed = 20; seed < 23; seed++) {
		struct fake *fake = fake_begin(FAKE_HOT, seed);

		fake_loses(fake, seed == 20 ? 0 : 50000);
		sums_are_exact(&fake, 1, seed == 21 ? 0 : 15, seed);
		fake_end(fake);
	}
	flags = 0;
}

static void kv__several_servers_share_the_keys(void **state)
{
	struct fake *fakes[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		fakes[i] = fake_begin(i < 2 ? FAKE_HOT : 0, 10 + i);
	fake_loses(fakes[0], 20000);
	sums_are_exact(fakes, 3, 6, 6);
	for (uint32_t i = 0; i < 3; i++)
		fake_end(fakes[i]);
}

static void kv__pull_brings_what_was_pushed(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 7);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key[] = { 0, 1, 6, 2999 }; /* hot, cold, hot, cold */
	float value[4 * FAKE_DIM], got[4 * FAKE_DIM] = { 0 };
	uint64_t timestamp;
	int done = 0;

	(void)state;
	for (uint32_t i = 0; i < 4 * FAKE_DIM; i++)
		value[i] = i % 2 ? (float)i : -100.0f * (float)(i + 1);
	ok(tally_kv_push(kv, key, value, 4, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_test(kv, timestamp, &done));
	assert_int_equal(done, 1);
	ok(tally_kv_pull(kv, key, got, 4, &timestamp));
	ok(tally_kv_wait(kv, 0, 10000));
	assert_memory_equal(got, value, sizeof(value));
	ok(tally_kv_pushpull(kv, key, value, got, 4, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	for (uint32_t i = 0; i < 4 * FAKE_DIM; i++)
		assert_true(got[i] == 2 * value[i]);
	ok(tally_kv_push(kv, NULL, NULL, 0, &timestamp)); /* of nothing */
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static void kv__stats_tell_hot_from_cold_and_count_bytes(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 7);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT, old = { .size = sizeof(old.size) };
	uint64_t key[] = { 0, 1, 6, 7, 2999 }; /* hot, cold, hot, cold, cold */
	float value[5 * FAKE_DIM] = { 0 };
	uint64_t timestamp;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		ok(tally_kv_push(kv, key, value, 5, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	ok(tally_kv_pull(kv, key, value, 5, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_get_stats(kv, &stats));
	assert_int_equal(stats.pairs, 10);
	assert_int_equal(stats.pairs_hot, 4);
	assert_int_equal(stats.keys_pulled, 5);
	assert_int_equal(stats.packets_out, 2);
	/* At least a key's byte and values of each pair, and the values that came back. */
	assert_true(stats.bytes_out > 10 * (1 + sizeof(float) * FAKE_DIM));
	assert_true(stats.bytes_in > 5 * sizeof(float) * FAKE_DIM);
	ok(tally_kv_get_stats(kv, &old));
	assert_int_equal(old.pairs, 0);
	stats.size++;
	failed(tally_kv_get_stats(kv, &stats), TALLY_ERR_ARGUMENT, "stats->size is not set");
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static void kv__a_wait_for_a_pull_ends_no_epoch(void **state)
{
	const uint64_t age_us = fake_age_us, key[] = { 0, 1 }; /* hot, cold */
	const uint32_t patience_us = fake_patience_us;
	float value[2 * FAKE_DIM] = { 0 };
	uint64_t push, pull;
	struct tally_kv *kv;
	struct fake *fake;
	int done;

	(void)state;
	fake_age_us = 1000ull * 1000 * 1000;
	fake_patience_us = 1000 * 1000 * 1000;
	fake = fake_begin(FAKE_HOT, 7);
	kv = open_of(fake->address, 0);
	pthread_mutex_lock(&fake->lock);
	fake->holds_pulls = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_pull(kv, key, value, 2, &pull));
	assert_int_equal(tally_kv_wait(kv, 0, 1), TALLY_IN_PROGRESS); /* for all before the push */
	pthread_mutex_lock(&fake->lock);
	fake->holds_pulls = false;
	fake->ends = true; /* it is said again */
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_wait(kv, pull, -1));
	ok(tally_kv_push(kv, key, value, 2, &push));
	for (uint32_t i = 0; i < 20; i++) {
		ok(tally_kv_pull(kv, key, value, 2, &pull));
		ok(tally_kv_wait(kv, pull, -1));
	}
	ok(tally_kv_test(kv, push, &done));
	assert_int_equal(done, 0);
	ok(tally_kv_wait(kv, push, -1)); /* but one for the push does, or nothing would */
	pthread_mutex_lock(&kv->lock);
	assert_int_equal(kv->awaited, 0); /* and then none does any more */
	pthread_mutex_unlock(&kv->lock);
	ok(tally_kv_close(kv));
	fake_end(fake);
	fake_age_us = age_us;
	fake_patience_us = patience_us;
}

/* The server has joined the worker, which does not know: it asks again, and goes on as what the server knows. */
static void kv__open_is_said_again_when_its_answer_is_lost(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 14);
	struct tally_kv *kv;
	uint64_t key[] = { 6, 7 }; /* hot, cold */
	float value[2 * FAKE_DIM] = { 1, -2, 3, -4, 5, -6 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->opens_lost = 2;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, key, value, 2, NULL));
	ok(tally_kv_close(kv));
	for (uint32_t i = 0; i < 2 * FAKE_DIM; i++)
		assert_true(fake_row(fake, (uint32_t)key[0] * FAKE_DIM + i) == value[i]);
	assert_int_equal(fake->opens_lost, 0);
	fake_end(fake);
}

/* R-KV-21 */
static void kv__server_without_a_place_is_asked_again(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 15);
	struct tally_kv *kv;
	uint64_t key[] = { 6, 7 }; /* hot, cold */
	float value[2 * FAKE_DIM] = { 1, -2, 3, -4, 5, -6 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->hellos_busy = 3;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, key, value, 2, NULL));
	ok(tally_kv_close(kv));
	for (uint32_t i = 0; i < 2 * FAKE_DIM; i++)
		assert_true(fake_row(fake, (uint32_t)key[0] * FAKE_DIM + i) == value[i]);
	assert_int_equal(fake->hellos_busy, 0);
	fake_end(fake);
}

/* The stream of hot keys goes on as it was: no new switch, no new server. */
static void kv__hot_pushes_go_on_when_the_connection_alone_ends(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 17);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 6, timestamp;
	float value[FAKE_DIM] = { 1, -2, 3 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		ok(tally_kv_push(kv, &key, value, 1, &timestamp));
		ok(tally_kv_wait(kv, timestamp, -1));
		pthread_mutex_lock(&fake->lock);
		fake->ends = true;
		pthread_mutex_unlock(&fake->lock);
		ok(tally_kv_push(kv, &key, value, 1, &timestamp)); /* while it is down */
		ok(tally_kv_wait(kv, timestamp, -1));
		ok(tally_kv_pull(kv, &key, value, 1, &timestamp)); /* it is up again */
		ok(tally_kv_wait(kv, timestamp, -1));
		for (uint32_t k = 0; k < FAKE_DIM; k++) {
			float one[FAKE_DIM] = { 1, -2, 3 };

			assert_true(value[k] == (float)(2 * (i + 1)) * one[k]);
			value[k] = one[k];
		}
	}
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static uint64_t pulls_of(struct fake *fake)
{
	uint64_t pulls;

	pthread_mutex_lock(&fake->lock);
	pulls = fake->pulls;
	pthread_mutex_unlock(&fake->lock);
	return pulls;
}

/* What a connection has room for, and no more, however much is asked for; also when it is said again. */
static void kv__pulls_under_way_are_bounded(void **state)
{
	enum { PULLS = 1000 };
	struct fake *fake = fake_begin(0, 18);
	struct tally_kv *kv = open_of(fake->address, 0);
	static uint64_t key[FAKE_KEYS];
	static float value[FAKE_KEYS * FAKE_DIM];
	size_t bytes = kv_bytes(&(struct kv_message){ .type = KV_PULL, .count = FAKE_KEYS });
	uint64_t most = KV_PULL_BYTES_MAX / bytes, seen = 0;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->holds_pulls = true;
	pthread_mutex_unlock(&fake->lock);
	for (uint32_t i = 0; i < FAKE_KEYS; i++)
		key[i] = i;
	assert_true(most < PULLS / 2);
	for (uint32_t i = 0; i < PULLS; i++)
		ok(tally_kv_pull(kv, key, value, FAKE_KEYS, NULL));
	for (uint32_t i = 0; i < 3000 && seen < most; i++) {
		usleep(10000);
		seen = pulls_of(fake);
	}
	usleep(200000);
	assert_int_equal(pulls_of(fake), most);
	pthread_mutex_lock(&fake->lock);
	fake->holds_pulls = false;
	fake->ends = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_close(kv));
	assert_int_equal(pulls_of(fake), most + PULLS);
	fake_end(fake);
}

/* ---- room ---- */

/* More than the batches take that have no answer (KV_BATCH_BYTES_MAX). */
enum { ROOM_PUSHES = 300, ROOM_PUSH_BYTES = FAKE_KEYS * (8 + 4 * FAKE_DIM) };

static void *many_pushes(void *arg)
{
	struct tally_kv *kv = arg;
	static uint64_t key[FAKE_KEYS];
	static float value[FAKE_KEYS * FAKE_DIM];

	for (uint32_t i = 0; i < FAKE_KEYS; i++)
		key[i] = i;
	for (uint32_t i = 0; i < FAKE_KEYS * FAKE_DIM; i++)
		value[i] = i % 2 ? 3 : -4;
	for (uint32_t i = 0; i < ROOM_PUSHES; i++)
		ok(tally_kv_push(kv, key, value, FAKE_KEYS, NULL));
	return NULL;
}

/* Until somebody waits for room, and nothing moves any more: what is queued then. Who has room again may not run yet:
 * less than `least` is given more time. */
static size_t queued_when_full(struct tally_kv *kv, size_t least)
{
	size_t bytes = 0;

	for (uint32_t i = 0, same = 0; i < 2000 && (same < 30 || bytes < least); i++) {
		size_t before = bytes;

		usleep(10000);
		pthread_mutex_lock(&kv->lock);
		bytes = kv->waits_room ? kv->queue_bytes : 0;
		pthread_mutex_unlock(&kv->lock);
		same = bytes && bytes == before ? same + 1 : 0;
	}
	return bytes;
}

/* tally_kv.h, queue_bytes: a server that takes nothing more delays whoever pushes, but not before the queue is full. */
static void kv__push_waits_once_its_queue_is_full(void **state)
{
	struct fake *fake = fake_begin(0, 19);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	pthread_t pusher;
	size_t bytes;

	(void)state;
	options.queue_bytes = 10 * ROOM_PUSH_BYTES;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock); /* nor does it answer */
	assert_int_equal(pthread_create(&pusher, NULL, many_pushes, kv), 0);
	bytes = queued_when_full(kv, options.queue_bytes);
	pthread_mutex_unlock(&fake->lock);
	pthread_join(pusher, NULL);
	assert_int_equal(bytes, options.queue_bytes); /* to the last byte */
	ok(tally_kv_close(kv));
	assert_true(fake_row(fake, 0) == ROOM_PUSHES * -4);
	assert_true(fake_row(fake, FAKE_KEYS * FAKE_DIM - 1) == ROOM_PUSHES * 3);
	fake_end(fake);
}

/* ---- barrier ---- */

static void *late_worker(void *arg)
{
	struct fake *fake = arg;
	struct tally_kv *kv = open_of(fake->address, 1);
	uint64_t key = 12, timestamp;
	float value[FAKE_DIM] = { 7, -7, 70 };

	usleep(50000);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp)); /* nobody waits for it but the barrier */
	ok(tally_kv_barrier(kv));
	ok(tally_kv_close(kv));
	return NULL;
}

static void kv__after_a_barrier_a_pull_brings_all_pushes(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 8);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 12, timestamp;
	float value[FAKE_DIM];
	pthread_t other;

	(void)state;
	assert_int_equal(pthread_create(&other, NULL, late_worker, fake), 0);
	ok(tally_kv_barrier(kv));
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	assert_true(value[0] == 7 && value[1] == -7 && value[2] == 70);
	pthread_join(other, NULL);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

struct comer {
	pthread_t thread;
	const char *servers;
	uint32_t idx;
	atomic_int *come;
};

static void *comer_main(void *arg)
{
	const struct comer *comer = arg;
	struct tally_kv *kv = open_of(comer->servers, comer->idx);

	if (comer->idx)
		usleep(30000);
	for (int barrier = 1; barrier <= 3; barrier++) {
		atomic_fetch_add(comer->come, 1);
		ok(tally_kv_barrier(kv));
		assert_true(atomic_load(comer->come) >= FAKE_WORKERS * barrier);
	}
	ok(tally_kv_close(kv));
	return NULL;
}

/* A run of workers; all have come before one goes on. */
static void run_of(const char *servers)
{
	struct comer comer[FAKE_WORKERS];
	atomic_int come = 0;

	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		comer[w] = (struct comer){ .servers = servers, .idx = w, .come = &come };
		assert_int_equal(pthread_create(&comer[w].thread, NULL, comer_main, &comer[w]), 0);
	}
	for (uint32_t w = 0; w < FAKE_WORKERS; w++)
		pthread_join(comer[w].thread, NULL);
}

/* Also when the servers do not stand at the same barrier: one of them had only part of the runs. */
static void kv__barriers_of_a_second_run_wait_for_all(void **state)
{
	struct fake *fakes[2] = { fake_begin(FAKE_HOT, 15), fake_begin(0, 16) };
	char both[160];

	(void)state;
	run_of(fakes[0]->address);
	run_of(fakes[0]->address);
	snprintf(both, sizeof(both), "%s,%s", fakes[1]->address, fakes[0]->address);
	run_of(both);
	run_of(both);
	fake_end(fakes[0]);
	fake_end(fakes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__pull_brings_what_was_pushed),
		cmocka_unit_test(kv__hot_and_cold_sums_are_exact),
		cmocka_unit_test(kv__cold_alone_is_exact_over_restarts),
		cmocka_unit_test(kv__nothing_is_lost_or_doubled_over_restarts_and_loss),
		cmocka_unit_test(kv__copies_are_right_over_restarts_and_loss),
		cmocka_unit_test(kv__several_servers_share_the_keys),
		cmocka_unit_test(kv__stats_tell_hot_from_cold_and_count_bytes),
		cmocka_unit_test(kv__a_wait_for_a_pull_ends_no_epoch),
		cmocka_unit_test(kv__open_is_said_again_when_its_answer_is_lost),
		cmocka_unit_test(kv__server_without_a_place_is_asked_again),
		cmocka_unit_test(kv__hot_pushes_go_on_when_the_connection_alone_ends),
		cmocka_unit_test(kv__pulls_under_way_are_bounded),
		cmocka_unit_test(kv__push_waits_once_its_queue_is_full),
		cmocka_unit_test(kv__after_a_barrier_a_pull_brings_all_pushes),
		cmocka_unit_test(kv__barriers_of_a_second_run_wait_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
