/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender.c - somebody who can reach the ports, and knows everything but the nonces, while four ranks add.
 *
 *     hostile_sender TALLYD [PACKETS] [SUMS] [SEED]
 *
 * In every rank's process a thread looks at the rank's own slots (so it knows job, generation, seqs, tags
 * and lanes of this very moment) and sends UPDATEs, PROBEs, RESULTs, HELLOs, HELDs, NEEDs, ACKs, packets of
 * tables and garbage from addresses of its own to tallyd's port and to all workers' ports. Every sum is verified in every
 * element. All that arrived must be in a counter of drops, at tallyd and at the workers.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/sparse/wire_sparse.h"
#include "dataplane/link_address.h"
#include "lib/comm.h"
#include "network.h"
#include "tests/e2e/torture.h"

enum {
	RANKS = 4,
	BATCH = 32,
	PACKET_BYTES_MAX = 2048,
	SOCKETS = 2,
};

struct shared {
	_Atomic uint64_t sent_tallyd, sent_worker[RANKS];
	_Atomic uint32_t sums, ready;
	uint16_t port[RANKS];
	uint64_t bad[RANKS], resent[RANKS]; /* what the worker has counted */
	uint64_t lost[RANKS];               /* by the kernel, on the way to it */
};

struct attack {
	struct tally_comm *comm;
	struct rng rng;
	int fds[SOCKETS];
	pthread_t thread;
	atomic_bool is_over;
	uint8_t bytes[BATCH][PACKET_BYTES_MAX];
	union link_sockaddr to[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr messages[BATCH];
};

static struct shared *shared;
static struct daemon tallyd;
static uint64_t packets_wanted = 200000;
static uint32_t sums_wanted = 20;
static uint64_t seed = 1;

/* Loopback, of the family that tallyd is reached over; `host`: of IPv4's loopback addresses, IPv6 has but
 * one. The bytes of *to that are used. */
static socklen_t loopback(uint32_t host, uint16_t port, union link_sockaddr *to)
{
	struct link_address address = { .ip = { [15] = 1 }, .port = port };

	if (!torture_is_v6())
		memcpy(address.ip + 10, (uint8_t[]){ 0xff, 0xff, 127, 0, 0, (uint8_t)(1 + host) },
		       6);
	return link_address_to_socket(&address, torture_is_v6(), to);
}

/* ---- one packet ---- */

/* Something true about a slot of this moment; read while the worker goes on, which is as near as an eye
 * on the wire would be. */
static struct wire truth_draw(struct attack *attack)
{
	const struct worker *worker = endpoint_worker(attack->comm->endpoint);
	uint32_t slot = rng_below(&attack->rng, worker->slots);
	const volatile struct worker_slot *state = &worker->slot[slot];

	return (struct wire){ .flags = state->flags,
			      .job = worker->shards[0].job,
			      .generation = worker->shards[0].generation,
			      .seq = state->seq,
			      .slot = (uint16_t)slot,
			      .child = (uint16_t)rng_below(&attack->rng, RANKS),
			      .exponent = (uint16_t)rng_below(&attack->rng, 256),
			      .lanes = state->lanes,
			      .tag = state->tag };
}

static void lie_draw(struct attack *attack, struct wire *packet)
{
	struct rng *rng = &attack->rng;

	switch (rng_below(rng, 12)) {
	case 0:
		packet->seq += rng_below(rng, 5) - 2;
		break;
	case 1:
		packet->generation += rng_below(rng, 3) - 1;
		break;
	case 2:
		packet->job = (uint16_t)rng_u32(rng);
		break;
	case 3:
		packet->child = (uint16_t)rng_u32(rng);
		break;
	case 4:
		packet->slot = (uint16_t)rng_u32(rng);
		break;
	case 5:
		packet->lanes = (uint16_t)(rng_below(rng, 100) * 4);
		break;
	case 6:
		packet->flags = (uint8_t)rng_u32(rng);
		break;
	case 7:
		packet->exponent = WIRE_EXPONENT_UNKNOWN;
		break;
	case 8:
		packet->tag = rng_u32(rng);
		break;
	default: /* all of it is as it should be, but for who says it */
		break;
	}
}

/* A table's packet, of any kind, to tables that nobody has: the shape is right in most. */
static uint32_t table_packet_make(struct attack *attack, uint8_t *at)
{
	struct rng *rng = &attack->rng;
	struct sparse packet = { .kind = (uint8_t)rng_below(rng, SPARSE_KIND_END + 1),
				 .table = (uint16_t)rng_below(rng, 4),
				 .worker = (uint16_t)rng_below(rng, RANKS),
				 .generation = rng_below(rng, 3),
				 .number = rng_below(rng, 100),
				 .map = 1,
				 .parts = 1 };
	bool has_items = rng_below(rng, 2);

	packet.count = has_items;
	packet.width = has_items;
	memset(at, 0xff, sparse_bytes(&packet));
	sparse_put(at, &packet);
	return sparse_bytes(&packet);
}

static uint32_t packet_make(struct attack *attack, bool is_to_worker, uint8_t *at)
{
	static const uint8_t to_tallyd[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_UPDATE, WIRE_PROBE,
					     WIRE_RESULT, WIRE_HELLO,  WIRE_NEED,   WIRE_HELD,
					     WIRE_ACK,    WIRE_CONFIRM };
	static const uint8_t to_worker[] = { WIRE_RESULT, WIRE_RESULT,  WIRE_RESULT, WIRE_HELD,
					     WIRE_NEED,   WIRE_WELCOME, WIRE_UPDATE, WIRE_PROBE,
					     WIRE_HELLO,  WIRE_CONFIRM };
	struct wire packet = truth_draw(attack);
	struct rng *rng = &attack->rng;
	uint32_t bytes, type = rng_below(rng, sizeof(to_worker));

	if (!rng_below(rng, 12))
		return table_packet_make(attack, at);
	packet.type = is_to_worker ? to_worker[type] : to_tallyd[type];
	if (packet.type != WIRE_UPDATE && packet.type != WIRE_RESULT)
		packet.lanes = 0;
	if (packet.type == WIRE_HELLO || packet.type == WIRE_WELCOME)
		packet.lanes = WIRE_HELLO_LANES;
	lie_draw(attack, &packet);
	bytes = wire_bytes(packet.lanes);
	if (bytes > PACKET_BYTES_MAX)
		bytes = PACKET_BYTES_MAX;
	for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word = rng_next(rng);

		memcpy(at + i, &word, sizeof(word));
	}
	wire_put(at, &packet);
	if (!rng_below(rng, 20)) /* no packet at all */
		at[rng_below(rng, WIRE_HEADER_BYTES)] = (uint8_t)rng_u32(rng);
	if (!rng_below(rng, 20))
		bytes = rng_below(rng, bytes) + 1;
	return bytes;
}

