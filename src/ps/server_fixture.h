/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_fixture.h - for tests of a whole server, in a thread: workers by hand, over TCP. Not for UDP.
 */
#ifndef PS_SERVER_FIXTURE_H
#define PS_SERVER_FIXTURE_H

#include "ps/server.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 2, DIM = 2, PATIENCE_S = 30, QUIET_MS = 150, LOG_BYTES = 1 << 16 };

static char folder[] = "/tmp/tally-server-XXXXXX";
static struct ps_hosted_options table;
static struct ps_server_options options;
static struct ps_server *server;
static pthread_t thread;
static uint16_t port;
static struct kv_codec codec;
static atomic_uint log_takes_ms; /* the next line */
static struct kv_message said;   /* the last that was heard */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_BYTES]; /* lines: level, text */

static void on_log(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	unsigned ms = atomic_exchange(&log_takes_ms, 0);
	size_t used;

	(void)arg;
	(void)about;
	pthread_mutex_lock(&log_lock);
	used = strlen(log_text);
	snprintf(log_text + used, sizeof(log_text) - used, "%d %s\n", (int)level, line);
	pthread_mutex_unlock(&log_lock);
	usleep(1000 * ms);
}

/* How often it has been logged. */
static inline uint32_t log_count(const char *words)
{
	uint32_t count = 0;

	pthread_mutex_lock(&log_lock);
	for (const char *at = log_text; (at = strstr(at, words)); at++)
		count++;
	pthread_mutex_unlock(&log_lock);
	return count;
}

/* It will be, soon. */
static inline void log_wait(const char *words)
{
	for (int i = 0; i < 100 * PATIENCE_S && !log_count(words); i++)
		usleep(10000);
	if (!log_count(words))
		fail_msg("no \"%s\" in:\n%s", words, log_text);
}

static void *run(void *arg)
{
	(void)arg;
	ps_server_run(server);
	return NULL;
}

static int begin(void **state)
{
	char error[PS_ERROR_MAX], text[PS_TEXT_BYTES];

	(void)state;
	if (ps_server_open(&server, &options, error)) {
		fprintf(stderr, "%s\n", error);
		return -1;
	}
	port = (uint16_t)atoi(strrchr(ps_server_address(server, text), ':') + 1);
	return pthread_create(&thread, NULL, run, NULL);
}

static int end(void **state)
{
	(void)state;
	ps_server_ask(server, PS_STOP);
	pthread_join(thread, NULL);
	ps_server_close(server);
	return 0;
}

static void logs_remove(void)
{
	for (unsigned i = 0; i < 8; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/t.%u.log", folder, i);
		unlink(path);
	}
}

/* What a test may change before it begins. */
static void options_begin(void)
{
	logs_remove();
	log_text[0] = 0;
	table = (struct ps_hosted_options){
		.table = { .name = "t",
			   .dim = DIM,
			   .window = 4,
			   .bytes = 1472,
			   .optimiser = optimiser_default(OPTIMISER_SUM),
			   .unit = 1,
			   .memory_max = 1 << 20,
			   .folder = folder },
	};
	options = (struct ps_server_options){ .listen = "127.0.0.1:0",
					      .job = "J",
					      .key = "secret",
					      .workers = WORKERS,
					      .heartbeat_ms = 60000, /* is_quiet hears no ALIVE */
					      .tables = &table,
					      .table_count = 1,
					      .log = on_log };
}

static inline int setup(void **state)
{
	options_begin();
	return begin(state);
}

static int folder_make(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
	(void)state;
	logs_remove();
	return rmdir(folder);
}

/* ---- a worker ---- */

static int connect_one(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void say(int fd, const struct kv_message *message)
{
	uint8_t *frame = malloc(kv_bytes(message));
	size_t bytes = kv_put(message, frame);

	assert_int_equal(send(fd, frame, bytes, MSG_NOSIGNAL), bytes);
	free(frame);
}

static void read_all(int fd, uint8_t *at, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t got = recv(fd, at + done, bytes - done, 0);

		assert_true(got > 0);
		done += (size_t)got;
	}
}

