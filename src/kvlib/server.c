/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the connection to one server of a table of keys: see kv.h. docs/protocol.md, R-KV. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/shared/text.h"
#include "kvlib/kv.h"

_Static_assert((int)WORKER_KV_SAYS_WELCOME == KV_WELCOME && (int)WORKER_KV_SAYS_ALIVE == KV_ALIVE &&
		       (int)WORKER_KV_REFUSED_BUSY == KV_REFUSED_BUSY &&
		       (int)WORKER_KV_VERSION == KV_VERSION &&
		       (int)WORKER_KV_IDENTITY_BYTES == KV_IDENTITY_BYTES,
	       "numbers are R-KV's");

void kv_server_init(struct kv_server *server, struct tally_kv *kv, uint32_t idx)
{
	server->kv = kv;
	server->idx = idx;
	server->core = &kv->core->server[idx];
	server->stream.fd = -1;
	server->hot = server->hot_packet;
	server->pull_next = 1;
	server->batches_end = &server->batches;
	server->cold_max = kv_keys_max(kv->dim);
	snprintf(server->lost, sizeof(server->lost), "not reached yet");
}

void kv_server_fini(struct kv_server *server)
{
	kv_stream_close(&server->stream);
	while (server->batches) {
		struct kv_batch *batch = server->batches;

		server->batches = batch->next;
		free(batch);
	}
	while (server->pulls) {
		struct kv_pull *pull = server->pulls;

		server->pulls = pull->next;
		free(pull);
	}
	kv_hot_fini(server);
	kv_map_fini(server);
	free(server->carry);
}

/* ---- what is said ---- */

static void hello_say(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	struct kv_message *message = &kv->message;

	*message = (struct kv_message){ .type = KV_HELLO,
					.version = KV_VERSION,
					.worker = kv->worker,
					.workers = kv->workers,
					.pid = (uint32_t)kv->pid,
					.incarnation = kv->incarnation };
	strcpy(message->job, kv->who.job);
	strcpy(message->secret, kv->key);
	snprintf(message->host, KV_NAME_BYTES, "%.*s", KV_NAME_BYTES - 1, kv->who.host);
	kv_say(server, message);
}

static void open_say(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	struct kv_message open = { .type = KV_OPEN,
				   .dim = kv->dim,
				   .mode = (enum kv_mode)kv->core->config.mode,
				   .staleness = kv->core->config.staleness,
				   .program = kv->program,
				   .server = (uint16_t)server->idx,
				   .servers = (uint16_t)kv->servers };

	strcpy(open.name, kv->name);
	memcpy(open.identity, kv->core->identity, sizeof(open.identity));
	open.is_used = worker_kv_open(kv->core, server->idx, open.own);
	kv_say(server, &open);
}

/* Whoever trains must know what is lost: it was told that this is in. */
static void report_say(struct kv_server *server, const struct kv_message *opened)
{
	struct tally_kv *kv = server->kv;
	struct kv_message report = { .type = KV_REPORT,
				     .table = opened->table,
				     .window = opened->window,
				     .number = server->core->batch_done };
	struct worker_kv_loss loss;

	kv_hot_report(server, opened->generation, report.row);
	loss = worker_kv_report(server->core, opened->number, opened->row, report.row);
	kv->stats.batches_lost += loss.batches;
	kv->stats.packets_lost += loss.packets;
	if (loss.batches || loss.packets)
		report_log(&kv->who, TALLY_LOG_WARN,
			   "table %s: server %s has gone back to its checkpoint: %llu batches, up "
			   "to number %llu, and %llu packets of hot keys, which were complete, are "
			   "lost",
			   kv->name, server->at.text, (unsigned long long)loss.batches,
			   (unsigned long long)report.number, (unsigned long long)loss.packets);
	kv_say(server, &report);
}

/* ---- what is heard ---- */

static void opened_take(struct kv_server *server, const struct kv_message *message)
{
	server->patience_ns = (uint64_t)message->patience_us * 1000;
	if (!server->endpoint) {
		server->generation = message->generation;
		server->expected = message->epoch;
	}
	strcpy(server->made, message->text);
	kv_hot_opened(server, message->nonce);
}

