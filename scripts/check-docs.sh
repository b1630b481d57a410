#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-docs.sh [FLAG...] - the C in STYLE.md compiles as one file, with the flags of the build,
# with gcc and clang, and is laid out as it says. Each rule of docs/ablations.md can be taken out, has a
# test that turns red, and a section; and each trace that its script makes is there.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# extract FILE: its C blocks in order, with #line so that an error points into the document.
extract() {
	awk -v file="$1" '
		/^```c$/ { c = 1; printf "#line %d \"%s\"\n", FNR + 1, file; next }
		/^```/ { c = 0 }
		c' "$1"
}

extract STYLE.md >"$tmp/style.c"
[[ -s $tmp/style.c ]]
for cc in gcc clang; do
	command -v "$cc" >/dev/null || { echo "SKIP: STYLE.md: no $cc (scripts/deps.sh test)" && continue; }
	"$cc" -std=c11 -Wall -Wextra -Werror "$@" -c "$tmp/style.c" -o "$tmp/style.o"
	echo "STYLE.md: $cc agrees"
done
if command -v clang-format >/dev/null; then
	clang-format --dry-run -Werror --style=file:.clang-format <(grep -v '^#line' "$tmp/style.c")
else
	echo "SKIP: STYLE.md's layout: no clang-format (scripts/deps.sh test)"
fi

complain() { echo "docs/ablations.md: $*" && exit 1; }

# shellcheck disable=SC2016 # backticks that are looked for
names=$(sed -n 's/^| R-[^|]*|[^|]*| `\([A-Z_]*\)` |.*/\1/p' docs/ablations.md)
[[ -n $names ]] || complain "there is no table"
for name in $names; do
	grep -q "^$name " tests/ablations.txt || complain "$name: no row in tests/ablations.txt"
	grep -q "^## $name$" docs/ablations.md || complain "$name: no section"
done
while read -r name; do
	grep -q "^## $name$" docs/ablations.md || complain "$name: its trace is not there"
done < <(awk '/^simulate / { print $2 }
	/^for name in [A-Z]/ { sub(/;.*/, ""); for (i = 4; i <= NF; i++) print $i }' scripts/ablations-traces.sh)
echo "docs/ablations.md: $(wc -w <<<"$names") rules"
