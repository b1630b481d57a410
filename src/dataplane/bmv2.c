/* SPDX-License-Identifier: Apache-2.0 */
/* bmv2.c - see bmv2.h. */
#include "dataplane/bmv2.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "dataplane/thrift.h"
#include "util/clock.h"

enum { NS_PER_MS = 1000000, PER_S_PER_US = 1000000 };

/* What a refusal's code means depends on what was asked. */
enum kind { OF_TABLES, OF_ARRAYS, OF_GROUPS, OF_PORTS };

/* What is asked, for whom it fails. */
struct asked {
	enum kind kind;
	const char *method; /* "standard:bm_mt_add_entry" */
	const char *of;     /* the table, register, ...; "": the switch */
};

static const char *table_code(int32_t code)
{
	/* clang-format off */
	static const char *const names[] = {
		[1] = "the table is full", [2] = "no such entry", [3] = "the entry is no more", [7] = "there is no such table",
		[8] = "there is no such action", [17] = "the entry is there already", [18] = "that is no key of the table",
		[26] = "that is no data of the action",
	};
	/* clang-format on */

	if (code > 0 && (size_t)code < sizeof(names) / sizeof(names[0]))
		return names[code];
	return NULL;
}

static const char *code_name(enum kind kind, int32_t code)
{
	static const char *const arrays[] = { NULL, "there is none of this name",
					      "it has not so many" };
	static const char *const groups[] = { NULL, "there is no more room", "no such group",
					      "no such group", "no such replica" };

	if (kind == OF_TABLES)
		return table_code(code);
	if (kind == OF_ARRAYS && code > 0 && code < 3)
		return arrays[code];
	if (kind == OF_GROUPS && code > 0 && code < 5)
		return groups[code];
	return NULL;
}

static int fail(struct bmv2 *bmv2, int error, const struct asked *asked, const char *what,
		const char *advice)
{
	snprintf(bmv2->error, sizeof(bmv2->error), "the switch at %s%s%s%s%s: %s%s%s", bmv2->name,
		 asked ? ", " : "", asked ? asked->method : "", asked && *asked->of ? " of " : "",
		 asked ? asked->of : "", what, *advice ? ": " : "", advice);
	if (error != -EREMOTEIO)
		bmv2_disconnect(bmv2);
	return error;
}

static int refused(struct bmv2 *bmv2, const struct asked *asked, const struct thrift_answer *answer)
{
	const char *name = code_name(asked->kind, answer->code);
	char text[160];

	if (name)
		snprintf(text, sizeof(text), "%s", name);
	else if (answer->code)
		snprintf(text, sizeof(text), "refused with code %d", answer->code);
	else
		snprintf(text, sizeof(text), "it does not know what is asked: %.100s",
			 answer->text);
	return fail(bmv2, -EREMOTEIO, asked, text, "does it run tally's program (docs/p4.md)?");
}

/* ---- the connection ---- */

static uint64_t until(const struct bmv2 *bmv2)
{
	uint64_t until_ns = clock_ns() + (uint64_t)BMV2_TIMEOUT_MS * NS_PER_MS;

	return bmv2->until_ns && bmv2->until_ns < until_ns ? bmv2->until_ns : until_ns;
}

static int wait_for(const struct bmv2 *bmv2, short events, uint64_t until_ns)
{
	struct pollfd pollfd = { .fd = bmv2->fd, .events = events };

	for (;;) {
		uint64_t now_ns = clock_ns();
		int left_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / NS_PER_MS) + 1 : 0;
		int count = poll(&pollfd, 1, left_ms);

		if (count > 0)
			return 0;
		if (!count && clock_ns() >= until_ns)
			return -ETIMEDOUT;
		if (count < 0 && errno != EINTR)
			return -errno;
	}
}

static int connect_fd(struct bmv2 *bmv2, uint64_t until_ns)
{
	union link_sockaddr to;
	bool is_v6 = !link_address_is_v4(&bmv2->address);
	socklen_t bytes = link_address_to_socket(&bmv2->address, is_v6, &to);
	int error = 0, result;
	socklen_t error_bytes = sizeof(error);

	bmv2->fd =
		socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (bmv2->fd < 0)
		return -errno;
	if (!connect(bmv2->fd, (struct sockaddr *)&to, bytes))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	result = wait_for(bmv2, POLLOUT, until_ns);
	if (!result && getsockopt(bmv2->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes))
		error = errno;
	return result ? result : -error;
}

int bmv2_connect(struct bmv2 *bmv2, const struct link_address *address)
{
	int result;

	bmv2->address = *address;
	link_address_format(address, bmv2->name);
	result = connect_fd(bmv2, until(bmv2));
	if (result)
		return fail(bmv2, result, NULL, strerror(-result),
			    "is simple_switch there, and is this its --thrift-port?");
	return 0;
}

