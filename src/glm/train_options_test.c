/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_options_test.c - what ranks have to have alike, and what a state has to fit: the other rank says what this one
 * says but for one word.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/train_fixture.h"

enum { ROWS = 30, FEATURES = 8, WORD_LANES = 4, WORDS = 9 };

/* Of two ranks the second, which is the first one's twin but for lane `lane`, which is more by `more`. */
static struct {
	struct exchange exchange;
	struct exchange *none;
	struct exchange_ops ops;
	uint32_t ranks, lane;
	int32_t more;
	bool is_asked, is_lost; /* lost: what a state is told by cannot be summed */
	struct matrix matrix;
	struct glm_data data;
} t;

static int sum(struct exchange *exchange, int32_t *values, size_t count)
{
	if (t.is_lost && count == 3) {
		snprintf(exchange->error, sizeof(exchange->error), "it is lost");
		return -1;
	}
	if (t.ranks == 1 || t.is_asked)
		return 0;
	t.is_asked = true;
	assert_int_equal(count, 2 * WORDS * WORD_LANES);
	memcpy(values + WORDS * WORD_LANES, values, WORDS * WORD_LANES * sizeof(*values));
	values[WORDS * WORD_LANES + t.lane] += t.more;
	return 0;
}

static int begin(void **state)
{
	static const struct matrix_shape shape = { ROWS, FEATURES, 2, 500, 9 };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.ranks = 1;
	matrix_make(&t.matrix, &shape);
	data_make(&t.matrix, 0, 1, 1, &t.data);
	assert_int_equal(exchange_none(&t.none), 0);
	t.exchange = *t.none;
	t.ops = *t.none->ops;
	t.ops.sum = sum;
	t.exchange.ops = &t.ops;
	return 0;
}

static int end(void **state)
{
	(void)state;
	t.none->ops->close(t.none);
	data_free(&t.data);
	matrix_free(&t.matrix);
	return 0;
}

static const struct glm_options plain = { .loss = GLM_LOGISTIC,
					  .l1 = 0.001,
					  .l2 = 0.01,
					  .bias = 1,
					  .rate = 0.2,
					  .decay = 0.5,
					  .schedule = GLM_INVERSE,
					  .batch = 7,
					  .micro = 3,
					  .seed = 4,
					  .is_shuffled = true };

/* ---- what ranks have alike ---- */

static void refused(uint32_t word, uint32_t piece, int32_t more, const char *words)
{
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train;

	t.ranks = t.exchange.ranks = 2;
	t.lane = word * WORD_LANES + piece;
	t.more = more;
	t.is_asked = false;
	assert_int_equal(glm_train_open(&train, &t.data, &plain, &t.exchange, error), -1);
	if (strncmp(error, words, strlen(words)) != 0)
		fail_msg("word %u: \"%s\" is not \"%s\"", word, error, words);
}

static void ranks__say_who_has_what_else(void **state)
{
	char file[200];

	(void)state;
	for (uint32_t piece = 0; piece < WORD_LANES; piece++) {
		uint64_t other = t.data.hash + (1ull << 16 * piece);

		snprintf(file, sizeof(file),
			 "rank 1 has read another file than rank 0: hash %016llx and %016llx, 30 "
			 "and 30 rows",
			 (unsigned long long)other, (unsigned long long)t.data.hash);
		refused(1, piece, 1, file);
	}
	refused(0, 0, 1, "rank 1: out of memory");
	refused(0, 0, 2, "rank 1: more columns than a rank can have");
	refused(0, 0, 4, "rank 1: more columns than a rank can have");
	refused(2, 0, 5, "rank 1 has read another file than rank 0: hash");
	refused(3, 0, 1, "rank 1 has read another file than rank 0: hash");
	refused(4, 0, 1, "rank 1 has other threads than rank 0");
	refused(5, 2, 1, "rank 1 has other options than rank 0");
	refused(6, 0, 1, "rank 1 has other options than rank 0");
}

