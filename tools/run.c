/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - tally run: starts the ranks of a job on this machine, passes on what they print and the
 * signals it gets, and ends all when one fails. It signals nothing but the process groups it has made: a
 * rank that has ended is reaped last, so that until then its number is nobody else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/run_output.h"
#include "util/clock.h"
#include "util/commit.h"
#include "util/opt.h"
#include "util/utf8.h"

enum {
	RANKS_MAX = 1024,
	JOB_BYTES_MAX = 200,  /* tally.h */
	LAST_WORDS_MS = 5000, /* from the first failure on, for the others to say what they see */
	TERM_MS = 2000,       /* from SIGTERM to SIGKILL */
	DRAIN_MS = 1000,      /* for pipes that a process outside of our groups keeps open */
	NEVER = -1,
};

static const char help[] =
	"tally run - start the ranks of a job on this machine\n"
	"\n"
	"usage: tally run -n N [OPTION...] [--] COMMAND [ARGUMENT...]\n"
	"\n"
	"  tally run -n 4 -- ./train                          no aggregator needed: rank 0 hosts "
	"it\n"
	"  tally run -n 4 --aggregator 10.0.0.1 -- ./train    the tallyd at 10.0.0.1\n"
	"\n"
	"Every rank runs COMMAND with TALLY_RANK, TALLY_SIZE, TALLY_LOCAL_RANK, TALLY_LOCAL_SIZE "
	"and\n"
	"TALLY_JOB set; tally_comm_init_env reads them. Its output comes line by line with the "
	"rank\n"
	"in front; its input is empty. Signals are passed on; a second SIGINT or SIGTERM kills.\n"
	"\n"
	"  -n, --ranks N        how many ranks, 1 to 1024\n"
	"  --job NAME           the job's name (default: a new one each time)\n"
	"  --aggregator ADDR    sets TALLY_AGGREGATOR: HOST, HOST:PORT, [V6]:PORT or local\n"
	"  --timeline FILE      sets TALLY_TIMELINE: the timeline of every operation, a file per "
	"rank\n"
	"                       for Perfetto; %r in its name is the rank\n"
	"  --no-prefix          output unchanged, for programs that print JSON\n"
	"  --help, --version\n"
	"\n"
	"A rank that fails ends the job: the others have 5 s to report errors, then get SIGTERM "
	"and,\n"
	"2 s later, SIGKILL. Exit status: 0 if that of every rank was 0, else that of the first "
	"rank\n"
	"that failed (128 + N for signal N); 2 wrong command line; 126, 127 COMMAND cannot be "
	"run.\n";

struct rank {
	pid_t pid; /* also its process group; 0: not started */
	bool has_ended;
	bool was_killed; /* by a signal */
	bool is_late;    /* ended by us */
	int status;      /* as a shell says it: 128 + N for signal N */
	struct output output[2];
};

struct job {
	uint32_t size;
	char name[JOB_BYTES_MAX + 1];
	bool is_named;        /* by the user */
	const char *timeline; /* NULL: as the environment says */
	const char *aggregator;
	char **command;
	struct rank rank[RANKS_MAX];
	struct output_style style;
	struct pollfd polls[2 * RANKS_MAX + 1];
	int signal_fd;
	sigset_t mask; /* as we found it */
	uint32_t running;
	int failed_first; /* NEVER, or a rank */
	int64_t term_ms;  /* when to send SIGTERM, SIGKILL; NEVER */
	int64_t kill_ms;
	uint32_t interrupts;
};

/* ---- starting ---- */

static void env_number(const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	setenv(name, text, 1);
}

/* Which name is ours, and which process: a second program under it, `sh -c 'a & b'`, is another one (R-CT-22). */
static void env_run(const struct job *job)
{
	char text[16 + sizeof(job->name)];

	snprintf(text, sizeof(text), "%d:%s", (int)getpid(), job->name);
	if (job->is_named)
		unsetenv("TALLY_RUN");
	else
		setenv("TALLY_RUN", text, 1);
}

