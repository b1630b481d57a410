/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delay.c - long links: what comes to a device leaves by another one so much later, and the other way round.
 *
 *     delay US DEVICE DEVICE [DEVICE DEVICE]...
 *
 * For kernels without netem. It goes into the background once all links are there, and at SIGTERM says how many frames
 * there were, how late they have left, and how many were lost. Frames wait in the rings into which the kernel has put
 * them, with the time at which it did: while some wait the process sleeps until the first is due and looks at nothing
 * else, so a frame costs a wake-up at most. 0; 1: what it says; 77: no packet sockets here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PORTS_MAX = 128,
	FRAME_BYTES = 2048, /* of an MTU of 1500, and the kernel's header */
	FRAMES = 2048,      /* 10 ms of 1 Gbit/s in short frames; a power of two */
	BLOCK_BYTES = 1 << 16,
	EARLY_NS = 15000,    /* what is due so soon leaves at once: a sleep ends later than that */
	LATE_US_MAX = 10000, /* and more */
	SKIPPED = 77,
};

static const uint64_t ns_per_s = 1000000000;

struct port {
	const char *name;
	int fd;
	uint8_t *ring;
	uint32_t next; /* the oldest frame's place */
};

static struct port ports[PORTS_MAX]; /* 2 * i and 2 * i + 1 are the ends of a link */
static nfds_t ports_count;
static uint64_t delay_ns, frames, unfit, refused;
static uint64_t late[LATE_US_MAX + 1]; /* frames, by us */
static volatile sig_atomic_t has_to_end;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now); /* as the kernel's stamps */
	return (uint64_t)now.tv_sec * ns_per_s + (uint64_t)now.tv_nsec;
}

_Noreturn static void die(const char *what, const char *name, int status)
{
	fprintf(stderr, "delay: %s: %s: %s\n", name, what, strerror(errno));
	exit(status);
}

static void port_open(struct port *port, const char *name)
{
	const struct tpacket_req ring = { .tp_block_size = BLOCK_BYTES,
					  .tp_block_nr = FRAMES / (BLOCK_BYTES / FRAME_BYTES),
					  .tp_frame_size = FRAME_BYTES,
					  .tp_frame_nr = FRAMES };
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)if_nametoindex(name) };
	const int version = TPACKET_V2, one = 1;

	port->name = name;
	port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* 0: nothing until bind */
	if (port->fd < 0)
		die("no packet sockets", name, SKIPPED);
	if (!at.sll_ifindex)
		die("no such device", name, 1);
	if (setsockopt(port->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(port->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)))
		die("no ring of received frames", name, 1);
	port->ring = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  port->fd, 0);
	if (port->ring == MAP_FAILED)
		die("mmap", name, 1);
	if (bind(port->fd, (struct sockaddr *)&at, sizeof(at)))
		die("bind", name, 1);
}

/* A frame that somebody else should have cut up or finished, as devices with offloads on expect. */
static int is_unfit(const struct tpacket2_hdr *head, uint32_t status)
{
	return head->tp_len != head->tp_snaplen ||
	       (status & (TP_STATUS_CSUMNOTREADY | TP_STATUS_VLAN_VALID));
}

/* Sends what is due of what has come to `from`; when the first of the others is, or UINT64_MAX. */
static uint64_t forward(struct port *from, const struct port *to)
{
	for (;;) {
		uint8_t *frame = from->ring + (size_t)from->next * FRAME_BYTES;
		struct tpacket2_hdr *head = (struct tpacket2_hdr *)(void *)frame;
		uint32_t status = __atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE);
		uint64_t due_ns, at_ns, late_us;

		if (!(status & TP_STATUS_USER))
			return UINT64_MAX;
		due_ns = head->tp_sec * ns_per_s + head->tp_nsec + delay_ns;
		at_ns = now_ns();
		if (due_ns > at_ns + EARLY_NS)
			return due_ns;
		late_us = due_ns < at_ns ? (at_ns - due_ns) / 1000 : 0;
		late[late_us < LATE_US_MAX ? late_us : LATE_US_MAX]++;
		frames++;
		if (is_unfit(head, status))
			unfit++;
		else if (send(to->fd, frame + head->tp_mac, head->tp_len, MSG_DONTWAIT) < 0)
			refused++;
		__atomic_store_n(&head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		from->next = (from->next + 1) % FRAMES;
	}
}

/* Whatever comes meanwhile is due later. UINT64_MAX: nothing has come. */
static void wait_until(uint64_t due_ns, const sigset_t *mask)
{
	struct pollfd polls[PORTS_MAX];
	struct timespec left = { 0 };
	uint64_t at_ns = now_ns();

	if (due_ns == UINT64_MAX) {
		for (nfds_t i = 0; i < ports_count; i++)
			polls[i] = (struct pollfd){ .fd = ports[i].fd, .events = POLLIN };
		ppoll(polls, ports_count, NULL, mask);
	} else {
		uint64_t left_ns = due_ns > at_ns ? due_ns - at_ns : 0;

		left.tv_sec = (time_t)(left_ns / ns_per_s);
		left.tv_nsec = (long)(left_ns % ns_per_s);
		ppoll(NULL, 0, &left, mask);
	}
}

static uint64_t quantile_us(double part)
{
	uint64_t us = 0, count = late[0];

	while (us < LATE_US_MAX && (double)count < part * (double)frames)
		count += late[++us];
	return us;
}

static void report(void)
{
	unsigned long long full = 0;

	for (nfds_t i = 0; i < ports_count; i++) {
		struct tpacket_stats stats = { 0 };
		socklen_t bytes = sizeof(stats);

		if (!getsockopt(ports[i].fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes))
			full += stats.tp_drops;
	}
	printf("delay: %llu frames, late by %llu us at the median, %llu at 99 %%; "
	       "lost: %llu (%llu offloads, %llu the device's, %llu a full ring)\n",
	       (unsigned long long)frames, (unsigned long long)quantile_us(0.5),
	       (unsigned long long)quantile_us(0.99), (unsigned long long)(unfit + refused) + full,
	       (unsigned long long)unfit, (unsigned long long)refused, full);
}

static void on_signal(int number)
{
	(void)number;
	has_to_end = 1;
}

/* The parent's end says that the links are there. First among those that want a processor, if it may be. */
static void go_behind(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	pid_t child = fork();

	if (child < 0)
		die("fork", "links", 1);
	if (child)
		_exit(0);
	setsid();
	dup2(STDOUT_FILENO, STDERR_FILENO);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		prctl(PR_SET_TIMERSLACK, 1);
}

int main(int argc, char **argv)
{
	char *end = NULL;
	unsigned long us = argc > 1 ? strtoul(argv[1], &end, 10) : 0;
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked, before;

	if (argc < 4 || argc % 2 || argc - 2 > PORTS_MAX || !us || us > 1000000 || *end) {
		fprintf(stderr, "delay US DEVICE DEVICE [DEVICE DEVICE]...: 1 to 1000000 us\n");
		return 2;
	}
	delay_ns = us * 1000;
	for (ports_count = 0; ports_count < (nfds_t)argc - 2; ports_count++)
		port_open(&ports[ports_count], argv[2 + ports_count]);
	sigaction(SIGTERM, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	go_behind();
	while (!has_to_end) {
		uint64_t due_ns = UINT64_MAX;

		for (nfds_t i = 0; i < ports_count; i++) {
			uint64_t next_ns = forward(&ports[i], &ports[i ^ 1]);

			if (next_ns < due_ns)
				due_ns = next_ns;
		}
		wait_until(due_ns, &before);
	}
	report();
	return 0;
}
