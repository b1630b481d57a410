/* SPDX-License-Identifier: Apache-2.0 */
/* An aggregator is asked for a table, watched, and given up; what it has is asked for first, if that can wait: of a dead
 * worker whose place is taken, of an aggregator that is tired. The worker here takes no RESUME, so only a drain can
 * bring what it has pushed. */
#include "ps/aggregator_fixture.h"
#include "ps/server_fixture.h"

#include "dataplane/knock.h"
#include "files/hot_map.h"

enum { HOT = 20, KEY = 5, WAIT_MS = 20000, CLOSED_MS = 300, BEATS_MANY = 25, TIMES = 8 };

static char map_path[] = "/tmp/tally-aggregator-map-XXXXXX";
static atomic_uint here, tired, gone, shut; /* lines that say so; shut: its datagrams do not come */
static uint64_t here_ns[TIMES];             /* when the first of these came */
static struct link *link_of_worker;
static struct outbox outbox;

static void drain_log(void *arg, enum ps_level level, const struct ps_about *about,
		      const char *line)
{
	(void)arg;
	(void)about;
	(void)level;
	if (strstr(line, "is summed here")) {
		if (here < TIMES)
			here_ns[here] = played_now();
		here++;
	}
	tired += strstr(line, " is tired: ") != NULL;
	gone += strstr(line, "its switch has gone") != NULL;
	shut += strstr(line, "its datagrams do not come through") != NULL;
}

static void wait_until(const atomic_uint *count, unsigned want)
{
	for (int i = 0; i < WAIT_MS && *count < want; i++)
		usleep(1000);
	assert_true(*count >= want);
}

/* No epoch ends by itself. */
static void drain_options(const char *aggregator)
{
	here = tired = gone = shut = 0;
	options_begin();
	table.table.map = map_path;
	table.table.durability = PS_NONE;
	table.table.folder = NULL;
	table.pairs_max = UINT32_MAX;
	table.age_us = 1000000000;
	options.aggregator[0] = aggregator;
	options.aggregator_count = aggregator != NULL;
	options.closed_ns = CLOSED_MS * 1000000ull;
	options.silence_ns = WAIT_MS * 1000000ull; /* who is late has not gone */
	options.log = drain_log;
}

/* ---- a worker that pushes by hand ---- */

static void packet_say(const struct link_address *at_switch, struct sparse *packet)
{
	uint8_t *at = outbox_put(&outbox, at_switch, sparse_bytes(packet));

	sparse_put(at, packet);
	sparse_body_put32(at + SPARSE_HEADER_BYTES, KEY); /* the rank is the key */
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 4, 7);
	sparse_body_put32(at + SPARSE_HEADER_BYTES + 8, (uint32_t)-7);
	outbox_flush(&outbox);
}

/* Is there an ACK of this seq among what has come? WELCOME goes to the knock. */
static bool has_ack(struct knock *knock, uint64_t seq)
{
	struct link_frame frames[PLAYED_FRAMES];
	int count = link_of_worker->ops->recv(link_of_worker, frames, PLAYED_FRAMES);
	struct sparse packet;
	bool has = false;

	for (int i = 0; i < count; i++)
		for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes) {
			const uint8_t *data = frames[i].data + at;

			if (data[0] != SPARSE_FIRST_BYTE)
				knock_serve(knock, &frames[i].peer, data, frames[i].packet_bytes);
			else if (sparse_check(data, frames[i].packet_bytes, &packet) == WIRE_OK)
				has |= packet.kind == SPARSE_ACK && packet.number == seq;
		}
	return has;
}

