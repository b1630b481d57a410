/* SPDX-License-Identifier: Apache-2.0 */
/* worker_sparse.c - see worker_sparse.h. */
#include "core/sparse/worker_sparse.h"

static struct worker_sparse_push *push_at(const struct worker_sparse *worker, uint64_t seq)
{
	return &worker->push[seq % worker->kept_max];
}

void worker_sparse_init(struct worker_sparse *worker, const struct sparse_table *table,
			uint16_t index, uint64_t generation, uint32_t map, uint32_t kept_max,
			struct worker_sparse_push *push)
{
	CORE_ASSERT(sparse_table_is_sound(table));
	CORE_ASSERT(index < table->workers);
	CORE_ASSERT(kept_max >= table->window);
	*worker = (struct worker_sparse){ .table = table,
					  .generation = generation,
					  .named = generation,
					  .named_map = map,
					  .low = 1,
					  .sent = 1,
					  .next = 1,
					  .step = 1,
					  .reached = 1,
					  .map = map,
					  .kept_max = kept_max,
					  .worker = index,
					  .push = push };
	for (uint32_t i = 0; i < kept_max; i++)
		push[i] = (struct worker_sparse_push){ 0 };
}

bool worker_sparse_has_room(const struct worker_sparse *worker)
{
	return worker->next - worker->low < worker->kept_max && !worker->is_closed;
}

bool worker_sparse_is_freed(const struct worker_sparse *worker, uint64_t seq)
{
	CORE_ASSERT(seq < worker->next);
	return seq < worker->low || push_at(worker, seq)->is_freed;
}

/* Does the switch of this generation have it, or the server? */
static bool is_in(const struct worker_sparse *worker, uint64_t seq)
{
	if (push_at(worker, seq)->is_acked)
		return true;
	return worker_sparse_is_freed(worker, seq);
}

/* R-SP-18: seq - W, so by the same rule all before it, must be in: then the row of the switch says of every
 * seq whether it is. */
bool worker_sparse_may_send(const struct worker_sparse *worker)
{
	uint64_t seq = worker->sent, window = worker->table->window;

	if (seq == worker->next || !worker->generation || worker->generation < worker->barred)
		return false;
	return seq <= window || is_in(worker, seq - window);
}

/* R-SP-18: of what was sent, all but the last W are in. */
uint64_t worker_sparse_first_due(const struct worker_sparse *worker)
{
	uint64_t window = worker->table->window;
	uint64_t first = worker->sent > window ? worker->sent - window : 1;

	return first > worker->low ? first : worker->low;
}

bool worker_sparse_is_due(const struct worker_sparse *worker, uint64_t seq)
{
	return seq < worker->sent && !is_in(worker, seq);
}

bool worker_sparse_may_end(const struct worker_sparse *worker)
{
	if (!worker->is_closed || !worker->generation)
		return false;
	for (uint64_t seq = worker->low; seq < worker->next; seq++)
		if (!is_in(worker, seq))
			return false;
	return true;
}

bool worker_sparse_wants(const struct worker_sparse *worker)
{
	if (worker->table->is_stepped)
		return false;
	if (worker->sent > worker->low && (worker->next - worker->low) * 2 >= worker->kept_max)
		return true;
	for (uint64_t seq = worker->low; seq < worker->sent; seq++)
		if (push_at(worker, seq)->is_acked && !push_at(worker, seq)->is_freed)
			return true;
	return false;
}

/* Of a place all that is below what is freed is freed: rows said so. */
void worker_sparse_report(const struct worker_sparse *worker, uint64_t *row)
{
	uint32_t window = worker->table->window;

	for (uint32_t place = 0; place < window; place++)
		row[place] = 0;
	for (uint64_t seq = worker->low > window ? worker->low - window : 1; seq < worker->next;
	     seq++)
		if (worker_sparse_is_freed(worker, seq))
			row[seq % window] = seq;
}

static struct sparse header_of(const struct worker_sparse *worker, enum sparse_kind kind)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = worker->table->index,
				.worker = worker->worker,
				.generation = worker->generation };
}

