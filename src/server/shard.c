/* SPDX-License-Identifier: Apache-2.0 */
#include "server/shard.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "server/queue.h"
#include "util/thread.h"

enum { WAIT_MS_MAX = 1000, DEAD_WAIT_MS = 20, NS_PER_MS = 1000000, NOTICES = 64 };

struct shard {
	struct link *link;
	struct hook *hook; /* NULL: none */
	struct chip *chip; /* NULL: none */
	uint64_t look_ns;  /* at hook or chip, next */
	struct engine_soft *engine;
	struct queue commands; /* control -> shard */
	struct queue events;   /* shard -> control */
	pthread_t thread;
	int wake_fd;
	uint32_t receive_bytes;
	uint16_t port;
	_Atomic uint64_t memory_used; /* written here, read by control */
};

static void shard_tell(struct shard *shard, const struct shard_event *event)
{
	bool is_in = queue_push(&shard->events, event);

	assert(is_in);
}

/* What the chip says of what has just been asked of it, or is new. NULL: no memory, or there is no chip. */
static char *shard_words(const struct shard *shard)
{
	return shard->chip && shard->chip->error[0] ? strdup(shard->chip->error) : NULL;
}

static void shard_wake_control(struct shard *shard)
{
	uint64_t one = 1;
	/* An eventfd refuses only when it is readable anyway. */
	ssize_t written = write(shard->wake_fd, &one, sizeof(one));

	(void)written;
}

static int shard_execute(struct shard *shard, const struct shard_command *command)
{
	struct engine_sparse *tables = engine_tables(shard->engine);
	int result = 0;

	if ((command->type == SHARD_JOB_ADD || command->type == SHARD_TABLE_ADD) &&
	    engine_fault(shard->engine)) {
		free(command->add);
		free(command->table);
		return engine_fault(shard->engine);
	}
	switch (command->type) {
	case SHARD_TABLE_ADD:
		command->table->engine.nonces =
			(const uint8_t(*)[WIRE_NONCE_BYTES])command->table->nonces;
		result = engine_sparse_add(tables, &command->table->engine);
		explicit_bzero(command->table->nonces, sizeof(command->table->nonces));
		free(command->table);
		break;
	case SHARD_TABLE_REMOVE:
		engine_sparse_remove(tables, command->job);
		break;
	case SHARD_TABLE_BEAT: /* shard_beat's answer, and R-SP-15 */
		if (command->table_generation)
			engine_sparse_name(tables, command->job, command->table_generation);
		break;
	case SHARD_JOB_ADD:
		command->add->engine.nonces =
			(const uint8_t(*)[WIRE_NONCE_BYTES])command->add->nonces;
		result = engine_job_add(shard->engine, command->job, &command->add->engine);
		free(command->add);
		break;
	case SHARD_JOB_SET:
		result = engine_job_set(shard->engine, command->job, command->generation,
					command->lanes, true);
		break;
	case SHARD_JOB_REMOVE:
		engine_job_remove(shard->engine,
				  command->job); /* one that is not there is gone, too */
		break;
	case SHARD_REPORT:
		command->report->stats = *engine_stats(shard->engine);
		command->report->tables = *engine_sparse_stats(tables);
		break;
	case SHARD_STOP:
		break;
	}
	return result;
}

/* What the table's server asks for: it comes through this thread, and so tells of it. */
static void shard_beat(const struct shard *shard, uint16_t index, struct shard_event *event)
{
	const struct switch_sparse *table =
		engine_sparse_state(engine_tables(shard->engine), index);

	event->memory_used = engine_memory_used(shard->engine);
	event->memory_max = engine_memory_max(shard->engine);
	if (!table)
		return;
	event->instance = table->instance;
	event->table_generation = table->generation;
	event->parts = engine_sparse_parts(engine_tables(shard->engine), index);
}

/* Half of the events' queue belongs to acknowledgements, which must not be lost. Two notices alike in
 * one batch are one. */
