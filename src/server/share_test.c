/* SPDX-License-Identifier: Apache-2.0 */
/* share_test.c - one address cannot have all that the aggregator has, and hears nothing of what others have. Clients come
 * from loopback addresses of their own: connect is wrapped. */
#include "server/server_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/sparse/table_sparse.h"
#include "server/internal.h"
#include "tests/skip.h"

static uint8_t from_host = 1; /* 127.0.0.N */

int __real_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(0x7f000000u | from_host) };

	if (to->sa_family == AF_INET && bind(fd, (struct sockaddr *)&from, sizeof(from)))
		return -1;
	return __real_connect(fd, to, bytes);
}

/* One rank of two: it gathers. */
static void gather(struct client *client, const char *address, const char *job)
{
	client_open(client, address);
	client_join(client, job, 0, 2);
}

static void assert_denied(struct client *client, const char *words)
{
	client_expect(client, CONTROL_DENY, NEWS_MS);
	assert_int_equal(client->message.end.cause, CONTROL_NO_RESOURCE);
	if (!strstr(client->message.end.text, words))
		fail_msg("no \"%s\" in: %s", words, client->message.end.text);
}

static void close_all(struct client *clients, uint32_t count, struct server *server)
{
	for (uint32_t i = 0; i < count; i++)
		client_close(&clients[i]);
	server_close(server);
}

static void share__of_jobs_leaves_some_for_others(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = 16 });
	struct client clients[12];
	char address[32], job[16];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	for (int i = 0; i < 9; i++) {
		snprintf(job, sizeof(job), "job%d", i);
		gather(&clients[i], address, job);
		if (i < 8)
			assert_false(client_next(&clients[i], 30));
	}
	assert_denied(&clients[8],
		      "your address has 8 of the aggregator's jobs, others have 0: one "
		      "may not have more (--share 50)");
	from_host = 2;
	gather(&clients[9], address, "another");
	assert_false(client_next(&clients[9], 30));
	/* Who joins a job that is there opens none. */
	from_host = 1;
	client_open(&clients[10], address);
	client_join(&clients[10], "job3", 1, 2);
	client_expect(&clients[10], CONTROL_GRANT, NEWS_MS);
	client_expect(&clients[3], CONTROL_GRANT, NEWS_MS);
	/* A job that has gone counts no more. */
	client_close(&clients[0]);
	usleep(100000);
	gather(&clients[11], address, "job0 again");
	assert_false(client_next(&clients[11], 30));
	client_close(&clients[11]);
	close_all(clients + 1, 10, server);
}

enum { JOBS = 16, HALF = JOBS / 2 };

static bool has_gone(const char *job)
{
	char line[64];

	snprintf(line, sizeof(line), "job %s: rank 0 on node0 (process %u) has gone", job,
		 (unsigned)getpid());
	return book_has(line);
}

static void name(char job[16], const char *prefix, int i)
{
	snprintf(job, 16, "%s%d", prefix, i);
}

/* Its share of jobs, "PREFIX0" and so on, each of which gathers. */
static void gather_half(struct client *clients, const char *address, const char *prefix)
{
	char job[16];

	for (int i = 0; i < HALF; i++) {
		name(job, prefix, i);
		gather(&clients[i], address, job);
		assert_false(client_next(&clients[i], 30));
	}
}

/* Rank 0 leaves each, and the server knows it. */
static void leave_half(struct client *clients, const char *prefix)
{
	char job[16];

	for (int i = 0; i < HALF; i++)
		client_close(&clients[i]);
	for (int i = 0; i < HALF; i++) {
		name(job, prefix, i);
		for (int left = LONG_MS; !has_gone(job) && left; left--)
			usleep(1000);
		assert_true(has_gone(job));
	}
}

/* A name that is remembered is as good as a new one, and costs as much. */
static void share__of_jobs_counts_names_that_are_taken_again(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = JOBS });
	struct client clients[HALF], again, other;
	char address[32];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	gather_half(clients, address, "a");
	leave_half(clients, "a");
	gather_half(clients, address, "b");
	gather(&again, address, "a0");
	assert_denied(&again, "your address has 8 of the aggregator's jobs, others have 0");
	from_host = 2;
	gather(&other, address, "another");
	assert_false(client_next(&other, 30));
	client_close(&again);
	client_close(&other);
	close_all(clients, HALF, server);
}

