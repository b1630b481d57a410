/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - tables of sparse mode, as their parameter servers open them: one connection each, which is also how long
 * a table lives. A table belongs to one shard, which alone knows what is in it. docs/protocol.md, R-CT-28 to
 * R-CT-31.
 *
 * Under way to a shard are at most TABLE_ADD, one TABLE_BEAT and TABLE_REMOVE of a table; its index is free again
 * when the last of these has been obeyed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/job/key.h"
#include "core/sparse/layout_sparse.h"
#include "server/internal.h"

static const uint64_t INSTANCE_COUNT = 0xffffff;

static void table_say(struct server *server, const struct table *table, enum server_level level,
		      const char *what)
{
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	text_begin(&text, words, sizeof(words));
	table_add(&text, table);
	server_say_job(server, level, table->open.job, SERVER_RANK_NONE, "%s: %s", words, what);
}

/* ---- its beginning ---- */

/* Why nobody can have such a table; NULL. */
static const char *shape_wrong(const struct server *server, const struct sparse_table *shape)
{
	uint32_t row = sparse_items_at(SPARSE_SETUP) + sparse_row_bytes(shape->window);
	uint32_t sum = SPARSE_HEADER_BYTES + sparse_sum_bytes(shape->dim);

	if (server->options.registers && shape->bytes > LAYOUT_BYTES)
		return "bytes: this aggregator counts as a chip does (--faithful), which takes "
		       "datagrams of at most 192";
	if (shape->bytes < row)
		return "bytes: a datagram must hold a row of the window's numbers";
	if (shape->bytes < sum)
		return "bytes: a datagram must hold a sum of dim values";
	return sparse_table_is_sound(shape) ? NULL : "its shape";
}

static struct sparse_table shape_of(const struct control_table_open *open)
{
	return (struct sparse_table){ .ranks = open->ranks,
				      .workers = open->workers,
				      .window = open->window,
				      .dim = open->dim,
				      .bytes = open->bytes,
				      .values = open->values,
				      .is_stepped = open->is_stepped };
}

/* Why this one cannot be served at all; *cause is set. False: it can. */
static bool is_unfit(const struct server *server, const struct control_table_open *open,
		     enum control_cause *cause, struct text *text)
{
	struct sparse_table shape = shape_of(open);
	const char *wrong = shape_wrong(server, &shape);

	text_add(text, "table \"%s\" of job \"%s\": ", open->table, open->job);
	*cause = CONTROL_DENIED;
	if (server->key[0] && !key_matches(open->key, server->key)) {
		text_add(text, "its server on %s%s", open->host,
			 open->key[0] ? " gave a key that is not this aggregator's"
				      : " gave no key, and this aggregator wants one");
		return true;
	}
	if (open->version_min > CONTROL_VERSION || open->version_max < CONTROL_VERSION) {
		*cause = CONTROL_VERSION_BAD;
		text_add(text,
			 "its server on %s speaks protocol versions %u to %u, this aggregator %u",
			 open->host, open->version_min, open->version_max, CONTROL_VERSION);
		return true;
	}
	if (server->options.chip_open) /* R-CHIP-6 */
		wrong = "this aggregator sums in a switch, which has no tables: it needs another "
			"one (tally-ps "
			"--aggregator)";
	if (wrong)
		text_add(text, "%s", wrong);
	return wrong != NULL;
}

/* The shard with the fewest; its tables come and go as one server asks for them. */
static uint16_t shard_least(const struct server *server)
{
	uint32_t count[SERVER_SHARDS_MAX] = { 0 };
	uint16_t least = 0;

	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++)
		if (server->tables[i])
			count[server->tables[i]->shard]++;
	for (uint16_t k = 1; k < server->options.shards; k++)
		if (count[k] < count[least])
			least = k;
	return least;
}

static int index_free(const struct server *server)
{
	for (uint32_t i = 0; i < server->options.tables_max; i++)
		if (!server->tables[i])
			return (int)i;
	return NO_TABLE;
}

/* Bytes that the job's tables would have with this one. One that is there under its name is what it is to replace (a
 * fence has an old table and a new one), and does not count. */
static uint64_t quota_used(const struct server *server, const struct control_table_open *open)
{
	struct sparse_table shape = shape_of(open);
	uint64_t bytes = engine_sparse_table_bytes(&shape), replaced = 0;

	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++) {
		const struct table *other = server->tables[i];

		if (!other || strcmp(other->open.job, open->job) != 0)
			continue;
		bytes += other->bytes;
		if (!strcmp(other->open.table, open->table) && other->bytes > replaced)
			replaced = other->bytes;
	}
	return bytes - replaced;
}

