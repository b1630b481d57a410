/* SPDX-License-Identifier: Apache-2.0 */
/* strange_test.c - connections that no job has taken: in which order they go, who is given up for want of a descriptor,
 * and what they hear. Peers are the test's. */
#include "server/inside_fixture.h"

#include <time.h>

enum { OURS = 1, THEIRS = 2 }; /* addresses */

static struct {
	uint32_t reads, denials, ends;
	uint32_t read[32], ended[32]; /* indices */
	char denied[CONTROL_TEXT_BYTES];
	struct peer *joins, *leaves; /* once it is read */
} seen;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
void __wrap_peer_read(struct server *server, struct peer *peer, uint64_t now_ns);
void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns);
void __wrap_peer_end(struct server *server, struct peer *peer);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	*now = (struct timespec){ .tv_sec = (time_t)(test.now_ns / second_ns) };
	return 0;
}

void __wrap_peer_end(struct server *server, struct peer *peer)
{
	assert_true(seen.ends < 32);
	seen.ended[seen.ends++] = (uint32_t)(peer - test.peers);
	stranger_take(server, peer);
	server->peers_count--;
	peer->conn = NULL;
}

void __wrap_peer_read(struct server *server, struct peer *peer, uint64_t now_ns)
{
	assert_int_equal(now_ns, test.now_ns);
	assert_true(seen.reads < 32);
	seen.read[seen.reads++] = (uint32_t)(peer - test.peers);
	if (peer == seen.joins)
		stranger_take(server, peer);
	if (peer == seen.leaves)
		__wrap_peer_end(server, peer);
}

void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_non_null(peer->conn);
	assert_int_equal(cause, CONTROL_NO_RESOURCE);
	assert_int_equal(now_ns, test.now_ns);
	snprintf(seen.denied, sizeof(seen.denied), "%s", text);
	seen.denials++;
}

static int setup(void **state)
{
	memset(&seen, 0, sizeof(seen));
	return inside_setup(state);
}

static struct peer *put(uint32_t index, uint64_t source)
{
	struct peer *peer = &test.peers[index];

	*peer = (struct peer){ .conn = (struct conn *)(void *)test.peers,
			       .handle = PEERS_MAX + index,
			       .source = source,
			       .since_ns = test.now_ns };
	snprintf(peer->text, sizeof(peer->text), "peer %u", index);
	stranger_put(&test.server, peer);
	test.server.peers_count++;
	return peer;
}

/* They are so many, from the oldest to the newest, and the other way round. */
static void assert_list(uint32_t count, const uint32_t *indices)
{
	const struct peer *at = test.server.stranger_oldest;

	assert_int_equal(test.server.strangers_count, count);
	for (uint32_t i = 0; i < count; i++, at = at->newer) {
		assert_ptr_equal(at, &test.peers[indices[i]]);
		assert_true(at->is_stranger);
	}
	assert_null(at);
	at = test.server.stranger_newest;
	for (uint32_t i = count; i > 0; i--, at = at->older)
		assert_ptr_equal(at, &test.peers[indices[i - 1]]);
	assert_null(at);
}

static void list__is_in_the_order_in_which_they_came(void **state)
{
	(void)state;
	for (uint32_t i = 4; i > 0; i--)
		put(i, OURS);
	assert_list(4, (const uint32_t[]){ 4, 3, 2, 1 });
	stranger_take(&test.server, &test.peers[3]);
	assert_list(3, (const uint32_t[]){ 4, 2, 1 });
	stranger_take(&test.server, &test.peers[3]); /* it is none any more */
	assert_list(3, (const uint32_t[]){ 4, 2, 1 });
	assert_false(test.peers[3].is_stranger);
	stranger_take(&test.server, &test.peers[4]);
	assert_list(2, (const uint32_t[]){ 2, 1 });
	stranger_take(&test.server, &test.peers[1]);
	assert_list(1, (const uint32_t[]){ 2 });
	stranger_put(&test.server, &test.peers[4]);
	assert_list(2, (const uint32_t[]){ 2, 4 });
	stranger_take(&test.server, &test.peers[2]);
	stranger_take(&test.server, &test.peers[4]);
	assert_list(0, NULL);
}

/* ---- a place ---- */

