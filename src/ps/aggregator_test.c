/* SPDX-License-Identifier: Apache-2.0 */
/* A server and an aggregator that is played here: its control grants the table, its datagrams never come. And a
 * switch inside that has no room. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ps/server.h"

#include "control/conn.h"

enum { WORKERS = 2, HOT = 20, PATIENCE_MS = 30000, CLOSED_MS = 400 };

static char map_path[] = "/tmp/tally-aggregator-map-XXXXXX";
static atomic_uint opens, here,
	gone; /* grants, generations that are summed inside, switches that were given up */
static atomic_bool is_ending;
static struct conn_address address;
static int listen_fd;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void on_log(void *arg, enum ps_level level, const char *line)
{
	(void)arg;
	(void)level;
	here += strstr(line, "is summed here") != NULL;
	gone += strstr(line, "its datagrams do not come through") != NULL;
}

static void grant_say(struct conn *conn, struct codec *codec)
{
	static const uint8_t nonces[WORKERS + 1][WIRE_NONCE_BYTES] = { "one", "two", "three" };
	struct control_message message = { .type = CONTROL_TABLE_GRANT };

	/* The port is nobody's for datagrams. */
	message.table_grant = (struct control_table_grant){ .version = 1,
							    .port = 9,
							    .index = 9,
							    .nonces_count = WORKERS + 1,
							    .heartbeat_ms = 1000,
							    .instance = 77,
							    .nonces = nonces };
	assert_int_equal(conn_send(conn, codec, &message), 0);
	opens++;
}

/* One connection at a time: each is one table. */
static void *aggregator_main(void *arg)
{
	static struct control_message message;
	static struct codec codec;
	struct conn *conn = NULL;

	(void)arg;
	while (!is_ending) {
		enum conn_result result;

		usleep(1000);
		if (!conn && conn_accept(&conn, listen_fd))
			continue;
		result = conn_read(conn, now_ns(), &codec, &message);
		if (result < CONN_NONE) {
			conn_close(conn);
			conn = NULL;
		} else if (result == CONN_MESSAGE && message.type == CONTROL_TABLE_OPEN) {
			grant_say(conn, &codec);
		} else if (result == CONN_MESSAGE && message.type == CONTROL_TABLE_BEAT) {
			message.table_beat.index = 9;
			message.table_beat.instance = 77;
			assert_int_equal(conn_send(conn, &codec, &message), 0);
		}
	}
	conn_close(conn);
	return NULL;
}

static void *server_main(void *arg)
{
	ps_server_run(arg);
	return NULL;
}

static struct ps_hosted_options hosted_options(void)
{
	return (struct ps_hosted_options){
		.table = { .name = "t",
			   .dim = 2,
			   .window = 4,
			   .bytes = 1472,
			   .optimiser = optimiser_default(OPTIMISER_SUM),
			   .unit = 1,
			   .memory_max = 1 << 20,
			   .map = map_path,
			   .durability = PS_NONE },
	};
}

static struct ps_server_options server_options(const struct ps_hosted_options *hosted)
{
	return (struct ps_server_options){ .listen = "127.0.0.1:0",
					   .job = "",
					   .key = "",
					   .workers = WORKERS,
					   .closed_ns = CLOSED_MS * 1000000ull,
					   .tables = hosted,
					   .table_count = 1,
					   .log = on_log };
}

static void wait_until(const atomic_uint *count, unsigned want)
{
	for (int i = 0; i < PATIENCE_MS && *count < want; i++)
		usleep(1000);
	assert_int_equal(*count, want);
}

static void aggregator__whose_datagrams_do_not_come_is_left_alone(void **unused)
{
	struct ps_hosted_options hosted = hosted_options();
	struct ps_server_options options = server_options(&hosted);
	char error[PS_ERROR_MAX], text[64];
	pthread_t aggregator, thread;
	struct ps_server *server;
	uint64_t since_ns;
	uint8_t ip[16];
	uint16_t port;

	(void)unused;
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &address), 0);
	listen_fd = conn_listen(&address);
	assert_true(listen_fd >= 0);
	conn_address_ip(&address, ip, &port);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	assert_int_equal(pthread_create(&aggregator, NULL, aggregator_main, NULL), 0);
	options.aggregator[0] = text;
	options.aggregator_count = 1;
	if (ps_server_open(&server, &options, error))
		fail_msg("%s", error);
	assert_int_equal(pthread_create(&thread, NULL, server_main, server), 0);
	wait_until(&opens, 1);
	wait_until(&gone, 1);
	/* Inside at once, and asked again only after the wait, which grows. */
	since_ns = now_ns();
	wait_until(&here, 1);
	assert_int_equal(opens, 1);
	wait_until(&opens, 2);
	assert_true(now_ns() - since_ns >= CLOSED_MS / 2 * 1000000ull);
	wait_until(&gone, 2);
	since_ns = now_ns();
	wait_until(&here, 2);
	wait_until(&opens, 3);
	assert_true(now_ns() - since_ns >= CLOSED_MS * 3 / 2 * 1000000ull);
	ps_server_stop(server);
	pthread_join(thread, NULL);
	ps_server_close(server);
	is_ending = true;
	pthread_join(aggregator, NULL);
	close(listen_fd);
}

static void aggregator__switch_inside_that_has_no_room_is_no_start(void **unused)
{
	struct ps_hosted_options hosted = hosted_options();
	struct ps_server_options options = server_options(&hosted);
	char error[PS_ERROR_MAX];
	struct ps_server *server;

	(void)unused;
	options.switch_memory = 100;
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_non_null(strstr(error, "table t: no switch for its 20 hot keys: "));
	assert_non_null(strstr(error, "100 bytes"));
}

static int map_make(void **state)
{
	uint64_t keys[HOT];
	struct hot_map map = { .version = 1, .keys = HOT, .key = keys };
	char said[GLM_ERROR_MAX];
	int fd = mkstemp(map_path);

	(void)state;
	for (uint64_t i = 0; i < HOT; i++)
		keys[i] = i;
	close(fd);
	return hot_map_write(map_path, &map, said);
}

static int map_remove(void **state)
{
	(void)state;
	return unlink(map_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregator__whose_datagrams_do_not_come_is_left_alone),
		cmocka_unit_test(aggregator__switch_inside_that_has_no_room_is_no_start),
	};

	return cmocka_run_group_tests(tests, map_make, map_remove);
}
