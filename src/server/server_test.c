/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_fixture.h"

#include <stdatomic.h>

#include "server/internal.h"

/* --- a wall clock that is set --- */

static atomic_long wall_clock_step_s;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += wall_clock_step_s;
	return result;
}

static uint64_t uptime_ms(void)
{
	struct timespec now;

	__real_clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- claims --- */

static void add_once(struct client *clients)
{
	struct wire header;
	int32_t lane[LANES];

	client_update(&clients[0], 1, 7, 40);
	client_update(&clients[1], 1, 7, -42);
	for (int rank = 0; rank < 2; rank++) {
		client_get(&clients[rank], &header, lane);
		assert_int_equal(header.type, WIRE_RESULT);
		assert_int_equal(header.seq, 1);
		for (int i = 0; i < LANES; i++)
			assert_int_equal(lane[i], -2);
	}
}

static void leave_and_close(struct client *clients, int count)
{
	for (int rank = 0; rank < count; rank++)
		client_leave(&clients[rank], 1);
	for (int rank = 0; rank < count; rank++)
		client_close(&clients[rank]);
}

static void server__adds_the_vectors_of_two_ranks(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[2];
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "add");
	assert_int_equal(clients[0].message.start.lanes, LANES);
	assert_int_equal(clients[0].grant.shards[0].port, server_shard_port(server, 0));
	add_once(clients);
	leave_and_close(clients, 2);
	server_drain(server);
	assert_true(server_wait(server, LONG_MS));
	server_close(server);
	assert_true(book_has("job add: "));
	assert_true(book_has("2 packets in, 1 sums out; 0 packets (0.00 %) came again\n"));
	assert_true(book_has("dropped: none"));
}

static void server__says_at_a_jobs_end_how_many_packets_came_again(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client clients[2];
	struct wire header;
	int32_t lane[LANES] = { 40 };
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "again");
	add_once(clients);
	for (int i = 0; i < 12; i++) {
		header = (struct wire){ .type = WIRE_UPDATE, .seq = 1, .tag = 7 };
		header.flags = WIRE_RESENT;
		header.lanes = LANES;
		client_put(&clients[0], &header, lane);
		client_get(&clients[0], &header, lane);
		assert_int_equal(header.type, WIRE_RESULT);
	}
	leave_and_close(clients, 2);
	server_drain(server);
	assert_true(server_wait(server, LONG_MS));
	server_close(server);
	assert_true(book_has("1 [again] job again: over after "));
	assert_true(
		book_has("14 packets in, 1 sums out; 12 packets (85.71 %) came again, for they"));
}

static void server__hosts_local_ranks_on_an_abstract_socket(void **state)
{
	char name[64], address[80];
	struct server *server;
	struct client clients[2];

	(void)state;
	snprintf(name, sizeof(name), "tally/%u/test-%d", (unsigned)geteuid(), (int)getpid());
	snprintf(address, sizeof(address), "@%s", name);
	server = test_server((struct server_options){ .local_name = name });
	clients_start(clients, 2, address, "local");
	assert_int_equal(clients[1].grant.shards[0].ip[12], 127);
	add_once(clients);
	leave_and_close(clients, 2);
	server_close(server);
}

static void server__runs_two_jobs_on_two_shards_at_once(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 2 });
	struct client a[2], b[2];
	char address[32];

	(void)state;
	clients_start(a, 2, tcp_address(server, address), "a");
	clients_start(b, 2, address, "b");
	assert_int_equal(a[0].grant.shards_count, 2);
	assert_int_not_equal(a[0].grant.shards[0].port, a[0].grant.shards[1].port);
	assert_int_not_equal(a[0].grant.shards[0].generation, b[0].grant.shards[0].generation);
	add_once(b);
	add_once(a);
	leave_and_close(a, 2);
	leave_and_close(b, 2);
	server_close(server);
}

/* A tenant's own generation must not tell its neighbour's: of 24 in turn, none lies within 4,096 of another. (Of
 * numbers drawn at random that is so in 99.9 of 100 runs; then it is tried again.) */
static bool generations_are_apart(const struct server *server)
{
	uint32_t of[24];
	char address[32];
	bool are_apart = true;

	for (int i = 0; i < 24; i++) {
		struct client client;

		clients_start(&client, 1, tcp_address(server, address), "tenant");
		of[i] = client.grant.shards[0].generation;
		leave_and_close(&client, 1);
		for (int other = 0; other < i; other++)
			are_apart &= of[i] - of[other] + 4096 > 8192;
	}
	return are_apart;
}

