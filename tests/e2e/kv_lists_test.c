/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_lists_test.c - lists of servers, folders, tables and jobs that contradict each other, live: each kind of contradiction is
 * an error of tally_kv_open, or of tally-ps, that names it; nothing of it is in the tables, and who was right goes on.
 *
 * Usage: kv_lists_test TALLY-PS
 *        kv_lists_test --open SERVERS WORD   (its own: another command line for each WORD)
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally_kv.h"
#include "tests/e2e/daemons.h"

enum { SERVERS = 4, WORKERS = 2, KEYS = 40, READY_MS = 60000, DEADLINE_MS = 20000, PATH = 128 };

static const char *program, *self;
static struct daemon server[SERVERS];
static uint32_t kinds, folders;
static const char usual[] = "t,dim=1,optimizer=sum";

/* ---- servers ---- */

/* A folder that is not there yet. */
static const char *folder_new(char path[PATH])
{
	snprintf(path, PATH, "%s/%u", test_folder(), folders++);
	if (mkdir(path, 0777))
		test_fail("%s: %s", path, strerror(errno));
	return path;
}

static void start(uint32_t which, const char *folder, const char *table, const char *workers,
		  const char *adopt)
{
	const char *arguments[] = { program,     "--listen", daemon_address(&server[which]),
				    "--workers", workers,    "--dir",
				    folder,      "--table",  table,
				    NULL,        NULL,       NULL };

	if (adopt) {
		arguments[9] = "--adopt";
		arguments[10] = adopt;
	}
	daemon_start(&server[which], arguments, now_ms() + READY_MS);
}

static void stop(uint32_t which)
{
	daemon_end(&server[which], SIGTERM);
}

static void again(uint32_t which, const char *folder, const char *table)
{
	stop(which);
	start(which, folder, table, "2", NULL);
}

/* It does not start, and says why. */
static void start_fails(const char *folder, const char *adopt, const char *because)
{
	char command[512], said[2048];
	size_t bytes;
	FILE *out;
	int status;

	snprintf(command, sizeof(command),
		 "%s --listen 127.0.0.1:0 --workers 2 --dir %s --table %s --adopt %s 2>&1", program,
		 folder, usual, adopt);
	out = popen(command, "r");
	if (!out)
		test_fail("popen: %s", strerror(errno));
	bytes = fread(said, 1, sizeof(said) - 1, out);
	said[bytes] = 0;
	status = pclose(out);
	if (!WIFEXITED(status) || !WEXITSTATUS(status) || !strstr(said, because))
		test_fail("kind %u: status %d, and not \"%s\": %s", kinds, status, because, said);
	printf("%2u %s\n", ++kinds, because);
}

/* ---- workers ---- */

/* "210": the third, the second, the first. */
static struct tally_kv_options options_of(const char *list, uint32_t worker,
					  char text[SERVERS * DAEMON_ADDRESS_BYTES])
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;

	*text = 0;
	for (; *list; list++) {
		if (*text)
			strcat(text, ",");
		strcat(text, server[*list - '0'].address);
	}
	options.servers = text;
	options.job = "lists";
	options.workers = WORKERS;
	options.worker = worker;
	options.deadline_ms = DEADLINE_MS;
	return options;
}

static struct tally_kv *opened(const char *list, uint32_t worker)
{
	char text[SERVERS * DAEMON_ADDRESS_BYTES];
	struct tally_kv_options options = options_of(list, worker, text);
	struct tally_kv *kv;

	if (tally_kv_open(&kv, "t", 1, &options))
		test_fail("after kind %u: %s", kinds, tally_get_last_error(NULL));
	return kv;
}

static void refused_as(const struct tally_kv_options *options, uint32_t dim, const char *because)
{
	struct tally_kv *kv = NULL;
	int result = tally_kv_open(&kv, "t", dim, options);

	if (!result || kv)
		test_fail("kind %u was taken: \"%s\"", kinds, because);
	if (!strstr(tally_get_last_error(NULL), because))
		test_fail("kind %u: not \"%s\": %s", kinds, because, tally_get_last_error(NULL));
	printf("%2u %s\n", ++kinds, because);
}

