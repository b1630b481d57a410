#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# paths.sh CASE [4|6] - an aggregator behind a router, in network namespaces, and what happens to the path:
#   reached   the aggregator is reached at its second address
#   names     a name has two addresses, and the first one answers nothing
#   firewall  UDP is blocked, at the start and while a job runs; TCP works
#   narrow    the path's MTU is smaller than the interfaces', told by ICMP or not
#   falls     the MTU falls while a job runs: on the worker's interface, on the aggregator's, on the router,
#             told by ICMP or not: that is no more than anybody can say, and changes nothing
#   down      a link is down for 8 s while a job adds up and another one computes: both go on, longer than TCP, which
#             has backed off, takes to come back
# Every error must come from both ranks, in time, and say what it is. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=${TALLY_BUILD:-build/release} family=${2:-4}
net=tally-paths-$$
tmp=$(mktemp -d)
daemon='' rank0='' rank1=''
failures=0

# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
root_need paths ip
[[ $family == 4 || -e /proc/net/if_inet6 ]] || skip "paths: no IPv6 in this kernel"

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	local pid name
	for pid in $rank0 $rank1 $daemon; do
		kill -KILL "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	for name in worker router hub; do
		ip netns del "$net-$name" 2>/dev/null
	done
	rm -rf "$tmp"
}
trap cleanup EXIT

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

