#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-scripts.sh - shellcheck on every shell script.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh
command -v shellcheck >/dev/null || { echo "SKIP: no shellcheck (scripts/deps.sh test)" && exit 77; }
files '*.sh' .ci/run | while IFS= read -rd '' file; do
	[[ -f $file ]] && printf '%s\0' "$file"
done | xargs -0 shellcheck
