/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.c - tally_comm_dump: what a communicator looks like from here. It is made to be called while all
 * else hangs: it takes the lock for as long as copying takes, and waits for nobody.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/comm.h"
#include "util/utf8.h"

enum {
	OUTSTANDING_MAX = 1000, /* listed; all are counted */
	WRITE_WAIT_MS = 1000,   /* for a pipe that nobody reads */
	PIPE_SAFE = 4096,       /* a pipe that is writable takes so much at once (PIPE_BUF) */
};

/* What is copied under the lock. */
struct picture {
	enum comm_state state;
	int error;
	char error_text[REPORT_TEXT_MAX];
	uint64_t now_ns, life, next_number, completed, last_complete, outstanding;
	struct control_member *members;
	struct control_waiting late;
	struct {
		struct control_op op;
		uint64_t submitted_ns;
		bool is_sent;
	} * ops;
	uint32_t ops_count;
};

static void works_take(struct picture *picture, const struct work_list *list)
{
	for (struct tally_work *work = list->first; work; work = work->next) {
		int state = atomic_load(&work->state);

		if (state == WORK_CALLING && !work->fold)
			continue; /* only its on_done is due */
		picture->outstanding++;
		if (picture->ops_count == OUTSTANDING_MAX)
			continue;
		picture->ops[picture->ops_count].op = work->op;
		picture->ops[picture->ops_count].submitted_ns = work->submitted_ns;
		picture->ops[picture->ops_count++].is_sent = state != WORK_WAITING;
	}
}

static bool picture_take(struct tally_comm *comm, struct picture *picture)
{
	*picture = (struct picture){ 0 };
	picture->members = calloc(comm->who.size, sizeof(*picture->members));
	picture->ops = calloc(OUTSTANDING_MAX, sizeof(*picture->ops));
	if (!picture->members || !picture->ops)
		return false;
	comm_lock(comm);
	picture->state = comm->state;
	picture->error = atomic_load(&comm->error);
	if (picture->error)
		strcpy(picture->error_text, comm->error_text);
	picture->now_ns = clock_ns();
	picture->next_number = comm->next_number;
	picture->completed = comm->completed;
	picture->last_complete = comm->last_complete;
	picture->late = comm->late;
	if (comm->members) {
		picture->life = comm->life;
		memcpy(picture->members, comm->members, comm->who.size * sizeof(*picture->members));
	}
	works_take(picture, &comm->folding);
	works_take(picture, &comm->calling);
	works_take(picture, &comm->outstanding);
	works_take(picture, &comm->held);
	comm_unlock(comm);
	return true;
}

static void picture_free(struct picture *picture)
{
	free(picture->members);
	free(picture->ops);
}

/* ---- as JSON; jansson answers NULL to NULL, so that a lack of memory shows at the end ---- */

static json_t *text_of(const char *bytes)
{
	char text[REPORT_TEXT_MAX];

	return json_string(utf8_copy(text, sizeof(text), bytes));
}

static json_t *number_of(uint64_t number)
{
	return json_integer((json_int_t)number);
}

static uint64_t ms_since(const struct picture *picture, uint64_t ns)
{
	return picture->now_ns > ns ? (picture->now_ns - ns) / 1000000 : 0;
}

static json_t *members_json(const struct tally_comm *comm, const struct picture *picture)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; rank < comm->who.size && picture->members[0].host[0]; rank++) {
		const struct control_member *member = &picture->members[rank];

		json_array_append_new(list, json_pack("{s:I, s:o, s:I}", "rank", (json_int_t)rank,
						      "host", text_of(member->host), "pid",
						      (json_int_t)member->pid));
	}
	return list;
}

static json_t *outstanding_json(const struct picture *picture)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < picture->ops_count; i++) {
		const struct control_op *op = &picture->ops[i].op;
		char what[96];

		json_array_append_new(
			list,
			json_pack("{s:o, s:s, s:o, s:s, s:b, s:o}", "number", number_of(op->number),
				  "what", report_op(op, what), "name", text_of(op->name), "stream",
				  op->stream == MAP_EXPRESS ? "express" : "bulk", "is_sent",
				  picture->ops[i].is_sent, "since_ms",
				  number_of(ms_since(picture, picture->ops[i].submitted_ns))));
	}
	return list;
}

/* null: nobody is missing, as far as the aggregator has told. What is complete is not missed any more. */
static json_t *missing_json(const struct tally_comm *comm, const struct picture *picture)
{
	const struct control_waiting *late = &picture->late;
	json_t *ranks;

	if (!late->text[0] || !picture->ops_count || late->number < picture->ops[0].op.number)
		return json_null();
	ranks = json_array();
	for (uint32_t i = 0; i < late->listed_count && i < CONTROL_MISSING_MAX; i++) {
		uint32_t rank = late->missing[i];

		json_array_append_new(
			ranks, json_pack("{s:I, s:o}", "rank", (json_int_t)rank, "host",
					 text_of(rank < comm->who.size ? picture->members[rank].host
								       : "")));
	}
	return json_pack("{s:o, s:I, s:I, s:o, s:o}", "number", number_of(late->number),
			 "waited_ms", (json_int_t)late->waited_ms, "count",
			 (json_int_t)late->missing_count, "ranks", ranks, "text",
			 text_of(late->text));
}

