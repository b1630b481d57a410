/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden packets of tests/vectors, run against core/shared/wire.h, core/dense/switch.h and
 * core/latency/switch_latency.h: one test per case, named as its claim. Argument: the directory.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vectors.h"

static struct vector *all;

/* Fails with the name of what differs: a printf format and its arguments. */
#define SAME(got, want, ...)                                                           \
	do {                                                                           \
		long long is = (long long)(got), should_be = (long long)(want);        \
		if (is != should_be) {                                                 \
			char name[80];                                                 \
			snprintf(name, sizeof(name), __VA_ARGS__);                     \
			fail_msg("%s is %#llx, should be %#llx", name, is, should_be); \
		}                                                                      \
	} while (0)

static void packets_are_same(const char *what, const struct wire *got, const int32_t *lane,
			     const struct vector_packet *want)
{
	const struct wire *wire = &want->wire;

	SAME(got->type, wire->type, "%s: type", what);
	SAME(got->flags, wire->flags, "%s: flags", what);
	SAME(got->job, wire->job, "%s: job", what);
	SAME(got->generation, wire->generation, "%s: generation", what);
	SAME(got->seq, wire->seq, "%s: seq", what);
	SAME(got->slot, wire->slot, "%s: slot", what);
	SAME(got->child, wire->child, "%s: child", what);
	SAME(got->exponent, wire->exponent, "%s: exponent", what);
	SAME(got->tag, wire->tag, "%s: tag", what);
	SAME(got->lanes, want->lanes.count, "%s: lanes", what);
	for (uint32_t i = 0; i < want->lanes.count; i++)
		SAME(lane[i], want->lanes.lane[i], "%s: lane %u", what, i);
}

static void states_are_same(const struct vector_state *got, const struct vector_state *want)
{
	SAME(got->slot.generation, want->slot.generation, "slot: generation");
	SAME(got->slot.phase, want->slot.phase, "slot: phase");
	SAME(got->slot.final, want->slot.final, "slot: final");
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++) {
		SAME(switch_bitmap_has(&got->slot, i), switch_bitmap_has(&want->slot, i),
		     "slot: member %u", i);
		SAME(switch_set_has(got->slot.bare, i), switch_set_has(want->slot.bare, i),
		     "slot: bare %u", i);
	}
	SAME(got->latency.generation, want->latency.generation, "slot: generation");
	SAME(got->latency.round, want->latency.round, "slot: round");
	SAME(got->latency.tag, want->latency.tag, "slot: tag");
	SAME(got->latency.lanes, want->latency.lanes, "slot: lanes");
	SAME(got->latency.flags, want->latency.flags, "slot: flags");
	SAME(got->latency.last, want->latency.last, "slot: last");
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++) {
		SAME(switch_set_has(got->latency.sum_bitmap, i),
		     switch_set_has(want->latency.sum_bitmap, i), "slot: in %u", i);
		SAME(switch_set_has(got->latency.ack_bitmap, i),
		     switch_set_has(want->latency.ack_bitmap, i), "slot: acked %u", i);
	}
	for (uint32_t i = 0; i < 2; i++) {
		const struct switch_copy *copy = &got->slot.copy[i], *should = &want->slot.copy[i];

		SAME(copy->tag, should->tag, "copy %u: tag", i);
		SAME(copy->flags, should->flags, "copy %u: flags", i);
		SAME(copy->exponent, should->exponent, "copy %u: exponent", i);
		SAME(copy->last, should->last, "copy %u: last", i);
		SAME(copy->lanes, should->lanes, "copy %u: lanes", i);
		for (uint32_t k = 0; k < VECTORS_STRIDE; k++)
			SAME(got->sum[i][k], want->sum[i][k], "copy %u: lane %u", i, k);
	}
	assert_memory_equal(got, want, sizeof(*got)); /* nor has anything else changed */
}

