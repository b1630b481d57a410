/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seat.h - a communicator's place at each of its aggregators. seat.c: where they are, from open to close;
 * membership_do.c: what is done there; late.c: what takes too long; membership.c: what comes, and when it is whose
 * turn. Included by these alone.
 */
#ifndef LIB_SEAT_H
#define LIB_SEAT_H

#include "control/conn.h"
#include "core/job/member.h"
#include "lib/membership.h"

/* The oldest operation, and how far it was when it last got on. */
struct patience {
	uint64_t number, done;
	uint64_t since_ns; /* since when it is so */
	uint64_t said_ns;
};

/* The deadline that was last said to be over. */
struct expiry {
	uint64_t number, again_ns;
};

/* What an aggregator is to this rank. */
struct seat {
	struct conn_address address;
	struct conn *conn;
	uint32_t attempts;                   /* to connect */
	atomic_int fd;                       /* conn's, for a forked child; -1 */
	bool is_begun;                       /* the first has granted: this one may be asked, too */
	bool is_granted;                     /* its GRANT is in, and waits for the others' */
	bool is_absent_said;                 /* that nobody answers there */
	bool is_ending;                      /* the end of the connection is no event any more */
	uint16_t lanes;                      /* of its START; 0: not yet */
	uint32_t shards_first, shards_count; /* in the endpoint */
	struct control_grant grant;
	struct member member;
	struct member_config config;
	struct member_actions actions;
	struct control_join join;
	uint64_t tick_ns;
	uint64_t welcomed_ns;    /* the last WELCOME that the machine was told of */
	uint64_t knock_until_ns; /* HELLO is said to its shards, for it is silent, or was */
	uint64_t regular_ns;     /* since then no word over TCP was late; 0: one is */
};

/*
 * R-CT-25: one machine per aggregator. The first is the primary; the others begin with its life when it has
 * granted. No GRANT is handed to a machine before all are in, for it takes all of them to open the endpoint;
 * operations may go when all have said START. The first machine that fails is the cause: all others are told.
 */
struct membership {
	struct seat seats[MEMBERSHIP_AGGREGATORS_MAX];
	uint32_t seats_count;
	bool has_failed;
	uint64_t begun_ns;              /* the first tick */
	struct control_message message; /* to be sent */
	struct patience patience;
	struct expiry expiry;
	uint64_t look_ns;
	uint64_t late_next; /* of operations from here on no WAITING was said at WARN */
};

void seat_drop(struct seat *seat);
/* LEFT, FAILED, or never begun. */
bool seat_is_over(const struct seat *seat);
/* There are paths, and who may be silent. */
bool seat_is_bound(const struct seat *seat);

/* Steps a seat's machine and does what it says, with all that follows; *event is used up. */
void membership_do(struct tally_comm *comm, struct seat *seat, struct codec *codec,
		   struct member_event *event);

/* The oldest operation, the paths, and aggregators that are silent: due at look_ns, from READY on. */
void late_look(struct tally_comm *comm, struct codec *codec, uint64_t now_ns);
/* Deadlines: due at comm->deadline_ns. */
void late_expire(struct tally_comm *comm, struct codec *codec, uint64_t now_ns);

#endif
