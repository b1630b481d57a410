/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - see message.h. Each type's fields are named once, in fields_of: the same text reads and writes. */
#include "kv/message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/sparse/layout_sparse.h"

/* Reads if `codec` is there, else writes. */
struct cursor {
	struct kv_codec *codec;
	const uint8_t *from;
	uint8_t *to;
	size_t left; /* of what is read */
	const char *type;
	bool is_refused;
};

/* R-KV-3 */
static const char *const type_name[KV_TYPE_END] = {
	"nothing", "HELLO", "WELCOME", "OPEN",    "OPENED", "MAP",   "SWITCH", "BATCH",
	"DONE",    "PULL",  "PULLED",  "BARRIER", "LEAVE",  "ERROR", "ALIVE",  "REPORT",
};

const char *kv_type_name(enum kv_type type)
{
	return (unsigned)type < KV_TYPE_END ? type_name[type] : "unknown";
}

const char *kv_refusal_text(enum kv_refusal refusal)
{
	switch (refusal) {
#define X(name, value, text) \
	case name:           \
		return text;
		KV_REFUSALS(X)
#undef X
	}
	return "refused";
}

const char *kv_mode_name(enum kv_mode mode)
{
	static const char *const name[KV_MODE_END] = { "asynchronous", "bounded", "synchronous" };

	return (unsigned)mode < KV_MODE_END ? name[mode] : "unknown";
}

uint32_t kv_keys_max(uint16_t dim)
{
	uint32_t keys = dim ? (uint32_t)KV_VALUES_MAX / dim : KV_KEYS_MAX;

	return keys < KV_KEYS_MAX ? keys : KV_KEYS_MAX;
}

static void refuse(struct cursor *cursor, const char *what, const char *why)
{
	if (!cursor->is_refused && cursor->codec)
		snprintf(cursor->codec->fault, KV_FAULT_BYTES, "%s: %s %s", cursor->type, what,
			 why);
	cursor->is_refused = true;
}

/* ---- fields: R-KV-2 ---- */

static bool has(struct cursor *cursor, size_t bytes, const char *what)
{
	if (cursor->is_refused)
		return false;
	if (cursor->left < bytes) {
		refuse(cursor, what, "is missing or cut off");
		return false;
	}
	cursor->left -= bytes;
	return true;
}

static uint64_t number_of(struct cursor *cursor, uint64_t value, unsigned bytes, uint64_t least,
			  uint64_t most, const char *what)
{
	if (!cursor->codec) {
		for (unsigned i = 0; i < bytes; i++)
			*cursor->to++ = (uint8_t)(value >> 8 * i);
		return value;
	}
	if (!has(cursor, bytes, what))
		return value;
	value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)*cursor->from++ << 8 * i;
	if (value < least || value > most)
		refuse(cursor, what, "is out of range");
	return value;
}

static void u16(struct cursor *cursor, uint16_t *value, uint16_t least, uint16_t most,
		const char *what)
{
	*value = (uint16_t)number_of(cursor, *value, 2, least, most, what);
}

static void u32(struct cursor *cursor, uint32_t *value, uint32_t least, uint32_t most,
		const char *what)
{
	*value = (uint32_t)number_of(cursor, *value, 4, least, most, what);
}

static void u64(struct cursor *cursor, uint64_t *value, uint64_t least, const char *what)
{
	*value = number_of(cursor, *value, 8, least, UINT64_MAX, what);
}

static void flag(struct cursor *cursor, bool *value, const char *what)
{
	/* What a reader's flag was is nobody's business: it may be no truth value at all. */
	*value = number_of(cursor, !cursor->codec && *value, 1, 0, 1, what) != 0;
}

static void bytes_of(struct cursor *cursor, uint8_t *value, uint32_t bytes, const char *what)
{
	if (!cursor->codec) {
		memcpy(cursor->to, value, bytes);
		cursor->to += bytes;
	} else if (has(cursor, bytes, what)) {
		memcpy(value, cursor->from, bytes);
		cursor->from += bytes;
	}
}

