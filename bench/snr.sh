#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# snr.sh [FOLDER] - how exact are float32 sums, beside a ring's? On loopback as it is, and where its MTU is 9,000 and
# 1,500, in network namespaces; of numbers that snr makes up, and of FOLDER's NAME_w0.f32, NAME_w1.f32, ...: raw float32,
# of a rank each. One rank's sum has to be what went in. Fails if a line is more than 1 dB below the ring.
# TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "${TALLY_BUILD:-build/release}")
space=(unshare --net)
((EUID == 0)) || space=(unshare --user --map-root-user --net)
if ! "${space[@]}" ip link set lo up 2>/dev/null; then
	echo "SKIP: no network namespace (unshare, ip)"
	exit 77
fi
failures=0

# sum MTU RANKS WORD...
sum() {
	local mtu=$1 ranks=$2
	shift 2
	# shellcheck disable=SC2016
	timeout 60 "${space[@]}" bash -c 'ip link set lo mtu "$1" up && shift && exec "$@"' - "$mtu" \
		"$build/tools/tally" run -n "$ranks" --no-prefix --aggregator local -- "$build/bench/snr" "$@" && return
	echo "FAILED: MTU $mtu, $ranks ranks: snr $*"
	failures=$((failures + 1))
}

for mtu in 65536 9000 1500; do
	echo "MTU $mtu"
	sum $mtu 4 200000
	sum $mtu 1 200000
	for first in ${1+"$1"/*_w0.f32}; do
		files=("${first%_w0.f32}"_w*.f32)
		echo -n "$(basename "${first%_w0.f32}"): "
		sum $mtu "${#files[@]}" "${files[@]}"
	done
done
exit $((failures > 0))
