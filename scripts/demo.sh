#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh - train on 4 ranks of this machine, with the aggregator inside rank 0.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh demo
make
exec build/release/tools/tally run -n 4 -- build/release/examples/fashion
