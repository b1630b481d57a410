#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sparse_page.sh - the figures of Libra (Pan et al., arXiv 2205.05243) for tally's tables of keys, theirs beside ours:
# measures with bench/sparse.sh (hosts that are network namespaces), tally hot, layout_bench, lns_bench and tally bench,
# and writes OUT_DIR/sparse.html.
#
#   bench/sparse_page.sh [OUT_DIR] [NAME=FILE[,COLUMNS]...]
#
# OUT_DIR (build/sparse-page) also keeps what every run printed. FILE is one that tally hot knows; COLUMNS: which of its words
# are keys, as in cut -d ' ' -f (2- passes over a user in front). There are always two made streams of a million keys,
# drawn by Zipf's law so that the 30,000 hottest have as many of the updates as in the paper's Figure 5: oa-like, half
# of them, and se-like, 70 %. GRADIENTS: files of float32, an even number, for Table 2's first row.
#
# RUNS (3) of each way, in turn. QUICK=1: little, and one run, in half a minute; to see that it works. SECTIONS: those to
# measure (all; their names: bench/sparse_page.sh sections; or one of several, as in throughput-criteo); the others stay as
# they are. PAGE=only: measures nothing, and makes the page of what OUT_DIR has. TALLY_BUILD (build/release), LAB: as
# bench/sparse.sh has them. N (8), LINK (20mbit), BATCH, BATCHES, DISTINCT, DEPTH, TABLE: likewise, with other defaults.
#
# Every run of bench/sparse.sh compares all sums with sums that were made without tally; one that is wrong is no figure.
# Nothing else should run: the load at the beginning and the end of every section is on the page. Needs root, iproute2,
# python3 and gnuplot; clang, bpftool and ethtool for losses.
set -euo pipefail
page=sparse_page
sections=${SECTIONS:-hot throughput workers keys precision layout exponents lns loss}
# shellcheck source=bench/page.sh
. "$(dirname "$(readlink -f "$0")")/page.sh"
export LAB=${LAB:-tally-sparse-page-$$} RUNS=${RUNS:-3}
export N=${N:-8} LINK=${LINK:-20mbit} SAMPLE=${SAMPLE:-8%} BATCH=${BATCH:-1000} BATCHES=${BATCHES:-300} DISTINCT=${DISTINCT:-50} DEPTH=${DEPTH:-40}
export TABLE=${TABLE:-pairs=2000000,age-us=400000} DENSE_BATCHES=${DENSE_BATCHES:-3} UPDATES=${UPDATES:-10000000}
keys=1000000 drawn=50000000 counts='1 10 100 1000 3000 10000 30000 60000 100000 300000 1000000'
workers='2 4' ranks='1000 10000 30000 60000 80000' rates='1 5 10' summed=8 sizes=1,30000,1000000
if [[ $quick ]]; then
	RUNS=1 N=2 LINK=50mbit BATCH=500 BATCHES=12 DISTINCT=6 DEPTH=4 DENSE_BATCHES=1 UPDATES=100000 TABLE=''
	keys=20000 drawn=200000 counts='1 20 600 3000 30000' workers=1 ranks='300 600' rates=500 summed=2 sizes=1,30000
fi
hot_keys=$((keys * 3 / 100)) # 30,000 of a million
declare -A exponent=([oa-like]=0.83 [se-like]=0.96)
made=(oa-like se-like) files=()

# prepare NAME=FILE[,COLUMNS]: as $scratch/NAME.
prepare() {
	local name=${1%%=*} file columns
	IFS=, read -r file columns <<<"${1#*=}"
	[[ $1 == *=* && $name =~ ^[A-Za-z0-9_]+$ && -r $file ]] || {
		echo "sparse_page.sh: not NAME=FILE[,COLUMNS] with a file that can be read: $1" >&2
		exit 2
	}
	if [[ -n $columns ]]; then
		cut -d ' ' -f "$columns" "$file" >"$scratch/$name"
	else
		ln -s "$(realpath "$file")" "$scratch/$name"
	fi
	echo "$name: $(basename "$file")${columns:+, columns $columns}" >>"$out/files"
	files+=("$name")
}

