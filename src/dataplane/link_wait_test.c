/* SPDX-License-Identifier: Apache-2.0 */
/* link_wait_test.c - how link_udp.c waits for packets, and what it makes of those that come. */
#include <netinet/in.h>

#include "dataplane/link_kernel_fixture.h"

static struct link *open_polling(uint32_t poll_count)
{
	struct link_udp_options options = { .poll_count = poll_count };
	struct link *link = open_with(&options);

	kernel.yield_ns = 20000; /* none of the quick ones, which do not count */
	return link;
}

/* ---- waiting ---- */

static void link_wait__a_look_takes_no_time(void **state)
{
	struct link *link = open_polling(8);

	(void)state;
	assert_int_equal(link->ops->wait(link, 0), LINK_TIME);
	assert_int_equal(link->ops->wait(link, kernel.now_ns), LINK_TIME);
	kernel.readable_at = kernel.looks + 1;
	assert_int_equal(link->ops->wait(link, 0), LINK_READABLE);
	assert_int_equal(kernel.yields, 0);
	assert_int_equal(kernel.sleeps, 0);
	assert_int_equal(link->ops->now_ns(link), 5000 * ms);
	close_link(link);
}

static void link_wait__yields_then_sleeps_for_what_is_left(void **state)
{
	static const struct {
		uint32_t poll_count, yields;
	} rows[] = { { 8, 8 }, { 0, 50 }, { UINT32_MAX, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link *link = open_polling(rows[i].poll_count);
		uint64_t until_ns = kernel.now_ns + 2500 * ms + 1;

		assert_int_equal(link->ops->wait(link, until_ns), LINK_TIME);
		assert_int_equal(kernel.yields, rows[i].yields);
		assert_int_equal(kernel.sleeps, 1);
		assert_int_equal(kernel.slept_ns[0],
				 2500 * ms + 1 - rows[i].yields * kernel.yield_ns);
		assert_int_equal(kernel.now_ns, until_ns);
		close_link(link);
	}
}

static void link_wait__sleep_that_was_too_short_goes_on(void **state)
{
	struct link *link = open_polling(UINT32_MAX);

	(void)state;
	kernel.sleep_ns = 3 * ms; /* as after a signal */
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_TIME);
	assert_int_equal(kernel.sleeps, 2);
	assert_int_equal(kernel.slept_ns[0], 10 * ms);
	assert_int_equal(kernel.slept_ns[1], 7 * ms);

	kernel.sleep_ns = 3 * ms;
	kernel.woken_fd = SOCKET_FD;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	assert_int_equal(kernel.sleeps, 3);
	assert_int_equal(kernel.wake_reads, 0);
	close_link(link);
}

/* Half as many yields after a sleep in which nothing came; all of them again where one more would have paid. */
static void link_wait__yields_as_has_paid_off_lately(void **state)
{
	struct link *link = open_polling(8);
	struct link_frame frame;

	(void)state;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_TIME);
	kernel.yields = 0;
	kernel.sleep_ns = 2 * ms;
	kernel.woken_fd = SOCKET_FD; /* after a long sleep */
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	assert_int_equal(kernel.yields, 4);
	kernel.yields = 0;
	kernel.sleep_ns = 50000;
	kernel.woken_fd = SOCKET_FD; /* after a short one */
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	assert_int_equal(kernel.yields, 2);
	kernel.yields = 0;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_TIME);
	assert_int_equal(kernel.yields, 8);

	kernel.yields = 0;
	kernel.readable_at = kernel.looks + 2; /* after one yield: they pay */
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	assert_int_equal(kernel.yields, 1);
	assert_int_equal(link->ops->recv(link, &frame, 1), 1);
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_TIME);
	assert_int_equal(kernel.yields, 1 + 8);
	close_link(link);
}

/* A call that has found nothing is as good as a look, once; one that was disturbed, or was before a send, is not. */
static void link_wait__looks_at_once_unless_it_just_has(void **state)
{
	static const struct {
		int got;
		uint32_t looks, sends; /* 1: of nothing, 2: of a frame */
	} rows[] = { { -EAGAIN, 1, 0 },
		     { -EAGAIN, 1, 1 },
		     { -EAGAIN, 2, 2 },
		     { -EINTR, 2, 0 },
		     { -ECONNREFUSED, 2, 0 } };
	uint8_t data[64] = { 0 };
	struct link_frame frame, sent = { .peer = address_of("10.0.0.2", 9),
					  .packet_bytes = 64,
					  .count = 1,
					  .bytes = 64,
					  .data = data };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link *link = open_polling(1);

		kernel.got = -EAGAIN;
		assert_int_equal(link->ops->recv(link, &frame, 1), 0);
		kernel.got = rows[i].got;
		assert_int_equal(link->ops->recv(link, &frame, 1), 0);
		if (rows[i].sends)
			assert_int_equal(link->ops->send(link, &sent, rows[i].sends - 1), 0);
		kernel.looks = 0;
		assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_TIME);
		assert_int_equal(kernel.looks, rows[i].looks);
		assert_int_equal(kernel.yields, 1);
		assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_TIME);
		assert_int_equal(kernel.looks, rows[i].looks + 2);
		close_link(link);
	}
}

