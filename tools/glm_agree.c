/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_agree.c - whether all ranks were asked for the same: before a file is read, and before anything waits that
 * only some of them would call. What rank 0 alone writes is for it to say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/text.h"
#include "tools/glm.h"

enum { VALUE_MAX = 32 };

enum kind {
	NUMBER,
	NUMBER_OR_AUTO, /* 0: auto */
	REAL,
	REAL_OR_AUTO,
	REAL_OR_NONE, /* below 0: none */
	GIVEN,        /* a name of a file: whether there is one, for names may differ */
	SPELLED,      /* spell() knows */
	FIRST_GIVEN,  /* rank 0 does it: the others may leave it out */
	FIRST_FLAG,
	FIRST_EVERY,
};

/* clang-format off */
static const struct row {
	const char *name;
	enum kind kind;
	size_t at; /* in struct glm_request */
} rows[] = {
#define ROW(name, kind, member) { name, kind, offsetof(struct glm_request, member) }
	ROW("--loss", SPELLED, options.loss),
	ROW("--l1", REAL, options.l1),
	ROW("--l2", REAL, options.l2),
	ROW("--bias", REAL_OR_NONE, options.bias),
	ROW("--scale", REAL, scale),
	ROW("--batch", NUMBER, batch),
	ROW("--micro-batch", NUMBER_OR_AUTO, micro),
	ROW("--rate", REAL_OR_AUTO, options.rate),
	ROW("--schedule", SPELLED, options.schedule),
	ROW("--decay", REAL, options.decay),
	ROW("--epochs", NUMBER, epochs),
	ROW("--early-stop", NUMBER, early_stop),
	ROW("--no-shuffle", SPELLED, options.is_shuffled),
	ROW("--seed", NUMBER, seed),
	ROW("--bits", NUMBER, bits),
	ROW("--threads", NUMBER, threads),
	ROW("--comm", SPELLED, comm),
	ROW("--parallel", SPELLED, options.parallel),
	ROW("--wire", SPELLED, options.wire),
	ROW("--test", GIVEN, test),
	ROW("--model", FIRST_GIVEN, model),
	ROW("--checkpoint", FIRST_GIVEN, checkpoint),
	ROW("--checkpoint-every", FIRST_EVERY, checkpoint_every),
	ROW("--resume", FIRST_FLAG, is_resumed),
	ROW("--plot", FIRST_GIVEN, plot),
	ROW("--json", FIRST_FLAG, is_json),
#undef ROW
};
/* clang-format on */
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const void *at_of(const struct row *row, const struct glm_request *request)
{
	return (const char *)request + row->at;
}

/* Values that have names. */
static void spell(const struct row *row, const struct glm_request *request, char text[VALUE_MAX])
{
	static const char *const schedules[] = { "constant", "inverse", "sqrt", "step" };
	static const char *const comms[] = { "auto", "latency", "dense", "mpi" };
	const struct glm_options *options = &request->options;
	char wire[WIRE_TEXT_MAX];
	const char *name = "";

	if (row->at == offsetof(struct glm_request, options.loss))
		name = loss_name(options->loss);
	else if (row->at == offsetof(struct glm_request, options.schedule))
		name = schedules[options->schedule];
	else if (row->at == offsetof(struct glm_request, options.is_shuffled))
		name = options->is_shuffled ? "no" : "yes";
	else if (row->at == offsetof(struct glm_request, comm))
		name = comms[request->comm];
	else if (row->at == offsetof(struct glm_request, options.parallel))
		name = options->parallel == GLM_DATA_PARALLEL ? "data" : "model";
	else if (row->at == offsetof(struct glm_request, options.wire))
		name = wire_text(&options->wire, wire);
	snprintf(text, VALUE_MAX, "%s", name);
}

