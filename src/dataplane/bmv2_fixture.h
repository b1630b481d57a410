/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bmv2_fixture.h - a switch that a thread plays on a port of 127.0.0.1, for tests: it says yes to all, counts handles from
 * 1 up, and keeps what was called in words. A test can have it refuse, keep silent, hang up, or talk nonsense.
 */
#ifndef DATAPLANE_BMV2_FIXTURE_H
#define DATAPLANE_BMV2_FIXTURE_H

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>

#include "dataplane/bmv2.h"
#include "dataplane/thrift.h"

enum play {
	PLAY_ANSWER,
	PLAY_SILENCE,
	PLAY_HANG_UP,
	PLAY_NONSENSE,
	PLAY_OTHER_SERIAL,
	PLAY_NO_NUMBER,
	PLAY_ENDLESS,
	PLAY_UNKNOWN,
	PLAY_UNSAID /* `refused` takes effect, but instead of an answer the connection ends */
};

static struct {
	int listen_fd, fd;
	uint16_t port;
	pthread_t thread;
	pthread_mutex_t mutex;
	/* the test's, under the mutex */
	enum play play;
	const char *refused; /* a method that is refused, with this code */
	int32_t code;
	uint64_t boot;
	bool has_no_cpu_port, has_no_rows;
	const char *lacks; /* NULL: it has all that is asked for */
	uint32_t slots;
	uint64_t counter;
	char said[8192]; /* "add switch_ingress.here; " */
	int32_t handle;
} played = { .listen_fd = -1, .fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER };

/* What was called: its method without what is before the last '_' of "bm_", and what of. */
struct heard {
	char method[64], of[64];
	int32_t serial;
	int64_t number[6]; /* the integers in fields 1 to 5 */
};

static bool hear(const uint8_t *data, uint32_t bytes, uint32_t *used, struct heard *heard)
{
	struct thrift_in in = { .data = data, .bytes = bytes };
	uint32_t count;
	const uint8_t *text;
	enum thrift_type type;
	int16_t field;

	*heard = (struct heard){ .serial = 0 };
	thrift_take(&in, 4);
	text = thrift_take_bytes(&in, &count);
	if (text)
		memcpy(heard->method, text, count);
	heard->serial = (int32_t)thrift_take(&in, 4);
	while ((type = thrift_take_field(&in, &field))) {
		if (type == THRIFT_STRING && field == 2) {
			text = thrift_take_bytes(&in, &count);
			if (text)
				memcpy(heard->of, text, count);
		} else if (type == THRIFT_I32 && field < 6) {
			heard->number[field] = (int32_t)thrift_take(&in, 4);
		} else if (type == THRIFT_I64 && field < 6) {
			heard->number[field] = thrift_take_i64(&in);
		} else {
			thrift_skip(&in, type);
		}
	}
	*used = in.used;
	return in.result == THRIFT_OK;
}

static void put_bytes(struct thrift_out *out, const void *bytes, uint32_t count)
{
	assert(count <= out->room - out->used);
	memcpy(out->data + out->used, bytes, count);
	out->used += count;
}

/* thrift.c writes calls: an answer is one with another kind. */
static void answer_begin(struct thrift_out *out, const struct heard *heard, uint8_t kind)
{
	thrift_call(out, heard->method, heard->serial);
	out->data[3] = kind;
}

static bool is_method(const struct heard *heard, const char *name)
{
	return strstr(heard->method, name) != NULL;
}

static void answer_value(struct thrift_out *out, const struct heard *heard)
{
	bool is_register = is_method(heard, "register_read");

	if (is_method(heard, "add_entry") || is_method(heard, "_create")) {
		thrift_i32(out, 0, ++played.handle);
	} else if (is_register) {
		thrift_i64(out, 0, strstr(heard->of, "boot") ? (int64_t)played.boot : 77);
	} else if (is_method(heard, "num_entries")) {
		thrift_i64(out, 0, played.has_no_rows ? 0 : 26);
	} else if (is_method(heard, "counter_read")) {
		thrift_struct(out, 0);
		thrift_i64(out, 1, 1000);
		thrift_i64(out, 2, (int64_t)played.counter);
		thrift_end(out);
	} else if (is_method(heard, "show_ports")) {
		static const uint8_t map[] = { THRIFT_MAP,
					       0,
					       4,
					       THRIFT_STRING,
					       THRIFT_STRING,
					       0,
					       0,
					       0,
					       1,
					       0,
					       0,
					       0,
					       1,
					       'a',
					       0,
					       0,
					       0,
					       1,
					       'b' };

		thrift_list(out, 0, THRIFT_STRUCT, 2);
		for (int32_t i = 0; i < 2; i++) {
			thrift_i32(out, 1, i && !played.has_no_cpu_port ? 64 : 3 + i);
			thrift_text(out, 2, "veth");
			thrift_bool(out, 3, true);
			put_bytes(out, map, sizeof(map));
			thrift_end(out);
		}
	}
}

