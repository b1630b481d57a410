/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - the folder of a file. */
#ifndef UTIL_FOLDER_H
#define UTIL_FOLDER_H

/* The name of a file lives in its folder: without this a power cut may bring back what it was before. 0, or errno. */
int folder_sync(const char *path);

/* And the name of that folder in its own, and so on up to the root: once, for a folder that may be new. One that may not be
 * read is passed over: somebody else has made it. */
int folder_sync_above(const char *path);

#endif
