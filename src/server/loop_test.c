/* SPDX-License-Identifier: Apache-2.0 */
/* loop_test.c - the aggregator's loop: how long it sleeps, whose turn it is and for how long, and how it drains, stops
 * and breaks. The time, epoll, and all that has a turn are the test's. */
#include "server/inside_fixture.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { TURNS_MAX = 80, PEER = 4, SHARD_EVENTS_MAX = 8 };

static const uint64_t never = UINT64_MAX;

/* What epoll finds, turn by turn; then it breaks. */
static struct {
	struct turn {
		uint64_t takes_ns;
		uint32_t count;
		uint32_t what; /* each of them */
		int error;     /* an errno */
	} turn[TURNS_MAX];
	uint32_t count, waits;
	int timeout_ms[TURNS_MAX + 1];

	uint64_t jobs_ns, tables_ns; /* when these want to be woken */
	bool is_busy;
	uint32_t ends_after; /* jobs are idle once they have been ticked so often */
	uint64_t read_ns;    /* that peer_read takes */
	uint32_t reads, ticks, drains, ended, events;
	uint64_t more_until_ns;
	struct shard_event event[2][SHARD_EVENTS_MAX];
	bool is_late; /* shard 1 tells more just after it was looked at */
	uint32_t events_count[2], event_next[2];
	char done[1024]; /* in words, in order */
	char heard[512]; /* by jobs and tables: likewise */
} loop;

static void did(const char *word)
{
	assert_true(strlen(loop.done) + strlen(word) < sizeof(loop.done));
	strcat(loop.done, word);
}

static void hear(const char *word)
{
	assert_true(strlen(loop.heard) + strlen(word) < sizeof(loop.heard));
	strcat(loop.heard, word);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event);
void __wrap_peers_accept(struct server *server, uint64_t now_ns);
void __wrap_peers_local_last(struct server *server, uint64_t now_ns);
void __wrap_peer_read(struct server *server, struct peer *peer, uint64_t now_ns);
void __wrap_peers_end_broken(struct server *server);
void __wrap_peers_read_more(struct server *server, uint64_t now_ns);
void __wrap_peers_sweep(struct server *server, uint64_t now_ns);
void __wrap_peers_last_words(struct server *server, uint64_t now_ns);
void __wrap_jobs_tick(struct server *server, uint64_t now_ns);
void __wrap_jobs_tell(struct server *server, enum admission_event_type type);
void __wrap_jobs_drain(struct server *server);
uint64_t __wrap_jobs_wake_ns(const struct server *server);
bool __wrap_jobs_are_idle(const struct server *server);
void __wrap_jobs_unite(struct server *server, uint64_t now_ns);
void __wrap_crossed_tick(struct server *server, uint64_t now_ns);
void __wrap_tables_tick(struct server *server, uint64_t now_ns);
uint64_t __wrap_tables_wake_ns(const struct server *server);
void __wrap_tables_abort(struct server *server, int shard, bool is_ending, const char *text);
void __wrap_holders_say(struct server *server);
void __wrap_server_reload_asked(struct server *server);
bool __wrap_shard_receive(struct shard *shard, struct shard_event *event);
void __wrap_table_shard_ack(struct server *server, const struct shard_event *ack);
void __wrap_job_shard_event(struct server *server, uint32_t shard, const struct shard_event *event);
void __wrap_server_say_report(struct server *server, uint32_t shard);
void __wrap_server_say_refused(struct server *server, uint32_t shard,
			       const struct engine_event *notice);
void __wrap_server_say_hook(struct server *server, uint32_t shard, const struct hook_news *news);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	now->tv_sec = (time_t)(test.now_ns / second_ns);
	now->tv_nsec = (long)(test.now_ns % second_ns);
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	const struct turn *turn = &loop.turn[loop.waits];

	assert_int_equal(fd, 77);
	assert_ptr_equal(events, test.server.events);
	assert_int_equal(max, SERVER_EVENTS);
	loop.timeout_ms[loop.waits] = timeout_ms;
	if (loop.waits++ == loop.count || turn->error) {
		errno = turn->error ? turn->error : EIO;
		return -1;
	}
	test.now_ns += turn->takes_ns;
	for (uint32_t i = 0; i < turn->count; i++)
		events[i].data.u32 = turn->what;
	return (int)turn->count;
}

