/* SPDX-License-Identifier: Apache-2.0 */
/* admission_said.c - see admission_said.h. */
#include "search/admission_said.h"

#include <stdio.h>
#include <string.h>

enum { OPINFO_OPS = 6 };

struct admission_walk admission_now;

uint32_t admission_draw(uint32_t below)
{
	return rng_below(&admission_now.rng, below);
}

struct admission *admission_shipped(void)
{
	return (struct admission *)(void *)admission_now.memory;
}

/* They follow the members. */
const struct admission_peer *admission_waiters_of(struct admission *admission)
{
	return (const void *)admission_member(admission, admission_now.config.members_max);
}

struct process *admission_whose(uint32_t connection)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (connection && admission_now.process[i].connection == connection)
			return &admission_now.process[i];
	return NULL;
}

static struct person person_of(struct process *process)
{
	struct admission *admission = admission_shipped();
	const struct admission_peer *waiters = admission_waiters_of(admission);

	for (uint32_t rank = 0; rank < RANKS && process->connection; rank++) {
		const struct admission_member *member = admission_member(admission, rank);

		if (member->peer.connection == process->connection)
			return (struct person){ process, &member->peer, member };
	}
	for (uint32_t i = 0; i < WAITERS && process->connection; i++)
		if (waiters[i].connection == process->connection)
			return (struct person){ process, &waiters[i], NULL };
	return (struct person){ 0 };
}

struct person admission_somebody(bool (*is_wanted)(const struct person *person))
{
	uint32_t at = admission_draw(PLACES);

	for (uint32_t i = 0; i < PLACES; i++) {
		struct person person = person_of(&admission_now.process[(at + i) % PLACES]);

		if (person.process && (!is_wanted || is_wanted(&person)))
			return person;
	}
	return (struct person){ 0 };
}

bool admission_is_ready(const struct person *person)
{
	return person->member && person->member->presence == ADMISSION_READY &&
	       !person->process->is_told;
}

static bool is_absent(uint32_t rank)
{
	return rank >= RANKS ||
	       admission_member(admission_shipped(), rank)->presence == ADMISSION_ABSENT;
}

static void be_odd(struct control_join *join, uint32_t odd)
{
	uint32_t beyond = join->size ? 65535u / join->size + admission_draw(2) : 0;

	switch (odd) {
	case 0:
		join->size = (uint16_t)(admission_draw(2) * 256 + admission_draw(RANKS + 3));
		break;
	case 1:
		join->rank = (uint16_t)admission_draw(admission_draw(2) ? 70 : 600);
		break;
	case 2:
		join->list_hash = (uint64_t)1 << admission_draw(64);
		if (admission_draw(2))
			snprintf(join->list, sizeof(join->list), "l%llu",
				 (unsigned long long)join->list_hash);
		break;
	case 3:
		join->mode = CONTROL_LATENCY;
		break;
	case 4:
		join->version_min = join->version_max =
			(uint16_t)(CONTROL_VERSION + 1 + 256 * admission_draw(2));
		break;
	case 5:
		join->workers = admission_draw(2) ? beyond : 1 + admission_draw(140000);
		break;
	case 6:
		join->latency_slots = 1u << admission_draw(17);
		break;
	case 7:
		join->latency_window = 1u << admission_draw(17);
		break;
	case 8:
		join->version_max = CONTROL_VERSION + 1;
		break;
	case 9:
		join->version_min = 0;
		join->version_max = (uint16_t)admission_draw(CONTROL_VERSION + 1);
		break;
	case 11:
		strcpy(join->key, "no key");
		break;
	default: /* 10 has none, see there */
		break;
	}
}

/* In every other walk names are a launcher's, mostly; some ranks are on one host. */
static void be_launched(struct control_join *join)
{
	join->boot = admission_draw(3);
	join->process = admission_draw(admission_draw(4) ? 1000 : 3);
	join->local_size = (uint16_t)(admission_draw(12) ? 0 : 1 + admission_draw(join->size));
	join->is_launched = admission_now.walk % 2 && admission_draw(8);
	if (join->is_launched)
		join->program = 1 + admission_draw(2);
}

