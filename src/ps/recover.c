/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c - see table.h. Reads a table's checkpoint and logs: what a whole record says must follow on what is
 * before it. Behind the last whole record of the last log there may be what a crash has left of a write, which nothing
 * rested on: no RECORD_WHOLE comes after it. Anything else is damage.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/table.h"

/* ---- one record ---- */

static int text_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		     char error[PS_ERROR_MAX])
{
	table->has_table = true;
	if (bytes == strlen(table->text) && !memcmp(body, table->text, bytes))
		return 0;
	return ps_fail(error, "made as \"%.*s\", and now asked for as \"%.250s\"",
		       (int)(bytes < 250 ? bytes : 250), (const char *)body, table->text);
}

/* R-KV-27, before anything of this log counts: is the one before it what it was? */
static int before_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		       char error[PS_ERROR_MAX])
{
	struct record_sum said;
	uint64_t number;

	if (bytes != RECORD_BEFORE_BYTES || table->is_in_checkpoint)
		return ps_fail(error,
			       "what the log before it had, in a place where that cannot be");
	said = record_before_get(body, &number);
	if (number + 1 != table->number)
		return ps_fail(error, "it follows on another log than the one before it");
	if (!table->has_before)
		return 0;
	table->is_cut = said.bytes != table->before.bytes || said.sum != table->before.sum;
	return table->is_cut ? ps_fail(error, "the log before it was another") : 0;
}

static int map_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		    char error[PS_ERROR_MAX])
{
	if (bytes != RECORD_MAP_BYTES)
		return ps_fail(error, "a map's record of another length than 16");
	if (sparse_body_get32(body) < table->map_version)
		return ps_fail(error, "a map's record of an older version");
	table->map_version = sparse_body_get32(body);
	table->map_keys = sparse_body_get32(body + 4);
	table->map_digest = sparse_body_get64(body + 8);
	return 0;
}

static int share_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		      char error[PS_ERROR_MAX])
{
	struct server_kv_share *share = &table->share;

	if (bytes != RECORD_SHARE_BYTES)
		return ps_fail(error, "a server's share of another length than 56");
	share->index = (uint16_t)(body[0] | body[1] << 8);
	share->count = (uint16_t)(body[2] | body[3] << 8);
	share->is_used = body[4] & 1;
	share->is_known = body[4] & 2;
	memcpy(share->identity, body + 8, sizeof(share->identity));
	memcpy(share->own, body + 8 + KV_IDENTITY_BYTES, sizeof(share->own));
	memcpy(share->list, body + 8 + 2 * KV_IDENTITY_BYTES, sizeof(share->list));
	if (share->index < share->count && share->count <= KV_SERVERS_MAX)
		return 0;
	return ps_fail(error, "a server's share that cannot be");
}

static int rows_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		     char error[PS_ERROR_MAX])
{
	uint32_t floats =
		table->shape.dim + optimiser_state(&table->options.optimiser, table->shape.dim);
	uint32_t count = bytes < 8 ? 0 : sparse_body_get32(body);

	if (bytes < 8 || !table->is_in_checkpoint || sparse_body_get32(body + 4) != floats ||
	    8 + count * (8 + 4ull * floats) != bytes)
		return ps_fail(error, "rows that do not fit the table");
	if (store_reserve(table->store, count))
		return ps_fail(error, "the rows do not fit into the table's bound of memory");
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *row = body + 8 + i * (8 + 4ull * floats);
		uint64_t key = sparse_body_get64(row);

		if (store_find(table->store, key))
			return ps_fail(error, "a key has two rows");
		memcpy(store_get(table->store, key), row + 8, 4ull * floats);
	}
	table->rows_said += count;
	return 0;
}

/* After the rows, for a step's keys have rows. */
static int stage_take(struct ps_table *table, const uint8_t *body, uint32_t bytes,
		      char error[PS_ERROR_MAX])
{
	uint64_t had = table->stage ? stage_count(table->stage) : 0;
	const char *why = table->stage && table->is_in_checkpoint
				  ? stage_load(table->stage, body, bytes)
				  : "sums of a step where there can be none";

	for (uint64_t i = had; !why && i < stage_count(table->stage); i++)
		if (!store_find(table->store, stage_gradient(table->stage, i, table->gradient)))
			why = "a sum of a step whose key has no row";
	return why ? ps_fail(error, "%s", why) : 0;
}

