/* SPDX-License-Identifier: Apache-2.0 */
/* tables_check.c - a second reading of R-KV for tables.h, by what was said and heard when, and what the disks have. */
#include "sim/tables_world.h"

/* ---- what the records say ---- */

bool tables_book_has(const struct tables_book *book, uint32_t worker)
{
	return book->joined[worker] > book->left[worker];
}

static void step_made(const struct tables_world *world, struct tables_book *book, bool is_made)
{
	for (uint32_t p = 0; p < world->processes; p++) {
		if (book->in[p] == book->made[p] || book->is_dropped[p])
			continue;
		if (is_made)
			book->made[p] = book->in[p];
		else
			book->is_dropped[p] = true;
	}
}

void tables_book_take(const struct tables_world *world, struct tables_book *book,
		      const struct tables_record *record)
{
	switch (record->kind) {
	case TABLES_FENCED:
		break;
	case TABLES_JOINED:
		book->joined[world->process[record->process].worker] = ++book->moves;
		book->process[world->process[record->process].worker] = record->process + 1;
		break;
	case TABLES_IN:
		book->in[record->process]++;
		if (world->scenario->mode != WORKER_KV_SYNC)
			book->made[record->process]++;
		break;
	case TABLES_HAS_LEFT:
		book->left[record->process] = ++book->moves;
		break;
	case TABLES_PASSED:
		book->barrier = record->number;
		step_made(world, book, true);
		break;
	case TABLES_VOIDED:
		step_made(world, book, false);
		for (uint32_t i = 0; i < world->scenario->workers; i++)
			if (tables_book_has(book, i))
				book->left[i] = ++book->moves;
		break;
	}
}

/* ---- R-KV-11 and R-KV-17: who has come ---- */

static void forget(const struct tables_server *server, struct tables_came *came)
{
	if (came->barrier > server->book.barrier)
		came->barrier = server->book.barrier;
}

void tables_came_says(struct tables_world *world, uint32_t s, uint32_t worker, uint64_t number,
		      bool is_taken)
{
	struct tables_server *server = &world->server[s];
	struct tables_came *came = &server->came[worker];

	if (!is_taken && number > server->book.barrier)
		return;
	came->barrier = number;
	came->doubt_ns = 0;
	if (!came->waits_ns)
		came->waits_ns = world->now_ns;
}

void tables_came_refused(struct tables_world *world, uint32_t s, uint32_t worker, bool is_forgotten)
{
	struct tables_came *came = &world->server[s].came[worker];

	came->waits_ns = 0;
	if (!is_forgotten)
		return;
	forget(&world->server[s], came);
	if (world->now_ns >= world->server[s].full_ns)
		tables_fail(world, "R-KV-9: server %u refuses a barrier, and its disk is well", s);
}

void tables_came_joins(struct tables_world *world, uint32_t s, uint32_t worker)
{
	struct tables_server *server = &world->server[s];

	for (uint32_t i = 0; i < world->scenario->workers; i++) {
		struct tables_came *other = &server->came[i];

		if (i == worker)
			*other = (struct tables_came){ .joined_ns = world->now_ns };
		else if (!other->is_here)
			forget(server, other);
		else if (tables_book_has(&server->book, worker))
			other->doubt_ns = world->now_ns;
	}
}

/* R-KV-12: what has no answer is said again. */
void tables_came_opens(struct tables_world *world, uint32_t s, uint32_t worker)
{
	struct tables_came *came = &world->server[s].came[worker];

	if (came->doubt_ns)
		forget(&world->server[s], came);
	came->is_here = true;
	came->gone_ns = came->doubt_ns = came->waits_ns = 0;
}

void tables_came_lost(struct tables_world *world, uint32_t s, uint32_t worker)
{
	world->server[s].came[worker].is_here = false;
}

