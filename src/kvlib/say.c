/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - what a server of a table of keys is told, and told again on a new connection: see kv.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvlib/kv.h"

void kv_server_close(struct kv_server *server, const struct worker_kv_actions *actions,
		     const char *why)
{
	struct tally_kv *kv = server->kv;

	if (actions->todo & WORKER_KV_WARN)
		report_log(&kv->who, TALLY_LOG_WARN, "table %s: server %s is lost: %s", kv->name,
			   server->at.text, why);
	snprintf(server->lost, sizeof(server->lost), "%s", why);
	kv->stats.bytes_out += server->stream.sent;
	kv->stats.bytes_in += server->stream.received;
	kv_stream_close(&server->stream);
	if (actions->todo & WORKER_KV_NEXT_ADDRESS)
		conn_address_next(&server->at);
}

void kv_server_lose(struct kv_server *server, enum worker_kv_lost lost, const char *why)
{
	struct worker_kv_actions actions;

	worker_kv_lost(server->kv->core, server->idx, server->kv->now_ns, lost, &actions);
	if (actions.todo & WORKER_KV_CLOSE)
		kv_server_close(server, &actions, why);
}

void kv_server_over(struct kv_server *server)
{
	kv_stream_close(&server->stream);
	server->kv->is_news = true;
}

void kv_server_flush(struct kv_server *server)
{
	int error = worker_kv_is_there(server->core) ? kv_stream_flush(&server->stream) : 0;

	if (error)
		kv_server_lose(server, WORKER_KV_ENDED, strerror(-error));
}

static void said(struct kv_server *server, int error)
{
	worker_kv_said(server->core, server->kv->now_ns);
	if (error)
		kv_server_lose(server, WORKER_KV_HERE, strerror(-error));
}

/* It may be gone since what is said was asked for: for want of memory, by what was said before. */
void kv_say(struct kv_server *server, const struct kv_message *message)
{
	if (!worker_kv_is_there(server->core))
		return;
	said(server, kv_stream_say(&server->stream, message));
}

/* ---- batches, pulls and barriers ---- */

bool kv_server_has_room(const struct kv_server *server)
{
	return server->batch_bytes < KV_BATCH_BYTES_MAX;
}

/* As many as the connection takes: what ceases to be hot at once may be more (R-SP-32). */
static void batches_say(struct kv_server *server)
{
	const struct kv_stream *stream = &server->stream;

	while (worker_kv_batch_due(server->core) &&
	       buffer_bytes(&stream->out) < KV_STREAM_OUT_MAX / 2) {
		const struct kv_batch *batch = server->batches_unsaid;

		server->batches_unsaid = batch->next;
		worker_kv_batch_said(server->core);
		said(server, kv_stream_put(&server->stream, batch->frame, batch->bytes));
	}
}

uint64_t kv_server_batch_of(struct kv_server *server, const uint64_t *key, const float *value,
			    uint32_t count)
{
	struct tally_kv *kv = server->kv;
	const struct kv_message message = { .type = KV_BATCH,
					    .table = server->core->number,
					    .number = server->core->batch_next,
					    .dim = kv->dim,
					    .count = count,
					    .key = key,
					    .value = value };
	struct kv_batch *batch = malloc(sizeof(*batch) + kv_bytes(&message));

	if (!batch) {
		kv_break(kv, TALLY_ERR_NO_MEMORY, "out of memory for a batch of %u keys", count);
		return server->core->batch_next;
	}
	if (!server->batches)
		server->batch_ns = kv->now_ns;
	*batch = (struct kv_batch){ .number = worker_kv_batch(server->core) };
	batch->bytes = kv_put(&message, batch->frame);
	*server->batches_end = batch;
	server->batches_end = &batch->next;
	server->batch_bytes += batch->bytes;
	if (!server->batches_unsaid)
		server->batches_unsaid = batch;
	batches_say(server);
	return batch->number;
}

uint64_t kv_server_batch(struct kv_server *server)
{
	uint32_t count = server->cold_count;

	server->cold_count = 0;
	return kv_server_batch_of(server, server->cold_key, server->cold_value, count);
}

