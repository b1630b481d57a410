/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c - tables of keys on parameter servers: the calls of tally.h. What they leave behind, thread.c does. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "kvlib/kv.h"
#include "lib/config.h"
#include "lib/identity.h"

static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

/* ---- checks ---- */

static int keys_check(const struct tally_kv *kv, const char *call, const uint64_t *keys,
		      size_t count)
{
	if (count > UINT32_MAX / kv->dim)
		return report_error(&kv->who, TALLY_ERR_ARGUMENT,
				    "%s: %zu keys of dim %u are more than one call takes", call,
				    count, kv->dim);
	if (count && !keys)
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: keys is NULL", call);
	for (size_t i = 1; i < count; i++)
		if (keys[i] <= keys[i - 1])
			return report_error(&kv->who, TALLY_ERR_ARGUMENT,
					    "%s: keys[%zu] is %llu after %llu: keys are ascending, "
					    "each once",
					    call, i, (unsigned long long)keys[i],
					    (unsigned long long)keys[i - 1]);
	return TALLY_OK;
}

static int values_check(const struct tally_kv *kv, const char *call, const uint64_t *keys,
			size_t count, const float *values)
{
	if (count && !values)
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: values is NULL", call);
	for (size_t i = 0; i < count * kv->dim; i++)
		if (kv->core->config.mode == WORKER_KV_SYNC && !(fabsf(values[i]) < 0x1p46f) &&
		    isfinite(values[i]))
			return report_error(&kv->who, TALLY_ERR_ARGUMENT,
					    "%s: values[%zu], of key %llu, is %g: a step has no "
					    "room for 2^46 and more",
					    call, i, (unsigned long long)keys[i / kv->dim],
					    (double)values[i]);
		else if (!isfinite(values[i]))
			return report_error(&kv->who, TALLY_ERR_ARGUMENT,
					    "%s: values[%zu], of key %llu, is %s", call, i,
					    (unsigned long long)keys[i / kv->dim],
					    isnan(values[i]) ? "NaN" : "infinite");
	return TALLY_OK;
}

/* ---- open ---- */

static int servers_count(const char *text)
{
	int count = 1;

	for (; *text; text++)
		count += *text == ',';
	return count;
}

/* What is asked for, in the order of the list: it says which keys are whose. */
static int servers_resolve(struct tally_kv *kv, const char *text)
{
	for (uint32_t s = 0; s < kv->servers; s++) {
		size_t bytes = strcspn(text, ",");
		char one[CONN_ADDRESS_BYTES];
		const char *unfit;
		int error = -EINVAL;

		if (bytes < sizeof(one)) {
			snprintf(one, sizeof(one), "%.*s", (int)bytes, text);
			error = conn_resolve(one, KV_PORT, &kv->server[s].at);
		}
		if (error)
			return report_error(
				&kv->who, error == -EINVAL ? TALLY_ERR_ARGUMENT : TALLY_ERR_SYSTEM,
				"tally_kv_open: server %u of \"%s\": %s", s, text,
				error == -EINVAL   ? "not host:port"
				: error == -ENOENT ? "no such host"
						   : "the name server does not answer");
		unfit = conn_address_unfit(&kv->server[s].at);
		if (unfit)
			return report_error(&kv->who, TALLY_ERR_ARGUMENT,
					    "tally_kv_open: server %u of \"%s\" is %s", s, text,
					    unfit);
		kv_server_init(&kv->server[s], kv, s);
		text += bytes + (text[bytes] == ',');
	}
	return TALLY_OK;
}

/* Its name may have addresses of both kinds, and any of them may be the one that answers. */
static bool has_v6(const struct conn_address *address)
{
	bool is_v6 = address->socket.ss_family == AF_INET6;

	for (uint32_t i = 0; i < address->others_count; i++)
		is_v6 |= address->others[i].ss_family == AF_INET6;
	return is_v6;
}

