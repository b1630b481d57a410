#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namespaces.sh rate|stock|loss|latency|kernel [4|6] - ranks in network namespaces around an aggregator in another,
# every result verified. rate: 4 at 1 Gbit/s. stock: 8, all without privileges and with the receive buffer
# of a stock kernel: in one of five tries less than 1 % of the packets are sent again. loss: 3 at 250 Mbit/s with 1 % of
# the packets lost both ways; and with none, when no UPDATE may go out twice. latency: 4, with 1 % lost: 10,000
# allreduces of 8 int32 in latency mode. kernel: the same with tallyd --engine kernel, in both forms, which serves
# them there, but for those over IPv6. lab/measure.sh does it. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
export FAMILY=${2:-4}
export TALLY_BUILD=${TALLY_BUILD:-build/release} LAB=tally-test-$$
tmp=$(mktemp -d)
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
trap 'rm -rf "$tmp"' EXIT

# measure ARGUMENT...: its output in $tmp/out; it must have a line that ends in what says "verified".
measure() {
	if ! timeout 100 lab/measure.sh "$@" >"$tmp/out" 2>"$tmp/err"; then
		echo "FAILED: lab/measure.sh $*"
		tail -n 20 "$tmp/out" "$tmp/err"
		exit 1
	fi
	cat "$tmp/out"
	grep -qE ' yes$' "$tmp/out" && return
	echo "FAILED: lab/measure.sh $*: not verified"
	exit 1
}

[[ $FAMILY == 4 || -e /proc/net/if_inet6 ]] || skip "namespaces: no IPv6 in this kernel"
spaces_need namespaces ip tc ethtool
ip netns add "$LAB-probe"
ip -n "$LAB-probe" link add v type veth peer name p 2>/dev/null &&
	tc -n "$LAB-probe" qdisc add dev v root tbf rate 1gbit burst 128kb limit 2mb 2>/dev/null
has_shaper=$?
ip netns del "$LAB-probe"
((has_shaper == 0)) || skip "namespaces: no veth or no tbf in this kernel"

case ${1-} in
rate)
	measure rate 4 1000000
	;;
stock)
	command -v setpriv >/dev/null || skip "stock: no setpriv"
	user=nobody # or whose tree it is: his home may be closed to others
	[[ ${SUDO_USER:-root} == root ]] || user=$SUDO_USER
	setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups "$TALLY_BUILD/tools/tally" --version \
		>/dev/null 2>&1 || skip "stock: the user $user cannot run $TALLY_BUILD/tools/tally"
	# Who waits too long for a processor asks again for what is only late: a busy machine has more than one try.
	for try in 1 2 3 4 5; do
		RUN_AS=$user BUFFER=212992 measure rate 8 1000000
		grep -q ', window 23,' "$tmp/out" || {
			echo "FAILED: 184 packets of receive buffer, and 8 windows of another size than 23"
			exit 1
		}
		awk '/ yes$/ { all = $1 / 360 * 4 * 8; bad = $12 >= all / 100; print $12 " of " all " sent again" }
			END { exit bad }' "$tmp/out" && exit 0
	done
	echo "FAILED: 1 % or more were sent again in $try tries"
	exit 1
	;;
loss)
	root_need loss clang bpftool
	measure loss 3 0 20
	measure loss 3 0.01 20
	grep -qE 'dropped [1-9]' "$tmp/out" || {
		echo "FAILED: nothing was lost"
		exit 1
	}
	;;
latency)
	root_need latency clang bpftool
	measure latency 4 0.01 10000
	grep -qE 'dropped [1-9]' "$tmp/out" || {
		echo "FAILED: nothing was lost"
		exit 1
	}
	;;
kernel)
	root_need kernel clang bpftool
	for slots in 16 1; do # with one slot there are acknowledgements; packets stay small on wide links
		((slots > 1)) || export MTU=9000
		ENGINE=kernel measure latency 4 0.01 "$((slots > 1 ? 5000 : 1000))" "$slots" "$((slots > 1 ? 8 : 1))"
		grep -qE 'dropped [1-9]' "$tmp/out" || {
			echo "FAILED: nothing was lost"
			exit 1
		}
		served=$(sed -n 's/.*kernel: .* packets added, \([0-9]*\) completed.*/\1/p' "$tmp/out")
		if [[ $FAMILY == 4 ]]; then
			((${served:-0} > 800)) || {
				echo "FAILED: of 1,000 rounds or more the kernel completed ${served:-none}"
				exit 1
			}
			grep -qE 'over after .* packets in \([1-9][0-9]* served by the kernel\), [1-9]' "$tmp/out" || {
				echo "FAILED: the job's end does not say what the kernel has served"
				exit 1
			}
		elif [[ -n $served ]]; then
			echo "FAILED: the kernel served packets of IPv6"
			exit 1
		fi
	done
	;;
*)
	echo "usage: namespaces.sh rate|stock|loss|latency|kernel [4|6]" >&2
	exit 2
	;;
esac
