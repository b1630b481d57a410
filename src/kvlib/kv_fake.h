/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_fake.h - a parameter server for tests of tally_kv_*: one table whose rows are sums, in a thread of this
 * process, with the switch inside. Keys 0 to HOT - 1 are hot, in a shuffled order. What it knows outlives its
 * sockets, as a log would make it. Tests begin and end it with kv_fixture.h.
 */
#ifndef KVLIB_KV_FAKE_H
#define KVLIB_KV_FAKE_H

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/home_sparse.h"
#include "dataplane/link_udp.h"
#include "kv/stream.h"
#include "kvlib/kv.h"
#include "util/rng.h"

enum {
	FAKE_WORKERS = 2,
	FAKE_KEYS = 3000,
	FAKE_HOT = 500,
	FAKE_DIM = 3,
	FAKE_PEERS = 8,
	FAKE_LATE = 64,
	FAKE_TABLE = 40,
	FAKE_MAP = 7,
	FAKE_HEARTBEAT_MS = 100,
	FAKE_DEADLINE_MS = 20000,
};

/* A HELLO that is still on its way. */
struct fake_late {
	uint64_t due_ns;
	struct link_address peer;
	uint32_t bytes; /* 0: none */
	uint8_t at[512];
};

struct fake_peer {
	struct kv_stream stream;
	uint16_t worker;
	uint64_t incarnation;
	bool is_there, is_open;
};

/* Of servers that begin from now on: when an epoch ends by itself, and when a worker asks for that by itself. */
static uint64_t fake_age_us = 20000;
static uint32_t fake_patience_us = 5000;
/* What it says of how often it speaks: a worker bears eight times that. It speaks every FAKE_HEARTBEAT_MS / 2. */
static uint32_t fake_heartbeat_ms = 2000;
/* And what a datagram may have, and what its switch is. */
static uint16_t fake_bytes = 512, fake_registers;
static enum kv_packing fake_packing;

struct fake {
	pthread_t thread;
	pthread_mutex_t lock; /* held but while it sleeps */
	atomic_bool is_ending, restarts;
	/* What a test may set, under the lock. */
	uint32_t ranks;          /* FAKE_HOT, or 0; so many keys are hot, */
	uint32_t map;            /* under this version */
	uint32_t loss;           /* of a million datagrams that come */
	uint64_t hello_ns;       /* a HELLO over UDP takes so long to come */
	bool is_silent;          /* reads, and answers nothing */
	enum kv_type drops;      /* this message is as if it never came */
	enum kv_type refuses;    /* this message, */
	enum kv_refusal refusal; /* with this, */
	const char *because;     /* and these words; NULL: some */
	uint16_t version;        /* of WELCOME; 0: KV_VERSION */
	const char *job;         /* of its workers; NULL: "test" */
	bool forgets;            /* is_known is never said */
	bool gathers; /* a restart is one without a log, whose checkpoint has no batch and no push */
	bool is_stepped; /* as OPENED says it: nothing else is otherwise */
	void (*opened)(struct kv_message *message); /* changes OPENED before it is said */
	uint32_t
		opens_lost; /* so many times OPEN is obeyed, and the connection ends before it is answered */
	uint32_t hellos_busy; /* so many HELLOs find no place */
	uint64_t dones_lost;  /* so many DONEs are not said */
	bool is_quiet;        /* says no ALIVE */
	bool keeps_lists;     /* an OPEN with a list is not answered: R-KV-22 */
	bool keeps_switch;    /* says no SWITCH to who opens */
	bool holds_pulls;     /* counts pulls, and answers none */
	bool ends_at_pull;    /* the connection, instead of an answer */
	uint32_t pulls_lack;  /* so many keys that were asked for, at the end of each answer */
	bool ends;            /* all connections, once, and nothing else */
	uint32_t leaves_lost; /* so many LEAVEs end the connection, and are not answered */
	/* Its own. */
	char address[64];
	struct conn_address at;
	int listen_fd;
	uint16_t udp_port;
	struct link *link;
	struct outbox outbox;
	struct engine_sparse *engine;
	struct home_sparse *home;
	uint64_t instance;
	uint16_t index;
	uint8_t nonces[FAKE_WORKERS + 1][WIRE_NONCE_BYTES];
	uint64_t incarnation[FAKE_WORKERS], batch_next[FAKE_WORKERS], barrier[FAKE_WORKERS], passed;
	bool has_opened[FAKE_WORKERS];
	struct link_address at_worker[FAKE_WORKERS];
	struct fake_peer peer[FAKE_PEERS];
	struct fake_late late[FAKE_LATE];
	float row[FAKE_KEYS * FAKE_DIM];
	uint64_t hot_key[FAKE_KEYS];
	struct rng rng;
	struct kv_codec codec;
	struct kv_message message;
	uint64_t epochs, batches, pulls;
	uint64_t pulled;            /* keys */
	uint64_t reports, reported; /* batches, by the last of them */
	uint64_t leaves;
	uint64_t program; /* of the last OPEN */
};

