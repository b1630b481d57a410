#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# commit.sh - the commit that this tree is of, for the version that programs print: the repository's, or that of which
# git has made this archive (.gitattributes). An empty line in any other copy, be it inside of somebody else's repository.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2016 # for git archive to fill in
archived='$Format:%H$'
# Root may build a user's tree: git would not look at it otherwise.
git() { command git -c safe.directory="$(pwd -P)" "$@" 2>/dev/null; }
if [[ $(git rev-parse --show-toplevel) == "$(pwd -P)" ]]; then
	git rev-parse --short=12 HEAD
elif [[ $archived != *Format* ]]; then
	echo "${archived:0:12}"
else
	echo
fi
