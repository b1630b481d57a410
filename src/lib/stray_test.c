/* SPDX-License-Identifier: Apache-2.0 */
/* stray_test.c - what a rank says of packets that are not its job's (R-CT-35). */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"

enum { BATCH = 64, PATIENCE_MS = 10000, SILENCE_MS = 700 }; /* the latter: more than two looks */

static struct seat seats[2];
static int32_t sums[2];
static int from_fd;

static struct {
	pthread_mutex_t mutex;
	uint32_t lines;
	char last[1024];
} said = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	if (level != TALLY_LOG_WARN || !strstr(line, " dropped since it joined"))
		return;
	pthread_mutex_lock(&said.mutex);
	said.lines++;
	snprintf(said.last, sizeof(said.last), "%s", line);
	pthread_mutex_unlock(&said.mutex);
}

static uint32_t lines(char last[1024])
{
	uint32_t count;

	pthread_mutex_lock(&said.mutex);
	count = said.lines;
	strcpy(last, said.last);
	pthread_mutex_unlock(&said.mutex);
	return count;
}

static int set_up(void **state)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	(void)state;
	memset(seats, 0, sizeof(seats));
	said.lines = 0;
	said.last[0] = 0;
	assert_int_equal(tally_set_log(TALLY_LOG_WARN, hear, NULL), TALLY_OK);
	seats_open(seats, 2);
	from_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(from_fd, (const struct sockaddr *)&any, sizeof(any)), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	seats_do(seats, 2, seat_leave);
	close(from_fd);
	return 0;
}

static uint64_t bad_of(const struct seat *seat)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	assert_int_equal(tally_comm_get_stats(seat->comm, &stats), TALLY_OK);
	return stats.packets_bad;
}

/* What has come is read where somebody waits. */
static void *sum_one(void *arg)
{
	struct seat *seat = arg;
	int32_t value = seat->rank ? -9 : 7;

	sums[seat->rank] = 0;
	if (!tally_allreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, seat->comm))
		sums[seat->rank] = value;
	return NULL;
}

static void sum_all(void)
{
	seats_do(seats, 2, sum_one);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(sums[i], -2);
}

/* Sends rank 1 so many packets, from elsewhere, and waits until it has counted them. */
static void send_strays(uint32_t generation_off, uint32_t count, uint32_t cut_bytes)
{
	struct tally_comm *comm = seats[1].comm;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct wire packet = { .type = WIRE_HELD, .seq = 5 };
	uint64_t wanted = bad_of(&seats[1]) + count;
	uint8_t bytes[WIRE_HEADER_BYTES];

	comm_lock(comm);
	to.sin_port = htons(comm->link->local.port);
	packet.job = endpoint_worker(comm->endpoint)->shards[0].job;
	packet.generation = endpoint_worker(comm->endpoint)->shards[0].generation + generation_off;
	comm_unlock(comm);
	wire_put(bytes, &packet);
	for (uint32_t sent = 0, ms = 0; sent < count && ms < PATIENCE_MS; ms++) {
		for (uint32_t i = 0; i < BATCH && sent < count; i++, sent++)
			assert_true(sendto(from_fd, bytes, sizeof(bytes) - cut_bytes, 0,
					   (const struct sockaddr *)&to, sizeof(to)) > 0);
		while (bad_of(&seats[1]) + count < wanted + sent && ms++ < PATIENCE_MS)
			sum_all();
	}
	assert_int_equal(bad_of(&seats[1]), wanted);
}

/* At least so many lines, in time. */
static void expect_lines(uint32_t count, char last[1024])
{
	for (uint32_t ms = 0; lines(last) < count && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(lines(last), count);
}

static void expect_silence(uint32_t count)
{
	char last[1024];

	usleep(SILENCE_MS * 1000);
	if (lines(last) != count)
		fail_msg("said: %s", last);
}

static void expect_words(const char *last, const char *words)
{
	if (!strstr(last, words))
		fail_msg("not \"%s\" in: %s", words, last);
}

/* As if the last line were ten seconds old. */
static void ten_seconds_pass(void)
{
	comm_lock(seats[1].comm);
	seats[1].comm->strays.said_ns -= 10000000000;
	comm_unlock(seats[1].comm);
}

static void stray__of_our_generation_from_elsewhere_is_said_once_in_ten_seconds(void **state)
{
	struct sockaddr_in from = { 0 };
	socklen_t bytes = sizeof(from);
	char last[1024], words[160];

	(void)state;
	send_strays(0, 1, 0);
	expect_lines(1, last);
	assert_int_equal(getsockname(from_fd, (struct sockaddr *)&from, &bytes), 0);
	snprintf(words, sizeof(words), "[job %s rank 1 host ", seats[1].job);
	expect_words(last, words);
	snprintf(words, sizeof(words),
		 " 1 packet dropped since it joined: 1 of this job but from another address, the "
		 "last from 127.0.0.1:%u.",
		 ntohs(from.sin_port));
	expect_words(last, words);
	expect_words(last, "must answer from the one that it is reached at (tallyd --listen)");
	send_strays(0, 40, 0);
	expect_silence(1);
	ten_seconds_pass();
	expect_lines(2, last);
	expect_words(last, " 41 packets dropped since it joined: 41 of this job");
	ten_seconds_pass(); /* nothing more has come */
	expect_silence(2);
}

/* The rank was restarted and has got the port of its former life. */
static void stray__late_answers_to_a_former_life_are_not_said_by_themselves(void **state)
{
	uint32_t late = 2 * seats[1].comm->shards * seats[1].comm->slots;
	char last[1024], words[160];

	(void)state;
	assert_true(late > 0);
	send_strays(77, late, 0);
	expect_silence(0);
	send_strays(78, 1, 0); /* more than that can have left */
	expect_lines(1, last);
	snprintf(words, sizeof(words),
		 " %u packets dropped since it joined: %u of another generation", late + 1,
		 late + 1);
	expect_words(last, words);
}

static void stray__late_answers_do_not_hide_others(void **state)
{
	char last[1024];

	(void)state;
	send_strays(77, 3, 0);
	send_strays(0, 2, 1);
	expect_lines(1, last);
	expect_words(last, " 2 malformed, the last from 127.0.0.1:");
	expect_words(last, "another program sends there");
	assert_null(strstr(last, "generation"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			stray__of_our_generation_from_elsewhere_is_said_once_in_ten_seconds, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			stray__late_answers_to_a_former_life_are_not_said_by_themselves, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(stray__late_answers_do_not_hide_others, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("lib-stray", tests, NULL, NULL);
}
