/* SPDX-License-Identifier: Apache-2.0 */
/* accept_test.c - who comes in: how many at a time, what is known of them, the last descriptor, and what is left of
 * those who have gone. Connections, epoll, jobs and the time are the test's. */
#include "server/conn_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
	uint32_t uid;
	bool has_failed;
	uint32_t gives_up; /* strangers that there are to be given up */
	uint32_t asked;
} local;

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
bool __wrap_strangers_give_up_one(struct server *server, uint64_t now_ns);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	assert_true(fd >= FD);
	assert_int_equal(level, SOL_SOCKET);
	assert_int_equal(name, SO_PEERCRED);
	assert_int_equal(*bytes, sizeof(struct ucred));
	((struct ucred *)value)->uid = local.uid;
	return local.has_failed ? -1 : 0;
}

bool __wrap_strangers_give_up_one(struct server *server, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(now_ns, test.now_ns);
	local.asked++;
	return local.gives_up && local.gives_up--;
}

static int setup(void **state)
{
	memset(&local, 0, sizeof(local));
	local.uid = geteuid();
	return conn_setup(state);
}

static void accept__knows_who_has_come_and_watches_it(void **state)
{
	const struct peer *peer = test.peers;

	(void)state;
	peers_accept(&test.server, test.now_ns);
	peer = test.peers;
	assert_ptr_equal(peer->conn, &played.conn[0]);
	assert_string_equal(peer->text, "10.0.0.9:4000");
	assert_int_equal(atomic_load(&peer->held), FD + 1); /* a forked child closes it */
	assert_int_equal(peer->since_ns, test.now_ns);
	assert_int_equal(peer->handle, 2 * PEERS_MAX);
	assert_int_equal(peer->job, NO_JOB);
	assert_int_equal(peer->table, NO_TABLE);
	assert_true(peer->is_stranger && !peer->has_joined && !peer->has_spare);
	assert_int_equal(peer->conn->limit, JOIN_BYTES_MAX); /* until it is let in */
	assert_int_equal(test.server.peers_count, 1);
	assert_int_equal(test.server.silent_count, 1);
	assert_int_equal(test.server.strangers_count, 1);
	assert_int_equal(played.watched, 1);
	assert_int_equal(played.watched_how, EPOLL_CTL_ADD);
	assert_int_equal(played.watched_fd, FD);
	assert_int_equal(played.watched_event.events, EPOLLIN);
	assert_int_equal(played.watched_event.data.u32, peer->handle);
	assert_ptr_equal(peer_of(&test.server, peer->handle), peer);
	assert_null(peer_of(&test.server, peer->handle + PEERS_MAX));
	assert_null(peer_of(&test.server, peer->handle + 1));
	assert_int_equal(test.lines, 0);
}

static void accept__of_ipv6_a_whole_network_is_one_source(void **state)
{
	static const uint8_t ips[][16] = {
		{ 0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, [15] = 7 },
		{ 0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 9, [15] = 8 },
		{ 0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, [15] = 7 },
		{ [10] = 0xff, [11] = 0xff, 10, 0, 0, 9 },
		{ [10] = 0xff, [11] = 0xff, 10, 0, 0, 8 },
	};
	const struct peer *peers = test.peers;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		memcpy(played.conn[i].ip, ips[i], 16);
	played.conn[5].port = 0;
	peers = come(6);
	assert_string_equal(peers[0].text, "[2001:db8:0:1::7]:4000");
	assert_string_equal(peers[5].text, "a local process");
	assert_true(peers[0].source == peers[1].source);
	for (uint32_t i = 1; i < 5; i++)
		assert_true(peers[i].source && peers[i].source != peers[i + 1].source);
	assert_int_equal(peers[5].source, 0);
}

static void accept__lets_64_in_before_others_have_their_turn(void **state)
{
	(void)state;
	played.waiting = 70;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(test.server.peers_count, 64);
	assert_int_equal(played.accepts, 64);
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(test.server.peers_count, 70);
	assert_int_equal(played.accepts, 71);
	assert_true(test.server.is_listening); /* nobody waits: that is no error */
	assert_int_equal(test.lines, 0);
	assert_ptr_equal(test.server.stranger_oldest, &test.peers[0]);
	assert_ptr_equal(test.server.stranger_newest, &test.peers[69]);
	for (uint32_t i = 0; i < 70; i++)
		assert_ptr_equal(peer_of(&test.server, test.peers[i].handle), &test.peers[i]);
}

