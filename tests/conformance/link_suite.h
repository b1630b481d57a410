/* SPDX-License-Identifier: Apache-2.0 */
/* link_suite.h - the suite that every link passes: sockets, the simulator's, and those to come. */
#ifndef CONFORMANCE_LINK_SUITE_H
#define CONFORMANCE_LINK_SUITE_H

#include "dataplane/link.h"

/* Makes links that reach one another at their `local` addresses, and lose and double nothing that
 * fits: 256 KiB on its way to one link do. They may reorder. */
struct link_factory {
	const char *name;
	uint32_t
		packet_bytes_max; /* the largest packet that passes between them; a multiple of 4 */
	bool has_threads;         /* wake may be tried from another thread */
	/* 0, or what a test should fail with. The suite closes every link. */
	int (*open)(const struct link_factory *factory, struct link **links, uint32_t count);
	void (*close)(const struct link_factory *factory); /* after the links; may be NULL */
	void *context;
};

enum { LINK_SUITE_LINKS_MAX = 4 }; /* opened at once */

/* Runs the suite; the number of tests that failed. The seed is random, or TALLY_TEST_SEED. */
int link_suite_run(const struct link_factory *factory);

#endif
