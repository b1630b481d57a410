/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.h - the aggregator's side of control, for one job name: who is in, who waits, when the shards
 * are told what, and whose fault the end is. admission_step(event) -> actions; no I/O, no clock, no
 * allocation; time and chance come in the event. docs/protocol.md, R-CT-8 to R-CT-42,
 * R-CT-21 and R-CT-59.
 *
 *   NONE      nobody                      GATHER   some of `size` are here
 *   GRANTED   all are; the shards add the job, members get their GRANT and find their paths
 *   ENABLING  all READY; the shards enable   STARTED  the job runs
 *   DRAIN     it is over: until every connection is closed and every shard has removed the job
 *
 * A state is flat memory without pointers: it can be copied, compared and hashed. Padding is zero.
 */
#ifndef CORE_ADMISSION_H
#define CORE_ADMISSION_H

#include "core/job/control.h"
#include "core/shared/text.h"

enum admission_state {
	ADMISSION_NONE,
	ADMISSION_GATHER,
	ADMISSION_GRANTED,
	ADMISSION_ENABLING,
	ADMISSION_STARTED,
	ADMISSION_DRAIN,
	ADMISSION_STATE_COUNT
};

enum admission_presence {
	ADMISSION_ABSENT,
	ADMISSION_JOINED,
	ADMISSION_READY,
	ADMISSION_LEFT, /* LEAVE has come, LEFT has gone */
	ADMISSION_GONE, /* closed, or silent, before it had left */
};

/* Is a process alive? Asked only when two claim one rank. */
enum admission_pulse { ADMISSION_UNASKED, ADMISSION_ASKED, ADMISSION_ANSWERED };

struct admission_peer {              /* a connection that has said JOIN */
	uint64_t heard_ns, spoke_ns; /* anything from it; and over TCP */
	uint64_t joined_ns;
	uint64_t list_hash;
	uint64_t program, boot, process; /* as JOIN says them; 0: not known */
	uint64_t source;                 /* of JOIN's event */
	uint32_t connection;             /* 0: none */
	uint32_t pid;
	uint32_t workers;
	uint32_t timeout_ms;
	uint32_t ping; /* serial of the last PING to it */
	uint32_t latency_slots, latency_window;
	uint16_t size, rank;
	uint8_t pulse; /* enum admission_pulse */
	uint8_t mode;  /* enum control_mode */
	uint16_t local_size;
	uint8_t is_launched; /* its job's name is a launcher's */
	uint8_t reserved[7];
	uint8_t nonce[WIRE_NONCE_BYTES];
	char host[CONTROL_HOST_BYTES];
	char list[CONTROL_LIST_BYTES]; /* of aggregators, for texts */
};

struct admission_member {
	struct admission_peer peer;
	uint64_t submitted;     /* of the last OPINFO, or of LEAVE */
	uint64_t oldest;        /* of the last OPINFO */
	uint64_t still_number;  /* is_still: the operation that its STALLs are about */
	uint64_t still_ns;      /* since when nothing explains that */
	uint64_t still_said_ns; /* the last of these STALLs */
	uint32_t misfits;       /* packets that no sound member sends, as far as a shard has told */
	uint16_t lanes;         /* of READY */
	uint8_t presence;       /* enum admission_presence */
	uint8_t has_answered;   /* the QUERY of this round */
	uint8_t group;          /* DESCRIBE: 1 + index of its description; 0: not submitted */
	uint8_t about;          /* COMPARE: enum admission_about, of what the round is about */
	uint8_t is_still;
	uint8_t misfit; /* enum misfit: the last of them */
	uint8_t reserved[4];
};

enum admission_query {
	ADMISSION_QUIET,
	ADMISSION_COMPARE,  /* do all describe every number alike? */
	ADMISSION_DESCRIBE, /* number `from` differs: who calls it what? */
};

enum admission_about {
	ADMISSION_ABOUT_UNKNOWN,     /* its list was cut before that number */
	ADMISSION_ABOUT_OUTSTANDING, /* or not submitted */
	ADMISSION_ABOUT_COMPLETE,
};

struct admission_seen { /* one number of this round, as somebody described it */
	uint64_t number, hash;
};

struct admission_page { /* what a QUERY was about, and what its answers say so far */
	uint64_t from;
	uint64_t end;     /* numbers from here on are not comparable in this round */
	uint64_t differs; /* the smallest number described differently; UINT64_MAX */
	uint16_t seen_count, groups_count;
	uint8_t has_more_groups; /* more descriptions than groups_max: the last stands for the rest */
	uint8_t reserved[3];
};

