/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the server share: server.c the loop, serve.c messages, summed.c switches. */
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

enum { PS_CONNS_MAX = 1024, PS_LINE_BYTES = 1024 };

/* A worker of a table. */
struct ps_worker {
	struct ps_conn *conn;          /* that has opened the table for it; NULL: none */
	struct binding binding;        /* its UDP address, for the server */
	uint64_t barrier;              /* the last that it has come to, */
	bool is_waiting;               /* and has not been answered */
	uint8_t nonce[KV_NONCE_BYTES]; /* for the switch of this generation */
};

struct ps_hosted {
	struct ps_table *table;
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
	struct knock knock;
	bool is_knocking;
	uint32_t first, asked, tried; /* aggregators: whom to ask first, who is, how many were */
	uint32_t which;               /* has granted `client` */
	uint64_t again_ns;            /* to be asked again */
	uint64_t recorded;            /* as the pulls that wait have seen it */
	int trouble;                  /* as it was logged */
	int no_room;                  /* why there is no switch inside, as it was logged */
	uint64_t saved_ns;            /* the last checkpoint began */
};

/* An aggregator whose datagrams did not come through: not asked until then. */
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
	uint32_t conn_count;
	struct pollfd fds[3 + PS_CONNS_MAX + PS_TABLES_MAX]; /* bell, listener, link, connections */
	uint16_t port;                                       /* UDP */
	struct kv_codec codec;
	float *values; /* KV_VALUES_MAX, for answers */
	atomic_bool is_stopping, is_asked, is_saving;
};

uint64_t ps_now(const struct ps_server *server);
__attribute__((format(printf, 3, 4))) void ps_log(const struct ps_server *server,
						  enum ps_level level, const char *format, ...);
/* Random bytes; false: the kernel has none. */
bool ps_random(void *at, size_t bytes);

/* ---- serve.c ---- */

/* All whole frames that have come. */
void ps_serve(struct ps_server *server, struct ps_conn *conn);
/* Pulls that wait, barriers: after anything was recorded. */
void ps_serve_waiting(struct ps_server *server, struct ps_hosted *hosted);
/* The connection is about to be closed. */
void ps_serve_gone(struct ps_server *server, struct ps_conn *conn);
/* SWITCH to this worker, behind all that is held. */
void ps_serve_switch(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker);

/* ---- summed.c ---- */

/* A switch for the generation that has just begun: at an aggregator if one grants it, else inside. */
void ps_summed_begin(struct ps_server *server, struct ps_hosted *hosted);
/* Inside, and now. */
void ps_summed_inside(struct ps_server *server, struct ps_hosted *hosted);
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

/* ---- aggregator.c ---- */

/* The next of those that were not asked; inside, if all were and the table has no switch. */
void ps_aggregator_ask(struct ps_server *server, struct ps_hosted *hosted);
void ps_aggregator_drop(struct ps_hosted *hosted);
uint64_t ps_aggregator_turn(struct ps_server *server, struct ps_hosted *hosted);
/* What to poll for it; false: nothing. */
bool ps_aggregator_poll(const struct ps_hosted *hosted, struct pollfd *fd);

#endif
