/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.c - see bootstrap.h. */
#include "lib/bootstrap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/shared/map.h"
#include "lib/bootstrap_read.h"
#include "lib/interface.h"
#include "util/conf.h"

const char *bootstrap_getenv(const char *name, void *unused)
{
	(void)unused;
	return getenv(name);
}

int bootstrap_refuse(const struct reader *reader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->text, BOOTSTRAP_TEXT_MAX, format, args);
	va_end(args);
	return TALLY_ERR_ARGUMENT;
}

void bootstrap_warn(struct bootstrap *boot, const char *format, ...)
{
	size_t used = strlen(boot->warning);
	va_list args;

	if (used && used + 2 < sizeof(boot->warning))
		used = (size_t)(stpcpy(boot->warning + used, "; ") - boot->warning);
	va_start(args, format);
	vsnprintf(boot->warning + used, sizeof(boot->warning) - used, format, args);
	va_end(args);
}

bool bootstrap_digits(const char *value, uint32_t *number)
{
	uint64_t sum = 0;

	for (const char *at = value; *at; at++) {
		if (*at < '0' || *at > '9' || sum > UINT32_MAX / 10)
			return false;
		sum = sum * 10 + (uint64_t)(*at - '0');
	}
	if (sum > UINT32_MAX || !*value)
		return false;
	*number = (uint32_t)sum;
	return true;
}

int bootstrap_number(const struct reader *reader, const char *name, const char *value,
		     uint32_t *number)
{
	return bootstrap_digits(value, number)
		       ? TALLY_OK
		       : bootstrap_refuse(reader, "%s=%s is not a number of ranks", name, value);
}

/* ---- times, keys, names of files ---- */

static int timeout_read(struct bootstrap *boot, const struct tally_options *options,
			const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_INIT_TIMEOUT_S");

	boot->init_timeout_s = BOOTSTRAP_TIMEOUT_S;
	if (options && options->init_timeout_s) {
		boot->init_timeout_s = options->init_timeout_s;
		if (boot->init_timeout_s > BOOTSTRAP_TIMEOUT_S_MAX)
			return bootstrap_refuse(reader, "options->init_timeout_s %u is above %d",
						boot->init_timeout_s, BOOTSTRAP_TIMEOUT_S_MAX);
	} else if (value) {
		if (!bootstrap_digits(value, &boot->init_timeout_s) || !boot->init_timeout_s ||
		    boot->init_timeout_s > BOOTSTRAP_TIMEOUT_S_MAX)
			return bootstrap_refuse(reader,
						"TALLY_INIT_TIMEOUT_S=%s is not in 1 to %d seconds",
						value, BOOTSTRAP_TIMEOUT_S_MAX);
	}
	return TALLY_OK;
}

static int deadline_read(struct bootstrap *boot, const struct tally_options *options,
			 const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_DEADLINE_S");
	uint32_t seconds = 0;

	boot->deadline_ms = options ? options->deadline_ms : 0;
	if (boot->deadline_ms)
		return TALLY_OK;
	if (value &&
	    (!bootstrap_digits(value, &seconds) || !seconds || seconds > BOOTSTRAP_TIMEOUT_S_MAX))
		return bootstrap_refuse(reader, "TALLY_DEADLINE_S=%s is not in 1 to %d seconds",
					value, BOOTSTRAP_TIMEOUT_S_MAX);
	boot->deadline_ms = seconds * 1000;
	return TALLY_OK;
}

static int window_read(struct bootstrap *boot, const struct tally_options *options,
		       const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_WINDOW");

	boot->window_packets = options ? options->window_packets : 0;
	if (boot->window_packets || !value)
		return TALLY_OK;
	if (!bootstrap_digits(value, &boot->window_packets) || !boot->window_packets ||
	    boot->window_packets > MAP_SLOTS_MAX)
		return bootstrap_refuse(reader, "TALLY_WINDOW=%s is not in 1 to %d packets", value,
					MAP_SLOTS_MAX);
	return TALLY_OK;
}

static int crossed_read(struct bootstrap *boot, const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_CROSSED");

	if (value && strcmp(value, "warn") && strcmp(value, "end"))
		return bootstrap_refuse(reader, "TALLY_CROSSED=%s is not end or warn", value);
	boot->is_crossed_warn = value && !strcmp(value, "warn");
	return TALLY_OK;
}

