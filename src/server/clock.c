/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/random.h>

#include "server/internal.h"

bool server_turn_is_over(const struct server *server)
{
	return clock_ns() >= server->turn_end_ns;
}

/* Nonces admit to the data plane: nothing weaker will do. */
void server_random(void *bytes, size_t count)
{
	ssize_t got = getrandom(bytes, count, 0);

	assert(got == (ssize_t)count); /* up to 256 bytes are never cut short */
}
