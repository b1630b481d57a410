/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of this room share: the server, its jobs and its peers. All of it belongs
 * to the control thread.
 *
 * In layers, the lowest first: a file calls only those that come before it. What they have to tell it they return, or
 * leave in struct server for the loop to find.
 *
 *   clock.c     time and chance
 *   log.c       lines
 *   peer.c      connections: found, written, given up
 *   share.c     how much of all one address may have
 *   holders.c   who holds jobs, tables and slots, in words
 *   totals.c    what a job has come to
 *   crossed.c   whom a job's processes wait for, in words
 *   table.c     tables of sparse mode: one connection of a parameter server each
 *   job.c       jobs: one core/admission each; its actions carried out
 *   unite.c     gatherings of one name that are one job
 *   cycle.c     jobs whose processes wait for one another
 *   events.c    what shards tell of jobs
 *   reload.c    settings that change while it runs
 *   join.c      connections: whose they are
 *   read.c      ... what they say, and their end
 *   stranger.c  ... those that nobody has let in give way
 *   accept.c    ... who comes in
 *   server.c    open, run, close: the loop, signals, shards
 */
#ifndef SERVER_INTERNAL_H
#define SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "control/conn.h"
#include "core/job/admission.h"
#include "core/job/crossed.h"
#include "core/shared/generation.h"
#include "core/shared/text.h"
#include "server/plan.h"
#include "server/server.h"
#include "server/shard.h"
#include "util/clock.h"

enum {
	PEERS_MAX = 8192,     /* connections; a handle is serial * PEERS_MAX + index */
	STRANGERS_MAX = 1024, /* of these, so many that no job has taken: the oldest has to go */
	STRANGER_MS = 10000,  /* for a JOIN to come */
	STRANGER_LEAST_MS = 1000, /* ... even if others want its descriptor, */
	STRANGERS_FEW = 4, /* ... but for those whose address has more of them than so many */
	STRANGERS_LOOKED = 16,
	JOIN_BYTES_MAX = 8192, /* of JSON; a JOIN of this version has 2 KiB at most, 5 if escaped */
	ACCEPTS = 64,          /* before others have their turn: far fewer than STRANGERS_MAX */
	SERVER_EVENTS = 128,   /* of one epoll_wait */
	SWEEP_MS = 250,        /* how often strangers and last words are looked at */
	PEER_MESSAGES = 64,    /* of one peer before the next has its turn */
	PEER_US = 200,         /* ... or so long */
	IDLE_JOB_MS = 600000,  /* a name's last verdict is remembered for so long */
	TICK_MS = 1000,
	PROGRAMS_MAX = 4,                /* of one name that gather apart */
	UNITE_MAX = CONTROL_MEMBERS_MAX, /* programs of one job: a rank has one */
	STOP_MS = 500,                   /* server_stop: for the ABORTs to leave */
	STRANGER_LINES = 10,             /* per second, in the log */
	LINE_BYTES = 1024,
	PEER_TEXT_BYTES = 64,
	NAME_BYTES = 108, /* of a unix socket */
	NO_JOB = -1,
	NO_TABLE = -1,
};

/* What epoll hands back besides the handles of peers, which are larger. */
enum { READY_LISTEN = 1, READY_SHARDS, READY_CALLS };

#define MS_NS (1000000ull)

struct peer {
	struct conn *conn; /* NULL: a free entry */
	atomic_int held;   /* conn's descriptor and 1, for a forked child; 0: none */
	uint64_t since_ns;
	uint64_t source; /* its host, or of IPv6 its network of 64 bits; 0: a local process */
	uint32_t handle;
	uint32_t serial; /* of the entry: grows with every connection */
	uint32_t mtu;    /* JOIN's */
	uint32_t events; /* that epoll was told */
	int job;         /* index, or NO_JOB: it has not joined, or its job is forgotten */
	int table; /* index, or NO_TABLE: this is no parameter server's, or its table is over */
	bool is_stranger; /* no job has taken it: it has said no JOIN, or was denied */
	bool has_joined;
	bool is_closing;            /* last words */
	bool is_broken;             /* a send failed: to be ended when nothing is half done */
	bool has_more;              /* stopped after PEER_MESSAGES, or PEER_US */
	struct peer *older, *newer; /* stranger; of a free entry: newer is the next one */
	bool has_spare;             /* on the last descriptor: to be told so */
	char text[PEER_TEXT_BYTES]; /* address, or "a local process" */
};

