/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses of exponents (R-WK-17, R-WK-18) by whole endpoints: tensors of one shape, of which none has the exponents of its
 * neighbours. */
#include "dataplane/endpoint_fixture.h"

enum { TENSORS = 2 * MAP_EXPRESS_SLOTS_MIN, ELEMENTS = 2 * LANES };

static float values[WORKERS_MAX][TENSORS][ELEMENTS];
static uint64_t number;

/* Its exponents are further from those of the tensors beside it than a guess may be; both signs. */
static float value(uint32_t worker, uint32_t tensor, uint32_t i)
{
	float small = (float)(1 + worker + i) / 16;

	return (i % 2 ? -small : small) * (float)(1u << tensor % 7 * 4);
}

/* A norm in express, or behind each norm a matrix in bulk, of one of three shapes. */
static void submit(struct net *net, uint32_t tensor, bool is_norm)
{
	uint32_t count = is_norm ? LANES : LANES + 1 + tensor % 3;

	for (uint32_t w = 0; w < net->workers; w++) {
		float *own = values[w][tensor];
		struct endpoint_op op = op_of_type(LANES_FLOAT32, number, own, count);

		for (uint32_t i = 0; i < count; i++)
			own[i] = value(w, tensor, i);
		op.stream = is_norm ? MAP_EXPRESS : MAP_BULK;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	number++;
}

static void verify(struct net *net, uint32_t tensor, bool is_norm)
{
	for (uint32_t i = 0; i < (is_norm ? LANES : LANES + 1 + tensor % 3); i++) {
		float sum = 0;

		for (uint32_t w = 0; w < net->workers; w++)
			sum += value(w, tensor, i);
		for (uint32_t w = 0; w < net->workers; w++)
			assert_true(values[w][tensor][i] == sum); /* of few bits: exact */
	}
}

/* Calls of one shape, made together: as many as there are slots take as long as one does, from the first time on. */
static void guess__lets_equal_calls_go_together(void **state)
{
	uint64_t took_ns[2];

	(void)state;
	for (uint32_t is_many = 0; is_many < 2; is_many++) {
		struct net *net = net_open(2, 0, 6);
		uint32_t count = is_many ? MAP_EXPRESS_SLOTS_MIN : 1;

		number = 0;
		for (uint32_t burst = 0; burst < 2; burst++) {
			for (uint32_t i = 0; i < count; i++)
				submit(net, 2 * i, true);
			took_ns[is_many] = net->now_ns;
			assert_true(net_run(net, count, 60));
			took_ns[is_many] = net->now_ns - took_ns[is_many];
			for (uint32_t i = 0; i < count; i++)
				verify(net, 2 * i, true);
			if (!is_many)
				break; /* the first time */
			assert_true(took_ns[1] <= took_ns[0]);
		}
		net_close(net);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guess__lets_equal_calls_go_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