/* What is freed is not sent again. */
static void skip_freed(struct worker_sparse *worker)
{
	while (worker->low < worker->next && push_at(worker, worker->low)->is_freed)
		worker->low++;
	if (worker->sent < worker->low)
		worker->sent = worker->low;
	while (worker->sent < worker->next && push_at(worker, worker->sent)->is_freed)
		worker->sent++;
}

static void submit(struct worker_sparse *worker, struct worker_sparse_actions *actions)
{
	CORE_ASSERT(worker_sparse_has_room(worker));
	actions->submitted = true;
	actions->seq = worker->next++;
	*push_at(worker, actions->seq) = (struct worker_sparse_push){ 0 };
}

static void send(struct worker_sparse *worker, uint64_t seq, struct worker_sparse_actions *actions)
{
	actions->send = true;
	actions->seq = seq;
	actions->header = header_of(worker, SPARSE_PUSH);
	actions->header.number = seq;
	actions->header.map = worker->map;
}

/* R-SP-19: three later ones are in, so it is lost. The first such one; the next at the next ACK. */
static void hurry(struct worker_sparse *worker, uint64_t acked,
		  struct worker_sparse_actions *actions)
{
	uint64_t first = worker_sparse_first_due(worker);

	for (uint64_t seq = first; seq < acked; seq++) {
		struct worker_sparse_push *push = push_at(worker, seq);

		if (!is_in(worker, seq) && push->later < WORKER_SPARSE_HURRY)
			push->later++;
	}
	for (uint64_t seq = first; seq < worker->sent; seq++) {
		struct worker_sparse_push *push = push_at(worker, seq);

		if (is_in(worker, seq))
			continue;
		if (push->later < WORKER_SPARSE_HURRY)
			return; /* what was sent after it has not been overtaken more often */
		if (push->is_hurried)
			continue;
		push->is_hurried = 1;
		send(worker, seq, actions);
		return;
	}
}

static void take_ack(struct worker_sparse *worker, uint64_t seq,
		     struct worker_sparse_actions *actions)
{
	if (seq < worker->low || !worker_sparse_is_due(worker, seq))
		return;
	push_at(worker, seq)->is_acked = 1;
	actions->is_acked = true;
	actions->acked = seq;
	hurry(worker, seq, actions);
}

static bool row_covers(const struct worker_sparse *worker, const uint8_t *row, uint64_t seq)
{
	return sparse_body_get64(row + seq % worker->table->window * SPARSE_NUMBER_BYTES) >= seq;
}

/* R-SP-21. end: what this generation, or any, has sent is below, or freed. */
static bool is_possible(const struct worker_sparse *worker, const uint8_t *row, uint64_t end)
{
	for (uint32_t i = 0; i < worker->table->window; i++)
		if (sparse_body_get64(row + i * SPARSE_NUMBER_BYTES) >= worker->reached)
			return false;
	for (uint64_t seq = end; seq < worker->reached; seq++)
		if (row_covers(worker, row, seq) && !worker_sparse_is_freed(worker, seq))
			return false;
	return true;
}

/* Frees what the row covers. False: it cannot be so. */
static bool take_row(struct worker_sparse *worker, const uint8_t *row, uint64_t end,
		     struct worker_sparse_actions *actions)
{
	if (!is_possible(worker, row, end))
		return false;
	for (uint64_t seq = worker->low; seq < worker->next; seq++) {
		struct worker_sparse_push *push = push_at(worker, seq);

		if (push->is_freed || !row_covers(worker, row, seq))
			continue;
		push->is_freed = 1;
		actions->freed = true;
	}
	skip_freed(worker);
	return true;
}

/* R-SP-30: epochs below `expected` are in the server. */
static void leave(struct worker_sparse *worker, uint64_t expected,
		  struct worker_sparse_actions *actions)
{
	if (!worker->is_closed || expected <= worker->step)
		return;
	worker->is_closed = false;
	worker->step++;
	actions->left = true;
}