static void refused(const char *list, uint32_t worker, const char *because)
{
	char text[SERVERS * DAEMON_ADDRESS_BYTES];
	struct tally_kv_options options = options_of(list, worker, text);

	refused_as(&options, 1, because);
}

static void wait_for(struct tally_kv *kv)
{
	if (tally_kv_wait(kv, 0, -1))
		test_fail("%s", tally_get_last_error(NULL));
}

/* Differs by worker and key, and has both signs. */
static float value_of(uint32_t worker, uint64_t key)
{
	return (float)(key * 3 + 1) * (worker ? -0.5f : 2.0f);
}

static void push(struct tally_kv *kv, uint32_t worker)
{
	uint64_t key[KEYS];
	float value[KEYS];

	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		value[i] = value_of(worker, i);
	}
	if (tally_kv_push(kv, key, value, KEYS, NULL))
		test_fail("%s", tally_get_last_error(NULL));
	wait_for(kv);
}

/* What both have pushed, so many times. */
static void expect(struct tally_kv *kv, uint32_t times)
{
	uint64_t key[KEYS];
	float row[KEYS];

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	if (tally_kv_pull(kv, key, row, KEYS, NULL))
		test_fail("%s", tally_get_last_error(NULL));
	wait_for(kv);
	for (uint32_t i = 0; i < KEYS; i++) {
		float sum = (float)times * (value_of(0, i) + value_of(1, i));

		if (row[i] < sum || row[i] > sum)
			test_fail("after kind %u: key %u is %g and not %g", kinds, i,
				  (double)row[i], (double)sum);
	}
}

static void both_push(uint32_t times)
{
	struct tally_kv *kv[WORKERS];

	for (uint32_t w = 0; w < WORKERS; w++)
		kv[w] = opened("01", w);
	for (uint32_t w = 0; w < WORKERS; w++)
		push(kv[w], w);
	expect(kv[0], times);
	for (uint32_t w = 0; w < WORKERS; w++)
		if (tally_kv_close(kv[w]))
			test_fail("%s", tally_get_last_error(NULL));
}

/* ---- kinds ---- */

static void lists_differ_while_one_is_there(void)
{
	struct tally_kv *kv = opened("01", 0);
	char text[SERVERS * DAEMON_ADDRESS_BYTES];
	struct tally_kv_options options = options_of("01", 1, text);

	refused("10", 1, "this is number 1 of 2; in that of worker 0");
	refused("0", 1, "this is number 1 of 1; in that of worker 0");
	refused("1", 1, "it was number 2 of 2");
	refused("012", 1, "this is number 1 of 3; in that of worker 0");
	refused("201", 1, "of 3; in that of worker 0"); /* by two of them: whichever is first */
	refused("00", 1, "this is number 2 of 2; in that of worker 0");
	refused("11", 1, "it was number 2 of 2");
	/* A server of another list, in the same place: only the first one can know. */
	refused("02", 1, "one is another than those of worker 0");
	refused("31", 1, "of another table of this name than what the first server of worker 1");
	options.job = "another";
	refused_as(&options, 1, "is of job another; worker 0");
	options.job = NULL; /* what the environment says, though it says no rank */
	setenv("TALLY_JOB", "third", 1);
	refused_as(&options, 1, "is of job third; worker 0");
	unsetenv("TALLY_JOB");
	refused_as(&options, 1, "is of job default; worker 0");
	options.job = "two\nlines";
	refused_as(&options, 1, "no blanks; byte 3 is 0x0a");
	options.job = "lists";
	refused_as(&options, 2, "has dim 1; worker 1");
	options.mode = TALLY_KV_SYNC;
	refused_as(&options, 1, "table t is asynchronous");
	options.mode = TALLY_KV_ASYNC;
	options.workers = 3;
	refused_as(&options, 1, "with 3 workers");
	if (tally_kv_close(kv))
		test_fail("%s", tally_get_last_error(NULL));
}

