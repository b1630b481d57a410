/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_soft.c - the switch program on a thread of the daemon. A burst comes in, every packet of it is
 * judged, and what is to be answered is collected by destination into frames of equal packets, because
 * a frame costs the kernel about as much as a packet. All of it is sent before the next burst.
 */
#include "dataplane/engine_state.h"

#include <errno.h>
#include <string.h>

/* ---- events ---- */

/* The child whose UPDATE came last to the round that *packet is for. */
static uint16_t round_last(const struct job *job, const struct wire *packet)
{
	if (engine_job_is_latency(job))
		return job->latency_slots[packet->slot].last;
	return job->slots[packet->slot].copy[switch_copy_of(packet->seq)].last;
}

/* One such event per job until somebody has fetched it: a broken worker repeats itself. */
static void event_put_once(struct engine_soft *engine, const struct job *job, bool *is_told,
			   enum engine_event_type type, uint16_t child, const struct wire *packet)
{
	struct engine_event event = { .type = type,
				      .job = job->program.index,
				      .child = child,
				      .slot = packet->slot,
				      .seq = packet->seq,
				      .other = round_last(job, packet),
				      .address = job->children[child].at.address };

	if (!*is_told)
		*is_told = engine_event_put(engine, &event);
}

/* At powers of two: who sends many says it rarely. */
static void misfit_count(struct engine_soft *engine, struct job *job, uint32_t child,
			 enum misfit misfit, const struct wire *packet)
{
	struct engine_event event = { .type = ENGINE_MISFIT,
				      .job = job->program.index,
				      .child = (uint16_t)child,
				      .slot = packet->slot,
				      .seq = packet->seq,
				      .count = ++job->children[child].misfits,
				      .misfit = misfit,
				      .address = job->children[child].at.address };

	if (!(event.count & (event.count - 1)))
		engine_event_put(engine, &event);
}

/* ---- answers ---- */

/* The kernel takes no such packet to link->too_large: whose is it? Before a job is enabled, it is a
 * WELCOME, and the child finds out by itself. */
static void too_large(struct engine_soft *engine)
{
	const struct link_address *address = &engine->link->too_large;

	for (uint32_t idx = 0; idx < engine->jobs_max; idx++) {
		struct job *job = engine->jobs[idx];

		if (!job || !job->program.enabled || job->is_too_large_told)
			continue;
		for (uint32_t i = 0; i < job->program.children && !job->is_too_large_told; i++) {
			struct engine_event event = { .type = ENGINE_TOO_LARGE,
						      .job = (uint16_t)idx,
						      .child = (uint16_t)i,
						      .address = *address };

			if (binding_is_at(&job->children[i].at, address))
				job->is_too_large_told = engine_event_put(engine, &event);
		}
	}
}

static void link_send(struct engine_soft *engine, const struct link_frame *frames, uint32_t count)
{
	/* What the link cannot send is lost: the workers will ask. */
	if (engine->link->ops->send(engine->link, frames, count) == -EMSGSIZE)
		too_large(engine);
}

static void frames_send(struct engine_soft *engine, uint32_t *count)
{
	if (*count)
		link_send(engine, engine->frames, *count);
	*count = 0;
}

static void frame_put(struct engine_soft *engine, uint32_t *count, const struct out *out,
		      const struct link_address *peer)
{
	if (*count == ENGINE_FRAMES_OUT)
		frames_send(engine, count);
	engine->frames[(*count)++] = (struct link_frame){ .peer = *peer,
							  .packet_bytes = out->packet_bytes,
							  .count = out->count,
							  .bytes = out->count * out->packet_bytes,
							  .data = out->data };
}

static void out_send(struct engine_soft *engine, uint32_t *count, const struct out *out)
{
	const struct way *way = &out->way;
	const struct job *job = way->job;

	if (way->to == TO_PARENT) {
		frame_put(engine, count, out, &job->parent);
	} else if (way->to != TO_ALL) {
		frame_put(engine, count, out, &job->children[way->to].at.address);
	} else {
		for (uint32_t child = 0; child < job->program.children; child++)
			if (job->children[child].at.is_bound && !switch_set_has(way->skip, child))
				frame_put(engine, count, out, &job->children[child].at.address);
	}
}

