/* SPDX-License-Identifier: Apache-2.0 */
/* hot_options.c - the command line of tally hot. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hot/map.h"
#include "hot/zipf.h"
#include "tools/command.h"
#include "tools/hot.h"

#define COMMAND "hot"

static const char help[] =
	"tally hot - which keys of a sparse model are hot, found in a sample\n"
	"\n"
	"usage: tally hot FILE... [-o MAP] [OPTION...]      - is standard input, with --format\n"
	"       tally hot --zipf X [--keys N] [--updates N] [OPTION...]\n"
	"       tally hot FILE... --live -o MAP [--tell PID] [OPTION...]\n"
	"       tally hot --show MAP\n"
	"\n"
	"Try it, nothing is needed; then with any file of LIBSVM's page, or a click log:\n"
	"\n"
	"  tally hot --zipf 1.1 --exact --knee          a million keys, 10 million updates\n"
	"  tally hot a9a -o a9a.map --plot a9a.svg      the keys that carry half of all updates\n"
	"  zcat log.gz | tally hot - --format list --sample 4%\n"
	"\n"
	"A few keys get most of the updates; those are worth a place in the aggregator, which has "
	"little\n"
	"memory. A random part of the rows is counted, by a sketch of bounded memory; the fewest "
	"of its\n"
	"hottest keys that carry the part P of all updates are taken, if the part C of the memory "
	"holds\n"
	"them; if not, the most that it holds, and that is said. The map gives each its rank, the "
	"hottest 0.\n"
	"\n"
	"what is read (plain, gz, xz)\n"
	"  --format NAME        libsvm, list (numbers), words, criteo, avazu, u64 (8 bytes, "
	"little\n"
	"                       endian); auto: by the first line of a file (auto)\n"
	"  --columns A, A-, A-B of list and words: which of a line are keys (all)\n"
	"  --bits N             of words, criteo and avazu: keys are hashes modulo 2^N, plus 1 (64 "
	"bits)\n"
	"  --zipf X             no file: keys drawn with probabilities 1 / rank^X\n"
	"  --keys N             how many there are (1000000)\n"
	"  --updates N          how many are drawn (10000000)\n"
	"how\n"
	"  --sample P           of the rows, as in 8% or 0.08 (8%)\n"
	"  --seed S             of the sample, and of --zipf (1)\n"
	"  --counters N         of the sketch, 32 bytes each (1M)\n"
	"how many\n"
	"  --p P                of all updates (50%)\n"
	"  --knee               instead: until 1,000 more keys add less than 1 %\n"
	"  --memory SIZE        of the aggregator (20M)\n"
	"  --c P                of it for this table (10%)\n"
	"  --key-bytes N        that a key takes: 4 per value (4)\n"
	"what comes of it\n"
	"  -o, --output MAP     the keys by rank, replaced whole or not at all\n"
	"  --table N            of the map (0)\n"
	"  --map-version N      of the map (one more than that of the file there, or 1)\n"
	"  --live               a stream that goes on: the map is written again when it is not "
	"good "
	"any\n"
	"                       more, and a line says what was done\n"
	"  --every SECONDS      it looks so often (10)\n"
	"  --half-life SECONDS  it forgets: what came so long ago counts half (600)\n"
	"  --slack P            of all updates, that the map may miss and the best one not (1%)\n"
	"  --tell PID           a tally-ps, to read its maps again\n"
	"  --exact              count all rows, too: how good is the sample? An ideal one beside "
	"it\n"
	"  --plot FILE.svg      the part of all updates over the number of keys (gnuplot)\n"
	"  --emit               print the keys of --zipf, a line each, and do nothing else\n"
	"  --json               one object\n"
	"  --help, --version\n"
	"\n"
	"Precision is |Hg and Hs| / |Hg|: Hs are the keys that the sample calls hot, Hg those that "
	"the full\n"
	"count does by the same rule. An ideal sample draws as many updates one by one.\n"
	"Exit status: 0 done; 1 it failed; 2 wrong command line.\n";

enum {
	OPT_FORMAT = 256,
	OPT_COLUMNS,
	OPT_BITS,
	OPT_ZIPF,
	OPT_KEYS,
	OPT_UPDATES,
	OPT_SAMPLE,
	OPT_SEED,
	OPT_COUNTERS,
	OPT_P,
	OPT_KNEE,
	OPT_MEMORY,
	OPT_C,
	OPT_KEY_BYTES,
	OPT_TABLE,
	OPT_MAP_VERSION,
	OPT_EXACT,
	OPT_PLOT,
	OPT_EMIT,
	OPT_SHOW,
	OPT_JSON,
	OPT_HELP,
	OPT_LIVE,
	OPT_EVERY,
	OPT_HALF_LIFE,
	OPT_SLACK,
	OPT_TELL,
	OPT_OUTPUT = 'o',
};

/* clang-format off */
static const struct option long_options[] = {
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "columns", required_argument, NULL, OPT_COLUMNS },
	{ "bits", required_argument, NULL, OPT_BITS },
	{ "zipf", required_argument, NULL, OPT_ZIPF },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "updates", required_argument, NULL, OPT_UPDATES },
	{ "sample", required_argument, NULL, OPT_SAMPLE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "counters", required_argument, NULL, OPT_COUNTERS },
	{ "p", required_argument, NULL, OPT_P },
	{ "knee", no_argument, NULL, OPT_KNEE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "c", required_argument, NULL, OPT_C },
	{ "key-bytes", required_argument, NULL, OPT_KEY_BYTES },
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "table", required_argument, NULL, OPT_TABLE },
	{ "map-version", required_argument, NULL, OPT_MAP_VERSION },
	{ "exact", no_argument, NULL, OPT_EXACT },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "emit", no_argument, NULL, OPT_EMIT },
	{ "show", required_argument, NULL, OPT_SHOW },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "live", no_argument, NULL, OPT_LIVE },
	{ "every", required_argument, NULL, OPT_EVERY },
	{ "half-life", required_argument, NULL, OPT_HALF_LIFE },
	{ "slack", required_argument, NULL, OPT_SLACK },
	{ "tell", required_argument, NULL, OPT_TELL },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const struct args_number numbers[] = {
	{ OPT_BITS, 1, KEYS_BITS_MAX, offsetof(struct hot_request, bits), "a number from 1 to 32" },
	{ OPT_KEYS, 1, ZIPF_KEYS_MAX, offsetof(struct hot_request, zipf_keys), "a number from 1 to 67108864" },
	{ OPT_UPDATES, 1, UINT64_MAX, offsetof(struct hot_request, zipf_updates), "a number, at least 1" },
	{ OPT_SEED, 0, UINT64_MAX, offsetof(struct hot_request, seed), "a number" },
	{ OPT_KEY_BYTES, 1, 1 << 20, offsetof(struct hot_request, key_bytes), "a number from 1 to 1048576" },
	{ OPT_TABLE, 0, HOT_MAP_TABLE_MAX, offsetof(struct hot_request, table), "a number up to 65535" },
	{ OPT_MAP_VERSION, 1, UINT32_MAX, offsetof(struct hot_request, version), "a number from 1 to 4294967295" },
	{ OPT_TELL, 1, INT32_MAX, offsetof(struct hot_request, tell), "the number of a process" },
};