static void server__of_no_generation_can_another_be_told(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	bool are_apart = false;

	(void)state;
	for (int i = 0; i < 4 && !are_apart; i++)
		are_apart = generations_are_apart(server);
	assert_true(are_apart);
	server_close(server);
}

static void server__gives_a_name_and_its_slots_again_after_all_have_left(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = 1 });
	struct client clients[2], other;
	char address[32];
	uint32_t generation;

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "again");
	generation = clients[0].grant.shards[0].generation;
	client_open(&other, address);
	client_join(&other, "other", 0, 1);
	client_expect(&other, CONTROL_DENY, NEWS_MS);
	assert_int_equal(other.message.end.cause, CONTROL_NO_RESOURCE);
	client_close(&other);
	leave_and_close(clients, 2);
	clients_start(clients, 2, address, "again");
	assert_int_not_equal(clients[0].grant.shards[0].generation, generation);
	add_once(clients);
	leave_and_close(clients, 2);
	server_close(server);
}

static void server__tells_all_that_sizes_differ(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2];
	char address[32];

	(void)state;
	client_open(&clients[0], tcp_address(server, address));
	client_join(&clients[0], "size", 0, 2);
	usleep(50000);
	client_open(&clients[1], address);
	client_join(&clients[1], "size", 1, 3);
	for (int rank = 0; rank < 2; rank++) {
		client_expect(&clients[rank], CONTROL_DENY, NEWS_MS);
		client_close(&clients[rank]);
	}
	server_close(server);
}

static void server__names_a_killed_rank_to_the_others_within_2_s(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[3];
	char address[32];

	(void)state;
	clients_start(clients, 3, tcp_address(server, address), "kill");
	client_close(&clients[1]);
	for (int rank = 0; rank < 3; rank += 2) {
		client_expect(&clients[rank], CONTROL_ABORT, NEWS_MS);
		assert_int_equal(clients[rank].message.end.cause, CONTROL_REMOTE);
		assert_int_equal(clients[rank].message.end.rank, 1);
		assert_non_null(strstr(clients[rank].message.end.text, "rank 1"));
		assert_non_null(strstr(clients[rank].message.end.text, "node1"));
		client_close(&clients[rank]);
	}
	server_close(server);
}

/* Answers QUERYs about its only operation until the verdict comes. */
static void client_explain(struct client *client, uint64_t count)
{
	struct control_op op = { .number = 0, .count = count, .type = 7 };
	struct control_message opinfo = { .type = CONTROL_OPINFO };

	while (client_next(client, NEWS_MS) && client->message.type == CONTROL_QUERY) {
		opinfo.opinfo = (struct control_opinfo){
			.round = client->message.query.round,
			.ops_count = 1,
			.submitted = 1,
			.ops = &op,
		};
		client_send(client, &opinfo);
	}
}

static void *explain_99(void *arg)
{
	client_explain(arg, 99);
	return NULL;
}

static void server__tells_all_of_a_mismatch_within_2_s(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2];
	pthread_t thread;
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "odd");
	client_update(&clients[0], 1, 7, 1);
	client_update(&clients[1], 1, 8, 1);
	pthread_create(&thread, NULL, explain_99, &clients[1]);
	client_explain(&clients[0], 98);
	pthread_join(thread, NULL);
	for (int rank = 0; rank < 2; rank++) {
		assert_int_equal(clients[rank].message.type, CONTROL_ABORT);
		assert_int_equal(clients[rank].message.end.cause, CONTROL_MISMATCH);
		assert_non_null(strstr(clients[rank].message.end.text, "98"));
		assert_non_null(strstr(clients[rank].message.end.text, "99"));
		client_close(&clients[rank]);
	}
	server_close(server);
}

