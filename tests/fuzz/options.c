/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - what the sanitizers are told where a fuzzer is built in: short memories are fast ones. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "malloc_context_size=0:quarantine_size_mb=2:thread_local_quarantine_size_kb=64:"
	       "detect_leaks=0"; /* the replay of the corpus finds those, and says who allocated */
}
