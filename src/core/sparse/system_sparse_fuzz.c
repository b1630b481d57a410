/* SPDX-License-Identifier: Apache-2.0 */
/*
 * system_sparse_fuzz.c - datagrams that are nearly right to a switch, a worker and a server of sparse mode, each
 * datagram and each memory of just its size. What is refused changes nothing; what is freed, added or applied is
 * so once, and the windows and bounds hold.
 */
#include "core/sparse/copy_sparse.h"
#include "core/sparse/server_sparse.h"
#include "core/sparse/switch_sparse.h"
#include "core/sparse/worker_sparse.h"
#include "tests/fuzz/input.h"

enum { RANKS = 5, WORKERS = 2, KEPT = 4, MAP = 3, INSTANCE = 9, STEPS_MAX = 64, PARTS_MAX = 8 };

static struct {
	struct sparse_table table;
	struct switch_sparse at;
	struct switch_sparse_memory memory;
	struct worker_sparse worker;
	struct worker_sparse_push push[KEPT];
	struct server_sparse server;
	struct server_sparse_memory kept;
	struct copy_sparse copy;
	struct copy_sparse_memory copied;
} test;

static void *block(size_t bytes)
{
	void *at = calloc(1, bytes);

	FUZZ_CHECK(at);
	return at;
}

static void test_open(uint8_t how)
{
	struct sparse_table *table = &test.table;
	uint32_t places;

	memset(&test, 0, sizeof(test));
	*table = (struct sparse_table){ .ranks = RANKS,
					.workers = WORKERS,
					.window = (uint16_t)(1 + (how & 1)),
					.dim = (uint16_t)(1 + (how >> 1 & 1)),
					.bytes = how & 4 ? 200 : 64 };
	places = sparse_places(table);
	FUZZ_CHECK(sparse_table_is_sound(table));
	FUZZ_CHECK(sparse_flush_parts_max(table) <= PARTS_MAX);
	test.at.instance = INSTANCE;
	test.memory.place = block(places * sizeof(*test.memory.place));
	test.memory.tag = block(2 * RANKS * sizeof(uint64_t));
	test.memory.sum = block(2 * RANKS * sizeof(int64_t) * table->dim);
	test.memory.list = block(2 * RANKS * sizeof(uint32_t));
	test.kept.cut = block(places * sizeof(uint64_t));
	test.kept.staged = block(places * sizeof(uint64_t));
	test.kept.sum = block(RANKS * sizeof(int64_t) * table->dim);
	test.kept.tag = block(RANKS * sizeof(uint64_t));
	test.kept.has_part = block(sparse_flush_parts_max(table));
	test.kept.worker = block(WORKERS * sizeof(*test.kept.worker));
	test.copied.tag = block(RANKS * sizeof(*test.copied.tag));
	test.copied.value = block(RANKS * sizeof(uint32_t) * table->dim);
	test.copied.has_part = block(COPY_SPARSE_AHEAD * copy_sparse_parts_max(table));
	copy_sparse_init(&test.copy, table, 1, 1, &test.copied);
	worker_sparse_init(&test.worker, table, 1, 1, MAP, KEPT, test.push);
	server_sparse_init(&test.server, table, MAP, &test.kept);
}

static void test_close(void)
{
	free(test.memory.place);
	free(test.memory.tag);
	free(test.memory.sum);
	free(test.memory.list);
	free(test.kept.cut);
	free(test.kept.staged);
	free(test.kept.sum);
	free(test.kept.tag);
	free(test.kept.has_part);
	free(test.kept.worker);
	free(test.copied.tag);
	free(test.copied.value);
	free(test.copied.has_part);
}

/* ---- the three ---- */

