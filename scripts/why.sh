#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# why.sh - build the simulator with the published rules of SwitchML and of P4SGD in place of ours, and
# print the runs of docs/why.md.
set -euo pipefail
cd "$(dirname "$0")/.."

simulate() { # RULES ARGUMENT...
	local dir=build/why-$1
	[[ -f $dir/build.ninja ]] || meson setup "$dir" -Dwerror=false -Dablate="$1" >build/why.log
	ninja -C "$dir" src/sim/sim_main >>build/why.log
	echo "== $*"
	shift
	"$dir/src/sim/sim_main" "$@" | sed '/^seeds /d; /^$/,$d' || true # it fails: that is the point
}

mkdir -p build
simulate published_switchml --scenario overtaken --seed 9441
simulate published_switchml --scenario overtaken --seed 7268
simulate published_switchml --scenario fifo --seed 10796
simulate published_switchml --scenario fifo --seed 23
simulate published_p4sgd --scenario small --seed 360
simulate published_p4sgd --scenario small --seed 1793
