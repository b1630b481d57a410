/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

enum { MTU_UNKNOWN = 1500 };

static uint64_t program_of(const struct control_join *join)
{
	return join->life ? 0 : join->program;
}

/* A name of the user's (program 0) is one job, and no launcher's is a part of it. */
bool job_gathers(const struct job *job, const char *name)
{
	return job && !job->life && job->program && job->admission->state == ADMISSION_GATHER &&
	       !strcmp(job->name, name);
}

/* R-CT-24: so many programs of a name gather apart. One more gathers with the last, if nobody is `launched`: they are one
 * for each rank. *is_refused: somebody is. NULL: there are not so many, or it is refused. */
static struct job *gathering_of_many(struct server *server, const struct control_join *join,
				     bool *is_refused)
{
	bool is_launched = join->is_launched;
	struct job *last = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job_gathers(job, join->job))
			continue;
		count++;
		last = job;
		for (uint32_t rank = 0; rank < job->admission->size; rank++) {
			const struct admission_member *member =
				admission_member(job->admission, rank);

			is_launched |= member->presence != ADMISSION_ABSENT &&
				       member->peer.is_launched;
		}
	}
	*is_refused = count >= PROGRAMS_MAX && is_launched;
	return count < PROGRAMS_MAX || is_launched ? NULL : last;
}

/* A program may have become part of another's job (R-CT-24): where one of it is it belongs. */
struct job *job_find(struct server *server, const struct control_join *join, bool *is_refused)
{
	uint64_t program = program_of(join);
	struct job *found = NULL;

	*is_refused = false;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job || strcmp(job->name, join->job) != 0 || job->life != join->life)
			continue;
		if (program && admission_has_program(job->admission, program))
			return job;
		if (job->program == program)
			found = job;
	}
	return found || !program ? found : gathering_of_many(server, join, is_refused);
}

const char *job_end_of_life(const struct server *server, uint64_t life)
{
	for (uint32_t i = 0; life && i < server->options.jobs_max; i++)
		if (server->jobs[i] && server->jobs[i]->ended_life == life)
			return server->jobs[i]->ended_text;
	return NULL;
}

/* A free index, or that of the name that has been idle for longest. */
static int job_index(struct server *server)
{
	struct job *oldest = NULL;
	int index;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job)
			return (int)i;
		if (job->idle_ns && (!oldest || job->idle_ns < oldest->idle_ns))
			oldest = job;
	}
	if (!oldest)
		return NO_JOB;
	index = oldest->index;
	job_close(server, oldest);
	return index;
}

/* What may change while it is there. */
static void job_configure_again(const struct server *server, struct job *job)
{
	job->config.key = server->key[0] ? server->key : NULL;
	job->config.gather_ns = server->options.gather_ms * MS_NS;
}

static void job_configure(const struct server *server, struct job *job)
{
	job->config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	job->config.job = job->name;
	job->config.life = job->life;
	job->config.shards = (uint16_t)server->options.shards;
	job->config.heartbeat_ns = server->options.heartbeat_ms * MS_NS;
	job_configure_again(server, job);
}

void jobs_configure(struct server *server)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		if (server->jobs[i])
			job_configure_again(server, server->jobs[i]);
}

static void job_free(struct job *job)
{
	crossed_end(job);
	free(job->admission);
	free(job->actions.list);
	free(job->actions.members);
	free(job);
}

int job_open(struct server *server, const struct control_join *join, uint64_t source,
	     struct job **out)
{
	int index = job_index(server);
	struct job *job;
	uint32_t actions;

	if (index == NO_JOB)
		return -ENOSPC;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	snprintf(job->name, sizeof(job->name), "%s", join->job);
	job->life = join->life;
	job->program = program_of(join);
	job->source = source;
	job->index = (uint16_t)index;
	job_configure(server, job);
	actions = admission_actions_max(&job->config);
	job->admission = calloc(1, admission_bytes(&job->config));
	job->actions.list = calloc(actions, sizeof(*job->actions.list));
	job->actions.list_max = actions;
	job->actions.members = calloc(job->config.members_max, sizeof(*job->actions.members));
	if (!job->admission || !job->actions.list || !job->actions.members) {
		job_free(job);
		return -ENOMEM;
	}
	admission_init(job->admission, &job->config);
	job->wake_ns = UINT64_MAX;
	server->jobs[index] = job;
	*out = job;
	return 0;
}

