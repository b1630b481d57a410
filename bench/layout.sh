#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layout.sh - how often a chip recirculates packets of hot pairs (docs/layout.md): the table of layout_bench, its plot,
# and then the same pushes in jobs that run: tally-ps, one worker and tallyd --faithful on this host, which counts. Rows
# must be the same, and all sums right, or it fails.
#
#   bench/layout.sh [--plot FILE.svg] [NUMBERS]     NUMBERS: words of layout_bench, as --pushes 100
#
# REGISTERS (8 16 32 64 128): those of the jobs, of layout_bench's. VALUES=lns: the switch adds floats up by tables.
set -euo pipefail
TALLY_BUILD=$(realpath "${TALLY_BUILD:-$(dirname "$(readlink -f "$0")")/../build/release}")
scratch=$(mktemp -d)
pids=()

cleanup() {
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -rf "$scratch"
}
trap cleanup EXIT

# What is behind WORDS in a line of the log, as soon as there is one.
said() { # LOG PID WORDS
	for _ in $(seq 600); do
		sed -n "s/.*$3//p" "$1" | grep . | sed -n 1p && return
		kill -0 "$2" 2>/dev/null || break
		sleep 0.05
	done
	cat "$1" >&2
	return 1
}

# job REGISTERS WAY PACKING MAP: its row. Of values=lns floats are pushed.
job() {
	local aggregator server line
	: >"$scratch/tallyd" # or the last job's lines would be read
	: >"$scratch/ps"
	"$TALLY_BUILD/tools/tallyd" --listen 127.0.0.1:0 --faithful "$1" 2>"$scratch/tallyd" &
	pids=($!)
	aggregator=$(said "$scratch/tallyd" "${pids[0]}" 'ready on ')
	aggregator=${aggregator%%,*}
	"$TALLY_BUILD/tools/tally-ps" --workers 1 --listen 127.0.0.1:0 --aggregator "$aggregator" --silence 3600000 --table \
		"layout,dim=1,optimizer=sum,unit=1,durability=none,bytes=192,window=16,packing=$3,map=$4,values=$values" 2>"$scratch/ps" &
	pids+=($!)
	server=$(said "$scratch/ps" "${pids[1]}" 'ready on ')
	said "$scratch/ps" "${pids[1]}" "is summed $aggregator" >/dev/null
	TALLY_SERVERS=${server%%,*} "$TALLY_BUILD/bench/layout_live" "${floats[@]}" "${numbers[@]}" >"$scratch/live" || {
		cat "$scratch/live" "$scratch/ps" >&2
		return 1
	}
	kill "${pids[1]}"
	wait "${pids[1]}" || true
	kill "${pids[0]}"
	wait "${pids[0]}" || true
	pids=()
	line=$(sed -n 's/.*a chip of \([0-9]*\) registers had recirculated \([0-9]*\) of \([0-9]*\) pushes, \([0-9]*\) times.* \([0-9]*\) times$/\1 \2 \3 \4 \5/p' \
		"$scratch/tallyd")
	awk -v way="$2" '{ printf "%9s %-12s %12d %15.4f %13.4f %15.2f\n", $1, way, $3, $4 / $3, $5 / $3, 100 * $2 / $3 }' <<<"${line:-none}"
}

plot=() numbers=() floats=() values=${VALUES:-fixed}
[[ $values == fixed ]] || floats=("--$values")
while (($#)); do
	if [[ $1 == --plot && $# -gt 1 ]]; then
		plot=(--plot "$2") && shift
	else
		numbers+=("$1")
	fi
	shift
done
"$TALLY_BUILD/bench/layout_bench" "${plot[@]}" "${numbers[@]}" | tee "$scratch/table"
pushes=$(sed -n '1s/.*; \([0-9]*\) pushes.*/\1/p' "$scratch/table")
"$TALLY_BUILD/bench/layout_live" "${numbers[@]}" --map "$scratch/heat"
"$TALLY_BUILD/bench/layout_live" "${numbers[@]}" --map "$scratch/random" --random

printf '\nlive, all sums right:\n%9s %-12s %12s %15s %13s %15s\n' registers way packets recirculations 'all at once' 'recirculated %'
for registers in ${REGISTERS:-8 16 32 64 128}; do
	while read -r way packing map; do
		job "$registers" "$way" "$packing" "$scratch/$map" | tee "$scratch/row"
		# Of the table: packets per push, and the three of each packet.
		want=$(sed 's/algorithm 1/algorithm1/' "$scratch/table" |
			awk -v registers="$registers" -v way="$way" '$1 == registers && $2 == way { print $3, $5, $6, $7 }')
		got=$(awk -v pushes="$pushes" '{ printf "%.2f %s %s %s", $3 / pushes, $4, $5, $6 }' "$scratch/row")
		[[ $got == "$want" ]] || { echo "bench/layout.sh: layout_bench has: $want" >&2 && exit 1; }
	done <<-END
		random fill random
		heat fill heat
		algorithm1 algorithm1 heat
		dealing deal heat
	END
done
