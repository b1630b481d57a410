/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_strike.c - what befalls a run, as its scenario says: pauses, restarts, moves to another port, and
 * the strikes of the wide kinds, one after the other, each healed before the next.
 *
 * Control has no packets here (core/admission and core/member are searched, src/search): that somebody
 * has died is known after a time drawn from what control would take, a closed connection or a heartbeat.
 * What follows is what control does: the life ends for all, with an error; or the next one begins, with a
 * fresh generation, from a step that all agree on.
 */
#include "sim/run_state.h"

enum { DRIFT_PPM = 100000 };

static uint32_t nodes_count(const struct run *run)
{
	return run->wiring.workers + run->wiring.engines;
}

static void pause_something(struct run *run)
{
	const struct scenario *scenario = run->scenario;
	uint32_t node = run_node(run, rng_below(&run->rng, nodes_count(run)));
	uint64_t until = net_now(run->net) + rng_log(&run->rng, 50 * US, scenario->pause_ns);

	if (run->is_over)
		return;
	switch (rng_below(&run->rng, 3)) {
	case 0:
		net_pause_node(run->net, node, until);
		break;
	case 1:
		net_pause_lines(run->net, node, until, false);
		break;
	default:
		net_pause_lines(run->net, node, until, true);
		break;
	}
	run_timer_in(run, rng_between(&run->rng, 1, 2ull * scenario->pause_every_ns), TIMER_PAUSE,
		     0);
}

static void rebind(struct run *run)
{
	uint32_t w = rng_below(&run->rng, run->scenario->workers);
	uint32_t node = run_node(run, w);

	if (run->is_over)
		return;
	net_readdress(run->net, node, (uint16_t)(net_address(run->net, node).port + 1));
	run_timer_in(run, rng_log(&run->rng, 10 * MS, 500 * MS), TIMER_REBIND, 0);
}

/* --- the next life --- */

/* Everybody leaves; the engines learn of the next generation one by one, in any order; then all start
 * again from a step that all agree on. */
static void restart(struct run *run)
{
	if (run->is_over)
		return;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		worker_close(run, w);
	run->worker[0].next = load_restart(run->load);
	for (uint32_t w = 1; w < run->scenario->workers; w++)
		run->worker[w].next = run->worker[0].next;
	if (run->scenario->kind == SCENARIO_crash)
		run->generation += 1 + rng_below(&run->rng, 1u << 30);
	else
		run->generation++;
	run->generation += !run->generation;
	run->life++;
	run->sets_left = run->wiring.engines;
	for (uint32_t e = 0; e < run->wiring.engines; e++)
		run_timer_in(run, rng_log(&run->rng, 1, 2 * MS), TIMER_SET, e);
}

/* After a crash every switch adds the job anew: members have other nonces and other addresses. */
static void engine_revive(struct run *run, uint32_t e)
{
	uint32_t node = wiring_node(&run->wiring, e);

	if (!run->engine[e]) {
		net_pause_lines(run->net, node, net_now(run->net), false);
		if (!engine_setup(run, e))
			check_fail(run->check, UINT32_MAX, 0, "an engine does not start again");
	} else {
		engine_job_remove(run->engine[e], sim_job(run->scenario, e));
	}
	if (!engine_job_setup(run, e))
		check_fail(run->check, UINT32_MAX, 0, "an engine refuses the job's next life");
	engine_bind(run, e);
}

static void strike_later(struct run *run)
{
	if (run->strikes < run->scenario->strikes && !run->is_over)
		run_timer_in(run, rng_log(&run->rng, 50 * US, run->scenario->strike_gap_ns),
			     TIMER_STRIKE, 0);
}

static void restart_set(struct run *run, uint32_t e)
{
	bool is_crash = run->scenario->kind == SCENARIO_crash;

	if (is_crash)
		engine_revive(run, e);
	engine_set(run, e);
	if (--run->sets_left)
		return;
	check_life(run->check, run->generation, 0);
	run->dead = 0;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		worker_open(run, w);
	if (is_crash) {
		run->heal_ns = net_now(run->net);
		strike_later(run);
	}
}

void strike_submitted(struct run *run, uint32_t w)
{
	if (run->is_struck || w || run->worker[w].next <= run->scenario->strike_op)
		return;
	run->is_struck = true;
	if (run->scenario->is_restarted)
		run_timer_in(run, rng_log(&run->rng, 1, 20 * MS), TIMER_RESTART, 0);
}

