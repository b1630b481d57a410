/* SPDX-License-Identifier: Apache-2.0 */
/* tally_ps_options.c - see tally_ps_options.h. */
#include "tools/tally_ps_options.h"

#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/daemon.h"

/* Of what an aggregator sends; above that most of it goes twice. */
enum { TIRED_LOSS = 50, CHECKPOINT_S = 60 };

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
	snprintf(error, PS_ERROR_MAX, "%.100s=%.200s: %s", word, value, why);
	return -1;
}

/* Finite, in [min, max], or above min if it is_above. */
static bool number_get(const char *text, double min, double max, bool is_above, float *number)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < min || value > max ||
	    (is_above && value == min))
		return false;
	*number = (float)value;
	return isfinite(*number) && (!is_above || *number > (float)min);
}

struct float_word {
	const char *word;
	size_t at; /* in struct ps_table_options */
	double min, max;
	bool is_above;
	const char *why;
};

#define AT(field) offsetof(struct ps_table_options, field)
/* clang-format off */
static const struct float_word floats[] = {
	{ "rate", AT(optimiser.rate), 0, 1e6, true, "a number above 0" },
	{ "momentum", AT(optimiser.momentum), 0, 1, false, "a number from 0 to 1" },
	{ "beta1", AT(optimiser.beta1), 0, 0.999999, false, "a number from 0 to below 1" },
	{ "beta2", AT(optimiser.beta2), 0, 0.999999, false, "a number from 0 to below 1" },
	{ "epsilon", AT(optimiser.epsilon), 0, 1, true, "a number above 0, at most 1" },
	{ "beta", AT(optimiser.beta), 0, 1e6, false, "a number, at least 0" },
	{ "l1", AT(optimiser.l1), 0, 1e6, false, "a number, at least 0" },
	{ "l2", AT(optimiser.l2), 0, 1e6, false, "a number, at least 0" },
	{ "scale", AT(initial.scale), 0, 1e6, false, "a number, at least 0" },
	{ "unit", AT(unit), 1e-30, 1e6, true, "a number above 1e-30, at most 1e6" },
};
/* clang-format on */

struct whole_word {
	const char *word;
	uint64_t min, max;
	bool is_size;
	const char *why;
};

/* clang-format off */
static const struct whole_word wholes[] = {
	{ "dim", 1, SPARSE_DIM_MAX, false, "a number from 1 to 64" },
	{ "window", 1, SPARSE_WINDOW_MAX, false, "a number from 1 to 64" },
	{ "bytes", 64, SPARSE_BYTES_MAX, false, "a number from 64 to 8192" },
	{ "memory", 1 << 16, 1ull << 44, true, "a size from 64K to 16384G" },
	{ "seed", 0, UINT64_MAX, false, "a number" },
	{ "pairs", 1, UINT32_MAX, false, "a number, at least 1" },
	{ "age-us", 1, 1000000000, false, "microseconds, at least 1" },
	{ "copies", 0, 1, false, "0 or 1" },
	{ "map-table", 0, HOT_MAP_TABLE_MAX, false, "a number up to 65535" },
	{ "patience-us", 1, 1000000000, false, "microseconds, at least 1" },
};
/* clang-format on */

static void whole_set(struct ps_hosted_options *options, const char *word, uint64_t number)
{
	if (!strcmp(word, "dim"))
		options->table.dim = (uint16_t)number;
	else if (!strcmp(word, "window"))
		options->table.window = (uint16_t)number;
	else if (!strcmp(word, "bytes"))
		options->table.bytes = (uint16_t)number;
	else if (!strcmp(word, "memory"))
		options->table.memory_max = number;
	else if (!strcmp(word, "seed"))
		options->table.initial.seed = number;
	else if (!strcmp(word, "pairs"))
		options->pairs_max = number;
	else if (!strcmp(word, "age-us"))
		options->age_us = number;
	else if (!strcmp(word, "copies"))
		options->table.has_copies = number;
	else if (!strcmp(word, "map-table"))
		options->table.map_table = (uint32_t)number;
	else
		options->patience_us = (uint32_t)number;
}

