/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_test.c - power cuts, on a disk that forgets what was not synced (disk.h): tables with a log and with checkpoints,
 * and files of tally glm. Each life goes on until it is killed at an operation that is drawn; then all or some of what was
 * not synced is gone. Nothing that was acknowledged may be, and what is there is a beginning of what was done.
 *
 * Usage: power_test [CRASHES [SEED]]
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "glm/checkpoint.h"
#include "ps/table.h"
#include "tests/disk/disk.h"
#include "util/rng.h"
#include "util/whole.h"

enum {
	CRASHES = 60, /* of each kind */
	KEYS = 24,
	VALUE_MAX = 40,
	OPERATIONS = 150, /* of a life, at most */
	WAIT_MS = 20000,
	INCARNATION = 5,
	STATE_BYTES = 5000,
	LOG_BYTES = 3000
};

static uint32_t crashes = CRASHES;
static uint64_t seed = 20;
static char top[] = "/tmp/tally-power-XXXXXX", root[64], beside[64];
static struct disk *disk;
static struct outbox outbox;
static const struct link_address at_switch = { .port = 1 };

/* What a life has been told: children write it, the test reads it. */
static struct told {
	uint64_t batches, barriers; /* acknowledged */
	uint64_t checkpointed;      /* batches in the last checkpoint that is written */
	uint64_t checkpoints, ends, states;
	bool has_begun;
} * told;

/* ---- a table ---- */

static void on_change(void *arg)
{
	(void)arg;
}

static enum ps_durability durability;

static struct ps_table_options options_of(const char *folder)
{
	return (struct ps_table_options){ .name = "T",
					  .dim = 1,
					  .workers = 1,
					  .window = 1,
					  .bytes = 1472,
					  .optimiser = optimiser_default(OPTIMISER_SUM),
					  .unit = 1,
					  .durability = durability,
					  .folder = folder,
					  .changed = on_change };
}

__attribute__((noreturn, format(printf, 1, 2))) static void lost(const char *format, ...)
{
	va_list arguments;

	if (disk->is_over) /* its child was the first to end, and that is what it says */
		raise(SIGKILL);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(1);
}

static struct ps_table *open_at(const char *folder)
{
	struct ps_table_options options = options_of(folder);
	char error[PS_ERROR_MAX];
	struct ps_table *table;

	if (ps_table_open(&table, &options, &outbox, error))
		lost("it does not begin: %s", error);
	return table;
}

/* What batch `number` pushes: of both signs. */
static float value_of(uint64_t number, uint64_t key)
{
	struct rng rng;

	rng_init(&rng, seed, number * KEYS + key);
	return (float)((int)rng_below(&rng, 2 * VALUE_MAX + 1) - VALUE_MAX);
}

static uint64_t batches_of(const struct ps_table *table)
{
	uint64_t next = home_sparse_server(table->home)->memory.worker[0].next;

	return next ? next - 1 : 0;
}

/* The sums of the first so many batches, added up without it. */
static void look(const struct ps_table *table, uint64_t at_least, uint64_t barriers)
{
	uint64_t batches = batches_of(table);

	if (batches < at_least)
		lost("%llu batches are there, and %llu were acknowledged",
		     (unsigned long long)batches, (unsigned long long)at_least);
	if (table->kv.barrier < barriers)
		lost("barrier %llu is the last, and %llu was acknowledged",
		     (unsigned long long)table->kv.barrier, (unsigned long long)barriers);
	for (uint64_t key = 0; key < KEYS; key++) {
		float sum = 0, value;

		for (uint64_t number = 1; number <= batches; number++)
			sum += value_of(number, key);
		store_read(table->store, key, &value);
		if (value != sum)
			lost("key %llu has %g and not %g, after %llu batches",
			     (unsigned long long)key, (double)value, (double)sum,
			     (unsigned long long)batches);
	}
}

static void pause_us(uint32_t us)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000 * (long)us }, NULL);
}

/* Waits, and says what was acknowledged by then. */
static void settle(struct ps_table *table)
{
	uint64_t position = ps_table_position(table);

	for (uint32_t i = 0; !ps_table_is_durable(table, position); i++) {
		if (i > 20 * WAIT_MS)
			lost("nothing becomes durable");
		pause_us(50);
	}
	if (durability == PS_LOG && told->batches < batches_of(table))
		told->batches = batches_of(table);
	if (told->barriers < table->kv.barrier)
		told->barriers = table->kv.barrier;
}

