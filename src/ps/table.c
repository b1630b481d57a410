/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. What is live; table_open.c begins and ends it, recover.c reads files, checkpoint.c writes them. */
#include "ps/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/sparse/lns.h"

/* ---- steps ---- */

static float gradient_of(const struct ps_table *table, int64_t sum)
{
	uint32_t bits;
	float gradient;

	if (!table->lns)
		return (float)((double)sum * (double)table->options.unit);
	bits = lns_float(table->lns, (uint32_t)sum);
	memcpy(&gradient, &bits, sizeof(gradient));
	return gradient;
}

static void row_step(struct ps_table *table, uint64_t key, float *row, const float *gradient)
{
	if (optimiser_step(&table->options.optimiser, table->shape.dim, row, row + table->shape.dim,
			   gradient))
		return;
	if (!table->held++)
		table->held_key = key;
}

void ps_table_apply_sums(struct ps_table *table, uint64_t key, float *row, const int64_t *sums)
{
	uint32_t dim = table->shape.dim;

	if (table->stage) {
		stage_add_sums(table->stage, key, sums);
		return;
	}
	for (uint32_t i = 0; i < dim; i++)
		table->gradient[i] = gradient_of(table, sums[i]);
	row_step(table, key, row, table->gradient);
}

void ps_table_apply_floats(struct ps_table *table, uint64_t key, const float *values)
{
	float *row = store_get(table->store, key);

	if (table->stage)
		stage_add_floats(table->stage, key, values);
	else
		row_step(table, key, row, values);
}

/* R-KV-16: whoever has pushed how much of a key, in which order: it is one step. */
void ps_table_step(struct ps_table *table)
{
	if (!table->stage)
		return;
	for (uint64_t i = 0; i < stage_count(table->stage); i++) {
		uint64_t key = stage_gradient(table->stage, i, table->gradient);

		row_step(table, key, store_get(table->store, key), table->gradient);
	}
	stage_clear(table->stage);
}

/* ---- which server of the table it is ---- */

static void share_body(const struct server_kv_share *share, uint8_t body[RECORD_SHARE_BYTES])
{
	sparse_body_put32(body, share->index | (uint32_t)share->count << 16);
	sparse_body_put32(body + 4, share->is_used | (uint32_t)share->is_known << 1);
	memcpy(body + 8, share->identity, KV_IDENTITY_BYTES);
	memcpy(body + 8 + KV_IDENTITY_BYTES, share->own, KV_IDENTITY_BYTES);
	memcpy(body + 8 + 2 * KV_IDENTITY_BYTES, share->list, KV_IDENTITY_BYTES);
}

void ps_table_share_put(const struct ps_table *table, struct bytes *out)
{
	uint8_t body[RECORD_SHARE_BYTES];

	if (!table->share.count)
		return;
	share_body(&table->share, body);
	record_frame(out, RECORD_SHARE, body, sizeof(body));
}

/* mark: the last record's before it. */
static void share_record(const struct ps_table *table, uint64_t mark)
{
	uint8_t body[RECORD_SHARE_BYTES];

	if (!table->share.count || !table->log)
		return;
	share_body(&table->share, body);
	log_append(table->log, mark, RECORD_SHARE, body, sizeof(body));
}

void ps_table_share(struct ps_table *table, const struct server_kv_share *share)
{
	table->share = *share;
	share_record(table, home_sparse_server(table->home)->recorded);
}

static void use(struct ps_table *table, uint64_t mark)
{
	if (table->share.is_used || !table->share.count)
		return;
	table->share.is_used = true;
	share_record(table, mark);
}

void ps_table_use(struct ps_table *table)
{
	use(table, home_sparse_server(table->home)->recorded);
}

bool ps_table_is_joined(const struct ps_table *table)
{
	return table->kv.moves;
}

void ps_table_made(const struct ps_table *table, char text[KV_TEXT_BYTES])
{
	snprintf(text, KV_TEXT_BYTES, "%.480s%s", table->text,
		 table->options.durability == PS_NONE ? " durability none" : "");
}

/* ---- records ---- */