/* The first that is wrong is named, and rows are those of each. */
static void ranks__say_how_many_rows_the_other_file_has(void **state)
{
	char words[200];

	(void)state;
	snprintf(words, sizeof(words),
		 "rank 1 has read another file than rank 0: hash %016llx and %016llx, 35 and 30 "
		 "rows",
		 (unsigned long long)t.data.hash, (unsigned long long)t.data.hash);
	refused(2, 0, 5, words);
}

/* ---- what a state fits ---- */

static void *state_of(const struct glm_options *options, size_t *count)
{
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train;
	void *bytes;

	if (glm_train_open(&train, &t.data, options, &t.exchange, error))
		fail_msg("%s", error);
	assert_true(glm_train_rate(train) == options->rate); /* of the first mini-batch */
	assert_int_equal(glm_train_epoch(train, NULL, NULL), 0);
	assert_int_equal(glm_train_save(train, &bytes, count), 0);
	assert_int_equal(glm_train_epochs(train), 1);
	glm_train_close(train);
	return bytes;
}

/* "" if it is taken. */
static void load_says(const void *bytes, size_t count, const struct glm_options *options,
		      const char *words)
{
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train;

	if (glm_train_open(&train, &t.data, options, &t.exchange, error))
		fail_msg("%s", error);
	assert_int_equal(glm_train_load(train, bytes, count), words[0] ? -1 : 0);
	assert_string_equal(glm_train_error(train), words);
	assert_int_equal(glm_train_epochs(train), words[0] ? 0 : 1);
	glm_train_close(train);
}

static void state__is_of_options_of_its_own(void **state)
{
	struct glm_options others[16];
	size_t count, many = 0;
	void *bytes = state_of(&plain, &count);

	(void)state;
	for (size_t i = 0; i < 16; i++)
		others[i] = plain;
	others[many++].loss = GLM_SQUARED_HINGE;
	others[many++].l1 *= 2;
	others[many++].l2 *= 2;
	others[many++].bias = 0.5;
	others[many++].bias = -1;
	others[many++].rate = 0.25;
	others[many++].decay = 0.25;
	others[many++].schedule = GLM_SQUARE_ROOT;
	others[many++].batch = 8;
	others[many++].seed++;
	others[many++].is_shuffled = false;
	others[many].parallel = GLM_DATA_PARALLEL;
	others[many++].micro = 0;
	others[many].wire.fraction = 9;
	others[many++].wire.is_narrow = true;
	others[many++].bits = 4;
	for (size_t i = 0; i < many; i++)
		load_says(bytes, count, &others[i],
			  "the state is of a training with other options");
	load_says(bytes, count, &plain, "");
	free(bytes);
	bytes = state_of(&others[13], &count);
	others[13].bits = 5;
	load_says(bytes, count, &others[13], "the state is of a training with other options");
	free(bytes);
	bytes = state_of(&others[12], &count);
	others[12].wire.fraction = 10;
	load_says(bytes, count, &others[12], "the state is of a training with other options");
	free(bytes);
}

static void state__that_the_others_cannot_be_told_is_not_taken(void **state)
{
	size_t count;
	void *bytes = state_of(&plain, &count);

	(void)state;
	t.is_lost = true;
	load_says(bytes, count, &plain, "it is lost");
	free(bytes);
}

/* The number that stands for these options has always been this one. */
static void state__of_an_earlier_version_is_taken(void **state)
{
	size_t count;
	uint64_t *words = state_of(&plain, &count);
	double first = t.data.classes[0];

	(void)state;
	assert_true(words[2] == 0x0af49ce97aee2f50);
	free(words);
	t.data.classes[0] = t.data.classes[1];
	t.data.classes[1] = first;
	words = state_of(&plain, &count);
	assert_true(words[2] == 0x8bd5f1bbe2ba66a3);
	free(words);
}

/* What the bits of a model do not depend on. */
static void state__is_of_any_ranks_and_pieces(void **state)
{
	struct glm_options before = plain, after;
	size_t count;
	void *bytes;

	(void)state;
	before.is_shuffled = false;
	before.bias = -1;
	bytes = state_of(&before, &count);
	after = before;
	after.seed += 5; /* nothing is drawn */
	load_says(bytes, count, &after, "");
	after.bias = -7;
	load_says(bytes, count, &after, "");
	after.micro = 1;
	after.depth = 1;
	after.layout = GLM_LAYOUT_DENSE;
	load_says(bytes, count, &after, "");
	free(bytes);
}

