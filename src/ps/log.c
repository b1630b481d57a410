/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. */
#include "ps/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/folder.h"

enum { WAITING_MAX = 1 << 28 /* bytes */, AGAIN_NS = 1000000000 };

struct log {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more, moved; /* to the thread; from it */
	struct log_options options;
	int fd;
	int old[LOG_OLD_MAX]; /* files before it that are still needed, in their order */
	uint32_t old_count;
	uint64_t at; /* bytes of this file that are durable: where the next write goes */
	struct bytes filling, writing;
	uint64_t appended, mark; /* of filling too */
	struct record_sum sum;   /* of this file, with all that is appended to it */
	struct log_state state;  /* but appended and is_stuck, which follow from the others */
	bool is_busy;            /* the thread has `writing` */
	bool is_closing;
};

/* ---- the thread ---- */

/* What has no name any more is lost with its last descriptor, however often it is synced. */
static int deleted(int fd)
{
	struct stat is;

	if (fstat(fd, &is))
		return errno;
	return is.st_nlink ? 0 : ENOENT;
}

/* With the lock, for log_forget closes them. */
static int old_deleted(const struct log *log)
{
	int why = 0;

	for (uint32_t i = 0; i < log->old_count && !why; i++)
		why = deleted(log->old[i]);
	return why;
}

const char *log_why(int trouble)
{
	return trouble == ENOENT ? "its file was deleted" : strerror(trouble);
}

