/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *about;
	uint64_t least;
} table[EDIT_COUNT] = {
#define X(name, least, about) { #name, about, least },
	EDITS(X)
#undef X
};

const char *edit_name(enum edit edit)
{
	return table[edit].name;
}

const char *edit_about(enum edit edit)
{
	return table[edit].about;
}

uint64_t edit_least(enum edit edit)
{
	return table[edit].least;
}

void edits_init(struct edits *edits)
{
	edits->chance = 0;
	for (uint32_t i = 0; i < EDIT_COUNT; i++)
		edits->value[i] = EDIT_NONE;
}

static uint64_t *edit_find(struct edits *edits, const char *name, size_t length)
{
	if (length == strlen("chance") && !strncmp(name, "chance", length))
		return &edits->chance;
	for (uint32_t i = 0; i < EDIT_COUNT; i++)
		if (strlen(table[i].name) == length && !strncmp(table[i].name, name, length))
			return &edits->value[i];
	return NULL;
}

bool edits_read(struct edits *edits, const char *text)
{
	edits_init(edits);
	for (;;) {
		size_t length = strcspn(text, "=");
		uint64_t *value = edit_find(edits, text, length);
		char *rest;

		if (!value || text[length] != '=' || text[length + 1] < '0' ||
		    text[length + 1] > '9')
			return false;
		*value = strtoull(text + length + 1, &rest, 10);
		if (!*rest)
			return true;
		if (*rest != ',')
			return false;
		text = rest + 1;
	}
}

void edits_text(const struct edits *edits, char text[EDITS_TEXT])
{
	size_t at = 0;

	*text = 0;
	for (uint32_t i = 0; i < EDIT_COUNT; i++)
		if (edits->value[i] != EDIT_NONE)
			at += (size_t)snprintf(text + at, EDITS_TEXT - at, "%s%s=%llu",
					       at ? "," : "", table[i].name,
					       (unsigned long long)edits->value[i]);
	if (edits->chance)
		snprintf(text + at, EDITS_TEXT - at, "%schance=%llu", at ? "," : "",
			 (unsigned long long)edits->chance);
}

/* --- reading --- */

static uint64_t chunks_most(const struct scenario *scenario)
{
	uint64_t most = 1;

	for (uint32_t i = 0; i < scenario->ops; i++) {
		uint64_t chunks = map_chunks(scenario->op[i].count, scenario->lanes);
		most = chunks > most ? chunks : most;
	}
	return most;
}

uint64_t edit_now(const struct scenario *scenario, enum edit edit)
{
	switch (edit) {
	case EDIT_jobs:
		return scenario->jobs;
	case EDIT_shards:
		return scenario->shards;
	case EDIT_levels:
		return scenario->shard[0].engines > 1 ? 2 : 1;
	case EDIT_workers:
		return scenario->workers;
	case EDIT_ops:
		return scenario->ops;
	case EDIT_chunks:
		return chunks_most(scenario);
	case EDIT_strikes:
		return scenario->strikes;
	case EDIT_pauses:
		return scenario->pause_every_ns != 0;
	case EDIT_windows:
		return scenario->worker[0].window_ns != 0;
	case EDIT_late:
		return scenario->worker[0].straggle != 0;
	case EDIT_hello:
		return scenario->is_hello;
	case EDIT_seq:
		return scenario->seq_first;
	case EDIT_run:
		return scenario->run;
	case EDIT_lanes:
		return scenario->lanes;
	case EDIT_slots:
		return scenario->slots;
	case EDIT_window:
		return scenario->worker[0].window;
	case EDIT_jitter:
		return scenario->weather.jitter_ns;
	case EDIT_duplicate:
		return scenario->weather.duplicate;
	case EDIT_reorder:
		return scenario->weather.reorder;
	case EDIT_loss:
		return scenario->weather.loss;
	case EDIT_hosts:
		return scenario->worker[0].host.inbox_bytes != 1u << 30;
	case EDIT_last:
		return scenario->fault_last ? scenario->fault_last : EDIT_NONE;
	default:
		return scenario->fault_first;
	}
}

/* --- making smaller --- */

/* Switches that have nobody below them go. */
static void shard_prune(struct scenario_shard *shard, uint32_t workers)
{
	uint8_t number[SIM_ENGINES_MAX] = { 0 };
	bool is_used[SIM_ENGINES_MAX] = { true };
	uint32_t count = 0;

	for (uint32_t w = 0; w < workers && w < SIM_WORKERS_MAX; w++)
		for (uint32_t e = shard->engine_of[w]; e && e < SIM_ENGINES_MAX;
		     e = shard->parent[e])
			is_used[e] = true;
	for (uint32_t e = 0; e < shard->engines && e < SIM_ENGINES_MAX; e++) {
		if (!is_used[e])
			continue;
		number[e] = (uint8_t)count;
		shard->host[count] = shard->host[e];
		shard->parent[count++] = e ? number[shard->parent[e]] : (uint8_t)SIM_PARENT_NONE;
	}
	shard->engines = count;
	for (uint32_t w = 0; w < workers && w < SIM_WORKERS_MAX; w++)
		shard->engine_of[w] = number[shard->engine_of[w]];
}

