/* SPDX-License-Identifier: Apache-2.0 */
/* pack_test.c - what workers send to a switch that is a chip of registers (R-KV-18), against a server of this process
 * (kv_fixture.h): which packets, and that the sums are right. */
#include "kvlib/kv_fixture.h"

enum { REGISTERS = 12, BYTES = 192, KEYS = 2400, PUSHES = 5 };
enum { ROOM = (BYTES - SPARSE_HEADER_BYTES) / (SPARSE_RANK_BYTES + 4 * FAKE_DIM) };

/* All that the packets of the pushes cost, by comparing pairs. */
struct costs {
	uint64_t packets, further;
};

/* The ranks of the keys 0 to KEYS - 1 that are hot, in the order of keys: every sixth is. */
static uint32_t ranks_of(const struct fake *fake, uint32_t rank[KEYS])
{
	uint32_t count = 0;

	for (uint64_t key = 0; key < KEYS; key += 6, count++)
		for (uint32_t i = 0; i < FAKE_HOT; i++)
			if (fake->hot_key[i] == key)
				rank[count] = i;
	return count;
}

static struct costs filled(const uint32_t *rank, uint32_t count)
{
	struct costs costs = { .packets = (count + ROOM - 1) / ROOM };

	for (uint32_t i = 0; i < count; i++) {
		bool is_further = false;

		for (uint32_t k = i / ROOM * ROOM; k < i; k++)
			is_further |= rank[k] % REGISTERS == rank[i] % REGISTERS;
		costs.further += is_further;
	}
	return costs;
}

static struct costs dealt(const uint32_t *rank, uint32_t count)
{
	struct costs costs = { .packets = (count + ROOM - 1) / ROOM };

	for (uint32_t reg = 0; reg < REGISTERS; reg++) {
		uint64_t pairs = 0;

		for (uint32_t i = 0; i < count; i++)
			pairs += rank[i] % REGISTERS == reg;
		costs.packets = pairs > costs.packets ? pairs : costs.packets;
	}
	return costs;
}

/* The paper's lines, one by one: the first packet with room and without the register, and then all the others. */
static struct costs orchestrated(const uint32_t *rank, uint32_t count)
{
	uint32_t estimate = (count + ROOM - 1) / ROOM, left[KEYS], left_count = 0;
	struct costs costs;
	static bool has[KEYS][REGISTERS];
	uint32_t pairs[KEYS] = { 0 };

	memset(has, 0, sizeof(has));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t p = 0, reg = rank[i] % REGISTERS;

		while (p < estimate && (pairs[p] == ROOM || has[p][reg]))
			p++;
		if (p == estimate) {
			left[left_count++] = rank[i];
			continue;
		}
		pairs[p]++;
		has[p][reg] = true;
	}
	costs = filled(left, left_count);
	costs.packets += estimate;
	return costs;
}

static void push_all(struct tally_kv *kv)
{
	uint64_t keys[KEYS];
	float ones[KEYS * FAKE_DIM];

	for (uint32_t i = 0; i < KEYS; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < KEYS * FAKE_DIM; i++)
		ones[i] = 1;
	ok(tally_kv_push(kv, keys, ones, KEYS, NULL));
}

static void sums_are(struct fake *fake, float expected)
{
	for (uint32_t i = 0; i < KEYS * FAKE_DIM; i++)
		assert_true(fake_row(fake, i) == expected);
}

static struct engine_sparse_stats stats_of(struct fake *fake)
{
	struct engine_sparse_stats stats;

	pthread_mutex_lock(&fake->lock);
	stats = *engine_sparse_stats(fake->engine);
	pthread_mutex_unlock(&fake->lock);
	return stats;
}

static struct fake *chip_begin(enum kv_packing packing, uint64_t seed)
{
	fake_bytes = BYTES;
	fake_registers = REGISTERS;
	fake_packing = packing;
	return fake_begin(FAKE_HOT, seed);
}

static void chip_end(struct fake *fake)
{
	fake_end(fake);
	fake_bytes = 512;
	fake_registers = 0;
	fake_packing = KV_FILL;
}

static void packs(enum kv_packing packing,
		  struct costs (*costs_of)(const uint32_t *rank, uint32_t count))
{
	struct fake *fake = chip_begin(packing, 31 + packing);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct engine_sparse_stats got;
	uint32_t rank[KEYS], count = ranks_of(fake, rank);
	struct costs want = costs_of(rank, count);

	for (uint32_t i = 0; i < PUSHES; i++)
		push_all(kv);
	ok(tally_kv_wait(kv, 0, -1));
	sums_are(fake, PUSHES);
	got = stats_of(fake);
	assert_int_equal(got.pairs, (uint64_t)count * PUSHES);
	assert_int_equal(got.verdict[SWITCH_SPARSE_ADDED], want.packets * PUSHES);
	assert_int_equal(got.recirculations, want.further * PUSHES);
	assert_int_equal(got.recirculations == 0, packing == KV_DEAL);
	ok(tally_kv_close(kv));
	chip_end(fake);
}

static void kv__pairs_for_a_chip_are_dealt(void **state)
{
	(void)state;
	packs(KV_DEAL, dealt);
}

