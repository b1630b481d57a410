/* SPDX-License-Identifier: Apache-2.0 */
/* server_sparse.c - see server_sparse.h. */
#include "core/sparse/server_sparse.h"

#include "core/sparse/copy_sparse.h"

/* ---- the assembly of one flush ---- */

static void assembly_drop(struct server_sparse *server)
{
	for (uint32_t part = 0; part < server->parts; part++)
		server->memory.has_part[part] = 0;
	server->parts = 0;
	server->parts_count = 0;
	server->flags = 0;
}

/* Half a flush of an older generation has its epoch's tag in some ranks. */
static void tags_clear(struct server_sparse *server)
{
	for (uint32_t rank = 0; rank < server->table->ranks; rank++)
		server->memory.tag[rank] = 0;
}

static void stage_rows(struct server_sparse *server, const struct sparse *packet, const uint8_t *at)
{
	uint32_t window = server->table->window, first = packet->worker * window;
	const uint8_t *number = sparse_item(packet, at, 0);

	for (uint32_t i = 0; i < packet->count * window; i++)
		server->memory.staged[first + i] =
			sparse_body_get64(number + i * SPARSE_NUMBER_BYTES);
}

/* R-SP-23: marks the part's ranks as touched; if one of them cannot be, or is already, those again that it has marked. */
static bool tags_put(const struct server_sparse *server, const struct sparse *packet,
		     const uint8_t *at)
{
	uint64_t *tag = server->memory.tag;

	for (uint32_t i = 0; i < packet->count; i++) {
		uint32_t rank = sparse_body_get32(sparse_item(packet, at, i));

		if (rank < server->table->ranks && tag[rank] != packet->number) {
			tag[rank] = packet->number;
			continue;
		}
		while (i--)
			tag[sparse_body_get32(sparse_item(packet, at, i))] = 0;
		return false;
	}
	return true;
}

static void stage_sums(struct server_sparse *server, const struct sparse *packet, const uint8_t *at)
{
	uint32_t dim = server->table->dim;

	for (uint32_t i = 0; i < packet->count; i++) {
		const uint8_t *item = sparse_item(packet, at, i);
		uint32_t rank = sparse_body_get32(item);
		int64_t *sum = server->memory.sum + (size_t)rank * dim;

		item += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < dim; k++)
			sum[k] = packet->kind == SPARSE_FLUSH_SHORT
					 ? (int32_t)sparse_body_get32(item + k * SPARSE_VALUE_BYTES)
					 : (int64_t)sparse_body_get64(item + k * SPARSE_SUM_BYTES);
	}
}

/* ---- records ---- */

static struct server_sparse_record *record_new(struct server_sparse *server,
					       enum server_sparse_record_kind kind,
					       struct server_sparse_actions *actions)
{
	actions->record = true;
	if (kind != SERVER_SPARSE_BATCH)
		server->binding = server->recorded + 1;
	actions->what = (struct server_sparse_record){ .kind = kind,
						       .map = server->map,
						       .number = ++server->recorded,
						       .generation = server->generation };
	return &actions->what;
}

/* R-SP-24: all at once, or an epoch would be applied and not remembered, or the other way round. */
static void apply(struct server_sparse *server, struct server_sparse_actions *actions)
{
	uint32_t places = sparse_places(server->table);
	struct server_sparse_record *record = record_new(server, SERVER_SPARSE_EPOCH, actions);

	for (uint32_t i = 0; i < places; i++)
		server->memory.cut[i] = server->memory.staged[i];
	record->epoch = server->expected++;
	record->flags = server->flags;
	server->sticky |= server->flags;
	assembly_drop(server);
	server->is_unsaid = true;
	actions->apply = true;
}

/* R-SP-26: what the old switch still sends is of an older generation from now on. */
static void generation_begin(struct server_sparse *server, uint64_t random)
{
	server->generation = sparse_generation_after(server->generation, random);
	server->instance = 0;
	server->drained = 0;
	server->is_fenced = true;
	server->is_ready = false;
	for (uint32_t i = 0; i < server->table->workers; i++)
		server->memory.worker[i].ended = 0;
	assembly_drop(server);
	tags_clear(server);
}

/* R-SP-1 */
static bool is_at_end(const struct server_sparse *server)
{
	return !sparse_fences_left(server->generation);
}

static void fence(struct server_sparse *server, uint32_t map, uint64_t random,
		  struct server_sparse_actions *actions)
{
	actions->refuse = is_at_end(server);
	if (actions->refuse)
		return;
	generation_begin(server, random);
	server->map = map;
	record_new(server, SERVER_SPARSE_FENCE, actions);
}

