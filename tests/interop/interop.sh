#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# interop.sh - two ranks of libtally and two of worker.py, written from docs/protocol.md alone, in
# one job at one tallyd: every sum is right, and the same bytes on all four; without loss and with
# 1 % each way; all are told of one that was killed, or that calls another operation.
# TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=${TALLY_BUILD:-build/release}
here=tests/interop
command -v python3 >/dev/null || { echo "SKIP: no python3" && exit 77; }
[[ -x $build/tools/tallyd ]] || { echo "SKIP: no $build/tools/tallyd" && exit 77; }
[[ -x $build/$here/rank ]] || { echo "SKIP: no $build/$here/rank" && exit 77; }

export PYTHONDONTWRITEBYTECODE=1
tmp=$(mktemp -d)
failures=0
daemon='' relay=''
ranks=()
# shellcheck disable=SC2064 # $tmp as it is now
trap "kill_all; rm -rf '$tmp'" EXIT

kill_all() {
	local pid
	for pid in $relay $daemon "${ranks[@]}"; do
		kill -9 "$pid" 2>/dev/null
	done
	wait 2>/dev/null
}

fail() {
	echo "FAILED: $*"
	sed 's/^/  /' "$tmp"/*.err "$tmp"/log
	failures=$((failures + 1))
}

# until_says FILE WORDS PID: as long as the process lives, at most 10 s.
until_says() {
	local _
	for _ in {1..500}; do
		grep -qF -- "$2" "$1" 2>/dev/null && return 0
		kill -0 "$3" 2>/dev/null || return 1
		sleep 0.02
	done
	return 1
}

# aggregator OPTION...: a tallyd on a port of its own; sets $port and $address.
aggregator() {
	local _
	for _ in {1..20}; do
		port=$((10000 + RANDOM % 9000)) # failures-network has 20000 and more
		address=127.0.0.1:$port
		"$build/tools/tallyd" --listen "$address" "$@" 2>"$tmp/log" &
		daemon=$!
		until_says "$tmp/log" ready "$daemon" && return 0
		wait "$daemon"
	done
	return 1
}

# network LOSS SEED: the ranks reach the aggregator through it. A number: $tmp/lossy says how many.
network() {
	python3 $here/lossy.py "$port" "$1" "$2" >"$tmp/lossy" 2>"$tmp/lossy.err" &
	relay=$!
	address=127.0.0.2:$port
	until_says "$tmp/lossy" ready "$relay"
}

# start RANK PLAN [DIE_AT]: 0 and 1 are C, 2 and 3 are Python.
start() {
	local program=("$build/$here/rank")
	if (($1 >= 2)); then
		program=(python3 "$here/rank.py")
	fi
	timeout 60 "${program[@]}" "$address" "interop-$$" "$1" 4 "$2" "$tmp/$1.out" "${@:3}" \
		>"$tmp/$1.said" 2>"$tmp/$1.err" &
	ranks[$1]=$!
}

# ended RANK: its exit status; sets the array's place free.
ended() {
	wait "${ranks[$1]}"
	local status=$?
	unset "ranks[$1]"
	return $status
}

stop() {
	local pid
	for pid in $relay $daemon; do
		kill "$pid"
		wait "$pid"
	done
	relay='' daemon=''
	rm -f "$tmp"/*.out "$tmp"/*.err
}

# sums NAME: all four do the plan; the sums are right, by each rank's own reckoning, and the same.
sums() {
	local rank
	for rank in 0 1 2 3; do
		start $rank $here/plan.txt
	done
	for rank in 0 1 2 3; do
		ended $rank || fail "$1: rank $rank: exit status $?"
	done
	[[ -s $tmp/0.out ]] || fail "$1: rank 0 has no sums"
	for rank in 1 2 3; do
		cmp "$tmp/0.out" "$tmp/$rank.out" || fail "$1: ranks 0 and $rank have different sums"
	done
	echo "$1: $(stat -c %s "$tmp/0.out") bytes of sums, the same on all"
	sed 's/^/  /' "$tmp"/?.said
}

# told NAME RANK PATTERN...: its job failed, and what it said matches.
told() {
	local pattern
	ended "$2"
	(($? == 2)) || fail "$1: rank $2 did not fail"
	for pattern in "${@:3}"; do
		grep -qE -- "$pattern" "$tmp/$2.err" || fail "$1: rank $2 does not say \"$pattern\""
	done
}

clean() {
	aggregator --shards 2 || { fail "no aggregator" && return; }
	sums "no loss, 2 shards"
	stop
}

lossy() {
	aggregator || { fail "no aggregator" && return; }
	network 0.01 "$1" || { fail "no relay" && return; }
	sums "1 % loss each way"
	stop
	tail -n 1 "$tmp/lossy"
	grep -qE '^up: [0-9]+ passed, [1-9][0-9]* lost; down: [0-9]+ passed, [1-9][0-9]* lost$' \
		"$tmp/lossy" || fail "nothing was lost"
}

killed() {
	local rank
	aggregator || { fail "no aggregator" && return; }
	for rank in 0 1 2; do
		start $rank $here/plan.txt
	done
	start 3 $here/plan.txt 9
	ended 3 2>/dev/null # bash would say that it was killed
	for rank in 0 1 2; do
		told "a killed Python rank" $rank 'rank 3 on .* died'
	done
	echo "a killed Python rank: $(cat "$tmp/0.err")"
	stop
}

different() {
	local rank
	sed 's/^int32 small 359 sum -$/int32 small 358 sum -/' $here/plan.txt >"$tmp/plan"
	aggregator || { fail "no aggregator" && return; }
	for rank in 0 1 3; do
		start $rank $here/plan.txt
	done
	start 2 "$tmp/plan"
	for rank in 0 1 2 3; do
		told "another call" $rank 359 358 'rank 2'
	done
	echo "another call: $(cat "$tmp/0.err")"
	stop
}

clean
lossy 1
killed
different
((failures == 0))