struct job {
	char name[CONTROL_JOB_BYTES];
	uint64_t life;       /* that it belongs to, JOIN's; 0: to none */
	uint64_t program;    /* without a life: JOIN's; 0: the name alone counts */
	uint64_t source;     /* whose share it is of: share_charge */
	uint64_t bytes;      /* of memory on each of its shards; 0: it has none there */
	uint64_t ended_life; /* of its own lives the last that ended badly; 0: none */
	bool has_ended;      /* just now: those that belong to it are to be told */
	char ended_text[CONTROL_TEXT_BYTES];
	uint16_t index;  /* in the shards' job tables, too */
	bool is_refused; /* JOB_ADD was refused here: all shards are to be acknowledged as failed */
	bool is_path_refused; /* ... for the path of refused_rank */
	uint16_t refused_rank;
	uint32_t generation; /* of the last JOB_ADD */
	uint64_t wake_ns;
	uint64_t ticked_ns; /* the last TICK */
	uint64_t idle_ns;   /* since when nobody is in; 0: somebody is */
	uint64_t apart_ns;  /* since when it is one of several of its name: a rank came twice; 0 */
	uint64_t told_ns;   /* since when what its members last heard is so: unite.c; 0: nothing */
	bool is_told_refused; /* its members know that one more program of the name was */
	struct plan plan;     /* of the last JOB_ADD */
	char refusal[CONTROL_TEXT_BYTES]; /* why is_refused */
	struct admission_config config;
	struct admission_actions actions;
	struct admission *admission;
	struct crossed_view *crossed; /* of a life; NULL: there is none, or no memory for it */
	struct {
		uint64_t since_ns;
		uint16_t shards; /* that have not told yet; 0: there is nothing to tell */
		struct engine_job_stats sum;
	} totals; /* of the slots of the last JOB_ADD */
};

/* A table of sparse mode, from TABLE_OPEN until the shard has removed it. */
struct table {
	uint16_t index; /* in its shard's, too */
	uint16_t shard;
	uint32_t connection; /* the peer's handle; 0: it has no use for the table any more */
	bool is_granted, is_leaving;
	bool is_beating, has_beat;   /* a beat is with the shard; another one has come meanwhile */
	uint32_t beat, beat_next;    /* their serials */
	uint64_t generation;         /* that its server has named; 0: none yet */
	uint64_t instance, heard_ns; /* when something of its server was read */
	uint64_t bytes;              /* of memory */
	uint64_t source;             /* of its server */
	struct control_table_open open;                       /* without the key */
	uint8_t nonces[CONTROL_NONCES_MAX][WIRE_NONCE_BYTES]; /* until they are granted */
};

/* Of the log, of one kind: how many in that second. */
struct lines {
	uint64_t second;
	uint32_t count;
};

