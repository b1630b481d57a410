/* SPDX-License-Identifier: Apache-2.0 */
/* diagram.c - see diagram.h. A step is told in clauses with "; " between them, and each begins with who acts. */
#include "search/diagram.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ACTORS = 12, COLUMN = 9, NOBODY = ACTORS, NAME = 12, CLAUSE = 512 };

/* How a name is told begins so; a number may follow. In this order they stand side by side. */
static const struct kind {
	const char *told, *shown;
	int has_number;
} kinds[] = {
	{ "rank ", "rank", 1 },          { "the switch", "switch", 0 },
	{ "node ", "node", 1 },          { "the root", "root", 0 },
	{ "the aggregator", "aggr", 0 }, { "the second aggregator", "aggr 2", 0 },
	{ "shard ", "shard", 1 },        { "the controller", "control", 0 },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct actor {
	uint32_t kind, number;
	uint32_t above; /* who takes what it sends */
	int at;         /* character of its column */
};

struct diagram {
	struct actor actor[ACTORS];
	uint32_t count;
	FILE *out; /* NULL: only learning who acts */
};

/* Who is named at `text`, and where the text goes on; NOBODY. */
static uint32_t actor_read(struct diagram *diagram, const char **text)
{
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		size_t length = strlen(kinds[kind].told);
		char *end = (char *)(uintptr_t)*text + length;
		uint32_t number = 0, i;

		if (strncmp(*text, kinds[kind].told, length) != 0)
			continue;
		if (kinds[kind].has_number) {
			if (!isdigit((unsigned char)*end))
				continue;
			number = (uint32_t)strtoul(end, &end, 10);
		}
		for (i = 0; i < diagram->count; i++)
			if (diagram->actor[i].kind == kind && diagram->actor[i].number == number)
				break;
		if (i == ACTORS)
			return NOBODY;
		if (i == diagram->count)
			diagram->actor[diagram->count++] =
				(struct actor){ .kind = kind, .number = number, .above = NOBODY };
		*text = end;
		return i;
	}
	return NOBODY;
}

/* Does a stand to the left of b? */
static bool is_before(const struct actor *a, const struct actor *b)
{
	return a->kind != b->kind ? a->kind < b->kind : a->number < b->number;
}

static bool is_kind(const struct diagram *diagram, uint32_t actor, const char *shown)
{
	return actor != NOBODY && !strcmp(kinds[diagram->actor[actor].kind].shown, shown);
}

/* Who takes what a rank sends, as far as the trace has not shown it: the only one who can. */
static uint32_t above_of(const struct diagram *diagram, uint32_t actor)
{
	uint32_t only = NOBODY;

	if (actor == NOBODY || diagram->actor[actor].above != NOBODY)
		return actor == NOBODY ? NOBODY : diagram->actor[actor].above;
	for (uint32_t i = 0; i < diagram->count; i++) {
		if (i == actor || is_kind(diagram, i, "rank") || is_kind(diagram, i, "shard") ||
		    is_kind(diagram, i, "control"))
			continue;
		if (only != NOBODY)
			return NOBODY;
		only = i;
	}
	return only;
}

/* mark: 'o' is sent, '@' is taken, '*' is done by oneself. */
static void row_draw(const struct diagram *diagram, const char *number, uint32_t from, uint32_t to,
		     char mark, const char *text)
{
	char row[ACTORS * COLUMN + 1];
	size_t width = (size_t)diagram->count * COLUMN;

	if (!diagram->out)
		return;
	memset(row, ' ', width);
	row[width] = '\0';
	for (uint32_t i = 0; i < diagram->count; i++)
		row[diagram->actor[i].at] = '|';
	if (from != NOBODY && to != NOBODY) {
		int a = diagram->actor[from].at, b = diagram->actor[to].at;

		for (int i = (a < b ? a : b) + 1; i < (a < b ? b : a); i++)
			row[i] = mark == 'o' ? '-' : '.';
		row[b] = mark == 'o' ? (a < b ? '>' : '<') : '@';
	} else if (to != NOBODY) {
		row[diagram->actor[to].at] = mark;
	}
	if (from != NOBODY && mark == 'o')
		row[diagram->actor[from].at] = 'o';
	fprintf(diagram->out, "%5s  %s %s\n", number, row, text);
}

static bool begins(const char **text, const char *with)
{
	size_t length = strlen(with);

	if (strncmp(*text, with, length) != 0)
		return false;
	*text += length;
	return true;
}

