/* SPDX-License-Identifier: Apache-2.0 */
/* tallyd_options.c - see tallyd_options.h. */
#include "tools/tallyd_options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/daemon.h"

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
	"  --engine soft|kernel   what adds: threads in user space (soft); or, for jobs in latency "
	"mode,\n"
	"                         the kernel, where their packets come in: needs root and "
	"--devices\n"
	"  --devices NAME,...     network devices that workers' packets come in by, ports of a "
	"bridge\n"
	"                         and not the bridge\n"
	"  --lanes N              at most N numbers in a packet: 4..16368, a multiple of 4 (360, "
	"if "
	"the\n"
	"                         members' MTU carries them; more cost float32 their low bits)\n"
	"  --slots N              sums under way per job and shard (704)\n"
	"  --window N             packets that a worker has under way at first (a quarter of the "
	"slots)\n"
	"  --run N                packets in one message to the kernel, 1..64 (44)\n"
	"  --jobs-max N           jobs at the same time (64; at most 1024)\n"
	"  --tables-max N         tables of keys at the same time (256, also the most)\n"
	"  --faithful M           tables of keys as by a chip of M registers, 1..1024: datagrams "
	"of at\n"
	"                         most 192 bytes; counts how often it had recirculated them\n"
	"  --memory SIZE          memory of one job on one shard (64M)\n"
	"  --memory-total SIZE    of all jobs and tables on one shard (what --jobs-max jobs may "
	"take, at\n"
	"                         most half of this host's over all shards)\n"
	"  --share PERCENT        of the jobs, tables, memory and connections that others leave, "
	"what "
	"one\n"
	"                         address may have (50; 100: no limit)\n"
	"  --tables-memory SIZE   of all tables of keys of one job (no limit but the above)\n"
	"  --receive-buffer SIZE  of each shard's socket (16M; more than net.core.rmem_max needs "
	"root)\n"
	"  --heartbeat SECONDS    a member that is silent for so long is dead (10)\n"
	"  --gather-timeout SECONDS  for all members of a job to come (300)\n"
	"  --drain-timeout SECONDS   after SIGTERM, for running jobs to end (30; 0: no limit)\n"
	"  --key-file FILE        members must say what its one line says (TALLY_KEY_FILE); chmod "
	"600\n"
	"  --config FILE          lines of NAME=VALUE, the names of these options without the "
	"dashes;\n"
	"                         the command line wins\n"
	"  --log-level LEVEL      error, warn, info or debug (info)\n"
	"  --log-json             one JSON object a line: time, level, job, rank, text\n"
	"  --help, --version\n"
	"\n"
	"SIGTERM or SIGINT: no new jobs, running ones may end. A second one ends at once.\n"
	"SIGUSR1: says who holds jobs and slots. SIGHUP: reads its files again; key, log-level, "
	"log-json,\n"
	"gather-timeout and drain-timeout may change, the log says what did.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line, FILE of --config or key file;\n"
	"3 running jobs were aborted.\n";

static int refuse(const struct daemon_place *place, const char *name, const char *value,
		  const char *why)
{
	return daemon_refuse("tallyd", place, name, value, why);
}

/* --- values --- */

/* A whole number in [min, max], times `unit`; with is_size, K, M and G may follow. */
struct number {
	const char *name;
	uint64_t min, max, unit;
	size_t at, bytes; /* in struct server_options: a uint32_t or a uint64_t */
	const char *why;
	bool is_size;
	bool is_live; /* SIGHUP may change it */
};

#define AT(field) \
	offsetof(struct server_options, field), sizeof(((struct server_options *)NULL)->field)