/* R-SP-33 */
static void gather(struct server_sparse *server, const struct server_sparse_event *event,
		   struct server_sparse_actions *actions)
{
	fence(server, event->map, event->random, actions);
	if (actions->refuse)
		return;
	for (uint16_t worker = 0; worker < server->table->workers; worker++) {
		server->memory.worker[worker].is_unreported = true;
		server->memory.worker[worker].is_missed = false;
	}
	server->unreported = server->table->workers;
}

static void wait_end(struct server_sparse *server, struct server_sparse_worker *worker)
{
	server->unreported -= worker->is_unreported && !worker->is_missed;
	worker->is_missed = true;
}

static void worker_begin(struct server_sparse *server, uint16_t index, uint64_t incarnation)
{
	struct server_sparse_worker *worker = &server->memory.worker[index];
	uint64_t *row = server->memory.cut + (size_t)index * server->table->window;

	wait_end(server, worker);
	*worker = (struct server_sparse_worker){ .incarnation = incarnation, .next = 1 };
	for (uint32_t i = 0; i < server->table->window; i++)
		row[i] = 0;
}

/* R-SP-29. The first of all needs no fence: nobody was this worker. */
static void join(struct server_sparse *server, const struct server_sparse_event *event,
		 struct server_sparse_actions *actions)
{
	struct server_sparse_worker *worker = &server->memory.worker[event->worker];
	struct server_sparse_record *record;
	bool begins = server_sparse_is_replaced(server, event->worker);

	if (!server->generation || (begins && is_at_end(server)) ||
	    event->incarnation <= worker->incarnation) {
		actions->refuse = true;
		return;
	}
	if (begins)
		generation_begin(server, event->random);
	actions->answer = true;
	worker_begin(server, event->worker, event->incarnation);
	record = record_new(server, SERVER_SPARSE_JOIN, actions);
	record->worker = event->worker;
	record->incarnation = event->incarnation;
}

static bool is_row(const struct sparse_table *table, const uint64_t *row)
{
	for (uint32_t place = 0; place < table->window; place++)
		if (row[place] && row[place] % table->window != place)
			return false;
	return true;
}

static void report(struct server_sparse *server, const struct server_sparse_event *event,
		   struct server_sparse_actions *actions)
{
	struct server_sparse_worker *worker = &server->memory.worker[event->worker];
	uint64_t *row = server->memory.cut + (size_t)event->worker * server->table->window;

	if (!worker->is_unreported || !event->incarnation ||
	    (!server->unreported && is_at_end(server)) ||
	    event->incarnation < worker->incarnation || !is_row(server->table, event->row)) {
		actions->refuse = true;
		return;
	}
	actions->answer = true;
	/* Its switch has the row of the checkpoint, and would bring it back with the next cut. */
	if (!server->unreported)
		fence(server, server->map, event->random, actions);
	if (event->incarnation > worker->incarnation)
		worker_begin(server, event->worker, event->incarnation);
	wait_end(server, worker);
	worker->is_unreported = false;
	worker->is_missed = false;
	for (uint32_t place = 0; place < server->table->window; place++) {
		server->lost += sparse_lost_at(server->table, place, row[place], event->row[place]);
		if (row[place] < event->row[place])
			row[place] = event->row[place];
	}
	if (worker->next <= event->number) {
		server->lost += event->number + 1 - worker->next;
		worker->next = event->number + 1;
	}
}

/* R-SP-28 */
static void cold(struct server_sparse *server, const struct server_sparse_event *event,
		 struct server_sparse_actions *actions)
{
	struct server_sparse_worker *worker = &server->memory.worker[event->worker];
	struct server_sparse_record *record;

	if (!worker->incarnation || !event->number || worker->is_unreported ||
	    event->incarnation != worker->incarnation || event->number > worker->next) {
		actions->refuse = true;
		return;
	}
	actions->answer = true;
	if (event->number < worker->next)
		return;
	actions->apply = true;
	record = record_new(server, SERVER_SPARSE_BATCH, actions);
	record->worker = event->worker;
	record->incarnation = event->incarnation;
	record->batch = worker->next++;
}

/* ---- packets ---- */

/* R-SP-23: is it a part of the flush that its first part has begun? */
static bool is_of_the_flush(const struct server_sparse *server, const struct sparse *packet)
{
	return sparse_is_flush_part(server->table, packet) &&
	       (!server->parts || packet->parts == server->parts);
}

