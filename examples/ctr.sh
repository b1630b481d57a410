#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctr.sh [--fm] [FILE [EPOCHS [OPTION...]]] - examples/ctr.c on this machine: the hot features of a sample, tallyd that sums their
# gradients, one tally-ps that has the parameters, 4 workers; then the same in one process, without tally. FILE:
# LIBSVM or Criteo's log; without one, 20,000 made rows. Fails if the workers' log loss on the rows that are held out is
# more than MORE (5) % above the one process's. TALLY_BUILD: where the programs are.
set -euo pipefail
cd "$(dirname "$0")/.."
model=()
if [[ ${1:-} == --fm ]]; then
	model=(--fm)
	shift
fi
file=${1:+$(realpath "$1")} epochs=${2:-3}
shift $(($# < 2 ? $# : 2))
# shellcheck source=examples/tables.sh
. examples/tables.sh
cd "$tmp"

rows_take "$file" 20000
tables_start ctr 1

ctr=("$build/examples/ctr" "${model[@]}" --epochs "$epochs" "$@")
echo "4 workers, asynchronous:"
"$build/tools/tally" run -n 4 --no-prefix -- "${ctr[@]}" "$file" | tee many
echo "one process, without tally:"
"${ctr[@]}" --reference "$file" | tee one
loss_compare many one "${MORE:-5}"
