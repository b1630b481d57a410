/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_lies.c - see sparse_lies.h. */
#include "sparse_lies.h"

#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "dataplane/link_address.h"

#define HELLO (-WIRE_HELLO)
#define WELCOME (-WIRE_WELCOME)
#define IN PLACE_INSIDE
#define AT PLACE_TALLYD

/* clang-format off */
const struct lie lies[LIES] = {
	{ "RESUME",              SERVER_TO_WORKER, GUESS_GENERATION, SPARSE_RESUME,      IN,      false },
	{ "COMMITTED",           SERVER_TO_WORKER, GUESS_GENERATION, SPARSE_COMMITTED,   IN,      false },
	{ "BCAST",               SERVER_TO_WORKER, GUESS_GENERATION, SPARSE_BCAST,       IN,      false },
	{ "ACK",                 SWITCH_TO_WORKER, GUESS_GENERATION, SPARSE_ACK,         IN,      false },
	{ "WELCOME",             SERVER_TO_WORKER, GUESS_NONCE,      WELCOME,            IN,      false },
	{ "WELCOME, not yet answered", SWITCH_TO_WORKER, GUESS_NONCE, WELCOME, PLACE_SILENT,      false },
	{ "SETUP",               SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_SETUP,       IN | AT, true },
	{ "SETUP, instance",     SERVER_TO_SWITCH, GUESS_INSTANCE,   SPARSE_SETUP,       IN,      true },
	{ "FLIP",                SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_FLIP,        IN | AT, true },
	{ "COMMITTED",           SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_COMMITTED,   IN | AT, true },
	{ "BCAST",               SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_BCAST,       IN | AT, true },
	{ "HAVE",                SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_HAVE,        IN | AT, true },
	{ "ASK of the server",   SERVER_TO_SWITCH, GUESS_GENERATION, SPARSE_ASK,         IN | AT, true },
	{ "PUSH",                WORKER_TO_SWITCH, GUESS_GENERATION, SPARSE_PUSH,        IN | AT, false },
	{ "ASK",                 WORKER_TO_SWITCH, GUESS_GENERATION, SPARSE_ASK,         IN | AT, false },
	{ "HELLO",               WORKER_TO_SWITCH, GUESS_NONCE,      HELLO,              IN | AT, false },
	{ "HELLO as the server", WORKER_TO_SWITCH, GUESS_NONCE,      HELLO,              IN | AT, true },
	{ "CUT",                 SWITCH_TO_SERVER, GUESS_GENERATION, SPARSE_CUT,         IN,      false },
	{ "FLUSH",               SWITCH_TO_SERVER, GUESS_GENERATION, SPARSE_FLUSH,       IN,      false },
	{ "FLUSH_SHORT",         SWITCH_TO_SERVER, GUESS_GENERATION, SPARSE_FLUSH_SHORT, IN,      false },
	{ "READY",               SWITCH_TO_SERVER, GUESS_GENERATION, SPARSE_READY,       IN,      false },
	{ "READY, instance",     SWITCH_TO_SERVER, GUESS_INSTANCE,   SPARSE_READY,       IN,      false },
	{ "WELCOME, knocking",   SWITCH_TO_SERVER, GUESS_NONCE,      WELCOME, PLACE_SILENT,       true },
	{ "RESUMED",             WORKER_TO_SERVER, GUESS_GENERATION, SPARSE_RESUMED,     IN,      false },
	{ "END",                 WORKER_TO_SERVER, GUESS_GENERATION, SPARSE_END,         IN,      false },
	{ "HELLO",               WORKER_TO_SERVER, GUESS_NONCE,      HELLO,              IN,      false },
};
/* clang-format on */

/* ---- what is guessed ---- */

