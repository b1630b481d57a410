/* SPDX-License-Identifier: Apache-2.0 */
/* Two programs of one launch, two jobs of one name, a program for each rank: over sockets. R-CT-23, R-CT-24. */
#include "server/server_fixture.h"

static uint64_t processes;

static struct control_join launched(uint64_t program, uint64_t boot)
{
	return (struct control_join){ .kind = CONTROL_WORKER,
				      .is_launched = 1,
				      .program = program,
				      .boot = boot,
				      .process = ++processes };
}

static void open_all(struct client *clients, int count, const char *address)
{
	for (int i = 0; i < count; i++)
		client_open(&clients[i], address);
}

static void close_all(struct client *clients, int count)
{
	for (int i = 0; i < count; i++)
		client_close(&clients[i]);
}

static uint64_t life_of(struct client *client)
{
	client_expect(client, CONTROL_GRANT, 2 * LONG_MS);
	return client->message.grant.life;
}

static void server__gathers_the_programs_of_one_launch_apart(void **state)
{
	struct server *server = test_server((struct server_options){ 0 });
	struct client a[2], b[2];
	uint64_t lives[2];
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(a, 2, address);
	open_all(b, 2, address);
	client_join_as(&a[0], "slurm-7.0", 0, 2, launched(1, 9));
	client_join_as(&b[1], "slurm-7.0", 1, 2, launched(2, 9));
	client_join_as(&a[1], "slurm-7.0", 1, 2, launched(1, 9));
	client_join_as(&b[0], "slurm-7.0", 0, 2, launched(2, 9));
	lives[0] = life_of(&a[0]);
	lives[1] = life_of(&b[0]);
	assert_true(lives[0] != lives[1]);
	assert_true(life_of(&a[1]) == lives[0]);
	assert_true(life_of(&b[1]) == lives[1]);
	close_all(a, 2);
	close_all(b, 2);
	server_close(server);
}

/* The user's name is one job, whatever its ranks are called with. */
static void server__gathers_the_users_name_whatever_runs(void **state)
{
	struct server *server = test_server((struct server_options){ 0 });
	struct client clients[2];
	uint64_t life;
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(clients, 2, address);
	for (uint16_t rank = 0; rank < 2; rank++)
		client_join_as(&clients[rank], "mine", rank, 2,
			       (struct control_join){ .boot = 9, .process = ++processes });
	life = life_of(&clients[0]);
	assert_true(life_of(&clients[1]) == life);
	close_all(clients, 2);
	server_close(server);
}

/* What each hears next, whoever hears it first: both answer the PINGs of the other's claim. */
static void expect_both(struct client *one, enum control_type type, struct client *other,
			enum control_type other_type)
{
	bool has_one = false, has_other = false;

	for (int looks = LONG_MS / 20; looks && !(has_one && has_other); looks--) {
		has_one = has_one || client_next(one, 10);
		has_other = has_other || client_next(other, 10);
	}
	assert_true(has_one && has_other);
	assert_int_equal(one->message.type, type);
	assert_int_equal(other->message.type, other_type);
}

/* As tally run has started it itself: no second program can have its rank. */
static struct control_join alone(uint64_t program)
{
	struct control_join join = launched(program, 9);

	join.is_launched = 0;
	return join;
}

/* It hears that in a PROGRESS, and no other message. */
static void progress_wait(struct client *client, const char *words)
{
	client->awaited = words;
	for (int looks = LONG_MS / 10; looks && client->awaited; looks--)
		assert_false(client_next(client, 10));
	assert_null(client->awaited);
}

/* Whether they are one or two nobody can say: they are told, and wait. */
static void server__gathers_what_is_complete_together_apart_and_says_so(void **state)
{
	struct server *server = test_server((struct server_options){ .heartbeat_ms = 60000 });
	struct client parts[3], twice[3];
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(parts, 3, address);
	open_all(twice, 3, address);
	for (uint16_t i = 0; i < 3; i++) {
		client_join_as(&parts[i], "parts", i, 3, launched(1u + i, 9));
		client_join_as(&twice[i], "twice", i / 2, 2, launched(1u + i, 9));
	}
	for (int i = 0; i < 3; i++) {
		progress_wait(&parts[i],
			      "all 3 ranks are here, but with several command lines, and the name "
			      "is a launcher's: if they are one job, give them one TALLY_JOB");
		progress_wait(&twice[i], "is here twice");
	}
	/* One of the two has gone: what is left is complete, and no job. */
	client_close(&twice[1]);
	assert_false(client_next(&twice[0], 100));
	assert_false(client_next(&twice[2], 10));
	close_all(parts, 3);
	client_close(&twice[0]);
	client_close(&twice[2]);
	server_close(server);
}