/* In the child: what fails here travels as errno through `report`. */
static void child_exec(const struct job *job, uint32_t rank, const int out[2], int report,
		       pid_t runner)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), error;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != runner)
		_exit(EXIT_FAILED); /* the runner died before prctl */
	env_number("TALLY_RANK", rank);
	env_number("TALLY_SIZE", job->size);
	env_number("TALLY_LOCAL_RANK", rank);
	env_number("TALLY_LOCAL_SIZE", job->size);
	setenv("TALLY_JOB", job->name, 1);
	env_run(job);
	if (job->aggregator)
		setenv("TALLY_AGGREGATOR", job->aggregator, 1);
	if (job->timeline)
		setenv("TALLY_TIMELINE", job->timeline, 1);
	if (job->style.is_terminal[1])
		setenv("TALLY_PROGRESS", "1", 1); /* stderr is a pipe, but ends on a terminal */
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out[0], STDOUT_FILENO) >= 0 &&
	    dup2(out[1], STDERR_FILENO) >= 0) {
		sigprocmask(SIG_SETMASK, &job->mask, NULL);
		execvp(job->command[0], job->command);
	}
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_NOT_FOUND);
}

/* Waits until the child runs its command. 0 or its errno. */
static int child_wait(int report)
{
	int error = 0;
	ssize_t got;

	do
		got = read(report, &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof(error) ? error : 0;
}

static void pair_close(const int pair[2])
{
	for (int end = 0; end < 2; end++)
		if (pair[end] >= 0)
			close(pair[end]);
}

/* 0 or an errno. */
static int rank_start(struct job *job, uint32_t number)
{
	struct rank *rank = &job->rank[number];
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, report[2] = { -1, -1 };
	pid_t runner = getpid();
	int error = 0;

	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(report, O_CLOEXEC) ||
	    fcntl(out[0], F_SETFL, O_NONBLOCK) || fcntl(err[0], F_SETFL, O_NONBLOCK)) {
		error = errno;
		goto close_all;
	}
	rank->pid = fork();
	if (rank->pid < 0) {
		error = errno;
		rank->pid = 0;
		goto close_all;
	}
	if (!rank->pid)
		child_exec(job, number, (int[2]){ out[1], err[1] }, report[1], runner);
	setpgid(rank->pid, rank->pid); /* whoever comes first */
	close(report[1]);
	report[1] = -1;
	error = child_wait(report[0]);
	job->running++;
	if (!output_open(&rank->output[0], out[0], number, false) ||
	    !output_open(&rank->output[1], err[0], number, true))
		error = ENOMEM;
	out[0] = err[0] = -1;
close_all:
	pair_close(out);
	pair_close(err);
	pair_close(report);
	return error;
}

static void groups_signal(struct job *job, int signal_number, bool is_for_ended)
{
	for (uint32_t i = 0; i < job->size; i++)
		if (job->rank[i].pid && (is_for_ended || !job->rank[i].has_ended))
			kill(-job->rank[i].pid, signal_number);
}

/* ---- ending ---- */

static void status_text(const struct rank *rank, char text[80])
{
	if (rank->was_killed)
		snprintf(text, 80, "was killed by signal %d (%s)", rank->status - 128,
			 strsignal(rank->status - 128));
	else
		snprintf(text, 80, "exited with status %d", rank->status);
}

/* Whoever has ended since the last look. They stay zombies: their groups' numbers stay ours. */
static void ranks_look(struct job *job)
{
	for (uint32_t i = 0; i < job->size; i++) {
		struct rank *rank = &job->rank[i];
		siginfo_t info = { .si_pid = 0 };
		char text[80];

		if (!rank->pid || rank->has_ended ||
		    waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
		    !info.si_pid)
			continue;
		rank->has_ended = true;
		rank->was_killed = info.si_code != CLD_EXITED;
		rank->status = info.si_status + (rank->was_killed ? 128 : 0);
		rank->is_late = job->term_ms != NEVER && clock_ms() >= job->term_ms;
		job->running--;
		if (!rank->status || job->failed_first != NEVER)
			continue;
		job->failed_first = (int)i;
		job->term_ms = clock_ms() + LAST_WORDS_MS;
		status_text(rank, text);
		output_clear(&job->style);
		fprintf(stderr, "tally run: rank %u (pid %d) %s%s\n", i, (int)rank->pid, text,
			job->running ? "; the others have 5 s to end" : "");
	}
}

