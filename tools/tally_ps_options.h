/* SPDX-License-Identifier: Apache-2.0 */
/* tally_ps_options.h - what tally-ps was asked for, on its command line and in its configuration file. */
#ifndef TOOLS_TALLY_PS_OPTIONS_H
#define TOOLS_TALLY_PS_OPTIONS_H

#include "core/job/control.h"
#include "ps/server.h"

enum { PS_OPTION_BYTES = 1024 };

struct ps_settings {
	struct ps_server_options server;
	struct ps_hosted_options tables[PS_TABLES_MAX];
	enum ps_level level;
	char text[PS_TABLES_MAX][PS_OPTION_BYTES];             /* of --table, cut into pieces */
	char aggregators[PS_OPTION_BYTES];                     /* likewise */
	char listen[PS_OPTION_BYTES], folder[PS_OPTION_BYTES]; /* "": none */
	char job[KV_JOB_BYTES], key[CONTROL_KEY_BYTES];        /* as a worker has it */
	bool is_insecure, is_json;
	char key_file[PS_OPTION_BYTES]; /* "": none */
	char warning[PS_OPTION_BYTES];  /* to be logged once that is possible; "": none */
	bool accepts_loss;
};

/* -1: go on with *settings, which stay where they are, as argv does; else the exit status, and stderr says why. */
int ps_options(struct ps_settings *settings, int argc, char **argv);

/* One --table: NAME,dim=N and more. 0, or -1 with a sentence. */
int ps_options_table(struct ps_settings *settings, const char *text, char error[PS_ERROR_MAX]);

#endif