static int link_begin(struct tally_kv *kv)
{
	struct link_udp_options options = { .is_v6 = false };
	int error;

	for (uint32_t s = 0; s < kv->servers; s++)
		options.is_v6 |= has_v6(&kv->server[s].at);
	error = link_udp_open(&kv->link, &options);
	if (error && options.is_v6) { /* a host without IPv6, and a name that has it */
		options.is_v6 = false;
		error = link_udp_open(&kv->link, &options);
	}
	if (error)
		return report_error(&kv->who, TALLY_ERR_SYSTEM,
				    "tally_kv_open: cannot open a UDP socket: %s",
				    strerror(-error));
	if (outbox_open(&kv->outbox, kv->link))
		return report_error(&kv->who, TALLY_ERR_NO_MEMORY, "tally_kv_open: out of memory");
	return TALLY_OK;
}

static void kv_free(struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		kv_server_fini(&kv->server[s]);
	kv_works_end(kv);
	kv_notes_fini(kv);
	if (kv->link) {
		outbox_close(&kv->outbox);
		kv->link->ops->close(kv->link);
	}
	if (kv->wake_fd >= 0)
		close(kv->wake_fd);
	pthread_cond_destroy(&kv->changed);
	pthread_rwlock_destroy(&kv->maps);
	pthread_mutex_destroy(&kv->lock);
	explicit_bzero(kv->key, sizeof(kv->key));
	free(kv->core);
	free(kv);
}

/* R-KV-6: where a second program may say this name for this rank. */
static uint64_t program_of(const struct bootstrap *boot)
{
	struct identity self;

	if (!boot->is_launched || boot->is_alone)
		return 0;
	identity_read(&self);
	return self.program;
}

static atomic_bool is_warned; /* once in a process */

/* Who we are: what a communicator would be told (lib/bootstrap.h). */
static int who_read(struct tally_kv *kv, const struct tally_kv_options *options,
		    const char *servers)
{
	const struct tally_options as_comm = { .size = sizeof(as_comm),
					       .aggregator = "127.0.0.1",
					       .key = options->key };
	struct bootstrap *boot = calloc(1, sizeof(*boot));
	char text[BOOTSTRAP_TEXT_MAX];
	int result = TALLY_OK;

	if (!boot)
		return report_error(NULL, TALLY_ERR_NO_MEMORY, "tally_kv_open: out of memory");
	boot->size = options->workers;
	boot->rank = options->worker;
	boot->source = "arguments";
	result = config_worker(boot, &as_comm, options->job, text);
	if (result)
		result = report_error(NULL, result, "tally_kv_open: %s", text);
	kv->who.size = boot->size;
	kv->who.rank = boot->rank;
	strcpy(kv->who.job, boot->job);
	kv->program = program_of(boot);
	snprintf(kv->key, sizeof(kv->key), "%s", boot->key);
	report_host(kv->who.host);
	kv->workers = (uint16_t)boot->size;
	kv->worker = (uint16_t)boot->rank;
	if (!result && boot->warning[0] && !atomic_exchange(&is_warned, true))
		report_log(&kv->who, TALLY_LOG_WARN, "%s", boot->warning);
	explicit_bzero(boot, sizeof(*boot));
	free(boot);
	return result ? result : servers_resolve(kv, servers);
}

