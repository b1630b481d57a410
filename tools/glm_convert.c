/* SPDX-License-Identifier: Apache-2.0 */
/* glm_convert.c - tally glm convert: images and tables as the rows that tally glm train reads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "glm/convert.h"
#include "tools/command.h"
#include "tools/glm.h"
#include "util/opt.h"

#define COMMAND "glm convert"

enum { COLUMN_MAX = 1 << 30 };

static const char help[] =
	"tally glm convert - make rows for tally glm train from images or a table\n"
	"\n"
	"usage: tally glm convert IMAGES LABELS -o OUT [--scaled]\n"
	"       tally glm convert TABLE.csv -o OUT [--label COLUMN] [--separator C]\n"
	"\n"
	"  F=/usr/share/datasets/fashion-mnist     # Debian: dataset-fashion-mnist\n"
	"  tally glm convert $F/train-images-idx3-ubyte.gz $F/train-labels-idx1-ubyte.gz -o "
	"fashion\n"
	"  tally glm convert measured.csv --label quality -o measured\n"
	"\n"
	"Two files must be idx, as MNIST's: a feature per pixel. One file must be a table of "
	"numbers: a\n"
	"line per row, a feature per column. Zeros are left out. Files may be plain, gz or xz. OUT "
	"is\n"
	"replaced whole or not at all.\n"
	"\n"
	"  -o, --output FILE   file for the rows\n"
	"  --scaled            pixels are 0 to 1, not 0 to 255\n"
	"  --label COLUMN      number from 1, or a name in the first line, which is then no row "
	"(1)\n"
	"  --separator C       one character, or tab (,)\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line.\n";

struct request {
	const char *output, *label, *separator;
	bool is_scaled;
	const char *file[2];
	int files;
};

#define AT(field) OPT_FIELD(struct request, field)
static const struct opt table[] = {
	{ "output", OPT_TEXT, 'o', AT(output), .takes = "the name of a file" },
	{ "scaled", OPT_FLAG, AT(is_scaled) },
	{ "label", OPT_TEXT, AT(label) },
	{ "separator", OPT_TEXT, AT(separator), .takes = "must be one character, or tab" },
};
static const struct opt_command command = { .name = "tally " COMMAND,
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

static int refuse(const char *name, const char *value, const char *why)
{
	return opt_refuse(command.name, name, value, why);
}

/* What options and files mean together. -1: go on. */
static int request_settle(const struct request *request)
{
	if (!request->files)
		return refuse("FILE", NULL, "missing: give a table, or images and their labels");
	if (!request->output)
		return refuse("-o", NULL, "missing: -o FILE is where the rows go");
	if (request->files == 1 && request->is_scaled)
		return refuse("--scaled", NULL, "is for images, which are two files");
	if (request->files == 2 && request->label)
		return refuse("--label", NULL, "is for a table, which is one file");
	if (request->files == 2 && request->separator)
		return refuse("--separator", NULL, "is for a table, which is one file");
	return -1;
}

static int request_parse(struct request *request, int argc, char **argv)
{
	struct opt_line line;
	int status = opt_read(&command, request, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	if (request->separator && !strcmp(request->separator, "tab"))
		request->separator = "\t";
	if (request->separator && strlen(request->separator) != 1)
		return refuse("--separator", request->separator, "must be one character, or tab");
	if (line.words > 2)
		return refuse(line.word[2], NULL, "is one file too many: give two at most");
	for (; request->files < line.words; request->files++)
		request->file[request->files] = line.word[request->files];
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
	if (request.label && opt_number(request.label, 1, COLUMN_MAX, &column))
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