static void text(struct cursor *cursor, char *value, uint16_t max, uint16_t least, const char *what)
{
	uint16_t bytes = (uint16_t)strnlen(value, max);

	u16(cursor, &bytes, least, (uint16_t)(max - 1), what);
	if (!cursor->codec) {
		bytes_of(cursor, (uint8_t *)value, bytes, what);
	} else if (has(cursor, bytes, what)) {
		memcpy(value, cursor->from, bytes);
		value[bytes] = 0;
		cursor->from += bytes;
		if (strnlen(value, bytes) != bytes)
			refuse(cursor, what, "has a zero in it");
	}
}

/* It becomes the name of a file. */
bool kv_is_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";

	return name[0] && name[0] != '.' && strspn(name, allowed) == strlen(name);
}

static void table_name(struct cursor *cursor, struct kv_message *message)
{
	text(cursor, message->name, KV_NAME_BYTES, 1, "name");
	if (!cursor->is_refused && !kv_is_name(message->name))
		refuse(cursor, "name", "has other characters than letters, digits, _ - and .");
}

static void scale_of(struct cursor *cursor, struct kv_message *message)
{
	uint32_t bits;

	memcpy(&bits, &message->scale, sizeof(bits));
	u32(cursor, &bits, 0, UINT32_MAX, "scale");
	memcpy(&message->scale, &bits, sizeof(bits));
	if (!cursor->is_refused && (!isfinite(message->scale) || !(message->scale > 0)))
		refuse(cursor, "scale", "is out of range");
}

/* ---- keys and values ---- */

static void count_of(struct cursor *cursor, struct kv_message *message, uint32_t max)
{
	u32(cursor, &message->count, 0, max, "count");
}

static void key_put(struct cursor *cursor, uint64_t step)
{
	for (; step > 0x7f; step >>= 7)
		*cursor->to++ = (uint8_t)(step | 0x80);
	*cursor->to++ = (uint8_t)step;
}

/* One form only for each number: no zeros in front, nothing above 64 bits. */
static uint64_t key_get(struct cursor *cursor)
{
	uint64_t step = 0;

	for (unsigned shift = 0; has(cursor, 1, "keys"); shift += 7) {
		uint8_t byte = *cursor->from++;

		step |= (uint64_t)(byte & 0x7f) << shift;
		if (shift == 63 && byte > 1)
			break;
		if (!(byte & 0x80)) {
			if (!byte && shift)
				break;
			return step;
		}
	}
	refuse(cursor, "keys", "are not coded as they should be");
	return 0;
}

/* R-KV-2: the first as it is, each other one as what it is above the one before. */
static void keys_of(struct cursor *cursor, struct kv_message *message)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < message->count && !cursor->is_refused; i++) {
		if (!cursor->codec) {
			key_put(cursor, message->key[i] - last);
			last = message->key[i];
		} else {
			uint64_t step = key_get(cursor), key = last + step;

			if (i && key <= last)
				refuse(cursor, "keys", "are not ascending, each once");
			cursor->codec->key[i] = last = key;
		}
	}
	if (cursor->codec)
		message->key = cursor->codec->key;
}

static void keys_plain(struct cursor *cursor, struct kv_message *message)
{
	for (uint32_t i = 0; i < message->count && !cursor->is_refused; i++) {
		if (!cursor->codec) {
			sparse_body_put64(cursor->to, message->key[i]);
			cursor->to += 8;
		} else if (has(cursor, 8, "keys")) {
			cursor->codec->key[i] = sparse_body_get64(cursor->from);
			cursor->from += 8;
		}
	}
	if (cursor->codec)
		message->key = cursor->codec->key;
}

