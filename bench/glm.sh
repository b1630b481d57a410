#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# glm.sh - time per epoch of tally glm train on hosts that are network namespaces, each behind a link of 1 Gbit/s
# (lab/lab.sh): over latency mode, over dense mode and over Open MPI (TCP, yielding), in turn.
#
#   bench/glm.sh [NAME=FILE...]     LIBSVM files, as NAME in the table; without any, made ones of the shapes of
#                                   a9a, w8a, news20 and gisette
#
# RANKS (4), BATCH (64), LINK (1gbit), BURST (128kb), DELAY (none): us that every packet is held on every link, each way
# (lab.sh delay, without offloads). RUNS (5) of each way in turn. EPOCHS (10): the time is the mean of
# all but the first, in which the micro-batch is measured. OPTIONS: more of tally glm train's. TALLY_BUILD (build/release).
#
# WAYS (latency dense auto mpi). Also kernel: auto, with the kernel as aggregator (tallyd --engine kernel). serial: latency
# mode, with nothing computed while a packet travels. lossy: latency mode while a share LOSS (0.01) of the packets is lost
# on all links, both ways (clang, bpftool, and OFFLOAD=off, which is for all ways). alone: one rank, which needs no network.
# liblinear: liblinear-train -s 0, all of it and not an epoch, reading the file included. Or, by itself, sum, sum-kernel, sum-dense,
# sum-mpi: not training but ITERS (5000) allreduces of 8 x int32, one by one. DATA (news20): the names for which
# data-parallel is measured as well, one epoch, DATA_RUNS (RUNS) times, by DATA_WAYS: data over tally, data-mpi over MPI
# (both).
#
# MADE (a9a w8a news20 gisette; there are real_sim rcv1 amazon_fashion avazu wide), ROWS (1): which files are made, and the
# part of their rows. MAKE: a folder; they are made there, and nothing else is done.
#
# RAW: a file for a line per run. KEEP: a folder for what each run has printed (--json), NAME.WAY.RUN.json, and a last
# line about the run: the model's digest, the load, packets seen and lost, joules.
#
# Ranks that share processors wait in the kernel, and those over MPI yield. Nothing else should run: the load is
# printed with the table. Needs root, iproute2 and python3; for mpi Open MPI (scripts/deps.sh bench).
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
TALLY_BUILD=$(realpath "${TALLY_BUILD:-$HERE/../build/release}")
export TALLY_BUILD
export LAB=${LAB:-tally-glm-$$}
data_ways=${DATA_WAYS:-data data-mpi}
ranks=${RANKS:-4} batch=${BATCH:-64} runs=${RUNS:-5} epochs=${EPOCHS:-10}
ways=${WAYS:-latency dense auto mpi} data=${DATA-news20}
aggregator=10.55.0.1:7171 kernel=10.55.0.1:7181
lab=$HERE/../lab/lab.sh
scratch=$(mktemp -d)
made=$scratch
# shellcheck source=lab/daemon.sh
. "$HERE/../lab/daemon.sh"

cleanup() {
	daemon_stop
	"$lab" down
	rm -rf "$scratch"
}
# make_file NAME ROWS FEATURES NONZEROS CLASSES: rows of a shape. Few features are in many rows, as words are; or all
# are.
make_file() {
	python3 - "$@" "${ROWS:-1}" >"$made/$1" <<-'END'
		import random, sys
		name, rows, features, per_row, classes = sys.argv[1], *(int(x) for x in sys.argv[2:6])
		draw = random.Random(name)
		weights = [draw.gauss(0, 1) for _ in range(features)]
		more = [[draw.gauss(0, 1) for _ in range(features)] for _ in range(classes if classes > 2 else 0)]
		value = per_row ** -0.5
		for _ in range(max(int(rows * float(sys.argv[6])), 10)):
		    used = set(range(features) if per_row == features else ())
		    while len(used) < per_row:
		        used.add(int(features * draw.random() ** 3))
		    used = sorted(used)
		    values = [value * draw.choice((1, -1)) if per_row == features else value for _ in used]
		    a = sum(weights[j] * x for j, x in zip(used, values))
		    label = 1 if a + draw.gauss(0, 0.3) > 0 else -1
		    if more:
		        label = 1 + max(range(classes), key=lambda c: sum(more[c][j] * x for j, x in zip(used, values)))
		    print(label, " ".join("%d:%.3g" % (j + 1, x) for j, x in zip(used, values)))
	END
}

