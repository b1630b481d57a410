/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/command.h"
#include "tools/glm.h"

enum { WORDS_MAX = 32, LINE_MAX_BYTES = 512 };

static char line[LINE_MAX_BYTES], said[1024];

/* The words of a command line; what is said on stderr is in `said`. */
static int parse(struct glm_request *request, const char *words)
{
	char *argv[WORDS_MAX + 1] = { (char[]){ "tally glm train" } }, *at = line, *word;
	FILE *file = tmpfile();
	int argc = 1, status, kept = dup(STDERR_FILENO);
	size_t bytes;

	assert_non_null(file);
	assert_true(strlen(words) < sizeof(line));
	strcpy(line, words);
	while ((word = strsep(&at, " ")) && *word) {
		assert_true(argc < WORDS_MAX);
		argv[argc++] = word;
	}
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	status = glm_request_parse(request, argc, argv);
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
	rewind(file);
	bytes = fread(said, 1, sizeof(said) - 1, file);
	said[bytes] = '\0';
	fclose(file);
	return status;
}

static void options__a_file_alone_is_enough(void **state)
{
	struct glm_request request;

	(void)state;
	assert_int_equal(parse(&request, "rows"), -1);
	assert_string_equal(request.file, "rows");
	assert_null(request.model);
	assert_null(request.test);
	assert_null(request.checkpoint);
	assert_null(request.plot);
	assert_int_equal(request.options.loss, GLM_LOGISTIC);
	assert_int_equal(request.options.schedule, GLM_INVERSE);
	assert_true(request.options.decay == 0.1);
	assert_true(request.options.rate == 0);
	assert_true(request.options.bias < 0);
	assert_true(request.scale == 1);
	assert_true(request.options.l1 == 0);
	assert_true(request.options.l2 == 0);
	assert_int_equal(request.options.batch, 64);
	assert_int_equal(request.options.micro, 0);
	assert_int_equal(request.options.seed, 1);
	assert_true(request.options.is_shuffled);
	assert_false(request.options.wire.is_narrow);
	assert_int_equal(request.comm, EXCHANGE_AUTO);
	assert_int_equal(request.epochs, 10);
	assert_int_equal(request.threads, 1);
	assert_int_equal(request.early_stop, 0);
	assert_int_equal(request.checkpoint_every, 1);
	assert_false(request.is_resumed);
	assert_false(request.is_json);
}

static void options__each_says_what_it_says(void **state)
{
	struct glm_request request;

	(void)state;
	assert_int_equal(parse(&request,
			       "--loss hinge --scale 1e-3 --l1 1e-3 --l2 0.5 --bias 2 -B 100 -b 7 "
			       "rows --rate "
			       "0.25 --schedule sqrt --decay 3 --epochs 4 --seed 99 --no-shuffle"),
			 -1);
	assert_int_equal(request.options.loss, GLM_HINGE);
	assert_true(request.scale == 1e-3);
	assert_true(request.options.l1 == 1e-3);
	assert_true(request.options.l2 == 0.5);
	assert_true(request.options.bias == 2);
	assert_int_equal(request.options.batch, 100);
	assert_int_equal(request.options.micro, 7);
	assert_true(request.options.rate == 0.25);
	assert_int_equal(request.options.schedule, GLM_SQUARE_ROOT);
	assert_true(request.options.decay == 3);
	assert_int_equal(request.epochs, 4);
	assert_int_equal(request.options.seed, 99);
	assert_false(request.options.is_shuffled);
	assert_string_equal(request.file, "rows");

	assert_int_equal(parse(&request,
			       "rows -m a --test b --checkpoint c --checkpoint-every 3 --resume "
			       "--threads 2 --comm dense --wire q12.19 --plot d.svg --json "
			       "--early-stop 5 --rate auto -b auto"),
			 -1);
	assert_string_equal(request.model, "a");
	assert_string_equal(request.test, "b");
	assert_string_equal(request.checkpoint, "c");
	assert_string_equal(request.plot, "d.svg");
	assert_int_equal(request.checkpoint_every, 3);
	assert_true(request.is_resumed);
	assert_int_equal(request.threads, 2);
	assert_int_equal(request.comm, EXCHANGE_DENSE);
	assert_true(request.options.wire.is_narrow);
	assert_int_equal(request.options.wire.fraction, 19);
	assert_true(request.is_json);
	assert_int_equal(request.early_stop, 5);
	assert_true(request.options.rate == 0);
	assert_int_equal(request.options.micro, 0);

	assert_int_equal(parse(&request, "rows --comm latency --schedule step"), -1);
	assert_int_equal(request.comm, EXCHANGE_LATENCY);
	assert_int_equal(request.options.schedule, GLM_EXPONENTIAL);
	assert_true(request.options.decay == 0.9);
	assert_int_equal(parse(&request, "rows --comm mpi --parallel data"), -1);
	assert_int_equal(request.options.parallel, GLM_DATA_PARALLEL);
	assert_int_equal(request.comm, EXCHANGE_MPI);
	assert_int_equal(parse(&request, "rows --schedule constant"), -1);
	assert_int_equal(request.options.schedule, GLM_CONSTANT);
	assert_int_equal(request.options.bits, 0);
	assert_int_equal(request.options.layout, GLM_LAYOUT_AUTO);
	assert_int_equal(parse(&request, "rows --bits 3 --layout weave"), -1);
	assert_int_equal(request.options.bits, 3);
	assert_int_equal(request.options.layout, GLM_LAYOUT_WEAVE);
	assert_int_equal(parse(&request, "rows --layout dense"), -1);
	assert_int_equal(request.options.layout, GLM_LAYOUT_DENSE);
	assert_int_equal(request.options.depth, 0);
	assert_int_equal(parse(&request, "rows --no-overlap"), -1);
	assert_int_equal(request.options.depth, 1);
}