/* What carries lanes goes first: behind a burst of HELDs a short queue would drop the one RESULT that
 * everybody waits for, and again when it is asked for again. */
static void outs_flush(struct engine_soft *engine)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < engine->outs_count; i++)
		if (engine->outs[i].packet_bytes > WIRE_HEADER_BYTES)
			out_send(engine, &count, &engine->outs[i]);
	for (uint32_t i = 0; i < engine->outs_count; i++)
		if (engine->outs[i].packet_bytes == WIRE_HEADER_BYTES)
			out_send(engine, &count, &engine->outs[i]);
	frames_send(engine, &count);
	engine->outs_count = 0;
}

static bool out_fits(const struct out *out, const struct way *way, uint32_t packet_bytes)
{
	return out->way.to == way->to && out->packet_bytes == packet_bytes &&
	       out->way.job == way->job && !memcmp(out->way.skip, way->skip, sizeof(way->skip));
}

/* The frame that collects packets of this size that go this way. */
static struct out *out_find(struct engine_soft *engine, const struct way *way,
			    uint32_t packet_bytes)
{
	struct out *out;

	if (engine->outs_count && out_fits(&engine->outs[engine->out_last], way, packet_bytes))
		return &engine->outs[engine->out_last];
	for (uint32_t i = 0; i < engine->outs_count; i++) {
		if (out_fits(&engine->outs[i], way, packet_bytes)) {
			engine->out_last = i;
			return &engine->outs[i];
		}
	}
	if (engine->outs_count == ENGINE_OUTS)
		outs_flush(engine);
	engine->out_last = engine->outs_count++;
	out = &engine->outs[engine->out_last];
	out->way = *way;
	out->packet_bytes = packet_bytes;
	out->count = 0;
	out->data = engine->out_bytes + (size_t)engine->out_last * ENGINE_OUT_BYTES;
	return out;
}

static int32_t *sums_of(const struct job *job, uint32_t slot)
{
	return job->sums + (size_t)slot * job->copies * job->stride;
}

/* Queues the header *packet, with the lanes of its slot's copy if it has any. */
static void send_way(struct engine_soft *engine, const struct way *way, const struct wire *packet)
{
	const struct job *job = way->job;
	uint32_t bytes = wire_bytes(packet->lanes);
	struct out *out = out_find(engine, way, bytes);
	uint8_t *at = out->data + (size_t)out->count * bytes;

	wire_put(at, packet);
	if (packet->lanes) {
		const int32_t *sum = sums_of(job, packet->slot);

		if (job->copies > 1 && switch_copy_of(packet->seq))
			sum += job->stride;
		memcpy(at + WIRE_HEADER_BYTES, sum, bytes - WIRE_HEADER_BYTES);
	}
	out->count++;
	if (out->count == LINK_FRAME_PACKETS_MAX || (out->count + 1) * bytes > LINK_FRAME_BYTES_MAX)
		outs_flush(engine);
}

static void answer(struct engine_soft *engine, const struct job *job, uint32_t to,
		   const struct wire *packet)
{
	struct way way = { .job = job, .to = to };

	send_way(engine, &way, packet);
}

/* R-SW-15: lanes to those who want them, and a header to the others. */
static void answer_all(struct engine_soft *engine, const struct job *job, struct wire *packet)
{
	static const uint64_t none[SWITCH_BITMAP_WORDS];
	const uint64_t *bare = job->slots ? job->slots[packet->slot].bare : none;
	struct way way = { .job = job, .to = TO_ALL };
	uint64_t any = 0;

	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		any |= way.skip[word] = bare[word];
	if (!switch_set_is_full(&job->program, bare))
		send_way(engine, &way, packet);
	if (!any)
		return;
	packet->lanes = 0;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		way.skip[word] = ~bare[word];
	send_way(engine, &way, packet);
}

