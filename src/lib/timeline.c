/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c - see timeline.h. */
#include "lib/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/bootstrap.h"
#include "lib/wake.h"
#include "util/clock.h"
#include "util/utf8.h"

enum {
	RING = 4096,        /* operations that wait to be written */
	DUE_MS = 100,       /* for the first of them */
	TEXT_BYTES = 32768, /* one write */
	LINE_BYTES = 2048,  /* of one event: its longest text is a job's or an operation's name */
};

struct timeline {
	struct timeline *next;
	char path[BOOTSTRAP_TIMELINE_BYTES];
	struct report_who who; /* of the first communicator */
	uint32_t users, comms;

	pthread_mutex_t lock; /* of the ring: held for a copy, never while writing */
	struct timeline_op *ring;
	uint32_t first, count;
	uint64_t since_ns; /* the oldest waits */
	uint64_t dropped;

	/* Of whoever holds `timelines.lock`. */
	int fd;
	off_t end;        /* of the last event: what follows is "]", and is written over */
	uint64_t real_ns; /* wall clock minus CLOCK_MONOTONIC: hosts' files fit together */
	bool is_broken;
	char text[TEXT_BYTES];
	size_t used;
};

static struct {
	pthread_mutex_t lock; /* taken before a timeline's own */
	struct timeline *first;
} timelines = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- writing ---- */

static void broken(struct timeline *timeline, int error)
{
	timeline->is_broken = true;
	report_log(&timeline->who, TALLY_LOG_WARN,
		   "the timeline %s ends here: %s; operations go on without it", timeline->path,
		   strerror(error));
}

/* What has been collected, and the end of the array, over the one before. */
static void text_flush(struct timeline *timeline)
{
	static const char close_text[] = "\n]\n";
	size_t done = 0, all;

	if (!timeline->used)
		return;
	memcpy(timeline->text + timeline->used, close_text, sizeof(close_text) - 1);
	all = timeline->used + sizeof(close_text) - 1;
	while (done < all) {
		ssize_t some = pwrite(timeline->fd, timeline->text + done, all - done,
				      timeline->end + (off_t)done);

		if (some < 0 && errno == EINTR)
			continue;
		if (some <= 0) {
			/* What is there must stay whole. */
			int error = some < 0 ? errno : ENOSPC;

			if (!ftruncate(timeline->fd, timeline->end) && timeline->end)
				(void)!pwrite(timeline->fd, close_text, sizeof(close_text) - 1,
					      timeline->end);
			broken(timeline, error);
			timeline->used = 0;
			return;
		}
		done += (size_t)some;
	}
	timeline->end += (off_t)timeline->used;
	timeline->used = 0;
}

/* Takes the event over. */
static void event_write(struct timeline *timeline, json_t *event)
{
	char line[LINE_BYTES];
	size_t bytes = event ? json_dumpb(event, line, sizeof(line), JSON_COMPACT) : 0;

	json_decref(event);
	if (!bytes || bytes > sizeof(line) || timeline->is_broken)
		return; /* out of memory: one event less */
	if (timeline->used + bytes + 8 > TEXT_BYTES)
		text_flush(timeline);
	memcpy(timeline->text + timeline->used,
	       timeline->end + (off_t)timeline->used ? ",\n" : "[\n", 2);
	memcpy(timeline->text + timeline->used + 2, line, bytes);
	timeline->used += bytes + 2;
}

static json_int_t us_of(const struct timeline *timeline, uint64_t ns)
{
	return (json_int_t)((timeline->real_ns + ns) / 1000);
}

/* Operations overlap: each is an asynchronous event with an id of its own. */
static json_t *step(const struct timeline *timeline, const struct timeline_op *done,
		    const char *phase, const char *name, uint64_t ns, json_t *args)
{
	char id[48];

	snprintf(id, sizeof(id), "%u.%u.%llu", timeline->who.rank, done->comm,
		 (unsigned long long)done->op.number);
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "ph", phase, "cat",
			 report_kinds[done->op.kind], "id", id, "name", name, "pid",
			 (json_int_t)timeline->who.rank, "tid",
			 (json_int_t)(2 * done->comm + (done->op.stream == MAP_EXPRESS ? 0 : 1)),
			 "ts", us_of(timeline, ns), "args", args ? args : json_object());
}

static void op_write(struct timeline *timeline, const struct timeline_op *done)
{
	char what[96], safe[CONTROL_OP_NAME_BYTES];
	const char *name;

	report_op(&done->op, what);
	utf8_copy(safe, sizeof(safe), done->op.name);
	name = safe[0] ? safe : what;
	event_write(timeline, step(timeline, done, "b", name, done->submitted_ns,
				   json_pack("{s:I, s:s, s:I, s:s, s:s}", "number",
					     (json_int_t)done->op.number, "what", what, "elements",
					     (json_int_t)done->op.count, "stream",
					     done->op.stream == MAP_EXPRESS ? "express" : "bulk",
					     "result", tally_strerror(done->result))));
	if (done->first_ns)
		event_write(timeline,
			    step(timeline, done, "n", "first packet", done->first_ns, NULL));
	event_write(timeline, step(timeline, done, "e", name, done->complete_ns, NULL));
}

