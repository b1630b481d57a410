/* SPDX-License-Identifier: Apache-2.0 */
/* chip_bmv2.h - a bmv2 switch that runs src/p4/dense.p4 or latency.p4, as a chip: docs/p4.md. */
#ifndef DATAPLANE_CHIP_BMV2_H
#define DATAPLANE_CHIP_BMV2_H

#include "dataplane/chip.h"

enum {
	CHIP_BMV2_LANES = 32, /* src/p4/headers.p4 has these: constants.py --check compares them */
	CHIP_BMV2_SLOTS = 8192, /* of dense.p4 */
	CHIP_BMV2_LATENCY_SLOTS = 16384,
	CHIP_BMV2_CHILDREN = 32,
	CHIP_BMV2_JOBS = 1024,
	CHIP_BMV2_CPU_PORT = 64,   /* and forward.p4 these */
	CHIP_BMV2_FLOOD_GROUP = 1, /* job i's group is 2 + i */
	CHIP_BMV2_FLOOD_REPLICA = 0x4000,
};

/*
 * chip_bmv2_open takes the switch over: what control had written there is gone, whoever it was. `local` is an IPv4 address
 * of this host, on the device that is the switch's CPU port. -EADDRNOTAVAIL: it is none; -ENODEV: the switch has no CPU
 * port; -EREMOTEIO: it runs a program of others; else what bmv2.h says.
 */
int chip_bmv2_open(struct chip **chip, const char *address, const struct link_address *local,
		   char error[CHIP_ERROR_BYTES]);

#endif
