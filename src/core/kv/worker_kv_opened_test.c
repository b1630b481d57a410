/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_opened_test.c - what OPENED says, and the maps after it: is this the table that it was, and are its servers those
 * of one table? */
#include "core/kv/worker_kv_fixture.h"

/* ---- OPENED ---- */

static void other_dim(struct worker_kv_message *opened)
{
	opened->shape.dim++;
}

static void other_name(struct worker_kv_message *opened)
{
	opened->is_named = false;
}

static void other_mode(struct worker_kv_message *opened)
{
	opened->is_stepped = true;
}

static void no_map(struct worker_kv_message *opened)
{
	opened->map = 0;
}

static void wide(struct worker_kv_message *opened)
{
	opened->shape.window = 9; /* and 8 packets are kept */
}

static void as_wide(struct worker_kv_message *opened)
{
	opened->shape.window = 8;
}

static void other_scale(struct worker_kv_message *opened)
{
	opened->scale = 2;
}

static void no_ranks(struct worker_kv_message *opened)
{
	opened->shape.ranks = 0;
}

static void older_map(struct worker_kv_message *opened)
{
	opened->map = 4;
}

static void unknown(struct worker_kv_message *opened)
{
	opened->is_known = false;
}

static void ahead(struct worker_kv_message *opened)
{
	opened->number = 4;
}

static void behind(struct worker_kv_message *opened)
{
	opened->number = 1;
}

static void other_place(struct worker_kv_message *opened)
{
	opened->server = 1;
}

static void other_own(struct worker_kv_message *opened)
{
	opened->own = own[1];
}

static void other_words(struct worker_kv_message *opened)
{
	opened->is_made_as_before = false;
}

static void twin(struct worker_kv_message *opened)
{
	opened->generation++;
}

static void report_late(struct worker_kv_message *opened)
{
	opened->must_report = true;
	opened->stream = opened->generation;
}

static const struct {
	void (*change)(struct worker_kv_message *opened);
	enum worker_kv_fault first, later; /* FINE: is none */
} changes[] = {
	{ other_dim, WORKER_KV_OTHER_TABLE, WORKER_KV_OTHER_TABLE },
	{ other_name, WORKER_KV_OTHER_TABLE, WORKER_KV_OTHER_TABLE },
	{ other_mode, WORKER_KV_OTHER_MODE, WORKER_KV_OTHER_MODE },
	{ no_map, WORKER_KV_UNSOUND, WORKER_KV_UNSOUND },
	{ wide, WORKER_KV_UNSOUND, WORKER_KV_UNSOUND },
	{ as_wide, WORKER_KV_FINE, WORKER_KV_CHANGED },
	{ other_scale, WORKER_KV_FINE, WORKER_KV_CHANGED },
	{ no_ranks, WORKER_KV_FINE, WORKER_KV_CHANGED },
	{ older_map, WORKER_KV_FINE, WORKER_KV_OLDER_MAP },
	{ unknown, WORKER_KV_FINE, WORKER_KV_FORGOTTEN },
	{ ahead, WORKER_KV_NEVER_SENT, WORKER_KV_NEVER_SENT },
	{ behind, WORKER_KV_FINE, WORKER_KV_LOST_DONE },
	{ other_place, WORKER_KV_MISPLACED, WORKER_KV_MISPLACED },
	{ other_own, WORKER_KV_FINE, WORKER_KV_RENEWED },
	{ other_words, WORKER_KV_FINE, WORKER_KV_RENEWED },
	{ twin, WORKER_KV_FINE, WORKER_KV_WENT_BACK },
	{ report_late, WORKER_KV_WENT_BACK, WORKER_KV_WENT_BACK },
};

/* R-KV-6, R-KV-9, R-KV-20, R-KV-22. Later: two batches were made, one was answered, and map 5 is in force. */
static void kv__table_that_is_another_is_not_opened(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		for (uint32_t is_later = 0; is_later < 2; is_later++) {
			struct worker_kv_message opened;

			begin(1, WORKER_KV_ASYNC, 0);
			if (is_later) {
				greet(0);
				assert_true(hear(0, hot_of(0, 5)) & WORKER_KV_TAKE);
				map_is_whole(5);
				worker_kv_adopted(kv->server);
				worker_kv_batch(kv->server);
				worker_kv_batch(kv->server);
				assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 1),
						 WORKER_KV_FREE);
				lose(0);
			}
			greet(0);
			opened = hot_of(0, 5);
			opened.number += is_later;
			changes[i].change(&opened);
			if (is_later ? changes[i].later : changes[i].first)
				fails(0, opened, is_later ? changes[i].later : changes[i].first);
			else
				assert_false(hear(0, opened) & WORKER_KV_FAIL);
		}
}

