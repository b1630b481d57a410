/* SPDX-License-Identifier: Apache-2.0 */
/* link_udp_state.h - what the files of link_udp share. */
#ifndef DATAPLANE_LINK_UDP_STATE_H
#define DATAPLANE_LINK_UDP_STATE_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "dataplane/polling.h"

enum {
	BUFFER_BYTES = 65536, /* holds any datagram */
	BUFFER_STRIDE =
		BUFFER_BYTES + 320,    /* else all heads fall into the same sets of the cache */
	FRAMES_MAX = LINK_RECV_FRAMES, /* of one call, without offload */
	MESSAGES_MAX = 128,            /* of one sendmmsg */
	MUCH_BYTES = 8192,             /* a message of so many is one of many */
};

struct udp {
	struct link link; /* first: what the caller holds */
	int socket, wake;
	bool is_v6, is_dual, has_segment, has_gro, keeps_via;
	uint32_t frames_max;
	struct polling
		polling[LINK_LOADS]; /* by what is waited for; LINK_GUESS: seems to be much */
	bool has_much; /* a large message has come from another host since the last wait, */
	uint64_t much_until_ns; /* and until then more are waited for */
	atomic_bool is_woken;
	bool is_drained; /* the last call was a recv that found nothing */
	uint8_t *buffers;

	/* What the last recvmmsg has written, and the first that no recv has handed out: a wait takes some, too. */
	uint32_t in_count, in_at;
	int in_error; /* met by a wait, for the next recv: the kernel may say it once */
	struct mmsghdr in[FRAMES_MAX];
	struct iovec in_bytes[FRAMES_MAX];
	union link_sockaddr in_peer[FRAMES_MAX];
	union link_control in_control[FRAMES_MAX];

	uint32_t out_count;
	struct mmsghdr out[MESSAGES_MAX];
	struct iovec out_bytes[MESSAGES_MAX];
	union link_sockaddr out_peer[MESSAGES_MAX];
	union link_control out_control[MESSAGES_MAX];
	uint32_t out_packets[MESSAGES_MAX];
	uint32_t out_frame[MESSAGES_MAX]; /* whose message it is, and from which byte on */
	uint32_t out_at[MESSAGES_MAX];

	uint64_t full_since_ns; /* of the first refusal after the last progress; 0: none */
	uint32_t resume_at;     /* bytes of the first frame that an offer has taken already */
	bool may_wait;          /* for room: this is not an offer */
	bool wants_room;        /* an offer was not taken for want of room in the send buffer */
};

static inline struct udp *udp_of(struct link *link)
{
	return (struct udp *)link;
}

/* link_udp_in.c: takes up to `max` messages: how many, 0 if there are none, or a negative errno if the link is broken. */
int link_udp_take(struct udp *udp, uint32_t max);

/* link_udp_in.c, link_udp_out.c, link_udp_wait.c: the operations of link.h. */
int link_udp_recv(struct link *link, struct link_frame *frames, uint32_t max);
int link_udp_send(struct link *link, const struct link_frame *frames, uint32_t count);
int link_udp_offer(struct link *link, const struct link_frame *frames, uint32_t count,
		   uint32_t *taken);
enum link_wait link_udp_wait(struct link *link, uint64_t until_ns);
void link_udp_wake(struct link *link);

#endif
