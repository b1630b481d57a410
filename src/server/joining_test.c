/* SPDX-License-Identifier: Apache-2.0 */
/* joining_test.c - a connection's first message: whose it is, and all the reasons for which nobody takes it, word for
 * word. Connections, jobs, tables and shares are the test's. */
#include "server/conn_fixture.h"

enum { JOB = 3, TAKEN_MAX = PEERS_MAX - STRANGERS_MAX };

static struct {
	bool is_refused, is_known; /* as job_find has it */
	int open_result;
	uint32_t opened;
	uint64_t opened_by;
	const char *life_end;
	uint64_t life;
	bool jobs_full, connections_full;
	uint32_t tables, table_messages, tables_ended, answers;
	const char *refused; /* a name */
} world;

struct job *__wrap_job_find(struct server *server, const struct control_join *join,
			    bool *is_refused);
int __wrap_job_open(struct server *server, const struct control_join *join, uint64_t source,
		    struct job **out);
const char *__wrap_job_end_of_life(const struct server *server, uint64_t life);
bool __wrap_share_of_jobs(const struct server *server, uint64_t source, struct text *text);
bool __wrap_share_of_connections(const struct server *server, const struct peer *peer,
				 struct text *text);
void __wrap_jobs_tell_refused(struct server *server, const char *name);
void __wrap_table_open(struct server *server, struct peer *peer,
		       const struct control_table_open *open, uint64_t now_ns);
void __wrap_table_message(struct server *server, struct peer *peer,
			  const struct control_message *message, uint64_t now_ns);
void __wrap_table_end(struct server *server, struct table *table);
void __wrap_crossed_answered(struct server *server, struct job *job, uint32_t connection,
			     const struct control_opinfo *info, uint64_t now_ns);

struct job *__wrap_job_find(struct server *server, const struct control_join *join,
			    bool *is_refused)
{
	assert_ptr_equal(server, &test.server);
	assert_string_equal(join->job, "train");
	*is_refused = world.is_refused;
	return world.is_known ? &test.job[JOB] : NULL;
}

int __wrap_job_open(struct server *server, const struct control_join *join, uint64_t source,
		    struct job **out)
{
	assert_ptr_equal(server, &test.server);
	assert_string_equal(join->job, "train");
	world.opened++;
	world.opened_by = source;
	if (!world.open_result)
		*out = &test.job[JOB];
	return world.open_result;
}

const char *__wrap_job_end_of_life(const struct server *server, uint64_t life)
{
	assert_ptr_equal(server, &test.server);
	world.life = life;
	return world.life_end;
}

bool __wrap_share_of_jobs(const struct server *server, uint64_t source, struct text *text)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(source, test.peers[0].source);
	if (world.jobs_full)
		text_add(text, "too many jobs");
	return !world.jobs_full;
}

bool __wrap_share_of_connections(const struct server *server, const struct peer *peer,
				 struct text *text)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[0]);
	if (world.connections_full)
		text_add(text, "too many connections");
	return !world.connections_full;
}

void __wrap_jobs_tell_refused(struct server *server, const char *name)
{
	assert_ptr_equal(server, &test.server);
	world.refused = strcmp(name, "train") ? "another" : "train";
}

void __wrap_table_open(struct server *server, struct peer *peer,
		       const struct control_table_open *open, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_string_equal(open->table, "emb");
	assert_int_equal(now_ns, test.now_ns);
	peer->table = 0;
	world.tables++;
}

void __wrap_table_message(struct server *server, struct peer *peer,
			  const struct control_message *message, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(peer->table, 0);
	assert_int_equal(message->type, CONTROL_TABLE_BEAT);
	assert_int_equal(now_ns, test.now_ns);
	world.table_messages++;
}

void __wrap_table_end(struct server *server, struct table *table)
{
	assert_ptr_equal(table, server->tables[0]);
	world.tables_ended++;
}

void __wrap_crossed_answered(struct server *server, struct job *job, uint32_t connection,
			     const struct control_opinfo *info, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(job, &test.job[JOB]);
	assert_int_equal(connection, test.peers[0].handle);
	assert_int_equal(info->round, 12);
	assert_int_equal(now_ns, test.now_ns);
	world.answers++;
}

static int setup(void **state)
{
	memset(&world, 0, sizeof(world));
	if (conn_setup(state))
		return -1;
	inside_job(JOB, "train", ADMISSION_GATHER, 2);
	test.jobs[JOB]->idle_ns = 1; /* a name that is remembered */
	come(1);
	return 0;
}

static struct control_message *say_join(void)
{
	struct control_message *message = say(&played.conn[0], CONN_MESSAGE, CONTROL_JOIN);

