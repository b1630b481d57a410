/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blind.c - somebody who hears nothing, but forges addresses, and is luckier than anybody can be: every packet has the
 * right sender's address and port, job, child, slot, seq, tag, flags and lanes of this very moment. Of the numbers that
 * judge (docs/protocol.md) one alone is drawn: the generation, or in HELLO the nonce. Four ranks add all the while.
 *
 *     hostile_blind TALLYD [MODE] [PACKETS] [SUMS] [SEED]
 *
 * MODE: dense, latency, or kernel, which is latency with tallyd --engine kernel. One kind after the other, each with
 * a tallyd and a job of its own: PACKETS of it, while there are the kind's share of SUMS. None is taken, all of them are
 * counted as what they are, and told of now and then by who has dropped them; no job ends, no sum is wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/comm.h"
#include "network.h"
#include "tests/e2e/torture.h"

enum {
	RANKS = 4,
	BATCH = 32,
	SLOTS = 8,        /* of latency mode: as many as are on their way, so that there are ACKs */
	SMALL_COUNT = 16, /* elements of a sum there */
	AT_UDP = sizeof(struct iphdr),
	AT_PACKET = AT_UDP + sizeof(struct udphdr),
	LANES = 360,
	PACKET_BYTES_MAX = AT_PACKET + WIRE_HEADER_BYTES + LANES * WIRE_LANE_BYTES,
	PORT_OF_NOBODY = 9,
};

/* Kinds, and whom they are for. */
static const struct kind {
	const char *name;
	uint8_t type;
	bool is_to_worker, is_latency, is_dense;
} kinds[] = {
	{ "UPDATE", WIRE_UPDATE, false, true, true },
	{ "PROBE", WIRE_PROBE, false, false, true },
	{ "ACK", WIRE_ACK, false, true, false },
	{ "HELLO", WIRE_HELLO, false, true, true },
	{ "RESULT", WIRE_RESULT, true, true, true },
	{ "HELD", WIRE_HELD, true, true, true },
	{ "NEED", WIRE_NEED, true, false, true },
	{ "WELCOME", WIRE_WELCOME, true, true, true },
	{ "CONFIRM", WIRE_CONFIRM, true, true, false },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct shared {
	_Atomic uint64_t sent_tallyd, sent_worker[RANKS];
	_Atomic uint32_t sums;
	uint16_t port[RANKS];
	uint64_t bad[RANKS],
		lost[RANKS];          /* counted by the worker; by the kernel, on the way to it */
	uint64_t late_max[RANKS];     /* so many it takes for a former life's, R-CT-35 */
	_Atomic uint32_t told[RANKS]; /* lines that the worker has logged of them */
	double ran_s[RANKS];          /* from its first second to its last */
};

struct attack {
	struct tally_comm *comm;
	struct rng rng;
	uint32_t rank;
	int fd;
	pthread_t thread;
	atomic_bool is_over;
	_Alignas(8) uint8_t bytes[BATCH][PACKET_BYTES_MAX];
	struct sockaddr_in to;
	struct iovec iov[BATCH];
	struct mmsghdr messages[BATCH];
};

static struct shared *shared;
static struct daemon tallyd;
static const struct kind *kind; /* that is sent */
static bool is_latency, is_kernel;
static uint64_t packets_wanted = 20000, seed = 1;
static uint32_t sums_wanted = 20;

static bool is_of_mode(uint32_t which)
{
	return is_latency ? kinds[which].is_latency : kinds[which].is_dense;
}

static uint32_t kinds_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < KINDS; i++)
		count += is_of_mode(i);
	return count;
}

static uint64_t sent_all(void)
{
	uint64_t sum = atomic_load(&shared->sent_tallyd);

	for (uint32_t i = 0; i < RANKS; i++)
		sum += atomic_load(&shared->sent_worker[i]);
	return sum;
}

/* ---- one packet ---- */

/* What is true of a slot of this rank's at this moment. */
static struct wire truth_draw(struct attack *attack)
{
	const struct worker *dense = endpoint_worker(attack->comm->endpoint);
	const struct worker_latency *latency = endpoint_worker_latency(attack->comm->endpoint);
	struct wire packet = { .child = (uint16_t)attack->rank };

	if (is_latency) {
		uint32_t slot = rng_below(&attack->rng, latency->slots);
		const volatile struct worker_latency_slot *state = &latency->slot[slot];

		packet.job = latency->job;
		packet.generation = latency->generation;
		packet.slot = (uint16_t)slot;
		packet.seq = state->seq;
		packet.lanes = state->lanes;
		packet.tag = state->tag;
	} else {
		uint32_t slot = rng_below(&attack->rng, dense->slots);
		const volatile struct worker_slot *state = &dense->slot[slot];

		packet.job = dense->shards[0].job;
		packet.generation = dense->shards[0].generation;
		packet.slot = (uint16_t)slot;
		packet.flags = state->flags;
		packet.seq = state->seq;
		packet.lanes = state->lanes;
		packet.tag = state->tag;
	}
	return packet;
}