static void pull_say(struct kv_server *server, const struct kv_pull *pull)
{
	struct kv_work *work = pull->work;
	struct kv_message message = { .type = KV_PULL,
				      .table = server->core->number,
				      .number = pull->number,
				      .count = pull->count,
				      .key = server->kv->codec.key };

	for (uint32_t i = 0; i < pull->count; i++)
		server->kv->codec.key[i] = work->key[work->order[pull->first + i]];
	kv_say(server, &message);
}

/* As many as may be under way: all of a large one at once would be more than the connection takes. */
static void pulls_say(struct kv_server *server)
{
	while (server->pulls_unsaid && worker_kv_may_pull(server->core)) {
		struct kv_pull *pull = server->pulls_unsaid;

		if (server->pull_bytes && server->pull_bytes + pull->bytes > KV_PULL_BYTES_MAX)
			return;
		server->pull_bytes += pull->bytes;
		server->pulls_unsaid = pull->next;
		pull->is_said = true;
		pull_say(server, pull);
	}
}

void kv_say_next(struct kv_server *server)
{
	batches_say(server);
	pulls_say(server);
}

static void pulls_again(struct kv_server *server)
{
	for (struct kv_pull *pull = server->pulls; pull; pull = pull->next)
		pull->is_said = false;
	server->pull_bytes = 0;
	server->pulls_unsaid = server->pulls;
	pulls_say(server);
}

void kv_server_pull(struct kv_server *server, struct kv_work *work, uint32_t first, uint32_t count)
{
	struct kv_pull *pull = calloc(1, sizeof(*pull)), **end = &server->pulls;

	if (!pull) {
		kv_break(server->kv, TALLY_ERR_NO_MEMORY, "out of memory for a pull");
		return;
	}
	*pull = (struct kv_pull){
		.number = server->pull_next++, .work = work, .first = first, .count = count
	};
	pull->bytes = kv_bytes(&(struct kv_message){ .type = KV_PULL, .count = count });
	if (!server->pulls)
		server->pull_ns = server->kv->now_ns;
	work->part[server->idx].pulls++;
	while (*end)
		end = &(*end)->next;
	*end = pull;
	if (!server->pulls_unsaid)
		server->pulls_unsaid = pull;
	pulls_say(server);
}

struct kv_pull **kv_say_pull_find(struct kv_server *server, uint64_t number)
{
	struct kv_pull **at = &server->pulls;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

/* It is over: others may be said in its place. */
void kv_say_pull_drop(struct kv_server *server, struct kv_pull **at)
{
	struct kv_pull *pull = *at;

	if (pull->is_said)
		server->pull_bytes -= pull->bytes;
	else if (server->pulls_unsaid == pull)
		server->pulls_unsaid = pull->next;
	pull->work->part[server->idx].pulls--;
	*at = pull->next;
	free(pull);
}

void kv_server_forget(struct kv_server *server, const struct kv_work *work)
{
	struct kv_pull **at = &server->pulls;

	while (*at)
		if ((*at)->work == work)
			kv_say_pull_drop(server, at);
		else
			at = &(*at)->next;
	pulls_say(server);
}

static void barrier_say(struct kv_server *server)
{
	const struct kv_message message = { .type = KV_BARRIER,
					    .table = server->core->number,
					    .number = server->core->barrier_said };

	kv_say(server, &message);
}

void kv_server_barrier(struct kv_server *server, uint64_t number)
{
	if (worker_kv_barrier(server->core, number))
		barrier_say(server);
}

/* What has no answer is said again (R-KV-12). */
void kv_say_all_again(struct kv_server *server)
{
	server->hot_ns = server->batch_ns = server->pull_ns = server->kv->now_ns;
	server->batches_unsaid = server->batches;
	batches_say(server);
	pulls_again(server);
	if (worker_kv_barrier_due(server->core))
		barrier_say(server);
	server->kv->is_news |= worker_kv_is_up(server->core);
}

/* ---- what is answered ---- */

void kv_say_batches_free(struct kv_server *server)
{
	while (server->batches && server->batches->number <= server->core->batch_done) {
		struct kv_batch *batch = server->batches;

		server->batches = batch->next;
		if (!server->batches)
			server->batches_end = &server->batches;
		if (server->batches_unsaid == batch)
			server->batches_unsaid = batch->next;
		server->batch_bytes -= batch->bytes;
		server->batch_ns = server->kv->now_ns;
		free(batch);
	}
}
