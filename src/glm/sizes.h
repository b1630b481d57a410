/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - sizes that all of glm shares. */
#ifndef GLM_SIZES_H
#define GLM_SIZES_H

enum {
	GLM_ERROR_MAX = 512,  /* bytes of an error's sentence, its NUL included */
	GLM_CLASSES_MAX = 64, /* labels that a file for classification may have */
};

#endif
