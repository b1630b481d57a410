/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - a server that keeps no log is back from its checkpoint: see kv.h. docs/protocol.md, R-SP-33, R-KV-20. */
#include <errno.h>
#include <string.h>

#include "kvlib/kv.h"

/* Whoever trains must know: it was told that this is in. */
static void lost_say(struct kv_server *server, uint64_t batches, uint64_t packets)
{
	struct tally_kv *kv = server->kv;

	kv->stats.batches_lost += batches;
	kv->stats.packets_lost += packets;
	if (!batches && !packets)
		return;
	report_log(
		&kv->who, TALLY_LOG_WARN,
		"table %s: server %s has gone back to its checkpoint: %llu batches, up to number "
		"%llu, and %llu packets of hot keys, which were complete, are lost",
		kv->name, server->at.text, (unsigned long long)batches,
		(unsigned long long)server->batch_done, (unsigned long long)packets);
}

const char *kv_report_fault(const struct kv_server *server, const struct kv_message *opened)
{
	uint64_t told = server->generation_told;

	/* Its random bits are drawn anew: as many fences as before are enough to see it by. */
	if ((opened->generation != told &&
	     sparse_fences(opened->generation) <= sparse_fences(told)) ||
	    (opened->must_report && !kv_hot_is_before(server, opened->generation)))
		return "has begun a generation that there was before: the end of its log is "
		       "missing";
	return NULL;
}

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

int kv_report(struct kv_server *server, const struct kv_message *opened)
{
	struct kv_message report = { .type = KV_REPORT,
				     .table = opened->table,
				     .window = opened->window,
				     .number = server->batch_done };
	const struct sparse_table *shape = &server->shape;
	uint64_t batches, packets = 0, low = more(opened->number - 1, server->reported);

	batches = report.number > low ? report.number - low : 0;
	kv_hot_report(server, opened->generation, report.row);
	for (uint32_t i = 0; i < shape->window; i++) {
		uint64_t had = more(opened->row[i], server->reported_row[i]);

		packets += sparse_lost_at(shape, i, had, report.row[i]);
		server->reported_row[i] = report.row[i];
	}
	server->reported = report.number;
	lost_say(server, batches, packets);
	return kv_stream_say(&server->stream, &report);
}
