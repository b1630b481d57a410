/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - tally doctor: looks at this machine, its settings and the path to the aggregator. */
#include "tools/doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/command.h"

enum { TEXT_BYTES = 1024 };

static const char help[] =
	"tally doctor - look at this machine, its settings and the path to the aggregator\n"
	"\n"
	"usage: tally doctor [OPTION...]\n"
	"\n"
	"  tally doctor                          this machine; the aggregator of the settings, if "
	"any\n"
	"  tally doctor --aggregator 10.0.0.1    and that one\n"
	"\n"
	"A line for each thing: ok, warn or fail, what was found, and what to do about it. Nothing "
	"is\n"
	"changed. The aggregator is tested as a rank would: TCP, then a job of one rank, whose "
	"join\n"
	"sends full packets both ways over UDP, then a sum, then some 4,000 packets: how many are "
	"lost?\n"
	"\n"
	"  --aggregator ADDR    HOST, HOST:PORT, [V6]:PORT or local (TALLY_AGGREGATOR, "
	"tally.conf)\n"
	"  --json               one object a line: check, status, text, advice\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 nothing fails; 1 something does; 2 wrong command line.\n";

static const char *const status_names[DOCTOR_STATUSES] = { "ok", "warn", "fail" };

static void json_say(enum doctor_status status, const char *check, const char *advice,
		     const char *text)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status",
				   status_names[status], "text", text, "advice", advice);
	char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;

	puts(line ? line : "{}");
	free(line);
	json_decref(object);
}

void doctor_say(struct doctor *doctor, enum doctor_status status, const char *check,
		const char *advice, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f || *at & 0x80)
			*at = '?';
	doctor->found[status]++;
	if (doctor->is_json) {
		json_say(status, check, advice, text);
		return;
	}
	printf("%-5s %-16s %s\n", status_names[status], check, text);
	if (advice)
		printf("%-5s %-16s -> %s\n", "", "", advice);
}

/* -1: go on; else the exit status. */
static int parse(struct doctor *doctor, int argc, char **argv)
{
	static const struct option options[] = {
		{ "aggregator", required_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seen = 0;
	int option, index = 0;

	while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (option == '?') {
			fprintf(stderr, "tally doctor --help says which there are\n");
			return EXIT_USAGE;
		}
		if (!args_once(&seen, option % 32))
			return args_twice("doctor", options[index].name, optarg);
		if (option == 'h')
			return args_print(help);
		if (option == 'j')
			doctor->is_json = true;
		else if (*optarg)
			doctor->aggregator = optarg;
		else
			return args_refuse("doctor", "--aggregator", "''",
					   "is empty: give an address");
	}
	return optind < argc ? args_refuse("doctor", argv[optind], NULL,
					   "not an option: doctor takes options only")
			     : -1;
}

int doctor_main(int argc, char **argv)
{
	static struct doctor doctor;
	int status = parse(&doctor, argc, argv);

	if (status >= 0)
		return status;
	doctor_host(&doctor);
	doctor_job(&doctor);
	if (!doctor.is_json)
		printf("%u ok, %u warn, %u fail\n", doctor.found[DOCTOR_OK],
		       doctor.found[DOCTOR_WARN], doctor.found[DOCTOR_FAIL]);
	status = args_print("");
	return doctor.found[DOCTOR_FAIL] ? EXIT_FAILED : status;
}
