#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test.sh [VARIANT...] - install what is missing (Debian, root), and test everything that must hold before a change
# gets in. The last line counts: N passed, N failed, N skipped. Each skip names what is missing; as root on Debian 12,
# where all of it can be had, it makes the run fail (scripts/testlog.py says which never do). What a user's tests lack
# runs again as root, if sudo asks for no password, and counts as root's. Details: build/*.log.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0 skipped=0 lacking=0
is_root=$((EUID == 0)) as_root=()
started=$SECONDS
mkdir -p build

count() { # PASSED FAILED SKIPPED [HOW MANY OF THESE LACK WHAT CAN BE HAD]
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3)) lacking=$((lacking + ${4-0}))
}

# may_lack: where a skip is no failure.
may_lack() {
	((!is_root)) || ! grep -qx 'ID=debian' /etc/os-release || ! grep -qx 'VERSION_ID="12"' /etc/os-release
} 2>/dev/null

# compile VARIANT [TARGET]: a build that breaks is one failure.
compile() {
	local log=build/$1-ninja.log
	if scripts/setup.sh "$1" && ninja -C "build/$1" "${@:2}" >"$log" 2>&1; then
		count 1 0 0
		return 0
	fi
	echo "FAILED: $1 does not build ($log)"
	grep -E '^FAILED:|error:|ERROR:|undefined ref|multiple def|^src/.* may not include' "$log" | cut -c1-160 | sed -n 1,20p
	count 0 1 0
	return 1
}

# programs VARIANT SUITE...: what the tests of these suites run; no suite: what is installed. The rest need not be built.
programs() {
	scripts/setup.sh "$1" && scripts/chosen.py "build/$1" suites "${@:2}"
}

# run_tests VARIANT MESON_ARGUMENT...: with the user's rights, or by the command in as_root.
run_tests() {
	# Most wait longer than they compute; those that measure time run alone (is_parallel: false).
	"${as_root[@]}" meson test -C "build/$1" --no-rebuild --no-stdsplit --num-processes $((2 * $(nproc))) "${@:2}" \
		>>"build/$1-test.log" 2>&1 </dev/null
}

# again_as_root VARIANT MESON_ARGUMENT...: what lacks something runs again, if this user becomes root without a password.
again_as_root() {
	local lacking as_root=(scripts/sudo.sh PYTHONDONTWRITEBYTECODE=1 bash -c)
	lacking=$(python3 scripts/testlog.py --lacking "build/$1/meson-logs/testlog.json") && [[ $lacking ]] || return
	((EUID)) && scripts/sudo.sh || return
	is_root=1
	echo "$1: $(wc -w <<<"$lacking") that lack something run again, as root"
	# What it leaves behind is the user's, also if it is interrupted.
	# shellcheck disable=SC2016 # the inner one expands it
	as_root+=('trap : INT TERM; "$@"; chown -R "$0" build/' "$(id -u):$(id -g)")
	# shellcheck disable=SC2086 # names without a space
	run_tests "$@" --logbase as-root $lacking
}

# suites VARIANT "SUITE..." [MESON ARGUMENT...]: run the tests of these suites and count them.
suites() {
	local variant=$1 arguments=() suite counts logs=(build/"$1"/meson-logs/{testlog,as-root}.json)
	for suite in $2; do
		arguments+=(--suite "$suite")
	done
	shift 2
	rm -f "${logs[@]}" "build/$variant-test.log"
	run_tests "$variant" "${arguments[@]}" "$@"
	again_as_root "$variant" "$@"
	[[ -s ${logs[1]} ]] || unset 'logs[1]'
	if ! counts=$(python3 scripts/testlog.py "$variant" "${logs[@]}") || [[ $counts == "0 0 0 0" ]]; then
		echo "FAILED: $variant ran no test (build/$variant-test.log)"
		counts="0 1 0 0"
	fi
	# shellcheck disable=SC2086 # four numbers
	count $counts
	echo "$variant: ${counts% *} (passed, failed, skipped), $((SECONDS - started)) s"
}

without() { # VARIANT PROGRAM: skip the variant if the program is not there
	command -v "$2" >/dev/null && return 1
	echo "skipped: $1: no $2 (scripts/deps.sh test)"
	count 0 0 1 1
}

# shellcheck disable=SC2046 # file names of ours
variant_asan() { compile asan $(programs asan unit threads) && suites asan "unit threads" -t 4; }
# shellcheck disable=SC2046
variant_tsan() { without tsan clang || { compile tsan $(programs tsan threads) && suites tsan threads -t 4; }; }
variant_fuzz() { without fuzz clang || { compile fuzz fuzz && suites fuzz fuzz; }; }
# shellcheck disable=SC2046
variant_arm64() { without arm64 aarch64-linux-gnu-gcc || compile arm64 $(programs arm64); }
variant_release() { compile release && suites release "check unit threads search sim e2e"; }

variants=("$@")
((${#variants[@]})) || variants=(asan tsan fuzz arm64 release)
for variant in "${variants[@]}"; do
	declare -F "variant_$variant" >/dev/null || { echo "test.sh: $variant: no such variant" >&2 && exit 2; }
done
# For somebody else it has said what is missing: skips will.
if ! scripts/deps.sh test && ((EUID == 0)); then
	echo "FAILED: the packages that the tests need are not there (scripts/deps.sh test)"
	count 0 1 0
	variants=()
fi
for variant in "${variants[@]}"; do
	"variant_$variant"
done
if ((lacking)) && ! may_lack; then
	echo "FAILED: $lacking skipped as root on Debian 12: what they lack has a package, or the kernel withholds it"
else
	lacking=0
fi
echo "$((SECONDS - started)) s in all"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0 && lacking == 0))
