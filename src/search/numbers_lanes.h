/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_lanes.h - draws for core/shared/lanes.h, recorded: what some ranks have, as lanes, and what they get. */
#ifndef SEARCH_NUMBERS_LANES_H
#define SEARCH_NUMBERS_LANES_H

#include "util/rng.h"

void lanes_record(struct rng *rng);

#endif