/* As people read it, "" for what was left out; what is compared, too: 17 digits tell any two numbers apart. */
static void value_text(const struct row *row, const struct glm_request *request,
		       char text[VALUE_MAX])
{
	uint64_t number = 0;
	double real = 0;
	const char *path = NULL;
	bool flag = false;

	memset(text, 0, VALUE_MAX);
	switch (row->kind) {
	case NUMBER:
	case NUMBER_OR_AUTO:
		memcpy(&number, at_of(row, request), sizeof(number));
		if (number || row->kind == NUMBER)
			snprintf(text, VALUE_MAX, "%" PRIu64, number);
		else
			strcpy(text, "auto");
		break;
	case REAL:
	case REAL_OR_AUTO:
	case REAL_OR_NONE:
		memcpy(&real, at_of(row, request), sizeof(real));
		if (row->kind == REAL_OR_AUTO && !(real > 0))
			strcpy(text, "auto");
		else if (row->kind != REAL_OR_NONE || real >= 0)
			snprintf(text, VALUE_MAX, "%.17g", real);
		break;
	case GIVEN:
	case FIRST_GIVEN:
		memcpy(&path, at_of(row, request), sizeof(path));
		strcpy(text, path ? "a file" : "");
		break;
	case FIRST_FLAG:
		memcpy(&flag, at_of(row, request), sizeof(flag));
		strcpy(text, flag ? "it" : "");
		break;
	case FIRST_EVERY:
		memcpy(&number, at_of(row, request), sizeof(number));
		if (request->checkpoint)
			snprintf(text, VALUE_MAX, "%" PRIu64, number);
		break;
	case SPELLED:
		spell(row, request, text);
	}
}

typedef char value_t[VALUE_MAX];

static bool is_fit(const struct row *row, const value_t value, const value_t first)
{
	return !strcmp(value, first) || (row->kind >= FIRST_GIVEN && !*value);
}

/* Who says what of an option, rank 0 first. */
static int differs(const struct row *row, const value_t *all, uint32_t ranks,
		   char error[GLM_ERROR_MAX])
{
	struct text_ranks done = { { 0 } };
	struct text text;

	text_begin(&text, error, GLM_ERROR_MAX);
	text_add(&text, "%s differs: ", row->name);
	for (uint32_t i = 0; i < ranks; i++) {
		const char *value = all[(size_t)i * ROWS];
		struct text_ranks same = { { 0 } };

		if (text_ranks_has(&done, i))
			continue;
		for (uint32_t j = i; j < ranks; j++) {
			if (!strcmp(all[(size_t)j * ROWS], value))
				text_ranks_put(&same, j);
		}
		for (uint32_t word = 0; word < 4; word++)
			done.word[word] |= same.word[word];
		text_add(&text, i ? ", " : "");
		text_add_ranks(&text, &same);
		text_add(&text, " %s %s", text_ranks_count(&same) == 1 ? "has" : "have",
			 *value ? value : "none");
	}
	text_add(&text, "; %s",
		 row->kind >= FIRST_GIVEN ? "rank 0 does this: give it to rank 0, or to all ranks"
					  : "give all ranks the same");
	return -1;
}

/* What rank 0 does, the others help with. Their names are of files that they never open. */
static void first_follow(struct glm_request *request, const value_t *first)
{
	for (size_t i = 0; i < ROWS; i++) {
		char *at = (char *)request + rows[i].at;
		const char *path = "rank 0's";
		const bool flag = *first[i] != '\0';
		uint64_t every;

		if (rows[i].kind == FIRST_GIVEN && flag) {
			memcpy(at, &path, sizeof(path));
		} else if (rows[i].kind == FIRST_FLAG) {
			memcpy(at, &flag, sizeof(flag));
		} else if (rows[i].kind == FIRST_EVERY && flag) {
			every = strtoull(first[i], NULL, 10);
			memcpy(at, &every, sizeof(every));
		}
	}
}

int glm_request_agree(struct glm_request *request, struct exchange *exchange,
		      char error[GLM_ERROR_MAX])
{
	uint32_t ranks = exchange->ranks;
	value_t(*all)[ROWS] = calloc(ranks, sizeof(*all));
	int result = 0;

	if (!all) {
		exchange->ops->abort(exchange);
		snprintf(error, GLM_ERROR_MAX, "rank %u: out of memory", exchange->rank);
		return -1;
	}
	for (size_t i = 0; i < ROWS; i++)
		value_text(&rows[i], request, all[exchange->rank][i]);
	if (exchange_gather(exchange, (int32_t *)(void *)all, sizeof(*all) / sizeof(int32_t))) {
		memcpy(error, exchange->error, GLM_ERROR_MAX);
		result = -1;
	}
	for (size_t i = 0; i < ROWS && !result; i++) {
		for (uint32_t rank = 1; rank < ranks && !result; rank++) {
			if (!is_fit(&rows[i], all[rank][i], all[0][i]))
				result = differs(&rows[i], &all[0][i], ranks, error);
		}
	}
	if (!result && exchange->rank)
		first_follow(request, all[0]);
	free(all);
	return result;
}