# Those of MADE, in $made; NAME=FILE of each.
make_files() {
	local name
	for name in ${MADE:-a9a w8a news20 gisette}; do
		case $name in
		a9a) make_file a9a 32561 123 14 2 ;;
		w8a) make_file w8a 49749 300 12 2 ;;
		news20) make_file news20 4000 1355191 455 2 ;;
		gisette) make_file gisette 1000 5000 5000 2 ;;
		real_sim) make_file real_sim 7231 20958 51 2 ;;
		rcv1) make_file rcv1 2024 47236 74 2 ;;
		amazon_fashion) make_file amazon_fashion 1000 332710 30 5 ;;
		avazu) make_file avazu 4043 1000000 15 2 ;;
		wide) make_file wide 100000 1000000 40 2 ;;
		*) echo "MADE: no such shape: $name" >&2 && exit 2 ;;
		esac
		echo "$name=$made/$name"
	done
}

# Where the hub hears of the links.
devices() {
	seq -s , -f "$([[ ${DELAY-} ]] && echo t || echo p)%g" 0 $((ranks - 1))
}

# What mpirun starts its daemons with: the address says which namespace.
make_agent() {
	cat >"$scratch/agent" <<-END
		#!/bin/bash
		while [[ \$1 == -* ]]; do shift; done
		rank=\$((\${1##*.} - 10))
		shift
		exec ip netns exec $LAB-w\$rank unshare --uts bash -c "hostname $LAB-w\$rank; \$*"
	END
	chmod +x "$scratch/agent"
}

# over_tally COMMAND ARGUMENT...: one rank in each worker's namespace.
over_tally() {
	local rank pids=() failed=0
	for ((rank = 0; rank < ranks; rank++)); do
		TALLY_RANK=$rank TALLY_SIZE=$ranks TALLY_JOB=glm TALLY_AGGREGATOR=$aggregator \
			"$lab" exec "$rank" "$TALLY_BUILD/tools/tally" "$@" \
			>"$scratch/out.$rank" 2>"$scratch/err.$rank" &
		pids+=($!)
	done
	for rank in "${!pids[@]}"; do
		wait "${pids[$rank]}" || failed=1
	done
	mv "$scratch/out.0" "$scratch/out"
	((!failed)) || cat "$scratch"/err.* >&2
	return "$failed"
}

# over_mpi PROGRAM ARGUMENT...: the same.
over_mpi() {
	local hosts='' rank program=$1
	shift
	for ((rank = 0; rank < ranks; rank++)); do
		hosts+=${hosts:+,}10.55.0.$((10 + rank)):1
	done
	# shellcheck disable=SC2016 # the inner one expands it
	"$lab" exec hub unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' bash "$LAB-hub" \
		mpirun.openmpi --allow-run-as-root --bind-to none -H "$hosts" -np "$ranks" \
		--mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.55.0.0/24 \
		--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.55.0.0/24 \
		--mca mpi_yield_when_idle 1 "$TALLY_BUILD/$program" "$@" \
		>"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" >&2 && return 1; }
}

# What the processors have used so far, in microjoules; nothing where it cannot be read.
energy() {
	cat /sys/class/powercap/intel-rapl:?/energy_uj 2>/dev/null | awk '{ sum += $1 } END { if (NR) printf "%.0f", sum }' || true
}

# lossy_run ARGUMENT...: over tally, and the packets that were lost meanwhile.
lossy_run() {
	local result=0
	"$lab" loss "${LOSS:-0.01}"
	over_tally "$@" || result=$?
	lost=$("$lab" stat | awk 'END { printf "[%d,%d]", $3, $5 }')
	"$lab" loss off
	return "$result"
}

# keep NAME WAY ENERGY: what this run has printed, and what is known of it besides.
keep() {
	local file=$KEEP/$1.$2.$((run + 1)).json sum=null joules=null now
	now=$(energy)
	[[ ! -e $scratch/model ]] || sum="\"$(sha256sum <"$scratch/model" | cut -d ' ' -f 1)\""
	[[ -z $3 ]] || joules=$(awk -v a="$3" -v b="$now" 'BEGIN { if (b >= a) print (b - a) / 1e6; else print "null" }')
	cp "$scratch/out" "$file"
	echo "{\"run\":$((run + 1)),\"model_sha256\":$sum,\"load\":$(cut -d ' ' -f 1 /proc/loadavg),\"seen_lost\":${lost:-null},\"joules\":$joules}" >>"$file"
}

# One line of those that the ranks have printed, as tally bench has it.
ranks_merge() {
	python3 -B - "$HERE" "$ranks" "$scratch/out" <<-'END'
		import json, sys
		sys.path.insert(0, sys.argv[1])
		import compare_read
		rows = compare_read.rows_of([json.loads(line) for line in open(sys.argv[3])], int(sys.argv[2]))
		open(sys.argv[3], "w").write("".join(json.dumps(row) + "\n" for row in rows))
	END
}

# measure_sums NAME WAY: allreduces of 8 x int32, a line in $scratch/sums.
measure_sums() {
	local arguments=(bench allreduce --elements 8 --dtype int32 --iters "${ITERS:-5000}" --json)
	case $2 in
	sum-mpi) over_mpi bench/mpi --elements 8 --dtype int32 --iters "${ITERS:-5000}" && ranks_merge ;;
	sum-dense) over_tally "${arguments[@]}" ;;
	sum) over_tally "${arguments[@]}" --latency-slots 16 ;;
	sum-kernel) aggregator=$kernel over_tally "${arguments[@]}" --latency-slots 16 ;;
	esac
	python3 - "$1" "$2" "$scratch/out" >>"$scratch/sums" <<-'END'
		import json, sys
		row = json.loads(open(sys.argv[3]).readline())
		assert row["verified"], "wrong sums"
		print(*sys.argv[1:3], *("%s %.1f" % (name, row["tat_us_" + name]) for name in ("median", "p1", "p99")))
	END
	tail -n 1 "$scratch/sums" | tee -a "${RAW:-/dev/null}" >&2
}