#define FAKE_SCALE 1.0f

static struct sparse_table fake_shape(const struct fake *fake)
{
	return (struct sparse_table){ .ranks = fake->ranks ? fake->ranks : 1,
				      .index = fake->index,
				      .workers = FAKE_WORKERS,
				      .window = 4,
				      .dim = FAKE_DIM,
				      .bytes = fake_bytes };
}

/* The disk is this memory: at once. */
static void fake_record(void *arg, const struct server_sparse_record *what)
{
	struct fake *fake = arg;

	if (what->kind == SERVER_SPARSE_EPOCH) {
		fake->epochs++;
		for (uint32_t rank = 0; rank < fake->ranks; rank++)
			for (uint32_t k = 0; k < FAKE_DIM; k++)
				if (home_sparse_is_touched(fake->home, rank))
					fake->row[fake->hot_key[rank] * FAKE_DIM + k] +=
						(float)home_sparse_sum(fake->home, rank)[k];
	}
}

static void fake_values(void *arg, uint32_t rank, uint32_t *value)
{
	struct fake *fake = arg;

	memcpy(value, fake->row + fake->hot_key[rank] * FAKE_DIM, FAKE_DIM * sizeof(*value));
}

/* ---- its sockets ---- */

static void fake_switch_say(struct fake *fake, struct fake_peer *peer)
{
	struct kv_message message = { .type = KV_SWITCH,
				      .table = FAKE_TABLE,
				      .index = fake->index,
				      .port = fake->udp_port,
				      .map = fake->map,
				      .registers = fake_registers,
				      .packing = fake_packing,
				      .generation = home_sparse_server(fake->home)->generation };

	memcpy(message.nonce, fake->nonces[peer->worker], KV_NONCE_BYTES);
	assert_int_equal(kv_stream_say(&peer->stream, &message), 0);
}

static struct link_address fake_self(const struct fake *fake)
{
	return (struct link_address){ .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
				      .port = fake->udp_port };
}

static void fake_summed(struct fake *fake)
{
	struct link_address self = fake_self(fake);

	home_sparse_instance(fake->home, fake->instance, fake->index, &self);
	assert_int_equal(engine_sparse_name(fake->engine, fake->index,
					    home_sparse_server(fake->home)->generation),
			 0);
	home_sparse_durable(fake->home, home_sparse_server(fake->home)->recorded);
	for (uint32_t i = 0; i < FAKE_PEERS; i++)
		if (fake->peer[i].is_open)
			fake_switch_say(fake, &fake->peer[i]);
}

/* A new generation, with a new switch. Of one that gathers it is there when worker 0 has reported. */
static void fake_fence(struct fake *fake)
{
	struct engine_sparse_table table = { .age_ns = fake_age_us * 1000, .nonces = fake->nonces };
	struct link_address self = fake_self(fake);

	if (fake->index)
		(void)engine_sparse_remove(fake->engine, fake->index);
	fake->index = (uint16_t)(1 + (fake->index % 30));
	for (uint32_t i = 0; i <= FAKE_WORKERS; i++)
		for (uint32_t k = 0; k < WIRE_NONCE_BYTES; k++)
			fake->nonces[i][k] = (uint8_t)rng_u32(&fake->rng);
	table.shape = fake_shape(fake);
	table.instance = ++fake->instance;
	assert_int_equal(engine_sparse_add(fake->engine, &table), 0);
	assert_int_equal(engine_sparse_bind(fake->engine, fake->index, SPARSE_SERVER, &self), 0);
	if (fake->gathers) {
		home_sparse_gather(fake->home, fake->map);
		home_sparse_missed(fake->home, 1);
		return;
	}
	assert_int_equal(home_sparse_remap(fake->home, fake->map, table.shape.ranks), 0);
	fake_summed(fake);
}

