#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh [TARGET...] - run fuzz targets (all: src/*/*_fuzz.c) with clang, libFuzzer and the address and
# undefined behaviour sanitizers, FUZZ_RUNS executions each, from the corpus of tests/fuzz and what
# earlier runs left in build/corpus. One line per target: executions, per second, findings. What is
# found lies in build/findings/TARGET: put it into tests/fuzz/corpus/TARGET with the fix. Exit status: 0
# nothing found, 1 something, 2 it could not be run, 77 no clang.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
runs=${FUZZ_RUNS:-1000000}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "FUZZ_RUNS=$runs: not a number of executions" >&2 && exit 2; }
command -v clang >/dev/null || { echo "skipped: no clang (scripts/deps.sh test)" && exit 77; }
if ! scripts/setup.sh fuzz || ! ninja -C build/fuzz fuzz >build/fuzz-ninja.log 2>&1; then
	tail -20 build/fuzz-ninja.log >&2
	exit 2
fi

targets=("$@")
if ((${#targets[@]} == 0)); then
	for program in build/fuzz/tests/fuzz/fuzz-*; do
		[[ -f $program && -x $program ]] && targets+=("${program##*/fuzz-}")
	done
fi

for target in "${targets[@]}"; do
	[[ -x build/fuzz/tests/fuzz/fuzz-$target ]] || { echo "fuzz.sh: $target: no such target" >&2 && exit 2; }
done

# Bytes of input: enough for some dozen steps, few enough to be fast.
length() {
	case $1 in
	codec | conn) echo 1024 ;;
	*) echo 160 ;;
	esac
}

findings=0
printf '%-16s %12s %9s %8s\n' target executions per_s findings
for target in "${targets[@]}"; do
	log=build/fuzz-$target.log
	mkdir -p "build/corpus/$target" "build/findings/$target"
	rm -f "build/findings/$target"/*
	options=(-runs="$runs" -max_len="$(length "$target")" -timeout=10 -rss_limit_mb=2048 -entropic=0
		-verbosity=0 -print_final_stats=1 -artifact_prefix="build/findings/$target/")
	[[ $target == co[dn]* && -f tests/fuzz/json.dict ]] && options+=(-dict=tests/fuzz/json.dict)
	"build/fuzz/tests/fuzz/fuzz-$target" "${options[@]}" "build/corpus/$target" \
		"tests/fuzz/corpus/$target" >"$log" 2>&1 </dev/null
	status=$?
	found=$(find "build/findings/$target" -type f | wc -l)
	((status != 0 && found == 0)) && found=1
	findings=$((findings + found))
	awk -v target="$target" -v found="$found" -F': *' '
		/number_of_executed_units/ { n = $4 ? $4 : $NF }
		/average_exec_per_sec/ { rate = $NF }
		END { printf "%-16s %12d %9d %8d\n", target, n, rate, found }' "$log"
	((found)) && grep -m3 -E 'not so:|ERROR: |runtime error:' "$log"
done
echo "${#targets[@]} targets, $findings findings"
((findings == 0))
