/* SPDX-License-Identifier: Apache-2.0 */
/* lost_test.c - tally_kv_* and servers that do not answer, or not as they should: what is said of them, and when. */
#include "core/shared/hash.h"
#include "kvlib/kv_fixture.h"

static void kv__server_that_is_not_there_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 11);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;
	char address[64];
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	deadline_is(kv, 300);
	strcpy(address, fake->address);
	fake_end(fake);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	assert_int_equal(tally_kv_wait(kv, timestamp, 0), TALLY_IN_PROGRESS);
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, address);
	failed(tally_kv_barrier(kv), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	kv = NULL;
	options.servers = address;
	options.deadline_ms = 300;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_SYSTEM,
	       "Connection refused");
	assert_null(kv);
}

/* Nor is its table open before that. */
static void kv__server_that_never_says_its_switch_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 31);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->keeps_switch = true;
	pthread_mutex_unlock(&fake->lock);
	options.deadline_ms = 1000;
	failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_TIMEOUT,
	       "has not opened table words in 1 s, nor said why");
	assert_null(kv);
	fake_end(fake);
}

static void kv__server_that_says_nothing_is_named_in_time(void **state)
{
	const uint32_t heartbeat_ms = fake_heartbeat_ms;
	struct fake *fake = fake_begin(FAKE_HOT, 12);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	fake_heartbeat_ms = FAKE_HEARTBEAT_MS;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	deadline_is(kv, 300);
	pthread_mutex_lock(&fake->lock);
	fake->is_silent = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	fake_end(fake);
	fake_heartbeat_ms = heartbeat_ms;
}

/* It is back again and again, and answers nothing. */
static uint32_t opens;

static void count_open(struct kv_message *opened)
{
	(void)opened;
	opens++;
}

/* It speaks each 50 ms, and says that it would each 45: eight times that is borne. */
static void kv__server_that_misses_a_heartbeat_is_not_lost(void **state)
{
	struct fake *fake = fake_begin(0, 17);

	(void)state;
	fake_heartbeat_ms = 45;
	pthread_mutex_lock(&fake->lock);
	fake->opened = count_open;
	pthread_mutex_unlock(&fake->lock);
	opens = 0;
	for (int i = 0; i < 5 && opens != 1; i++) { /* a busy host may keep it from speaking */
		struct tally_kv *kv;

		opens = 0;
		kv = open_of(fake->address, 0);
		usleep(600000);
		ok(tally_kv_close(kv));
	}
	fake_heartbeat_ms = 2000;
	fake_end(fake);
	assert_int_equal(opens, 1);
}

static void kv__server_that_ends_at_each_pull_is_named_in_time(void **state)
{
	struct fake *fake = fake_begin(0, 19);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM];

	(void)state;
	options.deadline_ms = 2000; /* more than between two tries */
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp)); /* what it did before is no excuse */
	ok(tally_kv_wait(kv, timestamp, -1));
	pthread_mutex_lock(&fake->lock);
	fake->ends_at_pull = true;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, 20000), TALLY_ERR_REMOTE, "cannot be reached");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "cannot be reached");
	fake_end(fake);
}

static void kv__answer_to_another_pull_ends_the_table(void **state)
{
	struct fake *fake = fake_begin(0, 30);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key[] = { 3, 4 }, timestamp;
	float value[2 * FAKE_DIM];

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->pulls_lack = 1;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_pull(kv, key, value, 2, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_INTERNAL,
	       "answered a pull of 2 keys with 1 of dim 3");
	failed(tally_kv_close(kv), TALLY_ERR_INTERNAL, "answered a pull");
	fake_end(fake);
}

