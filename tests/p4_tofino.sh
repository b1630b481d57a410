#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4_tofino.sh PROGRAM [FLAG...] - p4c's backend for Tofino 1 takes the program, and its assembler too: stages, memory and
# containers fit (the backend alone is content with a stage too many). Says what each stage has. p4c-barefoot and bfas are
# looked for on PATH, and tna.p4 in the folder P4C_INCLUDE or where p4c installs it; without them it is not here (77).
set -eu

for tool in p4c-barefoot bfas; do
	command -v "$tool" >/dev/null || { echo "NOT HERE: $tool, of p4c with its Tofino backend"; exit 77; }
done
include=${P4C_INCLUDE:-$(dirname "$(command -v p4c-barefoot)")/../share/p4c/p4include}
[ -f "$include/tna.p4" ] || { echo "NOT HERE: $include/tna.p4, of p4c with its Tofino backend"; exit 77; }
program=$1
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
p4c-barefoot --target tofino --arch tna -D__TARGET_TOFINO__=1 --Wdisable -g --verbose -I "$include" "$@" -o "$out" "$program"
# p4c before September 2026 (p4lang/p4c, pull request 5753) makes parsers that take every packet for one that has gone round.
for of in ingress egress; do
	awk -v of="$of" '/^[a-z]/ { here = $1 == "parser" && $2 ~ of } here && /match: \[/ { found = 1 } END { exit !found }' \
		"$out"/pipe/*.bfa || { echo "the $of parser of $program matches nothing: take a newer p4c"; exit 1; }
done
mkdir -p "$out/binary/logs"
bfas -o "$out/binary" "$out"/pipe/*.bfa
python3 - "$out/pipe/logs/resources.json" <<'END'
import json, sys
stages = json.load(open(sys.argv[1]))["resources"]["mau"]["mau_stages"]
parts = (("SRAM", "rams", "srams"), ("TCAM", "tcams", "tcams"), ("map RAM", "map_rams", "maprams"),
         ("stateful and meter ALUs", "meter_alus", "meters"), ("tables", "logical_tables", "ids"),
         ("instructions", "vliw", "instructions"))
counts = {name: [len(stage[group][what]) for stage in stages] for name, group, what in parts}
for name, each in counts.items():
    print(f"{name}: {sum(each)} in {len(stages)} stages: {' '.join(map(str, each))}")
sys.exit(len(stages) > 12)
END