/* Nobody is there: what the folders have kept says it. */
static void lists_differ_from_the_table(void)
{
	refused("10", 0, "when the table was made it was number 2 of 2");
	refused("0", 0, "when the table was made it was number 1 of 2");
	refused("012", 0, "this is number 1 of 3; when the table was made it was number 1 of 2");
	refused("00", 0, "this is number 2 of 2; in that of worker 0");
	refused("02", 0, "one is another than those that the table was made with");
	refused("31", 0, "of another table of this name than what the first server of worker 0");
}

/* a and b are those of servers 0 and 1. */
static void folders_are_others(const char *a, const char *b)
{
	char other[PATH];

	stop(1);
	again(0, b, usual);
	start(1, a, usual, "2", NULL);
	refused("01", 0, "this is number 1 of 2; when the table was made it was number 2 of 2");
	again(1, folder_new(other), usual);
	again(0, a, usual);
	refused("01", 0, "this server, number 2 of 2, has nothing of it, and others have");
	again(1, b, usual);
	again(0, folder_new(other), usual);
	refused("01", 0, "of another table of this name than what the first server of worker 0");
	again(0, a, usual);
	start_fails(other, "2/2", "--adopt 2/2: INDEX/COUNT");
}

static void adopted_wrongly(const char *b)
{
	char other[PATH];

	stop(1);
	start_fails(b, "0/2", "--adopt 0/2: its folder is that of number 2 of 2 servers (1/2)");
	start_fails(b, "1/3", "--adopt 1/3: its folder is that of number 2 of 2 servers (1/2)");
	start(1, folder_new(other), usual, "2", "0/2");
	refused("01", 0, "this is number 2 of 2; when the table was made it was number 1 of 2");
	stop(1);
	start(1, folder_new(other), usual, "2", "1/2");
	refused("01", 0, "one is another than those that the table was made with");
	again(1, b, usual);
}

/* Each with the word and both values. */
static void tables_are_made_otherwise(void)
{
	static const struct {
		const char *table, *because;
	} kind[] = {
		{ "t,dim=1,optimizer=sgd,unit=1", "optimizer is sum on server" },
		{ "t,dim=1,optimizer=sum,rate=5", "and 5 on server" },
		{ "t,dim=1,optimizer=sum,unit=0.5", "unit is 1 on server" },
		{ "t,dim=1,optimizer=sum,initial=uniform", "initial is zero on server" },
		{ "t,dim=1,optimizer=sum,seed=7", "seed is 1 on server" },
		{ "t,dim=1,optimizer=sum,scale=3", "scale is 0.00999999978 on server" },
		{ "t,dim=1,optimizer=sum,l2=0.5", "l2 is 0 on server" },
		{ "t,dim=1,optimizer=sum,window=8", "window is 32 on server" },
		{ "t,dim=1,optimizer=sum,values=lns", "values is not said on server" },
		{ "t,dim=1,optimizer=sum,durability=checkpoint", "durability is not said on" },
		{ "t,dim=1,optimizer=sum,durability=none", "durability is not said on" },
		{ "t,dim=1,optimizer=sum,mode=sync", "table t is synchronous" },
		{ "t,dim=2,optimizer=sum", "has dim 2; worker 0" },
		{ "u,dim=1,optimizer=sum", "asks for a table t, which is not here" },
	};
	char folder[PATH];

	for (uint32_t i = 0; i < sizeof(kind) / sizeof(kind[0]); i++) {
		again(1, folder_new(folder), kind[i].table);
		refused("01", 0, kind[i].because);
	}
	stop(1);
	start(1, folder_new(folder), usual, "3", NULL);
	refused("01", 0, "with 2 workers; this server is for job (any) with 3");
	again(1, folder_new(folder), usual);
}

/* ---- a worker that is killed ---- */

/* FNV-1a of its bytes, as the rule says it. */
static uint32_t server_of(uint64_t key)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (uint32_t i = 0; i < 8; i++)
		hash = (hash ^ (key >> 8 * i & 0xff)) * 0x100000001b3;
	return (uint32_t)(hash % 2);
}

static uint32_t keys_of_the_second(uint64_t key[KEYS])
{
	uint32_t count = 0;

	for (uint64_t i = 0; i < KEYS; i++)
		if (server_of(i))
			key[count++] = i;
	return count;
}

