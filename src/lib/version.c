/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - what can be asked without a communicator. */
#include <stddef.h>

#include "lib/report.h"
#include "tally.h"

int tally_get_version(void)
{
	return 10000 * TALLY_VERSION_MAJOR + 100 * TALLY_VERSION_MINOR + TALLY_VERSION_PATCH;
}

const char *tally_get_version_text(void)
{
	return TALLY_VERSION;
}

const char *tally_strerror(int result)
{
	/* clang-format off */
	static const struct {
		int result;
		const char *text;
	} texts[] = {
		{ TALLY_OK,              "success" },
		{ TALLY_ERR_SYSTEM,      "the system refused" },
		{ TALLY_ERR_INTERNAL,    "a bug in tally" },
		{ TALLY_ERR_ARGUMENT,    "invalid argument" },
		{ TALLY_ERR_USAGE,       "not allowed now" },
		{ TALLY_ERR_REMOTE,      "a peer or the aggregator is gone" },
		{ TALLY_IN_PROGRESS,     "in progress" },
		{ TALLY_ERR_TIMEOUT,     "no answer in time" },
		{ TALLY_ERR_MISMATCH,    "the ranks called different operations" },
		{ TALLY_ERR_UNSUPPORTED, "not supported by this version" },
		{ TALLY_ERR_VERSION,     "the aggregator speaks another protocol version" },
		{ TALLY_ERR_ABORTED,     "aborted" },
		{ TALLY_ERR_NO_RESOURCE, "the aggregator has no room" },
		{ TALLY_ERR_NO_MEMORY,   "out of memory" },
		{ TALLY_ERR_DENIED,      "the aggregator refused" },
		{ TALLY_ERR_RANGE,       "an element is too large for the sum" },
		{ TALLY_INTERRUPTED,     "interrupted" },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].result == result)
			return texts[i].text;
	}
	return "no such result";
}

int tally_set_log(int level, tally_log_fn fn, void *arg)
{
	return report_set(level, fn, arg);
}