/* ---- sending ---- */

/* As many as a socket takes, half of all to tallyd; they are counted as sent one by one. */
static void batch_send(struct attack *attack)
{
	uint32_t target = rng_below(&attack->rng, 2 * RANKS);
	bool is_to_worker = target < RANKS;
	int sent;

	for (uint32_t i = 0; i < BATCH; i++) {
		uint16_t port = is_to_worker ? shared->port[target] : tallyd.port;
		socklen_t to_bytes = loopback(0, port, &attack->to[i]);

		attack->iov[i] = (struct iovec){ attack->bytes[i], packet_make(attack, is_to_worker,
									       attack->bytes[i]) };
		attack->messages[i].msg_hdr = (struct msghdr){ .msg_name = &attack->to[i],
							       .msg_namelen = to_bytes,
							       .msg_iov = &attack->iov[i],
							       .msg_iovlen = 1 };
	}
	sent = sendmmsg(attack->fds[rng_below(&attack->rng, SOCKETS)], attack->messages, BATCH, 0);
	if (sent > 0)
		atomic_fetch_add(is_to_worker ? &shared->sent_worker[target] : &shared->sent_tallyd,
				 (uint64_t)sent);
}

static uint64_t sent_all(void)
{
	uint64_t sum = atomic_load(&shared->sent_tallyd);

	for (uint32_t i = 0; i < RANKS; i++)
		sum += atomic_load(&shared->sent_worker[i]);
	return sum;
}

/* No faster than the sums go on, so that there are packets during each of them. */
static void *attack_main(void *arg)
{
	struct attack *attack = arg;

	while (!atomic_load(&attack->is_over)) {
		uint64_t sums = atomic_load(&shared->sums) + 1;

		if (sums < sums_wanted && sent_all() > packets_wanted * sums / sums_wanted)
			usleep(200);
		else
			batch_send(attack);
	}
	return NULL;
}

