#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [FASHION OPTION...] - install what is missing (Debian, root), build, train with 1 rank and with
# 4 ranks of this machine, the aggregator inside rank 0, and compare. Fails, with a line
# "FAILED: claim: figures" for each, if one of these does not hold: all ranks end with the same bits;
# test accuracy at least 0.87 with 4 ranks and within 0.5 points of 1 rank; epoch-1 loss within 1e-3.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh demo
program=build/release/examples/fashion
scripts/setup.sh release
if ! ninja -C build/release tools/tally tools/tally-sim tools/tallyd examples/fashion >build/demo-ninja.log; then
	tail -20 build/demo-ninja.log >&2
	echo "FAILED: build: build/demo-ninja.log" >&2
	exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for ranks in 1 4; do
	echo
	if ! build/release/tools/tally run -n "$ranks" --no-prefix -- "$program" "$@" | tee "$tmp/$ranks"; then
		echo "FAILED: training with $ranks ranks" >&2
		exit 1
	fi
done

echo
# A result is a line of names and values; its last word says whether all ranks ended alike.
awk '
	function claim(name, holds, figures) {
		printf "%-46s %-28s %s\n", name, figures, holds ? "holds" : "DOES NOT HOLD"
		if (!holds) {
			printf "FAILED: %s: %s\n", name, figures >"/dev/stderr"
			failed = 1
		}
	}
	function distance(a, b) { return a < b ? b - a : a - b }
	/^result: / {
		for (i = 2; i < NF; i += 2)
			value[$i] = $(i + 1)
		n = value["ranks"]
		accuracy[n] = value["accuracy"]
		loss[n] = value["loss-epoch-1"]
		hash[n] = value["parameters"]
		same[n] = $NF == "identical-on-all-ranks"
		results++
	}
	END {
		if (results != 2) {
			print "FAILED: results of 1 and 4 ranks: " results + 0 " of 2" >"/dev/stderr"
			exit 1
		}
		claim("parameters have the same bits on all 4 ranks", same[4], hash[4])
		claim("test accuracy at 4 ranks is at least 0.87", accuracy[4] >= 0.87, accuracy[4])
		claim("and within 0.5 points of 1 rank",
			distance(accuracy[4], accuracy[1]) <= 0.005, accuracy[4] " and " accuracy[1])
		claim("epoch-1 loss is within 0.001 of 1 rank",
			distance(loss[4], loss[1]) <= 0.001, loss[4] " and " loss[1])
		exit failed
	}' "$tmp/1" "$tmp/4"
