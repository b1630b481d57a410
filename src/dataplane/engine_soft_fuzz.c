/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_soft_fuzz.c - frames into a shard's engine: runs of packets as GRO makes them, odd sizes, any
 * sender, HELLOs with right and wrong nonces. Every answer must be a packet to somebody who was heard
 * of, every packet that came must be in exactly one counter, and who is bound is kept a second time here.
 */
#include <sys/mman.h>

#include "dataplane/engine_soft.h"
#include "dataplane/link_fuzz.h"

enum {
	JOBS = 3, /* 0: a root of 3 children, 1: a tree node of 2, 2: latency mode, 2 children */
	CHILDREN = 3,
	SLOTS = 2,
	LANES = 16,
	PEERS = 8, /* hosts; the last but one is the parent, the last has another port only */
	PARENT = 6,
	GENERATION = 77,
	PARENT_JOB = 9,
	FRAME_BYTES_MAX = 4096,
	FRAMES_MAX = 24,
	TABLE = 3, /* of sparse mode, with 2 workers; no job has this index */
	TABLE_WORKERS = 2,
	MEMORIES = JOBS + 1,
};

static const uint8_t nonces[CHILDREN][WIRE_NONCE_BYTES] = { "nonce of child 0", "nonce of child 1",
							    "nonce of child 2" };

struct bound {
	uint32_t serial;
	int peer; /* -1: nobody */
	bool has_serial;
};

static struct {
	struct fuzz_link link;
	struct engine_soft *engine;
	struct bound bound[JOBS][CHILDREN];
	uint64_t welcomes; /* sent since the run began */
} test;

static const uint16_t children[JOBS] = { 3, 2, 2 };

static struct link_address address_of(int peer)
{
	struct link_address address = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10 },
					.port = 9000 };

	address.ip[15] = (uint8_t)(peer == PEERS - 1 ? 0 : peer);
	address.port = peer == PEERS - 1 ? 9001 : 9000;
	return address;
}

static int peer_of(const struct link_address *address)
{
	for (int peer = 0; peer < PEERS; peer++) {
		struct link_address known = address_of(peer);

		if (link_address_equal(&known, address))
			return peer;
	}
	return -1;
}

/* ---- jobs' memory: of the heap, so that asan sees where it ends ---- */

/* With 64 bits for offsets, as meson builds, mmap's name is mmap64 to the linker. */
void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_madvise(void *at, size_t bytes, int advice);

static void *job_memory[MEMORIES];

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	for (uint32_t i = 0; flags & MAP_NORESERVE && i < MEMORIES; i++)
		if (!job_memory[i])
			return job_memory[i] = calloc(1, bytes);
	return __real_mmap64(at, bytes, protection, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t bytes)
{
	for (uint32_t i = 0; i < MEMORIES; i++) {
		if (at != job_memory[i])
			continue;
		free(at);
		job_memory[i] = NULL;
		return 0;
	}
	return __real_munmap(at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
	(void)at, (void)bytes, (void)advice;
	return 0;
}

/* ---- the link ---- */

static bool is_bound_at(const struct wire *packet, int peer)
{
	return packet->job < JOBS && packet->type != WIRE_UPDATE && packet->type != WIRE_PROBE &&
	       (test.bound[packet->job][0].peer == peer ||
		test.bound[packet->job][1].peer == peer || test.bound[packet->job][2].peer == peer);
}

static int fake_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];
		int peer = peer_of(&frame->peer);

		FUZZ_CHECK(peer >= 0);
		FUZZ_CHECK(frame->count >= 1);
		FUZZ_CHECK(frame->count <= LINK_FRAME_PACKETS_MAX);
		FUZZ_CHECK(frame->bytes == frame->count * frame->packet_bytes);
		FUZZ_CHECK(frame->bytes <= LINK_FRAME_BYTES_MAX);
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
			struct sparse sparse;
			struct wire packet;

			if (frame->data[at] == SPARSE_FIRST_BYTE) {
				FUZZ_CHECK(!sparse_check(frame->data + at, frame->packet_bytes,
							 &sparse));
				FUZZ_CHECK(sparse.table == TABLE);
				continue;
			}
			FUZZ_CHECK(!wire_check(frame->data + at, frame->packet_bytes, &packet));
			test.welcomes += packet.type == WIRE_WELCOME;
			FUZZ_CHECK(packet.type == WIRE_WELCOME || is_bound_at(&packet, peer) ||
				   (peer == PARENT && packet.job == PARENT_JOB));
		}
	}
	return 0;
}

static const struct link_ops fake_ops = { .recv = fuzz_link_recv,
					  .send = fake_send,
					  .now_ns = fuzz_link_now };

/* ---- what comes in ---- */

static uint16_t near_seq(struct fuzz_input *input, uint16_t job, uint16_t slot, uint32_t *seq)
{
	struct switch_slot state = { 0 };
	struct switch_latency_slot latency = { 0 };
	uint8_t how = fuzz_u8(input);

	if (job == 2) {
		(void)engine_latency_slot_read(test.engine, job, slot, &latency);
		*seq = latency.generation ? latency.round + (how & 3) - (how & 4 ? 2u : 0) : 1;
		return latency.lanes;
	}
	(void)engine_slot_read(test.engine, job, slot, &state);
	*seq = state.generation ? state.phase + (how & 3) - (how & 4 ? 2u : 0) : 1;
	return state.copy[*seq & 1].lanes;
}

