/* SPDX-License-Identifier: Apache-2.0 */
#include "control/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/address.h"
#include "util/buffer.h"

enum {
	IN_BYTES_MAX = CODEC_LENGTH_BYTES + CODEC_JSON_BYTES_MAX,
	BACKLOG = 1024,
	WASTE_CALLS = 16, /* recvs of one conn_read that throws away */
	UNIX_NAME_MAX = 100,
	SHOWN_BYTES = 24, /* of what is no message */
};
static const uint64_t second_ns = 1000000000;

enum state {
	CONNECTING,
	OPEN,
	SHUTTING, /* last words that have not been sent yet */
	SHUT,     /* they have: only the peer's end of file is missing */
	ENDED,
};

struct conn {
	int fd;
	enum state state;
	enum conn_result end; /* ENDED: what conn_read returns once */
	bool is_told;         /* ... and has returned */
	bool has_spoken;      /* the peer: a message that could be read */
	bool is_nonsense;     /* ... because of a message beyond in_limit, or that is none */
	uint32_t in_limit;    /* bytes of JSON in one message */
	uint64_t deadline_ns;
	struct buffer in, out;
	char text[CODEC_ERROR_BYTES + 32];
};

/* ---- addresses ---- */

static int resolve_unix(const char *name, struct conn_address *address)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&address->socket;
	size_t bytes = strlen(name);

	if (!bytes || bytes > UNIX_NAME_MAX)
		return -EINVAL;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path + 1, name, bytes); /* abstract: it begins with a NUL */
	address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
	return 0;
}

int conn_resolve(const char *text, uint16_t default_port, struct conn_address *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found;
	char host[CONN_ADDRESS_BYTES], digits[8];
	uint16_t port = default_port;

	memset(address, 0, sizeof(*address));
	snprintf(address->text, sizeof(address->text), "%s", text);
	if (text[0] == '@')
		return resolve_unix(text + 1, address);
	if (address_split(text, host, sizeof(host), &port) || (!port && default_port))
		return -EINVAL; /* nobody can be reached at port 0 */
	snprintf(digits, sizeof(digits), "%u", port);
	snprintf(address->text, sizeof(address->text),
		 strchr(host, ':') ? "[%.100s]:%s" : "%.100s:%s", host, digits);
	int error = getaddrinfo(host, digits, &hints, &found);
	if (error == EAI_AGAIN)
		return -EAGAIN;
	if (error)
		return -ENOENT;
	memcpy(&address->socket, found->ai_addr, found->ai_addrlen);
	address->bytes = found->ai_addrlen;
	for (struct addrinfo *next = found->ai_next;
	     next && address->others_count < CONN_ADDRESSES_MAX - 1; next = next->ai_next)
		memcpy(&address->others[address->others_count++], next->ai_addr, next->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* NULL: connecting to it may work, some day. */
static const char *unfit(const struct sockaddr_storage *socket)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)socket)->sin6_addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)socket;

	if (socket->ss_family == AF_INET6) {
		if (IN6_IS_ADDR_MULTICAST(v6))
			return "a multicast address";
		if (IN6_IS_ADDR_UNSPECIFIED(v6))
			return "every address and no host's";
		if (IN6_IS_ADDR_LINKLOCAL(v6) &&
		    !((const struct sockaddr_in6 *)socket)->sin6_scope_id)
			return "a link-local address without its interface: add %INTERFACE, as in "
			       "fe80::1%eth0";
	} else if (socket->ss_family == AF_INET) {
		if (IN_MULTICAST(ntohl(in->sin_addr.s_addr)))
			return "a multicast address";
		if (in->sin_addr.s_addr == htonl(INADDR_BROADCAST))
			return "the broadcast address";
		if (in->sin_addr.s_addr == htonl(INADDR_ANY))
			return "every address and no host's";
	}
	return NULL;
}

const char *conn_address_unfit(const struct conn_address *address)
{
	const char *why = unfit(&address->socket);

	for (uint32_t i = 0; i < address->others_count && why; i++)
		why = unfit(&address->others[i]);
	return why;
}

void conn_address_next(struct conn_address *address)
{
	struct sockaddr_storage first = address->socket;
	uint32_t last = address->others_count;

	if (!last)
		return;
	address->socket = address->others[0];
	memmove(address->others, address->others + 1, (last - 1) * sizeof(first));
	address->others[last - 1] = first;
	address->bytes = address->socket.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							       : sizeof(struct sockaddr_in);
}

