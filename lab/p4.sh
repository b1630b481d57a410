#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# p4.sh - hosts (namespaces, lab.sh) around a bmv2 switch that runs src/p4/dense.p4 or latency.p4, with tallyd --engine p4
# behind its CPU port. Every result is verified; of 200 allreduces the results are also the same, bit for bit, as from a
# tallyd that sums by itself, and so is a model of tally glm.
#
#   p4.sh [TEST...]   all of these, or those named:
#     same       4 workers, COUNT (200) allreduces of 1 to 20,000 elements, int32 and float32; then by tallyd's own engine
#     loss       the same, while the switch loses 1 % of what comes in, and 1 % of what it sends
#     latency    OPERATIONS (2,000) allreduces of latency mode, without acknowledgements and with them, then while 1 % is lost
#     glm        tally glm makes the model that one process makes, byte for byte
#     jobs       two jobs at the same time, of 2 workers each
#     killed     a worker dies in the middle: the others are told who
#     restart    the switch is killed and starts again empty in the middle of a job, TRIES (3) times: all ranks are told,
#                and the next job works
#     denied     a job of the mode that the switch's program has not is refused by name
#     flood      a stranger's HELLOs do not all reach tallyd
#
# Needs root, iproute2, ethtool; p4c-bm2-ss, simple_switch and simple_switch_CLI on PATH: exit status 77 without.
# TALLY_BUILD is the build (build/release). PROGRAMS: a folder with dense.json and latency.json, compiled already. SEED.
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
TALLY_BUILD=${TALLY_BUILD:-$HERE/../build/release}
export LAB=${LAB:-tally-p4-$$}
COUNT=${COUNT:-200}
OPERATIONS=${OPERATIONS:-2000}
TRIES=${TRIES:-3}
SEED=${SEED:-$RANDOM}
WORKERS=4
scratch=$(mktemp -d)
switch_pid=
# shellcheck source=lab/daemon.sh
. "$HERE/daemon.sh"

for program in p4c-bm2-ss simple_switch simple_switch_CLI ethtool; do
	if ! command -v "$program" >/dev/null; then
		echo "NOT HERE: $program"
		exit 77
	fi
done
if [ "$(id -u)" != 0 ]; then
	echo "NOT HERE: root, for network namespaces"
	exit 77
fi

hub() {
	"$HERE/lab.sh" exec hub "$@"
}

cleanup() {
	daemon_stop
	switch_stop
	"$HERE/lab.sh" down
	rm -rf "$scratch"
}
trap cleanup EXIT

fail() {
	echo "FAILED: $*" >&2
	tail -n 20 "$scratch"/err.* "$scratch/tallyd" >&2 || true
	exit 1
}

# The bridge goes, a switch comes in its place; the hub's address is behind the switch's CPU port.
lab_up() {
	local i
	"$HERE/lab.sh" up "$WORKERS"
	hub ip link del br0
	hub ip link add cpu type veth peer name cpu-switch
	hub ip link set cpu address 02:55:00:00:00:01 up
	hub ip link set cpu-switch up
	hub ip addr add 10.55.0.1/24 dev cpu
	"$HERE/lab.sh" offload off
	hub ethtool -K cpu tx off gso off gro off tso off >/dev/null
	for ((i = 0; i < WORKERS; i++)); do # nobody behind the switch makes a checksum or cuts a packet for them
		hub ip neigh replace "10.55.0.$((10 + i))" lladdr "02:55:00:00:01:$(printf %02x "$i")" dev cpu nud permanent
		"$HERE/lab.sh" exec "$i" ethtool -K v tx off >/dev/null
	done
}

