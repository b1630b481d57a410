/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_fixture.h - for tests: the aggregator as its members see it. A scripted client says every word by
 * itself, through control/codec and raw UDP packets. Included once in a program.
 */
#ifndef SERVER_FIXTURE_H
#define SERVER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control/conn.h"
#include "core/shared/wire.h"
#include "server/server.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

/* Bad news takes 2 s at most. */
enum { NEWS_MS = 2000, LONG_MS = 10000, LANES = 64, BOOK_BYTES = 1 << 16 };

/* --- what the server logs --- */

struct book {
	pthread_mutex_t mutex;
	char text[BOOK_BYTES];
};

static struct book book = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* A line: its level, the job it is about and its rank, if any, the text. */
static void book_log(void *arg, enum server_level level, const struct server_about *about,
		     const char *line)
{
	char who[320] = "";
	size_t used;

	(void)arg;
	if (about->job && about->rank != SERVER_RANK_NONE)
		snprintf(who, sizeof(who), "[%s %u] ", about->job, about->rank);
	else if (about->job)
		snprintf(who, sizeof(who), "[%s] ", about->job);
	pthread_mutex_lock(&book.mutex);
	used = strlen(book.text);
	snprintf(book.text + used, sizeof(book.text) - used, "%d %s%s\n", (int)level, who, line);
	pthread_mutex_unlock(&book.mutex);
}