/* Nothing of a key is ever part of a text. */
static int key_file_read(struct bootstrap *boot, const struct reader *reader, const char *path)
{
	uint32_t mode = 0;
	int error = conf_load_key(path, boot->key, sizeof(boot->key), &mode);

	if (error)
		return bootstrap_refuse(reader, "TALLY_KEY_FILE=%s: %s", path,
					conf_error_text(error));
	if (mode & S_IROTH)
		bootstrap_warn(
			boot,
			"TALLY_KEY_FILE=%.150s may be read by everybody on this host: chmod o-r",
			path);
	return TALLY_OK;
}

/* `name` is where the key comes from. */
static int key_take(struct bootstrap *boot, const struct reader *reader, const char *name,
		    const char *key)
{
	if (strlen(key) >= sizeof(boot->key))
		return bootstrap_refuse(reader, "%s has %zu bytes, at most %zu", name, strlen(key),
					sizeof(boot->key) - 1);
	for (const char *at = key; *at; at++)
		if (*at < ' ' || *at > '~')
			return bootstrap_refuse(reader, "%s: byte %zu is not printable ASCII", name,
						(size_t)(at - key));
	strcpy(boot->key, key);
	return TALLY_OK;
}

static int key_read(struct bootstrap *boot, const struct tally_options *options,
		    const struct reader *reader)
{
	const char *key = value_of(reader, "TALLY_KEY"), *file = value_of(reader, "TALLY_KEY_FILE");

	if (options && options->key)
		return key_take(boot, reader, "options->key", options->key);
	if (key && file)
		return bootstrap_refuse(
			reader, "both TALLY_KEY and TALLY_KEY_FILE=%s are set: which one counts?",
			file);
	if (file)
		return key_file_read(boot, reader, file);
	return key ? key_take(boot, reader, "TALLY_KEY", key) : TALLY_OK;
}

static int ifname_read(struct bootstrap *boot, const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_IFNAME"), *why;

	if (!value)
		return TALLY_OK;
	why = interface_pattern_check(value);
	if (!why && strlen(value) >= sizeof(boot->ifname))
		why = "too long";
	if (why)
		return bootstrap_refuse(reader, "TALLY_IFNAME=%.80s: %s", value, why);
	strcpy(boot->ifname, value);
	return TALLY_OK;
}

/* %r is the rank. A job of several ranks never writes one file from all of them. */
static int timeline_read(struct bootstrap *boot, const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_TIMELINE");
	size_t used = 0;
	bool has_rank = false;

	for (const char *at = value ? value : ""; *at && used < sizeof(boot->timeline); at++) {
		char *to = boot->timeline + used;
		size_t room = sizeof(boot->timeline) - used;
		bool is_rank = at[0] == '%' && at[1] == 'r';

		used += (size_t)(is_rank ? snprintf(to, room, "%u", boot->rank)
					 : snprintf(to, room, "%c", *at));
		at += is_rank;
		has_rank |= is_rank;
	}
	if (value && boot->size > 1 && !has_rank && used < sizeof(boot->timeline))
		used += (size_t)snprintf(boot->timeline + used, sizeof(boot->timeline) - used,
					 ".%u", boot->rank);
	if (used >= sizeof(boot->timeline))
		return bootstrap_refuse(reader, "TALLY_TIMELINE=%.80s...: at most %zu bytes", value,
					sizeof(boot->timeline) - 1);
	return TALLY_OK;
}

/* ---- the aggregator ---- */

/* Arguments alone do not say where the others are: a job started so is taken to be on one host, and
 * local mode's error says what to set if it is not. */
static bool is_one_host(const struct bootstrap *boot)
{
	if (boot->size == 1)
		return true;
	if (boot->local_size)
		return boot->local_size == boot->size;
	return !strcmp(boot->source, "arguments");
}

/* Somebody means local mode, with another aggregator or a port, or in capitals: no host has that name. */
static bool has_local(const char *list)
{
	static const char local[] = "local";
	const size_t length = sizeof(local) - 1;

	for (const char *one = list; one; one = strchr(one, ',')) {
		one += *one == ',';
		if (!strncasecmp(one, local, length) && (!one[length] || strchr(",:", one[length])))
			return true;
	}
	return false;
}

