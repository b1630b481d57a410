#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# filters.sh - tallyd --engine kernel and its filter: a second one with the same port and device is told so, and the first
# goes on; a filter that somebody takes away is put back, which the log says, and the job that it served goes on; and what a
# killed one leaves goes when the next begins, whatever its engine and however few its shards. In a network namespace of its
# own: root. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
TALLY_BUILD=${TALLY_BUILD:-build/release} LAB=tally-filters-$$
tmp=$(mktemp -d)
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
spaces_need filters ip tc
ip netns add "$LAB"
pids=()
cleanup() {
	((${#pids[@]} == 0)) || kill -9 "${pids[@]}" 2>/dev/null
	wait 2>/dev/null
	ip netns del "$LAB"
	rm -rf "$tmp"
}
trap cleanup EXIT
ip -n "$LAB" link set lo up

fail() {
	echo "FAILED: $*"
	tail -n 5 "$tmp"/*
	exit 1
}

# until WHAT COMMAND...: it succeeds, some time.
until_so() {
	local what=$1
	shift
	for _ in $(seq 600); do
		"$@" && return
		sleep 0.05
	done
	fail "$what"
}

# daemon NAME ARGUMENT...: its pid in $pid, its log in $tmp/NAME.
container=()
daemon() {
	local name=$1
	shift
	ip netns exec "$LAB" "${container[@]}" "$TALLY_BUILD/tools/tallyd" "$@" >"$tmp/$name" 2>&1 &
	pid=$!
	pids+=("$pid")
}

# has_filter [PORT]
has_filter() {
	[[ $(tc -n "$LAB" filter show dev lo ingress) == *"$(printf 'handle %#x tally_hook' "${1:-7171}")"* ]]
}
# has_filter_back TIMES
has_filter_back() {
	has_filter && (($(grep -c 'the filter at lo was gone, and is back' "$tmp/first") == $1))
}

daemon first --listen 127.0.0.1 --engine kernel --devices lo
first=$pid
is_there() {
	grep -q ready "$tmp/first" || ! kill -0 "$first" 2>/dev/null
}
until_so "the first is not ready" is_there
grep -q 'built without' "$tmp/first" && skip "filters: tallyd was built without libbpf or clang"
has_filter || fail "the first has no filter"

# It shares the network alone, as containers do.
container=(unshare --mount --pid --fork)
daemon second --listen 127.0.0.2 --engine kernel --devices lo
container=()
wait "$pid" && fail "the second has not said no"
grep -q 'another tallyd serves port 7171 at lo in the kernel' "$tmp/second" || fail "the second does not say why"
has_filter || fail "the second has taken the first one's filter"

daemon threads --listen 127.0.0.2
until_so "one without filters does not begin beside it" grep -q ready "$tmp/threads"
has_filter || fail "one without filters has taken the first one's"
kill "$pid"
wait "$pid"

# Sums of 8 numbers in latency mode, each of them looked at, until $tmp/enough is there.
sums() {
	while [[ ! -e $tmp/enough ]]; do
		ip netns exec "$LAB" "$TALLY_BUILD/tools/tally" run -n 2 --no-prefix --aggregator 127.0.0.1 -- \
			"$TALLY_BUILD/tools/tally" bench allreduce --elements 8 --dtype int32 --latency-slots 16 --iters 20000 \
			>"$tmp/sums" 2>&1 || return
	done
}
# A job is over that the kernel and the threads have added a hundred packets for, each.
is_added_by_both() {
	sed -n 's/.*: \([0-9]*\) packets in (\([0-9]*\) served by the kernel).*/\1 \2/p' "$tmp/first" |
		awk '$2 >= 100 && $1 - $2 >= 100 { both = 1 } END { exit !both }'
}
sums &
adder=$!
pids+=("$adder")
round=0
until ((round >= 3)) && is_added_by_both; do
	((round++ < 30)) || fail "no job has lost its filter"
	sleep 0.7
	kill -0 "$adder" 2>/dev/null || fail "a sum is wrong, or a job has failed"
	if ((round % 2)); then
		tc -n "$LAB" filter del dev lo ingress pref 65000
	else
		tc -n "$LAB" qdisc del dev lo clsact
	fi
	until_so "a filter that is gone does not come back, or nobody says so" has_filter_back "$round"
done
touch "$tmp/enough"
wait "$adder" || fail "a sum is wrong, or a job has failed"

kill -9 "$first"
wait "$first" 2>/dev/null
has_filter || fail "a killed one's filter has gone by itself"
daemon third --listen 127.0.0.2
until_so "the third does not begin" grep -q ready "$tmp/third"
! has_filter || fail "a killed one's filter has stayed"
kill "$pid"
wait "$pid"

daemon many --listen 127.0.0.1 --engine kernel --devices lo --shards 3
until_so "three shards do not begin" grep -q ready "$tmp/many"
kill -9 "$pid"
wait "$pid" 2>/dev/null
for port in 7171 7172 7173; do
	has_filter "$port" || fail "there was no filter for $port"
done
daemon one --listen 127.0.0.1 --engine kernel --devices lo --shards 1
until_so "one shard does not begin after three" grep -q ready "$tmp/one"
has_filter || fail "the last has no filter"
for port in 7172 7173; do
	! has_filter "$port" || fail "a killed one's filter for $port has stayed"
done
