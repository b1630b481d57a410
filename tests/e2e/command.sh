# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# command.sh - what tests of a command of tally have in common; source it: an empty folder to be in, and claims that fail.
#
#   try STATUS COMMAND...   tally COMMAND: its exit status must be STATUS; output in out, err. Reads stdin
#   fail TEXT               says so, with the end of out and err, and goes on: $failures counts
tally=$(realpath "${TALLY_BUILD:-build/release}")/tools/tally
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
failures=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' out | tail -5
	sed 's/^/  err: /' err | tail -5
	failures=$((failures + 1))
}

try() {
	local want=$1 got
	shift
	"$tally" "$@" >out 2>err
	got=$?
	[[ $got == "$want" ]] || fail "tally $*: exit status $got, not $want"
}

says() { # FILE PATTERN
	grep -qE -- "$2" "$1" || fail "nothing like \"$2\" in $1"
}

same() { # FILE FILE
	cmp -s "$1" "$2" || fail "$1 and $2 differ"
}