int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event)
{
	assert_int_equal(epoll_fd, 77);
	assert_int_equal(how, EPOLL_CTL_MOD);
	assert_int_equal(fd, 78);
	assert_int_equal(event->data.u32, READY_LISTEN);
	did(event->events == EPOLLIN ? "listen " : "deaf ");
	return 0;
}

static void turn_of(struct server *server, uint64_t now_ns, const char *word)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(now_ns, test.now_ns);
	did(word);
}

void __wrap_peers_accept(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "accept ");
}

void __wrap_peers_local_last(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "local ");
}

void __wrap_peer_read(struct server *server, struct peer *peer, uint64_t now_ns)
{
	(void)now_ns;
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[PEER]);
	test.now_ns += loop.read_ns;
	loop.reads++;
}

void __wrap_peers_end_broken(struct server *server)
{
	turn_of(server, test.now_ns, "broken ");
}

void __wrap_peers_read_more(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "more ");
	loop.more_until_ns = server->turn_end_ns;
	server->has_some_more = false;
}

void __wrap_peers_sweep(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "sweep ");
}

void __wrap_peers_last_words(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "words ");
}

void __wrap_jobs_tick(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "jobs ");
	if (++loop.ticks == loop.ends_after)
		loop.is_busy = false;
}

void __wrap_jobs_tell(struct server *server, enum admission_event_type type)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(type, ADMISSION_KILL);
	hear("kill ");
}

/* In each turn: a job may be no part of what runs any more. */
void __wrap_jobs_drain(struct server *server)
{
	assert_ptr_equal(server, &test.server);
	assert_true(server->is_draining);
	loop.drains++;
	if (loop.drains == 1)
		hear("drain ");
}

uint64_t __wrap_jobs_wake_ns(const struct server *server)
{
	assert_ptr_equal(server, &test.server);
	return loop.jobs_ns;
}

bool __wrap_jobs_are_idle(const struct server *server)
{
	assert_ptr_equal(server, &test.server);
	return !loop.is_busy;
}

void __wrap_jobs_unite(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "unite ");
}

void __wrap_crossed_tick(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "crossed ");
}

void __wrap_tables_tick(struct server *server, uint64_t now_ns)
{
	turn_of(server, now_ns, "tables ");
}

uint64_t __wrap_tables_wake_ns(const struct server *server)
{
	assert_ptr_equal(server, &test.server);
	return loop.tables_ns;
}

void __wrap_tables_abort(struct server *server, int shard, bool is_ending, const char *text)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(shard, -1);
	assert_true(is_ending);
	assert_string_equal(text, "the aggregator is shutting down");
	hear("abort ");
}

void __wrap_holders_say(struct server *server)
{
	turn_of(server, test.now_ns, "report ");
}

void __wrap_server_reload_asked(struct server *server)
{
	turn_of(server, test.now_ns, "reload ");
}

bool __wrap_shard_receive(struct shard *shard, struct shard_event *event)
{
	uint32_t k = shard == test.server.shards[1];

	assert_ptr_equal(shard, test.server.shards[k]);
	if (loop.event_next[k] == loop.events_count[k]) {
		if (loop.is_late && k)
			assert_int_equal(eventfd_write(test.server.shards_fd, 1), 0);
		return false;
	}
	*event = loop.event[k][loop.event_next[k]++];
	return true;
}

/* Who hears of an event, of which shard and job. */
static void heard_of(const char *who, uint32_t shard, uint32_t job)
{
	char word[64];

	snprintf(word, sizeof(word), "%s:%u:%u ", who, shard, job);
	hear(word);
}

void __wrap_table_shard_ack(struct server *server, const struct shard_event *ack)
{
	assert_ptr_equal(server, &test.server);
	heard_of("table", 9, ack->job);
}

void __wrap_job_shard_event(struct server *server, uint32_t shard, const struct shard_event *event)
{
	assert_ptr_equal(server, &test.server);
	heard_of("job", shard, event->job);
}

