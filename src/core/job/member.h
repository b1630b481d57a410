/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.h - a worker's side of control: from the first connection to LEFT, or to the one cause of its
 * failure. member_step(event) -> actions; no I/O, no clock, no allocation. docs/protocol.md, R-CT-49 on.
 *
 *   CONNECT  -> JOINING -> HELLOING -> READY -> RUN -> LEAVING -> LEFT;   FAILED from any but LEFT
 *   CONNECT <-  JOINING   in local mode, denied by an aggregator that is ending
 *
 * The state is flat memory without pointers; padding is zero. A member has one aggregator: who has several
 * is a member for each.
 */
#ifndef CORE_MEMBER_H
#define CORE_MEMBER_H

#include "core/job/control.h"

enum member_state {
	MEMBER_CONNECT,
	MEMBER_JOINING,
	MEMBER_HELLOING,
	MEMBER_READY,
	MEMBER_RUN,
	MEMBER_LEAVING,
	MEMBER_LEFT,
	MEMBER_FAILED,
	MEMBER_STATE_COUNT
};

struct member {
	uint64_t begun_ns;     /* the first tick */
	uint64_t since_ns;     /* the state was entered */
	uint64_t tick_ns;      /* the last tick */
	uint64_t heard_ns;     /* anything from the aggregator, */
	uint64_t spoke_ns;     /* ... and over TCP */
	uint64_t beat_ns;      /* HEARTBEAT went out */
	uint64_t hello_ns;     /* HELLOs went out */
	uint64_t retry_ns;     /* CONNECT: the next attempt is due; UINT64_MAX: one is under way */
	uint64_t heartbeat_ns; /* as granted; before that as configured */
	uint64_t expired;      /* is_expired: the operation whose deadline is over */
	uint64_t expired_ns;   /* ... since when */
	uint64_t welcomed;     /* bit k: shard k has answered a full HELLO */
	uint64_t welcomed_short; /* ... a short one */
	uint32_t serial;         /* of the last HELLO */
	uint16_t shards;
	uint16_t lanes; /* READY's, then START's */
	uint16_t cause_rank;
	uint8_t cause;                 /* enum control_cause; FAILED */
	uint8_t state;                 /* enum member_state */
	uint8_t is_joined;             /* JOIN has been sent on an open connection */
	uint8_t is_again;              /* is_local: one that was ending has denied us */
	uint8_t is_begun;              /* there was a first tick */
	uint8_t hellos;                /* rounds of HELLOs */
	uint8_t is_expired;            /* a deadline is over: a verdict is due */
	uint16_t port[MAP_SHARDS_MAX]; /* UDP, for texts */
};

struct member_config {
	const char *aggregator; /* "host:port", for texts */
	bool is_v6;             /* its shards are reached over IPv6, for texts; from GRANT on */
	const struct control_join *join;
	uint64_t connect_ns; /* attempts to connect go on for so long */
	uint64_t
		gather_ns; /* from the first tick to START, whoever is late; JOIN says what is left */
	uint64_t heartbeat_ns; /* until GRANT says another */
	bool is_local; /* rank 0 hosts it: after one that is ending comes that of its next life */
};
#define MEMBER_CONFIG_DEFAULT                                                                     \
	{                                                                                         \
		.connect_ns = 30000000000, .gather_ns = 300000000000, .heartbeat_ns = 10000000000 \
	}

enum member_event_type {
	MEMBER_CONNECTED,
	MEMBER_REFUSED, /* the attempt has failed; `text` is why ("Connection refused") */
	MEMBER_MESSAGE, /* `message` has come; with GRANT: the links are open, `lanes` is what they carry */
	MEMBER_CLOSED, /* end of file or error; `text` is why, or NULL */
	MEMBER_WELCOME, /* shard `shard` has answered a HELLO of `lanes` lanes; also later: it is alive */
	MEMBER_STALLED, /* operation `number` is the oldest and has had no accepted result for 500 ms;
	                   said each second while that is so */
	MEMBER_EXPIRED, /* the deadline of operation `number` is over; of several the oldest, said each
	                   second while that is so */
	MEMBER_FINALIZE,   /* `number` operations submitted, all complete */
	MEMBER_USER_ABORT, /* `text`: what the user says, or NULL */
	MEMBER_ERROR,      /* something failed here: `cause`, `text` */
	MEMBER_TICK, /* at least every second, and at `wake_ns`; after everything that has come was read;
	                `is_done`: the operation that EXPIRED named last is complete here */
};

struct member_event {
	enum member_event_type type;
	uint64_t now_ns;
	uint64_t number;
	uint32_t waited_ms; /* STALLED, EXPIRED: since the operation was submitted */
	uint32_t still_ms;  /* STALLED: since then, and since the last result of any */
	const struct control_message *message; /* lent */
	const char *text;                      /* lent */
	uint16_t shard;
	uint16_t lanes;
	enum control_cause cause;
	bool is_done;
};

enum member_action_type {
	MEMBER_DO_CONNECT, /* try once: CONNECTED or REFUSED follows */
	MEMBER_SEND,       /* `message`: member_message makes it */
	MEMBER_HELLO,      /* to shard `shard`, `serial`, `lanes` lanes */
	MEMBER_OPINFO,     /* send an OPINFO for round `serial`, of numbers from `number` on */
	MEMBER_START,      /* operations may go: `lanes`; the event's message has the members */
	MEMBER_CLOSE, /* last words: shutdown(SHUT_WR), read to end of file, at most 5 s, close. Its end is no
	                 event any more */
	MEMBER_IS_LEFT, /* finalize is done */
	MEMBER_FAIL,    /* once: `cause`, `text`; every call returns it from now on */
};

struct member_action {
	uint8_t type;    /* enum member_action_type */
	uint8_t message; /* SEND: enum control_type */
	uint8_t reserved[2];
	uint16_t shard;
	uint16_t lanes;
	uint32_t serial;              /* SEND of STALL: is it a deadline's? */
	uint32_t waited_ms, still_ms; /* SEND of STALL */
	uint64_t number;
};

enum {
	MEMBER_ACTIONS_MAX = 2 * MAP_SHARDS_MAX + 4
}; /* full and short HELLOs, and what goes with them */

struct member_actions {
	uint32_t count;
	uint64_t wake_ns; /* a TICK is wanted then; UINT64_MAX: never */
	uint16_t cause;   /* FAIL: enum control_cause */
	uint16_t cause_rank;
	bool has_progress; /* `text` is worth a line of log: whom the gathering waits for */
	bool has_waiting;  /* the event's message is a WAITING: whom an operation waits for */
	char text[CONTROL_TEXT_BYTES]; /* FAIL, SEND of ABORT */
	struct member_action list[MEMBER_ACTIONS_MAX];
};

/* The first step must be a TICK: it says MEMBER_DO_CONNECT. */
void member_init(struct member *member, const struct member_config *config);

/* The caller does what the list says, in its order. */
void member_step(struct member *member, const struct member_config *config,
		 const struct member_event *event, struct member_actions *actions);

/* Makes the message of a SEND of the last step. */
void member_message(const struct member_config *config, const struct member_actions *actions,
		    const struct member_action *action, struct control_message *message);

const char *member_state_name(uint32_t state);

#endif
