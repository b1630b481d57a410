#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# simd_test.sh - the tests of src/simd, and of what they compare with, for 64-bit ARM: NEON, in an emulator.
set -euo pipefail
cd "$(dirname "$0")/../.."
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
	command -v "$program" >/dev/null || { echo "SKIP: simd on arm64: no $program (scripts/deps.sh test)" && exit 77; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for name in float_state_test simd_test simd_half_test simd_scalar_test; do
	wrapped=()
	[[ $name != simd_scalar_test ]] || wrapped=("-Wl,--wrap=quant_scalar")
	aarch64-linux-gnu-gcc -static -std=c11 -O2 -D_GNU_SOURCE -fno-strict-aliasing -ffp-contract=off -Wall -Wextra -Werror \
		-I. -Isrc -Itests/arm64 "src/simd/$name.c" src/simd/dispatch.c src/simd/neon.c \
		src/core/shared/quant.c src/core/shared/quant_half.c "${wrapped[@]}" -lm -o "$tmp/$name"
	qemu-aarch64 "$tmp/$name" >"$tmp/log" || { cat "$tmp/log" && exit 1; }
	tail -1 "$tmp/log"
	# No table but the scalar one: nothing was compared.
	! grep '^NOT HERE' "$tmp/log" || exit 1
done
