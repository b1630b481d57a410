/* SPDX-License-Identifier: Apache-2.0 */
/* tally_ps_options.c - see tally_ps_options.h. */
#include "tools/tally_ps_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/daemon.h"
#include "util/commit.h"
#include "util/opt.h"

/* Of what an aggregator sends; above that most of it goes twice. */
enum { TIRED_LOSS = 50, CHECKPOINT_S = 60 };
#define UNSAID UINT64_MAX /* --checkpoint */

static const uint64_t ns_per_s = 1000000000;

static const char help[] =
	"tally-ps - the parameter server: holds sparse tables and makes the optimiser's steps\n"
	"\n"
	"usage: tally-ps --workers N --table NAME,dim=D[,WORD=VALUE...] [OPTION...]\n"
	"\n"
	"  tally-ps --workers 4 --dir d --table users,dim=8,optimizer=adagrad,rate=0.05\n"
	"\n"
	"  --workers N          number of workers of the job, 1..256, the same for all tables\n"
	"  --table NAME,...     a table; give the option once for each\n"
	"  --listen ADDR[:PORT] address to listen on, TCP and UDP (127.0.0.1:7272, this host\n"
	"                       only; with --key-file or --insecure 0.0.0.0:7272; port 0: the\n"
	"                       kernel chooses)\n"
	"  --aggregator ADDR[:PORT],...  tallyd to sum hot keys at (port 7171), then those\n"
	"                       that stand by; without one, or while none answers, tally-ps\n"
	"                       sums them itself\n"
	"  --silence MS         leave an aggregator that has been silent for so long (500)\n"
	"  --tired-delay MS     leave an aggregator that answers later than this (0: never)\n"
	"  --tired-loss PERCENT leave one that loses more of its packets (50; 0: never)\n"
	"  --tired-memory PERCENT  leave one with more of its memory in use (0: never)\n"
	"  --dir DIR            folder of logs and checkpoints; needed unless every table has\n"
	"                       durability=none\n"
	"  --adopt INDEX/COUNT  take an old folder for server INDEX, from 0, of COUNT\n"
	"  --checkpoint SECONDS time between two checkpoints of a table (0: only at SIGUSR2;\n"
	"                       60 if a table has durability=checkpoint)\n"
	"  --accept-loss        start although something on the disk is gone; say what\n"
	"  --job NAME           serve only workers of this job (any)\n"
	"  --key-file FILE      file whose one line is the workers' key; chmod 600\n"
	"  --insecure           ask for no key: anybody may then change the tables\n"
	"  --heartbeat SECONDS  longest silence of each side, such as 1 or 0.25 (1)\n"
	"  --switch-memory SIZE memory for sums of hot keys that are summed here (1G)\n"
	"  --config FILE        lines of NAME=VALUE, NAME an option without its dashes; the\n"
	"                       command line wins, but every --table counts\n"
	"  --log-level LEVEL    error, warn, info or debug (info)\n"
	"  --log-json           log one JSON object a line\n"
	"  --help, --version\n"
	"\n"
	"Words of a table:\n"
	"  dim=N                values of a key, 1..64\n"
	"  optimizer=NAME       sum, sgd, momentum, adagrad, adam or ftrl (sgd)\n"
	"  rate= momentum= beta1= beta2= epsilon= beta= l1= l2=  numbers of the optimizer\n"
	"  initial=NAME         zero, uniform or normal (zero); scale= (0.01), seed= (1)\n"
	"  map=FILE             hot keys, which a switch sums: a file of tally hot (none)\n"
	"  map-table=N          number of the table in that file, as in tally hot --table (0)\n"
	"  unit=X               value of 1 in the integers that hot keys travel as (1 for\n"
	"                       sum, else 2^-20)\n"
	"  values=fixed|lns     how a switch sums hot values: as such integers, exactly; or\n"
	"                       as float32, by tables of logarithms, which round (fixed)\n"
	"  window=N             packets that a worker may have in flight, 1..64 (32)\n"
	"  bytes=N              longest datagram (1472; at most 8192; --faithful: 192)\n"
	"  packing=NAME         for tallyd --faithful: deal, algorithm1 or fill (deal)\n"
	"  memory=SIZE          memory for its rows (1G)\n"
	"  durability=NAME      log: what is acknowledged is on the disk; checkpoint: a crash\n"
	"                       loses what came after the last one, and the log says so;\n"
	"                       none: a crash loses everything (log)\n"
	"  pairs=N              hot pairs that end an epoch (65536, and 20 for each hot key)\n"
	"  age-us=N             time after which an epoch ends (50000)\n"
	"  copies=0|1           send workers the new values of hot keys (0)\n"
	"  mode=async|sync      sync: all workers make each step together (async)\n"
	"  patience-us=N        time that a worker waits before it asks for the end of an\n"
	"                       epoch (100000 and twice age-us)\n"
	"\n"
	"SIGTERM, SIGINT: end. SIGUSR1: log the state of the tables. SIGUSR2: write checkpoints.\n"
	"SIGHUP: read maps again.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line, FILE of --config or key file.\n";

