/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "lib/report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "core/job/control.h"
#include "core/shared/lanes.h"
#include "lib/config.h"
#include "util/lines.h"
#include "util/utf8.h"

enum { COMPLAINT_BYTES = 128 };

static _Thread_local char last_text[REPORT_TEXT_MAX];

static struct {
	pthread_mutex_t lock;
	bool is_read; /* TALLY_LOG has been looked at */
	bool is_json;
	bool is_closed; /* there was no stderr: descriptor 2 may become anything */
	int level;
	tally_log_fn fn;
	void *arg;
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER, .level = TALLY_LOG_WARN };

static struct lines sink_lines;

/* The sink's lock is held. What is wrong in a file is refused by init; a wrong word in the environment
 * changes nothing but says so: a log level is no reason to fail. */
static void level_read(char complaint[COMPLAINT_BYTES])
{
	struct config *config = malloc(sizeof(*config));
	char text[BOOTSTRAP_TEXT_MAX];
	const char *word, *json;

	sink.is_read = true;
	sink.is_closed = fcntl(STDERR_FILENO, F_GETFD) < 0;
	if (!config)
		return;
	(void)config_load_process(config, text);
	word = config_get("TALLY_LOG", config);
	json = config_get("TALLY_LOG_JSON", config);
	if (word && *word && config_level(word) > 0)
		sink.level = config_level(word);
	else if (word && *word)
		snprintf(complaint, COMPLAINT_BYTES,
			 "TALLY_LOG=%.40s is not error, warn, info or debug: warn it is", word);
	sink.is_json = json && !strcmp(json, "1");
	if (json && *json && strcmp(json, "0") && !sink.is_json)
		snprintf(complaint, COMPLAINT_BYTES, "TALLY_LOG_JSON=%.40s is not 0 or 1: 0 it is",
			 json);
	explicit_bzero(config, sizeof(*config)); /* it may hold a key */
	free(config);
}

static void line_out(const struct report_who *who, int level, const char *message);

int report_level(void)
{
	char complaint[COMPLAINT_BYTES] = "";
	int level;

	pthread_mutex_lock(&sink.lock);
	if (!sink.is_read)
		level_read(complaint);
	level = sink.level;
	pthread_mutex_unlock(&sink.lock);
	if (complaint[0])
		line_out(NULL, TALLY_LOG_WARN, complaint);
	return level;
}

int report_set(int level, tally_log_fn fn, void *arg)
{
	if (level < 0 || level > TALLY_LOG_DEBUG)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "level %d: no such log level", level);
	(void)report_level(); /* TALLY_LOG is read first, and then no more */
	pthread_mutex_lock(&sink.lock);
	if (level)
		sink.level = level;
	sink.fn = fn;
	sink.arg = arg;
	pthread_mutex_unlock(&sink.lock);
	return TALLY_OK;
}

void report_fork_prepare(void)
{
	pthread_mutex_lock(&sink.lock);
}

void report_fork_done(void)
{
	pthread_mutex_unlock(&sink.lock);
}

const char *const report_dtypes[] = { "int8",    "uint8",     "int32",      "uint32",
				      "int64",   "uint64",    "float16",    "float32",
				      "float64", "bfloat16",  "float8e4m3", "float8e5m2",
				      "bool",    "complex64", "complex128" };
const char *const report_ops[] = { "sum",  "prod", "max", "min",  "avg",    "band",   "bor",
				   "bxor", "land", "lor", "lxor", "minloc", "maxloc", "user" };

const char *const report_kinds[] = { "allreduce", "barrier",   "reduce",
				     "broadcast", "allgather", "reduce_scatter",
				     "gather",    "scatter",   "alltoall",
				     "send" };

/* What it is sent as. */
static void form_text(uint32_t type, char text[24])
{
	static const char *const forms[] = { "", " as halves", " exactly", "", " strictly" };
	enum lanes_form form = lanes_word_form(type);

	if (form == LANES_FIXED)
		snprintf(text, 24, " below 2^%d",
			 (int)lanes_word_exponent(type) - LANES_EXPONENT_ONE);
	else
		snprintf(text, 24, "%s", forms[form]);
}

const char *report_op(const struct control_op *op, char text[96])
{
	bool is_sum = op->kind == CONTROL_OP_ALLREDUCE || op->kind == CONTROL_OP_REDUCE ||
		      op->kind == CONTROL_OP_REDUCE_SCATTER;
	char form[24];

	form_text(op->type, form);
	if (op->kind == CONTROL_OP_BARRIER)
		snprintf(text, 96, "barrier");
	else
		snprintf(text, 96, "%s of %llu %s%s%s%s", report_kinds[op->kind],
			 (unsigned long long)op->count, report_dtypes[lanes_word_type(op->type)],
			 form, is_sum ? ", " : "", is_sum ? report_ops[op->op] : "");
	return text;
}

void report_host(char host[65])
{
	if (gethostname(host, 65))
		strcpy(host, "unknown-host");
	host[64] = '\0';
}

