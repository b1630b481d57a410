/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c - settings that change while it runs: see server_reload. */
#include <string.h>

#include "server/internal.h"

void server_key_set(struct server *server, const char *key)
{
	memset(server->key, 0, sizeof(server->key));
	if (key)
		memcpy(server->key, key, strnlen(key, sizeof(server->key) - 1));
}

void server_reload_asked(struct server *server)
{
	struct server_options now = { .key = server->key };
	unsigned calls = atomic_load(&server->reload_calls);

	if (calls == server->reloads)
		return;
	server->reloads = calls;
	if (!server->options.read_again)
		return;
	if (server->is_draining) {
		server_say(server, SERVER_INFO, "no file is read again: it drains");
		return;
	}
	if (!server->options.read_again(server->options.log_arg, &now))
		return;
	if (now.key != server->key)
		server_key_set(server, now.key);
	server->options.gather_ms = now.gather_ms;
	server->options.drain_ms = now.drain_ms;
	jobs_configure(server);
}