/* The first server hears no more of it than OPEN. */
static void push_and_die(uint32_t idx)
{
	struct tally_kv *kv = opened("01", idx);
	uint64_t key[KEYS];
	float value[KEYS];
	uint32_t count = keys_of_the_second(key);

	for (uint32_t i = 0; i < count; i++)
		value[i] = value_of(idx, key[i]);
	if (!count || tally_kv_push(kv, key, value, count, NULL))
		test_fail("%u keys: %s", count, tally_get_last_error(NULL));
	wait_for(kv);
	_exit(0);
}

static void is_there(void)
{
	struct tally_kv *kv = opened("01", 0);
	uint64_t key[KEYS];
	float row[KEYS];
	uint32_t count = keys_of_the_second(key);

	if (tally_kv_pull(kv, key, row, count, NULL))
		test_fail("%s", tally_get_last_error(NULL));
	wait_for(kv);
	for (uint32_t i = 0; i < count; i++)
		if (row[i] < value_of(0, key[i]) || row[i] > value_of(0, key[i]))
			test_fail("after kind %u: key %u is %g", kinds, (uint32_t)key[i],
				  (double)row[i]);
	if (tally_kv_close(kv))
		test_fail("%s", tally_get_last_error(NULL));
}

/* Killed before server 0 was asked for anything. */
static void killed_before_the_first_was_asked(void)
{
	char folder[SERVERS][PATH], other[PATH];
	pid_t pid[1];

	for (uint32_t i = 0; i < 3; i++)
		again(i, folder_new(folder[i]), usual);
	workers_start(pid, 1, push_and_die);
	if (!workers_join(pid, 1, now_ms() + READY_MS))
		test_fail("the worker that is to die did not come so far");
	refused("0", 0, "this is number 1 of 1; when the table was made it was number 1 of 2");
	refused("02", 0, "this server, number 2 of 2, has nothing of it, and others have");
	again(1, folder_new(other), usual);
	refused("01", 0, "this server, number 2 of 2, has nothing of it, and others have");
	again(1, folder[1], usual);
	again(0, folder[0], usual);
	refused("0", 0, "this is number 1 of 1; when the table was made it was number 1 of 2");
	is_there();
}

/* ---- values below the unit, which is 1: R-KV-23 ---- */

/* By worker and key, of both signs, at most a quarter. */
static float small_of(uint32_t worker, uint64_t key)
{
	return (float)(1 + key % 4) * (worker ? -0.03125f : 0.0625f);
}

/* Not a contradiction: what is left of each comes in the end. */
static void small_values_come(void)
{
	enum { HOT = 16, PUSHES = 200 };
	struct tally_kv *kv[WORKERS];
	uint64_t key[HOT];
	float value[HOT];
	char folder[PATH], table[256];

	for (uint64_t i = 0; i < HOT; i++)
		key[i] = i;
	snprintf(table, sizeof(table), "%s,map=%s", usual, test_map(1, key, HOT));
	again(3, folder_new(folder), table);
	for (uint32_t w = 0; w < WORKERS; w++)
		kv[w] = opened("3", w);
	for (uint32_t n = 0; n < WORKERS * PUSHES; n++) {
		for (uint32_t i = 0; i < HOT; i++)
			value[i] = small_of(n % WORKERS, i);
		if (tally_kv_push(kv[n % WORKERS], key, value, HOT, NULL))
			test_fail("%s", tally_get_last_error(NULL));
	}
	for (uint32_t w = 0; w < WORKERS; w++)
		wait_for(kv[w]);
	if (tally_kv_pull(kv[0], key, value, HOT, NULL))
		test_fail("%s", tally_get_last_error(NULL));
	wait_for(kv[0]);
	for (uint32_t i = 0; i < HOT; i++) {
		float sum = PUSHES * (small_of(0, i) + small_of(1, i));

		/* Half a unit may be left at each worker. */
		if (value[i] < sum - 0.5f * WORKERS || value[i] > sum + 0.5f * WORKERS)
			test_fail("small values of key %u: %g and not %g", i, (double)value[i],
				  (double)sum);
	}
	for (uint32_t w = 0; w < WORKERS; w++)
		if (tally_kv_close(kv[w]))
			test_fail("%s", tally_get_last_error(NULL));
}