/* clang-format off */
static const struct number numbers[] = {
	{ "shards", 1, 64, 1, AT(shards), "a number from 1 to 64", false, false },
	{ "lanes", 4, 16368, 1, AT(lanes_max), "a number from 4 to 16368, a multiple of 4", false, false },
	{ "slots", 8, 32768, 1, AT(slots), "a number from 8 to 32768", false, false },
	{ "window", 1, 32768, 1, AT(window), "a number from 1 to 32768", false, false },
	{ "run", 1, 64, 1, AT(run), "a number from 1 to 64", false, false },
	{ "jobs-max", 1, 1024, 1, AT(jobs_max), "a number from 1 to 1024", false, false },
	{ "share", 1, 100, 1, AT(share), "percent, from 1 to 100", false, false },
	{ "tables-max", 1, 256, 1, AT(tables_max), "a number from 1 to 256", false, false },
	{ "faithful", 1, 1024, 1, AT(registers), "registers: a number from 1 to 1024", false, false },
	{ "memory", 1 << 16, 1ull << 40, 1, AT(memory_max), "a size from 64K to 1024G", true, false },
	{ "memory-total", 1 << 16, 1ull << 44, 1, AT(memory_total), "a size from 64K to 16384G", true, false },
	{ "tables-memory", 1 << 16, 1ull << 44, 1, AT(tables_memory), "a size from 64K to 16384G", true, false },
	{ "receive-buffer", 1 << 16, 1 << 30, 1, AT(receive_bytes), "a size from 64K to 1G", true, false },
	{ "heartbeat", 1, 3600, 1000, AT(heartbeat_ms), "seconds, from 1 to 3600", false, false },
	{ "gather-timeout", 1, 1000000, 1000, AT(gather_ms), "seconds, from 1 to 1000000", false, true },
	{ "drain-timeout", 0, 1000000, 1000, AT(drain_ms), "seconds, from 0 to 1000000", false, true },
};
/* clang-format on */

static int set_number(struct settings *settings, const struct daemon_place *place,
		      const struct number *number, const char *value)
{
	static const char units[] = "KMG";
	char *at = (char *)&settings->server + number->at, *end;
	unsigned long long count;
	uint32_t narrow;

	errno = 0;
	count = strtoull(value, &end, 10);
	if (number->is_size && end != value && *end && strchr(units, *end)) {
		unsigned shift = 10 * (unsigned)(strchr(units, *end) - units + 1);

		if (count > number->max >> shift)
			return refuse(place, number->name, value, number->why);
		count <<= shift;
		end++;
	}
	if (*value < '0' || *value > '9' || *end || errno || count < number->min ||
	    count > number->max)
		return refuse(place, number->name, value, number->why);
	if (!strcmp(number->name, "lanes") && count % 4)
		return refuse(place, number->name, value, number->why);
	count *= number->unit;
	narrow = (uint32_t)count;
	if (number->bytes == sizeof(uint64_t))
		memcpy(at, &(uint64_t){ count }, sizeof(uint64_t));
	else
		memcpy(at, &narrow, sizeof(narrow));
	return 0;
}

static int set_level(struct settings *settings, const struct daemon_place *place, const char *value)
{
	int level = daemon_level(value);

	if (level < 0)
		return refuse(place, "log-level", value, "error, warn, info or debug");
	settings->level = (enum server_level)level;
	return 0;
}

/* A flag has no value, a line of a file 1, 0 or none. */
static int set_json(struct settings *settings, const struct daemon_place *place, const char *value)
{
	settings->is_json = strcmp(value, "0") != 0;
	return !*value || !strcmp(value, "1") || !strcmp(value, "0")
		       ? 0
		       : refuse(place, "log-json", value, "1, 0 or nothing");
}

static int set_key(struct settings *settings, const struct daemon_place *place, const char *path)
{
	settings->server.key = settings->key;
	return daemon_key("tallyd", place, path, settings->key, sizeof(settings->key),
			  settings->warning, sizeof(settings->warning));
}

static int set_text(char text[TALLYD_TEXT_BYTES], const struct daemon_place *place,
		    const char *name, const char *value)
{
	if (strlen(value) >= TALLYD_TEXT_BYTES)
		return refuse(place, name, value, "too long");
	strcpy(text, value);
	return 0;
}

