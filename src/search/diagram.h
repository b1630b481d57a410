/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diagram.h - draws the trace that bfs_run has told as a sequence diagram: a column for each of those who act
 * in it, a row for each thing that happens. o----> is sent, ....@ is taken, * is done by oneself.
 */
#ifndef SEARCH_DIAGRAM_H
#define SEARCH_DIAGRAM_H

#include <stdio.h>

/* trace: the lines as bfs_run has written them. What does not name anybody gets a row without an arrow. */
void diagram_draw(const char *trace, FILE *out);

#endif
