/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - why a table of keys ends for what a server is, or says, in words. See kv.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/text.h"
#include "kvlib/kv.h"

enum { WORD_BYTES = 80 };

/* "table emb of server ps-1:7272 ..." */
static const char *const words[] = {
	[WORKER_KV_OTHER_TABLE] = "is not the one that was asked for",
	[WORKER_KV_OTHER_MODE] = "is of another mode than the one that was asked for",
	[WORKER_KV_UNSOUND] = "cannot be: of its ranks, window, bytes, map and generation",
	[WORKER_KV_CHANGED] = "has become another one since it was opened",
	[WORKER_KV_OLDER_MAP] = "has an older map of hot keys than it had",
	[WORKER_KV_FORGOTTEN] =
		"does not know this worker any more: it has lost what it had, or keeps "
		"nothing, or a later incarnation has come",
	[WORKER_KV_NEVER_SENT] = "has batches that were never sent",
	[WORKER_KV_LOST_DONE] = "has lost batches that it had answered",
	[WORKER_KV_WENT_BACK] = "has begun a generation that there was before: the end of its log "
				"is missing",
};

/* ---- two servers that are made otherwise ---- */

/* The next word and its number or name, as in "rate 0x1p-3". False: there is none. */
static bool pair_next(const char **at, char word[WORD_BYTES], char value[WORD_BYTES])
{
	int used = 0;

	if (sscanf(*at, " %79s %79s%n", word, value, &used) < 2)
		return false;
	*at += used;
	return true;
}

static bool value_find(const char *made, const char *word, char value[WORD_BYTES])
{
	char name[WORD_BYTES];

	while (pair_next(&made, name, value))
		if (!strcmp(name, word))
			return true;
	strcpy(value, "not said");
	return false;
}

/* Numbers are written so that no bit is lost; people read others. */
static void value_show(char value[WORD_BYTES])
{
	char *end;
	double number;

	if (strncmp(value, "0x", 2) != 0)
		return;
	number = strtod(value, &end);
	if (!*end)
		snprintf(value, WORD_BYTES, "%.9g", number);
}

/* The first word that one says and the other does not, or says otherwise; false: there is none. */
static bool differ(const char *made, const char *other, char word[WORD_BYTES], char has[WORD_BYTES],
		   char others[WORD_BYTES])
{
	while (pair_next(&made, word, has))
		if (!value_find(other, word, others) || strcmp(has, others) != 0)
			return true;
	return false;
}

static void difference_say(struct kv_server *server, const char *made)
{
	const struct kv_server *first = server->kv->server;
	char word[WORD_BYTES] = "words", its[WORD_BYTES] = "others", firsts[WORD_BYTES] = "others";

	if (!differ(made, first->made, word, its, firsts))
		(void)differ(first->made, made, word, firsts, its);
	value_show(its);
	value_show(firsts);
	text_clean(word); /* a server may say anything */
	text_clean(its);
	text_clean(firsts);
	kv_break(server->kv, TALLY_ERR_MISMATCH,
		 "table %s is not made alike on its servers: %s is %s on server %s, and %s on "
		 "server "
		 "%s: start both tally-ps with the same --table",
		 server->kv->name, word, firsts, first->at.text, its, server->at.text);
}

/* ---- all of them ---- */

int kv_fault_of(enum kv_refusal refusal)
{
	switch (refusal) {
	case KV_REFUSED_VERSION:
		return TALLY_ERR_VERSION;
	case KV_REFUSED_DENIED:
	case KV_REFUSED_SUPERSEDED:
		return TALLY_ERR_DENIED;
	case KV_REFUSED_MISMATCH:
		return TALLY_ERR_MISMATCH;
	case KV_REFUSED_UNKNOWN:
		return TALLY_ERR_ARGUMENT;
	case KV_REFUSED_MEMORY:
	case KV_REFUSED_BUSY:
		return TALLY_ERR_NO_RESOURCE;
	case KV_REFUSED_DISK:
	case KV_REFUSED_GONE:
		return TALLY_ERR_REMOTE;
	case KV_REFUSED_UNSUPPORTED:
		return TALLY_ERR_UNSUPPORTED;
	case KV_REFUSED_MESSAGE:
	case KV_REFUSED_INTERNAL:
		break;
	}
	return TALLY_ERR_INTERNAL;
}

static void unreached_say(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;

	kv_break(kv, server->core->was_open ? TALLY_ERR_REMOTE : TALLY_ERR_SYSTEM,
		 "server %s of table %s cannot be reached for %.1f s: %s", server->at.text,
		 kv->name, (double)(kv->now_ns - server->core->down_ns) / 1e9, server->lost);
}

void kv_fault(struct kv_server *server, enum worker_kv_fault fault,
	      const struct kv_message *message)
{
	struct tally_kv *kv = server->kv;

	switch (fault) {
	case WORKER_KV_OTHER_VERSION:
		kv_break(kv, TALLY_ERR_VERSION,
			 "server %s of table %s speaks version %u; this library speaks %d: bring "
			 "both to one release",
			 server->at.text, kv->name, message->version, KV_VERSION);
		return;
	case WORKER_KV_MISPLACED:
		kv_break(kv, TALLY_ERR_REMOTE,
			 "server %s has opened another table than %s as it was asked for: server "
			 "%u of %u",
			 server->at.text, kv->name, server->idx, kv->servers);
		return;
	case WORKER_KV_RENEWED:
		kv_break(kv, TALLY_ERR_REMOTE,
			 "table %s of server %s has become another one since it was opened: its "
			 "words are others",
			 kv->name, server->at.text);
		return;
	case WORKER_KV_UNLIKE:
		difference_say(server, message->text);
		return;
	case WORKER_KV_REFUSED:
		kv_break(kv, kv_fault_of(message->refusal), "server %s refuses%s%s: %s: %s",
			 server->at.text, message->about ? " " : "",
			 message->about ? kv_type_name(message->about) : "",
			 kv_refusal_text(message->refusal), message->text);
		return;
	case WORKER_KV_UNREACHED:
		unreached_say(server);
		return;
	default:
		kv_break(kv, TALLY_ERR_REMOTE, "table %s of server %s %s", kv->name,
			 server->at.text, words[fault]);
	}
}