static struct tally_kv *kv_new(const char *table, uint32_t dim, uint32_t servers,
			       const struct tally_kv_options *options)
{
	const struct worker_kv_config config = {
		.deadline_ns =
			(options->deadline_ms ? options->deadline_ms : KV_DEADLINE_MS) * ns_per_ms,
		.kept_packets = options->kept_packets ? options->kept_packets : KV_KEPT_PACKETS,
		.staleness = options->staleness,
		.servers = (uint16_t)servers,
		.dim = (uint16_t)dim,
		.mode = (enum worker_kv_mode)options->mode
	};
	struct tally_kv *kv = calloc(1, sizeof(*kv) + servers * sizeof(kv->server[0]));
	struct worker_kv *core = malloc(worker_kv_bytes(servers));
	struct timespec wall;

	if (!kv || !core) {
		free(kv);
		free(core);
		return NULL;
	}
	for (uint32_t s = 0; s < servers; s++)
		kv->server[s].stream.fd = -1;
	kv->core = core;
	kv->servers = servers;
	kv->pid = getpid();
	strcpy(kv->name, table);
	kv->dim = (uint16_t)dim;
	kv->now_ns = clock_ns();
	worker_kv_init(core, &config, kv->now_ns);
	kv->has_copies = options->flags & TALLY_KV_COPIES;
	kv->queue_bytes_max = options->queue_bytes ? options->queue_bytes : KV_QUEUE_BYTES;
	kv->timestamp_next = 1;
	kv->notes_end = &kv->notes;
	kv->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	clock_gettime(CLOCK_REALTIME, &wall);
	kv->incarnation = (uint64_t)wall.tv_sec * ns_per_s + (uint64_t)wall.tv_nsec;
	pthread_mutex_init(&kv->lock, NULL);
	pthread_rwlock_init(&kv->maps, NULL);
	clock_cond_init(&kv->changed);
	return kv;
}

static bool is_open(const struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		if (!kv_hot_is_ready(&kv->server[s]) || !worker_kv_is_up(kv->server[s].core))
			return false;
	return kv->core->is_whole;
}

/* A server that is there and never opens the table: R-KV-6. */
static int open_wait(struct tally_kv *kv)
{
	uint64_t until_ns = clock_ns() + kv->core->config.deadline_ns + ns_per_s;
	const struct timespec until = clock_timespec(until_ns);
	int error = 0;

	pthread_mutex_lock(&kv->lock);
	while (!kv->error && !is_open(kv) && !error)
		error = pthread_cond_timedwait(&kv->changed, &kv->lock, &until);
	for (uint32_t s = 0; s < kv->servers && !kv->error && error; s++)
		if (!kv_hot_is_ready(&kv->server[s]))
			kv_break(kv, TALLY_ERR_TIMEOUT,
				 "server %s has not opened table %s in %llu s, nor said why",
				 kv->server[s].at.text, kv->name,
				 (unsigned long long)(kv->core->config.deadline_ns / ns_per_s));
	if (!kv->error && !kv->core->is_whole)
		kv_break(kv, TALLY_ERR_TIMEOUT,
			 "server %s has opened table %s, and has not said in %llu s whether the "
			 "other servers of this list are the table's: it is stuck, or its disk is: "
			 "look at its log",
			 kv->server->at.text, kv->name,
			 (unsigned long long)(kv->core->config.deadline_ns / ns_per_s));
	error = kv->error;
	if (!error)
		kv_steps_compare(kv);
	pthread_mutex_unlock(&kv->lock);
	return error ? report_again(error, kv->error_text) : TALLY_OK;
}

static int open_check(const char *table, uint32_t dim, const struct tally_kv_options *given,
		      struct tally_kv_options *options, const char **servers)
{
	*options = (struct tally_kv_options)TALLY_KV_OPTIONS_INIT;
	if (given && (given->size < sizeof(given->size) || given->size > sizeof(*given)))
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_kv_open: options->size is %zu: TALLY_KV_OPTIONS_INIT "
				    "sets it",
				    given->size);
	if (given)
		memcpy(options, given, given->size);
	if (!table || !*table || strlen(table) >= KV_NAME_BYTES || !kv_is_name(table))
		return report_error(
			NULL, TALLY_ERR_ARGUMENT,
			"tally_kv_open: a table's name has 1 to %d letters, digits, _ - "
			"and ., which is not the first",
			KV_NAME_BYTES - 1);
	if (!dim || dim > SPARSE_DIM_MAX)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_kv_open: table %s: dim %u is not in 1 to %d", table, dim,
				    SPARSE_DIM_MAX);
	if (options->flags & ~TALLY_KV_COPIES)
		return report_error(NULL, TALLY_ERR_UNSUPPORTED,
				    "tally_kv_open: options->flags %#x: there is none but %#x",
				    options->flags, TALLY_KV_COPIES);
	if (kv_step_fault(options))
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_kv_open: table %s: %s", table,
				    kv_step_fault(options));
	*servers = options->servers ? options->servers : getenv("TALLY_SERVERS");
	if (!*servers || !**servers)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_kv_open: table %s: neither options->servers nor "
				    "TALLY_SERVERS says where its servers are",
				    table);
	if (servers_count(*servers) > KV_SERVERS_MAX)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_kv_open: %d servers, at most %d",
				    servers_count(*servers), KV_SERVERS_MAX);
	return TALLY_OK;
}