void bmv2_disconnect(struct bmv2 *bmv2)
{
	if (bmv2->fd >= 0)
		close(bmv2->fd);
	bmv2->fd = -1;
}

static int send_all(const struct bmv2 *bmv2, const uint8_t *data, uint32_t bytes, uint64_t until_ns)
{
	while (bytes) {
		ssize_t sent = send(bmv2->fd, data, bytes, MSG_NOSIGNAL);
		int result;

		if (sent >= 0) {
			data += sent;
			bytes -= (uint32_t)sent;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		result = wait_for(bmv2, POLLOUT, until_ns);
		if (result)
			return result;
	}
	return 0;
}

/* An answer, and nothing behind it: only one call is under way. */
static int receive(struct bmv2 *bmv2, struct thrift_answer *answer, uint64_t until_ns)
{
	uint32_t bytes = 0;

	for (;;) {
		int result = wait_for(bmv2, POLLIN, until_ns);
		ssize_t got;

		if (result)
			return result;
		got = recv(bmv2->fd, bmv2->answer + bytes, sizeof(bmv2->answer) - bytes, 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got <= 0)
			return got ? -errno : -ECONNRESET;
		bytes += (uint32_t)got;
		switch (thrift_read(bmv2->answer, bytes, answer)) {
		case THRIFT_OK:
			return answer->bytes == bytes && answer->serial == bmv2->serial ? 0
											: -EPROTO;
		case THRIFT_BAD:
			return -EPROTO;
		case THRIFT_MORE:
			if (bytes == sizeof(bmv2->answer))
				return -EPROTO;
		}
	}
}

/* ---- calls ---- */

static struct thrift_out begin(struct bmv2 *bmv2, const struct asked *asked)
{
	struct thrift_out out = { .data = bmv2->call, .room = sizeof(bmv2->call) };

	thrift_call(&out, asked->method, ++bmv2->serial);
	return out;
}

/* The same with what most methods take: the context, of which a switch has one, and what of it. */
static struct thrift_out begin_of(struct bmv2 *bmv2, const struct asked *asked)
{
	struct thrift_out out = begin(bmv2, asked);

	thrift_i32(&out, 1, 0);
	if (*asked->of)
		thrift_text(&out, 2, asked->of);
	return out;
}

static int call(struct bmv2 *bmv2, const struct asked *asked, struct thrift_out *out,
		struct thrift_answer *answer)
{
	uint64_t until_ns = until(bmv2);
	int result;

	thrift_end(out);
	if (bmv2->fd < 0)
		return fail(bmv2, -ENOTCONN, asked, "not connected", "");
	if (out->is_full)
		return fail(bmv2, -EMSGSIZE, asked, "too long a call", "");
	result = send_all(bmv2, out->data, out->used, until_ns);
	result = result ? result : receive(bmv2, answer, until_ns);
	if (result == -ETIMEDOUT)
		return fail(bmv2, result, asked, "no answer in time",
			    "it is stopped, or it has too much to do");
	if (result == -ECONNRESET || result == -EPIPE)
		return fail(bmv2, result, asked, "it has closed the connection",
			    "has it ended, or been started again?");
	if (result == -EPROTO)
		return fail(bmv2, result, asked, "its answer is not Thrift's",
			    "is this simple_switch's --thrift-port?");
	if (result)
		return fail(bmv2, result, asked, strerror(-result), "");
	return answer->is_refused ? refused(bmv2, asked, answer) : 0;
}

/* Of those that return nothing. */
static int call_only(struct bmv2 *bmv2, const struct asked *asked, struct thrift_out *out)
{
	struct thrift_answer answer;

	return call(bmv2, asked, out, &answer);
}

static int call_number(struct bmv2 *bmv2, const struct asked *asked, struct thrift_out *out,
		       enum thrift_type type, int64_t *number, int64_t *second)
{
	struct thrift_answer answer;
	int result = call(bmv2, asked, out, &answer);

	if (result)
		return result;
	if (answer.type != type)
		return fail(bmv2, -EPROTO, asked, "its answer has no number", "");
	*number = answer.number;
	if (second)
		*second = answer.second;
	return 0;
}

static int call_handle(struct bmv2 *bmv2, const struct asked *asked, struct thrift_out *out,
		       int32_t *handle)
{
	int64_t number = 0;
	bool is_connected = bmv2->fd >= 0;
	int result = call_number(bmv2, asked, out, THRIFT_I32, &number, NULL);

	if (!result)
		*handle = (int32_t)number;
	else if (result != -EREMOTEIO)
		bmv2->is_unsure |= is_connected;
	return result;
}

int bmv2_ports(struct bmv2 *bmv2, bool ports[BMV2_PORTS])
{
	static const struct asked asked = { OF_PORTS, "standard:bm_dev_mgr_show_ports", "" };
	struct thrift_out out = begin(bmv2, &asked);
	struct thrift_answer answer;
	struct thrift_in in;
	uint32_t count;
	int result = call(bmv2, &asked, &out, &answer);

	if (result)
		return result;
	memset(ports, 0, BMV2_PORTS * sizeof(*ports));
	in = (struct thrift_in){ .data = bmv2->answer,
				 .bytes = answer.bytes,
				 .used = answer.value };
	count = answer.type == THRIFT_LIST ? thrift_take_list(&in, THRIFT_STRUCT) : 0;
	for (uint32_t i = 0; i < count && in.result == THRIFT_OK; i++) {
		enum thrift_type type;
		int16_t field;
		uint32_t port = BMV2_PORTS;

		while ((type = thrift_take_field(&in, &field))) {
			if (field == 1 && type == THRIFT_I32)
				port = thrift_take(&in, 4);
			else
				thrift_skip(&in, type);
		}
		if (port < BMV2_PORTS)
			ports[port] = true;
	}
	if (answer.type != THRIFT_LIST || in.result != THRIFT_OK)
		return fail(bmv2, -EPROTO, &asked, "its answer is no list of ports", "");
	return 0;
}

/* ---- tables ---- */

static uint32_t value_bytes(const struct bmv2_value *value, uint8_t bytes[8])
{
	uint32_t count = value->bytes < sizeof(value->value) ? value->bytes : sizeof(value->value);

	for (uint32_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(value->value >> 8 * (count - 1 - i));
	return count;
}

static void put_data(struct thrift_out *out, int16_t field, const struct bmv2_value *data,
		     uint32_t count)
{
	uint8_t bytes[8];

	thrift_list(out, field, THRIFT_STRING, count);
	for (uint32_t i = 0; i < count; i++)
		thrift_element(out, bytes, value_bytes(&data[i], bytes));
}

int bmv2_add(struct bmv2 *bmv2, const char *table, const struct bmv2_value *keys,
	     uint32_t keys_count, const char *action, const struct bmv2_value *data,
	     uint32_t data_count, int32_t *handle)
{
	const struct asked asked = { OF_TABLES, "standard:bm_mt_add_entry", table };
	struct thrift_out out = begin_of(bmv2, &asked);
	uint8_t bytes[8];

	thrift_list(&out, 3, THRIFT_STRUCT, keys_count);
	for (uint32_t i = 0; i < keys_count; i++) {
		thrift_i32(&out, 1, 0); /* exact: */
		thrift_struct(&out, 2);
		thrift_bytes(&out, 1, bytes, value_bytes(&keys[i], bytes));
		thrift_end(&out);
		thrift_end(&out);
	}
	thrift_text(&out, 4, action);
	put_data(&out, 5, data, data_count);
	thrift_struct(&out, 6); /* no options */
	thrift_end(&out);
	return call_handle(bmv2, &asked, &out, handle);
}

int bmv2_modify(struct bmv2 *bmv2, const char *table, int32_t handle, const char *action,
		const struct bmv2_value *data, uint32_t data_count)
{
	const struct asked asked = { OF_TABLES, "standard:bm_mt_modify_entry", table };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 3, handle);
	thrift_text(&out, 4, action);
	put_data(&out, 5, data, data_count);
	return call_only(bmv2, &asked, &out);
}

int bmv2_delete(struct bmv2 *bmv2, const char *table, int32_t handle)
{
	const struct asked asked = { OF_TABLES, "standard:bm_mt_delete_entry", table };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 3, handle);
	return call_only(bmv2, &asked, &out);
}

