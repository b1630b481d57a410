/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_fixture.h - for tests: a parameter server with one table and its workers, over real sockets, against an
 * aggregator of server_fixture.h. The table is of integers, and what it must become is added up here beside it.
 * Included once in a program.
 */
#ifndef SERVER_TABLE_FIXTURE_H
#define SERVER_TABLE_FIXTURE_H

#include "control/table_client.h"
#include "dataplane/endpoint_sparse.h"
#include "dataplane/home_sparse.h"
#include "dataplane/knock.h"
#include "dataplane/link_udp.h"
#include "server/server_fixture.h"

enum {
	WORKERS = 2,
	RANKS = 300,
	DIM = 2,
	WINDOW = 8,
	DATAGRAM = 512,
	KEPT = 64,
	HOME = WORKERS, /* its side, behind the workers' */
	SIDES,
	PAIRS = 5, /* of a push */
	MAP = 6,
	FRAMES = 16,
	PATIENCE_S = 60,
};

/* A socket. */
struct side {
	struct link *link;
	struct outbox outbox;
	struct knock knock;
};

static struct {
	struct side side[SIDES];
	struct endpoint_sparse *endpoint[WORKERS];
	struct home_sparse *home;
	struct table_client *client;
	uint64_t recorded;
	int64_t applied[RANKS][DIM], wanted[RANKS][DIM];
	uint64_t pushes[WORKERS], last[WORKERS]; /* how many, and the seq of the last */
	uint32_t loss_one_in, arrived;           /* of datagrams that come; 0: none is lost */
} world;

static void world_record(void *arg, const struct server_sparse_record *what)
{
	(void)arg;
	world.recorded = what->number;
	for (uint32_t rank = 0; what->kind == SERVER_SPARSE_EPOCH && rank < RANKS; rank++) {
		if (!home_sparse_is_touched(world.home, rank))
			continue;
		for (uint32_t i = 0; i < DIM; i++)
			world.applied[rank][i] += home_sparse_sum(world.home, rank)[i];
	}
}

static struct control_table_open world_shape(const char *table)
{
	struct control_table_open open = { .workers = WORKERS,
					   .window = WINDOW,
					   .dim = DIM,
					   .bytes = DATAGRAM,
					   .ranks = RANKS,
					   .pid = (uint32_t)getpid(),
					   .pairs_max = 200,
					   .age_us = 20000,
					   .job = "ctr",
					   .host = "ps-0" };

	snprintf(open.table, sizeof(open.table), "%s", table);
	return open;
}

static struct table_client *table_ask(const char *address, struct control_table_open open)
{
	struct table_client_options options = { .open = open, .beat_ns = 20000000 };
	struct table_client *client;

	assert_int_equal(conn_resolve(address, 0, &options.address), 0);
	assert_int_equal(table_client_open(&client, &options, now_ns()), 0);
	return client;
}

/* Until it is no longer `state`. */
static enum table_client_state table_wait(struct table_client *client,
					  enum table_client_state state)
{
	uint64_t until_ns = now_ns() + (uint64_t)LONG_MS * 1000000;

	while (table_client_turn(client, now_ns()) == state && now_ns() < until_ns)
		poll(NULL, 0, 2);
	return table_client_turn(client, now_ns());
}

static struct sparse_table shape_of(const struct control_table_open *open, uint16_t index)
{
	return (struct sparse_table){ .ranks = open->ranks,
				      .index = index,
				      .workers = open->workers,
				      .window = open->window,
				      .dim = open->dim,
				      .bytes = open->bytes };
}

static void world_begin(void)
{
	struct control_table_open open = world_shape("emb");
	struct home_sparse_options home = { .table = shape_of(&open, 0),
					    .map = MAP,
					    .record = world_record };

	memset(&world, 0, sizeof(world));
	for (uint32_t i = 0; i < SIDES; i++) {
		struct link_udp_options options = {
			.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } }
		};

		assert_int_equal(link_udp_open(&world.side[i].link, &options), 0);
		assert_int_equal(outbox_open(&world.side[i].outbox, world.side[i].link), 0);
	}
	home.outbox = &world.side[HOME].outbox;
	assert_int_equal(home_sparse_open(&world.home, &home), 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		home_sparse_worker(world.home, i, &world.side[i].link->local);
}

static void world_end(void)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		endpoint_sparse_close(world.endpoint[i]);
	table_client_close(world.client);
	home_sparse_close(world.home);
	for (uint32_t i = 0; i < SIDES; i++) {
		outbox_close(&world.side[i].outbox);
		world.side[i].link->ops->close(world.side[i].link);
	}
}

/* A fence: a table at the aggregator there is the switch from now on. */
static void world_switch(const char *address)
{
	struct control_table_open open = world_shape("emb");
	const struct control_table_grant *grant;
	struct link_address at_switch = { .port = 0 };
	struct sparse_table shape;

	table_client_close(world.client);
	world.client = table_ask(address, open);
	if (table_wait(world.client, TABLE_CLIENT_OPENING) != TABLE_CLIENT_LIVE)
		fail_msg("%s", table_client_text(world.client));
	grant = table_client_grant(world.client);
	memcpy(at_switch.ip, grant->ip, sizeof(grant->ip));
	at_switch.port = grant->port;
	shape = shape_of(&open, grant->index);
	for (uint16_t i = 0; i < SIDES; i++)
		knock_begin(&world.side[i].knock, &shape, i == HOME ? SPARSE_SERVER : i, &at_switch,
			    grant->nonces[i]);
	home_sparse_fence(world.home, MAP);
	home_sparse_durable(world.home, world.recorded);
	home_sparse_instance(world.home, grant->instance, grant->index, &at_switch);
	table_client_name(world.client, home_sparse_server(world.home)->generation);
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct endpoint_sparse_options options = {
			.outbox = &world.side[i].outbox,
			.table = shape,
			.at_switch = at_switch,
			.at_server = world.side[HOME].link->local,
			.generation = home_sparse_server(world.home)->generation,
			.map = MAP,
			.kept_max = KEPT,
			.worker = i
		};

		if (world.endpoint[i]) {
			endpoint_sparse_switch(world.endpoint[i], grant->index, &at_switch,
					       options.generation, MAP);
			continue;
		}
		assert_true(home_sparse_join(world.home, i, 1));
		home_sparse_durable(world.home, world.recorded);
		assert_int_equal(endpoint_sparse_open(&world.endpoint[i], &options), 0);
	}
}

