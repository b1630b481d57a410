/* SPDX-License-Identifier: Apache-2.0 */
/* hot_plot.c - the cumulative curve: which part of all updates the k hottest keys have. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/hot.h"
#include "util/plot.h"

#define POINT_STEP 1.02 /* the next point is at 2 % more keys: some 700 of them up to a million */

static void curve_write(FILE *gnuplot, const char *name, const struct heat *heat, size_t count,
			double updates)
{
	double sum = 0, next = 1;

	fprintf(gnuplot, "$%s << EOD\n", name);
	for (size_t i = 0; i < count; i++) {
		sum += heat[i].weight;
		if ((double)i + 1 < next && i + 1 < count)
			continue;
		fprintf(gnuplot, "%zu %.6g\n", i + 1, sum / updates * 100);
		next = next * POINT_STEP > (double)i + 2 ? next * POINT_STEP : (double)i + 2;
	}
	fprintf(gnuplot, "EOD\n");
}

/* What is drawn, in a title that gnuplot takes as it is: names of files may be anything. */
static void title_write(FILE *gnuplot, const struct hot_found *found)
{
	const struct hot_request *request = found->request;

	if (request->zipf >= 0) {
		fprintf(gnuplot, "set title 'Zipf %g, %" PRIu64 " keys", request->zipf,
			request->zipf_keys);
	} else {
		fprintf(gnuplot, "set title '");
		for (const char *at = request->file[0]; *at; at++)
			fputc(*at < ' ' || *at == '\'' || *at == '\\' || *at == 0x7f ? '?' : *at,
			      gnuplot);
		fprintf(gnuplot, "%s", request->files > 1 ? ", ..." : "");
	}
	fprintf(gnuplot, ": %" PRIu64 " updates' noenhanced\n", found->survey.updates);
}

bool hot_plot(const struct hot_found *found)
{
	const struct hot_request *request = found->request;
	FILE *gnuplot = plot_open("tally hot");

	if (!gnuplot)
		return false;
	curve_write(gnuplot, "sampled", found->sampled, found->sampled_count,
		    (double)found->survey.sampled_updates);
	if (found->all)
		curve_write(gnuplot, "all", found->all, found->all_count,
			    (double)found->survey.updates);
	fprintf(gnuplot,
		"set terminal svg size 800,500\nset output '%s'\nset grid\nset key top left\n"
		"set xlabel 'hottest keys'\nset ylabel 'of all updates (%%)'\nset logscale x\n"
		"set yrange [0:100]\n",
		request->plot);
	title_write(gnuplot, found);
	if (found->choice.keys)
		fprintf(gnuplot,
			"set arrow from %" PRIu64 ", graph 0 to %" PRIu64
			", graph 1 nohead dashtype 2\n"
			"set label 'k = %" PRIu64 "' at %" PRIu64 ", graph 0.04 offset 0.5,0\n",
			found->choice.keys, found->choice.keys, found->choice.keys,
			found->choice.keys);
	fprintf(gnuplot, "plot %s$sampled with lines linewidth 2 title 'sample of %g %%'\n",
		found->all ? "$all with lines linewidth 2 title 'all updates', " : "",
		request->rate * 100);
	return plot_close(gnuplot, "tally hot", request->plot);
}
