/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers, and members, can take from others by talking much: nothing that others need. */
#include "server/server_fixture.h"

#include <dirent.h>
#include <sys/resource.h>

#include "server/internal.h"
#include "tests/skip.h"

enum {
	FLOODERS = 160,
	HEARTBEAT_MS = 5000,
	FLOOD_MS = 4000,
	SILENCE_MS = 2500,
	STEP_MS = 200,
	MESSAGE_BYTES = 4096
};

static struct control_join with_key(const char *key)
{
	struct control_join join = { .kind = CONTROL_WORKER };

	snprintf(join.key, sizeof(join.key), "%s", key);
	return join;
}

static void say(const struct client *client, const char *json, size_t bytes)
{
	uint8_t head[4];

	wire_put32(head, (uint32_t)bytes);
	assert_int_equal(send(conn_fd(client->conn), head, sizeof(head), MSG_NOSIGNAL), 4);
	assert_int_equal(send(conn_fd(client->conn), json, bytes, MSG_NOSIGNAL), bytes);
}

static void server__takes_no_long_first_message(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	static char json[JOIN_BYTES_MAX + 1];
	struct client client, members[2];
	char address[32];

	(void)state;
	memset(json, ' ', sizeof(json));
	json[0] = '{';
	client_open(&client, tcp_address(server, address));
	say(&client, json, sizeof(json));
	client_expect(&client, CONTROL_DENY, NEWS_MS);
	assert_string_equal(client.message.end.text, "the aggregator does not take a first message "
						     "of 8193 bytes, not up to 8192");
	client_close(&client);
	clients_start(members, 2, address, "words"); /* who was let in may say more */
	memcpy(json, "{\"type\":\"HEARTBEAT\"}", 20);
	say(&members[0], json, sizeof(json));
	client_leave(&members[0], 0);
	client_leave(&members[1], 0);
	client_close(&members[0]);
	client_close(&members[1]);
	server_close(server);
}

/* Every text as long as it may be, and of characters that JSON may write as six. */
static void server__takes_the_longest_join(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	char address[32], json[JOIN_BYTES_MAX], *at = json;
	struct client client;

	(void)state;
	at += sprintf(at, "{\"type\":\"JOIN\",\"version_min\":3,\"version_max\":3,\"size\":1,"
			  "\"rank\":0,\"pid\":4294967295,\"mtu\":1500,\"list_hash\":"
			  "\"0123456789abcdef\"");
	for (uint32_t i = 0; i < 4; i++) {
		static const char *const keys[] = { "job", "host", "key", "list" };
		static const size_t bytes[] = { CONTROL_JOB_BYTES - 1, CONTROL_HOST_BYTES - 1,
						CONTROL_KEY_BYTES - 1, CONTROL_LIST_BYTES - 1 };

		at += sprintf(at, ",\"%s\":\"", keys[i]);
		for (size_t k = 0; k < bytes[i]; k++)
			at += sprintf(at, "\\u0061");
		at += sprintf(at, "\"");
	}
	at += sprintf(at, "}");
	client_open(&client, tcp_address(server, address));
	say(&client, json, (size_t)(at - json));
	client_expect(&client, CONTROL_GRANT, NEWS_MS);
	client_close(&client);
	server_close(server);
}

static void server__reads_no_more_of_who_is_given_up(void **state)
{
	static const char both[] = "\0\0\0\x14{\"type\":\"HEARTBEAT\"}\0\0\0\x04junk";
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client client;
	char address[32];

	(void)state;
	client_open(&client, tcp_address(server, address));
	assert_int_equal(send(conn_fd(client.conn), both, sizeof(both) - 1, 0), sizeof(both) - 1);
	assert_false(client_next(&client, NEWS_MS));
	client_close(&client);
	server_close(server);
	assert_true(book_has("its first message is neither JOIN"));
	assert_false(book_has("nonsense"));
}

/* --- a flood --- */

struct flood {
	int fd[FLOODERS];
	atomic_bool is_over;
};