static void switch_takes(struct sparse packet, const uint8_t *at)
{
	struct switch_sparse before = test.at;
	uint64_t seq = packet.number;
	uint8_t kind = packet.kind;
	struct switch_sparse_place *place = NULL;
	uint64_t last = 0;
	enum switch_sparse_verdict verdict;

	if (packet.worker < WORKERS) {
		place = test.memory.place + sparse_place(&test.table, packet.worker, seq);
		last = place->last;
	}
	verdict = switch_sparse_step(&test.table, &test.at, &test.memory, &packet, at);
	if (verdict >= SWITCH_SPARSE_DROP_KIND)
		FUZZ_CHECK(!memcmp(&before, &test.at, sizeof(before)));
	if (kind != SPARSE_PUSH)
		return;
	if (verdict == SWITCH_SPARSE_ADDED)
		FUZZ_CHECK(seq > last && place->last == seq);
	else if (place)
		FUZZ_CHECK(place->last == last);
	if (verdict <= SWITCH_SPARSE_REPEAT)
		FUZZ_CHECK(packet.kind == SPARSE_ACK && packet.number == seq);
}

static void worker_does(enum worker_sparse_event_type type, const struct sparse *packet,
			const uint8_t *at)
{
	struct worker_sparse_event event = { .type = type,
					     .generation = test.server.generation,
					     .map = MAP,
					     .packet = packet,
					     .at = at };
	struct worker_sparse before = test.worker, *worker = &test.worker;
	struct worker_sparse_actions actions;

	worker_sparse_step(worker, &event, &actions);
	FUZZ_CHECK(worker->generation >= before.generation);
	FUZZ_CHECK(worker->low >= before.low && worker->next >= before.next);
	FUZZ_CHECK(worker->low <= worker->sent && worker->sent <= worker->next);
	FUZZ_CHECK(worker->next - worker->low <= KEPT);
	FUZZ_CHECK(actions.resumed == (worker->generation > before.generation));
	if (actions.resumed)
		FUZZ_CHECK(packet->generation == before.named && packet->map == before.named_map);
	if (actions.is_dropped)
		FUZZ_CHECK(!memcmp(&before, worker, sizeof(before)));
	if (actions.resumed)
		copy_sparse_resume(&test.copy, packet->generation, packet->number);
	if (actions.is_protocol_error)
		FUZZ_CHECK(!memcmp(&before, worker, sizeof(before)));
	if (actions.send)
		FUZZ_CHECK(actions.seq >= worker->low && actions.seq < worker->sent);
	if (actions.is_acked)
		FUZZ_CHECK(packet->generation == before.generation &&
			   packet->number < worker->sent);
}

/* R-SP-23: as many ranks have the expected epoch's tag as its FLUSHes that have come say. */
static void touched_is_staged(void)
{
	const struct server_sparse *server = &test.server;
	uint32_t per_part = sparse_ranks_per_part(&test.table), tagged = 0, least = 0, most = 0;

	for (uint32_t rank = 0; rank < RANKS; rank++)
		tagged += test.kept.tag[rank] == server->expected;
	for (uint32_t part = sparse_cut_parts(&test.table); part < server->parts; part++) {
		bool is_last = part + 1 == server->parts;

		least += !test.kept.has_part[part] ? 0 : is_last ? 1 : per_part;
		most += !test.kept.has_part[part] ? 0 : per_part;
	}
	FUZZ_CHECK(tagged >= least && tagged <= most);
}

static void server_does(struct server_sparse_event event)
{
	struct server_sparse before = test.server, *server = &test.server;
	struct server_sparse_actions actions;

	server_sparse_step(server, &event, &actions);
	FUZZ_CHECK(server->recorded == before.recorded + actions.record);
	FUZZ_CHECK(sparse_fences(server->generation) - sparse_fences(before.generation) <= 1);
	FUZZ_CHECK(server->expected ==
		   before.expected + (actions.record && actions.what.kind == SERVER_SPARSE_EPOCH));
	FUZZ_CHECK(!actions.say || server_sparse_is_settled(server));
	FUZZ_CHECK(server->parts <= sparse_flush_parts_max(&test.table));
	FUZZ_CHECK(server->parts ? server->parts_count && server->parts_count < server->parts
				 : !server->parts_count);
	touched_is_staged();
	if (actions.is_dropped)
		FUZZ_CHECK(!memcmp(&before, server, sizeof(before)));
}

