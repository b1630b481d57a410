/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - what the files of this room have in common: how long a sentence about an error is. */
#ifndef PS_SIZES_H
#define PS_SIZES_H

enum { PS_ERROR_MAX = 768, PS_NAME_MAX = 64 };

#endif
