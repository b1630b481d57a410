#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# numbers.sh [FOLDER] - how exact are sums of floats, beside a ring's? On loopback as it is, and where its MTU is 9,000
# and 1,500, in network namespaces; of numbers that are made up, and of recorded gradients of 4 ranks (bench/numbers_set.h
# says of which form): FOLDER's, or those of the first steps of examples/fashion. One rank's sum has to be what went in.
# Fails if an error is above its bound, or a vector's float32 sum is more than 1 dB below the ring's.
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
failures=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# ranks MTU COUNT PROGRAM WORD...
ranks() {
	local mtu=$1 count=$2
	shift 2
	# shellcheck disable=SC2016
	timeout 200 "${space[@]}" bash -c 'ip link set lo mtu "$1" up && shift && exec "$@"' - "$mtu" \
		"$build/tools/tally" run -n "$count" --no-prefix --aggregator local -- "$@" && return
	echo "FAILED: MTU $mtu, $count ranks: $*"
	failures=$((failures + 1))
}

folder=${1-}
if [[ -z $folder && -d /usr/share/datasets/fashion-mnist && -x $build/examples/fashion ]]; then
	folder=$tmp
	ranks 65536 4 "$build/examples/fashion" --epochs 1 --images 8192 --batch 512 --gradients "$folder"
elif [[ -z $folder ]]; then
	skipped=77
	echo "SKIP: no Fashion-MNIST (scripts/deps.sh demo): only made up numbers"
fi
for mtu in 65536 9000 1500; do
	echo "MTU $mtu"
	ranks $mtu 4 "$build/bench/numbers" 200000
	ranks $mtu 1 "$build/bench/numbers" 200000
	[[ -z $folder ]] || ranks $mtu 4 "$build/bench/numbers" "$folder"
done
((failures == 0)) || exit 1
exit "$skipped"
