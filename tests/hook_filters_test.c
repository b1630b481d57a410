/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a filter where (src/dataplane/hook_tc.c), and which jobs have room behind it; what it does with packets is
 * hook_test's. In a network namespace of its own. Exit status 77: what is needed is not there.
 */
#define SWITCH_LANES_MAX 360 /* as in latency_tc.bpf.c */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataplane/hook_tc.h"
#include "dataplane/xdp/switch_maps.h"
#include "tests/skip.h"

enum { PORT = 7171 };

static struct hook *hook;

static void jobs__that_do_not_fit_are_the_daemons(void **state)
{
	struct switch_job many = { .slots = 3000, .lanes = 8 }, wide = { .slots = 4, .lanes = 364 };

	(void)state;
	switch_job_fill(&many, 65);
	assert_int_equal(hook->ops->add(hook, &many), -ENOSPC);
	switch_job_fill(&many, 64);
	assert_int_equal(hook->ops->add(hook, &many), 0);
	many.index = 1;
	assert_int_equal(hook->ops->add(hook, &many), -ENOSPC); /* no room for 3,000 more */
	many.slots = 1096;
	assert_int_equal(hook->ops->add(hook, &many), 0);
	switch_job_fill(&wide, 2);
	wide.index = 2;
	assert_int_equal(hook->ops->add(hook, &wide), -ENOSPC);
	hook->ops->remove(hook, 0);
	assert_int_equal(hook->ops->add(hook, &wide), 0);
	assert_false(hook->ops->set(hook, &wide)); /* more lanes than the program knows */
	hook->ops->remove(hook, 1);
	hook->ops->remove(hook, 2);
	many.slots = 4096;
	assert_int_equal(hook->ops->add(hook, &many), 0);
	hook->ops->remove(hook, 1);
	hook->ops->remove(hook, 1); /* one that is not there, too */
}

/* As many as the map has room for, of all jobs together: none is lost when a job ends. */
static void jobs__give_their_children_back(void **state)
{
	enum { JOBS = XDP_CHILDREN_MAX / HOOK_CHILDREN_MAX };
	struct switch_job job = { .slots = 1, .lanes = 8 };

	(void)state;
	switch_job_fill(&job, HOOK_CHILDREN_MAX);
	for (uint32_t life = 0; life < 3; life++) {
		for (job.index = 0; job.index < JOBS; job.index++)
			assert_int_equal(hook->ops->add(hook, &job), 0);
		switch_job_fill(&job, 1);
		assert_int_equal(hook->ops->add(hook, &job), -ENOSPC);
		hook->ops->remove(hook, 7);
		assert_int_equal(hook->ops->add(hook, &job), 0);
		switch_job_fill(&job, HOOK_CHILDREN_MAX);
		for (uint32_t i = 0; i <= JOBS; i++)
			hook->ops->remove(hook, i);
	}
}

static void devices__that_there_are_not_are_named(void **state)
{
	char error[HOOK_ERROR_BYTES];
	struct hook *none;

	(void)state;
	assert_int_equal(hook_tc_open(&none, "lo,nosuch0", PORT, error), -ENODEV);
	assert_non_null(strstr(error, "nosuch0"));
	assert_int_equal(hook_tc_open(&none, "", PORT, error), -EINVAL);
	assert_int_equal(hook_tc_open(&none, "lo,,lo", PORT, error), -EINVAL);
	assert_non_null(strstr(error, "lo,,lo"));
	assert_int_equal(hook_tc_open(&none, "a-name-that-is-too-long", PORT, error), -EINVAL);
}

/* The program behind the port's filter; 0: there is none. */
static uint32_t program_of(const char *device, int port)
{
	char command[160], line[256];
	uint32_t id = 0;
	FILE *tc;

	snprintf(command, sizeof(command), "tc filter show dev %s ingress | grep 'handle %#x '",
		 device, port);
	tc = popen(command, "r");
	assert_non_null(tc);
	while (fgets(line, sizeof(line), tc)) {
		const char *at = strstr(line, " id ");

		if (at)
			id = (uint32_t)strtoul(at + 4, NULL, 10);
	}
	pclose(tc);
	return id;
}

static uint32_t program_at(const char *device)
{
	return program_of(device, PORT);
}

static struct hook *open_at(const char *devices)
{
	char error[HOOK_ERROR_BYTES];
	struct hook *opened;

	assert_int_equal(hook_tc_open(&opened, devices, PORT, error), 0);
	return opened;
}

/* It ends without a word. */
static void killed_at(const char *device, uint16_t port)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		char error[HOOK_ERROR_BYTES];
		struct hook *opened;

		_exit(hook_tc_open(&opened, device, port, error) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(program_of(device, port));
}

