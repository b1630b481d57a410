/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_fuzz.c - any bytes as a model. What is taken has as many weights as it says, all finite, and comes back
 * the same when it is written and read again; what is not leaves a sentence with line and column.
 */
#include <math.h>
#include <unistd.h>

#include "files/bytes_fixture.h"
#include "files/source.h"
#include "glm/model.h"
#include "tests/fuzz/input.h"

static void again_check(const struct model *model)
{
	static char path[64];
	char error[GLM_ERROR_MAX];
	struct model again;

	if (!path[0])
		snprintf(path, sizeof(path), "/tmp/tally-model-fuzz-%d", (int)getpid());
	FUZZ_CHECK(!model_write(path, model, error));
	FUZZ_CHECK(!model_read(path, &again, error));
	FUZZ_CHECK(again.loss == model->loss);
	FUZZ_CHECK(again.is_l1 == model->is_l1);
	FUZZ_CHECK(again.classes == model->classes);
	FUZZ_CHECK(!memcmp(again.label, model->label, model->classes * sizeof(int32_t)));
	FUZZ_CHECK(again.features == model->features);
	FUZZ_CHECK(model->bias < 0 ? again.bias == -1 : again.bias == model->bias);
	for (uint64_t i = 0; i < model_lines(model) * model_vectors(model); i++)
		FUZZ_CHECK(again.weight[i] == model->weight[i]);
	model_free(&again);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[GLM_ERROR_MAX] = "";
	struct bytes file = { data, bytes, 1000 };
	struct source *source;
	struct model model;

	if (source_open_read(&source, "F", bytes_read, &file, error))
		return 0; /* a damaged archive */
	if (model_read_source(source, &model, error)) {
		unsigned line = 0, column = 0;

		/* What cannot be unpacked has no lines. */
		FUZZ_CHECK(!strncmp(error, "F: ", 3) ||
			   (sscanf(error, "F:%u:%u: ", &line, &column) == 2 && line >= 1 &&
			    column >= 1));
		for (const char *at = error; *at; at++)
			FUZZ_CHECK(*at >= ' ' && *at < 0x7f);
	} else {
		FUZZ_CHECK(model.features >= 1 && model.features <= INT32_MAX);
		FUZZ_CHECK(model.classes != 1 && model.classes <= GLM_CLASSES_MAX);
		for (uint64_t i = 0; i < model_lines(&model) * model_vectors(&model); i++)
			FUZZ_CHECK(isfinite(model.weight[i]));
		again_check(&model);
		model_free(&model);
	}
	return 0;
}
