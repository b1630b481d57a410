/* SPDX-License-Identifier: Apache-2.0 */
/* glm.c - tally glm: linear models. Finds the command that is asked for. */
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/glm.h"
#include "util/opt.h"

static const char help[] =
	"tally glm - linear models, trained by many ranks that share the columns\n"
	"\n"
	"usage: tally glm COMMAND FILE [OPTION...]\n"
	"\n"
	"  tally glm train FILE -m MODEL      fit a model; alone, under tally run, mpirun, "
	"torchrun\n"
	"  tally glm evaluate FILE -m MODEL   loss, accuracy and AUC of a model\n"
	"  tally glm predict FILE -m MODEL    a label for each row\n"
	"  tally glm convert FILE... -o OUT   make rows from images (idx) or a table (CSV)\n"
	"\n"
	"Try it, with four rows, or with any file of LIBSVM's page:\n"
	"\n"
	"  printf '1 1:1 2:1\\n-1 1:1\\n1 2:1\\n-1 3:1\\n' >rows\n"
	"  tally run -n 4 -- tally glm train rows -m rows.model\n"
	"  tally glm evaluate rows -m rows.model\n"
	"\n"
	"tally glm COMMAND --help says more.\n"
	"Exit status: 0 done; 1 failed; 2 wrong command line.\n";

static struct {
	const char *name;
	char title[20]; /* becomes its argv[0]: what it calls itself in messages */
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "train", "tally glm train", glm_train_main },
	{ "evaluate", "tally glm evaluate", glm_evaluate_main },
	{ "predict", "tally glm predict", glm_predict_main },
	{ "convert", "tally glm convert", glm_convert_main },
};

int glm_main(int argc, char **argv)
{
	if (argc < 2) {
		fputs(help, stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))
		return opt_print("tally glm", help);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		argv[1] = commands[i].title;
		return commands[i].main(argc - 1, argv + 1);
	}
	return opt_refuse("tally glm", argv[1], NULL, "no such command");
}
