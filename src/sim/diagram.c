/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/diagram.h"

#include <string.h>

enum { COLUMN = 7, COLUMNS_MAX = WIRING_NODES_MAX + 1, ROW = COLUMN * COLUMNS_MAX + 8 };

static const char *type_name(uint32_t type)
{
	static const char *const names[WIRE_TYPE_END] = {
		[WIRE_UPDATE] = "UPDATE", [WIRE_PROBE] = "PROBE", [WIRE_RESULT] = "RESULT",
		[WIRE_HELD] = "HELD",     [WIRE_ACK] = "ACK",     [WIRE_CONFIRM] = "CONFIRM",
		[WIRE_NEED] = "NEED",     [WIRE_HELLO] = "HELLO", [WIRE_WELCOME] = "WELCOME",
	};
	const char *name = type < WIRE_TYPE_END ? names[type] : NULL;

	return name ? name : "?";
}

static const char *fate_text(uint32_t fate)
{
	switch (fate) {
	case NET_DOUBLED:
		return " (twice)";
	case NET_LOST:
		return " LOST";
	case NET_FULL:
	case NET_DROPPED:
		return " LOST: queue full";
	case NET_NOBODY:
		return " LOST: nobody there";
	case NET_REFUSED:
		return " LOST: inbox full";
	case NET_TAKEN:
		return " taken";
	default:
		return "";
	}
}

/* Which columns are of interest: the workers and one shard's switches. */
struct columns {
	uint32_t count;
	uint32_t node[COLUMNS_MAX];
	int at[COLUMNS_MAX]; /* character of a node's column; -1: none */
};

static void columns_init(struct columns *columns, const struct wiring *wiring, uint32_t shard)
{
	columns->count = 0;
	for (uint32_t node = 0; node < COLUMNS_MAX; node++) {
		columns->at[node] = -1;
		if (node >= wiring->workers + wiring->engines)
			continue;
		if (shard != UINT32_MAX && !wiring_is_worker(wiring, node) &&
		    wiring->engine[wiring_engine(wiring, node)].shard != shard)
			continue;
		columns->at[node] = (int)(columns->count * COLUMN) + COLUMN / 2;
		columns->node[columns->count++] = node;
	}
}

/* An arrow from one column to another: o----> on its way, o----x lost, ....> taken. */
static void row_draw(const struct columns *columns, const struct diagram_event *event,
		     char row[ROW])
{
	int from = columns->at[event->from];
	int to = columns->at[event->to];
	bool is_taken = event->fate == NET_TAKEN;

	memset(row, ' ', columns->count * COLUMN);
	row[columns->count * COLUMN] = 0;
	for (uint32_t i = 0; i < columns->count; i++)
		row[columns->at[columns->node[i]]] = '|';
	if (from >= 0 && to >= 0) {
		int left = from < to ? from : to, right = from < to ? to : from;
		for (int i = left + 1; i < right; i++)
			row[i] = is_taken ? '.' : '-';
	}
	if (from >= 0 && !is_taken)
		row[from] = 'o';
	if (to < 0)
		return;
	bool is_lost = event->fate != NET_SENT && event->fate != NET_DOUBLED && !is_taken;
	row[to] = is_lost ? 'x' : is_taken ? '@' : from < to ? '>' : '<';
}

/* With the papers' names; the first element, as plain data have it, says whose sum it is. */
static void published_print(const struct diagram_event *event, enum sim_rules rules, FILE *file)
{
	const struct wire *packet = &event->packet;

	fprintf(file, "%s idx %u", type_name(packet->type), packet->slot);
	if (rules == SIM_SWITCHML)
		fprintf(file, " ver %u off %u", packet->flags & 1, packet->seq);
	if (packet->type == WIRE_UPDATE || packet->type == WIRE_RESULT)
		fprintf(file, " [%d ...]", (int32_t)packet->tag);
	fprintf(file, "%s\n", fate_text(event->fate));
}