void job_close(struct server *server, struct job *job)
{
	for (uint32_t i = 0; i < PEERS_MAX; i++)
		if (server->peers[i].conn && server->peers[i].job == job->index)
			server->peers[i].job = NO_JOB; /* denied, in its last words */
	server->jobs[job->index] = NULL;
	job_free(job);
}

/* The smallest, and whose it is. */
static uint32_t job_mtu(struct server *server, struct job *job, uint16_t *narrowest)
{
	uint32_t mtu = UINT32_MAX;

	for (uint32_t rank = 0; rank < job->admission->size; rank++) {
		struct admission_member *member = admission_member(job->admission, rank);
		const struct peer *peer = peer_of(server, member->peer.connection);
		uint32_t its = peer && peer->mtu ? peer->mtu : (uint32_t)MTU_UNKNOWN;

		if (its >= mtu)
			continue;
		mtu = its;
		*narrowest = (uint16_t)rank;
	}
	return mtu;
}

static bool job_plan(struct server *server, struct job *job)
{
	uint16_t narrowest;
	struct plan_input input = {
		.members = job->admission->size,
		.mtu = job_mtu(server, job, &narrowest),
		.is_v6 = server->options.is_v6,
		.lanes_max = server->options.lanes_max,
		.slots = server->options.slots,
		.window = server->options.window,
		.run = server->options.run,
		.receive_bytes = shard_receive_bytes(server->shards[0]),
		.memory_max = server->options.memory_max,
	};

	for (uint32_t k = 1; k < server->options.shards; k++)
		if (shard_receive_bytes(server->shards[k]) < input.receive_bytes)
			input.receive_bytes = shard_receive_bytes(server->shards[k]);
	if (server->options.chip_open) {
		if (chip_wrong(server, job))
			return false;
		chip_plan(server, &input);
	}
	if (job->admission->mode != CONTROL_LATENCY)
		return plan_job(&input, &job->plan);
	if (server->options.hook_devices && (!input.lanes_max || input.lanes_max > HOOK_LANES_MAX))
		input.lanes_max = HOOK_LANES_MAX; /* or the kernel could not take it */
	return plan_latency(&input, job->admission->latency_slots, job->admission->latency_window,
			    &job->plan);
}

static struct shard_job *job_for_shard(const struct job *job)
{
	struct shard_job *add = calloc(1, sizeof(*add));

	if (!add)
		return NULL;
	add->engine = (struct engine_job){
		.generation = job->generation,
		.children = job->admission->size,
		.slots = job->plan.slots,
		.lanes_max = (uint16_t)job->plan.lanes,
	};
	if (job->admission->mode == CONTROL_LATENCY)
		add->engine.mode = (uint8_t)switch_latency_mode(job->admission->latency_slots,
								job->admission->latency_window);
	for (uint32_t rank = 0; rank < job->admission->size; rank++)
		memcpy(add->nonces[rank], admission_nonce(job->admission, rank), WIRE_NONCE_BYTES);
	return add;
}

/* Why job_plan found nothing: a path that is too narrow, or too little memory. */
static void plan_refusal(struct server *server, struct job *job)
{
	unsigned long long memory_kib = server->options.memory_max >> 10;
	uint32_t mtu = job_mtu(server, job, &job->refused_rank);
	struct text text;

	text_begin(&text, job->refusal, sizeof(job->refusal));
	job->is_path_refused = mtu < PLAN_MTU_MIN;
	if (server->options.chip_open && chip_wrong(server, job))
		chip_refusal(server, job, &text);
	else if (job->is_path_refused)
		text_add(&text,
			 "rank %u on %s: the MTU of its path to the aggregator is %u bytes, and "
			 "must "
			 "be %u or more",
			 job->refused_rank,
			 admission_member(job->admission, job->refused_rank)->peer.host, mtu,
			 (unsigned)PLAN_MTU_MIN);
	else if (job->admission->mode == CONTROL_LATENCY)
		text_add(
			&text,
			"%u slots (latency_slots) do not fit into %llu KiB (--memory), not even of "
			"%u lanes",
			job->admission->latency_slots, memory_kib, (unsigned)WIRE_LANES_STEP);
	else
		text_add(
			&text,
			"slots for packets as large as the members' MTU of %u bytes allows do not "
			"fit into %llu KiB (--memory): raise it, or cap packets (--lanes %u to %u)",
			mtu, memory_kib, (unsigned)WIRE_LANES_STEP, (unsigned)WIRE_LANES_MAX);
	server_say_job(server, SERVER_ERROR, job->name,
		       job->is_path_refused ? job->refused_rank : SERVER_RANK_NONE, "job %s: %s",
		       job->name, job->refusal);
}