static void copy_takes(const struct sparse *packet, const uint8_t *at)
{
	const struct copy_sparse *copy = &test.copy;

	if (packet->kind == SPARSE_COMMITTED)
		copy_sparse_told(&test.copy, packet->generation, packet->number);
	if (packet->kind == SPARSE_BCAST && packet->number == UINT64_MAX)
		copy_sparse_give_up(&test.copy);
	copy_sparse_take(&test.copy, packet, at);
	FUZZ_CHECK(copy->base <= copy->fresh && copy->fresh <= copy->newest);
	FUZZ_CHECK(copy->newest - copy->fresh <= COPY_SPARSE_AHEAD);
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD; i++)
		FUZZ_CHECK(copy->parts[i]
				   ? copy->parts_count[i] && copy->parts_count[i] <= copy->parts[i]
				   : !copy->parts_count[i]);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		FUZZ_CHECK(!copy_sparse_value(copy, rank, UINT64_MAX) ||
			   test.copied.tag[rank].epoch >= copy->base);
}

/* ---- packets ---- */

static uint64_t number_near(struct fuzz_input *input, uint64_t around)
{
	uint8_t how = fuzz_u8(input);

	return how == 0xff ? fuzz_u64(input) : around + how % 4 - 1;
}

/* Of the flush that the server assembles, that the switch sends, or of some number of ranks. */
static uint32_t flush_parts_draw(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input);

	if (how & 1 && test.server.parts)
		return test.server.parts;
	if (how & 2)
		return switch_sparse_parts(&test.table, &test.at);
	return sparse_flush_parts(&test.table, (how >> 2) % (RANKS + 1));
}

/* Its shape is right for its kind, its numbers are nearly those that are waited for; and then maybe not. */
static uint32_t datagram_draw(struct fuzz_input *input, uint8_t **at)
{
	uint8_t how = fuzz_u8(input), wrong = fuzz_u8(input);
	struct sparse packet = { .kind = (uint8_t)(1 + how % (SPARSE_KIND_END - 1)),
				 .worker = how >> 4 & 1,
				 .map = MAP };
	uint32_t bytes, fill;

	packet.generation =
		number_near(input, how & 0x40 ? test.server.generation : test.worker.generation);
	packet.number = number_near(input, packet.kind == SPARSE_PUSH || packet.kind == SPARSE_ACK
						   ? test.worker.sent
						   : test.server.expected);
	if (packet.kind == SPARSE_PUSH || sparse_is_flush(packet.kind) ||
	    packet.kind == SPARSE_BCAST) {
		packet.width = test.table.dim;
		packet.count = how >> 5 & 1;
	} else if (packet.kind == SPARSE_END || packet.kind == SPARSE_CUT ||
		   packet.kind == SPARSE_SETUP || packet.kind == SPARSE_RESUME ||
		   packet.kind == SPARSE_HAVE || (packet.kind == SPARSE_COMMITTED && how & 0x80)) {
		packet.count = 1;
		packet.width = packet.kind == SPARSE_END || packet.kind == SPARSE_HAVE
				       ? 1
				       : test.table.window;
	} else if (packet.kind == SPARSE_COMMITTED) {
		packet.worker = SPARSE_SERVER;
	}
	if (sparse_has_parts(packet.kind)) {
		packet.parts = packet.kind == SPARSE_SETUP ? sparse_cut_parts(&test.table)
							   : flush_parts_draw(input);
		packet.part = fuzz_u8(input) % packet.parts;
		if (packet.kind == SPARSE_BCAST)
			packet.parts = copy_sparse_parts(&test.table, fuzz_u8(input) % (RANKS + 1));
		packet.part %= packet.parts;
		if (sparse_is_flush(packet.kind))
			packet.count =
				(uint16_t)(1 + fuzz_u8(input) % sparse_ranks_per_part(&test.table));
		if (!sparse_is_flush(packet.kind) && packet.kind != SPARSE_BCAST &&
		    packet.kind != SPARSE_HAVE && sparse_rows_per_part(&test.table) > 1)
			packet.count = WORKERS;
		packet.worker = (uint16_t)(packet.part * sparse_rows_per_part(&test.table));
	}
	if (wrong & 1)
		packet.map++;
	if (wrong & 2)
		packet.worker = fuzz_u8(input);
	if (wrong & 4)
		packet.width = fuzz_u8(input) % 4;
	if (wrong & 8)
		packet.count = fuzz_u8(input) % 4;
	bytes = sparse_bytes(&packet);
	*at = block(bytes);
	sparse_put(*at, &packet);
	fill = SPARSE_HEADER_BYTES;
	if (packet.kind == SPARSE_SETUP) {
		sparse_body_put64(*at + fill, INSTANCE + (wrong >> 4 & 1));
		fill += SPARSE_NUMBER_BYTES;
	}
	for (; fill + 4 <= bytes; fill += 4)
		sparse_body_put32(*at + fill, fuzz_u8(input) % 8);
	return bytes;
}

