/* SPDX-License-Identifier: Apache-2.0 */
/* hook_tc.h - a hook at the ingress of network devices: loads xdp/latency_tc.bpf.c and attaches it. */
#ifndef DATAPLANE_HOOK_TC_H
#define DATAPLANE_HOOK_TC_H

#include "dataplane/hook.h"

enum { HOOK_DEVICES_MAX = 64 };

/*
 * hook_tc_open serves datagrams to `port` that come in by one of `devices` (names, separated by commas), over IPv4.
 * Needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON). What processes that have died have left in this network namespace, for
 * whatever port and at whatever device, is taken away, if we may look (CAP_SYS_ADMIN); with no devices, NULL, that is all
 * it does, and *hook is NULL. 0, or a negative errno with a sentence: -ENODEV, -EPERM, -EINVAL, -ENOTSUP (built without
 * libbpf or clang), -EADDRINUSE (a living process serves the port at one of them), -EEXIST (another filter is in our
 * place), or what the kernel says.
 */
int hook_tc_open(struct hook **hook, const char *devices, uint16_t port,
		 char error[HOOK_ERROR_BYTES]);

#endif