/* K, M and G may follow. */
static const struct args_number sizes[] = {
	{ OPT_COUNTERS, SKETCH_COUNTERS_MIN, SKETCH_COUNTERS_MAX, offsetof(struct hot_request, counters),
	  "a number from 16 to 256M" },
	{ OPT_MEMORY, 1, UINT64_C(1) << 50, offsetof(struct hot_request, memory), "bytes, as in 20M" },
};

/* Parts of a whole: 0.08 or 8%. */
static const struct {
	int option;
	size_t at; /* a double */
} parts[] = {
	{ OPT_SAMPLE, offsetof(struct hot_request, rate) },
	{ OPT_P, offsetof(struct hot_request, p) },
	{ OPT_C, offsetof(struct hot_request, c) },
	{ OPT_SLACK, offsetof(struct hot_request, slack) },
};

static const struct {
	int option;
	size_t at; /* a bool */
} flags[] = {
	{ OPT_KNEE, offsetof(struct hot_request, is_knee) },
	{ OPT_EXACT, offsetof(struct hot_request, is_exact) },
	{ OPT_EMIT, offsetof(struct hot_request, is_emitted) },
	{ OPT_JSON, offsetof(struct hot_request, is_json) },
	{ OPT_LIVE, offsetof(struct hot_request, is_live) },
};

static const struct args_file names[] = {
	{ OPT_OUTPUT, offsetof(struct hot_request, output) },
	{ OPT_PLOT, offsetof(struct hot_request, plot) },
	{ OPT_SHOW, offsetof(struct hot_request, show) },
};
/* clang-format on */

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

