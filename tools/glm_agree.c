/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_agree.c - whether all ranks were asked for the same: before a file is read, and before anything waits that
 * only some of them would call. What rank 0 alone writes is for it to say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/text.h"
#include "tools/glm.h"

typedef char value_t[OPT_TEXT_BYTES];

/* What is one rank's own business. */
static bool is_free(const struct opt *opt)
{
	return !strcmp(opt->name, "layout") || !strcmp(opt->name, "no-overlap");
}

/* What rank 0 does: the others may leave it out. */
static bool is_first(const struct opt *opt)
{
	static const char *const names[] = { "model",  "checkpoint", "checkpoint-every",
					     "resume", "plot",       "json" };

	for (size_t i = 0; i < OPT_COUNT(names); i++)
		if (!strcmp(opt->name, names[i]))
			return true;
	return false;
}

/* As people read it, "" for what was left out; it is what is compared, too. Names of files may differ. */
static void value_make(const struct opt *opt, const struct glm_request *request, value_t value)
{
	char text[OPT_TEXT_BYTES], wire[WIRE_TEXT_MAX];
	const char *said = opt_text(opt, request, text);

	if (is_free(opt) || (!strcmp(opt->name, "checkpoint-every") && !request->checkpoint))
		said = "";
	else if (!strcmp(opt->name, "wire"))
		said = wire_text(&request->options.wire, wire);
	else if (!strcmp(opt->name, "bias") && request->options.bias < 0)
		said = "";
	else if (opt->instead && !strcmp(said, "0"))
		said = opt->instead;
	else if (opt->kind == OPT_TEXT && *said)
		said = "a file";
	else if (opt->kind == OPT_UNSET)
		said = *said == '1' ? "yes" : "no";
	else if (opt->kind == OPT_FLAG)
		said = *said == '1' ? "it" : "";
	snprintf(value, sizeof(value_t), "%s", said);
}

static bool is_fit(const struct opt *opt, const value_t value, const value_t first)
{
	return !strcmp(value, first) || (is_first(opt) && !*value);
}

/* Who says what of an option, rank 0 first; `all` has rank 0's value of it, `stride` further on rank 1's. */
static int differs(const struct opt *opt, const value_t *all, size_t stride, uint32_t ranks,
		   char error[GLM_ERROR_MAX])
{
	struct text_ranks done = { { 0 } };
	struct text text;

	text_begin(&text, error, GLM_ERROR_MAX);
	text_add(&text, "--%s differs: ", opt->name);
	for (uint32_t i = 0; i < ranks; i++) {
		const char *value = all[i * stride];
		struct text_ranks same = { { 0 } };

		if (text_ranks_has(&done, i))
			continue;
		for (uint32_t j = i; j < ranks; j++) {
			if (!strcmp(all[j * stride], value))
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
		 is_first(opt) ? "rank 0 does this: give it to rank 0, or to all ranks"
			       : "give all ranks the same");
	return -1;
}

/* What rank 0 does, the others help with. Their names are of files that they never open. */
static void first_follow(struct glm_request *request, const value_t *first)
{
	for (size_t i = 0; i < glm_train_command.count; i++) {
		const struct opt *opt = &glm_train_command.table[i];
		char *at = (char *)request + opt->at;
		const char *path = "rank 0's";
		const bool flag = *first[i] != '\0';
		uint64_t every;

		if (!is_first(opt))
			continue;
		if (opt->kind == OPT_FLAG) {
			memcpy(at, &flag, sizeof(flag));
		} else if (opt->kind == OPT_TEXT && flag) {
			memcpy(at, &path, sizeof(path));
		} else if (flag) {
			every = strtoull(first[i], NULL, 10);
			memcpy(at, &every, sizeof(every));
		}
	}
}

int glm_request_agree(struct glm_request *request, struct exchange *exchange,
		      char error[GLM_ERROR_MAX])
{
	const struct opt *table = glm_train_command.table;
	const size_t count = glm_train_command.count;
	uint32_t ranks = exchange->ranks;
	value_t *all = calloc(ranks * count, sizeof(*all));
	int result = 0;

	if (!all) {
		exchange->ops->abort(exchange);
		snprintf(error, GLM_ERROR_MAX, "rank %u: out of memory", exchange->rank);
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		value_make(&table[i], request, all[exchange->rank * count + i]);
	if (exchange_gather(exchange, (int32_t *)(void *)all,
			    count * sizeof(*all) / sizeof(int32_t))) {
		memcpy(error, exchange->error, GLM_ERROR_MAX);
		result = -1;
	}
	for (size_t i = 0; i < count && !result; i++) {
		for (uint32_t rank = 1; rank < ranks && !result; rank++) {
			if (!is_fit(&table[i], all[rank * count + i], all[i]))
				result = differs(&table[i], &all[i], count, ranks, error);
		}
	}
	if (!result && exchange->rank)
		first_follow(request, all);
	free(all);
	return result;
}
