/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - sizes that all of glm shares. */
#ifndef GLM_SIZES_H
#define GLM_SIZES_H

#include "files/error.h"

enum {
	GLM_ERROR_MAX = FILES_ERROR_MAX,
	GLM_CLASSES_MAX = 64, /* labels that a file for classification may have */
};

#endif