static void room__is_made_by_turning_the_oldest_away(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 4; i++)
		put(i, OURS);
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.ends + seen.reads, 0);
	test.server.strangers_count = STRANGERS_MAX - 1;
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.ends + seen.reads, 0);
	test.server.strangers_count = STRANGERS_MAX;
	test.server.peers_count = 2000;
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.ends, 1);
	assert_int_equal(seen.ended[0], 1);
	assert_int_equal(seen.reads, 1);
	assert_int_equal(seen.denials, 1);
	assert_string_equal(seen.denied,
			    "the aggregator has no room for another connection: 2000 are open, "
			    "1024 of them without a JOIN that it takes");
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "peer 1: turned away: the aggregator has no room for another connection: 2000 "
		    "are open, 1024 of them without a JOIN that it takes");
	assert_int_equal(test.server.strangers_count, STRANGERS_MAX - 1);
}

/* What it has said by now counts: it has joined, or it has gone, or it was denied and has heard why. */
static void room__is_there_if_the_oldest_has_come_to_something(void **state)
{
	(void)state;
	seen.joins = put(1, OURS);
	test.server.strangers_count = STRANGERS_MAX;
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.reads, 1);
	assert_int_equal(seen.ends + seen.denials, 0);
	stranger_put(&test.server, &test.peers[1]);
	seen.joins = NULL;
	seen.leaves = &test.peers[1];
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.reads, 2);
	assert_int_equal(seen.ends, 1);
	put(2, OURS)->has_joined = true;
	strangers_make_room(&test.server, test.now_ns);
	assert_int_equal(seen.reads, 2);
	assert_int_equal(seen.ends, 2);
	assert_int_equal(seen.denials + test.lines, 0);
}

/* ---- a descriptor ---- */

static bool give_up(uint64_t later_ns)
{
	test.now_ns += later_ns;
	return strangers_give_up_one(&test.server, test.now_ns);
}

static void descriptor__of_the_oldest_is_free_after_a_second(void **state)
{
	(void)state;
	assert_false(give_up(0)); /* there is none */
	put(1, OURS);
	put(2, THEIRS);
	assert_false(give_up(second_ns - 1));
	assert_int_equal(seen.reads + seen.ends, 0);
	assert_true(give_up(1));
	assert_int_equal(seen.ended[0], 1);
	assert_int_equal(seen.denials, 1);
	assert_true(give_up(0));
	assert_int_equal(seen.ended[1], 2);
	put(3, OURS)->has_joined = true; /* it was denied */
	assert_true(give_up(0));
	assert_int_equal(seen.ends, 3);
	assert_int_equal(seen.denials, 2);
	put(4, OURS);
	seen.joins = &test.peers[4];
	assert_true(give_up(second_ns));
	assert_int_equal(seen.ends, 3);
}

static void descriptor__of_an_address_with_more_than_four_is_free_at_once(void **state)
{
	(void)state;
	put(1, THEIRS);
	for (uint32_t i = 2; i < 6; i++)
		put(i, OURS);
	assert_false(give_up(0));
	put(6, OURS);
	assert_true(give_up(0));
	assert_int_equal(seen.ends, 1);
	assert_int_equal(seen.ended[0], 2); /* its oldest */
	assert_false(give_up(0));
}

/* One that came in on the last is on its way out. */
static void descriptor__that_was_kept_is_given_up_for_nobody(void **state)
{
	(void)state;
	put(1, OURS)->has_spare = true;
	assert_false(give_up(9 * second_ns));
	for (uint32_t i = 2; i < 7; i++)
		put(i, OURS);
	assert_true(give_up(0));
	assert_int_equal(seen.ended[0], 2);
}

/* Sixteen are looked at, and no more. */
static void descriptor__of_many_is_looked_for_among_the_oldest(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 17; i++)
		put(i, 100 + i);
	for (uint32_t i = 17; i < 22; i++)
		put(i, OURS);
	assert_false(give_up(0));
	stranger_take(&test.server, &test.peers[8]);
	assert_true(give_up(0));
	assert_int_equal(seen.ended[0], 17);
}

#define STRANGE_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STRANGE_TEST(list__is_in_the_order_in_which_they_came),
		STRANGE_TEST(room__is_made_by_turning_the_oldest_away),
		STRANGE_TEST(room__is_there_if_the_oldest_has_come_to_something),
		STRANGE_TEST(descriptor__of_the_oldest_is_free_after_a_second),
		STRANGE_TEST(descriptor__of_an_address_with_more_than_four_is_free_at_once),
		STRANGE_TEST(descriptor__that_was_kept_is_given_up_for_nobody),
		STRANGE_TEST(descriptor__of_many_is_looked_for_among_the_oldest),
	};

	return cmocka_run_group_tests_name("server-strange", tests, NULL, NULL);
}
