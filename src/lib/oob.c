/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oob.c - tally_comm_init_oob: one allgather of the program's own tells every rank what rank 0 is set to,
 * whether all are on one host, and what any of them finds wrong; a second one, what any of them finds wrong
 * in what the first has given it. Of a second one that fails on a rank, or gives it what is no word of the others, they
 * hear through the job itself, which that rank joins, and ends.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/comm.h"
#include "lib/config.h"
#include "util/host_id.h"
#include "util/thread.h"
#include "util/utf8.h"

enum {
	RECORD_MAGIC = 0x796c6174, /* "taly" */
	RECORD_VERSION = 3,
	WATCH_FIRST_S = 5, /* until the first line about an allgather; then each doubles */
	TELL_S = 5, /* for all to come and hear that this rank's second allgather has failed */
};

/* What every rank tells the others. Native byte order: one program runs on all of them. */
struct record {
	uint32_t magic, version;
	uint32_t size, rank;
	uint32_t turn;  /* of the allgathers: 0, 1 */
	int32_t result; /* what this rank has found wrong, and `text` */
	uint32_t has_aggregator;
	uint64_t life; /* what rank 0 has drawn; in turn 1 what each has of it */
	char host[65];
	char host_id[HOST_ID_BYTES]; /* the same where abstract unix sockets meet */
	char job[BOOTSTRAP_JOB_MAX + 1];
	char aggregator[256]; /* "local" or an address */
	char text[256];
};

/* ---- watching the callback ---- */

struct watch {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool is_started, is_over;
	const struct record *mine;
};

