#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh [4|6] - 4 ranks over loopback, IPv4 or IPv6, every result verified: small packets and large ones, two shards, two
# jobs at once, any address, the aggregator inside rank 0. TALLY_BUILD: where the programs are.
# TALLY_BENCH_ELEMENTS: the sizes (25000000 as the last one takes a few minutes in all).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
family=${1:-4}
loopback=127.0.0.1 reached=127.0.1.1 any=0.0.0.0
[[ $family == 4 ]] || loopback='[::1]' reached='[::1]' any='[::]'
build=${TALLY_BUILD:-build/release}
elements=${TALLY_BENCH_ELEMENTS:-1,359,360,361,65536,500000}
tmp=$(mktemp -d)
daemon=
failures=0

daemon_stop() {
	kill -TERM "$daemon"
	wait "$daemon" || fail "tallyd: exit status $?"
	daemon=
}

cleanup() {
	[[ -z $daemon ]] || kill -KILL "$daemon" 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT

fail() {
	echo "FAILED: $*"
	sed 's/^/  tallyd: /' "$tmp/daemon" 2>/dev/null | tail -5
	failures=$((failures + 1))
}

# daemon_start ADDRESS OPTION...: its address and port in $aggregator.
daemon_start() {
	local address=$1 _
	shift
	: >"$tmp/daemon" # or the last one's line would be read
	"$build/tools/tallyd" --listen "$address:0" "$@" 2>"$tmp/daemon" &
	daemon=$!
	for _ in {1..100}; do
		aggregator=$(sed -n 's/.*tallyd: ready on \([^ ,]*\).*/\1/p' "$tmp/daemon")
		[[ -n $aggregator ]] && return 0
		sleep 0.1
	done
	fail "tallyd is not ready"
	return 1
}

# bench NAME ROWS AGGREGATOR OPTION...: that many rows, all verified; output in $tmp/NAME.
bench() {
	local name=$1 rows=$2 address=$3 got few=(--iters 10 --warmup 1)
	shift 3
	[[ "$*" != *--random-sizes* && "$*" != *--iters* ]] || few=()
	if ! timeout "$limit" "$build/tools/tally" run -n 4 --no-prefix --aggregator "$address" -- \
		"$build/tools/tally" bench "${collective:-allreduce}" "${few[@]}" "$@" >"$tmp/$name" 2>"$tmp/$name.err"; then
		fail "$name: $(tail -3 "$tmp/$name.err" | tr '\n' ' ')"
		return 1
	fi
	got=$(grep -cE 'yes$|"verified":true' "$tmp/$name")
	if [[ $got != "$rows" ]]; then
		fail "$name: $got rows verified, not $rows"
		return 1
	fi
	echo "$name: $got rows verified, $(awk '/float32/ { best = $7 > best ? $7 : best }
		END { print best + 0 }' "$tmp/$name") M float32/s at best"
}

if [[ $family == 6 ]] && ! grep -q '^0*1 ' /proc/net/if_inet6 2>/dev/null; then
	echo "SKIP: this host has no ::1"
	exit 77
fi
limit=120 # seconds for one of them
[[ -z ${TALLY_BENCH_ELEMENTS-} ]] || limit=600
commas=${elements//[^,]/}
rows=$((2 * (${#commas} + 1)))

if daemon_start "$loopback" --lanes 360; then
	bench lanes-360 "$rows" "$aggregator" --elements "$elements"
	grep -q '^# lanes 360,' "$tmp/lanes-360" || fail "lanes-360: other lanes"
	bench job-1 "$rows" "$aggregator" --elements "$elements" &
	first=$!
	bench job-2 "$rows" "$aggregator" --elements "$elements"
	wait "$first" || fail "job-1, beside job-2"
	daemon_stop
fi
if daemon_start "$loopback" --lanes 16368; then
	bench lanes-loopback "$rows" "$aggregator" --elements "$elements"
	bench random 1 "$aggregator" --random-sizes 200:1:100000
	bench json 2 "$aggregator" --elements 100000 --json --iters 3
	python3 -c 'import json, sys
for line in sys.stdin:
    row = json.loads(line)
    assert row["verified"] and row["elements"] == 100000 and row["cpu"] and row["kernel"]
    each = row["elements_all"] / row["timed_s"]  # of a vector, however many ranks have it
    assert abs(row["elements_per_s"] / each - 1) < 1e-3, (row["elements_per_s"], each)' \
		<"$tmp/json" || fail "json: not one object a line"
	daemon_stop
fi
if daemon_start "$loopback" --shards 2 --lanes 360; then
	bench shards-2 "$rows" "$aggregator" --elements "$elements"
	grep -q '^# lanes 360, shards 2,' "$tmp/shards-2" || fail "shards-2: another number"
	daemon_stop
fi
# Any address: answers must come from the one that was reached, as a Debian host's own name is 127.0.1.1.
# That of IPv6 takes IPv4 too.
if daemon_start "$any"; then
	[[ $family == 4 ]] || bench dual 2 "127.0.1.1:${aggregator##*:}" --elements 100000
	bench reached 2 "$reached:${aggregator##*:}" --elements 100000
	daemon_stop
fi
bench local "$rows" local --elements "$elements"
bench avg-in-place 2 local --elements 70000 --op avg --in-place
for collective in reduce broadcast allgather reduce_scatter gather scatter alltoall send; do
	bench "$collective" 6 local --elements 3,1441,100001 --dtype float32,int8
	grep -q "^# tally .* bench $collective " "$tmp/$collective" || fail "$collective: another operation"
done
collective=
# 2^20: in one packet or in several, none asks for an exponent.
bench scale 3 local --elements 30,361,70000 --scale 1048576 --json
bench scale-parts 2 local --elements 1444,70000 --scale 1e6 --dtype float32 --op avg --inflight 4
collective=reduce_scatter bench scale-scatter 1 local --elements 70000 --scale 3.5e5
TALLY_LOCAL=udp bench wire 3 local --elements 30,361,70000 --wire half --dtype float32 --json
bench wire-exact 2 local --elements 30,361 --wire exact --dtype float32 --inflight 4
collective=reduce_scatter bench wire-scatter 1 local --elements 70000 --wire half
grep -q '"elements":70000,.*"wire_share":0.9' "$tmp/wire" || fail "wire: $(cat "$tmp/wire")"
[[ $(grep -c '"exponent_rounds":0,' "$tmp/scale") == 3 ]] || fail "scale: $(cat "$tmp/scale")"
"$build/tools/tally" run -n 4 --aggregator local -- "$build/tools/tally" bench allreduce --scale 2e7 \
	>"$tmp/none" 2>"$tmp/none.err" && fail "a scale that is too large for the data, and yet success"
grep -q 'with 4 ranks at most 1.67772e+07' "$tmp/none.err" || fail "--scale 2e7: $(cat "$tmp/none.err")"

# What was recorded: 5 and -7.25 are the largest of both files, 2^-30 is lost.
python3 - "$tmp" <<'END'
import array, sys
for name, x in ("one", [1, -7.25, 2**-30, float("inf")]), ("two", [5, 0, float("nan"), -3]):
    array.array("f", x).tofile(open(f"{sys.argv[1]}/{name}.f32", "wb"))
END
"$build/tools/tally" bench profile --ranks 3 "$tmp" --json >"$tmp/profile" || fail "profile: exit status $?"
python3 - "$tmp" <<'END' || fail "profile: $(cat "$tmp/profile")"
import json, sys
found = json.load(open(sys.argv[1] + "/profile"))
assert abs(found.pop("scale_at_most") / ((2**31 - 3) / (3 * 7.25)) - 1) < 1e-15, found
assert found == {"files": 2, "elements": 8, "not_finite": 2, "largest": 7.25, "file": sys.argv[1] + "/one.f32",
                 "index": 1, "ranks": 3, "margin": 2, "scale": 2**25, "below": 16, "zeros": 1}, found
END
"$build/tools/tally" bench profile --ranks 4 --margin 1 "$tmp/two.f32" "$tmp/one.f32" >"$tmp/profile" ||
	fail "profile: exit status $?"
grep -q -- '--scale 67108864 (2^26), for elements below 8; 12.5 % become 0' "$tmp/profile" ||
	fail "profile: $(cat "$tmp/profile")"
# The smallest and the largest float32: only what an operation takes is suggested.
python3 - "$tmp" <<'END'
import array, sys
for name, x in ("least", 2**-149), ("most", 3.4e38):
    array.array("f", [x]).tofile(open(f"{sys.argv[1]}/{name}.raw", "wb"))
END
for line in "least 2^154" "most 2^-99"; do
	"$build/tools/tally" bench profile --ranks 4 "$tmp/${line% *}.raw" >"$tmp/profile" || fail "profile: exit status $?"
	grep -qF "(${line#* })" "$tmp/profile" || fail "profile, ${line% *}: $(cat "$tmp/profile")"
done
"$build/tools/tally" bench profile --ranks 4 "$tmp/one.f32" >/dev/full 2>"$tmp/none.err" && fail "a full disk, and yet success"
grep -q 'cannot be written' "$tmp/none.err" || fail "a full disk: $(cat "$tmp/none.err")"
truncate -s 7 "$tmp/two.f32"
"$build/tools/tally" bench profile --ranks 4 "$tmp" 2>"$tmp/none.err" && fail "7 bytes of float32, and yet success"
grep -q 'two.f32: not a multiple of 4 bytes' "$tmp/none.err" || fail "7 bytes: $(cat "$tmp/none.err")"

# A step computes for 60 ms by the trace, and for 6 by a GPU ten times as fast; a call that blocks holds computing up.
printf '%s\n' 'layer, numel, forward, backward' 0,1441,10000000,20000000 1,0,0,0 2,70000,10000000,20000000 >"$tmp/trace"
for options in '--gpu-speed 1' '--gpu-speed 10' '--gpu-speed 0' '--gpu-speed 10 --blocking'; do
	# shellcheck disable=SC2086 # words
	timeout "$limit" "$build/tools/tally" run -n 4 --no-prefix --aggregator local -- \
		"$build/tools/tally" bench replay "$tmp/trace" --steps 3 --json --watch 1 $options >"$tmp/replay" ||
		fail "replay $options: exit status $?"
	# shellcheck disable=SC2086
	python3 - "$tmp/replay" $options <<-'END' || fail "replay $options: $(cat "$tmp/replay")"
		import json, sys
		row = json.load(open(sys.argv[1]))
		speed = float(sys.argv[3])
		compute_us = 60000 / speed if speed else 0
		assert row["verified"] is True and row["elements"] == 71441 and row["layers"] == 3 and row["operations"] == 3, row
		assert abs(row["compute_us"] - compute_us) < 1 and row["tat_us_min"] >= compute_us, row
		assert row["blocking"] == ("--blocking" in sys.argv) and row["cpu_s"] > 0 and row["watched_cpu_s"] >= 0, row
	END
done
echo "0,5,x,1" >"$tmp/trace"
"$build/tools/tally" bench replay "$tmp/trace" 2>"$tmp/none.err" && fail "a trace without times, and yet success"
grep -q 'line 1: not LAYER, ELEMENTS' "$tmp/none.err" || fail "a trace without times: $(cat "$tmp/none.err")"

bench inflight-8 4 local --elements 1000,70000 --inflight 8 --iters 40

# What cannot be is named, soon.
if TALLY_INIT_TIMEOUT_S=3 timeout 30 "$build/tools/tally" run -n 2 --aggregator "$loopback:1" -- \
	"$build/tools/tally" bench allreduce >"$tmp/none" 2>"$tmp/none.err"; then
	fail "no aggregator, and yet success"
fi
grep -qF "$loopback:1" "$tmp/none.err" || fail "no aggregator: no address in $(cat "$tmp/none.err")"

((failures == 0))
