#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deep.sh [FILE [EPOCHS [OPTION...]]] - examples/deep.c on this machine: one tallyd sums both the gradients of hot
# embeddings on their way to tally-ps, and those of the tower for all 4 workers; then the same in one process, without
# tally. FILE: LIBSVM or Criteo's log; without one, 100,000 made rows. Fails if the workers' log loss on the rows that are
# held out is more than 5 % above the one process's. TALLY_BUILD: where the programs are.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:+$(realpath "$1")} epochs=${2:-3}
shift $(($# < 2 ? $# : 2))
# shellcheck source=examples/tables.sh
. examples/tables.sh
cd "$tmp"

rows_take "$file" 100000
tables_start deep 1

deep=("$build/examples/deep" --epochs "$epochs" "$@")
echo "4 workers, embeddings asynchronous, the tower's gradients summed in each step:"
"$build/tools/tally" run -n 4 --no-prefix -- "${deep[@]}" "$file" | tee many
echo "one process, without tally:"
"${deep[@]}" --reference "$file" | tee one
loss_compare many one 5
