/* SPDX-License-Identifier: Apache-2.0 */
/* sim_main.c - `tally sim` without the rest of tally: for tests, sanitizers and profilers. */
#include "sim/sim.h"

int main(int argc, char **argv)
{
	return sim_main(argc, argv);
}
