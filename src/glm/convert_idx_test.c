/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/convert_fixture.h"

#include <signal.h>
#include <sys/resource.h>

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
	strcpy(error, "as it was");
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), 0);
	assert_string_equal(error, "as it was");
	assert_int_equal(done.rows, 3);
	assert_int_equal(done.features, 6);
	result_is("7 2:1 6:255\n0 1:128 4:51\n9\n");
	put(from, packed, file_gz(IMAGES, IMAGES_BYTES, packed));
	put(labels, packed, file_xz(LABELS, LABELS_BYTES, packed));
	assert_int_equal(convert_idx(from, labels, to, true, &done, error), 0);
	result_is("7 2:0.00392156886 6:1\n0 1:0.501960814 4:0.200000003\n9\n");
}

/* The error names the file, and nothing is left that looks like a result, nor any file open. */
static void idx_fails(const char *path, const char *what)
{
	char partial[80];
	int next = dup(0);
	struct stat is;

	close(next);
	snprintf(partial, sizeof(partial), "%s.partial", to);
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), -1);
	assert_int_equal(strncmp(error, path, strlen(path)), 0);
	assert_string_equal(error + strlen(path), what);
	assert_int_equal(stat(to, &is), -1);
	assert_int_equal(stat(partial, &is), -1);
	assert_int_equal(dup(0), next);
	close(next);
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

/* Big-endian, of up to four dimensions. */
static size_t head_put(uint8_t *at, const uint32_t *sizes, uint8_t count)
{
	const uint8_t head[] = { 0, 0, 8, count };

	memcpy(at, head, 4);
	for (uint8_t i = 0; i < count; i++)
		for (int k = 0; k < 4; k++)
			at[4 + 4 * i + k] = (uint8_t)(sizes[i] >> (24 - 8 * k));
	return 4 + 4 * (size_t)count;
}

/* The images' header alone is right or not: what follows is missing. */
static void head_says(const uint32_t *sizes, uint8_t count, const char *what)
{
	uint8_t head[32];

	put(from, head, head_put(head, sizes, count));
	idx_fails(from, what);
}

static void convert__idx_images_have_two_to_four_dimensions(void **state)
{
	static const char missing[] = ": an idx file that ends before its last image",
			  none[] = ": an idx file of no images",
			  large[] =
				  ": an idx file whose images have no pixel, or more than 4194304";
	static const struct {
		uint32_t sizes[5];
		uint8_t count;
		const char *what;
	} rows[] = {
		{ { 3, 7 }, 2, missing },
		{ { 3, 7, 7, 7 }, 4, missing },
		{ { 3 }, 1, none },
		{ { 3, 1, 1, 1, 1 }, 5, none },
		{ { 3, 4194304 }, 2, missing },
		{ { 3, 4194305 }, 2, large },
		{ { 3, 2048, 2048 }, 3, missing },
		{ { 3, 2048, 2049 }, 3, large },
		{ { 3, 2048, 1024, 3 }, 4, large },
		{ { 3, 0 }, 2, large },
		{ { 3, 5, 0 }, 3, large },
	};

	(void)state;
	put(labels, LABELS, LABELS_BYTES);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		head_says(rows[i].sizes, rows[i].count, rows[i].what);
	put(from, IMAGES, IMAGES_BYTES);
	put(labels, "\0\0\x08\0\0\0\0\x03", 8);
	idx_fails(labels, ": an idx file of no labels");
}

/* No row, and so nothing to write: as its header says. */
static void convert__idx_file_without_images_has_their_size(void **state)
{
	static const uint32_t sizes[] = { 0, 1024, 4096 };
	uint8_t head[32];

	(void)state;
	put(from, head, head_put(head, sizes, 3));
	put(labels, head, head_put(head, sizes, 1));
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), 0);
	assert_int_equal(done.rows, 0);
	assert_int_equal(done.features, 4194304);
	result_is("");
}

static void convert__idx_counts_all_bytes_of_a_size(void **state)
{
	static const uint32_t sizes[] = { 0x01020304, 1 };
	uint8_t head[32];
	char what[200];

	(void)state;
	put(from, IMAGES, IMAGES_BYTES);
	put(labels, head, head_put(head, sizes, 1));
	sprintf(what, ": 16909060 labels for the 3 images of %s", from);
	idx_fails(labels, what);
}

