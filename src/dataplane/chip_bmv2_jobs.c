/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip_bmv2_jobs.c - what is written for a job: a range of slots, a group and an entry of `jobs`; for
 * each of its children an entry of `addresses` and of `children`, and a replica of the group. All of it goes back piece by
 * piece; a piece that could not be taken back is kept in mind, with the job's index and slots, until the switch has
 * answered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/chip_bmv2_state.h"
#include "dataplane/link_address.h"

enum {
	NONE = -1, /* no such handle */
};

/* What bmv2.h has said is the chip's word. */
int chip_bmv2_passed(struct chip_bmv2 *chip, int result)
{
	if (result)
		snprintf(chip->chip.error, sizeof(chip->chip.error), "%s", chip->bmv2.error);
	return result;
}

void chip_bmv2_word(struct chip_bmv2 *chip, const char *what, const char *why)
{
	char text[CHIP_ERROR_BYTES];

	snprintf(text, sizeof(text), "the switch at %s %s%s%.280s", chip->bmv2.name, what,
		 *why ? ": " : "", why);
	memcpy(chip->chip.error, text, sizeof(text));
}

static uint64_t mac_number(const uint8_t mac[CHIP_MAC_BYTES])
{
	uint64_t number = 0;

	for (uint32_t i = 0; i < CHIP_MAC_BYTES; i++)
		number = number << 8 | mac[i];
	return number;
}

/* ---- pieces ---- */

/* An entry that is there no more is gone, too. */
static int entry_take(struct chip_bmv2 *chip, const char *table, int32_t *entry)
{
	int result = *entry == NONE ? 0 : bmv2_delete(&chip->bmv2, table, *entry);

	if (!result || result == -EREMOTEIO)
		*entry = NONE;
	return result == -EREMOTEIO ? 0 : chip_bmv2_passed(chip, result);
}

/* Of its children the last takes it along. */
static int host_take(struct chip_bmv2 *chip, struct host **host)
{
	int result = 0;

	if (*host && (*host)->users == 1)
		result = entry_take(chip, INGRESS "forwarding.hosts", &(*host)->entry);
	if (result)
		return result;
	if (*host)
		(*host)->users--;
	*host = NULL;
	return 0;
}

/* The host of this MAC; else a free place, or NULL. */
static struct host *host_find(struct chip_bmv2 *chip, const uint8_t mac[CHIP_MAC_BYTES])
{
	struct host *place = NULL;

	for (struct host *host = chip->hosts; host < chip->hosts + HOSTS; host++) {
		if (host->users && !memcmp(host->mac, mac, sizeof(host->mac)))
			return host;
		if (!host->users && !place)
			place = host;
	}
	return place;
}

int chip_bmv2_host_put(struct chip_bmv2 *chip, struct host **host, const struct chip_way *way)
{
	struct bmv2_value port = VALUE(2, way->port), key = VALUE(6, mac_number(way->mac));
	bool is_other = *host && memcmp((*host)->mac, way->mac, sizeof(way->mac));
	int result = is_other ? host_take(chip, host) : 0;
	struct host *its = *host ? *host : host_find(chip, way->mac);

	if (result || !its)
		return result;
	if (!its->users)
		result = bmv2_add(&chip->bmv2, INGRESS "forwarding.hosts", &key, 1,
				  INGRESS "forwarding.to_port", &port, 1, &its->entry);
	else if (its->port != way->port)
		result = bmv2_modify(&chip->bmv2, INGRESS "forwarding.hosts", its->entry,
				     INGRESS "forwarding.to_port", &port, 1);
	if (result)
		return chip_bmv2_passed(chip, result);
	memcpy(its->mac, way->mac, sizeof(its->mac));
	its->port = way->port;
	its->users += !*host;
	*host = its;
	return 0;
}

static int replica_take(struct chip_bmv2 *chip, int32_t *replica)
{
	int result = *replica == NONE ? 0 : bmv2_node_destroy(&chip->bmv2, *replica);

	if (!result || result == -EREMOTEIO)
		*replica = NONE;
	return result == -EREMOTEIO ? 0 : chip_bmv2_passed(chip, result);
}