/* R-KV-8 */
static void kv__maps_are_waited_for(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	greet(0);
	assert_int_equal(hear(0, hot_of(0, 5)), WORKER_KV_PAST | WORKER_KV_TAKE);
	state_is(0, WORKER_KV_MAPPING);
	assert_int_equal(part(5, 0, 60), WORKER_KV_NEW_MAP | WORKER_KV_TAKE);
	assert_int_equal(part(5, 60, 30), WORKER_KV_TAKE);
	assert_int_equal(part(5, 0, 90), WORKER_KV_TAKE); /* once more */
	assert_int_equal(part(5, 90, 10), WORKER_KV_TAKE);
	worker_kv_mapped(kv->server, 5, &actions);
	assert_int_equal(actions.todo, WORKER_KV_AGAIN);
	kv->server->shape.ranks = 0;
	worker_kv_adopted(kv->server);
	assert_int_equal(kv->server->shape.ranks, 100);
	state_is(0, WORKER_KV_OPEN);
	assert_int_equal(part(6, 0, 100), WORKER_KV_NEW_MAP | WORKER_KV_TAKE);
	worker_kv_mapped(kv->server, 6, &actions);
	assert_int_equal(actions.todo, 0);
	lose(0);
	greet(0);
	assert_int_equal(hear(0, hot_of(0, 6)), WORKER_KV_PAST | WORKER_KV_TAKE);
	assert_int_equal(part(6, 0, 50), WORKER_KV_AGAIN); /* it is known; no RESUME has come */
	assert_int_equal(part(7, 0, 50), WORKER_KV_NEW_MAP | WORKER_KV_TAKE);
	assert_int_equal(part(6, 50, 50), WORKER_KV_CLOSE | WORKER_KV_WARN); /* it is older */
}

static void kv__maps_come_in_order_and_whole(void **state)
{
	static const struct {
		uint32_t map, ranks, first;
	} cases[] = { { 4, 100, 0 }, { 6, 99, 50 }, { 6, 100, 49 }, { 5, 99, 0 }, { 7, 100, 1 } };

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct worker_kv_message message = { .type = WORKER_KV_SAYS_MAP,
						     .table = NUMBER,
						     .map = cases[i].map,
						     .shape = { .ranks = cases[i].ranks },
						     .first = cases[i].first,
						     .count = 10 };

		begin(1, WORKER_KV_ASYNC, 0);
		greet(0);
		(void)hear(0, hot_of(0, 5));
		map_is_whole(5);
		worker_kv_adopted(kv->server);
		assert_int_equal(part(6, 0, 50), WORKER_KV_NEW_MAP | WORKER_KV_TAKE);
		assert_true(hear(0, message) & WORKER_KV_CLOSE);
		assert_int_equal(actions.lost, WORKER_KV_UNFIT);
	}
}

static uint32_t switch_to(uint32_t map, uint64_t generation, bool is_same)
{
	return hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_SWITCH,
						   .table = NUMBER,
						   .map = map,
						   .generation = generation,
						   .shape = { .index = (uint16_t)(map + 70) },
						   .is_same = is_same });
}

static void kv__switch_needs_its_map(void **state)
{
	const uint64_t next = GENERATION + (1ull << SPARSE_RANDOM_BITS);

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	greet(0);
	(void)hear(0, hot_of(0, 5));
	map_is_whole(5);
	assert_int_equal(switch_to(5, GENERATION, false), WORKER_KV_TAKE);
	worker_kv_adopted(kv->server);
	assert_int_equal(switch_to(5, GENERATION, false), WORKER_KV_TAKE); /* it has moved */
	assert_int_equal(switch_to(5, GENERATION, true), 0);
	assert_int_equal(switch_to(5, next, true), WORKER_KV_TAKE);
	assert_true(kv->server->generation_told == next);
	lose(0);
	greet(0);
	{
		struct worker_kv_message opened = hot_of(0, 5);

		opened.generation = next;
		(void)hear(0, opened);
	}
	assert_int_equal(kv->server->shape.index, 75); /* which OPENED does not say */
	assert_int_equal(part(5, 0, 100), WORKER_KV_AGAIN);
	assert_int_equal(switch_to(6, next - 1, false), 0); /* it is older */
	map_is_whole(6);
	assert_int_equal(switch_to(6, next, false), WORKER_KV_TAKE);
	assert_int_equal(switch_to(7, next, false), WORKER_KV_CLOSE | WORKER_KV_WARN);
}

