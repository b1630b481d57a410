/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka.h - as much of cmocka as the tests of simd need, where there is no library: a cross build. */
#ifndef TESTS_ARM64_CMOCKA_H
#define TESTS_ARM64_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
	int (*setup)(void **state);
};

#define cmocka_unit_test_setup(test, its_setup) \
	{                                       \
#test, test, its_setup          \
	}
#define cmocka_unit_test(test) cmocka_unit_test_setup(test, NULL)
#define print_message printf

/* The first that fails ends the program. */
static inline void alone_assert(int is_true, const char *claim, const char *file, int line)
{
	if (is_true)
		return;
	printf("%s:%d: not so: %s\n", file, line, claim);
	exit(1);
}
#define assert_true(x) alone_assert(!!(x), #x, __FILE__, __LINE__)
#define assert_int_equal(x, y) assert_true((x) == (y))
#define assert_ptr_equal(x, y) assert_true((x) == (y))
#define assert_ptr_not_equal(x, y) assert_true((x) != (y))
#define assert_string_equal(x, y) assert_true(!strcmp(x, y))
#define assert_memory_equal(x, y, bytes) assert_true(!memcmp(x, y, bytes))

static inline int alone_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *state = NULL;

		if (tests[i].setup && tests[i].setup(&state))
			return 1;
		tests[i].run(&state);
		printf("[       OK ] %s\n", tests[i].name);
	}
	printf("%s: %zu tests\n", name, count);
	return 0;
}
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
	alone_run(name, tests, sizeof(tests) / sizeof(*(tests)))

#endif
