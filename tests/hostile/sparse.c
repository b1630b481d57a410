/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.c - somebody who can write any source address, and knows all but the random numbers, while workers push.
 *
 *     hostile_sparse [PACKETS] [SEED]
 *
 * A parameter server with its switch inside, and two workers, in one process. Threads send from the server's own
 * socket to the workers (RESUME, COMMITTED, BCAST, ACK, WELCOME) and to itself (as the switch: CUT, FLUSH, READY, WELCOME;
 * as the server: SETUP, FLIP, COMMITTED, BCAST, HAVE), and from each worker's own (PUSH, ASK, RESUMED, END): so every
 * source address and port
 * is right, and table, worker, map, epoch, seq, instance and the number of fences are read where they are kept. What is
 * guessed is a generation's random bits: wrong ones, none, the next fence's, the largest number that there is; of HELLO
 * and WELCOME the nonce. PACKETS of each kind. None may be taken: all sums are exact, no wait fails, and no generation
 * begins; and all that came was counted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/link_address.h"
#include "hot/map.h"
#include "lib/kv.h"
#include "ps/internal.h"
#include "tally.h"
#include "util/rng.h"

enum {
	WORKERS = 2,
	KEYS = 40, /* half of them are hot */
	HOT = 20,
	DIM = 2,
	BATCH = 32,
	BYTES = 512,
	KINDS = 20,
	WAIT_MS = 300000,
};

static const uint64_t instance_unknown = 0x1234567890abcdef;

/* Who says what to whom. */
enum side {
	SERVER_TO_WORKER,
	SERVER_TO_SWITCH,
	SWITCH_TO_SERVER,
	WORKER_TO_SWITCH,
	WORKER_TO_SERVER
};

static const struct lie {
	enum side side;
	int kind; /* of enum sparse_kind; HELLO, WELCOME: below 0 */
} lies[KINDS] = {
	{ SERVER_TO_WORKER, SPARSE_RESUME },    { SERVER_TO_WORKER, SPARSE_COMMITTED },
	{ SERVER_TO_WORKER, SPARSE_BCAST },     { SERVER_TO_WORKER, SPARSE_ACK },
	{ SERVER_TO_SWITCH, SPARSE_SETUP },     { SERVER_TO_SWITCH, SPARSE_FLIP },
	{ SERVER_TO_SWITCH, SPARSE_COMMITTED }, { SERVER_TO_SWITCH, SPARSE_BCAST },
	{ SWITCH_TO_SERVER, SPARSE_CUT },       { SWITCH_TO_SERVER, SPARSE_FLUSH_SHORT },
	{ SWITCH_TO_SERVER, SPARSE_READY },     { WORKER_TO_SWITCH, SPARSE_PUSH },
	{ WORKER_TO_SERVER, SPARSE_RESUMED },   { WORKER_TO_SERVER, SPARSE_END },
	{ WORKER_TO_SWITCH, SPARSE_ASK },       { SERVER_TO_SWITCH, SPARSE_HAVE },
	{ SWITCH_TO_SERVER, SPARSE_FLUSH },     { WORKER_TO_SWITCH, -WIRE_HELLO },
	{ SERVER_TO_WORKER, -WIRE_WELCOME },    { SWITCH_TO_SERVER, -WIRE_WELCOME },
};

static struct ps_server *server;
static struct tally_kv *kv[WORKERS];
static atomic_bool is_over;
static _Atomic uint64_t sent[KINDS];
static uint64_t packets_wanted = 2000, seed = 1;
static int64_t pushed[WORKERS][KEYS][DIM]; /* expected: each worker's own */
static atomic_int bad;
static char folder[] = "/tmp/tally-hostile-XXXXXX", map_path[64];

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "FAILED: %s: %s\n", what, why);
	atomic_store(&bad, 1);
	atomic_store(&is_over, true);
}

/* ---- what is guessed ---- */

static uint64_t generation_guess(struct rng *rng, uint64_t generation)
{
	uint64_t guess, bits = rng_next(rng) >> (64 - SPARSE_RANDOM_BITS);

	do {
		switch (rng_below(rng, 5)) {
		case 0:
			guess = UINT64_MAX;
			break;
		case 1:
			guess = generation ^ 1ull << rng_below(rng, 64);
			break;
		case 2:
			guess = rng_below(rng, 4);
			break;
		case 3:
			guess = (sparse_fences(generation) + 1) << SPARSE_RANDOM_BITS | bits;
			break;
		default:
			guess = sparse_fences(generation) << SPARSE_RANDOM_BITS | bits;
		}
	} while (guess == generation);
	return guess;
}