static int durability_set(struct ps_table_options *table, const char *value,
			  char error[PS_ERROR_MAX])
{
	if (!strcmp(value, "log"))
		table->durability = PS_LOG;
	else if (!strcmp(value, "checkpoint"))
		table->durability = PS_CHECKPOINT;
	else if (!strcmp(value, "none"))
		table->durability = PS_NONE;
	else
		return failed(error, "durability", value, "log, checkpoint or none");
	return 0;
}

static int packing_set(struct ps_hosted_options *options, const char *value,
		       char error[PS_ERROR_MAX])
{
	static const char *const names[KV_PACKING_END] = { "fill", "algorithm1", "deal" };

	for (unsigned i = 0; i < KV_PACKING_END; i++) {
		if (!strcmp(value, names[i])) {
			options->packing = (enum kv_packing)i;
			return 0;
		}
	}
	return failed(error, "packing", value, "fill, algorithm1 or deal");
}

static int values_set(struct ps_table_options *table, const char *value, char error[PS_ERROR_MAX])
{
	if (strcmp(value, "fixed") != 0 && strcmp(value, "lns") != 0)
		return failed(error, "values", value, "fixed or lns");
	table->values = !strcmp(value, "lns") ? SPARSE_LNS : SPARSE_FIXED;
	return 0;
}

static int mode_set(struct ps_table_options *table, const char *value, char error[PS_ERROR_MAX])
{
	if (strcmp(value, "sync") != 0 && strcmp(value, "async") != 0)
		return failed(error, "mode", value, "async or sync");
	table->is_sync = !strcmp(value, "sync");
	return 0;
}

static int word_set(struct ps_hosted_options *options, const char *word, const char *value,
		    char error[PS_ERROR_MAX])
{
	uint64_t number;

	for (size_t i = 0; i < sizeof(floats) / sizeof(*floats); i++) {
		float *at = (float *)(void *)((char *)&options->table + floats[i].at);

		if (strcmp(word, floats[i].word) != 0)
			continue;
		if (!number_get(value, floats[i].min, floats[i].max, floats[i].is_above, at))
			return failed(error, word, value, floats[i].why);
		return 0;
	}
	for (size_t i = 0; i < sizeof(wholes) / sizeof(*wholes); i++) {
		const struct whole_word *whole = &wholes[i];

		if (strcmp(word, whole->word) != 0)
			continue;
		if (!(whole->is_size ? args_size : args_number)(value, whole->min, whole->max,
								&number))
			return failed(error, word, value, whole->why);
		whole_set(options, word, number);
		return 0;
	}
	if (!strcmp(word, "optimizer"))
		return 0; /* set before all others */
	if (!strcmp(word, "initial"))
		return initial_find(value, &options->table.initial.kind)
			       ? 0
			       : failed(error, word, value, "zero, uniform or normal");
	if (!strcmp(word, "map")) {
		options->table.map = value;
		return 0;
	}
	if (!strcmp(word, "mode"))
		return mode_set(&options->table, value, error);
	if (!strcmp(word, "values"))
		return values_set(&options->table, value, error);
	if (!strcmp(word, "packing"))
		return packing_set(options, value, error);
	if (!strcmp(word, "durability"))
		return durability_set(&options->table, value, error);
	return failed(error, word, value, "no such word: tally-ps --help lists them");
}

static bool is_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";

	return *name && *name != '.' && strlen(name) < KV_NAME_BYTES &&
	       strspn(name, allowed) == strlen(name);
}

/* Its usual numbers, before the words that change them. */
static int optimiser_set(struct ps_hosted_options *options, char **words, uint32_t count,
			 char error[PS_ERROR_MAX])
{
	enum optimiser_kind kind = OPTIMISER_SGD;

	for (uint32_t i = 0; i < count; i++) {
		char *value = strchr(words[i], '=');

		if (strncmp(words[i], "optimizer=", 10) != 0)
			continue;
		if (!optimiser_find(value + 1, &kind))
			return failed(error, "optimizer", value + 1,
				      "sum, sgd, momentum, adagrad, adam or ftrl");
	}
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
	snprintf(error, PS_ERROR_MAX, "bytes=%u: %s=%u needs %u", table->bytes,
		 table->bytes < row ? "window" : "dim",
		 table->bytes < row ? table->window : table->dim, table->bytes < row ? row : sum);
	return -1;
}