/* One setting of the command line or of the file. */
static int set(void *arg, const struct daemon_place *place, const char *name, const char *value)
{
	struct settings *settings = arg;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(name, numbers[i].name))
			return set_number(settings, place, &numbers[i], value);
	if (!strcmp(name, "log-level"))
		return set_level(settings, place, value);
	if (!strcmp(name, "log-json"))
		return set_json(settings, place, value);
	if (!strcmp(name, "key-file"))
		return set_key(settings, place, value);
	if (!strcmp(name, "engine")) {
		settings->is_kernel = !strcmp(value, "kernel");
		return settings->is_kernel || !strcmp(value, "soft")
			       ? 0
			       : refuse(place, name, value, "soft or kernel");
	}
	if (!strcmp(name, "listen"))
		return set_text(settings->listen, place, name, value);
	if (!strcmp(name, "devices"))
		return set_text(settings->devices, place, name, value);
	return refuse(place, name, value, "no such option");
}

/* --- the command line and the file --- */

/* clang-format off */
static const struct option options[] = {
	{ "help", no_argument, NULL, DAEMON_OPTION_HELP },
	{ "version", no_argument, NULL, DAEMON_OPTION_VERSION },
	{ "config", required_argument, NULL, DAEMON_OPTION_CONFIG },
	{ "log-json", no_argument, NULL, DAEMON_OPTION_SET },
	{ "log-level", required_argument, NULL, DAEMON_OPTION_SET },
	{ "listen", required_argument, NULL, DAEMON_OPTION_SET },
	{ "engine", required_argument, NULL, DAEMON_OPTION_SET },
	{ "devices", required_argument, NULL, DAEMON_OPTION_SET },
	{ "key-file", required_argument, NULL, DAEMON_OPTION_SET },
	{ "shards", required_argument, NULL, DAEMON_OPTION_SET },
	{ "lanes", required_argument, NULL, DAEMON_OPTION_SET },
	{ "slots", required_argument, NULL, DAEMON_OPTION_SET },
	{ "window", required_argument, NULL, DAEMON_OPTION_SET },
	{ "run", required_argument, NULL, DAEMON_OPTION_SET },
	{ "jobs-max", required_argument, NULL, DAEMON_OPTION_SET },
	{ "share", required_argument, NULL, DAEMON_OPTION_SET },
	{ "tables-max", required_argument, NULL, DAEMON_OPTION_SET },
	{ "faithful", required_argument, NULL, DAEMON_OPTION_SET },
	{ "memory", required_argument, NULL, DAEMON_OPTION_SET },
	{ "memory-total", required_argument, NULL, DAEMON_OPTION_SET },
	{ "tables-memory", required_argument, NULL, DAEMON_OPTION_SET },
	{ "receive-buffer", required_argument, NULL, DAEMON_OPTION_SET },
	{ "heartbeat", required_argument, NULL, DAEMON_OPTION_SET },
	{ "gather-timeout", required_argument, NULL, DAEMON_OPTION_SET },
	{ "drain-timeout", required_argument, NULL, DAEMON_OPTION_SET },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */
_Static_assert(sizeof(options) / sizeof(*options) <= DAEMON_OPTIONS_MAX, "each is seen once");

static int listen_parse(struct settings *settings)
{
	static const struct daemon_place here = { NULL, 0 };
	struct server_options *server = &settings->server;
	int result = server_listen_parse(settings->listen, server);

	if (result == -ENOENT)
		return refuse(&here, "listen", settings->listen, "no such host");
	if (result)
		return refuse(&here, "listen", settings->listen,
			      "not ADDR, ADDR:PORT or [ADDR]:PORT");
	if (server->listen.port &&
	    server->listen.port + (server->shards ? server->shards : 1) > 65536)
		return refuse(&here, "listen", settings->listen,
			      "the last shard's port would be above 65535");
	return -1;
}

static int engine_fits(const struct settings *settings)
{
	static const struct daemon_place here = { NULL, 0 };

	if (settings->is_kernel && !*settings->devices)
		return refuse(&here, "engine", "kernel", "needs --devices: where packets come in");
	if (!settings->is_kernel && *settings->devices)
		return refuse(&here, "devices", settings->devices, "only with --engine kernel");
	return -1;
}

int tallyd_options_again(struct settings *settings, int argc, char **argv)
{
	const struct daemon_options it = {
		.name = "tallyd", .help = help, .options = options, .set = set, .settings = settings
	};
	int result = daemon_options_read(&it, argc, argv);

	return result < 0 ? engine_fits(settings) : result;
}

int tallyd_options(struct settings *settings, int argc, char **argv)
{
	int result = tallyd_options_again(settings, argc, argv);

	return result < 0 ? listen_parse(settings) : result;
}

/* --- what has changed --- */

struct change {
	tallyd_options_say *say;
	unsigned count;
};

/* `before` is a copy: it is overwritten if it may change. */
static void change_say(struct change *change, const char *name, const char *before, const char *now,
		       bool is_live)
{
	char line[TALLYD_TEXT_BYTES * 2];

	snprintf(line, sizeof(line),
		 is_live ? "%s: %.300s from now on, %.300s before"
			 : "%s: %.300s needs a restart, it stays %.300s",
		 name, now, before);
	change->say(is_live ? SERVER_INFO : SERVER_WARN, line);
	change->count++;
}

static void change_number(struct change *change, const struct number *number,
			  struct settings *settings, const struct settings *next)
{
	char *at = (char *)&settings->server + number->at, texts[2][32];
	const char *from = (const char *)&next->server + number->at;
	const char *const values[] = { at, from };

	if (!memcmp(at, from, number->bytes))
		return;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t value = 0;
		uint32_t narrow;

		memcpy(&narrow, values[i], sizeof(narrow));
		memcpy(&value, values[i], sizeof(value) == number->bytes ? sizeof(value) : 0);
		value = (number->bytes == sizeof(value) ? value : narrow) / number->unit;
		snprintf(texts[i], sizeof(texts[i]), "%llu", (unsigned long long)value);
		if (!value && number->min) /* nobody can have said so */
			strcpy(texts[i], "the default");
	}
	change_say(change, number->name, texts[0], texts[1], number->is_live);
	if (number->is_live)
		memcpy(at, from, number->bytes);
}