/* What the job takes on each of its shards; false: its address has its share by now. */
static bool job_has_room(struct server *server, struct job *job)
{
	uint64_t bytes = engine_slot_bytes(job->admission->mode == CONTROL_LATENCY
						   ? SWITCH_LATENCY_ACKNOWLEDGED
						   : SWITCH_DENSE,
					   job->plan.lanes) *
			 job->plan.slots;
	struct text text;

	text_begin(&text, job->refusal, sizeof(job->refusal));
	for (uint32_t k = 0; k < job->config.shards; k++) {
		if (share_of_memory(server, job->source, k, bytes, &text))
			continue;
		server_say_job(server, SERVER_ERROR, job->name, SERVER_RANK_NONE, "job %s: %s",
			       job->name, job->refusal);
		return false;
	}
	job->bytes = bytes;
	return true;
}

/* No shard hears of a job that cannot be planned, or whose description no memory was left for. */
static void job_add(struct server *server, struct job *job, uint32_t generation)
{
	struct shard_job *adds[SERVER_SHARDS_MAX];

	assert(generation == server->generation);
	crossed_begin(job);
	server->generation = generation_draw(&server->generations);
	job->generation = generation;
	/* R-LAT: one shard, the first; all shards do what is dense. */
	job->config.shards =
		job->admission->mode == CONTROL_LATENCY ? 1 : (uint16_t)server->options.shards;
	job->is_refused = true;
	job->is_path_refused = false;
	if (!job_plan(server, job)) {
		plan_refusal(server, job);
		return;
	}
	if (!job_has_room(server, job))
		return;
	strcpy(job->refusal, "out of memory");
	/* From here on START and the shards agree on what is the most. */
	job->config.lanes_max = (uint16_t)job->plan.lanes;
	for (uint32_t k = 0; k < job->config.shards; k++) {
		adds[k] = job_for_shard(job);
		if (!adds[k]) {
			while (k--)
				free(adds[k]);
			return;
		}
	}
	job->is_refused = false;
	totals_begin(job);
	for (uint32_t k = 0; k < job->config.shards; k++)
		shard_send(server->shards[k], &(struct shard_command){ .type = SHARD_JOB_ADD,
								       .job = job->index,
								       .generation = generation,
								       .add = adds[k] });
	server_say_job(server, SERVER_INFO, job->name, SERVER_RANK_NONE,
		       "job %s: %u members: %u lanes, %u slots, window %u%s, run %u, generation %u",
		       job->name, job->admission->size, job->plan.lanes, job->plan.slots,
		       job->plan.window,
		       job->plan.is_cramped ? " (all that the receive buffer holds)" : "",
		       job->plan.run, generation);
}

static void job_command(struct server *server, struct job *job,
			const struct admission_action *action)
{
	struct shard_command command = {
		.job = job->index,
		.lanes = action->lanes,
		.generation = action->generation,
	};

	switch ((enum admission_command)action->command) {
	case ADMISSION_JOB_ADD:
		job_add(server, job, action->generation);
		return;
	case ADMISSION_JOB_SET:
		command.type = SHARD_JOB_SET;
		break;
	case ADMISSION_JOB_REMOVE: /* also of a job that they were never told of */
		command.type = SHARD_JOB_REMOVE;
		job->bytes = 0;
		break;
	}
	for (uint32_t k = 0; k < job->config.shards; k++)
		shard_send(server->shards[k], &command);
}

/* What only we know of a GRANT. Address zero: the host that the member has connected to, by whatever
 * name or route it did so. */
