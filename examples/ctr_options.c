/* SPDX-License-Identifier: Apache-2.0 */
/* ctr_options.c - what ctr.c and deep.c are told on their command lines. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/ctr.h"

enum { CHOICES_MAX = 32 };

static const struct choice of_all[] = {
	{ "test", CHOICE_TEXT, &want.test },
	{ "epochs", CHOICE_U32, &want.epochs },
	{ "batch", CHOICE_U32, &want.batch },
	{ "ahead", CHOICE_U32, &want.ahead },
	{ "seed", CHOICE_U64, &want.seed },
	{ "json", CHOICE_FLAG, &want.is_json },
	{ "reference", CHOICE_FLAG, &want.is_reference },
	{ NULL, CHOICE_FLAG, NULL },
};

void options_refuse(const char *usage)
{
	fputs(usage, stderr);
	exit(2);
}

static bool choose(const struct choice *choice, const char *text)
{
	uint64_t number = 0;
	char *end = NULL;

	errno = 0;
	if (choice->kind >= CHOICE_U32)
		number = strtoull(text, &end, 10);
	if ((end && (end == text || *end)) || errno ||
	    (choice->kind == CHOICE_U32 && number > UINT32_MAX))
		return false;
	if (choice->kind == CHOICE_FLAG)
		*(bool *)choice->at = true;
	else if (choice->kind == CHOICE_TEXT)
		*(const char **)choice->at = text;
	else if (choice->kind == CHOICE_U32)
		*(uint32_t *)choice->at = (uint32_t)number;
	else
		*(uint64_t *)choice->at = number;
	return true;
}

void options_read(int argc, char **argv, const struct choice *own, const char *usage)
{
	const struct choice *choices[CHOICES_MAX], *lists[] = { of_all, own };
	struct option known[CHOICES_MAX + 2] = { { "help", no_argument, NULL, CHOICES_MAX } };
	int count = 0, found;

	for (int i = 0; i < 2; i++) {
		for (const struct choice *it = lists[i]; it->name && count < CHOICES_MAX; it++) {
			choices[count] = it;
			known[count + 1] = (struct option){
				it->name, it->kind == CHOICE_FLAG ? no_argument : required_argument,
				NULL, count
			};
			count++;
		}
	}
	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == CHOICES_MAX)
			exit(fputs(usage, stdout) < 0);
		if (found >= count || !choose(choices[found], optarg))
			options_refuse(usage);
	}
	if (want.is_reference) /* it is what others are measured by */
		want.ahead = 0;
	want.train = argv[optind];
	if (!want.batch || (want.train && argv[optind + 1]))
		options_refuse(usage);
}