_Static_assert(COUNT(long_options) <= 64, "a bit for each");

/* strtod takes more than numbers. NULL: none. */
static const char *real_read(const char *text, double *real)
{
	char *end;

	*real = strtod(text, &end);
	return end == text || strspn(text, "+-.0123456789eE") < (size_t)(end - text) ? NULL : end;
}

static bool part_read(const char *text, double *part)
{
	double value;
	const char *end = real_read(text, &value);

	if (!end)
		return false;
	if (!strcmp(end, "%"))
		value /= 100;
	else if (*end)
		return false;
	if (!(value > 0 && value <= 1))
		return false;
	*part = value;
	return true;
}

static const char *seconds_read(const char *text, double *seconds)
{
	double value;
	const char *end = real_read(text, &value);

	if (!end || *end || !(value > 0 && value <= 1e9))
		return "seconds, above 0";
	*seconds = value;
	return NULL;
}

/* A, A- or A-B. */
static bool columns_read(const char *text, struct keys_options *keys)
{
	const char *dash = strchr(text, '-');
	uint64_t first, last;
	char number[16];

	if (!dash) {
		if (!args_number(text, 1, KEYS_COLUMN_MAX, &first))
			return false;
		last = first;
	} else {
		if ((size_t)(dash - text) >= sizeof(number))
			return false;
		memcpy(number, text, (size_t)(dash - text));
		number[dash - text] = 0;
		last = 0;
		if (!args_number(number, 1, KEYS_COLUMN_MAX, &first) ||
		    (dash[1] && !args_number(dash + 1, first, KEYS_COLUMN_MAX, &last)))
			return false;
	}
	keys->column_first = (uint32_t)first;
	keys->column_last = (uint32_t)last;
	return true;
}

/* What is wrong, or NULL; "": none of the tables has it. */
static const char *tables_read(struct hot_request *request, int option, const char *value)
{
	char *at = (char *)request;
	const char *why;
	uint64_t number;
	double part;
	bool is_set = true;

	why = args_numbers(numbers, COUNT(numbers), request, option, value);
	if (!why || *why)
		return why;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		if (sizes[i].option != option)
			continue;
		if (!args_size(value, sizes[i].min, sizes[i].max, &number))
			return sizes[i].why;
		memcpy(at + sizes[i].at, &number, sizeof(number));
		return NULL;
	}
	for (size_t i = 0; i < COUNT(parts); i++) {
		if (parts[i].option != option)
			continue;
		if (!part_read(value, &part))
			return "a part of a whole, above 0: 8% or 0.08";
		memcpy(at + parts[i].at, &part, sizeof(part));
		return NULL;
	}
	for (size_t i = 0; i < COUNT(flags); i++) {
		if (flags[i].option != option)
			continue;
		memcpy(at + flags[i].at, &is_set, sizeof(is_set));
		return NULL;
	}
	return args_files(names, COUNT(names), request, option, value);
}

static const char *value_read(void *arg, int option, const char *value)
{
	struct hot_request *request = arg;
	const char *end;

	switch (option) {
	case OPT_FORMAT:
		request->format = value;
		return keys_format_find(value, &request->keys.format)
			       ? NULL
			       : "auto, libsvm, list, words, criteo, avazu or u64";
	case OPT_COLUMNS:
		return columns_read(value, &request->keys) ? NULL : "a column from 1, or 2- or 2-5";
	case OPT_EVERY:
		return seconds_read(value, &request->every_s);
	case OPT_HALF_LIFE:
		return seconds_read(value, &request->half_life_s);
	case OPT_ZIPF:
		end = real_read(value, &request->zipf);
		return end && !*end && request->zipf >= 0 && request->zipf <= ZIPF_EXPONENT_MAX
			       ? NULL
			       : "a number from 0 to 8";
	}
	return tables_read(request, option, value);
}

static int place_of(int option)
{
	return args_place(long_options, option);
}

