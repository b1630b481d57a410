/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one worker's TCP connection to a parameter server: a stream (kv/stream.h), and frames that may not leave
 * before something is on the disk. Never waits. What the frames say is the caller's business.
 */
#ifndef PS_CONN_H
#define PS_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/stream.h"

struct ps_table;

/* Frames in `held`, the oldest first: this many bytes leave when the table's log is durable up to there. */
struct ps_gate {
	const struct ps_table *table;
	uint64_t position;
	size_t bytes;
};

/* A pull that waits for an epoch. */
struct ps_waiting_pull {
	uint16_t table;
	uint64_t number, generation, epoch;
	uint32_t count;
	uint64_t *key; /* malloc */
};

enum {
	PS_CONN_PULLS = 64,         /* that wait; one more is refused */
	PS_CONN_OUT_MAX = 16 << 20, /* bytes; who does not read them is not listened to any more */
	PS_CONN_NAME_BYTES = KV_NAME_BYTES + 64,
	PS_CONN_STRANGER_BYTES = 8 << 10, /* of a stranger's message: R-KV-21 */
};

struct ps_conn {
	struct kv_stream stream;    /* its bytes_max is less while this is a stranger */
	bool is_welcome, is_ending; /* HELLO was taken; it is closed once all is said */
	bool is_gone;               /* it is closed now */
	bool has_left; /* it has said LEAVE: nothing more is taken, and it ends once nothing is held */
	bool is_held;   /* its OPEN waits, and is looked at again in every turn */
	bool has_table; /* it has opened one */
	uint16_t worker;
	uint64_t link; /* the how manieth of this server it is: who it is to core/kv/server_kv.h */
	uint64_t incarnation;
	uint64_t since_ns, heard_ns, said_ns;
	uint64_t source;              /* its address, or what stands for it: stranger.c */
	char job[KV_JOB_BYTES];       /* as HELLO says it */
	uint64_t program;             /* as the last OPEN that was taken says it */
	char who[PS_CONN_NAME_BYTES]; /* for messages: "worker 2 (host, pid 77)" */
	struct buffer held;
	struct ps_gate *gate;
	uint32_t gate_count, gate_room;
	struct ps_waiting_pull pull[PS_CONN_PULLS];
	uint32_t pull_count;
};

struct ps_conn *ps_conn_open(int fd,
			     uint64_t now_ns); /* NULL: no memory; fd is the caller's then */
void ps_conn_close(struct ps_conn *conn);

/* Has it so much to say that it should not be asked for more? */
bool ps_conn_is_full(const struct ps_conn *conn);

/* Says it as soon as it can. */
void ps_conn_say(struct ps_conn *conn, const struct kv_message *message);
/* Says it when all that the table's log has now is durable; what is held leaves in its order. */
void ps_conn_hold(struct ps_conn *conn, const struct ps_table *table,
		  const struct kv_message *message);
/* What is held from now on waits for that, too. */
void ps_conn_wait(struct ps_conn *conn, const struct ps_table *table);
/* What of this has become durable goes to `stream`, and that to the kernel. False: the other side is gone. */
bool ps_conn_write(struct ps_conn *conn, uint64_t now_ns);
bool ps_conn_wants_to_write(const struct ps_conn *conn);

#endif