/* ---- servers of one table: R-KV-22 ---- */

/* Of servers 1 and 2. */
static void list_is(const uint8_t list[16])
{
	uint64_t one = 0xcbf29ce484222325, other = ~one;

	for (uint32_t i = 0; i < 32; i++) {
		one = (one ^ own[1 + i / 16][i % 16]) * 0x100000001b3;
		other = (other ^ own[1 + i / 16][i % 16]) * 0x100000001b3;
	}
	assert_true(sparse_body_get64(list) == one);
	assert_true(sparse_body_get64(list + 8) == other);
}

static void kv__servers_are_opened_in_order(void **state)
{
	static const uint8_t none[16];
	struct worker_kv_message opened;
	uint8_t list[16], again[16];

	(void)state;
	begin(SERVERS, WORKER_KV_ASYNC, 0);
	assert_int_equal(wait(1, s_ns), 0); /* nobody has said which table this is */
	assert_true(worker_kv_wake_ns(kv, 1) == 1060 * s_ns);
	greet(0);
	assert_false(worker_kv_open(kv, 0, list));
	assert_memory_equal(list, none, 16);
	assert_true(hear(0, opened_of(0)) & WORKER_KV_AGAIN);
	assert_memory_equal(kv->identity, identity, 16);
	assert_true(kv->server[1].down_ns == now_ns);
	assert_false(worker_kv_may_ask_again(kv));
	greet(1);
	assert_false(worker_kv_open(kv, 1, list));
	assert_memory_equal(list, none, 16);
	assert_true(hear(1, opened_of(1)) & WORKER_KV_AGAIN);
	assert_false(worker_kv_may_ask_again(kv));
	up(2);
	assert_true(worker_kv_may_ask_again(kv));
	assert_int_equal(wait(1, 0), 0);
	assert_false(kv->is_whole);
	assert_int_equal(wait(0, 0), WORKER_KV_SAY_OPEN);
	assert_true(worker_kv_open(kv, 0, list)); /* this server had opened it before */
	list_is(list);
	assert_false(worker_kv_may_ask_again(kv));
	assert_true(hear(0, opened_of(0)) & WORKER_KV_AGAIN);
	assert_true(kv->is_whole);
	assert_true(hear(0, opened_of(0)) & WORKER_KV_CLOSE); /* nobody has asked */
	greet(0);
	assert_true(worker_kv_open(kv, 0, again));
	assert_memory_equal(again, list, 16);
	(void)worker_kv_open(kv, 1, again);
	assert_memory_equal(again, none, 16);
	begin(1, WORKER_KV_ASYNC, 0); /* there are no others */
	up(0);
	assert_true(kv->is_whole);
	assert_true(worker_kv_open(kv, 0, again));
	assert_memory_equal(again, none, 16);
	assert_false(worker_kv_may_ask_again(kv));
	begin(2, WORKER_KV_ASYNC, 0);
	up(0);
	up(1);
	assert_true(worker_kv_may_ask_again(kv));
	(void)worker_kv_open(kv, 0, again);
	assert_memory_not_equal(again, none, 16);
	assert_false(worker_kv_may_ask_again(kv));
	begin(SERVERS, WORKER_KV_ASYNC, 0); /* who follows others' use of the table */
	greet(0);
	opened = opened_of(0);
	opened.is_used = true;
	assert_true(hear(0, opened) & WORKER_KV_AGAIN);
	assert_true(worker_kv_open(kv, 1, again));
}

static void kv__server_of_another_table_is_a_fault(void **state)
{
	static uint8_t other[16] = { 8 };
	struct worker_kv_message opened;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		begin(SERVERS, WORKER_KV_ASYNC, 0);
		up(0);
		greet(1);
		opened = opened_of(1);
		if (i == 0)
			opened.identity = other;
		else if (i == 1)
			opened.servers++;
		else
			opened.is_made_as_first = false;
		fails(1, opened, i < 2 ? WORKER_KV_MISPLACED : WORKER_KV_UNLIKE);
	}
}

