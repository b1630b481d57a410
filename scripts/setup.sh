#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh VARIANT [MESON OPTION...] - make build/VARIANT if it is not there yet, or what is there
# is of no use.
#   release  gcc, optimised, debug symbols and asserts kept: what users install
#   clang    the same with clang          asan   gcc, address and undefined behaviour sanitizers
#   arm64    a cross build, never run     tsan   clang, thread sanitizer
#   ablate   as release, checks can be taken out: scripts/ablations.sh
#   fuzz     clang, libFuzzer and sanitizers, for scripts/fuzz.sh: the targets alone are of use
set -euo pipefail
cd "$(dirname "$0")/.."
variant=${1-}
shift || true

cc=gcc
options=()
case $variant in
release) cc=${CC:-gcc} ;;
ablate) options=(-Dablate=any) ;;
clang) cc=clang ;;
asan) options=('-Db_sanitize=address,undefined' -Doptimization=1) ;;
tsan) cc=clang options=(-Db_sanitize=thread -Db_lundef=false -Doptimization=1) ;;
fuzz) cc=clang options=(-Dfuzz=true '-Db_sanitize=address,undefined' -Db_lundef=false -Doptimization=2) ;;
arm64) options=(--cross-file scripts/arm64.ini) ;;
*)
	sed -n '3,/^set/s/^# //p' "$0" >&2
	exit 2
	;;
esac

[[ -f build/$variant/build.ninja ]] && exit 0
rm -rf "build/$variant"
mkdir -p build
if ! CC=$cc meson setup "build/$variant" "${options[@]}" "$@" >"build/$variant.log" 2>&1; then
	cat "build/$variant.log" >&2
	exit 1
fi