struct admission_stall { /* an operation that waits */
	uint64_t number;
	uint32_t waited_ms;
	uint16_t rank; /* of a deadline: whose it is */
	uint8_t is_there;
	uint8_t reserved;
};

struct admission_note { /* who was refused, and why; its text follows the state */
	struct text_ranks ranks;
	uint64_t since_ns;
	uint16_t rank;  /* whose doing it was */
	uint8_t cause;  /* enum control_cause; OK: there is none */
	uint8_t is_all; /* those that were among them are refused again, too */
	uint8_t reserved[4];
};

struct admission {
	uint64_t life;
	uint64_t since_ns;     /* the state was entered */
	uint64_t tick_ns;      /* the last tick */
	uint64_t beat_ns;      /* HEARTBEATs went out */
	uint64_t progress_ns;  /* PROGRESS went out */
	uint64_t shards_acked; /* bit k: shard k has acknowledged the last command */
	uint64_t asked_ns;     /* the QUERY of the first page, */
	uint64_t page_ns;      /* and of this one */
	uint64_t complete; /* the most operations that a member of an earlier round has completed */
	struct admission_page page;
	struct admission_stall
		stall; /* since the last QUERY: the smallest number that has stalled, */
	struct admission_stall expired; /* and the first whose deadline is over */
	struct admission_stall about;   /* what the round is about, if a STALL has started it */
	struct admission_note refused;  /* a gathering was refused lately */
	struct admission_note unfit;    /* processes were unfit: they have another key or version */
	uint32_t generation;
	uint32_t ping; /* serial of the last PING */
	uint32_t round;
	uint32_t latency_slots, latency_window; /* of all who are in, as `mode` */
	uint16_t size;
	uint16_t waiters_count;
	uint16_t lanes;                         /* START's */
	uint16_t last_rank;                     /* of the last verdict of this name */
	uint16_t mismatch_rank, mismatch_other; /* between whom a switch saw it */
	uint16_t complete_rank;                 /* whose word `complete` was */
	uint8_t last_cause;                     /* enum control_cause; OK: none, or it ended well */
	uint8_t state;                          /* enum admission_state */
	uint8_t query;                          /* enum admission_query */
	uint8_t mismatch;         /* a switch saw one: 1 since the last QUERY, 2 before it */
	uint8_t is_about_expired; /* the round was started by a deadline */
	uint8_t is_terminating;
	uint8_t mode; /* enum control_mode */
	uint8_t reserved[7];
	/* followed by members[members_max], waiters[waiters_max], groups[groups_max], seen[ops_max], the
	 * text of the last refusal[text_max], that of the last who was unfit[text_max] and unfit_sources
	 * [members_max] */
};

struct admission_config {
	const char *job;      /* for texts */
	const char *key;      /* CONTROL_KEY_BYTES that every JOIN must say; NULL: any will do */
	uint64_t life;        /* that this job belongs to, as its JOINs say; 0: to none */
	uint16_t members_max; /* 1..CONTROL_MEMBERS_MAX: larger jobs are denied */
	uint16_t waiters_max; /* further ones are denied */
	uint16_t ops_max;    /* numbers compared in one round: CONTROL_OPS_MAX, fewer in a search */
	uint16_t groups_max; /* different descriptions told apart: 4 */
	uint16_t
		text_max; /* of a refusal that is remembered: CONTROL_TEXT_BYTES, fewer in a search;
	                      * a multiple of 8 */
	uint16_t shards;  /* 1..MAP_SHARDS_MAX: who acknowledges commands */
	uint16_t lanes_max;    /* START's are never more */
	uint64_t heartbeat_ns; /* silence of so long is death */
	uint64_t gather_ns;    /* for all to come, and to be ready; a JOIN may ask for less */
};

/* Plenty for any daemon; job and shards are the caller's to set. */
#define ADMISSION_CONFIG_DEFAULT                                                             \
	{                                                                                    \
		.members_max = CONTROL_MEMBERS_MAX, .waiters_max = CONTROL_MEMBERS_MAX,      \
		.ops_max = CONTROL_OPS_MAX, .groups_max = 4, .text_max = CONTROL_TEXT_BYTES, \
		.shards = 1, .lanes_max = WIRE_LANES_MAX, .heartbeat_ns = 10000000000,       \
		.gather_ns = 300000000000                                                    \
	}

