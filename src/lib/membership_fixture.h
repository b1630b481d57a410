/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membership_fixture.h - for tests of membership.c and membership_do.c: a communicator with three aggregators that is a
 * struct. What the machines answer, what comes over the connections, memory and time are the test's; what is asked of
 * them is noted.
 * Included once in a program, which wraps what is defined here as __wrap_.
 */
#ifndef LIB_MEMBERSHIP_FIXTURE_H
#define LIB_MEMBERSHIP_FIXTURE_H

#include "lib/seat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/paths.h"

/* No test uses all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { SEATS = 3, QUEUE = 80, STEPS_MAX = 128, FD_BASE = 900 };

static const uint64_t second_ns = 1000000000, begin_ns = 77000000000;

struct conn { /* nobody but the wraps below looks into one */
	uint32_t seat;
};

static struct {
	struct tally_comm comm;
	struct membership membership;
	struct codec codec;
	struct conn conns[SEATS + 1];

	/* What is played. */
	struct {
		struct member_actions answers[8]; /* of its machine, in turn; then: nothing to do */
		uint32_t answers_count, answers_taken;
		struct {
			enum conn_result result;
			struct control_message message;
		} reads[QUEUE]; /* in turn; then CONN_NONE */
		uint32_t reads_count, reads_taken;
	} seat[SEATS];
	int connect_error, send_error, start_error, open_result;
	const char *conn_text;
	bool is_short;  /* of memory */
	bool is_locked; /* the communicator is */
	struct endpoint_welcome welcomes[16];
	uint32_t welcomes_count;

	/* What is noted. */
	struct {
		uint32_t seat;
		struct member_event event;
		char text[CONTROL_TEXT_BYTES]; /* "": NULL */
		enum control_type message;
	} steps[STEPS_MAX];
	uint32_t steps_count;
	uint32_t connects, address_turns, froms, closes, sends, hellos, starts, notifies, breaks,
		late_looks, expires;
	uint64_t connect_ns, timeout_ns, last_words_ns;
	uint32_t last_words, hello_shard, hello_serial, hello_lanes, start_lanes, opens;
	struct control_message sent;
	struct control_op sent_ops[CONTROL_OPS_MAX];
	int break_result;
	uint32_t break_after; /* so many steps */
	char break_text[REPORT_TEXT_MAX];
	struct paths_grant grants[SEATS];
	int log_level;
	uint32_t log_lines;
	char log[1024]; /* the last line */
} test;

static struct endpoint *endpoint(void)
{
	return (struct endpoint *)(void *)&test.membership; /* any place will do */
}

static struct seat *seat(uint32_t i)
{
	return &test.membership.seats[i];
}

static uint32_t seat_idx(const struct member *member)
{
	for (uint32_t i = 0; i < SEATS; i++)
		if (member == &seat(i)->member)
			return i;
	fail_msg("a machine that no seat has");
	return SEATS;
}

/* ---- the machine ---- */

void __wrap_member_step(struct member *member, const struct member_config *config,
			const struct member_event *event, struct member_actions *actions);

void __wrap_member_step(struct member *member, const struct member_config *config,
			const struct member_event *event, struct member_actions *actions)
{
	uint32_t i = seat_idx(member);

	assert_false(test.is_locked);
	assert_ptr_equal(config, &seat(i)->config);
	assert_ptr_equal(actions, &seat(i)->actions);
	assert_true(test.steps_count < STEPS_MAX);
	test.steps[test.steps_count].seat = i;
	test.steps[test.steps_count].event = *event;
	test.steps[test.steps_count].message = event->message ? event->message->type
							      : CONTROL_NOTHING;
	snprintf(test.steps[test.steps_count].text, CONTROL_TEXT_BYTES, "%s",
		 event->text ? event->text : "");
	test.steps_count++;
	memset(actions, 0, sizeof(*actions));
	actions->wake_ns = UINT64_MAX;
	if (test.seat[i].answers_taken < test.seat[i].answers_count)
		*actions = test.seat[i].answers[test.seat[i].answers_taken++];
}

