/* SPDX-License-Identifier: Apache-2.0 */
/* bmv2_test.c - calls to a switch that is played: what it hears, and what becomes of each way not to answer. */
#include "dataplane/bmv2_fixture.h"

#include <errno.h>

#include "util/clock.h"

static struct bmv2 bmv2 = { .fd = -1 };

static struct link_address play_address(void)
{
	return (struct link_address){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
				      .port = played.port };
}

static int setup(void **state)
{
	struct link_address address;

	(void)state;
	play_begin();
	address = play_address();
	assert_int_equal(bmv2_connect(&bmv2, &address), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bmv2_disconnect(&bmv2);
	play_end();
	return 0;
}

static int add_one(int32_t *handle)
{
	static const struct bmv2_value key = { 0x1234, 2 },
				       data[] = { { 1, 1 }, { 0xaabbccddeeff, 6 } };

	return bmv2_add(&bmv2, "table", &key, 1, "action", data, 2, handle);
}

static void bmv2__asks_and_is_told(void **state)
{
	int32_t group;
	bool ports[BMV2_PORTS];
	uint64_t number = 0;
	int32_t handle = 0;

	(void)state;
	assert_int_equal(add_one(&handle), 0);
	assert_int_equal(handle, 1);
	assert_int_equal(bmv2_modify(&bmv2, "table", 1, "action", NULL, 0), 0);
	assert_int_equal(bmv2_delete(&bmv2, "table", 1), 0);
	assert_int_equal(bmv2_register_read(&bmv2, "words", 3, &number), 0);
	assert_int_equal(number, 77);
	assert_int_equal(bmv2_register_write(&bmv2, "words", 3, 5, 9), 0);
	played.counter = 1ull << 40;
	assert_int_equal(bmv2_counter(&bmv2, "counts", 3, &number), 0);
	assert_int_equal(number, 1ull << 40);
	assert_int_equal(bmv2_counters_reset(&bmv2, "counts"), 0);
	assert_int_equal(bmv2_meter_set(&bmv2, "meter", 2000, 64), 0);
	assert_int_equal(bmv2_ports(&bmv2, ports), 0);
	for (uint32_t port = 0; port < BMV2_PORTS; port++)
		assert_int_equal(ports[port], port == 3 || port == 64);
	assert_int_equal(bmv2_group_create(&bmv2, 5, &handle), 0);
	group = handle;
	assert_int_equal(bmv2_node_create(&bmv2, 7, ports, &handle), 0);
	assert_int_equal(bmv2_node_join(&bmv2, group, handle), 0);
	assert_int_equal(bmv2_node_update(&bmv2, handle, ports), 0);
	assert_int_equal(bmv2_node_destroy(&bmv2, handle), 0);
	assert_int_equal(bmv2_group_destroy(&bmv2, 2), 0);
	assert_int_equal(bmv2_entries(&bmv2, "table", &number), 0);
	assert_int_equal(number, 26);
	assert_int_equal(bmv2_clear(&bmv2, "table"), 0);
	assert_int_equal(bmv2_register_reset(&bmv2, "words"), 0);
	assert_said(
		"mt_add_entry table; mt_modify_entry table; mt_delete_entry table; register_read "
		"words; "
		"register_write_range words; counter_read counts; counter_reset_all counts; "
		"meter_array_set_rates meter; dev_mgr_show_ports; mc_mgrp_destroy; mc_mgrp_create; "
		"mc_node_create; "
		"mc_node_associate; mc_node_update; mc_node_destroy; mc_mgrp_destroy; "
		"mt_get_num_entries table; mt_clear_entries table; register_reset words; ");
}

/* Which switch, what of it, what is wrong. The connection goes on. */
static void bmv2__says_what_the_switch_refuses(void **state)
{
	int32_t handle = 0;
	uint64_t number = 0;

	(void)state;
	play_set(PLAY_ANSWER, "add_entry", 7);
	assert_int_equal(add_one(&handle), -EREMOTEIO);
	assert_non_null(strstr(bmv2.error, bmv2.name));
	assert_non_null(
		strstr(bmv2.error,
		       "standard:bm_mt_add_entry of table: there is no such table: does it run"));
	play_set(PLAY_ANSWER, "add_entry", 1);
	assert_int_equal(add_one(&handle), -EREMOTEIO);
	assert_non_null(strstr(bmv2.error, "the table is full"));
	play_set(PLAY_ANSWER, "register_read", 2);
	assert_int_equal(bmv2_register_read(&bmv2, "words", 3, &number), -EREMOTEIO);
	assert_non_null(strstr(bmv2.error, "of words: it has not so many"));
	play_set(PLAY_ANSWER, "mgrp_create", 99);
	assert_int_equal(bmv2_group_create(&bmv2, 5, &handle), -EREMOTEIO);
	assert_non_null(strstr(bmv2.error, "refused with code 99"));
	play_set(PLAY_UNKNOWN, NULL, 0);
	assert_int_equal(add_one(&handle), -EREMOTEIO);
	assert_non_null(
		strstr(bmv2.error, "it does not know what is asked: Invalid method name: ?[2J"));
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(add_one(&handle), 0);
}

/* No call hangs, and after each of these the connection is over. */
static void bmv2__does_not_wait_for_who_does_not_answer(void **state)
{
	static const struct {
		enum play play;
		int error;
		const char *text;
	} cases[] = {
		{ PLAY_SILENCE, -ETIMEDOUT, "no answer in time" },
		{ PLAY_HANG_UP, -ECONNRESET, "it has closed the connection" },
		{ PLAY_NONSENSE, -EPROTO, "its answer is not Thrift's" },
		{ PLAY_OTHER_SERIAL, -EPROTO, "its answer is not Thrift's" },
		{ PLAY_ENDLESS, -EPROTO, "its answer is not Thrift's" },
		{ PLAY_NO_NUMBER, -EPROTO, "its answer has no number" },
	};
	struct link_address address = play_address();
	int32_t handle = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t begin_ns = clock_ns();

		play_set(cases[i].play, NULL, 0);
		assert_int_equal(add_one(&handle), cases[i].error);
		assert_true(clock_ns() - begin_ns < 4000000000);
		assert_non_null(strstr(bmv2.error, cases[i].text));
		assert_int_equal(bmv2.fd, -1);
		assert_int_equal(add_one(&handle), -ENOTCONN);
		assert_int_equal(bmv2_connect(&bmv2, &address), 0);
	}
	assert_int_equal(handle, 0);
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(add_one(&handle), 0);
}

