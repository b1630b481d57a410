/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the server share. Each needs those before it alone: say.c its log, stranger.c who may
 * have a place, refuse.c ERRORs, tell.c what a worker hears of its table, verdict.c why it does not get what it asks for;
 * steps.c what workers are to each other (core/kv/server_kv.h), share.c whose table it is, awaited.c who does not come;
 * summed.c the switch inside, candidate.c one that is asked for, generation.c which of them it is, gather.c restarts
 * without a log; serve.c messages, accept.c connections, tired.c and aggregator.c a switch elsewhere, reload.c maps,
 * dropped.c what nobody takes; and server.c the loop around all of them.
 */
#ifndef PS_INTERNAL_H
#define PS_INTERNAL_H

#include <poll.h>
#include <stdatomic.h>

#include "control/table_client.h"
#include "dataplane/binding.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/knock.h"
#include "dataplane/link_udp.h"
#include "ps/conn.h"
#include "ps/server.h"

enum { PS_CONNS_MAX = 1024, PS_LINE_BYTES = 1024, PS_STRANGER_LINES = 10 /* a second */ };

/* A worker of a table. */
struct ps_worker {
	struct ps_conn *conn;          /* the link that has opened the table for it; NULL: none */
	struct binding binding;        /* its UDP address, for the server */
	uint8_t nonce[KV_NONCE_BYTES]; /* for the switch of this generation */
};

/* What is known of how an aggregator does: tired.c. */
struct ps_tired {
	uint64_t beats;                /* that were looked at; */
	uint32_t over;                 /* the last so many were at a bound */
	uint64_t sent, came;           /* parts of flushes, of late */
	uint64_t sent_then, came_then; /* as of the last beat, all */
	bool is;                       /* it is drained, and then it has to go */
};

/* What was dropped for who sent it, or what it said: dropped.c. */
struct ps_dropped {
	uint64_t address, generation, nonce;
};

struct ps_hosted {
	struct ps_table *table;
	uint64_t nonces_wrong;    /* HELLOs and WELCOMEs with another nonce, or an old serial */
	uint64_t addresses_wrong; /* WELCOMEs */
	uint64_t dropped_said;    /* as it was logged */
	struct ps_hosted_options options;
	struct ps_worker *worker; /* [workers] */
	uint64_t *row;            /* [window]: of a predecessor, while OPEN is answered */
	uint16_t number;          /* of OPENED */
	/* Its switch: */
	bool has_switch, is_inside;
	uint16_t index;
	struct link_address at_switch;  /* of no meaning inside */
	struct table_client *client;    /* its aggregator's; NULL: it is inside, or there is none */
	struct table_client *candidate; /* one that is asked */
	uint64_t parts;                 /* of flushes, that have come of it */
	struct ps_tired tired;
	uint64_t taken_ns; /* since when it is the switch */
	/* R-SP-35: since when it is drained, 0: it is not; somebody waits for that */
	uint64_t drain_ns;
	bool is_drain_asked;
	struct knock knock;
	bool is_knocking;
	uint32_t first, asked, tried; /* aggregators: whom to ask first, who is, how many were */
	uint32_t which;               /* has granted `client` */
	uint16_t registers;           /* as its grant says: R-CT-32 */
	bool is_early;                /* who is, or has granted `client`, was to be left alone */
	uint64_t again_ns;            /* to be asked again */
	uint64_t recorded;            /* as the pulls that wait have seen it */
	uint64_t awaited_ns;          /* who is waited for was logged */
	int trouble;                  /* as it was logged, */
	int disk_trouble;             /* and as ps_disk has read it last */
	uint16_t sticky;              /* likewise */
	bool is_held;                 /* likewise: a step's number was too large */
	int no_room;                  /* why there is no switch inside, as it was logged */
	uint64_t saved_ns;            /* the last checkpoint began */
};

static inline const struct server_sparse *server_of(const struct ps_hosted *hosted)
{
	return home_sparse_server(hosted->table->home);
}

/* An aggregator whose datagrams did not come through, or that was tired: not asked until then. */
struct ps_closed {
	uint64_t until_ns, wait_ns;
};

struct ps_server {
	struct ps_server_options options;
	struct ps_hosted hosted[PS_TABLES_MAX];
	uint32_t hosted_count;
	struct link *link;
	struct outbox outbox;
	struct engine_sparse *engine;
	struct link_address self; /* where our own datagrams come from, and go to */
	uint16_t index_next;
	struct conn_address aggregator[PS_AGGREGATORS_MAX];
	struct ps_closed closed[PS_AGGREGATORS_MAX];
	int listener, bell;
	uint64_t accept_ns; /* not before: there was no descriptor left */
	struct ps_conn *conn[PS_CONNS_MAX];
	uint32_t conn_count; /* in the order in which they came */
	uint64_t links;      /* that there have been */
	struct server_kv_actions actions;
	uint32_t places; /* for connections: PS_CONNS_MAX, or what the limit of open files leaves */
	uint64_t stranger_second; /* of the lines about strangers */
	uint32_t stranger_lines;
	struct pollfd fds[3 + PS_CONNS_MAX + PS_TABLES_MAX]; /* bell, listener, link, connections */
	uint16_t port;                                       /* UDP */
	uint64_t dropped_said;                               /* of the switches inside */
	struct kv_codec codec;
	float *values;     /* KV_VALUES_MAX, for answers */
	atomic_uint asked; /* enum ps_ask */
};

