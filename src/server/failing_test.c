/* SPDX-License-Identifier: Apache-2.0 */
/* failing_test.c - an aggregator that cannot be opened: whichever call fails, why is told, in one line, and what was
 * there until then is given back. Memory, shards and what the kernel gives are the test's. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "dataplane/engine_sparse.h"
#include "server/internal.h"

enum call { NONE, MEMORY, EPOLL, EVENTFD, WATCH, LISTEN, SHARD, ACCEPT };
enum { BLOCKS = 16, SHARDS = 2, FDS = 256 };

static struct {
	enum call fails;
	uint32_t nth; /* of these calls fails, from 1; */
	int with;     /* with this */
	const char *why;
	uint32_t called;
	const void *block[BLOCKS];
	uint32_t shards, shards_closed;
	struct shard_options shard[SERVER_SHARDS_MAX]; /* they were opened with */
	bool fakes_listening;                          /* on ports that somebody else may have */
	struct {
		int fd;
		struct epoll_event event;
	} watched[3];
	uint32_t watched_count;
	enum server_level level;
	uint32_t lines;
	char line[512];
} seen;

static bool is_failing(enum call call)
{
	return seen.fails == call && ++seen.called == seen.nth;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __real_conn_listen(struct conn_address *address);
int __wrap_conn_listen(struct conn_address *address);
int __real_conn_accept(struct conn **conn, int fd);
int __wrap_conn_accept(struct conn **conn, int fd);
int __wrap_shard_open(struct shard **out, const struct shard_options *options);
void __wrap_shard_close(struct shard *shard, struct engine_stats *stats,
			struct engine_sparse_stats *tables);
uint32_t __wrap_shard_receive_bytes(const struct shard *shard);

static void block_change(const void *from, const void *to)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (seen.block[i] == from) {
			seen.block[i] = to;
			return;
		}
	}
	assert_non_null(from); /* there is room; what is freed may be another's */
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	void *block = is_failing(MEMORY) ? NULL : __real_calloc(count, bytes);

	if (block)
		block_change(NULL, block);
	return block;
}

void __wrap_free(void *block)
{
	if (block)
		block_change(block, NULL);
	__real_free(block);
}

static int failed(void)
{
	errno = seen.with;
	return -1;
}

int __wrap_epoll_create1(int flags)
{
	assert_int_equal(flags, EPOLL_CLOEXEC);
	return is_failing(EPOLL) ? failed() : __real_epoll_create1(flags);
}

int __wrap_eventfd(unsigned count, int flags)
{
	assert_int_equal(count, 0);
	assert_int_equal(flags, EFD_NONBLOCK | EFD_CLOEXEC);
	return is_failing(EVENTFD) ? failed() : __real_eventfd(count, flags);
}

int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event)
{
	bool is_full = what == EPOLL_CTL_ADD && is_failing(WATCH);

	if (what == EPOLL_CTL_ADD && seen.watched_count < 3) {
		seen.watched[seen.watched_count].fd = fd;
		seen.watched[seen.watched_count++].event = *event;
	}
	return is_full ? failed() : __real_epoll_ctl(epoll_fd, what, fd, event);
}

int __wrap_conn_listen(struct conn_address *address)
{
	if (seen.fakes_listening && address->socket.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&address->socket)->sin6_port = htons(7399);
	if (seen.fakes_listening)
		return __real_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return is_failing(LISTEN) ? -seen.with : __real_conn_listen(address);
}

int __wrap_conn_accept(struct conn **conn, int fd)
{
	return is_failing(ACCEPT) ? -seen.with : __real_conn_accept(conn, fd);
}

int __wrap_shard_open(struct shard **out, const struct shard_options *options)
{
	assert_int_equal(options->index, seen.shards);
	if (is_failing(SHARD)) {
		if (seen.why)
			strcpy(options->hook_error, seen.why);
		return -seen.with;
	}
	seen.shard[seen.shards] = *options;
	*out = (struct shard *)(void *)&seen.shard[seen.shards++];
	return 0;
}