/* clang-format off */
static const struct {
	const char *words, *why;
} bad[] = {
	{ "", "FILE: missing: give the file to train on" },
	{ "a b", "b: is one file too many" },
	{ "a --loss l2", "--loss l2: logistic, hinge, squared-hinge or least-squares" },
	{ "a --l1 -1", "--l1 -1: a number from 0" },
	{ "a --l2 nan", "--l2 nan: a number from 0" },
	{ "a --l2 0x1", "--l2 0x1: a number from 0" },
	{ "a --bias -1", "--bias -1: a number from 0" },
	{ "a --scale 0", "--scale 0: a number above 0" },
	{ "a --rate 0", "--rate 0: auto, or a number above 0" },
	{ "a --rate inf", "--rate inf: auto, or a number above 0" },
	{ "a --rate 1e", "--rate 1e: auto, or a number above 0" },
	{ "a -B 0", "--batch 0: a number from 1" },
	{ "a -B 1048577", "--batch 1048577: a number from 1 to 1048576" },
	{ "a -b 0", "--micro-batch 0: auto, or a number from 1 to 360" },
	{ "a -b 361 -B 1000", "--micro-batch 361: auto, or" },
	{ "a -b 65", "--micro-batch: must be at most --batch" },
	{ "a --schedule cosine", "--schedule cosine: constant, inverse, sqrt or step" },
	{ "a --schedule constant --decay 1", "--decay: needs --schedule inverse, sqrt or step" },
	{ "a --schedule step --decay 1.5", "--decay: must be above 0" },
	{ "a --schedule step --decay 0", "--decay: must be above 0" },
	{ "a --epochs 0", "--epochs 0: a number from 1" },
	{ "a --epochs 1e3", "--epochs 1e3: a number from 1" },
	{ "a --early-stop 0", "--early-stop 0: a number of epochs" },
	{ "a --seed -1", "--seed -1: a number" },
	{ "a --threads 65", "--threads 65: a number from 1 to 64" },
	{ "a --comm gloo", "--comm gloo: auto, latency or dense; mpi in tally-glm-mpi" },
	{ "a --wire q1.2", "--wire q1.2: fixed64, or qM.N" },
	{ "a --parallel rows", "--parallel rows: model or data" },
	{ "a --parallel data --threads 2", "--threads: must be 1 with --parallel data" },
	{ "a --no-overlap --parallel data", "--no-overlap: is not for --parallel data" },
	{ "a --bits 0", "--bits 0: a number from 1 to 8" },
	{ "a --bits 9", "--bits 9: a number from 1 to 8" },
	{ "a --bits 4 --layout csr", "--layout csr: is for float32 values" },
	{ "a --layout dense --bits 8", "--layout dense: is for float32 values" },
	{ "a --layout weave", "--layout weave: needs --bits N" },
	{ "a --bits 4 --parallel data", "--bits: needs --parallel model" },
	{ "a --layout planes", "--layout planes: auto, csr, dense or weave" },
	{ "a --checkpoint-every 2", "--checkpoint-every: needs --checkpoint FILE" },
	{ "a --resume", "--resume: needs --checkpoint FILE" },
	{ "a --epochs 3 --epochs 3", "--epochs 3: is given twice" },
	{ "a -B 3 --batch 4", "--batch 4: is given twice" },
	{ "a -m b -m c", "--model c: is given twice" },
	{ "a --seed", "requires an argument" },
	{ "a --what", "--help says which there are" },
};
/* clang-format on */

static void options__what_is_wrong_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct glm_request request;

		assert_int_equal(parse(&request, bad[i].words), EXIT_USAGE);
		if (!strstr(said, bad[i].why))
			fail_msg("%s: said \"%s\", not \"%s\"", bad[i].words, said, bad[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options__a_file_alone_is_enough),
		cmocka_unit_test(options__each_says_what_it_says),
		cmocka_unit_test(options__what_is_wrong_is_said),
	};

	return cmocka_run_group_tests_name("tools-glm-options", tests, NULL, NULL);
}