/* "takes X" or "takes NAME's X", from `taker`'s point of view. */
static void taken(struct diagram *diagram, const char *number, uint32_t taker, const char *text)
{
	const char *rest = text;
	uint32_t sender = actor_read(diagram, &rest);

	if (sender != NOBODY && begins(&rest, "'s ")) {
		diagram->actor[sender].above = taker;
		row_draw(diagram, number, sender, taker, '@', rest);
		return;
	}
	row_draw(diagram, number, above_of(diagram, taker), taker, '@', text);
}

/* "reads X of NAME" at an aggregator, "reads X" at a rank. */
static void message_read(struct diagram *diagram, const char *number, uint32_t reader,
			 const char *text)
{
	const char *of = strstr(text, " of rank ");
	uint32_t sender = above_of(diagram, reader);

	if (of) {
		of += strlen(" of ");
		sender = actor_read(diagram, &of);
	}
	row_draw(diagram, number, sender, reader, '@', text);
}

/* One clause. first: who acts in the step's first one, to be set by that. */
static void clause_draw(struct diagram *diagram, const char *number, const char *clause,
			uint32_t *first)
{
	const char *text = clause;
	bool is_answer = begins(&text, "to ");
	uint32_t actor;

	if (!is_answer)
		(void)begins(&text, "(a copy) ");
	actor = actor_read(diagram, &text);
	if (*first == NOBODY && !is_answer)
		*first = actor;
	if (actor == NOBODY) {
		row_draw(diagram, number, NOBODY, NOBODY, '*', clause);
		return;
	}
	if (is_answer && begins(&text, ": ")) /* a question may be answered in the step that asks */
		row_draw(diagram, number, *first == actor ? above_of(diagram, actor) : *first,
			 actor, 'o', text);
	else if (begins(&text, " sends "))
		row_draw(diagram, number, actor, above_of(diagram, actor), 'o', text);
	else if (begins(&text, " takes "))
		taken(diagram, number, actor, text);
	else if (begins(&text, " reads "))
		message_read(diagram, number, actor, text);
	else if (strstr(text, ": JOIN") || strstr(text, ": LEAVE") || strstr(text, ": STALL"))
		row_draw(diagram, number, actor, above_of(diagram, actor), 'o', text + 1);
	else
		row_draw(diagram, number, NOBODY, actor, '*', text + (*text == ' '));
}

static void line_draw(struct diagram *diagram, const char *line, size_t length)
{
	char text[CLAUSE * 2], number[8] = "";
	uint32_t first = NOBODY;
	char *at = text, *end;

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	memcpy(text, line, length);
	text[length] = '\0';
	at += strspn(at, " ");
	if (*at == '^') {
		if (diagram->out)
			fprintf(diagram->out, "      => %s\n", at + strspn(at, "^ "));
		return;
	}
	end = strstr(at, ". ");
	if (!end || end - at >= (int)sizeof(number))
		return;
	memcpy(number, at, (size_t)(end - at) + 1);
	for (at = end + 2; at; at = end) {
		end = strstr(at, "; ");
		if (end) {
			*end = '\0';
			end += 2;
		}
		clause_draw(diagram, number, at, &first);
		number[0] = '\0';
	}
}

static void lines_draw(struct diagram *diagram, const char *trace)
{
	while (*trace) {
		size_t length = strcspn(trace, "\n");

		line_draw(diagram, trace, length);
		trace += length + (trace[length] == '\n');
	}
}

static void columns_draw(struct diagram *diagram)
{
	char row[ACTORS * COLUMN + NAME];
	size_t width = (size_t)diagram->count * COLUMN;

	memset(row, ' ', sizeof(row));
	for (uint32_t i = 0; i < diagram->count; i++) {
		struct actor *actor = &diagram->actor[i];
		const struct kind *kind = &kinds[actor->kind];
		char name[NAME];
		int length;

		actor->at = COLUMN / 2;
		for (uint32_t k = 0; k < diagram->count; k++)
			actor->at += is_before(&diagram->actor[k], actor) ? COLUMN : 0;
		length = kind->has_number
				 ? snprintf(name, sizeof(name), "%s %u", kind->shown, actor->number)
				 : snprintf(name, sizeof(name), "%s", kind->shown);
		memcpy(row + actor->at - length / 2, name, (size_t)length);
	}
	while (width && row[width - 1] == ' ')
		width--;
	fprintf(diagram->out, " step  %.*s\n", (int)width, row);
}

void diagram_draw(const char *trace, FILE *out)
{
	struct diagram diagram = { .out = NULL };

	lines_draw(&diagram, trace); /* who acts, and who takes whose */
	diagram.out = out;
	columns_draw(&diagram);
	lines_draw(&diagram, trace);
}
