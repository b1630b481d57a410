/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dropped.c - what nobody takes because of its address, generation or nonce: a packet that was late, or a stranger's.
 * Counted for each table and for the switches inside, and told as it grows, so that a flood is seen and does not fill
 * the log. docs/protocol.md, "What a stranger would have to guess".
 */
#include "ps/internal.h"

enum { MANY = 64 }; /* more than what a fence leaves on its way: somebody should look */

struct ps_dropped ps_dropped_table(const struct ps_hosted *hosted)
{
	const struct home_sparse_stats *stats = home_sparse_stats(hosted->table->home);

	return (struct ps_dropped){ stats->strangers + hosted->addresses_wrong, stats->generation,
				    hosted->nonces_wrong };
}

struct ps_dropped ps_dropped_switch(const struct ps_server *server)
{
	const struct engine_sparse_stats *stats = engine_sparse_stats(server->engine);

	return (struct ps_dropped){ stats->wrong_address,
				    stats->verdict[SWITCH_SPARSE_DROP_GENERATION],
				    stats->wrong_nonce + stats->overtaken };
}

static uint64_t sum_of(const struct ps_dropped *dropped)
{
	return dropped->address + dropped->generation + dropped->nonce;
}

static void say(const struct ps_server *server, const struct ps_hosted *hosted,
		const struct ps_dropped *dropped)
{
	ps_log(server, sum_of(dropped) < MANY ? PS_INFO : PS_WARN, ps_about(hosted, NULL),
	       "%sdropped since the start: %llu packets from another address, %llu of another "
	       "generation, %llu with another nonce or an old serial",
	       hosted ? "" : "the switches inside: ", (unsigned long long)dropped->address,
	       (unsigned long long)dropped->generation, (unsigned long long)dropped->nonce);
}

static bool is_news(const struct ps_dropped *dropped, uint64_t *said)
{
	uint64_t sum = sum_of(dropped);

	if (!sum || sum < 2 * *said)
		return false;
	*said = sum;
	return true;
}

void ps_dropped_turn(struct ps_server *server)
{
	struct ps_dropped dropped = ps_dropped_switch(server);

	if (is_news(&dropped, &server->dropped_said))
		say(server, NULL, &dropped);
	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];

		dropped = ps_dropped_table(hosted);
		if (is_news(&dropped, &hosted->dropped_said))
			say(server, hosted, &dropped);
	}
}

void ps_dropped_report(const struct ps_server *server)
{
	struct ps_dropped dropped = ps_dropped_switch(server);

	say(server, NULL, &dropped);
	for (uint32_t i = 0; i < server->hosted_count; i++) {
		dropped = ps_dropped_table(&server->hosted[i]);
		say(server, &server->hosted[i], &dropped);
	}
}