void conn_address_ip(const struct conn_address *address, uint8_t ip[16], uint16_t *port)
{
	address_from_socket((const struct sockaddr *)&address->socket, ip, port);
}

void conn_peer(const struct conn *conn, uint8_t ip[16], uint16_t *port)
{
	struct sockaddr_storage socket = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(socket);

	getpeername(conn->fd, (struct sockaddr *)&socket, &bytes);
	address_from_socket((const struct sockaddr *)&socket, ip, port);
}

/* ---- open ---- */

int conn_listen(struct conn_address *address)
{
	int on = 1, off = 0, error;
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->socket.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&address->socket, address->bytes) || listen(fd, BACKLOG)) {
		error = -errno;
		close(fd);
		return error;
	}
	if (address->socket.ss_family != AF_UNIX) {
		address->bytes = sizeof(address->socket);
		getsockname(fd, (struct sockaddr *)&address->socket, &address->bytes);
	}
	return fd;
}

/* A dead host is found by its silence (heartbeats); these only keep the kernel from waiting for ever
 * with what was sent last. They fail, without harm, on unix sockets. */
static void set_options(int fd)
{
	int on = 1;
	unsigned unsent_ms = CONN_UNSENT_S * 1000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof(unsent_ms));
}

static int conn_new(struct conn **conn, int fd, enum state state)
{
	struct conn *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->fd = fd;
	made->state = state;
	made->deadline_ns = UINT64_MAX;
	made->in_limit = CODEC_JSON_BYTES_MAX;
	*conn = made;
	return 0;
}

/* Where nobody listens the kernel may give a socket of this host the very port that it asks for. It is connected to
 * itself then, and whoever shall listen there finds its address in use. */
static bool is_itself(int fd, const struct conn_address *address)
{
	struct sockaddr_storage own;
	socklen_t bytes = sizeof(own);
	uint8_t ip[2][16];
	uint16_t port[2];

	if (getsockname(fd, (struct sockaddr *)&own, &bytes))
		return false;
	address_from_socket((const struct sockaddr *)&own, ip[0], &port[0]);
	conn_address_ip(address, ip[1], &port[1]);
	return port[0] && port[0] == port[1] && !memcmp(ip[0], ip[1], sizeof(ip[0]));
}

int conn_begin(int fd, const struct conn_address *address)
{
	if (connect(fd, (const struct sockaddr *)&address->socket, address->bytes) &&
	    errno != EINPROGRESS)
		return -errno;
	if (!is_itself(fd, address))
		return 0;
	/* A close that resets: nothing of it waits for its own last packets, and keeps the address. */
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
			 sizeof(struct linger));
	return -ECONNREFUSED;
}

int conn_connect(struct conn **conn, const struct conn_address *address, uint64_t now_ns,
		 uint64_t timeout_ns)
{
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	set_options(fd);
	if (address->from_bytes &&
	    bind(fd, (const struct sockaddr *)&address->from, address->from_bytes))
		error = -errno;
	else
		error = conn_begin(fd, address);
	if (!error)
		error = conn_new(conn, fd, CONNECTING);
	if (error)
		close(fd);
	else
		(*conn)->deadline_ns = now_ns + timeout_ns;
	return error;
}

int conn_accept(struct conn **conn, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && (errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR))
		return -EAGAIN;
	if (fd < 0)
		return -errno;
	set_options(fd);
	int error = conn_new(conn, fd, OPEN);
	if (error)
		close(fd);
	return error;
}

void conn_close(struct conn *conn)
{
	if (!conn)
		return;
	close(conn->fd);
	buffer_fini(&conn->in);
	buffer_fini(&conn->out);
	free(conn);
}

/* ---- what to wait for ---- */

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
	case SHUTTING:
		return buffer_bytes(&conn->out) ? POLLIN | POLLOUT : POLLIN;
	case SHUT:
		return POLLIN;
	case ENDED:
		break;
	}
	return 0;
}

/* What has ended without having been told is told at once. */
uint64_t conn_deadline(const struct conn *conn)
{
	return conn->state == ENDED ? (conn->is_told ? UINT64_MAX : 0) : conn->deadline_ns;
}

const char *conn_text(const struct conn *conn)
{
	return conn->text;
}

/* ---- the end ---- */

