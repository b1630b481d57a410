/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c - ERROR, and the line of the log that goes with it: docs/protocol.md, R-KV-14 and R-KV-21. */
#include <stdarg.h>
#include <stdio.h>

#include "core/shared/text.h"
#include "ps/internal.h"

/* R-KV-14: about `what`; if that is NULL, the connection ends with it. */
void ps_serve_refuse(struct ps_server *server, struct ps_conn *conn, const struct kv_message *what,
		     enum kv_refusal refusal, const char *format, ...)
{
	struct kv_message message = { .type = KV_ERROR,
				      .refusal = refusal,
				      .table = KV_NO_TABLE,
				      .worker = conn->is_welcome ? conn->worker : KV_NOBODY };
	va_list arguments;

	if (what) {
		message.about = what->type;
		message.number = what->number;
		if (what->type != KV_OPEN)
			message.table = what->table;
	}
	va_start(arguments, format);
	vsnprintf(message.text, sizeof(message.text), format, arguments);
	va_end(arguments);
	text_clean(message.text); /* others' names reach a worker's log and terminal, too */
	/* Without a key anybody may be a member, and be refused as often as he likes. */
	if (ps_is_stranger(server, conn) || !*server->options.key)
		ps_log_stranger(server, ps_about(NULL, conn), "%s is refused: %s", conn->who,
				message.text);
	else
		ps_log(server, what ? PS_INFO : PS_WARN, ps_about(NULL, conn), "%s is refused: %s",
		       conn->who, message.text);
	ps_conn_say(conn, &message);
	if (!what)
		conn->is_ending = true;
}

const char *ps_serve_name(struct ps_server *server, const struct ps_conn *other,
			  char text[PS_NAMED_BYTES])
{
	if (*server->options.key)
		return other->who;
	snprintf(text, PS_NAMED_BYTES, "worker %u", other->worker);
	ps_log_stranger(server, ps_about(NULL, other),
			"the other one of the next line is %s, of job %.120s", other->who,
			other->job);
	return text;
}
