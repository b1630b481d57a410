/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4_cases.c MODE FILE... - the golden packets of the files, for tests/p4_play.py; those that do not apply to a chip's
 * program for MODE (dense or latency), with the reason (R-CHIP-6). MODE count: says none, and fails if another number
 * of them is played, or left out for a reason, than is written here.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/p4_say.h"
#include "vectors.h"

enum reason {
	PLAYED,
	SHAPE,
	OTHER_MODE,
	TREE,
	CHILDREN,
	HELLO,
	COMPLETE_NOT_FINAL,
	FINAL_NOT_COMPLETE,
	REASONS
};

/* How many golden packets of tests/vectors there are of each: in latency mode, in dense mode. */
static const struct {
	const char *text;
	unsigned expected[2];
} reasons[REASONS] = {
	[PLAYED] = { "played", { 50, 121 } },
	[SHAPE] = { "the shape of a datagram", { 41, 41 } },
	[OTHER_MODE] = { "the other mode", { 174, 51 } },
	[TREE] = { "a tree", { 0, 44 } },
	[CHILDREN] = { "more than 32 children", { 1, 8 } },
	[HELLO] = { "HELLO, which is control's", { 0, 1 } },
	[COMPLETE_NOT_FINAL] = { "a root's slot that is complete and not final: between two passes",
				 { 0, 0 } },
	[FINAL_NOT_COMPLETE] = { "a slot that is final and not complete: never is", { 0, 0 } },
};

static enum reason reason_of(const struct vector *one, bool is_dense)
{
	const struct switch_slot *before = &one->before.slot;

	if (one->is_shape)
		return SHAPE;
	if (is_dense == (one->job.mode != SWITCH_DENSE))
		return OTHER_MODE;
	if (one->job.has_parent || one->is_from_parent)
		return TREE;
	if (one->job.children > 32)
		return CHILDREN;
	if (one->packet.wire.type == WIRE_HELLO)
		return HELLO;
	if (is_dense && before->generation && !before->final &&
	    switch_bitmap_full(&one->job, before))
		return COMPLETE_NOT_FINAL;
	if (is_dense && before->generation && before->final &&
	    !switch_bitmap_full(&one->job, before))
		return FINAL_NOT_COMPLETE;
	return PLAYED;
}

static void say_state(const char *name, const struct vector *one, const struct vector_state *state)
{
	say_slot(name, &one->job,
		 &(struct p4_slot){ &state->slot, &state->latency, state->sum[0], VECTORS_STRIDE });
}

static void say_case(const struct vector *one, bool is_dense)
{
	enum reason reason = reason_of(one, is_dense);

	printf("{\"name\":\"%s\"", one->name);
	if (reason) {
		printf(",\"reason\":\"%s\"}\n", reasons[reason].text);
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

static bool is_as_counted(const struct vector *first, bool is_dense)
{
	unsigned counts[REASONS] = { 0 };
	bool is_right = true;

	for (const struct vector *one = first; one; one = one->next)
		counts[reason_of(one, is_dense)]++;
	for (unsigned i = 0; i < REASONS; i++) {
		unsigned expected = reasons[i].expected[is_dense];

		if (counts[i] == expected)
			continue;
		fprintf(stderr,
			"%s.p4: %u golden packets, not %u: %s. If you added or took away some in "
			"tests/vectors, change "
			"the number in reasons[] of tests/p4_cases.c; if not, packets are left out "
			"that were played\n",
			is_dense ? "dense" : "latency", counts[i], expected, reasons[i].text);
		is_right = false;
	}
	return is_right;
}

int main(int argc, char **argv)
{
	struct vector *first = NULL;
	bool is_right = true;

	if (argc < 3) {
		fprintf(stderr, "usage: p4_cases dense|latency|count FILE...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		if (!is_read(argv[i], &first))
			return 1;
	}
	if (!strcmp(argv[1], "count")) {
		is_right = is_as_counted(first, true);
		is_right &= is_as_counted(first, false);
	} else {
		for (const struct vector *one = first; one; one = one->next)
			say_case(one, !strcmp(argv[1], "dense"));
	}
	vectors_free(first);
	return !is_right;
}