int bmv2_entries(struct bmv2 *bmv2, const char *table, uint64_t *count)
{
	const struct asked asked = { OF_TABLES, "standard:bm_mt_get_num_entries", table };
	struct thrift_out out = begin_of(bmv2, &asked);
	int64_t number = 0;
	int result = call_number(bmv2, &asked, &out, THRIFT_I64, &number, NULL);

	if (!result)
		*count = (uint64_t)number;
	return result;
}

int bmv2_clear(struct bmv2 *bmv2, const char *table)
{
	const struct asked asked = { OF_TABLES, "standard:bm_mt_clear_entries", table };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_bool(&out, 3, false);
	return call_only(bmv2, &asked, &out);
}

/* ---- arrays ---- */

int bmv2_counter(struct bmv2 *bmv2, const char *name, uint32_t index, uint64_t *packets)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_counter_read", name };
	struct thrift_out out = begin_of(bmv2, &asked);
	int64_t bytes = 0, number = 0;
	int result;

	thrift_i32(&out, 3, (int32_t)index);
	result = call_number(bmv2, &asked, &out, THRIFT_STRUCT, &bytes, &number);
	if (!result)
		*packets = (uint64_t)number;
	return result;
}

int bmv2_counters_reset(struct bmv2 *bmv2, const char *name)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_counter_reset_all", name };
	struct thrift_out out = begin_of(bmv2, &asked);

	return call_only(bmv2, &asked, &out);
}