static void *watch_main(void *arg)
{
	struct watch *watch = arg;
	uint32_t waited_s = WATCH_FIRST_S;
	struct timespec until = clock_timespec(clock_ns() + WATCH_FIRST_S * 1000000000ull);

	pthread_mutex_lock(&watch->lock);
	while (!watch->is_over) {
		if (pthread_cond_timedwait(&watch->changed, &watch->lock, &until) != ETIMEDOUT)
			continue;
		report_log(NULL, TALLY_LOG_WARN,
			   "tally_comm_init_oob: the allgather function of rank %u of %u on %s has "
			   "not returned for %u s: have all ranks called tally_comm_init_oob?",
			   watch->mine->rank, watch->mine->size, watch->mine->host, waited_s);
		until.tv_sec += waited_s;
		waited_s *= 2;
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

static void watch_begin(struct watch *watch, const struct record *mine)
{
	*watch = (struct watch){ .lock = PTHREAD_MUTEX_INITIALIZER, .mine = mine };
	clock_cond_init(&watch->changed);
	watch->is_started = !thread_create(&watch->thread, watch_main, watch);
}

static void watch_end(struct watch *watch)
{
	if (!watch->is_started)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->is_over = true;
	pthread_cond_signal(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
}

/* ---- this rank's record ---- */

/* Never 0. */
static uint64_t chance_draw(void)
{
	uint64_t chance = 0;

	if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		chance = clock_ns();
	return chance ? chance : 1;
}

/* A name that no other run has, of what names of jobs are made of: hosts have any. */
static void job_make(char job[BOOTSTRAP_JOB_MAX + 1], const char *host)
{
	snprintf(job, BOOTSTRAP_JOB_MAX + 1, "oob-%s-%ld-%016llx", host, (long)getpid(),
		 (unsigned long long)chance_draw());
	utf8_to_word(job);
}

/* What this process is set to, as far as it counts: rank 0's job and aggregator. */
static int self_configure(struct record *mine, struct bootstrap *boot,
			  struct tally_options *options, char text[BOOTSTRAP_TEXT_MAX])
{
	struct config *config = malloc(sizeof(*config));
	const char *job = NULL, *aggregator = NULL;
	int result;

	if (!config) {
		snprintf(text, BOOTSTRAP_TEXT_MAX, "out of memory");
		return TALLY_ERR_NO_MEMORY;
	}
	result = config_load_process(config, text);
	if (!result) {
		job = config_get("TALLY_JOB", config);
		aggregator = options->aggregator ? options->aggregator
						 : config_get("TALLY_AGGREGATOR", config);
	}
	if (job && *job && strlen(job) <= BOOTSTRAP_JOB_MAX)
		strcpy(mine->job, job);
	else
		job_make(mine->job, mine->host);
	mine->has_aggregator = aggregator && *aggregator;
	explicit_bzero(config, sizeof(*config));
	free(config);
	if (result)
		return result;
	/* Of the others', and of what is not set, nothing counts: the allgather will tell. */
	if (boot->rank || !mine->has_aggregator)
		options->aggregator = "local";
	strcpy(boot->job, mine->job);
	result = config_bootstrap(boot, options, false, text);
	if (!result)
		strcpy(mine->aggregator, boot->is_local ? "local" : boot->aggregator);
	return result;
}

/* ---- what all records say ---- */

__attribute__((format(printf, 3, 4))) static int wrong(char text[BOOTSTRAP_TEXT_MAX], int result,
						       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, BOOTSTRAP_TEXT_MAX, format, args);
	va_end(args);
	return result;
}

/* Are these what the ranks have said? */
static int records_check(struct record *all, const struct record *mine,
			 char text[BOOTSTRAP_TEXT_MAX])
{
	for (uint32_t i = 0; i < mine->size; i++) { /* from elsewhere: they end where they should */
		all[i].host[sizeof(all[i].host) - 1] = all[i].job[BOOTSTRAP_JOB_MAX] = '\0';
		all[i].host_id[HOST_ID_BYTES - 1] = all[i].aggregator[255] = '\0';
		all[i].text[255] = '\0';
	}
	for (uint32_t i = 0; i < mine->size; i++) {
		const struct record *its = &all[i];

		if (its->magic != RECORD_MAGIC || its->version != RECORD_VERSION ||
		    its->turn != mine->turn || (!i && !its->life))
			return wrong(text, TALLY_ERR_ARGUMENT,
				     "what the allgather function gave for rank %u is not a record "
				     "of this version of tally",
				     i);
		if (its->rank != i || its->size != mine->size)
			return wrong(text, TALLY_ERR_ARGUMENT,
				     "the allgather function gave the record of rank %u of %u on "
				     "%.64s in the place of rank %u of %u",
				     its->rank, its->size, its->host, i, mine->size);
		/* Or they would wait for each other in two jobs. */
		if (mine->turn && !its->result && its->life != mine->life)
			return wrong(text, TALLY_ERR_ARGUMENT,
				     "the allgather function gave rank %u on %.64s and rank %u on "
				     "%.64s two different records of rank 0",
				     i, its->host, mine->rank, mine->host);
	}
	return TALLY_OK;
}

static int verdicts_read(const struct record *all, const struct record *mine,
			 char text[BOOTSTRAP_TEXT_MAX])
{
	for (uint32_t i = 0; i < mine->size; i++)
		if (all[i].result)
			return wrong(text, all[i].result, "rank %u on %.64s: %.255s", i,
				     all[i].host, all[i].text);
	return TALLY_OK;
}

/* Rank 0's aggregator; without one, local mode if all are on its host. */
static int records_take(const struct record *all, struct bootstrap *boot,
			char text[BOOTSTRAP_TEXT_MAX])
{
	const struct record *first = &all[0];
	const struct record *other = NULL;

	for (uint32_t i = 1; i < boot->size && !other; i++)
		if (strcmp(all[i].host_id, first->host_id) || strcmp(all[i].host, first->host))
			other = &all[i];
	strcpy(boot->job, first->job);
	boot->life = first->life;
	boot->is_local = !strcmp(first->aggregator, "local");
	if (boot->is_local && other)
		return wrong(text, TALLY_ERR_ARGUMENT,
			     "%s, and not all ranks are on one host (rank 0 on %.64s, rank %u on "
			     "%.64s): set TALLY_AGGREGATOR=host:port for rank 0",
			     first->has_aggregator ? "the aggregator is local" : "no aggregator",
			     first->host, other->rank, other->host);
	boot->aggregator[0] = '\0';
	if (!boot->is_local)
		strcpy(boot->aggregator, first->aggregator);
	if (!other)
		boot->local_size = boot->size;
	return TALLY_OK;
}

/* What a rank without memory receives into, and does not read: it knows already what is wrong. Ranks of one
 * process may share it. */
static struct record unread[BOOTSTRAP_SIZE_MAX];

/* One allgather. A rank that has found something wrong takes part in it all the same. `all` may be NULL. *is_deaf: this
 * rank has not been given what the others say. */
static int exchange(const struct record *mine, struct record *all, tally_allgather_fn allgather,
		    void *ctx, bool *is_deaf, char text[BOOTSTRAP_TEXT_MAX])
{
	struct watch watch;
	int result = TALLY_OK, said;

	watch_begin(&watch, mine);
	said = allgather(mine, all ? all : unread, sizeof(*mine), ctx);
	watch_end(&watch);
	if (said)
		result = wrong(text, TALLY_ERR_SYSTEM,
			       "the allgather function of rank %u on %s has failed: it returned %d",
			       mine->rank, mine->host, said);
	else if (all)
		result = records_check(all, mine, text);
	*is_deaf = result != TALLY_OK;
	if (!result && all)
		result = verdicts_read(all, mine, text);
	if (!result && mine->result)
		result = wrong(text, mine->result, "rank %u on %s: %s", mine->rank, mine->host,
			       mine->text);
	return result;
}

/* What this rank was given was wrong: the others, who were given what is right, would wait for it. */
static int verdicts_exchange(struct record *mine, struct record *all, int result,
			     tally_allgather_fn allgather, void *ctx, bool *is_deaf,
			     char text[BOOTSTRAP_TEXT_MAX])
{
	char first[BOOTSTRAP_TEXT_MAX];
	int second;

	strcpy(first, text);
	mine->turn = 1;
	if (result && !mine->result) {
		mine->result = result;
		snprintf(mine->text, sizeof(mine->text), "%.255s", text);
	}
	if (all)
		memset(all, 0, mine->size * sizeof(*all));
	second = exchange(mine, all, allgather, ctx, is_deaf, text);
	if (!result)
		return second;
	strcpy(text, first); /* it knows best what it has found */
	return result;
}

/* *is_deaf: all was well, until this rank's second allgather: the others' may have told them so. */
static int agree(struct record *mine, struct bootstrap *boot, tally_allgather_fn allgather,
		 void *ctx, bool *is_deaf, char text[BOOTSTRAP_TEXT_MAX])
{
	struct record *all = calloc(mine->size, sizeof(*all));
	bool is_well;
	int result;

	if (!all && !mine->result) {
		mine->result = TALLY_ERR_NO_MEMORY;
		strcpy(mine->text, "out of memory for what the ranks say");
	}
	*text = '\0';
	result = exchange(mine, all, allgather, ctx, is_deaf, text);
	if (!result)
		result = records_take(all, boot, text);
	if (!result)
		mine->life = boot->life;
	is_well = !result;
	result = verdicts_exchange(mine, all, result, allgather, ctx, is_deaf, text);
	*is_deaf &= is_well;
	free(all);
	return result;
}

/* What this rank's arguments and configuration are found to be, said already or not, into the record. */
static void self_check(struct record *mine, struct bootstrap *boot, struct tally_options *whole,
		       struct tally_comm **comm, const struct tally_options *options)
{
	static const char call[] = "tally_comm_init_oob";
	char text[BOOTSTRAP_TEXT_MAX] = "";
	const char *said = text;

	/* Two groups of one launch may both take its name: each has a rank 0. */
	mine->life = mine->rank ? 0 : chance_draw();
	report_host(mine->host);
	host_id_read(mine->host_id);
	mine->result = comm_init_check(comm, whole, options, call);
	if (mine->result)
		said = report_last();
	else
		mine->result = self_configure(mine, boot, whole, text);
	if (!strncmp(said, call, strlen(call))) /* the others say it, too */
		said += strlen(call) + strlen(": ");
	if (mine->result)
		snprintf(mine->text, sizeof(mine->text), "%.255s", said);
}

/* The second allgather is of no use here, and where it is they wait for this rank in the job: which is ended there,
 * with the text. If not all come, all are told who is missing, soon. */
static void others_tell(const struct bootstrap *boot, const struct tally_options *options,
			const char *text)
{
	struct bootstrap own = *boot;
	struct tally_comm *comm;

	snprintf(own.failure, sizeof(own.failure), "tally_comm_init_oob: %.230s", text);
	if (own.init_timeout_s > TELL_S)
		own.init_timeout_s = TELL_S;
	if (!comm_open(&comm, &own, options, NULL))
		tally_comm_destroy(comm);
}

int tally_comm_init_oob(struct tally_comm **comm, uint32_t size, uint32_t rank,
			tally_allgather_fn allgather, void *ctx,
			const struct tally_options *options)
{
	struct bootstrap boot = { .size = size, .rank = rank, .source = "arguments" };
	struct record mine = {
		.magic = RECORD_MAGIC, .version = RECORD_VERSION, .size = size, .rank = rank
	};
	char text[BOOTSTRAP_TEXT_MAX];
	struct tally_options whole;
	bool is_deaf = false;
	int result;

	if (!allgather || !size || size > BOOTSTRAP_SIZE_MAX || rank >= size)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_comm_init_oob: %s, rank %u of %u (at most %d)",
				    allgather ? "no such rank" : "allgather is NULL", rank, size,
				    BOOTSTRAP_SIZE_MAX);
	/* From here on the others wait in their allgather: whatever is wrong, this rank takes part. */
	self_check(&mine, &boot, &whole, comm, options);
	result = agree(&mine, &boot, allgather, ctx, &is_deaf, text);
	if (result && is_deaf)
		others_tell(&boot, &whole, text);
	if (result)
		return report_error(NULL, result, "tally_comm_init_oob: %s", text);
	return comm_open(comm, &boot, &whole, NULL);
}
