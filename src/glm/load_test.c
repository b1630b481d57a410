/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/load.h"

#include "core/shared/hash.h"
#include "files/file_fixture.h"
#include "files/source.h"
#include "glm/score.h"
#include "util/memory_fixture.h"
#include "util/rng.h"

static char error[GLM_ERROR_MAX];

static struct glm_load_options of_rank(uint32_t rank, uint32_t ranks, uint32_t threads)
{
	return (struct glm_load_options){ .rank = rank, .ranks = ranks, .threads = threads };
}

static void loads(struct glm_data *data, const char *path, const struct glm_load_options *options)
{
	if (glm_load(data, path, options, error))
		fail_msg("%s", error);
}

static void fails(const char *path, const struct glm_load_options *options, const char *what)
{
	static const struct glm_data none;
	struct glm_data data;

	memset(&data, 0xff, sizeof(data));
	assert_int_equal(glm_load(&data, path, options, error), -1);
	assert_memory_equal(&data, &none, sizeof(data));
	assert_int_equal(strncmp(error, path, strlen(path)), 0);
	assert_string_equal(error + strlen(path), what);
}

/* Rows as they were written, non-zeros one after the other. */
struct truth {
	uint64_t rows, count, features;
	uint64_t *start;
	uint32_t *feature;
	float *value;
	char *text;
	size_t bytes;
};

static void truth_begin(struct truth *truth, uint64_t rows, uint64_t nonzeros)
{
	*truth = (struct truth){ .start = calloc(rows + 1, sizeof(*truth->start)),
				 .feature = malloc((nonzeros + 1) * sizeof(*truth->feature)),
				 .value = malloc((nonzeros + 1) * sizeof(*truth->value)),
				 .text = malloc(rows * 16 + nonzeros * 24) };
	assert_non_null(truth->start);
	assert_non_null(truth->feature);
	assert_non_null(truth->value);
	assert_non_null(truth->text);
}

static void truth_free(struct truth *truth)
{
	free(truth->start);
	free(truth->feature);
	free(truth->value);
	free(truth->text);
}

static void truth_label(struct truth *truth, int label)
{
	truth->bytes +=
		(size_t)sprintf(truth->text + truth->bytes, "%s%d", truth->rows ? "\n" : "", label);
	truth->start[++truth->rows] = truth->count;
}

static void truth_put(struct truth *truth, uint32_t feature, int value)
{
	truth->bytes += (size_t)sprintf(truth->text + truth->bytes, " %u:%d", feature + 1, value);
	truth->feature[truth->count] = feature;
	truth->value[truth->count++] = (float)value;
	truth->start[truth->rows] = truth->count;
	if (truth->features <= feature)
		truth->features = (uint64_t)feature + 1;
}

/* Sparse rows without any order that a split could profit from. */
static void truth_draw(struct truth *truth, uint64_t rows, uint32_t features, uint32_t density)
{
	struct rng rng;

	rng_init(&rng, 5, rows);
	truth_begin(truth, rows, rows * (features / density + 2) * 2);
	for (uint64_t row = 0; row < rows; row++) {
		truth_label(truth, rng_below(&rng, 2) ? 1 : -1);
		for (uint32_t f = rng_below(&rng, 2 * density); f < features;
		     f += 1 + rng_below(&rng, 2 * density))
			truth_put(truth, f, 1 + (int)rng_below(&rng, 1000));
	}
}

/* What this rank has of a row, in its place in found[]; false: it is not the row's. (A claim per non-zero would
 * take longer than all else here.) */
static bool row_collect(const struct glm_data *data, const struct truth *truth, uint64_t row,
			uint8_t *found)
{
	bool is_good = true;

	for (uint32_t i = 0; i < data->shares_count; i++) {
		const struct glm_share *share = &data->shares[i];
		uint64_t k = truth->start[row], end = truth->start[row + 1];

		is_good &= share->start[row] <= share->start[row + 1];
		for (uint64_t at = share->start[row]; is_good && at < share->start[row + 1]; at++) {
			uint32_t f = columns_global(&data->columns, data->share_first + i,
						    share->column[at]);

			while (k < end && truth->feature[k] < f)
				k++;
			is_good = (at == share->start[row] ||
				   share->column[at] > share->column[at - 1]) &&
				  share->column[at] < share->columns && k < end &&
				  truth->feature[k] == f && truth->value[k] == share->value[at];
			found[k] = (uint8_t)(found[k] + 1);
		}
	}
	return is_good;
}