int ps_options_table(struct ps_settings *settings, const char *text, char error[PS_ERROR_MAX])
{
	enum { WORDS_MAX = 32 };
	uint32_t at = settings->server.table_count, count = 0;
	struct ps_hosted_options *options = &settings->tables[at];
	char *words[WORDS_MAX], *rest, *name;

	if (at == PS_TABLES_MAX) {
		snprintf(error, PS_ERROR_MAX, "more than %d tables", PS_TABLES_MAX);
		return -1;
	}
	if (snprintf(settings->text[at], PS_OPTION_BYTES, "%s", text) >= PS_OPTION_BYTES)
		return failed(error, "its words", "...", "too long");
	*options = (struct ps_hosted_options){
		.table = { .window = 32, .bytes = 1472, .initial = { .scale = 0.01f, .seed = 1 } },
		.packing = KV_DEAL,
	};
	name = strtok_r(settings->text[at], ",", &rest);
	if (!name || !is_name(name)) {
		snprintf(error, PS_ERROR_MAX,
			 "a table's name has up to 63 letters, digits, _, - and ., which is not "
			 "the first");
		return -1;
	}
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

static const struct daemon_place command_line;

static int refuse(const struct daemon_place *place, const char *name, const char *value,
		  const char *why)
{
	return daemon_refuse("tally-ps", place, name, value, why);
}

/* A whole number, its unit, and where it goes in struct ps_server_options. */
struct number {
	const char *name;
	uint64_t min, max, unit;
	size_t at, bytes;
	const char *why;
};

#define SERVER(field) \
	offsetof(struct ps_server_options, field), sizeof(((struct ps_server_options *)NULL)->field)
/* clang-format off */
static const struct number numbers[] = {
	{ "workers", 1, SWITCH_CHILDREN_MAX, 1, SERVER(workers), "a number from 1 to 256" },
	{ "silence", 10, 3600000, 1000000, SERVER(silence_ns), "milliseconds, from 10 to 3600000" },
	{ "tired-delay", 0, 3600000, 1000000, SERVER(tired_delay_ns), "milliseconds, from 0 to 3600000" },
	{ "tired-loss", 0, 100, 1, SERVER(tired_loss), "per cent, from 0 to 100" },
	{ "tired-memory", 0, 100, 1, SERVER(tired_memory), "per cent, from 0 to 100" },
	{ "checkpoint", 0, 1000000, 1000000000, SERVER(checkpoint_ns), "seconds, from 0 to 1000000" },
};
/* clang-format on */

static int set_number(struct ps_server_options *server, const struct daemon_place *place,
		      const struct number *number, const char *value)
{
	uint64_t wide;
	uint32_t middle;
	uint16_t narrow;
	const void *from = &wide;

	if (!args_number(value, number->min, number->max, &wide))
		return refuse(place, number->name, value, number->why);
	wide *= number->unit;
	middle = (uint32_t)wide;
	narrow = (uint16_t)wide;
	if (number->bytes == sizeof(middle))
		from = &middle;
	else if (number->bytes == sizeof(narrow))
		from = &narrow;
	memcpy((char *)server + number->at, from, number->bytes);
	return 0;
}

static int set_text(char *text, size_t bytes, const struct daemon_place *place, const char *name,
		    const char *value)
{
	if (!*value || strlen(value) >= bytes)
		return refuse(place, name, value, *value ? "too long" : "is empty: give a value");
	strcpy(text, value);
	return 0;
}

/* A flag has no value, a line of a file 1, 0 or none. */
static int set_flag(bool *flag, const struct daemon_place *place, const char *name,
		    const char *value)
{
	*flag = strcmp(value, "0") != 0;
	return !*value || !strcmp(value, "1") || !strcmp(value, "0")
		       ? 0
		       : refuse(place, name, value, "1, 0 or nothing");
}

static int set_level(struct ps_settings *settings, const struct daemon_place *place,
		     const char *value)
{
	int level = daemon_level(value);

	if (level < 0)
		return refuse(place, "log-level", value, "error, warn, info or debug");
	settings->level = (enum ps_level)level;
	return 0;
}

static int set_aggregators(struct ps_settings *settings, const struct daemon_place *place,
			   const char *value)
{
	struct ps_server_options *server = &settings->server;
	char *rest, *one;

	if (snprintf(settings->aggregators, sizeof(settings->aggregators), "%s", value) >=
	    (int)sizeof(settings->aggregators))
		return refuse(place, "aggregator", value, "too long");
	server->aggregator_count = 0;
	for (one = strtok_r(settings->aggregators, ",", &rest); one;
	     one = strtok_r(NULL, ",", &rest)) {
		if (server->aggregator_count == PS_AGGREGATORS_MAX)
			return refuse(place, "aggregator", value, "more than 8 addresses");
		server->aggregator[server->aggregator_count++] = one;
	}
	return server->aggregator_count ? 0 : refuse(place, "aggregator", value, "no address");
}

static int set_heartbeat(struct ps_server_options *server, const struct daemon_place *place,
			 const char *value)
{
	uint64_t ms;

	if (!args_seconds(value, 10, 3600000, &ms))
		return refuse(place, "heartbeat", value, "seconds, from 0.01 to 3600");
	server->heartbeat_ms = (uint32_t)ms;
	return 0;
}

static int set_table(struct ps_settings *settings, const struct daemon_place *place,
		     const char *value)
{
	char error[PS_ERROR_MAX];

	return ps_options_table(settings, value, error) ? refuse(place, "table", value, error) : 0;
}

/* INDEX/COUNT, as workers list them. */
static int set_adopt(struct ps_server_options *server, const struct daemon_place *place,
		     const char *value)
{
	char index[8] = "";
	const char *slash = strchr(value, '/');
	uint64_t at, count;

	if (slash && slash - value < (ptrdiff_t)sizeof(index))
		memcpy(index, value, (size_t)(slash - value));
	if (!slash || !args_number(slash + 1, 1, KV_SERVERS_MAX, &count) ||
	    !args_number(index, 0, count - 1, &at))
		return refuse(place, "adopt", value,
			      "INDEX/COUNT, this server's place in the workers' list, from 0, and "
			      "how many they list, at most 64: 0/1 if it is the only one");
	server->adopt_index = (uint16_t)at;
	server->adopt_count = (uint16_t)count;
	return 0;
}

/* One setting of the command line or of the file. */
static int set(void *arg, const struct daemon_place *place, const char *name, const char *value)
{
	struct ps_settings *settings = arg;
	struct ps_server_options *server = &settings->server;

	/* In a file each start would take what is lost for what was never there. */
	if (place->file && (!strcmp(name, "accept-loss") || !strcmp(name, "adopt")))
		return refuse(
			place, name, value,
			"on the command line alone: it is for the one start that somebody looks "
			"at");
	if (!strcmp(name, "checkpoint"))
		settings->has_interval = true;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(name, numbers[i].name))
			return set_number(server, place, &numbers[i], value);
	if (!strcmp(name, "table"))
		return set_table(settings, place, value);
	if (!strcmp(name, "listen"))
		return set_text(settings->listen, sizeof(settings->listen), place, name, value);
	if (!strcmp(name, "aggregator"))
		return set_aggregators(settings, place, value);
	if (!strcmp(name, "adopt"))
		return set_adopt(server, place, value);
	if (!strcmp(name, "dir"))
		return set_text(settings->folder, sizeof(settings->folder), place, name, value);
	if (!strcmp(name, "job"))
		return set_text(settings->job, sizeof(settings->job), place, name, value);
	if (!strcmp(name, "key-file") &&
	    set_text(settings->key_file, sizeof(settings->key_file), place, name, value))
		return EXIT_USAGE;
	if (!strcmp(name, "key-file"))
		return daemon_key("tally-ps", place, value, settings->key, sizeof(settings->key),
				  settings->warning, sizeof(settings->warning));
	if (!strcmp(name, "insecure"))
		return set_flag(&settings->is_insecure, place, name, value);
	if (!strcmp(name, "heartbeat"))
		return set_heartbeat(server, place, value);
	if (!strcmp(name, "switch-memory"))
		return args_size(value, 1 << 16, 1ull << 44, &server->switch_memory)
			       ? 0
			       : refuse(place, name, value, "a size from 64K to 16384G");
	if (!strcmp(name, "accept-loss"))
		return set_flag(&settings->accepts_loss, place, name, value);
	if (!strcmp(name, "log-json"))
		return set_flag(&settings->is_json, place, name, value);
	return set_level(settings, place, value);
}