static void take_part(struct server_sparse *server, const struct sparse *packet, const uint8_t *at,
		      struct server_sparse_actions *actions)
{
	actions->is_dropped = true;
	if (packet->generation != server->generation || !packet->number)
		return;
	if (packet->number < server->expected) { /* R-SP-25 */
		actions->is_dropped = false;
		actions->say = server_sparse_is_settled(server);
		return;
	}
	if (packet->number > server->expected || !is_of_the_flush(server, packet))
		return;
	if (server->memory.has_part[packet->part]) {
		actions->is_dropped = false;
		return;
	}
	if (sparse_is_flush(packet->kind) && !tags_put(server, packet, at))
		return;
	actions->is_dropped = false;
	server->parts = packet->parts;
	if (packet->kind == SPARSE_CUT)
		stage_rows(server, packet, at);
	else
		stage_sums(server, packet, at);
	server->memory.has_part[packet->part] = 1;
	server->flags |= packet->flags;
	if (++server->parts_count == packet->parts)
		apply(server, actions);
}

/* After a restart a switch that says the generation is the one. */
static void take_ready(struct server_sparse *server, const struct sparse *packet,
		       struct server_sparse_actions *actions)
{
	if (packet->generation != server->generation || server->is_fenced || !packet->number ||
	    (server->instance && packet->number != server->instance)) {
		actions->is_dropped = true;
		return;
	}
	server->instance = packet->number;
	server->is_ready = true;
}

/* R-SP-30. Whoever says that it is still in an older step has not heard COMMITTED. */
static void take_end(struct server_sparse *server, const struct sparse *packet,
		     struct server_sparse_actions *actions)
{
	if (!server->table->is_stepped || packet->worker >= server->table->workers ||
	    packet->generation != server->generation || !packet->number ||
	    packet->number > server->expected)
		actions->is_dropped = true;
	else if (packet->number < server->expected)
		actions->say = server_sparse_is_settled(server);
	else
		server->memory.worker[packet->worker].ended = packet->number;
}

static void take(struct server_sparse *server, const struct sparse *packet, const uint8_t *at,
		 struct server_sparse_actions *actions)
{
	if (packet->table != server->table->index || !server->generation || server->unreported) {
		actions->is_dropped = true;
	} else if (packet->kind == SPARSE_CUT || sparse_is_flush(packet->kind)) {
		take_part(server, packet, at, actions);
	} else if (packet->kind == SPARSE_READY) {
		take_ready(server, packet, actions);
	} else if (packet->kind == SPARSE_END) {
		take_end(server, packet, actions);
	} else if (packet->kind == SPARSE_RESUMED && packet->worker < server->table->workers &&
		   packet->generation == server->generation) {
		server->memory.worker[packet->worker].resumed = packet->generation;
	} else {
		actions->is_dropped = true;
	}
}

static void durable(struct server_sparse *server, uint64_t number,
		    struct server_sparse_actions *actions)
{
	CORE_ASSERT(number >= server->durable);
	CORE_ASSERT(number <= server->recorded);
	server->durable = number;
	if (!server->is_unsaid || !server_sparse_is_settled(server))
		return;
	server->is_unsaid = false;
	actions->say = true;
}

/* ---- what others see ---- */

void server_sparse_init(struct server_sparse *server, const struct sparse_table *table,
			uint32_t map, const struct server_sparse_memory *memory)
{
	CORE_ASSERT(sparse_table_is_sound(table));
	*server = (struct server_sparse){
		.table = table, .expected = 1, .map = map, .memory = *memory
	};
	for (uint16_t worker = 0; worker < table->workers; worker++) {
		server->memory.worker[worker].is_unreported = false;
		server->memory.worker[worker].is_missed = false;
		worker_begin(server, worker, 0);
	}
	for (uint32_t part = 0; part < sparse_flush_parts_max(table); part++)
		server->memory.has_part[part] = 0;
	tags_clear(server);
}

void server_sparse_replay(struct server_sparse *server, const struct server_sparse_record *record,
			  const uint64_t *cut)
{
	CORE_ASSERT(record->number == server->recorded + 1);
	server->recorded = record->number;
	server->durable = record->number;
	if (record->kind != SERVER_SPARSE_BATCH)
		server->binding = record->number;
	server->generation = record->generation;
	server->map = record->map;
	switch (record->kind) {
	case SERVER_SPARSE_EPOCH:
		server->expected = record->epoch + 1;
		server->sticky |= record->flags;
		for (uint32_t i = 0; i < sparse_places(server->table); i++)
			server->memory.cut[i] = cut[i];
		break;
	case SERVER_SPARSE_FENCE:
		break;
	case SERVER_SPARSE_JOIN:
		worker_begin(server, record->worker, record->incarnation);
		break;
	case SERVER_SPARSE_BATCH:
		server->memory.worker[record->worker].next = record->batch + 1;
		break;
	}
}

