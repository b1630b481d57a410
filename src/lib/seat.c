/* SPDX-License-Identifier: Apache-2.0 */
/* seat.c - see seat.h and membership.h. */
#include "lib/seat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "lib/identity.h"
#include "lib/local.h"
#include "lib/paths.h"

static const uint64_t ns_per_s = 1000000000;

void seat_drop(struct seat *seat)
{
	atomic_store(&seat->fd, -1);
	conn_close(seat->conn);
	seat->conn = NULL;
}

bool seat_is_over(const struct seat *seat)
{
	return !seat->is_begun || seat->member.state == MEMBER_LEFT ||
	       seat->member.state == MEMBER_FAILED;
}

bool seat_is_bound(const struct seat *seat)
{
	return seat->member.state == MEMBER_READY || seat->member.state == MEMBER_RUN ||
	       seat->member.state == MEMBER_LEAVING;
}

static void join_fill(const struct tally_comm *comm, struct seat *seat)
{
	struct control_join *join = &seat->join;
	struct identity self;

	identity_read(&self);
	*join = (struct control_join){ .version_min = CONTROL_VERSION,
				       .version_max = CONTROL_VERSION,
				       .size = (uint16_t)comm->who.size,
				       .rank = (uint16_t)comm->who.rank,
				       .kind = CONTROL_WORKER,
				       .workers = 1,
				       .pid = (uint32_t)getpid(),
				       .mtu = paths_mtu(&seat->address),
				       .mode = comm->latency_slots ? CONTROL_LATENCY
								   : CONTROL_DENSE,
				       .latency_slots = comm->latency_slots,
				       .latency_window = comm->latency_window,
				       .life = comm->join_life,
				       .boot = self.boot,
				       .process = self.process,
				       .local_size = (uint16_t)comm->boot.local_size };
	/* With a life its name is nobody else's. */
	if (comm->boot.is_launched && !comm->join_life) {
		join->is_launched = !comm->boot.is_alone;
		join->program = self.program;
	}
	memcpy(join->key, comm->key, sizeof(comm->key));
	memcpy(join->job, comm->who.job, sizeof(comm->who.job));
	memcpy(join->host, comm->who.host, CONTROL_HOST_BYTES - 1);
}

/* `text` is where one aggregator is. */
static int address_find(struct tally_comm *comm, const char *text, struct conn_address *address)
{
	char why[REPORT_TEXT_MAX];
	int error = conn_resolve(text, CONTROL_PORT, address);

	if (error == -EINVAL)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "aggregator \"%s\" of %s is not HOST, HOST:PORT or [V6]:PORT, "
				    "port 1 to 65535",
				    text, comm->boot.aggregator);
	if (error)
		return report_error(&comm->who, TALLY_ERR_SYSTEM,
				    error == -EAGAIN
					    ? "aggregator %s: the name service does not answer"
					    : "aggregator %s: there is no such host",
				    text);
	if (conn_address_unfit(address))
		return report_error(&comm->who, TALLY_ERR_ARGUMENT, "aggregator %s is %s",
				    address->text, conn_address_unfit(address));
	if (!paths_from(&comm->boot, address, why, sizeof(why)))
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s (to reach the aggregator %s)", why, text);
	if (comm->boot.is_local)
		snprintf(address->text, sizeof(address->text), "rank 0 on %s (local mode)",
			 comm->who.host);
	return TALLY_OK;
}

static void seat_open(struct tally_comm *comm, struct seat *seat)
{
	join_fill(comm, seat);
	seat->config = (struct member_config)MEMBER_CONFIG_DEFAULT;
	seat->config.aggregator = seat->address.text;
	seat->config.join = &seat->join;
	seat->config.is_local = comm->boot.is_local;
	seat->config.gather_ns = comm->boot.init_timeout_s * ns_per_s;
	if (seat->config.connect_ns > seat->config.gather_ns)
		seat->config.connect_ns = seat->config.gather_ns;
	member_init(&seat->member, &seat->config);
}

/* Where the aggregators are: the seats' addresses. */
static int addresses_find(struct tally_comm *comm, struct membership *membership)
{
	char local[LOCAL_NAME_BYTES + 1], list[sizeof(comm->boot.aggregator)];
	char *rest = list;
	int result = TALLY_OK;

	if (comm->boot.is_local) {
		local[0] = '@';
		local_name(comm->local_job, local + 1);
		return address_find(comm, local,
				    &membership->seats[membership->seats_count++].address);
	}
	strcpy(list, comm->boot.aggregator);
	for (char *one; !result && (one = strsep(&rest, ","));) {
		if (membership->seats_count == MEMBERSHIP_AGGREGATORS_MAX)
			return report_error(&comm->who, TALLY_ERR_ARGUMENT,
					    "aggregator %s: more than %d", comm->boot.aggregator,
					    MEMBERSHIP_AGGREGATORS_MAX);
		result = address_find(comm, one,
				      &membership->seats[membership->seats_count++].address);
	}
	return result;
}

static int by_address(const void *a, const void *b)
{
	const struct seat *x = a, *y = b;

	return strcmp(x->address.text, y->address.text);
}

/* R-CT-25: in one order on all ranks, whatever order they were given in; else each would gather elsewhere. */
static int seats_open(struct tally_comm *comm, struct membership *membership)
{
	int result = addresses_find(comm, membership);

	for (uint32_t i = 0; i < membership->seats_count; i++)
		atomic_store(&membership->seats[i].fd, -1);
	if (result)
		return result;
	qsort(membership->seats, membership->seats_count, sizeof(membership->seats[0]), by_address);
	for (uint32_t i = 0; i < membership->seats_count; i++)
		seat_open(comm, &membership->seats[i]);
	return TALLY_OK;
}

static uint64_t list_add(uint64_t hash, char list[CONTROL_LIST_BYTES], const char *text)
{
	strncat(list, text, CONTROL_LIST_BYTES - 1 - strlen(list));
	return hash_text(hash, text);
}

/* R-CT-10: all ranks must have been given one list; a port may be said or not. */
static void list_fill(struct membership *membership)
{
	char list[CONTROL_LIST_BYTES] = "";
	uint64_t hash = HASH_BEGIN;

	for (uint32_t i = 0; i < membership->seats_count; i++) {
		hash = list_add(hash, list, i ? "," : "");
		hash = list_add(hash, list, membership->seats[i].address.text);
	}
	for (uint32_t i = 0; i < membership->seats_count; i++) {
		membership->seats[i].join.list_hash = hash;
		memcpy(membership->seats[i].join.list, list, sizeof(list));
	}
}

int membership_open(struct tally_comm *comm)
{
	struct membership *membership = calloc(1, sizeof(*membership));
	int result;

	if (!membership)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "tally_comm_init: out of memory");
	result = seats_open(comm, membership);
	if (result) {
		free(membership);
		return result;
	}
	list_fill(membership);
	membership->seats[0].is_begun = true;
	membership->patience.number = UINT64_MAX;
	comm->membership = membership;
	return TALLY_OK;
}

void membership_close(struct tally_comm *comm)
{
	if (!comm->membership)
		return;
	for (uint32_t i = 0; i < comm->membership->seats_count; i++)
		seat_drop(&comm->membership->seats[i]);
	free(comm->membership);
	comm->membership = NULL;
}

void membership_forget(const struct tally_comm *comm)
{
	for (uint32_t i = 0; comm->membership && i < comm->membership->seats_count; i++) {
		int fd = atomic_load(&comm->membership->seats[i].fd);

		if (fd >= 0)
			close(fd);
	}
}
