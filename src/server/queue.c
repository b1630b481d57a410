/* SPDX-License-Identifier: Apache-2.0 */
#include "server/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int queue_init(struct queue *queue, uint32_t entries, uint32_t entry_bytes)
{
	assert(entries && !(entries & (entries - 1)));
	queue->entries = calloc(entries, entry_bytes);
	if (!queue->entries)
		return -ENOMEM;
	queue->entry_bytes = entry_bytes;
	queue->mask = entries - 1;
	atomic_init(&queue->head, 0);
	atomic_init(&queue->tail, 0);
	return 0;
}

void queue_fini(struct queue *queue)
{
	free(queue->entries);
	queue->entries = NULL;
}

static uint8_t *queue_at(const struct queue *queue, uint32_t index)
{
	return queue->entries + (size_t)(index & queue->mask) * queue->entry_bytes;
}

/* Acquire on the other side's counter: its copy of the entry is over before ours begins. Release on our
 * own: our copy is over before the other side sees it. */
bool queue_push(struct queue *queue, const void *entry)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);

	if (tail - head > queue->mask)
		return false;
	memcpy(queue_at(queue, tail), entry, queue->entry_bytes);
	atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
	return true;
}

bool queue_pop(struct queue *queue, void *entry)
{
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);

	if (head == tail)
		return false;
	memcpy(entry, queue_at(queue, head), queue->entry_bytes);
	atomic_store_explicit(&queue->head, head + 1, memory_order_release);
	return true;
}

uint32_t queue_room(const struct queue *queue)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);

	return queue->mask + 1 - (tail - head);
}
