/* SPDX-License-Identifier: Apache-2.0 */
/* places_test.c - stranger.c where numbers count: how many places there are, who loses one, what accept says (R-KV-21).
 * Connections and the kernel are the test's. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "dataplane/link_address.h"
#include "ps/internal.h"

enum {
	PLACES = 64, /* so 16 of strangers, 4 of them for one address */
	FD_BASE = 5000,
	COMES_MAX = 70,
	LEFT_MAX = 8
};

static const uint64_t now_ns = 500000000000, ms_ns = 1000000;

static struct {
	struct ps_server server;
	struct ps_conn conns[PLACES + 8];
	uint32_t conns_count; /* that were opened */
	rlim_t files;         /* RLIM_INFINITY - 1: the kernel does not say */

	struct {
		int error; /* 0: a connection of 10.0.0.`host`, or of a network of v6 */
		uint8_t host;
		bool is_v6;
	} comes[COMES_MAX];
	uint32_t comes_count, accepts;
	bool has_no_memory;
	/* What `server` reads when it is about to turn the connection away makes it a member. */
	const struct ps_conn *becomes_member;

	const struct ps_conn *left[LEFT_MAX], *refused[LEFT_MAX]; /* in this order */
	uint32_t left_count, refused_count, goodbyes, reads, lines, stranger_lines, fds_closed;
	char refusal[256], line[256];
} test;

int __wrap_kv_stream_read(struct kv_stream *stream);
bool __wrap_ps_conn_write(struct ps_conn *conn, uint64_t at_ns);
struct ps_conn *__wrap_ps_conn_open(int fd, uint64_t at_ns);
void __wrap_ps_conn_close(struct ps_conn *conn);
void __wrap_ps_serve(struct ps_server *server, struct ps_conn *conn);
void __wrap_ps_serve_gone(struct ps_server *server, struct ps_conn *conn);
__attribute__((format(printf, 5, 6))) void __wrap_ps_serve_refuse(struct ps_server *server,
								  struct ps_conn *conn,
								  const struct kv_message *what,
								  enum kv_refusal refusal,
								  const char *format, ...);
__attribute__((format(printf, 4, 5))) void __wrap_ps_log(const struct ps_server *server,
							 enum ps_level level, struct ps_about about,
							 const char *format, ...);
__attribute__((format(printf, 3, 4))) void
__wrap_ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format, ...);
uint64_t __wrap_ps_now(const struct ps_server *server);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags);
int __wrap_getrlimit64(int which, struct rlimit *limit);
int __wrap_close(int fd);
int __real_close(int fd);

int __wrap_kv_stream_read(struct kv_stream *stream)
{
	assert_false(
		((const struct ps_conn *)stream)->is_ending); /* nobody listens to it any more */
	test.reads++;
	return 0;
}

bool __wrap_ps_conn_write(struct ps_conn *conn, uint64_t at_ns)
{
	assert_non_null(conn);
	assert_true(at_ns == now_ns);
	test.goodbyes++;
	return true;
}

struct ps_conn *__wrap_ps_conn_open(int fd, uint64_t at_ns)
{
	struct ps_conn *conn = &test.conns[test.conns_count];

	assert_true(at_ns == now_ns);
	if (test.has_no_memory)
		return NULL;
	assert_true(test.conns_count++ < PLACES + 8);
	conn->stream.fd = fd;
	conn->since_ns = at_ns;
	return conn;
}

void __wrap_ps_conn_close(struct ps_conn *conn)
{
	assert_true(test.left_count < LEFT_MAX);
	test.left[test.left_count++] = conn;
}

void __wrap_ps_serve(struct ps_server *server, struct ps_conn *conn)
{
	assert_ptr_equal(server, &test.server);
	if (conn == test.becomes_member)
		conn->is_welcome = true;
}

void __wrap_ps_serve_gone(struct ps_server *server, struct ps_conn *conn)
{
	assert_ptr_equal(server, &test.server);
	conn->is_gone = true;
}

void __wrap_ps_serve_refuse(struct ps_server *server, struct ps_conn *conn,
			    const struct kv_message *what, enum kv_refusal refusal,
			    const char *format, ...)
{
	va_list values;

	assert_ptr_equal(server, &test.server);
	assert_null(what);
	assert_int_equal(refusal, KV_REFUSED_BUSY);
	assert_true(test.refused_count < LEFT_MAX);
	test.refused[test.refused_count++] = conn;
	va_start(values, format);
	vsnprintf(test.refusal, sizeof(test.refusal), format, values);
	va_end(values);
}