static void epoch_record(struct ps_table *table, const struct server_sparse_record *what)
{
	uint32_t count = 0, ranks = table->map.keys;

	for (uint32_t rank = 0; rank < ranks; rank++)
		count += home_sparse_is_touched(table->home, rank);
	record_step_put(&table->body, what, &table->shape, home_sparse_cut(table->home), count);
	for (uint32_t rank = 0; rank < ranks; rank++)
		if (home_sparse_is_touched(table->home, rank))
			bytes_put64(&table->body, table->map.key[rank]);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		const int64_t *sums = home_sparse_sum(table->home, rank);

		if (!home_sparse_is_touched(table->home, rank))
			continue;
		for (uint32_t i = 0; i < table->shape.dim; i++)
			bytes_put64(&table->body, (uint64_t)sums[i]);
		ps_table_apply_sums(table, table->map.key[rank], table->hot[rank], sums);
	}
}

static void batch_record(struct ps_table *table, const struct server_sparse_record *what)
{
	uint32_t dim = table->shape.dim;

	record_step_put(&table->body, what, &table->shape, NULL, table->batch_count);
	for (uint32_t i = 0; i < table->batch_count; i++)
		bytes_put64(&table->body, table->batch_keys[i]);
	for (uint32_t i = 0; i < table->batch_count * dim; i++) {
		uint32_t bits;

		memcpy(&bits, &table->batch_values[i], sizeof(bits));
		bytes_put32(&table->body, bits);
	}
	for (uint32_t i = 0; i < table->batch_count; i++)
		ps_table_apply_floats(table, table->batch_keys[i],
				      table->batch_values + (size_t)i * dim);
}

/* R-SP-33 */
static bool is_logged(const struct ps_table *table, enum server_sparse_record_kind kind)
{
	return table->options.durability == PS_LOG || kind == SERVER_SPARSE_FENCE ||
	       kind == SERVER_SPARSE_JOIN;
}

void ps_table_on_record(void *arg, const struct server_sparse_record *what)
{
	struct ps_table *table = arg;

	table->body.count = 0;
	if (what->kind == SERVER_SPARSE_EPOCH)
		use(table, what->number - 1);
	if (what->kind == SERVER_SPARSE_JOIN)
		server_kv_replay(&table->kv, SERVER_KV_JOINED, what->worker);
	if (what->kind == SERVER_SPARSE_EPOCH)
		epoch_record(table, what);
	else if (what->kind == SERVER_SPARSE_BATCH)
		batch_record(table, what);
	else
		record_step_put(&table->body, what, &table->shape, NULL, 0);
	if (table->body.is_short) {
		fputs("tally-ps: out of memory for a record: what was applied cannot be kept\n",
		      stderr);
		_exit(1);
	}
	if (table->log && is_logged(table, what->kind))
		log_append(table->log, what->number, what->kind, table->body.at,
			   (uint32_t)table->body.count);
}

void ps_table_on_values(void *arg, uint32_t rank, uint32_t *value)
{
	const struct ps_table *table = arg;

	memcpy(value, table->hot[rank], table->shape.dim * sizeof(float));
}

enum ps_batch ps_table_batch(struct ps_table *table, uint16_t worker, uint64_t incarnation,
			     uint64_t number, const uint64_t *keys, const float *values,
			     uint32_t count)
{
	uint64_t fresh = 0, record;
	int error;

	for (uint32_t i = 0; i < count; i++)
		fresh += !store_find(table->store, keys[i]);
	error = store_reserve(table->store, fresh);
	if (error)
		return error == -ENOSPC ? PS_BATCH_FULL : PS_BATCH_NO_MEMORY;
	/* An epoch cannot be refused: there is always room for one. */
	if (table->stage && stage_reserve(table->stage, (uint64_t)count + table->map.keys))
		return PS_BATCH_NO_MEMORY;
	table->batch_keys = keys;
	table->batch_values = values;
	table->batch_count = count;
	record = home_sparse_cold(table->home, worker, incarnation, number);
	table->batch_keys = NULL;
	table->batch_values = NULL;
	table->batch_count = 0;
	return record ? PS_BATCH_TAKEN : PS_BATCH_REFUSED;
}

static void number_record(struct ps_table *table, uint32_t type, uint64_t number)
{
	uint8_t body[8];

	sparse_body_put64(body, number);
	if (table->log)
		log_append(table->log, home_sparse_server(table->home)->recorded, type, body,
			   sizeof(body));
}

void ps_table_barrier(struct ps_table *table, uint64_t barrier)
{
	table->kv.barrier = barrier;
	ps_table_step(table);
	number_record(table, RECORD_BARRIER, barrier);
}