static void values_of(struct cursor *cursor, struct kv_message *message, bool is_finite)
{
	uint32_t count = message->count * message->dim, bits;

	if (cursor->is_refused)
		return;
	if (!cursor->codec) {
		for (uint32_t i = 0; i < count; i++, cursor->to += 4) {
			memcpy(&bits, &message->value[i], sizeof(bits));
			sparse_body_put32(cursor->to, bits);
		}
		return;
	}
	if (!has(cursor, (size_t)count * 4, "values"))
		return;
	for (uint32_t i = 0; i < count; i++, cursor->from += 4) {
		bits = sparse_body_get32(cursor->from);
		memcpy(&cursor->codec->value[i], &bits, sizeof(bits));
		if (is_finite && !isfinite(cursor->codec->value[i]))
			refuse(cursor, "values", "are not all finite");
	}
	message->value = cursor->codec->value;
}

/* ---- messages ---- */

static void hello(struct cursor *cursor, struct kv_message *message)
{
	u16(cursor, &message->version, 1, UINT16_MAX, "version");
	u16(cursor, &message->workers, 1, SWITCH_CHILDREN_MAX, "workers");
	u16(cursor, &message->worker, 0, SWITCH_CHILDREN_MAX - 1, "worker");
	if (!cursor->is_refused && message->worker >= message->workers)
		refuse(cursor, "worker", "is out of range");
	u32(cursor, &message->pid, 0, UINT32_MAX, "pid");
	u64(cursor, &message->incarnation, 1, "incarnation");
	text(cursor, message->job, KV_JOB_BYTES, 1, "job");
	text(cursor, message->secret, KV_JOB_BYTES, 0, "key");
	text(cursor, message->host, KV_NAME_BYTES, 0, "host");
}

/* R-KV-22 */
static void share(struct cursor *cursor, struct kv_message *message)
{
	static const uint8_t none[KV_IDENTITY_BYTES];
	bool is_first;

	u16(cursor, &message->server, 0, KV_SERVERS_MAX - 1, "server");
	u16(cursor, &message->servers, 1, KV_SERVERS_MAX, "servers");
	if (!cursor->is_refused && message->server >= message->servers)
		refuse(cursor, "server", "is out of range");
	flag(cursor, &message->is_used, "is_used");
	bytes_of(cursor, message->identity, KV_IDENTITY_BYTES, "identity");
	is_first = message->type == KV_OPEN && !message->server && !message->is_used;
	if (!cursor->is_refused && !is_first && !memcmp(message->identity, none, sizeof(none)))
		refuse(cursor, "identity", "is missing");
	bytes_of(cursor, message->own, KV_IDENTITY_BYTES, "own");
}

static void open_of(struct cursor *cursor, struct kv_message *message)
{
	table_name(cursor, message);
	u16(cursor, &message->dim, 1, SPARSE_DIM_MAX, "dim");
	message->mode = (enum kv_mode)number_of(cursor, message->mode, 1, KV_ASYNC, KV_MODE_END - 1,
						"mode");
	u32(cursor, &message->staleness, 0, message->mode == KV_BOUNDED ? KV_STALENESS_MAX : 0,
	    "staleness");
	share(cursor, message);
	u64(cursor, &message->program, 0, "program"); /* R-KV-6 */
}

static void row_of(struct cursor *cursor, struct kv_message *message)
{
	for (uint32_t i = 0; i < message->window && !cursor->is_refused; i++)
		u64(cursor, &message->row[i], 0, "row");
}

static void opened(struct cursor *cursor, struct kv_message *message)
{
	table_name(cursor, message);
	u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
	u16(cursor, &message->dim, 1, SPARSE_DIM_MAX, "dim");
	u16(cursor, &message->window, 1, SPARSE_WINDOW_MAX, "window");
	u16(cursor, &message->bytes, 0, SPARSE_BYTES_MAX, "bytes");
	u32(cursor, &message->ranks, 0, UINT32_MAX, "ranks");
	u32(cursor, &message->map, 0, UINT32_MAX, "map");
	u32(cursor, &message->patience_us, 0, UINT32_MAX, "patience_us");
	scale_of(cursor, message);
	message->values = (enum sparse_values)number_of(cursor, message->values, 1, SPARSE_FIXED,
							SPARSE_VALUES_END - 1, "values");
	flag(cursor, &message->is_stepped, "is_stepped");
	flag(cursor, &message->is_known, "is_known");
	flag(cursor, &message->must_report, "must_report");
	u64(cursor, &message->generation, 0, "generation");
	u64(cursor, &message->epoch, 0, "epoch");
	u64(cursor, &message->number, 1, "number");
	message->barrier = number_of(cursor, message->barrier, 8, 0, UINT64_MAX - 1, "barrier");
	bytes_of(cursor, message->nonce, KV_NONCE_BYTES, "nonce");
	share(cursor, message);
	text(cursor, message->text, KV_TEXT_BYTES, 1, "text");
	row_of(cursor, message);
}

