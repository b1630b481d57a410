/* SPDX-License-Identifier: Apache-2.0 */
/* open_test.c - how a server begins: what it takes if it is told nothing, where it listens, which aggregators it cannot
 * have, how its tables begin. Sockets are of loopback; who waits for an address does so in no time. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ps/lines_fixture.h"

enum { NAPS = 40 };

static struct ps_hosted_options table;
static struct ps_server_options options;
static struct ps_server *server;
static char error[PS_ERROR_MAX];
static char own[32], own_any[40]; /* an address of loopback that no other process has */

static struct {
	int naps, opens_at; /* after so many naps the address is free */
	int blocker;
	bool is_lost, is_checkpoint, has_notice;
	uint32_t disowned, gathers, steps, spent;
} test;

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left);
int __wrap_conn_resolve(const char *text, uint16_t default_port, struct conn_address *address);
int __real_conn_resolve(const char *text, uint16_t default_port, struct conn_address *address);
int __wrap_ps_table_open(struct ps_table **out, const struct ps_table_options *of,
			 struct outbox *outbox, char why[PS_ERROR_MAX]);
int __real_ps_table_open(struct ps_table **out, const struct ps_table_options *of,
			 struct outbox *outbox, char why[PS_ERROR_MAX]);
void __wrap_ps_table_disown(struct ps_table *of);
void __wrap_ps_gather_begin(struct ps_server *of, struct ps_hosted *hosted);
void __wrap_ps_steps_begin(struct ps_server *of, struct ps_hosted *hosted);
void __wrap_ps_spent_say(struct ps_server *of, const struct ps_hosted *hosted);

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
	assert_null(left);
	assert_int_equal(wait->tv_sec, 0);
	assert_int_equal(wait->tv_nsec, 50000000);
	if (++test.naps == test.opens_at)
		close(test.blocker);
	return 0;
}

int __wrap_conn_resolve(const char *text, uint16_t default_port, struct conn_address *address)
{
	assert_int_equal(default_port, 7171);
	if (!strcmp(text, "gone"))
		return -ENOENT;
	if (!strcmp(text, "odd"))
		return -EINVAL;
	return __real_conn_resolve(text, default_port, address);
}

int __wrap_ps_table_open(struct ps_table **out, const struct ps_table_options *of,
			 struct outbox *outbox, char why[PS_ERROR_MAX])
{
	int result = __real_ps_table_open(out, of, outbox, why);

	if (result)
		return result;
	(*out)->has_lost = test.is_lost;
	if (test.is_checkpoint)
		(*out)->options.durability = PS_CHECKPOINT;
	if (test.has_notice)
		strcpy((*out)->notice, "it was mended");
	return 0;
}

void __wrap_ps_table_disown(struct ps_table *of)
{
	assert_non_null(of);
	test.disowned++;
}

void __wrap_ps_gather_begin(struct ps_server *of, struct ps_hosted *hosted)
{
	assert_non_null(of);
	hosted->table->kv.is_gathering = true;
	test.gathers++;
}

void __wrap_ps_steps_begin(struct ps_server *of, struct ps_hosted *hosted)
{
	assert_true(of && hosted);
	test.steps++;
}

void __wrap_ps_spent_say(struct ps_server *of, const struct ps_hosted *hosted)
{
	assert_true(of && hosted);
	test.spent++;
}

static void on_log(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	(void)arg;
	(void)level;
	(void)about;
	(void)line;
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	heard.now_ns = 55;
	server = NULL;
	table = (struct ps_hosted_options){ .table = { .name = "t",
						       .dim = 2,
						       .window = 4,
						       .bytes = 1472,
						       .unit = 1,
						       .durability = PS_NONE } };
	snprintf(own, sizeof(own), "127.%d.%d.%d", 1 + (getpid() >> 14 & 63),
		 1 + (getpid() >> 7 & 127), 1 + (getpid() & 127));
	snprintf(own_any, sizeof(own_any), "%s:0", own);
	options = (struct ps_server_options){ .listen = own_any,
					      .job = "J",
					      .key = "",
					      .workers = 2,
					      .tables = &table,
					      .table_count = 1,
					      .log = on_log };
	return 0;
}

static void begin(void)
{
	if (ps_server_open(&server, &options, error))
		fail_msg("%s", error);
}

static void refused(const char *text)
{
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_string_equal(error, text);
	assert_null(server);
}