/* The seat's next answer, to be filled in. */
static struct member_actions *answer(uint32_t i)
{
	struct member_actions *the = &test.seat[i].answers[test.seat[i].answers_count++];

	assert_true(test.seat[i].answers_count <= 8);
	the->wake_ns = UINT64_MAX;
	return the;
}

/* The seat's next answer is to do this. */
static struct member_actions *answer_do(uint32_t i, struct member_action action)
{
	struct member_actions *the = answer(i);

	the->list[the->count++] = action;
	return the;
}

static void step_is(uint32_t at, uint32_t i, enum member_event_type type)
{
	assert_true(at < test.steps_count);
	assert_int_equal(test.steps[at].seat, i);
	assert_int_equal(test.steps[at].event.type, type);
}

/* One more, and no other since. */
static void step_last_is(uint32_t count, uint32_t i, enum member_event_type type)
{
	assert_int_equal(test.steps_count, count);
	step_is(count - 1, i, type);
}

/* Says an event to a seat's machine; what it answers is done. */
static void tell(uint32_t i, enum member_event_type type, uint64_t now_ns)
{
	struct member_event event = { .type = type, .now_ns = now_ns };

	membership_do(&test.comm, seat(i), &test.codec, &event);
}

/* ---- connections ---- */

int __wrap_conn_connect(struct conn **conn, const struct conn_address *address, uint64_t now_ns,
			uint64_t timeout_ns);
enum conn_result __wrap_conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
				  struct control_message *message);
int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);
void __wrap_conn_close(struct conn *conn);
void __wrap_conn_last_words(struct conn *conn, uint64_t now_ns);
int __wrap_conn_fd(const struct conn *conn);
short __wrap_conn_events(const struct conn *conn);
uint64_t __wrap_conn_deadline(const struct conn *conn);
const char *__wrap_conn_text(const struct conn *conn);
void __wrap_conn_address_next(struct conn_address *address);
bool __wrap_paths_from(struct bootstrap *boot, struct conn_address *address, char *why,
		       size_t bytes);
uint32_t __wrap_paths_mtu(const struct conn_address *address);
int __wrap_paths_open(struct tally_comm *comm, const struct paths_grant *grants, uint32_t count,
		      uint16_t *lanes, char text[CONTROL_TEXT_BYTES]);
bool __wrap_paths_is_v6(const struct tally_comm *comm);

int __wrap_conn_connect(struct conn **conn, const struct conn_address *address, uint64_t now_ns,
			uint64_t timeout_ns)
{
	test.connects++;
	test.connect_ns = now_ns;
	test.timeout_ns = timeout_ns;
	for (uint32_t i = 0; i < SEATS && !test.connect_error; i++)
		if (address == &seat(i)->address)
			*conn = &test.conns[i];
	return test.connect_error;
}

enum conn_result __wrap_conn_read(struct conn *conn, uint64_t now_ns, struct codec *codec,
				  struct control_message *message)
{
	uint32_t i = conn->seat;

	assert_true(i < test.membership.seats_count);
	(void)now_ns;
	assert_ptr_equal(codec, &test.codec);
	if (test.seat[i].reads_taken == test.seat[i].reads_count)
		return CONN_NONE;
	*message = test.seat[i].reads[test.seat[i].reads_taken].message;
	return test.seat[i].reads[test.seat[i].reads_taken++].result;
}

int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	assert_false(test.is_locked);
	assert_non_null(conn);
	assert_ptr_equal(codec, &test.codec);
	test.sends++;
	test.sent = *message;
	if (message->type == CONTROL_OPINFO && message->opinfo.ops)
		memcpy(test.sent_ops, message->opinfo.ops,
		       message->opinfo.ops_count * sizeof(test.sent_ops[0]));
	return test.send_error;
}

void __wrap_conn_close(struct conn *conn)
{
	test.closes += conn != NULL;
}

void __wrap_conn_last_words(struct conn *conn, uint64_t now_ns)
{
	assert_non_null(conn);
	test.last_words++;
	test.last_words_ns = now_ns;
}

int __wrap_conn_fd(const struct conn *conn)
{
	return FD_BASE + (int)conn->seat;
}