static void report(struct cursor *cursor, struct kv_message *message)
{
	u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
	u16(cursor, &message->window, 1, SPARSE_WINDOW_MAX, "window");
	/* One more has to have a number, too. */
	message->number = number_of(cursor, message->number, 8, 0, UINT64_MAX - 1, "number");
	row_of(cursor, message);
}

static void map_part(struct cursor *cursor, struct kv_message *message)
{
	u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
	u32(cursor, &message->map, 1, UINT32_MAX, "map");
	u32(cursor, &message->ranks, 1, UINT32_MAX, "ranks");
	u32(cursor, &message->first, 0, UINT32_MAX, "first");
	count_of(cursor, message, KV_KEYS_MAX);
	if (!cursor->is_refused &&
	    (message->first > message->ranks || message->count > message->ranks - message->first))
		refuse(cursor, "count", "is more than there are ranks");
	keys_plain(cursor, message);
}

static void switch_of(struct cursor *cursor, struct kv_message *message)
{
	u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
	u16(cursor, &message->index, 0, UINT16_MAX, "index");
	u16(cursor, &message->port, 1, UINT16_MAX, "port");
	u32(cursor, &message->map, 1, UINT32_MAX, "map");
	u64(cursor, &message->generation, 1, "generation");
	bytes_of(cursor, message->ip, sizeof(message->ip), "ip");
	bytes_of(cursor, message->nonce, KV_NONCE_BYTES, "nonce");
	u16(cursor, &message->registers, 0, LAYOUT_REGISTERS_MAX, "registers");
	message->packing = (enum kv_packing)number_of(cursor, message->packing, 1, KV_FILL,
						      KV_PACKING_END - 1, "packing");
}

static void with_keys(struct cursor *cursor, struct kv_message *message)
{
	u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
	u64(cursor, &message->number, 1, "number");
	if (message->type != KV_BATCH) {
		u64(cursor, &message->generation, 0, "generation");
		u64(cursor, &message->epoch, 0, "epoch");
	}
	if (message->type != KV_PULL)
		u16(cursor, &message->dim, 1, SPARSE_DIM_MAX, "dim");
	count_of(cursor, message,
		 message->type == KV_PULL ? KV_KEYS_MAX : kv_keys_max(message->dim));
	if (message->type != KV_PULLED)
		keys_of(cursor, message);
	if (message->type != KV_PULL)
		values_of(cursor, message, message->type == KV_BATCH);
}

static void error_of(struct cursor *cursor, struct kv_message *message)
{
	message->about = (enum kv_type)number_of(cursor, message->about, 1, KV_NOTHING,
						 KV_TYPE_END - 1, "about");
	message->refusal =
		(enum kv_refusal)number_of(cursor, message->refusal, 2, 1, UINT16_MAX, "refusal");
	u16(cursor, &message->table, 0, KV_NO_TABLE, "table");
	u16(cursor, &message->worker, 0, KV_NOBODY, "worker");
	u64(cursor, &message->number, 0, "number");
	text(cursor, message->text, KV_TEXT_BYTES, 1, "text");
}