void server_sparse_lend(struct server_sparse *server, const struct server_sparse_memory *memory)
{
	CORE_ASSERT(server->is_fenced);
	CORE_ASSERT(!server->parts);
	server->memory.sum = memory->sum;
	server->memory.tag = memory->tag;
	server->memory.has_part = memory->has_part;
}

bool server_sparse_is_settled(const struct server_sparse *server)
{
	return server->durable >= server->binding;
}

bool server_sparse_may_setup(const struct server_sparse *server)
{
	return server->instance && !server->is_ready && server_sparse_is_settled(server) &&
	       !server->unreported;
}

bool server_sparse_may_resume(const struct server_sparse *server, uint16_t worker)
{
	return server->memory.worker[worker].resumed < server->generation &&
	       server_sparse_is_settled(server) && !server->unreported &&
	       !server->memory.worker[worker].is_unreported;
}

bool server_sparse_is_spent(const struct server_sparse *server)
{
	return sparse_fences_left(server->generation) <= SPARSE_FENCES_SPARE;
}

bool server_sparse_is_replaced(const struct server_sparse *server, uint16_t worker)
{
	return server->memory.worker[worker].incarnation && !server->unreported;
}

/* R-SP-35. An older flip may be under way: only the second one from now on is sure to be ours. */
static void drain(struct server_sparse *server)
{
	server->drained = server->expected + 2;
}

bool server_sparse_is_drained(const struct server_sparse *server)
{
	return server->table->is_stepped || !server->is_ready ||
	       (server->drained && server->expected >= server->drained);
}

bool server_sparse_may_flip(const struct server_sparse *server)
{
	if (!server->generation)
		return false;
	if (server->expected < server->drained && !server->table->is_stepped)
		return true;
	if (!server->table->is_stepped)
		return false;
	for (uint32_t i = 0; i < server->table->workers; i++)
		if (server->memory.worker[i].ended != server->expected)
			return false;
	return true;
}

static struct sparse header_of(const struct server_sparse *server, enum sparse_kind kind)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = server->table->index,
				.worker = SPARSE_SERVER,
				.generation = server->generation };
}

/* The rows of workers first, first + 1, ... of the cut; the datagram's bytes. */
static uint32_t rows_put(const struct server_sparse *server, struct sparse *packet, uint16_t first,
			 uint32_t rows, uint8_t *at)
{
	uint32_t window = server->table->window;

	packet->worker = first;
	packet->count = (uint16_t)rows;
	packet->width = (uint16_t)window;
	sparse_put(at, packet);
	at += sparse_items_at(packet->kind);
	for (uint32_t i = 0; i < rows * window; i++)
		sparse_body_put64(at + i * SPARSE_NUMBER_BYTES,
				  server->memory.cut[(uint32_t)first * window + i]);
	return sparse_bytes(packet);
}

uint32_t server_sparse_setup(const struct server_sparse *server, uint32_t part, uint8_t *at)
{
	struct sparse packet = header_of(server, SPARSE_SETUP);

	CORE_ASSERT(server_sparse_may_setup(server));
	packet.number = server->expected;
	packet.map = server->map;
	packet.part = part;
	packet.parts = sparse_cut_parts(server->table);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, server->instance);
	return rows_put(server, &packet, (uint16_t)(part * sparse_rows_per_part(server->table)),
			sparse_rows_of_part(server->table, part), at);
}

uint32_t server_sparse_resume(const struct server_sparse *server, uint16_t worker, uint8_t *at)
{
	struct sparse packet = header_of(server, SPARSE_RESUME);

	CORE_ASSERT(server_sparse_is_settled(server));
	packet.number = server->expected;
	packet.map = server->map;
	return rows_put(server, &packet, worker, 1, at);
}

uint32_t server_sparse_flip(const struct server_sparse *server, uint8_t *at)
{
	struct sparse packet = header_of(server, SPARSE_FLIP);

	CORE_ASSERT(server_sparse_may_flip(server));
	packet.number = server->expected;
	sparse_put(at, &packet);
	return SPARSE_HEADER_BYTES;
}