static void share__a_name_taken_again_is_charged_to_who_takes_it(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = JOBS });
	struct client clients[HALF], first, second;
	char address[32];

	(void)state;
	tcp_address(server, address);
	from_host = 2;
	gather_half(clients, address, "a");
	leave_half(clients, "a");
	from_host = 1;
	gather_half(clients, address, "a");
	from_host = 2;
	gather(&second, address, "more");
	assert_false(client_next(&second, 30));
	from_host = 1;
	gather(&first, address, "more too");
	assert_denied(&first, "your address has 8 of the aggregator's jobs, others have 1");
	client_close(&first);
	client_close(&second);
	close_all(clients, HALF, server);
}

/* Who has opened a job may go, and another stay in it. */
static void share__a_job_is_charged_to_who_is_left_in_it(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = JOBS });
	struct client openers[HALF], clients[HALF], first, second;
	char address[32], job[16];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	for (int i = 0; i < HALF; i++) {
		name(job, "a", i);
		client_open(&openers[i], address);
		client_join(&openers[i], job, 0, 3);
		assert_false(client_next(&openers[i], 30));
	}
	from_host = 2;
	for (int i = 0; i < HALF; i++) {
		name(job, "a", i);
		client_open(&clients[i], address);
		client_join(&clients[i], job, 1, 3);
		assert_false(client_next(&clients[i], 30));
	}
	leave_half(openers, "a");
	from_host = 1;
	gather(&first, address, "more");
	assert_false(client_next(&first, 30));
	from_host = 2;
	gather(&second, address, "more too");
	assert_denied(&second, "your address has 8 of the aggregator's jobs, others have 1");
	client_close(&first);
	client_close(&second);
	close_all(clients, HALF, server);
}

static void share__of_100_is_all(void **state)
{
	struct server *server =
		test_server((struct server_options){ .jobs_max = 16, .share = 100 });
	struct client clients[16];
	char address[32], job[16];

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 16; i++) {
		snprintf(job, sizeof(job), "job%d", i);
		gather(&clients[i], address, job);
		assert_false(client_next(&clients[i], 30));
	}
	close_all(clients, 16, server);
}

/* Of what another address has a refusal says how much, and not what: without a key whoever asks may be anybody. */
static void share__refusals_name_nobody_elses_jobs(void **state)
{
	struct server *server = test_server((struct server_options){ .jobs_max = 2 });
	struct client clients[4];
	char address[32];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	gather(&clients[0], address, "secret");
	assert_false(client_next(&clients[0], 30));
	from_host = 2;
	gather(&clients[1], address, "mine");
	assert_false(client_next(&clients[1], 30));
	gather(&clients[2], address, "more");
	assert_denied(&clients[2],
		      "as many jobs as it takes (--jobs-max 2): \"mine\" (gathering, 1 "
		      "of 2 ranks on node0), 1 jobs and 0 tables of other addresses");
	assert_null(strstr(clients[2].message.end.text, "secret"));
	from_host = 3;
	gather(&clients[3], address, "stranger");
	assert_denied(&clients[3], ": 2 jobs and 0 tables of other addresses");
	assert_null(strstr(clients[3].message.end.text, "secret"));
	assert_null(strstr(clients[3].message.end.text, "mine"));
	assert_null(strstr(clients[3].message.end.text, "node"));
	close_all(clients, 4, server);
}

/* Nor who runs the job whose name it has heard: it is in no gathering of it. (In one it may be any of its hosts: R-CT-34.)
 */
static void share__a_claim_from_elsewhere_hears_no_host_of_a_running_job(void **state)
{
	struct server *server = test_server(
		(struct server_options){ .lanes_max = LANES, .heartbeat_ms = 10 * LONG_MS });
	struct client clients[3];
	bool is_told = false;
	char address[32];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	clients_start(clients, 2, address, "secret");
	from_host = 2;
	client_open(&clients[2], address);
	client_join(&clients[2], "secret", 0, 2);
	for (int looks = LONG_MS / 20; looks && !is_told; looks--) {
		assert_false(client_next(&clients[0], 10)); /* it says PONG */
		is_told = client_next(&clients[2], 10);
	}
	assert_true(is_told);
	assert_int_equal(clients[2].message.type, CONTROL_DENY);
	assert_int_equal(clients[2].message.end.cause, CONTROL_DENIED);
	assert_non_null(strstr(clients[2].message.end.text, "a process of another address"));
	assert_null(strstr(clients[2].message.end.text, "node0"));
	assert_true(book_has("rank 0 is held by process "));
	close_all(clients, 3, server);
}

