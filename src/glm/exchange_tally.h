/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange_tally.h - the exchange over libtally: small sums in latency mode or in dense mode, large ones always over
 * a dense communicator. Who the ranks are and where the aggregator is comes from the environment (tally(7)).
 */
#ifndef GLM_EXCHANGE_TALLY_H
#define GLM_EXCHANGE_TALLY_H

#include "glm/exchange.h"

enum exchange_mode {
	EXCHANGE_AUTO, /* whichever tune() finds faster here, on all ranks alike */
	EXCHANGE_LATENCY,
	EXCHANGE_DENSE,
	EXCHANGE_MPI, /* another exchange's, exchange_mpi.h: not for this one */
};

struct exchange_tally_options {
	enum exchange_mode mode;
	/* NULL, or called as soon as ranks can say something to one another, by sum() alone: before anything that
	 * depends on the mode. 0, or -1 and why, on all ranks alike: then there is no exchange. */
	int (*agree)(void *arg, struct exchange *exchange, char error[GLM_ERROR_MAX]);
	void *arg;
};

/* Collective. 0 and *exchange, the caller's until close; -1 and libtally's sentence. */
int exchange_tally(struct exchange **exchange, const struct exchange_tally_options *options,
		   char error[GLM_ERROR_MAX]);

#endif
