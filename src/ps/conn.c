/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - see conn.h. */
#include "ps/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ps/table.h"

enum { IN_FIRST = 1 << 12, READS_LAST = 16 };

struct ps_conn *ps_conn_open(int fd, uint64_t now_ns)
{
	struct ps_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->fd = fd;
	conn->since_ns = now_ns;
	conn->heard_ns = now_ns;
	conn->said_ns = now_ns;
	conn->bytes_max = PS_CONN_STRANGER_BYTES;
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
		last_words(conn->fd);
	close(conn->fd);
	for (uint32_t i = 0; i < conn->pull_count; i++)
		free(conn->pull[i].key);
	free(conn->in);
	free(conn->gate);
	bytes_fini(&conn->out);
	bytes_fini(&conn->held);
	free(conn);
}

/* ---- in ---- */

static size_t in_max(const struct ps_conn *conn)
{
	return KV_FRAME_BYTES + (size_t)conn->bytes_max;
}

static bool in_grow(struct ps_conn *conn)
{
	size_t room = conn->in_room ? 2 * conn->in_room : IN_FIRST;
	uint8_t *more;

	if (room > in_max(conn))
		room = in_max(conn);
	more = realloc(conn->in, room);
	if (!more)
		return false;
	conn->in = more;
	conn->in_room = room;
	return true;
}

bool ps_conn_read(struct ps_conn *conn)
{
	ssize_t got;

	/* A frame that fills all that there may be is whole, and is taken before more is read: a recv of nothing would look
	 * like the end. */
	if (conn->in_count == in_max(conn))
		return true;
	if (conn->in_count == conn->in_room && !in_grow(conn))
		return false;
	got = recv(conn->fd, conn->in + conn->in_count, conn->in_room - conn->in_count,
		   MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	conn->in_count += (size_t)got;
	return got > 0;
}

size_t ps_conn_frame(const struct ps_conn *conn)
{
	if (conn->in_count >= KV_FRAME_BYTES && sparse_body_get32(conn->in) > conn->bytes_max)
		return SIZE_MAX;
	return kv_frame_bytes(conn->in, conn->in_count);
}

void ps_conn_taken(struct ps_conn *conn, size_t bytes)
{
	conn->in_count -= bytes;
	memmove(conn->in, conn->in + bytes, conn->in_count);
}

bool ps_conn_is_full(const struct ps_conn *conn)
{
	return conn->out.count - conn->out_at + conn->held.count - conn->held_at > PS_CONN_OUT_MAX;
}

/* ---- out ---- */

static void put(struct ps_conn *conn, struct bytes *to, const struct kv_message *message)
{
	size_t most = kv_bytes(message), before = to->count;
	uint8_t *frame = malloc(most);

	if (!frame) {
		conn->is_gone = true; /* who misses an answer asks again, on its next connection */
		return;
	}
	bytes_put(to, frame, kv_put(message, frame));
	free(frame);
	if (to->is_short) {
		to->count = before;
		conn->is_gone = true;
	}
}

void ps_conn_say(struct ps_conn *conn, const struct kv_message *message)
{
	put(conn, &conn->out, message);
}

/* Of what `held` has from `before` on. */
static void gate_add(struct ps_conn *conn, const struct ps_table *table, size_t before)
{
	conn->gate[conn->gate_count++] = (struct ps_gate){ .table = table,
							   .position = ps_table_position(table),
							   .bytes = conn->held.count - before };
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
	size_t before = conn->held.count;

	if (!gate_reserve(conn))
		return;
	put(conn, &conn->held, message);
	if (!conn->is_gone)
		gate_add(conn, table, before);
}

void ps_conn_wait(struct ps_conn *conn, const struct ps_table *table)
{
	if (gate_reserve(conn))
		gate_add(conn, table, conn->held.count);
}

static void compact(struct bytes *bytes, size_t *at)
{
	if (*at < bytes->count / 2 && *at < PS_CONN_OUT_MAX / 16)
		return;
	bytes->count -= *at;
	memmove(bytes->at, bytes->at + *at, bytes->count);
	*at = 0;
}

static void release(struct ps_conn *conn)
{
	uint32_t done = 0;

	for (; done < conn->gate_count; done++) {
		const struct ps_gate *gate = &conn->gate[done];

		if (!ps_table_is_durable(gate->table, gate->position))
			break;
		bytes_put(&conn->out, conn->held.at + conn->held_at, gate->bytes);
		if (conn->out.is_short) {
			conn->is_gone = true;
			return;
		}
		conn->held_at += gate->bytes;
	}
	if (!done)
		return;
	conn->gate_count -= done;
	memmove(conn->gate, conn->gate + done, conn->gate_count * sizeof(*conn->gate));
	compact(&conn->held, &conn->held_at);
}

bool ps_conn_wants_to_write(const struct ps_conn *conn)
{
	return conn->out_at < conn->out.count;
}

bool ps_conn_write(struct ps_conn *conn, uint64_t now_ns)
{
	release(conn);
	while (ps_conn_wants_to_write(conn)) {
		ssize_t got = send(conn->fd, conn->out.at + conn->out_at,
				   conn->out.count - conn->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			break;
		if (got <= 0)
			return false;
		conn->out_at += (size_t)got;
		conn->said_ns = now_ns;
	}
	if (conn->out_at)
		compact(&conn->out, &conn->out_at);
	return true;
}
