#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deps.sh build|demo|test|bench - install the Debian packages that are missing for it. Needs root, or sudo without a
# password; for anybody else, and where apt-get fails, it says the command and fails. Does nothing, and needs no network,
# when nothing is missing.
# deps.sh --list build|... - print their names.
set -euo pipefail

[[ ${1-} != --list ]] || { is_list=1 && shift; }
build=(make gcc libc6-dev binutils meson ninja-build pkg-config python3 git ca-certificates
	libjansson-dev libcmocka-dev zlib1g-dev liblzma-dev)
demo=("${build[@]}" dataset-fashion-mnist)
# peers: what tally is compared with. manpages-dev: data that trains. mmdebstrap: an empty Debian to install into. netbase: tc knows
# udp by it. xz-utils packs what tests read.
# qemu-user runs what is built for arm64. liblinear-tools: what reads our models as well. python3-numpy: what the Python
# package's tests compare with. python3-pip installs its wheel; python3-venv
# makes a place for torch, which no package has as new. mypy: its types. MPICH, gfortran and mpi4py: what bindings/mpi stands
# in front of.
peers=(libopenmpi-dev openmpi-bin libgloo-dev)
test=("${demo[@]}" clang libclang-rt-14-dev clang-format g++ shellcheck linux-libc-dev libbpf-dev bpftool
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user iproute2 ethtool procps gnuplot-nox manpages-dev mmdebstrap netbase xz-utils liblinear-tools
	python3-numpy python3-pip python3-venv mypy yamllint libmpich-dev mpich gfortran python3-mpi4py "${peers[@]}")
# What bench/compare and lab/ need. Gloo is C++.
bench=("${build[@]}" "${peers[@]}" g++ clang linux-libc-dev libbpf-dev bpftool iproute2 ethtool procps gnuplot-nox)

case ${1-} in
build) wanted=("${build[@]}") ;;
demo) wanted=("${demo[@]}") ;;
test) wanted=("${test[@]}") ;;
bench) wanted=("${bench[@]}") ;;
*)
	echo "usage: scripts/deps.sh [--list] build|demo|test|bench" >&2
	exit 2
	;;
esac
if [[ ${is_list-} ]]; then
	printf '%s\n' "${wanted[@]}"
	exit 0
fi

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

command="apt-get install --no-install-recommends ${missing[*]}"
if ((EUID)); then
	here=$(dirname "$(realpath "$0")")
	! "$here/sudo.sh" || exec "$here/sudo.sh" "$here/deps.sh" "$@"
	echo "missing packages; as root: $command" >&2
	exit 1
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# A mirror that does not answer is given up after 3 tries of 30 s. Old lists may still do.
apt=(apt-get -q -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)
"${apt[@]}" update >&2 </dev/null ||
	echo "deps.sh: apt-get update failed: is there a network? Trying with the lists of before" >&2
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 </dev/null; then
	echo "deps.sh: $1 needs packages that apt-get could not install (what it says is above): ${missing[*]}" >&2
	echo "deps.sh: with a network and a mirror in /etc/apt, as root: apt-get update && $command" >&2
	exit 1
fi