static void change_text(struct change *change, const char *name, const char *before,
			const char *now)
{
	if (strcmp(before, now) != 0)
		change_say(change, name, *before ? before : "(none)", *now ? now : "(none)", false);
}

static void change_key(struct change *change, struct settings *settings,
		       const struct settings *next)
{
	if (!strcmp(settings->key, next->key))
		return;
	change->say(SERVER_INFO, *settings->key
					 ? "key-file: another key from now on, for who joins later"
					 : "key-file: a key from now on, for who joins later");
	change->count++;
	memcpy(settings->key, next->key, sizeof(settings->key));
}

void tallyd_options_change(struct settings *settings, const struct settings *next,
			   tallyd_options_say *say)
{
	struct change change = { .say = say };

	if (settings->is_json != next->is_json)
		change_say(&change, "log-json", settings->is_json ? "1" : "0",
			   next->is_json ? "1" : "0", true);
	settings->is_json = next->is_json;
	if (settings->level != next->level)
		change_say(&change, "log-level", daemon_level_name((int)settings->level),
			   daemon_level_name((int)next->level), true);
	settings->level = next->level;
	change_key(&change, settings, next);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		change_number(&change, &numbers[i], settings, next);
	change_text(&change, "listen", settings->listen, next->listen);
	change_text(&change, "devices", settings->devices, next->devices);
	change_text(&change, "engine", settings->is_kernel ? "kernel" : "soft",
		    next->is_kernel ? "kernel" : "soft");
	if (!change.count)
		say(SERVER_INFO, "files read again: nothing has changed");
}