# switch_start [MODE]: dense, or latency
switch_start() {
	local i ports=() program=$PROGRAMS/${1:-dense}.json
	[ -e "$program" ] || p4c-bm2-ss --Wdisable -o "$program" "$HERE/../src/p4/$(basename "$program" .json).p4"
	for ((i = 0; i < WORKERS; i++)); do
		ports+=(-i "$i@p$i")
	done
	hub simple_switch "${ports[@]}" -i 64@cpu-switch --thrift-port 9090 -L off "$program" >"$scratch/switch" 2>&1 &
	switch_pid=$!
	for _ in $(seq 200); do
		! hub bash -c 'exec 3<>/dev/tcp/127.0.0.1/9090' 2>/dev/null || return 0
		sleep 0.05
	done
	fail "the switch does not listen: $(cat "$scratch/switch")"
}

# simple_switch may be a script around the program: what is in our namespace and has its name is ours.
switch_stop() {
	local pid
	[ -n "$switch_pid" ] || return 0
	for pid in $(ip netns pids "$LAB-hub"); do
		! grep -qE '^(lt-)?simple_switch$' "/proc/$pid/comm" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
	done
	wait "$switch_pid" 2>/dev/null || true
	switch_pid=
}

# How many rounds have been complete since it was started.
switch_rounds() {
	local said
	said=$(switch_say "counter_read switch_ingress.verdicts 2")
	[[ $said =~ \ ([0-9]+)\ packets ]] || fail "no counter: $said"
	echo "${BASH_REMATCH[1]}"
}

switch_say() {
	echo "$@" | hub simple_switch_CLI --thrift-port 9090 2>&1
}

start() {
	daemon_start "$scratch/tallyd" "$TALLY_BUILD/tools/tallyd" --listen 10.55.0.1 "$@"
}

start_p4() {
	start --engine p4 --switch 127.0.0.1 --window 16 --run 4
}

# ranks JOB FIRST COUNT COMMAND...: a rank in each worker's namespace from FIRST on, in the background: pids
ranks() {
	local job=$1 first=$2 count=$3 rank
	shift 3
	pids=()
	for ((rank = 0; rank < count; rank++)); do
		TALLY_RANK=$rank TALLY_SIZE=$count TALLY_JOB=$job TALLY_AGGREGATOR=10.55.0.1 TALLY_INIT_TIMEOUT_S=20 \
			"$HERE/lab.sh" exec "$((first + rank))" "$@" >"$scratch/out.$job.$rank" 2>"$scratch/err.$job.$rank" &
		pids+=($!)
	done
}

# All of them have ended well.
ranks_good() {
	local pid failed=0
	for pid in "$@"; do
		wait "$pid" || failed=$((failed + 1))
	done
	[ "$failed" = 0 ] || fail "$failed of $# ranks"
}

# All have ended with an error that has these words, within SECONDS.
ranks_told() { # JOB COUNT SECONDS WORDS PID...
	local job=$1 count=$2 limit=$((SECONDS + $3)) words=$4 pid rank
	shift 4
	for pid in "$@"; do
		while kill -0 "$pid" 2>/dev/null; do
			((SECONDS < limit)) || fail "a rank still waits"
			sleep 0.1
		done
		! wait "$pid" || fail "a rank has ended well"
	done
	for ((rank = 0; rank < count; rank++)); do
		! grep -q "WRONG" "$scratch/err.$job.$rank" || fail "a wrong sum"
		grep -qE "$words" "$scratch/err.$job.$rank" || fail "rank $rank does not say: $words"
	done
}

bits() { # JOB FIRST COUNT OPERATIONS [SEED]
	ranks "$1" "$2" "$3" "$TALLY_BUILD/tests/e2e/bits_rank" "$4" 20000 "${5:-$SEED}"
}

# The hash that all ranks have.
hash_of() { # JOB
	local all
	all=$(cat "$scratch/out.$1".* | sort -u)
	[ "$(wc -l <<<"$all")" = 1 ] || fail "ranks differ: $all"
	echo "$all"
}

again() { # [MODE]
	daemon_stop
	switch_stop
	switch_start "$@"
	start_p4
}

# 16-bit odds of a loss in P4, on the way in and on the way out; then how many were lost.
lose() {
	local odds
	odds=$(awk -v p="$1" 'BEGIN { printf "%.0f", p * 65536 }')
	switch_say "register_write switch_ingress.losing.odds 0 $odds" >/dev/null
	switch_say "register_write switch_egress.losing.odds 0 $odds" >/dev/null
}

