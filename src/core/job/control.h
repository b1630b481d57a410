/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - what members and an aggregator tell one another over TCP, as C structs; how they look on the
 * wire is src/control/codec.h's business. docs/protocol.md, R-CT-1 to R-CT-7.
 *
 *     member                      aggregator
 *     JOIN                   ->
 *                           <-   GRANT when all of `size` are there | DENY | PROGRESS
 *     (HELLO, WELCOME: UDP, until every shard has answered)
 *     READY                  ->
 *                           <-   START when all are ready and all shards enabled
 *     HEARTBEAT             <->  HEARTBEAT    from JOIN on, so that silence means something
 *     PONG                  <->  PING         is this very process alive?
 *     STALL                  ->               an operation has had no result for a while
 *                           <-   QUERY
 *     OPINFO                 ->               what I have submitted and not completed
 *                           <-   WAITING      no verdict: whom the operation waits for
 *     ABORT                 <->  ABORT        the end, with its cause; then last words
 *     LEAVE                  ->
 *                           <-   LEFT         at once
 *
 *     parameter server       aggregator         a table of sparse mode: R-CT-28 to R-CT-31
 *     TABLE_OPEN             ->
 *                           <-   TABLE_GRANT | DENY
 *     TABLE_BEAT            <->  TABLE_BEAT     is the shard alive, and what does it know of the table?
 *     TABLE_CLOSE           <->  TABLE_CLOSE    or ABORT
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/shared/map.h"
#include "core/shared/wire.h"

enum {
	CONTROL_PORT = 7171, /* TCP; shard k's UDP port is by default this + k */
	CONTROL_VERSION = 3, /* of the protocol; what this build speaks */
	CONTROL_MEMBERS_MAX = 256,
	CONTROL_JOB_BYTES = 256, /* these count the NUL */
	CONTROL_HOST_BYTES = 64,
	CONTROL_KEY_BYTES = 128,
	CONTROL_LIST_BYTES = 200,
	CONTROL_TEXT_BYTES = 512,
	CONTROL_OP_NAME_BYTES = 64,
	CONTROL_OPS_MAX = 512,    /* operations in one OPINFO */
	CONTROL_MISSING_MAX = 32, /* ranks that one WAITING lists */
	CONTROL_LATENCY_SLOTS_MAX = 65536,
	CONTROL_NONCES_MAX =
		CONTROL_MEMBERS_MAX + 1, /* of a table: its workers' and its server's */
	CONTROL_RANKS_MAX = 1 << 30,     /* of a table */
	CONTROL_HEARTBEAT_MS_MIN = 100,
	CONTROL_HEARTBEAT_MS_MAX = 3600000,
	CONTROL_RANK_NONE = 65535, /* in ABORT: no rank in particular */
};

/* Why a life ended. libtally turns them into its results; codec into words. */
enum control_cause {
	CONTROL_OK,
	CONTROL_REMOTE,      /* a peer or the aggregator died, left too early, aborted */
	CONTROL_MISMATCH,    /* the ranks called different operations */
	CONTROL_ABORTED,     /* this rank's own user asked for it */
	CONTROL_TIMEOUT,     /* not all there in time; a deadline */
	CONTROL_INTERNAL,    /* a bug in tally, somewhere */
	CONTROL_DENIED,      /* the aggregator refuses this rank */
	CONTROL_VERSION_BAD, /* no protocol version in common */
	CONTROL_NO_RESOURCE, /* the aggregator has no room */
	CONTROL_NO_MEMORY,
	CONTROL_SYSTEM, /* the kernel refused something; the aggregator cannot be reached */
	CONTROL_CAUSE_END
};

enum control_type {
	CONTROL_NOTHING,
	CONTROL_JOIN,
	CONTROL_GRANT,
	CONTROL_DENY,
	CONTROL_READY,
	CONTROL_START,
	CONTROL_HEARTBEAT,
	CONTROL_PING,
	CONTROL_PONG,
	CONTROL_PROGRESS,
	CONTROL_STALL,
	CONTROL_WAITING,
	CONTROL_QUERY,
	CONTROL_OPINFO,
	CONTROL_ABORT,
	CONTROL_LEAVE,
	CONTROL_LEFT,
	CONTROL_TABLE_OPEN,
	CONTROL_TABLE_GRANT,
	CONTROL_TABLE_BEAT,
	CONTROL_TABLE_CLOSE,
	CONTROL_TYPE_END
};

enum control_kind { CONTROL_WORKER, CONTROL_SWITCH };

enum control_mode { CONTROL_DENSE, CONTROL_LATENCY };