static bool book_has(const char *words)
{
	bool has;

	pthread_mutex_lock(&book.mutex);
	has = strstr(book.text, words);
	pthread_mutex_unlock(&book.mutex);
	return has;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- the server --- */

static struct server *test_server(struct server_options options)
{
	struct server *server;

	book.text[0] = 0;
	options.log = book_log;
	if (!options.local_name)
		options.listen = (struct link_address){
			.ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
			.port = options.listen.port,
		};
	options.receive_bytes = 128 << 10;
	assert_int_equal(server_open(&server, &options), 0);
	assert_int_equal(server_start(server), 0);
	return server;
}

/* --- a client --- */

struct client {
	struct conn *conn;
	struct codec codec;
	struct control_message message; /* the last one */
	struct control_grant grant;
	uint16_t rank;
	int udp;
	const char *awaited; /* of a PROGRESS; NULL: it has come, or nothing is */
};

static void client_open(struct client *client, const char *address)
{
	struct conn_address to;

	memset(client, 0, sizeof(*client));
	client->udp = -1;
	assert_int_equal(conn_resolve(address, 0, &to), 0);
	assert_int_equal(conn_connect(&client->conn, &to, now_ns(), 2000000000), 0);
	for (int i = 0;
	     conn_read(client->conn, now_ns(), &client->codec, &client->message) != CONN_CONNECTED;
	     i++) {
		struct pollfd wait = { .fd = conn_fd(client->conn), .events = POLLOUT };

		assert_true(i < 100);
		poll(&wait, 1, 20);
	}
}

static void client_close(struct client *client)
{
	conn_close(client->conn);
	if (client->udp >= 0)
		close(client->udp);
}

/* The next message but HEARTBEAT and PROGRESS; PING is answered. False: the end, or nothing in time: that is counted in
 * looks of 10 ms, for a machine that stands still is not the server's fault. */
static bool client_next(struct client *client, int timeout_ms)
{
	for (int left = timeout_ms / 10; left > 0;) {
		struct pollfd wait = { .fd = conn_fd(client->conn) };
		struct control_message pong = { .type = CONTROL_PONG };

		switch (conn_read(client->conn, now_ns(), &client->codec, &client->message)) {
		case CONN_MESSAGE:
			if (client->message.type == CONTROL_PING) {
				pong.ping.serial = client->message.ping.serial;
				conn_send(client->conn, &client->codec, &pong);
			} else if (client->message.type == CONTROL_PROGRESS) {
				if (client->awaited &&
				    strstr(client->message.progress.text, client->awaited))
					client->awaited = NULL;
			} else if (client->message.type != CONTROL_HEARTBEAT) {
				return true;
			}
			break;
		case CONN_NONE:
			wait.events = conn_events(client->conn);
			left -= !poll(&wait, 1, 10);
			break;
		case CONN_CONNECTED:
			break;
		case CONN_EOF:
		case CONN_ERROR:
			return false;
		}
	}
	return false;
}

static void client_expect(struct client *client, enum control_type type, int timeout_ms)
{
	if (!client_next(client, timeout_ms))
		fail_msg("rank %u got no message: %s; the server logged:\n%s", client->rank,
			 conn_text(client->conn), book.text);
	assert_int_equal(client->message.type, type);
}

static void client_send(struct client *client, const struct control_message *message)
{
	assert_int_equal(conn_send(client->conn, &client->codec, message), 0);
}

static void client_join_as(struct client *client, const char *job, uint16_t rank, uint16_t size,
			   struct control_join said)
{
	struct control_message join = { .type = CONTROL_JOIN, .join = said };

	client->rank = rank;
	join.join.version_min = join.join.version_max = CONTROL_VERSION;
	join.join.size = size;
	join.join.rank = rank;
	join.join.workers = 1;
	join.join.pid = (uint32_t)getpid();
	join.join.mtu = said.mtu ? said.mtu : 1500;
	snprintf(join.join.job, sizeof(join.join.job), "%s", job);
	snprintf(join.join.host, sizeof(join.join.host), "node%u", rank);
	client_send(client, &join);
}

static void client_join(struct client *client, const char *job, uint16_t rank, uint16_t size)
{
	client_join_as(client, job, rank, size, (struct control_join){ .kind = CONTROL_WORKER });
}

static void client_udp_open(struct client *client)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = LONG_MS / 1000 };

	client->udp = socket(AF_INET, SOCK_DGRAM, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons(client->grant.shards[0].port);
	assert_int_equal(connect(client->udp, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(client->udp, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* A packet as this client would send it; header->lanes int32 of `lane`. */
static void client_put(struct client *client, struct wire *header, const void *lane)
{
	uint8_t packet[65507] = { 0 };
	uint32_t bytes = wire_bytes(header->lanes);

	header->job = client->grant.shards[0].job;
	header->generation = client->grant.shards[0].generation;
	header->child = client->rank;
	wire_put(packet, header);
	memcpy(packet + WIRE_HEADER_BYTES, lane, bytes - WIRE_HEADER_BYTES);
	assert_int_equal(send(client->udp, packet, bytes, 0), bytes);
}

static void client_get(struct client *client, struct wire *header, int32_t lane[LANES])
{
	uint8_t packet[65507];
	ssize_t bytes = recv(client->udp, packet, sizeof(packet), 0);

	assert_true(bytes > 0);
	assert_int_equal(wire_check(packet, (uint32_t)bytes, header), WIRE_OK);
	if (lane)
		memcpy(lane, packet + WIRE_HEADER_BYTES, (size_t)bytes - WIRE_HEADER_BYTES);
}

static void client_hello(struct client *client)
{
	struct wire header = { .type = WIRE_HELLO, .seq = 1 };
	int32_t lane[WIRE_LANES_MAX] = { 0 };
	uint16_t lanes = client->grant.shards[0].lanes;

	memcpy(lane, client->grant.nonce, sizeof(client->grant.nonce));
	header.lanes = lanes;
	client_put(client, &header, lane);
	client_get(client, &header, lane);
	assert_int_equal(header.type, WIRE_WELCOME);
	assert_int_equal(header.lanes, lanes);
	assert_int_equal(header.seq, 1);
}

static void client_update(struct client *client, uint32_t seq, uint32_t tag, int32_t value)
{
	struct wire header = { .type = WIRE_UPDATE, .seq = seq, .tag = tag, .lanes = LANES };
	int32_t lane[LANES];

	for (int i = 0; i < LANES; i++)
		lane[i] = value;
	client_put(client, &header, lane);
}

/* `size` clients from nowhere to START. */
static void clients_start(struct client *clients, uint16_t size, const char *address,
			  const char *job)
{
	for (uint16_t rank = 0; rank < size; rank++) {
		client_open(&clients[rank], address);
		client_join(&clients[rank], job, rank, size);
	}
	for (uint16_t rank = 0; rank < size; rank++) {
		struct control_message ready = { .type = CONTROL_READY };

		client_expect(&clients[rank], CONTROL_GRANT, LONG_MS);
		clients[rank].grant = clients[rank].message.grant;
		client_udp_open(&clients[rank]);
		client_hello(&clients[rank]);
		ready.lanes.lanes = clients[rank].grant.shards[0].lanes;
		client_send(&clients[rank], &ready);
	}
	for (uint16_t rank = 0; rank < size; rank++)
		client_expect(&clients[rank], CONTROL_START, LONG_MS);
}

static void client_leave(struct client *client, uint64_t submitted)
{
	struct control_message leave = { .type = CONTROL_LEAVE };

	leave.leave.submitted = submitted;
	client_send(client, &leave);
	client_expect(client, CONTROL_LEFT, NEWS_MS);
}

static const char *tcp_address(const struct server *server, char text[32])
{
	snprintf(text, 32, "127.0.0.1:%u", server_port(server));
	return text;
}

#endif
