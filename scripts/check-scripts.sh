#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-scripts.sh - shellcheck on every shell script. And none reads a pipe only in part: what still writes to it then
# dies of SIGPIPE, and with pipefail the line fails, once in many runs.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh
command -v shellcheck >/dev/null || { echo "SKIP: no shellcheck (scripts/deps.sh test)" && exit 77; }
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
files '*.sh' .ci/run | while IFS= read -rd '' file; do
	[[ ! -f $file ]] || printf '%s\0' "$file"
done >"$tmp"
xargs -0 shellcheck <"$tmp"
if xargs -0 grep -nE '[^|]\|[[:space:]]*(head\b|grep[^|]* -[a-zA-Z]*[qm]|sed [^|]*[0-9;]q\b)' <"$tmp"; then
	echo "FAILED: ends before its input does: take sed -n 1p, or [[ \$(a) == *b* ]]"
	exit 1
fi
