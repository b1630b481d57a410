/* SPDX-License-Identifier: Apache-2.0 */
/* convert_fixture.h - for tests of conversions: a folder for what is read and what comes out. */
#ifndef GLM_CONVERT_FIXTURE_H
#define GLM_CONVERT_FIXTURE_H

#include <sys/stat.h>

#include "files/file_fixture.h"
#include "glm/convert.h"

static char folder[] = "/tmp/tally-glm-convert-XXXXXX", from[64], labels[64], to[64];
static char error[GLM_ERROR_MAX];
static struct convert_done done;

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	sprintf(from, "%s/from", folder);
	sprintf(labels, "%s/labels", folder);
	sprintf(to, "%s/to", folder);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	unlink(from);
	unlink(labels);
	unlink(to);
	return rmdir(folder); /* nothing else was left in it */
}

static void put(const char *path, const void *at, size_t bytes)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(at, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void result_is(const char *text)
{
	char found[4096];
	FILE *file = fopen(to, "rb");

	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = 0;
	fclose(file);
	assert_string_equal(found, text);
	unlink(to);
}

#endif
