/* SPDX-License-Identifier: Apache-2.0 */
/* plot_test.c - what is said of a gnuplot that is not there, or fails. It is a script: the test needs no real one. */
#include "util/plot.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "tally-plot-test.XXXXXX";

/* Programs are found in a folder that has a gnuplot, or nothing. */
static int begin(void **state)
{
	(void)state;
	return !mkdtemp(folder) || chdir(folder) || setenv("PATH", ".", 1);
}

static int end(void **state)
{
	(void)state;
	unlink("gnuplot");
	unlink("a.svg");
	return chdir("..") || rmdir(folder);
}

static void put_gnuplot(const char *script)
{
	FILE *file = fopen("gnuplot", "w");

	assert_non_null(file);
	assert_true(fputs(script, file) > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod("gnuplot", 0700), 0);
}

/* The least that is not in use. */
static int descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void plot__without_gnuplot_is_refused_before_the_work(void **state)
{
	(void)state;
	assert_false(plot_check("tally test", "a.svg", false));
	assert_int_equal(access("a.svg", F_OK), -1);
}

static void plot__with_gnuplot_needs_a_file_that_can_be_written(void **state)
{
	int before = descriptor();

	(void)state;
	put_gnuplot("#!/bin/sh\n");
	assert_true(plot_check("tally test", "a.svg", false));
	assert_int_equal(access("a.svg", W_OK), 0);
	assert_int_equal(descriptor(), before);
	assert_false(plot_check("tally test", "none/a.svg", false));
	assert_false(plot_check("tally test", "a.png", false));
	assert_false(plot_check("tally test", "a'.svg", false));
}

static FILE *heard;
static int kept;

/* From here on what is said on stderr goes to a file, */
static void hear(void)
{
	heard = fopen("said", "w+");
	kept = dup(STDERR_FILENO);
	assert_non_null(heard);
	assert_int_equal(unlink("said"), 0);
	assert_true(kept >= 0);
	assert_true(dup2(fileno(heard), STDERR_FILENO) >= 0);
}

/* and from here on not any more; this was said. */
static void hear_end(char said[128])
{
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	close(kept);
	memset(said, 0, 128);
	rewind(heard);
	(void)!fread(said, 1, 127, heard);
	fclose(heard);
}

/* There is no descriptor left for its input. */
static void plot__that_cannot_begin_is_told(void **state)
{
	struct rlimit files, few;
	FILE *gnuplot;
	char said[128];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	hear();
	few = files;
	few.rlim_cur = (rlim_t)descriptor();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	gnuplot = plot_open("tally test");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	hear_end(said);
	assert_null(gnuplot);
	assert_string_equal(said, "tally test: --plot: gnuplot cannot be started\n");
}

static void plot__is_drawn_if_gnuplot_says_so(void **state)
{
	static const char *const scripts[] = { "#!/bin/sh\nread line && test \"$line\" = plot\n",
					       "#!/bin/sh\nread line\nexit 1\n" };

	(void)state;
	for (int fails = 0; fails < 2; fails++) {
		FILE *gnuplot;
		char said[128];
		bool is_drawn;

		put_gnuplot(scripts[fails]);
		gnuplot = plot_open("tally test");
		assert_non_null(gnuplot);
		fputs("plot\n", gnuplot);
		hear();
		is_drawn = plot_close(gnuplot, "tally test", "a.svg");
		hear_end(said);
		assert_int_equal(is_drawn, !fails);
		assert_string_equal(
			said, fails ? "tally test: --plot: gnuplot could not write a.svg\n" : "");
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(plot__without_gnuplot_is_refused_before_the_work),
		cmocka_unit_test(plot__with_gnuplot_needs_a_file_that_can_be_written),
		cmocka_unit_test(plot__that_cannot_begin_is_told),
		cmocka_unit_test(plot__is_drawn_if_gnuplot_says_so),
	};

	return cmocka_run_group_tests_name("util-plot", tests, begin, end);
}
