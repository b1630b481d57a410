/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden packets of tests/vectors/sparse, run against core/sparse/wire_sparse.h: one test per case, named as
 * its claim. What the text may say is in tests/vectors/README.md; all else is an error. Argument: the
 * directory.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/wire_sparse.h"

enum { NUMBERS_MAX = 64, ITEMS_MAX = 8, CASES_MAX = 200, CASE_NAME_MAX = 120 };

struct item {
	uint32_t rank, count;
	uint64_t number[NUMBERS_MAX];
};

struct golden {
	char name[CASE_NAME_MAX];
	uint8_t bytes[SPARSE_BYTES_MAX + 64];
	uint32_t bytes_count;
	enum wire_fault fault;
	bool has_rule, has_bytes, has_fault, has_packet;
	struct sparse packet;
	uint64_t instance;
	struct item item[ITEMS_MAX];
};

static struct golden *all[CASES_MAX];
static size_t all_count;

static const char *const kinds[SPARSE_KIND_END] = {
	[SPARSE_PUSH] = "PUSH",
	[SPARSE_ACK] = "ACK",
	[SPARSE_ASK] = "ASK",
	[SPARSE_FLIP] = "FLIP",
	[SPARSE_CUT] = "CUT",
	[SPARSE_FLUSH] = "FLUSH",
	[SPARSE_COMMITTED] = "COMMITTED",
	[SPARSE_BCAST] = "BCAST",
	[SPARSE_SETUP] = "SETUP",
	[SPARSE_READY] = "READY",
	[SPARSE_RESUME] = "RESUME",
	[SPARSE_RESUMED] = "RESUMED",
	[SPARSE_END] = "END",
	[SPARSE_HAVE] = "HAVE",
	[SPARSE_FLUSH_SHORT] = "FLUSH_SHORT",
};
static const char *const faults[WIRE_FAULT_COUNT] = { "OK",    "SHORT",  "VERSION", "TYPE",
						      "LANES", "LENGTH", "FLAGS" };

/* ---- reading ---- */

static bool number_read(const char *text, uint64_t *number)
{
	char *end;

	if (!*text)
		return false;
	*number = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
	return !*end;
}

static bool name_read(const char *const *names, size_t count, const char *text, uint32_t *value)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i] && !strcmp(names[i], text)) {
			*value = (uint32_t)i;
			return true;
		}
	}
	return false;
}

static bool bytes_read(struct golden *now, char *rest)
{
	now->has_bytes = true;
	if (!strcmp(rest, "none"))
		return true;
	for (char *word; (word = strsep(&rest, " "));) {
		char *end;
		unsigned long byte = strtoul(word, &end, 16), times = 1;

		if (end != word + 2 || (*end && *end != '*'))
			return false;
		if (*end)
			times = strtoul(end + 1, &end, 10);
		if (*end || !times || now->bytes_count + times > sizeof(now->bytes))
			return false;
		memset(now->bytes + now->bytes_count, (int)byte, times);
		now->bytes_count += (uint32_t)times;
	}
	return true;
}

static bool flags_read(char *text, uint64_t *flags)
{
	*flags = 0;
	for (char *word; (word = strsep(&text, "|"));) {
		if (!strcmp(word, "SATURATED"))
			*flags |= SPARSE_SATURATED;
		else if (!strcmp(word, "NONFINITE"))
			*flags |= SPARSE_NONFINITE;
		else
			return false;
	}
	return true;
}

