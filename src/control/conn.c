/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - see conn.h. */
#include "control/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024, TEXT_BYTES = 256, NS_PER_S = 1000000000, BACKLOG = 512 };

enum state {
	CONNECTING, /* waits for the handshake */
	OPEN,
	CLOSING, /* last words: writes what is queued, reads to the end and throws it away */
	ENDED,
};

struct bytes {
	uint8_t *data;
	size_t from, count, room; /* data[from .. from + count) */
};

struct conn {
	int fd;
	enum state state;
	enum conn_result end; /* ENDED: what conn_read says */
	bool is_write_shut;
	uint64_t deadline_ns;
	struct bytes in, out;
	char text[TEXT_BYTES];
	char peer_name[CONN_ADDRESS_BYTES];
};

/* ---- addresses ---- */

static int resolve_unix(const char *name, struct conn_address *address)
{
	struct sockaddr_un *socket = (struct sockaddr_un *)(void *)&address->socket;
	size_t count = strlen(name);

	if (!count || count >= sizeof(socket->sun_path) - 1)
		return -EINVAL;
	socket->sun_family = AF_UNIX;
	memcpy(socket->sun_path + 1, name, count); /* sun_path[0] = 0: abstract */
	address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + count);
	return 0;
}

/* "host:port" -> host and port. */
static int split(const char *text, char host[CONN_ADDRESS_BYTES], const char **port)
{
	const char *end = strchr(text, ']');
	const char *colon = strrchr(text, ':');
	size_t count;

	*port = NULL;
	if (text[0] == '[') {
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		text++;
		count = (size_t)(end - text);
		*port = end[1] ? end + 2 : NULL;
	} else if (colon && strchr(text, ':') == colon) {
		count = (size_t)(colon - text);
		*port = colon + 1;
	} else {
		count = strlen(text); /* no port, or a bare IPv6 address */
	}
	if (count >= CONN_ADDRESS_BYTES || (*port && !**port))
		return -EINVAL;
	memcpy(host, text, count);
	host[count] = '\0';
	return 0;
}

static int resolve_inet(const char *host, uint16_t port, struct conn_address *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	char service[8];
	int error;

	snprintf(service, sizeof(service), "%u", port);
	if (!*host)
		hints.ai_flags |= AI_PASSIVE;
	error = getaddrinfo(*host ? host : NULL, service, &hints, &found);
	if (error == EAI_AGAIN)
		return -EAGAIN;
	if (error)
		return -ENOENT;
	memcpy(&address->socket, found->ai_addr, found->ai_addrlen);
	address->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

int conn_resolve(const char *text, uint16_t default_port, struct conn_address *address)
{
	char host[CONN_ADDRESS_BYTES];
	unsigned long port = default_port;
	const char *port_text;
	char *end;

	*address = (struct conn_address){ 0 };
	snprintf(address->text, sizeof(address->text), "%s", text);
	if (text[0] == '@')
		return resolve_unix(text + 1, address);
	if (split(text, host, &port_text))
		return -EINVAL;
	if (port_text) {
		port = strtoul(port_text, &end, 10);
		if (*end || port > UINT16_MAX || *port_text < '0' || *port_text > '9')
			return -EINVAL;
	} else {
		snprintf(address->text, sizeof(address->text),
			 strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, default_port);
	}
	return resolve_inet(host, (uint16_t)port, address);
}

static void address_of(const struct sockaddr_storage *from, uint8_t ip[16], uint16_t *port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;

	memset(ip, 0, 16);
	*port = 0;
	if (from->ss_family == AF_INET) {
		ip[10] = ip[11] = 0xff;
		memcpy(ip + 12, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
	} else if (from->ss_family == AF_INET6) {
		memcpy(ip, &v6->sin6_addr, 16);
		*port = ntohs(v6->sin6_port);
	}
}

void conn_peer(const struct conn *conn, uint8_t ip[16], uint16_t *port)
{
	struct sockaddr_storage address = { 0 };
	socklen_t bytes = sizeof(address);

	getpeername(conn->fd, (struct sockaddr *)&address, &bytes);
	address_of(&address, ip, port);
}

void conn_local(const struct conn *conn, uint8_t ip[16], uint16_t *port)
{
	struct sockaddr_storage address = { 0 };
	socklen_t bytes = sizeof(address);

	getsockname(conn->fd, (struct sockaddr *)&address, &bytes);
	address_of(&address, ip, port);
}

int conn_listen(struct conn_address *address)
{
	const struct sockaddr *name = (const struct sockaddr *)&address->socket;
	int family = address->socket.ss_family, on = 1, off = 0, error;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, name, address->bytes) || listen(fd, BACKLOG)) {
		error = errno;
		close(fd);
		return -error;
	}
	if (family != AF_UNIX) {
		address->bytes = sizeof(address->socket);
		getsockname(fd, (struct sockaddr *)&address->socket, &address->bytes);
	}
	return fd;
}

