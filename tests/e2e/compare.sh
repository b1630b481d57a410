#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh - bench/compare runs: tally and the bare star on two hosts, all verified, no run without a verdict; a page of them; and
# what is not known is refused. For figures, bench/compare itself. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
export TALLY_BUILD=${TALLY_BUILD:-build/release} LAB=tally-test-compare-$$
tmp=$(mktemp -d)
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
trap 'rm -rf "$tmp"' EXIT

fail() {
	echo "FAILED: $*"
	tail -n 20 "$tmp/out" "$tmp/err"
	exit 1
}

bench/compare --list >"$tmp/out" 2>"$tmp/err" || fail "compare --list"
grep -q '^  rate ' "$tmp/out" || fail "--list does not name the suite rate"
! bench/compare --suite nonsense >"$tmp/out" 2>"$tmp/err" || fail "a suite that is not there is measured"
grep -q 'nonsense: there are quick, ' "$tmp/err" || fail "nobody says which suites there are"

spaces_need compare ip tc ethtool sysctl gnuplot
timeout 100 bench/compare --suite tiny --ranks 2 --ways tally,floor-poll --runs 1 --out "$tmp/results" >"$tmp/out" 2>"$tmp/err" ||
	fail "compare --suite tiny: exit status $?"
grep -q '^8 int32, n = 2: median over bench/floor.* [0-9.]* *<= 1.150 ' "$tmp/out" ||
	grep -q ' void ' "$tmp/out" || fail "what must be shown is not there"
python3 - "$tmp/results/tiny.json" <<-'END' || fail "the results are not as they should be"
	import json, sys
	result = json.load(open(sys.argv[1]))
	found = {(run["way"], run["dtype"]) for run in result["runs"]}
	assert found == {("tally", "int32"), ("tally", "float32"), ("floor-poll", "int32")}, found
	for run in result["runs"]:
	    assert run["row"]["verified"] is True and run["row"]["operations"] == 10000, run
	    assert run["figures"]["median_us"] > 0 and run["figures"]["machine_s"] > 0 and run["figures"]["server_s"] > 0, run
	    assert 0 <= run["shares"]["foreign"] <= 1 and bool(run["void"]) == (max(run["shares"]["foreign"], run["shares"]["stolen"]) >= 0.03), run
	assert result["machine"]["cores"] and result["commands"][0].startswith("bench/compare --suite tiny")
END
grep -q 'tally beside its peers' "$tmp/results/index.html" || fail "there is no page"
[[ $(ip netns list) != *"$LAB-"* ]] || fail "namespaces are left behind"
echo "compare: $(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["runs"]))' "$tmp/results/tiny.json") runs"