/* ---- packets ---- */

/* Carries out a verdict; `child` is who sent the packet (0 for one from the parent, which gets neither
 * a REPLY nor an event). */
static void settle(struct engine_soft *engine, struct job *job, uint16_t child,
		   enum switch_verdict verdict, struct wire *packet)
{
	engine->stats.verdict[verdict]++;
	switch (verdict) {
	case SWITCH_REPLY:
		answer(engine, job, child, packet);
		break;
	case SWITCH_MULTICAST:
		answer_all(engine, job, packet);
		break;
	case SWITCH_UP:
		answer(engine, job, TO_PARENT, packet);
		break;
	case SWITCH_HELD_UP:
		answer(engine, job, child, packet);
		switch_probe_up(&job->program, packet);
		answer(engine, job, TO_PARENT, packet);
		break;
	case SWITCH_MISMATCH:
		event_put_once(engine, job, &job->is_mismatch_told, ENGINE_MISMATCH, child, packet);
		break;
	case SWITCH_DROP_ALARM:
		event_put_once(engine, job, &job->is_alarm_told, ENGINE_ALARM, child, packet);
		break;
	default: /* absorbed, or dropped and counted */
		break;
	}
}

static bool is_bound_to(const struct job *job, uint32_t child, const struct link_address *peer)
{
	return binding_is_at(&job->children[child].at, peer);
}

/* A datagram that was refused before its slot was looked at: does a child's own address send it? */
static void misfit_look(struct engine_soft *engine, const struct link_address *peer,
			enum misfit misfit, const struct wire *packet)
{
	struct job *job = engine_job_find(engine, packet->job);

	if (misfit && job && packet->generation == job->program.generation &&
	    packet->child < job->program.children && is_bound_to(job, packet->child, peer))
		misfit_count(engine, job, packet->child, misfit, packet);
}

/* Latency mode: who asks for a round that its slot has left behind has not got its result, or its question
 * is an old copy. A sound child opens a round when all have the result of the slot's last one (protocol,
 * "Why one copy is enough"). */
static void misfit_overrun(struct engine_soft *engine, struct job *job, uint16_t child,
			   const struct wire *packet)
{
	const uint64_t *in = job->latency_slots[packet->slot].sum_bitmap;

	if (packet->type != WIRE_UPDATE || switch_set_has(in, child))
		return;
	for (uint32_t other = 0; other < job->program.children; other++)
		if (switch_set_has(in, other))
			misfit_count(engine, job, other, MISFIT_OVERRUN, packet);
}

static void misfit_judge(struct engine_soft *engine, struct job *job, uint16_t child,
			 enum switch_verdict verdict, const struct wire *packet)
{
	enum misfit misfit = misfit_of_verdict(verdict);

	if (misfit)
		misfit_count(engine, job, child, misfit, packet);
	else if (verdict == SWITCH_DROP_STALE && engine_job_is_latency(job))
		misfit_overrun(engine, job, child, packet);
}

/* Each mode has its machine. */
static enum switch_verdict job_admit(const struct job *job, const struct wire *packet)
{
	static const struct switch_job no_job; /* generation 0 */

	if (job && engine_job_is_latency(job))
		return switch_latency_admit(&job->program, packet);
	return switch_admit(job ? &job->program : &no_job, packet);
}

/* The sums that an answer takes are copies, and so are the registers that a refusal is explained by. */
static enum switch_verdict hook_step(struct engine_soft *engine, struct job *job,
				     struct wire *packet, const int32_t *lane)
{
	struct hook *hook = engine->hook;
	uint16_t slot = packet->slot;
	enum switch_verdict verdict = hook->ops->step(hook, packet, lane, sums_of(job, slot));

