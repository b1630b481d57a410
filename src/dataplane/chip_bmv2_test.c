/* SPDX-License-Identifier: Apache-2.0 */
/* chip_bmv2_test.c - what a switch that is played hears of jobs and children, and what becomes of them when it is away,
 * empty, or another's. */
#include "dataplane/bmv2_fixture.h"

#include <errno.h>

#include "dataplane/chip_bmv2.h"

enum { JOB = 3, CHILDREN = 2, SLOTS = 100 };

static struct chip *chip;
static char text[64]; /* of the switch */

static const struct chip_way way = { .port = 3, .mac = { 2, 0, 0, 0, 0, 9 } };

#define CLEARED                                                                           \
	"mt_get_num_entries switch_ingress.shapes; register_write_range "                 \
	"switch_ingress.boot; mt_clear_entries switch_ingress.jobs; mt_clear_entries "    \
	"switch_ingress.addresses; mt_clear_entries switch_ingress.here; "                \
	"mt_clear_entries switch_ingress.forwarding.hosts; mt_clear_entries "             \
	"switch_egress.children; register_reset switch_ingress.lives; counter_reset_all " \
	"switch_ingress.verdicts; "
#define SET_UP                                                                                     \
	"register_read switch_ingress.copies; register_read switch_ingress.phases; register_read " \
	"switch_ingress.sum_7_d; " CLEARED                                                         \
	"dev_mgr_show_ports; mc_mgrp_destroy; mc_mgrp_create; mc_node_create; mc_node_associate; " \
	"mt_add_entry switch_ingress.here; mt_add_entry switch_ingress.forwarding.hosts; "         \
	"meter_array_set_rates switch_ingress.to_control.rate; register_write_range "              \
	"switch_ingress.boot; "
#define CLEAR "register_write_range switch_ingress.lives; "
#define SERVED                                                                     \
	"counter_read switch_ingress.served; counter_read switch_ingress.served; " \
	"counter_read switch_ingress.served; "
#define LOOK "register_read switch_ingress.boot; "

static const struct link_address local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
					   .port = 7171 };

static int setup(void **state)
{
	char error[CHIP_ERROR_BYTES];

	(void)state;
	play_begin();
	snprintf(text, sizeof(text), "127.0.0.1:%u", played.port);
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), 0);
	assert_said(SET_UP);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	chip->ops->close(chip);
	play_end();
	return 0;
}

static struct switch_job job_of(uint16_t idx, uint32_t slots)
{
	return (struct switch_job){ .generation = 7,
				    .index = idx,
				    .children = CHILDREN,
				    .slots = slots,
				    .lanes = 32,
				    .enabled = true };
}

static struct link_address address_of(uint16_t port)
{
	return (struct link_address){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
				      .port = port };
}

static int bind_to(uint32_t child, uint16_t port)
{
	struct link_address address = address_of(port);

	return chip->ops->bind(chip, JOB, child, &address, &way);
}

static void job_begin(void)
{
	struct switch_job job = job_of(JOB, SLOTS);

	assert_int_equal(chip->ops->add(chip, &job), 0);
	assert_said(LOOK SERVED CLEAR "mc_mgrp_destroy; mc_mgrp_create; ");
	assert_int_equal(bind_to(0, 100), 0);
	assert_said(LOOK "mt_add_entry switch_ingress.forwarding.hosts; mt_add_entry "
			 "switch_egress.children; mc_node_create; "
			 "mc_node_associate; mt_add_entry switch_ingress.addresses; ");
	assert_int_equal(chip->ops->set(chip, &job), 0);
	assert_said(LOOK "mt_add_entry switch_ingress.jobs; ");
}

