#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-sizes.sh [--table] - fail if a room has more lines of C than src/sizes.txt allows it, or far fewer: then the
# budget has not been taken down with it. Tests, fuzz targets, fixtures, fakes and models do not count. --table prints
# all rooms.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0 all=0 budgets=0
while read -r room budget; do
	[[ $room != \#* && -n $room ]] || continue
	[[ -d $room ]] || { echo "src/sizes.txt: $room: there is no such folder" >&2 && exit 1; }
	lines=$(find "$room" -name '*.[ch]' | grep -vE '_(test|fuzz|fixture|fake|model|shadow)\.' | sort | xargs cat | wc -l)
	all=$((all + lines)) budgets=$((budgets + budget))
	[[ ${1-} != --table ]] || printf '%-18s %6d of %6d\n' "$room" "$lines" "$budget"
	if ((lines > budget)); then
		echo "$room: $lines lines, and src/sizes.txt allows $budget: make it smaller, or say there why it grows" >&2
		bad=1
	elif ((budget > lines + lines / 20 + 50)); then
		echo "$room: $lines lines, and src/sizes.txt allows $budget: take the budget down" >&2
		bad=1
	fi
done <src/sizes.txt
((all)) || { echo "src/sizes.txt: it names no folder" >&2 && exit 1; }
echo "$all lines of $budgets"
exit "$bad"