struct server {
	struct server_options options; /* with all defaults filled in */
	struct shard *shards[SERVER_SHARDS_MAX];
	struct shard_report
		shard_reports[SERVER_SHARDS_MAX]; /* SIGUSR1: the shards fill them in, */
	bool is_reporting[SERVER_SHARDS_MAX];     /* these still */
	struct job **jobs;                        /* options.jobs_max of them; NULL: free */
	struct table *tables[SHARD_TABLES_MAX];   /* by index; NULL: free */
	uint32_t tables_count;
	uint64_t instance;  /* tables that there were: instance_new */
	uint64_t tables_ns; /* when their servers' silence was looked at */
	struct peer *peers; /* PEERS_MAX */
	struct peer *peers_free, *stranger_oldest, *stranger_newest;
	uint32_t peers_count, closing_count;
	uint32_t strangers_count, silent_count; /* these have not said JOIN */
	struct generation generations;          /* where the next come from */
	uint32_t generation;                    /* the next */
	int listen_fd, epoll_fd;
	int shards_fd; /* eventfd: a shard has events */
	int spare_fd;  /* given up for one more peer, which is told that there are no more; -1 */
	int calls_fd;  /* eventfd: server_drain, server_stop, server_close */
	atomic_uint drain_calls, stop_calls, report_calls, reload_calls;
	unsigned reports, reloads;
	bool is_draining, is_killed, is_stopping, has_aborted;
	bool is_open, is_local;
	bool is_listening; /* connections are accepted */
	bool is_shut;      /* ... and never will be again */
	bool is_some_broken, has_some_more;
	uint32_t more_next; /* peer to begin with */
	struct epoll_event events[SERVER_EVENTS];
	uint32_t events_next, events_count; /* these are still to be looked at */
	uint64_t turn_end_ns;               /* of reading, before all else has its turn */
	uint64_t limit_ns;                  /* of drain or stop; UINT64_MAX */
	uint64_t listen_ns;                 /* when to accept again after an error */
	uint64_t sweep_ns;
	uint64_t unite_ns; /* when to look whether gatherings are one; UINT64_MAX */
	struct {
		struct crossed_view **views; /* options.jobs_max of them, for a look */
		bool has_news;               /* a round has ended since the last look */
		uint64_t look_ns;            /* when to look again */
		uint64_t told;               /* the cycle of which was warned last */
		bool is_limit_said;          /* a look has given up, and none has been able since */
		uint64_t gave_up_ns;         /* the last one that has */
		struct crossed_cycle cycle;
		struct crossed_look look;
	} crossed;
	struct lines stranger_lines, refused_lines;
	uint16_t port;
	char local_name[NAME_BYTES]; /* "": TCP */
	struct codec codec;
	char key[CONTROL_KEY_BYTES]; /* options.key, zeros behind it */
	/* server_start's thread, and who waits for its end */
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	bool is_started, has_ended;
	int result;
};

/* clock.c */
bool server_turn_is_over(const struct server *server);
void server_random(void *bytes, size_t count);

/* log.c */
/* About a job, and a rank of it or SERVER_RANK_NONE, which the line says as well; or about none. */
void server_say_job(struct server *server, enum server_level level, const char *job, uint32_t rank,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));
#define server_say(server, level, ...) \
	server_say_job(server, level, NULL, SERVER_RANK_NONE, __VA_ARGS__)
/* For what strangers can cause as often as they like. */
void server_say_stranger_job(struct server *server, const char *job, uint32_t rank,
			     const char *format, ...) __attribute__((format(printf, 4, 5)));
#define server_say_stranger(server, ...) \
	server_say_stranger_job(server, NULL, SERVER_RANK_NONE, __VA_ARGS__)
void server_say_stats(struct server *server, uint32_t shard, const struct engine_stats *stats);
void server_say_hook(struct server *server, uint32_t shard, const struct hook_news *news);
/* How the shards have fared so far: asked for, and said when a shard has answered. */
void server_ask_reports(struct server *server);
void server_say_report(struct server *server, uint32_t shard);
/* What a shard has dropped because of who sent it: R-CT-35. */
void server_say_refused(struct server *server, uint32_t shard, const struct engine_event *notice);
/* Of tables; nothing if no packet was theirs. */
void server_say_table_stats(struct server *server, uint32_t shard,
			    const struct engine_sparse_stats *stats);

