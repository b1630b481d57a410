/* SPDX-License-Identifier: Apache-2.0 */
/* tallyd_options.h - what tallyd was asked for, on its command line and in its configuration file. */
#ifndef TOOLS_TALLYD_OPTIONS_H
#define TOOLS_TALLYD_OPTIONS_H

#include <stdbool.h>

#include "core/control.h"
#include "server/server.h"

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_KILLED = 3,
};

enum { TALLYD_TEXT_BYTES = 512 };

struct settings {
	struct server_options server;
	enum server_level level;
	bool is_json;
	char listen[TALLYD_TEXT_BYTES];
	char key[CONTROL_KEY_BYTES];
	bool is_kernel;                  /* --engine kernel, */
	char devices[TALLYD_TEXT_BYTES]; /* --devices */
	char warning[TALLYD_TEXT_BYTES]; /* to be logged once that is possible; "": none */
};

/* Flags win over the file; anything said twice in one place is refused. -1: go on with *settings, which
 * stay where they are; else the exit status, and stderr says why. */
int tallyd_options(struct settings *settings, int argc, char **argv);

#endif
