/* SPDX-License-Identifier: Apache-2.0 */
/* trace_test.c - traces of training steps: what is one, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/trace.h"

static void trace__lines_are_layers_in_their_order(void **state)
{
	char why[TRACE_WHY_BYTES];
	struct trace trace;

	(void)state;
	assert_int_equal(trace_parse(&trace,
				     "layer_index, numel, forward_pass_ns, backward_pass_ns\n"
				     "0,9408,13003,45155\r\n# of a step\n1, 0, 5, 7\n\n2 ,4,0,1",
				     why),
			 0);
	assert_int_equal(trace.count, 3);
	assert_int_equal(trace.layers[0].elements, 9408);
	assert_int_equal(trace.layers[0].forward_ns, 13003);
	assert_int_equal(trace.layers[0].backward_ns, 45155);
	assert_int_equal(trace.layers[1].elements, 0);
	assert_int_equal(trace.layers[2].elements, 4);
	assert_int_equal(trace_elements(&trace), 9412);
	assert_int_equal(trace_compute_ns(&trace), 13003 + 45155 + 5 + 7 + 1);
	free(trace.layers);
}

static void trace__what_is_none_is_refused_with_its_line(void **state)
{
	static const char *const bad[] = {
		"#\n0,1,2\n",
		"#\n0,1,2,3,4\n",
		"#\n0,-1,2,3\n",
		"#\n0 1 2 3\n",
		"#\n0,1,2,3 ms\n",
		"#\n0,x,2,3\n",
		"#\n0,1073741825,2,3\n",
		"#\n0,1,2,3600000000001\n",
		"#\n0,0,2,3\n",
		"#\n0,1,\n2,3\n",
		"#\n0,99999999999999999999,2,3\n",
		"#\n1",
	};
	char why[TRACE_WHY_BYTES];
	struct trace trace;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(trace_parse(&trace, bad[i], why), -1);
		assert_null(trace.layers);
		assert_int_equal(strncmp(why, "line 2: ", 8), 0);
	}
	assert_int_equal(trace_parse(&trace, "", why), -1);
	assert_int_equal(trace_load(&trace, "/nonexistent", why), -1);
	assert_non_null(strstr(why, "No such file"));
}

static void trace__has_at_most_its_layers(void **state)
{
	size_t line = strlen("0,1,2,3\n");
	char *text = calloc(TRACE_LAYERS_MAX + 1, line + 1);
	char why[TRACE_WHY_BYTES];
	struct trace trace;

	(void)state;
	for (size_t i = 0; i < TRACE_LAYERS_MAX; i++)
		memcpy(text + i * line, "0,1,2,3\n", line);
	assert_int_equal(trace_parse(&trace, text, why), 0);
	assert_int_equal(trace.count, TRACE_LAYERS_MAX);
	free(trace.layers);
	memcpy(text + TRACE_LAYERS_MAX * line, "0,1,2,3\n", line);
	assert_int_equal(trace_parse(&trace, text, why), -1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace__lines_are_layers_in_their_order),
		cmocka_unit_test(trace__what_is_none_is_refused_with_its_line),
		cmocka_unit_test(trace__has_at_most_its_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
