#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# glm_page.sh - the figures and tables of P4SGD (Huang et al., TPDS 2023) for tally glm, as they come out here: measures
# with bench/glm.sh (4 hosts that are network namespaces, links of 1 Gbit/s), writes OUT_DIR/glm.html.
#
#   bench/glm_page.sh [OUT_DIR] [NAME=FILE[,TEST[,CLASS]]...]
#
# OUT_DIR (build/glm-page) also keeps what every run printed. FILE and TEST are LIBSVM files; without TEST, every fifth row
# is kept from training where accuracy is measured; CLASS: that label, or A..B, against the rest. Names with a meaning:
# `gisette*` is also trained with few bits and with threads, `rcv1*` is taken for the figures over B. Without files, and for what is
# not among them, there are made ones with the shapes of the paper's.
#
# RUNS (5) of each way, in turn. QUICK=1: small made files and one run, in a minute; to see that it works. SECTIONS: those
# to measure (all; their names: bench/glm_page.sh sections); the others stay as they are in OUT_DIR. PAGE=only: measures
# nothing, and makes the page of what is there. TALLY_BUILD (build/release), LAB: as bench/glm.sh has them.
#
# Nothing else should run: the load at the beginning and the end of every section is on the page. Needs root, iproute2,
# python3 and gnuplot; Open MPI, clang and bpftool, liblinear-tools for what is compared with them.
set -euo pipefail
page=glm_page
sections=${SECTIONS:-latency sim epoch loss batch threads ranks shapes overlap curves bits memory same accuracy}
# shellcheck source=bench/page.sh
. "$(dirname "$(readlink -f "$0")")/page.sh"
export LAB=${LAB:-tally-page-$$} RUNS=${RUNS:-5}
[[ -z $quick ]] || RUNS=1

# measure NAME VARIABLE=VALUE... -- FILE...: bench/glm.sh, each run kept.
measure() {
	local name=$1 variables=()
	shift
	while [[ $1 != -- ]]; do
		variables+=("$1")
		shift
	done
	shift
	section "$name" env KEEP="$out/$name" DATA= "${variables[@]}" "$here/glm.sh" "$@"
}

# Files as the sections want them, in $scratch: NAME plain, NAME.train and NAME.test for accuracy.
prepare() {
	local name=${1%%=*} file test class
	IFS=, read -r file test class <<<"${1#*=}"
	[[ $name =~ ^[A-Za-z0-9_-]+$ && -r $file && (-z $test || -r $test) ]] || {
		echo "glm_page.sh: not NAME=FILE[,TEST[,CLASS]] with files that can be read: $1" >&2
		exit 2
	}
	python3 - "$scratch/$name" "$file" "$test" "$class" <<-'END'
		import gzip, lzma, sys
		to, file, test, chosen = sys.argv[1:5]
		first, last = (float(chosen.split("..")[i]) for i in (0, -1)) if chosen else (0, 0)
		def rows(path):
		    how = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open}.get(open(path, "rb").read(2), open)
		    for line in how(path, "rt"):
		        if not line.strip():
		            continue
		        if chosen:
		            label, rest = line.split(None, 1)
		            line = "%s %s" % ("+1" if first <= float(label) <= last else "-1", rest)
		        yield line if line.endswith("\n") else line + "\n"
		with open(to, "w") as whole, open(to + ".train", "w") as train, open(to + ".test", "w") as held:
		    for i, line in enumerate(rows(file)):
		        whole.write(line)
		        (held if not test and i % 5 == 4 else train).write(line)
		    for line in rows(test) if test else ():
		        held.write(line)
	END
	echo "$name: ${file/#$scratch\//}${test:+ $(basename "$test")}${test:+ as its test}${class:+, class $class against the rest}" >>"$out/files"
}

# first PATTERN...: the first file whose name is like one of them.
first() {
	local pattern file
	for pattern in "$@"; do
		for file in "${files[@]}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ ${file%%=*} != $pattern ]] || { echo "$file" && return; }
		done
	done
}