static int bytes_write(int fd, uint64_t at, const struct bytes *bytes)
{
	size_t done = 0;

	while (done < bytes->count) {
		ssize_t got = pwrite(fd, bytes->at + done, bytes->count - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? errno : EIO;
		done += (size_t)got;
	}
	return 0;
}

/* All of it, or errno. Again from the same place, and all of it: half a try does no harm then, and what a sync could not
 * bring to the disk the kernel has forgotten, so that the next sync alone would say that all is well. */
static int write_at(int fd, uint64_t at, const struct bytes *bytes)
{
	int why = bytes_write(fd, at, bytes);

	if (!why && fdatasync(fd))
		why = errno;
	return why ? why : deleted(fd);
}

/* With the lock; false: it is closing and the disk takes nothing. */
static bool again_later(struct log *log)
{
	struct timespec until = clock_timespec(clock_ns() + AGAIN_NS);

	while (!log->is_closing)
		if (pthread_cond_timedwait(&log->more, &log->lock, &until) == ETIMEDOUT)
			return true;
	return false;
}

static void changed(struct log *log)
{
	pthread_cond_broadcast(&log->moved);
	pthread_mutex_unlock(&log->lock);
	log->options.changed(log->options.arg);
	pthread_mutex_lock(&log->lock);
}

/* With the lock, which it gives back while the disk works. */
static void batch_write(struct log *log)
{
	struct bytes batch = log->filling;
	uint64_t position = log->appended, mark = log->mark;

	log->filling = log->writing;
	log->writing = batch;
	log->is_busy = true;
	for (;;) {
		int why;

		pthread_mutex_unlock(&log->lock);
		why = write_at(log->fd, log->at, &batch);
		pthread_mutex_lock(&log->lock);
		if (!why)
			why = old_deleted(log);
		if (!why) {
			log->at += batch.count;
			log->state = (struct log_state){ .position = position, .mark = mark };
			break;
		}
		log->state.trouble = why;
		changed(log);
		if (!again_later(log))
			break;
	}
	log->writing.count = 0;
	log->is_busy = false;
	changed(log);
}

/* With the lock. */
static void record_put(struct log *log, uint32_t type, const uint8_t *body, uint32_t bytes)
{
	size_t at = log->filling.count;

	record_frame(&log->filling, type, body, bytes);
	if (log->filling.is_short)
		return;
	record_sum_add(&log->sum, log->filling.at + at);
	log->appended += RECORD_HEADER_BYTES + bytes;
}

/* With the lock, R-KV-27: what is written next begins with it, for nothing is written before all that is written now is
 * durable. */
static void whole_put(struct log *log)
{
	uint8_t body[8];

	if (!log->sum.bytes)
		return;
	sparse_body_put64(body, log->sum.bytes);
	record_put(log, RECORD_WHOLE, body, sizeof(body));
}

/* With the lock: until there is something to do. Also who has little to write, and rests much on it, has to know that
 * it is gone. */
static void idle(struct log *log)
{
	struct timespec until = clock_timespec(clock_ns() + AGAIN_NS);
	int trouble = log->state.trouble;

	if (pthread_cond_timedwait(&log->more, &log->lock, &until) != ETIMEDOUT ||
	    log->filling.count)
		return;
	log->state.trouble = deleted(log->fd);
	if (!log->state.trouble)
		log->state.trouble = old_deleted(log);
	if (log->state.trouble != trouble)
		changed(log);
}

static void *run(void *arg)
{
	struct log *log = arg;

	pthread_mutex_lock(&log->lock);
	for (;;) {
		while (!log->filling.count && !log->is_closing)
			idle(log);
		if (!log->filling.count)
			break;
		batch_write(log);
		if (log->is_closing && log->state.trouble)
			break;
	}
	/* The last that was written has something behind it, too. */
	if (!log->state.trouble && log->at)
		whole_put(log);
	if (log->filling.count && !log->filling.is_short && !log->state.trouble)
		batch_write(log);
	pthread_mutex_unlock(&log->lock);
	return NULL;
}

/* ---- its life ---- */

static int failed(char error[PS_ERROR_MAX], const char *path, int why)
{
	return ps_fail(error, "%.400s: %s", path, strerror(why));
}

/* What one before us has written, and could not sync, the kernel shows us as if it were on the disk, and would not bring
 * there at any sync: so it is written again. That is one write's at most. */
static int end_again(int fd, const struct record_sum *has)
{
	struct bytes end = { 0 };
	uint64_t at = has->known;
	uint8_t piece[1 << 12];
	int why = 0;

	while (at < has->bytes && !why) {
		size_t most = has->bytes - at < sizeof(piece) ? has->bytes - at : sizeof(piece);
		ssize_t got = pread(fd, piece, most, (off_t)at);

		if (got <= 0) {
			why = got ? errno : EIO;
			break;
		}
		bytes_put(&end, piece, (size_t)got);
		why = end.is_short ? ENOMEM : bytes_write(fd, at, &end);
		end.count = 0;
		at += (uint64_t)got;
	}
	bytes_fini(&end);
	return why;
}

/* What is behind the last whole record goes, and what is before it is on the disk from now on. */
static int file_open(const char *path, const struct record_sum *has, char error[PS_ERROR_MAX])
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666), why;

	if (fd < 0)
		return failed(error, path, errno);
	why = ftruncate(fd, (off_t)has->bytes) ? errno : 0;
	if (!why)
		why = end_again(fd, has);
	if (!why && fsync(fd))
		why = errno;
	if (!why)
		why = folder_sync(path);
	if (!why)
		return fd;
	close(fd);
	return failed(error, path, why);
}

int log_open(struct log **out, const struct log_options *options, char error[PS_ERROR_MAX])
{
	struct log *log = calloc(1, sizeof(*log));

	if (!log)
		return failed(error, options->path, ENOMEM);
	log->options = *options;
	log->options.path = NULL;
	if (!log->options.waiting_max)
		log->options.waiting_max = WAITING_MAX;
	log->sum = options->has;
	log->at = log->sum.bytes;
	log->fd = file_open(options->path, &log->sum, error);
	if (log->fd < 0) {
		free(log);
		return -1;
	}
	pthread_mutex_init(&log->lock, NULL);
	clock_cond_init(&log->more);
	pthread_cond_init(&log->moved, NULL);
	if (pthread_create(&log->thread, NULL, run, log)) {
		close(log->fd);
		free(log);
		return failed(error, options->path, EAGAIN);
	}
	*out = log;
	return 0;
}

