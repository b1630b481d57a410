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
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/shard.h"

enum { JOB = 1023, GENERATION = UINT32_MAX - 1, LANES = 8, PATIENCE_MS = 5000 };

static atomic_bool is_broken;

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout);

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout)
{
	if (!atomic_load(&is_broken))
		return __real_recvmmsg(fd, messages, count, flags, timeout);
	errno = EBADF;
	return -1;
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
		cmocka_unit_test(shard__whose_socket_breaks_says_so_once_and_refuses_jobs),
	};

	return cmocka_run_group_tests(tests, bench_open, bench_close);
}