/* An index is used again, and an old handle is nobody's. Handles are never 0, nor such as epoll's others are. */
static void accept__gives_a_place_again_under_another_handle(void **state)
{
	struct peer *peer = come(1);
	uint32_t handle = peer->handle;

	(void)state;
	peer_end(&test.server, peer);
	assert_null(peer_of(&test.server, handle));
	come(1);
	assert_ptr_equal(peer->conn, &played.conn[1]);
	assert_int_equal(peer->handle, handle + PEERS_MAX);
	assert_null(peer_of(&test.server, handle));
	peer_end(&test.server, peer);
	peer->serial = UINT32_MAX / PEERS_MAX - 2;
	come(1);
	assert_int_equal(peer->handle, UINT32_MAX - PEERS_MAX + 1);
	peer_end(&test.server, peer);
	come(1);
	assert_int_equal(peer->serial, 0);
	assert_int_equal(peer->handle, PEERS_MAX);
}

static void accept__who_cannot_be_watched_is_closed(void **state)
{
	(void)state;
	played.cannot_watch = true;
	peers_accept(&test.server, test.now_ns);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4000: its connection cannot be watched, and is closed: No space left "
		    "on device");
	assert_true(played.conn[0].is_closed);
	assert_int_equal(test.server.peers_count + test.server.strangers_count, 0);
	assert_int_equal(test.server.silent_count, 0);
	assert_ptr_equal(test.server.peers_free, &test.peers[0]);
	assert_null(test.peers[0].conn);
	assert_true(test.server.is_listening);
}

static void accept__of_a_local_one_lets_its_user_and_root_in(void **state)
{
	(void)state;
	test.server.is_local = true;
	come(1);
	local.uid = 0;
	come(1);
	assert_int_equal(test.server.peers_count, 2);
	local.uid = geteuid() + 7;
	come(1);
	assert_true(played.conn[2].is_closed);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE, "a process of another user was refused");
	local.uid = geteuid();
	local.has_failed = true;
	come(1);
	assert_true(played.conn[3].is_closed);
	assert_int_equal(test.server.peers_count, 2);
	test.server.is_local = false; /* over TCP that is not asked */
	come(1);
	assert_int_equal(test.server.peers_count, 3);
	assert_int_equal(test.lines, 2);
}

static bool is_fd(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* One is kept for this: who comes in on it is told, and with its end it is kept again. */
static void accept__without_descriptors_lets_one_in_on_the_spare(void **state)
{
	static const int errors[] = { EMFILE, ENFILE };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		int spare = test.server.spare_fd = peers_spare();

		assert_true(is_fd(spare) && fcntl(spare, F_GETFD) == FD_CLOEXEC);
		played.waiting = i + 1;
		played.fails = errors[i];
		played.fails_count = 1;
		peers_accept(&test.server, test.now_ns);
		assert_int_equal(local.asked, i + 1);
		assert_ptr_equal(test.peers[0].conn, &played.conn[i]);
		assert_true(test.peers[0].has_spare);
		assert_int_equal(test.server.spare_fd, -1);
		assert_false(is_fd(spare));
		assert_true(test.server.is_listening);
		peer_end(&test.server, &test.peers[0]);
		assert_true(is_fd(test.server.spare_fd));
		close(test.server.spare_fd);
	}
	test.server.spare_fd = peers_spare();
	test.server.is_local = true;
	local.uid = geteuid() + 1; /* of another user: it is kept again at once */
	played.waiting = 3;
	played.fails_count = 1;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(test.server.peers_count, 0);
	assert_true(is_fd(test.server.spare_fd));
	close(test.server.spare_fd);
}

/* It is one as any other, in a process that has closed its input. */
static void accept__on_the_spare_descriptor_0_lets_one_in_too(void **state)
{
	int input = dup(STDIN_FILENO), spare;

	(void)state;
	close(STDIN_FILENO);
	spare = test.server.spare_fd = peers_spare();
	played.fails = EMFILE;
	played.fails_count = 1;
	peers_accept(&test.server, test.now_ns);
	dup2(input, STDIN_FILENO);
	close(input);
	assert_int_equal(spare, STDIN_FILENO);
	assert_true(test.peers[0].has_spare);
}

static void accept__without_descriptors_gives_a_stranger_up_first(void **state)
{
	(void)state;
	local.gives_up = 1;
	played.fails = EMFILE;
	played.fails_count = 1;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(local.asked, 1);
	assert_int_equal(test.server.peers_count, 1);
	assert_false(test.peers[0].has_spare);
	played.fails = ECONNABORTED; /* of this no stranger is to blame */
	played.fails_count = 1;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(local.asked, 1);
}