short __wrap_conn_events(const struct conn *conn)
{
	return (short)(conn->seat + 1);
}

/* The later, the lower the seat. */
uint64_t __wrap_conn_deadline(const struct conn *conn)
{
	return begin_ns + (50 - conn->seat) * second_ns;
}

const char *__wrap_conn_text(const struct conn *conn)
{
	assert_non_null(conn);
	return test.conn_text;
}

void __wrap_conn_address_next(struct conn_address *address)
{
	(void)address;
	test.address_turns++;
}

bool __wrap_paths_from(struct bootstrap *boot, struct conn_address *address, char *why,
		       size_t bytes)
{
	test.froms++;
	(void)address;
	assert_ptr_equal(boot, &test.comm.boot);
	assert_true(bytes > 0);
	why[0] = 0;
	return true;
}

uint32_t __wrap_paths_mtu(const struct conn_address *address)
{
	(void)address;
	return 1300 + test.address_turns;
}

int __wrap_paths_open(struct tally_comm *comm, const struct paths_grant *grants, uint32_t count,
		      uint16_t *lanes, char text[CONTROL_TEXT_BYTES])
{
	assert_ptr_equal(comm, &test.comm);
	assert_int_equal(count, test.membership.seats_count);
	memcpy(test.grants, grants, count * sizeof(*grants));
	test.opens++;
	*lanes = 248;
	strcpy(text, "no paths");
	return test.open_result;
}

bool __wrap_paths_is_v6(const struct tally_comm *comm)
{
	assert_ptr_equal(comm, &test.comm);
	return true;
}

/* The seat has a connection. */
static void connect_seat(uint32_t i)
{
	seat(i)->conn = &test.conns[i];
	atomic_store(&seat(i)->fd, FD_BASE + (int)i);
}

/* Next, this comes over the seat's connection; the message is to be filled in. */
static struct control_message *comes(uint32_t i, enum conn_result result, enum control_type type)
{
	assert_true(test.seat[i].reads_count < QUEUE);
	test.seat[i].reads[test.seat[i].reads_count].result = result;
	test.seat[i].reads[test.seat[i].reads_count].message.type = type;
	return &test.seat[i].reads[test.seat[i].reads_count++].message;
}

/* ---- the endpoint, and the rest of the communicator ---- */

void __wrap_endpoint_hello(struct endpoint *its, uint32_t shard, uint32_t serial, uint32_t lanes);
int __wrap_endpoint_start(struct endpoint *its, uint32_t lanes);
void __wrap_endpoint_stats(const struct endpoint *its, struct endpoint_stats *stats);
uint32_t __wrap_endpoint_welcomes(struct endpoint *its, struct endpoint_welcome *welcomes,
				  uint32_t max);
void __wrap_comm_lock(struct tally_comm *comm);
void __wrap_comm_unlock(struct tally_comm *comm);
void __wrap_wake_waiters(struct tally_comm *comm);
void __wrap_comm_break(struct tally_comm *comm, int result, const char *text);
void __wrap_late_look(struct tally_comm *comm, struct codec *codec, uint64_t now_ns);
void __wrap_late_expire(struct tally_comm *comm, struct codec *codec, uint64_t now_ns);
void __wrap_stray_look(struct tally_comm *comm, uint64_t now_ns);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);

void __wrap_comm_lock(struct tally_comm *comm)
{
	assert_ptr_equal(comm, &test.comm);
	assert_false(test.is_locked);
	test.is_locked = true;
}

void __wrap_comm_unlock(struct tally_comm *comm)
{
	assert_ptr_equal(comm, &test.comm);
	assert_true(test.is_locked);
	test.is_locked = false;
}

void __wrap_endpoint_hello(struct endpoint *its, uint32_t shard, uint32_t serial, uint32_t lanes)
{
	assert_true(test.is_locked);
	assert_ptr_equal(its, endpoint());
	test.hellos++;
	test.hello_shard = shard;
	test.hello_serial = serial;
	test.hello_lanes = lanes;
}

int __wrap_endpoint_start(struct endpoint *its, uint32_t lanes)
{
	assert_true(test.is_locked);
	assert_ptr_equal(its, endpoint());
	test.starts++;
	test.start_lanes = lanes;
	return test.start_error;
}