void __wrap_ps_log(const struct ps_server *server, enum ps_level level, struct ps_about about,
		   const char *format, ...)
{
	va_list values;

	assert_ptr_equal(server, &test.server);
	assert_int_equal(level, PS_WARN);
	assert_null(about.table);
	test.lines++;
	va_start(values, format);
	vsnprintf(test.line, sizeof(test.line), format, values);
	va_end(values);
}

void __wrap_ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format,
			    ...)
{
	va_list values;

	assert_ptr_equal(server, &test.server);
	assert_null(about.table);
	test.stranger_lines++;
	va_start(values, format);
	vsnprintf(test.line, sizeof(test.line), format, values);
	va_end(values);
}

uint64_t __wrap_ps_now(const struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	return now_ns;
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
	union link_sockaddr *its = (union link_sockaddr *)(void *)from;
	uint32_t at = test.accepts;

	assert_int_equal(fd, 77);
	assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
	errno = EAGAIN;
	if (at == test.comes_count)
		return -1;
	test.accepts++;
	errno = test.comes[at].error;
	if (errno)
		return -1;
	memset(its, 0, *bytes);
	if (test.comes[at].is_v6) {
		its->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(9) };
		its->v6.sin6_addr.s6_addr[0] = 0x20;
		its->v6.sin6_addr.s6_addr[7] = test.comes[at].host;
		its->v6.sin6_addr.s6_addr[15] = (uint8_t)at;
	} else {
		its->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
						.sin_port = htons(9),
						.sin_addr.s_addr =
							htonl(0x0a000000u + test.comes[at].host) };
	}
	return FD_BASE + (int)at;
}

int __wrap_getrlimit64(int which, struct rlimit *limit)
{
	assert_int_equal(which, RLIMIT_NOFILE);
	limit->rlim_cur = test.files;
	return test.files == RLIM_INFINITY - 1 ? -1 : 0;
}

int __wrap_close(int fd)
{
	if (fd < FD_BASE)
		return __real_close(fd);
	test.fds_closed++;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.server.listener = 77;
	test.server.places = PLACES;
	test.server.options.key = "sesame";
	return 0;
}

/* So many knock, from one host. */
static void come(uint32_t count, uint8_t host)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_true(test.comes_count < COMES_MAX);
		test.comes[test.comes_count++].host = host;
	}
}

static void accept_fails(int error)
{
	test.comes[test.comes_count++].error = error;
}

/* So many that are welcome, of a host that no stranger comes from. */
static void members(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ps_conn *conn = __wrap_ps_conn_open(1, now_ns);

		conn->is_welcome = true;
		test.server.conn[test.server.conn_count++] = conn;
	}
}

/* ---- how many places ---- */

static void places__are_what_the_limit_of_open_files_leaves(void **state)
{
	/* 64 files of the server's own, and for each of two tables 4 and all logs but the last */
	const uint32_t others = 64 + 2 * (4 + LOG_OLD_MAX);
	const struct {
		rlim_t files;
		uint32_t places;
	} rows[] = { { others + PS_CONNS_MAX, PS_CONNS_MAX },
		     { others + PS_CONNS_MAX - 1, PS_CONNS_MAX - 1 },
		     { others + 9, 9 },
		     { others + 8, 8 },
		     { others + 7, 8 },
		     { 3, 8 },
		     { RLIM_INFINITY, PS_CONNS_MAX },
		     { RLIM_INFINITY - 1, PS_CONNS_MAX } };
	char words[96];

	(void)state;
	test.server.options.table_count = 2;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		test.files = rows[i].files;
		test.lines = 0;
		ps_places(&test.server);
		assert_int_equal(test.server.places, rows[i].places);
		assert_int_equal(test.lines, rows[i].places < PS_CONNS_MAX);
		if (!test.lines)
			continue;
		snprintf(words, sizeof(words),
			 "room for %u connections alone, not 1024: ", rows[i].places);
		assert_non_null(strstr(test.line, words));
	}
}