static bool shard_notices(struct shard *shard)
{
	struct engine_event notices[NOTICES];
	uint32_t count = engine_events(shard->engine, notices, NOTICES);
	bool is_any = false;

	for (uint32_t i = 0; i < count; i++) {
		struct shard_event event = { .type = SHARD_NOTICE,
					     .job = notices[i].job,
					     .notice = notices[i] };

		if (i && notices[i].type == notices[i - 1].type &&
		    notices[i].job == notices[i - 1].job &&
		    notices[i].child == notices[i - 1].child && notices[i].type != ENGINE_REFUSED)
			continue;
		if (queue_room(&shard->events) <= SHARD_EVENTS / 2)
			break;
		if (notices[i].type ==
		    ENGINE_UNWRITTEN) /* the chip's last failure is this one, or like it */
			event.text = shard_words(shard);
		shard_tell(shard, &event);
		is_any = true;
	}
	return is_any;
}

/* False after SHARD_STOP. Notices of a job leave before its removal is acknowledged: an index that is
 * used again gets none of its predecessor's. */
static bool shard_commands(struct shard *shard)
{
	struct shard_command command;

	while (queue_pop(&shard->commands, &command)) {
		struct shard_event event = { .type = SHARD_ACK,
					     .command = command.type,
					     .job = command.job,
					     .generation = command.generation };

		if (command.type == SHARD_STOP)
			return false;
		while (shard_notices(shard))
			;
		if (command.type == SHARD_JOB_REMOVE)
			event.totals = engine_job_stats(shard->engine, command.job);
		if (shard->chip)
			shard->chip->error[0] = '\0';
		event.result = shard_execute(shard, &command);
		if (event.result)
			event.text = shard_words(shard);
		if (command.type == SHARD_TABLE_BEAT)
			shard_beat(shard, command.job, &event);
		atomic_store(&shard->memory_used, engine_memory_used(shard->engine));
		shard_tell(shard, &event);
		shard_wake_control(shard);
	}
	return true;
}

/* The socket is of no use any more. Its jobs must end by name, and no wait on it would wait. */
static void shard_die(struct shard *shard)
{
	struct shard_event event = { .type = SHARD_DEAD, .result = engine_fault(shard->engine) };

	shard_tell(shard, &event);
	shard_wake_control(shard);
	while (shard_commands(shard))
		poll(NULL, 0, DEAD_WAIT_MS);
}

/* Until something comes, or a flush is to be sent again, or an epoch is old enough. */
static void shard_wait(struct shard *shard)
{
	struct link *link = shard->link;
	uint64_t until_ns = link->ops->now_ns(link) + (uint64_t)WAIT_MS_MAX * NS_PER_MS;
	uint64_t due_ns = engine_due(shard->engine);

	link->ops->wait(link, due_ns < until_ns ? due_ns : until_ns);
}

static void shard_look_at_chip(struct shard *shard)
{
	struct shard_event event = { .type = SHARD_CHIP };

	while (queue_room(&shard->events) > SHARD_EVENTS / 2 &&
	       (event.chip = shard->chip->ops->look(shard->chip))) {
		event.text = shard_words(shard);
		shard_tell(shard, &event);
		shard_wake_control(shard);
	}
}

/* Once a second, which is as often as an idle shard comes by. */
static void shard_look(struct shard *shard)
{
	struct shard_event event = { .type = SHARD_HOOK };
	bool is_any = shard->hook || shard->chip;
	uint64_t now_ns = is_any ? shard->link->ops->now_ns(shard->link) : 0;

	if (!is_any || now_ns < shard->look_ns)
		return;
	shard->look_ns = now_ns + (uint64_t)WAIT_MS_MAX * NS_PER_MS;
	if (shard->chip)
		shard_look_at_chip(shard);
	while (shard->hook && queue_room(&shard->events) > SHARD_EVENTS / 2 &&
	       shard->hook->ops->look(shard->hook, &event.hook)) {
		shard_tell(shard, &event);
		shard_wake_control(shard);
	}
}

static void *shard_main(void *arg)
{
	struct shard *shard = arg;

	while (shard_commands(shard)) {
		bool is_busy = engine_poll(shard->engine);

		if (engine_fault(shard->engine)) {
			shard_die(shard);
			break;
		}

		if (shard_notices(shard))
			shard_wake_control(shard);
		shard_look(shard);
		if (!is_busy)
			shard_wait(shard);
	}
	return NULL;
}

static int shard_start(struct shard *shard, uint32_t index)
{
	char name[16];
	int result = thread_create(&shard->thread, shard_main, shard);

	if (result)
		return -result;
	snprintf(name, sizeof(name), "tally-shard%u", index);
	pthread_setname_np(shard->thread, name);
	return 0;
}

