/* SPDX-License-Identifier: Apache-2.0 */
/* bench_profile.c - tally bench profile: which fixed scale do recorded gradients allow? */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/shared/lanes.h"
#include "tools/bench.h"
#include "tools/bench_block.h"
#include "tools/command.h"
#include "util/opt.h"
#include "util/utf8.h"

enum { RANKS_MAX = 65535, PIECE = 65536, WHERE_BYTES = 4096 };

static const char help[] =
	"tally bench profile - suggest a fixed scale from recorded gradients\n"
	"\n"
	"usage: tally bench profile --ranks N [OPTION...] FILE|FOLDER...\n"
	"\n"
	"A file is raw little-endian float32, as numpy's tofile writes it; of a folder, all files "
	"that "
	"end in\n"
	".f32. Record what each rank brings to some steps of a training, the first ones and later "
	"ones.\n"
	"\n"
	"  --ranks N         ranks of the job that is to use the scale\n"
	"  --margin F        gradients may become F times larger than all that was recorded (2)\n"
	"  --json            one object\n"
	"  --help, --version\n"
	"\n"
	"It prints the largest magnitude B, what a scale may be by it, (2^31 - N) / (N B), and a "
	"scale "
	"with\n"
	"the margin, a power of two, for tally_op_options.scale and tally bench --scale.\n"
	"Exit status: 0; 1 if no scale can be suggested; 2 wrong command line, or a file that "
	"cannot be "
	"read.\n";

struct profile {
	uint64_t ranks;
	double margin;
	bool is_json;
	/* What was found. */
	uint64_t files, elements, not_finite, zeros, index;
	double largest;
	char where[WHERE_BYTES]; /* what is no UTF-8 in it is '?': JSON takes nothing else */
	/* What is suggested; 0 while that is not known. */
	double scale;
};

#define AT(field) OPT_FIELD(struct profile, field)
static const struct opt table[] = {
	{ "ranks", OPT_NUMBER, AT(ranks), .min = 1, .max = RANKS_MAX },
	{ "margin", OPT_REAL, AT(margin), .low = 1, .high = 0x1p20 },
	{ "json", OPT_FLAG, AT(is_json) },
};
static const struct opt_command command = { .name = "tally bench profile",
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

static bool refuse(const char *path, const char *why)
{
	fprintf(stderr, "tally bench profile: %s: %s\n", path, why);
	return false;
}

/* ---- one file ---- */

static void look(struct profile *profile, const char *path, uint64_t first, const float *x,
		 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double magnitude = fabs((double)x[i]);

		if (!isfinite(magnitude)) {
			profile->not_finite++;
		} else if (magnitude > profile->largest) {
			profile->largest = magnitude;
			profile->index = first + i;
			utf8_copy(profile->where, sizeof(profile->where), path);
		}
	}
	profile->elements += count;
}

/* Once more: what would become 0. */
static void judge(struct profile *profile, const float *x, size_t count)
{
	for (size_t i = 0; i < count; i++)
		profile->zeros += x[i] != 0 && fabs((double)x[i]) * profile->scale <= 0.5;
}

static bool file_read(struct profile *profile, const char *path)
{
	static float piece[PIECE];
	FILE *file = fopen(path, "rb");
	uint64_t at = 0;
	size_t bytes;

	if (!file)
		return refuse(path, strerror(errno));
	while ((bytes = fread(piece, 1, sizeof(piece), file)) > 0) {
		if (bytes % sizeof(float)) {
			fclose(file);
			return refuse(path, "not a multiple of 4 bytes: float32 is needed");
		}
		if (profile->scale > 0)
			judge(profile, piece, bytes / sizeof(float));
		else
			look(profile, path, at, piece, bytes / sizeof(float));
		at += bytes / sizeof(float);
	}
	profile->files += profile->scale > 0 ? 0 : 1;
	if (ferror(file)) {
		fclose(file);
		return refuse(path, strerror(EIO));
	}
	fclose(file);
	return true;
}

/* ---- all of them ---- */

static int is_recorded(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 4 && !strcmp(entry->d_name + length - 4, ".f32");
}

