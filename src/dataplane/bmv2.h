/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bmv2.h - what is asked of a bmv2 switch (p4lang's simple_switch) over its Thrift port: tables, multicast groups,
 * registers, counters. Each call waits for the switch's answer, at most BMV2_TIMEOUT_MS; a fault ends the connection
 * unless the switch itself has refused. One thread at a time.
 */
#ifndef DATAPLANE_BMV2_H
#define DATAPLANE_BMV2_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/link.h"

enum {
	BMV2_PORT = 9090,       /* simple_switch's own choice */
	BMV2_PORTS = 512,       /* of 9 bits; the last drops packets */
	BMV2_TIMEOUT_MS = 2000, /* of one call, of a connection too */
	BMV2_ERROR_BYTES = 352,
	BMV2_ANSWER_BYTES = 1 << 16,
};

struct bmv2 {
	struct link_address address;
	int fd; /* -1: not connected */
	int32_t serial;
	uint64_t
		until_ns; /* as clock_ns goes: no call waits for longer, whatever BMV2_TIMEOUT_MS says; 0: it alone counts */
	bool is_unsure; /* an entry, a group or a replica may be there of which no handle has come. Who resets it clears this */
	char name[64];  /* its address in words */
	char error
		[BMV2_ERROR_BYTES]; /* of the last call that failed: which switch, what of it, what is wrong, what to do */
	uint8_t call[4096];
	uint8_t answer[BMV2_ANSWER_BYTES];
};

/* A number in so many bytes, most significant first: how tables have keys and actions their data. */
struct bmv2_value {
	uint64_t value;
	uint32_t bytes;
};

/* All below: 0, or a negative errno with bmv2->error. -EREMOTEIO: the switch has refused; any other: it has not
 * answered, or not as a switch does, and the connection is over. */
int bmv2_connect(struct bmv2 *bmv2, const struct link_address *address);
void bmv2_disconnect(struct bmv2 *bmv2);

/* Which ports have a device. */
int bmv2_ports(struct bmv2 *bmv2, bool ports[BMV2_PORTS]);

int bmv2_add(struct bmv2 *bmv2, const char *table, const struct bmv2_value *keys,
	     uint32_t keys_count, const char *action, const struct bmv2_value *data,
	     uint32_t data_count, int32_t *handle);
int bmv2_modify(struct bmv2 *bmv2, const char *table, int32_t handle, const char *action,
		const struct bmv2_value *data, uint32_t data_count);
int bmv2_delete(struct bmv2 *bmv2, const char *table, int32_t handle);
/* How many entries it has, and: it has none. */
int bmv2_entries(struct bmv2 *bmv2, const char *table, uint64_t *count);
int bmv2_clear(struct bmv2 *bmv2, const char *table);

int bmv2_counter(struct bmv2 *bmv2, const char *name, uint32_t index, uint64_t *packets);
int bmv2_counters_reset(struct bmv2 *bmv2, const char *name);
int bmv2_register_read(struct bmv2 *bmv2, const char *name, uint32_t index, uint64_t *value);
int bmv2_register_reset(struct bmv2 *bmv2, const char *name);
/* `count` of them from `first` on. */
int bmv2_register_write(struct bmv2 *bmv2, const char *name, uint32_t first, uint32_t count,
			uint64_t value);
/* Packets per second that each of its meters lets pass, and how many at once. */
int bmv2_meter_set(struct bmv2 *bmv2, const char *name, uint32_t per_s, uint32_t burst);

/* It has no members, also if there was one of this number. */
int bmv2_group_create(struct bmv2 *bmv2, uint32_t group, int32_t *handle);
int bmv2_group_destroy(struct bmv2 *bmv2, int32_t handle);
/* A replica for each of `ports`, numbered `replica`, of all packets for the group that it has joined. */
int bmv2_node_create(struct bmv2 *bmv2, uint32_t replica, const bool ports[BMV2_PORTS],
		     int32_t *handle);
int bmv2_node_join(struct bmv2 *bmv2, int32_t group_handle, int32_t handle);
int bmv2_node_update(struct bmv2 *bmv2, int32_t handle, const bool ports[BMV2_PORTS]);
int bmv2_node_destroy(struct bmv2 *bmv2, int32_t handle);

#endif