/* An address of its own in half of the HELLOs: what they are good for is to have it bound. */
static uint32_t packet_make(struct attack *attack, uint8_t *at)
{
	struct rng *rng = &attack->rng;
	struct wire packet = truth_draw(attack);
	bool is_nobodys = kind->type == WIRE_HELLO && rng_below(rng, 2);
	uint16_t own = shared->port[attack->rank];
	uint16_t from = kind->is_to_worker ? tallyd.port : own;
	struct iphdr *ip = (struct iphdr *)(void *)at;
	struct udphdr *udp = (struct udphdr *)(void *)(at + AT_UDP);
	uint32_t truth = packet.generation;

	packet.type = kind->type;
	if (kind->type == WIRE_HELLO || kind->type == WIRE_WELCOME)
		packet = (struct wire){ .type = kind->type,
					.job = packet.job,
					.generation = truth,
					.seq = rng_u32(rng),
					.child = packet.child,
					.lanes = WIRE_HELLO_LANES };
	else if (kind->type != WIRE_UPDATE && kind->type != WIRE_RESULT)
		packet.lanes = packet.flags = 0;
	while (kind->type != WIRE_HELLO && packet.generation == truth)
		packet.generation = rng_u32(rng);
	for (uint32_t i = 0; i < packet.lanes; i += 2) {
		uint64_t word = rng_next(rng);

		memcpy(at + AT_PACKET + WIRE_HEADER_BYTES + i * WIRE_LANE_BYTES, &word,
		       sizeof(word));
	}
	wire_put(at + AT_PACKET, &packet);
	*ip = (struct iphdr){ .version = 4,
			      .ihl = 5,
			      .ttl = 64,
			      .protocol = IPPROTO_UDP,
			      .saddr = htonl(INADDR_LOOPBACK + (is_nobodys ? 8 : 0)),
			      .daddr = htonl(INADDR_LOOPBACK) };
	*udp = (struct udphdr){ .source = htons(is_nobodys ? PORT_OF_NOBODY : from),
				.dest = htons(kind->is_to_worker ? own : tallyd.port),
				.len = htons((uint16_t)(8 + wire_bytes(packet.lanes))) };
	return AT_PACKET + wire_bytes(packet.lanes);
}

static void batch_send(struct attack *attack)
{
	int sent;

	for (uint32_t i = 0; i < BATCH; i++) {
		attack->iov[i] =
			(struct iovec){ attack->bytes[i], packet_make(attack, attack->bytes[i]) };
		attack->messages[i].msg_hdr = (struct msghdr){ .msg_name = &attack->to,
							       .msg_namelen = sizeof(attack->to),
							       .msg_iov = &attack->iov[i],
							       .msg_iovlen = 1 };
	}
	sent = sendmmsg(attack->fd, attack->messages, BATCH, 0);
	if (sent > 0)
		atomic_fetch_add(kind->is_to_worker ? &shared->sent_worker[attack->rank]
						    : &shared->sent_tallyd,
				 (uint64_t)sent);
}

/* No faster than the sums go on, so that there are packets during each of them. */
static void *attack_main(void *arg)
{
	struct attack *attack = arg;

	while (!atomic_load(&attack->is_over)) {
		uint64_t sums = atomic_load(&shared->sums) + 1;
		uint64_t now = packets_wanted;

		if (sums < sums_wanted)
			now = packets_wanted * sums / sums_wanted;
		if (sent_all() < now)
			batch_send(attack);
		else
			usleep(200);
	}
	return NULL;
}

/* ---- a rank ---- */

#define RANK_CHECK(claim)                                                  \
	do {                                                               \
		if (!(claim)) {                                            \
			fprintf(stderr, "rank %u: %s: %s\n", rank, #claim, \
				tally_get_last_error(comm));               \
			_exit(1);                                          \
		}                                                          \
	} while (0)

static void hear(int level, const char *line, void *arg)
{
	char words[96];

	(void)level;
	fprintf(stderr, "%s\n", line);
	snprintf(words, sizeof(words), " of another generation, the last from 127.0.0.1:%u.",
		 tallyd.port);
	if (strstr(line, " dropped since it joined: ") && strstr(line, words))
		atomic_fetch_add((_Atomic uint32_t *)arg, 1);
}

/* For a former life's. */
static bool is_too_many(uint32_t rank)
{
	return shared->bad[rank] > shared->late_max[rank];
}