/* ---- words of a table ---- */

static int failed(char error[PS_ERROR_MAX], const char *word, const char *value, const char *why)
{
	return ps_fail(error, "%.100s=%.200s: %s", word, value, why);
}

static const char *const values_names
	[] = { [SPARSE_FIXED] = "fixed", [SPARSE_LNS] = "lns", [SPARSE_LNS + 1] = NULL };
static const char *const modes[] = { "async", "sync", NULL };
static const char *const packings[KV_PACKING_END + 1] = { "fill", "algorithm1", "deal", NULL };
static const char *const durabilities[] = { [PS_LOG] = "log",
					    [PS_CHECKPOINT] = "checkpoint",
					    [PS_NONE] = "none",
					    [PS_NONE + 1] = NULL };

#define FLOAT_LEAST 0x1p-149 /* above 0 */
#define AT(field) OPT_FIELD(struct ps_hosted_options, field)
/* clang-format off */
static const struct opt word_table[] = {
	{ "optimizer", OPT_CHOICE, AT(table.optimiser.kind), .names = optimiser_names, /* set before all others */
	  .takes = "sum, sgd, momentum, adagrad, adam or ftrl" },
	{ "rate", OPT_REAL, AT(table.optimiser.rate), .low = FLOAT_LEAST, .high = 1e6, .takes = "a number above 0" },
	{ "momentum", OPT_REAL, AT(table.optimiser.momentum), .high = 1 },
	{ "beta1", OPT_REAL, AT(table.optimiser.beta1), .high = 0.999999, .takes = "a number from 0 to below 1" },
	{ "beta2", OPT_REAL, AT(table.optimiser.beta2), .high = 0.999999, .takes = "a number from 0 to below 1" },
	{ "epsilon", OPT_REAL, AT(table.optimiser.epsilon), .low = FLOAT_LEAST, .high = 1,
	  .takes = "a number above 0, at most 1" },
	{ "beta", OPT_REAL, AT(table.optimiser.beta), .high = 1e6, .takes = "a number, at least 0" },
	{ "l1", OPT_REAL, AT(table.optimiser.l1), .high = 1e6, .takes = "a number, at least 0" },
	{ "l2", OPT_REAL, AT(table.optimiser.l2), .high = 1e6, .takes = "a number, at least 0" },
	{ "initial", OPT_CHOICE, AT(table.initial.kind), .names = initial_names, .takes = "zero, uniform or normal" },
	{ "scale", OPT_REAL, AT(table.initial.scale), .high = 1e6, .takes = "a number, at least 0" },
	{ "seed", OPT_NUMBER, AT(table.initial.seed) },
	{ "unit", OPT_REAL, AT(table.unit), .low = 1e-30, .high = 1e6, .takes = "a decimal number from 1e-30 to 1e6" },
	{ "values", OPT_CHOICE, AT(table.values), .names = values_names, .takes = "fixed or lns" },
	{ "dim", OPT_NUMBER, AT(table.dim), .min = 1, .max = SPARSE_DIM_MAX },
	{ "window", OPT_NUMBER, AT(table.window), .min = 1, .max = SPARSE_WINDOW_MAX },
	{ "bytes", OPT_NUMBER, AT(table.bytes), .min = 64, .max = SPARSE_BYTES_MAX },
	{ "memory", OPT_SIZE, AT(table.memory_max), .min = 1 << 16, .max = 1ull << 44, .takes = "a size from 64K to 16384G" },
	{ "map", OPT_TEXT, AT(table.map), .takes = "the name of a file" },
	{ "map-table", OPT_NUMBER, AT(table.map_table), .max = HOT_MAP_TABLE_MAX },
	{ "mode", OPT_CHOICE, AT(table.is_sync), .names = modes, .takes = "async or sync" },
	{ "copies", OPT_NUMBER, AT(table.has_copies), .max = 1, .takes = "0 or 1" },
	{ "packing", OPT_CHOICE, AT(packing), .names = packings, .takes = "fill, algorithm1 or deal" },
	{ "durability", OPT_CHOICE, AT(table.durability), .names = durabilities, .takes = "log, checkpoint or none" },
	{ "pairs", OPT_NUMBER, AT(pairs_max), .min = 1, .max = UINT32_MAX, .takes = "a number, at least 1" },
	{ "age-us", OPT_NUMBER, AT(age_us), .min = 1, .max = 1000000000, .takes = "microseconds, at least 1" },
	{ "patience-us", OPT_NUMBER, AT(patience_us), .min = 1, .max = 1000000000, .takes = "microseconds, at least 1" },
};
/* clang-format on */
#undef AT

