#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-skips.sh - scripts/testlog.py tells skips that no package of Debian helps from those that lack one.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
while IFS=: read -r result said; do
	printf '{"name": "tally / %s", "result": "%s", "stdout": "one\\n%s\\n", "stderr": ""}\n' "$said" "$result" "$said"
done >"$tmp/log" <<-'END'
	OK:well
	FAIL:ill
	SKIP:SKIP: no p4c
	SKIP:SKIP: no bmv2 (simple_switch)
	SKIP:SKIP: no GPU here
	SKIP:SKIP: no Open MPI (scripts/deps.sh bench)
	SKIP:no word about it
END
counts=$(python3 scripts/testlog.py log "$tmp/log" 2>"$tmp/err")
[[ $counts == "1 1 5 2" ]] || { echo "1 passed, 1 failed, 5 skipped, 2 of them lacking: $counts" && exit 1; }
grep -q "skipped: log SKIP: no p4c: no p4c" "$tmp/err" || { echo "nobody says what is missing" && exit 1; }
echo "skips are told apart: $counts"