/* peer.c */
/* NULL if that connection is no more. */
struct peer *peer_of(struct server *server, uint32_t handle);
/* epoll is told what the connection waits for. */
void peer_arm(struct server *server, struct peer *peer);
/* It has said its first message, or need not any more. */
void peer_not_silent(struct server *server, struct peer *peer);
void stranger_put(struct server *server, struct peer *peer);
/* It is one no more. */
void stranger_take(struct server *server, struct peer *peer);
/* -1: not now. */
int peers_spare(void);
/* Its job does not hear of it. */
void peer_free(struct server *server, struct peer *peer);
void peer_send(struct server *server, struct peer *peer, const struct control_message *message);
void peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns);
/* DENY and last words, for those that reach no admission. */
void peer_deny(struct server *server, struct peer *peer, enum control_cause cause, const char *text,
	       uint64_t now_ns);
/* DENY, ending: the aggregator is. */
void peer_deny_ending(struct server *server, struct peer *peer, uint64_t now_ns);
/* To all that have joined. */
void peers_last_words(struct server *server, uint64_t now_ns);
void peers_close_all(struct server *server);

/* share.c: may this address have one more, or so many bytes? False: *text says why not. */
bool share_of_jobs(const struct server *server, uint64_t source, struct text *text);
/* is_replacing: it has one of that name, which is to go. */
bool share_of_tables(const struct server *server, uint64_t source, bool is_replacing,
		     struct text *text);
bool share_of_memory(const struct server *server, uint64_t source, uint32_t shard, uint64_t bytes,
		     struct text *text);
bool share_of_connections(const struct server *server, const struct peer *peer, struct text *text);
/* While it gathers: who has opened a job may have left it, or have left its name to others. */
void share_charge(struct server *server, struct job *job);
/* options.memory_total, if nobody has said one. */
void share_memory_fill(struct server *server);

/* holders.c */
/* The jobs that somebody is in, but for `but`: names, states, ranks, hosts, slots; and tables, but for but_table.
 * "nobody". Without a key whoever asks may be anybody: of others than `source` it hears how many there are. */
void holders_add(const struct server *server, uint64_t source, const struct job *but,
		 const struct table *but_table, struct text *text);
/* Its tables, in the same way. */
void holders_add_tables(const struct server *server, uint64_t source, const char *job,
			struct text *text);
/* "table \"emb\" of job \"ctr\" (server on ps-0, 4 workers, 4096 KiB)" */
void table_add(struct text *text, const struct table *table);
/* The same as lines of log, and the sums; then what the shards have counted. */
void holders_say(struct server *server);

/* totals.c: its slots are there; a shard has removed them, and the last one's word is logged with the sums. */
void totals_begin(struct job *job);
void totals_end(struct server *server, struct job *job, const struct engine_job_stats *stats);

/* crossed.c: R-CT-45 to R-CT-48 */
void crossed_begin(struct job *job); /* a life: all are there */
void crossed_end(struct job *job);   /* it is over */
/* A QUERY goes out; an OPINFO has come. */
void crossed_asked(struct job *job, const struct admission_action *query, uint64_t now_ns);
void crossed_answered(struct server *server, struct job *job, uint32_t connection,
		      const struct control_opinfo *info, uint64_t now_ns);
/* For whom those wait whom `waiting` is about. */
void crossed_chain_add(struct server *server, const struct job *job, uint64_t now_ns,
		       struct control_waiting *waiting);
/* For looks: what all jobs have heard; what a look has found, in words. */
void crossed_views_take(struct server *server);
void crossed_edge_add(const struct server *server, struct text *text,
		      const struct crossed_edge *edge);

/* table.c: R-CT-28 to R-CT-31 */
/* The peer's first message is TABLE_OPEN. */
void table_open(struct server *server, struct peer *peer, const struct control_table_open *open,
		uint64_t now_ns);
/* What it says later, and its end. */
void table_message(struct server *server, struct peer *peer, const struct control_message *message,
		   uint64_t now_ns);