static void shape_apply(const struct edits *edits, struct scenario *scenario)
{
	for (uint32_t s = 0; s < scenario->shards; s++) {
		struct scenario_shard *shard = &scenario->shard[s];

		if (edits->value[EDIT_levels] == 1)
			memset(shard->engine_of, 0, sizeof(shard->engine_of));
		shard_prune(shard, scenario->workers);
	}
	scenario->odd_rank %= scenario->workers;
	if (scenario->kind == SCENARIO_disagree && scenario->workers == 1)
		scenario->workers = 2;
}

static void host_ease(struct net_host *host)
{
	struct net_line line = { .ps_per_byte = 800, .delay_ns = 1000, .queue_bytes = 1u << 30 };

	*host = (struct net_host){ .out = line, .in = line, .inbox_bytes = 1u << 30 };
}

static void workers_apply(const struct edits *edits, struct scenario *scenario)
{
	for (uint32_t w = 0; w < SIM_WORKERS_MAX; w++) {
		struct scenario_worker *worker = &scenario->worker[w];

		if (!edits->value[EDIT_windows])
			worker->window_ns = 0;
		if (!edits->value[EDIT_late])
			worker->straggle = 0;
		if (edits->value[EDIT_window] < worker->window)
			worker->window = (uint32_t)edits->value[EDIT_window];
		if (worker->window > scenario->slots)
			worker->window = scenario->slots;
		if (!edits->value[EDIT_hosts])
			host_ease(&worker->host);
	}
	for (uint32_t s = 0; s < SIM_SHARDS_MAX && !edits->value[EDIT_hosts]; s++)
		for (uint32_t e = 0; e < SIM_ENGINES_MAX; e++)
			host_ease(&scenario->shard[s].host[e]);
}

static void ops_apply(const struct edits *edits, struct scenario *scenario)
{
	uint64_t chunks = edits->value[EDIT_chunks];

	for (uint32_t i = 0; i < scenario->ops && chunks != EDIT_NONE; i++)
		if (scenario->op[i].count > chunks * scenario->lanes)
			scenario->op[i].count = chunks * scenario->lanes;
	if (scenario->odd_op.count > chunks * scenario->lanes && chunks != EDIT_NONE)
		scenario->odd_op.count = chunks * scenario->lanes + 1;
	scenario->strike_op %= scenario->ops;
}

static void less(uint32_t *value, uint64_t edit, enum edit which)
{
	if (edit < table[which].least)
		edit = table[which].least;
	if (edit < *value)
		*value = (uint32_t)edit;
}

void edits_apply(const struct edits *edits, struct scenario *scenario)
{
	const uint64_t *value = edits->value;
	struct net_weather *weather = &scenario->weather;

	less(&scenario->jobs, value[EDIT_jobs], EDIT_jobs);
	less(&scenario->shards, value[EDIT_shards], EDIT_shards);
	less(&scenario->workers, value[EDIT_workers], EDIT_workers);
	less(&scenario->ops, value[EDIT_ops], EDIT_ops);
	less(&scenario->strikes, value[EDIT_strikes], EDIT_strikes);
	less(&scenario->pause_every_ns, value[EDIT_pauses] ? EDIT_NONE : 0, EDIT_pauses);
	less(&scenario->seq_first, value[EDIT_seq], EDIT_seq);
	less(&scenario->run, value[EDIT_run], EDIT_run);
	if (!scenario->latency_window) {
		uint32_t least = MAP_EXPRESS_SLOTS_MIN + scenario->run;

		less(&scenario->slots, value[EDIT_slots] < least ? least : value[EDIT_slots],
		     EDIT_slots);
	}
	less(&scenario->lanes, value[EDIT_lanes] / 4 * 4, EDIT_lanes);
	less(&weather->jitter_ns, value[EDIT_jitter], EDIT_jitter);
	less(&weather->duplicate, value[EDIT_duplicate], EDIT_duplicate);
	less(&weather->reorder, value[EDIT_reorder], EDIT_reorder);
	less(&weather->loss, value[EDIT_loss], EDIT_loss);
	scenario->is_hello = scenario->is_hello && value[EDIT_hello];
	if (value[EDIT_last] != EDIT_NONE)
		scenario->fault_last = value[EDIT_last] ? value[EDIT_last] : 1;
	if (value[EDIT_spared] != EDIT_NONE)
		scenario->fault_first = value[EDIT_spared];
	shape_apply(edits, scenario);
	workers_apply(edits, scenario);
	ops_apply(edits, scenario);
	scenario->seed += edits->chance * 0x9e3779b97f4a7c15;
	scenario->edits = edits;
}
