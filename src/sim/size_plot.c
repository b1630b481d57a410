/* SPDX-License-Identifier: Apache-2.0 */
/* size_plot.c - a drawing of TAT by gnuplot, which is given everything on its standard input. */
#include "sim/size.h"
#include "util/plot.h"

#include <stdio.h>
#include <string.h>

bool size_plot_check(const char *name, const struct size_request *request)
{
	const char *path = request->plot_path;

	if (request->queue_plot_path && !plot_check(name, request->queue_plot_path, true))
		return false;
	if (!path)
		return true;
	if (request->swept)
		return plot_check(name, path, true);
	fprintf(stderr, "%s: --plot needs an option with several values: --slots 64,128,256\n",
		name);
	return false;
}

bool size_plot(const char *name, const struct size_request *request,
	       const struct size_report *reports)
{
	const char *path = request->plot_path;
	FILE *gnuplot = plot_open(name);

	if (!gnuplot)
		return false;
	fprintf(gnuplot,
		"set terminal %s size 800,500\nset output '%s'\nset xlabel '%s%s'\nset ylabel 'TAT "
		"(ms)'\n"
		"set yrange [0:*]\nset grid\nset key above\n"
		"set title '%llu workers, %llu switch%s'\n",
		strrchr(path, '.') + 1, path, request->swept, request->swept_unit,
		(unsigned long long)reports[0].workers, (unsigned long long)reports[0].switches,
		reports[0].switches == 1 ? "" : "es");
	if (request->x[0] > 0 && request->x[request->points - 1] > 16 * request->x[0])
		fprintf(gnuplot, "set logscale x 2\n");
	fprintf(gnuplot, "$d << END\n");
	for (uint32_t i = 0; i < request->points; i++)
		fprintf(gnuplot, "%.9g %.6f %.6f\n", request->x[i], (double)reports[i].tat_ns / 1e6,
			(double)reports[i].ideal_ns / 1e6);
	fprintf(gnuplot, "END\nplot $d using 1:2 with linespoints linewidth 2 title 'simulated', "
			 "$d using 1:3 with lines dashtype 2 title 'rate of the cable'\n");
	return plot_close(gnuplot, name, path);
}

bool size_plot_queue(const char *name, const struct size_request *request,
		     const struct size_report *report)
{
	const char *path = request->queue_plot_path;
	FILE *gnuplot = plot_open(name);

	if (!gnuplot)
		return false;
	fprintf(gnuplot,
		"set terminal %s size 800,500\nset output '%s'\nset xlabel 'time (ms)'\nset ylabel "
		"'waits at a hub (MB)'\nset y2label 'window (packets, mean)'\nset ytics "
		"nomirror\n"
		"set y2tics\nset yrange [0:*]\nset y2range [0:*]\nset grid\nset key above\n"
		"set title '%llu workers, %.3g Gbit/s each, %.3g at a hub'\n$d << END\n",
		strrchr(path, '.') + 1, path, (unsigned long long)report->workers,
		(double)request->option[request->points - 1].link_bps / 1e9,
		(double)request->option[request->points - 1].hub_bps / 1e9);
	for (uint32_t i = 0; i < report->looks; i++)
		fprintf(gnuplot, "%.6f %.6f %.6f %.3f\n", (double)report->look[i].at_ns / 1e6,
			(double)report->look[i].in_bytes / 1e6,
			(double)report->look[i].out_bytes / 1e6, report->look[i].window);
	fprintf(gnuplot,
		"END\nplot $d using 1:2 with lines title 'up', $d using 1:3 with lines title "
		"'down', $d using 1:4 axes x1y2 with lines title 'window'\n");
	return plot_close(gnuplot, name, path);
}
