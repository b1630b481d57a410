#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sparse.sh - pairs/s of tables of keys on hosts that are network namespaces (lab/lab.sh): hot keys summed by tallyd,
# by the servers alone, and the same updates as dense vectors, in turn. Every run's sums are compared with sums that
# were made without tally.
#
#   bench/sparse.sh [--json] [FILE]     FILE: LIBSVM, or another that tally hot knows: its keys; without, Zipf
#
# N (4) workers and one tally-ps, each behind a link of LINK (50mbit), BURST (30kb); tallyd's is not shaped: a switch.
# A worker pushes BATCHES (2000) batches of BATCH (1000) pairs and pulls their rows (PULL=no: does not; PULL=pushpull: push
# and pull are one operation), DEPTH (40) pulls under way; DISTINCT (200) of the batches differ. A row has DIM (1) values. ZIPF (1.1), KEYS (1000000), SEED (1). RANKS (131072): hot keys, found
# by tally hot in the part SAMPLE (100%) of UPDATES (10000000), or of FILE. TABLE: more words of the table, as tally-ps has them.
#
# WAYS (hot off dense): hot: tallyd sums what is hot, and hot rows are pulled from the copies that it brings to all workers;
# off: no key is hot; dense: tally allreduce of vectors of int32 that are 1 % full, DENSE_BATCHES (5) of them. Also
# pulled: hot, without copies. lossy: hot while a share LOSS (0.001) of the packets is lost on all links, both ways
# (clang, bpftool, and OFFLOAD=off, which is for all ways). RUNS (5) of each.
#
# A pair is a key and its row that travel: keys of a batch differ. "of link": the time that the busiest link needs for
# the bytes that were on it, as part of the time that it took. CPU: seconds of processor for a million pairs, of all
# workers, of tally-ps, of tallyd; what the kernel does in interrupts is nobody's. KEEP: a folder for what was measured.
# PROFILE: a folder for what perf sees of the last run of `hot`.
#
# Nothing else should run: the load is printed. Needs root, iproute2 and python3.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
export LAB=${LAB:-tally-sparse-$$}
TALLY_BUILD=$(realpath "${TALLY_BUILD:-$here/../build/release}")
lab=$here/../lab/lab.sh
workers=${N:-4} link=${LINK:-50mbit} batch=${BATCH:-1000} runs=${RUNS:-5} ways=${WAYS:-hot off dense}
ranks=${RANKS:-131072} exponent=${ZIPF:-1.1} keys=${KEYS:-1000000} seed=${SEED:-1} dim=${DIM:-1}
server=10.55.0.$((10 + workers)) aggregator=10.55.0.1:7171
json='' file='' ps=''
scratch=$(mktemp -d)
keep=${KEEP:-$scratch/keep}
# shellcheck source=lab/daemon.sh
. "$here/../lab/daemon.sh"

skip() {
	echo "SKIP: bench/sparse.sh: $*"
	exit 77
}

ps_stop() {
	[[ -n $ps ]] || return 0
	kill "$ps" 2>/dev/null || true
	wait "$ps" 2>/dev/null || true
	ps=''
}

cleanup() {
	ps_stop
	daemon_stop
	"$lab" down
	rm -rf "$scratch"
}

# The hot keys, of a sample as tally hot takes it.
map_make() {
	local from=("$file")
	[[ -n $file ]] || from=(--zipf "$exponent" --keys "$keys" --updates "${UPDATES:-10000000}")
	"$TALLY_BUILD/tools/tally" hot "${from[@]}" --seed $((seed + 1000)) --sample "${SAMPLE:-100%}" --p 100% --c 100% --key-bytes 1 \
		--memory "$ranks" -o "$scratch/map" >"$scratch/hot" 2>&1 || {
		cat "$scratch/hot" >&2
		return 1
	}
}

# Whom worker 0 calls when all have come, and when all are done: bytes on each link, processor's time of the daemons.
mark_make() {
	cat >"$scratch/mark" <<-END
		#!/bin/bash
		{
			echo "{\"links\":["
			tc -n $LAB-hub -s -j qdisc show
			for ((i = 0; i <= $workers; i++)); do
				echo ,
				tc -n $LAB-w\$i -s -j qdisc show
			done
			echo "],\"ticks\":["
			for at in ps tallyd; do
				[[ \$at == ps ]] || echo ,
				awk '{ print \$14 + \$15 }' /proc/\$(cat $scratch/\$at.pid)/stat 2>/dev/null || echo 0
			done
			echo "],\"hertz\":\$(getconf CLK_TCK)}"
		} >$scratch/at.\$1
	END
	chmod +x "$scratch/mark"
}