static void server__drops_strangers_packets_and_counts_them(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2], stranger;
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "strangers");
	stranger = clients[1];
	client_udp_open(&stranger);
	client_update(&stranger, 1, 7, 1000); /* rank 1's words from another address */
	assert_int_equal(send(stranger.udp, "garbage", 7, 0), 7);
	stranger.grant.shards[0].generation ^= 1;
	client_update(&stranger, 1, 7, 1000);
	stranger.grant.nonce[3] ^= 1;
	stranger.grant.shards[0].generation ^= 1;
	{
		struct wire header = { .type = WIRE_HELLO, .seq = 9, .lanes = WIRE_HELLO_LANES };
		uint8_t lane[WIRE_HELLO_LANES * 4] = { 0 };

		memcpy(lane, stranger.grant.nonce, sizeof(stranger.grant.nonce));
		client_put(&stranger, &header, lane);
	}
	add_once(clients); /* none of it is in the sum */
	assert_int_equal(recv(stranger.udp, address, sizeof(address), MSG_DONTWAIT), -1);
	server_report(server); /* the job still runs */
	for (int i = 0; i < 500 && !book_has("hello that binds nobody 1"); i++)
		usleep(10000);
	assert_true(book_has("generation 1"));
	assert_true(book_has("address 1"));
	assert_true(book_has("hello that binds nobody 1"));
	assert_true(book_has("1 packet dropped, the last from 127.0.0.1:"));
	assert_true(book_has("as rank 1 of job strangers: the address is not that rank's"));
	assert_true(book_has("as rank 1 of job strangers: the generation is not the job's"));
	assert_true(book_has("as rank 1 of job strangers: a HELLO without the nonce"));
	close(stranger.udp);
	leave_and_close(clients, 2);
	server_close(server);
	assert_true(book_has("too short 1"));
	assert_true(book_has("generation 1"));
	assert_true(book_has("address 1"));
	assert_true(book_has("hello that binds nobody 1"));
}

static int tcp_connect(const struct server *server)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = LONG_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons(server_port(server));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void server__drops_connections_that_talk_nonsense(void **state)
{
	static const struct {
		const char *bytes;
		size_t count;
		const char *answer; /* NULL: no word, for it is not of ours */
	} nonsense[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 18, NULL },
		{ "\0\0\0\2{}", 6, "cannot read the first message: " },
		{ "\0\0\0\4null", 8, NULL },
		{ "\0\0\0\34{\"type\":\"JOIN\",\"size\":\"two\"}", 32,
		  "cannot read the first message: JOIN" },
		{ "\0\0\0\24{\"type\":\"HEARTBEAT\"}", 24, NULL },
		{ "\377\377\377\377", 4, NULL },
	};
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2];
	char address[32];

	(void)state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
		int fd = tcp_connect(server);
		char answer[1024] = "    "; /* a length may have zeros */
		ssize_t got = 0, used;

		assert_int_equal(send(fd, nonsense[i].bytes, nonsense[i].count, 0),
				 nonsense[i].count);
		errno = 0;
		for (used = 0; (got = recv(fd, answer + used, 1000 - (size_t)used, 0)) > 0;)
			used += got;
		answer[used] = 0;
		assert_int_equal(used > 0, nonsense[i].answer != NULL);
		if (used > 0)
			assert_non_null(strstr(answer + 4, nonsense[i].answer));
		assert_int_not_equal(errno, EAGAIN); /* closed, not timed out */
		close(fd);
	}
	assert_true(book_has("127.0.0.1:"));
	assert_true(book_has("dropped: "));
	assert_true(book_has("dropped: its first message is neither JOIN nor TABLE_OPEN\n"));
	clients_start(clients, 2, tcp_address(server, address), "after");
	leave_and_close(clients, 2);
	server_drain(server);
	assert_true(server_wait(server, LONG_MS));
	assert_int_equal(server->result, 0);
	/* Nothing of them is left, to be looked at for ever. */
	assert_int_equal(server->closing_count, 0);
	assert_int_equal(server->strangers_count, 0);
	assert_int_equal(server->silent_count, 0);
	assert_int_equal(server->peers_count, 0);
	server_close(server);
}

/* R-CT-19 */
static void server__draining_denies_gatherings_and_lets_jobs_end(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2], gathering, late;
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "runs");
	client_open(&gathering, address);
	client_join(&gathering, "gathers", 0, 2);
	usleep(50000);
	server_drain(server);
	client_expect(&gathering, CONTROL_DENY, NEWS_MS);
	assert_true(gathering.message.end.is_ending);
	client_close(&gathering);
	client_open(&late, address);
	client_join(&late, "late", 0, 1);
	client_expect(&late, CONTROL_DENY, NEWS_MS);
	assert_true(late.message.end.is_ending);
	client_close(&late);
	add_once(clients);
	assert_false(server_wait(server, 100));
	leave_and_close(clients, 2);
	assert_true(server_wait(server, LONG_MS));
	server_close(server);
}