/* Seven words of 8 bytes, then a float for each feature and the bias. */
static void state__is_whole_or_none(void **state)
{
	struct glm_options small = plain;
	size_t count;
	uint8_t *bytes = state_of(&plain, &count);

	(void)state;
	assert_int_equal(count, 7 * 8 + (FEATURES + 1) * 4);
	small.bias = 0.5;
	free(state_of(&small, &count));
	assert_int_equal(count, 7 * 8 + (FEATURES + 1) * 4);
	load_says(bytes, 55, &plain, "this is no state of a training");
	load_says(bytes, 56, &plain, "the state is not whole");
	load_says(bytes, count - 1, &plain, "the state is not whole");
	load_says(bytes, count, &plain, "");
	bytes[1 * 8]++;
	load_says(bytes, count, &plain, "the state is of a training with another file");
	bytes[1 * 8]--;
	bytes[3 * 8]++; /* features */
	load_says(bytes, count, &plain, "the state is of a training with other options");
	bytes[3 * 8]--;
	bytes[4 * 8]++; /* classes */
	load_says(bytes, count, &plain, "the state is of a training with other options");
	bytes[4 * 8]--;
	bytes[6 * 8]++; /* the rate */
	load_says(bytes, count, &plain, "the state is of a training with other options");
	bytes[6 * 8]--;
	bytes[5 * 8 + 4]++; /* epochs */
	load_says(bytes, count, &plain, "the state is not whole");
	bytes[0]++;
	load_says(bytes, count, &plain, "this is no state of a training");
	free(bytes);
}

/* ---- what cannot be ---- */

static void bad(const struct glm_options *options, const char *words)
{
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train = NULL;
	int result = glm_train_open(&train, &t.data, options, &t.exchange, error);

	assert_int_equal(result, words[0] ? -1 : 0);
	if (strncmp(error, words, strlen(words)) != 0)
		fail_msg("\"%s\" is not \"%s\"", error, words);
	glm_train_close(train);
}

static void options__have_their_bounds(void **state)
{
	static const char *const below = "rate, decay, l1 and l2 have to be 0 or above";
	struct glm_options options = plain;

	(void)state;
	options.schedule = GLM_EXPONENTIAL;
	options.decay = 1;
	bad(&options, "");
	options.decay = 1.5;
	bad(&options, "decay 1.5: an exponential schedule needs 0 < decay <= 1");
	options.decay = 0;
	bad(&options, "decay 0: an exponential schedule needs 0 < decay <= 1");
	options = plain;
	options.decay = -0.5;
	bad(&options, below);
	options = plain;
	options.l2 = -1;
	bad(&options, below);
	options = plain;
	options.rate = -1;
	bad(&options, below);
	options = plain;
	options.rate = (double)INFINITY;
	bad(&options, below);
	options = plain;
	options.decay = (double)INFINITY;
	bad(&options, below);
	options = plain;
	options.l1 = options.l2 = options.decay = 0;
	bad(&options, "");
	options = plain;
	options.l2 = 5; /* times 0.2 is just too much */
	bad(&options, "rate 0.2 times l2 5 is 1 or more");
	options.l2 = 4.99;
	bad(&options, "");
	options = plain;
	options.batch = 0;
	bad(&options, "a mini-batch has to have rows");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(ranks__say_who_has_what_else),
		TEST(ranks__say_how_many_rows_the_other_file_has),
		TEST(state__is_of_options_of_its_own),
		TEST(state__that_the_others_cannot_be_told_is_not_taken),
		TEST(state__of_an_earlier_version_is_taken),
		TEST(state__is_of_any_ranks_and_pieces),
		TEST(state__is_whole_or_none),
		TEST(options__have_their_bounds),
#undef TEST
	};

	return cmocka_run_group_tests_name("glm-train-options", tests, NULL, NULL);
}