	if (verdict >= SWITCH_MISMATCH)
		hook->ops->read(hook, job->program.index, slot, &job->latency_slots[slot]);
	return verdict;
}

static enum switch_verdict job_step(struct engine_soft *engine, struct job *job,
				    struct wire *packet, const int32_t *lane)
{
	uint32_t slot = packet->slot;

	if (job->is_hooked)
		return hook_step(engine, job, packet, lane);
	if (engine_job_is_latency(job))
		return switch_latency_step(&job->program, &job->latency_slots[slot],
					   sums_of(job, slot), packet, lane, NULL);
	return switch_step(&job->program, &job->slots[slot], sums_of(job, slot), job->stride,
			   packet, lane, NULL);
}

/* What a chip hands on it has judged: its verdict is in the tag, and who came last in the exponent (R-CHIP-8). */
static void from_chip(struct engine_soft *engine, struct job *job, const struct wire *packet)
{
	bool is_mismatch = packet->tag == SWITCH_MISMATCH;
	bool *is_told = is_mismatch ? &job->is_mismatch_told : &job->is_alarm_told;
	struct engine_event event = { .type = is_mismatch ? ENGINE_MISMATCH : ENGINE_ALARM,
				      .job = job->program.index,
				      .child = packet->child,
				      .slot = packet->slot,
				      .seq = packet->seq,
				      .other = packet->exponent,
				      .address = job->children[packet->child].at.address };

	if (packet->type == WIRE_UPDATE && (is_mismatch || packet->tag == SWITCH_DROP_ALARM) &&
	    !*is_told)
		*is_told = engine_event_put(engine, &event);
}

static void from_child(struct engine_soft *engine, const struct link_address *peer, uint8_t *at,
		       struct wire *packet)
{
	struct job *job = engine_job_find(engine, packet->job);
	enum switch_verdict verdict = job_admit(job, packet);
	uint16_t child = packet->child;
	const void *lane = at + WIRE_HEADER_BYTES;

	if (!verdict && !is_bound_to(job, child, peer))
		verdict = SWITCH_DROP_ADDRESS;
	if (verdict) {
		engine->stats.verdict[verdict]++;
		if (verdict == SWITCH_DROP_ADDRESS)
			engine_refuse(engine, ENGINE_REFUSED_ADDRESS, peer, packet);
		else if (verdict == SWITCH_DROP_GENERATION)
			engine_refuse(engine, ENGINE_REFUSED_GENERATION, peer, packet);
		misfit_look(engine, peer, misfit_of_verdict(verdict), packet);
		return;
	}
	if (engine->chip) {
		from_chip(engine, job, packet);
		return;
	}
	if (packet->type == WIRE_UPDATE) {
		job->stats.updates++;
		job->stats.again += packet->flags / WIRE_RESENT;
	}
	verdict = job_step(engine, job, packet, lane);
	job->stats.results += verdict == SWITCH_MULTICAST;
	settle(engine, job, child, verdict, packet);
	if (verdict >= SWITCH_MISMATCH)
		misfit_judge(engine, job, child, verdict, packet);
}

/* The job that this packet's sender is the parent of; NULL: the sender is nobody's. */
static struct job *node_find(struct engine_soft *engine, const struct link_address *peer,
			     uint16_t parent_job)
{
	for (uint32_t i = 0; i < engine->nodes_count; i++) {
		uint32_t idx = (engine->node_last + i) % engine->nodes_count;
		struct job *job = engine->nodes[idx];

		if (job->program.parent_job == parent_job &&
		    link_address_equal(&job->parent, peer)) {
			engine->node_last = idx;
			return job;
		}
	}
	return NULL;
}

static void from_parent(struct engine_soft *engine, const struct link_address *peer, uint8_t *at,
			struct wire *packet)
{
	struct job *job = node_find(engine, peer, packet->job);
	enum switch_verdict verdict =
		SWITCH_DROP_TYPE; /* a switch takes these from a parent alone */
	const void *lane = at + WIRE_HEADER_BYTES;

