/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.c - see meeting.h. */
#include "lib/meeting.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "host/host.h"
#include "simd/simd.h"

enum {
	LOOK_MS = 50,   /* between two looks whether the communicator has broken */
	WORD_MS = 2000, /* rank 0's reason comes over its control connection */
	RETRY_US = 500, /* rank 0 may not listen yet */
	MAGIC = 0x79746c31,
};

/* What each rank says, and hears. */
struct word {
	uint32_t magic;
	uint32_t rank;
	uint32_t
		is_yes; /* first: it wants to; then: it has it. Of rank 0: memory comes; all have it */
	uint32_t is_same_bits;
};

/* "tally/UID/memory/HASH": of the job and its life, which nobody else guesses by chance. */
static socklen_t name_fill(const struct tally_comm *comm, struct sockaddr_un *name)
{
	uint64_t hash = hash_number(hash_text(HASH_BEGIN, comm->who.job), comm->life, 8);
	int length;

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "tally/%u/memory/%016llx",
			  (unsigned)getuid(), (unsigned long long)hash);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid();
}

/* False: the communicator has broken meanwhile, or the socket has, or it is until_ns. Only rank 0 has one: it decides. */
static bool wait_readable(struct tally_comm *comm, int fd, uint64_t until_ns)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	while (!comm_error(comm) && clock_ns() < until_ns) {
		int count = poll(&poll_fd, 1, LOOK_MS);

		if (count > 0)
			return true;
		if (count < 0 && errno != EINTR)
			return false;
	}
	return false;
}

/* A word, and a descriptor that came with it, or -1. */
static bool word_read(struct tally_comm *comm, int fd, uint64_t until_ns, struct word *word,
		      int *with)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec part = { word, sizeof(*word) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	ssize_t got;

	if (with)
		*with = -1;
	if (!wait_readable(comm, fd, until_ns))
		return false;
	got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		int came;

		memcpy(&came, CMSG_DATA(header), sizeof(came));
		if (with)
			*with = came;
		else
			close(came);
	}
	return got == sizeof(*word) && word->magic == MAGIC;
}

static bool word_send(int fd, const struct tally_comm *comm, bool is_yes, int with)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct word word = { MAGIC, comm->who.rank, is_yes, comm->boot.is_same_bits };
	struct iovec part = { &word, sizeof(word) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (with >= 0) {
		memcpy(CMSG_DATA(&control.header), &with, sizeof(with));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) == sizeof(word);
}

/* ---- rank 0 ---- */

/* One connection's rank has the memory; `peers` has it. Strangers are left alone. */
static bool peer_take(struct tally_comm *comm, int fd, uint64_t until_ns, int memory_fd, int *peers)
{
	struct word word;

	if (!is_ours(fd) || !word_read(comm, fd, until_ns, &word, NULL) || !word.rank ||
	    word.rank >= comm->who.size || peers[word.rank] >= 0) {
		close(fd);
		return true;
	}
	peers[word.rank] = fd;
	if (!word_send(fd, comm, word.is_yes && memory_fd >= 0, word.is_yes ? memory_fd : -1))
		return false;
	return word_read(comm, fd, until_ns, &word, NULL) && word.is_yes;
}

/* The first that has not come; size: all have. */
static uint32_t peers_missing(const struct tally_comm *comm, const int *peers)
{
	uint32_t rank = 1;

	while (rank < comm->who.size && peers[rank] >= 0)
		rank++;
	return rank;
}

/* False: not all have come in the time that tally_options gives them. *is_yes: all have it. */
static bool peers_take(struct tally_comm *comm, int listening, int memory_fd, int *peers,
		       bool *is_yes)
{
	uint64_t until_ns = clock_ns() + comm->boot.init_timeout_s * 1000000000ull;

	*is_yes = memory_fd >= 0;
	while (peers_missing(comm, peers) < comm->who.size) {
		int fd;

		if (!wait_readable(comm, listening, until_ns))
			return false;
		fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			*is_yes &= peer_take(comm, fd, until_ns, memory_fd, peers);
		else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			return false; /* else it has gone again */
	}
	return true;
}

