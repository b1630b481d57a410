/* SPDX-License-Identifier: Apache-2.0 */
/* hook_tc.c - see hook_tc.h. */
#define SWITCH_LANES_MAX 360 /* as in xdp/latency_tc.bpf.c */
#include "dataplane/hook_tc.h"

#include <arpa/inet.h>
#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/xdp/switch_maps.h"

extern const unsigned char latency_tc_bpf[];
extern const size_t latency_tc_bpf_bytes;

enum {
	PRIORITY = 65000, /* of our filters: behind whatever else is likely to be there */
	MAPS_MAX = 16,    /* of a program of ours: it has six */
	/* A frame for tally_step. */
	AT_ETHERTYPE = 12,
	AT_IP = 14,
	AT_UDP = AT_IP + 20,
	AT_PACKET = AT_UDP + 8,
	FRAME_BYTES = AT_PACKET + WIRE_HEADER_BYTES + SWITCH_LANES_MAX * WIRE_LANE_BYTES,
};

#define PROGRAM "tally_hook"
#define SIGN "tally.%hu" /* the name of a sign: which port its program serves */

/* What a program of ours says of the daemon that has loaded it. */
struct sign {
	uint16_t port;
	bool is_alive;
};

struct device {
	char name[IF_NAMESIZE];
	int index;
	bool is_lost; /* the filter is gone, and nothing has put it back yet */
};

struct place { /* of a job */
	uint32_t base, slots, children;
	struct xdp_job value; /* as it is in the map */
};

static_assert((int)HOOK_NAME_BYTES == (int)IF_NAMESIZE, "a device's name is the kernel's");
static_assert(SWITCH_LANES_MAX == HOOK_LANES_MAX,
	      "the program and its users mean the same packets");

struct hook_tc {
	struct hook hook;
	struct bpf_object *object;
	int run, step, jobs, slots, children, counters;
	uint32_t id;  /* of the program that our filters run; 0: it is not loaded */
	int alive_fd; /* a socket that is open as long as we live; -1: none yet */
	uint16_t port;
	struct device device[HOOK_DEVICES_MAX];
	uint32_t devices;
	bool is_used[HOOK_SLOTS_MAX];
	struct place place[SWITCH_JOBS_MAX];
	uint32_t children_count;
	uint64_t *counts; /* [processors], of one verdict */
};

static struct hook_tc *tc_of(struct hook *hook)
{
	return (struct hook_tc *)hook;
}

/* ---- jobs ---- */

/* The first place that has so many slots free in a row; HOOK_SLOTS_MAX: none has. */
static uint32_t room_find(const struct hook_tc *tc, uint32_t slots)
{
	uint32_t free_slots = 0;

	for (uint32_t i = 0; i < HOOK_SLOTS_MAX; i++) {
		free_slots = tc->is_used[i] ? 0 : free_slots + 1;
		if (free_slots == slots)
			return i + 1 - slots;
	}
	return HOOK_SLOTS_MAX;
}

static int tc_add(struct hook *hook, const struct switch_job *job)
{
	static const struct xdp_latency_slot empty;
	struct hook_tc *tc = tc_of(hook);
	uint32_t base = room_find(tc, job->slots);

	if (base == HOOK_SLOTS_MAX || job->index >= SWITCH_JOBS_MAX ||
	    job->children > HOOK_CHILDREN_MAX ||
	    tc->children_count + job->children > XDP_CHILDREN_MAX)
		return -ENOSPC;
	for (uint32_t i = base; i < base + job->slots; i++) {
		if (bpf_map_update_elem(tc->slots, &i, &empty, BPF_ANY))
			return -ENOSPC;
	}
	memset(tc->is_used + base, true, job->slots);
	tc->place[job->index] =
		(struct place){ .base = base, .slots = job->slots, .children = job->children };
	tc->children_count += job->children;
	return 0;
}

static bool tc_set(struct hook *hook, const struct switch_job *job)
{
	struct hook_tc *tc = tc_of(hook);
	struct place *place = &tc->place[job->index];
	uint32_t key = job->index;

	place->value = (struct xdp_job){ .job = *job, .slot_base = place->base };
	if (job->lanes > SWITCH_LANES_MAX)
		place->value.job.enabled = 0;
	return !bpf_map_update_elem(tc->jobs, &key, &place->value, BPF_ANY) &&
	       job->lanes <= SWITCH_LANES_MAX;
}