static int shard_open_link(struct shard *shard, const struct shard_options *options)
{
	struct link_udp_options udp = {
		.local = options->local,
		.is_v6 = options->is_v6,
		.keeps_via = true,
		.receive_bytes = options->receive_bytes,
		.receive_got = &shard->receive_bytes,
	};

	return link_udp_open(&shard->link, &udp);
}

static void hook_close(const struct shard *shard)
{
	if (shard->hook)
		shard->hook->ops->close(shard->hook);
	if (shard->chip)
		shard->chip->ops->close(shard->chip);
}

/* A chip serves all, so that nothing is left for a kernel; but what the dead have left there goes. */
static int hook_open(struct shard *shard, const struct shard_options *options)
{
	int result = 0;

	if (options->hook_open)
		result = options->hook_open(&shard->hook, options->hook_devices, shard->port,
					    options->hook_error);
	if (!result && options->chip_open)
		result = options->chip_open(&shard->chip, options->chip_address,
					    &shard->link->local, options->chip_error);
	if (result)
		hook_close(shard);
	return result;
}

int shard_open(struct shard **out, const struct shard_options *options)
{
	struct shard *shard = aligned_alloc(QUEUE_LINE_BYTES, sizeof(*shard));
	int result = -ENOMEM;

	if (!shard)
		return -ENOMEM;
	*shard = (struct shard){ .wake_fd = options->wake_fd };
	if (queue_init(&shard->commands, SHARD_COMMANDS, sizeof(struct shard_command)))
		goto free_shard;
	if (queue_init(&shard->events, SHARD_EVENTS, sizeof(struct shard_event)))
		goto fini_commands;
	result = shard_open_link(shard, options);
	if (result)
		goto fini_events;
	shard->port = shard->link->local.port;
	result = hook_open(shard, options);
	if (result)
		goto close_link;
	result = -ENOMEM;
	shard->engine = engine_open(&(struct engine_options){
		.link = shard->link,
		.memory_max = options->memory_max,
		.jobs_max = options->jobs_max,
		.tables_max = SHARD_TABLES_MAX,
		.registers = options->registers,
		.hook = shard->hook,
		.chip = shard->chip,
	});
	if (!shard->engine)
		goto close_hook;
	result = shard_start(shard, options->index);
	if (result)
		goto close_engine;
	*out = shard;
	return 0;
close_engine:
	engine_close(shard->engine);
close_hook:
	hook_close(shard);
close_link:
	shard->link->ops->close(shard->link);
fini_events:
	queue_fini(&shard->events);
fini_commands:
	queue_fini(&shard->commands);
free_shard:
	free(shard);
	return result;
}

/* Words that nobody has heard. */
static void shard_events_free(struct shard *shard)
{
	struct shard_event event;

	while (queue_pop(&shard->events, &event))
		free(event.text);
}

void shard_close(struct shard *shard, struct engine_stats *stats,
		 struct engine_sparse_stats *tables)
{
	struct shard_command command = { .type = SHARD_STOP };

	if (!shard)
		return;
	shard_send(shard, &command);
	pthread_join(shard->thread, NULL);
	if (stats)
		*stats = *engine_stats(shard->engine);
	if (tables)
		*tables = *engine_sparse_stats(engine_tables(shard->engine));
	engine_close(shard->engine);
	hook_close(shard);
	shard->link->ops->close(shard->link);
	shard_events_free(shard);
	queue_fini(&shard->events);
	queue_fini(&shard->commands);
	free(shard);
}

void shard_send(struct shard *shard, const struct shard_command *command)
{
	bool is_in = queue_push(&shard->commands, command);

	assert(is_in); /* control has at most three commands per job under way */
	shard->link->ops->wake(shard->link);
}

bool shard_receive(struct shard *shard, struct shard_event *event)
{
	return queue_pop(&shard->events, event);
}

const struct chip_profile *shard_profile(const struct shard *shard)
{
	return shard->chip ? &shard->chip->profile : NULL;
}

uint16_t shard_port(const struct shard *shard)
{
	return shard->port;
}

uint64_t shard_memory_used(const struct shard *shard)
{
	return atomic_load(&shard->memory_used);
}

uint32_t shard_receive_bytes(const struct shard *shard)
{
	return shard->receive_bytes;
}
