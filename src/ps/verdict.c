/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - what a worker is told that does not get what it asks for: the words of core/kv/server_kv.h's verdicts.
 * docs/protocol.md, R-KV-14. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "ps/internal.h"

static const uint64_t NS_PER_S = 1000000000;

static const char *name_of(const struct ps_hosted *hosted)
{
	return hosted->options.table.name;
}

/* R-KV-6. One that was ahead keeps those out whose clocks are right. */
/* Not which one: whoever says just that is taken for this worker. */
static void lower_say(struct ps_server *server, const struct ps_hosted *hosted,
		      struct ps_conn *conn)
{
	uint64_t had = server_of(hosted)->memory.worker[conn->worker].incarnation;
	uint64_t now_ns = ps_wall();
	char ahead[160] = "";

	if (had > now_ns)
		snprintf(ahead, sizeof(ahead),
			 ": that one is %" PRIu64
			 " s ahead of this server's clock: set the clocks of all hosts, and try "
			 "again when these are over",
			 (had - now_ns) / NS_PER_S + 1);
	ps_serve_refuse(server, conn, NULL, KV_REFUSED_SUPERSEDED,
			"table %s: a later incarnation of worker %u has come%s", name_of(hosted),
			conn->worker, ahead);
}

static void disk_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *said)
{
	int trouble = hosted->disk_trouble;
	bool is_end = !said || (said->type == KV_OPEN && trouble == ENOENT);

	ps_serve_refuse(server, conn, is_end ? NULL : said, KV_REFUSED_DISK,
			"table %s: the server cannot write its log: %s%s", name_of(hosted),
			log_why(trouble),
			is_end                  ? ": nothing is acknowledged any more"
			: said->type == KV_OPEN ? ": too much waits for it already"
						: "");
}

static void mode_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *said)
{
	bool is_sync = hosted->table->options.is_sync;

	ps_serve_refuse(server, conn, said, KV_REFUSED_MISMATCH,
			"table %s is %s, mode=%s; %s has opened it as %s one", name_of(hosted),
			is_sync ? "synchronous" : "asynchronous", is_sync ? "sync" : "async",
			conn->who,
			said->mode == KV_SYNC      ? "a synchronous"
			: said->mode == KV_BOUNDED ? "a bounded"
						   : "an asynchronous");
}

static void differs_say(struct ps_server *server, const struct ps_hosted *hosted,
			struct ps_conn *conn, const struct kv_message *said, uint16_t other)
{
	const struct server_kv_worker *its = &hosted->table->kv.worker[other];
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(server, conn, said, KV_REFUSED_MISMATCH,
			"table %s: %s has opened it as %s, staleness %u; %s, which is here, as %s, "
			"staleness %u",
			name_of(hosted), conn->who, kv_mode_name(said->mode), said->staleness,
			ps_serve_name(server, hosted->worker[other].conn, name),
			kv_mode_name((enum kv_mode)its->mode), its->staleness);
}

static void anew_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct ps_conn *other)
{
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(server, conn, NULL, KV_REFUSED_SUPERSEDED,
			"table %s: %s has begun anew: what all have pushed since step %" PRIu64
			" is dropped, and the run is over",
			name_of(hosted), ps_serve_name(server, other, name),
			hosted->table->kv.barrier);
}

/* OPEN is answered so. */
static void open_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *said, enum server_kv_verdict verdict)
{
	const char *name = name_of(hosted);
	char why[PS_ERROR_MAX];

	if (verdict == SERVER_KV_AHEAD) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_MISMATCH,
				"table %s: the incarnation of %s, %" PRIu64
				" ns of its clock, is %.1f h ahead of this server's clock: set the "
				"clocks of both hosts (an hour is borne)",
				name, conn->who, conn->incarnation,
				(double)(conn->incarnation - ps_wall()) / 3600e9);
	} else if (verdict == SERVER_KV_SOON) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_BUSY,
				"table %s: workers come in place of others too fast: one a second "
				"may, after %u at once: come again",
				name, SERVER_KV_AT_ONCE);
	} else if (verdict == SERVER_KV_SPENT) {
		ps_table_spent(hosted->table, why);
		ps_serve_refuse(server, conn, said, KV_REFUSED_UNSUPPORTED,
				"%.600s: nobody comes in place of worker %u any more", why,
				conn->worker);
	} else if (verdict == SERVER_KV_OVER) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_SUPERSEDED,
				"table %s: the run of %s is over: it has left, or another worker "
				"has begun anew",
				name, conn->who);
	}
}

/* And BARRIER. */
static void barrier_say(struct ps_server *server, const struct ps_hosted *hosted,
			struct ps_conn *conn, const struct kv_message *said,
			enum server_kv_verdict verdict, uint16_t other)
{
	const struct server_kv *kv = &hosted->table->kv;

	if (verdict == SERVER_KV_FAR)
		ps_serve_refuse(server, conn, said, KV_REFUSED_MESSAGE,
				"table %s: barrier %" PRIu64
				" is out of reach: the last that was passed is %" PRIu64
				", and none is more than 2^32 above that",
				name_of(hosted), said->number, kv->barrier);
	else
		ps_serve_refuse(server, conn, said, KV_REFUSED_GONE,
				"table %s: worker %u has gone, %" PRIu64
				" ms ago, and has not ended step %" PRIu64,
				name_of(hosted), other,
				(ps_now(server) - kv->worker[other].gone_ns) / 1000000,
				kv->barrier + 1);
}

void ps_verdict_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		    const struct kv_message *said, enum server_kv_verdict verdict, uint16_t other)
{
	switch (verdict) {
	case SERVER_KV_YES:
	case SERVER_KV_DRAIN: /* nothing is refused */
		break;
	case SERVER_KV_LOWER:
		lower_say(server, hosted, conn);
		break;
	case SERVER_KV_NO_DISK:
		disk_say(server, hosted, conn, said);
		break;
	case SERVER_KV_OTHER_MODE:
		mode_say(server, hosted, conn, said);
		break;
	case SERVER_KV_DIFFERS:
		differs_say(server, hosted, conn, said, other);
		break;
	case SERVER_KV_AHEAD:
	case SERVER_KV_SPENT:
	case SERVER_KV_SOON:
	case SERVER_KV_OVER:
		open_say(server, hosted, conn, said, verdict);
		break;
	case SERVER_KV_FAR:
	case SERVER_KV_HAS_GONE:
		barrier_say(server, hosted, conn, said, verdict, other);
		break;
	case SERVER_KV_ANEW:
		anew_say(server, hosted, conn, hosted->worker[other].conn);
		break;
	case SERVER_KV_TAKEN:
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_SUPERSEDED,
				"table %s: worker %u has another connection now", name_of(hosted),
				conn->worker);
		break;
	}
}
