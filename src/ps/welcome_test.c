/* SPDX-License-Identifier: Apache-2.0 */
/* welcome_test.c - an aggregator's WELCOME is of who knocks there; what nobody takes is counted as what it was dropped for.
 * docs/protocol.md, R-KV-7 and "What a stranger would have to guess". */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ps/internal.h"

enum { TABLES = 2, HELLOS = 3 };

static struct ps_server server;
static const struct link_address at_switch = { .ip = { [10] = 0xff, 0xff, 10, 0, 0, 7 },
					       .port = 7171 };
static const uint8_t nonces[TABLES][WIRE_NONCE_BYTES] = {
	"\xfe\xff\xff\xff nonce", /* serials wrap */
	"another nonce"
};

/* Both tables knock at one aggregator, and have said HELLO three times. */
static int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	server.hosted_count = TABLES;
	for (uint16_t i = 0; i < TABLES; i++) {
		struct knock *knock = &server.hosted[i].knock;

		knock_begin(knock, &(struct sparse_table){ .index = 9 + i, .bytes = 1472 },
			    SPARSE_SERVER, &at_switch, nonces[i]);
		knock->serial += HELLOS;
		server.hosted[i].is_knocking = true;
	}
	return 0;
}

/* The answer to the first table's last HELLO. */
static struct wire welcome_of(void)
{
	return (struct wire){ .type = WIRE_WELCOME,
			      .job = 9,
			      .child = SPARSE_SERVER,
			      .generation = wire_get32(nonces[0] + 4),
			      .seq = wire_get32(nonces[0]) + HELLOS,
			      .lanes = WIRE_HELLO_LANES };
}

static void come(const struct wire *welcome, const struct link_address *from)
{
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	wire_put(at, welcome);
	ps_summed_serve(&server, from, at, wire_bytes(welcome->lanes));
}

static void expect(uint64_t addresses, uint64_t nonces_wrong, bool is_welcome)
{
	assert_int_equal(server.hosted[0].addresses_wrong, addresses);
	assert_int_equal(server.hosted[0].nonces_wrong, nonces_wrong);
	assert_int_equal(server.hosted[0].knock.is_short_welcome, is_welcome);
	assert_int_equal(server.hosted[1].addresses_wrong + server.hosted[1].nonces_wrong, 0);
	assert_false(server.hosted[1].knock.is_short_welcome);
}

static void welcome__is_counted_if_its_address_or_nonce_is_anothers(void **state)
{
	struct link_address elsewhere = at_switch;
	struct wire welcome = welcome_of();

	(void)state;
	elsewhere.port++;
	come(&welcome, &elsewhere);
	expect(1, 0, false);
	elsewhere = at_switch;
	elsewhere.ip[15]++;
	come(&welcome, &elsewhere);
	expect(2, 0, false);
	welcome.generation ^= 1u << 31;
	come(&welcome, &at_switch);
	expect(2, 1, false);
	welcome = welcome_of();
	welcome.seq++; /* not said yet */
	come(&welcome, &at_switch);
	expect(2, 2, false);
	welcome.seq -= HELLOS + 1; /* of before */
	come(&welcome, &at_switch);
	expect(2, 3, false);
	welcome = welcome_of();
	welcome.seq -= HELLOS - 1; /* the first one */
	come(&welcome, &at_switch);
	expect(2, 3, true);
	come(&welcome, &at_switch); /* a copy */
	expect(2, 3, true);
}

/* Neither its address nor its nonce is what it was dropped for. */
static void welcome__of_nobody_who_knocks_is_not_counted(void **state)
{
	struct wire welcome = welcome_of();

	(void)state;
	welcome.child = 1; /* a worker's */
	come(&welcome, &at_switch);
	welcome = welcome_of();
	welcome.job = 11;
	come(&welcome, &at_switch);
	welcome = welcome_of();
	server.hosted[0].is_knocking = false;
	come(&welcome, &at_switch);
	expect(0, 0, false);
}

/* Two aggregators have given both tables one index. */
static void welcome__that_another_table_takes_is_not_counted(void **state)
{
	struct wire welcome = welcome_of();

	(void)state;
	server.hosted[1].knock.index = 9;
	server.hosted[1].knock.at_switch.port++;
	come(&welcome, &at_switch);
	expect(0, 0, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(welcome__##claim, setup)
		T(is_counted_if_its_address_or_nonce_is_anothers),
		T(of_nobody_who_knocks_is_not_counted),
		T(that_another_table_takes_is_not_counted),
#undef T
	};

	return cmocka_run_group_tests_name("ps-welcome", tests, NULL, NULL);
}