/* The datagram lies in memory of just its size: a byte read beyond it is seen by asan. */
static void shape_holds(void **state)
{
	const struct vector *vector = *state;
	uint8_t *bytes = malloc(vector->bytes_count);
	uint8_t header[WIRE_HEADER_BYTES];
	struct wire packet = { 0 };
	enum wire_fault fault;

	if (vector->bytes_count)
		memcpy(bytes, vector->bytes, vector->bytes_count);
	fault = wire_check(bytes, vector->bytes_count, &packet);
	SAME(fault, vector->fault, "fault");
	if (fault == WIRE_OK) {
		packets_are_same("packet", &packet,
				 (const int32_t *)(const void *)(bytes + WIRE_HEADER_BYTES),
				 &vector->packet);
		wire_put(header, &packet);
		assert_memory_equal(header, bytes, sizeof(header));
	}
	free(bytes);
}

/* The verdict, as an engine gets it from the machine of the job's mode. */
static enum switch_verdict step(const struct vector *vector, struct vector_state *now,
				struct wire *packet, const int32_t *lane, const void *end)
{
	const struct switch_job *job = &vector->job;
	enum switch_verdict verdict;

	if (job->mode != SWITCH_DENSE) {
		verdict = switch_latency_admit(job, packet);
		return verdict ? verdict
			       : switch_latency_step(job, &now->latency, now->sum[0], packet, lane,
						     end);
	}
	if (vector->is_from_parent) {
		verdict = switch_admit_from_parent(job, packet);
		return verdict ? verdict
			       : switch_from_parent(job, &now->slot, now->sum[0], VECTORS_STRIDE,
						    packet, lane, end);
	}
	verdict = switch_admit(job, packet);
	return verdict ? verdict
		       : switch_step(job, &now->slot, now->sum[0], VECTORS_STRIDE, packet, lane,
				     end);
}

static void step_holds(void **state)
{
	const struct vector *vector = *state;
	const struct switch_job *job = &vector->job;
	struct vector_state now = vector->before;
	uint32_t count = vector->packet.lanes.count, bytes = wire_bytes(count);
	uint8_t *at = malloc(bytes);
	int32_t *lane = (int32_t *)(void *)(at + WIRE_HEADER_BYTES);
	enum switch_verdict verdict;
	struct wire packet = { 0 };

	wire_put(at, &vector->packet.wire);
	if (count)
		memcpy(lane, vector->packet.lanes.lane, count * sizeof(*lane));
	assert_int_equal(wire_check(at, bytes, &packet), WIRE_OK);
	verdict = step(vector, &now, &packet, lane, at + bytes);
	if (verdict != vector->verdict)
		fail_msg("verdict is %s, should be %s", vectors_verdict_name(verdict),
			 vectors_verdict_name(vector->verdict));
	if (vector->answer.wire.type)
		packets_are_same("answer", &packet,
				 now.sum[job->mode ? 0 : switch_copy_of(packet.seq)],
				 &vector->answer);
	if (vector->probe_up.wire.type) {
		switch_probe_up(job, &packet);
		packets_are_same("probe_up", &packet, NULL, &vector->probe_up);
	}
	states_are_same(&now, &vector->after);
	free(at);
}

static bool is_near_wrap(uint32_t seq)
{
	return seq + 2 < 4; /* 0xfffffffe, 0xffffffff, 0, 1 */
}

static void half_of_the_cases_lie_near_the_wrap_of_seq(void **state)
{
	uint32_t cases = 0, steps = 0, near = 0;

	(void)state;
	for (const struct vector *vector = all; vector; vector = vector->next) {
		cases++;
		steps += !vector->is_shape;
		near += !vector->is_shape && is_near_wrap(vector->packet.wire.seq);
	}
	print_message("%u cases, %u of them steps, %u of these near the wrap\n", cases, steps,
		      near);
	assert_true(steps >= 60);
	assert_true(near * 2 >= steps);
}