/* For as long as it was away it could not answer. */
static void kv__pull_is_waited_for_since_its_server_is_back(void **state)
{
	struct fake *fake = fake_begin(0, 23);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM];

	(void)state;
	options.deadline_ms = 3000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_PULL;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp));
	for (int i = 0; i < 2; i++) { /* 4 s of the first word, 2 s of the second */
		assert_int_equal(tally_kv_wait(kv, timestamp, 2000), TALLY_IN_PROGRESS);
		fake_restart(fake);
	}
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_NOTHING;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* What other operations do is no sign of this one. */
static void kv__push_that_nothing_comes_of_is_named_while_pulls_go_on(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 20);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };
	int result = 0;

	(void)state;
	options.deadline_ms = 1000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_BATCH;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_push(kv, &key, value, 1, NULL));
	for (uint32_t i = 0; i < 400 && !result; i++) {
		result = tally_kv_pull(kv, &key, value, 1, &timestamp);
		if (!result)
			result = tally_kv_wait(kv, timestamp, -1);
		usleep(20000);
	}
	failed(result, TALLY_ERR_TIMEOUT, "nothing has come of operation 1 on table words for 1 s");
	failed(tally_kv_close(kv), TALLY_ERR_TIMEOUT, "nothing has come of operation 1");
	fake_end(fake);
}

/* Its switch does not hear of it, and the server does not say that it was committed. */
static void kv__hot_push_that_nothing_comes_of_is_named(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 32);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv;
	uint64_t key = 6, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };

	(void)state;
	options.deadline_ms = 1000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	fake_loses(fake, 1000000);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, 20000), TALLY_ERR_TIMEOUT,
	       "nothing has come of operation 1 on table words for 1 s");
	failed(tally_kv_close(kv), TALLY_ERR_TIMEOUT, "nothing has come of operation 1");
	fake_end(fake);
}

/* Not another one, of which nothing was asked. */
static void kv__server_that_a_pull_waits_for_is_named(void **state)
{
	struct fake *one = fake_begin(0, 33), *two = fake_begin(0, 34);
	struct tally_kv_options options;
	struct tally_kv *kv;
	uint64_t key = 0, timestamp;
	float value[FAKE_DIM];
	char both[160], there[96];

	(void)state;
	while (hash_number(HASH_BEGIN, key, sizeof(key)) % 2 == 0)
		key++;
	snprintf(both, sizeof(both), "%s,%s", one->address, two->address);
	snprintf(there, sizeof(there), "its server %s is there", two->address);
	options = options_of(both, 0);
	options.deadline_ms = 1000;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	pthread_mutex_lock(&two->lock);
	two->drops = KV_PULL;
	pthread_mutex_unlock(&two->lock);
	ok(tally_kv_pull(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_TIMEOUT, there);
	failed(tally_kv_close(kv), TALLY_ERR_TIMEOUT, there);
	fake_end(one);
	fake_end(two);
}

/* R-SP-21 */
static void kv__server_that_commits_what_was_never_sent_ends_the_table(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 35);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct kv_server *server = &kv->server[0];
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };
	struct sparse packet = { .kind = SPARSE_COMMITTED, .count = 1, .width = 4, .number = 1 };

	(void)state;
	sparse_body_put64(at + SPARSE_HEADER_BYTES, 1);
	pthread_mutex_lock(&kv->lock);
	packet.table = server->core->shape.index;
	packet.generation = kv_hot_generation(server);
	sparse_put(at, &packet);
	kv_hot_packet(kv, &server->at_server, at, sparse_bytes(&packet));
	assert_int_equal(kv_hot_turn(server), UINT64_MAX);
	assert_int_equal(kv->error, TALLY_ERR_INTERNAL);
	pthread_mutex_unlock(&kv->lock);
	failed(tally_kv_close(kv), TALLY_ERR_INTERNAL,
	       "has committed what was never sent to table words");
	fake_end(fake);
}

/* Until the program closes the table its worker is there. */
static void kv__refused_batch_ends_the_table_and_not_the_connection(void **state)
{
	struct fake *fake = fake_begin(0, 36);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };

	(void)state;
	fake_refuses(fake, KV_BATCH, KV_REFUSED_MEMORY);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_NO_RESOURCE, "because the test says so");
	pthread_mutex_lock(&kv->lock);
	assert_true(kv->server[0].stream.fd >= 0);
	pthread_mutex_unlock(&kv->lock);
	failed(tally_kv_close(kv), TALLY_ERR_NO_RESOURCE, "because the test says so");
	fake_end(fake);
}

/* A server of two addresses, by hand, for else that takes a name with two. */
struct two {
	struct tally_kv *kv;
	struct kv_server *server;
	struct worker_kv *core;
	struct conn_address first, other;
	int first_fd, other_fd;
};