/* What is not freed goes out again. */
static void enter(struct worker_sparse *worker, uint64_t generation, uint32_t map,
		  uint64_t expected, struct worker_sparse_actions *actions)
{
	actions->resumed = true;
	actions->is_map_new = map != worker->map;
	worker->generation = generation;
	worker->map = map;
	for (uint64_t seq = worker->low; seq < worker->next; seq++)
		*push_at(worker, seq) = (struct worker_sparse_push){
			.is_freed = push_at(worker, seq)->is_freed,
			.is_acked = 0,
		};
	worker->sent = worker->low;
	skip_freed(worker);
	leave(worker, expected, actions);
	if (worker->step > expected) /* R-SP-33: the server has gone back */
		worker->step = expected;
}

/* R-SP-22: UDP may overtake TCP; such a RESUME comes again. */
static bool is_named(const struct worker_sparse *worker, const struct sparse *packet)
{
	return packet->generation == worker->named && packet->map == worker->named_map;
}

/* R-SP-22 */
static void resume(struct worker_sparse *worker, const struct sparse *packet, const uint8_t *row,
		   struct worker_sparse_actions *actions)
{
	if (packet->generation != worker->generation) {
		if (packet->generation < worker->generation || !is_named(worker, packet)) {
			actions->is_dropped = true;
			return;
		}
		if (!take_row(worker, row, worker->reached, actions)) {
			actions->is_protocol_error = true;
			return;
		}
		enter(worker, packet->generation, packet->map, packet->number, actions);
	}
	actions->answer = true;
	actions->header = header_of(worker, SPARSE_RESUMED);
}

static void take(struct worker_sparse *worker, const struct sparse *packet, const uint8_t *at,
		 struct worker_sparse_actions *actions)
{
	bool is_own = packet->generation == worker->generation;
	const uint8_t *row = at + SPARSE_HEADER_BYTES;

	if (packet->table != worker->table->index || packet->worker != worker->worker ||
	    packet->generation < worker->barred)
		return;
	if ((packet->kind == SPARSE_ACK || packet->kind == SPARSE_COMMITTED) && !is_own) {
		actions->is_dropped = true;
		return;
	}
	if (packet->kind == SPARSE_ACK) {
		take_ack(worker, packet->number, actions);
		return;
	}
	if (packet->width != worker->table->window)
		return;
	if (packet->kind == SPARSE_COMMITTED) {
		if (take_row(worker, row, worker->sent, actions))
			leave(worker, packet->number + 1, actions);
		else
			actions->is_protocol_error = true;
	} else if (packet->kind == SPARSE_RESUME) {
		resume(worker, packet, row, actions);
	}
}

void worker_sparse_step(struct worker_sparse *worker, const struct worker_sparse_event *event,
			struct worker_sparse_actions *actions)
{
	*actions = (struct worker_sparse_actions){ 0 };
	switch (event->type) {
	case WORKER_SPARSE_SUBMIT:
		submit(worker, actions);
		break;
	case WORKER_SPARSE_SEND:
		CORE_ASSERT(worker_sparse_may_send(worker));
		send(worker, worker->sent++, actions);
		if (worker->reached < worker->sent)
			worker->reached = worker->sent;
		skip_freed(worker);
		break;
	case WORKER_SPARSE_RESEND:
		CORE_ASSERT(worker_sparse_is_due(worker, event->seq));
		send(worker, event->seq, actions);
		break;
	case WORKER_SPARSE_ASK:
		CORE_ASSERT(worker_sparse_wants(worker));
		actions->ask = true;
		actions->header = header_of(worker, SPARSE_ASK);
		break;
	case WORKER_SPARSE_CLOSE:
		CORE_ASSERT(worker->table->is_stepped);
		worker->is_closed = true;
		break;
	case WORKER_SPARSE_END:
		CORE_ASSERT(worker_sparse_may_end(worker));
		actions->end = true;
		actions->seq = worker->next - 1;
		actions->header = header_of(worker, SPARSE_END);
		actions->header.number = worker->step;
		actions->header.count = 1;
		actions->header.width = 1;
		break;
	case WORKER_SPARSE_REPORT:
		if (worker->barred < event->generation)
			worker->barred = event->generation;
		break;
	case WORKER_SPARSE_NAME:
		if (event->generation < worker->named)
			break; /* of a connection that was slower than the next one */
		worker->named = event->generation;
		worker->named_map = event->map;
		break;
	case WORKER_SPARSE_PACKET:
		take(worker, event->packet, event->at, actions);
		break;
	}
}
