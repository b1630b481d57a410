/* SPDX-License-Identifier: Apache-2.0 */
/* opt.c - see opt.h. */
#include "util/opt.h"

#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	VAL_FIRST = 256,
	VAL_HELP = VAL_FIRST + OPT_MAX,
	VAL_VERSION
};

/* ---- values ---- */

/* The digits at the start of text; NULL: none, or above max. */
static const char *digits_read(const char *text, uint64_t max, uint64_t *number)
{
	uint64_t sum = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (sum > max / 10 || digit > max - sum * 10)
			return NULL;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return at == text ? NULL : at;
}

bool opt_number(const char *text, uint64_t min, uint64_t max, uint64_t *to)
{
	uint64_t sum;
	const char *end = digits_read(text, max, &sum);

	if (!end || *end || sum < min)
		return false;
	*to = sum;
	return true;
}

bool opt_size(const char *text, uint64_t min, uint64_t max, uint64_t *to)
{
	static const char units[] = "KMG";
	uint64_t sum;
	const char *end = digits_read(text, max, &sum), *unit;

	if (!end)
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (sum > max >> shift)
			return false;
		sum <<= shift;
		end++;
	}
	if (*end || sum < min)
		return false;
	*to = sum;
	return true;
}

bool opt_seconds(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *to_ms)
{
	uint64_t whole, part = 0, unit = 1000;
	const char *at = digits_read(text, max_ms / 1000, &whole);

	if (!at)
		return false;
	if (*at == '.') {
		for (at++; *at >= '0' && *at <= '9' && unit > 1; at++) {
			unit /= 10;
			part += unit * (uint64_t)(*at - '0');
		}
		if (unit == 1000)
			return false;
	}
	part += 1000 * whole;
	if (*at || part < min_ms || part > max_ms)
		return false;
	*to_ms = part;
	return true;
}

/* Where the number ends; NULL: it is none. */
static const char *real_read(const char *text, double *real)
{
	char *end;

	*real = strtod(text, &end);
	return end == text || strspn(text, "+-.0123456789eE") < (size_t)(end - text) ? NULL : end;
}

bool opt_real(const char *text, double low, double high, double *to)
{
	double real;
	const char *end = real_read(text, &real);

	if (!end || *end || !(real >= low && real <= high))
		return false;
	*to = real;
	return true;
}

static bool part_read(const char *text, double *part)
{
	double value;
	const char *end = real_read(text, &value);

	if (!end || (*end && strcmp(end, "%") != 0))
		return false;
	if (*end)
		value /= 100;
	if (!(value > 0 && value <= 1))
		return false;
	*part = value;
	return true;
}

static bool choice_read(const char *const *names, const char *text, uint64_t *index)
{
	for (*index = 0; names[*index]; ++*index)
		if (!strcmp(names[*index], text))
			return true;
	return false;
}

/* ---- one option ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "a number's first bytes are its low ones");

/* A number as wide as its field. */
static void whole_put(void *to, size_t bytes, uint64_t number)
{
	memcpy(to, &number, bytes);
}

static void real_put(void *to, size_t bytes, double real)
{
	float narrow = (float)real;

	if (bytes == sizeof(narrow))
		memcpy(to, &narrow, bytes);
	else
		memcpy(to, &real, bytes);
}

static const char *range_say(struct opt_value *value)
{
	const struct opt *opt = value->opt;
	const size_t bytes = sizeof(value->why);

	if (opt->takes)
		return opt->takes;
	if (opt->kind == OPT_REAL)
		snprintf(value->why, bytes, "a number from %g to %g", opt->low, opt->high);
	else if (opt->max && opt->min)
		snprintf(value->why, bytes, "a number from %" PRIu64 " to %" PRIu64, opt->min,
			 opt->max);
	else if (opt->max)
		snprintf(value->why, bytes, "a number up to %" PRIu64, opt->max);
	else if (opt->min)
		snprintf(value->why, bytes, "a number, at least %" PRIu64, opt->min);
	else
		return "a number";
	return value->why;
}