/* R-SW-14, R-CHIP-1: these slots are of no life, so that all other words mean nothing. */
static int slots_clear(struct chip_bmv2 *chip, const struct job *job)
{
	const char *lives = chip->chip.profile.is_latency ? INGRESS "lives_lo" : INGRESS "lives";
	int result = bmv2_register_write(&chip->bmv2, lives, job->first, job->program.slots, 0);

	return chip_bmv2_passed(chip, result);
}

/* In the order of R-SW-14: nobody is served, then nothing is left. */
int chip_bmv2_job_take(struct chip_bmv2 *chip, struct job *job)
{
	int result = entry_take(chip, INGRESS "jobs", &job->entry);

	result = result ? result : entry_take(chip, INGRESS "acknowledged", &job->acknowledged);
	for (uint32_t i = 0; i < job->program.children && !result; i++) {
		struct child *child = &job->child[i];

		result = entry_take(chip, INGRESS "addresses", &child->address);
		result = result ? result : entry_take(chip, EGRESS "children", &child->answer);
		result = result ? result : replica_take(chip, &child->replica);
		result = result ? result : host_take(chip, &child->host);
	}
	if (!result && job->group != NONE) {
		result = bmv2_group_destroy(&chip->bmv2, job->group);
		if (!result || result == -EREMOTEIO)
			job->group = NONE;
		result = result == -EREMOTEIO ? 0 : chip_bmv2_passed(chip, result);
	}
	return result ? result : slots_clear(chip, job);
}

void chip_bmv2_jobs_forget(struct chip_bmv2 *chip)
{
	for (uint32_t i = 0; i < CHIP_BMV2_JOBS; i++) {
		free(chip->jobs[i]);
		chip->jobs[i] = NULL;
	}
	memset(chip->hosts, 0, sizeof(chip->hosts));
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		chip->before[i] += chip->last[i];
		chip->last[i] = 0;
	}
}

int chip_bmv2_boot_read(struct chip_bmv2 *chip, uint32_t *boot)
{
	uint64_t value = 0;
	int result =
		chip_bmv2_passed(chip, bmv2_register_read(&chip->bmv2, INGRESS "boot", 0, &value));

	*boot = (uint32_t)value;
	return result;
}

static int is_up(struct chip_bmv2 *chip)
{
	chip_bmv2_begin(chip);
	if (chip->state == TAKEN)
		chip_bmv2_word(chip, "is another tallyd's", "");
	else if (chip->bmv2.fd < 0 || chip->state != UP)
		chip_bmv2_word(chip, "does not answer, or is not set up", "");
	else
		return 0;
	return -ENOTCONN;
}

/* Before something is written: what is there now, may be another tallyd's, or a switch that has just started and has
 * none of our handles. What is to be done then is look's. */
static int is_ours(struct chip_bmv2 *chip)
{
	uint32_t boot = 0;
	int result = is_up(chip);

	result = result ? result : chip_bmv2_boot_read(chip, &boot);
	if (result || boot == chip->boot)
		return result;
	chip_bmv2_word(chip, "was started again, or is another tallyd's", "");
	return -ENOTCONN;
}

/* ---- counters ---- */

static void counts(struct chip *base, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	struct chip_bmv2 *chip = bmv2_of(base);

	int result = is_up(chip);

	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		if (!result)
			result = bmv2_counter(&chip->bmv2, INGRESS "verdicts", i, &chip->last[i]);
		verdict[i] = chip->before[i] + chip->last[i];
	}
}

static int served_read(struct chip_bmv2 *chip, uint32_t idx, struct chip_served *served)
{
	uint64_t *counted[] = { &served->updates, &served->again, &served->results };
	int result = 0;

	for (uint32_t i = 0; i < COUNT(counted) && !result; i++)
		result = bmv2_counter(&chip->bmv2, INGRESS "served", 4 * idx + i, counted[i]);
	return chip_bmv2_passed(chip, result);
}

/* ---- jobs ---- */

