/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors_value.h"

/* clang-format off */
static const struct value_name type_names[] = {
	{ "UPDATE", WIRE_UPDATE }, { "PROBE", WIRE_PROBE }, { "RESULT", WIRE_RESULT },
	{ "HELD", WIRE_HELD }, { "ACK", WIRE_ACK }, { "CONFIRM", WIRE_CONFIRM },
	{ "NEED", WIRE_NEED }, { "HELLO", WIRE_HELLO }, { "WELCOME", WIRE_WELCOME },
};
static const struct value_name fault_names[] = {
	{ "OK", WIRE_OK }, { "SHORT", WIRE_FAULT_SHORT }, { "VERSION", WIRE_FAULT_VERSION },
	{ "TYPE", WIRE_FAULT_TYPE }, { "LANES", WIRE_FAULT_LANES },
	{ "LENGTH", WIRE_FAULT_LENGTH }, { "FLAGS", WIRE_FAULT_FLAGS },
};
static const struct value_name verdict_names[] = {
	{ "ABSORB", SWITCH_ABSORB }, { "REPLY", SWITCH_REPLY }, { "MULTICAST", SWITCH_MULTICAST },
	{ "UP", SWITCH_UP }, { "HELD_UP", SWITCH_HELD_UP }, { "MISMATCH", SWITCH_MISMATCH },
	{ "DROP_TYPE", SWITCH_DROP_TYPE }, { "DROP_JOB", SWITCH_DROP_JOB },
	{ "DROP_GENERATION", SWITCH_DROP_GENERATION }, { "DROP_CHILD", SWITCH_DROP_CHILD },
	{ "DROP_SLOT", SWITCH_DROP_SLOT }, { "DROP_LANES", SWITCH_DROP_LANES },
	{ "DROP_ADDRESS", SWITCH_DROP_ADDRESS }, { "DROP_STALE", SWITCH_DROP_STALE },
	{ "DROP_ALARM", SWITCH_DROP_ALARM },
};
/* clang-format on */

/* A case is a sequence of lines in this order. */
enum stage {
	STAGE_NAME,
	STAGE_RULE,
	STAGE_BYTES,
	STAGE_FAULT,
	STAGE_JOB,
	STAGE_SLOT,
	STAGE_COPY,
	STAGE_PACKET,
	STAGE_VERDICT,
	STAGE_ANSWER,
	STAGE_PROBE_UP,
	STAGE_AFTER,
};

struct parser {
	struct vector *first, **last;
	struct vector *now; /* the case that is being read */
	enum stage stage;
	bool has_answer, has_probe_up, has_packet, has_slot, is_after_same;
	uint32_t line;
	char *error;
};

