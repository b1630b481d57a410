/* SPDX-License-Identifier: Apache-2.0 */
/* tables_run.c - one simulated run of tables of keys: what a seed chooses, what strikes, and what happens when. */
#include "sim/tables_world.h"

#include <stdlib.h>

static const uint64_t BOUND_NS = 300000 * MS; /* no longer without progress */
enum { EVENTS_MAX = 200000 };

static void scenario_draw(struct tables_scenario *scenario, uint64_t seed)
{
	struct rng rng;

	rng_init(&rng, seed, 5150);
	*scenario = (struct tables_scenario){ .seed = seed };
	scenario->workers = 1 + rng_below(&rng, TABLES_WORKERS);
	scenario->servers = 1 + rng_below(&rng, 2 + rng_below(&rng, 2));
	scenario->mode = (enum worker_kv_mode)rng_below(&rng, 3);
	if (scenario->mode == WORKER_KV_BOUNDED)
		scenario->staleness = rng_below(&rng, 4);
	scenario->steps = 1 + rng_below(&rng, TABLES_STEPS);
	scenario->batches = 1 + rng_below(&rng, 9);
	scenario->strikes = rng_below(&rng, 4) ? rng_below(&rng, 12) : 0;
	scenario->room = 1 + rng_below(&rng, 6);
	scenario->heartbeat_ns = (1 + rng_below(&rng, 4)) * 500 * MS;
	scenario->deadline_ns = rng_log(&rng, 15000 * MS, 120000 * MS);
	scenario->delay_ns = rng_log(&rng, 10000, 100 * MS);
	scenario->disk_ns = rng_log(&rng, 10000, 500 * MS);
	scenario->slow = rng_below(&rng, 2) ? (uint32_t)rng_log(&rng, 1000, 100000) : 0;
}

void tables_describe(uint64_t seed, char text[256])
{
	static const char *const modes[] = { "asynchronous", "bounded", "synchronous" };
	struct tables_scenario scenario;

	scenario_draw(&scenario, seed);
	snprintf(text, 256,
		 "%u workers, %u servers, %s, staleness %u, %u steps of up to %u batches, %u "
		 "strikes, heartbeat %.1f s, disk %.1f ms",
		 scenario.workers, scenario.servers, modes[scenario.mode], scenario.staleness,
		 scenario.steps, scenario.batches, scenario.strikes,
		 (double)scenario.heartbeat_ns / 1e9, (double)scenario.disk_ns / 1e6);
}

/* ---- what strikes ---- */

/* Another process is this worker soon, or late: others may have been told by then that it has gone. */
static void begins_soon(struct tables_world *world, uint32_t worker)
{
	if (world->is_awaited[worker])
		return;
	world->is_awaited[worker] = true;
	tables_event_in(world, rng_log(&world->rng, 10 * MS, 20000 * MS),
			(struct tables_event){ .what = TABLES_BEGINS, .whom = worker });
}

static void begins_anew(struct tables_world *world, uint32_t worker)
{
	uint32_t p = world->latest[worker] - 1;

	if (!world->process[p].is_dead)
		tables_process_dies(world, p, !rng_below(&world->rng, 3));
	begins_soon(world, worker);
}

static void all_again(struct tables_world *world)
{
	tables_trace(world, "all begin anew");
	for (uint32_t i = 0; i < world->scenario->workers; i++)
		begins_anew(world, i);
}

static void conn_strike(struct tables_world *world)
{
	const struct tables_message end = { .type = TABLES_END };
	uint32_t p = world->latest[rng_below(&world->rng, world->scenario->workers)] - 1;
	uint32_t c = world->process[p].part[rng_below(&world->rng, world->scenario->servers)].conn;
	uint64_t until_ns = world->now_ns + rng_log(&world->rng, 100 * MS, 20000 * MS);

	if (!c--)
		return;
	switch (rng_below(&world->rng, 4)) {
	case 0:
		tables_trace(world, "connection %u is cut", c);
		tables_up(world, c, end);
		tables_down(world, c, end);
		break;
	case 1:
		tables_trace(world, "connection %u is silent", c);
		world->conn[c].is_silent = true;
		break;
	case 2:
		tables_trace(world, "connection %u stalls upwards", c);
		if (world->conn[c].up_ns < until_ns)
			world->conn[c].up_ns = until_ns;
		break;
	default:
		tables_trace(world, "connection %u stalls downwards", c);
		if (world->conn[c].down_ns < until_ns)
			world->conn[c].down_ns = until_ns;
	}
}

