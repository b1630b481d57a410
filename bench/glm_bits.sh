#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# glm_bits.sh - how many bits does a linear model need? Trains on float32 and on 1 to 8 bits with the same options,
# prints a table (what an epoch reads, against bits / 32 of dense float32) and draws all curves in one picture.
# TALLY_BUILD: where the programs are.
#   bench/glm_bits.sh FILE TEST OUT.svg [OPTION of tally glm train...]
set -euo pipefail
if (($# < 3)) || [[ $3 != *.svg ]]; then
	echo "usage: $0 FILE TEST OUT.svg [OPTION of tally glm train...]" >&2
	exit 2
fi
tally=${TALLY_BUILD:-build/release}/tools/tally
file=$1 test=$2 out=$3
shift 3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for bits in 0 1 2 3 4 5 6 7 8; do
	options=()
	((bits)) && options=(--bits "$bits")
	"$tally" glm train "$file" --test "$test" --json "${options[@]}" "$@" >"$tmp/$bits"
done
python3 - "$tmp" <<'EOF'
import json, sys
print("%-8s %10s %14s %14s %12s %22s %9s" % ("values", "loss", "test loss", "test accuracy", "MB an epoch",
      "against bits / 32", "seconds"))
for bits in range(9):
    lines = [json.loads(line) for line in open("%s/%d" % (sys.argv[1], bits))]
    end, epochs = lines[-1], [e for e in lines if "epoch" in e]
    with open("%s/%d.curve" % (sys.argv[1], bits), "w") as curve:
        for e in epochs:
            curve.write("%d %.9g %.9g\n" % (e["epoch"], e["loss"], e["test_accuracy"]))
    part = end["bytes_read_per_epoch"] / end["dense_float32_bytes_per_epoch"] * 32 / (bits or 32)
    print("%-8s %10.6f %14.6f %14.4f %12.2f %22.3f %9.3f" % ("%d bits" % bits if bits else end["layout"], end["loss"],
          end["test_loss"], end["test_accuracy"], end["bytes_read_per_epoch"] / 1e6, part, end["train_s"]))
EOF
curves() { # COLUMN
	echo -n "plot \$d0 using 1:$1 with lines linewidth 4 linecolor rgb '#cccccc' title 'float32'"
	for bits in 1 2 3 4 5 6 7 8; do
		echo -n ", \$d$bits using 1:$1 with linespoints title '$bits bits'"
	done
	echo
}
{
	echo "set terminal svg size 1100,500; set output '$out'; set grid; set xlabel 'epoch'"
	for bits in 0 1 2 3 4 5 6 7 8; do
		echo "\$d$bits << END"
		cat "$tmp/$bits.curve"
		echo END
	done
	echo "set multiplot layout 1,2"
	echo "set key top right; set ylabel 'training loss'; set logscale y"
	curves 2
	echo "set key bottom right; set ylabel 'test accuracy'; unset logscale y"
	curves 3
	echo "unset multiplot"
} | gnuplot
echo "$out"