void report_pipe_begin(struct report_pipe *guard)
{
	sigset_t pipe_signal, pending;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	sigemptyset(&pending);
	sigpending(&pending);
	guard->is_ours = !sigismember(&pending, SIGPIPE);
	if (guard->is_ours)
		pthread_sigmask(SIG_BLOCK, &pipe_signal, &guard->before);
}

void report_pipe_end(const struct report_pipe *guard, bool is_broken)
{
	static const struct timespec at_once;
	sigset_t pipe_signal;

	if (!guard->is_ours)
		return;
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	if (is_broken)
		while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* A line that stands for `count`. A full disk, or a reader that has stopped or is gone, must not harm the
 * program: its lines are lost. */
static bool stderr_write(const char *text, size_t length, unsigned count)
{
	struct report_pipe guard;
	int result;

	report_pipe_begin(&guard);
	result = lines_put(&sink_lines, STDERR_FILENO, text, length, count);
	report_pipe_end(&guard, result == -EPIPE);
	return !result;
}

/* One write of one line, so that lines of several ranks do not mix. */
static bool line_write(int level, const char *line, unsigned count)
{
	char text[REPORT_TEXT_MAX + 512];
	struct timespec now;
	struct tm day;
	int length;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &day);
	length = snprintf(text, sizeof(text), "%02d:%02d:%02d.%03ld tally %s %s\n", day.tm_hour,
			  day.tm_min, day.tm_sec, now.tv_nsec / 1000000, config_levels[level],
			  line);
	if (length >= (int)sizeof(text)) {
		length = (int)sizeof(text) - 1;
		text[length - 1] = '\n';
	}
	return stderr_write(text, (size_t)length, count);
}

static json_t *json_make(const struct report_who *who, int level, const char *message)
{
	char text[REPORT_TEXT_MAX], host[sizeof(who->host)];
	struct timespec now;
	double seconds;

	clock_gettime(CLOCK_REALTIME, &now);
	seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	utf8_copy(text, sizeof(text), message);
	if (who)
		return json_pack("{s:f, s:s, s:s, s:i, s:s, s:s}", "time", seconds, "level",
				 config_levels[level], "job", who->job, "rank", (int)who->rank,
				 "host", utf8_copy(host, sizeof(host), who->host), "text", text);
	return json_pack("{s:f, s:s, s:i, s:s}", "time", seconds, "level", config_levels[level],
			 "pid", (int)getpid(), "text", text);
}

static bool json_write(const struct report_who *who, int level, const char *message, unsigned count)
{
	json_t *object = json_make(who, level, message);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	bool is_out = false;
	size_t length;

	if (text) {
		length = strlen(text);
		text[length] = '\n'; /* in place of its end: one write */
		is_out = stderr_write(text, length + 1, count);
		free(text);
	}
	json_decref(object);
	return is_out;
}

/* False: there still is no room. */
static bool dropped_write(bool is_json)
{
	unsigned dropped = lines_dropped(&sink_lines);
	char text[COMPLAINT_BYTES], line[COMPLAINT_BYTES + 32];

	if (!dropped)
		return true;
	snprintf(text, sizeof(text), "%u lines before this one were dropped: nobody read them",
		 dropped);
	snprintf(line, sizeof(line), "[pid %ld] %s", (long)getpid(), text);
	return is_json ? json_write(NULL, TALLY_LOG_WARN, text, dropped)
		       : line_write(TALLY_LOG_WARN, line, dropped);
}

static void line_out(const struct report_who *who, int level, const char *message)
{
	char line[REPORT_TEXT_MAX + 320];
	bool is_json, is_closed;
	tally_log_fn fn;
	void *arg;

	if (who)
		snprintf(line, sizeof(line), "[job %s rank %u host %s] %s", who->job, who->rank,
			 who->host, message);
	else
		snprintf(line, sizeof(line), "[pid %ld] %s", (long)getpid(), message);
	pthread_mutex_lock(&sink.lock);
	fn = sink.fn;
	arg = sink.arg;
	is_json = sink.is_json;
	is_closed = sink.is_closed;
	pthread_mutex_unlock(&sink.lock);
	if (fn)
		fn(level, line, arg);
	else if (is_closed)
		return;
	else if (!dropped_write(is_json))
		lines_drop(&sink_lines);
	else if (is_json)
		(void)json_write(who, level, message, 1);
	else
		(void)line_write(level, line, 1);
}

void report_log(const struct report_who *who, int level, const char *format, ...)
{
	char text[REPORT_TEXT_MAX];
	va_list args;

	if (level > report_level())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	line_out(who, level, text);
}

int report_error(const struct report_who *who, int result, const char *format, ...)
{
	char text[REPORT_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(last_text, text, sizeof(text));
	if (report_level() >= TALLY_LOG_ERROR)
		line_out(who, TALLY_LOG_ERROR, text);
	return result;
}

int report_again(int result, const char *text)
{
	snprintf(last_text, sizeof(last_text), "%s", text);
	return result;
}

const char *report_last(void)
{
	return last_text;
}
