/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker sends that does not fit, or only in part: it is told by name, and nothing of it counts. */
#include "ps/conn.h"
#include "ps/server_fixture.h"

static struct kv_message batch_of(uint64_t number, const uint64_t *key, const float *value)
{
	struct kv_message batch = { .type = KV_BATCH,
				    .number = number,
				    .dim = DIM,
				    .count = 2,
				    .key = key,
				    .value = value };

	return batch;
}

/* Keys 5 and 6 have these first values; the second ones are their opposites. */
static void expect_rows(int fd, float five, float six)
{
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	assert_int_equal(said.count, 2);
	assert_true(said.value[0] == five && said.value[1] == -five);
	assert_true(said.value[2] == six && said.value[3] == -six);
}

static void server__batch_of_another_dim_is_named(void **unused)
{
	static const uint64_t keys[] = { 5, 6 };
	static const float values[] = { 1, 2, 3, 4, 5, 6 };
	struct kv_message batch = batch_of(1, keys, values);
	int fd = open_one(0, 1);

	(void)unused;
	batch.dim = DIM + 1;
	say(fd, &batch);
	hear_no(fd, KV_REFUSED_MISMATCH,
		"table t has dim 2; worker 0 (H, pid 77) has sent a batch of dim 3");
	assert_int_equal(said.about, KV_BATCH);
	assert_int_equal(said.number, 1);
	expect_rows(fd, 0, 0);
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	expect_rows(fd, 3, 0);
	close(fd);
}

/* Whoever said the last number that there is would leave none for anybody: R-KV-11. */
static void server__barrier_beyond_reach_is_refused(void **unused)
{
	static const uint64_t reach = 1ull << 32;
	int fd = open_one(0, 1), other = open_one(1, 1);

	(void)unused;
	barrier_say(fd, UINT64_MAX);
	hear_no(fd, KV_REFUSED_MESSAGE, "BARRIER: number is out of range");
	hear_end(fd);
	fd = open_one(0, 1);
	barrier_say(fd, UINT64_MAX - 1);
	hear_no(fd, KV_REFUSED_MESSAGE, "barrier 18446744073709551614 is out of reach: the last");
	assert_int_equal(said.about, KV_BARRIER);
	barrier_say(fd, reach + 1);
	hear_no(fd, KV_REFUSED_MESSAGE, "that was passed is 0, and none is more than 2^32 above");
	barrier_say(other, reach);
	barrier_say(fd, reach); /* what was refused has changed nothing */
	barrier_hear(fd, reach);
	barrier_hear(other, reach);
	barrier_say(fd, 2 * reach + 1);
	hear_no(fd, KV_REFUSED_MESSAGE, "that was passed is 4294967296");
	barrier_say(fd, 2 * reach);
	barrier_say(other, 2 * reach);
	barrier_hear(fd, 2 * reach);
	close(fd);
	fd = open_one(0, 2);
	assert_true(said.barrier == 2 * reach);
	close(fd);
	close(other);
}

/* What is no message ends the connection; a later one of the same worker goes on where the table is. */
static void server__keys_and_values_that_cannot_be_end_the_connection(void **unused)
{
	static const uint64_t ascending[] = { 5, 6 }, unsorted[] = { 6, 5 }, twice[] = { 5, 5 };
	static const float values[] = { 1, -1, 1, -1 }, is_nan[] = { 1, -1, NAN, -1 },
			   is_infinite[] = { 1, -1, 1, -INFINITY };
	const struct {
		struct kv_message batch;
		const char *part;
	} cases[] = {
		{ batch_of(2, unsorted, values), "pid 77): BATCH: keys are not ascending" },
		{ batch_of(2, twice, values), "pid 77): BATCH: keys are not ascending" },
		{ batch_of(2, ascending, is_nan), "pid 77): BATCH: values" },
		{ batch_of(2, ascending, is_infinite), "pid 77): BATCH: values" },
	};
	int fd = open_one(0, 1);

	(void)unused;
	batch_say(fd, 1, 5, 3);
	hear(fd, KV_DONE);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		say(fd, &cases[i].batch);
		hear_no(fd, KV_REFUSED_MESSAGE, cases[i].part);
		hear_end(fd);
		fd = open_one(0, 1);
		assert_true(said.is_known);
		assert_int_equal(said.number, 2);
		expect_rows(fd, 3, 0);
	}
	close(fd);
}

static void server__what_only_servers_say_ends_the_connection(void **unused)
{
	int fd = open_one(0, 1);

	(void)unused;
	say(fd, &(struct kv_message){ .type = KV_DONE, .number = 1 });
	hear_no(fd, KV_REFUSED_MESSAGE, "DONE from worker 0 (H, pid 77): only servers say that");
	hear_end(fd);
}