void __wrap_server_say_report(struct server *server, uint32_t shard)
{
	assert_ptr_equal(server, &test.server);
	heard_of("report", shard, 0);
}

void __wrap_server_say_refused(struct server *server, uint32_t shard,
			       const struct engine_event *notice)
{
	assert_ptr_equal(server, &test.server);
	heard_of("refused", shard, notice->job);
}

void __wrap_server_say_hook(struct server *server, uint32_t shard, const struct hook_news *news)
{
	assert_ptr_equal(server, &test.server);
	assert_string_equal(news->device, "eth7");
	heard_of("hook", shard, 0);
}

static int setup(void **state)
{
	if (inside_setup(state))
		return -1;
	memset(&loop, 0, sizeof(loop));
	loop.jobs_ns = loop.tables_ns = never;
	test.server.options.shards = 2;
	test.server.shards[0] = (struct shard *)(void *)&test;
	test.server.shards[1] = (struct shard *)(void *)&loop;
	test.server.epoll_fd = 77;
	test.server.listen_fd = 78;
	test.server.shards_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	test.server.calls_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	test.server.is_listening = true;
	test.server.limit_ns = never;
	test.peers[PEER] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
					  .handle = PEERS_MAX + PEER };
	return 0;
}

static int teardown(void **state)
{
	close(test.server.shards_fd);
	close(test.server.calls_fd);
	return inside_teardown(state);
}

static struct turn *turn(uint32_t count, uint32_t what)
{
	assert_true(loop.count < TURNS_MAX);
	loop.turn[loop.count] = (struct turn){ .count = count, .what = what };
	return &loop.turn[loop.count++];
}

/* Until epoll breaks. */
static void run_all(void)
{
	assert_int_equal(server_run(&test.server), -EIO);
	assert_true(test.lines > 0);
	test.lines--;
	assert_string_equal(test.line[test.lines].text, "epoll: Input/output error");
	assert_int_equal(test.line[test.lines].level, SERVER_ERROR);
}

/* ---- a turn ---- */

static void loop__reads_first_and_then_all_have_their_turn(void **state)
{
	static const char each[] = "sweep jobs unite crossed tables broken ";
	char words[256];

	(void)state;
	turn(2, READY_LISTEN);
	turn(0, 0)->error = EINTR;
	turn(1, PEERS_MAX + PEER);
	turn(1, 2 * PEERS_MAX + PEER); /* who has gone meanwhile */
	run_all();
	snprintf(words, sizeof(words), "accept accept broken more %sbroken more %s", each, each);
	assert_memory_equal(loop.done, words, strlen(words));
	assert_int_equal(loop.reads, 1);
	assert_int_equal(loop.waits, 5);
	assert_true(test.server.has_ended);
	assert_int_equal(test.server.result, -EIO);
	assert_true(server_wait(&test.server, 0));
}

/* It sleeps until something is due, in whole milliseconds, a minute at most. */
static void loop__sleeps_until_the_first_who_wants_to_be_woken(void **state)
{
	const uint64_t now_ns = test.now_ns;
	const struct {
		uint64_t jobs_ns, tables_ns, limit_ns;
		int timeout_ms;
	} rows[] = {
		{ never, never, never, -1 },
		{ now_ns, never, never, 0 },
		{ now_ns - 1, never, never, 0 },
		{ now_ns + 1, never, never, 1 },
		{ now_ns + MS_NS, never, never, 1 },
		{ now_ns + MS_NS + 1, never, never, 2 },
		{ now_ns + 60 * second_ns, never, never, 60000 },
		{ now_ns + 90 * second_ns, never, never, 60000 },
		{ now_ns + 5 * MS_NS, now_ns + 4 * MS_NS, never, 4 },
		{ now_ns + 5 * MS_NS, now_ns + 6 * MS_NS, now_ns + 7 * MS_NS, 5 },
		{ never, now_ns + 4 * MS_NS, now_ns + 3 * MS_NS, 3 },
	};

	(void)state;
	test.server.sweep_ns = test.server.listen_ns = 1; /* for nobody */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		loop.waits = 0;
		loop.jobs_ns = rows[i].jobs_ns;
		loop.tables_ns = rows[i].tables_ns;
		test.server.limit_ns = rows[i].limit_ns;
		run_all();
		assert_int_equal(loop.timeout_ms[0], rows[i].timeout_ms);
	}
}

