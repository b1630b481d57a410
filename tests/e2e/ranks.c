/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h. */
#include "ranks.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "server/server.h"

enum { RANK_LIMIT_S = 40 };

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

static void server_says(void *arg, enum server_level level, const char *line)
{
	(void)arg;
	if (level <= SERVER_WARN || getenv("RANKS_VERBOSE"))
		fprintf(stderr, "aggregator: %s\n", line);
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

static void aggregator_main(const struct ranks *ranks, int port_fd)
{
	struct server_options options = {
		.listen = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 } },
		.is_v6 = ranks->is_v6,
		.shards = ranks->shards,
		.lanes_max = ranks->lanes_max,
		.run = ranks->run,
		.log = server_says,
	};
	uint16_t port;
	int result;

	if (ranks->is_v6)
		memcpy(options.listen.ip, (uint8_t[16]){ [15] = 1 }, 16);
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

static bool aggregator_start(struct ranks *ranks)
{
	uint16_t port = 0;
	int fds[2];

	if (pipe(fds))
		return false;
	ranks->aggregator_pid = fork_bound();
	if (ranks->aggregator_pid == 0) {
		close(fds[0]);
		aggregator_main(ranks, fds[1]);
	}
	close(fds[1]);
	if (read(fds[0], &port, sizeof(port)) != sizeof(port))
		port = 0;
	close(fds[0]);
	snprintf(ranks->aggregator, sizeof(ranks->aggregator),
		 ranks->is_v6 ? "[::1]:%u" : "127.0.0.1:%u", port);
	return port != 0;
}

static void rank_main(struct ranks *ranks, uint32_t rank)
{
	self = rank;
	alarm(RANK_LIMIT_S);
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

bool ranks_run(struct ranks *ranks)
{
	static unsigned runs;
	bool is_good = true;
	int status;

	ranks->shared = mmap(NULL, sizeof(*ranks->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(ranks->job, sizeof(ranks->job), "test-%ld-%u", (long)getpid(), ++runs);
	fflush(NULL);
	if (ranks->is_local)
		strcpy(ranks->aggregator, "local");
	else if (!aggregator_start(ranks))
		return false;
	for (uint32_t rank = 0; rank < ranks->size; rank++) {
		ranks->pid[rank] = fork_bound();
		if (ranks->pid[rank] == 0)
			rank_main(ranks, rank);
	}
	for (uint32_t rank = 0; rank < ranks->size; rank++)
		is_good &= rank_wait(ranks, rank);
	if (!ranks->is_local) {
		kill(ranks->aggregator_pid, SIGTERM);
		waitpid(ranks->aggregator_pid, &status, 0);
	}
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
}

void ranks_meet(struct ranks *ranks)
{
	uint32_t *arrived = &ranks->shared->arrived;
	uint32_t mine = __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
	uint32_t all = (mine / ranks->size + 1) * ranks->size;

	while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < all)
		usleep(500);
}