static uint64_t generation_guess(struct rng *rng, uint64_t generation)
{
	uint64_t guess, bits = rng_next(rng) >> (64 - SPARSE_RANDOM_BITS);

	do {
		switch (rng_below(rng, 5)) {
		case 0:
			guess = UINT64_MAX;
			break;
		case 1:
			guess = generation ^ 1ull << rng_below(rng, 64);
			break;
		case 2:
			guess = rng_below(rng, 4);
			break;
		case 3:
			guess = (sparse_fences(generation) + 1) << SPARSE_RANDOM_BITS | bits;
			break;
		default:
			guess = sparse_fences(generation) << SPARSE_RANDOM_BITS | bits;
		}
	} while (guess == generation);
	return guess;
}

static uint64_t instance_guess(struct rng *rng, uint64_t instance)
{
	uint64_t guess = rng_below(rng, 2) ? instance ^ 1ull << rng_below(rng, 64) : rng_next(rng);

	return guess == instance || !guess ? instance ^ 2 : guess;
}

static uint32_t word_guess(struct rng *rng, uint32_t word)
{
	uint32_t guess = rng_below(rng, 2) ? word ^ 1u << rng_below(rng, 32) : rng_u32(rng);

	return guess == word ? ~word : guess;
}

/* ---- one packet ---- */

/* What a body begins with, or is. */
static void body_make(struct rng *rng, const struct lie *lie, const struct sparse *packet,
		      uint16_t window, uint64_t instance, uint8_t *at)
{
	uint32_t bytes = sparse_bytes(packet);

	memset(at, 0, bytes);
	/* A row that covers much, or nothing: what would free or lose the most. */
	for (uint32_t i = sparse_items_at(packet->kind); packet->width == window && i < bytes;
	     i += SPARSE_NUMBER_BYTES)
		sparse_body_put64(at + i, rng_below(rng, 2) ? rng_below(rng, 500) : 0);
	if (lie->kind == SPARSE_SETUP)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, instance);
	if (lie->kind == SPARSE_PUSH || lie->kind == SPARSE_FLUSH_SHORT ||
	    lie->kind == SPARSE_BCAST)
		sparse_body_put32(at + SPARSE_HEADER_BYTES + SPARSE_RANK_BYTES, 1000000);
}

static void count_make(const struct sparse_table *table, const struct lie *lie,
		       struct sparse *packet)
{
	switch (lie->kind) {
	case SPARSE_RESUME:
		packet->count = 1;
		packet->width = table->window;
		break;
	case SPARSE_CUT:
	case SPARSE_SETUP:
		packet->worker = 0;
		packet->count = WORKERS;
		packet->width = table->window;
		break;
	case SPARSE_COMMITTED:
		packet->number -= lie->side == SERVER_TO_SWITCH;
		packet->count = lie->side == SERVER_TO_WORKER;
		packet->width = lie->side == SERVER_TO_WORKER ? table->window : 0;
		break;
	case SPARSE_BCAST:
	case SPARSE_PUSH:
	case SPARSE_FLUSH:
	case SPARSE_FLUSH_SHORT:
		packet->count = 1;
		packet->width = table->dim;
		break;
	case SPARSE_HAVE: /* one word: that all parts have come */
		packet->number -= 1;
		packet->count = packet->width = 1;
		break;
	case SPARSE_END:
		packet->count = packet->width = 1;
		break;
	default:
		break;
	}
}