void __wrap_shard_close(struct shard *shard, struct engine_stats *stats,
			struct engine_sparse_stats *tables)
{
	assert_ptr_equal(shard, &seen.shard[seen.shards_closed++]);
	memset(stats, 0, sizeof(*stats));
	memset(tables, 0, sizeof(*tables));
}

uint32_t __wrap_shard_receive_bytes(const struct shard *shard)
{
	(void)shard;
	return 1 << 20;
}

static void hear(void *arg, enum server_level level, const struct server_about *about,
		 const char *line)
{
	assert_ptr_equal(arg, &seen);
	assert_int_equal(level, seen.level);
	assert_null(about->job);
	assert_int_equal(about->rank, SERVER_RANK_NONE);
	snprintf(seen.line, sizeof(seen.line), "%s", line);
	seen.lines++;
}

static uint32_t fds_count(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < FDS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static const struct server_options options = {
	.listen = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
	.shards = SHARDS,
	.receive_bytes = 1 << 18,
	.memory_total = 1 << 20,
	.log = hear,
	.log_arg = &seen,
};

static int open_failing(struct server **server, enum call call, uint32_t nth, int with,
			const char *why)
{
	memset(&seen, 0, sizeof(seen));
	seen.fails = call;
	seen.nth = nth;
	seen.with = with;
	seen.why = why;
	return server_open(server, &options);
}

static void nothing_is_held(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_null(seen.block[i]);
	assert_int_equal(seen.shards, seen.shards_closed);
}

/* Of each call as often as it is made. */
static const struct row {
	enum call call;
	uint32_t count;
	int with;
	const char *why, *line;
} rows[] = {
	{ MEMORY, 4, ENOMEM, NULL, "the aggregator is out of memory" },
	{ EPOLL, 1, ENFILE, NULL,
	  "no descriptors for the aggregator: Too many open files in system" },
	{ EVENTFD, 2, EMFILE, NULL, "no descriptors for the aggregator: Too many open files" },
	{ WATCH, 3, ENOSPC, NULL,
	  "cannot watch the aggregator's descriptors: No space left on device" },
	{ WATCH, 3, ENOMEM, NULL,
	  "cannot watch the aggregator's descriptors: Cannot allocate memory" },
	{ LISTEN, 1, EACCES, NULL, "cannot listen on 127.0.0.1:0: Permission denied" },
	{ SHARD, 2, EADDRINUSE, NULL, "on UDP 127.0.0.1:0: Address already in use" },
	{ SHARD, 2, ENOMEM, NULL, "on UDP 127.0.0.1:0: Cannot allocate memory" },
	{ SHARD, 2, ENODEV, "eth7: no XDP", "on UDP 127.0.0.1:0: eth7: no XDP" },
};

static void open__that_fails_tells_why_and_gives_everything_back(void **state)
{
	uint32_t fds = fds_count();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (uint32_t nth = 1; nth <= rows[i].count; nth++) {
			struct server *server = NULL;
			char shard[32] = "";

			assert_int_equal(open_failing(&server, rows[i].call, nth, rows[i].with,
						      rows[i].why),
					 -rows[i].with);
			assert_null(server);
			if (rows[i].call == SHARD)
				snprintf(shard, sizeof(shard), "cannot open shard %u ", nth - 1);
			assert_true(seen.called >= nth);
			assert_int_equal(seen.lines, 1);
			assert_memory_equal(seen.line, shard, strlen(shard));
			assert_string_equal(seen.line + strlen(shard), rows[i].line);
			nothing_is_held();
			assert_int_equal(fds_count(), fds);
		}
	}
}