static void chip__writes_a_job_and_takes_all_of_it_back(void **state)
{
	(void)state;
	job_begin();
	assert_int_equal(bind_to(0, 100), 0); /* the same: nothing to write */
	assert_said("");
	assert_int_equal(bind_to(0, 101), 0); /* another port of its host's */
	assert_said(
		LOOK
		"mt_delete_entry switch_ingress.addresses; mt_delete_entry switch_egress.children; "
		"mt_add_entry switch_egress.children; mc_node_update; mt_add_entry "
		"switch_ingress.addresses; ");
	assert_int_equal(bind_to(CHILDREN, 100), -ENOENT);
	chip->ops->remove(chip, JOB);
	assert_said(
		LOOK
		"mt_delete_entry switch_ingress.jobs; mt_delete_entry switch_ingress.addresses; "
		"mt_delete_entry switch_egress.children; mc_node_destroy; "
		"mt_delete_entry switch_ingress.forwarding.hosts; mc_mgrp_destroy; " CLEAR);
	chip->ops->remove(chip, JOB);
	assert_said("");
	assert_int_equal(bind_to(0, 100), -ENOENT);
}

/* Its words are others, and of the acknowledged form it has a table. */
static void chip__with_latency_mode_takes_jobs_of_it(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);
	char error[CHIP_ERROR_BYTES];

	(void)state;
	assert_false(chip->profile.is_latency);
	job.mode = SWITCH_LATENCY;
	assert_int_equal(chip->ops->add(chip, &job), -EINVAL);
	chip->ops->close(chip);
	played.lacks = "copies";
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), 0);
	assert_true(chip->profile.is_latency);
	assert_int_equal(chip->profile.slots, CHIP_BMV2_LATENCY_SLOTS);
	played.said[0] = '\0';
	job.slots = CHIP_BMV2_LATENCY_SLOTS;
	job.mode = SWITCH_LATENCY_ACKNOWLEDGED;
	assert_int_equal(chip->ops->add(chip, &job), 0);
	assert_said(
		LOOK SERVED
		"register_write_range switch_ingress.lives_lo; mc_mgrp_destroy; mc_mgrp_create; ");
	assert_int_equal(chip->ops->set(chip, &job), 0);
	assert_said(LOOK
		    "mt_add_entry switch_ingress.acknowledged; mt_add_entry switch_ingress.jobs; ");
	chip->ops->remove(chip, JOB);
	assert_said(LOOK "mt_delete_entry switch_ingress.jobs; mt_delete_entry "
			 "switch_ingress.acknowledged; mc_mgrp_destroy; register_write_range "
			 "switch_ingress.lives_lo; ");
	job = job_of(JOB, SLOTS);
	assert_int_equal(chip->ops->add(chip, &job), -EINVAL); /* dense */
	played.lacks = NULL;
	played.boot = 0;
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	assert_non_null(strstr(chip->error, "runs src/p4/dense.p4 now, and ran latency.p4 before"));
	played.boot = 0; /* reset_state, in simple_switch_CLI */
	played.lacks = "copies";
	played.has_no_rows = true;
	chip->ops->close(chip);
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), -EREMOTEIO);
	assert_non_null(strstr(error, "has lost the constant rows of its program"));
	played.has_no_rows = false;
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), 0);
	played.lacks = "switch_ingress";
	chip->ops->close(chip);
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), -EREMOTEIO);
	assert_non_null(strstr(error, "runs neither src/p4/dense.p4 nor src/p4/latency.p4"));
	played.lacks = "sum_";
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), -EREMOTEIO);
	assert_non_null(
		strstr(error, "runs src/p4/dense.p4 for fewer than 8,192 slots or 32 lanes"));
	played.lacks = NULL;
	played.slots = CHIP_BMV2_SLOTS - 1;
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), -EREMOTEIO);
	assert_non_null(strstr(error, "compile it without -DSLOTS and -DLANES"));
	played.slots = CHIP_BMV2_SLOTS;
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), 0);
	played.boot = 0;
	played.lacks = "sum_";
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	assert_non_null(strstr(chip->error, "cannot be set up: the switch at"));
}

