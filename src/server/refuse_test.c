/* SPDX-License-Identifier: Apache-2.0 */
/* Who is refused, over sockets: keys, lives, and what this version does not do. */
#include "server/server_fixture.h"

#include <stdatomic.h>
#include <sys/resource.h>

/* --- processes of other users --- */

static atomic_uint peer_uid =
	UINT32_MAX; /* whose a local peer is; UINT32_MAX: as the kernel says */

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int result = __real_getsockopt(fd, level, name, value, bytes);

	if (!result && level == SOL_SOCKET && name == SO_PEERCRED && peer_uid != UINT32_MAX)
		((struct ucred *)value)->uid = peer_uid;
	return result;
}

/* --- claims --- */

static struct control_join with_key(const char *key)
{
	struct control_join join = { .kind = CONTROL_WORKER };

	snprintf(join.key, sizeof(join.key), "%s", key);
	return join;
}

static void server__denies_wrong_keys_and_prints_none(void **state)
{
	struct server *server = test_server((struct server_options){ .key = "open-sesame" });
	struct client clients[4];
	char address[32];

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 4; i++)
		client_open(&clients[i], address);
	client_join_as(&clients[0], "vault", 0, 2, with_key("open-sesame"));
	client_join_as(&clients[1], "vault", 1, 2, with_key("open-barley"));
	client_expect(&clients[1], CONTROL_DENY, NEWS_MS);
	assert_string_equal(clients[1].message.end.text,
			    "job \"vault\": rank 1 on node1 gave a key that is not this "
			    "aggregator's");
	client_expect(&clients[0], CONTROL_DENY, NEWS_MS);
	client_join_as(&clients[2], "vault", 0, 2, with_key("open-sesame"));
	client_join_as(&clients[3], "vault", 1, 2, with_key("open-sesame"));
	client_expect(&clients[2], CONTROL_GRANT, NEWS_MS);
	client_expect(&clients[3], CONTROL_GRANT, NEWS_MS);
	for (int i = 0; i < 4; i++)
		client_close(&clients[i]);
	server_close(server);
	assert_false(book_has("open-"));
	assert_true(book_has("job vault: rank 1 on node1 gave a key"));
}

static uint32_t lines_with(const char *words)
{
	uint32_t count = 0;

	pthread_mutex_lock(&book.mutex);
	for (const char *at = book.text; (at = strstr(at, words)); at++)
		count++;
	pthread_mutex_unlock(&book.mutex);
	return count;
}

/* 10 lines a second; more than 60 would be 7 s. */
static void server__limits_the_lines_that_strangers_cause(void **state)
{
	struct server *server = test_server((struct server_options){ .key = "open-sesame" });
	struct client client;
	uint64_t from_ns = now_ns();
	char address[32];
	uint32_t lines;

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 200; i++) {
		client_open(&client, address);
		client_join(&client, "vault", 0, 2);
		client_expect(&client, CONTROL_DENY, NEWS_MS);
		client_close(&client);
	}
	lines = lines_with("gave no key");
	assert_true(lines >= 1);
	assert_true(lines <= 10 * ((now_ns() - from_ns) / 1000000000 + 2));
	server_close(server);
}

/* Names, hosts and ranks are for those who know the key. */
static void server__tells_who_holds_it_to_those_with_its_key_alone(void **state)
{
	struct server *server =
		test_server((struct server_options){ .key = "open-sesame", .jobs_max = 1 });
	struct client clients[3];
	char address[32];

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 3; i++)
		client_open(&clients[i], address);
	client_join_as(&clients[0], "vault", 0, 2, with_key("open-sesame"));
	assert_false(client_next(&clients[0], 100));
	client_join_as(&clients[1], "other", 1, 2, with_key("open-barley"));
	client_expect(&clients[1], CONTROL_DENY, NEWS_MS);
	assert_string_equal(clients[1].message.end.text,
			    "the aggregator has as many jobs as it takes (--jobs-max 1)");
	client_join_as(&clients[2], "other", 1, 2, with_key("open-sesame"));
	client_expect(&clients[2], CONTROL_DENY, NEWS_MS);
	assert_non_null(strstr(clients[2].message.end.text, "\"vault\" (gathering, 1 of 2 ranks"));
	client_close(&clients[1]);
	client_close(&clients[0]);
	client_close(&clients[2]);
	server_close(server);
}

