/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands_fixture.h - for tests of what becomes of that which a job's admission decides: admission, shards and peers are the
 * test's. Included once in a program; meson.build names what it wraps.
 */
#ifndef SERVER_COMMANDS_FIXTURE_H
#define SERVER_COMMANDS_FIXTURE_H

#include "server/inside_fixture.h"

enum { STEPS_MAX = 16, SENT_MAX = 16, SHARDS = 3, STOCK = 2304 * 2, NEVER = -1 };

/* What the test's admission says, one step after the other; then nothing. */
static struct step {
	struct admission_action list[4];
	uint32_t count;
	enum admission_log level;
	uint16_t log_rank, cause;
	const char *log, *text;
	bool again, ends;
	uint64_t wake_ns;
} steps[STEPS_MAX];

static struct {
	uint32_t steps;
	struct admission_event event[STEPS_MAX];
	const struct admission *admission[STEPS_MAX];
	char text[STEPS_MAX][CONTROL_TEXT_BYTES];

	uint32_t commands;
	struct shard_command command[SENT_MAX];
	const struct shard *to[SENT_MAX];

	uint32_t messages, last_words;
	struct control_message message[SENT_MAX];
	const struct peer *peer, *leaving;

	uint32_t asked, asked_round, chains; /* crossed.c's */

	int allocations_left; /* before there is no memory; NEVER: there always is */
	int blocks;           /* of shard_job, not given back */
} seen;

static uint32_t receive_bytes[SHARDS];

void __wrap_admission_step(struct admission *admission, const struct admission_config *config,
			   const struct admission_event *event, struct admission_actions *actions);
void __wrap_admission_message(const struct admission *admission,
			      const struct admission_config *config,
			      const struct admission_actions *actions,
			      const struct admission_action *action,
			      struct control_message *message);
void __wrap_shard_send(struct shard *shard, const struct shard_command *command);
uint16_t __wrap_shard_port(const struct shard *shard);
uint32_t __wrap_shard_receive_bytes(const struct shard *shard);
const struct chip_profile *__wrap_shard_profile(const struct shard *shard);
void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message);
void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns);
void __wrap_crossed_asked(struct job *job, const struct admission_action *query, uint64_t now_ns);
void __wrap_crossed_chain_add(struct server *server, const struct job *job, uint64_t now_ns,
			      struct control_waiting *waiting);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_admission_step(struct admission *admission, const struct admission_config *config,
			   const struct admission_event *event, struct admission_actions *actions)
{
	const struct step *step = &steps[seen.steps];

	(void)config;
	assert_true(seen.steps < STEPS_MAX);
	seen.admission[seen.steps] = admission;
	seen.event[seen.steps] = *event;
	snprintf(seen.text[seen.steps++], CONTROL_TEXT_BYTES, "%s", event->text ? event->text : "");
	memset(actions, 0, sizeof(*actions));
	actions->list = (struct admission_action *)(uintptr_t)step->list;
	actions->count = step->count;
	actions->again = step->again;
	actions->cause = step->cause;
	actions->wake_ns = step->wake_ns;
	actions->log_level = step->level;
	actions->log_rank = step->log_rank;
	snprintf(actions->log, sizeof(actions->log), "%s", step->log ? step->log : "");
	snprintf(actions->text, sizeof(actions->text), "%s", step->text ? step->text : "");
	if (step->ends)
		admission->state = ADMISSION_NONE;
}

void __wrap_admission_message(const struct admission *admission,
			      const struct admission_config *config,
			      const struct admission_actions *actions,
			      const struct admission_action *action,
			      struct control_message *message)
{
	(void)admission, (void)config, (void)actions;
	message->type = (enum control_type)action->message;
}

static struct chip_profile profile_of_test = { .children = 32, .lanes = 32, .slots = 8192 };

const struct chip_profile *__wrap_shard_profile(const struct shard *shard)
{
	assert_ptr_equal(shard, test.server.shards[0]);
	return &profile_of_test;
}

