/* SPDX-License-Identifier: Apache-2.0 */
/* sim_main.c - tally-sim, which `tally sim` becomes. */
#include "sim/sim.h"
#include "util/opt.h"

int main(int argc, char **argv)
{
	return opt_end("tally", sim_main(argc, argv));
}