static void pulled_take(struct kv_server *server, const struct kv_message *message)
{
	struct kv_pull **at = kv_say_pull_find(server, message->number), *pull = *at;
	uint16_t dim = server->kv->dim;
	struct kv_work *work;

	if (!pull)
		return; /* asked again after a reconnection, and answered twice */
	if (message->count != pull->count || message->dim != dim) {
		kv_break(server->kv, TALLY_ERR_INTERNAL,
			 "server %s answered a pull of %u keys with %u of dim %u", server->at.text,
			 pull->count, message->count, message->dim);
		return;
	}
	work = pull->work;
	for (uint32_t i = 0; i < pull->count; i++) {
		uint32_t key = work->order[pull->first + i];
		const float *value = message->value + (size_t)i * dim;

		for (uint32_t k = 0; k < dim; k++)
			work->out[(size_t)key * dim + k] = value[k];
		if (server->kv->has_copies && work->part[server->idx].map == server->map.version)
			kv_hot_pulled(server, message, work->rank[key], value);
	}
	server->kv->stats.keys_pulled += pull->count;
	server->pull_ns = server->kv->now_ns;
	kv_say_pull_drop(server, at);
	kv_say_next(server);
	if (!--work->pulls_left && !work->result)
		kv_work_complete(server->kv, work);
}

/* One that was asked for has failed, alone. */
static void pull_failed(struct kv_server *server, const struct kv_message *message)
{
	struct kv_pull **at = kv_say_pull_find(server, message->number);
	struct kv_work *work = (*at)->work;

	if (!work->result) {
		work->result = kv_fault_of(message->refusal);
		snprintf(work->text, sizeof(work->text), "%s", message->text);
		server->kv->is_news = true;
	}
	kv_say_pull_drop(server, at);
	kv_say_next(server);
}

static bool map_take(struct kv_server *server, const struct kv_message *message,
		     struct worker_kv_actions *actions)
{
	struct worker_kv_actions more;

	if (actions->todo & WORKER_KV_NEW_MAP && !kv_map_begin(server, message))
		return false;
	if (!kv_map_take(server, message))
		return false;
	if (message->first + message->count == message->ranks) {
		worker_kv_mapped(server->core, message->map, &more);
		actions->todo |= more.todo; /* beside what its coming has made of another map */
	}
	return true;
}

/* False: it does not belong here after all. */
static bool take(struct kv_server *server, const struct kv_message *message,
		 struct worker_kv_actions *actions)
{
	switch (message->type) {
	case KV_WELCOME:
		conn_address_ip(&server->at, server->at_server.ip, &server->at_server.port);
		server->at_server.port = message->port;
		return true;
	case KV_OPENED:
		return opened_take(server, message), true;
	case KV_MAP:
		return map_take(server, message, actions);
	case KV_SWITCH:
		return kv_hot_switch(server, message);
	case KV_PULLED:
		return pulled_take(server, message), true;
	default:
		return pull_failed(server, message), true;
	}
}

/* ---- what is to be done ---- */

static void attempt(struct kv_server *server)
{
	int fd = socket(server->at.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0) {
		kv_server_lose(server, WORKER_KV_HERE, strerror(errno));
		return;
	}
	error = conn_begin(fd, &server->at);
	if (error) {
		close(fd);
		kv_server_lose(server, WORKER_KV_ENDED, strerror(-error));
		return;
	}
	kv_stream_open(&server->stream, fd);
	worker_kv_connected(server->core);
	hello_say(server);
}

static void close_for(struct kv_server *server, const struct worker_kv_actions *actions,
		      const struct kv_message *message)
{
	char why[KV_TEXT_BYTES] = "it says nothing any more";

	if (actions->lost == WORKER_KV_UNFIT)
		snprintf(why, sizeof(why), "it said %s, which it may not now",
			 kv_type_name(message->type));
	else if (actions->lost == WORKER_KV_BUSY)
		snprintf(why, sizeof(why), "%s", message->text);
	kv_server_close(server, actions, why);
}

