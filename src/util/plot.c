/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - see plot.h. */
#include "util/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* gnuplot draws onto our standard output if it cannot open the file. */
static bool can_write(const char *command, const char *path)
{
	FILE *file = fopen(path, "ae");

	if (!file) {
		fprintf(stderr, "%s: --plot %s: %s\n", command, path, strerror(errno));
		return false;
	}
	fclose(file);
	return true;
}

bool plot_check(const char *command, const char *path, bool may_be_png)
{
	const char *end = strrchr(path, '.');
	bool is_known = end && (!strcmp(end, ".svg") || (may_be_png && !strcmp(end, ".png")));

	if (!is_known || strpbrk(path, "'\\\n"))
		fprintf(stderr, "%s: --plot %s: FILE.svg%s, without quotes\n", command, path,
			may_be_png ? " or FILE.png" : "");
	else if (system("command -v gnuplot >/dev/null 2>&1") != 0)
		fprintf(stderr, "%s: --plot: gnuplot is not installed\n", command);
	else
		return can_write(command, path);
	return false;
}

FILE *plot_open(const char *command)
{
	FILE *gnuplot = popen("gnuplot", "w");

	if (!gnuplot)
		fprintf(stderr, "%s: --plot: gnuplot cannot be started\n", command);
	return gnuplot;
}

bool plot_close(FILE *gnuplot, const char *command, const char *path)
{
	if (pclose(gnuplot) == 0)
		return true;
	fprintf(stderr, "%s: --plot: gnuplot could not write %s\n", command, path);
	return false;
}