enum admission_event_type {
	ADMISSION_MESSAGE, /* `message` came on `connection`; a new handle's first must be a JOIN */
	ADMISSION_CLOSED, /* `connection` is no more: end of file, error, or our last words are over */
	ADMISSION_HEARD,    /* a shard has heard a HELLO of member `rank` */
	ADMISSION_SHARD,    /* a shard has acknowledged a command */
	ADMISSION_MISMATCH, /* a switch saw a child's round differ from its siblings' */
	ADMISSION_ALARM,    /* a switch saw what a sound worker never sends; child `rank` */
	ADMISSION_MISFIT, /* so many (`count`) packets of child `rank`, the last of them a `misfit` */
	ADMISSION_BROKEN, /* the data path no longer works, to child `rank` or all, or the job cannot go on for
	                     another `cause`; `text` says how */
	ADMISSION_TICK, /* at least every second, and when `wake_ns` or `again` says so; after everything
	                   that has arrived was read */
	ADMISSION_TERMINATE, /* SIGTERM: no new jobs, running ones may end */
	ADMISSION_KILL,      /* SIGTERM's limit is over: the running job too */
	ADMISSION_ORPHAN, /* config.life has ended badly, `text` says how: who still gathers is told */
	ADMISSION_DESERTED, /* who would be `rank` here has left config.life's job, where it was rank `other` of host
	                       `text`: admission_is_deserted */
	ADMISSION_YIELD, /* admission_together: who gathers here gathers elsewhere from now on, */
	ADMISSION_ADOPT, /* ... and here: `peer`, which another gathering has yielded */
};

enum admission_command { ADMISSION_JOB_ADD, ADMISSION_JOB_SET, ADMISSION_JOB_REMOVE };

struct admission_event {
	enum admission_event_type type;
	uint64_t
		now_ns; /* any monotonic clock; a search leaves it 0 and says SILENT and LATE itself */
	uint64_t random; /* fresh random bits: the life of a job granted in this step */
	uint32_t
		generation; /* what a job added in this step gets; never 0, and never again once used */
	uint32_t connection;                   /* never 0 */
	const struct control_message *message; /* MESSAGE; lent */
	const uint8_t *nonce; /* MESSAGE JOIN: WIRE_NONCE_BYTES fresh random bytes */
	uint64_t source;      /* MESSAGE JOIN: names the address that it comes from; 0: not known */
	uint16_t rank;        /* MISMATCH, ALARM: the child; CONTROL_RANK_NONE if not known */
	uint16_t other; /* MISMATCH: of those whom it differs from the last; likewise; DESERTED */
	uint8_t misfit; /* MISFIT: enum misfit */
	uint32_t count; /* MISFIT */
	uint16_t shard; /* SHARD */
	enum admission_command command; /* SHARD: which one it acknowledges */
	uint32_t job_generation;        /* SHARD: of the job it was for */
	const char *
		text; /* SHARD that has_failed: why, and who has the room, or NULL; ORPHAN, BROKEN: how; DESERTED;
	                 lent */
	bool is_path; /* SHARD that has_failed: not for want of room, but for the path of `rank`; `text` tells */
	const struct admission_peer *peer; /* ADOPT; lent */
	enum control_cause cause;          /* BROKEN: OK is SYSTEM */
	bool has_failed; /* SHARD, JOB_ADD or JOB_SET: no room. JOB_REMOVE never fails: of a job that
	                    the shard does not have it is acknowledged too */
};

enum admission_action_type {
	ADMISSION_SEND, /* `message` to `connection`: admission_message makes it */
	ADMISSION_CLOSE, /* last words: shutdown(SHUT_WR), read to end of file, at most 5 s, close; then
	                      CLOSED. Nothing else is sent there, what is read there is thrown away */
	ADMISSION_COMMAND, /* `command` to every shard, in order; each acknowledges with SHARD */
};

struct admission_action {
	uint8_t type;    /* enum admission_action_type */
	uint8_t message; /* SEND: enum control_type */
	uint8_t command; /* COMMAND: enum admission_command */
	uint8_t reserved;
	uint16_t rank;       /* SEND of GRANT: the child index */
	uint16_t lanes;      /* SEND of START, COMMAND of JOB_SET */
	uint32_t connection; /* SEND, CLOSE */
	uint32_t generation; /* COMMAND */
	uint32_t number;     /* SEND of PING, PONG: serial; of QUERY: round */
	uint64_t from;       /* SEND of QUERY */
};