struct control_join {
	uint16_t version_min, version_max; /* of this protocol: what the member speaks */
	uint16_t size;                     /* 1..CONTROL_MEMBERS_MAX */
	uint16_t rank;                     /* below size */
	uint8_t kind;                      /* enum control_kind */
	uint8_t mode;                      /* enum control_mode */
	uint32_t latency_slots;            /* LATENCY: 1..CONTROL_LATENCY_SLOTS_MAX; else 0 */
	uint32_t latency_window;           /* LATENCY: 1..latency_slots; else 0 */
	uint32_t workers;                  /* below and with this member: a worker says 1 */
	uint32_t pid;
	uint32_t mtu;        /* of the path, as far as known; 0: unknown */
	uint32_t timeout_ms; /* for all to come; 0: the aggregator's default */
	uint64_t
		list_hash; /* of the list of aggregators that the member was given, each with its port */
	uint64_t life; /* of the primary's grant, or of the parent communicator; 0: none.
	                      * Jobs of one name and different lives have nothing to do with one another */
	uint64_t
		program; /* digest of the command line, under a name that a launcher has given; 0: the name alone counts */
	uint64_t boot;    /* of the host's boot id; 0: not known */
	uint64_t process; /* this process and no other that ever was, on any host; 0: not known */
	uint16_t local_size;         /* ranks on this host, as the launcher says; 0: it does not */
	uint8_t is_launched;         /* the name is a launcher's, not the user's */
	char job[CONTROL_JOB_BYTES]; /* 1.. bytes */
	char host[CONTROL_HOST_BYTES];
	char key[CONTROL_KEY_BYTES]; /* "": none */
	char list
		[CONTROL_LIST_BYTES]; /* of aggregators, as much as fits, for texts; "": not said */
};

/* One shard, as one member sees it. */
struct control_shard {
	uint8_t ip
		[16]; /* as struct link_address; all zero: the host that this connection goes to */
	uint16_t port;
	uint16_t job;   /* index into the shard's job table */
	uint16_t child; /* the member's index there */
	uint32_t slots;
	uint32_t window; /* the first; a worker changes it as it likes */
	uint32_t generation;
	uint16_t lanes; /* the most that this shard takes, a multiple of 4 */
	uint8_t run;
	uint8_t lane_ops; /* bit 1 << enum wire_op; ADD is always there */
	uint8_t is_big_endian;
	uint8_t trailer; /* bytes after the lanes */
};

struct control_grant {
	uint64_t life;         /* 64 random bits: names this life of the job */
	uint32_t workers;      /* N of the number formats */
	uint32_t heartbeat_ms; /* silence of so long is death, on both sides */
	uint16_t version;      /* that all of this life speak */
	uint16_t size;
	uint16_t shards_count;           /* 1..MAP_SHARDS_MAX */
	uint8_t nonce[WIRE_NONCE_BYTES]; /* this member's HELLOs carry it */
	struct control_shard shards[MAP_SHARDS_MAX];
};

/* DENY and ABORT. */
struct control_end {
	uint16_t cause; /* enum control_cause, as the receiver should report it */
	uint16_t rank;  /* whose doing it was; CONTROL_RANK_NONE */
	uint8_t is_ending; /* DENY: the aggregator is, whoever comes; in local mode another one follows */
	char text[CONTROL_TEXT_BYTES];
};

/* An operation as its caller described it: what tags are made of, and the stream. */
struct control_op {
	uint64_t number;
	uint64_t count;
	uint32_t kind; /* enum control_op_kind */
	uint32_t type; /* include/tally.h's numbers */
	uint32_t op;
	uint32_t root;
	uint32_t stream;                  /* enum map_stream */
	uint32_t reserved;                /* 0 */
	char name[CONTROL_OP_NAME_BYTES]; /* zeros after the NUL */
};

/* map_descriptor.kind: what kind of operation it is, the same for all who hash or print one. */
enum control_op_kind {
	CONTROL_OP_ALLREDUCE,
	CONTROL_OP_BARRIER,
	CONTROL_OP_REDUCE,
	CONTROL_OP_BROADCAST,
	CONTROL_OP_ALLGATHER,
	CONTROL_OP_REDUCE_SCATTER,
	CONTROL_OP_GATHER,
	CONTROL_OP_SCATTER,
	CONTROL_OP_ALLTOALL,
	CONTROL_OP_SEND, /* of the two of a pair: what one sends, and the other receives */
	CONTROL_OP_KIND_END
};
enum { CONTROL_OP_SIZES = 1u << 31 }; /* in root: a hash of the sizes of all parts (R-MAP-6) */

/*
 * Numbers below `oldest` are complete at this member, numbers from `submitted` on are not submitted there.
 * What is between is complete, or listed in `ops`, numbers ascending, all >= QUERY's `from`; or, with
 * has_more, outstanding and beyond the last one listed.
 */