static void loop__sleeps_less_for_strangers_last_words_and_the_backlog(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		loop.waits = 0;
		loop.jobs_ns = test.now_ns + 9 * MS_NS;
		test.server.strangers_count = i == 0;
		test.server.closing_count = i == 1;
		test.server.is_listening = i < 2;
		test.server.sweep_ns = test.now_ns + (i < 2 ? 5 + i : 1) * MS_NS;
		test.server.listen_ns = test.now_ns + (i < 2 ? 1 : 7) * MS_NS;
		run_all();
		assert_int_equal(loop.timeout_ms[0], 5 + i);
		test.server.sweep_ns = test.server.listen_ns = loop.jobs_ns + 1;
		loop.waits = 0;
		run_all();
		assert_int_equal(loop.timeout_ms[0], 9);
	}
	test.server.has_some_more = true;
	loop.waits = 0;
	run_all();
	assert_int_equal(loop.timeout_ms[0], 0);
}

static void loop__listens_again_when_it_is_time(void **state)
{
	(void)state;
	test.server.is_listening = false;
	test.server.listen_ns = test.now_ns + 5;
	turn(0, 0)->takes_ns = 4;
	turn(0, 0)->takes_ns = 1;
	turn(0, 0);
	run_all();
	assert_true(test.server.is_listening);
	assert_int_equal(loop.ticks, 3);
	assert_null(strstr(strstr(loop.done, "listen ") + 1, "listen "));
	assert_int_equal(loop.timeout_ms[2], -1);
}

/* ---- as long as there is something to read ---- */

static void loop__asks_again_while_epoll_is_full_but_not_for_ever(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		turn(SERVER_EVENTS, PEERS_MAX + PEER);
	turn(SERVER_EVENTS, PEERS_MAX + PEER);
	turn(SERVER_EVENTS - 1, PEERS_MAX + PEER);
	turn(0, 0);
	run_all();
	/* 64 in the first turn, two in the second, one in the third. */
	assert_int_equal(loop.ticks, 3);
	assert_int_equal(loop.reads, 66 * SERVER_EVENTS - 1);
	assert_int_equal(loop.timeout_ms[0], -1);
	for (uint32_t i = 1; i < 64; i++)
		assert_int_equal(loop.timeout_ms[i], 0);
	assert_int_equal(loop.timeout_ms[64], -1);
	assert_int_equal(loop.timeout_ms[65], 0);
	assert_int_equal(loop.timeout_ms[66], -1);
}

/* What is left comes first in the next turn, without a wait. */
static void loop__reads_for_50_ms_and_for_50_more_of_who_has_more(void **state)
{
	uint64_t from_ns = test.now_ns;

	(void)state;
	loop.read_ns = 10 * MS_NS;
	turn(8, PEERS_MAX + PEER);
	run_all();
	assert_int_equal(loop.waits, 2);
	assert_int_equal(loop.reads, 8); /* 5, and 3 */
	assert_int_equal(loop.ticks, 2);
	assert_int_equal(loop.more_until_ns, from_ns + 80 * MS_NS + 50 * MS_NS);
	assert_int_equal(test.server.events_next, test.server.events_count);
	/* Nor is epoll asked again when the time is over. */
	loop.waits = loop.count = loop.reads = loop.ticks = 0;
	loop.read_ns = 50 * MS_NS / SERVER_EVENTS;
	turn(SERVER_EVENTS, PEERS_MAX + PEER);
	turn(SERVER_EVENTS, PEERS_MAX + PEER)->takes_ns = 1;
	run_all();
	assert_int_equal(loop.reads, 2 * SERVER_EVENTS);
	assert_int_equal(loop.ticks, 2);
}

/* ---- the shards ---- */

