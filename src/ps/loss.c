/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - see table.h. Of a log that has lost what was on the disk: how much that is, and what is done about it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/table.h"

struct loss {
	uint64_t bytes, batches, epochs;
	bool is_exact; /* the next log says what there was */
};

static int before_look(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes,
		       char error[PS_ERROR_MAX])
{
	struct record_sum *before = arg;
	uint64_t number;

	(void)error;
	if (type == RECORD_BEFORE && bytes == RECORD_BEFORE_BYTES)
		*before = record_before_get(body, &number);
	return 0;
}

/* What can be found in a log from `at` on, and what it says of the one before it. */
static void log_look(const struct ps_table *table, uint64_t number, uint64_t at,
		     struct record_sum *found, struct record_sum *before)
{
	char path[PATH_MAX], error[PS_ERROR_MAX];
	uint8_t *file = MAP_FAILED;
	struct stat is;
	const char *why;
	size_t whole;
	int fd;

	*found = *before = (struct record_sum){ 0 };
	ps_table_path(table, number, "log", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &is) && is.st_size)
		file = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	*found = record_sum_found(file, (size_t)is.st_size, at);
	found->bytes = (uint64_t)is.st_size > at ? (uint64_t)is.st_size - at : 0;
	(void)record_scan(path, file, (size_t)is.st_size, before_look, before, &whole, &why, error);
	munmap(file, (size_t)is.st_size);
}

/* Of the log that was read to *has, and of all behind it. */
static struct loss loss_of(const struct ps_table *table, uint64_t number,
			   const struct record_sum *has, uint64_t last)
{
	struct record_sum found, had;
	struct loss loss = { 0 };

	for (uint64_t log = number; log <= last; log++) {
		log_look(table, log, log == number ? has->bytes : 0, &found, &had);
		loss.bytes += found.bytes;
		loss.batches += found.batches;
		loss.epochs += found.epochs;
		if (log != number + 1 || !had.bytes || had.bytes < has->bytes)
			continue;
		/* It knows better than what can be found. */
		loss.bytes = had.bytes - has->bytes + found.bytes;
		loss.batches = had.batches - has->batches + found.batches;
		loss.epochs = had.epochs - has->epochs + found.epochs;
		loss.is_exact = true;
	}
	return loss;
}

/* The last first: a crash meanwhile leaves logs that follow on each other. Who opens the log that goes on syncs the folder,
 * before anything is acknowledged. */
static int later_remove(const struct ps_table *table, uint64_t number, uint64_t last,
			char error[PS_ERROR_MAX])
{
	char path[PATH_MAX];
	int why = 0;

	for (uint64_t later = last; later > number && !why; later--) {
		ps_table_path(table, later, "log", path, sizeof(path));
		why = unlink(path) && errno != ENOENT ? errno : 0;
	}
	if (why)
		snprintf(error, PS_ERROR_MAX, "%.400s: %s", path, strerror(why));
	return why ? -1 : 0;
}

int ps_table_loss(struct ps_table *table, uint64_t number, const struct record_sum *has,
		  uint64_t last, const char *why, char error[PS_ERROR_MAX])
{
	struct loss loss = loss_of(table, number, has, last);
	char path[PATH_MAX], said[PS_ERROR_MAX], place[64] = "";

	ps_table_path(table, number, "log", path, sizeof(path));
	if (!access(path, F_OK))
		snprintf(place, sizeof(place), "damaged at byte %" PRIu64 ": ", has->bytes);
	snprintf(said, sizeof(said),
		 "%.300s: %s%s: %s%" PRIu64 " batches and %" PRIu64
		 " epochs of hot keys, %s%" PRIu64 " bytes, were on the disk behind that",
		 path, place, why, loss.is_exact ? "" : "at least ", loss.batches, loss.epochs,
		 loss.is_exact ? "" : "about ", loss.bytes);
	if (!table->options.accepts_loss)
		return ps_fail(
			error,
			"%.560s; a copy of the folder has them, or --accept-loss goes on without",
			said);
	/* Each worker of before is replaced, before the fence that every start needs. */
	if (ps_table_spend(table, table->shape.workers + 1u, error) ||
	    later_remove(table, number, last, error))
		return -1;
	snprintf(table->notice, sizeof(table->notice), "%.560s, and are lost: that is accepted",
		 said);
	table->has_lost = true;
	return 0;
}