/* What the switch then has. */
static void take_effect(const struct heard *heard)
{
	size_t used = strlen(played.said);

	if (is_method(heard, "register_write") && strstr(heard->of, "boot"))
		played.boot = (uint64_t)heard->number[5];
	snprintf(played.said + used, sizeof(played.said) - used, "%s%s%s; ",
		 strstr(heard->method, "bm_") + 3, *heard->of ? " " : "", heard->of);
}

/* False: that was the end of the connection. */
static bool reply(int fd, const struct heard *heard)
{
	static uint8_t bytes[8192];
	struct thrift_out out = { .data = bytes, .room = sizeof(bytes) };
	struct heard other = *heard;
	enum play play = played.play;

	if (play == PLAY_SILENCE)
		return true;
	if (play == PLAY_HANG_UP)
		return false;
	if (play == PLAY_UNSAID && is_method(heard, played.refused)) {
		take_effect(heard);
		return false;
	}
	if (play == PLAY_NONSENSE)
		return send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL) == 28;
	other.serial += play == PLAY_OTHER_SERIAL;
	answer_begin(&out, &other, play == PLAY_UNKNOWN ? 3 : 2);
	if (play == PLAY_UNKNOWN) {
		thrift_text(&out, 1, "Invalid method name: \x1b[2J");
		thrift_i32(&out, 2, 1);
	} else if ((played.refused && is_method(heard, played.refused)) ||
		   (played.lacks && strstr(heard->of, played.lacks)) ||
		   (is_method(heard, "register_read") && heard->number[3] >= played.slots)) {
		thrift_struct(&out, 1);
		thrift_i32(&out, 1, played.code);
		thrift_end(&out);
	} else if (play == PLAY_ENDLESS) {
		static const uint8_t long_text[] = { THRIFT_STRING, 0, 0, 0, 0, 0xff, 0xff };

		put_bytes(&out, long_text, sizeof(long_text));
		memset(bytes + out.used, 'x', sizeof(bytes) - out.used);
		for (out.used = sizeof(bytes); send(fd, bytes, out.used, MSG_NOSIGNAL) > 0;)
			;
		return false;
	} else if (play != PLAY_NO_NUMBER) {
		answer_value(&out, heard);
		take_effect(heard);
	}
	thrift_end(&out);
	assert(!out.is_full);
	/* In two parts: an answer may come so. */
	if (send(fd, bytes, 5, MSG_NOSIGNAL) != 5)
		return false;
	return send(fd, bytes + 5, out.used - 5, MSG_NOSIGNAL) == (ssize_t)out.used - 5;
}

static void converse(int fd)
{
	static uint8_t bytes[1 << 16];
	uint32_t count = 0, used;
	struct heard heard;
	bool goes_on = true;

	while (goes_on) {
		ssize_t got = read(fd, bytes + count, sizeof(bytes) - count);

		if (got <= 0)
			return;
		count += (uint32_t)got;
		while (goes_on && hear(bytes, count, &used, &heard)) {
			memmove(bytes, bytes + used, count - used);
			count -= used;
			pthread_mutex_lock(&played.mutex);
			goes_on = reply(fd, &heard);
			pthread_mutex_unlock(&played.mutex);
		}
	}
}

static void *play_main(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept(played.listen_fd, NULL, NULL), one = 1;

		if (fd < 0)
			return NULL;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
			   sizeof(one)); /* the second part waits for nobody */
		pthread_mutex_lock(&played.mutex);
		played.fd = fd;
		pthread_mutex_unlock(&played.mutex);
		converse(fd);
		pthread_mutex_lock(&played.mutex);
		close(fd);
		played.fd = -1;
		pthread_mutex_unlock(&played.mutex);
	}
}

static void play_begin(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);

	played.play = PLAY_ANSWER;
	played.refused = NULL;
	played.has_no_cpu_port = played.has_no_rows = false;
	played.lacks = NULL;
	played.slots = UINT16_MAX;
	played.boot = played.counter = 0;
	played.said[0] = '\0';
	played.handle = 0;
	played.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(played.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(played.listen_fd, 4), 0);
	assert_int_equal(getsockname(played.listen_fd, (struct sockaddr *)&address, &bytes), 0);
	played.port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&played.thread, NULL, play_main, NULL), 0);
}

/* It is gone, and so is its connection. */
static void play_end(void)
{
	shutdown(played.listen_fd, SHUT_RDWR);
	pthread_mutex_lock(&played.mutex);
	if (played.fd >= 0)
		shutdown(played.fd, SHUT_RDWR);
	pthread_mutex_unlock(&played.mutex);
	pthread_join(played.thread, NULL);
	close(played.listen_fd);
	played.listen_fd = -1;
}

static void play_set(enum play play, const char *refused, int32_t code)
{
	pthread_mutex_lock(&played.mutex);
	played.play = play;
	played.refused = refused;
	played.code = code;
	pthread_mutex_unlock(&played.mutex);
}

/* What was said since this was looked at. */
static void assert_said(const char *want)
{
	char said[sizeof(played.said)];

	pthread_mutex_lock(&played.mutex);
	memcpy(said, played.said, sizeof(said));
	played.said[0] = '\0';
	pthread_mutex_unlock(&played.mutex);
	assert_string_equal(said, want);
}

#endif
