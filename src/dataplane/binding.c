/* SPDX-License-Identifier: Apache-2.0 */
/* binding.c - see binding.h. */
#include "dataplane/binding.h"

#include <string.h>

enum { OVERTAKEN_MOST = 16 };

void binding_set(struct binding *binding, const struct link_address *address)
{
	binding->address = *address;
	binding->is_bound = true;
}

static bool nonce_equal(const uint8_t *a, const uint8_t *b)
{
	volatile uint8_t differ = 0;

	for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

bool binding_hello(struct binding *binding, const struct link_address *address, uint32_t serial,
		   const uint8_t *nonce)
{
	int32_t ahead = (int32_t)(serial - binding->serial);

	if (!nonce_equal(binding->nonce, nonce))
		return false;
	if (binding->has_serial && (ahead < 0 || (!ahead && !binding_is_at(binding, address))))
		return false;
	binding->serial = serial;
	binding->has_serial = true;
	binding_set(binding, address);
	return true;
}

bool binding_is_overtaken(const struct binding *binding, const struct link_address *address,
			  uint32_t serial, const uint8_t *nonce)
{
	return binding_is_at(binding, address) && nonce_equal(binding->nonce, nonce) &&
	       binding->serial - serial <= OVERTAKEN_MOST;
}

void binding_welcome(const struct wire *hello, const struct link_address *peer, uint8_t *at)
{
	struct wire packet = { .type = WIRE_WELCOME,
			       .job = hello->job,
			       .generation = hello->generation,
			       .seq = hello->seq,
			       .child = hello->child,
			       .lanes = hello->lanes };

	wire_put(at, &packet);
	at += WIRE_HEADER_BYTES;
	memset(at, 0, wire_bytes(hello->lanes) - WIRE_HEADER_BYTES);
	memcpy(at, peer->ip, sizeof(peer->ip));
	wire_put16(at + sizeof(peer->ip), peer->port);
}