static int word_set(struct ps_hosted_options *options, const char *word, const char *text,
		    char error[PS_ERROR_MAX])
{
	struct opt_value value = { .opt = opt_find(word_table, OPT_COUNT(word_table), word),
				   .request = options,
				   .text = text };
	const char *why = value.opt ? opt_take(&value) : "no such word: tally-ps --help lists them";

	return why ? failed(error, word, text, why) : 0;
}

/* Its usual numbers, before the words that change them. */
static int optimiser_set(struct ps_hosted_options *options, char **words, uint32_t count,
			 char error[PS_ERROR_MAX])
{
	enum optimiser_kind kind;

	options->table.optimiser.kind = OPTIMISER_SGD;
	for (uint32_t i = 0; i < count; i++) {
		char *value = strchr(words[i], '=');

		if (!strncmp(words[i], "optimizer=", 10) &&
		    word_set(options, "optimizer", value + 1, error))
			return -1;
	}
	kind = options->table.optimiser.kind;
	options->table.optimiser = optimiser_default(kind);
	options->table.unit = kind == OPTIMISER_SUM ? 1.0f : 0x1p-20f;
	return 0;
}

/* R-SP-3: a row of the window's numbers, and a sum. */
static int bytes_check(const struct ps_table_options *table, char error[PS_ERROR_MAX])
{
	uint32_t row = sparse_items_at(SPARSE_SETUP) + sparse_row_bytes(table->window);
	uint32_t sum = SPARSE_HEADER_BYTES + sparse_sum_bytes(table->dim);

	if (table->bytes >= row && table->bytes >= sum)
		return 0;
	return ps_fail(error, "bytes=%u: %s=%u needs %u", table->bytes,
		       table->bytes < row ? "window" : "dim",
		       table->bytes < row ? table->window : table->dim,
		       table->bytes < row ? row : sum);
}

int ps_options_table(struct ps_settings *settings, const char *text, char error[PS_ERROR_MAX])
{
	enum { WORDS_MAX = 32 };
	uint32_t at = settings->server.table_count, count = 0;
	struct ps_hosted_options *options = &settings->tables[at];
	char *words[WORDS_MAX], *rest, *name;

	if (at == PS_TABLES_MAX)
		return ps_fail(error, "more than %d tables", PS_TABLES_MAX);
	if (snprintf(settings->text[at], PS_OPTION_BYTES, "%s", text) >= PS_OPTION_BYTES)
		return failed(error, "its words", "...", "too long");
	*options = (struct ps_hosted_options){
		.table = { .window = 32, .bytes = 1472, .initial = { .scale = 0.01f, .seed = 1 } },
		.packing = KV_DEAL,
	};
	name = strtok_r(settings->text[at], ",", &rest);
	if (!name || !kv_is_name(name) || strlen(name) >= KV_NAME_BYTES)
		return ps_fail(error, "a table's name has up to 63 letters, digits, _, - and ., "
				      "which is not the first");
	snprintf(options->table.name, sizeof(options->table.name), "%s", name);
	for (uint32_t i = 0; i < at; i++)
		if (!strcmp(settings->tables[i].table.name, name))
			return failed(error, "name", name, "a second table of this name");
	for (char *word; count < WORDS_MAX && (word = strtok_r(NULL, ",", &rest)); count++) {
		words[count] = word;
		if (!strchr(word, '='))
			return failed(error, word, "", "not WORD=VALUE");
	}
	if (optimiser_set(options, words, count, error))
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		char *value = strchr(words[i], '=');

		*value++ = 0;
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(words[k], words[i]))
				return failed(error, words[i], value,
					      "is given twice: take one out");
		if (word_set(options, words[i], value, error))
			return -1;
	}
	if (!options->table.dim)
		return failed(error, "dim", "", "missing: the number of values of a key, 1 to 64");
	if (options->table.is_sync && options->table.has_copies)
		return failed(error, "copies", "1", "is not for a table with mode=sync");
	if (options->table.is_sync && options->table.values == SPARSE_LNS)
		return failed(error, "values", "lns",
			      "is not for a table with mode=sync, where sums of epochs are added");
	if (bytes_check(&options->table, error))
		return -1;
	settings->server.table_count++;
	return 0;
}

