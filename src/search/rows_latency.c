/* SPDX-License-Identifier: Apache-2.0 */
/* rows_latency.c - latency.h's rows. Self-acknowledging if slots >= 2 * window. */
#include "search/rows.h"

#include "search/latency.h"

/* clang-format off */
static const struct latency_config latency_pair = {
	.workers = 2, .slots = 2, .window = 1, .ops = 8, .generations = 1,
};
static const struct latency_config latency_ring = {
	.workers = 2, .slots = 4, .window = 2, .ops = 8, .generations = 1, .ring = 2,
};
static const struct latency_config latency_pair_wide = {
	.workers = 2, .slots = 4, .window = 2, .ops = 8, .generations = 1,
};
static const struct latency_config latency_three = {
	.workers = 3, .slots = 2, .window = 1, .ops = 8, .generations = 1,
};
static const struct latency_config latency_three_wide = {
	.workers = 3, .slots = 4, .window = 2, .ops = 8, .generations = 1,
};
static const struct latency_config latency_restart_wide = {
	.workers = 3, .slots = 4, .window = 2, .ops = 5, .generations = 2,
};
static const struct latency_config latency_ack_three_long = {
	.workers = 3, .slots = 3, .window = 2, .ops = 6, .generations = 1,
};
static const struct latency_config latency_wrap = {
	.workers = 2, .slots = 2, .window = 1, .ops = 8, .generations = 1, .first = 0x1fffffffc,
};
static const struct latency_config latency_restart = {
	.workers = 2, .slots = 4, .window = 2, .ops = 6, .generations = 2,
};
static const struct latency_config latency_restart_three = {
	.workers = 3, .slots = 2, .window = 1, .ops = 4, .generations = 2,
};
static const struct latency_config latency_ack = {
	.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1,
};
static const struct latency_config latency_ack_odd = {
	.workers = 2, .slots = 3, .window = 2, .ops = 8, .generations = 1,
};
static const struct latency_config latency_ack_three = {
	.workers = 3, .slots = 2, .window = 2, .ops = 6, .generations = 1,
};
static const struct latency_config latency_ack_three_odd = {
	.workers = 3, .slots = 3, .window = 2, .ops = 4, .generations = 1,
};
static const struct latency_config latency_ack_wrap = {
	.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1, .first = 0x1fffffffc,
};
static const struct latency_config latency_ack_restart = {
	.workers = 2, .slots = 2, .window = 2, .ops = 5, .generations = 2,
};
/* clang-format on */

static const struct search_row rows[] = {
	{ "latency: n=2, P=1, S=2, 8 operations", latency_model, &latency_pair, false },
	{ "latency: n=2, P=2, S=4, 8 operations", latency_model, &latency_pair_wide, false },
	{ "latency: n=2, P=2, S=4, 8 operations, 2 kept", latency_model, &latency_ring, false },
	{ "latency: n=3, P=1, S=2, 8 operations", latency_model, &latency_three, false },
	{ "latency: n=3, P=2, S=4, 8 operations", latency_model, &latency_three_wide, false },
	{ "latency: n=2, P=1, S=2, near the wrap", latency_model, &latency_wrap, false },
	{ "latency: n=2, P=2, S=4, 6 operations, a restart", latency_model, &latency_restart,
	  false },
	{ "latency: n=3, P=1, S=2, 4 operations, a restart", latency_model, &latency_restart_three,
	  false },
	{ "latency: n=2, P=S=2, ACK, 8 operations", latency_model, &latency_ack, false },
	{ "latency: n=2, P=2, S=3, ACK, 8 operations", latency_model, &latency_ack_odd, false },
	{ "latency: n=3, P=S=2, ACK, 6 operations", latency_model, &latency_ack_three, false },
	{ "latency: n=3, P=2, S=3, ACK, 4 operations", latency_model, &latency_ack_three_odd,
	  false },
	{ "latency: n=2, P=S=2, ACK, near the wrap", latency_model, &latency_ack_wrap, false },
	{ "latency: n=2, P=S=2, ACK, 5 operations, a restart", latency_model, &latency_ack_restart,
	  false },
	{ "latency: n=3, P=2, S=4, 5 operations, a restart", latency_model, &latency_restart_wide,
	  true },
	{ "latency: n=3, P=2, S=3, ACK, 6 operations", latency_model, &latency_ack_three_long,
	  true },
};
const struct search_rows search_rows_latency = { rows, sizeof(rows) / sizeof(rows[0]) };