static void server__makes_one_job_of_a_program_for_each_rank_but_not_with_the_users(void **state)
{
	struct server *server = test_server((struct server_options){ .heartbeat_ms = 60000 });
	struct client clients[4], users[2], other;
	uint64_t life;
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(clients, 4, address);
	open_all(users, 2, address);
	open_all(&other, 1, address);
	client_join_as(&users[0], "7.0", 0, 2, (struct control_join){ .process = ++processes });
	client_join_as(&other, "7.0", 1, 2, alone(1));
	for (uint16_t rank = 0; rank < 3; rank++)
		client_join_as(&clients[rank], "mpmd", rank, 3, alone(1u + rank));
	life = life_of(&clients[0]);
	assert_true(life_of(&clients[1]) == life);
	assert_true(life_of(&clients[2]) == life);
	assert_true(book_has("another command line than other ranks of this name"));
	/* Each of their programs is known to be in it now, and two of one rank were no one job. */
	client_join_as(&clients[3], "mpmd", 2, 3, launched(3, 9));
	expect_both(&clients[2], CONTROL_ABORT, &clients[3], CONTROL_DENY);
	/* The user's is another job, whose rank may come at any time. */
	client_join_as(&users[1], "7.0", 1, 2, (struct control_join){ .process = ++processes });
	life = life_of(&users[0]);
	assert_true(life_of(&users[1]) == life);
	assert_false(client_next(&other, 10));
	close_all(clients, 4);
	close_all(users, 2);
	close_all(&other, 1);
	server_close(server);
}

static void server__gathers_4_programs_of_a_name_apart_and_refuses_more(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = 10 });
	struct client clients[7];
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(clients, 7, address);
	for (uint16_t rank = 0; rank < 4; rank++) {
		client_join_as(&clients[rank], "many", rank, 40, launched(1u + rank, 9));
		assert_false(client_next(&clients[rank], 10));
	}
	for (uint16_t rank = 4; rank < 6; rank++) {
		/* One is enough that may be a second program's. */
		client_join_as(&clients[rank], "many", rank, 40,
			       rank == 4 ? launched(5, 9) : alone(6));
		client_expect(&clients[rank], CONTROL_DENY, LONG_MS);
		assert_int_equal(clients[rank].message.end.cause, CONTROL_DENIED);
		assert_non_null(strstr(clients[rank].message.end.text,
				       "4 command lines of this name, which is a launcher's, "
				       "gather already: if they are one job, give them one "
				       "TALLY_JOB, else each its own"));
	}
	for (uint16_t rank = 0; rank < 4; rank++) {
		clients[rank].awaited = "one more command line of this name, which is a "
					"launcher's, was refused";
		assert_false(client_next(&clients[rank], 10));
		assert_null(clients[rank].awaited); /* once: what follows would be taken, too */
		clients[rank].awaited = "one more command line";
		assert_false(client_next(&clients[rank], 10));
		assert_non_null(clients[rank].awaited);
	}
	/* The user's job of this name is none of them. */
	client_join_as(&clients[6], "many", 0, 1, (struct control_join){ .process = ++processes });
	client_expect(&clients[6], CONTROL_GRANT, LONG_MS);
	close_all(clients, 7);
	server_close(server);
}

/* Who does not know the key hears that, and nothing of the others. */
static void server__refuses_a_wrong_key_before_one_program_too_many(void **state)
{
	struct server *server =
		test_server((struct server_options){ .jobs_max = 16, .key = "sesame" });
	struct client clients[5];
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(clients, 5, address);
	for (uint16_t rank = 0; rank < 5; rank++) {
		struct control_join join = launched(1u + rank, 9);

		strcpy(join.key, rank < 4 ? "sesame" : "mustard");
		client_join_as(&clients[rank], "many", rank, 40, join);
		if (rank < 4)
			assert_false(client_next(&clients[rank], 10));
	}
	client_expect(&clients[4], CONTROL_DENY, LONG_MS);
	assert_string_equal(clients[4].message.end.text,
			    "job \"many\": rank 4 on node4 gave a key that is not this "
			    "aggregator's");
	close_all(clients, 5);
	server_close(server);
}

