/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h - a drawing of gnuplot's, which reads all that it needs from its standard input. What fails is said on stderr. */
#ifndef UTIL_PLOT_H
#define UTIL_PLOT_H

#include <stdbool.h>
#include <stdio.h>

/* Before the work: can FILE.svg, or FILE.png where that may be, be drawn for the option --plot of this command? */
bool plot_check(const char *command, const char *path, bool may_be_png);
FILE *plot_open(const char *command); /* NULL: it cannot be started */
bool plot_close(FILE *gnuplot, const char *command, const char *path);

#endif
