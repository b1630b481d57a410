/* SPDX-License-Identifier: Apache-2.0 */
/* home_sparse.c - see home_sparse.h. */
#include "dataplane/home_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/shared/rto.h"

/* Something that is said again until it is answered. */
struct told {
	uint64_t said_ns;
	uint32_t many; /* times, in this generation */
	struct rto rto;
};

struct worker {
	struct link_address address;
	struct told resume;
	bool is_bound;
};

struct home_sparse {
	struct outbox *outbox;
	struct sparse_table table;
	struct server_sparse server;
	struct link_address at_switch;
	bool has_switch, is_say_due;
	struct told setup, flip;
	uint64_t flip_epoch; /* that `flip` is of */
	home_sparse_record *record;
	bcast_values *values;
	uint64_t (*random)(void *arg);
	void *arg;
	struct bcast bcast;
	struct home_sparse_stats stats;
	uint8_t *have_due; /* for each piece of R-SP-34: parts of it have come */
	struct worker worker[];
};

/* ---- its life ---- */

/* So few bytes come whole, and from when the kernel has begun they always come. */
static uint64_t kernel_random(void *arg)
{
	uint64_t bits;
	ssize_t got = getrandom(&bits, sizeof(bits), 0);

	(void)arg;
	CORE_ASSERT(got == sizeof(bits));
	return bits;
}

static uint32_t pieces_of(const struct sparse_table *table)
{
	return (sparse_flush_parts_max(table) - 1) / sparse_have_parts(table) + 1;
}

/* What follows from how many ranks there are. */
struct ranked {
	struct server_sparse_memory memory; /* sum, tag, has_part */
	uint8_t *have_due;
	struct bcast bcast;
};

static void ranked_put(struct ranked *ranked)
{
	free(ranked->memory.sum);
	free(ranked->memory.tag);
	free(ranked->memory.has_part);
	free(ranked->have_due);
	bcast_close(&ranked->bcast);
}

/* False: out of memory, and ranked_put is due all the same. */
static bool ranked_get(struct ranked *ranked, const struct sparse_table *table, bool has_bcast)
{
	*ranked = (struct ranked){
		.memory = {
			.sum = calloc((size_t)table->ranks * table->dim, sizeof(int64_t)),
			.tag = calloc(table->ranks, sizeof(uint64_t)),
			.has_part = calloc(sparse_flush_parts_max(table), 1),
		},
		.have_due = calloc(pieces_of(table), 1),
	};
	return ranked->memory.sum && ranked->memory.tag && ranked->memory.has_part &&
	       ranked->have_due && (!has_bcast || bcast_open(&ranked->bcast, table));
}

static bool memory_get(struct home_sparse *home, struct server_sparse_memory *memory)
{
	const struct sparse_table *table = &home->table;
	struct ranked ranked;
	bool is_there = ranked_get(&ranked, table, home->values);

	*memory = ranked.memory;
	memory->cut = calloc(sparse_places(table), sizeof(uint64_t));
	memory->staged = calloc(sparse_places(table), sizeof(uint64_t));
	memory->worker = calloc(table->workers, sizeof(struct server_sparse_worker));
	home->server.memory = *memory;
	home->have_due = ranked.have_due;
	home->bcast = ranked.bcast;
	return is_there && memory->cut && memory->staged && memory->worker;
}

int home_sparse_open(struct home_sparse **out, const struct home_sparse_options *options)
{
	const struct sparse_table *table = &options->table;
	struct server_sparse_memory memory;
	struct home_sparse *home;

	if (!sparse_table_is_sound(table))
		return -EINVAL;
	home = calloc(1, sizeof(*home) + table->workers * sizeof(struct worker));
	if (!home)
		return -ENOMEM;
	home->outbox = options->outbox;
	home->table = *table;
	home->record = options->record;
	home->values = options->values;
	home->random = options->random ? options->random : kernel_random;
	home->arg = options->arg;
	if (!memory_get(home, &memory)) {
		home_sparse_close(home);
		return -ENOMEM;
	}
	server_sparse_init(&home->server, &home->table, options->map, &memory);
	*out = home;
	return 0;
}

