/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_fuzz.c - a stream of any bytes, in pieces of any size, through a control connection's parser. The
 * same stream in one piece must give the same messages and the same end; a stranger's four bytes must not
 * cost a megabyte. The kernel is played here: link arguments in meson.build.
 */
#include <errno.h>
#include <sys/socket.h>

#include "control/conn.h"
#include "core/shared/hash.h"
#include "tests/fuzz/input.h"

enum { FD = 1 << 20 };

static struct {
	const uint8_t *at;
	size_t left;
	uint32_t pieces; /* 0: everything at once */
	bool has_end, is_waiting;
	size_t largest; /* room that the parser had */
} stream;

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_shutdown(int fd, int how);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	(void)fd, (void)address, (void)bytes, (void)flags;
	return FD;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	size_t piece = bytes < stream.left ? bytes : stream.left;

	FUZZ_CHECK(fd == FD);
	FUZZ_CHECK(bytes);
	FUZZ_CHECK(!flags);
	stream.largest = bytes > stream.largest ? bytes : stream.largest;
	stream.is_waiting = !stream.is_waiting && stream.pieces;
	if (stream.is_waiting || (!piece && !stream.has_end)) {
		errno = EAGAIN;
		return -1;
	}
	if (stream.pieces) {
		size_t cut = 1 + fuzz_next(&stream.pieces) % 97;

		piece = piece < cut ? piece : cut;
	}
	memcpy(to, stream.at, piece);
	stream.at += piece;
	stream.left -= piece;
	return (ssize_t)piece;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	(void)from, (void)flags;
	FUZZ_CHECK(fd == FD);
	return (ssize_t)bytes;
}

int __wrap_close(int fd)
{
	return fd == FD ? 0 : __real_close(fd);
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	(void)fd, (void)level, (void)option, (void)value, (void)bytes;
	return 0;
}

int __wrap_shutdown(int fd, int how)
{
	(void)fd, (void)how;
	return 0;
}

struct heard {
	uint32_t messages;
	uint64_t hash; /* of what they said, said again */
	enum conn_result end;
	char text[200];
};

static void message_hash(struct heard *heard, struct codec *codec,
			 const struct control_message *message)
{
	size_t bytes;
	uint8_t *frame;

	FUZZ_CHECK(!codec_encode(codec, message, &frame, &bytes));
	heard->hash = hash_bytes(heard->hash, frame, bytes);
	free(frame);
	heard->messages++;
}

static struct heard listen_to(const uint8_t *data, size_t bytes, uint32_t pieces)
{
	static struct codec codec;
	struct control_message message;
	struct heard heard = { .end = CONN_NONE };
	enum conn_result result;
	struct conn *conn;
	uint32_t calls = 0;

	stream.at = data;
	stream.left = bytes;
	stream.pieces = pieces;
	stream.has_end = true;
	stream.is_waiting = false;
	stream.largest = 0;
	FUZZ_CHECK(!conn_accept(&conn, 0));
	do {
		result = conn_read(conn, 0, &codec, &message);
		if (result == CONN_MESSAGE)
			message_hash(&heard, &codec, &message);
		FUZZ_CHECK(calls++ < 2 * (bytes + 8)); /* it comes to an end */
	} while (result >= CONN_NONE);
	heard.end = result;
	snprintf(heard.text, sizeof(heard.text), "%s", conn_text(conn));
	FUZZ_CHECK(heard.text[0]);
	FUZZ_CHECK(conn_read(conn, 0, &codec, &message) == CONN_NONE);
	FUZZ_CHECK(stream.largest <= 2 * bytes + 4096);
	conn_close(conn);
	return heard;
}

/* A text that quotes what the peer began with quotes no more than had come. */
static bool says_the_same(const char *a, const char *b)
{
	static const char quote[] = "the peer does not speak tally: it began with \"";
	size_t least = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

	if (strncmp(a, quote, strlen(quote)) != 0)
		return !strcmp(a, b);
	return !strncmp(a, b, least - 1); /* but for the quotation mark at the end */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct heard whole, in_pieces;

	if (!bytes)
		return 0;
	whole = listen_to(data + 1, bytes - 1, 0);
	in_pieces = listen_to(data + 1, bytes - 1, data[0] + 1u);
	FUZZ_CHECK(whole.messages == in_pieces.messages);
	FUZZ_CHECK(whole.hash == in_pieces.hash);
	FUZZ_CHECK(whole.end == in_pieces.end);
	FUZZ_CHECK(says_the_same(whole.text, in_pieces.text));
	return 0;
}
