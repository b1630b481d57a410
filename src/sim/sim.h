/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - `tally sim`: runs seeds, prints what they did. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

/* argv[0] is the command as the user called it ("tally sim"). The exit status: 0 only if nothing was
 * violated, 1 if something was, 2 for wrong arguments. */
int sim_main(int argc, char **argv);

#endif