uint64_t ps_now(const struct ps_server *server);
uint64_t ps_wall(void); /* ns since 1970 */
/* A line of this table, of this connection's worker; NULL: of none. */
struct ps_about ps_about(const struct ps_hosted *hosted, const struct ps_conn *conn);
/* A table's line begins with its name: "table NAME: ", once. */
__attribute__((format(printf, 4, 5))) void ps_log(const struct ps_server *server,
						  enum ps_level level, struct ps_about about,
						  const char *format, ...);
/* The same, a warning, for what a stranger makes us say: at most PS_STRANGER_LINES in a second. */
__attribute__((format(printf, 3, 4))) void
ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format, ...);
/* Random bytes; false: the kernel has none. */
bool ps_random(void *at, size_t bytes);

/* ---- stranger.c: R-KV-21 ---- */

/* Has it said no HELLO with the key; without a key, has it opened no table? */
bool ps_is_stranger(const struct ps_server *server, const struct ps_conn *conn);
/* Is there a place for one more who is no stranger any more? */
bool ps_member_fits(const struct ps_server *server);
/* So many places there are for strangers, and for those of one source. */
uint32_t ps_strangers_max(const struct ps_server *server);
uint32_t ps_source_max(const struct ps_server *server);
/* The oldest stranger of this source, or of any; PS_CONNS_MAX: none. *count: how many they are. */
uint32_t ps_stranger_oldest(const struct ps_server *server, const uint64_t *source,
			    uint32_t *count);
/* The source that has the most strangers here. */
uint64_t ps_stranger_busiest(const struct ps_server *server);

/* ---- refuse.c ---- */

/* ERROR. what: the message that it answers; NULL: the connection ends with it. */
__attribute__((format(printf, 5, 6))) void
ps_serve_refuse(struct ps_server *server, struct ps_conn *conn, const struct kv_message *what,
		enum kv_refusal refusal, const char *format, ...);

/* Another worker, as a refusal names it: without a key by its number alone, for whoever asks may be anybody (R-KV-21).
 * What is left out is logged, for those who look at a refusal there. */
enum { PS_NAMED_BYTES = PS_CONN_NAME_BYTES };
const char *ps_serve_name(struct ps_server *server, const struct ps_conn *other,
			  char text[PS_NAMED_BYTES]);

/* ---- tell.c ---- */

/* OPENED, and what goes with it. is_known: it goes on as what it was. */
void ps_serve_opened(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     bool is_known);
/* MAPs of all hot keys, behind all that is held. */
void ps_serve_map(struct ps_hosted *hosted, struct ps_conn *conn);
/* SWITCH to this worker, behind all that is held. */
void ps_serve_switch(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker);

/* ---- verdict.c ---- */

/* What is refused, if anything is. said: what it answers; NULL: nothing. other: as the verdict says. */
void ps_verdict_say(struct ps_server *server, const struct ps_hosted *hosted, struct ps_conn *conn,
		    const struct kv_message *said, enum server_kv_verdict verdict, uint16_t other);

/* ---- steps.c ---- */

enum server_kv_disk ps_disk(struct ps_hosted *hosted);
/* Does what the table's machine asks for. conn: of TO_OPEN and BARRIER. */
const struct server_kv_actions *ps_step(struct ps_server *server, struct ps_hosted *hosted,
					struct ps_conn *conn, const struct server_kv_event *event);

/* The server begins: who had joined, and has not left, is expected back. */
void ps_steps_begin(struct ps_server *server, struct ps_hosted *hosted);
/* Nobody has refused this OPEN. */
void ps_steps_open(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		   const struct server_kv_event *event);
/* The connection is about to be closed; did it have the table open? */
bool ps_steps_gone(struct ps_server *server, struct ps_hosted *hosted, const struct ps_conn *conn);
/* The worker has come to this barrier; it has left. */
void ps_steps_come(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		   const struct kv_message *said);
void ps_steps_left(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker);
/* From time to time: whose barrier counts again, for it was heard; tells those that wait for the disk, or for one that
 * has gone. */
void ps_steps_turn(struct ps_server *server, struct ps_hosted *hosted);

/* ---- share.c: R-KV-22 ---- */

/* Does OPEN say another place of this server, or another table, than what it has? Then it has been told so. */
bool ps_share_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *open);
/* Is a worker of another job here, or of another program of the same launch? Then it has been told so. R-KV-6. */
bool ps_share_other_job(struct ps_server *server, struct ps_conn *conn,
			const struct kv_message *open);
