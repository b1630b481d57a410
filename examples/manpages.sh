#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# manpages.sh [SECTION [PAGES [EPOCHS]]] - real data that most machines have: which words say that a manual page is from
# SECTION (3, library functions)? The pages of this machine, at most PAGES (1000) of a section, become rows, a word each
# feature; tally hot says which words are hot, and ctr.sh learns the section, by 4 workers and by one process, and
# compares them: rows are few and long, and share most of their words, so it allows 10 % between their log losses. MANUAL:
# where the pages are (/usr/share/man). TALLY_BUILD: where the programs are.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cd "$here/.."
section=${1:-3} pages=${2:-1000} epochs=${3:-4} manual=${MANUAL:-/usr/share/man}
tally=$(realpath "${TALLY_BUILD:-build/release}")/tools/tally
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
least=100
if ! command -v python3 >/dev/null; then
	echo "SKIP: no python3"
	exit 77
fi
count=$({ find "$manual" -path "$manual/man[1-9]/*" -type f 2>/dev/null || true; } | wc -l)
if ((count < least)) || [[ ! -d $manual/man$section ]]; then
	echo "SKIP: $count manual pages in $manual, $least and some of section $section are needed (apt-get install manpages-dev)"
	exit 77
fi

python3 "$here/manpages.py" "$manual" "$section" "$pages" "$scratch/words" >"$scratch/pages"
echo "$(wc -l <"$scratch/pages") pages, $(grep -c '^+1' "$scratch/pages") of section $section; $(wc -l <"$scratch/words") words"
"$tally" hot "$scratch/pages" --exact -o "$scratch/map"
echo "the hottest words of the sample: $("$tally" hot --show "$scratch/map" | awk -v words="$scratch/words" '
	BEGIN { while ((getline word <words) > 0) name[++n] = word }
	/^[0-9]/ && $1 < 12 { printf "%s ", name[$2] }')"
MORE=10 "$here/ctr.sh" "$scratch/pages" "$epochs" --batch 10