/* ---- a connection's life ---- */

static struct conn *conn_new(int fd, enum state state)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	unsigned int unsent_ms = CONN_UNSENT_S * 1000;
	int on = 1;

	if (!conn)
		return NULL;
	/* These fail on unix sockets, which need neither. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof(unsent_ms));
	conn->fd = fd;
	conn->state = state;
	conn->deadline_ns = UINT64_MAX;
	return conn;
}

int conn_connect(struct conn **conn, const struct conn_address *address, uint64_t now_ns,
		 uint64_t timeout_ns)
{
	const struct sockaddr *name = (const struct sockaddr *)&address->socket;
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct conn *new;
	int error;

	if (fd < 0)
		return -errno;
	if (connect(fd, name, address->bytes) && errno != EINPROGRESS) {
		error = errno;
		close(fd);
		return -error;
	}
	new = conn_new(fd, CONNECTING);
	if (!new) {
		close(fd);
		return -ENOMEM;
	}
	new->deadline_ns = now_ns + timeout_ns;
	snprintf(new->peer_name, sizeof(new->peer_name), "%s", address->text);
	*conn = new;
	return 0;
}

int conn_accept(struct conn **conn, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED ? -EAGAIN
										       : -errno;
	*conn = conn_new(fd, OPEN);
	if (*conn)
		return 0;
	close(fd);
	return -ENOMEM;
}

int conn_fd(const struct conn *conn)
{
	return conn->fd;
}

short conn_events(const struct conn *conn)
{
	switch (conn->state) {
	case CONNECTING:
		return POLLOUT;
	case OPEN:
	case CLOSING:
		return conn->out.count ? POLLIN | POLLOUT : POLLIN;
	case ENDED:
		break;
	}
	return 0;
}

uint64_t conn_deadline(const struct conn *conn)
{
	return conn->state == ENDED ? UINT64_MAX : conn->deadline_ns;
}

const char *conn_text(const struct conn *conn)
{
	return conn->text;
}

static enum conn_result ended(struct conn *conn, enum conn_result end, const char *text)
{
	conn->state = ENDED;
	conn->end = end;
	conn->deadline_ns = UINT64_MAX;
	snprintf(conn->text, sizeof(conn->text), "%s", text);
	return end;
}

/* ---- bytes ---- */

static int bytes_append(struct bytes *bytes, const uint8_t *data, size_t count)
{
	if (bytes->from) {
		memmove(bytes->data, bytes->data + bytes->from, bytes->count);
		bytes->from = 0;
	}
	if (bytes->count + count > bytes->room) {
		size_t room = 2 * (bytes->count + count);
		uint8_t *more = realloc(bytes->data, room);

		if (!more)
			return -ENOMEM;
		bytes->data = more;
		bytes->room = room;
	}
	memcpy(bytes->data + bytes->count, data, count);
	bytes->count += count;
	return 0;
}

static void bytes_drop(struct bytes *bytes, size_t count)
{
	bytes->from += count;
	bytes->count -= count;
	if (!bytes->count)
		bytes->from = 0;
}

/* Sends what the kernel takes. An error is left to the reader: what the peer said before it closed can
 * still be read. */
static void flush(struct conn *conn)
{
	while (conn->out.count) {
		ssize_t sent = send(conn->fd, conn->out.data + conn->out.from, conn->out.count,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (sent < 0) {
			bytes_drop(&conn->out, conn->out.count);
			return;
		}
		bytes_drop(&conn->out, (size_t)sent);
	}
	if (conn->state == CLOSING && !conn->is_write_shut) {
		conn->is_write_shut = true;
		shutdown(conn->fd, SHUT_WR);
	}
}

int conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	uint8_t *frame;
	size_t bytes;
	int error;

	if (conn->state == CLOSING || conn->state == ENDED)
		return -EPIPE;
	error = codec_encode(codec, message, &frame, &bytes);
	if (error)
		return error;
	if (conn->out.count + bytes > CONN_OUT_BYTES_MAX)
		error = -ENOBUFS;
	else
		error = bytes_append(&conn->out, frame, bytes);
	free(frame);
	if (!error && conn->state == OPEN)
		flush(conn);
	return error;
}

