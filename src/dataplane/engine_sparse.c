/* SPDX-License-Identifier: Apache-2.0 */
/* engine_sparse.c - see engine_sparse.h. The tables and what comes in; flush.c says when parts go. */
#include "dataplane/engine_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/sparse/layout_sparse.h"
#include "dataplane/binding.h"
#include "dataplane/flush.h"
#include "dataplane/outbox.h"

enum {
	TABLES_MAX = 1024,
	PAIRS_LEAST = 65536, /* of an epoch, if its server leaves that to us, */
	PAIRS_OF_RANK = 20,  /* and for each rank: 8 bytes of its flush for 160 of pushes */
};

static const uint64_t memory_max_default = 1ull << 30;

struct table {
	struct sparse_table shape;
	struct switch_sparse state;
	struct switch_sparse_memory memory;
	struct flush flush;
	uint64_t pairs_max, age_ns;
	uint64_t first_ns; /* the epoch's first push came */
	uint64_t bytes;
	uint64_t parts; /* that were sent */
	bool has_nonces, has_first;
	struct binding peer[]; /* the workers, then the server */
};

struct engine_sparse {
	struct link *link;
	struct outbox outbox;
	struct account *account, own; /* own: if it was lent none */
	uint64_t memory_used;
	uint32_t tables_max;
	struct table **table; /* by index; NULL: none */
	uint32_t live_count;
	uint16_t *live;         /* the indices of those that there are */
	struct lns_tables *lns; /* from the first table on that wants them */
	uint32_t registers;
	uint32_t *touched; /* scratch: a number for each register */
	struct engine_sparse_stats stats;
};

/* ---- tables ---- */

struct engine_sparse *engine_sparse_open(const struct engine_sparse_options *options)
{
	struct engine_sparse *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->link = options->link;
	engine->own.max = options->memory_max ? options->memory_max : memory_max_default;
	engine->account = options->account ? options->account : &engine->own;
	engine->tables_max = options->tables_max ? options->tables_max : TABLES_MAX;
	engine->table = calloc(engine->tables_max, sizeof(struct table *));
	engine->live = calloc(engine->tables_max, sizeof(uint16_t));
	engine->registers = options->registers;
	engine->touched = calloc(engine->registers + 1ul, sizeof(*engine->touched));
	if (!engine->table || !engine->live || !engine->touched ||
	    outbox_open(&engine->outbox, engine->link)) {
		engine_sparse_close(engine);
		return NULL;
	}
	return engine;
}

void engine_sparse_close(struct engine_sparse *engine)
{
	if (!engine)
		return;
	while (engine->live_count)
		engine_sparse_remove(engine, engine->live[0]);
	outbox_close(&engine->outbox);
	free(engine->table);
	free(engine->live);
	free(engine->touched);
	free(engine->lns);
	free(engine);
}

static struct table *table_find(const struct engine_sparse *engine, uint32_t index)
{
	return index < engine->tables_max ? engine->table[index] : NULL;
}

static uint64_t places_bytes(const struct sparse_table *shape)
{
	return sparse_places(shape) * sizeof(struct switch_sparse_place);
}

static uint64_t tags_bytes(const struct sparse_table *shape)
{
	return 2ull * shape->ranks * sizeof(uint64_t);
}

static uint64_t lists_bytes(const struct sparse_table *shape)
{
	return 2ull * shape->ranks * sizeof(uint32_t);
}

uint64_t engine_sparse_table_bytes(const struct sparse_table *shape)
{
	return places_bytes(shape) + tags_bytes(shape) * (1 + shape->dim) + lists_bytes(shape) +
	       flush_bytes(sparse_flush_parts_max(shape));
}

/* Zero until touched, and free until then: places, tags, sums, lists, what the flush remembers of its
 * parts. */