/* The next message but ALIVE. */
static void hear_any(int fd)
{
	static uint8_t frame[KV_FRAME_BYTES + KV_BYTES_MAX];

	do {
		uint32_t bytes;

		read_all(fd, frame, KV_FRAME_BYTES);
		bytes = sparse_body_get32(frame);
		assert_true(bytes <= KV_BYTES_MAX);
		read_all(fd, frame + KV_FRAME_BYTES, bytes);
		memset(&said, 0, sizeof(said));
		assert_int_equal(kv_decode(&codec, frame, KV_FRAME_BYTES + bytes, &said), 0);
	} while (said.type == KV_ALIVE);
}

static void hear(int fd, enum kv_type type)
{
	hear_any(fd);
	if (said.type != type)
		fail_msg("%s, not %s: %s", kv_type_name(said.type), kv_type_name(type), said.text);
}

static inline void hear_no(int fd, enum kv_refusal refusal, const char *part)
{
	hear(fd, KV_ERROR);
	assert_int_equal(said.refusal, refusal);
	if (!strstr(said.text, part))
		fail_msg("\"%s\" does not say \"%s\"", said.text, part);
}

static inline void hear_end(int fd)
{
	uint8_t byte;

	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

static inline bool is_quiet(int fd)
{
	struct timeval moment = { .tv_usec = QUIET_MS * 1000 };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	uint8_t byte;
	ssize_t got;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
	got = recv(fd, &byte, 1, MSG_PEEK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return got < 0;
}

static struct kv_message hello_of(uint16_t worker, uint64_t incarnation)
{
	struct kv_message hello = { .type = KV_HELLO,
				    .version = KV_VERSION,
				    .worker = worker,
				    .workers = WORKERS,
				    .pid = 77,
				    .incarnation = incarnation,
				    .job = "J",
				    .secret = "secret",
				    .host = "H" };

	return hello;
}

/* Its OPENED is in said. */
static inline int open_one(uint16_t worker, uint64_t incarnation)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = connect_one();

	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear(fd, KV_OPENED);
	return fd;
}

static inline void batch_say(int fd, uint64_t number, uint64_t key, float value)
{
	float values[DIM] = { value, -value };
	struct kv_message batch = { .type = KV_BATCH,
				    .number = number,
				    .dim = DIM,
				    .count = 1,
				    .key = &key,
				    .value = values };

	say(fd, &batch);
}

static inline void pull_say(int fd, uint64_t generation, uint64_t epoch)
{
	static const uint64_t keys[2] = { 5, 6 };
	struct kv_message pull = { .type = KV_PULL,
				   .number = 9,
				   .generation = generation,
				   .epoch = epoch,
				   .count = 2,
				   .key = keys };

	say(fd, &pull);
}

static inline void barrier_say(int fd, uint64_t number)
{
	say(fd, &(struct kv_message){ .type = KV_BARRIER, .number = number });
}

static inline void barrier_hear(int fd, uint64_t number)
{
	hear(fd, KV_BARRIER);
	assert_int_equal(said.number, number);
}

static inline void leave(int fd)
{
	say(fd, &(struct kv_message){ .type = KV_LEAVE });
	hear(fd, KV_LEAVE);
	hear_end(fd);
}

/* Keys 100 * version and those after it. */
static inline void map_write(const char *path, uint32_t version, uint32_t count)
{
	uint64_t keys[8];
	struct hot_map map = { .version = version, .keys = count, .key = keys };
	char error[FILES_ERROR_MAX];

	for (uint32_t i = 0; i < count; i++)
		keys[i] = 100 * version + i;
	if (hot_map_write(path, &map, error))
		fail_msg("%s", error);
}

static inline void map_hear(int fd, uint32_t version, uint32_t count, uint64_t fences)
{
	hear(fd, KV_MAP);
	assert_int_equal(said.map, version);
	assert_int_equal(said.ranks, count);
	assert_int_equal(said.count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(said.key[i], 100 * version + i);
	hear(fd, KV_SWITCH);
	assert_int_equal(said.map, version);
	assert_int_equal(sparse_fences(said.generation), fences);
}

#endif
