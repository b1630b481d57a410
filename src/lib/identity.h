/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - who this process is to an aggregator, whatever it calls itself: which program, on which
 * host, and which process of it. docs/protocol.md, R-CT-22.
 */
#ifndef LIB_IDENTITY_H
#define LIB_IDENTITY_H

#include <stdint.h>

/* Hashes; 0: not known, for /proc is not there. */
struct identity {
	uint64_t program; /* of the command line: executable and arguments */
	uint64_t boot;    /* of the host, since it was booted; containers of one host have one */
	uint64_t process; /* of this process, on any host; a forked child has another */
};

void identity_read(struct identity *identity);

#endif
