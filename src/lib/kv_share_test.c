/* SPDX-License-Identifier: Apache-2.0 */
/* kv_share_test.c - servers that are not of one table, or make it otherwise, are named before anything is pushed: R-KV-22. */
#include "lib/kv_fixture.h"

static void other_rate(struct kv_message *opened)
{
	snprintf(opened->text, sizeof(opened->text),
		 "tally-ps 1 table words optimizer sgd rate 0x1.4p+2 mode sync");
}

static void this_rate(struct kv_message *opened)
{
	snprintf(opened->text, sizeof(opened->text),
		 "tally-ps 1 table words optimizer sgd rate 0x1p-3 mode sync");
}

static void other_optimizer(struct kv_message *opened)
{
	snprintf(opened->text, sizeof(opened->text),
		 "tally-ps 1 table words optimizer adam\x1b[31m rate 0x1p-3 mode sync");
}

static void other_words(struct kv_message *opened)
{
	snprintf(opened->text, sizeof(opened->text),
		 "tally-ps 1 table words optimizer sgd rate 0x1p-3");
}

static void other_identity(struct kv_message *opened)
{
	this_rate(opened);
	opened->identity[3] ^= 1;
}

static void kv__servers_that_are_not_made_alike_are_named(void **state)
{
	static const struct {
		void (*opened)(struct kv_message *);
		int result;
		const char *because;
	} cases[] = {
		{ other_rate, TALLY_ERR_MISMATCH, "rate is 0.125 on server 127.0.0.1:" },
		{ other_optimizer, TALLY_ERR_MISMATCH, "and adam?[31m on server 127.0.0.1:" },
		{ other_words, TALLY_ERR_MISMATCH, "mode is sync on server 127.0.0.1:" },
		{ other_identity, TALLY_ERR_REMOTE,
		  "another table than words as it was asked for" },
	};
	struct fake *one = fake_begin(FAKE_HOT, 3), *two = fake_begin(FAKE_HOT, 4);
	char both[160];

	(void)state;
	snprintf(both, sizeof(both), "%s,%s", one->address, two->address);
	one->opened = this_rate;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tally_kv_options options = options_of(both, 0);
		struct tally_kv *kv = NULL;

		pthread_mutex_lock(&two->lock);
		two->opened = cases[i].opened;
		pthread_mutex_unlock(&two->lock);
		failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), cases[i].result,
		       cases[i].because);
		assert_null(kv);
	}
	assert_int_equal(two->batches, 0);
	fake_end(one);
	fake_end(two);
}

static void kv__server_of_an_older_version_is_named(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 5);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->version = 1;
	pthread_mutex_unlock(&fake->lock);
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_VERSION,
	       "speaks version 1; this library speaks 2");
	assert_null(kv);
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__servers_that_are_not_made_alike_are_named),
		cmocka_unit_test(kv__server_of_an_older_version_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