static void server_strike(struct tables_world *world)
{
	uint32_t s = rng_below(&world->rng, world->scenario->servers);
	struct tables_server *server = &world->server[s];

	if (!server->is_up)
		return;
	if (!rng_below(&world->rng, 4)) {
		server->full_ns = world->now_ns + rng_log(&world->rng, 10 * MS, 5000 * MS);
		tables_trace(world, "the disk of server %u is full", s);
		return;
	}
	tables_server_dies(world, s, !rng_below(&world->rng, 3));
	tables_event_in(world, rng_log(&world->rng, 10 * MS, 15000 * MS),
			(struct tables_event){ .what = TABLES_RESTARTS, .whom = s });
}

static void strike_in(struct tables_world *world)
{
	if (world->strikes_left)
		tables_event_in(world, rng_log(&world->rng, 10 * MS, 4000 * MS),
				(struct tables_event){ .what = TABLES_STRIKES });
}

static void strike(struct tables_world *world)
{
	uint32_t worker = rng_below(&world->rng, world->scenario->workers);
	uint32_t what = rng_below(&world->rng, 10);

	world->strikes_left--;
	if (what < 5)
		conn_strike(world);
	else if (what < 8)
		server_strike(world);
	else if (what == 8)
		begins_anew(world, worker);
	else if (!rng_below(&world->rng, 3))
		all_again(world);
	strike_in(world);
	tables_progress(world);
}

/* ---- what happens ---- */

/* As somebody does who has started them: who has failed begins anew. And so do all if one waits for nobody, or the run of a
 * synchronous table is over. */
static void look(struct tables_world *world)
{
	bool must_all = false;

	for (uint32_t i = 0; i < world->scenario->workers; i++) {
		uint32_t p = world->latest[i] - 1;

		must_all |= !world->process[p].is_dead && tables_waits_in_vain(world, p);
		if (!world->process[p].has_failed || world->is_awaited[i])
			continue;
		must_all |= world->scenario->mode == WORKER_KV_SYNC;
		begins_soon(world, i);
	}
	if (must_all)
		all_again(world);
	tables_event_in(world, 100 * MS, (struct tables_event){ .what = TABLES_LOOKS });
}

static void turn(struct tables_world *world, uint32_t s, uint64_t is_once)
{
	tables_server_turn(world, s);
	if (!is_once)
		tables_event_in(world, world->scenario->heartbeat_ns / 4,
				(struct tables_event){ .what = TABLES_TURNS,
						       .whom = s,
						       .life = world->server[s].life });
}

static void restart(struct tables_world *world, uint32_t s)
{
	tables_server_begin(world, s);
	tables_event_in(world, 1,
			(struct tables_event){
				.what = TABLES_TURNS, .whom = s, .life = world->server[s].life });
	tables_progress(world);
}

static void wake(struct tables_world *world, uint32_t p, uint64_t number)
{
	if (world->process[p].wake_ns != number)
		return; /* it has been there since */
	world->process[p].wake_ns = 0;
	tables_process_turn(world, p);
}

static void event_take(struct tables_world *world, const struct tables_event *event)
{
	uint32_t whom = event->whom;
	bool is_of_server = event->what == TABLES_TURNS || event->what == TABLES_SYNCED;
	bool is_of_process = event->what == TABLES_WAKES || event->what == TABLES_CALLS;

	if ((is_of_server && event->life != world->server[whom].life) ||
	    (is_of_process && world->process[whom].is_dead))
		return;
	switch (event->what) {
	case TABLES_ARRIVES_UP:
		tables_server_hears(world, whom, &event->message);
		break;
	case TABLES_ARRIVES_DOWN:
		tables_process_hears(world, whom, &event->message);
		break;
	case TABLES_WAKES:
		wake(world, whom, event->number);
		break;
	case TABLES_CALLS:
		tables_process_calls(world, whom);
		break;
	case TABLES_BEGINS:
		world->is_awaited[whom] = false;
		tables_process_begin(world, whom);
		break;
	case TABLES_TURNS:
		turn(world, whom, event->number);
		break;
	case TABLES_SYNCED:
		tables_server_synced(world, whom, event->number);
		break;
	case TABLES_RESTARTS:
		restart(world, whom);
		break;
	case TABLES_STRIKES:
		strike(world);
		break;
	case TABLES_LOOKS:
		look(world);
		break;
	}
}