static void tc_remove(struct hook *hook, uint32_t job)
{
	static const struct xdp_job none;
	struct hook_tc *tc = tc_of(hook);
	struct place *place = &tc->place[job];

	(void)bpf_map_update_elem(tc->jobs, &job, &none, BPF_ANY);
	for (uint32_t i = 0; i < place->children; i++) {
		struct xdp_child key = { .job = job, .child = i };

		(void)bpf_map_delete_elem(tc->children, &key);
	}
	memset(tc->is_used + place->base, 0, place->slots);
	tc->children_count -= place->children;
	*place = (struct place){ 0 };
}

/* Where it is bound by IPv6 its packets are the daemon's. */
static void tc_bind(struct hook *hook, uint32_t job, uint32_t child,
		    const struct link_address *address)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	struct hook_tc *tc = tc_of(hook);
	struct xdp_child key = { .job = job, .child = child };
	struct hook_child value = { .port = htons(address->port) };

	memcpy(&value.address, address->ip + sizeof(v4), sizeof(value.address));
	if (memcmp(address->ip, v4, sizeof(v4)) != 0)
		(void)bpf_map_delete_elem(tc->children, &key);
	else
		(void)bpf_map_update_elem(tc->children, &key, &value, BPF_ANY);
	(void)bpf_map_update_elem(tc->jobs, &job, &tc->place[job].value, BPF_ANY); /* has_paths */
}

/* ---- slots ---- */

static uint32_t frame_make(const struct hook_tc *tc, const struct wire *packet, const int32_t *lane,
			   uint8_t frame[FRAME_BYTES])
{
	uint32_t bytes = wire_bytes(packet->lanes);

	memset(frame, 0, AT_PACKET);
	wire_put16(frame + AT_ETHERTYPE, 0x0800);
	frame[AT_IP] = 0x45;
	wire_put16(frame + AT_IP + 2, (uint16_t)(20 + 8 + bytes));
	frame[AT_IP + 9] = 17;
	wire_put16(frame + AT_UDP + 2, tc->port);
	wire_put16(frame + AT_UDP + 4, (uint16_t)(8 + bytes));
	wire_put(frame + AT_PACKET, packet);
	memcpy(frame + AT_PACKET + WIRE_HEADER_BYTES, lane, bytes - WIRE_HEADER_BYTES);
	return AT_PACKET + bytes;
}

static enum switch_verdict tc_step(struct hook *hook, struct wire *packet, const int32_t *lane,
				   int32_t *sum)
{
	struct hook_tc *tc = tc_of(hook);
	uint8_t in[FRAME_BYTES], out[FRAME_BYTES + 64];
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = in, .data_out = out,
		    .data_size_in = frame_make(tc, packet, lane, in), .data_size_out = sizeof(out));

	if (bpf_prog_test_run_opts(tc->step, &run) || run.retval == HOOK_REFUSED)
		return SWITCH_DROP_JOB; /* it may be on its way out */
	if (run.retval == HOOK_UNFIT)
		return SWITCH_MISMATCH;
	if (run.retval != SWITCH_REPLY && run.retval != SWITCH_MULTICAST)
		return (enum switch_verdict)run.retval;
	wire_get(out + AT_PACKET, packet);
	memcpy(sum, out + AT_PACKET + WIRE_HEADER_BYTES,
	       wire_bytes(packet->lanes) - WIRE_HEADER_BYTES);
	return (enum switch_verdict)run.retval;
}

static void tc_read(struct hook *hook, uint32_t job, uint32_t slot,
		    struct switch_latency_slot *state)
{
	struct hook_tc *tc = tc_of(hook);
	uint32_t key = tc->place[job].base + slot;
	struct xdp_latency_slot value;

	memset(state, 0, sizeof(*state));
	if (!bpf_map_lookup_elem_flags(tc->slots, &key, &value, BPF_F_LOCK))
		*state = value.slot;
}

static void tc_write(struct hook *hook, uint32_t job, uint32_t slot,
		     const struct switch_latency_slot *state)
{
	struct hook_tc *tc = tc_of(hook);
	uint32_t key = tc->place[job].base + slot;
	struct xdp_latency_slot value = { .slot = *state };

	(void)bpf_map_update_elem(tc->slots, &key, &value, BPF_ANY);
}