static void act(struct kv_server *server, struct worker_kv_actions *actions,
		const struct kv_message *message)
{
	const struct kv_message alive = { .type = KV_ALIVE }, leave = { .type = KV_LEAVE };
	struct tally_kv *kv = server->kv;
	uint32_t todo = actions->todo;

	if (todo & WORKER_KV_FAIL)
		kv_fault(server, actions->fault, message);
	if (todo & WORKER_KV_CLOSE)
		close_for(server, actions, message);
	if (todo & WORKER_KV_ATTEMPT)
		attempt(server);
	if (todo & WORKER_KV_SAY_OPEN)
		open_say(server);
	if (todo & WORKER_KV_FREE)
		kv_say_batches_free(server);
	if (todo & WORKER_KV_REPORT)
		report_say(server, message);
	if (todo & WORKER_KV_PAST)
		kv_hot_batched(server, message->generation,
			       message->epoch - (message->type == KV_OPENED));
	if (todo & WORKER_KV_TAKE && !take(server, message, actions) && !kv->error) {
		worker_kv_lost(kv->core, server->idx, kv->now_ns, WORKER_KV_UNFIT, actions);
		close_for(server, actions, message);
	}
	if (actions->todo & WORKER_KV_AGAIN)
		kv_say_all_again(server);
	if (todo & WORKER_KV_PASSED)
		kv_barriers_settle(kv);
	if (todo & WORKER_KV_SAY_ALIVE)
		kv_say(server, &alive);
	if (todo & WORKER_KV_SAY_LEAVE)
		kv_say(server, &leave);
	if (todo & WORKER_KV_OVER)
		kv_server_over(server);
}

static void hear(struct kv_server *server, struct kv_message *message)
{
	struct tally_kv *kv = server->kv;
	const struct worker_kv_message said = {
		.type = (enum worker_kv_type)message->type,
		.table = message->table,
		.version = message->version,
		.refusal = (uint16_t)message->refusal,
		.heartbeat_ms = message->heartbeat_ms,
		.number = message->number,
		.generation = message->generation,
		.is_same = kv_hot_is_at(server, message),
		.is_pull = message->type == KV_ERROR && message->about == KV_PULL &&
			   *kv_say_pull_find(server, message->number),
		.map = message->map,
		.first = message->first,
		.count = message->count,
		.epoch = message->epoch,
		.barrier = message->barrier,
		.identity = message->identity,
		.own = message->own,
		.shape = { .ranks = message->ranks,
			   .workers = kv->workers,
			   .window = message->window,
			   .dim = message->dim,
			   .index = message->index,
			   .bytes = message->bytes,
			   .values = (uint8_t)message->values },
		.scale = message->scale,
		.server = message->server,
		.servers = message->servers,
		.is_stepped = message->is_stepped,
		.is_known = message->is_known,
		.must_report = message->must_report,
		.is_used = message->is_used,
		.is_named = !strcmp(message->name, kv->name),
		.is_made_as_first = !strcmp(message->text, kv->server->made),
		.is_made_as_before = !strcmp(message->text, server->made),
		.stream = kv_hot_generation(server),
	};
	struct worker_kv_actions actions;

	if (message->type == KV_ERROR)
		text_clean(message->text); /* a server may say anything */
	worker_kv_message(kv->core, server->idx, kv->now_ns, &said, &actions);
	act(server, &actions, message);
}

/* ---- time ---- */

static void read_all(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	char why[KV_TEXT_BYTES];
	int error = kv_stream_read(&server->stream), got = 0;

	while (!kv->error && worker_kv_is_there(server->core) &&
	       (got = kv_stream_next(&server->stream, &kv->codec, &kv->message)) > 0)
		hear(server, &kv->message);
	if (!worker_kv_is_there(server->core) || kv->error)
		return;
	if (got < 0) {
		snprintf(why, sizeof(why), "it said nonsense: %s", kv->codec.fault);
		kv_server_lose(server, WORKER_KV_HERE, why);
	} else if (error) {
		kv_server_lose(server, WORKER_KV_ENDED,
			       error == -ECONNRESET ? "it has closed the connection"
						    : strerror(-error));
	}
}

uint64_t kv_server_turn(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	struct worker_kv_actions actions;

	if (worker_kv_is_there(server->core) && server->is_ready)
		read_all(server);
	if (kv->error)
		return UINT64_MAX;
	worker_kv_time(kv->core, server->idx, kv->now_ns, &actions);
	act(server, &actions, NULL);
	kv_server_flush(server);
	kv_say_next(server);
	return kv->error ? UINT64_MAX : worker_kv_wake_ns(kv->core, server->idx);
}