lost() {
	local where
	for where in ingress egress; do
		switch_say "counter_read switch_$where.losing.lost 0" | sed -n 's/.* \([0-9]*\) packets.*/\1/p'
	done | paste -sd+ | bc
}

test_same() {
	local began here
	again
	began=$(date +%s%N)
	bits same 0 "$WORKERS" "$COUNT"
	ranks_good "${pids[@]}"
	here=$(hash_of same)
	echo "same: $COUNT allreduces in $((($(date +%s%N) - began) / 1000000)) ms, all ranks have $here"
	daemon_stop
	grep 'over after' "$scratch/tallyd"
	# The same frames reach a tallyd that sums by itself: nothing is `here` for the switch any more.
	switch_say "table_clear switch_ingress.here" >/dev/null
	start --lanes 32 --window 16 --run 4
	bits soft 0 "$WORKERS" "$COUNT"
	ranks_good "${pids[@]}"
	[ "$(hash_of soft)" = "$here" ] || fail "tallyd's own engine has $(hash_of soft)"
}

test_loss() {
	again
	lose 0.01
	bits loss 0 "$WORKERS" "$COUNT"
	ranks_good "${pids[@]}"
	echo "loss: the switch has lost $(lost) packets; all ranks have $(hash_of loss)"
	(($(lost) > 0)) || fail "nothing was lost"
	daemon_stop
	grep 'over after' "$scratch/tallyd"
}

# WINDOW: a window above half of the slots needs acknowledgements
latency() { # NAME SLOTS WINDOW
	local began
	began=$(date +%s%N)
	ranks "$1" 0 "$WORKERS" "$TALLY_BUILD/tools/tally" bench allreduce --latency-slots "$2" --latency-window "$3" --inflight "$3" \
		--dtype int32 --elements 1,8,32 --iters "$((OPERATIONS / 3 + 1))" --warmup 0 --json
	ranks_good "${pids[@]}"
	python3 - "$scratch/out.$1.0" "$OPERATIONS" <<-'END' || fail "$1: the rows are not what they should be"
		import json, sys
		rows = [json.loads(line) for line in open(sys.argv[1])]
		assert len(rows) == 3 and sum(row["operations"] for row in rows) >= int(sys.argv[2]), rows
		assert all(row["verified"] is True for row in rows), rows
	END
	echo "$1: $OPERATIONS operations in $((($(date +%s%N) - began) / 1000000)) ms, all verified"
}

test_latency() {
	again latency
	latency plain 16 8
	latency acknowledged 16 16
	lose 0.01
	latency plain-lossy 16 8
	latency acknowledged-lossy 16 16
	(($(lost) > 0)) || fail "nothing was lost"
	daemon_stop
	grep 'over after' "$scratch/tallyd"
}

test_glm() {
	local tally=$TALLY_BUILD/tools/tally
	again
	awk -v seed="$SEED" 'BEGIN {
		srand(seed)
		for (row = 0; row < 400; row++) {
			line = ""
			sum = column = 0
			while ((column += 1 + int(20 * rand())) <= 200) {
				value = 2 * rand() - 1
				sum += column % 3 == 0 ? value : -value
				line = line sprintf(" %d:%.4f", column, value)
			}
			print (sum > 0 ? "1" : "-1") line
		}
	}' >"$scratch/rows"
	"$tally" glm train "$scratch/rows" -m "$scratch/alone" --epochs 3 >"$scratch/out.alone"
	ranks glm 0 "$WORKERS" "$tally" glm train "$scratch/rows" -m "$scratch/model" --epochs 3
	ranks_good "${pids[@]}"
	grep -q "no latency mode, so all goes over dense" "$scratch/err.glm.0" || fail "nobody says that it is dense mode"
	cmp "$scratch/alone" "$scratch/model" || fail "the model is not that of one process"
	daemon_stop
	grep 'over after' "$scratch/tallyd"
	echo "glm: $(wc -c <"$scratch/model") bytes of model, the same from one process and from $WORKERS ranks over the switch"
}

