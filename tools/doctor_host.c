/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_host.c - what the kernel can do, tested by asking it to, and what there is to send through. */
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/interface.h"
#include "tools/doctor.h"
#include "util/whole.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	AGGREGATOR_BYTES = 16 << 20, /* what tallyd asks for, and a worker half of it */
	WORKER_BYTES = 8 << 20,
	SLOW_MBIT = 1000,
};

bool doctor_is_release(const char *release, unsigned major, unsigned minor)
{
	unsigned has_major = 0, has_minor = 0;

	if (sscanf(release, "%u.%u", &has_major, &has_minor) != 2)
		return false;
	return has_major > major || (has_major == major && has_minor >= minor);
}

static void kernel_look(struct doctor *doctor)
{
	struct utsname name;
	bool is_new;

	if (uname(&name)) {
		doctor_say(doctor, DOCTOR_WARN, "kernel", NULL, "unknown: %s", strerror(errno));
		return;
	}
	is_new = doctor_is_release(name.release, 5, 0);
	doctor_say(doctor, is_new ? DOCTOR_OK : DOCTOR_WARN, "kernel",
		   is_new ? NULL
			  : "Linux 4.18 sends, and 5.0 receives, a run of packets in one call: "
			    "about 15 times the packets of a core",
		   "Linux %s on %s", name.release, name.machine);
}

static void offload_look(struct doctor *doctor, int fd)
{
	int segment = 0, on = 1;
	socklen_t bytes = sizeof(segment);

	if (!getsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, &bytes))
		doctor_say(doctor, DOCTOR_OK, "udp-segment", NULL,
			   "a run of packets is sent in one call");
	else
		doctor_say(doctor, DOCTOR_WARN, "udp-segment",
			   "Linux 4.18 or later has it: several times the packets of a core",
			   "no UDP_SEGMENT: %s", strerror(errno));
	if (!setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)))
		doctor_say(doctor, DOCTOR_OK, "udp-gro", NULL,
			   "a run of packets is received in one call");
	else
		doctor_say(doctor, DOCTOR_WARN, "udp-gro",
			   "Linux 5.0 or later has it: several times the packets of a core",
			   "no UDP_GRO: %s", strerror(errno));
}

/* As the link asks for it. What the kernel then says counts its overhead, too: twice. */
static int buffer_get(int fd, int wanted)
{
	int got = 0;
	socklen_t bytes = sizeof(got);

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof(wanted)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted));
	(void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &bytes);
	return got / 2;
}

static void buffer_look(struct doctor *doctor, int fd)
{
	int got = buffer_get(fd, AGGREGATOR_BYTES);

	if (got >= AGGREGATOR_BYTES)
		doctor_say(doctor, DOCTOR_OK, "receive-buffer", NULL,
			   "%d KiB, all that workers and tallyd ask for", got >> 10);
	else
		doctor_say(
			doctor, DOCTOR_WARN, "receive-buffer",
			"sysctl -w net.core.rmem_max=16777216, as root; else windows are smaller",
			"%d KiB: a worker asks for %d, tallyd for %d", got >> 10,
			WORKER_BYTES >> 10, AGGREGATOR_BYTES >> 10);
}

/* "return XDP_PASS", offered to the verifier and taken back at once. */
static void bpf_look(struct doctor *doctor)
{
	const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load;
	long fd;

	memset(&load, 0, sizeof(load));
	load.prog_type = BPF_PROG_TYPE_XDP;
	load.insns = (uint64_t)(uintptr_t)program;
	load.insn_cnt = sizeof(program) / sizeof(program[0]);
	load.license = (uint64_t)(uintptr_t) "GPL";
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if (fd >= 0) {
		close((int)fd);
		doctor_say(doctor, DOCTOR_OK, "bpf", NULL, "XDP programs may be loaded");
	} else if (errno == EPERM) {
		doctor_say(
			doctor, DOCTOR_OK, "bpf", NULL,
			"XDP programs need root, or CAP_BPF and CAP_NET_ADMIN; this version runs "
			"without");
	} else {
		doctor_say(doctor, DOCTOR_OK, "bpf", NULL,
			   "the kernel loads no XDP programs (%s); this version runs without",
			   strerror(errno));
	}
}

/* A number of /sys/class/net/NAME/; -1: the kernel does not say. */
static long link_number(const char *name, const char *what)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/%.15s", name, what);
	return whole_number(path, -1);
}

static void interface_say(struct doctor *doctor, const struct interface *interface)
{
	char text[INTERFACE_TEXT_BYTES], speed[32] = "speed unknown";
	long mbit = link_number(interface->name, "speed");

	if (mbit > 0)
		snprintf(speed, sizeof(speed), "%ld Mbit/s", mbit);
	doctor_say(doctor, mbit > 0 && mbit < SLOW_MBIT ? DOCTOR_WARN : DOCTOR_OK, "interface",
		   mbit > 0 && mbit < SLOW_MBIT ? "use a faster one: TALLY_IFNAME chooses" : NULL,
		   "%s, MTU %ld, %s", interface_format(interface, text),
		   link_number(interface->name, "mtu"), speed);
}

static void interfaces_look(struct doctor *doctor)
{
	static struct interface list[INTERFACES_MAX];
	uint32_t count = interface_list(list), others = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (list[i].is_loopback)
			continue;
		others++;
		interface_say(doctor, &list[i]);
	}
	if (!others)
		doctor_say(doctor, DOCTOR_WARN, "interface",
			   "jobs on this host alone work; others need an interface that is up",
			   "loopback only");
}

void doctor_host(struct doctor *doctor)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	kernel_look(doctor);
	if (fd < 0) {
		doctor_say(doctor, DOCTOR_FAIL, "udp", "look at limits and security modules",
			   "no UDP socket: %s", strerror(errno));
	} else {
		offload_look(doctor, fd);
		buffer_look(doctor, fd);
		close(fd);
	}
	bpf_look(doctor);
	interfaces_look(doctor);
}
