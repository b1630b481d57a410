#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# search.sh - every reachable state of the shipped code: no violation; then with one rule taken out at a
# time: caught, with the shortest trace.
set -eu
cd "$(dirname "$0")/.."
failed=0
passed=0
if build/release/src/search/tally-search; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
fi
for program in build/release/src/search/tally-search-*; do
	if ! test -f "$program"; then
		continue
	fi
	printf '\nwithout %s:\n' "${program##*tally-search-}"
	if "$program" --expect-violation; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
test "$failed" -eq 0