/* Or the test ends here. */
static void device_make(const char *name)
{
	char command[128];

	snprintf(command, sizeof(command),
		 "ip link add %s type dummy 2>/dev/null || ip link add %s type veth", name, name);
	if (system(command))
		SKIP("no second device: this kernel has neither dummy nor veth");
}

static void filters__of_one_who_was_killed_are_replaced_and_taken_away(void **state)
{
	uint32_t dead;

	(void)state;
	hook->ops->close(hook);
	assert_int_equal(program_at("lo"), 0);
	killed_at("lo", PORT);
	dead = program_at("lo");
	hook = open_at("lo");
	assert_int_not_equal(program_at("lo"), dead);
	hook->ops->close(hook);
	assert_int_equal(program_at("lo"), 0);
	hook = open_at("lo");
	assert_int_not_equal(program_at("lo"), 0);
}

/* Who comes after may be given other devices, or none; its slots must not go on. */
static void filters__of_one_who_was_killed_go_from_every_device(void **state)
{
	char error[HOOK_ERROR_BYTES];
	struct hook *none = hook;

	(void)state;
	device_make("left0");
	hook->ops->close(hook);
	killed_at("left0", PORT);
	hook = open_at("lo");
	assert_int_equal(program_at("left0"), 0);
	assert_int_not_equal(program_at("lo"), 0);
	killed_at("left0", PORT);
	assert_int_equal(hook_tc_open(&none, NULL, PORT, error), 0);
	assert_null(none);
	assert_int_equal(program_at("left0"), 0);
	assert_int_not_equal(program_at("lo"), 0); /* ours: we are alive */
	assert_int_equal(system("ip link del left0"), 0);
}

/* Who comes after may have fewer shards, or none of its ports. */
static void filters__of_one_who_was_killed_go_whatever_their_port(void **state)
{
	char error[HOOK_ERROR_BYTES];
	struct hook *none;

	(void)state;
	for (uint16_t port = PORT + 1; port < PORT + 4; port++)
		killed_at("lo", port);
	for (uint16_t port = PORT + 1; port < PORT + 3; port++)
		assert_int_equal(program_of("lo", port), 0);
	assert_int_equal(hook_tc_open(&none, NULL, PORT, error), 0);
	assert_int_equal(program_of("lo", PORT + 3), 0);
	assert_int_not_equal(program_at("lo"), 0);
}

/* A filter of neither the living nor the dead is not ours to take away, even where ours should be. */
static void filters__of_others_are_left_alone(void **state)
{
	char error[HOOK_ERROR_BYTES];
	struct hook *other;

	(void)state;
	assert_int_equal(system("tc filter add dev lo ingress pref 65000 handle 0x1c04 "
				"protocol all bpf bytecode '1,6 0 0 4294967295,'"),
			 0);
	assert_int_equal(hook_tc_open(&other, "lo", 0x1c04, error), -EEXIST);
	assert_non_null(strstr(error, "lo has a filter already"));
	assert_non_null(strstr(error, "0x1c04"));
	assert_int_equal(system("tc filter del dev lo ingress pref 65000 handle 0x1c04 "
				"protocol all bpf"),
			 0);
	other = NULL;
	assert_int_equal(hook_tc_open(&other, "lo", 0x1c04, error), 0);
	other->ops->close(other);
}

/* Two daemons may have one port, at different addresses: the second is told, and the first goes on. */
static void filters__of_the_living_are_left_alone(void **state)
{
	char error[HOOK_ERROR_BYTES];
	uint32_t ours = program_at("lo");
	struct hook *other;

	(void)state;
	assert_int_equal(hook_tc_open(&other, "lo", PORT, error), -EADDRINUSE);
	assert_non_null(strstr(error, "7171 at lo"));
	assert_int_equal(program_at("lo"), ours);
	assert_int_equal(hook_tc_open(&other, "lo", PORT + 1, error), 0);
	other->ops->close(other);
	device_make("left0");
	other = open_at("left0");
	assert_int_not_equal(program_at("left0"), 0);
	assert_int_equal(program_at("lo"), ours);
	other->ops->close(other);
	/* Who is refused leaves nothing where it could come in. */
	assert_int_equal(hook_tc_open(&other, "left0,lo", PORT, error), -EADDRINUSE);
	assert_int_equal(program_at("left0"), 0);
	assert_int_equal(system("ip link del left0"), 0);
	assert_int_equal(program_at("lo"), ours);
}

static void news_is(struct hook *of, const char *device, int error)
{
	struct hook_news news;

	assert_true(of->ops->look(of, &news));
	assert_string_equal(news.device, device);
	assert_int_equal(news.error, error);
	assert_false(of->ops->look(of, &news)); /* said once */
}

