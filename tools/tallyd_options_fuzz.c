/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallyd_options_fuzz.c - any bytes as tallyd's configuration file. It goes on with settings within their
 * bounds, or ends with status 2 and a printable line. Files and names are played here: link arguments in
 * meson.build.
 */
#include "tools/tallyd_options.h"

#include <errno.h>
#include <netdb.h>

#include "tests/fuzz/input.h"

static struct {
	const uint8_t *data;
	size_t bytes;
	char said[1 << 15];
	FILE *file; /* in place of stderr */
} test;

long __wrap_conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out);
int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out);
int __real_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);

long __wrap_conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out)
{
	(void)path, (void)mode_out;
	if (test.bytes > bytes_max)
		return -EFBIG;
	memcpy(data, test.data, test.bytes);
	return (long)test.bytes;
}

int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out)
{
	snprintf(key, key_bytes, "%s", path[0] == '/' ? "a key" : "");
	*mode_out = path[0] && path[1] == 'o' ? 0100604 : 0100600;
	return path[0] == '/' ? 0 : -ENOENT;
}

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	struct addrinfo numeric = *hints;

	numeric.ai_flags |= AI_NUMERICHOST; /* no questions to the network */
	return __real_getaddrinfo(name, service, &numeric, found);
}

static void said_check(bool must_say)
{
	size_t length = strlen(test.said);

	FUZZ_CHECK(!must_say || length);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK(((unsigned char)test.said[i] >= ' ' && test.said[i] != 0x7f) ||
			   (test.said[i] == '\n' && i + 1 == length));
}

static bool is_within(uint64_t value, uint64_t min, uint64_t max)
{
	return !value || (value >= min && value <= max);
}

static void settings_check(const struct settings *settings)
{
	const struct server_options *server = &settings->server;

	FUZZ_CHECK(is_within(server->shards, 1, 64));
	FUZZ_CHECK(is_within(server->lanes_max, 4, 16368) && server->lanes_max % 4 == 0);
	FUZZ_CHECK(is_within(server->slots, 8, 32768));
	FUZZ_CHECK(is_within(server->window, 1, 32768));
	FUZZ_CHECK(is_within(server->run, 1, 64));
	FUZZ_CHECK(is_within(server->jobs_max, 1, 1024));
	FUZZ_CHECK(is_within(server->tables_max, 1, 256));
	FUZZ_CHECK(is_within(server->memory_max, 1 << 16, 1ull << 40));
	FUZZ_CHECK(is_within(server->tables_memory, 1 << 16, 1ull << 44));
	FUZZ_CHECK(is_within(server->heartbeat_ms, 1000, 3600000));
	FUZZ_CHECK(settings->level <= SERVER_DEBUG);
	FUZZ_CHECK(strnlen(settings->listen, sizeof(settings->listen)) < sizeof(settings->listen));
	FUZZ_CHECK(strnlen(settings->key, sizeof(settings->key)) < sizeof(settings->key));
	FUZZ_CHECK(strnlen(settings->warning, sizeof(settings->warning)) <
		   sizeof(settings->warning));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct settings settings;
	char program[] = "tallyd", flag[] = "--config", path[] = "f";
	char *argv[] = { program, flag, path, NULL };
	FILE *true_stderr = stderr;
	int result;

	if (!test.file)
		test.file = fmemopen(test.said, sizeof(test.said), "w");
	FUZZ_CHECK(test.file);
	rewind(test.file);
	memset(test.said, 0, 256);
	memset(&settings, 0, sizeof(settings));
	strcpy(settings.listen, "0.0.0.0");
	test.data = data;
	test.bytes = bytes;
	stderr = test.file;
	result = tallyd_options(&settings, 3, argv);
	fputc('\0', test.file);
	fflush(test.file);
	stderr = true_stderr;
	FUZZ_CHECK(result == -1 || result == EXIT_USAGE || result == EXIT_FAILED);
	if (result == -1)
		settings_check(&settings);
	said_check(result != -1);
	return 0;
}