	if (job)
		verdict = switch_admit_from_parent(&job->program, packet);
	if (verdict) {
		engine->stats.verdict[verdict]++;
		return;
	}
	verdict = switch_from_parent(&job->program, &job->slots[packet->slot],
				     sums_of(job, packet->slot), job->stride, packet, lane, NULL);
	settle(engine, job, 0, verdict, packet);
}

/* ---- HELLO ---- */

static const uint64_t HEARD_NS = 100000000;

/* False: a copy that is old or from elsewhere, or another nonce. */
static bool child_hello(struct engine_soft *engine, struct job *job, const struct wire *packet,
			const struct link_address *peer, const uint8_t *nonce)
{
	struct child *child = &job->children[packet->child];
	struct binding *binding = &child->at;
	bool was_there = binding_is_at(binding, peer);
	uint64_t now_ns = engine->link->ops->now_ns(engine->link);
	uint32_t was_serial = binding->serial;
	struct engine_event event = { .type = was_there ? ENGINE_HEARD : ENGINE_HELLO,
				      .job = job->program.index,
				      .child = packet->child,
				      .seq = packet->seq,
				      .address = *peer };

	if (!binding_hello(binding, peer, packet->seq, nonce))
		return false;
	engine_child_bound(engine, job, packet->child);
	/* A copy of one that was heard says nothing of now. */
	if (was_there && (binding->serial == was_serial || now_ns - child->heard_ns < HEARD_NS))
		return true;
	child->heard_ns = now_ns;
	engine_event_put(engine, &event);
	return true;
}

static void welcome(struct engine_soft *engine, const struct link_address *peer, uint8_t *at,
		    const struct wire *hello)
{
	uint32_t bytes = wire_bytes(hello->lanes);
	struct link_frame frame = {
		.peer = *peer, .packet_bytes = bytes, .count = 1, .bytes = bytes, .data = at
	};

	binding_welcome(hello, peer, at);
	link_send(engine, &frame, 1);
}

/* R-CHIP-9: the chip has written here how the packet has come to it. What has not come to it says nothing. */
static bool is_around(const struct engine_soft *engine, const struct wire *hello)
{
	return engine->chip && !hello->exponent && !hello->tag;
}

/* It goes on asking until the job's time is up: that is told once. */
static void around_say(struct engine_soft *engine, struct child *child,
		       const struct link_address *peer, const struct wire *hello)
{
	if (link_address_equal(&child->around, peer))
		return;
	child->around = *peer;
	engine_refuse(engine, ENGINE_REFUSED_AROUND, peer, hello);
}

/* R-CHIP-9: it is there before the child hears so, or the child asks again. */
static bool chip_has(struct engine_soft *engine, struct job *job, const struct wire *hello,
		     const struct link_address *peer)
{
	struct child *child = &job->children[hello->child];
	struct chip_way way = { .port = hello->slot };
	struct engine_event event = {
		.type = ENGINE_UNWRITTEN, .job = hello->job, .child = hello->child, .address = *peer
	};

	if (!engine->chip)
		return true;
	wire_put16(way.mac, hello->exponent);
	wire_put32(way.mac + 2, hello->tag);
	if (!engine->chip->ops->bind(engine->chip, hello->job, hello->child, peer, &way)) {
		child->is_unwritten = false;
		return true;
	}
	if (!child->is_unwritten)
		child->is_unwritten = engine_event_put(engine, &event);
	return false;
}

static void hello(struct engine_soft *engine, const struct link_address *peer, uint8_t *at,
		  const struct wire *packet)
{
	struct job *job = engine_job_find(engine, packet->job);
	const uint8_t *nonce = at + WIRE_HEADER_BYTES;
	bool has_child = job && job->has_nonces && packet->child < job->program.children;

	if (has_child && is_around(engine, packet)) {
		around_say(engine, &job->children[packet->child], peer, packet);
	} else if (has_child && child_hello(engine, job, packet, peer, nonce)) {
		if (chip_has(engine, job, packet, peer))
			welcome(engine, peer, at, packet);
	} else if (!engine->sparse || !engine_sparse_hello(engine->sparse, peer, packet, nonce)) {
		engine->stats.hello_unknown++;
		if (!has_child || !binding_is_overtaken(&job->children[packet->child].at, peer,
							packet->seq, nonce))
			engine_refuse(engine, ENGINE_REFUSED_NONCE, peer, packet);
	}
}

