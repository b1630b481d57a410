# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# spaces.sh - what tests in network namespaces have in common; source it: what they cannot do without, else they are skipped.
#
#   root_need WHO PROGRAM...     root, and these programs
#   spaces_need WHO PROGRAM...   and a kernel that grants a namespace, tried as $LAB-probe

skip() {
	echo "SKIP: $*"
	exit 77
}

root_need() {
	local program
	((EUID == 0)) || skip "$1: not root"
	for program in "${@:2}"; do
		command -v "$program" >/dev/null || skip "$1: no $program (scripts/deps.sh test)"
	done
}

spaces_need() {
	root_need "$@"
	ip netns add "$LAB-probe" 2>/dev/null || skip "$1: the kernel refuses a namespace"
	ip netns del "$LAB-probe"
}
