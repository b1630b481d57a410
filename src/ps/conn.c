/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - see conn.h. */
#include "ps/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ps/table.h"

enum { READS_LAST = 16 };

struct ps_conn *ps_conn_open(int fd, uint64_t now_ns)
{
	struct ps_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	kv_stream_open(&conn->stream, fd);
	conn->stream.bytes_max = PS_CONN_STRANGER_BYTES;
	conn->since_ns = now_ns;
	conn->heard_ns = now_ns;
	conn->said_ns = now_ns;
	strcpy(conn->who, "somebody who has not said HELLO");
	return conn;
}

/* A close with unread input resets the connection, and the reset eats what was said last. */
static void last_words(int fd)
{
	uint8_t unread[4096];

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < READS_LAST; i++)
		if (recv(fd, unread, sizeof(unread), MSG_DONTWAIT) <= 0)
			return;
}

void ps_conn_close(struct ps_conn *conn)
{
	if (conn->is_ending)
		last_words(conn->stream.fd);
	kv_stream_close(&conn->stream);
	for (uint32_t i = 0; i < conn->pull_count; i++)
		free(conn->pull[i].key);
	free(conn->gate);
	buffer_fini(&conn->held);
	free(conn);
}

bool ps_conn_is_full(const struct ps_conn *conn)
{
	return buffer_bytes(&conn->stream.out) + buffer_bytes(&conn->held) > PS_CONN_OUT_MAX;
}

/* KV_STREAM_OUT_MAX is not looked at: whoever is full is not asked for more. */
static void put(struct ps_conn *conn, struct buffer *to, const struct kv_message *message)
{
	if (kv_append(to, message))
		conn->is_gone = true; /* who misses an answer asks again, on its next connection */
}

void ps_conn_say(struct ps_conn *conn, const struct kv_message *message)
{
	put(conn, &conn->stream.out, message);
}

static void gate_add(struct ps_conn *conn, const struct ps_table *table, size_t bytes)
{
	conn->gate[conn->gate_count++] = (struct ps_gate){ .table = table,
							   .position = ps_table_position(table),
							   .bytes = bytes };
}

static bool gate_reserve(struct ps_conn *conn)
{
	uint32_t room = conn->gate_room ? 2 * conn->gate_room : 16;
	struct ps_gate *more;

	if (conn->gate_count < conn->gate_room)
		return true;
	more = realloc(conn->gate, room * sizeof(*more));
	if (!more) {
		conn->is_gone = true;
		return false;
	}
	conn->gate = more;
	conn->gate_room = room;
	return true;
}

void ps_conn_hold(struct ps_conn *conn, const struct ps_table *table,
		  const struct kv_message *message)
{
	size_t before;

	if (!gate_reserve(conn))
		return;
	before = buffer_bytes(&conn->held);
	put(conn, &conn->held, message);
	if (!conn->is_gone)
		gate_add(conn, table, buffer_bytes(&conn->held) - before);
}

void ps_conn_wait(struct ps_conn *conn, const struct ps_table *table)
{
	if (gate_reserve(conn))
		gate_add(conn, table, 0);
}

/* R-SP-27: what waits for the disk leaves in the order in which it was said. */
static void release(struct ps_conn *conn)
{
	uint32_t done = 0;

	for (; done < conn->gate_count; done++) {
		const struct ps_gate *gate = &conn->gate[done];

		if (!ps_table_is_durable(gate->table, gate->position))
			break;
		if (buffer_put(&conn->stream.out, buffer_first(&conn->held), gate->bytes)) {
			conn->is_gone = true;
			return;
		}
		buffer_take(&conn->held, gate->bytes);
	}
	if (!done)
		return;
	conn->gate_count -= done;
	memmove(conn->gate, conn->gate + done, conn->gate_count * sizeof(*conn->gate));
}

bool ps_conn_wants_to_write(const struct ps_conn *conn)
{
	return buffer_bytes(&conn->stream.out) > 0;
}

bool ps_conn_write(struct ps_conn *conn, uint64_t now_ns)
{
	uint64_t before = conn->stream.sent;
	int error;

	release(conn);
	error = kv_stream_flush(&conn->stream);
	if (conn->stream.sent > before)
		conn->said_ns = now_ns;
	return !error;
}
