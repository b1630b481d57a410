/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - a parameter server: tables (table.h) that workers reach over TCP (kv/message.h) and UDP (sparse mode),
 * and the switches that sum their hot keys: at an
 * aggregator, or inside the server. One thread and each log's own.
 * docs/protocol.md, R-KV and R-SP-23 to R-SP-34.
 */
#ifndef PS_SERVER_H
#define PS_SERVER_H

#include "kv/message.h"
#include "ps/table.h"

struct ps_server;

enum { PS_TABLES_MAX = 64, PS_AGGREGATORS_MAX = 8, PS_TEXT_BYTES = 64 };

enum ps_level { PS_ERROR, PS_WARN, PS_INFO, PS_DEBUG };

/* Whom a line is about: its text says that as well. */
struct ps_about {
	const char *table, *job; /* NULL: none */
	int worker;              /* its rank; -1: none */
};

/* What else the server wants to know of a table. */
struct ps_hosted_options {
	struct ps_table_options table; /* changed and arg are the server's */
	uint64_t pairs_max;            /* an epoch ends with so many pairs; 0: R-SP-9's own */
	uint64_t age_us;               /* or so long after its first push; 0: 50,000 */
	uint32_t patience_us;          /* R-SP-20; 0: 100,000 and twice age_us */
	enum kv_packing packing;       /* where the switch is a chip (R-KV-18) */
};

struct ps_server_options {
	const char *listen; /* "host", "host:port"; TCP and UDP; port 0: the kernel chooses */
	const char *job;    /* "": any */
	const char *
		key; /* "": none. It may change in reload, but not become none, nor cease to be it */
	uint16_t workers;
	uint32_t heartbeat_ms; /* 0: 1,000 */
	/* R-KV-22: tables whose folder does not say it are that of this one of so many servers; 0: it has to say it. */
	uint16_t adopt_index, adopt_count;
	uint64_t checkpoint_ns; /* a checkpoint so often; 0: none but at PS_SAVE */
	const char *aggregator[PS_AGGREGATORS_MAX]; /* "host:port"; asked in this order */
	uint32_t aggregator_count;                  /* 0: hot keys are summed inside */
	uint64_t silence_ns; /* an aggregator that is silent for so long has gone; 0: 500 ms */
	/* One whose datagrams do not come through, or that is tired, is not asked for so long, then twice as long, to 5
	 * minutes; 0: 5 s. */
	uint64_t closed_ns;
	/* R-CT-33: an aggregator is tired if its answers take so long, so many per cent of the parts of flushes are lost, so
	 * many of its memory are in use; 0: whatever it is. */
	uint64_t tired_delay_ns;
	uint32_t tired_loss, tired_memory;
	uint64_t drain_ns;      /* R-SP-35: no longer than that; 0: 2 s */
	uint64_t switch_memory; /* bytes of the switches inside; 0: 1 GiB */
	const struct ps_hosted_options *tables;
	uint32_t table_count; /* 1..PS_TABLES_MAX */
	void (*log)(void *arg, enum ps_level level, const struct ps_about *about, const char *line);
	/* In the server's thread, after PS_RELOAD and before maps are looked at; NULL: none. */
	void (*reload)(void *arg);
	void *arg;
};

/* Reads all tables, and fences each (R-SP-26): what was known of their switches is over. 0, or -1 with a sentence.
 * Texts of the options are borrowed until ps_server_close. */
int ps_server_open(struct ps_server **server, const struct ps_server_options *options,
		   char error[PS_ERROR_MAX]);
void ps_server_close(struct ps_server *server); /* what was recorded is brought to the disk */

/* "10.0.0.1:7272": where it listens. */
const char *ps_server_address(const struct ps_server *server, char text[PS_TEXT_BYTES]);
/* Until it is asked to stop. 0, or -1: it has failed, or some table's end has, and has logged why. */
int ps_server_run(struct ps_server *server);

enum ps_ask {
	PS_STOP = 1,
	PS_REPORT = 2, /* a line per table */
	PS_SAVE = 4,   /* a checkpoint of all tables, now */
	PS_RELOAD = 8, /* maps that are others than before (R-SP-32) */
};
/* From signal handlers and any thread. */
void ps_server_ask(struct ps_server *server, enum ps_ask what);

#endif