/* Why the job may have no such table; *text goes on. */
static bool is_beyond_quota(const struct server *server, const struct peer *peer,
			    const struct control_table_open *open, struct text *text)
{
	uint64_t most = server->options.tables_memory, used = most ? quota_used(server, open) : 0;

	if (used <= most)
		return false;
	text_add(text,
		 "the tables of its job may have %llu KiB (--tables-memory) and would have %llu: ",
		 (unsigned long long)(most >> 10), (unsigned long long)(used >> 10));
	holders_add_tables(server, peer->source, open->job, text);
	return true;
}

/* What its address has of places and memory. One of its own under this name is what it is to replace; but one alone, or
 * tables of one name would be without end. */
static bool has_its_share(const struct server *server, const struct peer *peer,
			  const struct control_table_open *open, struct text *text)
{
	struct sparse_table shape = shape_of(open);
	uint64_t bytes = engine_sparse_table_bytes(&shape), replaced = 0;
	uint16_t shard = shard_least(server);

	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++) {
		const struct table *other = server->tables[i];

		if (other && other->source == peer->source && !strcmp(other->open.job, open->job) &&
		    !strcmp(other->open.table, open->table) && other->bytes > replaced)
			replaced = other->bytes;
	}
	return !share_of_tables(server, peer->source, replaced != 0, text) ||
	       !share_of_memory(server, peer->source, shard,
				bytes > replaced ? bytes - replaced : 0, text);
}

static struct shard_table *table_for_shard(const struct table *table)
{
	struct shard_table *add = calloc(1, sizeof(*add));

	if (!add)
		return NULL;
	add->engine = (struct engine_sparse_table){ .shape = shape_of(&table->open),
						    .instance = table->instance,
						    .pairs_max = table->open.pairs_max,
						    .age_ns = table->open.age_us * 1000 };
	add->engine.shape.index = table->index;
	memcpy(add->nonces, table->nonces, sizeof(add->nonces));
	return add;
}

/* R-CT-29: a neighbour's cannot be told from one's own, for 40 bits of it are random; and none comes twice, for the
 * others count. (Of another process, or after 16.7 million tables, the random bits alone keep them apart.) */
static uint64_t instance_new(struct server *server)
{
	uint64_t random;

	server_random(&random, sizeof(random));
	if (!(++server->instance & INSTANCE_COUNT))
		server->instance++; /* never 0 */
	return (random & ~INSTANCE_COUNT) | (server->instance & INSTANCE_COUNT);
}

/* NULL: out of memory. The index is free. */
static struct table *table_new(struct server *server, uint16_t index, struct peer *peer,
			       const struct control_table_open *open, uint64_t now_ns)
{
	struct table *table = calloc(1, sizeof(*table));
	struct sparse_table shape = shape_of(open);
	struct shard_table *add;

	if (!table)
		return NULL;
	table->index = index;
	table->shard = shard_least(server);
	table->connection = peer->handle;
	table->instance = instance_new(server);
	table->heard_ns = now_ns;
	table->bytes = engine_sparse_table_bytes(&shape);
	table->source = peer->source;
	table->open = *open;
	memset(table->open.key, 0, sizeof(table->open.key));
	for (uint32_t i = 0; i <= open->workers; i++)
		server_random(table->nonces[i], sizeof(table->nonces[i]));
	add = table_for_shard(table);
	if (!add) {
		free(table);
		return NULL;
	}
	server->tables[index] = table;
	server->tables_count++;
	peer->table = index;
	shard_send(server->shards[table->shard],
		   &(struct shard_command){ .type = SHARD_TABLE_ADD, .job = index, .table = add });
	return table;
}

static void deny(struct server *server, struct peer *peer, enum control_cause cause,
		 const char *words, uint64_t now_ns)
{
	server_say_stranger(server, "%s: denied: %s", peer->text, words);
	peer_deny(server, peer, cause, words, now_ns);
}