int tally_kv_open(struct tally_kv **out, const char *table, uint32_t dim,
		  const struct tally_kv_options *given)
{
	struct tally_kv_options options;
	const char *servers = NULL;
	struct tally_kv *kv;
	int result;

	if (!out)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_kv_open: kv is NULL");
	result = open_check(table, dim, given, &options, &servers);
	if (result)
		return result;
	kv = kv_new(table, dim, (uint32_t)servers_count(servers), &options);
	if (!kv)
		return report_error(NULL, TALLY_ERR_NO_MEMORY, "tally_kv_open: out of memory");
	result = kv->wake_fd < 0 ? report_error(NULL, TALLY_ERR_SYSTEM,
						"tally_kv_open: no eventfd: %s", strerror(errno))
				 : who_read(kv, &options, servers);
	if (!result)
		result = link_begin(kv);
	if (!result && (errno = kv_thread_begin(kv)))
		result = report_error(&kv->who, TALLY_ERR_SYSTEM,
				      "tally_kv_open: cannot start a thread: %s", strerror(errno));
	if (result) {
		kv_free(kv);
		return result;
	}
	result = open_wait(kv);
	if (result) {
		kv_thread_end(kv);
		kv_free(kv);
		return result;
	}
	*out = kv;
	return TALLY_OK;
}

/* ---- operations ---- */

/* Waits for room; the lock is held on success. */
static int room_wait(struct tally_kv *kv, size_t bytes)
{
	pthread_mutex_lock(&kv->lock);
	kv->waits_room++;
	/* The thread itself, in a callback, is who makes room. */
	while (!kv->error && kv->queue_bytes && kv->queue_bytes + bytes > kv->queue_bytes_max &&
	       !pthread_equal(kv->thread, pthread_self()))
		pthread_cond_wait(&kv->changed, &kv->lock);
	kv->waits_room--;
	if (!kv->error)
		return TALLY_OK;
	pthread_mutex_unlock(&kv->lock);
	return report_again(kv->error, kv->error_text);
}

/* Takes the work: it is in order, or freed, and an error is reported. */
static int submit(struct tally_kv *kv, const char *call, struct kv_work *work, uint64_t *timestamp)
{
	int result;

	if (!work)
		return report_error(&kv->who, TALLY_ERR_NO_MEMORY, "%s: out of memory", call);
	result = room_wait(kv, kv_work_bytes(kv, work));
	if (result) {
		free(work);
		return result;
	}
	if (work->is_barrier && (!work->is_step || kv->core->config.mode != WORKER_KV_ASYNC))
		work->number = worker_kv_barrier_number(kv->core);
	kv_work_add(kv, work, clock_ns());
	if (timestamp)
		*timestamp = work->timestamp;
	kv_thread_wake_unlock(kv);
	return TALLY_OK;
}

int tally_kv_push(struct tally_kv *kv, const uint64_t *keys, const float *values, size_t count,
		  uint64_t *timestamp)
{
	int result = kv_handle_check(kv, __func__);

	if (!result)
		result = keys_check(kv, __func__, keys, count);
	if (!result)
		result = values_check(kv, __func__, keys, count, values);
	if (result)
		return result;
	return submit(kv, __func__, kv_work_make(kv, keys, values, NULL, (uint32_t)count),
		      timestamp);
}

