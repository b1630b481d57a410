/* SPDX-License-Identifier: Apache-2.0 */
/* awaited.c - who is waited for in a barrier, and why in vain, for the log: docs/protocol.md, R-KV-11. A worker that
 * never comes tells nobody, and who waits for it cannot know of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ps/internal.h"

static const uint64_t ns_per_s = 1000000000, SAY_NS = 10000000000;

enum { NAMED_MAX = 8, LIST_BYTES = 192 };

/* Why a worker has not come. */
enum why { NEVER, EARLIER, GONE, HERE, WHY_COUNT };

/* Workers, and a word on each. */
struct list {
	char text[LIST_BYTES];
	uint32_t count;
};

static void list_add(struct list *list, uint16_t worker, const char *word)
{
	size_t used = strlen(list->text);

	if (list->count++ < NAMED_MAX)
		snprintf(list->text + used, sizeof(list->text) - used, "%s%u%s", used ? ", " : "",
			 worker, word);
}

static void list_end(struct list *list)
{
	size_t used = strlen(list->text);

	if (list->count > NAMED_MAX)
		snprintf(list->text + used, sizeof(list->text) - used, " and %u more",
			 list->count - NAMED_MAX);
}

static enum why why_not(const struct ps_hosted *hosted, uint16_t worker)
{
	switch (server_kv_presence(&hosted->table->kv, worker)) {
	case SERVER_KV_ABSENT:
		return NEVER;
	case SERVER_KV_GONE:
		return GONE;
	case SERVER_KV_LEFT:
		return EARLIER;
	case SERVER_KV_REPORTING:
	case SERVER_KV_OPEN:
		break;
	}
	return HERE;
}

static void sort(const struct ps_server *server, const struct ps_hosted *hosted, uint16_t first,
		 struct list *waiting, struct list missing[WHY_COUNT])
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		const struct server_kv_worker *it = &hosted->table->kv.worker[i];
		char word[32] = "";

		if (it->link && it->is_waiting)
			list_add(waiting, i, "");
		if (!server_kv_awaits(&hosted->table->kv, first, i))
			continue;
		if (it->gone_ns)
			snprintf(word, sizeof(word), " (for %" PRIu64 " s)",
				 (ps_now(server) - it->gone_ns) / ns_per_s);
		list_add(&missing[why_not(hosted, i)], i, word);
	}
	list_end(waiting);
	for (int i = 0; i < WHY_COUNT; i++)
		list_end(&missing[i]);
}

static void awaited_say(const struct ps_server *server, const struct ps_hosted *hosted,
			uint16_t first)
{
	static const char *const words[WHY_COUNT] = {
		[NEVER] = "; never opened the table: ",
		[EARLIER] = "; not here since an earlier run: ",
		[GONE] = "; gone: ",
		[HERE] = "; here, but not so far: ",
	};
	struct list waiting = { .count = 0 }, missing[WHY_COUNT] = { { .count = 0 } };
	bool is_absent;
	char text[WHY_COUNT * (LIST_BYTES + 40)] = "";

	sort(server, hosted, first, &waiting, missing);
	for (int i = 0; i < WHY_COUNT; i++)
		if (missing[i].count)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", words[i],
				 missing[i].text);
	is_absent = missing[NEVER].count || missing[EARLIER].count || missing[GONE].count;
	ps_log(server, PS_WARN, ps_about(hosted, NULL),
	       "waiting in a barrier: workers %s; worker %u for %" PRIu64 " s, for barrier %" PRIu64
	       "%s%s",
	       waiting.text, first,
	       (ps_now(server) - hosted->table->kv.worker[first].waits_ns) / ns_per_s,
	       hosted->table->kv.worker[first].barrier, text,
	       is_absent ? ": start those that are not here" : "");
}

void ps_awaited_turn(const struct ps_server *server, struct ps_hosted *hosted)
{
	uint64_t now_ns = ps_now(server);
	uint16_t first = server_kv_longest(&hosted->table->kv, now_ns);

	if (first == hosted->table->shape.workers ||
	    now_ns < hosted->table->kv.worker[first].waits_ns + SAY_NS ||
	    (hosted->awaited_ns && now_ns < hosted->awaited_ns + SAY_NS))
		return;
	hosted->awaited_ns = now_ns;
	awaited_say(server, hosted, first);
}
