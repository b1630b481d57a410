/* SPDX-License-Identifier: Apache-2.0 */
/* tired.c - is an aggregator that answers of use? docs/protocol.md, R-CT-33. */
#include <inttypes.h>
#include <stdio.h>

#include "ps/internal.h"

enum {
	TIRED_BEATS = 8,    /* answers in succession: one that is late by chance says nothing */
	PARTS_LEAST = 256,  /* that a share is of; */
	PARTS_ENOUGH = 1024 /* with so many, all count half as much from then on */
};

static void parts_take(struct ps_tired *tired, uint64_t sent, uint64_t came)
{
	tired->sent += sent - tired->sent_then;
	tired->came += came - tired->came_then;
	tired->sent_then = sent;
	tired->came_then = came;
	if (tired->sent < PARTS_ENOUGH)
		return;
	tired->sent /= 2;
	tired->came /= 2;
}

static uint64_t loss_percent(const struct ps_tired *tired)
{
	if (tired->sent < PARTS_LEAST || tired->came >= tired->sent)
		return 0;
	return 100 * (tired->sent - tired->came) / tired->sent;
}

static uint64_t memory_percent(const struct control_table_beat *beat)
{
	return beat->memory_max
		       ? (uint64_t)(100 * (double)beat->memory_used / (double)beat->memory_max)
		       : 0;
}

/* True: it is, and `why` says of what. */
static bool is_over(const struct ps_server_options *options, const struct ps_tired *tired,
		    const struct table_client *client, char *why, size_t bytes)
{
	uint64_t delay_ns = table_client_delay_ns(client), loss = loss_percent(tired),
		 memory = memory_percent(table_client_beat(client));

	if (options->tired_delay_ns && delay_ns >= options->tired_delay_ns)
		snprintf(why, bytes, "its answers take %.1f ms", (double)delay_ns / 1e6);
	else if (options->tired_loss && loss >= options->tired_loss)
		snprintf(why, bytes, "%" PRIu64 " %% of what it sends does not come", loss);
	else if (options->tired_memory && memory >= options->tired_memory)
		snprintf(why, bytes, "%" PRIu64 " %% of its memory is in use", memory);
	else
		return false;
	return true;
}

bool ps_tired_look(struct ps_server *server, struct ps_hosted *hosted, char *why, size_t bytes)
{
	struct ps_tired *tired = &hosted->tired;
	const struct table_client *client = hosted->client;
	uint64_t beats = table_client_beats(client);

	if (beats == tired->beats)
		return false;
	tired->beats = beats;
	parts_take(tired, table_client_beat(client)->parts, hosted->parts);
	if (is_over(&server->options, tired, client, why, bytes))
		tired->over++;
	else
		tired->over = 0;
	return tired->over >= TIRED_BEATS;
}