static void push(struct ps_table *table)
{
	static uint64_t key[KEYS];
	static float value[KEYS];
	uint64_t number = batches_of(table) + 1;

	for (uint64_t i = 0; i < KEYS; i++) {
		key[i] = i;
		value[i] = value_of(number, i);
	}
	if (ps_table_batch(table, 0, INCARNATION, number, key, value, KEYS) != PS_BATCH_TAKEN)
		lost("batch %llu is not taken", (unsigned long long)number);
}

static uint64_t saving; /* batches in the checkpoint that is written */

static void checkpoint_look(struct ps_table *table)
{
	char error[PS_ERROR_MAX];

	if (ps_table_checkpoint_turn(table, error) <= 0)
		return;
	told->checkpointed = saving;
	told->checkpoints++;
}

/* However slow its writer is. */
static void checkpoint_wait(struct ps_table *table)
{
	for (uint32_t i = 0; table->checkpoint; i++) {
		if (i > 20 * WAIT_MS)
			lost("a checkpoint is not written");
		checkpoint_look(table);
		pause_us(50);
	}
}

static void table_begin(struct ps_table *table)
{
	home_sparse_fence(table->home, 0);
	home_sparse_instance(table->home, 1, 0, &at_switch);
	home_sparse_join(table->home, 0, INCARNATION);
	settle(table);
}

static void one_step(struct ps_table *table, struct rng *rng)
{
	char error[PS_ERROR_MAX];

	checkpoint_look(table);
	switch (rng_below(rng, 12)) {
	case 0:
		if (!table->checkpoint)
			saving = batches_of(table);
		if (ps_table_checkpoint(table, error))
			lost("%s", error);
		break;
	case 1:
		ps_table_barrier(table, table->kv.barrier + 1);
		break;
	case 2:
		checkpoint_wait(table);
		break;
	case 3:
	case 4:
		settle(table);
		break;
	default:
		push(table);
	}
}

/* In a child: until it is killed, or ends as it should. */
static void table_life(uint64_t chance)
{
	struct ps_table *table;
	char error[PS_ERROR_MAX];
	struct rng rng;

	rng_init(&rng, seed, chance);
	table = open_at(root);
	look(table, durability == PS_LOG ? told->batches : told->checkpointed, told->barriers);
	table_begin(table);
	for (uint32_t i = rng_below(&rng, 200); i; i--)
		one_step(table, &rng);
	settle(table);
	saving = batches_of(table);
	if (ps_table_end(table, error))
		lost("%s", error);
	ps_table_close(table);
	if (durability == PS_CHECKPOINT)
		told->checkpointed = saving;
	told->ends++;
	_exit(0);
}

/* ---- files of tally glm ---- */

static void state_make(uint64_t number, uint8_t *state)
{
	struct rng rng;

	rng_init(&rng, seed, number);
	for (uint32_t i = 0; i < STATE_BYTES; i++)
		state[i] = (uint8_t)rng_next(&rng);
	memcpy(state, &number, sizeof(number));
}

static uint64_t file_look(const char *path)
{
	static uint8_t want[STATE_BYTES];
	char error[GLM_ERROR_MAX] = "";
	uint64_t number = 0;
	size_t bytes;
	void *state;

	if (checkpoint_read(path, &state, &bytes, error)) {
		if (told->states || access(path, F_OK) == 0)
			lost("checkpoint %llu was written: %s", (unsigned long long)told->states,
			     error);
		return 0;
	}
	memcpy(&number, state, sizeof(number));
	state_make(number, want);
	if (bytes != STATE_BYTES || memcmp(state, want, bytes) != 0 || number < told->states)
		lost("checkpoint %llu is there, and %llu was written", (unsigned long long)number,
		     (unsigned long long)told->states);
	free(state);
	return number;
}

static void file_life(uint64_t chance)
{
	static uint8_t state[STATE_BYTES];
	char path[96], error[GLM_ERROR_MAX];
	uint64_t number;

	(void)chance;
	snprintf(path, sizeof(path), "%s/checkpoint", root);
	number = file_look(path);
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		state_make(++number, state);
		if (checkpoint_write(path, state, sizeof(state), error))
			lost("%s", error);
		told->states = number;
	}
	_exit(0);
}

/* ---- lives ---- */

/* A child does that, minded. Its exit status; -1: it was killed. */
static int child_run(void (*run)(uint64_t), uint64_t argument)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		disk_mind(disk);
		run(argument);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int begin(void **state)
{
	(void)state;
	memset(told, 0, sizeof(*told));
	if (mkdir(root, 0700))
		return -1;
	disk = disk_begin(root, beside);
	return 0;
}

static int end(void **state)
{
	(void)state;
	disk_end(disk);
	return 0;
}

