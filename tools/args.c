/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - see command.h. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "util/commit.h"

/* The digits at the start of text; NULL: none, or above max. */
static const char *digits_read(const char *text, uint64_t max, uint64_t *number)
{
	uint64_t sum = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (sum > (max - digit) / 10)
			return NULL;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return at == text ? NULL : at;
}

bool args_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	uint64_t sum;
	const char *end = digits_read(text, max < 10 ? 10 : max, &sum);

	if (!end || *end || sum < min || sum > max)
		return false;
	*number = sum;
	return true;
}

bool args_size(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	static const char units[] = "KMG";
	uint64_t sum;
	const char *end = digits_read(text, max < 10 ? 10 : max, &sum), *unit;

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
	if (*end || sum < min || sum > max)
		return false;
	*number = sum;
	return true;
}

bool args_seconds(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *ms)
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
	*ms = part;
	return true;
}

int args_refuse(const char *command, const char *name, const char *value, const char *why)
{
	if (value)
		fprintf(stderr, "tally %s: %s %s: %s (tally %s --help)\n", command, name, value,
			why, command);
	else
		fprintf(stderr, "tally %s: %s: %s (tally %s --help)\n", command, name, why,
			command);
	return EXIT_USAGE;
}

bool args_once(uint64_t *seen, int group)
{
	uint64_t bit = 1ull << group;
	bool is_first = !(*seen & bit);

	*seen |= bit;
	return is_first;
}

int args_twice(const char *command, const char *option, const char *value)
{
	fprintf(stderr,
		"tally %s: --%s%s%s: is given twice, or contradicts an earlier option: "
		"take one out (tally %s --help)\n",
		command, option, value ? " " : "", value ? value : "", command);
	return EXIT_USAGE;
}

const char *args_numbers(const struct args_number *table, size_t count, void *request, int option,
			 const char *value)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t number;

		if (table[i].option != option)
			continue;
		if (!args_number(value, table[i].min, table[i].max, &number))
			return table[i].why;
		memcpy((char *)request + table[i].at, &number, sizeof(number));
		return NULL;
	}
	return "";
}

const char *args_files(const struct args_file *table, size_t count, void *request, int option,
		       const char *value)
{
	for (size_t i = 0; i < count; i++) {
		if (table[i].option != option)
			continue;
		memcpy((char *)request + table[i].at, &value, sizeof(value));
		return *value ? NULL : "the name of a file";
	}
	return "";
}

int args_place(const struct option *options, int val)
{
	int i = 0;

	while (options[i].val != val)
		i++;
	return i;
}

int args_take(const char *command, const struct option *option, int group, uint64_t *seen,
	      args_reader *read, void *request, const char *value)
{
	const char *why;
	char name[32];

	if (!args_once(seen, group))
		return args_twice(command, option->name, value);
	why = read(request, option->val, value);
	if (!why)
		return 0;
	snprintf(name, sizeof(name), "--%s", option->name);
	return args_refuse(command, name, value, why);
}

int args_print(const char *text)
{
	fputs(text, stdout);
	if (fflush(stdout)) {
		perror("tally: stdout");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

int args_version(void)
{
	return args_print(*TALLY_COMMIT ? "tally " TALLY_VERSION " (commit " TALLY_COMMIT ")\n"
					: "tally " TALLY_VERSION "\n");
}