void home_sparse_close(struct home_sparse *home)
{
	struct ranked ranked;

	if (!home)
		return;
	ranked = (struct ranked){ home->server.memory, home->have_due, home->bcast };
	ranked_put(&ranked);
	free(home->server.memory.cut);
	free(home->server.memory.staged);
	free(home->server.memory.worker);
	free(home);
}

void home_sparse_replay(struct home_sparse *home, const struct server_sparse_record *record,
			const uint64_t *cut)
{
	server_sparse_replay(&home->server, record, cut);
}

/* ---- steps ---- */

/* A new generation: nothing of it has been said yet. */
static void generation_begin(struct home_sparse *home)
{
	home->setup = (struct told){ 0 };
	home->flip_epoch = 0;
	home->has_switch = false;
	home->is_say_due = false;
	bcast_drop(&home->bcast);
	memset(home->have_due, 0, pieces_of(&home->table));
	for (uint32_t i = 0; i < home->table.workers; i++)
		home->worker[i].resume = (struct told){ 0 };
}

static bool begins_maybe(enum server_sparse_event_type type)
{
	return type == SERVER_SPARSE_FENCE_IT || type == SERVER_SPARSE_GATHER ||
	       type == SERVER_SPARSE_JOINED || type == SERVER_SPARSE_REPORTED;
}

static struct server_sparse_actions step(struct home_sparse *home,
					 struct server_sparse_event *event)
{
	uint64_t generation = home->server.generation;
	struct server_sparse_actions actions;

	if (begins_maybe(event->type))
		event->random = home->random(home->arg);
	server_sparse_step(&home->server, event, &actions);
	if (home->server.generation != generation)
		generation_begin(home);
	if (actions.record)
		home->record(home->arg, &actions.what);
	if (actions.record && actions.what.kind == SERVER_SPARSE_EPOCH) {
		home->stats.epochs++;
		memset(home->have_due, 0, pieces_of(&home->table)); /* COMMITTED says it */
		if (home->values)
			bcast_make(&home->bcast, &home->server, home->values, home->arg);
	}
	if (actions.say)
		home->is_say_due = true;
	return actions;
}

bool home_sparse_fence(struct home_sparse *home, uint32_t map)
{
	return !step(home,
		     &(struct server_sparse_event){ .type = SERVER_SPARSE_FENCE_IT, .map = map })
			.refuse;
}

void home_sparse_drain(struct home_sparse *home)
{
	step(home, &(struct server_sparse_event){ .type = SERVER_SPARSE_DRAIN_IT });
}

int home_sparse_remap(struct home_sparse *home, uint32_t map, uint32_t ranks)
{
	struct sparse_table table = home->table;
	struct ranked next, old = { home->server.memory, home->have_due, home->bcast };

	table.ranks = ranks;
	if (!ranked_get(&next, &table, home->values)) {
		ranked_put(&next);
		return -ENOMEM;
	}
	if (!home_sparse_fence(home, map)) {
		ranked_put(&next);
		return -EOVERFLOW;
	}
	home->table.ranks = ranks;
	server_sparse_lend(&home->server, &next.memory);
	home->have_due = next.have_due;
	home->bcast = next.bcast;
	ranked_put(&old);
	return 0;
}

bool home_sparse_gather(struct home_sparse *home, uint32_t map)
{
	return !step(home,
		     &(struct server_sparse_event){ .type = SERVER_SPARSE_GATHER, .map = map })
			.refuse;
}

void home_sparse_missed(struct home_sparse *home, uint16_t worker)
{
	step(home, &(struct server_sparse_event){ .type = SERVER_SPARSE_MISSED, .worker = worker });
}

bool home_sparse_report(struct home_sparse *home, uint16_t worker, uint64_t incarnation,
			uint64_t number, const uint64_t *row)
{
	return !step(home, &(struct server_sparse_event){ .type = SERVER_SPARSE_REPORTED,
							  .worker = worker,
							  .incarnation = incarnation,
							  .number = number,
							  .row = row })
			.refuse;
}