# accuracy NAME...: 4 ranks, model-parallel, beside liblinear with its defaults, on the same rows.
accuracy() {
	local name file
	for name in "$@"; do
		file=$scratch/$name
		ranks_of 4 "$TALLY_BUILD/tools/tally" glm train "$file.train" --test "$file.test" --json \
			>"$scratch/accuracy" || return 1
		python3 - "$name" "$scratch/accuracy" <<-'END'
			import json, sys
			end = json.loads(open(sys.argv[2]).read().splitlines()[-1])
			print(sys.argv[1], end["rows"], end["classes"], end["accuracy"], end["test_accuracy"], end="")
		END
		if command -v liblinear-train >/dev/null; then
			liblinear-train -s 0 -q "$file.train" "$scratch/liblinear" >&2 || return 1
			liblinear-predict "$file.test" "$scratch/liblinear" "$scratch/labels" |
				sed -n 's/^Accuracy = \([0-9.]*\)%.*/ \1/p'
		else
			echo " -"
		fi
	done
}

# ranks_of N COMMAND...: on this machine, N ranks, no namespaces.
ranks_of() {
	local n=$1
	shift
	"$TALLY_BUILD/tools/tally" run -n "$n" --no-prefix -- "$@"
}

# memory FILE RANKS...: the most that any of so many ranks has ever had resident, and how long they took.
memory() {
	local file=$1 n
	shift
	cat >"$scratch/resident" <<-'END'
		import os, resource, subprocess, sys
		status = subprocess.call(sys.argv[2:])
		kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
		open("%s.%s" % (sys.argv[1], os.environ["TALLY_RANK"]), "w").write("%d\n" % kib)
		sys.exit(status)
	END
	for n in "$@"; do
		rm -f "$scratch"/kib.*
		ranks_of "$n" python3 "$scratch/resident" "$scratch/kib" "$TALLY_BUILD/tools/tally" glm train "$file" --epochs 3 \
			--json -m "$scratch/model.$n" >"$scratch/memory" || return 1
		python3 - "$n" "$scratch/memory" "$(sha256sum <"$scratch/model.$n" | cut -d ' ' -f 1)" "$scratch"/kib.* <<-'END'
			import json, sys
			lines = [json.loads(line) for line in open(sys.argv[2])]
			kib = [int(open(path).read()) for path in sys.argv[4:]]
			assert len(kib) == int(sys.argv[1])
			print(json.dumps({"ranks": len(kib), "kib_most": max(kib), "kib_least": min(kib), "model": sys.argv[3],
			                  "epoch_s": (lines[2]["train_s"] - lines[0]["train_s"]) / 2, "rows": lines[-1]["rows"],
			                  "features": lines[-1]["features"], "nonzeros": lines[-1]["nonzeros"]}))
		END
	done
}

# alike FILE: the model and the losses of every number of ranks and every micro-batch.
alike() {
	local n micro
	for n in 1 2 3 4 8; do
		for micro in 1 8 64; do
			ranks_of "$n" "$TALLY_BUILD/tools/tally" glm train "$1" --epochs 3 -b "$micro" --json -m "$scratch/model" \
				>"$scratch/alike" || return 1
			python3 - "$scratch/alike" "$(sha256sum <"$scratch/model" | cut -d ' ' -f 1)" <<-'END'
				import json, sys
				lines = [json.loads(line) for line in open(sys.argv[1])]
				print(json.dumps({"ranks": lines[-1]["ranks"], "micro": lines[-1]["micro_batch"], "comm": lines[-1]["comm"],
				                  "loss": [line["loss"] for line in lines[:-1]], "model": sys.argv[2]}))
			END
		done
	done
}

# simulate RANKS...: 8 x int32 once, by the simulator: cables of 1 Gbit/s, an aggregator with a port of as much and one
# without a bound. A line for each of several seeds; a packet then comes at another time of its receiver's round.
simulate() {
	local n seed hub
	for n in "$@"; do
		for seed in {1..25}; do
			for hub in '' 1gbit; do
				"$TALLY_BUILD/tools/tally" sim --topology "$n" --link 1gbit ${hub:+--hub "$hub"} --message 32 --lanes 8 --seed "$seed" --json
			done
		done
	done
}

if [[ ${1-} == sections ]]; then
	echo "$sections"
	exit 0