static void link_wait__wake_ends_the_next_wait_once(void **state)
{
	struct link *link = open_polling(8);

	(void)state;
	link->ops->wake(link);
	link->ops->wake(link); /* nobody has seen the first yet */
	assert_int_equal(kernel.wake_writes, 1);
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_WOKEN);
	assert_int_equal(kernel.wake_reads, 1);
	assert_int_equal(kernel.looks + kernel.sleeps, 0);
	assert_int_equal(link->ops->wait(link, 0), LINK_TIME);
	link->ops->wake(link);
	assert_int_equal(kernel.wake_writes, 2);
	close_link(link);
}

static void link_wait__wake_ends_a_sleep(void **state)
{
	struct link *link = open_polling(UINT32_MAX);

	(void)state;
	kernel.woken_fd = WAKE_FD;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_WOKEN);
	assert_int_equal(kernel.wake_reads, 1);
	assert_int_equal(link->ops->wait(link, 0), LINK_TIME);
	link->ops->wake(link); /* is told anew */
	assert_int_equal(kernel.wake_writes, 1);
	close_link(link);
}

/* An offer has found no room: both kinds of looking ask for it. */
static void link_wait__room_is_waited_for_after_an_offer(void **state)
{
	static uint8_t data[16];
	struct link_frame frame = { .peer = address_of("10.0.0.2", 9),
				    .packet_bytes = 16,
				    .count = 1,
				    .bytes = 16,
				    .data = data };
	struct link *link = open_polling(UINT32_MAX);
	uint32_t taken = 9;

	(void)state;
	kernel.many.always.error = EAGAIN;
	assert_int_equal(link->ops->offer(link, &frame, 1, &taken), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(link->ops->wait(link, 0), LINK_TIME);
	assert_int_equal(kernel.events, POLLIN | POLLOUT);
	kernel.events = 0;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_TIME);
	assert_int_equal(kernel.events, POLLIN | POLLOUT);
	kernel.readable_at = kernel.looks + 1; /* is not taken: it may be room */
	assert_int_equal(link->ops->wait(link, 0), LINK_READABLE);
	assert_int_equal(link->stats.calls_in, 0);

	kernel.many.always.error = 0;
	assert_int_equal(link->ops->send(link, &frame, 1), 0);
	assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_TIME);
	assert_int_equal(kernel.events, POLLIN);
	close_link(link);
}

/* ---- what comes ---- */

enum { RUN_BYTES = 100 };

static void put_gro(struct msghdr *message, int bytes)
{
	struct cmsghdr *header = message->msg_control;

	header->cmsg_level = SOL_UDP;
	header->cmsg_type = GRO;
	header->cmsg_len = CMSG_LEN(sizeof(bytes));
	memcpy(CMSG_DATA(header), &bytes, sizeof(bytes));
	message->msg_controllen = CMSG_SPACE(sizeof(bytes));
}

/* A message from 10.0.0.i each; `sizes` of the packets in it, as the kernel says, or does not (-1). */
static const int *sizes;
static int cut_at, cut_flag;
static uint32_t run_bytes = RUN_BYTES, run_from = 0x0a000000;

static void receive_runs(struct mmsghdr *messages, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(9) };
		struct msghdr *message = &messages[i].msg_hdr;

		assert_int_equal(message->msg_namelen, sizeof(union link_sockaddr));
		assert_int_equal(message->msg_controllen, sizeof(union link_control));
		assert_int_equal(message->msg_iov->iov_len, 65536);
		from.sin_addr.s_addr = htonl(run_from + i);
		memcpy(message->msg_name, &from, sizeof(from));
		message->msg_namelen = sizeof(from);
		message->msg_controllen = 0;
		message->msg_flags = (int)i == cut_at ? cut_flag : 0;
		messages[i].msg_len = run_bytes;
		memset(message->msg_iov->iov_base, 'a' + (int)i, run_bytes);
		if (sizes[i] >= 0)
			put_gro(message, sizes[i]);
	}
}

static void four_come(const int *told)
{
	sizes = told;
	cut_at = -1;
	kernel.receive = receive_runs;
	kernel.got = 4;
}