/* All ranks together have every non-zero once; the most that one share has. */
static uint64_t ranks_check(const struct truth *truth, const char *path, uint32_t ranks,
			    uint32_t threads)
{
	uint8_t *found = calloc(truth->count + 1, 1);
	uint64_t most = 0, columns = 0;

	assert_non_null(found);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		struct glm_load_options options = of_rank(rank, ranks, threads);
		struct glm_data data;

		loads(&data, path, &options);
		assert_int_equal(data.rows, truth->rows);
		assert_int_equal(data.features, truth->features);
		assert_int_equal(data.nonzeros, truth->count);
		assert_int_equal(data.shares_count, threads);
		assert_int_equal(data.share_first, rank * threads);
		for (uint64_t row = 0; row < data.rows; row++)
			assert_true(row_collect(&data, truth, row, found));
		for (uint32_t i = 0; i < threads; i++) {
			columns += data.shares[i].columns;
			if (most < data.shares[i].start[data.rows])
				most = data.shares[i].start[data.rows];
		}
		glm_data_free(&data);
	}
	for (uint64_t k = 0; k < truth->count; k++) {
		if (found[k] != 1)
			fail_msg("non-zero %llu: %u times", (unsigned long long)k, found[k]);
	}
	assert_int_equal(columns, truth->features);
	free(found);
	return most;
}

static void load__every_nonzero_has_one_owner(void **state)
{
	struct truth truth;
	const char *path;

	(void)state;
	truth_draw(&truth, 500, 3000, 20);
	path = file_write(truth.text, truth.bytes);
	assert_int_equal(ranks_check(&truth, path, 1, 1), truth.count);
	ranks_check(&truth, path, 2, 1);
	ranks_check(&truth, path, 1, 3);
	assert_true(ranks_check(&truth, path, 4, 2) < truth.count / 8 * 105 / 100);
	truth_free(&truth);
}

/* The first rows are the sample; half of what follows has features that the sample had not. */
static void load__rows_after_the_sample_are_split_as_it_says(void **state)
{
	enum { FEATURES = 700, ROWS = 3100, MORE = 40000 };
	struct truth truth;
	uint64_t most;

	(void)state;
	truth_begin(&truth, ROWS + 1000, ROWS * FEATURES + 1000 * 20);
	for (int row = 0; row < ROWS; row++) {
		truth_label(&truth, row & 1);
		for (uint32_t f = 0; f < FEATURES; f++)
			truth_put(&truth, f, 1);
	}
	assert_true(truth.count > 1 << 21);
	for (int row = 0; row < 1000; row++) {
		truth_label(&truth, row & 1);
		for (uint32_t f = 0; f < 20; f++)
			truth_put(&truth, f * 35 + (f < 10 ? 0 : MORE * (f - 9)), 2);
	}
	most = ranks_check(&truth, file_write(truth.text, truth.bytes), 3, 1);
	assert_true(most < truth.count / 3 * 101 / 100);
	truth_free(&truth);
}

static void load__zeros_are_left_out(void **state)
{
	struct glm_load_options options = { 0 };
	struct glm_data data;

	(void)state;
	loads(&data, file_text("1 1:0 2:3 9:0\n2 1:-0\n"), &options);
	assert_int_equal(data.rows, 2);
	assert_int_equal(data.features, 9);
	assert_int_equal(data.nonzeros, 1);
	assert_int_equal(data.shares[0].start[1], 1);
	assert_int_equal(data.shares[0].start[2], 1);
	assert_int_equal(data.shares[0].column[0], 1);
	assert_int_equal(data.shares[0].columns, 9);
	glm_data_free(&data);
}

/* All but what a source takes, which strdup makes one piece less: that is not counted. */
static void load__takes_no_memory_that_is_not_given_back(void **state)
{
	struct glm_load_options options = of_rank(0, 1, 3);
	const char *path = file_text("1 1:1 2:3 9:4\n2 1:5 8:1\n");
	struct source *source;
	struct glm_data data;
	int held;

	(void)state;
	memory_count(0);
	assert_int_equal(source_open(&source, path, error), 0);
	source_close(source);
	held = memory.held;
	memory_count(0);
	loads(&data, path, &options);
	assert_true(memory.held > held);
	glm_data_free(&data);
	assert_int_equal(memory.held, held);
	memory.is_counting = false;
}