void __wrap_endpoint_stats(const struct endpoint *its, struct endpoint_stats *stats)
{
	assert_ptr_equal(its, endpoint());
	memset(stats, 0, sizeof(*stats));
	stats->window = 33;
}

uint32_t __wrap_endpoint_welcomes(struct endpoint *its, struct endpoint_welcome *welcomes,
				  uint32_t max)
{
	uint32_t count = test.welcomes_count;

	assert_true(test.is_locked);
	assert_ptr_equal(its, endpoint());
	assert_int_equal(max, 16);
	memcpy(welcomes, test.welcomes, count * sizeof(*welcomes));
	test.welcomes_count = 0;
	return count;
}

void __wrap_wake_waiters(struct tally_comm *comm)
{
	assert_true(test.is_locked);
	assert_ptr_equal(comm, &test.comm);
	test.notifies++;
}

void __wrap_comm_break(struct tally_comm *comm, int result, const char *text)
{
	assert_true(test.is_locked);
	assert_ptr_equal(comm, &test.comm);
	test.breaks++;
	test.break_result = result;
	test.break_after = test.steps_count;
	snprintf(test.break_text, sizeof(test.break_text), "%s", text);
}

void __wrap_late_look(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	(void)now_ns;
	assert_ptr_equal(comm, &test.comm);
	assert_ptr_equal(codec, &test.codec);
	test.late_looks++;
}

void __wrap_late_expire(struct tally_comm *comm, struct codec *codec, uint64_t now_ns)
{
	(void)now_ns;
	assert_ptr_equal(comm, &test.comm);
	assert_ptr_equal(codec, &test.codec);
	test.expires++;
}

void __wrap_stray_look(struct tally_comm *comm, uint64_t now_ns)
{
	(void)now_ns;
	assert_ptr_equal(comm, &test.comm);
}

void *__wrap_malloc(size_t bytes)
{
	return test.is_short ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return test.is_short ? NULL : __real_calloc(count, bytes);
}

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	test.log_lines++;
	test.log_level = level;
	snprintf(test.log, sizeof(test.log), "%s", line);
}

static void heard(int level, const char *words)
{
	assert_int_equal(test.log_level, level);
	if (!strstr(test.log, words))
		fail_msg("no \"%s\" in: %s", words, test.log);
}

/* Rank 2 of 4, at three aggregators of 1, 2 and 1 shards. */
static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.comm.who = (struct report_who){ .job = "circle", .host = "h2", .rank = 2, .size = 4 };
	strcpy(test.comm.boot.aggregator, "a:1,b:2,c:3");
	test.comm.membership = &test.membership;
	atomic_store(&test.comm.deadline_ns, UINT64_MAX);
	test.membership.seats_count = SEATS;
	test.conn_text = "";
	for (uint32_t i = 0; i < SEATS; i++) {
		test.conns[i].seat = i;
		snprintf(seat(i)->address.text, sizeof(seat(i)->address.text), "%c:%u", 'a' + i,
			 1 + i);
		atomic_store(&seat(i)->fd, -1);
		seat(i)->config = (struct member_config)MEMBER_CONFIG_DEFAULT;
		seat(i)->config.join = &seat(i)->join;
		seat(i)->is_begun = true;
		seat(i)->shards_first = i == 2 ? 3 : i;
		seat(i)->shards_count = i == 1 ? 2 : 1;
		seat(i)->tick_ns = seat(i)->actions.wake_ns = UINT64_MAX;
	}
	/* What is behind the last seat is nobody's: whoever looks there finds something. */
	test.conns[SEATS].seat = SEATS;
	seat(SEATS)->is_begun = true;
	seat(SEATS)->member.state = MEMBER_RUN;
	seat(SEATS)->conn = &test.conns[SEATS];
	seat(SEATS)->lanes = 4;
	seat(SEATS)->shards_count = 9;
	assert_int_equal(tally_set_log(TALLY_LOG_DEBUG, hear, NULL), TALLY_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(test.comm.members);
	return tally_set_log(0, NULL, NULL);
}

#endif
