/* SPDX-License-Identifier: Apache-2.0 */
/* seat_test.c - where a communicator's aggregators are, in which order, and what it says to join them. Nothing is
 * connected. */
#include "lib/seat.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/paths.h"

static const uint64_t ns_per_s = 1000000000;

static struct tally_comm comm;

static int setup(void **state)
{
	(void)state;
	memset(&comm, 0, sizeof(comm));
	comm.who = (struct report_who){ .job = "seats", .host = "h7", .rank = 3, .size = 5 };
	comm.boot.init_timeout_s = 300;
	tally_set_log(0, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	membership_close(&comm);
	assert_null(comm.membership);
	membership_close(&comm); /* once more is fine */
	return 0;
}

static int open_at(const char *aggregators)
{
	membership_close(&comm);
	snprintf(comm.boot.aggregator, sizeof(comm.boot.aggregator), "%s", aggregators);
	return membership_open(&comm);
}

static void refused(const char *aggregators, const char *words)
{
	assert_int_equal(open_at(aggregators), TALLY_ERR_ARGUMENT);
	if (!strstr(tally_get_last_error(NULL), words))
		fail_msg("no \"%s\" in: %s", words, tally_get_last_error(NULL));
	assert_null(comm.membership);
}

static void seats__are_in_one_order_whatever_order_they_were_given_in(void **state)
{
	static const char *const lists[] = { "127.0.0.3:9,127.0.0.1:7171,127.0.0.2:8",
					     "127.0.0.2:8,127.0.0.3:9,127.0.0.1" };
	uint64_t hashes[2];

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		const struct membership *its;

		assert_int_equal(open_at(lists[i]), TALLY_OK);
		its = comm.membership;
		assert_int_equal(its->seats_count, 3);
		assert_string_equal(its->seats[0].address.text, "127.0.0.1:7171");
		assert_string_equal(its->seats[1].address.text, "127.0.0.2:8");
		assert_string_equal(its->seats[2].address.text, "127.0.0.3:9");
		assert_true(its->seats[0].is_begun);
		assert_false(its->seats[1].is_begun);
		assert_true(its->patience.number == UINT64_MAX);
		for (uint32_t k = 0; k < 3; k++) {
			const struct seat *seat = &its->seats[k];

			assert_int_equal(atomic_load(&seat->fd), -1);
			assert_string_equal(seat->join.list,
					    "127.0.0.1:7171,127.0.0.2:8,127.0.0.3:9");
			assert_true(seat->join.list_hash == its->seats[0].join.list_hash);
			assert_ptr_equal(seat->config.aggregator, seat->address.text);
			assert_ptr_equal(seat->config.join, &seat->join);
		}
		hashes[i] = its->seats[0].join.list_hash;
	}
	assert_true(hashes[0] == hashes[1]);
	assert_int_equal(open_at("127.0.0.1,127.0.0.2:8"), TALLY_OK);
	assert_true(comm.membership->seats[0].join.list_hash != hashes[0]);
	assert_string_equal(comm.membership->seats[1].join.list, "127.0.0.1:7171,127.0.0.2:8");
}

static void seats__say_who_joins(void **state)
{
	const struct control_join *join;

	(void)state;
	comm.latency_slots = 64;
	comm.latency_window = 16;
	comm.boot.local_size = 2;
	strcpy(comm.key, "sesame");
	assert_int_equal(open_at("127.0.0.1"), TALLY_OK);
	join = &comm.membership->seats[0].join;
	assert_int_equal(join->version_min, CONTROL_VERSION);
	assert_int_equal(join->version_max, CONTROL_VERSION);
	assert_int_equal(join->size, 5);
	assert_int_equal(join->rank, 3);
	assert_int_equal(join->kind, CONTROL_WORKER);
	assert_int_equal(join->workers, 1);
	assert_int_equal(join->pid, getpid());
	assert_int_equal(join->mode, CONTROL_LATENCY);
	assert_int_equal(join->latency_slots, 64);
	assert_int_equal(join->latency_window, 16);
	assert_int_equal(join->local_size, 2);
	assert_int_equal(join->life, 0);
	assert_true(join->mtu >= 1240);
	assert_true(join->boot != 0);
	assert_true(join->process != 0);
	assert_int_equal(join->program, 0); /* the user has said a name */
	assert_int_equal(join->is_launched, 0);
	assert_string_equal(join->key, "sesame");
	assert_string_equal(join->job, "seats");
	assert_string_equal(join->host, "h7");
	comm.latency_slots = 0;
	comm.boot.is_launched = true;
	assert_int_equal(open_at("127.0.0.1"), TALLY_OK);
	join = &comm.membership->seats[0].join;
	assert_int_equal(join->mode, CONTROL_DENSE);
	assert_int_equal(join->is_launched, 1);
	assert_true(join->program != 0);
	comm.boot.is_alone = true;
	assert_int_equal(open_at("127.0.0.1"), TALLY_OK);
	join = &comm.membership->seats[0].join;
	assert_int_equal(join->is_launched, 0);
	assert_true(join->program != 0);
	comm.join_life = 99; /* a part's name is nobody else's */
	comm.boot.is_alone = false;
	assert_int_equal(open_at("127.0.0.1"), TALLY_OK);
	join = &comm.membership->seats[0].join;
	assert_int_equal(join->life, 99);
	assert_int_equal(join->is_launched, 0);
	assert_int_equal(join->program, 0);
}