static void two_begin(struct two *two)
{
	const struct worker_kv_config config = { .deadline_ns = 60000000000, .servers = 1 };
	struct tally_kv *kv = calloc(1, sizeof(*kv) + sizeof(kv->server[0]));

	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &two->first), 0);
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &two->other), 0);
	two->first_fd = conn_listen(&two->first);
	two->other_fd = conn_listen(&two->other);
	assert_true(two->first_fd >= 0 && two->other_fd >= 0);
	kv->servers = kv->workers = 1;
	kv->incarnation = 1;
	strcpy(kv->who.job, "test");
	kv->now_ns = clock_ns();
	two->kv = kv;
	two->core = malloc(worker_kv_bytes(1));
	worker_kv_init(two->core, &config, kv->now_ns);
	kv->core = two->core;
	two->server = &kv->server[0];
	kv_server_init(two->server, kv, 0);
	two->server->at = two->first;
	two->server->at.others[0] = two->other.socket;
	two->server->at.others_count = 1;
	kv_server_turn(two->server);
	assert_int_equal(two->core->server->state, WORKER_KV_HELLO);
}

/* The first address is left for the other. */
static void two_end(struct two *two)
{
	assert_int_equal(two->core->server->state, WORKER_KV_IDLE);
	assert_memory_equal(&two->server->at.socket, &two->other.socket, two->other.bytes);
	kv_server_fini(two->server);
	free(two->core);
	free(two->kv);
	close(two->first_fd);
	close(two->other_fd);
}

/* The first one's host takes the connection, and says nothing. */
static void kv__silent_address_is_left_for_the_next(void **state)
{
	struct two two;

	(void)state;
	two_begin(&two);
	two.kv->now_ns += 6000000000;
	kv_server_turn(two.server);
	two_end(&two);
}

/* That it has ended shows in what is written, before anything is read. */
static void kv__address_that_ends_at_once_is_left_for_the_next(void **state)
{
	const struct kv_message alive = { .type = KV_ALIVE };
	struct two two;

	(void)state;
	two_begin(&two);
	assert_int_equal(shutdown(two.server->stream.fd, SHUT_WR), 0);
	kv_say(two.server, &alive);
	kv_server_flush(two.server);
	two_end(&two);
}

/* Its first WELCOME comes when a later HELLO has been said, and so does each. */
static void kv__path_that_is_slower_than_the_hellos_opens(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 21);
	struct tally_kv *kv;
	uint64_t key = 6, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->hello_ns = 400000000;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, 10000));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static char saturated[1024]; /* the lines that say so */

static void line_keep(int level, const char *line, void *arg)
{
	(void)arg;
	if (level == TALLY_LOG_WARN && strstr(line, "too large"))
		strncat(saturated, line, sizeof(saturated) - strlen(saturated) - 1);
}

static void in_halves(struct kv_message *opened)
{
	opened->scale = 0.5f;
}

