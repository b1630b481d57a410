/* SPDX-License-Identifier: Apache-2.0 */
/* tallyd_options.h - what tallyd was asked for, on its command line and in its configuration file. */
#ifndef TOOLS_TALLYD_OPTIONS_H
#define TOOLS_TALLYD_OPTIONS_H

#include <stdbool.h>

#include "core/job/control.h"
#include "server/server.h"
#include "tools/command.h"

enum { EXIT_KILLED = 3 }; /* besides those of command.h */

enum { TALLYD_TEXT_BYTES = 512 };

enum tallyd_engine { ENGINE_SOFT, ENGINE_KERNEL, ENGINE_P4 };

struct settings {
	struct server_options server;
	enum server_level level;
	bool is_json;
	char listen[TALLYD_TEXT_BYTES];
	char key[CONTROL_KEY_BYTES];
	enum tallyd_engine engine;         /* --engine */
	char devices[TALLYD_TEXT_BYTES];   /* --devices, of the kernel */
	char switch_at[TALLYD_TEXT_BYTES]; /* --switch, of p4 */
	char warning[TALLYD_TEXT_BYTES];   /* to be logged once that is possible; "": none */
};

/* As without any option. */
#define TALLYD_SETTINGS                                                                     \
	{                                                                                   \
		.server = { .gather_ms = 300000, .drain_ms = 30000 }, .level = SERVER_INFO, \
		.listen = "0.0.0.0"                                                         \
	}

/* Flags win over the file; anything said twice in one place is refused. -1: go on with *settings, which
 * stay where they are; else the exit status, and stderr says why. */
int tallyd_options(struct settings *settings, int argc, char **argv);

/* The same words once more, and the files as they are now; no name is looked up. */
int tallyd_options_again(struct settings *settings, int argc, char **argv);

typedef void tallyd_options_say(enum server_level level, const char *line);

/* Takes over of `next` what may change while the daemon runs. Says of each difference what it is, or that it needs a
 * restart. That no key is asked for any more is none of it. */
void tallyd_options_change(struct settings *settings, const struct settings *next,
			   tallyd_options_say *say);

#endif
