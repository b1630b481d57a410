/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binding.h - who may send as a child of a job, or as a worker or the server of a table: whoever has shown its
 * nonce, from the address that has shown it last. docs/protocol.md, R-WIRE-8.
 */
#ifndef DATAPLANE_BINDING_H
#define DATAPLANE_BINDING_H

#include "core/shared/wire.h"
#include "dataplane/link.h"

struct binding {
	struct link_address address;
	uint32_t serial; /* of the HELLO that bound it */
	bool is_bound, has_serial;
	uint8_t nonce[WIRE_NONCE_BYTES];
};

static inline bool binding_is_at(const struct binding *binding, const struct link_address *address)
{
	return binding->is_bound && link_address_equal(&binding->address, address);
}

/* Without a HELLO. */
void binding_set(struct binding *binding, const struct link_address *address);

/* Only the right nonce with a higher serial binds anew; an old copy, or a copy from elsewhere, does nothing. True:
 * a WELCOME is due. The nonces are compared in a time that says nothing of where they differ. */
bool binding_hello(struct binding *binding, const struct link_address *address, uint32_t serial,
		   const uint8_t *nonce);

/* Of a HELLO that binds nothing: a later one of the same sender has passed it on the way. It is no stranger's. One whose
 * serial is further back may be: R-CT-35. */
bool binding_is_overtaken(const struct binding *binding, const struct link_address *address,
			  uint32_t serial, const uint8_t *nonce);

/* The WELCOME to a HELLO from `peer`, of wire_bytes(hello->lanes) bytes: over the HELLO itself, or elsewhere. */
void binding_welcome(const struct wire *hello, const struct link_address *peer, uint8_t *at);

#endif
