#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [REVISION] - what can be known about a change in a minute: the checks of the tree, the unit tests of the rooms
# that differ from REVISION (HEAD; if nothing does, from the commit before it), and the short tests of what differs in
# bench, examples, lab and tests (scripts/chosen.py). `make test` knows the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh

differ() { # all that differ from a revision, new ones too
	git diff --name-only "$1" -- && git ls-files --others --exclude-standard
}

revision=${1-HEAD}
changed=$(differ "$revision")
[[ $changed || $# -gt 0 ]] || changed=$(differ HEAD~1)
mapfile -t files <<<"$changed"
scripts/setup.sh release
# shellcheck disable=SC2046 # file names and test names of ours
ninja -C build/release $(scripts/chosen.py build/release targets "${files[@]}") >build/check-ninja.log || {
	tail -30 build/check-ninja.log >&2
	exit 1
}
# shellcheck disable=SC2046
meson test -C build/release --no-rebuild --quiet --num-processes $((2 * $(nproc))) --print-errorlogs \
	$(scripts/chosen.py build/release tests "${files[@]}")
