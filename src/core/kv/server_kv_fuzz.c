/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_fuzz.c - workers that come, go, leave, are silent and say barriers in any order: R-KV-11 as server_kv_model.h
 * reads it. */
#include "core/kv/server_kv_model.h"
#include "tests/fuzz/input.h"

enum { STEPS = 400, NUMBERS = 4 };

static struct server_kv_model model;

static void event_take(uint32_t what, uint32_t how)
{
	uint16_t worker = (uint16_t)(what / 8 % SERVER_KV_MODEL_WORKERS);
	enum server_kv_disk disk = how / 8 % 8 ? SERVER_KV_WELL : SERVER_KV_TROUBLED;
	const struct server_kv_seen *it = &model.seen[worker];

	if (what % 8 == 0)
		(void)server_kv_model_open(&model, worker, how % 2);
	else if (what % 8 == 1)
		model.now_ns += how * 100000000ull;
	else if (what % 8 == 2)
		server_kv_model_turn(&model, disk);
	else if (!it->link)
		return;
	else if (what % 8 == 3)
		server_kv_model_end(&model, worker);
	else if (it->is_lost)
		return;
	else if (what % 8 == 4 && how % 2)
		server_kv_model_lose(&model, worker);
	else if (what % 8 == 4)
		server_kv_model_ends(&model, worker);
	else if (what % 8 == 5 && how % 2)
		server_kv_model_heard(&model, worker);
	else if (it->is_leaving)
		return;
	else if (what % 8 == 5)
		server_kv_model_leave(&model, worker);
	else if (model.passed + how % NUMBERS)
		server_kv_model_barrier(&model, worker, model.passed + how % NUMBERS, disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	server_kv_model_init(&model, SERVER_KV_MODEL_WORKERS, fuzz_u8(&input) % 2);
	server_kv_model_lay(&model, true);
	for (uint32_t i = 0; i < STEPS && input.left; i++) {
		uint32_t what = fuzz_u8(&input);

		event_take(what, fuzz_u8(&input));
		if (model.wrong)
			fprintf(stderr, "server_kv_model.h:%u\n", (uint32_t)model.wrong);
		FUZZ_CHECK(!model.wrong);
	}
	return 0;
}
