/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_sparse.c - see endpoint_sparse.h. */
#include "dataplane/endpoint_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/rto.h"

enum {
	ASKS_QUICK = 4,
	LATE_RTOS = 8, /* a push goes again after so many, whatever else comes */
};

/* A BCAST may be so much later than the first word of its epoch: it takes the way through the switch, and a large one
 * takes 23 ms to leave (bcast.h). */
static const uint64_t COPY_PATIENCE_NS = 50000000;

/* What the core does not keep of a push. */
struct kept {
	uint64_t first_ns; /* it was submitted */
	uint64_t sent_ns;
	uint16_t count, flags;
	bool is_again; /* sent more than once: its ACK is no sample */
};

struct endpoint_sparse {
	struct outbox *outbox;
	struct sparse_table table;
	struct worker_sparse worker;
	struct link_address at_switch, at_server;
	struct rto rto;
	uint64_t heard_ns; /* the last ACK or BCAST */
	struct endpoint_sparse_stats stats;
	uint64_t patience_ns;
	uint64_t asked_ns;
	uint64_t hurry_seq; /* somebody waits for all below */
	uint32_t asks_many; /* since something was committed */
	bool is_broken;
	struct worker_sparse_push *push;
	struct kept *kept;
	uint8_t *bytes;                      /* of pairs, table.bytes each */
	uint32_t map_next, ranks_next;       /* 0: no other map is there than the stream's */
	struct copy_sparse_memory copy_next; /* for it */
	bool has_copy;
	struct copy_sparse copy;
	uint64_t copy_fresh; /* as it was, */
	uint64_t copy_ns;    /* and since when */
};

static void copy_memory_put(const struct copy_sparse_memory *memory)
{
	free(memory->tag);
	free(memory->value);
	free(memory->has_part);
}

static bool copy_memory_get(struct copy_sparse_memory *memory, const struct sparse_table *table)
{
	*memory = (struct copy_sparse_memory){
		.tag = calloc(table->ranks, sizeof(*memory->tag)),
		.value = calloc((size_t)table->ranks * table->dim, sizeof(*memory->value)),
		.has_part = calloc(COPY_SPARSE_AHEAD, copy_sparse_parts_max(table)),
	};
	if (memory->tag && memory->value && memory->has_part)
		return true;
	copy_memory_put(memory);
	return false;
}

static bool copy_open(struct endpoint_sparse *endpoint,
		      const struct endpoint_sparse_options *options)
{
	struct copy_sparse_memory memory;

	if (!options->has_copy)
		return true;
	endpoint->has_copy = copy_memory_get(&memory, &endpoint->table);
	if (endpoint->has_copy)
		copy_sparse_init(&endpoint->copy, &endpoint->table, options->generation,
				 options->expected, &memory);
	return endpoint->has_copy;
}

int endpoint_sparse_open(struct endpoint_sparse **out,
			 const struct endpoint_sparse_options *options)
{
	struct endpoint_sparse *endpoint;

	if (!sparse_table_is_sound(&options->table) || options->worker >= options->table.workers ||
	    options->kept_max < options->table.window)
		return -EINVAL;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	endpoint->outbox = options->outbox;
	endpoint->table = options->table;
	endpoint->at_switch = options->at_switch;
	endpoint->at_server = options->at_server;
	endpoint->patience_ns = options->patience_ns;
	endpoint->push = calloc(options->kept_max, sizeof(*endpoint->push));
	endpoint->kept = calloc(options->kept_max, sizeof(*endpoint->kept));
	endpoint->bytes = calloc(options->kept_max, options->table.bytes);
	if (!endpoint->push || !endpoint->kept || !endpoint->bytes ||
	    !copy_open(endpoint, options)) {
		endpoint_sparse_close(endpoint);
		return -ENOMEM;
	}
	worker_sparse_init(&endpoint->worker, &endpoint->table, options->worker,
			   options->generation, options->map, options->kept_max, endpoint->push);
	*out = endpoint;
	return 0;
}

void endpoint_sparse_close(struct endpoint_sparse *endpoint)
{
	if (!endpoint)
		return;
	free(endpoint->push);
	free(endpoint->kept);
	free(endpoint->bytes);
	copy_memory_put(&endpoint->copy.memory);
	copy_memory_put(&endpoint->copy_next);
	free(endpoint);
}

static uint64_t now(const struct endpoint_sparse *endpoint)
{
	return endpoint->outbox->link->ops->now_ns(endpoint->outbox->link);
}

static uint32_t index_of(const struct endpoint_sparse *endpoint, uint64_t seq)
{
	return (uint32_t)(seq % endpoint->worker.kept_max);
}