static void server__that_is_told_nothing_takes_the_usual(void **state)
{
	(void)state;
	begin();
	assert_int_equal(server->options.heartbeat_ms, 1000);
	assert_true(server->options.silence_ns == 500000000);
	assert_true(server->options.switch_memory == 1 << 30);
	assert_true(server->options.closed_ns == 5000000000);
	assert_true(server->options.drain_ns == 2000000000);
	assert_int_equal(server->hosted[0].options.age_us, 50000);
	assert_int_equal(server->hosted[0].options.patience_us, 200000);
	assert_int_equal(server->hosted[0].options.table.memory_max, 1 << 30);
	assert_int_equal(server->hosted[0].table->options.memory_max, 1 << 30);
	assert_int_equal(server->hosted[0].table->shape.workers, 2);
	ps_server_close(server);
}

static void server__takes_what_it_is_told(void **state)
{
	struct ps_hosted_options tables[2];

	(void)state;
	table.age_us = 70;
	tables[0] = tables[1] = table;
	strcpy(tables[1].table.name, "u");
	tables[1].patience_us = 80;
	tables[1].table.memory_max = 1 << 20;
	options.tables = tables;
	options.table_count = 2;
	options.heartbeat_ms = 1;
	options.silence_ns = 2;
	options.switch_memory = 1 << 24;
	options.closed_ns = 4;
	options.drain_ns = 5;
	begin();
	assert_int_equal(server->options.heartbeat_ms, 1);
	assert_true(server->options.silence_ns == 2);
	assert_true(server->options.switch_memory == 1 << 24);
	assert_true(server->options.closed_ns == 4);
	assert_true(server->options.drain_ns == 5);
	assert_int_equal(server->hosted_count, 2);
	assert_int_equal(server->hosted[0].options.age_us, 70);
	assert_int_equal(server->hosted[0].options.patience_us, 100140);
	assert_int_equal(server->hosted[1].options.patience_us, 80);
	assert_int_equal(server->hosted[1].options.table.memory_max, 1 << 20);
	assert_int_equal(server->hosted[1].number, 1);
	ps_server_close(server);
}

/* ---- where it listens ---- */

static int option_of(int fd, int level, int name)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	assert_int_equal(getsockopt(fd, level, name, &value, &bytes), 0);
	return value;
}

static void server__listens_with_one_port_for_both(void **state)
{
	char text[PS_TEXT_BYTES], want[PS_TEXT_BYTES];

	(void)state;
	begin();
	assert_int_not_equal(server->port, 0);
	snprintf(want, sizeof(want), "%s:%u", own, server->port);
	assert_string_equal(ps_server_address(server, text), want);
	assert_true(option_of(server->listener, SOL_SOCKET, SO_REUSEADDR));
	assert_true(fcntl(server->listener, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(server->listener, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(server->bell, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(server->bell, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(server->self.port, server->port);
	assert_int_equal(server->self.ip[12], 127);
	ps_server_close(server);
}

/* Datagrams to itself go over loopback. */
static void server__that_listens_everywhere_reaches_itself(void **state)
{
	static const uint8_t loopback[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	static const uint8_t loopback6[16] = { [15] = 1 };

	(void)state;
	options.listen = "0.0.0.0:0";
	begin();
	assert_memory_equal(server->self.ip, loopback, 16);
	assert_int_equal(server->self.port, server->port);
	ps_server_close(server);
	options.listen = "[::]:0";
	if (ps_server_open(&server, &options, error)) {
		assert_string_equal(error, "[::]:0: Address family not supported by protocol");
		return; /* not of this host */
	}
	assert_memory_equal(server->self.ip, loopback6, 16);
	assert_false(option_of(server->listener, IPPROTO_IPV6, IPV6_V6ONLY));
	ps_server_close(server);
}

/* A socket of this kind that has an address of loopback. */
static uint16_t take(int kind, int *fd)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { inet_addr(own) } };
	socklen_t bytes = sizeof(at);

	*fd = socket(AF_INET, kind, 0);
	assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof(at)), 0);
	if (kind == SOCK_STREAM)
		assert_int_equal(listen(*fd, 1), 0);
	assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &bytes), 0);
	return ntohs(at.sin_port);
}