/* ---- options ---- */

static const char *aggregators_take(struct opt_value *value)
{
	struct ps_settings *settings = value->request;
	struct ps_server_options *server = &settings->server;
	char *rest, *one;

	if (snprintf(settings->aggregators, sizeof(settings->aggregators), "%s", value->text) >=
	    (int)sizeof(settings->aggregators))
		return "too long";
	server->aggregator_count = 0;
	for (one = strtok_r(settings->aggregators, ",", &rest); one;
	     one = strtok_r(NULL, ",", &rest)) {
		if (server->aggregator_count == PS_AGGREGATORS_MAX)
			return "more than 8 addresses";
		server->aggregator[server->aggregator_count++] = one;
	}
	return server->aggregator_count ? NULL : "no address";
}

static const char *table_take(struct opt_value *value)
{
	_Static_assert(sizeof(value->why) >= PS_ERROR_MAX, "a sentence of ps fits");
	return ps_options_table(value->request, value->text, value->why) ? value->why : NULL;
}

/* INDEX/COUNT, as workers list them. */
static const char *adopt_take(struct opt_value *value)
{
	struct ps_settings *settings = value->request;
	const char *slash = strchr(value->text, '/');
	char index[8] = "";
	uint64_t at, count;

	if (slash && slash - value->text < (ptrdiff_t)sizeof(index))
		memcpy(index, value->text, (size_t)(slash - value->text));
	if (!slash || !opt_number(slash + 1, 1, KV_SERVERS_MAX, &count) ||
	    !opt_number(index, 0, count - 1, &at))
		return "INDEX/COUNT, this server's place in the workers' list, from 0, and how "
		       "many "
		       "they list, at most 64: 0/1 if it is the only one";
	settings->server.adopt_index = (uint16_t)at;
	settings->server.adopt_count = (uint16_t)count;
	return NULL;
}

static const char *key_take(struct opt_value *value)
{
	struct ps_settings *settings = value->request;

	if (snprintf(settings->key_file, sizeof(settings->key_file), "%s", value->text) >=
	    (int)sizeof(settings->key_file))
		return "too long";
	if (!*value->text)
		return "is empty: give a value";
	return daemon_key(value->text, settings->key, sizeof(settings->key), settings->warning,
			  sizeof(settings->warning));
}

