/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_join_test.c - jobs that cannot form: all who came are refused at once, and told both sides of
 * what differs. Two jobs with one name. One that joins, and never gets ready. Environments that say too little.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/hash.h"
#include "ranks.h"
#include "server/server_fixture.h"

enum { SIZE = 3, ODD = 1 };

static const double limit_s = 2.0;
static const char right_key[] = "correct horse", wrong_key[] = "battery staple";

/* What the odd process says instead. */
struct claim {
	uint32_t size, rank;
	bool has_key, has_wrong_key; /* the others have the right one */
	bool has_other_list;         /* the same place by another name */
	bool has_other_port;         /* ... with another way to write its port */
};

static const char *other_loopback(void)
{
	return ranks_family() == 6 ? "[0::1]" : "127.1";
}

static void claim_body(struct ranks *ranks, uint32_t process)
{
	const struct claim *claim = ranks->arg;
	struct tally_options options = TALLY_OPTIONS_INIT;
	uint32_t size = ranks->size, rank = process;
	struct tally_comm *comm;
	int result;
	char list[300];

	snprintf(list, sizeof(list), "%s", ranks->aggregator);
	if (ranks->key)
		setenv("TALLY_KEY", right_key, 1);
	if (process == ODD) {
		size = claim->size;
		rank = claim->rank;
		if (claim->has_other_list)
			snprintf(list, sizeof(list), "%s%s", other_loopback(),
				 strrchr(ranks->aggregator, ':'));
		if (claim->has_other_port)
			snprintf(list, sizeof(list), "%s:0%s", ranks_loopback(),
				 strrchr(ranks->aggregator, ':') + 1);
		if (claim->has_wrong_key)
			setenv("TALLY_KEY", wrong_key, 1);
		else if (!claim->has_key)
			unsetenv("TALLY_KEY");
	}
	options.aggregator = list;
	options.init_timeout_s = 10;
	ranks->shared->event_s = ranks_now_s();
	result = tally_comm_init(&comm, ranks->job, size, rank, &options);
	ranks_report(ranks, process, NULL, result);
	if (result)
		return;
	CHECK(ranks_sum(comm, 1) == TALLY_OK);
	ranks_leave(comm);
}

static void refused(const struct claim *claim, const char *key, int result,
		    const char *const words[RANKS_WORDS_MAX])
{
	struct ranks ranks = { .size = SIZE, .body = claim_body, .arg = claim, .key = key };

	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, result, limit_s, words));
	for (uint32_t rank = 0; rank < SIZE; rank++) { /* keys are told to nobody */
		assert_null(strstr(ranks.shared->report[rank].text, "horse"));
		assert_null(strstr(ranks.shared->report[rank].text, "staple"));
	}
}

/* What all are told: of each side, on its host, the value. The host is the same, each has to be named. */
static const char *of_host(char line[256], const char *form)
{
	const char *at = strstr(form, "HOST");

	snprintf(line, 256, "%.*s%s%s", (int)(at - form), form, ranks_host(), at + 4);
	return line;
}

static void refused_naming(const struct claim *claim, const char *key, const char *here,
			   const char *there)
{
	char lines[2][256];

	refused(claim, key, TALLY_ERR_DENIED,
		(const char *[RANKS_WORDS_MAX]){ of_host(lines[0], here),
						 of_host(lines[1], there) });
}

static void init__two_that_claim_one_rank_end_it_for_all(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = 2 };

	(void)state;
	refused_naming(&claim, NULL, " on HOST claims it too; both are alive",
		       " on HOST, and process ");
}

static void init__another_size_ends_it_for_all(void **state)
{
	const struct claim claim = { .size = SIZE + 2, .rank = ODD };

	(void)state;
	refused_naming(&claim, NULL, "rank 1 on HOST says size 5", " on HOST says size 3");
}

static void init__another_list_of_aggregators_ends_it_for_all(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = ODD, .has_other_list = true };
	char odd[64], common[64];

	(void)state;
	snprintf(odd, sizeof(odd),
		 "rank 1 on HOST was given the aggregators %s:", other_loopback());
	snprintf(common, sizeof(common),
		 " on HOST was given the aggregators %s:", ranks_loopback());
	refused_naming(&claim, NULL, odd, common);
}

static void init__a_port_written_in_another_way_lets_all_in(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = ODD, .has_other_port = true };

	(void)state;
	refused(&claim, NULL, TALLY_OK, (const char *[RANKS_WORDS_MAX]){ NULL });
}

/* R-CT-26 */
static void init__a_wrong_key_ends_it_for_all(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = ODD, .has_wrong_key = true };

	(void)state;
	refused_naming(&claim, right_key, "rank 1 on HOST gave a key that is not this aggregator's",
		       " of 3 on HOST");
}

static void init__no_key_ends_it_for_all(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = ODD };

	(void)state;
	refused_naming(&claim, right_key, "rank 1 on HOST gave no key", " of 3 on HOST");
}

static void init__the_right_key_lets_all_in(void **state)
{
	const struct claim claim = { .size = SIZE, .rank = ODD, .has_key = true };

	(void)state;
	refused(&claim, right_key, TALLY_OK, (const char *[RANKS_WORDS_MAX]){ NULL });
}

/* ---- two jobs with one name ---- */

/* Processes 0 and 1 are the first job, 2 and 3 the second: it is told who runs, and harms nobody. */
static void twice_body(struct ranks *ranks, uint32_t process)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	if (process < 2) {
		CHECK(tally_comm_init(&comm, ranks->job, 2, process, &options) == TALLY_OK);
		CHECK(ranks_sum(comm, 1) == TALLY_OK);
		ranks_meet(ranks);
		ranks_meet(ranks);
		CHECK(ranks_sum(comm, 2) == TALLY_OK);
		ranks_leave(comm);
		return;
	}
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, process, NULL,
		     tally_comm_init(&comm, ranks->job, 2, process - 2, &options));
	ranks_meet(ranks);
}

