/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier.h - what carries a communicator's operations: packets (dataplane/endpoint.h), or memory that its ranks share
 * (host/host.h), from when lib/meeting.h has decided so on all of them.
 */
#ifndef LIB_CARRIER_H
#define LIB_CARRIER_H

#include "host/host.h"
#include "lib/comm.h"

static inline int carrier_submit(struct tally_comm *comm, const struct endpoint_op *op)
{
	return comm->host ? host_submit(comm->host, op) : endpoint_submit(comm->endpoint, op);
}

static inline bool carrier_poll(struct tally_comm *comm)
{
	return comm->host ? host_poll(comm->host) : endpoint_poll(comm->endpoint);
}

static inline uint32_t carrier_done(struct tally_comm *comm, uint64_t *cookies, uint32_t max)
{
	return comm->host ? host_done(comm->host, cookies, max)
			  : endpoint_done(comm->endpoint, cookies, max);
}

/* What a submit in memory may begin, it has begun. */
static inline void carrier_begin(struct tally_comm *comm)
{
	if (!comm->host)
		endpoint_begin(comm->endpoint);
}

/* Until when to wait if nothing comes. */
static inline uint64_t carrier_next(const struct tally_comm *comm)
{
	return comm->host ? PACE_NEVER : endpoint_next(comm->endpoint);
}

static inline enum endpoint_fault carrier_fault(const struct tally_comm *comm)
{
	return comm->host ? ENDPOINT_OK : endpoint_fault(comm->endpoint);
}

/* Lock not held. */
static inline void carrier_wait(struct tally_comm *comm, uint64_t until_ns)
{
	if (comm->host)
		host_wait(comm->host, until_ns);
	else
		comm->link->ops->wait(comm->link, until_ns);
}

static inline void carrier_wake(struct tally_comm *comm)
{
	if (comm->host)
		host_wake(comm->host);
	else
		comm->link->ops->wake(comm->link);
}

#endif
