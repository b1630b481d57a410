/* SPDX-License-Identifier: Apache-2.0 */
/* hot_options.c - the command line of tally hot. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "files/hot_map.h"
#include "hot/zipf.h"
#include "tools/hot.h"
#include "util/opt.h"

static const char help[] =
	"tally hot - which keys of a sparse model are hot, found in a sample\n"
	"\n"
	"usage: tally hot FILE... [-o MAP] [OPTION...]      - is standard input, with --format\n"
	"       tally hot --zipf X [--keys N] [--updates N] [OPTION...]\n"
	"       tally hot FILE... --live -o MAP [--tell PID] [OPTION...]\n"
	"       tally hot --show MAP\n"
	"\n"
	"Try it without data first, then with any file of LIBSVM's page, or a click log:\n"
	"\n"
	"  tally hot --zipf 1.1 --exact --knee          a million keys, 10 million updates\n"
	"  tally hot a9a -o a9a.map --plot a9a.svg      the keys that carry half of all updates\n"
	"  zcat log.gz | tally hot - --format list --sample 4%\n"
	"\n"
	"A few keys get most of the updates. They are worth a place in the aggregator, which has "
	"little\n"
	"memory. tally hot counts a random part of the rows, in a sketch of bounded memory. It "
	"takes the\n"
	"fewest hottest keys that have the part P of all updates, if the part C of the memory "
	"holds them.\n"
	"If not, it takes as many as fit, and says so. The map gives each its hot index, the "
	"hottest 0.\n"
	"\n"
	"input (plain, gz, xz)\n"
	"  --format NAME        libsvm, list (numbers), words, criteo, avazu, u64 (8 bytes, "
	"little\n"
	"                       endian); auto: by the first line of a file (auto)\n"
	"  --columns A, A-, A-B for list and words: the columns that are keys (all)\n"
	"  --bits N             for words, criteo, avazu: keys are hashes modulo 2^N, plus 1 (64 "
	"bits)\n"
	"  --zipf X             no file: draw the i-th hottest key with probability ~ 1 / i^X\n"
	"  --keys N             number of keys of --zipf (1000000)\n"
	"  --updates N          number of updates of --zipf (10000000)\n"
	"counting\n"
	"  --sample P           part of the rows to count, as in 8% or 0.08 (8%)\n"
	"  --seed S             seed of the sample, and of --zipf (1)\n"
	"  --counters N         counters of the sketch, 32 bytes each (1M)\n"
	"number of hot keys\n"
	"  --p P                part of all updates that they must have (50%)\n"
	"  --knee               instead: add keys until 1,000 more add less than 1 %\n"
	"  --memory SIZE        memory of the aggregator (20M)\n"
	"  --c P                part of this memory for this table (10%)\n"
	"  --key-bytes N        memory of a key: 4 per value (4)\n"
	"output\n"
	"  -o, --output MAP     the keys, hottest first; the file is replaced whole or not at all\n"
	"  --table N            number of the map's table (0)\n"
	"  --map-version N      version of the map (one more than that of the old file, or 1)\n"
	"  --live               for an endless stream: write the map again when a better one is "
	"found\n"
	"  --every SECONDS      time between two comparisons (10)\n"
	"  --half-life SECONDS  time after which an update counts half (600)\n"
	"  --slack P            write the map again if the best one has this much more updates "
	"(1%)\n"
	"  --tell PID           process of tally-ps, which then reads its maps again\n"
	"  --exact              also count all rows, and compare the sample, and an ideal one\n"
	"  --plot FILE.svg      plot the part of all updates over the number of keys (gnuplot)\n"
	"  --emit               print the keys of --zipf, a line each, and do nothing else\n"
	"  --json               print one JSON object\n"
	"  --help, --version\n"
	"\n"
	"Precision is |Hg and Hs| / |Hg|: Hs are the hot keys by the sample, Hg those by the full "
	"count,\n"
	"by the same rule. An ideal sample draws as many updates one by one.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line.\n";

/* A, A- or A-B. */
static const char *columns_take(struct opt_value *value)
{
	static const char wrong[] = "a column from 1, or 2- or 2-5";
	struct hot_request *request = value->request;
	const char *dash = strchrnul(value->text, '-');
	uint64_t first, last = 0;
	char number[16] = "";

	if ((size_t)(dash - value->text) >= sizeof(number))
		return wrong;
	memcpy(number, value->text, (size_t)(dash - value->text));
	if (!opt_number(number, 1, KEYS_COLUMN_MAX, &first))
		return wrong;
	if (!*dash)
		last = first;
	else if (dash[1] && !opt_number(dash + 1, first, KEYS_COLUMN_MAX, &last))
		return wrong;
	request->keys.column_first = (uint32_t)first;
	request->keys.column_last = (uint32_t)last;
	return NULL;
}