static void frame_is(const struct link_frame *frame, uint8_t host, uint32_t packet_bytes,
		     uint32_t count)
{
	assert_int_equal(frame->peer.ip[15], host);
	assert_int_equal(frame->peer.port, 9);
	assert_int_equal(frame->packet_bytes, packet_bytes);
	assert_int_equal(frame->count, count);
	assert_int_equal(frame->bytes, RUN_BYTES);
	assert_int_equal(frame->data[0], 'a' + host);
	assert_int_equal(frame->data[RUN_BYTES - 1], 'a' + host);
}

static void link_wait__what_the_kernel_put_together_is_one_frame(void **state)
{
	static const int told[] = { 30, -1, 100, 50 };
	struct link_frame frames[4];
	struct link *link = open_plain();

	(void)state;
	four_come(told);
	assert_int_equal(link->ops->recv(link, frames, 9), 4);
	assert_int_equal(kernel.asked, 4);
	frame_is(&frames[0], 0, 30, 4); /* the last is shorter */
	frame_is(&frames[1], 1, 100, 1);
	frame_is(&frames[2], 2, 100, 1);
	frame_is(&frames[3], 3, 50, 2);
	assert_int_equal(link->stats.packets_in, 8);
	assert_int_equal(link->stats.bytes_in, 4 * RUN_BYTES);
	assert_int_equal(link->stats.calls_in, 1);
	kernel.got = 3;
	assert_int_equal(link->ops->recv(link, frames, 3), 3);
	assert_int_equal(kernel.asked, 3);
	close_link(link);
}

/* No call for what a wait has taken, and no second look until all of it is handed out. */
static void link_wait__what_a_look_takes_is_for_the_next_recv(void **state)
{
	static const int told[] = { -1, -1, -1, -1 };
	struct link_frame frames[4];
	struct link *link = open_plain();

	(void)state;
	four_come(told);
	assert_int_equal(link->ops->wait(link, 0), LINK_READABLE);
	assert_int_equal(kernel.asked, 4);
	assert_int_equal(link->ops->recv(link, frames, 3), 3);
	frame_is(&frames[0], 0, 100, 1);
	frame_is(&frames[2], 2, 100, 1);
	assert_int_equal(link->ops->wait(link, 0), LINK_READABLE);
	assert_int_equal(link->ops->recv(link, frames, 3), 1);
	frame_is(&frames[0], 3, 100, 1);
	assert_int_equal(kernel.looks, 1);
	assert_int_equal(link->stats.packets_in, 4);
	kernel.got = 3;
	assert_int_equal(link->ops->recv(link, frames, 3), 3);
	kernel.got = 4; /* none has the lengths of the one before */
	assert_int_equal(link->ops->recv(link, frames, 4), 4);
	close_link(link);
}

/* It ends the wait, and the recv behind it says what it is; the kernel may say so once. */
static void link_wait__look_at_a_broken_socket_is_for_the_next_recv(void **state)
{
	struct link_frame frame;
	struct link *link = open_polling(8);

	(void)state;
	kernel.got = -EBADF;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_READABLE);
	assert_int_equal(kernel.yields, 0);
	kernel.got = 0;
	assert_int_equal(link->ops->wait(link, 0), LINK_READABLE);
	assert_int_equal(link->ops->recv(link, &frame, 1), -EBADF);
	assert_int_equal(link->ops->recv(link, &frame, 1), 0);
	close_link(link);
}

/* No kernel says so; but a size that is none, or is larger than what came, must not be divided by. */
static void link_wait__size_that_cannot_be_is_none(void **state)
{
	static const int told[] = { 0, INT32_MAX, 101, 1 };
	struct link_frame frames[4];
	struct link *link = open_plain();

	(void)state;
	four_come(told);
	assert_int_equal(link->ops->recv(link, frames, 4), 4);
	frame_is(&frames[0], 0, 100, 1);
	frame_is(&frames[1], 1, 100, 1);
	frame_is(&frames[2], 2, 100, 1);
	frame_is(&frames[3], 3, 1, 100);
	close_link(link);
}

static void link_wait__message_that_is_cut_off_is_left_out(void **state)
{
	static const int told[] = { -1, -1, -1, -1 };
	static const int flags[] = { MSG_TRUNC, MSG_CTRUNC };
	struct link_frame frames[4];
	struct link *link = open_plain();

	(void)state;
	sizes = told;
	kernel.receive = receive_runs;
	kernel.got = 3;
	for (uint32_t i = 0; i < 2; i++) {
		cut_at = (int)i;
		cut_flag = flags[i];
		assert_int_equal(link->ops->recv(link, frames, 4), 2);
		frame_is(&frames[0], i ? 0 : 1, 100, 1);
		frame_is(&frames[1], 2, 100, 1);
	}
	assert_int_equal(link->stats.packets_in, 4);
	close_link(link);
}

/* ---- what is waited for ---- */

