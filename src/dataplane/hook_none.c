/* SPDX-License-Identifier: Apache-2.0 */
/* hook_none.c - hook_tc.h where there was no libbpf or no clang to build it with: HOOK_LACKS says which. */
#include <errno.h>
#include <stdio.h>

#include "dataplane/hook_tc.h"

int hook_tc_open(struct hook **hook, const char *devices, uint16_t port,
		 char error[HOOK_ERROR_BYTES])
{
	(void)port;
	if (!devices) {
		*hook = NULL;
		return 0;
	}
	snprintf(error, HOOK_ERROR_BYTES,
		 "this tallyd was built where there was " HOOK_LACKS
		 ": install it (Debian: apt-get install clang libbpf-dev), and make again");
	return -ENOTSUP;
}
