/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the connection to one server of a table of keys: see kv.h. docs/protocol.md, R-KV. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/shared/rto.h"
#include "core/shared/text.h"
#include "kvlib/kv.h"

static const uint64_t ANSWER_NS = 5000000000; /* until WELCOME says how often it speaks */
static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

void kv_server_init(struct kv_server *server, struct tally_kv *kv, uint32_t idx)
{
	server->kv = kv;
	server->idx = idx;
	server->stream.fd = -1;
	server->hot = server->hot_packet;
	server->batch_next = 1;
	server->pull_next = 1;
	server->batches_end = &server->batches;
	server->cold_max = kv_keys_max(kv->dim);
	server->down_ns = kv->now_ns;
	server->heartbeat_ns = ANSWER_NS / KV_HEARTBEATS_SILENT;
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

short kv_server_events(const struct kv_server *server)
{
	return kv_stream_events(&server->stream);
}

/* ---- the connection's life ---- */

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

static void connect_begin(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	int fd = socket(server->at.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0) {
		kv_server_lose(server, strerror(errno));
		return;
	}
	error = conn_begin(fd, &server->at);
	if (error) {
		kv_server_lose(server, strerror(-error));
		close(fd);
		conn_address_next(&server->at);
		return;
	}
	kv_stream_open(&server->stream, fd);
	server->state = KV_CONNECTING;
	server->heard_ns = kv->now_ns;
	server->heartbeat_ns = ANSWER_NS / KV_HEARTBEATS_SILENT;
	hello_say(server);
}

/* ---- what is heard ---- */

static const char *shape_fault(const struct kv_server *server, const struct kv_message *message)
{
	if (strcmp(message->name, server->kv->name) || message->dim != server->kv->dim)
		return "is not the one that was asked for";
	if (message->is_stepped != (server->kv->mode == KV_SYNC))
		return "is of another mode than the one that was asked for";
	if (message->ranks &&
	    (!sparse_table_is_sound(&(struct sparse_table){ .ranks = message->ranks,
							    .workers = server->kv->workers,
							    .window = message->window,
							    .dim = message->dim,
							    .bytes = message->bytes }) ||
	     !message->map || !message->generation || !message->epoch ||
	     server->kv->kept_packets < message->window))
		return "cannot be: of its ranks, window, bytes, map and generation";
	if (!server->was_open)
		return NULL;
	if (!message->ranks == server->has_hot || message->window != server->shape.window ||
	    message->bytes != server->shape.bytes || message->scale != server->scale ||
	    message->values != server->shape.values)
		return "has become another one since it was opened";
	if (message->map < server->map.version)
		return "has an older map of hot keys than it had";
	return NULL;
}

/* Where this worker stands: what the server has of its batches. */
static const char *standing_fault(const struct kv_server *server, const struct kv_message *message)
{
	if (server->was_open && !message->is_known)
		return "does not know this worker any more: it has lost what it had, or keeps "
		       "nothing, or a later incarnation has come";
	if (message->number > server->batch_next)
		return "has batches that were never sent";
	if (message->number <= server->batch_done && !message->must_report)
		return "has lost batches that it had answered";
	return kv_report_fault(server, message);
}

static void opened_take(struct kv_server *server, const struct kv_message *message)
{
	struct tally_kv *kv = server->kv;
	const char *fault = shape_fault(server, message);

	if (!fault)
		fault = standing_fault(server, message);
	if (fault) {
		kv_break(kv, TALLY_ERR_REMOTE, "table %s of server %s %s", kv->name,
			 server->at.text, fault);
		return;
	}
	if (!kv_share_take(server, message))
		return;
	server->is_asked_again = false;
	/* R-KV-11: all servers have opened the table before there is a barrier. */
	if (!server->was_open) {
		server->barrier_found = message->barrier;
		if (message->barrier >= kv->barrier_next)
			kv->barrier_next = message->barrier + 1;
	}
	server->was_open = true;
	server->number = message->table;
	server->has_hot = message->ranks;
	server->map_version = message->map;
	server->scale = message->scale;
	server->patience_ns = (uint64_t)message->patience_us * 1000;
	if (!server->endpoint) {
		server->generation = message->generation;
		server->expected = message->epoch;
	}
	server->shape = (struct sparse_table){ .index = server->shape.index, /* SWITCH's */
					       .ranks = message->ranks,
					       .workers = kv->workers,
					       .window = message->window,
					       .dim = message->dim,
					       .bytes = message->bytes,
					       .values = (uint8_t)message->values };
	kv_say_batches_free(server, message->number - 1);
	server->generation_told = message->generation;
	if (message->must_report) {
		int error = kv_report(server, message);

		if (error) {
			kv_server_lose(server, strerror(-error));
			return;
		}
	}
	kv_hot_batched(server, message->generation, message->epoch - 1);
	kv_hot_opened(server, message->nonce);
	if (server->has_hot)
		server->state = KV_MAPPING;
	else
		kv_say_all_again(server);
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

static void barrier_take(struct kv_server *server, const struct kv_message *message)
{
	if (message->number <= server->barrier_done || message->number > server->barrier_said)
		return;
	server->barrier_done = message->number;
	kv_hot_batched(server, message->generation, message->epoch);
	kv_barriers_settle(server->kv);
}

static bool leave_take(struct kv_server *server)
{
	if (!server->is_leave_said)
		return false;
	server->leaving = KV_LEFT;
	return true;
}

/* An ERROR that says: another has this worker's place, or the run is over. Then it need not leave. */
static bool leave_is_over(struct kv_server *server, enum kv_refusal refusal)
{
	if (!server->kv->leave_ns || refusal != KV_REFUSED_SUPERSEDED)
		return false;
	server->leaving = KV_LEFT;
	return true;
}

/* Only a pull can fail alone: all else is missed by what comes after it. */
static void error_take(struct kv_server *server, struct kv_message *message)
{
	struct kv_pull **at = kv_say_pull_find(server, message->number), *pull = *at;

	text_clean(message->text); /* a server may say anything */
	if (leave_is_over(server, message->refusal))
		return;
	if (message->refusal == KV_REFUSED_BUSY) {
		kv_server_lose(server, message->text); /* it says: come again */
		return;
	}
	if (message->about != KV_PULL || !pull) {
		kv_break(server->kv, kv_fault_of(message->refusal), "server %s refuses%s%s: %s: %s",
			 server->at.text, message->about ? " " : "",
			 message->about ? kv_type_name(message->about) : "",
			 kv_refusal_text(message->refusal), message->text);
		return;
	}
	if (!pull->work->result) {
		pull->work->result = kv_fault_of(message->refusal);
		snprintf(pull->work->text, sizeof(pull->work->text), "%s", message->text);
		server->kv->is_news = true;
	}
	kv_say_pull_drop(server, at);
	kv_say_next(server);
}

static void open_say(struct kv_server *server)
{
	struct kv_message open = { .type = KV_OPEN,
				   .dim = server->kv->dim,
				   .mode = server->kv->mode,
				   .staleness = server->kv->staleness,
				   .program = server->kv->program };

	strcpy(open.name, server->kv->name);
	kv_share_put(server, &open);
	kv_say(server, &open);
}

static void welcome_take(struct kv_server *server, const struct kv_message *message)
{
	if (message->version != KV_VERSION) {
		kv_break(server->kv, TALLY_ERR_VERSION,
			 "server %s of table %s speaks version %u; this library speaks %d: bring "
			 "both to one release",
			 server->at.text, server->kv->name, message->version, KV_VERSION);
		return;
	}
	server->heartbeat_ns = (uint64_t)message->heartbeat_ms * ns_per_ms;
	conn_address_ip(&server->at, server->at_server.ip, &server->at_server.port);
	server->at_server.port = message->port;
	server->state = KV_OPENING;
	server->is_asked_again = false;
	open_say(server);
}

/* It does what a server does, so the next loss is a new one. */
static void is_answered(struct kv_server *server)
{
	server->was_answered = true;
	server->retry_wait_ns = KV_RETRY_NS;
}

/* False: it does not belong here. */
static bool take(struct kv_server *server, struct kv_message *message)
{
	bool is_up = server->state == KV_UP || server->state == KV_MAPPING;

	if (server->state == KV_UP && (message->type == KV_ALIVE || message->type == KV_DONE ||
				       message->type == KV_PULLED || message->type == KV_BARRIER))
		is_answered(server);
	if (message->type == KV_ALIVE)
		return true;
	if (message->type == KV_ERROR)
		return error_take(server, message), true;
	if (message->type == KV_WELCOME)
		return server->state == KV_CONNECTING && (welcome_take(server, message), true);
	if (message->type == KV_LEAVE)
		return leave_take(server);
	if (message->type == KV_OPENED)
		return (server->state == KV_OPENING || server->is_asked_again) &&
		       (opened_take(server, message), true);
	if (!is_up || message->table != server->number)
		return false;
	switch (message->type) {
	case KV_MAP:
		if (!kv_map_take(server, message))
			return false;
		if (server->state == KV_MAPPING && kv_map_is_whole(server, server->map_version))
			kv_say_all_again(server);
		return true;
	case KV_SWITCH:
		return kv_hot_switch(server, message);
	case KV_DONE:
		if (server->batch_done < server->batch_old)
			kv_hot_batched(server, message->generation, message->epoch);
		kv_say_batches_free(server, message->number);
		return true;
	case KV_PULLED:
		pulled_take(server, message);
		return true;
	case KV_BARRIER:
		barrier_take(server, message);
		return true;
	default:
		return false;
	}
}

/* ---- time ---- */

static void read_all(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	char why[KV_TEXT_BYTES];
	int error = kv_stream_read(&server->stream), got = 0;

	while (!kv->error && server->state != KV_DOWN && server->leaving == KV_STAYS &&
	       (got = kv_stream_next(&server->stream, &kv->codec, &kv->message)) > 0) {
		server->heard_ns = kv->now_ns;
		if (!take(server, &kv->message) && server->state != KV_DOWN && !kv->error) {
			snprintf(why, sizeof(why), "it said %s, which it may not now",
				 kv_type_name(kv->message.type));
			kv_server_lose(server, why);
		}
	}
	if (server->state == KV_DOWN || kv->error || server->leaving != KV_STAYS)
		return;
	if (got < 0) {
		snprintf(why, sizeof(why), "it said nonsense: %s", kv->codec.fault);
		kv_server_lose(server, why);
	} else if (error) {
		bool was_connecting = server->state == KV_CONNECTING;

		kv_server_lose(server, error == -ECONNRESET ? "it has closed the connection"
							    : strerror(-error));
		if (was_connecting)
			conn_address_next(&server->at);
	}
}

/* Until when the caller bears that it is not up. */
static uint64_t given_up_ns(const struct kv_server *server)
{
	const struct tally_kv *kv = server->kv;

	if (server->state == KV_UP || kv->leave_ns) /* leave.c has a time of its own */
		return UINT64_MAX;
	return server->down_ns + kv->deadline_ns;
}

static bool is_given_up(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	uint64_t since_ns = kv->now_ns - server->down_ns;

	if (kv->now_ns < given_up_ns(server))
		return false;
	kv_break(kv, server->was_open ? TALLY_ERR_REMOTE : TALLY_ERR_SYSTEM,
		 "server %s of table %s cannot be reached for %.1f s: %s", server->at.text,
		 kv->name, (double)since_ns / (double)ns_per_s, server->lost);
	return true;
}

uint64_t kv_server_turn(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	const struct kv_message alive = { .type = KV_ALIVE };
	uint64_t due_ns;

	if (server->state != KV_DOWN && server->is_ready)
		read_all(server);
	if (kv->error || server->leaving != KV_STAYS || is_given_up(server))
		return UINT64_MAX;
	due_ns = given_up_ns(server);
	if (!kv_share_may_connect(server))
		return due_ns;
	if (server->state == KV_DOWN && kv->now_ns >= server->retry_ns)
		connect_begin(server);
	if (server->state == KV_DOWN)
		return rto_least(due_ns, server->retry_ns);
	if (kv->now_ns - server->heard_ns >= KV_HEARTBEATS_SILENT * server->heartbeat_ns) {
		bool was_connecting = server->state == KV_CONNECTING;

		kv_server_lose(server, "it says nothing any more");
		if (was_connecting)
			conn_address_next(&server->at);
		return server->retry_ns;
	}
	if (kv->now_ns - server->said_ns >= server->heartbeat_ns / 2)
		kv_say(server, &alive);
	kv_server_flush(server);
	kv_say_next(server);
	if (kv_share_may_ask_again(server)) {
		server->is_asked_again = true;
		open_say(server);
	}
	if (server->state == KV_DOWN)
		return server->retry_ns;
	due_ns = rto_least(due_ns, server->said_ns + server->heartbeat_ns / 2);
	return rto_least(due_ns, server->heard_ns + KV_HEARTBEATS_SILENT * server->heartbeat_ns);
}
