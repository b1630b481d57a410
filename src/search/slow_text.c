/* SPDX-License-Identifier: Apache-2.0 */
/* slow_text.c - see slow_admission.h: the words of an end, of WAITING and PROGRESS, and of the log. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "search/slow_step.h"

enum { WITH_HOSTS = 4 }; /* so many are named with theirs */

__attribute__((format(printf, 2, 0))) static void append(char *text, const char *format,
							 va_list arguments)
{
	size_t used = strlen(text);

	vsnprintf(text + used, CONTROL_TEXT_BYTES - used, format, arguments);
}

void slow_text(struct slow_admission *slow, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	append(slow->text, format, arguments);
	va_end(arguments);
}

void slow_log(struct slow_admission *slow, enum admission_log level, const char *format, ...)
{
	va_list arguments;

	slow->log_level = level;
	slow->log[0] = 0;
	va_start(arguments, format);
	append(slow->log, format, arguments);
	va_end(arguments);
}

void slow_log_text(struct slow_admission *slow, enum admission_log level)
{
	slow_log(slow, level, "%s", slow->text);
}

void slow_log_person(struct slow_admission *slow, const struct slow_person *person,
		     const char *what)
{
	slow_log(slow, ADMISSION_LOG_INFO, "rank %u on <%u> (process %u) %s", person->rank,
		 person->host, person->pid, what);
}

void slow_name(struct slow_admission *slow, const struct slow_person *person)
{
	slow_text(slow, "rank %u on <%u>", person->rank, person->host);
}

/* "ranks 0-2, 4, 6, 7" */
void slow_runs(struct slow_admission *slow, uint64_t ranks)
{
	const char *before = "";

	slow_text(slow, __builtin_popcountll(ranks) == 1 ? "rank " : "ranks ");
	for (uint32_t rank = 0; rank < 63; rank++) {
		bool is_after = rank && ranks >> (rank - 1) & 1,
		     is_before = ranks >> (rank + 1) & 1;

		if (!(ranks >> rank & 1) || (is_after && is_before))
			continue; /* inside of a run */
		if (is_after && rank > 1 && ranks >> (rank - 2) & 1)
			slow_text(slow, "-%u", rank);
		else
			slow_text(slow, "%s%u", before, rank);
		before = ", ";
	}
}

void slow_ranks(struct slow_admission *slow, uint64_t ranks)
{
	const char *before = "";

	if (__builtin_popcountll(ranks) > WITH_HOSTS) {
		slow_runs(slow, ranks);
		return;
	}
	for (uint32_t rank = 0; rank < 64; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (!(ranks >> rank & 1))
			continue;
		slow_text(slow, "%s", before);
		if (person)
			slow_name(slow, person);
		else
			slow_text(slow, "rank %u", rank);
		before = ", ";
	}
}

void slow_call(struct slow_admission *slow, const struct control_op *op)
{
	static const char *const kinds[] = { "allreduce", "barrier",   "reduce",
					     "broadcast", "allgather", "reduce_scatter" };
	static const char *const types[] = {
		"int8",   "uint8",   "int32",   "uint32",  "int64",
		"uint64", "float16", "float32", "float64", "bfloat16"
	};
	static const char *const ops[] = { "sum", "prod", "max", "min", "avg" };
	bool has_op = op->kind == 0 || op->kind == 2 || op->kind == 5;

	slow_text(slow, "%s", op->kind < 6 ? kinds[op->kind] : "operation");
	if (op->kind != 1)
		slow_text(slow, " of %llu %s", (unsigned long long)op->count,
			  op->type < 10 ? types[op->type] : "elements");
	if (has_op)
		slow_text(slow, ", %s", op->op < 5 ? ops[op->op] : "?");
	if (op->kind == 0 && op->root)
		slow_text(slow, " in several buffers (list %u)", op->root);
	if (op->kind == 2 || op->kind == 3)
		slow_text(slow, ", root %u", op->root);
	if (*op->name)
		slow_text(slow, " \"%s\"", op->name);
	slow_text(slow, op->stream ? " (bulk)" : " (express)");
}

void slow_seconds(struct slow_admission *slow, uint64_t ms)
{
	slow_text(slow, "%llu.%llu s", (unsigned long long)(ms / 1000),
		  (unsigned long long)(ms / 100 % 10));
}