/* R-KV-14 */
static void server__table_that_is_not_open_is_named(void **unused)
{
	struct kv_message hello = hello_of(1, 1);
	int fd = connect_one();

	(void)unused;
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	batch_say(fd, 1, 5, 3);
	hear_no(fd, KV_REFUSED_MESSAGE, "BATCH of worker 1 (H, pid 77): it has no table 0 open");
	barrier_say(fd, 1);
	hear_no(fd, KV_REFUSED_MESSAGE, "BARRIER of worker 1 (H, pid 77): it has no table 0 open");
	pull_say(fd, 0, 0);
	hear_no(fd, KV_REFUSED_MESSAGE, "PULL of worker 1 (H, pid 77): it has no table 0 open");
	close(fd);
}

static void server__pull_of_more_than_an_answer_holds_is_named(void **unused)
{
	static uint64_t keys[KV_KEYS_MAX];
	struct kv_message
		pull = { .type = KV_PULL, .number = 1, .count = KV_KEYS_MAX, .key = keys },
		hello = hello_of(0, 1),
		open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = SPARSE_DIM_MAX };
	int fd;

	(void)unused;
	end(NULL);
	logs_remove();
	table.table.dim = SPARSE_DIM_MAX;
	assert_int_equal(begin(NULL), 0);
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear(fd, KV_OPENED);
	for (uint64_t i = 0; i < KV_KEYS_MAX; i++)
		keys[i] = i;
	say(fd, &pull);
	hear_no(fd, KV_REFUSED_MESSAGE,
		"worker 0 (H, pid 77) asks for 16384 keys at once; 2048 of dim 64 fit");
	assert_int_equal(said.about, KV_PULL);
	pull.count = 2048;
	say(fd, &pull);
	hear(fd, KV_PULLED);
	assert_int_equal(said.count, 2048);
	close(fd);
}

/* Each waits for an epoch that does not come. */
static void server__pulls_that_wait_have_a_bound(void **unused)
{
	int fd = open_one(0, 1);
	uint64_t generation = said.generation;

	(void)unused;
	for (uint32_t i = 0; i < PS_CONN_PULLS; i++)
		pull_say(fd, generation, 1);
	assert_true(is_quiet(fd));
	pull_say(fd, generation, 1);
	hear_no(fd, KV_REFUSED_MEMORY, "64 pulls of worker 0 (H, pid 77) wait already");
	expect_rows(fd, 0, 0);
	close(fd);
}

/* As kill -9 leaves it: a batch of which all but the last byte has come. */
static void server__half_of_a_batch_counts_not(void **unused)
{
	static const uint64_t keys[] = { 5, 6 };
	static const float values[] = { 1, -1, 1, -1 };
	struct kv_message batch = batch_of(2, keys, values);
	uint8_t *frame = malloc(kv_bytes(&batch));
	size_t bytes = kv_put(&batch, frame);
	int other = open_one(1, 1);

	(void)unused;
	for (size_t cut = 1; cut < bytes; cut += (bytes - 2) / 3) {
		int fd = open_one(0, cut); /* whoever comes in its place */

		assert_int_equal(said.number, 1);
		batch_say(fd, 1, 5, 3);
		hear(fd, KV_DONE);
		assert_int_equal(send(fd, frame, cut, MSG_NOSIGNAL), cut);
		close(fd);
		expect_rows(other, 3 * (float)((cut - 1) / ((bytes - 2) / 3) + 1), 0);
	}
	free(frame);
	batch_say(other, 1, 6, 7);
	hear(other, KV_DONE);
	expect_rows(other, 12, 7);
	close(other);
}

static void *let_go(void *fd)
{
	usleep(120000);
	close(*(int *)fd);
	return NULL;
}

/* Of a child of the one before it, which was killed. */
static void server__listener_that_is_closed_soon_is_waited_for(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	char text[PS_TEXT_BYTES];
	pthread_t other;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)) | listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(at.sin_port));
	options_begin();
	options.listen = text;
	assert_int_equal(pthread_create(&other, NULL, let_go, &fd), 0);
	assert_int_equal(begin(state), 0);
	assert_int_equal(port, ntohs(at.sin_port));
	pthread_join(other, NULL);
	close(open_one(0, 1));
	end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(server__batch_of_another_dim_is_named, setup, end),
		cmocka_unit_test_setup_teardown(
			server__keys_and_values_that_cannot_be_end_the_connection, setup, end),
		cmocka_unit_test_setup_teardown(server__barrier_beyond_reach_is_refused, setup,
						end),
		cmocka_unit_test_setup_teardown(server__what_only_servers_say_ends_the_connection,
						setup, end),
		cmocka_unit_test_setup_teardown(server__table_that_is_not_open_is_named, setup,
						end),
		cmocka_unit_test_setup_teardown(server__pull_of_more_than_an_answer_holds_is_named,
						setup, end),
		cmocka_unit_test_setup_teardown(server__pulls_that_wait_have_a_bound, setup, end),
		cmocka_unit_test_setup_teardown(server__half_of_a_batch_counts_not, setup, end),
		cmocka_unit_test(server__listener_that_is_closed_soon_is_waited_for),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