static void server__waits_two_seconds_for_its_address(void **state)
{
	char at[64], text[PS_ERROR_MAX];

	(void)state;
	snprintf(at, sizeof(at), "%s:%u", own, take(SOCK_STREAM, &test.blocker));
	options.listen = at;
	snprintf(text, sizeof(text), "%s: Address already in use", at);
	refused(text);
	assert_int_equal(test.naps, NAPS);
	test.naps = 0;
	test.opens_at = NAPS;
	begin();
	assert_int_equal(test.naps, NAPS);
	ps_server_close(server);
}

static void server__has_another_port_for_datagrams_if_that_is_taken(void **state)
{
	char at[64], text[PS_TEXT_BYTES];
	uint16_t port;
	int fd;

	(void)state;
	port = take(SOCK_DGRAM, &fd);
	snprintf(at, sizeof(at), "%s:%u", own, port);
	options.listen = at;
	begin();
	assert_string_equal(ps_server_address(server, text), at);
	assert_int_not_equal(server->port, port);
	assert_int_equal(server->self.port, server->port);
	ps_server_close(server);
	close(fd);
}

static void server__without_an_address_of_its_own_is_none(void **state)
{
	(void)state;
	options.listen = "192.0.2.1:0";
	refused("192.0.2.1:0: Cannot assign requested address");
	assert_int_equal(test.naps, 0);
	options.listen = "192.0.2:0:x";
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_non_null(strstr(error, "192.0.2:0:x: "));
}

/* ---- aggregators ---- */

static void server__names_the_aggregator_that_cannot_be(void **state)
{
	(void)state;
	options.aggregator[0] = "127.0.0.1";
	options.aggregator[1] = "gone";
	options.aggregator_count = 2;
	refused("aggregator gone: no such host");
	options.aggregator[1] = "odd";
	refused("aggregator odd: Invalid argument");
	options.aggregator[1] = "224.0.0.1:7";
	refused("aggregator 224.0.0.1:7: a multicast address");
	options.aggregator[1] = "192.0.2.1:7";
	refused("aggregator 192.0.2.1:7: out of reach: this server listens on loopback alone; "
		"--listen an address that it can be reached at");
	options.listen = "0.0.0.0:0";
	begin();
	assert_string_equal(server->aggregator[1].text, "192.0.2.1:7");
	ps_server_close(server);
	options.listen = own_any;
	options.aggregator[1] = "127.0.0.1:7";
	begin();
	ps_server_close(server);
}

/* ---- tables ---- */

static void table__begins_with_a_fence_and_a_line(void **state)
{
	(void)state;
	begin();
	assert_line(0, PS_INFO, "t", "0 rows, 0 of them hot, 0 records read");
	assert_true(server->hosted[0].saved_ns > 0);
	assert_int_equal(test.steps, 1);
	assert_int_equal(test.spent, 1);
	assert_int_equal(test.disowned + test.gathers, 0);
	assert_true(server->hosted[0].has_switch);
	assert_int_equal(
		sparse_fences(home_sparse_server(server->hosted[0].table->home)->generation), 1);
	ps_server_close(server);
}

static void table__that_has_lost_something_disowns_its_workers(void **state)
{
	(void)state;
	test.is_lost = test.is_checkpoint = test.has_notice = true;
	begin();
	assert_line(0, PS_WARN, "t", "it was mended");
	assert_int_equal(test.disowned, 1);
	assert_int_equal(test.gathers, 1);
	assert_false(server->hosted[0].has_switch);
	ps_server_close(server);
}

static void table__without_room_for_its_switch_is_no_start(void **state)
{
	(void)state;
	options.switch_memory = 1;
	refused("table t: no switch for its 0 hot keys: No space left on device: 1 bytes are there "
		"for all tables that are summed here");
	options.switch_memory = 0;
	table.table.dim = 0;
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_non_null(strstr(error, "table t: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(server__that_is_told_nothing_takes_the_usual),
		T(server__takes_what_it_is_told),
		T(server__listens_with_one_port_for_both),
		T(server__that_listens_everywhere_reaches_itself),
		T(server__waits_two_seconds_for_its_address),
		T(server__has_another_port_for_datagrams_if_that_is_taken),
		T(server__without_an_address_of_its_own_is_none),
		T(server__names_the_aggregator_that_cannot_be),
		T(table__begins_with_a_fence_and_a_line),
		T(table__that_has_lost_something_disowns_its_workers),
		T(table__without_room_for_its_switch_is_no_start),
#undef T
	};

	return cmocka_run_group_tests_name("ps-open", tests, NULL, NULL);
}
