/* SPDX-License-Identifier: Apache-2.0 */
/* admission_words.c - an operation in words, for those who called it differently: docs/protocol.md, R-CT-38. */
#include "core/job/admission_turn.h"
#include "core/shared/lanes.h"

static const char *const kind_names[CONTROL_OP_KIND_END] = {
	"allreduce",      "barrier", "reduce",  "broadcast", "allgather",
	"reduce_scatter", "gather",  "scatter", "alltoall",  "send",
};
static const char *const type_names[] = {
	"int8",       "uint8",      "int32",   "uint32",    "int64",
	"uint64",     "float16",    "float32", "float64",   "bfloat16",
	"float8e4m3", "float8e5m2", "bool",    "complex64", "complex128",
};
static const char *const form_names[] = { "", " as halves", " exactly", " below 2^", " strictly" };
static const char *const op_names[] = { "sum",  "prod", "max", "min",  "avg",    "band",   "bor",
					"bxor", "land", "lor", "lxor", "minloc", "maxloc", "user" };
enum {
	TYPES = sizeof(type_names) / sizeof(*type_names),
	FORMS = sizeof(form_names) / sizeof(*form_names),
	OPS = sizeof(op_names) / sizeof(*op_names),
};

/* R-MAP-6 */
static void add_root(struct text *text, const struct control_op *op)
{
	bool is_rank = op->kind == CONTROL_OP_REDUCE || op->kind == CONTROL_OP_BROADCAST ||
		       op->kind == CONTROL_OP_GATHER || op->kind == CONTROL_OP_SCATTER;

	if (op->kind == CONTROL_OP_ALLREDUCE && op->root)
		text_add(text, " in several buffers (list %u)", op->root);
	else if (op->kind > CONTROL_OP_BARRIER && op->root >= CONTROL_OP_SIZES)
		text_add(text, " in parts of given sizes (list %u, with the root)", op->root);
	else if (is_rank)
		text_add(text, ", root %u", op->root);
}

/* Its type, its form, and of a fixed one what its elements are below: R-NUM-15, R-NUM-16. */
static void add_type(struct text *text, uint32_t word)
{
	uint32_t type = lanes_word_type(word), form = lanes_word_form(word);
	uint32_t exponent = lanes_word_exponent(word);
	bool is_fixed = form == LANES_FIXED;

	if (type >= TYPES || form >= FORMS || (exponent && !is_fixed)) {
		text_add(text, "elements");
		return;
	}
	text_add(text, "%s%s", type_names[type], form_names[form]);
	if (is_fixed && exponent < LANES_EXPONENT_ONE)
		text_add(text, "-%u", LANES_EXPONENT_ONE - exponent);
	else if (is_fixed)
		text_add(text, "%u", exponent - LANES_EXPONENT_ONE);
}

void admission_add_op(struct text *text, const struct control_op *op)
{
	text_add(text, "%s", op->kind < CONTROL_OP_KIND_END ? kind_names[op->kind] : "operation");
	if (op->kind != CONTROL_OP_BARRIER) {
		text_add(text, " of %llu ", (unsigned long long)op->count);
		add_type(text, op->type);
	}
	if (op->kind == CONTROL_OP_ALLREDUCE || op->kind == CONTROL_OP_REDUCE ||
	    op->kind == CONTROL_OP_REDUCE_SCATTER)
		text_add(text, ", %s", op->op < OPS ? op_names[op->op] : "?");
	add_root(text, op);
	if (op->name[0])
		text_add(text, " \"%s\"", op->name);
	text_add(text, op->stream == MAP_EXPRESS ? " (express)" : " (bulk)");
}
