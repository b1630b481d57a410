/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_chip.c - p4/chip.h in the place of a switch of data.h's model, each first pass beside switch.h's step of the
 * same packet. What goes round does so inside the chip: the last pass may be lost there, or come more than once (it is
 * in the set as well); a second half may only be late.
 */
#include "search/data_world.h"
#include "search/slow.h"

enum { FIRST_HALF = DATA_LANES / 2 };

static bool has_halves(void)
{
	return world.config->chip == DATA_CHIP_HALVES;
}

/* Is the first pass what switch.h does, but for the lanes that are to come and for what is not final yet? */
static const char *first_differs(const struct switch_job *job, const struct node_state *before,
				 const struct packet *packet, const struct node_state *after,
				 enum switch_verdict verdict, const struct wire *answer)
{
	struct node_state want = *before;
	struct wire wire = packet->wire;
	enum switch_verdict wanted =
		switch_step(job, &want.slot, want.sum[0], DATA_LANES, &wire, packet->lane, NULL);

	if (!slow_is_asked())
		return NULL;
	if (wanted == SWITCH_MULTICAST)
		want.slot.final = 0;
	else if (!slow_is_same(answer, &wire))
		return "R-CHIP-1: an answer is not that of a switch that is no chip";
	if (verdict != (wanted == SWITCH_MULTICAST ? SWITCH_ABSORB : wanted))
		return "R-CHIP-1: a verdict is not that of a switch that is no chip";
	if (memcmp(&want.slot, &after->slot, sizeof(want.slot)) != 0)
		return "R-CHIP-1: a slot is not left as by a switch that is no chip";
	return NULL;
}

enum switch_verdict chip_take(const struct switch_job *job, struct node_state *at,
			      const struct packet *packet, struct wire *answer, struct step *step)
{
	const struct node_state before = *at;
	struct chip_packet first = { answer, packet->lane, 0,
				     has_halves() ? FIRST_HALF : DATA_LANES };
	struct packet round = *packet;
	enum switch_verdict verdict;
	const char *wrong;
	bool goes_round = false;

	verdict = switch_admit(job, answer);
	if (verdict != SWITCH_ABSORB)
		return verdict;
	if (packet->goes_round && has_halves() && !chip_is_counted(job, &at->words, answer))
		return SWITCH_DROP_STALE;
	if (packet->goes_round)
		return chip_last(&at->slot, answer);
	verdict = chip_first(job, &at->slot, &at->words, at->sum[switch_copy_of(answer->seq)],
			     &first, &goes_round);
	wrong = first_differs(job, &before, packet, at, verdict, answer);
	if (wrong)
		step_broken(step, wrong);
	if (verdict == SWITCH_ABSORB && has_halves()) {
		at->going[packet->wire.child] =
			1 + intern_put(&world.packets, packet, sizeof(*packet));
	} else if (goes_round) {
		round.goes_round = 1; /* and its type is one that the set keeps */
		round.wire.type = WIRE_UPDATE;
		round.wire.lanes = 0;
		memset(round.lane, 0, sizeof(round.lane));
		step_make(step, &round);
	}
	return verdict;
}

void chip_comes_round(const struct switch_job *job, struct node_state *at, uint32_t child,
		      struct step *step)
{
	struct packet round = *packet_at(at->going[child] - 1);
	struct chip_packet half = { &round.wire, round.lane, FIRST_HALF, DATA_LANES };

	at->going[child] = 0;
	/* R-CHIP-4 */
	if (switch_admit(job, &round.wire) != SWITCH_ABSORB)
		return;
	if (!chip_second(job, &at->words, at->sum[switch_copy_of(round.wire.seq)], &half))
		return;
	round.goes_round = 1;
	round.wire.lanes = 0;
	memset(round.lane, 0, sizeof(round.lane));
	step_make(step, &round);
}

void chip_settle(const struct switch_job *job, struct node_state *at)
{
	struct step none = { 0 };

	for (uint32_t child = 0; child < job->children; child++)
		if (at->going[child])
			chip_comes_round(job, at, child, &none);
}