/* The home outlives it, but goes on with the same outbox. */
static void fake_up(struct fake *fake)
{
	struct link_udp_options options = { .local = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
						       .port = fake->udp_port } };

	assert_int_equal(
		conn_resolve(fake->address[0] ? fake->address : "127.0.0.1:0", 0, &fake->at), 0);
	fake->listen_fd = conn_listen(&fake->at);
	if (fake->listen_fd < 0)
		fail_msg("%s: %s", fake->address, strerror(-fake->listen_fd));
	if (!fake->address[0]) {
		uint8_t ip[16];
		uint16_t port;

		conn_address_ip(&fake->at, ip, &port);
		snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%u", port);
	}
	assert_int_equal(link_udp_open(&fake->link, &options), 0);
	fake->udp_port = fake->link->local.port;
	assert_int_equal(outbox_open(&fake->outbox, fake->link), 0);
	fake->engine = engine_sparse_open(
		&(struct engine_sparse_options){ .link = fake->link, .registers = fake_registers });
	assert_non_null(fake->engine);
}

static void fake_down(struct fake *fake)
{
	for (uint32_t i = 0; i < FAKE_PEERS; i++) {
		if (fake->peer[i].is_there)
			kv_stream_close(&fake->peer[i].stream);
		fake->peer[i] = (struct fake_peer){ .stream.fd = -1 };
	}
	engine_sparse_close(fake->engine);
	outbox_close(&fake->outbox);
	fake->link->ops->close(fake->link);
	close(fake->listen_fd);
}

/* ---- what it says ---- */

static void fake_say(struct fake_peer *peer, const struct kv_message *message)
{
	if (peer->is_there)
		assert_int_equal(kv_stream_say(&peer->stream, message), 0);
}

static void fake_gone(struct fake_peer *peer)
{
	kv_stream_close(&peer->stream);
	*peer = (struct fake_peer){ .stream.fd = -1 };
}

static void fake_map_say(struct fake *fake, struct fake_peer *peer)
{
	for (uint32_t first = 0; first < fake->ranks; first += 200) { /* in parts */
		uint32_t left = fake->ranks - first;
		struct kv_message message = { .type = KV_MAP,
					      .table = FAKE_TABLE,
					      .map = fake->map,
					      .ranks = fake->ranks,
					      .first = first,
					      .count = left < 200 ? left : 200,
					      .key = fake->hot_key + first };

		fake_say(peer, &message);
	}
}

static void fake_open(struct fake *fake, struct fake_peer *peer, const struct kv_message *open)
{
	uint16_t worker = peer->worker;
	bool is_known = fake->has_opened[worker] && fake->incarnation[worker] == peer->incarnation;
	struct kv_message message;

	fake->program = open->program;
	if (!is_known) {
		uint64_t generation = home_sparse_server(fake->home)->generation;

		assert_true(home_sparse_join(fake->home, worker, peer->incarnation));
		home_sparse_durable(fake->home, home_sparse_server(fake->home)->recorded);
		fake->batch_next[worker] = 1;
		fake->has_opened[worker] = true;
		fake->incarnation[worker] = peer->incarnation;
		if (home_sparse_server(fake->home)->generation != generation)
			fake_fence(fake);
	}
	if (fake->opens_lost) {
		fake->opens_lost--;
		fake_gone(peer);
		return;
	}
	message = (struct kv_message){ .type = KV_OPENED,
				       .table = FAKE_TABLE,
				       .dim = FAKE_DIM,
				       .window = 4,
				       .bytes = fake_bytes,
				       .ranks = fake->ranks,
				       .map = fake->map,
				       .patience_us = fake_patience_us,
				       .scale = FAKE_SCALE,
				       .is_known = is_known && !fake->forgets,
				       .is_stepped = fake->is_stepped,
				       .generation = home_sparse_server(fake->home)->generation,
				       .epoch = home_sparse_server(fake->home)->expected,
				       .barrier = fake->passed,
				       .number = fake->batch_next[worker] };
	snprintf(message.name, sizeof(message.name), "%s", open->name);
	strcpy(message.text, "made 1");
	message.server = open->server;
	message.servers = open->servers;
	memset(message.own, 1 + fake->udp_port % 255, sizeof(message.own));
	memset(message.identity, 17, sizeof(message.identity)); /* all fakes are of one table */
	memcpy(message.nonce, fake->nonces[worker], KV_NONCE_BYTES);
	if (home_sparse_server(fake->home)->memory.worker[worker].is_unreported) {
		message.must_report = true;
		message.number = 1;
	}
	if (fake->opened)
		fake->opened(&message);
	fake_say(peer, &message);
	peer->is_open = true;
	if (!fake->ranks)
		return;
	fake_map_say(fake, peer);
	if (!fake->keeps_switch)
		fake_switch_say(fake, peer);
}

