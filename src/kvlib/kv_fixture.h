/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_fixture.h - for tests of tally_kv_*: the parameter server of kv_fake.h, begun, ended, killed and back, and workers of
 * it. What the claims are checked against is added up by the tests themselves.
 */
#ifndef KVLIB_KV_FIXTURE_H
#define KVLIB_KV_FIXTURE_H

#include "kvlib/kv_fake.h"

/* ---- a server ---- */

static struct fake *fake_begin(uint32_t ranks, uint64_t seed)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	struct home_sparse_options options = { .record = fake_record, .values = fake_values };

	assert_non_null(fake);
	rng_init(&fake->rng, seed, 1);
	pthread_mutex_init(&fake->lock, NULL);
	fake->ranks = ranks;
	fake->map = FAKE_MAP;
	for (uint32_t i = 0; i < FAKE_PEERS; i++)
		fake->peer[i].stream.fd = -1;
	for (uint32_t i = 0; i < FAKE_HOT; i++)
		fake->hot_key[i] = i * 6;
	for (uint32_t i = FAKE_HOT - 1; i; i--) {
		uint32_t k = rng_below(&fake->rng, i + 1);
		uint64_t key = fake->hot_key[i];

		fake->hot_key[i] = fake->hot_key[k];
		fake->hot_key[k] = key;
	}
	fake_up(fake);
	options.outbox = &fake->outbox;
	options.table = fake_shape(fake);
	options.arg = fake;
	assert_int_equal(home_sparse_open(&fake->home, &options), 0);
	fake_fence(fake);
	assert_int_equal(pthread_create(&fake->thread, NULL, fake_main, fake), 0);
	return fake;
}

/* It was killed, with its switch, and is back when this returns. (By its own thread: what that polls is not closed
 * before it looks again.) */
static inline void fake_restart(struct fake *fake)
{
	atomic_store(&fake->restarts, true);
	while (atomic_load(&fake->restarts))
		usleep(200);
}

static inline void fake_loses(struct fake *fake, uint32_t of_a_million)
{
	pthread_mutex_lock(&fake->lock);
	fake->loss = of_a_million;
	pthread_mutex_unlock(&fake->lock);
}

static inline void fake_refuses(struct fake *fake, enum kv_type about, enum kv_refusal refusal)
{
	pthread_mutex_lock(&fake->lock);
	fake->refuses = about;
	fake->refusal = refusal;
	pthread_mutex_unlock(&fake->lock);
}

/* These are the hot keys from now on. */
static inline void fake_remap(struct fake *fake, const uint64_t *key, uint32_t count)
{
	pthread_mutex_lock(&fake->lock);
	memcpy(fake->hot_key, key, count * sizeof(*key));
	fake->ranks = count;
	fake->map++;
	for (uint32_t i = 0; i < FAKE_PEERS; i++)
		if (fake->peer[i].is_open)
			fake_map_say(fake, &fake->peer[i]);
	fake_fence(fake);
	pthread_mutex_unlock(&fake->lock);
}

static inline float fake_row(struct fake *fake, uint32_t i)
{
	float value;

	pthread_mutex_lock(&fake->lock);
	value = fake->row[i];
	pthread_mutex_unlock(&fake->lock);
	return value;
}

static void fake_end(struct fake *fake)
{
	atomic_store(&fake->is_ending, true);
	pthread_join(fake->thread, NULL);
	fake_down(fake);
	home_sparse_close(fake->home);
	pthread_mutex_destroy(&fake->lock);
	free(fake);
}

/* ---- a worker ---- */

static uint32_t flags; /* of whoever opens */

static struct tally_kv_options options_of(const char *servers, uint32_t worker)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;

	options.servers = servers;
	options.job = "test";
	options.workers = FAKE_WORKERS;
	options.worker = worker;
	options.deadline_ms = FAKE_DEADLINE_MS;
	options.kept_packets = 16; /* so that pushes have to wait */
	options.queue_bytes = 20000;
	options.flags = flags;
	return options;
}

static inline struct tally_kv *open_of(const char *servers, uint32_t worker)
{
	struct tally_kv_options options = options_of(servers, worker);
	struct tally_kv *kv = NULL;

	if (tally_kv_open(&kv, "words", FAKE_DIM, &options))
		fail_msg("%s", tally_get_last_error(NULL));
	return kv;
}

/* From now on; opening a table may take longer than that on a busy host. */
static inline void deadline_is(struct tally_kv *kv, uint64_t ms)
{
	pthread_mutex_lock(&kv->lock);
	kv->core->config.deadline_ns = ms * 1000000;
	pthread_mutex_unlock(&kv->lock);
}

static inline void ok(int result)
{
	if (result)
		fail_msg("%d: %s", result, tally_get_last_error(NULL));
}

static inline void failed(int result, int expected, const char *because)
{
	if (result != expected || !strstr(tally_get_last_error(NULL), because))
		fail_msg("%d: '%s' and not '%s'", result, tally_get_last_error(NULL), because);
}

#endif
