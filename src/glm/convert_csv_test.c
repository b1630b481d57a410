/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/convert_fixture.h"
#include "glm/load.h"

static void csv_is(const char *text, const struct convert_csv *csv, const char *rows)
{
	put(from, text, strlen(text));
	if (convert_csv(from, to, csv, &done, error))
		fail_msg("%s", error);
	result_is(rows);
}

static void convert__csv_columns_are_features_but_for_the_label(void **state)
{
	struct convert_csv first = { .label = 1 }, last = { .label = 3 },
			   named = { .label_name = "y" };

	(void)state;
	csv_is("1,2,3\n-1,0,4.5\n", &first, "1 1:2 2:3\n-1 2:4.5\n");
	assert_int_equal(done.rows, 2);
	assert_int_equal(done.features, 2);
	csv_is("1,2,3\r\n\r\n-1,,4.5", &last, "3 1:1 2:2\n4.5 1:-1\n");
	csv_is("a,b,y\n1,2,3\n", &last, "3 1:1 2:2\n");
	csv_is("a,\"y\",c\n \"1\" , 2 ,\"3\"\n", &named, "2 1:1 2:3\n");
	first.separator = '\t';
	csv_is("1\t\t3\n2\t4\t\n", &first, "1 2:3\n2 1:4\n");
	first.separator = ';';
	csv_is("1;1e-60;-0\n2;1e2;+.5\n", &first, "1\n2 1:1e2 2:+.5\n");
	csv_is("1e39;1\n", &first, "1e39 1:1\n"); /* a label is a double, as the loader has it */
}

static void csv_fails(const char *text, const struct convert_csv *csv, const char *what)
{
	struct stat is;

	put(from, text, strlen(text));
	assert_int_equal(convert_csv(from, to, csv, &done, error), -1);
	assert_int_equal(strncmp(error, from, strlen(from)), 0);
	assert_string_equal(error + strlen(from), what);
	assert_int_equal(stat(to, &is), -1);
}

static void convert__csv_lines_that_are_bad_are_named(void **state)
{
	struct convert_csv csv = { .label = 1 }, named = { .label_name = "y" },
			   far = { .label = 9 };

	(void)state;
	csv_fails("1,2,3\n1,2\n", &csv, ":2:4: fewer fields than in the lines before");
	csv_fails("1,2,3\n1,2,3,4\n", &csv, ":2:7: more fields than in the lines before");
	csv_fails("1,2\nx,2\n", &csv, ":2:1: the label 'x' is no finite number");
	csv_fails("1,2\n,2\n", &csv, ":2:1: the label '' is no finite number");
	csv_fails("1,2\n1,red\n", &csv, ":2:3: the field 'red' is no finite number");
	csv_fails("1,nan\n", &csv, ":1:3: the field 'nan' is no finite number");
	csv_fails("1,1e39\n", &csv, ":1:3: the field '1e39' is no finite number");
	csv_fails("1,0x10\n", &csv, ":1:3: the field '0x10' is no finite number");
	csv_fails("1,\"2\n", &csv, ":1:3: a quote that the line does not close");
	csv_fails("1,\"2\"3\n", &csv, ":1:6: a quote inside of a field");
	csv_fails("1,\x1f \x7e\x7f\x80\n", &csv, ":1:3: the field '? ~?\?' is no finite number");
	csv_fails("", &csv, ": no rows");
	csv_fails("y,x\n", &csv, ": no rows");
	csv_fails("1\n", &csv, ":1:1: no column besides the label's");
	csv_fails("1,2\n", &far, ":1:1: fewer columns than the one of the label");
	csv_fails("1,2\n", &named, ":1:1: no column with the name y");
	csv_fails("y,y\n1,2\n", &named, ":1:3: two columns with the name y");
}

static void convert__csv_lines_have_a_bound(void **state)
{
	enum { BYTES = 9000000 };
	struct convert_csv csv = { .label = 1 };
	char *text = malloc(BYTES + 1);

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < BYTES; i++)
		text[i] = i % 2 ? ',' : '1';
	text[BYTES] = 0;
	csv_fails(text, &csv, ":1:1: a line of more than 8388608 bytes");
	free(text);
}

/* Lines that lie across reads, and a buffer that is used again and again; then what comes out is loaded. */
static void convert__csv_of_many_lines_is_loaded(void **state)
{
	enum { ROWS = 400000, LINE = 32 };
	struct convert_csv csv = { .label_name = "label" };
	struct glm_load_options options = { .classes_min = 2 };
	struct glm_data data;
	char *text = malloc((ROWS + 1) * LINE);
	size_t used;

	(void)state;
	assert_non_null(text);
	used = (size_t)sprintf(text, "x,label,\"the, rest\"\n");
	for (int i = 0; i < ROWS; i++)
		used += (size_t)sprintf(text + used, "%d,%d,%d.5\n", i, i % 3, i);
	put(from, text, used);
	assert_int_equal(convert_csv(from, to, &csv, &done, error), 0);
	assert_int_equal(done.rows, ROWS);
	if (glm_load(&data, to, &options, error))
		fail_msg("%s", error);
	assert_int_equal(data.rows, ROWS);
	assert_int_equal(data.features, 2);
	assert_int_equal(data.nonzeros, 2 * ROWS - 1);
	for (uint64_t i = 0; i < ROWS; i++) {
		uint64_t end = data.shares[0].start[i + 1];

		assert_true(data.label[i] == (double)(i % 3));
		assert_true(data.shares[0].value[end - 1] == (float)i + 0.5f);
	}
	glm_data_free(&data);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convert__csv_columns_are_features_but_for_the_label),
		cmocka_unit_test(convert__csv_lines_that_are_bad_are_named),
		cmocka_unit_test(convert__csv_lines_have_a_bound),
		cmocka_unit_test(convert__csv_of_many_lines_is_loaded),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