/* --- crashes --- */

static void crash(struct run *run)
{
	uint32_t node = rng_below(&run->rng, nodes_count(run));
	bool is_worker = wiring_is_worker(&run->wiring, node);

	if (run->dead >> node & 1)
		return;
	run->dead |= 1ull << node;
	net_pause_lines(run->net, node, NET_NEVER, true);
	if (is_worker) {
		worker_close(run, node);
		return;
	}
	uint32_t e = wiring_engine(&run->wiring, node);
	engine_close(run->engine[e]);
	run->engine[e] = NULL;
}

/* Somebody has been missed. A process that comes instead of one that died has another port; and all have
 * new nonces. */
static void lost(struct run *run)
{
	if (run->is_over)
		return;
	if (run->scenario->is_given_up && run->strikes == run->scenario->strikes) {
		load_lost(run->load);
		for (uint32_t w = 0; w < run->scenario->workers; w++)
			worker_close(run, w);
		run->is_lost = run->is_over = true;
		return;
	}
	for (uint32_t w = 0; w < run->scenario->workers; w++) {
		worker_nonces_draw(run, w);
		run->worker[w].serial = 0;
		if (!(run->dead >> w & 1))
			continue;
		net_pause_lines(run->net, w, net_now(run->net), false);
		net_reborn(run->net, w);
	}
	restart(run);
}

/* --- strikes --- */

static void fall_apart(struct run *run)
{
	uint32_t nodes = nodes_count(run);
	uint32_t one = rng_below(&run->rng, nodes); /* nobody alone is left, at least one is away */

	for (uint32_t node = 0; node < nodes; node++)
		net_side(run->net, node, node == one || rng_chance(&run->rng, 300000));
	net_side(run->net, (one + 1) % nodes, 0);
	net_cut(run->net, rng_chance(&run->rng, 300000) ? NET_CUT_ONE_WAY : NET_CUT);
}

static void clocks_turn(struct run *run)
{
	for (uint32_t node = 0; node < nodes_count(run); node++) {
		int32_t ppm = (int32_t)rng_log(&run->rng, 1, DRIFT_PPM);
		uint64_t ahead = rng_chance(&run->rng, 200000) ? rng_log(&run->rng, US, SECOND) : 0;

		net_clock(run->net, node, rng_chance(&run->rng, 500000) ? ppm : -ppm, ahead);
	}
}

static void strike(struct run *run)
{
	uint64_t lasts = rng_log(&run->rng, 100 * US, run->scenario->strike_ns);
	uint32_t victims = 1 + rng_below(&run->rng, 3);

	if (run->is_over)
		return;
	run->strikes++;
	run->heal_ns = net_now(run->net) + lasts;
	switch ((uint32_t)run->scenario->kind) {
	case SCENARIO_partition:
		fall_apart(run);
		break;
	case SCENARIO_stopped:
		while (victims--)
			net_pause_node(run->net, rng_below(&run->rng, nodes_count(run)),
				       run->heal_ns);
		break;
	case SCENARIO_drift:
		clocks_turn(run);
		break;
	default: /* a crash, or two at once */
		for (victims = victims == 3 ? 2 : 1; victims; victims--)
			crash(run);
		run_timer_in(run, lasts, TIMER_LOST, 0);
		return;
	}
	run_timer_in(run, lasts, TIMER_HEAL, 0);
}

/* What is frozen goes on by itself, and clocks need no heal. */
static void heal(struct run *run)
{
	net_cut(run->net, NET_WHOLE);
	strike_later(run);
}

void strike_begin(struct run *run)
{
	const struct scenario *scenario = run->scenario;

	if (scenario->pause_every_ns)
		run_timer_in(run, rng_below(&run->rng, 10 * MS), TIMER_PAUSE, 0);
	if (scenario->kind == SCENARIO_rebind)
		run_timer_in(run, 5 * MS, TIMER_REBIND, 0);
	strike_later(run);
}

void strike_timer(struct run *run, uint32_t what, uint32_t whom)
{
	switch (what) {
	case TIMER_PAUSE:
		pause_something(run);
		break;
	case TIMER_RESTART:
		restart(run);
		break;
	case TIMER_SET:
		restart_set(run, whom);
		break;
	case TIMER_REBIND:
		rebind(run);
		break;
	case TIMER_STRIKE:
		strike(run);
		break;
	case TIMER_LOST:
		lost(run);
		break;
	default:
		heal(run);
		break;
	}
}
