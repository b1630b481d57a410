/* SPDX-License-Identifier: Apache-2.0 */
/* R-CT-59: a pair whose other rank has left the job that the two are of. */
#include "core/job/admission_fixture.h"

enum { LIFE = 0x77 };

/* The job that a pair is of: three ranks, of whom rank 1 has left. */
static struct admission *first;

static struct admission *copy_of(const struct admission *state)
{
	return memcpy(malloc(admission_bytes(&t.config)), state, admission_bytes(&t.config));
}

static int set_up_pair(void **state)
{
	set_up(state);
	bring_to(ADMISSION_STARTED, 10, 3);
	say_leave(11, 0);
	first = copy_of(t.admission);
	first->life = LIFE;
	admission_init(t.admission, &t.config);
	t.config.job = "run/0-1";
	t.config.life = LIFE;
	t.done[0] = 0;
	return 0;
}

static int tear_down_pair(void **state)
{
	free(first);
	return tear_down(state);
}

static bool ask(const char *name, struct admission_event *event)
{
	struct admission_config config = t.config;

	memset(event, 0, sizeof(*event));
	config.job = name;
	return admission_is_deserted(t.admission, &config, first, event);
}

static void assert_deserted(const char *name, uint32_t rank, uint32_t other)
{
	struct admission_event event;

	assert_true(ask(name, &event));
	assert_int_equal(event.type, ADMISSION_DESERTED);
	assert_int_equal(event.rank, rank);
	assert_int_equal(event.other, other);
	assert_string_equal(event.text, "host11");
}

static void assert_waits(const char *name)
{
	struct admission_event event;

	assert_false(ask(name, &event));
	assert_null(event.text);
}

static void pair__is_deserted_if_who_is_missing_has_left(void **state)
{
	(void)state;
	join(20, 0, 2);
	assert_deserted("run/0-1", 1, 1);
	assert_deserted("run/2-1", 1, 1);
	assert_deserted("a/b-1/0-1", 1, 1);
	assert_waits("run/0-2");
	assert_waits("run/1-2"); /* who has left is in */
	assert_waits("run/0-3"); /* no rank of the job */
	assert_waits("run/0-300");
	assert_waits("run/0-257");
	assert_waits("run/0-4294967297");
	close_connection(20);
	admission_init(t.admission, &t.config);
	join(21, 1, 2);
	assert_deserted("run/1-0", 0, 1);
	assert_deserted("run/1-2", 0, 1);
	assert_waits("run/0-1");
	assert_waits("run/2-0");
}

static void pair__is_known_by_its_name_and_life(void **state)
{
	static const char *const names[] = { "run",      "run/0",    "run/0.1",  "run/0-1x",
					     "run/x0-1", "run/0--1", "0-1",      "run/-1",
					     "run/0-",   "run/",     "run/0-1/", "run/0-1-1",
					     "run/0 -1", "" };
	struct admission_event event;

	(void)state;
	join(20, 0, 2);
	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_waits(names[i]);
	t.config.life = LIFE + 1;
	assert_waits("run/0-1");
	t.config.life = first->life = 0; /* of none, and not granted */
	assert_waits("run/0-1");
	t.config.life = first->life = LIFE;
	assert_true(ask("run/0-1", &event));
	t.admission->size = 3;
	assert_waits("run/0-1");
}

static void pair__is_not_deserted_while_nobody_has_left(void **state)
{
	struct admission_member *member = admission_member(first, 1);

	(void)state;
	join(20, 0, 2);
	for (uint8_t presence = 0; presence <= ADMISSION_GONE; presence++) {
		member->presence = presence;
		if (presence != ADMISSION_LEFT)
			assert_waits("run/0-1");
	}
	member->presence = ADMISSION_LEFT;
	assert_deserted("run/0-1", 1, 1);
}

static void deserted_step(void)
{
	step((struct admission_event){
		.type = ADMISSION_DESERTED, .rank = 1, .other = 5, .text = "hostx" });
}

static const char text[] =
	"job \"run/0-1\": rank 5 on hostx has finalized, and will not call tally_recv";

static void pair__that_is_deserted_ends_and_says_who_has_left(void **state)
{
	(void)state;
	join(20, 0, 2);
	deserted_step();
	assert_done("deny>20 close>20");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE, text);
	assert_state(ADMISSION_NONE);
	wait_seconds(60);
	join(21, 1, 2); /* it says so to whom it has not told */
	assert_done("deny>21 close>21");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE, text);
	join(22, 1, 2);
	step((struct admission_event){
		.type = ADMISSION_DESERTED, .rank = 0, .other = 4, .text = "hosty" });
	assert_done("deny>22 close>22");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE,
		    "job \"run/0-1\": rank 4 on hosty has finalized, and will not call tally_send");
}

static void pair__that_both_have_joined_is_not_ended(void **state)
{
	struct admission_event event;

	(void)state;
	deserted_step();
	assert_state(ADMISSION_NONE);
	join(21, 1, 2);
	deserted_step(); /* it is in */
	step((struct admission_event){ .type = ADMISSION_DESERTED, .rank = 2, .text = "hostx" });
	assert_done("");
	assert_state(ADMISSION_GATHER);
	join(20, 0, 2);
	acknowledge(ADMISSION_JOB_ADD);
	t.done[0] = 0;
	deserted_step();
	assert_done("");
	assert_state(ADMISSION_GRANTED);
	admission_member(t.admission, 1)->presence = ADMISSION_ABSENT;
	assert_false(admission_is_deserted(t.admission, &t.config, first, &event));
}

/* R-CT-58 */
static void pair__names_its_ranks_as_the_first_job_does(void **state)
{
	(void)state;
	t.config.job = "run/7-2";
	bring_to(ADMISSION_STARTED, 10, 2);
	close_connection(11);
	assert_text(CONTROL_REMOTE, 1,
		    "rank 2 on host11 died: process 111 has closed its connection without leaving");
}

#define T(claim) cmocka_unit_test_setup_teardown(claim, set_up_pair, tear_down_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(pair__is_deserted_if_who_is_missing_has_left),
		T(pair__is_known_by_its_name_and_life),
		T(pair__is_not_deserted_while_nobody_has_left),
		T(pair__that_is_deserted_ends_and_says_who_has_left),
		T(pair__that_both_have_joined_is_not_ended),
		T(pair__names_its_ranks_as_the_first_job_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