/* SWITCH is what was heard last. Until the push is in the bank. */
static void push(uint64_t seq)
{
	struct sparse_table shape = { .ranks = HOT,
				      .index = said.index,
				      .workers = WORKERS,
				      .window = 4,
				      .dim = DIM,
				      .bytes = 1472 };
	struct link_address at_switch = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
					  .port = said.port };
	struct sparse packet = { .kind = SPARSE_PUSH,
				 .table = said.index,
				 .generation = said.generation,
				 .number = seq,
				 .map = said.map,
				 .count = 1,
				 .width = DIM };
	struct knock knock;

	knock_begin(&knock, &shape, 0, &at_switch, said.nonce);
	for (int i = 0; i < WAIT_MS; i++) {
		knock_turn(&knock, &outbox, played_now());
		if (knock.is_welcome && i % 10 == 0)
			packet_say(&at_switch, &packet);
		outbox_flush(&outbox);
		if (has_ack(&knock, seq))
			return;
		usleep(1000);
	}
	fail_msg("no ACK");
}

static int worker_open(uint64_t incarnation)
{
	int fd = open_one(0, incarnation);

	hear(fd, KV_MAP);
	hear(fd, KV_SWITCH);
	return fd;
}

/* What is in the table, by a pull of another worker. */
static float row_of_key(void)
{
	int fd = open_one(1, 1);
	float value;

	hear(fd, KV_MAP);
	hear(fd, KV_SWITCH);
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	value = said.value[0];
	assert_true(said.value[1] == -value);
	close(fd);
	return value;
}

/* ---- */

static void drain__brings_what_a_dead_worker_has_pushed(void **state)
{
	int fd;

	drain_options(NULL);
	assert_int_equal(begin(state), 0);
	for (uint64_t life = 1; life <= 3; life++) {
		fd = worker_open(life);
		push(1);
		assert_true(row_of_key() == (float)(7 * (life - 1)));
		close(fd);
	}
	fd = open_one(0, 4);
	assert_int_equal(sparse_fences(said.generation), 4);
	assert_int_equal(said.row[1], 1);
	close(fd);
	assert_true(row_of_key() == 21);
	end(state);
}

/* One of the bounds: what it has comes before it is left. */
static void tired_begin(void **state, unsigned delay_ms, unsigned memory, unsigned lost)
{
	int fd;

	played_begin();
	drain_options(played.address);
	options.tired_delay_ns = 20000000;
	options.tired_memory = 90;
	options.tired_loss = 30;
	assert_int_equal(begin(state), 0);
	fd = worker_open(1);
	push(1);
	played.delay_ms = delay_ms;
	played.memory_percent = memory;
	played.lost = lost;
	wait_until(&here, 1);
	assert_true(row_of_key() == 7);
	assert_true(tired >= 1);
	assert_int_equal(gone, 0);
	close(fd);
}

static void tired_end(void **state)
{
	end(state);
	played_end();
}

/* R-CT-33 */
static void tired__is_whose_answers_take_long(void **state)
{
	tired_begin(state, 60, 0, 0);
	tired_end(state);
}

/* R-CT-33 */
static void tired__is_whose_parts_do_not_come(void **state)
{
	tired_begin(state, 0, 0, 100);
	tired_end(state);
}

/* Inside at once, and it is asked again only after a wait, which grows. */
static void is_left_alone(unsigned times)
{
	wait_until(&played.opens, times + 1);
	for (unsigned i = 0; i < times; i++)
		assert_true(played.open_ns[i + 1] - here_ns[i] >=
			    (CLOSED_MS * 1000000ull << i) - CLOSED_MS * 500000ull);
}

/* R-CT-33 */
static void tired__is_whose_memory_is_in_use(void **state)
{
	tired_begin(state, 0, 95, 0);
	is_left_alone(3); /* the last wait is longer than any between two tries */
	tired_end(state);
}

static void aggregator__whose_datagrams_do_not_come_is_left_alone(void **state)
{
	played_begin();
	played.is_shut = true;
	drain_options(played.address);
	assert_int_equal(begin(state), 0);
	is_left_alone(1);
	assert_int_equal(shut, 1);
	tired_end(state);
}

static void aggregator__switch_inside_that_has_no_room_is_no_start(void **state)
{
	char error[PS_ERROR_MAX];

	(void)state;
	drain_options(NULL);
	options.switch_memory = 100;
	assert_int_equal(ps_server_open(&server, &options, error), -1);
	assert_non_null(strstr(error, "table t: no switch for its 20 hot keys: "));
	assert_non_null(strstr(error, "100 bytes"));
}