int bmv2_register_reset(struct bmv2 *bmv2, const char *name)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_register_reset", name };
	struct thrift_out out = begin_of(bmv2, &asked);

	return call_only(bmv2, &asked, &out);
}

int bmv2_register_read(struct bmv2 *bmv2, const char *name, uint32_t index, uint64_t *value)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_register_read", name };
	struct thrift_out out = begin_of(bmv2, &asked);
	int64_t number = 0;
	int result;

	thrift_i32(&out, 3, (int32_t)index);
	result = call_number(bmv2, &asked, &out, THRIFT_I64, &number, NULL);
	if (!result)
		*value = (uint64_t)number;
	return result;
}

int bmv2_register_write(struct bmv2 *bmv2, const char *name, uint32_t first, uint32_t count,
			uint64_t value)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_register_write_range", name };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 3, (int32_t)first);
	thrift_i32(&out, 4, (int32_t)(first + count));
	thrift_i64(&out, 5, (int64_t)value);
	return call_only(bmv2, &asked, &out);
}

/* Its two rates are one: what is above it is yellow or red, and only what is green passes. */
int bmv2_meter_set(struct bmv2 *bmv2, const char *name, uint32_t per_s, uint32_t burst)
{
	const struct asked asked = { OF_ARRAYS, "standard:bm_meter_array_set_rates", name };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_list(&out, 3, THRIFT_STRUCT, 2);
	for (uint32_t i = 0; i < 2; i++) {
		thrift_double(&out, 1, (double)per_s / PER_S_PER_US);
		thrift_i32(&out, 2, (int32_t)burst);
		thrift_end(&out);
	}
	return call_only(bmv2, &asked, &out);
}

/* ---- multicast ---- */

int bmv2_group_destroy(struct bmv2 *bmv2, int32_t handle)
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_mgrp_destroy", "" };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 2, handle);
	return call_only(bmv2, &asked, &out);
}

int bmv2_group_create(struct bmv2 *bmv2, uint32_t group, int32_t *handle)
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_mgrp_create", "" };
	struct thrift_out out;
	int result = bmv2_group_destroy(bmv2, (int32_t)group); /* a group's handle is its number */

	if (result)
		return result;
	out = begin_of(bmv2, &asked);
	thrift_i32(&out, 2, (int32_t)group);
	return call_handle(bmv2, &asked, &out, handle);
}

/* The last digit is port 0's. */
static void put_ports(struct thrift_out *out, int16_t field, const bool ports[BMV2_PORTS])
{
	char digits[BMV2_PORTS];
	uint32_t count = 1;

	for (uint32_t port = 0; port < BMV2_PORTS; port++)
		if (ports[port])
			count = port + 1;
	for (uint32_t i = 0; i < count; i++)
		digits[i] = ports[count - 1 - i] ? '1' : '0';
	thrift_bytes(out, field, digits, count);
	thrift_text(out, (int16_t)(field + 1), ""); /* link aggregation groups: none */
}

int bmv2_node_create(struct bmv2 *bmv2, uint32_t replica, const bool ports[BMV2_PORTS],
		     int32_t *handle)
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_node_create", "" };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 2, (int32_t)replica);
	put_ports(&out, 3, ports);
	return call_handle(bmv2, &asked, &out, handle);
}

int bmv2_node_join(struct bmv2 *bmv2, int32_t group_handle, int32_t handle)
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_node_associate", "" };
	struct thrift_out out = begin_of(bmv2, &asked);
	bool is_connected = bmv2->fd >= 0;
	int result;

	thrift_i32(&out, 2, group_handle);
	thrift_i32(&out, 3, handle);
	result = call_only(bmv2, &asked, &out);
	bmv2->is_unsure |= is_connected && result && result != -EREMOTEIO;
	return result;
}

int bmv2_node_update(struct bmv2 *bmv2, int32_t handle, const bool ports[BMV2_PORTS])
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_node_update", "" };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 2, handle);
	put_ports(&out, 3, ports);
	return call_only(bmv2, &asked, &out);
}

int bmv2_node_destroy(struct bmv2 *bmv2, int32_t handle)
{
	static const struct asked asked = { OF_GROUPS, "simple_pre_lag:bm_mc_node_destroy", "" };
	struct thrift_out out = begin_of(bmv2, &asked);

	thrift_i32(&out, 2, handle);
	return call_only(bmv2, &asked, &out);
}
