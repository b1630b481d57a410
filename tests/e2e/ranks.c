/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h. */
#include "ranks.h"

#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "server/server.h"
#include "still.h"

enum { RANK_LIMIT_S = 40 }; /* if the test does not say */

static uint32_t self;

uint32_t ranks_self(void)
{
	return self;
}

double ranks_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const char *ranks_host(void)
{
	static char host[65];

	gethostname(host, sizeof(host) - 1);
	return host;
}

int ranks_family(void)
{
	const char *given = getenv("RANKS_FAMILY");

	return given && !strcmp(given, "6") ? 6 : 4;
}

const char *ranks_loopback(void)
{
	return ranks_family() == 6 ? "[::1]" : "127.0.0.1";
}

bool ranks_lack_family(void)
{
	const struct sockaddr_in6 loopback = { .sin6_family = AF_INET6,
					       .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool has_v6 = fd >= 0 && !bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback));

	if (fd >= 0)
		close(fd);
	if (ranks_family() == 4 || has_v6)
		return false;
	printf("SKIP: this host has no ::1\n");
	return true;
}

static void server_says(void *arg, enum server_level level, const struct server_about *about,
			const char *line)
{
	struct ranks_shared *shared = arg;

	(void)about;
	if (level <= SERVER_WARN || getenv("RANKS_VERBOSE"))
		fprintf(stderr, "aggregator: %s\n", line);
	if (level > SERVER_WARN || !shared)
		return;
	snprintf(shared->warning, sizeof(shared->warning), "%s", line);
	__atomic_fetch_add(&shared->warnings, 1, __ATOMIC_SEQ_CST);
}

uint32_t ranks_warnings(const struct ranks *ranks)
{
	return __atomic_load_n(&ranks->shared->warnings, __ATOMIC_SEQ_CST);
}

/* A process that dies with its parent. */
static pid_t fork_bound(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static struct server *aggregator;

static void aggregator_end(int signal_number)
{
	(void)signal_number;
	server_stop(aggregator);
}

static void aggregator_main(const struct ranks *ranks, uint16_t port, int port_fd)
{
	struct server_options options = {
		.listen = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 } },
		.is_v6 = ranks->is_v6,
		.shards = ranks->shards,
		.lanes_max = ranks->lanes_max,
		.run = ranks->run,
		.jobs_max = ranks->jobs_max,
		.slots = ranks->slots,
		.memory_total = ranks->memory_total,
		.heartbeat_ms = ranks->heartbeat_ms,
		.key = ranks->key,
		.log = server_says,
		.log_arg = ranks->shared,
	};
	int result;

	if (ranks->is_v6)
		memcpy(options.listen.ip, (uint8_t[16]){ [15] = 1 }, 16);
	options.listen.port = port;
	result = server_open(&aggregator, &options);
	if (result)
		_exit(3);
	signal(SIGTERM, aggregator_end);
	port = server_port(aggregator);
	if (write(port_fd, &port, sizeof(port)) != sizeof(port))
		_exit(3);
	result = server_run(aggregator);
	server_close(aggregator);
	exit(result ? 3 : 0);
}

uint16_t ranks_aggregator(const struct ranks *ranks, uint16_t port, pid_t *pid)
{
	int fds[2];

	if (pipe(fds))
		return 0;
	fflush(NULL);
	*pid = fork_bound();
	if (*pid == 0) {
		close(fds[0]);
		aggregator_main(ranks, port, fds[1]);
	}
	close(fds[1]);
	if (read(fds[0], &port, sizeof(port)) != sizeof(port))
		port = 0;
	close(fds[0]);
	return port;
}

static bool aggregators_start(struct ranks *ranks)
{
	uint32_t count = ranks->aggregators ? ranks->aggregators : 1;
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint16_t port =
			ranks_aggregator(ranks, i ? 0 : ranks->port, &ranks->aggregator_pids[i]);

		if (!port)
			return false;
		used += (size_t)snprintf(ranks->aggregator + used, sizeof(ranks->aggregator) - used,
					 ranks->is_v6 ? "%s[::1]:%u" : "%s127.0.0.1:%u",
					 i ? "," : "", port);
	}
	ranks->aggregator_pid = ranks->aggregator_pids[0];
	return true;
}

static void rank_main(struct ranks *ranks, uint32_t rank)
{
	self = rank;
	alarm(ranks->limit_s ? ranks->limit_s : RANK_LIMIT_S);
	ranks->body(ranks, rank);
	exit(0);
}