static int table_memory_get(struct table *table)
{
	const struct sparse_table *shape = &table->shape;
	uint8_t *at = mmap(NULL, table->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	table->memory.place = (void *)at;
	at += places_bytes(shape);
	table->memory.tag = (void *)at;
	at += tags_bytes(shape);
	table->memory.sum = (void *)at;
	at += tags_bytes(shape) * shape->dim;
	table->memory.list = (void *)at;
	at += lists_bytes(shape);
	flush_init(&table->flush, shape, (void *)at);
	return 0;
}

/* R-LNS-1. Some 10 ms, once. */
static bool lns_take(struct engine_sparse *engine)
{
	if (engine->lns)
		return true;
	engine->lns = malloc(sizeof(*engine->lns));
	if (engine->lns)
		lns_tables_make(engine->lns);
	return engine->lns;
}

int engine_sparse_add(struct engine_sparse *engine, const struct engine_sparse_table *config)
{
	const struct sparse_table *shape = &config->shape;
	struct table *table;
	int error;

	if (!sparse_table_is_sound(shape) || !config->instance ||
	    (engine->registers && shape->bytes > LAYOUT_BYTES))
		return -EINVAL;
	if (shape->index >= engine->tables_max)
		return -ENOSPC;
	if (engine->table[shape->index])
		return -EEXIST;
	if (shape->values == SPARSE_LNS && !lns_take(engine))
		return -ENOMEM;
	table = calloc(1, sizeof(*table) + (shape->workers + 1u) * sizeof(struct binding));
	if (!table)
		return -ENOMEM;
	table->shape = *shape;
	table->memory.lns = engine->lns;
	table->state.instance = config->instance;
	table->pairs_max = config->pairs_max;
	table->age_ns = config->age_ns;
	table->bytes = engine_sparse_table_bytes(shape);
	table->has_nonces = config->nonces;
	for (uint32_t i = 0; config->nonces && i <= shape->workers; i++)
		memcpy(table->peer[i].nonce, config->nonces[i], WIRE_NONCE_BYTES);
	error = account_take(engine->account, table->bytes) ? table_memory_get(table) : -ENOSPC;
	if (error == -ENOMEM)
		account_give(engine->account, table->bytes);
	if (error) {
		free(table);
		return error;
	}
	engine->memory_used += table->bytes;
	engine->table[shape->index] = table;
	engine->live[engine->live_count++] = shape->index;
	return 0;
}

int engine_sparse_remove(struct engine_sparse *engine, uint16_t index)
{
	struct table *table = table_find(engine, index);

	if (!table)
		return -ENOENT;
	for (uint32_t i = 0; i < engine->live_count; i++)
		if (engine->live[i] == index)
			engine->live[i] = engine->live[--engine->live_count];
	engine->table[index] = NULL;
	engine->memory_used -= table->bytes;
	account_give(engine->account, table->bytes);
	munmap(table->memory.place, table->bytes);
	free(table);
	return 0;
}

/* NULL: no such worker. */
static struct binding *peer_find(struct table *table, uint16_t worker)
{
	if (worker == SPARSE_SERVER)
		return &table->peer[table->shape.workers];
	return worker < table->shape.workers ? &table->peer[worker] : NULL;
}

int engine_sparse_bind(struct engine_sparse *engine, uint16_t index, uint16_t worker,
		       const struct link_address *address)
{
	struct table *table = table_find(engine, index);
	struct binding *peer = table ? peer_find(table, worker) : NULL;

	if (!table)
		return -ENOENT;
	if (!peer)
		return -EINVAL;
	binding_set(peer, address);
	return 0;
}

int engine_sparse_name(struct engine_sparse *engine, uint16_t index, uint64_t generation)
{
	struct table *table = table_find(engine, index);

	if (!table)
		return -ENOENT;
	switch_sparse_name(&table->state, generation);
	return 0;
}

/* ---- HELLO ---- */

bool engine_sparse_hello(struct engine_sparse *engine, const struct link_address *address,
			 const struct wire *hello, const uint8_t *nonce)
{
	struct table *table = table_find(engine, hello->job);
	struct binding *peer = table ? peer_find(table, hello->child) : NULL;

	if (!peer || !table->has_nonces)
		return false;
	if (!binding_hello(peer, address, hello->seq, nonce)) {
		bool is_overtaken = binding_is_overtaken(peer, address, hello->seq, nonce);

		engine->stats.overtaken += is_overtaken;
		engine->stats.wrong_nonce += !is_overtaken;
		return is_overtaken;
	}
	binding_welcome(hello, address,
			outbox_put(&engine->outbox, address, wire_bytes(hello->lanes)));
	return true;
}

/* ---- packets ---- */

/* R-SP-5. ASK may come from its worker or the server. */
static bool is_from(struct table *table, const struct sparse *packet,
		    const struct link_address *address)
{
	bool is_workers = packet->kind == SPARSE_PUSH || packet->kind == SPARSE_ASK;
	const struct binding *peer = peer_find(table, is_workers ? packet->worker : SPARSE_SERVER);

	return peer && binding_is_at(peer, address);
}

static void answer(struct engine_sparse *engine, const struct link_address *peer,
		   const struct sparse *packet)
{
	sparse_put(outbox_put(&engine->outbox, peer, SPARSE_HEADER_BYTES), packet);
}

/* R-SP-14 */
static void forward(struct engine_sparse *engine, const struct table *table, const uint8_t *at,
		    uint32_t bytes)
{
	for (uint32_t i = 0; i < table->shape.workers; i++)
		if (table->peer[i].is_bound)
			memcpy(outbox_put(&engine->outbox, &table->peer[i].address, bytes), at,
			       bytes);
}

static uint64_t now(const struct engine_sparse *engine)
{
	return engine->link->ops->now_ns(engine->link);
}

/* What the verdict asks of an engine. `packet` is the answer's header, if it has one. */
static void settle(struct engine_sparse *engine, struct table *table,
		   const struct link_address *peer, enum switch_sparse_verdict verdict,
		   struct sparse *packet, const uint8_t *at, uint32_t bytes)
{
	switch (verdict) {
	case SWITCH_SPARSE_ADDED:
		if (!table->has_first)
			table->first_ns = now(engine);
		table->has_first = true;
		answer(engine, peer, packet);
		break;
	case SWITCH_SPARSE_REPEAT:
	case SWITCH_SPARSE_READY:
		answer(engine, peer, packet);
		break;
	case SWITCH_SPARSE_FORWARD:
		forward(engine, table, at, bytes);
		break;
	case SWITCH_SPARSE_TAKEN:
		if (packet->kind == SPARSE_HAVE)
			flush_have(&table->flush, packet, at, now(engine));
		else if (packet->kind == SPARSE_COMMITTED)
			flush_end(&table->flush, now(engine));
		break;
	default: /* dropped and counted */
		break;
	}
}

/* R-CT-32 */
static void chip_count(struct engine_sparse *engine, const struct sparse *push, const uint8_t *at)
{
	struct layout_sparse_cost cost =
		layout_sparse_push_cost(push, at, engine->registers, engine->touched);

	engine->stats.recirculations += cost.further;
	engine->stats.recirculated += cost.further > 0;
	engine->stats.passes_again += cost.passes - 1;
}

void engine_sparse_serve(struct engine_sparse *engine, const struct link_address *peer,
			 const uint8_t *at, uint32_t bytes)
{
	struct sparse packet, push;
	enum wire_fault fault = sparse_check(at, bytes, &packet);
	enum switch_sparse_verdict verdict;
	struct table *table;

	engine->stats.packets_in++;
	if (!fault && engine->registers && bytes > LAYOUT_BYTES)
		fault = WIRE_FAULT_LENGTH;
	if (fault) {
		engine->stats.fault[fault]++;
		return;
	}
	table = table_find(engine, packet.table);
	if (!table) {
		engine->stats.unknown_table++;
		return;
	}
	if (!is_from(table, &packet, peer)) {
		engine->stats.wrong_address++;
		return;
	}
	push = packet;
	verdict = switch_sparse_step(&table->shape, &table->state, &table->memory, &packet, at);
	engine->stats.verdict[verdict]++;
	if (verdict == SWITCH_SPARSE_ADDED) {
		engine->stats.pairs += push.count;
		if (engine->registers)
			chip_count(engine, &push, at);
	}
	settle(engine, table, peer, verdict, &packet, at, bytes);
}

/* ---- time ---- */

/* R-SP-16: between two packets, for the thread that takes them does this too. */
static void flip(struct engine_sparse *engine, struct table *table, uint64_t now_ns)
{
	switch_sparse_flip(&table->state);
	table->has_first = false;
	flush_begin(&table->flush, switch_sparse_parts(&table->shape, &table->state), now_ns);
	engine->stats.flips++;
}

/* R-SP-11, R-SP-34 */
static void flush_send(struct engine_sparse *engine, struct table *table, uint64_t now_ns)
{
	const struct binding *server = &table->peer[table->shape.workers];
	uint8_t part_bytes[SPARSE_BYTES_MAX];
	uint32_t part;
	bool is_again;

	while (server->is_bound && flush_next(&table->flush, now_ns, &part, &is_again)) {
		uint32_t bytes = switch_sparse_part(&table->shape, &table->state, &table->memory,
						    part, part_bytes);

		memcpy(outbox_put(&engine->outbox, &server->address, bytes), part_bytes, bytes);
		table->parts++;
		engine->stats.parts_again += is_again;
		engine->stats.parts_first += !is_again;
	}
}

/* R-SP-9 */
static uint64_t pairs_enough(const struct table *table)
{
	const struct switch_sparse *state = &table->state;
	uint64_t worth = (uint64_t)PAIRS_OF_RANK * state->touched[state->epoch & 1];

	if (table->pairs_max)
		return table->pairs_max;
	return worth > PAIRS_LEAST ? worth : PAIRS_LEAST;
}

static uint64_t table_turn(struct engine_sparse *engine, struct table *table, uint64_t now_ns)
{
	uint64_t old_ns = UINT64_MAX;

	if (table->has_first && table->age_ns)
		old_ns = table->first_ns + table->age_ns;
	if (switch_sparse_is_due(&table->shape, &table->state, pairs_enough(table),
				 old_ns <= now_ns)) {
		flip(engine, table, now_ns);
		old_ns = UINT64_MAX;
	}
	if (!table->state.is_busy)
		return table->shape.is_stepped ? UINT64_MAX : old_ns;
	flush_send(engine, table, now_ns);
	return flush_due(
		&table->flush); /* an epoch that is due waits until this one is committed */
}

uint64_t engine_sparse_turn(struct engine_sparse *engine)
{
	uint64_t now_ns = engine->live_count ? now(engine) : 0;
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < engine->live_count; i++) {
		uint64_t due = table_turn(engine, engine->table[engine->live[i]], now_ns);

		if (due < due_ns)
			due_ns = due;
	}
	outbox_flush(&engine->outbox);
	return due_ns;
}

/* ---- what others see ---- */

const struct switch_sparse *engine_sparse_state(const struct engine_sparse *engine, uint16_t index)
{
	const struct table *table = table_find(engine, index);

	return table ? &table->state : NULL;
}

uint64_t engine_sparse_parts(const struct engine_sparse *engine, uint16_t index)
{
	const struct table *table = table_find(engine, index);

	return table ? table->parts : 0;
}

uint64_t engine_sparse_memory_used(const struct engine_sparse *engine)
{
	return engine->memory_used;
}

const struct engine_sparse_stats *engine_sparse_stats(const struct engine_sparse *engine)
{
	return &engine->stats;
}