/* Nobody tries to connect for longer than all have time to come. */
static void seats__have_the_patience_that_they_were_given(void **state)
{
	const struct member_config usual = MEMBER_CONFIG_DEFAULT;
	uint32_t usual_s = (uint32_t)(usual.connect_ns / ns_per_s);

	(void)state;
	assert_true(usual_s > 1);
	for (uint32_t s = usual_s - 1; s <= usual_s + 1; s++) {
		const struct member_config *config;

		comm.boot.init_timeout_s = s;
		assert_int_equal(open_at("127.0.0.1"), TALLY_OK);
		config = &comm.membership->seats[0].config;
		assert_true(config->gather_ns == s * ns_per_s);
		assert_true(config->connect_ns == (s < usual_s ? s : usual_s) * ns_per_s);
		assert_false(config->is_local);
	}
}

static void seats__of_local_mode_are_one_and_say_whose(void **state)
{
	(void)state;
	comm.boot.is_local = true;
	strcpy(comm.local_job, "seats");
	assert_int_equal(open_at("not an address"), TALLY_OK);
	assert_int_equal(comm.membership->seats_count, 1);
	assert_string_equal(comm.membership->seats[0].address.text, "rank 0 on h7 (local mode)");
	assert_true(comm.membership->seats[0].config.is_local);
	assert_string_equal(comm.membership->seats[0].join.list, "rank 0 on h7 (local mode)");
}

static void seats__that_can_be_none_are_named(void **state)
{
	char many[256] = "127.0.0.1:1";

	(void)state;
	refused("127.0.0.1,127.0.0.2:99999", "aggregator \"127.0.0.2:99999\" of "
					     "127.0.0.1,127.0.0.2:99999 is not HOST, HOST:PORT "
					     "or [V6]:PORT, port 1 to 65535");
	refused("0.0.0.0:7", "aggregator 0.0.0.0:7 is ");
	for (uint32_t i = 1; i < 16; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), ",127.0.0.1:%u", 1 + i);
	assert_int_equal(open_at(many), TALLY_OK);
	assert_int_equal(comm.membership->seats_count, 16);
	strcat(many, ",127.0.0.1:17");
	refused(many, ": more than 16");
}

/* No other process than this may hold a connection open. */
static void seats__forget_their_sockets_in_a_child(void **state)
{
	int fds[2];

	(void)state;
	membership_forget(&comm); /* it has none yet */
	assert_int_equal(open_at("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"), TALLY_OK);
	assert_int_equal(pipe(fds), 0);
	atomic_store(&comm.membership->seats[0].fd, fds[0]);
	atomic_store(&comm.membership->seats[2].fd, fds[1]);
	membership_forget(&comm);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
	assert_int_equal(fcntl(fds[1], F_GETFD), -1);
}

static void seats__are_over_when_they_were_left_or_failed_or_never_begun(void **state)
{
	struct seat seat = { .is_begun = true };

	(void)state;
	for (uint8_t its = 0; its < MEMBER_STATE_COUNT; its++) {
		seat.member.state = its;
		assert_int_equal(seat_is_over(&seat), its == MEMBER_LEFT || its == MEMBER_FAILED);
	}
	seat.member.state = MEMBER_RUN;
	seat.is_begun = false;
	assert_true(seat_is_over(&seat));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(seats__are_in_one_order_whatever_order_they_were_given_in),
		T(seats__say_who_joins),
		T(seats__have_the_patience_that_they_were_given),
		T(seats__of_local_mode_are_one_and_say_whose),
		T(seats__that_can_be_none_are_named),
		T(seats__forget_their_sockets_in_a_child),
		T(seats__are_over_when_they_were_left_or_failed_or_never_begun),
#undef T
	};

	return cmocka_run_group_tests_name("lib-seat", tests, NULL, NULL);
}
