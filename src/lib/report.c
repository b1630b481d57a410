/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "lib/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char last_text[REPORT_TEXT_MAX];

static struct {
	pthread_mutex_t lock;
	bool is_read; /* TALLY_LOG has been looked at */
	int level;
	tally_log_fn fn;
	void *arg;
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER, .level = TALLY_LOG_WARN };

static const char *const level_names[] = {
	[TALLY_LOG_ERROR] = "error",
	[TALLY_LOG_WARN] = "warn",
	[TALLY_LOG_INFO] = "info",
	[TALLY_LOG_DEBUG] = "debug",
};

/* The sink's lock is held. An unknown word changes nothing: a log level is no reason to fail. */
static void level_read(void)
{
	const char *text = getenv("TALLY_LOG");

	sink.is_read = true;
	for (int level = TALLY_LOG_ERROR; text && level <= TALLY_LOG_DEBUG; level++) {
		if (!strcasecmp(text, level_names[level]))
			sink.level = level;
	}
}

int report_level(void)
{
	int level;

	pthread_mutex_lock(&sink.lock);
	if (!sink.is_read)
		level_read();
	level = sink.level;
	pthread_mutex_unlock(&sink.lock);
	return level;
}

int report_set(int level, tally_log_fn fn, void *arg)
{
	if (level < 0 || level > TALLY_LOG_DEBUG)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "level %d: no such log level", level);
	pthread_mutex_lock(&sink.lock);
	if (!sink.is_read)
		level_read();
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

void report_host(char host[65])
{
	if (gethostname(host, 65))
		strcpy(host, "unknown-host");
	host[64] = '\0';
}

/* One write of one line, so that lines of several ranks do not mix. */
static void line_write(int level, const char *line)
{
	char text[REPORT_TEXT_MAX + 512];
	struct timespec now;
	struct tm day;
	int length;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &day);
	length = snprintf(text, sizeof(text), "%02d:%02d:%02d.%03ld tally %s %s\n", day.tm_hour,
			  day.tm_min, day.tm_sec, now.tv_nsec / 1000000, level_names[level], line);
	if (length >= (int)sizeof(text)) {
		length = (int)sizeof(text) - 1;
		text[length - 1] = '\n';
	}
	while (write(STDERR_FILENO, text, (size_t)length) < 0 && errno == EINTR)
		;
}

static void line_out(const struct report_who *who, int level, const char *message)
{
	char line[REPORT_TEXT_MAX + 320];
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
	pthread_mutex_unlock(&sink.lock);
	if (fn)
		fn(level, line, arg);
	else
		line_write(level, line);
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