static bool field_read(struct sparse *packet, char *word)
{
	char *value = strchr(word, '=');
	uint64_t number;

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(word, "worker") && !strcmp(value, "SERVER"))
		number = SPARSE_SERVER;
	else if (!strcmp(word, "flags") ? !flags_read(value, &number)
					: !number_read(value, &number))
		return false;
	if (!strcmp(word, "table"))
		packet->table = (uint16_t)number;
	else if (!strcmp(word, "worker"))
		packet->worker = (uint16_t)number;
	else if (!strcmp(word, "generation"))
		packet->generation = number;
	else if (!strcmp(word, "number"))
		packet->number = number;
	else if (!strcmp(word, "map"))
		packet->map = (uint32_t)number;
	else if (!strcmp(word, "part"))
		packet->part = (uint32_t)number;
	else if (!strcmp(word, "parts"))
		packet->parts = (uint32_t)number;
	else if (!strcmp(word, "width"))
		packet->width = (uint16_t)number;
	else if (!strcmp(word, "flags"))
		packet->flags = (uint16_t)number;
	else
		return false;
	return true;
}

static bool packet_read(struct golden *now, char *rest)
{
	char *word = strsep(&rest, " ");
	uint32_t kind;

	if (!name_read(kinds, SPARSE_KIND_END, word, &kind))
		return false;
	now->has_packet = true;
	now->packet.kind = (uint8_t)kind;
	while ((word = strsep(&rest, " ")))
		if (!field_read(&now->packet, word))
			return false;
	return true;
}

/* `RANK: 1,-2` or, of a row, `1,2` */
static bool item_read(struct golden *now, char *rest)
{
	struct item *item = &now->item[now->packet.count];
	char *colon = strchr(rest, ':');
	uint64_t number;

	if (now->packet.count == ITEMS_MAX)
		return false;
	if (colon) {
		*colon = '\0';
		if (!number_read(rest, &number))
			return false;
		item->rank = (uint32_t)number;
		rest = colon + 2;
	}
	for (char *word; (word = strsep(&rest, ","));)
		if (item->count == NUMBERS_MAX || !number_read(word, &item->number[item->count++]))
			return false;
	now->packet.count++;
	return true;
}

static bool line_read(char *line)
{
	char *rest = line, *keyword = strsep(&rest, " ");
	struct golden *now = all_count ? all[all_count - 1] : NULL;
	uint32_t fault = 0;

	if (!rest)
		return false;
	if (!strcmp(keyword, "case")) {
		if (all_count == CASES_MAX || strlen(rest) >= CASE_NAME_MAX)
			return false;
		now = all[all_count++] = calloc(1, sizeof(*now));
		strcpy(now->name, rest);
		return true;
	}
	if (!now)
		return false;
	if (!strcmp(keyword, "rule"))
		return now->has_rule = !strncmp(rest, "R-SP-", 5);
	if (!strcmp(keyword, "bytes"))
		return bytes_read(now, rest);
	if (!strcmp(keyword, "fault")) {
		now->has_fault = name_read(faults, WIRE_FAULT_COUNT, rest, &fault);
		now->fault = (enum wire_fault)fault;
		return now->has_fault;
	}
	if (!strcmp(keyword, "packet"))
		return packet_read(now, rest);
	if (!strcmp(keyword, "instance"))
		return number_read(rest, &now->instance);
	return !strcmp(keyword, "item") && item_read(now, rest);
}

static bool file_read(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[2048];
	uint32_t number = 0;
	bool is_good = file != NULL;

	while (is_good && fgets(line, sizeof(line), file)) {
		number++;
		line[strcspn(line, "\n")] = '\0';
		is_good = !*line || *line == '#' || line_read(line);
	}
	for (size_t i = 0; is_good && i < all_count; i++)
		is_good = all[i]->has_rule && all[i]->has_bytes && all[i]->has_fault &&
			  all[i]->has_packet == (all[i]->fault == WIRE_OK);
	if (!is_good)
		fprintf(stderr, "%s:%u: not as tests/vectors/README.md says\n", path, number);
	if (file)
		fclose(file);
	return is_good;
}

/* ---- comparing ---- */