static bool whole_read(const struct opt *opt, const char *value, uint64_t *number)
{
	uint64_t max = opt->max ? opt->max : UINT64_MAX;

	if (opt->kind == OPT_SIZE)
		return opt_size(value, opt->min, max, number);
	if (opt->kind == OPT_SECONDS)
		return opt_seconds(value, opt->min, max, number);
	return opt_number(value, opt->min, max, number) && (!opt->step || *number % opt->step == 0);
}

static const char *text_take(const struct opt *opt, char *to, const char *value)
{
	if (!*value && !opt->may_be_empty)
		return opt->takes ? opt->takes : "is empty: give a value";
	if (opt->kind == OPT_TEXT)
		memcpy(to, &value, sizeof(value));
	else if (strlen(value) >= opt->bytes)
		return "too long";
	else
		strcpy(to, value);
	return NULL;
}

static const char *flag_take(char *to, const char *value)
{
	bool is_set = strcmp(value, "0") != 0;

	if (*value && strcmp(value, "1") != 0 && is_set)
		return "1, 0 or nothing";
	memcpy(to, &is_set, sizeof(is_set));
	return NULL;
}

const char *opt_take(struct opt_value *value)
{
	const struct opt *opt = value->opt;
	const char *text = value->text ? value->text : "";
	char *to = (char *)value->request + opt->at;
	uint64_t number;
	double real;

	if (opt->instead && !strcmp(text, opt->instead))
		return NULL;
	switch (opt->kind) {
	case OPT_FLAG:
		return flag_take(to, text);
	case OPT_UNSET:
		return flag_take(to, "0");
	case OPT_NUMBER:
	case OPT_SIZE:
	case OPT_SECONDS:
		if (!whole_read(opt, text, &number))
			return range_say(value);
		whole_put(to, opt->bytes, opt->unit ? number * opt->unit : number);
		return NULL;
	case OPT_REAL:
		if (!opt_real(text, opt->low, opt->high, &real))
			return range_say(value);
		real_put(to, opt->bytes, real);
		return NULL;
	case OPT_PART:
		if (!part_read(text, &real))
			return "a part of a whole, above 0: 8% or 0.08";
		real_put(to, opt->bytes, real);
		return NULL;
	case OPT_CHOICE:
		if (!choice_read(opt->names, text, &number))
			return opt->takes;
		whole_put(to, opt->bytes, number);
		return NULL;
	case OPT_TEXT:
	case OPT_COPY:
		return text_take(opt, to, text);
	default:
		return opt->call(value);
	}
}

static double real_get(const void *at, size_t bytes)
{
	float narrow;
	double real;

	memcpy(&narrow, at, sizeof(narrow));
	if (bytes == sizeof(narrow))
		return (double)narrow;
	memcpy(&real, at, sizeof(real));
	return real;
}

const char *opt_text(const struct opt *opt, const void *request, char text[OPT_TEXT_BYTES])
{
	const char *at = (const char *)request + opt->at, *word;
	uint64_t number = 0;

	if (opt->bytes <= sizeof(number))
		memcpy(&number, at, opt->bytes);
	switch (opt->kind) {
	case OPT_FLAG:
		return number ? "1" : "0";
	case OPT_UNSET:
		return number ? "0" : "1";
	case OPT_NUMBER:
	case OPT_SIZE:
		snprintf(text, OPT_TEXT_BYTES, "%" PRIu64, number / (opt->unit ? opt->unit : 1));
		return text;
	case OPT_SECONDS:
		snprintf(text, OPT_TEXT_BYTES, "%g", (double)number / 1000);
		return text;
	case OPT_REAL:
	case OPT_PART: /* 17 digits tell any two numbers apart */
		snprintf(text, OPT_TEXT_BYTES, "%.17g", real_get(at, opt->bytes));
		return text;
	case OPT_CHOICE:
		return opt->names[number];
	case OPT_TEXT:
		memcpy(&word, at, sizeof(word));
		return word ? word : "";
	case OPT_COPY:
		return at;
	default:
		return "";
	}
}

bool opt_has_value(const struct opt *opt)
{
	return opt->kind != OPT_FLAG && opt->kind != OPT_UNSET && opt->kind != OPT_DO;
}

