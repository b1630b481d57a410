/* SPDX-License-Identifier: Apache-2.0 */
/* tally_ps_options_test.c - words of a table that have to do with its datagrams: claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tally_ps_options.h"

static struct ps_settings settings;

static const struct ps_hosted_options *taken(const char *text)
{
	char error[PS_ERROR_MAX] = "";

	settings.server.table_count = 0;
	if (ps_options_table(&settings, text, error))
		fail_msg("%s: %s", text, error);
	return &settings.tables[0];
}

static void refused(const char *text, const char *because)
{
	char error[PS_ERROR_MAX] = "";

	settings.server.table_count = 0;
	assert_int_equal(ps_options_table(&settings, text, error), -1);
	if (!strstr(error, because))
		fail_msg("%s: \"%s\" is not in: %s", text, because, error);
	assert_int_equal(settings.server.table_count, 0);
}

static void ps_options__packing_has_three_names_and_is_dealing(void **state)
{
	(void)state;
	assert_int_equal(taken("t,dim=1")->packing, KV_DEAL);
	assert_int_equal(taken("t,dim=1,packing=fill")->packing, KV_FILL);
	assert_int_equal(taken("t,dim=1,packing=algorithm1")->packing, KV_ALGORITHM_1);
	assert_int_equal(taken("t,dim=1,packing=deal")->packing, KV_DEAL);
	refused("t,dim=1,packing=best", "packing=best: fill, algorithm1 or deal");
	refused("t,optimizer=sum", "dim=: missing: the number of values of a key, 1 to 64");
}

static void ps_options__a_datagram_holds_a_row_and_a_sum(void **state)
{
	(void)state;
	assert_int_equal(taken("t,dim=18,bytes=192,window=18")->table.bytes, 192);
	refused("t,dim=1,bytes=192", "bytes=192: window=32 needs 304");
	refused("t,dim=1,bytes=192,window=19", "bytes=192: window=19 needs 200");
	refused("t,dim=19,bytes=192,window=18", "bytes=192: dim=19 needs 196");
	refused("t,dim=1,bytes=63", "bytes=63: a number from 64 to 8192");
}

static void ps_options__values_are_fixed_or_lns(void **state)
{
	(void)state;
	assert_int_equal(taken("t,dim=1")->table.values, SPARSE_FIXED);
	assert_int_equal(taken("t,dim=1,values=lns")->table.values, SPARSE_LNS);
	refused("t,dim=1,values=double", "values=double: fixed or lns");
	refused("t,dim=1,values=lns,mode=sync", "values=lns: is not for a table with mode=sync");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ps_options__packing_has_three_names_and_is_dealing),
		cmocka_unit_test(ps_options__values_are_fixed_or_lns),
		cmocka_unit_test(ps_options__a_datagram_holds_a_row_and_a_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