/* NULL, or why this step cannot come now. In a checkpoint steps stand for all that were before. */
static const char *step_misfit(const struct ps_table *table, const struct record_step *step)
{
	const struct server_sparse *server = home_sparse_server(table->home);
	const struct server_sparse_record *what = &step->what;
	const struct server_sparse_worker *worker =
		&server->memory.worker[what->kind == SERVER_SPARSE_EPOCH ? 0 : what->worker];
	bool is_whole = table->is_in_checkpoint;

	switch (what->kind) {
	case SERVER_SPARSE_FENCE:
		if (what->generation <= server->generation)
			return "a fence to a generation that is not above the one before";
		break;
	case SERVER_SPARSE_EPOCH:
		if (is_whole ? what->epoch + 1 < server->expected : what->epoch != server->expected)
			return "an epoch that does not follow on the one before";
		break;
	case SERVER_SPARSE_JOIN:
		if (what->incarnation <= worker->incarnation)
			return "a worker's incarnation that is not above the one before";
		break;
	case SERVER_SPARSE_BATCH:
		if (what->incarnation != worker->incarnation)
			return "a batch of a worker's other incarnation";
		if (is_whole ? what->batch < worker->next : what->batch != worker->next)
			return "a batch that does not follow on the one before";
		break;
	}
	/* A JOIN may begin a generation (R-SP-29). */
	if (what->generation != server->generation && what->kind != SERVER_SPARSE_FENCE &&
	    (what->kind != SERVER_SPARSE_JOIN || what->generation < server->generation))
		return "a step of another generation than that of the last fence";
	return NULL;
}

static int step_apply(struct ps_table *table, const struct record_step *step,
		      char error[PS_ERROR_MAX])
{
	uint32_t dim = table->shape.dim;
	bool is_epoch = step->what.kind == SERVER_SPARSE_EPOCH;
	union {
		int64_t sum[SPARSE_DIM_MAX];
		float value[SPARSE_DIM_MAX];
	} its;
	uint64_t fresh = 0;

	if (table->stage && stage_reserve(table->stage, step->count))
		return ps_fail(error, "out of memory for the sums of a step");
	for (uint32_t i = 0; i < step->count; i++)
		fresh += !store_find(table->store, sparse_body_get64(step->key + 8ull * i));
	if (store_reserve(table->store, fresh))
		return ps_fail(error, "its keys do not fit into the table's bound of memory");
	for (uint32_t i = 0; i < step->count; i++) {
		uint64_t key = sparse_body_get64(step->key + 8ull * i);

		if (!is_epoch) {
			memcpy(its.value, step->value + 4ull * i * dim, 4ull * dim);
			ps_table_apply_floats(table, key, its.value);
			continue;
		}
		memcpy(its.sum, step->value + 8ull * i * dim, 8ull * dim);
		ps_table_apply_sums(table, key, store_get(table->store, key), its.sum);
	}
	return 0;
}

static int step_take(struct ps_table *table, uint32_t type, const uint8_t *body, uint32_t bytes,
		     char error[PS_ERROR_MAX])
{
	struct record_step step;
	const char *why = record_step_get(type, body, bytes, &table->shape, &step);
	uint64_t *cut = NULL;

	if (!why)
		why = step_misfit(table, &step);
	if (why)
		return ps_fail(error, "%s", why);
	if (step_apply(table, &step, error))
		return -1;
	if (type == SERVER_SPARSE_EPOCH) {
		cut = malloc(step.places * sizeof(*cut));
		if (!cut)
			return ps_fail(error, "out of memory");
		memcpy(cut, step.cut, step.places * sizeof(*cut));
	}
	if (type == SERVER_SPARSE_JOIN) {
		table->ended += !table->is_in_checkpoint &&
				server_kv_is_member(&table->kv, step.what.worker);
		server_kv_replay(&table->kv, SERVER_KV_JOINED, step.what.worker);
	}
	step.what.number = home_sparse_server(table->home)->recorded + 1;
	home_sparse_replay(table->home, &step.what, cut);
	free(cut);
	return 0;
}