static int listen_open(const struct tally_comm *comm)
{
	struct sockaddr_un name;
	socklen_t bytes = name_fill(comm, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 &&
	    (bind(fd, (const struct sockaddr *)&name, bytes) || listen(fd, (int)comm->who.size))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* What has come of it. Who has heard no decision must not guess the others'. */
struct verdict {
	bool is_decided, is_same_bits;
	uint32_t missing; /* rank 0's: who has not come */
	void *memory;     /* NULL: over UDP */
};

static void host_it(struct tally_comm *comm, bool is_wanted, struct verdict *verdict)
{
	uint32_t size = comm->who.size;
	int *peers = malloc(size * sizeof(*peers));
	int listening = listen_open(comm), memory_fd = is_wanted ? host_memory_make(size) : -1;
	void *memory = memory_fd >= 0 ? host_memory_map(memory_fd, size) : NULL;
	bool is_used = false;

	for (uint32_t r = 0; peers && r < size; r++)
		peers[r] = -1;
	verdict->is_decided = peers && listening >= 0 &&
			      peers_take(comm, listening, memory ? memory_fd : -1, peers, &is_used);
	is_used &= verdict->is_decided;
	verdict->missing = peers ? peers_missing(comm, peers) : comm->who.size;
	for (uint32_t r = 1; peers && r < size; r++) {
		if (peers[r] < 0)
			continue;
		if (verdict->is_decided)
			(void)word_send(peers[r], comm, is_used, -1);
		close(peers[r]);
	}
	if (listening >= 0)
		close(listening);
	if (memory_fd >= 0)
		close(memory_fd);
	free(peers);
	if (memory && !is_used)
		host_memory_unmap(memory, size);
	verdict->memory = is_used ? memory : NULL;
	verdict->is_same_bits = comm->boot.is_same_bits;
}

/* ---- the others ---- */

static int peer_connect(struct tally_comm *comm)
{
	struct sockaddr_un name;
	socklen_t bytes = name_fill(comm, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	while (fd >= 0 && connect(fd, (const struct sockaddr *)&name, bytes)) {
		if ((errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) &&
		    !comm_error(comm)) {
			usleep(RETRY_US);
			continue;
		}
		close(fd);
		fd = -1;
	}
	return fd;
}

static void join_it(struct tally_comm *comm, bool is_wanted, struct verdict *verdict)
{
	int fd = peer_connect(comm), memory_fd = -1;
	void *memory = NULL;
	struct word word = { 0 };
	bool is_used;

	if (fd < 0)
		return;
	if (is_ours(fd) && word_send(fd, comm, is_wanted, -1) &&
	    word_read(comm, fd, UINT64_MAX, &word, &memory_fd) && word.is_yes && memory_fd >= 0)
		memory = host_memory_map(memory_fd, comm->who.size);
	verdict->is_decided = word_send(fd, comm, memory, -1) &&
			      word_read(comm, fd, UINT64_MAX, &word, NULL);
	is_used = verdict->is_decided && word.is_yes;
	if (memory_fd >= 0)
		close(memory_fd);
	close(fd);
	if (memory && !is_used)
		host_memory_unmap(memory, comm->who.size);
	verdict->memory = is_used ? memory : NULL;
	verdict->is_same_bits = word.is_same_bits;
}

/* ---- all ---- */

/* All ranks answer this alike. */
static bool is_due(const struct tally_comm *comm)
{
	return comm->boot.is_local && !comm->latency_slots && !comm->pair_of &&
	       comm->who.size <= HOST_RANKS_MAX;
}

/* Lock held. */
static void break_by(struct tally_comm *comm, enum control_cause cause, const char *text)
{
	if (atomic_load(&comm->error))
		return;
	comm->wants_error = true;
	comm->fault_cause = cause;
	snprintf(comm->fault_text, sizeof(comm->fault_text), "%s", text);
	comm_break(comm, result_of_cause(cause), comm->fault_text);
	wake_background();
}

static void verdict_say(const struct tally_comm *comm, const struct verdict *verdict)
{
	report_log(&comm->who, TALLY_LOG_INFO, "%u ranks of this host add up %s", comm->who.size,
		   verdict->memory     ? "in memory that they share (TALLY_LOCAL=udp: over UDP)"
		   : comm->boot.is_udp ? "over UDP, by TALLY_LOCAL"
				       : "over UDP: not all of them could share memory");
}

/* Rank 0 says why, and the others hear it from there, unless it lives no more. */
static void undecided(struct tally_comm *comm, const struct verdict *verdict)
{
	uint64_t until_ns = clock_ns() + WORD_MS * 1000000ull;
	char text[CONTROL_TEXT_BYTES] =
		"rank 0 has not said whether this host's ranks share memory";

	while (comm->who.rank && !comm_error(comm) && clock_ns() < until_ns)
		usleep(RETRY_US);
	if (!comm->who.rank && verdict->missing < comm->who.size)
		snprintf(text, sizeof(text), "rank %u has not come for %u s to share memory",
			 verdict->missing, comm->boot.init_timeout_s);
	else if (!comm->who.rank)
		snprintf(text, sizeof(text), "out of memory to meet this host's ranks");
	comm_lock(comm);
	break_by(comm, CONTROL_TIMEOUT, text);
	comm_unlock(comm);
}

void meeting_hold(struct tally_comm *comm)
{
	bool is_wanted = !comm->boot.is_udp;
	struct host_options options = { .ranks = comm->who.size,
					.rank = comm->who.rank,
					.lanes = comm->lanes,
					.quant = simd_best() };
	struct verdict verdict = { 0 };

	if (!is_due(comm) || comm_error(comm))
		return;
	if (comm->who.rank)
		join_it(comm, is_wanted, &verdict);
	else
		host_it(comm, is_wanted, &verdict);
	if (!comm->who.rank && verdict.is_decided)
		verdict_say(comm, &verdict);
	if (!verdict.is_decided) {
		undecided(comm, &verdict);
		return;
	}
	options.memory = verdict.memory;
	options.is_same_bits = verdict.is_same_bits;
	comm_lock(comm);
	comm->host_memory = verdict.memory;
	comm->host = verdict.memory ? host_open(&options) : NULL;
	if (verdict.memory && !comm->host) /* the others have begun to share it */
		break_by(comm, CONTROL_NO_MEMORY, "out of memory for what its host's ranks share");
	else if (!comm->host && comm->boot.is_memory)
		break_by(comm, CONTROL_SYSTEM,
			 "TALLY_LOCAL=memory, and not all ranks want or get memory to share: "
			 "without the variable the job goes on over UDP");
	comm_unlock(comm);
}

void meeting_end(struct tally_comm *comm)
{
	host_close(comm->host);
	if (comm->host_memory)
		host_memory_unmap(comm->host_memory, comm->who.size);
}
