/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - tally doctor: looks at this machine, its settings and the path to the aggregator. */
#include "tools/doctor.h"
#include "util/opt.h"

#include <stdio.h>

#include "tools/command.h"

static const char help[] =
	"tally doctor - check this machine, its settings and the path to the aggregator\n"
	"\n"
	"usage: tally doctor [OPTION...]\n"
	"\n"
	"  tally doctor                          this machine; the aggregator of the settings, if "
	"any\n"
	"  tally doctor --aggregator 10.0.0.1    and that one\n"
	"\n"
	"Prints a line for each check: ok, warn or fail, the finding, and the advice. It changes "
	"nothing.\n"
	"It tests the aggregator like a rank: TCP, then a job of one rank, whose join sends full "
	"packets\n"
	"both ways over UDP, then a sum, then about 4,000 packets, of which it counts the lost "
	"ones.\n"
	"\n"
	"  --aggregator ADDR    HOST, HOST:PORT, [V6]:PORT or local (TALLY_AGGREGATOR, "
	"tally.conf)\n"
	"  --json               one object a line: check, status, text, advice\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 no check fails; 1 one fails; 2 wrong command line.\n";

#define AT(field) OPT_FIELD(struct doctor, field)
static const struct opt table[] = {
	{ "aggregator", OPT_TEXT, AT(aggregator), .takes = "is empty: give an address" },
	{ "json", OPT_FLAG, AT(is_json) },
};
static const struct opt_command command = { .name = "tally doctor",
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

int doctor_main(int argc, char **argv)
{
	static struct doctor doctor;
	struct opt_line line;
	int status = opt_read(&command, &doctor, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	if (line.words)
		return opt_refuse(command.name, line.word[0], NULL,
				  "not an option: doctor takes options only");
	doctor_host(&doctor);
	doctor_job(&doctor);
	if (!doctor.is_json)
		printf("%u ok, %u warn, %u fail\n", doctor.found[DOCTOR_OK],
		       doctor.found[DOCTOR_WARN], doctor.found[DOCTOR_FAIL]);
	status = opt_print(command.name, "");
	return doctor.found[DOCTOR_FAIL] ? EXIT_FAILED : status;
}