/* Shape and numbers as they should be at this moment, as far as another thread can see; how many bytes. */
static uint32_t sparse_make(struct rng *rng, const struct lie *lie, uint16_t worker, uint8_t *at)
{
	const struct ps_hosted *hosted = &server->hosted[0];
	const struct server_sparse *state = home_sparse_server(hosted->table->home);
	const struct sparse_table *table = &hosted->table->shape;
	struct sparse packet = { .kind = (uint8_t)lie->kind,
				 .table = hosted->index,
				 .worker = worker,
				 .generation = generation_guess(rng, state->generation),
				 .number = state->expected,
				 .map = hosted->table->map.version,
				 .parts = 1 };
	uint32_t bytes;

	switch (lie->kind) {
	case SPARSE_RESUME:
	case SPARSE_CUT:
	case SPARSE_SETUP:
		packet.count = 1;
		packet.width = table->window;
		break;
	case SPARSE_COMMITTED:
		packet.number -= lie->side == SERVER_TO_SWITCH;
		packet.worker = lie->side == SERVER_TO_SWITCH ? SPARSE_SERVER : worker;
		packet.count = packet.width = 0;
		if (lie->side == SERVER_TO_WORKER) {
			packet.count = 1;
			packet.width = table->window;
		}
		break;
	case SPARSE_BCAST:
	case SPARSE_PUSH:
	case SPARSE_FLUSH:
	case SPARSE_FLUSH_SHORT:
		packet.count = 1;
		packet.width = table->dim;
		packet.number += lie->kind == SPARSE_PUSH ? rng_below(rng, 1000) : 0;
		break;
	case SPARSE_HAVE: /* one word: that all parts have come */
		packet.number -= 1;
		packet.count = packet.width = 1;
		break;
	case SPARSE_END:
		packet.count = packet.width = 1;
		break;
	case SPARSE_READY:
		packet.number = state->instance ? state->instance : instance_unknown;
		break;
	default:
		break;
	}
	if (lie->kind == SPARSE_CUT || lie->kind == SPARSE_SETUP) {
		packet.worker = 0;
		packet.count = WORKERS;
	}
	bytes = sparse_bytes(&packet);
	memset(at, 0, bytes);
	/* A row that covers much, or nothing: what would free or lose the most. */
	for (uint32_t i = sparse_items_at(packet.kind); packet.width == table->window && i < bytes;
	     i += SPARSE_NUMBER_BYTES)
		sparse_body_put64(at + i, rng_below(rng, 2) ? rng_below(rng, 500) : 0);
	if (lie->kind == SPARSE_SETUP)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, state->instance);
	if (lie->kind == SPARSE_PUSH || lie->kind == SPARSE_FLUSH_SHORT ||
	    lie->kind == SPARSE_BCAST)
		sparse_body_put32(at + SPARSE_HEADER_BYTES + SPARSE_RANK_BYTES, 1000000);
	sparse_put(at, &packet);
	return bytes;
}

/* HELLO for another worker, who would be deaf then, or WELCOME to one that waits for it; the nonce is guessed, in WELCOME
 * the bytes of it that its generation has. */
static uint32_t hello_make(struct rng *rng, int kind, uint16_t worker, uint8_t *at)
{
	struct wire hello = { .type = (uint8_t)-kind,
			      .generation = kind == -WIRE_WELCOME ? rng_u32(rng) : 0,
			      .job = rng_below(rng, 2) ? server->hosted[0].index : 0,
			      .child = worker,
			      .seq = rng_u32(rng),
			      .lanes = WIRE_HELLO_LANES };

	memset(at, 0, wire_bytes(WIRE_HELLO_LANES));
	wire_put(at, &hello);
	for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
		at[WIRE_HEADER_BYTES + i] = (uint8_t)rng_u32(rng);
	return wire_bytes(WIRE_HELLO_LANES);
}

/* ---- sending ---- */

