/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c - tally_comm_split. Every rank puts its color and key into its own place of a vector, and the
 * sum is everybody's. A part is named after its parent, the number of the operation that made it, and its color.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/operation.h"

enum {
	HALVES = 4, /* of 16 bits, two of the color, two of the key: no sum of theirs saturates */
	SUFFIX_BYTES = 40,
};

static void halves_put(int32_t *at, int value)
{
	at[0] = (int32_t)((uint32_t)value >> 16);
	at[1] = (int32_t)((uint32_t)value & 0xffff);
}

static int halves_get(const int32_t *at)
{
	return (int)((uint32_t)at[0] << 16 | (uint32_t)at[1]);
}

/* Whose color is ours, in the order of their keys, of their ranks where those are equal. */
static void place_find(const int32_t *all, uint32_t of, uint32_t self, uint32_t *rank,
		       uint32_t *size)
{
	int color = halves_get(all + HALVES * self), key = halves_get(all + HALVES * self + 2);

	*rank = *size = 0;
	for (uint32_t other = 0; other < of; other++) {
		int its_key = halves_get(all + HALVES * other + 2);

		if (halves_get(all + HALVES * other) != color)
			continue;
		++*size;
		*rank += its_key < key || (its_key == key && other < self);
	}
}

static void boot_fill(struct bootstrap *boot, const struct tally_comm *parent, const int32_t *all,
		      const struct tally_options *mine, uint64_t number, int color)
{
	char suffix[SUFFIX_BYTES];
	uint32_t rank, size;

	snprintf(suffix, sizeof(suffix), "/%llu.%d", (unsigned long long)number, color);
	place_find(all, parent->who.size, parent->who.rank, &rank, &size);
	part_boot(boot, parent, "tally_comm_split", rank, size, suffix);
	if (mine->local_size)
		boot->local_size = mine->local_size;
	if (mine->init_timeout_s)
		boot->init_timeout_s = mine->init_timeout_s;
	if (mine->deadline_ms)
		boot->deadline_ms = mine->deadline_ms;
	if (mine->window_packets)
		boot->window_packets = mine->window_packets;
}

/* Waits of a part end as its parent's do, if nothing else is said. */
static void interrupted_inherit(struct tally_options *mine, const struct tally_comm *parent)
{
	if (mine->interrupted)
		return;
	mine->interrupted = parent->interrupted;
	mine->interrupted_ctx = parent->interrupted_ctx;
}

static int split_check(struct tally_comm *comm, struct tally_options *mine,
		       const struct tally_options *options, struct tally_comm **new_comm)
{
	int result = comm_check(comm, "tally_comm_split");

	if (!result && !new_comm)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "tally_comm_split: new_comm is NULL");
	if (!result)
		result = comm_init_check(new_comm, mine, options, "tally_comm_split");
	if (!result && mine->aggregator)
		result = report_error(&comm->who, TALLY_ERR_ARGUMENT,
				      "tally_comm_split: options->aggregator: a part has its "
				      "parent's");
	if (!result && (mine->init_timeout_s > BOOTSTRAP_TIMEOUT_S_MAX || mine->key))
		result = report_error(&comm->who, TALLY_ERR_ARGUMENT,
				      "tally_comm_split: options->%s",
				      mine->key ? "key: a part has its parent's"
						: "init_timeout_s is above a day");
	return result;
}

/* All ranks' colors and keys, and the number of the last operation that brought them: in latency mode each
 * brings a packet's worth. */
static int colors_gather(struct tally_comm *comm, int color, int key, int32_t *all,
			 uint64_t *number)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	size_t total = (size_t)HALVES * comm->who.size;
	size_t most = comm->latency_slots ? comm->lanes : total;
	int result = TALLY_OK;

	options.name = "tally_comm_split";
	halves_put(all + HALVES * comm->who.rank, color);
	halves_put(all + HALVES * comm->who.rank + 2, key);
	for (size_t done = 0; done < total && !result; done += most) {
		const struct tally_buffer buffer = { all + done, all + done,
						     total - done < most ? total - done : most };
		const struct request request = { .call = "tally_comm_split",
						 .kind = CONTROL_OP_ALLREDUCE,
						 .buffers = &buffer,
						 .n = 1,
						 .dtype = TALLY_INT32,
						 .op = TALLY_SUM,
						 .options = &options };

		result = operation_run(comm, &request, number);
	}
	return result;
}

int tally_comm_split(struct tally_comm *comm, int color, int key,
		     const struct tally_options *options, struct tally_comm **new_comm)
{
	/* No part of it can be called again by itself: it is not interrupted. */
	const struct request barrier = { .call = "tally_comm_split",
					 .kind = CONTROL_OP_BARRIER,
					 .dtype = TALLY_INT32 };
	struct tally_options mine;
	struct tally_comm *part = NULL;
	struct bootstrap boot;
	uint64_t number = 0;
	int32_t *all;
	int result = split_check(comm, &mine, options, new_comm), ended;

	if (result)
		return result;
	all = calloc(comm->who.size, HALVES * sizeof(*all));
	if (!all)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "tally_comm_split: out of memory");
	result = colors_gather(comm, color, key, all, &number);
	if (result)
		goto free_all;
	if (color >= 0) {
		boot_fill(&boot, comm, all, &mine, number, color);
		interrupted_inherit(&mine, comm);
		result = comm_open(&part, &boot, &mine, comm);
	}
	/* When this returns all parts have started: the aggregator in rank 0's process may know it. */
	ended = operation_run(comm, &barrier, NULL);
	/* An abort of this rank's own has reached the part as another rank's. */
	if (ended && (!result || ended == TALLY_ERR_ABORTED)) {
		(void)tally_comm_abort(part ? part : comm);
		tally_comm_destroy(part);
		result = ended;
	}
	if (!result)
		*new_comm = part;
free_all:
	free(all);
	return result;
}