void tables_came_ends(struct tables_world *world, uint32_t s, uint32_t worker)
{
	struct tables_server *server = &world->server[s];
	struct tables_came *came = &server->came[worker];

	if (came->doubt_ns)
		forget(server, came);
	came->is_here = false;
	came->doubt_ns = came->waits_ns = 0;
	came->gone_ns = tables_book_has(&server->book, worker) ? world->now_ns : 0;
}

static uint64_t counts(const struct tables_server *server, uint32_t worker)
{
	const struct tables_came *came = &server->came[worker];

	return came->doubt_ns && came->barrier > server->book.barrier ? server->book.barrier
								      : came->barrier;
}

/* Has everybody come for whom this worker waits? */
static bool is_due(const struct tables_world *world, const struct tables_server *server,
		   uint32_t worker, uint64_t number)
{
	const struct tables_book *book = &server->book;

	if (!server->came[worker].waits_ns || counts(server, worker) < number)
		return false;
	for (uint32_t i = 0; i < world->scenario->workers; i++)
		if (i != worker && counts(server, i) < number &&
		    (tables_book_has(book, i) || book->left[i] <= book->joined[worker]))
			return false;
	return true;
}

/* Must the one who waits be told that the other has gone? */
static bool is_gone(const struct tables_world *world, const struct tables_server *server,
		    uint32_t worker, uint32_t other)
{
	const struct tables_came *came = &server->came[other];

	return world->scenario->mode != WORKER_KV_ASYNC && came->gone_ns &&
	       came->gone_ns > server->came[worker].joined_ns &&
	       world->now_ns > came->gone_ns + 4 * world->scenario->heartbeat_ns + 2000 * MS &&
	       came->barrier <= server->book.barrier && tables_book_has(&server->book, other);
}

void tables_gone_judge(struct tables_world *world, uint32_t s, uint32_t worker, uint32_t other)
{
	if (!is_gone(world, &world->server[s], worker, other))
		tables_fail(world, "R-KV-17: server %u tells worker %u that worker %u has gone", s,
			    worker, other);
}

void tables_turn_judge(struct tables_world *world, uint32_t s)
{
	const struct tables_server *server = &world->server[s];

	for (uint32_t i = 0; i < world->scenario->workers; i++) {
		const struct tables_came *came = &server->came[i];

		if (!came->waits_ns || !came->is_here || came->barrier <= server->book.barrier)
			continue;
		if (world->now_ns < server->full_ns && !world->conn[server->its[i] - 1].is_ending)
			tables_fail(world,
				    "R-KV-11: the disk of server %u is full, worker %u waits", s,
				    i);
		if (is_due(world, server, i, came->barrier))
			tables_fail(world,
				    "R-KV-11: server %u does not pass barrier %llu of worker %u", s,
				    (unsigned long long)came->barrier, i);
		for (uint32_t k = 0; k < world->scenario->workers; k++)
			if (k != i && is_gone(world, server, i, k))
				tables_fail(world,
					    "R-KV-17: server %u does not tell worker %u that "
					    "worker %u has gone",
					    s, i, k);
	}
}

void tables_answer_judge(struct tables_world *world, uint32_t s, uint32_t worker, uint64_t number)
{
	struct tables_server *server = &world->server[s];
	struct tables_came *came = &server->came[worker];
	bool is_last = number == came->barrier;

	if (number > server->book.barrier || number > came->barrier ||
	    (!is_last && world->scenario->mode != WORKER_KV_BOUNDED))
		tables_fail(world, "R-KV-11: server %u answers barrier %llu of worker %u", s,
			    (unsigned long long)number, worker);
	if (is_last)
		came->waits_ns = 0;
}

/* ---- each record ---- */

/* The steps that it has ended up to barrier `number`, at most. */
static uint32_t steps_to(const struct tables_process *process, uint64_t number)
{
	if (!process->first || number < process->first)
		return 0;
	number -= process->first - 1;
	return number < process->steps ? (uint32_t)number : process->steps;
}

