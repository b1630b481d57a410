#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh VARIANT [MESON OPTION...] - make build/VARIANT if it is not there yet, or what is there is of no use: it
# came with a checkout that was moved here, or packages have come or gone.
#   release  gcc, optimised, debug symbols and asserts kept: what users install
#   asan     gcc, address and undefined behaviour sanitizers    tsan   clang, thread sanitizer
#   arm64    a cross build, never run
#   ablate   as release, of copies (build/ablated) of which ABLATE=NAME takes a check out: scripts/ablations.sh
#   fuzz     clang, libFuzzer and sanitizers, for scripts/fuzz.sh: the targets alone are of use
set -euo pipefail
cd "$(dirname "$0")/.."
variant=${1-}
shift || true

cc=gcc
source=.
options=()
case $variant in
release) cc=${CC:-gcc} ;;
ablate) source=build/ablated ;;
asan) options=('-Db_sanitize=address,undefined' -Doptimization=1) ;;
tsan) cc=clang options=(-Db_sanitize=thread -Db_lundef=false -Doptimization=1) ;;
fuzz) cc=clang options=(-Dfuzz=true '-Db_sanitize=address,undefined' -Db_lundef=false -Doptimization=2) ;;
arm64) options=(--cross-file scripts/arm64.ini) ;;
*)
	sed -n '3,/^set/s/^# //p' "$0" >&2
	exit 2
	;;
esac

complain() { echo "setup.sh: $*" >&2 && exit 1; }

# What a build is set up for: this place, and what meson may find here or not.
here() {
	pwd -P
	for name in clang c++; do
		command -v "$name" || true
	done
	for name in libbpf ompi-c mpich; do
		pkg-config --exists "$name" 2>/dev/null && echo "$name"
	done
	return 0
}

for name in build "build/$variant" "build/$variant/.ninja_log"; do
	[[ ! -e $name || -w $name ]] || complain "$name is $(stat -c %U "$name")'s, and $(id -un) may not write to it"
done
[[ $variant != ablate ]] || scripts/ablate.py --tree build/ablated
stamp=build/$variant/set-up-for
if [[ -f build/$variant/build.ninja ]]; then
	known=$(cat "$stamp" 2>/dev/null || true)
	[[ $known != "$(here)" ]] || exit 0
fi
for name in meson ninja pkg-config "${cc%% *}"; do
	command -v "$name" >/dev/null ||
		complain "there is no $name here: scripts/deps.sh build, as root, installs what is needed"
done
mkdir -p build
if [[ -f build/$variant/build.ninja ]]; then
	place=${known%%$'\n'*}
	if [[ ${place:-$(pwd -P)} != "$(pwd -P)" ]]; then
		echo "setup.sh: build/$variant was set up in $place: it is set up anew, here" >&2
	elif meson setup --reconfigure "build/$variant" "$source" "$@" >"build/$variant.log" 2>&1; then
		here >"$stamp"
		exit 0
	fi
fi
rm -rf "build/$variant"
if ! CC=$cc meson setup "build/$variant" "$source" "${options[@]}" "$@" >"build/$variant.log" 2>&1; then
	cat "build/$variant.log" >&2
	exit 1
fi
here >"$stamp"
