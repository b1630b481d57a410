/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - tally doctor, inside: what it looks at, a finding for each thing. */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/bootstrap.h"
#include "lib/config.h"
#include "tally.h"

enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_STATUSES };

struct doctor {
	bool is_json;
	const char *aggregator; /* of the command line; NULL: as the settings say */
	uint32_t found[DOCTOR_STATUSES];
	struct config config;
	struct bootstrap boot; /* valid if has_settings */
	bool has_settings;
};

/* doctor_say.c: one line. advice: what to do about it, or NULL. */
void doctor_say(struct doctor *doctor, enum doctor_status status, const char *check,
		const char *advice, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* doctor_host.c: the kernel, its buffers, this host's interfaces. */
void doctor_host(struct doctor *doctor);
/* doctor_judge.c: what a job of one rank has met. */

/* Shares of packets that were lost: below the first one nobody minds, from the second one on it is no network. */
#define DOCTOR_LOSS_WARN 0.001
#define DOCTOR_LOSS_FAIL 0.2

struct doctor_loss {
	uint64_t packets, lost; /* sent to the aggregator; that or the answer */
	double there, back;     /* shares */
};

struct doctor_loss doctor_loss_of(const struct tally_stats *stats);
/* What to do about a join that failed, where its text does not say it; NULL. */
const char *doctor_join_advice(int result, const char *text);

/* doctor_job.c: files, launcher, aggregator, a job of one rank. */
void doctor_job(struct doctor *doctor);

/* Whether "6.1.0-18-amd64" is at least major.minor. */
bool doctor_is_release(const char *release, unsigned major, unsigned minor);

#endif