static enum conn_result end(struct conn *conn, enum conn_result result, const char *text)
{
	if (conn->state == SHUTTING || conn->state == SHUT)
		result = CONN_EOF; /* nobody cares any more how it ended */
	conn->state = ENDED;
	conn->end = result;
	if (!conn->text[0])
		snprintf(conn->text, sizeof(conn->text), "%s", text);
	return result;
}

static enum conn_result end_errno(struct conn *conn, int error)
{
	return end(conn, CONN_ERROR, strerror(error));
}

/* ---- out ---- */

/* False if the connection has ended. */
static bool flush(struct conn *conn)
{
	while (buffer_bytes(&conn->out)) {
		ssize_t sent = send(conn->fd, buffer_first(&conn->out), buffer_bytes(&conn->out),
				    MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return true;
		if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
			return true; /* what the peer said last may still be there to be read */
		if (sent < 0) {
			end_errno(conn, errno);
			return false;
		}
		buffer_take(&conn->out, (size_t)sent);
	}
	if (conn->state == SHUTTING) {
		shutdown(conn->fd, SHUT_WR);
		conn->state = SHUT;
	}
	return true;
}

int conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	uint8_t *frame;
	size_t bytes;

	if (conn->state != OPEN && conn->state != CONNECTING)
		return -EPIPE;
	int error = codec_encode(codec, message, &frame, &bytes);
	if (error)
		return error;
	error = buffer_bytes(&conn->out) + bytes > CONN_OUT_BYTES_MAX
			? -ENOBUFS
			: buffer_put(&conn->out, frame, bytes);
	if (!error && conn->state == OPEN)
		flush(conn); /* how it ended is conn_read's to tell */
	free(frame);
	return error;
}

void conn_last_words(struct conn *conn, uint64_t now_ns)
{
	if (conn->state == CONNECTING)
		end(conn, CONN_EOF, "closed before it was open");
	if (conn->state != OPEN)
		return;
	conn->state = SHUTTING;
	conn->deadline_ns = now_ns + CONN_LAST_WORDS_S * second_ns;
	flush(conn);
}

void conn_limit(struct conn *conn, uint32_t json_bytes_max)
{
	conn->in_limit = json_bytes_max;
}

int conn_answer_nonsense(struct conn *conn, struct codec *codec,
			 const struct control_message *message, uint64_t now_ns)
{
	if (conn->state != ENDED || !conn->is_nonsense)
		return -EPIPE;
	conn->state = OPEN; /* what is left of the message is thrown away, as all that comes now */
	conn->is_told = conn->is_nonsense = false;
	int error = conn_send(conn, codec, message);
	conn_last_words(conn, now_ns);
	return error;
}

/* ---- in ---- */

/* Nobody else's process may pose as the aggregator of this user. True also for what is no unix socket. */
static bool is_ours(const struct conn *conn)
{
	struct sockaddr_storage socket = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(socket), cred_bytes = sizeof(struct ucred);
	struct ucred cred;

	if (getsockname(conn->fd, (struct sockaddr *)&socket, &bytes) ||
	    socket.ss_family != AF_UNIX)
		return true;
	if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_bytes))
		return false;
	return !cred.uid || cred.uid == geteuid();
}

static enum conn_result finish_connecting(struct conn *conn, uint64_t now_ns)
{
	struct pollfd poll_fd = { .fd = conn->fd, .events = POLLOUT };
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (poll(&poll_fd, 1, 0) <= 0) /* or a signal came */
		return now_ns < conn->deadline_ns ? CONN_NONE : end_errno(conn, ETIMEDOUT);
	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		error = errno;
	if (error)
		return end_errno(conn, error);
	if (!is_ours(conn))
		return end(conn, CONN_ERROR, "another user's process listens there");
	conn->state = OPEN;
	conn->deadline_ns = UINT64_MAX;
	if (!flush(conn))
		return conn->end;
	return CONN_CONNECTED;
}

/* Whoever goes on sending gets no more of our time than others. */
static enum conn_result discard(struct conn *conn)
{
	uint8_t waste[4096];

	for (uint32_t i = 0; i < WASTE_CALLS; i++) {
		ssize_t got = recv(conn->fd, waste, sizeof(waste), 0);
		if (got > 0 || (got < 0 && errno == EINTR))
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return CONN_NONE;
		return end(conn, CONN_EOF, "closed");
	}
	return CONN_NONE;
}

