/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_id.h - which host is this? Names do not say it: containers and images have the same. The kernel's boot id is one
 * machine's, from one start to the next, whatever containers it has; a network namespace is where its
 * processes meet over loopback and abstract unix sockets.
 */
#ifndef UTIL_HOST_ID_H
#define UTIL_HOST_ID_H

enum {
	HOST_BOOT_BYTES = 40, /* 36 characters */
	HOST_ID_BYTES = 64,
};

/* "" if the kernel does not say it. */
void host_boot_id(char id[HOST_BOOT_BYTES]);

/* Boot id and network namespace: the same where abstract unix sockets meet, and nowhere else. */
void host_id_read(char id[HOST_ID_BYTES]);

#endif