/* Most lives end in a power cut, some by being killed, some well. */
static void lives(void (*life)(uint64_t), uint32_t operations)
{
	struct rng rng;

	rng_init(&rng, seed, 1);
	for (uint32_t i = 0, crashed = 0; crashed < crashes; i++) {
		int status;

		disk->kill_at = disk->operations + 1 + rng_below(&rng, operations);
		status = child_run(life, i);

		if (status > 0)
			fail_msg("seed %llu, life %u: see above", (unsigned long long)seed, i);
		if (rng_below(&rng, 4)) {
			disk_crash(disk, rng_next(&rng), DISK_DRAWN);
			crashed++;
		} else {
			disk_kill(disk);
		}
	}
	assert_true(child_run(life, 1000000) == 0);
}

static void power__table_with_a_log_loses_nothing(void **unused)
{
	(void)unused;
	durability = PS_LOG;
	lives(table_life, OPERATIONS);
	assert_true(told->batches > crashes);
	assert_true(told->checkpoints > crashes / 8);
	assert_true(told->ends > 0);
}

static void power__table_with_checkpoints_has_its_last_one(void **unused)
{
	(void)unused;
	durability = PS_CHECKPOINT;
	lives(table_life, OPERATIONS);
	assert_true(told->checkpointed > crashes);
	assert_true(told->barriers > crashes / 2);
}

static void power__checkpoint_of_a_trainer_is_the_last_or_the_next(void **unused)
{
	(void)unused;
	lives(file_life, OPERATIONS);
	assert_true(told->states > crashes);
}

/* ---- by themselves: what a crash at random would show too rarely ---- */

/* One of its syncs fails, or none. */
static void push_some(uint64_t fails)
{
	struct ps_table *table = open_at(root);
	char error[PS_ERROR_MAX];

	table_begin(table);
	disk->fail_at = fails ? disk->syncs + fails : 0;
	for (int i = 0; i < 10; i++) {
		push(table);
		if (fails)
			settle(table);
	}
	settle(table);
	if (!fails && ps_table_end(table, error))
		lost("%s", error);
	ps_table_close(table);
}

static void open_and_say(uint64_t unused)
{
	struct ps_table *table = open_at(root);

	(void)unused;
	look(table, told->batches, 0);
	table_begin(table);
	_exit(0);
}