static void accept__without_even_the_spare_waits_a_second(void **state)
{
	(void)state;
	played.fails = EMFILE;
	played.fails_count = 1;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(played.accepts, 1);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "cannot accept a connection: Too many open files");
	assert_false(test.server.is_listening);
	assert_int_equal(test.server.listen_ns, test.now_ns + second_ns);
	assert_int_equal(played.watched_how, EPOLL_CTL_MOD);
	assert_int_equal(played.watched_fd, LISTEN_FD);
	assert_int_equal(played.watched_event.events, 0);
	peers_listen(&test.server, true);
	assert_true(test.server.is_listening);
	assert_int_equal(played.watched_event.events, EPOLLIN);
	assert_true(played.watched_event.data.u32 < PEERS_MAX); /* no peer's handle */
	/* The spare one is of no use, either, and is kept. */
	test.server.spare_fd = peers_spare();
	played.fails_count = 2;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(played.accepts, 3);
	assert_true(is_fd(test.server.spare_fd));
	assert_int_equal(test.lines, 2);
	close(test.server.spare_fd);
}

/* ---- going ---- */

static void end__gives_the_place_back_and_then_the_job_hears_of_it(void **state)
{
	struct peer *peer = come(1);
	struct job *job = inside_job(0, "train", ADMISSION_GATHER, 2);
	uint32_t handle = peer->handle;

	(void)state;
	peer->job = 0;
	peer->is_closing = true;
	test.server.closing_count = 1;
	peer_end(&test.server, peer);
	assert_true(played.conn[0].is_closed);
	assert_int_equal(atomic_load(&peer->held), 0);
	assert_int_equal(played.steps, 1);
	assert_ptr_equal(played.stepped, job);
	assert_int_equal(played.step.type, ADMISSION_CLOSED);
	assert_int_equal(played.step.connection, handle);
	assert_false(played.had_conn);
	assert_int_equal(test.server.closing_count + test.server.silent_count, 0);
	assert_int_equal(test.server.peers_count + test.server.strangers_count, 0);
	assert_ptr_equal(test.server.peers_free, peer);
	assert_ptr_equal(peer->newer, &test.peers[1]);
	peer = come(1); /* of no job: nobody hears of it */
	peer_end(&test.server, peer);
	assert_int_equal(played.steps, 1);
}

/* Its job tells another one, to which nothing can be sent: that is ended, too, wherever it is. */
static void break_the_first(void)
{
	test.peers[0].is_broken = test.server.is_some_broken = true;
	played.on_step = NULL;
}

static void end__of_one_that_is_broken_may_break_another(void **state)
{
	struct peer *peers = come(3);

	(void)state;
	inside_job(3, "train", ADMISSION_GATHER, 2);
	peers[1].job = 3;
	peers[1].is_broken = peers[2].is_broken = true;
	peers_end_broken(&test.server); /* is_some_broken says whether there are any */
	assert_int_equal(test.server.peers_count, 3);
	test.server.is_some_broken = true;
	played.on_step = break_the_first;
	peers_end_broken(&test.server);
	assert_int_equal(test.server.peers_count, 0);
	assert_false(test.server.is_some_broken);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(played.conn[i].is_closed);
}

static void end__of_all_closes_each_and_tells_no_job(void **state)
{
	struct peer *peers = come(2);
	struct conn *last = &played.conn[2];

	(void)state;
	inside_job(3, "train", ADMISSION_GATHER, 2);
	peers[1].job = 3;
	test.peers[PEERS_MAX - 1].conn = last;
	test.peers[PEERS_MAX - 1].has_joined = true;
	test.server.peers_count++;
	peers_close_all(&test.server);
	assert_int_equal(test.server.peers_count, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(played.conn[i].is_closed);
	assert_int_equal(played.steps, 0);
}

#define ACCEPT_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ACCEPT_TEST(accept__knows_who_has_come_and_watches_it),
		ACCEPT_TEST(accept__of_ipv6_a_whole_network_is_one_source),
		ACCEPT_TEST(accept__lets_64_in_before_others_have_their_turn),
		ACCEPT_TEST(accept__gives_a_place_again_under_another_handle),
		ACCEPT_TEST(accept__who_cannot_be_watched_is_closed),
		ACCEPT_TEST(accept__of_a_local_one_lets_its_user_and_root_in),
		ACCEPT_TEST(accept__without_descriptors_lets_one_in_on_the_spare),
		ACCEPT_TEST(accept__on_the_spare_descriptor_0_lets_one_in_too),
		ACCEPT_TEST(accept__without_descriptors_gives_a_stranger_up_first),
		ACCEPT_TEST(accept__without_even_the_spare_waits_a_second),
		ACCEPT_TEST(end__gives_the_place_back_and_then_the_job_hears_of_it),
		ACCEPT_TEST(end__of_one_that_is_broken_may_break_another),
		ACCEPT_TEST(end__of_all_closes_each_and_tells_no_job),
	};

	return cmocka_run_group_tests_name("server-accept", tests, NULL, NULL);
}