/* Where its replica is in no group, a child hears of no result. */
static void chip__has_a_child_when_all_of_it_is_written(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);

	(void)state;
	assert_int_equal(chip->ops->add(chip, &job), 0);
	play_set(PLAY_ANSWER, "associate", 2);
	assert_int_equal(bind_to(0, 100), -EREMOTEIO);
	assert_int_equal(bind_to(0, 100), -EREMOTEIO);
	play_set(PLAY_ANSWER, NULL, 0);
	played.said[0] = '\0';
	assert_int_equal(bind_to(0, 100), 0);
	assert_said(LOOK
		    "mt_delete_entry switch_egress.children; mt_add_entry switch_egress.children; "
		    "mc_node_update; mc_node_associate; mt_add_entry switch_ingress.addresses; ");
	play_set(PLAY_UNSAID, "associate", 0);
	assert_int_equal(bind_to(1, 101), -ECONNRESET);
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->look(chip), CHIP_LOST); /* has it joined, or not? */
}

/* Frames to a host go where its children are, as long as there are some. */
static void chip__knows_where_hosts_are(void **state)
{
	struct link_address one = address_of(100), two = address_of(101);
	struct chip_way moved = way, own = { .port = 5 }; /* the loopback device's MAC is 0 */
	struct chip_way other = { .port = 5, .mac = { 2, 0, 0, 0, 0, 8 } };

	(void)state;
	job_begin();
	assert_int_equal(chip->ops->bind(chip, JOB, 1, &two, &own), -EINVAL);
	assert_non_null(strstr(chip->error, "the MAC of tallyd's own device"));
	assert_int_equal(chip->ops->bind(chip, JOB, 1, &two, &way), 0);
	played.said[0] = '\0';
	moved.port = 4;
	play_set(PLAY_ANSWER, "modify", 2);
	assert_int_equal(chip->ops->bind(chip, JOB, 0, &one, &moved), -EREMOTEIO);
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->bind(chip, JOB, 0, &one, &moved), 0);
	assert_non_null(strstr(played.said, "mt_modify_entry switch_ingress.forwarding.hosts"));
	played.said[0] = '\0';
	assert_int_equal(chip->ops->bind(chip, JOB, 0, &one, &other), 0);
	assert_null(strstr(played.said, "mt_delete_entry switch_ingress.forwarding.hosts"));
	assert_non_null(strstr(played.said, "mt_add_entry switch_ingress.forwarding.hosts"));
	played.said[0] = '\0';
	assert_int_equal(chip->ops->bind(chip, JOB, 1, &two, &other), 0);
	assert_non_null(strstr(played.said, "mt_delete_entry switch_ingress.forwarding.hosts"));
	assert_null(strstr(played.said, "mt_add_entry switch_ingress.forwarding.hosts"));
}

/* Slots are a job's alone, and are another's when it has gone. */
static void chip__gives_each_job_slots_of_its_own(void **state)
{
	struct switch_job all = job_of(1, CHIP_BMV2_SLOTS), half = job_of(2, CHIP_BMV2_SLOTS / 2);
	struct switch_job big = job_of(4, CHIP_BMV2_SLOTS / 2 + 1), many = job_of(4, 8);

	(void)state;
	assert_int_equal(chip->ops->add(chip, &half), 0);
	assert_int_equal(chip->ops->add(chip, &all), -ENOSPC);
	assert_non_null(strstr(chip->error, "all its slots are other jobs'"));
	assert_int_equal(chip->ops->add(chip, &big), -ENOSPC);
	half.index = 5;
	assert_int_equal(chip->ops->add(chip, &half), 0);
	assert_int_equal(chip->ops->add(chip, &half), -EEXIST);
	assert_int_equal(chip->ops->add(chip, &many), -ENOSPC);
	chip->ops->remove(chip, 2);
	assert_int_equal(chip->ops->add(chip, &many), 0);
	many.index = 6;
	many.children = CHIP_BMV2_CHILDREN + 1;
	assert_int_equal(chip->ops->add(chip, &many), -EINVAL);
}