/* Longer than what is written at a time: each line is whole all the same. */
static void convert__idx_image_of_many_pixels_is_one_line(void **state)
{
	enum { PIXELS = 70000 };
	static const uint32_t sizes[] = { 2, PIXELS };
	static uint8_t images[32 + 2 * PIXELS];
	static char found[4 << 20], wanted[4 << 20];
	uint8_t head[32], two[2] = { 200, 0 };
	size_t used = 0, begin, got;
	FILE *file;

	(void)state;
	begin = head_put(images, sizes, 2);
	used += (size_t)sprintf(wanted, "200");
	for (uint32_t i = 0; i < PIXELS; i++) {
		uint8_t level = (uint8_t)(i % 3 ? i * 7 : 0);

		images[begin + i] = level;
		if (level)
			used += (size_t)sprintf(wanted + used, " %u:%u", i + 1, level);
	}
	images[begin + 2 * PIXELS - 1] = 255;
	used += (size_t)sprintf(wanted + used, "\n0 70000:255\n");
	put(from, images, begin + 2 * PIXELS);
	begin = head_put(head, sizes, 1);
	memcpy(head + begin, two, 2);
	put(labels, head, begin + 2);
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), 0);
	assert_int_equal(done.rows, 2);
	assert_int_equal(done.features, PIXELS);
	file = fopen(to, "rb");
	assert_non_null(file);
	got = fread(found, 1, sizeof(found), file);
	fclose(file);
	unlink(to);
	assert_int_equal(got, used);
	assert_memory_equal(found, wanted, used);
}

/* Of a packed file the end may be missing, or say that the rest is wrong. */
static void convert__idx_files_that_cannot_be_unpacked_are_named(void **state)
{
	static uint8_t packed[FILE_PACKED_MAX];
	size_t bytes;

	(void)state;
	idx_put();
	bytes = file_gz(IMAGES, IMAGES_BYTES, packed);
	put(from, packed, bytes - 9);
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), -1);
	assert_non_null(strstr(error, from));
	assert_non_null(strstr(error, ": truncated gz"));
	packed[bytes - 1] ^= 1; /* the length: all images are there */
	put(from, packed, bytes);
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), -1);
	assert_non_null(strstr(error, from));
	assert_non_null(strstr(error, ": corrupt gz: incorrect length check"));
	put(from, IMAGES, IMAGES_BYTES);
	bytes = file_gz(LABELS, LABELS_BYTES, packed);
	packed[bytes - 1] ^= 1;
	put(labels, packed, bytes);
	assert_int_equal(convert_idx(from, labels, to, false, &done, error), -1);
	assert_non_null(strstr(error, labels));
	put(labels, LABELS "x", LABELS_BYTES + 1);
	idx_fails(labels, ": an idx file with bytes after its last element");
}

static bool is_short; /* of memory, for so much: the test's own */
static size_t short_bytes;

void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	uint8_t *at = bytes == short_bytes ? NULL : __real_malloc(bytes + 1);

	if (at)
		at[bytes] = 0xff; /* no pixel, and not black: nobody may look */
	return at;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return is_short ? NULL : __real_calloc(count, bytes);
}

static void convert__idx_without_memory_or_a_place_is_an_error(void **state)
{
	char nowhere[128], what[300];

	(void)state;
	idx_put();
	is_short = true;
	idx_fails(from, ": out of memory");
	is_short = false;
	short_bytes = 6; /* an image */
	idx_fails(from, ": out of memory");
	short_bytes = 0;
	snprintf(nowhere, sizeof(nowhere), "%s/none/to", folder);
	snprintf(what, sizeof(what), "%s.partial: No such file or directory", nowhere);
	assert_int_equal(convert_idx(from, labels, nowhere, false, &done, error), -1);
	assert_string_equal(error, what);
}

/* A file may have so many bytes, which the result has more of. */
static void convert__idx_that_has_no_room_on_the_disk_says_so(void **state)
{
	enum { PIXELS = 4000 };
	static const uint32_t sizes[] = { 1, PIXELS };
	uint8_t images[32 + PIXELS], head[32];
	size_t begin = head_put(images, sizes, 2), bytes = head_put(head, sizes, 1);
	struct rlimit before, limit;
	char what[100];
	int result;

	(void)state;
	memset(images + begin, 255, PIXELS);
	put(from, images, begin + PIXELS);
	head[bytes] = 1;
	put(labels, head, bytes + 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 1000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	error[0] = 0;
	result = convert_idx(from, labels, to, false, &done, error);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	snprintf(what, sizeof(what), "%s: File too large", to);
	assert_int_equal(result, -1);
	assert_string_equal(error, what);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convert__idx_images_are_rows_of_pixels),
		cmocka_unit_test(convert__idx_files_that_are_none_are_named),
		cmocka_unit_test(convert__idx_files_that_do_not_fit_are_named),
		cmocka_unit_test(convert__idx_images_have_two_to_four_dimensions),
		cmocka_unit_test(convert__idx_file_without_images_has_their_size),
		cmocka_unit_test(convert__idx_counts_all_bytes_of_a_size),
		cmocka_unit_test(convert__idx_image_of_many_pixels_is_one_line),
		cmocka_unit_test(convert__idx_files_that_cannot_be_unpacked_are_named),
		cmocka_unit_test(convert__idx_without_memory_or_a_place_is_an_error),
		cmocka_unit_test(convert__idx_that_has_no_room_on_the_disk_says_so),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