/* ---- polling ---- */

int engine_fault(const struct engine_soft *engine)
{
	return engine->fault;
}

/* R-CT-35 of tables, which have counters of their own. */
static void sparse_serve(struct engine_soft *engine, const struct link_address *peer,
			 const uint8_t *at, uint32_t bytes)
{
	const struct engine_sparse_stats *stats = engine_sparse_stats(engine->sparse);
	const uint64_t *generations = &stats->verdict[SWITCH_SPARSE_DROP_GENERATION];
	uint64_t address = stats->wrong_address, generation = *generations;
	enum engine_refusal why = ENGINE_REFUSED_TABLE_ADDRESS;
	struct sparse packet;

	engine_sparse_serve(engine->sparse, peer, at, bytes);
	if (stats->wrong_address == address && *generations == generation)
		return;
	if (*generations != generation)
		why = ENGINE_REFUSED_TABLE_GENERATION;
	sparse_get(at, &packet);
	engine_refuse(engine, why, peer,
		      &(struct wire){ .job = packet.table, .child = packet.worker });
}

static void packet_serve(struct engine_soft *engine, const struct link_address *peer, uint8_t *at,
			 uint32_t bytes)
{
	struct wire packet;
	enum wire_fault fault;

	if (engine->sparse && bytes && at[0] == SPARSE_FIRST_BYTE) {
		sparse_serve(engine, peer, at, bytes);
		return;
	}
	fault = wire_check(at, bytes, &packet);
	if (fault) {
		engine->stats.fault[fault]++;
		if (fault != WIRE_FAULT_SHORT) {
			wire_get(at, &packet);
			misfit_look(engine, peer, misfit_of_fault(fault), &packet);
		}
		return;
	}
	switch (packet.type) {
	case WIRE_HELLO:
		hello(engine, peer, at, &packet);
		break;
	case WIRE_RESULT:
	case WIRE_NEED:
	case WIRE_HELD:
		from_parent(engine, peer, at, &packet);
		break;
	default: /* UPDATE, PROBE, ACK; what else there is, the program counts as a type it does not take */
		from_child(engine, peer, at, &packet);
		break;
	}
}

static void frame_serve(struct engine_soft *engine, const struct link_frame *frame)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < frame->count; i++) {
		uint32_t bytes = link_packet_bytes(frame, at);
		uint8_t *data = frame->data + at;

		/* Behind packets of an odd size, which were none of ours, the last may lie askew. */
		if (at % WIRE_LANE_BYTES) {
			data -= at % WIRE_LANE_BYTES;
			memmove(data, frame->data + at, bytes);
		}
		packet_serve(engine, &frame->peer, data, bytes);
		at += bytes;
	}
	engine->stats.packets_in += frame->count;
}

bool engine_poll(struct engine_soft *engine)
{
	int count;

	if (engine->fault)
		return false;
	count = engine->link->ops->recv(engine->link, engine->in, LINK_RECV_FRAMES);
	if (count < 0)
		engine->fault = count;
	for (int i = 0; i < count; i++)
		frame_serve(engine, &engine->in[i]);
	outs_flush(engine);
	engine_refused_say(engine);
	if (engine->sparse)
		engine->due_ns = engine_sparse_turn(engine->sparse);
	return count > 0;
}

uint64_t engine_due(const struct engine_soft *engine)
{
	return engine->due_ns;
}

struct engine_sparse *engine_tables(const struct engine_soft *engine)
{
	return engine->sparse;
}