/* In a file each start would take what is lost for what was never there. */
#define NOT_IN_FILE "on the command line alone: it is for the one start that somebody looks at"
#define AT(field) OPT_FIELD(struct ps_settings, field)
/* clang-format off */
static const struct opt option_table[] = {
	{ "log-json", OPT_FLAG, AT(is_json) },
	{ "log-level", OPT_CHOICE, AT(level), .names = daemon_levels, .takes = DAEMON_LEVELS },
	{ "table", OPT_CALL, .call = table_take, .is_many = true },
	{ "workers", OPT_NUMBER, AT(server.workers), .min = 1, .max = SWITCH_CHILDREN_MAX },
	{ "listen", OPT_COPY, AT(listen) },
	{ "aggregator", OPT_CALL, .call = aggregators_take },
	{ "silence", OPT_NUMBER, AT(server.silence_ns), .unit = 1000000, .min = 10, .max = 3600000,
	  .takes = "milliseconds, from 10 to 3600000" },
	{ "tired-delay", OPT_NUMBER, AT(server.tired_delay_ns), .unit = 1000000, .max = 3600000,
	  .takes = "milliseconds, from 0 to 3600000" },
	{ "tired-loss", OPT_NUMBER, AT(server.tired_loss), .max = 100, .takes = "per cent, from 0 to 100" },
	{ "tired-memory", OPT_NUMBER, AT(server.tired_memory), .max = 100, .takes = "per cent, from 0 to 100" },
	{ "dir", OPT_COPY, AT(folder) },
	{ "adopt", OPT_CALL, .call = adopt_take, .not_in_file = NOT_IN_FILE },
	{ "checkpoint", OPT_NUMBER, AT(server.checkpoint_ns), .unit = 1000000000, .max = 1000000,
	  .takes = "seconds, from 0 to 1000000" },
	{ "accept-loss", OPT_FLAG, AT(accepts_loss), .not_in_file = NOT_IN_FILE },
	{ "job", OPT_COPY, AT(job) },
	{ "key-file", OPT_CALL, .call = key_take },
	{ "insecure", OPT_FLAG, AT(is_insecure) },
	{ "heartbeat", OPT_SECONDS, AT(server.heartbeat_ms), .min = 10, .max = 3600000,
	  .takes = "seconds, from 0.01 to 3600" },
	{ "switch-memory", OPT_SIZE, AT(server.switch_memory), .min = 1 << 16, .max = 1ull << 44,
	  .takes = "a size from 64K to 16384G" },
};
/* clang-format on */
static const struct opt_command command = { .name = "tally-ps",
					    .help = help,
					    .version = TALLY_VERSION_OF("tally-ps"),
					    .table = option_table,
					    .count = OPT_COUNT(option_table) };

static int missing(const char *name, const char *why)
{
	return opt_refuse(command.name, name, NULL, why);
}

/* Who may come: without a key, processes of this host, unless somebody has said otherwise. */
static void listen_choose(struct ps_settings *settings)
{
	bool is_open = !*settings->key && !settings->is_insecure;

	if (!*settings->listen)
		strcpy(settings->listen, is_open ? "127.0.0.1" : "0.0.0.0");
	else if (is_open && strncmp(settings->listen, "127.", 4) != 0 &&
		 strncmp(settings->listen, "[::1]", 5) != 0 &&
		 strcmp(settings->listen, "::1") != 0 &&
		 strncmp(settings->listen, "localhost", 9) != 0)
		snprintf(settings->warning, sizeof(settings->warning),
			 "whoever reaches %.200s may change the tables: --key-file keeps strangers "
			 "out, --insecure says that they may",
			 settings->listen);
	settings->server.listen = settings->listen;
}

static int check(struct ps_settings *settings)
{
	bool has_interval = settings->server.checkpoint_ns != UNSAID;

	if (!settings->server.workers)
		return missing("--workers", "missing: the number of workers, 1 to 256");
	if (!settings->server.table_count)
		return missing("--table", "missing: give at least one table, NAME,dim=N");
	if (!has_interval)
		settings->server.checkpoint_ns = 0;
	for (uint32_t i = 0; i < settings->server.table_count; i++) {
		struct ps_table_options *table = &settings->tables[i].table;

		if (table->durability != PS_NONE && !*settings->folder)
			return missing("--dir",
				       "missing: give the folder where tables keep their logs");
		if (table->durability == PS_CHECKPOINT && !has_interval)
			settings->server.checkpoint_ns = CHECKPOINT_S * ns_per_s;
		table->folder = settings->folder;
		table->accepts_loss = settings->accepts_loss;
	}
	listen_choose(settings);
	return -1;
}

int ps_options(struct ps_settings *settings, int argc, char **argv)
{
	int result;

	settings->server.tired_loss = TIRED_LOSS;
	settings->server.checkpoint_ns = UNSAID;
	settings->server.tables = settings->tables;
	settings->server.key = settings->key;
	settings->server.job = settings->job;
	result = daemon_options_read(&command, settings, argc, argv);
	return result < 0 ? check(settings) : result;
}