static bool is_enough(struct tally_comm *comm, uint32_t rank)
{
	int32_t more = rank == 0 &&
		       (atomic_load(&shared->sums) < sums_wanted || sent_all() < packets_wanted);

	RANK_CHECK(!tally_allreduce(&more, &more, 1, TALLY_INT32, TALLY_SUM, comm));
	RANK_CHECK(more == 0 || more == 1);
	return !more;
}

/* 1,000 small ones: what rank r gives at place i of sum s is small, of both signs, and different for each. */
static bool small_sums(struct tally_comm *comm, uint32_t rank, uint32_t sum)
{
	for (int32_t s = 0; s < 1000; s++) {
		int32_t x[SMALL_COUNT];

		for (int32_t i = 0; i < SMALL_COUNT; i++)
			x[i] = ((int32_t)rank * 7919 + i * 31 + s) * (i % 2 ? -1 : 1) +
			       (int32_t)sum;
		RANK_CHECK(!tally_allreduce(x, x, SMALL_COUNT, TALLY_INT32, TALLY_SUM, comm));
		for (int32_t i = 0; i < SMALL_COUNT; i++) {
			int32_t ranks = 0 + 1 + 2 + 3, one = i * 31 + s;

			if (x[i] !=
			    (ranks * 7919 + RANKS * one) * (i % 2 ? -1 : 1) + RANKS * (int32_t)sum)
				return false;
		}
	}
	return true;
}