	message->join.size = 2;
	message->join.rank = 1;
	message->join.mtu = 1400;
	message->join.pid = 77;
	message->join.life = 55;
	strcpy(message->join.job, "train");
	strcpy(message->join.host, "h1");
	return message;
}

static void hear(void)
{
	peer_read(&test.server, &test.peers[0], test.now_ns);
}

/* It has heard why not, and so has the operator; no job has heard of it. */
static void assert_denied(enum control_cause cause, const char *words, const char *line,
			  bool is_of_job)
{
	const struct control_message *told = &played.conn[0].told;

	hear();
	assert_int_equal(played.conn[0].told_count, 1);
	assert_int_equal(told->type, CONTROL_DENY);
	assert_string_equal(told->end.text, words);
	assert_int_equal(told->end.cause, cause);
	assert_int_equal(told->end.is_ending, 0);
	assert_int_equal(played.conn[0].last_words_ns, test.now_ns);
	assert_int_equal(played.steps + world.opened * !world.open_result, 0);
	assert_int_equal(test.server.silent_count, 0);
	assert_int_equal(test.server.strangers_count, 1);
	assert_int_equal(test.peers[0].job, NO_JOB);
	assert_int_equal(played.conn[0].limit, JOIN_BYTES_MAX);
	assert_int_equal(test.lines, line ? 1 : 0);
	if (line)
		assert_line(0, SERVER_WARN, is_of_job ? "train" : "",
			    is_of_job ? 1 : SERVER_RANK_NONE, line);
}

/* ---- let in ---- */

static void join__of_a_new_name_opens_a_job_which_then_hears_it(void **state)
{
	struct peer *peer = &test.peers[0];

	(void)state;
	say_join();
	hear();
	assert_int_equal(world.opened, 1);
	assert_int_equal(world.opened_by, peer->source);
	assert_int_equal(world.life, 55);
	assert_int_equal(peer->job, JOB);
	assert_int_equal(peer->mtu, 1400);
	assert_int_equal(played.steps, 1);
	assert_ptr_equal(played.stepped, &test.job[JOB]);
	assert_int_equal(played.step.type, ADMISSION_MESSAGE);
	assert_int_equal(played.step.connection, peer->handle);
	assert_int_equal(played.step.source, peer->source);
	assert_true(peer->has_joined && !peer->is_stranger);
	assert_int_equal(test.server.strangers_count + test.server.silent_count, 0);
	assert_int_equal(peer->conn->limit, CODEC_JSON_BYTES_MAX);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_DEBUG, "train", 1,
		    "job train: rank 1 of 2 (h1, pid 77) joins from 10.0.0.9:4000");
	/* What it says later is the job's, and what it says of operations crossed.c's, too. */
	say(peer->conn, CONN_MESSAGE, CONTROL_OPINFO)->opinfo.round = 12;
	peer->conn->reads = 1;
	hear();
	assert_int_equal(world.answers, 1);
	assert_int_equal(played.steps, 2);
	assert_int_equal(world.opened, 1);
}

static void join__of_a_known_name_opens_none(void **state)
{
	(void)state;
	world.is_known = true;
	say_join();
	hear();
	assert_int_equal(world.opened, 0);
	assert_int_equal(played.steps, 1);
	assert_int_equal(test.peers[0].job, JOB);
}

/* A name that somebody is in costs nothing; nor does it while the aggregator drains. */
static void join__of_a_name_in_use_asks_for_no_share(void **state)
{
	(void)state;
	world.is_known = true;
	test.job[JOB].idle_ns = 0;
	world.jobs_full = true;
	test.server.is_draining = true;
	say_join();
	hear();
	assert_int_equal(played.steps, 1);
	assert_int_equal(test.peers[0].job, JOB);
}

static void deny_it(void)
{
	peer_deny(&test.server, &test.peers[0], CONTROL_DENIED, "no", test.now_ns);
}

static void join__that_its_job_denies_stays_a_stranger(void **state)
{
	(void)state;
	played.on_step = deny_it;
	say_join();
	hear();
	assert_true(test.peers[0].is_stranger);
	assert_int_equal(test.server.strangers_count, 1);
	assert_int_equal(test.server.silent_count, 0);
	assert_int_equal(played.conn[0].limit, JOIN_BYTES_MAX);
}

static void table__is_opened_and_hears_what_its_server_says(void **state)
{
	static struct table table;
	struct peer *peer = &test.peers[0];

	(void)state;
	test.server.tables[0] = &table;
	strcpy(say(peer->conn, CONN_MESSAGE, CONTROL_TABLE_OPEN)->table_open.table, "emb");
	hear();
	assert_int_equal(world.tables, 1);
	assert_int_equal(world.table_messages, 0);
	assert_false(peer->is_stranger);
	say(peer->conn, CONN_MESSAGE, CONTROL_TABLE_BEAT);
	peer->conn->reads = 1;
	hear();
	assert_int_equal(world.tables, 1);
	assert_int_equal(world.table_messages, 1);
	assert_int_equal(played.steps, 0);
	peer_end(&test.server, peer);
	assert_int_equal(world.tables_ended, 1);
}