/* R-CT-28 */
void table_open(struct server *server, struct peer *peer, const struct control_table_open *open,
		uint64_t now_ns)
{
	int index = index_free(server);
	enum control_cause cause;
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	text_begin(&text, words, sizeof(words));
	if (is_unfit(server, open, &cause, &text)) {
		deny(server, peer, cause, words, now_ns);
		return;
	}
	if (server->is_draining) {
		peer_deny_ending(server, peer, now_ns);
		return;
	}
	if (index == NO_TABLE) {
		text_add(&text, "the aggregator has as many tables as it takes (--tables-max %u): ",
			 server->options.tables_max);
		holders_add(server, peer->source, NULL, NULL, &text);
		deny(server, peer, CONTROL_NO_RESOURCE, words, now_ns);
		return;
	}
	if (is_beyond_quota(server, peer, open, &text) ||
	    has_its_share(server, peer, open, &text)) {
		deny(server, peer, CONTROL_NO_RESOURCE, words, now_ns);
		return;
	}
	if (!table_new(server, (uint16_t)index, peer, open, now_ns)) {
		text_add(&text, "the aggregator is out of memory");
		deny(server, peer, CONTROL_NO_RESOURCE, words, now_ns);
	}
}

/* ---- its end ---- */

static void table_forget(struct server *server, struct table *table)
{
	server->tables[table->index] = NULL;
	server->tables_count--;
	explicit_bzero(table->nonces, sizeof(table->nonces));
	free(table);
}

static void table_remove(struct server *server, struct table *table)
{
	if (table->is_leaving)
		return;
	table->is_leaving = true;
	shard_send(server->shards[table->shard],
		   &(struct shard_command){ .type = SHARD_TABLE_REMOVE, .job = table->index });
}

/* Its connection is of no use to it any more. */
static struct peer *table_part(struct server *server, struct table *table)
{
	struct peer *peer = peer_of(server, table->connection);

	table->connection = 0;
	if (peer)
		peer->table = NO_TABLE;
	return peer;
}

void table_end(struct server *server, struct table *table)
{
	if (!table->is_leaving)
		table_say(server, table, SERVER_INFO, "removed: its server's connection has ended");
	table_part(server, table);
	table_remove(server, table);
}

static void table_abort(struct server *server, struct table *table, bool is_ending,
			enum control_cause cause, const char *words)
{
	struct peer *peer = table_part(server, table);
	struct control_message message = { .type = CONTROL_ABORT };

	table_say(server, table, SERVER_WARN, words);
	table_remove(server, table);
	if (!peer)
		return;
	message.end.cause = (uint16_t)cause;
	message.end.rank = CONTROL_RANK_NONE;
	message.end.is_ending = is_ending;
	text_copy(message.end.text, sizeof(message.end.text), words);
	peer_send(server, peer, &message);
	peer_last_words(server, peer, clock_ns());
}

/* R-CT-31 */
void tables_abort(struct server *server, int shard, bool is_ending, const char *words)
{
	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++) {
		struct table *table = server->tables[i];

		if (table && !table->is_leaving && (shard < 0 || table->shard == shard))
			table_abort(server, table, is_ending, CONTROL_REMOTE, words);
	}
}

/* ---- in between ---- */

static void beat_ask(struct server *server, struct table *table, uint32_t serial)
{
	struct shard_command command = { .type = SHARD_TABLE_BEAT,
					 .job = table->index,
					 .table_generation = table->generation };

	table->is_beating = true;
	table->has_beat = false;
	table->beat = serial;
	shard_send(server->shards[table->shard], &command);
}

void table_message(struct server *server, struct peer *peer, const struct control_message *message,
		   uint64_t now_ns)
{
	struct table *table = server->tables[peer->table];

	table->heard_ns = now_ns;
	if (table->is_leaving)
		return;
	if (message->type == CONTROL_TABLE_CLOSE) {
		table_say(server, table, SERVER_INFO, "closed by its server");
		table_remove(server, table);
	} else if (message->type == CONTROL_TABLE_BEAT && table->is_granted) {
		table->generation = message->table_beat.generation;
		if (!table->is_beating) {
			beat_ask(server, table, message->table_beat.serial);
			return;
		}
		table->has_beat = true;
		table->beat_next = message->table_beat.serial;
	}
}

