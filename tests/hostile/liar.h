/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liar.h - a member that joins as everybody does and then lies. It is libtally itself, with what it sends
 * twisted on the way: data packets at its link, control messages at its connection (-Wl,--wrap=conn_send).
 */
#ifndef TESTS_HOSTILE_LIAR_H
#define TESTS_HOSTILE_LIAR_H

#include "control/conn.h"
#include "core/shared/wire.h"
#include "tally.h"

enum { LIAR_LANES = 64, LIAR_LANES_SENT = 128 };

enum lie_end {
	LIE_HARMLESS, /* all sums are right */
	LIE_VOTE,     /* all sums are right, or what the lie votes for; one of these at least */
	LIE_NAMED,    /* the honest ranks get an error with `word` in its text */
	LIE_EITHER,   /* harmless or named, as it happens: the lie is in time or not */
	LIE_STALL, /* the liar's part is missing: no deadline is set, and all are told, with `word` */
};

struct lie {
	const char *name;
	enum lie_end end;
	const char *word;
	bool is_latency; /* the job is in latency mode */
	bool is_few;     /* elements, so that sums of floats are exact */
	bool is_deaf; /* an honest rank misses one result for a while, as on a network that loses it */
	bool is_named;       /* the text has "rank 2 on" this host, too */
	int32_t vote;        /* what the lie adds to int32 sums */
	bool votes_zero;     /* float32 sums become 0 */
	const char *counter; /* of tallyd, in which its packets end */
	/* Sees every packet that the liar's endpoint sends, and sends (liar_send) what it likes. */
	void (*packet)(struct wire *packet, int32_t *lane, uint32_t nth);
	/* Likewise with control messages (liar_say, liar_say_raw). */
	void (*control)(const struct control_message *message);
	/* Once, when the job runs (liar_say_now). */
	void (*started)(void);
};

extern const struct lie lies[];
extern const size_t lies_count;

/* From now on this process lies with what `comm` sends; before tally_comm_init: comm NULL, for control. */
void liar_begin(const struct lie *lie, struct tally_comm *comm);

/* This process, an honest one, hears the result of slot DEAF_SLOT's first round only after half a second. */
enum { DEAF_SLOT = 3 };
void liar_deafen(struct tally_comm *comm);

/* ---- for lies ---- */

void liar_send(const struct wire *packet, const int32_t *lane);
/* From a second socket of the liar's. */
void liar_send_elsewhere(const struct wire *packet, const int32_t *lane);
/* Any bytes. */
void liar_send_raw(const uint8_t *bytes, uint32_t count);
void liar_say(const struct control_message *message);
void liar_say_raw(const void *bytes, size_t count);
void liar_say_now(const struct control_message *message);
/* The nonce that this liar's HELLOs carry. */
const uint8_t *liar_nonce(void);

#endif
