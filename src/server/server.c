/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/job/share.h"
#include "core/sparse/layout_sparse.h"
#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "server/internal.h"
#include "util/thread.h"

enum {
	JOBS = 64,
	SHARE = 50,               /* percent */
	RECEIVE_BYTES = 16 << 20, /* 7,000 packets: 8 members' windows of 140, 6 times */
	HEARTBEAT_MS = 10000,
	GATHER_MS = 300000,
	ROUNDS = 64,  /* of these before anything else has its turn, */
	READ_MS = 50, /* or so long, twice */
};

/* The loop looks at what is asked of it. From any thread or signal handler. */
static void call(struct server *server, atomic_uint *calls)
{
	uint64_t one = 1;
	int error = errno;
	ssize_t written;

	atomic_fetch_add(calls, 1);
	written = write(server->calls_fd, &one, sizeof(one));
	(void)written;
	errno = error; /* we may be in a signal handler */
}

void server_drain(struct server *server)
{
	call(server, &server->drain_calls);
}

void server_stop(struct server *server)
{
	call(server, &server->stop_calls);
}

void server_report(struct server *server)
{
	call(server, &server->report_calls);
}

void server_reload(struct server *server)
{
	call(server, &server->reload_calls);
}

static void fd_clear(int fd)
{
	uint64_t count;
	ssize_t got = read(fd, &count, sizeof(count));

	(void)got;
}

/* --- open --- */

static int options_check(struct server *server, const struct server_options *options)
{
	const char *wrong = NULL;

	if (options->shards > SERVER_SHARDS_MAX)
		wrong = "shards: at most 64";
	else if (options->lanes_max > WIRE_LANES_MAX || options->lanes_max % WIRE_LANES_STEP)
		wrong = "lanes: 4 to 16368, a multiple of 4";
	else if (options->slots > MAP_SLOTS_MAX || (options->slots && options->slots < 8))
		wrong = "slots: 8 to 32768";
	else if (options->run > MAP_RUN_MAX)
		wrong = "run: at most 64";
	else if (options->jobs_max > SERVER_JOBS_MAX)
		wrong = "jobs: at most 1024";
	else if (options->tables_max > SERVER_TABLES_MAX)
		wrong = "tables: at most 256";
	else if (options->registers > LAYOUT_REGISTERS_MAX)
		wrong = "registers: at most 1024";
	else if (options->share > SHARE_ALL)
		wrong = "share: at most 100 percent";
	else if (options->listen.port && options->listen.port + options->shards > 65536)
		wrong = "port: the last shard's would be above 65535";
	else if (options->receive_bytes > 1u << 30)
		wrong = "receive buffer: at most 1 GiB";
	else if (options->chip_open && options->is_v6) /* R-CHIP-6 */
		wrong = "listen: a P4 switch takes no IPv6 (--engine p4): give an IPv4 address of "
			"this host";
	else if (options->chip_open && (options->shards > 1 || options->hook_devices))
		wrong = "a chip: one shard, without devices of the kernel's";
	else if (options->key && strlen(options->key) >= CONTROL_KEY_BYTES)
		wrong = "key: at most 127 bytes";
	if (!wrong)
		return 0;
	server_say(server, SERVER_ERROR, "%s", wrong);
	return -EINVAL;
}

_Static_assert((int)SERVER_TABLES_MAX == (int)SHARD_TABLES_MAX, "as many as shards have room for");

static void options_fill(struct server_options *options)
{
	options->shards = options->shards ? options->shards : 1;
	options->jobs_max = options->jobs_max ? options->jobs_max : (uint32_t)JOBS;
	options->tables_max = options->tables_max ? options->tables_max
						  : (uint32_t)SERVER_TABLES_MAX;
	options->share = options->share ? options->share : (uint32_t)SHARE;
	options->receive_bytes = options->receive_bytes ? options->receive_bytes
							: (uint32_t)RECEIVE_BYTES;
	options->memory_max = options->memory_max ? options->memory_max : (uint64_t)PLAN_MEMORY_MAX;
	options->heartbeat_ms = options->heartbeat_ms ? options->heartbeat_ms
						      : (uint32_t)HEARTBEAT_MS;
	options->gather_ms = options->gather_ms ? options->gather_ms : (uint32_t)GATHER_MS;
	if (options->local_name) {
		options->is_v6 = false;
		options->listen = (struct link_address){
			.ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
		};
	}
}