static void in_judge(struct tables_world *world, uint32_t s, const struct tables_record *record)
{
	const struct tables_book *book = &world->server[s].book;
	uint32_t p = record->process, k = book->in[p], worker = world->process[p].worker;
	const struct tables_part *part = &world->process[p].part[s];

	if (book->process[worker] != p + 1)
		tables_fail(world,
			    "R-KV-6: server %u takes a batch of process %u, which was replaced", s,
			    p);
	if (record->number != k + 1 || k >= part->made || record->value != part->value[k])
		tables_fail(world, "R-KV-9: server %u takes batch %llu of process %u behind %u", s,
			    (unsigned long long)record->number, p, k);
	if (world->scenario->mode == WORKER_KV_SYNC && !tables_book_has(book, worker))
		tables_fail(world, "R-KV-16: server %u takes a batch of a run that is over", s);
}

static void pass_judge(struct tables_world *world, uint32_t s, uint64_t number)
{
	const struct tables_server *server = &world->server[s];
	bool is_any = false;

	for (uint32_t i = 0; i < world->scenario->workers; i++)
		is_any |= is_due(world, server, i, number);
	if (!is_any || number <= server->book.barrier)
		tables_fail(world, "R-KV-11: server %u passes barrier %llu before all have come", s,
			    (unsigned long long)number);
	if (world->scenario->mode != WORKER_KV_SYNC)
		return;
	for (uint32_t p = 0; p < world->processes; p++) {
		const struct tables_process *process = &world->process[p];
		uint32_t in = server->book.in[p];

		if (in != server->book.made[p] && !server->book.is_dropped[p] &&
		    in != process->part[s].made_at[process->steps])
			tables_fail(world, "R-KV-16: server %u makes half a step of process %u", s,
				    p);
	}
}

void tables_record_judge(struct tables_world *world, uint32_t s, const struct tables_record *record)
{
	const struct tables_book *book = &world->server[s].book;
	uint32_t p = record->process;

	switch (record->kind) {
	case TABLES_FENCED:
		break;
	case TABLES_JOINED:
		if (p + 1 <= book->process[world->process[p].worker])
			tables_fail(world, "R-KV-6: server %u joins process %u, which was replaced",
				    s, p);
		break;
	case TABLES_IN:
		in_judge(world, s, record);
		break;
	case TABLES_HAS_LEFT:
		if (!tables_book_has(book, p) || !world->process[book->process[p] - 1].left_ns)
			tables_fail(world, "R-KV-13: server %u lets worker %u leave", s, p);
		break;
	case TABLES_PASSED:
		pass_judge(world, s, record->number);
		break;
	case TABLES_VOIDED:
		if (world->scenario->mode != WORKER_KV_SYNC)
			tables_fail(world, "R-KV-16: server %u drops what is no step", s);
		for (uint32_t i = 0; i < world->scenario->workers; i++)
			forget(&world->server[s], &world->server[s].came[i]);
		break;
	}
}

/* ---- what a process is told ---- */

void tables_freed_judge(struct tables_world *world, uint32_t p, uint32_t s)
{
	if (world->process[p].part[s].freed > world->server[s].disk.in[p])
		tables_fail(world,
			    "R-KV-9: process %u was told that %u batches are in, the disk of "
			    "server %u has %u",
			    p, world->process[p].part[s].freed, s, world->server[s].disk.in[p]);
}

void tables_passed_judge(struct tables_world *world, uint32_t p, uint32_t s)
{
	uint64_t number = world->process[p].kv->server[s].barrier_done;

	world->report->barriers++;
	tables_progress(world);
	if (number > world->server[s].disk.barrier || number > world->process[p].asked)
		tables_fail(world,
			    "R-KV-11: process %u was told that barrier %llu is passed, the disk of "
			    "server %u has %llu",
			    p, (unsigned long long)number, s,
			    (unsigned long long)world->server[s].disk.barrier);
}

