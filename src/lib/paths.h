/* SPDX-License-Identifier: Apache-2.0 */
/* paths.h - from a GRANT to an open link and endpoint: addresses, MTU, lanes. */
#ifndef LIB_PATHS_H
#define LIB_PATHS_H

#include "control/conn.h"
#include "lib/comm.h"

/* The MTU of the route to the aggregator; 0: not known. */
uint32_t paths_mtu(const struct conn_address *address);

/* Which of our addresses TALLY_IFNAME wants control and data to leave from: into *address, which
 * conn_connect takes, and *boot. Of an aggregator's several addresses the first is taken, from now on,
 * that one of ours may reach. False: none, and `why` says what there is. */
bool paths_from(struct bootstrap *boot, struct conn_address *address, char *why, size_t why_bytes);

/* One aggregator's. */
struct paths_grant {
	const struct conn *conn;
	const struct control_grant *grant;
};

/* Opens comm's link and endpoint, to the shards of all grants in their order; slots, run and window are the
 * least of all. On success *lanes is what the paths carry. TALLY_OK, or a result with
 * `text`. */
int paths_open(struct tally_comm *comm, const struct paths_grant *grants, uint32_t grants_count,
	       uint16_t *lanes, char text[CONTROL_TEXT_BYTES]);

/* The family of the opened paths: all shards are reached over one. */
bool paths_is_v6(const struct tally_comm *comm);

/* What is to be said of a path that no longer carries the job's packets: the kernel refuses them, or
 * endpoint_path_lost says so, for for_ns now. Under comm's lock. */
void paths_say_too_large(const struct tally_comm *comm, char text[CONTROL_TEXT_BYTES]);
void paths_say_lost(const struct tally_comm *comm, const struct endpoint_path *path,
		    uint64_t for_ns, char text[CONTROL_TEXT_BYTES]);

#endif