static int aggregator_read(struct bootstrap *boot, const struct tally_options *options,
			   const struct reader *reader)
{
	const char *value = options && options->aggregator ? options->aggregator
							   : value_of(reader, "TALLY_AGGREGATOR");

	boot->aggregator[0] = '\0';
	boot->is_local = value ? !strcmp(value, "local") : is_one_host(boot);
	if (boot->is_local)
		return TALLY_OK;
	if (!value && boot->local_size)
		return bootstrap_refuse(
			reader,
			"%u of %u ranks are on this host: set TALLY_AGGREGATOR=host:port to where "
			"tallyd runs",
			boot->local_size, boot->size);
	if (!value)
		return bootstrap_refuse(
			reader,
			"no aggregator: set TALLY_AGGREGATOR=host:port to where tallyd runs, or "
			"TALLY_AGGREGATOR=local if all %u ranks are on this host",
			boot->size);
	if (!*value || strlen(value) >= sizeof(boot->aggregator))
		return bootstrap_refuse(
			reader, "aggregator: not host:port, and not local: \"%.80s\"", value);
	if (has_local(value))
		return bootstrap_refuse(
			reader,
			"aggregator: \"local\" stands alone, in small letters, without a port or "
			"others, not \"%.80s\"",
			value);
	strcpy(boot->aggregator, value);
	return TALLY_OK;
}

static int local_read(struct bootstrap *boot, const struct reader *reader)
{
	const char *value = value_of(reader, "TALLY_LOCAL");

	if (value && strcmp(value, "memory") != 0 && strcmp(value, "udp") != 0)
		return bootstrap_refuse(reader, "TALLY_LOCAL=%s is not memory or udp", value);
	boot->is_udp = value && !strcmp(value, "udp");
	boot->is_memory = value && !boot->is_udp;
	value = value_of(reader, "TALLY_SAME_BITS");
	if (value && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return bootstrap_refuse(reader, "TALLY_SAME_BITS=%s is not 0 or 1", value);
	boot->is_same_bits = value && !strcmp(value, "1");
	return TALLY_OK;
}

/* The name goes into JSON, logs and a socket's name. */
static int job_check(const struct bootstrap *boot, const struct reader *reader)
{
	if (!boot->job[0])
		return bootstrap_refuse(reader, "job: the name is empty");
	for (const char *at = boot->job; *at; at++) {
		if (*at < 0x21 || *at > 0x7e)
			return bootstrap_refuse(
				reader,
				"job: a name has printable ASCII characters and no blanks; byte "
				"%zu is 0x%02x",
				(size_t)(at - boot->job), (unsigned char)*at);
	}
	return TALLY_OK;
}

int bootstrap_finish(struct bootstrap *boot, const struct tally_options *options,
		     bootstrap_get_fn get, void *arg, char text[BOOTSTRAP_TEXT_MAX])
{
	const struct reader reader = { get, arg, text };
	int result = job_check(boot, &reader);

	if (result)
		return result;
	if (boot->size < 1 || boot->size > BOOTSTRAP_SIZE_MAX)
		return bootstrap_refuse(&reader, "size %u is not in 1 to %d", boot->size,
					BOOTSTRAP_SIZE_MAX);
	if (boot->rank >= boot->size)
		return bootstrap_refuse(&reader, "rank %u is not below size %u", boot->rank,
					boot->size);
	if (options && options->local_size) {
		if (options->local_size > boot->size)
			return bootstrap_refuse(&reader, "options->local_size %u is above size %u",
						options->local_size, boot->size);
		boot->local_size = options->local_size;
	}
	result = local_read(boot, &reader);
	if (!result)
		result = timeout_read(boot, options, &reader);
	if (!result)
		result = deadline_read(boot, options, &reader);
	if (!result)
		result = window_read(boot, options, &reader);
	if (!result)
		result = crossed_read(boot, &reader);
	if (!result)
		result = key_read(boot, options, &reader);
	if (!result)
		result = ifname_read(boot, &reader);
	if (!result)
		result = timeline_read(boot, &reader);
	return result ? result : aggregator_read(boot, options, &reader);
}
