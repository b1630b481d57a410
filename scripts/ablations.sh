#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ablations.sh [NAME...] - take each check of tests/ablations.txt out in turn, and put each bug of
# tests/plants.txt in: a test named in its row must turn red, and so must every claim that
# tests/failures.txt has for it. First all these tests must pass with nothing changed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
rows=(tests/ablations.txt tests/plants.txt)
failures=tests/failures.txt
dir=build/ablate
log=build/ablations.log
passed=0 failed=0 skipped=0
mkdir -p build
: >"$log"

row() { # NAME RESULT TESTS, and count it
	printf '%-24s %-34s %s\n' "$1" "$2" "$3"
}

# red NAME TEST...: with the check NAME taken out ("": none), "RED NAMES" of what failed, "GREEN",
# "SURVIVES CLAIMS" of the failure table that passed all the same, or "NOTHING" if none of them ran.
red() {
	local json=$dir/meson-logs/testlog.json name=$1
	shift
	rm -f "$json"
	ABLATE=$name meson test -C "$dir" --no-rebuild "$@" >>"$log" 2>&1 </dev/null
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

judge() { # NAME TEST...
	local name=$1 verdict
	shift
	verdict=$(red "$name" "$@")
	case $verdict in
	RED*) row "$name" caught "${verdict#RED }" && passed=$((passed + 1)) ;;
	SKIPPED) row "$name" "skipped: its tests cannot run here" "$*" && skipped=$((skipped + 1)) ;;
	SURVIVES*) row "$name" "NOT CAUGHT" "${verdict#SURVIVES }" && failed=$((failed + 1)) ;;
	GREEN) row "$name" "NOT CAUGHT" "$*" && failed=$((failed + 1)) ;;
	*) row "$name" "NO SUCH TEST" "$*" && failed=$((failed + 1)) ;;
	esac
}

wanted() { # NAME [WANTED...]
	local name=$1 one
	shift
	(($# == 0)) && return 0
	for one; do [[ $one == "$name" ]] && return 0; done
	return 1
}

for name; do
	awk -v name="$name" '$1 == name { found = 1 } END { exit !found }' "${rows[@]}" && continue
	echo "no row $name in ${rows[*]}"
	exit 2
done
if ! scripts/setup.sh ablate || ! ninja -C "$dir" >>"$log" 2>&1; then
	echo "build/ablate does not build: see $log"
	exit 2
fi
names=() tests=()
while read -r name its_tests; do
	wanted "$name" "$@" && names+=("$name") && tests+=("$its_tests")
done < <(grep -h '^[A-Z]' "${rows[@]}")

read -ra every <<<"$(printf '%s\n' "${tests[@]}" | tr ' ' '\n' | sort -u | tr '\n' ' ')"
if [[ $(red '' "${every[@]}") == GREEN ]]; then
	row '(nothing)' 'green, as it must be' ''
	passed=$((passed + 1))
else
	row '(nothing)' 'RED: see build/ablations.log' "${every[*]}"
	failed=$((failed + 1))
fi
for i in "${!names[@]}"; do
	read -ra its_tests <<<"${tests[i]}"
	judge "${names[i]}" "${its_tests[@]}"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