/* R-KV-15: up to this barrier all have come when what follows its last step may go on; 0: it waits for nobody. */
static uint64_t awaited(const struct tables_world *world, const struct tables_process *process)
{
	uint32_t staleness = world->scenario->staleness;

	if (!process->asked || process->steps == world->scenario->steps)
		return process->asked;
	return process->asked - process->first < staleness ? 0 : process->asked - staleness;
}

void tables_gate_judge(struct tables_world *world, uint32_t p)
{
	const struct tables_process *process = &world->process[p];
	uint64_t number = awaited(world, process);

	for (uint32_t i = 0; i < world->scenario->workers && number; i++) {
		bool has_come = i == process->worker;

		for (uint32_t q = 0; q < world->processes; q++)
			has_come |=
				world->process[q].worker == i &&
				(world->process[q].asked >= number || world->process[q].left_ns);
		if (!has_come)
			tables_fail(world,
				    "R-KV-15: process %u goes on, worker %u has not come to "
				    "barrier %llu",
				    p, i, (unsigned long long)number);
	}
}

void tables_pulled_judge(struct tables_world *world, uint32_t p, uint32_t s, uint32_t seen)
{
	const struct tables_process *process = &world->process[p];
	const struct tables_part *part = &process->part[s];
	const uint16_t *made = world->seen[seen];
	bool is_sync = world->scenario->mode == WORKER_KV_SYNC;
	uint64_t number = awaited(world, process);

	world->report->pulls++;
	if (is_sync ? made[p] != part->made_at[process->steps] : made[p] < part->pull_made)
		tables_fail(world, "R-KV-10: process %u pulls %u of its own %u batches", p, made[p],
			    is_sync ? part->made_at[process->steps] : part->pull_made);
	for (uint32_t q = 0; q < world->processes && number; q++) {
		const struct tables_process *other = &world->process[q];

		if (q == p || other->asked < number || world->server[s].book.is_dropped[q])
			continue;
		if (made[q] < other->part[s].made_at[steps_to(other, number)])
			tables_fail(world,
				    "R-KV-15: process %u pulls %u batches of process %u, step %llu "
				    "has more",
				    p, made[q], q, (unsigned long long)number);
	}
}

void tables_over_judge(struct tables_world *world, uint32_t p, uint32_t s)
{
	const struct tables_process *process = &world->process[p];
	const struct tables_server *server = &world->server[s];
	bool is_latest = world->latest[process->worker] == p + 1;

	if (process->kv->server[s].state == WORKER_KV_UNTOLD) {
		if (world->now_ns < process->left_ns + world->scenario->deadline_ns)
			tables_fail(world, "R-KV-13: process %u gives up too early", p);
		return;
	}
	if (is_latest && !process->part[s].was_ended &&
	    (tables_book_has(&server->disk, process->worker) ||
	     server->disk.process[process->worker] != p + 1))
		tables_fail(world, "R-KV-13: process %u has left, the disk of server %u lacks it",
			    p, s);
}

void tables_fault_judge(struct tables_world *world, uint32_t p, uint32_t s,
			enum worker_kv_fault fault, uint8_t refusal)
{
	const struct tables_process *process = &world->process[p];
	const struct tables_part *part = &process->part[s];
	bool is_latest = world->latest[process->worker] == p + 1;

	tables_trace(world, "process %u: fault %d of server %u, refusal %u", p, (int)fault, s,
		     refusal);
	if (fault == WORKER_KV_UNREACHED &&
	    world->now_ns >= part->answered_ns + world->scenario->deadline_ns)
		return;
	if (fault == WORKER_KV_REFUSED && (refusal == TABLES_NO_DISK || refusal == TABLES_GONE))
		return; /* judged when it was said */
	/* R-KV-13: who leaves has left then. */
	if (fault == WORKER_KV_REFUSED && refusal == WORKER_KV_REFUSED_SUPERSEDED &&
	    !process->left_ns &&
	    (!is_latest || part->was_ended ||
	     (world->scenario->mode == WORKER_KV_SYNC &&
	      !tables_book_has(&world->server[s].disk, process->worker))))
		return;
	tables_fail(world, "process %u: fault %d of server %u, refusal %u: all do what they must",
		    p, (int)fault, s, refusal);
}

