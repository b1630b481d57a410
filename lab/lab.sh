#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lab.sh - several hosts on one machine: a star of network namespaces.
#
#   lab.sh up N            hub $LAB-hub (10.55.0.1 and fd55::1 on a bridge), workers $LAB-w0..
#                          (10.55.0.10+i, fd55::100+i)
#   lab.sh shape RATE BURST LIMIT    tbf on both ends of every link; "shape off"
#   lab.sh offload on|off  segmentation and receive offload of every link: off for loss per packet
#   lab.sh loss P          drop with probability P on every ingress, both ways; "loss off"
#   lab.sh stat            packets seen and dropped so far by the loss programs
#   lab.sh exec hub|I CMD  run CMD in the hub or in worker I
#   lab.sh down            take it all away
#
# LAB names the namespaces (default: tally), so that two labs can stand side by side. Needs root and
# iproute2; loss also clang, libbpf's headers and bpftool; offload ethtool. Shape so that the burst holds
# a whole super-packet and LIMIT is above the sockets' send buffer, else packets are lost unintended.
set -euo pipefail
LAB=${LAB:-tally}
HERE=$(dirname "$(readlink -f "$0")")

namespace() {
	case $1 in
	hub) echo "$LAB-hub" ;;
	*) echo "$LAB-w$1" ;;
	esac
}

namespaces() {
	ip netns list | awk '{ print $1 }' | grep -E "^$LAB-(hub|w[0-9]+)\$" || true
}

workers() {
	namespaces | sed -n "s/^$LAB-w//p"
}

address_v6() { # NAMESPACE DEVICE ADDRESS: at once, and nothing if this kernel has no IPv6
	[ ! -e /proc/net/if_inet6 ] || ip -n "$1" addr add "$3/64" dev "$2" nodad
}

up() {
	local count=$1 i j hub
	hub=$(namespace hub)
	ip netns add "$hub"
	ip -n "$hub" link set lo up
	ip -n "$hub" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
	ip -n "$hub" link set br0 address 02:55:00:00:00:01 up
	ip -n "$hub" addr add 10.55.0.1/24 dev br0
	address_v6 "$hub" br0 fd55::1
	for ((i = 0; i < count; i++)); do
		ip netns add "$LAB-w$i"
		ip -n "$LAB-w$i" link set lo up
		ip link add v netns "$LAB-w$i" type veth peer name "p$i" netns "$hub"
		ip -n "$LAB-w$i" link set v address "02:55:00:00:01:$(printf %02x "$i")" up
		ip -n "$LAB-w$i" addr add "10.55.0.$((10 + i))/24" dev v
		address_v6 "$LAB-w$i" v "fd55::$((100 + i))"
		ip -n "$hub" link set "p$i" master br0
		ip -n "$hub" link set "p$i" up
	done
	for ((i = 0; i < count; i++)); do # fixed neighbours: nobody is asked for in the measurements
		neighbour "$LAB-w$i" v 10.55.0.1 fd55::1 02:55:00:00:00:01
		neighbour "$hub" br0 "10.55.0.$((10 + i))" "fd55::$((100 + i))" \
			"02:55:00:00:01:$(printf %02x "$i")"
		for ((j = 0; j < count; j++)); do
			[ "$i" = "$j" ] || neighbour "$LAB-w$i" v "10.55.0.$((10 + j))" \
				"fd55::$((100 + j))" "02:55:00:00:01:$(printf %02x "$j")"
		done
	done
}

neighbour() { # NAMESPACE DEVICE IPV4 IPV6 ADDRESS
	ip -n "$1" neigh replace "$3" lladdr "$5" dev "$2" nud permanent
	ip -n "$1" neigh replace "$4" lladdr "$5" dev "$2" nud permanent 2>/dev/null || true
}

down() {
	local name
	for name in $(namespaces); do
		ip netns del "$name"
	done
}

each_end() { # COMMAND ARGS...: called with namespace and device of both ends of every link
	local i
	for i in $(workers); do
		"$@" "$LAB-w$i" v
		"$@" "$(namespace hub)" "p$i"
	done
}