enum { RANKS = 4096 };

static void table_ask(struct client *client, const char *address, const char *table)
{
	struct control_message open = { .type = CONTROL_TABLE_OPEN };

	open.table_open = (struct control_table_open){ .version_min = CONTROL_VERSION,
						       .version_max = CONTROL_VERSION,
						       .ranks = RANKS,
						       .workers = 2,
						       .window = 8,
						       .dim = 1,
						       .bytes = 1400,
						       .host = "ps-0",
						       .job = "ctr" };
	snprintf(open.table_open.table, sizeof(open.table_open.table), "%s", table);
	client_open(client, address);
	client_send(client, &open);
}

/* Nor of the tables of a job that it has heard the name of. */
static void share__of_a_jobs_quota_names_nobody_elses_tables(void **state)
{
	struct sparse_table shape = {
		.ranks = RANKS, .workers = 2, .window = 8, .dim = 1, .bytes = 1400
	};
	struct server *server = test_server((struct server_options){
		.tables_memory = 2 * engine_sparse_table_bytes(&shape) + 100 });
	struct client clients[4];
	char address[32];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	table_ask(&clients[0], address, "secret");
	client_expect(&clients[0], CONTROL_TABLE_GRANT, NEWS_MS);
	from_host = 2;
	table_ask(&clients[1], address, "mine");
	client_expect(&clients[1], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[2], address, "more");
	assert_denied(&clients[2], ": table \"mine\" of job \"ctr\" (server on ps-0");
	assert_null(strstr(clients[2].message.end.text, "secret"));
	from_host = 3;
	table_ask(&clients[3], address, "stranger");
	assert_denied(&clients[3], ": 2 tables of other addresses");
	assert_null(strstr(clients[3].message.end.text, "ps-0"));
	close_all(clients, 4, server);
}

static void share__of_tables_leaves_some_for_others(void **state)
{
	struct server *server = test_server((struct server_options){ .tables_max = 10 });
	struct client clients[7];
	char address[32], table[16];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	for (int i = 0; i < 6; i++) {
		name(table, "t", i);
		table_ask(&clients[i], address, table);
		if (i < 5)
			client_expect(&clients[i], CONTROL_TABLE_GRANT, NEWS_MS);
	}
	assert_denied(&clients[5], "your address has 5 of the aggregator's tables");
	from_host = 2;
	table_ask(&clients[6], address, "t9");
	client_expect(&clients[6], CONTROL_TABLE_GRANT, NEWS_MS);
	close_all(clients, 7, server);
}

/* A fence has an old table and a new one. Its address may have one more for that, and not one more for each. */
static void share__of_tables_is_no_more_for_one_name(void **state)
{
	struct server *server = test_server((struct server_options){ .tables_max = 10 });
	struct client clients[8];
	char address[32], table[16];

	(void)state;
	tcp_address(server, address);
	from_host = 1;
	for (int i = 0; i < 5; i++) {
		name(table, "t", i);
		table_ask(&clients[i], address, table);
		client_expect(&clients[i], CONTROL_TABLE_GRANT, NEWS_MS);
	}
	table_ask(&clients[5], address, "t3");
	client_expect(&clients[5], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[6], address, "t3");
	assert_denied(&clients[6], "your address has 6 of the aggregator's tables");
	from_host = 2;
	table_ask(&clients[7], address, "t3");
	client_expect(&clients[7], CONTROL_TABLE_GRANT, NEWS_MS);
	close_all(clients, 8, server);
}

/* A fence asks for a table again while the old one is still there. */
static void share__of_memory_leaves_some_for_others(void **state)
{
	struct sparse_table shape = {
		.ranks = RANKS, .workers = 2, .window = 8, .dim = 1, .bytes = 1400
	};
	uint64_t one = engine_sparse_table_bytes(&shape);
	struct server *server = test_server(
		(struct server_options){ .memory_max = 1 << 14, .memory_total = 6 * one + 100 });
	struct client clients[8];
	char address[32];

	(void)state;
	tcp_address(server, address);
	assert_true(4 * (1 << 14) < one); /* a few jobs' memory is less */
	from_host = 1;
	table_ask(&clients[0], address, "a");
	client_expect(&clients[0], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[1], address, "b");
	client_expect(&clients[1], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[2], address, "c");
	client_expect(&clients[2], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[3], address, "d");
	assert_denied(&clients[3], "(--share 50, --memory-total)");
	table_ask(&clients[4], address, "b");
	client_expect(&clients[4], CONTROL_TABLE_GRANT, NEWS_MS);
	from_host = 2;
	table_ask(&clients[5], address, "e");
	client_expect(&clients[5], CONTROL_TABLE_GRANT, NEWS_MS);
	table_ask(&clients[6], address, "f");
	assert_denied(&clients[6], "(--share 50, --memory-total)");
	assert_null(strstr(clients[6].message.end.text, "\"a\""));
	close_all(clients, 7, server);
}

