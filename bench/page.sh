# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# page.sh - what glm_page.sh and sparse_page.sh have in common: sections that are measured one by one, each with its
# command and the machine before and after, and a page of what there is. Source it with $page (the script's name) and
# $sections (those to measure) set; then page_begin.
# shellcheck disable=SC2034,SC2154 # theirs and ours
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
TALLY_BUILD=$(realpath "${TALLY_BUILD:-$here/../build/release}")
quick=${QUICK:-} failures=0 scratch='' out=''
export TALLY_BUILD

skip() {
	echo "SKIP: bench/$page.sh: $*"
	exit 77
}

note() {
	echo "$(date -u +%T) $*" >&2
}

# page_begin FOLDER PROGRAM...: the folder, as $out, and an empty one, as $scratch; with PAGE=only the page, and no more.
page_begin() {
	local program
	out=$1
	shift
	((EUID == 0)) || skip "not root"
	for program in ip tc python3 gnuplot "$@"; do
		command -v "$program" >/dev/null || skip "no $program (scripts/deps.sh test)"
	done
	mkdir -p "$out"
	out=$(realpath "$out")
	if [[ ${PAGE-} == only ]]; then
		exec python3 "$here/$page.py" "$out"
	fi
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	: >"$out/files"
}

# machine_tell: what $out/machine says: processor, how many, kernel, commit, now.
machine_tell() {
	sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | sed -n 1p
	nproc
	uname -sr
	git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown
	date -u '+%F %T UTC'
}

# section NAME COMMAND...: its output, and the machine before and after, in $out/NAME. Variables come with env.
section() {
	local name=$1 at=$out/$1 status=0 begin=$SECONDS
	shift
	[[ " $sections " == *" ${name%%-*} "* || " $sections " == *" $name "* ]] || return 0
	note "$name ..."
	rm -rf "$at"
	mkdir -p "$at"
	[[ -z $quick ]] || : >"$at/quick"
	machine >"$at/begin"
	printf '%q ' "$@" | sed "s|$scratch/||g; s|$here/|bench/|g; s|$at|$name|g; s|$TALLY_BUILD|build/release|g" >"$at/command"
	"$@" >"$at/output" 2>"$at/log" || status=$?
	machine >"$at/end"
	echo "$status" >"$at/status"
	case $status in
	0) note "$name: $((SECONDS - begin)) s" ;;
	77) note "$name: $(tail -n 1 "$at/output")" ;;
	*)
		note "$name: FAILED: $(tail -n 3 "$at/log")"
		failures=$((failures + 1))
		;;
	esac
}

machine() {
	date -u '+%F %T UTC'
	cut -d ' ' -f 1-3 /proc/loadavg
}
