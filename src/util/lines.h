/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h - lines of a log to a descriptor whose reader may have stopped: nobody waits for it for longer than
 * a moment. What finds no room is dropped and counted, and the caller says how much that was once there is
 * room. No locks: from any thread, and in the child of a fork. The descriptor's flags, which others share, stay
 * as they are.
 */
#ifndef UTIL_LINES_H
#define UTIL_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LINES_WAIT_MS = 50
}; /* for a reader that only is slow; not again for a second after a drop */

struct lines { /* zeros to begin with */
	atomic_uint dropped;
	atomic_bool is_cut; /* what was written last has no end */
	_Atomic uint64_t full_ns;
};

/* Writes a line with its '\n', which is one write if it has at most PIPE_BUF bytes. 0; -EAGAIN: dropped, and
 * counted as `count` lines; any other negative errno: the descriptor takes nothing any more. May raise
 * SIGPIPE. */
int lines_put(struct lines *lines, int fd, const char *line, size_t bytes, unsigned count);

/* One more that was not put at all. */
void lines_drop(struct lines *lines);

/* How many were dropped since the last call. Who asks puts a line that says so, which counts as many. */
unsigned lines_dropped(struct lines *lines);

#endif