static void side_serve(uint32_t number, const struct link_address *peer, const uint8_t *at,
		       uint32_t bytes)
{
	struct side *side = &world.side[number];

	if (!bytes || (world.loss_one_in && !(++world.arrived % world.loss_one_in)))
		return;
	if (at[0] != SPARSE_FIRST_BYTE)
		knock_serve(&side->knock, peer, at, bytes); /* or it is from before the fence */
	else if (number == HOME)
		home_sparse_serve(world.home, peer, at, bytes);
	else if (world.endpoint[number])
		endpoint_sparse_serve(world.endpoint[number], at, bytes);
}

static void side_turn(uint32_t number)
{
	struct side *side = &world.side[number];
	struct link_frame frames[FRAMES];
	int count = side->link->ops->recv(side->link, frames, FRAMES);

	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
			side_serve(number, &frames[i].peer, frames[i].data + at,
				   link_packet_bytes(&frames[i], at));
	}
	if (side->knock.lanes)
		knock_turn(&side->knock, &side->outbox, side->link->ops->now_ns(side->link));
	if (number == HOME)
		home_sparse_turn(world.home);
	else if (world.endpoint[number])
		endpoint_sparse_turn(world.endpoint[number]);
	outbox_flush(&side->outbox);
}

/* One turn of all; the aggregator has threads of its own. */
static void world_turn(void)
{
	struct pollfd wait[SIDES];

	for (uint32_t i = 0; i < SIDES; i++) {
		side_turn(i);
		wait[i] =
			(struct pollfd){ .fd = link_udp_fd(world.side[i].link), .events = POLLIN };
	}
	home_sparse_durable(world.home, world.recorded);
	if (world.client)
		table_client_turn(world.client, now_ns());
	poll(wait, SIDES, 1);
}

/* The next push of a worker, if it has room: other ranks and values each time, of both signs. */
static void world_push(uint16_t worker)
{
	uint8_t pairs[PAIRS * (4 + 4 * DIM)];
	uint64_t number = world.pushes[worker], seq;
	int32_t value[PAIRS][DIM];
	uint32_t rank[PAIRS];

	for (uint32_t i = 0; i < PAIRS; i++) {
		uint8_t *at = pairs + i * (4 + 4 * DIM);

		rank[i] = (uint32_t)(number * (7 + worker) + i * 41) % RANKS;
		sparse_body_put32(at, rank[i]);
		for (uint32_t k = 0; k < DIM; k++) {
			value[i][k] = (int32_t)(number % 1000 + i + 1) * (worker + 1) *
				      ((number + k) % 2 ? -1 : 3);
			sparse_body_put32(at + 4 + 4 * k, (uint32_t)value[i][k]);
		}
	}
	seq = endpoint_sparse_push(world.endpoint[worker], 0, PAIRS, pairs);
	if (!seq)
		return;
	world.pushes[worker]++;
	world.last[worker] = seq;
	for (uint32_t i = 0; i < PAIRS; i++)
		for (uint32_t k = 0; k < DIM; k++)
			world.wanted[rank[i]][k] += value[i][k];
}

/* Until each worker has pushed so many in all. */
static void world_push_until(uint64_t pushes)
{
	uint64_t until_ns = now_ns() + (uint64_t)PATIENCE_S * 1000000000;

	while (world.pushes[0] < pushes || world.pushes[1] < pushes) {
		for (uint16_t i = 0; i < WORKERS; i++)
			for (int many = 0; many < 8 && world.pushes[i] < pushes; many++)
				world_push(i);
		world_turn();
		if (now_ns() >= until_ns)
			fail_msg("%llu and %llu pushes only; the server logged:\n%s",
				 (unsigned long long)world.pushes[0],
				 (unsigned long long)world.pushes[1], book.text);
	}
}

/* All that was pushed is committed, and the table is what it must be. */
static void world_check(void)
{
	uint64_t until_ns = now_ns() + (uint64_t)PATIENCE_S * 1000000000;
	bool is_all = false;

	for (uint32_t i = 0; i < WORKERS; i++)
		endpoint_sparse_hurry(world.endpoint[i]);
	while (!is_all) {
		is_all = true;
		for (uint32_t i = 0; i < WORKERS; i++)
			is_all &= endpoint_sparse_is_committed(world.endpoint[i], world.last[i]);
		for (uint64_t seq = 1; is_all && seq <= world.last[0]; seq++)
			is_all = endpoint_sparse_is_committed(world.endpoint[0], seq);
		for (uint64_t seq = 1; is_all && seq <= world.last[1]; seq++)
			is_all = endpoint_sparse_is_committed(world.endpoint[1], seq);
		world_turn();
		if (now_ns() >= until_ns)
			fail_msg("not committed; the server logged:\n%s", book.text);
	}
	assert_memory_equal(world.applied, world.wanted, sizeof(world.wanted));
}

#endif