static struct control_join of_life(uint64_t life)
{
	return (struct control_join){ .kind = CONTROL_WORKER, .life = life };
}

static void server__keeps_jobs_of_one_name_and_two_lives_apart(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[4];
	char address[32];

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 4; i++)
		client_open(&clients[i], address);
	client_join_as(&clients[0], "run/0", 0, 2, of_life(0x8000000000000001));
	client_join_as(&clients[1], "run/0", 1, 2, of_life(0x8000000000000002));
	client_join_as(&clients[2], "run/0", 0, 2, of_life(0x8000000000000002));
	client_expect(&clients[1], CONTROL_GRANT, NEWS_MS);
	client_expect(&clients[2], CONTROL_GRANT, NEWS_MS);
	assert_false(client_next(&clients[0], 100)); /* its rank 1 has not come */
	client_join_as(&clients[3], "run/0", 1, 2, of_life(0x8000000000000001));
	client_expect(&clients[0], CONTROL_GRANT, NEWS_MS);
	client_expect(&clients[3], CONTROL_GRANT, NEWS_MS);
	assert_true(clients[0].message.grant.shards[0].job !=
		    clients[1].message.grant.shards[0].job);
	for (int i = 0; i < 4; i++)
		client_close(&clients[i]);
	server_close(server);
}

/* A part of a job whose rank 1 is killed: who gathers for it is told, and so is who comes later. */
static void server__ends_what_gathers_for_a_life_that_has_ended(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[2], parts[2];
	char address[32];
	uint64_t life;

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "run");
	life = clients[0].grant.life;
	client_open(&parts[0], address);
	client_open(&parts[1], address);
	client_join_as(&parts[0], "run/0", 0, 2, of_life(life));
	assert_false(client_next(&parts[0], 100));
	client_close(&clients[1]);
	client_expect(&clients[0], CONTROL_ABORT, NEWS_MS);
	client_expect(&parts[0], CONTROL_DENY, NEWS_MS);
	assert_int_equal(parts[0].message.end.cause, CONTROL_REMOTE);
	assert_non_null(strstr(parts[0].message.end.text, "\"run/0\""));
	assert_non_null(strstr(parts[0].message.end.text, "rank 1 on node1 died"));
	client_join_as(&parts[1], "run/1", 0, 2, of_life(life));
	client_expect(&parts[1], CONTROL_DENY, NEWS_MS);
	assert_int_equal(parts[1].message.end.cause, CONTROL_REMOTE);
	assert_non_null(strstr(parts[1].message.end.text, "rank 1 on node1 died"));
	client_close(&clients[0]);
	client_close(&parts[0]);
	client_close(&parts[1]);
	server_close(server);
}

static void expect_deserted(struct client *client)
{
	client_expect(client, CONTROL_DENY, NEWS_MS);
	assert_int_equal(client->message.end.cause, CONTROL_REMOTE);
	assert_non_null(strstr(client->message.end.text, "rank 1 on node1 has finalized"));
}

/* R-CT-59: of three, rank 1 leaves. Who waits for it in a pair is told, and so is who comes later; whose pair it had
 * joined, and who waits for another rank, is not. */
static void server__ends_a_pair_that_waits_for_one_that_has_left(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[3], pairs[5];
	char address[32];
	uint64_t life;

	(void)state;
	clients_start(clients, 3, tcp_address(server, address), "run");
	life = clients[0].grant.life;
	for (int i = 0; i < 5; i++)
		client_open(&pairs[i], address);
	client_join_as(&pairs[0], "run/1-0", 1, 2, of_life(life));
	client_join_as(&pairs[1], "run/0-1", 0, 2, of_life(life));
	client_join_as(&pairs[2], "run/0-1", 1, 2, of_life(life));
	client_join_as(&pairs[3], "run/0-2", 0, 2, of_life(life));
	client_expect(&pairs[1], CONTROL_GRANT, NEWS_MS);
	client_expect(&pairs[2], CONTROL_GRANT, NEWS_MS);
	client_leave(&clients[1], 0);
	expect_deserted(&pairs[0]);
	client_join_as(&pairs[4], "run/2-1", 0, 2, of_life(life));
	expect_deserted(&pairs[4]);
	assert_false(client_next(&pairs[3], 100));
	assert_false(client_next(&pairs[1], 0));
	for (int i = 0; i < 5; i++)
		client_close(&pairs[i]);
	for (int i = 0; i < 3; i++)
		client_close(&clients[i]);
	server_close(server);
}