void log_close(struct log *log)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	log->is_closing = true;
	pthread_cond_broadcast(&log->more);
	pthread_mutex_unlock(&log->lock);
	pthread_join(log->thread, NULL);
	log_forget(log);
	close(log->fd);
	bytes_fini(&log->filling);
	bytes_fini(&log->writing);
	pthread_cond_destroy(&log->more);
	pthread_cond_destroy(&log->moved);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

uint64_t log_append(struct log *log, uint64_t mark, uint32_t type, const uint8_t *body,
		    uint32_t bytes)
{
	uint64_t position;

	assert(bytes <= RECORD_BODY_MAX);
	pthread_mutex_lock(&log->lock);
	while (log->filling.count > log->options.waiting_max && !log->state.trouble)
		pthread_cond_wait(&log->moved, &log->lock);
	if (!log->filling.count)
		whole_put(log);
	record_put(log, type, body, bytes);
	if (log->filling.is_short) {
		/* Half a record cannot stay, and what the server is now could not be told any more. */
		fputs("tally-ps: out of memory for the log: it ends here, before anything is said "
		      "that is not on the disk\n",
		      stderr);
		_exit(1);
	}
	assert(mark >= log->mark);
	log->mark = mark;
	position = log->appended;
	pthread_cond_signal(&log->more);
	pthread_mutex_unlock(&log->lock);
	return position;
}

struct log_state log_state(struct log *log)
{
	struct log_state state;

	pthread_mutex_lock(&log->lock);
	state = log->state;
	state.appended = log->appended;
	state.is_stuck = state.trouble && log->filling.count > log->options.waiting_max;
	pthread_mutex_unlock(&log->lock);
	return state;
}

void log_forget(struct log *log)
{
	pthread_mutex_lock(&log->lock);
	while (log->old_count)
		close(log->old[--log->old_count]);
	pthread_mutex_unlock(&log->lock);
}

/* With the lock. A checkpoint that fails again and again must not take all descriptors. */
static void old_put(struct log *log, int fd)
{
	if (log->old_count == LOG_OLD_MAX) {
		close(log->old[0]);
		memmove(log->old, log->old + 1, --log->old_count * sizeof(log->old[0]));
	}
	log->old[log->old_count++] = fd;
}

int log_watch(struct log *log, const char *path, char error[PS_ERROR_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return failed(error, path, errno);
	pthread_mutex_lock(&log->lock);
	old_put(log, fd);
	pthread_mutex_unlock(&log->lock);
	return 0;
}

int log_turn(struct log *log, const char *path, struct record_sum *before, char error[PS_ERROR_MAX])
{
	int fd, why;

	/* First all of the old file: a new one says that the old one is whole. Nobody appends meanwhile but our caller. */
	pthread_mutex_lock(&log->lock);
	while ((log->filling.count || log->is_busy) && !log->state.trouble)
		pthread_cond_wait(&log->moved, &log->lock);
	/* The new one would hide for ever that this one is gone. */
	why = log->state.trouble ? log->state.trouble : deleted(log->fd);
	if (!why)
		why = old_deleted(log);
	log->state.trouble = why;
	pthread_mutex_unlock(&log->lock);
	if (why)
		return ps_fail(error, "%.400s: the log before it: %s", path, log_why(why));
	fd = file_open(path, &(struct record_sum){ 0 }, error);
	if (fd < 0) {
		/* The old one goes on. If it comes back, it is an empty one behind that. */
		unlink(path);
		return -1;
	}
	pthread_mutex_lock(&log->lock);
	old_put(log, log->fd);
	log->fd = fd;
	log->at = 0;
	*before = log->sum;
	log->sum = (struct record_sum){ 0 };
	pthread_mutex_unlock(&log->lock);
	return 0;
}