# source_of NAME UPDATES: the stream for tally hot, as $words.
source_of() {
	words=("$scratch/$1")
	[[ -z ${exponent[$1]-} ]] || words=(--zipf "${exponent[$1]}" --keys "$keys" --updates "$2")
}

# hot NAME OPTION...: an object of tally hot, with the stream's name.
hot() {
	local name=$1
	shift
	"$TALLY_BUILD/tools/tally" hot "$@" --json | sed "s/^{/{\"name\":\"$name\",/"
}

# curves NAME: what part of all updates the hottest keys have; all updates are counted.
curves() {
	local count words
	source_of "$1" "$UPDATES"
	for count in $counts; do
		hot "$1" "${words[@]}" --sample 100% --counters 4M --p 100% --c 100% --key-bytes 1 --memory "$count" || return 1
	done
}

# precision NAME: the keys that samples of 4 % and 8 % call hot, by the paper's rule, beside those of all updates.
precision() {
	local sample words
	source_of "$1" "$drawn"
	for sample in 4% 8%; do
		hot "$1" "${words[@]}" --sample "$sample" --knee --exact || return 1
	done
}

# measure NAME STREAM VARIABLE=VALUE...: bench/sparse.sh, what it prints for each run kept.
measure() {
	local name=$1 stream=$2 from=()
	shift 2
	if [[ -n ${exponent[$stream]-} ]]; then
		set -- ZIPF="${exponent[$stream]}" KEYS="$keys" UPDATES="$UPDATES" "$@"
	else
		from=("$scratch/$stream")
	fi
	section "$name" env KEEP="$out/$name" N="$N" LINK="$LINK" BATCH="$BATCH" BATCHES="$BATCHES" DISTINCT="$DISTINCT" \
		DEPTH="$DEPTH" TABLE="$TABLE" DENSE_BATCHES="$DENSE_BATCHES" RUNS="$RUNS" RANKS="$hot_keys" "$@" \
		"$here/sparse.sh" --json "${from[@]}"
}

# exponents RANKS SIZES: allreduces of numbers that need a common exponent, and of such that do not.
exponents() {
	"$TALLY_BUILD/tools/tally" run -n "$1" --no-prefix -- "$TALLY_BUILD/tools/tally" bench allreduce --elements "$2" --json
}

if [[ ${1-} == sections ]]; then
	echo "$sections"
	exit 0
fi
folder=$here/../build/sparse-page
if (($#)) && [[ $1 != *=* ]]; then
	folder=$1
	shift
fi
page_begin "$folder"
for file; do
	prepare "$file"
done
machine_tell >"$out/machine"
echo "$hot_keys $keys" >"$out/made"

for name in "${made[@]}" "${files[@]}"; do # a file that cannot be read costs its own section alone
	section "hot-$name" curves "$name"
done
for name in "${made[@]}" "${files[@]}"; do
	[[ -z $quick || $name == "${made[0]}" ]] || continue
	measure "throughput-$name" "$name" WAYS="hot off dense"
done
for n in $workers; do
	measure "workers-$n" "${made[0]}" WAYS="hot off" N="$n"
done
for name in "${made[@]}"; do
	[[ -z $quick || $name == "${made[0]}" ]] || continue
	for count in $ranks; do
		measure "keys-$name-$count" "$name" WAYS="hot off" RANKS="$count"
	done
done
for name in "${made[@]}" "${files[@]}"; do
	section "precision-$name" precision "$name"
done
for name in "${made[@]}"; do
	section "layout-$name" "$TALLY_BUILD/bench/layout_bench" --skew "${exponent[$name]}" --keys "$keys" --hot "$hot_keys"
done
section exponents exponents "$summed" "$sizes"
# shellcheck disable=SC2086 # words
section lns "$TALLY_BUILD/bench/lns_bench" ${GRADIENTS-}
for rate in $rates; do
	measure "loss-$rate" "${made[0]}" WAYS="hot lossy" OFFLOAD=off LOSS="$(printf '0.%04d' "$rate")"
done
python3 "$here/sparse_page.py" "$out"
((failures == 0))
