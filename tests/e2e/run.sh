#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - what tally run promises: ranks and their environment, output by line, exit status, the 5 s
# of last words, signals, nothing left behind. TALLY_BUILD: where the programs are.
# shellcheck disable=SC2016 # what is in single quotes, the ranks expand
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
tally=${TALLY_BUILD:-build/release}/tools/tally
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0

# run STATUS ARGUMENT...: its exit status must be STATUS; output in $tmp/out, $tmp/err.
run() {
	local want=$1 got
	shift
	"$tally" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	[[ $got == "$want" ]] || fail "tally $*: exit status $got, not $want"
}

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$tmp/out"
	sed 's/^/  err: /' "$tmp/err"
	failures=$((failures + 1))
}

has() { # FILE LINE: this whole line is there
	grep -qxF -- "$2" "$tmp/$1" || fail "no line \"$2\" in std$1"
}

says() { # FILE PATTERN
	grep -qE -- "$2" "$tmp/$1" || fail "nothing like \"$2\" in std$1"
}

ended() { # PID...: none of them is there any more, unless as a zombie that init has yet to take; a killed one needs a moment
	local pid state
	for pid; do
		for _ in {1..200}; do
			state=$(awk '/^State:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || state=gone
			[[ ${state:-gone} != gone && $state != Z ]] || continue 2
			sleep 0.05
		done
		fail "process $pid is still there ($state)"
	done
}

environment() {
	run 0 run -n 3 --job j1 --aggregator 10.0.0.1 -- sh -c \
		'echo "$TALLY_RANK $TALLY_SIZE $TALLY_LOCAL_RANK $TALLY_LOCAL_SIZE $TALLY_JOB $TALLY_AGGREGATOR"'
	for rank in 0 1 2; do
		has out "[$rank] $rank 3 $rank 3 j1 10.0.0.1"
	done
	run 0 run -n 1 -- printenv TALLY_JOB
	cp "$tmp/out" "$tmp/first"
	run 0 run -n 1 -- printenv TALLY_JOB
	cmp -s "$tmp/out" "$tmp/first" && fail "two runs have one job name"
	[[ $(wc -l <"$tmp/out") == 1 ]] || fail "a job name has more than a line"
	run 0 run -n 1 -- sh -c '[ "$TALLY_RUN" = "$$:$TALLY_JOB" ]; exit'
	run 0 run -n 1 --job j1 -- sh -c '[ -z "${TALLY_RUN+set}" ]; exit'
}

odd_host() { # names of hosts are any bytes, those of jobs are not
	local bench=(bench allreduce --elements 10 --dtype int32 --iters 1 --warmup 0)
	unshare -u true 2>/dev/null || return 0
	unshare -u bash -c 'printf "h\303\266st" >/proc/sys/kernel/hostname && exec "$@"' bash \
		"$tally" run -n 2 -- "$tally" "${bench[@]}" >"$tmp/out" 2>"$tmp/err" ||
		fail "a job does not run on a host whose name is not ASCII"
}

timeline() { # a whole JSON array for each rank, with every operation in it
	local bench=(bench allreduce --elements 10 --dtype int32 --iters 5 --warmup 0)
	run 0 run -n 2 --timeline "$tmp/t-%r.json" -- "$tally" "${bench[@]}"
	# ranks whose options differ: rank 0's count
	run 0 run -n 2 -- sh -c 'exec "$0" "$@" --seed "$TALLY_RANK"' "$tally" "${bench[@]}"
	says err "rank 1: --seed 1: rank 0's counts, 0"
	run 0 run -n 2 -- sh -c '[ "$TALLY_RANK" = 0 ] || set -- "$@" --no-check; exec "$0" "$@"' "$tally" "${bench[@]}"
	run 0 "${bench[@]}" --timeline "$tmp/t-alone.json"
	for file in "$tmp"/t-{0,1,alone}.json; do
		python3 -c 'import json, sys; assert sum(e["ph"] == "e" for e in json.load(open(sys.argv[1]))) > 5' \
			"$file" || fail "no timeline $file"
	done
	run 2 run -n 2 --timeline '' -- true
}

output() {
	run 0 run -n 2 -- sh -c 'echo out; echo err >&2; printf "no newline"'
	for rank in 0 1; do
		has out "[$rank] out"
		has err "[$rank] err"
		has out "[$rank] no newline"
	done
	run 0 run -n 12 -- echo x
	has out "[ 3] x"
	has out "[11] x"
	run 0 run -n 2 --no-prefix -- echo '{}'
	[[ $(cat "$tmp/out") == $'{}\n{}' ]] || fail "--no-prefix changes lines"
	# a line is whole however it is written, and long ones are kept
	run 0 run -n 4 -- sh -c 'for i in 1 2 3 4 5; do printf a; sleep 0.02; printf "b\n"; done'
	[[ $(sort "$tmp/out" | uniq -c | awk '{ print $1 $2 $3 }' | tr '\n' ' ') == \
		"5[0]ab 5[1]ab 5[2]ab 5[3]ab " ]] || fail "lines are mixed"
	run 0 run -n 2 -- sh -c 'head -c 60000 /dev/zero | tr "\0" x'
	[[ $(wc -c <"$tmp/out") == 120010 ]] || fail "long lines are cut"
	run 0 run -n 2 -- sh -c 'seq 200000'
	[[ $(wc -l <"$tmp/out") == 400000 ]] || fail "lines are lost"
	run 0 run -n 2 -- cat # an input that is empty, not the terminal
	[[ -s $tmp/out ]] && fail "ranks read something"
}

status() {
	run 0 run -n 3 -- true
	[[ -s $tmp/err ]] && fail "success has something to say"
	run 7 run -n 3 -- sh -c '[ "$TALLY_RANK" != 1 ] || exit 7'
	says err 'rank 1 .*status 7'
	run 137 run -n 2 -- sh -c '[ "$TALLY_RANK" = 1 ] || kill -KILL $$; sleep 0.1'
	says err 'rank 0 .*signal 9'
	# the first that fails decides
	run 3 run -n 2 -- sh -c 'if [ "$TALLY_RANK" = 1 ]; then exit 3; fi
		until grep -q "rank 1 " "$0"; do sleep 0.05; done; exit 4' "$tmp/err"
	says err 'rank 1 .*status 3'
	says err 'then rank 0 .status 4'
	run 127 run -n 2 -- ./no-such-program
	says err 'no-such-program: No such file'
	run 126 run -n 2 -- ./STYLE.md
}

last_words() {
	local begin=$SECONDS took
	run 5 run -n 3 -- sh -c \
		'case $TALLY_RANK in 0) exit 5;; 1) sleep 1; echo "I saw it";; 2) sleep 60;; esac'
	took=$((SECONDS - begin))
	has out "[1] I saw it"
	says err 'then rank 2 .signal 15, ended by us'
	((took >= 4 && took <= 20)) || fail "the others had $took s, not 5"
	# one that does not care for SIGTERM, and what it has started
	begin=$SECONDS
	run 5 run -n 2 -- sh -c \
		'[ "$TALLY_RANK" = 1 ] || exit 5; trap "" TERM; sleep 60 & echo "$$ $!"; wait; sleep 60'
	took=$((SECONDS - begin))
	((took >= 6 && took <= 22)) || fail "the deaf one had $took s, not 7"
	# shellcheck disable=SC2046
	ended $(sed 's/^\[1\] //' "$tmp/out")
}

signals() {
	local pid pids got begin took
	: >"$tmp/out" # or the last one's lines would be read
	"$tally" run -n 2 -- sh -c 'trap "echo got TERM; exit 0" TERM; echo $$; while :; do sleep 0.1; done' \
		>"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
	until [[ $(wc -l <"$tmp/out") == 2 ]]; do sleep 0.05; done
	pids=$(sed 's/^\[.\] //' "$tmp/out")
	kill -TERM "$pid"
	wait "$pid" || fail "ranks that took SIGTERM well failed"
	has out "[0] got TERM"
	has out "[1] got TERM"
	# shellcheck disable=SC2086
	ended $pids
	# a program that does nothing about a signal ends by it, as without us
	: >"$tmp/out"
	"$tally" run -n 2 -- python3 -c 'import time; print("on", flush=True); time.sleep(30)' \
		>"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
	until [[ $(wc -l <"$tmp/out") == 2 ]]; do sleep 0.05; done
	kill -TERM "$pid"
	wait "$pid"
	got=$?
	[[ $got == 143 ]] || fail "ranks that do nothing about SIGTERM: exit status $got, not 143"
	# the runner is killed: its ranks go with it
	: >"$tmp/out"
	"$tally" run -n 2 -- sh -c 'echo $$; exec sleep 60' >"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
	until [[ $(wc -l <"$tmp/out") == 2 ]]; do sleep 0.05; done
	pids=$(sed 's/^\[.\] //' "$tmp/out")
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	# shellcheck disable=SC2086
	ended $pids
	# what a rank leaves behind ends with the job
	run 0 run -n 2 -- sh -c 'sleep 60 & echo $!'
	# shellcheck disable=SC2046
	ended $(sed 's/^\[.\] //' "$tmp/out")
	# what is in no group of ours any more is left alone, and not waited for, though it has our pipe
	begin=$SECONDS
	run 0 run -n 1 -- sh -c 'setsid sleep 30 & sleep 1; echo $!'
	took=$((SECONDS - begin))
	((took <= 15)) || fail "$took s for what has left the job"
	kill -KILL "$(sed 's/^\[.\] //' "$tmp/out")" || fail "what has left the job is not there"
}

# A list without seeds, or with something else in it, is no success: "TEXT|what is said of it".
lists() {
	local list
	for list in '|: there is no seed in it' '# 7\n\n|: there is no seed in it' \
		'7\n8 ring\n|:2: there is no such scenario' 'x|:1: a line is SEED' \
		'7 clean 8|:1: a line is SEED .* from 100 to 1000000' \
		'7 clean 800 9|:1: a line is SEED .* no more' "$(printf '%300s' 7)|:1: a line of more than" \
		'\0\0|:1: this is no text'; do
		printf '%b' "${list%|*}" >"$tmp/list"
		run 2 sim --list "$tmp/list"
		says err "^tally sim: --list $tmp/list${list#*|}"
	done
	run 2 sim --list "$tmp"
	says err ': Is a directory$'
	run 2 sim --list "$tmp/none"
	says err ': No such file'
	run 0 sim --list <(printf '7 clean # a comment\n3 fifo') --json
	says out '"first_seed":3,"last_seed":7,"runs":2,'
}

# A curve with a point for each of the values, and the line that the cable sets, or a word why not.
drawn() {
	local sizes=(sim --topology 2 --message 64K --slots "32,64,128")
	if ! command -v gnuplot >/dev/null; then
		run 2 "${sizes[@]}" --plot "$tmp/a.svg"
		says err 'gnuplot is not installed'
		echo "SKIP: curves: no gnuplot (scripts/deps.sh test)"
		return
	fi
	run 0 "${sizes[@]}" --plot "$tmp/a.svg"
	cp "$tmp/a.svg" "$tmp/out"
	says out '2 workers, 1 switch<'
	(($(grep -c "xlink:href='#gpPt0'" "$tmp/out") >= 3)) || fail "a curve of fewer than 3 points"
	run 0 "${sizes[@]}" --plot "$tmp/a.png"
	[[ $(head -c 4 "$tmp/a.png" | tail -c 3) == PNG ]] || fail "a.png is no PNG"
	run 2 "${sizes[@]}" --plot "$tmp/none/a.svg"
	says err "plot $tmp/none/a.svg: No such file"
}

# Root may always start one more: who is root asks as a user of no name, if such a one may run the program. The limit
# counts all processes of that user: it is one whom nobody else is, not even this test beside itself.
without_processes() {
	local as=()
	((EUID == 0)) && as=(setpriv --reuid=$((60600 + $$ % 400)) --regid=65534 --clear-groups)
	"${as[@]}" "$tally" sim --help >/dev/null 2>&1 || return 0 # it starts tally-sim by its whole path
	(ulimit -u 3 && exec "${as[@]}" "$tally" sim --jobs 20 --seeds 1..20 --scenario clean) \
		>"$tmp/out" 2>"$tmp/err" && fail "sim without processes has succeeded"
	says err '^tally sim: process [0-9]+ of 20: '
}

usage() {
	run 2
	run 2 frobnicate
	says err 'frobnicate: no such command'
	run 2 run -n 2
	run 2 run -- true
	run 2 run -n 0 -- true
	says err '^tally run: --ranks 0: '
	run 2 run -n 1x -- true
	run 2 run -n 2 --job 'a b' -- true
	says err 'job a b'
	run 2 run -n 2 --frobnicate -- true
	says err 'frobnicate'
	run 2 bench
	run 2 bench allsum
	run 2 bench allreduce --elements 1,,2
	says err 'elements 1,,2'
	run 2 bench allreduce --bytes 1K
	run 2 bench allreduce --dtype float128
	run 2 bench allreduce --bytes 1K:2K --dtype int32,float64
	run 2 bench allreduce --op max
	run 2 bench allreduce --frobnicate
	run 2 bench allreduce --window 99999999
	says err 'window 99999999: .*32768'
	# who says something twice means one of the two
	run 2 bench allreduce --iters 5 --iters 6
	says err 'iters 6: is given twice'
	run 2 bench allreduce --elements 1 --bytes 4:8
	says err 'bytes 4:8: .*contradicts an earlier'
	run 2 bench allreduce --random-sizes 5:1:9 --elements 1
	run 2 bench allreduce --random-sizes 5:1:9 --iters 7
	says err 'random-sizes: .*iters'
	run 2 bench allreduce --check --no-check
	says err 'no-check: is given twice, or contradicts'
	run 2 run -n 2 -n 3 -- true
	says err 'ranks 3: is given twice'
	run 2 run -n 2 --job a --job b -- true
	run 2 run -n 2 --aggregator a --aggregator a -- true
	run 2 sim --seed 1 --seeds 1..2
	says err 'seeds 1..2: is given twice'
	run 2 sim --seed 1 --list /dev/null
	run 2 sim --list /dev/null --scenario ring
	lists
	for arguments in '--seed 1..3' '--seeds 3..2' '--seeds 1-3' '--seeds 0..4294967295' '--jobs 0' \
		'--jobs 257' '--scenario ring' '--seed 99999999999999999999'; do
		# shellcheck disable=SC2086
		run 2 sim $arguments
		says err "^tally sim: $arguments: .*--help"
	done
	run 2 sim 7
	says err '^tally sim: 7: not an option'
	drawn
	without_processes
	run 2 bench allreduce --latency-slots 4 --dtype float32
	says err 'latency-slots: .*int32'
	run 2 frobnicate --version
	run 0 bench allreduce --version
	has out "$("$tally" --version)"
	run 0 run -n 2 --version
	has out "$("$tally" --version)"
	run 0 run -n 1 -- printf %s --version
	has out '[0] --version'
	# who has closed them: nothing is printed into a socket, and lost numbers are no success
	"$tally" bench allreduce --elements 1000 --iters 50 2>&- >/dev/null ||
		fail "bench without a stderr"
	"$tally" bench allreduce --elements 1000 --iters 50 2>/dev/null >&- &&
		fail "bench without a stdout has succeeded"
	"$tally" bench allreduce --elements 1000 --iters 50 2>/dev/null >/dev/full &&
		fail "bench into a full disk has succeeded"
	"$tally" sim --seed 1 2>/dev/null >/dev/full && fail "sim into a full disk has succeeded"
	"$tally" run -n 2 -- echo a 2>/dev/null >/dev/full && fail "run into a full disk has succeeded"
	run 0 help run
	says out '^tally run - '
	run 0 help sim
	says out '^tally sim - '
	run 2 help nosuch
	run 0 sim --sparse --seeds 1..2 --json
	says out '^\{"runs":2,"violations":0,.*"stall_seconds":[0-9.]+}$'
	for command in '' run bench doctor sim; do
		# shellcheck disable=SC2086
		run 0 $command --help
		says out "^tally( $command)? "
		# shellcheck disable=SC2086
		run 0 $command --version
		says out '^tally [0-9]+\.[0-9]+\.[0-9]+( \(commit [0-9a-f]+\))?$'
	done
}

for group in environment odd_host timeline output status last_words signals usage; do
	"$group"
done
((failures == 0)) && echo "all promises hold"
((failures == 0))
