#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deps.sh build|demo|test|bench - install the Debian packages that are missing for it. Needs root; for
# anybody else it says the command. Does nothing, and needs no network, when nothing is missing.
set -euo pipefail

build=(make gcc libc6-dev binutils meson ninja-build pkg-config python3 git ca-certificates
	libjansson-dev libcmocka-dev zlib1g-dev liblzma-dev)
demo=("${build[@]}" dataset-fashion-mnist)
test=("${demo[@]}" clang libclang-rt-14-dev clang-format shellcheck linux-libc-dev libbpf-dev bpftool
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross iproute2 ethtool procps gnuplot-nox)

# What tally is compared with; its tests are skipped without it.
bench=("${build[@]}" libopenmpi-dev openmpi-bin iproute2)

case ${1-} in
build) wanted=("${build[@]}") ;;
demo) wanted=("${demo[@]}") ;;
test) wanted=("${test[@]}") ;;
bench) wanted=("${bench[@]}") ;;
*)
	echo "usage: scripts/deps.sh build|demo|test|bench" >&2
	exit 2
	;;
esac

command -v dpkg-query >/dev/null || {
	echo "not a Debian system; what is needed here goes by these names there: ${wanted[*]}" >&2
	exit 0
}
missing=()
for package in "${wanted[@]}"; do
	status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[[ $status == *" installed" ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID)); then
	echo "missing packages; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >&2 </dev/null
apt-get install -qy --no-install-recommends "${missing[@]}" >&2 </dev/null