/* Text that is refused, and a word of the reason. */
static const char *const refused[][2] = {
	{ "case a\nrule R-SW-1\njob children=2 colour=3\n", "unknown key" },
	{ "case a\nrule R-SW-1\njob children=2 children=2\n", "twice" },
	{ "case a\nrule R-SW-1\njob lanes=4\n", "missing" },
	{ "case a\nrule R-SW-1\njob children=2\nslot phase=1 final=0 members=2\n", "no value" },
	{ "case a\nrule R-SW-1\njob children=2\nslot phase=0x1_ final=0 members=1\n", "no value" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\nmood good\n", "unknown keyword" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\njob children=2\n", "no place" },
	{ "case a\nrule R-SW-1\nbytes 1 2\n", "no byte" },
	{ "case a\nrule R-SW-1\nbytes 11\nfault OK\n", "unfinished" },
	{ "case a\nrule R-SW-1\nbytes 11\nfault SHORT\nslot new\n", "no place" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\npacket UPDATE seq=1 child=0\n"
	  "verdict REPLY\nafter same\n",
	  "too few" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\npacket UPDATE seq=1 child=0\n"
	  "verdict ABSORB\n",
	  "unfinished" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\npacket UPDATE seq=1 child=0 lanes=1,,2\n",
	  "no value" },
	{ "case a\nrule R-SW-1\njob children=2\nslot new\n"
	  "packet UPDATE seq=1 child=0 flags=ADD|BLUE\n",
	  "no value" },
	{ "case a\nrule R-LAT-6\njob children=2 mode=FAST\n", "no value" },
	{ "case a\nrule R-LAT-6\njob children=2 mode=LATENCY\nslot phase=1 final=0 members=1\n",
	  "unknown key" },
	{ "case a\nrule R-LAT-6\njob children=2 mode=LATENCY\nslot round=1\n", "missing" },
	{ "case a\nrule R-LAT-6\njob children=2 mode=LATENCY\nslot new\ncopy 0 tag=1\n",
	  "no copy" },
	{ "case a\nrule R-LAT-6\njob children=2 mode=LATENCY parent_job=1 parent_child=1\n",
	  "in dense mode" },
	{ "case A\n", "no name" },
	{ "rule R-SW-1\n", "no place" },
	{ "case a\nrule 4\n", "no rule" },
	{ "case a\nrule R-SW-1\nbytes none\nfault SHORT\ncase a\n", "two cases" },
};

static void the_reader_refuses_what_it_does_not_know(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct vector *first = NULL;
		char error[VECTORS_ERROR_MAX] = "";
		bool is_good = vectors_parse(refused[i][0], &first, error);

		if (is_good || !strstr(error, refused[i][1]))
			fail_msg("'%s' where '%s' was expected", error, refused[i][1]);
		vectors_free(first);
	}
}

static char *file_read(const char *path)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");
	size_t length;

	if (!file)
		return NULL;
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
	return text;
}

static bool directory_read(const char *directory)
{
	char pattern[1024], error[VECTORS_ERROR_MAX];
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/*.txt", directory);
	if (glob(pattern, 0, NULL, &files)) {
		fprintf(stderr, "%s: no vectors\n", pattern);
		return false;
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		const char *text = file_read(files.gl_pathv[i]);

		if (!text || !vectors_parse(text, &all, error)) {
			fprintf(stderr, "%s: %s\n", files.gl_pathv[i], text ? error : "unreadable");
			return false;
		}
	}
	globfree(&files);
	return true;
}

int main(int argc, char **argv)
{
	struct CMUnitTest *tests;
	size_t count = 2;
	int failed;

	if (argc != 2 || !directory_read(argv[1])) {
		fprintf(stderr, "usage: vectors_test DIRECTORY\n");
		return 2;
	}
	for (const struct vector *vector = all; vector; vector = vector->next)
		count++;
	tests = calloc(count, sizeof(*tests));
	tests[0] = (struct CMUnitTest)cmocka_unit_test(the_reader_refuses_what_it_does_not_know);
	tests[1] = (struct CMUnitTest)cmocka_unit_test(half_of_the_cases_lie_near_the_wrap_of_seq);
	count = 2;
	for (struct vector *vector = all; vector; vector = vector->next)
		tests[count++] = (struct CMUnitTest){
			.name = vector->name,
			.test_func = vector->is_shape ? shape_holds : step_holds,
			.initial_state = vector,
		};
	failed = _cmocka_run_group_tests("vectors", tests, count, NULL, NULL);
	free(tests);
	vectors_free(all);
	return failed;
}
