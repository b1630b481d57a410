/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - the trainer's state in a file, from which a run goes on as if nothing had happened. The state is
 * bytes (train.h makes and takes them); here they get a header and a file that is replaced whole or not at
 * all (aside.h).
 *
 *   0  8  "tallyglm"
 *   8  4  version of this format, little endian, as all numbers here
 *  12  4  CRC-32 (IEEE 802.3) of the 8 bytes that follow and of the state
 *  16  8  bytes of the state
 *  24     the state, and nothing behind it
 */
#ifndef GLM_CHECKPOINT_H
#define GLM_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "glm/sizes.h"

enum { CHECKPOINT_VERSION = 1, CHECKPOINT_HEADER_BYTES = 24 };

/* 0, or -1 with a sentence: what was there is as it was. */
int checkpoint_write(const char *path, const void *state, size_t bytes, char error[GLM_ERROR_MAX]);

/* On success *state is the caller's, to be freed. -1, with a sentence that names the file and what is wrong
 * with it: not there, no checkpoint, of another version, too short, too long, damaged. */
int checkpoint_read(const char *path, void **state, size_t *bytes, char error[GLM_ERROR_MAX]);

/* The bytes of a file: 0 and where the state lies in it, or -1. `name` is for the sentence. */
int checkpoint_parse(const char *name, const uint8_t *file, size_t file_bytes,
		     const uint8_t **state, size_t *bytes, char error[GLM_ERROR_MAX]);

#endif
