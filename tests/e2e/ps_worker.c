/* SPDX-License-Identifier: Apache-2.0 */
/* ps_worker.c - see ps_worker.h. */
#include "tests/e2e/ps_worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "tests/e2e/daemons.h"

static struct kv_codec codec;

/* ---- a worker's TCP ---- */

static void say(struct worker *it, const struct kv_message *message)
{
	size_t most = kv_bytes(message), bytes, done = 0;
	uint8_t *frame = malloc(most);

	if (!frame)
		test_fail("out of memory");
	bytes = kv_put(message, frame);
	while (it->fd >= 0 && done < bytes) {
		ssize_t sent = send(it->fd, frame + done, bytes - done, MSG_NOSIGNAL);

		if (sent > 0) {
			done += (size_t)sent;
		} else if (errno == EAGAIN) {
			poll(&(struct pollfd){ .fd = it->fd, .events = POLLOUT }, 1, 100);
		} else {
			close(it->fd);
			it->fd = -1;
		}
	}
	free(frame);
}

static void connect_again(struct worker *it)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(test.port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct kv_message hello = { .type = KV_HELLO,
				    .version = KV_VERSION,
				    .worker = it->index,
				    .workers = WORKERS,
				    .incarnation = 7,
				    .job = "test",
				    .host = "here" };
	struct kv_message open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };

	it->in_count = 0;
	it->is_open = false;
	it->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(it->fd, (struct sockaddr *)&at, sizeof(at))) {
		close(it->fd);
		it->fd = -1;
		return;
	}
	fcntl(it->fd, F_SETFL, O_NONBLOCK);
	setsockopt(it->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	say(it, &hello);
	say(it, &open);
	test.connections++;
}

void batch_say(struct worker *it, const struct batch *batch)
{
	struct kv_message message = { .type = KV_BATCH,
				      .table = it->opened.table,
				      .number = batch->number,
				      .dim = DIM,
				      .count = batch->count,
				      .key = batch->key,
				      .value = batch->value };

	say(it, &message);
}

void barrier_say(struct worker *it)
{
	say(it, &(struct kv_message){
			.type = KV_BARRIER, .table = it->opened.table, .number = it->barrier });
}

void pull_say(struct worker *it)
{
	say(it, &(struct kv_message){ .type = KV_PULL,
				      .table = it->opened.table,
				      .number = it->pulls,
				      .count = KEYS,
				      .key = test.asked });
}

static void on_opened(struct worker *it, const struct kv_message *message)
{
	if (it->endpoint && !message->is_known)
		test_fail("worker %u: tally-ps has forgotten it", it->index);
	if (message->number < it->batch_first || message->number > it->batch_next)
		test_fail("worker %u: batch %" PRIu64 " is next there, and here %" PRIu64
			  " to %" PRIu64,
			  it->index, message->number, it->batch_first, it->batch_next);
	it->opened = *message;
	it->is_open = true;
	it->is_known_there = false;
	it->map_keys = 0;
	it->batch_first = message->number;
	for (uint64_t number = it->batch_first; number < it->batch_next; number++)
		batch_say(it, &it->kept[number % KEPT]);
	if (it->barrier != it->passed)
		barrier_say(it);
	if (it->pulls != it->pulled)
		pull_say(it);
}

static void on_map(struct worker *it, const struct kv_message *message)
{
	for (uint32_t i = 0; i < message->count; i++)
		for (uint32_t k = 0; k < HOT; k++)
			if (test.hot[k] == message->key[i])
				test.rank_of[k] = message->first + i;
	it->map_keys += message->count;
}

static void on_switch(struct worker *it, const struct kv_message *message)
{
	struct endpoint_sparse_options options = {
		.outbox = &it->outbox,
		.table = { .ranks = it->opened.ranks,
			   .index = message->index,
			   .workers = WORKERS,
			   .window = it->opened.window,
			   .dim = DIM,
			   .bytes = it->opened.bytes },
		.at_server = it->server,
		.generation = it->opened.generation,
		.patience_ns = it->opened.patience_us * 1000ull,
		.map = it->opened.map,
		.kept_max = KEPT,
		.worker = it->index,
	};

	if (it->map_keys != HOT)
		test_fail("worker %u: SWITCH after %u of %u keys", it->index, it->map_keys, HOT);
	it->at_switch = it->server;
	it->at_switch.port = message->port;
	for (uint32_t i = 0; i < sizeof(message->ip); i++)
		if (message->ip[i]) {
			memcpy(it->at_switch.ip, message->ip, sizeof(message->ip));
			test.elsewhere += it->index == 0;
			break;
		}
	it->switch_index = message->index;
	memcpy(it->switch_nonce, message->nonce, sizeof(it->switch_nonce));
	it->has_switch = true;
	it->is_known_switch = false;
	options.at_switch = it->at_switch;
	if (!it->endpoint && endpoint_sparse_open(&it->endpoint, &options))
		test_fail("no endpoint");
	endpoint_sparse_switch(it->endpoint, it->switch_index, &it->at_switch, message->generation,
			       message->map);
}

static void on_pulled(struct worker *it, const struct kv_message *message)
{
	if (message->count != KEYS)
		test_fail("%u values of %u", message->count, KEYS);
	memcpy(test.got, message->value, sizeof(test.got));
	it->pulled = (uint32_t)message->number;
}

