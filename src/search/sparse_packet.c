/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_packet.c - the packets of sparse.h's model, made of what they are about; see sparse_world.h. */
#include "search/sparse_world.h"

struct sparse_table sparse_table_of(const struct sparse_config *config)
{
	uint32_t bytes =
		sparse_items_at(SPARSE_SETUP) + config->rows * sparse_row_bytes(config->window);
	uint32_t least = SPARSE_HEADER_BYTES + sparse_sum_bytes(SPARSE_DIM);

	return (struct sparse_table){ .ranks = SPARSE_RANKS,
				      .index = SPARSE_INDEX,
				      .workers = (uint16_t)config->workers,
				      .window = (uint16_t)config->window,
				      .dim = SPARSE_DIM,
				      .bytes = (uint16_t)(bytes < least ? least : bytes) };
}

/* ---- what is to be summed, known without any protocol ---- */

static uint32_t value_of(const struct sparse_config *config, uint32_t w, uint32_t seq)
{
	return 1u << 4 * (w * config->pushes + seq - 1);
}

uint32_t sparse_times(const struct sparse_config *config, uint32_t sum, uint32_t w, uint32_t seq)
{
	return sum >> 4 * (w * config->pushes + seq - 1) & 15;
}

bool sparse_cut_covers(const struct sparse_config *config, const uint8_t *cut, uint32_t w,
		       uint32_t seq)
{
	return cut[w * config->window + seq % config->window] >= seq;
}

/* ---- packets ---- */

static struct sparse header_of(enum sparse_kind kind, uint32_t g, uint32_t w, uint32_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = SPARSE_INDEX,
				.worker = (uint16_t)w,
				.generation = g,
				.number = number };
}

static uint32_t packet_put(const struct sparse *packet, uint8_t *at)
{
	sparse_put(at, packet);
	return sparse_bytes(packet);
}

static void rows_put(const struct sparse_config *config, struct sparse *packet, const uint8_t *cut,
		     uint8_t *at)
{
	uint32_t first = packet->worker * config->window;

	packet->width = (uint16_t)config->window;
	at += sparse_items_at(packet->kind);
	for (uint32_t i = 0; i < packet->count * config->window; i++)
		sparse_body_put64(at + i * SPARSE_NUMBER_BYTES, cut[first + i]);
}

uint32_t sparse_push_put(const struct sparse_config *config, uint32_t g, uint32_t w, uint32_t seq,
			 uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_PUSH, g, w, seq);
	uint8_t *pair = at + SPARSE_HEADER_BYTES;

	packet.map = SPARSE_MAP;
	packet.count = SPARSE_RANKS;
	packet.width = SPARSE_DIM;
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++) {
		sparse_body_put32(pair, rank);
		pair += SPARSE_RANK_BYTES;
		for (uint32_t i = 0; i < SPARSE_DIM; i++, pair += SPARSE_VALUE_BYTES)
			sparse_body_put32(pair, value_of(config, w, seq));
	}
	return packet_put(&packet, at);
}

uint32_t sparse_ack_put(uint32_t g, uint32_t w, uint32_t seq, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_ACK, g, w, seq);

	return packet_put(&packet, at);
}

uint32_t sparse_part_put(const struct sparse_config *config, const struct sparse_state *state,
			 uint32_t g, uint32_t epoch, uint32_t part, uint8_t *at)
{
	const struct sparse_world_flush *flush = &state->flush[g][epoch];
	struct sparse_table table = sparse_table_of(config);
	struct sparse packet = header_of(SPARSE_FLUSH, g, 0, epoch);
	uint8_t *item = at + SPARSE_HEADER_BYTES;
	uint32_t first;

	packet.part = part;
	packet.parts = sparse_flush_parts(&table);
	if (part < sparse_cut_parts(&table)) {
		packet.kind = SPARSE_CUT;
		packet.worker = (uint16_t)(part * config->rows);
		packet.count = (uint16_t)sparse_rows_of_part(&table, part);
		rows_put(config, &packet, flush->cut, at);
		return packet_put(&packet, at);
	}
	packet.width = SPARSE_DIM;
	first = sparse_first_rank(&table, part);
	for (uint32_t rank = first;
	     flush->sum && rank < SPARSE_RANKS && rank - first < sparse_ranks_per_part(&table);
	     rank++, packet.count++) {
		sparse_body_put32(item, rank);
		item += SPARSE_RANK_BYTES;
		for (uint32_t i = 0; i < SPARSE_DIM; i++, item += SPARSE_SUM_BYTES)
			sparse_body_put64(item, flush->sum);
	}
	return packet_put(&packet, at);
}

uint32_t sparse_committed_put(const struct sparse_config *config, const struct sparse_state *state,
			      uint32_t g, uint32_t epoch, uint32_t worker, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_COMMITTED, g, worker, epoch);

	if (worker != SPARSE_SERVER) {
		packet.count = 1;
		rows_put(config, &packet, state->committed_cut[g][epoch], at);
	}
	return packet_put(&packet, at);
}

uint32_t sparse_resume_put(const struct sparse_config *config, const struct sparse_state *state,
			   uint32_t g, uint32_t worker, uint8_t *at)
{
	struct sparse packet = header_of(SPARSE_RESUME, g, worker, state->fence_epoch[g]);

	packet.map = SPARSE_MAP;
	packet.count = 1;
	rows_put(config, &packet, state->fence_cut[g], at);
	return packet_put(&packet, at);
}

/* The instance of generation g is number 100 + g. */
uint32_t sparse_setup_put(const struct sparse_config *config, const struct sparse_state *state,
			  uint32_t g, uint32_t part, uint8_t *at)
{
	struct sparse_table table = sparse_table_of(config);
	struct sparse packet =
		header_of(SPARSE_SETUP, g, part * config->rows, state->fence_epoch[g]);

	packet.map = SPARSE_MAP;
	packet.part = part;
	packet.parts = sparse_cut_parts(&table);
	packet.count = (uint16_t)sparse_rows_of_part(&table, part);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, 100 + g);
	rows_put(config, &packet, state->fence_cut[g], at);
	return packet_put(&packet, at);
}