ps_start() { # WORD...
	local words
	words=$(printf ',%s' bench dim="$dim" optimizer=sum unit=1 durability=none "$@" ${TABLE:+"$TABLE"})
	: >"$scratch/ps.log"
	"$lab" exec "$workers" "$TALLY_BUILD/tools/tally-ps" --workers "$workers" --listen "$server" \
		${aggregators:+--aggregator "$aggregators"} --table "${words#,}" 2>"$scratch/ps.log" &
	ps=$!
	daemon_ready "$scratch/ps.log" "$ps"
}

# run WAY NUMBER: its line goes to $keep/runs.
run() {
	local way=$1 number=$2 rank pids=() failed=0 words=() batches=${BATCHES:-2000} aggregators=''
	daemon_start "$scratch/tallyd" "$TALLY_BUILD/tools/tallyd" --listen "$aggregator"
	echo "${daemons[0]}" >"$scratch/tallyd.pid"
	case $way in
	hot | lossy)
		aggregators=$aggregator words+=(--map "$scratch/map" --copies)
		ps_start map="$scratch/map" copies=1
		;;
	pulled)
		aggregators=$aggregator words+=(--map "$scratch/map")
		ps_start map="$scratch/map"
		;;
	off) ps_start ;;
	dense) words+=(--dense) batches=${DENSE_BATCHES:-5} ;;
	esac
	echo "${ps:-0}" >"$scratch/ps.pid"
	[[ $way != lossy ]] || "$lab" loss "${LOSS:-0.001}"
	[[ -z $file ]] || words+=(--file "$file")
	case ${PULL:-yes} in
	no) words+=(--push-only) ;;
	pushpull) words+=(--pushpull) ;;
	esac
	[[ $way == dense ]] || words+=(--dim "$dim")
	for ((rank = 0; rank < workers; rank++)); do
		TALLY_RANK=$rank TALLY_SIZE=$workers TALLY_JOB=sparse TALLY_SERVERS=$server TALLY_AGGREGATOR=$aggregator \
			"$lab" exec "$rank" "$TALLY_BUILD/bench/sparse_bench" --batch "$batch" --batches "$batches" \
			--distinct "${DISTINCT:-200}" --depth "${DEPTH:-40}" --keys "$keys" --zipf "$exponent" --seed "$seed" \
			--mark "$scratch/mark" --label "$way $number/$runs" "${words[@]}" >"$scratch/out.$rank" &
		pids+=($!)
	done
	if [[ -n ${PROFILE:-} && $way == hot ]]; then
		mkdir -p "$PROFILE"
		perf record -q -e cpu-clock -F 500 -a -g -o "$PROFILE/perf.data" -- sleep "${PROFILE_S:-4}" >/dev/null 2>&1 || true
	fi
	for rank in "${!pids[@]}"; do
		wait "${pids[$rank]}" || failed=1
	done
	echo null >"$scratch/lost"
	if [[ $way == lossy ]]; then
		"$lab" stat | awk 'END { printf "[%d, %d]\n", $3, $5 }' >"$scratch/lost"
		"$lab" loss off
	fi
	if ((failed)); then
		cat "$scratch/tallyd" "$scratch/ps.log" >&2
		echo "sparse.sh: FAILED: $way, run $number" >&2
		return 1
	fi
	if [[ -n $ps ]]; then
		kill -USR1 "$ps"
		sleep 0.1
	fi
	ps_stop
	daemon_stop
	cp "$scratch/ps.log" "$keep/ps.$way.$number" 2>/dev/null || true
	cp "$scratch/tallyd" "$keep/tallyd.$way.$number"
	python3 "$here/sparse_report.py" line "$way" "$number" "$scratch" "$workers" >>"$keep/runs"
}

for word; do
	case $word in
	--json) json=--json ;;
	-*) echo "sparse.sh: $word: see its first lines" >&2 && exit 2 ;;
	*) file=$(realpath "$word") ;;
	esac
done
((EUID == 0)) || skip "not root"
for program in ip tc python3; do
	command -v "$program" >/dev/null || skip "no $program (scripts/deps.sh test)"
done
trap cleanup EXIT
mkdir -p "$keep"
: >"$keep/runs"
map_make
mark_make
"$lab" up $((workers + 1))
"$lab" shape "$link" "${BURST:-30kb}" 2mb
[[ " $ways " != *" lossy "* && ${OFFLOAD:-on} == on ]] || "$lab" offload off
for ((number = 1; number <= runs; number++)); do
	for way in $ways; do
		[[ -z $json && -t 2 ]] || echo "$(date -u +%T) $way $number/$runs" >&2
		run "$way" "$number"
	done
done
python3 "$here/sparse_report.py" table "$keep/runs" "$link" ${json:+"$json"}
