#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-chosen.sh BUILD - scripts/chosen.py finds the tests of a changed file, and says which it leaves out.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "$*" && exit 1; }

count=0
while read -r file stream test; do
	scripts/chosen.py "$build" tests "$file" >"$tmp/out" 2>"$tmp/err"
	grep -qE "(^| )$test( |\$)" "$tmp/$stream" || fail "$file: no $test: $(cat "$tmp/$stream")"
	grep -q 'check-style' "$tmp/out" || fail "$file: the checks of the tree are not chosen"
	count=$((count + 1))
done <<-'END'
	src/core/dense/switch.h out core-switch
	src/control/codec.c out control-codec
	tools/tallyd.c out tools-tallyd
	tests/vectors/README.md out vectors
	bench/glm.sh out e2e-glm-bench
	bench/page.py out page-labels
	examples/tables.sh out e2e-ctr
	examples/ctr.h out e2e-ctr-fm
	lab/delay.c out e2e-lab-delay
	lab/lab.sh out e2e-glm-bench
	lab/lab.sh err e2e-namespaces-rate
	tests/interop/quant.py out e2e-interop
	tests/e2e/kill_test.c out e2e-kill
	tests/e2e/torture.h out e2e-table_kill
	tests/e2e/ranks.c err e2e-allreduce
	tests/e2e/run.sh err e2e-run
	tests/hook_test.c out hook
	tests/from_c.sh err from_c
	bench/lns_bench.c err bench/lns_bench.c
END
scripts/chosen.py "$build" suites unit threads | sort >"$tmp/out"
grep -qx 'src/core/core_switch_test' "$tmp/out" || fail "what unit tests run: $(cat "$tmp/out")"
grep -q 'kill_test' "$tmp/out" && fail "what no unit test runs"
scripts/chosen.py "$build" suites >"$tmp/out"
grep -qx 'tools/tallyd' "$tmp/out" || fail "tallyd is installed"
echo "$count files have their tests"