static void fields_of(struct cursor *cursor, struct kv_message *message)
{
	switch (message->type) {
	case KV_HELLO:
		hello(cursor, message);
		break;
	case KV_WELCOME:
		u16(cursor, &message->version, 1, UINT16_MAX, "version");
		u16(cursor, &message->port, 1, UINT16_MAX, "port");
		u32(cursor, &message->heartbeat_ms, 1, UINT32_MAX, "heartbeat_ms");
		break;
	case KV_OPEN:
		open_of(cursor, message);
		break;
	case KV_OPENED:
		opened(cursor, message);
		break;
	case KV_MAP:
		map_part(cursor, message);
		break;
	case KV_SWITCH:
		switch_of(cursor, message);
		break;
	case KV_BATCH:
	case KV_PULL:
	case KV_PULLED:
		with_keys(cursor, message);
		break;
	case KV_DONE:
	case KV_BARRIER:
		u16(cursor, &message->table, 0, KV_NO_TABLE - 1, "table");
		/* One more has to have a number, too: OPENED could not say it. */
		message->number =
			number_of(cursor, message->number, 8, 1, UINT64_MAX - 1, "number");
		u64(cursor, &message->generation, 0, "generation");
		u64(cursor, &message->epoch, 0, "epoch");
		break;
	case KV_ERROR:
		error_of(cursor, message);
		break;
	case KV_REPORT:
		report(cursor, message);
		break;
	case KV_LEAVE:
	case KV_ALIVE:
		break;
	case KV_NOTHING:
	case KV_TYPE_END:
		refuse(cursor, "type", "is not one that there is");
		break;
	}
}

/* ---- frames ---- */

size_t kv_frame_bytes(const uint8_t *at, size_t have)
{
	uint32_t bytes;

	if (have < KV_FRAME_BYTES)
		return 0;
	bytes = sparse_body_get32(at);
	if (!bytes || bytes > KV_BYTES_MAX)
		return SIZE_MAX;
	return have - KV_FRAME_BYTES < bytes ? 0 : KV_FRAME_BYTES + (size_t)bytes;
}

int kv_decode(struct kv_codec *codec, const uint8_t *frame, size_t bytes,
	      struct kv_message *message)
{
	struct cursor cursor = { .codec = codec, .type = "message" };

	if (!bytes || kv_frame_bytes(frame, bytes) != bytes) {
		refuse(&cursor, "length", "is not its own");
		return -EINVAL;
	}
	cursor.from = frame + KV_FRAME_BYTES + 1;
	cursor.left = bytes - KV_FRAME_BYTES - 1;
	message->type = frame[KV_FRAME_BYTES] < KV_TYPE_END ? (enum kv_type)frame[KV_FRAME_BYTES]
							    : KV_NOTHING;
	if (message->type != KV_NOTHING)
		cursor.type = kv_type_name(message->type);
	fields_of(&cursor, message);
	if (!cursor.is_refused && cursor.left)
		refuse(&cursor, "length", "is more than its fields have");
	return cursor.is_refused ? -EINVAL : 0;
}

size_t kv_bytes(const struct kv_message *message)
{
	size_t fixed = KV_FRAME_BYTES + 1 + 2 * KV_JOB_BYTES + 2 * KV_NAME_BYTES + KV_TEXT_BYTES +
		       8 * SPARSE_WINDOW_MAX;

	switch (message->type) {
	case KV_BATCH:
		return fixed + message->count * ((size_t)KV_KEY_BYTES_MAX + 4u * message->dim);
	case KV_PULL:
	case KV_MAP:
		return fixed + message->count * (size_t)KV_KEY_BYTES_MAX;
	case KV_PULLED:
		return fixed + message->count * (size_t)4 * message->dim;
	default:
		return fixed;
	}
}

size_t kv_put(const struct kv_message *message, uint8_t *at)
{
	struct cursor cursor = { .to = at + KV_FRAME_BYTES };
	struct kv_message copy = *message;

	*cursor.to++ = (uint8_t)message->type;
	fields_of(&cursor, &copy);
	CORE_ASSERT(!cursor.is_refused); /* our own message */
	sparse_body_put32(at, (uint32_t)(cursor.to - at - KV_FRAME_BYTES));
	return (size_t)(cursor.to - at);
}
