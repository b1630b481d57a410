#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctr_steps.sh [--fm] [FILE [EPOCHS [OPTION...]]] - do the 4 workers of examples/ctr.c learn what one process without tally learns?
# Hot features are summed by tallyd in all of these.
#   --sync         all losses of all epochs have to be those of one process with the same mini-batches, to 1e-5
#   asynchronous   what seeds 1 to SEEDS (5) have come to at the end, beside one process with the same seeds, which say the order
#                  of the rows and the factors' first values: fails if all of the 4 workers' losses are beyond all of the other's, or
#                  if their mean is worse than the worst of these
#   --staleness 2  fails if it is more than 5 % above the mean of one process
# What is compared is the log loss of the rows that are held out. FILE: as of ctr.sh; without one, 10,000 made rows. OPTION: of
# ctr, for what is asynchronous and its one process. TALLY_BUILD: where the programs are.
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
rows_take "$file" 10000
ctr=("$build/examples/ctr" "${model[@]}" --epochs "$epochs" --json)

# workers OUT SEED WORD... -- OPTION...: 4 of them, with tables of these words, in a folder of their own.
workers() {
	local out=$tmp/$1 seed=$2 words=()
	shift 2
	for (( ; $# > 0; )); do
		[[ $1 != -- ]] || break
		words+=("$1")
		shift
	done
	mkdir "$out.d"
	cd "$out.d"
	tables_start ctr "$seed" durability=none "${words[@]}"
	"$build/tools/tally" run -n 4 --no-prefix -- "${ctr[@]}" --seed "$seed" "${@:2}" "$file" >"$out"
	kill "${pids[@]}"
	wait "${pids[@]}" || true
	pids=()
	cd "$tmp"
}

# values FIELD FILE...: of all epochs.
values() {
	sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "${@:2}"
}

workers sync 1 mode=sync unit=6e-8 -- --sync
"${ctr[@]}" --reference --workers 4 "$file" >one
echo "steps of all 4 workers, and of one process with their mini-batches:"
paste <(values loss sync) <(values loss one) <(values test_loss sync) <(values test_loss one) | awk '
	function difference(a, b) { a = a > b ? a - b : b - a; if (a > most) most = a }
	{ difference($1, $2); difference($3, $4)
	  printf "epoch %d  log loss %s and %s  test %s and %s\n", NR, $1, $2, $3, $4 }
	END { printf "they differ by %.6f at most\n", most; exit !(NR > 0 && most <= 1e-5) }'

for ((seed = 1; seed <= ${SEEDS:-5}; seed++)); do
	workers "async.$seed" "$seed" -- "$@"
	"${ctr[@]}" --reference --seed "$seed" "$@" "$file" >"one.$seed"
	paste <(values test_loss "async.$seed") <(values test_loss "one.$seed") <(values pairs_per_s "async.$seed") | tail -n 1
done >seeds
workers bounded 1 -- --staleness 2
awk -v bounded="$(values test_loss bounded | tail -n 1)" '
	function add(who, loss) {
		sum[who] += loss
		if (NR == 1 || loss < least[who]) least[who] = loss
		if (NR == 1 || loss > most[who]) most[who] = loss
	}
	{ add("many", $1); add("one", $2); rate += $3 }
	function say(name, who) { printf "%s, %d seeds: test %s to %s, mean %.6f\n", name, NR, least[who], most[who], sum[who] / NR }
	END {
		say("one process", "one")
		say("4 workers, asynchronous", "many")
		printf "%.0f pairs/s; staleness 2: test %s\n", rate / NR, bounded
		exit !(NR > 0 && least["many"] <= most["one"] && most["many"] >= least["one"] &&
		       sum["many"] / NR <= most["one"] && bounded < 1.05 * sum["one"] / NR)
	}' seeds