/* The first range of so many slots that no job has. */
static int slots_find(const struct chip_bmv2 *chip, uint32_t slots, uint32_t *first)
{
	bool is_moved = true;

	*first = 0;
	while (is_moved) {
		is_moved = false;
		for (uint32_t i = 0; i < CHIP_BMV2_JOBS; i++) {
			const struct job *job = chip->jobs[i];

			if (job && job->first < *first + slots &&
			    *first < job->first + job->program.slots) {
				*first = job->first + job->program.slots;
				is_moved = true;
			}
		}
	}
	return *first + slots <= chip->chip.profile.slots ? 0 : -ENOSPC;
}

static int refuse(struct chip_bmv2 *chip, int error, const char *text)
{
	snprintf(chip->chip.error, sizeof(chip->chip.error), "the switch at %s: %s",
		 chip->bmv2.name, text);
	return error;
}

static struct job *job_find(const struct chip_bmv2 *chip, uint32_t idx)
{
	return idx < CHIP_BMV2_JOBS && chip->jobs[idx] && !chip->jobs[idx]->is_going
		       ? chip->jobs[idx]
		       : NULL;
}

static int add(struct chip *base, const struct switch_job *program)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	uint32_t idx = program->index;
	struct job *job;
	int result = is_ours(chip);

	if (result)
		return result;
	if (program->children > CHIP_BMV2_CHILDREN ||
	    (program->mode != SWITCH_DENSE) != base->profile.is_latency || program->has_parent ||
	    idx >= CHIP_BMV2_JOBS)
		return refuse(chip, -EINVAL, "not a job for a chip (R-CHIP-6)");
	if (chip->jobs[idx] && chip->jobs[idx]->is_going &&
	    !chip_bmv2_job_take(chip, chip->jobs[idx])) {
		free(chip->jobs[idx]);
		chip->jobs[idx] = NULL;
	}
	if (chip->jobs[idx])
		return refuse(chip, -EEXIST, "still has the job that was in this place before");
	job = calloc(1, sizeof(*job));
	if (!job)
		return refuse(chip, -ENOMEM, "no memory for what it has to know");
	job->program = *program;
	job->entry = job->acknowledged = job->group = NONE;
	for (uint32_t i = 0; i < CHIP_BMV2_CHILDREN; i++)
		job->child[i].address = job->child[i].answer = job->child[i].replica = NONE;
	result = slots_find(chip, program->slots, &job->first);
	if (result) {
		free(job);
		return refuse(chip, result, "all its slots are other jobs'");
	}
	result = served_read(chip, idx, &job->before);
	result = result ? result : slots_clear(chip, job);
	result = result ? result
			: chip_bmv2_passed(chip, bmv2_group_create(&chip->bmv2,
								   CHIP_BMV2_FLOOD_GROUP + 1 + idx,
								   &job->group));
	job->is_going = result; /* with what it has got */
	chip->jobs[idx] = job;
	return result;
}

static int set(struct chip *base, const struct switch_job *program)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	struct job *job = job_find(chip, program->index);
	struct bmv2_value key = VALUE(2, program->index);
	int result = is_ours(chip);

	if (result)
		return result;
	if (!job)
		return refuse(chip, -ENOENT, "does not have the job any more");
	result = entry_take(chip, INGRESS "jobs", &job->entry);
	if (result || !program->enabled)
		return result;
	job->program = *program;
	if (program->mode == SWITCH_LATENCY_ACKNOWLEDGED && job->acknowledged == NONE)
		result = bmv2_add(&chip->bmv2, INGRESS "acknowledged", &key, 1, INGRESS "acks",
				  NULL, 0, &job->acknowledged);
	if (result)
		return chip_bmv2_passed(chip, result);
	struct bmv2_value data[] = {
		VALUE(4, program->generation),
		VALUE(4, (uint32_t)((1ull << program->children) - 1)),
		VALUE(2, program->children),
		VALUE(4, program->slots),
		VALUE(2, program->lanes),
		VALUE(4, job->first),
		VALUE(2, CHIP_BMV2_FLOOD_GROUP + 1 + program->index),
	};
	return chip_bmv2_passed(chip, bmv2_add(&chip->bmv2, INGRESS "jobs", &key, 1,
					       INGRESS "set_job", data, COUNT(data), &job->entry));
}

