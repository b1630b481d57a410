#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ablations.sh [NAME...] - take each check of tests/ablations.txt out in turn, and put each bug of
# tests/plants.txt in: a test named in its row must turn red, and so must every claim that
# tests/failures.txt has for it. First all these tests must pass with nothing changed.
# JOBS rows at a time (one per core); then, one at a time, those whose tests run alone.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
rows=(tests/ablations.txt tests/plants.txt)
export failures=tests/failures.txt dir=build/ablate logs=build/ablations
jobs=${JOBS:-$(nproc)}

# red NAME TEST...: with the check NAME taken out ("nothing": none), "RED NAMES" of what failed, "GREEN",
# "SURVIVES CLAIMS" of the failure table that passed all the same, or "NOTHING" if none of them ran.
red() {
	local json=$dir/meson-logs/$1.json name=$1 enough=(--maxfail 1)
	shift
	rm -f "$json"
	# Each claim is judged: the first red test is not enough.
	! grep -q "[[:space:]]$name\$" "$failures" || enough=()
	ABLATE=$name meson test -C "$dir" --no-rebuild --logbase "$name" "${enough[@]}" "$@" >"$logs/$name" 2>&1 </dev/null
	[[ -s $json ]] || { echo NOTHING && return; }
	python3 - "$json" "$failures" "$name" <<-'EOF'
		import json, sys
		table = [line.split() for line in open(sys.argv[2], encoding="utf-8") if line[:1] not in "#["]
		claims = {(line[0], line[1]) for line in table if len(line) == 3 and line[2] == sys.argv[3]}
		tests = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8") if line.strip()]
		red = [t["name"].split(" / ")[-1] for t in tests if t["result"] in ("FAIL", "ERROR", "TIMEOUT")]
		ran = [t for t in tests if t["result"] != "SKIP"]
		alive = [claim for test, claim in sorted(claims) for t in ran
		         if t["name"].split(" / ")[-1] == test and "[       OK ] " + claim in t.get("stdout", "")]
		print("SURVIVES " + " ".join(alive) if alive else
		      "RED " + " ".join(red) if red else "GREEN" if ran else "SKIPPED")
	EOF
}

# judge NAME TEST...: a line, and one word of it to count.
judge() {
	local name=$1 verdict said word=failed
	shift
	verdict=$(red "$name" "$@")
	case $verdict in
	RED*) said=caught word=passed && set -- "${verdict#RED }" ;;
	SKIPPED) said="skipped: its tests cannot run here" word=skipped ;;
	SURVIVES*) said="NOT CAUGHT" && set -- "${verdict#SURVIVES }" ;;
	GREEN) said="NOT CAUGHT" ;;
	*) said="NO SUCH TEST" ;;
	esac
	printf '%-24s %-34s %s\n' "$name" "$said" "$*"
	echo "$word" >>"$logs/.verdicts"
}
export -f red judge

# each JOBS: a row on each line.
each() {
	# shellcheck disable=SC2016 # the inner shell's own
	xargs -r -d '\n' -n 1 -P "$1" bash -c 'read -ra row <<<"$1" && judge "${row[@]}"' judge
}

for name; do
	awk -v name="$name" '$1 == name { found = 1 } END { exit !found }' "${rows[@]}" && continue
	echo "no row $name in ${rows[*]}"
	exit 2
done
rm -rf "$logs" && mkdir -p "$logs" || exit 2
if ! scripts/setup.sh ablate || ! ninja -C "$dir" >"$logs/.build" 2>&1; then
	echo "build/ablate does not build: see $logs/.build"
	exit 2
fi
wanted=$(grep -h '^[A-Z]' "${rows[@]}" | awk -v names="$*" '
	BEGIN { n = split(names, name, " "); for (i = 1; i <= n; i++) is_wanted[name[i]] = 1 }
	!n || $1 in is_wanted')
read -ra every <<<"$(cut -d ' ' -f 2- <<<"$wanted" | tr ' ' '\n' | sort -u | tr '\n' ' ')"
alone=$(meson introspect --tests "$dir" | python3 -c '
import json, sys
print("|".join(test["name"] for test in json.load(sys.stdin) if not test["is_parallel"]))')

verdict=$(red nothing "${every[@]}")
printf '%-24s %-34s %s\n' '(nothing)' "$([[ $verdict == GREEN ]] && echo 'green, as it must be')" "${verdict#GREEN}"
if [[ $verdict == GREEN ]]; then echo passed; else echo failed; fi >>"$logs/.verdicts"
grep -vE " ($alone)( |$)" <<<"$wanted" | each "$jobs"
grep -E " ($alone)( |$)" <<<"$wanted" | each 1
count() { grep -cx "$1" "$logs/.verdicts"; }
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
(($(count failed) == 0))