static json_t *stats_json(struct tally_comm *comm)
{
	struct tally_stats s = TALLY_STATS_INIT;
	json_t *stats = json_object();

	if (tally_comm_get_stats(comm, &s))
		return stats;
#define STAT(name) json_object_set_new(stats, #name, number_of(s.name))
	STAT(operations), STAT(elements), STAT(packets_out), STAT(packets_in);
	STAT(packets_resent), STAT(results_ignored), STAT(probes), STAT(exponent_rounds),
		STAT(guess_rounds), STAT(guesses_again);
	STAT(detail_rounds), STAT(chunks_express), STAT(chunks_bulk), STAT(saturated);
	STAT(bytes_out), STAT(bytes_in), STAT(packets_bad), STAT(window), STAT(srtt_us);
	STAT(lanes), STAT(shards), STAT(slots), STAT(run), STAT(gathered);
	STAT(window_yields), STAT(window_losses), STAT(window_presses), STAT(shared);
#undef STAT
	return stats;
}

static json_t *dump_json(struct tally_comm *comm, const struct picture *picture)
{
	/* clang-format off */
	static const char *const states[] = {
		[COMM_JOINING] = "joining", [COMM_RUNNING] = "running",
		[COMM_LEAVING] = "leaving", [COMM_LEFT] = "left",
	};
	/* clang-format on */
	char life[17];

	snprintf(life, sizeof(life), "%016llx", (unsigned long long)picture->life);
	return json_pack(
		"{s:s, s:o, s:s, s:I, s:I, s:o, s:I, s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o}",
		"tally", TALLY_VERSION, "job", text_of(comm->who.job), "life", life, "rank",
		(json_int_t)comm->who.rank, "size", (json_int_t)comm->who.size, "host",
		text_of(comm->who.host), "pid", (json_int_t)getpid(), "aggregator",
		text_of(comm->boot.is_local ? "local" : comm->boot.aggregator), "state",
		picture->error ? "broken" : states[picture->state], "result",
		(json_int_t)picture->error, "error",
		picture->error ? text_of(picture->error_text) : json_null(), "members",
		members_json(comm, picture), "submitted", number_of(picture->next_number),
		"complete", number_of(picture->completed), "outstanding_count",
		number_of(picture->outstanding), "outstanding", outstanding_json(picture),
		"missing", missing_json(comm, picture), "stats", stats_json(comm));
}

/* NULL: out of memory. */
static json_t *one_json(struct tally_comm *comm)
{
	struct picture picture;
	json_t *json = NULL;

	if (picture_take(comm, &picture))
		json = dump_json(comm, &picture);
	picture_free(&picture);
	return json;
}

/* With its pairs, which are as it is. */
static json_t *whole_json(struct tally_comm *comm)
{
	json_t *json = one_json(comm), *pairs = json_array();
	struct tally_comm *pair;

	comm_lock(comm);
	pair = comm->pairs;
	comm_unlock(comm);
	for (; pair; pair = pair->next_pair)
		if (json_array_append_new(pairs, one_json(pair)))
			break;
	if (json_object_set_new(json, "pairs", pairs) || pair) {
		json_decref(json);
		return NULL;
	}
	return json;
}

/* ---- out ---- */

/* 0 or an errno, of which EPIPE comes with no signal. A descriptor that does not take it has a second, be it blocking or not. */
static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		struct pollfd writable = { .fd = fd, .events = POLLOUT };
		size_t some = bytes < PIPE_SAFE ? bytes : PIPE_SAFE;
		ssize_t written;

		if (poll(&writable, 1, WRITE_WAIT_MS) == 0)
			return ETIMEDOUT;
		written = write(fd, text, some);
		if (written < 0 && errno != EINTR && errno != EAGAIN)
			return errno;
		if (written > 0) {
			text += written;
			bytes -= (size_t)written;
		}
	}
	return 0;
}

static int dump_write(int fd, const char *text)
{
	struct report_pipe guard;
	int error;

	report_pipe_begin(&guard);
	error = write_all(fd, text, strlen(text));
	if (!error)
		error = write_all(fd, "\n", 1);
	report_pipe_end(&guard, error == EPIPE);
	return error;
}

int tally_comm_dump(struct tally_comm *comm, int fd)
{
	int result = comm_check(comm, "tally_comm_dump"), error;
	json_t *json;
	char *text = NULL;

	if (result)
		return result;
	if (fd < 0)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT, "tally_comm_dump: fd %d", fd);
	json = whole_json(comm);
	if (json)
		text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	if (!text)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "tally_comm_dump: out of memory");
	error = dump_write(fd, text);
	free(text);
	return error ? report_error(&comm->who, TALLY_ERR_SYSTEM,
				    "tally_comm_dump: writing to descriptor %d: %s", fd,
				    strerror(error))
		     : TALLY_OK;
}
