/* SPDX-License-Identifier: Apache-2.0 */
/* share_test.c - servers that are not of one table, or make it otherwise, are named before anything is pushed: R-KV-22. */
#include "kvlib/kv_fixture.h"
#include "lib/identity.h"

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
	       "speaks version 1; this library speaks 4");
	assert_null(kv);
	fake_end(fake);
}

static void this_rate_late(struct kv_message *opened)
{
	this_rate(opened);
	usleep(20000); /* the worker sleeps */
}

static void quiet_as(struct fake *fake, void (*opened)(struct kv_message *))
{
	pthread_mutex_lock(&fake->lock);
	fake->is_quiet = true;
	fake->opened = opened;
	pthread_mutex_unlock(&fake->lock);
}

/* Nobody says anything else before half a heartbeat is over, which is 30 s. */
static void kv__list_is_said_as_soon_as_all_have_opened(void **state)
{
	enum { OPENS = 2 };
	struct fake *one = fake_begin(0, 6), *two = fake_begin(0, 7); /* no UDP wakes the worker */
	uint64_t began_ns = clock_ns();
	char both[160];

	(void)state;
	fake_heartbeat_ms = 60000;
	snprintf(both, sizeof(both), "%s,%s", one->address, two->address);
	quiet_as(one, this_rate);
	quiet_as(two, this_rate_late);
	for (uint32_t i = 0; i < OPENS; i++) {
		struct tally_kv *kv = open_of(both, i % FAKE_WORKERS);

		ok(tally_kv_close(kv));
	}
	if (clock_ns() - began_ns > 15 * 1000000000ull)
		fail_msg("%u opens took %llu ms", OPENS,
			 (unsigned long long)((clock_ns() - began_ns) / 1000000));
	fake_heartbeat_ms = 2000;
	fake_end(one);
	fake_end(two);
}

static void opened_as(struct fake *fake, void (*opened)(struct kv_message *))
{
	pthread_mutex_lock(&fake->lock);
	fake->opened = opened;
	pthread_mutex_unlock(&fake->lock);
}

static double processor_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* It was begun again with another --table. What it says from then on is not read, and costs nothing. */
static void kv__server_that_comes_back_with_other_words_is_left(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 12);
	float value[FAKE_DIM] = { 1, -2, 3 };
	uint64_t key = 4, timestamp;
	struct tally_kv *kv;
	double began_s;
	int result;

	(void)state;
	opened_as(fake, this_rate);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	opened_as(fake, other_rate);
	fake_restart(fake);
	result = tally_kv_push(kv, &key, value, 1, &timestamp);
	failed(result ? result : tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
	       "has become another one since it was opened: its words are others");
	began_s = processor_s();
	usleep(1000000);
	if (processor_s() - began_s > 0.3)
		fail_msg("%.3f s of processor in a second", processor_s() - began_s);
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "its words are others");
	fake_end(fake);
}

/* The second OPEN is not answered: nothing was compared. */
static void kv__list_that_nobody_judges_is_no_success(void **state)
{
	struct fake *one = fake_begin(FAKE_HOT, 8), *two = fake_begin(FAKE_HOT, 9);
	struct tally_kv_options options;
	struct tally_kv *kv = NULL;
	char both[160], because[200];

	(void)state;
	snprintf(both, sizeof(both), "%s,%s", one->address, two->address);
	snprintf(because, sizeof(because),
		 "server %s has opened table words, and has not said in 1 s whether the other "
		 "servers of this list are the table's",
		 one->address);
	pthread_mutex_lock(&one->lock);
	one->keeps_lists = true;
	pthread_mutex_unlock(&one->lock);
	options = options_of(both, 0);
	options.deadline_ms = 1000;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_TIMEOUT, because);
	assert_null(kv);
	fake_end(one);
	fake_end(two);
}

static void environment_set(const char *const env[4], bool is_set)
{
	char name[64];

	for (unsigned i = 0; i < 4 && env[i]; i++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(env[i], "="), env[i]);
		assert_int_equal(is_set ? setenv(name, strchr(env[i], '=') + 1, 1) : unsetenv(name),
				 0);
	}
}

/* R-KV-6: where a second program of the launch may say the same name. */
static void kv__command_line_is_said_where_the_name_is_a_launchers(void **state)
{
	static char mine[64], anothers[64];
	static const struct {
		const char *env[4];
		const char *given; /* by the program: the job, */
		bool is_of_env;    /* and not how many workers */
		const char *job;
		bool has_program;
	} cases[] = {
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=p" }, NULL, true, "p", true },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=p" }, NULL, false, "p", true },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=p" }, "given", true, "given", false },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "TALLY_JOB=u" }, NULL, true, "u", false },
		{ { "TALLY_RANK=1", "TALLY_SIZE=2", "TALLY_JOB=run", mine },
		  NULL,
		  true,
		  "run",
		  false },
		{ { "TALLY_RANK=1", "TALLY_SIZE=2", "TALLY_JOB=run", anothers },
		  NULL,
		  true,
		  "run",
		  true },
		{ { "SLURM_JOB_ID=7" }, NULL, false, "slurm-7", false },
		{ { NULL }, NULL, false, "default", false },
	};
	struct fake *fake = fake_begin(0, 11);
	struct identity self;

	(void)state;
	identity_read(&self);
	assert_true(self.program);
	snprintf(mine, sizeof(mine), "TALLY_RUN=%d:run", (int)getpid());
	snprintf(anothers, sizeof(anothers), "TALLY_RUN=%d:run", (int)getpid() + 1);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tally_kv_options options = options_of(fake->address, 1);
		struct tally_kv *kv;

		options.job = cases[i].given;
		if (cases[i].is_of_env)
			options.workers = options.worker = 0;
		pthread_mutex_lock(&fake->lock);
		fake->job = cases[i].job;
		fake->program = 77;
		pthread_mutex_unlock(&fake->lock);
		environment_set(cases[i].env, true);
		ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
		environment_set(cases[i].env, false);
		pthread_mutex_lock(&fake->lock);
		if (fake->program != (cases[i].has_program ? self.program : 0))
			fail_msg("case %u: program %llx", i, (unsigned long long)fake->program);
		pthread_mutex_unlock(&fake->lock);
		ok(tally_kv_close(kv));
	}
	fake_end(fake);
}

static void kv__words_of_a_server_forge_no_line(void **state)
{
	static const char forged[] = "table words: worker 1 (a\ntally info: all is well\x1b[2J)";
	struct fake *fake = fake_begin(FAKE_HOT, 10);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->refuses = KV_OPEN;
	fake->refusal = KV_REFUSED_MISMATCH;
	fake->because = forged;
	pthread_mutex_unlock(&fake->lock);
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_MISMATCH,
	       "worker 1 (a?tally info: all is well?[2J)");
	assert_null(kv);
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__servers_that_are_not_made_alike_are_named),
		cmocka_unit_test(kv__list_is_said_as_soon_as_all_have_opened),
		cmocka_unit_test(kv__server_that_comes_back_with_other_words_is_left),
		cmocka_unit_test(kv__list_that_nobody_judges_is_no_success),
		cmocka_unit_test(kv__command_line_is_said_where_the_name_is_a_launchers),
		cmocka_unit_test(kv__words_of_a_server_forge_no_line),
		cmocka_unit_test(kv__server_of_an_older_version_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
