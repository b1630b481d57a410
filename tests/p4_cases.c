/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4_cases.c - the golden packets of the files it is given, each in a line of JSON, for tests/p4_play.py; those that no
 * chip has to know, with the reason (R-CHIP-6).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

static void say_sum(const int32_t *sum, uint32_t lanes)
{
	printf("[");
	for (uint32_t i = 0; i < lanes; i++)
		printf("%s%d", i ? "," : "", sum[i]);
	printf("]");
}

static void say_packet(const char *name, const struct vector_packet *packet)
{
	uint8_t bytes[WIRE_HEADER_BYTES];

	wire_put(bytes, &packet->wire);
	printf(",\"%s\":\"", name);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		printf("%02x", bytes[i]);
	for (uint32_t i = 0; i < packet->lanes.count; i++)
		for (uint32_t byte = 0; byte < WIRE_LANE_BYTES; byte++)
			printf("%02x", (uint32_t)packet->lanes.lane[i] >> 8 * byte & 0xff);
	printf("\"");
}

static void say_state(const char *name, const struct vector_state *state)
{
	const struct switch_slot *slot = &state->slot;

	printf(",\"%s\":{\"generation\":%u,\"phase\":%u,\"final\":%u,\"set\":%u,\"bare\":%u,"
	       "\"copies\":[",
	       name, slot->generation, slot->phase, slot->final, (uint32_t)slot->bitmap[0],
	       (uint32_t)slot->bare[0]);
	for (uint32_t i = 0; i < 2; i++) {
		const struct switch_copy *copy = &slot->copy[i];

		printf("%s{\"tag\":%u,\"flags\":%u,\"exponent\":%u,\"last\":%u,\"sum\":",
		       i ? "," : "", copy->tag, copy->flags, copy->exponent, copy->last);
		say_sum(state->sum[i], copy->lanes);
		printf("}");
	}
	printf("]}");
}

/* NULL: it is played. */
static const char *not_applicable(const struct vector *one)
{
	const struct switch_slot *before = &one->before.slot;

	if (one->is_shape)
		return "the shape of a datagram";
	if (one->job.mode)
		return "latency mode";
	if (one->job.has_parent || one->is_from_parent)
		return "a tree";
	if (one->job.children > 32)
		return "more than 32 children";
	if (before->generation && !before->final && switch_bitmap_full(&one->job, before))
		return "a root's slot that is complete and not final: between two passes";
	if (before->generation && before->final && !switch_bitmap_full(&one->job, before))
		return "a slot that is final and not complete: never is";
	return NULL;
}

static void say_case(const struct vector *one)
{
	const char *reason = not_applicable(one);
	const struct switch_job *job = &one->job;

	printf("{\"name\":\"%s\"", one->name);
	if (reason) {
		printf(",\"reason\":\"%s\"}\n", reason);
		return;
	}
	printf(",\"job\":{\"index\":%u,\"generation\":%u,\"enabled\":%u,\"children\":%u,\"slots\":%"
	       "u,\"lanes\":%u}",
	       job->index, job->generation, job->enabled, job->children, job->slots, job->lanes);
	printf(",\"verdict\":\"%s\"", vectors_verdict_name(one->verdict));
	say_packet("packet", &one->packet);
	if (one->verdict == SWITCH_REPLY || one->verdict == SWITCH_MULTICAST)
		say_packet("answer", &one->answer);
	printf(",\"slot\":%u,\"child\":%u", one->packet.wire.slot, one->packet.wire.child);
	say_state("before", &one->before);
	say_state("after", &one->after);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static char text[1 << 20];
	char error[VECTORS_ERROR_MAX];
	struct vector *first = NULL;

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");
		size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

		if (!bytes) {
			fprintf(stderr, "%s: cannot be read\n", argv[i]);
			return 1;
		}
		text[bytes] = '\0';
		fclose(file);
		if (!vectors_parse(text, &first, error)) {
			fprintf(stderr, "%s: %s\n", argv[i], error);
			return 1;
		}
	}
	for (const struct vector *one = first; one; one = one->next)
		say_case(one);
	vectors_free(first);
	return 0;
}