void conn_last_words(struct conn *conn, uint64_t now_ns)
{
	if (conn->state == ENDED || conn->state == CLOSING)
		return;
	if (conn->state == CONNECTING) {
		ended(conn, CONN_EOF, "");
		return;
	}
	conn->state = CLOSING;
	conn->deadline_ns = now_ns + (uint64_t)CONN_LAST_WORDS_S * NS_PER_S;
	flush(conn);
}

void conn_close(struct conn *conn)
{
	if (!conn)
		return;
	close(conn->fd);
	free(conn->in.data);
	free(conn->out.data);
	free(conn);
}

/* ---- reading ---- */

static enum conn_result finish_connect(struct conn *conn, uint64_t now_ns)
{
	struct pollfd ready = { .fd = conn->fd, .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (poll(&ready, 1, 0) <= 0) {
		if (now_ns >= conn->deadline_ns)
			return ended(conn, CONN_ERROR, "no answer in time");
		return CONN_NONE;
	}
	getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	if (error)
		return ended(conn, CONN_ERROR, strerror(error));
	conn->state = OPEN;
	conn->deadline_ns = UINT64_MAX;
	flush(conn);
	return CONN_CONNECTED;
}

/* One message out of what has been received, if it is whole. */
static enum conn_result parse(struct conn *conn, struct codec *codec,
			      struct control_message *message)
{
	const uint8_t *at = conn->in.data + conn->in.from;
	char text[TEXT_BYTES];
	uint32_t length;
	int error;

	if (conn->in.count < CODEC_LENGTH_BYTES)
		return CONN_NONE;
	length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	if (length > CODEC_JSON_BYTES_MAX) {
		snprintf(text, sizeof(text), "the peer said nonsense: a message of %u bytes",
			 length);
		return ended(conn, CONN_ERROR, text);
	}
	if (conn->in.count < CODEC_LENGTH_BYTES + (size_t)length)
		return CONN_NONE;
	error = codec_decode(codec, at + CODEC_LENGTH_BYTES, length, message);
	bytes_drop(&conn->in, CODEC_LENGTH_BYTES + (size_t)length);
	if (error == -ENOMEM)
		return ended(conn, CONN_ERROR, strerror(ENOMEM));
	if (error) {
		snprintf(text, sizeof(text), "the peer said nonsense: %s", codec->error);
		return ended(conn, CONN_ERROR, text);
	}
	return CONN_MESSAGE;
}

/* More bytes: 1 if some came, 0 if there are none now, else the end. */
static int receive(struct conn *conn)
{
	uint8_t buffer[READ_BYTES];
	ssize_t count;

	do
		count = recv(conn->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
	while (count < 0 && errno == EINTR);
	if (count > 0) {
		if (conn->state == CLOSING)
			return 1; /* nobody listens any more */
		if (bytes_append(&conn->in, buffer, (size_t)count))
			return (int)ended(conn, CONN_ERROR, strerror(ENOMEM));
		return 1;
	}
	if (count == 0)
		return (int)ended(conn, CONN_EOF, "");
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return 0;
	if (errno == ECONNRESET || errno == EPIPE)
		return (int)ended(conn, CONN_EOF, strerror(errno)); /* as good as a close */
	return (int)ended(conn, CONN_ERROR, strerror(errno));
}

enum conn_result conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
			   struct control_message *message)
{
	enum conn_result result;
	int more;

	if (conn->state == ENDED)
		return conn->end;
	if (conn->state == CONNECTING)
		return finish_connect(conn, now_ns);
	flush(conn);
	for (;;) {
		if (conn->state == OPEN) {
			result = parse(conn, codec, message);
			if (result != CONN_NONE)
				return result;
		}
		more = receive(conn);
		if (more < 0)
			return (enum conn_result)more;
		if (!more)
			break;
	}
	if (now_ns >= conn->deadline_ns)
		return ended(conn, CONN_EOF, "");
	return CONN_NONE;
}
