/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4_cases.c MODE FILE... - the golden packets of the files, for tests/p4_play.py; those that do not apply to a chip's
 * program for MODE (dense or latency), with the reason (R-CHIP-6).
 */
#include <stdlib.h>
#include <string.h>

#include "tests/p4_say.h"
#include "vectors.h"

/* NULL: it is played. */
static const char *not_applicable(const struct vector *one, bool is_dense)
{
	const struct switch_slot *before = &one->before.slot;

	if (one->is_shape)
		return "the shape of a datagram";
	if (is_dense && one->job.mode)
		return "latency mode";
	if (!is_dense && !one->job.mode)
		return "dense mode";
	if (one->job.has_parent || one->is_from_parent)
		return "a tree";
	if (one->job.children > 32)
		return "more than 32 children";
	if (one->packet.wire.type == WIRE_HELLO)
		return "HELLO, which is control's";
	if (is_dense && before->generation && !before->final &&
	    switch_bitmap_full(&one->job, before))
		return "a root's slot that is complete and not final: between two passes";
	if (is_dense && before->generation && before->final &&
	    !switch_bitmap_full(&one->job, before))
		return "a slot that is final and not complete: never is";
	return NULL;
}

static void say_state(const char *name, const struct vector *one, const struct vector_state *state)
{
	say_slot(name, &one->job,
		 &(struct p4_slot){ &state->slot, &state->latency, state->sum[0], VECTORS_STRIDE });
}

static void say_case(const struct vector *one, bool is_dense)
{
	const char *reason = not_applicable(one, is_dense);

	printf("{\"name\":\"%s\"", one->name);
	if (reason) {
		printf(",\"reason\":\"%s\"}\n", reason);
		return;
	}
	say_job(&one->job);
	printf(",\"result\":%u", one->verdict);
	say_packet("packet", &one->packet.wire, one->packet.lanes.lane);
	if (one->verdict == SWITCH_REPLY || one->verdict == SWITCH_MULTICAST)
		say_packet("answer", &one->answer.wire, one->answer.lanes.lane);
	printf(",\"at\":%u,\"from\":%u", one->packet.wire.slot % one->job.slots,
	       one->packet.wire.child % 32);
	say_state("before", one, &one->before);
	say_state("after", one, &one->after);
	printf("}\n");
}

static bool is_read(const char *path, struct vector **first)
{
	static char text[1 << 20];
	char error[VECTORS_ERROR_MAX];
	FILE *file = fopen(path, "r");
	size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[bytes] = '\0';
	if (!bytes)
		fprintf(stderr, "%s: cannot be read\n", path);
	else if (vectors_parse(text, first, error))
		return true;
	else
		fprintf(stderr, "%s: %s\n", path, error);
	return false;
}

int main(int argc, char **argv)
{
	struct vector *first = NULL;

	for (int i = 2; i < argc; i++) {
		if (!is_read(argv[i], &first))
			return 1;
	}
	for (const struct vector *one = first; one; one = one->next)
		say_case(one, !strcmp(argv[1], "dense"));
	vectors_free(first);
	return 0;
}