# liblinear_run FILE: as if it were one epoch of tally glm train.
liblinear_run() {
	local begin rows
	grep -v '^[[:space:]]*$' "$1" >"$scratch/rows" # it takes no empty lines
	rows=$(wc -l <"$scratch/rows")
	begin=$EPOCHREALTIME
	liblinear-train -s 0 -q "$scratch/rows" "$scratch/liblinear" >&2 || return 1
	awk -v a="$begin" -v b="$EPOCHREALTIME" -v rows="$rows" 'BEGIN {
		printf "{\"loss\":NaN,\"train_s\":%.6f}\n", b - a
		printf "{\"loss\":NaN,\"rows\":%d,\"batch\":%d,\"comm\":\"liblinear\",\"micro_batch\":0}\n", rows, rows
	}' >"$scratch/out"
}

# measure NAME FILE WAY: a line in $scratch/times.
measure() {
	local way=$3 arguments before
	lost=
	before=$(energy)
	rm -f "$scratch/model"
	# shellcheck disable=SC2206 # words
	arguments=("$2" --json -B "$batch" -m "$scratch/model" ${OPTIONS-})
	case $way in
	sum*) measure_sums "$1" "$way" ;;
	mpi) over_mpi tools/tally-glm-mpi "${arguments[@]}" --epochs "$epochs" ;;
	data) over_tally glm train "${arguments[@]}" --epochs 1 --parallel data --comm dense ;;
	data-mpi) over_mpi tools/tally-glm-mpi "${arguments[@]}" --epochs 1 --parallel data ;;
	lossy) lossy_run glm train "${arguments[@]}" --epochs "$epochs" --comm latency ;;
	kernel) aggregator=$kernel over_tally glm train "${arguments[@]}" --epochs "$epochs" --comm auto ;;
	alone) "$TALLY_BUILD/tools/tally" glm train "${arguments[@]}" --epochs "$epochs" >"$scratch/out" ;;
	liblinear) liblinear_run "$2" ;;
	serial) over_tally glm train "${arguments[@]}" --epochs "$epochs" --comm latency --no-overlap ;;
	*) over_tally glm train "${arguments[@]}" --epochs "$epochs" --comm "$way" ;;
	esac
	[[ -z ${KEEP-} ]] || keep "$1" "$way" "$before"
	[[ $way != sum* ]] || return 0
	python3 - "$1" "$way" "$scratch/out" >>"$scratch/times" <<-'END'
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[3])]
		times, end = [0] + [epoch["train_s"] for epoch in lines[:-1]], lines[-1]
		first = min(1, len(times) - 2)
		per_epoch = (times[-1] - times[first]) / (len(times) - 1 - first)
		print(*sys.argv[1:3], per_epoch * 1e3, per_epoch * 1e6 / -(-end["rows"] // end["batch"]),
		      end["comm"], end["micro_batch"], end["loss"])
	END
	tail -n 1 "$scratch/times" | tee -a "${RAW:-/dev/null}" >&2
}

# The median, the least and the most of each file and way.
table() {
	python3 - "$scratch/times" <<-'END'
		import statistics, sys
		runs = {}
		for line in open(sys.argv[1]):
		    name, way, ms, us, comm, micro, loss = line.split()
		    runs.setdefault((name, way), []).append((float(ms), float(us), comm + "/" + micro, float(loss)))
		print("%-10s %-9s %4s %10s %21s %12s %8s  %s" % ("# file", "way", "runs", "ms/epoch", "least..most",
		      "us/minibatch", "mpi/this", "mode/micro-batch, how often"))
		for (name, way), all in runs.items():
		    ms = [run[0] for run in all]
		    mpi = [run[0] for run in runs.get((name, "mpi"), [])]
		    modes = [run[2] for run in all]
		    print("%-10s %-9s %4d %10.1f %21s %12.1f %8s  %s" % (name, way, len(all), statistics.median(ms),
		          "%.1f..%.1f" % (min(ms), max(ms)), statistics.median(run[1] for run in all),
		          "%.2f" % (statistics.median(mpi) / statistics.median(ms)) if mpi else "-",
		          " ".join("%s %dx" % (mode, modes.count(mode)) for mode in sorted(set(modes)))))
		    losses = [run[3] for other, all in runs.items() if other[0] == name and "data" not in other[1] and other[1] != "liblinear" for run in all]
		    assert "data" in way or way == "liblinear" or max(losses) == min(losses), "the ways do not train the same model"
	END
}