static void rank_main(uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	int32_t *buffer = malloc(SUM_COUNT_MAX * sizeof(*buffer));
	static struct attack attack;
	struct tally_comm *comm = NULL;
	struct tally_stats stats = TALLY_STATS_INIT;
	double begin_s = now_s();
	uint32_t sum = 0;

	tally_set_log(TALLY_LOG_WARN, hear, &shared->told[rank]);
	options.aggregator = tallyd.address;
	options.init_timeout_s = 20;
	if (is_latency)
		options.latency_slots = options.latency_window = SLOTS;
	RANK_CHECK(!tally_comm_init(&comm, "blind", RANKS, rank, &options));
	shared->port[rank] = comm->link->local.port;
	RANK_CHECK(!tally_barrier(comm));
	attack.comm = comm;
	attack.rank = rank;
	attack.to = (struct sockaddr_in){ .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	rng_init(&attack.rng, seed, rank);
	attack.fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	RANK_CHECK(attack.fd >= 0);
	RANK_CHECK(!pthread_create(&attack.thread, NULL, attack_main, &attack));
	while (!is_enough(comm, rank)) {
		if (is_latency)
			RANK_CHECK(small_sums(comm, rank, sum++));
		else
			RANK_CHECK(!sum_verified(comm, (uint32_t)seed * 1000 + sum++, buffer));
		if (rank == 0)
			atomic_fetch_add(&shared->sums, 1);
	}
	atomic_store(&attack.is_over, true);
	RANK_CHECK(!pthread_join(attack.thread, NULL));
	for (uint32_t i = 0; i < 20; i++) { /* nobody attacks any more: the last are read here */
		RANK_CHECK(!tally_barrier(comm));
		usleep(10000);
	}
	RANK_CHECK(!tally_barrier(comm));
	RANK_CHECK(!tally_comm_get_stats(comm, &stats));
	shared->bad[rank] = stats.packets_bad;
	shared->lost[rank] = network_look(shared->port[rank], false).lost;
	shared->late_max[rank] = 2ull * stats.shards * stats.slots;
	shared->ran_s[rank] = now_s() - begin_s;
	for (uint32_t i = 0; i < 500 && is_too_many(rank) && !atomic_load(&shared->told[rank]); i++)
		usleep(10000); /* its background thread looks now and then */
	RANK_CHECK(!tally_comm_finalize(comm));
	tally_comm_destroy(comm);
	_exit(0);
}

/* ---- accounts ---- */

/* Of tallyd's last "shard 0: ... dropped: generation 3, address 5". */
static uint64_t tallyd_drops(const char *name)
{
	const char *line = NULL, *at;

	for (at = strstr(tallyd.log, "shard 0: "); at; at = strstr(at + 1, "shard 0: "))
		if (strstr(at, "dropped:") && strstr(at, "dropped:") < strchr(at, '\n'))
			line = strstr(at, "dropped:");
	at = line ? strstr(line, name) : NULL;
	return at && at < strchr(line, '\n') ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static bool account_fits(const char *where, uint64_t sent, uint64_t counted, uint64_t lost)
{
	bool fits = counted <= sent && counted + lost >= sent;

	printf("%llu packets to %s: %llu dropped and counted, the kernel had no room for %llu%s\n",
	       (unsigned long long)sent, where, (unsigned long long)counted,
	       (unsigned long long)lost, fits ? "" : ": FAILED");
	return fits;
}

/* At once, and then every 10 s at most. */
static bool is_told(uint32_t rank)
{
	uint32_t told = atomic_load(&shared->told[rank]);
	bool fits = told >= is_too_many(rank) && told <= 1 + (uint32_t)shared->ran_s[rank] / 10;

	printf("rank %u has told of them in %u lines, in %.1f s%s\n", rank, told,
	       shared->ran_s[rank], fits ? "" : ": FAILED");
	return fits;
}

/* Of "shard 0, kernel: 5 packets added": the filter has had them, and forged ones as well. */
static bool kernel_served(void)
{
	unsigned long long added = 0;
	const char *at;

	for (at = strstr(tallyd.log, ", kernel: "); at; at = strstr(at + 1, ", kernel: "))
		sscanf(at, ", kernel: %llu packets added", &added);
	printf("the kernel has added %llu packets%s\n", added, added ? "" : ": FAILED");
	return added;
}

static bool accounts_fit(uint64_t lost_tallyd)
{
	const char *why = kind->type == WIRE_HELLO ? " hello that binds nobody " : " generation ";
	bool fits = account_fits("tallyd", atomic_load(&shared->sent_tallyd), tallyd_drops(why),
				 lost_tallyd);

	for (uint32_t i = 0; i < RANKS; i++) {
		char where[32];

		snprintf(where, sizeof(where), "rank %u", i);
		fits &= account_fits(where, atomic_load(&shared->sent_worker[i]), shared->bad[i],
				     shared->lost[i]);
		fits &= is_told(i);
	}
	if (is_kernel)
		fits &= kernel_served();
	return fits;
}

/* ---- who may forge ---- */

static bool may_forge(void)
{
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Nobody else's packets, ports and limits are there; filters are for root alone, and in no network but that. */
static bool is_possible(void)
{
	bool is_root = !geteuid(), is_own = network_own();

	if (is_kernel && (!is_root || !is_own))
		printf("SKIP: a filter of tallyd's needs root, and a network of its own\n");
	else if (!may_forge())
		printf("SKIP: no raw sockets, and no network namespace: %s\n", strerror(errno));
	else
		return true;
	return false;
}

/* ---- one kind ---- */

static uint64_t moved(void)
{
	return atomic_load(&shared->sums) + sent_all();
}

/* 0; 77: tallyd cannot do it; else it is bad. */
static int kind_run(const char *program)
{
	/* LANES: of loopback there would be more. */
	const char *const more[] = { "--lanes", "360", NULL };
	const char *const in_kernel[] = { "--lanes",   "360", "--engine", "kernel",
					  "--devices", "lo",  NULL };
	pid_t pid[RANKS];
	int bad = 0, status;
	uint64_t lost;

	memset(shared, 0, sizeof(*shared));
	if (!daemon_start_with(&tallyd, program, 0, is_kernel ? in_kernel : more))
		return is_kernel && strstr(tallyd.log, "built without") ? 77 : 1;
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		pid[rank] = fork_bound();
		if (pid[rank] == 0)
			rank_main(rank);
	}
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		if (!child_wait_moving(pid[rank], &tallyd, moved, &status))
			printf("FAILED: rank %u hangs\n", rank);
		bad += status != 0;
	}
	lost = network_look(tallyd.port, false).lost;
	status = daemon_end(&tallyd);
	if (status)
		printf("FAILED: tallyd ended with %d\n", status);
	bad += !accounts_fit(lost) || status;
	printf("%s: %u verified sums of %d ranks: %s\n", kind->name, atomic_load(&shared->sums),
	       RANKS, bad ? "FAILED" : "none taken, none wrong, no job ended");
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	double begin_s = now_s();
	int bad = 0;

	if (argc < 2)
		return 2;
	is_kernel = argc > 2 && !strcmp(argv[2], "kernel");
	is_latency = is_kernel || (argc > 2 && !strcmp(argv[2], "latency"));
	packets_wanted = argc > 3 ? argument("PACKETS", argv[3], 1) : packets_wanted;
	sums_wanted = argc > 4 ? (uint32_t)argument("SUMS", argv[4], 1) : sums_wanted;
	seed = argc > 5 ? argument("SEED", argv[5], 0) : seed;
	if (!is_possible())
		return 77;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	sums_wanted = (sums_wanted + kinds_count() - 1) / kinds_count();
	for (uint32_t i = 0; i < KINDS; i++) {
		int result;

		if (!is_of_mode(i))
			continue;
		kind = &kinds[i];
		result = kind_run(argv[1]);
		if (result == 77) {
			printf("SKIP: tallyd was built without libbpf or clang\n");
			return 77;
		}
		bad += result;
	}
	printf("%s: %u kinds, seed %llu, %.1f s: %s\n", argc > 2 ? argv[2] : "dense", kinds_count(),
	       (unsigned long long)seed, now_s() - begin_s,
	       bad ? "FAILED" : "no packet taken, no job ended");
	return bad ? 1 : 0;
}
