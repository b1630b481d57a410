/* SPDX-License-Identifier: Apache-2.0 */
/* tallyd_options.c - see tallyd_options.h. */
#include "tools/tallyd_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/daemon.h"
#include "util/commit.h"
#include "util/opt.h"

static const char help[] =
	"tallyd - sum vectors across machines: the aggregator that tally's workers share\n"
	"\n"
	"usage: tallyd [OPTION...]\n"
	"\n"
	"  tallyd                                      all addresses, TCP and UDP port 7171\n"
	"  tallyd --listen 10.0.0.1 --shards 2         one address; UDP ports 7171 and 7172\n"
	"  TALLY_AGGREGATOR=10.0.0.1 torchrun ...      workers need only this variable\n"
	"\n"
	"Control is TCP, data are UDP: shard k's port is the TCP port + k. Both must pass "
	"firewalls.\n"
	"\n"
	"  --listen ADDR[:PORT]   where to listen (0.0.0.0:7171; [::] for IPv6; port 0: the "
	"kernel\n"
	"                         chooses, for tests)\n"
	"  --shards N             threads that sum, each with its own UDP port (1; at most 64)\n"
	"  --engine soft|kernel|p4  what sums: threads in user space (soft); the kernel, for jobs "
	"in\n"
	"                         latency mode (needs root and --devices); or a P4 switch, bmv2 "
	"with\n"
	"                         src/p4/dense.p4 (needs --switch and --listen)\n"
	"  --devices NAME,...     network devices on which workers' packets come in; for a bridge, "
	"its\n"
	"                         ports\n"
	"  --switch ADDR[:PORT]   the P4 switch's control: simple_switch's Thrift port (9090)\n"
	"  --lanes N              at most N numbers in a packet: 4..16368, a multiple of 4 (360, "
	"or\n"
	"                         fewer by the members' MTU; with more, float32 lose low bits)\n"
	"  --slots N              sums in progress per job and shard (704)\n"
	"  --window N             packets that a worker has in flight at first (a quarter of the "
	"slots)\n"
	"  --run N                packets in one message to the kernel, 1..64 (44)\n"
	"  --jobs-max N           jobs at the same time (64; at most 1024)\n"
	"  --tables-max N         tables of keys at the same time (256, also the most)\n"
	"  --faithful M           sum tables of keys like a chip of M registers, 1..1024: take\n"
	"                         datagrams of at most 192 bytes, count the chip's recirculations\n"
	"  --memory SIZE          memory of one job on one shard (64M)\n"
	"  --memory-total SIZE    memory of all jobs and tables on one shard (enough for "
	"--jobs-max\n"
	"                         jobs, but over all shards at most half of this host's)\n"
	"  --share PERCENT        part of the jobs, tables, memory and connections that one "
	"address may\n"
	"                         have, of what others leave free (50; 100: no limit)\n"
	"  --tables-memory SIZE   memory of all tables of keys of one job (limited only by the "
	"above)\n"
	"  --receive-buffer SIZE  buffer of each shard's socket (16M; more than net.core.rmem_max\n"
	"                         needs root)\n"
	"  --heartbeat SECONDS    a member is dead after this silence and 2/5 more, at most 4 s "
	"(10)\n"
	"  --gather-timeout SECONDS  for all members of a job to come (300)\n"
	"  --drain-timeout SECONDS   after SIGTERM, for running jobs to end (30; 0: no limit)\n"
	"  --key-file FILE        members must know the key, its one line (TALLY_KEY_FILE); chmod "
	"600\n"
	"  --config FILE          lines of NAME=VALUE, NAME an option without its dashes;\n"
	"                         the command line wins\n"
	"  --log-level LEVEL      error, warn, info or debug (info)\n"
	"  --log-json             one JSON object a line: time, level, job, rank, text\n"
	"  --help, --version\n"
	"\n"
	"SIGTERM or SIGINT: no new jobs, running ones may end. A second one ends at once.\n"
	"SIGUSR1: logs who holds jobs and slots, and what was dropped, by reason.\n"
	"SIGHUP: reads its files again. The key, log-level,\n"
	"log-json, gather-timeout and drain-timeout may change; the log says which have changed.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line, FILE of --config or key file;\n"
	"3 running jobs were aborted.\n";

static const char *key_take(struct opt_value *value)
{
	struct settings *settings = value->request;

	settings->server.key = settings->key;
	return daemon_key(value->text, settings->key, sizeof(settings->key), settings->warning,
			  sizeof(settings->warning));
}

static const char *const engines[] = { "soft", "kernel", "p4", NULL };