/* It is one as any other, in a process that has closed its input. */
static void open__that_fails_gives_descriptor_0_back_too(void **state)
{
	int input = dup(STDIN_FILENO);
	struct server *server = NULL;
	bool is_there;
	int result;

	(void)state;
	assert_true(input >= 0);
	close(STDIN_FILENO);
	result = open_failing(&server, SHARD, 2, EADDRINUSE, NULL);
	is_there = fcntl(STDIN_FILENO, F_GETFD) >= 0;
	dup2(input, STDIN_FILENO);
	close(input);
	assert_int_equal(result, -EADDRINUSE);
	assert_false(is_there);
}

/* So these are all that are made. */
static void open__makes_no_call_beyond_these(void **state)
{
	uint32_t fds = fds_count();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct server *server = NULL;

		assert_int_equal(open_failing(&server, rows[i].call, rows[i].count + 1, EIO, NULL),
				 0);
		assert_int_equal(seen.called, rows[i].count);
		assert_true(server->is_listening); /* or it would turn for ever to listen */
		assert_int_equal(seen.lines, 0);
		server->is_open = false; /* nobody wants to hear what the shards have counted */
		server_close(server);
		nothing_is_held();
		assert_int_equal(fds_count(), fds);
	}
}

/* ---- one that is opened ---- */

static int open_at(struct server **server, struct server_options said, enum server_level level)
{
	memset(&seen, 0, sizeof(seen));
	said.log = hear;
	said.log_arg = &seen;
	seen.level = level;
	seen.fakes_listening = true;
	return server_open(server, &said);
}

static int open_as(struct server **server, struct server_options said)
{
	return open_at(server, said, SERVER_INFO);
}

static void close_opened(struct server *server)
{
	server->is_open = false;
	server_close(server);
	nothing_is_held();
}

static void open__chooses_what_nobody_has_said(void **state)
{
	const struct server_options *chosen;
	struct server *server = NULL;

	(void)state;
	assert_int_equal(open_as(&server, (struct server_options){ .listen.port = 7171 }), 0);
	chosen = &server->options;
	assert_int_equal(chosen->shards, 1);
	assert_int_equal(chosen->jobs_max, 64);
	assert_int_equal(chosen->tables_max, 256);
	assert_int_equal(chosen->share, 50);
	assert_int_equal(chosen->receive_bytes, 16 << 20);
	assert_int_equal(chosen->heartbeat_ms, 10000);
	assert_int_equal(chosen->gather_ms, 300000);
	assert_int_equal(chosen->drain_ms, 0);
	assert_true(chosen->memory_max == PLAN_MEMORY_MAX);
	assert_true(chosen->memory_total > 0); /* as much as share.c says */
	assert_null(chosen->key);
	assert_true(server->limit_ns == UINT64_MAX && !server->is_local);
	assert_int_not_equal(server->generation, 0);
	assert_string_equal(server->key, "");
	assert_int_equal(server_port(server), 7171);
	assert_int_equal(seen.shard[0].receive_bytes, 16 << 20);
	assert_int_equal(seen.shard[0].jobs_max, 64);
	assert_int_equal(seen.shard[0].registers, 0);
	assert_null(seen.shard[0].hook_open);
	assert_int_equal(seen.watched_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const int fds[] = { server->shards_fd, server->calls_fd, server->listen_fd };
		const uint32_t whats[] = { 2, 3, 1 }; /* no peer's handle */

		assert_int_equal(seen.watched[i].fd, fds[i]);
		assert_int_equal(seen.watched[i].event.events, EPOLLIN);
		assert_int_equal(seen.watched[i].event.data.u32, whats[i]);
	}
	assert_ptr_equal(server->peers_free, &server->peers[0]);
	for (uint32_t i = 0; i < PEERS_MAX; i++)
		assert_ptr_equal(server->peers[i].newer,
				 i + 1 < PEERS_MAX ? &server->peers[i + 1] : NULL);
	close_opened(server);
}