/* Shape and numbers as they should be at this moment, as far as another thread can see; how many bytes. */
static uint32_t sparse_make(const struct cast *cast, struct rng *rng, const struct lie *lie,
			    uint16_t worker, uint8_t *at)
{
	const struct ps_hosted *hosted = &cast->server->hosted[0];
	const struct server_sparse *state = home_sparse_server(hosted->table->home);
	const struct worker_sparse *stream =
		endpoint_sparse_worker(cast->kv[worker]->server[0].endpoint);
	uint64_t instance = state->instance;
	struct sparse packet = { .kind = (uint8_t)lie->kind,
				 .table = hosted->index,
				 .worker = lie->is_servers ? SPARSE_SERVER : worker,
				 .generation = state->generation,
				 .number = state->expected,
				 .map = hosted->table->map.version,
				 .parts = 1 };

	if (lie->guess == GUESS_INSTANCE)
		instance = instance_guess(rng, instance);
	else
		packet.generation = generation_guess(rng, packet.generation);
	if (lie->kind == SPARSE_SETUP && !packet.generation)
		packet.generation = 1; /* 0 is refused for its shape */
	if (lie->kind == SPARSE_PUSH)
		packet.number = stream->next + rng_below(rng, 8);
	if (lie->kind == SPARSE_ACK)
		packet.number = stream->low + rng_below(rng, 8);
	if (lie->kind == SPARSE_READY)
		packet.number = instance;
	count_make(&hosted->table->shape, lie, &packet);
	body_make(rng, lie, &packet, hosted->table->shape.window, instance, at);
	sparse_put(at, &packet);
	return sparse_bytes(&packet);
}