/* The members of the next life may be quicker than the end of this one: each that got in hears of it,
 * whether it was accepted or had said its JOIN, and who comes later is refused. */
static void server__a_local_one_that_drains_cuts_nobody_short(void **state)
{
	enum { EARLY = 100 }; /* more than are accepted in one turn */
	struct server_options options = { .log = book_log, .receive_bytes = 128 << 10 };
	struct client clients[EARLY];
	char name[64], address[65];
	struct conn_address to;
	struct server *server;
	struct conn *late;

	(void)state;
	book.text[0] = 0;
	snprintf(name, sizeof(name), "tally-test-%ld", (long)getpid());
	snprintf(address, sizeof(address), "@%s", name);
	options.local_name = name;
	assert_int_equal(server_open(&server, &options), 0);
	for (uint16_t i = 0; i < EARLY; i++) {
		client_open(&clients[i], address);
		if (i % 2)
			client_join(&clients[i], "next", i, EARLY);
	}
	server_drain(server);
	assert_int_equal(server_start(server), 0);
	for (uint32_t i = 0; i < EARLY; i++) {
		client_expect(&clients[i], CONTROL_DENY, NEWS_MS);
		assert_true(clients[i].message.end.is_ending);
	}
	assert_int_equal(conn_resolve(address, 0, &to), 0);
	assert_int_equal(conn_connect(&late, &to, now_ns(), 1), -ECONNREFUSED);
	for (uint32_t i = 0; i < EARLY; i++)
		client_close(&clients[i]);
	assert_true(server_wait(server, LONG_MS));
	server_close(server);
	assert_false(book_has("cannot accept"));
}

/* R-CT-19 */
static void server__draining_aborts_at_its_limit(void **state)
{
	struct server *server = test_server((struct server_options){ .drain_ms = 200 });
	struct client clients[2];
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "stays");
	server_drain(server);
	for (int rank = 0; rank < 2; rank++) {
		client_expect(&clients[rank], CONTROL_ABORT, NEWS_MS);
		client_close(&clients[rank]);
	}
	assert_true(server_wait(server, LONG_MS));
	assert_int_equal(server->result, SERVER_ABORTED);
	assert_true(book_has("2 draining: no new jobs, running ones may end\n"));
	assert_true(book_has("1 not drained in 200 ms: aborting\n"));
	server_close(server);
}

static void server__without_jobs_drains_at_once(void **state)
{
	struct server *server = test_server((struct server_options){ .drain_ms = 10 * LONG_MS });

	(void)state;
	server_drain(server);
	assert_true(server_wait(server, LONG_MS));
	assert_int_equal(server->result, 0);
	assert_true(book_has("2 draining: no new jobs\n"));
	server_close(server);
}

static void server__stopping_tells_all_and_ends_at_once(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct client clients[2];
	char address[32];

	(void)state;
	clients_start(clients, 2, tcp_address(server, address), "stop");
	server_stop(server);
	for (int rank = 0; rank < 2; rank++)
		client_expect(&clients[rank], CONTROL_ABORT, NEWS_MS);
	assert_true(server_wait(server, LONG_MS));
	assert_int_equal(server->result, SERVER_ABORTED);
	server_close(server);
	for (int rank = 0; rank < 2; rank++)
		client_close(&clients[rank]);
}

/* What it read before the clock was set forward is over at once, and set back it would be in an hour. */
static void server__waits_as_long_as_it_says_whatever_the_wall_clock_does(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });

	(void)state;
	alarm(40);
	for (long step_s = -3600; step_s <= 3600; step_s += 7200) {
		uint64_t begin_ms = uptime_ms();

		wall_clock_step_s = step_s;
		assert_false(server_wait(server, 1100));
		assert_in_range(uptime_ms() - begin_ms, 1100, 1100 + LONG_MS);
	}
	wall_clock_step_s = 0;
	alarm(0);
	server_close(server);
}

static void assert_listens(const char *at, bool is_local, const char *address)
{
	struct server_options options = { .log = book_log, .receive_bytes = 128 << 10 };
	struct server *server;
	char text[SERVER_TEXT_BYTES], want[SERVER_TEXT_BYTES];

	if (is_local)
		options.local_name = at;
	else if (at)
		assert_int_equal(server_listen_parse(at, &options), 0);
	assert_int_equal(server_open(&server, &options), 0);
	snprintf(want, sizeof(want), is_local ? "%s" : "%s:%u", address, server_port(server));
	assert_string_equal(server_address(server, text), want);
	server_close(server);
}