/* An option that means nothing without, or against, what else was asked for. */
static int misfit(const struct hot_request *request, uint64_t seen)
{
	static const struct {
		int option;
		enum { OF_FILES, OF_ZIPF, OF_MAPS, OF_ENDS, OF_LIVE } of;
	} needs[] = {
		{ OPT_FORMAT, OF_FILES }, { OPT_COLUMNS, OF_FILES },    { OPT_BITS, OF_FILES },
		{ OPT_KEYS, OF_ZIPF },    { OPT_UPDATES, OF_ZIPF },     { OPT_EMIT, OF_ZIPF },
		{ OPT_TABLE, OF_MAPS },   { OPT_MAP_VERSION, OF_MAPS }, { OPT_LIVE, OF_MAPS },
		{ OPT_LIVE, OF_FILES },   { OPT_EXACT, OF_ENDS },       { OPT_PLOT, OF_ENDS },
		{ OPT_EVERY, OF_LIVE },   { OPT_HALF_LIFE, OF_LIVE },   { OPT_SLACK, OF_LIVE },
		{ OPT_TELL, OF_LIVE },
	};
	static const char *const why[] = {
		[OF_FILES] = "is for files: leave it out with --zipf",
		[OF_ZIPF] = "needs --zipf X",
		[OF_MAPS] = "needs -o MAP",
		[OF_ENDS] = "cannot go with --live, which has no end",
		[OF_LIVE] = "needs --live",
	};
	const bool has[] = {
		[OF_FILES] = request->zipf < 0,      [OF_ZIPF] = request->zipf >= 0,
		[OF_MAPS] = request->output != NULL, [OF_ENDS] = !request->is_live,
		[OF_LIVE] = request->is_live,
	};

	for (size_t i = 0; i < COUNT(needs); i++) {
		int place = place_of(needs[i].option);
		char name[32];

		if (!(seen >> place & 1) || has[needs[i].of])
			continue;
		snprintf(name, sizeof(name), "--%s", long_options[place].name);
		return args_refuse(COMMAND, name, NULL, why[needs[i].of]);
	}
	if (request->is_knee && seen >> place_of(OPT_P) & 1)
		return args_refuse(COMMAND, "--knee", NULL,
				   "cannot go with --p: give one of the two");
	return 0;
}

static int settle(struct hot_request *request, uint64_t seen)
{
	enum keys_format format = request->keys.format;
	bool is_only = seen >> place_of(OPT_SHOW) & 1;
	uint64_t others = seen & ~(1ull << place_of(OPT_SHOW) | 1ull << place_of(OPT_JSON));
	int status;

	if (is_only && (others || request->files))
		return args_refuse(COMMAND, "--show", request->show,
				   "prints a map: give no other option but --json, and no files");
	if (is_only)
		return -1;
	status = misfit(request, seen);
	if (status)
		return status;
	if (request->zipf >= 0 && request->files)
		return args_refuse(COMMAND, request->file[0], NULL,
				   "cannot go with --zipf: give files or --zipf");
	if (request->zipf < 0 && !request->files)
		return args_refuse(COMMAND, "FILE", NULL,
				   "missing: give files, or - for standard input");
	if (request->keys.column_first && format != KEYS_LIST && format != KEYS_WORDS &&
	    format != KEYS_AUTO)
		return args_refuse(COMMAND, "--columns", NULL,
				   "is for --format list and words only");
	if (request->bits && (format == KEYS_LIST || format == KEYS_LIBSVM || format == KEYS_U64))
		return args_refuse(COMMAND, "--bits", NULL,
				   "is for --format words, criteo and avazu only");
	if (!choose_keys_max(request->memory, request->c, request->key_bytes))
		return args_refuse(COMMAND, "--memory", NULL,
				   "is too small: the part --c of it holds no key");
	request->keys.bits = (uint32_t)request->bits;
	return -1;
}

int hot_request_parse(struct hot_request *request, int argc, char **argv)
{
	uint64_t seen = 0;
	int option, status;

	*request = (struct hot_request){
		.zipf = -1,
		.zipf_keys = 1000000,
		.zipf_updates = 10000000,
		.rate = 0.08,
		.p = 0.5,
		.c = 0.1,
		.memory = 20 << 20,
		.key_bytes = 4,
		.seed = 1,
		.counters = 1 << 20,
		.every_s = 10,
		.half_life_s = 600,
		.slack = 0.01,
	};
	while ((option = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
		if (option == '?') {
			fprintf(stderr, "tally " COMMAND " --help says which there are\n");
			return EXIT_USAGE;
		}
		if (option == OPT_HELP)
			return args_print(help);
		status = args_take(COMMAND, &long_options[place_of(option)], place_of(option),
				   &seen, value_read, request, optarg);
		if (status)
			return status;
	}
	request->file = argv + optind;
	request->files = argc - optind;
	return settle(request, seen);
}
