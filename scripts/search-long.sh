#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# search-long.sh [--markdown] [--row NAME] - every row of tally-search, the long ones too, JOBS of them at
# a time (a process per core), and a table of what was searched; --markdown prints it as docs/search.md
# has it. STATES_MAX states (400 million) is where a row gives up.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
search=$PWD/build/release/src/search/tally-search
jobs=${JOBS:-$(nproc)} states_max=${STATES_MAX:-400000000}
is_markdown=0 wanted=()
while (($#)); do
	case $1 in
	--markdown) is_markdown=1 && shift ;;
	--row) wanted=(--row "${2?}") && shift 2 ;;
	*) echo "search-long.sh: what is '$1'?" >&2 && exit 2 ;;
	esac
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$search" --list --long "${wanted[@]}" >"$dir/rows" || exit 2
"$search" --list "${wanted[@]}" >"$dir/short" 2>"$dir/none" # none may be short
# The long ones begin: so they do not run alone at the end.
awk 'NR == FNR { is_short[$0] = 1; next } { print is_short[$0] + 0 "\t" FNR "\t" $0 }' \
	"$dir/short" "$dir/rows" | sort -s -n -k1,1 | cut -f2- >"$dir/order"

start=$(date -u +%s)
# shellcheck disable=SC2016 # the inner shell's own
tr '\t\n' '\0\0' <"$dir/order" | xargs -0 -n 2 -P "$jobs" bash -c '
	search=$1 states_max=$2 dir=$3 number=$4 row=$5
	"$search" --long --row "$row" --states-max "$states_max" >"$dir/$number.out" 2>&1
	echo "$?" >"$dir/$number.status"
	tail -n 1 "$dir/$number.out" >&2' search-long "$search" "$states_max" "$dir"
seconds=$(($(date -u +%s) - start))

bad=0 count=0
if ((is_markdown)); then
	printf '| row | states | depth | s | |\n|---|--:|--:|--:|---|\n'
else
	printf '\n%-88s %12s %6s %8s\n' row states depth s
fi
while IFS= read -r row; do
	count=$((count + 1))
	status=$(cat "$dir/$count.status" 2>/dev/null || echo 1)
	said=$(tail -n 1 "$dir/$count.out" 2>/dev/null)
	states=- depth=- time=- verdict=${said#"$row"}
	if [[ $said =~ \ ([0-9]+)\ states,\ depth\ +([0-9]+),\ +([0-9.]+)\ s:\ (.*)$ ]]; then
		states=${BASH_REMATCH[1]} depth=${BASH_REMATCH[2]} time=${BASH_REMATCH[3]}
		verdict=${BASH_REMATCH[4]}
	fi
	if ((status)); then
		bad=$((bad + 1)) && cat "$dir/$count.out" >&2
	fi
	verdict=$(sed 's/^ *//; s/^0 violations$/clean/' <<<"$verdict")
	if ((is_markdown)); then
		printf '| %s | %s | %s | %s | %s |\n' "$row" "$states" "$depth" "$time" "$verdict"
	else
		printf '%-88s %12s %6s %8s  %s\n' "$row" "$states" "$depth" "$time" "$verdict"
	fi
done <"$dir/rows"

commit=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo 'no commit')
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | sed -n 1p)
printf '\n%s: commit %s, %d rows, %d not as expected, %d s, %d at a time on %s.\n' \
	"$(date -u +%F)" "$commit" "$count" "$bad" "$seconds" "$jobs" "${cpu:-$(uname -m)}"
((bad == 0))
