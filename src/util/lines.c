/* SPDX-License-Identifier: Apache-2.0 */
#include "util/lines.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 32 };
static const uint64_t ms_ns = 1000000, impatient_ns = 1000000000;

/* Where a line goes. */
struct way {
	int fd;
	bool is_socket;
	bool is_ours;  /* reopened: it does not block, and is to be closed */
	bool is_asked; /* it may block: poll says whether it would */
};

/* A pipe or a terminal gets a second description, for this line alone: who keeps one keeps the reader from
 * its end of file. Where /proc does not give it, poll has to do, and another writer can be in between. */
static void way_open(struct way *way, int fd)
{
	char path[PATH_BYTES];
	struct stat what = { 0 };
	int again;

	*way = (struct way){ .fd = fd };
	(void)fstat(fd, &what); /* if it fails, writing says what is wrong */
	way->is_socket = S_ISSOCK(what.st_mode);
	if (!S_ISFIFO(what.st_mode) && !(S_ISCHR(what.st_mode) && isatty(fd)))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	way->is_ours = again >= 0;
	way->is_asked = again < 0;
	if (way->is_ours)
		way->fd = again;
}

static void way_close(const struct way *way)
{
	if (way->is_ours)
		close(way->fd);
}

static bool is_writable(const struct way *way, int timeout_ms)
{
	struct pollfd writable = { .fd = way->fd, .events = POLLOUT };

	return poll(&writable, 1, timeout_ms) > 0;
}

static ssize_t way_write(const struct way *way, const char *text, size_t bytes)
{
	if (way->is_socket)
		return send(way->fd, text, bytes, MSG_DONTWAIT);
	if (way->is_asked && !is_writable(way, 0)) {
		errno = EAGAIN;
		return -1;
	}
	return write(way->fd, text, bytes);
}

/* How much of it is written in time; *error is of the rest. */
static size_t write_until(const struct way *way, const char *text, size_t bytes, uint64_t until_ns,
			  int *error)
{
	size_t done = 0;

	*error = 0;
	while (done < bytes) {
		ssize_t wrote = way_write(way, text + done, bytes - done);
		uint64_t now_ns = clock_ns();

		if (wrote > 0) {
			done += (size_t)wrote;
			continue;
		}
		if (wrote < 0 && errno == EINTR)
			continue;
		*error = wrote < 0 ? errno : EIO;
		if (*error != EAGAIN || now_ns >= until_ns)
			break;
		is_writable(way, (int)((until_ns - now_ns + ms_ns - 1) / ms_ns));
		*error = 0;
	}
	return done;
}

int lines_put(struct lines *lines, int fd, const char *line, size_t bytes, unsigned count)
{
	uint64_t now_ns = clock_ns(), full_ns = atomic_load(&lines->full_ns);
	bool is_patient = !full_ns || now_ns - full_ns >= impatient_ns;
	uint64_t until_ns = is_patient ? now_ns + LINES_WAIT_MS * ms_ns : now_ns;
	bool was_cut = atomic_exchange(&lines->is_cut, false), is_cut = was_cut;
	struct way way;
	size_t done = 0;
	int error = 0;

	way_open(&way, fd);
	if (was_cut && write_until(&way, "\n", 1, until_ns, &error))
		is_cut = false;
	if (!error) {
		done = write_until(&way, line, bytes, until_ns, &error);
		is_cut = done && done < bytes;
	}
	way_close(&way);
	if (is_cut)
		atomic_store(&lines->is_cut, true);
	if (error == EAGAIN) {
		atomic_fetch_add(&lines->dropped, count);
		atomic_store(&lines->full_ns, clock_ns());
	}
	return -error;
}

void lines_drop(struct lines *lines)
{
	atomic_fetch_add(&lines->dropped, 1);
}

unsigned lines_dropped(struct lines *lines)
{
	return atomic_exchange(&lines->dropped, 0);
}