/* ---- not let in ---- */

static void join__no_other_message_is_the_first(void **state)
{
	struct peer *peer = &test.peers[0];

	(void)state;
	say(peer->conn, CONN_MESSAGE, CONTROL_READY);
	say(peer->conn, CONN_MESSAGE, CONTROL_READY);
	hear();
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4000: dropped: its first message is neither JOIN nor TABLE_OPEN");
	assert_true(peer->is_broken && test.server.is_some_broken && !peer->has_joined);
	assert_int_equal(peer->conn->reads, 1);
	assert_int_equal(peer->conn->told_count, 0);
	assert_int_equal(test.server.silent_count, 1);
	assert_true(peer->is_stranger);
}

static void join__of_a_switch_is_of_another_version(void **state)
{
	(void)state;
	say_join()->join.kind = CONTROL_SWITCH;
	assert_denied(CONTROL_DENIED, "switches as members (trees) are not in this version", NULL,
		      false);
}

static void join__on_the_last_descriptor_hears_who_has_the_others(void **state)
{
	struct peer *peer = &test.peers[0];

	(void)state;
	peer->has_spare = true;
	test.server.peers_count = 8;
	say_join();
	assert_denied(CONTROL_NO_RESOURCE,
		      "the aggregator has no descriptor left (ulimit -n), 7 connections are open: "
		      "nobody",
		      "10.0.0.9:4000: denied: the aggregator has no descriptor left (ulimit -n), 7 "
		      "connections are open: nobody",
		      false);
}

static void join__on_the_last_descriptor_without_the_key_hears_less(void **state)
{
	struct peer *peer = &test.peers[0];

	(void)state;
	peer->has_spare = true;
	strcpy(test.server.key, "sesame");
	say_join();
	assert_denied(CONTROL_NO_RESOURCE,
		      "the aggregator has no descriptor left (ulimit -n), 0 connections are open",
		      "10.0.0.9:4000: denied: the aggregator has no descriptor left (ulimit -n), 0 "
		      "connections are open",
		      false);
}

static void join__beyond_all_places_is_denied_and_the_last_is_not(void **state)
{
	(void)state;
	test.server.peers_count = TAKEN_MAX + 1;
	say_join();
	assert_denied(CONTROL_NO_RESOURCE,
		      "the aggregator has no room for another connection: 7168 members and waiters "
		      "are connected",
		      "10.0.0.9:4000: denied: the aggregator has no room for another connection: "
		      "7168 members and waiters are connected",
		      false);
}

static void join__for_the_last_of_all_places_is_let_in(void **state)
{
	(void)state;
	test.server.peers_count = TAKEN_MAX;
	say_join();
	hear();
	assert_int_equal(played.steps, 1);
}

static void join__beyond_its_share_of_connections_is_denied(void **state)
{
	(void)state;
	world.connections_full = true;
	say_join();
	assert_denied(CONTROL_NO_RESOURCE, "too many connections",
		      "10.0.0.9:4000: denied: too many connections", false);
}

static void join__beyond_its_share_of_jobs_is_denied(void **state)
{
	(void)state;
	world.jobs_full = world.is_known = true; /* that nobody is in */
	say_join();
	assert_denied(CONTROL_NO_RESOURCE, "too many jobs",
		      "job train: rank 1 (h1): denied: too many jobs", true);
}

/* R-CT-34 */
static void join__of_a_job_too_many_hears_who_has_them(void **state)
{
	(void)state;
	world.open_result = -ENOSPC;
	say_join();
	assert_denied(CONTROL_NO_RESOURCE,
		      "the aggregator has as many jobs as it takes (--jobs-max 12): nobody",
		      "job train: rank 1 (h1): denied: the aggregator has as many jobs as it takes "
		      "(--jobs-max 12): nobody",
		      true);
}

static void join__of_a_job_too_many_without_the_key_hears_less(void **state)
{
	(void)state;
	world.open_result = -ENOSPC;
	strcpy(test.server.key, "sesame");
	strcpy(say_join()->join.key, "mustard");
	assert_denied(CONTROL_NO_RESOURCE,
		      "the aggregator has as many jobs as it takes (--jobs-max 12)",
		      "job train: rank 1 (h1): denied: the aggregator has as many jobs as it takes "
		      "(--jobs-max 12)",
		      true);
}