static void event_print(const struct columns *columns, const struct diagram_event *event,
			enum sim_rules rules, FILE *file)
{
	static const char *const rounds[] = { "", " EXPONENT", " DETAIL", " GUESS" };
	const struct wire *packet = &event->packet;
	bool has_round = packet->type == WIRE_UPDATE || packet->type == WIRE_RESULT;
	char row[ROW];

	row_draw(columns, event, row);
	fprintf(file, "%12.3f %s  ", (double)event->now_ns / 1000, row);
	if (rules != SIM_OURS) {
		published_print(event, rules, file);
		return;
	}
	fprintf(file, "%s slot %u seq %u%s%s%s g%u child %u tag %08x lanes %u exponent %u%s\n",
		type_name(packet->type), packet->slot, packet->seq,
		has_round ? rounds[packet->flags & WIRE_ROUND_MASK] : "",
		packet->flags & WIRE_STICKY_MASK ? " sticky" : "",
		packet->flags & WIRE_RESENT ? " RESENT" : "", packet->generation, packet->child,
		packet->tag, packet->lanes, packet->exponent, fate_text(event->fate));
}

static bool is_wanted(const struct diagram_event *event, const struct columns *columns,
		      uint32_t shard, uint32_t slot)
{
	if (shard == UINT32_MAX)
		return true;
	if (columns->at[event->from] < 0 ||
	    (event->to < WIRING_NODES_MAX && columns->at[event->to] < 0))
		return false;
	return event->packet.slot == slot;
}

/* The end of what is drawn: if nothing gets on any more since `stuck_ns`, so many events after that. */
static uint64_t events_end(const struct diagram *diagram, const struct columns *columns,
			   uint32_t shard, uint32_t slot, uint64_t oldest)
{
	uint32_t after = 0;

	for (uint64_t i = oldest; i < diagram->count && diagram->stuck_ns; i++) {
		const struct diagram_event *event = &diagram->event[i % DIAGRAM_EVENTS];

		after += event->now_ns > diagram->stuck_ns &&
			 is_wanted(event, columns, shard, slot);
		if (after > DIAGRAM_AFTER)
			return i;
	}
	return diagram->count;
}

void diagram_draw(const struct diagram *diagram, const struct wiring *wiring, uint32_t shard,
		  uint32_t slot, FILE *file)
{
	uint64_t kept = diagram->count < DIAGRAM_EVENTS ? diagram->count : DIAGRAM_EVENTS;
	uint64_t oldest = diagram->count - kept, first, end;
	uint32_t lines = 0;
	struct columns columns;

	columns_init(&columns, wiring, shard);
	first = end = events_end(diagram, &columns, shard, slot, oldest);
	while (first > oldest && lines < DIAGRAM_LINES)
		lines +=
			is_wanted(&diagram->event[--first % DIAGRAM_EVENTS], &columns, shard, slot);
	fprintf(file,
		end < diagram->count ? "%u events around the last progress" : "the last %u events",
		lines);
	if (shard != UINT32_MAX)
		fprintf(file, " of shard %u, slot %u", shard, slot);
	fprintf(file, ":\n");
	fprintf(file, "          us ");
	for (uint32_t i = 0; i < columns.count; i++) {
		char name[16];
		wiring_name(wiring, columns.node[i], name);
		fprintf(file, "%*s%-*s", COLUMN / 2 - (int)strlen(name) / 2, "",
			COLUMN - COLUMN / 2 + (int)strlen(name) / 2, name);
	}
	fprintf(file, "\n");
	for (; first < end; first++) {
		const struct diagram_event *event = &diagram->event[first % DIAGRAM_EVENTS];
		if (is_wanted(event, &columns, shard, slot))
			event_print(&columns, event, diagram->rules, file);
	}
	if (end < diagram->count)
		fprintf(file, "         ... (and so on: nothing gets on)\n");
}