uint32_t server_sparse_have(const struct server_sparse *server, uint32_t part, uint8_t *at)
{
	struct sparse packet = header_of(server, SPARSE_HAVE);
	uint32_t most = sparse_have_parts(server->table), left;

	packet.number = server->expected;
	packet.part = part - part % most;
	packet.parts = server->parts;
	CORE_ASSERT(part < packet.parts);
	left = packet.parts - packet.part;
	if (left > most)
		left = most;
	packet.count = 1;
	packet.width = (uint16_t)((left + SPARSE_HAVE_BITS - 1) / SPARSE_HAVE_BITS);
	sparse_put(at, &packet);
	for (uint32_t i = 0; i < packet.width; i++) {
		uint64_t bits = 0;

		for (uint32_t k = 0; k < SPARSE_HAVE_BITS && i * SPARSE_HAVE_BITS + k < left; k++)
			bits |= (uint64_t)server->memory
					.has_part[packet.part + i * SPARSE_HAVE_BITS + k]
				<< k;
		sparse_body_put64(at + SPARSE_HEADER_BYTES + i * SPARSE_NUMBER_BYTES, bits);
	}
	return sparse_bytes(&packet);
}

uint32_t server_sparse_committed(const struct server_sparse *server, uint16_t worker, uint8_t *at)
{
	struct sparse packet = header_of(server, SPARSE_COMMITTED);

	CORE_ASSERT(server_sparse_is_settled(server));
	packet.number = server->expected - 1;
	if (worker != SPARSE_SERVER)
		return rows_put(server, &packet, worker, 1, at);
	sparse_put(at, &packet);
	return SPARSE_HEADER_BYTES;
}

uint32_t server_sparse_bcast(const struct server_sparse *server, uint32_t part,
			     const struct server_sparse_touched *touched, uint8_t *at)
{
	const struct sparse_table *table = server->table;
	struct sparse packet = header_of(server, SPARSE_BCAST);
	uint32_t per_part = copy_sparse_ranks_per_part(table), first = part * per_part;
	uint8_t *item = at + SPARSE_HEADER_BYTES;

	packet.worker = 0;
	packet.number = server->expected - 1;
	packet.part = part;
	packet.parts = copy_sparse_parts(table, touched->count);
	packet.width = table->dim;
	CORE_ASSERT(part < packet.parts);
	for (uint32_t i = first; i < touched->count && i - first < per_part; i++) {
		CORE_ASSERT(server_sparse_is_touched(server, touched->rank[i]));
		sparse_body_put32(item, touched->rank[i]);
		item += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < table->dim; k++, item += SPARSE_VALUE_BYTES)
			sparse_body_put32(item, touched->value[(size_t)i * table->dim + k]);
		packet.count++;
	}
	sparse_put(at, &packet);
	return sparse_bytes(&packet);
}

bool server_sparse_is_touched(const struct server_sparse *server, uint32_t rank)
{
	return server->memory.tag[rank] == server->expected - 1;
}

void server_sparse_step(struct server_sparse *server, const struct server_sparse_event *event,
			struct server_sparse_actions *actions)
{
	*actions = (struct server_sparse_actions){ 0 };
	switch (event->type) {
	case SERVER_SPARSE_PACKET:
		take(server, event->packet, event->at, actions);
		break;
	case SERVER_SPARSE_DURABLE:
		durable(server, event->number, actions);
		break;
	case SERVER_SPARSE_FENCE_IT:
		fence(server, event->map, event->random, actions);
		break;
	case SERVER_SPARSE_DRAIN_IT:
		drain(server);
		break;
	case SERVER_SPARSE_INSTANCE:
		CORE_ASSERT(server->is_fenced);
		CORE_ASSERT(!server->unreported);
		CORE_ASSERT(event->number);
		server->is_fenced = false;
		server->instance = event->number;
		break;
	case SERVER_SPARSE_JOINED:
		CORE_ASSERT(event->worker < server->table->workers);
		join(server, event, actions);
		break;
	case SERVER_SPARSE_GATHER:
		gather(server, event, actions);
		break;
	case SERVER_SPARSE_MISSED:
		CORE_ASSERT(event->worker < server->table->workers);
		wait_end(server, &server->memory.worker[event->worker]);
		break;
	case SERVER_SPARSE_REPORTED:
		CORE_ASSERT(event->worker < server->table->workers);
		report(server, event, actions);
		break;
	case SERVER_SPARSE_COLD:
		CORE_ASSERT(event->worker < server->table->workers);
		cold(server, event, actions);
		break;
	}
}
