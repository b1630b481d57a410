#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stopped_reader.sh - who reads tallyd's stderr has stopped, and the pipe is full: jobs run all the same, what was
# dropped is said when there is room again, and tallyd ends when it is told to. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=${TALLY_BUILD:-build/release}
tmp=$(mktemp -d)
daemon=''
failures=0

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	kill -KILL "$daemon" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

fill() {
	dd if=/dev/zero of="$tmp/pipe" oflag=nonblock bs=4096 count=1024 2>/dev/null &&
		fail "the pipe has no end"
}

job() { # NAME
	TALLY_AGGREGATOR=$address timeout 60 "$build/tools/tally" run -n 2 -- \
		"$build/tools/tally" bench allreduce --elements 10000 --iters 10 >"$tmp/out" 2>&1 ||
		fail "$1: $(tail -3 "$tmp/out")"
}

mkfifo "$tmp/pipe"
exec 9<>"$tmp/pipe" # a reader that reads when it is told to
"$build/tools/tallyd" --listen 127.0.0.1:0 2>"$tmp/pipe" &
daemon=$!
while read -r -t 20 line <&9; do
	[[ $line == *ready* ]] && break
done
address=$(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$line") || { fail "tallyd is not ready: $line" && exit 1; }

fill
kill -USR1 "$daemon" # a line that finds no room
job "a job while nobody reads"
timeout 1 cat <&9 >"$tmp/read" # all that there was room for
kill -USR1 "$daemon"
job "a job while somebody reads"
timeout 1 cat <&9 >"$tmp/read"
grep -qaE 'tallyd: warn: [0-9]+ lines before this one were dropped' "$tmp/read" ||
	fail "the lines that were dropped are not said: $(tail -5 "$tmp/read")"
grep -qa 'tallyd: info: holds' "$tmp/read" || fail "no lines after those"

fill
kill -TERM "$daemon"
for _ in {1..100}; do
	kill -0 "$daemon" 2>/dev/null || break
	sleep 0.1
done
kill -0 "$daemon" 2>/dev/null && fail "tallyd does not end"
wait "$daemon" || fail "tallyd ends with status $?"
daemon=''
((failures == 0))