static void batch_send(struct rng *rng, uint32_t which)
{
	static _Thread_local uint8_t bytes[BATCH][BYTES];
	const struct lie *lie = &lies[which];
	bool is_workers = lie->side == WORKER_TO_SWITCH || lie->side == WORKER_TO_SERVER;
	uint16_t worker = (uint16_t)rng_below(rng, WORKERS);
	uint16_t victim = lie->kind == -WIRE_HELLO ? (uint16_t)!worker : worker;
	struct link_address to = lie->side == SERVER_TO_WORKER ? kv[worker]->link->local
							       : server->self;
	int fd = link_udp_fd(is_workers ? kv[worker]->link : server->link), count;
	struct mmsghdr messages[BATCH];
	struct iovec iov[BATCH];
	union link_sockaddr at;
	socklen_t at_bytes;

	if (lie->side == SERVER_TO_WORKER)
		memcpy(to.ip, server->self.ip, sizeof(to.ip));
	at_bytes = link_address_to_socket(&to, false, &at);
	for (uint32_t i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ bytes[i],
					 lie->kind < 0
						 ? hello_make(rng, lie->kind, victim, bytes[i])
						 : sparse_make(rng, lie, victim, bytes[i]) };
		messages[i] = (struct mmsghdr){ .msg_hdr = { .msg_name = &at,
							     .msg_namelen = at_bytes,
							     .msg_iov = &iov[i],
							     .msg_iovlen = 1 } };
	}
	count = sendmmsg(fd, messages, BATCH, 0);
	if (count > 0)
		atomic_fetch_add(&sent[which], (uint64_t)count);
}

static bool is_flood_over(void)
{
	for (uint32_t i = 0; i < KINDS; i++)
		if (atomic_load(&sent[i]) < packets_wanted)
			return false;
	return true;
}

static void *flood(void *unused)
{
	struct rng rng;

	rng_init(&rng, seed, 99);
	while (!atomic_load(&is_over) && !is_flood_over()) {
		for (uint32_t i = 0; i < KINDS; i++)
			if (atomic_load(&sent[i]) < packets_wanted)
				batch_send(&rng, i);
		usleep(300); /* so that most find room in the sockets, and the table goes on */
	}
	return unused;
}

/* ---- the table ---- */

static void *serve(void *unused)
{
	if (ps_server_run(server))
		fail("tally-ps", "it has ended");
	return unused;
}

static void on_log(void *arg, enum ps_level level, const char *line)
{
	(void)arg;
	if (level <= PS_WARN)
		fprintf(stderr, "tally-ps: %s\n", line);
}

static void kv_check(int result, const char *what)
{
	if (result)
		fail(what, tally_get_last_error(NULL));
}

/* Pushes until the flood is over, of both signs, and waits now and then. */
static void *work(void *arg)
{
	uint32_t worker = *(uint32_t *)arg;
	uint64_t key[8], timestamp = 0;
	float value[8 * DIM];
	struct rng rng;

	rng_init(&rng, seed, worker);
	for (uint32_t round = 0; !atomic_load(&is_over); round++) {
		uint32_t first = rng_below(&rng, KEYS - 8);

		for (uint32_t i = 0; i < 8; i++) {
			key[i] = first + i;
			for (uint32_t k = 0; k < DIM; k++) {
				int32_t x = (int32_t)rng_below(&rng, 9) - 4 + (int32_t)worker;

				value[i * DIM + k] = (float)x;
				pushed[worker][first + i][k] += x;
			}
		}
		kv_check(tally_kv_push(kv[worker], key, value, 8, &timestamp), "push");
		if (round % 16 == 0)
			kv_check(tally_kv_wait(kv[worker], timestamp, WAIT_MS), "wait");
		if (is_flood_over() && round > 200)
			break;
	}
	if (!atomic_load(&bad))
		kv_check(tally_kv_wait(kv[worker], timestamp, WAIT_MS), "the last wait");
	return NULL;
}

static bool table_open(void)
{
	static uint64_t hot[HOT];
	static struct ps_hosted_options table;
	struct hot_map map = { .version = 1, .keys = HOT, .key = hot };
	struct ps_server_options options = { .listen = "127.0.0.1:0",
					     .job = "flood",
					     .key = "",
					     .workers = WORKERS,
					     .tables = &table,
					     .table_count = 1,
					     .log = on_log };
	char error[PS_ERROR_MAX];

	for (uint32_t i = 0; i < HOT; i++)
		hot[i] = 2 * i;
	if (!mkdtemp(folder))
		return false;
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
	if (hot_map_write(map_path, &map, error)) {
		fail("map", error);
		return false;
	}
	table = (struct ps_hosted_options){
		.table = { .name = "t",
			   .dim = DIM,
			   .window = 8,
			   .bytes = 512,
			   .optimiser = optimiser_default(OPTIMISER_SUM),
			   .unit = 1,
			   .map = map_path,
			   .has_copies = true,
			   .folder = folder },
		.age_us = 2000,
	};
	if (!ps_server_open(&server, &options, error))
		return true;
	fail("tally-ps", error);
	return false;
}