/* Both ranks are told so; the path of the second may be narrow. */
static void refuse_pair(struct server_options options, struct control_join said, uint32_t mtu,
			const char *name, enum control_cause cause, const char *text)
{
	struct server *server = test_server(options);
	struct client clients[2];
	char address[32];

	tcp_address(server, address);
	for (uint16_t i = 0; i < 2; i++) {
		client_open(&clients[i], address);
		client_join_as(&clients[i], name, i, 2, said);
		said.mtu = mtu;
	}
	for (int i = 0; i < 2; i++) {
		client_expect(&clients[i], CONTROL_ABORT, NEWS_MS);
		assert_int_equal(clients[i].message.end.cause, cause);
		assert_string_equal(clients[i].message.end.text, text);
		client_close(&clients[i]);
	}
	server_close(server);
}

static void server__says_what_of_a_path_or_an_option_does_not_fit(void **state)
{
	struct control_join dense = { .kind = CONTROL_WORKER };
	struct control_join latency = { .kind = CONTROL_WORKER,
					.mode = CONTROL_LATENCY,
					.latency_slots = 65536,
					.latency_window = 16 };

	(void)state;
	refuse_pair(
		(struct server_options){ .shards = 2 }, dense, 600, "narrow", CONTROL_SYSTEM,
		"job \"narrow\" of 2: rank 1 on node1: the MTU of its path to the aggregator is "
		"600 bytes, and must be 1240 or more");
	assert_true(book_has("job narrow of 2: rank 1 on node1: the MTU"));
	refuse_pair(
		(struct server_options){ .memory_max = 8192 }, dense, 0, "small",
		CONTROL_NO_RESOURCE,
		"job \"small\" of 2: the aggregator has no room for it (shard 0): slots for "
		"packets as large as the members' MTU of 1500 bytes allows do not fit into 8 KiB "
		"(--memory): raise it, or cap packets (--lanes 4 to 16368)");
	refuse_pair((struct server_options){ .memory_max = 65536 }, latency, 0, "many",
		    CONTROL_NO_RESOURCE,
		    "job \"many\" of 2: the aggregator has no room for it (shard 0): 65536 slots "
		    "(latency_slots) do not fit into 64 KiB (--memory), not even of 4 lanes");
}

/* Rank 0 has not closed yet, so the life drains, when a process of another version is refused. */
static void server__tells_the_first_cause_of_a_life_that_drains(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[2], odd, part;
	struct control_message join = { .type = CONTROL_JOIN };
	char address[32];
	uint64_t life;

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "run");
	life = clients[0].grant.life;
	client_close(&clients[1]);
	client_expect(&clients[0], CONTROL_ABORT, NEWS_MS);
	client_open(&odd, address);
	join.join = (struct control_join){ .kind = CONTROL_WORKER,
					   .version_min = CONTROL_VERSION + 1,
					   .version_max = CONTROL_VERSION + 1,
					   .size = 2,
					   .workers = 1,
					   .job = "run",
					   .host = "odd" };
	client_send(&odd, &join);
	client_expect(&odd, CONTROL_DENY, NEWS_MS);
	assert_int_equal(odd.message.end.cause, CONTROL_VERSION_BAD);
	client_open(&part, address);
	client_join_as(&part, "run/0", 0, 2, of_life(life));
	client_expect(&part, CONTROL_DENY, NEWS_MS);
	assert_non_null(strstr(part.message.end.text, "rank 1 on node1 died"));
	client_close(&clients[0]);
	client_close(&odd);
	client_close(&part);
	server_close(server);
}

static void server__says_what_this_version_does_not_do(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client client;
	char address[32];

	(void)state;
	client_open(&client, tcp_address(server, address));
	client_join_as(&client, "tree", 0, 2, (struct control_join){ .kind = CONTROL_SWITCH });
	client_expect(&client, CONTROL_DENY, NEWS_MS);
	assert_string_equal(client.message.end.text,
			    "switches as members (trees) are not in this version");
	client_close(&client);
	server_close(server);
}

