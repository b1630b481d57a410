#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measure.sh - tally on a star of namespaces (lab.sh), every result verified.
#
#   measure.sh rate [N] [ELEMENTS] [RATE]   N workers (8) at RATE (1gbit), float32 of ELEMENTS (25000000)
#   measure.sh loss [N] [P] [COUNT]         N workers (4) at 250 Mbit/s, offloads off, a share P (0.01) of
#                                           the packets lost both ways: COUNT (200) allreduces of
#                                           log-uniform sizes 1 to 1e6; the drops are counted. P 0: none
#                                           may be sent twice.
#
#   measure.sh latency [N] [P] [COUNT] [SLOTS] [INFLIGHT]
#                                           latency mode: COUNT (10000) allreduces of 8 int32 by N workers
#                                           (4), a share P (0.01) of the packets lost both ways, SLOTS (16),
#                                           INFLIGHT (8) on their way at once. ENGINE=kernel: tallyd
#                                           --engine; what the kernel has served, and the
#                                           job's totals, are said last. MTU (1500): of the links.
#
# FAMILY=6: over IPv6. RUN_AS=nobody: tallyd and workers as that user; BUFFER: tallyd --receive-buffer
# (212992 is all that a stock kernel gives to who has no privileges). COLLECTIVE (allreduce): what rate runs, as
# broadcast or allgather; WIRE: tally bench --wire. TALLY_BUILD is the build (default
# build/release). ITERS (3): operations of rate; DTYPE (float32): their types, as float16,float32. SEED: of loss and
# latency. Rank 0's table or JSON (JSON=1) goes to stdout. The hub is not shaped: a switch, not a host with one
# worker's link.
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
TALLY_BUILD=${TALLY_BUILD:-$HERE/../build/release}
export LAB=${LAB:-tally-measure-$$}
aggregator=10.55.0.1:7171
[ "${FAMILY:-4}" = 4 ] || aggregator="[fd55::1]:7171"
as=()
[ -z "${RUN_AS:-}" ] || as=(setpriv --reuid "$RUN_AS" --regid "$(id -g "$RUN_AS")" --clear-groups)
ITERS=${ITERS:-3}
SEED=${SEED:-$RANDOM}
scratch=$(mktemp -d)
# shellcheck source=lab/daemon.sh
. "$HERE/daemon.sh"

cleanup() {
	daemon_stop
	"$HERE/lab.sh" down
	rm -rf "$scratch"
}
trap cleanup EXIT

start() {
	daemon_start "$scratch/tallyd" "${as[@]}" "$TALLY_BUILD/tools/tallyd" --listen "$aggregator" \
		${BUFFER:+--receive-buffer "$BUFFER"} "$@"
}

# bench N ARGS...: one rank in each worker's namespace; rank 0 is heard.
bench() {
	local count=$1 rank pids=() failed=0
	shift
	for ((rank = 0; rank < count; rank++)); do
		TALLY_RANK=$rank TALLY_SIZE=$count TALLY_JOB=measure TALLY_AGGREGATOR=$aggregator \
			"$HERE/lab.sh" exec "$rank" "${as[@]}" "$TALLY_BUILD/tools/tally" bench "${COLLECTIVE:-allreduce}" "$@" \
			${JSON:+--json} >"$scratch/out.$rank" 2>"$scratch/err.$rank" &
		pids+=($!)
	done
	for rank in "${!pids[@]}"; do
		wait "${pids[$rank]}" || failed=1
	done
	cat "$scratch/out.0"
	[ "$failed" = 0 ] || cat "$scratch"/err.* "$scratch/tallyd" >&2
	return "$failed"
}

case ${1:-} in
rate)
	count=${2:-8}
	"$HERE/lab.sh" up "$count"
	"$HERE/lab.sh" shape "${4:-1gbit}" 128kb 2mb
	start
	bench "$count" --elements "${3:-25000000}" --dtype "${DTYPE:-float32}" --iters "$ITERS" --warmup 1 \
		${WIRE:+--wire "$WIRE"}
	;;
loss)
	count=${2:-4}
	"$HERE/lab.sh" up "$count"
	"$HERE/lab.sh" shape 250mbit 30kb 2mb
	"$HERE/lab.sh" offload off
	[ "${3:-0.01}" = 0 ] || "$HERE/lab.sh" loss "${3:-0.01}"
	start
	bench "$count" --random-sizes "${4:-200}:1:1000000" --seed "$SEED"
	if [ "${3:-0.01}" != 0 ]; then
		"$HERE/lab.sh" stat | tail -1
	elif ! grep -qE '^resent 0,|"packets_resent":0,' "$scratch/out.0"; then
		echo "FAILED: an UPDATE was sent twice although nothing was lost" >&2
		exit 1
	fi
	;;
latency)
	count=${2:-4}
	"$HERE/lab.sh" up "$count"
	[ -z "${MTU:-}" ] || "$HERE/lab.sh" mtu "$MTU"
	"$HERE/lab.sh" offload "$([ "${3:-0.01}" = 0 ] && echo on || echo off)"
	[ "${3:-0.01}" = 0 ] || "$HERE/lab.sh" loss "${3:-0.01}"
	if [ "${ENGINE:-soft}" = soft ]; then
		start
	else
		start --engine "$ENGINE" --devices "$(seq -s , -f p%g 0 $((count - 1)))"
	fi
	bench "$count" --elements 8 --latency-slots "${5:-16}" --inflight "${6:-8}" \
		--iters "${4:-10000}" --warmup 0 --seed "$SEED"
	[ "${3:-0.01}" = 0 ] || "$HERE/lab.sh" stat | tail -1
	daemon_stop
	grep -E 'kernel:|over after' "$scratch/tallyd" || true
	;;
*)
	sed -n '3,21p' "$0" | sed 's/^# \{0,1\}//'
	exit 2
	;;
esac
