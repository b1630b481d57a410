/* SPDX-License-Identifier: Apache-2.0 */
/* link_udp.h - the link over one UDP socket: UDP_SEGMENT out and UDP_GRO in where the kernel has them,
 * sendmmsg/recvmmsg, plain datagrams without; IPv4 and IPv6; never fragments. */
#ifndef DATAPLANE_LINK_UDP_H
#define DATAPLANE_LINK_UDP_H

#include "dataplane/link.h"

struct link_udp_options {
	struct link_address local; /* all zero ip: any address; port 0: the kernel chooses */
	bool is_v6;        /* the socket's family: local and all peers are of it; but bound to
				    * any address of IPv6, it speaks IPv4 too */
	bool keeps_via;    /* bound to any address: answers leave from the one that was reached */
	int receive_bytes; /* socket buffers asked for; 0: 8 MiB; as much as the kernel gives */
	int send_bytes;    /* 0: 512 KiB */
	bool no_offload;   /* neither UDP_SEGMENT nor UDP_GRO, as on an old kernel */
	uint32_t
		poll_count; /* yields of a wait before it blocks (polling.h); 0: 50; UINT32_MAX: none */
	uint32_t *
		receive_got; /* out, may be NULL: SO_RCVBUF: bytes of receive buffer, overhead counted */
};

/* 0 and *link, or a negative errno. */
int link_udp_open(struct link **link, const struct link_udp_options *options);

/* The socket, to poll beside others for input; for nothing else. What a wait has found it does not show any more:
 * first a recv with room for LINK_RECV_FRAMES. */
int link_udp_fd(const struct link *link);
/* What to poll it for: POLLIN, and POLLOUT if an offer has found no room. */
short link_udp_events(const struct link *link);

/* getaddrinfo for "host", "host:port", "[v6]", "[v6]:port" and a bare "v6" (no port: its last group
 * would be one); 0, -EINVAL (syntax), -ENOENT (no such host). A link-local address keeps its interface
 * in bytes 2 and 3, which are zero on the wire. */
int link_address_parse(const char *text, uint16_t default_port, struct link_address *address,
		       bool *is_v6);
/* "10.0.0.1:7171" or "[fe80::1]:7171"; returns text. */
const char *link_address_format(const struct link_address *address, char text[64]);
/* The MTU of the route to `peer` as this host is configured, without what ICMP has told; or a negative
 * errno. */
int link_udp_mtu(const struct link_address *peer, bool is_v6);

#endif