void home_sparse_instance(struct home_sparse *home, uint64_t instance, uint16_t index,
			  const struct link_address *at_switch)
{
	if (instance)
		step(home, &(struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE,
							  .number = instance });
	home->table.index = index;
	home->at_switch = *at_switch;
	home->has_switch = true;
}

void home_sparse_worker(struct home_sparse *home, uint16_t worker,
			const struct link_address *at_worker)
{
	CORE_ASSERT(worker < home->table.workers);
	home->worker[worker].address = *at_worker;
	home->worker[worker].is_bound = true;
}

bool home_sparse_join(struct home_sparse *home, uint16_t worker, uint64_t incarnation)
{
	return !step(home, &(struct server_sparse_event){ .type = SERVER_SPARSE_JOINED,
							  .worker = worker,
							  .incarnation = incarnation })
			.refuse;
}

uint64_t home_sparse_cold(struct home_sparse *home, uint16_t worker, uint64_t incarnation,
			  uint64_t number)
{
	struct server_sparse_event event = { .type = SERVER_SPARSE_COLD,
					     .worker = worker,
					     .incarnation = incarnation,
					     .number = number };

	return step(home, &event).refuse ? 0 : home->server.recorded;
}

void home_sparse_durable(struct home_sparse *home, uint64_t number)
{
	step(home,
	     &(struct server_sparse_event){ .type = SERVER_SPARSE_DURABLE, .number = number });
}

/* ---- packets ---- */

/* The switch's from the switch, a worker's from that worker. */
static bool is_from(const struct home_sparse *home, const struct sparse *packet,
		    const struct link_address *peer)
{
	if (packet->kind != SPARSE_RESUMED && packet->kind != SPARSE_END)
		return home->has_switch && link_address_equal(&home->at_switch, peer);
	return packet->worker < home->table.workers && home->worker[packet->worker].is_bound &&
	       link_address_equal(&home->worker[packet->worker].address, peer);
}

void home_sparse_serve(struct home_sparse *home, const struct link_address *peer, const uint8_t *at,
		       uint32_t bytes)
{
	struct sparse packet;
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	bool is_part;

	if (sparse_check(at, bytes, &packet) != WIRE_OK) {
		home->stats.dropped++;
		return;
	}
	if (!is_from(home, &packet, peer)) {
		home->stats.strangers++;
		return;
	}
	is_part = packet.kind == SPARSE_CUT || sparse_is_flush(packet.kind);
	home->stats.generation += packet.generation != home->server.generation;
	if (step(home, &event).is_dropped)
		home->stats.dropped++;
	else if (is_part && packet.number == home->server.expected)
		home->have_due[packet.part / sparse_have_parts(&home->table)] = 1;
	home->stats.parts += is_part;
}

/* ---- what goes out ---- */

static void commits_say(struct home_sparse *home)
{
	uint8_t at[SPARSE_BYTES_MAX];
	uint32_t bytes;

	if (!home->is_say_due || !server_sparse_is_settled(&home->server))
		return;
	home->is_say_due = false;
	home->stats.commits++;
	bytes = server_sparse_committed(&home->server, SPARSE_SERVER, at);
	if (home->has_switch)
		memcpy(outbox_put(home->outbox, &home->at_switch, bytes), at, bytes);
	for (uint16_t i = 0; i < home->table.workers; i++) {
		if (!home->worker[i].is_bound)
			continue;
		bytes = server_sparse_committed(&home->server, i, at);
		memcpy(outbox_put(home->outbox, &home->worker[i].address, bytes), at, bytes);
	}
}

/* R-SP-14, R-SP-31 */
static void bcasts_say(struct home_sparse *home, uint64_t now_ns, uint64_t *due_ns)
{
	const uint8_t *part;
	uint64_t due;
	uint32_t bytes;

	if (!home->has_switch)
		return;
	while ((part = bcast_next(&home->bcast, &home->server, now_ns, &bytes, &due))) {
		memcpy(outbox_put(home->outbox, &home->at_switch, bytes), part, bytes);
		home->stats.bcasts++;
	}
	*due_ns = rto_least(*due_ns, due);
}