static void job_fill_grant(struct server *server, struct job *job, uint16_t rank,
			   struct control_grant *grant)
{
	grant->shards_count = job->config.shards;
	for (uint32_t k = 0; k < job->config.shards; k++) {
		struct control_shard *shard = &grant->shards[k];

		*shard = (struct control_shard){
			.port = shard_port(server->shards[k]),
			.job = job->index,
			.child = rank,
			.slots = job->plan.slots,
			.generation = job->generation,
			.window = job->plan.window,
			.lanes = (uint16_t)job->plan.lanes,
			.run = (uint8_t)job->plan.run,
			.lane_ops = 1 << WIRE_ADD | 1 << WIRE_ADD_SHORT | 1 << WIRE_MAX |
				    1 << WIRE_TAKE,
		};
		shard->is_big_endian = server->options.chip_open != NULL; /* R-CHIP-12 */
		if (server->is_local)
			memcpy(shard->ip, server->options.listen.ip, sizeof(shard->ip));
	}
}

static void job_send(struct server *server, struct job *job, const struct admission_action *action)
{
	struct peer *peer = peer_of(server, action->connection);
	struct control_message message;

	if (!peer)
		return; /* its end is on its way to admission */
	if (action->message == CONTROL_QUERY)
		crossed_asked(job, action, clock_ns());
	memset(&message, 0, sizeof(message));
	admission_message(job->admission, &job->config, &job->actions, action, &message);
	if (message.type == CONTROL_GRANT)
		job_fill_grant(server, job, action->rank, &message.grant);
	peer_send(server, peer, &message);
}

/* A line begins with the job's name: of a text that does, too ("job "NAME" of 2: ..."), what is behind it.
 * *colon comes between. */
static const char *behind_name(const struct job *job, const char *text, const char **colon)
{
	static const char begin[] = "job \"";
	size_t begin_bytes = sizeof(begin) - 1, name_bytes = strlen(job->name);

	*colon = ": ";
	if (strncmp(text, begin, begin_bytes) ||
	    strncmp(text + begin_bytes, job->name, name_bytes) ||
	    text[begin_bytes + name_bytes] != '"')
		return text;
	*colon = "";
	return text + begin_bytes + name_bytes + 1;
}

static void job_log(struct server *server, const struct job *job)
{
	/* clang-format off */
	static const enum server_level levels[] = {
		[ADMISSION_LOG_WARN]    = SERVER_WARN,
		[ADMISSION_LOG_INFO]    = SERVER_INFO,
		[ADMISSION_LOG_DEBUG]   = SERVER_DEBUG,
		[ADMISSION_LOG_LIMITED] = SERVER_WARN,
	};
	/* clang-format on */

	const char *colon, *text = behind_name(job, job->actions.log, &colon);
	uint32_t rank = job->actions.log_rank == CONTROL_RANK_NONE ? SERVER_RANK_NONE
								   : job->actions.log_rank;

	if (job->actions.log_level == ADMISSION_LOG_LIMITED)
		server_say_stranger_job(server, job->name, rank, "job %s%s%s", job->name, colon,
					text);
	else if (job->actions.log_level != ADMISSION_LOG_NONE)
		server_say_job(server, levels[job->actions.log_level], job->name, rank,
			       "job %s%s%s", job->name, colon, text);
}

static void job_step_once(struct server *server, struct job *job, struct admission_event *event)
{
	uint64_t now_ns = clock_ns(), life;
	bool was_running = admission_is_running(job->admission);

	event->now_ns = now_ns;
	if (event->type == ADMISSION_TICK)
		job->ticked_ns = now_ns;
	event->generation = server->generation;
	server_random(&event->random, sizeof(event->random));
	life = job->admission->life; /* the step may forget it */
	admission_step(job->admission, &job->config, event, &job->actions);
	if (!was_running)
		share_charge(server, job);
	job_log(server, job);
	/* What is refused while the life drains is not what has ended it. */
	if (was_running && job->actions.cause != CONTROL_OK &&
	    !admission_is_running(job->admission)) {
		job->ended_life = life;
		job->has_ended = true;
		memcpy(job->ended_text, job->actions.text, sizeof(job->ended_text));
	}
	if (job->actions.count && job->actions.list[0].message == CONTROL_WAITING)
		crossed_chain_add(server, job, now_ns, &job->actions.waiting);
	for (uint32_t i = 0; i < job->actions.count; i++) {
		const struct admission_action *action = &job->actions.list[i];
		struct peer *peer;

		switch ((enum admission_action_type)action->type) {
		case ADMISSION_SEND:
			job_send(server, job, action);
			break;
		case ADMISSION_CLOSE:
			peer = peer_of(server, action->connection);
			if (peer)
				peer_last_words(server, peer, now_ns);
			break;
		case ADMISSION_COMMAND:
			job_command(server, job, action);
			break;
		}
	}
	if (was_running && !admission_is_running(job->admission))
		crossed_end(job);
	job->wake_ns = job->actions.wake_ns;
	if (!admission_is_idle(job->admission))
		job->idle_ns = 0;
	else if (!job->idle_ns)
		job->idle_ns = now_ns;
}