fi
folder=$here/../build/glm-page
if (($#)) && [[ $1 != *=* ]]; then
	folder=$1
	shift
fi
page_begin "$folder"
files=()
shapes='real_sim rcv1 amazon_fashion avazu'
note "making files with the paper's shapes"
mkdir "$scratch/made"
if [[ $quick ]]; then
	shapes=rcv1
	MAKE=$scratch/made MADE="a9a rcv1 gisette" ROWS=0.1 "$here/glm.sh"
else
	MAKE=$scratch/made MADE="a9a w8a gisette $shapes" "$here/glm.sh"
fi
if (($# == 0)); then
	for name in a9a gisette $([[ $quick ]] || echo w8a); do
		set -- "$@" "$name=$scratch/made/$name"
	done
fi
for file in "$@"; do
	prepare "$file"
	files+=("${file%%=*}=$scratch/${file%%=*}")
done
stand_ins=()
for name in $shapes; do
	stand_ins+=("made-$name=$scratch/made/$name")
done
sparse=$(first 'rcv1*')
sparse=${sparse:-made-rcv1=$scratch/made/rcv1}
dense=$(first 'gisette*')
small=$(first a9a '*')
batches='16 64 256 1024' ranks='1 2 4 8' simulated='2 4 8 16 32' memory_ranks='1 2 4' iterations=5000
epoch_ways='latency dense auto kernel mpi alone liblinear' data_ways='data data-mpi' scaled=("${dense:-$small}" "${stand_ins[0]}" "$sparse")
overlap_batch=512 more=$sparse mpi=' mpi'
overlaps='2-119-0us 2-119-250us 2-119-500us 2-119-1000us 2-32-500us 2-8-500us 4-119-500us' overlap_rows=2.048
if [[ $quick ]]; then
	batches='16 64' ranks='1 4' iterations=300 epoch_ways='auto kernel mpi alone liblinear'
	overlap_batch=64 overlaps='2-8-250us 2-8-0us' overlap_rows=0.1 more='' mpi=''
	data_ways=data scaled=("$sparse")
	export EPOCHS=2
fi
{
	machine_tell
	mpirun.openmpi --version 2>/dev/null | sed -n 1p || echo 'no Open MPI'
} >"$out/machine"

measure latency WAYS="sum sum-kernel sum-dense sum-mpi" ITERS="$iterations" --
# shellcheck disable=SC2086 # words
section sim simulate $simulated
measure epoch WAYS="$epoch_ways" -- "${files[@]}"
measure loss WAYS="latency lossy" LOSS=0.01 OFFLOAD=off -- "$small"
for b in $batches; do
	measure "batch-$b" BATCH="$b" WAYS="auto$mpi" DATA="${sparse%%=*}" DATA_WAYS="$data_ways" -- "$sparse"
done
for threads in 1 2; do
	measure "threads-$threads" RANKS=1 WAYS=auto OPTIONS="--threads $threads" -- ${dense:+"$dense"} "${stand_ins[0]}"
done
for n in $ranks; do
	measure "ranks-$n" RANKS="$n" BATCH=16 WAYS=auto OPTIONS="-b 8" DATA="${sparse%%=*}" DATA_RUNS=1 DATA_WAYS=data -- \
		"${scaled[@]}"
done
measure shapes WAYS="auto$mpi" -- "${stand_ins[@]}"
# A long link takes time and no processor, but for the delay line's: RANKS-MB-DELAY. Rows that take long: what a micro-batch
# is to the computation, its packets are not to be to the processors that all ranks share.
mkdir "$scratch/long"
[[ " $sections " != *" overlap "* ]] || MAKE=$scratch/long MADE=gisette ROWS=$overlap_rows "$here/glm.sh"
for overlap in $overlaps; do
	IFS=- read -r n micro delay <<<"$overlap"
	delay=${delay%us}
	measure "overlap-$overlap" RANKS="$n" BATCH="$overlap_batch" DELAY="${delay#0}" OFFLOAD=off \
		WAYS="latency serial" OPTIONS="-b $micro" -- "made-gisette=$scratch/long/gisette"
done
measure curves RUNS=1 EPOCHS="$((quick ? 2 : 10))" WAYS="auto$mpi" -- "$small" ${more:+"$more"}
[[ -z $dense ]] || section bits "$here/glm_bits.sh" "$scratch/${dense%%=*}.train" \
	"$scratch/${dense%%=*}.test" "$out/bits.svg"
[[ " $sections " != *" memory "* ]] || MAKE=$scratch/made MADE=wide ROWS=${quick:+0.01} "$here/glm.sh"
# shellcheck disable=SC2086 # words
section memory memory "$scratch/made/wide" $memory_ranks
section same alike "${sparse#*=}"
section accuracy accuracy "${files[@]%%=*}"
[[ -d $out/bits && -e $out/bits.svg ]] || rm -f "$out/bits.svg"
python3 "$here/glm_page.py" "$out"
((failures == 0))