static void join__without_memory_is_denied(void **state)
{
	(void)state;
	world.open_result = -ENOMEM;
	say_join();
	assert_denied(CONTROL_NO_RESOURCE, "the aggregator is out of memory",
		      "job train: rank 1 (h1): denied: the aggregator is out of memory", true);
	assert_null(world.refused);
}

static void join__of_a_fifth_command_line_is_denied_and_the_others_hear_it(void **state)
{
	(void)state;
	world.is_refused = true;
	say_join();
	assert_denied(CONTROL_DENIED,
		      "4 command lines of this name, which is a launcher's, gather already: if "
		      "they are one job, give them one TALLY_JOB, else each its own",
		      "job train: rank 1 (h1): denied: 4 command lines of this name, which is a "
		      "launcher's, gather already: if they are one job, give them one TALLY_JOB, "
		      "else each its own",
		      true);
	assert_string_equal(world.refused, "train");
}

/* Who does not know the key is the job's to refuse. */
static void join__of_a_fifth_command_line_without_the_key_is_a_jobs(void **state)
{
	(void)state;
	world.is_refused = true;
	strcpy(test.server.key, "sesame");
	say_join();
	hear();
	assert_int_equal(world.opened, 1);
	assert_int_equal(played.steps, 1);
	assert_null(world.refused);
}

static void join__of_a_life_that_has_ended_hears_why(void **state)
{
	(void)state;
	world.is_known = true;
	world.life_end = "rank 4 died";
	strcpy(test.server.key, "sesame");
	strcpy(say_join()->join.key, "sesame");
	assert_denied(CONTROL_REMOTE,
		      "job \"train\": the job that it is a part of has ended: rank 4 died", NULL,
		      false);
}

static void join__of_a_life_that_has_ended_without_the_key_is_a_jobs(void **state)
{
	(void)state;
	world.is_known = true;
	world.life_end = "rank 4 died";
	strcpy(test.server.key, "sesame");
	say_join();
	hear();
	assert_int_equal(played.steps, 1);
	assert_int_equal(played.conn[0].told_count, 0);
}

static void join__while_it_drains_hears_that_it_ends(void **state)
{
	(void)state;
	test.server.is_draining = true;
	say_join();
	hear();
	assert_int_equal(played.conn[0].told.type, CONTROL_DENY);
	assert_true(played.conn[0].told.end.is_ending);
	assert_int_equal(world.opened + played.steps, 0);
	assert_int_equal(test.lines, 0);
}

/* R-CT-19 */
static void join__of_a_part_of_what_runs_opens_a_job_while_it_drains(void **state)
{
	struct job *whole = inside_job(JOB + 1, "whole", ADMISSION_STARTED, 2);

	(void)state;
	whole->admission->life = 55;
	test.server.is_draining = true;
	say_join();
	hear();
	assert_int_equal(played.conn[0].told_count, 0);
	assert_int_equal(world.opened, 1);
	assert_int_equal(played.steps, 1);
}

#define JOINING_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOINING_TEST(join__of_a_new_name_opens_a_job_which_then_hears_it),
		JOINING_TEST(join__of_a_known_name_opens_none),
		JOINING_TEST(join__of_a_part_of_what_runs_opens_a_job_while_it_drains),
		JOINING_TEST(join__of_a_name_in_use_asks_for_no_share),
		JOINING_TEST(join__that_its_job_denies_stays_a_stranger),
		JOINING_TEST(table__is_opened_and_hears_what_its_server_says),
		JOINING_TEST(join__no_other_message_is_the_first),
		JOINING_TEST(join__of_a_switch_is_of_another_version),
		JOINING_TEST(join__on_the_last_descriptor_hears_who_has_the_others),
		JOINING_TEST(join__on_the_last_descriptor_without_the_key_hears_less),
		JOINING_TEST(join__beyond_all_places_is_denied_and_the_last_is_not),
		JOINING_TEST(join__for_the_last_of_all_places_is_let_in),
		JOINING_TEST(join__beyond_its_share_of_connections_is_denied),
		JOINING_TEST(join__beyond_its_share_of_jobs_is_denied),
		JOINING_TEST(join__of_a_job_too_many_hears_who_has_them),
		JOINING_TEST(join__of_a_job_too_many_without_the_key_hears_less),
		JOINING_TEST(join__without_memory_is_denied),
		JOINING_TEST(join__of_a_fifth_command_line_is_denied_and_the_others_hear_it),
		JOINING_TEST(join__of_a_fifth_command_line_without_the_key_is_a_jobs),
		JOINING_TEST(join__of_a_life_that_has_ended_hears_why),
		JOINING_TEST(join__of_a_life_that_has_ended_without_the_key_is_a_jobs),
		JOINING_TEST(join__while_it_drains_hears_that_it_ends),
	};

	return cmocka_run_group_tests_name("server-joining", tests, NULL, NULL);
}