static struct shard *shard_of(uint32_t k)
{
	return (struct shard *)(void *)&receive_bytes[k];
}

void __wrap_shard_send(struct shard *shard, const struct shard_command *command)
{
	assert_true(seen.commands < SENT_MAX);
	seen.to[seen.commands] = shard;
	seen.command[seen.commands++] = *command;
}

uint16_t __wrap_shard_port(const struct shard *shard)
{
	return (uint16_t)(7172 + ((const uint32_t *)(const void *)shard - receive_bytes));
}

uint32_t __wrap_shard_receive_bytes(const struct shard *shard)
{
	return *(const uint32_t *)(const void *)shard;
}

void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message)
{
	assert_ptr_equal(server, &test.server);
	assert_true(seen.messages < SENT_MAX);
	seen.peer = peer;
	seen.message[seen.messages++] = *message;
}

void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_true(now_ns > 0);
	seen.leaving = peer;
	seen.last_words++;
}

void __wrap_crossed_chain_add(struct server *server, const struct job *job, uint64_t now_ns,
			      struct control_waiting *waiting)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(waiting, &job->actions.waiting);
	assert_int_equal(seen.messages, 0); /* it is said in them */
	assert_true(now_ns > 0);
	seen.chains++;
}

void __wrap_crossed_asked(struct job *job, const struct admission_action *query, uint64_t now_ns)
{
	assert_ptr_equal(job->admission, seen.admission[seen.steps - 1]);
	assert_true(now_ns > 0);
	seen.asked++;
	seen.asked_round = query->number;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (bytes != sizeof(struct shard_job))
		return __real_calloc(count, bytes);
	if (!seen.allocations_left)
		return NULL;
	seen.allocations_left--;
	seen.blocks++;
	return __real_calloc(count, bytes);
}

void __wrap_free(void *block)
{
	seen.blocks -= block && seen.allocations_left != NEVER;
	__real_free(block);
}

/* ---- a job of two ranks on three shards, of which the second has the smallest receive buffer ---- */

enum { JOB = 2, PEER = 5 };

static int setup(void **state)
{
	struct job *job;

	if (inside_setup(state))
		return -1;
	memset(&seen, 0, sizeof(seen));
	memset(steps, 0, sizeof(steps));
	seen.allocations_left = NEVER;
	receive_bytes[0] = 4000 * STOCK;
	receive_bytes[1] = 50 * STOCK;
	receive_bytes[2] = 60 * STOCK;
	for (uint32_t k = 0; k < SHARDS; k++)
		test.server.shards[k] = shard_of(k);
	test.server.options.shards = SHARDS;
	test.server.options.share = 100;
	job = inside_job(JOB, "train", ADMISSION_GATHER, 2);
	job->config.shards = SHARDS;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct admission_peer *peer =
			&inside_member(job, rank, ADMISSION_JOINED, rank ? "beta" : "alpha")->peer;

		peer->connection = PEERS_MAX + PEER + rank;
		memset(peer->nonce, (int)(0x50 + rank), sizeof(peer->nonce));
		test.peers[PEER + rank] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
							 .handle = PEERS_MAX + PEER + rank,
							 .job = JOB,
							 .mtu = 1500 };
	}
	return 0;
}

static int teardown(void **state)
{
	for (uint32_t i = 0; i < seen.commands; i++)
		free(seen.command[i].add);
	for (uint32_t i = 0; i < JOBS; i++)
		crossed_end(&test.job[i]);
	return inside_teardown(state);
}

static struct job *job_of_test(void)
{
	return &test.job[JOB];
}

static void step(void)
{
	job_step(&test.server, job_of_test(), &(struct admission_event){ .type = ADMISSION_TICK });
}

/* One step, in which admission wants the job added. */
static void add(void)
{
	steps[0].list[0] = (struct admission_action){ .type = ADMISSION_COMMAND,
						      .command = ADMISSION_JOB_ADD,
						      .generation = 4711 };
	steps[0].count = 1;
	test.server.generation = 4711;
	step();
}

#endif
