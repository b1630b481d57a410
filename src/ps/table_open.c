/* SPDX-License-Identifier: Apache-2.0 */
/* table_open.c - see table.h. A table's life, from its files to its end. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sparse/lns.h"
#include "ps/table.h"
#include "util/folder.h"

/* Hexadecimal floats: two that differ in a bit are written differently. */
static void text_make(struct ps_table *table)
{
	const struct ps_table_options *options = &table->options;
	const struct optimiser *o = &options->optimiser;

	snprintf(table->text, sizeof(table->text),
		 "tally-ps 1 table %s%s dim %u workers %u window %u unit %a optimizer %s rate %a "
		 "momentum %a beta1 %a beta2 %a epsilon %a beta %a l1 %a l2 %a initial %s scale %a "
		 "seed %llu",
		 options->name,
		 options->durability == PS_CHECKPOINT ? " durability checkpoint" : "", options->dim,
		 options->workers, options->window, (double)options->unit, optimiser_names[o->kind],
		 (double)o->rate, (double)o->momentum, (double)o->beta1, (double)o->beta2,
		 (double)o->epsilon, (double)o->beta, (double)o->l1, (double)o->l2,
		 initial_names[options->initial.kind], (double)options->initial.scale,
		 (unsigned long long)options->initial.seed);
	if (options->is_sync) /* those of other tables stay as they were */
		snprintf(table->text + strlen(table->text),
			 sizeof(table->text) - strlen(table->text), " mode sync");
	if (options->values == SPARSE_LNS)
		snprintf(table->text + strlen(table->text),
			 sizeof(table->text) - strlen(table->text), " values lns");
}

static int log_begin_first(struct ps_table *table, const struct record_sum *has,
			   char error[PS_ERROR_MAX])
{
	char path[PATH_MAX];
	struct log_options options = { .path = path,
				       .has = *has,
				       .waiting_max = table->options.log_waiting,
				       .changed = table->options.changed,
				       .arg = table->options.arg };
	int why;

	ps_table_path(table, table->number, "log", path, sizeof(path));
	why = folder_sync_above(path);
	if (why)
		return ps_fail(error, "%.400s: %s", path, strerror(why));
	if (log_open(&table->log, &options, error))
		return -1;
	/* No checkpoint stands for these: the table rests on them. */
	for (uint64_t number = table->first; number < table->number; number++) {
		ps_table_path(table, number, "log", path, sizeof(path));
		if (log_watch(table->log, path, error))
			return -1;
	}
	/* Again in a log that goes on: the map may be a new one. */
	ps_table_log_begin(table);
	return 0;
}

static int parts_open(struct ps_table *table, struct outbox *outbox, char error[PS_ERROR_MAX])
{
	struct store_options rows = {
		.dim = table->options.dim,
		.state = optimiser_state(&table->options.optimiser, table->options.dim),
		.initial = table->options.initial,
		.bytes_max = table->options.memory_max,
	};
	struct home_sparse_options home = { .outbox = outbox,
					    .record = ps_table_on_record,
					    .arg = table };
	struct record_sum has = { 0 };
	int result;

	if (ps_table_map_read(table, &table->map, error))
		return -1;
	table->shape.ranks = table->map.keys ? table->map.keys : 1;
	home.table = table->shape;
	home.map = table->map.version;
	home.values = table->options.has_copies && table->map.keys ? ps_table_on_values : NULL;
	table->gradient = calloc(table->shape.dim, sizeof(float));
	if (table->shape.values == SPARSE_LNS) {
		table->lns = malloc(sizeof(*table->lns));
		if (!table->lns)
			return ps_fail(error, "table %s: out of memory", table->options.name);
		lns_tables_make(table->lns);
	}
	result = home_sparse_open(&table->home, &home);
	table->member = calloc(table->shape.workers, sizeof(*table->member));
	if (!table->gradient || !table->member || result == -ENOMEM ||
	    store_open(&table->store, &rows) ||
	    (table->options.is_sync &&
	     (stage_open(&table->stage, table->options.dim, table->options.unit) ||
	      stage_reserve(table->stage, table->map.keys))))
		return ps_fail(error, "table %s: out of memory", table->options.name);
	if (result)
		return ps_fail(
			error,
			"table %s: its dim, window or bytes of a datagram do not fit each other",
			table->options.name);
	server_kv_init(&table->kv, home_sparse_server(table->home), table->member,
		       table->options.is_sync);
	if (table->options.folder && *table->options.folder && ps_table_recover(table, &has, error))
		return -1;
	if (ps_table_spend(table, 1, error))
		return -1;
	if (ps_table_map_begin(table, error))
		return -1;
	return table->options.durability == PS_NONE ? 0 : log_begin_first(table, &has, error);
}

int ps_table_open(struct ps_table **out, const struct ps_table_options *options,
		  struct outbox *outbox, char error[PS_ERROR_MAX])
{
	struct ps_table *table = calloc(1, sizeof(*table));

	if (!table)
		return ps_fail(error, "table %s: out of memory", options->name);
	table->options = *options;
	table->shape = (struct sparse_table){ .workers = options->workers,
					      .window = options->window,
					      .dim = options->dim,
					      .bytes = options->bytes,
					      .values = (uint8_t)options->values };
	text_make(table);
	if (parts_open(table, outbox, error)) {
		ps_table_close(table);
		return -1;
	}
	*out = table;
	return 0;
}

void ps_table_close(struct ps_table *table)
{
	if (!table)
		return;
	log_close(table->log);
	home_sparse_close(table->home);
	store_close(table->store);
	stage_close(table->stage);
	hot_map_fini(&table->map);
	bytes_fini(&table->body);
	free(table->gradient);
	free(table->lns);
	free(table->member);
	free(table->hot);
	free(table);
}