static bool worker_open(uint32_t worker)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	char text[PS_TEXT_BYTES];

	options.servers = ps_server_address(server, text);
	options.job = "flood";
	options.workers = WORKERS;
	options.worker = worker;
	options.flags = TALLY_KV_COPIES;
	if (!tally_kv_open(&kv[worker], "t", DIM, &options))
		return true;
	fail("open", tally_get_last_error(NULL));
	return false;
}

/* ---- the end ---- */

static void sums_judge(void)
{
	uint64_t key[KEYS];
	float value[KEYS * DIM];
	uint64_t timestamp;

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	kv_check(tally_kv_pull(kv[0], key, value, KEYS, &timestamp), "pull");
	kv_check(tally_kv_wait(kv[0], timestamp, WAIT_MS), "pull");
	for (uint32_t i = 0; i < KEYS * DIM && !atomic_load(&bad); i++) {
		int64_t sum = pushed[0][i / DIM][i % DIM] + pushed[1][i / DIM][i % DIM];

		if (value[i] == (float)sum)
			continue;
		fprintf(stderr, "key %u: %g, pushed were %lld\n", i / DIM, (double)value[i],
			(long long)sum);
		fail("sums", "they are wrong");
	}
}

/* What has been dropped and counted, everywhere. */
static uint64_t dropped_all(void)
{
	struct ps_dropped inside = ps_dropped_switch(server),
			  table = ps_dropped_table(&server->hosted[0]);
	uint64_t sum = inside.address + inside.generation + inside.nonce + table.address +
		       table.generation + table.nonce;

	for (uint32_t i = 0; i < WORKERS; i++) {
		struct tally_kv_stats stats = TALLY_KV_STATS_INIT;

		kv_check(tally_kv_get_stats(kv[i], &stats), "stats");
		sum += stats.packets_dropped;
	}
	return sum;
}

static void folder_remove(void)
{
	char path[80];

	unlink(map_path);
	snprintf(path, sizeof(path), "%s/t.0.log", folder);
	unlink(path);
	rmdir(folder);
}

int main(int argc, char **argv)
{
	pthread_t serves, floods, works[WORKERS];
	uint32_t numbers[WORKERS] = { 0, 1 };
	uint64_t generation, all = 0, dropped;

	packets_wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : packets_wanted;
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
	if (!table_open() || pthread_create(&serves, NULL, serve, NULL))
		return 1;
	for (uint32_t i = 0; i < WORKERS; i++)
		if (!worker_open(i))
			return 1;
	generation = home_sparse_server(server->hosted[0].table->home)->generation;
	for (uint32_t i = 0; i < WORKERS; i++)
		if (pthread_create(&works[i], NULL, work, &numbers[i]))
			return 1;
	if (pthread_create(&floods, NULL, flood, NULL))
		return 1;
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(works[i], NULL);
	atomic_store(&is_over, true);
	pthread_join(floods, NULL);
	if (!atomic_load(&bad))
		sums_judge();
	for (uint32_t i = 0; i < KINDS; i++)
		all += atomic_load(&sent[i]);
	dropped = atomic_load(&bad) ? 0 : dropped_all();
	if (home_sparse_server(server->hosted[0].table->home)->generation != generation)
		fail("generation", "another one has begun");
	/* The kernel has room for some of them: of those that came all are counted. */
	if (!atomic_load(&bad) && (dropped < all / 10 || dropped > all + 1000))
		fail("counters", "they do not tell of the flood");
	for (uint32_t i = 0; i < WORKERS; i++)
		kv_check(tally_kv_close(kv[i]), "close");
	ps_server_stop(server);
	pthread_join(serves, NULL);
	ps_server_close(server);
	folder_remove();
	printf("%llu hostile packets of %d kinds, seed %llu: %llu dropped and counted, the kernel "
	       "had no "
	       "room for the others: %s\n",
	       (unsigned long long)all, KINDS, (unsigned long long)seed,
	       (unsigned long long)dropped,
	       atomic_load(&bad) ? "FAILED" : "none taken, all sums exact");
	return atomic_load(&bad) ? 1 : 0;
}