#define SECONDS .unit = 1000
#define AT(field) OPT_FIELD(struct settings, field)
/* clang-format off */
static const struct opt table[] = {
	{ "log-json", OPT_FLAG, AT(is_json), .is_live = true },
	{ "log-level", OPT_CHOICE, AT(level), .names = daemon_levels, .takes = DAEMON_LEVELS, .is_live = true },
	{ "listen", OPT_COPY, AT(listen), .may_be_empty = true },
	{ "engine", OPT_CHOICE, AT(engine), .names = engines, .takes = "soft, kernel or p4" },
	{ "devices", OPT_COPY, AT(devices), .may_be_empty = true },
	{ "switch", OPT_COPY, AT(switch_at), .may_be_empty = true },
	{ "key-file", OPT_CALL, .call = key_take },
	{ "shards", OPT_NUMBER, AT(server.shards), .min = 1, .max = 64 },
	{ "lanes", OPT_NUMBER, AT(server.lanes_max), .min = 4, .max = 16368, .step = 4,
	  .takes = "a number from 4 to 16368, a multiple of 4" },
	{ "slots", OPT_NUMBER, AT(server.slots), .min = 8, .max = 32768 },
	{ "window", OPT_NUMBER, AT(server.window), .min = 1, .max = 32768 },
	{ "run", OPT_NUMBER, AT(server.run), .min = 1, .max = 64 },
	{ "jobs-max", OPT_NUMBER, AT(server.jobs_max), .min = 1, .max = 1024 },
	{ "share", OPT_NUMBER, AT(server.share), .min = 1, .max = 100, .takes = "percent, from 1 to 100" },
	{ "tables-max", OPT_NUMBER, AT(server.tables_max), .min = 1, .max = 256 },
	{ "faithful", OPT_NUMBER, AT(server.registers), .min = 1, .max = 1024,
	  .takes = "registers: a number from 1 to 1024" },
	{ "memory", OPT_SIZE, AT(server.memory_max), .min = 1 << 16, .max = 1ull << 40,
	  .takes = "a size from 64K to 1024G" },
	{ "memory-total", OPT_SIZE, AT(server.memory_total), .min = 1 << 16, .max = 1ull << 44,
	  .takes = "a size from 64K to 16384G" },
	{ "tables-memory", OPT_SIZE, AT(server.tables_memory), .min = 1 << 16, .max = 1ull << 44,
	  .takes = "a size from 64K to 16384G" },
	{ "receive-buffer", OPT_SIZE, AT(server.receive_bytes), .min = 1 << 16, .max = 1 << 30,
	  .takes = "a size from 64K to 1G" },
	{ "heartbeat", OPT_NUMBER, AT(server.heartbeat_ms), SECONDS, .min = 1, .max = 3600,
	  .takes = "seconds, from 1 to 3600" },
	{ "gather-timeout", OPT_NUMBER, AT(server.gather_ms), SECONDS, .min = 1, .max = 1000000,
	  .takes = "seconds, from 1 to 1000000", .is_live = true },
	{ "drain-timeout", OPT_NUMBER, AT(server.drain_ms), SECONDS, .max = 1000000,
	  .takes = "seconds, from 0 to 1000000", .is_live = true },
};
/* clang-format on */
static const struct opt_command command = { .name = "tallyd",
					    .help = help,
					    .version = TALLY_VERSION_OF("tallyd"),
					    .table = table,
					    .count = OPT_COUNT(table) };

static int refuse(const char *name, const char *value, const char *why)
{
	return opt_refuse(command.name, name, value, why);
}

/* --- what options mean together --- */

static int listen_parse(struct settings *settings)
{
	struct server_options *server = &settings->server;
	int result = server_listen_parse(settings->listen, server);

	if (result == -ENOENT)
		return refuse("--listen", settings->listen, "no such host");
	if (result)
		return refuse("--listen", settings->listen, "not ADDR, ADDR:PORT or [ADDR]:PORT");
	if (server->listen.port &&
	    server->listen.port + (server->shards ? server->shards : 1) > 65536)
		return refuse("--listen", settings->listen,
			      "the last shard's port would be above 65535");
	return -1;
}

static int engine_fits(const struct settings *settings)
{
	bool is_p4 = settings->engine == ENGINE_P4;

	if (settings->engine == ENGINE_KERNEL && !*settings->devices)
		return refuse("--engine", "kernel", "needs --devices: where packets come in");
	if (settings->engine != ENGINE_KERNEL && *settings->devices)
		return refuse("--devices", settings->devices, "only with --engine kernel");
	if (is_p4 && !*settings->switch_at)
		return refuse("--engine", "p4",
			      "needs --switch: where the switch's control listens");
	if (!is_p4 && *settings->switch_at)
		return refuse("--switch", settings->switch_at, "only with --engine p4");
	if (is_p4 && settings->server.shards > 1)
		return refuse("--engine", "p4", "has one shard: leave --shards out");
	return -1;
}

int tallyd_options_again(struct settings *settings, int argc, char **argv)
{
	int result = daemon_options_read(&command, settings, argc, argv);

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

/* Where 0 may not be said, it stands for the default. */
static const char *value_of(const struct opt *opt, const struct settings *settings,
			    char text[OPT_TEXT_BYTES])
{
	const char *value = opt_text(opt, settings, text);

	return opt->min && !strcmp(value, "0") ? "the default" : *value ? value : "(none)";
}

static void change_one(struct change *change, const struct opt *opt, struct settings *settings,
		       const struct settings *next)
{
	char line[TALLYD_TEXT_BYTES * 2], texts[2][OPT_TEXT_BYTES];
	const char *before = value_of(opt, settings, texts[0]);
	const char *now = value_of(opt, next, texts[1]);

	if (!strcmp(before, now))
		return;
	snprintf(line, sizeof(line),
		 opt->is_live ? "%s: %.300s from now on, %.300s before"
			      : "%s: %.300s needs a restart, it stays %.300s",
		 opt->name, now, before);
	change->say(opt->is_live ? SERVER_INFO : SERVER_WARN, line);
	change->count++;
	if (opt->is_live)
		memcpy((char *)settings + opt->at, (const char *)next + opt->at, opt->bytes);
}

void tallyd_options_change(struct settings *settings, const struct settings *next,
			   tallyd_options_say *say)
{
	struct change change = { .say = say };

	change_key(&change, settings, next);
	for (size_t i = 0; i < OPT_COUNT(table); i++)
		change_one(&change, &table[i], settings, next);
	if (!change.count)
		say(SERVER_INFO, "files read again: nothing has changed");
}