static void grant(struct server *server, struct table *table, struct peer *peer)
{
	struct control_message message = { .type = CONTROL_TABLE_GRANT };
	struct control_table_grant *grant = &message.table_grant;

	*grant = (struct control_table_grant){
		.port = shard_port(server->shards[table->shard]),
		.version = CONTROL_VERSION,
		.index = table->index,
		.nonces_count = (uint16_t)(table->open.workers + 1),
		.heartbeat_ms = server->options.heartbeat_ms,
		.instance = table->instance,
		.memory = table->bytes,
		.registers = (uint16_t)server->options.registers,
		.nonces = (const uint8_t(*)[WIRE_NONCE_BYTES])table->nonces,
	};
	if (server->is_local)
		memcpy(grant->ip, server->options.listen.ip, sizeof(grant->ip));
	table->is_granted = true;
	peer_send(server, peer, &message);
	explicit_bzero(table->nonces, sizeof(table->nonces));
	table_say(server, table, SERVER_INFO, "added");
}

/* No room for it, and who has it. */
static void refuse(struct server *server, struct table *table, struct peer *peer, int result)
{
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	text_begin(&text, words, sizeof(words));
	table_add(&text, table);
	text_add(&text, ": %s",
		 result == -ENOSPC ? "all memory for slots and tables (--memory-total) is held by "
				   : strerror(-result));
	if (result == -ENOSPC)
		holders_add(server, table->source, NULL, table, &text);
	deny(server, peer, CONTROL_NO_RESOURCE, words, clock_ns());
}

static void added(struct server *server, struct table *table, int result)
{
	struct peer *peer = peer_of(server, table->connection);

	if (!result && peer && !table->is_leaving) {
		grant(server, table, peer);
	} else if (result) {
		if (peer)
			refuse(server, table, peer, result);
		table_part(server, table);
		if (!table->is_leaving) /* else TABLE_REMOVE is still under way */
			table_forget(server, table);
	}
}

static void beaten(struct server *server, struct table *table, const struct shard_event *ack)
{
	struct peer *peer = peer_of(server, table->connection);
	struct control_message message = { .type = CONTROL_TABLE_BEAT };

	table->is_beating = false;
	if (!peer || table->is_leaving)
		return;
	message.table_beat = (struct control_table_beat){ .serial = table->beat,
							  .index = table->index,
							  .instance = ack->instance,
							  .generation = ack->table_generation,
							  .memory_used = ack->memory_used,
							  .memory_max = ack->memory_max,
							  .parts = ack->parts };
	peer_send(server, peer, &message);
	if (table->has_beat)
		beat_ask(server, table, table->beat_next);
}

/* R-CT-31. The server has said TABLE_CLOSE, if it is still there. */
static void removed(struct server *server, struct table *table)
{
	struct peer *peer = table_part(server, table);

	if (peer) {
		peer_send(server, peer, &(struct control_message){ .type = CONTROL_TABLE_CLOSE });
		peer_last_words(server, peer, clock_ns());
	}
	table_forget(server, table);
}

void table_shard_ack(struct server *server, const struct shard_event *ack)
{
	struct table *table = server->tables[ack->job];

	switch (ack->command) {
	case SHARD_TABLE_ADD:
		added(server, table, ack->result);
		break;
	case SHARD_TABLE_BEAT:
		beaten(server, table, ack);
		break;
	case SHARD_TABLE_REMOVE:
		removed(server, table);
		break;
	default: /* of a job */
		break;
	}
}

/* ---- silence ---- */

/* How often it is looked at: who comes later than twice that has overslept, and blames nobody (R-CT-9). */
static uint64_t look_ns(const struct server *server)
{
	return server->options.heartbeat_ms * MS_NS / 8;
}

void tables_tick(struct server *server, uint64_t now_ns)
{
	bool has_overslept = now_ns - server->tables_ns >= 2 * look_ns(server);

	if (now_ns - server->tables_ns < look_ns(server))
		return;
	server->tables_ns = now_ns;
	for (uint32_t i = 0; server->tables_count && i < SHARD_TABLES_MAX; i++) {
		struct table *table = server->tables[i];
		char words[64];
		struct text text;

		if (!table || table->is_leaving)
			continue;
		if (has_overslept)
			table->heard_ns = now_ns;
		if (now_ns - table->heard_ns < server->options.heartbeat_ms * MS_NS)
			continue;
		text_begin(&text, words, sizeof(words));
		text_add(&text, "its server was silent for %u ms", server->options.heartbeat_ms);
		table_abort(server, table, false, CONTROL_TIMEOUT, words);
	}
}

uint64_t tables_wake_ns(const struct server *server)
{
	return server->tables_count ? server->tables_ns + look_ns(server) : UINT64_MAX;
}