static void fake_batch(struct fake *fake, struct fake_peer *peer, const struct kv_message *message)
{
	uint64_t *next = &fake->batch_next[peer->worker];
	uint64_t record =
		home_sparse_cold(fake->home, peer->worker, peer->incarnation, message->number);

	assert_true(record); /* no gap */
	if (message->number == *next) {
		for (uint32_t i = 0; i < message->count; i++)
			for (uint32_t k = 0; k < FAKE_DIM; k++)
				fake->row[message->key[i] * FAKE_DIM + k] +=
					message->value[i * FAKE_DIM + k];
		++*next;
		fake->batches++;
		home_sparse_durable(fake->home, record);
	}
	if (fake->dones_lost) {
		fake->dones_lost--;
		return;
	}
	fake_say(peer,
		 &(struct kv_message){ .type = KV_DONE,
				       .table = FAKE_TABLE,
				       .number = message->number,
				       .generation = home_sparse_server(fake->home)->generation,
				       .epoch = home_sparse_server(fake->home)->expected - 1 });
}

static void fake_pull(struct fake *fake, struct fake_peer *peer, const struct kv_message *message)
{
	static _Thread_local float value[KV_VALUES_MAX];
	struct kv_message answer = { .type = KV_PULLED,
				     .table = FAKE_TABLE,
				     .number = message->number,
				     .generation = home_sparse_server(fake->home)->generation,
				     .epoch = home_sparse_server(fake->home)->expected - 1,
				     .dim = FAKE_DIM,
				     .count = message->count - fake->pulls_lack,
				     .value = value };

	fake->pulls++;
	if (fake->ends_at_pull)
		fake_gone(peer);
	if (fake->ends_at_pull || fake->holds_pulls)
		return;
	for (uint32_t i = 0; i < message->count; i++)
		memcpy(value + i * FAKE_DIM, fake->row + message->key[i] * FAKE_DIM,
		       FAKE_DIM * sizeof(float));
	fake->pulled += message->count;
	fake_say(peer, &answer);
}

static void fake_barrier(struct fake *fake, struct fake_peer *peer, uint64_t number)
{
	struct kv_message answer = { .type = KV_BARRIER,
				     .table = FAKE_TABLE,
				     .generation = home_sparse_server(fake->home)->generation,
				     .epoch = home_sparse_server(fake->home)->expected - 1 };

	if (number > fake->barrier[peer->worker])
		fake->barrier[peer->worker] = number;
	for (uint32_t w = 0; w < FAKE_WORKERS; w++)
		if (fake->barrier[w] < number)
			return;
	answer.number = number;
	if (number > fake->passed)
		fake->passed = number;
	for (uint32_t i = 0; i < FAKE_PEERS; i++)
		if (fake->peer[i].is_open)
			fake_say(&fake->peer[i], &answer);
}

