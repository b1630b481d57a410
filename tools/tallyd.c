/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallyd.c - the aggregator as a daemon: flags, the configuration file, lines of log and signals around
 * src/server. docs/man/tallyd.8 says what it promises.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "server/server.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_KILLED = 3, LINE_BYTES = 512 };

static const char help[] =
	"tallyd - add vectors up across machines: the aggregator that tally's workers share\n"
	"\n"
	"usage: tallyd [OPTION...]\n"
	"\n"
	"  tallyd                                      all addresses, TCP and UDP port 7171\n"
	"  tallyd --listen 10.0.0.1 --shards 2         one address; UDP ports 7171 and 7172\n"
	"  TALLY_AGGREGATOR=10.0.0.1 torchrun ...      workers need to know no more than that\n"
	"\n"
	"Control is TCP, data are UDP: shard k's port is the TCP port + k. Both must pass "
	"firewalls.\n"
	"\n"
	"  --listen ADDR[:PORT]   where to listen (0.0.0.0:7171; [::] for IPv6; port 0: the "
	"kernel\n"
	"                         chooses, for tests)\n"
	"  --shards N             threads that add, each with a UDP port of its own (1; at most "
	"64)\n"
	"  --engine soft          what adds: threads in user space, the only engine in this "
	"version\n"
	"  --lanes N              at most N numbers in a packet: 4..16368, a multiple of 4 (what "
	"the\n"
	"                         members' MTU carries: 360 at 1500 bytes)\n"
	"  --slots N              sums under way per job and shard (704)\n"
	"  --window N             packets that a worker has under way at first (a quarter of the "
	"slots)\n"
	"  --run N                packets in one message to the kernel, 1..64 (44)\n"
	"  --jobs-max N           jobs at the same time (64; at most 1024)\n"
	"  --memory SIZE          memory of one job on one shard (64M)\n"
	"  --memory-total SIZE    of all jobs on one shard (what --jobs-max of them may take)\n"
	"  --receive-buffer SIZE  of each shard's socket (16M; more than net.core.rmem_max needs "
	"root)\n"
	"  --heartbeat SECONDS    a member that is silent for so long is dead (10)\n"
	"  --gather-timeout SECONDS  for all members of a job to come (300)\n"
	"  --drain-timeout SECONDS   after SIGTERM, for running jobs to end (30; 0: no limit)\n"
	"  --config FILE          lines of NAME=VALUE, the names of these options without the "
	"dashes;\n"
	"                         the command line wins\n"
	"  --log-level LEVEL      error, warn, info or debug (info)\n"
	"  --log-json             one JSON object a line\n"
	"  --help, --version\n"
	"\n"
	"SIGTERM or SIGINT: no new jobs, running ones may end. A second one ends at once.\n"
	"SIGUSR1: says who holds jobs and slots.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line; 3 running jobs were aborted.\n";

struct settings {
	struct server_options server;
	enum server_level level;
	bool is_json;
	char listen[LINE_BYTES];
};

static struct settings settings = {
	.server = { .drain_ms = 30000 },
	.level = SERVER_INFO,
	.listen = "0.0.0.0",
};

static struct server *running; /* for the signal handler */
static volatile sig_atomic_t signals_seen;

/* --- log: to stderr and nowhere else --- */

static void log_json(const char *level, const char *line)
{
	struct timespec now;
	json_t *object;

	clock_gettime(CLOCK_REALTIME, &now);
	object = json_pack("{s:f, s:s, s:s}", "time",
			   (double)now.tv_sec + (double)now.tv_nsec / 1e9, "level", level, "text",
			   line);
	if (!object) /* cut inside of a character */
		object = json_pack("{s:s, s:s}", "level", level, "text", "(unprintable)");
	if (object)
		json_dumpf(object, stderr, JSON_COMPACT);
	fputc('\n', stderr);
	json_decref(object);
}

static void log_line(void *arg, enum server_level level, const char *line)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	(void)arg;
	if (level > settings.level)
		return;
	if (settings.is_json)
		log_json(names[level], line);
	else
		fprintf(stderr, "tallyd: %s: %s\n", names[level], line);
}

/* --- options --- */

static int usage(const char *name, const char *value, const char *why)
{
	fprintf(stderr, "tallyd: --%s %s: %s (tallyd --help)\n", name, value, why);
	return EXIT_USAGE;
}

/* A whole number in [min, max], times `unit`; with is_size, K, M and G may follow. */
struct number {
	const char *name;
	uint64_t min, max, unit;
	uint32_t *to32;
	uint64_t *to64;
	const char *why;
	bool is_size;
};

