/* SPDX-License-Identifier: Apache-2.0 */
/* unite_test.c - gatherings of one name, each of another program: who is told what and how often, when they become
 * one, and which never do (R-CT-24). The time is the test's. */
#include "server/inside_fixture.h"

enum { TOLD_MAX = 32, STEPS_MAX = 16 };

static const char here[] = "all 3 ranks are here, but with several command lines";
static const char twice[] = "a rank of this name, which is a launcher's, is here twice";

static struct {
	struct {
		uint32_t connection;
		char text[CONTROL_TEXT_BYTES];
	} told[TOLD_MAX];
	uint32_t told_count;
	struct {
		const struct job *job;
		enum admission_event_type type;
		uint32_t connection;
	} steps[STEPS_MAX];
	uint32_t steps_count;
} seen;

void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message);
void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event);

void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(message->type, CONTROL_PROGRESS);
	assert_true(seen.told_count < TOLD_MAX);
	seen.told[seen.told_count].connection = peer->handle;
	snprintf(seen.told[seen.told_count++].text, CONTROL_TEXT_BYTES, "%s",
		 message->progress.text);
}

void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event)
{
	assert_ptr_equal(server, &test.server);
	assert_true(seen.steps_count < STEPS_MAX);
	seen.steps[seen.steps_count].job = job;
	seen.steps[seen.steps_count].type = event->type;
	seen.steps[seen.steps_count++].connection = event->peer ? event->peer->connection : 0;
	if (event->type == ADMISSION_YIELD)
		job->admission->state = ADMISSION_NONE;
}

static uint32_t handle_of(uint32_t index)
{
	return PEERS_MAX + index;
}

static struct job *gathering(uint32_t index, const char *name, uint16_t size)
{
	struct job *job = inside_job(index, name, ADMISSION_GATHER, size);

	job->program = 100 + index;
	return job;
}

/* `rank` has come to it, on connection `peer`. */
static struct admission_peer *come(struct job *job, uint32_t rank, uint32_t peer)
{
	struct admission_member *member = inside_member(job, rank, ADMISSION_JOINED, "a");

	test.peers[peer] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
					  .handle = handle_of(peer),
					  .job = job->index };
	member->peer.connection = handle_of(peer);
	member->peer.joined_ns = test.now_ns;
	member->peer.is_launched = 1;
	return &member->peer;
}

static void unite(void)
{
	memset(&seen, 0, sizeof(seen));
	jobs_unite(&test.server, test.now_ns);
}

static void assert_told(uint32_t i, uint32_t peer, const char *name, const char *words)
{
	char begin[32];

	assert_true(i < seen.told_count);
	assert_int_equal(seen.told[i].connection, handle_of(peer));
	snprintf(begin, sizeof(begin), "job \"%s\": ", name);
	assert_memory_equal(seen.told[i].text, begin, strlen(begin));
	assert_memory_equal(seen.told[i].text + strlen(begin), words, strlen(words));
}

/* A program for each rank: the second one of the list has rank 0. */
static void put_mpmd(void)
{
	come(gathering(2, "mpmd", 3), 1, 1);
	test.now_ns += second_ns;
	come(gathering(5, "mpmd", 3), 0, 2);
	test.now_ns += second_ns;
	come(gathering(7, "mpmd", 3), 2, 3);
}

static void not_launched(void)
{
	admission_member(test.job[2].admission, 1)->peer.is_launched = 0;
	admission_member(test.job[5].admission, 0)->peer.is_launched = 0;
	admission_member(test.job[7].admission, 2)->peer.is_launched = 0;
}