static void haves_say(struct home_sparse *home)
{
	uint8_t at[SPARSE_BYTES_MAX];

	for (uint32_t i = 0; i < pieces_of(&home->table); i++) {
		uint32_t bytes;

		if (!home->have_due[i])
			continue;
		home->have_due[i] = 0;
		home->stats.haves++;
		bytes = server_sparse_have(&home->server, i * sparse_have_parts(&home->table), at);
		memcpy(outbox_put(home->outbox, &home->at_switch, bytes), at, bytes);
	}
}

/* Is it to be said now? Nothing is known of the way there and back: the RTO is the first one, and doubles. */
static bool is_due(struct told *told, uint64_t now_ns, uint64_t *due_ns)
{
	bool is_now = !told->many || now_ns - told->said_ns >= rto_ns(&told->rto);

	if (is_now) {
		if (told->many++)
			rto_ran_out(&told->rto, now_ns);
		told->said_ns = now_ns;
	}
	*due_ns = rto_least(*due_ns, told->said_ns + rto_ns(&told->rto));
	return is_now;
}

static void setup_say(struct home_sparse *home, uint64_t now_ns, uint64_t *due_ns)
{
	uint8_t at[SPARSE_BYTES_MAX];

	if (!home->has_switch || !server_sparse_may_setup(&home->server) ||
	    !is_due(&home->setup, now_ns, due_ns))
		return;
	home->stats.setups++;
	for (uint32_t part = 0; part < sparse_cut_parts(&home->table); part++) {
		uint32_t bytes = server_sparse_setup(&home->server, part, at);

		memcpy(outbox_put(home->outbox, &home->at_switch, bytes), at, bytes);
	}
}

static void resumes_say(struct home_sparse *home, uint64_t now_ns, uint64_t *due_ns)
{
	uint8_t at[SPARSE_BYTES_MAX];

	for (uint16_t i = 0; i < home->table.workers && home->has_switch; i++) {
		struct worker *worker = &home->worker[i];
		uint32_t bytes;

		if (!worker->is_bound || !server_sparse_may_resume(&home->server, i) ||
		    !is_due(&worker->resume, now_ns, due_ns))
			continue;
		home->stats.resumes++;
		bytes = server_sparse_resume(&home->server, i, at);
		memcpy(outbox_put(home->outbox, &worker->address, bytes), at, bytes);
	}
}

/* R-SP-30, R-SP-35 */
static void flip_say(struct home_sparse *home, uint64_t now_ns, uint64_t *due_ns)
{
	if (!home->has_switch || !server_sparse_may_flip(&home->server))
		return;
	if (home->flip_epoch != home->server.expected)
		home->flip = (struct told){ 0 };
	home->flip_epoch = home->server.expected;
	if (!is_due(&home->flip, now_ns, due_ns))
		return;
	home->stats.flips++;
	server_sparse_flip(&home->server,
			   outbox_put(home->outbox, &home->at_switch, SPARSE_HEADER_BYTES));
}

uint64_t home_sparse_turn(struct home_sparse *home)
{
	uint64_t now_ns = home->outbox->link->ops->now_ns(home->outbox->link);
	uint64_t due_ns = UINT64_MAX;

	bcasts_say(home, now_ns,
		   &due_ns); /* before COMMITTED: a copy that hears that first is stale */
	commits_say(home);
	haves_say(home);
	flip_say(home, now_ns, &due_ns);
	setup_say(home, now_ns, &due_ns);
	resumes_say(home, now_ns, &due_ns);
	return due_ns;
}

/* ---- what others see ---- */

bool home_sparse_is_touched(const struct home_sparse *home, uint32_t rank)
{
	return server_sparse_is_touched(&home->server, rank);
}

const int64_t *home_sparse_sum(const struct home_sparse *home, uint32_t rank)
{
	return home->server.memory.sum + (size_t)rank * home->table.dim;
}

const uint64_t *home_sparse_cut(const struct home_sparse *home)
{
	return home->server.memory.cut;
}

const struct server_sparse *home_sparse_server(const struct home_sparse *home)
{
	return &home->server;
}

const struct home_sparse_stats *home_sparse_stats(const struct home_sparse *home)
{
	return &home->stats;
}