static void remove_job(struct chip *base, uint32_t idx)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	struct job *job = job_find(chip, idx);

	if (!job)
		return;
	job->is_going = true;
	if (is_ours(chip) || chip_bmv2_job_take(chip, job))
		return; /* look_there goes on with it */
	free(job);
	chip->jobs[idx] = NULL;
}

static bool way_equal(const struct chip_way *a, const struct chip_way *b)
{
	return a->port == b->port && !memcmp(a->mac, b->mac, sizeof(a->mac));
}

/* First what its RESULTs need, last what lets its UPDATEs in. */
static int child_write(struct chip_bmv2 *chip, struct job *job, uint32_t idx,
		       const struct link_address *at, const struct chip_way *way)
{
	struct child *child = &job->child[idx];
	bool ports[BMV2_PORTS] = { false };
	struct bmv2_value data[] = { VALUE(6, mac_number(way->mac)), VALUE(4, ip_number(at)),
				     VALUE(2, at->port) };
	struct bmv2_value who[] = { VALUE(2, job->program.index), VALUE(2, idx) };
	struct bmv2_value from[] = { who[0], who[1], data[1], data[2] };
	int result = chip_bmv2_host_put(chip, &child->host, way);

	ports[way->port] = true;
	result = result ? result : entry_take(chip, INGRESS "addresses", &child->address);
	result = result ? result : entry_take(chip, EGRESS "children", &child->answer);
	if (result)
		return result;
	result = bmv2_add(&chip->bmv2, EGRESS "children", who, COUNT(who), EGRESS "to", data,
			  COUNT(data), &child->answer);
	if (!result && child->replica == NONE)
		result = bmv2_node_create(&chip->bmv2, idx, ports, &child->replica);
	else if (!result)
		result = bmv2_node_update(&chip->bmv2, child->replica, ports);
	if (!result && !child->has_joined) {
		result = bmv2_node_join(&chip->bmv2, job->group, child->replica);
		child->has_joined = !result;
	}
	if (!result)
		result = bmv2_add(&chip->bmv2, INGRESS "addresses", from, COUNT(from),
				  INGRESS "bound", NULL, 0, &child->address);
	return chip_bmv2_passed(chip, result);
}

static int bind_child(struct chip *base, uint32_t idx, uint32_t child_idx,
		      const struct link_address *at, const struct chip_way *way)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	struct job *job = job_find(chip, idx);
	struct child *child;
	int result = is_up(chip);

	if (result)
		return result;
	if (!job || child_idx >= job->program.children || way->port >= BMV2_PORTS)
		return refuse(chip, -ENOENT, "has no such child of a job");
	if (!memcmp(way->mac, chip->mac, sizeof(chip->mac)))
		return refuse(
			chip, -EINVAL,
			"a HELLO from the MAC of tallyd's own device has come by one of its ports: "
			"is there a loop, or has another host this MAC?");
	child = &job->child[child_idx];
	if (child->is_bound && link_address_equal(&child->at, at) && way_equal(&child->way, way))
		return 0;
	result = is_ours(chip);
	if (result)
		return result;
	child->is_bound = false;
	result = child_write(chip, job, child_idx, at, way);
	child->is_bound = !result;
	child->at = *at;
	child->way = *way;
	return result;
}

static uint64_t less(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void served(struct chip *base, uint32_t idx, struct chip_served *out)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	const struct job *job = job_find(chip, idx);

	*out = (struct chip_served){ 0 };
	if (!job)
		return;
	*out = job->before; /* should the switch not answer */
	if (!is_up(chip))
		(void)served_read(chip, idx, out);
	out->updates = less(out->updates, job->before.updates);
	out->again = less(out->again, job->before.again);
	out->results = less(out->results, job->before.results);
}

const struct chip_ops chip_bmv2_jobs = {
	.add = add,
	.set = set,
	.remove = remove_job,
	.bind = bind_child,
	.counts = counts,
	.served = served,
};