static void unite__all_are_told_after_a_while_and_stay_apart(void **state)
{
	uint64_t from_ns;

	(void)state;
	put_mpmd();
	from_ns = test.now_ns;
	for (int again = 0; again < 2; again++) {
		unite();
		assert_int_equal(seen.told_count, 0);
		assert_true(test.server.unite_ns == from_ns + 2 * second_ns);
		test.now_ns = from_ns + 2 * second_ns - 1;
		unite();
		assert_int_equal(seen.told_count, 0);
		test.now_ns++;
		unite();
		assert_int_equal(seen.told_count, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_told(i, 1 + i, "mpmd", here);
		assert_true(test.server.unite_ns == UINT64_MAX);
		test.now_ns += 10000 * second_ns; /* no time says what they are */
		unite();
		assert_int_equal(seen.told_count + seen.steps_count, 0);
		/* One comes anew: they hear of it again. */
		from_ns = test.now_ns;
		admission_member(test.job[7].admission, 2)->peer.joined_ns = from_ns;
	}
}

static void unite__who_can_have_no_second_program_are_one_at_once(void **state)
{
	static const struct {
		uint32_t job;
		enum admission_event_type type;
		uint32_t connection;
	} steps[] = { { 2, ADMISSION_YIELD, 0 },
		      { 5, ADMISSION_ADOPT, PEERS_MAX + 1 },
		      { 7, ADMISSION_YIELD, 0 },
		      { 5, ADMISSION_ADOPT, PEERS_MAX + 3 } };

	(void)state;
	put_mpmd();
	not_launched();
	unite();
	assert_int_equal(seen.told_count, 0);
	assert_int_equal(seen.steps_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_ptr_equal(seen.steps[i].job, &test.job[steps[i].job]);
		assert_int_equal(seen.steps[i].type, steps[i].type);
		assert_int_equal(seen.steps[i].connection, steps[i].connection);
	}
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(test.peers[i].job, 5);
	assert_true(test.server.unite_ns == UINT64_MAX);
}

static void unite__who_has_gone_meanwhile_is_neither_told_nor_adopted(void **state)
{
	(void)state;
	put_mpmd();
	test.peers[3].handle += PEERS_MAX; /* somebody else's by now */
	test.now_ns += 2 * second_ns;
	unite();
	assert_int_equal(seen.told_count, 2);
	assert_told(1, 2, "mpmd", here);
	not_launched();
	unite();
	assert_int_equal(seen.steps_count, 3);
	assert_ptr_equal(seen.steps[2].job, &test.job[7]);
	assert_int_equal(seen.steps[2].type, ADMISSION_YIELD);
	assert_int_equal(test.peers[3].job, 7);
}

static void unite__no_other_job_of_the_name_is_a_part_of_it(void **state)
{
	(void)state;
	come(gathering(0, "mpmd", 2), 1, 1);
	test.job[0].program = 0; /* the user's name */
	come(gathering(1, "mpmd", 2), 1, 2);
	test.job[1].life = 9; /* a part of another job */
	come(gathering(2, "mpmd", 2), 1, 3);
	test.job[2].admission->state = ADMISSION_GRANTED;
	come(gathering(3, "other", 2), 1, 4);
	come(gathering(4, "mpmd", 2), 0, 5);
	unite();
	assert_int_equal(seen.told_count, 0);
	assert_true(test.server.unite_ns == UINT64_MAX);
	test.now_ns += 20 * second_ns;
	unite();
	assert_int_equal(seen.told_count + seen.steps_count, 0);
	come(gathering(5, "mpmd", 2), 1, 6);
	test.now_ns += 2 * second_ns;
	unite();
	assert_int_equal(seen.told_count, 2);
	assert_told(0, 5, "mpmd", "all 2 ranks are here");
	assert_told(1, 6, "mpmd", "all 2 ranks are here");
}

static void unite__of_two_names_the_loop_looks_at_the_sooner(void **state)
{
	uint64_t sooner_ns;

	(void)state;
	put_mpmd();
	sooner_ns = test.now_ns + 2 * second_ns;
	test.now_ns += second_ns;
	come(gathering(8, "late", 2), 0, 4);
	come(gathering(9, "late", 2), 1, 5);
	unite();
	assert_int_equal(seen.told_count, 0);
	assert_true(test.server.unite_ns == sooner_ns);
	test.now_ns = sooner_ns;
	unite();
	assert_int_equal(seen.told_count, 3);
	assert_true(test.server.unite_ns == sooner_ns + second_ns);
	test.now_ns += second_ns;
	unite();
	assert_int_equal(seen.told_count, 2);
	assert_told(1, 5, "late", "all 2 ranks are here");
}

static void unite__where_a_rank_is_twice_they_stay_apart_and_hear_so_once(void **state)
{
	uint64_t from_ns;

	(void)state;
	come(gathering(1, "two", 3), 0, 1);
	come(gathering(4, "two", 3), 0, 2);
	come(&test.job[4], 1, 3);
	from_ns = test.now_ns;
	unite();
	assert_int_equal(seen.told_count, 0);
	assert_true(test.server.unite_ns == from_ns + 2 * second_ns);
	test.now_ns = from_ns + 2 * second_ns - 1;
	unite();
	assert_int_equal(seen.told_count, 0);
	assert_true(test.server.unite_ns == from_ns + 2 * second_ns);
	test.now_ns++;
	unite();
	assert_int_equal(seen.told_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_told(i, 1 + i, "two", twice);
	assert_true(test.server.unite_ns == UINT64_MAX);
	test.now_ns += second_ns;
	unite();
	assert_int_equal(seen.told_count, 0);
	/* One of them has gone: what is left with the others is complete, and yet several jobs. */
	test.job[1].admission->state = ADMISSION_NONE;
	come(gathering(6, "two", 3), 2, 4);
	test.now_ns += 20 * second_ns;
	unite();
	assert_int_equal(seen.steps_count, 0);
	assert_int_equal(seen.told_count, 1); /* who is new */
	assert_told(0, 4, "two", twice);
	assert_int_equal(test.job[1].apart_ns, 0);
	/* After their end the name may be one job's. */
	test.job[4].admission->state = test.job[6].admission->state = ADMISSION_NONE;
	unite();
	test.job[4].admission->state = test.job[6].admission->state = ADMISSION_GATHER;
	for (uint16_t rank = 0; rank < 3; rank++)
		admission_member(test.job[rank < 2 ? 4 : 6].admission, rank)->peer.is_launched = 0;
	unite();
	assert_int_equal(seen.steps_count, 2);
	assert_int_equal(test.peers[4].job, 4);
}

static void unite__of_one_more_that_is_refused_who_gathers_hears_once(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	come(gathering(1, "many", 3), 2, 1);
	come(gathering(3, "other", 3), 2, 2);
	come(gathering(4, "many", 3), 0, 3);
	test.job[4].program = 0; /* the user's name */
	come(gathering(JOBS - 1, "many", 3), 1, 4);
	for (int again = 0; again < 2; again++) {
		jobs_tell_refused(&test.server, "many");
		assert_int_equal(seen.told_count, 2);
	}
	for (uint32_t i = 0; i < 2; i++)
		assert_told(i, i ? 4 : 1, "many",
			    "one more command line of this name, which is a launcher's, was "
			    "refused: if they are one job, you wait in vain: give them one "
			    "TALLY_JOB, else each its own");
	/* After its end the name may be another's, who has not heard it. */
	test.job[1].admission->state = ADMISSION_NONE;
	unite();
	test.job[1].admission->state = ADMISSION_GATHER;
	jobs_tell_refused(&test.server, "many");
	assert_int_equal(seen.told_count, 1);
	assert_int_equal(seen.told[0].connection, handle_of(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INSIDE_TEST(unite__all_are_told_after_a_while_and_stay_apart),
		INSIDE_TEST(unite__who_can_have_no_second_program_are_one_at_once),
		INSIDE_TEST(unite__who_has_gone_meanwhile_is_neither_told_nor_adopted),
		INSIDE_TEST(unite__no_other_job_of_the_name_is_a_part_of_it),
		INSIDE_TEST(unite__of_two_names_the_loop_looks_at_the_sooner),
		INSIDE_TEST(unite__where_a_rank_is_twice_they_stay_apart_and_hear_so_once),
		INSIDE_TEST(unite__of_one_more_that_is_refused_who_gathers_hears_once),
	};

	return cmocka_run_group_tests_name("server-unite", tests, NULL, NULL);
}
