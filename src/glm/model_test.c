/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files/bytes_fixture.h"
#include "files/source.h"

static char path[] = "/tmp/tally-model-XXXXXX";
static char error[GLM_ERROR_MAX];

static int path_make(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : -1;
}

static int path_remove(void **state)
{
	(void)state;
	return unlink(path);
}

static int text_read(const char *text, size_t bytes, struct model *model)
{
	struct bytes file = { (const uint8_t *)text, bytes, 7 };
	struct source *source;

	assert_int_equal(source_open_read(&source, "F", bytes_read, &file, error), 0);
	return model_read_source(source, model, error);
}

static void expect_text(const char *want)
{
	char has[1024];
	FILE *file = fopen(path, "r");
	size_t bytes;

	assert_non_null(file);
	bytes = fread(has, 1, sizeof(has) - 1, file);
	has[bytes] = '\0';
	fclose(file);
	assert_string_equal(has, want);
}

static void model__is_written_as_liblinear_does(void **state)
{
	float weight[] = { 0.25f, 0, -0.1f, 1e-30f, 3, 16777216 };
	struct model model = { .loss = GLM_LOGISTIC,
			       .classes = 2,
			       .label = { 1, -1 },
			       .features = 5,
			       .bias = 1,
			       .weight = weight };

	(void)state;
	assert_int_equal(model_write(path, &model, error), 0);
	expect_text("solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 5\nbias 1\nw\n"
		    "0.25 \n0 \n-0.10000000149011612 \n1.0000000031710769e-30 \n3 \n16777216 \n");

	model = (struct model){ .loss = GLM_SQUARED_HINGE,
				.is_l1 = true,
				.classes = 3,
				.label = { 4, 0, -7 },
				.features = 2,
				.bias = -1,
				.weight = weight };
	assert_int_equal(model_write(path, &model, error), 0);
	expect_text(
		"solver_type L1R_L2LOSS_SVC\nnr_class 3\nlabel 4 0 -7\nnr_feature 2\nbias -1\nw\n"
		"0.25 0 -0.10000000149011612 \n1.0000000031710769e-30 3 16777216 \n");

	model = (struct model){
		.loss = GLM_LEAST_SQUARES, .features = 1, .bias = -0.5, .weight = weight
	};
	assert_int_equal(model_write(path, &model, error), 0);
	expect_text("solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 1\nbias -1\nw\n0.25 \n");
}

static void model__comes_back_bit_for_bit(void **state)
{
	enum { FEATURES = 5000, CLASSES = 3 };
	static float weight[(FEATURES + 1) * CLASSES];
	struct model model = { .loss = GLM_HINGE,
			       .classes = CLASSES,
			       .label = { 1, 2, INT32_MIN },
			       .features = FEATURES,
			       .bias = 0.1,
			       .weight = weight };
	struct model again;

	(void)state;
	for (uint32_t i = 0, bits = 1; i < sizeof(weight) / sizeof(weight[0]); i++) {
		uint32_t finite;

		bits = bits * 1664525u + 1013904223u;
		finite = (bits >> 23 & 255) == 255 ? bits & ~(1u << 30) : bits;
		memcpy(&weight[i], &finite, sizeof(finite));
	}
	assert_int_equal(model_write(path, &model, error), 0);
	if (model_read(path, &again, error))
		fail_msg("%s", error);
	assert_int_equal(again.loss, GLM_HINGE);
	assert_int_equal(again.classes, CLASSES);
	assert_memory_equal(again.label, model.label, CLASSES * sizeof(int32_t));
	assert_int_equal(again.features, FEATURES);
	assert_true(again.bias == 0.1);
	assert_int_equal(model_lines(&again), FEATURES + 1);
	assert_memory_equal(again.weight, weight, sizeof(weight));
	model_free(&again);
}

#define HEAD "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n"

static void model__of_liblinear_is_read(void **state)
{
	static const char text[] = HEAD "-0.35872312093843124 \n1e-3\n";
	static const char odd[] = "bias 1\r\nnr_class 3\r\n\r\nlabel 3 1 2\r\nsolver_type "
				  "MCSVM\r\n";
	struct model model;

	(void)state;
	assert_int_equal(text_read(text, strlen(text), &model), 0);
	assert_int_equal(model.loss, GLM_LOGISTIC);
	assert_int_equal(model.classes, 2);
	assert_int_equal(model_vectors(&model), 1);
	assert_true(model.weight[0] == -0.35872312093843124f);
	assert_true(model.weight[1] == 1e-3f);
	model_free(&model);
	/* without its last newline */
	assert_int_equal(text_read(text, strlen(text) - 1, &model), 0);
	model_free(&model);
	/* lines in another order, ended as elsewhere */
	assert_int_equal(text_read(odd, strlen(odd), &model), -1);
	assert_string_equal(error, "F:5:13: MCSVM: not the solver of a loss that tally glm has");
}

