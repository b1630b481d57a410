/* SPDX-License-Identifier: Apache-2.0 */
/* flush.c - see flush.h. */
#include "dataplane/flush.h"

#include <string.h>

uint64_t flush_bytes(uint32_t parts)
{
	return (parts + 63ull) / 64 * sizeof(uint64_t);
}

void flush_init(struct flush *flush, const struct sparse_table *table, uint64_t *had)
{
	uint32_t window = FLUSH_WINDOW_BYTES / table->bytes;

	*flush = (struct flush){ .had = had,
				 .window = window < FLUSH_WINDOW_MAX ? window : FLUSH_WINDOW_MAX };
}

static void start(struct flush *flush, uint64_t now_ns)
{
	memset(flush->had, 0, flush_bytes(flush->parts));
	flush->next = 0;
	flush->waits_ns = now_ns;
}

void flush_begin(struct flush *flush, uint32_t parts, uint64_t now_ns)
{
	flush->parts = parts;
	start(flush, now_ns);
	flush->is_again = false;
}

static bool has(const struct flush *flush, uint32_t part)
{
	return flush->had[part / 64] >> (part % 64) & 1;
}

void flush_have(struct flush *flush, const struct sparse *packet, const uint8_t *at,
		uint64_t now_ns)
{
	const uint8_t *numbers = sparse_item(packet, at, 0);
	uint32_t left = 0;

	/* Of others than R-SP-34's pieces, or of none there are, it is of no use. */
	if (packet->part % 64 || packet->part / 64 + packet->width > (flush->parts + 63) / 64)
		return;
	for (uint32_t i = 0; i < packet->width; i++)
		flush->had[packet->part / 64 + i] |=
			sparse_body_get64(numbers + i * SPARSE_NUMBER_BYTES);
	for (uint32_t i = 0; i < flush->flight_count; i++) {
		const struct flush_flight *flight = &flush->flight[i];

		if (!has(flush, flight->part))
			flush->flight[left++] = *flight;
		else if (!flight->is_again)
			rto_sample(&flush->rto, now_ns - flight->sent_ns);
	}
	flush->flight_count = left;
	flush->waits_ns = now_ns;
}

/* A small flush has no other answer: it is whole before its server comes to say HAVE. */
void flush_end(struct flush *flush, uint64_t now_ns)
{
	bool is_once = flush->flight_count == flush->parts && !flush->is_again;
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < flush->flight_count; i++) {
		is_once &= !flush->flight[i].is_again;
		last_ns = rto_most(last_ns, flush->flight[i].sent_ns);
	}
	if (is_once)
		rto_sample(&flush->rto, now_ns - last_ns);
	flush->flight_count = 0;
}

/* One of those that wait has run out. */
static struct flush_flight *run_out(struct flush *flush, uint64_t now_ns)
{
	uint64_t rto = rto_ns(&flush->rto);

	for (uint32_t i = 0; i < flush->flight_count; i++)
		if (now_ns - flush->flight[i].sent_ns >= rto)
			return &flush->flight[i];
	return NULL;
}

bool flush_next(struct flush *flush, uint64_t now_ns, uint32_t *part, bool *is_again)
{
	struct flush_flight *flight = run_out(flush, now_ns);

	if (flight) {
		rto_ran_out(&flush->rto, now_ns);
		flight->is_again = 1;
	} else {
		if (flush->next == flush->parts && !flush->flight_count &&
		    now_ns - flush->waits_ns >= rto_most(rto_ns(&flush->rto), RTO_BACKOFF_NS)) {
			start(flush, now_ns);
			flush->is_again = true;
		}
		while (flush->next < flush->parts && has(flush, flush->next))
			flush->next++;
		if (flush->next == flush->parts || flush->flight_count == flush->window)
			return false;
		flight = &flush->flight[flush->flight_count++];
		*flight =
			(struct flush_flight){ .part = flush->next++, .is_again = flush->is_again };
	}
	flight->sent_ns = now_ns;
	*part = flight->part;
	*is_again = flight->is_again;
	return true;
}

uint64_t flush_due(const struct flush *flush)
{
	uint64_t due_ns = UINT64_MAX, rto = rto_ns(&flush->rto);

	if (flush->next == flush->parts && !flush->flight_count)
		return flush->waits_ns + rto_most(rto, RTO_BACKOFF_NS);
	for (uint32_t i = 0; i < flush->flight_count; i++)
		due_ns = rto_least(due_ns, flush->flight[i].sent_ns + rto);
	return due_ns;
}
