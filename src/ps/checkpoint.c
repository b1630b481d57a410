/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.c - see table.h. A checkpoint has the records that make the server what it is, then all rows. It is
 * written aside by a child, which has the memory as it was, synced and renamed; then what is older goes.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/aside.h"
#include "ps/table.h"

enum { PIECE_BYTES = 1 << 20 };

/* ---- writing ---- */

static int bytes_write(int fd, struct bytes *bytes)
{
	size_t done = 0;

	if (bytes->is_short)
		return ENOMEM;
	while (done < bytes->count) {
		ssize_t got = write(fd, bytes->at + done, bytes->count - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? errno : EIO;
		done += (size_t)got;
	}
	bytes->count = 0;
	return 0;
}

static void step_put(const struct ps_table *table, const struct server_sparse_record *what,
		     struct bytes *out)
{
	struct bytes body = { 0 };

	record_step_put(&body, what, &table->shape, home_sparse_cut(table->home), 0);
	record_frame(out, what->kind, body.at, (uint32_t)body.count);
	out->is_short |= body.is_short;
	bytes_fini(&body);
}

static void number_put(uint32_t type, uint64_t number, struct bytes *out)
{
	uint8_t body[8];

	sparse_body_put64(body, number);
	record_frame(out, type, body, sizeof(body));
}

/* Its JOIN, and all of its batches in one. */
static void worker_put(const struct ps_table *table, uint16_t i, struct bytes *out)
{
	const struct server_sparse *server = home_sparse_server(table->home);
	const struct server_sparse_worker *worker = &server->memory.worker[i];
	struct server_sparse_record what = { .kind = SERVER_SPARSE_JOIN,
					     .map = server->map,
					     .generation = server->generation,
					     .worker = i,
					     .incarnation = worker->incarnation };

	step_put(table, &what, out);
	what.kind = SERVER_SPARSE_BATCH;
	what.batch = worker->next - 1;
	if (what.batch)
		step_put(table, &what, out);
}

/* Who came and who left, in the order in which they did: barriers ask for that. */
static void workers_put(const struct ps_table *table, struct bytes *out)
{
	uint64_t done = 0, next;

	do {
		next = UINT64_MAX;
		for (uint16_t i = 0; i < table->shape.workers; i++) {
			const struct server_kv_worker *member = &table->kv.worker[i];

			if (member->joined > done && member->joined < next)
				next = member->joined;
			if (member->left > done && member->left < next)
				next = member->left;
		}
		for (uint16_t i = 0; i < table->shape.workers; i++) {
			if (table->kv.worker[i].joined == next)
				worker_put(table, i, out);
			if (table->kv.worker[i].left == next && next > table->kv.worker[i].joined)
				number_put(RECORD_LEFT, i, out);
		}
		done = next;
	} while (next != UINT64_MAX);
}

/* R-SP-33: a FENCE, the workers' JOINs and batches, an EPOCH with the cut. */
static void server_put(const struct ps_table *table, struct bytes *out)
{
	const struct server_sparse *server = home_sparse_server(table->home);
	struct server_sparse_record what = { .map = server->map, .generation = server->generation };

	what.kind = SERVER_SPARSE_FENCE;
	if (server->generation)
		step_put(table, &what, out);
	workers_put(table, out);
	what = (struct server_sparse_record){ .kind = SERVER_SPARSE_EPOCH,
					      .map = server->map,
					      .generation = server->generation,
					      .epoch = server->expected - 1,
					      .flags = server->sticky };
	if (server->generation)
		step_put(table, &what,
			 out); /* also before the first epoch: reports raise the cut */
	number_put(RECORD_BARRIER, table->kv.barrier, out);
}

/* count and floats of a row, then the rows: as many as a piece has room for. */
static uint64_t rows_put(const struct ps_table *table, uint64_t first, struct bytes *out)
{
	uint32_t floats =
		table->shape.dim + optimiser_state(&table->options.optimiser, table->shape.dim);
	uint64_t left = store_rows(table->store) - first,
		 most = PIECE_BYTES / (8 + 4ull * floats) + 1;
	uint32_t count = (uint32_t)(left < most ? left : most);
	struct bytes body = { 0 };

	bytes_put32(&body, count);
	bytes_put32(&body, floats);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t key;
		const float *row = store_row(table->store, first + i, &key);

		bytes_put64(&body, key);
		bytes_put(&body, row, floats * sizeof(float));
	}
	record_frame(out, RECORD_ROWS, body.at, (uint32_t)body.count);
	out->is_short |= body.is_short;
	bytes_fini(&body);
	return count;
}

static uint64_t stage_put(const struct ps_table *table, uint64_t first, struct bytes *out)
{
	struct bytes body = { 0 };
	uint64_t count = stage_save(table->stage, first, &body);

	record_frame(out, RECORD_STAGE, body.at, (uint32_t)body.count);
	out->is_short |= body.is_short;
	bytes_fini(&body);
	return count;
}