/* clang-format off */
static const struct {
	const char *text, *error;
} bad[] = {
	{ "\n", "F:2:1: the file ends before its weights" },
	{ HEAD, "F:7:1: a weight is missing" },
	{ HEAD "0.5 \n", "F:8:1: a weight is missing" },
	{ HEAD "0.5\n\n0.5\n", "F:8:1: a weight is missing" },
	{ HEAD "0.5 \n0.5 1\n", "F:8:5: 1: too much on this line" },
	{ HEAD "0.5\n0.5\n\n0.5\n", "F:10:1: 0.5: more weights than features" },
	{ HEAD "0.5\nnan\n", "F:8:1: nan: not a number" },
	{ HEAD "0.5\n0x10\n", "F:8:1: 0x10: not a number" },
	{ HEAD "0.5\n1e999\n", "F:8:1: 1e999: not a number" },
	{ HEAD "0.5\n -1e39\n", "F:8:2: -1e39: too large for a float32" },
	{ HEAD "0.5\n0.5.5\n", "F:8:1: 0.5.5: not a number" },
	{ HEAD "0\n00000000000000000000000000000000000000000000000000000000000000000\n",
	  "F:8:1: a word that is too long" },
	{ "w\n", "F:1:1: weights, but no solver_type before them" },
	{ "solver_type L2R_LR\nnr_class 2\nnr_feature 2\nbias -1\nw\n1\n1\n",
	  "F:5:1: weights, but no label before them" },
	{ "solver_type L2R_LR\nsolver_type L2R_LR\n", "F:2:1: solver_type: a second time" },
	{ "solver_type MCSVM_CS\n", "F:1:13: MCSVM_CS: not the solver of a loss that tally glm has" },
	{ "solver_type\n", "F:1:12: the solver is missing" },
	{ "solver_type L2R_LR x\n", "F:1:20: x: too much on this line" },
	{ "nr_class 1\n", "F:1:10: 1: nr_class is a whole number from 2 to 64" },
	{ "nr_class 65\n", "F:1:10: 65: nr_class is a whole number from 2 to 64" },
	{ "nr_class 2\nlabel 1\n", "F:2:8: a label is missing" },
	{ "nr_class 2\nlabel 1 1\n", "F:2:9: 1: a label that is there already" },
	{ "nr_class 2\nlabel 1 2 3\n", "F:2:11: 3: too much on this line" },
	{ "nr_class 2\nlabel 1 0.5\n", "F:2:9: 0.5: a label is a whole number from -2147483648 to 2147483647" },
	{ "label 1 2\n", "F:1:1: labels before nr_class" },
	{ "nr_feature 0\n", "F:1:12: 0: nr_feature is a whole number from 1 to 2147483647" },
	{ "nr_feature 2147483648\n", "F:1:12: 2147483648: nr_feature is a whole number from 1 to 2147483647" },
	{ "bias inf\n", "F:1:6: inf: not a number" },
	{ "rho 1\n", "F:1:1: rho: no line of a liblinear model begins so" },
	{ "\x7f" "ELF\1\n", "F:1:1: ?ELF?: no line of a liblinear model begins so" },
	{ "solver_type L2R_L2LOSS_SVR\nnr_class 3\nnr_feature 1\nbias -1\nw\n1\n",
	  "F:5:1: a regression has nr_class 2, and no labels" },
	{ "solver_type L2R_L2LOSS_SVR\nnr_class 2\nlabel 1 2\nnr_feature 1\nbias -1\nw\n1\n",
	  "F:6:1: a regression has nr_class 2, and no labels" },
};
/* clang-format on */

static void model__what_is_wrong_is_named_with_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct model model = { .features = 77 };

		assert_int_equal(text_read(bad[i].text, strlen(bad[i].text), &model), -1);
		assert_string_equal(error, bad[i].error);
		assert_int_equal(model.features, 77);
	}
	assert_int_equal(text_read("bi\0s", 4, &(struct model){ 0 }), -1);
	assert_string_equal(error, "F:1:1: a zero byte: no text");
	assert_int_equal(model_read("/tmp/no/such", &(struct model){ 0 }, error), -1);
	assert_string_equal(error, "/tmp/no/such: No such file or directory");
}

/* Memory for what is there: this header speaks of half a terabyte. */
static void model__a_header_alone_takes_no_memory(void **state)
{
	char text[512];
	struct model model;
	int used = snprintf(text, sizeof(text), "solver_type L2R_LR\nnr_class 64\nlabel");

	(void)state;
	for (int i = 0; i < 64; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used, " %d", i);
	used += snprintf(text + used, sizeof(text) - (size_t)used,
			 "\nnr_feature 2147483647\nbias -1\nw\n1 2\n");
	assert_int_equal(text_read(text, (size_t)used, &model), -1);
	assert_string_equal(error, "F:7:4: a weight is missing");
}

/* A bias of 0 is one nevertheless: it has a line of weights. */
static void model__has_a_line_for_a_bias_of_0(void **state)
{
	(void)state;
	assert_int_equal(model_lines(&(struct model){ .features = 5, .bias = 0 }), 6);
	assert_int_equal(model_lines(&(struct model){ .features = 5, .bias = -1 }), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model__is_written_as_liblinear_does),
		cmocka_unit_test(model__comes_back_bit_for_bit),
		cmocka_unit_test(model__of_liblinear_is_read),
		cmocka_unit_test(model__what_is_wrong_is_named_with_its_place),
		cmocka_unit_test(model__a_header_alone_takes_no_memory),
		cmocka_unit_test(model__has_a_line_for_a_bias_of_0),
	};

	return cmocka_run_group_tests_name("glm-model", tests, path_make, path_remove);
}