/* clang-format off */
static const struct number numbers[] = {
	{ "shards", 1, 64, 1, &settings.server.shards, NULL, "a number from 1 to 64", false },
	{ "lanes", 4, 16368, 1, &settings.server.lanes_max, NULL,
	  "a number from 4 to 16368, a multiple of 4", false },
	{ "slots", 8, 32768, 1, &settings.server.slots, NULL, "a number from 8 to 32768", false },
	{ "window", 1, 32768, 1, &settings.server.window, NULL, "a number from 1 to 32768", false },
	{ "run", 1, 64, 1, &settings.server.run, NULL, "a number from 1 to 64", false },
	{ "jobs-max", 1, 1024, 1, &settings.server.jobs_max, NULL, "a number from 1 to 1024", false },
	{ "memory", 1 << 16, 1ull << 40, 1, NULL, &settings.server.memory_max,
	  "a size from 64K to 1024G", true },
	{ "memory-total", 1 << 16, 1ull << 44, 1, NULL, &settings.server.memory_total,
	  "a size from 64K to 16384G", true },
	{ "receive-buffer", 1 << 16, 1 << 30, 1, &settings.server.receive_bytes, NULL,
	  "a size from 64K to 1G", true },
	{ "heartbeat", 1, 3600, 1000, &settings.server.heartbeat_ms, NULL,
	  "seconds, from 1 to 3600", false },
	{ "gather-timeout", 1, 1000000, 1000, &settings.server.gather_ms, NULL,
	  "seconds, from 1 to 1000000", false },
	{ "drain-timeout", 0, 1000000, 1000, &settings.server.drain_ms, NULL,
	  "seconds, from 0 to 1000000", false },
};
/* clang-format on */

static int set_number(const struct number *number, const char *value)
{
	static const char units[] = "KMG";
	unsigned long long count;
	char *end;

	errno = 0;
	count = strtoull(value, &end, 10);
	if (number->is_size && end != value && *end && strchr(units, *end)) {
		unsigned shift = 10 * (unsigned)(strchr(units, *end) - units + 1);

		if (count > number->max >> shift)
			return usage(number->name, value, number->why);
		count <<= shift;
		end++;
	}
	if (*value < '0' || *value > '9' || *end || errno || count < number->min ||
	    count > number->max)
		return usage(number->name, value, number->why);
	if (!strcmp(number->name, "lanes") && count % 4)
		return usage(number->name, value, number->why);
	if (number->to32)
		*number->to32 = (uint32_t)(count * number->unit);
	else
		*number->to64 = count * number->unit;
	return 0;
}

static int set_level(const char *value)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	for (unsigned level = 0; level <= SERVER_DEBUG; level++) {
		if (!strcmp(value, names[level])) {
			settings.level = (enum server_level)level;
			return 0;
		}
	}
	return usage("log-level", value, "error, warn, info or debug");
}

/* One setting of the command line or of the file. */
static int set(const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(name, numbers[i].name))
			return set_number(&numbers[i], value);
	if (!strcmp(name, "log-level"))
		return set_level(value);
	if (!strcmp(name, "log-json")) {
		settings.is_json = true;
		return 0;
	}
	if (!strcmp(name, "engine"))
		return strcmp(value, "soft") ? usage(name, value, "this version has only soft") : 0;
	if (!strcmp(name, "listen")) {
		if (strlen(value) >= sizeof(settings.listen))
			return usage(name, value, "too long");
		strcpy(settings.listen, value);
		return 0;
	}
	return usage(name, value, "no such option");
}

static char *trim(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length && strchr(" \t\r\n", text[length - 1]))
		text[--length] = 0;
	return text;
}

static int read_config(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[LINE_BYTES];
	int result = 0;

	if (!file)
		return usage("config", path, strerror(errno));
	for (unsigned number = 1; !result && fgets(line, sizeof(line), file); number++) {
		char *name = trim(line), *value = strchr(name, '=');

		if (!*name || *name == '#')
			continue;
		if (!value) {
			fprintf(stderr, "tallyd: %s:%u: %s: not NAME=VALUE\n", path, number, name);
			result = EXIT_USAGE;
			break;
		}
		*value++ = 0;
		result = set(trim(name), trim(value));
		if (result)
			fprintf(stderr, "tallyd: that was %s:%u\n", path, number);
	}
	fclose(file);
	return result;
}

