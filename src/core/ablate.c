/* SPDX-License-Identifier: Apache-2.0 */
/* ablate.c - which check is taken out, in a build that can take out any (-Dablate=any); else empty. */
#include "core/ablate.h"

#ifdef ABLATE_ANY
#include <stdlib.h>

const char *ablate_chosen = "";

__attribute__((constructor)) static void choose(void)
{
	const char *name = getenv("ABLATE");
	if (name)
		ablate_chosen = name;
}
#endif