/* ---- programs of one launch: R-KV-6 ---- */

/* As a task of Slurm: it says what came of it, and leaves when its input ends. */
static int open_as_a_program(const char *servers)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv = NULL;
	int result;

	options.servers = servers;
	options.deadline_ms = DEADLINE_MS;
	result = tally_kv_open(&kv, "t", 1, &options);
	printf("%s\n", result ? tally_get_last_error(NULL) : "taken");
	fflush(stdout);
	while (getchar() != EOF) {
	}
	return result ? 1 : tally_kv_close(kv);
}

static void task_set(const char *job, const char *rank)
{
	if (setenv("SLURM_PROCID", rank, 1) || setenv("SLURM_NTASKS", "2", 1) ||
	    setenv("SLURM_STEP_NUM_TASKS", "2", 1) || setenv("SLURM_JOB_ID", "77", 1) ||
	    setenv("SLURM_STEP_ID", "0", 1) ||
	    (job ? setenv("TALLY_JOB", job, 1) : unsetenv("TALLY_JOB")))
		test_fail("setenv: %s", strerror(errno));
}

/* Task 1 of such a command line opens the tables of the third server, and leaves. */
static void program_says(const char *word, const char *because)
{
	char command[512], said[1024] = "";
	FILE *out;

	snprintf(command, sizeof(command), "SLURM_PROCID=1 '%s' --open %s %s </dev/null", self,
		 server[2].address, word);
	out = popen(command, "r");
	if (!out || !fgets(said, sizeof(said), out))
		test_fail("%s: %s", command, strerror(errno));
	pclose(out);
	if (!strstr(said, because))
		test_fail("after kind %u: program %s: not \"%s\": %s", kinds, word, because, said);
}

/* Holds the table as task 0, until it is closed. */
static FILE *program_holds(const char *word)
{
	char command[512], path[PATH], said[16] = "";
	FILE *in, *out;

	snprintf(path, sizeof(path), "%s/said", test_folder());
	if (mkfifo(path, 0600))
		test_fail("%s: %s", path, strerror(errno));
	snprintf(command, sizeof(command), "'%s' --open %s %s >'%s'", self, server[2].address, word,
		 path);
	in = popen(command, "w");
	out = fopen(path, "r");
	if (!in || !out || !fgets(said, sizeof(said), out) || strcmp(said, "taken\n") != 0)
		test_fail("after kind %u: program %s: %s", kinds, word, said);
	fclose(out);
	unlink(path);
	return in;
}

static void programs_of_one_launch(void)
{
	char folder[PATH];
	FILE *held;

	again(2, folder_new(folder), usual);
	task_set(NULL, "0");
	held = program_holds("a");
	program_says("b", "and worker 0, which is here, are of one launch (job slurm-77.0), but of "
			  "two command lines");
	printf("%2u two programs of one launch\n", ++kinds);
	program_says("a", "taken");
	if (pclose(held))
		test_fail("program a did not end well");
	task_set("both", "0");
	held = program_holds("a");
	program_says("b", "taken");
	if (pclose(held))
		test_fail("program a did not end well");
}

int main(int argc, char **argv)
{
	char folder[SERVERS][PATH];

	if (argc == 4 && !strcmp(argv[1], "--open"))
		return open_as_a_program(argv[2]);
	if (argc != 2) {
		fprintf(stderr, "usage: kv_lists_test TALLY-PS\n");
		return 2;
	}
	program = argv[1];
	self = argv[0];
	test_begin("kv_lists");
	for (uint32_t i = 0; i < SERVERS; i++)
		start(i, folder_new(folder[i]), usual, "2", NULL);
	tables_are_made_otherwise();
	again(1, folder[1], usual);
	lists_differ_while_one_is_there();
	both_push(1);
	lists_differ_from_the_table();
	folders_are_others(folder[0], folder[1]);
	both_push(2);
	adopted_wrongly(folder[1]);
	both_push(3);
	killed_before_the_first_was_asked();
	small_values_come();
	programs_of_one_launch();
	printf("%u kinds, none was taken\n", kinds);
	return test_end(true);
}