/* Takes what OPEN says, which was not refused; false: the kernel has no random bytes. */
bool ps_share_take(struct ps_hosted *hosted, const struct kv_message *open);
/* At the start: --adopt. 0, or -1 with a sentence. */
int ps_share_adopt(struct ps_server *server, struct ps_hosted *hosted, char error[PS_ERROR_MAX]);

/* ---- awaited.c ---- */

/* From time to time: who has been waited for a long time, and by whom. */
void ps_awaited_turn(const struct ps_server *server, struct ps_hosted *hosted);

/* ---- gather.c ---- */

/* R-SP-33: the table has no log, and begins by asking all who were there what they had been told. */
void ps_gather_begin(struct ps_server *server, struct ps_hosted *hosted);
void ps_gather_report(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		      const struct kv_message *said);
/* After each report and each JOIN, and from time to time: have all reported, or is it too late? */
void ps_gather_turn(struct ps_server *server, struct ps_hosted *hosted);

/* ---- summed.c ---- */

/* Its clients of aggregators are closed. */
void ps_aggregator_drop(struct ps_hosted *hosted);
/* Inside, and now. */
void ps_summed_inside(struct ps_server *server, struct ps_hosted *hosted);
/* R-SP-35: may a fence that can wait come now? Whoever wants one asks again and again, until it may. */
bool ps_summed_is_drained(struct ps_server *server, struct ps_hosted *hosted);
/* What the table has is given back. */
void ps_summed_drop(struct ps_server *server, struct ps_hosted *hosted);
/* This is the switch now, and all workers with a connection are told, by their nonces. */
void ps_summed_install(struct ps_server *server, struct ps_hosted *hosted, uint64_t instance,
		       uint16_t index, const struct link_address *at, const char *where);
/* One datagram. */
void ps_summed_serve(struct ps_server *server, const struct link_address *peer, const uint8_t *at,
		     uint32_t bytes);
/* What is due; when it is to be called again. */
uint64_t ps_summed_turn(struct ps_server *server);

/* ---- candidate.c ---- */

/* The next of those that were not asked; inside, if all were and the table has no switch. */
void ps_aggregator_ask(struct ps_server *server, struct ps_hosted *hosted);
/* May there be another switch than the one that there is? A generation that had one has no other. */
bool ps_candidate_may_change(const struct ps_hosted *hosted);
/* Of the one that is asked: has it granted the table, or is the next one to be asked? */
void ps_candidate_turn(struct ps_server *server, struct ps_hosted *hosted, uint64_t now_ns);

/* ---- generation.c ---- */

/* A switch for the generation that has just begun: at an aggregator if one grants it, else inside. */
void ps_summed_begin(struct ps_server *server, struct ps_hosted *hosted);
/* R-SP-1, after a fence: if it is one of the last, the operator has to know. */
void ps_spent_say(struct ps_server *server, const struct ps_hosted *hosted);

/* ---- dropped.c ---- */

/* Says what has been dropped because of its address, generation or nonce, the 1st, 2nd, 4th, 8th, ... time. */
void ps_dropped_turn(struct ps_server *server);
struct ps_dropped ps_dropped_table(const struct ps_hosted *hosted);
/* Of all tables' switches inside. */
struct ps_dropped ps_dropped_switch(const struct ps_server *server);
/* Now, however little it is. */
void ps_dropped_report(const struct ps_server *server);

/* ---- tired.c ---- */

/* True: an answer has come, and by it the aggregator is tired; why: of what. */
bool ps_tired_look(struct ps_server *server, struct ps_hosted *hosted, char *why, size_t bytes);

/* ---- reload.c ---- */

/* The table's map is to be looked at again. */
void ps_reload(struct ps_server *server, struct ps_hosted *hosted);

/* ---- aggregator.c ---- */

/* What is due; when it is to be called again. */
uint64_t ps_aggregator_turn(struct ps_server *server, struct ps_hosted *hosted);
/* What to poll for it; false: nothing. */
bool ps_aggregator_poll(const struct ps_hosted *hosted, struct pollfd *fd);

/* ---- serve.c ---- */

/* All whole frames that have come. */
void ps_serve(struct ps_server *server, struct ps_conn *conn);
/* Pulls that wait, barriers: after anything was recorded. */
void ps_serve_waiting(struct ps_server *server, struct ps_hosted *hosted);
/* If the table's log was deleted: its workers hear so, and their connections end. */
void ps_serve_deleted(struct ps_server *server, struct ps_hosted *hosted);
/* The connection is about to be closed. */
void ps_serve_gone(struct ps_server *server, struct ps_conn *conn);

/* ---- accept.c ---- */

/* How many connections there is room for. */
void ps_places(struct ps_server *server);
/* All who knock, or as many as a turn has time for. */
void ps_accept(struct ps_server *server);
/* From time to time: a stranger for longer than that has to go. */
void ps_strangers_turn(struct ps_server *server, uint64_t now_ns, uint64_t patience_ns);

#endif