static void loop__hands_each_event_of_a_shard_to_whom_it_is_for(void **state)
{
	static const struct shard_event events[] = {
		{ .type = SHARD_ACK, .command = SHARD_JOB_ADD, .job = 1 },
		{ .type = SHARD_ACK, .command = SHARD_TABLE_ADD, .job = 2 },
		{ .type = SHARD_ACK, .command = SHARD_TABLE_REMOVE, .job = 3 },
		{ .type = SHARD_ACK, .command = SHARD_REPORT, .job = 4 },
		{ .type = SHARD_NOTICE, .job = 5, .notice.type = ENGINE_HELLO },
		{ .type = SHARD_NOTICE, .notice = { .type = ENGINE_REFUSED, .job = 6 } },
		{ .type = SHARD_HOOK, .hook.device = "eth7" },
		{ .type = SHARD_DEAD, .job = 8, .notice.type = ENGINE_REFUSED },
	};
	uint64_t count;

	(void)state;
	memcpy(loop.event[1], events, sizeof(events));
	loop.events_count[1] = 8;
	loop.event[0][0] = events[0];
	loop.events_count[0] = 1;
	turn(1, READY_SHARDS);
	run_all();
	assert_string_equal(loop.heard, "job:0:1 job:1:1 table:9:2 table:9:3 report:1:0 job:1:5 "
					"refused:1:6 hook:1:0 job:1:8 ");
	assert_null(strstr(loop.done, "reload")); /* nobody has called */
	assert_int_equal(read(test.server.shards_fd, &count, sizeof(count)), -1); /* it is clear */
}

/* What it tells while the others are looked at has a turn of its own: no more may come that would wake us for it. */
static void loop__wakes_for_what_a_shard_tells_while_it_looks(void **state)
{
	eventfd_t count = 0;

	(void)state;
	loop.event[0][0] = (struct shard_event){ .type = SHARD_ACK, .command = SHARD_JOB_ADD };
	loop.events_count[0] = 1;
	loop.is_late = true;
	turn(1, READY_SHARDS);
	run_all();
	assert_string_equal(loop.heard, "job:0:0 ");
	assert_int_equal(eventfd_read(test.server.shards_fd, &count), 0);
	assert_int_equal(count, 1);
}

/* ---- calls ---- */

static void loop__reports_once_for_all_who_have_asked(void **state)
{
	uint64_t count;

	(void)state;
	server_report(&test.server);
	server_report(&test.server);
	turn(1, READY_CALLS);
	turn(1, READY_CALLS);
	run_all();
	assert_memory_equal(loop.done, "report reload broken ", 21);
	assert_null(strstr(strstr(loop.done, "report ") + 1, "report "));
	assert_non_null(strstr(strstr(loop.done, "reload ") + 1, "reload "));
	assert_int_equal(read(test.server.calls_fd, &count, sizeof(count)), -1);
	assert_int_equal(test.lines, 0);
	assert_false(test.server.is_draining);
}

static void drain__without_jobs_ends_when_all_peers_have_gone(void **state)
{
	(void)state;
	test.server.peers_count = test.server.silent_count = 3; /* who have said nothing may stay */
	test.server.options.drain_ms = 300;
	server_drain(&test.server);
	turn(1, READY_CALLS);
	assert_int_equal(server_run(&test.server), 0);
	assert_string_equal(loop.heard, "drain abort ");
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "", SERVER_RANK_NONE, "draining: no new jobs");
	assert_non_null(strstr(loop.done, " local words ")); /* to whoever has LEFT, and stays */
	assert_int_equal(test.server.result, 0);
	assert_int_equal(test.server.limit_ns, test.now_ns + 300 * MS_NS);
}

static void drain__waits_for_jobs_and_then_for_peers(void **state)
{
	(void)state;
	loop.is_busy = true;
	loop.ends_after = 3;
	test.server.peers_count = 1;
	server_drain(&test.server);
	for (uint32_t i = 0; i < 4; i++)
		turn(1, READY_CALLS);
	run_all();
	assert_int_equal(loop.ticks, 4);
	assert_string_equal(loop.heard, "drain abort "); /* once */
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "", SERVER_RANK_NONE,
		    "draining: no new jobs, running ones may end");
	assert_true(test.server.limit_ns == never); /* drain_ms is 0 */
	assert_non_null(strstr(loop.done, " words "));
	assert_ptr_equal(strstr(loop.done, " local "), strstr(loop.done, " local words "));
	assert_null(strstr(strstr(strstr(loop.done, " words ") + 1, " words ") + 1, " words "));
	test.server.peers_count = 0;
	turn(0, 0);
	loop.waits = 4;
	assert_int_equal(server_run(&test.server), 0);
}