/* ---- time ---- */

/* R-KV-12. Until WELCOME says how often it speaks, a server has 5 seconds. */
void tables_lost_judge(struct tables_world *world, uint32_t p, uint32_t s, enum worker_kv_lost lost)
{
	const struct tables_conn *conn = &world->conn[world->process[p].part[s].conn - 1];
	uint64_t most_ns = conn->is_told ? 8 * world->scenario->heartbeat_ns : 5000 * MS;
	uint64_t gap_ns = world->now_ns - conn->near_heard_ns;

	world->report->silences += lost == WORKER_KV_SILENT;
	if (lost == WORKER_KV_UNFIT || lost == WORKER_KV_BUSY)
		tables_fail(world, "process %u takes no message of server %u", p, s);
	if (gap_ns > most_ns + TABLES_LATE_NS || (lost == WORKER_KV_SILENT && gap_ns < most_ns))
		tables_fail(world, "R-KV-12: process %u gives server %u up after %.3f s", p, s,
			    (double)gap_ns / 1e9);
}

/* It tries again within a second: R-KV-17 counts on it. */
void tables_attempt_judge(struct tables_world *world, uint32_t p, uint32_t s)
{
	uint64_t lost_ns = world->process[p].part[s].lost_ns;
	uint64_t gap_ns = world->now_ns - lost_ns;

	if (lost_ns && (gap_ns < 50 * MS || gap_ns > 1000 * MS + TABLES_LATE_NS))
		tables_fail(world, "R-KV-17: process %u tries server %u again after %.3f s", p, s,
			    (double)gap_ns / 1e9);
}

/* ---- the end ---- */

bool tables_waits_in_vain(const struct tables_world *world, uint32_t p)
{
	uint32_t worker = world->process[p].worker;

	for (uint32_t s = 0; s < world->scenario->servers; s++) {
		const struct tables_server *server = &world->server[s];
		const struct tables_book *book = &server->book;

		if (!server->is_up || book->process[worker] != p + 1 ||
		    !server->came[worker].waits_ns)
			continue;
		for (uint32_t i = 0; i < world->scenario->workers; i++)
			if (i != worker && !world->is_awaited[i] && !tables_book_has(book, i) &&
			    book->left[i] && book->left[i] < book->joined[worker] &&
			    tables_process_has_left(world, world->latest[i] - 1))
				return true;
	}
	return false;
}

/* Of all batches that the disk has, as the processes' users have made them. */
static void sums_judge(struct tables_world *world, uint32_t s)
{
	const struct tables_server *server = &world->server[s];
	uint64_t sum = 0, want = 0;

	for (uint32_t i = 0; i < server->durable; i++)
		if (server->record[i].kind == TABLES_IN)
			sum += server->record[i].value;
	for (uint32_t p = 0; p < world->processes; p++) {
		const struct tables_part *part = &world->process[p].part[s];

		for (uint32_t k = 0; k < server->disk.in[p]; k++)
			want += part->value[k];
		tables_freed_judge(world, p, s);
		if (tables_process_has_left(world, p) && server->disk.made[p] != part->made)
			tables_fail(world,
				    "R-KV-9: process %u has made %u batches, server %u has %u", p,
				    part->made, s, server->disk.made[p]);
	}
	if (sum != want)
		tables_fail(world, "R-KV-9: the sums of server %u are not right", s);
}

void tables_end_judge(struct tables_world *world)
{
	for (uint32_t s = 0; s < world->scenario->servers; s++) {
		sums_judge(world, s);
		for (uint16_t i = 0; i < world->scenario->workers; i++)
			if (tables_book_has(&world->server[s].disk, i) ||
			    server_kv_presence(&world->server[s].kv, i) != SERVER_KV_LEFT)
				tables_fail(world, "R-KV-13: worker %u has not left server %u", i,
					    s);
	}
}
