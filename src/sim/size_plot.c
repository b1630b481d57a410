/* SPDX-License-Identifier: Apache-2.0 */
/* size_plot.c - a drawing of TAT by gnuplot, which is given everything on its standard input. */
#include "sim/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *terminal_of(const char *path)
{
	const char *end = strrchr(path, '.');

	if (end && !strcmp(end, ".svg"))
		return "svg size 800,500";
	return end && !strcmp(end, ".png") ? "png size 800,500" : NULL;
}

/* gnuplot draws onto our standard output if it cannot open the file. */
static bool can_write(const char *name, const char *path)
{
	FILE *file = fopen(path, "a");

	if (!file) {
		fprintf(stderr, "%s: --plot %s: %s\n", name, path, strerror(errno));
		return false;
	}
	fclose(file);
	return true;
}

bool size_plot_check(const char *name, const struct size_request *request)
{
	const char *path = request->plot_path;

	if (!path)
		return true;
	if (!terminal_of(path) || strpbrk(path, "'\\\n"))
		fprintf(stderr, "%s: --plot %s: FILE.svg or FILE.png, without quotes\n", name,
			path);
	else if (!request->swept)
		fprintf(stderr,
			"%s: --plot needs an option with several values: --slots 64,128,256\n",
			name);
	else if (system("command -v gnuplot >/dev/null 2>&1") != 0)
		fprintf(stderr, "%s: --plot: gnuplot is not installed\n", name);
	else
		return can_write(name, path);
	return false;
}

bool size_plot(const char *name, const struct size_request *request,
	       const struct size_report *reports)
{
	FILE *gnuplot = popen("gnuplot", "w");

	if (!gnuplot) {
		fprintf(stderr, "%s: --plot: gnuplot cannot be started\n", name);
		return false;
	}
	fprintf(gnuplot,
		"set terminal %s\nset output '%s'\nset xlabel '%s%s'\nset ylabel 'TAT (ms)'\n"
		"set yrange [0:*]\nset grid\nset key above\n"
		"set title '%llu workers, %llu switch%s'\n",
		terminal_of(request->plot_path), request->plot_path, request->swept,
		request->swept_unit, (unsigned long long)reports[0].workers,
		(unsigned long long)reports[0].switches, reports[0].switches == 1 ? "" : "es");
	if (request->x[0] > 0 && request->x[request->points - 1] > 16 * request->x[0])
		fprintf(gnuplot, "set logscale x 2\n");
	fprintf(gnuplot, "$d << END\n");
	for (uint32_t i = 0; i < request->points; i++)
		fprintf(gnuplot, "%.9g %.6f %.6f\n", request->x[i], (double)reports[i].tat_ns / 1e6,
			(double)reports[i].ideal_ns / 1e6);
	fprintf(gnuplot, "END\nplot $d using 1:2 with linespoints linewidth 2 title 'simulated', "
			 "$d using 1:3 with lines dashtype 2 title 'rate of the cable'\n");
	if (pclose(gnuplot) == 0)
		return true;
	fprintf(stderr, "%s: --plot: gnuplot could not write %s\n", name, request->plot_path);
	return false;
}