static void *flood_main(void *arg)
{
	static const char word[] = "{\"type\":\"HEARTBEAT\",\"x\":[";
	static char frame[4 + MESSAGE_BYTES];
	size_t sent[FLOODERS] = { 0 };
	struct flood *flood = arg;

	wire_put32((uint8_t *)frame, MESSAGE_BYTES);
	memset(frame + 4, ' ', MESSAGE_BYTES);
	memcpy(frame + 4, word, sizeof(word) - 1);
	for (size_t at = sizeof(word) - 1; at < MESSAGE_BYTES - 16; at += 3)
		memcpy(frame + 4 + at, at < sizeof(word) ? "{} " : ",{}", 3);
	memcpy(frame + 4 + MESSAGE_BYTES - 2, "]}", 2);
	while (!atomic_load(&flood->is_over)) {
		for (int i = 0; i < FLOODERS; i++) {
			ssize_t got = send(flood->fd[i], frame + sent[i], sizeof(frame) - sent[i],
					   MSG_DONTWAIT | MSG_NOSIGNAL);

			if (got > 0)
				sent[i] = (sent[i] + (size_t)got) % sizeof(frame);
		}
	}
	return NULL;
}

/* The longest time between two of the server's HEARTBEATs, a second apart; of what this thread itself stood still only
 * a little counts. */
static uint64_t longest_silence_ms(struct client *client, uint64_t until_ns)
{
	uint64_t looked_ns = now_ns(), silence_ns = 0, longest_ns = 0;

	while (now_ns() < until_ns) {
		enum conn_result result =
			conn_read(client->conn, now_ns(), &client->codec, &client->message);
		struct pollfd wait = { .fd = conn_fd(client->conn), .events = POLLIN };
		uint64_t step_ns = now_ns() - looked_ns;

		looked_ns += step_ns;
		silence_ns += step_ns < STEP_MS * 1000000ull ? step_ns : STEP_MS * 1000000ull;
		assert_true(result == CONN_NONE || result == CONN_MESSAGE);
		longest_ns = silence_ns > longest_ns ? silence_ns : longest_ns;
		if (result == CONN_MESSAGE)
			silence_ns = 0;
		else
			poll(&wait, 1, 50);
	}
	return longest_ns / 1000000;
}

/* Members are let in and may say a lot: more than can be read in the time. */
static void server__beats_while_it_is_flooded(void **state)
{
	struct server *server =
		test_server((struct server_options){ .heartbeat_ms = HEARTBEAT_MS });
	static struct client members[2], flooders[FLOODERS];
	struct flood flood = { .is_over = false };
	uint64_t silence_ms;
	pthread_t thread;
	char address[32];

	(void)state;
	clients_start(members, 2, tcp_address(server, address), "quiet");
	for (uint16_t i = 0; i < FLOODERS; i++) {
		client_open(&flooders[i], address);
		client_join(&flooders[i], "loud", i, CONTROL_MEMBERS_MAX);
		flood.fd[i] = conn_fd(flooders[i].conn);
	}
	assert_int_equal(pthread_create(&thread, NULL, flood_main, &flood), 0);
	silence_ms = longest_silence_ms(&members[0], now_ns() + FLOOD_MS * 1000000ull);
	atomic_store(&flood.is_over, true);
	pthread_join(thread, NULL);
	assert_false(book_has("dropped")); /* or this shows nothing */
	if (silence_ms > SILENCE_MS)
		fail_msg("no HEARTBEAT for %u ms", (unsigned)silence_ms);
	for (int i = 0; i < FLOODERS; i++)
		client_close(&flooders[i]);
	client_close(&members[0]);
	client_close(&members[1]);
	server_close(server);
}

/* --- more than there is room for --- */

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static bool has_descriptors(rlim_t count)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	return files.rlim_cur >= count;
}

/* They stay when they have been denied, and in the place of the oldest come others. */
static void server__has_few_places_for_those_it_denies(void **state)
{
	enum { DENIED = STRANGERS_MAX + 200 };
	struct server *server = test_server((struct server_options){ .key = "open-sesame" });
	struct client *clients = calloc(DENIED, sizeof(*clients)), honest[2];
	unsigned before = descriptors(), after;
	char address[32];

	(void)state;
	if (!has_descriptors(2 * DENIED + 100))
		SKIP("too few open files (ulimit -Hn)");
	tcp_address(server, address);
	for (uint32_t i = 0; i < DENIED; i++) {
		client_open(&clients[i], address);
		client_join_as(&clients[i], "vault", 1, 3, with_key("open-barley"));
		client_expect(&clients[i], CONTROL_DENY, NEWS_MS);
	}
	after = descriptors();
	assert_true(after - before <= DENIED + STRANGERS_MAX);
	for (uint16_t rank = 0; rank < 2; rank++) {
		client_open(&honest[rank], address);
		client_join_as(&honest[rank], "work", rank, 2, with_key("open-sesame"));
	}
	for (uint16_t rank = 0; rank < 2; rank++)
		client_expect(&honest[rank], CONTROL_GRANT, NEWS_MS);
	for (uint32_t i = 0; i < DENIED; i++)
		client_close(&clients[i]);
	client_close(&honest[0]);
	client_close(&honest[1]);
	server_close(server);
	free(clients);
}

