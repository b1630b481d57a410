#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# why.sh - the runs of docs/why.md: the simulator by the published rules of SwitchML and of P4SGD.
set -euo pipefail
cd "$(dirname "$0")/.."

simulate() { # RULES ARGUMENT...
	echo "== $*"
	build/release/src/sim/sim_main --rules "$@" | sed '/^seeds /d; /^$/,$d' || true # it fails: that is the point
}

mkdir -p build
scripts/setup.sh release
ninja -C build/release src/sim/sim_main >build/why.log
simulate switchml --scenario overtaken --seed 9441
simulate switchml --scenario overtaken --seed 7268
simulate switchml --scenario fifo --seed 10796
simulate switchml --scenario fifo --seed 23
simulate p4sgd --scenario small --seed 360
simulate p4sgd --scenario small --seed 1793
