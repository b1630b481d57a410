/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_out.c - what an endpoint has to send, as frames, until the link takes it; and which of its operations
 * have begun and ended. All other files of the endpoint stand on this one.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "dataplane/endpoint_state.h"

/* The first `taken` frames are gone. */
static void out_shift(struct endpoint *endpoint, uint32_t taken)
{
	for (uint32_t i = 0; i < taken; i++)
		endpoint->stats.bytes_out += endpoint->out[i].bytes;
	endpoint->out_count -= taken;
	memmove(endpoint->out, endpoint->out + taken, endpoint->out_count * sizeof(*endpoint->out));
}

bool endpoint_flush(struct endpoint *endpoint)
{
	const struct link_ops *ops = endpoint->link->ops;
	uint32_t taken = endpoint->out_count;
	int error;

	if (endpoint->out_count) {
		error = ops->offer ? ops->offer(endpoint->link, endpoint->out, endpoint->out_count,
						&taken)
				   : ops->send(endpoint->link, endpoint->out, endpoint->out_count);
		if (error == -EMSGSIZE && endpoint->lanes)
			endpoint->fault = ENDPOINT_TOO_LARGE;
		else if (error < 0 && error != -EMSGSIZE)
			endpoint->fault = ENDPOINT_LINK_ERROR;
		out_shift(endpoint, taken);
	}
	if (!endpoint->out_count)
		endpoint->short_used = 0;
	return !endpoint->out_count;
}

/* For how many packets without lanes there is room, whatever their destinations. */
uint32_t endpoint_header_rooms(struct endpoint *endpoint)
{
	uint32_t frames, headers;

	if (!endpoint_has_room(endpoint))
		return 0;
	frames = ENDPOINT_SEND_FRAMES - endpoint->out_count;
	headers = (ENDPOINT_SHORT_BYTES - endpoint->short_used) / WIRE_HEADER_BYTES;
	return frames < headers ? frames : headers;
}

/* Appends a packet of `bytes` bytes at `data` to the last frame if it continues it, else opens one. A
 * frame's packets are of one size, but for a shorter last one. There is room (endpoint_has_room). */
void endpoint_emit(struct endpoint *endpoint, uint32_t shard, uint8_t *data, uint32_t bytes)
{
	struct link_frame *frame;

	if (endpoint->out_count) {
		frame = &endpoint->out[endpoint->out_count - 1];
		if (frame->data + frame->bytes == data && bytes <= frame->packet_bytes &&
		    frame->bytes == frame->count * frame->packet_bytes &&
		    frame->count < endpoint->run && frame->bytes + bytes <= LINK_FRAME_BYTES_MAX &&
		    link_address_equal(&frame->peer, &endpoint->shards[shard].grant.address)) {
			frame->bytes += bytes;
			frame->count++;
			return;
		}
	}
	assert(endpoint->out_count < ENDPOINT_SEND_FRAMES);
	endpoint->out[endpoint->out_count++] = (struct link_frame){
		.peer = endpoint->shards[shard].grant.address,
		.packet_bytes = bytes,
		.count = 1,
		.bytes = bytes,
		.data = data,
	};
}

/* Where a packet lies until it has been sent, beside others. */
static uint8_t *short_room(struct endpoint *endpoint, uint32_t bytes)
{
	uint8_t *room = endpoint->short_bytes + endpoint->short_used;

	assert(bytes <= ENDPOINT_SHORT_BYTES - endpoint->short_used);
	endpoint->short_used += bytes;
	return room;
}

uint8_t *endpoint_header_room(struct endpoint *endpoint)
{
	return short_room(endpoint, WIRE_HEADER_BYTES);
}

/* What lies in the slot's buffer goes out; if it does not fill it, and there is room, from where such packets lie side
 * by side and go as one message. For one without lanes there is (endpoint_has_room). */
void endpoint_emit_slot(struct endpoint *endpoint, uint32_t shard, uint32_t slot)
{
	uint8_t *data = endpoint_buffer(endpoint, shard, slot);
	struct wire header;
	uint32_t bytes;

	wire_get(data, &header);
	bytes = wire_bytes(header.lanes);
	if (bytes < endpoint->packet_bytes && bytes <= ENDPOINT_SHORT_BYTES - endpoint->short_used)
		data = memcpy(short_room(endpoint, bytes), data, bytes);
	endpoint_emit(endpoint, shard, data, bytes);
}

void endpoint_op_begun(const struct endpoint *endpoint, const struct endpoint_op *op)
{
	if (op->first_ns && !*op->first_ns)
		*op->first_ns = endpoint->now_ns;
}

void endpoint_op_finish(struct endpoint *endpoint, uint64_t index)
{
	uint32_t at = (endpoint->done_head + endpoint->done_count++) % endpoint->ops_count;

	endpoint->done[at] = (uint32_t)index;
}
