/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_packet.c - the packets of sparse.h's model, made of what they are about; see sparse_world.h. */
#include "search/sparse_world.h"

const struct sparse_config *sparse;

struct sparse_table sparse_table_of(void)
{
	uint32_t bytes =
		sparse_items_at(SPARSE_SETUP) + sparse->rows * sparse_row_bytes(sparse->window);
	uint32_t least = SPARSE_HEADER_BYTES + sparse_sum_bytes(SPARSE_DIM);

	return (struct sparse_table){ .ranks = SPARSE_RANKS,
				      .index = SPARSE_INDEX,
				      .workers = (uint16_t)sparse->workers,
				      .window = (uint16_t)sparse->window,
				      .dim = SPARSE_DIM,
				      .bytes = (uint16_t)(bytes < least ? least : bytes),
				      .is_stepped = sparse->step != 0 };
}

/* ---- what is to be summed, known without any protocol ---- */

static uint32_t digit_of(uint32_t w, uint32_t life, uint32_t seq)
{
	return (w * sparse->lives + life) * sparse->pushes + seq - 1;
}

uint32_t sparse_value(uint32_t w, uint32_t life, uint32_t seq)
{
	return 1u << 2 * digit_of(w, life, seq);
}

uint32_t sparse_times(uint32_t sum, uint32_t w, uint32_t life, uint32_t seq)
{
	return sum >> 2 * digit_of(w, life, seq) & 3;
}

bool sparse_is_any_twice(uint32_t sum)
{
	return sum & 0xaaaaaaaa;
}

bool sparse_cut_covers(const uint8_t *cut, uint32_t w, uint32_t seq)
{
	return cut[w * sparse->window + seq % sparse->window] >= seq;
}

uint32_t sparse_map_of(uint32_t g)
{
	return sparse->is_remapped && g > 1 ? SPARSE_MAP + 1 : SPARSE_MAP;
}

uint32_t sparse_life_of(const struct sparse_world_durable *durable, uint32_t w)
{
	return durable->incarnation[w] ? durable->incarnation[w] - 1 : 0;
}

uint64_t sparse_generation(uint32_t g)
{
	return g ? (uint64_t)g << SPARSE_RANDOM_BITS | 0x5eed000000 | g * 0x10001u : 0;
}

/* ---- packets ---- */

static struct sparse header_of(enum sparse_kind kind, uint32_t g, uint32_t w, uint32_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = SPARSE_INDEX,
				.worker = (uint16_t)w,
				.generation = sparse_generation(g),
				.number = number };
}

static uint32_t packet_put(const struct sparse *packet, uint8_t *at)
{
	sparse_put(at, packet);
	return sparse_bytes(packet);
}

static void rows_put(struct sparse *packet, const uint8_t *cut, uint8_t *at)
{
	uint32_t first = packet->worker * sparse->window;

	packet->width = (uint16_t)sparse->window;
	at += sparse_items_at(packet->kind);
	for (uint32_t i = 0; i < packet->count * sparse->window; i++)
		sparse_body_put64(at + i * SPARSE_NUMBER_BYTES, cut[first + i]);
}

/* Under the second map rank 1 is no push's business. */
uint32_t sparse_push_put(uint32_t g, uint32_t w, uint32_t id, uint8_t *at)
{
	uint32_t life = id / sparse->pushes, seq = id % sparse->pushes + 1;
	struct sparse packet = header_of(SPARSE_PUSH, g, w, seq);
	uint8_t *pair = at + SPARSE_HEADER_BYTES;

	packet.map = sparse_map_of(g);
	packet.count = packet.map == SPARSE_MAP ? SPARSE_RANKS : 1;
	packet.width = SPARSE_DIM;
	for (uint32_t k = 0; k < packet.count; k++) {
		sparse_body_put32(pair, digit_of(0, life, seq) & 1 ? packet.count - 1 - k : k);
		pair += SPARSE_RANK_BYTES;
		for (uint32_t i = 0; i < SPARSE_DIM; i++, pair += SPARSE_VALUE_BYTES)
			sparse_body_put32(pair, sparse_value(w, life, seq));
	}
	return packet_put(&packet, at);
}

