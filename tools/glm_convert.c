/* SPDX-License-Identifier: Apache-2.0 */
/* glm_convert.c - tally glm convert: images and tables as the rows that tally glm train reads. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "glm/convert.h"
#include "tools/command.h"
#include "tools/glm.h"

#define COMMAND "glm convert"

enum { COLUMN_MAX = 1 << 30 };

static const char help[] =
	"tally glm convert - images or a table as the rows that tally glm train reads\n"
	"\n"
	"usage: tally glm convert IMAGES LABELS -o OUT [--scaled]\n"
	"       tally glm convert TABLE.csv -o OUT [--label COLUMN] [--separator C]\n"
	"\n"
	"  F=/usr/share/datasets/fashion-mnist     # Debian: dataset-fashion-mnist\n"
	"  tally glm convert $F/train-images-idx3-ubyte.gz $F/train-labels-idx1-ubyte.gz -o "
	"fashion\n"
	"  tally glm convert measured.csv --label quality -o measured\n"
	"\n"
	"Two files are idx, as MNIST's: a feature per pixel. One file is a table of numbers: a "
	"line "
	"per\n"
	"row, a feature per column. Zeros are left out. Files may be plain, gz or xz; OUT is "
	"replaced whole\n"
	"or not at all.\n"
	"\n"
	"  -o, --output FILE   where the rows go\n"
	"  --scaled            pixels are 0 to 1, not 0 to 255\n"
	"  --label COLUMN      a number from 1 or a name of the first line, which is then no row "
	"(1)\n"
	"  --separator C       one character, or tab (,)\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 done; 1 it failed; 2 wrong command line.\n";

struct request {
	const char *output, *label, *separator;
	bool is_scaled;
	const char *file[2];
	int files;
};

enum { OPT_SCALED = 256, OPT_LABEL, OPT_SEPARATOR, OPT_HELP };

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "scaled", no_argument, NULL, OPT_SCALED },
	{ "label", required_argument, NULL, OPT_LABEL },
	{ "separator", required_argument, NULL, OPT_SEPARATOR },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* What options and files mean together. -1: go on. */
static int request_settle(const struct request *request)
{
	if (!request->files)
		return args_refuse(COMMAND, "FILE", NULL,
				   "missing: give a table, or images and their labels");
	if (!request->output)
		return args_refuse(COMMAND, "-o", NULL, "missing: -o FILE is where the rows go");
	if (request->files == 1 && request->is_scaled)
		return args_refuse(COMMAND, "--scaled", NULL, "is for images, which are two files");
	if (request->files == 2 && request->label)
		return args_refuse(COMMAND, "--label", NULL, "is for a table, which is one file");
	if (request->files == 2 && request->separator)
		return args_refuse(COMMAND, "--separator", NULL,
				   "is for a table, which is one file");
	return -1;
}

static int request_parse(struct request *request, int argc, char **argv)
{
	uint64_t seen = 0;
	int option;

	while ((option = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
		int place = option == 'o' ? 0 : option - OPT_SCALED + 1;

		if (option == '?') {
			fprintf(stderr, "tally " COMMAND " --help says which there are\n");
			return EXIT_USAGE;
		}
		if (option == OPT_HELP)
			return args_print(help);
		if (!args_once(&seen, place))
			return args_twice(COMMAND, long_options[place].name, optarg);
		if (option == 'o')
			request->output = optarg;
		else if (option == OPT_SCALED)
			request->is_scaled = true;
		else if (option == OPT_LABEL)
			request->label = optarg;
		else
			request->separator = strcmp(optarg, "tab") != 0 ? optarg : "\t";
	}
	if (request->separator && strlen(request->separator) != 1)
		return args_refuse(COMMAND, "--separator", request->separator,
				   "must be one character, or tab");
	if (argc - optind > 2)
		return args_refuse(COMMAND, argv[optind + 2], NULL,
				   "is one file too many: give two at most");
	while (optind < argc)
		request->file[request->files++] = argv[optind++];
	return request_settle(request);
}

int glm_convert_main(int argc, char **argv)
{
	struct request request = { .files = 0 };
	struct convert_csv csv = { .label = 1 };
	struct convert_done done;
	char error[GLM_ERROR_MAX];
	uint64_t column;
	int status = request_parse(&request, argc, argv);

	if (status >= 0)
		return status;
	if (request.separator)
		csv.separator = request.separator[0];
	if (request.label && args_number(request.label, 1, COLUMN_MAX, &column))
		csv.label = (uint32_t)column;
	else if (request.label)
		csv = (struct convert_csv){ .separator = csv.separator,
					    .label_name = request.label };
	status = request.files == 2
			 ? convert_idx(request.file[0], request.file[1], request.output,
				       request.is_scaled, &done, error)
			 : convert_csv(request.file[0], request.output, &csv, &done, error);
	if (status) {
		fprintf(stderr, "tally " COMMAND ": %s\n", error);
		return EXIT_FAILED;
	}
	printf("%s: %" PRIu64 " rows, %" PRIu64 " features\n", request.output, done.rows,
	       done.features);
	return EXIT_DONE;
}
