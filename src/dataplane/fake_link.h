/* SPDX-License-Identifier: Apache-2.0 */
/* fake_link.h - for tests: a link to nowhere, whose clock the test sets. What is sent is told to the test packet by
 * packet; nothing is received. */
#ifndef DATAPLANE_FAKE_LINK_H
#define DATAPLANE_FAKE_LINK_H

#include <assert.h>
#include <string.h>

#include "dataplane/link.h"

struct fake_link {
	struct link link; /* first: what is sent comes with it */
	uint64_t now_ns;
	/* Both pointers are good until it returns. */
	void (*sent)(const struct link_address *peer, const uint8_t *packet, uint32_t bytes);
};

static uint64_t fake_link_now(struct link *link)
{
	return ((struct fake_link *)link)->now_ns;
}

static int fake_link_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	struct fake_link *fake = (struct fake_link *)link;

	for (uint32_t i = 0; i < count; i++) {
		assert(frames[i].bytes == frames[i].count * frames[i].packet_bytes);
		for (uint32_t k = 0; k < frames[i].count; k++)
			fake->sent(&frames[i].peer, frames[i].data + k * frames[i].packet_bytes,
				   frames[i].packet_bytes);
	}
	return 0;
}

static inline void fake_link_init(struct fake_link *fake, uint64_t now_ns,
				  void (*sent)(const struct link_address *peer,
					       const uint8_t *packet, uint32_t bytes))
{
	static const struct link_ops ops = { .send = fake_link_send, .now_ns = fake_link_now };

	memset(fake, 0, sizeof(*fake));
	fake->link.ops = &ops;
	fake->now_ns = now_ns;
	fake->sent = sent;
}

#endif