uint32_t sparse_ack_put(uint32_t g, uint32_t w, uint32_t seq, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_ACK, g, w, seq);

	return packet_put(&packet, at);
}

uint32_t sparse_end_put(uint32_t g, uint32_t w, uint32_t step, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_END, g, w, step);

	packet.count = packet.width = 1;
	sparse_body_put64(at + SPARSE_HEADER_BYTES, step * sparse->step);
	return packet_put(&packet, at);
}

uint32_t sparse_flip_put(uint32_t g, uint32_t epoch, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_FLIP, g, SPARSE_SERVER, epoch);

	return packet_put(&packet, at);
}

uint32_t sparse_parts_of(const struct sparse_state *state, uint32_t g, uint32_t epoch)
{
	struct sparse_table table = sparse_table_of();

	return sparse_flush_parts(&table, state->flush[g][epoch].touched);
}

uint32_t sparse_part_put(const struct sparse_state *state, uint32_t g, uint32_t epoch,
			 uint32_t part, uint8_t *at)
{
	const struct sparse_world_flush *flush = &state->flush[g][epoch];
	struct sparse_table table = sparse_table_of();
	struct sparse packet = header_of(SPARSE_FLUSH, g, 0, epoch);
	uint8_t *item = at + SPARSE_HEADER_BYTES;
	uint32_t first, most = 0;

	packet.part = part;
	packet.parts = sparse_parts_of(state, g, epoch);
	if (part < sparse_cut_parts(&table)) {
		packet.kind = SPARSE_CUT;
		packet.worker = (uint16_t)(part * sparse->rows);
		packet.count = (uint16_t)sparse_rows_of_part(&table, part);
		rows_put(&packet, flush->cut, at);
		return packet_put(&packet, at);
	}
	packet.width = SPARSE_DIM;
	first = sparse_first_touched(&table, part);
	for (uint32_t k = first; k < flush->touched && k - first < sparse_ranks_per_part(&table);
	     k++) {
		packet.count++;
		if (flush->sum[flush->list[k]] > most)
			most = flush->sum[flush->list[k]];
	}
	if (most <= INT32_MAX)
		packet.kind = SPARSE_FLUSH_SHORT;
	for (uint32_t k = first; k < first + packet.count; k++) {
		uint32_t sum = flush->sum[flush->list[k]];

		sparse_body_put32(item, flush->list[k]);
		item += SPARSE_RANK_BYTES;
		for (uint32_t i = 0; i < SPARSE_DIM; i++) {
			if (packet.kind == SPARSE_FLUSH_SHORT)
				sparse_body_put32(item, sum);
			else
				sparse_body_put64(item, sum);
			item += packet.kind == SPARSE_FLUSH_SHORT ? SPARSE_VALUE_BYTES
								  : SPARSE_SUM_BYTES;
		}
	}
	return packet_put(&packet, at);
}

uint32_t sparse_committed_put(const struct sparse_state *state, uint32_t g, uint32_t epoch,
			      uint32_t worker, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_COMMITTED, g, worker, epoch);

	if (worker != SPARSE_SERVER) {
		packet.count = 1;
		rows_put(&packet, state->committed_cut[g][epoch], at);
	}
	return packet_put(&packet, at);
}

uint32_t sparse_resume_put(const struct sparse_state *state, uint32_t g, uint32_t worker,
			   uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_RESUME, g, worker, state->fence_epoch[g]);

	packet.map = sparse_map_of(g);
	packet.count = 1;
	rows_put(&packet, state->fence_cut[g], at);
	return packet_put(&packet, at);
}

/* The instance of generation g is number 100 + g. */
uint32_t sparse_setup_put(const struct sparse_state *state, uint32_t g, uint32_t part, uint8_t *at)
{
	struct sparse_table table = sparse_table_of();
	struct sparse packet =
		header_of(SPARSE_SETUP, g, part * sparse->rows, state->fence_epoch[g]);

	packet.map = sparse_map_of(g);
	packet.part = part;
	packet.parts = sparse_cut_parts(&table);
	packet.count = (uint16_t)sparse_rows_of_part(&table, part);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, 100 + g);
	rows_put(&packet, state->fence_cut[g], at);
	return packet_put(&packet, at);
}
