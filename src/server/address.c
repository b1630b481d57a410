/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - where an aggregator listens, as people write it. */
#include <stdio.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "server/internal.h"

const char *server_address(const struct server *server, char text[SERVER_TEXT_BYTES])
{
	struct link_address listen = server->options.listen;

	listen.port = server->port;
	if (server->options.local_name)
		snprintf(text, SERVER_TEXT_BYTES, "@%s", server->options.local_name);
	else if (!server->options.is_v6 && link_address_is_any(&listen))
		snprintf(text, SERVER_TEXT_BYTES, "0.0.0.0:%u", listen.port);
	else
		link_address_format(&listen, text);
	return text;
}

int server_listen_parse(const char *text, struct server_options *options)
{
	return link_address_parse(text, SERVER_PORT, &options->listen, &options->is_v6);
}