static void tc_served(struct hook *hook, uint32_t job, struct hook_served *served)
{
	struct hook_tc *tc = tc_of(hook);
	const struct place *place = &tc->place[job];
	struct xdp_latency_slot value;

	memset(served, 0, sizeof(*served));
	for (uint32_t i = place->base; i < place->base + place->slots; i++) {
		if (bpf_map_lookup_elem_flags(tc->slots, &i, &value, BPF_F_LOCK))
			continue;
		served->updates += value.served.updates;
		served->again += value.served.again;
		served->results += value.served.results;
	}
}

static void tc_counts(struct hook *hook, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	struct hook_tc *tc = tc_of(hook);
	int processors = libbpf_num_possible_cpus();

	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		verdict[i] = 0;
		if (bpf_map_lookup_elem(tc->counters, &i, tc->counts))
			continue;
		for (int cpu = 0; cpu < processors; cpu++)
			verdict[i] += tc->counts[cpu];
	}
}

/* ---- life ---- */

/* The verifier's and the loader's own lines say more than one of ours has room for. */
static int silent(enum libbpf_print_level level, const char *format, va_list list)
{
	(void)level;
	(void)format;
	(void)list;
	return 0;
}

static int say(char error[HOOK_ERROR_BYTES], int result, const char *what, const char *name)
{
	snprintf(error, HOOK_ERROR_BYTES, "%s %s: %s", what, name, strerror(-result));
	return result;
}

/* One filter for each port: the priority is the protocol's, the handle says whose it is. */
static void filter_of(uint16_t port, struct bpf_tc_opts *filter)
{
	memset(filter, 0, sizeof(*filter)); /* what is between its fields, too: libbpf looks */
	filter->sz = sizeof(*filter);
	filter->handle = port;
	filter->priority = PRIORITY;
}

/* The program that the port's filter at this device runs; 0: there is none. */
static uint32_t filter_program(uint16_t port, int index)
{
	LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = index, .attach_point = BPF_TC_INGRESS);
	struct bpf_tc_opts filter;

	filter_of(port, &filter);
	return bpf_tc_query(&at, &filter) ? 0 : filter.prog_id;
}

/* From all devices: one of ours may have another number than it had, and another's may be any. */
static void filters_remove(uint16_t port, uint32_t id)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *device = all; device && device->if_index; device++) {
		LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = (int)device->if_index,
			    .attach_point = BPF_TC_INGRESS);
		struct bpf_tc_opts filter;

		if (filter_program(port, at.ifindex) != id)
			continue;
		filter_of(port, &filter);
		(void)bpf_tc_detach(&at, &filter);
	}
	if_freenameindex(all);
}

/* ---- who lives ---- */

/*
 * A filter outlives the daemon that has put it there, so its program has a sign: a map (SOCKMAP) with a socket of the
 * daemon's, which leaves the map when the daemon dies, however it dies. Only root gets at a map. A name would not do, as of
 * a UNIX socket: any user can take it first, or when its owner is dead. Nor would a lock, or a process's number:
 * containers that share a network see neither each other's files nor processes.
 */
static int sign_put(struct hook_tc *tc)
{
	char name[BPF_OBJ_NAME_LEN];
	uint32_t first = 0;
	uint64_t value;
	int map, result;

	tc->alive_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (tc->alive_fd < 0)
		return -errno;
	value = (uint64_t)tc->alive_fd;
	snprintf(name, sizeof(name), SIGN, tc->port);
	map = bpf_map_create(BPF_MAP_TYPE_SOCKMAP, name, sizeof(first), sizeof(value), 1, NULL);
	if (map < 0)
		return map;
	result = bpf_map_update_elem(map, &first, &value, BPF_ANY);
	if (!result)
		result = bpf_prog_bind_map(tc->run, map, NULL);
	close(map);
	return result;
}

static bool map_read(uint32_t id, struct sign *sign)
{
	struct bpf_map_info info = { 0 };
	uint32_t bytes = sizeof(info), first = 0;
	int fd = bpf_map_get_fd_by_id(id);
	bool is_sign = fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &bytes) &&
		       info.type == BPF_MAP_TYPE_SOCKMAP &&
		       sscanf(info.name, SIGN, &sign->port) == 1;
	uint64_t cookie;

	if (is_sign)
		sign->is_alive = !bpf_map_lookup_elem(fd, &first, &cookie) || errno != ENOENT;
	if (fd >= 0)
		close(fd);
	return is_sign;
}