static uint8_t *bytes_of(const struct endpoint_sparse *endpoint, uint64_t seq)
{
	return endpoint->bytes + (size_t)index_of(endpoint, seq) * endpoint->table.bytes;
}

/* ---- what goes out ---- */

static void bare_send(struct endpoint_sparse *endpoint, const struct link_address *to,
		      const struct sparse *packet)
{
	sparse_put(outbox_put(endpoint->outbox, to, SPARSE_HEADER_BYTES), packet);
}

static void push_send(struct endpoint_sparse *endpoint, const struct worker_sparse_actions *actions,
		      uint64_t now_ns, bool is_again)
{
	struct kept *kept = &endpoint->kept[index_of(endpoint, actions->seq)];
	struct sparse packet = actions->header;
	uint8_t *at;
	uint32_t bytes;

	packet.count = kept->count;
	packet.width = endpoint->table.dim;
	packet.flags = kept->flags;
	bytes = sparse_bytes(&packet);
	at = outbox_put(endpoint->outbox, &endpoint->at_switch, bytes);
	sparse_put(at, &packet);
	memcpy(at + SPARSE_HEADER_BYTES, bytes_of(endpoint, actions->seq),
	       bytes - SPARSE_HEADER_BYTES);
	kept->sent_ns = now_ns;
	kept->is_again = is_again;
	endpoint->stats.pushes++;
	endpoint->stats.pushes_again += is_again;
}

/* Ranks are of other keys now: the copy has nothing. */
static void map_take(struct endpoint_sparse *endpoint, const struct sparse *resume)
{
	uint64_t told = endpoint->copy.told;

	endpoint->table.ranks = endpoint->ranks_next;
	endpoint->map_next = 0;
	if (!endpoint->has_copy)
		return;
	copy_memory_put(&endpoint->copy.memory);
	copy_sparse_init(&endpoint->copy, &endpoint->table, resume->generation, resume->number,
			 &endpoint->copy_next);
	copy_sparse_told(&endpoint->copy, told, 0);
	endpoint->copy_next = (struct copy_sparse_memory){ 0 };
}

static void step(struct endpoint_sparse *endpoint, const struct worker_sparse_event *event,
		 uint64_t now_ns)
{
	struct worker_sparse_actions actions;

	worker_sparse_step(&endpoint->worker, event, &actions);
	endpoint->stats.dropped += actions.is_dropped;
	if (actions.is_protocol_error)
		endpoint->is_broken = true;
	if (actions.is_acked) {
		const struct kept *kept = &endpoint->kept[index_of(endpoint, actions.acked)];

		endpoint->heard_ns = now_ns;
		if (!kept->is_again)
			rto_sample(&endpoint->rto, now_ns - kept->sent_ns);
	}
	if (actions.freed)
		endpoint->asks_many = 0;
	if (actions.resumed) {
		endpoint->stats.resumes++;
		endpoint->rto = (struct rto){ 0 }; /* another switch, another way */
		if (actions.is_map_new)
			map_take(endpoint, event->packet);
		else if (endpoint->has_copy)
			copy_sparse_resume(&endpoint->copy, event->packet->generation,
					   event->packet->number);
	}
	if (actions.send)
		push_send(endpoint, &actions, now_ns, event->type != WORKER_SPARSE_SEND);
	if (actions.ask) {
		bare_send(endpoint, &endpoint->at_switch, &actions.header);
		endpoint->stats.asks++;
	}
	if (actions.answer)
		bare_send(endpoint, &endpoint->at_server, &actions.header);
}

/* ---- the user's side ---- */

uint32_t endpoint_sparse_pairs_max(const struct endpoint_sparse *endpoint)
{
	return sparse_items_of(SPARSE_PUSH, endpoint->table.bytes,
			       sparse_pair_bytes(endpoint->table.dim));
}

uint64_t endpoint_sparse_push(struct endpoint_sparse *endpoint, uint16_t flags, uint16_t count,
			      const uint8_t *pairs)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_SUBMIT };
	struct worker_sparse_actions actions;
	struct kept *kept;

	CORE_ASSERT(count <= endpoint_sparse_pairs_max(endpoint));
	if (!worker_sparse_has_room(&endpoint->worker) || endpoint->is_broken)
		return 0;
	worker_sparse_step(&endpoint->worker, &event, &actions);
	kept = &endpoint->kept[index_of(endpoint, actions.seq)];
	*kept = (struct kept){ .first_ns = now(endpoint), .count = count, .flags = flags };
	memcpy(bytes_of(endpoint, actions.seq), pairs,
	       (size_t)count * sparse_pair_bytes(endpoint->table.dim));
	return actions.seq;
}