/* A hot key's sum is of whole numbers of 32 bits; what is more is cut, and that is said, once. */
static void kv__hot_value_that_is_too_large_is_said(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 22);
	struct tally_kv *kv;
	uint64_t key[] = { 6, 12 }, timestamp;
	float value[2 * FAKE_DIM] = { 1, 2, 3, 4, -5e9f, 6 };
	const char *first;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->opened = in_halves;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_set_log(TALLY_LOG_WARN, line_keep, NULL));
	ok(tally_kv_push(kv, key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	assert_string_equal(saturated, "");
	for (int i = 0; i < 2; i++) {
		ok(tally_kv_push(kv, key, value, 2, &timestamp));
		ok(tally_kv_wait(kv, timestamp, -1));
	}
	ok(tally_kv_close(kv));
	ok(tally_set_log(0, NULL, NULL));
	first = strstr(saturated, "table words: a value pushed for hot key 12 is too large: "
				  "4.29497e+09 is added in its place");
	assert_non_null(first);
	assert_null(strstr(first + 1, "table words: a value"));
	fake_end(fake);
}

static struct {
	int count, level;
} dropped; /* lines that say so, and the last one's level */

static void dropped_keep(int level, const char *line, void *arg)
{
	(void)arg;
	if (!strstr(line, " packets were dropped since it was opened"))
		return;
	dropped.count++;
	dropped.level = level;
}

/* A few are no reason to look. */
static void kv__dropped_packets_are_warned_of_when_they_are_many(void **state)
{
	static const struct {
		uint64_t packets;
		int lines, level;
	} cases[] = {
		{ 1, 1, TALLY_LOG_INFO },  { 2, 2, TALLY_LOG_INFO },  { 3, 2, TALLY_LOG_INFO },
		{ 32, 3, TALLY_LOG_INFO }, { 64, 4, TALLY_LOG_WARN },
	};
	struct fake *fake = fake_begin(0, 24);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	ok(tally_set_log(TALLY_LOG_INFO, dropped_keep, NULL));
	pthread_mutex_lock(&kv->lock);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kv->stats.packets_dropped = cases[i].packets;
		kv_hot_dropped_say(kv);
		assert_int_equal(dropped.count, cases[i].lines);
		assert_int_equal(dropped.level, cases[i].level);
	}
	pthread_mutex_unlock(&kv->lock);
	ok(tally_set_log(0, NULL, NULL));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* From a stranger, and from its server, of another generation. */
static void kv__packets_that_nobody_takes_are_counted(void **state)
{
	static const struct link_address stranger = { .port = 9 };
	struct fake *fake = fake_begin(FAKE_HOT, 29);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };
	struct sparse packet = { .kind = SPARSE_ACK, .number = 1 };

	(void)state;
	pthread_mutex_lock(&kv->lock);
	packet.table = kv->server[0].core->shape.index;
	packet.generation = kv_hot_generation(&kv->server[0]) + 1;
	sparse_put(at, &packet);
	kv_hot_packet(kv, &stranger, at, sparse_bytes(&packet));
	assert_int_equal(kv_hot_dropped(kv), 1);
	kv_hot_packet(kv, &kv->server[0].at_server, at, sparse_bytes(&packet));
	assert_int_equal(kv_hot_dropped(kv), 2);
	pthread_mutex_unlock(&kv->lock);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* A pull of two servers fails at one: what the other still owes it is forgotten with it. */
static void kv__failed_pull_leaves_nothing_at_the_other_server(void **state)
{
	struct fake *one = fake_begin(0, 25), *two = fake_begin(0, 26);
	uint64_t key[64], timestamp;
	float value[64 * FAKE_DIM];
	struct tally_kv *kv;
	char both[160];

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		key[i] = i;
	snprintf(both, sizeof(both), "%s,%s", one->address, two->address);
	kv = open_of(both, 0);
	pthread_mutex_lock(&one->lock);
	one->drops = KV_PULL;
	pthread_mutex_unlock(&one->lock);
	fake_refuses(two, KV_PULL, KV_REFUSED_MEMORY);
	ok(tally_kv_pull(kv, key, value, 64, &timestamp));
	failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_NO_RESOURCE, "because the test says so");
	pthread_mutex_lock(&kv->lock);
	assert_null(kv->server[0].pulls);
	assert_int_equal(kv->server[0].pull_bytes, 0);
	pthread_mutex_unlock(&kv->lock);
	pthread_mutex_lock(&one->lock);
	one->drops = KV_NOTHING;
	pthread_mutex_unlock(&one->lock);
	fake_refuses(two, KV_NOTHING, KV_REFUSED_MEMORY);
	ok(tally_kv_pull(kv, key, value, 64, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_close(kv));
	fake_end(one);
	fake_end(two);
}

enum { FLOOD_TURNS = 3, FLOOD_MANY = 5000 };

/* A socket that has a flood for some turns of the thread, or is broken. Under the table's lock. */
static struct {
	struct link_ops ops;
	const struct link_ops *real;
	struct tally_kv *kv;
	uint64_t turn_ns;
	uint32_t turns, of_turn, most; /* reads */
	bool is_broken;
} flood;

static int flood_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	if (flood.is_broken)
		return -EPERM;
	if (flood.turn_ns != flood.kv->now_ns) {
		flood.turn_ns = flood.kv->now_ns;
		flood.turns++;
		flood.of_turn = 0;
	}
	if (flood.turns > FLOOD_TURNS)
		return flood.real->recv(link, frames, max);
	if (++flood.of_turn > flood.most)
		flood.most = flood.of_turn;
	memset(frames, 0, max * sizeof(*frames));
	return flood.of_turn > FLOOD_MANY ? 0 : (int)max;
}

