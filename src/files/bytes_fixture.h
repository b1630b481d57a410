/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_fixture.h - a file in memory, for fuzzers: what a source reads comes `step` bytes at a time. */
#ifndef FILES_BYTES_FIXTURE_H
#define FILES_BYTES_FIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct bytes {
	const uint8_t *at;
	size_t left, step;
};

static ssize_t bytes_read(void *arg, void *to, size_t max)
{
	struct bytes *bytes = arg;
	size_t got = bytes->left < bytes->step ? bytes->left : bytes->step;

	got = got < max ? got : max;
	if (got)
		memcpy(to, bytes->at, got);
	bytes->at += got;
	bytes->left -= got;
	return (ssize_t)got;
}

#endif