/* False: the program is none of ours, or not for us to look at. */
static bool sign_read(uint32_t program, struct sign *sign)
{
	uint32_t map[MAPS_MAX];
	struct bpf_prog_info info = { .nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)map };
	uint32_t bytes = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(program);
	bool is_known = fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &bytes);

	if (fd >= 0)
		close(fd);
	if (!is_known || strcmp(info.name, PROGRAM) != 0)
		return false;
	for (uint32_t i = 0; i < info.nr_map_ids && i < MAPS_MAX; i++)
		if (map_read(map[i], sign))
			return true;
	return false;
}

/* A daemon that was killed leaves its filters behind, and with them its slots (R-CT-14): for any port, for we may have
 * fewer shards than it had, and on any device, for we may be given others, or none. Who puts a new one in its place at
 * this very moment may lose it, and will notice (tc_look). */
static void detach_left(void)
{
	uint32_t program = 0;
	struct sign sign;

	while (!bpf_prog_get_next_id(program, &program))
		if (sign_read(program, &sign) && !sign.is_alive)
			filters_remove(sign.port, program);
}

/* Puts the filter there, unless another has its place. */
static int attach(const struct hook_tc *tc, int index)
{
	LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = index, .attach_point = BPF_TC_INGRESS);
	struct bpf_tc_opts filter;
	int result = bpf_tc_hook_create(&at);

	if (result && result != -EEXIST)
		return result;
	filter_of(tc->port, &filter);
	filter.prog_fd = tc->run;
	return bpf_tc_attach(&at, &filter);
}

static int taken_say(const struct hook_tc *tc, const struct device *device,
		     char error[HOOK_ERROR_BYTES])
{
	struct sign sign;

	if (sign_read(filter_program(tc->port, device->index), &sign)) {
		snprintf(error, HOOK_ERROR_BYTES,
			 "another tallyd serves port %u at %s in the kernel: choose "
			 "another port, or another device",
			 tc->port, device->name);
		return -EADDRINUSE;
	}
	snprintf(error, HOOK_ERROR_BYTES,
		 "%s has a filter already with priority %d and handle %#x, and it is not known to "
		 "be a dead tallyd's: remove it, or choose another port",
		 device->name, PRIORITY, tc->port);
	return -EEXIST;
}

static int attach_all(const struct hook_tc *tc, char error[HOOK_ERROR_BYTES])
{
	for (uint32_t i = 0; i < tc->devices; i++) {
		int result = attach(tc, tc->device[i].index);

		if (result == -EEXIST)
			return taken_say(tc, &tc->device[i], error);
		if (result)
			return say(error, result, "cannot attach to", tc->device[i].name);
	}
	return 0;
}

/* ---- filters that somebody takes away ---- */

/* One of the name may be another device by now. What has come in its place may be dead, too. */
static int attach_again(const struct hook_tc *tc, struct device *device)
{
	int index = (int)if_nametoindex(device->name);

	if (!index)
		return -ENODEV;
	device->index = index;
	detach_left();
	return attach(tc, index);
}

static bool tc_look(struct hook *hook, struct hook_news *news)
{
	struct hook_tc *tc = tc_of(hook);

	for (uint32_t i = 0; i < tc->devices; i++) {
		struct device *device = &tc->device[i];
		bool was_lost = device->is_lost;
		int result;

		if (filter_program(tc->port, device->index) == tc->id)
			continue;
		result = attach_again(tc, device);
		device->is_lost = result;
		if (result && was_lost)
			continue; /* it was said */
		*news = (struct hook_news){ .error = result };
		memcpy(news->device, device->name, sizeof(device->name));
		return true;
	}
	return false;
}

static bool is_named(const struct hook_tc *tc, int index)
{
	for (uint32_t i = 0; i < tc->devices; i++)
		if (tc->device[i].index == index)
			return true;
	return false;
}