/* 40 command lines of one tally run are no 40 jobs. */
static void server__makes_one_job_of_many_programs(void **state)
{
	enum { RANKS = 40 };
	struct server *server = test_server((struct server_options){ .jobs_max = 8 });
	struct client clients[RANKS];
	char address[32];
	uint64_t life;

	(void)state;
	tcp_address(server, address);
	open_all(clients, RANKS, address);
	for (uint16_t rank = 0; rank < RANKS; rank++)
		client_join_as(&clients[rank], "mpmd", rank, RANKS, alone(1u + rank));
	life = life_of(&clients[0]);
	for (int rank = 1; rank < RANKS; rank++)
		assert_true(life_of(&clients[rank]) == life);
	close_all(clients, RANKS);
	server_close(server);
}

static void server__ends_two_programs_of_one_command_line(void **state)
{
	struct server *server = test_server((struct server_options){ 0 });
	struct client a[2], b[2];
	char address[32];

	(void)state;
	tcp_address(server, address);
	open_all(a, 2, address);
	open_all(b, 2, address);
	client_join_as(&a[0], "twins", 0, 2, launched(1, 9));
	client_join_as(&b[1], "twins", 1, 2, launched(1, 9)); /* it is mixed */
	client_expect(&a[0], CONTROL_GRANT, LONG_MS);
	client_expect(&b[1], CONTROL_GRANT, LONG_MS);
	client_join_as(&a[1], "twins", 1, 2, launched(1, 9));
	expect_both(&a[1], CONTROL_DENY, &b[1], CONTROL_ABORT);
	client_expect(&a[0], CONTROL_ABORT, NEWS_MS);
	assert_int_equal(b[1].message.end.cause, CONTROL_DENIED);
	assert_non_null(strstr(a[1].message.end.text,
			       "two programs of one launch: give each its TALLY_JOB"));
	client_close(&a[0]);
	client_close(&b[1]);
	client_join_as(&b[0], "twins", 0, 2, launched(1, 9));
	client_expect(&b[0], CONTROL_DENY, LONG_MS);
	assert_non_null(strstr(b[0].message.end.text, "two programs of one launch"));
	client_close(&a[1]);
	client_close(&b[0]);
	server_close(server);
}

/* Each launcher says that both ranks are on its host: neither can be mixed with the other, in any order. */
static void server__takes_no_rank_of_another_host_into_a_job_of_one(void **state)
{
	struct server *server = test_server((struct server_options){ 0 });
	struct client a[2], b[2];
	char address[32];

	(void)state;
	tcp_address(server, address);
	for (uint32_t first = 0; first < 2; first++) {
		struct control_join here = launched(1, 100 + first), there = launched(1, 200);
		char name[16];

		here.local_size = there.local_size = 2;
		snprintf(name, sizeof(name), "hosts%u", first);
		open_all(a, 1, address);
		open_all(b, 1, address);
		client_join_as(&a[0], name, (uint16_t)first, 2, here);
		client_join_as(&b[0], name, (uint16_t)!first, 2, there);
		client_expect(&a[0], CONTROL_DENY, NEWS_MS);
		client_expect(&b[0], CONTROL_DENY, NEWS_MS);
		assert_non_null(strstr(a[0].message.end.text,
				       "if these are two jobs, give each its TALLY_JOB"));
		close_all(a, 1);
		close_all(b, 1);
	}
	server_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server__gathers_the_programs_of_one_launch_apart),
		cmocka_unit_test(server__gathers_the_users_name_whatever_runs),
		cmocka_unit_test(
			server__makes_one_job_of_a_program_for_each_rank_but_not_with_the_users),
		cmocka_unit_test(server__gathers_what_is_complete_together_apart_and_says_so),
		cmocka_unit_test(server__gathers_4_programs_of_a_name_apart_and_refuses_more),
		cmocka_unit_test(server__refuses_a_wrong_key_before_one_program_too_many),
		cmocka_unit_test(server__makes_one_job_of_many_programs),
		cmocka_unit_test(server__ends_two_programs_of_one_command_line),
		cmocka_unit_test(server__takes_no_rank_of_another_host_into_a_job_of_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