#define AT(field) OPT_FIELD(struct hot_request, field)
/* clang-format off */
static const struct opt table[] = {
	{ "format", OPT_CHOICE, AT(keys.format), .names = keys_format_names,
	  .takes = "auto, libsvm, list, words, criteo, avazu or u64" },
	{ "columns", OPT_CALL, .call = columns_take },
	{ "bits", OPT_NUMBER, AT(keys.bits), .min = 1, .max = KEYS_BITS_MAX },
	{ "zipf", OPT_REAL, AT(zipf), .high = ZIPF_EXPONENT_MAX },
	{ "keys", OPT_NUMBER, AT(zipf_keys), .min = 1, .max = ZIPF_KEYS_MAX },
	{ "updates", OPT_NUMBER, AT(zipf_updates), .min = 1 },
	{ "sample", OPT_PART, AT(rate) },
	{ "seed", OPT_NUMBER, AT(seed) },
	{ "counters", OPT_SIZE, AT(counters), .min = SKETCH_COUNTERS_MIN, .max = SKETCH_COUNTERS_MAX,
	  .takes = "a number from 16 to 256M" },
	{ "p", OPT_PART, AT(p) },
	{ "knee", OPT_FLAG, AT(is_knee) },
	{ "memory", OPT_SIZE, AT(memory), .min = 1, .max = UINT64_C(1) << 50, .takes = "bytes, as in 20M" },
	{ "c", OPT_PART, AT(c) },
	{ "key-bytes", OPT_NUMBER, AT(key_bytes), .min = 1, .max = 1 << 20 },
	{ "output", OPT_TEXT, 'o', AT(output), .takes = "the name of a file" },
	{ "table", OPT_NUMBER, AT(table), .max = HOT_MAP_TABLE_MAX },
	{ "map-version", OPT_NUMBER, AT(version), .min = 1, .max = UINT32_MAX },
	{ "exact", OPT_FLAG, AT(is_exact) },
	{ "plot", OPT_TEXT, AT(plot), .takes = "the name of a file" },
	{ "emit", OPT_FLAG, AT(is_emitted) },
	{ "show", OPT_TEXT, AT(show), .takes = "the name of a file" },
	{ "json", OPT_FLAG, AT(is_json) },
	{ "live", OPT_FLAG, AT(is_live) },
	{ "every", OPT_REAL, AT(every_s), .low = DBL_TRUE_MIN, .high = 1e9, .takes = "seconds, above 0" },
	{ "half-life", OPT_REAL, AT(half_life_s), .low = DBL_TRUE_MIN, .high = 1e9, .takes = "seconds, above 0" },
	{ "slack", OPT_PART, AT(slack) },
	{ "tell", OPT_NUMBER, AT(tell), .min = 1, .max = INT32_MAX, .takes = "the number of a process" },
};
/* clang-format on */
static const struct opt_command command = { .name = "tally hot",
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

static int refuse(const char *name, const char *value, const char *why)
{
	return opt_refuse(command.name, name, value, why);
}

/* An option that means nothing without, or against, what else was asked for. */
static int misfit(const struct hot_request *request, const struct opt_line *line)
{
	static const struct {
		const char *option;
		enum { OF_FILES, OF_ZIPF, OF_MAPS, OF_ENDS, OF_LIVE } of;
	} needs[] = {
		{ "format", OF_FILES }, { "columns", OF_FILES },    { "bits", OF_FILES },
		{ "keys", OF_ZIPF },    { "updates", OF_ZIPF },     { "emit", OF_ZIPF },
		{ "table", OF_MAPS },   { "map-version", OF_MAPS }, { "live", OF_MAPS },
		{ "live", OF_FILES },   { "exact", OF_ENDS },       { "plot", OF_ENDS },
		{ "every", OF_LIVE },   { "half-life", OF_LIVE },   { "slack", OF_LIVE },
		{ "tell", OF_LIVE },
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

	for (size_t i = 0; i < OPT_COUNT(needs); i++) {
		char name[32];

		if (!opt_has(&command, line, needs[i].option) || has[needs[i].of])
			continue;
		snprintf(name, sizeof(name), "--%s", needs[i].option);
		return refuse(name, NULL, why[needs[i].of]);
	}
	if (request->is_knee && opt_has(&command, line, "p"))
		return refuse("--knee", NULL, "cannot go with --p: give one of the two");
	return 0;
}

static int settle(struct hot_request *request, const struct opt_line *line)
{
	enum keys_format format = request->keys.format;
	int others = __builtin_popcountll(line->seen) - 1 - request->is_json, status;

	if (request->show && (others || request->files))
		return refuse("--show", request->show,
			      "prints a map: give no other option but --json, and no files");
	if (request->show)
		return -1;
	status = misfit(request, line);
	if (status)
		return status;
	if (request->zipf >= 0 && request->files)
		return refuse(request->file[0], NULL,
			      "cannot go with --zipf: give files or --zipf");
	if (request->zipf < 0 && !request->files)
		return refuse("FILE", NULL, "missing: give files, or - for standard input");
	if (request->keys.column_first && format != KEYS_LIST && format != KEYS_WORDS &&
	    format != KEYS_AUTO)
		return refuse("--columns", NULL, "is for --format list and words only");
	if (request->keys.bits &&
	    (format == KEYS_LIST || format == KEYS_LIBSVM || format == KEYS_U64))
		return refuse("--bits", NULL, "is for --format words, criteo and avazu only");
	if (!choose_keys_max(request->memory, request->c, request->key_bytes))
		return refuse("--memory", NULL, "is too small: the part --c of it holds no key");
	return -1;
}

int hot_request_parse(struct hot_request *request, int argc, char **argv)
{
	struct opt_line line;
	int status;

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
	status = opt_read(&command, request, argc, argv, &line);
	if (status != OPT_GO_ON)
		return status;
	request->file = line.word;
	request->files = line.words;
	return settle(request, &line);
}
