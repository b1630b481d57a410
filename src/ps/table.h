/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - one table of a parameter server: its rows, its optimiser, its hot keys, what it has told whom
 * (dataplane/home_sparse.h), and the log and checkpoints that all of that survives in. No sockets but the outbox
 * that it is lent. One thread, but for the log's own.
 *
 * In the folder (R-KV-24), for a table NAME: NAME.k.log, NAME.k.checkpoint. Checkpoint k is the state in which log k began, so
 * a table is its highest checkpoint and all logs from that number on; checkpoint 0 is none. With PS_CHECKPOINT that is
 * all but what epochs and batches have brought since the checkpoint.
 */
#ifndef PS_TABLE_H
#define PS_TABLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/kv/server_kv.h"
#include "core/kv/server_kv_share.h"
#include "dataplane/home_sparse.h"
#include "files/hot_map.h"
#include "kv/message.h"
#include "ps/log.h"
#include "ps/optimiser.h"
#include "ps/stage.h"
#include "ps/store.h"

enum ps_durability {
	PS_LOG,        /* nothing is acknowledged that is not on the disk */
	PS_CHECKPOINT, /* R-SP-33: epochs and batches are not in the log */
	PS_NONE,       /* a restart begins with nothing */
};

struct ps_table_options {
	char name[PS_NAME_MAX]; /* letters, digits, - and _ */
	uint16_t dim, workers, window, bytes;
	struct optimiser optimiser;
	struct initial initial;
	enum sparse_values values;
	float unit; /* SPARSE_FIXED: what 1 of a hot value's integers stands for; above 0 */
	uint64_t memory_max; /* of the rows; 0: 1 GiB */
	const char *map;     /* path; NULL: no key is hot */
	uint32_t map_table;  /* which table's map that is, as tally hot --table has said */
	enum ps_durability durability;
	const char *folder; /* where its files are; PS_NONE has none, and NULL or "" will do */
	bool accepts_loss; /* goes on, though something that was on the disk is not there any more */
	bool is_sync;      /* R-KV-16 */
	bool has_copies;   /* workers are told the new values of hot keys (R-SP-31) */
	size_t log_waiting; /* bytes of its log that wait for the disk; 0: log_options' */
	/* As log_options has them. */
	void (*changed)(void *arg);
	void *arg;
};

struct ps_table {
	/* Read by anyone. */
	struct ps_table_options options;
	struct sparse_table shape; /* index: of no meaning here */
	struct hot_map map;        /* keys: 0 if there is none */
	struct home_sparse *home;
	struct lns_tables *lns; /* NULL: SPARSE_FIXED */
	struct store *store;
	struct stage *stage; /* NULL: it is not synchronous */
	struct log *log;     /* NULL: PS_NONE */
	struct server_kv kv; /* its workers, and how they stand */
	struct server_kv_share share;
	struct server_kv_worker *member; /* [workers]: kv's */
	uint64_t replayed;               /* records that the start has found */
	char notice[PS_ERROR_MAX];       /* "", or what it has found out of order and has mended */
	bool is_old;                     /* there was a log or a checkpoint */
	bool has_lost; /* accepts_loss, and something was lost: notice says what */
	uint32_t
		ended; /* incarnations that have left, or were replaced, behind the checkpoint that was read */
	uint64_t held;     /* R-KV-19: steps in which a number was too large, */
	uint64_t held_key; /* the first of them of this key */
	/* Its own. */
	char text[RECORD_TEXT_MAX];
	float **hot; /* by rank */
	uint32_t map_version, map_keys;
	uint64_t map_digest; /* as the log has them, of the highest version; 0: none yet */
	uint64_t number;     /* of the log that is written */
	uint64_t first;      /* the first log that this life has read */
	uint64_t oldest;     /* of the files that there are */
	/* What the log before this one had, if there is one that is read. */
	struct record_sum before;
	bool has_before;
	pid_t checkpoint; /* the child that writes one; 0: none */
	struct bytes body;
	float *gradient;
	const uint64_t *batch_keys; /* while home_sparse_cold runs */
	const float *batch_values;
	uint32_t batch_count;
	/* While files are read. */
	bool is_in_checkpoint, has_table, has_end;
	bool is_cut; /* this log says that the one before it had more, or other records */
	uint64_t rows_said;
};

/* Reads what there is, and begins nothing: no fence yet. 0, or -1 with a sentence: a file that is damaged in its
 * midst, another table's, or one that was made otherwise; no memory; no such map, or one that the log knows
 * otherwise; no generation left to begin with. */
int ps_table_open(struct ps_table **table, const struct ps_table_options *options,
		  struct outbox *outbox, char error[PS_ERROR_MAX]);
void ps_table_close(struct ps_table *table);

/* A cold batch of a worker: count keys, dim floats each. What came of it: */
enum ps_batch { PS_BATCH_TAKEN, PS_BATCH_REFUSED, PS_BATCH_FULL, PS_BATCH_NO_MEMORY };
enum ps_batch ps_table_batch(struct ps_table *table, uint16_t worker, uint64_t incarnation,
			     uint64_t number, const uint64_t *keys, const float *values,
			     uint32_t count);