shape_end() { # RATE BURST LIMIT NAMESPACE DEVICE
	ip netns exec "$4" tc qdisc replace dev "$5" root tbf rate "$1" burst "$2" limit "$3"
}

unshape_end() {
	ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null || true
}

offload_end() { # on|off NAMESPACE DEVICE
	ip netns exec "$2" ethtool -K "$3" tso "$1" gso "$1" gro "$1" \
		tx-udp-segmentation "$1" rx-gro-list off >/dev/null 2>&1 ||
		ip netns exec "$2" ethtool -K "$3" tso "$1" gso "$1" gro "$1" \
			tx-udp-segmentation "$1" >/dev/null
}

lossy_end() { # OBJECT NAMESPACE DEVICE
	ip netns exec "$2" tc qdisc replace dev "$3" clsact
	ip netns exec "$2" tc filter del dev "$3" ingress 2>/dev/null || true
	ip netns exec "$2" tc filter add dev "$3" ingress bpf da obj "$1" sec tc
}

lossless_end() {
	ip netns exec "$1" tc qdisc del dev "$2" clsact 2>/dev/null || true
}

loss() {
	local object
	if [ "$1" = off ]; then
		each_end lossless_end
		return
	fi
	object=$(mktemp --suffix=.o)
	clang -O2 -g -target bpf -idirafter "/usr/include/$(uname -m)-linux-gnu" \
		-DLOSS="$(awk -v p="$1" 'BEGIN { printf "%.0fu", p * 4294967295 }')" \
		-c "$HERE/loss.bpf.c" -o "$object"
	each_end lossy_end "$object"
	rm -f "$object"
}

stat_end() { # NAMESPACE DEVICE
	local program map
	program=$(ip netns exec "$1" tc filter show dev "$2" ingress 2>/dev/null |
		grep -o ' id [0-9]*' | awk '{ print $2 }' | head -1)
	[ -n "$program" ] || return 0
	map=$(bpftool prog show id "$program" -j | grep -o '"map_ids":\[[0-9]*' | grep -o '[0-9]*$')
	bpftool map dump id "$map" -j | grep -o '"value":[0-9]*' | cut -d: -f2 | tr '\n' ' ' |
		awk -v where="$1/$2" '{ printf "%s seen %d dropped %d\n", where, $1, $2 }'
}

stat() {
	each_end stat_end | awk '{ print; seen += $3; dropped += $5 }
		END { printf "total seen %d dropped %d\n", seen, dropped }'
}

usage() {
	[ $# = 0 ] || echo "lab.sh: $*" >&2
	sed -n '3,18p' "$0" | sed 's/^# \{0,1\}//' >&2
	exit 2
}

case "${1:-} $#" in # every word that is needed
'up 2' | 'down 1' | 'shape 4' | 'offload 2' | 'loss 2' | 'stat 1') ;;
'shape 2') [ "$2" = off ] || usage "shape $2: RATE BURST LIMIT, or off" ;;
exec\ *) (($# > 2)) || usage "exec: hub or a worker, and a command" ;;
*) usage "${1:-what?}: not with $(($# ? $# - 1 : 0)) words behind it" ;;
esac
case $1 in
up)
	[[ $2 =~ ^[1-9][0-9]?$ ]] || usage "up $2: 1 to 99 workers"
	up "$2"
	;;
down) down ;;
shape)
	if [ "$2" = off ]; then each_end unshape_end; else each_end shape_end "$2" "$3" "$4"; fi
	;;
offload)
	[[ $2 == on || $2 == off ]] || usage "offload $2: on or off"
	each_end offload_end "$2"
	;;
loss)
	[[ $2 == off || $2 =~ ^(0?\.[0-9]+|1)$ ]] || usage "loss $2: a share of 1, like 0.01, or off"
	loss "$2"
	;;
stat) stat ;;
exec)
	name=$(namespace "$2")
	shift 2
	exec ip netns exec "$name" "$@"
	;;
esac
