#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hot.sh - how good are the hot keys of a sample? Tables in Markdown: precision against the full count, beside that of
# ideal samples; of Zipf streams, of one of them with sketches of several sizes, and of files with the options that
# they need. TALLY_BUILD: where the programs are. UPDATES: of the streams.
#   bench/hot.sh ['FILE [OPTION of tally hot...]'...]
set -euo pipefail
tally=${TALLY_BUILD:-build/release}/tools/tally
updates=${UPDATES:-100000000}

head_print() { # FIRST-COLUMN
	echo "| $1 | rule | sample | \|Hg\| | \|Hs\| | precision | ideal (of five) | of as many, ideal | share, by sample | by full count | s |"
	echo '|---|---|---|---|---|---|---|---|---|---|---|'
}

row_print() { # NAME SAMPLE ARGUMENT...
	local name=$1 sample=$2
	shift 2
	"$tally" hot "$@" --sample "$sample" --exact --json | python3 -c '
import json, sys
j = json.load(sys.stdin)
rule = "knee" if j["rule"] == "knee" else "p = %g %%" % (100 * j["p"])
print("| %s | %s | %g %% | %d | %d | %.3f | %.3f (%.3f to %.3f) | %.3f, %.3f | %.1f %% | %.1f %% | %.1f |" % (
    sys.argv[1], rule, 100 * j["sample"], j["all_hot_keys"], j["hot_keys"], j["precision"], j["ideal_precision"],
    j["ideal_precision_least"], j["ideal_precision_most"], j["precision_of_as_many"],
    j["ideal_precision_of_as_many"], 100 * j["share"], 100 * j["all_share"], j["pass_s"]))' "$name"
}

head_print stream
for exponent in 0.9 1.1 1.3; do
	for sample in 4% 8%; do
		row_print "Zipf $exponent" $sample --zipf $exponent --updates "$updates" --knee
	done
done
echo
head_print 'counters, Zipf 1.1'
for counters in 1M 64K 32K 16K 8K; do
	row_print $counters 4% --zipf 1.1 --updates "$updates" --knee --counters $counters
done
(($#)) || exit 0
echo
head_print file
for file; do
	read -ra words <<<"$file"
	for rule in --knee '--p 50%'; do
		for sample in 4% 8%; do
			# shellcheck disable=SC2086 # an option and its value
			row_print "$(basename "${words[0]}")" $sample "${words[@]}" $rule
		done
	done
done