static int devices_parse(struct hook_tc *tc, const char *names, char error[HOOK_ERROR_BYTES])
{
	for (const char *at = names; *at;) {
		struct device *device = &tc->device[tc->devices];
		size_t length = strcspn(at, ",");

		if (tc->devices == HOOK_DEVICES_MAX || !length || length >= sizeof(device->name)) {
			snprintf(error, HOOK_ERROR_BYTES, "%s: 1 to %d devices' names", names,
				 HOOK_DEVICES_MAX);
			return -EINVAL;
		}
		snprintf(device->name, sizeof(device->name), "%.*s", (int)length, at);
		device->index = (int)if_nametoindex(device->name);
		if (!device->index)
			return say(error, -ENODEV, "device", device->name);
		if (is_named(tc, device->index))
			return say(error, -EEXIST, "device", device->name);
		tc->devices++;
		at += length + (at[length] == ',');
	}
	if (tc->devices)
		return 0;
	snprintf(error, HOOK_ERROR_BYTES, "no device is named");
	return -EINVAL;
}

static int load(struct hook_tc *tc, char error[HOOK_ERROR_BYTES])
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "tally");
	struct bpf_prog_info info = { 0 };
	uint32_t info_bytes = sizeof(info);
	struct bpf_map *constants;
	size_t bytes;
	const void *was;
	int result;

	tc->object = bpf_object__open_mem(latency_tc_bpf, latency_tc_bpf_bytes, &options);
	if (!tc->object)
		return say(error, -errno, "cannot read", "the switch program");
	constants = bpf_object__find_map_by_name(tc->object, ".rodata");
	was = constants ? bpf_map__initial_value(constants, &bytes) : NULL;
	if (!was || bytes != sizeof(tc->port) ||
	    bpf_map__set_initial_value(constants, &tc->port, bytes))
		return say(error, -EINVAL, "no port in", "the switch program");
	result = bpf_object__load(tc->object);
	if (result)
		return say(error, result, "the kernel refuses", "the switch program");
	tc->run = bpf_program__fd(bpf_object__find_program_by_name(tc->object, PROGRAM));
	tc->step = bpf_program__fd(bpf_object__find_program_by_name(tc->object, "tally_step"));
	tc->jobs = bpf_object__find_map_fd_by_name(tc->object, "jobs");
	tc->slots = bpf_object__find_map_fd_by_name(tc->object, "slots");
	tc->children = bpf_object__find_map_fd_by_name(tc->object, "children");
	tc->counters = bpf_object__find_map_fd_by_name(tc->object, "counters");
	result = sign_put(tc);
	if (!result)
		result = bpf_obj_get_info_by_fd(tc->run, &info, &info_bytes);
	if (result)
		return say(error, result, "cannot sign", "the switch program");
	tc->id = info.id;
	return 0;
}

static void tc_close(struct hook *hook)
{
	struct hook_tc *tc = tc_of(hook);

	if (tc->id)
		filters_remove(tc->port, tc->id);
	if (tc->alive_fd >= 0)
		close(tc->alive_fd);
	bpf_object__close(tc->object);
	free(tc->counts);
	free(tc);
}

int hook_tc_open(struct hook **hook, const char *devices, uint16_t port,
		 char error[HOOK_ERROR_BYTES])
{
	static const struct hook_ops ops = {
		.add = tc_add,
		.set = tc_set,
		.remove = tc_remove,
		.bind = tc_bind,
		.step = tc_step,
		.read = tc_read,
		.write = tc_write,
		.served = tc_served,
		.counts = tc_counts,
		.look = tc_look,
		.close = tc_close,
	};
	struct hook_tc *tc = devices ? calloc(1, sizeof(*tc)) : NULL;
	int result = -ENOMEM;

	libbpf_set_print(silent);
	detach_left();
	if (!devices) {
		*hook = NULL;
		return 0;
	}
	snprintf(error, HOOK_ERROR_BYTES, "out of memory");
	if (tc) {
		tc->hook.ops = &ops;
		tc->port = port;
		tc->alive_fd = -1;
		tc->counts = calloc((size_t)libbpf_num_possible_cpus(), sizeof(*tc->counts));
		result = tc->counts ? devices_parse(tc, devices, error) : -ENOMEM;
		if (!result)
			result = load(tc, error);
		if (!result)
			result = attach_all(tc, error);
		if (result)
			tc_close(&tc->hook);
		else
			*hook = &tc->hook;
	}
	return result;
}