static void fake_take(struct fake *fake, struct fake_peer *peer, const struct kv_message *message)
{
	static const uint8_t none[KV_IDENTITY_BYTES];

	if (fake->is_silent || message->type == fake->drops)
		return;
	if (message->type == fake->refuses) {
		struct kv_message error = { .type = KV_ERROR,
					    .about = fake->refuses,
					    .refusal = fake->refusal,
					    .table = FAKE_TABLE,
					    .worker = peer->worker,
					    .number = message->number };

		strcpy(error.text, fake->because ? fake->because : "because the test says so");
		fake_say(peer, &error);
		return;
	}
	switch (message->type) {
	case KV_HELLO:
		if (fake->hellos_busy) {
			fake->hellos_busy--;
			fake_say(peer, &(struct kv_message){ .type = KV_ERROR,
							     .refusal = KV_REFUSED_BUSY,
							     .table = KV_NO_TABLE,
							     .worker = KV_NOBODY,
							     .text = "no room" });
			break;
		}
		assert_string_equal(message->job, fake->job ? fake->job : "test");
		assert_int_equal(message->workers, FAKE_WORKERS);
		peer->worker = message->worker;
		peer->incarnation = message->incarnation;
		fake_say(peer, &(struct kv_message){ .type = KV_WELCOME,
						     .version = fake->version ? fake->version
									      : KV_VERSION,
						     .port = fake->udp_port,
						     .heartbeat_ms = fake_heartbeat_ms });
		break;
	case KV_OPEN:
		if (!fake->keeps_lists || !memcmp(message->own, none, sizeof(none)))
			fake_open(fake, peer, message);
		break;
	case KV_BATCH:
		fake_batch(fake, peer, message);
		break;
	case KV_PULL:
		fake_pull(fake, peer, message);
		break;
	case KV_BARRIER:
		fake_barrier(fake, peer, message->number);
		break;
	case KV_REPORT:
		fake->reports++;
		fake->reported = message->number;
		assert_true(home_sparse_report(fake->home, peer->worker, peer->incarnation,
					       message->number, message->row));
		fake_summed(fake);
		break;
	case KV_LEAVE:
		assert_true(peer->is_open); /* else it would be of no table */
		fake->leaves++;
		if (fake->leaves_lost)
			fake->leaves_lost--;
		else
			fake_say(peer, &(struct kv_message){ .type = KV_LEAVE });
		(void)kv_stream_flush(&peer->stream);
		fake_gone(peer);
		break;
	default:
		assert_int_equal(message->type, KV_ALIVE);
	}
}

/* ---- what it hears ---- */

static void fake_hello(struct fake *fake, const struct link_address *peer, const uint8_t *at,
		       uint32_t bytes)
{
	struct wire wire;
	uint8_t *to;

	assert_int_equal(wire_check(at, bytes, &wire), WIRE_OK);
	assert_true(wire.child < FAKE_WORKERS);
	if (wire.job != FAKE_TABLE) { /* its WELCOME leaves with the engine's next turn */
		engine_sparse_hello(fake->engine, peer, &wire, at + WIRE_HEADER_BYTES);
		return;
	}
	home_sparse_worker(fake->home, wire.child, peer);
	wire.type = WIRE_WELCOME;
	to = outbox_put(&fake->outbox, peer, bytes);
	memset(to, 0, bytes);
	wire_put(to, &wire);
}

static void fake_hello_later(struct fake *fake, const struct link_address *peer, const uint8_t *at,
			     uint32_t bytes)
{
	struct fake_late *late = fake->late;

	while (late->bytes)
		assert_true(++late < fake->late + FAKE_LATE);
	assert_true(bytes <= sizeof(late->at));
	*late = (struct fake_late){ .due_ns = clock_ns() + fake->hello_ns,
				    .peer = *peer,
				    .bytes = bytes };
	memcpy(late->at, at, bytes);
}

static void fake_late_turn(struct fake *fake)
{
	for (struct fake_late *late = fake->late; late < fake->late + FAKE_LATE; late++) {
		if (!late->bytes || clock_ns() < late->due_ns)
			continue;
		fake_hello(fake, &late->peer, late->at, late->bytes);
		late->bytes = 0;
	}
}