static bool folder_read(struct profile *profile, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_recorded, alphasort);
	bool is_good = count > 0;

	if (count < 0)
		return refuse(folder, strerror(errno));
	if (!count)
		refuse(folder, "no file in it ends in .f32");
	for (int i = 0; i < count; i++) {
		char *path;

		if (is_good && asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
			is_good = refuse(folder, "out of memory");
		else if (is_good) {
			is_good = file_read(profile, path);
			free(path);
		}
		free(entries[i]);
	}
	free(entries);
	return is_good;
}

static bool all_read(struct profile *profile, const struct opt_line *line)
{
	for (int i = 0; i < line->words; i++) {
		const char *path = line->word[i];
		struct stat stat_of;
		bool is_folder = !stat(path, &stat_of) && S_ISDIR(stat_of.st_mode);

		if (!(is_folder ? folder_read(profile, path) : file_read(profile, path)))
			return false;
	}
	return true;
}

/* ---- the answer ---- */

/* What elements have to be below, with this scale. */
static double below(const struct profile *profile)
{
	return ldexp(1, 31 - (int)block_log2((uint32_t)profile->ranks)) / profile->scale;
}

static void suggest(struct profile *profile)
{
	int above; /* the largest, with its margin, is below this power of two */

	frexp(profile->largest * profile->margin, &above);
	/* What tally_op_options.scale takes. */
	above = above < 1 - LANES_EXPONENT_ONE ? 1 - LANES_EXPONENT_ONE : above;
	above = above > LANES_EXPONENT_MAX - LANES_EXPONENT_ONE
			? LANES_EXPONENT_MAX - LANES_EXPONENT_ONE
			: above;
	profile->scale = ldexp(1, 31 - (int)block_log2((uint32_t)profile->ranks) - above);
}

/* False: no memory, or no room. */
static bool show(const struct profile *profile)
{
	double ranks = (double)profile->ranks;
	double most = (0x1p31 - ranks) / ranks / profile->largest;

	if (profile->is_json) {
		json_t *json = json_pack("{sI sI sI sf ss sI sI sf sf sf sf sI}", "files",
					 (json_int_t)profile->files, "elements",
					 (json_int_t)profile->elements, "not_finite",
					 (json_int_t)profile->not_finite, "largest",
					 profile->largest, "file", profile->where, "index",
					 (json_int_t)profile->index, "ranks",
					 (json_int_t)profile->ranks, "margin", profile->margin,
					 "scale_at_most", most, "scale", profile->scale, "below",
					 below(profile), "zeros", (json_int_t)profile->zeros);

		bool is_good = json && !json_dumpf(json, stdout, JSON_COMPACT);

		json_decref(json);
		return is_good && putchar('\n') != EOF;
	}
	printf("%llu float32 in %llu files, %llu of them infinite or NaN\n"
	       "the largest magnitude is %.9g: %s, element %llu\n"
	       "with %llu ranks a scale is at most %.9g\n"
	       "with a margin of %g: --scale %.17g (2^%d), for elements below %g; %.3g %% become 0 "
	       "by it\n",
	       (unsigned long long)profile->elements, (unsigned long long)profile->files,
	       (unsigned long long)profile->not_finite, profile->largest, profile->where,
	       (unsigned long long)profile->index, (unsigned long long)profile->ranks, most,
	       profile->margin, profile->scale, ilogb(profile->scale), below(profile),
	       100 * (double)profile->zeros / (double)profile->elements);
	return true;
}

static int profile_run(struct profile *profile, const struct opt_line *line)
{
	if (!all_read(profile, line))
		return EXIT_USAGE;
	if (!(profile->largest > 0)) {
		fprintf(stderr,
			"tally bench profile: %llu elements, and none that is finite and not 0: "
			"there is nothing to scale\n",
			(unsigned long long)profile->elements);
		return EXIT_FAILED;
	}
	suggest(profile);
	if (!all_read(profile, line))
		return EXIT_USAGE;
	if (!show(profile) || fflush(stdout)) {
		fprintf(stderr, "tally bench profile: the answer cannot be written\n");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

int profile_main(int argc, char **argv)
{
	struct profile profile = { .margin = 2 };
	struct opt_line line;
	int status = opt_read(&command, &profile, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	if (!profile.ranks)
		return opt_refuse(command.name, "--ranks", NULL, "missing: the ranks of the job");
	if (!line.words)
		return opt_refuse(command.name, "FILE", NULL, "missing: recorded gradients");
	return profile_run(&profile, &line);
}