static int no_hook(struct hook **hook, const char *devices, uint16_t port,
		   char error[HOOK_ERROR_BYTES])
{
	(void)hook, (void)devices, (void)port, (void)error;
	return -ENODEV;
}

static void open__hands_on_what_is_said(void **state)
{
	static const struct server_options said = {
		.listen = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
			    .port = 7171 },
		.shards = 2,
		.jobs_max = 3,
		.tables_max = 4,
		.share = 5,
		.receive_bytes = 60000,
		.memory_total = 70000,
		.heartbeat_ms = 8,
		.gather_ms = 9,
		.registers = 10,
		.key = "sesame",
		.hook_open = no_hook,
		.hook_devices = "eth7",
	};
	struct server *server = NULL;

	(void)state;
	assert_int_equal(open_as(&server, said), 0);
	assert_int_equal(server->options.tables_max, 4);
	assert_int_equal(server->options.share, 5);
	assert_int_equal(server->options.heartbeat_ms, 8);
	assert_int_equal(server->options.gather_ms, 9);
	assert_string_equal(server->key, "sesame");
	assert_null(server->options.key); /* it was the caller's */
	assert_int_equal(seen.shards, 2);
	for (uint32_t k = 0; k < 2; k++) {
		assert_int_equal(seen.shard[k].local.port, 7171 + k);
		assert_int_equal(seen.shard[k].local.ip[12], 127);
		assert_false(seen.shard[k].is_v6);
		assert_int_equal(seen.shard[k].receive_bytes, 60000);
		assert_int_equal(seen.shard[k].memory_max, 70000);
		assert_int_equal(seen.shard[k].jobs_max, 3);
		assert_int_equal(seen.shard[k].registers, 10);
		assert_int_equal(seen.shard[k].wake_fd, server->shards_fd);
		assert_ptr_equal(seen.shard[k].hook_open, no_hook);
		assert_string_equal(seen.shard[k].hook_devices, "eth7");
	}
	assert_int_equal(seen.lines, 0);
	close_opened(server);
}