/* Its abstract socket has no permissions: who may come in is the server's to see. */
static void server__hosts_nobody_elses_processes(void **state)
{
	const unsigned welcome[] = { 0, geteuid() };
	struct pollfd wait = { .events = POLLIN };
	struct conn_address to;
	struct server *server;
	char name[64], address[80], byte;

	(void)state;
	snprintf(name, sizeof(name), "tally/%u/refuse-%d", (unsigned)geteuid(), (int)getpid());
	snprintf(address, sizeof(address), "@%s", name);
	server = test_server((struct server_options){ .local_name = name });
	peer_uid = geteuid() + 1;
	assert_int_equal(conn_resolve(address, 0, &to), 0);
	wait.fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(wait.fd, (struct sockaddr *)&to.socket, to.bytes), 0);
	(void)!send(wait.fd, "nonsense", 8, MSG_NOSIGNAL); /* who is in gets an answer */
	assert_int_equal(poll(&wait, 1, LONG_MS), 1);
	assert_true(recv(wait.fd, &byte, 1, 0) <= 0);
	close(wait.fd);
	assert_true(book_has("a process of another user was refused"));
	for (int i = 0; i < 2; i++) {
		struct client client;

		peer_uid = welcome[i];
		client_open(&client, address);
		client_join(&client, i ? "own" : "root's", 0, 1);
		client_expect(&client, CONTROL_GRANT, LONG_MS);
		client_close(&client);
	}
	peer_uid = UINT32_MAX;
	server_close(server);
}

/* It comes in on the descriptor that was kept for this, hears why, and the next who comes is let in. */
static void server__tells_who_comes_when_there_is_no_descriptor_left(void **state)
{
	static const char *const keys[] = { NULL, "open-sesame" };
	char address[32], words[160];
	struct rlimit files, few;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &files);
	for (int i = 0; i < 2; i++) {
		struct server *server =
			test_server((struct server_options){ .key = keys[i], .lanes_max = LANES });
		struct client last, next;
		int lowest = dup(0); /* the client's; there is none for the server's end */

		few = files;
		few.rlim_cur = (rlim_t)lowest + 1;
		close(lowest);
		tcp_address(server, address);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		client_open(&last, address);
		client_join(&last, "work", 0, 1);
		client_expect(&last, CONTROL_DENY, NEWS_MS);
		setrlimit(RLIMIT_NOFILE, &files);
		assert_int_equal(last.message.end.cause, CONTROL_NO_RESOURCE);
		snprintf(words, sizeof(words),
			 "the aggregator has no descriptor left (ulimit -n), 0 connections are "
			 "open%s",
			 i ? "" : ": nobody"); /* of others it tells those with its key */
		assert_string_equal(last.message.end.text, words);
		assert_true(book_has(words));
		client_close(&last);
		client_open(&next, address);
		client_join_as(&next, "work", 0, 1,
			       i ? with_key(keys[i]) : (struct control_join){ 0 });
		client_expect(&next, CONTROL_GRANT, LONG_MS);
		assert_true(book_has("cannot accept a connection: Too many open files"));
		client_close(&next);
		server_close(server);
	}
}

static void server__refuses_a_key_that_no_join_can_say(void **state)
{
	struct server *server = NULL;
	char key[200];

	(void)state;
	memset(key, 'k', sizeof(key));
	key[128] = 0;
	assert_int_equal(server_open(&server, &(struct server_options){ .key = key }), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server__denies_wrong_keys_and_prints_none),
		cmocka_unit_test(server__limits_the_lines_that_strangers_cause),
		cmocka_unit_test(server__tells_who_holds_it_to_those_with_its_key_alone),
		cmocka_unit_test(server__keeps_jobs_of_one_name_and_two_lives_apart),
		cmocka_unit_test(server__ends_what_gathers_for_a_life_that_has_ended),
		cmocka_unit_test(server__ends_a_pair_that_waits_for_one_that_has_left),
		cmocka_unit_test(server__tells_the_first_cause_of_a_life_that_drains),
		cmocka_unit_test(server__says_what_of_a_path_or_an_option_does_not_fit),
		cmocka_unit_test(server__says_what_this_version_does_not_do),
		cmocka_unit_test(server__hosts_nobody_elses_processes),
		cmocka_unit_test(server__tells_who_comes_when_there_is_no_descriptor_left),
		cmocka_unit_test(server__refuses_a_key_that_no_join_can_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