static void stranger__is_who_has_no_key_or_without_one_no_table(void **state)
{
	struct ps_conn conn = { .stream.fd = 1 };

	(void)state;
	assert_true(ps_is_stranger(&test.server, &conn));
	conn.is_welcome = true;
	assert_false(ps_is_stranger(&test.server, &conn));
	test.server.options.key = "";
	assert_true(ps_is_stranger(&test.server, &conn));
	conn.is_held = true; /* it has asked for one */
	assert_false(ps_is_stranger(&test.server, &conn));
	conn.is_held = false;
	conn.has_table = true;
	assert_false(ps_is_stranger(&test.server, &conn));
	conn.is_welcome = false;
	assert_true(ps_is_stranger(&test.server, &conn));
}

/* ---- who loses one ---- */

static void stranger__of_a_busy_address_makes_room_for_the_next(void **state)
{
	(void)state;
	come(4, 1);
	come(1, 2);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 5);
	assert_int_equal(test.left_count + test.reads + test.stranger_lines, 0);
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 5);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[0]); /* the oldest of that address */
	assert_true(test.conns[0].is_gone);
	assert_ptr_equal(test.refused[0], &test.conns[0]);
	assert_string_equal(test.refusal,
			    "no room for one more connection without a table: 5 are open");
	assert_int_equal(test.goodbyes, 1);
	assert_int_equal(test.reads, 1);
	for (uint32_t i = 0; i < 5; i++) /* the others keep their order */
		assert_ptr_equal(test.server.conn[i], &test.conns[1 + i]);
	assert_int_equal(test.server.conn[4]->stream.fd, FD_BASE + 5);
}

/* One that has been told so, and one that what it has just said makes a member. */
static void stranger__that_is_ending_or_becomes_a_member_is_not_told(void **state)
{
	(void)state;
	come(4, 1);
	ps_accept(&test.server);
	test.conns[0].is_ending = true;
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.refused_count + test.reads, 0);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[0]);
	test.becomes_member = &test.conns[1];
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.reads, 1);
	assert_int_equal(test.refused_count, 0);
	assert_int_equal(test.left_count, 1);
	assert_int_equal(test.server.conn_count, 5);
}

/* When all places of strangers are taken, the busiest address loses its oldest. */
static void stranger__of_the_busiest_address_makes_room_for_another(void **state)
{
	(void)state;
	for (uint8_t host = 1; host <= 4; host++)
		come(3, host);
	come(4, 5);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 16);
	assert_int_equal(test.left_count, 0);
	test.conns[0].is_gone = true; /* of host 1, as the turn will find */
	come(1, 6);
	ps_accept(&test.server);
	assert_int_equal(test.left_count, 0); /* its place is free */
	come(1, 7);
	ps_accept(&test.server);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[12]);
	assert_int_equal(test.server.conn_count, 17);
}

/* IPv6: one host may have all addresses of a network of 64 bits. */
static void stranger__of_v6_counts_with_its_network(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		come(1, i == 2 ? 9 : 8);
		test.comes[i].is_v6 = true;
	}
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 5);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[0]);
	assert_true(test.conns[1].source == test.conns[3].source);
	assert_true(test.conns[1].source != test.conns[2].source);
}

static void stranger__has_a_place_however_few_there_are(void **state)
{
	(void)state;
	test.server.places = 8; /* 2 of strangers, and so one of each address */
	come(2, 1);
	come(1, 2);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 2);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[0]);
}

static void stranger__finds_no_place_among_members(void **state)
{
	(void)state;
	members(PLACES);
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, PLACES);
	assert_int_equal(test.stranger_lines, 1);
	assert_string_equal(test.line, "no room for one more connection than 64");
	assert_int_equal(test.fds_closed, 1);
	test.server.conn_count--;
	test.has_no_memory = true;
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.stranger_lines, 2);
	assert_int_equal(test.fds_closed, 2);
	test.has_no_memory = false;
	come(1, 1);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, PLACES);
	assert_int_equal(test.fds_closed, 2);
}

/* Three quarters are the members'. */
static void member__fits_until_the_places_of_members_are_full(void **state)
{
	(void)state;
	members(PLACES - PLACES / 4 - 1);
	come(5, 1);
	ps_accept(&test.server);
	assert_true(ps_member_fits(&test.server));
	members(1);
	assert_false(ps_member_fits(&test.server));
	test.server.conn_count--;
	assert_true(ps_member_fits(&test.server));
}

