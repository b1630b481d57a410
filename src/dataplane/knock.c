/* SPDX-License-Identifier: Apache-2.0 */
/* knock.c - see knock.h. */
#include "dataplane/knock.h"

#include <assert.h>
#include <string.h>

enum { ALONE = 5 }; /* HELLOs of full size before short ones go with them */

void knock_begin(struct knock *knock, const struct sparse_table *table, uint16_t child,
		 const struct link_address *at_switch, const uint8_t nonce[WIRE_NONCE_BYTES])
{
	uint32_t room = (uint32_t)(table->bytes - WIRE_HEADER_BYTES) / WIRE_LANE_BYTES;
	uint32_t lanes = room / WIRE_LANES_STEP * WIRE_LANES_STEP;

	assert(lanes >= WIRE_HELLO_LANES); /* a sound table's datagrams have the room */
	*knock = (struct knock){
		.at_switch = *at_switch,
		.serial = wire_get32(nonce),
		.before = wire_get32(nonce),
		.index = table->index,
		.child = child,
		.lanes = (uint16_t)lanes,
	};
	memcpy(knock->nonce, nonce, WIRE_NONCE_BYTES);
}

bool knock_serve(struct knock *knock, const struct link_address *peer, const uint8_t *at,
		 uint32_t bytes)
{
	struct wire packet;

	if (wire_check(at, bytes, &packet) || packet.type != WIRE_WELCOME ||
	    packet.job != knock->index || packet.child != knock->child ||
	    packet.generation != wire_get32(knock->nonce + 4) ||
	    packet.seq - knock->before - 1 >= knock->serial - knock->before ||
	    !link_address_equal(peer, &knock->at_switch))
		return false;
	knock->is_short_welcome |= packet.lanes < knock->lanes;
	knock->is_welcome |= packet.lanes >= knock->lanes;
	return true;
}

static void say(struct knock *knock, struct outbox *outbox, uint16_t lanes)
{
	struct wire hello = { .type = WIRE_HELLO,
			      .job = knock->index,
			      .child = knock->child,
			      .generation = wire_get32(knock->nonce + 4),
			      .seq = ++knock->serial,
			      .lanes = lanes };
	uint8_t *at = outbox_put(outbox, &knock->at_switch, wire_bytes(lanes));

	memset(at, 0, wire_bytes(lanes));
	wire_put(at, &hello);
	memcpy(at + WIRE_HEADER_BYTES, knock->nonce, WIRE_NONCE_BYTES);
}

uint64_t knock_turn(struct knock *knock, struct outbox *outbox, uint64_t now_ns)
{
	if (knock->is_welcome)
		return UINT64_MAX;
	if (!knock->count || now_ns - knock->said_ns >= KNOCK_NS) {
		say(knock, outbox, knock->lanes);
		if (++knock->count > ALONE && knock->lanes > WIRE_HELLO_LANES)
			say(knock, outbox, WIRE_HELLO_LANES);
		knock->said_ns = now_ns;
	}
	return knock->said_ns + KNOCK_NS;
}