int tally_kv_pull(struct tally_kv *kv, const uint64_t *keys, float *values, size_t count,
		  uint64_t *timestamp)
{
	int result = kv_handle_check(kv, __func__);

	if (!result)
		result = keys_check(kv, __func__, keys, count);
	if (result)
		return result;
	if (count && !values)
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: values is NULL", __func__);
	return submit(kv, __func__, kv_work_make(kv, keys, NULL, values, (uint32_t)count),
		      timestamp);
}

int tally_kv_pushpull(struct tally_kv *kv, const uint64_t *keys, const float *push, float *pull,
		      size_t count, uint64_t *timestamp)
{
	int result = kv_handle_check(kv, __func__);

	if (!result)
		result = keys_check(kv, __func__, keys, count);
	if (!result)
		result = values_check(kv, __func__, keys, count, push);
	if (result)
		return result;
	if (count && !pull)
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: pull is NULL", __func__);
	return submit(kv, __func__, kv_work_make(kv, keys, push, pull, (uint32_t)count), timestamp);
}

static struct kv_work *barrier_make(struct tally_kv *kv, bool is_step)
{
	struct kv_work *work = kv_work_make(kv, NULL, NULL, NULL, 0);

	if (!work)
		return NULL;
	work->is_barrier = true;
	work->is_step = is_step;
	return work;
}

int tally_kv_barrier(struct tally_kv *kv)
{
	uint64_t timestamp;
	int result = kv_wait_check(kv, __func__);

	if (!result)
		result = submit(kv, __func__, barrier_make(kv, false), &timestamp);
	return result ? result : tally_kv_wait(kv, timestamp, -1);
}

int tally_kv_step(struct tally_kv *kv, uint64_t *timestamp)
{
	int result = kv_handle_check(kv, __func__);

	return result ? result : submit(kv, __func__, barrier_make(kv, true), timestamp);
}

int tally_kv_get_stats(struct tally_kv *kv, struct tally_kv_stats *stats)
{
	struct tally_kv_stats now;
	int result = kv_handle_check(kv, __func__);

	if (result)
		return result;
	if (!stats || stats->size < sizeof(stats->size) || stats->size > sizeof(now))
		return report_error(&kv->who, TALLY_ERR_ARGUMENT,
				    "%s: stats is NULL, or stats->size is not set: "
				    "TALLY_KV_STATS_INIT sets it",
				    __func__);
	pthread_mutex_lock(&kv->lock);
	now = kv->stats;
	now.bytes_out += kv->link->stats.bytes_out;
	now.bytes_in += kv->link->stats.bytes_in;
	for (uint32_t s = 0; s < kv->servers; s++) {
		const struct kv_server *server = &kv->server[s];

		now.bytes_out += server->stream.sent;
		now.bytes_in += server->stream.received;
		if (!server->endpoint)
			continue;
		now.packets_resent += endpoint_sparse_stats(server->endpoint)->pushes_again;
		now.packets_out += endpoint_sparse_stats(server->endpoint)->pushes;
	}
	now.packets_dropped = kv_hot_dropped(kv);
	pthread_mutex_unlock(&kv->lock);
	now.packets_out -= now.packets_resent;
	now.size = stats->size;
	memcpy(stats, &now, now.size);
	return TALLY_OK;
}

int tally_kv_close(struct tally_kv *kv)
{
	char text[REPORT_TEXT_MAX];
	int result, left;

	if (!kv)
		return TALLY_OK;
	result = kv_wait_check(kv, __func__);
	if (result)
		return result;
	result = tally_kv_wait(kv, 0, -1);
	snprintf(text, sizeof(text), "%s", report_last());
	left = kv_leave(kv);
	kv_thread_end(kv);
	kv_carry_say(kv);
	kv_free(kv);
	return result ? report_again(result, text) : left;
}