/* How often a wait of 10 ms yields, where nobody else has the processor: a few of 8 times, or for a millisecond. */
static bool is_shy(struct link *link)
{
	kernel.yields = 0;
	kernel.yield_ns = 1000;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_TIME);
	assert_true(kernel.yields == 1 || kernel.yields > 20);
	return kernel.yields == 1;
}

static void link_wait__leaves_the_processor_if_much_is_waited_for(void **state)
{
	struct link *link = open_polling(8);

	(void)state;
	assert_int_equal(link->load, LINK_GUESS);
	assert_false(is_shy(link));
	link->load = LINK_MUCH;
	assert_true(is_shy(link));
	link->load = LINK_LITTLE;
	assert_false(is_shy(link));
	/* Short ones: 50 us until something comes. */
	link->load = LINK_MUCH;
	for (uint32_t i = 0; i < 4; i++) {
		kernel.sleep_ns = 50000;
		kernel.woken_fd = SOCKET_FD;
		assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	}
	assert_false(is_shy(link));
	assert_true(is_shy(link));
	close_link(link);
}

static void come(struct link *link, uint32_t bytes, uint32_t from)
{
	static const int told[] = { -1, -1, -1, -1 };
	struct link_frame frames[4];

	run_bytes = bytes;
	run_from = from;
	four_come(told);
	assert_int_equal(link->ops->recv(link, frames, 4), 4);
	kernel.got = 0;
	run_bytes = RUN_BYTES;
	run_from = 0x0a000000;
}

static void link_wait__guesses_from_what_has_come(void **state)
{
	struct link *link = open_polling(8);

	(void)state;
	come(link, 8191, 0x0a000000);
	assert_false(is_shy(link));
	come(link, 8192, 0x7f000001); /* from this host */
	assert_false(is_shy(link));
	come(link, 8192, 0x0a000000);
	assert_true(is_shy(link)); /* that was 10 ms */
	assert_false(is_shy(link));
	come(link, 8192, 0x0a000000);
	for (uint32_t i = 0; i < 8; i++) { /* it does not become less shy where waits are short */
		kernel.sleep_ns = 50000;
		kernel.woken_fd = SOCKET_FD;
		assert_int_equal(link->ops->wait(link, kernel.now_ns + 10 * ms), LINK_READABLE);
	}
	kernel.now_ns += ms;
	assert_true(is_shy(link));
	come(link, 8192, 0x0a000000);
	link->load = LINK_LITTLE; /* who is told need not guess */
	assert_false(is_shy(link));
	close_link(link);
}

/* What says something of an earlier packet or of the moment breaks nothing. */
static void link_wait__only_an_error_of_the_socket_breaks_the_link(void **state)
{
	static const int passing[] = { EAGAIN,       EINTR,       ENOMEM,   ENOBUFS,   ECONNREFUSED,
				       EHOSTUNREACH, ENETUNREACH, EMSGSIZE, EHOSTDOWN, ENETDOWN,
				       ENOPROTOOPT,  EPROTO,      EACCES,   EPERM };
	static const int lasting[] = { EBADF, ENOTSOCK, EINVAL, EFAULT };
	struct link_frame frame;
	struct link *link = open_plain();

	(void)state;
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		kernel.got = -passing[i];
		assert_int_equal(link->ops->recv(link, &frame, 1), 0);
	}
	for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
		kernel.got = -lasting[i];
		assert_int_equal(link->ops->recv(link, &frame, 1), -lasting[i]);
	}
	assert_int_equal(link->stats.calls_in, 0);
	close_link(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_wait__a_look_takes_no_time),
		cmocka_unit_test(link_wait__yields_then_sleeps_for_what_is_left),
		cmocka_unit_test(link_wait__sleep_that_was_too_short_goes_on),
		cmocka_unit_test(link_wait__yields_as_has_paid_off_lately),
		cmocka_unit_test(link_wait__looks_at_once_unless_it_just_has),
		cmocka_unit_test(link_wait__wake_ends_the_next_wait_once),
		cmocka_unit_test(link_wait__wake_ends_a_sleep),
		cmocka_unit_test(link_wait__room_is_waited_for_after_an_offer),
		cmocka_unit_test(link_wait__what_the_kernel_put_together_is_one_frame),
		cmocka_unit_test(link_wait__what_a_look_takes_is_for_the_next_recv),
		cmocka_unit_test(link_wait__look_at_a_broken_socket_is_for_the_next_recv),
		cmocka_unit_test(link_wait__size_that_cannot_be_is_none),
		cmocka_unit_test(link_wait__message_that_is_cut_off_is_left_out),
		cmocka_unit_test(link_wait__leaves_the_processor_if_much_is_waited_for),
		cmocka_unit_test(link_wait__guesses_from_what_has_come),
		cmocka_unit_test(link_wait__only_an_error_of_the_socket_breaks_the_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
