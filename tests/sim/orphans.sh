#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# orphans.sh SIM - tally sim --jobs leaves no children behind, whatever ends it: killed, interrupted or asked to end.
set -uo pipefail
sim=$1
command -v pgrep >/dev/null || { echo "SKIP: no pgrep (scripts/deps.sh test)" && exit 77; }
children=''
trap 'kill -9 $children 2>/dev/null' EXIT

# lives PID: it runs, and is not just waiting to be noticed.
lives() {
	grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status"
}

for signal in KILL INT TERM; do
	# bash has those in the background ignore an interrupt
	env --default-signal=INT "$sim" --jobs 3 --seeds 1..100000000 >/dev/null 2>&1 &
	parent=$!
	for _ in {1..300}; do
		children=$(pgrep -P "$parent")
		[[ $(wc -w <<<"$children") != 3 ]] || break
		sleep 0.1
	done
	[[ $(wc -w <<<"$children") == 3 ]] || { echo "FAILED: it has no three children: $children" && kill -9 "$parent" && exit 1; }
	kill -"$signal" "$parent"
	wait "$parent" 2>/dev/null
	for _ in {1..300}; do
		left=''
		for child in $children; do
			! lives "$child" || left+=" $child"
		done
		[[ $left ]] || break
		sleep 0.1
	done
	[[ ! $left ]] || { echo "FAILED: SIG$signal leaves processes$left" && exit 1; }
done
echo "nobody is left"