/* What has come first is no message, nor the beginning of one (all are JSON objects). */
static bool is_stranger(const struct conn *conn)
{
	const uint8_t *at = buffer_first(&conn->in);
	size_t left = buffer_bytes(&conn->in);

	if (conn->has_spoken || !left)
		return false;
	if (left < CODEC_LENGTH_BYTES)
		return true; /* asked at the end of file only */
	return wire_get32(at) > CODEC_JSON_BYTES_MAX ||
	       (left > CODEC_LENGTH_BYTES && at[CODEC_LENGTH_BYTES] != '{');
}

/* Of what came instead of the first message: whoever gave the wrong port can tell what answers there. */
static enum conn_result end_stranger(struct conn *conn)
{
	const uint8_t *at = buffer_first(&conn->in);
	size_t left = buffer_bytes(&conn->in);
	char shown[4 * SHOWN_BYTES + 1] = "";
	size_t used = 0;

	for (size_t i = 0; i < left && i < SHOWN_BYTES; i++) {
		bool is_plain = at[i] >= ' ' && at[i] < 0x7f && at[i] != '"' && at[i] != '\\';

		used += (size_t)snprintf(shown + used, sizeof(shown) - used,
					 is_plain ? "%c" : "\\x%02x", at[i]);
	}
	snprintf(conn->text, sizeof(conn->text),
		 "the peer does not speak tally: it began with \"%s\"", shown);
	return end(conn, CONN_ERROR, "");
}

/* CONN_MESSAGE, CONN_NONE: more bytes are needed, or CONN_ERROR. */
static enum conn_result next_message(struct conn *conn, struct codec *codec,
				     struct control_message *message)
{
	size_t left = buffer_bytes(&conn->in);

	if (left < CODEC_LENGTH_BYTES)
		return CONN_NONE;
	const uint8_t *at = buffer_first(&conn->in);
	uint32_t length = wire_get32(at);
	if (is_stranger(conn))
		return end_stranger(conn);
	if (length > CODEC_JSON_BYTES_MAX)
		return end(conn, CONN_ERROR, "the peer said nonsense: a message is too long");
	if (length > conn->in_limit) {
		conn->is_nonsense = true;
		snprintf(conn->text, sizeof(conn->text),
			 "a first message of %u bytes, not up to %u", length, conn->in_limit);
		return end(conn, CONN_ERROR, "");
	}
	if (left < CODEC_LENGTH_BYTES + length)
		return CONN_NONE;
	buffer_take(&conn->in, CODEC_LENGTH_BYTES + length);
	int error = codec_decode(codec, at + CODEC_LENGTH_BYTES, length, message);
	if (!error) {
		conn->has_spoken = true;
		return CONN_MESSAGE;
	}
	if (error == -ENOMEM)
		return end_errno(conn, ENOMEM);
	conn->is_nonsense = true;
	snprintf(conn->text, sizeof(conn->text), "the peer said nonsense: %s", codec->error);
	return end(conn, CONN_ERROR, "");
}

static enum conn_result receive(struct conn *conn, struct codec *codec,
				struct control_message *message)
{
	struct buffer *in = &conn->in;

	for (;;) {
		enum conn_result result = next_message(conn, codec, message);
		if (result != CONN_NONE)
			return result;
		if (buffer_widen(in, IN_BYTES_MAX)) /* next_message takes no longer ones */
			return end_errno(conn, ENOMEM);
		ssize_t got = recv(conn->fd, in->bytes + in->end, in->room - in->end, 0);
		if (got > 0)
			in->end += (size_t)got;
		else if (got == 0 && !buffer_bytes(in))
			return end(conn, CONN_EOF, "the peer closed the connection");
		else if (got == 0 && is_stranger(conn))
			return end_stranger(conn);
		else if (got == 0)
			return end(conn, CONN_ERROR, "the peer closed the connection in a message");
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return CONN_NONE;
		else if (errno != EINTR)
			return end_errno(conn, errno);
	}
}

enum conn_result conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
			   struct control_message *message)
{
	enum conn_result result = CONN_NONE;

	if (conn->state == CONNECTING)
		result = finish_connecting(conn, now_ns);
	else if (conn->state != ENDED && flush(conn))
		result = conn->state == OPEN ? receive(conn, codec, message) : discard(conn);
	if (conn->state != ENDED && conn->state != CONNECTING && now_ns >= conn->deadline_ns)
		result = end(conn, CONN_EOF, "closed");
	if (conn->state != ENDED)
		return result;
	if (conn->is_told)
		return CONN_NONE;
	conn->is_told = true;
	return conn->end;
}
