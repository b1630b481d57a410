/* SPDX-License-Identifier: Apache-2.0 */
/* hook_none_test.c - who lacks the kernel's engine hears what to install. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/hook_tc.h"

static void hook_none__names_the_packages(void **state)
{
	static const char *const words[] = { "clang", "libbpf-dev", "apt-get install", "make" };
	char error[HOOK_ERROR_BYTES] = "";
	struct hook *hook = NULL;

	(void)state;
	assert_int_equal(hook_tc_open(&hook, "lo", 7171, error), -ENOTSUP);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_non_null(strstr(error, words[i]));
	assert_non_null(strstr(error, "there was no clang:"));
	assert_null(hook);
}

static void hook_none__is_no_fault_where_nobody_asks_for_one(void **state)
{
	struct hook *hook = (struct hook *)state;
	char error[HOOK_ERROR_BYTES] = "";

	assert_int_equal(hook_tc_open(&hook, NULL, 7171, error), 0);
	assert_null(hook);
	assert_string_equal(error, "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hook_none__names_the_packages),
		cmocka_unit_test(hook_none__is_no_fault_where_nobody_asks_for_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