const struct opt *opt_find(const struct opt *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

/* ---- a command line ---- */

int opt_refuse(const char *command, const char *what, const char *value, const char *why)
{
	fprintf(stderr, "%s: %s%s%s: %s (%s --help)\n", command, what, value ? " " : "",
		!value   ? ""
		: *value ? value
			 : "''",
		why, command);
	return EXIT_USAGE;
}

int opt_print(const char *command, const char *text)
{
	fputs(text, stdout);
	if (!fflush(stdout))
		return 0;
	fprintf(stderr, "%s: ", command);
	perror("stdout");
	return EXIT_FAILED;
}

int opt_end(const char *command, int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fprintf(stderr, "%s: not all could be written to stdout\n", command);
	return status ? status : EXIT_FAILED;
}

/* The table as getopt_long has it. */
static void getopt_make(const struct opt_command *command, struct option option[OPT_MAX + 3],
			char letters[2 * OPT_MAX + 3])
{
	size_t at = 0;
	int count = 0;

	assert(command->count <= OPT_MAX);
	if (command->ends_at_word)
		letters[at++] = '+';
	for (; count < (int)command->count; count++) {
		const struct opt *opt = &command->table[count];

		option[count] =
			(struct option){ opt->name, opt_has_value(opt), NULL, VAL_FIRST + count };
		if (!opt->letter)
			continue;
		letters[at++] = opt->letter;
		if (opt_has_value(opt))
			letters[at++] = ':';
	}
	if (command->help)
		letters[at++] = 'h';
	letters[at] = '\0';
	if (command->help)
		option[count++] = (struct option){ "help", no_argument, NULL, VAL_HELP };
	if (command->version)
		option[count++] = (struct option){ "version", no_argument, NULL, VAL_VERSION };
	option[count] = (struct option){ NULL, 0, NULL, 0 };
}

static size_t index_of(const struct opt_command *command, int val)
{
	size_t i = 0;

	if (val >= VAL_FIRST)
		return (size_t)(val - VAL_FIRST);
	while (command->table[i].letter != val)
		i++;
	return i;
}

static uint64_t bit_of(const struct opt_command *command, const char *name)
{
	const struct opt *opt = opt_find(command->table, command->count, name);

	assert(opt);
	return UINT64_C(1) << (opt - command->table);
}

static int take(const struct opt_command *command, void *request, size_t index,
		struct opt_line *line, uint64_t *groups)
{
	const struct opt *opt = &command->table[index];
	uint64_t group = bit_of(command, opt->same ? opt->same : opt->name);
	struct opt_value value = { .opt = opt, .request = request, .text = optarg };
	const char *wrong;
	char name[64];

	if (!opt->is_many && *groups & group)
		wrong = "is given twice, or contradicts an earlier option: take one out";
	else
		wrong = opt_take(&value);
	*groups |= group;
	line->seen |= UINT64_C(1) << index;
	if (!wrong)
		return OPT_GO_ON;
	snprintf(name, sizeof(name), "--%s", opt->name);
	return opt_refuse(command->name, name, optarg, wrong);
}

int opt_read(const struct opt_command *command, void *request, int argc, char **argv,
	     struct opt_line *line)
{
	struct option option[OPT_MAX + 3];
	char letters[2 * OPT_MAX + 3];
	int val, status = OPT_GO_ON;
	uint64_t groups = 0;

	*line = (struct opt_line){ .seen = 0 };
	getopt_make(command, option, letters);
	optind = 0; /* glibc: begin anew */
	while (status == OPT_GO_ON &&
	       (val = getopt_long(argc, argv, letters, option, NULL)) != -1) {
		if (val == '?') {
			fprintf(stderr, "%s --help says which there are\n", command->name);
			return EXIT_USAGE;
		}
		if (val == VAL_HELP || val == VAL_VERSION || val == 'h')
			return opt_print(command->name,
					 val == VAL_VERSION ? command->version : command->help);
		status = take(command, request, index_of(command, val), line, &groups);
	}
	line->word = argv + optind;
	line->words = argc - optind;
	return status;
}

bool opt_has(const struct opt_command *command, const struct opt_line *line, const char *name)
{
	return line->seen & bit_of(command, name);
}