/* The loopback address of IPv4, whatever else is said; ports are the kernel's choice. */
static void open__of_a_local_one_is_on_loopback(void **state)
{
	static const uint8_t here[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	struct server *server = NULL;
	char name[8] = "us/7", text[SERVER_TEXT_BYTES];

	(void)state;
	assert_int_equal(open_as(&server, (struct server_options){ .local_name = name,
								   .is_v6 = true,
								   .listen = { .ip = { 0x20, 1 },
									       .port = 7171 } }),
			 0);
	strcpy(name, "gone"); /* the caller may forget it */
	assert_string_equal(server_address(server, text), "@us/7");
	assert_true(server->is_local);
	assert_int_equal(server_port(server), 0);
	assert_memory_equal(seen.shard[0].local.ip, here, sizeof(here));
	assert_int_equal(seen.shard[0].local.port, 0);
	assert_false(seen.shard[0].is_v6);
	close_opened(server);
}

static int no_chip(struct chip **chip, const char *address, const struct link_address *local,
		   char error[CHIP_ERROR_BYTES])
{
	(void)chip, (void)address, (void)local, (void)error;
	return -1;
}

static void open__refuses_options_out_of_range(void **state)
{
	static char longest[CONTROL_KEY_BYTES + 1];
	static const struct {
		struct server_options options;
		const char *words;
	} wrong[] = {
		{ { .shards = SERVER_SHARDS_MAX + 1 }, "shards: at most 64" },
		{ { .lanes_max = 5 }, "lanes: 4 to 16368, a multiple of 4" },
		{ { .lanes_max = WIRE_LANES_MAX + 4 }, "lanes: 4 to 16368, a multiple of 4" },
		{ { .run = 65 }, "run: at most 64" },
		{ { .slots = 7 }, "slots: 8 to 32768" },
		{ { .slots = 32769 }, "slots: 8 to 32768" },
		{ { .jobs_max = SERVER_JOBS_MAX + 1 }, "jobs: at most 1024" },
		{ { .tables_max = 257 }, "tables: at most 256" },
		{ { .registers = 1025 }, "registers: at most 1024" },
		{ { .share = 101 }, "share: at most 100 percent" },
		{ { .receive_bytes = (1u << 30) + 1 }, "receive buffer: at most 1 GiB" },
		{ { .listen.port = 65535, .shards = 2 },
		  "port: the last shard's would be above 65535" },
		{ { .chip_open = no_chip, .shards = 2 },
		  "a chip: one shard, without devices of the kernel's" },
		{ { .chip_open = no_chip, .is_v6 = true },
		  "listen: a P4 switch takes no IPv6 (--engine p4): give an IPv4 address of this "
		  "host" },
		{ { .chip_open = no_chip, .hook_devices = "eth0" },
		  "a chip: one shard, without devices of the kernel's" },
		{ { .key = longest }, "key: at most 127 bytes" },
		{ { .local_name = longest }, /* of 128 bytes */
		  "@kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		  "k"
		  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: too long for a unix socket" },
	};

	(void)state;
	memset(longest, 'k', CONTROL_KEY_BYTES);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct server *server = NULL;

		assert_int_equal(open_at(&server, wrong[i].options, SERVER_ERROR), -EINVAL);
		assert_null(server);
		assert_int_equal(seen.lines, 1);
		assert_string_equal(seen.line, wrong[i].words);
		nothing_is_held();
	}
}

static void open__takes_the_largest_options_there_are(void **state)
{
	static char longest[CONTROL_KEY_BYTES], name[NAME_BYTES];
	static const struct server_options right[] = {
		{ .shards = SERVER_SHARDS_MAX },
		{ .lanes_max = 4, .slots = 8, .run = 64 },
		{ .lanes_max = WIRE_LANES_MAX, .slots = 32768 },
		{ .jobs_max = SERVER_JOBS_MAX, .tables_max = 256, .registers = 1024 },
		{ .share = 100, .receive_bytes = 1u << 30 },
		{ .listen.port = 65535, .shards = 1 },
		{ .listen.port = 65472, .shards = 64 },
		{ .key = longest },
		{ .is_v6 = true },
	};

	(void)state;
	memset(longest, 'k', sizeof(longest) - 1);
	memset(name, 'n', 100); /* conn.h takes no more */
	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
		struct server *server = NULL;

		assert_int_equal(open_at(&server, right[i], SERVER_INFO), 0);
		assert_int_equal(seen.shards, right[i].shards ? right[i].shards : 1);
		if (right[i].is_v6)
			assert_int_equal(server_port(server), 7399);
		close_opened(server);
	}
	{
		struct server *server = NULL;

		assert_int_equal(open_at(&server, (struct server_options){ .local_name = name },
					 SERVER_INFO),
				 0);
		close_opened(server);
	}
}

/* Jobs, tables and connections that are still there. */
static void close__gives_back_who_is_still_there(void **state)
{
	static const struct control_join join = { .job = "train", .size = 2 };
	uint32_t fds = fds_count();
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct server *server = NULL;
	struct job *job;
	char byte;

	(void)state;
	assert_int_equal(open_failing(&server, NONE, 0, 0, NULL), 0);
	at.sin_port = htons(server_port(server));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	peers_accept(server, 0);
	assert_int_equal(server->peers_count, 1);
	assert_int_equal(job_open(server, &join, 0, &job), 0);
	server->tables[SHARD_TABLES_MAX - 1] = calloc(1, sizeof(struct table));
	close_opened(server);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	assert_int_equal(fds_count(), fds);
}

