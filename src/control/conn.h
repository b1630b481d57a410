/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one control connection: TCP over IPv4 or IPv6, or an abstract unix socket of this host. Never
 * blocks (but conn_resolve, which may ask DNS). For poll or epoll:
 *
 *     wait for conn_events on conn_fd, at most until conn_deadline; then
 *     while ((result = conn_read(conn, now_ns, codec, &message)) > CONN_NONE)
 *             ...
 *
 * A connection ends in exactly one CONN_EOF or CONN_ERROR; after that only conn_text and conn_close.
 * One thread uses a connection at a time. Writing never raises SIGPIPE.
 */
#ifndef CONTROL_CONN_H
#define CONTROL_CONN_H

#include <sys/socket.h>

#include "control/codec.h"

enum {
	CONN_OUT_BYTES_MAX = 4 << 20, /* a peer that reads nothing for so long is given up */
	CONN_ADDRESS_BYTES = 128,
	CONN_ADDRESSES_MAX = 8, /* of one name */
	CONN_LAST_WORDS_S = 5,
	CONN_UNSENT_S = 20, /* TCP_USER_TIMEOUT: sent, and not acknowledged */
};

struct conn;

struct conn_address {
	struct sockaddr_storage socket;
	socklen_t bytes;
	char text[CONN_ADDRESS_BYTES]; /* "host:port" as asked for; for messages */
	struct sockaddr_storage others[CONN_ADDRESSES_MAX - 1]; /* a name may have several */
	uint32_t others_count;
	struct sockaddr_storage from; /* conn_connect leaves from here; from_bytes 0: anywhere */
	socklen_t from_bytes;
};

enum conn_result {
	CONN_ERROR = -2, /* conn_text says why */
	CONN_EOF = -1,   /* the peer has closed, or our last words are over */
	CONN_NONE = 0,   /* nothing now: wait for conn_events */
	CONN_CONNECTED,  /* once, for a connection that was opened with conn_connect */
	CONN_MESSAGE,    /* *message is filled in, valid until the codec's next decode */
};

/* conn_resolve understands "host", "host:port", "1.2.3.4:port", "[v6]:port" and "@name" (an abstract unix
 * socket; "@" and up to 100 bytes). 0, or -EINVAL (syntax), -ENOENT (no such host), -EAGAIN (DNS does not
 * answer). address->text is set in any case. default_port 0: an address to listen on, whose port may be 0;
 * else port 0 is -EINVAL, as no host always is. */
int conn_resolve(const char *text, uint16_t default_port, struct conn_address *address);

/* Why no connection can ever come of it, be it tried for ever: "a multicast address"; NULL: one may. */
const char *conn_address_unfit(const struct conn_address *address);

/* The name's next address takes the place of `socket`, which becomes the last one. */
void conn_address_next(struct conn_address *address);
/* What `socket` is, as conn_peer tells it. */
void conn_address_ip(const struct conn_address *address, uint8_t ip[16], uint16_t *port);

/* A listening socket, non-blocking, close-on-exec, or a negative errno. Port 0: the kernel chooses;
 * address is then updated with what it chose. An any-address of IPv6 takes IPv4 too. */
int conn_listen(struct conn_address *address);

/* Begins to connect `fd`, a socket of TCP that does not block: 0, or a negative errno. */
int conn_begin(int fd, const struct conn_address *address);

/* An abstract unix socket has no owner that its name would tell: who serves it must be of our user, or
 * root. conn_connect begins; the result comes from conn_read: CONN_CONNECTED, or CONN_ERROR at the latest after
 * timeout_ns. 0 and *conn, or a negative errno (errno of connect, too, if it fails at once). */
int conn_connect(struct conn **conn, const struct conn_address *address, uint64_t now_ns,
		 uint64_t timeout_ns);

/* 0 and *conn; -EAGAIN: nobody waits; another negative errno: try again later (EMFILE), or never. */
int conn_accept(struct conn **conn, int listen_fd);

int conn_fd(const struct conn *conn);
short conn_events(const struct conn *conn);      /* POLLIN | POLLOUT, as poll takes them */
uint64_t conn_deadline(const struct conn *conn); /* call conn_read then; UINT64_MAX: never */

/* conn_read sends what is waiting, receives what has come and returns one thing of it. */
enum conn_result conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
			   struct control_message *message);

/* Until then a message of the peer's may have CODEC_JSON_BYTES_MAX; a longer one ends it in CONN_ERROR. */
void conn_limit(struct conn *conn, uint32_t json_bytes_max);

/* For a connection that has ended because of a message beyond conn_limit, or one that cannot be read: says `message` all
 * the same, and goes on as after conn_last_words. 0, or -EPIPE: it has not ended so. */
int conn_answer_nonsense(struct conn *conn, struct codec *codec,
			 const struct control_message *message, uint64_t now_ns);

/* Queues a message and sends what goes at once. 0; -EPIPE after conn_last_words or the end; -EINVAL:
 * codec->error; -ENOMEM; -ENOBUFS: the peer reads nothing. Allowed before CONN_CONNECTED. */
int conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);

/* Sends what is queued, shuts down for writing, throws away what is read up to the end of file, at most
 * CONN_LAST_WORDS_S: so nothing unread resets the connection and eats the text. Ends in CONN_EOF. */
void conn_last_words(struct conn *conn, uint64_t now_ns);

/* Closes at once, frees. NULL is fine. */
void conn_close(struct conn *conn);

/* Why it ended: "Connection refused", "the peer said nonsense: no key \"rank\"". "" while it lives. */
const char *conn_text(const struct conn *conn);

/* Addresses as struct link_address has them (IPv4 mapped, a link-local one with its interface in bytes 2
 * and 3); all zero and port 0 for unix sockets. */
void conn_peer(const struct conn *conn, uint8_t ip[16], uint16_t *port);

#endif
