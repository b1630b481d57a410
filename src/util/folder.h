/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - the folder of a file. */
#ifndef UTIL_FOLDER_H
#define UTIL_FOLDER_H

/* The name of a file lives in its folder: without this a power cut may bring back what it was before. 0, or errno. */
int folder_sync(const char *path);

#endif