static void load__labels_are_those_of_the_file_in_order_of_appearance(void **state)
{
	struct glm_load_options options = { .classes_min = 2 };
	struct glm_data data;

	(void)state;
	loads(&data, file_text("3 1:1\n-1 1:1\n3 2:1\n0.5\n-1\n"), &options);
	assert_int_equal(data.rows, 5);
	assert_true(data.label[0] == 3);
	assert_true(data.label[3] == 0.5);
	assert_int_equal(data.classes_count, 3);
	assert_true(data.classes[0] == 3);
	assert_true(data.classes[1] == -1);
	assert_true(data.classes[2] == 0.5);
	glm_data_free(&data);
}

/* Every rank, alone and among others, and whichever of both ways it trains in (one rank's share is all columns). */
static void classes_are(const char *text, uint32_t count, double first, double second)
{
	const char *path = file_text(text);

	for (uint32_t ranks = 1; ranks <= 3; ranks++)
		for (uint32_t rank = 0; rank < ranks; rank++) {
			struct glm_load_options options = of_rank(rank, ranks, ranks);
			struct glm_data data;

			loads(&data, path, &options);
			assert_int_equal(data.classes_count, count);
			assert_true(data.classes[0] == first);
			assert_true(data.classes[1] == second);
			glm_data_free(&data);
		}
}

static void load__plus_one_is_before_minus_one_and_nothing_else_is_turned(void **state)
{
	(void)state;
	classes_are("-1 1:1\n+1 2:1\n-1\n", 2, 1, -1);
	classes_are("-1.0 1:1\n-1\n1e0 2:1\n", 2, 1, -1);
	classes_are("1 1:1\n-1 2:1\n", 2, 1, -1);
	classes_are("-1 1:1\n1 2:1\n2 1:1\n", 3, -1, 1);
	classes_are("-2 1:1\n1 2:1\n", 2, -2, 1);
	classes_are("-1 1:1\n2 2:1\n", 2, -1, 2);
	classes_are("0 1:1\n1 2:1\n", 2, 0, 1);
	classes_are("-1 1:1\n-1 2:1\n", 1, -1, 0);
}

/* As liblinear says of them: w8a has 8 % of these rows, and begins with -1. */
static void load__rows_without_features_are_minus_one(void **state)
{
	struct glm_load_options options = { .classes_min = 2 };
	double activation[] = { -2, 3, 0, 0 };
	struct score_labels labels;
	struct glm_data data;
	struct score score;

	(void)state;
	loads(&data, file_text("-1 1:1\n+1 2:1\n-1\n-1\n"), &options);
	labels = (struct score_labels){ GLM_LOGISTIC, data.classes, data.classes_count };
	assert_int_equal(score_make(&score, &labels, data.label, activation, data.rows), 0);
	assert_true(score.accuracy == 1);
	glm_data_free(&data);
}

static void load__too_many_classes_are_named_but_numbers_are_none(void **state)
{
	struct glm_load_options options = { 0 };
	struct glm_data data;
	char text[1000];
	size_t used = 0;

	(void)state;
	for (int i = 0; i <= GLM_CLASSES_MAX; i++)
		used += (size_t)sprintf(text + used, "%d 1:1\n", i);
	fails(file_text(text), &options,
	      ":65:1: a label of one more class: there may be 64; labels that are numbers are for "
	      "least squares");
	options.is_regression = true;
	loads(&data, file_text(text), &options);
	assert_int_equal(data.rows, GLM_CLASSES_MAX + 1);
	assert_int_equal(data.classes_count, 0);
	glm_data_free(&data);
}

static void load__one_class_is_refused_where_two_are_needed(void **state)
{
	struct glm_load_options options = { .classes_min = 2 };
	struct glm_data data;

	(void)state;
	fails(file_text("1 1:1\n1 2:1\n"), &options,
	      ": all labels are the same: there is nothing to tell apart");
	options.is_regression = true;
	loads(&data, file_text("1 1:1\n1 2:1\n"), &options);
	glm_data_free(&data);
	options = (struct glm_load_options){ 0 };
	loads(&data, file_text("1 1:1\n1 2:1\n"), &options);
	glm_data_free(&data);
}

