/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - what workers and a parameter server say over TCP, as bytes: a length, a type, fields, keys as
 * differences, values as float32. Pure: whoever has a socket reads and writes the frames. docs/protocol.md,
 * R-KV-1 to R-KV-22.
 *
 * kv_frame_bytes says whether a whole frame has come, kv_decode judges it and is the only code that does, kv_put
 * writes one. What is refused is refused with a text that names the message and the field.
 */
#ifndef KV_MESSAGE_H
#define KV_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sparse/table_sparse.h"

enum {
	KV_VERSION = 4,
	KV_FRAME_BYTES = 4,     /* the length; it does not count itself */
	KV_BYTES_MAX = 1 << 20, /* of what follows it */
	KV_KEYS_MAX = 16384,    /* of a message, */
	KV_VALUES_MAX = 131072, /* and keys * dim */
	KV_KEY_BYTES_MAX = 10,  /* of one key's difference */
	KV_NONCE_BYTES = 16,    /* as R-WIRE-8's */
	KV_JOB_BYTES = 256,     /* of texts, with their ends */
	KV_NAME_BYTES = 64,
	KV_TEXT_BYTES = 512,
	KV_FAULT_BYTES = 128,
	KV_STALENESS_MAX = 1 << 20,
	KV_SERVERS_MAX = 64,       /* of a table */
	KV_IDENTITY_BYTES = 16,    /* of a table */
	KV_NOBODY = SPARSE_SERVER, /* `worker`, of an ERROR that is about none */
	KV_NO_TABLE = 0xffff,      /* `table`, of one that is about none */
};
_Static_assert(KV_KEYS_MAX *KV_KEY_BYTES_MAX + KV_VALUES_MAX * 4 + 64 <= KV_BYTES_MAX,
	       "the longest BATCH fits");

/* R-KV-3 */
enum kv_type {
	KV_NOTHING,
	KV_HELLO,   /* worker: who I am */
	KV_WELCOME, /* server: and who I am */
	KV_OPEN,    /* worker: this table, please (R-SP-29: it joins) */
	KV_OPENED,  /* server: what it is like, and where you stand in it */
	KV_MAP,     /* server: some of its hot keys */
	KV_SWITCH,  /* server: who sums them from this generation on */
	KV_BATCH,   /* worker: cold pairs (R-SP-28) */
	KV_DONE,    /* server: the batch is in, for ever */
	KV_PULL,    /* worker: values of these keys, please */
	KV_PULLED,  /* server: here they are */
	KV_BARRIER, /* worker: I have come; server: all have */
	KV_LEAVE,   /* worker: goodbye; server: it is on the disk that you have left */
	KV_ERROR,   /* server: no, and why */
	KV_ALIVE,   /* both: nothing, but silence means something */
	KV_REPORT,  /* worker: what I had been told is in, before you were restarted (R-SP-33) */
	KV_TYPE_END
};

/* R-KV-15: how the workers of a table wait for each other. */
enum kv_mode {
	KV_ASYNC,   /* not at all */
	KV_BOUNDED, /* nobody is more than `staleness` steps ahead */
	KV_SYNC,    /* a step is all workers', and one step of the optimiser */
	KV_MODE_END
};

/* R-KV-18: which packets hot pairs go into, as core/sparse/layout_sparse.h does it. */
enum kv_packing { KV_FILL, KV_ALGORITHM_1, KV_DEAL, KV_PACKING_END };

/* Why a server says no: number, name in logs, what it means. */
#define KV_REFUSALS(X)                                                                   \
	X(KV_REFUSED_VERSION, 1, "no common version of the protocol")                    \
	X(KV_REFUSED_DENIED, 2, "wrong key")                                             \
	X(KV_REFUSED_MISMATCH, 3, "it disagrees with the server or with another worker") \
	X(KV_REFUSED_UNKNOWN, 4, "no such table")                                        \
	X(KV_REFUSED_SUPERSEDED, 5, "a later incarnation of this worker has come")       \
	X(KV_REFUSED_MEMORY, 6, "the server's bound of memory is reached")               \
	X(KV_REFUSED_DISK, 7, "the server cannot write its log")                         \
	X(KV_REFUSED_MESSAGE, 8, "a message that cannot be, or not now")                 \
	X(KV_REFUSED_UNSUPPORTED, 9, "the server cannot do that")                        \
	X(KV_REFUSED_INTERNAL, 10, "an error of the server's own")                       \
	X(KV_REFUSED_GONE, 11, "another worker has gone, and a step waits for it")       \
	X(KV_REFUSED_BUSY, 12, "no place, come again")