static void init__a_second_job_of_one_name_is_told_who_runs(void **state)
{
	struct ranks ranks = { .size = 4, .body = twice_body };
	const char *words[RANKS_WORDS_MAX] = { "is held by process ", ranks_host(),
					       "the job runs" };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[0] = ranks.is_killed[1] = true; /* they have no report */
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_DENIED, limit_s, words));
}

/* ---- one that joins, and never gets ready ---- */

enum { PATIENCE_S = 4, BEAT_MS = 500, HANG_S = 20, QUIET = SIZE - 1 };

static void patient_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;
	int result;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = PATIENCE_S;
	ranks->shared->event_s = ranks_now_s();
	result = tally_comm_init(&comm, ranks->job, SIZE, rank, &options);
	ranks_report(ranks, rank, NULL, result);
	if (!result)
		ranks_leave(comm);
}

static bool all_have_reported(const struct ranks *ranks)
{
	bool have = true;

	for (uint32_t rank = 0; rank < ranks->size; rank++)
		have &= ranks->shared->report[rank].has_come;
	return have;
}

/* It lives, as its HEARTBEATs say, and says nothing else until all others have ended. True: it was told to end. */
static bool is_ended(struct client *client, const struct ranks *ranks, bool says_hello)
{
	const struct control_message beat = { .type = CONTROL_HEARTBEAT };
	double until_s = ranks_now_s() + HANG_S;
	bool is_granted = false, is_told = false;

	while (!(is_told && all_have_reported(ranks)) && ranks_now_s() < until_s) {
		if (!is_told)
			(void)conn_send(client->conn, &client->codec, &beat);
		if (is_told || !client_next(client, BEAT_MS)) {
			usleep(1000);
			continue;
		}
		is_told = client->message.type == CONTROL_ABORT;
		if (client->message.type != CONTROL_GRANT)
			continue;
		is_granted = true;
		client->grant = client->message.grant;
		if (says_hello) {
			client_udp_open(client);
			client_hello(client);
		}
	}
	return is_granted && is_told;
}

static void quiet_is_named(bool says_hello)
{
	/* It calls itself so. */
	static const char *const words[RANKS_WORDS_MAX] = { "rank 2 on node2", "of 3",
							    "did not get ready in time" };
	struct ranks ranks = { .size = QUIET, .body = patient_body, .shards = 1 };
	struct control_join join = { .kind = CONTROL_WORKER };
	static struct client client;

	assert_true(ranks_start(&ranks));
	client_open(&client, ranks.aggregator);
	join.list_hash = hash_text(HASH_BEGIN, ranks.aggregator);
	client_join_as(&client, ranks.job, QUIET, SIZE, join);
	assert_true(is_ended(&client, &ranks, says_hello));
	client_close(&client);
	assert_true(ranks_end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_TIMEOUT, PATIENCE_S + limit_s, words));
}

static void init__one_that_joins_and_is_never_ready_is_named(void **state)
{
	(void)state;
	quiet_is_named(false);
	if (ranks_family() == 4) /* as the scripted client's packets are */
		quiet_is_named(true);
}

/* ---- what the environment says ---- */

static void environment_body(struct ranks *ranks, uint32_t rank)
{
	static const char *const sets[3][2][2] = {
		{ { "TALLY_RANK", "0" }, { "TALLY_JOB", "x" } },  /* no TALLY_SIZE */
		{ { "TALLY_RANK", "5" }, { "TALLY_SIZE", "4" } }, /* no such rank */
		{ { "RANK", "1x" }, { "WORLD_SIZE", "4" } },
	};
	struct tally_comm *comm;

	ranks->shared->event_s = ranks_now_s();
	for (int i = 0; i < 2; i++)
		setenv(sets[rank][i][0], sets[rank][i][1], 1);
	ranks_report(ranks, rank, NULL, tally_comm_init_env(&comm, NULL));
}

static void environment__half_set_or_contradictory_is_refused_with_what_was_read(void **state)
{
	static const char *const words[3][RANKS_WORDS_MAX] = {
		{ "TALLY_RANK=0", "TALLY_SIZE" },
		{ "TALLY_RANK=5", "TALLY_SIZE=4" },
		{ "RANK=1x" },
	};
	struct ranks ranks = { .size = 3, .is_local = true, .body = environment_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	for (uint32_t rank = 0; rank < 3; rank++) {
		for (uint32_t other = 0; other < 3; other++)
			ranks.is_killed[other] = other != rank;
		assert_true(ranks_have_reported(&ranks, TALLY_ERR_ARGUMENT, limit_s, words[rank]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__two_that_claim_one_rank_end_it_for_all),
		cmocka_unit_test(init__another_size_ends_it_for_all),
		cmocka_unit_test(init__another_list_of_aggregators_ends_it_for_all),
		cmocka_unit_test(init__a_port_written_in_another_way_lets_all_in),
		cmocka_unit_test(init__a_wrong_key_ends_it_for_all),
		cmocka_unit_test(init__no_key_ends_it_for_all),
		cmocka_unit_test(init__the_right_key_lets_all_in),
		cmocka_unit_test(init__a_second_job_of_one_name_is_told_who_runs),
		cmocka_unit_test(init__one_that_joins_and_is_never_ready_is_named),
		cmocka_unit_test(
			environment__half_set_or_contradictory_is_refused_with_what_was_read),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-join", tests, NULL, NULL);
}
