/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - what shards tell, and what it means for jobs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "server/internal.h"

/* Why a shard did not take a job, and who has what it wanted. */
static void shard_refusal(struct server *server, struct job *job, const struct shard_event *ack)
{
	int result = ack->result;

	struct text text;

	text_begin(&text, job->refusal, sizeof(job->refusal));
	text_add(&text, "%s%s",
		 ack->text           ? ack->text
		 : result == -ENOSPC ? "all memory for slots and tables is held by "
				     : strerror(-result),
		 ack->text && result == -ENOSPC ? ": " : "");
	if (result == -ENOSPC)
		holders_add(server, job->source, job, NULL, &text);
}

static void job_shard_ack(struct server *server, struct job *job, uint32_t shard,
			  const struct shard_event *ack)
{
	/* clang-format off */
	static const enum admission_command commands[] = {
		[SHARD_JOB_ADD]    = ADMISSION_JOB_ADD,
		[SHARD_JOB_SET]    = ADMISSION_JOB_SET,
		[SHARD_JOB_REMOVE] = ADMISSION_JOB_REMOVE,
	};
	/* clang-format on */
	struct admission_event event = {
		.type = ADMISSION_SHARD,
		.shard = (uint16_t)shard,
		.command = commands[ack->command],
		.job_generation = ack->generation,
		.has_failed = ack->result != 0,
	};

	if (ack->result) {
		shard_refusal(server, job, ack);
		event.text = job->refusal;
		server_say_job(server, SERVER_ERROR, job->name, SERVER_RANK_NONE,
			       "job %s: shard %u does not take it: %s", job->name, shard,
			       job->refusal);
	}
	if (ack->command == SHARD_JOB_REMOVE)
		totals_end(server, job, &ack->totals);
	job_step(server, job, &event);
}

static void jobs_break(struct server *server, const char *text)
{
	struct admission_event step = { .type = ADMISSION_BROKEN,
					.rank = CONTROL_RANK_NONE,
					.text = text };

	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		if (server->jobs[i])
			job_step(server, server->jobs[i], &step);
}

/* What was in it is no more: R-CHIP-10. */
void shard_chip(struct server *server, uint32_t shard, const struct shard_event *event)
{
	const char *text = event->text ? event->text : "the switch is not as it was";

	server_say(server, event->chip == CHIP_LOST ? SERVER_ERROR : SERVER_WARN, "shard %u: %s",
		   shard, text);
	if (event->chip == CHIP_LOST)
		jobs_break(server, text);
}

/* A shard that does not receive can end no operation. */
static void shard_dead(struct server *server, uint32_t shard, int error)
{
	char text[CONTROL_TEXT_BYTES];

	snprintf(text, sizeof(text),
		 "the aggregator receives no more on its UDP port %u (shard %u): %s",
		 shard_port(server->shards[shard]), shard, strerror(-error));
	server_say(server, SERVER_ERROR,
		   "%s; its jobs and tables end, and new ones are refused: restart it", text);
	tables_abort(server, (int)shard, false, text);
	jobs_break(server, text);
}

static void say_too_large(struct server *server, struct job *job, uint32_t shard,
			  const struct engine_event *notice, char words[CONTROL_TEXT_BYTES])
{
	const struct admission_member *member = admission_member(job->admission, notice->child);
	int mtu = link_udp_mtu(&notice->address, !link_address_is_v4(&notice->address));
	char text[64], now[48] = "";

	if (mtu > 0)
		snprintf(now, sizeof(now), ", which is %d now", mtu);
	snprintf(
		words, CONTROL_TEXT_BYTES,
		"rank %u on %s: packets of %u numbers from the aggregator's UDP port %u to %s have "
		"become larger than the MTU of the path%s: set the same MTU all the way, or cap "
		"them (tallyd --lanes)",
		notice->child, member->peer.host, job->admission->lanes,
		shard_port(server->shards[shard]), link_address_format(&notice->address, text),
		now);
}

void job_shard_event(struct server *server, uint32_t shard, const struct shard_event *event)
{
	struct job *job = event->job < server->options.jobs_max ? server->jobs[event->job] : NULL;
	const struct engine_event *notice = &event->notice;
	struct admission_event step = { .rank = notice->child };
	char text[64], words[CONTROL_TEXT_BYTES];

	if (event->type == SHARD_DEAD) {
		shard_dead(server, shard, event->result);
		return;
	}
	if (!job)
		return;
	if (event->type == SHARD_ACK) {
		job_shard_ack(server, job, shard, event);
		return;
	}
	switch (notice->type) {
	case ENGINE_HELLO:
		server_say_job(server, SERVER_DEBUG, job->name, notice->child,
			       "job %s: rank %u: shard %u hears it from %s", job->name,
			       notice->child, shard, link_address_format(&notice->address, text));
		step.type = ADMISSION_HEARD;
		break;
	case ENGINE_HEARD:
		step.type = ADMISSION_HEARD;
		break;
	case ENGINE_MISMATCH:
		step.type = ADMISSION_MISMATCH;
		step.other = notice->other;
		break;
	case ENGINE_ALARM:
		step.type = ADMISSION_ALARM;
		break;
	case ENGINE_MISFIT:
		step.type = ADMISSION_MISFIT;
		step.count = notice->count;
		step.misfit = (uint8_t)notice->misfit;
		break;
	case ENGINE_UNWRITTEN:
		server_say_job(
			server, SERVER_ERROR, job->name, notice->child,
			"job %s: rank %u at %s: the switch has not taken it, so it waits and "
			"asks again: %s",
			job->name, notice->child, link_address_format(&notice->address, text),
			event->text ? event->text : "out of memory");
		return;
	case ENGINE_TOO_LARGE:
		say_too_large(server, job, shard, notice, words);
		step.type = ADMISSION_BROKEN;
		step.text = words;
		break;
	case ENGINE_REFUSED: /* server_say_refused */
		return;
	}
	job_step(server, job, &step);
}
