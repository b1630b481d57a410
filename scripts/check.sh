#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [REVISION] - what can be known about a change in a minute: the checks of the tree, and the unit tests of the
# rooms that differ from REVISION (HEAD; if nothing does, from the commit before it). `make test` knows the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/tree.sh
. scripts/tree.sh

differ() { # all that differ from a revision, new ones too
	git diff --name-only "$1" -- && git ls-files --others --exclude-standard
}

# room/... of src, tools, or the name of a folder of tests whose tests are unit tests.
rooms() {
	sed -n 's|^src/\([^/]*\)/.*|\1|p; s|^\(tools\)/.*|\1|p; s|^tests/\(vectors\|fuzz\|differ\)/.*|\1|p' | sort -u
}

# tests of these rooms and the checks of the tree, as names of targets to build (targets) or of tests to run (names).
list() {
	meson introspect --tests --targets build/release | python3 -c '
import json, os, sys
told = json.load(sys.stdin)
what, rooms = sys.argv[1], set(sys.argv[2:])
slow = {"from_c"}  # a minute and an empty Debian

def is_asked(test):
    suites = {suite.split(":")[-1] for suite in test["suite"]}
    if "check" in suites:
        return test["name"] not in slow
    return test["name"].split("-")[0] in rooms and suites & {"unit", "threads"} and "e2e" not in suites

tests = [test for test in told["tests"] if is_asked(test)]
if what == "names":
    print(*(test["name"] for test in tests))
needed = {program for test in tests for program in test["depends"]}
if what == "targets":
    print(*(os.path.relpath(name, "build/release") for target in told["targets"] for name in target["filename"]
            if target["id"] in needed or target["installed"]))
' "$@"
}

revision=${1-HEAD}
changed=$(differ "$revision")
[[ $changed || $# -gt 0 ]] || changed=$(differ HEAD~1)
mapfile -t rooms < <(rooms <<<"$changed")
scripts/setup.sh release
echo "rooms: ${rooms[*]-}"
# shellcheck disable=SC2046 # file names and test names of ours
ninja -C build/release $(list targets "${rooms[@]}") >build/check-ninja.log || {
	tail -30 build/check-ninja.log >&2
	exit 1
}
# shellcheck disable=SC2046
meson test -C build/release --no-rebuild --quiet --num-processes $((2 * $(nproc))) --print-errorlogs $(list names "${rooms[@]}")
