/* SPDX-License-Identifier: Apache-2.0 */
/* keys_state.h - what the readers of keys.h share. */
#ifndef HOT_KEYS_STATE_H
#define HOT_KEYS_STATE_H

#include "files/libsvm.h"
#include "files/line.h"
#include "hot/keys.h"

enum {
	CTR_COLUMNS_MAX = 1024,
	CRITEO_NUMBERS = 13,
	CRITEO_CATEGORIES = 26,
	CRITEO_FIELDS = CRITEO_NUMBERS + CRITEO_CATEGORIES,
	KEYS_ROOM_FIRST = 1 << 12, /* keys */
};

struct keys {
	struct keys_options options;
	struct libsvm *libsvm;
	struct source *source; /* of u64 */
	struct line line;      /* of all others */
	uint64_t *key;         /* [room] */
	size_t count, room;
	uint64_t whole; /* keys of u64 so far */
	bool is_cut;    /* behind them is a part of one, and the end */
	/* Of criteo and avazu. */
	uint32_t fields;                 /* of each line; 0: not known yet */
	uint64_t begun[CTR_COLUMNS_MAX]; /* the hash of "name="; 0: the column is none */
	uint32_t hour;                   /* its column + 1; 0: there is none */
	char error[FILES_ERROR_MAX];
};

/* -1: the error is told. */
int keys_room_make(struct keys *keys, size_t count); /* of keys, in a row */
int keys_put(struct keys *keys, uint64_t key);
/* A hash, as `bits` has it. */
int keys_put_hash(struct keys *keys, uint64_t hash);

/* A line of that format: 0, and its row is in key[]; 1: it has none; -1: the error is told. */
int keys_criteo(struct keys *keys);
int keys_avazu(struct keys *keys);

#endif
