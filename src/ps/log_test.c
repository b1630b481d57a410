/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 40, FILE_MAX = 1 << 16, LOG_FILE = 4096 };

static char folder[] = "/tmp/tally-log-XXXXXX";
static char path[64], error[PS_ERROR_MAX];
static atomic_uint changes;
static const struct record_sum none;
static struct record_sum turned; /* what the log had then */

static void on_change(void *arg)
{
	(void)arg;
	changes++;
}

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/log", folder);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	return rmdir(folder);
}

static int file_remove(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static struct log *open_at(struct record_sum has)
{
	struct log_options options = { .path = path, .has = has, .changed = on_change };
	struct log *log;

	if (log_open(&log, &options, error))
		fail_msg("%s", error);
	return log;
}

/* Bounded: the disk of a busy machine may take seconds. */
static struct log_state wait_for(struct log *log, uint64_t position, bool is_trouble)
{
	struct log_state state;

	for (int i = 0; i < 6000; i++) {
		state = log_state(log);
		if (state.position >= position || (is_trouble && state.trouble))
			return state;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	fail_msg("nothing came of it in a minute");
	return state;
}

/* Record i: its type is 100 + i, its body i bytes of i. */
static void record_make(uint32_t i, uint8_t *body)
{
	memset(body, (int)i, i);
}

static uint64_t append_all(struct log *log, uint32_t first, uint32_t end, uint64_t *ends)
{
	uint64_t position = 0;

	for (uint32_t i = first; i < end; i++) {
		uint8_t body[RECORDS];

		record_make(i, body);
		position = log_append(log, i, 100 + i, body, i);
		if (ends)
			ends[i] = position;
	}
	return position;
}

struct seen {
	uint32_t count;
	bool is_wrong;
};

static int take(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes, char said[])
{
	struct seen *seen = arg;
	uint8_t want[RECORDS];

	(void)said;
	record_make(seen->count, want);
	if (type != 100 + seen->count || bytes != seen->count || memcmp(body, want, bytes) != 0)
		seen->is_wrong = true;
	seen->count++;
	return 0;
}

static size_t file_get(uint8_t *file)
{
	FILE *from = fopen(path, "rb");
	size_t bytes;

	assert_non_null(from);
	bytes = fread(file, 1, FILE_MAX, from);
	fclose(from);
	return bytes;
}

static void file_put(const uint8_t *file, size_t bytes)
{
	FILE *to = fopen(path, "wb");

	assert_non_null(to);
	assert_int_equal(fwrite(file, 1, bytes, to), bytes);
	assert_int_equal(fclose(to), 0);
}

static void log__records_come_back_from_the_disk(void **unused)
{
	uint8_t file[FILE_MAX];
	struct seen seen = { 0 };
	const char *why;
	size_t whole;
	struct log *log = open_at(none);
	uint64_t position = append_all(log, 0, RECORDS, NULL);

	(void)unused;
	assert_int_equal(wait_for(log, position, false).mark, RECORDS - 1);
	assert_true(changes);
	log_close(log);
	assert_int_equal(record_scan("F", file, file_get(file), take, &seen, &whole, &why, error),
			 0);
	assert_null(why);
	assert_int_equal(whole, position + RECORD_WHOLE_BYTES);
	assert_int_equal(seen.count, RECORDS);
	assert_false(seen.is_wrong);
}

/* However it was cut: the whole ones count, and what is appended then stands behind them. */
static void log__cut_anywhere_gives_the_whole_records(void **unused)
{
	uint64_t ends[RECORDS];
	uint8_t file[FILE_MAX], then[FILE_MAX];
	struct log *log = open_at(none);
	size_t bytes, whole;

	(void)unused;
	append_all(log, 0, RECORDS, ends);
	log_close(log);
	bytes = file_get(file);
	for (size_t cut = 0; cut <= bytes; cut++) {
		struct seen seen = { 0 };
		const char *why;
		uint32_t want = 0, last;

		while (want < RECORDS && ends[want] <= cut)
			want++;
		last = (uint32_t)(want ? ends[want - 1] : 0);
		assert_int_equal(record_scan("F", file, cut, take, &seen, &whole, &why, error), 0);
		assert_int_equal(seen.count, want);
		assert_false(seen.is_wrong);
		assert_true(whole == last || whole == last + RECORD_WHOLE_BYTES);
		assert_int_equal(why != NULL, whole != cut);
		assert_false(record_was_whole(file, cut, whole));
		if (cut % 97)
			continue;
		file_put(file, cut);
		log = open_at(record_sum_of(file, whole));
		append_all(log, want, RECORDS, NULL);
		log_close(log);
		seen.count = 0;
		assert_int_equal(record_scan("F", then, file_get(then), take, &seen, &whole, &why,
					     error),
				 0);
		assert_null(why);
		assert_int_equal(seen.count, RECORDS);
		assert_false(seen.is_wrong);
		assert_memory_equal(then, file, last);
	}
}

static void log__no_flipped_bit_is_believed(void **unused)
{
	uint8_t file[FILE_MAX];
	struct log *log = open_at(none);
	size_t bytes, whole, end = append_all(log, 0, RECORDS, NULL);

	(void)unused;
	log_close(log);
	bytes = file_get(file);
	for (size_t bit = 0; bit < 8 * end; bit += 5) {
		struct seen seen = { 0 };
		const char *why;

		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(record_scan("F", file, bytes, take, &seen, &whole, &why, error),
				 0);
		assert_non_null(why);
		assert_false(seen.is_wrong);
		assert_true(seen.count < RECORDS);
		assert_true(whole <= bit / 8);
		assert_true(record_was_whole(file, bytes, whole)); /* its end was an orderly one */
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static int refuse_third(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes, char said[])
{
	uint32_t *count = arg;

	(void)type;
	(void)body;
	(void)bytes;
	snprintf(said, PS_ERROR_MAX, "not this one");
	return ++*count == 3 ? -1 : 0;
}

static void log__what_does_not_fit_is_named_with_its_place(void **unused)
{
	uint8_t file[FILE_MAX];
	uint64_t ends[RECORDS];
	struct log *log = open_at(none);
	uint32_t count = 0;
	char want[64];
	const char *why;
	size_t whole;

	(void)unused;
	append_all(log, 0, RECORDS, ends);
	log_close(log);
	assert_int_equal(record_scan("F", file, file_get(file), refuse_third, &count, &whole, &why,
				     error),
			 -1);
	snprintf(want, sizeof(want), "F: at byte %u: not this one",
		 (unsigned)(ends[2] - RECORD_HEADER_BYTES - 2));
	assert_string_equal(error, want);
}

/* As after kill -9: the last write may be one that the disk has in part, what is before it was acknowledged. */
static void log__damage_of_all_but_the_last_write_is_told_from_a_crash(void **unused)
{
	uint8_t file[FILE_MAX];
	struct log *log = open_at(none);
	uint64_t first = append_all(log, 0, 10, NULL), second, third;
	size_t bytes;

	(void)unused;
	wait_for(log, first, false);
	second = append_all(log, 10, 20, NULL);
	wait_for(log, second, false);
	third = log_append(log, 20, 120, NULL, 0);
	wait_for(log, third, false);
	bytes = file_get(file);
	log_close(log);
	assert_int_equal(bytes, third);
	assert_true(record_was_whole(file, bytes, first / 2));
	assert_true(record_was_whole(file, bytes, second - 5));
	assert_false(record_was_whole(file, bytes, second + 1));
	/* Wherever it stands now. */
	memmove(file + first / 2 + 1, file + first / 2, bytes - first / 2);
	assert_true(record_was_whole(file, bytes + 1, first / 2 + 1));
	assert_false(record_was_whole(file, bytes + 1, second + 2));
}

static void limit(rlim_t bytes)
{
	struct rlimit size;

	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &size), 0);
}

/* A limit of the file's size is refused as a full disk is, and can be lifted. */
static void log__full_disk_is_told_and_nothing_lost_by_it(void **unused)
{
	static uint8_t body[LOG_FILE], file[FILE_MAX];
	struct log *log = open_at(none);
	uint64_t first, last;
	struct seen seen = { 0 };
	const char *why;
	struct log_state state;
	size_t whole;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	first = append_all(log, 0, RECORDS, NULL);
	wait_for(log, first, false);
	limit(first + LOG_FILE / 2);
	last = log_append(log, RECORDS, 7, body, sizeof(body));
	state = wait_for(log, last, true);
	assert_int_equal(state.trouble, EFBIG);
	assert_int_equal(state.position, first);
	assert_int_equal(state.mark, RECORDS - 1);
	/* A crash now: what was acknowledged is whole. */
	assert_int_equal(record_scan("F", file, file_get(file), refuse_third, &(uint32_t){ 3 },
				     &whole, &why, error),
			 0);
	assert_true(whole == first || whole == first + RECORD_WHOLE_BYTES);
	limit(RLIM_INFINITY);
	state = wait_for(log, last, false);
	assert_int_equal(state.trouble, 0);
	assert_int_equal(state.mark, RECORDS);
	log_close(log);
	assert_int_equal(file_get(file), last + RECORD_WHOLE_BYTES);
	assert_int_equal(record_scan("F", file, first, take, &seen, &whole, &why, error), 0);
	assert_int_equal(seen.count, RECORDS);
}

/* A worker waits for it. The thread looks by itself once a second, but is told. Of five the quickest: disks stall. */
static void log__idle_thread_writes_what_comes_at_once(void **state)
{
	struct log *log = open_at(none);
	double least_s = 60;
	uint8_t body[RECORDS];

	(void)state;
	wait_for(log, append_all(log, 0, 1, NULL), false);
	record_make(1, body);
	for (int i = 0; i < 5; i++) {
		struct timespec begin, end;
		double took_s;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		wait_for(log, log_append(log, 1, 101, body, 1), false);
		clock_gettime(CLOCK_MONOTONIC, &end);
		took_s = (double)(end.tv_sec - begin.tv_sec) +
			 (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
		least_s = took_s < least_s ? took_s : least_s;
	}
	log_close(log);
	assert_true(least_s < 0.5);
}

static void log__turn_goes_on_in_a_new_file(void **unused)
{
	uint8_t file[FILE_MAX];
	char second[64], first[64];
	struct log *log = open_at(none);
	uint64_t before = append_all(log, 0, RECORDS / 2, NULL), after;

	(void)unused;
	snprintf(first, sizeof(first), "%s", path);
	snprintf(second, sizeof(second), "%s/second", folder);
	assert_int_equal(log_turn(log, second, &turned, error), 0);
	assert_int_equal(log_state(log).position, before);
	after = append_all(log, RECORDS / 2, RECORDS, NULL);
	wait_for(log, after, false);
	log_close(log);
	assert_int_equal(file_get(file), before);
	snprintf(path, sizeof(path), "%s", second);
	assert_int_equal(file_get(file), after - before + RECORD_WHOLE_BYTES);
	unlink(second);
	snprintf(path, sizeof(path), "%s", first);
}

/* Who appends is not held up by a disk that fails, and can see when to leave off. */
static void log__failing_disk_holds_nobody_up(void **unused)
{
	static uint8_t body[LOG_FILE];
	struct log_options options = { .path = path,
				       .waiting_max = LOG_FILE,
				       .changed = on_change };
	uint64_t last, waits;
	struct log *log;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(log_open(&log, &options, error), 0);
	limit(1);
	last = log_append(log, 1, 7, body, sizeof(body));
	wait_for(log, last, true);
	assert_false(log_state(log).is_stuck);
	waits = log_append(log, 2, 7, body, 0) - last + RECORD_HEADER_BYTES;
	log_append(log, 2, 7, body, (uint32_t)(LOG_FILE - waits)); /* to the last byte that may */
	assert_false(log_state(log).is_stuck);
	for (int i = 0; i < 4; i++)
		last = log_append(log, 2, 7, body, sizeof(body));
	assert_true(log_state(log).is_stuck);
	limit(RLIM_INFINITY);
	wait_for(log, last, false);
	assert_false(log_state(log).is_stuck);
	log_close(log);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A disk that is full is tried once a second, and the table is told as often: not as fast as a processor can. */
static void log__failing_disk_is_tried_once_a_second(void **unused)
{
	struct log *log = open_at(none);
	uint64_t last, begun_ms;
	unsigned begun;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	limit(1);
	last = append_all(log, 0, 10, NULL);
	wait_for(log, last, true);
	begun = changes;
	begun_ms = now_ms();
	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	assert_in_range(changes - begun, 0, 2 + (now_ms() - begun_ms) / 1000);
	limit(RLIM_INFINITY);
	wait_for(log, last, false);
	log_close(log);
}

/* The new file is not even tried before the old one is whole: who finds it may rely on that. */
static void log__turn_waits_for_the_old_file_first(void **unused)
{
	static uint8_t body[LOG_FILE];
	struct log *log = open_at(none);
	char nowhere[64], second[64];
	uint64_t last;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	snprintf(nowhere, sizeof(nowhere), "%s/nowhere/second", folder);
	snprintf(second, sizeof(second), "%s/second", folder);
	limit(LOG_FILE / 2);
	last = log_append(log, 1, 7, body, sizeof(body));
	assert_int_equal(log_turn(log, nowhere, &turned, error), -1);
	assert_non_null(strstr(error, "second: the log before it: File too large"));
	assert_int_equal(log_turn(log, second, &turned, error), -1);
	assert_int_equal(access(second, F_OK), -1);
	limit(RLIM_INFINITY);
	wait_for(log, last, false);
	assert_int_equal(log_turn(log, nowhere, &turned, error), -1);
	assert_non_null(strstr(error, "second: No such file or directory"));
	log_close(log);
}

/* Its descriptor takes all that is written, for nobody. */
static void log__deleted_file_takes_nothing_more(void **unused)
{
	struct log *log = open_at(none);
	uint64_t first = append_all(log, 0, 10, NULL), last;
	struct log_state state;

	(void)unused;
	wait_for(log, first, false);
	assert_int_equal(unlink(path), 0);
	last = append_all(log, 10, 20, NULL);
	state = wait_for(log, last, true);
	assert_int_equal(state.trouble, ENOENT);
	assert_int_equal(state.position, first);
	assert_string_equal(log_why(state.trouble), "its file was deleted");
	log_close(log);
	/* Nobody has to write for that. */
	log = open_at(none);
	assert_int_equal(unlink(path), 0);
	state = wait_for(log, 1, true);
	assert_int_equal(state.trouble, ENOENT);
	log_close(log);
}

/* The new file must not hide it: what is acknowledged rests on both. */
static void log__deleted_file_is_not_followed_by_another(void **unused)
{
	struct log *log = open_at(none);
	uint64_t first = append_all(log, 0, 10, NULL), last;
	struct log_state state;
	char second[64];

	(void)unused;
	snprintf(second, sizeof(second), "%s/second", folder);
	wait_for(log, first, false);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(log_turn(log, second, &turned, error), -1);
	assert_non_null(strstr(error, "its file was deleted"));
	assert_int_equal(access(second, F_OK), -1);
	assert_int_equal(log_state(log).trouble, ENOENT);
	last = append_all(log, 10, 20, NULL);
	state = wait_for(log, last, true);
	assert_int_equal(state.trouble, ENOENT);
	assert_int_equal(state.position, first);
	log_close(log);
}

static struct log *turned_away(char second[64])
{
	struct log *log = open_at(none);

	snprintf(second, 64, "%s/second", folder);
	append_all(log, 0, 10, NULL);
	assert_int_equal(log_turn(log, second, &turned, error), 0);
	return log;
}

/* Until a checkpoint stands for it, what is acknowledged rests on it. */
static void log__deleted_file_before_it_is_found_until_it_is_forgotten(void **unused)
{
	char second[64], third[64];
	struct log *log = turned_away(second);
	uint64_t kept = append_all(log, 10, 20, NULL), last;
	struct log_state state;

	(void)unused;
	snprintf(third, sizeof(third), "%s/third", folder);
	wait_for(log, kept, false);
	assert_int_equal(unlink(path), 0);
	last = append_all(log, 20, 30, NULL);
	state = wait_for(log, last, true);
	assert_int_equal(state.trouble, ENOENT);
	assert_int_equal(state.position, kept);
	assert_int_equal(log_turn(log, third, &turned, error), -1);
	assert_non_null(strstr(error, "its file was deleted"));
	assert_int_equal(access(third, F_OK), -1);
	log_forget(log);
	wait_for(log, last, false);
	assert_int_equal(log_state(log).trouble, 0);
	log_close(log);
	/* Nobody has to write for that; what was forgotten may go. */
	unlink(second);
	log = turned_away(second);
	log_forget(log);
	assert_int_equal(unlink(path), 0);
	last = append_all(log, 10, 20, NULL);
	wait_for(log, last, false);
	assert_int_equal(log_turn(log, third, &turned, error), 0);
	assert_int_equal(unlink(second), 0);
	state = wait_for(log, last + 1, true);
	assert_int_equal(state.trouble, ENOENT);
	log_close(log);
	unlink(third);
}

static unsigned files_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 100; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void log__turns_without_end_take_few_descriptors(void **unused)
{
	unsigned before = files_open();
	struct log *log = open_at(none);
	char other[64];

	(void)unused;
	for (unsigned i = 0; i < 3 * LOG_OLD_MAX; i++) {
		log_append(log, i, 7, (const uint8_t *)"four", 4);
		snprintf(other, sizeof(other), "%s/%u", folder, i);
		if (log_turn(log, other, &turned, error))
			fail_msg("%s", error);
	}
	assert_int_equal(files_open(), before + 1 + LOG_OLD_MAX);
	log_close(log);
	assert_int_equal(files_open(), before);
	for (unsigned i = 0; i < 3 * LOG_OLD_MAX; i++) {
		snprintf(other, sizeof(other), "%s/%u", folder, i);
		assert_int_equal(unlink(other), 0);
	}
}

/* R-KV-25, R-KV-26 and R-KV-27, byte by byte: another program may have written them. */
static void log__files_are_as_the_protocol_has_them(void **unused)
{
	static const uint8_t golden[] = {
		/* BARRIER 3, and what an orderly end writes behind it: WHOLE at 20 */
		0x08, 0x00, 0x00, 0x00, 0x6a, 0x72, 0x9a, 0x86, 0x11, 0x00, 0x00, 0x00, 0x03, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0xc9, 0x70, 0x4d, 0x6d,
		0x18, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
	}, golden_before[RECORD_BEFORE_BYTES] = {
		/* number 4: 40 bytes, 1 record */
		[0] = 0x04, [8] = 0x28, [16] = 0x01, [40] = 0x74, 0x82, 0x59, 0x0a
	}, golden_join[] = {
		/* map 9, generation 2 << 40 | 5, worker 1 of a table of dim 2, incarnation 7 */
		0x2c, 0x00, 0x00, 0x00, 0xfc, 0x52, 0xf2, 0x02, 0x03, 0x00, 0x00, 0x00, 0x09, 0x00,
		0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
		0x02, 0x00, 0x00, 0x00, 0x07, [55] = 0
	};
	static const struct sparse_table shape = { .workers = 2, .window = 4, .dim = 2 };
	struct server_sparse_record join = { .kind = SERVER_SPARSE_JOIN,
					     .map = 9,
					     .generation = 2ull << 40 | 5,
					     .worker = 1,
					     .incarnation = 7 };
	uint8_t file[FILE_MAX], before[RECORD_BEFORE_BYTES], three[8] = { 3 };
	struct log *log = open_at(none);
	struct bytes body = { 0 }, out = { 0 };
	struct record_sum sum;

	(void)unused;
	log_append(log, 1, RECORD_BARRIER, three, sizeof(three));
	log_close(log);
	assert_int_equal(file_get(file), sizeof(golden));
	assert_memory_equal(file, golden, sizeof(golden));
	sum = record_sum_of(file, sizeof(golden));
	record_before_put(before, 4, &sum);
	assert_memory_equal(before, golden_before, sizeof(before));
	record_step_put(&body, &join, &shape, NULL, 0);
	record_frame(&out, SERVER_SPARSE_JOIN, body.at, (uint32_t)body.count);
	assert_int_equal(out.count, sizeof(golden_join));
	assert_memory_equal(out.at, golden_join, sizeof(golden_join));
	bytes_fini(&body);
	bytes_fini(&out);
}

static void log__folder_that_is_not_there_is_named(void **unused)
{
	struct log_options options = { .path = "/nowhere/log", .changed = on_change };
	struct log *log;

	(void)unused;
	assert_int_equal(log_open(&log, &options, error), -1);
	assert_string_equal(error, "/nowhere/log: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(log__records_come_back_from_the_disk, file_remove),
		cmocka_unit_test_teardown(log__cut_anywhere_gives_the_whole_records, file_remove),
		cmocka_unit_test_teardown(log__no_flipped_bit_is_believed, file_remove),
		cmocka_unit_test_teardown(log__what_does_not_fit_is_named_with_its_place,
					  file_remove),
		cmocka_unit_test_teardown(
			log__damage_of_all_but_the_last_write_is_told_from_a_crash, file_remove),
		cmocka_unit_test_teardown(log__full_disk_is_told_and_nothing_lost_by_it,
					  file_remove),
		cmocka_unit_test_teardown(log__idle_thread_writes_what_comes_at_once, file_remove),
		cmocka_unit_test_teardown(log__turn_goes_on_in_a_new_file, file_remove),
		cmocka_unit_test_teardown(log__failing_disk_holds_nobody_up, file_remove),
		cmocka_unit_test_teardown(log__failing_disk_is_tried_once_a_second, file_remove),
		cmocka_unit_test_teardown(log__turn_waits_for_the_old_file_first, file_remove),
		cmocka_unit_test(log__deleted_file_takes_nothing_more),
		cmocka_unit_test(log__deleted_file_is_not_followed_by_another),
		cmocka_unit_test_teardown(
			log__deleted_file_before_it_is_found_until_it_is_forgotten, file_remove),
		cmocka_unit_test_teardown(log__turns_without_end_take_few_descriptors, file_remove),
		cmocka_unit_test_teardown(log__files_are_as_the_protocol_has_them, file_remove),
		cmocka_unit_test(log__folder_that_is_not_there_is_named),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