/* R-CT-1 */
static void server__tells_whom_it_turns_away(void **state)
{
	struct server *server = test_server((struct server_options){ .lanes_max = LANES });
	struct client *clients = calloc(STRANGERS_MAX + 2, sizeof(*clients));
	char address[32];

	(void)state;
	if (!has_descriptors(2 * STRANGERS_MAX + 100))
		SKIP("too few open files (ulimit -Hn)");
	tcp_address(server, address);
	client_open(&clients[0], address); /* has a word to say */
	for (uint32_t i = 1; i < STRANGERS_MAX + 2; i++) {
		client_open(&clients[i], address);
		if (i == STRANGERS_MAX - 1)
			client_join(&clients[0], "work", 0, 1);
	}
	client_expect(&clients[0], CONTROL_GRANT, NEWS_MS);
	client_expect(&clients[1], CONTROL_DENY, NEWS_MS);
	assert_int_equal(clients[1].message.end.cause, CONTROL_NO_RESOURCE);
	assert_string_equal(clients[1].message.end.text,
			    "the aggregator has no room for another connection: 1025 are open, "
			    "1024 of them without a JOIN that it takes");
	for (uint32_t i = 0; i < STRANGERS_MAX + 2; i++)
		client_close(&clients[i]);
	server_close(server);
	free(clients);
}

/* By an address that is known: looking one up may take a descriptor. */
static void connect_and_join(struct client *client, const struct conn_address *to, const char *job)
{
	memset(client, 0, sizeof(*client));
	client->udp = -1;
	assert_int_equal(conn_connect(&client->conn, to, now_ns(), 2000000000), 0);
	for (int i = 0; i < 100 && conn_read(client->conn, now_ns(), &client->codec,
					     &client->message) != CONN_CONNECTED;
	     i++) {
		struct pollfd wait = { .fd = conn_fd(client->conn), .events = POLLOUT };

		poll(&wait, 1, 20);
	}
	client_join(client, job, 0, 2);
}

/* The last one that finds a place makes the aggregator look for more: what it has kept for the next one must be there
 * after that, too. */
static void server__tells_who_comes_when_the_last_descriptor_is_gone(void **state)
{
	enum { FEW = 16 };
	struct server *server = test_server((struct server_options){ .share = 100 });
	int fillers[FEW], count = 0, lowest = dup(0);
	struct client last, next;
	struct rlimit files, few;
	struct conn_address to;
	char address[32];
	unsigned before;

	(void)state;
	assert_int_equal(conn_resolve(tcp_address(server, address), 0, &to), 0);
	close(lowest);
	before = descriptors();
	getrlimit(RLIMIT_NOFILE, &files);
	few = files;
	few.rlim_cur = (rlim_t)lowest + FEW;
	setrlimit(RLIMIT_NOFILE, &few);
	while (count < FEW && (fillers[count] = dup(0)) >= 0)
		count++;
	assert_true(count > 2);
	close(fillers[--count]); /* for each end */
	close(fillers[--count]);
	connect_and_join(&last, &to, "last");
	for (int i = 0; i < 500 && !book_has("job last: rank 0 of 2"); i++)
		usleep(10000);
	usleep(100000); /* it looks for more */
	close(fillers[--count]);
	connect_and_join(&next, &to, "next");
	client_expect(&next, CONTROL_DENY, NEWS_MS);
	assert_non_null(strstr(next.message.end.text, "has no descriptor left"));
	while (count)
		close(fillers[--count]);
	setrlimit(RLIMIT_NOFILE, &files);
	client_close(&last);
	client_close(&next);
	for (int i = 0; i < 500 && descriptors() != before; i++)
		usleep(10000);
	usleep(100000);                          /* both of its ends are closed */
	assert_int_equal(descriptors(), before); /* one is kept again for this */
	server_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server__takes_no_long_first_message),
		cmocka_unit_test(server__takes_the_longest_join),
		cmocka_unit_test(server__reads_no_more_of_who_is_given_up),
		cmocka_unit_test(server__beats_while_it_is_flooded),
		cmocka_unit_test(server__tells_who_comes_when_the_last_descriptor_is_gone),
		cmocka_unit_test(server__has_few_places_for_those_it_denies),
		cmocka_unit_test(server__tells_whom_it_turns_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
