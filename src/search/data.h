/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - the data plane as a model for bfs.h: the shipped worker, and the shipped switch at every node of
 * a tree; pace replaced by free choice. What may happen at any time: a worker submits its next operation,
 * starts the next chunk of a (shard, stream) pair, asks by PROBE; a packet arrives; a restart begins or
 * reaches somebody; a switch loses its memory. A worker may stop to start chunks whenever it likes, so every
 * window, and every change of one, is among what happens.
 *
 * Networks: `set`: every packet ever sent may arrive any number of times, in any order, or never. FIFO:
 * one queue each way on each edge of the tree, which may lose and double its head.
 */
#ifndef SEARCH_DATA_H
#define SEARCH_DATA_H

#include "core/shared/map.h"
#include "search/bfs.h"

enum {
	DATA_WORKERS = 4,
	DATA_NODES = 4,
	DATA_SHARDS = 2,
	DATA_POOL = 4,
	DATA_OPS = 4,
	DATA_CHUNKS = 24,
	DATA_GUESSED = 6, /* chunks whose exponents a row may choose */
	DATA_ZERO = 255,
};

struct data_op {
	uint32_t elements;
	bool is_scaled;
};

/* Switches: node 0 is the root, and `parent` of each other one is a node before it. All zeros: a root
 * alone. A node's children are its nodes, then its workers. */
struct data_tree {
	uint32_t nodes; /* 0 is 1 */
	uint8_t parent[DATA_NODES];
	uint8_t worker[DATA_WORKERS]; /* the node that worker w is a child of */
};

/* R-CHIP-3, R-CHIP-5: an UPDATE takes one pass, or two. */
enum data_chip { DATA_NO_CHIP, DATA_CHIP, DATA_CHIP_HALVES };

struct data_config {
	uint32_t workers; /* 1..DATA_WORKERS */
	struct data_tree tree;
	uint32_t shards;      /* 0 is 1 */
	uint32_t pool;        /* bulk slots of a shard, 1..DATA_POOL */
	uint32_t run;         /* bulk chunks that stay together; 0 is 1 */
	uint32_t ring;        /* operations of a stream that a worker keeps, 1, 2, 4; 0: all */
	uint32_t generations; /* lives: 1 is no restart */
	bool has_reboots; /* a switch may lose its memory, and is then of no life until the next */
	uint32_t ops_count;
	struct data_op ops[DATA_OPS];
	struct map_shape shape[DATA_OPS]; /* of zeros: an element is a lane */
	uint32_t
		part[DATA_OPS]; /* R-WK-13: elements of each worker's part; 0: there are no parts */
	uint8_t unwanted[DATA_OPS]; /* R-SW-15: bit w: worker w wants nothing of this operation */
	/* Bit o: operation o is a reduce_scatter of equal parts. They take turns, and each worker wants its own. */
	uint32_t scattered;
	uint32_t
		shorts; /* R-WK-16: bit o: in operation o lanes end in zeros: half of them, all, or none */
	uint32_t express;       /* bit o: operation o takes the express stream */
	uint8_t keys[DATA_OPS]; /* R-WK-17: not 0: this operation's exponents may be guessed */
	/* Of each worker's chunks; 0: as data_values.c has it; DATA_ZERO: it has no element but 0. */
	uint8_t exponent[DATA_WORKERS][DATA_GUESSED];
	uint32_t sticky[DATA_WORKERS]; /* bit c: this worker's DATA of chunk c sets NONFINITE */
	enum data_chip chip;           /* the switch is one */
	bool is_fifo;
	uint32_t first_seq; /* seqs start after this one (and slots' phases at it): near the wrap */
	/* Packets that can do nothing more as the rules are leave the set at once; else they stay as long as
	 * they could do something if one rule failed. For rows of many states. */
	bool is_lean;
	/* seq counts in so many bits, and a packet arrives until its sender (RESULT: its receiver) is more
	 * than packet_life rounds further in that slot. 0: all 32 bits, and for ever. */
	uint32_t seq_bits, packet_life;
	/* The drain must finish as well when any of the workers has, from then on, at most one chunk of a
	 * pair on its way. */
	bool has_windows;
};

/* The lanes that a packet of the model carries. */
enum { DATA_LANES = 8 };

void data_model(struct bfs_model *model, const void *config);

#endif
