/* SPDX-License-Identifier: Apache-2.0 */
/* convert_idx.c - images as idx files: a word of zero, type and number of dimensions, their sizes, big-endian, bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/aside.h"
#include "files/source.h"
#include "glm/convert.h"

enum {
	IDX_BYTES = 8, /* the type of elements: unsigned bytes */
	DIMENSIONS_MAX = 4,
	PIXELS_MAX = 1 << 22, /* of an image: LIBSVM_ROW_MAX */
	LEVELS = 256,
	LEVEL_BYTES = 12, /* "0.00392156886" */
};

struct idx {
	struct source *source;
	uint64_t count, each; /* elements, bytes of one */
};

struct conversion {
	struct idx images, labels;
	struct aside out;
	uint8_t *image;
	char level[LEVELS][LEVEL_BYTES + 4];
	uint8_t level_bytes[LEVELS];
	char *error;
};

static int idx_fail(const struct conversion *c, const struct idx *idx, const char *what)
{
	return files_fail(c->error, source_name(idx->source), "%s", what);
}

/* Exactly so many bytes. */
static int idx_read(const struct conversion *c, const struct idx *idx, void *to, size_t bytes,
		    const char *what)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = source_read(idx->source, (uint8_t *)to + done, bytes - done);

		if (got < 0) {
			memcpy(c->error, source_error(idx->source), GLM_ERROR_MAX);
			return -1;
		}
		if (!got)
			return idx_fail(c, idx, what);
		done += (size_t)got;
	}
	return 0;
}

static uint32_t word(const uint8_t at[4])
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int idx_open(const struct conversion *c, struct idx *idx, const char *path, bool is_images)
{
	uint8_t head[4], size[4];

	if (source_open(&idx->source, path, c->error) ||
	    idx_read(c, idx, head, sizeof(head), "no idx file: it is too short"))
		return -1;
	if (head[0] || head[1])
		return idx_fail(c, idx, "no idx file: it does not begin with two zeros");
	if (head[2] != IDX_BYTES)
		return idx_fail(c, idx, "an idx file whose elements are no unsigned bytes");
	if (is_images ? head[3] < 2 || head[3] > DIMENSIONS_MAX : head[3] != 1)
		return idx_fail(c, idx,
				is_images ? "an idx file of no images"
					  : "an idx file of no labels");
	idx->each = 1;
	for (int i = 0; i < head[3]; i++) {
		if (idx_read(c, idx, size, sizeof(size), "an idx file that ends within its header"))
			return -1;
		if (!i)
			idx->count = word(size);
		else if (!word(size) || word(size) > PIXELS_MAX / idx->each)
			return idx_fail(
				c, idx,
				"an idx file whose images have no pixel, or more than 4194304");
		else
			idx->each *= word(size);
	}
	return 0;
}

static int idx_end(const struct conversion *c, const struct idx *idx)
{
	uint8_t more;
	ssize_t got = source_read(idx->source, &more, 1);

	if (got < 0)
		memcpy(c->error, source_error(idx->source), GLM_ERROR_MAX);
	else if (got)
		idx_fail(c, idx, "an idx file with bytes after its last element");
	return got ? -1 : 0;
}

static void levels_make(struct conversion *c, bool is_scaled)
{
	for (int i = 0; i < LEVELS; i++)
		c->level_bytes[i] = (uint8_t)snprintf(c->level[i], sizeof(c->level[i]), "%.9g",
						      is_scaled ? (double)((float)i / 255) : i);
}

static bool image_write(struct conversion *c, uint8_t label)
{
	char line[4096];
	size_t used = (size_t)snprintf(line, sizeof(line), "%d", label);

	for (uint32_t i = 0; i < c->images.each; i++) {
		if (!c->image[i])
			continue;
		if (used > sizeof(line) - 64) {
			if (!aside_write(&c->out, line, used))
				return false;
			used = 0;
		}
		used += (size_t)snprintf(line + used, 32, " %" PRIu32 ":", i + 1);
		memcpy(line + used, c->level[c->image[i]], c->level_bytes[c->image[i]]);
		used += c->level_bytes[c->image[i]];
	}
	line[used++] = '\n';
	return aside_write(&c->out, line, used);
}

static int images_write(struct conversion *c)
{
	for (uint64_t i = 0; i < c->images.count; i++) {
		uint8_t label;

		if (idx_read(c, &c->images, c->image, c->images.each,
			     "an idx file that ends before its last image") ||
		    idx_read(c, &c->labels, &label, 1,
			     "an idx file that ends before its last label"))
			return -1;
		if (!image_write(c, label))
			return 0; /* aside_commit() says why */
	}
	return idx_end(c, &c->images) || idx_end(c, &c->labels) ? -1 : 0;
}

static int images_convert(struct conversion *c, const char *to)
{
	if (c->images.count != c->labels.count)
		return files_fail(c->error, source_name(c->labels.source),
				  "%" PRIu64 " labels for the %" PRIu64 " images of %s",
				  c->labels.count, c->images.count, source_name(c->images.source));
	c->image = malloc(c->images.each);
	if (!c->image)
		return idx_fail(c, &c->images, "out of memory");
	if (aside_open(&c->out, to, c->error))
		return -1;
	if (!images_write(c))
		return aside_commit(&c->out, c->error);
	aside_drop(&c->out);
	return -1;
}

int convert_idx(const char *images, const char *labels, const char *to, bool is_scaled,
		struct convert_done *done, char error[GLM_ERROR_MAX])
{
	struct conversion *c = calloc(1, sizeof(*c));
	int result = -1;

	if (!c)
		return files_fail(error, images, "out of memory");
	c->error = error;
	levels_make(c, is_scaled);
	if (!idx_open(c, &c->images, images, true) && !idx_open(c, &c->labels, labels, false))
		result = images_convert(c, to);
	if (!result)
		*done = (struct convert_done){ c->images.count, c->images.each };
	source_close(c->images.source);
	source_close(c->labels.source);
	free(c->image);
	free(c);
	return result;
}