/* R-CHIP-10: an empty switch is set up again, and who had a job there is told. */
static void chip__that_has_lost_all_says_so(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);

	(void)state;
	job_begin();
	assert_int_equal(chip->ops->look(chip), CHIP_NO_NEWS);
	assert_said(LOOK);
	played.boot = 0;
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	assert_non_null(strstr(chip->error, "was started again or reset: the sums in it are lost"));
	assert_said(LOOK SET_UP);
	assert_int_equal(chip->ops->look(chip), CHIP_NO_NEWS);
	assert_said(LOOK);
	assert_int_equal(chip->ops->set(chip, &job),
			 -ENOENT); /* never the same life in empty slots */
	chip->ops->remove(chip, JOB);
	assert_said(LOOK);
	assert_int_equal(chip->ops->add(chip, &job), 0);
}

/* R-CHIP-10 */
static void chip__of_another_tallyd_is_left_alone(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);

	(void)state;
	job_begin();
	played.boot++;
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	assert_non_null(strstr(chip->error, "is another tallyd's now"));
	assert_said(LOOK);
	assert_int_equal(chip->ops->look(chip), CHIP_NO_NEWS);
	assert_int_equal(chip->ops->add(chip, &job), -ENOTCONN);
	chip->ops->remove(chip, JOB);
	assert_said("");
}

/* A connection that breaks harms no job. What ended meanwhile is taken back later, before its slots are another's. */
static void chip__that_answers_again_has_lost_nothing(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);

	(void)state;
	job_begin();
	play_set(PLAY_HANG_UP, NULL, 0);
	chip->ops->remove(chip, JOB);
	assert_said("");
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->add(chip, &job), -ENOTCONN);
	assert_non_null(strstr(chip->error, "does not answer"));
	assert_int_equal(chip->ops->look(chip), CHIP_WORD);
	assert_non_null(strstr(chip->error, "answers again, and has lost nothing"));
	assert_said(
		LOOK
		"mt_delete_entry switch_ingress.jobs; mt_delete_entry switch_ingress.addresses; "
		"mt_delete_entry switch_egress.children; mc_node_destroy; "
		"mt_delete_entry switch_ingress.forwarding.hosts; mc_mgrp_destroy; " CLEAR);
	assert_int_equal(chip->ops->add(chip, &job), 0);
}

/* The kernel goes on taking connections for a process that is stopped. */
static void chip__that_never_answers_is_lost(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS);
	enum chip_news news = CHIP_NO_NEWS;

	(void)state;
	job_begin();
	play_set(PLAY_SILENCE, NULL, 0);
	for (uint32_t i = 0; i < 4 && !news; i++)
		news = chip->ops->look(chip);
	assert_int_equal(news, CHIP_LOST);
	assert_non_null(strstr(chip->error, "does not answer, and has not for 5 s"));
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->look(chip), CHIP_WORD);
	assert_said(LOOK SET_UP);
	assert_int_equal(chip->ops->add(chip, &job), 0);
}

/* It may have a group of which we have no handle: nothing but a reset takes that back. */
static void chip__whose_answer_to_a_create_was_lost_is_emptied(void **state)
{
	struct switch_job job = job_of(5, SLOTS);

	(void)state;
	job_begin();
	play_set(PLAY_UNSAID, "mgrp_create", 0);
	assert_int_equal(chip->ops->add(chip, &job), -ECONNRESET);
	assert_non_null(strstr(chip->error, "mgrp_create: it has closed the connection"));
	assert_said(LOOK SERVED CLEAR "mc_mgrp_destroy; mc_mgrp_create; ");
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	assert_non_null(strstr(chip->error, "so it was emptied"));
	assert_said(LOOK SET_UP);
	assert_int_equal(chip->ops->look(chip), CHIP_NO_NEWS);
	assert_said(LOOK);
	assert_int_equal(chip->ops->add(chip, &job), 0);
}

static void chip__that_fails_says_what_failed_first(void **state)
{
	struct switch_job job = job_of(5, SLOTS);

	(void)state;
	job_begin();
	play_set(PLAY_UNSAID, "counter_read", 0);
	assert_int_equal(chip->ops->add(chip, &job), -ECONNRESET);
	assert_non_null(
		strstr(chip->error, "counter_read of switch_ingress.served: it has closed"));
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip->ops->look(chip), CHIP_WORD);
	assert_int_equal(chip->ops->add(chip, &job), 0);
}

