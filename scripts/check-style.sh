#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-style.sh [--fix] - what STYLE.md says and a script can see: licence line, layout, functions
# of at most 70 lines, no trailing blanks. --fix lays out the C and strips blanks.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh
lines_max=70

# Every text file, in one process: one for each file takes minutes on a busy machine.
mapfile -t all < <(files . | xargs -0 grep -lIs '' |
	grep -Ev '^(LICENSE$|LICENSES/|tests/fuzz/corpus/)')
mapfile -t c < <(printf '%s\n' "${all[@]}" | grep '\.[ch]$')
mapfile -t licensed < <(printf '%s\n' "${all[@]}" | grep -E '\.([ch]|sh|py)$|^\.ci/run$')
((${#c[@]} && ${#licensed[@]})) || { echo "check-style.sh: there are no C files here" && exit 1; }

if [[ ${1-} == --fix ]]; then
	clang-format -i "${c[@]}"
	sed -i 's/[ \t]*$//' "${all[@]}"
	exit 0
fi

bad=0
licence='SPDX-License-Identifier: (Apache-2.0|BSD-2-Clause OR GPL-2.0)( [*]/)?$'
awk -v licence="$licence" '
	FNR <= 3 && $0 ~ licence { has[FILENAME] = 1 }
	FNR == 3 { nextfile }
	END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in has)) {
		print ARGV[i] ": no SPDX line at the top"; bad = 1 }
		exit bad }' "${licensed[@]}" || bad=1
if grep -nE '[[:blank:]]$' "${all[@]}"; then
	echo "trailing blanks: make format" && bad=1
fi
# In this layout only a function has its braces alone in the first column.
awk -v max="$lines_max" '
	FNR == 1 { start = 0 }
	/^{$/ { start = FNR; name = before }
	/^}$/ && start { n = FNR - start - 1; start = 0
		if (n > max) { print FILENAME ": " n " lines, at most " max ": " name; bad = 1 } }
	!/^[ \t]/ { before = $0 }
	END { exit bad }' "${c[@]}" || bad=1
if command -v clang-format >/dev/null; then
	printf '%s\0' "${c[@]}" | xargs -0 -n 16 -P 0 clang-format --dry-run -Werror 2>&1 |
		awk -F: '/error:/ && !seen[$1]++ { print $1 ":" $2 ": layout: make format" }' || bad=1
elif ((!bad)); then
	echo "SKIP: no clang-format (scripts/deps.sh test)" && exit 77
fi
exit "$bad"