/* One packet at `at`, at most `room` bytes; its bytes. */
static uint32_t packet_make(struct fuzz_input *input, uint8_t *at, uint32_t room)
{
	static const uint8_t types[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_PROBE, WIRE_RESULT,
					 WIRE_NEED,   WIRE_HELLO,  WIRE_HELD,  WIRE_ACK };
	uint8_t what = fuzz_u8(input), where = fuzz_u8(input), how = fuzz_u8(input);
	struct wire packet = { .type = types[what & 7],
			       .job = where % JOBS,
			       .slot = what >> 4 & 1,
			       .child = what >> 5 & 3,
			       .generation = GENERATION,
			       .tag = how & 1,

			       .flags = where % JOBS == 2 ? 0 : how >> 1 & 0x1f };
	uint32_t bytes;

	packet.lanes = near_seq(input, packet.job, packet.slot, &packet.seq);
	if (how & 0x80)
		packet.lanes = fuzz_u8(input) % (LANES / 4 + 2) * 4;
	if (packet.type == WIRE_PROBE || packet.type == WIRE_NEED || packet.type == WIRE_HELD ||
	    packet.type == WIRE_ACK)
		packet.lanes = 0;
	if (packet.type == WIRE_HELLO && packet.lanes < WIRE_HELLO_LANES)
		packet.lanes = WIRE_HELLO_LANES;
	if (packet.type == WIRE_RESULT || packet.type == WIRE_NEED || packet.type == WIRE_HELD)
		packet.job = PARENT_JOB;
	if (what & 0x80) { /* something is wrong with it */
		uint8_t wrong = fuzz_u8(input);

		packet.generation += wrong & 1;
		packet.job = (uint16_t)(packet.job + (wrong >> 1 & 3u));
		packet.slot = (uint16_t)(packet.slot + ((wrong >> 3 & 3u) << 1));
		packet.child = (uint16_t)(packet.child + (wrong >> 5));
	}
	bytes = wire_bytes(packet.lanes);
	if (bytes > room)
		return 0;
	fuzz_packet_put(at, &packet, how);
	if (packet.type == WIRE_HELLO && how & 0x40)
		memcpy(at + WIRE_HEADER_BYTES, nonces[packet.child % CHILDREN], WIRE_NONCE_BYTES);
	return bytes;
}

/* A frame: packets of one size but for the last, or bytes cut at any size. */
static void frame_make(struct fuzz_input *input)
{
	static _Alignas(8) uint8_t data[FRAME_BYTES_MAX];
	uint8_t how = fuzz_u8(input);
	uint32_t bytes = 0, packet_bytes = 0, count = 0;

	if (how & 0x80) {
		packet_bytes = 1 + fuzz_u8(input) % 200u;
		bytes = (uint32_t)fuzz_bytes(input, data, fuzz_u8(input));
		for (uint32_t at = 0; how & 0x40 && at + 4 <= bytes; at += packet_bytes) {
			data[at] = SPARSE_FIRST_BYTE;
			wire_put16(data + at + 2, TABLE);
		}
	} else {
		for (uint32_t i = 0; i <= (how & 7u); i++) {
			uint32_t size = packet_make(input, data + bytes, FRAME_BYTES_MAX - bytes);

			packet_bytes = i ? packet_bytes : size;
			if (size > packet_bytes || !size)
				break;
			bytes += size;
			if (size < packet_bytes)
				break;
		}
		packet_bytes += how >> 6 & 1; /* as if the sizes were odd ones */
	}
	count = bytes ? (bytes + packet_bytes - 1) / packet_bytes : 1;
	test.link.frame = (struct link_frame){
		.peer = address_of(how >> 3 & 7),
		.packet_bytes = packet_bytes ? packet_bytes : 1,
		.count = count,
		.bytes = bytes,
		.data = fuzz_link_room(&test.link, bytes),
	};
	memcpy(test.link.frame.data, data, bytes);
	test.link.has_frame = true;
}

/* ---- what must be so ---- */

/* Binds as docs/protocol.md says: the right nonce, and a serial that is higher. */
static void bind_all(const struct link_frame *frame)
{
	for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
		uint32_t bytes = link_packet_bytes(frame, at);
		int peer = peer_of(&frame->peer);
		struct bound *bound;
		struct wire packet;

		if (wire_check(frame->data + at, bytes, &packet) || packet.type != WIRE_HELLO ||
		    packet.job >= JOBS || packet.child >= children[packet.job] ||
		    memcmp(frame->data + at + WIRE_HEADER_BYTES, nonces[packet.child],
			   WIRE_NONCE_BYTES) != 0)
			continue;
		bound = &test.bound[packet.job][packet.child];
		if (bound->has_serial && (int32_t)(packet.seq - bound->serial) <= 0)
			continue;
		*bound = (struct bound){ packet.seq, peer, true };
	}
}