/* The first shard's is said, if the kernel gives it less than it was asked for. */
static void open__says_that_receive_buffers_are_small(void **state)
{
	struct server *server = NULL;

	(void)state;
	assert_int_equal(open_as(&server, (struct server_options){ .shards = 2,
								   .memory_total = 1,
								   .receive_bytes = 1 << 19 }),
			 0);
	assert_int_equal(seen.lines, 0);
	close_opened(server);
	assert_int_equal(open_as(&server, (struct server_options){ .shards = 2,
								   .memory_total = 1,
								   .receive_bytes = 900 << 10 }),
			 0);
	assert_int_equal(seen.lines, 1);
	assert_string_equal(
		seen.line, "receive buffer: 512 KiB of 900 asked for, windows shrink to fit: raise "
			   "net.core.rmem_max, or run as root");
	close_opened(server);
}

/* Each shard's last word is said, and no shard is closed twice. */
static void close__says_what_the_shards_have_counted(void **state)
{
	struct server *server = NULL;

	(void)state;
	assert_int_equal(open_as(&server, (struct server_options){ .shards = 2 }), 0);
	server->shard_reports[0].stats.packets_in = 8; /* no pointer to one more */
	seen.lines = 0;
	server_close(server);
	nothing_is_held();
	assert_int_equal(seen.lines, 2);
	assert_string_equal(seen.line, "shard 1: 0 packets in; dropped: none");
	server_close(NULL);
}

/* ---- one that listens ---- */

/* Whether the kernel says that somebody has come. */
static bool is_heard(const struct server *server)
{
	struct epoll_event event;

	return epoll_wait(server->epoll_fd, &event, 1, 0) == 1;
}

static void accept__goes_on_though_there_is_no_room_to_watch(void **state)
{
	uint32_t fds = fds_count();
	struct server *server = NULL;
	struct sockaddr_in at = { .sin_family = AF_INET };
	char text[SERVER_TEXT_BYTES];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(open_failing(&server, NONE, 0, 0, NULL), 0);
	at.sin_port = htons((uint16_t)atoi(strrchr(server_address(server, text), ':') + 1));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	seen.level = SERVER_WARN;
	seen.fails = ACCEPT; /* of what else than descriptors, which one is kept for */
	seen.nth = 1;
	seen.with = ENOBUFS;
	assert_true(is_heard(server));
	peers_accept(server, 0);
	assert_string_equal(seen.line, "cannot accept a connection: No buffer space available");
	assert_true(!server->is_listening && !is_heard(server));
	seen.fails = WATCH;
	seen.with = ENOSPC;
	seen.called = 0;
	peers_listen(server, true);
	assert_true(server->is_listening && is_heard(server));
	assert_int_equal(seen.called, 0);
	peers_accept(server, 5000000000);
	assert_memory_equal(seen.line, "127.0.0.1:", 10);
	assert_non_null(strstr(seen.line, "cannot be watched, and is closed: No space left"));
	assert_int_equal(read(fd, text, 1), 0);
	assert_int_equal(server->peers_count, 0);
	close(fd);
	server->is_open = false;
	server_close(server);
	nothing_is_held();
	assert_int_equal(fds_count(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__that_fails_tells_why_and_gives_everything_back),
		cmocka_unit_test(open__that_fails_gives_descriptor_0_back_too),
		cmocka_unit_test(open__makes_no_call_beyond_these),
		cmocka_unit_test(open__chooses_what_nobody_has_said),
		cmocka_unit_test(open__hands_on_what_is_said),
		cmocka_unit_test(open__of_a_local_one_is_on_loopback),
		cmocka_unit_test(open__refuses_options_out_of_range),
		cmocka_unit_test(open__takes_the_largest_options_there_are),
		cmocka_unit_test(close__gives_back_who_is_still_there),
		cmocka_unit_test(open__says_that_receive_buffers_are_small),
		cmocka_unit_test(close__says_what_the_shards_have_counted),
		cmocka_unit_test(accept__goes_on_though_there_is_no_room_to_watch),
	};

	return cmocka_run_group_tests_name("server-failing", tests, NULL, NULL);
}
