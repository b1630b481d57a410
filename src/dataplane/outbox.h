/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - packets on their way out, collected by destination into frames of equal packets, because a
 * frame costs the kernel about as much as a packet. What the link cannot send is lost: who waits asks again.
 */
#ifndef DATAPLANE_OUTBOX_H
#define DATAPLANE_OUTBOX_H

#include "dataplane/link.h"

enum {
	OUTBOX_FRAMES = 16,
	OUTBOX_FRAME_BYTES = 65536, /* more than LINK_FRAME_BYTES_MAX, whole cache lines */
};

struct outbox {
	struct link *link; /* borrowed */
	uint32_t count, last;
	struct link_frame frame[OUTBOX_FRAMES];
	uint8_t *bytes;
};

int outbox_open(struct outbox *outbox, struct link *link); /* 0, -ENOMEM */
void outbox_close(struct outbox *outbox);

/* Memory for the next packet to `peer`, of `bytes` bytes, 1 to LINK_FRAME_BYTES_MAX; to be written before the
 * next call. May send what is there. */
uint8_t *outbox_put(struct outbox *outbox, const struct link_address *peer, uint32_t bytes);
/* Sends all. */
void outbox_flush(struct outbox *outbox);

#endif