static void event_note(struct tables_world *world, const struct tables_event *event)
{
	struct tables_report *report = world->report;

	report->digest = (report->digest ^ world->now_ns ^ (uint64_t)event->what << 56 ^
			  (uint64_t)event->whom << 40 ^ (uint64_t)event->message.type << 32 ^
			  event->message.number) *
			 0x9e3779b97f4a7c15;
	report->digest ^= report->digest >> 31;
	if (world->trace && event->what <= TABLES_ARRIVES_DOWN)
		tables_trace(world,
			     "%s, connection %u of process %u and server %u: %u, number %llu",
			     event->what == TABLES_ARRIVES_UP ? "up" : "down", event->whom,
			     world->conn[event->whom].process, world->conn[event->whom].server,
			     event->message.type, (unsigned long long)event->message.number);
}

static bool is_done(const struct tables_world *world)
{
	if (world->strikes_left)
		return false;
	for (uint32_t i = 0; i < world->scenario->workers; i++)
		if (!world->latest[i] || world->is_awaited[i] ||
		    !tables_process_has_left(world, world->latest[i] - 1))
			return false;
	for (uint32_t s = 0; s < world->scenario->servers; s++) {
		const struct tables_server *server = &world->server[s];

		if (!server->is_up || server->durable != server->records)
			return false;
		for (uint32_t i = 0; i < world->scenario->workers; i++)
			if (server->its[i])
				return false;
	}
	return true;
}

static void run(struct tables_world *world)
{
	world->table = (struct sparse_table){ .ranks = 1,
					      .window = 1,
					      .dim = 1,
					      .bytes = 600,
					      .workers = (uint16_t)world->scenario->workers };
	world->now_ns = world->progress_ns = 1000 * MS; /* 0 is never */
	world->strikes_left = world->scenario->strikes;
	for (uint32_t s = 0; s < world->scenario->servers; s++)
		restart(world, s);
	for (uint32_t i = 0; i < world->scenario->workers; i++)
		tables_process_begin(world, i);
	tables_event_in(world, 0, (struct tables_event){ .what = TABLES_LOOKS });
	strike_in(world);
	for (uint32_t i = 0; !world->report->is_failed && !is_done(world); i++) {
		struct tables_event event = tables_event_next(world);

		event_note(world, &event);
		event_take(world, &event);
		if (i == EVENTS_MAX)
			tables_fail(world, "there is no end of events");
		if (world->now_ns - world->progress_ns > BOUND_NS)
			tables_fail(world, "nothing gets on for %.1f s",
				    (double)(world->now_ns - world->progress_ns) / 1e9);
	}
	if (!world->report->is_failed)
		tables_end_judge(world);
}

void tables_run(uint64_t seed, struct tables_report *report, FILE *trace)
{
	struct tables_world *world = tables_need(calloc(1, sizeof(*world)));
	struct tables_scenario scenario;

	scenario_draw(&scenario, seed);
	*report = (struct tables_report){ .is_failed = false };
	world->scenario = &scenario;
	world->report = report;
	world->trace = trace;
	rng_init(&world->rng, seed, 5151);
	run(world);
	report->virtual_ns = world->now_ns;
	for (uint32_t p = 0; p < world->processes; p++)
		free(world->process[p].kv);
	for (uint32_t s = 0; s < scenario.servers; s++) {
		free(world->server[s].record);
		free(world->server[s].held);
	}
	free(world->seen);
	free(world->event);
	agenda_fini(&world->agenda);
	free(world);
}