static uint64_t counted(void)
{
	const struct engine_stats *stats = engine_stats(test.engine);
	const struct engine_sparse_stats *tables = engine_sparse_stats(engine_tables(test.engine));
	uint64_t sum = stats->hello_unknown + tables->unknown_table + tables->wrong_address +
		       tables->overtaken; /* not wrong_nonce: such a HELLO is unknown, too */

	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		sum += stats->fault[i] + tables->fault[i];
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
		sum += stats->verdict[i];
	for (uint32_t i = 0; i < SWITCH_SPARSE_VERDICT_COUNT; i++)
		sum += tables->verdict[i];
	return sum;
}

static void events_check(void)
{
	struct engine_event events[64];
	uint32_t count = engine_events(test.engine, events, 64);

	for (uint32_t i = 0; i < count; i++) {
		if (events[i].type == ENGINE_REFUSED) /* of whom, is what its sender says */
			continue;
		FUZZ_CHECK(events[i].job < JOBS);
		FUZZ_CHECK(events[i].child < children[events[i].job]);
		FUZZ_CHECK(events[i].type == ENGINE_HELLO ||
			   peer_of(&events[i].address) ==
				   test.bound[events[i].job][events[i].child].peer);
	}
}

/* Its workers are where the children of jobs are, and its server is the next. */
static void table_open(uint8_t how)
{
	struct engine_sparse *tables = engine_tables(test.engine);
	struct engine_sparse_table table = { .shape = { .ranks = 5,
							.index = TABLE,
							.workers = TABLE_WORKERS,
							.window = 1,
							.dim = 1,
							.bytes = 64 },
					     .instance = 1,
					     .pairs_max = 3,
					     .age_ns = how & 0x40 ? 5000000 : 0,
					     .nonces = nonces };

	FUZZ_CHECK(!engine_sparse_add(tables, &table));
	for (uint16_t i = 0; how & 1 && i <= TABLE_WORKERS; i++) {
		struct link_address address = address_of(i);

		FUZZ_CHECK(!engine_sparse_bind(tables, TABLE, i < TABLE_WORKERS ? i : SPARSE_SERVER,
					       &address));
	}
}

static void jobs_open(uint8_t how)
{
	for (uint16_t job = 0; job < JOBS; job++) {
		struct engine_job config = { .generation = GENERATION,
					     .children = children[job],
					     .mode = job < 2      ? SWITCH_DENSE
						     : how & 0x20 ? SWITCH_LATENCY
								  : SWITCH_LATENCY_ACKNOWLEDGED,
					     .slots = SLOTS,
					     .lanes_max = LANES,
					     .has_parent = job == 1,
					     .parent_job = PARENT_JOB,
					     .parent_child = 2,
					     .parent = address_of(PARENT),
					     .nonces = nonces };

		FUZZ_CHECK(!engine_job_add(test.engine, job, &config));
		FUZZ_CHECK(job_memory[job]);
		FUZZ_CHECK(!engine_job_set(test.engine, job, GENERATION, LANES, true));
		if (how & 2 && job < 2)
			FUZZ_CHECK(!engine_rounds_begin(test.engine, job, 0u - (how >> 2 & 7u)));
		for (uint16_t child = 0; child < children[job]; child++) {
			struct link_address address = address_of(child);

			test.bound[job][child] = (struct bound){ .peer = -1 };
			if (!(how & 1))
				continue;
			FUZZ_CHECK(!engine_child_bind(test.engine, job, child, &address));
			test.bound[job][child].peer = child;
		}
		for (uint32_t child = children[job]; child < CHILDREN; child++)
			test.bound[job][child] = (struct bound){ .peer = -1 };
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	uint8_t how;

	if (!test.engine) {
		struct engine_options options = { .link = &test.link.link,
						  .jobs_max = 4,
						  .tables_max = 4 };

		fuzz_link_open(&test.link, &fake_ops, FRAME_BYTES_MAX);
		test.engine = engine_open(&options);
		FUZZ_CHECK(test.engine);
	}
	how = fuzz_u8(&input);
	jobs_open(how);
	table_open(how);
	for (uint32_t i = 0; i < FRAMES_MAX && input.left; i++) {
		uint64_t before = counted(), packets = engine_stats(test.engine)->packets_in;

		test.welcomes = 0;
		test.link.now_ns += 1000000;
		frame_make(&input);
		bind_all(&test.link.frame);
		engine_poll(test.engine);
		FUZZ_CHECK(engine_stats(test.engine)->packets_in - packets ==
			   test.link.frame.count);
		FUZZ_CHECK(counted() - before + test.welcomes == test.link.frame.count);
		events_check();
	}
	for (uint16_t job = 0; job < JOBS; job++)
		FUZZ_CHECK(!engine_job_remove(test.engine, job));
	FUZZ_CHECK(!engine_sparse_remove(engine_tables(test.engine), TABLE));
	FUZZ_CHECK(!engine_memory_used(test.engine));
	return 0;
}
