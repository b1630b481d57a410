#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# join-static.sh OBJCOPY AR OUT.a LIBRARY.a... -- CC... - one object of all rooms, in which only
# what is marked TALLY_API keeps its name: worker_step never collides with a user's.
set -euo pipefail
objcopy=$1 ar=$2 out=$3
shift 3
libraries=()
while [[ $1 != -- ]]; do
	libraries+=("$1")
	shift
done
shift
"$@" -r -nostdlib -o "$out.o" -Wl,--whole-archive "${libraries[@]}" -Wl,--no-whole-archive
"$objcopy" --localize-hidden "$out.o"
rm -f "$out"
"$ar" rcs "$out" "$out.o"
rm -f "$out.o"
