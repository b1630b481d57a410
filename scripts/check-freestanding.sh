#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-freestanding.sh [FLAG...] - the core is pure: built freestanding and linked with itself
# alone, it needs nothing but the four functions that a compiler may call on its own. And what a
# linker sees of it says where it is from: it begins with the name of a file in its folder, or of
# the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
allowed='^(memcpy|memmove|memset|memcmp)$'
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The beginnings of names that are FOLDER's: name|name|...
prefixes()
{
	{ basename "$1" && find "$1" -name '*.[ch]' -printf '%f\n' | sed 's/\..$//'; } | paste -sd '|'
}

bad=0
for cc in gcc clang; do
	command -v "$cc" >/dev/null || { echo "SKIP: core by $cc: no $cc (scripts/deps.sh test)" && continue; }
	objects=()
	for source in src/core/*/*.c; do
		[[ $source == *_test.c || $source == *_fuzz.c ]] && continue
		object=$tmp/$cc-$(basename "$source" .c).o
		"$cc" -std=c11 -O2 -ffreestanding -nostdlib -ffp-contract=off -fno-strict-aliasing -Isrc \
			"$@" -c "$source" -o "$object"
		objects+=("$object")
		if nm -g --defined-only "$object" | awk '{ print $3 }' |
			grep -Ev "^($(prefixes "$(dirname "$source")"))[_0-9]"; then
			echo "$source: the names above do not begin with that of a file here" && bad=1
		fi
	done
	((${#objects[@]})) || continue
	ld -r -o "$tmp/core-$cc.o" "${objects[@]}"
	needed=$(nm -u "$tmp/core-$cc.o" | awk '{ print $2 }' | sort -u)
	echo "$cc: ${#objects[@]} objects, needs: ${needed:-nothing}"
	if grep -Ev "$allowed" <<<"$needed" | grep .; then
		bad=1
	fi
done
exit "$bad"