/* ---- accept ---- */

static void accept__takes_64_in_a_turn(void **state)
{
	(void)state;
	for (uint8_t host = 1; host <= 66; host++)
		come(1, host);
	test.server.places = 512;
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 64);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 66);
}

static void accept__goes_on_after_what_concerns_one_connection(void **state)
{
	(void)state;
	accept_fails(ECONNABORTED);
	come(1, 1);
	accept_fails(EINTR);
	come(1, 2);
	accept_fails(EAGAIN);
	come(1, 3);
	ps_accept(&test.server);
	assert_int_equal(test.server.conn_count, 2);
	assert_int_equal(test.lines, 0);
	assert_true(test.server.accept_ns == 0);
}

/* Whoever waits would wake the server again at once. */
static void accept__without_descriptors_waits_a_second_if_nobody_gives_one_up(void **state)
{
	static const int errors[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM };
	char words[128];

	(void)state;
	members(1);
	for (uint32_t i = 0; i < 4; i++) {
		test.server.accept_ns = 0;
		accept_fails(errors[i]);
		ps_accept(&test.server);
		assert_int_equal(test.lines, 1 + i);
		snprintf(words, sizeof(words), "no connection can be taken for a second: %s",
			 strerror(errors[i]));
		assert_string_equal(test.line, words);
		assert_true(test.server.accept_ns == now_ns + 1000 * ms_ns);
	}
	assert_int_equal(test.left_count, 0);
}

static void accept__without_descriptors_takes_the_busiest_strangers(void **state)
{
	(void)state;
	come(1, 1);
	come(2, 2);
	accept_fails(EMFILE);
	come(1, 3);
	ps_accept(&test.server);
	assert_int_equal(test.left_count, 1);
	assert_ptr_equal(test.left[0], &test.conns[1]);
	assert_int_equal(test.server.conn_count, 3);
	assert_int_equal(test.lines, 0);
	test.becomes_member = &test.conns[0]; /* so it gives up none */
	accept_fails(EMFILE);
	ps_accept(&test.server);
	assert_int_equal(test.left_count, 1);
	assert_int_equal(test.lines, 1);
}

/* ---- the time ---- */

static void stranger__is_refused_when_its_time_is_over(void **state)
{
	(void)state;
	come(4, 1);
	ps_accept(&test.server);
	members(1);
	test.conns[0].since_ns = test.conns[4].since_ns = now_ns - 9000 * ms_ns;
	test.conns[1].since_ns = now_ns - 8000 * ms_ns;
	test.conns[2].since_ns = now_ns - 8000 * ms_ns - 1;
	test.conns[3].since_ns = 0;
	test.conns[3].is_gone = true;
	test.conns[2].is_ending = true;
	ps_strangers_turn(&test.server, now_ns, 8000 * ms_ns);
	assert_true(test.conns[0].is_gone);
	assert_false(test.conns[1].is_gone);
	assert_true(test.conns[2].is_gone);
	assert_false(test.conns[4].is_gone); /* a member */
	assert_int_equal(test.refused_count, 1);
	assert_ptr_equal(test.refused[0], &test.conns[0]);
	assert_string_equal(test.refusal, "no table was opened for 9000 ms");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(places__are_what_the_limit_of_open_files_leaves),
		T(stranger__is_who_has_no_key_or_without_one_no_table),
		T(stranger__of_a_busy_address_makes_room_for_the_next),
		T(stranger__that_is_ending_or_becomes_a_member_is_not_told),
		T(stranger__of_the_busiest_address_makes_room_for_another),
		T(stranger__of_v6_counts_with_its_network),
		T(stranger__has_a_place_however_few_there_are),
		T(stranger__finds_no_place_among_members),
		T(member__fits_until_the_places_of_members_are_full),
		T(accept__takes_64_in_a_turn),
		T(accept__goes_on_after_what_concerns_one_connection),
		T(accept__without_descriptors_waits_a_second_if_nobody_gives_one_up),
		T(accept__without_descriptors_takes_the_busiest_strangers),
		T(stranger__is_refused_when_its_time_is_over),
#undef T
	};

	return cmocka_run_group_tests_name("ps-places", tests, NULL, NULL);
}