static int open_listener(struct server *server)
{
	struct conn_address address = { .bytes = 0 };
	struct link_address *listen = &server->options.listen;
	char text[SERVER_TEXT_BYTES];
	uint8_t ip[16];

	server->port = listen->port;
	server_address(server, text);
	if (server->options.local_name && conn_resolve(text, 0, &address)) {
		server_say(server, SERVER_ERROR, "cannot listen on %s: not an address", text);
		return -EINVAL;
	}
	if (!server->options.local_name)
		address.bytes = link_address_to_socket(listen, server->options.is_v6,
						       (union link_sockaddr *)&address.socket);
	server->listen_fd = conn_listen(&address);
	if (server->listen_fd < 0) {
		server_say(server, SERVER_ERROR, "cannot listen on %s: %s", text,
			   strerror(-server->listen_fd));
		return server->listen_fd;
	}
	conn_address_ip(&address, ip, &server->port);
	return 0;
}

/* The kernel doubles what was asked for, to make room for its own overhead. */
static void say_receive_buffer(struct server *server, uint32_t shard)
{
	uint32_t got = shard_receive_bytes(server->shards[shard]) / 2;

	if (shard == 0 && got < server->options.receive_bytes)
		server_say(server, SERVER_INFO,
			   "receive buffer: %u KiB of %u asked for, windows shrink to fit: raise "
			   "net.core.rmem_max, or run as root",
			   got >> 10, server->options.receive_bytes >> 10);
}

static int open_shards(struct server *server)
{
	char text[64];
	char why[HOOK_ERROR_BYTES] = "", chip_why[CHIP_ERROR_BYTES] = "";

	for (uint32_t k = 0; k < server->options.shards; k++) {
		struct shard_options options = {
			.local = server->options.listen,
			.is_v6 = server->options.is_v6,
			.index = k,
			.receive_bytes = (int)server->options.receive_bytes,
			.memory_max = server->options.memory_total,
			.jobs_max = server->options.jobs_max,
			.registers = server->options.registers,
			.wake_fd = server->shards_fd,
			.hook_open = server->options.hook_open,
			.hook_devices = server->options.hook_devices,
			.hook_error = why,
			.chip_open = server->options.chip_open,
			.chip_address = server->options.chip_address,
			.chip_error = chip_why,
		};
		int result;

		if (options.local.port)
			options.local.port = (uint16_t)(options.local.port + k);
		result = shard_open(&server->shards[k], &options);
		if (!result)
			say_receive_buffer(server, k);
		if (result) {
			server_say(server, SERVER_ERROR, "cannot open shard %u on UDP %s: %s", k,
				   link_address_format(&options.local, text),
				   *why        ? why
				   : *chip_why ? chip_why
					       : strerror(-result));
			return result;
		}
	}
	return 0;
}

