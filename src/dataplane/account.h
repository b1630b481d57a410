/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - so many bytes and no more, for whoever shares them: the jobs and the tables of a shard. */
#ifndef DATAPLANE_ACCOUNT_H
#define DATAPLANE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct account {
	uint64_t max, used; /* bytes; used <= max */
};

/* False: there are not so many left. */
static inline bool account_take(struct account *account, uint64_t bytes)
{
	if (bytes > account->max - account->used)
		return false;
	account->used += bytes;
	return true;
}

static inline void account_give(struct account *account, uint64_t bytes)
{
	account->used -= bytes;
}

#endif
