/* SPDX-License-Identifier: Apache-2.0 */
/* ports.h - ports for daemons that a test ends and starts again. */
#ifndef TESTS_E2E_PORTS_H
#define TESTS_E2E_PORTS_H

#include <stdbool.h>
#include <stdint.h>

/* A port of loopback that nobody has over UDP or TCP, from 20000 up and below those that the kernel gives to sockets which
 * ask for any: so no such socket gets it while the daemon is dead. 0: none was found. */
uint16_t port_free(bool is_v6);

#endif