static void fake_packet(struct fake *fake, const struct link_address *peer, const uint8_t *at,
			uint32_t bytes)
{
	struct wire wire;

	if (fake->is_silent || rng_chance(&fake->rng, fake->loss))
		return;
	if (at[0] == SPARSE_FIRST_BYTE) {
		uint8_t kind = at[1];

		if (kind == SPARSE_CUT || sparse_is_flush(kind) || kind == SPARSE_READY ||
		    kind == SPARSE_RESUMED)
			home_sparse_serve(fake->home, peer, at, bytes);
		else
			engine_sparse_serve(fake->engine, peer, at, bytes);
		return;
	}
	if (wire_check(at, bytes, &wire) != WIRE_OK || wire.type != WIRE_HELLO)
		return;
	fake->hello_ns ? fake_hello_later(fake, peer, at, bytes)
		       : fake_hello(fake, peer, at, bytes);
}

static void fake_hear(struct fake *fake)
{
	struct link_frame frames[16];
	int count, fd, got;
	struct fake_peer *peer;

	while ((count = fake->link->ops->recv(fake->link, frames, 16)) > 0)
		for (int i = 0; i < count; i++)
			for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
				fake_packet(fake, &frames[i].peer, frames[i].data + at,
					    link_packet_bytes(&frames[i], at));
	while ((fd = accept4(fake->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		for (peer = fake->peer; peer->is_there; peer++)
			assert_true(peer + 1 < fake->peer + FAKE_PEERS);
		*peer = (struct fake_peer){ .is_there = true };
		kv_stream_open(&peer->stream, fd);
	}
	for (peer = fake->peer; peer < fake->peer + FAKE_PEERS; peer++) {
		int error = peer->is_there ? kv_stream_read(&peer->stream) : 0;

		while (peer->is_there &&
		       (got = kv_stream_next(&peer->stream, &fake->codec, &fake->message))) {
			if (got < 0)
				fail_msg("the library said nonsense: %s", fake->codec.fault);
			fake_take(fake, peer, &fake->message);
		}
		if (peer->is_there && (error || kv_stream_flush(&peer->stream)))
			fake_gone(peer);
	}
}

static void fake_alive(struct fake *fake, uint64_t now_ns, uint64_t *said_ns)
{
	if (now_ns - *said_ns < FAKE_HEARTBEAT_MS * 500000ull || fake->is_silent || fake->is_quiet)
		return;
	*said_ns = now_ns;
	for (uint32_t i = 0; i < FAKE_PEERS; i++)
		fake_say(&fake->peer[i], &(struct kv_message){ .type = KV_ALIVE });
}

static void *fake_main(void *arg)
{
	struct fake *fake = arg;
	uint64_t said_ns = 0;

	while (!atomic_load(&fake->is_ending)) {
		struct pollfd polls[2 + FAKE_PEERS];

		pthread_mutex_lock(&fake->lock);
		if (atomic_load(&fake->restarts)) {
			fake_down(fake);
			fake->index = 0;
			fake_up(fake);
			fake_fence(fake);
			atomic_store(&fake->restarts, false);
		}
		for (uint32_t i = 0; i < FAKE_PEERS && fake->ends; i++)
			if (fake->peer[i].is_there)
				fake_gone(&fake->peer[i]);
		fake->ends = false;
		fake_hear(fake);
		fake_late_turn(fake);
		fake_alive(fake, clock_ns(), &said_ns);
		engine_sparse_turn(fake->engine);
		home_sparse_durable(fake->home, home_sparse_server(fake->home)->recorded);
		home_sparse_turn(fake->home);
		outbox_flush(&fake->outbox);
		polls[0] = (struct pollfd){ .fd = fake->listen_fd, .events = POLLIN };
		polls[1] = (struct pollfd){ .fd = link_udp_fd(fake->link), .events = POLLIN };
		for (uint32_t i = 0; i < FAKE_PEERS; i++)
			polls[2 + i] = (struct pollfd){ .fd = fake->peer[i].stream.fd,
							.events = kv_stream_events(
								&fake->peer[i].stream) };
		pthread_mutex_unlock(&fake->lock);
		poll(polls, 2 + FAKE_PEERS, 1);
	}
	return NULL;
}

#endif