/* ---- R-KV-20 ---- */

static void kv__report_counts_what_was_answered_and_is_not_in(void **state)
{
	/* Of place 0: 12 and 16; of 1: 9 and 13; of 2: 2, 6 and 10; of 3 none. */
	uint64_t opened[WINDOW + 1] = { 8, 5, 0, 7 }, row[WINDOW + 1] = { 16, 13, 10, 7, 99 };
	struct worker_kv_server *server;
	struct worker_kv_loss loss;

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	server = kv->server;
	server->shape.window = WINDOW;
	server->batch_done = 15;
	loss = worker_kv_report(server, 11, opened, row);
	assert_int_equal(loss.batches, 5);
	assert_int_equal(loss.packets, 7);
	/* Once more, from further back: what was reported is not lost another time. */
	opened[1] = 1;
	row[3] = 11; /* this is news */
	server->batch_done = 17;
	loss = worker_kv_report(server, 3, opened, row);
	assert_int_equal(loss.batches, 2);
	assert_int_equal(loss.packets, 1);
	loss = worker_kv_report(server, 3, opened, row);
	assert_int_equal(loss.batches, 0);
	assert_int_equal(loss.packets, 0);
	/* It has more than was answered. */
	loss = worker_kv_report(server, 21, opened, row);
	assert_int_equal(loss.batches, 0);
}

static void kv__generation_that_there_was_before_is_a_fault(void **state)
{
	const struct {
		uint64_t told, stream;
		bool must_report, is_fault;
	} cases[] = {
		{ GENERATION, 0, false, false }, /* it goes on with that one */
		{ 2ull << SPARSE_RANDOM_BITS | 9, 0, false, false },
		{ GENERATION + 1, 0, false, true }, /* with other random bits */
		{ 4ull << SPARSE_RANDOM_BITS | 1, 0, false, true },
		/* Who asks for a report must not be behind what was heard of its switch. */
		{ GENERATION, GENERATION, false, false },
		{ GENERATION, GENERATION, true, true },
		{ GENERATION, 2ull << SPARSE_RANDOM_BITS | 9, true, false },
		{ GENERATION, 0, true, false },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct worker_kv_message opened;

		begin(1, WORKER_KV_ASYNC, 0);
		greet(0);
		kv->server->generation_told = cases[i].told;
		opened = opened_of(0);
		opened.must_report = cases[i].must_report;
		opened.stream = cases[i].stream;
		if (cases[i].is_fault)
			fails(0, opened, WORKER_KV_WENT_BACK);
		else
			assert_int_equal(!(hear(0, opened) & WORKER_KV_REPORT),
					 !cases[i].must_report);
	}
}

/* A worker that reports may have been answered more than the server has. */
static void kv__server_back_from_a_checkpoint_may_be_behind(void **state)
{
	struct worker_kv_message opened;

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	up(0);
	worker_kv_batch(kv->server);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 1), WORKER_KV_FREE);
	lose(0);
	greet(0);
	opened = opened_of(0);
	opened.must_report = true;
	assert_int_equal(hear(0, opened),
			 WORKER_KV_REPORT | WORKER_KV_PAST | WORKER_KV_TAKE | WORKER_KV_AGAIN);
	assert_int_equal(kv->server->batch_done, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__table_that_is_another_is_not_opened),
		cmocka_unit_test(kv__maps_are_waited_for),
		cmocka_unit_test(kv__maps_come_in_order_and_whole),
		cmocka_unit_test(kv__switch_needs_its_map),
		cmocka_unit_test(kv__servers_are_opened_in_order),
		cmocka_unit_test(kv__server_of_another_table_is_a_fault),
		cmocka_unit_test(kv__report_counts_what_was_answered_and_is_not_in),
		cmocka_unit_test(kv__generation_that_there_was_before_is_a_fault),
		cmocka_unit_test(kv__server_back_from_a_checkpoint_may_be_behind),
	};
	int failed = cmocka_run_group_tests_name("core-worker_kv_opened", tests, NULL, NULL);

	free(kv);
	return failed;
}