struct control_join admission_join(void)
{
	bool is_crowd = admission_now.mood == MOOD_CROWD;
	struct control_join join = { .version_min = CONTROL_VERSION,
				     .version_max = CONTROL_VERSION,
				     .workers = 1,
				     .job = "j" };
	uint32_t odd = admission_now.mood == MOOD_ODD ? admission_draw(12) : admission_draw(200);

	join.size = (uint16_t)(admission_shipped()->size
				       ? admission_shipped()->size
				       : 1 + (admission_now.walk / 3 + admission_draw(2)) % RANKS);
	join.rank = (uint16_t)admission_draw(join.size);
	for (uint32_t i = 0; i < join.size && !is_crowd && !is_absent(join.rank); i++)
		join.rank = (uint16_t)((join.rank + 1u) % join.size);
	join.pid = rng_u32(&admission_now.rng) >> admission_draw(32);
	snprintf(join.host, sizeof(join.host), "<%u>", ++admission_now.hosts % 64);
	if (admission_now.config.key && odd != 10)
		strcpy(join.key, "a key");
	if (admission_now.mood == MOOD_SLOW && !admission_draw(3))
		join.timeout_ms = 1000 + admission_draw(admission_draw(2) ? 20000 : 80000);
	if (!admission_draw(20))
		join.workers = 1 + admission_draw(20000);
	be_launched(&join);
	be_odd(&join, odd);
	return join;
}

/* What number `number` is in this program: in MOOD_CALLS some numbers are called otherwise, and who has
 * one program calls the same. */
static struct control_op op_of(uint32_t program, uint64_t number)
{
	struct control_op op = { .number = admission_now.first + number, .count = 1 + number };
	bool is_plot = admission_now.mood == MOOD_PLOT && admission_now.plot <= PLOT_CHANGE;
	struct rng rng;

	/* What all call alike is of any kind, too. */
	rng_init(&rng, admission_now.walk, number);
	op.kind = rng_below(&rng, 11);
	op.type = rng_below(&rng, 12);
	op.op = rng_below(&rng, 13);
	op.root = rng_below(&rng, 2) * rng_u32(&rng);
	if (!rng_below(&rng, 4))
		op.type |= 3u << 8 | rng_below(&rng, 256) << 16; /* R-NUM-16 */
	rng_init(&rng, program + 8 * admission_now.walk, number);
	if (!program || (is_plot ? number != admission_now.plot_number
				 : admission_now.mood != MOOD_CALLS || rng_below(&rng, 5)))
		return op;
	switch (rng_below(&rng, 7)) {
	case 0:
		op.kind ^= 1u << rng_below(&rng, 32);
		break;
	case 1:
		op.type ^= 1u << rng_below(&rng, 32);
		break;
	case 2:
		op.op ^= 1u << rng_below(&rng, 32);
		break;
	case 3:
		op.root ^= 1u << rng_below(&rng, 32);
		break;
	case 4:
		op.stream = 1;
		break;
	case 5:
		op.name[0] = 'x';
		break;
	default:
		op.count ^= (uint64_t)1 << rng_below(&rng, 64);
		break;
	}
	return op;
}

/* What a process has called, and completed, goes on a little each time it is asked. */
static void goes_on(struct process *process, bool is_calls)
{
	if (!admission_draw(3))
		process->submitted += admission_draw(4);
	if (!admission_draw(is_calls ? 20 : 4) && process->oldest < process->submitted)
		process->oldest +=
			1 + admission_draw((uint32_t)(process->submitted - process->oldest));
	if (!admission_draw(is_calls ? 100 : 25))
		process->submitted = admission_draw((uint32_t)process->submitted + 1);
	if (process->oldest > process->submitted)
		process->oldest = process->submitted;
}

struct control_opinfo admission_opinfo(struct process *process)
{
	static struct control_op ops[OPINFO_OPS];
	struct control_opinfo info = { .round = admission_shipped()->round, .ops = ops };
	bool is_plot = admission_now.mood == MOOD_PLOT && admission_draw(30);
	bool is_calls = admission_now.mood >= MOOD_CALLS && admission_now.mood != MOOD_SLOW;
	/* Of so many one is complete before its turn, or has no room in the answer. */
	uint32_t gap = is_plot && admission_now.plot == PLOT_DEADLINE ? 4 : is_calls ? 40 : 6;
	uint64_t number = admission_shipped()->page.from;