skip() {
	echo "SKIP: bench/glm.sh: $*"
	exit 77
}

trap 'rm -rf "$scratch"' EXIT
if [[ ${MAKE-} ]]; then
	made=$(realpath "$MAKE")
	make_files >/dev/null
	exit 0
fi
((EUID == 0)) || skip "not root"
for program in ip tc python3; do
	command -v "$program" >/dev/null || skip "no $program (scripts/deps.sh bench)"
done
[[ " $ways " != *" lossy "* ]] || needed='clang bpftool'
for program in ${needed-} ${OFFLOAD:+ethtool}; do
	command -v "$program" >/dev/null || skip "no $program (scripts/deps.sh test)"
done
ip netns add "$LAB-probe" 2>/dev/null || skip "the kernel refuses a namespace"
has_shaper=
if ip -n "$LAB-probe" link add v type veth peer name p 2>/dev/null &&
	tc -n "$LAB-probe" qdisc add dev v root tbf rate 1gbit burst 128kb limit 2mb 2>/dev/null; then
	has_shaper=yes
fi
ip netns del "$LAB-probe"
[[ $has_shaper ]] || skip "no veth or no tbf in this kernel"
if ! [[ -x $TALLY_BUILD/tools/tally-glm-mpi ]] || ! command -v mpirun.openmpi >/dev/null; then
	echo "# SKIP: no Open MPI (scripts/deps.sh bench)"
	ways=$(tr ' ' '\n' <<<"$ways" | grep -v mpi | tr '\n' ' ')
	data_ways=data
fi

if [[ " $ways " == *" liblinear "* ]] && ! command -v liblinear-train >/dev/null; then
	echo "# SKIP: no liblinear (scripts/deps.sh test)"
	ways=$(tr ' ' '\n' <<<"$ways" | grep -v liblinear | tr '\n' ' ')
fi

trap cleanup EXIT
"$lab" up "$ranks"
"$lab" shape "${LINK:-1gbit}" "${BURST:-128kb}" 2mb
[[ -z ${OFFLOAD-} ]] || "$lab" offload "$OFFLOAD"
if [[ ${DELAY-} ]]; then
	status=0
	"$lab" delay "$DELAY" 2>"$scratch/delay" || status=$?
	((status != 77)) || skip "$(tail -n 1 "$scratch/delay")"
	((status == 0)) || { cat "$scratch/delay" >&2 && exit "$status"; }
fi
make_agent
daemon_start "$scratch/tallyd" "$TALLY_BUILD/tools/tallyd" --listen "$aggregator"
if [[ " $ways " == *kernel* ]] && ! daemon_start "$scratch/kernel" "$TALLY_BUILD/tools/tallyd" --listen "$kernel" \
	--engine kernel --devices "$(devices)"; then
	echo "# SKIP: no tallyd --engine kernel"
	ways=$(tr ' ' '\n' <<<"$ways" | grep -v kernel | tr '\n' ' ')
fi
if (($# == 0)); then
	mapfile -t files < <(if [[ $ways == sum* ]]; then echo int32x8=/dev/null; else make_files; fi)
	set -- "${files[@]}"
fi
for ((run = 0; run < runs; run++)); do
	for file in "$@"; do
		for way in $ways; do
			measure "${file%%=*}" "${file#*=}" "$way"
		done
		((run < ${DATA_RUNS:-$runs})) || continue
		[[ " $data " == *" ${file%%=*} "* ]] || continue
		for way in $data_ways; do
			measure "${file%%=*}" "${file#*=}" "$way"
		done
	done
done
echo "# $ranks ranks, batch $batch, links of ${LINK:-1gbit}${DELAY:+, $DELAY us each way}, hub unshaped, $(nproc) processors:$(
	sed -n 's/^model name[^:]*://p' /proc/cpuinfo | sed -n 1p), load $(cut -d ' ' -f 1-3 /proc/loadavg)"
[[ -z ${DELAY-} ]] || "$lab" delay off | sed 's/^/# /'
[[ ! -e $scratch/times ]] || table
[[ ! -e $scratch/sums ]] || cat "$scratch/sums"
