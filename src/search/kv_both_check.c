/* SPDX-License-Identifier: Apache-2.0 */
/* kv_both_check.c - a second reading of R-KV-6, R-KV-9, R-KV-11, R-KV-13 and R-KV-16 for kv_both.h, by what processes have
 * said and the records say. */
#include "search/kv_both_world.h"

const char *both_wrong;

static bool is_member(const struct both_book *book, uint16_t worker)
{
	return book->joined[worker] > book->left[worker];
}

static void leaves(struct both_book *book, uint16_t worker)
{
	if (is_member(book, worker))
		book->left[worker] = ++book->moves;
}

void both_book_take(struct both_book *book, const struct both_record *record)
{
	uint16_t worker = both_worker_of(record->process);

	switch ((enum both_kind)record->kind) {
	case BOTH_JOINED:
		book->joined[worker] = ++book->moves;
		book->incarnation[worker] = (uint8_t)both_incarnation_of(record->process);
		book->fences = record->number;
		break;
	case BOTH_IN:
		book->in[record->process] = record->number;
		book->staged++;
		break;
	case BOTH_LEFT:
		leaves(book, worker);
		break;
	case BOTH_PASSED:
		book->barrier = record->number;
		book->staged = 0;
		break;
	case BOTH_VOIDED:
		book->staged = 0;
		for (uint16_t i = 0; i < BOTH_WORKERS; i++)
			leaves(book, i);
		break;
	}
}

static uint64_t came(const struct both_world *world, uint32_t p)
{
	return both_kv(&world->process[p])->server->barrier_said;
}

/* R-KV-11, as seen from above: has everybody come for whom this worker waits? */
static bool is_due(const struct both_world *world, uint16_t waits, uint64_t number)
{
	const struct both_book *book = &world->book;

	if (!world->its[waits])
		return false;
	for (uint16_t i = 0; i < world->workers; i++) {
		bool has_come = book->incarnation[i] &&
				came(world, both_process_of(i, book->incarnation[i])) >= number;
		bool has_left = !is_member(book, i) && book->left[i] > book->joined[waits];

		if (!has_come && (i == waits || !has_left))
			return false;
	}
	return true;
}

void both_book_judge(const struct both_world *world, const struct both_record *record)
{
	const struct both_book *book = &world->book;
	uint16_t worker = both_worker_of(record->process);
	uint64_t incarnation = both_incarnation_of(record->process);
	const struct worker_kv *kv = both_kv(&world->process[record->process]);

	switch ((enum both_kind)record->kind) {
	case BOTH_JOINED:
		BOTH_CHECK(incarnation > book->incarnation[worker],
			   "R-KV-6: an incarnation joins twice");
		break;
	case BOTH_IN:
		BOTH_CHECK(incarnation == book->incarnation[worker],
			   "R-KV-6: a batch of an incarnation that was replaced");
		BOTH_CHECK(record->number == book->in[record->process] + 1 &&
				   record->number < kv->server->batch_next,
			   "R-KV-9: a batch is in twice, or out of order");
		BOTH_CHECK(!world->kv.is_sync || is_member(book, worker),
			   "R-KV-16: a batch of a run that is over");
		break;
	case BOTH_LEFT:
		BOTH_CHECK(kv->leave_ns, "R-KV-13: it has left, and has not said so");
		break;
	case BOTH_PASSED:
		BOTH_CHECK(record->number > book->barrier, "R-KV-11: a barrier is passed twice");
		BOTH_CHECK(is_due(world, 0, record->number) || is_due(world, 1, record->number),
			   "R-KV-11: a barrier is passed before all have come");
		break;
	case BOTH_VOIDED:
		BOTH_CHECK(world->kv.is_sync, "R-KV-16: a table without steps drops one");
		BOTH_CHECK(book->staged || world->process[2].is_begun,
			   "R-KV-16: a step of nothing is dropped");
		break;
	}
}

void both_served_judge(const struct both_world *world, const struct both_conn *conn)
{
	BOTH_CHECK(world->its[conn->worker] && &world->conn[world->its[conn->worker] - 1] == conn &&
			   world->book.incarnation[conn->worker] == conn->incarnation,
		   "R-KV-6: an answer to an incarnation that was replaced");
}

/* Another process is this worker, or has ended the run. */
static bool is_over(const struct both_world *world, uint32_t p)
{
	return world->process[2].is_begun && (p == 0 || (p == 1 && world->kv.is_sync));
}

void both_passed_judge(const struct both_world *world, uint32_t p)
{
	uint64_t number = both_kv(&world->process[p])->server->barrier_done;

	BOTH_CHECK(number <= came(world, p), "R-KV-11: an answer to a barrier that was not said");
	BOTH_CHECK(number <= world->disk.barrier,
		   "R-KV-11: a barrier that the disk does not have is answered");
}

void both_over_judge(const struct both_world *world, uint32_t p)
{
	uint16_t worker = both_worker_of(p);

	BOTH_CHECK(is_over(world, p) ||
			   (world->disk.incarnation[worker] == both_incarnation_of(p) &&
			    !is_member(&world->disk, worker)),
		   "R-KV-13: it believes that it has left, and the disk does not have it");
}

void both_fault_judge(const struct both_world *world, uint32_t p, enum worker_kv_fault fault,
		      uint8_t refusal)
{
	BOTH_CHECK(fault == WORKER_KV_REFUSED && refusal == WORKER_KV_REFUSED_SUPERSEDED &&
			   is_over(world, p),
		   "a table ends, though all do what they must");
}

const char *both_world_judge(const struct kv_both_config *config, const struct both_world *world)
{
	(void)config;
	for (uint32_t p = 0; p < BOTH_PROCESSES; p++) {
		const struct worker_kv_server *server = both_kv(&world->process[p])->server;

		if (!world->process[p].is_begun)
			continue;
		if (server->batch_done > world->disk.in[p])
			return "R-KV-9: a batch is forgotten that the disk does not have";
		if (server->barrier_done > world->disk.barrier)
			return "R-KV-11: a barrier that the disk does not have was answered";
	}
	for (uint16_t i = 0; i < world->workers; i++)
		if (is_member(&world->book, i) != (world->worker[i].joined > world->worker[i].left))
			return "R-KV-13: who is a member is not what the records say";
	return world->kv.barrier == world->book.barrier
		       ? NULL
		       : "R-KV-11: the last barrier is not what the records say";
}

/* Nobody comes any more who could end its wait. */
static bool waits_in_vain(const struct both_world *world, uint32_t p)
{
	const struct worker_kv_server *server = both_kv(&world->process[p])->server;
	uint16_t worker = both_worker_of(p), other = !worker;
	const struct both_process *last = &world->process[other                        ? 1
							  : world->process[2].is_begun ? 2
										       : 0];

	if (world->workers == 1 || !worker_kv_is_up(server) ||
	    server->barrier_said == server->barrier_done)
		return false;
	if (last->is_dead || both_kv(last)->server->state == WORKER_KV_BROKEN)
		return true;
	return !is_member(&world->book, other) &&
	       world->book.left[other] < world->book.joined[worker];
}

bool both_may_rest(const struct both_world *world)
{
	for (uint32_t p = 0; p < BOTH_PROCESSES; p++) {
		const struct both_process *process = &world->process[p];

		if (process->is_begun && !process->is_dead &&
		    !worker_kv_is_over(both_kv(process)->server) && !waits_in_vain(world, p))
			return false;
	}
	return true;
}