hosts='' # an /etc/hosts that only these see
enter() { # NAMESPACE COMMAND...: instead of this shell
	local name=$1 in=()
	shift
	# shellcheck disable=SC2016 # for the shell inside
	[[ -z $hosts ]] || in=(unshare -m bash -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$hosts")
	exec ip netns exec "$net-$name" "${in[@]}" "$@"
}

# worker 10.56.1.2 - 10.56.1.1 router 10.56.2.1 - 10.56.2.2 and .3 hub; fd56:1::2 and so on.
up() {
	local name
	for name in worker router hub; do
		ip netns add "$net-$name" 2>/dev/null || skip "paths: the kernel refuses a namespace"
		ip -n "$net-$name" link set lo up
	done
	ip -n "$net-worker" link add v type veth peer name pw netns "$net-router" 2>/dev/null ||
		skip "paths: no veth in this kernel"
	ip -n "$net-hub" link add v type veth peer name ph netns "$net-router"
	link worker v 10.56.1.2/24 fd56:1::2/64
	link router pw 10.56.1.1/24 fd56:1::1/64
	link router ph 10.56.2.1/24 fd56:2::1/64
	link hub v 10.56.2.2/24 fd56:2::2/64
	ip -n "$net-hub" addr add 10.56.2.3/24 dev v
	ip -n "$net-worker" route add default via 10.56.1.1
	ip -n "$net-hub" route add default via 10.56.2.1
	(enter router sysctl -qw net.ipv4.ip_forward=1)
	[[ -e /proc/net/if_inet6 ]] || return 0
	ip -n "$net-hub" addr add fd56:2::3/64 dev v nodad
	ip -n "$net-worker" -6 route add default via fd56:1::1
	ip -n "$net-hub" -6 route add default via fd56:2::1
	(enter router sysctl -qw net.ipv6.conf.all.forwarding=1)
}

link() { # NAMESPACE DEVICE IPV4 IPV6
	ip -n "$net-$1" link set "$2" up
	ip -n "$net-$1" addr add "$3" dev "$2"
	[[ ! -e /proc/net/if_inet6 ]] || ip -n "$net-$1" addr add "$4" dev "$2" nodad
}

# drop SELECTOR...: the router swallows such packets, until undrop.
drop() {
	ip -n "$net-router" "-$family" rule add pref 10 "$@" blackhole
}

undrop() {
	ip -n "$net-router" "-$family" rule del pref 10
}

addresses() {
	if [[ $family == 6 ]]; then
		first='[fd56:2::2]' second='[fd56:2::3]' any='[::]' least=1280 needs=1496
	else
		first=10.56.2.2 second=10.56.2.3 any=0.0.0.0 least=1000 needs=1492
	fi
}

daemon_start() { # ADDRESS
	: >"$tmp/daemon" # or the last one's line would be read
	(enter hub "$build/tools/tallyd" --listen "$1:7171") 2>"$tmp/daemon" >/dev/null &
	daemon=$!
	for _ in {1..100}; do
		! grep -qs ready "$tmp/daemon" || return 0
		sleep 0.05
	done
	fail "tallyd is not ready: $(cat "$tmp/daemon")"
	return 1
}

daemon_stop() {
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
	daemon=''
}

# Two ranks on the worker's host: tally bench with these arguments, output in $tmp/out.0 and .1.
ranks_start() { # AGGREGATOR ARGUMENT...
	local aggregator=$1 rank
	shift
	for rank in 0 1; do
		: >"$tmp/out.$rank"
		(
			export TALLY_RANK=$rank TALLY_SIZE=2 TALLY_JOB=paths TALLY_LOG=info TALLY_INIT_TIMEOUT_S=8
			export TALLY_AGGREGATOR=$aggregator
			enter worker timeout 60 "$build/tools/tally" bench allreduce --dtype float32 "$@"
		) >"$tmp/out.$rank" 2>"$tmp/err.$rank" &
		[[ $rank == 0 ]] && rank0=$! || rank1=$!
	done
}

# Both end well, every result verified.
ranks_succeed() { # NAME
	wait "$rank0" || fail "$1: rank 0: $(tail -2 "$tmp/err.0")"
	wait "$rank1" || fail "$1: rank 1: $(tail -2 "$tmp/err.1")"
	rank0='' rank1=''
	grep -q ' yes$' "$tmp/out.0" || fail "$1: not verified"
	echo "$1: works"
}

# Both end in an error that has all these words, within so many seconds from now.
ranks_fail() { # NAME SECONDS WORDS...
	local name=$1 limit=$2 from=$EPOCHREALTIME took rank word
	shift 2
	wait "$rank0" && fail "$name: rank 0 succeeds"
	wait "$rank1" && fail "$name: rank 1 succeeds"
	rank0='' rank1=''
	took=$(awk -v a="$from" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
	awk -v t="$took" -v l="$limit" 'BEGIN { exit !(t <= l) }' || fail "$name: after $took s"
	for rank in 0 1; do
		for word in "$@"; do
			grep -qF -- "$word" "$tmp/err.$rank" ||
				fail "$name: rank $rank does not say \"$word\": $(tail -2 "$tmp/err.$rank")"
		done
	done
	echo "$name: named after $took s: $(grep -o 'error.*' "$tmp/err.0" | sed -n 1p | cut -d ']' -f 2-)"
}

# What is to happen while a job runs: it has begun (the banner), a second of it, the event; then it fails.
mid_job() { # NAME SECONDS "WORDS|WORDS" COMMAND...
	local name=$1 limit=$2 words
	IFS='|' read -ra words <<<"$3"
	shift 3
	ranks_start "$first" --elements 400000 --iters 1000000 --warmup 1
	for _ in {1..150}; do
		! grep -q ' lanes, ' "$tmp/err.0" || break
		sleep 0.1
	done
	sleep 1
	"$@" || fail "$name: the event itself"
	ranks_fail "$name" "$limit" "${words[@]}"
}

mtu() { # NAMESPACE DEVICE BYTES
	ip -n "$net-$1" link set "$2" mtu "$3"
}

# The router's link to the hub, both ends of it: the hub's own route stays at 1500.
narrow_router() {
	mtu router ph "$least"
}

icmp=icmp
[[ $family == 4 ]] || icmp=ipv6-icmp

case_reached() {
	daemon_start "$any" || return
	ranks_start "$first" --elements 10000
	ranks_succeed "the first address of any"
	ranks_start "$second" --elements 10000
	ranks_succeed "the second address of any"
	daemon_stop
}

# Under a name of its own in /etc/hosts, which only these processes see.
case_names() {
	local dead=10.56.2.9
	[[ $family == 4 ]] || dead=fd56:2::9
	daemon_start "$first" || return
	printf '%s twice.test\n%s twice.test\n' "$dead" "$(tr -d '[]' <<<"$first")" >"$tmp/hosts"
	[[ -e /etc/hosts ]] || : >/etc/hosts # a new Debian may have none, and nothing can be mounted there
	hosts=$tmp/hosts
	ranks_start twice.test --elements 10000
	ranks_succeed "a name whose first address is dead"
	daemon_stop
}

case_firewall() {
	daemon_start "$first" || return
	drop ipproto udp dport 7171
	ranks_start "$first" --elements 10000
	ranks_fail "UDP blocked at the start" 16 "TCP to $first:7171 works, UDP" "7171" "firewall"
	undrop
	mid_job "UDP blocked in mid-job" 16 "UDP to the aggregator at $first:7171|firewall" \
		drop ipproto udp dport 7171
	undrop
	mid_job "UDP back blocked in mid-job" 16 "UDP to the aggregator at $first:7171|firewall" \
		drop ipproto udp sport 7171
	undrop
	daemon_stop
}

case_narrow() {
	daemon_start "$first" || return
	narrow_router
	ranks_start "$first" --elements 10000
	ranks_fail "a narrow path, told" 10 "path MTU is below $needs" "$first:7171"
	mtu router ph 1500
	forget
	narrow_router
	drop ipproto "$icmp"
	ranks_start "$first" --elements 10000
	ranks_fail "a narrow path, silent" 10 "path MTU is below $needs" "$first:7171"
	undrop
	mtu router ph 1500
	daemon_stop
}

case_falls() {
	daemon_start "$first" || return
	mid_job "own MTU falls" 5 "too large for the path|$first:7171|was $needs or more|$least now" mtu worker v "$least"
	mtu worker v 1500
	[[ $family == 4 ]] || ip -n "$net-worker" -6 route add default via fd56:1::1 2>/dev/null
	mid_job "the aggregator's MTU falls" 5 "larger than the MTU of the path|$least now" mtu hub v "$least"
	mtu hub v 1500
	[[ $family == 4 ]] || ip -n "$net-hub" -6 route add default via fd56:2::1 2>/dev/null
	mid_job "the router's MTU falls, told" 12 "short ones have|MTU of the path has fallen below $needs|$first:7171" mtu router ph "$least"
	mtu router ph 1500
	forget
	drop ipproto "$icmp"
	mid_job "the router's MTU falls, silent" 12 "short ones have|MTU of the path has fallen below $needs" mtu router ph "$least"
	mtu router ph 1500
	mid_job "the router's MTU back falls, silent" 12 "short ones have|MTU of the path has fallen below $needs" mtu router pw "$least"
	mtu router pw 1500
	undrop
	daemon_stop
}

# Two ranks of a job on the worker's host: outage_rank KIND, output in $tmp/KIND.0 and .1.
outage_start() { # KIND SECONDS
	local rank
	for rank in 0 1; do
		: >"$tmp/$1.$rank"
		(enter worker env "TALLY_RANK=$rank" TALLY_SIZE=2 "TALLY_JOB=$1" TALLY_LOG=error "TALLY_AGGREGATOR=$first" \
			timeout 90 "$build/tests/e2e/outage_rank" "$@") >"$tmp/$1.$rank" 2>&1 &
		outage_pids+=($!)
	done
	for _ in {1..300}; do
		! grep -qs begun "$tmp/$1.0" || return 0
		sleep 0.1
	done
	fail "$1: it does not begin: $(cat "$tmp/$1.0")"
}

outage() { # NAME "COMMAND that takes the link" "COMMAND that gives it back"
	local kind rank outage_pids=()
	for kind in busy idle; do
		outage_start "$kind" 20
	done
	sleep 1
	eval "$2"
	sleep 8
	eval "$3"
	for kind in "${outage_pids[@]}"; do
		wait "$kind" || fail "$1"
	done
	for kind in busy idle; do
		for rank in 0 1; do
			echo "$1, $kind, rank $rank: $(tail -n 1 "$tmp/$kind.$rank")"
		done
	done
}

case_down() {
	daemon_start "$first" || return
	outage "the worker's link" "ip -n $net-router link set pw down" "ip -n $net-router link set pw up; roads"
	outage "the aggregator's link" "ip -n $net-router link set ph down" "ip -n $net-router link set ph up; roads"
	outage "a router that swallows all" "drop from all" undrop
	daemon_stop
}

# A link that was down has lost its IPv6 addresses, and what went over it.
roads() {
	[[ $family == 6 ]] || return 0
	ip -n "$net-router" addr add fd56:1::1/64 dev pw nodad 2>/dev/null
	ip -n "$net-router" addr add fd56:2::1/64 dev ph nodad 2>/dev/null
}

# What ICMP has told is remembered for minutes.
forget() {
	local name
	for name in worker hub; do
		ip -n "$net-$name" route flush cache 2>/dev/null
		ip -n "$net-$name" -6 route flush cache 2>/dev/null
	done
}

case ${1-} in
reached | names | firewall | narrow | falls | down) ;;
*)
	echo "usage: paths.sh reached|names|firewall|narrow|falls|down [4|6]" >&2
	exit 2
	;;
esac
addresses
up
"case_$1"
((failures == 0))
