/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - sizes that all of glm shares. */
#ifndef GLM_LIMITS_H
#define GLM_LIMITS_H

enum {
	GLM_ERROR_MAX = 512,  /* bytes of an error's sentence, its NUL included */
	GLM_CLASSES_MAX = 64, /* labels that a file for classification may have */
};

#endif
