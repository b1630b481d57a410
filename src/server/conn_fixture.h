/* SPDX-License-Identifier: Apache-2.0 */
/* conn_fixture.h - for tests: an aggregator's peers on connections that are played, with jobs, tables, epoll and the
 * time. What goes out, and what others are asked to do, is remembered. Included once in a program. */
#ifndef SERVER_CONN_FIXTURE_H
#define SERVER_CONN_FIXTURE_H

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "server/inside_fixture.h"

enum { SAYS_MAX = 80, CONNS = 80, FD = 1000, LISTEN_FD = 900, EPOLL_FD = 901 };

/* A connection: what it will say, one after the other, and then nothing; and what it was told. */
struct conn {
	struct {
		enum conn_result result;
		struct control_message message;
		uint64_t takes_ns; /* to read it */
	} says[SAYS_MAX];
	uint32_t says_count, reads;
	short events;
	uint64_t deadline_ns, last_words_ns;
	const char *text;
	uint8_t ip[16];
	uint16_t port;
	int cannot_send; /* an errno */
	bool cannot_answer, is_closed;
	uint32_t limit;
	uint32_t told_count;
	struct control_message told; /* the last */
};

static struct {
	struct conn conn[CONNS];
	uint32_t waiting; /* in the backlog: conn[accepted] is the next one */
	uint32_t accepted, accepts;
	int fails; /* with this errno; so many times */
	uint32_t fails_count;
	bool cannot_watch;
	uint32_t watched; /* calls of epoll_ctl */
	int watched_how, watched_fd, unwatched_fd;
	struct epoll_event watched_event;
	uint32_t steps;
	const struct job *stepped;
	struct admission_event step; /* the last */
	bool had_conn;               /* the connection that it was about was still there */
	uint64_t nonce[2];           /* of the last two */
	void (*on_step)(void);
} played;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event);
int __wrap_conn_fd(const struct conn *conn);
short __wrap_conn_events(const struct conn *conn);
uint64_t __wrap_conn_deadline(const struct conn *conn);
enum conn_result __wrap_conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
				  struct control_message *message);
void __wrap_conn_limit(struct conn *conn, uint32_t json_bytes_max);
int __wrap_conn_answer_nonsense(struct conn *conn, struct codec *codec,
				const struct control_message *message, uint64_t now_ns);
int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);
void __wrap_conn_last_words(struct conn *conn, uint64_t now_ns);
void __wrap_conn_close(struct conn *conn);
const char *__wrap_conn_text(const struct conn *conn);
void __wrap_conn_peer(const struct conn *conn, uint8_t ip[16], uint16_t *port);
int __wrap_conn_accept(struct conn **conn, int listen_fd);
void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	now->tv_sec = (time_t)(test.now_ns / second_ns);
	now->tv_nsec = (long)(test.now_ns % second_ns);
	return 0;
}

int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event)
{
	assert_int_equal(epoll_fd, EPOLL_FD);
	played.watched++;
	played.watched_how = how;
	played.watched_fd = fd;
	if (how == EPOLL_CTL_DEL)
		played.unwatched_fd = fd;
	played.watched_event = event ? *event : (struct epoll_event){ 0 };
	errno = ENOSPC;
	return played.cannot_watch ? -1 : 0;
}

int __wrap_conn_fd(const struct conn *conn)
{
	assert_false(conn->is_closed);
	return FD + (int)(conn - played.conn);
}

short __wrap_conn_events(const struct conn *conn)
{
	assert_false(conn->is_closed);
	return conn->events;
}

uint64_t __wrap_conn_deadline(const struct conn *conn)
{
	assert_false(conn->is_closed);
	return conn->deadline_ns;
}

enum conn_result __wrap_conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
				  struct control_message *message)
{
	uint32_t next = conn->reads++;

	(void)now_ns;
	assert_false(conn->is_closed);
	assert_ptr_equal(codec, &test.server.codec);
	if (next >= conn->says_count)
		return CONN_NONE;
	*message = conn->says[next].message;
	test.now_ns += conn->says[next].takes_ns;
	return conn->says[next].result;
}