static void headers_are_same(const struct sparse *got, const struct sparse *want)
{
	assert_int_equal(got->kind, want->kind);
	assert_int_equal(got->table, want->table);
	assert_int_equal(got->worker, want->worker);
	assert_int_equal(got->count, want->count);
	assert_int_equal(got->generation, want->generation);
	assert_int_equal(got->number, want->number);
	assert_int_equal(got->map, want->map);
	assert_int_equal(got->part, want->part);
	assert_int_equal(got->parts, want->parts);
	assert_int_equal(got->width, want->width);
	assert_int_equal(got->flags, want->flags);
}

static void item_is_same(uint8_t kind, const uint8_t *at, const struct item *want)
{
	bool is_short = kind == SPARSE_PUSH || kind == SPARSE_BCAST || kind == SPARSE_FLUSH_SHORT;
	bool has_rank = is_short || kind == SPARSE_FLUSH;

	if (has_rank) {
		assert_int_equal(sparse_body_get32(at), want->rank);
		at += SPARSE_RANK_BYTES;
	}
	for (uint32_t i = 0; i < want->count; i++)
		assert_int_equal(is_short
					 ? (uint64_t)(int64_t)(int32_t)sparse_body_get32(at + 4 * i)
					 : sparse_body_get64(at + 8 * i),
				 want->number[i]);
}

/* The datagram lies in memory of just its size: a byte read beyond it is seen by asan. */
static void case_holds(void **state)
{
	const struct golden *golden = *state;
	uint8_t *bytes = malloc(golden->bytes_count), header[SPARSE_HEADER_BYTES];
	struct sparse packet = { 0 };

	if (golden->bytes_count)
		memcpy(bytes, golden->bytes, golden->bytes_count);
	assert_string_equal(faults[sparse_check(bytes, golden->bytes_count, &packet)],
			    faults[golden->fault]);
	if (golden->fault == WIRE_OK) {
		headers_are_same(&packet, &golden->packet);
		for (uint32_t i = 0; i < packet.count; i++) {
			assert_int_equal(golden->item[i].count, packet.width);
			item_is_same(packet.kind, sparse_item(&packet, bytes, i), &golden->item[i]);
		}
		if (packet.kind == SPARSE_SETUP)
			assert_int_equal(sparse_body_get64(bytes + SPARSE_HEADER_BYTES),
					 golden->instance);
		sparse_put(header, &packet);
		assert_memory_equal(header, bytes, sizeof(header));
	}
	free(bytes);
}

static void every_kind_and_every_fault_has_a_case(void **state)
{
	bool has_kind[SPARSE_KIND_END] = { false }, has_fault[WIRE_FAULT_COUNT] = { false };

	(void)state;
	for (size_t i = 0; i < all_count; i++) {
		has_fault[all[i]->fault] = true;
		has_kind[all[i]->packet.kind] = true;
	}
	for (uint32_t kind = 1; kind < SPARSE_KIND_END; kind++)
		if (!has_kind[kind])
			fail_msg("no case shows %s", kinds[kind]);
	for (uint32_t fault = 0; fault < WIRE_FAULT_COUNT; fault++)
		if (!has_fault[fault])
			fail_msg("no case shows %s", faults[fault]);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[CASES_MAX + 1];
	char pattern[1024];
	glob_t files;
	int failed;

	if (argc != 2)
		return 2;
	snprintf(pattern, sizeof(pattern), "%s/*.txt", argv[1]);
	if (glob(pattern, 0, NULL, &files))
		return 2;
	for (size_t i = 0; i < files.gl_pathc; i++)
		if (!file_read(files.gl_pathv[i]))
			return 2;
	globfree(&files);
	tests[0] = (struct CMUnitTest)cmocka_unit_test(every_kind_and_every_fault_has_a_case);
	for (size_t i = 0; i < all_count; i++)
		tests[i + 1] = (struct CMUnitTest){ .name = all[i]->name,
						    .test_func = case_holds,
						    .initial_state = all[i] };
	failed = _cmocka_run_group_tests("vectors-sparse", tests, all_count + 1, NULL, NULL);
	for (size_t i = 0; i < all_count; i++)
		free(all[i]);
	return failed;
}