static int watch(struct server *server, int fd, uint32_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_epoll(struct server *server)
{
	int result;

	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->shards_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	server->calls_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (server->epoll_fd < 0 || server->shards_fd < 0 || server->calls_fd < 0) {
		result = -errno;
		server_say(server, SERVER_ERROR, "no descriptors for the aggregator: %s",
			   strerror(-result));
		return result;
	}
	server->spare_fd = peers_spare();
	return 0;
}

static int watch_all(struct server *server)
{
	int result = watch(server, server->shards_fd, READY_SHARDS);

	result = result ? result : watch(server, server->calls_fd, READY_CALLS);
	result = result ? result : watch(server, server->listen_fd, READY_LISTEN);
	if (result)
		server_say(server, SERVER_ERROR, "cannot watch the aggregator's descriptors: %s",
			   strerror(-result));
	return result;
}

/* The name is the caller's, who may forget it. */
static int keep_name(struct server *server)
{
	const char *name = server->options.local_name;

	server->is_local = name != NULL;
	if (!name)
		return 0;
	server->options.local_name = server->local_name;
	if (strlen(name) >= sizeof(server->local_name)) {
		server_say(server, SERVER_ERROR, "@%s: too long for a unix socket", name);
		return -EINVAL;
	}
	strcpy(server->local_name, name);
	return 0;
}

static int open_all(struct server *server)
{
	int result = options_check(server, &server->options);

	result = result ? result : keep_name(server);
	if (result)
		return result;
	options_fill(&server->options);
	share_memory_fill(server);
	server->jobs = calloc(server->options.jobs_max, sizeof(struct job *));
	server->crossed.views = calloc(server->options.jobs_max, sizeof(struct crossed_view *));
	server->peers = calloc(PEERS_MAX, sizeof(*server->peers));
	if (!server->jobs || !server->crossed.views || !server->peers) {
		server_say(server, SERVER_ERROR, "the aggregator is out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = PEERS_MAX; i-- > 0; server->peers_free = &server->peers[i])
		server->peers[i].newer = server->peers_free;
	server->is_listening = true;
	result = open_epoll(server);
	result = result ? result : open_listener(server);
	result = result ? result : open_shards(server);
	return result ? result : watch_all(server);
}

int server_open(struct server **out, const struct server_options *options)
{
	struct server *server = calloc(1, sizeof(*server));
	int result;

	if (!server) {
		if (options->log)
			options->log(options->log_arg, SERVER_ERROR,
				     &(struct server_about){ .rank = SERVER_RANK_NONE },
				     "the aggregator is out of memory");
		return -ENOMEM;
	}
	server->options = *options;
	server->listen_fd = server->epoll_fd = server->shards_fd = server->calls_fd = -1;
	server->spare_fd = -1;
	server->limit_ns = UINT64_MAX;
	pthread_mutex_init(&server->mutex, NULL);
	clock_cond_init(&server->ended);
	server_random(&server->generations, sizeof(server->generations));
	server->generation = generation_draw(&server->generations);
	if (options->key && strlen(options->key) < sizeof(server->key)) /* else open_all says so */
		server_key_set(server, options->key);
	result = open_all(server);
	server->options.key = NULL;
	if (result) {
		server_close(server);
		return result;
	}
	server->is_open = true;
	*out = server;
	return 0;
}

/* --- run --- */

static void shard_event(struct server *server, uint32_t shard, const struct shard_event *event)
{
	bool is_tables = event->command >= SHARD_TABLE_ADD && event->command <= SHARD_TABLE_REMOVE;

	if (event->type == SHARD_ACK && is_tables)
		table_shard_ack(server, event);
	else if (event->type == SHARD_ACK && event->command == SHARD_REPORT)
		server_say_report(server, shard);
	else if (event->type == SHARD_NOTICE && event->notice.type == ENGINE_REFUSED)
		server_say_refused(server, shard, &event->notice);
	else if (event->type == SHARD_HOOK)
		server_say_hook(server, shard, &event->hook);
	else if (event->type == SHARD_CHIP)
		shard_chip(server, shard, event);
	else
		job_shard_event(server, shard, event);
}

static void run_shards(struct server *server)
{
	struct shard_event event;

	fd_clear(server->shards_fd); /* first: what comes meanwhile sets it again */
	for (uint32_t k = 0; k < server->options.shards; k++)
		while (shard_receive(server->shards[k], &event)) {
			shard_event(server, k, &event);
			free(event.text);
		}
}

static void run_stop(struct server *server, uint64_t now_ns)
{
	if (server->is_stopping)
		return;
	server->is_stopping = server->is_draining = server->is_killed = true;
	server->limit_ns = now_ns + STOP_MS * MS_NS;
	server->has_aborted = !jobs_are_idle(server);
	peers_local_last(server, now_ns);
	jobs_tell(server, ADMISSION_KILL);
	tables_abort(server, -1, true, "the aggregator is shutting down");
}

/* R-CT-19 */
static void run_drain(struct server *server, uint64_t now_ns)
{
	if (server->is_draining)
		return;
	server->is_draining = true;
	if (server->options.drain_ms)
		server->limit_ns = now_ns + server->options.drain_ms * MS_NS;
	server_say(server, SERVER_INFO, "draining: no new jobs%s",
		   jobs_are_idle(server) ? "" : ", running ones may end");
	jobs_drain(server);
	/* Its workers send again, to the next instance, what its server has not got. */
	tables_abort(server, -1, true, "the aggregator is shutting down");
}

static void run_calls(struct server *server, uint64_t now_ns)
{
	fd_clear(server->calls_fd);
	if (atomic_load(&server->report_calls) != server->reports) {
		server->reports = atomic_load(&server->report_calls);
		holders_say(server);
	}
	server_reload_asked(server);
	if (atomic_load(&server->stop_calls))
		run_stop(server, now_ns);
	else if (atomic_load(&server->drain_calls))
		run_drain(server, now_ns);
}

static void run_ready(struct server *server, uint32_t what, uint64_t now_ns)
{
	struct peer *peer;

	switch (what) {
	case READY_LISTEN:
		peers_accept(server, now_ns);
		break;
	case READY_SHARDS:
		run_shards(server);
		break;
	case READY_CALLS:
		run_calls(server, now_ns);
		break;
	default:
		peer = peer_of(server, what);
		if (peer)
			peer_read(server, peer, now_ns);
	}
}

/* When something has to be done though nothing comes. */
static uint64_t run_next(const struct server *server)
{
	uint64_t next = jobs_wake_ns(server), tables_ns = tables_wake_ns(server);

	if (server->has_some_more || server->events_next < server->events_count)
		return 0;
	if ((server->strangers_count || server->closing_count) && server->sweep_ns < next)
		next = server->sweep_ns;
	if (!server->is_listening && server->listen_ns < next)
		next = server->listen_ns;
	next = tables_ns < next ? tables_ns : next;
	return server->limit_ns < next ? server->limit_ns : next;
}

static int run_timeout_ms(const struct server *server)
{
	uint64_t next = run_next(server), now_ns = clock_ns();

	if (next == UINT64_MAX)
		return -1;
	if (next <= now_ns)
		return 0;
	next = (next - now_ns + MS_NS - 1) / MS_NS;
	return next > TICK_MS * 60 ? TICK_MS * 60 : (int)next;
}

/* One batch; what is left when the time is over comes first in the next turn. */
static int run_batch(struct server *server, int timeout_ms)
{
	uint64_t now_ns;
	int count;

	if (server->events_next == server->events_count) {
		count = epoll_wait(server->epoll_fd, server->events, SERVER_EVENTS, timeout_ms);
		if (count < 0 && errno != EINTR)
			return -errno;
		server->events_next = 0;
		server->events_count = count > 0 ? (uint32_t)count : 0;
	}
	now_ns = clock_ns();
	if (!server->turn_end_ns)
		server->turn_end_ns = now_ns + READ_MS * MS_NS;
	while (server->events_next < server->events_count && !server_turn_is_over(server))
		run_ready(server, server->events[server->events_next++].data.u32, now_ns);
	peers_end_broken(server);
	return 0;
}

/* Everything that has arrived is read before anybody's silence is judged; but there may be no end of it,
 * and who listens to us must not wait for that. Then all have their turn in a few of ours. */
static int run_read(struct server *server)
{
	int timeout_ms = run_timeout_ms(server);

	server->turn_end_ns = 0;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		int result = run_batch(server, timeout_ms);

		if (result)
			return result;
		if (server->events_count < SERVER_EVENTS || server_turn_is_over(server))
			break;
		timeout_ms = 0;
	}
	server->turn_end_ns = clock_ns() + READ_MS * MS_NS;
	peers_read_more(server, clock_ns());
	return 0;
}

static void run_limit(struct server *server, uint64_t now_ns)
{
	if (now_ns < server->limit_ns || server->is_killed)
		return;
	server_say(server, SERVER_WARN, "not drained in %u ms: aborting", server->options.drain_ms);
	server->is_killed = server->has_aborted = true;
	server->limit_ns = now_ns + (CONN_LAST_WORDS_S + 1) * 1000 * MS_NS;
	jobs_tell(server, ADMISSION_KILL);
}

/* When every job is over and every peer has had its last word, or will not wait any longer. */
static bool run_is_over(const struct server *server, uint64_t now_ns)
{
	if (!server->is_draining)
		return false;
	if (server->is_killed && now_ns >= server->limit_ns)
		return true;
	return jobs_are_idle(server) && server->peers_count == server->silent_count;
}

/* Members that have LEFT may keep their connections for as long as they like, but not us. */
static void run_end(struct server *server, uint64_t now_ns)
{
	if (!server->is_draining)
		return;
	jobs_drain(server);
	if (!jobs_are_idle(server))
		return;
	peers_local_last(server, now_ns);
	peers_last_words(server, now_ns);
}

static int run(struct server *server)
{
	for (;;) {
		uint64_t now_ns;
		int result = run_read(server);

		if (result) {
			server_say(server, SERVER_ERROR, "epoll: %s", strerror(-result));
			return result;
		}
		now_ns = clock_ns();
		if (!server->is_listening && now_ns >= server->listen_ns)
			peers_listen(server, true);
		peers_sweep(server, now_ns);
		jobs_tick(server, now_ns);
		jobs_unite(server, now_ns);
		crossed_tick(server, now_ns);
		tables_tick(server, now_ns);
		run_limit(server, now_ns);
		run_end(server, now_ns);
		peers_end_broken(server);
		if (run_is_over(server, now_ns))
			return server->has_aborted ? SERVER_ABORTED : 0;
	}
}

int server_run(struct server *server)
{
	int result = run(server);

	pthread_mutex_lock(&server->mutex);
	server->has_ended = true;
	server->result = result;
	pthread_cond_broadcast(&server->ended);
	pthread_mutex_unlock(&server->mutex);
	return result;
}

static void *server_main(void *arg)
{
	server_run(arg);
	return NULL;
}

int server_start(struct server *server)
{
	int result = thread_create(&server->thread, server_main, server);

	if (result)
		return -result;
	server->is_started = true;
	pthread_setname_np(server->thread, "tally-control");
	return 0;
}

bool server_wait(struct server *server, uint32_t timeout_ms)
{
	struct timespec until = clock_timespec(clock_ns() + timeout_ms * MS_NS);
	bool has_ended;
	int result = 0;

	pthread_mutex_lock(&server->mutex);
	while (!server->has_ended && result != ETIMEDOUT)
		result = timeout_ms == UINT32_MAX
				 ? pthread_cond_wait(&server->ended, &server->mutex)
				 : pthread_cond_timedwait(&server->ended, &server->mutex, &until);
	has_ended = server->has_ended;
	pthread_mutex_unlock(&server->mutex);
	return has_ended;
}

/* --- close --- */

static void close_shards(struct server *server)
{
	for (uint32_t k = 0; k < SERVER_SHARDS_MAX; k++) {
		struct engine_sparse_stats tables;
		struct engine_stats stats;

		if (!server->shards[k])
			continue;
		shard_close(server->shards[k], &stats, &tables);
		if (server->is_open) {
			server_say_stats(server, k, &stats);
			server_say_table_stats(server, k, &tables);
		}
		server->shards[k] = NULL;
	}
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void server_close(struct server *server)
{
	if (!server)
		return;
	if (server->is_started) {
		server_stop(server);
		pthread_join(server->thread, NULL);
	}
	if (server->peers)
		peers_close_all(server);
	close_shards(server);
	for (uint32_t i = 0; server->jobs && i < server->options.jobs_max; i++)
		if (server->jobs[i])
			job_close(server, server->jobs[i]);
	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++)
		free(server->tables[i]);
	close_fd(server->listen_fd);
	close_fd(server->shards_fd);
	close_fd(server->calls_fd);
	close_fd(server->spare_fd);
	close_fd(server->epoll_fd);
	pthread_cond_destroy(&server->ended);
	pthread_mutex_destroy(&server->mutex);
	free(server->peers);
	free(server->jobs);
	free(server->crossed.views);
	explicit_bzero(server->key, sizeof(server->key));
	free(server);
}

void server_forget(const struct server *server)
{
	close_fd(server->listen_fd);
	for (uint32_t i = 0; i < PEERS_MAX; i++) /* conn: the parent's thread may be freeing it */
		close_fd(atomic_load(&server->peers[i].held) - 1);
}

uint16_t server_port(const struct server *server)
{
	return server->port;
}

uint16_t server_shard_port(const struct server *server, uint32_t shard)
{
	return shard_port(server->shards[shard]);
}