void table_end(struct server *server, struct table *table);
/* A shard has obeyed. */
void table_shard_ack(struct server *server, const struct shard_event *ack);
/* ABORT to all, or to those of one shard (-1: all); they are removed. is_ending: so does the aggregator. */
void tables_abort(struct server *server, int shard, bool is_ending, const char *text);
/* Whose server has been silent for the heartbeat time is removed. */
void tables_tick(struct server *server, uint64_t now_ns);
uint64_t tables_wake_ns(const struct server *server);

/* job.c */
/* Jobs of one name and different lives, or programs, have nothing to do with one another. *is_refused: a launch has more
 * programs than gather apart. */
struct job *job_find(struct server *server, const struct control_join *join, bool *is_refused);
/* A program's, of this name, that has no life? Others of it may be part of the same job. */
bool job_gathers(const struct job *job, const char *name);
/* Why a life has ended, if it was one of this aggregator's and ended badly; NULL. */
const char *job_end_of_life(const struct server *server, uint64_t life);
/* Does a job of this life run, or a part of it? Life 0: no. */
bool life_is_running(const struct server *server, uint64_t life);
/* 0, -ENOMEM, or -ENOSPC: all of jobs_max are in use. */
int job_open(struct server *server, const struct control_join *join, uint64_t source,
	     struct job **out);
void job_close(struct server *server, struct job *job);
void job_step(struct server *server, struct job *job, struct admission_event *event);
void jobs_tick(struct server *server, uint64_t now_ns);
/* Key and patience of all that are there, as they are now. */
void jobs_configure(struct server *server);
/* TERMINATE or KILL, to all. */
void jobs_tell(struct server *server, enum admission_event_type type);
/* R-CT-19: those that are no parts of what runs are told once that the aggregator ends. */
void jobs_drain(struct server *server);
uint64_t jobs_wake_ns(const struct server *server);
bool jobs_are_idle(const struct server *server);

/* unite.c: R-CT-24; sets unite_ns. */
void jobs_unite(struct server *server, uint64_t now_ns);
/* Who gathers under this name hears that one more command line of it is refused: it may have been theirs. */
void jobs_tell_refused(struct server *server, const char *name);

/* cycle.c: ends the jobs whose processes wait for one another. */
void crossed_tick(struct server *server, uint64_t now_ns);

/* chip.c: where a switch sums (options.chip_open). Is this no job for it (R-CHIP-6)? Then in words why; else what it takes. */
bool chip_wrong(const struct server *server, const struct job *job);
void chip_refusal(const struct server *server, const struct job *job, struct text *text);
void chip_plan(const struct server *server, struct plan_input *input);

/* events.c */
void job_shard_event(struct server *server, uint32_t shard, const struct shard_event *event);
/* Something has happened to its chip. */
void shard_chip(struct server *server, uint32_t shard, const struct shard_event *event);

/* reload.c */
void server_key_set(struct server *server, const char *key); /* NULL: none; shorter than ours */
void server_reload_asked(struct server *server);             /* perhaps */

/* join.c: of the first message. */
void peer_join(struct server *server, struct peer *peer, const struct control_message *message,
	       uint64_t now_ns);

/* read.c */
/* Its job hears of it. */
void peer_end(struct server *server, struct peer *peer);
void peer_read(struct server *server, struct peer *peer, uint64_t now_ns);
void peers_end_broken(struct server *server);
void peers_read_more(struct server *server, uint64_t now_ns);
void peers_sweep(struct server *server, uint64_t now_ns);

/* stranger.c */
/* For one more: the oldest is told that there is no room, if it has come to nothing by now. */
void strangers_make_room(struct server *server, uint64_t now_ns);
/* For want of descriptors. False: there is none that has had its time. */
bool strangers_give_up_one(struct server *server, uint64_t now_ns);

/* accept.c */
/* Accepts connections, or leaves them in the backlog. */
void peers_listen(struct server *server, bool is_on);
void peers_accept(struct server *server, uint64_t now_ns);
/* With local_name: nobody can connect any more, and all who have said no JOIN are denied. */
void peers_local_last(struct server *server, uint64_t now_ns);

#endif