/* As a writer that was forked a moment before. */
static void power__who_has_done_nothing_yet_dies_with_the_others(void **unused)
{
	char path[96], byte = 0;
	int go[2], ready[2], status;
	pid_t pid;

	(void)unused;
	snprintf(path, sizeof(path), "%s/late", root);
	assert_int_equal(pipe(go) | pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		disk_mind(disk);
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(mkdir(path, 0700) ? 1 : 0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	disk_kill(disk);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(path, F_OK), -1);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
}

/* A folder that was put back from a copy: who is told of what it has may rely on it. */
static void power__what_is_read_is_on_the_disk(void **unused)
{
	char command[160];

	(void)unused;
	durability = PS_LOG;
	assert_int_equal(child_run(push_some, 0), 0);
	assert_int_equal(told->batches, 10);
	for (int i = 0; i < DISK_FILES; i++) /* as a copy is that nobody has synced */
		disk->file[i].low = 0;
	snprintf(command, sizeof(command), "for f in %s/f.*; do : >$f; done", beside);
	assert_int_equal(system(command), 0);
	assert_int_equal(child_run(open_and_say, 0), 0);
	disk_crash(disk, 1, 0);
	assert_int_equal(child_run(open_and_say, 0), 0);
}

static void log_cut(uint64_t unused)
{
	char path[96];
	int fd;

	(void)unused;
	snprintf(path, sizeof(path), "%s/T.0.log", root);
	fd = open(path, O_RDWR);
	if (fd < 0 || ftruncate(fd, 2000) || fsync(fd) || close(fd))
		lost("%s: %s", path, strerror(errno));
}

static void accept_and_push(uint64_t unused)
{
	struct ps_table_options options = options_of(root);
	char error[PS_ERROR_MAX];
	struct ps_table *table;

	(void)unused;
	options.accepts_loss = true;
	if (ps_table_open(&table, &options, &outbox, error) || !table->has_lost)
		lost("it does not begin: %s", error);
	told->batches = 0;
	table_begin(table);
	push(table);
	settle(table);
	_exit(0);
}

/* The logs behind it do not come back, with what they say of this one. */
static void power__accepted_loss_stays_accepted(void **unused)
{
	(void)unused;
	durability = PS_LOG;
	assert_int_equal(child_run(push_some, 0), 0);
	assert_int_equal(child_run(log_cut, 0), 0);
	assert_int_equal(child_run(accept_and_push, 0), 0);
	assert_true(told->batches > 1);
	disk_crash(disk, 1, 0);
	assert_int_equal(child_run(open_and_say, 0), 0);
}

static char under[96];

static void make_and_push(uint64_t unused)
{
	struct ps_table *table;
	char above[96];

	(void)unused;
	snprintf(above, sizeof(above), "%s/a", root);
	if (mkdir(above, 0700) || mkdir(under, 0700))
		lost("%s", strerror(errno));
	table = open_at(under);
	table_begin(table);
	push(table);
	settle(table);
	ps_table_close(table);
}

static void look_under(uint64_t unused)
{
	(void)unused;
	look(open_at(under), 1, 0);
	_exit(0);
}

static void power__new_folders_stay_where_they_are(void **unused)
{
	(void)unused;
	durability = PS_LOG;
	snprintf(under, sizeof(under), "%s/a/b", root);
	assert_int_equal(child_run(make_and_push, 0), 0);
	disk_crash(disk, 1, 0);
	assert_int_equal(child_run(look_under, 0), 0);
}

/* Linux forgets what it could not write, and says once that it could not. */
static void power__failed_sync_is_written_again(void **unused)
{
	(void)unused;
	durability = PS_LOG;
	for (uint64_t i = 1; i < 4; i++) {
		assert_int_equal(child_run(push_some, i), 0);
		disk_crash(disk, i, 0);
		assert_int_equal(child_run(open_and_say, 0), 0);
	}
}

static uint8_t body[LOG_BYTES];

static void log_fail(uint64_t unused)
{
	struct log_options options = { .path = under, .changed = on_change };
	char error[PS_ERROR_MAX];
	struct log *log;

	(void)unused;
	if (log_open(&log, &options, error))
		lost("%s", error);
	disk->fail_at = disk->syncs + 1;
	memset(body, 7, sizeof(body));
	log_append(log, 1, 7, body, sizeof(body));
	for (uint32_t i = 0; i < 10 * WAIT_MS && !log_state(log).trouble; i++)
		pause_us(100);
	if (!log_state(log).trouble)
		lost("nobody has heard that a sync failed");
	_exit(0);
}

static void log_again(uint64_t unused)
{
	struct log_options options = { .path = under,
				       .has = { .bytes = RECORD_HEADER_BYTES + LOG_BYTES },
				       .changed = on_change };
	char error[PS_ERROR_MAX];
	struct log *log;

	(void)unused;
	if (log_open(&log, &options, error))
		lost("%s", error);
	_exit(0);
}

/* Its next life finds it in the memory of the kernel, where it looks as if it were on the disk; and what is cut off stays
 * away. */
static void power__log_that_goes_on_is_on_the_disk(void **unused)
{
	uint8_t *file;
	size_t bytes;

	(void)unused;
	snprintf(under, sizeof(under), "%s/log", root);
	assert_int_equal(child_run(log_fail, 0), 0);
	disk->fail_at = 0;
	assert_int_equal(child_run(log_again, 0), 0);
	disk_crash(disk, 1, 0);
	file = whole_read(under, SIZE_MAX, &bytes);
	assert_non_null(file);
	assert_int_equal(bytes, RECORD_HEADER_BYTES + LOG_BYTES);
	memset(body, 7, sizeof(body));
	assert_memory_equal(file + RECORD_HEADER_BYTES, body, sizeof(body));
	free(file);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(power__table_with_a_log_loses_nothing, begin, end),
		cmocka_unit_test_setup_teardown(power__table_with_checkpoints_has_its_last_one,
						begin, end),
		cmocka_unit_test_setup_teardown(
			power__checkpoint_of_a_trainer_is_the_last_or_the_next, begin, end),
		cmocka_unit_test_setup_teardown(
			power__who_has_done_nothing_yet_dies_with_the_others, begin, end),
		cmocka_unit_test_setup_teardown(power__what_is_read_is_on_the_disk, begin, end),
		cmocka_unit_test_setup_teardown(power__accepted_loss_stays_accepted, begin, end),
		cmocka_unit_test_setup_teardown(power__new_folders_stay_where_they_are, begin, end),
		cmocka_unit_test_setup_teardown(power__failed_sync_is_written_again, begin, end),
		cmocka_unit_test_setup_teardown(power__log_that_goes_on_is_on_the_disk, begin, end),
	};
	int result;

	crashes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : CRASHES;
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
	printf("seed %llu, %u crashes\n", (unsigned long long)seed, crashes);
	fflush(stdout);
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED || !mkdtemp(top) || outbox_open(&outbox, NULL))
		return 1;
	snprintf(root, sizeof(root), "%s/root", top);
	snprintf(beside, sizeof(beside), "%s/beside", top);
	result = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(top) || result ? 1 : 0;
}
