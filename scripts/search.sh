#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# search.sh - visit every state that the shipped protocol code can reach; then show that the search
# sees: with one rule taken out at a time it must find the violation, and prints the way there.
set -euo pipefail
cd "$(dirname "$0")/../build/release"
src/search/tally-search "$@"
meson test --list 2>/dev/null | sed -n 's/.*\(search-without-\)/\1/p' |
	xargs meson test --no-rebuild --verbose --num-processes 1