enum { OPT_HELP = 1, OPT_VERSION, OPT_CONFIG, OPT_SET };

/* clang-format off */
static const struct option options[] = {
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "log-json", no_argument, NULL, OPT_SET },
	{ "log-level", required_argument, NULL, OPT_SET },
	{ "listen", required_argument, NULL, OPT_SET },
	{ "engine", required_argument, NULL, OPT_SET },
	{ "shards", required_argument, NULL, OPT_SET },
	{ "lanes", required_argument, NULL, OPT_SET },
	{ "slots", required_argument, NULL, OPT_SET },
	{ "window", required_argument, NULL, OPT_SET },
	{ "run", required_argument, NULL, OPT_SET },
	{ "jobs-max", required_argument, NULL, OPT_SET },
	{ "memory", required_argument, NULL, OPT_SET },
	{ "memory-total", required_argument, NULL, OPT_SET },
	{ "receive-buffer", required_argument, NULL, OPT_SET },
	{ "heartbeat", required_argument, NULL, OPT_SET },
	{ "gather-timeout", required_argument, NULL, OPT_SET },
	{ "drain-timeout", required_argument, NULL, OPT_SET },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

/* Twice over the command line: files first, so that flags win wherever they stand. -1: go on. */
static int parse(int argc, char **argv, bool is_for_config)
{
	int index = 0, option, result = 0;

	optind = 1;
	opterr = is_for_config; /* complain once, getopt names the flag */
	while (!result && (option = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (option == '?') {
			fprintf(stderr, "tallyd --help says which there are\n");
			return EXIT_USAGE;
		}
		if (option == OPT_HELP || option == OPT_VERSION) {
			fputs(option == OPT_HELP ? help : "tallyd " TALLY_VERSION "\n", stdout);
			return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
		}
		if (is_for_config && option == OPT_CONFIG)
			result = read_config(optarg);
		else if (!is_for_config && option == OPT_SET)
			result = set(options[index].name, optarg ? optarg : "");
	}
	if (result)
		return result;
	if (optind < argc) {
		fprintf(stderr, "tallyd: %s: not an option (tallyd --help)\n", argv[optind]);
		return EXIT_USAGE;
	}
	return -1;
}

static int parse_listen(void)
{
	struct server_options *server = &settings.server;
	int result = server_listen_parse(settings.listen, server);

	if (result == -ENOENT)
		return usage("listen", settings.listen, "no such host");
	if (result)
		return usage("listen", settings.listen, "not ADDR, ADDR:PORT or [ADDR]:PORT");
	if (server->listen.port &&
	    server->listen.port + (server->shards ? server->shards : 1) > 65536)
		return usage("listen", settings.listen,
			     "the last shard's port would be above 65535");
	return -1;
}

/* --- life --- */

static void on_signal(int signal_number)
{
	(void)signal_number;
	if (signals_seen++)
		server_stop(running);
	else
		server_drain(running);
}

static void on_question(int signal_number)
{
	(void)signal_number;
	server_report(running);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGTERM);
	sigaddset(&action.sa_mask, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = on_question;
	sigaction(SIGUSR1, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Whoever starts us without a stderr must not find our lines in one of our sockets. */
static void fill_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* A connection is a descriptor: as many as we are allowed to. */
static void raise_limits(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static void say_ready(const struct server *server)
{
	uint32_t shards = settings.server.shards ? settings.server.shards : 1;
	char address[SERVER_TEXT_BYTES], line[LINE_BYTES];

	snprintf(line, sizeof(line), "ready on %s, %u shard%s", server_address(server, address),
		 shards, shards == 1 ? "" : "s");
	if (settings.is_json) /* whatever the level: scripts wait for it */
		log_json("info", line);
	else
		fprintf(stderr, "tallyd: %s\n", line);
}

int main(int argc, char **argv)
{
	int result;

	fill_standard();
	result = parse(argc, argv, true);

	if (result < 0)
		result = parse(argc, argv, false);
	if (result < 0)
		result = parse_listen();
	if (result >= 0)
		return result;
	setvbuf(stderr, NULL, _IOLBF, 0); /* a line is one write */
	raise_limits();
	settings.server.log = log_line;
	if (server_open(&running, &settings.server))
		return EXIT_FAILED;
	catch_signals();
	say_ready(running);
	result = server_run(running);
	/* No handler may reach a server that is being freed. */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGUSR1, SIG_IGN);
	server_close(running);
	if (result < 0)
		return EXIT_FAILED;
	return result ? EXIT_KILLED : EXIT_DONE;
}
