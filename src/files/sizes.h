/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - sizes that all of files shares, and whoever uses it. */
#ifndef FILES_SIZES_H
#define FILES_SIZES_H

enum {
	FILES_ERROR_MAX = 512, /* bytes of an error's sentence, its NUL included */
};

#endif
