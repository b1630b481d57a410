/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/convert_fixture.h"

/* Three images of 2 x 3, the last one black, and their labels. */
#define IMAGES \
	"\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x03\0\x01\0\0\0\xff\x80\0\0\x33\0\0\0\0\0\0\0\0"
#define LABELS "\0\0\x08\x01\0\0\0\x03\x07\0\x09"
enum { IMAGES_BYTES = sizeof(IMAGES) - 1, LABELS_BYTES = sizeof(LABELS) - 1 };

static void idx_put(void)
{
	put(from, IMAGES, IMAGES_BYTES);
	put(labels, LABELS, LABELS_BYTES);
}

static void convert__idx_images_are_rows_of_pixels(void **state)
{
	static uint8_t packed[FILE_PACKED_MAX];

	(void)state;
	idx_put();
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), 0);
	assert_int_equal(done.rows, 3);
	assert_int_equal(done.features, 6);
	result_is("7 2:1 6:255\n0 1:128 4:51\n9\n");
	put(from, packed, file_gz(IMAGES, IMAGES_BYTES, packed));
	put(labels, packed, file_xz(LABELS, LABELS_BYTES, packed));
	assert_int_equal(convert_idx(from, labels, to, true, &done, error), 0);
	result_is("7 2:0.00392156886 6:1\n0 1:0.501960814 4:0.200000003\n9\n");
}

/* The error names the file, and nothing is left that looks like a result. */
static void idx_fails(const char *path, const char *what)
{
	struct stat is;

	assert_int_equal(convert_idx(from, labels, to, false, &done, error), -1);
	assert_int_equal(strncmp(error, path, strlen(path)), 0);
	assert_string_equal(error + strlen(path), what);
	assert_int_equal(stat(to, &is), -1);
}

static void convert__idx_files_that_are_none_are_named(void **state)
{
	char changed[IMAGES_BYTES + 1];

	(void)state;
	idx_put();
	put(from, "1 2:3\n", 6);
	idx_fails(from, ": no idx file: it does not begin with two zeros");
	put(from, "\0\0", 2);
	idx_fails(from, ": no idx file: it is too short");
	put(from, LABELS, LABELS_BYTES);
	idx_fails(from, ": an idx file of no images");
	idx_put();
	put(labels, IMAGES, IMAGES_BYTES);
	idx_fails(labels, ": an idx file of no labels");
	memcpy(changed, IMAGES, IMAGES_BYTES);
	changed[2] = 0x0d;
	put(from, changed, IMAGES_BYTES);
	idx_fails(from, ": an idx file whose elements are no unsigned bytes");
	memcpy(changed, IMAGES, IMAGES_BYTES);
	changed[8] = 0x7f;
	put(from, changed, IMAGES_BYTES);
	idx_fails(from, ": an idx file whose images have no pixel, or more than 4194304");
	unlink(from);
	idx_fails(from, ": No such file or directory");
}

static void convert__idx_files_that_do_not_fit_are_named(void **state)
{
	char what[200], longer[IMAGES_BYTES + 1] = IMAGES;

	(void)state;
	idx_put();
	put(from, IMAGES, 14);
	idx_fails(from, ": an idx file that ends within its header");
	put(from, IMAGES, IMAGES_BYTES - 1);
	idx_fails(from, ": an idx file that ends before its last image");
	put(from, longer, IMAGES_BYTES + 1);
	idx_fails(from, ": an idx file with bytes after its last element");
	idx_put();
	put(labels, LABELS, LABELS_BYTES - 1);
	idx_fails(labels, ": an idx file that ends before its last label");
	put(labels, "\0\0\x08\x01\0\0\0\x02\x07\0", 10);
	sprintf(what, ": 2 labels for the 3 images of %s", from);
	idx_fails(labels, what);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convert__idx_images_are_rows_of_pixels),
		cmocka_unit_test(convert__idx_files_that_are_none_are_named),
		cmocka_unit_test(convert__idx_files_that_do_not_fit_are_named),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