struct control_opinfo {
	uint32_t round;
	uint16_t ops_count; /* at most CONTROL_OPS_MAX */
	uint8_t has_more;
	uint64_t submitted;
	uint64_t oldest;  /* the oldest outstanding number; `submitted` if there is none */
	uint64_t process; /* R-CT-45: its own random number; 0: not said */
	uint64_t
		entries; /* R-CT-45: of the process; who has said the same twice has done nothing between */
	uint32_t threads; /* of the process, that could call something; 0: not said */
	uint32_t
		blocked; /* of them, those that wait in this communicator for as long as it takes */
	uint64_t waits;  /* for what: the least number that one of these waits for */
	uint8_t is_warn; /* R-CT-47: who waits for one another is to be told, and not ended */
	const struct control_op *ops; /* lent */
};

/* Who takes part; START carries all of a life. */
struct control_member {
	uint32_t pid;
	uint16_t rank;
	char host[CONTROL_HOST_BYTES]; /* zeros after the NUL */
};

struct control_start {
	uint16_t lanes;                       /* the least of all READYs */
	uint16_t members_count;               /* at most CONTROL_MEMBERS_MAX */
	const struct control_member *members; /* lent; ranks ascend */
};

/* A round has ended without a verdict: nobody is wrong, somebody is late. */
struct control_waiting {
	uint64_t number;        /* the operation that the round was about */
	uint32_t waited_ms;     /* the longest that a member has said in STALL */
	uint16_t missing_count; /* ranks that have not called it; 0: it is under way on all */
	uint16_t listed_count;  /* of them in `missing`: at most CONTROL_MISSING_MAX */
	uint16_t missing[CONTROL_MISSING_MAX]; /* ascending */
	char text[CONTROL_TEXT_BYTES];         /* the same in words, with hosts */
};

/* A table of sparse mode, as its parameter server wants it summed: struct sparse_table, and when epochs end. */
struct control_table_open {
	uint16_t version_min, version_max;
	uint16_t workers; /* 1..CONTROL_MEMBERS_MAX */
	uint16_t window;  /* 1..SPARSE_WINDOW_MAX */
	uint16_t dim;     /* 1..SPARSE_DIM_MAX */
	uint16_t bytes;   /* of a datagram, SPARSE_BYTES_MAX at most; a row and a sum have to fit */
	uint8_t is_stepped;
	uint32_t ranks; /* 1..CONTROL_RANKS_MAX */
	uint32_t pid;
	uint8_t values;                /* enum sparse_values */
	uint64_t pairs_max;            /* an epoch ends when it has so many; 0: R-SP-9's own */
	uint64_t age_us;               /* or so long after its first push; 0: no limit */
	char job[CONTROL_JOB_BYTES];   /* 1.. bytes */
	char table[CONTROL_JOB_BYTES]; /* 1.. bytes */
	char host[CONTROL_HOST_BYTES];
	char key[CONTROL_KEY_BYTES]; /* "": none */
};

struct control_table_grant {
	uint8_t ip[16]; /* as struct control_shard has it */
	uint16_t port;  /* UDP */
	uint16_t version;
	uint16_t index;                            /* under which packets name the table */
	uint16_t nonces_count;                     /* workers + 1 */
	uint32_t heartbeat_ms;                     /* silence of so long is the server's death */
	uint64_t instance;                         /* R-SP-6; not 0 */
	uint64_t memory;                           /* bytes that the table takes */
	uint16_t registers;                        /* R-CT-32; 0: it counts as no chip */
	const uint8_t (*nonces)[WIRE_NONCE_BYTES]; /* lent: the workers', then the server's */
};

/* The server's has a serial, its generation if there is one, and zeros. */
struct control_table_beat {
	uint32_t serial; /* the answer's is its question's */
	uint16_t index;
	uint64_t instance;
	uint64_t generation;              /* the answer's, 0: no SETUP was taken */
	uint64_t memory_used, memory_max; /* of the shard, bytes */
	uint64_t parts;                   /* of the table's flushes, as often as they were sent */
};

struct control_message {
	enum control_type type;
	union {
		struct control_join join;
		struct control_grant grant;
		struct control_end end; /* DENY, ABORT */
		struct {
			uint16_t lanes; /* READY: the most that the member's paths carry */
		} lanes;
		struct control_start start;
		struct {
			uint32_t serial; /* PONG echoes PING's */
		} ping;
		struct {
			char text[CONTROL_TEXT_BYTES];
		} progress; /* whom the gathering waits for */
		struct control_stall {
			uint64_t number; /* of the oldest operation, or of the one that is over */
			uint32_t waited_ms; /* since it was submitted; saturates */
			uint32_t still_ms;  /* ... and without a result of anything; likewise */
			uint8_t is_expired; /* its deadline is over, not only its patience */
		} stall;
		struct control_waiting waiting;
		struct {
			uint32_t round;
			uint64_t from; /* list no number below */
		} query;
		struct control_opinfo opinfo;
		struct {
			uint64_t submitted; /* operations in all; every one of them is complete */
		} leave;
		struct control_table_open table_open;
		struct control_table_grant table_grant;
		struct control_table_beat table_beat;
	};
};

#endif