static void on_message(struct worker *it, const struct kv_message *message)
{
	switch (message->type) {
	case KV_WELCOME:
		it->server.port = message->port;
		break;
	case KV_OPENED:
		on_opened(it, message);
		break;
	case KV_MAP:
		on_map(it, message);
		break;
	case KV_SWITCH:
		on_switch(it, message);
		break;
	case KV_DONE:
		if (message->number >= it->batch_next)
			test_fail("DONE of batch %" PRIu64 ", which was never sent",
				  message->number);
		if (message->number >= it->batch_first)
			it->batch_first = message->number + 1;
		break;
	case KV_PULLED:
		on_pulled(it, message);
		break;
	case KV_BARRIER:
		it->passed = message->number;
		break;
	case KV_ERROR:
		test_fail("worker %u: %s", it->index, message->text);
	default:
		break;
	}
}

static void tcp_turn(struct worker *it)
{
	struct kv_message message = { 0 };
	size_t bytes;
	ssize_t count;

	if (it->fd < 0)
		connect_again(it);
	if (it->fd < 0)
		return;
	if (now_ns() - it->said_ns > 100000000) {
		it->said_ns = now_ns();
		say(it, &(struct kv_message){ .type = KV_ALIVE });
	}
	if (it->fd < 0)
		return;
	count = recv(it->fd, it->in + it->in_count, sizeof(it->in) - it->in_count, 0);
	if (!count || (count < 0 && errno != EAGAIN)) {
		close(it->fd);
		it->fd = -1;
		return;
	}
	it->in_count += count > 0 ? (size_t)count : 0;
	while ((bytes = kv_frame_bytes(it->in, it->in_count))) {
		if (bytes == SIZE_MAX || kv_decode(&codec, it->in, bytes, &message))
			test_fail("a message that is none: %s", codec.fault);
		it->in_count -= bytes;
		on_message(it, &message);
		memmove(it->in, it->in + bytes, it->in_count);
	}
}

/* ---- a worker's UDP ---- */

static void knock(struct worker *it, const struct link_address *to, uint16_t job,
		  const uint8_t *nonce)
{
	struct wire hello = { .type = WIRE_HELLO,
			      .job = job,
			      .seq = ++it->serial,
			      .child = it->index,
			      .lanes = WIRE_HELLO_LANES };
	uint8_t *at = outbox_put(&it->outbox, to, wire_bytes(WIRE_HELLO_LANES));

	memset(at, 0, wire_bytes(WIRE_HELLO_LANES));
	wire_put(at, &hello);
	memcpy(at + WIRE_HEADER_BYTES, nonce, WIRE_NONCE_BYTES);
}

static void on_datagram(struct worker *it, const struct link_address *peer, const uint8_t *at,
			uint32_t bytes)
{
	struct wire wire;

	if (rng_chance(&test.rng, LOSS)) {
		test.lost++;
		return;
	}
	if (at[0] == SPARSE_FIRST_BYTE) {
		if (it->endpoint)
			endpoint_sparse_serve(it->endpoint, at, bytes);
	} else if (wire_check(at, bytes, &wire) == WIRE_OK && wire.type == WIRE_WELCOME) {
		/* An aggregator's index may be the number of the table at its server. */
		it->is_known_there |= wire.job == it->opened.table &&
				      link_address_equal(peer, &it->server);
		it->is_known_switch |= wire.job == it->switch_index &&
				       link_address_equal(peer, &it->at_switch);
	}
}

/* What would leave, less what is lost. */
static void flush(struct worker *it)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < it->outbox.count; i++) {
		if (rng_chance(&test.rng, LOSS))
			test.lost += it->outbox.frame[i].count;
		else
			it->outbox.frame[left++] = it->outbox.frame[i];
	}
	it->outbox.count = left;
	outbox_flush(&it->outbox);
}

static void udp_turn(struct worker *it)
{
	struct link_frame frames[16];
	int count = it->link->ops->recv(it->link, frames, 16);

	for (int i = 0; i < count; i++)
		for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
			on_datagram(it, &frames[i].peer, frames[i].data + at,
				    link_packet_bytes(&frames[i], at));
	if (it->is_open && now_ns() - it->knocked_ns > 20000000) {
		it->knocked_ns = now_ns();
		if (!it->is_known_there)
			knock(it, &it->server, it->opened.table, it->opened.nonce);
		if (it->has_switch && !it->is_known_switch)
			knock(it, &it->at_switch, it->switch_index, it->switch_nonce);
	}
	if (it->endpoint) {
		endpoint_sparse_turn(it->endpoint);
		if (endpoint_sparse_is_broken(it->endpoint))
			test_fail("worker %u: tally-ps has said what cannot be", it->index);
	}
	flush(it);
}

void worker_turn(struct worker *it)
{
	tcp_turn(it);
	udp_turn(it);
}

void worker_begin(struct worker *it, uint16_t index)
{
	struct link_udp_options udp = { 0 };
	bool is_v6;

	it->index = index;
	it->fd = -1;
	it->batch_first = it->batch_next = 1;
	if (link_address_parse("127.0.0.1:0", 0, &udp.local, &is_v6) ||
	    link_udp_open(&it->link, &udp) || outbox_open(&it->outbox, it->link))
		test_fail("no socket");
	it->server = udp.local;
}