static int number_take(struct ps_table *table, uint32_t type, uint64_t number,
		       char error[PS_ERROR_MAX])
{
	if (type == RECORD_BARRIER) {
		server_kv_replay(&table->kv, SERVER_KV_PASSED, number);
		ps_table_step(table);
	} else if (type == RECORD_VOID) {
		server_kv_replay(&table->kv, SERVER_KV_VOIDED, 0);
		if (table->stage)
			stage_clear(table->stage);
	} else if (type == RECORD_LEFT) {
		if (number >= table->shape.workers)
			return ps_fail(error, "a worker that there is not has left");
		table->ended += !table->is_in_checkpoint;
		server_kv_replay(&table->kv, SERVER_KV_HAS_LEFT, number);
	} else {
		if (!table->is_in_checkpoint || number != table->rows_said)
			return ps_fail(error, "an end with another number of rows");
		table->has_end = true;
	}
	return 0;
}

int ps_table_take(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes,
		  char error[PS_ERROR_MAX])
{
	struct ps_table *table = arg;

	table->replayed++;
	if (type == RECORD_TABLE)
		return text_take(table, body, bytes, error);
	if (!table->has_table)
		return ps_fail(error, "it does not begin as a file of tally-ps");
	if (table->has_end)
		return ps_fail(error, "something is behind the end of a checkpoint");
	switch (type) {
	case RECORD_BEFORE:
		return before_take(table, body, bytes, error);
	case RECORD_MAP:
		return map_take(table, body, bytes, error);
	case RECORD_SHARE:
		return share_take(table, body, bytes, error);
	case RECORD_ROWS:
		return rows_take(table, body, bytes, error);
	case RECORD_STAGE:
		return stage_take(table, body, bytes, error);
	case RECORD_BARRIER:
	case RECORD_END:
	case RECORD_LEFT:
	case RECORD_VOID:
		if (bytes != 8)
			return ps_fail(error, "a number of another length than 8");
		return number_take(table, type, sparse_body_get64(body), error);
	default:
		return step_take(table, type, body, bytes, error);
	}
}

/* ---- one file ---- */

struct reading {
	struct record_sum has; /* so much was read: whole records */
	const char *why;       /* it goes on, but not with one; NULL: it does not go on */
	bool was_whole;        /* more than that was on the disk once */
};

/* -1 with a sentence; 0: there is none; 1: it was read. Whoever is told of what it has may rely on that: it is on the disk
 * from now on, and not only in the memory of the kernel, where one that was killed has left it. */