enum kv_refusal {
#define X(name, value, text) name = value,
	KV_REFUSALS(X)
#undef X
};

/* One message in host order; of its fields those of its type mean something (R-KV-4), the others are as they
 * were before kv_decode. Arrays are borrowed: of what was decoded, they are the codec's. */
struct kv_message {
	enum kv_type type;
	enum kv_type about; /* ERROR: which message; KV_NOTHING: the connection, which ends */
	enum kv_refusal refusal;
	uint16_t table; /* as OPENED numbers it; of this server */
	uint16_t version;
	uint16_t worker, workers;
	uint16_t port;      /* UDP */
	uint16_t index;     /* the table's, at its switch */
	uint16_t registers; /* of the chip that this is; 0: it is none */
	enum kv_packing packing;
	uint16_t dim;
	uint16_t window;           /* W */
	uint16_t bytes;            /* of a datagram, at most */
	enum sparse_values values; /* OPENED: of hot pairs */
	bool is_stepped;           /* OPENED: the table's mode is KV_SYNC */
	enum kv_mode mode;
	uint32_t staleness;       /* of KV_BOUNDED; else 0 */
	bool is_known;            /* this incarnation had joined before: it goes on */
	bool must_report;         /* OPENED: R-KV-20 */
	uint16_t server, servers; /* OPEN, OPENED: this one of so many (R-KV-22) */
	bool is_used;             /* the table was, since it was made */
	uint32_t pid;
	uint32_t
		heartbeat_ms; /* how often the server wants to hear something; it says something as often */
	uint32_t patience_us; /* R-SP-20 */
	uint32_t ranks;       /* K; 0: the table has no hot keys, no switch, no map */
	uint32_t map;         /* its version */
	uint32_t first;       /* MAP: the rank of its first key */
	float scale; /* a hot value v is sent as the integer nearest to v * scale; above 0, finite */
	uint64_t incarnation; /* from 1 */
	uint64_t
		program; /* OPEN: a hash of the command line, if the job's name is a launcher's; else 0 */
	uint64_t generation;
	uint64_t epoch; /* R-KV-4 says which */
	uint64_t number;
	uint64_t barrier; /* OPENED: the last that was passed */
	uint8_t nonce[KV_NONCE_BYTES];
	uint8_t identity[KV_IDENTITY_BYTES]; /* the table's; zeros: not known yet */
	uint8_t own[KV_IDENTITY_BYTES];      /* OPENED: the server's; OPEN: of all the others' */
	uint8_t ip[16];                      /* of the switch; zeros: the server's own address */
	uint64_t row[SPARSE_WINDOW_MAX];     /* OPENED, REPORT: `window` numbers */
	char job[KV_JOB_BYTES], secret[KV_JOB_BYTES];
	char host[KV_NAME_BYTES], name[KV_NAME_BYTES]; /* name: a table's */
	char text[KV_TEXT_BYTES];                      /* OPENED: what the table is made as */
	uint32_t count;                                /* keys, */
	const uint64_t *key;                           /* ascending, each once; in a MAP by rank */
	const float *value;                            /* count * dim */
};

/* Memory that decoding needs; one per thread is enough. About 650 KiB. */
struct kv_codec {
	uint64_t key[KV_KEYS_MAX];
	float value[KV_VALUES_MAX];
	char fault[KV_FAULT_BYTES]; /* of the last failure */
};

/* Of `have` bytes that have come, how many the first frame has, its length included; 0: too few to say, or
 * the frame is not whole; SIZE_MAX: it is too long or empty, and the connection is of no use any more. */
size_t kv_frame_bytes(const uint8_t *at, size_t have);

/* kv_decode reads a whole frame. 0, or -EINVAL with codec->fault. */
int kv_decode(struct kv_codec *codec, const uint8_t *frame, size_t bytes,
	      struct kv_message *message);

/* At most so many bytes has its frame, length included. */
size_t kv_bytes(const struct kv_message *message);
/* kv_put writes the frame of a sound message at `at`, where kv_bytes has room, and says how many bytes it has. */
size_t kv_put(const struct kv_message *message, uint8_t *at);

const char *kv_type_name(enum kv_type type);
const char *kv_refusal_text(enum kv_refusal refusal);
const char *kv_mode_name(enum kv_mode mode); /* "asynchronous", ... */

/* How many keys of `dim` values a message can have: BATCH, PULL and PULLED. */
uint32_t kv_keys_max(uint16_t dim);
/* Has a table's name the characters that R-KV allows? */
bool kv_is_name(const char *name);

#endif