static bool attack_open(struct attack *attack, struct tally_comm *comm, uint32_t rank)
{
	attack->comm = comm;
	rng_init(&attack->rng, seed, rank);
	for (uint32_t i = 0; i < SOCKETS; i++) {
		union link_sockaddr from;
		socklen_t bytes = loopback(i, 0, &from);

		attack->fds[i] = socket(from.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (attack->fds[i] < 0 || bind(attack->fds[i], &from.any, bytes))
			return false;
	}
	return !pthread_create(&attack->thread, NULL, attack_main, attack);
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

/* Rank 0 says whether it goes on, in a sum, so that all know. */
static bool is_enough(struct tally_comm *comm, uint32_t rank)
{
	int32_t more = rank == 0 &&
		       (atomic_load(&shared->sums) < sums_wanted || sent_all() < packets_wanted);

	RANK_CHECK(!tally_allreduce(&more, &more, 1, TALLY_INT32, TALLY_SUM, comm));
	RANK_CHECK(more == 0 || more == 1);
	return !more;
}

static void rank_main(uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	int32_t *buffer = malloc(SUM_COUNT_MAX * sizeof(*buffer));
	static struct attack attack;
	struct tally_comm *comm = NULL;
	struct tally_stats stats = TALLY_STATS_INIT;
	uint32_t sum = 0;

	options.aggregator = tallyd.address;
	options.init_timeout_s = 20;
	RANK_CHECK(!tally_comm_init(&comm, "hostile", RANKS, rank, &options));
	shared->port[rank] = comm->link->local.port;
	RANK_CHECK(!tally_barrier(comm));
	RANK_CHECK(attack_open(&attack, comm, rank));
	while (!is_enough(comm, rank)) {
		int result = sum_verified(comm, (uint32_t)seed * 1000 + sum++, buffer);

		if (result == SUM_WRONG)
			fprintf(stderr, "rank %u: WRONG SUM\n", rank);
		RANK_CHECK(!result);
		if (rank == 0)
			atomic_fetch_add(&shared->sums, 1);
	}
	atomic_store(&attack.is_over, true);
	RANK_CHECK(!pthread_join(attack.thread, NULL));
	RANK_CHECK(!tally_barrier(comm)); /* nobody attacks any more: the last are read here */
	for (uint32_t i = 0; i < 20; i++) {
		usleep(10000);
		RANK_CHECK(!tally_barrier(comm));
	}
	RANK_CHECK(!tally_comm_get_stats(comm, &stats));
	shared->bad[rank] = stats.packets_bad;
	shared->resent[rank] = stats.packets_resent;
	shared->lost[rank] = network_look(shared->port[rank], torture_is_v6()).lost;
	RANK_CHECK(!tally_comm_finalize(comm));
	tally_comm_destroy(comm);
	_exit(0);
}

/* ---- accounts ---- */

/* Of "dropped: type 3, address 5": one of these, or all. */
static uint64_t line_drops(const char *at, const char *name)
{
	const char *end = strchr(at, '\n');
	size_t length = strlen(name);
	uint64_t sum = 0;

	for (const char *word = at; end && word && word < end; word = strchr(word + 1, ' ')) {
		const char *before = word - length;
		bool is_it = !length || (before > at && !strncmp(before, name, length));

		if (is_it && *word == ' ' && word[1] >= '0' && word[1] <= '9')
			sum += strtoull(word + 1, NULL, 10);
	}
	return sum;
}

/* A shard has a line of its jobs' packets, and one of its tables' if there were any. */
static uint64_t tallyd_drops(const char *name)
{
	static const char dropped[] = "dropped:";
	uint64_t sum = 0;

	for (const char *at = strstr(tallyd.log, dropped); at; at = strstr(at + 1, dropped))
		sum += line_drops(at, name);
	return sum;
}

static bool account_fits(const char *where, uint64_t sent, uint64_t counted, uint64_t lost)
{
	bool fits = counted <= sent && counted + lost >= sent;

	printf("%llu packets to %s: %llu dropped and counted, the kernel had no room for %llu\n",
	       (unsigned long long)sent, where, (unsigned long long)counted,
	       (unsigned long long)lost);
	if (!fits)
		printf("FAILED: a %s\n", counted > sent
						 ? "packet of ours is in the hostile ones' counters"
						 : "hostile packet is in no counter");
	return fits;
}

/* Exact but for what the kernel has lost. Of ours tallyd drops late copies alone, as stale; from an address
 * of which it knows nothing it drops before it looks that far. */
static bool accounts_fit(uint64_t lost_tallyd)
{
	const char *line = strstr(tallyd.log, "packets in; dropped");
	uint64_t resent = 0;
	bool fits = account_fits("tallyd", atomic_load(&shared->sent_tallyd),
				 tallyd_drops("") - tallyd_drops(" stale"), lost_tallyd);

	for (uint32_t i = 0; i < RANKS; i++) {
		char where[32];

		snprintf(where, sizeof(where), "rank %u", i);
		fits &= account_fits(where, atomic_load(&shared->sent_worker[i]), shared->bad[i],
				     shared->lost[i]);
		resent += shared->resent[i];
	}
	printf("%llu of ours sent again; tallyd %.*s\n", (unsigned long long)resent,
	       line ? (int)strcspn(line, "\n") : 0, line ? line : "");
	return fits;
}

static uint64_t moved(void)
{
	return atomic_load(&shared->sums) + sent_all();
}

int main(int argc, char **argv)
{
	double begin_s = now_s();
	uint64_t lost;
	pid_t pid[RANKS];
	int bad = 0, status;

	if (argc < 2)
		return 2;
	if (torture_lacks_family())
		return 77;
	packets_wanted = argc > 2 ? argument("PACKETS", argv[2], 1) : packets_wanted;
	sums_wanted = argc > 3 ? (uint32_t)argument("SUMS", argv[3], 1) : sums_wanted;
	seed = argc > 4 ? argument("SEED", argv[4], 0) : seed;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !daemon_start(&tallyd, argv[1], 0))
		return 1;
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
	lost = network_look(tallyd.port, torture_is_v6()).lost;
	status = daemon_end(&tallyd);
	if (status)
		printf("FAILED: tallyd ended with %d\n", status);
	bad += !accounts_fit(lost) || status;
	printf("%u verified sums of %d ranks, seed %llu, %.1f s: %s\n", atomic_load(&shared->sums),
	       RANKS, (unsigned long long)seed, now_s() - begin_s,
	       bad ? "FAILED" : "none wrong, nobody crashed");
	return bad ? 1 : 0;
}