bool endpoint_sparse_is_committed(const struct endpoint_sparse *endpoint, uint64_t seq)
{
	return worker_sparse_is_freed(&endpoint->worker, seq);
}

void endpoint_sparse_hurry(struct endpoint_sparse *endpoint)
{
	endpoint->hurry_seq = endpoint->worker.next;
}

void endpoint_sparse_switch(struct endpoint_sparse *endpoint, uint16_t index,
			    const struct link_address *at_switch, uint64_t generation, uint32_t map)
{
	endpoint->table.index = index;
	endpoint->at_switch = *at_switch;
	step(endpoint,
	     &(struct worker_sparse_event){
		     .type = WORKER_SPARSE_NAME, .generation = generation, .map = map },
	     now(endpoint));
	endpoint_sparse_told(endpoint, generation, 0);
}

void endpoint_sparse_report(struct endpoint_sparse *endpoint, uint64_t generation, uint64_t *row)
{
	step(endpoint,
	     &(struct worker_sparse_event){ .type = WORKER_SPARSE_REPORT,
					    .generation = generation },
	     now(endpoint));
	worker_sparse_report(&endpoint->worker, row);
}

void endpoint_sparse_server(struct endpoint_sparse *endpoint, const struct link_address *at_server)
{
	endpoint->at_server = *at_server;
}

int endpoint_sparse_map(struct endpoint_sparse *endpoint, uint32_t map, uint32_t ranks)
{
	struct sparse_table table = endpoint->table;
	struct copy_sparse_memory memory = { 0 };

	table.ranks = ranks;
	if (map && endpoint->has_copy && !copy_memory_get(&memory, &table))
		return -ENOMEM;
	copy_memory_put(&endpoint->copy_next);
	endpoint->copy_next = memory;
	endpoint->map_next = map;
	endpoint->ranks_next = ranks;
	return 0;
}

uint8_t *endpoint_sparse_kept(struct endpoint_sparse *endpoint, uint64_t seq, uint16_t **count)
{
	if (worker_sparse_is_freed(&endpoint->worker, seq))
		return NULL;
	*count = &endpoint->kept[index_of(endpoint, seq)].count;
	return bytes_of(endpoint, seq);
}

/* ---- packets and time ---- */

/* R-SP-32: it comes again, when the keys of that map may have come. */
static bool is_too_early(const struct endpoint_sparse *endpoint, const struct sparse *packet)
{
	return packet->kind == SPARSE_RESUME && packet->map != endpoint->worker.map &&
	       (!endpoint->map_next || packet->map != endpoint->map_next || !packet->number);
}

static void bcast_take(struct endpoint_sparse *endpoint, const struct sparse *packet,
		       const uint8_t *at)
{
	if (packet->generation != endpoint->worker.generation) {
		endpoint->stats.dropped++;
		return;
	}
	if (!endpoint->has_copy || !copy_sparse_take(&endpoint->copy, packet, at))
		return;
	endpoint->stats.bcasts++;
	endpoint->heard_ns = now(endpoint);
}