/* Of the process, or of a thread, which here is one stream of a communicator. */
static void name_write(struct timeline *timeline, const char *what, uint32_t thread,
		       const char *whose, uint32_t rank, const char *stream)
{
	char name[BOOTSTRAP_JOB_MAX + 100], safe[sizeof(name)];

	snprintf(name, sizeof(name), "%s, rank %u%s", whose, rank, stream);
	utf8_copy(safe, sizeof(safe), name);
	event_write(timeline, json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", what,
					"pid", (json_int_t)timeline->who.rank, "tid",
					(json_int_t)thread, "args", "name", safe));
}

/* timelines.lock is held. */
static void ring_write(struct timeline *timeline)
{
	struct timeline_op op;
	uint64_t dropped;
	bool has_one = true;

	while (has_one) {
		pthread_mutex_lock(&timeline->lock);
		has_one = timeline->count > 0;
		if (has_one) {
			op = timeline->ring[timeline->first];
			timeline->first = (timeline->first + 1) % RING;
			timeline->count--;
		}
		dropped = timeline->dropped;
		timeline->dropped = 0;
		pthread_mutex_unlock(&timeline->lock);
		if (dropped)
			event_write(timeline,
				    json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:{s:I}}", "ph", "i",
					      "s", "p", "name", "operations left out", "pid",
					      (json_int_t)timeline->who.rank, "tid", (json_int_t)0,
					      "ts", us_of(timeline, clock_ns()), "args", "count",
					      (json_int_t)dropped));
		if (has_one)
			op_write(timeline, &op);
	}
	text_flush(timeline);
}

/* ---- open and close ---- */

static struct timeline *timeline_make(const struct report_who *who, const char *path)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));
	struct timespec real;

	if (timeline)
		timeline->ring = calloc(RING, sizeof(*timeline->ring));
	if (!timeline || !timeline->ring)
		goto free_timeline;
	timeline->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (timeline->fd < 0)
		goto free_timeline;
	snprintf(timeline->path, sizeof(timeline->path), "%s", path);
	timeline->who = *who;
	clock_gettime(CLOCK_REALTIME, &real);
	timeline->real_ns =
		(uint64_t)real.tv_sec * 1000000000 + (uint64_t)real.tv_nsec - clock_ns();
	pthread_mutex_init(&timeline->lock, NULL);
	name_write(timeline, "process_name", 0, who->host, who->rank, "");
	return timeline;

free_timeline:
	report_log(who, TALLY_LOG_WARN, "there will be no timeline %s: %s", path,
		   timeline && timeline->ring ? strerror(errno) : "out of memory");
	if (timeline)
		free(timeline->ring);
	free(timeline);
	return NULL;
}

struct timeline *timeline_open(const struct report_who *who, const char *path, uint32_t *comm)
{
	struct timeline *timeline;

	if (!path[0])
		return NULL;
	pthread_mutex_lock(&timelines.lock);
	for (timeline = timelines.first; timeline && strcmp(timeline->path, path);
	     timeline = timeline->next)
		;
	if (!timeline) {
		timeline = timeline_make(who, path);
		if (timeline) {
			timeline->next = timelines.first;
			timelines.first = timeline;
		}
	}
	if (timeline) {
		timeline->users++;
		*comm = timeline->comms++;
		name_write(timeline, "thread_name", 2 * *comm, who->job, who->rank, ": express");
		name_write(timeline, "thread_name", 2 * *comm + 1, who->job, who->rank, ": bulk");
		text_flush(timeline);
	}
	pthread_mutex_unlock(&timelines.lock);
	return timeline;
}

void timeline_close(struct timeline *timeline)
{
	struct timeline **at = &timelines.first;

	if (!timeline)
		return;
	pthread_mutex_lock(&timelines.lock);
	ring_write(timeline);
	if (--timeline->users == 0) {
		while (*at != timeline)
			at = &(*at)->next;
		*at = timeline->next;
		close(timeline->fd);
		pthread_mutex_destroy(&timeline->lock);
		free(timeline->ring);
		free(timeline);
	}
	pthread_mutex_unlock(&timelines.lock);
}

void timeline_add(struct timeline *timeline, const struct timeline_op *op)
{
	bool is_filling;

	pthread_mutex_lock(&timeline->lock);
	if (timeline->count == RING) {
		timeline->dropped++;
	} else {
		if (!timeline->count)
			timeline->since_ns = op->complete_ns;
		timeline->ring[(timeline->first + timeline->count++) % RING] = *op;
	}
	is_filling = timeline->count == RING / 2;
	pthread_mutex_unlock(&timeline->lock);
	if (is_filling)
		wake_background();
}

void timeline_service(uint64_t now_ns)
{
	pthread_mutex_lock(&timelines.lock);
	for (struct timeline *timeline = timelines.first; timeline; timeline = timeline->next) {
		bool is_due;

		pthread_mutex_lock(&timeline->lock);
		is_due = timeline->count >= RING / 2 ||
			 (timeline->count && now_ns >= timeline->since_ns + DUE_MS * 1000000ull);
		pthread_mutex_unlock(&timeline->lock);
		if (is_due)
			ring_write(timeline);
	}
	pthread_mutex_unlock(&timelines.lock);
}

void timeline_fork_prepare(void)
{
	pthread_mutex_lock(&timelines.lock);
}

void timeline_fork_parent(void)
{
	pthread_mutex_unlock(&timelines.lock);
}

void timeline_fork_child(void)
{
	timelines.first = NULL; /* the parent's: what it writes into them is its own business */
	pthread_mutex_unlock(&timelines.lock);
}