test_jobs() {
	local first
	again
	bits one 0 2 50
	first=("${pids[@]}")
	bits two 2 2 50 "$((SEED + 1))" # other data: what went to the wrong job would be a wrong sum
	ranks_good "${first[@]}" "${pids[@]}"
	[ "$(hash_of one)" != "$(hash_of two)" ] || fail "two jobs of other data have the same sums"
	echo "jobs: one has $(hash_of one), two $(hash_of two)"
}

test_killed() {
	again
	bits killed 0 "$WORKERS" 100000
	sleep 2
	kill -KILL "${pids[1]}"
	wait "${pids[1]}" || true
	unset 'pids[1]'
	mv "$scratch/err.killed.0" "$scratch/err.killed.1"
	mv "$scratch/err.killed.2" "$scratch/err.killed.0"
	mv "$scratch/err.killed.1" "$scratch/err.killed.2"
	mv "$scratch/err.killed.3" "$scratch/err.killed.1"
	ranks_told killed 3 20 'rank 1' "${pids[@]}"
	bits after 0 "$WORKERS" 5
	ranks_good "${pids[@]}"
	echo "killed: the others were told, and the next job works"
}

test_restart() {
	local i rounds
	again
	for ((i = 0; i < TRIES; i++)); do
		rounds=$(switch_rounds)
		bits "restart$i" 0 "$WORKERS" 100000
		sleep "$(awk -v r="$RANDOM" 'BEGIN { print 1 + r / 32768 }')"
		(($(switch_rounds) > rounds)) || fail "the job has not begun"
		switch_stop
		sleep "0.$((i % 3))"
		switch_start
		ranks_told "restart$i" "$WORKERS" 40 'switch|heard nothing|silent' "${pids[@]}"
		sleep 1.5 # tallyd looks at it once a second
		bits "after$i" 0 "$WORKERS" 5
		ranks_good "${pids[@]}"
	done
	echo "restart: $TRIES times, all were told, and the next job works; no sum was wrong"
	grep -c 'was started again' "$scratch/tallyd"
}

test_denied() {
	again
	ranks denied 0 "$WORKERS" "$TALLY_BUILD/tools/tally" bench allreduce --latency-slots 16 --elements 8 --iters 2
	ranks_told denied "$WORKERS" 20 'has no latency mode' "${pids[@]}"
	echo "denied: $(cat "$scratch/err.denied.0")"
	again latency
	bits dense 0 "$WORKERS" 2
	ranks_told dense "$WORKERS" 20 'does not use latency mode' "${pids[@]}"
	echo "denied: $(cat "$scratch/err.dense.0")"
}

# HELLOs of nobody, as fast as a host can send them: the switch lets 500 a second through.
test_flood() {
	local seen
	again
	"$HERE/lab.sh" exec 0 python3 -c '
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.55.0.1", 7171))
hello = struct.pack(">BBHIIHHHHI", 0x18, 0, 0, 1, 1, 0, 0, 0, 8, 0) + bytes(32)
end = time.time() + 2
while time.time() < end:
    s.send(hello)
'
	[[ $(switch_say "counter_read switch_ingress.to_control.held_back 0") =~ \ [1-9][0-9]*\ packets ]] ||
		fail "nothing was held back"
	bits flood 0 "$WORKERS" 5
	ranks_good "${pids[@]}"
	daemon_stop
	seen=$(sed -n 's/.*shard 0: \([0-9]*\) packets in.*/\1/p' "$scratch/tallyd" | tail -1)
	((seen < 2000)) || fail "tallyd has got $seen packets"
	echo "flood: tallyd has got $seen packets"
}

tests=("$@")
((${#tests[@]})) || tests=(same loss latency glm jobs killed restart denied flood)
PROGRAMS=${PROGRAMS:-$scratch}
echo "seed $SEED"
lab_up
for test in "${tests[@]}"; do
	"test_$test"
done
