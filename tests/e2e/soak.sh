#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak.sh [MINUTES] [SEED] - the soak (soak.c) on a loopback of its own that loses 0.5 % of all packets,
# those of control too. LOSS: another share. TALLY_BUILD: where the programs are; samples go to
# TALLY_BUILD/soak.csv.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=${TALLY_BUILD:-build/release}
loss=${LOSS:-0.005}
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh

if [[ ${SOAK_INSIDE:-} != yes ]]; then
	root_need soak ip tc ethtool clang bpftool
	[[ ${TORTURE_FAMILY:-4} == 4 || -e /proc/net/if_inet6 ]] || skip "soak: no IPv6 in this kernel"
	unshare -n true 2>/dev/null || skip "soak: the kernel refuses a network namespace"
	SOAK_INSIDE=yes exec unshare -n "$0" "$@"
fi

# counters: packets seen and dropped so far.
counters() {
	local program map
	program=$(tc filter show dev lo ingress | grep -o ' id [0-9]*' | awk '{ print $2 }' | sed -n 1p)
	map=$(bpftool prog show id "$program" -j | grep -o '"map_ids":\[[0-9]*' | grep -o '[0-9]*$')
	bpftool map dump id "$map" -j | grep -o '"value":[0-9]*' | cut -d: -f2 | tr '\n' ' '
}

object=$(mktemp --suffix=.o)
trap 'rm -f "$object"' EXIT
clang -O2 -g -target bpf -idirafter "/usr/include/$(uname -m)-linux-gnu" \
	-DLOSS="$(awk -v p="$loss" 'BEGIN { printf "%.0fu", p * 4294967295 }')" \
	-c lab/loss.bpf.c -o "$object" || exit 1
# A packet is a packet, as on a wire: no super-packets, no MTU of 64 KiB.
ip link set lo mtu 1500 up
ethtool -K lo tso off gso off gro off tx-udp-segmentation off >/dev/null 2>&1 ||
	ethtool -K lo tso off gso off gro off >/dev/null 2>&1
tc qdisc replace dev lo clsact || skip "soak: no clsact in this kernel"
tc filter add dev lo ingress bpf da obj "$object" sec tc || skip "soak: no BPF filter in this kernel"
"$build/tests/e2e/soak" "$build/tools/tallyd" "${1:-1}" "${2:-}" "$build/soak.csv"
result=$?
read -r seen dropped < <(counters)
awk -v s="$seen" -v d="$dropped" \
	'BEGIN { printf "%d packets, %d lost on purpose (%.2f %%)\n", s, d, s ? 100 * d / s : 0 }'
((dropped > 0)) || { echo "FAILED: nothing was lost" && result=1; }
exit "$result"