static void kv__or_packed_by_algorithm_1(void **state)
{
	(void)state;
	packs(KV_ALGORITHM_1, orchestrated);
}

static void kv__or_as_they_come(void **state)
{
	(void)state;
	packs(KV_FILL, filled);
}

/* In the middle of pushes that are packed and not sent. */
static void kv__a_switch_that_is_a_chip_may_follow_one_that_is_none_and_go(void **state)
{
	struct fake *fake = chip_begin(KV_DEAL, 40);
	struct tally_kv *kv;

	(void)state;
	fake_registers = 0;
	kv = open_of(fake->address, 0);
	for (uint32_t i = 0; i < 3 * PUSHES; i++) {
		push_all(kv);
		if (i % PUSHES + 1 < PUSHES)
			continue;
		pthread_mutex_lock(&fake->lock);
		fake_registers = fake_registers ? 0 : REGISTERS;
		fake_fence(fake);
		pthread_mutex_unlock(&fake->lock);
	}
	ok(tally_kv_wait(kv, 0, -1));
	sums_are(fake, 3 * PUSHES);
	ok(tally_kv_close(kv));
	chip_end(fake);
}

/* Of this thread; below 0: all are granted. */
static _Thread_local int allocations_left = -1;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool is_refused(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
	return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return is_refused() ? NULL : __real_calloc(count, bytes);
}

/* Whichever of them it is that there is none for; the address sanitizer sees what is not given back. */
static void kv__without_memory_nothing_is_packed(void **state)
{
	enum { ALLOCATIONS = 6 };
	static struct kv_server server;
	struct worker_kv_server core = { .shape = { .bytes = BYTES, .dim = FAKE_DIM } };

	(void)state;
	server.core = &core;
	server.hot = server.hot_packet;
	for (int i = 0; i <= ALLOCATIONS; i++) {
		bool is_done;

		allocations_left = i;
		is_done = kv_pack_switch(&server, REGISTERS, KV_DEAL);
		allocations_left = -1;
		assert_int_equal(is_done, i == ALLOCATIONS);
		assert_int_equal(server.pack != NULL, is_done);
	}
	kv_pack_fini(&server);
}

/* The address sanitizer sees what is beyond it. */
static void kv__as_many_are_packed_together_as_there_is_room_for(void **state)
{
	static struct kv_server server;
	struct worker_kv_server core = { .shape = { .bytes = BYTES, .dim = FAKE_DIM } };
	uint32_t pairs = 0;

	(void)state;
	server.core = &core;
	server.hot = server.hot_packet;
	assert_true(kv_pack_switch(&server, REGISTERS, KV_DEAL));
	assert_int_equal(server.hot_max, KV_PACK_PAIRS);
	for (; server.hot_count < server.hot_max; server.hot_count++)
		sparse_body_put32(server.hot + server.hot_count * sparse_pair_bytes(FAKE_DIM),
				  server.hot_count);
	for (uint16_t count; (count = kv_pack_next(&server)); pairs += count)
		kv_pack_pushed(&server);
	assert_int_equal(pairs, KV_PACK_PAIRS);
	kv_pack_fini(&server);
}

/* As if it had never been packed: in the order in which it came, without what is sent. */
static void kv__what_is_packed_and_not_sent_is_taken_back(void **state)
{
	static struct kv_server server;
	struct worker_kv_server core = { .shape = { .bytes = BYTES, .dim = FAKE_DIM } };
	const uint32_t bytes = sparse_pair_bytes(FAKE_DIM);
	bool is_sent[KV_PACK_PAIRS] = { false };
	uint32_t rank = 0;
	uint16_t count;

	(void)state;
	server.core = &core;
	server.hot = server.hot_packet;
	assert_true(kv_pack_switch(&server, REGISTERS, KV_DEAL));
	for (; server.hot_count < server.hot_max; server.hot_count++)
		sparse_body_put32(server.hot + server.hot_count * bytes, server.hot_count);
	count = kv_pack_next(&server);
	assert_in_range(count, 1, KV_PACK_PAIRS - 1);
	for (uint32_t i = 0; i < count; i++)
		is_sent[sparse_body_get32(server.hot_packet + i * bytes)] = true;
	kv_pack_pushed(&server);
	kv_pack_undo(&server);
	assert_int_equal(server.hot_count, KV_PACK_PAIRS - count);
	for (uint32_t i = 0; i < server.hot_count; i++, rank++) {
		while (is_sent[rank])
			rank++;
		assert_int_equal(sparse_body_get32(server.hot + i * bytes), rank);
	}
	kv_pack_fini(&server);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__pairs_for_a_chip_are_dealt),
		cmocka_unit_test(kv__or_packed_by_algorithm_1),
		cmocka_unit_test(kv__or_as_they_come),
		cmocka_unit_test(kv__a_switch_that_is_a_chip_may_follow_one_that_is_none_and_go),
		cmocka_unit_test(kv__without_memory_nothing_is_packed),
		cmocka_unit_test(kv__as_many_are_packed_together_as_there_is_room_for),
		cmocka_unit_test(kv__what_is_packed_and_not_sent_is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
