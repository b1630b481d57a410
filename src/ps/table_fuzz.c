/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_fuzz.c - any bytes as a table's checkpoint or log: as they are, and, if the first byte is odd, cut into
 * records with checksums that fit. Whatever is taken, the table stays within its bounds and goes on: it can fence,
 * take a batch, and say its state.
 */
#include "ps/table.h"
#include "tests/fuzz/input.h"

enum { DIM = 2, ROWS_BYTES = 1 << 18 };

static void on_change(void *arg)
{
	(void)arg;
}

/* Records of a type and up to 255 bytes of body each, or a step whose counts fit. */
static void records_make(struct fuzz_input *input, struct ps_table *table, struct bytes *file)
{
	ps_table_words(table, file);
	while (input->left && file->count < ROWS_BYTES) {
		uint8_t type = fuzz_u8(input), count = fuzz_u8(input);
		struct server_sparse_record what = { .map = 1 };
		struct bytes body = { 0 };
		uint64_t cut[4];

		if (type < 128) {
			what.kind = (enum server_sparse_record_kind)(type % 4 + 1);
			what.generation = fuzz_u8(input) % 4;
			what.worker = fuzz_u8(input) % 3;
			what.incarnation = what.epoch = fuzz_u8(input) % 4;
			what.batch = fuzz_u8(input) % 4;
			for (uint32_t i = 0; i < 4; i++)
				cut[i] = fuzz_u8(input);
			count %= 4;
			record_step_put(&body, &what, &table->shape, cut, count);
			count = (uint8_t)(count *
					  (8 + (what.kind == SERVER_SPARSE_EPOCH ? 8 : 4) * DIM));
		}
		for (uint32_t i = 0; i < count; i++)
			bytes_put(&body, &(uint8_t){ fuzz_u8(input) }, 1);
		record_frame(file, what.kind ? (uint32_t)what.kind : RECORD_TABLE + type % 11u,
			     body.at, (uint32_t)body.count);
		bytes_fini(&body);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ps_table_options options = { .name = "F",
					    .dim = DIM,
					    .workers = 2,
					    .window = 2,
					    .bytes = 256,
					    .optimiser = optimiser_default(OPTIMISER_SUM),
					    .unit = 1,
					    .memory_max = ROWS_BYTES,
					    .durability = PS_NONE,
					    .changed = on_change };
	struct fuzz_input input = { data, bytes };
	uint8_t choice = fuzz_u8(&input);
	char error[PS_ERROR_MAX] = "";
	struct outbox outbox = { 0 };
	struct bytes file = { 0 };
	struct ps_table *table;
	const char *why;
	size_t whole = 0;

	FUZZ_CHECK(!ps_table_open(&table, &options, &outbox, error));
	table->is_in_checkpoint = choice & 2;
	if (choice & 1)
		records_make(&input, table, &file);
	else
		bytes_put(&file, input.at, input.left);
	if (record_scan("F", file.at, file.count, ps_table_take, table, &whole, &why, error)) {
		FUZZ_CHECK(!strncmp(error, "F: at byte ", 11));
	} else {
		FUZZ_CHECK(whole <= file.count);
		FUZZ_CHECK((whole == file.count) == !why);
	}
	FUZZ_CHECK(store_bytes(table->store) <= ROWS_BYTES);
	home_sparse_fence(table->home, 1);
	FUZZ_CHECK(home_sparse_join(table->home, 1, UINT64_MAX) ||
		   !sparse_fences_left(home_sparse_server(table->home)->generation) ||
		   home_sparse_server(table->home)->memory.worker[1].incarnation == UINT64_MAX);
	ps_table_settle(table);
	ps_table_close(table);
	bytes_fini(&file);
	return 0;
}