static int file_read(struct ps_table *table, const char *path, struct reading *reading,
		     char error[PS_ERROR_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), result = 0;
	struct stat is;
	size_t bytes, end = 0;
	uint8_t *file = NULL;

	*reading = (struct reading){ 0 };
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fsync(fd) || fstat(fd, &is)) {
		snprintf(error, PS_ERROR_MAX, "%.400s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	bytes = (size_t)is.st_size;
	if (bytes)
		file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return ps_fail(error, "%.400s: %s", path, strerror(errno));
	table->has_table = false;
	if (bytes)
		result = record_scan(path, file, bytes, ps_table_take, table, &end, &reading->why,
				     error);
	if (!result) {
		reading->has = record_sum_of(file, end);
		reading->was_whole = reading->why && record_was_whole(file, bytes, end);
	}
	if (bytes)
		munmap(file, bytes);
	return result ? result : 1;
}

static int checkpoint_read(struct ps_table *table, const char *path, char error[PS_ERROR_MAX])
{
	struct reading reading;
	int result;

	table->is_in_checkpoint = true;
	result = file_read(table, path, &reading, error);
	if (result > 0 && (reading.why || !table->has_end)) {
		snprintf(error, PS_ERROR_MAX, "%.400s: damaged: %s", path,
			 reading.why ? reading.why : "it has no end");
		result = -1;
	}
	table->is_in_checkpoint = false;
	table->has_end = false;
	return result;
}

/* ---- all files ---- */

struct found {
	uint64_t checkpoint, log, first; /* the highest, the highest, the lowest of both */
	bool has_checkpoint, has_log;
};

static void name_take(const struct ps_table *table, const char *name, struct found *found)
{
	size_t prefix = strlen(table->options.name);
	unsigned long long number;
	char *end;

	if (strncmp(name, table->options.name, prefix) != 0 || name[prefix] != '.' ||
	    name[prefix + 1] < '0' || name[prefix + 1] > '9')
		return;
	number = strtoull(name + prefix + 1, &end, 10);
	if ((!strcmp(end, ".checkpoint") || !strcmp(end, ".log")) &&
	    ((!found->has_checkpoint && !found->has_log) || number < found->first))
		found->first = number;
	if (!strcmp(end, ".checkpoint")) {
		if (!found->has_checkpoint || number > found->checkpoint)
			found->checkpoint = number;
		found->has_checkpoint = true;
	} else if (!strcmp(end, ".log")) {
		if (!found->has_log || number > found->log)
			found->log = number;
		found->has_log = true;
	} else if (!strcmp(end, ".checkpoint.partial")) {
		char path[PATH_MAX];

		/* Its writer was killed: nobody would ever finish it. */
		ps_table_path(table, number, "checkpoint.partial", path, sizeof(path));
		unlink(path);
	}
}

static int folder_read(const struct ps_table *table, struct found *found, char error[PS_ERROR_MAX])
{
	DIR *folder = opendir(table->options.folder);
	const struct dirent *entry;

	if (!folder)
		return ps_fail(error, "%.400s: %s", table->options.folder, strerror(errno));
	while ((entry = readdir(folder)))
		name_take(table, entry->d_name, found);
	closedir(folder);
	return 0;
}

/* Is there nothing in any later log? Then this one is the last, and no other was ever begun. */
static bool later_are_empty(const struct ps_table *table, uint64_t number,
			    const struct found *found)
{
	while (++number <= found->log) {
		char path[PATH_MAX];
		struct stat is;

		ps_table_path(table, number, "log", path, sizeof(path));
		if (stat(path, &is) || is.st_size)
			return false;
	}
	return true;
}

/* R-KV-27: what is wrong with this log, or with the one before it, though it was on the disk once: NULL: nothing. */
static const char *log_fault(const struct ps_table *table, int result,
			     const struct reading *reading, const struct found *found)
{
	if (result < 0)
		return "the log behind it says that it had more, or other records";
	if (!result)
		return "it is not there, and others of its table are";
	if (reading->was_whole)
		return reading->why;
	if (reading->why && !later_are_empty(table, table->number, found))
		return reading->why;
	return NULL;
}

/* Logs from the checkpoint's on; only the last may have half a record at its end. *has: so much of it is good. */
static int logs_read(struct ps_table *table, const struct found *found, struct record_sum *has,
		     char error[PS_ERROR_MAX])
{
	for (;; table->number++) {
		struct reading reading;
		const char *fault;
		char path[PATH_MAX];
		int result;

		ps_table_path(table, table->number, "log", path, sizeof(path));
		result = file_read(table, path, &reading, error);
		if (result < 0 && !table->is_cut)
			return -1;
		fault = log_fault(table, result, &reading, found);
		if (result < 0) {
			table->number--;
			*has = table->before;
			table->has_before = false;
		} else {
			*has = reading.has;
		}
		if (fault)
			return ps_table_loss(table, table->number, has, found->log, fault, error);
		if (reading.why)
			snprintf(table->notice, sizeof(table->notice),
				 "%.400s: recovered to the last whole record, at byte %" PRIu64
				 ": %s",
				 path, has->bytes, reading.why);
		if (reading.why || table->number >= found->log)
			return 0;
		table->before = *has;
		table->has_before = true;
	}
}

int ps_table_recover(struct ps_table *table, struct record_sum *has, char error[PS_ERROR_MAX])
{
	struct found found = { 0 };
	char path[PATH_MAX];

	*has = (struct record_sum){ 0 };
	if (folder_read(table, &found, error))
		return -1;
	if (!found.has_checkpoint && !found.has_log)
		return 0;
	if (table->options.durability == PS_NONE) {
		ps_table_path(table, found.first, "*", path, sizeof(path));
		return ps_fail(
			error,
			"%.400s: the table has files, and durability=none would begin it empty "
			"beside them: begin it with the durability that it had, or move them away",
			path);
	}
	if (!found.has_checkpoint && found.first) {
		ps_table_path(table, found.first, "checkpoint", path, sizeof(path));
		return ps_fail(
			error,
			"%.400s: it is not there, and logs that follow on it are: a copy of the "
			"folder has it",
			path);
	}
	table->is_old = true;
	table->number = table->first = found.has_checkpoint ? found.checkpoint : 0;
	table->oldest = found.first < table->number ? found.first : table->number;
	ps_table_path(table, table->number, "checkpoint", path, sizeof(path));
	if (found.has_checkpoint && checkpoint_read(table, path, error) < 0)
		return -1;
	return logs_read(table, &found, has, error);
}
