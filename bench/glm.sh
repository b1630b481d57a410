#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# glm.sh - time per epoch of tally glm train on hosts that are network namespaces, each behind a link of 1 Gbit/s
# (lab/lab.sh): over latency mode, over dense mode and over Open MPI (TCP, yielding), in turn.
#
#   bench/glm.sh [NAME=FILE...]     LIBSVM files, as NAME in the table; without any, made ones of the shapes of
#                                   a9a, w8a, news20 and gisette
#
# RANKS (4), BATCH (64), LINK (1gbit), RUNS (5) of each way in turn. EPOCHS (3): the time is the mean of all but the
# first, in which the micro-batch is measured. WAYS (latency dense auto mpi). DATA (news20): the names for which
# data-parallel is measured as well, one epoch, DATA_RUNS (RUNS) times: data over tally, data-mpi over MPI. OPTIONS:
# more of tally glm train's. MADE (all four), ROWS (1): which files are made, and the part of their rows. BUILD
# (build/release). RAW: a file for a line per run.
#
# Ranks that share processors wait in the kernel, and those over MPI yield. Nothing else should run: the load is
# printed with the table. Needs root, iproute2 and python3; for mpi Open MPI (scripts/deps.sh bench).
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
BUILD=$(realpath "${BUILD:-$HERE/../build/release}")
export LAB=${LAB:-tally-glm}
ranks=${RANKS:-4} batch=${BATCH:-64} runs=${RUNS:-5} epochs=${EPOCHS:-3}
ways=${WAYS:-latency dense auto mpi} data=${DATA-news20}
aggregator=10.55.0.1:7171
lab=$HERE/../lab/lab.sh
scratch=$(mktemp -d)
daemon=

cleanup() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
	"$lab" down
	rm -rf "$scratch"
}
# make_file NAME ROWS FEATURES NONZEROS: rows of a shape. Few features are in many rows, as words are; or all are.
make_file() {
	python3 - "$@" "${ROWS:-1}" >"$scratch/$1" <<-'END'
		import random, sys
		name, rows, features, per_row = sys.argv[1], *(int(x) for x in sys.argv[2:5])
		draw = random.Random(name)
		weights = [draw.gauss(0, 1) for _ in range(features)]
		value = per_row ** -0.5
		for _ in range(max(int(rows * float(sys.argv[5])), 10)):
		    used = range(features) if per_row == features else sorted(
		        {int(features * draw.random() ** 3) for _ in range(per_row)})
		    values = [value * draw.choice((1, -1)) if per_row == features else value for _ in used]
		    a = sum(weights[j] * x for j, x in zip(used, values))
		    label = 1 if a + draw.gauss(0, 0.3) > 0 else -1
		    print(label, " ".join("%d:%.3g" % (j + 1, x) for j, x in zip(used, values)))
	END
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

start_daemon() {
	"$lab" exec hub "$BUILD/tools/tallyd" --listen "$aggregator" 2>"$scratch/tallyd" &
	daemon=$!
	for _ in $(seq 100); do
		! grep -q ready "$scratch/tallyd" || return 0
		sleep 0.05
	done
	cat "$scratch/tallyd" >&2
	return 1
}

# over_tally ARGUMENT...: one rank in each worker's namespace.
over_tally() {
	local rank pids=() failed=0
	for ((rank = 0; rank < ranks; rank++)); do
		TALLY_RANK=$rank TALLY_SIZE=$ranks TALLY_JOB=glm TALLY_AGGREGATOR=$aggregator \
			"$lab" exec "$rank" "$BUILD/tools/tally" glm train "$@" \
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

over_mpi() {
	local hosts='' rank
	for ((rank = 0; rank < ranks; rank++)); do
		hosts+=${hosts:+,}10.55.0.$((10 + rank)):1
	done
	# shellcheck disable=SC2016 # the inner one expands it
	"$lab" exec hub unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' bash "$LAB-hub" \
		mpirun.openmpi --allow-run-as-root --bind-to none -H "$hosts" -np "$ranks" \
		--mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.55.0.0/24 \
		--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.55.0.0/24 \
		--mca mpi_yield_when_idle 1 "$BUILD/tools/tally-glm-mpi" "$@" \
		>"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" >&2 && return 1; }
}

# measure NAME FILE WAY: a line in $scratch/times.
measure() {
	local way=$3 arguments
	# shellcheck disable=SC2206 # words
	arguments=("$2" --json -B "$batch" ${OPTIONS-})
	case $way in
	mpi) over_mpi "${arguments[@]}" --epochs "$epochs" ;;
	data) over_tally "${arguments[@]}" --epochs 1 --parallel data --comm dense ;;
	data-mpi) over_mpi "${arguments[@]}" --epochs 1 --parallel data ;;
	*) over_tally "${arguments[@]}" --epochs "$epochs" --comm "$way" ;;
	esac
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
		    losses = [run[3] for other, all in runs.items() if other[0] == name and "data" not in other[1] for run in all]
		    assert max(losses) == min(losses) or "data" in way, "the ways do not train the same model"
	END
}

skip() {
	echo "SKIP: bench/glm.sh: $*"
	exit 77
}

((EUID == 0)) || skip "not root"
for program in ip tc python3; do
	command -v "$program" >/dev/null || skip "no $program (scripts/deps.sh bench)"
done
ip netns add "$LAB-probe" 2>/dev/null || skip "the kernel refuses a namespace"
has_shaper=
if ip -n "$LAB-probe" link add v type veth peer name p 2>/dev/null &&
	tc -n "$LAB-probe" qdisc add dev v root tbf rate 1gbit burst 128kb limit 2mb 2>/dev/null; then
	has_shaper=yes
fi
ip netns del "$LAB-probe"
[[ $has_shaper ]] || skip "no veth or no tbf in this kernel"
if ! [[ -x $BUILD/tools/tally-glm-mpi ]] || ! command -v mpirun.openmpi >/dev/null; then
	echo "# without Open MPI (scripts/deps.sh bench)"
	ways=${ways/ mpi/}
	data_ways=data
fi

trap cleanup EXIT
"$lab" up "$ranks"
"$lab" shape "${LINK:-1gbit}" 128kb 2mb
make_agent
start_daemon
if (($# == 0)); then
	for name in ${MADE:-a9a w8a news20 gisette}; do
		case $name in
		a9a) make_file a9a 32561 123 14 ;;
		w8a) make_file w8a 49749 300 12 ;;
		news20) make_file news20 4000 1355191 455 ;;
		gisette) make_file gisette 1000 5000 5000 ;;
		*) echo "MADE: no such shape: $name" >&2 && exit 2 ;;
		esac
		set -- "$@" "$name=$scratch/$name"
	done
fi
for ((run = 0; run < runs; run++)); do
	for file in "$@"; do
		for way in $ways; do
			measure "${file%%=*}" "${file#*=}" "$way"
		done
		((run < ${DATA_RUNS:-$runs})) || continue
		[[ " $data " == *" ${file%%=*} "* ]] || continue
		for way in ${data_ways:-data data-mpi}; do
			measure "${file%%=*}" "${file#*=}" "$way"
		done
	done
done
echo "# $ranks ranks, batch $batch, links of ${LINK:-1gbit}, hub unshaped, $(nproc) processors:$(
	sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1), load $(cut -d ' ' -f 1-3 /proc/loadavg)"
table
