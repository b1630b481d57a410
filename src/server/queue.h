/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - a bounded queue between exactly one producing thread and one consuming thread. No locks:
 * each side owns one counter and reads the other's. Whoever waits is woken by other means.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_LINE_BYTES = 64 };

struct queue {
	uint8_t *entries;
	uint32_t entry_bytes;
	uint32_t mask; /* entries - 1 */
	/* Ever growing; on lines of their own, so that the two threads do not fight for one. */
	_Alignas(QUEUE_LINE_BYTES) _Atomic uint32_t head; /* the consumer's */
	_Alignas(QUEUE_LINE_BYTES) _Atomic uint32_t tail; /* the producer's */
};

/* entries: a power of two. 0 or -ENOMEM. */
int queue_init(struct queue *queue, uint32_t entries, uint32_t entry_bytes);
void queue_fini(struct queue *queue);

/* Copies one entry in or out: false if the queue is full or empty. */
bool queue_push(struct queue *queue, const void *entry);
bool queue_pop(struct queue *queue, void *entry);

/* The producer's: at least so many entries can be pushed. */
uint32_t queue_room(const struct queue *queue);

#endif