static int all_write(const struct ps_table *table, int fd)
{
	struct bytes out = { 0 };
	uint64_t rows = store_rows(table->store),
		 sums = table->stage ? stage_count(table->stage) : 0;
	int why = 0;

	ps_table_words(table, &out);
	ps_table_share_put(table, &out);
	server_put(table, &out);
	for (uint64_t row = 0; row < rows && !why;) {
		row += rows_put(table, row, &out);
		why = bytes_write(fd, &out);
	}
	for (uint64_t sum = 0; sum < sums && !why;) {
		sum += stage_put(table, sum, &out);
		why = bytes_write(fd, &out);
	}
	number_put(RECORD_END, rows, &out);
	if (!why)
		why = bytes_write(fd, &out);
	bytes_fini(&out);
	return why;
}

int ps_table_write(const struct ps_table *table, const char *path)
{
	char error[FILES_ERROR_MAX];
	struct aside aside;

	if (aside_open(&aside, path, error))
		return aside.why;
	aside.why = all_write(table, fileno(aside.file));
	return aside_commit(&aside, error) ? aside.why : 0;
}

/* ---- beside the work ---- */

static int failed(const struct ps_table *table, const char *what, char error[PS_ERROR_MAX])
{
	return ps_fail(error, "table %s: no checkpoint was written: %.500s", table->options.name,
		       what);
}

/* Who is back from the checkpoint before says that what came after that is lost: so it must not appear after all. With a
 * log it is the same table. */
static bool is_orphan(const struct ps_table *table, pid_t parent)
{
	return table->options.durability == PS_CHECKPOINT &&
	       (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent);
}

static int turn(struct ps_table *table, char error[PS_ERROR_MAX])
{
	char path[PATH_MAX];

	ps_table_path(table, table->number + 1, "log", path, sizeof(path));
	if (log_turn(table->log, path, &table->before, error))
		return -1;
	table->has_before = true;
	table->number++;
	ps_table_log_begin(table);
	return 0;
}

int ps_table_checkpoint(struct ps_table *table, char error[PS_ERROR_MAX])
{
	char path[PATH_MAX], said[PS_ERROR_MAX];
	pid_t parent = getpid();

	if (!table->log || table->checkpoint)
		return 0;
	if (turn(table, said))
		return failed(table, said, error);
	ps_table_path(table, table->number, "checkpoint", path, sizeof(path));
	table->checkpoint = fork();
	if (!table->checkpoint) {
		/* It may outlive us: our sockets and locks must not live on in it. */
		close_range(STDERR_FILENO + 1, ~0u, 0);
		_exit(is_orphan(table, parent) ? EOWNERDEAD : ps_table_write(table, path));
	}
	if (table->checkpoint > 0)
		return 0;
	table->checkpoint = 0;
	return failed(table, strerror(errno), error);
}

/* Oldest first: what is left is always a checkpoint and all logs behind it. Nobody waits for the disk: what a crash brings
 * back of them is older than the checkpoint that is there, and goes with the next one. */
static void older_remove(struct ps_table *table)
{
	char path[PATH_MAX];

	for (; table->oldest < table->number; table->oldest++) {
		ps_table_path(table, table->oldest, "checkpoint", path, sizeof(path));
		unlink(path);
		ps_table_path(table, table->oldest, "log", path, sizeof(path));
		unlink(path);
	}
}

/* 0: it is being written. */
static int writer_look(struct ps_table *table, int flags, char error[PS_ERROR_MAX])
{
	int status;
	pid_t gone;

	if (!table->checkpoint)
		return 0;
	do
		gone = waitpid(table->checkpoint, &status, flags);
	while (gone < 0 && errno == EINTR);
	if (!gone)
		return 0;
	table->checkpoint = 0;
	if (gone < 0)
		return failed(table, strerror(errno), error);
	if (!WIFEXITED(status)) {
		char path[PATH_MAX];

		ps_table_path(table, table->number, "checkpoint.partial", path, sizeof(path));
		unlink(path);
		return failed(table, "its writer was killed", error);
	}
	if (WEXITSTATUS(status))
		return failed(table, strerror(WEXITSTATUS(status)), error);
	log_forget(table->log);
	older_remove(table);
	return 1;
}

int ps_table_checkpoint_turn(struct ps_table *table, char error[PS_ERROR_MAX])
{
	return writer_look(table, WNOHANG, error);
}

int ps_table_save(struct ps_table *table, char error[PS_ERROR_MAX])
{
	char why[PS_ERROR_MAX];

	writer_look(table, 0, why); /* of this one nobody asks any more */
	if (ps_table_checkpoint(table, error))
		return -1;
	return writer_look(table, 0, error) < 0 ? -1 : 0;
}

/* The end of a log that is gone cannot be told from a crash: of a log that another one follows on, it can. */
int ps_table_end(struct ps_table *table, char error[PS_ERROR_MAX])
{
	if (!table->log)
		return 0;
	if (table->options.durability == PS_CHECKPOINT)
		return ps_table_save(table, error);
	return turn(table, error);
}
