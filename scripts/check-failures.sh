#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-failures.sh - tests/failures.txt is true: every input has a test, every claim is a test function
# that runs, every ablation is in tests/ablations.txt and names that test there.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
table=tests/failures.txt
inputs=0 claims=0 bad=0 last='' is_bare=no

complain() {
	echo "$table: $*"
	bad=1
}

while read -r test claim ablation rest; do
	[[ -z $test || $test == \#* ]] && continue
	if [[ $test == \[* ]]; then
		[[ $is_bare == yes ]] && complain "no test for $last"
		last="$test $claim $ablation $rest" is_bare=yes
		inputs=$((inputs + 1))
		continue
	fi
	is_bare=no
	claims=$((claims + 1))
	[[ -n $ablation && -z $rest ]] || complain "$test $claim: not MESON-TEST CLAIM ABLATION"
	files=$(grep -rlE --include='*_test.c' "^static void $claim\(" src tests)
	[[ -n $files ]] || complain "$claim: there is no such test"
	# shellcheck disable=SC2086 # a list of files
	[[ -z $files || $(tr -d '\n\t ' <$files) =~ cmocka_unit_test[a-z_]*\(${claim}[,\)] ]] ||
		complain "$claim: it does not run"
	grep -qE "^$ablation( .*)? $test( |\$)" tests/ablations.txt ||
		complain "$ablation: its row in tests/ablations.txt lacks $test"
done <"$table"
[[ $is_bare == yes ]] && complain "no test for $last"
echo "$inputs inputs, $claims claims"
exit "$bad"