void endpoint_sparse_serve(struct endpoint_sparse *endpoint, const uint8_t *at, uint32_t bytes)
{
	struct sparse packet;
	struct worker_sparse_event event = { .type = WORKER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	if (endpoint->is_broken || sparse_check(at, bytes, &packet) != WIRE_OK ||
	    is_too_early(endpoint, &packet))
		return;
	if (packet.kind == SPARSE_BCAST)
		bcast_take(endpoint, &packet, at);
	if (packet.kind == SPARSE_COMMITTED && packet.table == endpoint->table.index &&
	    packet.generation == endpoint->worker.generation)
		endpoint_sparse_told(endpoint, packet.generation, packet.number);
	step(endpoint, &event, now(endpoint));
}

/* R-SP-19: while anything comes from the switch its ACK most likely waits in the same queue, and one that was lost is
 * missed by those that come after it. */
static uint64_t push_due(const struct endpoint_sparse *endpoint, const struct kept *kept)
{
	uint64_t rto = rto_ns(&endpoint->rto);

	return rto_least(rto_most(kept->sent_ns, endpoint->heard_ns) + rto,
			 kept->sent_ns + LATE_RTOS * rto);
}

/* What has run out goes again; when the next one will have. */
static uint64_t pushes_again(struct endpoint_sparse *endpoint, uint64_t now_ns)
{
	uint64_t due_ns = UINT64_MAX, first = worker_sparse_first_due(&endpoint->worker);

	for (uint64_t seq = first; seq < endpoint->worker.sent; seq++) {
		struct worker_sparse_event event = { .type = WORKER_SPARSE_RESEND, .seq = seq };
		const struct kept *kept = &endpoint->kept[index_of(endpoint, seq)];

		if (!worker_sparse_is_due(&endpoint->worker, seq))
			continue;
		if (now_ns >= push_due(endpoint, kept)) {
			rto_ran_out(&endpoint->rto, now_ns);
			step(endpoint, &event, now_ns);
		}
		due_ns = rto_least(due_ns, push_due(endpoint, kept));
	}
	return due_ns;
}

/* R-SP-17, R-SP-20: at once if somebody waits or half of the memory is in use, else when the oldest push has been
 * waiting for as long as the patience lasts; then every RTO, later every 250 ms. */
static uint64_t ask_due(const struct endpoint_sparse *endpoint, uint64_t now_ns)
{
	const struct worker_sparse *worker = &endpoint->worker;
	bool is_urgent = worker->low < endpoint->hurry_seq ||
			 (worker->next - worker->low) * 2 >= worker->kept_max;
	uint64_t oldest_ns = endpoint->kept[index_of(endpoint, worker->low)].first_ns;
	uint64_t due_ns = is_urgent ? now_ns : oldest_ns + endpoint->patience_ns;
	uint64_t rto = rto_ns(&endpoint->rto);

	if (!endpoint->asks_many)
		return due_ns;
	if (endpoint->asks_many > ASKS_QUICK)
		rto = rto_most(rto, RTO_BACKOFF_NS);
	return rto_most(due_ns, endpoint->asked_ns + rto);
}

static uint64_t ask(struct endpoint_sparse *endpoint, uint64_t now_ns)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_ASK };

	if (!worker_sparse_wants(&endpoint->worker))
		return UINT64_MAX;
	if (ask_due(endpoint, now_ns) <= now_ns) {
		step(endpoint, &event, now_ns);
		endpoint->asked_ns = now_ns;
		endpoint->asks_many++;
	}
	return ask_due(endpoint, now_ns);
}

/* What of a BCAST has not come in this time does not come. */
static uint64_t copy_wait(struct endpoint_sparse *endpoint, uint64_t now_ns)
{
	struct copy_sparse *copy = &endpoint->copy;

	if (!endpoint->has_copy || copy->fresh == copy->newest) {
		endpoint->copy_ns = 0;
		return UINT64_MAX;
	}
	if (!endpoint->copy_ns || endpoint->copy_fresh != copy->fresh) {
		endpoint->copy_fresh = copy->fresh;
		endpoint->copy_ns = now_ns;
	}
	if (now_ns - endpoint->copy_ns < COPY_PATIENCE_NS)
		return endpoint->copy_ns + COPY_PATIENCE_NS;
	copy_sparse_give_up(copy);
	endpoint->copy_ns = 0;
	return UINT64_MAX;
}

uint64_t endpoint_sparse_turn(struct endpoint_sparse *endpoint)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_SEND };
	uint64_t now_ns = now(endpoint), due_ns;

	if (endpoint->is_broken)
		return UINT64_MAX;
	while (worker_sparse_may_send(&endpoint->worker))
		step(endpoint, &event, now_ns);
	due_ns = rto_least(pushes_again(endpoint, now_ns), copy_wait(endpoint, now_ns));
	return rto_least(due_ns, ask(endpoint, now_ns));
}

/* ---- the copy ---- */

const struct copy_sparse *endpoint_sparse_copy(const struct endpoint_sparse *endpoint)
{
	return endpoint->has_copy ? &endpoint->copy : NULL;
}

void endpoint_sparse_told(struct endpoint_sparse *endpoint, uint64_t generation, uint64_t epoch)
{
	if (endpoint->has_copy)
		copy_sparse_told(&endpoint->copy, generation, epoch);
}

void endpoint_sparse_past(struct endpoint_sparse *endpoint, uint64_t epoch)
{
	if (endpoint->has_copy)
		copy_sparse_past(&endpoint->copy, epoch);
}

void endpoint_sparse_pulled(struct endpoint_sparse *endpoint, uint32_t rank, uint64_t generation,
			    uint64_t epoch, const uint32_t *value)
{
	if (endpoint->has_copy)
		copy_sparse_pulled(&endpoint->copy, rank, generation, epoch, value);
}

/* ---- what others see ---- */

bool endpoint_sparse_is_broken(const struct endpoint_sparse *endpoint)
{
	return endpoint->is_broken;
}

const struct worker_sparse *endpoint_sparse_worker(const struct endpoint_sparse *endpoint)
{
	return &endpoint->worker;
}

const struct endpoint_sparse_stats *endpoint_sparse_stats(const struct endpoint_sparse *endpoint)
{
	return &endpoint->stats;
}
