#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lab.sh - several hosts on one machine: a star of network namespaces.
#
#   lab.sh up N            hub $LAB-hub (10.55.0.1 and fd55::1 on a bridge), workers $LAB-w0..
#                          (10.55.0.10+i, fd55::100+i)
#   lab.sh shape RATE BURST LIMIT    tbf on both ends of every link; "shape off"
#   lab.sh mtu BYTES       of every link
#   lab.sh offload on|off  segmentation and receive offload of every link: off for loss per packet
#   lab.sh delay US        hold every frame for so long on every link, each way; "delay off" says how exactly
#   lab.sh loss P          drop with probability P on every ingress, both ways; "loss off"
#   lab.sh stat            packets seen and dropped so far by the loss programs
#   lab.sh exec hub|I CMD  run CMD in the hub or in worker I
#   lab.sh down            take it all away
#
# LAB names the namespaces (default: tally), so that two labs can stand side by side. Needs root and
# iproute2; loss also clang, libbpf's headers and bpftool; offload and delay ethtool. Shape so that the burst
# holds a whole super-packet and LIMIT is above the sockets' send buffer, else packets are lost unintended.
#
# A delay is lab/delay.c's, of TALLY_BUILD (build/release), as not every kernel has netem. A link's end in the hub, p0, p1,
# .., then leaves the bridge, and t0, t1, .. are there in its place, also for loss and tallyd's --devices. It switches
# offloads off, and leaves them so: "offload on" follows "delay off". MTU 1500. A packet is late by some 60 us
# on a virtual machine of 2 processors, and takes 40 of one. Exit status 77: no packet sockets.
set -euo pipefail
LAB=${LAB:-tally}
HERE=$(dirname "$(readlink -f "$0")")
TALLY_BUILD=${TALLY_BUILD:-$HERE/../build/release}

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
	delay_end >&2
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

each_ingress() { # the same, but where the hub's packets have come from the link
	local i
	for i in $(workers); do
		"$@" "$LAB-w$i" v
		"$@" "$(namespace hub)" "$(hub_port "$i")"
	done
}

shape_end() { # RATE BURST LIMIT NAMESPACE DEVICE
	ip netns exec "$4" tc qdisc replace dev "$5" root tbf rate "$1" burst "$2" limit "$3"
}

unshape_end() {
	ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null || true
}

mtu_end() { # BYTES NAMESPACE DEVICE
	ip -n "$2" link set "$3" mtu "$1"
}

offload_end() { # on|off NAMESPACE DEVICE
	ip netns exec "$2" ethtool -K "$3" tso "$1" gso "$1" gro "$1" \
		tx-udp-segmentation "$1" rx-gro-list off >/dev/null 2>&1 ||
		ip netns exec "$2" ethtool -K "$3" tso "$1" gso "$1" gro "$1" \
			tx-udp-segmentation "$1" >/dev/null
}

finish_end() { # on|off NAMESPACE DEVICE: whether checksums are left to the device
	ip netns exec "$2" ethtool -K "$3" tx "$1" >/dev/null
}

hub_port() { # I: where what comes from worker I enters the hub's bridge
	if ip -n "$(namespace hub)" link show "t$1" >/dev/null 2>&1; then echo "t$1"; else echo "p$1"; fi
}

delay() { # US
	local i hub ends=() status=0
	hub=$(namespace hub)
	delay_end
	[ "$1" != off ] || return 0
	for i in $(workers); do
		ip -n "$hub" link add "d$i" type veth peer name "t$i"
		ip -n "$hub" link set "p$i" nomaster
		ip -n "$hub" link set "t$i" master br0
		ip -n "$hub" link set "t$i" up
		ip -n "$hub" link set "d$i" up
		offload_end off "$hub" "t$i"
		finish_end off "$hub" "t$i"
		offload_end off "$LAB-w$i" v
		finish_end off "$LAB-w$i" v
		ends+=("p$i" "d$i")
	done
	ip netns exec "$hub" "$TALLY_BUILD/lab/delay" "$1" "${ends[@]}" </dev/null >"/run/$LAB.delay" || status=$?
	((!status)) || delay_end
	return "$status"
}

delay_end() { # as it was, and what the delay line says
	local i hub pid
	hub=$(namespace hub)
	for pid in $(ip netns pids "$hub" 2>/dev/null); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = delay ] || continue
		kill "$pid"
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.02
		done
	done
	for i in $(workers); do
		ip -n "$hub" link del "d$i" 2>/dev/null || continue
		ip -n "$hub" link set "p$i" master br0
		finish_end on "$LAB-w$i" v
	done
	[ ! -e "/run/$LAB.delay" ] || cat "/run/$LAB.delay"
	rm -f "/run/$LAB.delay"
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
		each_ingress lossless_end
		return
	fi
	object=$(mktemp --suffix=.o)
	clang -O2 -g -target bpf -idirafter "/usr/include/$(uname -m)-linux-gnu" \
		-DLOSS="$(awk -v p="$1" 'BEGIN { printf "%.0fu", p * 4294967295 }')" \
		-c "$HERE/loss.bpf.c" -o "$object"
	each_ingress lossy_end "$object"
	rm -f "$object"
}

stat_end() { # NAMESPACE DEVICE
	local program map
	program=$(ip netns exec "$1" tc filter show dev "$2" ingress 2>/dev/null |
		grep -o ' id [0-9]*' | awk '{ print $2 }' | sed -n 1p)
	[ -n "$program" ] || return 0
	map=$(bpftool prog show id "$program" -j | grep -o '"map_ids":\[[0-9]*' | grep -o '[0-9]*$')
	bpftool map dump id "$map" -j | grep -o '"value":[0-9]*' | cut -d: -f2 | tr '\n' ' ' |
		awk -v where="$1/$2" '{ printf "%s seen %d dropped %d\n", where, $1, $2 }'
}

stat() {
	each_ingress stat_end | awk '{ print; seen += $3; dropped += $5 }
		END { printf "total seen %d dropped %d\n", seen, dropped }'
}

usage() {
	[ $# = 0 ] || echo "lab.sh: $*" >&2
	sed -n '3,23p' "$0" | sed 's/^# \{0,1\}//' >&2
	exit 2
}

case "${1:-} $#" in # every word that is needed
'up 2' | 'down 1' | 'shape 4' | 'mtu 2' | 'offload 2' | 'delay 2' | 'loss 2' | 'stat 1') ;;
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
mtu) each_end mtu_end "$2" ;;
offload)
	[[ $2 == on || $2 == off ]] || usage "offload $2: on or off"
	each_end offload_end "$2"
	;;
delay)
	[[ $2 == off || $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage "delay $2: 1 to 999999 us, or off"
	[ "$2" = off ] || command -v ethtool >/dev/null || { echo "lab.sh: no ethtool" >&2 && exit 77; }
	[ "$2" = off ] || [ -x "$TALLY_BUILD/lab/delay" ] || { echo "lab.sh: no $TALLY_BUILD/lab/delay" >&2 && exit 77; }
	delay "$2"
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