/* A barrier was passed: it stays passed. A synchronous table makes its step. */
void ps_table_barrier(struct ps_table *table, uint64_t barrier);
/* Records that this worker has said LEAVE. */
void ps_table_leave(struct ps_table *table, uint16_t worker);
/* Which server of the table it is, from now on; that it is used, and so stays it. */
void ps_table_share(struct ps_table *table, const struct server_kv_share *share);
void ps_table_use(struct ps_table *table);
/* Has anybody ever joined? */
bool ps_table_is_joined(const struct ps_table *table);
/* As what it is made, for workers: R-KV-22. */
void ps_table_made(const struct ps_table *table, char text[KV_TEXT_BYTES]);
/* R-KV-16: what a synchronous table's step has so far is dropped; records that, and that all have left. */
void ps_table_void(struct ps_table *table);

/* The file that the options name, if they do: 0, or -1 with a sentence. */
int ps_table_map_read(const struct ps_table *table, struct hot_map *map, char error[PS_ERROR_MAX]);
/* Another map (R-SP-32): a generation begins with it, which has no switch yet. 1: and it is the table's; 0: it is the map that
 * the table has; -1 with a sentence, and the table is as it was: it is of a version that has been, or its rows have no
 * room. */
int ps_table_remap(struct ps_table *table, struct hot_map *map, char error[PS_ERROR_MAX]);

/* R-SP-1: how near it is to the end of its generations, and what can be done, in a sentence. */
void ps_table_spent(const struct ps_table *table, char error[PS_ERROR_MAX]);

/* Tells home of what has become durable. Until this position is, what was made now may not leave. */
void ps_table_settle(struct ps_table *table);
uint64_t ps_table_position(const struct ps_table *table);
bool ps_table_is_durable(const struct ps_table *table, uint64_t position);
int ps_table_trouble(const struct ps_table *table); /* errno of the disk; 0: all is well */
/* The disk is in trouble, and so much waits for it that the table takes nothing more. */
bool ps_table_is_stuck(const struct ps_table *table);

/* Begins a checkpoint beside the work: a child writes it. 0, or -1 with a sentence; nothing is to be done, without a
 * log or while one is written. */
int ps_table_checkpoint(struct ps_table *table, char error[PS_ERROR_MAX]);
/* Ends one that is being written, and writes one of what there is now, before it returns. 0, or -1 with a sentence. */
int ps_table_save(struct ps_table *table, char error[PS_ERROR_MAX]);
/* An orderly end: brings all to the disk, and begins a log that says how the one before it ended (with PS_CHECKPOINT: a
 * checkpoint). Only ps_table_close may follow. 0, or -1 with a sentence: it will look like a crash. */
int ps_table_end(struct ps_table *table, char error[PS_ERROR_MAX]);
/* Has it come to an end? 1: it has, what is older is gone; -1: it has failed, and the sentence says why; what there was
 * stays. 0: no, or there is none. */
int ps_table_checkpoint_turn(struct ps_table *table, char error[PS_ERROR_MAX]);

/* ---- between the files of this room ---- */

/* As home_sparse_options has them; arg: the table. Records what has happened, and applies it; the new values of a hot key,
 * for the workers' copies. */
void ps_table_on_record(void *arg, const struct server_sparse_record *what);
void ps_table_on_values(void *arg, uint32_t rank, uint32_t *value);

/* One step each, of a live table or a replayed one; a synchronous one adds them up instead, if stage_reserve has made
 * the room, until ps_table_step. */
void ps_table_apply_sums(struct ps_table *table, uint64_t key, float *row, const int64_t *sums);
void ps_table_apply_floats(struct ps_table *table, uint64_t key, const float *values);
void ps_table_step(struct ps_table *table);
/* R-SP-1: does it have so many more fences? 0, or -1 with a sentence. */
int ps_table_spend(const struct ps_table *table, uint64_t fences, char error[PS_ERROR_MAX]);
/* After a loss: who was there before must not go on with a table that has forgotten some of what it was told. */
void ps_table_disown(struct ps_table *table);
/* At the start, when all files were read: does the map follow on what the log has had, and is there room for its rows? */
int ps_table_map_begin(struct ps_table *table, char error[PS_ERROR_MAX]);
void ps_table_map_record(const struct ps_table *table);
/* NAME.number.what in the folder. */
void ps_table_path(const struct ps_table *table, uint64_t number, const char *what, char *path,
		   size_t bytes);
/* What a file of this table begins with. */
void ps_table_words(const struct ps_table *table, struct bytes *out);
/* SHARE; nothing, if there is none. */
void ps_table_share_put(const struct ps_table *table, struct bytes *out);
/* TABLE, MAP and SHARE, at the beginning of a log. */
void ps_table_log_begin(struct ps_table *table);
/* Reads all files; home and store are as they were made. *has: the log that goes on. Files of PS_NONE are refused. */
int ps_table_recover(struct ps_table *table, struct record_sum *has, char error[PS_ERROR_MAX]);
/* Log `number`, of which *has was read, had more, and there may be logs to `last`; why: what is wrong. -1 with a sentence
 * that says how much is gone, as far as anything tells; or 0: that is accepted, later logs are gone, and it goes on. */
int ps_table_loss(struct ps_table *table, uint64_t number, const struct record_sum *has,
		  uint64_t last, const char *why, char error[PS_ERROR_MAX]);
/* record_take of a table's files; arg: the table. */
record_take ps_table_take;
/* All of a checkpoint to this path: errno, or 0. */
int ps_table_write(const struct ps_table *table, const char *path);

#endif