enum admission_log {
	ADMISSION_LOG_NONE,
	ADMISSION_LOG_WARN,
	ADMISSION_LOG_INFO,
	ADMISSION_LOG_DEBUG,
	ADMISSION_LOG_LIMITED /* a WARN that one peer can cause as often as it likes: so many a second */
};

/*
 * JOB_ADD: reserve slots for admission_size members, with admission_nonce of each child (children are
 * ranks); the job is disabled. If there is no room at all, acknowledge has_failed for every shard.
 * JOB_SET: enable it with `lanes`. JOB_REMOVE: forget it. One COMMAND is acknowledged by all shards before
 * the next comes, but JOB_REMOVE, which may overtake acknowledgements of older ones.
 */
struct admission_actions {
	struct admission_action *list; /* lent by the caller: room for admission_actions_max */
	uint32_t count;
	uint32_t list_max;
	struct control_member *members; /* of START; lent by the caller: room for members_max */
	bool again;                     /* there is more to do: step with a TICK at once */
	uint64_t wake_ns;               /* a TICK is wanted then; UINT64_MAX: never */
	uint16_t cause; /* of the DENY or ABORT in this list; at most one cause in a step */
	uint16_t cause_rank;
	bool is_ending;                 /* of that DENY: this aggregator is, whoever comes */
	char text[CONTROL_TEXT_BYTES];  /* of that DENY or ABORT, or of the PROGRESS */
	struct control_waiting waiting; /* of the WAITING */
	enum admission_log log_level;
	uint16_t log_rank; /* whom the line is about; CONTROL_RANK_NONE: no rank in particular */
	char log[CONTROL_TEXT_BYTES]; /* a line to log; the caller adds the job */
};

/* Bytes of a state of this config, and how many actions a step of it makes at most. */
size_t admission_bytes(const struct admission_config *config);
uint32_t admission_actions_max(const struct admission_config *config);

/* admission_init takes admission_bytes of memory, aligned to 8. The config stays the caller's; every step
 * must be given the same. */
void admission_init(struct admission *admission, const struct admission_config *config);

/* The caller does what actions->list says, in its order. Events of connections and shards that the
 * machine does not know (any more) are ignored. */
void admission_step(struct admission *admission, const struct admission_config *config,
		    const struct admission_event *event, struct admission_actions *actions);

/* Makes the message of a SEND of the last step. A GRANT lacks what only the caller knows: version, life,
 * size, workers, heartbeat and nonce are there, shards[] and shards_count are not. */
void admission_message(const struct admission *admission, const struct admission_config *config,
		       const struct admission_actions *actions,
		       const struct admission_action *action, struct control_message *message);

/* For the caller's JOB_ADD, logs and statistics; rank < size. */
struct admission_member *admission_member(struct admission *admission, uint32_t rank);
const uint8_t *admission_nonce(const struct admission *admission, uint32_t rank);

/* A life: granted, and not at its end. */
bool admission_is_running(const struct admission *admission);
/* A rank as texts say it: what a pair's is in the job that the pair is of (R-CT-58). */
uint32_t admission_named_in(const struct admission *admission,
			    const struct admission_config *config, uint32_t rank);

/* What gatherings of one name are, each of another program: R-CT-24. */
enum admission_together {
	ADMISSION_PARTS, /* nobody can say: ranks are missing, or waited for */
	ADMISSION_SEVERAL, /* a rank is there twice: several jobs, and that also when one of the two has gone */
	ADMISSION_EITHER, /* together complete: one job, or several of which each has ranks to come */
	ADMISSION_ONE, /* ... and none of them can: all but list[*into] YIELD, and their peers are ADOPTed there */
};

/* *last_ns, of EITHER: when the last of them came. */
enum admission_together admission_together(struct admission *const *list, uint32_t count,
					   uint32_t *into, uint64_t *last_ns);

/* Does a pair gather (R-CT-58: config->job, config->life) for a rank that has left `first`, the job that it is of? Then
 * *event is the pair's DESERTED. Its text is first's, until that steps. */
bool admission_is_deserted(const struct admission *pair, const struct admission_config *config,
			   const struct admission *first, struct admission_event *event);

/* Somebody of this program is in. */
bool admission_has_program(const struct admission *admission, uint64_t program);

/* Nobody is in or waits: the memory can be given back. */
bool admission_is_idle(const struct admission *admission);

#endif