static void deadlines_look(struct job *job)
{
	int64_t now = clock_ms();

	if (job->kill_ms != NEVER && now >= job->kill_ms) {
		groups_signal(job, SIGKILL, false);
		job->kill_ms = now + TERM_MS;
	} else if (job->kill_ms == NEVER && job->term_ms != NEVER && now >= job->term_ms) {
		groups_signal(job, SIGTERM, false);
		groups_signal(job, SIGCONT, false); /* a stopped process ends only then */
		job->kill_ms = now + TERM_MS;
	}
}

static void signal_take(struct job *job)
{
	struct signalfd_siginfo info;

	while (read(job->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGCHLD)
			continue; /* ranks_look follows anyway */
		if ((number == SIGINT || number == SIGTERM) && job->interrupts++ >= 1)
			number = SIGKILL;
		groups_signal(job, number, false);
		if (number == SIGTSTP)
			raise(SIGSTOP);
	}
}

static bool has_open_pipe(const struct job *job)
{
	for (uint32_t i = 0; i < 2 * job->size; i++)
		if (job->rank[i / 2].output[i % 2].fd >= 0)
			return true;
	return false;
}

/* Waits for output, signals or `until_ms` (NEVER) and takes what there is. */
static void step(struct job *job, int64_t until_ms)
{
	nfds_t count = 0;
	int64_t wait = until_ms == NEVER ? NEVER : until_ms - clock_ms();

	job->polls[count++] = (struct pollfd){ .fd = job->signal_fd, .events = POLLIN };
	for (uint32_t i = 0; i < 2 * job->size; i++) {
		int fd = job->rank[i / 2].output[i % 2].fd;

		job->polls[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	if (until_ms != NEVER && wait < 0)
		wait = 0;
	if (poll(job->polls, count, (int)wait) <= 0)
		return;
	for (uint32_t i = 0; i < 2 * job->size; i++)
		if (job->polls[i + 1].revents)
			output_read(&job->rank[i / 2].output[i % 2], &job->style);
	if (job->polls[0].revents)
		signal_take(job);
}

/* What else the ranks have started goes with them; then all that was printed, then the reaping. */
static void job_close(struct job *job)
{
	int64_t until_ms = clock_ms() + DRAIN_MS;

	groups_signal(job, SIGKILL, true);
	for (bool is_late = false; has_open_pipe(job) && !is_late;) {
		is_late = clock_ms() >=
			  until_ms; /* what is there by then is passed on all the same */
		step(job, until_ms);
	}
	for (uint32_t i = 0; i < job->size; i++) {
		struct rank *rank = &job->rank[i];

		if (!rank->pid)
			continue;
		for (int k = 0; k < 2; k++)
			output_close(&rank->output[k]);
		waitpid(rank->pid, NULL, 0);
	}
	output_clear(&job->style);
}

/* One line about those that failed after the first. */
static void others_report(const struct job *job)
{
	uint32_t said = 0;

	for (uint32_t i = 0; i < job->size; i++) {
		const struct rank *rank = &job->rank[i];

		if (!rank->status || (int)i == job->failed_first)
			continue;
		if (++said > 16) {
			fprintf(stderr, " ...");
			break;
		}
		fprintf(stderr, "%s rank %u (%s%d%s)", said == 1 ? "tally run: then" : ",", i,
			rank->was_killed ? "signal " : "status ",
			rank->was_killed ? rank->status - 128 : rank->status,
			rank->is_late ? ", ended by us" : "");
	}
	if (said)
		fputc('\n', stderr);
}

/* ---- the command ---- */

/* Blocked for ever: they arrive through a descriptor. */
static bool signals_open(struct job *job)
{
	static const int signals[] = { SIGCHLD, SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
				       SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &job->mask);
	job->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return job->signal_fd >= 0;
}

/* Two jobs of one name on one aggregator would wait for one another. */
static void name_choose(char name[JOB_BYTES_MAX + 1])
{
	char host[65] = "host";
	uint32_t salt = 0;

	gethostname(host, sizeof(host) - 1);
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		salt = (uint32_t)clock_ms();
	snprintf(name, JOB_BYTES_MAX + 1, "run-%s-%d-%08x", utf8_to_word(host), (int)getpid(),
		 salt);
}

static const char *job_take(struct opt_value *value)
{
	struct job *job = value->request;
	bool is_good = *value->text && strlen(value->text) <= JOB_BYTES_MAX;

	for (const char *at = value->text; *at; at++)
		is_good = is_good && *at > 0x20 && *at < 0x7f;
	if (!is_good)
		return "a name has 1 to 200 printable characters and no blanks";
	strcpy(job->name, value->text);
	job->is_named = true;
	return NULL;
}

#define AT(field) OPT_FIELD(struct job, field)
/* clang-format off */
static const struct opt table[] = {
	{ "ranks", OPT_NUMBER, 'n', AT(size), .min = 1, .max = RANKS_MAX },
	{ "job", OPT_CALL, .call = job_take },
	{ "aggregator", OPT_TEXT, AT(aggregator), .takes = "an address" },
	{ "timeline", OPT_TEXT, AT(timeline), .takes = "a file's name" },
	{ "no-prefix", OPT_UNSET, AT(style.has_prefix) },
};
/* clang-format on */
static const struct opt_command command = { .name = "tally run",
					    .help = help,
					    .version = TALLY_VERSION_OF("tally"),
					    .table = table,
					    .count = OPT_COUNT(table),
					    .ends_at_word = true };

/* NEVER: go on; else the exit status. */
static int parse(struct job *job, int argc, char **argv)
{
	struct opt_line line;
	int status;

	name_choose(job->name);
	status = opt_read(&command, job, argc, argv, &line);
	if (status != OPT_GO_ON)
		return status;
	if (!job->size)
		return opt_refuse(command.name, "-n", NULL, "missing: -n N is the number of ranks");
	if (!line.words)
		return opt_refuse(command.name, "COMMAND", NULL,
				  "missing: give the command that the ranks run");
	job->command = line.word;
	return NEVER;
}

static int start_failed(struct job *job, uint32_t rank, int error)
{
	output_clear(&job->style);
	fprintf(stderr, "tally run: rank %u: %s: %s\n", rank, job->command[0], strerror(error));
	groups_signal(job, SIGKILL, true);
	job_close(job);
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}

static int job_run(struct job *job)
{
	for (uint32_t i = 0; i < job->size; i++) {
		int error = rank_start(job, i);

		if (error)
			return start_failed(job, i, error);
	}
	while (job->running) {
		step(job, job->kill_ms != NEVER ? job->kill_ms : job->term_ms);
		ranks_look(job);
		deadlines_look(job);
	}
	job_close(job);
	if (job->failed_first == NEVER)
		return EXIT_DONE;
	others_report(job);
	return job->rank[job->failed_first].status;
}

int run_main(int argc, char **argv)
{
	static struct job job = {
		.failed_first = NEVER,
		.term_ms = NEVER,
		.kill_ms = NEVER,
		.style = { .has_prefix = true },
	};
	int status;

	for (uint32_t i = 0; i < 2 * RANKS_MAX; i++)
		job.rank[i / 2].output[i % 2].fd = -1;
	for (int k = 0; k < 2; k++)
		job.style.is_terminal[k] = isatty(STDOUT_FILENO + k);
	status = parse(&job, argc, argv);
	if (status != NEVER)
		return status;
	job.style.rank_digits = snprintf(NULL, 0, "%u", job.size - 1);
	if (!signals_open(&job)) {
		perror("tally run: signalfd");
		return EXIT_FAILED;
	}
	status = job_run(&job);
	close(job.signal_fd);
	return status;
}
