/* SPDX-License-Identifier: Apache-2.0 */
/*
 * part.c - what a communicator of some of a communicator's ranks begins with. It is a job of its own at the same
 * aggregator, named after its parent; it carries its parent's life, so that it can never be taken for a part of
 * another run.
 */
#include <stdio.h>
#include <string.h>

#include "core/shared/hash.h"
#include "lib/comm.h"

enum { HASH_BYTES = 17 };

/* Of a parent whose name is too long, the beginning and a hash. */
static void job_name(const char *parent, const char *suffix, char *job)
{
	size_t room = BOOTSTRAP_JOB_MAX - strlen(suffix);

	if (strlen(parent) <= room) {
		strcpy(stpcpy(job, parent), suffix);
		return;
	}
	snprintf(job, BOOTSTRAP_JOB_MAX + 1, "%.*s~%016llx%.40s", (int)room - HASH_BYTES, parent,
		 (unsigned long long)hash_text(HASH_BEGIN, parent), suffix);
}

void part_boot(struct bootstrap *boot, const struct tally_comm *parent, const char *source,
	       uint32_t rank, uint32_t size, const char *suffix)
{
	*boot = parent->boot;
	boot->source = source;
	boot->warning[0] = '\0';
	boot->rank = rank;
	boot->size = size;
	boot->local_size = parent->boot.local_size == parent->boot.size ? size : 0;
	job_name(parent->who.job, suffix, boot->job);
}
