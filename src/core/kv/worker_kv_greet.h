/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_greet.h - a worker's HELLO over UDP until WELCOME comes, to a server and to a switch. docs/protocol.md, R-KV-7. */
#ifndef CORE_WORKER_KV_GREET_H
#define CORE_WORKER_KV_GREET_H

#include "core/shared/rto.h"
#include "core/shared/wire.h"

enum { WORKER_KV_NONCE_BYTES = 16 };

/* Zeros: nobody is greeted. */
struct worker_kv_greeting {
	uint64_t due_ns, wait_ns;
	uint32_t serial, before; /* of the last HELLO; this one's begin behind */
	uint16_t index;
	uint8_t nonce[WORKER_KV_NONCE_BYTES];
	bool is_begun, is_welcome;
};

/* It begins, maybe anew. */
CORE_INLINE void worker_kv_greet(struct worker_kv_greeting *greeting, uint16_t index,
				 const uint8_t nonce[WORKER_KV_NONCE_BYTES], uint64_t now_ns)
{
	*greeting = (struct worker_kv_greeting){ .due_ns = now_ns,
						 .wait_ns = 20000000,
						 .serial = greeting->serial,
						 .before = greeting->serial,
						 .index = index,
						 .is_begun = true };
	memcpy(greeting->nonce, nonce, WORKER_KV_NONCE_BYTES);
}

CORE_INLINE uint64_t worker_kv_greet_wake_ns(const struct worker_kv_greeting *greeting)
{
	return greeting->is_begun && !greeting->is_welcome ? greeting->due_ns : UINT64_MAX;
}

/* Is a HELLO due? It is said now, then, with this header and the nonce. */
CORE_INLINE bool worker_kv_greet_time(struct worker_kv_greeting *greeting, uint16_t worker,
				      uint64_t now_ns, struct wire *hello)
{
	if (now_ns < worker_kv_greet_wake_ns(greeting))
		return false;
	*hello = (struct wire){ .type = WIRE_HELLO,
				.job = greeting->index,
				.child = worker,
				.seq = ++greeting->serial,
				.generation = wire_get32(greeting->nonce + 4),
				.lanes = WIRE_HELLO_LANES };
	greeting->due_ns = now_ns + greeting->wait_ns;
	greeting->wait_ns = rto_least(2 * greeting->wait_ns, 250000000);
	return true;
}

/* Is this its WELCOME, from the address that was greeted? Of any HELLO since it began. */
CORE_INLINE bool worker_kv_greet_take(struct worker_kv_greeting *greeting, uint16_t worker,
				      const struct wire *packet)
{
	if (!greeting->is_begun || packet->type != WIRE_WELCOME || packet->job != greeting->index ||
	    packet->child != worker || packet->generation != wire_get32(greeting->nonce + 4) ||
	    packet->seq - greeting->before - 1 >= greeting->serial - greeting->before)
		return false;
	greeting->is_welcome = true;
	return true;
}

#endif
