#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-scripts.sh - shellcheck on every shell script.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null || { echo "SKIP: no shellcheck (scripts/deps.sh test)" && exit 77; }
git ls-files --cached --others --exclude-standard -- '*.sh' .ci/run | while IFS= read -r file; do
	[[ -f $file ]] && printf '%s\0' "$file"
done | xargs -0 shellcheck