/* R-CHIP-10: be it empty or another's, it is looked at before it is written to. */
static void chip__that_is_not_ours_is_not_written_to(void **state)
{
	struct switch_job job = job_of(JOB, SLOTS), other = job_of(5, SLOTS);

	(void)state;
	job_begin();
	played.boot++;
	assert_int_equal(chip->ops->add(chip, &other), -ENOTCONN);
	assert_non_null(strstr(chip->error, "was started again, or is another tallyd's"));
	assert_int_equal(chip->ops->set(chip, &job), -ENOTCONN);
	assert_int_equal(bind_to(0, 101), -ENOTCONN);
	chip->ops->remove(chip, JOB);
	assert_said(LOOK LOOK LOOK LOOK);
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
}

static void chip__counts_over_restarts(void **state)
{
	uint64_t verdict[SWITCH_VERDICT_COUNT];
	struct chip_served served;

	(void)state;
	played.counter = 5;
	job_begin();
	played.counter = 12;
	chip->ops->served(chip, JOB, &served);
	assert_int_equal(served.updates, 7);
	assert_int_equal(served.results, 7);
	chip->ops->counts(chip, verdict);
	assert_int_equal(verdict[SWITCH_ABSORB], 12);
	played.counter = 3; /* somebody has reset them */
	chip->ops->served(chip, JOB, &served);
	assert_int_equal(served.updates, 0);
	played.boot = 0;
	assert_int_equal(chip->ops->look(chip), CHIP_LOST);
	played.counter = 1;
	chip->ops->counts(chip, verdict);
	assert_int_equal(verdict[SWITCH_ABSORB], 13);
}

static void chip__is_not_opened_where_it_cannot_serve(void **state)
{
	struct link_address nowhere = address_of(7171);
	struct chip *other = NULL;
	char error[CHIP_ERROR_BYTES];

	(void)state;
	assert_int_equal(chip_bmv2_open(&other, text, &nowhere, error), -EADDRNOTAVAIL);
	assert_non_null(strstr(error, "10.0.0.1:7171 is on no device"));
	assert_int_equal(chip_bmv2_open(&other, "a b", &local, error), -ENOENT);
	assert_int_equal(chip_bmv2_open(&other, "127.0.0.1:1", &local, error), -ECONNREFUSED);
	assert_non_null(strstr(error, "is simple_switch there"));
	chip->ops->close(chip); /* the switch that is played has one at a time */
	played.has_no_cpu_port = true;
	assert_int_equal(chip_bmv2_open(&other, text, &local, error), -ENODEV);
	assert_non_null(strstr(error, "has no port 64"));
	played.has_no_cpu_port = false;
	play_set(PLAY_ANSWER, "add_entry", 7);
	assert_int_equal(chip_bmv2_open(&other, text, &local, error), -EREMOTEIO);
	assert_non_null(strstr(
		error,
		"of switch_ingress.here: there is no such table: does it run tally's program"));
	assert_null(other);
	play_set(PLAY_ANSWER, NULL, 0);
	assert_int_equal(chip_bmv2_open(&chip, text, &local, error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chip__writes_a_job_and_takes_all_of_it_back, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__with_latency_mode_takes_jobs_of_it, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__has_a_child_when_all_of_it_is_written, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__knows_where_hosts_are, setup, teardown),
		cmocka_unit_test_setup_teardown(chip__gives_each_job_slots_of_its_own, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__that_has_lost_all_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(chip__of_another_tallyd_is_left_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__that_answers_again_has_lost_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__that_never_answers_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(chip__whose_answer_to_a_create_was_lost_is_emptied,
						setup, teardown),
		cmocka_unit_test_setup_teardown(chip__that_fails_says_what_failed_first, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__that_is_not_ours_is_not_written_to, setup,
						teardown),
		cmocka_unit_test_setup_teardown(chip__counts_over_restarts, setup, teardown),
		cmocka_unit_test_setup_teardown(chip__is_not_opened_where_it_cannot_serve, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