/* To have this address bound in place of the worker's, or the server's: as its next HELLO, but for the nonce. */
static uint32_t hello_make(const struct cast *cast, struct rng *rng, const struct lie *lie,
			   uint16_t worker, uint8_t *at)
{
	const struct ps_hosted *hosted = &cast->server->hosted[0];
	const struct kv_server *server = &cast->kv[worker]->server[0];
	const struct kv_greeting *greeting = lie->side == WORKER_TO_SWITCH ? &server->to_switch
									   : &server->to_server;
	const uint8_t *nonce = lie->is_servers ? hosted->knock.nonce : greeting->core.nonce;
	uint32_t serial = lie->is_servers ? hosted->knock.serial : greeting->core.serial;
	struct wire hello = { .type = WIRE_HELLO,
			      .generation = wire_get32(nonce + 4),
			      .job = greeting->core.index,
			      .child = lie->is_servers ? SPARSE_SERVER : worker,
			      .seq = serial + 1 + rng_below(rng, 8),
			      .lanes = WIRE_HELLO_LANES };
	uint32_t bit = rng_below(rng, 8 * WIRE_NONCE_BYTES);

	memset(at, 0, wire_bytes(WIRE_HELLO_LANES));
	wire_put(at, &hello);
	memcpy(at + WIRE_HEADER_BYTES, nonce, WIRE_NONCE_BYTES);
	at[WIRE_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
	if (rng_below(rng, 2))
		for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
			at[WIRE_HEADER_BYTES + i] = (uint8_t)rng_u32(rng);
	return wire_bytes(WIRE_HELLO_LANES);
}

/* To a worker: of a HELLO that it has said, but for the nonce's bytes. */
static void welcome_worker(const struct cast *cast, struct rng *rng, const struct lie *lie,
			   uint16_t worker, struct wire *welcome)
{
	const struct kv_server *server = &cast->kv[worker]->server[0];
	bool is_switchs = lie->side == SWITCH_TO_WORKER || rng_below(rng, 2);
	const struct kv_greeting *greeting = is_switchs ? &server->to_switch : &server->to_server;
	uint32_t said = greeting->core.serial - greeting->core.before;

	welcome->job = greeting->core.index;
	welcome->child = worker;
	welcome->generation = word_guess(rng, wire_get32(greeting->core.nonce + 4));
	welcome->seq = greeting->core.before + 1 + rng_below(rng, said ? said : 1);
	welcome->lanes = WIRE_HELLO_LANES;
}

/* To a server that knocks: it goes by 8 bytes of the nonce, of which 4 are in the serial. */
static void welcome_server(const struct cast *cast, struct rng *rng, struct wire *welcome)
{
	const struct knock *knock = &cast->server->hosted[0].knock;
	uint32_t said = knock->serial - knock->before, seq;

	welcome->job = knock->index;
	welcome->child = knock->child;
	welcome->generation = wire_get32(knock->nonce + 4);
	welcome->lanes = knock->lanes;
	welcome->seq = knock->before + 1 + rng_below(rng, said ? said : 1);
	if (rng_below(rng, 2)) {
		welcome->generation = word_guess(rng, welcome->generation);
		return;
	}
	do {
		seq = word_guess(rng, welcome->seq);
	} while (seq - knock->before - 1 < 4 * KNOCKS_MANY);
	welcome->seq = seq;
}

static uint32_t welcome_make(const struct cast *cast, struct rng *rng, const struct lie *lie,
			     uint16_t worker, uint8_t *at)
{
	struct wire welcome = { .type = WIRE_WELCOME };

	if (lie->side == SWITCH_TO_SERVER)
		welcome_server(cast, rng, &welcome);
	else
		welcome_worker(cast, rng, lie, worker, &welcome);
	memset(at, 0, wire_bytes(welcome.lanes));
	wire_put(at, &welcome);
	return wire_bytes(welcome.lanes);
}

/* ---- sending ---- */

static const struct link *from(const struct cast *cast, const struct lie *lie, uint16_t worker)
{
	if (lie->side == WORKER_TO_SWITCH || lie->side == WORKER_TO_SERVER)
		return cast->kv[worker]->link;
	if (cast->at_switch && (lie->side == SWITCH_TO_SERVER || lie->side == SWITCH_TO_WORKER))
		return cast->at_switch;
	return cast->server->link;
}

static struct link_address to(const struct cast *cast, const struct lie *lie, uint16_t worker,
			      int *fd)
{
	const struct ps_hosted *hosted = &cast->server->hosted[0];
	struct link_address address = cast->kv[worker]->link->local;

	*fd = link_udp_fd(cast->server->link);
	if (lie->side == SWITCH_TO_SERVER || lie->side == WORKER_TO_SERVER)
		return cast->server->self;
	if (lie->side == SERVER_TO_SWITCH || lie->side == WORKER_TO_SWITCH) {
		*fd = hosted->is_inside ? *fd : -1;
		return hosted->at_switch;
	}
	*fd = link_udp_fd(cast->kv[worker]->link);
	memcpy(address.ip, cast->server->self.ip, sizeof(address.ip));
	return address;
}

static uint32_t lie_make(const struct cast *cast, struct rng *rng, const struct lie *lie,
			 uint16_t worker, uint8_t *at)
{
	if (lie->kind == HELLO)
		return hello_make(cast, rng, lie, worker, at);
	if (lie->kind == WELCOME)
		return welcome_make(cast, rng, lie, worker, at);
	return sparse_make(cast, rng, lie, worker, at);
}

uint32_t lie_send(const struct cast *cast, const struct lie *lie, struct rng *rng, int *fd)
{
	static uint8_t bytes[LIE_RUN * LIE_BYTES];
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	uint16_t worker = (uint16_t)rng_below(rng, WORKERS), one = 0;
	uint16_t victim = lie->kind == HELLO ? (uint16_t)!worker : worker; /* who is deaf then */
	struct link_address address = to(cast, lie, worker, fd);
	union link_sockaddr at;
	struct iovec iov = { .iov_base = bytes };
	struct msghdr message = { .msg_name = &at,
				  .msg_namelen = link_address_to_socket(&address, false, &at),
				  .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *segment = CMSG_FIRSTHDR(&message);

	for (uint32_t i = 0; i < LIE_RUN; i++) /* all of a kind are as long */
		one = (uint16_t)lie_make(cast, rng, lie, victim, bytes + (size_t)i * one);
	iov.iov_len = (size_t)LIE_RUN * one;
	segment->cmsg_level = SOL_UDP;
	segment->cmsg_type = UDP_SEGMENT;
	segment->cmsg_len = CMSG_LEN(sizeof(one));
	memcpy(CMSG_DATA(segment), &one, sizeof(one));
	return sendmsg(link_udp_fd(from(cast, lie, worker)), &message, 0) < 0 ? 0 : LIE_RUN;
}