static bool rank_wait(const struct ranks *ranks, uint32_t rank)
{
	int status = 0;

	waitpid(ranks->pid[rank], &status, 0);
	if (ranks->is_killed[rank])
		return WIFSIGNALED(status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	fprintf(stderr, "rank %u: exit %d, signal %d\n", rank,
		WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return false;
}

bool ranks_start(struct ranks *ranks)
{
	static unsigned runs;

	ranks->is_v6 |= ranks_family() == 6 && !ranks->is_behind_proxy;
	ranks->shared = mmap(NULL, sizeof(*ranks->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(ranks->job, sizeof(ranks->job), "test-%ld-%u", (long)getpid(), ++runs);
	fflush(NULL);
	ranks->still_pid = still_watch(&ranks->shared->still_s);
	if (ranks->is_local)
		strcpy(ranks->aggregator, "local");
	else if (!ranks->aggregator[0] && !aggregators_start(ranks))
		return false;
	for (uint32_t rank = 0; rank < ranks->size; rank++) {
		ranks->pid[rank] = fork_bound();
		if (ranks->pid[rank] == 0)
			rank_main(ranks, rank);
	}
	return true;
}

bool ranks_end(struct ranks *ranks)
{
	bool is_good = true;
	int status;

	for (uint32_t rank = 0; rank < ranks->size; rank++)
		is_good &= rank_wait(ranks, rank);
	for (uint32_t i = 0; i < RANKS_AGGREGATORS_MAX; i++) {
		if (!ranks->aggregator_pids[i])
			continue;
		kill(ranks->aggregator_pids[i], SIGTERM);
		waitpid(ranks->aggregator_pids[i], &status, 0);
	}
	kill(ranks->still_pid, SIGKILL);
	waitpid(ranks->still_pid, &status, 0);
	return is_good;
}

bool ranks_run(struct ranks *ranks)
{
	return ranks_start(ranks) && ranks_end(ranks);
}

static bool report_is_good(const struct ranks *ranks, uint32_t rank, int result, double within_s,
			   const char *const words[RANKS_WORDS_MAX])
{
	const struct ranks_report *report = &ranks->shared->report[rank];
	double after_s = report->at_s - ranks->shared->event_s;

	if (report->result != result) {
		fprintf(stderr, "rank %u: %s, not %s: %s\n", rank, tally_strerror(report->result),
			tally_strerror(result), report->text);
		return false;
	}
	if (after_s > within_s + ranks->shared->still_s) {
		fprintf(stderr, "rank %u: %.3f s after the event: %s\n", rank, after_s,
			report->text);
		return false;
	}
	for (int i = 0; i < RANKS_WORDS_MAX && words[i]; i++) {
		if (!strstr(report->text, words[i])) {
			fprintf(stderr, "rank %u does not say \"%s\": %s\n", rank, words[i],
				report->text);
			return false;
		}
	}
	return true;
}

bool ranks_have_reported(const struct ranks *ranks, int result, double within_s,
			 const char *const words[RANKS_WORDS_MAX])
{
	bool is_good = true;

	for (uint32_t rank = 0; rank < ranks->size; rank++)
		if (!ranks->is_killed[rank])
			is_good &= report_is_good(ranks, rank, result, within_s, words);
	return is_good;
}

struct tally_comm *ranks_join(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 20;
	CHECK(tally_comm_init(&comm, ranks->job, ranks->size, rank, &options) == TALLY_OK);
	return comm;
}

static int32_t input(uint32_t rank, uint32_t i, uint32_t seed)
{
	uint32_t x = (rank + 1) * 0x9e3779b9u ^ i * 0x85ebca6bu ^ seed * 0xc2b2ae35u;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return (int32_t)(x ^ x >> 13) / RANKS_MAX;
}

int ranks_sum(struct tally_comm *comm, uint32_t seed)
{
	enum { COUNT = 1000 };
	uint32_t size = tally_comm_size(comm), rank = tally_comm_rank(comm);
	int32_t x[COUNT];
	int result;

	for (uint32_t i = 0; i < COUNT; i++)
		x[i] = input(rank, i, seed);
	result = tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm);
	for (uint32_t i = 0; i < COUNT && !result; i++) {
		int64_t sum = 0;

		for (uint32_t r = 0; r < size; r++)
			sum += input(r, i, seed);
		CHECK(x[i] == sum);
	}
	return result;
}

void ranks_leave(struct tally_comm *comm)
{
	CHECK(tally_comm_finalize(comm) == TALLY_OK);
	tally_comm_destroy(comm);
}

void ranks_report(struct ranks *ranks, uint32_t rank, struct tally_comm *comm, int result)
{
	struct ranks_report *report = &ranks->shared->report[rank];

	report->at_s = ranks_now_s();
	report->result = result;
	snprintf(report->text, sizeof(report->text), "%s", tally_get_last_error(comm));
	__atomic_store_n(&report->has_come, true, __ATOMIC_SEQ_CST);
}

void ranks_meet(struct ranks *ranks)
{
	uint32_t *arrived = &ranks->shared->arrived;
	uint32_t mine = __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
	uint32_t all = (mine / ranks->size + 1) * ranks->size;

	while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < all)
		usleep(500);
}

bool ranks_have_met(const struct ranks *ranks, uint32_t times)
{
	double until_s = ranks_now_s() + 20;
	bool have;

	while (!(have = __atomic_load_n(&ranks->shared->arrived, __ATOMIC_SEQ_CST) >=
			times * ranks->size) &&
	       ranks_now_s() < until_s)
		usleep(500);
	return have;
}

void ranks_wait_reports(const struct ranks *ranks, double patience_s)
{
	double until_s = ranks_now_s() + patience_s;

	for (uint32_t rank = 0; rank < ranks->size; rank++)
		while (!ranks->is_killed[rank] && !ranks->shared->report[rank].has_come &&
		       ranks_now_s() < until_s)
			usleep(500);
}