static void share__memory_follows_the_hosts(void **state)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct server *server = test_server((struct server_options){ .jobs_max = 1024 });
	const char *at = strstr(book.text, "slots and tables may take ");

	(void)state;
	if (bytes / 2 >= 128ull << 30) { /* all that these jobs may have fits */
		server_close(server);
		SKIP_NOT_HERE("a host of less than 256 GiB");
	}
	assert_non_null(at);
	assert_true(strtoull(at + 26, NULL, 10) <= bytes / 2 >> 20);
	assert_true(strtoull(at + 26, NULL, 10) >= 16);
	server_close(server);
}

/* ---- descriptors ---- */

enum { FLOOD = 300, LEFT = 40, CHILD_S = 120, ADDRESS_BYTES = 32 };

/* Silent connections from 127.0.0.9, each at once again when it is closed. */
static void flood(uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(port) };
	struct pollfd fds[FLOOD];

	from_host = 9;
	for (int i = 0; i < FLOOD; i++)
		fds[i].fd = -1;
	for (;;) {
		for (int i = 0; i < FLOOD; i++) {
			if (fds[i].fd >= 0 && !(fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
				continue;
			if (fds[i].fd >= 0)
				close(fds[i].fd);
			fds[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
			fds[i].events = POLLIN;
			connect(fds[i].fd, (struct sockaddr *)&to, sizeof(to));
		}
		poll(fds, FLOOD, 20);
	}
}

/* In a process of its own, for here there are no descriptors left. */
static int child_joins(const char *address, const struct rlimit *files)
{
	struct client client;
	bool is_in;

	setrlimit(RLIMIT_NOFILE, files);
	from_host = 1;
	client_open(&client, address);
	client_join(&client, "work", 0, 1);
	is_in = client_next(&client, LONG_MS) && client.message.type == CONTROL_GRANT;
	return is_in ? 0 : 1;
}

static pid_t fork_bound(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* of the thread that is this test */
	return pid;
}

/* If it can: some are refused, and close before they have said anything. Nothing is asserted, for a process that was forked
 * must not go on with the tests. */
static void try_join(struct client *client, const struct conn_address *to, const char *job,
		     uint16_t rank)
{
	struct control_message join = { .type = CONTROL_JOIN,
					.join = { .kind = CONTROL_WORKER,
						  .version_min = CONTROL_VERSION,
						  .version_max = CONTROL_VERSION,
						  .size = LEFT,
						  .rank = rank,
						  .workers = 1,
						  .mtu = 1500 } };
	enum conn_result result = CONN_NONE;

	snprintf(join.join.job, sizeof(join.join.job), "%s", job);
	snprintf(join.join.host, sizeof(join.join.host), "node%u", rank);
	if (conn_connect(&client->conn, to, now_ns(), 2000000000))
		return;
	for (int i = 0; i < 100 && result == CONN_NONE; i++) {
		struct pollfd wait = { .fd = conn_fd(client->conn), .events = POLLOUT };

		poll(&wait, 1, 20);
		result = conn_read(client->conn, now_ns(), &client->codec, &client->message);
	}
	if (result == CONN_CONNECTED)
		(void)conn_send(client->conn, &client->codec, &join);
}

/* Ranks of four jobs that never come to be complete, more of them than there are descriptors; and stays. */
static void fill(const char *address, const struct rlimit *files, int ready)
{
	static struct client clients[2 * LEFT];
	struct conn_address to;
	char job[16];

	setrlimit(RLIMIT_NOFILE, files);
	from_host = 9;
	if (conn_resolve(address, 0, &to))
		_exit(1);
	for (int i = 0; i < 2 * LEFT; i++) {
		name(job, "a", i / (LEFT / 2));
		try_join(&clients[i], &to, job, (uint16_t)(i % (LEFT / 2)));
	}
	if (write(ready, "", 1) == 1)
		pause();
	_exit(1);
}

/* In a child that was forked before there were threads: of a process that has some it may find a lock held for ever. */
static void await(int go, char address[ADDRESS_BYTES])
{
	alarm(CHILD_S);
	if (read(go, address, ADDRESS_BYTES) != ADDRESS_BYTES)
		_exit(1);
}

/* What one address may have of connections follows the limit of open files. */
static void share__of_descriptors_leaves_some_for_others(void **state)
{
	char address[ADDRESS_BYTES] = { 0 }, byte;
	int highest, status = 0, ready[2], go[2][2];
	struct rlimit files, few;
	struct server *server;
	pid_t filler, member;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &files);
	assert_int_equal(pipe(ready) | pipe(go[0]) | pipe(go[1]), 0);
	filler = fork_bound();
	if (!filler) {
		await(go[0][0], address);
		fill(address, &files, ready[1]);
	}
	member = fork_bound();
	if (!member) {
		await(go[1][0], address);
		_exit(child_joins(address, &files));
	}
	close(ready[1]); /* a filler that has ended is no wait */
	server = test_server((struct server_options){ .lanes_max = LANES });
	tcp_address(server, address);
	highest = dup(0);
	few = files;
	few.rlim_cur = (rlim_t)highest + LEFT;
	setrlimit(RLIMIT_NOFILE, &few);
	close(highest);
	assert_int_equal(write(go[0][1], address, ADDRESS_BYTES), ADDRESS_BYTES);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(write(go[1][1], address, ADDRESS_BYTES), ADDRESS_BYTES);
	waitpid(member, &status, 0);
	kill(filler, SIGKILL);
	waitpid(filler, NULL, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	assert_int_equal(status, 0);
	assert_true(book_has("leaves room for "));
	close(ready[0]);
	for (int i = 0; i < 2; i++) {
		close(go[i][0]);
		close(go[i][1]);
	}
	server_close(server);
}

static void share__of_descriptors_lets_members_in(void **state)
{
	char address[ADDRESS_BYTES] = { 0 };
	int highest, status = 0, go[2];
	struct rlimit files, few;
	struct server *server;
	pid_t flooder, member;
	uint64_t begin_ns;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &files);
	assert_int_equal(pipe(go), 0);
	member = fork_bound();
	if (!member) {
		await(go[0], address);
		_exit(child_joins(address, &files));
	}
	server = test_server((struct server_options){ .lanes_max = LANES });
	tcp_address(server, address);
	highest = dup(0);
	few = files;
	few.rlim_cur = (rlim_t)highest + LEFT;
	setrlimit(RLIMIT_NOFILE, &few);
	close(highest);
	flooder = fork_bound();
	if (!flooder && !setrlimit(RLIMIT_NOFILE, &files))
		flood(server_port(server));
	usleep(1500000);
	begin_ns = now_ns();
	assert_int_equal(write(go[1], address, ADDRESS_BYTES), ADDRESS_BYTES);
	waitpid(member, &status, 0);
	kill(flooder, SIGKILL);
	waitpid(flooder, NULL, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	assert_int_equal(status, 0);
	print_message("in after %d ms\n", (int)((now_ns() - begin_ns) / 1000000));
	assert_true(now_ns() - begin_ns < 2000000000);
	close(go[0]);
	close(go[1]);
	server_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share__of_jobs_leaves_some_for_others),
		cmocka_unit_test(share__of_jobs_counts_names_that_are_taken_again),
		cmocka_unit_test(share__a_name_taken_again_is_charged_to_who_takes_it),
		cmocka_unit_test(share__a_job_is_charged_to_who_is_left_in_it),
		cmocka_unit_test(share__of_100_is_all),
		cmocka_unit_test(share__refusals_name_nobody_elses_jobs),
		cmocka_unit_test(share__a_claim_from_elsewhere_hears_no_host_of_a_running_job),
		cmocka_unit_test(share__of_a_jobs_quota_names_nobody_elses_tables),
		cmocka_unit_test(share__of_tables_leaves_some_for_others),
		cmocka_unit_test(share__of_tables_is_no_more_for_one_name),
		cmocka_unit_test(share__of_memory_leaves_some_for_others),
		cmocka_unit_test(share__memory_follows_the_hosts),
		cmocka_unit_test(share__of_descriptors_leaves_some_for_others),
		cmocka_unit_test(share__of_descriptors_lets_members_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