void __wrap_conn_limit(struct conn *conn, uint32_t json_bytes_max)
{
	conn->limit = json_bytes_max;
}

int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	assert_false(conn->is_closed);
	assert_ptr_equal(codec, &test.server.codec);
	if (conn->cannot_send)
		return -conn->cannot_send;
	conn->told = *message;
	conn->told_count++;
	return 0;
}

int __wrap_conn_answer_nonsense(struct conn *conn, struct codec *codec,
				const struct control_message *message, uint64_t now_ns)
{
	assert_int_equal(now_ns, test.now_ns);
	return conn->cannot_answer ? -EPIPE : __wrap_conn_send(conn, codec, message);
}

void __wrap_conn_last_words(struct conn *conn, uint64_t now_ns)
{
	assert_int_equal(conn->last_words_ns, 0);
	conn->last_words_ns = now_ns;
}

void __wrap_conn_close(struct conn *conn)
{
	assert_false(conn->is_closed);
	conn->is_closed = true;
}

const char *__wrap_conn_text(const struct conn *conn)
{
	return conn->text;
}

void __wrap_conn_peer(const struct conn *conn, uint8_t ip[16], uint16_t *port)
{
	memcpy(ip, conn->ip, sizeof(conn->ip));
	*port = conn->port;
}

int __wrap_conn_accept(struct conn **conn, int listen_fd)
{
	assert_int_equal(listen_fd, LISTEN_FD);
	played.accepts++;
	if (played.fails_count) {
		played.fails_count--;
		return -played.fails;
	}
	if (played.accepted == played.waiting)
		return -EAGAIN;
	*conn = &played.conn[played.accepted++];
	return 0;
}

void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event)
{
	assert_ptr_equal(server, &test.server);
	played.steps++;
	played.stepped = job;
	played.step = *event;
	played.had_conn = peer_of(server, event->connection) != NULL;
	played.nonce[1] = played.nonce[0];
	if (event->nonce)
		memcpy(&played.nonce[0], event->nonce, sizeof(played.nonce[0]));
	if (played.on_step)
		played.on_step();
}

/* Nobody has come yet; one waits in the backlog, of 10.0.0.9, port 4000 and its number. */
static int conn_setup(void **state)
{
	if (inside_setup(state))
		return -1;
	memset(&played, 0, sizeof(played));
	for (uint32_t i = 0; i < CONNS; i++) {
		played.conn[i] = (struct conn){ .events = POLLIN,
						.deadline_ns = UINT64_MAX,
						.text = "",
						.ip = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 9 },
						.port = (uint16_t)(4000 + i) };
	}
	played.waiting = 1;
	test.server.options.share = 100;
	test.server.options.shards = 1;
	test.server.epoll_fd = EPOLL_FD;
	test.server.listen_fd = LISTEN_FD;
	test.server.spare_fd = -1;
	test.server.is_listening = true;
	test.server.turn_end_ns = UINT64_MAX;
	for (uint32_t i = PEERS_MAX; i-- > 0; test.server.peers_free = &test.peers[i])
		test.peers[i].newer = test.server.peers_free;
	return 0;
}

#define CONN_TEST(claim) cmocka_unit_test_setup_teardown(claim, conn_setup, inside_teardown)

/* So many come in, and are the first peers. */
static struct peer *come(uint32_t count)
{
	played.waiting = played.accepted + count;
	peers_accept(&test.server, test.now_ns);
	assert_int_equal(played.accepted, played.waiting);
	played.watched = 0;
	return test.peers;
}

static struct control_message *say(struct conn *conn, enum conn_result result,
				   enum control_type type)
{
	assert_true(conn->says_count < SAYS_MAX);
	conn->says[conn->says_count].result = result;
	conn->says[conn->says_count].message.type = type;
	return &conn->says[conn->says_count++].message;
}

#endif
