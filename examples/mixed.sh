#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mixed.sh - examples/mixed.c on 4 ranks of this machine, and the same training in float32 and one process. Fails if a
# rank skips other steps than that one, if ranks end with other bits, if each skipped step has an overflow of a rank's own
# gradients (then nothing was learnt from another rank's), or if the losses differ by more than 1 %. TALLY_BUILD: where the
# programs are.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${TALLY_BUILD:-build/release}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

timeout 60 "$build/tools/tally" run -n 4 --no-prefix --aggregator local -- "$build/examples/mixed" | sort | tee "$tmp/lines"
"$build/examples/mixed" --reference 4 | tee -a "$tmp/lines"
awk '
	function value(name, i) { for (i = 1; i < NF; i++) if ($i == name) return $(i + 1) }
	function fail(text) { print "FAILED: " text; failed = 1 }
	{ lines++; skipped[lines] = value("skipped"); loss[lines] = value("loss") }
	/^rank/ { own[lines] = value("own"); bits[value("parameters")] = 1 }
	END {
		if (lines != 5 || $1 != "reference" || value("count") < 5)
			fail("a line of each rank and the reference, which skips at least 5 steps")
		for (i = 1; i < lines; i++) {
			if (skipped[i] != skipped[lines])
				fail("line " i " has skipped other steps than the reference")
			if (own[i] >= value("count") || own[i] == 0)
				fail("line " i ": own overflows at " own[i] " of the skipped steps")
			if (loss[i] > loss[lines] * 1.01 || loss[i] < loss[lines] * 0.99)
				fail("line " i ": another loss than the reference")
		}
		for (hash in bits)
			hashes++
		if (hashes != 1)
			fail("ranks have other bits")
		exit failed
	}' "$tmp/lines"
echo "the same steps skipped by all ranks and by float32"