void ps_table_void(struct ps_table *table)
{
	if (table->stage)
		stage_clear(table->stage);
	number_record(table, RECORD_VOID, table->kv.barrier);
}

void ps_table_disown(struct ps_table *table)
{
	for (uint16_t i = 0; i < table->shape.workers; i++) {
		uint64_t incarnation =
			home_sparse_server(table->home)->memory.worker[i].incarnation;

		if (incarnation && incarnation < UINT64_MAX)
			home_sparse_join(table->home, i, incarnation + 1);
	}
	server_kv_replay(&table->kv, SERVER_KV_VOIDED, 0);
	ps_table_void(table);
}

void ps_table_leave(struct ps_table *table, uint16_t worker)
{
	number_record(table, RECORD_LEFT, worker);
}

/* ---- what is durable ---- */

/* R-SP-33: what is not logged is durable when all is that is, and came before it. */
static uint64_t durable(const struct ps_table *table)
{
	uint64_t recorded = home_sparse_server(table->home)->recorded;
	struct log_state state;

	if (!table->log)
		return recorded;
	state = log_state(table->log);
	if (table->options.durability == PS_CHECKPOINT && !state.trouble &&
	    state.position == state.appended)
		return recorded;
	return state.mark;
}

void ps_table_settle(struct ps_table *table)
{
	const struct server_sparse *server = home_sparse_server(table->home);
	uint64_t mark = durable(table);

	if (mark > server->durable)
		home_sparse_durable(table->home, mark);
}

uint64_t ps_table_position(const struct ps_table *table)
{
	return table->log ? log_state(table->log).appended : 0;
}

bool ps_table_is_durable(const struct ps_table *table, uint64_t position)
{
	return !table->log || log_state(table->log).position >= position;
}

int ps_table_trouble(const struct ps_table *table)
{
	return table->log ? log_state(table->log).trouble : 0;
}

bool ps_table_is_stuck(const struct ps_table *table)
{
	return table->log && log_state(table->log).is_stuck;
}

/* ---- its files ---- */

void ps_table_path(const struct ps_table *table, uint64_t number, const char *what, char *path,
		   size_t bytes)
{
	snprintf(path, bytes, "%s/%s.%" PRIu64 ".%s", table->options.folder, table->options.name,
		 number, what);
}

void ps_table_words(const struct ps_table *table, struct bytes *out)
{
	record_frame(out, RECORD_TABLE, (const uint8_t *)table->text,
		     (uint32_t)strlen(table->text));
}

void ps_table_map_record(const struct ps_table *table)
{
	uint8_t body[RECORD_MAP_BYTES];

	sparse_body_put32(body, table->map_version);
	sparse_body_put32(body + 4, table->map_keys);
	sparse_body_put64(body + 8, table->map_digest);
	log_append(table->log, home_sparse_server(table->home)->recorded, RECORD_MAP, body,
		   sizeof(body));
}

/* R-KV-27: of a log that another one follows on, this one says where it ended. */
static void before_record(const struct ps_table *table)
{
	uint8_t body[RECORD_BEFORE_BYTES];

	if (!table->has_before)
		return;
	record_before_put(body, table->number - 1, &table->before);
	log_append(table->log, home_sparse_server(table->home)->recorded, RECORD_BEFORE, body,
		   sizeof(body));
}

void ps_table_log_begin(struct ps_table *table)
{
	log_append(table->log, home_sparse_server(table->home)->recorded, RECORD_TABLE,
		   (const uint8_t *)table->text, (uint32_t)strlen(table->text));
	before_record(table);
	ps_table_map_record(table);
	share_record(table, home_sparse_server(table->home)->recorded);
}

/* ---- its generations ---- */

void ps_table_spent(const struct ps_table *table, char error[PS_ERROR_MAX])
{
	snprintf(error, PS_ERROR_MAX,
		 "table %s: its generations are used up: %" PRIu64 " of %" PRIu64
		 " fences were: pull what it has, and begin a table of another name, or in another "
		 "folder",
		 table->options.name,
		 (uint64_t)sparse_fences(home_sparse_server(table->home)->generation),
		 (uint64_t)SPARSE_FENCES_MAX);
}

int ps_table_spend(const struct ps_table *table, uint64_t fences, char error[PS_ERROR_MAX])
{
	if (sparse_fences_left(home_sparse_server(table->home)->generation) >= fences)
		return 0;
	ps_table_spent(table, error);
	return -1;
}