static void tired__is_not_who_was_so_seven_times(void **state)
{
	played_begin();
	drain_options(played.address);
	options.tired_memory = 90;
	played.memory_percent = 95;
	played.calm_every = 8;
	assert_int_equal(begin(state), 0);
	wait_until(&played.beats, BEATS_MANY);
	assert_int_equal(tired, 0);
	played.calm_every = 0;
	wait_until(&tired, 1);
	tired_end(state);
}

static void tired__stays_if_nobody_else_can_sum(void **state)
{
	played_begin();
	drain_options(played.address);
	options.tired_memory = 90;
	options.switch_memory = 100;
	played.memory_percent = 95;
	assert_int_equal(begin(state), 0);
	wait_until(&played.beats, BEATS_MANY);
	assert_int_equal(tired, 0);
	assert_int_equal(played.opens, 1);
	tired_end(state);
}

/* It was left for another one, which is not there, and there is no room inside: better a tired one than none. */
static void tired__is_asked_again_if_nobody_else_can_sum(void **state)
{
	played_begin();
	drain_options(played.address);
	options.aggregator[options.aggregator_count++] = "127.0.0.1:1";
	options.tired_memory = 90;
	options.switch_memory = 100;
	options.closed_ns = 1000000000000;
	played.memory_percent = 95;
	assert_int_equal(begin(state), 0);
	wait_until(&tired, 1);
	wait_until(&played.opens, 2);
	played.beats = 0;
	wait_until(&played.beats, BEATS_MANY);
	assert_int_equal(tired, 1);
	assert_int_equal(played.opens, 2);
	tired_end(state);
}

/* It hears no FLIP: what it has is pushed again, by who lives. */
static void drain__does_not_last_for_ever(void **state)
{
	int fd;

	played_begin();
	drain_options(played.address);
	options.tired_memory = 90;
	options.drain_ns = 200000000;
	played.is_deaf = true;
	assert_int_equal(begin(state), 0);
	fd = worker_open(1);
	push(1);
	played.memory_percent = 95;
	wait_until(&here, 1);
	assert_int_equal(tired, 1);
	assert_true(row_of_key() == 0);
	hear(fd, KV_SWITCH);
	push(1);
	close(fd);
	close(worker_open(2));
	assert_true(row_of_key() == 7);
	tired_end(state);
}

static int files_make(void **state)
{
	uint64_t keys[HOT];
	struct hot_map map = { .version = 1, .keys = HOT, .key = keys };
	struct link_udp_options udp = {
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } }
	};
	char error[FILES_ERROR_MAX];
	int fd = mkstemp(map_path);

	for (uint64_t i = 0; i < HOT; i++)
		keys[i] = i;
	close(fd);
	if (folder_make(state) || hot_map_write(map_path, &map, error) ||
	    link_udp_open(&link_of_worker, &udp))
		return -1;
	return outbox_open(&outbox, link_of_worker);
}

static int files_remove(void **state)
{
	outbox_close(&outbox);
	link_of_worker->ops->close(link_of_worker);
	unlink(map_path);
	return folder_remove(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregator__whose_datagrams_do_not_come_is_left_alone),
		cmocka_unit_test(aggregator__switch_inside_that_has_no_room_is_no_start),
		cmocka_unit_test(drain__brings_what_a_dead_worker_has_pushed),
		cmocka_unit_test(drain__does_not_last_for_ever),
		cmocka_unit_test(tired__is_whose_answers_take_long),
		cmocka_unit_test(tired__is_whose_memory_is_in_use),
		cmocka_unit_test(tired__is_whose_parts_do_not_come),
		cmocka_unit_test(tired__is_not_who_was_so_seven_times),
		cmocka_unit_test(tired__stays_if_nobody_else_can_sum),
		cmocka_unit_test(tired__is_asked_again_if_nobody_else_can_sum),
	};

	return cmocka_run_group_tests(tests, files_make, files_remove);
}