/* clang-format off */
static const struct option options[] = {
	{ "help", no_argument, NULL, DAEMON_OPTION_HELP },
	{ "version", no_argument, NULL, DAEMON_OPTION_VERSION },
	{ "config", required_argument, NULL, DAEMON_OPTION_CONFIG },
	{ "log-json", no_argument, NULL, DAEMON_OPTION_SET },
	{ "log-level", required_argument, NULL, DAEMON_OPTION_SET },
	{ "table", required_argument, NULL, DAEMON_OPTION_SET },
	{ "workers", required_argument, NULL, DAEMON_OPTION_SET },
	{ "listen", required_argument, NULL, DAEMON_OPTION_SET },
	{ "aggregator", required_argument, NULL, DAEMON_OPTION_SET },
	{ "silence", required_argument, NULL, DAEMON_OPTION_SET },
	{ "tired-delay", required_argument, NULL, DAEMON_OPTION_SET },
	{ "tired-loss", required_argument, NULL, DAEMON_OPTION_SET },
	{ "tired-memory", required_argument, NULL, DAEMON_OPTION_SET },
	{ "dir", required_argument, NULL, DAEMON_OPTION_SET },
	{ "adopt", required_argument, NULL, DAEMON_OPTION_SET },
	{ "checkpoint", required_argument, NULL, DAEMON_OPTION_SET },
	{ "accept-loss", no_argument, NULL, DAEMON_OPTION_SET },
	{ "job", required_argument, NULL, DAEMON_OPTION_SET },
	{ "key-file", required_argument, NULL, DAEMON_OPTION_SET },
	{ "insecure", no_argument, NULL, DAEMON_OPTION_SET },
	{ "heartbeat", required_argument, NULL, DAEMON_OPTION_SET },
	{ "switch-memory", required_argument, NULL, DAEMON_OPTION_SET },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */
_Static_assert(sizeof(options) / sizeof(*options) <= DAEMON_OPTIONS_MAX, "each is seen once");

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
	if (!settings->server.workers)
		return refuse(&command_line, "workers", "",
			      "missing: the number of workers, 1 to 256");
	if (!settings->server.table_count)
		return refuse(&command_line, "table", "",
			      "missing: give at least one table, NAME,dim=N");
	for (uint32_t i = 0; i < settings->server.table_count; i++) {
		struct ps_table_options *table = &settings->tables[i].table;

		if (table->durability != PS_NONE && !*settings->folder)
			return refuse(&command_line, "dir", "",
				      "missing: give the folder where tables keep their logs");
		if (table->durability == PS_CHECKPOINT && !settings->has_interval)
			settings->server.checkpoint_ns = CHECKPOINT_S * ns_per_s;
		table->folder = settings->folder;
		table->accepts_loss = settings->accepts_loss;
	}
	listen_choose(settings);
	return -1;
}

int ps_options(struct ps_settings *settings, int argc, char **argv)
{
	const struct daemon_options it = { .name = "tally-ps",
					   .help = help,
					   .options = options,
					   .many = "table",
					   .set = set,
					   .settings = settings };
	int result;

	settings->server.tired_loss = TIRED_LOSS;
	settings->server.tables = settings->tables;
	settings->server.key = settings->key;
	settings->server.job = settings->job;
	result = daemon_options_read(&it, argc, argv);
	return result < 0 ? check(settings) : result;
}