static void load__files_without_rows_are_refused(void **state)
{
	struct glm_load_options options = { 0 };

	(void)state;
	fails(file_text(""), &options, ": no rows");
	fails(file_text("# nothing\n\n"), &options, ": no rows");
	fails("/nonexistent/file", &options, ": No such file or directory");
}

static void load__bad_rows_are_named_and_nothing_is_kept(void **state)
{
	struct glm_load_options options = of_rank(1, 2, 2);

	(void)state;
	fails(file_text("1 1:1\n2 2:1 1:1\n"), &options,
	      ":2:7: the index 1 after 2: they must rise");
}

static void load__a_later_file_has_the_first_ones_split(void **state)
{
	struct glm_load_options options = of_rank(0, 2, 1);
	struct glm_data first, later;

	(void)state;
	loads(&first, file_text("1 1:1 2:1 3:1 4:1\n2 1:1 2:1 3:1 4:1\n"), &options);
	assert_int_equal(first.features, 4);
	options.columns = &first.columns;
	options.features = first.features;
	loads(&later, file_text("1 2:5 3:6 7:2 8:0\n"), &options);
	assert_memory_equal(&later.columns, &first.columns, sizeof(first.columns));
	assert_int_equal(later.features, 4);
	assert_int_equal(later.nonzeros, 2);
	assert_int_equal(later.ignored, 1);
	assert_int_equal(later.shares[0].columns, 2);
	assert_int_equal(later.shares[0].start[1], 1);
	assert_int_equal(later.shares[0].column[0], 1);
	glm_data_free(&later);
	loads(&later, file_text("1 1:1\n"), &options);
	assert_int_equal(later.shares[0].columns, 2); /* as many weights as were trained */
	glm_data_free(&later);
	glm_data_free(&first);
}

static void load__the_hash_is_of_the_unpacked_bytes(void **state)
{
	static const char text[] = "1 1:1\n2 2:1\n";
	static uint8_t packed[FILE_PACKED_MAX];
	struct glm_load_options options = { 0 };
	struct glm_data data;

	(void)state;
	loads(&data, file_text(text), &options);
	assert_int_equal(data.hash, hash_text(HASH_BEGIN, text));
	glm_data_free(&data);
	loads(&data, file_write(packed, file_gz(text, strlen(text), packed)), &options);
	assert_int_equal(data.hash, hash_text(HASH_BEGIN, text));
	glm_data_free(&data);
	loads(&data, file_text("1 1:1\n2 2:1 \n"), &options);
	assert_true(data.hash != hash_text(HASH_BEGIN, text));
	glm_data_free(&data);
}

struct told {
	uint64_t calls, position, size;
};

static void told(void *arg, uint64_t position, uint64_t size)
{
	struct told *told = arg;

	assert_true(position >= told->position);
	*told = (struct told){ told->calls + 1, position, size };
}

static void load__progress_is_told_up_to_the_end(void **state)
{
	struct told progress = { 0 };
	struct glm_load_options options = { .progress = told, .arg = &progress };
	struct glm_data data;
	char *text = malloc(200000);

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < 20000; i++)
		memcpy(text + 8 * i, "1 1:123\n", 8);
	loads(&data, file_write(text, 160000), &options);
	assert_int_equal(progress.calls, 20000 / 4096 + 1); /* and once at the end */
	assert_int_equal(progress.position, 160000);
	assert_int_equal(progress.size, 160000);
	glm_data_free(&data);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load__every_nonzero_has_one_owner),
		cmocka_unit_test(load__rows_after_the_sample_are_split_as_it_says),
		cmocka_unit_test(load__zeros_are_left_out),
		cmocka_unit_test(load__takes_no_memory_that_is_not_given_back),
		cmocka_unit_test(load__labels_are_those_of_the_file_in_order_of_appearance),
		cmocka_unit_test(load__plus_one_is_before_minus_one_and_nothing_else_is_turned),
		cmocka_unit_test(load__rows_without_features_are_minus_one),
		cmocka_unit_test(load__too_many_classes_are_named_but_numbers_are_none),
		cmocka_unit_test(load__one_class_is_refused_where_two_are_needed),
		cmocka_unit_test(load__files_without_rows_are_refused),
		cmocka_unit_test(load__bad_rows_are_named_and_nothing_is_kept),
		cmocka_unit_test(load__a_later_file_has_the_first_ones_split),
		cmocka_unit_test(load__the_hash_is_of_the_unpacked_bytes),
		cmocka_unit_test(load__progress_is_told_up_to_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
