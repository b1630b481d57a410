/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/shard.h"

enum { JOB = 1023, GENERATION = UINT32_MAX - 1, LANES = 8, PATIENCE_MS = 5000 };

static atomic_bool is_broken;
static _Atomic uint64_t
	sleep_ns; /* that the shard's last wait was to last; 0: none since its last packet */

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask);

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout)
{
	int got;

	if (atomic_load(&is_broken)) {
		errno = EBADF;
		return -1;
	}
	got = __real_recvmmsg(fd, messages, count, flags, timeout);
	if (got > 0)
		atomic_store(&sleep_ns, 0);
	return got;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	atomic_store(&sleep_ns,
		     (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_nsec);
	return __real_ppoll(fds, count, timeout, mask);
}

struct bench {
	struct shard *shard;
	int wake_fd;
};

static int bench_open(void **state)
{
	static struct bench bench;
	struct shard_options options = {
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
		.receive_bytes = 1 << 16,
	};

	bench.wake_fd = eventfd(0, EFD_NONBLOCK);
	options.wake_fd = bench.wake_fd;
	*state = &bench;
	return shard_open(&bench.shard, &options);
}

static int bench_close(void **state)
{
	struct bench *bench = *state;

	shard_close(bench->shard, NULL, NULL);
	close(bench->wake_fd);
	return 0;
}

static struct shard_event bench_next(struct bench *bench)
{
	struct pollfd wait = { .fd = bench->wake_fd, .events = POLLIN };
	struct shard_event event;
	uint64_t count;

	while (!shard_receive(bench->shard, &event)) {
		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		assert_int_equal(read(bench->wake_fd, &count, sizeof(count)), sizeof(count));
	}
	return event;
}

static void bench_add(struct bench *bench, uint16_t job, uint16_t slots)
{
	struct shard_command command = {
		.type = SHARD_JOB_ADD,
		.job = job,
		.generation = GENERATION,
		.add = calloc(1, sizeof(struct shard_job)),
	};

	command.add->engine = (struct engine_job){
		.generation = GENERATION,
		.children = 1,
		.slots = slots,
		.lanes_max = LANES,
	};
	memset(command.add->nonces[0], 0x5a, WIRE_NONCE_BYTES);
	shard_send(bench->shard, &command);
}

static void bench_send(struct bench *bench, enum shard_command_type type)
{
	struct shard_command command = {
		.type = type,
		.job = JOB,
		.generation = GENERATION,
		.lanes = LANES,
	};

	shard_send(bench->shard, &command);
}

static void bench_expect_ack(struct bench *bench, enum shard_command_type type, int result)
{
	struct shard_event event = bench_next(bench);

	assert_int_equal(event.type, SHARD_ACK);
	assert_int_equal(event.command, type);
	assert_int_equal(event.generation, GENERATION);
	assert_int_equal(event.result, result);
}

static int bench_socket(struct bench *bench)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons(shard_port(bench->shard));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void packet_send(int fd, struct wire header, uint8_t fill)
{
	uint8_t packet[WIRE_HEADER_BYTES + LANES * WIRE_LANE_BYTES];

	header.job = JOB;
	header.generation = GENERATION;
	header.seq = 1;
	header.lanes = LANES;
	memset(packet, fill, sizeof(packet));
	wire_put(packet, &header);
	assert_int_equal(send(fd, packet, sizeof(packet), 0), sizeof(packet));
}

static void packet_expect(int fd, enum wire_type type)
{
	uint8_t packet[WIRE_HEADER_BYTES + LANES * WIRE_LANE_BYTES];
	struct wire header;

	assert_int_equal(recv(fd, packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(wire_check(packet, sizeof(packet), &header), WIRE_OK);
	assert_int_equal(header.type, type);
}

static void shard__acknowledges_commands_in_order(void **state)
{
	struct bench *bench = *state;

	for (int life = 0; life < 3; life++) {
		bench_add(bench, JOB, 8);
		bench_send(bench, SHARD_JOB_SET);
		bench_send(bench, SHARD_JOB_REMOVE);
		bench_send(bench, SHARD_JOB_REMOVE);
		bench_expect_ack(bench, SHARD_JOB_ADD, 0);
		bench_expect_ack(bench, SHARD_JOB_SET, 0);
		bench_expect_ack(bench, SHARD_JOB_REMOVE, 0);
		bench_expect_ack(bench, SHARD_JOB_REMOVE, 0); /* what is not there is removed */
	}
	bench_send(bench, SHARD_JOB_SET);
	bench_expect_ack(bench, SHARD_JOB_SET, -ENOENT);
}

static void shard__tells_of_hellos_and_answers_updates(void **state)
{
	struct bench *bench = *state;
	int fd = bench_socket(bench);
	struct shard_event event;

	bench_add(bench, JOB, 8);
	bench_expect_ack(bench, SHARD_JOB_ADD, 0);
	packet_send(fd, (struct wire){ .type = WIRE_HELLO }, 0x5a);
	packet_expect(fd, WIRE_WELCOME);
	event = bench_next(bench);
	assert_int_equal(event.type, SHARD_NOTICE);
	assert_int_equal(event.notice.type, ENGINE_HELLO);
	assert_int_equal(event.job, JOB);
	bench_send(bench, SHARD_JOB_SET);
	bench_expect_ack(bench, SHARD_JOB_SET, 0);
	packet_send(fd, (struct wire){ .type = WIRE_UPDATE, .tag = 1 }, 1);
	packet_expect(fd, WIRE_RESULT);
	bench_send(bench, SHARD_JOB_REMOVE);
	bench_expect_ack(bench, SHARD_JOB_REMOVE, 0);
	close(fd);
}

/* ---- the kernel's slots ---- */

static bool hook_look(struct hook *hook, struct hook_news *news)
{
	static bool is_said;

	(void)hook;
	if (is_said)
		return false;
	*news = (struct hook_news){ .device = "eth7", .error = -ENODEV };
	is_said = true;
	return true;
}

static void hook_counts(struct hook *hook, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	(void)hook;
	memset(verdict, 0, SWITCH_VERDICT_COUNT * sizeof(*verdict));
}

static void hook_close(struct hook *hook)
{
	(void)hook;
}

static int hook_open(struct hook **hook, const char *devices, uint16_t port,
		     char error[HOOK_ERROR_BYTES])
{
	static const struct hook_ops ops = { .look = hook_look,
					     .counts = hook_counts,
					     .close = hook_close };
	static struct hook opened = { .ops = &ops };

	(void)error;
	assert_string_equal(devices, "eth7");
	assert_int_not_equal(port, 0);
	*hook = &opened;
	return 0;
}

static void shard__tells_what_has_happened_to_its_filters(void **state)
{
	struct bench bench = { .wake_fd = eventfd(0, EFD_NONBLOCK) };
	struct shard_options options = {
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
		.receive_bytes = 1 << 16,
		.wake_fd = bench.wake_fd,
		.hook_open = hook_open,
		.hook_devices = "eth7",
	};
	struct shard_event event;

	(void)state;
	assert_int_equal(shard_open(&bench.shard, &options), 0);
	event = bench_next(&bench);
	assert_int_equal(event.type, SHARD_HOOK);
	assert_string_equal(event.hook.device, "eth7");
	assert_int_equal(event.hook.error, -ENODEV);
	shard_close(bench.shard, NULL, NULL);
	close(bench.wake_fd);
}

/* ---- a chip ---- */

static struct {
	struct chip chip;
	uint32_t looks;
	bool is_closed;
} played;

static int chip_add(struct chip *chip, const struct switch_job *job)
{
	snprintf(chip->error, sizeof(chip->error), "no room for %u", job->children);
	return -EREMOTEIO;
}

static enum chip_news chip_look(struct chip *chip)
{
	snprintf(chip->error, sizeof(chip->error), "look %u", played.looks);
	return played.looks++ ? CHIP_NO_NEWS : CHIP_LOST;
}

static void chip_counts(struct chip *chip, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	(void)chip;
	verdict[SWITCH_ABSORB] = 4;
}

static void chip_close(struct chip *chip)
{
	assert_ptr_equal(chip, &played.chip);
	played.is_closed = true;
}

static int chip_open(struct chip **chip, const char *address, const struct link_address *at,
		     char error[CHIP_ERROR_BYTES])
{
	static const struct chip_ops ops = {
		.add = chip_add, .look = chip_look, .counts = chip_counts, .close = chip_close
	};

	assert_string_equal(address, "10.0.0.2");
	assert_int_not_equal(at->port, 0);
	assert_int_equal(at->ip[12], 127);
	snprintf(error, CHIP_ERROR_BYTES, "it is not there");
	played.chip.ops = &ops;
	*chip = &played.chip;
	return played.chip.profile.lanes ? 0 : -EHOSTUNREACH;
}

static void shard__says_what_its_chip_says(void **state)
{
	struct bench bench = { .wake_fd = eventfd(0, EFD_NONBLOCK) };
	char why[CHIP_ERROR_BYTES];
	struct shard_options options = {
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
		.receive_bytes = 1 << 16,
		.wake_fd = bench.wake_fd,
		.chip_open = chip_open,
		.chip_address = "10.0.0.2",
		.chip_error = why,
	};
	struct shard_event event;
	struct engine_stats stats;

	(void)state;
	assert_int_equal(shard_open(&bench.shard, &options), -EHOSTUNREACH);
	assert_string_equal(why, "it is not there");
	played.chip.profile.lanes = 32;
	assert_int_equal(shard_open(&bench.shard, &options), 0);
	assert_int_equal(shard_profile(bench.shard)->lanes, 32);
	event = bench_next(&bench);
	assert_int_equal(event.type, SHARD_CHIP);
	assert_int_equal(event.chip, CHIP_LOST);
	assert_string_equal(event.text, "look 0");
	free(event.text);
	bench_add(&bench, JOB, 8);
	event = bench_next(&bench);
	assert_int_equal(event.type, SHARD_ACK);
	assert_int_equal(event.result, -EREMOTEIO);
	assert_string_equal(event.text, "no room for 1");
	free(event.text);
	shard_close(bench.shard, &stats, NULL);
	assert_int_equal(stats.hooked[SWITCH_ABSORB], 4);
	assert_true(played.is_closed);
	close(bench.wake_fd);
}

/* ---- a table ---- */

enum {
	TABLE = 9,
	TABLE_BYTES = 128,
	AGE_NS = 100000000,
	SLEEP_NS_MAX = 500000000, /* a part that is not answered goes again after 250 ms at most */
};

static const uint8_t table_nonces[2][WIRE_NONCE_BYTES] = { "the worker", "the server" };

static void table_open(struct bench *bench)
{
	struct shard_command add = { .type = SHARD_TABLE_ADD,
				     .job = TABLE,
				     .table = calloc(1, sizeof(struct shard_table)) };
	struct shard_command beat = { .type = SHARD_TABLE_BEAT,
				      .job = TABLE,
				      .table_generation = 1 };

	add.table->engine = (struct engine_sparse_table){
		.shape = { .ranks = 4,
			   .index = TABLE,
			   .workers = 1,
			   .window = 1,
			   .dim = 1,
			   .bytes = TABLE_BYTES },
		.instance = 1,
		.age_ns = AGE_NS,
	};
	memcpy(add.table->nonces, table_nonces, sizeof(table_nonces));
	shard_send(bench->shard, &add);
	assert_int_equal(bench_next(bench).result, 0);
	shard_send(bench->shard, &beat);
	assert_int_equal(bench_next(bench).result, 0);
}

static void table_hello(int fd, uint16_t who, const uint8_t nonce[WIRE_NONCE_BYTES])
{
	struct wire hello = {
		.type = WIRE_HELLO, .job = TABLE, .child = who, .seq = 1, .lanes = WIRE_HELLO_LANES
	};
	uint8_t packet[WIRE_HEADER_BYTES + WIRE_HELLO_LANES * WIRE_LANE_BYTES] = { 0 };

	wire_put(packet, &hello);
	memcpy(packet + WIRE_HEADER_BYTES, nonce, WIRE_NONCE_BYTES);
	assert_int_equal(send(fd, packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(recv(fd, packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(packet[0] & 15, WIRE_WELCOME);
}

static void sparse_send(int fd, enum sparse_kind kind, uint16_t worker, const uint64_t *body)
{
	struct sparse packet = { .kind = (uint8_t)kind,
				 .table = TABLE,
				 .worker = worker,
				 .generation = 1,
				 .number = 1,
				 .count = 1,
				 .width = 1,
				 .parts = kind == SPARSE_SETUP };
	uint8_t at[TABLE_BYTES];

	sparse_put(at, &packet);
	for (uint32_t i = 0; i < (sparse_bytes(&packet) - SPARSE_HEADER_BYTES) / 8; i++)
		sparse_body_put64(at + SPARSE_HEADER_BYTES + 8ul * i, body[i]);
	assert_int_equal(send(fd, at, sparse_bytes(&packet), 0), sparse_bytes(&packet));
}

static void sparse_expect(int fd, enum sparse_kind kind)
{
	uint8_t at[TABLE_BYTES];
	struct sparse packet;
	ssize_t got = recv(fd, at, sizeof(at), 0);

	assert_true(got > 0);
	assert_int_equal(sparse_check(at, (uint32_t)got, &packet), WIRE_OK);
	assert_int_equal(packet.kind, kind);
}

/* Nothing comes that could wake it: it must know by itself. How long it has slept no clock says that a busy machine could
 * be late for, but what it asked the kernel for. */
static void shard__sleeps_no_longer_than_until_a_flush_is_due(void **state)
{
	struct bench *bench = *state;
	int worker = bench_socket(bench), server = bench_socket(bench);

	table_open(bench);
	table_hello(worker, 0, table_nonces[0]);
	table_hello(server, SPARSE_SERVER, table_nonces[1]);
	sparse_send(server, SPARSE_SETUP, 0, (uint64_t[]){ 1, 0 }); /* instance 1, a row */
	sparse_expect(server, SPARSE_READY);
	sparse_send(worker, SPARSE_PUSH, 0, (uint64_t[]){ 3 | 7ull << 32 }); /* rank 3: 7 */
	sparse_expect(worker, SPARSE_ACK);
	sparse_expect(server, SPARSE_CUT); /* it is old enough */
	assert_true(atomic_load(&sleep_ns) <= SLEEP_NS_MAX);
	close(worker);
	close(server);
}

/* The last test: the shard is of no use after it, but it still obeys and ends. */
static void shard__whose_socket_breaks_says_so_once_and_refuses_jobs(void **state)
{
	struct bench *bench = *state;
	int fd = bench_socket(bench);
	struct shard_event event;

	bench_add(bench, JOB, 8);
	bench_expect_ack(bench, SHARD_JOB_ADD, 0);
	atomic_store(&is_broken, true);
	packet_send(fd, (struct wire){ .type = WIRE_HELLO }, 0x5a);
	event = bench_next(bench);
	assert_int_equal(event.type, SHARD_DEAD);
	assert_int_equal(event.result, -EBADF);
	bench_send(bench, SHARD_JOB_REMOVE);
	bench_expect_ack(bench, SHARD_JOB_REMOVE, 0);
	bench_add(bench, JOB, 8);
	bench_expect_ack(bench, SHARD_JOB_ADD, -EBADF);
	assert_false(shard_receive(bench->shard, &event));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shard__acknowledges_commands_in_order),
		cmocka_unit_test(shard__tells_of_hellos_and_answers_updates),
		cmocka_unit_test(shard__tells_what_has_happened_to_its_filters),
		cmocka_unit_test(shard__says_what_its_chip_says),
		cmocka_unit_test(shard__sleeps_no_longer_than_until_a_flush_is_due),
		cmocka_unit_test(shard__whose_socket_breaks_says_so_once_and_refuses_jobs),
	};

	return cmocka_run_group_tests(tests, bench_open, bench_close);
}