static void kv__flood_of_packets_does_not_hold_up_the_rest_and_a_broken_socket_ends_it(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 27);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 6, timestamp;
	float value[FAKE_DIM] = { 1, 2, 3 };
	int result;

	(void)state;
	pthread_mutex_lock(&kv->lock);
	flood.kv = kv;
	flood.real = kv->link->ops;
	flood.ops = *flood.real;
	flood.ops.recv = flood_recv;
	kv->link->ops = &flood.ops;
	pthread_mutex_unlock(&kv->lock);
	ok(tally_kv_push(kv, &key, value, 1, &timestamp)); /* its answer makes the socket ready */
	ok(tally_kv_wait(kv, timestamp, -1));
	pthread_mutex_lock(&kv->lock);
	assert_true(flood.turns > FLOOD_TURNS);
	assert_in_range(flood.most, 2, FLOOD_MANY);
	flood.is_broken = true;
	pthread_mutex_unlock(&kv->lock);
	result = tally_kv_push(kv, &key, value, 1, &timestamp); /* the flood may wake it before */
	if (!result)
		result = tally_kv_wait(kv, timestamp, -1);
	failed(result, TALLY_ERR_SYSTEM,
	       "the kernel refuses to receive on the UDP socket: Operation not permitted");
	failed(tally_kv_close(kv), TALLY_ERR_SYSTEM, "refuses to receive");
	fake_end(fake);
}

static void kv__nothing_is_kept_for_a_connection_that_is_not_there(void **state)
{
	const struct kv_message leave = { .type = KV_LEAVE };
	struct fake *fake = fake_begin(FAKE_HOT, 28);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct kv_server *server = &kv->server[0];

	(void)state;
	pthread_mutex_lock(&kv->lock);
	kv_server_lose(server, WORKER_KV_HERE, "out of memory");
	kv_say(server, &leave);
	assert_null(server->stream.out.bytes);
	pthread_mutex_unlock(&kv->lock);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__server_that_is_not_there_is_named_in_time),
		cmocka_unit_test(kv__server_that_never_says_its_switch_is_named_in_time),
		cmocka_unit_test(kv__server_that_says_nothing_is_named_in_time),
		cmocka_unit_test(kv__server_that_misses_a_heartbeat_is_not_lost),
		cmocka_unit_test(kv__server_that_ends_at_each_pull_is_named_in_time),
		cmocka_unit_test(kv__answer_to_another_pull_ends_the_table),
		cmocka_unit_test(kv__pull_is_waited_for_since_its_server_is_back),
		cmocka_unit_test(kv__push_that_nothing_comes_of_is_named_while_pulls_go_on),
		cmocka_unit_test(kv__hot_push_that_nothing_comes_of_is_named),
		cmocka_unit_test(kv__server_that_a_pull_waits_for_is_named),
		cmocka_unit_test(kv__server_that_commits_what_was_never_sent_ends_the_table),
		cmocka_unit_test(kv__refused_batch_ends_the_table_and_not_the_connection),
		cmocka_unit_test(kv__silent_address_is_left_for_the_next),
		cmocka_unit_test(kv__address_that_ends_at_once_is_left_for_the_next),
		cmocka_unit_test(kv__path_that_is_slower_than_the_hellos_opens),
		cmocka_unit_test(kv__hot_value_that_is_too_large_is_said),
		cmocka_unit_test(kv__dropped_packets_are_warned_of_when_they_are_many),
		cmocka_unit_test(kv__packets_that_nobody_takes_are_counted),
		cmocka_unit_test(kv__failed_pull_leaves_nothing_at_the_other_server),
		cmocka_unit_test(
			kv__flood_of_packets_does_not_hold_up_the_rest_and_a_broken_socket_ends_it),
		cmocka_unit_test(kv__nothing_is_kept_for_a_connection_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