static void packet_step(struct fuzz_input *input)
{
	uint8_t *at;
	uint32_t bytes = datagram_draw(input, &at);
	struct sparse packet;

	if (sparse_check(at, bytes, &packet) == WIRE_OK) {
		switch_takes(packet, at);
		worker_does(WORKER_SPARSE_PACKET, &packet, at);
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_PACKET, .packet = &packet, .at = at });
		copy_takes(&packet, at);
	}
	free(at);
}

static void own_step(uint8_t what)
{
	struct server_sparse *server = &test.server;

	if (what & 1 && worker_sparse_has_room(&test.worker))
		worker_does(WORKER_SPARSE_SUBMIT, NULL, NULL);
	if (what & 2 && worker_sparse_may_send(&test.worker))
		worker_does(WORKER_SPARSE_SEND, NULL, NULL);
	if (what & 4 && switch_sparse_may_flip(&test.at))
		switch_sparse_flip(&test.at);
	if (what & 8)
		server_does((struct server_sparse_event){ .type = SERVER_SPARSE_DURABLE,
							  .number = server->recorded });
	if (what & 16)
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_FENCE_IT, .map = MAP, .random = what & 15 });
	if (what & 16 && what & 1) /* they hear of it, or not */
		worker_does(WORKER_SPARSE_NAME, NULL, NULL);
	if (what & 16 && what & 2)
		switch_sparse_name(&test.at, server->generation);
	if (what & 32 && server->is_fenced)
		server_does((struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE,
							  .number = INSTANCE });
	if (what & 64)
		server_does((struct server_sparse_event){ .type = what & 32 && !server->is_fenced
									  ? SERVER_SPARSE_JOINED
									  : SERVER_SPARSE_COLD,
							  .worker = what & 1,
							  .incarnation = what >> 1 & 1,
							  .number = what >> 2 & 3 });
}

/* The switch's own flush goes to the server as it is. */
static void flush_step(void)
{
	for (uint32_t part = 0;
	     test.at.is_busy && part < switch_sparse_parts(&test.table, &test.at); part++) {
		uint8_t *at = block(test.table.bytes);
		struct sparse packet;
		uint32_t bytes = switch_sparse_part(&test.table, &test.at, &test.memory, part, at);

		FUZZ_CHECK(sparse_check(at, bytes, &packet) == WIRE_OK);
		FUZZ_CHECK(sparse_is_flush_part(&test.table, &packet));
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_PACKET, .packet = &packet, .at = at });
		free(at);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	test_open(fuzz_u8(&input));
	for (uint32_t i = 0; i < STEPS_MAX && input.left; i++) {
		uint8_t what = fuzz_u8(&input);

		if (what < 0x80)
			own_step(what);
		else if (what < 0x90)
			flush_step();
		else
			packet_step(&input);
	}
	test_close();
	return 0;
}
