/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_fuzz.c - any bytes as /etc/tally.conf and ~/.tally.conf, and then who-am-I from them and a sound
 * launcher's variables. Either all is within its bounds, or there is a printable text that begins with the
 * file. Files are played here: link arguments in meson.build.
 */
#include "lib/config.h"

#include <errno.h>

#include "tests/fuzz/input.h"

static struct {
	const uint8_t *data[CONFIG_FILES];
	size_t bytes[CONFIG_FILES];
} test;

long __wrap_conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out);
int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out);

long __wrap_conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out)
{
	uint32_t file = path[1] == 'h' ? CONFIG_HOME : CONFIG_ETC;

	if (!test.data[file])
		return -ENOENT;
	if (test.bytes[file] > bytes_max)
		return -EFBIG;
	memcpy(data, test.data[file], test.bytes[file]);
	if (mode_out)
		*mode_out = 0100600;
	return (long)test.bytes[file];
}

int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out)
{
	snprintf(key, key_bytes, "%s", path[0] == '/' ? "a key" : "");
	if (mode_out)
		*mode_out = 0100600;
	return path[0] == '/' ? 0 : -ENOENT;
}

static const char *launcher(const char *name, void *arg)
{
	(void)arg;
	return !strcmp(name, "TALLY_RANK")   ? "1"
	       : !strcmp(name, "TALLY_SIZE") ? "4"
	       : !strcmp(name, "TALLY_JOB")  ? "j"
					     : NULL;
}

static void text_check(const char *text)
{
	size_t length = strnlen(text, BOOTSTRAP_TEXT_MAX);

	FUZZ_CHECK(length && length < BOOTSTRAP_TEXT_MAX);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void boot_check(const struct bootstrap *boot)
{
	FUZZ_CHECK(boot->rank == 1 && boot->size == 4);
	FUZZ_CHECK(!strcmp(boot->job, "j"));
	FUZZ_CHECK(boot->init_timeout_s >= 1 && boot->init_timeout_s <= 86400);
	FUZZ_CHECK(boot->is_local == !boot->aggregator[0]);
	FUZZ_CHECK(strnlen(boot->aggregator, sizeof(boot->aggregator)) < sizeof(boot->aggregator));
	FUZZ_CHECK(strnlen(boot->key, sizeof(boot->key)) < sizeof(boot->key));
	FUZZ_CHECK(strnlen(boot->timeline, sizeof(boot->timeline)) < sizeof(boot->timeline));
	FUZZ_CHECK(strnlen(boot->ifname, sizeof(boot->ifname)) < sizeof(boot->ifname));
	FUZZ_CHECK(!boot->ifname[0] || !interface_pattern_check(boot->ifname));
	FUZZ_CHECK(strnlen(boot->warning, sizeof(boot->warning)) < sizeof(boot->warning));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct config config;
	char text[BOOTSTRAP_TEXT_MAX] = "";
	struct bootstrap boot;
	size_t etc = bytes ? data[0] : 0;
	int result;

	if (!bytes)
		return 0;
	data++, bytes--;
	etc = etc < bytes ? etc : bytes;
	test.data[CONFIG_ETC] = data;
	test.bytes[CONFIG_ETC] = etc;
	test.data[CONFIG_HOME] = etc < bytes ? data + etc : NULL;
	test.bytes[CONFIG_HOME] = bytes - etc;
	result = config_load(&config, "/etc/tally.conf", "/home", launcher, NULL, text);
	FUZZ_CHECK(!result || result == TALLY_ERR_ARGUMENT);
	if (result) {
		text_check(text);
		FUZZ_CHECK(text[0] == '/');
		return 0;
	}
	result = bootstrap_env(&boot, config_get, &config, text);
	if (!result)
		result = bootstrap_finish(&boot, NULL, config_get, &config, text);
	if (!result) {
		boot_check(&boot);
		return 0;
	}
	config_blame(&config, text);
	text_check(text);
	return 0;
}
