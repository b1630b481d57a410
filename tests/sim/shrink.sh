#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shrink.sh SIM SOUND - SIM is a simulator of a switch that counts a child twice. Its failures must be found, made
# small in the same way each time, and shown by the command that is printed.
set -euo pipefail
sim=$1 sound=$2
fail() { echo "shrink: $*" && exit 1; }

status=0
found=$("$sim" --scenario lossy --packets 1500 --seeds 1..8 --shortest) || status=$?
((status == 1)) || fail "a switch without its bitmap passes: exit status $status"
seed=$(sed -n 's/^FAILED: the first seed is //p' <<<"$found")

status=0
small=$("$sim" --scenario lossy --packets 1500 --seed "$seed" --shrink) || status=$?
((status == 1)) || fail "seed $seed: exit status $status"
again=$("$sim" --scenario lossy --packets 1500 --seed "$seed" --shrink) || true
[[ $small == "$again" ]] || fail "seed $seed is made small in two ways"
before=$(sed -n "s/^seed $seed: .*, \([0-9]*\) packets$/\1/p" <<<"$small")
after=$(sed -n 's/^ *\([0-9]*\) packets, after .*/\1/p' <<<"$small")
((after * 10 < before)) || fail "seed $seed: $before packets became $after"
grep -Eq '\bops=1\b' <<<"$small" || fail "more than one operation is left: $(tail -1 <<<"$small")"

command=$(sed -n 's/^ *repeat: [^ ]* //p' <<<"$small")
what=$(sed -n "s/^FAILED seed $seed: //p" <<<"$small")
status=0
# shellcheck disable=SC2086 # words of a command line
shown=$("$sim" $command) || status=$?
((status == 1)) || fail "$command: exit status $status"
grep -Fq "FAILED seed $seed: $what" <<<"$shown" || fail "$command fails in another way"

status=0
"$sound" --scenario lossy --packets 1500 --seed "$seed" --shrink >/dev/null || status=$?
((status == 0)) || fail "what does not fail was shrunk"
status=0
"$sound" --with workers=two 2>/dev/null || status=$?
((status == 2)) || fail "--with workers=two: exit status $status"
echo "seed $seed: $before packets, then $after: $command"