	if (!is_plot)
		goes_on(process, is_calls);
	number -= number > admission_now.first ? admission_now.first : number;
	info.submitted = admission_now.first + process->submitted;
	info.oldest = admission_now.first + process->oldest;
	if (number < process->oldest)
		number = process->oldest;
	for (; number < process->submitted; number++) {
		if (number > process->oldest && !admission_draw(gap))
			continue;
		if (info.ops_count == OPINFO_OPS || (info.ops_count && !admission_draw(gap))) {
			info.has_more = 1;
			break;
		}
		ops[info.ops_count++] = op_of(process->program, number);
	}
	if (!admission_draw(is_plot ? 40 : 10))
		info.round--;
	return info;
}

static enum control_type drawn_type(const struct person *person)
{
	static const enum control_type types[] = {
		CONTROL_READY, CONTROL_LEAVE, CONTROL_ABORT,     CONTROL_STALL, CONTROL_OPINFO,
		CONTROL_PONG,  CONTROL_PING,  CONTROL_HEARTBEAT, CONTROL_GRANT
	};
	bool is_slow = admission_now.mood == MOOD_SLOW || admission_now.mood == MOOD_CALLS;
	enum admission_state state = admission_shipped()->state;

	if (!admission_draw(admission_now.mood == MOOD_ODD     ? 4
			    : admission_now.mood == MOOD_CALLS ? 100
							       : 25))
		return types[admission_draw(sizeof(types) / sizeof(types[0]))];
	if (person->peer->pulse == ADMISSION_ASKED && admission_draw(2))
		return CONTROL_PONG;
	if (person->member && person->member->presence == ADMISSION_JOINED &&
	    state == ADMISSION_GRANTED)
		return CONTROL_READY;
	if (state != ADMISSION_STARTED || !admission_is_ready(person))
		return admission_draw(8) ? CONTROL_HEARTBEAT : CONTROL_PING;
	if (admission_shipped()->query != ADMISSION_QUIET && !person->member->has_answered &&
	    admission_draw(5))
		return CONTROL_OPINFO;
	return admission_draw(is_slow ? 40 : 4) ? CONTROL_STALL : CONTROL_LEAVE;
}

struct control_message admission_said(const struct person *person)
{
	struct process *process = person->process;
	struct control_message message = { .type = drawn_type(person) };

	switch (message.type) {
	case CONTROL_READY:
		message.lanes.lanes =
			(uint16_t)(4 + admission_draw(admission_draw(2) ? 100 : 4000) * 4 +
				   !admission_draw(9));
		break;
	case CONTROL_ABORT:
		message.end.cause = (uint16_t)(1 + admission_draw(CONTROL_CAUSE_END - 1));
		message.end.rank = (uint16_t)admission_draw(4);
		strcpy(message.end.text, admission_draw(3) ? "why" : "");
		break;
	case CONTROL_LEAVE:
		message.leave.submitted = admission_now.first + process->submitted;
		break;
	case CONTROL_STALL:
		message.stall.number = admission_now.first +
				       (admission_draw(3) ? process->oldest : admission_draw(6));
		message.stall.waited_ms = 500 + admission_draw(admission_draw(2) ? 20000 : 2000000);
		message.stall.still_ms = admission_draw(4) ? UINT32_MAX : admission_draw(10000);
		message.stall.is_expired = !admission_draw(admission_now.mood == MOOD_SLOW ? 4 : 8);
		if (message.stall.is_expired &&
		    admission_draw(2)) /* of one that is complete there by now */
			message.stall.number =
				admission_now.first + admission_draw((uint32_t)process->oldest + 1);
		break;
	case CONTROL_OPINFO:
		message.opinfo = admission_opinfo(process);
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message.ping.serial = person->peer->ping - !admission_draw(8);
		break;
	default:
		break;
	}
	return message;
}