static bool refuse(struct parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(struct parser *parser, const char *format, ...)
{
	int used = snprintf(parser->error, VECTORS_ERROR_MAX, "line %u: ", parser->line);
	va_list list;

	va_start(list, format);
	vsnprintf(parser->error + used, (size_t)(VECTORS_ERROR_MAX - used), format, list);
	va_end(list);
	return false;
}

const char *vectors_verdict_name(enum switch_verdict verdict)
{
	for (size_t i = 0; i < COUNT(verdict_names); i++)
		if (verdict_names[i].value == (uint32_t)verdict)
			return verdict_names[i].text;
	return "?";
}

/* The rest of a line: key=value for each of `keys` that is needed, and for others of them. */
static bool keys_parse(struct parser *parser, char *rest, struct value_key *keys, size_t count)
{
	for (char *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');
		struct value_key *key = NULL;

		if (!*word)
			continue;
		if (!value)
			return refuse(parser, "'%s' is no key=value", word);
		*value++ = '\0';
		for (size_t i = 0; i < count; i++)
			if (!strcmp(keys[i].name, word))
				key = &keys[i];
		if (!key)
			return refuse(parser, "unknown key '%s'", word);
		if (key->is_seen)
			return refuse(parser, "'%s' is given twice", word);
		key->is_seen = true;
		if (!value_parse(&parser->now->job, key, value))
			return refuse(parser, "'%s' is no value of '%s'", value, word);
	}
	for (size_t i = 0; i < count; i++)
		if (keys[i].is_needed && !keys[i].is_seen)
			return refuse(parser, "'%s' is missing", keys[i].name);
	return true;
}

static bool name_parse(struct parser *parser, const char *rest, const struct value_name *names,
		       size_t count, uint32_t *value)
{
	if (!value_name_find(names, count, rest, value))
		return refuse(parser, "unknown name '%s'", rest);
	return true;
}

/* `needed`: a string of the first letters of the keys that must be given. */
static bool packet_parse(struct parser *parser, char *rest, struct vector_packet *packet,
			 const char *needed)
{
	struct wire *wire = &packet->wire;
	struct value_key keys[] = {
		{ "job", VALUE_U16, &wire->job, false, false },
		{ "generation", VALUE_U32, &wire->generation, false, false },
		{ "seq", VALUE_U32, &wire->seq, false, false },
		{ "slot", VALUE_U16, &wire->slot, false, false },
		{ "child", VALUE_CHILD, &wire->child, false, false },
		{ "flags", VALUE_FLAGS, &wire->flags, false, false },
		{ "exponent", VALUE_EXPONENT, &wire->exponent, false, false },
		{ "tag", VALUE_U32, &wire->tag, false, false },
		{ "lanes", VALUE_LANES, &packet->lanes, false, false },
	};
	char *type = strsep(&rest, " ");
	uint32_t value = 0;

	for (size_t i = 0; i < COUNT(keys); i++)
		keys[i].is_needed = strstr(needed, keys[i].name) != NULL;
	if (!name_parse(parser, type, type_names, COUNT(type_names), &value))
		return false;
	wire->type = (uint8_t)value;
	if (!keys_parse(parser, rest, keys, COUNT(keys)))
		return false;
	wire->lanes = (uint16_t)packet->lanes.count;
	if (!parser->now->is_shape && packet->lanes.count > VECTORS_STRIDE)
		return refuse(parser, "more than %d lanes", VECTORS_STRIDE);
	return true;
}

static bool job_parse(struct parser *parser, char *rest)
{
	struct switch_job *job = &parser->now->job;
	uint16_t children = 0;
	struct value_key keys[] = {
		{ "children", VALUE_U16, &children, true, false },
		{ "generation", VALUE_U32, &job->generation, false, false },
		{ "index", VALUE_U16, &job->index, false, false },
		{ "lanes", VALUE_U16, &job->lanes, false, false },
		{ "slots", VALUE_U32, &job->slots, false, false },
		{ "enabled", VALUE_U8, &job->enabled, false, false },
		{ "mode", VALUE_MODE, &job->mode, false, false },
		{ "parent_job", VALUE_U16, &job->parent_job, false, false },
		{ "parent_child", VALUE_U16, &job->parent_child, false, false },
	};

	job->generation = 7;
	job->index = 3;
	job->lanes = 8;
	job->slots = 4;
	job->enabled = 1;
	if (!keys_parse(parser, rest, keys, COUNT(keys)))
		return false;
	if (keys[7].is_seen != keys[8].is_seen || (job->mode && keys[7].is_seen))
		return refuse(parser, "parent_job and parent_child go together, in dense mode");
	if (children < 1 || children > SWITCH_CHILDREN_MAX || job->lanes > VECTORS_STRIDE)
		return refuse(parser, "too few or too many children or lanes");
	job->has_parent = keys[7].is_seen;
	switch_job_fill(job, children);
	for (uint32_t copy = 0; copy < 2; copy++)
		for (uint32_t i = 0; i < VECTORS_STRIDE; i++)
			parser->now->before.sum[copy][i] = (int32_t)(0x5eed0000 + copy * 256 + i);
	return true;
}

/* A line's sum, for one copy of the slot: *count lanes. */
static bool sum_keep(struct parser *parser, const struct vector_lanes *sum, int32_t *at,
		     uint16_t *count)
{
	if (sum->count > VECTORS_STRIDE)
		return refuse(parser, "more than %d lanes", VECTORS_STRIDE);
	*count = (uint16_t)sum->count;
	if (sum->count)
		memcpy(at, sum->lane, sum->count * sizeof(*at));
	return true;
}

static bool latency_slot_parse(struct parser *parser, char *rest, struct vector_state *state,
			       bool is_needed)
{
	struct switch_latency_slot *slot = &state->latency;
	struct vector_lanes sum = { 0 };
	struct value_key keys[] = {
		{ "generation", VALUE_U32, &slot->generation, false, false },
		{ "round", VALUE_U32, &slot->round, is_needed, false },
		{ "in", VALUE_MEMBERS, slot->sum_bitmap, is_needed, false },
		{ "acked", VALUE_MEMBERS, slot->ack_bitmap, false, false },
		{ "tag", VALUE_U32, &slot->tag, false, false },
		{ "flags", VALUE_FLAGS, &slot->flags, false, false },
		{ "last", VALUE_CHILD, &slot->last, false, false },
		{ "sum", VALUE_LANES, &sum, false, false },
	};
	bool is_good;

	if (is_needed)
		slot->generation = parser->now->job.generation;
	is_good = keys_parse(parser, rest, keys, COUNT(keys));
	if (is_good && keys[7].is_seen)
		is_good = sum_keep(parser, &sum, state->sum[0], &slot->lanes);
	free(sum.lane);
	return is_good;
}

static bool slot_parse(struct parser *parser, char *rest, struct vector_state *state,
		       bool is_needed)
{
	struct switch_slot *slot = &state->slot;
	struct value_key keys[] = {
		{ "generation", VALUE_U32, &slot->generation, false, false },
		{ "phase", VALUE_U32, &slot->phase, is_needed, false },
		{ "final", VALUE_U32, &slot->final, is_needed, false },
		{ "members", VALUE_MEMBERS, slot->bitmap, is_needed, false },
		{ "bare", VALUE_MEMBERS, slot->bare, false, false },
	};

	if (is_needed && rest && !strcmp(rest, "new"))
		return true;
	if (parser->now->job.mode)
		return latency_slot_parse(parser, rest, state, is_needed);
	if (is_needed)
		slot->generation = parser->now->job.generation;
	return keys_parse(parser, rest, keys, COUNT(keys));
}

static bool copy_parse(struct parser *parser, char *rest, struct vector_state *state)
{
	char *index = strsep(&rest, " ");
	uint32_t copy = index[0] == '1';
	struct switch_copy *fields = &state->slot.copy[copy];
	struct vector_lanes sum = { 0 };
	struct value_key keys[] = {
		{ "tag", VALUE_U32, &fields->tag, false, false },
		{ "flags", VALUE_FLAGS, &fields->flags, false, false },
		{ "exponent", VALUE_EXPONENT, &fields->exponent, false, false },
		{ "last", VALUE_CHILD, &fields->last, false, false },
		{ "sum", VALUE_LANES, &sum, false, false },
	};
	bool is_good;

	if ((strcmp(index, "0") && strcmp(index, "1")) || parser->now->job.mode)
		return refuse(parser, "there is no copy '%s'", index);
	is_good = keys_parse(parser, rest, keys, COUNT(keys));
	if (is_good && keys[4].is_seen)
		is_good = sum_keep(parser, &sum, state->sum[copy], &fields->lanes);
	free(sum.lane);
	return is_good;
}

static bool after_parse(struct parser *parser, char *rest)
{
	char *what = strsep(&rest, " ");

	if (parser->is_after_same)
		return refuse(parser, "nothing follows 'after same'");
	if (!strcmp(what, "same") && !rest && parser->stage != STAGE_AFTER) {
		parser->is_after_same = true;
		return true;
	}
	if (!strcmp(what, "slot") && rest)
		return slot_parse(parser, rest, &parser->now->after, false);
	if (!strcmp(what, "copy") && rest)
		return copy_parse(parser, rest, &parser->now->after);
	return refuse(parser, "after what?");
}

/* 11 00 ff 00*40 or none */
static bool bytes_parse(struct parser *parser, char *rest)
{
	struct vector *now = parser->now;
	char *word;

	if (!strcmp(rest, "none"))
		return true;
	while ((word = strsep(&rest, " "))) {
		char *end;
		unsigned long byte = strtoul(word, &end, 16);
		long times = 1;

		if (end != word + 2 || (*end && *end != '*'))
			return refuse(parser, "'%s' is no byte", word);
		if (*end)
			times = strtol(end + 1, &end, 10);
		if (*end || times < 1 || times > 65536)
			return refuse(parser, "'%s' is no byte", word);
		now->bytes = realloc(now->bytes, now->bytes_count + (size_t)times);
		if (!now->bytes)
			abort();
		memset(now->bytes + now->bytes_count, (int)byte, (size_t)times);
		now->bytes_count += (uint32_t)times;
	}
	return true;
}

/* What a packet says if its line does not. */
static void packet_defaults(struct vector *now)
{
	now->packet.wire.job = now->is_from_parent ? now->job.parent_job : now->job.index;
	now->packet.wire.generation = now->job.generation;
}

static void answer_defaults(struct vector *now, struct vector_packet *answer)
{
	answer->wire.job = now->job.index;
	if (!now->is_from_parent)
		answer->wire.job = now->packet.wire.job;
	answer->wire.generation = now->packet.wire.generation;
	answer->wire.seq = now->packet.wire.seq;
	answer->wire.slot = now->packet.wire.slot;
}

static bool case_begin(struct parser *parser, const char *name)
{
	if (!*name || strlen(name) >= VECTORS_NAME_MAX ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
		return refuse(parser, "'%s' is no name", name);
	for (struct vector *other = parser->first; other; other = other->next)
		if (!strcmp(other->name, name))
			return refuse(parser, "there are two cases '%s'", name);
	parser->now = calloc(1, sizeof(*parser->now));
	if (!parser->now)
		abort();
	strcpy(parser->now->name, name);
	*parser->last = parser->now;
	parser->last = &parser->now->next;
	parser->has_answer = parser->has_probe_up = parser->has_packet = false;
	parser->has_slot = parser->is_after_same = false;
	return true;
}

/* Is all there that this case needs? */
static bool case_end(struct parser *parser)
{
	struct vector *now = parser->now;
	bool wants_answer;

	if (!now)
		return true;
	if (now->is_shape) {
		if (parser->stage != (now->fault ? STAGE_FAULT : STAGE_PACKET))
			return refuse(parser, "case '%s' is unfinished, or says too much",
				      now->name);
		return true;
	}
	wants_answer = now->verdict == SWITCH_REPLY || now->verdict == SWITCH_MULTICAST ||
		       now->verdict == SWITCH_UP || now->verdict == SWITCH_HELD_UP;
	if (parser->stage != STAGE_AFTER || !parser->has_packet || !parser->has_slot)
		return refuse(parser, "case '%s' is unfinished", now->name);
	if (parser->has_answer != wants_answer ||
	    parser->has_probe_up != (now->verdict == SWITCH_HELD_UP))
		return refuse(parser, "case '%s' has an answer too many or too few", now->name);
	return true;
}

/* clang-format off */
static const struct {
	const char *text;
	enum stage stage;
	bool may_repeat;
} keywords[] = {
	{ "case", STAGE_NAME, false },
	{ "rule", STAGE_RULE, false },
	{ "bytes", STAGE_BYTES, true },
	{ "fault", STAGE_FAULT, false },
	{ "job", STAGE_JOB, false },
	{ "slot", STAGE_SLOT, false },
	{ "copy", STAGE_COPY, true },
	{ "packet", STAGE_PACKET, false },
	{ "from_parent", STAGE_PACKET, false },
	{ "verdict", STAGE_VERDICT, false },
	{ "answer", STAGE_ANSWER, false },
	{ "probe_up", STAGE_PROBE_UP, false },
	{ "after", STAGE_AFTER, true },
};
/* clang-format on */

static const char packet_needs[] = "seq child";
static const char answer_needs[] = "flags child exponent tag lanes";
static const char shape_needs[] = "flags job generation seq slot child exponent tag";

static bool packet_line(struct parser *parser, const char *word, char *rest)
{
	struct vector *now = parser->now;

	now->is_from_parent = !strcmp(word, "from_parent");
	if (now->is_shape && now->is_from_parent)
		return refuse(parser, "a shape has no parent");
	if (!now->is_shape)
		packet_defaults(now);
	parser->has_packet = true;
	now->after = now->before;
	return packet_parse(parser, rest, &now->packet, now->is_shape ? shape_needs : packet_needs);
}

static bool verdict_line(struct parser *parser, const char *rest)
{
	struct vector *now = parser->now;
	uint32_t value = 0;

	if (!name_parse(parser, rest, verdict_names, COUNT(verdict_names), &value))
		return false;
	now->verdict = (enum switch_verdict)value;
	answer_defaults(now, &now->answer);
	answer_defaults(now, &now->probe_up);
	return true;
}

static bool fault_line(struct parser *parser, const char *rest)
{
	uint32_t value = 0;

	if (!name_parse(parser, rest, fault_names, COUNT(fault_names), &value))
		return false;
	parser->now->fault = (enum wire_fault)value;
	return true;
}

static bool rule_line(struct parser *parser, char *rest)
{
	for (char *word; (word = strsep(&rest, " "));)
		if (strncmp(word, "R-WIRE-", 7) && strncmp(word, "R-SW-", 5) &&
		    strncmp(word, "R-LAT-", 6))
			return refuse(parser, "'%s' is no rule", word);
	return true;
}

static bool keyword_parse(struct parser *parser, enum stage stage, const char *word, char *rest)
{
	struct vector *now = parser->now;

	switch (stage) {
	case STAGE_NAME:
		return case_end(parser) && case_begin(parser, rest);
	case STAGE_RULE:
		return rule_line(parser, rest);
	case STAGE_BYTES:
		now->is_shape = true;
		return bytes_parse(parser, rest);
	case STAGE_FAULT:
		return fault_line(parser, rest);
	case STAGE_JOB:
		return job_parse(parser, rest);
	case STAGE_SLOT:
		parser->has_slot = true;
		return slot_parse(parser, rest, &now->before, true);
	case STAGE_COPY:
		return copy_parse(parser, rest, &now->before);
	case STAGE_PACKET:
		return packet_line(parser, word, rest);
	case STAGE_VERDICT:
		return verdict_line(parser, rest);
	case STAGE_ANSWER:
		parser->has_answer = true;
		return packet_parse(parser, rest, &now->answer, answer_needs);
	case STAGE_PROBE_UP:
		parser->has_probe_up = true;
		return packet_parse(parser, rest, &now->probe_up, answer_needs);
	case STAGE_AFTER:
		return after_parse(parser, rest);
	}
	return false;
}

static bool line_parse(struct parser *parser, char *line)
{
	char *word;
	size_t length;

	line[strcspn(line, "#")] = '\0';
	length = strlen(line);
	while (length && line[length - 1] == ' ')
		line[--length] = '\0';
	if (!length)
		return true;
	word = strsep(&line, " ");
	if (!line)
		return refuse(parser, "'%s' says nothing", word);
	for (size_t i = 0; i < COUNT(keywords); i++) {
		enum stage stage = keywords[i].stage;

		if (strcmp(keywords[i].text, word))
			continue;
		if (stage != STAGE_NAME &&
		    (!parser->now || stage < parser->stage ||
		     (stage == parser->stage && !keywords[i].may_repeat) ||
		     (parser->now->is_shape && stage > STAGE_FAULT && stage != STAGE_PACKET)))
			return refuse(parser, "'%s' has no place here", word);
		if (!keyword_parse(parser, stage, word, line))
			return false;
		parser->stage = stage;
		return true;
	}
	return refuse(parser, "unknown keyword '%s'", word);
}

bool vectors_parse(const char *text, struct vector **first, char error[VECTORS_ERROR_MAX])
{
	struct parser parser = { .first = *first, .last = first, .error = error };
	char *copy = strdup(text);
	bool is_good = true;

	if (!copy)
		abort();
	while (*parser.last)
		parser.last = &(*parser.last)->next;
	for (char *rest = copy, *line; is_good && (line = strsep(&rest, "\n"));) {
		parser.line++;
		is_good = line_parse(&parser, line);
		if (!*first)
			continue;
		parser.first = *first;
	}
	is_good = is_good && case_end(&parser);
	free(copy);
	return is_good;
}

void vectors_free(struct vector *first)
{
	while (first) {
		struct vector *next = first->next;

		free(first->bytes);
		free(first->packet.lanes.lane);
		free(first->answer.lanes.lane);
		free(first->probe_up.lanes.lane);
		free(first);
		first = next;
	}
}