/* Whoever asks much may say until when, of all of it together. And nobody knows what an add that is not answered did. */
static void bmv2__waits_until_it_is_told(void **state)
{
	struct link_address address = play_address();
	uint64_t begin_ns = clock_ns();
	int32_t handle;

	(void)state;
	bmv2.is_unsure = false;
	bmv2.until_ns = begin_ns + 100000000;
	play_set(PLAY_SILENCE, NULL, 0);
	assert_int_equal(bmv2_counters_reset(&bmv2, "switch_ingress.served"), -ETIMEDOUT);
	assert_false(bmv2.is_unsure);
	assert_int_equal(bmv2_connect(&bmv2, &address), 0);
	assert_int_equal(add_one(&handle), -ETIMEDOUT);
	assert_true(bmv2.is_unsure);
	assert_true(clock_ns() - begin_ns < 1500000000);
	bmv2.is_unsure = false;
	bmv2.until_ns = 0;
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(add_one(&handle), -ENOTCONN);
	assert_int_equal(bmv2_connect(&bmv2, &address), 0);
	play_set(PLAY_ANSWER, "add_entry", 17);
	assert_int_equal(add_one(&handle), -EREMOTEIO);
	assert_false(bmv2.is_unsure);
}

static void bmv2__names_who_does_not_listen(void **state)
{
	struct bmv2 other = { .fd = -1 };
	struct link_address address = play_address();

	(void)state;
	address.port = 1;
	assert_int_equal(bmv2_connect(&other, &address), -ECONNREFUSED);
	assert_string_equal(
		other.error,
		"the switch at 127.0.0.1:1: Connection refused: is simple_switch there, and is "
		"this its --thrift-port?");
	assert_int_equal(other.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bmv2__asks_and_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(bmv2__says_what_the_switch_refuses, setup,
						teardown),
		cmocka_unit_test_setup_teardown(bmv2__does_not_wait_for_who_does_not_answer, setup,
						teardown),
		cmocka_unit_test_setup_teardown(bmv2__waits_until_it_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(bmv2__names_who_does_not_listen, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