static void drain__aborts_at_its_limit_and_waits_for_last_words(void **state)
{
	uint64_t limit_ns = test.now_ns + 300 * MS_NS;

	(void)state;
	loop.is_busy = true;
	test.server.peers_count = 1;
	test.server.options.drain_ms = 300;
	server_drain(&test.server);
	turn(1, READY_CALLS);
	turn(0, 0)->takes_ns = 300 * MS_NS - 1;
	run_all();
	assert_int_equal(test.lines, 1);
	assert_int_equal(loop.timeout_ms[1], 300);
	assert_int_equal(loop.timeout_ms[2], 1);
	turn(0, 0)->takes_ns = 1;
	turn(0, 0)->takes_ns = 6 * second_ns - 1;
	loop.waits = 2;
	run_all();
	assert_string_equal(loop.heard, "drain abort kill ");
	assert_int_equal(test.lines, 2);
	assert_line(1, SERVER_WARN, "", SERVER_RANK_NONE, "not drained in 300 ms: aborting");
	assert_int_equal(test.server.limit_ns, limit_ns + 6 * second_ns);
	turn(0, 0)->takes_ns = 1;
	loop.waits = 4;
	assert_int_equal(server_run(&test.server), SERVER_ABORTED);
	assert_int_equal(test.server.result, SERVER_ABORTED);
	assert_int_equal(test.lines, 2);
}

static void stop__aborts_at_once_and_ends_after_500_ms(void **state)
{
	uint64_t limit_ns = test.now_ns + 500 * MS_NS;

	(void)state;
	loop.is_busy = true;
	server_drain(&test.server);
	server_stop(&test.server); /* which is what counts */
	turn(1, READY_CALLS);
	turn(1, READY_CALLS)->takes_ns = 500 * MS_NS - 1;
	run_all();
	assert_string_equal(loop.heard, "kill abort drain ");
	assert_int_equal(test.lines, 0);
	assert_int_equal(test.server.limit_ns, limit_ns);
	turn(1, READY_CALLS)->takes_ns = 1;
	loop.waits = 2;
	assert_int_equal(server_run(&test.server), SERVER_ABORTED);
	assert_string_equal(loop.heard, "kill abort drain ");
	assert_int_equal(test.lines, 0);
}

static void stop__without_jobs_aborts_nothing(void **state)
{
	(void)state;
	server_stop(&test.server);
	turn(1, READY_CALLS);
	assert_int_equal(server_run(&test.server), 0);
	assert_true(test.server.is_draining && test.server.is_killed);
}

#define LOOP_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_TEST(loop__reads_first_and_then_all_have_their_turn),
		LOOP_TEST(loop__sleeps_until_the_first_who_wants_to_be_woken),
		LOOP_TEST(loop__sleeps_less_for_strangers_last_words_and_the_backlog),
		LOOP_TEST(loop__listens_again_when_it_is_time),
		LOOP_TEST(loop__asks_again_while_epoll_is_full_but_not_for_ever),
		LOOP_TEST(loop__reads_for_50_ms_and_for_50_more_of_who_has_more),
		LOOP_TEST(loop__hands_each_event_of_a_shard_to_whom_it_is_for),
		LOOP_TEST(loop__wakes_for_what_a_shard_tells_while_it_looks),
		LOOP_TEST(loop__reports_once_for_all_who_have_asked),
		LOOP_TEST(drain__without_jobs_ends_when_all_peers_have_gone),
		LOOP_TEST(drain__waits_for_jobs_and_then_for_peers),
		LOOP_TEST(drain__aborts_at_its_limit_and_waits_for_last_words),
		LOOP_TEST(stop__aborts_at_once_and_ends_after_500_ms),
		LOOP_TEST(stop__without_jobs_aborts_nothing),
	};

	return cmocka_run_group_tests_name("server-loop", tests, NULL, NULL);
}
