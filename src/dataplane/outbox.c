/* SPDX-License-Identifier: Apache-2.0 */
/* outbox.c - see outbox.h. */
#include "dataplane/outbox.h"

#include <errno.h>
#include <stdlib.h>

enum { LINE_BYTES = 64 };

int outbox_open(struct outbox *outbox, struct link *link)
{
	*outbox = (struct outbox){ .link = link };
	outbox->bytes = aligned_alloc(LINE_BYTES, (size_t)OUTBOX_FRAMES * OUTBOX_FRAME_BYTES);
	return outbox->bytes ? 0 : -ENOMEM;
}

void outbox_close(struct outbox *outbox)
{
	free(outbox->bytes);
}

void outbox_flush(struct outbox *outbox)
{
	if (outbox->count)
		outbox->link->ops->send(outbox->link, outbox->frame, outbox->count);
	outbox->count = 0;
}

static bool has_room(const struct link_frame *frame, const struct link_address *peer,
		     uint32_t bytes)
{
	return frame->packet_bytes == bytes && frame->count < LINK_FRAME_PACKETS_MAX &&
	       frame->bytes + bytes <= LINK_FRAME_BYTES_MAX &&
	       link_address_equal(&frame->peer, peer);
}

static struct link_frame *frame_find(struct outbox *outbox, const struct link_address *peer,
				     uint32_t bytes)
{
	struct link_frame *frame;

	if (outbox->count && has_room(&outbox->frame[outbox->last], peer, bytes))
		return &outbox->frame[outbox->last];
	for (outbox->last = 0; outbox->last < outbox->count; outbox->last++)
		if (has_room(&outbox->frame[outbox->last], peer, bytes))
			return &outbox->frame[outbox->last];
	if (outbox->count == OUTBOX_FRAMES)
		outbox_flush(outbox);
	outbox->last = outbox->count++;
	frame = &outbox->frame[outbox->last];
	*frame = (struct link_frame){ .peer = *peer,
				      .packet_bytes = bytes,
				      .data = outbox->bytes +
					      (size_t)outbox->last * OUTBOX_FRAME_BYTES };
	return frame;
}

uint8_t *outbox_put(struct outbox *outbox, const struct link_address *peer, uint32_t bytes)
{
	struct link_frame *frame = frame_find(outbox, peer, bytes);
	uint8_t *at = frame->data + frame->bytes;

	frame->count++;
	frame->bytes += bytes;
	return at;
}