static void server__says_where_it_listens(void **state)
{
	struct server_options options = { .receive_bytes = 1 };
	char name[64], address[65], longest[200];
	struct server *server = NULL;

	(void)state;
	snprintf(name, sizeof(name), "tally-test-at-%ld", (long)getpid());
	snprintf(address, sizeof(address), "@%s", name);
	assert_listens(name, true, address);
	assert_listens("127.0.0.1:0", false, "127.0.0.1");
	assert_listens("0.0.0.0:0", false, "0.0.0.0");
	assert_listens(NULL, false, "0.0.0.0"); /* nobody has said where */
	assert_int_equal(server_listen_parse("127.0.0.1", &options), 0);
	assert_int_equal(options.listen.port, SERVER_PORT);
	memset(longest, 'n', sizeof(longest));
	longest[108] = 0;
	book.text[0] = 0;
	options = (struct server_options){ .log = book_log, .local_name = longest };
	assert_int_equal(server_open(&server, &options), -EINVAL);
	assert_true(book_has(": too long for a unix socket\n"));
}

static void server__says_why_a_port_cannot_be_had(void **state)
{
	struct server *first = test_server((struct server_options){ .shards = 1 });
	struct server_options options = { .log = book_log };
	struct server *second = NULL;

	(void)state;
	options.listen.ip[10] = options.listen.ip[11] = 0xff;
	options.listen.ip[12] = 127;
	options.listen.ip[15] = 1;
	options.listen.port = server_port(first);
	assert_int_equal(server_open(&second, &options), -EADDRINUSE);
	assert_true(book_has("Address already in use"));
	server_close(first);
}

/* 1 GiB: a byte more than any kernel gives. */
static void server__says_once_that_windows_shrink_to_the_receive_buffer(void **state)
{
	char name[64], line[64];
	struct server_options options = {
		.log = book_log, .local_name = name, .shards = 3, .receive_bytes = 1u << 30
	};
	struct server *server;
	const char *at;

	(void)state;
	snprintf(name, sizeof(name), "shrink-%d", (int)getpid());
	book.text[0] = 0;
	assert_int_equal(server_open(&server, &options), 0);
	snprintf(line, sizeof(line), "%d receive buffer: ", SERVER_INFO); /* which tallyd shows */
	at = strstr(book.text, line);
	assert_non_null(at);
	assert_null(strstr(at + strlen(line), "receive buffer: "));
	at = strstr(at, "windows shrink to fit: raise net.core.rmem_max");
	assert_non_null(at);
	server_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server__adds_the_vectors_of_two_ranks),
		cmocka_unit_test(server__says_at_a_jobs_end_how_many_packets_came_again),
		cmocka_unit_test(server__hosts_local_ranks_on_an_abstract_socket),
		cmocka_unit_test(server__runs_two_jobs_on_two_shards_at_once),
		cmocka_unit_test(server__of_no_generation_can_another_be_told),
		cmocka_unit_test(server__gives_a_name_and_its_slots_again_after_all_have_left),
		cmocka_unit_test(server__tells_all_that_sizes_differ),
		cmocka_unit_test(server__names_a_killed_rank_to_the_others_within_2_s),
		cmocka_unit_test(server__tells_all_of_a_mismatch_within_2_s),
		cmocka_unit_test(server__drops_strangers_packets_and_counts_them),
		cmocka_unit_test(server__drops_connections_that_talk_nonsense),
		cmocka_unit_test(server__draining_denies_gatherings_and_lets_jobs_end),
		cmocka_unit_test(server__a_local_one_that_drains_cuts_nobody_short),
		cmocka_unit_test(server__draining_aborts_at_its_limit),
		cmocka_unit_test(server__without_jobs_drains_at_once),
		cmocka_unit_test(server__stopping_tells_all_and_ends_at_once),
		cmocka_unit_test(server__waits_as_long_as_it_says_whatever_the_wall_clock_does),
		cmocka_unit_test(server__says_where_it_listens),
		cmocka_unit_test(server__says_why_a_port_cannot_be_had),
		cmocka_unit_test(server__says_once_that_windows_shrink_to_the_receive_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