static void filters__that_others_take_away_are_put_back(void **state)
{
	struct hook_news news;
	struct hook *other;

	(void)state;
	assert_false(hook->ops->look(hook, &news));
	assert_int_equal(system("tc filter del dev lo ingress pref 65000"), 0);
	assert_int_equal(program_at("lo"), 0);
	news_is(hook, "lo", 0);
	assert_int_not_equal(program_at("lo"), 0);
	assert_int_equal(system("tc qdisc del dev lo clsact"), 0);
	news_is(hook, "lo", 0);
	assert_int_not_equal(program_at("lo"), 0);
	device_make("left0");
	other = open_at("left0");
	assert_int_equal(system("ip link del left0"), 0);
	news_is(other, "left0", -ENODEV);
	device_make("left0"); /* another, of that name */
	news_is(other, "left0", 0);
	assert_int_not_equal(program_at("left0"), 0);
	other->ops->close(other);
	assert_int_equal(program_at("left0"), 0);
	assert_int_equal(system("ip link del left0"), 0);
}

/* libbpf says on stderr what the kernel says of a hook that is there already. */
static void words__of_the_library_are_kept_to_itself(void **state)
{
	int log = memfd_create("log", 0), was = dup(STDERR_FILENO);
	struct hook *other;
	char error[HOOK_ERROR_BYTES];
	int result;

	(void)state;
	assert_true(log >= 0);
	assert_true(was >= 0);
	dup2(log, STDERR_FILENO);
	result = hook_tc_open(&other, "lo", PORT + 1, error);
	dup2(was, STDERR_FILENO);
	close(was);
	assert_int_equal(result, 0);
	assert_int_equal(lseek(log, 0, SEEK_END), 0);
	close(log);
	other->ops->close(other);
}

/* Nobody takes it from who was quicker; when that one is gone it is ours again. */
static void filters__that_another_has_got_meanwhile_come_back_when_it_is_gone(void **state)
{
	struct hook *other;

	(void)state;
	assert_int_equal(system("tc filter del dev lo ingress pref 65000"), 0);
	other = open_at("lo");
	news_is(hook, "lo", -EEXIST);
	other->ops->close(other);
	news_is(hook, "lo", 0);
	assert_int_equal(system("tc filter del dev lo ingress pref 65000"), 0);
	killed_at("lo", PORT);
	news_is(hook, "lo", 0);
	assert_int_not_equal(program_at("lo"), 0);
	hook->ops->close(hook);
	assert_int_equal(program_at("lo"), 0); /* it was ours */
	hook = open_at("lo");
}

static int descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void filters__keep_nothing_of_their_daemon_open(void **state)
{
	int before = descriptors();
	char error[HOOK_ERROR_BYTES];
	struct hook *other;

	(void)state;
	assert_int_equal(hook_tc_open(&other, "lo", PORT + 1, error), 0);
	assert_true(descriptors() > before);
	other->ops->close(other);
	assert_int_equal(descriptors(), before);
}

static int group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs__that_do_not_fit_are_the_daemons),
		cmocka_unit_test(jobs__give_their_children_back),
		cmocka_unit_test(devices__that_there_are_not_are_named),
		cmocka_unit_test(filters__of_one_who_was_killed_are_replaced_and_taken_away),
		cmocka_unit_test(filters__of_one_who_was_killed_go_from_every_device),
		cmocka_unit_test(filters__of_one_who_was_killed_go_whatever_their_port),
		cmocka_unit_test(filters__of_others_are_left_alone),
		cmocka_unit_test(filters__of_the_living_are_left_alone),
		cmocka_unit_test(words__of_the_library_are_kept_to_itself),
		cmocka_unit_test(filters__that_others_take_away_are_put_back),
		cmocka_unit_test(filters__that_another_has_got_meanwhile_come_back_when_it_is_gone),
		cmocka_unit_test(filters__keep_nothing_of_their_daemon_open),
	};

	return cmocka_run_group_tests_name("hook-filters", tests, NULL, NULL);
}

int main(void)
{
	char error[HOOK_ERROR_BYTES];
	int result;

	if (unshare(CLONE_NEWNET)) {
		printf("SKIP: no network namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	result = hook_tc_open(&hook, "lo", PORT, error);
	if (result == -EPERM || result == -ENOSYS || result == -ENOTSUP) {
		printf("SKIP: %s\n", error);
		return 77;
	}
	if (result) {
		printf("FAILED: %s\n", error);
		return 1;
	}
	result = group();
	hook->ops->close(hook);
	return result;
}
