/* SPDX-License-Identifier: Apache-2.0 */
/* glm_curve.c - what each epoch has brought: kept, asked, packed into a checkpoint, drawn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/glm.h"
#include "util/bytes.h"
#include "util/plot.h"

enum { ROOM_FIRST = 16, EPOCH_BYTES = 12 * 8, HEADER_BYTES = 8, EPOCHS_MAX = 1 << 24 };

#define LOSS_STEP 1e-4 /* a loss that became smaller by less has not */

int glm_curve_add(struct glm_curve *curve, const struct glm_epoch *epoch)
{
	if (curve->count == curve->room) {
		uint32_t room = curve->room ? 2 * curve->room : ROOM_FIRST;
		struct glm_epoch *more = realloc(curve->epoch, room * sizeof(*more));

		if (!more)
			return -1;
		curve->epoch = more;
		curve->room = room;
	}
	curve->epoch[curve->count++] = *epoch;
	return 0;
}

void glm_curve_free(struct glm_curve *curve)
{
	free(curve->epoch);
	*curve = (struct glm_curve){ 0 };
}

static double watched_loss(const struct glm_epoch *epoch)
{
	return epoch->test.rows ? epoch->test.loss : epoch->score.loss;
}

bool glm_curve_is_flat(const struct glm_curve *curve, uint64_t epochs)
{
	double best = HUGE_VAL;
	uint64_t since = 0;

	for (uint32_t i = 0; i < curve->count; i++) {
		double loss = watched_loss(&curve->epoch[i]);

		if (loss < best * (1 - LOSS_STEP) || i == 0) {
			best = loss;
			since = 0;
		} else {
			since++;
		}
	}
	return epochs && since >= epochs;
}

/* ---- as bytes ---- */

size_t glm_curve_bytes(uint32_t count)
{
	return HEADER_BYTES + (size_t)count * EPOCH_BYTES;
}

/* An epoch is the same as a struct and as bytes. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file has the low bytes first");
_Static_assert(sizeof(struct glm_epoch) == EPOCH_BYTES,
	       "12 words of 8 bytes, nothing between them");

void glm_curve_pack(const struct glm_curve *curve, uint8_t *to)
{
	bytes_put(to, curve->count, HEADER_BYTES);
	if (curve->count)
		memcpy(to + HEADER_BYTES, curve->epoch, (size_t)curve->count * EPOCH_BYTES);
}

int glm_curve_unpack(struct glm_curve *curve, const uint8_t *from, size_t bytes, size_t *used)
{
	uint64_t count = bytes < HEADER_BYTES ? UINT64_MAX : bytes_get(from, HEADER_BYTES);

	if (count > EPOCHS_MAX || bytes < glm_curve_bytes((uint32_t)count))
		return -1;
	for (uint64_t i = 0; i < count; i++) {
		struct glm_epoch epoch;

		memcpy(&epoch, from + HEADER_BYTES + i * EPOCH_BYTES, EPOCH_BYTES);
		if (glm_curve_add(curve, &epoch))
			return -1;
	}
	*used = glm_curve_bytes((uint32_t)count);
	return 0;
}

/* ---- as a drawing ---- */

static void data_write(FILE *gnuplot, const struct glm_curve *curve)
{
	fprintf(gnuplot, "$curve << EOD\n");
	for (uint32_t i = 0; i < curve->count; i++) {
		const struct glm_epoch *epoch = &curve->epoch[i];

		fprintf(gnuplot, "%u %.9g %.9g %.9g\n", i + 1, epoch->train_s, epoch->score.loss,
			epoch->test.rows ? epoch->test.loss : 0);
	}
	fprintf(gnuplot, "EOD\n");
}

static void lines_write(FILE *gnuplot, int x, bool has_test)
{
	fprintf(gnuplot, "plot $curve using %d:3 with linespoints linewidth 2 title 'training'", x);
	if (has_test)
		fprintf(gnuplot, ", $curve using %d:4 with linespoints linewidth 2 title 'test'",
			x);
	putc('\n', gnuplot);
}

bool glm_plot(const char *path, const char *title, const struct glm_curve *curve)
{
	bool has_test = curve->count && curve->epoch[0].test.rows;
	FILE *gnuplot = plot_open("tally glm train");

	if (!gnuplot)
		return false;
	data_write(gnuplot, curve);
	fprintf(gnuplot,
		"set terminal svg size 1000,450\nset output '%s'\nset grid\nset ylabel 'loss'\n"
		"set key top right\nset multiplot layout 1,2 title '%s' noenhanced\nset xlabel "
		"'epoch'\n",
		path, title);
	lines_write(gnuplot, 1, has_test);
	fprintf(gnuplot, "set xlabel 'training (s)'\n");
	lines_write(gnuplot, 2, has_test);
	fprintf(gnuplot, "unset multiplot\n");
	return plot_close(gnuplot, "tally glm train", path);
}