/* Jobs that belong to the life that has just ended and do not run yet: some of theirs will never come. */
static void job_orphans(struct server *server, struct job *job)
{
	job->has_ended = false;
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *child = server->jobs[i];

		if (child && child != job && child->life == job->ended_life)
			job_step(server, child,
				 &(struct admission_event){ .type = ADMISSION_ORPHAN,
							    .text = job->ended_text });
	}
}

/* R-CT-59: who has said LEAVE may be waited for in pairs of this job, or who has said JOIN waits in this one. */
static void job_deserts(struct server *server, struct job *job, enum control_type said)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *other = server->jobs[i];
		struct job *pair = said == CONTROL_LEAVE ? other : job;
		struct job *first = said == CONTROL_LEAVE ? job : other;
		struct admission_event event;

		if (other &&
		    admission_is_deserted(pair->admission, &pair->config, first->admission, &event))
			job_step(server, pair, &event);
	}
}

static void job_step_on(struct server *server, struct job *job, struct admission_event *event)
{
	job_step_once(server, job, event);
	for (;;) {
		if (job->is_refused) {
			job->is_refused = false;
			for (uint16_t k = 0; k < job->config.shards; k++) {
				struct admission_event failed = {
					.type = ADMISSION_SHARD,
					.shard = k,
					.command = ADMISSION_JOB_ADD,
					.job_generation = job->generation,
					.has_failed = true,
					.is_path = job->is_path_refused,
					.rank = job->refused_rank,
					.text = job->refusal,
				};

				job_step_once(server, job, &failed);
			}
		} else if (job->actions.again) {
			job_step_once(server, job,
				      &(struct admission_event){ .type = ADMISSION_TICK });
		} else if (job->has_ended) {
			job_orphans(server, job);
		} else {
			return;
		}
	}
}

void job_step(struct server *server, struct job *job, struct admission_event *event)
{
	enum control_type said = event->type == ADMISSION_MESSAGE ? event->message->type
								  : CONTROL_NOTHING;

	job_step_on(server, job, event);
	if (said == CONTROL_LEAVE || (said == CONTROL_JOIN && job->life))
		job_deserts(server, job, said);
}

void jobs_tick(struct server *server, uint64_t now_ns)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job)
			continue;
		if (job->idle_ns && now_ns - job->idle_ns > IDLE_JOB_MS * MS_NS)
			job_close(server, job);
		else if (!job->idle_ns &&
			 (now_ns >= job->wake_ns || now_ns - job->ticked_ns >= TICK_MS * MS_NS))
			job_step(server, job, &(struct admission_event){ .type = ADMISSION_TICK });
	}
}

bool life_is_running(const struct server *server, uint64_t life)
{
	for (uint32_t i = 0; life && i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];

		if (job && (job->life == life || job->admission->life == life) &&
		    admission_is_running(job->admission))
			return true;
	}
	return false;
}

void jobs_tell(struct server *server, enum admission_event_type type)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		if (server->jobs[i])
			job_step(server, server->jobs[i],
				 &(struct admission_event){ .type = type });
}

void jobs_drain(struct server *server)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (job && !job->admission->is_terminating && !life_is_running(server, job->life))
			job_step(server, job,
				 &(struct admission_event){ .type = ADMISSION_TERMINATE });
	}
}

/* At least every second for a name that is in use. */
uint64_t jobs_wake_ns(const struct server *server)
{
	uint64_t wake_ns = server->unite_ns;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];
		uint64_t its;

		if (!job || job->idle_ns)
			continue;
		its = job->ticked_ns + TICK_MS * MS_NS;
		if (job->wake_ns < its)
			its = job->wake_ns;
		if (its < wake_ns)
			wake_ns = its;
	}
	return wake_ns;
}

bool jobs_are_idle(const struct server *server)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		if (server->jobs[i] && !server->jobs[i]->idle_ns)
			return false;
	return true;
}
